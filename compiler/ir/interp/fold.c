/* Reductions and scans.
 *
 * The built-in kinds are num's.  A reduction or scan by a region sees its tiles as [outer, n, inner].  With a
 * wide inner extent the region combines whole rows in order; else
 *
 *   reduce: neighbours are combined pairwise, (x0 x1) (x2 x3) …, then the results again: log n rounds, each
 *           over all elements at once, order kept
 *   scan:   x[j] takes in x[j - d] for d = 1, 2, 4 … (Hillis and Steele): log n rounds over the whole row
 *
 * which an associative region allows.  A region that is not flat combines in order always.  Here the region is run for one
 * element after the other; the fast layer computes flat ones for rows (fast/flat.c). */
#include "ir/interp/run.h"

#include <string.h>

enum { WIDE = 16 };                                     /* inner extents from which rows are combined in order */

/* ---- by one of num's functions ---- */

void
reduction_make(const Plan *p, Reduction *r, const Op *op)
{
	int axis = (int)attr_axis(op);

	*r = (Reduction){.axis = axis_of(op->in[0]->type, axis)};
	reduce_named(attr_fn(op), &r->how.fn);
	r->how.in = op->in[0]->type->elem;
	r->how.out = op->out[0].type->elem;
	r->how.propagate_nan = attr_propagate_nan(op);
	r->how.reverse = attr_reverse(op);
	r->how.level = p->cpu;
	r->perturbs = p->opt.perturb > 0 && r->how.in == TY_F64 && (r->how.fn == RED_SUM || r->how.fn == RED_PROD);
}

static int64_t
element_count(const Axis *a)
{
	return a->outer * a->n * a->inner;
}

/* perturb: what enters a sum is disturbed, in a copy, and then what its partial sums lose. */
static double *
disturbed(Worker *w, const Reduction *r, const Op *op)
{
	int64_t count = element_count(&r->axis);
	double *x = (double *)temp_take(w, op, (count + r->axis.outer * r->axis.inner) * 8);

	if (!x)
		return NULL;
	memcpy(x, value_at(w, op->in[0]), (size_t)count * 8);
	perturb_f64(w->plan->cpu, x, count, w->plan->opt.perturb, &w->rng);
	return x;
}

/* A product of matrices in a reference that has no `@`: sum(x[:, new, :] * w[e, :, :], axis = 2). */
static bool
sums_products(const Op *op)
{
	return strcmp(attr_fn(op), "sum") == 0 && op->in[0]->def && op->in[0]->def->kind == OP_MUL;
}

static bool
reduce_disturbed(Worker *w, const Reduction *r, const Op *op)
{
	const Axis *a = &r->axis;
	int64_t count = element_count(a);
	double *x = disturbed(w, r, op), *squares = x + count, *out = (double *)value_at(w, &op->out[0]);
	Reduce sum = r->how;

	if (!x)
		return false;
	reduce_run(&r->how, x, a->outer, a->n, a->inner, out);
	for (int64_t i = 0; i < count; i++)
		x[i] = r->how.fn == RED_SUM ? x[i] * x[i] : 0;
	sum.fn = RED_SUM;
	reduce_run(&sum, x, a->outer, a->n, a->inner, squares);
	disturb_sums(w, out, squares, a->outer * a->inner, a->n);
	if (w->plan->opt.narrow && sums_products(op))
		disturb_narrow(w, out, squares, a->outer * a->inner, MIN(w->plan->opt.narrow, a->n));
	return true;
}

/* A scan is done in order, each partial result rounded. */
static bool
scan_disturbed(Worker *w, const Reduction *r, const Op *op)
{
	const double *in = disturbed(w, r, op);
	double *out = (double *)value_at(w, &op->out[0]), u = accumulation_unit(w->plan);
	int64_t n = r->axis.n, inner = r->axis.inner, by = r->how.reverse ? -inner : inner;

	if (!in)
		return false;
	for (int64_t o = 0; o < r->axis.outer && n > 0; o++) {
		int64_t at = o * n * inner + (r->how.reverse ? (n - 1) * inner : 0);
		memcpy(out + at, in + at, (size_t)inner * 8);
		for (int64_t j = 1; j < n; j++) {
			at += by;
			for (int64_t i = at; i < at + inner; i++)
				out[i] = r->how.fn == RED_PROD ? out[i - by] * in[i] : out[i - by] + in[i];
			perturb_f64(w->plan->cpu, out + at, inner, u, &w->rng);
		}
	}
	return true;
}

