/* Inside the runtime: contexts, devices, streams, graphs and programs, which all its files share.  Each subfolder has a
 * header of its own (tensor/tensor.h, launch/launch.h, case/case.h, tune/tune.h, cache/cache.h); users see runtime/tgl.h
 * alone.
 *
 * Every public function begins with context_begin, which drops the last call's error, and ends a failure with
 * context_fail, which renders what was reported.  Functions without the tgl_ prefix report into a Compile and return
 * false; they never touch the context's error, so that they can call each other. */
#ifndef TEGULA_RUNTIME_H
#define TEGULA_RUNTIME_H

#include "compile/compile.h"
#include "runtime/cache/cache.h"
#include "runtime/device.h"

typedef struct Instance Instance;       /* launch/launch.h */
typedef struct Scratch Scratch;

struct TglContext {
	int refs;                       /* the user's handle and every object opened on it */
	Compile *own;                   /* reports that have no program */
	TglError error;
	Text text, json, message, file;
	Text compiled_text;             /* tgl_kernel_code's last answer */
	char code[8];
	int limit;
	bool color;
	DeviceHooks hooks;
	TglCompileOptions compile;      /* texts are this context's copies */
	DeviceProbe probe;              /* what tgl_device_list said last */
	Cache *cache;                   /* NULL until needed */
	struct Reference *references;   /* of cases, for others with the same one (runtime/case/kept.c) */
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

typedef struct Chosen Chosen;           /* tune/tune_choose.c */

struct TglKernel {
	TglProgram *program;
	Kernel *k;
	const char **param_text;
	bool *in_header;                /* per parameter: the header mentions this scalar */
	Instance *instances;            /* compiled forms, newest first */
	struct CachedLaunch *launches;  /* the last ones, newest first */
	Chosen *chosen;                 /* schedules for sizes that were not tuned */
	bool spills_reported;           /* the warning that registers are spilled was given */
	bool spills_muted;              /* it is not given: tuning tries all */
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
/* The status that the last report of `cx` makes: memory, the device, or `otherwise`. */
TglStatus report_status(const Compile *cx, TglStatus otherwise);
void context_unref(TglContext *cx);
void references_close(struct Reference *r); /* all of the list (runtime/case/kept.c) */
/* True, and reported: an argument is NULL.  `f` is the function, `what` the argument. */
bool context_null(TglContext *cx, const void *p, const char *f, const char *what);
/* Begins a call of `f`; false, and reported, if its argument `what` is NULL. */
bool context_call(TglContext *cx, const char *f, const char *what, const void *p);

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

/* program.c */

/* What the compiler makes from now on goes to `mem`, so that it can be freed apart from the
 * program; returns where it went before.  Names that are interned stay the program's. */
Arena *compile_into(Compile *cx, Arena *mem);
void program_unref(TglProgram *p);

/* cache/cache_api.c */

Cache *context_cache(TglContext *cx);
TglTuning context_tuning(const TglContext *cx); /* never TGL_TUNING_DEFAULT */
/* Reports into `to` what the cache has to report, if anything. */
void context_cache_warn(TglContext *cx, Compile *to);

#endif
