/* The loop in which products of two iterations run at once (skew.c). */
#include "ir/derive.h"
#include "pass/async/skew/skew.h"

enum { EARLY_SLOTS = 2 };

static Value **
new_map(Skew *s)
{
	return NEW_ARRAY(s->tmp, Value *, s->f->nvalues);
}

static bool
is_late_column(const Skew *s, int i)
{
	return s->late[s->body->arg[1 + i].id];
}

/* The fence of what threads put goes with it, that of what threads copied with the wait for that. */
static bool
is_of_part(const Skew *s, const Op *op, bool late)
{
	const Op *at = op->kind == OP_PROXY_FENCE ? op->prev : NULL;
	bool is_fence = at && (at == s->put || (at->kind == OP_AWAIT && skew_is_made_late(s, at)));
	return (is_fence || skew_is_made_late(s, op)) == late || (late && op->nout == 1 && skew_is_free(&op->out[0]));
}

/* Part 2 computes it from nothing that it waits for. */
static bool
is_ready(const Skew *s, const Op *op)
{
	bool ready = op_has(op, PURE);
	for (int i = 0; i < op->nin && ready; i++) {
		const Op *def = op->in[i]->def;
		if (value_inside(op->in[i], s->body) && def && skew_is_made_late(s, def))
			ready = is_ready(s, def);
	}
	return ready;
}

/* Part 2 makes a tile before it waits for anything. */
static bool
is_ready_tile(const Skew *s, const Op *op)
{
	bool tile = op->nout == 1 && op->out[0].type->kind == TYPE_TILE && op->out[0].type->rank && op->nin;
	return tile && skew_is_made_late(s, op) && is_ready(s, op);
}

static bool
is_made_ahead(const Skew *s, const Op *op)
{
	return s->ahead.n && is_ready_tile(s, op);
}

/* Words of tiles that the loop carries for ready tiles alone. */
static int
spared_words(const Skew *s)
{
	int n = 0;
	for (int i = 0; i < s->loop->nout; i++) {
		const Value *v = &s->body->arg[1 + i];
		int uses = 0;
		for (const Op *op = s->body->first; op && s->late[v->id]; op = op->next)
			uses += COUNT_OF(k, op->nin, op->in[k] == v && is_ready_tile(s, op));
		n += uses && uses == v->nuses ? skew_held_words(v) : 0;
	}
	return n;
}

/* What crosses to part 2 is carried but for what ready tiles alone are made of. */
static void
keep_crossing(Skew *s)
{
	int n = 0;
	for (int i = 0; i < s->crossing.n; i++) {
		Value *v = s->crossing.at[i];
		bool kept = !s->ahead.n;
		for (const Op *op = s->body->first; op && !kept; op = op->next)
			for (int k = 0; k < op->nin; k++)
				kept |= op->in[k] == v && skew_is_made_late(s, op) && !is_ready_tile(s, op);
		if (!kept)
			vec_push(s->tmp, &s->feeds, v);
		else
			s->crossing.at[n++] = v;
	}
	s->crossing.n = n;
}

/* Tiles that part 2 begins with, as what its product adds to times a factor.  The iteration before makes them as its last
 * work: in the way of no product, and the loop carries one tile for two. */
void
skew_find_ahead(Skew *s)
{
	int words = 0;
	for (Op *op = s->body->first; op->kind != OP_YIELD; op = op->next) {
		bool used = false;
		for (const Op *use = op->next; use && is_ready_tile(s, op); use = use->next)
			used |= ANY_OF(k, use->nin, use->in[k] == &op->out[0] && !is_ready_tile(s, use));
		if (used)
			vec_push(s->tmp, &s->ahead, &op->out[0]);
		words += used ? skew_held_words(&op->out[0]) : 0;
	}
	if (words > spared_words(s))
		s->ahead.n = 0;
	keep_crossing(s);
}

/* Makes the tiles for an iteration whose late columns are `column`, behind part 1. */
static void
make_ahead(Skew *s, Builder *b, Value *const *first, Value *const *column, Value **out)
{
	Value **map = new_map(s);
	for (int i = 0; i < s->loop->nout; i++)
		if (is_late_column(s, i))
			map[s->body->arg[1 + i].id] = column[i];
	for (int i = 0; i < s->crossing.n; i++)
		map[s->crossing.at[i]->id] = value_mapped(first, s->crossing.at[i]);
	for (int i = 0; i < s->feeds.n; i++)
		map[s->feeds.at[i]->id] = value_mapped(first, s->feeds.at[i]);
	for (const Op *op = s->body->first; op && s->ahead.n; op = op->next)
		if (is_ready_tile(s, op) || (op->nout == 1 && skew_is_free(&op->out[0])))
			op_clone(b, op, map);
	for (int i = 0; i < s->ahead.n; i++)
		out[i] = value_mapped(map, s->ahead.at[i]);
}

/* Do the producer's threads arrive there themselves, iterations behind their copies (gather_wait.c)?  They need one slot
 * more: the next one's arrival comes behind a copy into that which part 2 still reads. */
