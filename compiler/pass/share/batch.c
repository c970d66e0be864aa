/* Batching: a block computes for several programs, neighbours along an axis of the grid, as for one larger tile.
 *
 *     %r = program_id {axis = 0, dim = 3, per = 1}        %r = program_id {axis = 0, dim = 3, per = 1, ranks = 4}
 *     %v = read %x, %r, 0 {index = "ip",                  %v = read %x, %r, 0 {index = "pp",
 *         extents = [96]} : f32[96]                           extents = [4, 96]} : f32[4, 96]
 *     %s = reduce %v {fn = "sum", axis = 0} : f32    =>   %s = reduce %v {fn = "sum", axis = 1} : f32[4]
 *     %b = broadcast %s : f32[96]                         %b = broadcast (reshape %s : f32[4, 1]) : f32[4, 96]
 *     %q = div %v, %b                                     %q = div %v, %b
 *     write %y, %r, 0, %q {index = "ip", …}               write %y, %r, 0, %q {index = "pp", …}
 *
 * A short row leaves the lanes of a warp few elements each, or none: reductions exchange for one row what they could for
 * several, and what a row has one of is computed for it alone.  With the programs as a dimension, the first, layouts divide
 * lanes and registers between rows and elements as in any tile.
 *
 * The program's index on that axis stays that of the first of them; passes persist and coarsen go on by so many.  A value
 * is one of three: the same in all programs; a number that grows from program to program by a known step, which stays as
 * the first one's and says where an access starts; or different in each, with a dimension for them.  The axis is the first
 * that is known to be a multiple of the batch, by what is known of the dimension that it divides, and picks rows only; its
 * index says so by {ranks}. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"

#include <string.h>

typedef enum Kind { SAME, START, EACH } Kind;

typedef struct Batch {
	Module *m;
	Func *f;
	int64_t n;                                      /* programs */
	int axis;                                       /* of the grid, along which they are neighbours */
	int64_t shared;                                 /* bytes of tiles of one program that is read for all of them */
	Kind *kind;                                     /* of each value, by its id */
	int64_t *step;                                  /* of a START */
	Value **made;                                   /* of an EACH: for all programs; of a START, once it is asked for */
} Batch;

/* ---- what can be batched ---- */

static bool
depends(const Batch *x, const Op *op)
{
	return ANY_OF(i, op->nin, x->kind[op->in[i]->id] != SAME);
}

/* A start from an operation on one: its step from program to program; 0: it is none. */
static int64_t
step_of(const Batch *x, const Op *op)
{
	int64_t c;
	if (op->nout != 1 || op->out->type->rank > 0 || !dtype_is_int(op->out->type->elem) || op->nin == 0)
		return 0;
	Kind a = x->kind[op->in[0]->id], b = op->nin > 1 ? x->kind[op->in[1]->id] : SAME;
	int64_t of = a == START ? x->step[op->in[0]->id] : b == START ? x->step[op->in[1]->id] : 0;
	switch (op->kind) {
	case OP_CAST: return a == START && dtype_info[op->out->type->elem].bits == 64 ? of : 0;
	case OP_ADD: return (a == START) != (b == START) && a != EACH && b != EACH ? of : 0;
	case OP_SUB: return a == START && b == SAME ? of : 0;
	case OP_MUL:
		if (a == START && b == SAME && value_int(op->in[1], &c))
			return of * c;
		return a == SAME && b == START && value_int(op->in[0], &c) ? of * c : 0;
	default: return 0;
	}
}

typedef struct Indices {
	int starts, each, at;                           /* how many there are; the only start, from 0 */
	int64_t extent;                                 /* of its part; 0: an element */
} Indices;

static Indices
indices_of(const Batch *x, const Op *op)
{
	const char *index = attr_index(op);
	Indices n = {0};
	for (int i = 0, e = 0; index[i]; i++) {
		Kind k = x->kind[op->in[1 + i]->id];
		int64_t extent = index[i] == 'p' ? attr_extents(op)->at[e++] : 0;
		n.each += k == EACH;
		n.starts += k == START;
		if (k == START) {
			n.at = i;
			n.extent = extent;
		}
	}
	return n;
}

