/* Reductions and scans.
 *
 * The built-in kinds are num's.  A reduction or scan by a region sees its tiles as [outer, n, inner].  With a
 * wide inner extent the region combines whole rows in order; else
 *
 *   reduce: neighbours are combined pairwise, (x0 x1) (x2 x3) …, then the results again: log n rounds, each
 *           over all elements at once, order kept
 *   scan:   x[j] takes in x[j - d] for d = 1, 2, 4 … (Hillis and Steele): log n rounds over the whole row
 *
 * which an associative region allows.  A region that cannot be computed for rows (it has loops) is run
 * element by element. */
#include "ir/interp/plan.h"

#include <string.h>

enum { WIDE = 16 };                                     /* inner extents from which rows are combined in order */

static void
split_shape(const Type *t, int axis, int64_t *outer, int64_t *n, int64_t *inner)
{
	*outer = *inner = 1;
	*n = t->extent[axis];
	for (int d = 0; d < axis; d++)
		*outer *= t->extent[d];
	for (int d = axis + 1; d < t->rank; d++)
		*inner *= t->extent[d];
}

typedef struct PlainStep {
	Step step;
	Reduce how;
	Home in, out;
	int64_t outer, n, inner;
	bool perturbs;                                  /* what enters the sum, and partial sums */
} PlainStep;

static bool
run_reduce(Worker *w, const Step *step)
{
	const PlainStep *s = (const PlainStep *)step;

	reduce_run(&s->how, home_at(w, &s->in), s->outer, s->n, s->inner, w->reg[s->out.reg]);
	return true;
}

static bool
run_scan(Worker *w, const Step *step)
{
	const PlainStep *s = (const PlainStep *)step;

	scan_run(&s->how, home_at(w, &s->in), s->outer, s->n, s->inner, w->reg[s->out.reg]);
	return true;
}

/* perturb: what enters a sum is disturbed, in a copy, and then what its partial sums lose. */
static double *
disturbed(Worker *w, const PlainStep *s)
{
	int64_t count = s->outer * s->n * s->inner;

	memcpy(w->temp, home_at(w, &s->in), (size_t)count * 8);
	perturb_f64((double *)w->temp, count, w->plan->opt.perturb, &w->rng);
	return (double *)w->temp;
}

static bool
reduce_disturbed(Worker *w, const Step *step)
{
	const PlainStep *s = (const PlainStep *)step;
	int64_t count = s->outer * s->n * s->inner;
	double *x = disturbed(w, s), *squares = x + count, *out = (double *)w->reg[s->out.reg];
	Reduce sum = s->how;

	reduce_run(&s->how, x, s->outer, s->n, s->inner, out);
	for (int64_t i = 0; i < count; i++)
		x[i] = s->how.fn == RED_SUM ? x[i] * x[i] : 0;
	sum.fn = RED_SUM;
	reduce_run(&sum, x, s->outer, s->n, s->inner, squares);
	disturb_sums(w, out, squares, s->outer * s->inner, s->n);
	return true;
}

/* A scan is done in order, each partial result rounded. */
static bool
scan_disturbed(Worker *w, const Step *step)
{
	const PlainStep *s = (const PlainStep *)step;
	const double *in = disturbed(w, s);
	double *out = (double *)w->reg[s->out.reg], u = accumulation_unit(w->plan);
	int64_t n = s->n, inner = s->inner, by = s->how.reverse ? -inner : inner;

	for (int64_t o = 0; o < s->outer && n > 0; o++) {
		int64_t at = o * n * inner + (s->how.reverse ? (n - 1) * inner : 0);
		memcpy(out + at, in + at, (size_t)inner * 8);
		for (int64_t j = 1; j < n; j++) {
			at += by;
			for (int64_t i = at; i < at + inner; i++)
				out[i] = s->how.fn == RED_PROD ? out[i - by] * in[i] : out[i - by] + in[i];
			perturb_f64(out + at, inner, u, &w->rng);
		}
	}
	return true;
}

static Step *
emit_plain(Plan *p, const Op *op)
{
	PlainStep *s = STEP(p, op, PlainStep, op->kind == OP_REDUCE ? run_reduce : run_scan);

	s->in = value_home(p, op->in[0]);
	s->out = value_home(p, &op->out[0]);
	split_shape(op->in[0]->type, (int)attr_axis(op), &s->outer, &s->n, &s->inner);
	reduce_named(attr_fn(op), &s->how.fn);
	s->how.in = op->in[0]->type->elem;
	s->how.out = op->out[0].type->elem;
	s->how.propagate_nan = attr_propagate_nan(op);
	s->how.reverse = attr_reverse(op);
	s->how.level = p->cpu;
	s->perturbs = p->opt.perturb > 0 && s->how.in == TY_F64 &&
	    (s->how.fn == RED_SUM || s->how.fn == RED_PROD);
	if (s->perturbs) {
		s->step.run = op->kind == OP_REDUCE ? reduce_disturbed : scan_disturbed;
		plan_temp(p, (s->outer * s->n * s->inner + s->outer * s->inner) * 8);
	}
	return &s->step;
}

