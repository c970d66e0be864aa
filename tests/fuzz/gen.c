/* Builds a random kernel through the builder, so that only well-typed IR can come out.
 *
 * Values in sight are kept in a list; each step picks an op family and operands from the list, making
 * constants where no value fits.  Tiles stay small.  At the end some values are written to the output
 * tensors, so that what was computed matters.  Floats are never looked at as bits (the sign and
 * payload of a NaN are free) and loads and stores through pointers are wrapped into their buffers. */
#include "gen.h"

#include <math.h>
#include <string.h>

enum { MAX_VALUES = 400, MAX_OPS = 120, MAX_DEPTH = 3, MAX_TILE = 256 };

typedef struct Gen {
	Bytes bytes;
	Module *m;
	Func *f;
	Builder b;
	Value *value[MAX_VALUES];
	int n;
	int nops;
	int depth;
} Gen;

static int
pick(Gen *g, int n)
{
	return bytes_pick(&g->bytes, n);
}

DType
gen_tensor_type(int i)
{
	static const DType type[GEN_TENSORS] = {TY_F32, TY_I32, TY_F16, TY_F32, TY_I64, TY_U8};

	return type[i];
}

Access
gen_tensor_access(int i)
{
	static const Access access[GEN_TENSORS] = {ACCESS_IN, ACCESS_IN, ACCESS_INOUT, ACCESS_OUT, ACCESS_OUT,
	    ACCESS_INOUT};

	return access[i];
}

static Value *
keep(Gen *g, Value *v)
{
	if (v->type->kind != TYPE_TILE || type_count(v->type) > MAX_TILE)
		return v;
	if (g->n < MAX_VALUES)
		g->value[g->n++] = v;
	return v;
}

/* ---- types and constants ---- */

static const DType dtypes[] = {TY_F32, TY_I32, TY_I64, TY_BOOL, TY_F16, TY_BF16, TY_F64, TY_I8, TY_U8, TY_I16,
    TY_U16, TY_U32, TY_U64, TY_F8E4M3, TY_F8E5M2};

static DType
pick_dtype(Gen *g)
{
	return dtypes[pick(g, LEN(dtypes))];
}

static int
pick_shape(Gen *g, int64_t *extent)
{
	static const int64_t some[] = {4, 1, 2, 3, 8, 5};
	int rank = pick(g, 4);

	for (int i = 0; i < rank; i++)
		extent[i] = some[pick(g, rank == 3 ? 4 : LEN(some))];
	return rank;
}

static const Type *
pick_type(Gen *g)
{
	int64_t extent[MAX_RANK];
	int rank = pick_shape(g, extent);

	return type_tile(g->m, pick_dtype(g), rank, extent);
}

static Value *
constant(Gen *g, const Type *t)
{
	static const double reals[] = {0.0, 1.0, -0.0, 2.0, -1.0, 0.5, INFINITY, -INFINITY, NAN, 1e-3, 3.0, 65504.0, 1e30};
	static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 8, 31, 32, 63, 64, 100, -128, INT32_MIN, INT64_MIN, INT64_MAX};

	if (dtype_is_float(t->elem))
		return keep(g, build_float(&g->b, t, reals[pick(g, LEN(reals))]));
	return keep(g, build_int(&g->b, t, ints[pick(g, LEN(ints))]));
}

static Value *
scalar_int(Gen *g, int64_t v)
{
	return build_int(&g->b, type_scalar(g->m, TY_I64), v);
}

static Value *
any(Gen *g)
{
	return g->n ? g->value[g->n - 1 - pick(g, g->n)] : constant(g, pick_type(g));
}

/* A value of type t: one in sight, or a constant. */
static Value *
of_type(Gen *g, const Type *t)
{
	int from = pick(g, g->n + 1);

	for (int i = 0; i < g->n; i++) {
		Value *v = g->value[(from + i) % g->n];
		if (v->type == t)
			return v;
	}
	return constant(g, t);
}

