/* Threads decode an operand an iteration ahead, while a product of warpgroups works.
 *
 *     wait {left = 1}                                     wait {left = 1}
 *     for … do (%k, %c) {                                 if %lo < %hi { put (slot 0 of %b), (cast (get …)) }
 *         wait {left = 1}                                 for … do (%k, %c, %made, %making) {
 *         %w = get (slot %now of %ring) : i4[…]               %d = dot_start %x, (slot %made of %b), %z
 *         put %b, (cast %w) : bf16[…]                         if … { copy … }
 *         proxy_fence                                         commit
 *         %d = dot_start %x, %b, %z                 =>        wait {left = 1}
 *         if … { copy … }                                     if %k + %step < %hi {
 *         commit                                                  put (slot %making of %b), (cast (get (next slot …)))
 *         %e = dot_wait %d                                    }
 *         yield (add %c, %e)                                  proxy_fence
 *     }                                                       %e = dot_wait %d
 *                                                             yield (add %c, %e), (%made + 1, wrapped), %made
 *                                                         }
 *
 * Else each iteration decodes, meets, multiplies and waits, one after the other.  The copies of what is decoded are waited
 * for an iteration earlier, so that the ring has three slots at least.  So are bulk copies of a tile that both the product
 * and what computes its other operand read: the await goes with the first get of its slot.  What the operand is made of
 * must follow from the loop's index, numbers that it carries and tiles that it read ahead; other operands come by tensor
 * maps, or stood in shared memory before. */
#include "pass/async/pipeline.h"

#include <string.h>

enum { SLOTS = 2 };

typedef struct Decode {
	Pipeline p;                                     /* the loop, and what pipeline_carry needs */
	Op *put, *start, *wait, *commit;
	VEC(Op *) ops;                                  /* what the operand is made of, in order */
	Value **map;                                    /* by Value.id: what stands for it in the copy; NULL: the same */
	int nvalues;
	Value *made, *making;                           /* the slots of this iteration's operand and the next one's */
} Decode;

/* ---- which loops ---- */

static bool
takes_part(const Decode *d, const Op *op)
{
	return ANY_OF(i, d->ops.n, d->ops.at[i] == op);
}

/* Where the body waits for the slot's copies; NULL: nowhere.  *is_counted: an mbarrier counts those to its buffer. */
static Op *
find_await(const Decode *d, const Value *slot, bool *is_counted)
{
	const Block *all = d->p.f->body;
	const Value *ring = NULL;

	for (const Op *op = all->first; op && !ring; op = op_after(op, all))
		if (op_is_counted_copy(op) && buffer_owner(op->in[access_data(op)]) == buffer_owner(slot))
			ring = op->in[access_data(op) + 1];
	*is_counted = ring;
	return FIND_NEXT(op, slot->def && slot->def->kind == OP_SLOT ? d->p.body->first : NULL, op->next,
	    op->kind == OP_AWAIT && op->in[0] == ring && op->in[1] == slot->def->in[1]);
}

static bool collect(Decode *d, const Value *v);

/* The op behind what its operands are made of; an await before the first get of what it waits for. */
static bool
collect_op(Decode *d, Op *op)
{
	bool is_counted = false;
	Op *await = op->kind == OP_GET ? find_await(d, op->in[0], &is_counted) : NULL;

	if (is_counted && (!await || (!takes_part(d, await) && !collect_op(d, await))))
		return false;
	if (!ALL_OF(i, op->nin, collect(d, op->in[i])))
		return false;
	vec_push(d->p.tmp, &d->ops, op);
	return true;
}

/* Ops of the body that v is made of.  False: of what cannot be had an iteration earlier. */
static bool
collect(Decode *d, const Value *v)
{
	Op *op = v->def;

	if (!value_inside(v, d->p.body) || !op || takes_part(d, op))
		return true;
	if (op->home != d->p.body || op->nregion || (op->kind != OP_GET && op->kind != OP_READ && !op_has(op, PURE)) ||
	    (op->kind == OP_READ && d->p.f->param[op->in[0]->index].access != ACCESS_IN))
		return false;
	return collect_op(d, op);
}

