/* What integers are where a role's code is run (trace.c): slots, phases and what they are made of are computed.
 *
 * Nothing is known of others but that the same op with the same operands gives the same, in each role, and so does a read
 * of what nothing writes (Leaf).  A loop's trip count is then chosen, the same for loops with the same bounds (by other
 * steps, as many as they take), and one less for a loop that begins a step later (Course); comparisons with such a bound
 * agree with it, and so does what counts a loop's trips, to go past the slots of another group's program. */
#include "pass/async/pipeline.h"
#include "pass/async/protocol/trace.h"

#include <string.h>

enum { APART = 64, SMALL = 8, FAR_BITS = TRACE_FAR_BITS };

/* Does it give the same wherever it stands? */
static bool
is_fixed(Func *f, const Op *op)
{
	return op_has(op, PURE) || (op->kind == OP_READ && !tensor_may_be_written(f, op->in[0], f->body));
}

/* The same ops in regions, as a loop that counts has in each role; what they take is compared with the leaves. */
static bool
same_regions(Func *f, const Op *a, const Op *b)
{
	bool same = a->nregion == b->nregion && (!a->nregion || op_is_control(a));
	for (int r = 0; r < a->nregion && same; r++) {
		const Op *x = a->region[r]->first, *y = b->region[r]->first;
		for (; x && y && same; x = op_after(x, a->region[r]), y = op_after(y, b->region[r]))
			same = x->kind == y->kind && x->nin == y->nin && attrs_same(x, y) &&
			    (is_fixed(f, x) || op_is_control(x) || x->kind == OP_YIELD);
		same &= !x && !y;
	}
	return same;
}

static bool
same_leaf(Func *f, const Leaf *l, const Op *op, int index, const int64_t *in, int nin)
{
	bool alike = l->op == op || (l->op->kind == op->kind && l->op->nin == op->nin && attrs_same(l->op, op) &&
	    (op->nregion ? same_regions(f, l->op, op) : is_fixed(f, op)));
	return alike && l->index == index && l->nin == nin && memcmp(l->in, in, sizeof *in * (size_t)nin) == 0;
}

/* What a leaf follows from.  An index that the producer hands on is another for each program, and the same in each role. */
static const Value *
operand_of(const Op *op, int k)
{
	const Op *loop = op->home->parent;

	if (op->kind != OP_PROGRAM_AT || !attr_known(op))
		return op->in[k];
	while (loop && !(loop->kind == OP_FOR && attr_dynamic(loop)))
		loop = loop->home->parent;
	return loop ? &loop->region[0]->arg[0] : op->in[k];
}

typedef VEC(int64_t) Numbers;

/* What ops in a region take: of its own values, which are numbered, the number. */
static void
follow_region(Tracer *t, const Block *b, int *own, int *n, Numbers *in)
{
	for (int i = 0; i < b->narg; i++)
		own[b->arg[i].id] = ++*n;
	for (const Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nin; i++)
			vec_push(t->tmp, in, own[op->in[i]->id] ? own[op->in[i]->id] : tracer_value(t, op->in[i]));
		for (int r = 0; r < op->nregion; r++)
			follow_region(t, op->region[r], own, n, in);
		for (int i = 0; i < op->nout; i++)
			own[op->out[i].id] = ++*n;
	}
}

/* Leaves are far apart: what is a few steps from one is that of no other. */
static int64_t
leaf_of(Tracer *t, const Op *op, int index)
{
	int *own = op->nregion ? NEW_ARRAY(t->tmp, int, t->f->nvalues) : NULL, n = 0, i = 0;
	Numbers in = {0};
	for (int k = 0; k < op->nin; k++)
		vec_push(t->tmp, &in, tracer_value(t, operand_of(op, k)));
	for (int r = 0; r < op->nregion; r++)
		follow_region(t, op->region[r], own, &n, &in);
	while (i < t->leaves.n && !same_leaf(t->f, &t->leaves.at[i], op, index, in.at, in.n))
		i++;
	if (i == t->leaves.n)
		vec_push(t->tmp, &t->leaves, ((Leaf){op, index, in.n, in.at}));
	return (int64_t)(i + 1) << FAR_BITS;
}

bool
tracer_is_near(int64_t v)
{
	return v > -(INT64_C(1) << (FAR_BITS - 1)) && v < INT64_C(1) << (FAR_BITS - 1);
}

/* Steps from the course's beginning to v. */
static bool
steps_to(const Course *c, int64_t v, int64_t *steps)
{
	int64_t by = (int64_t)((uint64_t)v - (uint64_t)c->lo);
	if (c->step <= 0 || by % c->step != 0)
		return false;
	*steps = by / c->step;
	return *steps > -APART && *steps < APART;
}

