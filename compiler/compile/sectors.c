/* The 32-byte sectors that an access of a warp touches, by the addresses themselves.
 *
 *     %i = iota : i64[128]              lane 0: 0, lane 1: 1 …        x[i, 5] of f32[512, 512]: 2048 bytes apart,
 *     %v = read %x, %i, %c5 {"gi"}                                    32 sectors where 4 hold the bytes
 *
 * Indices are evaluated element by element for the first warp of the first program, in the first trip of each loop, with
 * the sizes and strides of one launch; a scalar that only the running kernel knows counts as 0.  An index tile made of
 * data is not known.  Where such a tile picks rows that begin on a sector, its elements count as different rows, which no
 * data can make worse.  Elements outside of the tensor, or masked, are not accessed.  Of all accesses of the tile by that
 * warp the worst counts. */
#include "compile/inspect.h"

#include "num/num.h"
#include "pass/layout/axis.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR = 32, LANES_MOST = 64, VECTOR_MOST = 32, VECTOR_BYTES = 16, ACCESSES_MOST = 64,
       STEPS_MOST = 512, BASE_LOG = 44 };

typedef enum Where { AT_KNOWN, AT_OUTSIDE, AT_UNKNOWN } Where;

typedef struct Walk {
	const InspectArg *arg;
	int steps;                                      /* ops that one element has taken */
} Walk;

static bool element(Walk *w, const Value *v, const int64_t *at, int64_t *out);

InspectArg *
inspect_args(const Bound *b, const Func *f, Arena *mem)
{
	InspectArg *arg = NEW_ARRAY(mem, InspectArg, f->nparam);
	int n = b->kernel->params.n;
	for (int i = 0; i < f->nparam; i++) {
		const Const *c = i < n ? &b->param[i].scalar : &b->symbol[i - n].value;
		int64_t stride = 1;
		arg[i].known = c->kind == CONST_INT || f->param[i].kind == PARAM_TENSOR;
		arg[i].value = c->kind == CONST_INT ? c->i : 0;
		for (int d = i < n ? b->param[i].rank - 1 : -1; d >= 0; d--) {
			arg[i].dim[d] = b->param[i].dim[d];
			arg[i].stride[d] = stride;
			stride *= MAX(arg[i].dim[d], 1);
		}
	}
	return arg;
}

/* ---- elements of integers and pointers; a pointer is bits from address 0 ---- */

static const InspectArg *
arg_of(const Walk *w, const Value *v)
{
	return !v->def && !v->block->parent && w->arg[v->index].known ? &w->arg[v->index] : NULL;
}

static bool
argument(Walk *w, const Value *v, const int64_t *at, int64_t *out)
{
	const Op *owner = v->block->parent;
	if (!owner && v->block->func->param[v->index].kind == PARAM_POINTER) {
		*out = (int64_t)v->index << BASE_LOG;
		return true;
	}
	if (!owner) {
		const InspectArg *a = arg_of(w, v);
		*out = a ? a->value : 0;
		return a != NULL;
	}
	if (owner->kind == OP_FOR)
		return element(w, owner->in[v->index == 0 ? 0 : 2 + v->index], at, out);
	return owner->kind == OP_WHILE && element(w, owner->in[v->index], at, out);
}

static bool
elementwise(Walk *w, const Op *op, const int64_t *at, int64_t *out)
{
	Attr in[3], value;
	for (int i = 0; i < op->nin; i++) {
		const Type *t = op->in[i]->type;
		int64_t x;
		bool is_int = dtype_is_int(t->elem) || t->elem == TY_BOOL;
		if (i == LEN(in) || !is_int || !element(w, op->in[i], at, &x))
			return false;
		in[i] = attr_int_value(x);
	}
	if (dtype_is_float(op->out[0].type->elem) || !elem_fold(op, in, &value))
		return false;
	*out = value.i;
	return true;
}

