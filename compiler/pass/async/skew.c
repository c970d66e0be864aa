/* Chained products of a loop run at once: the first of the next iteration beside the second of this one.
 *
 *     for %lo, %hi, %step, %x, %o do (%k, %a, %c) {
 *         await %full, %now, %phase
 *         %s = dot_start %q, (slot %now), %0
 *         %t = dot_wait %s {left = 0}
 *         arrive %empty, %now
 *         %p, %a' = … %t, %a
 *         %d = mul %c, …
 *         await %full2, %now2, %phase2
 *         %e = dot_start %p, (slot %now2), %d
 *         %o' = dot_wait %e {left = 0}
 *         arrive %empty2, %now2
 *         yield %a', %o'
 *     }
 *  =>
 *     if lo < hi {
 *         await; dot_start; dot_wait; arrive; %p, %a' = …
 *         for %lo + %step, %hi, %step, %a', %o, %p do (%k, %a, %c, %p) {
 *             %d = mul %c, …
 *             await %full, …
 *             %s = dot_start %q, (slot), %0               of this iteration
 *             await %full2, …
 *             %e = dot_start %p, (slot), %d               of the one before
 *             %t = dot_wait %s {left = 1}
 *             arrive %empty …
 *             %p', %a' = … %t, %a                         beside that product
 *             %o' = dot_wait %e {left = 0}
 *             arrive %empty2 …
 *             yield %a', %o', %p'
 *         }
 *         %d = mul …; await; dot_start; dot_wait; arrive
 *     }
 *
 * Of more products those that are the furthest along a chain are part 2's, as the products with both weights of two
 * softmaxes; a sum of products that go into the same registers is waited for once (warpgroup.c).
 *
 * Part 2 of a body is its products, the slots that they read with their numbers, what depends on them, and moves that
 * only those use; part 1 is the rest.  Part 1 must not need what part 2 makes: then the loop's iterations may be cut
 * between them, and what part 2 takes from part 1 is carried to the next iteration: tiles alone, for a slot of part 1's
 * ring (an operand that both products read) is given back before part 2 runs.  What threads take from slots, as a bias of
 * the scores, belongs to part 1.  The first iteration's part 1 and the last
 * one's part 2 stand before and behind the loop.  Each part does the same in the same order as before, so results
 * are the same to the bit.  A loop stays as it is whose products of both parts, with what crosses, take more registers than
 * the role has. */
#include "pass/async/pipeline.h"

#include <string.h>

enum { PRODUCTS_MOST = 6, OTHERS = 24 };                /* registers of addresses, rows' maxima and sums */

typedef struct Skew {
	Module *m;
	Arena *tmp;
	Func *f;
	Op *loop;
	Block *body;
	int registers;                                  /* that a thread of the role has */
	VEC(Op *) starts;                               /* the products */
	const Op *last[2];                              /* of each part, in the loop as it was */
	Op *put;                                        /* of a late product's operand, which threads make; or NULL */
	bool *late;                                     /* by Value.id: part 2 makes it, or it is carried for part 2 */
	VEC(Value *) crossing;                          /* what part 2 takes from part 1 */
} Skew;

/* ---- the products ---- */

/* Several products, some of which need another's result, and nothing else that waits, copies or branches. */
static bool
find_products(Skew *s)
{
	int most = 0;

	for (Op *op = s->body->first; op; op = op->next) {
		if ((op->nregion && !pipeline_is_search(s->f, op, s->body)) || op->kind == OP_COPY || op->kind == OP_EXPECT)
			return false;
		if (op->kind == OP_DOT_START)
			vec_push(s->tmp, &s->starts, op);
	}
	if (s->starts.n < 2 || s->starts.n > PRODUCTS_MOST)
		return false;
	func_number(s->f);
	const int *level = warpgroup_levels(s->f, s->body, &most);
	s->late = NEW_ARRAY(s->tmp, bool, s->f->nvalues);
	for (int i = 0; i < s->starts.n; i++)
		s->late[s->starts.at[i]->out[0].id] = level[s->starts.at[i]->out[0].id] == most;
	return most > 1;
}

/* ---- the parts ---- */

static bool
is_late(const Skew *s, const Op *op)
{
	for (int i = 0; i < op->nin; i++)
		if (value_inside(op->in[i], s->body) && s->late[op->in[i]->id])
			return true;
	return op->kind == OP_DOT_START && s->late[op->out[0].id];
}

