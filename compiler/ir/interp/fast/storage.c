/* Chooses the storage of each value, a slot, one element for all, or a view (see fast.h), and how often it is
 * computed: once a worker (constants), once a launch (what depends on extents and scalar parameters), or in every
 * program.
 *
 * A value may be a view only where every use can walk one; a use that reads it row-major (a
 * reduction, a sort …) makes it dense at its definition, so that it is copied once at most.  Reads of
 * `in` tensors stay in place because nothing in the launch may write them; a function that stores through
 * pointers might, so there they are copied.  An op without a step of its own takes and gives slots. */
#include "ir/derive.h"
#include "ir/interp/fast/fast.h"

#include <string.h>

enum { BIG_TILE = 1 << 16 };                            /* elements beyond which nothing is hoisted */

static bool
takes_view(const Op *op, int i)
{
	switch (op->kind) {
	case OP_DOT:
	case OP_YIELD:
	case OP_FOR:
	case OP_WHILE:
		return true;
	case OP_WRITE:
		return i > op->in[0]->type->rank;       /* the tile: not the gather indices */
	default:
		return op_rearranges(op->kind) || (op_info[op->kind].traits & ELEM);
	}
}

bool
op_is_fused(const Plan *p, const Op *op)
{
	return (op_info[op->kind].traits & ELEM) && op->out[0].type->rank > 0 &&
	    storage_of(p, &op->out[0]).kind != STORE_ONE;
}

/* The op whose regions the schedule leaves out that this one is in; NULL: none. */
static const Op *
op_around(const Op *op)
{
	const Op *around = NULL;

	for (const Block *b = op->home; b->parent; b = b->parent->home)
		if (op_runs_regions(b->parent->kind))
			around = b->parent;
	return around;
}

static bool
in_unscheduled_region(const Op *op)
{
	return op_around(op) != NULL;
}

/* Computed for rows, by flat.c. */
static bool
in_flat_region(const Op *op)
{
	const Op *around = op_around(op);

	return around && op_is_fold(around->kind) && region_is_flat(around->region[0]);
}

static void
count_uses(Plan *p, const Op *op)
{
	bool is_plain = in_unscheduled_region(op);

	for (int i = 0; i < op->nin; i++) {
		ValueInfo *v = value_info(p, op->in[i]);
		if (is_plain || !takes_view(op, i))
			v->needs_dense = true;
	}
}

/* The operand of a dense reshape is dense too: then neither copies. */
static void
propagate_dense(Plan *p, Op *const *op, int n)
{
	for (int i = n - 1; i >= 0; i--)
		if (op_is_reshape(op[i]->kind) && value_info(p, &op[i]->out[0])->needs_dense)
			value_info(p, op[i]->in[0])->needs_dense = true;
}

static Storage
rearranged_storage(const Plan *p, const Op *op, const ValueInfo *v)
{
	Storage from = storage_of(p, op->in[0]);
	bool scalar = op->in[0]->type->rank == 0;

	if (from.kind == STORE_ONE || (scalar && op->kind == OP_BROADCAST))
		return (Storage){.kind = v->needs_dense ? STORE_SLOT : STORE_ONE};
	if (op_is_reshape(op->kind)) {
		if (from.kind == STORE_SLOT)
			return (Storage){.kind = STORE_SLOT};
		if (from.dense)
			return (Storage){.kind = STORE_VIEW, .dense = true};
		if (!type_same_but_ones(op->in[0]->type, op->out[0].type))
			return (Storage){.kind = STORE_SLOT};
	}
	return (Storage){.kind = v->needs_dense ? STORE_SLOT : STORE_VIEW};
}

static Storage
read_storage(const Plan *p, const Op *op, const ValueInfo *v)
{
	const FuncParam *param = &p->func->param[param_index(op->in[0])];
	int base = 1 + op->in[0]->type->rank;
	bool tile_fill = op->nin > base && op->in[base]->type->rank > 0;

	if (tile_fill || strchr(attr_index(op), 'g') || param->access != ACCESS_IN || !p->fast->aliases)
		return (Storage){.kind = STORE_SLOT};
	return (Storage){.kind = STORE_VIEW, .dense = v->needs_dense};
}

