/* Gives every tile a layout so that the work is least: loads and stores stay coalesced where that pays, dots have the
 * fragments that their instruction asks for, and conversions stand where they are cheapest, if they must be.
 *
 *     %v = read %x … : f32[32, 64] #0           %v = read %x … : f32[32, 64] #0
 *     %t = permute %v : f32[64, 32]        =>   %t = permute %v : f32[64, 32] #1
 *     %o = convert %t : f32[64, 32] #2          %o = convert %t : f32[64, 32] #2
 *     write %y … %o                             write %y … %o
 *
 * Every op has one layout to choose, its anchor (anchor.h); so has every value carried through a loop.  First the preferred
 * layouts of accesses and dots propagate to connected values, the heaviest first.  Then, at each edge between two choices
 * that differ, the pass tries to extend either one to the other side, backwards, forwards or both ways, and keeps what
 * makes the whole cheaper (assign_cost.c).  Memory ops may lose their preferred layout, dots may not; nor may reads that
 * loops stage in shared memory, from where any other layout costs no conversion. */
#include "pass/layout/assign.h"

#include <string.h>

enum { ROUNDS = 6, CACHE_SIZE = 1024, EFFORT = 4000000 };

/* Bytes that an op moves, as often as it runs; dots before everything. */
static double
priority(const Var *x)
{
	const Type *t = anchor_type(x->op);
	double bytes = (double)type_count(t) * dtype_info[t->elem].bits / 8;
	return (x->hard && x->op->kind == OP_DOT ? 1e12 : 1) * bytes * x->weight;
}

/* Propagates preferred layouts to all that has no layout yet, the most important first; then the rest. */
static void
spread_preferred(Assign *a)
{
	bool *done = NEW_ARRAY(a->tmp, bool, a->vars.n);
	a->only_unset = true;
	for (int i = 0; i < a->vars.n; i++)
		if (a->vars.at[i].hard)
			a->vars.at[i].layout = a->vars.at[i].preferred;
	for (;;) {
		int best = -1;
		double most = -1;
		for (int i = 0; i < a->vars.n; i++) {
			const Var *x = &a->vars.at[i];
			if (!done[i] && x->op && x->preferred && (x->hard || !x->layout) && priority(x) > most) {
				best = i;
				most = priority(x);
			}
		}
		if (best < 0)
			break;
		done[best] = true;
		assign_flood(a, best, a->vars.at[best].preferred, FLOOD_BACK | FLOOD_FORWARD);
	}
	for (int i = 0; i < a->vars.n; i++)
		if (!a->vars.at[i].layout && a->vars.at[i].op)
			assign_flood(a, i, default_layout(a, anchor_type(a->vars.at[i].op)), FLOOD_BACK | FLOOD_FORWARD);
	for (int i = 0; i < a->f->nvalues; i++) {
		int v = a->note[i].var, e = a->note[i].edges;
		if (v >= 0 && e < 0 && a->vars.at[v].nedge) /* a branch's result without uses: as what is yielded */
			e = a->vars.at[v].first;
		if (v >= 0 && !a->vars.at[v].layout && e >= 0)
			assign_flood(a, v, default_layout(a, a->edges.at[e].value->type), FLOOD_FORWARD);
	}
	a->only_unset = false;
}

static void
save(const Assign *a, const Layout **to)
{
	for (int i = 0; i < a->vars.n; i++)
		to[i] = a->vars.at[i].layout;
}

static void
restore(Assign *a, const Layout *const *from)
{
	for (int i = 0; i < a->vars.n; i++)
		a->vars.at[i].layout = from[i];
}

typedef struct Search {
	Assign *a;
	const Layout **now;
	double cost;
	int64_t effort;
} Search;

/* Keeps the layouts as they are if they cost less than before. */
static bool
accept(Search *s)
{
	double cost = assign_cost(s->a);
	s->effort += s->a->vars.n + s->a->edges.n;
	if (cost < s->cost * (1 - 1e-9)) {
		s->cost = cost;
		save(s->a, s->now);
		return true;
	}
	restore(s->a, s->now);
	return false;
}

static bool
try_flood(Search *s, int var, const Layout *l)
{
	bool better = false;
	if (!l || s->a->vars.at[var].hard || s->a->vars.at[var].layout == l)
		return false;
	for (int ways = 0; ways <= (FLOOD_BACK | FLOOD_FORWARD); ways++) {
		assign_flood(s->a, var, l, ways);
		better |= accept(s);
	}
	return better;
}

/* What each thread of a reduction that warps divide reads where the result lies as `want`: the states of its elements of
 * that, in registers.  Else each warp reads those of all elements. */
static const Layout *
anchor_of_states(const Assign *a, const Var *x, const Layout *want)
{
	int axis = (int)attr_axis(x->op), bits = 0;

	if (!x->layout || want->rank + 1 > LAYOUT_RANK)
		return NULL;
	int at = layout_out_at(x->layout, axis), all = x->layout->out[axis];
	for (int i = 0; i < x->layout->in[IN_WARP]; i++) {
		uint64_t image = x->layout->map.col[layout_in_at(x->layout, IN_WARP) + i];
		bits += (image >> at & ((UINT64_C(1) << all) - 1)) != 0;
	}
	Layout l = layout_expand(want, axis);
	l = layout_stack(&l, axis, all);
	return all > 0 && bits == all ? layout_intern(a->m, &l) : NULL;
}

static const Layout *
anchor_for(const Assign *a, int var, int result, const Layout *want)
{
	const Var *x = &a->vars.at[var];

	if (!x->op)
		return want;
	return x->op->kind == OP_REDUCE ? anchor_of_states(a, x, want) : anchor_of_result(x->op, result, want);
}

