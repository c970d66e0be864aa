/* Control for simplify: branches whose condition is known, loops of no trip or one, values that a loop
 * carries unchanged, branches that only choose between scalars, or read them.
 *
 *     %r = for %0, %64, %64, %a : f32 do (%i: i64, %x: f32) {       %y = add %a, %b : f32
 *         %y = add %x, %b : f32                               =>
 *         yield %y                                                  (%i is %0, %r is %y)
 *     } */
#include "pass/shape/simplify.h"

/* Puts the ops of region r before op, with values for the region's arguments; op's results become what the region
 * yields from position `skip` on.  The walk goes on with the first op that was moved. */
static void
inline_region(Op *op, int r, Value *const *arg, int skip, Op **next)
{
	Block *b = op->region[r];
	Op *yield = b->last, *first = b->first;

	for (int i = 0; i < b->narg; i++)
		value_replace(&b->arg[i], arg[i]);
	while (b->first != yield)
		op_move(b->first, op->home, op);
	for (int i = 0; i < op->nout; i++)
		value_replace(&op->out[i], yield->in[skip + i]);
	if (first != yield)
		*next = first;
	op_erase(op);
}

static void
drop_loop(Op *op, int first)
{
	for (int i = 0; i < op->nout; i++)
		value_replace(&op->out[i], op->in[first + i]);
	op_erase(op);
}

/* What a loop carries but never changes is its initial value, inside and after. */
static void
drop_invariants(Simplify *s, Op *op)
{
	bool is_for = op->kind == OP_FOR;

	for (int i = 0; i < op->nout; i++) {
		Value *init = op->in[is_for ? 3 + i : i];
		Block *b = op->region[0], *body = op->region[op->nregion - 1];
		Value *arg = &b->arg[is_for ? 1 + i : i], *last = &body->arg[is_for ? 1 + i : i];
		Value *given = body->last->in[i];
		if (given != last && given != init)
			continue;
		if (!is_for && b->last->in[1 + i] != arg && b->last->in[1 + i] != init)
			continue;
		if (op->out[i].nuses)
			simplify_forward(s, &op->out[i], init);
		if (arg->nuses)
			simplify_forward(s, arg, init);
		if (last != arg && last->nuses)
			simplify_forward(s, last, init);
	}
}

/* Trips of a loop with constant bounds; false if they are not all constant. */
static bool
trips(const Op *op, uint64_t *n)
{
	const Attr *lo = value_const(op->in[0]), *hi = value_const(op->in[1]), *step = value_const(op->in[2]);

	*n = 0;
	if (op->in[0] == op->in[1] || (step && step->i == 0))
		return true;
	if (!lo || !hi || !step)
		return false;
	uint64_t up = (uint64_t)hi->i - (uint64_t)lo->i, by = (uint64_t)step->i;
	if (step->i > 0 && lo->i < hi->i)
		*n = (up - 1) / by + 1;
	else if (step->i < 0 && lo->i > hi->i)
		*n = (0 - up - 1) / (0 - by) + 1;
	return true;
}

enum { SMALL = 40, FACTOR = 20, DEPTH = 12 };          /* bits of numbers whose differences hold in 64 */

static bool
is_within(const Value *v, int bits)
{
	int64_t c;
	return value_int(v, &c) && c > -((int64_t)1 << bits) && c < (int64_t)1 << bits;
}

