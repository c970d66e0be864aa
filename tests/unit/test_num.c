/* The interpreter's elementwise numerics against values of NumPy, ml_dtypes and mpmath (tests/data/num_*.txt,
 * written by gen_num.py there), against the C library over whole ranges, and each level of CPU against the
 * plainest one. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/num.h"

static FILE *
open_data(const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "tests/data/%s", name);
	FILE *f = fopen(path, "r");
	if (!f)
		fail_msg("%s is missing", path);
	return f;
}

static OpKind
op_of(const char *name)
{
	OpKind k;
	if (!op_named(name, &k))
		fail_msg("no op %s", name);
	return k;
}

static DType
dtype_of(const char *name)
{
	DType t;
	if (!dtype_named(name, &t))
		fail_msg("no dtype %s", name);
	return t;
}

static bool
is_compare(OpKind k)
{
	return op_info[k].family == FAMILY_COMPARE;
}

static uint64_t
bits_of(double x)
{
	uint64_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static double
f64_of(uint64_t u)
{
	double x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static float
f32_of(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static void
apply(CpuLevel level, OpKind kind, const DType *in, int nin, DType to, const void *const *x, unsigned scalar,
    int64_t n, void *out)
{
	Elem e;
	if (!elem_make(&e, level, kind, in, nin, to, 0))
		fail_msg("%s of %s is not there", op_info[kind].text, dtype_info[in[0]].text);
	elem_run(&e, out, x, scalar, n);
}

/* ---- integers ---- */

static void
test_integers(void **state)
{
	FILE *f = open_data("num_int.txt");
	char op[16], type[8], sa[32], sb[32], sr[32];
	int lines = 0;
	while (fscanf(f, "%15s %7s %31s %31s %31s", op, type, sa, sb, sr) == 5) {
		DType t = dtype_of(type), two[2] = {t, t};
		OpKind k = op_of(op);
		uint64_t a = strtoull(sa, NULL, 10), b = strtoull(sb, NULL, 10), want = strtoull(sr, NULL, 10);
		DType to = is_compare(k) ? TY_BOOL : t;
		uint64_t mask = dtype_tile_size(to) == 8 ? ~0ull : (1ull << dtype_tile_size(to) * 8) - 1;
		for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
			uint64_t got = 0;
			apply(l, k, two, op_info[k].nin, to, (const void *[]){&a, &b}, 0, 1, &got);
			if (got != (want & mask))
				fail_msg("%s %s %s %s gives %llx, not %s, at level %d", op, type, sa, sb,
				    (unsigned long long)got, sr, l);
		}
		lines++;
	}
	fclose(f);
	assert_true(lines > 2000);
}

static int
floor_div(int a, int b)
{
	int q = a / b;
	return q - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* All pairs of i8 and u8 for the divisions, many at once so that the vector code runs. */
static void
test_divisions_of_bytes(void **state)
{
	static uint8_t a[65536], b[65536], got[65536];
	const OpKind kinds[] = {OP_DIV, OP_REM, OP_FLOORDIV, OP_CDIV};
	for (int i = 0; i < 65536; i++) {
		a[i] = (uint8_t)i;
		b[i] = (uint8_t)(i >> 8);
	}
	for (int s = 0; s < 2; s++)
		for (int k = 0; k < LEN(kinds); k++)
			for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
				DType t = s ? TY_I8 : TY_U8, two[2] = {t, t};
				apply(l, kinds[k], two, 2, t, (const void *[]){a, b}, 0, 65536, got);
				for (int i = 0; i < 65536; i++) {
					int x = s ? (int8_t)a[i] : a[i], y = s ? (int8_t)b[i] : b[i], want = 0;
					switch (kinds[k]) {
					case OP_DIV: want = y ? x / y : 0; break;
					case OP_REM: want = y ? x % y : x; break;
					case OP_FLOORDIV: want = y ? floor_div(x, y) : 0; break;
					default: want = y ? -floor_div(-x, y) : 0;
					}
					assert_int_equal(got[i], (uint8_t)want);
				}
			}
}

