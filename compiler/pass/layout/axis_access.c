/* What follows for accesses: how wide a thread's may be, and which need no test of bounds.
 *
 *     %i = mul %pid, 1024
 *     read %x, %i {index = "p", extents = [1024]}      four elements at once, if N is a multiple of 4 and %x of 16 bytes:
 *                                                      the start is divisible by 4, and groups of four are inside or
 *                                                      outside together
 *     for %k in 0 .. K step 64:  read %a, %r, %k {… extents = [32, 64]}     inside along K if K is a multiple of 64 */
#include "pass/layout/axis.h"

#include <string.h>

/* The parameter whose argument a tensor value is. */
static const FuncParam *
tensor_param(const Axes *a, const Value *tensor)
{
	return tensor->def || tensor->block != a->f->body ? NULL : &a->f->param[tensor->index];
}

/* The symbol that names a tensor's dimension, or NULL. */
static const Value *
dim_symbol(const Axes *a, const Value *tensor, int d)
{
	const FuncParam *p = tensor_param(a, tensor);
	return p && p->dim[d] >= 0 ? &a->f->body->arg[p->dim[d]] : NULL;
}

int
dim_div(const Axes *a, const Value *tensor, int d)
{
	int64_t extent = tensor->type->extent[d];
	const Value *symbol = dim_symbol(a, tensor, d);
	if (extent >= 0) {
		AxisInfo x = axis_constant(type_scalar(a->f->module, TY_I64), extent);
		return x.div[0];
	}
	const FuncParam *p = tensor_param(a, tensor);
	if (!symbol && p && p->dim_multiple[d] > 1) {
		AxisInfo x = axis_constant(type_scalar(a->f->module, TY_I64), p->dim_multiple[d]);
		return x.div[0];
	}
	return symbol ? axis_of(a, symbol)->div[0] : 0;
}

void
dim_range(const Axes *a, const Value *tensor, int d, int64_t *lo, int64_t *hi)
{
	int64_t extent = tensor->type->extent[d];
	const Value *symbol = dim_symbol(a, tensor, d);
	*lo = extent >= 0 ? extent : symbol ? MAX(axis_of(a, symbol)->lo, 0) : 0;
	*hi = extent >= 0 ? extent : MAX_ELEMENTS;
}

/* Where an access's tile lies along each dimension of the tensor. */
typedef struct Span {
	const Op *op;
	const Value *tensor;
	const Type *tile;
	const char *index;
	int rank;                                       /* of the tensor */
	int gather;                                     /* first dimension of the tile that comes from gather indices */
	int ngather;
	int at[MAX_RANK];                               /* p: the tile's dimension, i and g: -1 */
} Span;

static Span
access_open(const Op *op)
{
	Span x = {.op = op, .tensor = op->in[0], .tile = place_type(op), .index = attr_index(op)};
	int d = 0;
	x.rank = x.tensor->type->rank;
	x.gather = -1;
	for (int i = 0; i < x.rank; i++) {
		x.at[i] = -1;
		if (x.index[i] == 'g' && x.gather < 0) {
			x.gather = d;
			x.ngather = op->in[1 + i]->type->rank;
			d += x.ngather;
		} else if (x.index[i] == 'p') {
			x.at[i] = d++;
		}
	}
	return x;
}

static bool
is_zero(const Axes *a, const Value *v)
{
	const AxisInfo *x = axis_of(a, v);
	return x->lo == 0 && x->hi == 0;
}

/* Divisibility of index along tensor dimension d for all elements of groups along tile dimension `fast`. */
static int
index_div(const Axes *a, const Span *x, int d)
{
	const Value *v = x->op->in[1 + d];
	if (x->index[d] == 'p' && x->tile->extent[x->at[d]] != 1)
		return 0;
	return axis_div(axis_of(a, v), 0);
}

/* log2 of the elements by which every row of the last dimension starts apart, at most. */
static int
rows_div(const Axes *a, const Span *x)
{
	int least = DIV_MOST, stride = 0;
	for (int d = x->rank - 2; d >= 0; d--) {
		stride = MIN(stride + dim_div(a, x->tensor, d + 1), DIV_MOST);
		if (x->index[d] != 'p' && is_zero(a, x->op->in[1 + d]))
			continue;
		least = MIN(least, stride + index_div(a, x, d));
	}
	return least;
}

