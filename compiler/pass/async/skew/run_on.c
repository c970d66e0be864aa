/* Products of a lone warpgroup run on into the loop's next iteration: no other warpgroup multiplies while it waits.
 *
 *     for … do (%k, %acc, %now, %phase) {            for … do (%k, %acc, %now, %phase, %before) {
 *         await %full, %now, %phase                      await %full, %now, %phase
 *         %d = dot_start (slot %now), …, %acc            %d = dot_start (slot %now), …, %acc
 *         %e = dot_wait %d {left = 0}                    dot_wait {left = 1}
 *         arrive %empty, %now                    =>      if %before is a slot { arrive %empty, %before }
 *         yield %e, …                                    yield %d, …, %now
 *     }                                              }
 *     await … arrive %turns                          await … arrive %turns
 *                                                    %e = dot_wait %acc {left = 0}
 *                                                    if %before is a slot { arrive %empty, %before }
 *
 * The slot of the iteration before is given back when that one's product is over, behind the beginning of this one's.  On
 * an H200 a step of 64 along K of a tile of 64 x 128 takes 350 cycles so, 465 where each product is waited for.  The last
 * runs on while the program waits for other slots, and while another group begins (pingpong.c).
 *
 * Flat blocks have no arrivals: a thread copies into the slot of the iteration before, behind a barrier.
 *
 *         %d = dot_start (slot %now), …, %acc            %d = dot_start (slot %now), …, %acc
 *         if … { expect; copy … (slot %free) }     =>    dot_wait {left = 1}
 *         %e = dot_wait %d {left = 0}                    if … { expect; copy … (slot %free) } */
#include "model/product.h"
#include "pass/async/pipeline.h"

enum { SLOTS_LEAST = 3 };                               /* one is filled while two are read */

typedef struct RunOn {
	Op *start, *wait;                               /* of the loop */
	Op *arrive;                                     /* NULL: a flat block's, whose copies stand behind the product */
	int sum;                                        /* which of the values that it carries the product adds to */
} RunOn;

/* Is it once in the block, and the only op of its kind there and within? */
static Op *
the_only(const Block *body, OpKind kind)
{
	Op *found = NULL;
	int n = 0;

	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == kind) {
			found = op;
			n++;
		}
	return n == 1 && found->home == body ? found : NULL;
}

static bool
fills_slots(const Op *op)
{
	return op->kind == OP_EXPECT || op_is_bulk_copy(op);
}

/* Does an op do more to the slots that the product reads than a copy behind it? */
static bool
touches(const RunOn *r, const Op *op, bool is_behind)
{
	bool uses = ANY_OF(i, op->nin, op->in[i]->type->kind == TYPE_BUFFER) && op->kind != OP_SLOT;
	if (!uses || op == r->start || op->kind == OP_ARRIVE || op->kind == OP_AWAIT)
		return false;
	return r->arrive || !is_behind || !fills_slots(op);
}

/* One product, which adds to what the loop carries, and whose operands are read from one ring. */
static bool
find(const Op *loop, RunOn *r)
{
	const Block *body = loop->region[0];
	bool is_behind = false;

	*r = (RunOn){the_only(body, OP_DOT_START), the_only(body, OP_DOT_WAIT), the_only(body, OP_ARRIVE), -1};
	if (!r->start || !r->wait || (!r->arrive && block_find(body, OP_ARRIVE)) || r->wait->nin != 1 ||
	    r->wait->in[0] != &r->start->out[0] || wgmma_adds_apart(r->start) || r->wait->out[0].nuses != 1)
		return false;
	for (int i = 0; i < loop->nout; i++)
		if (body->last->in[i] == &r->wait->out[0] && r->start->in[2] == &body->arg[1 + i])
			r->sum = i;
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (touches(r, op, is_behind))
			return false;
		is_behind |= op == r->start;
	}
	bool are_slots = r->start->in[0]->type->kind == TYPE_BUFFER;
	if (!r->arrive)
		return r->sum >= 0 && are_slots && the_only(body, OP_AWAIT);
	return r->sum >= 0 && are_slots && r->arrive->in[0]->type->slots >= SLOTS_LEAST;
}

/* Where the product before must be over: at the end, or before what fills the slot that it read. */
static Op *
last_moment(const RunOn *r)
{
	Op *op = r->start->next;
	while (!r->arrive && op != r->wait && !op->nregion && !fills_slots(op))
		op = op->next;
	return r->arrive ? r->wait : op;
}

void
pipeline_give_back(Builder *b, Op *arrive, Value *before)
{
	Builder some = build_where(b, build2(b, OP_EQ, before, build_index(b, -1)), false);
	op_make(&some, OP_ARRIVE, (Value *[]){arrive->in[0], before}, 2, arrive->attr, arrive->nattr, NULL, 0);
	build_yield(&some, NULL, 0);
}

/* Waits, and arrivals but those that give slots of the loop's ring back, with what slots they name. */
static bool
runs_beside(const Op *op, const Value *slots)
{
	bool names = (op_has(op, PURE) && op->nout == 1 && op->out->type->rank == 0 && !op->nregion) || op->kind == OP_SLOT;
	return names || op->kind == OP_AWAIT || (op->kind == OP_ARRIVE && op->in[0] != slots);
}

/* What the last product is waited for before: behind the last wait or arrival that it runs beside. */
static Op *
last_wait(Op *loop, const Value *slots)
{
	Op *at = loop->next;
	for (Op *op = at; op && runs_beside(op, slots); op = op->next)
		if (op->kind == OP_AWAIT || op->kind == OP_ARRIVE)
			at = op->next;
	return at;
}

void
pipeline_run_on(Func *f, Op *loop)
{
	RunOn r;
	Module *m = f->module;
	if (!find(loop, &r))
		return;
	Pipeline p = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = loop, .body = loop->region[0]};
	Builder b = build_before(loop);
	Value *before = NULL, *none = r.arrive ? build_index(&b, -1) : NULL;
	if (r.arrive) {
		before = pipeline_carry(&p, &none, 1);
		before->name = "before";
		pipeline_yield(&p, &r.arrive->in[1], 1);
	}
	b = build_before(last_moment(&r));
	Attr one = attr_new_left(m, 1), all = attr_new_left(m, 0);
	op_make(&b, OP_DOT_WAIT, NULL, 0, &one, 1, NULL, 0);
	if (r.arrive)
		pipeline_give_back(&b, r.arrive, before);
	value_replace(&r.wait->out[0], &r.start->out[0]);
	op_erase(r.wait);
	Value *sum = &p.loop->out[r.sum];
	b = build_before(r.arrive ? last_wait(p.loop, r.arrive->in[0]) : p.loop->next);
	b.place = r.start->place;
	Op *over = op_make(&b, OP_DOT_WAIT, &sum, 1, &all, 1, NULL, 0);
	over->out[0].layout = sum->layout;
	over->out[0].name = sum->name;
	value_replace_from(over->next, sum, &over->out[0]);
	if (!r.arrive)
		return;
	pipeline_give_back(&b, r.arrive, &p.loop->out[p.loop->nout - 1]);
	op_erase(r.arrive);
}

void
pipeline_run_all_on(Func *f)
{
	for (Op *op = f->body->first; op && f->schedule.specialize != 1; op = op_after(op, f->body))
		if (op->kind == OP_FOR)
			pipeline_run_on(f, op);
}
