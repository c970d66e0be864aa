/* Decides how each value lives: as a register, as one element for all, or as a view (see plan.h), and how
 * often it is computed: once a worker (constants), once a launch (what depends on extents and scalar
 * parameters), or in every program.
 *
 * A value may be a view only where every use can walk one; a use that wants a row of elements (a
 * reduction, a sort …) makes it dense where it is defined, so that it is copied once at most.  Reads of
 * `in` tensors stay in place because nothing in the launch may write them; a function that stores through
 * pointers might, so there they are copied.  Tracing and sanitizing want every value on its own, whole:
 * the plan is then `plain`. */
#include "ir/interp/plan.h"

#include <string.h>

bool
op_is_view(OpKind k)
{
	return k == OP_BROADCAST || k == OP_PERMUTE || k == OP_FLIP || k == OP_SPLIT || k == OP_EXTRACT ||
	    op_is_reshape(k);
}

bool
operand_takes_view(const Op *op, int i)
{
	switch (op->kind) {
	case OP_DOT:
	case OP_PUT:
	case OP_CAT:
	case OP_JOIN:
	case OP_YIELD:
	case OP_FOR:
	case OP_WHILE:
		return true;
	case OP_READ:
	case OP_WRITE:
		return i > op->in[0]->type->rank;       /* the fill, the tile: not the gather indices */
	default:
		return op_is_view(op->kind) || (op_info[op->kind].traits & ELEM);
	}
}

bool
op_is_fused(const Plan *p, const Op *op)
{
	return (op_info[op->kind].traits & ELEM) && op->out[0].type->rank > 0 &&
	    value_home(p, &op->out[0]).kind != HOME_ONE;
}

static Op *
next_op(Op *op, Block *within)
{
	if (op->nregion > 0)
		for (int i = 0; i < op->nregion; i++)
			if (op->region[i]->first)
				return op->region[i]->first;
	while (!op->next) {
		Op *parent = op->home->parent;
		if (op->home == within || !parent)
			return NULL;
		int i = 0;
		while (parent->region[i] != op->home)
			i++;
		for (i++; i < parent->nregion; i++)
			if (parent->region[i]->first)
				return parent->region[i]->first;
		op = parent;
		if (op->home == within && !op->next)
			return NULL;
	}
	return op->next;
}

static void
count_uses(Plan *p, const Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		ValueInfo *v = value_info(p, op->in[i]);
		v->nuses++;
		if (!operand_takes_view(op, i))
			v->needs_dense = true;
	}
}

/* A reshape passes the wish for a row on to its operand: then neither copies. */
static void
pass_on_dense(Plan *p, Op *const *op, int n)
{
	for (int i = n - 1; i >= 0; i--)
		if (op_is_reshape(op[i]->kind) && value_info(p, &op[i]->out[0])->needs_dense)
			value_info(p, op[i]->in[0])->needs_dense = true;
}

/* Dimensions of extent 1 come and go; the others stay in order. */
static bool
is_unit_reshape(const Type *a, const Type *b)
{
	int i = 0, j = 0;

	for (;;) {
		while (i < a->rank && a->extent[i] == 1)
			i++;
		while (j < b->rank && b->extent[j] == 1)
			j++;
		if (i == a->rank || j == b->rank)
			return i == a->rank && j == b->rank;
		if (a->extent[i++] != b->extent[j++])
			return false;
	}
}

static Home
view_op_home(const Plan *p, const Op *op, const ValueInfo *v)
{
	Home from = value_home(p, op->in[0]);
	bool scalar = op->in[0]->type->rank == 0;

	if (from.kind == HOME_ONE || (scalar && op->kind == OP_BROADCAST))
		return (Home){.kind = v->needs_dense ? HOME_REG : HOME_ONE};
	if (op_is_reshape(op->kind)) {
		if (from.kind == HOME_REG)
			return (Home){.kind = HOME_REG};
		if (from.dense)
			return (Home){.kind = HOME_VIEW, .dense = true};
		if (!is_unit_reshape(op->in[0]->type, op->out[0].type))
			return (Home){.kind = HOME_REG};
	}
	return (Home){.kind = v->needs_dense ? HOME_REG : HOME_VIEW};
}

