/* Tegula as a library: compile `.tgl` text, make tensors, launch kernels, check and time them.
 *
 *     TglContext *cx = tgl_context_open();
 *     TglDevice *dev = tgl_device_open(cx, "cpu", NULL);
 *     TglProgram *p = tgl_program_file(cx, "softmax.tgl");
 *     TglKernel *k = p ? tgl_kernel(p, "softmax") : NULL;
 *     TglTensor *x = tgl_tensor_npy(dev, "x.npy", TGL_DTYPE_FROM_FILE);
 *     TglTensor *y = tgl_tensor(dev, TGL_F32, 2, (int64_t[]){4096, 1000});
 *     TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
 *     if (tgl_launch(dev, k, args, 2, NULL) != TGL_OK)
 *         fputs(tgl_error(cx)->text, stderr);
 *
 * Errors.  A function that can fail returns a TglStatus or NULL, and tgl_error(cx) then says
 * what happened, until the next call on that context.  A handle that is NULL is itself an
 * error (TGL_ERROR_USAGE, E1150), reported where a context can be found, so that a chain of calls
 * needs one test at its end; a function that only asks gives NULL, "", 0, -1 or false for it.
 * Nothing is printed and nothing exits.
 *
 * Lifetimes.  What tgl_X_open or a function that makes an X returned is ended by
 * tgl_X_close(&x), which sets x to NULL; closing NULL does nothing.  Things may be closed in
 * any order: a tensor keeps its device alive, everything keeps its context.  A TglKernel
 * belongs to its program and is not closed.  Texts that are returned belong to the object
 * asked and live as long as it, or, for a context, to the next call on it.
 *
 * Threads.  Contexts share nothing: two threads may use two contexts at once.  One context,
 * with all that was opened on it, is used by one thread at a time.
 *
 * Units: extents and strides count elements, sizes are bytes, times are seconds. */
#ifndef TGL_H
#define TGL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TGL_MAX_RANK = 5, TGL_MAX_AXES = 3 };

typedef struct TglContext TglContext;
typedef struct TglDevice TglDevice;
typedef struct TglProgram TglProgram;
typedef struct TglKernel TglKernel;
typedef struct TglTensor TglTensor;
typedef struct TglCase TglCase;
typedef struct TglStream TglStream;
typedef struct TglEvent TglEvent;
typedef struct TglGraph TglGraph;

const char *tgl_version(void);          /* "0.1.0" */

/* ---- errors ---- */

typedef enum TglStatus {
	TGL_OK = 0,
	/* a call that cannot be meant: NULL, another context's object */
	TGL_ERROR_USAGE,
	TGL_ERROR_SOURCE,               /* the program has errors; every one is in TglError.text */
	TGL_ERROR_NAME,                 /* no kernel, parameter, example or device of that name */
	TGL_ERROR_LAUNCH,               /* arguments do not fit the kernel */
	TGL_ERROR_FILE,                 /* a data file is missing, malformed or cannot be written */
	TGL_ERROR_MEMORY,               /* not enough memory for a tensor */
	/* the kernel itself failed: an assert, or what --sanitize reports */
	TGL_ERROR_FAULT,
	TGL_ERROR_DEVICE,               /* the device failed or cannot run this */
} TglStatus;

typedef struct TglError {
	TglStatus status;               /* of the last call; TGL_OK if it went well */
	const char *code;               /* of the first report, "E1168"; "" if none */
	const char *message;            /* the first report in one line; "" if none */
	const char *file;               /* where, or NULL if no source text is to blame */
	int line, col;                  /* 1-based; 0: nowhere */
	/* every report with its source line and caret; ends in newline */
	const char *text;
	const char *json;               /* the same as a JSON array, as `tegula --json` prints it */
	int nwarnings;                  /* a call that went well may still have text */
} TglError;

/* What the last call on `cx` (or on anything of it) reported: never NULL, also for a NULL
 * context.  It and its texts are the context's, until the next call on it. */
const TglError *tgl_error(TglContext *cx);
/* At most `max` errors in TglError.text and .json from now on (0: all; at first 20). */
void tgl_error_limit(TglContext *cx, int max);
/* Whether TglError.text has a terminal's escape sequences for colours; at first it has none. */
void tgl_error_color(TglContext *cx, bool on);
const char *tgl_status_name(TglStatus s); /* "launch"; a constant, never NULL */

/* ---- context ---- */

TglContext *tgl_context_open(void);     /* never NULL: without memory for it the process ends */
void tgl_context_close(TglContext **cx); /* its memory goes with the last thing opened on it */

/* Lines that kernels print, whole, from any thread of a device but one at a time; NULL:
 * dropped (the start).  A GPU's driver writes its kernels' lines to standard output itself, when the
 * device is waited for. */
