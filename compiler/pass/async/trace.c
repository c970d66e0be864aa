/* Runs a role's code as far as slots and mbarriers are concerned, and lists what it does with them (trace.h).
 *
 *     for %lo, %hi, %step, %0, %0 do (%k, %now, %phase) {        await full[0] 0, read b[0], arrive empty[0],
 *         await %full, %now, %phase                              await full[1] 0, read b[1], arrive empty[1],
 *         get (slot %now of %b)                            =>    await full[0] 1, …
 *         arrive %empty, %now
 *         yield (next of %now and %phase)
 *     }
 *
 * Slots and phases are computed.  Nothing is known of other integers but that the same op with the same operands gives the
 * same, in each role, and so does a read of what nothing writes (Leaf).  A loop's trip count is then chosen, the same for
 * loops with the same bounds (by other steps, as many as they take), and one less for a loop that begins a step later
 * (Course); comparisons with such a bound agree with it. */
#include "pass/async/pipeline.h"
#include "pass/async/trace.h"

#include <string.h>

enum { APART = 64, SMALL = 8, PROGRAMS_TRIPS = 3, FAR_BITS = 40 };

static bool
cannot(Tracer *t, const Op *at, const char *why)
{
	t->at = at;
	t->why = why;
	return false;
}

/* ---- integers ---- */

static int64_t value_of(Tracer *t, const Value *v);

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
			vec_push(t->tmp, in, own[op->in[i]->id] ? own[op->in[i]->id] : value_of(t, op->in[i]));
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
		vec_push(t->tmp, &in, value_of(t, operand_of(op, k)));
	for (int r = 0; r < op->nregion; r++)
		follow_region(t, op->region[r], own, &n, &in);
	while (i < t->leaves.n && !same_leaf(t->f, &t->leaves.at[i], op, index, in.at, in.n))
		i++;
	if (i == t->leaves.n)
		vec_push(t->tmp, &t->leaves, ((Leaf){op, index, in.n, in.at}));
	return (int64_t)(i + 1) << FAR_BITS;
}

static bool
is_near(int64_t v)
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

static int
trips_of(Tracer *t, const Op *loop)
{
	int64_t lo = value_of(t, loop->in[0]), hi = value_of(t, loop->in[1]), step = value_of(t, loop->in[2]), steps;
	for (int i = 0; i < t->courses.n; i++) {
		const Course *c = &t->courses.at[i];
		if (c->hi == hi && c->step == step && steps_to(c, lo, &steps))
			return (int)MAX(c->trips - steps, 0);
	}
	Course c = {lo, hi, step, t->trips[(t->first + t->courses.n) % TRIP_COUNTS]};
	if (has_loop(loop))
		c.trips = PROGRAMS_TRIPS;
	for (int i = 0; i < t->courses.n && is_near(step) && step > 0; i++) {
		const Course *of = &t->courses.at[i];
		if (of->lo == lo && of->hi == hi && is_near(of->step) && of->step > 0)
			c.trips = (int)((of->trips * of->step + step - 1) / step);
	}
	if (is_near(lo) && is_near(hi) && is_near(step) && step > 0 && hi - lo <= SMALL * step)
		c.trips = hi > lo ? (int)((hi - lo + step - 1) / step) : 0;
	vec_push(t->tmp, &t->courses, c);
	return c.trips;
}

/* A loop that ends at b may be yet to come. */
static void
find_course(Tracer *t, const Value *b)
{
	const Block *body = t->f->body;
	for (const Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_FOR && op->in[1] == b && !value_inside(op->in[0], op->region[0]))
			trips_of(t, op);
}

static int64_t
compare(Tracer *t, const Op *op)
{
	int64_t a = value_of(t, op->in[0]), b = value_of(t, op->in[1]), steps;
	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < t->courses.n; i++)
			if (t->courses.at[i].hi == b && steps_to(&t->courses.at[i], a, &steps))
				return steps < t->courses.at[i].trips;
		if (is_near(a) && is_near(b))
			return a < b;
		if (!again)
			find_course(t, op->in[1]);
	}
	return leaf_of(t, op, 0);
}

/* A leaf but of numbers that are known, such as steps ahead. */
static int64_t
multiply(Tracer *t, const Op *op)
{
	int64_t a = value_of(t, op->in[0]), b = value_of(t, op->in[1]), v;
	bool known = is_near(a) && is_near(b) && !__builtin_mul_overflow(a, b, &v) && is_near(v);
	return known ? v : leaf_of(t, op, 0);
}

static int64_t
compute(Tracer *t, const Op *op, int index)
{
	const Attr *constant = value_const(&op->out[index]);
	if (constant)
		return constant->kind == KIND_FLOAT ? leaf_of(t, op, index) : constant->i;
	switch (op->kind) {
	case OP_ADD:
		return (int64_t)((uint64_t)value_of(t, op->in[0]) + (uint64_t)value_of(t, op->in[1]));
	case OP_SUB:
		return (int64_t)((uint64_t)value_of(t, op->in[0]) - (uint64_t)value_of(t, op->in[1]));
	case OP_MUL:
		return multiply(t, op);
	case OP_EQ:
		return value_of(t, op->in[0]) == value_of(t, op->in[1]);
	case OP_SELECT:
		return value_of(t, op->in[value_of(t, op->in[0]) ? 1 : 2]);
	case OP_LT:
		return compare(t, op);
	default:
		return leaf_of(t, op, index);
	}
}

