/* Axis analysis: contiguity, divisibility, constancy and ranges of integers and pointers.
 *
 *     %b = mul %pid, 1024          divisible by 1024
 *     %i = add %b, %iota           1024 neighbours that count up, the first divisible by 1024
 *     %p = ptr_add %x, %i          so do the addresses, if %x is assumed to be a multiple of 16 bytes: aligned to 16
 *     %m = lt %i, %n               equal in aligned groups of 16, if %n is assumed to be a multiple of 16
 *
 * A data-flow analysis over the regions, in text order.  A loop's carried values start as what comes in and are joined
 * with what is yielded until nothing changes.  A loop in a loop is walked in every round of the outer one: the first
 * STARTS times from what comes in, then from what it had, joined with what comes in.  From then on its values only
 * lose, and each can do that as often as it has bits of knowledge, so that the rounds of nested loops add up and do not
 * multiply.
 *
 * Results live on values until a pass drops them; a value made in between is derived from its operands when first asked
 * for. */
#include "pass/layout/axis.h"

#include <assert.h>
#include <string.h>

enum {
	ROUNDS = 12,                                    /* of a loop; then nothing is known of what it carries */
	STARTS = 8,                                     /* of a loop within others */
};

/* One analysis. */
typedef struct Axes {
	int *starts;                                    /* of a loop, by the id of its region's first argument */
} Axes;

/* The result is a cache of what the operands say, so that a value may be const. */
static void
set(const Value *v, AxisInfo x)
{
	if (!v->axis)
		((Value *)v)->axis = NEW(v->block->func->module->cx->mem, AxisInfo);
	*v->axis = x;
}

/* An integer of which only one number is left is a constant, and all that is known of one. */
static void
derive(const Value *v)
{
	AxisInfo x = axis_rule(v->def, v);
	bool is_int = v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE && !dtype_is_float(v->type->elem);
	set(v, is_int && axis_is_known(&x) ? axis_constant(v->type, x.lo) : x);
}

const AxisInfo *
axis_of(const Value *v)
{
	assert(v->block->func->has_axes);
	if (!v->axis && v->def && !v->def->nregion)
		derive(v);
	else if (!v->axis)
		set(v, axis_unknown(v->type));
	return v->axis;
}

bool
axis_is_known(const AxisInfo *x)
{
	return x->lo == x->hi;
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
	AxisInfo x = {.rank = (t->kind == TYPE_TILE ? t->rank : 0)};
	type_range(t, &x.lo, &x.hi);
	return x;
}