/* The operand's element that a shape op hands on. */
static bool
moved(Walk *w, const Op *op, const int64_t *at, int64_t *out)
{
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	int64_t c[MAX_RANK] = {0}, linear = 0;
	for (int d = 0; d < to->rank; d++)
		linear = linear * to->extent[d] + at[d];
	for (int d = from->rank - 1; d >= 0; d--) {
		if (op->kind == OP_RESHAPE) {
			c[d] = linear % from->extent[d];
			linear /= from->extent[d];
		} else {
			c[d] = from->extent[d] == 1 ? 0 : at[d];
		}
	}
	const IntList *dims = op->kind == OP_PERMUTE ? attr_dims(op) : NULL;
	for (int d = 0; dims && d < to->rank; d++)
		c[dims->at[d]] = at[d];
	if (op->kind == OP_FLIP) {
		int64_t axis = attr_axis(op);
		c[axis] = from->extent[axis] - 1 - at[axis];
	}
	return element(w, op->in[0], c, out);
}

static bool
pointer_add(Walk *w, const Op *op, const int64_t *at, int64_t *out)
{
	int64_t by;
	return element(w, op->in[0], at, out) && element(w, op->in[1], at, &by) &&
	    !__builtin_mul_overflow(by, dtype_info[op->out[0].type->elem].bits, &by) &&
	    !__builtin_add_overflow(*out, by, out);
}

static bool
selected(Walk *w, const Op *op, const int64_t *at, int64_t *out)
{
	int64_t c;
	return element(w, op->in[0], at, &c) && element(w, op->in[c ? 1 : 2], at, out);
}

static bool
evaluate(Walk *w, const Value *v, const int64_t *at, int64_t *out)
{
	const Op *op = v->def;
	const InspectArg *a = NULL;
	if (++w->steps > STEPS_MOST)
		return false;
	if (!op)
		return argument(w, v, at, out);
	switch (op->kind) {
	case OP_CONST:
		*out = attr_value(op)->i;
		return attr_value(op)->kind != KIND_FLOAT;
	case OP_IOTA:
		*out = at[attr_axis(op)];
		return true;
	case OP_PROGRAM_ID: case OP_PROGRAM_AT: case OP_BLOCK_ID: case OP_SPLIT_RANK:
		*out = 0;
		return true;
	case OP_DIM: case OP_STRIDE:
		a = arg_of(w, op->in[0]);
		*out = !a ? 0 : op->kind == OP_DIM ? a->dim[attr_axis(op)] : a->stride[attr_axis(op)];
		return a != NULL;
	case OP_RESHAPE: case OP_BROADCAST: case OP_CONVERT: case OP_PERMUTE: case OP_FLIP:
		return moved(w, op, at, out);
	case OP_PTR_ADD:
		return pointer_add(w, op, at, out);
	case OP_SELECT:
		return selected(w, op, at, out);
	default:
		return (op_info[op->kind].traits & ELEM) && elementwise(w, op, at, out);
	}
}

static bool
element(Walk *w, const Value *v, const int64_t *at, int64_t *out)
{
	if (evaluate(w, v, at, out))
		return true;
	*out = 0;
	return v->type->rank == 0;
}

/* ---- where an element of an access lies ---- */

/* The part of the tile's coordinates that an index tile has. */
static int64_t
linear_at(const Type *t, const int64_t *at)
{
	int64_t n = 0;
	for (int d = 0; d < t->rank; d++)
		n = n * t->extent[d] + at[d];
	return n;
}

/* Bits from the tensor's start to the element at[] of the tile that `op` moves. */
static Where
tensor_at(Walk *w, const Op *op, const int64_t *at, int64_t *bits)
{
	const InspectArg *x = arg_of(w, op->in[0]);
	const char *index = attr_index(op);
	int size = dtype_info[op->in[0]->type->elem].bits, tile = 0, gathered = -1;
	if (!x)
		return AT_UNKNOWN;
	*bits = 0;
	for (int d = 0; index[d]; d++) {
		const Value *v = op->in[1 + d];
		int64_t i, step = x->stride[d] * size;
		bool is_gather = index[d] == 'g', known;
		if (is_gather && gathered < 0) {
			gathered = tile;
			tile += v->type->rank;
		}
		w->steps = 0;
		known = element(w, v, is_gather ? at + gathered : at, &i);
		if (!known && step % (8 * SECTOR))
			return AT_UNKNOWN;
		i = known ? i : linear_at(v->type, at + gathered);
		i += index[d] == 'p' ? at[tile++] : 0;
		if (known && (i < 0 || i >= x->dim[d]))
			return AT_OUTSIDE;
		*bits += i * step;
	}
	return AT_KNOWN;
}

