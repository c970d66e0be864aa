/* The graph of a function: the layouts to choose, and an edge between each two that should agree.
 *
 *     %s = for …, %x : f32[64] do (%i: i64, %c: f32[64]) {    one unknown for %s, %c, and what is yielded
 *         %v = read …                                         one for the read
 *         %r = add %c, %v                                     one for the addition, with edges to both operands
 *         yield %r                                            an edge from the carried value to the addition
 *     }
 *
 * Cheap values (constants, iota, spread scalars and short arithmetic on these) are no unknowns: they are
 * rematerialised in whatever layout a use has. */
#include "pass/async/pipeline.h"
#include "pass/layout/assign.h"

enum { REMAT_MOST = 14, LIST_MOST = 8, LIST_OPS = 64, TRIPS_GUESS = 16, WEIGHT_MOST = 1 << 16 };

const Layout *
default_layout(const Assign *a, const Type *t)
{
	int shape[LAYOUT_RANK] = {0}, total = layout_shape(t->rank, t->extent, shape);
	int spare = MAX(total - a->lanes - a->warps, 0), vector = MIN(MIN(spare, 2), t->rank ? shape[t->rank - 1] : 0);
	Layout l = layout_coalesced(t->rank, shape, layout_last_first(t->rank), vector, a->lanes, a->warps);
	return layout_intern(a->m, &l);
}

const Layout *
assign_value_layout(const Assign *a, const Value *v)
{
	int var = a->note[v->id].var;
	const Var *x = var < 0 ? NULL : &a->vars.at[var];
	if (!x || !x->layout || !x->op)
		return x ? x->layout : NULL;
	ValueNote *n = &a->note[v->id];
	if (n->place != x->layout) {
		n->place = x->layout;
		n->layout = anchor_result(x->op, x->layout, v->index);
	}
	return n->layout;
}

const Layout *
assign_required(const Assign *a, Edge *e)
{
	const Var *x = &a->vars.at[e->user];
	if (!x->layout || e->tie)
		return x->layout;
	if (e->place != x->layout) {
		e->place = x->layout;
		e->required = anchor_operand(e->op, x->layout, e->index);
	}
	return e->required;
}

/* Operations that rematerialise the value; 0: it is not cheap. */
static int
op_remat_cost(const Op *op)
{
	bool is_int = op->nout > 0 && dtype_is_int(op->out[0].type->elem);
	switch (op_info[op->kind].cost) {
	case COST_FREE:
		return 1;
	case COST_ALU:
		return op_has(op, ELEM);
	case COST_DIVIDE: case COST_LONG:
		return is_int ? 6 : 0;
	case COST_SFU: case COST_ACCESS: case COST_WHOLE: case COST_NONE: case COST_OPAQUE:
		return 0;
	}
	unreachable();
}

/* A list's numbers, chosen by halves (sema/index/list.c): of so few, where registers hold them, ops on constants. */
static bool
is_listed(const Value *v, int *left)
{
	const Op *op = v->def;
	if (!op || --*left < 0 || v->type->rank != 1 || v->type->extent[0] > LIST_MOST)
		return false;
	return op->kind == OP_CONST || op->kind == OP_IOTA ||
	    (op_has(op, ELEM) && op->nout == 1 && ALL_OF(i, op->nin, is_listed(op->in[i], left)));
}

static int
remat_cost(const Assign *a, const Value *v)
{
	int left = LIST_OPS;
	if (is_listed(v, &left))
		return 1;
	const Op *op = v->def;
	int sum = op && value_is_placed(v) ? op_remat_cost(op) : 0;
	if (sum == 0)
		return 0;
	for (int i = 0; i < op->nin; i++) {
		if (!value_is_placed(op->in[i]))
			continue;
		int part = a->note[op->in[i]->id].cheap;
		if (part == 0)
			return 0;
		sum += part;
	}
	return sum <= REMAT_MOST ? sum : 0;
}

/* How often a block runs, roughly. */
static double
block_weight(const Block *b)
{
	double w = 1;
	for (const Op *op = b->parent; op; op = op->home->parent) {
		if (!op_is_loop(op))
			continue;
		double trips = TRIPS_GUESS;
		int64_t lo, hi, step;
		if (op->kind == OP_FOR && value_int(op->in[0], &lo) && value_int(op->in[1], &hi) &&
		    value_int(op->in[2], &step))
			trips = step > 0 && hi > lo ? (double)((hi - lo) / step) : 1;
		w *= MIN(MAX(trips, 1), 256);
	}
	return MIN(w, WEIGHT_MOST);
}