static int64_t
value_of(Tracer *t, const Value *v)
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

static void
set(Tracer *t, const Value *v, int64_t to)
{
	t->known[v->id] = (Known){.v = to, .is_set = true};
}

/* Scalars alone: tiles are not computed. */
static bool
is_integer(const Value *v)
{
	const Type *t = v->type;
	return t->kind == TYPE_TILE && t->rank == 0 && t->ptr == PTR_NONE && !dtype_is_float(t->elem);
}

/* What a block yields, from operand `first` on, becomes these values. */
static void
hand_over(Tracer *t, const Op *yield, const Value *to, int n)
{
	int64_t *v = NEW_ARRAY(t->tmp, int64_t, n + 1);
	for (int i = 0; i < n; i++)
		v[i] = is_integer(&to[i]) ? value_of(t, yield->in[i]) : 0;
	for (int i = 0; i < n; i++)
		set(t, &to[i], v[i]);
}

/* ---- slots ---- */

static const Value *
number_of(const Value *buffer)
{
	while (buffer->def && buffer->def->kind != OP_SLOT && buffer->def->nin)
		buffer = buffer->def->in[0];
	return buffer->def && buffer->def->kind == OP_SLOT ? buffer->def->in[1] : NULL;
}

static bool
find_slot(Tracer *t, const Value *buffer, Event *e)
{
	const Value *number = number_of(buffer);
	e->buffer = buffer_owner(buffer);
	int64_t slots = e->buffer ? e->buffer->out[0].type->slots : 0, v = number ? value_of(t, number) : 0;
	e->slot = (int)v;
	return (v >= 0 && v < slots) || cannot(t, e->op, "a slot that its buffer does not have");
}

static bool
find_slot_number(Tracer *t, const Value *ring, const Value *number, Event *e)
{
	int64_t v = value_of(t, number);
	e->ring = buffer_owner(ring);
	e->number = (int)v;
	return (e->ring && v >= 0 && v < e->ring->out[0].type->slots) ||
	    cannot(t, e->op, "a slot that does not count through its ring");
}

/* Threads that each copy a part arrive, too, when it has come. */
static bool
note_copy(Tracer *t, const Op *op, Trace *out)
{
	int at = access_data(op);
	const Value *slot = op->in[at];
	bool is_bulk = op_is_bulk_copy(op);
	Event e = {.kind = EVENT_COPY, .op = op};
	e.n = is_bulk ? pipeline_bulk_bytes(op) : 0;
	if (!find_slot(t, slot, &e) || !find_slot_number(t, op->in[at + 1], op->in[at + 2], &e))
		return false;
	vec_push(t->tmp, out, e);
	e.kind = EVENT_ARRIVE;
	e.n = copy_threads(op);
	if (!is_bulk)
		vec_push(t->tmp, out, e);
	return true;
}

static bool
note_reads(Tracer *t, const Op *op, Trace *out)
{
	for (int i = 0; i < op->nin; i++) {
		Event e = {.kind = EVENT_READ, .op = op, .n = op->kind == OP_DOT_START};
		if (op->in[i]->type->kind != TYPE_BUFFER || op->kind == OP_SLOT)
			continue;
		if (!find_slot(t, op->in[i], &e))
			return false;
		vec_push(t->tmp, out, e);
	}
	return true;
}

static int64_t
arrivals(const Op *op)
{
	int region;
	const Op *roles = op_roles(op, &region);
	return (*attr_by(op) ? op_warps(op) : 1) * (roles ? attr_copies(roles)->at[region] : 1);
}

/* Are so few products left to run that those whose results the wait gives are over? */
static bool
note_wait(Tracer *t, const Op *op, Trace *out)
{
	Event e = {.kind = EVENT_FINISH, .op = op, .n = attr_left(op)};
	for (int i = 0; i < op->nin; i++) {
		const Op *start = op->in[i]->def;
		int at = out->n, since = 0;
		while (at-- > 0 && out->at[at].op != start)
			since += out->at[at].kind == EVENT_START;
		if (at >= 0 && start->kind == OP_DOT_START && since < e.n)
			return cannot(t, op, "a result of a product that runs on");
	}
	vec_push(t->tmp, out, e);
	return true;
}