static bool
try_edge(Search *s, Edge *e)
{
	Assign *a = s->a;
	const Layout *have = assign_value_layout(a, e->value), *want = assign_required(a, e);
	if (!have || !want || have == want)
		return false;
	int from = a->note[e->value->id].var;
	bool better = try_flood(s, from, anchor_for(a, from, e->value->index, want));
	have = assign_value_layout(a, e->value);
	if (have != assign_required(a, e))
		better |= try_flood(s, e->user, e->tie ? have : anchor_of_operand(e->op, e->index, have));
	return better;
}

/* Is it made of one tile that memory gives, element by element? */
static bool
is_of_memory(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth > 8 || op->nin == 0)
		return false;
	if (op->kind == OP_READ || op->kind == OP_LOAD)
		return true;
	bool moves = op_has(op, ELEM) || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE;
	return moves && is_of_memory(op->in[0], depth + 1);
}

/* The coordinates along which a reduction goes, and those that follow it of what it gives. */
static uint64_t
reduced_along(const Op *op, const Layout *l)
{
	int dim[LAYOUT_RANK];
	uint64_t along = 0;
	for (int d = 0; d < l->rank; d++)
		dim[d] = d;
	for (int rank = l->rank; op; rank--) {
		int axis = (int)attr_axis(op);
		along |= ((UINT64_C(1) << l->out[dim[axis]]) - 1) << layout_out_at(l, dim[axis]);
		memmove(dim + axis, dim + axis + 1, sizeof *dim * (size_t)(rank - axis - 1));
		const Op *next = FIND_NEXT(o, op->nout == 1 && op->out->nuses == 1 ? op->home->first : NULL,
		    o->next, o->kind == OP_REDUCE && o->in[0] == op->out);
		op = next;
	}
	return along;
}

/* The layout of reductions along short axes, as of a pooling's window, in which threads hold what they reduce: bits of
 * lanes and warps that move along it change places with those of registers that do not, the slowest first. */
static const Layout *
anchor_in_registers(const Assign *a, const Var *x)
{
	enum { SHORT = 4 };                              /* log2 of a window: 4 x 4 */
	if (!x->op || x->op->kind != OP_REDUCE || !x->layout || !is_of_memory(x->op->in[0], 0))
		return NULL;
	Layout l = *x->layout;
	uint64_t along = reduced_along(x->op, &l);
	int held[F2_MAX], nheld = 0, moves = 0, regs = l.in[IN_REGISTER];
	for (int i = 0; i < l.map.nin && __builtin_popcountll(along) <= SHORT; i++)
		if (i >= regs)
			moves += (l.map.col[i] & along) != 0;
		else if (!(l.map.col[i] & along))
			held[nheld++] = i;
	int to = MAX(nheld - moves, 0);
	for (int i = regs; i < l.map.nin && to < nheld; i++) {
		uint64_t moved = l.map.col[i];
		if (!(moved & along))
			continue;
		l.map.col[i] = l.map.col[held[to]];
		l.map.col[held[to++]] = moved;
	}
	return layout_intern(a->m, &l);
}

static void
improve(Assign *a)
{
	Search s = {.a = a, .now = NEW_ARRAY(a->tmp, const Layout *, a->vars.n)};
	bool better = true;
	save(a, s.now);
	s.cost = assign_cost(a);
	for (int round = 0; round < ROUNDS && better && s.effort < EFFORT; round++) {
		better = false;
		for (int i = 0; i < a->edges.n && s.effort < EFFORT; i++)
			better |= try_edge(&s, &a->edges.at[i]);
		for (int i = 0; i < a->vars.n && s.effort < EFFORT; i++) {
			better |= try_flood(&s, i, a->vars.at[i].preferred);
			better |= try_flood(&s, i, anchor_in_registers(a, &a->vars.at[i]));
			if (a->vars.at[i].record) {     /* one conversion for all that take it apart */
				assign_flood_uses(a, i, a->vars.at[i].record);
				better |= accept(&s);
			}
		}
	}
}

/* Every access gets the vector that its layout and what is known of its addresses allow. */
static void
set_vectors(Func *f, const Target *t)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Value *data = op->kind == OP_ATOMIC ? &op->out[0] : access_tile(op);
		if (data && data->layout && op->kind != OP_ATOMIC_PTR)
			attr_set_vector(f->module, op, access_vector(op, data->layout, t));
	}
}

/* Products by warpgroups of what is in memory; groups of warps may run two chained ones apart, which pass drain leaves. */
static bool
has_warpgroups(const Func *f)
{
	bool any = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_one = op->kind == OP_DOT && wgmma_named(attr_mma(op));
		if (is_one && attr_register_a(op))
			return false;
		any |= is_one;
	}
	return any;
}

void
pass_assign(Func *f, const Target *t)
{
	Assign a = {.m = f->module, .f = f, .t = t, .tmp = f->module->cx->tmp, .lanes = log2_ceil(t->lanes),
	    .warps = log2_ceil(MAX(f->schedule.warps, 1)), .warpgroups = has_warpgroups(f)};
	a.cache = NEW_ARRAY(a.tmp, CostEntry, CACHE_SIZE);
	a.has_rings = a.warpgroups && (f->schedule.specialize == 1 || f->schedule.persistent == 1);
	axis_keep(f);
	set_vectors(f, t);                              /* those of preferred layouts */
	assign_collect(&a);
	spread_preferred(&a);
	improve(&a);
	assign_write(&a);
	set_vectors(f, t);
}
