/* Products whose operands threads put run on into the loop's next iteration, which makes its operands meanwhile.
 *
 *     for … do (%k, %acc, %now) {                         for … do (%k, %acc, %now, %turn, %before) {
 *         %u = …                                              %u = …                      beside the product before
 *         put %b, %u                                          put (slot %turn of %b), %u
 *         proxy_fence                                         proxy_fence
 *         %d = dot_start (slot %now), %b, %acc                %w = dot_wait %acc {left = 0}
 *         %e = dot_wait %d {left = 0}              =>         if %before is a slot { arrive %empty, %before }
 *         arrive %empty, %now                                 %d = dot_start (slot %now), (slot %turn of %b), %w
 *         yield %e, …                                         yield %d, …, %turn + 1 wrapped, %now
 *     }                                                   }
 *                                                         %e = dot_wait %acc {left = 0}
 *                                                         if %before is a slot { arrive %empty, %before }
 *
 * Else each iteration computes, puts, meets, multiplies and waits, one after the other.  The buffer has two slots then.
 * One barrier an iteration does, between the wait and the product: behind it all warps have put this iteration's operand,
 * and the product before is over, so that the next iteration may put into the slot that it has read.  Copies that stand
 * behind the product fill slots that the one before has read.  Only products whose sums nothing but the loop carries. */
#include "model/model.h"
#include "model/product.h"
#include "pass/async/pipeline.h"

enum { MOST = 8, SLOTS_LEAST = 3 };                     /* one is filled while two are read */

/* ---- which loops ---- */

typedef struct RunPast {
	Func *f;
	const Block *body;
	Op *first;                                      /* product */
	int nstart, nwait, nput, narrive;
	Op *start[MOST], *wait[MOST], *put[MOST], *arrive[MOST];
	int sum[MOST];                                  /* by wait: which of the values that the loop carries it ends */
} RunPast;

static bool
note(Op **at, int *n, Op *op)
{
	if (*n == MOST)
		return false;
	at[(*n)++] = op;
	return true;
}

/* A put of the body whose buffer of one slot its products alone read. */
static bool
is_operand(const RunPast *r, const Op *put)
{
	const Op *alloc = put->in[0]->def;
	int uses = 1;
	if (alloc->kind != OP_ALLOC || alloc->out[0].type->slots != 1)
		return false;
	for (const Op *op = r->body->first; op; op = op->next)
		for (int i = 0; i < 2 && op->kind == OP_DOT_START; i++)
			uses += op->in[i] == &alloc->out[0];
	return uses > 1 && uses == alloc->out[0].nuses;
}

/* Products, waits and puts stand in the body itself; what copies fill stands behind the first product. */
static bool
collect(RunPast *r)
{
	for (Op *op = r->body->first; op; op = op_after(op, r->body)) {
		bool is_async = op->kind == OP_DOT_START || op->kind == OP_DOT_WAIT || op->kind == OP_PUT ||
		    op->kind == OP_ARRIVE, fits = true;
		if (op->kind == OP_DOT || (is_async && op->home != r->body) ||
		    (!r->first && (op->kind == OP_COPY || op->kind == OP_EXPECT)))
			return false;
		if (op->kind == OP_DOT_START) {
			r->first = r->first ? r->first : op;
			fits = note(r->start, &r->nstart, op);
		} else if (op->kind == OP_DOT_WAIT) {
			fits = op->nin == 1 && note(r->wait, &r->nwait, op);
		} else if (op->kind == OP_PUT && is_operand(r, op)) {
			fits = !r->first && note(r->put, &r->nput, op);
		} else if (op->kind == OP_ARRIVE && r->first) {
			fits = r->nwait > 0 && op->in[0]->type->slots >= SLOTS_LEAST && note(r->arrive, &r->narrive, op);
		}
		if (!fits)
			return false;
	}
	return r->nstart > 0 && r->nput > 0;
}

/* Which carried sum the products add to that this wait ends; -1: it is no such. */
static int
sum_of(const RunPast *r, const Op *wait)
{
	const Value *v = wait->in[0];
	int i = 0;
	while (v->def && ANY_OF(k, r->nstart, r->start[k] == v->def) && v->nuses == 1)
		v = v->def->in[2];
	for (const Op *yield = r->body->last; i < yield->nin && yield->in[i] != &wait->out[0];)
		i++;
	bool is_sum = v != wait->in[0] && wait->out[0].nuses == 1 && i < r->body->last->nin && v == &r->body->arg[1 + i];
	return is_sum && v->nuses == 1 ? i : -1;
}

