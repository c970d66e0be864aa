/* Accesses by the digits of one index become accesses of dimensions that are one.
 *
 *     %n = div %pixel, %rows * %columns           %y: out f16[B, rows, columns, F]
 *     %i = rem (div %pixel, %columns), %rows
 *     %j = rem %pixel, %columns
 *     write %y, %n, %i, %j, %f, %v {index = "gggp", extents = [64]}
 *  =>
 *     write %y, 0, 0, %start, %f, %v {index = "iipp", extents = [128, 64], merged = [0, 0, 2, 0]}
 *
 * where %pixel is %start and what counts up from 0, and a tensor that is not strided.  An element is in the tensor if and
 * only if %pixel is below B * rows * columns: so %pixel is known not to be negative, the first digit has no remainder, and
 * each divisor is the product of the extents behind.  Extents are equal that have one symbol or number, or that the program
 * asks the tensor for (y.shape(1)).  A convolution's result leaves by tensor maps then, and one of filters of one
 * element is a product of matrices.
 *
 * A tile of indices along one dimension that counts up is a part of it, "gp" becomes "pp"; of two dimensions see outer.c.
 *
 * A convolution's gather of its images keeps its indices, and {reach} says how far loops move them (model/window.c).
 *
 * Other accesses of the tensor must be reads: what orders accesses compares their dimensions one by one. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "model/turn.h"
#include "pass/layout/axis.h"
#include "pass/outer.h"

#include <string.h>

enum { DEPTH = 8, REACH_MOST = 255 };

/* Is the index of dimension d the digit of `linear` before what `behind` counts?  Takes dimension d to `behind`. */
static bool
is_digit(const Op *op, int d, bool is_first, const Value *linear, Product *behind)
{
	const Value *v = op->in[1 + d];
	Digit digit = digit_of(v);
	Product extent = {.number = 1};
	product_extent(&extent, op, d);
	int64_t n;
	bool is_one = extent.n == 0 && extent.number == 1 && value_int(digit_unwrap(v), &n) && n == 0;
	bool fits = digit.linear == linear && product_equal(&digit.by, behind) &&
	    (is_first ? !digit.is_rest : digit.is_rest && product_equal(&digit.mod, &extent));
	product_extent(behind, op, d);
	return fits || (is_one && !is_first);
}

/* ---- what counts up ---- */

/* A scalar and what counts up from 0, `counts` times. */
static bool
is_affine(const Value *v, int *counts, int depth)
{
	const Op *op = v->def;
	int64_t n;
	int right = 0;
	v = digit_root(v);
	op = v->def;
	if (!op || depth == 0 || v->type->rank != 1)
		return false;
	if (op->kind == OP_IOTA)
		return ++*counts == 1;
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type->rank == 0;
	if (op->kind == OP_ADD)
		return is_affine(op->in[0], counts, depth - 1) && is_affine(op->in[1], counts, depth - 1);
	if (op->kind == OP_SUB)
		return is_affine(op->in[0], counts, depth - 1) && is_affine(op->in[1], &right, depth - 1) && right == 0;
	return value_int(v, &n);
}

/* Its scalar, i64. */
static Value *
start_of(Builder *b, const Value *v)
{
	const Type *index = type_scalar(b->m, TY_I64);
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n))
		return build_index(b, n);
	if (op->kind == OP_IOTA)
		return build_index(b, 0);
	if (op->kind == OP_CAST)
		return start_of(b, op->in[0]);
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type == index ? op->in[0] : build1(b, OP_CAST, op->in[0], index);
	Value *x = start_of(b, op->in[0]), *y = start_of(b, op->in[1]);
	if (value_int(y, &n) && n == 0)
		return x;
	return op->kind == OP_ADD && value_int(x, &n) && n == 0 ? y : build2(b, op->kind, x, y);
}

bool
flatten_counts(const Value *v, int *counts)
{
	return is_affine(v, counts, DEPTH);
}

Value *
flatten_start(Builder *b, const Value *v)
{
	return start_of(b, v);
}

/* ---- accesses ---- */

/* The tensor's dimensions that tiles of one dimension index: from *first to *last, with nothing between. */
static bool
find_gathered(const Op *op, int *first, int *last)
{
	const char *index = attr_index(op), *g = strchr(index, 'g'), *end = strrchr(index, 'g');
	if (!g || attr_merged(op))
		return false;
	*first = (int)(g - index);
	*last = (int)(end - index);
	for (int d = *first; d <= *last; d++)
		if (index[d] != 'g' || op->in[1 + d]->type->rank != 1)
			return false;
	return true;
}

