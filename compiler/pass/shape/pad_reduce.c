/* What added elements hold where an op combines elements: whatever changes nothing.
 *
 *     sum -0.0 or 0   prod 1   max, argmax: NaN, which loses (or -inf where NaN wins), the least integer
 *     sort: what comes last   histogram: no bin   dot: zero along K
 *
 * A reduction by a function of the user has no such element; it gets one: a flag goes along with each element, and
 * the function is applied only where both are valid. */
#include "ir/derive.h"
#include "pass/layout/dot.h"
#include "pass/shape/pad.h"

#include <math.h>

static bool
is_padded(const Pad *p, const Value *v, int d)
{
	return pad_was(p, v)->extent[d] != v->type->extent[d];
}

void
pad_reduce(const Pad *p, Op *op)
{
	int axis = (int)attr_axis(op);
	Builder b = build_before(op);
	if (is_padded(p, op->in[0], axis))
		pad_fill(p, op, 0, axis, build_identity(&b, op->in[0]->type, fn_kind(attr_fn(op)), attr_propagate_nan(op)));
}

/* From the start, what was added comes last and changes nothing. */
void
pad_scan(const Pad *p, Op *op)
{
	if (attr_reverse(op))
		pad_reduce(p, op);
}

/* The flagged region: (a…, x, b…, y) gives x and y ? f(a, b) : x ? a : b, and x or y. */
static void
flag_region(const Op *op, Op *flagged, int n)
{
	Func *f = op->home->func;
	const Type *type[2 * 16];
	Block *old = op->region[0];
	for (int i = 0; i < n; i++)
		type[i] = type[n + 1 + i] = old->arg[i].type;
	type[n] = type[2 * n + 1] = type_scalar(f->module, TY_BOOL);
	Block *r = block_make(f, flagged, type, 2 * n + 2);
	flagged->region[0] = r;
	for (int i = 0; i < n; i++) {
		value_replace(&old->arg[i], &r->arg[i]);
		value_replace(&old->arg[n + i], &r->arg[n + 1 + i]);
	}
	Op *yield = old->last;
	while (old->first != yield)
		op_move(old->first, r, NULL);
	Builder b = {.m = f->module, .block = r, .place = op->place};
	Value *x = &r->arg[n], *y = &r->arg[2 * n + 1], *both = build2(&b, OP_AND, x, y), *out[17];
	for (int i = 0; i < n; i++) {
		Value *one = build3(&b, OP_SELECT, x, &r->arg[i], &r->arg[n + 1 + i]);
		out[i] = build3(&b, OP_SELECT, both, yield->in[i], one);
	}
	out[n] = build2(&b, OP_OR, x, y);
	build_yield(&b, out, n + 1);
}

void
pad_reduce_fn(const Pad *p, Op *op)
{
	enum { MOST = 16 };
	int axis = (int)attr_axis(op), n = op->nin;
	Value *in[MOST + 1];
	const Type *t = op->in[0]->type;
	if (!is_padded(p, op->in[0], axis) || (op->kind == OP_SCAN_FN && !attr_reverse(op)))
		return;
	if (n >= MOST) {
		diag_error(p->m->cx, op->place, DIAG_PAD_OPERANDS, n);
		return;
	}
	Builder b = build_before(op);
	for (int i = 0; i < n; i++)
		in[i] = op->in[i];
	in[n] = pad_below(&b, t, axis, pad_was(p, op->in[0])->extent[axis]);
	Op *flagged = op_make_regions(&b, op->kind, in, n + 1, op->attr, op->nattr, NULL, 0, 1);
	flag_region(op, flagged, n);
	for (int i = 0; i < n; i++)
		pad_replace(p, &op->out[i], &flagged->out[i]);
	op_erase(op);
}

/* NaN is the greatest of all, and of equals the first wins: what is added stands behind. */
void
pad_order(const Pad *p, Op *op)
{
	int axis = (int)attr_axis(op);
	bool falling = op->kind == OP_TOPK || attr_descending(op);
	Builder b = build_before(op);
	const Type *t = op->in[0]->type;
	if (op->kind == OP_TOPK)
		attr_set_k(p->m, op, op->out[0].type->extent[axis]);
	if (!is_padded(p, op->in[0], axis))
		return;
	bool nan = !falling && dtype_is_float(t->elem);
	pad_fill(p, op, 0, axis, nan ? build_float(&b, t, NAN) : build_extreme(&b, t, !falling));
}

void
pad_histogram(const Pad *p, Op *op)
{
	attr_set_bins(p->m, op, op->out[0].type->extent[0]);
	pad_outside(p, op, 0, TY_I32);
}

static bool
reads_zeros(const Value *v)
{
	while (v->def && v->def->kind == OP_PERMUTE)
		v = v->def->in[0];
	return v->def && v->def->kind == OP_READ && v->def->nin == access_data(v->def);
}

/* Products of warpgroups compute as many columns as there were, or as rows if they are transposed.  Of chained ones those
 * at the end alone: what is between them is of all columns. */
static void
note_extents(const Pad *p, Op *op)
{
	enum { MULTIPLE = 8 };                          /* of an instruction's columns */
	const int64_t *was = pad_was(p, &op->out[0])->extent, *is = op->out[0].type->extent;
	bool rows = is[0] != was[0] && was[0] % MULTIPLE == 0, columns = is[1] != was[1] && was[1] % MULTIPLE == 0;
	bool chained = dot_is_chained(p->f, op);
	if (chained && dot_next(p->f, &op->out[0]))
		return;
	if (rows && !chained)
		attr_set_rows(p->m, op, was[0]);
	if (columns)
		attr_set_columns(p->m, op, was[1]);
}

int
pad_dot_k(const Op *dot, int i)
{
	return dot->in[i]->type->rank - (i == 0 ? 1 : 2);
}

/* Zeros in the gaps of groups, or behind the end if `group` is 0.  Of an operand from before a loop they stand there. */
static void
fill_operand(const Pad *p, Op *op, int i, int64_t group)
{
	Op *loop = op->home->parent, *before = op->prev;
	bool stays = loop && op_is_loop(loop) && !value_inside(op->in[i], op->home);
	Builder b = build_before(op);
	int d = pad_dot_k(op, i);
	Value *v = op->in[i], *zero = build_int(&b, v->type, 0);
	if (group)
		op_set_in(op, i, build3(&b, OP_SELECT, pad_within_group(&b, v->type, d, group), v, zero));
	else
		pad_fill(p, op, i, d, zero);
	for (Op *x = before ? before->next : op->home->first, *next; stays && x != op; x = next) {
		next = x->next;
		op_move(x, loop->home, loop);
	}
}

/* Both sides: zero times what the other one holds may be NaN.  What a read gives outside is zero already.  What is the same
 * along K has the other side's gaps. */
void
pad_dot(const Pad *p, Op *op)
{
	int64_t group = MAX(pad_gap(p, op->in[0]), pad_gap(p, op->in[1]));
	for (int i = 0; i < 2; i++)
		if (is_padded(p, op->in[i], pad_dot_k(op, i)) && !reads_zeros(op->in[i]))
			fill_operand(p, op, i, group);
	if (!(p->t->has & HAS_WGMMA) || op->out[0].type->rank != 2)
		return;
	note_extents(p, op);
	if (!group && is_padded(p, op->in[0], 1) && is_padded(p, op->in[1], 0))
		attr_set_depth(p->m, op, pad_was(p, op->in[0])->extent[1]);
}
