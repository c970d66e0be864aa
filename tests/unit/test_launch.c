/* Programs, kernels and launches through the public interface: what works, and the message for
 * everything that does not. */
#include "runtime_help.h"
#include "runtime/case/case.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] =
    "kernel scale<BLOCK = 64>(x: in f32[N], y: out f32[N], a: f32) grid(i: cdiv(N, BLOCK)) {\n"
    "    y[i * BLOCK +: BLOCK] = a * x[i * BLOCK +: BLOCK];\n"
    "}\n"
    "kernel add<T: dtype = f32>(x: in T[M, N], y: in T[M, N], z: out T[M, N]) grid(r: M, c: "
    "cdiv(N, 32)) {\n"
    "    z[r, c * 32 +: 32] = x[r, c * 32 +: 32] + y[r, c * 32 +: 32];\n"
    "}\n"
    "kernel double_rows(x: in strided i32[M, N], y: inout strided i32[M, N]) grid(r: M, c: cdiv(N, "
    "8)) {\n"
    "    y[r, c * 8 +: 8] = 2 * x[r, c * 8 +: 8] + y[r, c * 8 +: 8];\n"
    "}\n"
    "kernel count_up(x: in i32[N], total: out i32[1] = 5, s: scratch i32[N] = 0) grid(i: N) {\n"
    "    s[i] = x[i];\n"
    "    atomic_add(total[0], s[i]);\n"
    "}\n"
    "kernel careful(x: in i32[N], y: out i32[N]) grid(i: N) {\n"
    "    let v = x[i];\n"
    "    assert(v >= 0, \"negative\", v);\n"
    "    y[i] = v;\n"
    "}\n"
    "kernel loud(y: out i32[N]) grid(i: N) {\n"
    "    print(\"hello\", i);\n"
    "    y[i] = 1;\n"
    "}\n"
    "kernel pointers(x: *f32, y: *mut f32, n: i32) grid(b: cdiv(n, 16)) {\n"
    "    let i = b * 16 + arange(0, 16);\n"
    "    store(y + i, load(x + i, i < n) + 1.0, i < n);\n"
    "}\n"
    "kernel cube(y: out i32[1] = 0, n: i64) grid(a: n, b: n, c: n) {\n"
    "    atomic_add(y[0], 1);\n"
    "}\n"
    "kernel past(x: *f32, y: out f32[1]) grid(i: 1) {\n"
    "    y[0] = load(x + 1000);\n"
    "}\n"
    "kernel racy(y: out f32[1]) grid(i: 4) {\n"
    "    y[0] = i as f32;\n"
    "}\n"
    "kernel top(y: out u64[2], u: u64, f: f64) grid(i: 1) {\n"
    "    y[0] = u;\n"
    "    y[1] = f as u64;\n"
    "}\n"
    "kernel early(y: out f32[1], s: scratch f32[4]) grid(i: 1) {\n"
    "    y[0] = s[2];\n"
    "}\n"
    "kernel total(x: in f32[N], scale: in f32[], y: inout f32[]) {\n"
    "    for i in range(N) { y[] += x[i] * scale[]; }\n"
    "}\n"
    "kernel gram<B = 16, materialize = true>(x: in f32[M, K], y: out f32[M, M]) grid(i: cdiv(M, B), j: cdiv(M, B)) {\n"
    "    var acc = zeros([B, B], f32);\n"
    "    for k in range(0, K, 16) {\n"
    "        acc += ((2 * x[i * B +: B, k +: 16]) as f16) @ (x[j * B +: B, k +: 16] as f16).T;\n"
    "    }\n"
    "    y[i * B +: B, j * B +: B] = acc;\n"
    "}\n"
    "kernel upto<B = 16, materialize = true>(x: in f32[M, K], n: i32, y: out f32[M, M]) "
    "grid(i: cdiv(M, B), j: cdiv(M, B)) {\n"
    "    var acc = zeros([B, B], f32);\n"
    "    for k in range(0, n, 16) {\n"
    "        acc += ((2 * x[i * B +: B, k +: 16]) as f16) @ (x[j * B +: B, k +: 16] as f16).T;\n"
    "    }\n"
    "    y[i * B +: B, j * B +: B] = acc;\n"
    "}\n";

static int
setup(void **state)
{
	return fixture_open(state, "test.tgl", source, 3);
}

/* The last call failed with this status and, unless NULL, these words somewhere in its text. */
static void
assert_failed(TglContext *cx, TglStatus status, const char *words)
{
	const TglError *e = tgl_error(cx);
	if (e->status != status || (words && !strstr(e->text, words)))
		print_error("%s: expected '%s'", e->text, words);
	assert_string_equal(tgl_status_name(e->status), tgl_status_name(status));
	if (words)
		assert_non_null(strstr(e->text, words));
	assert_true(e->code[0] == 'E');
}