static bool
arrives_behind(const Skew *s, const Value *ring)
{
	const Op *roles = func_find(s->f, OP_ROLES);
	return roles && ANY_OP(op, roles->region[0], op->kind == OP_ARRIVE && op->in[0] == ring);
}

/* Part 2 waits for a slot of which it knows the number by then, and which a ring of more than two has likely filled. */
static bool
is_early_await(const Skew *s, const Op *op)
{
	if (op->kind != OP_AWAIT || !skew_is_made_late(s, op) || op->next->kind == OP_PROXY_FENCE ||
	    op->in[0]->type->slots <= EARLY_SLOTS + arrives_behind(s, op->in[0]))
		return false;
	for (int i = 0; i < op->nin; i++) {
		const Op *def = op->in[i]->def;
		if (value_inside(op->in[i], s->body) && def && !(skew_is_made_late(s, def) && is_ready(s, def)))
			return false;
	}
	return true;
}

/* Waits for the slots of an iteration whose late columns are `column`. */
static void
make_awaits(Skew *s, Builder *b, Value *const *column)
{
	Value **map = new_map(s);
	for (int i = 0; i < s->loop->nout; i++)
		if (is_late_column(s, i))
			map[s->body->arg[1 + i].id] = column[i];
	for (const Op *op = s->body->first; op != s->last[1]; op = op->next)
		if (is_early_await(s, op) || (op->nout == 1 && skew_is_free(&op->out[0])) ||
		    (skew_is_made_late(s, op) && is_ready(s, op) && !is_ready_tile(s, op) && op->kind != OP_SLOT))
			op_clone(b, op, map);
}

/* Ops of a part from `from` to before `to`, those without operands in both. */
static void
clone_part(Skew *s, Builder *b, Value **map, bool late, const Op *from, const Op *to)
{
	for (const Op *op = from; op != to; op = op->next)
		if (is_of_part(s, op, late) && !(late && is_made_ahead(s, op)) && !is_early_await(s, op))
			op_clone(b, op, map);
}

/* Does the op of part 1 need a product of part 1?  Slots are given back behind that, too.  Nothing is put in another order
 * where the body writes to memory. */
static bool
needs_wait(const Skew *s, const bool *waits, const Op *op, bool any)
{
	return op->kind == OP_DOT_WAIT || (op->kind == OP_ARRIVE && any) ||
	    ANY_OF(i, op->nin, value_inside(op->in[i], s->body) && waits[op->in[i]->id]);
}

typedef VEC(const Op *) Ops;

/* Part 1 with all products that it can start before it waits for one. */
static void
order_first(const Skew *s, Ops *before, Ops *behind)
{
	bool *waits = NEW_ARRAY(s->tmp, bool, s->f->nvalues), any = false, was = false, writes = false;
	const Op *op = s->body->first;

	for (const Op *w = op; w; w = w->next)
		writes |= op_has(w, WRITES) && w->kind != OP_PUT;
	for (bool passed = false; op->kind != OP_YIELD; op = op->next) {
		if (!is_of_part(s, op, false))
			continue;
		bool waited = !writes && (op->kind == OP_PROXY_FENCE ? was : needs_wait(s, waits, op, any));
		any |= was = waited;
		op_extend_slice(op, waits, waited);
		vec_push(s->tmp, waited || passed ? behind : before, op);
		passed |= op == s->last[0];
	}
}

/* Does the slot that is waited for stay until the late products are over?  What threads take they give back before. */
static bool
is_kept(const Skew *s, const Op *await)
{
	for (const Op *op = s->body->first; op != s->last[1]; op = op->next)
		if (op->kind == OP_ARRIVE && op->in[1] == await->in[1])
			return false;
	return true;
}

/* Late products' operands but for what waits; then the products, the early ones before the late; before the wait for those,
 * once more that for their slots. */
static void
clone_starts(Skew *s, Builder *b, Value **first, Value **second)
{
	const Op *yield = s->body->last, *last = s->last[1];
	Ops before = {0}, behind = {0};

	order_first(s, &before, &behind);
	for (const Op *op = s->body->first; op != last; op = op->next)
		if ((skew_is_made_late(s, op) && is_ready(s, op) && !is_made_ahead(s, op)) ||
		    (op->nout == 1 && skew_is_free(&op->out[0])))
			op_clone(b, op, second);
	for (int i = 0; i < before.n; i++)
		op_clone(b, before.at[i], first);
	for (const Op *op = s->body->first; op != last->next; op = op->next)
		if (is_of_part(s, op, true) && !is_ready(s, op) && !is_early_await(s, op))
			op_clone(b, op, second);
	for (int i = 0; i < behind.n; i++)
		op_clone(b, behind.at[i], first);
	for (const Op *op = last->next; op != yield; op = op->next)
		if (is_of_part(s, op, true) && is_ready(s, op) && !is_ready_tile(s, op))
			op_clone(b, op, second);
	Value **column = MAP_OF(s->tmp, Value *, i, s->loop->nout, value_mapped(second, yield->in[i]));
	make_awaits(s, b, column);
	for (const Op *op = s->body->first; op != last; op = op->next)
		if (op->kind == OP_AWAIT && skew_is_made_late(s, op) && !is_early_await(s, op) && is_kept(s, op))
			op_clone(b, op, second);
	for (const Op *op = last->next; op != yield; op = op->next)
		if (is_of_part(s, op, true) && (!is_ready(s, op) || (!s->ahead.n && is_ready_tile(s, op))))
			op_clone(b, op, second);
}

