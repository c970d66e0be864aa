/* What a random kernel computes: constants and values in sight, and the families of ops that touch no memory and own
 * no control but a reduction's.  Floats are never looked at as bits: the sign and payload of a NaN are free. */
#include "gen_value.h"

#include <math.h>
#include <string.h>

int
gen_pick(Gen *g, int n)
{
	return bytes_pick(&g->bytes, n);
}

Value *
gen_keep(Gen *g, Value *v)
{
	if (v->type->kind != TYPE_TILE || type_count(v->type) > MAX_TILE)
		return v;
	if (g->n < MAX_VALUES)
		g->value[g->n++] = v;
	return v;
}

static const DType dtypes[] = {TY_F32, TY_I32, TY_I64, TY_BOOL, TY_F16, TY_BF16, TY_F64, TY_I8, TY_U8, TY_I16,
    TY_U16, TY_U32, TY_U64, TY_F8E4M3, TY_F8E5M2};

DType
gen_pick_dtype(Gen *g)
{
	return dtypes[gen_pick(g, LEN(dtypes))];
}

static int
pick_shape(Gen *g, int64_t *extent)
{
	static const int64_t some[] = {4, 1, 2, 3, 8, 5};
	int rank = gen_pick(g, 4);

	for (int i = 0; i < rank; i++)
		extent[i] = gen_pick(g, 40) == 39 ? 0 : some[gen_pick(g, rank == 3 ? 4 : LEN(some))];
	return rank;
}

static const Type *
pick_type(Gen *g)
{
	int64_t extent[MAX_RANK];
	int rank = pick_shape(g, extent);

	return type_tile(g->m, gen_pick_dtype(g), rank, extent);
}

Value *
gen_constant(Gen *g, const Type *t)
{
	static const double reals[] = {0.0, 1.0, -0.0, 2.0, -1.0, 0.5, INFINITY, -INFINITY, NAN, 1e-3, 3.0, 65504.0, 1e30};
	static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 8, 31, 32, 63, 64, 100, -128, INT32_MIN, INT64_MIN, INT64_MAX};

	if (dtype_is_float(t->elem))
		return gen_keep(g, build_float(&g->b, t, reals[gen_pick(g, LEN(reals))]));
	return gen_keep(g, build_int(&g->b, t, ints[gen_pick(g, LEN(ints))]));
}

Value *
gen_scalar_int(Gen *g, int64_t v)
{
	return build_int(&g->b, type_scalar(g->m, TY_I64), v);
}

Value *
gen_any(Gen *g)
{
	return g->n ? g->value[g->n - 1 - gen_pick(g, g->n)] : gen_constant(g, pick_type(g));
}

/* A value of type t: one in sight, or a constant. */
Value *
gen_of_type(Gen *g, const Type *t)
{
	int from = gen_pick(g, g->n + 1);

	for (int i = 0; i < g->n; i++) {
		Value *v = g->value[(from + i) % g->n];
		if (v->type == t)
			return v;
	}
	return gen_constant(g, t);
}

static Value *
of_rank(Gen *g, int least)
{
	for (int i = 0, from = gen_pick(g, g->n + 1); i < g->n; i++) {
		Value *v = g->value[(from + i) % g->n];
		if (v->type->rank >= least)
			return v;
	}
	return gen_constant(g, type_tile(g->m, gen_pick_dtype(g), least, (int64_t[]){4, 3, 2, 2, 1}));
}

Value *
gen_as(Gen *g, Value *v, DType t)
{
	return v->type->elem == t ? v : build1(&g->b, OP_CAST, v, type_with_elem(g->m, v->type, t));
}

Value *
gen_op1(Gen *g, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr, const Type *want)
{
	return gen_keep(g, &op_make(&g->b, kind, in, nin, attr, nattr, &want, want ? 1 : 0)->out[0]);
}

/* ---- families ---- */

