/* Floats that follow from the gap between a row's index and a column's are computed once for each diagonal of a tile,
 * beside products of warpgroups: biases by distance, looked up or calculated.
 *
 *     %r = broadcast (%m + iota) : i64[128, 64]               %g = %m - %t - 63 : i64
 *     %c = broadcast (%t + iota) : i64[128, 64]               %d = %g + 16 * iota {axis = 0} + iota {axis = 1}
 *     %d = sub %r, %c : i64[128, 64]                          %w = read %table, %d : f32[8, 128]
 *     %b = read %table, %d : f32[128, 64]             =>      %a = gather %w, %at {axis = 1} : f32[8, 1024]
 *                                                             %b = reshape %a : f32[128, 64]
 *
 * A row of %w has the diagonals that 16 rows of the tile cross, which one warp has: 79 of 1024 elements, of a table that
 * the L1 cache served or of T5's logarithms.  The index %at = i - j + 63 of an element (i, j) of 16 x 64 is the same in
 * each iteration, and neighbouring registers of a product's accumulator share diagonals.
 *
 * What is read may lie outside of the tensor, before and behind as in the tile itself: the extra diagonals are of no
 * element. */
#include "ir/derive.h"
#include "pass/pass.h"
#include "target/target.h"

enum { LEAST_ELEMENTS = 4096, BAND = 16, DEEP = 24 };   /* BAND: rows of a product's tile that one warp has */
enum { COST_LEAST = 12, COST_OF_READ = 12 };            /* instructions of an element */

typedef struct Diagonal {
	Module *m;
	Builder b;
	int64_t extent[2];
	const Type *shape;                              /* of the diagonals: bands, and what one crosses */
	bool *known, *is;                               /* by id: was it looked at, does it follow from the gap? */
	Value **map;                                    /* by id: of diagonals what stands for it; NULL before */
	int cost;
} Diagonal;

/* ---- indices ---- */

/* How far an integer tile goes with each of its own dimensions, all of whose other terms are scalars; false: it does
 * not. */
static bool
slopes(const Value *v, int64_t *by, int depth)
{
	const Op *op = v->def;
	const Type *t = v->type;
	int64_t n, other[MAX_RANK];
	int from[MAX_RANK];
	if (!dtype_is_int(t->elem) || t->ptr != PTR_NONE || depth == DEEP)
		return false;
	for (int d = 0; d < t->rank; d++)
		by[d] = 0;
	if (t->rank == 0 || value_int(v, &n))
		return true;
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		by[attr_axis(op)] = 1;
		return true;
	case OP_CAST:
		return dtype_info[t->elem].bits <= dtype_info[op->in[0]->type->elem].bits &&
		    slopes(op->in[0], by, depth + 1);
	case OP_BROADCAST:
		if (!slopes(op->in[0], other, depth + 1))
			return false;
		for (int d = 0; d < t->rank && op->in[0]->type->rank; d++)
			by[d] = op->in[0]->type->extent[d] == 1 ? 0 : other[d];
		return true;
	case OP_RESHAPE:
		if (!slopes(op->in[0], other, depth + 1) || !reshape_from(op, from))
			return false;
		for (int d = 0; d < t->rank; d++)
			by[d] = from[d] < 0 ? 0 : other[from[d]];
		return true;
	case OP_PERMUTE:
		if (!slopes(op->in[0], other, depth + 1))
			return false;
		for (int d = 0; d < t->rank; d++)
			by[d] = other[attr_dims(op)->at[d]];
		return true;
	case OP_ADD: case OP_SUB:
		if (!slopes(op->in[0], by, depth + 1) || !slopes(op->in[1], other, depth + 1))
			return false;
		for (int d = 0; d < t->rank; d++)
			by[d] += op->kind == OP_ADD ? other[d] : -other[d];
		return true;
	default:
		return false;
	}
}

static const Type *
scalar_of(Diagonal *x, const Value *v)
{
	return type_scalar(x->m, v->type->elem);
}

