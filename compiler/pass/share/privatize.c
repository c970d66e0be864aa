/* What all programs add to the same places, a persistent block adds up first.
 *
 *     for … do (%p) {                                     for … %zeros do (%p, %a: i32[256]) {
 *         %v = read %x, …                                     %v = read %x, …
 *         %h = histogram %v : i32[256]                =>      %h = histogram %v
 *         atomic %bins, 0, %h {fn = "add"}                    %n = add %a, %h
 *     }                                                       yield %n
 *                                                         }
 *                                                         atomic %bins, 0, %total {fn = "add"}
 *
 * Atomics of one place come one after another: those of a loss, of a histogram, of the gradient of a norm's weights took
 * longer than what is read.  Sums of floats are in another order, as atomics leave them anyway; defer_reduce keeps them
 * apart by lane.  The least and the greatest, and bits of integers, likewise.  Only where nothing uses the old values or
 * accesses the tensor otherwise, no other device may watch it (scope sys), and the places are the same for all programs.
 *
 * Where data says which places, what there is joins a copy of the tensor in shared memory:
 *
 *                                                         %b = alloc : buffer<1 x f32[1024]> #2
 *                                                         put (slot 0 of %b), 0
 *     for … do (%p) {                                     for … do (%p) {
 *         atomic %y, %k, %w {index = "g", fn = "add"} =>      tally (slot 0 of %b), %k, %w {fn = "add"}
 *     }                                                   }
 *                                                         %t = get (slot 0 of %b)
 *                                                         atomic %y, 0, %t {index = "p", extents = [1024], fn = "add"}
 *
 * So are rows that a loop of the kernel's own adds to, all in one row, whether its blocks stay or not. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"

#include <string.h>

/* How the atomic joins what is there; OP_COUNT: otherwise than by one op that may come in any order. */
static OpKind
join_of(const Op *op)
{
	DType t = op->kind == OP_ATOMIC ? op->in[access_data(op)]->type->elem : TY_BOOL;
	OpKind kind = op->kind == OP_ATOMIC ? fn_kind(attr_fn(op)) : OP_COUNT;
	bool fits = dtype_is_int(t) || (dtype_is_float(t) && (kind == OP_ADD || kind == OP_MIN || kind == OP_MAX));
	return fits && dtype_info[t].bits >= 32 ? kind : OP_COUNT;
}

/* Nothing but such atomics accesses the tensor, and none of them gives an old value: that has what came before it. */
static bool
has_tensor_alone(const Func *f, const Op *atomic)
{
	return !ANY_OP(op, f->body,
	    ANY_OF(i, op->nin,
		op->in[i] == atomic->in[0] && (i > 0 || op->kind != OP_DIM) &&
		    (join_of(op) != join_of(atomic) || op->out[0].nuses > 0)));
}

/* Before pass persist and behind it: is v the same in all programs? */
static bool
is_common(const Value *v, int depth)
{
	enum { DEPTH = 12 };
	const Op *op = v->def;
	if (!op)
		return !v->block->parent;
	if (op->nregion || !op_has(op, PURE) || op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT || depth == DEPTH ||
	    v->type->rank > 0)
		return false;
	return ALL_OF(i, op->nin, is_common(op->in[i], depth + 1));
}

/* Before pass persist: is v the same in programs that are neighbours along the first axis? */
static bool
is_of_neighbours(const Value *v, int depth)
{
	const Op *op = v->def;
	bool is_position = op && op->kind == OP_PROGRAM_ID && attr_axis(op) > 0;
	if (is_common(v, 0) || is_position || !op || depth == 0)
		return is_common(v, 0) || is_position;
	return !op->nregion && op_has(op, PURE) && v->type->rank == 0 && op->nin > 0 &&
	    ALL_OF(i, op->nin, is_of_neighbours(op->in[i], depth - 1));
}

