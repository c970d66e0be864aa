/* Two chained products of a loop run at once: the first of the next iteration beside the second of this one.
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
 * Part 2 of a body is the second product, the slot that it reads with its number, what depends on them, and moves that
 * only those use; part 1 is the rest.  Part 1 must not need what part 2 makes: then the loop's iterations may be cut
 * between them, and what part 2 takes from part 1 is carried to the next iteration: tiles alone, for a slot of part 1's
 * ring (an operand that both products read) is given back before part 2 runs.  What threads take from slots, as a bias of
 * the scores, belongs to part 1.  The first iteration's part 1 and the last
 * one's part 2 stand before and behind the loop.  Each part does the same in the same order as before, so results
 * are the same to the bit. */
#include "pass/pass.h"
#include "target/target.h"

enum { WIDE_ELEMENTS = 4096 };

typedef struct Skew {
	Module *m;
	Arena *tmp;
	Func *f;
	Op *loop;
	Block *body;
	Op *start[2], *wait[2];                         /* the products */
	Op *put;                                        /* of the second product's operand, which threads make; or NULL */
	bool *late;                                     /* by Value.id: part 2 makes it, or it is carried for part 2 */
	VEC(Value *) crossing;                          /* what part 2 takes from part 1 */
} Skew;

/* ---- the products ---- */

static Op *
wait_of(const Op *start)
{
	for (Op *op = start->next; op; op = op->next)
		if (op->kind == OP_DOT_WAIT && op->nin == 1 && op->in[0] == &start->out[0])
			return op;
	return NULL;
}

/* Two products of the body and nothing else that waits, copies or branches. */
static bool
find_products(Skew *s)
{
	int n = 0;

	for (Op *op = s->body->first; op; op = op->next) {
		if (op->nregion || op->kind == OP_COPY || op->kind == OP_EXPECT)
			return false;
		if (op->kind != OP_DOT_START)
			continue;
		if (n == 2)
			return false;
		s->start[n++] = op;
	}
	for (int i = 0; i < n; i++) {
		s->wait[i] = wait_of(s->start[i]);
		if (!s->wait[i])
			return false;
	}
	return n == 2;
}

/* ---- the parts ---- */

static bool
is_late(const Skew *s, const Op *op)
{
	for (int i = 0; i < op->nin; i++)
		if (value_inside(op->in[i], s->body) && s->late[op->in[i]->id])
			return true;
	return op == s->start[1];
}