static bool
has_loop(const Op *loop)
{
	const Block *b = loop->region[0];
	return ANY_OP(op, b, op->kind == OP_FOR && block_find(op->region[0], OP_AWAIT));
}

/* A loop that takes every n-th step of a course, from one of its first n on, as a group's over programs (pingpong.c). */
static bool
takes_some(Tracer *t, const Op *loop, const Course *c, int *trips)
{
	const Op *by = loop->in[2]->def;
	int64_t n, steps;
	if (!by || by->kind != OP_MUL || !value_int(by->in[1], &n) || n < 2 || tracer_value(t, by->in[0]) != c->step)
		return false;
	bool is_some = tracer_value(t, loop->in[1]) == c->hi && steps_to(c, tracer_value(t, loop->in[0]), &steps);
	if (!is_some || steps < 0 || steps >= n)
		return false;
	*trips = (int)((MAX(c->trips - steps, 0) + n - 1) / n);
	return true;
}

int
tracer_trips(Tracer *t, const Op *loop)
{
	int64_t lo = tracer_value(t, loop->in[0]), hi = tracer_value(t, loop->in[1]);
	int64_t step = tracer_value(t, loop->in[2]), steps;
	int trips;
	for (int i = 0; i < t->courses.n; i++) {
		const Course *c = &t->courses.at[i];
		if (c->hi == hi && c->step == step && steps_to(c, lo, &steps))
			return (int)MAX(c->trips - steps, 0);
		if (takes_some(t, loop, c, &trips))
			return trips;
	}
	Course c = {lo, hi, step, t->trips[(t->first + t->courses.n) % TRIP_COUNTS]};
	if (has_loop(loop))
		c.trips = t->programs;
	for (int i = 0; i < t->courses.n && tracer_is_near(step) && step > 0; i++) {
		const Course *of = &t->courses.at[i];
		if (of->lo == lo && of->hi == hi && tracer_is_near(of->step) && of->step > 0)
			c.trips = (int)((of->trips * of->step + step - 1) / step);
	}
	if (tracer_is_near(lo) && tracer_is_near(hi) && tracer_is_near(step) && step > 0 && hi - lo <= SMALL * step)
		c.trips = hi > lo ? (int)((hi - lo + step - 1) / step) : 0;
	vec_push(t->tmp, &t->courses, c);
	return MAX(c.trips, 0);
}

/* A loop that ends at b may be yet to come. */
static void
find_course(Tracer *t, const Value *b)
{
	const Block *body = t->f->body;
	for (const Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_FOR && op->in[1] == b && !value_inside(op->in[0], op->region[0]))
			tracer_trips(t, op);
}

/* Does it end as a loop does that ends at b, of another program perhaps? */
static bool
ends_as(const Op *loop, const Value *b)
{
	const Op *end = loop->in[1]->def;
	return loop->in[1] == b || (end && b->def && end->kind == b->def->kind && attrs_same(end, b->def));
}

/* Another program's loop, which ends at b, too, is asked for its first trip before it comes (pass join). */
static const Course *
make_course(Tracer *t, int64_t a, const Value *b)
{
	const Op *loop = FIND_OP(op, t->f->body, op->kind == OP_FOR && !op_is_over_programs(op) && ends_as(op, b));
	int64_t step = loop ? tracer_value(t, loop->in[2]) : 0;
	if (!tracer_is_near(step) || step <= 0)
		return NULL;
	Course c = {a, tracer_value(t, b), step, t->trips[(t->first + t->courses.n) % TRIP_COUNTS]};
	vec_push(t->tmp, &t->courses, c);
	return &t->courses.at[t->courses.n - 1];
}

static int64_t
compare(Tracer *t, const Op *op)
{
	int64_t a = tracer_value(t, op->in[0]), b = tracer_value(t, op->in[1]), steps;
	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < t->courses.n; i++)
			if (t->courses.at[i].hi == b && steps_to(&t->courses.at[i], a, &steps))
				return steps < t->courses.at[i].trips;
		if (tracer_is_near(a) && tracer_is_near(b))
			return a < b;
		if (!again)
			find_course(t, op->in[1]);
	}
	const Course *c = make_course(t, a, op->in[1]);
	return c ? c->trips > 0 : leaf_of(t, op, 0);
}

/* A leaf but of bools that are known. */
static int64_t
both(Tracer *t, const Op *op)
{
	int64_t a = tracer_value(t, op->in[0]), b = tracer_value(t, op->in[1]);
	return tracer_is_near(a) && tracer_is_near(b) ? a & b : leaf_of(t, op, 0);
}

