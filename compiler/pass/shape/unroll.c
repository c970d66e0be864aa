/* Loops read for several trips before they compute for the first of them, as the schedule word `unroll` asks.
 *
 *     for %lo, %hi, %s, %acc do (%r, %a) {               %n = cdiv (max (sub %hi, %lo), 0), %s
 *         %v = read %x, %r, %c …                         %end = add %lo, (mul (mul (div %n, 2), 2), %s)
 *         %b = add %a, %v                                %m = for %lo, %end, (mul %s, 2), %acc do (%r, %a) {
 *         yield %b                               =>          %v0 = read %x, %r, %c …
 *     }                                                      %v1 = read %x, (add %r, %s), %c …
 *                                                            %b0 = add %a, %v0
 *                                                            %b1 = add %b0, %v1
 *                                                            yield %b1
 *                                                        }
 *                                                        for %end, %hi, %s, %m do … as before …
 *
 * A trip that reads a row of a few hundred bytes waits for memory as long as one that reads many, and what a loop carries
 * leaves no second trip to start meanwhile.  ptxas does the same by four where a loop writes nothing and has no barrier.
 * Reads go ahead that follow from the index and from what the loop leaves alone, of tensors that are only read: no other
 * argument overlaps one that is written, so that they may pass writes; and of one of which each trip touches a row of its
 * own (x[%r, …] alone in the loop), in front of what the trip writes there.  All else stays in its order, and results are
 * equal to the bit.
 *
 * Loops with loops or branches inside, with products, buffers or PTX of their own stay as they are. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"
#include "pass/pass.h"
#include "target/target.h"

enum { TRIPS_MOST = 32 };

typedef struct Unroll {
	Module *m;
	Func *f;
	const Target *t;
	Op *loop;
	Block *body;
	int n;
	bool *late, *early;                             /* by the value's id: follows from what is carried; is read ahead */
	const char *why;                                /* the last loop that nothing is read ahead in is so */
	Value **map[TRIPS_MOST];
} Unroll;

static bool
stays(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_BUFFER: return op->kind != OP_SLOT && op->kind != OP_GET && op->kind != OP_PUT;
	case FAMILY_DOT: case FAMILY_DOT_ASYNC: case FAMILY_PTX: return true;
	default: return op_is_control(op);
	}
}

/* Lines longer than a warp is wide are ordered by many exchanges, next to which a read's latency is little: the
 * greatest 8 of rows by tiles of 1024 take 635 us on an H200, 1102 by four trips at once, in 8768 lines of PTX. */
static bool
orders_long_lines(const Op *op, const Target *t)
{
	return op_family(op) == FAMILY_ORDER && op->in[0]->type->extent[attr_axis(op)] > t->lanes;
}

static bool
is_plain_read(const Func *f, const Op *op)
{
	return op->kind == OP_READ && access_is_tensor(op) && f->param[op->in[0]->index].access == ACCESS_IN;
}

/* Does each trip touch elements of the read's tensor that no other trip does, and write them behind it?  Dimension d has
 * the loop's index in all that the body has of the tensor; atomics, which tell of other programs, keep it in its place. */
static bool
is_own_read(const Unroll *u, const Op *read)
{
	const Value *trip = &u->body->arg[0];
	bool behind = false;
	int d = 0;
	if (read->kind != OP_READ || !access_is_tensor(read))
		return false;
	for (const char *index = attr_index(read); index[d] != 'i' || read->in[1 + d] != trip; d++)
		if (!index[d])
			return false;
	for (const Op *op = u->body->first; op != u->body->last; op = op->next) {
		behind |= op == read;
		if (op_family(op) == FAMILY_ATOMIC)
			return false;
		if (!ANY_OF(i, op->nin, op->in[i] == read->in[0]))
			continue;
		if (op->kind != OP_READ && (op->kind != OP_WRITE || !behind))
			return false;
		if (attr_index(op)[d] != 'i' || op->in[1 + d] != trip)
			return false;
	}
	return true;
}

/* False: nothing can be read ahead. */
static bool
find_early(Unroll *u)
{
	bool any = false, reads_any = false;
	Arena *tmp = u->m->cx->tmp;
	u->late = NEW_ARRAY(tmp, bool, u->f->nvalues);
	u->early = NEW_ARRAY(tmp, bool, u->f->nvalues);
	for (int i = 1; i < u->body->narg; i++)
		u->late[u->body->arg[i].id] = true;
	for (const Op *op = u->body->first; op != u->body->last; op = op->next) {
		bool reads = is_plain_read(u->f, op) || is_own_read(u, op);
		bool late = !reads && (!op_has(op, PURE) || op->nregion > 0);
		if (stays(op)) {
			u->why = op_is_control(op) ? "a loop or branch in the loop keeps its reads in their place"
			                           : "a product, buffer or PTX in the loop keeps its reads in their place";
			return false;
		}
		if (orders_long_lines(op, u->t)) {
			u->why = "the loop sorts, which takes longer than what it reads";
			return false;
		}
		reads_any |= op->kind == OP_READ;
		late |= op_uses_slice(op, u->late);
		op_extend_slice(op, u->late, late);
		if (!reads || late)
			continue;
		op_backward_slice(op, u->body, u->early);
		any = true;
	}
	if (!any)
		u->why = reads_any ? "where the loop reads follows from the trip before, or it reads what is written"
		                   : "the loop reads no tensor";
	return any;
}