void tgl_context_print(TglContext *cx, void (*print)(void *user, const char *line), void *user);

/* How kernels are compiled; all zero is the usual way.  Texts are copied. */
typedef struct TglCompileOptions {
	/* comma lists of passes; NULL: the pipeline as it is */
	const char *only, *skip, *stop_after;
	/* comma list of passes, or "all": text to `write` after each */
	const char *dump;
	/* a file of tile IR, as a dump prints it, that holds the kernel and runs in place of what the passes
	 * make of the source; NULL: none */
	const char *ir;
	/* "NAME@LINE" or "NAME@LINE,program=(i,j)": kernels print the values that the name is given there (cpu and
	 * simt); NULL: none */
	const char *trace;
	bool verify;                    /* check the tile IR before and after every pass */
	bool times;                     /* one line a pass to `write` */
	/* called once a compile with all dumps, then all times */
	void (*write)(void *user, const char *text);
	void *user;
} TglCompileOptions;

/* For kernels compiled from now on; NULL: the usual way.  TGL_ERROR_USAGE (E1216): `trace` is no such text. */
TglStatus tgl_context_compile(TglContext *cx, const TglCompileOptions *options);

/* ---- the cache ---- */

/* What is compiled for a GPU, and what tuning found, is kept in the user's cache folder
 * ($TEGULA_CACHE_DIR, $XDG_CACHE_HOME/tegula, ~/.cache/tegula; macOS ~/Library/Caches/tegula), so that
 * no process compiles what another has.  Many may use it at once.  It is bounded: what was not
 * used for longest goes.  It never makes a call fail; what goes wrong with it is a warning (W0401), once.
 *
 * All zero is the usual one; what is not set here is what the environment says: TEGULA_CACHE=off,
 * TEGULA_CACHE_DIR, TEGULA_CACHE_LIMIT (512M without it), TEGULA_TUNE. */
typedef enum TglTuning {
	TGL_TUNING_DEFAULT,             /* as TEGULA_TUNE says, else TGL_TUNING_ON */
	TGL_TUNING_ON,                  /* launches use what is known; tgl_case_tune measures */
	TGL_TUNING_FROZEN,              /* TEGULA_TUNE=off: launches use what is known, nothing is measured */
	TGL_TUNING_IGNORED,             /* TEGULA_TUNE=ignore: launches use the source's defaults too */
} TglTuning;

typedef struct TglCacheOptions {
	const char *folder;
	uint64_t limit;                 /* bytes of compiled kernels */
	bool off;
	TglTuning tuning;
} TglCacheOptions;

/* Before the first launch on the context; `folder` is copied. */
TglStatus tgl_context_cache(TglContext *cx, const TglCacheOptions *options);

typedef struct TglCacheInfo {
	const char *path;               /* of the database, there or not; NULL: the cache is off */
	int64_t entries;
	uint64_t bytes, limit;
	int64_t tunings;                /* results of tuning */
	int64_t compiled, found;        /* by this context: kernels for a GPU that it compiled, and found kept */
} TglCacheInfo;

typedef struct TglCacheEntry {
	const char *key;                /* hexadecimal */
	const char *kernel, *file, *target;
	const char *values;             /* "BLOCK = 1024, warps = 4" */
	bool current;                   /* made by this version of the compiler: others are never used */
	uint64_t bytes;
	int64_t made, used;             /* seconds since 1970 */
} TglCacheEntry;

/* `path` lives until the next call on the context. */
TglStatus tgl_cache_info(TglContext *cx, TglCacheInfo *out);
/* Every compiled kernel, used last first, until `each` returns false.  Texts live until it returns. */
TglStatus tgl_cache_list(TglContext *cx, bool (*each)(void *user, const TglCacheEntry *e), void *user);
/* Removes what other versions of the compiler made and the longest unused down to `limit` bytes (0: the
 * cache's own); *removed, if not NULL, is how many. */
TglStatus tgl_cache_prune(TglContext *cx, uint64_t limit, int64_t *removed);
/* Removes every compiled kernel, and with `tuning` every result of tuning; *removed, if not NULL, is how many of both.
 * TGL_ERROR_FILE (E1145): the file cannot be changed. */
TglStatus tgl_cache_clear(TglContext *cx, bool tuning, int64_t *removed);
/* Copies compiled kernels of this version of the compiler into the cache of another folder, which
 * is made if there is none, or from there; *copied, if not NULL, is how many were not there yet.
 * What goes wrong is a warning, as with any cache. */
TglStatus tgl_cache_export(TglContext *cx, const char *folder, int64_t *copied);
TglStatus tgl_cache_import(TglContext *cx, const char *folder, int64_t *copied);

