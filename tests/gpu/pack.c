/* A pack on a real NVIDIA GPU: results of each form, threads, streams, graphs, contexts, fork, unloading.  tests/gpu/pack.sh
 * makes packed.h and packed.c of kernels.tgl there, and packed.so, the same as a library. */
#include "packed.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS(X) \
	X(cuInit, (unsigned)) X(cuDeviceGet, (int *, int)) X(cuDevicePrimaryCtxRetain, (void **, int)) X(cuCtxSetCurrent, (void *)) \
	X(cuCtxCreate_v2, (void **, unsigned, int)) X(cuCtxDestroy_v2, (void *)) X(cuCtxSynchronize, (void)) \
	X(cuMemAlloc_v2, (uint64_t *, size_t)) X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t)) X(cuStreamCreate, (void **, unsigned)) X(cuStreamSynchronize, (void *)) \
	X(cuStreamBeginCapture_v2, (void *, int)) X(cuStreamEndCapture, (void *, void **)) \
	X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) X(cuGraphLaunch, (void *, void *))

#define X(name, params) static int (*name) params;
CALLS(X)
#undef X

enum { R = 37, MOST = 2000, M = 192, N = 256, K = 320 };

static int failed;

#define CHECK(e) do { if (!(e)) { printf("pack.c:%d: %s\n", __LINE__, #e); failed++; } } while (0)
#define GOOD(cx, e) do { if ((e) != TGP_OK) { printf("pack.c:%d: %s: %s\n", __LINE__, #e, packed_error(cx)); failed++; } } while (0)
#define FAILS(cx, status, text, e) do { if ((e) != (status) || !strstr(packed_error(cx), text)) { \
	printf("pack.c:%d: %s: %s\n", __LINE__, #e, packed_error(cx)); failed++; } } while (0)

static int
find_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *p;
	int ok = lib != NULL;
#define X(name, params) p = lib ? dlsym(lib, #name) : NULL; memcpy((void *)&name, &p, sizeof p); ok = ok && p;
	CALLS(X)
#undef X
	return ok;
}

static void *
primary(void)
{
	void *c = NULL;
	int device = 0;
	CHECK(cuInit(0) == 0 && cuDeviceGet(&device, 0) == 0 && cuDevicePrimaryCtxRetain(&c, device) == 0);
	CHECK(cuCtxSetCurrent(c) == 0);
	return c;
}

static void *
memory(size_t bytes)
{
	uint64_t p = 0;
	CHECK(cuMemAlloc_v2(&p, bytes) == 0);
	return (void *)(uintptr_t)p;
}

static float value(int i) { return (float)((i * 37 + i / 64) % 17 - 8) / 4; }

static float *
filled(int n)
{
	float *host = malloc((size_t)n * sizeof *host), *p = memory((size_t)n * sizeof *p);
	for (int i = 0; i < n; i++)
		host[i] = value(i);
	CHECK(cuMemcpyHtoD_v2((uint64_t)(uintptr_t)p, host, (size_t)n * sizeof *host) == 0);
	free(host);
	return p;
}

/* The rows of softmax of values from `from` on. */
static int
is_softmax(const float *y, int from, int rows, int columns)
{
	float *got = malloc((size_t)rows * columns * sizeof *got);
	int wrong = cuMemcpyDtoH_v2(got, (uint64_t)(uintptr_t)y, (size_t)rows * columns * sizeof *got);
	for (int r = 0; r < rows && !wrong; r++) {
		double sum = 0;
		for (int c = 0; c < columns; c++)
			sum += exp((double)value(from + r * columns + c));
		for (int c = 0; c < columns && !wrong; c++)
			wrong = !(fabs(got[r * columns + c] - exp((double)value(from + r * columns + c)) / sum) < 1e-5);
	}
	free(got);
	return !wrong;
}

/* ---- results of each form ---- */