/* ---- functions ---- */

/* Distance from the true value in units of f32's last place there. */
static double
ulps32(float got, double want)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (isinf(got) || isinf(want) || fabs(want) > 0x1.ffffffp127) {
		bool agree = !signbit(got) == !signbit(want) && isinf(got) && fabs(want) >= 0x1.ffffffp127;
		return agree ? 0 : isinf(want) || isinf(got) ? INFINITY : fabs(got - want) / 0x1p104;
	}
	int e;
	frexp(want, &e);
	return fabs(got - want) / ldexp(1, MAX(e - 24, -149));
}

/* Measured maxima are 0.5 and a little, but for exp and exp2; what goes beyond is a mistake in a polynomial. */
static double
bound_of(OpKind k)
{
	return k == OP_POW || k == OP_EXP || k == OP_EXP2 ? 1.0 : k == OP_SQRT ? 0.5 : 0.51;
}

static void
test_functions(void **state)
{
	FILE *f = open_data("num_math.txt");
	char op[16], sx[32];
	uint64_t y;
	double most[OP_COUNT] = {0};
	int lines = 0;
	while (fscanf(f, "%15s %31s %" SCNx64, op, sx, &y) == 3) {
		OpKind k = op_of(op);
		char *end;
		float a = f32_of((uint32_t)strtoul(sx, &end, 16)), b = *end ? f32_of((uint32_t)strtoul(end + 1, NULL, 16)) : 0;
		double wide[2] = {a, b}, want = f64_of(y), exact;
		const DType t[2] = {TY_F32, TY_F32}, w[2] = {TY_F64, TY_F64};
		for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
			float got;
			apply(l, k, t, op_info[k].nin, TY_F32, (const void *[]){&a, &b}, 0, 1, &got);
			double u = ulps32(got, want);
			most[k] = MAX(most[k], u);
			if (u > bound_of(k))
				fail_msg("%s(%a) = %a, should be %a: %g ulp", op, a, got, want, u);
		}
		apply(CPU_BASE, k, w, op_info[k].nin, TY_F64, (const void *[]){&wide[0], &wide[1]}, 0, 1, &exact);
		if (!(fabs(exact - want) <= fabs(want) * 0x1p-50 || (isnan(exact) && isnan(want)) || exact == want))
			fail_msg("%s(%a) in f64 = %a, should be %a", op, a, exact, want);
		lines++;
	}
	fclose(f);
	assert_true(lines > 1500);
	for (int k = 0; k < OP_COUNT; k++)
		if (most[k] > 0)
			print_message("%-8s %.4f ulp\n", op_info[k].text, most[k]);
}

static double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double
rsqrt(double x)
{
	return 1 / sqrt(x);
}

/* A sweep over all bit patterns of f32 against the C library in f64. */
static void
test_sweep(void **state)
{
	enum { N = 4096, STEP = 10007 };
	static const struct {
		OpKind op;
		double (*fn)(double);
	} list[] = {{OP_EXP, exp}, {OP_EXP2, exp2}, {OP_EXPM1, expm1}, {OP_LOG, log}, {OP_LOG2, log2},
	    {OP_LOG1P, log1p}, {OP_SIN, sin}, {OP_COS, cos}, {OP_TAN, tan}, {OP_TANH, tanh}, {OP_SINH, sinh},
	    {OP_COSH, cosh}, {OP_ERF, erf}, {OP_SIGMOID, sigmoid}, {OP_RSQRT, rsqrt}};
	const DType t = TY_F32;
	for (int i = 0; i < LEN(list); i++) {
		double most = 0;
		for (uint64_t u = 0; u < 1ull << 32; u += (uint64_t)N * STEP) {
			float x[N], got[N];
			for (int q = 0; q < N; q++)
				x[q] = f32_of((uint32_t)(u + (uint64_t)q * STEP));
			apply(cpu_level(), list[i].op, &t, 1, TY_F32, (const void *[]){x}, 0, N, got);
			for (int q = 0; q < N; q++) {
				double d = ulps32(got[q], list[i].fn(x[q]));
				if (d > bound_of(list[i].op))
					fail_msg("%s(%a) = %a: %g ulp", op_info[list[i].op].text, x[q], got[q], d);
				most = MAX(most, d);
			}
		}
		print_message("%-8s %.4f ulp over all of f32\n", op_info[list[i].op].text, most);
	}
}