bool
privatize_merges(const Func *f, const Op *op)
{
	enum { DEPTH = 12 };
	return join_of(op) != OP_COUNT && op->out[0].nuses == 0 && strcmp(attr_scope(op), "sys") != 0 &&
	    has_tensor_alone(f, op) && op->home == f->body && !strchr(attr_index(op), 'g') &&
	    ALL_OF(i, access_data(op) - 1, is_of_neighbours(op->in[1 + i], DEPTH));
}

/* ---- places that data says ---- */

/* Bytes of the copy; bins for each element that a loop adds; trips of one that is as long as data says. */
enum { TALLIED_MOST = 16384, TALLIED_EACH = 4, TRIPS = 16 };

/* That the tensor has along d at most; 0: not known. */
static int64_t
extent_most(const Func *f, const Value *tensor, int d)
{
	bool is_open = tensor->type->extent[d] < 0 && !tensor->def && !tensor->block->parent;
	int symbol = is_open ? f->param[tensor->index].dim[d] : -1;
	return symbol >= 0 ? f->param[symbol].most : MAX(tensor->type->extent[d], 0);
}

/* Extents of the copy: of the dimensions that are gathered, powers of two, with places beyond the tensor that nothing is
 * added from.  0: they are not known, or are too many. */
static int
tally_shape(const Op *op, int64_t *extent)
{
	const char *index = attr_index(op);
	int64_t bytes = dtype_info[access_tile(op)->type->elem].bits / 8;
	int64_t all = 1;
	int n = 0;
	for (int d = 0; index[d]; d++) {
		int64_t is = extent_most(op->home->func, op->in[0], d);
		if (index[d] == 'g' && (is < 1 || is > TALLIED_MOST))
			return 0;
		if (index[d] == 'g')
			all *= extent[n++] = INT64_C(1) << log2_ceil(is);
	}
	return all > 1 && all * bytes <= TALLIED_MOST ? n : 0;
}

/* Elements that join places that data says, all other indices being numbers. */
static bool
is_tallied(const Op *op)
{
	int64_t extent[LAYOUT_RANK];
	return op->kind == OP_ATOMIC && join_of(op) != OP_COUNT && op->out[0].type->rank > 0 &&
	    strchr(attr_index(op), 'g') && !strchr(attr_index(op), 'p') && tally_shape(op, extent) > 0;
}

static bool
varies(const Op *op, const Block *body)
{
	const char *index = attr_index(op);
	return ANY_OF(d, op->in[0]->type->rank, index[d] == 'i' && value_inside(op->in[1 + d], body));
}

static int64_t
trips_of(const Op *loop)
{
	int64_t from, to, by;
	bool known = value_int(loop->in[0], &from) && value_int(loop->in[1], &to) && value_int(loop->in[2], &by) && by > 0;
	return known ? (to - from + by - 1) / by : TRIPS;
}

/* The outermost loop around it in which the row is one, and that adds enough to it; NULL: none. */
static Op *
tally_loop(const Op *op)
{
	int64_t extent[LAYOUT_RANK], added = type_count(access_tile(op)->type), bins = 1;
	Op *found = NULL;
	for (int i = 0, n = tally_shape(op, extent); i < n; i++)
		bins *= extent[i];
	for (Op *up = op->home->parent; up && (up->kind == OP_FOR || up->kind == OP_IF); up = up->home->parent) {
		if (up->kind == OP_FOR && varies(op, up->region[0]))
			break;
		added *= up->kind == OP_FOR ? trips_of(up) : 1;
		bool stays = op_is_over_programs(up);
		if (stays && has_warpgroup_product(up->region[0]))
			break;                          /* it parts into roles, behind which nothing follows */
		bool pays = up->kind == OP_FOR && (stays || bins <= TALLIED_EACH * added);
		found = pays ? up : found;
	}
	return found;
}

static bool
has_common_row(const Op *op)
{
	const char *index = attr_index(op);
	return ALL_OF(d, op->in[0]->type->rank, index[d] != 'i' || is_common(op->in[1 + d], 0));
}