AxisInfo
axis_constant(const Type *t, int64_t v)
{
	AxisInfo x = axis_unknown(t);
	x.lo = x.hi = v;
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.div[d] = trailing_zeros(v);
		x.equal[d] = (x.rank ? trailing_zeros(t->extent[d]) : 0);
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
set_param(const Func *f, int i)
{
	const FuncParam *p = &f->param[i];
	const Value *v = &f->body->arg[i];
	AxisInfo x = axis_unknown(v->type);
	int known = p->multiple > 0 ? trailing_zeros(p->multiple) : 0;
	x.div[0] = MAX(known, axis_unit(v->type));
	if (p->kind == PARAM_DIM) {
		x.lo = MAX(p->multiple > 1 ? p->multiple : 0, p->least);        /* of a multiple: it is not 0 */
		x.hi = p->most > 0 ? p->most : MAX_ELEMENTS;
	}
	set(v, x);
}

static void walk(Axes *a, const Block *b);

static bool
same_info(const AxisInfo *a, const AxisInfo *b)
{
	return memcmp(a->contig, b->contig, sizeof a->contig) == 0 && memcmp(a->div, b->div, sizeof a->div) == 0 &&
	       memcmp(a->equal, b->equal, sizeof a->equal) == 0 && a->lo == b->lo && a->hi == b->hi;
}

/* `v` may also be as `more` says.  True if less is known of it then. */
static bool
narrow(const Value *v, const AxisInfo *more)
{
	AxisInfo met = axis_meet(v->axis, more, v->type);
	bool changed = !same_info(&met, v->axis);
	set(v, met);
	return changed;
}

/* The greatest index below `end` that a loop may reach: steps count from `lo`, and keep what divides it. */
static int64_t
last_index(const AxisInfo *lo, int64_t end, const AxisInfo *step, int div)
{
	int64_t last = end - 1;
	if (axis_is_known(lo) && axis_is_known(step) && lo->lo >= 0 && last >= lo->lo)
		return lo->lo + (last - lo->lo) / step->lo * step->lo;
	return last >= 0 && div < 62 ? last >> div << div : last;
}

static void
set_index(const Op *op)
{
	const AxisInfo *lo = axis_of(op->in[0]), *hi = axis_of(op->in[1]), *step = axis_of(op->in[2]);
	const Value *i = &op->region[0]->arg[0];
	AxisInfo x = axis_unknown(i->type);
	x.div[0] = MIN(lo->div[0], step->div[0]);
	if (step->lo > 0 && hi->hi > INT64_MIN) {
		x.lo = lo->lo;
		x.hi = MAX(last_index(lo, hi->hi, step, x.div[0]), lo->lo);
	}
	set(i, x);
}

/* The carried values are the first region's arguments from `first` on. */
static void
start_args(Axes *a, const Op *op, int first, int init)
{
	const Block *b = op->region[0];
	bool afresh = b->narg && a->starts[b->arg[0].id]++ < STARTS;
	for (int i = first; i < b->narg; i++) {
		const AxisInfo *x = axis_of(op->in[init + i - first]);
		if (afresh)
			set(&b->arg[i], *x);
		else
			narrow(&b->arg[i], x);
	}
}

static bool
narrow_args(const Block *b, int first, Value *const *yielded)
{
	bool changed = false;
	for (int i = first; i < b->narg; i++)
		changed |= narrow(&b->arg[i], axis_of(yielded[i - first]));
	return changed;
}

static void
clear_args(const Block *b, int first)
{
	for (int i = first; i < b->narg; i++)
		set(&b->arg[i], axis_unknown(b->arg[i].type));
}

static void
walk_loop(Axes *a, const Op *op)
{
	const Block *head = op->region[0], *body = op->region[op->nregion - 1];
	bool is_for = op->kind == OP_FOR, changed = true;
	int first = is_for ? 1 : 0;
	start_args(a, op, first, is_for ? 3 : 0);
	for (int round = 0; changed; round++) {
		if (round == ROUNDS)
			clear_args(head, first);
		if (is_for)
			set_index(op);
		walk(a, head);
		for (int i = 0; !is_for && i < body->narg; i++)
			set(&body->arg[i], *axis_of(head->last->in[1 + i]));
		if (!is_for)
			walk(a, body);
		changed = narrow_args(head, first, body->last->in);
	}
	for (int i = 0; i < op->nout; i++)
		set(&op->out[i], *axis_of(is_for ? &head->arg[1 + i] : head->last->in[1 + i]));
}

static void
walk_branch(Axes *a, const Op *op)
{
	walk(a, op->region[0]);
	walk(a, op->region[1]);
	for (int i = 0; i < op->nout; i++)
		set(&op->out[i], axis_meet(axis_of(op->region[0]->last->in[i]), axis_of(op->region[1]->last->in[i]),
		    op->out[i].type));
}

static void
walk_op(Axes *a, const Op *op)
{
	for (int r = 0; r < op->nregion; r++) {
		clear_args(op->region[r], 0);
		walk(a, op->region[r]);
	}
	for (int i = 0; i < op->nout; i++)
		derive(&op->out[i]);
}

static void
walk(Axes *a, const Block *b)
{
	for (const Op *op = b->first; op; op = op->next)
		switch (op->kind) {
		case OP_FOR: case OP_WHILE: walk_loop(a, op); break;
		case OP_IF: walk_branch(a, op); break;
		default: walk_op(a, op); break;
		}
}

void
axis_keep(Func *f)
{
	if (f->has_axes)
		return;
	func_number(f);
	f->has_axes = true;
	Axes a = {.starts = NEW_ARRAY(f->module->cx->tmp, int, f->nvalues)};
	for (int i = 0; i < f->nparam; i++)
		set_param(f, i);
	walk(&a, f->body);
}

void
axis_drop(Module *m)
{
	for (int i = 0; i < m->funcs.n; i++)
		m->funcs.at[i]->has_axes = false;
}
