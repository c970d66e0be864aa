/* Puts a barrier of the block (`sync`) before each op that another thread might otherwise overtake: one that writes what
 * a former op may still be reading or wrote, or reads what another thread wrote.
 *
 *     %b = convert %a {smem = 0}                          writes and reads its scratch, with a meeting of its own between
 *     %c = convert %b {smem = 0, sync = true}             may not write before all have read
 *
 * One walk in the order of execution keeps the uses since the last barrier.  An op that conflicts with one gets the
 * barrier, and then nothing is left.  Where all that it conflicts with are bytes that the same warp touched, by layouts
 * and the placement in shared memory, each warp meets by itself (`sync_warp`), and where the same thread did, none need.
 * A loop's body is walked twice, the second time after itself, so that what its end
 * left is seen at its start; branches are walked apart and what both leave is joined.  In a nest of loops each would
 * double the walks of those within, so that what a walk of a loop came to is remembered; a loop that is still walked too
 * often gets a barrier at the start of each trip, after which one walk says all.  Scratch brings its own meeting
 * of all threads, after which only its readers are left; a convert in which no warp reads what another wrote brings one of
 * each warp.
 *
 * Copies that go on by themselves write when they are waited for, each thread for its own: a wait is a write of all that
 * such copies fill.  A persistent block meets before each program (lower/lower.c).  Inside roles there is no barrier of
 * the block: mbarriers order what goes through buffers there. */
#include "pass/layout/axis.h"
#include "pass/place/barrier.h"

#include "target/target.h"

#include <string.h>

typedef VEC(Use) Uses;

/* What a walk of a loop made of the uses before it. */
typedef struct Walk {
	const Op *loop;
	int nsync;                                      /* barriers when it began; -1: it put some itself */
	Uses before, after;
} Walk;

typedef struct Barrier {
	Module *m;
	Arena *tmp;
	const Target *t;
	const Axes *axes;
	Uses open;                                      /* since the last barrier */
	VEC(const Op *) filled;                         /* allocs that copies fill by themselves */
	VEC(Walk) walks;                                /* of loops */
	int nsync;                                      /* barriers put so far */
} Barrier;

static bool
same_use(const Use *a, const Use *b)
{
	return a->op == b->op && a->global == b->global && a->write == b->write && a->lo == b->lo && a->hi == b->hi &&
	    a->is_old == b->is_old && a->loop == b->loop && a->age == b->age && a->met == b->met &&
	    a->slots == b->slots;
}

static void
open_add(Barrier *k, Use u)
{
	for (int i = 0; i < k->open.n; i++)
		if (same_use(&k->open.at[i], &u))
			return;
	vec_push(k->tmp, &k->open, u);
}

/* Do both have the same ones, in any order? */
static bool
has_each(const Uses *all, const Uses *some)
{
	for (int i = 0; i < some->n; i++) {
		bool found = false;
		for (int n = 0; n < all->n && !found; n++)
			found = same_use(&all->at[n], &some->at[i]) && all->at[n].ring == some->at[i].ring &&
			    all->at[n].slot == some->at[i].slot;
		if (!found)
			return false;
	}
	return true;
}

/* What was told apart only by its age may be the same by now. */
static void
drop_doubles(Uses *u)
{
	int kept = 0;

	for (int i = 0; i < u->n; i++) {
		Uses former = {u->at, kept, kept}, one = {&u->at[i], 1, 1};
		if (!has_each(&former, &one))
			u->at[kept++] = u->at[i];
	}
	u->n = kept;
}

static Uses
copy_uses(Barrier *k, const Uses *of)
{
	Uses u = {0};

	for (int i = 0; i < of->n; i++)
		vec_push(k->tmp, &u, of->at[i]);
	return u;
}

static void
join_uses(Barrier *k, const Uses *other)
{
	for (int i = 0; i < other->n; i++)
		open_add(k, other->at[i]);
}

static const Op *
owner(const Value *v)
{
	while (v->def && v->def->kind == OP_SLOT)
		v = v->def->in[0];
	return v->def && (v->def->kind == OP_ALLOC || v->def->kind == OP_MBARRIER) ? v->def : NULL;
}