static TglTensor *
floats(TglDevice *d, int n, const float *v)
{
	TglTensor *t = tgl_tensor(d, TGL_F32, 1, (int64_t[]){n});
	if (v)
		tgl_tensor_write(t, v, sizeof *v * (size_t)n);
	return t;
}

static void
test_launch_by_name_and_position(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "scale");
	float in[100], out[100];
	for (int i = 0; i < 100; i++)
		in[i] = (float)i;
	TglTensor *x = floats(f->dev, 100, in), *y = floats(f->dev, 100, NULL);
	double seconds = -1;
	TglArg named[] = {tgl_arg_float("a", 3), tgl_arg_tensor("y", y), tgl_arg_tensor("x", x)};
	assert_ok(f->cx, tgl_launch(f->dev, k, named, 3, &seconds));
	assert_true(seconds >= 0);
	tgl_tensor_read(y, out, sizeof out);
	for (int i = 0; i < 100; i++)
		assert_true(out[i] == 3 * in[i]);
	TglArg mixed[] = {tgl_arg_int("BLOCK", 7), tgl_arg_tensor(NULL, x), tgl_arg_tensor(NULL, y),
	    tgl_arg_int("a", 2), tgl_arg_int("N", 100)};
	assert_ok(f->cx, tgl_launch(f->dev, k, mixed, 5, NULL));
	tgl_tensor_read(y, out, sizeof out);
	for (int i = 0; i < 100; i++)
		assert_true(out[i] == 2 * in[i]);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* A number that an int64_t does not hold. */
static void
test_great_scalar(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "top");
	uint64_t out[2];
	TglTensor *y = tgl_tensor(f->dev, TGL_U64, 1, (int64_t[]){2});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_uint("u", UINT64_MAX), tgl_arg_uint("f", UINT64_C(1) << 63)};
	for (int i = 0; i < 2; i++) {               /* the second time by what the first one left */
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
		tgl_tensor_read(y, out, sizeof out);
		assert_true(out[0] == UINT64_MAX - (uint64_t)i && out[1] == UINT64_C(1) << 63);
		args[1] = tgl_arg_uint("u", UINT64_MAX - 1);
	}
	TglArg narrow[] = {tgl_arg_tensor("y", y), tgl_arg_uint("n", UINT64_MAX)};
	assert_int_equal(tgl_launch(f->dev, tgl_kernel(f->p, "cube"), narrow, 2, NULL), TGL_ERROR_LAUNCH);
	assert_failed(f->cx, TGL_ERROR_LAUNCH, "18446744073709551615 is out of the range of i64");
	tgl_tensor_close(&y);
}

static void
test_rank_zero(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "total");
	TglTensor *x = floats(f->dev, 3, (float[]){1, 2, 3}), *one = floats(f->dev, 1, NULL);
	TglTensor *scale = tgl_tensor(f->dev, TGL_F32, 0, NULL), *y = tgl_tensor(f->dev, TGL_F32, 0, NULL);
	float v = 10;
	assert_ok(f->cx, tgl_tensor_write(scale, &v, sizeof v));
	assert_ok(f->cx, tgl_tensor_write(y, &v, sizeof v));
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("scale", scale), tgl_arg_tensor("y", y)};
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	assert_ok(f->cx, tgl_tensor_read(y, &v, sizeof v));
	assert_true(v == 70);
	args[1] = tgl_arg_tensor("scale", one);
	assert_int_equal(tgl_launch(f->dev, k, args, 3, NULL), TGL_ERROR_LAUNCH);
	assert_failed(f->cx, TGL_ERROR_LAUNCH, "scale");
	tgl_tensor_close(&x);
	tgl_tensor_close(&one);
	tgl_tensor_close(&scale);
	tgl_tensor_close(&y);
}

static void
test_arguments_that_do_not_fit(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "scale"), *add = tgl_kernel(f->p, "add");
	TglTensor *x = floats(f->dev, 8, NULL), *y = floats(f->dev, 8, NULL),
		  *z = floats(f->dev, 9, NULL);
	TglTensor *i = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){8});
	TglTensor *m = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){2, 4});
	TglTensor *m2 = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){2, 4});
	TglTensor *h = tgl_tensor(f->dev, TGL_F16, 2, (int64_t[]){2, 4});
	TglArg a = tgl_arg_float("a", 1), tx = tgl_arg_tensor("x", x), ty = tgl_arg_tensor("y", y);