static void
test_forms(TgpContext *cx)
{
	static const int widths[] = {1, 3, 64, 100, 1000, 1023, 2000};
	float *x = filled(R * MOST + 8), *y = memory((R * MOST + 8) * sizeof *y);
	for (int shift = 0; shift < 4; shift++)         /* elements: addresses of 16 bytes, and those that are none */
		for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
			GOOD(cx, softmax(cx, NULL, x + shift, y + 3 * shift % 4, R, widths[i]));
			GOOD(cx, packed_sync(cx, NULL));
			CHECK(is_softmax(y + 3 * shift % 4, shift, R, widths[i]));
		}
	GOOD(cx, softmax(cx, NULL, NULL, NULL, 0, 64));
	FAILS(cx, TGP_ERROR_USAGE, "the address of x is", softmax(cx, NULL, (float *)((char *)x + 1), y, R, 64));
	FAILS(cx, TGP_ERROR_USAGE, "x is NULL", softmax(cx, NULL, NULL, y, R, 64));
	FAILS(cx, TGP_ERROR_USAGE, "y is NULL", softmax(cx, NULL, x, NULL, R, 64));
	FAILS(cx, TGP_ERROR_USAGE, "y is written, and overlaps x", softmax(cx, NULL, x, x + 4, R, 64));
	FAILS(cx, TGP_ERROR_SIZE, "the pack has no code", softmax(cx, NULL, x, y, 1, 1 << 20));
}

/* Whole numbers are exact in bf16 and in sums of f32, so that the result is too. */
typedef TgpStatus Product(TgpContext *, void *, const void *, const void *, void *, int64_t, int64_t, int64_t);

static void
test_product(TgpContext *cx, Product *product_of, int m, int n, int k, int shift)
{
	size_t words = (size_t)(m * k + k * n + m * n) + 32;
	unsigned short *host = calloc(words, sizeof *host), *p = memory(words * sizeof *host);
	unsigned short *a = p, *b = a + (m * k + 7) / 8 * 8 + shift, *c = b + (k * n + 7) / 8 * 8;
	for (size_t i = 0; i < words; i++) {
		float v = (float)((int)(i * 7 % 5) - 2);
		unsigned bits;
		memcpy(&bits, &v, sizeof bits);
		host[i] = (unsigned short)(bits >> 16);
	}
	CHECK(cuMemcpyHtoD_v2((uint64_t)(uintptr_t)p, host, words * sizeof *host) == 0);
	GOOD(cx, product_of(cx, NULL, a, b, c, m, k, n));
	GOOD(cx, packed_sync(cx, NULL));
	unsigned short *got = malloc((size_t)m * n * sizeof *got);
	CHECK(cuMemcpyDtoH_v2(got, (uint64_t)(uintptr_t)c, (size_t)m * n * sizeof *got) == 0);
	int wrong = 0;
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			int want = 0;
			unsigned bits = (unsigned)got[i * n + j] << 16;
			float v;
			for (int l = 0; l < k; l++)
				want += ((i * k + l) * 7 % 5 - 2) * (int)(((size_t)(b - p) + (size_t)(l * n + j)) * 7 % 5 - 2);
			memcpy(&v, &bits, sizeof v);
			wrong += !(fabsf(v - (float)want) <= fabsf((float)want) / 128);
		}
	if (wrong)
		printf("pack.c: product of %d x %d x %d: %d wrong\n", m, n, k, wrong);
	failed += wrong != 0;
	free(host);
	free(got);
}

static void
test_asserts(TgpContext *cx)
{
	float *x = filled(256), *y = memory(256 * sizeof *y);
	GOOD(cx, careful(cx, NULL, x, y, 2.5f, 256));
	GOOD(cx, packed_sync(cx, NULL));
	GOOD(cx, careful(cx, NULL, x, y, 0.5f, 256));
	FAILS(cx, TGP_ERROR_KERNEL, "too large", packed_sync(cx, NULL));
	GOOD(cx, packed_sync(cx, NULL));
}

enum { ROWS = 64, COLUMNS = 128 };

/* A strided input, whose row and column distances are in `strides` (NULL: row-major), a filled output and scratch. */
static int
is_tallied(const int32_t *y, const int32_t *bins, const int64_t *strides)
{
	static int32_t got[ROWS * COLUMNS], seen[8];
	int32_t want[8] = {7, 7, 7, 7, 7, 7, 7, 7};
	int wrong = cuMemcpyDtoH_v2(got, (uint64_t)(uintptr_t)y, sizeof got) | cuMemcpyDtoH_v2(seen, (uint64_t)(uintptr_t)bins, sizeof seen);
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++) {
			int v = (int)(strides ? i * strides[0] + j * strides[1] : i * COLUMNS + j);
			wrong |= got[i * COLUMNS + j] != 2 * v;
			want[v / 3 & 7]++;
		}
	return !wrong && memcmp(seen, want, sizeof want) == 0;
}

