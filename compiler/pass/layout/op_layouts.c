/* The layouts that go together at an op: from its anchor to those of operands and results, and back.
 *
 *     anchor of reduce {axis = 1}                 its result
 *     register (1,0) (0,1) (0,2)                  register (1)
 *     lane     (0,4) (0,8) (2,0) …                lane     (0) (0) (2) …
 *
 * Forward is always one layout.  Backward there may be many (a sum does not say how its summands lay), then
 * there is none. */
#include "model/model.h"
#include "model/turn.h"
#include "pass/layout/anchor.h"

static const Layout *
keep(const Op *op, Layout l)
{
	l = layout_drop_broadcast(&l);
	return layout_intern(op->home->func->module, &l);
}

/* The same, registers in the order of elements: what comes of it forward again differs in their order alone. */
static const Layout *
in_order(const Op *op, Layout l)
{
	l = layout_drop_broadcast(&l);
	for (int i = 1; i < l.in[IN_REGISTER]; i++)
		for (int k = i; k > 0 && l.map.col[k - 1] > l.map.col[k]; k--) {
			uint64_t other = l.map.col[k];
			l.map.col[k] = l.map.col[k - 1];
			l.map.col[k - 1] = other;
		}
	return layout_intern(op->home->func->module, &l);
}

/* The same, a pair along the last dimension in each thread: the bit of lanes or warps along it changes place with the
 * slowest register's.  Else threads would hold, and compute, what others have, twice as much for each join. */
static Layout
hold_pairs(Layout l)
{
	uint64_t pair = UINT64_C(1) << layout_out_at(&l, l.rank - 1);
	int from = l.in[IN_REGISTER], to = from - 1, end = layout_in_at(&l, IN_BLOCK);
	while (from < end && l.map.col[from] != pair)
		from++;
	while (to >= 0 && l.map.col[to] == 0)
		to--;
	if (from < end && to >= 0) {
		l.map.col[from] = l.map.col[to];
		l.map.col[to] = pair;
	}
	return l;
}

/* A cat of as many equal parts as a power of two keeps them in the upper registers. */
static bool
cat_in_registers(const Op *op)
{
	int64_t n = op->out[0].type->extent[attr_axis(op)];
	for (int i = 1; i < op->nin; i++)
		if (op->in[i]->type != op->in[0]->type)
			return false;
	return INT64_C(1) << log2_ceil(op->nin) == op->nin &&
	    n == op->nin * op->in[0]->type->extent[attr_axis(op)];
}

static const Layout *
access_operand(const Op *op, const Layout *anchor, int i)
{
	int at[KERNEL_RANK];
	if (i >= access_data(op))
		return anchor;
	if (i < 1 || attr_index(op)[i - 1] != 'g')
		return NULL;
	access_dims(op, at);
	return keep(op, access_gather_layout(anchor, at[i - 1], op->in[i]->type->rank));
}

int
access_record_bits(const Op *op)
{
	enum { MOST = 4, WORD_BITS = 32 };
	const Type *tensor = op->nin ? op->in[0]->type : NULL, *t = anchor_type(op);
	bool moves = (op->kind == OP_READ || op->kind == OP_WRITE) && tensor->kind == TYPE_TENSOR;
	int bits = 0, last = t->rank - 1;
	bool is_odd = false;
	for (int d = moves ? tensor->rank - 1 : 0; d > 0 && last > 0 && attr_index(op)[d] == 'p'; d--, last--) {
		int64_t n = tensor->extent[d];
		int log = log2_ceil(t->extent[last]);
		if (n < 1 || !value_is_zero(op->in[1 + d]) || log2_ceil(n) != log || bits + log > MOST)
			break;
		is_odd |= (n & (n - 1)) != 0;
		bits += log;
	}
	return is_odd && dtype_info[t->elem].bits >= WORD_BITS ? bits : 0;
}

/* Does the op take an element, or a row, of records of words that memory gives?  A thread takes them apart in its
 * registers, so that one conversion serves all elements. */
