/* The CUDA device on a real NVIDIA GPU: what the stand-in of tests/mock cannot prove.  Tensors beyond 2^32 elements are
 * written and read back by other tiles, grids go beyond 2^31 programs, and streams, events, graphs, asynchronous copies
 * and other people's memory do what the header says.  Skipped (77) where there is no GPU. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tgl.h"

/* `made` differs between elements that are 2^31 or 2^32 apart: one that lands in another's place shows. */
static const char source[] =
    "fn made(i) { return ((i ^ (i >> 7) ^ (i >> 29) ^ (i >> 31)) & 127) as u8; }\n"
    "kernel fill<BLOCK = 4096>(y: out u8[N]) grid(p: cdiv(N, BLOCK)) {\n"
    "    y[p * BLOCK +: BLOCK] = made(p * BLOCK + (arange(0, BLOCK) as i64));\n"
    "}\n"
    "kernel verify<BLOCK = 8192>(y: in u8[N], wrong: out i32[1] = 0) grid(p: cdiv(N, BLOCK)) {\n"
    "    let i = p * BLOCK + (arange(0, BLOCK) as i64);\n"
    "    let n = sum(((y[p * BLOCK +: BLOCK] != made(i)) && i < N) as i32);\n"
    "    if n > 0 { atomic_add(wrong[0], n); }\n"
    "}\n"
    "kernel fill_rows<BM = 16, BN = 512>(y: out strided u8[M, N]) grid(n: cdiv(N, BN), m: cdiv(M, BM)) {\n"
    "    let i = (m * BM + (arange(0, BM) as i64))[:, new] * N + (n * BN + (arange(0, BN) as i64));\n"
    "    y[m * BM +: BM, n * BN +: BN] = made(i);\n"
    "}\n"
    "kernel verify_rows<BM = 32, BN = 64>(y: in strided u8[M, N], wrong: out i32[1] = 0)\n"
    "    grid(m: cdiv(M, BM), n: cdiv(N, BN)) {\n"
    "    let r = (m * BM + (arange(0, BM) as i64))[:, new];\n"
    "    let c = n * BN + (arange(0, BN) as i64);\n"
    "    let bad = y[m * BM +: BM, n * BN +: BN] != made(r * N + c) && r < M && c < N;\n"
    "    let count = sum(bad as i32);\n"
    "    if count > 0 { atomic_add(wrong[0], count); }\n"
    "}\n"
    "kernel last(y: out i32[2] = 0, a: i64, b: i64) grid(i: a, j: b) {\n"
    "    if i == a - 1 && j == b - 1 { y[0] = 1; }\n"
    "    if i == a / 2 && j == b / 2 { y[1] = 2; }\n"
    "}\n"
    "kernel step<BLOCK = 256>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, BLOCK)) {\n"
    "    y[p * BLOCK +: BLOCK] = 2.0 * x[p * BLOCK +: BLOCK] + 1.0;\n"
    "}\n"
    "kernel turn<BLOCK = 256>(x: in f32[N], y: out f32[N]) grid(p: N / BLOCK) {\n"
    "    y[p * BLOCK +: BLOCK] = x[(N / BLOCK - 1 - p) * BLOCK +: BLOCK] + 1.0;\n"
    "}\n"
    "kernel count<BLOCK = 1024>(x: in f32[N], n: out i32[1] = 0, want: f32) grid(p: cdiv(N, BLOCK)) {\n"
    "    atomic_add(n[0], sum((x[p * BLOCK +: BLOCK] == want) as i32));\n"
    "}\n";

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
} Fixture;

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	*state = f;
	f->cx = tgl_context_open();
	f->dev = tgl_device_open(f->cx, "cuda", NULL);
	f->p = tgl_program_text(f->cx, "gpu.tgl", source, strlen(source));
	if (!f->dev || !f->p)
		print_error("%s", tgl_error(f->cx)->text);
	return f->dev && f->p ? 0 : -1;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	free(f);
	return 0;
}

static void
good(Fixture *f, TglStatus s, int line)
{
	if (s == TGL_OK)
		return;
	print_error("line %d: %s", line, tgl_error(f->cx)->text);
	fail();
}

#define GOOD(x) good(f, x, __LINE__)

static TglTensor *
tensor(Fixture *f, TglDType t, int rank, const int64_t *dim)
{
	TglTensor *x = tgl_tensor(f->dev, t, rank, dim);
	if (!x)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(x);
	return x;
}

static TglStatus
launch(Fixture *f, const char *kernel, const TglArg *args, int n)
{
	return tgl_launch(f->dev, tgl_kernel(f->p, kernel), args, n, NULL);
}

