/* What a launch by a pack costs the host, against the driver's own calls with as many parameters and the same attribute, in
 * bursts into an empty queue, in turns.  bench/pack makes the packs of softmax and matmul and builds this.
 *
 * Prints "what: microseconds" a line, each the least mean of a burst. */
#include "bench.h"
#include "matmul.h"
#include "softmax.h"

#include <stdint.h>
#include <stdio.h>

enum { BURST = 400, ROUNDS = 50, SIZE = 256, R = 8, C = 64, PROGRAMMATIC = 6 };

/* A parameter list as softmax's and as matmul's, whose tensors are two or three maps. */
static const char ptx[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry words(.param .b64 a, .param .b64 b, .param .b64 c, .param .b64 n, .param .b32 g)"
    " { griddepcontrol.wait; ret; }\n"
    ".visible .entry maps(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128],"
    " .param .b64 n, .param .b32 g) { griddepcontrol.wait; ret; }\n";

/* cuda.h's CUlaunchAttribute and CUlaunchConfig. */
typedef struct Attribute {
	int id;
	char pad[4];
	union {
		int on;
		char room[64];
	} value;
} Attribute;

typedef struct Launch {
	unsigned grid[3], block[3], shared;
	void *stream;
	Attribute *attribute;
	unsigned nattribute;
} Launch;

typedef struct Driver {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*set)(void *);
	int (*sync)(void);
	int (*alloc)(uint64_t *, size_t);
	int (*load)(void **, const void *, unsigned, int *, void **);
	int (*find)(void **, void *, const char *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
	int (*launch_ex)(const Launch *, void *, void **, void **);
	void *words, *maps;
} Driver;

typedef struct Bench {
	Driver d;
	TgpContext *softmax, *matmul;
	void *x, *y, *a[2], *b, *c;
} Bench;

static bool
open_driver(Driver *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
	int device;
	bool ok = find(lib, "cuInit", &d->init) && find(lib, "cuDeviceGet", &d->device) &&
		  find(lib, "cuDevicePrimaryCtxRetain", &d->retain) && find(lib, "cuCtxSetCurrent", &d->set) &&
		  find(lib, "cuCtxSynchronize", &d->sync) && find(lib, "cuMemAlloc_v2", &d->alloc) &&
		  find(lib, "cuModuleLoadDataEx", &d->load) && find(lib, "cuModuleGetFunction", &d->find) &&
		  find(lib, "cuLaunchKernel", &d->launch) && find(lib, "cuLaunchKernelEx", &d->launch_ex);
	return ok && !d->init(0) && !d->device(&device, 0) && !d->retain(&context, device) && !d->set(context) &&
	       !d->load(&module, ptx, 0, NULL, NULL) && !d->find(&d->words, module, "words") &&
	       !d->find(&d->maps, module, "maps");
}

static void *
memory(const Driver *d, size_t bytes)
{
	uint64_t p = 0;
	return d->alloc(&p, bytes) ? NULL : (void *)(uintptr_t)p;
}

/* ---- what is measured ---- */

static int
by_softmax(Bench *b, int i)
{
	(void)i;
	return softmax(b->softmax, NULL, b->x, b->y, R, C);
}

static int
by_matmul(Bench *b, int i)
{
	(void)i;
	return matmul(b->matmul, NULL, b->a[0], b->b, b->c, SIZE, SIZE, SIZE);
}

static int
by_matmul_moving(Bench *b, int i)
{
	return matmul(b->matmul, NULL, b->a[i % 2], b->b, b->c, SIZE, SIZE, SIZE);
}

static int
raw(Bench *b, bool has_maps, bool is_early)
{
	static char map[3][128];
	void *x = b->x, *y = b->y, *z = NULL;
	long long n = SIZE;
	unsigned g = 1;
	void *words[] = {&x, &y, &z, &n, &g}, *maps[] = {map[0], map[1], map[2], &n, &g}, **at = has_maps ? maps : words;
	void *f = has_maps ? b->d.maps : b->d.words;
	if (!is_early)
		return b->d.launch(f, R, 1, 1, 128, 1, 1, 0, NULL, at, NULL);
	Attribute early = {.id = PROGRAMMATIC, .value.on = 1};
	Launch l = {{R, 1, 1}, {128, 1, 1}, 0, NULL, &early, 1};
	return b->d.launch_ex(&l, f, at, NULL);
}

static int raw_words(Bench *b, int i) { return (void)i, raw(b, false, false); }
static int raw_words_early(Bench *b, int i) { return (void)i, raw(b, false, true); }
static int raw_maps_early(Bench *b, int i) { return (void)i, raw(b, true, true); }

static const struct {
	const char *what;
	int (*call)(Bench *, int);
} calls[] = {
	{"the pack's `softmax`, f32[8, 64]", by_softmax},
	{"`cuLaunchKernel`, as many parameters", raw_words},
	{"`cuLaunchKernelEx`, as many parameters, starting early", raw_words_early},
	{"the pack's `matmul`, bf16 256 x 256 x 256", by_matmul},
	{"the same, another address each time", by_matmul_moving},
	{"`cuLaunchKernelEx`, three maps as parameters, starting early", raw_maps_early},
};

enum { CALLS = sizeof calls / sizeof *calls };

int
main(void)
{
	Bench b = {.softmax = softmax_open(), .matmul = matmul_open()};
	double least[CALLS];
	size_t bytes = (size_t)SIZE * SIZE * 4;
	if (!open_driver(&b.d))
		return fprintf(stderr, "the driver does not load\n"), 1;
	b.x = memory(&b.d, bytes), b.y = memory(&b.d, bytes), b.b = memory(&b.d, bytes), b.c = memory(&b.d, bytes);
	b.a[0] = memory(&b.d, bytes), b.a[1] = memory(&b.d, bytes);
	for (int r = -3; r < ROUNDS; r++)
		for (int k = 0; k < CALLS; k++) {
			double begun = now();
			for (int i = 0; i < BURST; i++)
				if (calls[k].call(&b, i))
					return fprintf(stderr, "%s: %s; %s\n", calls[k].what, softmax_error(b.softmax),
						   matmul_error(b.matmul)), 1;
			double mean = (now() - begun) / BURST;
			least[k] = r <= 0 || mean < least[k] ? mean : least[k];
			b.d.sync();
		}
	for (int k = 0; k < CALLS; k++)
		printf("%s: %.3f\n", calls[k].what, least[k] * 1e6);
	return 0;
}
