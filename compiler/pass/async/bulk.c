/* Bulk copies: one thread has a whole tile copied by a tensor map, and an mbarrier counts the bytes.
 *
 *     expect %full, %free {bytes = 32768}
 *     copy %a, %m, %k, (slot %free of %ring), %full, %free {kind = "bulk"}
 *     …
 *     await %full, %now, %phase                            the slot's copies of this turn of the ring have come
 *
 * The parity that an await asks for turns when the ring wraps.  With warps that only copy, a second mbarrier says that a
 * slot is free; its first turn waits for the phase before the first, which is over from the beginning:
 *
 *     for … do (%k: i64, %c: …, %now: i64, %phase: i64) {
 *         await %empty, %now, 1 - %phase
 *         expect %full, %now; copy …                       what pass roles gives to the producer
 *         await %full, %now, %phase
 *         …
 *         arrive %empty, %now {by = "warp"}
 *     } */
#include "model/model.h"
#include "pass/async/pipeline.h"

/* The loop over programs that the loop stands in, or NULL. */
static Op *
over_programs(const Op *loop)
{
	Op *op = loop->home->parent;
	return op && op->kind == OP_FOR && op->in[0]->def && op->in[0]->def->kind == OP_BLOCK_ID ? op : NULL;
}

/* An mbarrier is initialised once.  The symmetric form carries slots and phases on through a loop over programs. */
static bool
runs_once(const Pipeline *p)
{
	const Op *programs = p->f->schedule.specialize ? over_programs(p->loop) : NULL;
	for (const Op *op = p->loop->home->parent; op; op = op->home->parent)
		if (op_is_loop(op) && op != programs)
			return false;
	return true;
}

static void
mark_bulk(Pipeline *p, bool allowed)
{
	p->bulk_bytes = p->nasync = 0;
	for (int i = 0; i < p->reads.n; i++) {
		Staged *s = &p->reads.at[i];
		s->is_bulk = allowed && s->is_boxed && !map_reason(s->read, p->t);
		p->nasync += !s->is_bulk;
		p->bulk_bytes += s->is_bulk ? tile_bytes(s->read->out[0].type) : 0;
	}
}

/* In a loop over programs all of them, or none: the form with copies ahead carries nothing on. */
void
pipeline_find_bulk(Pipeline *p)
{
	mark_bulk(p, p->is_async && runs_once(p));
	if (p->nasync && over_programs(p->loop))
		mark_bulk(p, false);
}

static Value *
mbarrier(Pipeline *p, Builder *b, int slots, int64_t count, const char *name)
{
	const Type *t = type_mbarrier(p->m, slots);
	Attr a = attr_new_count(p->m, count);
	Value *v = &op_make(b, OP_MBARRIER, NULL, 0, &a, 1, &t, 1)->out[0];

	v->name = name;
	return v;
}

void
pipeline_mbarriers(Pipeline *p, Builder *b, int slots)
{
	if (p->bulk_bytes)
		p->full = mbarrier(p, b, slots, 1, "full");
}

void
pipeline_copies(Pipeline *p, Builder *b, Value *index, Value *number)
{
	Attr bytes = attr_new_bytes(p->m, p->bulk_bytes);

	if (p->bulk_bytes)
		op_make(b, OP_EXPECT, (Value *[]){p->full, number}, 2, &bytes, 1, NULL, 0);
	for (int i = 0; i < p->reads.n; i++) {
		const Staged *s = &p->reads.at[i];
		b->place = s->read->place;
		pipeline_access(p, b, s, OP_COPY, pipeline_slot(p, b, s, number), index);
	}
}

static void
await(Builder *b, Value *ring, Value *number, Value *phase)
{
	op_make(b, OP_AWAIT, (Value *[]){ring, number, phase}, 3, NULL, 0, NULL, 0);
}

void
pipeline_await(Pipeline *p, Builder *b, Value *number, Value *phase)
{
	await(b, p->full, number, phase);
}

