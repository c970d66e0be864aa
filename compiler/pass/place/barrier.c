/* Puts a barrier of the block (`sync`) before each op that has a hazard: it writes what other threads may still read or
 * wrote, or reads what they wrote.
 *
 *     %b = convert %a {smem = 0}                          writes and reads its scratch, with a barrier of its own between
 *     %c = convert %b {smem = 0, sync = true}             may not write before all have read
 *
 * One walk in the order of execution keeps the effects since the last barrier.  An op with a hazard on one of them gets the
 * barrier, and then nothing is left.  Where all its hazards are on bytes that the same warp touched, by layouts and the
 * placement in shared memory, a barrier of each warp does (`sync_warp`), and where the same thread did, none is needed.
 * A loop's body is walked twice, the second time after itself, so that hazards between iterations are found; branches
 * are walked apart and what both leave is joined.  In a nest of loops each would double the walks of those within: what a
 * walk of a loop came to is remembered, and a loop that is still walked too often gets a barrier at the start of each
 * iteration, after which one walk is enough.  Scratch has its own barrier of the block, after which only its readers are
 * left; a convert in which no warp reads what another wrote has one of each warp.
 *
 * Asynchronous copies write when they are waited for, each thread for its own: a wait is a write of all that such copies
 * fill.  Programs run in any order: in a loop over them, accesses of device memory by two programs need no barrier.
 *
 * Roles part behind a barrier of the block.  Each region is walked by itself, and a barrier in it is of the role's threads;
 * mbarriers order what goes from one role to another.  An arrival says that the role is done with a slot, and that it has
 * seen the phases that it waited for.  Where one thread arrives for all, this comes before it by a barrier of the role;
 * where a lane of each warp does, by one of the warp.  A lone producer's own order is enough. */
#include "pass/async/pipeline.h"
#include "pass/layout/axis.h"
#include "pass/place/hazard.h"

/* What a walk of a loop made of the effects before it. */
typedef struct LoopWalk {
	const Op *loop;
	int nsync;                                      /* barriers when it began; -1: it put some itself */
	Effects before, after;
} LoopWalk;

typedef struct Barrier {
	Module *m;
	Arena *tmp;
	const Target *t;
	Effects open;                                   /* since the last barrier */
	Buffers filled;
	VEC(const Op *) counted;                        /* copies that mbarriers count */
	VEC(LoopWalk) walks;
	int nsync;                                      /* barriers put so far */
	bool observed;                                  /* do programs see the order of others' writes? */
	bool checks;                                    /* puts none: */
	const Op *missing;                              /* the first op that lacks one */
	PairNotes notes;                                /* what needs each barrier */
} Barrier;

/* ---- barriers ---- */

static void
note_warp_sync(Barrier *k)
{
	for (int i = 0; i < k->open.n; i++)
		k->open.at[i].is_warp_synced = true;
}

/* `has` and `set` are those of {sync} or {sync_warp}. */
static void
put_sync(Barrier *k, Op *op, bool has, void (*set)(Module *m, Op *op, bool v))
{
	if (has)
		return;
	k->nsync++;
	if (!k->checks)
		set(k->m, op, true);
	else if (!k->missing)
		k->missing = op;
}

static void
sync_before(Barrier *k, Op *op)
{
	put_sync(k, op, attr_sync(op), attr_set_sync);
	pairs_close(&k->notes, op, &k->open, k->tmp);
	k->open.n = 0;
}

/* ---- ops ---- */

/* A release comes after all writes by any thread; after other releases only where programs see the order, and those of its
 * own op, in a loop, each give their own elements away. */
static bool
releases(Barrier *k, const Op *op)
{
	if (!drain_releases(op))
		return false;
	for (int i = 0; i < k->open.n; i++) {
		const Effect *e = &k->open.at[i];
		if (e->global && e->write && (!drain_releases(e->op) || (k->observed && e->op != op))) {
			pairs_note(&k->notes, op, e, &(Effect){.op = op, .global = true, .write = true});
			return true;
		}
	}
	return false;
}

/* Each warp waits for its own part of a dot. */
static bool
is_of_warp(const Effect *e)
{
	return e->is_warp_synced || op_family(e->op) == FAMILY_DOT_ASYNC;
}

/* Does a copy that the mbarrier counts fill what the effect is on? */
static bool
is_counted(const Barrier *k, const Effect *e, const Value *mbarrier)
{
	for (int i = 0; i < k->counted.n; i++) {
		const Op *copy = k->counted.at[i];
		int data = access_data(copy);
		if (copy->in[data + 1] == mbarrier && buffer_owner(copy->in[data]) == e->of)
			return true;
	}
	return false;
}

