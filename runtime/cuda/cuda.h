/* Inside the CUDA device: what its files share.  cuda_driver.c opens the driver and explains its
 * errors, cuda.c is the device and its memory, cuda_assemble.c makes PTX machine code, cuda_load.c
 * loads it, cuda_launch.c launches and waits, cuda_map.c encodes tensor maps, cuda_fill.c fills,
 * cuda_parts.c has the memory of blocks that share a program, cuda_queue.c has streams, events and
 * graphs. */
#ifndef TEGULA_CUDA_H
#define TEGULA_CUDA_H

#include <pthread.h>

#include "base/base.h"
#include "runtime/cuda/cuda_types.h"
#include "runtime/device.h"

/* A tensor map as the driver made it, and of what. */
typedef struct CudaMap {
	_Alignas(128) char bytes[MAP_BYTES];
	MapShape shape;
	bool is_encoded;
} CudaMap;

enum { MAX_LAUNCH_ATTRIBUTES = 2 };

/* Numbers of the driver's enums. */
enum {
#define CUDA_NUMBER(name, value) name = value,
#include "runtime/cuda/cuda.def"
#undef CUDA_NUMBER
};

typedef struct Cuda {
	void *lib;
#define CUDA(name, params) CudaResult (*name) params;
#define CUDA_OPTIONAL(name, params) CudaResult (*name) params;
#include "runtime/cuda/cuda.def"
#undef CUDA
#undef CUDA_OPTIONAL
} Cuda;

typedef struct CudaParts CudaParts;

enum { MAX_COUNTERS = 1024, COUNTER_BYTES = 16 };        /* 8 are used; so aligned, a kernel fills them */

typedef struct CudaState {
	Cuda cuda;
	int index, device;
	void *context;                  /* the device's primary one, shared with other libraries */
	const Target *target;
	int capability;                 /* 90 */
	int multiprocessors, resident_threads; /* of one multiprocessor */
	int max_shared;                 /* of a block, with the opt-in */
	bool starts_early;              /* kernels that wait may start before what comes before them is over */
	uint64_t memory, cache;         /* bytes; of the L2 cache */
	bool left_current;              /* cuda_enter left our context in a thread that had none … */
	pthread_t left_in;              /* … this one */
	void *timer[2];                 /* events */
	CudaPointer counters;           /* taken in turn by launches that ask for one; two more: empty tensors */
	unsigned next_counter;
	CudaParts *parts;
	int capture_mode;               /* of the thread, before cuda_aside */
	Artefact fill_code;
	Loaded *fill;                   /* the kernel that fills, or NULL */
	bool fill_tried;
	Loaded *launched;               /* kernels with asserts, launched since the last sync */
	CudaResult last;                /* what the last failure was */
	CudaResult broken;              /* a result that stays: nothing works any more */
	char name[16], text[256];
} CudaState;

enum { SPREAD_CLUSTER = 2, SPREAD_SHARED = 8 * 1024 };  /* blocks of clusters, bytes of a block: launches spread them */

struct Loaded {
	const Artefact *artefact;
	void *module, *function;
	int naxis;
	unsigned threads, shared, cluster;
	unsigned most_shared;           /* that a launch may ask for: more than it needs to spread blocks */
	CudaAttribute attribute[MAX_LAUNCH_ATTRIBUTES];
	unsigned nattribute;            /* 0: launched the plain way */
	unsigned resident;              /* blocks that fit at once, for a persistent grid; else 0 */
	int counter_at;                 /* the value that is a counter, -1: none */
	int arrivals_at, parts_at;      /* those of blocks that share a program, -1: none */
	CudaPointer faults;             /* its FaultRecord, 0: it has none */
	bool is_launched, on_many;      /* on more streams than one */
	void *stream;                   /* or on this one */
	Loaded *next_launched;
	uint64_t *value;                /* of the launch, by the artefact's ABI */
	CudaMap *map;                   /* of the last launch, by the artefact's maps */
	void **at;                      /* &value[i], or a map's bytes */
};

/* cuda_driver.c */

/* Opens libcuda.so.1 and starts it; false: *error says what is wrong.  To be closed in any case. */
bool cuda_open(Cuda *c, DeviceError *error);
void cuda_close(Cuda *c);
/* Puts a result into words: "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
void cuda_explain(const Cuda *c, CudaResult r, const char *call, DeviceError *out);
/* True if r is 0; else d->error is filled, and whether the context is lost is kept. */
bool cuda_check(Device *d, CudaResult r, const char *call);
/* Makes the device's context current; what cuda_leave takes back. */
void *cuda_enter(Device *d);
void cuda_leave(Device *d, void *before);

#define CUDA_STATE(d) ((CudaState *)(d)->state)
#define CUDA_CALL(d, name, ...) cuda_check((d), CUDA_STATE(d)->cuda.name(__VA_ARGS__), #name)

/* A function that makes the device's context current for the length of some calls. */
#define CUDA_FUNCTION(result, name, params, calls)                                                 \
	result name params                                                                         \
	{                                                                                          \
		void *before = cuda_enter(d);                                                      \
		bool ok = calls;                                                                   \
		cuda_leave(d, before);                                                             \
		return ok;                                                                         \
	}

/* cuda_load.c */

Loaded *cuda_load(Device *d, const Artefact *a);
void cuda_unload(Device *d, Loaded *l);
bool cuda_resources(Device *d, Loaded *l, TglResources *out);

/* cuda_map.c: tensor maps of a launch, encoded as far as they differ from the last one's */
bool cuda_set_maps(Device *d, Loaded *l, const PlanArg *args);

/* cuda_assemble.c */

bool cuda_finish(Device *d, Artefact *a);
bool cuda_load_text(Device *d, const Artefact *a, void **module);       /* PTX, by the driver's compiler */

/* cuda_launch.c */

bool cuda_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault);
bool cuda_launch_values(Device *d, Loaded *l, unsigned blocks); /* with what l->value holds */
bool cuda_time_begin(Device *d);
bool cuda_time_end(Device *d, double *seconds);
bool cuda_sync(Device *d, Fault *fault);
/* Looks at what kernels with asserts left, all or those of a stream that was waited for, and clears
 * it; false: *fault has the first, or d->error. */
bool cuda_collect(Device *d, void *stream, bool all, Fault *fault);
void cuda_note(CudaState *s, Loaded *l, void *stream); /* it was launched */
void cuda_drop_pending(CudaState *s, const Loaded *l); /* it is unloaded */

/* cuda_parts.c: the values that are memory for blocks that share a program, apart for streams and recordings */
bool cuda_take_parts(Device *d, Loaded *l, unsigned blocks);
uint64_t cuda_recording(Device *d, void *stream); /* a number of the recording of the stream under way; 0: none */
void cuda_parts_drop(CudaState *s, const void *stream); /* it is closed */
void cuda_parts_close(CudaState *s);

/* cuda_queue.c: DeviceQueue says what they do */
bool cuda_aside(Device *d, void **stream);
bool cuda_back(Device *d, void *stream);

/* cuda_fill.c */

bool cuda_fill(Device *d, void *to, const void *one, size_t size, size_t n);
void cuda_fill_close(Device *d);

/* cuda_queue.c */

extern const DeviceQueue cuda_queue;

#endif