/* ---- devices ---- */

typedef struct TglDeviceInfo {
	const char *name;               /* "cpu", "cuda:0": what tgl_device_open takes */
	const char *text;               /* "2 threads, tile IR interpreter": a line for people */
	const char *target;             /* what kernels are compiled for: "cpu", "sm_90a" */
	int threads;                    /* programs that run at once; of a GPU its multiprocessors */
	uint64_t memory;                /* bytes in all; 0: not known */
	uint64_t cache;                 /* bytes of the cache that all of it shares; 0: not known */
	bool available;
	const char *why_not;            /* if not available; else NULL */
} TglDeviceInfo;

/* The devices that this build supports, present or not, each GPU by itself.  False past the last.  Its texts live until the
 * next call of this on the context. */
bool tgl_device_list(TglContext *cx, int i, TglDeviceInfo *out);

/* One element tile as an op produced it, for a debugger.  Called from any thread. */
typedef struct TglTrace {
	const char *op, *name;          /* "exp"; the source's name of the value, or "" */
	const char *file;               /* where the op was written; NULL: nowhere */
	int line, col;
	int64_t program[TGL_MAX_AXES];
	int dtype, rank;                /* TglDType */
	int64_t dim[TGL_MAX_RANK];
	const void *data;               /* row-major; packed 4-bit one a byte */
} TglTrace;

/* All zero is the plain, fast device. */
typedef struct TglDeviceOptions {
	int threads;                    /* 0: as many as the machine has processors */
	/* report out-of-bounds pointers, races, uninitialised reads */
	bool sanitize;
	/* cpu: stop at the first NaN or infinity that is not in what made it */
	bool break_nan;
	/* simt: leave out the checks of the GPU's code, for speed */
	bool unchecked;
	/* simt: compile sooner to code that is slower: for kernels that run once */
	bool quick;
	/* simt: not 0: warps run in an order of its own, another for each number */
	uint64_t schedule;
	/* simt: count what warps' accesses cost and warn where the compiler predicted less */
	bool costs;
	/* simt: iterations of loops in a block until they count as endless; 0: 500 million */
	int64_t iterations;
	void (*trace)(void *user, const TglTrace *t); /* NULL: none.  Slow. */
	void *user;
} TglDeviceOptions;

/* `name` is "cpu", "cuda" (the first GPU), "cuda:1" …; NULL: the first GPU if there is one and the
 * options ask for nothing that only the cpu device does, else the cpu.  NULL: unknown (E1152) or
 * not available (E1153).
 *
 * A GPU is used through its primary context, which it shares with other libraries in the process
 * (CUDA's runtime library, PyTorch).  Each call makes it current and puts the caller's
 * back; a thread without one keeps it. */
TglDevice *tgl_device_open(TglContext *cx, const char *name, const TglDeviceOptions *options);
void tgl_device_close(TglDevice **dev);
TglStatus tgl_device_info(TglDevice *dev, TglDeviceInfo *out); /* its texts live as long as the device */
/* Waits until everything launched is done, on all streams; the status of a launch since the last
 * wait that failed (TGL_ERROR_FAULT: an assert was false, or the GPU stopped a kernel; after the
 * latter the process can use this GPU no more).  On the cpu device launches are done when they
 * return. */
TglStatus tgl_device_sync(TglDevice *dev);
/* simt: the schedule of launches from here on (TglDeviceOptions.schedule); other devices have one alone. */
void tgl_device_schedule(TglDevice *dev, uint64_t schedule);

/* ---- programs and kernels ---- */

/* Parses and checks a file with its imports, or text (`name` stands in messages for the file;
 * imports are relative to the folder in `name`).  NULL after errors (TGL_ERROR_SOURCE). */
TglProgram *tgl_program_file(TglContext *cx, const char *path);
TglProgram *tgl_program_text(TglContext *cx, const char *name, const char *text, size_t size);
void tgl_program_close(TglProgram **p);

int tgl_program_kernels(TglProgram *p); /* how many, those of imports too */
TglKernel *tgl_program_kernel(TglProgram *p, int i); /* in order of the text; NULL past the last */
/* Of the texts of its files, imports too, in hexadecimal: the same in every process, and for no other texts. */
const char *tgl_program_hash(TglProgram *p);
/* NULL: none of that name; the message offers the nearest */
TglKernel *tgl_kernel(TglProgram *p, const char *name);

