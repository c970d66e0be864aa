/* Matrix products.
 *
 * The loops go round a micro-kernel (loops_dot.c) in the order that keeps things in cache:
 *
 *     for columns in blocks that the second cache holds, packed
 *         for k in blocks, so that a panel of packed b stays in the first cache
 *             for rows in blocks, widened if a is not of the computing type
 *                 for panels of columns
 *                     for a few rows: the micro-kernel
 *
 * Operands have any strides.  One that is not of the computing type (f32 for narrow floats, u32 or u64 for
 * integers, in which sums wrap) is converted block by block, in the order in which it lies in memory.  A
 * narrow result accumulates in f32 and is rounded at the end. */
#include <string.h>

#include "num/loops.h"

/* A panel of columns stays in the first cache (32 to 48 KB on x86), a block of them in part of the second. */
enum { PANEL_BYTES = 32 << 10, COLUMNS_BYTES = 256 << 10, ROWS_BLOCK = 192 };

/* A block of an operand for the micro-kernel: of the computing type, with strides. */
typedef struct Part {
	const char *at;
	int64_t row, col;
} Part;

typedef struct Job {
	const Dot *d;
	const Loops *loops;
	const DotKernels *kernels;
	DType type;                                     /* computed in */
	int64_t kc, nc;                                 /* extents of a block of b */
	size_t b_at, a_at, sum_at;                      /* where parts of the scratch begin; the packed part is first */
	char *packed, *b_block, *a_block, *sum;
} Job;

static DType
compute_type(const Dot *d)
{
	if (d->out == TY_F64 || d->out == TY_F32)
		return d->out;
	if (dtype_is_float(d->out))
		return TY_F32;
	return dtype_tile_size(d->out) > 4 ? TY_U64 : TY_U32;
}

/* Whether elements of t must be rewritten before the micro-kernel reads them. */
static bool
needs_block(const Dot *d, DType t)
{
	DType c = compute_type(d);
	if (dtype_is_float(t))
		return t != c || (d->tf32 && t == TY_F32);
	return dtype_tile_size(t) != dtype_tile_size(c);
}

static size_t
rounded(int64_t bytes)
{
	return ((size_t)bytes + 63) / 64 * 64;
}

/* Chooses the blocks and lays out the scratch; returns its size. */
static size_t
job_open(Job *j, const Dot *d)
{
	*j = (Job){.d = d, .loops = &loops_at[d->level], .type = compute_type(d)};
	j->kernels = j->loops->dot(j->type);
	int64_t size = j->kernels->size, width = j->kernels->lanes * j->kernels->nv;
	j->kc = MIN(MAX(PANEL_BYTES / (width * size), 128), 384);
	j->kc = MAX(MIN(j->kc, d->k), 1);
	int64_t columns = MIN(COLUMNS_BYTES / (j->kc * size), d->n + width - 1);
	j->nc = MAX(columns / width, 1) * width;
	size_t block = rounded(j->kc * j->nc * size);
	j->b_at = block;
	j->a_at = j->b_at + (needs_block(d, d->b) ? block : 0);
	j->sum_at = j->a_at + (needs_block(d, d->a) ? rounded(ROWS_BLOCK * j->kc * size) : 0);
	bool narrow = dtype_is_float(d->out) && j->type != d->out;
	return j->sum_at + (narrow ? rounded(d->m * d->n * size) : 0);
}

static void
job_place(Job *j, char *scratch)
{
	j->packed = scratch;
	j->b_block = scratch + j->b_at;
	j->a_block = scratch + j->a_at;
	j->sum = scratch + j->sum_at;
}

void
dot_dense(Dot *d)
{
	d->a_col = d->b_col = 1;
	d->a_row = d->k;
	d->b_row = d->n;
	d->a_batch = d->m * d->k;
	d->b_batch = d->k * d->n;
}

size_t
dot_scratch(const Dot *d)
{
	Job j;
	return job_open(&j, d);
}

static void
convert(const Job *j, DType from, const char *x, void *out, int64_t n)
{
	ToF32Fn widen = j->loops->widen(from);
	if (widen && j->type == TY_F32) {
		widen(x, out, n);
	} else if (widen) {
		float f[BLOCK];
		for (int64_t i = 0; i < n; i += BLOCK) {
			int64_t m = MIN(BLOCK, n - i);
			const void *p = f;
			widen(x + i * dtype_tile_size(from), f, m);
			j->loops->cast(TY_F32, j->type)((double *)out + i, &p, m);
		}
	} else {
		const void *p = x;
		j->loops->cast(from, j->type)(out, &p, n);
	}
	if (j->d->tf32 && from == TY_F32)
		j->loops->tf32(out, n);
}

/* A block of rows x cols whose element types differ from the computing type, converted into `to` line by
 * line; a line is a row or a column, whichever is contiguous. */
static Part
convert_block(const Job *j, DType t, Part x, int64_t rows, int64_t cols, char *to)
{
	int from = dtype_tile_size(t), size = j->kernels->size;
	bool by_row = x.col == 1 || x.row != 1;
	int64_t lines = by_row ? rows : cols, n = by_row ? cols : rows;
	int64_t stride = by_row ? x.row : x.col, step = by_row ? x.col : x.row;
	for (int64_t i = 0; i < lines; i++) {
		const char *line = x.at + i * stride * from;
		char *o = to + i * n * size, part[BLOCK * 8];
		if (step == 1) {
			convert(j, t, line, o, n);
			continue;
		}
		for (int64_t q = 0; q < n; q += BLOCK) {
			int64_t w = MIN(BLOCK, n - q);
			line_gather(line + q * step * from, step, from, part, w);
			convert(j, t, part, o + q * size, w);
		}
	}
	return by_row ? (Part){to, n, 1} : (Part){to, 1, n};
}

