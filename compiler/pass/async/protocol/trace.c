/* Runs a role's code as far as slots and mbarriers are concerned, and lists what it does with them (trace.h).
 *
 *     for %lo, %hi, %step, %0, %0 do (%k, %now, %phase) {        await full[0] 0, read b[0], arrive empty[0],
 *         await %full, %now, %phase                              await full[1] 0, read b[1], arrive empty[1],
 *         get (slot %now of %b)                            =>    await full[0] 1, …
 *         arrive %empty, %now
 *         yield (next of %now and %phase)
 *     }
 *
 * What slots, phases and trip counts are, trace_value.c says. */
#include "pass/async/pipeline.h"
#include "pass/async/protocol/trace.h"

enum { PROGRAMS_EACH = 3, FAR_BITS = TRACE_FAR_BITS };

static bool
cannot(Tracer *t, const Op *at, const char *why)
{
	t->at = at;
	t->why = why;
	return false;
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
		v[i] = is_integer(&to[i]) ? tracer_value(t, yield->in[i]) : 0;
	for (int i = 0; i < n; i++)
		tracer_set(t, &to[i], v[i]);
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
	int64_t slots = e->buffer ? e->buffer->out[0].type->slots : 0, v = number ? tracer_value(t, number) : 0;
	e->slot = (int)v;
	return (v >= 0 && v < slots) || cannot(t, e->op, "a slot that its buffer does not have");
}

static bool
find_slot_number(Tracer *t, const Value *ring, const Value *number, Event *e)
{
	int64_t v = tracer_value(t, number);
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
	return *attr_by(op) ? op_warps(op) : 1;
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
		e.n = tracer_value(t, op->in[2]);
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
	int64_t step = tracer_value(t, loop->in[2]), index = attr_dynamic(loop) ? step : tracer_value(t, loop->in[0]);
	int n = loop->nout, trips = tracer_trips(t, loop);
	Op first = {.in = loop->in + 3};

	hand_over(t, &first, b->arg + 1, n);
	for (int i = 0; i < trips; i++) {
		tracer_set(t, &b->arg[0], index);
		if (!trace_block(t, b, out))
			return false;
		hand_over(t, b->last, b->arg + 1, n);
		index = (int64_t)((uint64_t)index + (uint64_t)step);
		if (attr_dynamic(loop))                   /* one order is as good as another, and the same for all roles */
			tracer_set(t, &b->arg[1], index);
		t->stamp++;
	}
	for (int i = 0; i < n; i++)
		tracer_set(t, &loop->out[i], t->known[b->arg[1 + i].id].v);
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
	int64_t v = tracer_value(t, branch->in[0]);
	bool holds = tracer_is_near(v) ? v != 0 : ((v >> FAR_BITS) + t->first) & 1;
	const Block *b = branch->region[!holds];
	if (!trace_block(t, b, out))
		return false;
	hand_over(t, b->last, branch->out, branch->nout);
	return true;
}

bool
trace_group(Tracer *t, const Block *b, int group, Trace *out)
{
	tracer_set(t, &b->arg[0], group);
	return trace_block(t, b, out);
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
	const Op *roles = func_find(f, OP_ROLES);
	int groups = roles ? (int)attr_copies(roles)->at[1] : 1;
	*t = (Tracer){.f = f, .tmp = tmp, .known = NEW_ARRAY(tmp, Known, f->nvalues), .programs = PROGRAMS_EACH * groups};
}

void
trace_restart(Tracer *t, int first)
{
	t->first = first;
	t->courses.n = t->leaves.n = t->stamp = 0;
	for (int i = 0; i < t->f->nvalues; i++)
		t->known[i] = (Known){0};
}
