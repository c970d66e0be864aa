/* The loop with more carried values, and accesses of another iteration.
 *
 *     for %lo, %hi, %step, %acc do (%k, %c)     =>     for %lo, %hi, %step, %acc, %0 do (%k, %c, %now) {
 *         yield %e                                         yield %e, (%now + 1, wrapped at the slots)
 *     }                                                }
 */
#include "pass/async/pipeline.h"
#include "pass/async/ring.h"

/* v as it is in the iteration of that index. */
static Value *
shift(Pipeline *p, Builder *b, Value *v, Value *index)
{
	if (!value_inside(v, p->body))
		return v;
	if (v == &p->body->arg[0])
		return index;
	const Op *op = v->def;
	if (!op)
		return p->ahead ? p->ahead[v->index - 1] : v;
	Value **in = NEW_ARRAY(p->tmp, Value *, op->nin);
	const Type **type = NEW_ARRAY(p->tmp, const Type *, op->nout);
	for (int i = 0; i < op->nin; i++)
		in[i] = op->in[i]->type->kind == TYPE_TILE ? shift(p, b, op->in[i], index) : op->in[i];
	for (int i = 0; i < op->nout; i++)
		type[i] = op->out[i].type;
	Op *clone = op_make(b, op->kind, in, op->nin, op->attr, op->nattr, type, op->nout);
	for (int i = 0; i < op->nout; i++)
		clone->out[i].layout = op->out[i].layout;
	return &clone->out[v->index];
}

void
pipeline_ahead(Pipeline *p)
{
	p->ahead = NEW_ARRAY(p->tmp, Value *, p->columns);
	for (int i = 0; i < p->columns; i++)
		p->ahead[i] = p->loop->in[3 + i];
}

void
pipeline_count(Pipeline *p, Builder *b, Value *index)
{
	Value **next = NEW_ARRAY(p->tmp, Value *, p->columns);
	for (int i = 0; i < p->columns && p->counts; i++)
		if (p->counts[i])
			next[i] = shift(p, b, p->body->last->in[i], index);
	p->ahead = next;
}

int
pipeline_counters(const Pipeline *p, Value **out)
{
	int n = 0;
	for (int i = 0; i < p->columns && p->counts; i++)
		if (p->counts[i])
			out[n++] = p->ahead[i];
	return n;
}

Op *
pipeline_access(Pipeline *p, Builder *b, const Staged *s, OpKind kind, Value *slot, Value *index)
{
	const AttrName kept[] = {ATTR_INDEX, ATTR_EXTENTS, ATTR_MERGED, ATTR_VECTOR, ATTR_INSIDE, ATTR_VALID, ATTR_UNDEF,
		ATTR_OUTSIDE_UNDEF, ATTR_CACHE};
	const Op *read = s->read;
	int rank = read->in[0]->type->rank, n = 0, nin = 1 + rank;
	Value *in[MAX_RANK + 4] = {read->in[0]};
	Attr attr[LEN(kept) + 2];

	for (int i = 0; i < rank; i++)
		in[1 + i] = shift(p, b, read->in[1 + i], index);
	if (kind == OP_COPY)
		in[nin++] = slot;
	for (int i = 0; i < LEN(kept); i++)
		if (op_attr(read, kept[i]) && (kind == OP_READ || kept[i] != ATTR_CACHE))
			attr[n++] = *op_attr(read, kept[i]);
	if (kind == OP_COPY)
		attr[n++] = attr_new_kind(p->m, s->is_shared ? "multicast" : s->is_bulk ? "bulk" : s->is_counted ? "counted"
		                                                                                   : "cp_async");
	if (kind == OP_COPY && s->is_shared)
		attr[n++] = attr_new_mask(p->m, (INT64_C(1) << p->ranks) - 1);
	if (kind == OP_COPY && (s->is_bulk || s->is_counted)) {
		in[nin++] = p->full;
		in[nin++] = slot->def->in[1];
	}
	Op *op = op_make(b, kind, in, nin, attr, n, NULL, 0);
	op->out[0].layout = read->out[0].layout;
	return op;
}

