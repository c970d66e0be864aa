/* Inside the runtime: what the files of this folder share.  Users see runtime/tgl.h alone.
 *
 * Every public function begins with context_begin, which forgets the last call's error, and
 * ends a failure with context_fail, which renders what was reported.  Functions without the
 * tgl_ prefix report into a Compile and return false; they never touch the context's error, so
 * that they can call each other. */
#ifndef TEGULA_RUNTIME_H
#define TEGULA_RUNTIME_H

#include "compile/compile.h"
#include "runtime/cache/cache.h"
#include "runtime/device.h"
#include "runtime/cache/hash.h"

typedef struct Instance Instance;

struct TglContext {
	int refs;                       /* the user's handle and every object opened on it */
	bool closed;
	Compile *own;                   /* reports that have no program */
	TglError error;
	Text text, json, message, file;
	char code[8];
	int limit;
	bool color;
	DeviceHooks hooks;
	TglCompileOptions compile;      /* texts are this context's copies */
	DeviceProbe probe;              /* what tgl_device_list said last */
	Cache *cache;                   /* NULL until needed */
	TglTuning tuning;
	int64_t compiled, found;        /* artefacts made, and found in the cache */
};

struct TglDevice {
	TglContext *cx;
	int refs;
	Device dev;
	uint64_t allocated;             /* bytes of its tensors */
	TglStream *stream;              /* where its work goes; NULL: its own */
	TglGraph *recording;
	DeviceHooks hooks;
};

struct TglStream {
	TglDevice *dev;
	void *handle;
	bool owned;
};

struct TglTensor {
	TglDevice *dev;
	int refs;                       /* views hold their base */
	TglTensor *base;                /* whose memory it is; NULL: its own or the caller's */
	TglDType dtype;
	int rank;
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK];
	char *data;
	char *alloc;                    /* guard zones and all; NULL: not ours */
	size_t alloc_bytes;
	char *low, *high;               /* bounds of the memory that belongs to it */
};

struct TglKernel {
	TglProgram *program;
	Kernel *k;
	const char **param_text;
	bool *in_header;                /* per parameter: the header speaks of this scalar */
	Instance *instances;            /* compiled forms, newest first */
	struct Memo *memo;              /* headers evaluated lately, or NULL */
	struct Again *again;            /* launches made lately, or NULL */
	bool spills_told, spills_muted; /* a warning of registers in local memory: given; not now, tuning tries all */
	bool text_hashed;
	Hash text_hash;                 /* of its text and what it can see, once text_hashed */
};

struct TglProgram {
	TglContext *cx;
	int refs;
	Compile *compile;
	Program *program;
	TglKernel *kernel;
	int nkernels;
	bool hashed;
	Hash hash;                      /* of its files, once `hashed` */
};

/* context.c */

void context_begin(TglContext *cx);
/* Renders what `from` holds (NULL: the context's own) as the call's error, empties it, returns
 * `s`. */
TglStatus context_fail(TglContext *cx, TglStatus s, Compile *from);
/* The same for a call that went well but may have warned. */
void context_done(TglContext *cx, Compile *from);
/* One or the other, at the end of a call that concerns a program; resets its temporary memory. */
TglStatus context_end(TglContext *cx, TglStatus s, Compile *program);
void context_unref(TglContext *cx);
/* Reports a NULL argument; false if all is well.  `f` is the function, `what` the argument. */
bool context_null(TglContext *cx, const void *p, const char *f, const char *what);

/* device.c */

void device_unref(TglDevice *dev);
/* Reports a fault, or else the device's error (forgotten then), under kernel `k`; the status that it makes. */
TglStatus device_report(TglDevice *dev, Compile *cx, const Fault *fault, const Kernel *k);

/* stream.c */

/* Makes a device's work go to a stream; where it went before. */
TglStream *stream_use(TglDevice *dev, TglStream *s);
bool stream_check(TglDevice *dev, const TglStream *s, const char *f); /* it is this device's, or NULL */
TglStatus queue_end(TglDevice *dev, bool ok); /* reports the device's error if not */

/* graph.c */