/* The launch is refused with this code and these words in its message. */
#define REFUSED(kernel, number, words, ...)                                                        \
	do {                                                                                       \
		TglArg given[] = {__VA_ARGS__};                                                    \
		assert_int_equal(                                                                  \
		    tgl_launch(f->dev, kernel, given, sizeof given / sizeof *given, NULL),         \
		    TGL_ERROR_LAUNCH);                                                             \
		assert_failed(f->cx, TGL_ERROR_LAUNCH, words);                                     \
		assert_string_equal(tgl_error(f->cx)->code, number);                               \
	} while (0)
	REFUSED(k, "E1163", "argument 'a' of kernel 'scale' is missing: expected f32", tx, ty);
	REFUSED(k, "E1163", "'y' of kernel 'scale' is missing: expected out f32[N]", tx, a);
	REFUSED(k, "E1160", "has no parameter or dimension 'z'", tx, ty, a, tgl_arg_int("z", 1));
	REFUSED(k, "E1160", "did you mean 'BLOCK'", tx, ty, a, tgl_arg_int("BLOK", 1));
	REFUSED(k, "E1161", "'x' is given twice", tx, ty, a, tx);
	REFUSED(
	    k, "E1161", "'N' is given twice", tx, ty, a, tgl_arg_int("N", 8), tgl_arg_int("N", 8));
	REFUSED(k, "E1162", "takes 3 arguments; 4 are given", tgl_arg_tensor(NULL, x),
	    tgl_arg_tensor(NULL, y), tgl_arg_float(NULL, 1), tgl_arg_float(NULL, 1));
	REFUSED(k, "E1164", "argument 'x': expected a tensor, found an integer",
	    tgl_arg_int("x", 3), ty, a);
	REFUSED(k, "E1164", "argument 'x': expected a tensor, found NULL",
	    tgl_arg_tensor("x", NULL), ty, a);
	REFUSED(k, "E1164", "argument 'a': expected f32, found a tensor", tx, ty,
	    tgl_arg_tensor("a", x));
	REFUSED(k, "E1164", "argument 'a': expected f32, found a bool", tx, ty,
	    tgl_arg_bool("a", true));
	REFUSED(
	    k, "E1164", "'N': expected a value, found a tensor", tx, ty, a, tgl_arg_tensor("N", x));
	REFUSED(k, "E1171", "expression; a launch takes values", tgl_arg_text("x", "normal(0, 1)"),
	    ty, a);
	REFUSED(k, "E0524", "f32", tgl_arg_tensor("x", i), ty, a);
	REFUSED(k, "E0525", "'x'", tgl_arg_tensor("x", m), ty, a);
	REFUSED(k, "E0519", "'N'", tx, tgl_arg_tensor("y", z), a);
	REFUSED(k, "E0519", "'N'", tx, ty, a, tgl_arg_int("N", 9));
	REFUSED(add, "E0519", "'T'", tgl_arg_tensor("x", m), tgl_arg_tensor("y", h),
	    tgl_arg_tensor("z", m2));
	REFUSED(tgl_kernel(f->p, "pointers"), "E1175", "1099511627776 is out of the range of i32",
	    tx, ty, tgl_arg_int("n", INT64_C(1) << 40));
	REFUSED(tgl_kernel(f->p, "count_up"), "E1170", "'s' is scratch", tgl_arg_tensor("x", i),
	    tgl_arg_tensor("s", i));
	TglTensor **all[] = {&x, &y, &z, &i, &m, &m2, &h};
	for (int t = 0; t < 7; t++)
		tgl_tensor_close(all[t]);
}