/* What threads put into the buffer that the second product reads, and nothing else does. */
static Op *
find_put(const Skew *s)
{
	const Value *buffer = s->start[1]->in[1];
	Op *put = NULL;
	if (!buffer->def || buffer->def->kind != OP_ALLOC || buffer->nuses != 2)
		return NULL;
	for (Op *op = s->body->first; op != s->start[1]; op = op->next)
		put = op->kind == OP_PUT && op->in[0] == buffer ? op : put;
	return put;
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

/* The number of the slot that the second product reads, or of which threads make what it reads, and the phases that are
 * waited for with it. */
static void
mark_slot(Skew *s)
{
	const Op *slot = s->put ? slot_of(s->put->in[1]) : s->start[1]->in[1]->def;

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

static bool
part_body(Skew *s)
{
	func_number(s->f);
	s->late = NEW_ARRAY(s->tmp, bool, s->f->nvalues);
	s->put = find_put(s);
	mark_slot(s);
	while (spread_late(s) || sink_moves(s))
		;
	if (is_made_late(s, s->start[0]) || is_made_late(s, s->wait[0]) || s->late[s->body->arg[0].id])
		return false;
	if (s->put && !is_made_late(s, s->put))
		return false;
	for (const Op *op = s->body->first; op; op = op->next)
		if ((op->kind == OP_GET || op->kind == OP_PUT) && is_made_late(s, op) &&
		    (!s->put || slot_of(op->kind == OP_GET ? &op->out[0] : op->in[1]) != slot_of(s->put->in[1])))
			return false;
	const Value *p = s->start[1]->in[0];
	return value_inside(p, s->body) && !s->late[p->id];
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

/* The fence of what threads put goes with it. */
static bool
is_of_part(const Skew *s, const Op *op, bool late)
{
	bool is_fence = op->kind == OP_PROXY_FENCE && s->put && op->prev == s->put;
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

/* The second product's operands but for what waits; then the products, the first one's before the second's. */
static void
clone_starts(Skew *s, Builder *b, Value **first, Value **second)
{
	Op *yield = s->body->last;

	for (const Op *op = s->body->first; op != s->start[1]; op = op->next)
		if ((is_made_late(s, op) && is_ready(s, op)) || (op->nout == 1 && is_free(&op->out[0])))
			op_clone(b, op, second);
	clone_part(s, b, first, false, s->body->first, s->start[0]->next);
	for (const Op *op = s->body->first; op != s->start[1]; op = op->next)
		if (is_of_part(s, op, true) && !is_ready(s, op))
			op_clone(b, op, second);
	op_clone(b, s->start[1], second);
	clone_part(s, b, first, false, s->start[0]->next, yield);
	clone_part(s, b, second, true, s->start[1]->next, yield);
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
	attr_set_left(s->m, first[s->wait[0]->out[0].id]->def, 1);
	Value **out = NEW_ARRAY(s->tmp, Value *, n + s->crossing.n);
	for (int i = 0; i < n; i++)
		out[i] = mapped(is_late_column(s, i) ? second : first, s->body->last->in[i]);
	for (int i = 0; i < s->crossing.n; i++)
		out[n + i] = mapped(first, s->crossing.at[i]);
	build_yield(&b, out, n + s->crossing.n);
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
	Builder none = {.m = s->m, .block = branch->region[1], .place = old->place};
	build_yield(&none, old->in + 3, n);
	op_replace(old, branch);
}

/* ---- what only the first product's result is combined with ---- */

static bool
is_wide(const Value *v)
{
	return v->type->kind == TYPE_TILE && type_count(v->type) >= WIDE_ELEMENTS;
}

/* The first op behind the product's start that uses a result; NULL: something else uses it too. */
static Op *
first_use(const Op *start, const Op *op)
{
	int uses = 0;
	Op *first = NULL;
	for (Op *p = start->next; p->kind != OP_YIELD; p = p->next)
		for (int i = 0; i < p->nin; i++)
			if (p->in[i] == &op->out[0]) {
				first = first ? first : p;
				uses++;
			}
	return uses == op->out[0].nuses ? first : NULL;
}

/* It has as many registers as the product and no wide operand that would live on for it. */
static bool
may_wait(const Block *body, const Op *op)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->nin == 0 || !is_wide(&op->out[0]))
		return false;
	for (int i = 0; i < op->nin; i++) {
		const Op *def = op->in[i]->def;
		if (is_wide(op->in[i]) && value_inside(op->in[i], body) && (!def || !op_has(def, PURE) || def->nregion))
			return false;
	}
	return true;
}

/* A tile of weights (a decay, a bias by distance) that stands before the first product and is used behind it would be in
 * registers beside both products: it is computed where it is used. */
static void
sink_weights(Block *body, const Op *start)
{
	for (Op *op = start->prev, *prev; op; op = prev) {
		prev = op->prev;
		Op *use = may_wait(body, op) ? first_use(start, op) : NULL;
		if (use)
			op_move(op, body, use);
	}
}

static void
visit(Module *m, Func *f, Block *consumers)
{
	for (Op *op = consumers->first, *next; op; op = next) {
		Skew s = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = op, .body = op->kind == OP_FOR ? op->region[0] : NULL};
		next = op_after(op, consumers);
		if (!s.body || !find_products(&s))
			continue;
		sink_weights(s.body, s.start[0]);
		if (!part_body(&s) || !find_crossing(&s))
			continue;
		next = op->next;
		skew(&s);
	}
}

void
pass_skew(Func *f, const Target *t)
{
	const Op *roles = func_find(f, OP_ROLES);
	if (roles)
		visit(f->module, f, roles->region[1]);
}
