/* Two loops over neighbouring ranges that do the same but for masks become one.
 *
 *     %a, %b = for %lo, %mid, %step, … do (%n, …) {           keys that all rows see
 *         %s = mul (dot …), %c
 *         …
 *     }
 *     %x, %y = for %mid, %hi, %step, %a, %b do (%n, …) {      keys on the diagonal
 *         %s = select %mask, (mul (dot …), %c), -inf
 *         …
 *  =>
 *     %x, %y = for %lo, %hi, %step, … do (%n, …) {
 *         %s = select (or (broadcast (lt %n, %mid)), %mask), (mul (dot …), %c), -inf
 *         …
 *
 * One loop's rings fill shared memory, and only one loop of a program is parted and skewed (passes roles, skew).  Masks
 * then stand in a branch that trips before the diagonal pass by (pass guard).
 *
 * The bodies are compared from what they yield on: equal ops become one, a mask that one of them has holds where the other
 * one's trips are, and values that differ are chosen by the index where nothing but arithmetic makes them.  Loops of
 * products that only read `in` tensors; the middle is a multiple of the step behind the start, so that trips stay as they
 * were. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"
#include "pass/pass.h"
#include "target/target.h"

enum { DEEP = 96, PAIRS_MOST = 512 };

typedef struct Concat {
	Func *f;
	Op *loop[2];
	Block *body[2];
	Builder b;                                      /* in the new loop */
	Value *arg;                                     /* its arguments */
	Value *mid, *before;                            /* the index is in the first loop's range */
	struct { const Value *of[2]; Value *is; } pair[PAIRS_MOST];
	int n;
	bool fails;
} Concat;

/* ---- which loops ---- */

static bool
is_steady(const Func *f, const Op *op)
{
	bool reads = op->kind == OP_READ && f->param[op->in[0]->index].access == ACCESS_IN;
	return (op_has(op, PURE) && op->nregion == 0) || reads || op->kind == OP_YIELD;
}

static int
count_dots(const Func *f, const Block *b)
{
	int n = 0;
	for (const Op *op = b->first; op; op = op->next) {
		if (!is_steady(f, op))
			return 0;
		n += op->kind == OP_DOT;
	}
	return n;
}

/* The loop that goes on with what this one leaves, where that is all that becomes of it. */
static Op *
next_loop(const Func *f, Op *first)
{
	Op *second = FIND_NEXT(o, first->next, o->next, o->kind == OP_FOR || !is_steady(f, o));
	if (!second || second->kind != OP_FOR || second->nout != first->nout || second->in[0] != first->in[1])
		return NULL;
	if (ANY_OF(i, first->nout, second->in[3 + i] != &first->out[i] || first->out[i].nuses != 1))
		return NULL;
	return second;
}

static bool
is_multiple(const Value *v, int64_t step)
{
	return axis_div_at(axis_of(v), 0, 0, 0) >= trailing_zeros(step);
}

static bool
has_trips(const Op *first, const Op *second)
{
	int64_t step, other;
	return value_int(first->in[2], &step) && value_int(second->in[2], &other) && step == other && step > 0 &&
	    is_power_of_two(step) && is_multiple(first->in[0], step) && is_multiple(first->in[1], step);
}

/* Is a bound at least `mid` on every run: it and some more, the least of such, or a dimension where the program starts? */
static bool
is_after(const Value *v, const Value *mid)
{
	const Op *op = v->def, *mul = mid->def;
	int64_t n;
	if (v == mid)
		return true;
	if (op && op->kind == OP_MIN)
		return is_after(op->in[0], mid) && is_after(op->in[1], mid);
	if (op && op->kind == OP_ADD &&
	    ANY_OF(i, 2, op->in[i] == mid && value_int(op->in[1 - i], &n) && n >= 0))
		return true;
	for (int i = 0; i < 2 && !op && mul && mul->kind == OP_MUL; i++) {
		const Op *id = mul->in[i]->def;
		bool starts = id && id->kind == OP_PROGRAM_ID && value_int(mul->in[1 - i], &n);
		if (starts && op_attr(id, ATTR_DIM) && attr_dim(id) == v->index && attr_per(id) == n)
			return true;
	}
	return false;
}