/* Ends of ranges: what each function gives for inf, -inf, NaN, 0 and -0. */
static void
test_edges(void **state)
{
	const double i = INFINITY, n = NAN;
	const float x[5] = {INFINITY, -INFINITY, NAN, 0, -0.0f};
	const struct {
		OpKind op;
		double want[5];
	} list[] = {
	    {OP_EXP, {i, 0, n, 1, 1}}, {OP_EXP2, {i, 0, n, 1, 1}}, {OP_EXPM1, {i, -1, n, 0, -0.0}},
	    {OP_LOG, {i, n, n, -i, -i}}, {OP_LOG2, {i, n, n, -i, -i}}, {OP_LOG1P, {i, n, n, 0, -0.0}},
	    {OP_SQRT, {i, n, n, 0, -0.0}}, {OP_RSQRT, {0, n, n, i, -i}}, {OP_SIN, {n, n, n, 0, -0.0}},
	    {OP_COS, {n, n, n, 1, 1}}, {OP_TAN, {n, n, n, 0, -0.0}}, {OP_SINH, {i, -i, n, 0, -0.0}},
	    {OP_COSH, {i, i, n, 1, 1}}, {OP_TANH, {1, -1, n, 0, -0.0}}, {OP_ERF, {1, -1, n, 0, -0.0}},
	    {OP_SIGMOID, {1, 0, n, .5, .5}}, {OP_FLOOR, {i, -i, n, 0, -0.0}}, {OP_ROUND, {i, -i, n, 0, -0.0}},
	    {OP_ABS, {i, i, n, 0, 0}}, {OP_NEG, {-i, i, n, -0.0, 0}},
	};
	for (int k = 0; k < LEN(list); k++)
		for (int q = 0; q < 5; q++) {
			const DType t = TY_F32, w = TY_F64;
			double wide = x[q], gotw;
			float got;
			apply(cpu_level(), list[k].op, &t, 1, TY_F32, (const void *[]){&x[q]}, 0, 1, &got);
			apply(cpu_level(), list[k].op, &w, 1, TY_F64, (const void *[]){&wide}, 0, 1, &gotw);
			double want = list[k].want[q];
			bool same = isnan(want) ? isnan(got) && isnan(gotw)
						: bits_of(got) == bits_of(want) && bits_of(gotw) == bits_of(want);
			if (!same)
				fail_msg("%s(%g) = %g in f32, %g in f64", op_info[list[k].op].text, x[q], got, gotw);
		}
}

/* min and max: a NaN loses or wins, -0 is below 0. */
static void
test_min_max(void **state)
{
	const DType t[2] = {TY_F32, TY_F32};
	const float a[6] = {1, NAN, 2, NAN, -0.0f, 0}, b[6] = {NAN, 1, 3, NAN, 0, -0.0f};
	for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++)
		for (int nan = 0; nan < 2; nan++) {
			float lo[6], hi[6];
			Elem min, max;
			elem_make(&min, l, OP_MIN, t, 2, TY_F32, nan ? ELEM_NAN : 0);
			elem_make(&max, l, OP_MAX, t, 2, TY_F32, nan ? ELEM_NAN : 0);
			elem_run(&min, lo, (const void *[]){a, b}, 0, 6);
			elem_run(&max, hi, (const void *[]){a, b}, 0, 6);
			for (int i = 0; i < 2; i++) {
				assert_true(nan ? isnan(lo[i]) && isnan(hi[i]) : lo[i] == 1 && hi[i] == 1);
				assert_true(signbit(lo[4 + i]) && !signbit(hi[4 + i]));
			}
			assert_true(lo[2] == 2 && hi[2] == 3 && isnan(lo[3]) && isnan(hi[3]));
		}
}

