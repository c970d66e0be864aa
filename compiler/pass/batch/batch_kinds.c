/* What pass batch can take: which of a kernel's values differ between programs that are neighbours along an axis, and how,
 * and along which axis a block may compute for several. */
#include "pass/batch/batch.h"

#include <string.h>

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

Indices
batch_indices(const Batch *x, const Op *op)
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

bool
batch_is_run(const Batch *x, const Op *op, const Indices *n)
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
	Indices n = batch_indices(x, op);
	int data = 1 + (int)strlen(attr_index(op));
	if (!access_is_tensor(op) || op->in[0]->def || (op->kind != OP_READ && op->kind != OP_WRITE))
		return false;
	if (op->kind == OP_WRITE)
		return batch_is_run(x, op, &n);
	bool fills = op->nin > data && (x->kind[op->in[data]->id] != SAME || op->in[data]->type->rank > 0);
	Access access = x->f->param[op->in[0]->index].access;
	return !fills && ((access != ACCESS_OUT && batch_is_run(x, op, &n)) || (access == ACCESS_IN && can_gather(x, op)));
}

static bool
fits(const Batch *x, const Op *op)
{
	if (op_has(op, WRITES) || (op_is_access(op) && depends(x, op)))         /* an atomic of one place: each program's */
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

bool
batch_divides(const Func *f, const Op *id, int64_t n)
{
	int64_t dim = attr_dim(id), per = MAX(attr_per(id), 1);
	if (dim < 0)
		return op_attr(id, ATTR_COUNT) && attr_count(id) % n == 0;
	int64_t multiple = f->body->arg[dim].type->elem == TY_I64 ? f->param[dim].multiple : 0;
	return multiple > 0 && multiple % (per * n) == 0;
}

/* Bytes of a tile whose runs along contiguous memory are shorter than a sector and that neighbours go on with, as rows of
 * a transposed view. */
static int64_t
bytes_joined(const Batch *x, const Op *op)
{
	enum { SECTOR = 32 };
	Indices n = op_is_access(op) && access_is_tensor(op) ? batch_indices(x, op) : (Indices){0};
	const Type *t = op_is_access(op) ? op->in[0]->type : NULL;
	bool is_tile = n.starts == 1 && !op->in[0]->def && anchor_type(op)->rank > 0;
	if (!is_tile || n.at != t->rank - 1 || !param_has_rows(&x->f->param[op->in[0]->index]) ||
	    dtype_bytes(t->elem, MAX(n.extent, 1)) >= SECTOR)
		return 0;
	return dtype_bytes(t->elem, type_count(anchor_type(op)));
}

static void
set_kind(Batch *x, const Value *v, Kind kind, int64_t step)
{
	x->kind[v->id] = kind;
	x->step[v->id] = step;
}

static const char *classify_block(Batch *x, const Block *b);

/* A loop that all programs run through alike: what it carries differs if it begins so, or a trip leaves it so. */
static const char *
classify_loop(Batch *x, const Op *op)
{
	const char *why = NULL;
	const Block *body = op->region[0];
	if (op->kind != OP_FOR || ANY_OF(i, 3, x->kind[op->in[i]->id] != SAME))
		return "its programs may run through a loop differently often";
	set_kind(x, &body->arg[0], SAME, 0);
	for (int i = 0; i < op->nout; i++)
		set_kind(x, &body->arg[1 + i], x->kind[op->in[3 + i]->id] == SAME ? SAME : EACH, 0);
	for (bool grows = true; grows && !why;) {
		grows = false;
		why = classify_block(x, body);
		for (int i = 0; i < op->nout && !why; i++) {
			Value *arg = &body->arg[1 + i];
			bool starts = x->kind[arg->id] == SAME && x->kind[body->last->in[i]->id] != SAME;
			if (starts)
				set_kind(x, arg, EACH, 0);
			grows |= starts;
		}
	}
	for (int i = 0; i < op->nout; i++)
		set_kind(x, &op->out[i], x->kind[body->arg[1 + i].id], 0);
	return why;
}

/* Does it take, in a region, what differs, or write? */
static bool
differs_inside(const Batch *x, const Op *op)
{
	for (int r = 0; r < op->nregion; r++)
		if (ANY_OP(in, op->region[r], op_has(in, WRITES) || depends(x, in)))
			return true;
	return false;
}

static const char *
classify_op(Batch *x, const Op *op)
{
	bool is_id = op->kind == OP_PROGRAM_ID && attr_axis(op) == x->axis;
	if (op_is_loop(op))
		return classify_loop(x, op);
	if (op->kind == OP_YIELD)
		return NULL;
	for (int r = 0; r < op->nregion; r++) {
		const char *why = op->kind == OP_IF ? classify_block(x, op->region[r]) : NULL;
		if (why)
			return why;
	}
	if (differs_inside(x, op))
		return "it branches around what it does for each program";
	if (is_id && !batch_divides(x->f, op, x->n))
		return "programs along no axis are known to be a multiple of it";
	if (!is_id && !fits(x, op))
		return "it does more with its rows than read, compute, reduce and write";
	int64_t step = is_id ? 1 : step_of(x, op);
	for (int i = 0; i < op->nout; i++)
		set_kind(x, &op->out[i], step ? START : depends(x, op) ? EACH : SAME, step);
	return NULL;
}

static const char *
classify_block(Batch *x, const Block *b)
{
	const char *why = NULL;
	for (const Op *op = b->first; op && !why; op = op->next)
		why = classify_op(x, op);
	return why;
}

bool
batch_differs(const Batch *x, const Op *op)
{
	bool does = op->kind == OP_WRITE || ANY_OF(i, op->nout, x->kind[op->out[i].id] == EACH);
	for (const Op *in = op->nregion ? op->region[0]->first : NULL; in && !does; in = in->next)
		does = batch_differs(x, in);
	return does;
}

static const char *
classify(Batch *x)
{
	x->shared = x->joined = 0;
	const char *why = classify_block(x, x->f->body);
	for (const Op *op = x->f->body->first; op && !why; op = op_after(op, x->f->body)) {
		x->joined += bytes_joined(x, op);
		if (op->kind == OP_READ && !depends(x, op))
			x->shared += op->out->type->rank ? dtype_bytes(op->out->type->elem, type_count(op->out->type)) : 0;
	}
	bool rows = ANY_OP(op, x->f->body, op->kind == OP_PROGRAM_ID && attr_axis(op) == x->axis);
	return why ? why : rows ? NULL : "its axes pick nothing";
}

/* The axis that can be batched along which neighbours have the most bytes of the same sectors, else of the same elements,
 * `w[p * B +: B, j]` of a filter over time, and of several the first; why there is none. */
const char *
batch_find_axis(Batch *x)
{
	const char *first = NULL;
	int64_t most = -1, joined = -1;
	int best = 0;
	for (x->axis = 0; x->axis < x->f->naxis; x->axis++) {
		const char *reason = classify(x);
		if (!reason && (x->joined > joined || (x->joined == joined && x->shared > most))) {
			best = x->axis;
			joined = x->joined;
			most = x->shared;
		}
		first = first ? first : reason;
	}
	x->axis = best;
	return most >= 0 ? classify(x) : first ? first : "it has one program";
}

