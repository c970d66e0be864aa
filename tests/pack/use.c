/* Launches of a pack on the stand-in driver: what each form is given, what is refused and in which words, threads, graphs,
 * several GPUs, fork. C99 and C++ (tests/pack/run compiles it as both). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t Pointer;

#define CALLS(X) \
	X(cuInit, (unsigned)) X(cuDeviceGet, (int *, int)) X(cuDevicePrimaryCtxRetain, (void **, int)) X(cuCtxSetCurrent, (void *)) \
	X(cuMemAlloc_v2, (Pointer *, size_t)) X(cuMemFree_v2, (Pointer)) X(cuStreamCreate, (void **, unsigned)) \
	X(cuMemcpyHtoDAsync_v2, (Pointer, const void *, size_t, void *)) X(cuMemcpyDtoHAsync_v2, (void *, Pointer, size_t, void *)) \
	X(cuStreamBeginCapture_v2, (void *, int)) X(cuStreamEndCapture, (void *, void **)) \
	X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) X(cuGraphLaunch, (void *, void *)) \
	X(cuGraphDestroy, (void *)) X(cuGraphExecDestroy, (void *)) X(cuStreamDestroy_v2, (void *)) \
	X(mock_calls, (const char *)) X(mock_live, (void))

#define X(name, params) static int (*name) params;
CALLS(X)
#undef X
static const char *(*mock_last_launch)(void);

static int failed;

static void
check(int ok, int line, const char *fmt, ...)
{
	va_list ap;
	if (ok)
		return;
	failed++;
	printf("use.c:%d: ", line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

#define CHECK(e) check(e, __LINE__, "%s", #e)
#define GOOD(e) do { TgpStatus s_ = (e); check(s_ == TGP_OK, __LINE__, "%s: status %d, %s", #e, s_, kernels_error(cx)); } while (0)
#define FAILS(status, text, e) do { TgpStatus s_ = (e); check(s_ == (status) && strstr(kernels_error(cx), text), __LINE__, \
	"%s: status %d, %s", #e, s_, kernels_error(cx)); } while (0)
#define LAUNCHED(text) check(strstr(mock_last_launch(), text) != NULL, __LINE__, "no '%s' in '%s'", text, mock_last_launch())

static void
find_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *p;
	if (!lib) {
		printf("no stand-in driver: %s\n", dlerror());
		exit(77);
	}
#define X(name, params) p = dlsym(lib, #name); memcpy((void *)&name, &p, sizeof p);
	CALLS(X)
#undef X
	p = dlsym(lib, "mock_last_launch");
	memcpy((void *)&mock_last_launch, &p, sizeof p);
}

static void *
context(int index)
{
	int device;
	void *c = NULL;
	cuInit(0);
	cuDeviceGet(&device, index);
	cuDevicePrimaryCtxRetain(&c, device);
	return c;
}

static char *
memory(size_t bytes)
{
	Pointer p = 0;
	CHECK(cuMemAlloc_v2(&p, bytes) == 0);
	return (char *)(uintptr_t)p;
}

/* ---- what is launched ---- */