bool
privatize_tallies(const Func *f, const Op *op)
{
	if (!is_tallied(op) || op->out[0].nuses > 0 || strcmp(attr_scope(op), "sys") == 0 || !has_tensor_alone(f, op))
		return false;
	return tally_loop(op) != NULL;
}

bool
privatize_takes(const Func *f, const Op *op)
{
	if (join_of(op) == OP_COUNT || op->out[0].nuses > 0 || strcmp(attr_scope(op), "sys") == 0 ||
	    !has_tensor_alone(f, op))
		return false;
	if (is_tallied(op))
		return has_common_row(op);
	if (op->home != f->body && op->home->parent != func_programs(f))
		return false;
	return ALL_FROM(i, 1, access_data(op), is_common(op->in[i], 0));
}

/* What changes nothing: a NaN loses against any number, and leaves one in memory that no program joins. */
static Value *
neutral(Builder *b, const Value *like, OpKind kind)
{
	return value_with_layout(build_identity(b, like->type, kind, false), like->layout);
}

void
privatize_guard(Op *op, Value *condition)
{
	int data = access_data(op);
	Value *v = op->in[data], *holds = condition;
	Builder b = build_before(op);
	if (v->type->rank > 0) {
		holds = build1(&b, OP_BROADCAST, condition, type_tile(b.m, TY_BOOL, v->type->rank, v->type->extent));
		holds->layout = v->layout;
	}
	Value *all = build3(&b, OP_SELECT, holds, v, neutral(&b, v, join_of(op)));
	all->layout = v->layout;
	op_set_in(op, data, all);
}

/* Does y add what x does to the same places, for another program of the block (pass coarsen)? */
static bool
is_same_place(const Op *x, const Op *y)
{
	int data = access_data(x);
	return y->kind == OP_ATOMIC && x->nin == y->nin && join_of(x) == join_of(y) &&
	    x->in[data]->type == y->in[data]->type && x->in[data]->layout == y->in[data]->layout &&
	    ALL_OF(i, data, x->in[i] == y->in[i]);
}

/* Of a sum that is to be added by one atomic with others, nothing where there is no such program: what each lane has of it.
 * NULL: v is otherwise. */
static Value *
lane_sum(Builder *b, const Value *v, OpKind join)
{
	const Op *guard = v->def && v->def->kind == OP_SELECT && value_is_zero(v->def->in[2]) ? v->def : NULL;
	Op *op = guard ? guard->in[1]->def : v->def;
	if (v->type->rank > 0 || v->nuses > 1 || join != OP_ADD || !op || op->kind != OP_REDUCE || op->out[0].nuses > 1 ||
	    strcmp(attr_fn(op), "sum") != 0 || op->in[0]->type->rank != 1)
		return NULL;
	Value *part = defer_part(b, op);
	if (!guard || !part)
		return part;
	Value *holds = build1(b, OP_BROADCAST, guard->in[0], type_tile(b->m, TY_BOOL, 1, part->type->extent));
	holds->layout = part->layout;
	return value_with_layout(build3(b, OP_SELECT, holds, part, neutral(b, part, join)), part->layout);
}

/* x adds what y does, too: of numbers behind the loop, that each is kept apart by lane; of tiles in it.  Sums of tiles are
 * added up by lane: threads hold one program's elements after another's, and exchange once. */
static void
merge(Op *x, Op *y)
{
	int data = access_data(x);
	Builder b = build_before(x), before = build_before(y);
	Value *v = lane_sum(&b, x->in[data], join_of(x)), *w = v ? lane_sum(&before, y->in[data], join_of(x)) : NULL, *both;
	if (v && w && v->layout == w->layout && v->type == w->type) {
		Value *sum = build2(&b, OP_ADD, v, w);
		sum->layout = v->layout;
		Attr attr[] = {attr_new_fn(b.m, "sum"), attr_new_axis(b.m, 0)};
		both = op_make(&b, OP_REDUCE, &sum, 1, attr, LEN(attr), NULL, 0)->out;
	} else {
		both = build2(&b, join_of(x), x->in[data], y->in[data]);
		both->layout = x->in[data]->layout;
	}
	op_set_in(x, data, both);
	op_erase(y);
}

