/* Which pointer parameters the pointers of a tile may come from.  An address alone does not tell: one past
 * the end of a buffer is often inside the next.  A forward analysis over the ops that give pointers,
 * repeated until no set grows; pointers made from integers may be any. */
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
flow_region(Plan *p, const Op *op, const Block *b, int first_in, int first_arg, int first_yielded)
{
	bool grew = false;
	const Op *end = b->last;

	for (int i = 0; i + first_arg < b->narg; i++) {
		if (first_in >= 0)
			grew |= add(p, &b->arg[i + first_arg], p->origin[op->in[i + first_in]->id]);
		if (op->kind == OP_FOR)
			grew |= add(p, &b->arg[i + first_arg], p->origin[end->in[i]->id]);
	}
	for (int i = 0; i < op->nout; i++)
		grew |= add(p, &op->out[i], p->origin[end->in[i + first_yielded]->id]);
	return grew;
}

static bool
flow_while(Plan *p, const Op *op)
{
	const Block *test = op->region[0], *body = op->region[1];
	bool grew = flow_region(p, op, test, 0, 0, 1);

	for (int i = 0; i < op->nout; i++) {
		grew |= add(p, &body->arg[i], p->origin[test->last->in[i + 1]->id]);
		grew |= add(p, &test->arg[i], p->origin[body->last->in[i]->id]);
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

	for (const Op *op = b->first; op; op = op->next) {
		for (int r = 0; r < op->nregion; r++)
			grew |= flow_block(p, op->region[r]);
		switch (op->kind) {
		case OP_FOR:
			for (int i = 0; i < op->nout; i++)
				grew |= add(p, &op->out[i], p->origin[op->in[i + 3]->id]);
			grew |= flow_region(p, op, op->region[0], 3, 1, 0);
			break;
		case OP_WHILE:
			grew |= flow_while(p, op);
			break;
		case OP_IF:
			grew |= flow_region(p, op, op->region[0], -1, 0, 0);
			grew |= flow_region(p, op, op->region[1], -1, 0, 0);
			break;
		default:
			grew |= flow_all(p, op);
			break;
		}
	}
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
