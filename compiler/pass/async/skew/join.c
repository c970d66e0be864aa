/* Programs of skewed loops run into each other: the next program's first products start before this one's last ones, and
 * its first iteration's part 1 stands beside them (skew.c).
 *
 *     for %p, … do (%now) {                        for %p, … do (%now, %pending, %ahead) {
 *         await queries                                %x = if %pending { yield %ahead } else {
 *         if any trip {                                    await queries
 *             await; dot_start; dot_wait; %x = …           await; dot_start; dot_wait; yield …      (if any trip)
 *             for … %x …                               }
 *             await; %e = dot_start                    if any trip {
 *             dot_wait %e                                  for … %x …
 *         }                                                %joined = there is a next program, which has a trip
 *         write %e                                         if %joined {
 *         yield %now                        =>                 await its queries
 *     }                                                        await; %s = dot_start                of the next program
 *                                                              await; %e = dot_start                of this one
 *                                                              dot_wait %s {left = 1};  … %s        the next one's softmax
 *                                                              dot_wait %e
 *                                                          } else { await; %e = dot_start; dot_wait %e }
 *                                                      }
 *                                                      write %e
 *                                                      yield %now, %joined, …
 *                                                  }
 *
 * The producer is the same without products: it copies what the next program begins with before this one's last tile.
 * Both decide by the program's number alone, so that they agree.  Integers of the program (of which its indices are
 * computed by divisions) are carried by the consumers, and computed again by the producer, which has few registers; tiles
 * are computed again where they follow from a few words of a thread. */
#include "pass/async/skew/skew.h"

#include <string.h>

enum { FEW_WORDS = 4 };                                 /* of a thread: a row's maxima and sums */

typedef struct Join {
	Module *m;
	Arena *tmp;
	Func *f;
	bool multiplies;                                /* the consumers, else the producer */
	Op *programs;                                   /* the loop over them */
	Op *branch, *trips;                             /* in it: has the program a trip?  Its loop */
	bool *ahead;                                    /* by Value.id: made before the loop of a program */
	bool *varies;                                   /* follows from the program's number */
	bool *seen, *remade;                            /* needed behind that; computed again there */
	VEC(Value *) carried;                           /* the others */
} Join;

/* ---- which loops ---- */

static Block *
body_of(const Join *j)
{
	return j->programs->region[0];
}

/* Computes, or reads what the kernel does not write. */
static bool
is_plain(const Join *j, const Op *op)
{
	bool reads = op->kind == OP_READ && access_is_tensor(op) && !tensor_may_be_written(j->f, op->in[0], j->f->body);
	return op_has(op, PURE) || op->kind == OP_YIELD || reads;
}

/* What may be done for the next program before this one is over. */
static bool
may_go_ahead(const Join *j, const Op *op)
{
	if (op->nregion)
		return op->kind == OP_IF && ALL_OF(r, 2, !ANY_OP(in, op->region[r], !is_plain(j, in)));
	if (op->kind == OP_AWAIT)
		return op->in[0]->type->slots > 1;      /* this program gives its own slot back later */
	return is_plain(j, op) || op->kind == OP_ARRIVE || op->kind == OP_EXPECT || op->kind == OP_PROXY_FENCE ||
	    op->kind == OP_GET || op->kind == OP_DOT_START || op->kind == OP_DOT_WAIT || op_is_bulk_copy(op);
}

/* The one branch around the one loop of the program. */
static bool
find_branch(Join *j)
{
	for (Op *op = body_of(j)->first; op; op = op->next) {
		if (!ANY_OF(r, op->nregion, ANY_OP(in, op->region[r], in->kind == OP_FOR || in->kind == OP_WHILE)) &&
		    op->kind != OP_FOR && op->kind != OP_WHILE)
			continue;
		if (j->branch || op->kind != OP_IF)
			return false;
		j->branch = op;
	}
	for (Op *op = j->branch ? j->branch->region[0]->first : NULL; op; op = op->next)
		if (op->kind == OP_FOR && !j->trips)
			j->trips = op;
		else if (!may_go_ahead(j, op))
			return false;
	return j->trips && !ANY_OP(op, j->branch->region[1], op->kind != OP_YIELD && !op_has(op, PURE));
}

