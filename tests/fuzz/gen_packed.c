/* Elements of four bits and products with scales.  Packed values stay out of sight: they take no arithmetic, so each
 * is made by a cast, moved about and cast back. */
#include "gen_value.h"

#include <string.h>

static DType
pick_packed(Gen *g)
{
	static const DType packed[] = {TY_I4, TY_U4, TY_F4E2M1};

	return packed[gen_pick(g, LEN(packed))];
}

static Value *
cast(Gen *g, Value *v, DType t)
{
	return build1(&g->b, OP_CAST, v, type_with_elem(g->m, v->type, t));
}

/* Turned round, cut, chosen from or looked at as bits. */
static Value *
moved(Gen *g, Value *x)
{
	int rank = x->type->rank;
	int64_t dims[MAX_RANK], n = type_count(x->type);
	Value *in[1 + MAX_RANK] = {x};
	char index[MAX_RANK + 1] = "";

	switch (gen_pick(g, 5)) {
	case 0: {
		for (int i = 0; i < rank; i++)
			dims[i] = rank - 1 - i;
		Attr a = attr_new_dims(g->m, dims, rank);
		return rank < 2 ? x : op_make(&g->b, OP_PERMUTE, &x, 1, &a, 1, NULL, 0)->out;
	}
	case 1: return build1(&g->b, OP_RESHAPE, x, type_with_shape(g->m, x->type, 1, &n));
	case 2: {
		for (int d = 0; d < rank; d++) {
			index[d] = 'p';
			dims[d] = x->type->extent[d] ? 1 + gen_pick(g, (int)x->type->extent[d]) : 0;
			in[1 + d] = gen_scalar_int(g, gen_pick(g, 3));
		}
		Attr a[] = {attr_new_index(g->m, index), attr_new_extents(g->m, dims, rank)};
		return rank == 0 ? x : op_make(&g->b, OP_EXTRACT, in, 1 + rank, a, 2, NULL, 0)->out;
	}
	case 3: {
		Value *c = gen_of_type(g, type_with_elem(g->m, x->type, TY_BOOL));
		Value *other = cast(g, gen_of_type(g, type_with_elem(g->m, x->type, TY_I32)), x->type->elem);
		return op_make(&g->b, OP_SELECT, (Value *[]){c, x, other}, 3, NULL, 0, NULL, 0)->out;
	}
	default: return x;
	}
}

void
gen_packed(Gen *g)
{
	Value *x = gen_any(g);

	if (x->type->elem == TY_BOOL)
		x = gen_as(g, x, TY_I8);
	x = cast(g, x, pick_packed(g));
	for (int n = gen_pick(g, 3); n > 0; n--)
		x = moved(g, x);
	gen_keep(g, cast(g, x, dtype_is_float(x->type->elem) ? TY_F32 : TY_I32));
}

/* A float operand of rows x columns, of 8, 4 or more bits. */
static Value *
operand(Gen *g, int64_t rows, int64_t columns)
{
	static const DType some[] = {TY_F8E4M3, TY_F4E2M1, TY_F8E5M2, TY_BF16, TY_F16};
	DType t = some[gen_pick(g, LEN(some))];
	Value *x = gen_of_type(g, type_tile(g->m, t == TY_F4E2M1 ? TY_F32 : t, 2, (int64_t[]){rows, columns}));

	return t == TY_F4E2M1 ? cast(g, x, t) : x;
}

/* Exponents from which no scaled element is so small that it may count as 0. */
static Value *
make_scale(Gen *g, const Type *t)
{
	Value *s = gen_of_type(g, t);
	if (t->elem != TY_U8)
		return s;
	Attr least = attr_int_value(32);
	Value *low = &op_make(&g->b, OP_CONST, NULL, 0, &least, 1, &t, 1)->out[0];
	return build2(&g->b, OP_MAX, s, low);
}

void
gen_dot_scaled(Gen *g)
{
	int block = 1 + gen_pick(g, 4);
	int64_t m = 1 + gen_pick(g, 4), n = 1 + gen_pick(g, 4), k = (int64_t)block * (1 + gen_pick(g, 2));
	DType scale = gen_pick(g, 2) ? TY_U8 : TY_F32;
	Attr a = attr_new_block(g->m, block);
	Value *in[] = {
		operand(g, m, k), make_scale(g, type_tile(g->m, scale, 2, (int64_t[]){m, k / block})),
		operand(g, k, n), make_scale(g, type_tile(g->m, scale, 2, (int64_t[]){n, k / block})),
		gen_acc(g, type_tile(g->m, TY_F32, 2, (int64_t[]){m, n})),
	};

	gen_product(g, OP_DOT_SCALED, in, 5, &a, 1);
}