static bool
has_other_writes(const Op *access)
{
	const Func *f = access->home->func;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_same_tensor = op->nin > 0 && op->in[0] == access->in[0];
		if (op->kind == OP_INLINE_PTX || (op != access && is_same_tensor && op_has(op, WRITES)) ||
		    (op != access && is_same_tensor && access->kind == OP_WRITE && op_has(op, READS)))
			return true;
	}
	return false;
}

/* The linear index of which the gathered dimensions are the digits; NULL. */
static const Value *
linear_of(const Op *op, int first, int last)
{
	const Value *linear = first == last ? op->in[1 + last] : digit_of(op->in[1 + last]).linear;
	Product behind = {.number = 1};
	for (int d = last; d >= first && first < last; d--)
		if (!is_digit(op, d, d == first, linear, &behind))
			return NULL;
	return first == last || axis_of(linear)->lo >= 0 ? linear : NULL;
}

bool
flatten_fits(const Value *v)
{
	axis_keep(v->block->func);
	const Value *root = digit_root(v);
	DType t = root->type->elem;
	if (dtype_info[t].bits == 64)
		return true;
	bool wraps = dtype_is_unsigned(t) && axis_of(root)->hi == axis_unknown(root->type).hi;
	return axis_of(v)->lo >= 0 && !wraps;
}

/* In place: the op has the indices, letters and extents of the other form. */
static void
change(Op *op, int first, int last, const Value *linear)
{
	Module *m = op->home->func->module;
	Builder b = build_before(op);
	if (linear->def) {
		b.block = linear->def->home;
		b.before = linear->def->next;
	}
	Value *start = start_of(&b, linear), *zero = build_index(&b, 0);
	const IntList *extents = attr_extents(op);
	const Type *tile = linear->type;
	int64_t extent[KERNEL_RANK], merged[KERNEL_RANK] = {0};
	char index[KERNEL_RANK + 1];
	int n = 0, e = 0;
	strcpy(index, attr_index(op));
	for (int d = 0; index[d]; d++) {
		if (d >= first && d <= last) {
			index[d] = d < last ? 'i' : 'p';
			op_set_in(op, 1 + d, d < last ? zero : start);
		}
		if (index[d] == 'p')
			extent[n++] = d == last ? tile->extent[0] : extents->at[e++];
	}
	merged[last] = last - first;
	attr_set_index(m, op, intern(m->cx->names, index));
	attr_set_extents(m, op, extent, n);
	if (first < last)
		attr_set_merged(m, op, merged, op->in[0]->type->rank);
}

/* ---- windows ---- */

/* Adds the most that a value of loops is, `factor` times. */
static bool
add_most(LaunchSum *s, const Value *v, int64_t factor)
{
	const Op *loop = v->def ? NULL : v->block->parent;
	LaunchSum end;
	int64_t step;
	if (axis_of(v)->lo < 0)
		return false;
	if (axis_of(v)->hi <= REACH_MOST) {
		s->number += factor * axis_of(v)->hi;
		return true;
	}
	if (!loop || loop->kind != OP_FOR || v->index || !value_int(loop->in[2], &step) || step < 1 ||
	    !launch_sum_of(loop->in[1], &end) || s->n + end.n > LAUNCH_TERMS)
		return false;
	s->number += factor * (end.number - 1);
	for (int i = 0; i < end.n; i++) {
		s->term[s->n] = end.term[i];
		s->term[s->n++].factor *= factor;
	}
	return true;
}

static int
put_sum(const LaunchSum *s, int64_t *out)
{
	int n = 2;
	out[0] = s->number;
	out[1] = s->n;
	for (int i = 0; i < s->n; i++) {
		out[n++] = s->term[i].factor;
		out[n++] = s->term[i].param;
		out[n++] = s->term[i].dim;
	}
	return n;
}

/* 0: it is not known. */
static int
put_reach(const WindowDim *d, int64_t *out)
{
	LaunchSum most = {.number = 0}, falls = {.number = 0};
	for (int i = 0; i < d->offset.n; i++) {
		int64_t factor = d->offset.factor[i];
		if (!add_most(&most, d->offset.v[i], factor < 0 ? -factor : factor) ||
		    (factor < 0 && !add_most(&falls, d->offset.v[i], -factor)))
			return 0;
	}
	int n = put_sum(&most, out);
	return n + put_sum(&falls, out + n);
}