/* Made of sizes, the program's numbers, and integers of at most 32 bits: far from where 64 bits end. */
static bool
is_small(const Value *v, int depth)
{
	const Op *op = v->def, *loop = v->block ? v->block->parent : NULL;

	if (depth == 0 || is_within(v, SMALL))
		return depth > 0;
	if (!op && !loop)
		return v->block && v->block->func->param[v->index].kind == PARAM_DIM;
	if (!op)
		return loop->kind == OP_FOR && v->index == 0 && is_small(loop->in[0], depth - 1) &&
		    is_small(loop->in[1], depth - 1);
	switch (op->kind) {
	case OP_PROGRAM_ID: case OP_SPLIT_RANK: case OP_SPLIT_COUNT:
		return true;
	case OP_CAST:
		return dtype_is_int(op->in[0]->type->elem) &&
		    (dtype_info[op->in[0]->type->elem].bits <= 32 || is_small(op->in[0], depth - 1));
	case OP_MUL:
		return is_within(op->in[1], FACTOR) && is_small(op->in[0], depth - 1);
	case OP_DIV: case OP_FLOORDIV: case OP_CDIV:
		return is_within(op->in[1], SMALL) && is_small(op->in[0], depth - 1);
	case OP_ADD: case OP_SUB: case OP_MIN: case OP_MAX:
		return is_small(op->in[0], depth - 1) && is_small(op->in[1], depth - 1);
	default:
		return false;
	}
}

/* A loop that counts down counts up, so that all that is done for loops is done for it.
 *
 *     for %hi, %lo, %-2 do (%i: i64) {          %n = sub %hi, %lo
 *         use %i                          =>    for %0, %n, %2 do (%k: i64) {
 *     }                                             %i = sub %hi, %k
 *                                                   use %i */
static void
turn_up(Simplify *s, Op *op)
{
	Value *from = op->in[0], *k = &op->region[0]->arg[0];
	int64_t step;

	if (!value_int(op->in[2], &step) || step >= 0 || !is_within(op->in[2], SMALL) || !is_small(from, DEPTH) ||
	    !is_small(op->in[1], DEPTH))
		return;
	op_set_in(op, 1, simplify_emit2(s, op, OP_SUB, from, op->in[1]));
	op_set_in(op, 0, simplify_int(s, op, k->type, 0));
	op_set_in(op, 2, simplify_int(s, op, k->type, -step));
	if (k->nuses == 0)
		return;
	Builder b = {.m = s->m, .block = op->region[0], .before = op->region[0]->first, .place = op->place};
	Op *i = op_make(&b, OP_SUB, (Value *[]){from, from}, 2, NULL, 0, NULL, 0);
	i->out[0].id = s->forward.n;
	vec_push(s->tmp, &s->forward, NULL);
	i->out[0].name = k->name;
	k->name = NULL;
	value_replace(k, &i->out[0]);
	op_set_in(i, 1, k);
}

static bool
simplify_for(Simplify *s, Op *op, Op **next)
{
	uint64_t n;

	if (trips(op, &n) && n == 0) {
		drop_loop(op, 3);
		return true;
	}
	if (trips(op, &n) && n == 1) {
		Value **arg = NEW_ARRAY(s->tmp, Value *, op->nout + 1);
		arg[0] = op->in[0];
		for (int i = 0; i < op->nout; i++)
			arg[1 + i] = op->in[3 + i];
		inline_region(op, 0, arg, 0, next);
		return true;
	}
	turn_up(s, op);
	drop_invariants(s, op);
	return false;
}

static bool
simplify_while(Simplify *s, Op *op, Op **next)
{
	if (const_is_int(op->region[0]->last->in[0], 0)) {
		inline_region(op, 0, op->in, 1, next);
		return true;
	}
	drop_invariants(s, op);
	return false;
}

/* In a loop without products, which may read for several trips at once if there is no branch (pass unroll). */
static bool
bars_reads(const Op *op)
{
	const Op *loop = op->home->parent;
	while (loop && loop->kind == OP_IF)
		loop = loop->home->parent;
	return loop && loop->kind == OP_FOR && ANY_OP(in, loop->region[0], in->kind == OP_READ || in->kind == OP_LOAD) &&
	    !ANY_OP(in, loop->region[0], in->kind == OP_DOT || in->kind == OP_DOT_SCALED);
}

/* A few ops that cannot trap: of scalars with elements of tensors that nothing writes, which are 0 outside; where the
 * branch bars reads also without, and of tiles. */