/* The element of the tile's origin: the sum of its scalars.  NULL: 0. */
static Value *
origin(Diagonal *x, Value *v)
{
	Op *op = v->def;
	int64_t n;
	if (v->type->rank == 0)
		return v;
	if (value_int(v, &n))
		return n ? build_int(&x->b, scalar_of(x, v), n) : NULL;
	if (op->kind == OP_IOTA)
		return NULL;
	Value *a = origin(x, op->in[0]), *c = op->nin > 1 ? origin(x, op->in[1]) : NULL;
	if (op->kind == OP_CAST)
		return a ? build1(&x->b, OP_CAST, a, scalar_of(x, v)) : NULL;
	if (c && a)
		return build2(&x->b, op->kind, a, c);
	return c && op->kind == OP_SUB ? build1(&x->b, OP_NEG, c, NULL) : c ? c : a;
}

/* ---- what follows from the gap ---- */

static bool follows(Diagonal *x, const Value *v, int depth);

static bool
read_follows(Diagonal *x, const Op *op, int depth)
{
	const Func *f = op->home->func;
	const char *index = attr_index(op);
	int rank = op->in[0]->type->rank;
	if (op->in[0]->def || op->in[0]->block != f->body || f->param[op->in[0]->index].access != ACCESS_IN)
		return false;
	for (int i = 1; i < op->nin; i++) {
		bool is_scalar = op->in[i]->type->rank == 0;
		if (i <= rank && index[i - 1] != (is_scalar ? 'i' : 'g'))
			return false;
		if (!is_scalar && !follows(x, op->in[i], depth))
			return false;
	}
	return true;
}

static bool
op_follows(Diagonal *x, const Value *v, int depth)
{
	const Op *op = v->def;
	int64_t by[MAX_RANK];
	static const int cost[] = {[COST_FREE] = 0, [COST_ALU] = 1, [COST_SFU] = 4, [COST_DIVIDE] = 8, [COST_LONG] = 24};
	if (slopes(v, by, 0) && by[0] == -by[1])
		return true;
	if (op->kind == OP_CONST)
		return value_const(v) && value_const(v)->kind != KIND_INTS;
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type->rank == 0;
	if (op->kind == OP_READ) {
		x->cost += COST_OF_READ;
		return read_follows(x, op, depth);
	}
	OpCost class = op_info[op->kind].cost;
	if (!op_has(op, PURE) || !op_has(op, ELEM) || op->nregion || op->nout != 1 || class > COST_LONG)
		return false;
	x->cost += cost[class];
	return ALL_OF(i, op->nin, follows(x, op->in[i], depth));
}

static bool
follows(Diagonal *x, const Value *v, int depth)
{
	const Type *t = v->type;
	bool fits = v->def && t->kind == TYPE_TILE && t->rank == 2 && t->ptr == PTR_NONE && depth < DEEP;
	if (!fits || t->extent[0] != x->extent[0] || t->extent[1] != x->extent[1])
		return false;
	if (!x->known[v->id]) {
		x->known[v->id] = true;
		x->is[v->id] = op_follows(x, v, depth + 1);
	}
	return x->is[v->id];
}

/* ---- diagonals ---- */

static Value *
spread(Diagonal *x, Value *scalar, const Type *t)
{
	return build1(&x->b, OP_BROADCAST, scalar, t);
}

/* The index: by * (row - column), and what the tile's origin has; by 0 that alone. */
static Value *
gap(Diagonal *x, Value *v, int64_t by, const Type *t)
{
	Value *first = origin(x, v);
	if (by == 0)
		return first ? spread(x, first, t) : build_int(&x->b, t, 0);
	Value *from = build_int(&x->b, scalar_of(x, v), -by * (x->extent[1] - 1));
	first = first ? build2(&x->b, OP_ADD, first, from) : from;
	Value *row = build2(&x->b, OP_MUL, build_iota(&x->b, t, 0), build_int(&x->b, t, BAND * by));
	Value *at = build_iota(&x->b, t, 1);
	at = by == 1 ? at : build2(&x->b, OP_MUL, at, build_int(&x->b, t, by));
	return build2(&x->b, OP_ADD, spread(x, first, t), build2(&x->b, OP_ADD, row, at));
}

static Value *
diagonals(Diagonal *x, Value *v)
{
	Op *op = v->def;
	int64_t by[MAX_RANK];
	const Type *t = type_with_elem(x->m, x->shape, v->type->elem);
	if (v->type->rank == 0 || x->map[v->id])
		return v->type->rank == 0 ? v : x->map[v->id];
	Value **made = &x->map[v->id];
	if (slopes(v, by, 0) && by[0] == -by[1])
		return *made = gap(x, v, by[0], t);
	if (op->kind == OP_BROADCAST)
		return *made = spread(x, op->in[0], t);
	bool reads = op->kind == OP_READ;
	Value **in = MAP_OF(x->m->cx->tmp, Value *, i, op->nin,
	    reads && i == 0 ? op->in[0] : diagonals(x, op->in[i]));
	return *made = build_like(&x->b, op, in, t);
}

