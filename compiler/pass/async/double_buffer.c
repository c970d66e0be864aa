/* Double buffering without asynchronous copies: each iteration reads the next one's tiles into registers before it
 * computes, and the next iteration puts them into shared memory.
 *
 *     %first = if %lo < %hi { read … } else { zeros }
 *     for … do (%k: i64, %c: …, %held: f16[64, 32] #0, %now: i64) {
 *         put (slot %now of %ring), %held
 *         %next = if %k + %step < %hi { read … } else { zeros }
 *         %d = get (slot %now of %ring) : f16[64, 32] #2
 *         …
 *         yield …, %next, (%now + 1, wrapped)
 *     }
 *
 * With two slots there is one barrier an iteration, between put and get: a put into the other slot comes after the last
 * iteration's barrier, behind which no thread reads it.  A tile that is read in the dot's own layout needs no slot.  Where
 * shared memory has room for one slot alone there are two barriers.
 *
 * Small tiles that a pipelined loop reads in each iteration, such as the scales of a group of weights, are read an
 * iteration ahead, into registers: else each iteration waits for memory once more, behind its products.
 *
 *     for … do (%k: i64, %c: …) {                       %first = read %scale, %n, %lo
 *         wait …; %w = get …; %d = dot …                for … do (%k: i64, %c: …, %s: f16[64] #8) {
 *         %s = read %scale, %n, %k : f16[64] #8   =>        wait …
 *         … %s …                                            %next = read %scale, %n, %k + %step
 *         yield %e                                          %w = get …; %d = dot …
 *     }                                                     … %s …
 *                                                           yield %e, %next
 *                                                       }
 *
 * Not in roles, where each trip asks for them behind its product's start: there such loops took 1.02 to 1.09 of the time
 * (8-bit weights and floats, scales of each 128 along K).
 *
 * Only what follows from the counter and from before the loop can be read for another iteration, of tensors that the
 * kernel only reads. */
#include "pass/async/pipeline.h"

#include <string.h>

/* The tiles of the iteration of that index, zeros if there is none. */
static Op *
read_if(Pipeline *p, Builder *b, Value *index)
{
	Value *more = build2(b, OP_LT, index, p->loop->in[1]);

	Value **give = MAP_OF(p->tmp, Value *, i, p->reads.n, &p->reads.at[i].read->out[0]);
	Op *branch = build_if(b, more, give, p->reads.n);
	for (int r = 0; r < 2; r++) {
		Builder in = {.m = p->m, .block = branch->region[r], .place = b->place};
		for (int i = 0; i < p->reads.n; i++) {
			const Staged *s = &p->reads.at[i];
			in.place = s->read->place;
			give[i] = r == 0 ? &pipeline_access(p, &in, s, OP_READ, NULL, index)->out[0]
			                 : build_int(&in, s->read->out[0].type, 0);
			give[i]->layout = s->read->out[0].layout;
		}
		build_yield(&in, give, p->reads.n);
	}
	return branch;
}

static void
put(Builder *b, Value *slot, Value *tile)
{
	op_make(b, OP_PUT, (Value *[]){slot, tile}, 2, NULL, 0, NULL, 0);
}

/* Where the next iteration's reads go: behind the wait for this one's copies, if there is one. */
static Op *
after_wait(const Block *body)
{
	for (Op *op = body->first; op; op = op->next)
		if (op->kind == OP_COMMIT || op->kind == OP_GET || op->kind == OP_DOT)
			return op->kind == OP_COMMIT ? op->next : op;
	return body->first;
}

void
pipeline_double_buffer(Pipeline *p, int64_t room)
{
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	int n = p->reads.n, slots = 2 * pipeline_stage_bytes(p, true) <= room ? 2 : 1;
	Value **init = NEW_ARRAY(p->tmp, Value *, n + 1), **next = NEW_ARRAY(p->tmp, Value *, n + 1);

	pipeline_rings(p, &b, slots);
	Op *first = read_if(p, &b, p->loop->in[0]);
	for (int i = 0; i < n; i++)
		init[i] = &first->out[i];
	init[n] = build_index(&b, 0);
	Value *held = pipeline_carry(p, init, n + 1);
	held[n].name = "now";
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	Value **slot = NEW_ARRAY(p->tmp, Value *, n);
	for (int i = 0; i < n; i++) {
		if (!p->reads.at[i].ring)
			continue;
		slot[i] = pipeline_slot(p, &b, &p->reads.at[i], &held[n]);
		put(&b, slot[i], &held[i]);
	}
	Op *ahead = read_if(p, &b, build2(&b, OP_ADD, &p->body->arg[0], p->loop->in[2]));
	for (int i = 0; i < n; i++) {
		next[i] = &ahead->out[i];
		if (p->reads.at[i].ring) {
			pipeline_gets(p, &p->reads.at[i], slot[i]);
			continue;
		}
		value_replace(&p->reads.at[i].read->out[0], &held[i]);
		op_erase(p->reads.at[i].read);
	}
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->last, .place = p->loop->place};
	next[n] = pipeline_next(&b, &held[n], slots);
	pipeline_yield(p, next, n + 1);
}