static bool
note(Tracer *t, const Op *op, Trace *out)
{
	Event e = {.op = op};
	switch (op->kind) {
	case OP_AWAIT:
		e.kind = EVENT_AWAIT;
		e.n = value_of(t, op->in[2]);
		if (e.n != 0 && e.n != 1)
			return cannot(t, op, "a parity that is neither 0 nor 1");
		break;
	case OP_EXPECT:
		e.kind = EVENT_EXPECT;
		e.n = attr_bytes(op);
		break;
	case OP_ARRIVE:
		e.kind = EVENT_ARRIVE;
		e.n = arrivals(op);
		break;
	case OP_DOT_WAIT:
		return note_wait(t, op, out);
	case OP_COPY:
		return !op_is_counted_copy(op) || note_copy(t, op, out);
	default:
		if (!note_reads(t, op, out))
			return false;
		e.kind = EVENT_START;
		if (op->kind == OP_DOT_START)
			vec_push(t->tmp, out, e);
		return true;
	}
	if (!find_slot_number(t, op->in[0], op->in[1], &e))
		return false;
	vec_push(t->tmp, out, e);
	return true;
}

/* ---- regions ---- */

static bool
matters(const Op *op)
{
	if (op->kind == OP_AWAIT || op->kind == OP_EXPECT || op->kind == OP_ARRIVE || op->kind == OP_DOT_WAIT ||
	    op->kind == OP_DOT_START || op_is_counted_copy(op))
		return true;
	bool reads = false;
	reads |= op->kind != OP_SLOT && ANY_OF(i, op->nin, op->in[i]->type->kind == TYPE_BUFFER);
	return reads && op->kind != OP_COPY && op->kind != OP_SEND && op->kind != OP_PUT &&
	    op->kind != OP_PUT_ONE;
}

static bool
holds_any(const Op *parent)
{
	return ANY_OF(r, parent->nregion, ANY_OP(op, parent->region[r], matters(op)));
}

static bool
trace_loop(Tracer *t, const Op *loop, Trace *out)
{
	const Block *b = loop->region[0];
	int64_t step = value_of(t, loop->in[2]), index = attr_dynamic(loop) ? step : value_of(t, loop->in[0]);
	int n = loop->nout, trips = trips_of(t, loop);
	Op first = {.in = loop->in + 3};

	hand_over(t, &first, b->arg + 1, n);
	for (int i = 0; i < trips; i++) {
		set(t, &b->arg[0], index);
		if (!trace_block(t, b, out))
			return false;
		hand_over(t, b->last, b->arg + 1, n);
		index = (int64_t)((uint64_t)index + (uint64_t)step);
		if (attr_dynamic(loop))                   /* one order is as good as another, and the same for all roles */
			set(t, &b->arg[1], index);
		t->stamp++;
	}
	for (int i = 0; i < n; i++)
		set(t, &loop->out[i], t->known[b->arg[1 + i].id].v);
	return true;
}

/* Its condition is data: two trips show what one leaves to the next. */
static bool
trace_while(Tracer *t, const Op *loop, Trace *out)
{
	enum { TRIPS = 2 };
	const Block *test = loop->region[0], *b = loop->region[1];
	Op first = {.in = loop->in}, passed = {.in = test->last->in + 1};
	hand_over(t, &first, test->arg, loop->nout);
	for (int i = 0; i < TRIPS; i++) {
		if (!trace_block(t, test, out))
			return false;
		hand_over(t, &passed, b->arg, loop->nout);
		if (!trace_block(t, b, out))
			return false;
		hand_over(t, b->last, test->arg, loop->nout);
	}
	if (!trace_block(t, test, out))
		return false;
	hand_over(t, &passed, loop->out, loop->nout);
	return true;
}

static bool
trace_branch(Tracer *t, const Op *branch, Trace *out)
{
	int64_t v = value_of(t, branch->in[0]);
	bool holds = is_near(v) ? v != 0 : ((v >> FAR_BITS) + t->first) & 1;
	const Block *b = branch->region[!holds];
	if (!trace_block(t, b, out))
		return false;
	hand_over(t, b->last, branch->out, branch->nout);
	return true;
}

bool
trace_block(Tracer *t, const Block *b, Trace *out)
{
	t->stamp++;
	for (const Op *op = b->first; op; op = op->next) {
		if (op->nregion == 0) {
			if (matters(op) && !note(t, op, out))
				return false;
			continue;
		}
		if (!holds_any(op))
			continue;
		if (op->kind != OP_FOR && op->kind != OP_IF && op->kind != OP_WHILE)
			return cannot(t, op, "slots and mbarriers in what is neither a loop nor a branch");
		if (!(op->kind == OP_FOR ? trace_loop : op->kind == OP_IF ? trace_branch : trace_while)(t, op, out))
			return false;
		t->stamp++;
	}
	return true;
}

void
trace_open(Tracer *t, Func *f, Arena *tmp)
{
	func_number(f);
	*t = (Tracer){.f = f, .tmp = tmp, .known = NEW_ARRAY(tmp, Known, f->nvalues)};
}

void
trace_restart(Tracer *t, int first)
{
	t->first = first;
	t->courses.n = t->leaves.n = t->stamp = 0;
	for (int i = 0; i < t->f->nvalues; i++)
		t->known[i] = (Known){0};
}
