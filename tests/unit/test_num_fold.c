/* Reductions, scans and dots of the interpreter's numerics, at every level of CPU, against plain loops here
 * that index elements one by one in f64 or in 64-bit integers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/num.h"

static uint64_t rng = 88172645463325252u;

static uint64_t
next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Elements of tiles: those of packed types have a byte each. */
static double
get(DType t, const void *x, int64_t i)
{
	return dtype_is_packed(t) ? dtype_load_f64(t, (const char *)x + i, 0) : dtype_load_f64(t, x, i);
}

static void
put(DType t, void *x, int64_t i, double v)
{
	if (t == TY_F4E2M1)
		dtype_store_f64(t, (char *)x + i, 0, v);
	else
		dtype_store_f64(t == TY_I4 ? TY_I8 : t == TY_U4 ? TY_U8 : t, x, i, v);
}

static double *
doubles(DType t, const void *x, int64_t n)
{
	double *v = malloc((size_t)n * sizeof *v);
	for (int64_t i = 0; i < n; i++)
		v[i] = get(t, x, i);
	return v;
}

static uint64_t *
integers(DType t, const void *x, int64_t n)
{
	uint64_t *v = malloc((size_t)n * sizeof *v);
	for (int64_t i = 0; i < n; i++)
		v[i] = (uint64_t)dtype_load_i64(t, x, i);
	return v;
}

/* Small whole numbers and their like: sums of them are exact in f32, so that results must be equal. */
static void
fill(DType t, void *x, int64_t n, bool nans)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t v = (int64_t)(next_random() % 9) - (dtype_is_unsigned(t) ? 0 : 4);
		if (t == TY_BOOL)
			v = next_random() % 5 != 0;
		if (nans && dtype_is_float(t) && next_random() % 4 == 0)
			put(t, x, i, NAN);
		else
			put(t, x, i, (double)v);
	}
}

/* ---- reductions ---- */

/* Whether b, later, takes the place of a. */
static bool
beats(ReduceFn fn, bool nan, double a, double b)
{
	bool greater = fn == RED_MAX || fn == RED_ARGMAX;
	if (isnan(a) || isnan(b))
		return nan ? isnan(b) && !isnan(a) : isnan(a) && !isnan(b);
	return greater ? b > a : b < a;
}

static double
naive(const Reduce *r, const double *a, int64_t at, int64_t n, int64_t step)
{
	double v = r->fn == RED_PROD || r->fn == RED_ALL ? 1 : 0;
	int64_t where = 0;
	for (int64_t i = 0; i < n; i++) {
		double x = a[at + i * step];
		switch (r->fn) {
		case RED_SUM: v += x; break;
		case RED_PROD: v *= x; break;
		case RED_ANY: v = v != 0 || x != 0; break;
		case RED_ALL: v = v != 0 && x != 0; break;
		case RED_XOR_SUM: v = (double)((int64_t)v ^ (int64_t)x); break;
		default:
			if (i == 0 || beats(r->fn, r->propagate_nan, v, x)) {
				v = x;
				where = i;
			}
		}
	}
	return r->fn == RED_ARGMAX || r->fn == RED_ARGMIN ? (double)where : v;
}

static void
check_reduce(Reduce r, int64_t outer, int64_t n, int64_t inner)
{
	size_t in = (size_t)(outer * n * inner + 1), results = (size_t)(outer * inner + 1);
	void *a = calloc(in, 8), *out = calloc(results, 8);
	fill(r.in, a, outer * n * inner, true);
	if (n > 2)                                      /* a line of nothing but NaN, where there are such */
		for (int64_t i = 0; i < n && dtype_is_float(r.in); i++)
			put(r.in, a, i * inner, NAN);
	if (r.fn == RED_SUM || r.fn == RED_PROD)
		fill(r.in, a, outer * n * inner, false);
	double *xs = doubles(r.in, a, outer * n * inner + 1);
	for (r.level = CPU_BASE; r.level <= cpu_level(); r.level++) {
		reduce_run(&r, a, outer, n, inner, out);
		for (int64_t o = 0; o < outer; o++)
			for (int64_t j = 0; j < inner; j++) {
				double want = naive(&r, xs, o * n * inner + j, n, inner);
				double got = get(r.out, out, o * inner + j);
				if (want != got && !(isnan(want) && isnan(got)))
					fail_msg("reduce %d of %s to %s [%d, %d, %d] at %d, %d: %g, should be %g", r.fn,
					    dtype_info[r.in].text, dtype_info[r.out].text, (int)outer, (int)n, (int)inner,
					    (int)o, (int)j, got, want);
			}
	}
	free(a);
	free(out);
	free(xs);
}