static Value *
of_rank(Gen *g, int least)
{
	for (int i = 0, from = pick(g, g->n + 1); i < g->n; i++) {
		Value *v = g->value[(from + i) % g->n];
		if (v->type->rank >= least)
			return v;
	}
	return constant(g, type_tile(g->m, pick_dtype(g), least, (int64_t[]){4, 3, 2, 2, 1}));
}

static Value *
as(Gen *g, Value *v, DType t)
{
	return v->type->elem == t ? v : build1(&g->b, OP_CAST, v, type_with_elem(g->m, v->type, t));
}

static Value *
op1(Gen *g, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr, const Type *want)
{
	return keep(g, &op_make(&g->b, kind, in, nin, attr, nattr, &want, want ? 1 : 0)->out[0]);
}

/* ---- families ---- */

static void
elementwise(Gen *g)
{
	static const OpKind real[] = {OP_ADD, OP_MUL, OP_SUB, OP_DIV, OP_NEG, OP_ABS, OP_MIN, OP_MAX, OP_EXP, OP_SQRT, OP_FLOOR,
	    OP_ROUND, OP_TRUNC, OP_CEIL, OP_TANH, OP_REM, OP_POW, OP_FMA, OP_EQ, OP_LT, OP_NE, OP_GE};
	static const OpKind integer[] = {OP_ADD, OP_MUL, OP_SUB, OP_DIV, OP_NEG, OP_ABS, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR,
	    OP_NOT, OP_SHL, OP_SHR, OP_REM, OP_FLOORDIV, OP_CDIV, OP_UMULHI, OP_POPCOUNT, OP_CLZ, OP_EQ, OP_NE, OP_LT, OP_LE,
	    OP_GT, OP_GE};
	static const OpKind boolean[] = {OP_AND, OP_OR, OP_XOR, OP_NOT, OP_EQ, OP_NE};
	Value *x = any(g), *in[3] = {x, NULL, NULL};
	DType t = x->type->elem;
	OpKind kind = dtype_is_float(t) ? real[pick(g, LEN(real))]
	    : t == TY_BOOL              ? boolean[pick(g, LEN(boolean))]
					: integer[pick(g, LEN(integer))];
	Attr nan = attr_bool(g->m, "propagate_nan", true);
	bool with_nan = (kind == OP_MIN || kind == OP_MAX) && pick(g, 3) == 1;

	for (int i = 1; i < op_info[kind].nin; i++)
		in[i] = pick(g, 3) == 1 ? constant(g, x->type) : of_type(g, x->type);
	if (op_info[kind].nin == 2 && pick(g, 4) == 1) {
		in[0] = in[1];
		in[1] = x;
	}
	op1(g, kind, in, op_info[kind].nin, &nan, with_nan, NULL);
}

/* The same op again, or the same with the operands swapped: what common subexpressions are made of. */
static void
again(Gen *g)
{
	Op *op = any(g)->def;
	Value *in[8];
	const Type *want[1];

	if (!op || op->nin > LEN(in) || op->nregion || op->nout != 1 || (op_info[op->kind].traits & (WRITES | EFFECT)))
		return;
	for (int i = 0; i < op->nin; i++)
		in[i] = op->in[i];
	if (op->nin == 2 && in[0]->type == in[1]->type && pick(g, 3) == 1) {
		in[0] = op->in[1];
		in[1] = op->in[0];
	}
	want[0] = op->out[0].type;
	keep(g, &op_make(&g->b, op->kind, in, op->nin, op->attr, op->nattr, want, 1)->out[0]);
}

static void
casts(Gen *g)
{
	Value *x = any(g);

	for (int n = 2 + pick(g, 2); n > 0; n--) {
		const Type *t = type_with_elem(g->m, x->type, pick_dtype(g));
		x = op1(g, OP_CAST, &x, 1, NULL, 0, t);
	}
}