static void
test_strides_and_overlap(void **state)
{
	Fixture *f = *state;
	TglKernel *add = tgl_kernel(f->p, "add"), *rows = tgl_kernel(f->p, "double_rows");
	int32_t v[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, out[6];
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){4, 4});
	TglTensor *turned = tgl_tensor_permute(t, (int[]){1, 0});
	TglTensor *z = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){4, 4});
	REFUSED(add, "E1166",
	    "'x' is not contiguous: f32[4, 4] has strides [1, 4], expected [4, 1]",
	    tgl_arg_tensor("x", turned), tgl_arg_tensor("y", t), tgl_arg_tensor("z", z));
	REFUSED(add, "E1168", "arguments 'x' and 'z' overlap, and the kernel writes 'z'",
	    tgl_arg_tensor("x", t), tgl_arg_tensor("y", z), tgl_arg_tensor("z", t));
	TglArg twice[] = {tgl_arg_tensor("x", t), tgl_arg_tensor("y", t), tgl_arg_tensor("z", z)};
	assert_ok(f->cx, tgl_launch(f->dev, add, twice, 3, NULL));

	TglTensor *m = tgl_tensor(f->dev, TGL_I32, 2, (int64_t[]){3, 4});
	tgl_tensor_write(m, v, sizeof v);
	TglTensor *left = tgl_tensor_view(m, (int64_t[]){0, 0}, (int64_t[]){3, 2});
	TglTensor *right = tgl_tensor_view(m, (int64_t[]){0, 2}, (int64_t[]){3, 2});
	TglTensor *middle = tgl_tensor_view(m, (int64_t[]){0, 1}, (int64_t[]){3, 2});
	TglArg halves[] = {tgl_arg_tensor("x", left), tgl_arg_tensor("y", right)};
	assert_ok(f->cx, tgl_launch(f->dev, rows, halves, 2, NULL));
	tgl_tensor_read(right, out, sizeof out);
	assert_memory_equal(out, ((int32_t[]){5, 8, 17, 20, 29, 32}), sizeof out);
	tgl_tensor_read(left, out, sizeof out);
	assert_memory_equal(out, ((int32_t[]){1, 2, 5, 6, 9, 10}), sizeof out);
	REFUSED(rows, "E1168", "overlap", tgl_arg_tensor("x", left), tgl_arg_tensor("y", middle));
	REFUSED(rows, "E1168", "overlap", tgl_arg_tensor("x", middle), tgl_arg_tensor("y", middle));

	TglTensor *still =
	    tgl_tensor_strided(f->dev, TGL_I32, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1});
	TglTensor *slide =
	    tgl_tensor_strided(f->dev, TGL_I32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 1});
	REFUSED(rows, "E1167",
	    "'y' is written by the kernel, but its stride along dimension 0 is 0",
	    tgl_arg_tensor("x", left), tgl_arg_tensor("y", still));
	REFUSED(rows, "E1172", "elements of it share memory: [3, 2] with strides [1, 1]",
	    tgl_arg_tensor("x", left), tgl_arg_tensor("y", slide));
	TglArg spread[] = {tgl_arg_tensor("x", still), tgl_arg_tensor("y", left)};
	assert_ok(f->cx, tgl_launch(f->dev, rows, spread, 2, NULL));
	/* What has no elements overlaps nothing, whatever its strides. */
	TglTensor *empty = tgl_tensor_strided(f->dev, TGL_I32, 2, (int64_t[]){3, 0}, (int64_t[]){0, 1});
	TglArg nothing[] = {tgl_arg_tensor("x", empty), tgl_arg_tensor("y", empty)};
	assert_ok(f->cx, tgl_launch(f->dev, rows, nothing, 2, NULL));
	TglTensor **all[] = {&t, &turned, &z, &m, &left, &right, &middle, &still, &slide, &empty};
	for (int i = 0; i < 10; i++)
		tgl_tensor_close(all[i]);
}

static void
test_fills_and_scratch(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "count_up");
	for (int n = 1; n < 40; n += 13) {
		TglTensor *x = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){n});
		TglTensor *total = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){1});
		int64_t v;
		tgl_tensor_fill(x, 3);
		for (int again = 0; again < 2; again++) {
			TglArg args[] = {tgl_arg_tensor(NULL, x), tgl_arg_tensor(NULL, total)};
			assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
			tgl_tensor_element(total, 0, NULL, &v);
			assert_int_equal(v, 5 + 3 * n);
		}
		tgl_tensor_close(&x);
		tgl_tensor_close(&total);
	}
}

/* Operands that a kernel before computes: into memory that grows, shrinks and is used again, and anew in each launch. */
static void
test_operands_before(void **state)
{
	static const int64_t shape[][2] = {{20, 40}, {20, 24}, {50, 100}, {20, 40}, {0, 40}, {20, 0}};
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "gram");
	TglDevice *simt = tgl_device_open(f->cx, "simt", NULL);
	for (int i = 0; i < (int)LEN(shape); i++) {
		TglTensor *x = tgl_tensor(simt, TGL_F32, 2, shape[i]);
		TglTensor *y = tgl_tensor(simt, TGL_F32, 2, (int64_t[]){shape[i][0], shape[i][0]});
		for (int v = 1; v < 4; v++) {
			TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
			tgl_tensor_fill(x, v);
			assert_ok(f->cx, tgl_launch(simt, k, args, 2, NULL));
			for (int e = 0; e < (int)(shape[i][0] * shape[i][0]); e++) {
				double is;
				tgl_tensor_element(y, e, &is, NULL);
				assert_true(is == (double)(2 * v * v * (int)shape[i][1]));
			}
		}
		tgl_tensor_close(&x);
		tgl_tensor_close(&y);
	}
	tgl_device_close(&simt);
}

/* One kernel, whose launches have other strides each: rows at multiples of 16 bytes and not, columns, every third, one row
 * for all; results and copies by tensor maps.  Each form that an earlier launch left is taken again. */