Value *
pipeline_next_phase(Builder *b, Value *phase, Value *next_number)
{
	Value *wraps = build2(b, OP_EQ, next_number, build_index(b, 0));

	return build3(b, OP_SELECT, wraps, build2(b, OP_SUB, build_index(b, 1), phase), phase);
}

/* Buffers and mbarriers are the block's, one for all programs. */
static void
hoist_buffers(Pipeline *p, Op *programs)
{
	for (Op *op = programs->region[0]->first, *next; op != p->loop; op = next) {
		next = op->next;
		if (op->kind == OP_ALLOC || op->kind == OP_MBARRIER)
			op_move(op, programs->home, programs);
	}
}

/* The slot and the phase that the loop ends with, its last two carried values, are those that the next program's begins
 * with. */
static void
carry_on(Pipeline *p, Op *programs)
{
	Pipeline outer = {.m = p->m, .tmp = p->tmp, .f = p->f, .loop = programs, .body = programs->region[0]};
	Builder b = build_before(programs);
	int n = p->loop->nout;

	hoist_buffers(p, programs);
	Value *arg = pipeline_carry(&outer, (Value *[]){build_index(&b, 0), build_index(&b, 0)}, 2);
	for (int i = 0; i < 2; i++) {
		arg[i].name = p->body->arg[n - 1 + i].name;
		op_set_in(p->loop, 3 + n - 2 + i, &arg[i]);
	}
	pipeline_yield(&outer, (Value *[]){&p->loop->out[n - 2], &p->loop->out[n - 1]}, 2);
}

/* The ring is there for all programs, beside the scratch of what else a program does; small scratch stands apart. */
static int
fit_slots(const Pipeline *p, int slots)
{
	enum { APART = 8192 };
	const Block *body = p->f->body;
	int64_t each = pipeline_stage_bytes(p, false), scratch = 0;

	for (const Op *op = body->first; op; op = op_after(op, body))
		if (!op_inside(op, p->body))
			scratch = MAX(scratch, plan_op(op, p->t).scratch);
	while (slots > 2 && slots * each + scratch + APART > p->t->shared_bytes)
		slots--;
	return slots;
}

void
pipeline_symmetric(Pipeline *p, int slots)
{
	slots = fit_slots(p, slots);
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	Attr by = attr_new_by(p->m, "warp");

	pipeline_rings(p, &b, slots);
	pipeline_mbarriers(p, &b, slots);
	p->empty = mbarrier(p, &b, slots, p->f->schedule.warps, "empty");
	Value *slot = pipeline_carry(p, (Value *[]){build_index(&b, 0), build_index(&b, 0)}, 2);
	slot[0].name = "now";
	slot[1].name = "phase";
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	await(&b, p->empty, &slot[0], build2(&b, OP_SUB, build_index(&b, 1), &slot[1]));
	pipeline_copies(p, &b, &p->body->arg[0], &slot[0]);
	b.place = p->loop->place;
	pipeline_await(p, &b, &slot[0], &slot[1]);
	Value **now = NEW_ARRAY(p->tmp, Value *, p->reads.n);
	for (int i = 0; i < p->reads.n; i++)
		now[i] = pipeline_slot(p, &b, &p->reads.at[i], &slot[0]);
	for (int i = 0; i < p->reads.n; i++)
		pipeline_gets(p, &p->reads.at[i], now[i]);
	b.before = p->body->last;
	op_make(&b, OP_ARRIVE, (Value *[]){p->empty, &slot[0]}, 2, &by, 1, NULL, 0);
	Value *next = pipeline_next(&b, &slot[0], slots);
	pipeline_yield(p, (Value *[]){next, pipeline_next_phase(&b, &slot[1], next)}, 2);
	Op *programs = over_programs(p->loop);
	if (programs)
		carry_on(p, programs);
}
