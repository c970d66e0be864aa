/* What is known of integers and pointers when compiling.
 *
 *     %b = mul %pid, 1024          divisible by 1024
 *     %i = add %b, %iota           1024 neighbours that count up, the first divisible by 1024
 *     %p = ptr_add %x, %i          so do the addresses, if %x is promised to be a multiple of 16 bytes: aligned to 16
 *     %m = lt %i, %n               equal in aligned groups of 16, if %n is promised to be a multiple of 16
 *
 * One walk in text order; values carried through loops start as what comes in and are met with what is yielded until
 * nothing changes, which is soon, as knowledge only shrinks.  A loop in a loop is entered in every round of the outer
 * one.  The first times it starts afresh; then it keeps what it had, less what is known no more, so that the rounds
 * of nested loops add up and do not multiply. */
#include "pass/layout/axis.h"

#include <string.h>

enum {
	ROUNDS = 12,                                    /* of a loop; then nothing is known of what it carries */
	STARTS = 8,                                     /* of a loop within others */
};

const AxisInfo *
axis_of(const Axes *a, const Value *v)
{
	return &a->of[v->id];
}

int
axis_unit(const Type *t)
{
	return t->ptr != PTR_NONE ? log2_floor(MAX(dtype_info[t->elem].bits / 8, 1)) : 0;
}

static void
type_range(const Type *t, int64_t *lo, int64_t *hi)
{
	int bits = t->kind == TYPE_TILE && t->ptr == PTR_NONE ? dtype_info[t->elem].bits : 64;
	bool is_signed = dtype_is_signed(t->elem);
	*lo = INT64_MIN;
	*hi = INT64_MAX;
	if (t->elem == TY_BOOL && t->ptr == PTR_NONE) {
		*lo = 0;
		*hi = 1;
	} else if (dtype_is_int(t->elem) && bits < 64) {
		*lo = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
		*hi = is_signed ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
	}
}

AxisInfo
axis_unknown(const Type *t)
{
	AxisInfo x = {.rank = t->kind == TYPE_TILE ? t->rank : 0};
	type_range(t, &x.lo, &x.hi);
	return x;
}

static int
trailing_zeros(int64_t v)
{
	int n = 0;
	if (v == 0)
		return DIV_MOST;
	while (!((uint64_t)v >> n & 1))
		n++;
	return MIN(n, DIV_MOST);
}

AxisInfo
axis_constant(const Type *t, int64_t v)
{
	AxisInfo x = axis_unknown(t);
	x.lo = x.hi = v;
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.div[d] = trailing_zeros(v);
		x.equal[d] = x.rank ? trailing_zeros(t->extent[d]) : 0;
	}
	return x;
}

int
axis_div_at(const AxisInfo *x, int d, int k, int unit)
{
	return k < x->contig[d] ? MIN(x->div[d], k + unit) : x->div[d];
}

int
axis_div(const AxisInfo *x, int unit)
{
	int most = 0;
	for (int d = 0; d < MAX(x->rank, 1); d++)
		most = MAX(most, axis_div_at(x, d, 0, unit));
	return most;
}

AxisInfo
axis_meet(const AxisInfo *a, const AxisInfo *b, const Type *t)
{
	AxisInfo x = axis_unknown(t);
	int unit = axis_unit(t);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.contig[d] = MIN(a->contig[d], b->contig[d]);
		x.equal[d] = MIN(a->equal[d], b->equal[d]);
		x.div[d] = MIN(axis_div_at(a, d, x.contig[d], unit), axis_div_at(b, d, x.contig[d], unit));
	}
	if (a->lo == b->lo && a->hi == b->hi) {
		x.lo = a->lo;
		x.hi = a->hi;
	}
	return x;
}

static void
param_info(Axes *a, int i)
{
	const FuncParam *p = &a->f->param[i];
	Value *v = &a->f->body->arg[i];
	AxisInfo x = axis_unknown(v->type);
	int known = p->multiple > 0 ? trailing_zeros(p->multiple) : 0;
	x.div[0] = MAX(known, axis_unit(v->type));
	if (p->kind == PARAM_DIM) {
		x.lo = p->multiple > 1 ? p->multiple : 0;      /* what is promised of a dimension tells that it is not 0 */
		x.hi = MAX_ELEMENTS;
	}
	a->of[v->id] = x;
}

static void walk(Axes *a, const Block *b);

static bool
same_info(const AxisInfo *a, const AxisInfo *b)
{
	return memcmp(a->contig, b->contig, sizeof a->contig) == 0 && memcmp(a->div, b->div, sizeof a->div) == 0 &&
	       memcmp(a->equal, b->equal, sizeof a->equal) == 0 && a->lo == b->lo && a->hi == b->hi;
}

/* Knows less of `v`: what it and `more` have in common.  True if that changed. */
static bool
narrow(Axes *a, const Value *v, const AxisInfo *more)
{
	AxisInfo met = axis_meet(&a->of[v->id], more, v->type);
	bool changed = !same_info(&met, &a->of[v->id]);
	a->of[v->id] = met;
	return changed;
}