/* All operands in shared memory: in a slot of which no arrival before the product says that it is read. */
static bool
reads_slots(const RunPast *r, const Op *start)
{
	for (int i = 0; i < 2; i++) {
		const Op *slot = start->in[i]->def;
		if (start->in[i]->type->kind != TYPE_BUFFER)
			return false;
		for (const Op *op = r->body->first; op != r->first && slot->kind == OP_SLOT; op = op->next)
			if (op->kind == OP_ARRIVE && op->in[1] == slot->in[1])
				return false;
	}
	return !wgmma_adds_apart(start);
}

/* Each product goes on to one wait; none is left to another one that the loop ends before. */
static bool
find_sums(RunPast *r)
{
	int ended = 0;
	for (int i = 0; i < r->nwait; i++) {
		r->sum[i] = sum_of(r, r->wait[i]);
		if (r->sum[i] < 0)
			return false;
		for (const Value *v = r->wait[i]->in[0]; v->def; v = v->def->in[2])
			ended++;
	}
	return ended == r->nstart && ALL_OF(i, r->nstart, reads_slots(r, r->start[i]));
}

/* ---- room ---- */

/* Of shared memory: buffers, scratch, mbarriers, and in roles what results leave through. */
static int64_t
bytes_of(Func *f, const Target *t)
{
	enum { MBARRIERS = 4096 };                      /* with what scratch loses between buffers */
	int64_t bytes = MBARRIERS, scratch = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bytes += op->kind == OP_ALLOC ? op->out[0].type->slots * tile_bytes(op->out[0].type) : 0;
		bytes += f->schedule.specialize == 1 ? drain_bytes(f, t, op) : 0;
		scratch = MAX(scratch, op->kind == OP_ALLOC || op->kind == OP_MBARRIER ? 0 : plan_op(op, t).scratch);
	}
	return bytes + scratch;
}

static int
blocks_of(const Target *t, int64_t bytes)
{
	enum { SYSTEM_BYTES = 1024 };                   /* of each block: CUDA C++ Programming Guide */
	return (int)(t->shared_bytes_unit / (bytes + SYSTEM_BYTES));
}

/* Does a multiprocessor hold one block?  Of several, others multiply meanwhile (H200: 1.1 of the time). */
static bool
is_alone(const Func *f, const Target *t, int64_t bytes, int64_t sums)
{
	enum { OTHERS = 40 };                           /* registers beside the sums */
	int threads = MAX(f->schedule.warps, 1) * t->lanes, most = (int)(t->registers / (threads * (sums + OTHERS)));
	return f->schedule.specialize == 1 || MIN(blocks_of(t, bytes), most) <= 1;
}

static bool
has_room(const RunPast *r, const Target *t)
{
	int64_t bytes = bytes_of(r->f, t), more = 0, sums = 0;
	for (int i = 0; i < r->nput; i++)
		more += tile_bytes(r->put[i]->in[0]->type);
	for (int i = 0; i < r->nwait; i++)
		sums += INT64_C(1) << r->wait[i]->out[0].layout->in[IN_REGISTER];
	return is_alone(r->f, t, bytes, sums) && bytes + more <= t->shared_bytes;
}

/* Of a multiprocessor, that the products of a trip take. */
static double
cycles_of(const RunPast *r, const Target *t)
{
	double n = 0;
	for (int i = 0; i < r->nstart && t->rates; i++) {
		const Type *b = r->start[i]->in[1]->type, *out = r->start[i]->out[0].type;
		double depth = (double)type_count(b) / (double)out->extent[out->rank - 1];
		n += (double)type_count(out) * depth * dtype_info[b->elem].bits / (16 * t->rates->products_warpgroup);
	}
	return n;
}

/* Copies that are waited for at once, of a ring of two slots, leave nothing to do beside the product; nor are there trips
 * enough of a loop in a loop.  Beside short products there is little to gain: to read elements one by one takes longer
 * (H200, 512 cycles beside those: 1.08 of the time; 1024: 0.93). */
static bool
pays(const RunPast *r, const Target *t, const Op *loop)
{
	enum { CYCLES_LEAST = 500 };
	bool gathers = ANY_OP_HERE(op, r->body, op->kind == OP_READ && op->out[0].type->rank == 2 && attr_vector(op) == 1);
	if (cycles_of(r, t) < (gathers ? 2 : 1) * CYCLES_LEAST)
		return false;
	const Op *within = pipeline_programs(loop) ? pipeline_in_program(loop) : loop;
	if (within != loop || (!pipeline_programs(loop) && loop->home != r->f->body))
		return false;
	return !ANY_OP(op, r->body, op_is_grouped_copy(op) &&
	    buffer_owner(op->in[access_data(op)])->out[0].type->slots < SLOTS_LEAST);
}

