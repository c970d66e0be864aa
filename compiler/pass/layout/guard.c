/* Masks only where they matter: a select of many elements by a mask of the loop's index goes into a branch that iterations
 * in which the mask is all true pass by.
 *
 *     for … do (%t, …) {                                  for … do (%t, …) {
 *         %m = lt (%t + iota), %L : bool[128]                 %may = le 0, %t + 127 - %L
 *         %b = broadcast %m : bool[128, 128]         =>       %s = if %may then {
 *         %s = select %b, %x, %none                               %m = …; %b = …; %s = select %b, %x, %none
 *                                                                 yield %s
 *                                                             } else { yield %x }
 *
 * Of a conjunction of masks each is looked at: a window has one that is true from some iteration on and one that is true
 * up to some.  What else is in it, as whether two tokens are of one document, selects by itself behind the branch.  Of a
 * disjunction one will do: what another one reads, as a tree's bits behind a prefix, is read in the branch.  The index of a
 * nest that became one loop is a scalar of its body.  What of the first iteration stands before the loop (pass skew) has
 * the index's first value for it.  Not on Apple's GPUs, whose compiler was not seen to gain.
 * A masked tile of weights, w of `s * w`, is made in both branches, each with the product by it: it is never in registers
 * beside all of s.
 * A product by a number that is 1 but where a condition from outside the loop fails (pass relax) is passed by as well.
 * The scalars are compared as the tiles would be where neither wraps: where a term is not known to lie within 2^61 of 0,
 * the branch is taken if it does not. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"
#include "pass/pass.h"
#include "target/target.h"

enum { LEAST_ELEMENTS = 4096, DEEP = 8, MOST = 4 };

typedef struct Guard {
	Module *m;
	Func *f;
	Block *body;                                    /* of the loop, or where part of its first iteration stands: */
	bool is_loop;                                   /* false */
	Affine mask[MOST];
	int n;
} Guard;

/* Does it change from iteration to iteration?  Before the loop: is it not known? */
static bool
changes(const Guard *g, const Affine *a)
{
	if (!g->is_loop)
		return a->plus || a->minus;
	return a->by != 0 || (a->plus && value_inside(a->plus, g->body)) || (a->minus && value_inside(a->minus, g->body));
}

/* op of other operands; NULL: its own. */
static Value *
build_again(Guard *g, Builder *b, Op *op, Value *first, Value *second)
{
	func_number(g->f);
	Value **map = NEW_ARRAY(g->m->cx->tmp, Value *, g->f->nvalues);
	map[op->in[0]->id] = first;
	if (second)
		map[op->in[1]->id] = second;
	return &op_clone(b, op, map)->out[0];
}

/* The masks of which v is the conjunction, however spread; false: something else is in it. */
static bool
find_masks(Guard *g, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == DEEP || op->home != g->body)
		return false;
	switch (op->kind) {
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_CONVERT:
		return find_masks(g, op->in[0], depth + 1);
	case OP_AND:
		return find_masks(g, op->in[0], depth + 1) && find_masks(g, op->in[1], depth + 1);
	case OP_OR:
		for (int i = 0, n = g->n; i < 2; i++, g->n = n)
			if (find_masks(g, op->in[i], depth + 1))
				return true;
		return false;
	default:
		return g->n < MOST && mask_affine(g->body, v, true, &g->mask[g->n]) && changes(g, &g->mask[g->n++]);
	}
}

static bool
is_spread(const Op *op)
{
	return op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE || op->kind == OP_CONVERT;
}

/* Of a conjunction the masks alone, or what it has beside them, made in `b`; NULL: there is nothing. */
static Value *
part_of(Guard *g, Builder *b, Value *v, int depth, bool masks)
{
	Op *op = v->def;
	g->n = 0;
	if (find_masks(g, v, depth))
		return masks ? v : NULL;
	if (!op || depth == DEEP || op->home != g->body || !(op->kind == OP_AND || is_spread(op)))
		return masks ? NULL : v;
	bool is_and = op->kind == OP_AND;
	Value *left = part_of(g, b, op->in[0], depth + 1, masks);
	Value *right = is_and ? part_of(g, b, op->in[1], depth + 1, masks) : NULL;
	if (left && (right || !is_and))
		return build_again(g, b, op, left, right);
	return left ? left : right;
}