/* Do all of the role's threads arrive in this phase, or one for each warp, when what they copy has come?  Then none is a
 * phase behind. */
static bool
all_arrive(const Op *op)
{
	for (const Op *other = op->home->first; other; other = op_after(other, op->home)) {
		bool copies = op_is_counted_copy(other) && !op_is_bulk_copy(other);
		int at = copies ? access_data(other) + 1 : 0;
		if ((copies || (other->kind == OP_ARRIVE && *attr_by(other))) && other->in[at] == op->in[0])
			return true;
	}
	return false;
}

/* The scope of the barrier before an arrival: one thread arrives for all of them, or one lane for its warp. */
static SyncScope
arrival_scope(Barrier *k, const Op *op)
{
	bool by_warp = *attr_by(op);

	if ((op->kind != OP_ARRIVE && op->kind != OP_EXPECT) || (op->kind == OP_EXPECT && all_arrive(op)))
		return SYNC_NONE;
	for (int i = 0; i < k->open.n; i++) {
		const Effect *e = &k->open.at[i];
		bool is_access = e->op->kind != OP_AWAIT;
		bool is_other = effect_has_other_number(e, op->in[1]) || (is_access && !is_counted(k, e, op->in[0]));
		if (op->kind == OP_EXPECT && is_other)
			continue;                       /* what it counts is of its own slot */
		if ((!by_warp || !is_of_warp(e)) && effect_is_arrived(e, op)) {
			pairs_note(&k->notes, op, e, &(Effect){.op = op, .write = true});
			return by_warp ? SYNC_WARP : SYNC_BLOCK;
		}
	}
	return SYNC_NONE;
}

/* For the barrier before `at`, which e is an access of, or in. */
static SyncScope
find_hazard(Barrier *k, const Op *at, const Effect *e)
{
	SyncScope most = SYNC_NONE;
	for (int i = 0; i < k->open.n; i++) {
		SyncScope scope = effect_hazard(&k->open.at[i], e);
		if (scope == SYNC_BLOCK || (scope == SYNC_WARP && !attr_sync(at)))
			pairs_note(&k->notes, at, &k->open.at[i], e);
		most = MAX(most, scope);
	}
	pairs_note_later(&k->notes, e);
	return most;
}

/* A wait itself touches nothing: copies, each with its own hazards, have written by then, and products of the iteration
 * before have read. */
static SyncScope
find_hazards(Barrier *k, const Op *op, const Effects *effects)
{
	SyncScope most = SYNC_NONE;

	if (effects->n && (effects->at[0].op->kind == OP_WAIT || effects->at[0].op->kind == OP_SENT ||
	    effects->at[0].distance > 0))
		return most;
	for (int i = 0; i < effects->n; i++) {
		SyncScope scope = find_hazard(k, op, &effects->at[i]);
		most = MAX(most, scope);
	}
	return most;
}

/* Written, a barrier of the plan's scope, read. */
static void
add_scratch(Barrier *k, const Op *op, const OpPlan *plan)
{
	if (plan->sync == SYNC_WARP) {
		effects_add(&k->open, scratch_write(op, k->t, plan, k->tmp), k->tmp);
		note_warp_sync(k);
	} else if (plan->sync == SYNC_NONE) {
		effects_add(&k->open, scratch_write(op, k->t, plan, k->tmp), k->tmp);
		return;
	} else {
		pairs_close(&k->notes, NULL, NULL, NULL);
		k->open.n = 0;
	}
	effects_add(&k->open, scratch_read(op, k->t, plan, k->tmp), k->tmp);
}

/* The lanes of a warp wait for its dots together, so all have seen the phases that they waited for before. */
static void
end_awaits(Barrier *k)
{
	for (int i = 0; i < k->open.n; i++)
		if (k->open.at[i].op->kind == OP_AWAIT)
			k->open.at[i].is_warp_synced = true;
}