/* The bytes of a buffer or a slot of it; all of it where the slot's number is not constant. */
static void
bytes_of(const Value *v, Use *u)
{
	const Op *of = owner(v);
	const Type *t = of->out[0].type;
	int64_t slot = of->kind == OP_MBARRIER ? 8 : dtype_bytes(t->elem, type_count(t));

	u->lo = attr_smem(of);
	u->hi = u->lo + slot * t->slots;
	u->slot_bytes = slot;
	if (v->def->kind == OP_SLOT) {
		u->ring = v->def->in[0];
		u->slot = v->def->in[1];
	}
	if (v->def->kind != OP_SLOT || v->def->in[1]->def == NULL || v->def->in[1]->def->kind != OP_CONST)
		return;
	int64_t i = const_int(v->def->in[1]->def) % t->slots;
	u->lo += slot * (i < 0 ? i + t->slots : i);
	u->hi = u->lo + slot;
}

static void
add_shared(Barrier *k, Uses *out, const Op *op, const Value *v, bool write)
{
	Use u = {.op = op, .write = write};

	if (!owner(v))
		return;
	bytes_of(v, &u);
	vec_push(k->tmp, out, u);
}

static void
add_filled(Barrier *k, Uses *out, const Op *op)
{
	for (int i = 0; i < k->filled.n; i++)
		add_shared(k, out, op, &k->filled.at[i]->out[0], true);
}

/* What the op does with buffers as it begins. */
static void
shared_uses(Barrier *k, Uses *out, const Op *op)
{
	switch (op->kind) {
	case OP_GET:
		add_shared(k, out, op, op->in[0], false);
		break;
	case OP_PUT:
	case OP_MBARRIER:
		add_shared(k, out, op, op->kind == OP_PUT ? op->in[0] : &op->out[0], true);
		break;
	case OP_COPY:
		add_shared(k, out, op, op->in[1 + op->in[0]->type->rank], true);
		break;
	case OP_WAIT:
		add_filled(k, out, op);
		break;
	case OP_DOT_START:
		for (int i = 0; i < 2; i++)
			add_shared(k, out, op, op->in[i], false);
		break;
	case OP_EXPECT:
	case OP_ARRIVE:
	case OP_AWAIT:
		add_shared(k, out, op, op->in[0], false);
		break;
	default:
		break;
	}
}

static bool
is_open_order(const Op *op)
{
	return strcmp(attr_order(op), "relaxed") != 0 && strcmp(attr_order(op), "acquire") != 0;
}

static void
global_uses(Barrier *k, Uses *out, const Op *op)
{
	unsigned traits = op_info[op->kind].traits;
	bool atomic = op_family(op) == FAMILY_ATOMIC;
	Use u = {.op = op, .global = true, .atomic = atomic, .write = traits & WRITES};

	if (!(traits & (READS | WRITES)) || (op->nregion > 0))
		return;
	u.acquires = atomic && op->out[0].nuses > 0 && strcmp(attr_order(op), "relaxed") != 0 &&
	    strcmp(attr_order(op), "release") != 0;
	vec_push(k->tmp, out, u);
}

/* A release after plain writes by any thread must come after all of them. */
static bool
releases(const Barrier *k, const Op *op)
{
	if (op_family(op) != FAMILY_ATOMIC || !is_open_order(op))
		return false;
	for (int i = 0; i < k->open.n; i++)
		if (k->open.at[i].global && k->open.at[i].write && !k->open.at[i].atomic)
			return true;
	return false;
}

/* A wait itself touches nothing: what it says is that copies, each put where it might, have now written. */
static SyncScope
conflicts(const Barrier *k, const Uses *uses)
{
	SyncScope most = SYNC_NONE;

	if (uses->n && uses->at[0].op->kind == OP_WAIT)
		return SYNC_NONE;
	for (int i = 0; i < k->open.n; i++)
		for (int n = 0; n < uses->n; n++) {
			SyncScope meet = uses_conflict(&k->open.at[i], &uses->at[n]);
			most = MAX(most, meet);
		}
	return most;
}

static void
warps_meet(Barrier *k)
{
	for (int i = 0; i < k->open.n; i++)
		k->open.at[i].met = true;
}

static void
sync_before(Barrier *k, Op *op)
{
	k->nsync += !attr_sync(op);
	attr_set_sync(k->m, op, true);
	k->open.n = 0;
}

static void
sync_warps_before(Barrier *k, Op *op)
{
	k->nsync++;
	attr_set_sync_warp(k->m, op, true);
	warps_meet(k);
}

/* A copy that goes on by itself has written only when it is waited for; its slot must be free when it begins. */
static bool
is_done_later(const Op *op, const Use *u)
{
	return op->kind == OP_COPY && !u->global && strcmp(attr_kind(op), "plain") != 0;
}

static const ScratchOwners *
owners_of(Barrier *k, const Op *op, bool reads)
{
	ScratchOwners *o = NEW(k->tmp, ScratchOwners);

	return scratch_owners(op, k->t, reads, o) ? o : NULL;
}

