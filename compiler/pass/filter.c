/* Loops of chained products under a condition run through the iterations where it holds.
 *
 *     for %lo, %hi, %step, %acc do (%t, %a) {             %n = for %lo, %hi, %step, %0 do (%t, %c) {
 *         %on = ne (read %mask, %h, %t), 0                    %on = ne (read %mask, %h, %t), 0
 *         %s = if %on then {                                  yield %c + (select %on, 1, 0)
 *             %b = read %k, %t * 128 …                    }
 *             %d = dot … %b …                             for 0, %n, 1, %acc, %lo do (%i, %a, %from) {
 *             yield %d                              =>        %t = while %from (%x) { !%on of %x } do { %x + %step }
 *         } else { yield %a }                                 %b = read %k, %t * 128 …
 *         yield %s                                            %d = dot … %b …
 *     }                                                       yield %d, %t + %step
 *                                                         }
 *
 * Nothing is copied ahead under a condition, and products there wait for what they read: a mask of 128 x 128 blocks of
 * which half is on took 516 us on an H200 (b2 h16 s4096 d128), all of them without a mask 412.  The loop that is left has
 * no branch: it is parted into roles, of which each looks for its iterations.  As many are looked for as were counted, so
 * that each search ends inside the loop's bounds.
 *
 * The condition is made of scalars, and of what no op of the kernel writes; where it does not hold, nothing that the loop
 * carries changes. */
#include "ir/derive.h"
#include "pass/layout/dot.h"
#include "pass/pass.h"
#include "target/target.h"

#include <string.h>

typedef struct Pick {
	Func *f;
	Op *loop, *branch;
	Block *body;
	int taken;                                      /* the branch's region that multiplies */
	VEC(Op *) before;                               /* scalars in front of the branch */
} Pick;

/* ---- what there is to pick ---- */

static bool
is_carried(const Pick *p, const Value *v)
{
	return !v->def && v->block == p->body && v != &p->body->arg[0];
}

/* A scalar that can be computed again, for any iteration; a part of a condition may be computed under another (`&&`). */
static bool
is_scalar(const Pick *p, const Op *op)
{
	bool again = op_has(op, PURE) || op->kind == OP_IF ||
	    (op->kind == OP_READ && !tensor_may_be_written(p->f, op->in[0], p->f->body));
	if (!again || op->nout != 1 || (op->nregion && op->kind != OP_IF))
		return false;
	if (ANY_OF(i, op->nin, is_carried(p, op->in[i])))
		return false;
	for (int r = 0; r < op->nregion; r++)
		if (ANY_OP_HERE(in, op->region[r], in->kind == OP_YIELD ? is_carried(p, in->in[0]) : !is_scalar(p, in)))
			return false;
	const Type *t = op->out[0].type;
	return t->kind == TYPE_TILE && t->rank == 0;
}

/* The region that leaves everything as it was has nothing, and gives what the loop carries. */
static bool
changes_nothing(const Pick *p, int region)
{
	const Op *yield = p->branch->region[region]->last;
	if (p->branch->region[region]->first != yield)
		return false;
	for (int i = 0; i < p->loop->nout; i++) {
		const Value *v = p->body->last->in[i], *was = &p->body->arg[1 + i];
		bool chosen = v->def == p->branch;
		if (v != was && !(chosen && yield->in[v->index] == was))
			return false;
	}
	return true;
}

/* ---- conditions inside of others ---- */

/* The branch in the branch, behind scalars alone, that leaves everything as it was where it is not taken; NULL: none. */
static Op *
inner_branch(const Pick *p, int *taken)
{
	const Block *outer = p->branch->region[p->taken];
	Op *inner = outer->last->prev;
	if (!inner || inner->kind != OP_IF)
		return NULL;
	for (const Op *op = outer->first; op != inner; op = op->next)
		if (!is_scalar(p, op))
			return NULL;
	*taken = dots_are_chained(p->f, inner->region[0]) ? 0 : 1;
	const Block *other = inner->region[!*taken];
	bool nothing = other->first == other->last && !is_carried(p, inner->in[0]);
	for (int i = 0; i < p->branch->nout; i++) {
		const Value *v = outer->last->in[i], *was = p->branch->region[!p->taken]->last->in[i];
		nothing &= v == was || (v->def == inner && other->last->in[v->index] == was);
	}
	return nothing ? inner : NULL;
}

/* Do both conditions hold? */
static Value *
both_hold(const Pick *p, const Op *inner, int taken)
{
	Builder b = build_before(p->branch);
	Value **map = NEW_ARRAY(b.m->cx->tmp, Value *, p->f->nvalues), *condition = p->branch->in[0], *v = inner->in[0];
	Op *both = build_if(&b, condition, &condition, 1);
	Builder in = {.m = b.m, .block = both->region[p->taken], .place = b.place};
	for (const Op *op = p->branch->region[p->taken]->first; op != inner; op = op->next)
		op_clone(&in, op, map);
	v = value_mapped(map, v);
	if (taken == 1)
		v = build1(&in, OP_NOT, v, v->type);
	build_yield(&in, &v, 1);
	in.block = both->region[!p->taken];
	v = build_int(&in, condition->type, 0);
	build_yield(&in, &v, 1);
	return &both->out[0];
}

