/* Cuts a loop in two where a mask of its body is all true up to an iteration that can be computed: the first loop has the
 * mask no more, the second goes on from there with it.
 *
 *     for %lo, %hi, %step, %acc do (%t: i64, %c: f32[64, 64]) {
 *         %0 = add (broadcast %t), (iota) : i64[64]
 *         %1 = lt %0, (broadcast %L) : bool[64]
 *         %2 = select (broadcast %1), %score, %none : f32[64, 64]
 *         …
 *  =>
 *     %end = min %hi, %L - 63                             the mask is all true of each index below
 *     %a = for %lo, %end, %step, %acc do {cut = true} (…) { … %score in place of %2 … }
 *     %from = %lo + cdiv(%end - %lo, %step) * %step       where that loop has ended
 *     for %from, %hi, %step, %a do (…) { … as before … }
 *
 * A mask is a comparison of two integer tiles of which one goes up with the loop's index, at a constant rate, from what
 * the loop leaves alone: sums and differences of the index, of at most two scalars of outside, of constants and of iota.
 * What matters of an iota is its first and its last element.  Of several masks each is all true below the least bound.
 * Iterations are the same, in the same order, with the same values: results are equal to the bit.
 *
 * Integers of 64 bits wrap.  The bound is computed from scalars that lie within 2^61 of 0, where neither it nor the tiles'
 * sums do; where the analysis does not show that they lie there, the code tests it, and else the first loop has no trip.
 *
 * Left alone: masks that are all true for every trip (axis finds them), those that guard accesses alone (copies have zero
 * fill and tests of their own: no loop of a plain product is cut), those of few elements, and loops with loops inside.
 * Targets with wgmma too: their products choose tiles and stages that fill shared memory for one loop.
 * The cpu device runs a tile's select in one pass over it, which costs less than another loop in its plan.  Metal's
 * compiler was not seen to gain, and the text of attention would be three times as long. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"
#include "pass/pass.h"
#include "target/target.h"

#include <string.h>

enum {
	LEAST_ELEMENTS = 4096,                          /* of a select: 32 for each of 128 threads */
	MOST_OPS = 120,                                 /* of a body: attention's has 40; LLVM takes 0.2 ms for each */
	DEEP = 12,                                      /* ops between a mask and the select, one within the other */
};

typedef struct Mask {
	Value *v;
	Affine a;                                       /* all true where this is below 0 in every element */
} Mask;

typedef struct Split {
	Module *m;
	Func *f;
	Op *loop;
	Block *body;
	VEC(Mask) masks;
	Value **copy;                                   /* of the body's values, by id, in the first loop */
	bool *is_true;                                  /* by id: all true there */
} Split;

/* ---- masks ---- */

static bool
spreads(const Op *op)
{
	return op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE || op->kind == OP_AND;
}

/* Does a select of many elements take it, as it is or spread? */
static bool
chooses(const Value *v, const Block *body, int depth)
{
	return depth < DEEP && ANY_OP_HERE(op, body, op_uses(op, v) &&
	    (op->kind == OP_SELECT ? op->in[0] == v && type_count(op->out[0].type) >= LEAST_ELEMENTS
	                           : spreads(op) && chooses(&op->out[0], body, depth + 1)));
}

static void
find_mask(Split *s, Op *op)
{
	Mask k = {.v = &op->out[0]};
	if (!mask_affine(s->body, k.v, false, &k.a) || k.a.by <= 0 || axis_of(k.v)->lo == 1 || !chooses(k.v, s->body, 0))
		return;
	vec_push(s->m->cx->tmp, &s->masks, k);
}

static void
find_masks(Split *s)
{
	int n = 0;
	for (Op *op = s->body->first; op; op = op_after(op, s->body)) {
		n++;
		if (op_is_loop(op) || op->kind == OP_ROLES)
			return;
	}
	for (Op *op = s->body->first; op && n <= MOST_OPS; op = op->next)
		find_mask(s, op);
}

/* ---- bounds ---- */

/* The first index at which the mask may be false. */
static Value *
bound(Builder *b, const Affine *a, Value *lo)
{
	Value *limit = build_index(b, -a->hi);
	if (a->minus)
		limit = a->hi ? build2(b, OP_ADD, a->minus, limit) : a->minus;
	if (a->plus)
		limit = build2(b, OP_SUB, limit, a->plus);
	if (a->by == 1)
		return limit;
	Value *some = build2(b, OP_LT, build_index(b, 0), limit);
	return build3(b, OP_SELECT, some, build2(b, OP_CDIV, limit, build_index(b, a->by)), lo);
}

/* Where the first loop ends: not before it begins. */
static Value *
end_of(Split *s, Builder *b)
{
	Value *lo = s->loop->in[0], *end = s->loop->in[1], *cut = NULL, *ok = mask_within(b, lo, NULL);
	for (int i = 0; i < s->masks.n; i++) {
		const Affine *a = &s->masks.at[i].a;
		Value *at = bound(b, a, lo);
		cut = cut ? build2(b, OP_MIN, cut, at) : at;
		ok = a->plus ? mask_within(b, a->plus, ok) : ok;
		ok = a->minus ? mask_within(b, a->minus, ok) : ok;
	}
	end = build2(b, OP_MIN, end, cut);
	if (ok)
		end = build3(b, OP_SELECT, ok, end, lo);
	return build2(b, OP_MAX, end, lo);
}