typedef enum TglDType {
	TGL_BOOL, TGL_I8, TGL_I16, TGL_I32, TGL_I64, TGL_U8, TGL_U16, TGL_U32, TGL_U64,
	TGL_F16, TGL_BF16, TGL_F32, TGL_F64, TGL_F8E4M3, TGL_F8E5M2,
	/* packed: two in a byte, low half first, rows start on a byte */
	TGL_I4, TGL_U4, TGL_F4E2M1,
	TGL_DTYPES,                     /* how many */
	TGL_DTYPE_UNKNOWN = -1,         /* of a parameter: a compile-time parameter decides */
	TGL_DTYPE_FROM_FILE = -1,
} TglDType;

const char *tgl_dtype_name(TglDType t); /* "bf16"; "?" if there is none such */
bool tgl_dtype_named(const char *name, TglDType *out); /* false: no dtype is called so */
int tgl_dtype_bits(TglDType t);         /* of one element; bool 8, packed 4; 0 if there is none such */

typedef enum TglParamKind { TGL_PARAM_TENSOR, TGL_PARAM_POINTER, TGL_PARAM_SCALAR } TglParamKind;
typedef enum TglAccess { TGL_IN, TGL_OUT, TGL_INOUT, TGL_SCRATCH } TglAccess;

typedef struct TglParam {
	const char *name;
	TglParamKind kind;
	TglAccess access;               /* tensors; pointers: TGL_INOUT if *mut, else TGL_IN */
	int dtype;                      /* TglDType, or TGL_DTYPE_UNKNOWN */
	int rank;                       /* tensors */
	bool strided;                   /* tensors: any strides will do */
	bool has_fill;                  /* filled before each launch */
	bool in_header;                 /* scalars: the header mentions it, so that shapes or the grid may depend on it */
	const char *text;               /* the type as written: "in T[M, K]" */
} TglParam;

const char *tgl_kernel_name(TglKernel *k);
const char *tgl_kernel_file(TglKernel *k); /* the file that it stands in */
int tgl_kernel_line(TglKernel *k);      /* of its name there, from 1 */
TglProgram *tgl_kernel_program(TglKernel *k); /* that it belongs to; not to be closed for this */
int tgl_kernel_params(TglKernel *k);    /* how many; scratch parameters count */
bool tgl_kernel_param(TglKernel *k, int i, TglParam *out); /* false past the last */
int tgl_kernel_param_named(TglKernel *k, const char *name); /* its index; -1: none */
bool tgl_kernel_has_reference(TglKernel *k);
bool tgl_kernel_merges(TglKernel *k);  /* it, or a fn of its file, has a loop with `merge` */
/* Names of dimensions (tgl_kernel_symbol) and compile-time parameters (tgl_kernel_constant);
 * NULL past the last. */
const char *tgl_kernel_symbol(TglKernel *k, int i);
const char *tgl_kernel_constant(TglKernel *k, int i);

typedef struct TglExample {
	const char *label;              /* "" if it has none */
	bool is_bench;                  /* for bench and tune only */
	const char *file;               /* it stands in: its kernel's, or one that imports that */
} TglExample;

bool tgl_kernel_example(TglKernel *k, int i, TglExample *out); /* false past the last */

/* ---- tensors ---- */

/* A tensor in a device's memory, contiguous row-major, every byte 0.  Rank 0 to 5, extents 0
 * and up.  NULL: a negative extent, extents (0 counts as 1) or strides that multiply to 2^60 bytes or
 * more, or more memory than the machine has (both figures are in the message). */
TglTensor *tgl_tensor(TglDevice *dev, TglDType t, int rank, const int64_t *dim);
/* The same with strides in elements, 0 and up (row-major order is not asked for; the
 * allocation spans what they reach).  Packed types: even strides, but 1 along the last
 * dimension. */
TglTensor *tgl_tensor_strided(TglDevice *dev, TglDType t, int rank, const int64_t *dim,
    const int64_t *stride);
/* Memory of the caller's that the device can reach (cpu: any; a GPU: its own, as cuMemAlloc,
 * cudaMalloc or PyTorch's data_ptr() give it, or pinned host memory), at least `size` bytes, which
 * outlives the tensor and is not copied.  stride NULL: contiguous.  NULL: it is too small,
 * misaligned for the type, or the host's or another GPU's (E1141). */
TglTensor *tgl_tensor_wrap(TglDevice *dev, TglDType t, int rank, const int64_t *dim,
    const int64_t *stride, void *data, size_t size);
/* Makes a tensor of tgl_tensor_wrap, of which there are no views, describe other memory of the same device, for less than a
 * new one costs: that the device can reach it is not looked up.  After an error it is of rank 0 and has no memory. */
TglStatus tgl_tensor_set(TglTensor *t, TglDType type, int rank, const int64_t *dim, const int64_t *stride,
    void *data, size_t size);
/* Part of a tensor, sharing its memory, which it keeps alive: per dimension first element and
 * extent. */