static bool
multiplies(const Op *from, const Op *to)
{
	bool starts = false, waits = false;
	for (const Op *op = from; op != to; op = op->next) {
		starts |= op->kind == OP_DOT_START;
		waits |= op->kind == OP_DOT_WAIT;
	}
	return starts && waits;
}

static const Op *
first_wait(const Op *from, const Op *to)
{
	const Op *op = from;
	while (op != to && op->kind != OP_DOT_WAIT)
		op = op->next;
	return op;
}

/* Does v follow from what the loop over programs carries, and, `behind` the loop of trips, from its results, by ops without
 * effects? */
static bool
is_computed(const Join *j, const Value *v, bool behind)
{
	if (!value_inside(v, body_of(j)) || !v->def || (behind && v->def == j->trips))
		return true;
	if (behind && v->def == j->branch)
		return is_computed(j, j->branch->region[0]->last->in[v->index], true);
	return op_has(v->def, PURE) && v->def->nregion == 0 &&
	    ALL_OF(i, v->def->nin, is_computed(j, v->def->in[i], behind));
}

/* Has part 1 tiles besides what its products give and masks in branches, as distances or a dropout's numbers?  They are in
 * registers beside both programs' products: ptxas spills, and five such kernels took an H200 1.01 to 1.05 of their time. */
static bool
has_other_tiles(const Join *j)
{
	bool *follows = NEW_ARRAY(j->tmp, bool, j->f->nvalues);
	for (const Op *op = j->branch->region[0]->first; op != j->trips; op = op->next) {
		bool behind = op->nregion || op->kind == OP_DOT_START || op_uses_slice(op, follows);
		op_extend_slice(op, follows, behind);
		if (op->nout && op_has(op, ELEM) && op->nin && !behind && skew_held_words(&op->out[0]) > FEW_WORDS)
			return true;
	}
	return false;
}

static void
mark_ahead(Join *j, const Op *from, const Op *to)
{
	for (const Op *op = from; op != to; op = op->next) {
		bool varies = op_uses_slice(op, j->varies);
		for (int i = 0; i < op->nout; i++) {
			j->ahead[op->out[i].id] = true;
			j->varies[op->out[i].id] = varies;
		}
	}
}

/* ---- what is carried ---- */

static bool
is_few(const Value *v)
{
	return v->type->kind == TYPE_TILE && skew_held_words(v) <= FEW_WORDS;
}

static bool
is_remade(const Join *j, const Value *v)
{
	const Op *def = v->def;
	bool all = true, few = true;
	if (!op_has(def, PURE) || def->nregion)
		return false;
	for (int i = 0; i < def->nin; i++) {
		bool made = !j->ahead[def->in[i]->id] || is_remade(j, def->in[i]);
		all &= made;
		few &= made || is_few(def->in[i]);
	}
	if (def->kind == OP_SLOT)
		return few;
	return is_few(v) ? all && !(j->multiplies && j->varies[v->id]) : few;
}

static void
need(Join *j, Value *v)
{
	if (!j->ahead[v->id] || j->seen[v->id])
		return;
	j->seen[v->id] = true;
	j->remade[v->id] = is_remade(j, v);
	if (!j->remade[v->id])
		vec_push(j->tmp, &j->carried, v);
	for (int i = 0; j->remade[v->id] && i < v->def->nin; i++)
		need(j, v->def->in[i]);
}

static void
need_all(Join *j, const Block *b, const Op *from)
{
	for (const Op *op = from; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++)
			need(j, op->in[i]);
}

static bool
find_carried(Join *j)
{
	const Block *then = j->branch->region[0];
	need(j, j->branch->in[0]);
	need_all(j, then, j->trips);
	need_all(j, j->branch->region[1], j->branch->region[1]->first);
	need_all(j, body_of(j), j->branch->next);
	return ALL_OF(i, j->carried.n, j->carried.at[i]->type->kind == TYPE_TILE);
}

