/* Short loops that move a window along a tensor come apart into their trips.
 *
 *     %s = for 0, 3, 1, %z do (%k, %a) {                  %v0 = read %x, %i {extents = [64]}
 *         %v = read %x, (add %i, %k) {extents = [64]}     %a0 = add %z, %v0
 *         %n = add %a, %v                           =>    %v1 = read %x, (add %i, 1) {extents = [64]}
 *         yield %n                                        …
 *     }                                                   %s = add %a1, %v2
 *
 * Most of what a trip reads the one before has read: apart, threads keep it in registers, as they do where the trips are
 * written one by one (`static for`), indices are numbers, and a kernel may be one without loops, of which blocks compute
 * several programs at a time.  Loops that write, that have products, sorts or regions inside stay, and so do those whose
 * trips read rows of their own: these pass unroll reads ahead.
 *
 * An H200 takes for 5 x 5 taps over f32[8, 1080, 1920] 155 us by loops, 41 apart; 7 taps along time of bf16[8, 2000, 1800]
 * 62 and 44; the mean of the last eight of bf16[1000, 20000] 43 and 31; 7 taps along rows of f32[3000, 5001] 34 and 40. */
#include "ir/derive.h"
#include "pass/pass.h"

/* Of nine trips a 3 x 3 window in one loop; ops of all trips as a kernel of 25 taps has them. */
enum { TRIPS_MOST = 9, OPS_MOST = 400, DEPTH = 12 };

/* By how much v moves from one trip to the next for each that k does; false: by what is not known. */
static bool
moves(const Value *v, const Value *k, int depth, int64_t *by)
{
	const Op *op = v->def;
	int64_t x = 0, y = 0, c;
	*by = v == k;
	if (v == k || !value_inside(v, k->block) || value_const(v))
		return true;
	if (!op || depth == 0)
		return false;
	switch (op->kind) {
	case OP_ADD: case OP_SUB:
		if (!moves(op->in[0], k, depth - 1, &x) || !moves(op->in[1], k, depth - 1, &y))
			return false;
		*by = op->kind == OP_ADD ? x + y : x - y;
		return true;
	case OP_MUL:
		if (!value_int(op->in[1], &c) || !moves(op->in[0], k, depth - 1, &x))
			return false;
		*by = x * c;
		return true;
	case OP_CAST: case OP_BROADCAST: case OP_RESHAPE:
		return moves(op->in[0], k, depth - 1, by);
	default:
		return false;
	}
}

/* A read of a part that the next trip reads, too, but for its ends. */
static bool
slides(const Op *op, const Value *k, int64_t step)
{
	if (op->kind != OP_READ)
		return false;
	const char *index = attr_index(op);
	const int64_t *extent = op->out[0].type->extent;
	int moved = 0, at = 0;
	for (int d = 0; index[d]; d++) {
		int64_t by;
		if (!moves(op->in[1 + d], k, DEPTH, &by) || (by && index[d] != 'p'))
			return false;
		moved += by != 0;
		if (by && (by < 0 ? -by : by) * step >= extent[at])
			return false;
		at += index[d] == 'p';
	}
	return moved == 1;
}

/* Without effect, and of few steps an element. */
static bool
is_plain(const Op *op)
{
	return !op->nregion && (op->kind == OP_READ || op->kind == OP_YIELD ||
	    (op_has(op, PURE) && op_info[op->kind].cost < COST_WHOLE));
}

static int64_t
short_trips(const Op *loop)
{
	int64_t from, to, by;
	bool known = loop->kind == OP_FOR && value_int(loop->in[0], &from) && value_int(loop->in[1], &to) &&
	    value_int(loop->in[2], &by) && by > 0 && from < to && to - from <= by * TRIPS_MOST;
	return known && by < INT32_MAX && from > -INT32_MAX && to < INT32_MAX ? (to - from + by - 1) / by : 0;
}

static void
take_apart(Func *f, Op *loop, int64_t n)
{
	Arena *tmp = f->module->cx->tmp;
	Block *body = loop->region[0];
	int64_t from, step;
	Builder b = build_before(loop);
	int carried = loop->nout;
	Value **now = NEW_ARRAY(tmp, Value *, MAX(carried, 1));
	for (int i = 0; i < carried; i++)
		now[i] = loop->in[3 + i];
	value_int(loop->in[0], &from);
	value_int(loop->in[2], &step);
	for (int64_t k = 0; k < n; k++) {
		Value **map = NEW_ARRAY(tmp, Value *, f->nvalues);
		map[body->arg[0].id] = build_int(&b, body->arg[0].type, from + k * step);
		for (int i = 0; i < carried; i++)
			map[body->arg[1 + i].id] = now[i];
		for (const Op *op = body->first; op != body->last; op = op->next)
			op_clone(&b, op, map);
		for (int i = 0; i < carried; i++)
			now[i] = value_mapped(map, body->last->in[i]);
	}
	for (int i = 0; i < carried; i++)
		value_replace(&loop->out[i], now[i]);
	op_erase(loop);
}

static bool
comes_apart(const Op *loop)
{
	int64_t n = short_trips(loop), ops = 0, step;
	if (n < 2 || !value_int(loop->in[2], &step))
		return false;
	Block *body = loop->region[0];
	for (EACH_OP_HERE(op, body))
		ops += is_plain(op) ? 1 : OPS_MOST;
	return ops * n <= OPS_MOST && ANY_OP_HERE(op, body, slides(op, &body->arg[0], step));
}

void
pass_windows(Func *f, const Target *t)
{
	VEC(Op *) loops = {0};
	for (EACH_OP(op, f->body))
		if (op->kind == OP_FOR)
			vec_push(f->module->cx->tmp, &loops, op);
	while (loops.n > 0) {                           /* inner ones first */
		Op *loop = loops.at[--loops.n];
		if (!comes_apart(loop))
			continue;
		func_number(f);
		take_apart(f, loop, short_trips(loop));
	}
}