static void
check_shapes(Reduce r)
{
	const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 1}, {2, 64, 1}, {2, 65, 1}, {1, 3000, 1}, {2, 5, 3},
	    {1, 130, 70}, {2, 67, 8}, {1, 9, 600}, {3, 1, 5}};
	for (int i = 0; i < LEN(shapes); i++)
		if (r.fn != RED_PROD || shapes[i][1] < 8)
			check_reduce(r, shapes[i][0], shapes[i][1], shapes[i][2]);
}

static DType
sum_type(DType t)
{
	int bits = dtype_info[t].bits;
	return bits >= 32 ? t : dtype_is_float(t) ? TY_F32 : TY_I32;
}

static void
test_reduce(void **state)
{
	for (int t = 0; t < DTYPE_COUNT; t++) {
		DType type = (DType)t;
		if (type == TY_BOOL || type == TY_F4E2M1)
			continue;
		for (int nan = 0; nan < 2; nan++) {
			check_shapes((Reduce){.fn = RED_MAX, .in = type, .out = type, .propagate_nan = nan});
			check_shapes((Reduce){.fn = RED_MIN, .in = type, .out = type, .propagate_nan = nan});
			check_shapes((Reduce){.fn = RED_ARGMAX, .in = type, .out = TY_I32, .propagate_nan = nan});
			check_shapes((Reduce){.fn = RED_ARGMIN, .in = type, .out = TY_I64, .propagate_nan = nan});
		}
		check_shapes((Reduce){.fn = RED_SUM, .in = type, .out = sum_type(type)});
		check_shapes((Reduce){.fn = RED_PROD, .in = type, .out = sum_type(type)});
		if (!dtype_is_float(type) && !dtype_is_packed(type))
			check_shapes((Reduce){.fn = RED_XOR_SUM, .in = type, .out = type});
	}
	check_shapes((Reduce){.fn = RED_SUM, .in = TY_F16, .out = TY_F64});
	check_shapes((Reduce){.fn = RED_ANY, .in = TY_BOOL, .out = TY_BOOL});
	check_shapes((Reduce){.fn = RED_ALL, .in = TY_BOOL, .out = TY_BOOL});
}

/* Integers wrap in the result's type. */
static void
test_sum_wraps(void **state)
{
	int8_t x[100], got;
	memset(x, 100, sizeof x);
	Reduce r = {RED_SUM, TY_I8, TY_I8, .level = cpu_level()};
	reduce_run(&r, x, 1, 100, 1, &got);
	assert_int_equal(got, (int8_t)10000);
}

static void
test_reduce_empty(void **state)
{
	float x[3], none[1] = {0};
	const float want[] = {0, 1, -INFINITY, INFINITY};
	for (int fn = RED_SUM; fn <= RED_MIN; fn++) {
		Reduce r = {(ReduceFn)fn, TY_F32, TY_F32, .level = cpu_level()};
		reduce_run(&r, none, 3, 0, 1, x);
		assert_true(x[0] == want[fn] && x[2] == want[fn]);
		reduce_run(&r, none, 1, 0, 3, x);
		assert_true(x[0] == want[fn] && x[2] == want[fn]);
	}
	int32_t at[2] = {7, 7};
	Reduce arg = {RED_ARGMAX, TY_F32, TY_I32, .level = cpu_level()};
	reduce_run(&arg, none, 1, 0, 2, at);
	assert_true(at[0] == 0 && at[1] == 0);
}