/* In the last dimension by gather: the tile of indices counts up itself, and other gather indices stay. */
static int
gather_contiguity(const Axes *a, const Span *x, int *dim)
{
	int k = DIV_MOST, g = x->ngather - 1;
	if (g < 0)
		return 0;
	*dim = x->gather + g;
	for (int d = 0; d < x->rank; d++) {
		const AxisInfo *i = axis_of(a, x->op->in[1 + d]);
		if (x->index[d] != 'g')
			continue;
		if (d == x->rank - 1)
			k = MIN(k, MIN(i->contig[g], i->div[g]));
		else
			k = MIN(k, i->equal[g]);
	}
	return k;
}

static int
trailing(int64_t v)
{
	int n = 0;
	while (v > 0 && !(v >> n & 1))
		n++;
	return v > 0 ? n : DIV_MOST;
}

static int
tensor_contiguity(const Axes *a, const Op *op, int *dim)
{
	Span x = access_open(op);
	const FuncParam *p = tensor_param(a, x.tensor);
	int last = x.rank - 1, bits = dtype_info[x.tensor->type->elem].bits;
	int bytes = log2_floor(MAX(bits / 8, 1)), k;
	const IntList *valid = attr_valid(op);
	*dim = x.tile->rank - 1;
	if (!p || p->strided || last < 0 || x.tile->rank == 0)
		return 0;
	if (x.index[last] == 'g')
		k = gather_contiguity(a, &x, dim);
	else if (x.index[last] == 'p')
		k = trailing(x.tile->extent[x.at[last]]);
	else
		return 0;
	if (x.index[last] == 'p') {
		*dim = x.at[last];
		k = MIN(k, axis_of(a, op->in[1 + last])->div[0]);
	}
	k = MIN(k, rows_div(a, &x));
	k = MIN(k, MAX(axis_of(a, x.tensor)->div[0] - bytes, 0) + (bits < 8));
	if (!access_is_inside(a, op, last))
		k = MIN(k, dim_div(a, x.tensor, last));
	if (valid)
		k = MIN(k, trailing(valid->at[*dim]));
	return k;
}

/* The mask of a load or store, or NULL. */
static const Value *
pointer_mask(const Op *op)
{
	int at = op->kind == OP_LOAD || op->kind == OP_PREFETCH ? 1 : 2;
	if (op->kind == OP_ATOMIC_PTR)
		return attr_masked(op) ? op->in[op->nin - 1] : NULL;
	return op->nin > at ? op->in[at] : NULL;
}

static int
pointer_contiguity(const Axes *a, const Op *op, int *dim)
{
	const AxisInfo *p = axis_of(a, op->in[0]);
	const Value *mask = pointer_mask(op);
	int unit = axis_unit(op->in[0]->type), rank = op->in[0]->type->rank;
	*dim = rank - 1;
	for (int d = rank - 1; d >= 0; d--)
		if (p->contig[d] > p->contig[*dim])
			*dim = d;
	int d = *dim, k = MIN(p->contig[d], MAX(p->div[d] - unit, 0));
	const AxisInfo *m = mask ? axis_of(a, mask) : NULL;
	return m && m->lo != m->hi ? MIN(k, m->equal[d]) : k;
}

int
access_contiguity(const Axes *a, const Op *op, const Target *t, int *dim)
{
	const Type *tile = place_type(op);
	bool is_tensor = op->in[0]->type->kind == TYPE_TENSOR;
	int bits = dtype_info[is_tensor ? op->in[0]->type->elem : tile->elem].bits;
	int most = log2_floor(MAX(t->vector_bytes * 8 / bits, 1)), k;
	*dim = tile->rank - 1;
	if (tile->rank == 0)
		return 0;
	k = is_tensor ? tensor_contiguity(a, op, dim) : pointer_contiguity(a, op, dim);
	return MIN(k, most);
}

int
access_vector(const Axes *a, const Op *op, const Layout *l, const Target *t)
{
	int dim, k = access_contiguity(a, op, t, &dim);
	if (op_family(op) == FAMILY_ATOMIC || l->rank == 0)
		return 1;
	return 1 << MIN(k, layout_contiguous(l, dim));
}