/* A select by masks and something else becomes two, of which the first has the masks; it is returned.  NULL: it has none.
 *
 *     %m = and %mask, %same                                %s = select %mask, %x, %none
 *     %s = select %m, %x, %none                    =>      %t = select %same, %s, %none */
static Op *
divide_select(Guard *g, Op *op)
{
	Builder b = build_before(op);
	Value *masks = part_of(g, &b, op->in[0], 0, true);
	if (!masks)
		return NULL;
	Value *rest = part_of(g, &b, op->in[0], 0, false);
	Value *inner = build_again(g, &b, op, masks, NULL);
	op_set_in(op, 0, rest);
	op_set_in(op, 1, inner);
	g->n = 0;
	return find_masks(g, masks, 0) ? inner->def : NULL;
}

/* by * index + hi + plus - minus >= 0: some element may not be true. */
static Value *
may_fail(Guard *g, Builder *b, const Affine *a)
{
	Value *v = build_index(b, a->hi), *ok = NULL;
	if (g->is_loop) {
		Value *index = &g->body->arg[0];
		ok = mask_within(b, index, NULL);
		v = build2(b, OP_ADD, a->by == 1 ? index : build2(b, OP_MUL, index, build_index(b, a->by)), v);
	}
	if (a->plus) {
		v = build2(b, OP_ADD, v, a->plus);
		ok = mask_within(b, a->plus, ok);
	}
	if (a->minus) {
		v = build2(b, OP_SUB, v, a->minus);
		ok = mask_within(b, a->minus, ok);
	}
	Value *fails = build2(b, OP_LE, build_index(b, 0), v);
	if (!ok)
		return fails;
	return build2(b, OP_OR, fails, build2(b, OP_EQ, ok, build_int(b, ok->type, 0)));
}

/* The factor that is `c`, or else another: v is multiplied by 1 where the condition that is returned holds. */
static Value *
is_one_where(const Guard *g, const Value *v, Value **x)
{
	const Op *op = v->def;
	if (!op || op->kind != OP_MUL || op->home != g->body)
		return NULL;
	for (int i = 0; i < 2; i++) {
		const Op *spread = op->in[1 - i]->def;
		const Op *from = spread && spread->kind == OP_BROADCAST ? spread->in[0]->def : NULL;
		const Attr *one = from && from->kind == OP_SELECT ? value_const(from->in[1]) : NULL;
		if (!one || one->kind != KIND_FLOAT || one->f != 1 ||
		    (g->is_loop && value_inside(from->out, g->body)))
			continue;
		*x = op->in[i];
		return from->in[0];
	}
	return NULL;
}

/* A read of what nothing writes. */
static bool
is_steady_read(const Guard *g, const Op *op)
{
	return op->kind == OP_READ && g->f->param[op->in[0]->index].access == ACCESS_IN;
}

/* v as the branch makes it again: what stands in the loop's body goes with it. */
static Value *
again(Guard *g, Builder *b, Value *v, Value **map)
{
	Op *op = v->def;
	bool stays = !op || op->home != g->body || v->type->kind != TYPE_TILE || v->type->rank == 0;
	if (stays || (!op_has(op, PURE) && !is_steady_read(g, op)) || op->nregion)
		return v;
	if (map[v->id])
		return map[v->id];
	for (int i = 0; i < op->nin; i++)
		again(g, b, op->in[i], map);
	op_clone(b, op, map);
	return map[v->id];
}

/* The op of the same block that alone uses a result, element by element; NULL: there is none. */
static Op *
next_in_chain(const Op *op)
{
	const Value *v = &op->out[0];
	Op *use = FIND_NEXT(o, op->next, o->next, op_uses(o, v));
	bool lone = use && v->nuses == 1 && use->nregion == 0 && op_has(use, PURE) && op_has(use, ELEM);
	return lone && use->nout == 1 ? use : NULL;
}

static bool
is_wide(const Value *v)
{
	return v->type->kind == TYPE_TILE && type_count(v->type) >= LEAST_ELEMENTS;
}

/* The last op of what a select of weights goes into with another tile, casts behind it too; else the select itself. */
static Op *
tail_of(const Guard *g, Op *select, const Value *plain)
{
	Op *tail = next_in_chain(select), *next;
	bool joins = false;
	bool own = plain->nuses == 1 && plain->def && plain->def->home == g->body && op_has(plain->def, PURE);
	if (!tail || (!own && !value_const(plain)))
		return select;
	joins |= ANY_OF(i, tail->nin,
	    tail->in[i] != &select->out[0] && is_wide(tail->in[i]) &&
		value_inside(tail->in[i], g->body));
	if (!joins)
		return select;
	while ((next = next_in_chain(tail)) && next->kind == OP_CAST)
		tail = next;
	return tail;
}

