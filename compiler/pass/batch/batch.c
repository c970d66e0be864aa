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
#include "pass/batch/batch.h"

#include <string.h>

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
	if (x->made[v->id])
		return x->made[v->id];
	const Type *t = batch_type(x, v->type);
	if (x->kind[v->id] == SAME)
		return build1(b, OP_BROADCAST, v->type->rank ? aligned(x, b, v, false, v->type) : v, t);
	Value *along = build_iota(b, t, 0);
	Value *step = build1(b, OP_BROADCAST, build_int(b, v->type, x->step[v->id]), t);
	Value *all = build2(b, OP_ADD, build1(b, OP_BROADCAST, v, t), build2(b, OP_MUL, along, step));
	if (b->block == x->f->body)                     /* before all that follows */
		x->made[v->id] = all;
	return all;
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

static void rewrite_block(Batch *x, Block *b);

/* The loop carries what differs for all programs at once. */
static void
rewrite_loop(Batch *x, Op *op)
{
	Block *body = op->region[0];
	Builder before = build_before(op), end = {.m = x->m, .block = body, .before = body->last, .place = op->place};
	for (int i = 0; i < op->nout; i++) {
		Value *arg = &body->arg[1 + i], *out = &op->out[i];
		if (x->kind[out->id] != EACH)
			continue;
		op_set_in(op, 3 + i, for_all(x, &before, op->in[3 + i]));
		arg->type = out->type = batch_type(x, out->type);
		x->made[arg->id] = arg;
		x->made[out->id] = out;
	}
	rewrite_block(x, body);
	for (int i = 0; i < op->nout; i++)
		if (x->kind[op->out[i].id] == EACH)
			op_set_in(body->last, i, for_all(x, &end, body->last->in[i]));
}

static void
rewrite_op(Batch *x, Op *op)
{
	Builder b = build_before(op);
	Indices n = op_is_access(op) ? batch_indices(x, op) : (Indices){0};
	if (op_is_loop(op))
		rewrite_loop(x, op);
	else if (op->kind == OP_WRITE)
		write_run(x, &b, op, &n);
	else if (op->kind == OP_READ)
		x->made[op->out->id] = batch_is_run(x, op, &n) ? read_run(x, &b, op, &n) : read_gathered(x, &b, op);
	else
		compute(x, &b, op);
}

static void
rewrite_block(Batch *x, Block *block)
{
	VEC(Op *) old = {0};
	for (Op *op = block->first; op; op = op->next)
		if (batch_differs(x, op))
			vec_push(x->m->cx->tmp, &old, op);
	for (int i = 0; i < old.n; i++)
		rewrite_op(x, old.at[i]);
	for (int i = old.n - 1; i >= 0; i--)
		if (!op_is_loop(old.at[i]))
			vec_push(x->m->cx->tmp, &x->old, old.at[i]);
}

static void
rewrite(Batch *x)
{
	rewrite_block(x, x->f->body);
	for (int i = 0; i < x->old.n; i++)
		op_erase(x->old.at[i]);
	for (Op *op = x->f->body->first; op; op = op->next)
		if (op->kind == OP_PROGRAM_ID && attr_axis(op) == x->axis)
			attr_set_ranks(x->m, op, x->n);
}

/* ---- branches ---- */

static bool
can_choose(const Op *branch)
{
	for (int r = 0; r < branch->nregion; r++)
		for (const Op *op = branch->region[r]->first; op != branch->region[r]->last; op = op->next)
			if (!op_has(op, PURE) || op->nregion > 0)
				return false;
	return true;
}

/* Both sides are computed, and results chosen from them. */
static void
choose_results(Module *m, Op *branch)
{
	Builder b = build_before(branch);
	for (int r = 0; r < branch->nregion; r++)
		while (branch->region[r]->first != branch->region[r]->last)
			op_move(branch->region[r]->first, branch->home, branch);
	for (int i = 0; i < branch->nout; i++) {
		const Type *t = branch->out[i].type;
		Value *is = branch->in[0];
		if (t->rank > 0)
			is = build1(&b, OP_BROADCAST, is, type_with_elem(m, t, TY_BOOL));
		Value *v = build3(&b, OP_SELECT, is, branch->region[0]->last->in[i], branch->region[1]->last->in[i]);
		v->name = branch->out[i].name;
		value_replace(&branch->out[i], v);
	}
	op_erase(branch);
}

/* Programs that branch differently: what has neither accesses nor loops is computed for both sides. */
static void
flatten_branches(Module *m, Block *b)
{
	for (EACH_OP_HERE(op, b)) {
		for (int r = 0; r < op->nregion; r++)
			flatten_branches(m, op->region[r]);
		if (op->kind == OP_IF && can_choose(op))
			choose_results(m, op);
	}
}

void
pass_batch(Func *f, const Target *t)
{
	Batch x = {.m = f->module, .f = f, .n = f->schedule.batch};
	Arena *tmp = f->module->cx->tmp;
	if (x.n <= 1)
		return;
	flatten_branches(x.m, f->body);
	func_number(f);
	x.kind = NEW_ARRAY(tmp, Kind, MAX(f->nvalues, 1));
	x.step = NEW_ARRAY(tmp, int64_t, MAX(f->nvalues, 1));
	x.made = NEW_ARRAY(tmp, Value *, MAX(f->nvalues, 1));
	f->batch_reason = batch_reason(f);
	if (!f->batch_reason)
		f->batch_reason = batch_find_axis(&x);
	if (f->batch_reason) {
		f->schedule.batch = 0;
		return;
	}
	rewrite(&x);
	f->schedule.coarsen = 0;
	f->schedule.persistent = true;
}