static void
select_or_cast(Gen *g)
{
	Value *x = any(g);
	DType to = pick_dtype(g);

	switch (pick(g, 4)) {
	case 0:
		op1(g, OP_CAST, &x, 1, NULL, 0, type_with_elem(g->m, x->type, to));
		break;
	case 1:
		if (dtype_is_float(x->type->elem) || dtype_is_float(to) || to == TY_BOOL ||
		    x->type->elem == TY_BOOL || dtype_info[to].bits != dtype_info[x->type->elem].bits)
			return;
		op1(g, OP_BITCAST, &x, 1, NULL, 0, type_with_elem(g->m, x->type, to));
		break;
	default: {
		Value *c = of_type(g, type_with_elem(g->m, x->type, TY_BOOL));
		op1(g, OP_SELECT, (Value *[]){c, x, of_type(g, x->type)}, 3, NULL, 0, NULL);
		break;
	}
	}
}

static void
fresh(Gen *g)
{
	const Type *t = pick_type(g);
	Attr axis;

	switch (pick(g, 5)) {
	case 0:
		constant(g, t);
		break;
	case 1:
		if (t->rank == 0 || !dtype_is_int(t->elem))
			return;
		axis = attr_int(g->m, "axis", pick(g, t->rank));
		op1(g, OP_IOTA, NULL, 0, &axis, 1, t);
		break;
	case 2:
		axis = attr_int(g->m, "axis", pick(g, 2));
		op1(g, pick(g, 2) ? OP_NUM_PROGRAMS : OP_PROGRAM_ID, NULL, 0, &axis, 1, NULL);
		break;
	default: {
		Value *x = &g->f->body->arg[pick(g, GEN_TENSORS)];
		axis = attr_int(g->m, "axis", pick(g, 2));
		op1(g, pick(g, 3) == 1 ? OP_STRIDE : OP_DIM, &x, 1, &axis, 1, NULL);
		break;
	}
	}
}

static void
reshape(Gen *g)
{
	Value *x = any(g);
	int64_t n = type_count(x->type), extent[2] = {n, 1};

	if (x->type->rank == 0 && pick(g, 2) == 1) {
		op1(g, OP_RESHAPE, &x, 1, NULL, 0, type_with_shape(g->m, x->type, pick(g, 3), (int64_t[]){1, 1}));
		return;
	}
	for (int i = 2; i <= 4; i++)
		if (n % i == 0 && pick(g, 2)) {
			extent[0] = n / i;
			extent[1] = i;
		}
	int rank = extent[1] > 1 ? 2 : 1 + pick(g, 2);
	op1(g, OP_RESHAPE, &x, 1, NULL, 0, type_with_shape(g->m, x->type, rank, extent));
}

static void
broadcast(Gen *g)
{
	Value *x = any(g);
	int64_t extent[MAX_RANK];
	int rank = x->type->rank;

	if (rank == 0) {
		rank = pick_shape(g, extent);
	} else {
		for (int i = 0; i < rank; i++)
			extent[i] = x->type->extent[i] == 1 ? 1 + pick(g, 4) : x->type->extent[i];
	}
	const Type *t = type_with_shape(g->m, x->type, rank, extent);
	if (type_count(t) <= MAX_TILE)
		op1(g, OP_BROADCAST, &x, 1, NULL, 0, t);
}

static void
permute(Gen *g)
{
	Value *x = of_rank(g, 2);
	int64_t dims[MAX_RANK];

	for (int i = 0; i < x->type->rank; i++)
		dims[i] = i;
	for (int i = 0; i + 1 < x->type->rank; i++) {
		int k = i + pick(g, x->type->rank - i);
		int64_t d = dims[i];
		dims[i] = dims[k];
		dims[k] = d;
	}
	Attr a = attr_ints(g->m, "dims", dims, x->type->rank);
	op1(g, OP_PERMUTE, &x, 1, &a, 1, NULL);
}

