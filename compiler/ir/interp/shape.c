/* Values without operands, and ops that only rearrange: permute, broadcast, extract, flip and split by a Rearrangement,
 * reshape, cat and join by copies.
 *
 *     extract %a, %s, %t {index = "pi"} : f32[8]      =>  from = {0}, step = {1}, start = {s, t}
 *     flip %a {axis = 1} : f32[4, 8]                  =>  from = {0, 1}, step = {1, -1}, start = {0, 7} */
#include "ir/derive.h"
#include "ir/interp/run.h"

#include <string.h>

/* ---- values without operands ---- */

void
const_element(const Op *op, char one[8])
{
	const Attr *a = attr_value(op);
	DType t = op->out[0].type->elem;
	char memory[8] = {0}, *to = dtype_is_packed(t) ? memory : one;

	if (a->kind == KIND_FLOAT || (dtype_is_packed(t) && dtype_is_float(t)))
		dtype_store_f64(t, to, 0, a->f);
	else
		dtype_store_i64(t, to, 0, a->i);
	if (dtype_is_packed(t))
		tile_unpack(t, memory, 0, one, 1);
}

DEFINE(CONST)
{
	const Type *t = op->out[0].type;
	char one[8];

	const_element(op, one);
	tile_fill(type_elem_size(t), value_at(w, &op->out[0]), one, type_count(t));
	return true;
}

DEFINE(IOTA)
{
	const Type *t = op->out[0].type;
	const Axis a = axis_of(t, (int)attr_axis(op));
	int size = type_elem_size(t);
	char *out = value_at(w, &op->out[0]), one[8];

	for (int64_t o = 0; o < a.outer; o++)
		for (int64_t i = 0; i < a.n; i++, out += a.inner * size) {
			tile_iota(t->elem, one, i, 1);
			tile_fill(size, out, one, a.inner);
		}
	return true;
}

static bool
give_i64(Worker *w, const Op *op, int64_t x)
{
	memcpy(value_at(w, &op->out[0]), &x, sizeof x);
	return true;
}

DEFINE_AS(PROGRAM_ID, give_i64(w, op, w->program[attr_axis(op)]))
DEFINE_AS(NUM_PROGRAMS, give_i64(w, op, w->grid[attr_axis(op)]))
DEFINE_AS(DIM, give_i64(w, op, w->args[param_index(op->in[0])].dim[attr_axis(op)]))
DEFINE_AS(STRIDE, give_i64(w, op, w->args[param_index(op->in[0])].stride[attr_axis(op)]))

/* Here each program is a block of its own. */
DEFINE(BLOCK_ID)
{
	return give_i64(w, op, w->linear);
}

DEFINE(NUM_BLOCKS)
{
	int64_t n = 1;

	for (int d = 0; d < MAX_AXES; d++)
		n *= w->grid[d];
	return give_i64(w, op, n);
}

DEFINE_AS(SPLIT_RANK, give_i64(w, op, 0))
DEFINE_AS(SPLIT_COUNT, give_i64(w, op, 1))

/* *at, a program's number, becomes its index on the axis, which has so many programs: neighbours of a cluster first, then
 * the first axis fastest. */
static int64_t
position(const Worker *w, const Op *op, int64_t *at, int axis)
{
	const Cluster c = program_cluster(op);
	int64_t rank = *at % c.ranks, n = 1;

	*at /= c.ranks;
	for (int d = 0; d <= axis; d++) {
		n = MAX(w->grid[d], 1);
		int64_t each = cluster_on(c, d), clusters = (n + each - 1) / each;
		if (d == axis)
			*at = *at % clusters * each + rank / cluster_apart(c, d) % each;
		else
			*at /= clusters;
	}
	return n;
}

DEFINE(PROGRAM_AT)
{
	int64_t at = value_i64(w, op->in[0]);

	if (attr_known(op))
		return give_i64(w, op, at);
	int axis = (int)attr_axis(op);
	int64_t n = position(w, op, &at, axis);

	return give_i64(w, op, cluster_on(program_cluster(op), axis) > 1 ? MIN(at, n - 1) : at);
}

DEFINE(PROGRAM_EXISTS)
{
	const Cluster c = program_cluster(op);
	bool exists = true;

	for (int d = 0; d < MAX_AXES; d++) {
		int64_t at = value_i64(w, op->in[0]);
		exists &= position(w, op, &at, d) > at || cluster_on(c, d) == 1;
	}
	memcpy(value_at(w, &op->out[0]), &exists, sizeof exists);
	return true;
}

/* ---- rearrangements ---- */

bool
op_rearranges(OpKind k)
{
	return k == OP_BROADCAST || k == OP_PERMUTE || k == OP_FLIP || k == OP_SPLIT || k == OP_EXTRACT ||
	    op_is_reshape(k);
}

static void
match_units(const Type *from, const Type *to, Rearrangement *r)
{
	int i = 0;

	for (int k = 0; k < to->rank; k++) {
		r->from[k] = -1;
		if (to->extent[k] == 1)
			continue;
		while (from->extent[i] == 1)
			i++;
		r->from[k] = i++;
	}
}

