/* Where --break-nan asks for it, what looks for the first NaN or infinity: behind each op that makes floats a print with
 * {watch}, of what the op was given and of what it made.
 *
 *     %x = read %t, %s {index = "p", extents = [64]} : f32[64]
 *     %e = div %x, %x : f32[64]
 *  =>
 *     %x = read …
 *     %e = div %x, %x : f32[64]
 *     %n = dim %t {axis = 0}
 *     print %x, %e, %s, %n {text = "e", watch = "div", given = 1, bounds = [1, 0]}
 *
 * It runs where the passes of all targets end, so that the cpu device and the emulator look at the same ops, by the same
 * rule (ir/interp/nan.c).  What later passes add (masks of padding, parts of a division) is not looked at, and pad writes
 * down which elements of the tiles are the program's own.
 *
 * A tile that stands out at the edge of a tensor holds elements outside of it: a row of a read's fills becomes
 * 0 / 0 and is never stored.  {bounds} names what tells them apart: a pair of numbers each, a tile of the print and one of
 * its dimensions, with two operands, where the access started and how far the tensor goes; or -1 with one, a pointer
 * access's mask.  An element is outside where along some dimension all that bounds it says so.  Where several reads meet
 * in a dimension an element inside one of them counts, and what has no such origin (constants, broadcasts) has no say;
 * where an origin is lost (a reshape, a sort) every element counts. */
#include "ir/derive.h"
#include "ir/interp/interp.h"
#include "pass/pass.h"

enum { EDGES = 4 };

/* What bounds a tile along a dimension: element i is inside if start + i is of the tensor's dimension; with tensor NULL
 * the mask `start` says it of every element. */
typedef struct Edge {
	Value *start, *tensor;
	int dim;
} Edge;

typedef struct Edges {
	bool all;                                       /* every element counts */
	int n;                                          /* 0, and not all: no say */
	Edge at[EDGES];
} Edges;

/* Of a value. */
typedef struct Origin {
	Edges dim[MAX_RANK], mask;
} Origin;

typedef struct Watch {
	Module *m;
	Func *f;
	Origin *of;                                     /* by Value.id */
	bool *joined;                                   /* the same: of parts of a split loop, within their branch */
	bool changed;
} Watch;

/* ---- what bounds a value ---- */

static void
edges_add(Edges *to, Edge e)
{
	for (int i = 0; i < to->n; i++)
		if (to->at[i].start == e.start && to->at[i].tensor == e.tensor && to->at[i].dim == e.dim)
			return;
	if (to->n == EDGES)
		to->all = true;
	else
		to->at[to->n++] = e;
}

static void
edges_join(Edges *to, const Edges *from)
{
	to->all |= from->all;
	for (int i = 0; i < from->n; i++)
		edges_add(to, from->at[i]);
}

static void
edges_lose(Edges *e)
{
	e->all |= e->n > 0;
}

static void
origin_join(Origin *to, const Origin *from)
{
	for (int d = 0; d < MAX_RANK; d++)
		edges_join(&to->dim[d], &from->dim[d]);
	edges_join(&to->mask, &from->mask);
}

/* It only grows. */
static int
weight(const Origin *o)
{
	int sum = o->mask.n + o->mask.all;
	for (int d = 0; d < MAX_RANK; d++)
		sum += o->dim[d].n + o->dim[d].all;
	return sum;
}

static const Origin *
origin_of(const Watch *w, const Value *v)
{
	return &w->of[v->id];
}

/* Keeps what can be named in a block. */
static void
edges_leave(Edges *e, const Block *to)
{
	for (int i = 0; i < e->n; i++)
		if (!block_inside(to, e->at[i].start->block))
			e->all = true;
}

static void
set_origin(Watch *w, const Value *v, const Origin *now)
{
	w->changed |= weight(now) != weight(origin_of(w, v));
	w->of[v->id] = *now;
}

/* Joins what is known of one value to another's, which stands in block `to`. */
static void
flow(Watch *w, const Value *from, const Value *to)
{
	Origin o = *origin_of(w, from), now = *origin_of(w, to);
	for (int d = 0; d < MAX_RANK; d++)
		edges_leave(&o.dim[d], to->block);
	edges_leave(&o.mask, to->block);
	origin_join(&now, &o);
	set_origin(w, to, &now);
}

/* ---- ops ---- */

