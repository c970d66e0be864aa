/* Moves reads up past reductions, scans and dots, so that memory answers while the block computes.
 *
 *     %x = read %a, ...                         %x = read %a, ...
 *     %s = reduce %x ...                   =>   %w = read %weights, ...
 *     %w = read %weights, ...                   %s = reduce %x ...
 *     %y = mul %x, ...                          %y = mul %x, ...
 *
 * A reduction across warps is a barrier, behind which a machine cannot look for loads to start.  Only reads of `in`
 * tensors move (nothing in a launch writes them), within their block, with the scalars that their indices are made of,
 * and only as many as fit into a budget of registers, for what is read early is held longer. */
#include "pass/pass.h"

enum { MOST_WORDS = 32 };                               /* 32-bit registers of a thread that reads may hold early */

/* Ops that a thread waits in. */
static bool
waits(const Op *op)
{
	switch (op->kind) {
	case OP_REDUCE: case OP_REDUCE_FN: case OP_SCAN: case OP_SCAN_FN: case OP_SORT: case OP_TOPK: case OP_HISTOGRAM:
	case OP_DOT: case OP_FOR: case OP_WHILE:
		return true;
	default:
		return false;
	}
}

static bool
is_constant_read(const Op *op)
{
	const Value *t = op->kind == OP_READ ? op->in[0] : NULL;
	if (!t || t->def || t->block->parent || t->type->kind != TYPE_TENSOR)
		return false;
	const FuncParam *p = &t->block->func->param[t->index];
	return p->kind == PARAM_TENSOR && p->access == ACCESS_IN;
}

static int
words(const Value *v)
{
	int64_t n = v->layout ? INT64_C(1) << v->layout->in[IN_REGISTER] : 1;
	int64_t bits = n * dtype_info[v->type->elem].bits;
	return (int)MIN((bits + 31) / 32, 1 << 20);
}

/* Can v be had before `spot`, moving nothing but pure scalars and small tiles of indices? */
static bool
available(const Value *v, const Op *spot, int depth)
{
	const Op *op = v->def;
	if (!op || op->home != spot->home)
		return true;
	for (const Op *o = op->next; o; o = o->next)
		if (o == spot)
			return true;
	if (!(op_info[op->kind].traits & PURE) || op->nregion || waits(op) || v->type->rank > 0 || depth > 16)
		return false;
	for (int i = 0; i < op->nin; i++)
		if (!available(op->in[i], spot, depth + 1))
			return false;
	return true;
}

static bool
is_before(const Op *op, const Op *spot)
{
	for (const Op *o = op->next; o; o = o->next)
		if (o == spot)
			return true;
	return false;
}

static void
bring(Op *op, Op *spot)
{
	for (int i = 0; i < op->nin; i++) {
		Op *def = op->in[i]->def;
		if (def && def->home == spot->home && !is_before(def, spot))
			bring(def, spot);
	}
	op_move(op, spot->home, spot);
}

/* Reads behind the first op that waits go before it, as far as `budget` words last. */
static void
hoist(Block *b, int budget)
{
	Op *spot = b->first;
	while (spot && !waits(spot))
		spot = spot->next;
	for (Op *op = spot, *next; op; op = next) {
		next = op->next;
		if (!is_constant_read(op) || op->out->type->rank == 0 || words(op->out) > budget)
			continue;
		bool all = true;
		for (int i = 0; i < op->nin && all; i++)
			all = available(op->in[i], spot, 0);
		if (!all)
			continue;
		budget -= words(op->out);
		bring(op, spot);
	}
}

static void
walk(Block *b)
{
	hoist(b, MOST_WORDS);
	for (Op *op = b->first; op; op = op->next)
		for (int r = 0; r < op->nregion; r++)
			walk(op->region[r]);
}

void
pass_early(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n; i++)
		walk(m->funcs.at[i]->body);
}
