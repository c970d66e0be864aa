/* What follows for accesses: how wide a thread's may be, and which need no test of bounds.
 *
 *     %i = mul %pid, 1024
 *     read %x, %i {index = "p", extents = [1024]}      four elements at once, if N is a multiple of 4 and %x of 16 bytes:
 *                                                      the start is divisible by 4, and groups of four are inside or
 *                                                      outside together
 *     for %k in 0 .. K step 64:  read %a, %r, %k {… extents = [32, 64]}     inside along K if K is a multiple of 64 */
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"

#include "ir/derive.h"
#include "model/model.h"

#include <string.h>

enum { MAP_ALIGN = 4 };                                 /* log2 of bytes: where a tensor map's box may begin along a row */

/* The parameter whose argument a tensor value is. */
static const FuncParam *
tensor_param(const Value *tensor)
{
	return tensor->def || tensor->block->parent ? NULL : &tensor->block->func->param[tensor->index];
}

/* The symbol that names a tensor's dimension, or NULL. */
static const Value *
dim_symbol(const Value *tensor, int d)
{
	const FuncParam *p = tensor_param(tensor);
	return p && p->dim[d] >= 0 ? &tensor->block->func->body->arg[p->dim[d]] : NULL;
}

int
dim_div(const Value *tensor, int d)
{
	int64_t extent = tensor->type->extent[d];
	const Value *symbol = dim_symbol(tensor, d);
	if (extent >= 0)
		return trailing_zeros(extent);
	const FuncParam *p = tensor_param(tensor);
	if (!symbol && p && p->dim_multiple[d] > 1)
		return trailing_zeros(p->dim_multiple[d]);
	return symbol ? axis_of(symbol)->div[0] : 0;
}

void
dim_range(const Value *tensor, int d, int64_t *lo, int64_t *hi)
{
	int64_t extent = tensor->type->extent[d];
	const Value *symbol = dim_symbol(tensor, d);
	*lo = extent >= 0 ? extent : symbol ? MAX(axis_of(symbol)->lo, 0) : 0;
	*hi = extent >= 0 ? extent : MAX_ELEMENTS;
}

/* The same of an access, with the dimensions that it merges with d. */
static int
extent_div(const Op *op, int d)
{
	int k = dim_div(op->in[0], d);
	for (int i = 1; i <= access_merged(op, d); i++)
		k += dim_div(op->in[0], d - i);
	return MIN(k, DIV_MOST);
}

