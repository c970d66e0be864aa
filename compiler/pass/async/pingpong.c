/* Ping-pong: two groups of consumers of a parted kernel, each with programs of its own, which they take in turn.
 *
 *     roles {warps = [4, 4], copies = [1, 2]} producer {
 *         for %b, %n, %step, 0, 0 do (%p, %now, %phase) {          all programs of the block, one after the other
 *             for … %now, %phase do (…) { await %empty … copy … }
 *             yield …
 *         }
 *     } consumer (%group) {
 *         %trips = cdiv %K, 64                                     slots that a program takes
 *         %past = rem %trips, 4
 *         %flip = rem (div %trips, 4), 2
 *         for %b + %group * %step, %n, %step * 2, (%group = 0 ? 0 : %past), … do (%p, %now, %phase, %turn) {
 *             await %turns, %group, %turn
 *             %now.1, %phase.1 = for … %now, %phase do (…) { await %full … arrive %empty … }
 *             arrive %turns, 1 - %group {by = "warp"}
 *             …                                                    the other group's products run beside this
 *             yield (%now.1 + %past, modulo 4), (%phase.1 + %flip, and 1 where that wraps, modulo 2), 1 - %turn
 *         }
 *     }
 *
 * One ring serves both: the producer fills it in the order of the programs, and a group goes past the slots of the other's
 * program.  What follows one group's products (an epilogue of many steps, results that leave) runs while the other
 * multiplies.  A group begins to wait for its slots when the other has waited for all of its own: an mbarrier tells a phase
 * from the one before, not from the one before that.  A tile has half of the rows that two warpgroups together would have:
 * each program copies more for what it multiplies, which the estimate compares.
 *
 * All programs must take as many slots: the loop stands in the program itself, and its bounds are the same for each.
 * Operands that consumers put themselves have one buffer: in the loop the group whose turn it is has that to itself, but
 * behind the loop both would. */
#include "pass/async/pipeline.h"

enum { GROUPS = 2, WARPGROUP = 4 };

typedef struct PingPong {
	Op *programs, *loop;
	Value *group;
	Value *trips;                                   /* of the loop */
} PingPong;

int
pingpong_groups(const Func *f)
{
	return f->schedule.pingpong ? GROUPS : 1;
}

int
pingpong_warpgroups(const Func *f)
{
	return f->schedule.warps / WARPGROUP * pingpong_groups(f);
}

/* Are the loop's bounds the same for all programs, and its step a number? */
static bool
is_same(const Op *programs, const Op *loop)
{
	int64_t step;
	bool same = ALL_OF(i, 2, !value_inside(loop->in[i], programs->region[0]) || value_const(loop->in[i]));
	return same && value_int(loop->in[2], &step) && step > 0;
}

/* Registers of a thread that sums of products take at least; one that a product adds to counts once. */
static int64_t
registers_of_sums(const Block *body)
{
	int64_t n = 0;
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		const Op *of = op->kind == OP_DOT_START ? op->in[2]->def : NULL;
		bool is_own = op->kind == OP_DOT_START && !(of && (of->kind == OP_DOT_START || of->kind == OP_DOT_WAIT));
		n += is_own ? INT64_C(1) << op->out[0].layout->in[IN_REGISTER] : 0;
	}
	return n;
}

const char *
pingpong_reason(const Func *f, const Target *t, const Op *programs, const Op *loop)
{
	const int *regs = target_role_registers(t, pingpong_warpgroups(f));
	if (regs && registers_of_sums(programs->region[0]) + wgmma_registers(0, false) > regs[1])
		return "the products' sums take more registers than threads of two such groups have";
	if (attr_dynamic(programs) || f->stream > 1 || MAX(f->schedule.coarsen, f->schedule.batch) > 1)
		return "blocks fetch their programs, share them or run several at once";
	const Block *body = programs->region[0];
	if (ANY_OP(op, body, op->kind == OP_AWAIT && op->home != body && op->home != loop->region[0]) || loop->home != body)
		return "the loop of products stands in another, or in a branch";
	if (ANY_OP(op, body, op->kind == OP_PUT && !op_inside(op, loop->region[0])))
		return "a product behind the loop has an operand in shared memory that both groups put there";
	return is_same(programs, loop) ? NULL : "the products of one program may be more than another's";
}

/* ---- slots ---- */

/* Value i of those that programs hand on is the number of a slot: the ring of mbarriers that the slot is waited for at, of
 * which a program takes `once` slots and one more in each iteration if the loop waits.  NULL: it is none. */
static const Value *
ring_of(const PingPong *p, int i, int *once, bool *waits)
{
	const Block *body = p->programs->region[0], *in = p->loop->region[0];
	const Value *arg = &body->arg[1 + i], *ring = NULL;

	*once = 0;
	*waits = false;
	for (const Op *op = body->first; op && !ring; op = op_after(op, body)) {
		const Value *number = op->kind == OP_AWAIT ? op->in[1] : NULL;
		bool is_carried = number && !number->def && number->block == in && number->index > 0;
		if (number && (number == arg || (is_carried && p->loop->in[2 + number->index] == arg)))
			ring = op->in[0];
	}
	for (const Op *op = body->first; op && ring; op = op_after(op, body))
		if (op->kind == OP_AWAIT && op->in[0] == ring) {
			*once += op->home == body;
			*waits |= op->home == in;
		}
	return ring;
}