static bool
find(Join *j, const Block *role)
{
	j->programs = FIND_OP_HERE(op, role, op_is_over_programs(op) && !attr_dynamic(op));
	if (!j->programs || !find_branch(j))
		return false;
	const Block *body = body_of(j), *then = j->branch->region[0];
	for (const Op *op = body->first; op != j->branch; op = op->next)
		if (!may_go_ahead(j, op) || op->kind == OP_DOT_START)
			return false;
	if (j->multiplies && !(multiplies(then->first, j->trips) && multiplies(j->trips->next, NULL)))
		return false;
	for (const Op *op = first_wait(then->first, j->trips); op != j->trips && j->multiplies; op = op->next)
		if (op->kind == OP_AWAIT)
			return false;                   /* the loop's first tile, which comes when this program is over */
	for (const Op *op = j->branch->next; op; op = op_after(op, body))
		if (op->kind == OP_AWAIT || op->kind == OP_EXPECT || op->kind == OP_DOT_START)
			return false;                   /* it has slots or products of its own */
	if (!is_computed(j, j->branch->in[0], false) ||
	    !ALL_OF(i, j->programs->nout, is_computed(j, body->last->in[i], true)))
		return false;
	func_number(j->f);
	bool **map[] = {&j->ahead, &j->varies, &j->seen, &j->remade};
	for (int i = 0; i < 4; i++)
		*map[i] = NEW_ARRAY(j->tmp, bool, j->f->nvalues);
	j->varies[body->arg[0].id] = true;
	mark_ahead(j, body->first, j->branch);
	mark_ahead(j, then->first, j->trips);
	return !(j->multiplies && has_other_tiles(j)) && find_carried(j);
}

/* ---- the loop as it becomes ---- */

static Value **
new_map(const Join *j, Value *const *like)
{
	Value **map = NEW_ARRAY(j->tmp, Value *, j->f->nvalues);
	if (like)
		memcpy(map, like, sizeof *map * (size_t)j->f->nvalues);
	return map;
}

/* Nothing reads it. */
static Value *
any_value(Builder *b, const Value *like)
{
	return value_with_layout(build_int(b, like->type, 0), like->layout);
}

/* Ops that have no copy yet. */
static void
clone_ops(Builder *b, const Op *from, const Op *to, Value **map)
{
	for (const Op *op = from; op != to; op = op->next)
		if (op->kind != OP_YIELD && !(op->nout && map[op->out[0].id]))
			op_clone(b, op, map);
}

/* v, computed here: of the branch's results those behind the loop of trips. */
static Value *
compute(const Join *j, Builder *b, Value *v, Value **map)
{
	if (map[v->id] || !value_inside(v, body_of(j)))
		return value_mapped(map, v);
	if (v->def == j->branch)
		return map[v->id] = compute(j, b, j->branch->region[0]->last->in[v->index], map);
	for (int i = 0; i < v->def->nin; i++)
		compute(j, b, v->def->in[i], map);
	op_clone(b, v->def, map);
	return map[v->id];
}

/* Effects, with what they need. */
static void
clone_effects(const Join *j, Builder *b, const Op *from, const Op *to, Value **map)
{
	for (const Op *op = from; op != to; op = op->next) {
		for (int i = 0; i < op->nin && !op_has(op, PURE); i++)
			compute(j, b, op->in[i], map);
		if (!op_has(op, PURE))
			op_clone(b, op, map);
	}
}

/* Ops without effects that have no copy yet. */
static void
clone_rest(Builder *b, const Op *from, const Op *to, Value **map)
{
	for (const Op *op = from; op != to; op = op->next)
		if (op_has(op, PURE) && !map[op->out[0].id])
			op_clone(b, op, map);
}

/* This program's last part beside the next one's first, of which what products and copies need comes before them.  The wait
 * for the last products' slots is done twice, as in the loop. */
static void
interleave(const Join *j, Builder *b, Value **map, Value **next)
{
	const Block *body = body_of(j), *then = j->branch->region[0];
	const Op *begun = first_wait(then->first, j->trips), *last = first_wait(j->trips->next, then->last);
	clone_effects(j, b, body->first, j->branch, next);
	clone_effects(j, b, then->first, begun, next);
	clone_effects(j, b, j->trips->next, last, map);
	clone_rest(b, body->first, j->branch, next);
	clone_rest(b, then->first, begun, next);
	clone_ops(b, begun, j->trips, next);
	clone_rest(b, j->trips->next, last, map);
	for (const Op *op = j->trips->next; op != last && j->multiplies; op = op->next)
		if (op->kind == OP_AWAIT)
			op_clone(b, op, map);
	clone_ops(b, last, then->last, map);
	warpgroup_leave(j->m, b->block);
}

