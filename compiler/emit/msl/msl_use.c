/* What lives, how often it is used, and what therefore is a variable.
 *
 * Roots are effects and regions.  A pure node that is used once, in its own block or in branches below it, is written
 * where it is used; in a loop it would be computed again and again.  What involves all lanes (a shuffle) must not slip
 * into a branch of ?: or past the end of its block: it goes into the operation behind it, and that is a statement. */
#include "emit/msl/msl.h"

/* A primitive that is more than its value; PRIM_COUNT, the simdgroup's number, is none of the table's rows. */
static bool
has_effect(const MslNode *n)
{
	return n->kind == MSL_PRIM && n->op < PRIM_COUNT && prim_info[n->op].flags & MEM;
}

bool
msl_is_pure(const MslNode *n)
{
	return n->kind <= MSL_PRIM && !has_effect(n);
}

static void count_node(Msl *m, MslNode *n);

/* One place where a node's value is written. */
static void
use(Msl *m, MslNode *n, MslNode *user, MslBlock *from, bool part)
{
	n->uses++;
	n->parts |= part;
	n->user = n->uses == 1 ? user : NULL;
	if (!n->live && n->kind != MSL_INSIDE)
		count_node(m, n);
	n->live = true;
	for (const MslBlock *b = from; b && b != n->home; b = b->outer)
		if (b->owner && b->owner->kind != MSL_IF)
			n->uses += n->kind != MSL_CONST;        /* once is as often as the loop goes round */
}

/* Lanes as msl_expr writes them. */
static void
use_lanes(Msl *m, const Reg *r, int w, MslNode *user, MslBlock *from)
{
	MslNode *first = msl_def(m, r[0]);
	bool same = true, sequence = true;
	for (int i = 1; i < w; i++) {
		same = same && r[i] == r[0];
		sequence = sequence && msl_def(m, r[i]) == first && msl_at(m, r[i]) == msl_at(m, r[0]) + i;
	}
	if (same || sequence) {
		use(m, first, user, from, first->width > 1 && (same ? w > 1 || first->width > 1 : first->width != w));
		return;
	}
	for (int i = 0; i < w; i++) {
		MslNode *d = msl_def(m, r[i]);
		use(m, d, user, from, d->width > 1);
	}
}

static void
use_groups(Msl *m, const Reg *r, int n, int w, MslNode *user, MslBlock *from)
{
	for (int i = 0; i < n; i += w)
		use_lanes(m, r + i, w, user, from);
}

static void
count_access(Msl *m, MslNode *n)
{
	const EmitAccess *at = &n->at;
	use_lanes(m, &at->base, 1, n, n->home);
	if (at->offset)
		use_lanes(m, &at->offset, 1, n, n->home);
	if (at->mask)
		use_lanes(m, &at->mask, 1, n, n->home);
	for (int i = 0; n->kind == MSL_STORE && i < n->width; i += 4)
		use_lanes(m, n->in + i, MIN(4, n->width - i), n, n->home);
	if (n->kind == MSL_ATOMIC)
		use_groups(m, n->in, n->nin, 1, n, n->home);
}

static void
count_node(Msl *m, MslNode *n)
{
	n->live = true;
	switch (n->kind) {
	case MSL_OP: case MSL_CAST: case MSL_CALL:
		use_groups(m, n->in, n->nin, n->width, n, n->home);
		return;
	case MSL_PACK:
		use_lanes(m, n->in, n->nin, n, n->home);
		return;
	case MSL_LOAD: case MSL_STORE: case MSL_ATOMIC:
		count_access(m, n);
		return;
	default:
		use_groups(m, n->in, n->nin, 1, n, n->home);
	}
}

/* Carried registers by variable. */
static void
use_carried(Msl *m, const MslNode *n, const Reg *given, const Reg *r, MslBlock *from)
{
	for (int i = 0; i < n->carried; i += msl_def(m, given[i])->width)
		use_lanes(m, r + i, msl_def(m, given[i])->width, (MslNode *)n, from);
}

static void
count_roots(Msl *m, MslBlock *b)
{
	for (int i = 0; i < b->body.n; i++) {
		MslNode *n = b->body.at[i];
		bool region = n->kind == MSL_LOOP || n->kind == MSL_WHILE || n->kind == MSL_IF;
		if (n->kind == MSL_STORE || n->kind == MSL_ATOMIC || n->kind == MSL_TRAP || n->kind == MSL_RETURN ||
		    region || has_effect(n))
			count_node(m, n);
		if (!region)
			continue;
		if (n->kind != MSL_IF)
			use_carried(m, n, n->inside, n->init, b);
		for (int k = 0; k < 2 && n->region[k]; k++)
			count_roots(m, n->region[k]);
		if (n->next[0])
			use_carried(m, n, n->kind == MSL_IF ? n->after : n->inside, n->next[0], n->region[0]);
		if (n->next[1])
			use_carried(m, n, n->after, n->next[1], n->region[1]);
	}
}

void
msl_count(Msl *m, MslBlock *b)
{
	count_roots(m, b);
}
