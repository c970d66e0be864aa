/* Rewriting a module in place for a target whose writer needs other nodes.
 *
 * One walk, in order.  A node's operands are replaced by what those became; then the target's choice may change it, or put
 * others in front of it, or find it needless.  What stays is simplified and numbered again, as if it were recorded now;
 * what is dead afterwards goes. */
#include "thread/builder.h"

typedef struct Rewrite {
	ThreadBuilder *b;
	ThreadChoice choose;
	void *state;
	Reg *became;                                    /* by Reg - 1, of the registers there were at first */
	int nbecame;
} Rewrite;

ThreadModule *
thread_module_of(ThreadBuilder *b)
{
	return b->m;
}

Reg
thread_pointer_by(ThreadBuilder *b, Reg base, Reg offset, int unit)
{
	RegType t = thread_type_of(b, base);
	Reg in[2] = {base, offset};
	return thread_pure(b, &(ThreadNode){.kind = NODE_POINTER, .type = t, .in = in, .nin = 2, .i = unit,
		.range = thread_range_any(t)}, 1)->out[0];
}

static void
follow(const Rewrite *w, Reg *r)
{
	if (*r <= w->nbecame)
		*r = w->became[*r - 1];
}

/* A name goes to what has none. */
static void
replace(const Rewrite *w, Reg old, Reg new)
{
	ThreadValue *v = &w->b->m->reg.at[new - 1];
	w->became[old - 1] = new;
	if (!v->hint && v->def->kind != NODE_CONST && v->def->kind != NODE_PARAM)
		v->hint = w->b->m->reg.at[old - 1].hint;
}

static bool
is_pure(const ThreadNode *n)
{
	switch (n->kind) {
	case NODE_OP: case NODE_CAST: case NODE_PACK: case NODE_UNPACK: case NODE_LOOKUP: case NODE_POINTER: case NODE_CALL:
		return true;
	case NODE_PRIM: return n->nout > 0 && !(prim_info[n->op].flags & (CONV | MEM));
	default: return false;
	}
}

static Reg
simplified(ThreadBuilder *b, const ThreadNode *n)
{
	if (n->kind == NODE_OP)
		return thread_simplified(b, (EmitOp)n->op, n->in[0], n->nin > 1 ? n->in[1] : 0, n->nin > 2 ? n->in[2] : 0);
	return n->kind == NODE_CAST ? thread_simplified_cast(b, (EmitCast)n->op, n->type, n->in[0]) : 0;
}

static void visit_region(Rewrite *w, ThreadRegion *r);

static void
visit(Rewrite *w, ThreadNode *n)
{
	Reg *use, r;
	for (int i = 0; (use = thread_operand(n, i)); i++)
		follow(w, use);
	w->b->place = n->place;
	r = simplified(w->b, n);
	if (!r)
		r = w->choose(w->b, n, w->state);
	if (r) {
		replace(w, n->out[0], r);
		return;
	}
	const ThreadNode *kept = n;
	if (is_pure(n))
		kept = thread_number(w->b, n);
	else
		thread_append(w->b, n);
	for (int i = 0; i < n->nout && kept != n; i++)
		replace(w, n->out[i], kept->out[i]);
	for (int k = 0; k < 2 && n->region[k]; k++)
		visit_region(w, n->region[k]);
}

static void
visit_region(Rewrite *w, ThreadRegion *r)
{
	ThreadBuilder *b = w->b;
	ThreadRegion *outer = b->region;
	ThreadNode **body = r->body.at;
	int n = r->body.n, numbers = b->value.number.n;
	b->region = r;
	r->body.at = NULL;
	r->body.n = r->body.cap = 0;
	for (int i = 0; i < n; i++)
		visit(w, body[i]);
	for (int i = 0; i < r->nyield; i++)
		follow(w, &r->yield[i]);
	thread_leave(b, numbers);
	b->region = outer;
}

void
thread_rewrite(ThreadModule *m, ThreadChoice choose, void *state)
{
	Rewrite w = {.b = thread_reopen(m), .choose = choose, .state = state, .nbecame = m->reg.n};
	w.became = NEW_ARRAY(m->mem, Reg, m->reg.n);
	for (int i = 0; i < m->reg.n; i++)
		w.became[i] = i + 1;
	for (int i = 0; i < m->functions.n; i++)
		visit_region(&w, m->functions.at[i]->body);
	visit_region(&w, m->body);
	thread_sweep(m);
}