void
gen_elementwise(Gen *g)
{
	static const OpKind real[] = {OP_ADD, OP_MUL, OP_SUB, OP_DIV, OP_NEG, OP_ABS, OP_MIN, OP_MAX, OP_EXP, OP_SQRT, OP_FLOOR,
	    OP_ROUND, OP_TRUNC, OP_CEIL, OP_TANH, OP_REM, OP_POW, OP_FMA, OP_EQ, OP_LT, OP_NE, OP_GE};
	static const OpKind integer[] = {OP_ADD, OP_MUL, OP_SUB, OP_DIV, OP_NEG, OP_ABS, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR,
	    OP_NOT, OP_SHL, OP_SHR, OP_REM, OP_FLOORDIV, OP_CDIV, OP_UMULHI, OP_POPCOUNT, OP_CLZ, OP_EQ, OP_NE, OP_LT, OP_LE,
	    OP_GT, OP_GE};
	static const OpKind boolean[] = {OP_AND, OP_OR, OP_XOR, OP_NOT, OP_EQ, OP_NE};
	Value *x = gen_any(g), *in[3] = {x, NULL, NULL};
	DType t = x->type->elem;
	OpKind kind = dtype_is_float(t) ? real[gen_pick(g, LEN(real))]
	    : t == TY_BOOL              ? boolean[gen_pick(g, LEN(boolean))]
					: integer[gen_pick(g, LEN(integer))];
	Attr nan = attr_new_propagate_nan(g->m, true);
	bool with_nan = (kind == OP_MIN || kind == OP_MAX) && gen_pick(g, 3) == 1;

	for (int i = 1; i < op_info[kind].nin; i++)
		in[i] = gen_pick(g, 3) == 1 ? gen_constant(g, x->type) : gen_of_type(g, x->type);
	if (op_info[kind].nin == 2 && gen_pick(g, 4) == 1) {
		in[0] = in[1];
		in[1] = x;
	}
	gen_op1(g, kind, in, op_info[kind].nin, &nan, with_nan, NULL);
}

/* The same op again, or the same with the operands swapped: what common subexpressions are made of. */
void
gen_again(Gen *g)
{
	Op *op = gen_any(g)->def;
	Value *in[8];
	const Type *want[1];

	if (!op || op->nin > LEN(in) || op->nregion || op->nout != 1 || (op_info[op->kind].traits & (WRITES | EFFECT)))
		return;
	for (int i = 0; i < op->nin; i++)
		in[i] = op->in[i];
	if (op->nin == 2 && in[0]->type == in[1]->type && gen_pick(g, 3) == 1) {
		in[0] = op->in[1];
		in[1] = op->in[0];
	}
	want[0] = op->out[0].type;
	gen_keep(g, &op_make(&g->b, op->kind, in, op->nin, op->attr, op->nattr, want, 1)->out[0]);
}

void
gen_casts(Gen *g)
{
	Value *x = gen_any(g);

	for (int n = 2 + gen_pick(g, 2); n > 0; n--) {
		const Type *t = type_with_elem(g->m, x->type, gen_pick_dtype(g));
		x = gen_op1(g, OP_CAST, &x, 1, NULL, 0, t);
	}
}

void
gen_select_or_cast(Gen *g)
{
	Value *x = gen_any(g);
	DType to = gen_pick_dtype(g);

	switch (gen_pick(g, 4)) {
	case 0:
		gen_op1(g, OP_CAST, &x, 1, NULL, 0, type_with_elem(g->m, x->type, to));
		break;
	case 1:
		if (dtype_is_float(x->type->elem) || dtype_is_float(to) || to == TY_BOOL ||
		    x->type->elem == TY_BOOL || dtype_info[to].bits != dtype_info[x->type->elem].bits)
			return;
		gen_op1(g, OP_BITCAST, &x, 1, NULL, 0, type_with_elem(g->m, x->type, to));
		break;
	default: {
		Value *c = gen_of_type(g, type_with_elem(g->m, x->type, TY_BOOL));
		gen_op1(g, OP_SELECT, (Value *[]){c, x, gen_of_type(g, x->type)}, 3, NULL, 0, NULL);
		break;
	}
	}
}

void
gen_fresh(Gen *g)
{
	const Type *t = pick_type(g);
	Attr axis;

	switch (gen_pick(g, 5)) {
	case 0:
		gen_constant(g, t);
		break;
	case 1:
		if (t->rank == 0 || !dtype_is_int(t->elem))
			return;
		axis = attr_new_axis(g->m, gen_pick(g, t->rank));
		gen_op1(g, OP_IOTA, NULL, 0, &axis, 1, t);
		break;
	case 2:
		axis = attr_new_axis(g->m, gen_pick(g, 2));
		gen_op1(g, gen_pick(g, 2) ? OP_NUM_PROGRAMS : OP_PROGRAM_ID, NULL, 0, &axis, 1, NULL);
		break;
	default: {
		Value *x = &g->f->body->arg[gen_pick(g, GEN_TENSORS)];
		axis = attr_new_axis(g->m, gen_pick(g, 2));
		gen_op1(g, gen_pick(g, 3) == 1 ? OP_STRIDE : OP_DIM, &x, 1, &axis, 1, NULL);
		break;
	}
	}
}