/* What threads put into a buffer that late products read, and nothing else does. */
static Op *
find_put(const Skew *s, const Op *start)
{
	const Value *buffer = start->in[1];
	Op *put = NULL;
	int uses = 1;
	if (!buffer->def || buffer->def->kind != OP_ALLOC)
		return NULL;
	for (Op *op = s->body->first; op; op = op->next) {
		put = op->kind == OP_PUT && op->in[0] == buffer ? op : put;
		uses += op->kind == OP_DOT_START && op->in[1] == buffer && s->late[op->out[0].id];
	}
	return buffer->nuses == uses ? put : NULL;
}

/* The slot of a ring that an element-wise chain starts from. */
static const Op *
slot_of(const Value *v)
{
	while (v->def && v->def->nin == 1 &&
	    (op_has(v->def, ELEM) || v->def->kind == OP_GET || v->def->kind == OP_CONVERT))
		v = v->def->in[0];
	return v->def && v->def->kind == OP_SLOT ? v->def : NULL;
}

/* The number of the slot that a late product reads, or of which threads make what it reads, and the phases that are waited
 * for with it. */
static void
mark_slot(Skew *s, const Op *slot)
{
	if (!slot || slot->kind != OP_SLOT || !value_inside(slot->in[1], s->body))
		return;
	s->late[slot->in[1]->id] = true;
	for (Op *op = s->body->first; op; op = op->next)
		if (op->kind == OP_AWAIT && op->in[1] == slot->in[1] && value_inside(op->in[2], s->body))
			s->late[op->in[2]->id] = true;
}

static bool
spread_late(Skew *s)
{
	bool changed = false;

	for (Op *op = s->body->first; op->kind != OP_YIELD; op = op->next)
		for (int i = 0; i < op->nout && is_late(s, op); i++) {
			changed |= !s->late[op->out[i].id];
			s->late[op->out[i].id] = true;
		}
	for (int i = 0; i < s->loop->nout; i++) {
		const Value *v = s->body->last->in[i];
		if (!value_inside(v, s->body) || !s->late[v->id] || s->late[s->body->arg[1 + i].id])
			continue;
		s->late[s->body->arg[1 + i].id] = changed = true;
	}
	return changed;
}

/* Only part 2 uses it. */
static bool
has_late_uses_only(const Skew *s, const Value *v)
{
	int uses = 0;

	for (const Op *op = s->body->first; op->kind != OP_YIELD; op = op->next)
		for (int i = 0; i < op->nin; i++)
			uses += op->in[i] == v && is_late(s, op);
	return uses == v->nuses;
}

/* Moves of which part 2 alone uses the results: less is carried of what they spread. */
static bool
sink_moves(Skew *s)
{
	bool changed = false;

	for (Op *op = s->body->last->prev; op; op = op->prev) {
		bool moves = op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_NEG;
		if (!moves || s->late[op->out[0].id] || !has_late_uses_only(s, &op->out[0]))
			continue;
		s->late[op->out[0].id] = changed = true;
	}
	return changed;
}

static bool
is_made_late(const Skew *s, const Op *op)
{
	return is_late(s, op) || (op->nout && s->late[op->out[0].id]);
}

/* What the late products read: slots of rings, or one buffer that threads fill. */
static bool
mark_operands(Skew *s)
{
	for (int i = 0; i < s->starts.n; i++) {
		const Op *start = s->starts.at[i];
		if (!s->late[start->out[0].id])
			continue;
		Op *put = find_put(s, start);
		if ((s->put && put != s->put) || (!put && start->in[1]->def && start->in[1]->def->kind == OP_ALLOC))
			return false;
		s->put = put;
		mark_slot(s, put ? slot_of(put->in[1]) : start->in[1]->def);
	}
	return true;
}

static bool
part_body(Skew *s)
{
	bool *seed = NEW_ARRAY(s->tmp, bool, s->f->nvalues);
	memcpy(seed, s->late, sizeof *seed * (size_t)s->f->nvalues);
	if (!mark_operands(s))
		return false;
	while (spread_late(s) || sink_moves(s))
		;
	for (int i = 0; i < s->starts.n; i++) {
		const Op *start = s->starts.at[i];
		const Value *p = start->in[0];
		bool is_second = seed[start->out[0].id];
		if (is_made_late(s, start) != is_second || (is_second && (!value_inside(p, s->body) || s->late[p->id])))
			return false;
		s->last[is_second] = start;
	}
	if (s->late[s->body->arg[0].id] || (s->put && !is_made_late(s, s->put)))
		return false;
	for (const Op *op = s->body->first; op; op = op->next)
		if ((op->kind == OP_GET || op->kind == OP_PUT) && is_made_late(s, op) &&
		    (!s->put || slot_of(op->kind == OP_GET ? &op->out[0] : op->in[1]) != slot_of(s->put->in[1])))
			return false;
	return true;
}

