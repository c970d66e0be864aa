/* What the runtime asks of a device: one small struct of functions.  A device has memory, loads a kernel in whatever form
 * it runs, and runs it over a grid; tensors, arguments and files are above it.
 *
 * There are two kinds.  One runs tile IR (`load`); the other takes what the compiler makes for its target
 * (`load_artefact`), and may have a queue: what is asked of it then happens in order on its stream, later than the call. */
#ifndef TEGULA_DEVICE_H
#define TEGULA_DEVICE_H

#include "ir/interp/interp.h"
#include "lower/artefact.h"
#include "runtime/tgl.h"

typedef struct Device Device;
typedef struct Loaded Loaded;           /* a kernel, ready to run; each device has its own */

/* Calls from launches to the host: shared by everything on a context, changed between launches only. */
typedef struct DeviceHooks {
	/* NULL: dropped; the device calls it one at a time */
	void (*print)(void *user, const char *line);
	void *print_user;
	void (*trace)(void *user, const TglTrace *t);
	void *trace_user;
} DeviceHooks;

typedef enum DeviceFailure {
	DEVICE_WELL,
	DEVICE_FAILED,                  /* the call, or the machine */
	DEVICE_NO_MEMORY,
	DEVICE_KERNEL,                  /* a kernel did something that ended all work on it */
} DeviceFailure;

/* Why the last function that returned false or NULL did so. */
typedef struct DeviceError {
	DeviceFailure what;
	char text[512], help[256];      /* a sentence without its full stop; the fix, or "" */
} DeviceError;

/* What there is to say of a device without opening it. */
typedef struct DeviceProbe {
	TglDeviceInfo info;
	char name[32], text[1024];      /* room for what `info` points to */
} DeviceProbe;

/* Streams, events and graphs of a device that runs behind the host's back.  Handles are the
 * machine's own, so that they can be shared with others. */
typedef struct DeviceQueue {
	bool (*stream_open)(Device *d, void **stream);
	void (*stream_close)(Device *d, void *stream);
	bool (*stream_sync)(Device *d, void *stream, Fault *fault); /* as sync, but this stream alone */
	bool (*stream_wait)(Device *d, void *stream, void *event);
	uint64_t (*recording)(Device *d, void *stream); /* a number of the graph that is being recorded there; 0: none */
	/* What the device is asked between the two is no part of a recording, whoever records: it goes to a stream of our
	 * own, for which `back` waits.  *stream is the one so far. */
	bool (*aside)(Device *d, void **stream);
	bool (*back)(Device *d, void *stream);
	bool (*event_open)(Device *d, void **event);
	void (*event_close)(Device *d, void *event);
	bool (*event_record)(Device *d, void *event, void *stream);
	bool (*event_sync)(Device *d, void *event);
	bool (*event_seconds)(Device *d, void *from, void *to, double *out);
	bool (*graph_begin)(Device *d, void *stream); /* what `stream` is given is recorded */
	bool (*graph_end)(Device *d, void *stream, void **graph);
	bool (*graph_launch)(Device *d, void *graph, void *stream);
	void (*graph_close)(Device *d, void *graph);
	/* a graph with it goes to `stream`: the next wait looks at its faults */
	void (*will_run)(Device *d, Loaded *l, void *stream);
	bool (*host_alloc)(Device *d, void **p, size_t size); /* memory that copies fast */
	void (*host_free)(Device *d, void *p);
} DeviceQueue;

/* Sectors of 32 bytes that accesses of whole warps at one place of the source took. */
typedef struct AccessCount {
	Place place;
	bool is_write;
	int bytes;                      /* of a thread's access */
	int64_t n, total, least;        /* accesses; sectors of all; the fewest for so many bytes */
	int64_t programs, of;           /* that ran, of the grid's */
} AccessCount;

struct Device {
	/* simt: the kernel's thread IR in place of what lowering makes, for the next load; or NULL */
	const struct ThreadModule *thread;
	const char *name;               /* "cpu", "cuda"; of an opened one of several "cuda:1" */
	const char *target;             /* what kernels are compiled for: "cpu", "sm_90a" */
	const char *source;             /* what `target` is in a kernel's text; NULL: the target's word */
	/* its memory can be read and written by the host as it is */
	bool host;
	/* tile IR is compiled for assumptions about the arguments, as artefacts are */
	bool specialises;
	/* opened with break_nan: it wants tile IR of pass nan_check too */
	bool watches;
	/* Fills what there is of number `index`; false past the last.  One that is not available
	 * says why_not; there is always a number 0. */
	bool (*probe)(int index, DeviceProbe *out);
	/* False: not available, d->error says why. */
	bool (*open)(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks);
	void (*close)(Device *d);       /* nothing is loaded any more */
	void (*info)(const Device *d, TglDeviceInfo *out);

	void *(*alloc)(Device *d, size_t size); /* zeroed, aligned to 64; NULL: no memory */
	void (*free)(Device *d, void *p, size_t size);
	/* Host to device and back.  With `wait` the copy is done on return. */
	bool (*copy_in)(Device *d, void *to, const void *from, size_t size, bool wait);
	bool (*copy_out)(Device *d, void *to, const void *from, size_t size, bool wait);
	/* `n` times the `size` bytes at `one` (1, 2, 4 or 8), one behind the other.  NULL: the host
	 * does it. */
	bool (*fill)(Device *d, void *to, const void *one, size_t size, size_t n);
	/* Whether memory of the caller's can be reached from the device; NULL: any can. */
	bool (*reaches)(Device *d, const void *p, size_t size);