/* v1 + v2 modulo n, both below n; *less: that is v1 + v2. */
static Value *
add_modulo(Builder *b, Value *v1, Value *v2, int64_t n, Value **less)
{
	Value *sum = build2(b, OP_ADD, v1, v2), *all = build_index(b, n);

	*less = build2(b, OP_LT, sum, all);
	return build3(b, OP_SELECT, *less, sum, build2(b, OP_SUB, sum, all));
}

/* Past the slots of the other group's program, as programs begin and as each ends. */
static void
go_past(PingPong *p, int i, const Value *ring, int once, bool waits)
{
	int64_t slots = ring->type->slots;
	Op *yield = p->programs->region[0]->last;
	Builder b = build_before(p->programs), end = build_before(yield);
	Value *n = build_index(&b, once), *all = build_index(&b, slots), *zero = build_index(&b, 0), *less;

	n = waits ? build2(&b, OP_ADD, p->trips, n) : n;
	Value *past = build2(&b, OP_REM, n, all), *turns = build2(&b, OP_DIV, n, all);
	Value *flip = build2(&b, OP_REM, turns, build_index(&b, 2)), *is_first = build2(&b, OP_EQ, p->group, zero);
	past->name = "past";
	flip->name = "flip";
	op_set_in(p->programs, 3 + i, build3(&b, OP_SELECT, is_first, zero, past));
	op_set_in(p->programs, 4 + i, build3(&b, OP_SELECT, is_first, zero, flip));

	op_set_in(yield, i, add_modulo(&end, yield->in[i], past, slots, &less));
	Value *ignored, *phase = add_modulo(&end, yield->in[i + 1], flip, 2, &ignored);
	Value *turned = build2(&end, OP_SUB, build_index(&end, 1), phase);
	op_set_in(yield, i + 1, build3(&end, OP_SELECT, less, phase, turned));
}

static Value *
count_trips(Builder *b, const Op *loop)
{
	int64_t at[3];
	Value *in[3];
	for (int i = 0; i < 3; i++)
		in[i] = value_int(loop->in[i], &at[i]) ? build_index(b, at[i]) : loop->in[i];
	Value *length = build2(b, OP_MAX, build2(b, OP_SUB, in[1], in[0]), build_index(b, 0));
	return build2(b, OP_CDIV, length, in[2]);
}

static bool
waits_for_slots(const Op *op)
{
	return op->kind == OP_AWAIT || ANY_OF(r, op->nregion, block_find(op->region[r], OP_AWAIT));
}

/* A group waits for its turn before the program's first wait for a slot, and gives it to the other behind the last. */
static void
order_groups(PingPong *p, Func *f)
{
	Pipeline outer = {.m = f->module, .tmp = f->module->cx->tmp, .f = f, .loop = p->programs,
	    .body = p->programs->region[0]};
	Builder before = build_before((Op *)func_find(f, OP_MBARRIER)), b = build_before(p->programs);
	Value *turns = pipeline_mbarrier(&outer, &before, GROUPS, f->schedule.warps, "turns"), *one = build_index(&b, 1);
	Value *other = build2(&b, OP_SUB, one, p->group);
	Value *turn = pipeline_carry(&outer, &other, 1);
	other->name = "other";
	turn->name = "turn";
	Op *first = outer.body->first, *last = outer.body->last;
	while (!waits_for_slots(first))
		first = first->next;
	while (!waits_for_slots(last))
		last = last->prev;
	b = build_before(first);
	pipeline_await(&b, turns, p->group, turn);
	b = build_before(last->next);
	Attr by = attr_new_by(f->module, "warp");
	op_make(&b, OP_ARRIVE, (Value *[]){turns, other}, 2, &by, 1, NULL, 0);
	b = build_before(outer.body->last);
	Value *next = build2(&b, OP_SUB, one, turn);
	pipeline_yield(&outer, &next, 1);
	p->programs = outer.loop;
}

void
pingpong_take_turns(Op *roles, Op *programs, Op *loop)
{
	PingPong p = {.programs = programs, .loop = loop, .group = &roles->region[1]->arg[0]};
	Builder b = build_before(programs);
	int once;
	bool waits;

	p.group->name = "group";
	p.trips = count_trips(&b, loop);
	p.trips->name = "trips";
	for (int i = 0; i + 1 < programs->nout; i++) {
		const Value *ring = ring_of(&p, i, &once, &waits);
		if (ring)
			go_past(&p, i, ring, once, waits);
	}
	order_groups(&p, roles->home->func);
	programs = p.programs;
	b = build_before(programs);
	Value *from = build2(&b, OP_MUL, p.group, programs->in[2]);
	op_set_in(programs, 0, build2(&b, OP_ADD, programs->in[0], from));
	op_set_in(programs, 2, build2(&b, OP_MUL, programs->in[2], build_index(&b, GROUPS)));
}