/* Written, a barrier of the plan's scope, read. */
static void
add_scratch(Barrier *k, const OpPlan *plan, Use *own)
{
	if (plan->sync == SYNC_WARP) {
		open_add(k, *own);
		warps_meet(k);
	} else {
		k->open.n = 0;
	}
	own->write = false;
	own->owners = owners_of(k, own->op, true);
	own->hi = own->lo + plan->read_to;
	own->lo += plan->read_from;
	open_add(k, *own);
}

static void
visit(Barrier *k, Op *op)
{
	OpPlan plan = plan_op(op, k->t);
	Use own = {.op = op, .write = true, .lo = attr_smem(op)};
	Uses uses = {0};
	SyncScope meet;

	own.hi = own.lo + plan.scratch;
	own.owners = plan.scratch ? owners_of(k, op, false) : NULL;
	shared_uses(k, &uses, op);
	global_uses(k, &uses, op);
	meet = conflicts(k, &uses);
	if (plan.scratch) {
		SyncScope ours = conflicts(k, &(Uses){&own, 1, 1});
		meet = MAX(meet, ours);
	}
	if (attr_sync(op))
		k->open.n = 0;
	else if (meet == SYNC_BLOCK || releases(k, op))
		sync_before(k, op);
	else if (attr_sync_warp(op))
		warps_meet(k);
	else if (meet == SYNC_WARP)
		sync_warps_before(k, op);
	if (plan.scratch)
		add_scratch(k, &plan, &own);
	for (int i = 0; i < uses.n; i++)
		if (!is_done_later(op, &uses.at[i]))
			open_add(k, uses.at[i]);
}

static void walk(Barrier *k, Block *b);

static void
grow_old(Barrier *k, const Block *loop)
{
	for (int i = 0; i < k->open.n; i++) {
		Use *u = &k->open.at[i];
		if (!op_inside(u->op, loop))
			continue;
		if (u->slot && u->slot->block == loop)
			u->age++;
		if (!u->global)
			continue;
		u->is_old = true;
		u->loop = loop;
	}
	drop_doubles(&k->open);
}

/* What turns with a ring comes round again after as many trips as it has slots: that must be seen too. */
static bool
has_old_slot(const Barrier *k)
{
	for (int i = 0; i < k->open.n; i++)
		if (k->open.at[i].ring && k->open.at[i].age >= 2)
			return true;
	return false;
}

/* A power of two that divides how often a loop runs, log2. */
static int
trips_div(const Barrier *k, const Op *loop)
{
	if (loop->kind != OP_FOR)
		return 0;
	const AxisInfo *lo = axis_of(k->axes, loop->in[0]), *hi = axis_of(k->axes, loop->in[1]);
	const AxisInfo *step = axis_of(k->axes, loop->in[2]);
	int by = step->lo == step->hi && step->lo > 0 ? log2_floor(step->lo) : 0;
	if (step->lo != INT64_C(1) << by)
		return 0;
	int div = MIN(lo->div[0], hi->div[0]);
	return MIN(MAX(div - by, 0), 30);
}

static bool
is_lone(const Barrier *k, const Use *u)
{
	for (int i = 0; i < k->open.n; i++)
		if (k->open.at[i].op == u->op && k->open.at[i].lo == u->lo && k->open.at[i].age != u->age)
			return false;
	return true;
}

/* Where a ring stood when the loop ended is known only as far as the number of trips is, nor is where it begins when it is
 * met again: the slot of the last trip is as far from the first one's as there were trips. */
static void
leave_rings(Barrier *k, const Op *loop)
{
	const Block *body = loop->region[loop->nregion - 1];
	int64_t trips = INT64_C(1) << trips_div(k, loop);

	for (int i = 0; i < k->open.n; i++) {
		Use *u = &k->open.at[i];
		if (!u->slot || u->slot->block != body || !u->ring)
			continue;
		int64_t n = u->ring->type->slots;
		const Op *first = n <= 64 && number_turns(u->slot, n) ? loop->in[2 + u->slot->index]->def : NULL;
		while (n % trips)
			trips /= 2;
		if (trips > 1 && first && first->kind == OP_CONST && is_lone(k, u))
			for (int64_t s = 0; s < n; s++)
				if ((s - const_int(first) + u->age) % trips == 0)
					u->slots |= UINT64_C(1) << s;
		u->ring = NULL;
	}
	drop_doubles(&k->open);
}

static bool
leaves_uses(const Barrier *k, const Op *loop)
{
	for (int i = 0; i < k->open.n; i++)
		for (int r = 0; r < loop->nregion; r++)
			if (op_inside(k->open.at[i].op, loop->region[r]))
				return true;
	return false;
}