/* ---- casts ---- */

static bool
is_nan_code(DType t, uint64_t u)
{
	switch (t) {
	case TY_F16: return (u & 0x7fff) > 0x7c00;
	case TY_BF16: return (u & 0x7fff) > 0x7f80;
	case TY_F8E4M3: return (u & 0x7f) == 0x7f;
	case TY_F8E5M2: return (u & 0x7f) > 0x7c;
	case TY_F32: return isnan(f32_of((uint32_t)u));
	case TY_F64: return isnan(f64_of(u));
	default: return false;
	}
}

static void
test_casts(void **state)
{
	FILE *f = open_data("num_cast.txt");
	char from[8], to[8];
	uint64_t x, y;
	int lines = 0;
	while (fscanf(f, "%7s %7s %" SCNx64 " %" SCNx64, from, to, &x, &y) == 4) {
		DType a = dtype_of(from), b = dtype_of(to);
		uint64_t mask = dtype_tile_size(b) == 8 ? ~0ull : (1ull << dtype_tile_size(b) * 8) - 1;
		for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
			uint64_t many[20], got[20] = {0};
			for (int i = 0; i < 20; i++)
				memcpy((char *)many + i * dtype_tile_size(a), &x, (size_t)dtype_tile_size(a));
			apply(l, OP_CAST, &a, 1, b, (const void *[]){many}, 0, 20, got);
			for (int i = 0; i < 20; i++) {
				uint64_t g = 0;
				memcpy(&g, (char *)got + i * dtype_tile_size(b), (size_t)dtype_tile_size(b));
				if (g != (y & mask) && !(is_nan_code(b, g) && is_nan_code(b, y)))
					fail_msg("%s %" PRIx64 " to %s gives %" PRIx64 ", not %" PRIx64 ", at level %d", from, x, to, g, y, l);
			}
		}
		lines++;
	}
	fclose(f);
	assert_true(lines > 2000);
}

/* What a code of f16 or bf16 means, from its definition. */
static double
value_of(DType t, uint32_t code)
{
	int mantissa = t == TY_F16 ? 10 : 7, bias = t == TY_F16 ? 15 : 127, width = 15 - mantissa;
	int e = (int)(code >> mantissa) & ((1 << width) - 1), m = (int)(code & ((1u << mantissa) - 1));
	double v = e ? ldexp(m + (1 << mantissa), e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);
	if (e == (1 << width) - 1)
		v = m ? NAN : INFINITY;
	return code & 0x8000 ? -v : v;
}

/* All codes of 16 bits: they widen to what they mean, come back, and whatever lies between two neighbours goes
 * to the nearer, the middle to the even one, from f32 and from f64. */
static void
test_all_halves(void **state)
{
	const DType wide[2] = {TY_F32, TY_F64}, narrow[2] = {TY_F16, TY_BF16};
	for (int k = 0; k < 2; k++)
		for (uint32_t c = 0; c < 65536; c++) {
			DType t = narrow[k];
			uint16_t code = (uint16_t)c, back;
			float x;
			double v = value_of(t, c);
			apply(cpu_level(), OP_CAST, &t, 1, TY_F32, (const void *[]){&code}, 0, 1, &x);
			if (isnan(v)) {
				assert_true(isnan(x));
				continue;
			}
			assert_true(bits_of(x) == bits_of(v));
			apply(cpu_level(), OP_CAST, &wide[0], 1, t, (const void *[]){&x}, 0, 1, &back);
			assert_int_equal(back, code);
			if (isinf(v) || isinf(value_of(t, c + 1)))
				continue;
			double mid = (v + value_of(t, c + 1)) / 2;
			for (int off = -1; off <= 1; off++) {
				double p = off ? nextafter(mid, off * (v < 0 || c >> 15 ? -INFINITY : INFINITY)) : mid;
				uint16_t want = (uint16_t)(off < 0 ? c : off > 0 ? c + 1 : c + (c & 1)), got;
				apply(cpu_level(), OP_CAST, &wide[1], 1, t, (const void *[]){&p}, 0, 1, &got);
				assert_int_equal(got, want);
				float q = off ? nextafterf((float)mid, (float)off * (c >> 15 ? -INFINITY : INFINITY)) : (float)mid;
				apply(cpu_level(), OP_CAST, &wide[0], 1, t, (const void *[]){&q}, 0, 1, &got);
				assert_int_equal(got, want);
			}
		}
}