/* What is carried: part 1's and part 2's columns in their order, then what crosses. */
static Op *
make_loop(Skew *s, Builder *b, Value *const *first)
{
	Op *old = s->loop;
	int n = old->nout, cross = n + s->crossing.n, all = cross + s->ahead.n;
	Value **init = NEW_ARRAY(s->tmp, Value *, all), *from = build2(b, OP_ADD, old->in[0], old->in[2]);

	for (int i = 0; i < n; i++)
		init[i] = is_late_column(s, i) ? old->in[3 + i] : value_mapped(first, s->body->last->in[i]);
	for (int i = 0; i < s->crossing.n; i++)
		init[n + i] = value_mapped(first, s->crossing.at[i]);
	make_awaits(s, b, old->in + 3);
	make_ahead(s, b, first, old->in + 3, init + cross);
	Op *loop = build_for(b, (Value *[]){from, old->in[1], old->in[2]}, init, all, old);
	Block *body = loop->region[0];
	for (int i = 0; i < all; i++)
		body->arg[1 + i].name = i < n ? s->body->arg[1 + i].name :
		    i < cross ? s->crossing.at[i - n]->name : s->ahead.at[i - cross]->name;
	body->arg[0].name = s->body->arg[0].name;
	return loop;
}

static void
fill_loop(Skew *s, Op *loop)
{
	Builder b = {.m = s->m, .block = loop->region[0], .place = loop->place};
	Value **first = new_map(s), **second = new_map(s), *arg = loop->region[0]->arg;
	int n = s->loop->nout, cross = n + s->crossing.n;

	skew_take_held(s, loop->home, first);
	first[s->body->arg[0].id] = &arg[0];
	for (int i = 0; i < n; i++)
		(is_late_column(s, i) ? second : first)[s->body->arg[1 + i].id] = &arg[1 + i];
	for (int i = 0; i < s->crossing.n; i++)
		second[s->crossing.at[i]->id] = &arg[1 + n + i];
	for (int i = 0; i < s->ahead.n; i++)
		second[s->ahead.at[i]->id] = &arg[1 + cross + i];
	clone_starts(s, &b, first, second);
	Value **out = NEW_ARRAY(s->tmp, Value *, cross + s->ahead.n);
	for (int i = 0; i < n; i++)
		out[i] = value_mapped(is_late_column(s, i) ? second : first, s->body->last->in[i]);
	for (int i = 0; i < s->crossing.n; i++)
		out[n + i] = value_mapped(first, s->crossing.at[i]);
	make_ahead(s, &b, first, out, out + cross);
	build_yield(&b, out, cross + s->ahead.n);
	warpgroup_leave(s->m, loop->region[0]);
}

/* The last iteration's part 2, and what the loop as it was gives. */
static void
finish(Skew *s, Builder *b, Op *loop)
{
	Value **second = new_map(s);
	int n = s->loop->nout;
	Value **out = NEW_ARRAY(s->tmp, Value *, n);

	for (int i = 0; i < n; i++)
		if (is_late_column(s, i))
			second[s->body->arg[1 + i].id] = &loop->out[i];
	for (int i = 0; i < s->crossing.n; i++)
		second[s->crossing.at[i]->id] = &loop->out[n + i];
	for (int i = 0; i < s->ahead.n; i++)
		second[s->ahead.at[i]->id] = &loop->out[n + s->crossing.n + i];
	clone_part(s, b, second, true, s->body->first, s->body->last);
	for (int i = 0; i < n; i++)
		out[i] = is_late_column(s, i) ? value_mapped(second, s->body->last->in[i]) : &loop->out[i];
	build_yield(b, out, n);
}

void
skew_loop(Skew *s)
{
	Op *old = s->loop;
	int n = old->nout;
	Builder b = build_before(old);
	Value *any = build2(&b, OP_LT, old->in[0], old->in[1]);
	Op *branch = build_if(&b, any, old->in + 3, n);
	Builder in = build_inside(branch, 0), none = build_inside(branch, 1);
	Value **first = new_map(s);
	first[s->body->arg[0].id] = old->in[0];
	for (int i = 0; i < n; i++)
		first[s->body->arg[1 + i].id] = old->in[3 + i];
	clone_part(s, &in, first, false, s->body->first, s->body->last);
	Op *loop = make_loop(s, &in, first);
	fill_loop(s, loop);
	finish(s, &in, loop);
	warpgroup_leave(s->m, branch->region[0]);
	build_yield(&none, old->in + 3, n);
	op_replace(old, branch);
}