void
gen_reshape(Gen *g)
{
	Value *x = gen_any(g);
	int64_t n = type_count(x->type), extent[2] = {n, 1};

	if (x->type->rank == 0 && gen_pick(g, 2) == 1) {
		gen_op1(g, OP_RESHAPE, &x, 1, NULL, 0, type_with_shape(g->m, x->type, gen_pick(g, 3), (int64_t[]){1, 1}));
		return;
	}
	for (int i = 2; i <= 4; i++)
		if (n % i == 0 && gen_pick(g, 2)) {
			extent[0] = n / i;
			extent[1] = i;
		}
	int rank = extent[1] > 1 ? 2 : 1 + gen_pick(g, 2);
	gen_op1(g, OP_RESHAPE, &x, 1, NULL, 0, type_with_shape(g->m, x->type, rank, extent));
}

void
gen_broadcast(Gen *g)
{
	Value *x = gen_any(g);
	int64_t extent[MAX_RANK];
	int rank = x->type->rank;

	if (rank == 0) {
		rank = pick_shape(g, extent);
	} else {
		for (int i = 0; i < rank; i++)
			extent[i] = x->type->extent[i] == 1 ? 1 + gen_pick(g, 4) : x->type->extent[i];
	}
	const Type *t = type_with_shape(g->m, x->type, rank, extent);
	if (type_count(t) <= MAX_TILE)
		gen_op1(g, OP_BROADCAST, &x, 1, NULL, 0, t);
}

void
gen_permute(Gen *g)
{
	Value *x = of_rank(g, 2);
	int64_t dims[MAX_RANK];

	for (int i = 0; i < x->type->rank; i++)
		dims[i] = i;
	for (int i = 0; i + 1 < x->type->rank; i++) {
		int k = i + gen_pick(g, x->type->rank - i);
		int64_t d = dims[i];
		dims[i] = dims[k];
		dims[k] = d;
	}
	Attr a = attr_new_dims(g->m, dims, x->type->rank);
	gen_op1(g, OP_PERMUTE, &x, 1, &a, 1, NULL);
}

void
gen_extract(Gen *g)
{
	Value *x = of_rank(g, 1), *in[1 + MAX_RANK] = {x};
	int64_t extents[MAX_RANK];
	char index[MAX_RANK + 1] = "";
	int n = 0;

	for (int d = 0; d < x->type->rank; d++) {
		int most = (int)x->type->extent[d];
		bool part = gen_pick(g, 3) > 0 || most == 0;
		index[d] = part ? 'p' : 'i';
		if (part)
			extents[n++] = most ? 1 + gen_pick(g, most) : 0;
		in[1 + d] = gen_pick(g, 2) ? gen_of_type(g, type_scalar(g->m, TY_I64)) : gen_scalar_int(g, gen_pick(g, 9) - 4);
	}
	Attr a[] = {attr_new_index(g->m, index), attr_new_extents(g->m, extents, n)};
	gen_op1(g, OP_EXTRACT, in, 1 + x->type->rank, a, 2, NULL);
}

void
gen_combine(Gen *g)
{
	Value *x = of_rank(g, 1);
	int axis = gen_pick(g, x->type->rank);
	Attr a = attr_new_axis(g->m, axis);

	switch (gen_pick(g, 4)) {
	case 0:
		gen_op1(g, OP_FLIP, &x, 1, &a, 1, NULL);
		break;
	case 1:
		gen_op1(g, OP_CAT, (Value *[]){x, gen_of_type(g, x->type)}, 1 + gen_pick(g, 2), &a, 1, NULL);
		break;
	case 2:
		if (x->type->rank < KERNEL_RANK && type_count(x->type) * 2 <= MAX_TILE)
			gen_op1(g, OP_JOIN, (Value *[]){x, gen_of_type(g, x->type)}, 2, NULL, 0, NULL);
		break;
	default:
		if (x->type->extent[x->type->rank - 1] == 2) {
			Op *op = op_make(&g->b, OP_SPLIT, &x, 1, NULL, 0, NULL, 0);
			gen_keep(g, &op->out[0]);
			gen_keep(g, &op->out[1]);
		}
		break;
	}
}