static int32_t *
numbered(void)
{
	static int32_t host[2 * ROWS * COLUMNS];
	int32_t *p = memory(sizeof host);
	for (int i = 0; i < 2 * ROWS * COLUMNS; i++)
		host[i] = i;
	CHECK(cuMemcpyHtoD_v2((uint64_t)(uintptr_t)p, host, sizeof host) == 0);
	return p;
}

static const int64_t turned[2] = {1, ROWS}, every_second[2] = {2 * COLUMNS, 2};

static void
test_tally(TgpContext *cx)
{
	const int64_t *const strides[] = {NULL, turned, every_second};
	int32_t *x = numbered(), *y = memory(4 * ROWS * COLUMNS), *bins = memory(32);
	for (int i = 0; i < 3; i++) {
		GOOD(cx, tally(cx, NULL, x, strides[i], y, bins, 2, ROWS, COLUMNS));
		GOOD(cx, packed_sync(cx, NULL));
		CHECK(is_tallied(y, bins, strides[i]));
	}
}

/* ---- threads, graphs, contexts, fork, unloading ---- */

enum { THREADS = 16, TIMES = 50 };

typedef struct Worker {
	pthread_t thread;
	TgpContext *cx;
	void *context;
	int number, wrong;
} Worker;

static void *
work(void *user)
{
	Worker *w = user;
	void *stream = NULL;
	w->wrong += cuCtxSetCurrent(w->context) != 0 || cuStreamCreate(&stream, 1) != 0;
	float *x = filled(R * MOST), *y = memory(R * MOST * sizeof *y);
	for (int i = 0; i < TIMES; i++) {
		int columns = 1 + (w->number * 131 + i * 17) % MOST;
		w->wrong += softmax(w->cx, stream, x, y, R, columns) != TGP_OK;
		if (i % 10)
			continue;
		w->wrong += cuStreamSynchronize(stream) != 0 || !is_softmax(y, 0, R, columns);
	}
	return NULL;
}

static void
test_threads(TgpContext *cx, void *context)
{
	Worker w[THREADS];
	for (int i = 0; i < THREADS; i++) {
		w[i] = (Worker){.cx = cx, .context = context, .number = i};
		CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		CHECK(w[i].wrong == 0);
	}
}

/* Recorded before anything is loaded: two kernels, the second with strides, a fill and scratch memory; replayed on new contents. */
static void
test_graph(void)
{
	TgpContext *cx = packed_open();
	void *stream, *graph, *exec;
	float *x = filled(R * 100), *y = memory(R * 100 * sizeof *y);
	int32_t *v = numbered(), *w = memory(4 * ROWS * COLUMNS), *bins = memory(32);
	CHECK(cuStreamCreate(&stream, 1) == 0 && cuStreamBeginCapture_v2(stream, 0) == 0);
	GOOD(cx, softmax(cx, stream, x, y, R, 100));
	GOOD(cx, tally(cx, stream, v, turned, w, bins, 2, ROWS, COLUMNS));
	CHECK(cuStreamEndCapture(stream, &graph) == 0 && cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(cuGraphLaunch(exec, stream) == 0 && cuStreamSynchronize(stream) == 0);
		CHECK(is_softmax(y, 0, R, 100) && is_tallied(w, bins, turned));
	}
	packed_close(&cx);
}

/* Another context of the same GPU has code of its own; the pack outlives it. */
static void
test_contexts(TgpContext *cx, void *first)
{
	void *second;
	for (int i = 0; i < 2; i++) {
		CHECK(cuCtxCreate_v2(&second, 0, 0) == 0);
		float *x = filled(R * 100), *y = memory(R * 100 * sizeof *y);
		GOOD(cx, softmax(cx, NULL, x, y, R, 100));
		GOOD(cx, packed_sync(cx, NULL));
		CHECK(is_softmax(y, 0, R, 100));
		CHECK(cuCtxDestroy_v2(second) == 0);
	}
	cuCtxSetCurrent(NULL);
	FAILS(cx, TGP_ERROR_CONTEXT, "no CUDA context", softmax(cx, NULL, NULL, NULL, 1, 100));
	CHECK(cuCtxSetCurrent(first) == 0);
}