/* ---- the loop's other reads ---- */

enum { BYTES_MOST = 32, DEPTH = 8 };                    /* of a thread, all of them together */
enum { BOOLS_MOST = 4 };                                /* a carried one takes one of 7 predicates, or two instructions */

/* Does v, as it is in another iteration, follow from the counter alone?  *moves: it differs at all. */
static bool
follows(const Pipeline *p, const Value *v, int depth, bool *moves)
{
	if (!value_inside(v, p->body))
		return true;
	if (v == &p->body->arg[0])
		return *moves = true;
	const Op *op = v->def;
	if (!op || op->home != p->body || op->nregion || !op_has(op, PURE) || depth == 0)
		return false;
	return ALL_OF(i, op->nin, follows(p, op->in[i], depth - 1, moves));
}

static bool
may_be_ahead(const Pipeline *p, const Op *op)
{
	bool moves = false;
	bool is_number = op->nout > 0 && op->out[0].type->rank == 0 && dtype_is_float(op->out[0].type->elem);
	if (op->kind != OP_READ || !access_is_tensor(op) || (!op->out[0].layout && !is_number) ||
	    strchr(attr_index(op), 'g') || op->nin != 1 + op->in[0]->type->rank ||
	    p->f->param[op->in[0]->index].access != ACCESS_IN)
		return false;
	return ALL_FROM(i, 1, op->nin, follows(p, op->in[i], DEPTH, &moves)) && moves;
}

static int64_t
thread_bytes(const Op *read)
{
	const Layout *l = read->out[0].layout;
	return (int64_t)dtype_tile_size(read->out[0].type->elem) << (l ? l->in[IN_REGISTER] : 0);
}

/* Does a test of bounds do for a branch?  Elements of a row that are known to be inside may come in vectors that reach over
 * its end in an iteration behind the last. */
static bool
may_test(const Pipeline *p, const Op *read)
{
	const IntList *inside = attr_inside(read);
	bool moves = false;
	for (int d = 0; inside && d < read->in[0]->type->rank; d++, moves = false)
		if (attr_index(read)[d] == 'p' && inside->at[d] && follows(p, read->in[1 + d], DEPTH, &moves) && moves)
			return false;
	return true;
}

/* The read for the iteration of that index, which may be behind the last.  No branch: halves of words would be put together
 * in it, and wait there for what is read (72 x 5120 x 6912 of 8 bits in groups of 64: a microsecond a trip). */
static Value *
read_tested(Pipeline *p, const Builder *b, const Staged *s, Value *index)
{
	Builder at = {.m = p->m, .block = b->block, .before = b->before, .place = s->read->place};
	Op *op = pipeline_access(p, &at, s, OP_READ, NULL, index);
	const IntList *inside = attr_inside(op);
	int64_t still[KERNEL_RANK] = {0};
	int rank = op->in[0]->type->rank;
	for (int d = 0; inside && d < rank; d++)
		still[d] = inside->at[d] && op->in[1 + d] == s->read->in[1 + d];        /* it does not move */
	if (inside)
		attr_set_inside(p->m, op, still, rank);
	return &op->out[0];
}

static void
read_next(Pipeline *p, Builder *b, Value *index, bool tested, Value **out)
{
	const Op *branch = tested ? NULL : read_if(p, b, index);
	for (int i = 0; i < p->reads.n; i++)
		out[i] = tested ? read_tested(p, b, &p->reads.at[i], index) : (Value *)&branch->out[i];
}

static void
read_in_registers(Pipeline *p, bool tested)
{
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	int n = p->reads.n;
	Value **value = NEW_ARRAY(p->tmp, Value *, n);

	read_next(p, &b, p->loop->in[0], tested, value);
	Value *held = pipeline_carry(p, value, n);
	b = (Builder){.m = p->m, .block = p->body, .before = after_wait(p->body), .place = p->loop->place};
	read_next(p, &b, build2(&b, OP_ADD, &p->body->arg[0], p->loop->in[2]), tested, value);
	for (int i = 0; i < n; i++) {
		value_replace(&p->reads.at[i].read->out[0], &held[i]);
		op_erase(p->reads.at[i].read);
	}
	pipeline_yield(p, value, n);
}

void
pipeline_read_ahead(Pipeline *of)
{
	Pipeline p = *of;
	int64_t bytes = 0;
	p.ahead = NULL;
	for (int tested = 0; tested <= 1; tested++) {
		p.reads.at = NULL;
		p.reads.n = p.reads.cap = 0;
		for (Op *op = p.body->first; op; op = op->next) {
			bool is_mask = op->nout > 0 && op->out[0].type->elem == TY_BOOL;
			if (!may_be_ahead(&p, op) || may_test(&p, op) != tested || bytes + thread_bytes(op) > BYTES_MOST ||
			    (is_mask && thread_bytes(op) > BOOLS_MOST))
				continue;
			Staged s = {.read = op};
			vec_push(p.tmp, &p.reads, s);
			bytes += thread_bytes(op);
		}
		if (p.reads.n)
			read_in_registers(&p, tested);
	}
	of->loop = p.loop;
	of->body = p.body;
}