static void
yield_end(const Join *j, Builder *b, Value *const *map, Value *const *next)
{
	const Op *old = j->branch->region[0]->last;
	int n = old->nin;
	Value **out = NEW_ARRAY(j->tmp, Value *, n + j->carried.n);
	for (int i = 0; i < n; i++)
		out[i] = value_mapped(map, old->in[i]);
	for (int i = 0; i < j->carried.n; i++)
		out[n + i] = next ? value_mapped(next, j->carried.at[i]) : any_value(b, j->carried.at[i]);
	build_yield(b, out, n + j->carried.n);
}

/* Behind the loop of trips: the end of this program, and the start of the next one if that has a trip. */
static void
make_end(const Join *j, Builder *b, const Op *programs, Value **map)
{
	const Op *old = j->branch->region[0]->last;
	const Block *body = body_of(j);
	int n = old->nin, all = n + j->carried.n;
	Value **next = new_map(j, NULL), **at = new_map(j, map), **like = NEW_ARRAY(j->tmp, Value *, all + 1);
	Value *now = &programs->region[0]->arg[0], *later = build2(b, OP_ADD, now, programs->in[2]);
	Value *exists = build2(b, OP_LT, later, programs->in[1]);
	next[body->arg[0].id] = build3(b, OP_SELECT, exists, later, now);       /* places behind the grid divide by 0 */
	for (int i = 0; i < j->programs->nout; i++)
		next[body->arg[1 + i].id] = compute(j, b, body->last->in[i], at);
	Value *joined = build2(b, OP_AND, exists, compute(j, b, j->branch->in[0], next));
	joined->name = "joined";
	for (int i = 0; i < all; i++)
		like[i] = i < n ? old->in[i] : j->carried.at[i - n];
	Op *end = build_if(b, joined, like, all);
	Builder both = build_inside(end, 0), alone = build_inside(end, 1);
	Value **own = new_map(j, map);
	interleave(j, &both, own, next);
	yield_end(j, &both, own, next);
	own = new_map(j, map);
	clone_ops(&alone, j->trips->next, old, own);
	yield_end(j, &alone, own, NULL);
	for (int i = 0; i < all; i++)
		like[i < n ? i : i + 1] = &end->out[i];
	like[n] = joined;
	build_yield(b, like, all + 1);
}

/* What the program before has left, or the start of this program. */
static void
make_start(const Join *j, Builder *b, Value *pending, Value *const *left, Value **map)
{
	const Block *then = j->branch->region[0];
	int n = j->carried.n;
	Value **out = NEW_ARRAY(j->tmp, Value *, n), **own = new_map(j, map);
	Op *start = build_if(b, pending, j->carried.at, n);
	Builder kept = build_inside(start, 0), made = build_inside(start, 1);
	build_yield(&kept, left, n);
	clone_ops(&made, body_of(j)->first, j->branch, own);
	Op *first = build_if(&made, value_mapped(own, j->branch->in[0]), j->carried.at, n);
	Builder any = build_inside(first, 0), none = build_inside(first, 1);
	clone_ops(&any, then->first, j->trips, own);
	for (int i = 0; i < n; i++)
		out[i] = value_mapped(own, j->carried.at[i]);
	build_yield(&any, out, n);
	for (int i = 0; i < n; i++)
		out[i] = j->carried.at[i]->def->home == then ? any_value(&none, j->carried.at[i]) : out[i];
	build_yield(&none, out, n);
	for (int i = 0; i < n; i++)
		out[i] = &first->out[i];
	build_yield(&made, out, n);
	for (int i = 0; i < n; i++)
		map[j->carried.at[i]->id] = &start->out[i];
}

static void
remake(const Join *j, Builder *b, const Op *from, const Op *to, Value **map)
{
	for (const Op *op = from; op != to; op = op->next)
		if (op->nout && j->seen[op->out[0].id] && j->remade[op->out[0].id])
			op_clone(b, op, map);
}

