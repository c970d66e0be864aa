/* Inside the extension module: arrays of any library as tensors (array.c), calls of kernels (kernel.c, plan.c), devices and
 * the lock (device.c), cases (case.c), XLA's calls (xla.c).
 *
 * Two locks.  The library is used by one thread at a time: device_lock.  A thread that waits for it does not hold
 * Python's own lock, and one that holds it never waits for Python's.  So nothing between lock and unlock calls Python, but
 * for a launch that is known to be short, which keeps Python's lock if it had device_lock at once. */
#ifndef TEGULA_EXT_H
#define TEGULA_EXT_H

/* No formats with '#': compiled with the headers of 3.13 or later they fail in 3.10 to 3.12, and so, as
 * PY_SSIZE_T_CLEAN is not defined, with any. */
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"
#include "runtime/tgl.h"

#define LEN(a) ((int)(sizeof(a) / sizeof *(a)))

enum { MAX_PARAMS = 48, MAX_VALUES = 32, MAX_CUDA = 16 };

/* ---- module.c ---- */

typedef struct Names {
	PyObject *out, *device, *dlpack, *dlpack_device, *array_interface, *exchange, *dtype, *name, *shape;
	PyObject *error;                /* tegula.Error, made by the package: called with a report's fields */
	PyObject *foreign;              /* calls with arrays of JAX, which may be traced */
	PyObject *libraries;            /* tegula._libraries */
	PyObject *numpy_empty;
} Names;

extern Names names;

/* ---- device.c ---- */

typedef struct Ask {
	PyThreadState *save;
} Ask;

/* What the library reported, copied while it was locked. */
typedef struct Report {
	TglStatus status;
	char *code, *message, *file, *text, *printed;
	int line, col;
} Report;

typedef struct Dev {
	TglDevice *dev;                 /* NULL: not opened yet */
	bool cuda;
	int index;                      /* of a GPU */
	char name[40];
	TglTensor *pool[MAX_PARAMS];    /* descriptions of arguments, set anew in each call */
	TglStream *stream[8];
	int nstreams;
} Dev;

extern TglContext *context;             /* the process's; locked */

/* `shortly`: what follows takes microseconds. */
void library_lock(Ask *ask, bool shortly);
void library_lock_alone(void);          /* by a thread without Python's lock */
void library_unlock_alone(void);
void library_unlock(Ask *ask);
void report_take(Report *r, TglStatus s); /* locked */
/* Raises it, if it failed, and frees it; true: it was good. */
bool report_raise(Report *r);
void report_free(Report *r);
bool context_open(void);
/* Locked.  NULL: the context has the error. */
Dev *device_find(bool cuda, int index);
Dev *device_named(const char *name);
TglStream *device_stream(Dev *d, void *handle);
/* The pool's tensor i as `a` has it; false: the context has the error, and the next report names the argument. */
struct Array;
bool device_tensor(Dev *d, int i, const struct Array *a, const char *argument);

/* ---- array.c, array_numpy.c, array_new.c ---- */

typedef struct Access {
	PyTypeObject *type;
	enum { ACCESS_NONE, ACCESS_NUMPY, ACCESS_EXCHANGE, ACCESS_DLPACK, ACCESS_FOREIGN } kind;
	const DlExchange *api;
	PyObject *is_neg;               /* PyTorch's: whether memory has the negative of the elements; else NULL */
} Access;

typedef struct Array {
	const Access *access;
	Access own;                     /* where there is no room for its type */
	int dtype;                      /* TglDType */
	int rank;
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK];
	void *data;
	bool cuda, read_only;
	int index;                      /* of the GPU */
	DlManaged *managed;             /* or */
	DlVersioned *versioned;         /* what is given back after the call */
	PyObject *owner;                /* keeps the memory; or NULL */
} Array;

