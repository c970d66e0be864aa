/* Reads at indices that stop at a tensor's edges, or go around them, become reads of parts.
 *
 *     %l = max (add %j, -1), 0                        %j: what counts up from %start
 *     %v = read %x, %i, %l {index = "ig"} : u8[256]
 *  =>
 *     %k = clamp 1 - %start to 0 … 256                so many elements come from the edge
 *     %e = read %x, %i, select (%k > 0, 0, -1) {index = "ii"} : u8
 *     %p = read %x, %i, %start - 1 {index = "ip", extents = [256]} : u8[256]
 *     %v = select (iota < %k), (broadcast %e), %p
 *
 * as stencils repeat the edges of an image: each element is read alone otherwise, and neighbours share nothing.  A
 * tile that touches no edge reads none.  What goes around, %j % W of a dimension of W elements, is of two parts, at
 * the start's remainder r and at r - W, of which all but one are outside of the tensor:
 *
 *     %v = select (iota < W - %r), (read %x, %i, %r …), (read %x, %i, %r - W …)
 *
 * where W is known to be at least the tile: it divides W, and of a W of 0 nothing is in the tensor.  Of a start that
 * the tile divides, too, with a number added, one part begins that number beside the tile, aligned as a stencil's.
 *
 * Only the last dimension is taken apart, whose elements lie side by side; indices of rows are gathered as they were.
 * Parts read what the kernel did not ask for, so that nothing may write the tensor.  Where what the kernel writes has
 * rows that begin within words, threads hold single elements, for which parts are no better: a border of three around
 * 96 images of 1024 x 1024 bytes, rows of 1030, took an H200 84 us with clamped indices and 192 by parts. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/layout/axis.h"
#include "pass/outer.h"

#include <string.h>

/* Indices that count up from `start`, between `least` and `most` if there are such; or that modulo `around`. */
typedef struct Line {
	const Value *counts, *least, *most, *around;
	bool least_last;                                /* max(min(…), …) */
} Line;

typedef struct Edges {
	Builder b;
	Op *op;
	int last;                                       /* the tensor's dimension */
	int64_t n;                                      /* elements of the tile along it */
	const Value *row[KERNEL_RANK];                  /* of other dimensions, along the tile's first; or NULL */
} Edges;

static bool
is_uniform(const Value *v)
{
	int counts = 0;
	return flatten_counts(v, &counts) && counts == 0;
}

/* What counts up by ones, as 64 bits would, and not past 2^63, where it would go on from -2^63. */
static bool
is_count(const Value *v)
{
	int counts = 0;
	if (!flatten_counts(v, &counts) || counts != 1 || axis_of(v)->hi == INT64_MAX)
		return false;
	const Value *root = digit_root(v);
	const AxisInfo *x = axis_of(root);
	return flatten_fits(v) || (root->type->elem == TY_I32 && x->lo > INT32_MIN && x->hi < INT32_MAX);
}

static bool
find_line(const Value *v, Line *out)
{
	v = digit_root(v);
	const Op *op = v->def;
	if (is_count(v)) {
		out->counts = v;
		return true;
	}
	if (!op || (op->kind != OP_MAX && op->kind != OP_MIN))
		return false;
	const Value **bound = op->kind == OP_MAX ? &out->least : &out->most;
	int at = is_uniform(op->in[1]);
	if (*bound || !is_uniform(op->in[at]))
		return false;
	out->least_last = out->least || out->most ? out->least_last : op->kind == OP_MAX;
	*bound = op->in[at];
	return find_line(op->in[1 - at], out);
}

/* ---- what is read ---- */

/* The read with that index of the last dimension: a part of `n` elements, or, 0, one. */
static Value *
read_at(Edges *x, Value *start, int64_t n)
{
	Value **in = NEW_COPY(x->b.m->cx->tmp, x->op->in, x->op->nin);
	for (int d = 0; d < x->last; d++)
		in[1 + d] = x->row[d] ? (Value *)x->row[d] : in[1 + d];
	in[1 + x->last] = start;
	return access_along(&x->b, x->op, in, x->last, n)->out;
}

static Value *
between(Builder *b, Value *v, int64_t least, int64_t most)
{
	return build2(b, OP_MIN, build2(b, OP_MAX, v, build_index(b, least)), build_index(b, most));
}

