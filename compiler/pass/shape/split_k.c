/* Divides a program's loop of sums over the blocks of a cluster, as the schedule word `split` asks: for products with few
 * programs and many iterations.
 *
 *     %0 = const {value = 0.0} : f32[16, 64]
 *     %s = for %lo, %hi, %step, %0 do (%k: i64, %acc: f32[16, 64]) { … %d = dot %a, %b, %acc … yield %d }
 *     write %y, …, %s
 *  =>
 *     %r = split_rank                                   0 … split_count - 1
 *     %n = cdiv(cdiv(%hi - %lo, %step), split_count) * %step
 *     %from = %lo + %r * %n
 *     %p = for %from, min(%hi, %from + %n), %step, %0 do …
 *     %s = split_sum %p
 *     if %r == 0 { write %y, …, %s }
 *
 * Each block has neighbouring iterations, all blocks the sum, in the order of their ranks: results differ from those of
 * one block only as sums in another order do, and are the same on every run.  On the cpu device, in the interpreter, the
 * program is one block: rank 0 of 1.
 *
 * A loop of sums is one of the body, not within another op, which adds into every tile that it carries, once an iteration,
 * and uses none of them otherwise.  What stands before it is done by each block; so nothing up to its end may write or
 * report.  Where that does not hold, the kernel stays as it is, and Func.split_reason says why. */
#include "pass/pass.h"
#include "target/target.h"

/* Is v the carried value `arg` and what this iteration adds? */
static bool
adds_into(const Value *v, const Value *arg)
{
	const Op *op = v->def;

	if (v == arg)
		return arg->nuses == 1;
	if (!op || op->home != arg->block || v->nuses != 1)
		return false;
	if (op->kind == OP_ADD)
		return adds_into(op->in[0], arg) || adds_into(op->in[1], arg);
	return (op->kind == OP_DOT && adds_into(op->in[2], arg)) || (op->kind == OP_SUB && adds_into(op->in[0], arg));
}

static bool
is_sum(const Op *loop)
{
	const Block *body = loop->region[0];
	int64_t step;

	if (loop->nout == 0 || !value_int(loop->in[2], &step) || step <= 0)
		return false;
	for (int i = 0; i < loop->nout; i++) {
		const Type *t = loop->out[i].type;
		if (t->rank == 0 || t->ptr != PTR_NONE || dtype_info[t->elem].bits != 32 ||
		    !adds_into(body->last->in[i], &body->arg[1 + i]))
			return false;
	}
	return true;
}

/* The loop to divide; NULL, or why there is none. */
static const char *
find_loop(const Func *f, const Target *t, Op **out)
{
	*out = NULL;
	if (!(t->has & HAS_CLUSTER))
		return arena_printf(f->module->cx->mem, "%s has no clusters of blocks", t->name);
	if (f->schedule.persistent || f->schedule.specialize)
		return "persistent blocks take whole programs";
	for (Op *op = f->body->first; op; op = op->next)
		if (op->kind == OP_FOR && is_sum(op))
			*out = op;
	if (!*out)
		return "the kernel has no loop that only adds into tiles of 32-bit numbers";
	for (const Op *op = f->body->first; op != (*out)->next; op = op_after(op, f->body))
		if (op_has(op, WRITES | EFFECT))
			return "something is written or reported before the loop of sums ends";
	return NULL;
}

static bool
is_zero(const Value *v)
{
	const Attr *a = value_const(v);

	return a && (a->kind == KIND_FLOAT ? a->f == 0.0 : a->i == 0);
}

/* This block's iterations; its rank. */
static Value *
divide(Op *loop)
{
	Builder b = build_before(loop);
	Value *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
	Value *rank = build0(&b, OP_SPLIT_RANK, NULL), *n = build0(&b, OP_SPLIT_COUNT, NULL);
	Value *trips = build2(&b, OP_CDIV, build2(&b, OP_MAX, build2(&b, OP_SUB, hi, lo), build_index(&b, 0)), step);
	Value *each = build2(&b, OP_MUL, build2(&b, OP_CDIV, trips, n), step);
	Value *from = build2(&b, OP_ADD, lo, build2(&b, OP_MUL, rank, each));

	rank->name = "rank";
	op_set_in(loop, 0, from);
	op_set_in(loop, 1, build2(&b, OP_MIN, hi, build2(&b, OP_ADD, from, each)));
	return rank;
}

/* The sums of all blocks in place of the loop's results; what they began with is added once. */
static void
add_up(Op *loop)
{
	Builder b = {.m = loop->home->func->module, .block = loop->home, .before = loop->next, .place = loop->place};

	for (int i = 0; i < loop->nout; i++) {
		Value *v = &loop->out[i], *init = loop->in[3 + i];
		Op *sum = op_make(&b, OP_SPLIT_SUM, &v, 1, NULL, 0, NULL, 0);
		Value *all = &sum->out[0];
		if (!is_zero(init)) {
			Builder before = build_before(loop);
			Value *zero = dtype_is_float(v->type->elem) ? build_float(&before, v->type, 0)
			                                            : build_int(&before, v->type, 0);
			op_set_in(loop, 3 + i, zero);
			all = build2(&b, OP_ADD, init, all);
		}
		all->name = v->name;
		value_replace(v, all);
		op_set_in(sum, 0, v);
	}
}

/* What comes behind `last` is for the block of rank 0 alone. */
static void
leave_to_first(Func *f, Op *last, Value *rank)
{
	Op *rest = last->next;

	if (!rest)
		return;
	Builder b = build_before(rest);
	Value *first = build2(&b, OP_EQ, rank, build_index(&b, 0));
	Op *branch = op_make_regions(&b, OP_IF, &first, 1, NULL, 0, NULL, 0, 2);
	for (int r = 0; r < 2; r++)
		branch->region[r] = block_make(f, branch, NULL, 0);
	for (Op *next; rest; rest = next) {
		next = rest->next;
		op_move(rest, branch->region[0], NULL);
	}
	for (int r = 0; r < 2; r++) {
		Builder end = {.m = b.m, .block = branch->region[r], .place = last->place};
		build_yield(&end, NULL, 0);
	}
}

static Op *
last_sum(Op *loop)
{
	Op *last = loop;

	for (Op *op = loop->next; op; op = op->next)
		if (op->kind == OP_SPLIT_SUM)
			last = op;
	return last;
}

void
pass_split_k(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n && t; i++) {
		Func *f = m->funcs.at[i];
		Op *loop;
		if (f->is_reference || f->schedule.split <= 1)
			continue;
		f->split_reason = find_loop(f, t, &loop);
		if (f->split_reason) {
			f->schedule.split = 0;
			continue;
		}
		Value *rank = divide(loop);
		add_up(loop);
		leave_to_first(f, last_sum(loop), rank);
		func_number(f);
	}
}