/* Is it the symbol, or the least of it and something else? */
static bool
is_below(const Value *v, const Value *symbol)
{
	const Op *op = v->def;
	return v == symbol || (op && op->kind == OP_MIN && (op->in[0] == symbol || op->in[1] == symbol));
}

/* v as program_id * times + more. */
static const Op *
program_of(const Axes *a, const Value *v, int64_t *times, int64_t *more)
{
	const Op *op = v->def;
	*times = 1;
	*more = 0;
	for (int i = 0; op && op->kind == OP_ADD && i < 2; i++) {
		const AxisInfo *x = axis_of(a, op->in[i]);
		if (x->lo != x->hi)
			continue;
		*more = x->lo;
		op = op->in[1 - i]->def;
		break;
	}
	for (int i = 0; op && op->kind == OP_MUL && i < 2; i++) {
		const AxisInfo *x = axis_of(a, op->in[i]);
		if (x->lo != x->hi)
			continue;
		*times = x->lo;
		op = op->in[1 - i]->def;
		break;
	}
	return op && op->kind == OP_PROGRAM_ID ? op : NULL;
}

/* start .. start + extent - 1 for a program's own part of the dimension, of which the grid has as many as there are.  The
 * last part is whole if the dimension is divisible. */
static bool
program_stays_inside(const Axes *a, const Span *x, int d, const Value *start, int64_t extent)
{
	int64_t times, more, per;
	const Op *program = program_of(a, start, &times, &more);
	const FuncParam *p = tensor_param(a, x->tensor);
	if (!program || !p || p->dim[d] < 0 || attr_dim(program) != p->dim[d])
		return false;
	per = attr_per(program);
	if (times != per || more < 0 || extent > per - more)
		return false;
	int k = dim_div(a, x->tensor, d);
	return (more == 0 && extent <= 1) || per == 1 || (k < 62 && (INT64_C(1) << k) % per == 0);
}

/* start .. start + extent - 1 for a loop's index that runs from `lo` to the dimension itself in whole steps. */
static bool
loop_stays_inside(const Axes *a, const Span *x, int d, const Value *start, int64_t extent)
{
	const Op *loop = start->def ? NULL : start->block->parent;
	const Value *symbol = dim_symbol(a, x->tensor, d);
	if (!loop || loop->kind != OP_FOR || start->index != 0 || !symbol || !is_below(loop->in[1], symbol))
		return false;
	const AxisInfo *lo = axis_of(a, loop->in[0]), *step = axis_of(a, loop->in[2]);
	if (lo->lo < 0 || step->lo != step->hi || step->lo <= 0)
		return false;
	if (extent <= 1)
		return true;
	int k = log2_floor(step->lo);
	return INT64_C(1) << k == step->lo && extent <= step->lo && lo->div[0] >= k && axis_of(a, symbol)->div[0] >= k;
}

/* The same for an index times `by`, where the loop runs over the dimension's parts: to cdiv(dimension, by). */
static bool
part_stays_inside(const Axes *a, const Span *x, int d, const Value *start, int64_t extent)
{
	const Op *mul = start->def;
	const Value *symbol = dim_symbol(a, x->tensor, d);
	if (!mul || mul->kind != OP_MUL || !symbol)
		return false;
	for (int i = 0; i < 2; i++) {
		const Value *index = mul->in[i];
		const AxisInfo *by = axis_of(a, mul->in[1 - i]);
		const Op *loop = index->def ? NULL : index->block->parent;
		const Op *parts = loop && loop->kind == OP_FOR && index->index == 0 ? loop->in[1]->def : NULL;
		if (!parts || parts->kind != OP_CDIV || parts->in[0] != symbol || by->lo != by->hi || by->lo <= 0)
			continue;
		const AxisInfo *over = axis_of(a, parts->in[1]);
		int k = log2_floor(by->lo);
		bool whole = INT64_C(1) << k == by->lo && axis_of(a, symbol)->div[0] >= k;
		if (over->lo == by->lo && over->hi == by->hi && axis_of(a, loop->in[0])->lo >= 0 &&
		    axis_of(a, loop->in[2])->lo > 0 && (extent <= 1 || (whole && extent <= by->lo)))
			return true;
	}
	return false;
}

