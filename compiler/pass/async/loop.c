/* The loop with more carried values, and accesses of another iteration.
 *
 *     for %lo, %hi, %step, %acc do (%k, %c)     =>     for %lo, %hi, %step, %acc, %0 do (%k, %c, %now) {
 *         yield %e                                         yield %e, (%now + 1, wrapped at the slots)
 *     }                                                }
 */
#include "pass/async/pipeline.h"
#include "pass/async/ring.h"
#include "model/digits/digits.h"

#include <string.h>

/* v as it is in the iteration of that index. */
static Value *
shift(Pipeline *p, Builder *b, Value *v, Value *index)
{
	if (!value_inside(v, p->body))
		return v;
	if (v == &p->body->arg[0])
		return index;
	const Op *op = v->def;
	if (op && op->nregion)                          /* a search (pass filter), in this iteration */
		return v;
	if (!op)
		return p->ahead ? p->ahead[v->index - 1] : v;
	const Type **type = MAP_OF(p->tmp, const Type *, i, op->nout, op->out[i].type);
	Value **in = MAP_OF(p->tmp, Value *, i, op->nin,
	    op->in[i]->type->kind == TYPE_TILE ? shift(p, b, op->in[i], index) : op->in[i]);
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

/* ---- copies of windows ---- */

static Value *
as_index(Builder *b, const Value *v)
{
	const Type *index = type_scalar(b->m, TY_I64);
	return v->type == index ? (Value *)v : build1(b, OP_CAST, (Value *)v, index);
}

/* Element 0 of a tile of indices. */
static Value *
first_of(Builder *b, const Value *v)
{
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n))
		return build_index(b, n);
	if (v->type->rank == 0)
		return as_index(b, v);
	if (op->kind == OP_IOTA)
		return build_index(b, 0);
	if (op->nin == 1)                               /* converts, casts and broadcasts */
		return first_of(b, op->in[0]);
	return build2(b, op->kind, first_of(b, op->in[0]), first_of(b, op->in[1]));
}

static Value *
sum_of(Builder *b, const WindowSum *s)
{
	Value *sum = build_index(b, s->number);
	for (int i = 0; i < s->n; i++) {
		Value *v = as_index(b, s->v[i]);
		if (s->factor[i] != 1)
			v = build2(b, OP_MUL, v, build_index(b, s->factor[i]));
		sum = build2(b, OP_ADD, sum, v);
	}
	return sum;
}

static Value *
extent_of(Builder *b, const Value *tensor, int dim)
{
	Attr axis = attr_new_axis(b->m, dim);
	return &op_make(b, OP_DIM, (Value *[]){(Value *)tensor}, 1, &axis, 1, NULL, 0)->out[0];
}

/* v and `factor` times a sum of the launch's arguments. */
static Value *
add_launch_sum(Builder *b, Value *v, const LaunchSum *s, int64_t factor)
{
	const Block *body = b->block->func->body;
	if (s->number)
		v = build2(b, OP_ADD, v, build_index(b, factor * s->number));
	for (int i = 0; i < s->n; i++) {
		const Value *param = &body->arg[s->term[i].param];
		Value *term = s->term[i].dim < 0 ? as_index(b, param) : extent_of(b, param, s->term[i].dim);
		v = build2(b, OP_ADD, v, build2(b, OP_MUL, term, build_index(b, factor * s->term[i].factor)));
	}
	return v;
}

static Value *
count_of(Builder *b, const Product *p)
{
	if (p->n == 0)
		return build_index(b, p->number);
	if (p->factor[0].axis < 0)
		return as_index(b, p->factor[0].v);
	return extent_of(b, p->factor[0].v, p->factor[0].axis);
}

/* Behind the digit, so that what many iterations have in common is divided once. */
static Value *
first_digit(Builder *b, const WindowDim *w)
{
	Builder at = *b;
	if (w->v->def) {
		at.block = w->v->def->home;
		at.before = w->v->def->next;
	}
	return first_of(&at, w->v);
}

