/* The Metal device: what its files share.  metal_objc.c: macOS's libraries and their functions; metal.c: the device and its
 * memory; metal_launch.c: kernels and launches. */
#ifndef TEGULA_METAL_H
#define TEGULA_METAL_H

#include "runtime/device.h"

/* By value, as Metal takes it. */
typedef struct MetalSize { unsigned long width, height, depth; } MetalSize;

typedef struct Metal {
	void *lib[4];
#define METAL_FUNCTION(name, result, params) result (*name) params;
#define METAL_SELECTOR(name, text, result, params) void *name;
#include "runtime/metal/metal.def"
#undef METAL_FUNCTION
#undef METAL_SELECTOR
} Metal;

#define METAL_SELECTOR(name, text, result, params) typedef result (*MetalSend_##name) params;
#include "runtime/metal/metal.def"
#undef METAL_SELECTOR

/* METAL_SEND(m, commit)(buffer, m->commit): the receiver, the selector, the rest. */
#define METAL_SEND(m, name) ((MetalSend_##name)(m)->objc_msgSend)

enum {
	METAL_LANGUAGE_3_1 = 0x30001,
	METAL_MATH_SAFE = 0,
	METAL_FAMILY_APPLE = 1000,                      /* + 7: M1, A14 */
	METAL_LEAST_FAMILY = 7,
	METAL_BYTES = 8,                                /* of a value, at most */
	METAL_BUFFERS = 31,
	METAL_VALUES = 4096,                            /* bytes of all of them, at most */
	METAL_WORD = 4,                                 /* buffers end where one does: atomics may touch all of it */
	METAL_RESIDENT = 128,                           /* threadgroups of a persistent grid; Metal has no query */
};

/* Memory that GPU and host both reach; `bytes` is where the host does. */
typedef struct MetalBuffer {
	void *object;
	char *bytes;
	size_t size;
} MetalBuffer;

typedef struct MetalState {
	Metal metal;
	void *device, *queue;
	MetalBuffer *buffer;                            /* all there are, in order of their addresses */
	int nbuffer, room;
	double seconds;                                 /* of launches since time_begin */
	uint64_t memory;
	int family;
	unsigned long max_shared;
	char name[96], text[160];
	Loaded *faulted;                                /* whose assert failed, until sync */
} MetalState;

#define METAL_STATE(d) ((MetalState *)(d)->state)

/* metal_objc.c */
bool metal_open(Metal *m, DeviceError *error);
void metal_close(Metal *m);
void *metal_string(const Metal *m, const char *s);          /* in the autorelease pool */
/* What an NSError says, NULL being "it does not say why". */
const char *metal_words(const Metal *m, void *error);

/* metal.c */
const MetalBuffer *metal_buffer_of(const MetalState *s, const void *p, size_t size);

/* metal_launch.c */
Loaded *metal_load(Device *d, const Artefact *a);
void metal_unload(Device *d, Loaded *l);
bool metal_resources(Device *d, Loaded *l, TglResources *out);
bool metal_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault);
bool metal_sync(Device *d, Fault *fault);

#endif