static void
test_other_strides(void **state)
{
	enum { M = 20, N = 24, MOST = 3000, ROUNDS = 2 };
	static const int64_t stride[][2] = {
	    {N, 1}, {32, 1}, {N + 1, 1}, {1, M}, {1, M + 4}, {3 * N, 3}, {1, M + 1}, {0, 1}, {64, 1}, {1, 0}};
	static const char *const device[] = {"cpu", "simt", "simt:sm_80"};
	Fixture *f = *state;
	for (int d = 0; d < (int)LEN(device); d++) {
		TglKernel *k = tgl_kernel(f->p, "double_rows");
		TglDevice *dev = tgl_device_open(f->cx, device[d], NULL);
		for (int n = 0; n < ROUNDS * (int)(LEN(stride) * LEN(stride)); n++) {
			const int64_t *in = stride[n % (int)LEN(stride)], *out = stride[n / ROUNDS / (int)LEN(stride)];
			int64_t dim[] = {M, N}, at[2];
			if (out[0] == 0 || out[1] == 0)
				continue;
			TglTensor *x = tgl_tensor_strided(dev, TGL_I32, 2, dim, in);
			TglTensor *y = tgl_tensor_strided(dev, TGL_I32, 2, dim, out);
			static int32_t from[M * N], is[M * N];
			for (int e = 0; e < M * N; e++)
				from[e] = (int32_t)(n + 7 * (in[0] ? e / N : 0) + 3 * (in[1] ? e % N : 0));
			tgl_tensor_write(x, from, sizeof from);
			tgl_tensor_fill(y, 5);
			TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
			assert_ok(f->cx, tgl_launch(dev, k, args, 2, NULL));
			tgl_tensor_read(y, is, sizeof is);
			for (at[0] = 0; at[0] < M; at[0]++)
				for (at[1] = 0; at[1] < N; at[1]++)
					assert_int_equal(is[at[0] * N + at[1]], 2 * from[at[0] * N + at[1]] + 5);
			tgl_tensor_close(&x);
			tgl_tensor_close(&y);
		}
		tgl_device_close(&dev);
	}
}

/* The same form and tensors, of which the next launch's scalar needs more: the cache of launches has too little. */
static void
test_operands_of_scalars(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "upto");
	TglDevice *simt = tgl_device_open(f->cx, "simt", NULL);
	TglTensor *x = tgl_tensor(simt, TGL_F32, 2, (int64_t[]){20, 64});
	TglTensor *y = tgl_tensor(simt, TGL_F32, 2, (int64_t[]){20, 20});
	tgl_tensor_fill(x, 1);
	for (int n = 16; n < 64; n += 32) {
		TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_int("n", n), tgl_arg_tensor("y", y)};
		double is;
		assert_ok(f->cx, tgl_launch(simt, k, args, 3, NULL));
		tgl_tensor_element(y, 0, &is, NULL);
		assert_true(is == 2 * n);
	}
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_device_close(&simt);
}

static void
test_nothing_to_do(void **state)
{
	Fixture *f = *state;
	TglTensor *x = floats(f->dev, 0, NULL), *y = floats(f->dev, 0, NULL);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 1)};
	double seconds = -1;
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "scale"), args, 3, &seconds));
	assert_true(seconds >= 0);
	TglTensor *one = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){1});
	int64_t v;
	TglArg none[] = {tgl_arg_tensor("y", one), tgl_arg_int("n", 0)};
	tgl_tensor_fill(one, 9);
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "cube"), none, 2, NULL));
	tgl_tensor_element(one, 0, NULL, &v);
	assert_int_equal(v, 0);
	TglArg some[] = {tgl_arg_tensor("y", one), tgl_arg_int("n", 11)};
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "cube"), some, 2, NULL));
	tgl_tensor_element(one, 0, NULL, &v);
	assert_int_equal(v, 11 * 11 * 11);
	REFUSED(tgl_kernel(f->p, "cube"), "E0517", "grid", tgl_arg_tensor("y", one),
	    tgl_arg_int("n", INT64_C(1) << 40));
	REFUSED(tgl_kernel(f->p, "cube"), "E0516", "grid", tgl_arg_tensor("y", one),
	    tgl_arg_int("n", -1));
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_tensor_close(&one);
}

static void
test_pointers(void **state)
{
	Fixture *f = *state;
	float v[20], out[20];
	for (int i = 0; i < 20; i++)
		v[i] = (float)i;
	TglTensor *x = floats(f->dev, 20, v);
	TglArg in_place[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", x), tgl_arg_int("n", 19)};
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "pointers"), in_place, 3, NULL));
	tgl_tensor_read(x, out, sizeof out);
	for (int i = 0; i < 20; i++)
		assert_true(out[i] == (float)(i < 19 ? i + 1 : i));
	tgl_tensor_close(&x);
}

/* The first fault in the grid's order is reported, whatever the threads do. */
static void
test_assert_faults(void **state)
{
	Fixture *f = *state;
	enum { N = 3000 };
	TglTensor *x = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){N}),
		  *y = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){N});
	int32_t *v = tgl_tensor_data(x);
	for (int i = 0; i < N; i++)
		v[i] = i < 1234 ? i : -i;
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	for (int i = 0; i < 50; i++) {
		assert_int_equal(tgl_launch(f->dev, tgl_kernel(f->p, "careful"), args, 2, NULL),
		    TGL_ERROR_FAULT);
		assert_failed(f->cx, TGL_ERROR_FAULT, "negative");
		assert_string_equal(tgl_error(f->cx)->code, "E1195");
		assert_non_null(strstr(tgl_error(f->cx)->text, "1234"));
		assert_int_equal(tgl_error(f->cx)->line, 16);
		assert_string_equal(tgl_error(f->cx)->file, "test.tgl");
	}
	tgl_tensor_fill(x, 1);
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "careful"), args, 2, NULL));
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
count_lines(void *user, const char *line)
{
	if (strstr(line, "hello"))
		++*(int *)user;
}