static void
visit(Barrier *k, Op *op)
{
	OpPlan plan = plan_op(op, k->t);
	Effects effects = effects_of(op, &k->filled, k->tmp);
	SyncScope scope = find_hazards(k, op, &effects);

	SyncScope arrival = arrival_scope(k, op);
	scope = MAX(scope, arrival);
	if (plan.scratch) {
		Effect e = scratch_write(op, k->t, &plan, k->tmp);
		SyncScope own = find_hazard(k, op, &e);
		scope = MAX(scope, own);
	}
	if (releases(k, op) || attr_sync(op) || scope == SYNC_BLOCK) {
		sync_before(k, op);
	} else if (attr_sync_warp(op) || scope == SYNC_WARP) {
		put_sync(k, op, attr_sync_warp(op), attr_set_sync_warp);
		note_warp_sync(k);
	}
	if (plan.scratch)
		add_scratch(k, op, &plan);
	for (int i = 0; i < effects.n; i++)
		if (!effect_is_asynchronous(&effects.at[i]))
			effects_add(&k->open, effects.at[i], k->tmp);
	if (op->kind == OP_SPLIT_GET && split_gets_own(op)) {
		const Op *put = op->in[0]->def;
		OpPlan of = plan_op(put, k->t);
		effects_add(&k->open, scratch_read(put, k->t, &of, k->tmp), k->tmp);
	}
	if (op->kind == OP_DOT_WAIT)
		end_awaits(k);
	if (op->kind == OP_CLUSTER_BARRIER || (attr_cluster(op) && op->kind != OP_SPLIT_PUT)) {
		k->open.n = 0;
		pairs_close(&k->notes, NULL, NULL, NULL);
	}
}

/* ---- loops ---- */

static void walk(Barrier *k, Block *b);

static void
close_global(Effects *open)
{
	int n = 0;

	for (int i = 0; i < open->n; i++)
		if (!open->at[i].global)
			open->at[n++] = open->at[i];
	open->n = n;
}

/* A second iteration finds nothing new where the first one left nothing of the loop's own, or where it starts with a
 * barrier. */
static void
walk_iterations(Barrier *k, Op *op, bool is_cut)
{
	Block *body = op->region[op->nregion - 1];
	Effects at_exit;

	for (int i = 0; i < 2 || (i < 4 && has_distant_slot(&k->open)); i++) {
		if (op->kind == OP_WHILE)
			walk(k, op->region[0]);
		if (i == 0)
			at_exit = effects_copy(&k->open, k->tmp);
		walk(k, body);
		if (!ANY_OF(e, k->open.n, ANY_OF(r, op->nregion, op_inside(k->open.at[e].op, op->region[r]))))
			break;
		advance_iteration(&k->open, body);
		advance_iteration(&k->notes.closed, body);
		if (op_is_over_programs(op))
			close_global(&k->open);
		if (is_cut)
			break;
	}
	if (op->kind == OP_WHILE)
		walk(k, op->region[0]);
	effects_join(&k->open, &at_exit, k->tmp);
	close_rings(&k->open, op);
}

/* Puts a barrier before the first op of each iteration, which then begins alike, whatever came before. */
static bool
cut_iterations(Barrier *k, const Op *loop)
{
	for (int r = 0; r < loop->nregion; r++) {
		Op *first = loop->region[r]->first;
		if (first->kind == OP_YIELD)
			continue;
		put_sync(k, first, attr_sync(first), attr_set_sync);
		return true;
	}
	return false;
}

/* The walk that began with the same effects and barriers and put none: another would end as it did.  Counts all the
 * loop's. */
static const LoopWalk *
find_walk(const Barrier *k, const Op *loop, int *nwalk)
{
	for (int i = 0; i < k->walks.n; i++) {
		const LoopWalk *w = &k->walks.at[i];
		if (w->loop != loop)
			continue;
		++*nwalk;
		if (w->nsync == k->nsync && effects_equal(&w->before, &k->open))
			return w;
	}
	return NULL;
}

/* What a loop adds up in shared memory was put there before it: one barrier, and none in its iterations. */
static void
sync_before_tallies(Barrier *k, Op *loop)
{
	for (const Op *op = loop->region[0]->first; op; op = op_after(op, loop->region[0])) {
		Effects effects = op->kind == OP_TALLY ? effects_of(op, &k->filled, k->tmp) : (Effects){0};
		if (find_hazards(k, loop, &effects) == SYNC_BLOCK) {
			sync_before(k, loop);
			return;
		}
	}
}

enum { WALKS_MOST = 128 };                      /* seven loops around, each of which leaves something new */