static int
add_var(Assign *a, Op *op, double weight)
{
	Var v = {.op = op, .weight = weight, .first = a->edges.n};
	v.drains = op && a->warpgroups && drain_serves(a->f, a->t, op);
	v.defers = op && defer_serves(op);
	vec_push(a->tmp, &a->vars, v);
	return a->vars.n - 1;
}

static void
add_edge(Assign *a, Value *v, Op *op, int index, int user, bool tie)
{
	if (!value_is_placed(v))
		return;
	ValueNote *n = &a->note[v->id];
	Edge e = {.value = v, .op = op, .index = index, .user = user, .tie = tie, .next = n->edges};
	n->edges = a->edges.n;
	vec_push(a->tmp, &a->edges, e);
}

static void
note_value(Assign *a, Value *v, int var, double weight)
{
	ValueNote *n = &a->note[v->id];
	n->var = var;
	n->weight = weight;
}

static void
note_args(Assign *a, Block *b, int first, const int *var)
{
	double w = block_weight(b);
	for (int i = first; i < b->narg; i++)
		if (value_is_placed(&b->arg[i]))
			note_value(a, &b->arg[i], var[i - first], w);
}

/* One unknown for each result of a loop or branch. */
static void
add_ties(Assign *a, Op *op)
{
	int *var = NEW_ARRAY(a->tmp, int, op->nout);
	double inside = op->nregion ? block_weight(op->region[0]) : 1;
	for (int i = 0; i < op->nout; i++) {
		var[i] = -1;
		if (!value_is_placed(&op->out[i]))
			continue;
		var[i] = add_var(a, NULL, inside);
		note_value(a, &op->out[i], var[i], block_weight(op->home));
	}
	a->note[op->out[0].id].ties = var;          /* for the edges, once all values are noted */
	if (op->kind == OP_FOR)
		note_args(a, op->region[0], 1, var);
	for (int r = 0; op->kind == OP_WHILE && r < 2; r++)
		note_args(a, op->region[r], 0, var);
}

static void
tie_edges(Assign *a, Op *op)
{
	const int *var = a->note[op->out[0].id].ties;
	int first = op->kind == OP_FOR ? 3 : 0;
	for (int i = 0; i < op->nout; i++) {
		if (var[i] < 0)
			continue;
		Var *v = &a->vars.at[var[i]];
		v->first = a->edges.n;
		if (op->kind != OP_IF)
			add_edge(a, op->in[first + i], op, first + i, var[i], true);
		for (int r = 0; r < op->nregion; r++) {
			Op *yield = op->region[r]->last;
			int k = op->kind == OP_WHILE && r == 0 ? i + 1 : i;
			add_edge(a, yield->in[k], yield, k, var[i], true);
		}
		a->vars.at[var[i]].nedge = a->edges.n - a->vars.at[var[i]].first;
	}
}

static bool
is_control(const Op *op)
{
	return op_is_control(op) && op->nout > 0;
}

/* A memory op's or dot's own layout, left by earlier passes. */
static const Layout *
own_layout(const Op *op)
{
	switch (op->kind) {
	case OP_READ: case OP_LOAD: case OP_DOT: case OP_ATOMIC: case OP_ATOMIC_PTR:
		return op->out[0].layout;
	case OP_WRITE:
		return op->in[access_data(op)]->layout;
	case OP_STORE:
		return op->in[1]->layout;
	default:
		return NULL;
	}
}

/* One unknown for the tile that is put and all that are got for it. */
static void
add_put(Assign *a, Op *put)
{
	int *var = NEW_ARRAY(a->tmp, int, 1);
	*var = value_is_placed(put->in[0]) ? add_var(a, NULL, block_weight(put->home)) : -1;
	a->note[put->out[0].id].ties = var;
}

static void
note_got(Assign *a, Op *get)
{
	int var = *a->note[get->in[0]->id].ties;
	if (var >= 0)
		note_value(a, &get->out[0], var, block_weight(get->home));
}

