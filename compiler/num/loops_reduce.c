/* Inner loops of reductions.  `rows` reduces each row of a[rows, n]; `columns` reduces a[n, inner] along n.
 *
 * Rows of floats are summed in 64 interleaved partial sums that are added up as a tree, 8192 elements at a
 * time, and those again as a tree: exact order is fixed, so every level of CPU gives the same bits, and the
 * error grows with the logarithm of n.  Columns are summed 64 rows at a time for the same reason.
 *
 * A sum starts at -0.0, which changes none, so that the sum of nothing but -0.0 is -0.0 as in NumPy; that of nothing is 0.
 *
 * max and min skip NaN by their comparisons; where nothing was greater than the start, a second pass finds
 * whether all elements are NaN.  argmax first finds the greatest, then where it stands. */
#include <math.h>
#include <string.h>

#include "num/loops.h"

enum { LANES = 64, CHUNK = 8192, BAND = 64, STRIP = 512 };

/* ---- rows: sums, products, xor, any, all ---- */

#define ROW_FOLD(name, T, W, start, step)                                                          \
	__attribute__((noinline)) static T name##_chunk(const T *x, int64_t n)                     \
	{                                                                                          \
		T acc[LANES];                                                                      \
		for (int j = 0; j < LANES; j++)                                                    \
			acc[j] = (start);                                                          \
		int64_t i = 0;                                                                     \
		for (; i + LANES <= n; i += LANES)                                                 \
			for (int j = 0; j < LANES; j++) {                                          \
				T a = acc[j], b = x[i + j];                                        \
				acc[j] = (T)(step);                                                \
			}                                                                          \
		for (int j = 0; i + j < n; j++) {                                                  \
			T a = acc[j], b = x[i + j];                                                \
			acc[j] = (T)(step);                                                        \
		}                                                                                  \
		for (int half = LANES / 2; half; half /= 2)                                        \
			for (int j = 0; j < half; j++) {                                           \
				T a = acc[j], b = acc[j + half];                                   \
				acc[j] = (T)(step);                                                \
			}                                                                          \
		return acc[0];                                                                     \
	}                                                                                          \
	static T name##_tree(const T *x, int64_t n)                                                \
	{                                                                                          \
		if (n <= CHUNK)                                                                    \
			return name##_chunk(x, n);                                                 \
		int64_t half = (n / 2 + CHUNK - 1) / CHUNK * CHUNK;                                \
		T a = name##_tree(x, half), b = name##_tree(x + half, n - half);                   \
		return (T)(step);                                                                  \
	}                                                                                          \
	static void name##_rows(const void *in, int64_t rows, int64_t n, void *out)                \
	{                                                                                          \
		for (int64_t i = 0; i < rows; i++)                                                 \
			((T *)out)[i] = name##_tree((const T *)in + i * n, n);                     \
	}                                                                                          \
	static void name##_columns(const void *in, int64_t n, int64_t inner, void *out)            \
	{                                                                                          \
		const T *x = in;                                                                   \
		T *o = out;                                                                        \
		for (int64_t s = 0; s < inner; s += STRIP) {                                       \
			int64_t w = MIN(inner - s, STRIP);                                         \
			T band[STRIP];                                                             \
			for (int64_t j = 0; j < w; j++)                                            \
				o[s + j] = (start);                                                \
			for (int64_t r = 0; r < n; r += BAND) {                                    \
				for (int64_t j = 0; j < w; j++)                                    \
					band[j] = (start);                                         \
				for (int64_t q = r; q < MIN(r + BAND, n); q++)                     \
					for (int64_t j = 0; j < w; j++) {                          \
						T a = band[j], b = x[q * inner + s + j];           \
						band[j] = (T)(step);                               \
					}                                                          \
				for (int64_t j = 0; j < w; j++) {                                  \
					T a = o[s + j], b = band[j];                               \
					o[s + j] = (T)(step);                                      \
				}                                                                  \
			}                                                                          \
		}                                                                                  \
	}

