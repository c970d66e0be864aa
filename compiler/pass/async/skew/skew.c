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
 *         await; dot_start; dot_wait; arrive; %p, %a' = …;  %d = mul %o, …
 *         for %lo + %step, %hi, %step, %a', %p, %d do (%k, %a, %p, %d) {
 *             await %full, …
 *             %s = dot_start %q, (slot), %0               of this iteration
 *             await %full2, …
 *             %e = dot_start %p, (slot), %d               of the one before
 *             %t = dot_wait %s {left = 1}
 *             arrive %empty …
 *             %p', %a' = … %t, %a                         beside that product
 *             await %full2, …                             again
 *             %o' = dot_wait %e {left = 0}
 *             arrive %empty2 …
 *             %d' = mul %o', …
 *             yield %a', %p', %d'
 *         }
 *         await; dot_start; dot_wait; arrive
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
 * the role has.
 *
 * What part 2 begins with and waits for nothing, as what it adds to times a factor, ends the iteration before.
 *
 * The running product's slots are waited for twice.  The second wait is over at once, as the slots are not given back yet,
 * but it is a loop in the code, over which ptxas does not move the wait for the product: else that stands before most of
 * what should run beside it (a seventh of attention's time, by ncu's samples).  In rings of more than two slots the next
 * iteration's slot is waited for instead: heads of 64 took 553 us of an H200 so, 569 by a second wait, 587 before. */
#include "pass/async/skew/skew.h"
#include "target/target.h"

#include <string.h>

enum { PRODUCTS_MOST = 6, OTHERS = 24 };                /* registers of addresses, rows' maxima and sums */

/* ---- the products ---- */

/* How many products one behind the other v comes from, of the body.  A sum that a product adds to counts as that does. */
static int
level_of(const Block *body, const int *level, const Op *op)
{
	int most = 0;
	for (int i = 0; i < op->nin; i++)
		if (value_inside(op->in[i], body) || op->in[i]->type->kind == TYPE_BUFFER) {
			int more = op->kind == OP_DOT_START && i < 2;
			most = MAX(most, level[op->in[i]->id] + more);
		}
	for (int r = 0; r < op->nregion; r++)
		for (const Op *in = op->region[r]->first; in; in = in->next)
			most = MAX(most, level_of(body, level, in));
	return op->kind == OP_DOT_START ? MAX(most, 1) : most;
}

int *
warpgroup_levels(const Func *f, const Block *body, int *most)
{
	int *level = NEW_ARRAY(f->module->cx->tmp, int, f->nvalues);
	for (const Op *op = body->first; op; op = op->next) {
		int n = level_of(body, level, op);
		for (int i = 0; i < op->nout; i++)
			level[op->out[i].id] = n;
		if (op->kind == OP_PUT)
			level[op->in[0]->id] = MAX(level[op->in[0]->id], n);
		if (op->kind == OP_DOT_START)
			*most = MAX(*most, n);
	}
	return level;
}

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

/* It takes what part 2 makes. */
static bool
takes_late(const Skew *s, const Op *op)
{
	return ANY_OF(i, op->nin, value_inside(op->in[i], s->body) && s->late[op->in[i]->id]) ||
	    (op->kind == OP_DOT_START && s->late[op->out[0].id]);
}

bool
skew_is_made_late(const Skew *s, const Op *op)
{
	return takes_late(s, op) || (op->nout && s->late[op->out[0].id]);
}

/* Ops without operands are made where they are used. */
bool
skew_is_free(const Value *v)
{
	return v->def && v->def->nin == 0 && op_has(v->def, PURE);
}

/* 32-bit registers of a thread. */
int
skew_held_words(const Value *v)
{
	int bytes = v->layout ? dtype_tile_size(v->type->elem) << v->layout->in[IN_REGISTER] : 0;
	return (bytes + 3) / 4;
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
		for (int i = 0; i < op->nout && takes_late(s, op); i++) {
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
		uses += COUNT_OF(i, op->nin, op->in[i] == v && takes_late(s, op));
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
		if (skew_is_made_late(s, start) != is_second ||
		    (is_second && (!value_inside(p, s->body) || s->late[p->id])))
			return false;
		s->last[is_second] = start;
	}
	if (s->late[s->body->arg[0].id] || (s->put && !skew_is_made_late(s, s->put)))
		return false;
	return !ANY_OP_HERE(op, s->body,
	    (op->kind == OP_GET || op->kind == OP_PUT) && skew_is_made_late(s, op) &&
		(!s->put || slot_of(op->kind == OP_GET ? &op->out[0] : op->in[1]) !=
				slot_of(s->put->in[1])));
}

static bool
find_crossing(Skew *s)
{
	for (Op *op = s->body->first; op->kind != OP_YIELD; op = op->next)
		for (int i = 0; i < op->nin && skew_is_made_late(s, op); i++) {
			Value *v = op->in[i];
			bool known = !value_inside(v, s->body) || s->late[v->id] ||
				     skew_is_free(v) ||
				     ANY_OF(k, s->crossing.n, s->crossing.at[k] == v);
			if (!known && v->type->kind != TYPE_TILE)
				return false;
			if (!known)
				vec_push(s->tmp, &s->crossing, v);
		}
	return true;
}

/* Both rings of each slot that part 2 waits for and gives back. */
static void
find_rings(Skew *s)
{
	for (Op *op = s->body->first; op; op = op->next)
		if ((op->kind == OP_AWAIT || op->kind == OP_ARRIVE) && skew_is_made_late(s, op))
			vec_push(s->tmp, &s->rings, op->in[0]);
}

/* ---- all loops ---- */

/* Of a product's result, without columns that were added to make it a power of two. */
static int
words_of_product(const Op *wait)
{
	const Op *start = wait->in[0]->def;
	int words = skew_held_words(&wait->out[0]), extent = (int)wait->out[0].type->extent[1];
	const WgmmaInfo *info = start && start->kind == OP_DOT_START ? wgmma_named(attr_mma(start)) : NULL;
	return info && extent % info->n ? words * info->n / extent : words;
}

/* What a thread has registers for beside the results of all products, and what crosses from part 1 to part 2. */
static int
room(const Skew *s)
{
	int n = s->registers - OTHERS;
	for (const Op *op = s->body->first; op; op = op->next)
		n -= op->kind == OP_DOT_WAIT ? words_of_product(op) : 0;
	for (int i = 0; i < s->crossing.n; i++)
		n -= skew_held_words(s->crossing.at[i]);
	return n;
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
		if (parts)
			skew_find_ahead(&s);
		if (!parts || room(&s) < 0) {
			f->chain_reason = parts ? "all of their results take more registers than a thread of the role has"
			                        : "those at the chain's end share operands with the others, or feed them";
			continue;
		}
		next = op->next;
		skew_hold(&s, room(&s));
		find_rings(&s);
		skew_loop(&s);
		skew_producer(&s, roles->region[0]);
	}
}

void
pass_skew(Func *f, const Target *t)
{
	const Op *roles = func_find(f, OP_ROLES);
	if (roles)
		visit(f->module, f, roles);
	skew_read_early(f);
}