Value *
pipeline_carry(Pipeline *p, Value *const *init, int n)
{
	Op *old = p->loop;
	Block *from = p->body;
	Builder b = {.m = p->m, .block = old->home, .before = old, .place = old->place};
	Value **in = NEW_ARRAY(p->tmp, Value *, old->nout + n);

	for (int i = 0; i < old->nout + n; i++)
		in[i] = i < old->nout ? old->in[3 + i] : init[i - old->nout];
	Op *loop = build_for(&b, old->in, in, old->nout + n, old);
	Block *to = loop->region[0];
	for (int i = 0; i < from->narg; i++) {
		to->arg[i].name = from->arg[i].name;
		value_replace(&from->arg[i], &to->arg[i]);
	}
	while (from->first)
		op_move(from->first, to, NULL);
	op_replace(old, loop);
	p->loop = loop;
	p->body = to;
	return &to->arg[from->narg];
}

void
pipeline_yield(Pipeline *p, Value *const *more, int n)
{
	Op *old = p->body->last;
	Builder b = {.m = p->m, .block = p->body, .place = old->place};
	Value **in = NEW_ARRAY(p->tmp, Value *, old->nin + n);

	for (int i = 0; i < old->nin + n; i++)
		in[i] = i < old->nin ? old->in[i] : more[i - old->nin];
	build_yield(&b, in, old->nin + n);
	op_erase(old);
}

Value *
pipeline_next(Builder *b, Value *v, int n)
{
	Value *up = build2(b, OP_ADD, v, build_index(b, 1));
	Value *wraps = build2(b, OP_EQ, up, build_index(b, n));

	return build3(b, OP_SELECT, wraps, build_index(b, 0), up);
}

/* (v + 1) modulo n of some v, as pipeline_next makes it: the add is operand 2's. */
static bool
is_next(const Op *wrap, int64_t n)
{
	const Op *test = wrap->kind == OP_SELECT ? wrap->in[0]->def : NULL;
	const Op *up = wrap->kind == OP_SELECT ? wrap->in[2]->def : NULL;

	if (!test || !up || test->kind != OP_EQ || up->kind != OP_ADD || test->in[0] != &up->out[0])
		return false;
	return value_is_int(up->in[1], 1) && value_is_int(test->in[1], n) && value_is_int(wrap->in[1], 0);
}

bool
ring_counts(const Value *v, int64_t n)
{
	const Op *loop = v->def ? NULL : v->block->parent;

	if (!loop || loop->kind != OP_FOR || v->index == 0)
		return false;
	const Op *wrap = v->block->last->in[v->index - 1]->def;
	return wrap && is_next(wrap, n) && wrap->in[2]->def->in[0] == v;
}

const Value *
ring_counter(const Value *v, int64_t n, int *behind)
{
	const Op *loop = v->def ? NULL : v->block->parent;
	int64_t first, counts_from;

	*behind = 0;
	if (ring_counts(v, n))
		return v;
	if (!loop || loop->kind != OP_FOR || v->index == 0)
		return NULL;
	const Value *of = v->block->last->in[v->index - 1];
	*behind = 1;
	if (of->block != v->block || of->def || !ring_counts(of, n) || !value_int(loop->in[2 + v->index], &first) ||
	    !value_int(loop->in[2 + of->index], &counts_from))
		return NULL;
	return (counts_from - first - 1) % n == 0 ? of : NULL;
}

/* One of a loop's carried values is assumed, then shown for what it is at first and what it becomes. */
static bool
holds(const Value *v, int64_t n, const Value **assumed, int nassumed)
{
	enum { DEPTH = 8 };
	int64_t c;

	if (value_int(v, &c))
		return c >= 0 && c < n;
	for (int i = 0; i < nassumed; i++)
		if (assumed[i] == v)
			return true;
	if (nassumed == DEPTH)
		return false;
	const Op *loop = v->def ? v->def : v->block->parent;
	if (v->def && loop->kind == OP_IF)
		return holds(loop->region[0]->last->in[v->index], n, assumed, nassumed) &&
		    holds(loop->region[1]->last->in[v->index], n, assumed, nassumed);
	if (!loop || loop->kind != OP_FOR || (!v->def && v->index == 0))
		return v->def && is_next(v->def, n) && holds(v->def->in[2]->def->in[0], n, assumed, nassumed);
	int i = v->def ? v->index : v->index - 1;
	const Value *arg = &loop->region[0]->arg[1 + i];
	if (v->def)
		return holds(arg, n, assumed, nassumed);
	assumed[nassumed++] = arg;
	return holds(loop->in[3 + i], n, assumed, nassumed) && holds(loop->region[0]->last->in[i], n, assumed, nassumed);
}

bool
ring_holds(const Value *v, int64_t n)
{
	const Value *assumed[8];

	return holds(v, n, assumed, 0);
}