bool
access_is_inside(const Axes *a, const Op *op, int d)
{
	Span x = access_open(op);
	const IntList *valid = attr_valid(op);
	const Value *v = op->in[1 + d];
	const AxisInfo *i = axis_of(a, v);
	int64_t lo, hi, extent = 1;
	if (x.at[d] >= 0)
		extent = valid ? valid->at[x.at[d]] : x.tile->extent[x.at[d]];
	dim_range(a, x.tensor, d, &lo, &hi);
	if (i->lo >= 0 && i->hi <= lo - extent)
		return true;
	return x.index[d] != 'g' &&
	       (loop_stays_inside(a, &x, d, v, extent) || part_stays_inside(a, &x, d, v, extent) ||
		   program_stays_inside(a, &x, d, v, extent));
}

static void
note_inside(const Axes *a, Op *op)
{
	int64_t inside[MAX_RANK];
	int rank = op->in[0]->type->rank;
	bool any = false;
	for (int d = 0; d < rank; d++) {
		inside[d] = access_is_inside(a, op, d);
		any |= inside[d];
	}
	if (any)
		attr_set_inside(a->f->module, op, inside, rank);
}

/* A bool or an integer that turned out to be one number. */
static void
make_constant(const Axes *a, Op *op)
{
	Value *v = &op->out[0];
	const AxisInfo *x = axis_of(a, v);
	bool is_bool = v->type->elem == TY_BOOL;
	if (op->kind == OP_CONST || v->type->ptr != PTR_NONE || x->lo != x->hi || v->nuses == 0 ||
	    !(is_bool || dtype_is_int(v->type->elem)) || v->type->elem == TY_U64)
		return;
	Builder b = {.m = a->f->module, .block = op->home, .before = op, .place = op->place};
	Attr value = is_bool ? attr_bool_value(x->lo != 0) : attr_int_value(x->lo);
	Value *c = &op_make(&b, OP_CONST, NULL, 0, &value, 1, &v->type, 1)->out[0];
	c->name = v->name;
	c->id = v->id;
	value_replace(v, c);
}

/* Integers, and masks above all, of which neighbours are equal are computed once for a group of them. */
static void
note_equal(const Axes *a, Op *op)
{
	const Value *v = &op->out[0];
	int rank = v->type->rank, equal = rank > 0 ? axis_of(a, v)->equal[rank - 1] : 0;
	bool counts = v->type->elem == TY_BOOL || dtype_is_int(v->type->elem);
	if (equal > 0 && counts && v->type->ptr == PTR_NONE && (op_info[op->kind].traits & ELEM))
		attr_set_equal(a->f->module, op, INT64_C(1) << MIN(equal, 30));
}

/* A mask that is always true says nothing. */
static void
drop_mask(const Axes *a, Op *op)
{
	const Value *mask = op->in[0]->type->kind == TYPE_TENSOR ? NULL : pointer_mask(op);
	if (!mask || axis_of(a, mask)->lo != 1 || (op->kind != OP_LOAD && op->kind != OP_STORE))
		return;
	Op *plain;
	Builder b = {.m = a->f->module, .block = op->home, .before = op, .place = op->place};
	int n = op->kind == OP_LOAD ? 1 : 2;
	plain = op_make(&b, op->kind, op->in, n, op->attr, op->nattr, NULL, 0);
	if (op->nout) {
		plain->out[0].id = op->out[0].id;
		plain->out[0].name = op->out[0].name;
		plain->out[0].layout = op->out[0].layout;
		value_replace(&op->out[0], &plain->out[0]);
	}
	op_erase(op);
}

static void
note_op(const Axes *a, Op *op)
{
	if (op->nout == 1 && (op_info[op->kind].traits & PURE) && !op->nregion && !op->out[0].layout)
		make_constant(a, op);
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_ATOMIC:
		note_inside(a, op);
		break;
	case OP_LOAD: case OP_STORE:
		drop_mask(a, op);
		break;
	default:
		if (op->nout == 1)
			note_equal(a, op);
		break;
	}
}

void
pass_axis(Module *m, const Target *t)
{
	(void)t;
	for (int i = 0; i < m->funcs.n; i++) {
		Func *f = m->funcs.at[i];
		Axes *a = axis_analyse(f, m->cx->tmp);
		for (Op *op = f->body->first, *next; op; op = next) {
			next = op_after(op, f->body);
			note_op(a, op);
		}
		func_number(f);
	}
}