static int64_t
whole(Fixture *f, TglTensor *t, int64_t at)
{
	int64_t v = -1;
	GOOD(tgl_tensor_element(t, at, NULL, &v));
	return v;
}

/* ---- beyond 32 bits ---- */

static void
fill_and_verify(Fixture *f, TglTensor *y, const char *fill, const char *verify)
{
	TglTensor *wrong = tensor(f, TGL_I32, 1, (int64_t[]){1});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_tensor("wrong", wrong)};
	GOOD(tgl_tensor_poison(y));                         /* 0xA5, which nothing has */
	GOOD(launch(f, verify, args, 2));
	assert_true(whole(f, wrong, 0) != 0);
	GOOD(launch(f, fill, args, 1));
	GOOD(launch(f, verify, args, 2));
	assert_int_equal(whole(f, wrong, 0), 0);
	tgl_tensor_close(&wrong);
}

static void
test_many_elements(void **state)
{
	Fixture *f = *state;
	const int64_t sizes[] = {(1ll << 31) + 777, (1ll << 32) + 12345};
	for (int i = 0; i < 2; i++) {
		TglTensor *y = tensor(f, TGL_U8, 1, &sizes[i]);
		fill_and_verify(f, y, "fill", "verify");
		tgl_tensor_close(&y);
	}
}

static void
test_many_rows(void **state)
{
	Fixture *f = *state;
	TglTensor *y = tensor(f, TGL_U8, 2, (int64_t[]){70001, 65537});
	fill_and_verify(f, y, "fill_rows", "verify_rows");
	TglTensor *turned = tgl_tensor_permute(y, (int[]){1, 0});
	assert_non_null(turned);
	fill_and_verify(f, turned, "fill_rows", "verify_rows");
	tgl_tensor_close(&turned);
	tgl_tensor_close(&y);
}

static void
test_many_programs(void **state)
{
	Fixture *f = *state;
	TglTensor *y = tensor(f, TGL_I32, 1, (int64_t[]){2});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_int("a", 10000), tgl_arg_int("b", 70000), tgl_arg_bool("persistent", true)};
	GOOD(launch(f, "last", args, 3));                   /* an axis beyond 65535 */
	assert_true(whole(f, y, 0) == 1 && whole(f, y, 1) == 2);
	args[1].i = 50000;                                  /* beyond 2^31 in all */
	assert_int_equal(launch(f, "last", args, 3), TGL_ERROR_DEVICE);
	assert_non_null(strstr(tgl_error(f->cx)->text, "persistent=true"));
	GOOD(launch(f, "last", args, 4));
	assert_true(whole(f, y, 0) == 1 && whole(f, y, 1) == 2);
	tgl_tensor_close(&y);
}

/* ---- streams, graphs, memory ---- */

enum { COUNT = 1 << 20 };

static TglTensor *
floats(Fixture *f)
{
	return tensor(f, TGL_F32, 1, (int64_t[]){COUNT});
}

static void
test_streams(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "step");
	TglTensor *x = floats(f), *y = floats(f), *z = floats(f);
	TglArg first[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglArg second[] = {tgl_arg_tensor("x", y), tgl_arg_tensor("y", z)};
	TglStream *s = tgl_stream_open(f->dev), *other = tgl_stream_open(f->dev);
	TglEvent *from = tgl_event_open(f->dev), *done = tgl_event_open(f->dev);
	float *in = tgl_host_alloc(f->dev, 4 * COUNT), *out = tgl_host_alloc(f->dev, 4 * COUNT);
	double seconds = 0;
	assert_true(s && other && from && done && in && out);
	for (int i = 0; i < COUNT; i++)
		in[i] = (float)(i % 1000);
	GOOD(tgl_device_use(f->dev, s));
	GOOD(tgl_event_record(from, s));
	GOOD(tgl_tensor_write_async(x, in, 4 * COUNT));
	GOOD(tgl_launch_on(s, k, first, 2));
	GOOD(tgl_event_record(done, s));
	GOOD(tgl_stream_wait(other, done));
	GOOD(tgl_launch_on(other, k, second, 2));
	GOOD(tgl_device_use(f->dev, other));
	GOOD(tgl_tensor_read_async(z, out, 4 * COUNT));
	GOOD(tgl_stream_sync(other));
	for (int i = 0; i < COUNT; i++)
		assert_true(out[i] == 4 * in[i] + 3);
	GOOD(tgl_event_seconds(from, done, &seconds));
	assert_true(seconds > 1e-6 && seconds < 1);
	GOOD(tgl_device_use(f->dev, NULL));
	tgl_host_free(f->dev, in);
	tgl_host_free(f->dev, out);
	tgl_event_close(&from);
	tgl_event_close(&done);
	tgl_stream_close(&s);
	tgl_stream_close(&other);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_tensor_close(&z);
}

