/* The pairs of accesses that need a barrier, for people: those that put it there, and of what follows it up to the next one
 * all that would need it too.
 *
 *     get %k …                                reads a slot
 *     if %more {sync = true}                  before copies fill it again, and those of v the slot that a get of v read
 */
#include "pass/place/hazard.h"

static bool
comes_first(const Op *a, const Op *b)
{
	for (const Op *op = a->home->func->body->first; op; op = op_after(op, a->home->func->body))
		if (op == a || op == b)
			return op == a;
	return true;
}

void
pairs_note(PairNotes *k, const Op *at, const Effect *before, const Effect *after)
{
	if (!k->pairs)
		return;
	for (int i = 0; i < k->pairs->n; i++) {
		const BarrierPair *p = &k->pairs->at[i];
		if (p->at == at && p->before == before->op && p->after == after->op)
			return;
	}
	BarrierPair pair = {.at = at, .before = before->op, .after = after->op, .before_writes = before->write,
	    .after_writes = after->write, .is_global = before->global,
	    .lo = after->hi ? MAX(before->lo, after->lo) : before->lo,
	    .hi = after->hi ? MIN(before->hi, after->hi) : before->hi};
	pair.is_earlier = before->op == after->op || !comes_first(before->op, after->op);
	vec_push(k->mem, k->pairs, pair);
}

/* Copies that have landed are shown to all by the first barrier behind the wait, and matter to all readers. */
static void
note_shown(PairNotes *k, const Op *at, const Effects *open, Arena *tmp)
{
	Effects shown = {0};
	for (int i = 0; i < open->n; i++)
		if (open->at[i].op->kind == OP_WAIT)
			effects_add(&shown, open->at[i], tmp);
	if (shown.n == 0)
		return;
	k->shown = shown;
	k->shown_at = at;
}

void
pairs_close(PairNotes *k, const Op *at, const Effects *open, Arena *tmp)
{
	k->at = at;
	k->closed = k->pairs && open ? effects_copy(open, tmp) : (Effects){0};
	if (k->pairs && open)
		note_shown(k, at, open, tmp);
}

/* Is it in the loop around the barrier?  Behind it others stand. */
static bool
is_in_loop(const Op *op, const Op *barrier)
{
	const Op *loop = FIND_NEXT(up, barrier->home->parent, up->home->parent, op_is_loop(up));
	return !loop || op_inside(op, loop->region[loop->nregion - 1]);
}

static void
note_after(PairNotes *k, const Op *at, const Effects *closed, const Effect *after)
{
	for (int i = 0; at && is_in_loop(after->op, at) && i < closed->n; i++)
		if (effect_hazard(&closed->at[i], after) == SYNC_BLOCK)
			pairs_note(k, at, &closed->at[i], after);
}

void
pairs_note_later(PairNotes *k, const Effect *after)
{
	note_after(k, k->at, &k->closed, after);
	if (!after->write)
		note_after(k, k->shown_at, &k->shown, after);
}
