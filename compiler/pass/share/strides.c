/* Reads elements at a stride together with those between them.
 *
 *     %j = add (mul (iota, 2)) %b : i64[64]                               2 b', 2 b' + 2, 2 b' + 4, …
 *     %v = read %x, %n, %j {index = "ig"} : f32[64]
 *  =>
 *     %w = read %x, %n, %b {index = "ip", extents = [128]} : f32[128]
 *     %v = extract (reshape %w : f32[64, 2]), 0, 0 {index = "pi", extents = [64]} : f32[64]
 *
 * Elements some bytes apart are read one by one, though all sectors between come along.  As a run of memory they are read
 * in vectors, which the reads of a window have in common: of x[2 i - 1], x[2 i] and x[2 i + 1] the first begins a record of
 * two earlier, the others take one record apart.  A thread holds whole records, so that taking them apart names registers.
 *
 * This is for the last dimension, by a tile of indices that count up by a power of two along one dimension of theirs;
 * another tile of indices may count up along another one. */
#include "ir/derive.h"
#include "model/model.h"
#include "pass/pass.h"

enum { DEPTH = 12, VECTOR_BITS = 128, GATHERS_MOST = 2 };

/* root * times + plus + the sum of stride[d] * (index along d). */
typedef struct Affine {
	Value *root;                                    /* a scalar, or NULL */
	int64_t times, plus, stride[MAX_RANK];
} Affine;

static bool affine_of(Value *v, int depth, Affine *out);

static bool
affine_sum(const Op *op, int depth, Affine *out)
{
	Affine b;
	if (!affine_of(op->in[0], depth, out) || !affine_of(op->in[1], depth, &b) || (out->root && b.root))
		return false;
	if (b.root) {
		out->root = b.root;
		out->times = b.times;
	}
	out->plus += b.plus;
	for (int d = 0; d < MAX_RANK; d++)
		out->stride[d] += b.stride[d];
	return true;
}

static bool
affine_product(const Op *op, int depth, Affine *out)
{
	enum { FACTOR_MOST = 1 << 20 };
	int64_t by;
	int at = value_constant(op->in[1], &by) ? 0 : 1;
	if (!value_constant(op->in[1 - at], &by) || by < 0 || by > FACTOR_MOST || !affine_of(op->in[at], depth, out))
		return false;
	out->times *= by;
	out->plus *= by;
	for (int d = 0; d < MAX_RANK; d++)
		out->stride[d] *= by;
	return true;
}

static bool
affine_reshaped(const Op *op, int depth, Affine *out)
{
	Affine a;
	int from[MAX_RANK];
	if (!affine_of(op->in[0], depth, &a) || !reshape_from(op, from))
		return false;
	*out = (Affine){.root = a.root, .times = a.times, .plus = a.plus};
	for (int d = 0; d < op->out[0].type->rank; d++)
		out->stride[d] = from[d] < 0 ? 0 : a.stride[from[d]];
	return true;
}

static bool
affine_of(Value *v, int depth, Affine *out)
{
	const Op *op = v->def;
	*out = (Affine){.times = 1};
	if (value_constant(v, &out->plus))
		return true;
	if (v->type->elem != TY_I64 || depth == 0)
		return false;                           /* sums of 64 bits do not wrap round */
	if (v->type->rank == 0 && (!op || (op->kind != OP_ADD && op->kind != OP_MUL))) {
		out->root = v;
		return true;
	}
	if (!op)
		return false;
	switch (op->kind) {
	case OP_IOTA:
		out->stride[attr_axis(op)] = 1;
		return true;
	case OP_BROADCAST:
		return (op->in[0]->type->rank == 0 || op->in[0]->type->rank == v->type->rank) &&
		    affine_of(op->in[0], depth - 1, out);
	case OP_RESHAPE: return affine_reshaped(op, depth - 1, out);
	case OP_ADD: return affine_sum(op, depth - 1, out) || (*out = (Affine){.root = v, .times = 1}, v->type->rank == 0);
	case OP_MUL:
		return affine_product(op, depth - 1, out) || (*out = (Affine){.root = v, .times = 1}, v->type->rank == 0);
	default: return false;
	}
}