/* Of the first `k` elements along the last dimension `low`, of the others `high`. */
static Value *
choose(Edges *x, Value *k, Value *low, Value *high)
{
	Builder *b = &x->b;
	const Type *of = x->op->out[0].type, *t = type_tile(b->m, TY_I32, of->rank, of->extent);
	Value *all = build1(b, OP_BROADCAST, build1(b, OP_CAST, k, type_scalar(b->m, TY_I32)), t);
	return build3(b, OP_SELECT, build2(b, OP_LT, build_iota(b, t, of->rank - 1), all), low, high);
}

/* The element at `at`, if `any` of the tile's are from there. */
static Value *
edge(Edges *x, Value *at, Value *any)
{
	Value *one = read_at(x, build3(&x->b, OP_SELECT, any, at, build_index(&x->b, -1)), 0);
	if (x->op->out[0].type->rank == 1)
		return build1(&x->b, OP_BROADCAST, one, x->op->out[0].type);
	return build_stack(&x->b, one, one->type->rank, x->n);
}

/* How far `at` is beyond the least that the start is, of bounds that are known; else more than a tile has. */
static int64_t
reach(const Value *at, const Value *start)
{
	static const int64_t FAR = INT64_C(1) << 40;
	int64_t most = axis_of(at)->hi, least = axis_of(start)->lo;
	return most < FAR && least > -FAR ? most - least : FAR;
}

/* A place that differs from another one by a number of 64 bits: what is farther lies outside of every tensor, too. */
static Value *
near(Builder *b, Value *at)
{
	static const int64_t FAR = INT64_C(1) << 61;
	const AxisInfo *x = axis_of(at);
	return x->lo >= -FAR && x->hi <= FAR ? at : between(b, at, -FAR, FAR);
}

/* max: elements before least - start; min: those behind most - start; all if the other bound, which comes first, is beyond
 * this one. */
static Value *
bound(Edges *x, Value *v, Value *start, Value *at, Value *other, bool is_least)
{
	Builder *b = &x->b;
	Value *k = build2(b, OP_SUB, near(b, at), near(b, start)), *n = build_index(b, is_least ? x->n : 0);
	if (is_least)
		k = between(b, k, 0, MIN(MAX(reach(at, start), 0), x->n));
	else
		k = between(b, build2(b, OP_ADD, k, build_index(b, 1)), 0, x->n);
	if (other)
		k = build3(b, OP_SELECT, build2(b, is_least ? OP_LT : OP_GT, other, at), n, k);
	Value *any = is_least ? build2(b, OP_GT, k, build_index(b, 0)) : build2(b, OP_LT, k, build_index(b, x->n));
	Value *e = edge(x, at, any);
	return is_least ? choose(x, k, e, v) : choose(x, k, v, e);
}

static Value *
clamped(Edges *x, const Line *l)
{
	Builder *b = &x->b;
	Value *start = flatten_start(b, l->counts), *v = read_at(x, start, x->n);
	Value *least = l->least ? flatten_start(b, l->least) : NULL, *most = l->most ? flatten_start(b, l->most) : NULL;
	for (int i = 0; i < 2; i++)
		if ((i == 1) == l->least_last ? least != NULL : most != NULL) {
			bool is_least = (i == 1) == l->least_last;
			Value *other = i == 0 ? NULL : is_least ? most : least;
			v = bound(x, v, start, is_least ? least : most, other, is_least);
		}
	return v;
}

/* ---- around ---- */

/* A start as base + number + times * extent: *base is NULL for 0. */
typedef struct Start {
	Value *base;
	int64_t number, times;
} Start;

static void
take_start(Builder *b, Value *v, const Value *extent, Start *out)
{
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n)) {
		out->number += n;
	} else if (v == extent) {
		out->times++;
	} else if (op && op->kind == OP_MUL && op->in[0] == extent && value_int(op->in[1], &n) && n > 0 && n < INT32_MAX) {
		out->times += n;
	} else if (op && op->kind == OP_SUB && value_int(op->in[1], &n)) {
		out->number -= n;
		take_start(b, op->in[0], extent, out);
	} else if (op && op->kind == OP_ADD) {
		take_start(b, op->in[0], extent, out);
		take_start(b, op->in[1], extent, out);
	} else {
		out->base = out->base ? build2(b, OP_ADD, out->base, v) : v;
	}
}

/* Of a start that the tile's extent divides, and so %r, all elements lie in the tensor but for a number that is added: */
static Value *
beside(Edges *x, Value *r, Value *extent, int64_t number)
{
	Builder *b = &x->b;
	Value *by = build_index(b, number), *start = build2(b, OP_ADD, r, by), *v = read_at(x, number ? start : r, x->n);
	if (number == 0)
		return v;
	Value *other = build2(b, OP_ADD, build2(b, number < 0 ? OP_ADD : OP_SUB, r, extent), by);
	Value *k = build2(b, OP_SUB, number < 0 ? build_index(b, 0) : extent, start);
	Value *w = read_at(x, other, x->n);
	k = number < 0 ? between(b, k, 0, -number) : between(b, k, x->n - number, x->n);
	return choose(x, k, number < 0 ? w : v, number < 0 ? v : w);
}

