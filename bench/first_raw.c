/* From a process's start to the first result of a kernel on a GPU, by the driver alone: what bench/first.c is
 * compared with.
 *
 *     bench_first_raw FILE.cubin KERNEL [STARTED] */
#include "bench/first.h"

typedef struct Driver {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*current)(void *);
	int (*load)(void **, const void *, unsigned, int *, void **);
	int (*function)(void **, void *, const char *);
	int (*alloc)(uint64_t *, size_t);
	int (*in)(uint64_t, const void *, size_t, void *);
	int (*out)(void *, uint64_t, size_t, void *);
	int (*sync)(void *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} Driver;

static bool
find_all(Driver *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	return find(lib, "cuInit", &d->init) && find(lib, "cuDeviceGet", &d->device) &&
	       find(lib, "cuDevicePrimaryCtxRetain", &d->retain) && find(lib, "cuCtxSetCurrent", &d->current) &&
	       find(lib, "cuModuleLoadDataEx", &d->load) &&
	       find(lib, "cuModuleGetFunction", &d->function) && find(lib, "cuMemAlloc_v2", &d->alloc) &&
	       find(lib, "cuMemcpyHtoDAsync_v2", &d->in) &&
	       find(lib, "cuMemcpyDtoHAsync_v2", &d->out) && find(lib, "cuStreamSynchronize", &d->sync) &&
	       find(lib, "cuLaunchKernel", &d->launch);
}

static bool
good(int result, const char *call)
{
	if (result != 0)
		fprintf(stderr, "%s: result %d\n", call, result);
	return result == 0;
}

static char *
read_all(const char *path)
{
	FILE *f = fopen(path, "rb");
	long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
	char *r = n > 0 ? calloc(1, (size_t)n + 1) : NULL;
	if (r && (fseek(f, 0, SEEK_SET) != 0 || fread(r, 1, (size_t)n, f) != (size_t)n)) {
		free(r);
		r = NULL;
	}
	if (f)
		fclose(f);
	return r;
}

static int
run_raw(Steps *s, const char *path, const char *kernel)
{
	Driver d;
	int device;
	void *context, *module, *function;
	uint64_t x, y;
	static float in[N], out[N];
	char *code = read_all(path);
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	if (!code || !find_all(&d)) {
		fputs("no code, or no driver\n", stderr);
		return 1;
	}
	bool ok = good(d.init(0), "cuInit");
	step(s, "init");
	ok = ok && good(d.device(&device, 0), "cuDeviceGet") &&
	     good(d.retain(&context, device), "cuDevicePrimaryCtxRetain") && good(d.current(context), "cuCtxSetCurrent");
	step(s, "context");
	ok = ok && good(d.load(&module, code, 0, NULL, NULL), "cuModuleLoadDataEx") &&
	     good(d.function(&function, module, kernel), "cuModuleGetFunction");
	step(s, "load");
	ok = ok && good(d.alloc(&x, sizeof in), "cuMemAlloc") && good(d.alloc(&y, sizeof out), "cuMemAlloc") &&
	     good(d.in(x, in, sizeof in, NULL), "cuMemcpyHtoDAsync") &&
	     good(d.in(y, out, sizeof out, NULL), "cuMemcpyHtoDAsync") &&
	     good(d.sync(NULL), "cuStreamSynchronize");
	step(s, "tensors");
	void *params[] = {&x, &y};
	ok = ok && good(d.launch(function, N / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel") &&
	     good(d.out(out, y, sizeof out, NULL), "cuMemcpyDtoHAsync") && good(d.sync(NULL), "cuStreamSynchronize");
	if (!ok)
		return 1;
	step(s, "result");
	return finish(s, out[N - 1], 2.0 * (N - 1));
}

int
main(int argc, char **argv)
{
	Steps s = begin(argc > 3 ? argv[3] : NULL);
	if (argc < 3) {
		fputs("usage: bench_first_raw FILE.cubin KERNEL [STARTED]\n", stderr);
		return 2;
	}
	return run_raw(&s, argv[1], argv[2]);
}