static bool
is_spare(const Simplify *s, const Block *b, bool bars)
{
	enum { OPS = 6, READS_MOST = 2 };
	int ops = 0, reads = 0;

	for (const Op *op = b->first; op != b->last; op = op->next) {
		bool read = op->kind == OP_READ && !tensor_may_be_written(s->f, op->in[0], s->f->body);
		bool cheap = op_has(op, PURE) && op_info[op->kind].cost <= COST_ALU && op->kind != OP_REDUCE;
		if ((!read && !cheap) || op->nout != 1 || (op->out[0].type->rank && (read || !bars)) || op->nregion)
			return false;
		reads += read;
		ops++;
	}
	return (reads > 0 || bars) && reads <= READS_MOST && ops <= OPS;
}

/* Where a branch of scalars reads, or keeps the reads of later trips behind it, its ops may run whatever the condition is:
 * on GPUs, then, the reads begin before it is known, and those of later trips as well.
 *
 *     %w = if %c : f32 then {                  %r = read %t, %i : f32
 *         %r = read %t, %i : f32        =>     %w = select %c, %r, %0 : f32
 *         yield %r
 *     } else { yield %0 } */
static void
hoist(const Simplify *s, Op *op)
{
	Block *arm[] = {op->region[0], op->region[1]};
	bool bars = s->is_gpu && op->nout > 0 && bars_reads(op);

	for (int i = 0; i < op->nout; i++)
		if (op->out[i].type->rank && !bars)
			return;
	if (!s->is_gpu || op->nout == 0)
		return;
	for (int r = 0; r < 2; r++)
		if (arm[r]->first != arm[r]->last && !is_spare(s, arm[r], bars))
			return;
	for (int r = 0; r < 2; r++)
		while (arm[r]->first != arm[r]->last)
			op_move(arm[r]->first, op->home, op);
}

/* if %c then { yield %a } else { yield %b } of scalars is a select; of tiles on GPUs, where a branch bars reads. */
static void
choose(Simplify *s, Op *op)
{
	Op *yes = op->region[0]->last, *no = op->region[1]->last;
	bool tiles = s->is_gpu && bars_reads(op);

	for (int i = 0; i < op->nout; i++) {
		Value *a = simplify_resolve(s, yes->in[i]), *b = simplify_resolve(s, no->in[i]);
		if (op->out[i].nuses == 0)
			continue;
		if (a == b)
			simplify_forward(s, &op->out[i], a);
		else if (yes->prev || no->prev || (a->type->rank && !tiles))
			continue;
		else {
			Value *is = !a->type->rank ? op->in[0] :
			    simplify_emit1(s, op, OP_BROADCAST, op->in[0], type_with_elem(s->m, a->type, TY_BOOL));
			simplify_forward(s, &op->out[i],
			    simplify_emit(s, op, OP_SELECT, (Value *[]){is, a, b}, 3, NULL, 0, NULL));
		}
	}
}

static bool
simplify_if(Simplify *s, Op *op, Op **next)
{
	const Attr *condition = value_const(op->in[0]);
	Op *def = op->in[0]->def;

	if (condition) {
		inline_region(op, condition->i ? 0 : 1, NULL, 0, next);
		return true;
	}
	if (def && def->kind == OP_NOT) {
		Block *yes = op->region[0];
		op->region[0] = op->region[1];
		op->region[1] = yes;
		op_set_in(op, 0, def->in[0]);
		s->changed = true;
	}
	hoist(s, op);
	choose(s, op);
	return false;
}

bool
simplify_control(Simplify *s, Op *op, Op **next)
{
	switch (op->kind) {
	case OP_FOR:
		return simplify_for(s, op, next);
	case OP_WHILE:
		return simplify_while(s, op, next);
	case OP_IF:
		return simplify_if(s, op, next);
	default:
		return false;
	}
}