TglTensor *tgl_tensor_view(TglTensor *t, const int64_t *first, const int64_t *extent);
/* Another order of the dimensions, sharing the memory: dimension i of the result is order[i]
 * of t. */
TglTensor *tgl_tensor_permute(TglTensor *t, const int *order);
/* Its memory goes with it and the last of its views; memory of the caller's stays. */
void tgl_tensor_close(TglTensor **t);

TglDType tgl_tensor_dtype(const TglTensor *t);
int tgl_tensor_rank(const TglTensor *t);
int64_t tgl_tensor_dim(const TglTensor *t, int d); /* elements; -1: no such dimension */
int64_t tgl_tensor_stride(const TglTensor *t, int d); /* elements; -1: no such dimension */
int64_t tgl_tensor_count(const TglTensor *t); /* elements */
size_t tgl_tensor_bytes(const TglTensor *t); /* of a contiguous copy: what the copies below move */
void *tgl_tensor_data(TglTensor *t);    /* the device's address of the first element, while the tensor is open */
TglDevice *tgl_tensor_device(TglTensor *t); /* that it was made on; not to be closed for this */

/* Whole tensor from or to host memory, contiguous row-major, exactly tgl_tensor_bytes; `size`
 * is what the caller has and must equal it.  Waits until done; a read reports a launch before it
 * that failed (TGL_ERROR_FAULT). */
TglStatus tgl_tensor_write(TglTensor *t, const void *from, size_t size);
TglStatus tgl_tensor_read(TglTensor *t, void *to, size_t size);
/* Every element `v`, converted to the dtype (to nearest even; integers truncate and saturate). */
TglStatus tgl_tensor_fill(TglTensor *t, double v);
/* Bytes that make a forgotten element show: NaN for floats, 0xA5 for the rest. */
TglStatus tgl_tensor_poison(TglTensor *t);
/* One element by its linear row-major index, as f64 and (integers) as i64; either may be NULL.  TGL_ERROR_USAGE (E1192):
 * there is no such element. */
TglStatus tgl_tensor_element(TglTensor *t, int64_t index, double *f, int64_t *i);

/* A .npy file (format 1, 2 or 3; C or Fortran order; little or big endian).  `want` says what
 * the elements are, for those that NumPy has no name for: bf16 from '<u2' or '<V2', fp8 from
 * '|u1' or '|V1', packed 4-bit from u8 of half the width.  TGL_DTYPE_FROM_FILE takes the
 * file's type.  NULL: TGL_ERROR_FILE, E1201 and up. */
TglTensor *tgl_tensor_npy(TglDevice *dev, const char *path, int want);
/* Writes a file whole or not at all.  bf16 and fp8 as '<V2' and '|V1', packed as u8 of half
 * the width. */
TglStatus tgl_tensor_save(TglTensor *t, const char *path);

/* ---- launching ---- */

typedef enum TglArgKind {
	TGL_ARG_NONE, TGL_ARG_TENSOR, TGL_ARG_INT, TGL_ARG_FLOAT, TGL_ARG_BOOL, TGL_ARG_DTYPE,
	TGL_ARG_TEXT, TGL_ARG_UINT,
} TglArgKind;

/* One argument.  With a name: the parameter, compile-time parameter, dimension (a check, or
 * the value where no tensor has it) or schedule value (warps, stages …) of that name.  Without:
 * the next parameter in order, scratch ones left out. TGL_ARG_TEXT is for cases: an expression
 * of the language, "normal(0, 1)". */
typedef struct TglArg {
	const char *name;
	TglArgKind kind;
	TglTensor *tensor;
	int64_t i;                      /* INT, BOOL, DTYPE; UINT: the bits */
	double f;
	const char *text;
} TglArg;

static inline TglArg
tgl_arg_tensor(const char *name, TglTensor *t)
{
	TglArg a = {name, TGL_ARG_TENSOR, t, 0, 0, NULL};
	return a;
}

static inline TglArg
tgl_arg_int(const char *name, int64_t i)
{
	TglArg a = {name, TGL_ARG_INT, NULL, i, 0, NULL};
	return a;
}

/* For u64, whose values an int64_t does not hold all. */
static inline TglArg
tgl_arg_uint(const char *name, uint64_t u)
{
	TglArg a = {name, TGL_ARG_UINT, NULL, (int64_t)u, 0, NULL};
	return a;
}

static inline TglArg
tgl_arg_float(const char *name, double f)
{
	TglArg a = {name, TGL_ARG_FLOAT, NULL, 0, f, NULL};
	return a;
}

static inline TglArg
tgl_arg_bool(const char *name, bool b)
{
	TglArg a = {name, TGL_ARG_BOOL, NULL, b, 0, NULL};
	return a;
}