void
gen_reduce(Gen *g)
{
	static const char *const fn[] = {"sum", "max", "min", "argmax", "argmin", "prod", "xor_sum", "any", "all"};
	Value *x = of_rank(g, 1);
	const char *name = fn[gen_pick(g, LEN(fn))];
	Attr a[] = {attr_new_fn(g->m, name), attr_new_axis(g->m, gen_pick(g, x->type->rank)),
	    attr_new_propagate_nan(g->m, true)};

	if (strcmp(name, "any") == 0 || strcmp(name, "all") == 0)
		x = gen_as(g, x, TY_BOOL);
	if (strcmp(name, "xor_sum") == 0 && dtype_is_float(x->type->elem))
		x = gen_as(g, x, TY_I32);
	if (x->type->elem == TY_BOOL && (name[0] == 'm' || name[0] == 's' || name[0] == 'p' || strncmp(name, "arg", 3) == 0))
		x = gen_as(g, x, TY_U8);
	if (strncmp(name, "arg", 3) == 0 && type_count(x->type) == 0)
		return;
	if (gen_pick(g, 4) == 1 && (name[0] == 's' || name[0] == 'p' || name[0] == 'm')) {
		Attr scan[] = {a[0], a[1], attr_new_reverse(g->m, gen_pick(g, 2))};
		gen_op1(g, OP_SCAN, &x, 1, scan, 3, NULL);
		return;
	}
	gen_op1(g, OP_REDUCE, &x, 1, a, 2 + (name[0] == 'm' && gen_pick(g, 3) == 1), NULL);
}

/* if a > b then x else x, by a branch that has something in it. */
static Value *
greater(Gen *g, Value *x, Value *a, Value *b)
{
	Value *c = build2(&g->b, OP_GT, a, b);
	Op *op = op_make_regions(&g->b, OP_IF, &c, 1, NULL, 0, &x->type, 1, 2);
	Builder outer = g->b;

	for (int r = 0; r < 2; r++) {
		op->region[r] = block_make(g->f, op, NULL, 0);
		g->b = (Builder){.m = g->m, .block = op->region[r], .place = NOWHERE};
		Value *out = build2(&g->b, OP_ADD, x, build_int(&g->b, x->type, 0));
		build_yield(&g->b, &out, 1);
	}
	g->b = outer;
	return &op->out[0];
}

/* A reduction or scan of one or two tiles by adds, mins and so on. */
void
gen_reduce_fn(Gen *g)
{
	Value *in[2] = {of_rank(g, 1), NULL};
	int n = 1 + gen_pick(g, 2);
	Attr axis = attr_new_axis(g->m, gen_pick(g, in[0]->type->rank));
	const Type *arg[4];

	in[1] = gen_of_type(g, type_with_elem(g->m, in[0]->type, gen_pick(g, 2) ? TY_I32 : TY_F32));
	if (in[0]->type->elem == TY_BOOL)
		in[0] = gen_as(g, in[0], TY_I32);
	Op *op = op_make_regions(&g->b, gen_pick(g, 2) ? OP_SCAN_FN : OP_REDUCE_FN, in, n, &axis, 1, NULL, 0, 1);
	for (int i = 0; i < n; i++)
		arg[i] = arg[i + n] = type_scalar(g->m, in[i]->type->elem);
	Block *body = op->region[0] = block_make(g->f, op, arg, 2 * n);
	Builder outer = g->b;
	Value *out[2];
	g->b = (Builder){.m = g->m, .block = body, .place = NOWHERE};
	for (int i = 0; i < n; i++) {
		Value *a = &body->arg[i], *b = &body->arg[i + n];
		OpKind kind = gen_pick(g, 2) ? OP_ADD : OP_MAX;
		out[i] = build2(&g->b, kind, a, b);
		if (gen_pick(g, 3) == 1)
			out[i] = build2(&g->b, OP_ADD, out[i], build_int(&g->b, a->type, 0));
		if (gen_pick(g, 4) == 1)
			out[i] = greater(g, out[i], a, b);
	}
	build_yield(&g->b, out, n);
	g->b = outer;
	for (int i = 0; i < n; i++)
		gen_keep(g, &op->out[i]);
}