const Access *access_of(PyObject *o, Access *own); /* never NULL; perhaps own */
bool array_describe(PyObject *o, const char *param, Array *out); /* by .shape and .dtype */
bool array_read(PyObject *o, const char *param, Array *out);
bool array_read_numpy(PyObject *o, const char *param, Array *out);
bool array_fail(const char *param, const char *what);   /* raises; false */
bool array_no_dtype(const char *param, PyObject *dtype); /* the same, of one that no dtype here is; may be NULL */
bool array_extents(PyObject *tuple, int64_t *out, int n);
bool array_is_whole(const char *param, TglDType t);     /* no packed one, which libraries other than ours do not pack */
void array_release(Array *a);
void array_unpack(Array *a);            /* dimensions and strides of bytes become those of packed elements */
/* A new array of the library of `like`; its description in *out. */
PyObject *array_new(const Array *like, const TglShape *shape, Array *out);
bool array_stream(const Array *like, void **stream);
void array_contiguous(Array *a);        /* row-major strides */
DlType shape_stored(const TglShape *s, int64_t *dim); /* its dtype and extents in a library: of packed ones, bytes */
DlType dtype_stored(int dtype);         /* as a library stores it: packed ones as bytes */
const char *dtype_library_name(int dtype); /* "float8_e4m3fn" */
/* A dtype by its name, or as NumPy, PyTorch and JAX write it: torch.float16, np.dtype('float32'). */
bool dtype_read(PyObject *o, TglDType *out);

/* ---- call.c, kernel.c ---- */

typedef struct Param {
	PyObject *name;
	TglParam p;
} Param;

typedef struct Plan Plan;
typedef struct KernelObject {
	PyObject_HEAD
	PyObject *program;              /* keeps it */
	TglKernel *k;
	int n;
	Param *param;
	Plan **plans;
	int nplans;
} KernelObject;

/* What a call gives, before anything is allocated. */
typedef struct Call {
	KernelObject *k;
	int n;                          /* as KernelObject.n */
	PyObject *object[MAX_PARAMS];   /* borrowed; NULL: not given */
	Array array[MAX_PARAMS];
	bool is_array[MAX_PARAMS];
	PyObject *made[MAX_PARAMS];     /* outputs that were allocated; owned */
	TglArg scalar[MAX_PARAMS];
	TglArg value[MAX_VALUES];       /* compile-time values by name */
	int nvalues;
	PyObject *out;                  /* out=, or NULL */
	const char *device;             /* device=, or NULL */
	const char *example;            /* of cases: example=, or NULL */
	bool is_case;                   /* parameters may be missing, and example= chooses */
	bool is_abstract;               /* arrays have a shape and a dtype, and no memory */
	bool is_foreign;                /* there is one of JAX */
} Call;

bool param_is_tensor(const TglParam *p);
bool param_is_written(const TglParam *p);
bool value_read(PyObject *o, const char *name, TglArg *out);
/* Sorts arguments to parameters. */
bool call_begin(Call *c, KernelObject *k, PyObject *args, PyObject *kwargs);
bool call_complete(const Call *c);      /* whether all tensors that are read are given; false: an error is set */
/* Reads arrays; false: an error is set. */
bool call_read(Call *c);
/* stored.c: an array becomes one of the elements that its bytes stand for; when all are read, packed rows of an odd number
 * of elements. */
void call_stored(Call *c, int i);
void call_settle(Call *c);
bool call_allocate(Call *c);             /* outputs that are not given */
void call_end(Call *c);
/* Arguments for the library, of a device that is locked; false: the context has the error. */
bool call_arguments(Call *c, Dev *d, TglArg *args, int *n);
Dev *call_device(const Call *c);        /* locked */
int call_first(const Call *c);          /* the first parameter with an array; -1: none */
PyObject *method_shapes(PyObject *self, PyObject *args, PyObject *kwargs);

/* ---- plan.c ---- */

struct Plan {
	int64_t *key;
	int nkey;
	bool shaped, launched;
	TglShape shape[];
};

Plan *plan_find(Call *c);
/* The plan with shapes of all parameters; NULL: an error is set. */
Plan *plan_shapes(Call *c);
void plans_close(KernelObject *k);

/* ---- case.c, xla.c ---- */

PyObject *method_code(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *method_bench(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *method_example(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *method_tune(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *method_check(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *xla_handler(PyObject *module, PyObject *args);
PyObject *xla_keep(PyObject *module, PyObject *args);

#endif