/* Ops without operands are made where they are used. */
static bool
is_free(const Value *v)
{
	return v->def && v->def->nin == 0 && op_has(v->def, PURE);
}

static bool
find_crossing(Skew *s)
{
	for (Op *op = s->body->first; op->kind != OP_YIELD; op = op->next)
		for (int i = 0; i < op->nin && is_made_late(s, op); i++) {
			Value *v = op->in[i];
			bool known = !value_inside(v, s->body) || s->late[v->id] || is_free(v);
			for (int k = 0; k < s->crossing.n && !known; k++)
				known = s->crossing.at[k] == v;
			if (!known && v->type->kind != TYPE_TILE)
				return false;
			if (!known)
				vec_push(s->tmp, &s->crossing, v);
		}
	return true;
}

/* ---- the new loop ---- */

static Value *
mapped(Value *const *map, Value *v)
{
	return map[v->id] ? map[v->id] : v;
}

/* The fence of what threads put goes with it, that of what threads copied with the wait for that. */
static bool
is_of_part(const Skew *s, const Op *op, bool late)
{
	const Op *at = op->kind == OP_PROXY_FENCE ? op->prev : NULL;
	bool is_fence = at && (at == s->put || (at->kind == OP_AWAIT && is_made_late(s, at)));
	return (is_fence || is_made_late(s, op)) == late || (late && op->nout == 1 && is_free(&op->out[0]));
}

/* Ops of a part from `from` to before `to`, those without operands in both. */
static void
clone_part(Skew *s, Builder *b, Value **map, bool late, const Op *from, const Op *to)
{
	for (const Op *op = from; op != to; op = op->next)
		if (is_of_part(s, op, late))
			op_clone(b, op, map);
}

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

/* Part 2 computes it from nothing that it waits for. */
static bool
is_ready(const Skew *s, const Op *op)
{
	bool ready = op_has(op, PURE);
	for (int i = 0; i < op->nin && ready; i++) {
		const Op *def = op->in[i]->def;
		if (value_inside(op->in[i], s->body) && def && is_made_late(s, def))
			ready = is_ready(s, def);
	}
	return ready;
}

/* Does the op of part 1 need a product of part 1?  Slots are given back behind that, too.  Nothing is put in another order
 * where the body writes to memory. */
static bool
needs_wait(const Skew *s, const bool *waits, const Op *op, bool any)
{
	bool needs = op->kind == OP_DOT_WAIT || (op->kind == OP_ARRIVE && any);
	for (int i = 0; i < op->nin; i++)
		needs |= value_inside(op->in[i], s->body) && waits[op->in[i]->id];
	return needs;
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
		for (int i = 0; i < op->nout; i++)
			waits[op->out[i].id] = waited;
		vec_push(s->tmp, waited || passed ? behind : before, op);
		passed |= op == s->last[0];
	}
}

/* Late products' operands but for what waits; then the products, the early ones before the late. */
static void
clone_starts(Skew *s, Builder *b, Value **first, Value **second)
{
	const Op *yield = s->body->last, *last = s->last[1];
	Ops before = {0}, behind = {0};

	order_first(s, &before, &behind);
	for (const Op *op = s->body->first; op != last; op = op->next)
		if ((is_made_late(s, op) && is_ready(s, op)) || (op->nout == 1 && is_free(&op->out[0])))
			op_clone(b, op, second);
	for (int i = 0; i < before.n; i++)
		op_clone(b, before.at[i], first);
	for (const Op *op = s->body->first; op != last->next; op = op->next)
		if (is_of_part(s, op, true) && !is_ready(s, op))
			op_clone(b, op, second);
	for (int i = 0; i < behind.n; i++)
		op_clone(b, behind.at[i], first);
	clone_part(s, b, second, true, last->next, yield);
}

/* What is carried: part 1's and part 2's columns in their order, then what crosses. */
static Op *
make_loop(Skew *s, Builder *b, Value *const *first)
{
	Op *old = s->loop;
	int n = old->nout, all = n + s->crossing.n;
	Value **init = NEW_ARRAY(s->tmp, Value *, all), *from = build2(b, OP_ADD, old->in[0], old->in[2]);

	for (int i = 0; i < n; i++)
		init[i] = is_late_column(s, i) ? old->in[3 + i] : mapped(first, s->body->last->in[i]);
	for (int i = 0; i < s->crossing.n; i++)
		init[n + i] = mapped(first, s->crossing.at[i]);
	Op *loop = build_for(b, (Value *[]){from, old->in[1], old->in[2]}, init, all, old);
	Block *body = loop->region[0];
	for (int i = 0; i < all; i++)
		body->arg[1 + i].name = i < n ? s->body->arg[1 + i].name : s->crossing.at[i - n]->name;
	body->arg[0].name = s->body->arg[0].name;
	return loop;
}