bool
reduction_run(Worker *w, const Reduction *r, const Op *op)
{
	const Axis *a = &r->axis;
	bool reduces = op->kind == OP_REDUCE;

	if (r->perturbs)
		return (reduces ? reduce_disturbed : scan_disturbed)(w, r, op);
	(reduces ? reduce_run : scan_run)(&r->how, value_at(w, op->in[0]), a->outer, a->n, a->inner,
	    value_at(w, &op->out[0]));
	return true;
}

static bool
define_reduction(Worker *w, const Op *op)
{
	Reduction r;

	reduction_make(w->plan, &r, op);
	return reduction_run(w, &r, op);
}

DEFINE_AS(REDUCE, define_reduction(w, op))
DEFINE_AS(SCAN, define_reduction(w, op))

/* ---- by a region ---- */

bool
region_is_flat(const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_CONST || op->kind == OP_YIELD || (op_info[op->kind].traits & ELEM))
			continue;
		if (op->kind != OP_IF || !region_is_flat(op->region[0]) || !region_is_flat(op->region[1]))
			return false;
	}
	return true;
}

static Rows
rows_at(const Fold *f, const Rows *base, int64_t element)
{
	Rows r = *base;

	for (int k = 0; k < f->count; k++)
		r.at[k] += element * f->size[k];
	return r;
}

static void
rows_copy(const Fold *f, const Rows *to, const Rows *from, int64_t n)
{
	for (int k = 0; k < f->count; k++)
		memmove(to->at[k], from->at[k], (size_t)(n * f->size[k]));
}

/* What a flat region computes is not traced: it counts as one op. */
static bool
combine_each(Worker *w, const Fold *f, const Rows *a, const Rows *b, const Rows *out, int64_t n)
{
	const Block *region = f->op->region[0];
	bool well = true;

	w->untraced += f->is_flat;
	for (int64_t i = 0; i < n && well; i++) {
		for (int k = 0; k < f->count; k++) {
			size_t size = (size_t)f->size[k];
			memcpy(value_at(w, &region->arg[k]), a->at[k] + i * f->size[k], size);
			memcpy(value_at(w, &region->arg[f->count + k]), b->at[k] + i * f->size[k], size);
		}
		well = block_run(w, region);
		for (int k = 0; k < f->count; k++)
			memcpy(out->at[k] + i * f->size[k], value_at(w, region->last->in[k]), (size_t)f->size[k]);
	}
	w->untraced -= f->is_flat;
	return well;
}

/* out[i] = region(a[i], b[i]) */
static bool
combine(Worker *w, const Fold *f, const Rows *a, const Rows *b, const Rows *out, int64_t n)
{
	return (f->combine ? f->combine : combine_each)(w, f, a, b, out, n);
}

/* Rows for `elements` of each tile. */
static bool
temporary(Worker *w, const Fold *f, int64_t elements, Rows *r)
{
	int64_t bytes = SUM_OF(int64_t, k, f->count, (elements * f->size[k] + 63) / 64 * 64);
	char *at = temp_take(w, f->op, bytes);
	for (int k = 0; at && k < f->count; k++) {
		r->at[k] = at;
		at += (elements * f->size[k] + 63) / 64 * 64;
	}
	return at != NULL;
}

#define PAIRS(T)                                                                                   \
	do {                                                                                       \
		const T *x = (const T *)from;                                                      \
		T *l = (T *)left, *r = (T *)right;                                                 \
		for (int64_t i = 0; i < pairs; i++) {                                              \
			l[i] = x[2 * i];                                                           \
			r[i] = x[2 * i + 1];                                                       \
		}                                                                                  \
	} while (0)

/* Parts even and odd rows of `inner` elements; left may be where the rows come from. */
static void
part_pairs(int size, const char *from, char *left, char *right, int64_t pairs, int64_t inner)
{
	int64_t row = inner * size;

	switch (row) {
	case 1: PAIRS(uint8_t); return;
	case 2: PAIRS(uint16_t); return;
	case 4: PAIRS(uint32_t); return;
	case 8: PAIRS(uint64_t); return;
	default: break;
	}
	for (int64_t i = 0; i < pairs; i++) {
		memcpy(right + i * row, from + (2 * i + 1) * row, (size_t)row);
		memmove(left + i * row, from + 2 * i * row, (size_t)row);
	}
}

