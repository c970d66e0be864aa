/* A nest of loops around products of warpgroups becomes one loop, so that the copies of a next row of iterations are made
 * while the last of this one are multiplied: the pipeline is filled once.
 *
 *     for %lo, %hi, %step, %acc do (%r, %a) {                 %1 = (trips of one) * (trips of the other)
 *         %x = … %r …                                         for %0, %1, 1, %acc, %lo, %from do (%t, %b, %r, %c) {
 *         %s = for %from, %to, %by, %a do (%c, %b) {              %x = … %r …
 *             %e = dot … %x … %c …                    =>          %e = dot … %x … %c …
 *             yield %e                                            %n = %c + %by
 *         }                                                       %w = %n >= %to
 *         yield %s                                                yield %e, select %w, %r + %step, %r, select %w, %from, %n
 *     }                                                       }
 *
 * Both indices are carried as counters.  Nothing of the outer body but pure ops, which the inner one then has, and the
 * inner loop's bounds are the same for all of its runs.  A loop that was made so has counters of its own, which begin
 * again with each of its runs. */
#include "pass/async/pipeline.h"

typedef struct Nest {
	Func *f;
	Op *outer, *inner;
	int carried;                                    /* columns that both carry; the inner one's others are counters */
} Nest;

/* The inner loop goes on with the outer one's values, and nothing else uses them. */
static bool
is_handed_down(const Nest *n)
{
	const Block *body = n->outer->region[0];
	for (int i = 0; i < n->carried; i++) {
		bool down = n->inner->in[3 + i] == &body->arg[1 + i] && body->arg[1 + i].nuses == 1;
		if (!down || body->last->in[i] != &n->inner->out[i] || n->inner->out[i].nuses != 1)
			return false;
	}
	for (int i = n->carried; i < n->inner->nout; i++)
		if (n->inner->out[i].nuses || value_inside(n->inner->in[3 + i], body))
			return false;
	return true;
}

/* The trips of a loop that was made so are counted where its bounds come from. */
static void
lift_invariant(Op *loop)
{
	for (Op *op = loop->region[0]->first, *next; op; op = next) {
		bool stays = !op_has(op, PURE) || op->nregion;
		next = op->next;
		for (int i = 0; i < op->nin; i++)
			stays = stays || value_inside(op->in[i], loop->region[0]);
		if (!stays)
			op_move(op, loop->home, loop);
	}
}

static bool
find_nest(Nest *n, Func *f, Op *inner)
{
	Op *outer = inner->home->parent;
	if (!outer || outer->kind != OP_FOR || outer->nout > inner->nout || !loop_steps_up(outer) || !loop_steps_up(inner))
		return false;
	lift_invariant(outer);
	*n = (Nest){f, outer, inner, outer->nout};
	if (ANY_OF(i, 3, value_inside(inner->in[i], outer->region[0])))
		return false;
	return !ANY_OP_HERE(op, outer->region[0],
		   op != inner && op->kind != OP_YIELD && (!op_has(op, PURE) || op->nregion)) &&
	    is_handed_down(n);
}

static Value *
trips(Builder *b, const Op *loop)
{
	Value *span = build2(b, OP_MAX, build2(b, OP_SUB, loop->in[1], loop->in[0]), build_index(b, 0));
	return build2(b, OP_CDIV, span, loop->in[2]);
}

static Op *
make_loop(const Nest *n, Builder *b)
{
	const Op *outer = n->outer, *inner = n->inner;
	int columns = inner->nout + 2;
	Value **init = NEW_ARRAY(b->m->cx->tmp, Value *, columns), *bounds[3];
	bounds[0] = build_index(b, 0);
	bounds[1] = build2(b, OP_MUL, trips(b, outer), trips(b, inner));
	bounds[2] = build_index(b, 1);
	for (int i = 0; i < inner->nout; i++)
		init[i] = i < n->carried ? outer->in[3 + i] : inner->in[3 + i];
	init[inner->nout] = outer->in[0];
	init[1 + inner->nout] = inner->in[0];
	Op *loop = build_for(b, bounds, init, columns, NULL);
	Block *body = loop->region[0];
	body->arg[0].name = "trip";
	for (int i = 0; i < inner->nout; i++)
		body->arg[1 + i].name = inner->region[0]->arg[1 + i].name;
	body->arg[1 + inner->nout].name = outer->region[0]->arg[0].name;
	body->arg[2 + inner->nout].name = inner->region[0]->arg[0].name;
	return loop;
}

static void
move_bodies(const Nest *n, Block *to)
{
	Block *outer = n->outer->region[0], *inner = n->inner->region[0];
	Value *counter = &to->arg[1 + n->inner->nout];
	value_replace(&outer->arg[0], &counter[0]);
	value_replace(&inner->arg[0], &counter[1]);
	for (int i = 0; i < n->inner->nout; i++)
		value_replace(&inner->arg[1 + i], &to->arg[1 + i]);
	for (EACH_OP_HERE(op, outer))
		if (op != n->inner && op->kind != OP_YIELD)
			op_move(op, to, NULL);
	while (inner->first)
		op_move(inner->first, to, NULL);
}

/* What the counters become: both indices, and those of the inner loop begin again. */
static void
count(const Nest *n, Op *loop)
{
	Block *body = loop->region[0];
	Op *old = body->last;
	Builder b = {.m = n->f->module, .block = body, .before = old, .place = old->place};
	Value **in = NEW_ARRAY(b.m->cx->tmp, Value *, n->inner->nout + 2), *counter = &body->arg[1 + n->inner->nout];
	Value *next = build2(&b, OP_ADD, &counter[1], n->inner->in[2]);
	Value *wraps = build2(&b, OP_GE, next, n->inner->in[1]);
	for (int i = 0; i < n->inner->nout; i++)
		in[i] = i < n->carried ? old->in[i] : build3(&b, OP_SELECT, wraps, n->inner->in[3 + i], old->in[i]);
	Value *row = build2(&b, OP_ADD, &counter[0], n->outer->in[2]);
	in[n->inner->nout] = build3(&b, OP_SELECT, wraps, row, &counter[0]);
	in[n->inner->nout + 1] = build3(&b, OP_SELECT, wraps, n->inner->in[0], next);
	build_yield(&b, in, n->inner->nout + 2);
	op_erase(old);
}

static Op *
collapse(const Nest *n)
{
	Builder b = {.m = n->f->module, .block = n->outer->home, .before = n->outer, .place = n->outer->place};
	Op *loop = make_loop(n, &b);
	move_bodies(n, loop->region[0]);
	count(n, loop);
	op_replace(n->outer, loop);
	return loop;
}

bool
loop_multiplies(const Op *loop)
{
	return ANY_OP_HERE(op, loop->region[0], op->kind == OP_DOT && wgmma_named(attr_mma(op)));
}

void
pipeline_collapse(Func *f)
{
	Nest n;
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (op->kind != OP_FOR || !loop_multiplies(op))
			continue;
		while (find_nest(&n, f, op))
			op = collapse(&n);
		next = op_after(op, f->body);
	}
}