/* The greatest index below `end` that a loop may reach: steps count from `lo`, and keep what divides it. */
static int64_t
last_index(const AxisInfo *lo, int64_t end, const AxisInfo *step, int div)
{
	int64_t last = end - 1;
	if (lo->lo == lo->hi && step->lo == step->hi && lo->lo >= 0 && last >= lo->lo)
		return lo->lo + (last - lo->lo) / step->lo * step->lo;
	return last >= 0 && div < 62 ? last >> div << div : last;
}

static void
index_info(Axes *a, const Op *op)
{
	const AxisInfo *lo = axis_of(a, op->in[0]), *hi = axis_of(a, op->in[1]), *step = axis_of(a, op->in[2]);
	const Value *i = &op->region[0]->arg[0];
	AxisInfo x = axis_unknown(i->type);
	x.div[0] = MIN(lo->div[0], step->div[0]);
	if (step->lo > 0 && hi->hi > INT64_MIN) {
		x.lo = lo->lo;
		x.hi = MAX(last_index(lo, hi->hi, step, x.div[0]), lo->lo);
	}
	a->of[i->id] = x;
}

/* The carried values are the first region's arguments from `first` on. */
static void
start_args(Axes *a, const Op *op, int first, int init)
{
	const Block *b = op->region[0];
	bool afresh = b->narg && a->starts[b->arg[0].id]++ < STARTS;
	for (int i = first; i < b->narg; i++) {
		const AxisInfo *x = axis_of(a, op->in[init + i - first]);
		if (afresh)
			a->of[b->arg[i].id] = *x;
		else
			narrow(a, &b->arg[i], x);
	}
}

static bool
narrow_args(Axes *a, const Op *op, int r, int first, int from, int yielded)
{
	const Block *b = op->region[r];
	const Op *yield = op->region[from]->last;
	bool changed = false;
	for (int i = first; i < b->narg; i++)
		changed |= narrow(a, &b->arg[i], axis_of(a, yield->in[yielded + i - first]));
	return changed;
}

static void
forget_args(Axes *a, const Block *b, int first)
{
	for (int i = first; i < b->narg; i++)
		a->of[b->arg[i].id] = axis_unknown(b->arg[i].type);
}

static void
walk_loop(Axes *a, const Op *op)
{
	bool changed = true;
	int first = op->kind == OP_FOR ? 1 : 0;
	start_args(a, op, first, op->kind == OP_FOR ? 3 : 0);
	for (int round = 0; changed; round++) {
		if (round == ROUNDS)
			forget_args(a, op->region[0], first);
		if (op->kind == OP_FOR)
			index_info(a, op);
		walk(a, op->region[0]);
		if (op->kind == OP_FOR) {
			changed = narrow_args(a, op, 0, 1, 0, 0);
			continue;
		}
		for (int i = 0; i < op->region[1]->narg; i++)
			a->of[op->region[1]->arg[i].id] = *axis_of(a, op->region[0]->last->in[1 + i]);
		walk(a, op->region[1]);
		changed = narrow_args(a, op, 0, 0, 1, 0);
	}
	for (int i = 0; i < op->nout; i++)
		a->of[op->out[i].id] = op->kind == OP_FOR ? *axis_of(a, &op->region[0]->arg[1 + i])
		                                          : *axis_of(a, op->region[0]->last->in[1 + i]);
}

static void
walk_branch(Axes *a, const Op *op)
{
	walk(a, op->region[0]);
	walk(a, op->region[1]);
	for (int i = 0; i < op->nout; i++)
		a->of[op->out[i].id] = axis_meet(axis_of(a, op->region[0]->last->in[i]),
		    axis_of(a, op->region[1]->last->in[i]), op->out[i].type);
}

static void
walk_inside(Axes *a, const Op *op)
{
	for (int r = 0; r < op->nregion; r++) {
		forget_args(a, op->region[r], 0);
		walk(a, op->region[r]);
	}
}

static void
walk(Axes *a, const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op_is_loop(op)) {
			walk_loop(a, op);
			continue;
		}
		if (op->kind == OP_IF) {
			walk_branch(a, op);
			continue;
		}
		walk_inside(a, op);
		for (int i = 0; i < op->nout; i++)
			a->of[op->out[i].id] = axis_rule(a, op, &op->out[i]);
	}
}

Axes *
axis_analyse(Func *f, Arena *mem)
{
	Axes *a = NEW(mem, Axes);
	func_number(f);
	*a = (Axes){.f = f, .mem = mem, .n = f->nvalues, .of = NEW_ARRAY(mem, AxisInfo, f->nvalues),
		.starts = NEW_ARRAY(mem, int, f->nvalues)};
	for (int i = 0; i < f->nparam; i++)
		param_info(a, i);
	walk(a, f->body);
	return a;
}