/* Of each element of a band the number of its diagonal: i - j + columns - 1. */
static Value *
numbers(Diagonal *x, const Type *t)
{
	int64_t bands = x->extent[0] / BAND, n = x->extent[1];
	Module *m = x->m;
	const Type *band = type_with_shape(m, t, 2, (int64_t[]){BAND, n});
	const Type *all = type_with_shape(m, t, 3, (int64_t[]){bands, BAND, n});
	Value *gaps = build2(&x->b, OP_SUB, build_iota(&x->b, band, 0), build_iota(&x->b, band, 1));
	gaps = build2(&x->b, OP_ADD, gaps, build_int(&x->b, band, n - 1));
	gaps = build_reshape(&x->b, gaps, 3, (int64_t[]){1, BAND, n});
	return build_reshape(&x->b, build1(&x->b, OP_BROADCAST, gaps, all), 2, (int64_t[]){bands, BAND * n});
}

static void
rewrite(Diagonal *x, Op *root, Op *loop)
{
	Module *m = x->m;
	const Attr axis = attr_new_axis(m, 1);
	Value *v = &root->out[0];
	x->b = loop ? build_before(loop) : build_before(root);
	Value *at = numbers(x, type_scalar(m, TY_I32));
	x->b = build_before(root);
	Value *w = diagonals(x, v);
	Value *spread_out = op_make(&x->b, OP_GATHER, (Value *[]){w, at}, 2, &axis, 1, NULL, 0)->out;
	value_replace(v, build_reshape(&x->b, spread_out, 2, x->extent));
}

/* ---- the kernel ---- */

/* Is it a tile of floats of which an op that is no diagonal's takes elements? */
static bool
is_root(Diagonal *x, Func *f, const Op *op)
{
	const Value *v = &op->out[0];
	const Type *t = v->type;
	if (op->nout != 1 || t->kind != TYPE_TILE || t->rank != 2 || t->ptr != PTR_NONE || !dtype_is_float(t->elem) ||
	    dtype_info[t->elem].bits > 32 || dtype_info[t->elem].bits < 16 || type_count(t) < LEAST_ELEMENTS ||
	    t->extent[0] % BAND || !is_power_of_two(t->extent[0]) || !is_power_of_two(t->extent[1]) || v->nuses == 0)
		return false;
	func_number(f);
	Arena *tmp = f->module->cx->tmp;
	int64_t crossed = BAND + t->extent[1];
	*x = (Diagonal){.m = f->module, .extent = {t->extent[0], t->extent[1]},
		.known = NEW_ARRAY(tmp, bool, f->nvalues), .is = NEW_ARRAY(tmp, bool, f->nvalues),
		.map = NEW_ARRAY(tmp, Value *, f->nvalues)};
	x->shape = type_with_shape(f->module, t, 2, (int64_t[]){t->extent[0] / BAND, INT64_C(1) << log2_ceil(crossed - 1)});
	return follows(x, v, 0) && x->cost >= COST_LEAST;
}

static void
visit(Func *f, Block *body)
{
	Diagonal x;
	bool changed = false;
	for (Op *op = body->last, *prev; op; op = prev) {       /* roots before what they are made of */
		prev = op->prev;
		bool may_go = changed && op->nregion == 0 && (op_has(op, PURE) || op->kind == OP_READ);
		if (may_go && ALL_OF(i, op->nout, op->out[i].nuses == 0)) {
			op_erase(op);
		} else if ((op->kind == OP_READ || op_has(op, ELEM)) && is_root(&x, f, op)) {
			rewrite(&x, op, body->parent);
			op_erase(op);
			changed = true;
		}
	}
}

void
pass_diagonal(Func *f, const Target *t)
{
	if (!(t->has & HAS_WGMMA))
		return;
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_loop = op->kind == OP_FOR && ANY_OP_HERE(in, op->region[0], in->kind == OP_DOT);
		if (is_loop)
			visit(f, op->region[0]);
	}
}
