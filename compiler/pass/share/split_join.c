/* The parts of a loop that several blocks share, and what their states come to together.
 *
 *     %x = split_get %t, 0
 *     %y = split_get %t, 1              several are loaded …
 *     %z = split_get %t, 2
 *     %a = add %x, %y                   … then joined, in the order of ranks
 *     %b = add %a, %z
 *
 * Where they are too many for registers the same stands in a loop over ranks.  Of a merge, its region takes the place of
 * the addition, under a branch where the part may have had no iteration. */
#include "ir/derive.h"
#include "pass/share/split_k.h"

Parts
split_parts(Builder *b, const Op *loop, Value *n)
{
	Value *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2], *one = build_index(b, 1);
	Value *trips = build2(b, OP_CDIV, build2(b, OP_MAX, build2(b, OP_SUB, hi, lo), build_index(b, 0)), step);
	Value *each = build2(b, OP_MAX, build2(b, OP_CDIV, trips, n), one);

	return (Parts){lo, hi, build2(b, OP_MUL, each, step), build2(b, OP_MAX, build2(b, OP_CDIV, trips, each), one)};
}

void
split_part(Builder *b, const Parts *p, Value *rank, Value **from, Value **to)
{
	*from = build2(b, OP_ADD, p->lo, build2(b, OP_MUL, rank, p->each));
	*to = build2(b, OP_MIN, p->hi, build2(b, OP_ADD, *from, p->each));
}

/* ---- what joins them ---- */

Value *
split_state(const Split *s, int i)
{
	return s->merge ? &s->merge->out[i] : &s->loop->out[i];
}

int
split_nstates(const Split *s)
{
	return s->merge ? s->merge->nout : s->loop->nout;
}

Value *
split_begin(Builder *b, const Value *init, const Type *t)
{
	if (value_is_zero(init))
		return NULL;
	return dtype_is_float(t->elem) ? build_float(b, t, -0.0) : build_int(b, t, 0);
}

void
split_join(const Split *s, Builder *b, Value *const *x, Value *const *y, Value **out)
{
	int n = split_nstates(s);

	if (!s->merge) {
		for (int i = 0; i < n; i++)
			out[i] = build2(b, s->fold[i], x[i], y[i]);
		return;
	}
	const Block *region = s->merge->region[0];
	Value **map = NEW_ARRAY(b->m->cx->tmp, Value *, s->nvalues);
	for (int i = 0; i < n; i++) {
		map[region->arg[i].id] = x[i];
		map[region->arg[n + i].id] = y[i];
	}
	for (const Op *op = region->first; op != region->last; op = op->next)
		op_clone(b, op, map);
	for (int i = 0; i < n; i++) {
		Value *v = region->last->in[i];
		out[i] = v->id < s->nvalues && map[v->id] ? map[v->id] : v;
	}
}

/* Elements of the states of several parts that a thread has in registers at once: what is loaded at a time.  Each time
 * costs the latency of the L2 cache. */
enum { LOADED_AT_ONCE = 144, PARTS_AT_ONCE = 15, LANES = 32 };

static int
parts_at_once(const Split *s, const Func *f, int others)
{
	int64_t elements = 1, loaded = LOADED_AT_ONCE * LANES * f->schedule.warps;

	for (int i = 0; i < split_nstates(s); i++)
		elements += type_count(split_state(s, i)->type);
	int n = (int)MIN(MAX(loaded / elements, 1), MIN(others, PARTS_AT_ONCE));
	while (!s->merge && others % n)
		n--;
	return n;
}

void
split_get_all(const Split *s, Builder *b, Value *rank, Value **out)
{
	for (int i = 0; i < split_nstates(s); i++)
		out[i] = s->put[i] ? build2(b, OP_SPLIT_GET, s->put[i], rank) : s->merge->in[i];
}

/* %x, or where there is a part of that rank both: a select, since LLVM would move what is loaded into a branch and each
 * part would wait for memory behind the one before. */
static void
join_select(const Split *s, Builder *b, Value *exists, Value **x, Value *const *y)
{
	int n = split_nstates(s);
	Value **both = NEW_ARRAY(b->m->cx->tmp, Value *, n);
	split_join(s, b, x, y, both);
	for (int i = 0; i < n; i++) {
		const Type *t = type_with_elem(b->m, x[i]->type, TY_BOOL);
		x[i] = build3(b, OP_SELECT, t->rank ? build1(b, OP_BROADCAST, exists, t) : exists, both[i], x[i]);
	}
}