/* Into a tile of x's shape.  Floats are not added: the order of a device's additions is its own. */
static void
gen_scatter(Gen *g, Value *x, int axis)
{
	static const char *const fns[] = {"set", "max", "min", "add"};
	const char *fn = fns[gen_pick(g, dtype_is_float(x->type->elem) ? 3 : 4)];
	Attr a[] = {attr_new_axis(g->m, axis), attr_new_fn(g->m, fn)};
	Value *in[] = {x, gen_of_type(g, type_with_elem(g->m, x->type, TY_I32)), gen_of_type(g, x->type)};
	gen_op1(g, OP_SCATTER, in, 3, a, 2, NULL);
}

void
gen_order(Gen *g)
{
	Value *x = of_rank(g, 1);
	int axis = gen_pick(g, x->type->rank), most = (int)x->type->extent[axis];
	Attr a[] = {attr_new_axis(g->m, axis), attr_new_descending(g->m, gen_pick(g, 2)),
	    attr_new_k(g->m, most ? 1 + gen_pick(g, most) : 0), attr_new_bins(g->m, 1 + gen_pick(g, 8))};

	if (x->type->elem == TY_BOOL)
		x = gen_as(g, x, TY_I32);
	switch (gen_pick(g, 5)) {
	case 4:
		gen_scatter(g, x, axis);
		break;
	case 0: {
		bool indices = gen_pick(g, 2);
		Attr s[] = {a[0], a[1], attr_new_indices(g->m, true)};
		Op *op = op_make(&g->b, OP_SORT, &x, 1, s, 2 + indices, NULL, 0);
		gen_keep(g, &op->out[0]);
		if (indices)
			gen_keep(g, &op->out[1]);
		break;
	}
	case 1: {
		Op *op = op_make(&g->b, OP_TOPK, &x, 1, (Attr[]){a[0], a[2]}, 2, NULL, 0);
		gen_keep(g, &op->out[0]);
		gen_keep(g, &op->out[1]);
		break;
	}
	case 2:
		x = gen_as(g, x, TY_I32);
		gen_op1(g, OP_HISTOGRAM, &x, 1, &a[3], 1, NULL);
		break;
	default:
		gen_op1(g, OP_GATHER, (Value *[]){x, gen_of_type(g, type_with_elem(g->m, x->type, TY_I32))}, 2, a, 1, NULL);
		break;
	}
}

/* An accumulator.  A zero's sign is not a dot's to keep (what stands beyond K is added too): plus 0.0 it is no -0.0. */
Value *
gen_acc(Gen *g, const Type *t)
{
	Value *acc = gen_of_type(g, t);

	return dtype_is_float(t->elem) ? build2(&g->b, OP_ADD, acc, build_float(&g->b, t, 0.0)) : acc;
}

/* Only a value in which every zero is positive comes in sight: which sign a zero of a product of matrices has is not
 * fixed, and a padded one, or one of another order, has another where a product underflows. */
void
gen_product(Gen *g, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr)
{
	Value *v = &op_make(&g->b, kind, in, nin, attr, nattr, NULL, 0)->out[0];

	if (dtype_is_float(v->type->elem)) {
		Attr zero = attr_float_value(0);
		Value *none = &op_make(&g->b, OP_CONST, NULL, 0, &zero, 1, (const Type *[]){v->type}, 1)->out[0];
		Value *is_none = &op_make(&g->b, OP_EQ, (Value *[]){v, none}, 2, NULL, 0, NULL, 0)->out[0];
		v = &op_make(&g->b, OP_SELECT, (Value *[]){is_none, none, v}, 3, NULL, 0, NULL, 0)->out[0];
	}
	gen_keep(g, v);
}

void
gen_dot(Gen *g)
{
	Value *x = of_rank(g, 2);
	const Type *t = x->type;
	bool is_float = dtype_is_float(t->elem);
	int64_t extent[MAX_RANK];

	if (t->elem == TY_BOOL)
		x = gen_as(g, x, TY_I8);
	memcpy(extent, t->extent, sizeof extent);
	extent[t->rank - 2] = t->extent[t->rank - 1];
	extent[t->rank - 1] = 1 + gen_pick(g, 4);
	Value *y = gen_of_type(g, type_tile(g->m, x->type->elem, t->rank, extent));
	extent[t->rank - 2] = t->extent[t->rank - 2];
	Value *acc = gen_acc(g, type_tile(g->m, is_float ? TY_F32 : TY_I32, t->rank, extent));
	gen_product(g, OP_DOT, (Value *[]){x, y, acc}, 3, NULL, 0);
}