static void
privatize(Pipeline *p, Op *op)
{
	OpKind join = join_of(op);
	int data = access_data(op);
	Value *v = op->in[data];
	Builder before = build_before(p->loop);
	Value *init = neutral(&before, v, join), *arg = pipeline_carry(p, &init, 1);
	Builder b = build_before(op);
	Value *next = build2(&b, join, arg, v);
	next->layout = v->layout;
	pipeline_yield(p, &next, 1);
	op_move(op, p->loop->home, p->loop->next);
	op_set_in(op, data, &p->loop->out[p->loop->nout - 1]);
}

/* Of a block that runs several programs together: an atomic of what they have in common. */
static bool
may_merge(const Func *f, const Op *op)
{
	return f->schedule.coarsen > 1 && join_of(op) != OP_COUNT && op->out[0].nuses == 0 && has_tensor_alone(f, op) &&
	    strcmp(attr_scope(op), "sys") != 0 && !strchr(attr_index(op), 'g');
}

/* Merges what neighbours of one place add: of tiles before the loop carries it, of numbers once it has. */
static void
merge_all(const Func *f, Op *first, bool tiles)
{
	for (Op *x = first, *next; x; x = next) {
		next = x->next;
		bool stays = privatize_takes(f, x), takes = stays || may_merge(f, x);
		for (Op *y = first; y != x && takes; y = y->next)
			if (is_same_place(x, y) && (privatize_takes(f, y) || may_merge(f, y)) &&
			    ((x->in[access_data(x)]->type->rank > 0) == tiles || !stays)) {
				merge(x, y);
				first = y == first ? x : first;
				break;
			}
	}
}

/* A copy of the places that atomics of one row add to, in a loop, and what adds it behind that. */
typedef struct Tally {
	const Op *loop, *sum;
	Value *slot;
} Tally;

typedef VEC(Tally) Tallies;

/* What the copy has come to is added behind the loop; `op` says where.  Whatever its scope, other blocks add theirs there,
 * of a program whose loop several share, too. */
static const Op *
add_tallied(Builder *b, const Op *op, Value *slot, const Type *tile, const Layout *held)
{
	Module *m = b->m;
	char *index = arena_printf(m->cx->tmp, "%s", attr_index(op));
	Value **in = NEW_COPY(m->cx->tmp, op->in, op->nin);
	for (int d = 0; index[d]; d++)
		if (index[d] == 'g') {
			index[d] = 'p';
			in[1 + d] = build_index(b, 0);
		}
	in[access_data(op)] = value_with_layout(op_make(b, OP_GET, &slot, 1, NULL, 0, NULL, 0)->out, held);
	Attr attr[] = {attr_new_fn(m, attr_fn(op)), attr_new_order(m, attr_order(op)), attr_new_scope(m, "gpu"),
	    attr_new_index(m, index), attr_new_extents(m, tile->extent, tile->rank)};
	Op *sum = op_make(b, OP_ATOMIC, in, op->nin, attr, LEN(attr), NULL, 0);
	sum->out[0].layout = held;
	return sum;
}

/* Does the op add to what `sum` adds to? */
static bool
is_same_row(const Op *sum, const Op *op)
{
	const char *x = attr_index(sum), *y = attr_index(op);
	return sum->in[0] == op->in[0] &&
	    ALL_OF(d, op->in[0]->type->rank, x[d] == 'i' ? y[d] == 'i' && sum->in[1 + d] == op->in[1 + d] : y[d] == 'g');
}