/* One panel of columns against all rows of the block: c[rows, width] += a[rows, k] @ b[k, width]. */
static void
run_panel(const Job *j, DotArgs *g, int64_t rows, int64_t width)
{
	const DotKernels *kernels = j->kernels;
	int size = kernels->size;
	int vectors = (int)((width + kernels->lanes - 1) / kernels->lanes);
	bool whole = width % kernels->lanes == 0;
	uint64_t edge[DOT_MR * DOT_NV * 16];
	for (int64_t i = 0; i < rows; i += kernels->mr) {
		int mr = (int)MIN(rows - i, kernels->mr);
		DotArgs h = *g;
		h.a = (const char *)g->a + i * g->a_row * size;
		h.c = (char *)g->c + i * g->c_row * size;
		h.cin = g->cin ? (const char *)g->cin + i * g->cin_row * size : NULL;
		if (whole) {
			kernels->fn[mr][vectors](&h);
			continue;
		}
		int64_t padded = vectors * kernels->lanes;
		for (int r = 0; r < mr && h.cin; r++)
			memcpy((char *)edge + r * padded * size, (const char *)h.cin + r * h.cin_row * size,
			    (size_t)(width * size));
		char *c = h.c;
		h.cin = h.cin ? edge : NULL;
		h.c = edge;
		h.c_row = h.cin_row = padded;
		kernels->fn[mr][vectors](&h);
		for (int r = 0; r < mr; r++)
			memcpy(c + r * g->c_row * size, (char *)edge + r * padded * size, (size_t)(width * size));
	}
}

/* A block of k and columns: g->c += a @ b for all rows.  a starts at column p of row 0, b at [p, column]. */
static void
run_block(const Job *j, DotArgs *g, Part a, Part b, int64_t k, int64_t n)
{
	const Dot *d = j->d;
	const DotKernels *kernels = j->kernels;
	int64_t width = kernels->lanes * kernels->nv, size = kernels->size;
	if (needs_block(d, d->b))
		b = convert_block(j, d->b, b, k, n, j->b_block);
	bool direct = d->m <= kernels->mr && b.col == 1 && n % kernels->lanes == 0;
	if (!direct)
		kernels->pack(b.at, b.row, b.col, k, n, j->packed);
	int64_t step = needs_block(d, d->a) ? ROWS_BLOCK : d->m;
	for (int64_t i = 0; i < d->m; i += step) {
		int64_t rows = MIN(step, d->m - i);
		Part x = {a.at + i * a.row * dtype_tile_size(d->a), a.row, a.col};
		if (needs_block(d, d->a))
			x = convert_block(j, d->a, x, rows, k, j->a_block);
		for (int64_t q = 0; q < n; q += width) {
			int64_t w = MIN(width, n - q);
			DotArgs h = *g;
			h.k = k;
			h.a = x.at;
			h.a_row = x.row;
			h.a_col = x.col;
			h.b = direct ? b.at + q * size : j->packed + q * k * size;
			h.b_row = direct ? b.row : (w + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
			h.c = (char *)g->c + (i * g->c_row + q) * size;
			h.cin = g->cin ? (const char *)g->cin + (i * g->cin_row + q) * size : NULL;
			run_panel(j, &h, rows, w);
		}
	}
}

/* One product of the batch, in the computing type; cin may be NULL or c. */
static void
run_matrix(const Job *j, const char *a, const char *b, const char *cin, char *c)
{
	const Dot *d = j->d;
	int64_t size = j->kernels->size;
	if (d->k == 0) {
		if (cin && cin != c)
			memcpy(c, cin, (size_t)(d->m * d->n * size));
		else if (!cin)
			memset(c, 0, (size_t)(d->m * d->n * size));
		return;
	}
	for (int64_t q = 0; q < d->n; q += j->nc)
		for (int64_t p = 0; p < d->k; p += j->kc) {
			DotArgs g = {.cin_row = d->n, .c_row = d->n, .c = c + q * size};
			const char *from = p ? c : cin;
			g.cin = from ? from + q * size : NULL;
			Part x = {a + p * d->a_col * dtype_tile_size(d->a), d->a_row, d->a_col};
			Part y = {b + (p * d->b_row + q * d->b_col) * dtype_tile_size(d->b), d->b_row, d->b_col};
			run_block(j, &g, x, y, MIN(j->kc, d->k - p), MIN(j->nc, d->n - q));
		}
}

void
dot_run(const Dot *d, const void *a, const void *b, const void *acc, void *out, void *scratch)
{
	Job j;
	job_open(&j, d);
	job_place(&j, scratch);
	int64_t count = d->m * d->n, size = dtype_tile_size(d->out);
	bool narrow = dtype_is_float(d->out) && j.type != d->out;
	for (int64_t i = 0; i < d->batch; i++) {
		const char *x = (const char *)a + i * d->a_batch * dtype_tile_size(d->a);
		const char *y = (const char *)b + i * d->b_batch * dtype_tile_size(d->b);
		const char *cin = acc ? (const char *)acc + i * count * size : NULL;
		char *c = (char *)out + i * count * size;
		if (!narrow) {
			run_matrix(&j, x, y, cin, c);
			continue;
		}
		if (cin)
			j.loops->widen(d->out)(cin, (float *)j.sum, count);
		run_matrix(&j, x, y, cin ? j.sum : NULL, j.sum);
		j.loops->narrow(d->out, false)((const float *)j.sum, c, count);
	}
}