static Storage
elementwise_storage(const Plan *p, const Op *op, const ValueInfo *v)
{
	for (int i = 0; i < op->nin; i++)
		if (storage_of(p, op->in[i]).kind != STORE_ONE)
			return (Storage){.kind = STORE_SLOT};
	return (Storage){.kind = v->needs_dense ? STORE_SLOT : STORE_ONE};
}

static Storage
choose(const Plan *p, const Op *op, const Value *out)
{
	const ValueInfo *v = value_info(p, out);

	if (in_flat_region(op) && op->kind != OP_CONST)
		return (Storage){.kind = STORE_NONE};   /* a row of flat.c */
	if (out->type->rank == 0 || in_unscheduled_region(op))
		return (Storage){.kind = STORE_SLOT};
	if (op->kind == OP_CONST)
		return (Storage){.kind = v->needs_dense ? STORE_SLOT : STORE_ONE};
	if (op->kind == OP_IOTA)
		return (Storage){.kind = out->type->rank == 1 || v->needs_dense ? STORE_SLOT : STORE_VIEW};
	if (op->kind == OP_READ)
		return read_storage(p, op, v);
	if (op_rearranges(op->kind))
		return rearranged_storage(p, op, v);
	if (op_info[op->kind].traits & ELEM)
		return elementwise_storage(p, op, v);
	return (Storage){.kind = STORE_SLOT};
}

static void
set_storage(Plan *p, Value *out, Storage s)
{
	s.type = out->type;
	s.slot = s.copy = s.view = -1;
	value_info(p, out)->storage = s;
}

static int
level_of(const Plan *p, const Op *op)
{
	bool by_launch = op->kind == OP_NUM_PROGRAMS || op->kind == OP_NUM_BLOCKS || op->kind == OP_DIM ||
	    op->kind == OP_STRIDE || op->kind == OP_SPLIT_RANK || op->kind == OP_SPLIT_COUNT;
	int level = by_launch ? 1 : 0;

	if (op->kind == OP_CONST && in_flat_region(op))
		return 0;
	if (in_unscheduled_region(op) || op->nregion > 0 || op->nout == 0 || !(op_info[op->kind].traits & PURE))
		return 2;
	if (op->kind == OP_PROGRAM_ID || op->kind == OP_BLOCK_ID || (op->home != p->func->body && op->nin > 0))
		return 2;
	for (int i = 0; i < op->nout; i++)
		if (type_count(op->out[i].type) > BIG_TILE && storage_of(p, &op->out[i]).kind != STORE_ONE)
			return 2;
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind != TYPE_TENSOR)
			level = MAX(level, value_info(p, op->in[i])->level);
	return level;
}

static void
choose_arguments(Plan *p, Block *b, int level)
{
	bool is_flat = b->first && b->parent && in_flat_region(b->first);

	for (int i = 0; i < b->narg; i++) {
		bool has_slot = !is_flat && b->arg[i].type->kind != TYPE_TENSOR;
		set_storage(p, &b->arg[i], (Storage){.kind = has_slot ? STORE_SLOT : STORE_NONE});
		value_info(p, &b->arg[i])->level = level;
	}
}

void
storage_choose(Plan *p)
{
	VEC(Op *) ops = {0};
	Block *body = p->func->body;

	for (Op *op = body->first; op; op = op_after(op, body))
		vec_push(p->mem, &ops, op);
	for (int i = 0; i < ops.n; i++)
		count_uses(p, ops.at[i]);
	propagate_dense(p, ops.at, ops.n);
	choose_arguments(p, body, 1);
	for (int i = 0; i < ops.n; i++) {
		Op *op = ops.at[i];
		for (int r = 0; r < op->nregion; r++)
			choose_arguments(p, op->region[r], 2);
		for (int k = 0; k < op->nout; k++)
			set_storage(p, &op->out[k], choose(p, op, &op->out[k]));
		int level = level_of(p, op);
		for (int k = 0; k < op->nout; k++)
			value_info(p, &op->out[k])->level = level;
	}
}
