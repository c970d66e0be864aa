/* Checks where tiles live.  A layout, wherever there is one, fits its value; a module that claims LAYOUTS has one
 * for every tile, and what must lie alike does: the operands and results of elementwise ops, and what a loop or a
 * branch hands over.
 *
 *     %b = convert %a : f32[64, 32] #1                    %a is in #0: a conversion changes the layout alone
 *     %c = add %b, %d : f32[64, 32] #1                    %b and %d are in #1 */
#include "ir/ir.h"

typedef struct Check {
	Module *m;
	Func *f;
	bool all;                                       /* the module claims LAYOUTS */
	int lanes, warps;                               /* log2, or -1 until the first layout; of a role within it */
	const char *why;
} Check;

#define fail(c, ...) ((c)->why = arena_printf((c)->m->cx->tmp, __VA_ARGS__), false)

static bool
fits_shape(const Layout *l, const Type *t)
{
	if (l->rank != t->rank)
		return false;
	return ALL_OF(d, t->rank, l->out[d] <= 40 && INT64_C(1) << l->out[d] == t->extent[d]);
}

static bool
check_machine(Check *c, const Layout *l)
{
	if (c->lanes < 0)
		c->lanes = l->in[IN_LANE];
	if (c->warps < 0)
		c->warps = l->in[IN_WARP];
	if (l->in[IN_LANE] != c->lanes)
		return fail(c, "a layout of %d lanes; others have %d", 1 << l->in[IN_LANE], 1 << c->lanes);
	if (l->in[IN_WARP] != c->warps)
		return fail(c, "a layout of %d warps; expected %d", 1 << l->in[IN_WARP], 1 << c->warps);
	return true;
}

static bool
check_value(Check *c, const Value *v, const char *what, int i)
{
	const Type *t = v->type;

	if (!v->layout && (!c->all || (t->kind != TYPE_TILE && t->kind != TYPE_BUFFER) || t->rank == 0))
		return true;
	if (!v->layout)
		return fail(c, "%s %d has no layout, though the module claims LAYOUTS", what, i + 1);
	if (t->kind == TYPE_TILE && t->rank && fits_shape(v->layout, t))
		return check_machine(c, v->layout);
	if (t->kind == TYPE_TOKEN && v->def && v->def->kind == OP_COPY &&
	    fits_shape(v->layout, v->def->in[1 + v->def->in[0]->type->rank]->type))
		return check_machine(c, v->layout);
	if (t->kind == TYPE_BUFFER && fits_shape(v->layout, t) && !v->layout->in[IN_LANE] && !v->layout->in[IN_WARP])
		return true;
	return fail(c, "the layout of %s %d does not fit its type %s", what, i + 1, type_text(t, c->m->cx->tmp));
}

static bool
same(Check *c, const Value *a, const Value *b, const char *what)
{
	return a->layout == b->layout || !c->all || fail(c, "%s differ in layout", what);
}

static bool
check_elementwise(Check *c, const Op *op)
{
	if (!ALL_OF(i, op->nin, same(c, op->in[i], &op->out[0], "operands and result of an elementwise op")))
		return false;
	return ALL_FROM(i, 1, op->nout,
	    same(c, &op->out[i], &op->out[0], "the results of an elementwise op"));
}

/* Region r's arguments from `arg` on, and what it yields from `given` on, lie as the results do. */
static bool
check_carried(Check *c, const Op *op, int r, int arg, int given)
{
	const Block *b = op->region[r];

	for (int i = 0; i < op->nout; i++) {
		if (arg >= 0 && !same(c, &b->arg[arg + i], &op->out[i], "an argument of the region and the result"))
			return false;
		if (!same(c, b->last->in[given + i], &op->out[i], "what the region yields and the result"))
			return false;
	}
	return true;
}

static bool
check_control(Check *c, const Op *op)
{
	int first = op->kind == OP_FOR ? 3 : 0;

	if (op->kind != OP_IF && !ALL_OF(i, op->nout,
				     same(c, op->in[first + i], &op->out[i],
					 "the start of a carried value and the result")))
		return false;
	switch (op->kind) {
	case OP_FOR:
		return check_carried(c, op, 0, 1, 0);
	case OP_WHILE:
		return check_carried(c, op, 0, 0, 1) && check_carried(c, op, 1, 0, 0);
	default:
		return check_carried(c, op, 0, -1, 0) && check_carried(c, op, 1, -1, 0);
	}
}

/* Not one that holds another tile than the buffer is of. */
static bool
is_own_slot(const Check *c, const Op *slot)
{
	const Type *t = slot->in[0]->type;

	return slot->out[0].type == type_buffer(c->m, t->elem, 1, t->rank, t->extent);
}

static bool
check_op(Check *c, const Op *op)
{
	if (op->kind == OP_SPLIT_GET &&
	    !same(c, op->in[0]->def->in[0], &op->out[0], "what is put and what is got"))
		return false;
	if (op->kind == OP_STREAM_JOIN &&
	    !ALL_OF(i, op->nout,
		same(c, op->in[STREAM_JOIN_TILES + i], &op->out[i], "a tile and its sum")))
		return false;
	if (!ALL_OF(i, op->nout, check_value(c, &op->out[i], "result", i)))
		return false;
	for (int r = 0; r < op->nregion; r++)
		if (!ALL_OF(i, op->region[r]->narg, check_value(c, &op->region[r]->arg[i], "argument", i)))
			return false;
	if (op->kind == OP_SLOT && is_own_slot(c, op) && !same(c, op->in[0], &op->out[0], "a buffer and its slot"))
		return false;
	if ((op_info[op->kind].traits & ELEM) && op->nout)
		return check_elementwise(c, op);
	if (op_is_control(op))
		return check_control(c, op);
	return true;
}

const char *
layouts_check(Func *f, const Op **at)
{
	Check c = {.m = f->module, .f = f, .all = f->module->facts & LAYOUTS, .lanes = -1, .warps = -1};

	if (f->is_reference)
		return NULL;
	if (f->schedule.warps > 0)
		c.warps = log2_floor(f->schedule.warps);
	int warps = c.warps;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		*at = op;
		int region;
		bool in_role = op_roles(op, &region);
		c.warps = in_role ? log2_ceil(op_warps(op)) : warps;
		if (!check_op(&c, op))
			return c.why;
		if (!in_role)
			warps = c.warps;
	}
	*at = NULL;
	return NULL;
}
