/* Dimensions that go together, so that tiles smaller than a matrix instruction grow as a whole.
 *
 *     %q = read … : f16[4, 32]         the first dimensions of %q, %p, %m and %o are one class: a dot's M, which the
 *     %p = dot %q, %k, %0              instruction needs to be 16.  All become 16; reads and writes say that 4 are
 *     %m = reduce %p {axis = 1}        valid, and nothing is taken apart and put together around the dot
 *     write … %o
 *
 * A class with an op that requires its exact size (a part of a cat, an extent of 1 that is spread) stays as it is;
 * the dot then repeats its operands itself (dot_fit.c). */
#include "ir/derive.h"
#include "pass/layout/dot.h"
#include "pass/shape/pad.h"

typedef struct Classes {
	Func *f;
	int *first;                                     /* by Value.id: its first dimension's node */
	int *parent;                                    /* of nodes; itself: the class */
	int64_t *need;                                  /* by class */
	bool *fixed;
} Classes;

static int
find(Classes *c, int i)
{
	while (c->parent[i] != i)
		i = c->parent[i] = c->parent[c->parent[i]];
	return i;
}

static int
node(Classes *c, const Value *v, int d)
{
	return find(c, c->first[v->id] + d);
}

static void
join(Classes *c, const Value *v, int d, const Value *w, int e)
{
	int a = node(c, v, d), b = node(c, w, e);
	c->parent[b] = a;
	c->fixed[a] |= c->fixed[b];
	c->need[a] = MAX(c->need[a], c->need[b]);
}

static void
fix(Classes *c, const Value *v, int d)
{
	c->fixed[node(c, v, d)] = true;
}

static void
fix_all(Classes *c, const Value *v)
{
	for (int d = 0; v->type->kind == TYPE_TILE && d < v->type->rank; d++)
		fix(c, v, d);
}

static void
join_all(Classes *c, const Value *v, const Value *w)
{
	if (!value_is_placed(v) || !value_is_placed(w) || v->type->rank != w->type->rank)
		return;
	for (int d = 0; d < v->type->rank; d++)
		join(c, v, d, w, d);
}

/* Operands and results of one shape. */
static void
join_op(Classes *c, const Op *op)
{
	const Value *first = NULL;
	for (int i = 0; i < op->nin + op->nout; i++) {
		const Value *v = i < op->nin ? op->in[i] : &op->out[i - op->nin];
		if (!value_is_placed(v))
			continue;
		if (first)
			join_all(c, first, v);
		else
			first = v;
	}
}

/* All but one dimension; the result of a reduction lacks it. */
static void
join_but(Classes *c, const Value *v, const Value *w, int axis, bool lacks)
{
	for (int d = 0; d < v->type->rank; d++)
		if (d != axis)
			join(c, v, d, w, lacks && d > axis ? d - 1 : d);
}

static void
join_broadcast(Classes *c, const Op *op)
{
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	for (int d = 0; d < from->rank; d++) {
		if (from->extent[d] == to->extent[d])
			join(c, op->in[0], d, &op->out[0], d);
		else
			fix(c, op->in[0], d);
	}
}

/* Dimensions of extent 1 come and go; all others are one to one, or stay as they are. */
static void
join_reshape(Classes *c, const Op *op)
{
	const Value *x = op->in[0], *y = &op->out[0];
	int i = 0, j = 0;
	for (;; i++, j++) {
		for (; i < x->type->rank && x->type->extent[i] == 1; i++)
			fix(c, x, i);
		for (; j < y->type->rank && y->type->extent[j] == 1; j++)
			fix(c, y, j);
		if (i >= x->type->rank || j >= y->type->rank || x->type->extent[i] != y->type->extent[j])
			break;
		join(c, x, i, y, j);
	}
	if (i < x->type->rank || j < y->type->rank) {
		fix_all(c, x);
		fix_all(c, y);
	}
}

static void
join_permute(Classes *c, const Op *op)
{
	const IntList *dims = attr_dims(op);
	for (int d = 0; d < dims->n; d++)
		join(c, &op->out[0], d, op->in[0], (int)dims->at[d]);
}

static void
join_dot(Classes *c, const Op *op, const Target *t)
{
	const Value *a = op->in[0], *b = op->in[1], *out = &op->out[0];
	int row = out->type->rank - 2, col = row + 1;
	const MmaInfo *mma = dot_mma(op, t);
	join_all(c, out, op->in[2]);
	for (int d = 0; d < row; d++) {
		join(c, out, d, a, d);
		join(c, out, d, b, d);
	}
	join(c, out, row, a, row);
	join(c, out, col, b, col);
	join(c, a, col, b, row);
	if (!mma)
		return;
	int n = node(c, out, row), k;
	c->need[n] = MAX(c->need[n], mma->m);
	n = node(c, out, col);
	c->need[n] = MAX(c->need[n], mma->n);
	k = node(c, a, col);
	c->need[k] = MAX(c->need[k], mma->k);
}