static int64_t
extent_least(const Op *op, int d)
{
	int64_t lo, hi, n = 1;
	for (int i = 0; i <= access_merged(op, d); i++) {
		dim_range(op->in[0], d - i, &lo, &hi);
		n = MIN(n, MAX_ELEMENTS) * MIN(lo, INT32_MAX);
	}
	return MIN(n, MAX_ELEMENTS);
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
	Span x = {.op = op, .tensor = op->in[0], .tile = anchor_type(op), .index = attr_index(op)};
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
is_zero(const Value *v)
{
	const AxisInfo *x = axis_of(v);
	return x->lo == 0 && x->hi == 0;
}

/* Divisibility of index along tensor dimension d for all elements of groups along tile dimension `fast`. */
static int
index_div(const Span *x, int d)
{
	const Value *v = x->op->in[1 + d];
	if (x->index[d] == 'p' && x->tile->extent[x->at[d]] != 1)
		return 0;
	return axis_div(axis_of(v), 0);
}

/* Of a tensor with rows: log2 of the elements by which what lies along dimensions from `from` on starts apart, at most. */
static int
rows_div(const Span *x, int from)
{
	int least = DIV_MOST, stride = 0;
	const FuncParam *p = tensor_param(x->tensor);
	for (int d = x->rank - 2; d >= 0; d--) {
		stride = p->strided ? trailing_zeros(MAX(p->apart, 1))
		                    : MIN(stride + dim_div(x->tensor, d + 1), DIV_MOST);
		if (d >= from || (x->index[d] != 'p' && is_zero(x->op->in[1 + d])))
			continue;
		least = MIN(least, stride + index_div(x, d));
	}
	return least;
}

/* In the last dimension by gather: the tile of indices counts up itself, and other gather indices stay. */
static int
gather_contiguity(const Span *x, int *dim)
{
	int k = DIV_MOST, g = x->ngather - 1;
	if (g < 0)
		return 0;
	*dim = x->gather + g;
	for (int d = 0; d < x->rank; d++) {
		const AxisInfo *i = axis_of(x->op->in[1 + d]);
		if (x->index[d] != 'g')
			continue;
		if (d == x->rank - 1)
			k = MIN(k, MIN(i->contig[g], i->div[g]));
		else
			k = MIN(k, i->equal[g]);
	}
	return k;
}

/* Along tensor dimension d, of which the tile takes a part: log2 of the groups that are aligned, and inside or outside
 * together. */
static int
part_contiguity(const Span *x, int d)
{
	const IntList *valid = attr_valid(x->op);
	int k = MIN(axis_of(x->op->in[1 + d])->div[0], trailing_zeros(x->tile->extent[x->at[d]]));
	if (!access_is_inside(x->op, d))
		k = MIN(k, extent_div(x->op, d));
	return valid ? MIN(k, trailing_zeros(valid->at[x->at[d]])) : k;
}

/* Does the tile take rows along dimension d whole, one after the other? */
static bool
takes_rows(const Span *x, int d)
{
	const IntList *valid = attr_valid(x->op);
	int64_t extent = x->tensor->type->extent[d];
	bool is_dense = d > 0 && !tensor_param(x->tensor)->strided && extent > 0;
	return is_dense && x->index[d] == 'p' && x->index[d - 1] == 'p' && is_zero(x->op->in[1 + d]) &&
	    x->tile->extent[x->at[d]] == INT64_C(1) << log2_ceil(extent) && (!valid || valid->at[x->at[d]] == extent);
}

/* Rows whose extent is a power of two run on into one another. */
static int
parts_contiguity(const Span *x, int *first)
{
	int k = part_contiguity(x, *first), whole = 0;
	for (; takes_rows(x, *first) && x->tensor->type->extent[*first] == x->tile->extent[x->at[*first]]; --*first) {
		whole += log2_ceil(x->tile->extent[x->at[*first]]);
		k = whole + part_contiguity(x, *first - 1);
	}
	return k;
}

static int
tensor_contiguity(const Op *op, int *dim)
{
	Span x = access_open(op);
	const FuncParam *p = tensor_param(x.tensor);
	int last = x.rank - 1, first = last, bits = dtype_info[x.tensor->type->elem].bits;
	int bytes = log2_floor(MAX(bits / 8, 1)), k;
	const IntList *valid = attr_valid(op);
	*dim = x.tile->rank - 1;
	if (!p || !param_has_rows(p) || last < 0 || x.tile->rank == 0)
		return 0;
	if (x.index[last] == 'g') {
		k = gather_contiguity(&x, dim);
		k = access_is_inside(op, last) ? k : MIN(k, extent_div(op, last));
		k = valid ? MIN(k, trailing_zeros(valid->at[*dim])) : k;
	} else if (x.index[last] == 'p') {
		*dim = x.at[last];
		k = bits < 8 || op_family(op) == FAMILY_ATOMIC ? part_contiguity(&x, last) : parts_contiguity(&x, &first);
	} else {
		return 0;
	}
	k = MIN(k, rows_div(&x, first));
	return MIN(k, MAX(axis_of(x.tensor)->div[0] - bytes, 0) + (bits < 8));
}

const Value *
access_root(const Value *v, int64_t *shift)
{
	enum { SHIFT_MOST = 512 };
	const Op *op = v->def;
	*shift = 0;
	for (int i = 0; op && op->kind == OP_ADD && i < 2; i++) {
		int64_t n;
		if (!value_constant(op->in[i], &n) || n < -SHIFT_MOST || n > SHIFT_MOST)
			continue;
		*shift = n;
		return op->in[1 - i];
	}
	return v;
}

bool
access_goes_on(const Op *op, int d)
{
	const FuncParam *p = op->in[0]->type->kind == TYPE_TENSOR ? tensor_param(op->in[0]) : NULL;
	return !attr_valid(op) || (op->kind == OP_READ && p && p->access == ACCESS_IN && d == op->in[0]->type->rank - 1);
}

int
access_halo(const Op *op, const Layout *l, const Target *t)
{
	if (op->kind != OP_READ || op->in[0]->type->kind != TYPE_TENSOR)
		return 0;
	Span x = access_open(op);
	const FuncParam *p = tensor_param(x.tensor);
	int last = x.rank - 1, bits = dtype_info[x.tensor->type->elem].bits, bytes = log2_floor(MAX(bits / 8, 1));
	int64_t shift;
	if (!p || !param_has_rows(p) || last < 0 || bits < 8 || x.index[last] != 'p' || !access_goes_on(op, last))
		return 0;
	const IntList *valid = attr_valid(op);
	const Value *root = access_root(op->in[1 + last], &shift);
	int k = MIN(axis_of(root)->div[0], trailing_zeros(valid ? valid->at[x.at[last]] : x.tile->extent[x.at[last]]));
	k = MIN(MIN(k, extent_div(op, last)), rows_div(&x, last));
	k = MIN(k, MIN(MAX(axis_of(x.tensor)->div[0] - bytes, 0), log2_floor(t->vector_bytes) - bytes));
	k = l ? MIN(k, layout_contiguous(l, x.at[last])) : k;
	return k > 0 && shift % (INT64_C(1) << k) ? k : 0;
}

int
access_records(const Op *op, const Target *t, int *dim)
{
	enum { ELEMENTS_MOST = 8, WRITTEN_MOST = 16 };  /* bits: vectors of wider ones fill half sectors (repeat3) */
	if (op->in[0]->type->kind != TYPE_TENSOR || (op->kind != OP_READ && op->kind != OP_WRITE))
		return 0;
	Span x = access_open(op);
	const FuncParam *p = tensor_param(x.tensor);
	int last = x.rank - 1, bits = dtype_info[x.tensor->type->elem].bits;
	int64_t n = last > 0 ? x.tensor->type->extent[last] : 0;
	if (op->kind == OP_WRITE && bits > WRITTEN_MOST)
		return 0;
	if (!p || p->strided || bits < 8 || n < 3 || n > ELEMENTS_MOST || !(n & (n - 1)) || !takes_rows(&x, last))
		return 0;
	*dim = x.at[last];
	int bytes = log2_floor(bits / 8), k = MIN(part_contiguity(&x, last - 1), rows_div(&x, last - 1));
	k = MIN(k, MAX(axis_of(x.tensor)->div[0] - bytes, 0));
	return MIN(k, log2_floor(t->vector_bytes) - bytes);
}

int
access_records_held(const Op *op, const Layout *l, const Target *t)
{
	int dim, k = access_records(op, t, &dim);
	return k > 0 ? MAX(MIN(k, layout_contiguous_rows(l, dim) - l->out[dim]), 0) : 0;
}

/* log2 of the bytes by which the records of a window begin apart from their tensor, at most. */
static int
window_div(const Span *x, int bytes)
{
	int least = axis_of(x->tensor)->div[0], stride = trailing_zeros(x->tensor->type->extent[x->rank - 1]) + bytes;
	for (int d = x->rank - 2; d >= 0; d--) {
		if (d < x->rank - 2 && (x->index[d] == 'p' || !is_zero(x->op->in[1 + d])))
			least = MIN(least, stride + index_div(x, d));
		stride = MIN(stride + dim_div(x->tensor, d), DIV_MOST);
	}
	return least;
}

int
access_window(const Op *op, int *dim)
{
	enum { WORDS_MOST = 4, LOG_WINDOW = 2, LOG_WORD = 2 };
	if (op->kind != OP_READ || op->in[0]->type->kind != TYPE_TENSOR)
		return 0;
	Span x = access_open(op);
	const FuncParam *p = tensor_param(x.tensor);
	int last = x.rank - 1, row = last - 1, bits = dtype_info[x.tile->elem].bits;
	if (!p || p->strided || row < 0 || (bits != 8 && bits != 16))
		return 0;
	int64_t channel, channels = x.tensor->type->extent[last], words = channels * bits / 8;
	if (x.index[last] != 'i' || x.index[row] != 'p' || words < 2 || words > WORDS_MOST ||
	    !value_constant(op->in[1 + last], &channel) || channel < 0 || channel >= channels)
		return 0;
	*dim = x.at[row];
	return part_contiguity(&x, row) >= LOG_WINDOW && window_div(&x, log2_floor(bits / 8)) >= LOG_WORD ? (int)words : 0;
}

static int
pointer_contiguity(const Op *op, int *dim)
{
	const AxisInfo *p = axis_of(op->in[0]);
	const Value *mask = access_mask(op);
	int unit = axis_unit(op->in[0]->type), rank = op->in[0]->type->rank;
	*dim = rank - 1;
	for (int d = rank - 1; d >= 0; d--)
		if (p->contig[d] > p->contig[*dim])
			*dim = d;
	int d = *dim, k = MIN(p->contig[d], MAX(p->div[d] - unit, 0));
	const AxisInfo *m = mask ? axis_of(mask) : NULL;
	return m && m->lo != m->hi ? MIN(k, m->equal[d]) : k;
}

int
access_contiguity(const Op *op, const Target *t, int *dim)
{
	const Type *tile = anchor_type(op);
	bool is_tensor = op->in[0]->type->kind == TYPE_TENSOR;
	int bits = dtype_info[is_tensor ? op->in[0]->type->elem : tile->elem].bits;
	int most = log2_floor(MAX(t->vector_bytes * 8 / bits, 1)), k;
	*dim = tile->rank - 1;
	if (tile->rank == 0)
		return 0;
	k = is_tensor ? tensor_contiguity(op, dim) : pointer_contiguity(op, dim);
	return MIN(k, most);
}

const char *
access_map_reason(const Op *op, const Target *t)
{
	const char *why = map_reason(op, t);
	if (why)
		return why;
	const Type *tensor = op->in[0]->type;
	axis_keep(op->home->func);
	int div = axis_of(op->in[tensor->rank])->div[0], bytes = log2_floor(dtype_tile_size(tensor->elem));
	return div + bytes >= MAP_ALIGN ? NULL : "it may begin at other than multiples of 16 bytes along a row";
}

bool
access_adds_pairs(const Op *op, const Target *t)
{
	DType elem = anchor_type(op)->elem;
	bool is_sum = op->kind == OP_ATOMIC && strcmp(attr_fn(op), "add") == 0 && op->out[0].nuses == 0;
	return is_sum && (t->has & HAS_ATOMIC_PAIRS) && (elem == TY_F32 || elem == TY_F16 || elem == TY_BF16);
}

int
access_vector(const Op *op, const Layout *l, const Target *t)
{
	int dim, k = access_contiguity(op, t, &dim);
	if (l->rank == 0 || (op_family(op) == FAMILY_ATOMIC && !access_adds_pairs(op, t)))
		return 1;
	k = op_family(op) == FAMILY_ATOMIC ? MIN(k, 1) : k;
	return 1 << MIN(k, layout_contiguous_rows(l, dim));
}

/* start .. start + extent - 1 for a program's own part of the dimension; of records that are one with their dimension
 * (collapse_records), theirs. */
static bool
program_stays_inside(const Span *x, int d, const Value *start, int64_t extent)
{
	const FuncParam *p = tensor_param(x->tensor);
	int64_t record = 1;
	if (access_merged(x->op, d) == 1 && x->tensor->type->extent[d] > 0) {
		record = x->tensor->type->extent[d];
		d--;
	}
	return p && p->dim[d] >= 0 && below_by_program(start, p->dim[d], dim_div(x->tensor, d), record, extent);
}

/* The same for a loop's index, where the dimension or that of which it is parts bounds the loop. */
static bool
loop_stays_inside(const Span *x, int d, const Value *start, int64_t extent)
{
	const FuncParam *p = tensor_param(x->tensor);
	const Value *symbol = dim_symbol(x->tensor, d);
	int64_t part = !symbol && p && p->part[d] > 0 ? p->part[d] : 1;
	symbol = part > 1 ? &x->op->home->func->body->arg[p->part_of[d]] : symbol;
	return symbol && below_by_loop(start, symbol, part, extent, true);
}

bool
access_is_inside(const Op *op, int d)
{
	return access_is_inside_from(op, d, op->in[1 + d]);
}

bool
access_is_inside_from(const Op *op, int d, const Value *v)
{
	Span x = access_open(op);
	const IntList *valid = attr_valid(op);
	const AxisInfo *i = axis_of(v);
	int64_t extent = 1;
	if (access_merges_away(op, d))
		return true;                            /* without elements the other dimension has none */
	if (x.at[d] >= 0)
		extent = valid ? valid->at[x.at[d]] : x.tile->extent[x.at[d]];
	if (i->lo >= 0 && i->hi <= extent_least(op, d) - extent)
		return true;
	if (x.index[d] == 'g')
		return false;
	int merged = access_merged(op, d);
	return (merged == 0 && loop_stays_inside(&x, d, v, extent)) ||
	    (merged <= 1 && program_stays_inside(&x, d, v, extent));
}