static void
test_prints(void **state)
{
	Fixture *f = *state;
	int lines = 0;
	TglTensor *y = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){70});
	TglArg args[] = {tgl_arg_tensor("y", y)};
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "loud"), args, 1, NULL));
	tgl_context_print(f->cx, count_lines, &lines);
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "loud"), args, 1, NULL));
	assert_int_equal(lines, 70);
	tgl_tensor_close(&y);
}

static void
test_sanitizing_device(void **state)
{
	Fixture *f = *state;
	TglDevice *d = tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.sanitize = true});
	TglTensor *x = floats(d, 10, NULL), *y = floats(d, 1, NULL);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	assert_int_equal(tgl_launch(d, tgl_kernel(f->p, "past"), args, 2, NULL), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "x");
	assert_string_equal(tgl_error(f->cx)->code, "E1196");
	assert_int_equal(
	    tgl_launch(f->dev, tgl_kernel(f->p, "past"), args, 2, NULL), TGL_ERROR_LAUNCH);
	assert_failed(f->cx, TGL_ERROR_LAUNCH, "another device");
	assert_string_equal(tgl_error(f->cx)->code, "E1165");
	assert_int_equal(tgl_launch(d, tgl_kernel(f->p, "racy"), args + 1, 1, NULL), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "'y'");
	assert_string_equal(tgl_error(f->cx)->code, "E1197");
	assert_int_equal(tgl_error(f->cx)->line, 34);
	assert_int_equal(
	    tgl_launch(d, tgl_kernel(f->p, "early"), args + 1, 1, NULL), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "'s'");
	assert_string_equal(tgl_error(f->cx)->code, "E1198");
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_device_close(&d);
}

static void
count_traces(void *user, const TglTrace *t)
{
	if (strcmp(t->op, "mul") == 0 && t->line == 2 && t->rank == 1 && t->dim[0] == 64)
		__atomic_add_fetch((int *)user, 1, __ATOMIC_RELAXED);
}

static void
test_trace(void **state)
{
	Fixture *f = *state;
	int n = 0;
	TglDevice *d =
	    tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.trace = count_traces, .user = &n});
	TglTensor *x = floats(d, 640, NULL), *y = floats(d, 640, NULL);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 2)};
	assert_ok(f->cx, tgl_launch(d, tgl_kernel(f->p, "scale"), args, 3, NULL));
	assert_int_equal(n, 10);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_device_close(&d);
}

static void
test_shapes(void **state)
{
	Fixture *f = *state;
	TglTensor *x = tgl_tensor(f->dev, TGL_F16, 2, (int64_t[]){5, 70});
	TglArg args[] = {tgl_arg_tensor("x", x)};
	TglShape s[3];
	int64_t grid[3];
	assert_ok(f->cx, tgl_shapes(tgl_kernel(f->p, "add"), args, 1, s, grid));
	assert_int_equal(s[2].dtype, TGL_F16);
	assert_int_equal(s[2].rank, 2);
	assert_int_equal(s[2].dim[1], 70);
	assert_int_equal(grid[0], 5);
	assert_int_equal(grid[1], 3);
	assert_int_equal(grid[2], 1);
	assert_int_equal(tgl_shapes(tgl_kernel(f->p, "add"), NULL, 0, s, grid), TGL_ERROR_LAUNCH);
	assert_int_equal(tgl_shapes(NULL, NULL, 0, s, grid), TGL_ERROR_USAGE);
	tgl_tensor_close(&x);
}

