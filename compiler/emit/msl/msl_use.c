/* Liveness, uses, and what therefore is a variable.
 *
 * Roots are effects and regions.  A pure node that is used once, in its own region or in branches within it, is written
 * where it is used; a loop would compute it in each iteration.  What involves all lanes (a shuffle) must not move into an
 * arm of ?: or past the end of its region: it is an operand of the operation behind it, and that is a statement. */
#include "emit/msl/msl.h"

bool
msl_is_pure(const MslNode *n)
{
	return n->kind <= NODE_PRIM && (n->kind != NODE_PRIM || !thread_has_effect(n->t));
}

static void count_node(Msl *m, MslNode *n);

/* One use of a node's value in the text. */
static void
use(Msl *m, MslNode *n, MslNode *user, ThreadRegion *from, bool part)
{
	n->uses++;
	n->parts |= part;
	n->user = n->uses == 1 ? user : NULL;
	if (!n->live && n->kind != NODE_CARRIED && n->kind != NODE_INDEX)
		count_node(m, n);
	n->live = true;
	for (const ThreadRegion *b = from; b && b != n->t->home; b = b->outer)
		if (b->owner && b->owner->kind != NODE_IF)
			n->uses += n->kind != NODE_CONST;        /* one use per iteration */
}

/* Lanes as msl_expr writes them. */
static void
use_lanes(Msl *m, const Reg *r, int w, MslNode *user, ThreadRegion *from)
{
	MslNode *first = msl_def(m, r[0]);
	bool same = msl_is_splat(r, w);
	if (same || msl_is_sequence(m, r, w)) {
		use(m, first, user, from, first->width > 1 && (same || first->width != w));
		return;
	}
	for (int i = 0; i < w; i++) {
		MslNode *d = msl_def(m, r[i]);
		use(m, d, user, from, d->width > 1);
	}
}

static void
use_groups(Msl *m, const Reg *r, int n, int w, MslNode *user, ThreadRegion *from)
{
	for (int i = 0; i < n; i += w)
		use_lanes(m, r + i, w, user, from);
}

static void
count_access(Msl *m, MslNode *n)
{
	const ThreadAccess *at = n->t->at;
	use_lanes(m, &at->base, 1, n, n->t->home);
	if (at->offset)
		use_lanes(m, &at->offset, 1, n, n->t->home);
	if (at->mask)
		use_lanes(m, &at->mask, 1, n, n->t->home);
	for (int i = 0; n->kind == NODE_STORE && i < n->width; i += 4)
		use_lanes(m, n->in + i, MIN(4, n->width - i), n, n->t->home);
	if (n->kind == NODE_ATOMIC)
		use_groups(m, n->in, n->nin, 1, n, n->t->home);
}

static void
count_node(Msl *m, MslNode *n)
{
	n->live = true;
	switch (n->kind) {
	case NODE_OP: case NODE_CAST: case NODE_CALL:
		use_groups(m, n->in, n->nin, n->width, n, n->t->home);
		return;
	case NODE_PACK:
		use_lanes(m, n->in, n->nin, n, n->t->home);
		return;
	case NODE_LOAD: case NODE_STORE: case NODE_ATOMIC:
		count_access(m, n);
		return;
	default:
		use_groups(m, n->in, n->nin, 1, n, n->t->home);
	}
}

/* Carried registers by variable. */
static void
use_carried(Msl *m, const MslNode *n, const Reg *given, const Reg *r, ThreadRegion *from)
{
	for (int i = 0; i < msl_carried(n); i += msl_def(m, given[i])->width)
		use_lanes(m, r + i, msl_def(m, given[i])->width, (MslNode *)n, from);
}

static void
count_roots(Msl *m, ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		MslNode *n = msl_beside(m, r->body.at[i]);
		bool region = msl_is_region(n);
		if (n->kind == NODE_STORE || n->kind == NODE_ATOMIC || n->kind == NODE_TEST || region ||
		    (n->kind == NODE_PRIM && !msl_is_pure(n)))
			count_node(m, n);
		if (!region)
			continue;
		if (n->kind != NODE_IF)
			use_carried(m, n, msl_inside(n), msl_init(n), r);
		for (int k = 0; k < 2 && n->t->region[k]; k++)
			count_roots(m, n->t->region[k]);
		for (int k = 0; k < 2 && n->t->region[k]; k++)
			use_carried(m, n, n->kind == NODE_IF ? n->t->out : msl_inside(n), n->t->region[k]->yield,
			    n->t->region[k]);
	}
}

void
msl_count(Msl *m, ThreadRegion *r, MslNode *returns)
{
	count_roots(m, r);
	if (returns)
		use_lanes(m, r->yield, 1, returns, r);
}