/* Dimensions of an access's tile: of those by gather tiles, what bounds the tile. */
static void
from_access(Watch *w, const Op *op, Origin *out)
{
	const char *index = attr_index(op);
	int at = 0;
	bool gathered = false;
	for (int d = 0; index[d]; d++) {
		Value *start = op->in[1 + d];
		if (index[d] == 'p')
			edges_add(&out->dim[at++], (Edge){start, op->in[0], d});
		if (index[d] != 'g' || gathered)
			continue;
		gathered = true;
		for (int k = 0; k < start->type->rank; k++)
			edges_join(&out->dim[at++], &origin_of(w, start)->dim[k]);
	}
}

static void
from_pointers(Watch *w, const Op *op, Origin *out)
{
	bool masked = op->kind == OP_LOAD ? op->nin > 1 : attr_masked(op);
	for (int d = 0; d < MAX_RANK; d++)
		edges_join(&out->dim[d], &origin_of(w, op->in[0])->dim[d]);
	if (masked)
		edges_add(&out->mask, (Edge){.start = op->in[op->kind == OP_LOAD ? 1 : op->nin - 1]});
}

/* New dimensions of 1, and old ones gone, are seen through; else the origin is lost. */
static void
from_reshape(Watch *w, const Op *op, Origin *out)
{
	const Origin *o = origin_of(w, op->in[0]);
	int from[MAX_RANK];
	bool same = reshape_from(op, from);
	for (int d = 0; d < op->out[0].type->rank; d++) {
		if (same && from[d] >= 0)
			out->dim[d] = o->dim[from[d]];
		out->dim[d].all |= !same && ANY_OF(k, op->in[0]->type->rank, o->dim[k].all || o->dim[k].n > 0);
	}
}

/* Rows of a from a, columns of b from b, and what the accumulator says. */
static void
from_dot(Watch *w, const Op *op, Origin *out)
{
	bool scaled = op->kind == OP_DOT_SCALED;
	const Value *a = op->in[0], *b = op->in[scaled ? 2 : 1], *acc = op->in[op->nin - 1];
	int rank = op->out[0].type->rank;
	for (int d = 0; d < rank; d++) {
		edges_join(&out->dim[d], &origin_of(w, acc)->dim[d]);
		if (d != rank - 1)
			edges_join(&out->dim[d], &origin_of(w, a)->dim[d]);
		if (d != rank - 2)
			edges_join(&out->dim[d], &origin_of(w, b)->dim[d]);
	}
}

/* Dimension by dimension, without `gone` (-1: all stay); dimensions from `lost` of that axis are of unknown origin. */
static void
from_all(Watch *w, const Op *op, int gone, int lost, Origin *out)
{
	for (int i = 0; i < op->nin; i++) {
		const Origin *o = origin_of(w, op->in[i]);
		for (int d = 0, to = 0; d < op->in[i]->type->rank; d++)
			if (d != gone)
				edges_join(&out->dim[to++], &o->dim[d]);
		if (gone < 0)
			edges_join(&out->mask, &o->mask);
	}
	if (lost >= 0)
		out->dim[lost].all = true;
	if (gone >= 0 || lost >= 0)
		edges_lose(&out->mask);
}

static void
from_extract(Watch *w, const Op *op, Origin *out)
{
	const Origin *o = origin_of(w, op->in[0]);
	const char *index = attr_index(op);
	for (int d = 0, to = 0; index[d]; d++)
		if (index[d] == 'p') {
			out->dim[to] = o->dim[d];
			if (op->out[0].type->extent[to] != op->in[0]->type->extent[d])
				edges_lose(&out->dim[to]);
			to++;
		}
}

static void
from_other_shape(Watch *w, const Op *op, Origin *out)
{
	const Origin *o = origin_of(w, op->in[0]);
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	const IntList *dims = attr_dims(op);
	for (int d = 0; d < to->rank; d++) {
		if (op->kind == OP_PERMUTE)
			out->dim[d] = o->dim[dims->at[d]];
		else if (op->kind == OP_SPLIT || (from->rank == to->rank && from->extent[d] == to->extent[d]))
			out->dim[d] = o->dim[d];
	}
}

static Origin
origin_make(Watch *w, const Op *op)
{
	Origin out = {0};
	int axis = op_attr(op, ATTR_AXIS) ? (int)attr_axis(op) : -1;
	switch (op->kind) {
	case OP_READ: case OP_ATOMIC: from_access(w, op, &out); break;
	case OP_LOAD: case OP_ATOMIC_PTR: from_pointers(w, op, &out); break;
	case OP_RESHAPE: from_reshape(w, op, &out); break;
	case OP_PERMUTE: case OP_BROADCAST: case OP_SPLIT: from_other_shape(w, op, &out); break;
	case OP_JOIN: from_all(w, op, -1, -1, &out); break;
	case OP_EXTRACT: from_extract(w, op, &out); break;
	case OP_DOT: case OP_DOT_SCALED: from_dot(w, op, &out); break;
	case OP_REDUCE: case OP_REDUCE_FN: from_all(w, op, axis, -1, &out); break;
	case OP_SCAN: case OP_SCAN_FN: from_all(w, op, -1, -1, &out); break;
	case OP_CAT: case OP_FLIP: case OP_SORT: case OP_TOPK: case OP_GATHER: case OP_SCATTER:
		from_all(w, op, -1, axis, &out);
		break;
	default:
		if (op_info[op->kind].traits & ELEM)
			from_all(w, op, -1, -1, &out);
		break;
	}
	if (op->kind != OP_LOAD && op->kind != OP_ATOMIC_PTR && !(op_info[op->kind].traits & ELEM))
		edges_lose(&out.mask);
	return out;
}