/* A leaf but of numbers that are known, such as steps ahead. */
static int64_t
multiply(Tracer *t, const Op *op)
{
	int64_t a = tracer_value(t, op->in[0]), b = tracer_value(t, op->in[1]), v;
	bool known = tracer_is_near(a) && tracer_is_near(b) && !__builtin_mul_overflow(a, b, &v) && tracer_is_near(v);
	if (a == 0 || b == 0 || a == 1 || b == 1)
		return a == 0 || b == 1 ? a : b;
	return known ? v : leaf_of(t, op, 0);
}

static bool
same(const Value *a, const Value *b)
{
	int64_t n;
	return a == b || (value_int(a, &n) && value_is_int(b, n));
}

/* Does it begin so many steps behind `lo`? */
static bool
is_later(Tracer *t, const Op *loop, int64_t lo, int64_t *steps)
{
	Course c = {.lo = lo, .step = tracer_value(t, loop->in[2])};
	return steps_to(&c, tracer_value(t, loop->in[0]), steps) && *steps > 0;
}

/* The trips of a loop, as pingpong.c counts them: cdiv (max (%hi - %lo), 0), %step.  Another pass may have let the loop
 * begin some steps later (skew).  False: it is other than that. */
static bool
counts_trips(Tracer *t, const Op *op, int64_t *trips)
{
	const Block *body = t->f->body;
	const Op *most = op->in[0]->def;
	const Op *length = most && most->kind == OP_MAX ? most->in[0]->def : NULL;
	if (!length || length->kind != OP_SUB || !value_is_int(most->in[1], 0))
		return false;
	int64_t lo = tracer_value(t, length->in[1]), steps = 0;
	const Op *loop = FIND_OP(of, body, of->kind == OP_FOR && same(of->in[1], length->in[0]) &&
	    same(of->in[2], op->in[1]) && (same(of->in[0], length->in[1]) || is_later(t, of, lo, &steps)));
	*trips = loop ? tracer_trips(t, loop) + steps : 0;
	return loop;
}

/* Of numbers that are known; rounded up none but a loop's trips: other counts, as of the iterations that nested loops have
 * together, are more than their loops take here. */
static int64_t
divide(Tracer *t, const Op *op)
{
	int64_t a = tracer_value(t, op->in[0]), b = tracer_value(t, op->in[1]), trips;
	if (op->kind == OP_CDIV)
		return counts_trips(t, op, &trips) ? trips : leaf_of(t, op, 0);
	if (!tracer_is_near(a) || !tracer_is_near(b) || a < 0 || b <= 0)
		return leaf_of(t, op, 0);
	return op->kind == OP_REM ? a % b : a / b;
}

/* Of numbers that are known. */
static int64_t
greater(Tracer *t, const Op *op)
{
	int64_t a = tracer_value(t, op->in[0]), b = tracer_value(t, op->in[1]);
	return tracer_is_near(a) && tracer_is_near(b) ? MAX(a, b) : leaf_of(t, op, 0);
}

static int64_t
compute(Tracer *t, const Op *op, int index)
{
	const Attr *constant = value_const(&op->out[index]);
	if (constant)
		return constant->kind == KIND_FLOAT ? leaf_of(t, op, index) : constant->i;
	switch (op->kind) {
	case OP_ADD:
		return (int64_t)((uint64_t)tracer_value(t, op->in[0]) + (uint64_t)tracer_value(t, op->in[1]));
	case OP_SUB:
		return (int64_t)((uint64_t)tracer_value(t, op->in[0]) - (uint64_t)tracer_value(t, op->in[1]));
	case OP_MUL:
		return multiply(t, op);
	case OP_DIV: case OP_CDIV: case OP_REM:
		return divide(t, op);
	case OP_MAX:
		return greater(t, op);
	case OP_AND:
		return both(t, op);
	case OP_EQ:
		return tracer_value(t, op->in[0]) == tracer_value(t, op->in[1]);
	case OP_SELECT:
		return tracer_value(t, op->in[tracer_value(t, op->in[0]) ? 1 : 2]);
	case OP_LT:
		return compare(t, op);
	default:
		return leaf_of(t, op, index);
	}
}

int64_t
tracer_value(Tracer *t, const Value *v)
{
	Known *k = &t->known[v->id];
	if (k->is_set || k->stamp == t->stamp)
		return k->v;
	if (!v->def)                                    /* a parameter, a role's group */
		return -((int64_t)(v->id + 1) << FAR_BITS);
	k->v = compute(t, v->def, v->index);
	k->stamp = t->stamp;
	return k->v;
}

void
tracer_set(Tracer *t, const Value *v, int64_t to)
{
	t->known[v->id] = (Known){.v = to, .is_set = true};
}