/* The gather's tiles of indices become the first of them, and each dimension's offset, lower corner and count follow. */
static int
window_operands(Pipeline *p, Builder *b, const Op *read, Value **in, int nin, Attr *attr, int *nattr)
{
	int rank = read->in[0]->type->rank;
	const IntList *extents = attr_extents(read);
	int64_t steps[WINDOW_RANK], extent[2] = {read->out[0].type->extent[0], extents->at[0]};
	char index[MAX_RANK + 1] = {0};
	for (int d = 0; d < rank; d++) {
		WindowDim w;
		index[d] = d < rank - 1 ? 'w' : 'p';
		if (d == rank - 1)
			continue;
		if (!window_take(in[1 + d], &w))
			die("a gather of windows that has become another");
		LaunchSum most, falls = {.number = 0};
		if (d > 0 && window_reach(read, d - 1, &most, &falls))
			die("a gather of windows without its reach");
		Value *lower = add_launch_sum(b, sum_of(b, &w.lower), &falls, -1), *first = first_digit(b, &w);
		if (w.step != 1)
			first = build2(b, OP_MUL, first, build_index(b, w.step));
		in[1 + d] = build2(b, OP_ADD, first, lower);
		if (d == 0)
			continue;
		steps[d - 1] = w.step;
		in[nin++] = add_launch_sum(b, sum_of(b, &w.offset), &falls, 1);
		in[nin++] = lower;
		in[nin++] = count_of(b, &w.digit.mod);
	}
	for (int i = 0; i < *nattr; i++)
		if (attr[i].name == ATTR_INDEX)
			attr[i] = attr_new_index(p->m, intern(p->m->cx->names, index));
		else if (attr[i].name == ATTR_EXTENTS)
			attr[i] = attr_new_extents(p->m, extent, 2);
	attr[(*nattr)++] = attr_new_steps(p->m, steps, rank - 2);
	return nin;
}

