/* The greatest few of a row that is read in parts.
 *
 *     %v, %i = topk (read %x, %r, 0 {extents = [131072]}) {k = 8}
 *
 *     =>  %f, %p = for 0, 131072, 4096 …          of each of 4,096 positions the greatest element met, and its place
 *         %w = topk (word %f, %p) {k = 8}         the 8 positions that have the greatest
 *         %c = read %x, %r, (their 256 elements)
 *         … topk (word %c, their places)          the result's places; the values are read once more
 *
 * None of the greatest k is at a position outside of the k whose greatest elements are the greatest: each of those k is
 * before it.  "Greater" has to be the same in all three steps, and no two elements equal: a word of 64 bits has the element
 * as an integer in the same order above its place, from the end, so that of equals the first is the greatest.
 *
 * Elements at given places are computed again, by the ops that made the row. */
#include "pass/strip/strip.h"

enum { LEAST_PARTS = 4 };       /* positions for each of the greatest: with fewer a row's few are most of it */

Value *
strip_topk_source(const Strip *s, const Op *op)
{
	Value *v = op->kind == OP_TOPK ? op->in[0] : NULL;
	if (v && !strip_is_row(s, v) && v->def && v->def->kind == OP_RESHAPE)
		v = v->def->in[0];
	return v && strip_is_row(s, v) && strip_dim(s, v->type) == v->type->rank - 1 ? v : NULL;
}

const char *
strip_topk_reason(const Strip *s, const Op *topk)
{
	const Value *v = strip_topk_source(s, topk);
	const Type *t = v->type;
	if (topk->in[0]->type->rank != 1)
		return "it takes the greatest of several rows";
	if (dtype_info[t->elem].bits > 32)
		return "it takes the greatest of elements of 64 bits";
	if (type_count(t) / s->row * s->part < LEAST_PARTS * topk->out[0].type->extent[0])
		return "it takes too many of its row";
	return NULL;
}

static Value *
int_like(Builder *b, const Value *v, int64_t n)
{
	return build_int(b, v->type, n);
}

static const Type *
of_shape(const Strip *s, DType elem, const Type *shape)
{
	return type_tile(s->m, elem, shape->rank, shape->extent);
}

/* Of a position of `t`, a tile of the first parts, the place in the row. */
static Value *
first_places(const Strip *s, Builder *b, const Type *t)
{
	const Type *places = of_shape(s, TY_I32, t);
	Value *at = build_iota(b, places, t->rank - 1);
	int64_t rows = s->row;
	for (int d = t->rank - 2; d >= 0; rows *= t->extent[d--])
		if (t->extent[d] > 1)
			at = build2(b, OP_ADD, at, build2(b, OP_MUL, build_iota(b, places, d), build_int(b, places, rows)));
	return at;
}

/* ---- elements at places ---- */

typedef struct Sample {
	Strip *s;
	Builder *b;
	const Type *shape;                              /* of the places, a row of i32 */
	Value **map;                                    /* what is known of them, by the row's values */
} Sample;

static Value *sample(const Sample *x, Value *v, Value *const *at);

static Value *
cast(const Strip *s, Builder *b, Value *v, DType to)
{
	return v->type->elem == to ? v : build1(b, OP_CAST, v, of_shape(s, to, v->type));
}

static const Type *
splatted(const Sample *x, const Value *v)
{
	return of_shape(x->s, v->type->elem, x->shape);
}

static Value *
splat(const Sample *x, Value *scalar)
{
	return build1(x->b, OP_BROADCAST, scalar, splatted(x, scalar));
}

/* The place in a tile of that type, counted through all of its dimensions, and back. */
static Value *
joined_place(const Sample *x, const Type *t, Value *const *at)
{
	Value *place = build_int(x->b, x->shape, 0);
	for (int d = 0; d < t->rank; d++)
		place = build2(x->b, OP_ADD, build2(x->b, OP_MUL, place, int_like(x->b, place, t->extent[d])), at[d]);
	return place;
}

