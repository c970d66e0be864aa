/* Programs of one half of a square that write the other half, too (choose_tile.c):
 *
 *     if j < i { return; }                    grid(i: cdiv(M, BM), j: cdiv(M, BM))
 *     …
 *     y[i * BM +: BM, j * BM +: BM] = t;
 *     y[j * BM +: BM, i * BM +: BM] = t.T;
 *
 * A larger tile on the diagonal has elements of programs that left.  Others write these as transposes, and so does it, if t
 * is its own transpose where i is j: the sum of products of a matrix and its transpose, what both sides have alike, and
 * what follows from such elements, each by itself.  The second write may stand in `if i < j`: on the diagonal the first one
 * covers both. */
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

/* The axes whose indices a condition compares: two that are cut alike. */
static bool
compares_axes(const Pair *x, const Op *op, int axis[2])
{
	bool compares = op && (op->kind == OP_LT || op->kind == OP_GT || op->kind == OP_LE || op->kind == OP_GE ||
				  op->kind == OP_EQ || op->kind == OP_NE);
	for (int i = 0; i < 2 && compares; i++) {
		const Part *p = tile_part(x, op->in[i]);
		compares = p->start >= 0 && p->start < MAX_AXES && p->from == 0 && !p->ends && !p->of && !p->is_local &&
		    p->times[0] == 1 && p->times[1] == 1;
		axis[i] = p->start;
	}
	return compares && axis[0] != axis[1] && x->by[axis[0]] == x->by[axis[1]] &&
	    expr_same(x->count[axis[0]], x->count[axis[1]]);
}

/* Those by whose strict order programs leave. */
static bool
find_axes(const Pair *x, int axis[2])
{
	const Op *op = x->leaves->def;
	bool is_strict = op &&
	    (x->leaves_if ? op->kind == OP_LT || op->kind == OP_GT : op->kind == OP_LE || op->kind == OP_GE);
	return is_strict && compares_axes(x, op, axis);
}

static bool
holds(OpKind compare, int a, int b)
{
	switch (compare) {
	case OP_LT: return a < b;
	case OP_LE: return a <= b;
	case OP_GT: return a > b;
	case OP_GE: return a >= b;
	case OP_EQ: return a == b;
	default: return a != b;
	}
}

bool
tile_mirrors_branch(const Pair *x, const Op *branch, bool enters_if)
{
	const Op *leave = x->leaves->def, *enter = branch->in[0]->def;
	int of[2], in[2];
	if (!find_axes(x, of) || !compares_axes(x, enter, in) || (in[0] != of[0] && in[0] != of[1]) ||
	    (in[1] != of[0] && in[1] != of[1]))
		return false;
	for (int i = 0; i < 2; i++) {                   /* one on either side of the diagonal */
		int index[MAX_AXES] = {0};
		index[of[i]] = 1;
		bool stays = holds(leave->kind, index[of[0]], index[of[1]]) != x->leaves_if;
		if (stays && holds(enter->kind, index[in[0]], index[in[1]]) != enters_if)
			return false;
	}
	return true;
}

/* What a block of an if is in; NULL: it is something else. */
static const Block *
around(const Block *b)
{
	return b->parent && b->parent->kind == OP_IF ? b->parent->home : NULL;
}

/* Do both stand where all programs that stay come, but for one that a branch there may have? */
static bool
is_beside(const Pair *x, const Op *a, const Op *b)
{
	const Block *all = a->home == around(b->home) ? a->home : b->home;
	return around(all) && all->parent->in[0] == x->leaves && (a->home == all || around(a->home) == all);
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
	if (!is_square || !ANY_OP(op, x->f->body, is_beside(x, write, op) && is_mirrored_by(&m, write, op)))
		return false;
	m.axis[0] = axis[0];
	m.axis[1] = axis[1];
	return mirrors(&m, tile, tile, 0);
}