/* A launch went into a graph: it keeps the compiled form and scratch tensors. */
void graph_keep(TglGraph *g, TglKernel *k, Instance *in, TglTensor *const *tensor);

/* tensor.c */

enum { GUARD_BYTES = 64 };              /* on both sides of what the library allocates */

/* Bytes of a contiguous tensor; false if they pass 2^63 - 1. */
bool tensor_size(TglDType t, int rank, const int64_t *dim, int64_t *count, int64_t *bytes);
void tensor_contiguous(TglDType t, int rank, const int64_t *dim, int64_t *stride);
bool tensor_is_contiguous(const TglTensor *t);
TglTensor *tensor_open(TglDevice *dev, Compile *report, TglDType t, int rank, const int64_t *dim,
    const int64_t *stride);
void tensor_unref(TglTensor *t);
void tensor_shape_text(const int64_t *dim, int rank, Text *out); /* [4096, 1000] */
PlanArg tensor_arg(const TglTensor *t);
bool tensor_guard_whole(const TglTensor *t); /* nothing wrote next to it */
bool tensor_copy_in(TglTensor *t, const void *from); /* contiguous host copy to tensor */
bool tensor_copy_out(const TglTensor *t, void *to);
TglStatus tensor_fetched(TglTensor *t, const char *f, bool ok); /* waits, and looks for faults of kernels */
bool tensor_copy_check(TglTensor *t, const char *f, const void *host, size_t size); /* the size fits */
/* A copy on the host of a tensor's memory, from its first element to the end of what it owns. */
typedef struct Image {
	char *memory;
	size_t size;
} Image;

bool tensor_image(const TglTensor *t, Image *out); /* false: no memory, or the device failed */
bool image_room(const TglTensor *t, Image *out); /* zeros as long, of what is yet to be made */
void image_arg(const Image *m, PlanArg *a); /* the tensor's argument now speaks of the copy */
bool tensor_set(TglTensor *t, bool is_int, int64_t i, double f); /* every element */
bool tensor_poison(TglTensor *t);
/* First and one past the last byte that elements of it occupy; equal if there are none. */
void tensor_span(const TglTensor *t, const char **low, const char **high);

/* overlap.c */
bool tensor_overlaps(const TglTensor *a, const TglTensor *b);
bool tensor_overlaps_itself(const TglTensor *t); /* two different indices of it reach one byte */

/* npy_header.c: what a .npy file says of its data */

enum { MAX_NPY_RANK = 32 };

typedef struct NpyHeader {
	char descr[32];
	char order, kind;               /* '<' '>' '|' '='; 'b' 'i' 'u' 'f' 'V' */
	int size;                       /* bytes of an element */
	bool fortran;
	int rank;
	int64_t dim[MAX_NPY_RANK];
	int64_t start;                  /* offset of the data */
} NpyHeader;

/* False: *why says what is wrong. */
bool npy_parse_header(const char *text, size_t size, NpyHeader *h, const char **why);

/* npy.c */

TglTensor *npy_open(TglDevice *dev, Compile *report, const char *path, int want);
bool npy_save(const TglTensor *t, Compile *report, const char *path);

/* bind.c: from arguments as the user gives them to a bound header */

typedef struct Binding {
	Arena *mem;                     /* of the arrays here */
	Arena *scrap;                   /* what sema made before it failed: holds its reports */
	Bound bound;
	/* in order of Kernel.params; NULL: not given, or a scalar */
	TglTensor **tensor;
	const TglArg **arg;             /* the argument that set each parameter, or NULL */
	ArgInfo *info;
	NamedConst *value;              /* given by name, and no parameter */
	int nvalue;
	TglDevice *dev;                 /* that tuning results are looked up for; NULL: they are not */
	bool untuned;                   /* they are not in any case */
} Binding;

/* Sorts arguments to parameters and names; to be closed, also when it failed. */
bool binding_collect(TglKernel *k, const TglArg *args, int nargs, bool texts, Binding *out);
/* Sets scalar parameter i. */
bool binding_scalar(TglKernel *k, int i, const TglArg *a, Binding *b);
bool binding_bind(TglKernel *k, Binding *b);
/* Gives the bound header what only the arguments know (pointers' buffers, scalars), in a copy
 * of its own. */