static bool
takes_element(const Op *op)
{
	enum { RECORD_LEAST = 3, RECORD_MOST = 16, WORD_BITS = 32, RECORDS_FEW = 32 };
	const Value *v = op->kind == OP_EXTRACT ? op->in[0] : NULL;
	while (v && v->def && (v->def->kind == OP_CONVERT || v->def->kind == OP_EXTRACT))
		v = v->def->in[0];
	if (!v || !v->def || v->def->kind != OP_READ || dtype_info[v->type->elem].bits < WORD_BITS)
		return false;
	const Type *t = op->in[0]->type;
	int64_t n = 1, records = 1, at;
	for (int d = 0, e = 0; d < t->rank; d++) {
		int64_t extent = attr_index(op)[d] == 'p' ? attr_extents(op)->at[e++] : 1;
		if (extent != t->extent[d] && (extent != 1 || d == 0 || !value_int(op->in[1 + d], &at)))
			return false;
		if (extent == t->extent[d] && n == 1)
			records *= extent;
		else
			n *= t->extent[d];
	}
	return records >= RECORDS_FEW && n >= RECORD_LEAST && n <= RECORD_MOST;
}

/* The operand's layout: each thread has whole records of those that it has an element of. */
static const Layout *
hold_records(const Op *op, const Layout *l)
{
	const Type *t = op->in[0]->type;
	Layout r = *l;
	for (int d = 0; d < t->rank; d++) {
		if (attr_index(op)[d] == 'i')
			r = layout_expand(&r, d);
		if (r.out[d] < log2_ceil(t->extent[d]))
			r = layout_stack(&r, d, log2_ceil(t->extent[d]));
	}
	return in_order(op, r);
}

/* The result's, where the operand's is that. */
static const Layout *
one_of_records(const Op *op, const Layout *l)
{
	Layout r = *l;
	const char *index = attr_index(op);
	int e = attr_extents(op)->n;
	for (int d = l->rank - 1; d >= 0; d--) {
		if (index[d] == 'i')
			r = layout_slice(&r, d);
		else if (attr_extents(op)->at[--e] == 1)
			r = layout_shorten(&r, d, 0);
	}
	const Layout *p = keep(op, r);
	return hold_records(op, p) == l ? p : NULL;
}

/* Operands may be in any layout, and so may the results, which share one: topk, histogram, extract … */
static bool
is_free(const Op *op)
{
	switch (op->kind) {
	case OP_TOPK: case OP_HISTOGRAM: case OP_CONST: case OP_IOTA: return true;
	case OP_EXTRACT: return !takes_element(op);
	case OP_CAT: return !cat_in_registers(op);
	case OP_BROADCAST: return op->in[0]->type->rank == 0;
	default: return false;
	}
}

bool
anchor_exists(const Op *op)
{
	bool any = ANY_OF(i, op->nin, value_is_placed(op->in[i]));
	any |= ANY_OF(i, op->nout, value_is_placed(&op->out[i]));
	if (!any)
		return false;
	switch (op->kind) {
	case OP_FOR: case OP_WHILE: case OP_IF: case OP_YIELD: case OP_CONVERT: case OP_ASSERT: case OP_PRINT:
	case OP_PREFETCH:
		return false;
	default:
		return true;
	}
}

const Layout *
anchor_operand(const Op *op, const Layout *anchor, int i)
{
	Layout l;
	Turn turn;
	if (!value_is_placed(op->in[i]) || !anchor_exists(op) || is_free(op))
		return NULL;
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_ATOMIC:
		return access_operand(op, anchor, i);
	case OP_BROADCAST:
		return keep(op, view_layout(op, anchor));
	case OP_SPLIT:
		l = layout_pair(anchor);
		return layout_intern(op->home->func->module, &l);
	case OP_EXTRACT:
		return hold_records(op, anchor);
	case OP_GATHER:
		if (i == 0 && gather_row_layout(op, anchor, &l))
			return layout_intern(op->home->func->module, &l);
		return i == 1 || gather_turns(op, &turn) ? anchor : NULL;
	case OP_SCATTER:
		return i == 0 ? anchor : NULL;
	case OP_DOT:
		return i == 2 ? anchor : dot_operand(op, anchor, i);
	case OP_PERMUTE:
		l = view_layout(op, anchor);
		return layout_intern(op->home->func->module, &l);
	default:
		return anchor;
	}
}