/* Of the greatest and least floats, which are compared by their bits: a NaN above or below all numbers (lower_tally). */
static Value *
begin(Builder *b, const Type *tile, OpKind kind, const Layout *l)
{
	if (!dtype_is_float(tile->elem) || (kind != OP_MAX && kind != OP_MIN))
		return value_with_layout(build_identity(b, tile, kind, false), l);
	bool wide = dtype_info[tile->elem].bits == 64;
	const Type *bits = type_with_elem(b->m, tile, wide ? TY_I64 : TY_I32);
	Value *v = value_with_layout(build_int(b, bits, kind == OP_MAX ? -1 : wide ? INT64_MAX : INT32_MAX), l);
	return value_with_layout(build1(b, OP_BITCAST, v, tile), l);
}

static Value *
tally_slot(Tallies *all, const Op *op, Op *loop, const Target *t)
{
	Module *m = op->home->func->module;
	const Type *elem = access_tile(op)->type;
	int64_t extent[LAYOUT_RANK];
	int n = tally_shape(op, extent), shape[LAYOUT_RANK];
	const int *order = layout_last_first(n);
	for (int i = 0; i < all->n; i++)
		if (all->at[i].loop == loop && is_same_row(all->at[i].sum, op))
			return all->at[i].slot;
	layout_shape(n, extent, shape);
	Layout shared = layout_row_major(n, shape, order);
	Layout held = layout_coalesced(n, shape, order, 0, log2_ceil(t->lanes), log2_ceil(func_warps(op->home->func)));
	const Layout *l = layout_intern(m, &held);
	const Type *tile = type_tile(m, elem->elem, n, extent);
	Op *outer = loop;
	while (outer->home->parent)
		outer = outer->home->parent;
	Builder b = build_before(outer);
	const Type *copy = type_buffer(m, elem->elem, 1, n, extent);
	Value *buffer = value_with_layout(build0(&b, OP_ALLOC, copy), layout_intern(m, &shared));
	b = build_before(loop);
	Value *slot = build_slot(&b, buffer, build_index(&b, 0));
	op_make(&b, OP_PUT, (Value *[]){slot, begin(&b, tile, join_of(op), l)}, 2, NULL, 0, NULL, 0);
	b = (Builder){.m = m, .block = loop->home, .before = loop->next, .place = op->place};
	Tally made = {loop, add_tallied(&b, op, slot, tile, l), slot};
	vec_push(m->cx->tmp, all, made);
	return slot;
}

static void
tally(Tallies *all, Op *op, Op *loop, const Target *t)
{
	Builder b = build_before(op);
	const Layout *l = op->out[0].layout;
	const char *index = attr_index(op);
	Value *in[LAYOUT_RANK + 2] = {tally_slot(all, op, loop, t)};
	int n = 1;
	for (int i = 1; i <= access_data(op); i++) {
		Value *v = op->in[i];
		bool is_data = i == access_data(op);
		if (is_data || index[i - 1] == 'g')
			in[n++] = v->layout == l ? v : value_with_layout(build1(&b, OP_CONVERT, v, NULL), l);
	}
	Attr fn = attr_new_fn(b.m, attr_fn(op));
	op_make(&b, OP_TALLY, in, n, &fn, 1, NULL, 0);
	op_erase(op);
}

static void
tally_all(Func *f, const Target *t)
{
	Tallies all = {0};
	for (EACH_OP(op, f->body))
		if (privatize_tallies(f, op))
			tally(&all, op, tally_loop(op), t);
}

void
pass_privatize(Func *f, const Target *t)
{
	tally_all(f, t);
	Op *loop = func_programs(f);
	if (!loop || has_warpgroup_product(loop->region[0]))
		return;
	Pipeline p = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .f = f, .loop = loop, .body = loop->region[0]};
	merge_all(f, p.body->first, true);
	for (EACH_OP_HERE(op, p.body))
		if (privatize_takes(f, op))
			privatize(&p, op);
	merge_all(f, p.loop->next, false);
	sweep(f);                                       /* sums of one program alone */
}