static Where
pointer_at(Walk *w, const Op *op, const int64_t *at, int64_t *bits)
{
	const Value *mask = access_mask(op);
	int64_t on;
	w->steps = 0;
	if (mask && element(w, mask, at, &on) && !on)
		return AT_OUTSIDE;
	w->steps = 0;
	return element(w, op->in[0], at, bits) ? AT_KNOWN : AT_UNKNOWN;
}

/* Of the element that the first warp holds in this register of this lane. */
static Where
lane_at(Walk *w, const Op *op, const Type *tile, const Layout *l, int lane, int reg, int64_t *bits)
{
	const IntList *valid = attr_valid(op);
	int64_t at[MAX_RANK] = {0};
	uint64_t packed = f2_apply(&l->map, (uint64_t)lane << l->in[IN_REGISTER] | (uint64_t)reg);
	for (int d = 0; d < tile->rank; d++) {
		at[d] = (int64_t)(packed >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1));
		if (valid && at[d] >= valid->at[d])
			return AT_OUTSIDE;
	}
	return op->in[0]->type->kind == TYPE_TENSOR ? tensor_at(w, op, at, bits) : pointer_at(w, op, at, bits);
}

static int
add_once(int64_t *set, int n, int64_t x)
{
	for (int i = n - 1; i >= 0; i--)
		if (set[i] == x)
			return n;
	set[n] = x;
	return n + 1;
}

/* One access of the warp: false if an address is not known; *least 0 if no lane takes part. */
static bool
count(Walk *w, const Op *op, const Type *tile, const Layout *l, int first, int vector, int *touched, int *least)
{
	int64_t sector[LANES_MOST * VECTOR_MOST], seen[LANES_MOST * VECTOR_MOST], bits;
	int nsector = 0, nseen = 0, lanes = 1 << l->in[IN_LANE];
	int size = tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits;
	for (int lane = 0; lane < lanes; lane++)
		for (int r = 0; r < vector; r++) {
			Where where = lane_at(w, op, tile, l, lane, first + r, &bits);
			if (where == AT_UNKNOWN)
				return false;
			if (where == AT_OUTSIDE)
				continue;
			nseen = add_once(seen, nseen, bits);
			nsector = add_once(sector, nsector, bits >> 8);
		}
	*touched = nsector;
	*least = (nseen * size + 8 * SECTOR - 1) / (8 * SECTOR);
	return true;
}

/* The first register of the access that touches the most sectors for its bytes; -1: addresses are not known. */
static int
worst_access(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, int *touched, int *least)
{
	Walk w = {.arg = arg};
	int registers = 1 << l->in[IN_REGISTER], now, fewest, worst = 0;
	*touched = *least = 1;
	if (!arg || vector > VECTOR_MOST || 1 << l->in[IN_LANE] > LANES_MOST)
		return -1;
	vector = MIN(vector, registers);
	for (int r = 0, n = 0; r < registers && n < ACCESSES_MOST; r += vector, n++) {
		if (!count(&w, op, tile, l, r, vector, &now, &fewest))
			return -1;
		if (now * *least > *touched * fewest || (now * *least == *touched * fewest && now > *touched)) {
			*touched = now;
			*least = fewest;
			worst = r;
		}
	}
	return worst;
}

bool
inspect_sectors(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, int *touched,
    int *least)
{
	return worst_access(arg, op, tile, l, vector, touched, least) >= 0;
}

/* ---- why ---- */

static bool
depends_on_data(const InspectArg *arg, const Op *op)
{
	static const int64_t at[MAX_RANK] = {0};
	const char *index = op->in[0]->type->kind == TYPE_TENSOR ? attr_index(op) : "";
	for (int d = 0; index[d]; d++) {
		Walk w = {.arg = arg};
		int64_t i;
		if (index[d] == 'g' && !element(&w, op->in[1 + d], at, &i))
			return true;
	}
	return false;
}