/* The error of a long sum of f32 stays near that of one addition, and is the same on every level. */
static void
test_sum_error(void **state)
{
	enum { N = 1000003 };
	float *x = malloc(N * sizeof *x), got[CPU_LEVELS];
	double want = 0;
	for (int i = 0; i < N; i++) {
		x[i] = (float)(next_random() >> 40) * 0x1p-24f;
		want += x[i];
	}
	for (int along = 0; along < 2; along++)
		for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
			Reduce r = {RED_SUM, TY_F32, TY_F32, .level = l};
			if (along)
				reduce_run(&r, x, 1, N, 1, &got[l]);
			else
				reduce_run(&r, x, 1, N / 7, 7, (float[7]){0});
			if (along) {
				assert_true(fabs(got[l] - want) <= want * 0x1p-22);
				assert_true(got[l] == got[CPU_BASE]);
			}
		}
	free(x);
}

/* ---- scans ---- */

static void
check_scan(Reduce r, int64_t outer, int64_t n, int64_t inner)
{
	size_t count = (size_t)(outer * n * inner + 1);
	void *a = calloc(count, 8), *out = calloc(count, 8);
	bool ordered = r.fn == RED_MAX || r.fn == RED_MIN;
	fill(r.in, a, outer * n * inner, ordered);
	double *xs = doubles(r.in, a, outer * n * inner + 1);
	scan_run(&r, a, outer, n, inner, out);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t j = 0; j < inner; j++)
			for (int64_t i = 0; i < n; i++) {
				int64_t line = o * n * inner + j, at = r.reverse ? n - 1 - i : i;
				double got = get(r.out, out, line + at * inner);
				/* max and min take either order; sums and products are exact here */
				double want = naive(&r, xs, line + (r.reverse ? at * inner : 0), i + 1, inner);
				if (want != got && !(isnan(want) && isnan(got)))
					fail_msg("scan %d of %s [%d, %d, %d]: %g, should be %g", r.fn,
					    dtype_info[r.in].text, (int)outer, (int)n, (int)inner, got, want);
			}
	free(a);
	free(out);
	free(xs);
}

static void
test_scan(void **state)
{
	const int64_t shapes[][3] = {{2, 1, 1}, {3, 5, 1}, {1, 600, 1}, {2, 6, 3}, {1, 40, 9}, {1, 4, 700}};
	for (int t = TY_I8; t <= TY_F8E5M2; t++)
		for (int fn = RED_SUM; fn <= RED_MIN; fn++)
			for (int flags = 0; flags < 4; flags++)
				for (int s = 0; s < LEN(shapes); s++) {
					DType type = (DType)t;
					Reduce r = {(ReduceFn)fn, type, fn < RED_MAX ? sum_type(type) : type,
					    .reverse = flags & 1, .propagate_nan = flags & 2, .level = cpu_level()};
					if (fn != RED_PROD || shapes[s][1] < 8)
						check_scan(r, shapes[s][0], shapes[s][1], shapes[s][2]);
				}
}

/* In place, when the types are one. */
static void
test_scan_in_place(void **state)
{
	float x[600];
	for (int i = 0; i < 600; i++)
		x[i] = 1;
	Reduce r = {RED_SUM, TY_F32, TY_F32, .level = cpu_level()};
	scan_run(&r, x, 1, 600, 1, x);
	assert_true(x[0] == 1 && x[599] == 600);
	scan_run(&r, x, 1, 20, 30, x);
	assert_true(x[30] == 32 && x[599] == 20 * 30 + 30 * 19 * 10);
}

/* ---- dot ---- */

static double
product(const Dot *d, const double *a, const double *b, const void *acc, int64_t batch, int64_t i, int64_t j, double *size)
{
	double sum = acc ? get(d->out, acc, (batch * d->m + i) * d->n + j) : 0;
	*size = fabs(sum);
	for (int64_t p = 0; p < d->k; p++) {
		double x = a[batch * d->a_batch + i * d->a_row + p * d->a_col];
		double y = b[batch * d->b_batch + p * d->b_row + j * d->b_col];
		sum += x * y;
		*size += fabs(x * y);
	}
	return sum;
}

static void
fill_any(DType t, void *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (dtype_is_float(t))
			put(t, x, i, ((double)(next_random() >> 11) * 0x1p-53 - 0.5) * 4);
		else
			dtype_store_i64(t, x, i, (int64_t)next_random());
}

static double
unit_of(DType t)
{
	return t == TY_F64 ? 0x1p-53 : t == TY_F32 ? 0x1p-24 : t == TY_F16 ? 0x1p-11 : t == TY_BF16 ? 0x1p-8 : 0;
}