/* Is v there before the product is waited for, or made of nothing but what is? */
static bool
is_early(const Decode *d, const Value *v)
{
	const Op *op = v->def;

	if (!value_inside(v, d->p.body) || !op)
		return true;
	for (const Op *at = d->commit; at; at = at->prev)
		if (at == op)
			return true;
	if (op->home != d->p.body || op->nregion || !op_has(op, PURE))
		return false;
	return ALL_OF(i, op->nin, is_early(d, op->in[i]));
}

/* What the operand is made of, beside the loop's index, is known of the next iteration in time. */
static bool
carries_early(const Decode *d)
{
	for (int n = 0; n < d->ops.n; n++)
		for (int i = 0; i < d->ops.at[n]->nin; i++) {
			const Value *v = d->ops.at[n]->in[i];
			bool is_carried = !v->def && v->block == d->p.body && v->index > 0;
			if (is_carried && !is_early(d, d->p.body->last->in[v->index - 1]))
				return false;
		}
	return true;
}

/* Are all rings that copies in groups fill in the loop read for this operand alone? */
static bool
owns_groups(const Decode *d)
{
	for (const Op *op = d->p.body->first; op; op = op_after(op, d->p.body)) {
		if (op->kind == OP_GET && !takes_part(d, op))
			return false;
		for (int i = 0; i < 2 && op->kind == OP_DOT_START; i++) {
			const Op *of = buffer_owner(op->in[i]);
			bool is_other = of && of != d->put->in[0]->def;
			for (const Op *c = d->p.body->first; c && is_other; c = op_after(c, d->p.body))
				if (c->kind == OP_COPY && !op_is_bulk_copy(c) && buffer_owner(c->in[access_data(c)]) == of)
					return false;
		}
	}
	return true;
}

/* The only op of that kind in the body itself; NULL: none, or several. */
static Op *
only(const Block *b, OpKind kind)
{
	Op *found = NULL;

	for (Op *op = b->first; op; op = op->next) {
		if (op->kind == kind && found)
			return NULL;
		found = op->kind == kind ? op : found;
	}
	return found;
}

static bool
find(Decode *d)
{
	const Block *body = d->p.body;

	d->put = only(body, OP_PUT);
	d->start = only(body, OP_DOT_START);
	d->wait = only(body, OP_WAIT);
	d->commit = only(body, OP_COMMIT);
	if (!d->put || !d->start || !d->wait || !d->commit || !only(body, OP_DOT_WAIT) || !only(body, OP_PROXY_FENCE))
		return false;
	const Value *buffer = d->put->in[0];
	bool is_operand = buffer->def && buffer->def->kind == OP_ALLOC && buffer->nuses == 2 &&
	    (d->start->in[0] == buffer || d->start->in[1] == buffer);
	return is_operand && attr_left(d->wait) >= DECODED_AHEAD - 2 && d->put->next->kind == OP_PROXY_FENCE &&
	    collect(d, d->put->in[1]) && carries_early(d) && owns_groups(d);
}

/* ---- what becomes of them ---- */

static Value *
mapped(const Decode *d, Value *v)
{
	return v->id < d->nvalues && d->map[v->id] ? d->map[v->id] : v;
}

/* The operand again, from what `map` has, into that slot. */
static void
make(const Decode *d, Builder *b, Value *slot)
{
	for (int i = 0; i < d->ops.n; i++)
		op_clone(b, d->ops.at[i], d->map);
	op_make(b, OP_PUT, (Value *[]){slot, mapped(d, d->put->in[1])}, 2, NULL, 0, NULL, 0);
}