/* ---- every op on every type: levels agree, broadcast agrees, working in place agrees ---- */

static uint64_t
next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static bool
takes(OpKind k, DType t)
{
	if (!(op_info[k].traits & ELEM) || k == OP_PTR_ADD || k == OP_PTR_DIFF || k == OP_CAST || k == OP_BITCAST ||
	    k == OP_LOOKUP)
		return false;
	if (op_info[k].traits & ANYF)
		return dtype_is_float(t);
	return !(op_info[k].traits & ANYI) || !dtype_is_float(t);
}

static void
fill_random(DType t, void *x, int n, uint64_t *rng)
{
	for (int i = 0; i < n; i++) {
		uint64_t r = next_random(rng);
		if (t == TY_BOOL || dtype_is_packed(t))
			dtype_store_i64(t == TY_BOOL ? t : TY_U8, x, i, t == TY_BOOL ? (int64_t)(r & 1) : (int64_t)(r & 7));
		else if (r & 1)
			dtype_store_f64(t, x, i, (double)(int64_t)next_random(rng) * 0x1p-58);
		else
			memcpy((char *)x + i * dtype_tile_size(t), &r, (size_t)dtype_tile_size(t));
	}
}

static void
expect_same(DType t, const void *x, const void *y, int n, const char *what, OpKind k)
{
	for (int i = 0; i < n; i++) {
		uint64_t a = 0, b = 0;
		size_t size = (size_t)dtype_tile_size(t);
		memcpy(&a, (const char *)x + (size_t)i * size, size);
		memcpy(&b, (const char *)y + (size_t)i * size, size);
		if (a != b && !(is_nan_code(t, a) && is_nan_code(t, b)))
			fail_msg("%s of %s: %s: element %d is %" PRIx64 " and %" PRIx64, op_info[k].text, dtype_info[t].text, what, i, a, b);
	}
}

static void
check_op(OpKind k, DType t, uint64_t *rng)
{
	enum { N = 700 };
	static uint64_t x[3][N], first[N], got[N], repeated[3][N];
	DType in[3] = {t, t, t}, to = is_compare(k) ? TY_BOOL : t;
	if (k == OP_SELECT)
		in[0] = TY_BOOL;
	const void *at[3] = {x[0], x[1], x[2]}, *rep[3];
	int nin = op_info[k].nin;
	for (int i = 0; i < nin; i++)
		fill_random(in[i], x[i], N, rng);
	apply(CPU_BASE, k, in, nin, to, at, 0, N, first);
	for (CpuLevel l = CPU_AVX2; l <= cpu_level(); l++) {
		apply(l, k, in, nin, to, at, 0, N, got);
		expect_same(to, first, got, N, "levels", k);
	}
	for (unsigned s = 1; s < 1u << nin; s++) {
		for (int i = 0; i < nin; i++) {
			rep[i] = s >> i & 1 ? repeated[i] : x[i];
			tile_fill(dtype_tile_size(in[i]), repeated[i], x[i], N);
		}
		apply(cpu_level(), k, in, nin, to, rep, 0, N, first);
		apply(cpu_level(), k, in, nin, to, at, s, N, got);
		expect_same(to, first, got, N, "broadcast", k);
	}
	for (int i = 0; i < nin; i++) {
		if (dtype_tile_size(in[i]) != dtype_tile_size(to))
			continue;
		apply(cpu_level(), k, in, nin, to, at, 0, N, first);
		memcpy(repeated[i], x[i], sizeof repeated[i]);
		memcpy(rep, at, sizeof rep);
		rep[i] = repeated[i];
		apply(cpu_level(), k, in, nin, to, rep, 0, N, repeated[i]);
		expect_same(to, first, repeated[i], N, "in place", k);
	}
}