/* One row of n x inner: rounds of pairs.  The last row of an odd number stays as it is. */
static bool
reduce_by_pairs(Worker *w, const Fold *f, const Rows *in, const Rows *out)
{
	Rows left, right, from = *in;
	int64_t n = f->axis.n, inner = f->axis.inner;

	if (!temporary(w, f, (n / 2 + 1) * inner, &left) || !temporary(w, f, (n / 2 + 1) * inner, &right))
		return false;
	while (n > 1) {
		int64_t pairs = n / 2;
		Rows last = rows_at(f, &from, (n - 1) * inner), odd = rows_at(f, &left, pairs * inner);
		for (int k = 0; k < f->count; k++)
			part_pairs(f->size[k], from.at[k], left.at[k], right.at[k], pairs, inner);
		if (n & 1)
			rows_copy(f, &odd, &last, inner);
		if (!combine(w, f, &left, &right, &left, pairs * inner))
			return false;
		from = left;
		n = pairs + (n & 1);
	}
	rows_copy(f, out, &from, inner);
	return true;
}

/* All results of a reduction are one row. */
static bool
fold_in_order(Worker *w, const Fold *f, const Rows *in, const Rows *out)
{
	int64_t inner = f->axis.inner, at = f->reverse ? (f->axis.n - 1) * inner : 0, by = f->reverse ? -inner : inner;
	bool scans = f->op->kind == OP_SCAN_FN;
	Rows last = rows_at(f, out, scans ? at : 0), first = rows_at(f, in, at);

	rows_copy(f, &last, &first, inner);
	for (int64_t j = 1; j < f->axis.n; j++) {
		at += by;
		Rows next = rows_at(f, in, at), to = rows_at(f, out, scans ? at : 0);
		if (!combine(w, f, &last, &next, &to, inner))
			return false;
		last = to;
	}
	return true;
}

static bool
scan_by_doubling(Worker *w, const Fold *f, const Rows *in, const Rows *out)
{
	Rows now = *in, spare;
	bool in_spare = false;
	int64_t inner = f->axis.inner;

	if (!temporary(w, f, f->axis.n * inner, &spare))
		return false;
	for (int64_t d = 1; d < f->axis.n; d *= 2) {
		/* Each round reads one buffer and writes the other; the first reads the operand itself. */
		const Rows *to = in_spare || d == 1 ? out : &spare;
		int64_t rest = (f->axis.n - d) * inner;
		Rows far = rows_at(f, &now, f->reverse ? d * inner : 0);
		Rows near = rows_at(f, &now, f->reverse ? 0 : d * inner);
		Rows put = rows_at(f, to, f->reverse ? 0 : d * inner);
		Rows kept = rows_at(f, &now, f->reverse ? rest : 0), keep = rows_at(f, to, f->reverse ? rest : 0);
		if (!combine(w, f, &far, &near, &put, rest))
			return false;
		rows_copy(f, &keep, &kept, d * inner);
		now = *to;
		in_spare = to == &spare;
	}
	if (in_spare || f->axis.n == 1)
		rows_copy(f, out, &now, f->axis.n * inner);
	return true;
}

void
fold_make(Fold *f, const Op *op)
{
	*f = (Fold){.op = op, .axis = axis_of(op->in[0]->type, (int)attr_axis(op)), .count = op->nin,
	    .reverse = attr_reverse(op), .is_flat = region_is_flat(op->region[0])};
	f->in_order = f->axis.inner >= WIDE || !f->is_flat;
	for (int k = 0; k < f->count; k++)
		f->size[k] = type_elem_size(op->in[k]->type);
}

bool
fold_run(Worker *w, const Fold *f)
{
	bool reduces = f->op->kind == OP_REDUCE_FN;
	int64_t n = f->axis.n, inner = f->axis.inner, depth = w->depth;
	Rows in = {0}, out = {0};

	for (int k = 0; k < f->count; k++) {
		in.at[k] = value_at(w, f->op->in[k]);
		out.at[k] = value_at(w, &f->op->out[k]);
		if (n == 0)
			memset(out.at[k], 0, (size_t)value_bytes(&f->op->out[k]));
	}
	for (int64_t o = 0; o < f->axis.outer && n > 0; o++) {
		Rows row = rows_at(f, &in, o * n * inner), to = rows_at(f, &out, o * (reduces ? 1 : n) * inner);
		if (!(f->in_order ? fold_in_order : reduces ? reduce_by_pairs : scan_by_doubling)(w, f, &row, &to))
			return false;
		w->depth = (int)depth;
	}
	return true;
}

static bool
define_fold(Worker *w, const Op *op)
{
	Fold f;

	fold_make(&f, op);
	return fold_run(w, &f);
}

DEFINE_AS(REDUCE_FN, define_fold(w, op))
DEFINE_AS(SCAN_FN, define_fold(w, op))