	/* NULL: this device can't run it, *why (in the module's cx->tmp) says what; NULL there: cx has the error. */
	Loaded *(*load)(Device *d, Func *f, const char **why);
	/* Turns what the compiler made into what is best kept and loaded; NULL: it is that. */
	bool (*finish)(Device *d, Artefact *a);
	/* NULL: d->error says why.  The artefact stays the caller's, and must live as long. */
	Loaded *(*load_artefact)(Device *d, const Artefact *a);
	void (*unload)(Device *d, Loaded *l);
	bool (*resources)(Device *d, Loaded *l, TglResources *out); /* NULL: it has none to count */
	/* Runs the whole grid, or has it run on d->stream; `args` are by the function's parameters, or, of an artefact,
	 * by the kernel's and then its dimensions.  False with *fault filled, or d->error set. */
	bool (*launch)(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES],
	    Fault *fault);
	/* Time on the device between the two; the second waits. */
	bool (*time_begin)(Device *d);
	bool (*time_end)(Device *d, double *seconds);
	/* Waits until everything is done.  False: d->error, or *fault of a kernel launched since
	 * the last time. */
	bool (*sync)(Device *d, Fault *fault);

	/* Launches from here on run in another order.  NULL: they have none. */
	void (*schedule)(Device *d, uint64_t number);
	/* What its checks found in the last launch, as diagnostics; true if there was anything.  NULL: it has none. */
	bool (*report_findings)(Device *d, Compile *cx);

	/* Launches from here on count what accesses of global memory cost, in at most so many programs, where those do not
	 * depend on each other.  NULL: it cannot. */
	void (*count)(Device *d, int64_t programs);
	/* What the last launch counted, by index; false past the last. */
	bool (*counted)(const Device *d, int i, AccessCount *out);
	/* The same of branches and loops: what its programs did before `seconds` were over, of what is loaded behind this
	 * call.  NULL: it cannot. */
	void (*follow)(Device *d, int64_t programs, double seconds);
	const struct Followed *(*followed)(const Device *d);

	const DeviceQueue *queue;       /* NULL: everything is done when a call returns */
	void *stream;                   /* where work goes; NULL: the device's own */
	double began;                   /* of what is timed, by the host's clock */
	DeviceError error;
	void *state;
};

extern const Device device_cpu;         /* cpu.c */
extern const Device device_cuda;        /* cuda.c */
extern const Device device_metal;       /* metal.c */
extern const Device device_simt;        /* simt.c */

/* launch/abi.c: a scalar's bits as a GPU's kernel takes them, in the low bytes */
uint64_t scalar_bits(DType t, const PlanArg *a);
/* The same of any parameter; 0 for what the device itself provides. */
uint64_t abi_value(const AbiParam *p, const PlanArg *args, const int64_t grid[MAX_AXES]);
/* A tensor as the driver describes it in a map, the fastest dimension first; strides in bytes. */
typedef struct MapShape {
	uint64_t address;
	int64_t extent[KERNEL_RANK], stride[KERNEL_RANK];
	int lower[WINDOW_RANK], upper[WINDOW_RANK];     /* of windows: corners of the bounding box, from the tensor's */
} MapShape;

/* `nothing`: 16 bytes of zeros, which stand for a tensor without elements, and 16 that such a one is stored to.  False: no
 * map has such a tensor, *e says why. */
bool abi_map(DeviceError *e, const TensorMap *m, const PlanArg *args, uint64_t nothing, MapShape *out);
/* The extents of a matrix that a kernel before computes. */
void abi_made(const struct MadeTensor *m, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t dim[2]);
/* Do the bounding boxes and offsets of maps of windows fit what such a map holds? */
bool abi_windows_fit(const TensorMap *map, int n, const PlanArg *args);
/* The blocks of a grid; resident: as many at most, 0: the grid is not persistent.  False: too many, d->error says so. */
bool abi_blocks(Device *d, const Artefact *a, const int64_t grid[MAX_AXES], int64_t resident, unsigned *out);

/* assert.c: completes the fault of an assert; kind and place are the caller's. */
void device_assert_fault(const FaultRecord *r, int naxis, const char *text, Fault *fault);
/* The same for an artefact, whose texts say where each assert stands. */
void artefact_fault(const Artefact *a, const FaultRecord *r, Fault *fault);

/* For devices that share the host's memory and are done when a call returns. */
bool device_host_copy(Device *d, void *to, const void *from, size_t size, bool wait);
bool device_host_time_begin(Device *d);
bool device_host_time_end(Device *d, double *seconds);
bool device_host_sync(Device *d, Fault *fault);

/* device.c: fills d->error; false */
bool device_fail(Device *d, DeviceFailure what, const char *help, const char *fmt, ...) PRINTF(4, 5);
/* The same where there is no device yet. */
bool device_error(DeviceError *e, DeviceFailure what, const char *help, const char *fmt, ...) PRINTF(4, 5);
/* What a probe found, or why the device is not available, goes to the probe's own memory. */
void device_probe_text(DeviceProbe *out, const DeviceError *error);
/* True, and it says so: what only devices of this machine do was asked of a GPU. */
bool device_gpu_refuses(Device *d, const TglDeviceOptions *o);

double device_clock(void);              /* seconds, monotonic */
uint64_t device_host_memory(void);      /* bytes of memory and swap that this process may use */

#endif