/* ---- both bodies ---- */

static bool
inside(const Concat *c, const Value *v, int which)
{
	return value_inside(v, c->body[which]);
}

/* The same op, of the same tensors. */
static bool
are_alike(const Op *a, const Op *b)
{
	return a->kind == b->kind && a->nin == b->nin && a->nout == 1 && b->nout == 1 && a->nregion == 0 &&
	    b->nregion == 0 && a->out[0].type == b->out[0].type && attrs_same(a, b) && ALL_OF(i, a->nin,
	    a->in[i] == b->in[i] || (a->in[i]->type->kind == TYPE_TILE && b->in[i]->type->kind == TYPE_TILE));
}

/* Are they the same, computed by either loop? */
static bool
are_equal(const Concat *c, const Value *x, const Value *y, int depth)
{
	if (!inside(c, x, 0) || !inside(c, y, 1)) {
		const Attr *a = value_const(x), *b = value_const(y);
		return x == y || (a && b && x->type == y->type && attr_same(a, b));
	}
	if (!x->def || !y->def)
		return !x->def && !y->def && x->index == y->index;
	return depth < DEEP && are_alike(x->def, y->def) &&
	    ALL_OF(i, x->def->nin, are_equal(c, x->def->in[i], y->def->in[i], depth + 1));
}

static Value *
find(const Concat *c, const Value *x, const Value *y)
{
	return VALUE_OF(i, c->n, (!x || c->pair[i].of[0] == x) && (!y || c->pair[i].of[1] == y),
	    c->pair[i].is, NULL);
}

static Value *
note(Concat *c, const Value *x, const Value *y, Value *is)
{
	if (c->n == PAIRS_MOST) {
		c->fails = true;
		return is;
	}
	c->pair[c->n].of[0] = x;
	c->pair[c->n].of[1] = y;
	c->pair[c->n++].is = is;
	return is;
}

static Value *
rebuild(Concat *c, const Op *op, Value *const *in)
{
	Builder b = c->b;
	b.place = op->place;
	return build_like(&b, op, in, op->out[0].type);
}

/* v of one loop in the new one: arithmetic of its own, what both read and multiply. */
static Value *
of_one(Concat *c, Value *v, int which, int depth)
{
	Value *in[8], *is = which == 0 ? find(c, v, NULL) : find(c, NULL, v);
	if (is || !inside(c, v, which))
		return is ? is : v;
	if (!v->def)
		return &c->arg[v->index];
	const Op *op = v->def;
	if (depth == DEEP || !op_has(op, PURE) || op->kind == OP_DOT || op->nin > LEN(in) || op->nout != 1) {
		c->fails = true;
		return v;
	}
	for (int i = 0; i < v->def->nin && !c->fails; i++)
		in[i] = of_one(c, v->def->in[i], which, depth + 1);
	return c->fails ? v : note(c, which == 0 ? v : NULL, which == 1 ? v : NULL, rebuild(c, v->def, in));
}

static Value *
spread(Concat *c, Value *scalar, const Type *like)
{
	const Type *t = type_with_elem(c->f->module, like, TY_BOOL);
	return like->rank ? build1(&c->b, OP_BROADCAST, scalar, t) : scalar;
}

static Value *merge(Concat *c, Value *x, Value *y, int depth);

/* Is a mask of the second loop all true in the first one's trips, as the diagonal's is before it? */
static bool
holds_before(const Concat *c, const Value *mask)
{
	Affine a;
	int64_t step;
	while (mask->def && (mask->def->kind == OP_BROADCAST || mask->def->kind == OP_RESHAPE))
		mask = mask->def->in[0];
	return value_int(c->loop[1]->in[2], &step) && mask_affine(c->b.block, mask, true, &a) && a.by == 1 && !a.plus &&
	    a.minus == c->mid && a.hi < step;
}