const Layout *
anchor_result(const Op *op, const Layout *anchor, int i)
{
	Module *m = op->home->func->module;
	const Type *t = op->out[i].type;
	int shape[LAYOUT_RANK] = {0};
	Layout l;
	if (!value_is_placed(&op->out[i]))
		return NULL;
	switch (op->kind) {
	case OP_REDUCE: case OP_REDUCE_FN:
		return keep(op, layout_slice(anchor, (int)attr_axis(op)));
	case OP_RESHAPE:
		if (!value_is_placed(op->in[0]))
			return anchor;
		layout_shape(t->rank, t->extent, shape);
		l = layout_reshape(anchor, t->rank, shape);
		return layout_intern(m, &l);
	case OP_JOIN:
		l = layout_pair(anchor);
		return layout_intern(m, &l);
	case OP_CAT:
		if (is_free(op))
			return anchor;
		l = layout_stack(anchor, (int)attr_axis(op), log2_ceil(op->nin));
		return layout_intern(m, &l);
	default:
		return anchor;
	}
}

/* An anchor whose operand i has that layout, checked by going forward again. */
static const Layout *
checked_operand(const Op *op, int i, const Layout *l, Layout anchor)
{
	const Layout *p = layout_intern(op->home->func->module, &anchor);
	return anchor_operand(op, p, i) == l ? p : NULL;
}

static const Layout *
read_back(const Op *op, int i, const Layout *l)
{
	if (i >= access_data(op))
		return l;
	int rank = op->in[i]->type->rank;
	return attr_index(op)[i - 1] == 'g' && rank > 0 && rank == access_tile(op)->type->rank ? l : NULL;
}

const Layout *
anchor_of_operand(const Op *op, int i, const Layout *l)
{
	const IntList *of = op->kind == OP_PERMUTE ? attr_dims(op) : NULL;
	int dims[LAYOUT_RANK] = {0};
	Turn turn;
	if (!value_is_placed(op->in[i]) || !anchor_exists(op) || is_free(op))
		return NULL;
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_ATOMIC:
		return read_back(op, i, l);
	case OP_BROADCAST: case OP_SPLIT:
		return NULL;
	case OP_EXTRACT:
		return one_of_records(op, l);
	case OP_GATHER:
		return i == 1 || gather_turns(op, &turn) ? l : NULL;
	case OP_SCATTER:
		return i == 0 ? l : NULL;
	case OP_DOT:
		return i == 2 ? l : NULL;
	case OP_PERMUTE:
		for (int d = 0; d < of->n; d++)
			dims[d] = (int)of->at[d];
		return checked_operand(op, i, l, layout_permute(l, dims));
	default:
		return l;
	}
}

const Layout *
anchor_of_result(const Op *op, int i, const Layout *l)
{
	Layout p;
	if (!value_is_placed(&op->out[i]) || !anchor_exists(op))
		return NULL;
	switch (op->kind) {
	case OP_JOIN:
		p = hold_pairs(*l);
		return in_order(op, layout_slice(&p, l->rank - 1));
	case OP_REDUCE: case OP_REDUCE_FN: case OP_CAT:
		if (op->kind == OP_CAT && is_free(op))
			return l;
		return NULL;
	case OP_RESHAPE:
		if (!value_is_placed(op->in[0]))
			return l;
		p = view_layout(op, l);
		return layout_intern(op->home->func->module, &p);
	default:
		return l;
	}
}

const Type *
anchor_type(const Op *op)
{
	switch (op->kind) {
	case OP_RESHAPE:
		return value_is_placed(op->in[0]) ? op->in[0]->type : op->out[0].type;
	case OP_REDUCE: case OP_REDUCE_FN: case OP_JOIN: case OP_PREFETCH:
		return op->in[0]->type;
	case OP_CAT:
		return is_free(op) ? op->out[0].type : op->in[0]->type;
	case OP_WRITE: case OP_ATOMIC:
		return op->in[access_data(op)]->type;
	case OP_STORE:
		return op->in[1]->type;
	default:
		return VALUE_OF(i, op->nout, value_is_placed(&op->out[i]), op->out[i].type,
		    op->nout ? op->out[0].type : op->in[0]->type);
	}
}
