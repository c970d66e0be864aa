/* Dead code: what has no effect and whose results nothing uses is taken out of its region. */
#include "thread/thread.h"

typedef struct Sweep {
	const ThreadModule *m;
	bool *live;                                     /* by node */
	VEC(ThreadNode *) todo;                         /* live, operands not yet */
} Sweep;

bool
thread_has_effect(const ThreadNode *n)
{
	switch (n->kind) {
	case NODE_PRIM: return (prim_info[n->op].flags & MEM) != 0;
	case NODE_STORE: case NODE_ATOMIC: case NODE_WGMMA: case NODE_SETTLE: case NODE_PTX: case NODE_PRINT:
	case NODE_TRACE: case NODE_TEST:
		return true;
	case NODE_LOAD: return n->at->cache == CACHE_VOLATILE;
	default: return false;
	}
}

bool
thread_is_pure(const ThreadNode *n)
{
	switch (n->kind) {
	case NODE_OP: case NODE_CAST: case NODE_PACK: case NODE_UNPACK: case NODE_LOOKUP: case NODE_POINTER: case NODE_CALL:
		return true;
	case NODE_PRIM: return n->nout > 0 && !(prim_info[n->op].flags & (CONV | MEM));
	default: return false;
	}
}

static void
keep(Sweep *s, ThreadNode *n)
{
	if (s->live[n->id])
		return;
	s->live[n->id] = true;
	vec_push(s->m->mem, &s->todo, n);
	for (const ThreadRegion *r = n->home; r && r->owner && !s->live[r->owner->id]; r = r->owner->home) {
		s->live[r->owner->id] = true;
		vec_push(s->m->mem, &s->todo, r->owner);
	}
}

static void
keep_all(Sweep *s, const Reg *r, int n)
{
	for (int i = 0; i < n; i++)
		keep(s, thread_def(s->m, r[i]));
}

static void
find_effects(Sweep *s, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		if (thread_has_effect(n))
			keep(s, n);
		for (int k = 0; k < 2 && n->region[k]; k++)
			find_effects(s, n->region[k]);
	}
}

static void
follow(Sweep *s)
{
	while (s->todo.n) {
		ThreadNode *n = vec_pop(&s->todo);
		Reg *use;
		for (int i = 0; (use = thread_operand(n, i)); i++)
			keep(s, thread_def(s->m, *use));
		for (int k = 0; k < 2 && n->region[k]; k++)
			keep_all(s, n->region[k]->yield, n->region[k]->nyield);
	}
}

static void
cut(const Sweep *s, ThreadRegion *r)
{
	int kept = 0;
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		if (!s->live[n->id])
			continue;
		r->body.at[kept++] = n;
		for (int k = 0; k < 2 && n->region[k]; k++)
			cut(s, n->region[k]);
	}
	r->body.n = kept;
}

void
thread_sweep(ThreadModule *m)
{
	Sweep s = {.m = m, .live = NEW_ARRAY(m->mem, bool, m->nnode)};
	find_effects(&s, m->body);
	for (int i = 0; i < m->functions.n; i++) {
		find_effects(&s, m->functions.at[i]->body);
		keep_all(&s, m->functions.at[i]->body->yield, m->functions.at[i]->nresult);
	}
	follow(&s);
	cut(&s, m->body);
	for (int i = 0; i < m->functions.n; i++)
		cut(&s, m->functions.at[i]->body);
}