void binding_pointers(TglKernel *k, Binding *b);
/* Whether tensor `t` fits what the header says of parameter i. */
bool binding_fits(TglKernel *k, const Binding *b, int i, const TglTensor *t);
/* Every argument is given, as a launch asks; else reports those that are not. */
bool binding_complete(TglKernel *k, const Binding *b);
/* What only a launch asks: tensors on this device, contiguous, apart. */
bool binding_check(TglKernel *k, TglDevice *dev, const Binding *b);
bool dtype_holds(DType t, int64_t v);   /* an integer type */
void key_const(Text *key, const Const *c); /* appends a value to a key */
void binding_close(Binding *b);
void binding_forget(TglKernel *k);      /* headers remembered */

/* program.c */

/* What the compiler makes from now on goes to `mem`, so that it can be freed apart from the
 * program; returns where it went before.  Names that are interned stay the program's. */
Arena *compile_into(Compile *cx, Arena *mem);
const char *param_type_text(Compile *cx, const KernelParam *p);
void program_unref(TglProgram *p);

/* cache_api.c */

Cache *context_cache(TglContext *cx);
TglTuning context_tuning(const TglContext *cx); /* never TGL_TUNING_DEFAULT */
/* Reports into `to` what the cache has to complain of, if anything. */
void context_cache_warn(TglContext *cx, Compile *to);

/* tune_lookup.c */

/* Binds again with what tuning found for these sizes, if anything, into `into`. */
void tune_apply(TglKernel *k, Binding *b, const ExampleItem *ex, Arena *into);

/* specialise.c */

/* What a launch promises of its arguments; arrays in `mem`. */
void specialise(const TglKernel *k, const Binding *b, Arena *mem, Promises *out);
/* A form's name within its kernel and device; promises NULL: none are used. */
void specialise_key(const TglKernel *k, const Bound *b, const Promises *promises, Text *key);
/* Its name on disk. */
Hash artefact_hash(const TglKernel *k, const char *target, const char *key, size_t nkey);
/* "BLOCK = 1024, warps = 4": compile-time values and what is set of the schedule, for people. */
void bound_text(const Bound *b, Text *out);
void const_text(const Const *c, Text *out);

/* instance.c */

struct Instance {
	Instance *next;
	TglDevice *dev;
	Func *func;                     /* NULL until asked for, where `loaded` is an artefact */
	Artefact artefact;
	Loaded *loaded;
	int pins;                       /* graphs that have it: it must stay */
	Arena *mem;                     /* of the module */
	int spilled;                    /* bytes a thread beyond those that its code asks for */
	bool warned;                    /* that --trace names a program that the grid does not have */
	char *key;
	size_t nkey;
	TglTensor **scratch;            /* in order of Kernel.params */
};

Instance *instance_find(TglKernel *k, const Binding *b, TglDevice *dev, TglStatus *status);
/* The same for a GPU's artefact that was made elsewhere (NULL: it is made here); it is taken unless there is such a form
 * already. */
Instance *instance_adopt(TglKernel *k, const Binding *b, TglDevice *dev, Artefact *take, TglStatus *status);
/* The tile IR, simplified; NULL after errors. */
Func *instance_func(TglKernel *k, Instance *in, const Binding *b);
void instance_close_all(TglKernel *k);

/* again.c: a launch like an earlier one, with other pointers */

/* False: none like it, nothing happened. */
bool again_launch(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, TglStatus *status);
/* Remembers a launch that went well; `tensor` in order of Kernel.params, scratch ones too. */
void again_keep(TglKernel *k, Instance *in, const TglArg *args, int nargs, const Binding *b,
    TglTensor *const *tensor);
void again_forget(TglKernel *k, const Instance *in); /* NULL: all */

/* launch.c */

/* Runs with everything checked: fills, scratch, the grid.  Puts the tensors of the launch, scratch
 * ones too, into `tensor`. */
TglStatus instance_launch(
    TglKernel *k, Instance *in, const Binding *b, TglTensor **tensor, double *seconds);