static void
walk_loop(Barrier *k, Op *op)
{
	int nwalk = 0;

	sync_before_tallies(k, op);
	if (attr_sync(op))
		k->open.n = 0;
	const LoopWalk *same = find_walk(k, op, &nwalk);
	if (same) {
		k->open = effects_copy(&same->after, k->tmp);
		return;
	}
	LoopWalk w = {.loop = op, .before = effects_copy(&k->open, k->tmp)};
	bool is_cut = nwalk >= WALKS_MOST && cut_iterations(k, op);
	w.nsync = k->nsync;
	walk_iterations(k, op, is_cut);
	w.after = effects_copy(&k->open, k->tmp);
	if (w.nsync != k->nsync)
		w.nsync = -1;
	vec_push(k->tmp, &k->walks, w);
}

/* ---- branches ---- */

/* A copy for a later iteration stands in a branch that tests whether there is one, and must come after the last readers
 * of its slot, and what counts its bytes after that was initialised.  What follows the branch needs the same barrier, so
 * there is one, before the branch. */
static SyncScope
copies_before_readers(Barrier *k, const Op *branch)
{
	SyncScope most = SYNC_NONE;

	for (int r = 0; r < branch->nregion; r++)
		for (const Op *op = branch->region[r]->first; op; op = op_after(op, branch->region[r])) {
			bool begins = op->kind == OP_COPY || op->kind == OP_EXPECT;
			Effects effects = begins ? effects_of(op, &k->filled, k->tmp) : (Effects){0};
			for (int i = 0; i < effects.n && (k->notes.pairs || most != SYNC_BLOCK); i++)
				if (!effects.at[i].global) {
					SyncScope scope = find_hazard(k, branch, &effects.at[i]);
					most = MAX(most, scope);
				}
		}
	return most;
}

static void
walk_branch(Barrier *k, Op *op)
{
	SyncScope scope = copies_before_readers(k, op);

	if (scope == SYNC_BLOCK || attr_sync(op)) {
		sync_before(k, op);
	} else if (scope == SYNC_WARP || attr_sync_warp(op)) {
		put_sync(k, op, attr_sync_warp(op), attr_set_sync_warp);
		note_warp_sync(k);
	}
	Effects before = effects_copy(&k->open, k->tmp);

	const PairNotes notes = k->notes;
	walk(k, op->region[0]);
	Effects then = k->open;
	const Op *last = k->notes.at;
	k->open = before;
	k->notes = notes;
	walk(k, op->region[1]);
	effects_join(&k->open, &then, k->tmp);
	if (last != notes.at || k->notes.at != notes.at)
		pairs_close(&k->notes, NULL, NULL, NULL);
}

/* All see what was set up; then the roles part. */
static void
walk_roles(Barrier *k, Op *op)
{
	Effects left = {0};

	if (k->open.n) {
		pairs_note(&k->notes, op, &k->open.at[0], &(Effect){.op = op});
		sync_before(k, op);
	}
	for (int r = 0; r < op->nregion; r++) {
		k->open = (Effects){0};
		pairs_close(&k->notes, NULL, NULL, NULL);
		if (r > 0 || !attr_lone(op))
			walk(k, op->region[r]);
		effects_join(&left, &k->open, k->tmp);
	}
	k->open = left;
}

static void
walk(Barrier *k, Block *b)
{
	for (Op *op = b->first; op; op = op->next) {
		if (op_is_loop(op))
			walk_loop(k, op);
		else if (op->kind == OP_IF)
			walk_branch(k, op);
		else if (op->kind == OP_ROLES)
			walk_roles(k, op);
		else
			visit(k, op);
	}
}

static const Op *
run(Func *f, const Target *t, bool checks, BarrierPairs *pairs, Arena *mem)
{
	Barrier k = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .checks = checks,
	    .observed = func_observes_order(f), .notes = {.pairs = pairs, .mem = mem}};

	axis_keep(f);
	k.filled = find_filled(f->body, k.tmp);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_is_counted_copy(op))
			vec_push(k.tmp, &k.counted, op);
	walk(&k, f->body);
	return k.missing;
}

const char *
check_synced(Func *f, const Target *t, const Op **at)
{
	*at = run(f, t, true, NULL, NULL);
	return *at ? "a hazard without a barrier, though the module claims SYNCED" : NULL;
}

BarrierPairs
barrier_pairs(const Func *f, const Target *t, Arena *mem)
{
	BarrierPairs pairs = {0};
	run((Func *)f, t, true, &pairs, mem);
	return pairs;
}

void
pass_barrier(Func *f, const Target *t)
{
	place_proxy_fences(f, t);
	run(f, t, false, NULL, NULL);
	place_read_fences(f);
}