static void
join_access(Classes *c, const Op *op)
{
	const char *index = attr_index(op);
	const Value *tile = op->nout ? &op->out[0] : op->in[access_data(op)], *g = NULL;
	int at = 0;
	for (int i = access_data(op); i < op->nin; i++)
		join_all(c, tile, op->in[i]);
	for (int i = 0; index[i]; i++) {
		if (index[i] == 'p' && !g)
			at++;
		if (index[i] != 'g')
			continue;
		g = op->in[1 + i];
		for (int d = 0; d < g->type->rank; d++)
			join(c, tile, at + d, g, d);
	}
}

static void
join_loop(Classes *c, const Op *op)
{
	Value *from, *to;
	for (int e = 0; e < OP_EDGES * op->nout; e++) {
		op_edge(op, e / OP_EDGES, e % OP_EDGES, &from, &to);
		join_all(c, from, to);
	}
}

static void
fix_op(Classes *c, const Op *op)
{
	for (int i = 0; i < op->nin; i++)
		fix_all(c, op->in[i]);
	for (int i = 0; i < op->nout; i++)
		fix_all(c, &op->out[i]);
}

static void
join_gather(Classes *c, const Op *op)
{
	join_all(c, op->in[1], &op->out[0]);
	join_but(c, op->in[0], &op->out[0], (int)attr_axis(op), false);
}

static void
join_scatter(Classes *c, const Op *op)
{
	join_all(c, op->in[0], &op->out[0]);
	join_all(c, op->in[1], op->in[2]);
	join_but(c, op->in[0], op->in[1], (int)attr_axis(op), false);
}

static void
classify(Classes *c, const Op *op, const Target *t)
{
	switch (op->kind) {
	case OP_CONST: case OP_IOTA: case OP_YIELD: case OP_ASSERT: case OP_SPLIT_PUT: break;
	case OP_SPLIT_GET: join_all(c, op->in[0]->def->in[0], &op->out[0]); break;
	case OP_BROADCAST: join_broadcast(c, op); break;
	case OP_RESHAPE: join_reshape(c, op); break;
	case OP_PERMUTE: join_permute(c, op); break;
	case OP_DOT: join_dot(c, op, t); break;
	case OP_READ: case OP_WRITE: case OP_ATOMIC: join_access(c, op); break;
	case OP_FOR: case OP_WHILE: case OP_IF: join_loop(c, op); break;
	case OP_LOAD: case OP_STORE: case OP_ATOMIC_PTR: case OP_SCAN: case OP_SORT: case OP_PHILOX: case OP_FLIP:
		join_op(c, op);
		break;
	case OP_SCAN_FN: join_op(c, op); break;
	case OP_REDUCE: case OP_REDUCE_FN:
		for (int i = 0; i < op->nin; i++) {
			join_all(c, op->in[0], op->in[i]);
			if (value_is_placed(&op->out[i]))
				join_but(c, op->in[i], &op->out[i], (int)attr_axis(op), true);
		}
		break;
	case OP_GATHER: join_gather(c, op); break;
	case OP_SCATTER: join_scatter(c, op); break;
	default:
		if (op_info[op->kind].traits & ELEM)
			join_op(c, op);
		else
			fix_op(c, op);
	}
}

static int
number_nodes(Classes *c)
{
	ValueList all = func_values(c->f, c->f->module->cx->tmp);
	int n = 0;
	for (int i = 0; i < all.n; i++) {
		c->first[i] = n;
		n += all.at[i]->type->kind == TYPE_TILE ? all.at[i]->type->rank : 0;
	}
	return n;
}

int64_t *
pad_needs(Func *f, const Target *t, int **first)
{
	Arena *tmp = f->module->cx->tmp;
	Classes c = {.f = f, .first = NEW_ARRAY(tmp, int, f->nvalues)};
	int n = number_nodes(&c);
	c.parent = NEW_ARRAY(tmp, int, n);
	c.need = NEW_ARRAY(tmp, int64_t, n);
	c.fixed = NEW_ARRAY(tmp, bool, n);
	for (int i = 0; i < n; i++)
		c.parent[i] = i;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		classify(&c, op, t);
	int64_t *least = MAP_OF(tmp, int64_t, i, n, c.fixed[find(&c, i)] ? 1 : MAX(c.need[find(&c, i)], 1));
	*first = c.first;
	return least;
}
