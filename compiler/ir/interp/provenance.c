/* Which pointer parameters the pointers of a tile may come from.  An address alone does not tell: one past
 * the end of a buffer is often inside the next.  A forward analysis over the ops that give pointers,
 * repeated until no set grows; pointers made from integers may be any. */
#include "ir/derive.h"
#include "ir/interp/run.h"

static bool
add(Plan *p, const Value *v, uint64_t from)
{
	uint64_t *origin = &p->origin[v->id], old = *origin;

	if (v->type->kind != TYPE_TILE || v->type->ptr == PTR_NONE)
		return false;
	*origin |= from;
	return *origin != old;
}

static bool
flow_edges(Plan *p, const Op *op)
{
	bool grew = false;
	Value *from, *to;

	for (int e = 0; e < OP_EDGES * op->nout; e++) {
		op_edge(op, e / OP_EDGES, e % OP_EDGES, &from, &to);
		grew |= add(p, to, p->origin[from->id]);
	}
	return grew;
}

/* The region of a fold and ops without regions: results may come from anything that goes in. */
static bool
flow_all(Plan *p, const Op *op)
{
	uint64_t from = op->kind == OP_BITCAST && op->in[0]->type->ptr == PTR_NONE ? UINT64_MAX : 0;
	bool grew = false;

	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind == TYPE_TILE && op->in[i]->type->ptr != PTR_NONE)
			from |= p->origin[op->in[i]->id];
	for (int r = 0; r < op->nregion; r++)
		for (int i = 0; i < op->region[r]->narg; i++)
			grew |= add(p, &op->region[r]->arg[i], from);
	for (int i = 0; i < op->nout; i++)
		grew |= add(p, &op->out[i], from);
	return grew;
}

static bool
flow_block(Plan *p, const Block *b)
{
	bool grew = false;

	for (const Op *op = b->first; op; op = op_after(op, b))
		grew |= op_is_control(op) ? flow_edges(p, op) : flow_all(p, op);
	return grew;
}

void
provenance_find(Plan *p)
{
	const Block *body = p->func->body;

	p->origin = NEW_ARRAY(p->mem, uint64_t, p->func->nvalues);
	for (int i = 0; i < body->narg; i++)
		add(p, &body->arg[i], i < 63 ? UINT64_C(1) << i : UINT64_MAX);
	while (flow_block(p, body))
		continue;
}
