/* The wait for the grids before stands as late as it may: what touches no memory, such as the program's place and
 * addresses, is computed while those grids end.
 *
 *     prim grid_wait                              r5: i32 = …
 *     r5: i32 = …                        =>       if r6 {
 *     if r6 {                                         r7: global = pointer r1, r5
 *         r7: global = pointer r1, r5                 prim grid_wait
 *         … load r7                                   … load r7
 *     }                                           } else {
 *                                                     prim grid_wait
 *                                                 }
 *
 * Mbarriers are set up before it, too, and the launch's tensor maps fetched.  A product of 1 x 8192 x 8192 by 4-bit weights
 * takes 12.2 us on an H200 so, and 12.5 with the wait first; 1181 x 1752 x 448 and 2726 x 840 x 408 by tensor maps 6.7 and
 * 8.0, and 7.2 and 8.4 with both behind it. */
#include "thread/builder.h"

enum { DEEP = 16, NESTED = 3 };                         /* nodes of a condition; branches, one within the other */

/* Not barriers: ptxas invalidates what is cached of device memory with those of clusters. */
static bool
sets_up(PrimKind k)
{
	return k == PRIM_TENSOR_MAP || k == PRIM_MBAR_INIT || k == PRIM_FENCE_MBAR;
}

static bool
passes(const ThreadNode *n)
{
	bool is_value = n->kind == NODE_PARAM || n->kind == NODE_SHARED || n->kind == NODE_CONST;
	if (n->kind == NODE_PRIM)
		return sets_up(n->op) || (n->nout > 0 && !(prim_info[n->op].flags & MEM));
	for (int r = 0; r < 2 && n->kind == NODE_IF; r++)
		for (int i = 0; n->region[r] && i < n->region[r]->body.n; i++)
			if (!passes(n->region[r]->body.at[i]))
				return false;
	return is_value || n->kind == NODE_IF || thread_is_pure(n);
}

/* Is it the same for all threads of the block, as far as it is computed from what is? */
static bool
is_uniform(const ThreadModule *m, Reg r, int depth)
{
	ThreadNode *n = thread_def(m, r);
	if (n->kind == NODE_PARAM || n->kind == NODE_CONST || (n->kind == NODE_PRIM && n->op == PRIM_BLOCK))
		return true;
	if ((n->kind != NODE_OP && n->kind != NODE_CAST) || depth == DEEP)
		return false;
	return ALL_OF(i, n->nin, is_uniform(m, n->in[i], depth + 1));
}

static void
insert(ThreadModule *m, ThreadRegion *r, int at, ThreadNode *n)
{
	vec_push(m->mem, &r->body, n);
	for (int i = r->body.n - 1; i > at; i--)
		r->body.at[i] = r->body.at[i - 1];
	r->body.at[at] = n;
	n->home = r;
}

static void
sink(ThreadModule *m, ThreadNode *wait, ThreadRegion *r, int at, int nested)
{
	while (at < r->body.n && passes(r->body.at[at]))
		at++;
	ThreadNode *next = at < r->body.n ? r->body.at[at] : NULL;
	if (!next || next->kind != NODE_IF || nested == NESTED || !next->region[1] || !is_uniform(m, next->in[0], 0)) {
		insert(m, r, at, wait);
		return;
	}
	ThreadNode *other = NEW_COPY(m->mem, wait, 1);
	other->id = m->nnode++;
	sink(m, wait, next->region[0], 0, nested + 1);
	sink(m, other, next->region[1], 0, nested + 1);
}

void
thread_wait_late(ThreadModule *m)
{
	ThreadRegion *r = m->body;
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		if (n->kind == NODE_PRIM && n->op == PRIM_GRID_WAIT) {
			for (int k = i; k + 1 < r->body.n; k++)
				r->body.at[k] = r->body.at[k + 1];
			r->body.n--;
			sink(m, n, r, i, 0);
			return;
		}
		if (!passes(n))
			return;
	}
}