/* A reduction or scan of `count` tiles by a region. */
typedef struct FoldStep {
	Step step;
	int count;
	Home *in, *out;
	int *size;
	int64_t outer, n, inner, half;                  /* half: elements of one row's pairs */
	bool reverse;
	Flat *flat;                                     /* or NULL: body, with registers of its arguments and results */
	Code body;
	int *arg;
	Home *result;
} FoldStep;

enum { MAX_FOLD = 16 };                                 /* tiles; sema's tuples are shorter */

typedef struct Rows {
	char *at[MAX_FOLD];
} Rows;

static Rows
rows_at(const FoldStep *s, const Rows *base, int64_t element)
{
	Rows r = *base;

	for (int k = 0; k < s->count; k++)
		r.at[k] += element * s->size[k];
	return r;
}

static void
rows_copy(const FoldStep *s, const Rows *to, const Rows *from, int64_t n)
{
	for (int k = 0; k < s->count; k++)
		memmove(to->at[k], from->at[k], (size_t)(n * s->size[k]));
}

static bool
combine_singly(Worker *w, const FoldStep *s, const Rows *a, const Rows *b, const Rows *out, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		for (int k = 0; k < s->count; k++) {
			size_t size = (size_t)s->size[k];
			memcpy(w->reg[s->arg[k]], a->at[k] + i * s->size[k], size);
			memcpy(w->reg[s->arg[s->count + k]], b->at[k] + i * s->size[k], size);
		}
		if (!code_run(w, &s->body))
			return false;
		for (int k = 0; k < s->count; k++)
			memcpy(out->at[k] + i * s->size[k], w->reg[s->result[k].reg], (size_t)s->size[k]);
	}
	return true;
}

/* out[i] = region(a[i], b[i]); out may be a or b. */
static bool
combine(Worker *w, const FoldStep *s, const Rows *a, const Rows *b, const Rows *out, int64_t n)
{
	const char *arg[2 * MAX_FOLD];

	if (!s->flat)
		return combine_singly(w, s, a, b, out, n);
	for (int k = 0; k < s->count; k++) {
		arg[k] = a->at[k];
		arg[s->count + k] = b->at[k];
	}
	flat_run(w, s->flat, arg, out->at, n);
	return true;
}

static Rows
temporary(Worker *w, const FoldStep *s, int which)
{
	Rows r = {0};
	char *at = w->temp;

	for (int i = 0; i <= which; i++)
		for (int k = 0; k < s->count; k++) {
			r.at[k] = at;
			at += (s->half * s->size[k] + 63) / 64 * 64;
		}
	return r;
}