/* Results that go past the caches are the same, wherever lines begin, and nothing else is touched. */
static void
test_stream(void **state)
{
	enum { N = 1500 };
	const OpKind kinds[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX, OP_LT};
	const DType types[] = {TY_F32, TY_F64, TY_F16, TY_I32, TY_U8};
	static uint64_t x[2][N], want[N + 32], got[N + 32];
	uint64_t rng = 5;
	for (int k = 0; k < LEN(kinds); k++)
		for (int t = 0; t < LEN(types); t++)
			for (int at = 0; at < 20; at += 3) {
				DType two[2] = {types[t], types[t]}, to = is_compare(kinds[k]) ? TY_BOOL : types[t];
				const void *in[2] = {x[0], x[1]};
				int size = dtype_tile_size(to), n = N - at * 70;
				unsigned scalar = (unsigned)(at % 4);
				Elem e;
				fill_random(types[t], x[0], N, &rng);
				fill_random(types[t], x[1], N, &rng);
				memset(want, 0x33, sizeof want);
				memset(got, 0x33, sizeof got);
				elem_make(&e, cpu_level(), kinds[k], two, 2, to, 0);
				elem_run(&e, (char *)want + at * size, in, scalar, n);
				elem_stream(&e, (char *)got + at * size, in, scalar, n);
				stream_fence();
				expect_same(to, want, got, (N + 32) * 8 / size, "stream", kinds[k]);
			}
}

static void
test_every_op(void **state)
{
	uint64_t rng = 0x1234567;
	for (int k = 0; k < OP_COUNT; k++)
		for (int t = 0; t < DTYPE_COUNT; t++)
			if (takes((OpKind)k, (DType)t))
				check_op((OpKind)k, (DType)t, &rng);
}

static void
test_every_cast(void **state)
{
	enum { N = 600 };
	static uint64_t x[N], first[N], got[N];
	uint64_t rng = 99;
	for (int a = 0; a < DTYPE_COUNT; a++)
		for (int b = 0; b < DTYPE_COUNT; b++) {
			DType from = (DType)a, to = (DType)b;
			fill_random(from, x, N, &rng);
			apply(CPU_BASE, OP_CAST, &from, 1, to, (const void *[]){x}, 0, N, first);
			for (CpuLevel l = CPU_AVX2; l <= cpu_level(); l++) {
				apply(l, OP_CAST, &from, 1, to, (const void *[]){x}, 0, N, got);
				expect_same(to, first, got, N, "cast", OP_CAST);
			}
			for (int i = 0; i < N; i++) {
				uint64_t one = 0;
				const char *p = (const char *)x + i * dtype_tile_size(from);
				apply(CPU_BASE, OP_CAST, &from, 1, to, (const void *[]){p}, 0, 1, &one);
				expect_same(to, (char *)first + i * dtype_tile_size(to), &one, 1, "cast of one", OP_CAST);
			}
		}
}

/* ---- the rest ---- */