static void
extract(Gen *g)
{
	Value *x = of_rank(g, 1), *in[1 + MAX_RANK] = {x};
	int64_t extents[MAX_RANK];
	char index[MAX_RANK + 1] = "";
	int n = 0;

	for (int d = 0; d < x->type->rank; d++) {
		bool part = pick(g, 3) > 0;
		index[d] = part ? 'p' : 'i';
		if (part)
			extents[n++] = 1 + pick(g, (int)x->type->extent[d]);
		in[1 + d] = pick(g, 2) ? of_type(g, type_scalar(g->m, TY_I64)) : scalar_int(g, pick(g, 9) - 4);
	}
	Attr a[] = {attr_text(g->m, "index", index), attr_ints(g->m, "extents", extents, n)};
	op1(g, OP_EXTRACT, in, 1 + x->type->rank, a, 2, NULL);
}

static void
combine(Gen *g)
{
	Value *x = of_rank(g, 1);
	int axis = pick(g, x->type->rank);
	Attr a = attr_int(g->m, "axis", axis);

	switch (pick(g, 4)) {
	case 0:
		op1(g, OP_FLIP, &x, 1, &a, 1, NULL);
		break;
	case 1:
		op1(g, OP_CAT, (Value *[]){x, of_type(g, x->type)}, 1 + pick(g, 2), &a, 1, NULL);
		break;
	case 2:
		if (x->type->rank < MAX_RANK && type_count(x->type) * 2 <= MAX_TILE)
			op1(g, OP_JOIN, (Value *[]){x, of_type(g, x->type)}, 2, NULL, 0, NULL);
		break;
	default:
		if (x->type->extent[x->type->rank - 1] == 2) {
			Op *op = op_make(&g->b, OP_SPLIT, &x, 1, NULL, 0, NULL, 0);
			keep(g, &op->out[0]);
			keep(g, &op->out[1]);
		}
		break;
	}
}

