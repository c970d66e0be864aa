/* Programs of one half of a square that write the other half, too (choose_tile.c):
 *
 *     if j < i { return; }                    grid(i: cdiv(M, BM), j: cdiv(M, BM))
 *     …
 *     y[i * BM +: BM, j * BM +: BM] = t;
 *     y[j * BM +: BM, i * BM +: BM] = t.T;
 *
 * A larger tile on the diagonal has elements of programs that left.  Others write these as transposes, and so does it, if t
 * is its own transpose where i is j: the sum of products of a matrix and its transpose, what both sides have alike, and
 * what follows from such elements, each by itself. */
#include "compile/choose/tile/choose_tile_linear.h"

#include <string.h>

typedef struct Mirror {
	const Pair *x;
	int axis[2];                                    /* whose programs' indices are equal; both -1: of none */
	bool *assumed;                                  /* by the value's id: what a loop carries, while it is looked at */
} Mirror;

/* Are both the same number, or have they the same elements? */
static bool
is_same(const Mirror *m, const Value *u, const Value *v, int depth)
{
	const Op *a = u->def, *b = v->def;
	if (u == v)
		return true;
	if (!a || !b || a->kind != b->kind || a->nin != b->nin || a->nregion > 0 || u->type != v->type || depth == DEEP)
		return false;
	if (a->kind == OP_PROGRAM_ID)
		return ANY_OF(i, 2, attr_axis(a) == m->axis[i]) && ANY_OF(i, 2, attr_axis(b) == m->axis[i]);
	bool reads = a->kind == OP_READ && access_is_tensor(a) && !tensor_may_be_written(m->x->f, a->in[0], m->x->f->body);
	return (op_has(a, PURE) || reads) && u - a->out == v - b->out && attrs_same(a, b) &&
	    ALL_OF(i, a->nin, is_same(m, a->in[i], b->in[i], depth + 1));
}

static bool mirrors(Mirror *m, const Value *u, const Value *v, int depth);

/* Variable i of a loop is its own transpose in all trips, if it is before, and a trip keeps it so. */
static bool
loop_mirrors(Mirror *m, const Op *loop, int i, int depth)
{
	const Value *it = &loop->region[0]->arg[1 + i];
	if (loop->kind != OP_FOR || i < 0 || m->assumed[it->id])
		return loop->kind == OP_FOR && i >= 0;
	m->assumed[it->id] = true;
	const Value *before = loop->in[3 + i], *behind = loop->region[0]->last->in[i];
	bool is = mirrors(m, before, before, depth) && mirrors(m, behind, behind, depth);
	m->assumed[it->id] = false;                     /* it may be asked of again */
	return is;
}

/* A row over all columns and a column over all rows, of the same elements; or a scalar. */
static bool
spread_mirrors(const Mirror *m, const Value *u, const Value *v, int depth)
{
	const Op *a = u->def, *b = v->def;
	bool is_turned = u->type->rank == 2 && v->type->rank == 2 && a && b && a->kind == OP_RESHAPE &&
	    b->kind == OP_RESHAPE && a->in[0]->type->rank == 1 && u->type->extent[0] == v->type->extent[1] &&
	    u->type->extent[1] == v->type->extent[0];
	return u->type->rank == 0 ? is_same(m, u, v, depth)
				  : is_turned && is_same(m, a->in[0], b->in[0], depth);
}

/* Is u the transpose of v? */
static bool
mirrors(Mirror *m, const Value *u, const Value *v, int depth)
{
	const Op *a = u->def, *b = v->def;
	if (u->type->rank != 2 || v->type->rank != 2 || depth == DEEP)
		return false;
	if ((a && a->kind == OP_PERMUTE && is_same(m, a->in[0], v, depth)) ||
	    (b && b->kind == OP_PERMUTE && is_same(m, u, b->in[0], depth)))
		return true;
	if (!a && u == v && u->block->parent)
		return loop_mirrors(m, u->block->parent, u->index - 1, depth + 1);
	if (!a || !b || a->kind != b->kind)
		return false;
	if (a->kind == OP_FOR)
		return u == v && loop_mirrors(m, a, (int)(u - a->out), depth + 1);
	if (!attrs_same(a, b))
		return false;
	if (a->kind == OP_PERMUTE)
		return mirrors(m, a->in[0], b->in[0], depth + 1);
	if (a->kind == OP_CONST)
		return attr_value(a)->kind != KIND_INTS;
	if (a->kind == OP_BROADCAST)
		return spread_mirrors(m, a->in[0], b->in[0], depth + 1);
	bool crosses = a->kind == OP_DOT || (op_has(a, COMM) && a->nin == 2);
	if (crosses && mirrors(m, a->in[0], b->in[1], depth + 1) && mirrors(m, a->in[1], b->in[0], depth + 1))
		return a->kind != OP_DOT || mirrors(m, a->in[2], b->in[2], depth + 1);
	return op_has(a, ELEM) && ALL_OF(i, a->nin, mirrors(m, a->in[i], b->in[i], depth + 1));
}

/* Does another write the transpose of what the op writes, to the place that is mirrored? */
static bool
is_mirrored_by(Mirror *m, const Op *a, const Op *b)
{
	const char *index = attr_index(a);
	int at[2], n = 0;
	if (b == a || b->kind != OP_WRITE || b->in[0] != a->in[0] || b->nin != a->nin || strcmp(attr_index(b), index) != 0)
		return false;
	for (int i = 0; index[i]; i++)
		if (index[i] != 'p' && a->in[1 + i] != b->in[1 + i])
			return false;
		else if (index[i] == 'p' && n++ < 2)
			at[n - 1] = 1 + i;
	return n == 2 && a->in[at[0]] == b->in[at[1]] && a->in[at[1]] == b->in[at[0]] &&
	    mirrors(m, a->in[access_data(a)], b->in[access_data(b)], 0);
}

/* The axes whose indices the condition by which programs leave compares: strictly, of two that are cut alike. */
static bool
find_axes(const Pair *x, int axis[2])
{
	const Op *op = x->leaves->def;
	bool is_strict = op &&
	    (x->leaves_if ? op->kind == OP_LT || op->kind == OP_GT : op->kind == OP_LE || op->kind == OP_GE);
	for (int i = 0; i < 2 && is_strict; i++) {
		const Part *p = tile_part(x, op->in[i]);
		is_strict = p->start >= 0 && p->start < MAX_AXES && p->from == 0 && !p->ends && !p->of && !p->is_local &&
		    p->times[0] == 1 && p->times[1] == 1;
		axis[i] = p->start;
	}
	return is_strict && axis[0] != axis[1] && x->by[axis[0]] == x->by[axis[1]] &&
	    expr_same(x->count[axis[0]], x->count[axis[1]]);
}

bool
tile_mirrors_write(const Pair *x, const Op *write)
{
	Mirror m = {.x = x, .axis = {-1, -1}, .assumed = NEW_ARRAY(x->mem, bool, x->f->nvalues)};
	int axis[2];
	const Value *tile = write->in[access_data(write)];
	if (write->kind != OP_WRITE || tile->type->rank != 2 || !find_axes(x, axis))
		return false;
	bool is_square = ALL_OF(d, 2, tile_part(x, tile)->axis[d] == axis[0] || tile_part(x, tile)->axis[d] == axis[1]) &&
	    tile_part(x, tile)->axis[0] != tile_part(x, tile)->axis[1];
	if (!is_square || !ANY_OP_HERE(op, write->home, is_mirrored_by(&m, write, op)))
		return false;
	m.axis[0] = axis[0];
	m.axis[1] = axis[1];
	return mirrors(&m, tile, tile, 0);
}
