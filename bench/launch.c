/* What a launch costs the host: tgl_launch, whole and public, with other tensors each time, against cuLaunchKernel of the
 * driver with as many arguments, in bursts into an empty queue, in turns.
 *
 *     bench_launch [dsl_examples/vector_add.tgl]
 *
 * Prints the median of a call in each and their difference. */
#include "bench/bench.h"
#include "runtime/tgl.h"

#include <stdio.h>
#include <stdlib.h>

enum { BURST = 200, ROUNDS = 101, SETS = 8, N = 1 << 12 };

static const char ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry raw(.param .b64 a, .param .b64 b, .param .b64 c, .param .b64 n, .param .b32 g, .param .b64 f) { ret; }\n";

static int
failed(TglContext *cx, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, tgl_error(cx)->text);
	return 1;
}

typedef struct Driver {
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*set)(void *);
	int (*load)(void **, const void *, unsigned, int *, void **);
	int (*find)(void **, void *, const char *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} Driver;

/* The driver's own kernel of as many arguments, in the context that the device uses; NULL: it does not load. */
static void *
load_raw(Driver *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *function;
	int device;
	bool ok = find(lib, "cuDeviceGet", &d->device) && find(lib, "cuDevicePrimaryCtxRetain", &d->retain) &&
		  find(lib, "cuCtxSetCurrent", &d->set) &&
		  find(lib, "cuModuleLoadDataEx", &d->load) && find(lib, "cuModuleGetFunction", &d->find) &&
		  find(lib, "cuLaunchKernel", &d->launch);
	if (!ok || d->device(&device, 0) || d->retain(&context, device) || d->set(context) ||
	    d->load(&module, ptx, 0, NULL, NULL) || d->find(&function, module, "raw"))
		return NULL;
	return function;
}

int
main(int argc, char **argv)
{
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, "cuda", NULL);
	TglProgram *p = dev ? tgl_program_file(cx, argc > 1 ? argv[1] : "dsl_examples/vector_add.tgl") : NULL;
	TglKernel *k = p ? tgl_kernel(p, "vector_add") : NULL;
	TglTensor *t[SETS][3];
	double ours[ROUNDS], raw[ROUNDS];
	if (!k)
		return failed(cx, "open");
	for (int s = 0; s < SETS; s++)
		for (int i = 0; i < 3; i++)
			if (!(t[s][i] = tgl_tensor(dev, TGL_F32, 1, (int64_t[]){N})))
				return failed(cx, "tensor");
	Driver driver;
	void *function = load_raw(&driver);
	if (!function) {
		fprintf(stderr, "the driver does not load\n");
		return 1;
	}
	for (int r = -3; r < ROUNDS; r++) {
		double a = now();
		for (int i = 0; i < BURST; i++) {
			TglTensor **s = t[i % SETS];
			TglArg args[] = {tgl_arg_tensor("x", s[0]), tgl_arg_tensor("y", s[1]), tgl_arg_tensor("z", s[2])};
			if (tgl_launch(dev, k, args, 3, NULL) != TGL_OK)
				return failed(cx, "launch");
		}
		double b = now();
		tgl_device_sync(dev);
		double c = now();
		for (int i = 0; i < BURST; i++) {
			TglTensor **s = t[i % SETS];
			void *x = tgl_tensor_data(s[0]), *y = tgl_tensor_data(s[1]), *z = tgl_tensor_data(s[2]), *f = NULL;
			long long n = N;
			unsigned g = N / 1024;
			void *params[] = {&x, &y, &z, &n, &g, &f};
			if (driver.launch(function, g, 1, 1, 128, 1, 1, 0, NULL, params, NULL))
				return 1;
		}
		double d = now();
		tgl_device_sync(dev);
		if (r >= 0) {
			ours[r] = (b - a) / BURST;
			raw[r] = (d - c) / BURST;
		}
	}
	qsort(ours, ROUNDS, sizeof *ours, compare);
	qsort(raw, ROUNDS, sizeof *raw, compare);
	printf("tgl_launch %.3f us, cuLaunchKernel %.3f us, difference %.3f us a call (medians of %d bursts of %d)\n",
	    ours[ROUNDS / 2] * 1e6, raw[ROUNDS / 2] * 1e6, (ours[ROUNDS / 2] - raw[ROUNDS / 2]) * 1e6, ROUNDS, BURST);
	tgl_context_close(&cx);
	return 0;
}