/* op stands in a branch that is taken where `may` is true; v takes its place elsewhere.  Both branches go on to `tail`,
 * what is computed of op alone. */
static void
guard_op(Guard *g, Op *op, Op *tail, Value *may, Value *v)
{
	Builder b = build_before(tail);
	func_number(g->f);
	Op *branch = build_if(&b, may, (Value *[]){&tail->out[0]}, 1);
	Builder in = {.m = g->m, .block = branch->region[0], .place = op->place};
	Builder not = {.m = g->m, .block = branch->region[1], .place = op->place};
	Value **map = NEW_ARRAY(g->m->cx->tmp, Value *, g->f->nvalues);
	Value **other = NEW_ARRAY(g->m->cx->tmp, Value *, g->f->nvalues);
	for (int i = 0; i < op->nin; i++)
		if (op->in[i] != v || tail != op)
			again(g, &in, op->in[i], map);
	Value *changed = &op_clone(&in, op, map)->out[0];
	v = tail == op ? v : again(g, &not, v, other);
	other[op->out[0].id] = v;
	for (const Op *p = op; p != tail;) {
		p = next_in_chain(p);
		changed = &op_clone(&in, p, map)->out[0];
		v = &op_clone(&not, p, other)->out[0];
	}
	build_yield(&in, &changed, 1);
	build_yield(&not, &v, 1);
	op_replace(tail, branch);
}

/* A product by 1 under the mask goes with it.  The op to look at next. */
static Op *
guard_select(Guard *g, Op *op)
{
	Op *next = op->next, *tail;
	Builder b = build_before(op);
	Value *may = NULL, *plain = op->in[1], *same = is_one_where(g, op->in[1], &plain);
	for (int i = 0; i < g->n; i++) {
		Value *fails = may_fail(g, &b, &g->mask[i]);
		may = may ? build2(&b, OP_OR, may, fails) : fails;
	}
	if (same)
		may = build2(&b, OP_OR, may, build1(&b, OP_NOT, same, NULL));
	tail = tail_of(g, op, plain);
	next = next == tail ? tail->next : next;
	guard_op(g, op, tail, may, plain);
	return next;
}

static void
guard_product(Guard *g, Op *op)
{
	Value *plain, *same = is_one_where(g, op->out, &plain);
	Builder b = build_before(op);
	if (same)
		guard_op(g, op, op, build1(&b, OP_NOT, same, NULL), plain);
}

static void
guard_block(Func *f, Block *block, bool is_loop)
{
	Guard g = {.m = f->module, .f = f, .body = block, .is_loop = is_loop};
	bool changed = false;
	for (Op *op = g.body->first, *next; op; op = next) {
		next = op->next;
		g.n = 0;
		if (op->kind != OP_SELECT || type_count(op->out[0].type) < LEAST_ELEMENTS)
			continue;
		Op *select = find_masks(&g, op->in[0], 0) ? op : divide_select(&g, op);
		if (!select)
			continue;
		next = guard_select(&g, select);
		changed = true;
	}
	for (Op *op = g.body->last, *prev; op && changed; op = prev) {
		prev = op->prev;
		bool unused = ((op_has(op, PURE) && op->nregion == 0) || is_steady_read(&g, op)) &&
			      ALL_OF(i, op->nout, op->out[i].nuses == 0);
		if (unused)
			op_erase(op);
	}
	for (EACH_OP_HERE(op, g.body))
		if (op->kind == OP_MUL && type_count(op->out[0].type) >= LEAST_ELEMENTS)
			guard_product(&g, op);
}

static bool
has_product(const Block *b)
{
	return ANY_OP_HERE(op, b, op->kind == OP_DOT_START || op->kind == OP_DOT);
}

void
pass_guard(Func *f, const Target *t)
{
	if (t->kind != TARGET_PTX)
		return;
	axis_keep(f);
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_FOR || !has_product(op->region[0]))
			continue;
		guard_block(f, op->region[0], true);
		const Op *around = op->home->parent;
		if (has_product(op->home) && !(around && around->kind == OP_FOR))
			guard_block(f, op->home, false);
	}
}