static void
test_philox(void **state)
{
	FILE *f = open_data("num_philox.txt");
	uint64_t seed, at;
	uint32_t want[4];
	int lines = 0;
	while (fscanf(f, "%" SCNx64 " %" SCNx64 " %x %x %x %x", &seed, &at, &want[0], &want[1], &want[2], &want[3]) == 6) {
		uint64_t offset[40];
		uint32_t got[4][40];
		for (int i = 0; i < 40; i++)
			offset[i] = at + (uint64_t)i - 17;
		for (CpuLevel l = CPU_BASE; l <= cpu_level(); l++) {
			philox_run(l, seed, TY_U64, offset, 40, (uint32_t *const[]){got[0], got[1], got[2], got[3]});
			for (int i = 0; i < 4; i++)
				assert_int_equal(got[i][17], want[i]);
			philox_run(l, seed, TY_I64, &at, 1, (uint32_t *const[]){got[0], got[1], got[2], got[3]});
			for (int i = 0; i < 4; i++)
				assert_int_equal(got[i][0], want[i]);
		}
		if (at >> 31 == 0) {
			int32_t small = (int32_t)at;
			philox_run(cpu_level(), seed, TY_I32, &small, 1,
			    (uint32_t *const[]){got[0], got[1], got[2], got[3]});
			assert_int_equal(got[3][0], want[3]);
		}
		lines++;
	}
	fclose(f);
	assert_true(lines > 40);
}

static void
test_packed(void **state)
{
	uint8_t memory[8] = {0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f}, copy[8];
	int8_t s[16];
	uint8_t u[16];
	tile_unpack(TY_I4, memory, 0, s, 16);
	tile_unpack(TY_U4, memory, 0, u, 16);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(u[i], (i + 1) & 15);
		assert_int_equal(s[i], u[i] < 8 ? u[i] : u[i] - 16);
		assert_true(dtype_load_f64(TY_I4, memory, i) == s[i]);
	}
	memset(copy, 0xff, sizeof copy);
	tile_pack(s + 3, copy, 3, 6);
	for (int i = 0; i < 16; i++)
		assert_int_equal(dtype_load_i64(TY_U4, copy, i), i >= 3 && i < 9 ? u[i] : 15);
	dtype_store_f64(TY_F4E2M1, copy, 1, -1.6);
	assert_true(dtype_load_f64(TY_F4E2M1, copy, 1) == -1.5);
}

/* Bits stay; in a tile only i4 is sign-extended. */
static void
test_bitcast(void **state)
{
	const DType types[] = {TY_I4, TY_U4, TY_F4E2M1};
	for (int a = 0; a < 3; a++)
		for (int b = 0; b < 3; b++)
			for (int code = 0; code < 16; code++) {
				uint8_t in = (uint8_t)(types[a] == TY_I4 && code > 7 ? code - 16 : code), out;
				apply(cpu_level(), OP_BITCAST, &types[a], 1, types[b], (const void *[]){&in}, 0, 1, &out);
				assert_int_equal(out, (uint8_t)(types[b] == TY_I4 && code > 7 ? code - 16 : code));
			}
	const DType f = TY_F32;
	float x = -1.5f;
	uint32_t u;
	apply(cpu_level(), OP_BITCAST, &f, 1, TY_U32, (const void *[]){&x}, 0, 1, &u);
	assert_int_equal(u, 0xbfc00000);
}

static void
test_perturb(void **state)
{
	enum { N = 10000 };
	static double x[N], same[N];
	uint64_t rng = 7, begin = rng;
	double sum = 0, most = 0;
	for (int i = 0; i < N; i++)
		x[i] = same[i] = 2;
	perturb_f64(cpu_level(), x, N, 0x1p-10, &rng);
	for (int i = 0; i < N; i += 77)                 /* in any pieces, at any level */
		perturb_f64(CPU_BASE, same + i, MIN(77, N - i), 0x1p-10, &begin);
	assert_memory_equal(x, same, sizeof x);
	for (int i = 0; i < N; i++) {
		double r = (x[i] / 2 - 1) * 0x1p10;
		sum += r;
		most = MAX(most, fabs(r));
	}
	assert_true(most <= 1 && most > 0.99 && fabs(sum / N) < 0.03);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_divisions_of_bytes),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_min_max),
		cmocka_unit_test(test_casts),
		cmocka_unit_test(test_all_halves),
		cmocka_unit_test(test_every_op),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_every_cast),
		cmocka_unit_test(test_philox),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_bitcast),
		cmocka_unit_test(test_perturb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
