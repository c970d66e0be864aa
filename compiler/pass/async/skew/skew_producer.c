/* The producer of a skewed loop copies in the order in which the consumers read: what part 1 reads in the next iteration
 * before what part 2 reads in this one.
 *
 *     for %lo, %hi, %step, %n, %m do (%k, %now, %now2) {      await %empty, %n …;  expect;  copy at %lo
 *         await %empty, %now …                                for %lo + %step, … , %lo, … do (%k, %last, %now, %now2) {
 *         expect %full, %now                                      await %empty, %now …;  expect;  copy at %k
 *         copy at %k, (slot %now), %full, %now                    await %empty2, %now2 …;  expect;  copy at %last
 *         await %empty2, %now2 …                         =>       yield %k, %now + 1, %now2 + 1
 *         expect %full2, %now2                                }
 *         copy at %k, (slot %now2), %full2, %now2             await %empty2 …;  expect;  copy at the last %k
 *         yield %now + 1, %now2 + 1                           (all of it: if lo < hi)
 *     }
 *
 * A slot of part 1's ring is free as soon as that product is over; in the order of the source its copy would wait for the
 * copy of part 2, whose slot is free half an iteration later: 823 us of attention on an H200 (d 128, s 4096), 807 so. */
#include "pass/async/skew/skew.h"
#include "ir/derive.h"

#include <string.h>

enum { PARTS = 2 };

typedef struct Producer {
	Module *m;
	Arena *tmp;
	Func *f;
	Op *loop;
	Block *body;
	const Skew *skew;                               /* of the consumers */
	bool *need[PARTS];                              /* by Value.id: that part's copies need it */
} Producer;

static bool
is_late_ring(const Producer *p, const Value *ring)
{
	return ANY_OF(i, p->skew->rings.n, p->skew->rings.at[i] == ring);
}

/* The ring that an effect is about; NULL: it is about something else. */
static const Value *
ring_of(const Op *op)
{
	if (op->kind == OP_AWAIT || op->kind == OP_EXPECT)
		return op->in[0];
	return op_is_bulk_copy(op) ? op->in[access_data(op) + 1] : NULL;
}

/* The loop that fills part 2's slots, with nothing in it but copies by one thread; NULL: there is none, or more. */
static Op *
find_loop(const Producer *p, const Block *producers)
{
	Op *loop = NULL;
	for (Op *op = producers->first; op; op = op_after(op, producers)) {
		if (op->kind != OP_EXPECT || !is_late_ring(p, op->in[0]))
			continue;
		if (op->home->parent->kind != OP_FOR || (loop && loop != op->home->parent))
			return NULL;
		loop = op->home->parent;
	}
	for (const Op *op = loop ? loop->region[0]->first : NULL; op; op = op->next)
		if (op->nregion || (op_has(op, WRITES | EFFECT) && op->kind != OP_YIELD && !ring_of(op)))
			return NULL;
	return loop;
}

static void
need(Producer *p, int part, const Value *v)
{
	if (!value_inside(v, p->body) || p->need[part][v->id])
		return;
	p->need[part][v->id] = true;
	if (!v->def && v->index > 0)
		need(p, part, p->body->last->in[v->index - 1]);
	for (int i = 0; v->def && i < v->def->nin; i++)
		need(p, part, v->def->in[i]);
}

/* No column is carried for both parts. */
static bool
part_columns(Producer *p)
{
	func_number(p->f);
	for (int part = 0; part < PARTS; part++)
		p->need[part] = NEW_ARRAY(p->tmp, bool, p->f->nvalues);
	for (const Op *op = p->body->first; op; op = op->next)
		for (int i = 0; ring_of(op) && i < op->nin; i++)
			need(p, is_late_ring(p, ring_of(op)), op->in[i]);
	return !ANY_OF(i, p->loop->nout, p->need[0][p->body->arg[1 + i].id] && p->need[1][p->body->arg[1 + i].id]);
}

/* What a part does at an index, with its columns; those of the next iteration go to `out`. */
static void
clone(Producer *p, Builder *b, int part, Value *at, Value *const *column, Value **out)
{
	Value **map = NEW_ARRAY(p->tmp, Value *, p->f->nvalues);
	int n = p->loop->nout;
	map[p->body->arg[0].id] = at;
	for (int i = 0; i < n; i++)
		map[p->body->arg[1 + i].id] = column[i];
	for (const Op *op = p->body->first; op->kind != OP_YIELD; op = op->next) {
		bool wanted = ring_of(op) ? is_late_ring(p, ring_of(op)) == part : op->nout && p->need[part][op->out[0].id];
		if (wanted || (part == 0 && !ring_of(op) && op->nout && !p->need[1][op->out[0].id]))
			op_clone(b, op, map);
	}
	for (int i = 0; i < n; i++)
		if (p->need[1][p->body->arg[1 + i].id] == part)
			out[i] = value_mapped(map, p->body->last->in[i]);
}

/* The loop carries the index of the iteration before, then the columns. */
static void
fill(Producer *p, Builder *b)
{
	Op *old = p->loop;
	int n = old->nout;
	Value **column = NEW_ARRAY(p->tmp, Value *, n + 1), **out = NEW_ARRAY(p->tmp, Value *, n + 1);
	memcpy(column + 1, old->in + 3, sizeof *column * (size_t)n);
	clone(p, b, 0, old->in[0], old->in + 3, column + 1);
	column[0] = old->in[0];
	Value *from = build2(b, OP_ADD, old->in[0], old->in[2]);
	Op *loop = build_for(b, (Value *[]){from, old->in[1], old->in[2]}, column, n + 1, old);
	Value *arg = loop->region[0]->arg;
	for (int i = 0; i < n + 1; i++) {
		column[i] = &arg[1 + i];
		arg[1 + i].name = i ? p->body->arg[i].name : "last";
	}
	arg[0].name = p->body->arg[0].name;
	Builder in = {.m = p->m, .block = loop->region[0], .place = old->place};
	clone(p, &in, 0, &arg[0], column + 1, out + 1);
	clone(p, &in, 1, column[0], column + 1, out + 1);
	out[0] = &arg[0];
	build_yield(&in, out, n + 1);
	for (int i = 0; i < n; i++)
		out[i] = column[i] = &loop->out[1 + i];
	clone(p, b, 1, &loop->out[0], column, out);
	build_yield(b, out, n);
}

void
skew_producer(const Skew *s, Block *producers)
{
	Producer p = {.m = s->m, .tmp = s->tmp, .f = s->f, .skew = s};
	p.loop = find_loop(&p, producers);
	p.body = p.loop ? p.loop->region[0] : NULL;
	if (!p.loop || !part_columns(&p))
		return;
	Op *old = p.loop;
	Builder b = build_before(old);
	Value *any = build2(&b, OP_LT, old->in[0], old->in[1]);
	Op *branch = build_if(&b, any, old->in + 3, old->nout);
	Builder in = build_inside(branch, 0), none = build_inside(branch, 1);
	fill(&p, &in);
	build_yield(&none, old->in + 3, old->nout);
	op_replace(old, branch);
}