/* Where there is a second GPU: launches go to the one whose context is current, from two threads at once too. */
static void
test_gpus(TgpContext *cx, void *first)
{
	void *second = NULL;
	int device;
	if (cuDeviceGet(&device, 1) != 0)
		return;
	CHECK(cuDevicePrimaryCtxRetain(&second, device) == 0);
	for (int i = 0; i < 4; i++) {
		CHECK(cuCtxSetCurrent(i % 2 ? first : second) == 0);
		float *x = filled(R * 100), *y = memory(R * 100 * sizeof *y);
		GOOD(cx, softmax(cx, NULL, x, y, R, 100));
		GOOD(cx, packed_sync(cx, NULL));
		CHECK(is_softmax(y, 0, R, 100));
		test_product(cx, clustered, M, N, K, 0);
	}
	Worker w[2] = {{.cx = cx, .context = first}, {.cx = cx, .context = second, .number = 1}};
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		CHECK(w[i].wrong == 0);
	}
	CHECK(cuCtxSetCurrent(first) == 0);
	puts("two GPUs");
}

static void
test_unload(void)
{
	float *x = filled(R * 100), *y = memory(R * 100 * sizeof *y);
	for (int i = 0; i < 3; i++) {
		void *lib = dlopen("./packed.so", RTLD_NOW | RTLD_LOCAL), *p;
		TgpContext *(*opens)(void), *cx;
		void (*closes)(TgpContext **);
		TgpStatus (*launches)(TgpContext *, void *, const float *, float *, int64_t, int64_t);
		CHECK(lib != NULL);
		p = dlsym(lib, "packed_open"), memcpy((void *)&opens, &p, sizeof p);
		p = dlsym(lib, "packed_close"), memcpy((void *)&closes, &p, sizeof p);
		p = dlsym(lib, "softmax"), memcpy((void *)&launches, &p, sizeof p);
		cx = opens();
		CHECK(launches(cx, NULL, x, y, R, 100) == TGP_OK);
		closes(&cx);
		CHECK(dlclose(lib) == 0 && cuCtxSynchronize() == 0 && is_softmax(y, 0, R, 100));
	}
}

static void
wait_for(pid_t child)
{
	int status = 1;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The parent has touched no GPU: the child opens what it needs. */
static void
test_fork_before(void)
{
	pid_t child = fork();
	if (child == 0) {
		CHECK(find_driver());
		primary();
		TgpContext *cx = packed_open();
		test_asserts(cx);
		packed_close(&cx);
		fflush(stdout);
		_exit(failed != 0);
	}
	wait_for(child);
}

static void
test_fork_after(TgpContext *cx)
{
	pid_t child = fork();
	if (child == 0) {
		FAILS(cx, TGP_ERROR_CONTEXT, "forked", softmax(cx, NULL, NULL, NULL, 1, 100));
		packed_close(&cx);
		fflush(stdout);
		_exit(failed != 0);
	}
	wait_for(child);
}

/* What a launch says on a machine where something is missing. */
static int
says(void)
{
	TgpContext *cx = packed_open();
	float *x = (float *)16;
	printf("%d ", softmax(cx, NULL, x, x + 1024, 8, 64));
	puts(packed_error(cx));
	packed_close(&cx);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "says") == 0)
		return says();
	test_fork_before();
	if (!find_driver())
		return puts("no driver, or not all of its functions"), 77;
	void *context = primary();
	TgpContext *cx = packed_open();
	test_forms(cx);
	Product *const products[] = {product, clustered, parted};      /* tensor maps; roles in clusters; blocks that share a sum */
	for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
		test_product(cx, products[i], M, N, K, 0);
		test_product(cx, products[i], M, N, K, 0);
		test_product(cx, products[i], M, N, K, 1);     /* an address of no 16 bytes */
		test_product(cx, products[i], 512, 512, 512, 0);
		test_product(cx, products[i], 100, 77, 51, 0);
		test_product(cx, products[i], 64, 64, 0, 0);
		test_product(cx, products[i], 64, 0, 64, 0);
	}
	test_tally(cx);
	test_asserts(cx);
	test_threads(cx, context);
	test_graph();
	test_contexts(cx, context);
	test_gpus(cx, context);
	test_unload();
	GOOD(cx, packed_load(cx));
	test_fork_after(cx);
	packed_close(&cx);
	printf(failed ? "%d wrong\n" : "all right\n", failed);
	return failed != 0;
}