static bool
is_count(const Product *p)
{
	LaunchSum sum;
	return p->n == 0 || p->factor[0].axis >= 0 || launch_sum_of(p->factor[0].v, &sum);
}

/* A gather of windows of an image has {reach}, by which a tensor map may serve it. */
static void
note_windows(Op *op)
{
	int64_t reach[2 * WINDOW_RANK * (2 + 3 * LAUNCH_TERMS)];
	int n = 0, counts = 0;
	Window w;
	if (op->kind != OP_READ || window_find(op, &w))
		return;
	axis_keep(op->home->func);
	const Value *linear = w.dim[w.n - 1].digit.linear;
	if (!is_affine(linear, &counts, DEPTH) || counts != 1 || axis_of(linear)->lo < 0)
		return;
	for (int i = 0; i < w.n; i++) {
		int more = is_count(&w.dim[i].digit.mod) ? put_reach(&w.dim[i], reach + n) : 0;
		if (more == 0)
			return;
		n += more;
	}
	attr_set_reach(op->home->func->module, op, reach, n);
}

static bool
is_candidate(const Op *op)
{
	const Value *tensor = op->nin ? op->in[0] : NULL;
	return (op->kind == OP_READ || op->kind == OP_WRITE) && tensor->type->kind == TYPE_TENSOR && !tensor->def &&
	    !tensor->block->parent && tensor->type->rank <= KERNEL_RANK && !op->home->func->param[tensor->index].strided &&
	    !dtype_is_packed(tensor->type->elem);
}

/* Of the loops around that do not write the tensor, and have nothing to do with v, the outermost; or the op itself. */
static Op *
outermost(Op *op, const Value *tensor, const Value *v)
{
	Op *loop = op->home->parent;
	bool leaves = loop && loop->kind == OP_FOR && !value_inside(v, loop->region[0]) &&
	    !tensor_may_be_written(op->home->func, tensor, loop->region[0]);
	return leaves ? outermost(loop, tensor, v) : op;
}

/* Elements of rows by numbers of few bits, as of a table that each row of weights has: the rows are read before the loop.
 *
 *     %v = read %t, (broadcast %n), (cast %w) {index = "gg"} : f16[64, 128]              %w: u4[64, 128]
 *  =>
 *     %r = read %t, %n, 0 {index = "gp", extents = [16]} : f16[64, 16]
 *     %v = gather %r, (cast %w) {axis = 1} : f16[64, 128] */
static void
read_rows(Op *op)
{
	Module *m = op->home->func->module;
	int64_t n;
	if (!read_looks_up(op, &n))
		return;
	const Value *v = op->in[1]->def->in[0];
	Builder b = build_before(outermost(op, op->in[0], v));
	b.place = op->place;
	Value *rows = build_reshape(&b, op->in[1]->def->in[0], 1, v->type->extent);
	Value *in[] = {op->in[0], rows, build_index(&b, 0)};
	Op *read = access_like(&b, op, in, 3, "gp", &n, 1);
	b = build_before(op);
	Attr axis = attr_new_axis(m, 1);
	op_become(op, op_make(&b, OP_GATHER, (Value *[]){read->out, op->in[2]}, 2, &axis, 1, NULL, 0)->out);
}

void
pass_flatten(Func *f, const Target *t)
{
	(void)t;
	int first, last, counts;
	for (EACH_OP(op, f->body))
		read_rows(op);
	for (EACH_OP(op, f->body))
		if (is_candidate(op) && !has_other_writes(op) && flatten_outer(op))
			f->has_axes = false;
	for (EACH_OP(op, f->body)) {
		if (op->kind == OP_SHR && op->in[1]->type->rank > 0)
			flatten_shift(op);
		if (!is_candidate(op) || !find_gathered(op, &first, &last))
			continue;
		axis_keep(f);
		const Value *linear = linear_of(op, first, last);
		counts = 0;
		if (first < last && !linear)
			note_windows(op);
		if (linear && is_affine(linear, &counts, DEPTH) && counts == 1 && flatten_fits(linear) &&
		    (first == last || !has_other_writes(op)))
			change(op, first, last, linear);
	}
	sweep(f);
}