static void
tie_put(Assign *a, Op *put)
{
	int var = *a->note[put->out[0].id].ties;
	if (var < 0)
		return;
	a->vars.at[var].first = a->edges.n;
	add_edge(a, put->in[0], put, 0, var, true);
	a->vars.at[var].nedge = 1;
}

/* Of whole records: a thread has one, and its neighbours the next, so that their elements are taken apart and put together
 * in registers (pass records), and each is computed once.  Memory gives and takes records across lanes. */
static const Layout *
record_layout(const Assign *a, const Op *op)
{
	int shape[LAYOUT_RANK] = {0}, held = access_record_bits(op);
	const Type *t = anchor_type(op);
	if (!held)
		return NULL;
	layout_shape(t->rank, t->extent, shape);
	Layout l = layout_coalesced(t->rank, shape, layout_last_first(t->rank), held, a->lanes, a->warps);
	return layout_intern(a->m, &l);
}

static void
prefer_records(Assign *a, const Op *write)
{
	const Value *v = write->in[access_data(write)];
	if (v->def && v->def->kind == OP_CONVERT)
		v = v->def->in[0];
	int var = v->def && v->def->kind == OP_SELECT ? a->note[v->id].var : -1;
	if (var >= 0)
		a->vars.at[var].preferred = record_layout(a, write);
}

static void
collect_op(Assign *a, Op *op)
{
	if (is_control(op)) {
		add_ties(a, op);
		return;
	}
	if (op->kind == OP_SPLIT_PUT || op->kind == OP_SPLIT_GET) {
		(op->kind == OP_SPLIT_PUT ? add_put : note_got)(a, op);
		return;
	}
	if (!anchor_exists(op))
		return;
	for (int i = 0; i < op->nout; i++)
		a->note[op->out[i].id].cheap = op->nout == 1 ? remat_cost(a, &op->out[i]) : 0;
	double w = block_weight(op->home);
	if (op->nout == 1 && a->note[op->out[0].id].cheap > 0) {
		a->note[op->out[0].id].weight = w;
		return;
	}
	int v = add_var(a, op, w);
	a->vars.at[v].preferred = own_layout(op);
	if (op->kind == OP_WRITE)
		prefer_records(a, op);
	if (op->kind == OP_READ)
		a->vars.at[v].record = record_layout(a, op);
	bool is_staged = op->nout == 1 && a->note[op->out[0].id].is_staged;
	a->vars.at[v].hard = (op->kind == OP_DOT || is_staged) && a->vars.at[v].preferred;
	for (int i = 0; i < op->nout; i++)
		note_value(a, &op->out[i], v, w);
}

/* An op used in two operands by one value has two edges: their conversion is counted once. */
static void
collect_edges(Assign *a)
{
	for (int v = 0; v < a->vars.n; v++) {
		Op *op = a->vars.at[v].op;
		if (!op)
			continue;
		a->vars.at[v].first = a->edges.n;
		for (int i = 0; i < op->nin; i++)
			add_edge(a, op->in[i], op, i, v, false);
		a->vars.at[v].nedge = a->edges.n - a->vars.at[v].first;
	}
}

/* Conversions from passes before say preferred layouts, read by now: each use of one takes what it converts. */
static void
drop_converts(Assign *a)
{
	for (EACH_OP(op, a->f->body)) {
		if (op->kind != OP_CONVERT)
			continue;
		value_replace(&op->out[0], op->in[0]);
		op_erase(op);
	}
}

/* What pass pipeline will bring to shared memory. */
static void
note_staged(Assign *a)
{
	for (Op *op = a->f->body->first; op; op = op_after(op, a->f->body)) {
		if (op->kind != OP_FOR || !(a->t->has & HAS_CP_ASYNC) || a->f->schedule.stages == 1)
			continue;
		Pipeline p = {.m = a->m, .tmp = a->tmp, .t = a->t, .f = a->f, .loop = op, .body = op->region[0]};
		p.is_async = true;
		pipeline_find_reads(&p);
		for (int i = 0; i < p.reads.n; i++)
			a->note[p.reads.at[i].read->out[0].id].is_staged = true;
	}
}