static void
test_programs(void **state)
{
	Fixture *f = *state;
	assert_int_equal(tgl_program_kernels(f->p), 15);
	assert_string_equal(tgl_kernel_name(tgl_program_kernel(f->p, 1)), "add");
	assert_null(tgl_program_kernel(f->p, 15));
	assert_null(tgl_program_kernel(f->p, -1));
	assert_int_equal(strlen(tgl_program_hash(f->p)), 64);
	assert_string_equal(tgl_program_hash(f->p), tgl_program_hash(f->p));
	assert_string_equal(tgl_program_hash(NULL), "");
	assert_null(tgl_kernel(f->p, "scal"));
	assert_failed(f->cx, TGL_ERROR_NAME, "did you mean 'scale'?");
	assert_string_equal(tgl_error(f->cx)->code, "E1156");
	assert_null(tgl_kernel(f->p, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "NULL");
	TglKernel *k = tgl_kernel(f->p, "double_rows");
	TglParam p;
	assert_true(tgl_kernel_param(k, 1, &p));
	assert_string_equal(p.name, "y");
	assert_string_equal(p.text, "inout strided i32[M, N]");
	assert_int_equal(p.access, TGL_INOUT);
	assert_int_equal(p.dtype, TGL_I32);
	assert_int_equal(p.rank, 2);
	assert_true(p.strided);
	assert_false(tgl_kernel_param(k, 2, &p));
	assert_int_equal(tgl_kernel_line(k), 7);
	assert_string_equal(tgl_kernel_file(k), "test.tgl");
	assert_string_equal(tgl_kernel_symbol(k, 0), "M");
	assert_null(tgl_kernel_symbol(k, 2));
	assert_string_equal(tgl_kernel_constant(tgl_kernel(f->p, "add"), 0), "T");
	assert_false(tgl_kernel_has_reference(k));
	assert_int_equal(tgl_kernel_param_named(k, "x"), 0);
	assert_int_equal(tgl_kernel_param_named(k, "M"), -1);
}

static void
test_source_errors(void **state)
{
	Fixture *f = *state;
	const char bad[] = "kernel k(x: in f32[N]) grid(i: N) { let a = y; let b = z; }\nkernel {";
	assert_null(tgl_program_text(f->cx, "bad.tgl", bad, strlen(bad)));
	const TglError *e = tgl_error(f->cx);
	assert_int_equal(e->status, TGL_ERROR_SOURCE);
	assert_string_equal(e->file, "bad.tgl");
	assert_true(e->line >= 1 && e->col >= 1);
	assert_non_null(strstr(e->text, "bad.tgl:2:"));
	assert_int_equal(e->json[0], '[');
	assert_null(tgl_program_file(f->cx, "/nowhere/x.tgl"));
	assert_failed(f->cx, TGL_ERROR_SOURCE, "/nowhere/x.tgl");
	assert_null(tgl_program_file(f->cx, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "NULL");
	assert_null(tgl_program_text(f->cx, "x", NULL, 3));
	assert_failed(f->cx, TGL_ERROR_USAGE, "NULL");
	assert_null(tgl_program_text(NULL, "x", "", 0));
	assert_non_null(tgl_error(f->cx));
	TglProgram *p = tgl_program_text(f->cx, NULL, "", 0);
	assert_non_null(p);
	assert_int_equal(tgl_program_kernels(p), 0);
	assert_int_equal(tgl_error(f->cx)->status, TGL_OK);
	tgl_program_close(&p);
	tgl_program_close(&p);
}

static void
test_wrong_handles(void **state)
{
	Fixture *f = *state;
	TglContext *other = tgl_context_open();
	TglDevice *dev = tgl_device_open(other, "cpu", NULL);
	TglTensor *x = floats(dev, 4, NULL), *y = floats(f->dev, 4, NULL);
	TglKernel *k = tgl_kernel(f->p, "scale");
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 1)};
	assert_int_equal(tgl_launch(f->dev, k, args, 3, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "a tensor belongs to another context");
	assert_string_equal(tgl_error(f->cx)->code, "E1151");
	assert_int_equal(tgl_launch(dev, k, args, 3, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "the device belongs to another context");
	assert_int_equal(tgl_launch(NULL, k, args, 3, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "the device is NULL");
	assert_int_equal(tgl_launch(f->dev, NULL, args, 3, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "the kernel is NULL");
	assert_int_equal(tgl_launch(f->dev, k, NULL, 3, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "args is NULL");
	assert_int_equal(tgl_launch(NULL, NULL, NULL, 0, NULL), TGL_ERROR_USAGE);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_device_close(&dev);
	tgl_context_close(&other);
}

static void
keep_text(void *user, const char *text)
{
	char *to = user;
	snprintf(to, 4000, "%s", text);
}

/* A device that turns kernels down. */
static Loaded *
refuse(Device *d, Func *f, const char **why)
{
	*why = "it is full";
	return NULL;
}

static void
test_device_that_refuses(void **state)
{
	Fixture *f = *state;
	TglDevice *d = tgl_device_open(f->cx, "cpu", NULL);
	TglTensor *y = tgl_tensor(d, TGL_I32, 1, (int64_t[]){4});
	TglArg args[] = {tgl_arg_tensor("y", y)};
	d->dev.load = refuse;
	assert_int_equal(tgl_launch(d, tgl_kernel(f->p, "loud"), args, 1, NULL), TGL_ERROR_DEVICE);
	assert_failed(
	    f->cx, TGL_ERROR_DEVICE, "kernel 'loud' cannot run on device 'cpu': it is full");
	assert_string_equal(tgl_error(f->cx)->code, "E1155");
	tgl_tensor_close(&y);
	tgl_device_close(&d);
}

/* A device whose machine is full. */
static bool
run_out(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	fault->kind = FAULT_MEMORY;
	strcpy(fault->text, "one program's tiles take 5 bytes, and this machine has 4");
	return false;
}

static void
test_device_out_of_memory(void **state)
{
	Fixture *f = *state;
	TglDevice *d = tgl_device_open(f->cx, "cpu", NULL);
	TglTensor *y = tgl_tensor(d, TGL_I32, 1, (int64_t[]){4});
	TglArg args[] = {tgl_arg_tensor("y", y)};
	d->dev.launch = run_out;
	assert_int_equal(tgl_launch(d, tgl_kernel(f->p, "loud"), args, 1, NULL), TGL_ERROR_MEMORY);
	assert_failed(f->cx, TGL_ERROR_MEMORY, "5 bytes");
	assert_string_equal(tgl_error(f->cx)->code, "E1199");
	tgl_tensor_close(&y);
	tgl_device_close(&d);
}

static void
test_compile_options(void **state)
{
	Fixture *f = *state;
	char text[4000] = "";
	TglTensor *x = floats(f->dev, 4, NULL), *y = floats(f->dev, 4, NULL);
	TglKernel *k = tgl_kernel(f->p, "scale");
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 1)};
	tgl_context_compile(f->cx,
	    &(TglCompileOptions){.dump = "all", .verify = true, .write = keep_text, .user = text});
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	assert_non_null(strstr(text, "@scale"));
	text[0] = 0;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	assert_string_equal(text, "");
	tgl_context_compile(f->cx, &(TglCompileOptions){.only = "nonsense"});
	TglArg again[] = {args[0], args[1], args[2], tgl_arg_int("BLOCK", 5)};
	assert_int_equal(tgl_launch(f->dev, k, again, 4, NULL), TGL_ERROR_SOURCE);
	assert_failed(f->cx, TGL_ERROR_SOURCE, "nonsense");
	tgl_context_compile(f->cx, NULL);
	assert_ok(f->cx, tgl_launch(f->dev, k, again, 4, NULL));
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* ---- two contexts, two threads ---- */

static void *
run_context(void *arg)
{
	intptr_t bad = 0;
	TglContext *cx = tgl_context_open();
	for (int round = 0; round < 5; round++) {
		TglDevice *d = tgl_device_open(cx, "cpu", &(TglDeviceOptions){.threads = 2});
		TglProgram *p = tgl_program_text(cx, "test.tgl", source, strlen(source));
		float v[100], out[100];
		for (int i = 0; i < 100; i++)
			v[i] = (float)(i + round);
		TglTensor *x = floats(d, 100, v), *y = floats(d, 100, NULL);
		TglArg args[] = {
		    tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 2)};
		for (int i = 0; i < 20; i++)
			bad += tgl_launch(d, tgl_kernel(p, "scale"), args, 3, NULL) != TGL_OK;
		tgl_tensor_read(y, out, sizeof out);
		for (int i = 0; i < 100; i++)
			bad += out[i] != 2 * v[i];
		bad += tgl_kernel(p, "none") != NULL;
		bad += tgl_error(cx)->status != TGL_ERROR_NAME;
		tgl_tensor_close(&x);
		tgl_program_close(&p);
		tgl_device_close(&d);
		tgl_tensor_close(&y);
	}
	tgl_context_close(&cx);
	return (void *)bad;
}

/* A device opened before a fork runs in the child, which has none of its threads. */
static void
test_fork(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "scale");
	TglTensor *x = floats(f->dev, 4096, NULL), *y = floats(f->dev, 4096, NULL);
	static float v[4096];
	for (int i = 0; i < 4096; i++)
		v[i] = (float)i;
	assert_ok(f->cx, tgl_tensor_write(x, v, sizeof v));
	const TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 2)};
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		bool good = tgl_launch(f->dev, k, args, 3, NULL) == TGL_OK && tgl_launch(f->dev, k, args, 3, NULL) == TGL_OK &&
		    tgl_tensor_read(y, v, sizeof v) == TGL_OK && v[4095] == 8190;
		tgl_tensor_close(&x);
		tgl_tensor_close(&y);
		teardown(state);
		_exit(good ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
test_two_contexts(void **state)
{
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, run_context, NULL), 0);
	for (int i = 0; i < 2; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_launch_by_name_and_position),
	    TEST(test_rank_zero),
	    TEST(test_great_scalar),
	    TEST(test_arguments_that_do_not_fit),
	    TEST(test_strides_and_overlap),
	    TEST(test_fills_and_scratch),
	    TEST(test_operands_before),
	    TEST(test_other_strides), TEST(test_operands_of_scalars),
	    TEST(test_nothing_to_do),
	    TEST(test_pointers),
	    TEST(test_assert_faults),
	    TEST(test_prints),
	    TEST(test_sanitizing_device),
	    TEST(test_trace),
	    TEST(test_shapes),
	    TEST(test_programs),
	    TEST(test_source_errors),
	    TEST(test_wrong_handles),
	    TEST(test_device_that_refuses),
	    TEST(test_device_out_of_memory),
	    TEST(test_compile_options),
	    TEST(test_fork),
	    cmocka_unit_test(test_two_contexts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