static void
test_graphs(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "step");
	TglTensor *x = floats(f), *y = floats(f);
	TglArg forth[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglArg back[] = {tgl_arg_tensor("x", y), tgl_arg_tensor("y", x)};
	TglStream *s = tgl_stream_open(f->dev);
	double v;
	GOOD(tgl_launch(f->dev, k, forth, 2, NULL));        /* compiled */
	GOOD(tgl_graph_begin(s));
	GOOD(tgl_launch(f->dev, k, forth, 2, NULL));
	GOOD(tgl_launch(f->dev, k, back, 2, NULL));
	TglGraph *g = tgl_graph_end(s);
	assert_non_null(g);
	GOOD(tgl_tensor_fill(x, 1));
	GOOD(tgl_device_sync(f->dev));
	for (int i = 0; i < 3; i++)
		GOOD(tgl_graph_launch(g, s));
	GOOD(tgl_stream_sync(s));
	GOOD(tgl_tensor_element(x, COUNT - 1, &v, NULL));
	assert_true(v == 127);                              /* 2 v + 1, six times */
	tgl_graph_close(&g);
	tgl_stream_close(&s);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* ---- kernels that may start before the last one ends ---- */

enum { STEPS = 100 };

typedef struct Chain {
	TglTensor *x, *y, *n[STEPS];
	int64_t size;
} Chain;

/* Back and forth: each block reads what another block of the last launch wrote and writes over what the one before it
 * read, so that a launch that did not wait shows.  Each count is filled first, and added to by all blocks. */
static void
walk(Fixture *f, Chain *c, TglStream *s)
{
	TglKernel *turn = tgl_kernel(f->p, "turn"), *count = tgl_kernel(f->p, "count");
	for (int i = 0; i < STEPS; i++) {
		TglTensor *to = i % 2 ? c->x : c->y, *from = i % 2 ? c->y : c->x;
		TglArg move[] = {tgl_arg_tensor("x", from), tgl_arg_tensor("y", to)};
		TglArg look[] = {tgl_arg_tensor("x", to), tgl_arg_tensor("n", c->n[i]), tgl_arg_float("want", i + 1)};
		GOOD(tgl_launch_on(s, turn, move, 2));
		if (i % 3 == 0)
			GOOD(tgl_launch_on(s, count, look, 3));
	}
}

static void
look_at(Fixture *f, Chain *c)
{
	double v;
	GOOD(tgl_device_sync(f->dev));
	for (int i = 0; i < STEPS; i += 3)
		assert_int_equal(whole(f, c->n[i], 0), c->size);
	for (int64_t i = 0; i < c->size; i += c->size / 64 - 1) {
		GOOD(tgl_tensor_element(c->x, i, &v, NULL));
		assert_true(v == STEPS);
	}
	GOOD(tgl_tensor_fill(c->x, 0));
	GOOD(tgl_device_sync(f->dev));
}

/* Two streams that meet again, in a graph: what waits for both has two grids before it. */
static void
branches(Fixture *f, Chain *c, TglStream *s, TglStream *other)
{
	TglKernel *turn = tgl_kernel(f->p, "turn");
	TglEvent *from = tgl_event_open(f->dev), *done = tgl_event_open(f->dev);
	TglTensor *z = tensor(f, TGL_F32, 1, &c->size);
	double v;
	TglArg first[] = {tgl_arg_tensor("x", c->x), tgl_arg_tensor("y", c->y)};
	TglArg beside[] = {tgl_arg_tensor("x", c->y), tgl_arg_tensor("y", z)};
	TglArg last[] = {tgl_arg_tensor("x", z), tgl_arg_tensor("y", c->x)};
	GOOD(tgl_graph_begin(s));
	for (int i = 0; i < 10; i++) {
		GOOD(tgl_launch_on(s, turn, first, 2));
		GOOD(tgl_event_record(from, s));
		GOOD(tgl_stream_wait(other, from));
		GOOD(tgl_launch_on(other, turn, beside, 2));
		GOOD(tgl_launch_on(s, turn, first, 2));         /* reads what `beside` does not write, writes the same again */
		GOOD(tgl_event_record(done, other));
		GOOD(tgl_stream_wait(s, done));
		GOOD(tgl_launch_on(s, turn, last, 2));
	}
	TglGraph *g = tgl_graph_end(s);
	assert_non_null(g);
	GOOD(tgl_graph_launch(g, s));
	GOOD(tgl_device_sync(f->dev));
	for (int64_t i = 0; i < c->size; i += c->size / 64 - 1) {
		GOOD(tgl_tensor_element(c->x, i, &v, NULL));
		assert_true(v == 30);
	}
	GOOD(tgl_tensor_fill(c->x, 0));
	tgl_graph_close(&g);
	tgl_event_close(&from);
	tgl_event_close(&done);
	tgl_tensor_close(&z);
}

static void
test_chains(void **state)
{
	Fixture *f = *state;
	const int64_t sizes[] = {256, 256 * 100, 256 * 8192};
	TglStream *s = tgl_stream_open(f->dev), *other = tgl_stream_open(f->dev), *plain = tgl_stream_wrap(f->dev, NULL);
	for (int size = 0; size < 3; size++) {
		Chain c = {.size = sizes[size]};
		c.x = tensor(f, TGL_F32, 1, &c.size);
		c.y = tensor(f, TGL_F32, 1, &c.size);
		for (int i = 0; i < STEPS; i++)
			c.n[i] = tensor(f, TGL_I32, 1, (int64_t[]){1});
		walk(f, &c, plain);
		look_at(f, &c);
		walk(f, &c, s);
		look_at(f, &c);
		GOOD(tgl_graph_begin(s));
		walk(f, &c, s);
		TglGraph *g = tgl_graph_end(s);
		assert_non_null(g);
		for (int i = 0; i < 3; i++) {
			GOOD(tgl_graph_launch(g, s));
			look_at(f, &c);
		}
		tgl_graph_close(&g);
		branches(f, &c, s, other);
		tgl_tensor_close(&c.x);
		tgl_tensor_close(&c.y);
		for (int i = 0; i < STEPS; i++)
			tgl_tensor_close(&c.n[i]);
	}
	tgl_stream_close(&plain);
	tgl_stream_close(&other);
	tgl_stream_close(&s);
}

/* Memory of the driver's own calls, the host's, and the host's that the GPU reaches. */
static void
test_foreign_memory(void **state)
{
	Fixture *f = *state;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	assert_non_null(lib);
	int (*alloc)(uint64_t *, size_t), (*release)(uint64_t);
	*(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
	*(void **)&release = dlsym(lib, "cuMemFree_v2");
	const int64_t n = COUNT;
	uint64_t at = 0;
	double v;
	TglTensor *y = floats(f);
	GOOD(tgl_device_sync(f->dev));                      /* the context is this thread's */
	assert_int_equal(alloc(&at, 4 * COUNT), 0);
	float *pinned = tgl_host_alloc(f->dev, 4 * COUNT), *plain = malloc(4 * COUNT);
	void *where[] = {(void *)(uintptr_t)at, pinned};
	for (int i = 0; i < 2; i++) {
		TglTensor *x = tgl_tensor_wrap(f->dev, TGL_F32, 1, &n, NULL, where[i], 4 * COUNT);
		assert_non_null(x);
		GOOD(tgl_tensor_fill(x, 20 + i));
		GOOD(launch(f, "step", (TglArg[]){tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)}, 2));
		GOOD(tgl_tensor_element(y, COUNT / 2, &v, NULL));
		assert_true(v == 41 + 2 * i);
		tgl_tensor_close(&x);
	}
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, &n, NULL, plain, 4 * COUNT));
	assert_string_equal(tgl_error(f->cx)->code, "E1141");
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){64 * COUNT}, NULL, where[0], 4 * (size_t)COUNT));
	free(plain);
	tgl_host_free(f->dev, pinned);
	assert_int_equal(release(at), 0);
	tgl_tensor_close(&y);
}

/* Whether there is a GPU that is no stand-in; if not, it says so. */
static bool
is_real(void)
{
	TglContext *cx = tgl_context_open();
	TglDeviceInfo info = {0};
	bool real = false;
	for (int i = 0; tgl_device_list(cx, i, &info); i++)
		if (strncmp(info.name, "cuda", 4) == 0) {
			real = info.available && !strstr(info.text, "Mock GPU");
			if (!real)
				printf("SKIP: %s\n", info.available ? "the GPU is the stand-in driver's" : info.why_not);
			break;
		}
	tgl_context_close(&cx);
	return real;
}

#define CASE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_many_elements),
	    CASE(test_many_rows),
	    CASE(test_many_programs),
	    CASE(test_streams),
	    CASE(test_graphs),
	    CASE(test_chains),
	    CASE(test_foreign_memory),
	};
	return is_real() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