static void
copy_ops(Unroll *u, Builder *b, int trip, bool early)
{
	for (const Op *op = u->body->first; op != u->body->last; op = op->next)
		if ((op->nout > 0 && u->early[op->out[0].id]) == early)
			op_clone(b, op, u->map[trip]);
}

static void
fill(Unroll *u, Op *made, int64_t step)
{
	Block *body = made->region[0];
	Builder b = build_inside(made, 0);
	int carried = u->body->narg - 1;
	for (int i = 0; i < u->n; i++) {
		u->map[i] = NEW_ARRAY(u->m->cx->tmp, Value *, u->f->nvalues);
		b.place = u->loop->place;
		if (i == 0)
			block_map_args(u->body, body, u->map[0]);
		else
			u->map[i][u->body->arg[0].id] = build2(&b, OP_ADD, &body->arg[0], build_index(&b, i * step));
		copy_ops(u, &b, i, true);
	}
	for (int i = 0; i < u->n; i++) {
		for (int k = 0; k < carried && i > 0; k++)
			u->map[i][u->body->arg[1 + k].id] = value_mapped(u->map[i - 1], u->body->last->in[k]);
		copy_ops(u, &b, i, false);
	}
	Value **yielded = MAP_OF(u->m->cx->tmp, Value *, k, carried,
	    value_mapped(u->map[u->n - 1], u->body->last->in[k]));
	build_yield(&b, yielded, carried);
}

/* Trips up to `end`, u->n of them at a time; the loop itself goes on from there. */
static Op *
together(Unroll *u, Builder *b, int64_t step, Value *end, Value *group)
{
	Op *made = build_for(b, (Value *[]){u->loop->in[0], end, group}, u->loop->in + 3, u->loop->nout, u->loop);
	fill(u, made, step);
	attr_set_unrolled(u->m, made, u->n);
	op_set_in(u->loop, 0, end);
	for (int i = 0; i < made->nout; i++)
		op_set_in(u->loop, 3 + i, &made->out[i]);
	return made;
}

/* Does it go along a ragged dimension from its beginning?  Then trips that lie inside are read together first, and need no
 * bounds; of those that are left there may be as many again.
 *
 *     for 0, %C, 2048 do              =>   for 0, (mul (div %C, 8192), 8192), 8192 do …
 *                                          for %end, (8192 more where over 3 * 2048 are left), 8192 do …
 *                                          for %end2, %C, 2048 do …
 *
 * A thread has seven predicates, and each read by a mask of its own takes one until it is there: of 16 reads ptxas begins
 * 7. */
static bool
is_ragged(const Unroll *u, int64_t step)
{
	const Value *hi = u->loop->in[1];
	int64_t lo;
	bool is_dim = !hi->def && !hi->block->parent && u->f->param[hi->index].kind == PARAM_DIM;
	bool is_whole = is_power_of_two(step) && axis_of(hi)->div[0] >= log2_floor(step);
	return is_dim && !is_whole && value_int(u->loop->in[0], &lo) && lo == 0;
}

static bool
unroll(Unroll *u)
{
	enum { FEW = 4 };                               /* of more trips hardly ever as many are left */
	int64_t step;
	u->body = u->loop->region[0];
	if (op_is_over_programs(u->loop) || attr_unrolled(u->loop) || !value_int(u->loop->in[2], &step) || step <= 0 ||
	    step > INT32_MAX / TRIPS_MOST)
		return false;
	func_number(u->f);
	if (!find_early(u))
		return false;
	axis_keep(u->f);
	Builder b = build_before(u->loop);
	Value *group = build_index(&b, step * u->n), *hi = u->loop->in[1];
	if (!is_ragged(u, step)) {
		together(u, &b, step, mask_end(&b, u->loop, OP_DIV, u->n, group), group);
	} else {
		Value *end = build2(&b, OP_MUL, build2(&b, OP_DIV, hi, group), group);
		Op *inside = together(u, &b, step, end, group);
		if (u->n <= FEW) {
			Value *over = build2(&b, OP_SUB, build2(&b, OP_SUB, hi, end), build_index(&b, step * (u->n - 1)));
			Value *one = build2(&b, OP_MAX, build2(&b, OP_MIN, over, build_index(&b, 1)), build_index(&b, 0));
			Op *again = together(u, &b, step, build2(&b, OP_ADD, end, build2(&b, OP_MUL, one, group)), group);
			attr_set_unrolled(u->m, again, -1);     /* left by the first one, as the rest is */
		}
		u->f->has_axes = false;
		axis_keep(u->f);
		for (Op *op = inside->region[0]->first; op; op = op->next)
			if (op->kind == OP_READ || op->kind == OP_WRITE)
				access_note_inside(op);
	}
	attr_set_unrolled(u->m, u->loop, -u->n);
	u->f->has_axes = false;
	return true;
}

static bool
walk(Unroll *u, Block *b)
{
	bool any = false;
	for (Op *op = b->first, *next; op; op = next) {
		next = op->next;                        /* what is made stands before it */
		u->loop = op;
		if (op->kind == OP_FOR && unroll(u)) {
			any = true;
			continue;
		}
		for (int r = 0; r < op->nregion; r++)
			any |= walk(u, op->region[r]);
	}
	return any;
}

void
pass_unroll(Func *f, const Target *t)
{
	Unroll u = {.m = f->module, .f = f, .t = t, .n = MIN(f->schedule.unroll, TRIPS_MOST)};
	if (u.n > 1 && !walk(&u, f->body))
		f->unroll_reason = u.why ? u.why : "it has no loop whose steps are known";
}