void
assign_collect(Assign *a)
{
	Block *body = a->f->body;
	func_number(a->f);
	a->note = NEW_ARRAY(a->tmp, ValueNote, a->f->nvalues);
	for (int i = 0; i < a->f->nvalues; i++)
		a->note[i] = (ValueNote){.var = -1, .edges = -1, .weight = 1};
	note_staged(a);
	for (Op *op = body->first; op; op = op_after(op, body))
		collect_op(a, op);
	drop_converts(a);
	for (Op *op = body->first; op; op = op_after(op, body))
		if (is_control(op))
			tie_edges(a, op);
		else if (op->kind == OP_SPLIT_PUT)
			tie_put(a, op);
	collect_edges(a);
}

static void flood_from(Assign *a, int var, int ways);

/* As the layout, its registers in the order of memory: which renames them, so that a thread's neighbours are one access. */
static const Layout *
in_memory_order(const Assign *a, const Op *op, const Layout *have)
{
	if (!op || op->kind != OP_WRITE || have->rank == 0)
		return have;
	Layout l = *have;
	int at = layout_out_at(&l, l.rank - 1), n = 0;
	uint64_t along = ((UINT64_C(1) << l.out[l.rank - 1]) - 1) << at;
	for (int bit = 0; bit < l.out[l.rank - 1]; bit++)
		for (int i = n; i < l.in[IN_REGISTER]; i++) {
			uint64_t moved = l.map.col[i];
			if (moved != UINT64_C(1) << (at + bit) || !(moved & along))
				continue;
			for (int k = i; k > n; k--)
				l.map.col[k] = l.map.col[k - 1];
			l.map.col[n++] = moved;
			break;
		}
	return layout_intern(a->m, &l);
}

static void
reach(Assign *a, int var, const Layout *l, int ways)
{
	Var *x = &a->vars.at[var];
	if (!l || x->mark == a->flood || x->hard || (a->only_unset && x->layout))
		return;
	x->mark = a->flood;
	x->layout = in_memory_order(a, x->op, l);
	flood_from(a, var, ways);
}

static void
flood_back(Assign *a, Edge *e, int ways)
{
	int from = a->note[e->value->id].var;
	const Layout *want = assign_required(a, e);
	if (from < 0 || !want || assign_value_layout(a, e->value) == want)
		return;
	const Op *op = a->vars.at[from].op;
	reach(a, from, op ? anchor_of_result(op, e->value->index, want) : want, ways);
}

static void
flood_uses(Assign *a, const Value *v, const Layout *have, int ways)
{
	for (int i = a->note[v->id].edges; have && i >= 0; i = a->edges.at[i].next) {
		Edge *e = &a->edges.at[i];
		if (assign_required(a, e) == have)
			continue;
		reach(a, e->user, e->tie ? have : anchor_of_operand(e->op, e->index, have), ways);
	}
}

static void
flood_args(Assign *a, int var, int ways)
{
	for (int i = 0; i < a->f->nvalues; i++)
		if (a->note[i].var == var && a->note[i].edges >= 0)
			flood_uses(a, a->edges.at[a->note[i].edges].value, a->vars.at[var].layout, ways);
}

static void
flood_from(Assign *a, int var, int ways)
{
	int first = a->vars.at[var].first, n = a->vars.at[var].nedge;
	Op *op = a->vars.at[var].op;
	for (int i = first; (ways & FLOOD_BACK) && i < first + n; i++)
		flood_back(a, &a->edges.at[i], ways);
	if (!(ways & FLOOD_FORWARD))
		return;
	for (int i = 0; op && i < op->nout; i++)
		flood_uses(a, &op->out[i], assign_value_layout(a, &op->out[i]), ways);
	if (!op)
		flood_args(a, var, ways);
}

void
assign_flood(Assign *a, int var, const Layout *l, int ways)
{
	a->flood++;
	a->vars.at[var].mark = a->flood;
	a->vars.at[var].layout = l;
	flood_from(a, var, ways);
}

void
assign_flood_uses(Assign *a, int var, const Layout *l)
{
	a->flood++;
	for (int i = 0; i < a->vars.n; i++)
		if (i == var || (a->vars.at[i].op && a->vars.at[i].op->kind == OP_WRITE))
			a->vars.at[i].mark = a->flood;
	flood_uses(a, &a->vars.at[var].op->out[0], l, FLOOD_BACK | FLOOD_FORWARD);
}