/* A second trip sees nothing new where the first one left nothing of the loop's own, or where it starts with a barrier. */
static void
walk_trips(Barrier *k, Op *op, bool is_cut)
{
	Block *body = op->region[op->nregion - 1];
	Uses at_exit;

	for (int trip = 0; trip < 2 || (trip < 4 && has_old_slot(k)); trip++) {
		if (op->kind == OP_WHILE)
			walk(k, op->region[0]);
		if (trip == 0)
			at_exit = copy_uses(k, &k->open);
		walk(k, body);
		if (!leaves_uses(k, op))
			break;
		grow_old(k, body);
		if (is_cut)
			break;
	}
	if (op->kind == OP_WHILE)
		walk(k, op->region[0]);
	join_uses(k, &at_exit);
	leave_rings(k, op);
}

/* Puts a barrier before the first op of each trip: what it meets is then the same, whatever came before. */
static bool
cut_trips(Barrier *k, const Op *loop)
{
	for (int r = 0; r < loop->nregion; r++) {
		Op *first = loop->region[r]->first;
		if (first->kind == OP_YIELD)
			continue;
		k->nsync += !attr_sync(first);
		attr_set_sync(k->m, first, true);
		return true;
	}
	return false;
}

/* The walk that began with the same uses and barriers and put none: another would end as it did.  Counts all the loop's. */
static const Walk *
same_walk(const Barrier *k, const Op *loop, int *nwalk)
{
	for (int i = 0; i < k->walks.n; i++) {
		const Walk *w = &k->walks.at[i];
		if (w->loop != loop)
			continue;
		++*nwalk;
		if (w->nsync == k->nsync && has_each(&w->before, &k->open) && has_each(&k->open, &w->before))
			return w;
	}
	return NULL;
}

enum { MANY_WALKS = 128 };                      /* seven loops around, each of which leaves something new */

static void
walk_loop(Barrier *k, Op *op)
{
	int nwalk = 0;

	if (attr_sync(op))
		k->open.n = 0;
	const Walk *same = same_walk(k, op, &nwalk);
	if (same) {
		k->open = copy_uses(k, &same->after);
		return;
	}
	Walk w = {.loop = op, .before = copy_uses(k, &k->open)};
	bool is_cut = nwalk >= MANY_WALKS && cut_trips(k, op);
	w.nsync = k->nsync;
	walk_trips(k, op, is_cut);
	w.after = copy_uses(k, &k->open);
	if (w.nsync != k->nsync)
		w.nsync = -1;
	vec_push(k->tmp, &k->walks, w);
}

/* A copy that runs ahead stands in a branch that asks whether there is more to copy, and must come after those who read
 * its slot last.  What follows the branch needs the same barrier, so there is one, before the branch. */
static bool
copies_too_soon(Barrier *k, const Op *branch)
{
	for (int r = 0; r < branch->nregion; r++)
		for (const Op *op = branch->region[r]->first; op; op = op_after(op, branch->region[r])) {
			Uses uses = {0};
			if (op->kind == OP_COPY)
				shared_uses(k, &uses, op);
			if (conflicts(k, &uses))
				return true;
		}
	return false;
}

static void
walk_branch(Barrier *k, Op *op)
{
	if (attr_sync(op))
		k->open.n = 0;
	else if (copies_too_soon(k, op))
		sync_before(k, op);
	Uses before = copy_uses(k, &k->open);

	walk(k, op->region[0]);
	Uses then = copy_uses(k, &k->open);
	k->open = before;
	walk(k, op->region[1]);
	join_uses(k, &then);
}

/* All threads part here, once all see what was set up; they meet no more. */
static void
walk_roles(Barrier *k, Op *op)
{
	if (k->open.n)
		sync_before(k, op);
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

static void
find_filled(Barrier *k, Block *body)
{
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (op->kind != OP_COPY || strcmp(attr_kind(op), "plain") == 0)
			continue;
		const Op *of = owner(op->in[1 + op->in[0]->type->rank]);
		bool known = !of;
		for (int i = 0; i < k->filled.n; i++)
			known = known || k->filled.at[i] == of;
		if (!known)
			vec_push(k->tmp, &k->filled, of);
	}
}

void
pass_barrier(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n && t; i++) {
		Func *f = m->funcs.at[i];
		Barrier k = {.m = m, .tmp = m->cx->tmp, .t = t};
		if (f->is_reference)
			continue;
		k.axes = axis_analyse(f, k.tmp);
		find_filled(&k, f->body);
		walk(&k, f->body);
	}
}