/* The same launch as values for the device, which has artefacts. */
bool instance_pack(TglKernel *k, Instance *in, const Binding *b, TglTensor *const *tensor, Packed *out);
/* How many programs the grid has; the header was refused if they pass 2^63 - 1. */
int64_t grid_count(const Bound *b, int64_t grid[MAX_AXES]);
/* Arguments of a function by its parameters' names: tensors, scalars and dimensions of a bound
 * kernel. */
PlanArg *func_args(Arena *mem, const Func *f, const Kernel *k, const Bound *b,
    TglTensor *const *tensor, const ArgInfo *info);
/* The same for a form that has no function at hand: a kernel's parameters, then its dimensions. */
PlanArg *kernel_args(Arena *mem, const Kernel *k, const Bound *b, TglTensor *const *tensor, const ArgInfo *info);
bool fill_outputs(TglKernel *k, const Bound *b, TglTensor *const *tensor);
/* Reports NULL arguments and objects of another context. */
bool launch_handles(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, const char *f);
void fault_report(Compile *cx, const Fault *fault, const Kernel *k);

/* work.c: floating point operations of one launch, from the tile IR; -1: not known */
double work_flops(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES]);

/* case.c */

struct TglCase {
	TglDevice *dev;
	TglKernel *k;
	const ExampleItem *example;     /* or NULL */
	Binding b;
	uint64_t seed;
	TglArg *args;
	int nargs;
	const char **value_name, **value_text;
	int nvalues;
	void **first;                   /* first values, on the host, of what the kernel changes */
	bool holds;                     /* b.tensor is counted */
	bool has_run;
	struct Reference *reference;    /* made by the first check */
};

TglStatus case_run(TglCase *c, double *seconds);
TglStatus case_launch(TglCase *c);      /* on what its tensors hold, without waiting where the device does not */
bool case_restore(TglCase *c);          /* first values, poison */

/* copier.c: the copy that a device's memory is measured by */

typedef struct Copier {
	TglDevice *dev;
	TglTensor *from, *to;
	TglProgram *program;
	TglCase *c;                     /* NULL: the host copies */
} Copier;

/* What it opened is to be closed after a failure too. */
TglStatus copier_open(TglDevice *dev, Compile *cx, Copier *out);
TglStatus copier_launch(Copier *k);
void copier_close(Copier *k);

/* foreign.c */

struct TglForeign {
	TglDevice *dev;
	TglKernel *k;                   /* whose arguments it takes */
	Artefact artefact;
	Loaded *loaded;
	int64_t blocks;
};

TglStatus foreign_launch(TglForeign *f, TglCase *c, double *seconds);

/* case_input.c */

bool case_bind(TglCase *c);             /* the header, from arguments and the example */
bool case_materialise(TglCase *c, int i); /* makes tensor i, after those that its line uses */
bool case_missing(TglCase *c, int i);   /* reports that nothing gives parameter i; false */
TglArg case_arg(const char *name, const Const *v);
/* Runs a whole-tensor function as one program. */
bool whole_run(const Plan *plan, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault);

/* reference.c */

enum { REFERENCE_RUNS = 4 };            /* the exact one first */

typedef struct Output {
	int param;                      /* of the kernel */
	int func_param;                 /* of the reference */
	DType elem;                     /* in the reference: f64, or the integer type */
	int64_t count, bytes;
	char *buffer[REFERENCE_RUNS];
	double *deviation;              /* NULL: integers */
	double rms;
} Output;

typedef struct Reference {
	Image *image;                   /* in order of Kernel.params; NULL: the host reads tensors as they are */
	int nimages;
	int nruns;                      /* 1 if the kernel calculates with integers alone */
	Output *out;
	int n;
	double roundoff, least;         /* of the kernel's arithmetic */
} Reference;

TglStatus reference_make(TglCase *c);   /* into c->reference, which may be half done on failure */
void reference_close(Reference *r);
double reference_roundoff(DType t);     /* unit roundoff; 0: no float */
double reference_least(DType t);        /* the least number above 0 */

#endif