static inline TglArg
tgl_arg_dtype(const char *name, TglDType t)
{
	TglArg a = {name, TGL_ARG_DTYPE, NULL, t, 0, NULL};
	return a;
}

static inline TglArg
tgl_arg_text(const char *name, const char *expr)
{
	TglArg a = {name, TGL_ARG_TEXT, NULL, 0, 0, expr};
	return a;
}

/* Runs a kernel once.  Tensors for pointer parameters give their first element's address. 
 * Scratch tensors are made and kept by the library; every other parameter must be given.
 * Checked before anything runs (TGL_ERROR_LAUNCH): rank, dtype, shape, agreement of
 * dimensions, strides (only `strided` parameters take other than contiguous ones), overlap of
 * what the kernel writes with any other tensor, zero strides and alignment.  A grid of zero
 * programs runs nothing.  *seconds, if not NULL, is the time on the device, fills included,
 * compiling and waiting excluded; asking for it waits.  The first launch for a set of compile-
 * time values compiles; later ones find the result.
 *
 * A tensor that the kernel takes as `in fixed` must not be written by a kernel that may still run in the
 * stream: it is read before those are over.  After tgl_device_sync or tgl_stream_sync none does. */
TglStatus tgl_launch(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, double *seconds);

/* What a launch would be: every parameter's dtype and shape (`params` has room for all of the
 * kernel's), and the grid, by the source's defaults where no value is given (a launch may use better
 * ones from tuning). Output tensors need not be given: this is how to learn their shapes.  Either may be
 * NULL. */
typedef struct TglShape {
	int dtype;                      /* TglDType */
	int rank;
	int64_t dim[TGL_MAX_RANK];
} TglShape;

TglStatus tgl_shapes(TglKernel *k, const TglArg *args, int nargs, TglShape *params,
    int64_t grid[TGL_MAX_AXES]);

/* ---- streams, events and graphs ---- */

/* A GPU works asynchronously: a launch returns before it has run.  What goes to one stream is done in order.  A device
 * starts on a stream of its own, on a GPU the context's default stream, which is ordered with what CUDA's runtime and
 * PyTorch put there.  Copies that return data, tgl_case_* and launches that are timed wait; nothing else does.
 *
 * On the cpu device all of these work, and everything is done on return. */
TglStream *tgl_stream_open(TglDevice *dev); /* runs beside the device's own; NULL: TGL_ERROR_DEVICE */
/* A stream of the caller's: a CUstream or cudaStream_t, NULL being the default one.  It must outlive this. */
TglStream *tgl_stream_wrap(TglDevice *dev, void *handle);
void *tgl_stream_handle(TglStream *s);  /* the CUstream; NULL: the default one, or cpu */
void tgl_stream_close(TglStream **s);   /* what it was given is still done */
/* Launches, fills and copies of the device go there from now on; NULL: to its own. */
TglStatus tgl_device_use(TglDevice *dev, TglStream *s);
/* tgl_launch to this stream instead, without waiting. */
TglStatus tgl_launch_on(TglStream *s, TglKernel *k, const TglArg *args, int nargs);
TglStatus tgl_stream_sync(TglStream *s); /* as tgl_device_sync, for this stream alone */
TglStatus tgl_stream_wait(TglStream *s, TglEvent *e); /* what comes after waits for the event */

/* A point in a stream.  Record, then wait for it or take the time between two (seconds; a GPU's
 * resolution is half a microsecond).  An event that was never recorded: TGL_ERROR_USAGE (E1144). */
TglEvent *tgl_event_open(TglDevice *dev);
void tgl_event_close(TglEvent **e);
TglStatus tgl_event_record(TglEvent *e, TglStream *s); /* NULL: where the device's work goes */
TglStatus tgl_event_sync(TglEvent *e);
TglStatus tgl_event_seconds(TglEvent *from, TglEvent *to, double *out); /* waits for `to` */

/* Whole tensor as tgl_tensor_write and _read, without waiting: `from` must stay as it is, and `to`
 * is not yet filled, until the stream gets there.  Truly beside other work only for memory of
 * tgl_host_alloc.  Tensors that are not contiguous are copied with waiting. */
TglStatus tgl_tensor_write_async(TglTensor *t, const void *from, size_t size);
TglStatus tgl_tensor_read_async(TglTensor *t, void *to, size_t size);
/* Host memory that a GPU copies to and from at full speed.  NULL: there is none left. */
void *tgl_host_alloc(TglDevice *dev, size_t size);
void tgl_host_free(TglDevice *dev, void *p);