/* A read of elements at a stride: its tiles of indices, and the dimension of theirs that each moves along. */
typedef struct Strided {
	int n, at[GATHERS_MOST];                        /* dimensions of the tensor */
	int dim[GATHERS_MOST];
	Affine index[GATHERS_MOST];
} Strided;

static bool
moves_along(const Affine *a, const Type *t, int *dim)
{
	int n = 0;
	for (int d = 0; d < t->rank; d++)
		if (a->stride[d] != 0 && t->extent[d] > 1) {
			*dim = d;
			n++;
		}
	return n == 1;
}

static bool
is_strided(const Func *f, const Op *op, Strided *s)
{
	*s = (Strided){0};
	if (op->kind != OP_READ || op->in[0]->def || op->in[0]->block->parent ||
	    !param_has_rows(&f->param[op->in[0]->index]))
		return false;
	const char *index = attr_index(op);
	const Type *t = op->in[0]->type;
	int last = t->rank - 1, fill = 1 + t->rank;
	if (last < 0 || index[last] != 'g' || dtype_is_packed(t->elem) || op->out[0].type->rank + 1 > MAX_RANK ||
	    (op->nin > fill && op->in[fill]->type->rank > 0))
		return false;
	for (int d = 0; d <= last; d++) {
		if (index[d] == 'p' && s->n > 0)
			return false;                   /* the tile's dimensions would be in another order */
		if (index[d] != 'g')
			continue;
		if (s->n == GATHERS_MOST || !affine_of(op->in[1 + d], DEPTH, &s->index[s->n]) ||
		    !moves_along(&s->index[s->n], op->in[1 + d]->type, &s->dim[s->n]))
			return false;
		s->at[s->n++] = d;
	}
	const Affine *a = &s->index[s->n - 1];
	int64_t by = a->stride[s->dim[s->n - 1]];
	bool in_order = s->n == op->in[1 + last]->type->rank && (s->n == 1 || s->dim[0] < s->dim[1]);
	return in_order && by > 1 && is_power_of_two(by) && by * dtype_info[t->elem].bits <= VECTOR_BITS &&
	    (!a->root || a->times % by == 0);
}

static Value *
start_of(Builder *b, const Affine *a, int64_t less)
{
	Value *v = a->root;
	if (v && a->times != 1)
		v = build2(b, OP_MUL, v, build_index(b, a->times));
	if (v && a->plus != less)
		v = build2(b, OP_ADD, v, build_index(b, a->plus - less));
	return v ? v : build_index(b, a->plus - less);
}

/* start, start + stride, … along a tile's only dimension. */
static Value *
counting(Builder *b, const Affine *a, int64_t stride, int64_t extent)
{
	const Type *t = type_tile(b->m, TY_I64, 1, &extent);
	Value *v = build2(b, OP_MUL, build_iota(b, t, 0), build_int(b, t, stride));
	return build2(b, OP_ADD, build1(b, OP_BROADCAST, start_of(b, a, 0), t), v);
}

/* The run of memory, of `by` times as many elements. */
static Value *
run_of(Builder *b, const Op *op, const Strided *s, int64_t by, int64_t channel)
{
	Value **in = NEW_COPY(b->m->cx->tmp, op->in, op->nin);
	const Type *t = op->out[0].type;
	int last = s->at[s->n - 1];
	in[1 + last] = start_of(b, &s->index[s->n - 1], channel);
	if (s->n > 1)
		in[1 + s->at[0]] = counting(b, &s->index[0], s->index[0].stride[s->dim[0]], t->extent[t->rank - 2]);
	return access_along(b, op, in, last, by * t->extent[t->rank - 1])->out;
}

static void
replace(Op *op, const Strided *s)
{
	Builder b = build_before(op);
	const Affine *a = &s->index[s->n - 1];
	int64_t by = a->stride[s->dim[s->n - 1]], channel = (a->plus % by + by) % by;
	Value *v = run_of(&b, op, s, by, channel);
	v = build_split_dim(&b, v, v->type->rank - 1, by);
	op_become(op, build_element(&b, v, channel));
}

void
pass_strides(Func *f, const Target *t)
{
	for (Op *op = f->body->first, *next; op; op = next) {
		Strided s;
		next = op_after(op, f->body);
		if (is_strided(f, op, &s))
			replace(op, &s);
	}
}