/* ---- over a function, until nothing changes ---- */

static void
walk(Watch *w)
{
	const Block *body = w->f->body;
	Value *from, *to;
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		for (int e = 0; op_is_control(op) && e < OP_EDGES * op->nout; e++) {
			op_edge(op, e / OP_EDGES, e % OP_EDGES, &from, &to);
			flow(w, from, to);
		}
		for (int i = 0; !op_is_control(op) && i < op->nout; i++) {
			Origin now = origin_make(w, op);
			set_origin(w, &op->out[i], &now);
		}
	}
}

/* ---- the prints ---- */

typedef struct Made {
	Builder b;
	VEC(Value *) in;
	VEC(int64_t) bounds;
} Made;

static void
put_edges(Watch *w, Made *out, const Edges *e, int tile, int dim)
{
	Arena *mem = w->m->cx->tmp;
	for (int i = 0; i < e->n && !e->all; i++) {
		Attr axis = attr_new_axis(w->m, e->at[i].dim);
		vec_push(mem, &out->bounds, tile);
		vec_push(mem, &out->bounds, e->at[i].tensor ? dim : -1);
		vec_push(mem, &out->in, e->at[i].start);
		if (!e->at[i].tensor)
			continue;
		Op *extent = op_make(&out->b, OP_DIM, &e->at[i].tensor, 1, &axis, 1, NULL, 0);
		vec_push(mem, &out->in, &extent->out[0]);
	}
}

static void
watch_result(Watch *w, Op *op, Value *made)
{
	Made out = {.b = {.m = w->m, .block = op->home, .before = op->next, .place = op->place}};
	Arena *mem = w->m->cx->tmp;
	for (int i = 0; i < op->nin; i++)
		if (nan_has_floats(op->in[i]))
			vec_push(mem, &out.in, op->in[i]);
	int given = out.in.n;
	vec_push(mem, &out.in, made);
	for (int i = 0; i <= given; i++) {
		const Value *v = out.in.at[i];
		for (int d = 0; d < v->type->rank; d++)
			put_edges(w, &out, &origin_of(w, v)->dim[d], i, d);
		put_edges(w, &out, &origin_of(w, v)->mask, i, -1);
	}
	Attr attr[4] = {attr_new_text(w->m, made->name ? made->name : ""),
	    attr_new_watch(w->m, op_info[op->kind].text), attr_new_given(w->m, given),
	    attr_new_bounds(w->m, out.bounds.at, out.bounds.n)};
	op_make(&out.b, OP_PRINT, out.in.at, out.in.n, attr, out.bounds.n ? 4 : 3, NULL, 0);
}

/* Parts of a split loop that had no trip are joined too, and what that gives, -inf less -inf, is selected away before the
 * branch that joins ends. */
static bool
is_joined(Watch *w, const Op *op)
{
	bool is = op->kind == OP_SPLIT_GET || ANY_OF(i, op->nin, w->joined[op->in[i]->id]);
	for (int i = 0; i < op->nout; i++)
		w->joined[op->out[i].id] = is;
	return is;
}

static void
watch_block(Watch *w, Block *block)
{
	for (EACH_OP_HERE(op, block)) {
		for (int r = 0; r < op->nregion; r++)
			watch_block(w, op->region[r]);
		if (!is_joined(w, op) && nan_is_watched(op))
			for (int i = op->nout - 1; i >= 0; i--)
				watch_result(w, op, &op->out[i]);
	}
}

void
pass_nan_check(Func *f, const Target *t)
{
	func_number(f);
	Arena *tmp = f->module->cx->tmp;
	Watch w = {.m = f->module, .f = f, .of = NEW_ARRAY(tmp, Origin, f->nvalues), .changed = true};
	w.joined = NEW_ARRAY(tmp, bool, f->nvalues);
	while (w.changed) {
		w.changed = false;
		walk(&w);
	}
	watch_block(&w, f->body);
}
