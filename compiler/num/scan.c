/* Scans of whole tiles, strictly in order.
 *
 * Along the last dimension a line is converted to the accumulated type a piece at a time and run through one
 * scalar loop.  Along others whole rows are combined by the elementwise op, which is a vector operation.
 * Sums and products of floats run in f64 and each result is rounded once: in order, the errors of f32 would
 * grow with the length of the line, which those of a parallel scan do not. */
#include <math.h>
#include <string.h>

#include "num/loops.h"

enum { PIECE = 512, FEW = 8 };                          /* elements of a piece; columns that go one by one */

/* x becomes its running fold; carry holds what came before, and then the last. */
typedef void (*LineFn)(void *x, int64_t n, void *carry);

#define LINE(name, T, expr)                                                                        \
	static void name(void *x, int64_t n, void *carry)                                          \
	{                                                                                          \
		T *v = x, a = *(T *)carry;                                                         \
		for (int64_t i = 0; i < n; i++) {                                                  \
			T b = v[i];                                                                \
			v[i] = a = (T)(expr);                                                      \
		}                                                                                  \
		*(T *)carry = a;                                                                   \
	}
#define LINES_ANY(s, T, W, ...)                                                                    \
	LINE(sum_##s, T, (W)a + (W)b)                                                              \
	LINE(prod_##s, T, (W)a *(W)b)
#define LINES_ORDER(s, T, ...)                                                                     \
	LINE(max_##s, T, b > a ? b : a)                                                            \
	LINE(min_##s, T, b < a ? b : a)
#define LINES_FLOAT(s, T, ...)                                                                     \
	LINE(max_##s, T, a != a || b > a || (b == a && signbit(a)) ? b : a)                        \
	LINE(min_##s, T, a != a || b < a || (b == a && signbit(b)) ? b : a)                        \
	LINE(max_nan_##s, T, b != b || b > a || (b == a && signbit(a)) ? b : a)                    \
	LINE(min_nan_##s, T, b != b || b < a || (b == a && signbit(b)) ? b : a)

UNSIGNED(LINES_ANY)
FLOATS(LINES_ANY)
INTEGERS(LINES_ORDER)
FLOATS(LINES_FLOAT)

static LineFn
line_of(const Reduce *r, DType t)
{
	static const LineFn table[RED_MIN + 1][DTYPE_COUNT] = {
		[RED_SUM] = {BY_WIDTH(SELF, sum), OF_FLOATS(SELF, sum)},
		[RED_PROD] = {BY_WIDTH(SELF, prod), OF_FLOATS(SELF, prod)},
		[RED_MAX] = {BY_SIGN(SELF, max), OF_FLOATS(SELF, max)},
		[RED_MIN] = {BY_SIGN(SELF, min), OF_FLOATS(SELF, min)},
	};
	if (r->propagate_nan && r->fn == RED_MAX && dtype_is_float(t))
		return t == TY_F64 ? max_nan_f64 : max_nan_f32;
	if (r->propagate_nan && r->fn == RED_MIN && dtype_is_float(t))
		return t == TY_F64 ? min_nan_f64 : min_nan_f32;
	return table[r->fn][t];
}

typedef struct Scan {
	const Reduce *r;
	DType work;
	int in_size, out_size, work_size;
	Elem widen, narrow, op;
	LineFn line;
} Scan;

static void
scan_open(Scan *s, const Reduce *r)
{
	*s = (Scan){.r = r, .work = work_type(r)};
	if (s->work == TY_F32 && r->fn <= RED_PROD)
		s->work = TY_F64;
	s->in_size = dtype_tile_size(r->in);
	s->out_size = dtype_tile_size(r->out);
	s->work_size = dtype_tile_size(s->work);
	OpKind kind = r->fn == RED_SUM ? OP_ADD : r->fn == RED_PROD ? OP_MUL : r->fn == RED_MAX ? OP_MAX : OP_MIN;
	DType both[2] = {s->work, s->work};
	elem_make(&s->widen, r->level, OP_CAST, &r->in, 1, s->work, 0);
	elem_make(&s->narrow, r->level, OP_CAST, &s->work, 1, r->out, r->fn > RED_PROD ? ELEM_EXACT : 0);
	elem_make(&s->op, r->level, kind, both, 2, s->work, r->propagate_nan ? ELEM_NAN : 0);
	s->line = line_of(r, s->work);
}

/* Back to where line_gather took them from. */
static void
scatter(const char *x, int size, char *out, int64_t step, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		memcpy(out + i * step * size, x + i * size, (size_t)size);
}

/* One line of n elements `inner` apart.  The first element starts the fold, so that no neutral element is
 * needed: it is put into carry and the loop goes on from the second. */
static void
scan_one(const Scan *s, const char *a, int64_t n, int64_t inner, char *out)
{
	uint64_t raw[PIECE], wide[PIECE], carry[1] = {0};
	int64_t step = s->r->reverse ? -inner : inner, from = s->r->reverse ? (n - 1) * inner : 0;
	for (int64_t i = 0; i < n; i += PIECE) {
		int64_t m = MIN(PIECE, n - i), at = from + i * step;
		const void *x = raw, *y = wide;
		line_gather(a + at * s->in_size, step, s->in_size, (char *)raw, m);
		elem_run(&s->widen, wide, &x, 0, m);
		if (i) {
			s->line(wide, m, carry);
		} else {
			memcpy(carry, wide, (size_t)s->work_size);
			s->line((char *)wide + s->work_size, m - 1, carry);
		}
		elem_run(&s->narrow, raw, &y, 0, m);
		scatter((const char *)raw, s->out_size, out + at * s->out_size, step, m);
	}
}

/* Columns, a strip at a time: each next row is combined into the running row. */
static void
scan_columns(const Scan *s, const char *a, int64_t n, int64_t inner, char *out)
{
	uint64_t run[PIECE], next[PIECE];
	for (int64_t q = 0; q < inner; q += PIECE)
		for (int64_t i = 0; i < n; i++) {
			int64_t at = (s->r->reverse ? n - 1 - i : i) * inner + q, w = MIN(PIECE, inner - q);
			const void *x = a + at * s->in_size, *r = run;
			elem_run(&s->widen, i ? next : run, &x, 0, w);
			if (i)
				elem_run(&s->op, run, (const void *[]){run, next}, 0, w);
			elem_run(&s->narrow, out + at * s->out_size, &r, 0, w);
		}
}

void
scan_run(const Reduce *r, const void *a, int64_t outer, int64_t n, int64_t inner, void *out)
{
	Scan s;
	scan_open(&s, r);
	for (int64_t i = 0; i < outer; i++) {
		const char *x = (const char *)a + i * n * inner * s.in_size;
		char *o = (char *)out + i * n * inner * s.out_size;
		if (inner >= FEW) {
			scan_columns(&s, x, n, inner, o);
			continue;
		}
		for (int64_t j = 0; j < inner; j++)
			scan_one(&s, x + j * s.in_size, n, inner, o + j * s.out_size);
	}
}