static void
check_product(Dot d, const void *a, const void *b, const void *acc, const double *xs, const double *ys)
{
	size_t out_bytes = (size_t)(d.batch * d.m * d.n) * 8, scratch = dot_scratch(&d);
	char *out = malloc(out_bytes + 8), *space = aligned_alloc(64, (scratch + 63) / 64 * 64 + 64);
	memset(out, 0x7f, out_bytes + 8);
	memset(space + scratch, 0x5a, 64);
	dot_run(&d, a, b, acc, out, space);
	for (int i = 0; i < 64; i++)
		assert_int_equal(space[scratch + (size_t)i], 0x5a);
	assert_int_equal(out[d.batch * d.m * d.n * dtype_tile_size(d.out)], 0x7f);
	for (int64_t q = 0; q < d.batch; q++)
		for (int64_t i = 0; i < d.m; i++)
			for (int64_t j = 0; j < d.n; j++) {
				double size, want = product(&d, xs, ys, acc, q, i, j, &size);
				double got = get(d.out, out, (q * d.m + i) * d.n + j);
				double bound = size * (double)(d.k + 2) * unit_of(d.out == TY_F64 ? TY_F64 : TY_F32) +
				    fabs(want) * unit_of(d.out);
				if (!(fabs(got - want) <= bound))
					fail_msg("dot %s %s %s %dx%dx%d level %d: %g, should be %g", dtype_info[d.a].text,
					    dtype_info[d.b].text, dtype_info[d.out].text, (int)d.m, (int)d.n, (int)d.k, d.level,
					    got, want);
			}
	free(out);
	free(space);
}

/* Integers of 32 bits wrap; compare them as such. */
static void
check_integer_product(Dot d, const void *a, const void *b, const void *acc, const uint64_t *xs, const uint64_t *ys)
{
	int64_t count = d.batch * d.m * d.n;
	char *out = malloc((size_t)count * 8 + 8), *space = aligned_alloc(64, (dot_scratch(&d) + 127) / 64 * 64);
	dot_run(&d, a, b, acc, out, space);
	for (int64_t at = 0; at < count; at++) {
		int64_t q = at / (d.m * d.n), i = at / d.n % d.m, j = at % d.n;
		uint64_t want = acc ? (uint64_t)dtype_load_i64(d.out, acc, at) : 0;
		for (int64_t p = 0; p < d.k; p++)
			want += xs[q * d.a_batch + i * d.a_row + p * d.a_col] *
			    ys[q * d.b_batch + p * d.b_row + j * d.b_col];
		uint64_t got = (uint64_t)dtype_load_i64(d.out, out, at);
		assert_true(d.out == TY_I64 ? got == want : (uint32_t)got == (uint32_t)want);
	}
	free(out);
	free(space);
}

static void
check_dot(DType a, DType b, DType out, int64_t batch, int64_t m, int64_t n, int64_t k, int layout, CpuLevel level)
{
	Dot d = {a, b, out, batch, m, n, k, .level = level};
	dot_dense(&d);
	if (layout & 1) {
		d.a_row = 1;
		d.a_col = m;
	}
	if (layout & 2) {
		d.b_row = 1;
		d.b_col = k;
	}
	int gap = layout & 4 ? 3 : 1;
	d.a_row *= gap;
	d.a_col *= gap;
	d.a_batch *= gap;
	d.b_row *= gap;
	d.b_col *= gap;
	d.b_batch *= gap;
	int64_t na = (batch * m * k + 1) * gap, nb = (batch * k * n + 1) * gap, nc = batch * m * n + 1;
	void *x = malloc((size_t)na * 8), *y = malloc((size_t)nb * 8), *c = malloc((size_t)nc * 8);
	fill_any(a, x, na);
	fill_any(b, y, nb);
	fill_any(out, c, nc);
	const void *acc = layout & 8 ? NULL : c;
	if (dtype_is_float(out)) {
		double *xs = doubles(a, x, na), *ys = doubles(b, y, nb);
		check_product(d, x, y, acc, xs, ys);
		free(xs);
		free(ys);
	} else {
		uint64_t *xs = integers(a, x, na), *ys = integers(b, y, nb);
		check_integer_product(d, x, y, acc, xs, ys);
		free(xs);
		free(ys);
	}
	free(x);
	free(y);
	free(c);
}