/* One branch by both conditions. */
static void
join_inner(Pick *p, Op *inner, int taken)
{
	Op *branch = p->branch;
	Block *outer = branch->region[p->taken], *from = inner->region[taken];
	op_set_in(branch, 0, both_hold(p, inner, taken));
	branch->region[p->taken] = branch->region[0];
	branch->region[0] = outer;
	p->taken = 0;
	for (int i = 0; i < inner->nout; i++)
		value_replace(&inner->out[i], from->last->in[i]);
	while (from->first != from->last)
		op_move(from->first, outer, inner);
	op_erase(inner);
	func_number(p->f);
}

/* Scalars, the branch and nothing else. */
static bool
find_branch(Pick *p, Arena *tmp)
{
	Op *op = p->body->first;
	for (; op->next != p->body->last && op->kind != OP_YIELD; op = op->next) {
		if (!is_scalar(p, op))
			return false;
		vec_push(tmp, &p->before, op);
	}
	p->branch = op;
	if (op->kind != OP_IF || is_carried(p, op->in[0]))
		return false;
	p->taken = dots_are_chained(p->f, op->region[0]) ? 0 : 1;
	if (!dots_are_chained(p->f, op->region[p->taken]) || !changes_nothing(p, !p->taken))
		return false;
	int taken;
	for (Op *inner = inner_branch(p, &taken); inner; inner = inner_branch(p, &taken)) {
		join_inner(p, inner, taken);
		vec_push(tmp, &p->before, op->prev);
	}
	return true;
}

/* ---- the new loops ---- */

/* Does the condition hold in the iteration of that index? */
static Value *
holds(const Pick *p, Builder *b, Value *index)
{
	Value **map = NEW_ARRAY(b->m->cx->tmp, Value *, p->f->nvalues), *v = p->branch->in[0];
	map[p->body->arg[0].id] = index;
	for (int i = 0; i < p->before.n; i++)
		op_clone(b, p->before.at[i], map);
	return value_mapped(map, v);
}

static Value *
build_count(const Pick *p, Builder *b)
{
	Value *zero = build_index(b, 0);
	Op *loop = build_for(b, p->loop->in, &zero, 1, NULL);
	Block *body = loop->region[0];
	Builder in = {.m = b->m, .block = body, .place = b->place};
	Value *on = holds(p, &in, &body->arg[0]), *counts = build_index(&in, p->taken == 0);
	Value *more = build3(&in, OP_SELECT, on, counts, build_index(&in, p->taken));
	Value *sum = build2(&in, OP_ADD, &body->arg[1], more);
	build_yield(&in, &sum, 1);
	loop->out[0].name = "picked";
	return &loop->out[0];
}

/* The first such iteration from `from` on. */
static Value *
build_search(const Pick *p, Builder *b, Value *from)
{
	Op *loop = build_while(b, &from, 1);
	Builder test = build_inside(loop, 0), next = build_inside(loop, 1);
	Value *on = holds(p, &test, &test.block->arg[0]), *goes_on = on;
	if (p->taken == 0)
		goes_on = build2(&test, OP_EQ, on, build_int(&test, on->type, 0));
	build_yield(&test, (Value *[]){goes_on, &test.block->arg[0]}, 2);
	Value *after = build2(&next, OP_ADD, &next.block->arg[0], p->loop->in[2]);
	build_yield(&next, &after, 1);
	return &loop->out[0];
}

static void
pick(Pick *p)
{
	Op *old = p->loop, *branch = p->branch;
	int n = old->nout;
	Builder b = build_before(old);
	Value **column = NEW_ARRAY(b.m->cx->tmp, Value *, n + 1);
	Value *bounds[] = {build_index(&b, 0), build_count(p, &b), build_index(&b, 1)};
	memcpy(column, old->in + 3, sizeof *column * (size_t)n);
	column[n] = old->in[0];
	Op *loop = build_for(&b, bounds, column, n + 1, NULL);
	Block *body = loop->region[0];
	Builder in = {.m = b.m, .block = body, .place = old->place};
	Value *index = build_search(p, &in, &body->arg[1 + n]);
	index->name = p->body->arg[0].name;
	Block *taken = branch->region[p->taken];
	value_replace(&p->body->arg[0], index);
	for (int i = 0; i < n; i++) {
		body->arg[1 + i].name = p->body->arg[1 + i].name;
		value_replace(&p->body->arg[1 + i], &body->arg[1 + i]);
	}
	for (int i = 0; i < n; i++) {
		Value *v = p->body->last->in[i];
		column[i] = v->def == branch ? taken->last->in[v->index] : v;
	}
	for (int i = 0; i < p->before.n; i++)
		op_move(p->before.at[i], body, NULL);
	while (taken->first != taken->last)
		op_move(taken->first, body, NULL);
	column[n] = build2(&in, OP_ADD, index, old->in[2]);
	build_yield(&in, column, n + 1);
	op_replace(old, loop);
}

void
pass_filter(Func *f, const Target *t)
{
	Arena *tmp = f->module->cx->tmp;
	if (!(t->has & HAS_WGMMA) || !(t->has & HAS_TMA))
		return;
	for (Op *op = f->body->first, *next; op; op = next) {
		Pick p = {.f = f, .loop = op, .body = op->kind == OP_FOR ? op->region[0] : NULL};
		next = op_after(op, f->body);
		if (!p.body || !loop_steps_up(op))
			continue;
		func_number(f);
		if (!find_branch(&p, tmp))
			continue;
		next = op->next;
		pick(&p);
	}
}