/* ---- what becomes of them ---- */

static void
wait_for(Builder *b, Op *old, Value *sum, Value **over)
{
	Attr all = attr_new_left(b->m, 0);
	Op *wait = op_make(b, OP_DOT_WAIT, &sum, 1, &all, 1, NULL, 0);
	wait->out[0].layout = old->out[0].layout;
	wait->out[0].name = old->out[0].name;
	*over = &wait->out[0];
}

/* The put's buffer with two slots, of which it and the products take that of the number. */
static void
double_buffer(RunPast *r, Op *put, Value *turn)
{
	Module *m = r->f->module;
	Op *was = put->in[0]->def;
	const Type *t = was->out[0].type;
	Builder at = build_before(was), b = build_before(put);
	Value *two = build0(&at, OP_ALLOC, type_buffer(m, t->elem, 2, 2, t->extent));
	two->layout = was->out[0].layout;
	Value *slot = build_slot(&b, two, turn);
	op_set_in(put, 0, slot);
	for (int i = 0; i < r->nstart; i++)
		for (int k = 0; k < 2; k++)
			if (r->start[i]->in[k] == &was->out[0])
				op_set_in(r->start[i], k, slot);
	op_erase(was);
}

/* The sums that the loop carries are of products that run; each is waited for before the next ones. */
static void
carry_sums(RunPast *r, Pipeline *p, Builder *b)
{
	for (int i = 0; i < r->nwait; i++) {
		Value *over;
		Op *start = r->wait[i]->in[0]->def;
		while (start->in[2]->def)
			start = start->in[2]->def;
		wait_for(b, r->wait[i], &p->body->arg[1 + r->sum[i]], &over);
		op_set_in(start, 2, over);
		value_replace(&r->wait[i]->out[0], r->wait[i]->in[0]);
	}
}

static void
end_sums(RunPast *r, Pipeline *p, Builder *b)
{
	for (int i = 0; i < r->nwait; i++) {
		Value *over, *sum = &p->loop->out[r->sum[i]];
		b->place = r->wait[i]->place;
		wait_for(b, r->wait[i], sum, &over);
		value_replace_from(over->def->next, sum, over);
		op_erase(r->wait[i]);
	}
}

void
pipeline_run_past(Func *f, const Target *t, Op *loop)
{
	RunPast r = {.f = f, .body = loop->region[0]};
	Module *m = f->module;
	Value *more[1 + MOST];
	if (!collect(&r) || !find_sums(&r) || !pays(&r, t, loop) || !has_room(&r, t))
		return;
	Pipeline p = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = loop, .body = loop->region[0]};
	Builder b = build_before(loop);
	more[0] = build_index(&b, 0);
	for (int i = 0; i < r.narrive; i++)
		more[1 + i] = build_index(&b, -1);
	Value *carried = pipeline_carry(&p, more, 1 + r.narrive);
	carried[0].name = "turn";
	r.body = p.body;
	if (p.loop->home != f->body)                    /* the program before read a slot that the first iteration puts */
		attr_set_sync(m, p.loop, true);
	for (int i = 0; i < r.nput; i++)
		double_buffer(&r, r.put[i], &carried[0]);
	b = build_before(r.first);
	carry_sums(&r, &p, &b);
	for (int i = 0; i < r.narrive; i++) {
		carried[1 + i].name = "before";
		pipeline_give_back(&b, r.arrive[i], &carried[1 + i]);
	}
	b = build_before(p.body->last);
	more[0] = pipeline_next(&b, &carried[0], 2);
	for (int i = 0; i < r.narrive; i++)
		more[1 + i] = r.arrive[i]->in[1];
	pipeline_yield(&p, more, 1 + r.narrive);
	b = build_before(p.loop->next);
	end_sums(&r, &p, &b);
	for (int i = 0; i < r.narrive; i++) {
		pipeline_give_back(&b, r.arrive[i], &p.loop->out[p.loop->nout - r.narrive + i]);
		op_erase(r.arrive[i]);
	}
}

void
pipeline_run_all_past(Func *f, const Target *t)
{
	for (Op *op = f->body->first, *next; op && f->schedule.specialize != 1; op = next) {
		next = op_after(op, f->body);
		if (op->kind == OP_FOR)
			pipeline_run_past(f, t, op);
	}
}