/* One index goes on by its own part, or by one, from program to program. */
static bool
is_one_run(const Batch *x, const Op *op, const Indices *n)
{
	return n->starts == 1 && n->each == 0 && !strchr(attr_index(op), 'g') &&
	    x->step[op->in[1 + n->at]->id] == MAX(n->extent, 1);
}

/* Elements of any programs: each index is one element, which becomes a tile of indices. */
static bool
can_gather(const Batch *x, const Op *op)
{
	const char *index = attr_index(op);
	for (int i = 0; index[i]; i++)
		if (index[i] == 'g' || (index[i] == 'p' && x->kind[op->in[1 + i]->id] != SAME))
			return false;
	return true;
}

static bool
fits_access(const Batch *x, const Op *op)
{
	Indices n = indices_of(x, op);
	int data = 1 + (int)strlen(attr_index(op));
	if (!access_is_tensor(op) || op->in[0]->def || (op->kind != OP_READ && op->kind != OP_WRITE))
		return false;
	if (op->kind == OP_WRITE)
		return is_one_run(x, op, &n);
	bool fills = op->nin > data && (x->kind[op->in[data]->id] != SAME || op->in[data]->type->rank > 0);
	return !fills && x->f->param[op->in[0]->index].access == ACCESS_IN && (is_one_run(x, op, &n) || can_gather(x, op));
}

static bool
fits(const Batch *x, const Op *op)
{
	if (op->kind == OP_WRITE || (op_is_access(op) && depends(x, op)))
		return fits_access(x, op);
	if (!depends(x, op))
		return true;
	for (int i = 0; i < op->nout; i++)
		if (op->out[i].type->ptr != PTR_NONE || op->out[i].type->rank >= KERNEL_RANK)
			return false;
	switch (op->kind) {
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_FLIP: case OP_JOIN: case OP_SPLIT:
		return true;
	case OP_REDUCE: case OP_SCAN:
		return !op_has_fn(op);
	default:
		return op_has(op, ELEM) && op->nregion == 0;
	}
}

/* Is the axis of so many programs for certain? */
static bool
is_multiple(const Batch *x, const Op *id)
{
	int64_t dim = attr_dim(id), per = MAX(attr_per(id), 1);
	if (dim < 0)
		return op_attr(id, ATTR_COUNT) && attr_count(id) % x->n == 0;
	int64_t multiple = x->f->param[dim].multiple;
	return multiple > 0 && multiple % (per * x->n) == 0;
}

static const char *
classify(Batch *x)
{
	bool rows = false;
	x->shared = 0;
	for (const Op *op = x->f->body->first; op; op = op->next) {
		bool is_id = op->kind == OP_PROGRAM_ID && attr_axis(op) == x->axis;
		if (is_id && !is_multiple(x, op))
			return "programs along no axis are known to be a multiple of it";
		if (!is_id && !fits(x, op))
			return "it does more with its rows than read, compute, reduce and write";
		int64_t step = is_id ? 1 : step_of(x, op);
		for (int i = 0; i < op->nout; i++) {
			x->kind[op->out[i].id] = step ? START : depends(x, op) ? EACH : SAME;
			x->step[op->out[i].id] = step;
		}
		rows |= is_id;
		if (op->kind == OP_READ && !depends(x, op))
			x->shared += op->out->type->rank ? dtype_bytes(op->out->type->elem, type_count(op->out->type)) : 0;
	}
	return rows ? NULL : "its axes pick nothing";
}

/* The axis that can be batched along which neighbours read the most bytes of the same, `w[p * B +: B, j]` of a filter over
 * time, and of several the first; why there is none. */
static const char *
find_axis(Batch *x)
{
	const char *first = NULL;
	int64_t most = -1;
	int best = 0;
	for (x->axis = 0; x->axis < x->f->naxis; x->axis++) {
		const char *reason = classify(x);
		if (!reason && x->shared > most) {
			best = x->axis;
			most = x->shared;
		}
		first = first ? first : reason;
	}
	x->axis = best;
	return most >= 0 ? classify(x) : first ? first : "it has one program";
}