static Op *
make_branch(const Join *j, Builder *b, const Op *programs, Value **map)
{
	const Op *old = j->branch;
	int n = old->nout, all = n + 1 + j->carried.n;
	Value **like = NEW_ARRAY(j->tmp, Value *, all);
	for (int i = 0; i < all; i++)
		like[i] = i < n ? &old->out[i] : &programs->region[0]->arg[1 + j->programs->nout + i - n];
	Op *branch = build_if(b, value_mapped(map, old->in[0]), like, all);
	Builder in = build_inside(branch, 0), none = build_inside(branch, 1);
	Value **own = new_map(j, map);
	op_clone(&in, j->trips, own);
	make_end(j, &in, programs, own);
	own = new_map(j, map);
	clone_ops(&none, old->region[1]->first, NULL, own);
	for (int i = 0; i < n; i++)
		like[i] = value_mapped(own, old->region[1]->last->in[i]);
	for (int i = n; i < all; i++)
		like[i] = any_value(&none, like[i]);
	build_yield(&none, like, all);
	for (int i = 0; i < n; i++)
		map[old->out[i].id] = &branch->out[i];
	return branch;
}

static void
join(const Join *j)
{
	Op *old = j->programs;
	const Block *body = body_of(j);
	int n = old->nout, all = n + 1 + j->carried.n;
	Builder b = build_before(old);
	Value **init = NEW_ARRAY(j->tmp, Value *, all), **map = new_map(j, NULL);
	for (int i = 0; i < all; i++)
		init[i] = i < n ? old->in[3 + i] : i == n ? build_int(&b, j->branch->in[0]->type, 0) :
		    any_value(&b, j->carried.at[i - n - 1]);
	Op *programs = build_for(&b, old->in, init, all, old);
	Value *arg = programs->region[0]->arg;
	for (int i = 0; i < 1 + n; i++) {
		map[body->arg[i].id] = &arg[i];
		arg[i].name = body->arg[i].name;
	}
	arg[1 + n].name = "pending";
	Builder in = {.m = j->m, .block = programs->region[0], .place = old->place};
	Value **left = MAP_OF(j->tmp, Value *, i, j->carried.n, &arg[2 + n + i]);
	make_start(j, &in, &arg[1 + n], left, map);
	remake(j, &in, body->first, j->branch, map);
	remake(j, &in, j->branch->region[0]->first, j->trips, map);
	const Op *branch = make_branch(j, &in, programs, map);
	clone_ops(&in, j->branch->next, NULL, map);
	for (int i = 0; i < n; i++)
		init[i] = value_mapped(map, body->last->in[i]);
	for (int i = n; i < all; i++)
		init[i] = (Value *)&branch->out[j->branch->nout + i - n];
	build_yield(&in, init, all);
	op_replace(old, programs);
}

/* Left operands that only the loop of trips reads, registers since skew_hold.c, stay in their slots: they would be in
 * registers beside the products of both programs.  Is there one? */
static bool
drop_held(const Join *j)
{
	bool any = false;
	for (Op *op = j->branch->region[0]->first, *next; op != j->trips; op = next) {
		next = op->next;
		const Value *v = op->nout ? &op->out[0] : NULL;
		if (op->kind != OP_GET || value_uses_in(v, j->trips->region[0]) != v->nuses)
			continue;
		value_replace(&op->out[0], op->in[0]);
		op_erase(op);
		any = true;
	}
	return any;
}

void
pass_join(Func *f, const Target *t)
{
	const Op *roles = func_find(f, OP_ROLES);
	Module *m = f->module;
	(void)t;
	if (!roles || attr_copies(roles)->at[1] != 1)
		return;
	Join producer = {.m = m, .tmp = m->cx->tmp, .f = f}, consumer = producer;
	consumer.multiplies = true;
	if (!find(&producer, roles->region[0]) || !find(&consumer, roles->region[1]))
		return;
	if (drop_held(&consumer)) {
		consumer = (Join){.m = m, .tmp = m->cx->tmp, .f = f, .multiplies = true};
		find(&consumer, roles->region[1]);
	}
	join(&consumer);
	join(&producer);
	f->few_programs = f->few_joined;
}