Op *
pipeline_access(Pipeline *p, Builder *b, const Staged *s, OpKind kind, Value *slot, Value *index)
{
	const AttrName kept[] = {ATTR_INDEX, ATTR_EXTENTS, ATTR_MERGED, ATTR_REACH, ATTR_VECTOR, ATTR_INSIDE, ATTR_VALID,
		ATTR_UNDEF, ATTR_OUTSIDE_UNDEF, ATTR_CACHE};
	const Op *read = s->read;
	int rank = read->in[0]->type->rank, n = 0, nin = 1 + rank;
	Value *in[MAX_RANK + 4 + 3 * WINDOW_RANK] = {read->in[0]};
	Attr attr[LEN(kept) + 3];

	for (int i = 0; i < rank; i++)
		in[1 + i] = shift(p, b, read->in[1 + i], index);
	if (kind == OP_COPY)
		in[nin++] = slot;
	for (int i = 0; i < LEN(kept); i++)
		if (op_attr(read, kept[i]) && (kind == OP_READ || kept[i] != ATTR_CACHE))
			attr[n++] = *op_attr(read, kept[i]);
	if (kind == OP_COPY)
		attr[n++] = attr_new_kind(p->m, s->shared ? "multicast" : s->is_bulk ? "bulk" : s->is_counted ? "counted"
		                                                                                   : "cp_async");
	if (kind == OP_COPY && s->shared)
		attr[n++] = attr_new_mask(p->m, s->shared);
	if (kind == OP_COPY && (s->is_bulk || s->is_counted)) {
		in[nin++] = p->full;
		in[nin++] = slot->def->in[1];
	}
	if (kind == OP_COPY && s->is_bulk && strchr(attr_index(read), 'g'))
		nin = window_operands(p, b, read, in, nin, attr, &n);
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
	Value **in = MAP_OF(p->tmp, Value *, i, old->nout + n, i < old->nout ? old->in[3 + i] : init[i - old->nout]);
	Op *loop = build_for(&b, old->in, in, old->nout + n, old);
	Block *to = loop->region[0];
	block_map_args(from, to, NULL);
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
	Value **in = MAP_OF(p->tmp, Value *, i, old->nin + n, i < old->nin ? old->in[i] : more[i - old->nin]);
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

bool
ring_follows(const Value *v, const Value *of, int64_t n)
{
	return v->def && is_next(v->def, n) && v->def->in[2]->def->in[0] == of;
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

enum { SHOWN_MOST = 256 };

/* No less than 0, by the ops that made it from constants and what no one may have made less. */
static bool
is_count(const Value *v)
{
	const Op *op = v->def;
	int64_t c;

	if (value_int(v, &c))
		return c >= 0;
	if (!op || op->nin != 2)
		return false;
	if (op->kind == OP_MAX)
		return is_count(op->in[0]) || is_count(op->in[1]);
	bool keeps = op->kind == OP_ADD || op->kind == OP_DIV || op->kind == OP_CDIV || op->kind == OP_REM;
	return keeps && is_count(op->in[0]) && is_count(op->in[1]);
}

/* A sum modulo n, as pingpong.c makes it: (v1 + v2 < n) ? v1 + v2 : v1 + v2 - n. */
static const Op *
sum_modulo(const Op *wrap, int64_t n)
{
	const Op *test = wrap->kind == OP_SELECT ? wrap->in[0]->def : NULL;
	const Op *sum = wrap->kind == OP_SELECT ? wrap->in[1]->def : NULL, *back = sum ? wrap->in[2]->def : NULL;

	if (!test || !sum || !back || sum->kind != OP_ADD || test->kind != OP_LT || back->kind != OP_SUB)
		return NULL;
	bool same = test->in[0] == &sum->out[0] && back->in[0] == &sum->out[0];
	return same && value_is_int(test->in[1], n) && value_is_int(back->in[1], n) ? sum : NULL;
}

/* What has been asked of is not asked again: all of it must hold, or nothing does.  So a loop's carried value is assumed
 * where it is shown for what it becomes. */
static bool
holds(const Value *v, int64_t n, const Value **shown, int *nshown)
{
	int64_t c;

	if (value_int(v, &c))                           /* -1: none yet, which is tested (skew/run_on.c) */
		return c >= -1 && c < n;
	if (ANY_OF(i, *nshown, shown[i] == v))
		return true;
	if (*nshown == SHOWN_MOST)
		return false;
	shown[(*nshown)++] = v;
	const Op *loop = v->def ? v->def : v->block->parent;
	if (v->def && loop->kind == OP_IF)
		return holds(loop->region[0]->last->in[v->index], n, shown, nshown) &&
		    holds(loop->region[1]->last->in[v->index], n, shown, nshown);
	if (v->def && is_next(v->def, n))
		return holds(v->def->in[2]->def->in[0], n, shown, nshown);
	const Op *sum = v->def ? sum_modulo(v->def, n) : NULL;
	if (sum)
		return holds(sum->in[0], n, shown, nshown) && holds(sum->in[1], n, shown, nshown);
	if (v->def && v->def->kind == OP_REM && value_int(v->def->in[1], &c))
		return c > 0 && c <= n && is_count(v->def->in[0]);
	if (v->def && v->def->kind == OP_SELECT)
		return holds(v->def->in[1], n, shown, nshown) && holds(v->def->in[2], n, shown, nshown);
	if (v->def && v->def->kind == OP_SUB)           /* a phase turns */
		return n == 2 && value_int(v->def->in[0], &c) && c == 1 && holds(v->def->in[1], n, shown, nshown);
	if (loop && loop->kind == OP_ROLES)             /* a group's number */
		return attr_copies(loop)->at[v->block == loop->region[1]] <= n;
	if (!loop || loop->kind != OP_FOR || (!v->def && v->index == 0))
		return false;
	int i = v->def ? v->index : v->index - 1;
	const Value *arg = &loop->region[0]->arg[1 + i];
	if (v->def)
		return holds(arg, n, shown, nshown);
	return holds(loop->in[3 + i], n, shown, nshown) && holds(loop->region[0]->last->in[i], n, shown, nshown);
}

bool
ring_holds(const Value *v, int64_t n)
{
	const Value *shown[SHOWN_MOST];
	int nshown = 0;

	return holds(v, n, shown, &nshown);
}

bool
ring_is_small(const Value *v)
{
	enum { SLOTS_MOST = 16 };
	for (int n = 2; n <= SLOTS_MOST; n++)
		if (ring_holds(v, n))
			return true;
	return false;
}