/* Extents are powers of two (pass pad). */
static void
part_place(const Sample *x, const Type *t, Value *place, Value **at)
{
	for (int d = t->rank - 1; d >= 0; d--) {
		at[d] = build2(x->b, OP_AND, place, int_like(x->b, place, t->extent[d] - 1));
		place = build2(x->b, OP_SHR, place, int_like(x->b, place, log2_ceil(t->extent[d])));
	}
}

static Value *
sample_read(const Sample *x, const Op *op, Value *const *at)
{
	int rank = op->in[0]->type->rank, base = 1 + rank, d = 0;
	Value **in = NEW_COPY(x->s->m->cx->tmp, op->in, op->nin);
	char *index = NEW_COPY(x->s->m->cx->tmp, attr_index(op), rank + 1);
	for (int i = 0; i < rank; i++) {
		if (index[i] != 'p')
			continue;
		Value *start = splat(x, in[1 + i]), *next = at[d++];
		index[i] = 'g';
		in[1 + i] = build2(x->b, OP_ADD, start, cast(x->s, x->b, next, start->type->elem));
	}
	if (op->nin > base && op->in[base]->type->rank > 0)
		in[base] = sample(x, op->in[base], at);
	return access_like(x->b, op, in, op->nin, index, NULL, 0)->out;
}

static Value *
sample_broadcast(const Sample *x, const Op *op, Value *const *at)
{
	const Type *t = op->in[0]->type;
	Value *from[MAX_RANK];
	for (int d = 0; d < t->rank; d++)
		from[d] = t->extent[d] == 1 ? build_int(x->b, x->shape, 0) : at[d];
	return sample(x, op->in[0], from);
}

static Value *
sample_elementwise(const Sample *x, const Op *op, Value *const *at)
{
	Arena *tmp = x->s->m->cx->tmp;
	Value **in = MAP_OF(tmp, Value *, i, op->nin,
	    op->kind == OP_PHILOX && op->in[i]->type->rank == 0 ? op->in[i] : sample(x, op->in[i], at));
	const Type **want = MAP_OF(tmp, const Type *, i, op->nout, splatted(x, &op->out[i]));
	op_clone_as(x->b, op, in, op->attr, want, x->map);
	return NULL;
}

/* Elements of a tile that is no row: it stands before the loops. */
static Value *
sample_tile(const Sample *x, Value *v, Value *const *at)
{
	int64_t count = type_count(v->type);
	Attr attr = attr_new_axis(x->s->m, 0);
	Value *in[] = {build_reshape(x->b, v, 1, &count), joined_place(x, v->type, at)};
	return op_make(x->b, OP_GATHER, in, 2, &attr, 1, NULL, 0)->out;
}

static Value *
sampled(const Sample *x, Value *v, Value *const *at)
{
	const Op *op = v->def;
	Value *from[MAX_RANK];
	if (v->type->rank == 0)
		return splat(x, v);
	if (op && op->kind == OP_CONST && attr_value(op)->kind != KIND_INTS)
		return op_make(x->b, OP_CONST, NULL, 0, op->attr, op->nattr, (const Type *[]){splatted(x, v)}, 1)->out;
	if (!strip_is_row(x->s, v))
		return sample_tile(x, v, at);
	switch (op->kind) {
	case OP_READ: return sample_read(x, op, at);
	case OP_IOTA: return cast(x->s, x->b, at[attr_axis(op)], v->type->elem);
	case OP_BROADCAST: return sample_broadcast(x, op, at);
	case OP_PERMUTE:
		for (int d = 0; d < v->type->rank; d++)
			from[attr_dims(op)->at[d]] = at[d];
		return sample(x, op->in[0], from);
	case OP_RESHAPE:
		part_place(x, op->in[0]->type, joined_place(x, v->type, at), from);
		return sample(x, op->in[0], from);
	default: return sample_elementwise(x, op, at);
	}
}

/* The elements of v at places, of which at[d] are along dimension d. */
static Value *
sample(const Sample *x, Value *v, Value *const *at)
{
	Value **made = &x->map[v->id], *is;
	if (!strip_is_row(x->s, v))
		return sampled(x, v, at);
	if (*made)
		return *made;
	is = sampled(x, v, at);
	return is ? *made = is : *made;
}