static void
test_forms(TgpContext *cx)
{
	char text[100];
	float *x = (float *)memory(1 << 20), *y = (float *)memory(1 << 20), back[8];
	const float one[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	CHECK(cuMemcpyHtoDAsync_v2((Pointer)(uintptr_t)x, one, sizeof one, NULL) == 0);
	GOOD(copy_rows(cx, NULL, x, y, 8, 64));
	LAUNCHED("copy_rows blocks 8 ");
	LAUNCHED(" early:");
	snprintf(text, sizeof text, ": %llx %llx 8 40 8", (unsigned long long)(uintptr_t)x, (unsigned long long)(uintptr_t)y);
	LAUNCHED(text);
	CHECK(cuMemcpyDtoHAsync_v2(back, (Pointer)(uintptr_t)y, sizeof back, NULL) == 0 && memcmp(back, one, sizeof one) == 0);
	/* another size class; the same again takes the plan that there is */
	GOOD(copy_rows(cx, NULL, x, y, 3, 1000));
	LAUNCHED("blocks 3 ");
	GOOD(copy_rows(cx, NULL, x, y, 3, 1000));
	GOOD(copy_rows(cx, NULL, x, y, 8, 20000));      /* from --sizes */
	/* addresses that are multiples of 4 alone: the general form, which is another module */
	int before = mock_calls("cuModuleLoadDataEx");
	GOOD(copy_rows(cx, NULL, x + 1, y, 8, 64));
	CHECK(mock_calls("cuModuleLoadDataEx") == before + 1);
	GOOD(copy_rows(cx, NULL, x + 3, y, 8, 64));
	CHECK(mock_calls("cuModuleLoadDataEx") == before + 1);
	/* nothing to do is done */
	before = mock_calls("cuLaunchKernelEx");
	GOOD(copy_rows(cx, NULL, NULL, NULL, 0, 64));
	GOOD(turned(cx, NULL, NULL, NULL, NULL, NULL, 64, 0));
	CHECK(mock_calls("cuLaunchKernelEx") == before);
	cuMemFree_v2((Pointer)(uintptr_t)x);
	cuMemFree_v2((Pointer)(uintptr_t)y);
}

static void
test_strides(TgpContext *cx)
{
	float *x = (float *)memory(1 << 16), *y = (float *)memory(1 << 16);
	const int64_t turned_strides[2] = {1, 64}, rows[2] = {64, 1}, none[2] = {0, 1}, wild[2] = {INT64_C(1) << 50, 1};
	GOOD(turned(cx, NULL, x, NULL, y, NULL, 64, 64));
	GOOD(turned(cx, NULL, x, turned_strides, y, NULL, 64, 64));
	LAUNCHED(" 1 40 ");
	/* strides of rows are none: the form for contiguous tensors */
	int before = mock_calls("cuModuleLoadDataEx");
	GOOD(turned(cx, NULL, x, rows, y, rows, 64, 64));
	CHECK(mock_calls("cuModuleLoadDataEx") == before);
	FAILS(TGP_ERROR_USAGE, "stride of dimension 0 is 0", turned(cx, NULL, x, NULL, y, none, 64, 64));
	GOOD(turned(cx, NULL, x, NULL, y, none, 64, 0));
	FAILS(TGP_ERROR_USAGE, "stride of dimension 0 of x", turned(cx, NULL, x, wild, y, NULL, 64, 64));
	cuMemFree_v2((Pointer)(uintptr_t)x);
	cuMemFree_v2((Pointer)(uintptr_t)y);
}

static void
test_fills_and_scratch(TgpContext *cx)
{
	int32_t *x = (int32_t *)memory(4096), *bins = (int32_t *)memory(64), back[16];
	double *halves = (double *)memory(24), half[3];
	int allocated = mock_calls("cuMemAllocAsync"), freed = mock_calls("cuMemFreeAsync");
	GOOD(counts(cx, NULL, x, bins, halves, 3, 1024));
	LAUNCHED(" 3 400");
	CHECK(mock_calls("cuMemAllocAsync") == allocated + 1 && mock_calls("cuMemFreeAsync") == freed + 1);
	CHECK(cuMemcpyDtoHAsync_v2(back, (Pointer)(uintptr_t)bins, sizeof back, NULL) == 0 && back[0] == 7 && back[15] == 7);
	CHECK(cuMemcpyDtoHAsync_v2(half, (Pointer)(uintptr_t)halves, sizeof half, NULL) == 0 && half[0] == 0.5 && half[2] == 0.5);
	GOOD(kernels_sync(cx, NULL));
	setenv("MOCK_CUDA_FAIL", "cuMemAllocAsync:0:2", 1);
	FAILS(TGP_ERROR_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", counts(cx, NULL, x, bins, halves, 3, 1024));
	unsetenv("MOCK_CUDA_FAIL");
	cuMemFree_v2((Pointer)(uintptr_t)x);
	cuMemFree_v2((Pointer)(uintptr_t)bins);
	cuMemFree_v2((Pointer)(uintptr_t)halves);
}

static void
test_maps(TgpContext *cx)
{
	char *a = memory(1 << 20), *b = memory(1 << 20), *c = memory(1 << 20);
	const int64_t one[2] = {4096, 1}, apart[2] = {520, 1}, odd[2] = {516, 1}, all[2] = {0, 1}, turned[2] = {1, 256};
	const int64_t dense[2] = {512, 1};
	int encoded;
	GOOD(product_f16(cx, NULL, a, b, c, 256, 256, 512));
	LAUNCHED(" map ");
	LAUNCHED(" 256x256 box ");
	encoded = mock_calls("cuTensorMapEncodeTiled");
	GOOD(product_f16(cx, NULL, a, b, c, 256, 256, 512));
	GOOD(product_f16(cx, NULL, a + 512, b, c, 256, 256, 512));
	CHECK(mock_calls("cuTensorMapEncodeTiled") == encoded && mock_calls("cuTensorMapReplaceAddress") == 1);
	/* the stride of a dimension of one is nothing of the plan's */
	GOOD(lines(cx, NULL, a, one, b, c, 1, 256, 512));
	LAUNCHED(" map ");
	encoded = mock_calls("cuTensorMapEncodeTiled");
	GOOD(lines(cx, NULL, a, one, b, c, 1, 256, 512));
	GOOD(lines(cx, NULL, a, NULL, b, c, 1, 256, 512));
	CHECK(mock_calls("cuTensorMapEncodeTiled") == encoded);
	/* rows further apart than they are long, at multiples of 16 bytes, and one for all; others */
	GOOD(lines(cx, NULL, a, apart, b, c, 256, 256, 512));
	LAUNCHED(" map ");
	GOOD(lines(cx, NULL, a, odd, b, c, 256, 256, 512));
	CHECK(!strstr(mock_last_launch(), " map "));
	GOOD(lines(cx, NULL, a, all, b, c, 256, 256, 512));
	LAUNCHED(" map ");
	GOOD(lines(cx, NULL, a, turned, b, c, 256, 256, 512));
	CHECK(!strstr(mock_last_launch(), " map "));
	GOOD(lines(cx, NULL, a, dense, b, c, 256, 256, 512));
	LAUNCHED(" map ");
	/* rows that no map takes */
	GOOD(product_f16(cx, NULL, a, b, c, 256, 257, 511));
	CHECK(!strstr(mock_last_launch(), " map "));
	GOOD(product_bf16(cx, NULL, a, b, c, 256, 256, 512));
	/* K = 0: a tensor without elements is mapped all the same */
	GOOD(product_f16(cx, NULL, NULL, NULL, c, 256, 0, 512));
	cuMemFree_v2((Pointer)(uintptr_t)a);
	cuMemFree_v2((Pointer)(uintptr_t)b);
	cuMemFree_v2((Pointer)(uintptr_t)c);
}

/* ---- what is refused ---- */

static void
test_refusals(TgpContext *cx, void *current)
{
	char *m = memory(1 << 20);
	float *x = (float *)m, *y = (float *)(m + (1 << 19));
	int64_t long_row = INT64_C(1) << 41;
	FAILS(TGP_ERROR_USAGE, "the address of x is", copy_rows(cx, NULL, (float *)(m + 2), y, 8, 64));
	FAILS(TGP_ERROR_USAGE, "y is written, and overlaps x", copy_rows(cx, NULL, x, x + 100, 8, 64));
	FAILS(TGP_ERROR_USAGE, "x is NULL", copy_rows(cx, NULL, NULL, y, 8, 64));
	FAILS(TGP_ERROR_USAGE, "C is -1", copy_rows(cx, NULL, x, y, 8, -1));
	FAILS(TGP_ERROR_USAGE, "sizes are from 0 to 2^40", copy_rows(cx, NULL, x, y, long_row, 64));
	FAILS(TGP_ERROR_SIZE, "C = 50000, which makes BLOCK = 65536 on sm_90a", copy_rows(cx, NULL, x, y, 8, 50000));
	FAILS(TGP_ERROR_USAGE, "`C <= 100000`, which is false", copy_rows(cx, NULL, x, y, 8, 100001));
	FAILS(TGP_ERROR_SIZE, "R = 1099511627776, C = 64 make a grid, or a tensor, of more than 2^31 - 1", copy_rows(cx, NULL, x, y, INT64_C(1) << 40, 64));
	/* a stream that is none of this context */
	int not_a_stream[4] = {1, 2, 3, 4};
	FAILS(TGP_ERROR_LAUNCH, "CUDA_ERROR_INVALID_HANDLE", copy_rows(cx, not_a_stream, x, y, 8, 64));
	cuCtxSetCurrent(NULL);
	FAILS(TGP_ERROR_CONTEXT, "this thread has no CUDA context", copy_rows(cx, NULL, x, y, 8, 64));
	cuCtxSetCurrent(current);
	setenv("MOCK_CUDA_FAIL", "cuCtxGetId:0:709", 1);
	FAILS(TGP_ERROR_CONTEXT, "cuCtxGetId failed", copy_rows(cx, NULL, x, y, 8, 64));
	unsetenv("MOCK_CUDA_FAIL");
	/* the text is this thread's until its next failure */
	GOOD(copy_rows(cx, NULL, x, y, 8, 64));
	CHECK(strstr(kernels_error(cx), "cuCtxGetId") != NULL);
	CHECK(copy_rows(NULL, NULL, x, y, 8, 64) == TGP_ERROR_USAGE && strstr(kernels_error(NULL), "there is no context"));
	cuMemFree_v2((Pointer)(uintptr_t)m);
}

/* Every call of the driver that a first launch makes fails in turn: a status and its words, and nothing is left. */
static void
test_failures(void)
{
	static const char *const names[] = {"cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuModuleLoadDataEx",
		"cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncSetAttribute", "cuMemAlloc_v2", "cuStreamCreate", "cuMemsetD8Async",
		"cuStreamSynchronize", "cuTensorMapEncodeTiled", "cuLaunchKernelEx"};
	char *a = memory(1 << 20), *b = memory(1 << 20), *c = memory(1 << 20);
	size_t i;
	for (i = 0; i < sizeof names / sizeof *names; i++) {
		TgpContext *cx = kernels_open();
		char fail[100];
		int live = mock_live();
		snprintf(fail, sizeof fail, "%s:0:999", names[i]);
		setenv("MOCK_CUDA_FAIL", fail, 1);
		TgpStatus s = product_f16(cx, NULL, a, b, c, 256, 256, 512);
		check(s != TGP_OK && strstr(kernels_error(cx), "result 999"), __LINE__, "%s: status %d, %s", names[i], s,
		    kernels_error(cx));
		unsetenv("MOCK_CUDA_FAIL");
		GOOD(product_f16(cx, NULL, a, b, c, 256, 256, 512));
		kernels_close(&cx);
		check(cx == NULL && mock_live() == live, __LINE__, "%s: %d handles are left", names[i], mock_live() - live);
	}
	cuMemFree_v2((Pointer)(uintptr_t)a);
	cuMemFree_v2((Pointer)(uintptr_t)b);
	cuMemFree_v2((Pointer)(uintptr_t)c);
}

/* ---- threads, graphs, GPUs, fork ---- */

enum { THREADS = 16, ROUNDS = 200 };

typedef struct Worker {
	pthread_t thread;
	TgpContext *cx;
	void *current;
	char *a, *b, *c;
	int number, wrong;
} Worker;

static void *
work(void *user)
{
	Worker *w = (Worker *)user;
	int i;
	cuCtxSetCurrent(w->current);
	for (i = 0; i < ROUNDS; i++) {
		char want[40];
		w->wrong += product_f16(w->cx, NULL, w->a + 512 * w->number, w->b, w->c, 256, 256, 512) != TGP_OK;
		w->wrong += copy_rows(w->cx, NULL, (float *)w->a, (float *)w->c, 1 + w->number, 1 + i) != TGP_OK;
		snprintf(want, sizeof want, "C is -%d;", w->number + 1);
		w->wrong += copy_rows(w->cx, NULL, (float *)w->a, (float *)w->c, 1, -1 - w->number) != TGP_ERROR_USAGE;
		w->wrong += strstr(kernels_error(w->cx), want) == NULL;
	}
	return NULL;
}

static void
test_threads(TgpContext *cx, void *current)
{
	Worker w[THREADS];
	char *a = memory(1 << 20), *b = memory(1 << 20), *c = memory(1 << 20);
	int i, before = mock_calls("cuLaunchKernelEx");
	for (i = 0; i < THREADS; i++) {
		w[i].cx = cx, w[i].current = current, w[i].number = i, w[i].wrong = 0;
		w[i].a = a, w[i].b = b, w[i].c = c;
		CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		check(w[i].wrong == 0, __LINE__, "thread %d: %d wrong", i, w[i].wrong);
	}
	CHECK(mock_calls("cuLaunchKernelEx") == before + 2 * THREADS * ROUNDS);
	cuMemFree_v2((Pointer)(uintptr_t)a);
	cuMemFree_v2((Pointer)(uintptr_t)b);
	cuMemFree_v2((Pointer)(uintptr_t)c);
}

/* Recorded while nothing is loaded yet. */
static void
test_graph(void)
{
	TgpContext *cx = kernels_open();
	void *stream = NULL, *graph = NULL, *exec = NULL;
	float *x = (float *)memory(4096), *y = (float *)memory(4096), back[8];
	const float one[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	CHECK(cuStreamCreate(&stream, 1) == 0 && cuStreamBeginCapture_v2(stream, 0) == 0);
	GOOD(copy_rows(cx, stream, x, y, 8, 64));
	CHECK(cuStreamEndCapture(stream, &graph) == 0 && cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
	CHECK(cuMemcpyHtoDAsync_v2((Pointer)(uintptr_t)x, one, sizeof one, NULL) == 0);
	CHECK(cuGraphLaunch(exec, stream) == 0);
	CHECK(cuMemcpyDtoHAsync_v2(back, (Pointer)(uintptr_t)y, sizeof back, NULL) == 0 && memcmp(back, one, sizeof one) == 0);
	cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
	cuStreamDestroy_v2(stream);
	kernels_close(&cx);
	cuMemFree_v2((Pointer)(uintptr_t)x);
	cuMemFree_v2((Pointer)(uintptr_t)y);
}

/* A form that the GPU has no room for is passed over, where another is right, too. */
static void
test_refused_form(void)
{
	TgpContext *cx = kernels_open();
	char *a = memory(1 << 25), *b = memory(1 << 25), *c = memory(1 << 25);
	GOOD(parted(cx, NULL, a, b, c, 4096, 4096, 4096));      /* its roles want registers that the stand-in does not give */
	LAUNCHED("parted blocks ");
	kernels_close(&cx);
	cuMemFree_v2((Pointer)(uintptr_t)a);
	cuMemFree_v2((Pointer)(uintptr_t)b);
	cuMemFree_v2((Pointer)(uintptr_t)c);
}

/* As many blocks as share programs, and no more than stay. */
static void
test_shared_programs(TgpContext *cx)
{
	char *x = memory(1 << 20), *y = memory(1 << 20);
	GOOD(shares(cx, NULL, (int32_t *)x, (int32_t *)y, 300, 128));
	LAUNCHED("shares blocks 8 ");
	GOOD(shares(cx, NULL, (int32_t *)x, (int32_t *)y, 1, 64 * 1000));
	LAUNCHED("shares blocks 128 ");
	cuMemFree_v2((Pointer)(uintptr_t)x);
	cuMemFree_v2((Pointer)(uintptr_t)y);
}

static void
test_devices(TgpContext *cx, void *first)
{
	void *second = context(1);
	int before = mock_calls("cuModuleLoadDataEx"), i;
	cuCtxSetCurrent(second);
	for (i = 0; i < 2; i++) {
		float *x = (float *)memory(4096), *y = (float *)memory(4096);
		GOOD(copy_rows(cx, NULL, x, y, 8, 64));
		cuCtxSetCurrent(i ? second : first);
	}
	CHECK(mock_calls("cuModuleLoadDataEx") == before + 1);  /* in the second context; the first has it */
	cuCtxSetCurrent(first);
}

/* A context that is gone is not touched when the pack is closed, only that of the thread. */
static void
test_gone(void *first)
{
	TgpContext *cx = kernels_open();
	void *second = context(1);
	float *x, *y;
	int live, unloaded;
	cuCtxSetCurrent(second);
	x = (float *)memory(4096), y = (float *)memory(4096);
	GOOD(copy_rows(cx, NULL, x, y, 8, 64));
	cuCtxSetCurrent(first);
	unloaded = mock_calls("cuModuleUnload"), live = mock_calls("cuCtxPushCurrent_v2");
	kernels_close(&cx);
	CHECK(mock_calls("cuModuleUnload") == unloaded && mock_calls("cuCtxPushCurrent_v2") == live);
}

static void
test_fork(TgpContext *cx)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		float *x = (float *)16;
		int ok = copy_rows(cx, NULL, x, x, 8, 64) == TGP_ERROR_CONTEXT && strstr(kernels_error(cx), "forked") &&
		    kernels_sync(cx, NULL) == TGP_ERROR_CONTEXT && kernels_load(cx) == TGP_ERROR_CONTEXT;
		kernels_close(&cx);
		_exit(ok ? 0 : 1);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int
main(int argc, char **argv)
{
	void *current;
	TgpContext *cx;
	if (argc > 1) {                                 /* what a launch says where something is missing */
		float *x = (float *)16;
		cx = kernels_open();
		if (strcmp(argv[1], "driver") == 0 || (find_driver(), current = context(0), cuCtxSetCurrent(current)) == 0)
			printf("%d %s\n", copy_rows(cx, NULL, x, x + 1024, 8, 64), kernels_error(cx));
		kernels_close(&cx);
		return 0;
	}
	find_driver();
	current = context(0);
	cuCtxSetCurrent(current);
	cx = kernels_open();
	test_forms(cx);
	test_strides(cx);
	test_fills_and_scratch(cx);
	test_maps(cx);
	test_refusals(cx, current);
	test_failures();
	test_threads(cx, current);
	test_graph();
	test_refused_form();
	test_shared_programs(cx);
	test_devices(cx, current);
	test_gone(current);
	test_fork(cx);
	GOOD(kernels_load(cx));
	kernels_close(&cx);
	kernels_close(&cx);
	check(mock_live() >= 0, __LINE__, "handles");
	printf(failed ? "%d wrong\n" : "all right\n", failed);
	return failed != 0;
}