static Value *
around(Edges *x, const Op *rest)
{
	Builder *b = &x->b;
	Value *extent = flatten_start(b, rest->in[1]), *start = flatten_start(b, rest->in[0]);
	const FuncParam *p = &b->block->func->param[x->op->in[0]->index];
	bool is_extent = p->dim[x->last] >= 0 && extent == &b->block->func->body->arg[p->dim[x->last]];
	if (!is_extent || INT64_C(1) << MIN(axis_of(extent)->div[0], 30) < x->n)
		return NULL;
	Start s = {0};
	take_start(b, start, extent, &s);
	Value *base = s.base ? s.base : build_index(b, 0);
	if (axis_of(base)->lo < 0 || s.number <= -x->n || (s.times == 0 && s.number < 0))
		return NULL;
	if (s.number <= x->n && axis_of(base)->div[0] >= log2_ceil(x->n))
		return beside(x, build2(b, OP_REM, base, extent), extent, s.number);
	Value *r = build2(b, OP_REM, start, extent), *left = build2(b, OP_SUB, extent, r);
	left = between(b, left, 0, x->n);
	return choose(x, left, read_at(x, r, x->n), read_at(x, build2(b, OP_SUB, r, extent), x->n));
}

static bool
is_candidate(const Op *op)
{
	const Value *tensor = op->nin ? op->in[0] : NULL;
	if (op->kind != OP_READ || tensor->type->kind != TYPE_TENSOR || tensor->def || tensor->block->parent ||
	    tensor->type->rank > KERNEL_RANK || attr_merged(op))
		return false;
	const Func *f = op->home->func;
	return param_has_rows(&f->param[tensor->index]) && !dtype_is_packed(tensor->type->elem) &&
	    !tensor_may_be_written(f, tensor, f->body);
}

/* The line of the last dimension's indices, where it is gathered alone, or beside rows that a tile of two dimensions
 * gathers along its first one; NULL. */
static const Value *
find_last(Edges *x)
{
	const Op *op = x->op;
	const char *index = attr_index(op);
	x->last = op->in[0]->type->rank - 1;
	if (index[x->last] != 'g' || (op->nin > 2 + x->last && op->in[2 + x->last]->type->rank > 0))
		return NULL;
	const Value *v = op->in[1 + x->last];
	int rank = v->type->rank, rows = 0;
	for (int d = (int)(strchr(index, 'g') - index); d < x->last; d++) {
		x->row[d] = index[d] == 'g' && rank == 2 ? flatten_line(op->in[1 + d], 0) : NULL;
		if (index[d] == 'p' || (index[d] == 'g' && !x->row[d]))
			return NULL;
		rows += index[d] == 'g';
	}
	x->n = v->type->extent[rank - 1];
	return rank == 1 || (rank == 2 && rows > 0) ? flatten_line(v, rank - 1) : NULL;
}

/* Do all rows that are written begin with a word? */
static bool
writes_words(Func *f)
{
	enum { WORD_BITS = 32 };
	axis_keep(f);
	return !ANY_OP(op, f->body, op->kind == OP_WRITE && access_is_tensor(op) && op->in[0]->type->rank > 1 &&
	    dtype_info[op->in[0]->type->elem].bits << MIN(dim_div(op->in[0], op->in[0]->type->rank - 1), 8) < WORD_BITS);
}

void
pass_edges(Func *f, const Target *t)
{
	(void)t;
	if (!writes_words(f))
		return;
	for (EACH_OP(op, f->body)) {
		if (!is_candidate(op))
			continue;
		Edges x = {.op = op, .b = build_before(op)};
		const Value *line = find_last(&x);
		axis_keep(f);
		if (!line)
			continue;
		Line l = {0};
		const Op *rest = digit_root(line)->def;
		Value *v = find_line(line, &l) && l.counts && (l.least || l.most) ? clamped(&x, &l)
		    : rest && rest->kind == OP_REM && is_count(rest->in[0]) && is_uniform(rest->in[1])
		    ? around(&x, rest)
		    : NULL;
		if (v) {
			op_become(op, v);
			f->has_axes = false;
		}
	}
	sweep(f);
}