static Home
read_home(const Plan *p, const Op *op, const ValueInfo *v)
{
	const FuncParam *param = &p->func->param[param_index(op->in[0])];
	int base = 1 + op->in[0]->type->rank;
	bool tile_fill = op->nin > base && op->in[base]->type->rank > 0;

	if (tile_fill || strchr(attr_index(op), 'g') || param->access != ACCESS_IN || !p->aliases)
		return (Home){.kind = HOME_REG};
	return (Home){.kind = HOME_VIEW, .dense = v->needs_dense};
}

static Home
elem_home(const Plan *p, const Op *op, const ValueInfo *v)
{
	for (int i = 0; i < op->nin; i++)
		if (value_home(p, op->in[i]).kind != HOME_ONE)
			return (Home){.kind = HOME_REG};
	return (Home){.kind = v->needs_dense ? HOME_REG : HOME_ONE};
}

static Home
home_of(const Plan *p, const Op *op, const Value *out)
{
	const ValueInfo *v = value_info(p, out);

	if (p->plain || out->type->rank == 0)
		return (Home){.kind = HOME_REG};
	if (op->kind == OP_CONST)
		return (Home){.kind = v->needs_dense ? HOME_REG : HOME_ONE};
	if (op->kind == OP_IOTA)
		return (Home){.kind = out->type->rank == 1 || v->needs_dense ? HOME_REG : HOME_VIEW};
	if (op->kind == OP_READ)
		return read_home(p, op, v);
	if (op_is_view(op->kind))
		return view_op_home(p, op, v);
	if (op_info[op->kind].traits & ELEM)
		return elem_home(p, op, v);
	return (Home){.kind = HOME_REG};
}

static void
set_home(Plan *p, Value *out, Home h)
{
	h.type = out->type;
	h.reg = h.view = -1;
	value_info(p, out)->home = h;
}

static bool
in_flat_region(const Block *b)
{
	for (; b->parent; b = b->parent->home)
		if ((b->parent->kind == OP_REDUCE_FN || b->parent->kind == OP_SCAN_FN) &&
		    region_is_flat(b->parent->region[0]))
			return true;
	return false;
}

static int
level_of(const Plan *p, const Op *op)
{
	int level = op->kind == OP_NUM_PROGRAMS || op->kind == OP_DIM || op->kind == OP_STRIDE ? 1 : 0;

	if (op->kind == OP_CONST && in_flat_region(op->home))
		return 0;
	if (p->plain || op->nregion > 0 || op->nout == 0 || !(op_info[op->kind].traits & PURE))
		return 2;
	if (op->kind == OP_PROGRAM_ID || (op->home != p->func->body && op->nin > 0))
		return 2;
	for (int i = 0; i < op->nout; i++)
		if (type_count(op->out[i].type) > BIG_TILE && value_home(p, &op->out[i]).kind != HOME_ONE)
			return 2;
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind != TYPE_TENSOR)
			level = MAX(level, value_info(p, op->in[i])->level);
	return level;
}

static void
find_argument_homes(Plan *p, Block *b, int level)
{
	for (int i = 0; i < b->narg; i++) {
		set_home(p, &b->arg[i], (Home){.kind = b->arg[i].type->kind == TYPE_TENSOR ? HOME_NONE : HOME_REG});
		value_info(p, &b->arg[i])->level = level;
	}
}

void
homes_find(Plan *p)
{
	VEC(Op *) ops = {0};
	Block *body = p->func->body;

	for (Op *op = body->first; op; op = next_op(op, body))
		vec_push(p->mem, &ops, op);
	for (int i = 0; i < ops.n; i++)
		count_uses(p, ops.at[i]);
	pass_on_dense(p, ops.at, ops.n);
	find_argument_homes(p, body, 1);
	for (int i = 0; i < ops.n; i++) {
		Op *op = ops.at[i];
		for (int r = 0; r < op->nregion; r++)
			find_argument_homes(p, op->region[r], 2);
		for (int k = 0; k < op->nout; k++)
			set_home(p, &op->out[k], home_of(p, op, &op->out[k]));
		int level = level_of(p, op);
		for (int k = 0; k < op->nout; k++)
			value_info(p, &op->out[k])->level = level;
	}
}