static void
reduce(Gen *g)
{
	static const char *const fn[] = {"sum", "max", "min", "argmax", "argmin", "prod", "xor_sum", "any", "all"};
	Value *x = of_rank(g, 1);
	const char *name = fn[pick(g, LEN(fn))];
	Attr a[] = {attr_text(g->m, "fn", name), attr_int(g->m, "axis", pick(g, x->type->rank)),
	    attr_bool(g->m, "propagate_nan", true)};

	if (strcmp(name, "any") == 0 || strcmp(name, "all") == 0)
		x = as(g, x, TY_BOOL);
	if (strcmp(name, "xor_sum") == 0 && dtype_is_float(x->type->elem))
		x = as(g, x, TY_I32);
	if (x->type->elem == TY_BOOL && (name[0] == 'm' || name[0] == 's' || name[0] == 'p' || strncmp(name, "arg", 3) == 0))
		x = as(g, x, TY_U8);
	if (pick(g, 4) == 1 && (name[0] == 's' || name[0] == 'p' || name[0] == 'm')) {
		Attr scan[] = {a[0], a[1], attr_bool(g->m, "reverse", pick(g, 2))};
		op1(g, OP_SCAN, &x, 1, scan, 3, NULL);
		return;
	}
	op1(g, OP_REDUCE, &x, 1, a, 2 + (name[0] == 'm' && pick(g, 3) == 1), NULL);
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
static void
reduce_fn(Gen *g)
{
	Value *in[2] = {of_rank(g, 1), NULL};
	int n = 1 + pick(g, 2);
	Attr axis = attr_int(g->m, "axis", pick(g, in[0]->type->rank));
	const Type *arg[4];

	in[1] = of_type(g, type_with_elem(g->m, in[0]->type, pick(g, 2) ? TY_I32 : TY_F32));
	if (in[0]->type->elem == TY_BOOL)
		in[0] = as(g, in[0], TY_I32);
	Op *op = op_make_regions(&g->b, pick(g, 2) ? OP_SCAN_FN : OP_REDUCE_FN, in, n, &axis, 1, NULL, 0, 1);
	for (int i = 0; i < n; i++)
		arg[i] = arg[i + n] = type_scalar(g->m, in[i]->type->elem);
	Block *body = op->region[0] = block_make(g->f, op, arg, 2 * n);
	Builder outer = g->b;
	Value *out[2];
	g->b = (Builder){.m = g->m, .block = body, .place = NOWHERE};
	for (int i = 0; i < n; i++) {
		Value *a = &body->arg[i], *b = &body->arg[i + n];
		OpKind kind = pick(g, 2) ? OP_ADD : OP_MAX;
		out[i] = build2(&g->b, kind, a, b);
		if (pick(g, 3) == 1)
			out[i] = build2(&g->b, OP_ADD, out[i], build_int(&g->b, a->type, 0));
		if (pick(g, 4) == 1)
			out[i] = greater(g, out[i], a, b);
	}
	build_yield(&g->b, out, n);
	g->b = outer;
	for (int i = 0; i < n; i++)
		keep(g, &op->out[i]);
}

static void
order(Gen *g)
{
	Value *x = of_rank(g, 1);
	int axis = pick(g, x->type->rank);
	Attr a[] = {attr_int(g->m, "axis", axis), attr_bool(g->m, "descending", pick(g, 2)),
	    attr_int(g->m, "k", 1 + pick(g, (int)x->type->extent[axis])), attr_int(g->m, "bins", 1 + pick(g, 8))};

	if (x->type->elem == TY_BOOL)
		x = as(g, x, TY_I32);
	switch (pick(g, 4)) {
	case 0:
		op1(g, OP_SORT, &x, 1, a, 2, NULL);
		break;
	case 1: {
		Op *op = op_make(&g->b, OP_TOPK, &x, 1, (Attr[]){a[0], a[2]}, 2, NULL, 0);
		keep(g, &op->out[0]);
		keep(g, &op->out[1]);
		break;
	}
	case 2:
		x = as(g, x, TY_I32);
		op1(g, OP_HISTOGRAM, &x, 1, &a[3], 1, NULL);
		break;
	default:
		op1(g, OP_GATHER, (Value *[]){x, of_type(g, type_with_elem(g->m, x->type, TY_I32))}, 2, a, 1, NULL);
		break;
	}
}

static void
dot(Gen *g)
{
	Value *x = of_rank(g, 2);
	const Type *t = x->type;
	bool is_float = dtype_is_float(t->elem);
	int64_t extent[MAX_RANK];

	if (t->elem == TY_BOOL)
		x = as(g, x, TY_I8);
	memcpy(extent, t->extent, sizeof extent);
	extent[t->rank - 2] = t->extent[t->rank - 1];
	extent[t->rank - 1] = 1 + pick(g, 4);
	Value *y = of_type(g, type_tile(g->m, x->type->elem, t->rank, extent));
	extent[t->rank - 2] = t->extent[t->rank - 2];
	Value *acc = of_type(g, type_tile(g->m, is_float ? TY_F32 : TY_I32, t->rank, extent));
	op1(g, OP_DOT, (Value *[]){x, y, acc}, 3, NULL, 0, NULL);
}

/* ---- memory ---- */

/* Operands and attributes of an access to tensor i; returns the tile's type. */
static const Type *
access(Gen *g, int i, Value **in, Attr *attr)
{
	Value *tensor = &g->f->body->arg[i];
	int64_t extents[2];
	char index[3] = "";
	int n = 0;

	in[0] = tensor;
	for (int d = 0; d < 2; d++) {
		int what = pick(g, 4);
		index[d] = what == 1 ? 'i' : 'p';
		if (what != 1)
			extents[n++] = 1 + pick(g, 8);
		in[1 + d] = pick(g, 2) ? of_type(g, type_scalar(g->m, TY_I64)) : scalar_int(g, pick(g, 10) - 3);
	}
	if (pick(g, 6) == 1) {
		index[0] = 'g';
		in[1] = as(g, any(g), TY_I32);
		if (in[1]->type->rank == 0 || in[1]->type->rank > 2)
			in[1] = constant(g, type_tile(g->m, TY_I32, 1, (int64_t[]){3}));
		n = index[1] == 'p';
		extents[0] = 2;
	}
	attr[0] = attr_text(g->m, "index", index);
	attr[1] = attr_ints(g->m, "extents", extents, n);
	int64_t shape[MAX_RANK];
	int rank = 0;
	if (index[0] == 'g')
		for (int d = 0; d < in[1]->type->rank; d++)
			shape[rank++] = in[1]->type->extent[d];
	for (int d = 0; d < n; d++)
		shape[rank++] = extents[d];
	return type_tile(g->m, tensor->type->elem, rank, shape);
}

static void
read_tensor(Gen *g)
{
	Value *in[4];
	Attr attr[2];
	int i = pick(g, GEN_TENSORS);
	const Type *t = access(g, i, in, attr);
	int fill = pick(g, 3);

	if (type_count(t) > MAX_TILE)
		return;
	if (fill)
		in[3] = of_type(g, fill == 1 ? t : type_scalar(g->m, t->elem));
	op1(g, OP_READ, in, 3 + (fill > 0), attr, 2, NULL);
}

static void
write_tensor(Gen *g)
{
	Value *in[5];
	Attr attr[3];
	int i = pick(g, GEN_TENSORS);

	if (gen_tensor_access(i) == ACCESS_IN)
		i = 3;
	const Type *t = access(g, i, in, attr);
	if (type_count(t) > MAX_TILE)
		return;
	in[3] = of_type(g, t);
	if (pick(g, 4) == 1 && t->elem == TY_I64) {
		attr[2] = attr_text(g->m, "fn", pick(g, 2) ? "add" : "max");
		op1(g, OP_ATOMIC, in, 4, attr, 3, NULL);
		return;
	}
	op_make(&g->b, OP_WRITE, in, 4, attr, 2, NULL, 0);
}

/* Reads a corner of a tensor, writes it changed, and may read it again: a read that merges over the write shows. */
static void
update(Gen *g)
{
	int i = 2 + pick(g, GEN_TENSORS - 2);
	Value *in[4] = {&g->f->body->arg[i], scalar_int(g, 0), scalar_int(g, 0), NULL};
	Attr attr[] = {attr_text(g->m, "index", "pp"), attr_ints(g->m, "extents", (int64_t[]){2, 3}, 2)};
	Value *old = op1(g, OP_READ, in, 3, attr, 2, NULL);

	if (pick(g, 3) == 1)
		return;
	in[3] = build2(&g->b, OP_ADD, old, build_int(&g->b, old->type, 1 + pick(g, 3)));
	op_make(&g->b, OP_WRITE, in, 4, attr, 2, NULL, 0);
	if (pick(g, 2))
		op1(g, OP_READ, in, 3, attr, 2, NULL);
}

/* Pointers that stay in their buffer: base + (index & 63). */
static Value *
pointers(Gen *g, int which, const Type *shape)
{
	Value *base = &g->f->body->arg[GEN_TENSORS + which];
	const Type *t = type_with_elem(g->m, shape, TY_I32);
	Value *at = build2(&g->b, OP_AND, of_type(g, t), build_int(&g->b, t, GEN_POINTED - 1));

	if (shape->rank)
		base = build1(&g->b, OP_BROADCAST, base, type_with_shape(g->m, base->type, shape->rank, shape->extent));
	return build2(&g->b, OP_PTR_ADD, base, at);
}

static void
load_or_store(Gen *g)
{
	int which = pick(g, 2);
	const Type *shape = any(g)->type;
	const Type *t = type_with_elem(g->m, shape, which ? TY_F32 : TY_I32);
	Value *p = pointers(g, which, shape), *mask = of_type(g, type_with_elem(g->m, shape, TY_BOOL));
	Value *in[4] = {p, mask, of_type(g, t), NULL};

	switch (pick(g, 3)) {
	case 0:
		op1(g, OP_LOAD, in, 1 + pick(g, 3), NULL, 0, NULL);
		break;
	case 1:
		in[1] = in[2];
		in[2] = mask;
		op_make(&g->b, OP_STORE, in, 2 + pick(g, 2), NULL, 0, NULL, 0);
		break;
	default: {
		Attr a[] = {attr_text(g->m, "fn", "add"), attr_bool(g->m, "masked", true)};
		in[1] = in[2];
		in[2] = mask;
		op1(g, OP_ATOMIC_PTR, in, 3, a, 2, NULL);
		break;
	}
	}
}

static void
say(Gen *g)
{
	Value *x = any(g);
	Attr text = attr_text(g->m, "text", "say");

	op_make(&g->b, OP_PRINT, &x, 1, &text, 1, NULL, 0);
}

/* ---- control ---- */

static void steps(Gen *g, int n);

/* Fills a region and gives it back with a yield of `lead` (if not NULL) and values of the types. */
static void
fill(Gen *g, Block *b, bool lead, const Type *const *type, int n)
{
	Builder outer = g->b;
	int mark = g->n;
	Value *out[5];

	g->b = (Builder){.m = g->m, .block = b, .place = NOWHERE};
	for (int i = 0; i < b->narg; i++)
		keep(g, &b->arg[i]);
	g->depth++;
	steps(g, 1 + pick(g, 6));
	if (lead)
		out[0] = of_type(g, type_scalar(g->m, TY_BOOL));
	for (int i = 0; i < n; i++)
		out[lead + i] = of_type(g, type[i]);
	build_yield(&g->b, out, lead + n);
	g->depth--;
	g->n = mark;
	g->b = outer;
}

static void
branch(Gen *g)
{
	Value *c = of_type(g, type_scalar(g->m, TY_BOOL));
	int n = pick(g, 3);
	const Type *type[2];

	for (int i = 0; i < n; i++)
		type[i] = any(g)->type;
	Op *op = op_make_regions(&g->b, OP_IF, &c, 1, NULL, 0, type, n, 2);
	for (int r = 0; r < 2; r++) {
		op->region[r] = block_make(g->f, op, NULL, 0);
		fill(g, op->region[r], false, type, n);
	}
	for (int i = 0; i < n; i++)
		keep(g, &op->out[i]);
}

static void
counted(Gen *g)
{
	int n = pick(g, 4);
	const Type *type[4] = {type_scalar(g->m, TY_I64)};
	int64_t lo = pick(g, 4) - 1, trips = pick(g, 4), step = pick(g, 4) == 1 ? -2 : 1 + pick(g, 2);
	Value *in[6] = {scalar_int(g, lo), scalar_int(g, lo + trips * step), scalar_int(g, step)};

	if (pick(g, 3) == 1)
		in[1] = build2(&g->b, OP_MIN, of_type(g, type[0]), in[1]);
	if (step < 0)
		in[1] = scalar_int(g, lo + trips * step);
	if (pick(g, 3) == 1 && step > 0)
		in[0] = build2(&g->b, OP_MAX, of_type(g, type[0]), in[0]);
	for (int i = 0; i < n; i++) {
		in[3 + i] = any(g);
		type[1 + i] = in[3 + i]->type;
	}
	Op *op = op_make_regions(&g->b, OP_FOR, in, 3 + n, NULL, 0, NULL, 0, 1);
	op->region[0] = block_make(g->f, op, type, 1 + n);
	fill(g, op->region[0], false, type + 1, n);
	for (int i = 0; i < n; i++)
		keep(g, &op->out[i]);
}

/* while (count < 3) with other values carried beside; the counter makes it end. */
static void
uncounted(Gen *g)
{
	int n = 1 + pick(g, 3);
	const Type *type[4] = {type_scalar(g->m, TY_I64)};
	Value *in[4] = {scalar_int(g, pick(g, 4)), NULL, NULL, NULL}, *out[5];

	for (int i = 1; i < n; i++) {
		in[i] = any(g);
		type[i] = in[i]->type;
	}
	Op *op = op_make_regions(&g->b, OP_WHILE, in, n, NULL, 0, NULL, 0, 2);
	Builder outer = g->b;
	Block *test = op->region[0] = block_make(g->f, op, type, n);
	g->b = (Builder){.m = g->m, .block = test, .place = NOWHERE};
	out[0] = build2(&g->b, OP_LT, &test->arg[0], scalar_int(g, 3));
	for (int i = 0; i < n; i++)
		out[1 + i] = &test->arg[i];
	build_yield(&g->b, out, 1 + n);
	g->b = outer;
	Block *body = op->region[1] = block_make(g->f, op, type, n);
	fill(g, body, false, type, n);
	Op *yield = body->last;
	g->b = (Builder){.m = g->m, .block = body, .before = yield, .place = NOWHERE};
	op_set_in(yield, 0, build2(&g->b, OP_ADD, &body->arg[0], scalar_int(g, 1)));
	g->b = outer;
	for (int i = 0; i < n; i++)
		keep(g, &op->out[i]);
}

static void
step(Gen *g)
{
	static void (*const family[])(Gen *) = {elementwise, elementwise, elementwise, elementwise, again, again, casts,
	    select_or_cast, select_or_cast, fresh, reshape, broadcast, permute, extract, combine, reduce, reduce_fn, order, dot, read_tensor,
	    write_tensor, update, update, load_or_store, say, branch, counted, counted, uncounted};
	int control = 4, n = g->depth < MAX_DEPTH ? LEN(family) : LEN(family) - control;

	family[pick(g, n)](g);
}

static void
steps(Gen *g, int n)
{
	for (; n > 0 && g->nops < MAX_OPS; n--) {
		g->nops++;
		step(g);
	}
}

static void
make_func(Gen *g)
{
	enum { N = GEN_TENSORS + GEN_POINTERS + 4 };
	FuncParam param[N] = {0};
	const Type *type[N];
	static const char *const name[N] = {"t0", "t1", "t2", "t3", "t4", "t5", "p0", "p1", "n", "a", "R", "C"};

	for (int i = 0; i < N; i++) {
		param[i].name = name[i];
		for (int d = 0; d < MAX_RANK; d++)
			param[i].dim[d] = -1;
	}
	for (int i = 0; i < GEN_TENSORS; i++) {
		param[i].kind = PARAM_TENSOR;
		param[i].access = gen_tensor_access(i);
		param[i].dim[0] = N - 2;
		param[i].dim[1] = N - 1;
		type[i] = type_tensor(g->m, gen_tensor_type(i), 2, (int64_t[]){-1, i == 2 ? GEN_COLS : -1});
	}
	for (int i = 0; i < GEN_POINTERS; i++) {
		param[GEN_TENSORS + i].kind = PARAM_POINTER;
		type[GEN_TENSORS + i] = type_ptr(g->m, i ? TY_F32 : TY_I32, true, 0, NULL);
	}
	param[N - 4].kind = param[N - 3].kind = PARAM_SCALAR;
	type[N - 4] = type_scalar(g->m, TY_I32);
	type[N - 3] = type_scalar(g->m, TY_F32);
	param[N - 2].kind = param[N - 1].kind = PARAM_DIM;
	type[N - 2] = type[N - 1] = type_scalar(g->m, TY_I64);
	g->f = func_make(g->m, "f", param, type, N);
	g->f->axis[0] = "i";
	g->f->naxis = 1;
	for (int i = N - 4; i < N; i++)
		keep(g, &g->f->body->arg[i]);
}

Module *
gen_module(Compile *cx, Bytes bytes)
{
	Gen g = {.bytes = bytes, .m = module_open(cx)};

	make_func(&g);
	g.b = (Builder){.m = g.m, .block = g.f->body, .place = NOWHERE};
	steps(&g, 10 + pick(&g, 50));
	g.nops = 0;
	for (int i = 0; i < 6; i++)
		write_tensor(&g);
	/* What was computed last of each kind is looked at. */
	for (int i = MAX(0, g.n - 12); i < g.n; i++) {
		Attr text = attr_text(g.m, "text", "end");
		op_make(&g.b, OP_PRINT, &g.value[i], 1, &text, 1, NULL, 0);
	}
	return g.m;
}
