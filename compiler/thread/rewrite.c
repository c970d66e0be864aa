/* Rewriting a module in place: text that was read is simplified, a target whose writer needs other nodes gets them.
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

static void visit_region(Rewrite *w, ThreadRegion *r);

static void
visit(Rewrite *w, ThreadNode *n)
{
	ThreadBuilder *b = w->b;
	const ThreadNode *kept = n;
	Reg *use, *out = NEW_ARRAY(b->m->mem, Reg, n->nout + 1);
	for (int i = 0; (use = thread_operand(n, i)); i++)
		follow(w, use);
	b->place = n->place;
	if (thread_simplified(b, n, out) || (w->choose && (out[0] = w->choose(b, n, w->state)))) {
		for (int i = 0; i < n->nout; i++)
			replace(w, n->out[i], out[i]);
		return;
	}
	n->range = thread_range_node(b->m, n);
	if (thread_is_pure(n))
		kept = thread_number(b, n);
	else
		thread_append(b, n);
	for (int i = 0; i < n->nout && kept != n; i++)
		replace(w, n->out[i], kept->out[i]);
	if (n->kind == NODE_LOOP)
		thread_loop_range(b->m, n);
	for (int k = 0; k < 2 && n->region[k]; k++)
		visit_region(w, n->region[k]);
}

static void
visit_region(Rewrite *w, ThreadRegion *r)
{
	ThreadBuilder *b = w->b;
	ThreadRegion *outer = b->region;
	ThreadNode **body = r->body.at;
	int n = r->body.n, numbers = b->value.all.n;
	b->region = r;
	r->body.at = NULL;
	r->body.n = r->body.cap = 0;
	for (int i = 0; i < n; i++)
		visit(w, body[i]);
	for (int i = 0; i < r->nyield; i++)
		follow(w, &r->yield[i]);
	table_leave(&b->value, numbers);
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