static bool
reduce_in_order(Worker *w, const FoldStep *s, const Rows *in, const Rows *out)
{
	rows_copy(s, out, in, s->inner);
	for (int64_t j = 1; j < s->n; j++) {
		Rows next = rows_at(s, in, j * s->inner);
		if (!combine(w, s, out, &next, out, s->inner))
			return false;
	}
	return true;
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

/* One row of n x inner: rounds of pairs.  The odd one out goes along at the end. */
static bool
reduce_by_pairs(Worker *w, const FoldStep *s, const Rows *in, const Rows *out)
{
	Rows left = temporary(w, s, 0), right = temporary(w, s, 1), from = *in;
	int64_t n = s->n, inner = s->inner;

	while (n > 1) {
		int64_t pairs = n / 2;
		Rows last = rows_at(s, &from, (n - 1) * inner), odd = rows_at(s, &left, pairs * inner);
		for (int k = 0; k < s->count; k++)
			part_pairs(s->size[k], from.at[k], left.at[k], right.at[k], pairs, inner);
		if (n & 1)
			rows_copy(s, &odd, &last, inner);
		if (!combine(w, s, &left, &right, &left, pairs * inner))
			return false;
		from = left;
		n = pairs + (n & 1);
	}
	rows_copy(s, out, &from, inner);
	return true;
}

static bool
run_reduce_fn(Worker *w, const Step *step)
{
	const FoldStep *s = (const FoldStep *)step;
	Rows in = {0}, out = {0};

	for (int k = 0; k < s->count; k++) {
		in.at[k] = home_at(w, &s->in[k]);
		out.at[k] = w->reg[s->out[k].reg];
		if (s->n == 0)
			memset(out.at[k], 0, (size_t)(s->outer * s->inner * s->size[k]));
	}
	for (int64_t o = 0; o < s->outer && s->n > 0; o++) {
		Rows row = rows_at(s, &in, o * s->n * s->inner), to = rows_at(s, &out, o * s->inner);
		bool in_order = s->inner >= WIDE || !s->flat;
		if (!(in_order ? reduce_in_order : reduce_by_pairs)(w, s, &row, &to))
			return false;
	}
	return true;
}

static bool
scan_in_order(Worker *w, const FoldStep *s, const Rows *in, const Rows *out)
{
	int64_t at = s->reverse ? s->n - 1 : 0, by = s->reverse ? -1 : 1;
	Rows last = rows_at(s, out, at * s->inner), first = rows_at(s, in, at * s->inner);

	rows_copy(s, &last, &first, s->inner);
	for (int64_t j = 1; j < s->n; j++) {
		at += by;
		Rows next = rows_at(s, in, at * s->inner), to = rows_at(s, out, at * s->inner);
		if (!combine(w, s, &last, &next, &to, s->inner))
			return false;
		last = to;
	}
	return true;
}

static bool
scan_by_doubling(Worker *w, const FoldStep *s, const Rows *in, const Rows *out)
{
	Rows now = *in, spare = temporary(w, s, 0);
	bool in_spare = false;
	int64_t inner = s->inner;

	for (int64_t d = 1; d < s->n; d *= 2) {
		/* Each round reads one buffer and writes the other; the first reads the operand itself. */
		const Rows *to = in_spare || d == 1 ? out : &spare;
		int64_t rest = (s->n - d) * inner;
		Rows far = rows_at(s, &now, s->reverse ? d * inner : 0);
		Rows near = rows_at(s, &now, s->reverse ? 0 : d * inner);
		Rows put = rows_at(s, to, s->reverse ? 0 : d * inner);
		Rows kept = rows_at(s, &now, s->reverse ? rest : 0), keep = rows_at(s, to, s->reverse ? rest : 0);
		if (!combine(w, s, &far, &near, &put, rest))
			return false;
		rows_copy(s, &keep, &kept, d * inner);
		now = *to;
		in_spare = to == &spare;
	}
	if (in_spare || s->n == 1)
		rows_copy(s, out, &now, s->n * inner);
	return true;
}

static bool
run_scan_fn(Worker *w, const Step *step)
{
	const FoldStep *s = (const FoldStep *)step;
	Rows in = {0}, out = {0};

	for (int k = 0; k < s->count; k++) {
		in.at[k] = home_at(w, &s->in[k]);
		out.at[k] = w->reg[s->out[k].reg];
	}
	for (int64_t o = 0; o < s->outer && s->n > 0; o++) {
		int64_t at = o * s->n * s->inner;
		Rows row = rows_at(s, &in, at), to = rows_at(s, &out, at);
		bool in_order = s->inner >= WIDE || !s->flat;
		if (!(in_order ? scan_in_order : scan_by_doubling)(w, s, &row, &to))
			return false;
	}
	return true;
}

static void
prepare_region(Plan *p, FoldStep *s, const Node *n)
{
	const Block *b = n->op->region[0];

	if (region_is_flat(b)) {
		s->flat = flat_make(p, b);
		return;
	}
	s->arg = NEW_ARRAY(p->mem, int, b->narg);
	s->result = NEW_ARRAY(p->mem, Home, s->count);
	for (int i = 0; i < b->narg; i++)
		s->arg[i] = value_home(p, &b->arg[i]).reg;
	code_emit(p, &s->body, n->region[0]);
	for (int k = 0; k < s->count; k++)
		s->result[k] = value_home(p, n->region[0]->yield->op->in[k]);
}

static Step *
emit_region(Plan *p, const Node *n)
{
	const Op *op = n->op;
	FoldStep *s = STEP(p, op, FoldStep, op->kind == OP_REDUCE_FN ? run_reduce_fn : run_scan_fn);
	int64_t bytes = 0;

	if (op->nin > MAX_FOLD) {
		p->why = arena_printf(p->func->module->cx->tmp, "%s of %d tiles; this device takes at most %d",
		    op_info[op->kind].text, op->nin, MAX_FOLD);
		return NULL;
	}
	s->count = op->nin;
	s->in = NEW_ARRAY(p->mem, Home, s->count);
	s->out = NEW_ARRAY(p->mem, Home, s->count);
	s->size = NEW_ARRAY(p->mem, int, s->count);
	split_shape(op->in[0]->type, (int)attr_axis(op), &s->outer, &s->n, &s->inner);
	s->half = op->kind == OP_SCAN_FN ? s->n * s->inner : (s->n / 2 + 1) * s->inner;
	for (int k = 0; k < s->count; k++) {
		s->in[k] = value_home(p, op->in[k]);
		s->out[k] = value_home(p, &op->out[k]);
		s->size[k] = type_elem_size(op->in[k]->type);
		bytes += 2 * ((s->half * s->size[k] + 63) / 64 * 64);
	}
	s->reverse = attr_reverse(op);
	prepare_region(p, s, n);
	if (s->flat && s->inner < WIDE)
		plan_temp(p, bytes);
	return &s->step;
}

Step *
fold_emit(Plan *p, const Node *n)
{
	return n->op->kind == OP_REDUCE || n->op->kind == OP_SCAN ? emit_plain(p, n->op) : emit_region(p, n);
}