/* The same by a branch, as ranks are the same in all threads. */
static void
join_branch(const Split *s, Builder *b, Value *exists, Value **x, Value *const *y)
{
	int n = split_nstates(s);
	Value **both = NEW_ARRAY(b->m->cx->tmp, Value *, n);
	Op *branch = build_if(b, exists, x, n);

	for (int r = 0; r < 2; r++) {
		Builder in = {.m = b->m, .block = branch->region[r], .place = b->place};
		if (r == 0)
			split_join(s, &in, x, y, both);
		build_yield(&in, r == 0 ? both : x, n);
	}
	for (int i = 0; i < n; i++)
		x[i] = &branch->out[i];
}

/* The states `x` and those of n parts behind it, neighbours first and in the order of ranks: a merge waits for what it
 * joins, and of 16 parts four stand behind one another so.  (A sum takes few cycles, and is added up as they come.) */
static void
join_pairs(const Split *s, Builder *b, Value **rank, int n, Value *count, Value **x, Value **y)
{
	int nstate = split_nstates(s);
	for (int by = 1; by <= n; by *= 2)
		for (int k = 0; k + by <= n; k += 2 * by) {
			Value *exists = build2(b, OP_LT, rank[k + by - 1], count);
			join_select(s, b, exists, k ? y + nstate * (k - 1) : x, y + nstate * (k + by - 1));
		}
}

/* The states `x` and those of n parts from `first` on: all are loaded, then joined.  A part without an iteration has what
 * the loop began with, which changes no sum; a merge is spared it.  It is loaded all the same: where all parts are, their
 * addresses are a constant apart, and wait for nothing.  Of some the last may lie behind the last part. */
static void
join_some(const Split *s, Builder *b, Value *first, int n, Value *count, Value **x)
{
	int nstate = split_nstates(s);
	bool may_be_behind = s->merge && n < b->block->func->schedule.split - 1;
	Value **rank = NEW_ARRAY(b->m->cx->tmp, Value *, n), **y = NEW_ARRAY(b->m->cx->tmp, Value *, nstate * n);

	for (int k = 0; k < n; k++) {
		rank[k] = k ? build2(b, OP_ADD, first, build_index(b, k)) : first;
		Value *last = may_be_behind ? build2(b, OP_SUB, count, build_index(b, 1)) : NULL;
		split_get_all(s, b, last ? build2(b, OP_MIN, rank[k], last) : rank[k], y + nstate * k);
	}
	if (s->merge && !ANY_OP(op, s->merge->region[0], op->kind != OP_YIELD && (!op_has(op, PURE) || op->nregion))) {
		join_pairs(s, b, rank, n, count, x, y);
		return;
	}
	for (int k = 0; k < n; k++) {
		if (s->merge)
			join_branch(s, b, build2(b, OP_LT, rank[k], count), x, y + nstate * k);
		else
			split_join(s, b, x, y + nstate * k, x);
	}
}

void
split_join_all(const Split *s, Builder *b, Value *count, Value **out)
{
	const Func *f = b->block->func;
	int n = split_nstates(s), others = f->schedule.split - 1, at_once = parts_at_once(s, f, others);
	Value *bounds[3];

	split_get_all(s, b, build_index(b, 0), out);
	if (at_once == others) {
		join_some(s, b, build_index(b, 1), others, count, out);
		return;
	}
	bounds[0] = build_index(b, 1);
	bounds[1] = s->merge ? count : build_index(b, others + 1);
	bounds[2] = build_index(b, at_once);
	Op *loop = build_for(b, bounds, out, n, NULL);
	Block *body = loop->region[0];
	Builder at = {.m = b->m, .block = body, .place = b->place};
	for (int i = 0; i < n; i++)
		out[i] = &body->arg[1 + i];
	join_some(s, &at, &body->arg[0], at_once, count, out);
	build_yield(&at, out, n);
	for (int i = 0; i < n; i++)
		out[i] = &loop->out[i];
}