/* ---- the first loop ---- */

static Value *
copied(Split *s, Builder *b, Value *v)
{
	if (!value_inside(v, s->body))
		return v;
	if (!s->copy[v->id] && s->is_true[v->id])
		s->copy[v->id] = build_int(b, v->type, 1);
	return s->copy[v->id];
}

static bool
is_true(const Split *s, const Value *v)
{
	return value_inside(v, s->body) && s->is_true[v->id];
}

/* Ops on masks that are all true give what they give there; false: it is copied. */
static bool
folds(Split *s, Builder *b, const Op *op)
{
	Value *out = op->nout == 1 ? &op->out[0] : NULL;
	bool first = op->nin && is_true(s, op->in[0]);
	for (int i = 0; i < s->masks.n; i++)
		if (s->masks.at[i].v == out)
			return s->is_true[out->id] = true;
	switch (op->kind) {
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return s->is_true[out->id] = first;
	case OP_AND:
		if (!first && !is_true(s, op->in[1]))
			return false;
		s->is_true[out->id] = first && is_true(s, op->in[1]);
		s->copy[out->id] = s->is_true[out->id] ? NULL : copied(s, b, op->in[first]);
		return true;
	case OP_SELECT:
		s->copy[out->id] = first ? copied(s, b, op->in[1]) : NULL;
		return first;
	default:
		return false;
	}
}

static void copy_block(Split *s, const Block *from, Block *to);

static void
copy_op(Split *s, Builder *b, const Op *op)
{
	Arena *tmp = s->m->cx->tmp;
	b->place = op->place;
	if (folds(s, b, op))
		return;
	Value **in = MAP_OF(tmp, Value *, i, op->nin, copied(s, b, op->in[i]));
	const Type **type = MAP_OF(tmp, const Type *, i, op->nout, op->out[i].type);
	Op *new = op_make_regions(b, op->kind, in, op->nin, op->attr, op->nattr, type, op->nout, op->nregion);
	for (int i = 0; i < op->nout; i++) {
		s->copy[op->out[i].id] = &new->out[i];
		new->out[i].name = op->out[i].name;
	}
	for (int r = 0; r < op->nregion; r++) {
		const Block *region = op->region[r];
		const Type **arg = MAP_OF(tmp, const Type *, i, region->narg, region->arg[i].type);
		new->region[r] = block_make(s->f, new, arg, region->narg);
		copy_block(s, region, new->region[r]);
	}
}

static void
copy_block(Split *s, const Block *from, Block *to)
{
	Builder b = {.m = s->m, .block = to};
	block_map_args(from, to, s->copy);
	for (const Op *op = from->first; op; op = op->next)
		copy_op(s, &b, op);
}

static Op *
first_loop(Split *s, Builder *b, Value *end)
{
	Op *old = s->loop;
	s->copy = NEW_ARRAY(s->m->cx->tmp, Value *, s->f->nvalues);
	s->is_true = NEW_ARRAY(s->m->cx->tmp, bool, s->f->nvalues);
	Op *new = build_for(b, (Value *[]){old->in[0], end, old->in[2]}, old->in + 3, old->nout, old);
	copy_block(s, s->body, new->region[0]);
	mask_erase_unused(new->region[0]);
	attr_set_cut(s->m, new, true);
	return new;
}

static void
split_loop(Module *m, Func *f, Op *loop)
{
	Split s = {.m = m, .f = f, .loop = loop, .body = loop->region[0]};
	int64_t step;
	if (!value_int(loop->in[2], &step) || step <= 0 || attr_cut(loop))
		return;
	find_masks(&s);
	if (s.masks.n == 0)
		return;
	func_number(f);
	Builder b = build_before(loop);
	Value *lo = loop->in[0], *end = end_of(&s, &b);
	Op *first = first_loop(&s, &b, end);
	Value *trips = build2(&b, OP_CDIV, build2(&b, OP_SUB, end, lo), loop->in[2]);
	op_set_in(loop, 0, build2(&b, OP_ADD, lo, build2(&b, OP_MUL, trips, loop->in[2])));
	for (int i = 0; i < first->nout; i++)
		op_set_in(loop, 3 + i, &first->out[i]);
}

/* Is there a comparison in a loop at all? */
static bool
may_have_masks(const Func *f)
{
	return ANY_OP(op, f->body,
	    op_family(op) == FAMILY_COMPARE && op->out[0].type->rank > 0 && op->home->parent &&
		op->home->parent->kind == OP_FOR);
}

static void
walk(Module *m, Func *f, Block *b)
{
	for (Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_FOR)
			split_loop(m, f, op);
		for (int r = 0; r < op->nregion; r++)
			walk(m, f, op->region[r]);
	}
}

void
pass_split(Func *f, const Target *t)
{
	if (t->kind != TARGET_PTX || t->has & HAS_WGMMA || !may_have_masks(f))
		return;
	axis_keep(f);
	walk(f->module, f, f->body);
}