/* The loop `which` masks what the other one does not.  NULL: it is no such mask. */
static Value *
merge_mask(Concat *c, Value *x, Value *y, int which, int depth)
{
	Op *select = (which ? y : x)->def;
	if (!select || select->kind != OP_SELECT || !inside(c, which ? y : x, which))
		return NULL;
	bool fits = which ? are_equal(c, x, select->in[1], 0) : are_equal(c, select->in[1], y, 0);
	if (!fits)
		return NULL;
	Value *plain = which ? merge(c, x, select->in[1], depth + 1) : merge(c, select->in[1], y, depth + 1);
	Value *mask = of_one(c, select->in[0], which, depth + 1), *none = of_one(c, select->in[2], which, depth + 1);
	Value *other = which ? c->before : build1(&c->b, OP_NOT, c->before, NULL);
	if (c->fails)
		return NULL;
	bool holds = which && holds_before(c, mask);
	Value *any = holds ? mask : build2(&c->b, OP_OR, spread(c, other, mask->type), mask);
	return note(c, x, y, build3(&c->b, OP_SELECT, any, plain, none));
}

static Value *
merge(Concat *c, Value *x, Value *y, int depth)
{
	Value *in[8], *is = find(c, x, y);
	if (is || c->fails || depth == DEEP) {
		c->fails |= !is;
		return is ? is : y;
	}
	if (!inside(c, x, 0) && !inside(c, y, 1) && are_equal(c, x, y, 0))
		return y;                               /* tensors among them */
	bool inner = inside(c, x, 0) && inside(c, y, 1);
	if (inner && !x->def && !y->def && x->index == y->index)
		return &c->arg[x->index];
	if (inner && x->def && y->def && are_alike(x->def, y->def) && x->def->nin <= LEN(in)) {
		for (int i = 0; i < x->def->nin && !c->fails; i++)
			in[i] = merge(c, x->def->in[i], y->def->in[i], depth + 1);
		return c->fails ? y : note(c, x, y, rebuild(c, y->def, in));
	}
	for (int which = 1; which >= 0; which--)
		if ((is = merge_mask(c, x, y, which, depth)))
			return is;
	Value *a = of_one(c, x, 0, depth + 1), *b = of_one(c, y, 1, depth + 1);
	if (c->fails || a->type != b->type)
		c->fails = true;
	return c->fails ? y : note(c, x, y, build3(&c->b, OP_SELECT, spread(c, c->before, a->type), a, b));
}

static bool
concat(Func *f, Op *first, Op *second)
{
	Concat *c = NEW(f->module->cx->tmp, Concat);
	*c = (Concat){.f = f, .loop = {first, second}, .body = {first->region[0], second->region[0]}, .mid = first->in[1]};
	Builder at = build_before(second);
	Value *hi = second->in[1];
	if (!is_after(hi, c->mid))
		hi = build2(&at, OP_MAX, hi, c->mid);
	Op *loop = build_for(&at, (Value *[]){first->in[0], hi, first->in[2]}, first->in + 3, first->nout, second);
	Block *body = loop->region[0];
	c->b = (Builder){.m = f->module, .block = body, .place = second->place};
	c->arg = body->arg;
	for (int i = 0; i < body->narg; i++)
		body->arg[i].name = c->body[1]->arg[i].name;
	c->before = build2(&c->b, OP_LT, &body->arg[0], c->mid);
	Value **out = NEW_ARRAY(f->module->cx->tmp, Value *, first->nout);
	for (int i = 0; i < first->nout && !c->fails; i++)
		out[i] = merge(c, c->body[0]->last->in[i], c->body[1]->last->in[i], 0);
	if (c->fails) {
		op_erase(loop);
		return false;
	}
	build_yield(&c->b, out, first->nout);
	op_replace(second, loop);
	op_erase(first);
	return true;
}

void
pass_concat(Func *f, const Target *t)
{
	if (!(t->has & HAS_WGMMA))
		return;
	axis_keep(f);
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (op->kind != OP_FOR || count_dots(f, op->region[0]) < 2)
			continue;
		Op *second = next_loop(f, op);
		if (!second || count_dots(f, second->region[0]) != count_dots(f, op->region[0]) || !has_trips(op, second))
			continue;
		if (concat(f, op, second)) {
			axis_drop(f->module);
			axis_keep(f);
			next = f->body->first;
		}
	}
}
