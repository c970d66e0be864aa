/* Which rows can be walked in parts: those that are read, computed by elements, reduced by sums, maxima, minima or the
 * greatest few, and written, in straight code. */
#include "pass/strip/strip.h"

#include <string.h>

enum { SUM_BITS = 32 };

bool
strip_finds_place(const Op *reduce)
{
	return reduce->kind == OP_TOPK || strncmp(attr_fn(reduce), "arg", 3) == 0;
}

bool
strip_is_of(const Op *reduce, const char *fn)
{
	const char *of = reduce->kind == OP_TOPK ? "max" : attr_fn(reduce) + (strip_finds_place(reduce) ? 3 : 0);
	return strcmp(of, fn) == 0;
}

int64_t
strip_longest_row(const Func *f)
{
	int64_t most = 0;
	for (const Op *op = f->body->first; op; op = op->next) {
		const Value *v = op->kind == OP_READ ? access_tile(op) : op->kind == OP_REDUCE ? op->in[0] : NULL;
		if (v && v->type->rank > 0)
			most = MAX(most, v->type->extent[op->kind == OP_READ ? v->type->rank - 1 : attr_axis(op)]);
	}
	return most;
}

int
strip_row_index(const Strip *s, const Op *op)
{
	const char *index = attr_index(op);
	int at = 0, dim = strip_dim(s, access_tile(op)->type);
	if (dim < 0 || strchr(index, 'g'))
		return 0;
	for (; index[at] != 'p' || dim > 0; at++)
		dim -= index[at] == 'p';
	return 1 + at;
}

static bool
is_shared(const Func *f, const Op *access)
{
	int n = COUNT_OPS_HERE(op, f->body, op_is_access(op) && op->in[0] == access->in[0]);
	return n > 1;
}

static bool
is_same_place(const Op *a, const Op *b)
{
	const IntList *x = attr_extents(a), *y = attr_extents(b);
	return strcmp(attr_index(a), attr_index(b)) == 0 && x && y && x->n == y->n &&
	    ALL_OF(i, x->n, x->at[i] == y->at[i]) &&
	    ALL_OF(i, a->in[0]->type->rank, values_made_alike(a->in[1 + i], b->in[1 + i]));
}

/* A residual: a row is read, and then written at its place. */
bool
strip_is_renewed(const Strip *s, const Op *access)
{
	const Op *read = NULL, *write = NULL;
	int n = 0;
	for (const Op *op = s->f->body->first; op; op = op->next) {
		if (!op_is_access(op) || op->in[0] != access->in[0])
			continue;
		read = op->kind == OP_READ && !write ? op : read;
		write = op->kind == OP_WRITE ? op : write;
		n++;
	}
	return n == 2 && read && write && strip_touches(s, read) && is_same_place(read, write);
}

static const char *
access_reason(const Strip *s, const Op *op)
{
	if (!strip_row_index(s, op))
		return "it reaches its rows through tiles of indices";
	if (op->kind == OP_READ && s->f->param[op->in[0]->index].access != ACCESS_IN && !strip_is_renewed(s, op))
		return "it reads a row that it may write";
	return attr_valid(op) ? "its rows have parts without elements" : NULL;
}

static const char *
reduce_reason(const Strip *s, const Op *op)
{
	const Type *t = op->in[0]->type;
	if (attr_axis(op) != strip_dim(s, t))
		return NULL;
	if (!strip_is_of(op, "sum") && !strip_is_of(op, "max") && !strip_is_of(op, "min"))
		return "it reduces its row by more than sums, maxima and minima";
	if (strip_is_of(op, "sum") && dtype_info[t->elem].bits < SUM_BITS)
		return "it sums elements of fewer than 32 bits";
	return NULL;
}

/* How many elements of a tile follow one another at a place of its row. */
static int64_t
behind_row(const Strip *s, const Type *t)
{
	int64_t n = 1;
	for (int d = strip_dim(s, t) + 1; d < t->rank; d++)
		n *= t->extent[d];
	return n;
}

/* Rows one after the other are for a topk alone. */
static const char *
reshape_reason(const Strip *s, const Op *op)
{
	int n = 0;
	bool is_row = strip_is_row(s, op->in[0]) && strip_is_row(s, op->out);
	if (is_row && behind_row(s, op->in[0]->type) == behind_row(s, op->out->type))
		return NULL;
	for (const Op *use = op->next; use; use = use->next)
		n += strip_topk_source(s, use) && use->in[0] == op->out;
	return n && n == op->out->nuses ? NULL : "its row becomes several dimensions";
}

static const char *
row_reason(const Strip *s, const Op *op)
{
	switch (op->kind) {
	case OP_READ: case OP_WRITE: return access_reason(s, op);
	case OP_REDUCE: return reduce_reason(s, op);
	case OP_IOTA: case OP_BROADCAST: case OP_PERMUTE: case OP_PHILOX: return NULL;
	case OP_CONST: return attr_value(op)->kind == KIND_INTS ? "it has a table as long as its row" : NULL;
	case OP_RESHAPE: return reshape_reason(s, op);
	case OP_TOPK: return strip_topk_reason(s, op);
	default: break;
	}
	bool walks = op_has(op, ELEM) || strip_is_pick(s, op);
	return walks ? NULL : "it does more with its row than read, compute, reduce and write";
}

bool
strip_touches(const Strip *s, const Op *op)
{
	bool does = ANY_OF(i, op->nin, strip_is_row(s, op->in[i])) || strip_topk_source(s, op);
	for (int i = 0; i < op->nout; i++)
		does |= strip_is_row(s, &op->out[i]);
	return does;
}

/* Another dimension that is as long would be mistaken for the row. */
static bool
is_ambiguous(const Strip *s, const Value *v)
{
	return v->type->kind == TYPE_TILE && COUNT_OF(d, v->type->rank, v->type->extent[d] == s->row) > 1;
}

/* Accesses and effects anywhere in the kernel: their order changes. */
static const char *
order_reason(const Strip *s, const Op *op)
{
	if (op->nregion || op_has(op, EFFECT) || op_family(op) == FAMILY_ATOMIC)
		return "it has loops, branches or effects";
	if (!op_is_access(op))
		return NULL;
	if (!access_is_tensor(op))
		return "it has accesses through pointers";
	bool is_input = s->f->param[op->in[0]->index].access == ACCESS_IN;
	bool often = !is_input && is_shared(s->f, op) && !strip_is_renewed(s, op);
	return often ? "it accesses a tensor that it writes more than once" : NULL;
}

const char *
strip_reason(const Strip *s)
{
	if (s->row <= s->part)
		return "it reduces no row that is longer than that";
	for (const Op *op = s->f->body->first; op; op = op->next) {
		const char *why = order_reason(s, op);
		if (!why && strip_touches(s, op))
			why = row_reason(s, op);
		for (int i = 0; i < op->nout && !why; i++)
			why = is_ambiguous(s, &op->out[i]) ? "its tiles have two dimensions as long" : NULL;
		if (why)
			return why;
	}
	return NULL;
}