/* ---- the same for all programs at once ---- */

static const Type *
batch_type(const Batch *x, const Type *t)
{
	return type_with_dim(x->m, t, 0, x->n);
}

/* A tile [s…] of type t's own rank, or [n, s…], as [n, 1…, s…]: of one dimension more than t. */
static Value *
aligned(const Batch *x, Builder *b, Value *v, bool each, const Type *t)
{
	int64_t extent[MAX_RANK] = {each ? x->n : 1};
	int rank = v->type->rank - each, ones = t->rank - rank;
	for (int i = 0; i < t->rank; i++)
		extent[1 + i] = i < ones ? 1 : v->type->extent[each + i - ones];
	return build_reshape(b, v, t->rank + 1, extent);
}

static Value *
for_all(Batch *x, Builder *b, Value *v)
{
	const Type *t = batch_type(x, v->type);
	if (x->made[v->id])
		return x->made[v->id];
	if (x->kind[v->id] == SAME)
		return build1(b, OP_BROADCAST, v->type->rank ? aligned(x, b, v, false, v->type) : v, t);
	Value *along = build_iota(b, t, 0);
	Value *step = build1(b, OP_BROADCAST, build_int(b, v->type, x->step[v->id]), t);
	Value *all = build2(b, OP_ADD, build1(b, OP_BROADCAST, v, t), build2(b, OP_MUL, along, step));
	return x->made[v->id] = all;
}

/* Dimension `at` becomes the first. */
static Value *
to_front(Builder *b, Value *v, int at)
{
	int64_t dims[MAX_RANK];
	for (int d = 0; d < v->type->rank; d++)
		dims[d] = d == 0 ? at : d - (d <= at);
	return at == 0 ? v : build_permute(b, v, dims);
}

/* Which of the ranges the dimension of the start is, or becomes. */
static int
run_at(const Op *op, const Indices *n)
{
	int at = 0;
	for (int i = 0; i < n->at; i++)
		at += attr_index(op)[i] == 'p';
	return at;
}

/* [… n * e …] as [… n, e …], or back. */
static Value *
cut(const Batch *x, Builder *b, Value *v, int at, int64_t e, bool joins)
{
	int64_t extent[MAX_RANK];
	int rank = 0;
	for (int d = 0; d < v->type->rank; d++) {
		if (d == at && !joins) {
			extent[rank++] = x->n;
			extent[rank++] = e;
		} else if (d == at) {
			extent[rank++] = x->n * e;
			d++;
		} else {
			extent[rank++] = v->type->extent[d];
		}
	}
	return build_reshape(b, v, rank, extent);
}

static Value *
read_run(Batch *x, Builder *b, const Op *op, const Indices *n)
{
	int at = run_at(op, n);
	Value *v = access_along(b, op, op->in, n->at, x->n * MAX(n->extent, 1))->out;
	return to_front(b, n->extent ? cut(x, b, v, at, n->extent, false) : v, at);
}

static void
write_run(Batch *x, Builder *b, const Op *op, const Indices *n)
{
	int64_t dims[MAX_RANK];
	int at = run_at(op, n), data = access_data(op);
	Value **in = NEW_COPY(x->m->cx->tmp, op->in, op->nin), *v = op->in[data];
	v = for_all(x, b, v);
	for (int d = 0; d < v->type->rank; d++)         /* the programs' dimension goes to its place */
		dims[d] = d < at ? d + 1 : d == at ? 0 : d;
	v = at ? build_permute(b, v, dims) : v;
	in[data] = n->extent ? cut(x, b, v, at, n->extent, true) : v;
	access_along(b, op, in, n->at, x->n * MAX(n->extent, 1));
}