/* What lies between the lanes of the worst access, where that costs sectors. */
static void
put_spread(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Text *out)
{
	Walk w = {.arg = arg};
	int touched, least, n = 0, run = 1, first = worst_access(arg, op, tile, l, vector, &touched, &least);
	int64_t at[LANES_MOST], bits, bytes = vector * (tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits) / 8;
	if (first < 0 || touched <= least || bytes == 0 || depends_on_data(arg, op))
		return;
	for (int lane = 0; lane < 1 << l->in[IN_LANE]; lane++)
		if (lane_at(&w, op, tile, l, lane, first, &bits) == AT_KNOWN)
			at[n++] = bits / 8;
	while (run < n && at[run] == at[run - 1] + bytes)
		run++;
	if (n > 0 && run == n && at[0] % SECTOR)
		text_printf(out, "a warp begins %lld bytes into a sector", (long long)(at[0] % SECTOR));
	else if (run == 1 && n > 1)
		text_printf(out, "neighbouring lanes are %lld bytes apart", llabs(at[1] - at[0]));
	else if (run < n)
		text_printf(out, "%lld bytes of %d lanes are adjacent, the next are %lld bytes apart",
		    (long long)(run * bytes), run, llabs(at[run] - at[0]));
}

/* An access is no wider than the distance of rows is aligned to. */
static void
put_narrow(const InspectArg *arg, const Op *op, int vector, Text *out)
{
	const Value *tensor = op->in[0];
	Walk w = {.arg = arg};
	const InspectArg *x = tensor->type->kind == TYPE_TENSOR ? arg_of(&w, tensor) : NULL;
	const char *index = x ? attr_index(op) : "";
	int rank = (int)strlen(index), size = dtype_info[tensor->type->elem].bits;
	int64_t bytes = (int64_t)vector * size / 8;
	if (rank < 2 || index[rank - 1] != 'p' || x->stride[rank - 1] != 1 || bytes == 0 || bytes >= VECTOR_BYTES)
		return;
	for (int d = 0; d < rank - 1; d++) {
		int64_t apart = x->stride[d] * size / 8;
		if (x->dim[d] <= 1 || apart % (2 * bytes) == 0)
			continue;
		text_printf(out, "%sno wider, since rows are %lld bytes apart", out->n ? "; " : "", (long long)apart);
		return;
	}
}

const char *
inspect_cause(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Arena *mem)
{
	Text t = {0};
	if (!arg)
		return NULL;
	put_spread(arg, op, tile, l, MIN(vector, 1 << l->in[IN_REGISTER]), &t);
	if (vector < 1 << l->in[IN_REGISTER])
		put_narrow(arg, op, vector, &t);
	return t.n ? text_take(&t, mem) : NULL;
}

double
inspect_sectors_first(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector)
{
	Walk w = {.arg = arg};
	int64_t sector[LANES_MOST * VECTOR_MOST], bits;
	int n = 0, lanes = 1 << l->in[IN_LANE];
	int size = tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits;
	double least = MAX((double)vector * size * lanes / (8 * SECTOR), 1);
	if (vector > VECTOR_MOST || lanes > LANES_MOST)
		return least;
	for (int lane = 0; lane < lanes; lane++) {
		Where where = lane_at(&w, op, tile, l, lane, 0, &bits);
		if (where == AT_UNKNOWN)
			return lanes;
		for (int64_t s = bits >> 8; where == AT_KNOWN && s <= (bits + vector * size - 1) >> 8; s++)
			n = add_once(sector, n, s);
	}
	return n ? n : least;
}

/* As many vectors as a record has elements. */
bool
inspect_records(InspectLine *x, const Op *op, int bits, const Target *t)
{
	int held = access_records_held(op, x->layout, t), n = (int)op->in[0]->type->extent[op->in[0]->type->rank - 1];
	if (held == 0)
		return false;
	x->bytes = (bits / 8) << held;
	x->accesses = MAX(x->accesses >> (held + x->layout->out[x->layout->rank - 1]), 1) * n;
	x->least = MAX(x->bytes << x->layout->in[IN_LANE] >> 5, 1);
	x->touched = MIN(n * x->least, 1 << x->layout->in[IN_LANE]);
	return true;
}