#define ARITHMETIC(s, T, W, ...)                                                                     \
	ROW_FOLD(sum_##s, T, W, n > 0 ? -(T)0 : 0, (W)a + (W)b)                                                    \
	ROW_FOLD(prod_##s, T, W, 1, (W)a *(W)b)

#define BITS(s, T, ...) ROW_FOLD(xor_##s, T, T, 0, a ^ b)

FLOATS(ARITHMETIC)
UNSIGNED(ARITHMETIC)
UNSIGNED(BITS)
ROW_FOLD(any, uint8_t, uint8_t, 0, a | b)
ROW_FOLD(all, uint8_t, uint8_t, 1, a & b)

/* ---- max and min ---- */

/* step keeps `a` unless b beats it, so that a NaN in b is skipped. */
#define EXTREMES(s, T, low, high)                                                                  \
	ROW_FOLD(max_##s, T, T, low, b > a ? b : a)                                                \
	ROW_FOLD(min_##s, T, T, high, b < a ? b : a)

INTEGERS(EXTREMES)
EXTREMES(of_f32, float, -INFINITY, INFINITY)
EXTREMES(of_f64, double, -INFINITY, INFINITY)

/* How many of n elements `step` apart are NaN. */
#define COUNT_NAN(s, T, ...)                                                                       \
	static int64_t nans_##s(const T *x, int64_t n, int64_t step)                               \
	{                                                                                          \
		int64_t c = 0;                                                                     \
		for (int64_t i = 0; i < n; i++)                                                    \
			c += x[i * step] != x[i * step];                                           \
		return c;                                                                          \
	}

FLOATS(COUNT_NAN)

/* Zeros of both signs compare equal: `first` if it is among n elements `step` apart, else its negative. */
#define PICK_ZERO(s, T, ...)                                                                       \
	static T zero_##s(const T *x, int64_t n, int64_t step, T first)                            \
	{                                                                                          \
		for (int64_t i = 0; i < n; i++)                                                    \
			if (x[i * step] == 0 && !signbit(x[i * step]) == !signbit(first))          \
				return first;                                                      \
		return -first;                                                                     \
	}

FLOATS(PICK_ZERO)

/* The extreme by comparison, then NaN by the rule: all elements are NaN, or (name##_nan) any is.  Of zeros max takes +0, as
 * the op on two tiles and the GPUs do, and min -0. */
#define EXTREME_LINES(name, plain, s, T, lines, n, at, step, is_nan, zero)                           \
	static void name(const void *in, int64_t a, int64_t b, void *out)                          \
	{                                                                                          \
		const T *x = in;                                                                   \
		T *o = out;                                                                        \
		plain(in, a, b, out);                                                              \
		for (int64_t i = 0; i < (lines); i++)                                              \
			if (is_nan)                                                                \
				o[i] = NAN;                                                        \
			else if (o[i] == 0)                                                        \
				o[i] = zero_##s(x + (at), n, step, zero);                          \
	}
#define EXTREME_FLOAT(name, plain, s, T, start, zero)                                              \
	EXTREME_LINES(name##_rows, plain##_rows, s, T, a, b, i * b, 1,                             \
	    o[i] == (start) && b && nans_##s(x + i * b, b, 1) == b, zero)                          \
	EXTREME_LINES(name##_columns, plain##_columns, s, T, b, a, i, b,                           \
	    o[i] == (start) && a && nans_##s(x + i, a, b) == a, zero)                              \
	EXTREME_LINES(name##_nan_rows, plain##_rows, s, T, a, b, i * b, 1, nans_##s(x + i * b, b, 1), zero)   \
	static void name##_nan_columns(const void *in, int64_t n, int64_t inner, void *out)        \
	{                                                                                          \
		const T *x = in;                                                                   \
		T *o = out;                                                                        \
		plain##_columns(in, n, inner, out);                                                \
		for (int64_t i = 0; i < inner; i++)                                                \
			o[i] = o[i] == 0 ? zero_##s(x + i, n, inner, zero) : o[i];                 \
		for (int64_t i = 0; i < n; i++)                                                    \
			for (int64_t j = 0; j < inner; j++)                                        \
				o[j] = x[i * inner + j] != x[i * inner + j] ? (T)NAN : o[j];       \
	}

EXTREME_FLOAT(max_f32, max_of_f32, f32, float, -INFINITY, 0.0)
EXTREME_FLOAT(max_f64, max_of_f64, f64, double, -INFINITY, 0.0)
EXTREME_FLOAT(min_f32, min_of_f32, f32, float, INFINITY, -0.0)
EXTREME_FLOAT(min_f64, min_of_f64, f64, double, INFINITY, -0.0)

/* ---- where the extreme stands ---- */

/* best is the extreme value (a NaN if NaN wins).  The first equal to it; with a NaN, the first NaN; 0 if n is 0. */
#define FIND(s, T)                                                                                 \
	static int64_t find_##s(const T *x, int64_t n, T best)                                     \
	{                                                                                          \
		for (int64_t i = 0; i < n; i++)                                                    \
			if (x[i] == best || (best != best && x[i] != x[i]))                        \
				return i;                                                          \
		return 0;                                                                          \
	}
/* `take`: whether b, which stands later, beats a. */
#define ARG(name, s, T, take)                                                                      \
	static void arg_##name##_rows(const void *in, int64_t rows, int64_t n, void *out)          \
	{                                                                                          \
		for (int64_t i = 0; i < rows; i++) {                                               \
			T best;                                                                    \
			name##_rows((const T *)in + i * n, 1, n, &best);                           \
			((int64_t *)out)[i] = find_##s((const T *)in + i * n, n, best);            \
		}                                                                                  \
	}                                                                                          \
	static void arg_##name##_columns(const void *in, int64_t n, int64_t inner, void *out)      \
	{                                                                                          \
		const T *x = in;                                                                   \
		int64_t *o = out;                                                                  \
		memset(o, 0, (size_t)inner * sizeof *o);                                           \
		for (int64_t s = 0; n && s < inner; s += STRIP) {                                  \
			T best[STRIP];                                                             \
			int64_t w = MIN(inner - s, STRIP);                                         \
			memcpy(best, x + s, (size_t)w * sizeof *x);                                \
			for (int64_t r = 1; r < n; r++)                                            \
				for (int64_t j = 0; j < w; j++) {                                  \
					T a = best[j], b = x[r * inner + s + j];                   \
					bool taken = take;                                         \
					best[j] = taken ? b : a;                                   \
					o[s + j] = taken ? r : o[s + j];                           \
				}                                                                  \
		}                                                                                  \
	}
#define ARG_INT(s, T, ...)                                                                         \
	FIND(s, T)                                                                                 \
	ARG(max_##s, s, T, b > a)                                                                  \
	ARG(min_##s, s, T, b < a)
#define ARG_FLOAT(s, T, ...)                                                                       \
	FIND(s, T)                                                                                 \
	ARG(max_##s, s, T, b > a || (a != a && b == b))                                            \
	ARG(min_##s, s, T, b < a || (a != a && b == b))                                            \
	ARG(max_##s##_nan, s, T, b > a || (b != b && a == a))                                      \
	ARG(min_##s##_nan, s, T, b < a || (b != b && a == a))

INTEGERS(ARG_INT)
FLOATS(ARG_FLOAT)

/* ---- the table ---- */

typedef struct Pair {
	RowsFn rows;
	ColumnsFn columns;
} Pair;

#define PAIR(f) {f##_rows, f##_columns}

static const Pair table[RED_COUNT][DTYPE_COUNT] = {
	[RED_SUM] = {BY_WIDTH(PAIR, sum), OF_FLOATS(PAIR, sum)},
	[RED_PROD] = {BY_WIDTH(PAIR, prod), OF_FLOATS(PAIR, prod)},
	[RED_MAX] = {BY_SIGN(PAIR, max), OF_FLOATS(PAIR, max)},
	[RED_MIN] = {BY_SIGN(PAIR, min), OF_FLOATS(PAIR, min)},
	[RED_ARGMAX] = {BY_SIGN(PAIR, arg_max), OF_FLOATS(PAIR, arg_max)},
	[RED_ARGMIN] = {BY_SIGN(PAIR, arg_min), OF_FLOATS(PAIR, arg_min)},
	[RED_ANY] = {[TY_BOOL] = PAIR(any)},
	[RED_ALL] = {[TY_BOOL] = PAIR(all)},
	[RED_XOR_SUM] = {BY_WIDTH(PAIR, xor)},
};

static const Pair with_nan[RED_ARGMIN + 1][2] = {
	[RED_MAX] = {PAIR(max_f32_nan), PAIR(max_f64_nan)},
	[RED_MIN] = {PAIR(min_f32_nan), PAIR(min_f64_nan)},
	[RED_ARGMAX] = {PAIR(arg_max_f32_nan), PAIR(arg_max_f64_nan)},
	[RED_ARGMIN] = {PAIR(arg_min_f32_nan), PAIR(arg_min_f64_nan)},
};

static const Pair *
pair_of(ReduceFn fn, DType t, bool nan)
{
	bool ordered = fn >= RED_MAX && fn <= RED_ARGMIN;
	return nan && ordered && dtype_is_float(t) ? &with_nan[fn][t == TY_F64] : &table[fn][t];
}

RowsFn
LEVEL(loop_rows)(ReduceFn fn, DType t, bool nan)
{
	return pair_of(fn, t, nan)->rows;
}

ColumnsFn
LEVEL(loop_columns)(ReduceFn fn, DType t, bool nan)
{
	return pair_of(fn, t, nan)->columns;
}