static Value *
read_gathered(Batch *x, Builder *b, const Op *op)
{
	const char *old = attr_index(op);
	int rank = (int)strlen(old), at = -1, before = 0;
	char index[MAX_RANK + 1] = {0};
	Value **in = NEW_COPY(x->m->cx->tmp, op->in, op->nin);
	const IntList *e = attr_extents(op);
	for (int i = 0; i < rank; i++) {
		bool varies = x->kind[op->in[1 + i]->id] != SAME;
		index[i] = varies ? 'g' : old[i];
		if (varies)
			in[1 + i] = for_all(x, b, op->in[1 + i]);
		if (varies && at < 0)
			at = before;
		before += old[i] == 'p';
	}
	Value *v = access_like(b, op, in, op->nin, index, e ? e->at : NULL, e ? e->n : 0)->out;
	return to_front(b, v, at);
}

/* Dimensions that attributes count are one further on. */
static Attr *
attrs_for(const Batch *x, const Op *op)
{
	Attr *attr = NEW_COPY(x->m->cx->tmp, op->attr, op->nattr);
	for (int i = 0; i < op->nattr; i++) {
		if (attr[i].name == ATTR_AXIS)
			attr[i].i++;
		if (attr[i].name != ATTR_DIMS)
			continue;
		int64_t dims[MAX_RANK] = {0};
		for (int d = 0; d < attr[i].ints.n; d++)
			dims[1 + d] = attr[i].ints.at[d] + 1;
		attr[i] = attr_new_dims(x->m, dims, attr[i].ints.n + 1);
	}
	return attr;
}

static void
compute(Batch *x, Builder *b, const Op *op)
{
	Value **in = NEW_ARRAY(x->m->cx->tmp, Value *, op->nin);
	const Type **want = NEW_ARRAY(x->m->cx->tmp, const Type *, op->nout);
	for (int i = 0; i < op->nin; i++) {
		in[i] = for_all(x, b, op->in[i]);
		if (op->kind == OP_BROADCAST)
			in[i] = aligned(x, b, in[i], true, op->out->type);
	}
	for (int i = 0; i < op->nout; i++)
		want[i] = batch_type(x, op->out[i].type);
	op_clone_as(b, op, in, attrs_for(x, op), want, x->made);
}

static void
rewrite(Batch *x)
{
	VEC(Op *) old = {0};
	for (Op *op = x->f->body->first; op; op = op->next)
		if (op->kind == OP_WRITE || (op->nout > 0 && x->kind[op->out[0].id] == EACH))
			vec_push(x->m->cx->tmp, &old, op);
	for (int i = 0; i < old.n; i++) {
		Op *op = old.at[i];
		Builder b = build_before(op);
		Indices n = op_is_access(op) ? indices_of(x, op) : (Indices){0};
		if (op->kind == OP_WRITE)
			write_run(x, &b, op, &n);
		else if (op->kind == OP_READ)
			x->made[op->out->id] = is_one_run(x, op, &n) ? read_run(x, &b, op, &n) : read_gathered(x, &b, op);
		else
			compute(x, &b, op);
	}
	for (int i = old.n - 1; i >= 0; i--)
		op_erase(old.at[i]);
	for (Op *op = x->f->body->first; op; op = op->next)
		if (op->kind == OP_PROGRAM_ID && attr_axis(op) == x->axis)
			attr_set_ranks(x->m, op, x->n);
}

void
pass_batch(Func *f, const Target *t)
{
	Batch x = {.m = f->module, .f = f, .n = f->schedule.batch};
	Arena *tmp = f->module->cx->tmp;
	if (x.n <= 1)
		return;
	func_number(f);
	x.kind = NEW_ARRAY(tmp, Kind, MAX(f->nvalues, 1));
	x.step = NEW_ARRAY(tmp, int64_t, MAX(f->nvalues, 1));
	x.made = NEW_ARRAY(tmp, Value *, MAX(f->nvalues, 1));
	f->batch_reason = coarsen_reason(f);
	if (!f->batch_reason)
		f->batch_reason = coarsen_guards(f) ? "it reads what it writes" : find_axis(&x);
	if (f->batch_reason) {
		f->schedule.batch = 0;
		return;
	}
	rewrite(&x);
	f->schedule.coarsen = 0;
	f->schedule.persistent = true;
}