/* Where there is such an iteration. */
static void
make_if(const Decode *d, Builder *b, Value *index, Value *buffer, Value *number)
{
	Builder in = build_where(b, build2(b, OP_LT, index, d->p.loop->in[1]), true);
	in.place = d->put->place;
	make(d, &in, build_slot(&in, buffer, number));
	build_yield(&in, NULL, 0);
	op_make(b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
}

static void
clear_map(Decode *d)
{
	memset(d->map, 0, sizeof *d->map * (size_t)d->nvalues);
}

/* The first one, before the loop. */
static void
make_first(Decode *d, Value *buffer)
{
	Op *loop = d->p.loop;
	Builder b = {.m = d->p.m, .block = loop->home, .before = loop, .place = d->put->place};
	Attr left = attr_new_left(d->p.m, attr_left(d->wait));

	clear_map(d);
	for (int i = 0; i < d->p.body->narg; i++)
		d->map[d->p.body->arg[i].id] = i ? loop->in[2 + i] : loop->in[0];
	op_make(&b, OP_WAIT, NULL, 0, &left, 1, NULL, 0);
	make_if(d, &b, loop->in[0], buffer, build_index(&b, 0));
}

/* v of this iteration at the builder's place. */
static Value *
early(const Decode *d, Builder *b, Value *v)
{
	const Op *op = v->def;

	if (!value_inside(v, d->p.body) || !op)
		return v;
	if (mapped(d, v) != v)
		return mapped(d, v);
	for (const Op *at = d->wait; at; at = at->prev)
		if (at == op)
			return v;
	for (int i = 0; i < op->nin; i++)
		early(d, b, op->in[i]);
	return &op_clone(b, op, d->map)->out[v->index];
}

/* The next one, behind this iteration's copies. */
static void
make_next(Decode *d, Value *buffer)
{
	Block *body = d->p.body;
	Value **next = NEW_ARRAY(d->p.tmp, Value *, body->narg);

	op_move(d->wait, body, d->commit->next);
	Builder b = {.m = d->p.m, .block = body, .before = d->wait->next, .place = d->put->place};
	clear_map(d);
	next[0] = build2(&b, OP_ADD, &body->arg[0], d->p.loop->in[2]);
	for (int i = 1; i < body->narg; i++) {
		next[i] = NULL;
		for (int n = 0; n < d->ops.n; n++)
			for (int k = 0; k < d->ops.at[n]->nin && !next[i]; k++)
				if (d->ops.at[n]->in[k] == &body->arg[i])
					next[i] = early(d, &b, body->last->in[i - 1]);
	}
	clear_map(d);
	for (int i = 0; i < body->narg; i++)
		d->map[body->arg[i].id] = next[i];
	make_if(d, &b, next[0], buffer, d->making);
}

static void
erase_old(Decode *d)
{
	Value *was = d->put->in[0];

	op_erase(d->put->next);
	op_erase(d->put);
	for (int i = d->ops.n - 1; i >= 0; i--)
		if (d->ops.at[i]->nout == 0 || d->ops.at[i]->out[0].nuses == 0)
			op_erase(d->ops.at[i]);
	op_erase(was->def);
}

static void
rotate(Decode *d)
{
	Pipeline *p = &d->p;
	Op *was = d->put->in[0]->def;
	Builder start = build_before(was);
	const Type *t = was->out[0].type;
	Value *buffer = build0(&start, OP_ALLOC, type_buffer(p->m, t->elem, SLOTS, 2, t->extent));

	buffer->layout = was->out[0].layout;
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	Value *slot = pipeline_carry(p, (Value *[]){build_index(&b, 0), build_index(&b, 1)}, 2);
	slot[0].name = "made";
	slot[1].name = "making";
	d->made = &slot[0];
	d->making = &slot[1];
	func_number(p->f);
	d->nvalues = p->f->nvalues;
	d->map = NEW_ARRAY(p->tmp, Value *, d->nvalues);
	make_first(d, buffer);
	make_next(d, buffer);
	b = (Builder){.m = p->m, .block = p->body, .before = d->start, .place = d->start->place};
	Value *operand = build_slot(&b, buffer, d->made);
	for (int i = 0; i < 2; i++)
		if (d->start->in[i] == &was->out[0])
			op_set_in(d->start, i, operand);
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->last, .place = p->loop->place};
	pipeline_yield(p, (Value *[]){pipeline_next(&b, d->made, SLOTS), d->made}, 2);
	erase_old(d);
}

void
pipeline_decode_ahead(Module *m, Func *f)
{
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		Decode d = {.p = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = op}};
		if (op->kind != OP_FOR)
			continue;
		d.p.body = op->region[0];
		if (!find(&d))
			continue;
		rotate(&d);
		next = d.p.loop->next;
	}
}