static void
fill_loop(Skew *s, Op *loop)
{
	Builder b = {.m = s->m, .block = loop->region[0], .place = loop->place};
	Value **first = new_map(s), **second = new_map(s), *arg = loop->region[0]->arg;
	int n = s->loop->nout;

	first[s->body->arg[0].id] = &arg[0];
	for (int i = 0; i < n; i++)
		(is_late_column(s, i) ? second : first)[s->body->arg[1 + i].id] = &arg[1 + i];
	for (int i = 0; i < s->crossing.n; i++)
		second[s->crossing.at[i]->id] = &arg[1 + n + i];
	clone_starts(s, &b, first, second);
	Value **out = NEW_ARRAY(s->tmp, Value *, n + s->crossing.n);
	for (int i = 0; i < n; i++)
		out[i] = mapped(is_late_column(s, i) ? second : first, s->body->last->in[i]);
	for (int i = 0; i < s->crossing.n; i++)
		out[n + i] = mapped(first, s->crossing.at[i]);
	build_yield(&b, out, n + s->crossing.n);
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
	clone_part(s, b, second, true, s->body->first, s->body->last);
	for (int i = 0; i < n; i++)
		out[i] = is_late_column(s, i) ? mapped(second, s->body->last->in[i]) : &loop->out[i];
	build_yield(b, out, n);
}

static void
skew(Skew *s)
{
	Op *old = s->loop;
	int n = old->nout;
	Builder b = build_before(old);
	Value *any = build2(&b, OP_LT, old->in[0], old->in[1]);
	Op *branch = build_if(&b, any, old->in + 3, n);
	Builder in = {.m = s->m, .block = branch->region[0], .place = old->place};
	Value **first = new_map(s);
	first[s->body->arg[0].id] = old->in[0];
	for (int i = 0; i < n; i++)
		first[s->body->arg[1 + i].id] = old->in[3 + i];
	clone_part(s, &in, first, false, s->body->first, s->body->last);
	Op *loop = make_loop(s, &in, first);
	fill_loop(s, loop);
	finish(s, &in, loop);
	warpgroup_leave(s->m, branch->region[0]);
	Builder none = {.m = s->m, .block = branch->region[1], .place = old->place};
	build_yield(&none, old->in + 3, n);
	op_replace(old, branch);
}

/* ---- all loops ---- */

/* 32-bit registers of a thread. */
static int
held_words(const Value *v)
{
	int bytes = v->layout ? dtype_tile_size(v->type->elem) << v->layout->in[IN_REGISTER] : 0;
	return (bytes + 3) / 4;
}

/* Of a thread: the results of all products, and what crosses from part 1 to part 2. */
static bool
fits_registers(const Skew *s)
{
	int n = OTHERS;
	for (const Op *op = s->body->first; op; op = op->next)
		n += op->kind == OP_DOT_WAIT ? held_words(&op->out[0]) : 0;
	for (int i = 0; i < s->crossing.n; i++)
		n += held_words(s->crossing.at[i]);
	return n <= s->registers;
}

static void
visit(Module *m, Func *f, const Op *roles)
{
	Block *consumers = roles->region[1];
	for (Op *op = consumers->first, *next; op; op = next) {
		Skew s = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = op, .body = op->kind == OP_FOR ? op->region[0] : NULL};
		next = op_after(op, consumers);
		s.registers = (int)attr_regs(roles)->at[1];
		if (!s.body || !find_products(&s))
			continue;
		pipeline_sink_weights(s.body, s.starts.at[0]);
		bool parts = part_body(&s) && find_crossing(&s);
		if (!parts || !fits_registers(&s)) {
			f->chain_reason = parts ? "all of their results take more registers than a thread of the role has"
			                        : "those at the chain's end share operands with the others, or feed them";
			continue;
		}
		next = op->next;
		skew(&s);
	}
}

void
pass_skew(Func *f, const Target *t)
{
	const Op *roles = func_find(f, OP_ROLES);
	if (roles)
		visit(f->module, f, roles);
}