/* Records what the stream is given from begin to end instead of doing it, to be launched as a whole
 * any number of times; launches and fills of the device go to the stream meanwhile.  Launch each
 * kernel once before, so that it is compiled.  The graph keeps kernels and scratch tensors; the
 * arguments' tensors must live as long as it.  The cpu device has no graphs (E1142). */
TglStatus tgl_graph_begin(TglStream *s); /* of tgl_stream_open */
TglGraph *tgl_graph_end(TglStream *s);
TglStatus tgl_graph_launch(TglGraph *g, TglStream *s); /* NULL: where the device's work goes */
void tgl_graph_close(TglGraph **g);

/* ---- cases: a kernel with everything that it needs to run, checked and timed ---- */

typedef struct TglCaseOptions {
	/* its label ("" too); NULL: the first that is not `bench`, if there is one */
	const char *example;
	int index;                      /* if `by_index`: the example's number instead */
	bool by_index;
	bool no_example;                /* only what args say */
	const TglArg *args;             /* go before what the example says */
	int nargs;
	uint64_t seed;                  /* of random inputs */
	bool untuned;                   /* the source's defaults, whatever tuning found */
} TglCaseOptions;

/* Materialises inputs on the device and makes outputs.  NULL after errors: no such example, an
 * argument that nothing gives, … */
TglCase *tgl_case_open(TglDevice *dev, TglKernel *k, const TglCaseOptions *options);
void tgl_case_close(TglCase **c);
/* the example's label, "" if it has none or there is none */
const char *tgl_case_label(TglCase *c);
/* stays the case's; NULL: none of that name */
TglTensor *tgl_case_tensor(TglCase *c, const char *param);
/* All arguments, for tgl_launch, and the compile-time values that were given; they stay the case's. */
const TglArg *tgl_case_args(TglCase *c, int *n);
/* Values of dimensions, compile-time parameters and scalars, and what is set or chosen of the schedule, by index; false
 * past the last. */
bool tgl_case_value(TglCase *c, int i, const char **name, const char **text);
bool tgl_case_grid(TglCase *c, int64_t grid[TGL_MAX_AXES]);

/* Gives inout tensors their first values, poisons outputs, launches. */
TglStatus tgl_case_run(TglCase *c, double *seconds);

/* One output compared with the reference. */
typedef struct TglCheck {
	const char *param;
	bool passed;                    /* no element's error above its bound */
	/* greatest error / bound; infinite: a wrong integer, a NaN, an infinity */
	double ratio;
	double error, bound, got, want; /* at the element where the ratio is greatest */
	double max_error;               /* greatest |got - want| of all finite ones */
	int64_t element;                /* that element's linear index; -1: no elements */
	int rank;
	int64_t index[TGL_MAX_RANK];
	int64_t count, nwrong;          /* elements in all and above their bound */
	bool guard_broken;              /* something wrote just outside of the tensor */
} TglCheck;

/* Compares what tgl_case_run left in output `i` (in order of parameters that the kernel
 * writes) with the kernel's reference, run once in f64.  The bound of an element is 16 times
 * its deviation (or the tensor's root mean square one, if greater) when every operation of the
 * reference is disturbed by one unit of roundoff of the arithmetic that the kernel does, plus
 * a rounding of the output's type; `tolerance(abs, rel)` in the example replaces it.  Integers
 * must be equal.  *more is false past the last.  TGL_ERROR_NAME: the kernel has no reference. */
TglStatus tgl_case_check(TglCase *c, int i, TglCheck *out, bool *more);

/* What a case's kernel takes of a GPU, as the driver says. */
typedef struct TglResources {
	int threads;                    /* of a block */
	int registers;                  /* of a thread */
	int local_bytes;                /* of a thread: registers spilled to memory, and its stack */
	int shared_bytes;               /* of a block */
	int resident_blocks;            /* on one multiprocessor at once */
	double occupancy;               /* their threads as a share of those that it can hold */
} TglResources;

/* TGL_ERROR_DEVICE (E1142): the cpu device has no such things. */
TglStatus tgl_case_resources(TglCase *c, TglResources *out);

/* ---- code ---- */

typedef enum TglCode {
	TGL_CODE_TIR,                   /* tile IR after all passes */
	TGL_CODE_THREAD,                /* thread IR; GPUs */
	TGL_CODE_DEVICE,                /* PTX, or Metal's text; GPUs */
	TGL_CODE_INSPECTION,            /* what became of each line, as `tegula inspect` prints it; GPUs */
} TglCode;

/* What the compiler makes of a kernel for a target by its name ("cpu", "sm_90a", "apple7"), which need not be here: for the
 * sizes of the options' arguments and example, and with what it chooses for them.  The text lives until the next call of
 * this on the context.  NULL after errors; the cpu device has tile IR alone (E1142). */