static void
extract_start(const Worker *w, const Op *op, Rearrangement *r)
{
	const Type *in = op->in[0]->type, *out = op->out[0].type;
	const char *index = attr_index(op);

	for (int d = 0, k = 0; d < in->rank; d++) {
		int64_t n = index[d] == 'p' ? out->extent[k] : 1, most = in->extent[d] - n;
		r->start[d] = MAX(0, MIN(value_i64(w, op->in[1 + d]), most));
		if (index[d] == 'p')
			r->from[k++] = d;
	}
}

void
rearrangement_make(const Worker *w, const Op *op, int result, Rearrangement *r)
{
	const Type *in = op->in[0]->type, *out = op->out[result].type;
	int axis;

	for (int k = 0; k < MAX_RANK; k++) {
		r->from[k] = k;
		r->step[k] = 1;
		r->start[k] = 0;
	}
	switch (op->kind) {
	case OP_PERMUTE:
		for (int k = 0; k < out->rank; k++)
			r->from[k] = (int)attr_dims(op)->at[k];
		break;
	case OP_BROADCAST:
		for (int k = 0; k < out->rank; k++) {
			r->from[k] = in->rank == 0 ? -1 : k;
			r->step[k] = in->rank > 0 && in->extent[k] == out->extent[k];
		}
		break;
	case OP_FLIP:
		axis = (int)attr_axis(op);
		r->step[axis] = -1;
		r->start[axis] = in->extent[axis] - 1;
		break;
	case OP_SPLIT:
		r->start[in->rank - 1] = result;
		break;
	case OP_EXTRACT:
		extract_start(w, op, r);
		break;
	default:
		match_units(in, out, r);
		break;
	}
}

/* Copies dimensions d.. of a result, whose element 0 is `in`, moving by stride[k] bytes; gives the end of `out`. */
static char *
copy_strided(const Type *t, int d, const char *in, const int64_t *stride, char *out)
{
	int size = type_elem_size(t);

	if (d == t->rank) {
		memcpy(out, in, (size_t)size);
		return out + size;
	}
	for (int64_t i = 0; i < t->extent[d]; i++)
		out = copy_strided(t, d + 1, in + i * stride[d], stride, out);
	return out;
}

static bool
rearrange(Worker *w, const Op *op)
{
	const Type *in = op->in[0]->type;
	Rearrangement r;

	for (int result = 0; result < op->nout; result++) {
		int64_t stride[MAX_RANK] = {0}, by[MAX_RANK] = {0}, step = type_elem_size(in);
		const char *at = value_at(w, op->in[0]);
		rearrangement_make(w, op, result, &r);
		for (int d = in->rank - 1; d >= 0; d--) {
			stride[d] = step;
			step *= in->extent[d];
			at += r.start[d] * stride[d];
		}
		for (int k = 0; k < op->out[result].type->rank; k++)
			by[k] = r.from[k] < 0 ? 0 : r.step[k] * stride[r.from[k]];
		copy_strided(op->out[result].type, 0, at, by, value_at(w, &op->out[result]));
	}
	return true;
}

DEFINE_AS(PERMUTE, rearrange(w, op))
DEFINE_AS(BROADCAST, rearrange(w, op))
DEFINE_AS(FLIP, rearrange(w, op))
DEFINE_AS(SPLIT, rearrange(w, op))
DEFINE_AS(EXTRACT, rearrange(w, op))

/* ---- copies ---- */

DEFINE(RESHAPE)
{
	memcpy(value_at(w, &op->out[0]), value_at(w, op->in[0]), (size_t)value_bytes(op->in[0]));
	return true;
}

DEFINE_AS(CONVERT, define_RESHAPE(w, op))

/* One block has all of the loop. */
DEFINE(MERGE)
{
	for (int i = 0; i < op->nout; i++)
		memcpy(value_at(w, &op->out[i]), value_at(w, op->in[i]), (size_t)value_bytes(op->in[i]));
	return true;
}

DEFINE(CAT)
{
	int axis = (int)attr_axis(op);
	int64_t row = axis_of(op->out[0].type, axis).inner * type_elem_size(op->out[0].type);
	int64_t outer = axis_of(op->out[0].type, axis).outer;
	char *out = value_at(w, &op->out[0]);

	for (int64_t o = 0; o < outer; o++)
		for (int i = 0; i < op->nin; i++) {
			int64_t part = op->in[i]->type->extent[axis] * row;
			memcpy(out, value_at(w, op->in[i]) + o * part, (size_t)part);
			out += part;
		}
	return true;
}

#define JOIN_PAIRS(T)                                                                              \
	do {                                                                                       \
		const T *a = (const T *)value_at(w, op->in[0]), *b = (const T *)value_at(w, op->in[1]); \
		T *out = (T *)value_at(w, &op->out[0]);                                            \
		for (int64_t i = 0; i < n; i++) {                                                  \
			out[2 * i] = a[i];                                                         \
			out[2 * i + 1] = b[i];                                                     \
		}                                                                                  \
	} while (0)

DEFINE(JOIN)
{
	int64_t n = type_count(op->in[0]->type);

	BY_SIZE(type_elem_size(op->in[0]->type), JOIN_PAIRS)
	return true;
}
