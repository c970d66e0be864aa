/* Reductions of whole tiles.
 *
 * Where the tile's elements are of the type that is accumulated, the loops take them as they lie.  Elsewhere
 * (f16 that is summed in f32, i8 in i32, the index of the greatest bf16) pieces are converted on the stack,
 * reduced, and the pieces' results combined: a value with the same loop over the pair, an index by comparing
 * the elements that it names. */
#include <string.h>

#include "num/loops.h"

bool
reduce_named(const char *text, ReduceFn *out)
{
	static const char *const name[RED_COUNT] = {
		"sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "xor_sum"};
	for (int i = 0; i < RED_COUNT; i++)
		if (strcmp(name[i], text) == 0) {
			*out = (ReduceFn)i;
			return true;
		}
	return false;
}

static bool
is_arg(ReduceFn fn)
{
	return fn == RED_ARGMAX || fn == RED_ARGMIN;
}

/* f32 for narrow floats, a byte for 4-bit integers, else t. */
static DType
wide_of(DType t)
{
	if (dtype_is_float(t))
		return t == TY_F64 ? TY_F64 : TY_F32;
	return t == TY_I4 ? TY_I8 : t == TY_U4 ? TY_U8 : t;
}

DType
work_type(const Reduce *r)
{
	bool arithmetic = r->fn == RED_SUM || r->fn == RED_PROD || r->fn == RED_XOR_SUM;
	return r->fn == RED_ANY || r->fn == RED_ALL ? TY_BOOL : wide_of(arithmetic ? r->out : r->in);
}

enum { WIDE = 64, PIECE = 2048 };                       /* columns at a time; elements of a piece */

typedef struct Run {
	const Reduce *r;
	const Loops *loops;
	DType work;
	int in_size, work_size;
	Elem widen;
	RowsFn rows;
	ColumnsFn columns;
} Run;

static void
run_open(Run *u, const Reduce *r)
{
	*u = (Run){.r = r, .loops = &loops_at[r->level], .work = work_type(r)};
	u->in_size = dtype_tile_size(r->in);
	u->work_size = dtype_tile_size(u->work);
	elem_make(&u->widen, r->level, OP_CAST, &r->in, 1, u->work, 0);
	u->rows = u->loops->rows(r->fn, u->work, r->propagate_nan);
	u->columns = u->loops->columns(r->fn, u->work, r->propagate_nan);
}

/* Converts a piece of rows x w columns into `wide` and reduces it into `value`, or `where` for an index. */
static void
reduce_piece(const Run *u, const char *a, int64_t inner, int64_t rows, int64_t w, void *wide, void *out)
{
	if (inner == w) {
		const void *x = a;
		elem_run(&u->widen, wide, &x, 0, rows * w);
	} else {
		for (int64_t i = 0; i < rows; i++) {
			const void *x = a + i * inner * u->in_size;
			elem_run(&u->widen, (char *)wide + i * w * u->work_size, &x, 0, w);
		}
	}
	if (w == 1)
		u->rows(wide, 1, rows, out);
	else
		u->columns(wide, rows, w, out);
}

/* The element of column j of a piece at row `at`. */
static void
copy_at(const Run *u, const uint64_t *wide, int64_t w, int64_t at, int64_t j, char *to)
{
	memcpy(to, (const char *)wide + (at * w + j) * u->work_size, (size_t)u->work_size);
}

/* Takes the piece's winners (its rows start at `base`) into best and index. */
static void
merge_index(const Run *u, const uint64_t *wide, int64_t w, const int64_t *found, int64_t base, char *best,
    int64_t *index)
{
	for (int64_t j = 0; j < w; j++) {
		char pair[16];
		int64_t winner = 1;
		copy_at(u, wide, w, found[j], j, pair + u->work_size);
		if (base) {
			memcpy(pair, best + j * 8, (size_t)u->work_size);
			u->rows(pair, 1, 2, &winner);
		}
		if (winner) {
			memcpy(best + j * 8, pair + u->work_size, (size_t)u->work_size);
			index[j] = base + found[j];
		}
	}
}

/* w columns (at most WIDE) of a[n, inner]; results in the working type, or i64 for an index. */
static void
reduce_strip(const Run *u, const char *a, int64_t n, int64_t inner, int64_t w, uint64_t *result)
{
	uint64_t wide[PIECE], best[WIDE], pair[2 * WIDE], part[WIDE];
	int64_t step = PIECE / w, size = u->work_size * w;
	bool arg = is_arg(u->r->fn);
	if (n == 0)
		reduce_piece(u, a, inner, 0, w, wide, result);
	for (int64_t i = 0; i < n; i += step) {
		int64_t rows = MIN(step, n - i);
		reduce_piece(u, a + i * inner * u->in_size, inner, rows, w, wide, part);
		if (arg) {
			merge_index(u, wide, w, (int64_t *)part, i, (char *)best, (int64_t *)result);
		} else if (i == 0) {
			memcpy(result, part, (size_t)size);
		} else {
			memcpy(pair, result, (size_t)size);
			memcpy((char *)pair + size, part, (size_t)size);
			u->columns(pair, 2, w, result);
		}
	}
}

void
reduce_run(const Reduce *r, const void *a, int64_t outer, int64_t n, int64_t inner, void *out)
{
	Run u;
	run_open(&u, r);
	DType result = is_arg(r->fn) ? TY_I64 : u.work;
	Elem narrow;
	elem_make(&narrow, r->level, OP_CAST, &result, 1, r->out, r->fn == RED_MAX || r->fn == RED_MIN ? ELEM_EXACT : 0);
	int out_size = dtype_tile_size(r->out);
	bool as_is = wide_of(r->in) == u.work && u.in_size == u.work_size && result == r->out;
	if (as_is && inner == 1) {
		u.rows(a, outer, n, out);
		return;
	}
	for (int64_t i = 0; i < outer; i++) {
		const char *x = (const char *)a + i * n * inner * u.in_size;
		char *o = (char *)out + i * inner * out_size;
		if (as_is) {
			u.columns(x, n, inner, o);
			continue;
		}
		for (int64_t j = 0; j < inner; j += WIDE) {
			int64_t w = MIN(WIDE, inner - j);
			uint64_t value[WIDE];
			const void *v = value;
			reduce_strip(&u, x + j * u.in_size, n, inner, w, value);
			elem_run(&narrow, o + j * out_size, &v, 0, w);
		}
	}
}