static void
test_dot_types(void **state)
{
	const DType types[][3] = {{TY_F32, TY_F32, TY_F32}, {TY_F64, TY_F64, TY_F64}, {TY_F16, TY_F16, TY_F32},
	    {TY_BF16, TY_BF16, TY_F32}, {TY_F8E4M3, TY_F8E5M2, TY_F32}, {TY_F8E5M2, TY_F8E5M2, TY_F32},
	    {TY_F16, TY_F16, TY_F16}, {TY_BF16, TY_BF16, TY_BF16}, {TY_F32, TY_F32, TY_F64}, {TY_F16, TY_F64, TY_F64},
	    {TY_F32, TY_BF16, TY_F32}, {TY_F4E2M1, TY_F8E4M3, TY_F32}, {TY_I8, TY_I8, TY_I32}, {TY_U8, TY_I8, TY_I32},
	    {TY_U8, TY_U8, TY_U32}, {TY_I16, TY_I16, TY_I32}, {TY_I32, TY_I32, TY_I32}, {TY_I64, TY_I64, TY_I64},
	    {TY_I8, TY_I32, TY_I64}};
	const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 9}, {16, 16, 16}, {13, 70, 33}, {65, 129, 40}, {7, 3, 400}};
	for (int t = 0; t < LEN(types); t++)
		for (int s = 0; s < LEN(sizes); s++)
			for (int layout = 0; layout < 16; layout += s < 4 ? 1 : 5)
				for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++)
					check_dot(types[t][0], types[t][1], types[t][2], s == 1 ? 3 : 1, sizes[s][0],
					    sizes[s][1], sizes[s][2], layout, l);
}

/* Every size near the blocks of the micro-kernel, one at a time. */
static void
test_dot_sizes(void **state)
{
	for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++)
		for (int64_t i = 1; i <= 70; i++) {
			check_dot(TY_F32, TY_F32, TY_F32, 1, i, 17, 5, (int)i & 15, l);
			check_dot(TY_F32, TY_F32, TY_F32, 1, 3, i, 5, (int)i & 15, l);
			check_dot(TY_F32, TY_F32, TY_F32, 1, 4, 5, i, (int)i & 15, l);
			check_dot(TY_F32, TY_F32, TY_F32, 1, i, i, i, (int)i & 15, l);
		}
	check_dot(TY_F32, TY_F32, TY_F32, 1, 200, 30, 130, 0, cpu_level());
	check_dot(TY_BF16, TY_F16, TY_F32, 1, 200, 600, 13, 2, cpu_level());
	check_dot(TY_F64, TY_F64, TY_F64, 1, 20, 300, 700, 0, cpu_level());
}

static void
test_dot_nothing(void **state)
{
	float a[4] = {1, 2, 3, 4}, c[4] = {5, 6, 7, 8}, out[4] = {0};
	Dot d = {TY_F32, TY_F32, TY_F32, 1, 2, 2, 0, .level = cpu_level()};
	dot_dense(&d);
	char *space = aligned_alloc(64, (dot_scratch(&d) + 127) / 64 * 64);
	dot_run(&d, a, a, c, out, space);
	assert_memory_equal(out, c, sizeof c);
	dot_run(&d, a, a, NULL, out, space);
	assert_true(out[0] == 0 && out[3] == 0);
	d.m = 0;
	d.k = 2;
	dot_run(&d, a, a, NULL, out, space);
	free(space);
}

static void
test_dot_tf32(void **state)
{
	float a = 1 + 0x1p-11f, b = 1 + 0x1p-12f, out;
	Dot d = {TY_F32, TY_F32, TY_F32, 1, 1, 1, 1, .tf32 = true, .level = cpu_level()};
	dot_dense(&d);
	char *space = aligned_alloc(64, (dot_scratch(&d) + 127) / 64 * 64);
	dot_run(&d, &a, &b, NULL, &out, space);
	assert_true(out == 1 + 0x1p-10f);
	free(space);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_sum_wraps),
		cmocka_unit_test(test_reduce_empty),
		cmocka_unit_test(test_sum_error),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_scan_in_place),
		cmocka_unit_test(test_dot_types),
		cmocka_unit_test(test_dot_sizes),
		cmocka_unit_test(test_dot_nothing),
		cmocka_unit_test(test_dot_tf32),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