const char *tgl_kernel_code(TglKernel *k, TglCode what, const char *target, const TglCaseOptions *options);

/* ---- tuning ---- */

typedef enum TglTuneState {
	TGL_TUNE_WON,
	TGL_TUNE_SLOWER,                /* measured, and not the winner */
	TGL_TUNE_PRUNED,                /* not tried: it cannot run, or is the same as another */
	TGL_TUNE_WRONG,                 /* it computed something else */
	TGL_TUNE_FAILED,                /* it did not compile or run */
	TGL_TUNE_SKIPPED,               /* the budget was spent */
} TglTuneState;

/* One combination of the values of `tune(...)`. */
typedef struct TglTuneCandidate {
	const char *values;             /* "BM = 64, warps = 4" */
	bool is_default;                /* the source's defaults; the first candidate */
	TglTuneState state;
	const char *why;
	int samples;
	double median, noise;           /* seconds; noise: half of the interval of 99 % */
	double estimate;                /* seconds, by the cost model; 0: it has none */
} TglTuneCandidate;

typedef struct TglTuneOptions {
	double budget;                  /* seconds; 0: 30 */
	int threads;                    /* that compile; 0: as many as the machine has processors */
	bool no_keep;                   /* the result is not kept */
	/* What is going on, "measuring 12", and how far of the whole, 0 to 1; false stops with what is known.
	 * NULL: none. */
	bool (*progress)(void *user, const char *what, double part);
	void *user;
} TglTuneOptions;

typedef struct TglTune {
	TglTuneCandidate *candidate;
	int n, winner;                  /* winner -1: `spent`, or stopped, before one was measured */
	int64_t combinations;           /* of the whole space, those that `where` refuses too; at most INT64_MAX */
	bool sampled;                   /* too many to try: the candidates are a sample, the same in every run */
	const char *why;                /* the winner won, in a sentence */
	const char *device;             /* its model, as results are kept by */
	const char *dtypes, *sizes;
	bool kept;                      /* the result was kept */
	bool frozen;                    /* nothing was measured: `known` is what there is */
	const char *known;              /* "BM = 64, warps = 4", found earlier; NULL: nothing */
	bool spent;                     /* the budget ended it */
	void *memory;
} TglTune;

/* Finds the best values of the kernel's `tune(...)` for the case: what cannot run is left out, the rest is
 * compiled, run, compared with the reference (where that is quick) or with what the defaults compute, and
 * measured in turn with early stopping.  The default wins where nothing is faster beyond noise.  The winner is
 * kept for this device's model, the kernel's text, dtypes, and sizes up to the next power of two, and later
 * launches, of this process too, use it: what the caller or an example says goes before it, the source's defaults
 * behind it.  Values that the caller or the example has set are not tuned.  TGL_ERROR_NAME: the kernel has no
 * `tune`.  To be closed also after an error. */
TglStatus tgl_case_tune(TglCase *c, const TglTuneOptions *options, TglTune *out);
void tgl_tune_close(TglTune *t);
/* Every kept result as a line of text, in a fixed order, and back: for version control.  A text that is not
 * such is TGL_ERROR_FILE, naming the line; lines before it are kept. */
TglStatus tgl_tuning_export(TglContext *cx, void (*write)(void *user, const char *line), void *user);
TglStatus tgl_tuning_import(TglContext *cx, const char *text, size_t size, int64_t *count);

/* ---- timing ---- */

typedef struct TglBenchOptions {
	double seconds;                 /* keep going this long; 0: half a second */
	int least, most;                /* runs; 0: 5 and 1000 */
	bool (*progress)(void *user, int run, double seconds); /* false stops; NULL: none */
	void *user;
} TglBenchOptions;

typedef struct TglBench {
	int runs;
	double median, least, most;     /* seconds a launch */
	double bytes;                   /* of every tensor read or written once */
	/* floating point operations, counted from the tile IR; -1: not known */
	double flops;
} TglBench;

/* A warm-up, then launches until the time is up. */
TglStatus tgl_case_bench(TglCase *c, const TglBenchOptions *options, TglBench *out);
/* Seconds a launch, without what launching costs the host: a graph of `launches` of them, replayed
 * `replays` times; the median.  Tensors that the kernel changes are not set back between.  The cpu
 * device launches one by one. */
TglStatus tgl_case_replay(TglCase *c, int launches, int replays, double *seconds);
/* Bytes and flops of one launch, without running it. */
TglStatus tgl_case_work(TglCase *c, double *bytes, double *flops);
/* Whether the kernel multiplies matrices; the type of the operands then, if `operand` is not NULL. */
bool tgl_case_product(TglCase *c, TglDType *operand);

#ifdef __cplusplus
}
#endif

#endif