static Value *
sample_row(Strip *s, Builder *b, Value *v, Value *place)
{
	Sample x = {s, b, place->type, NEW_ARRAY(s->m->cx->tmp, Value *, s->f->nvalues)};
	Value *at[MAX_RANK];
	part_place(&x, v->type, place, at);
	Place was = b->place;
	Value *found = sample(&x, v, at);
	b->place = was;
	return found;
}

bool
strip_is_pick(const Strip *s, const Op *op)
{
	const Op *topk = op->kind == OP_GATHER ? op->in[1]->def : NULL;
	return topk && strip_is_row(s, op->in[0]) && op->in[0]->type->rank == 1 && topk->kind == OP_TOPK &&
	    strip_topk_source(s, topk) && op->in[1] == &topk->out[1] && type_count(topk->in[0]->type) == s->row;
}

Value *
strip_pick(Strip *s, Builder *b, const Op *gather)
{
	return sample_row(s, b, gather->in[0], gather->in[1]);
}

/* ---- words ---- */

/* An element as an i32 in the same order: both zeros are 0, a NaN is the greatest. */
static Value *
ordered(const Strip *s, Builder *b, Value *v)
{
	const Type *ints = of_shape(s, TY_I32, v->type);
	DType t = v->type->elem;
	if (t == TY_U32)
		return build1(b, OP_BITCAST, build2(b, OP_XOR, v, int_like(b, v, INT64_C(1) << 31)), ints);
	if (!dtype_is_float(t))
		return cast(s, b, v, TY_I32);
	Value *f = cast(s, b, v, TY_F32);
	Value *bits = build1(b, OP_BITCAST, f, ints), *most = int_like(b, bits, INT32_MAX);
	Value *sign = build2(b, OP_SHR, bits, int_like(b, bits, 31));
	Value *key = build2(b, OP_XOR, bits, build2(b, OP_AND, sign, most));
	key = build3(b, OP_SELECT, build2(b, OP_EQ, f, build_float(b, f->type, 0)), int_like(b, bits, 0), key);
	return build3(b, OP_SELECT, build2(b, OP_NE, f, f), most, key);
}

/* The places of the greatest k. */
static Value *
best_places(const Strip *s, Builder *b, const Op *topk, Value *v, Value *place)
{
	int64_t count = type_count(v->type);
	const Type *longs = of_shape(s, TY_I64, v->type);
	Value *key = cast(s, b, ordered(s, b, v), TY_I64);
	Value *behind = build2(b, OP_SUB, int_like(b, place, INT32_MAX), place);
	Value *word = build2(b, OP_SHL, key, build_int(b, longs, 32));
	word = build_reshape(b, build2(b, OP_OR, word, cast(s, b, behind, TY_I64)), 1, &count);
	Attr attr[] = {attr_new_axis(s->m, 0), attr_new_k(s->m, attr_k(topk))};
	Value *best = op_make(b, OP_TOPK, &word, 1, attr, 2, NULL, 0)->out;
	best = cast(s, b, best, TY_I32);
	return build2(b, OP_SUB, int_like(b, best, INT32_MAX), best);
}

/* Places of all elements at the positions of these. */
static Value *
places_along(const Strip *s, Builder *b, Value *place)
{
	int64_t parts = s->row / s->part;
	Value *first = build2(b, OP_AND, place, int_like(b, place, ~(s->row - s->part)));
	Value *each = build_repeat_each(b, first, 0, parts);
	Value *n = build2(b, OP_AND, build_iota(b, each->type, 0), int_like(b, each, parts - 1));
	return build2(b, OP_ADD, each, build2(b, OP_MUL, n, int_like(b, n, s->part)));
}

void
strip_topk_end(Strip *s, Builder *b, const Op *topk, Value *found, Value **out)
{
	Value *source = strip_topk_source(s, topk);
	b->place = topk->place;
	Value *place = build2(b, OP_ADD, &found[1], first_places(s, b, found[1].type));
	place = places_along(s, b, best_places(s, b, topk, &found[0], place));
	out[1] = best_places(s, b, topk, sample_row(s, b, source, place), place);
	out[0] = sample_row(s, b, source, out[1]);
}
