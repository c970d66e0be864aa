/* Neighbours become vectors.
 *
 *     r24, r25, r26, r27 = load …                 float4 v = …
 *     r54 = fadd r24, r44                          =>
 *     r55 = fadd r25, r45                          v + w
 *     r56 = fadd r26, r46
 *     r57 = fadd r27, r47
 *
 * A vector begins with a load, with what is unpacked from a word, or with values that a loop carries side by side.
 * From there on forward: where the first lane of a vector is an operand of an operation, and the other lanes are
 * operands of the same operation elsewhere in the region, with operands that are vectors, constants, or the same for
 * all, they are one.  The vector operation takes the position of the first: its operands are defined by then.
 * Arithmetic is the same, lane by lane. */
#include "emit/msl/msl.h"

#include <string.h>

typedef struct Users {
	MslNode **at;
	int n;
} Users;

typedef struct Merge {
	Msl *m;
	ThreadRegion *region;
	Users *users;                                   /* by Reg - 1: nodes of this region */
} Merge;

static bool
merges(const MslNode *n)
{
	switch (n->kind) {
	case NODE_CALL:
		return true;
	case NODE_OP:
		return n->type != REG_PRED && n->type != REG_GLOBAL && n->type != REG_SHARED && n->type != REG_I64;
	case NODE_CAST:
		return n->type != REG_PRED && n->type != REG_GLOBAL && n->type != REG_SHARED && n->type != REG_I64;
	default:
		return false;
	}
}

static void
list_users(Merge *g)
{
	Msl *m = g->m;
	int *count = NEW_ARRAY(m->mem, int, m->t->reg.n);
	g->users = NEW_ARRAY(m->mem, Users, m->t->reg.n);
	for (int i = 0; i < g->region->body.n; i++) {
		const MslNode *n = msl_beside(m, g->region->body.at[i]);
		for (int k = 0; k < n->nin; k++)
			count[n->in[k] - 1]++;
	}
	for (int i = 0; i < g->region->body.n; i++) {
		MslNode *n = msl_beside(m, g->region->body.at[i]);
		for (int k = 0; k < n->nin; k++) {
			Users *u = &g->users[n->in[k] - 1];
			if (!u->at)
				u->at = NEW_ARRAY(m->mem, MslNode *, count[n->in[k] - 1]);
			u->at[u->n++] = n;
		}
	}
}

/* Operand j of lane `lane` beside lane 0's. */
static bool
fits_beside(const Msl *m, Reg first, Reg other, int lane)
{
	const MslNode *a = msl_def(m, first), *b = msl_def(m, other);
	if (first == other || (a->kind == NODE_CONST && b->kind == NODE_CONST))
		return true;
	return a == b && a->width > 1 && msl_at(m, other) == msl_at(m, first) + lane;
}

static bool
same_function(const ThreadNode *a, const ThreadNode *b)
{
	return a->kind != NODE_CALL || strcmp(a->text, b->text) == 0;
}

static MslNode *
find_lane(const Merge *g, const MslNode *x, int k, Reg operand, int lane)
{
	const Users *u = &g->users[operand - 1];
	for (int i = 0; i < u->n; i++) {
		MslNode *y = u->at[i];
		bool fits = y != x && y->width == 1 && y->t->home == x->t->home && y->kind == x->kind &&
		    y->t->op == x->t->op && y->type == x->type && same_function(x->t, y->t) && y->nin == x->nin &&
		    y->in[k] == operand && !y->written;
		fits = fits && ALL_OF(j, x->nin, j == k || fits_beside(g->m, x->in[j], y->in[j], lane));
		if (fits)
			return y;
	}
	return NULL;
}

static void
join(Msl *m, MslNode *x, MslNode *const *lane, int w)
{
	Reg *in = NEW_ARRAY(m->mem, Reg, x->nin * w), *out = NEW_ARRAY(m->mem, Reg, w);
	for (int i = 0; i < w; i++) {
		MslNode *y = i ? lane[i] : x;
		for (int j = 0; j < x->nin; j++)
			in[j * w + i] = y->in[j];
		out[i] = y->out[0];
	}
	for (int i = 0; i < w; i++) {
		m->reg[out[i] - 1] = (MslValue){x, i};
		if (i)
			lane[i]->written = true;        /* x computes it */
		if (i && !x->hint)
			x->hint = lane[i]->hint;
	}
	x->width = x->nout = w;
	x->nin *= w;
	x->in = in;
	x->out = out;
}

/* Joins x with its neighbours, if operand k is the first lane of a vector. */
static bool
join_from(Merge *g, MslNode *x, int k)
{
	Msl *m = g->m;
	const MslNode *v = msl_def(m, x->in[k]);
	int c = msl_at(m, x->in[k]);
	if (v->width < 2 || v->kind == NODE_MMA)
		return false;
	for (int w = v->width - c >= 4 && c % 4 == 0 ? 4 : 2; w >= 2; w /= 2) {
		MslNode *lane[4] = {x};
		int found = 1;
		if (c % w || c + w > v->width)
			continue;
		while (found < w && (lane[found] = find_lane(g, x, k, v->out[c + found], found)))
			found++;
		if (found == w) {
			join(m, x, lane, w);
			return true;
		}
	}
	return false;
}

/* ---- what is carried ---- */

/* Lanes of one vector, or one constant. */
static bool
is_vector(const Msl *m, const Reg *r, int w)
{
	const MslNode *v = msl_def(m, r[0]);
	return (v->width > 1 && msl_is_sequence(m, r, w)) || (v->kind == NODE_CONST && msl_is_splat(r, w));
}

static bool
feeds_matrix(const Msl *m, const ThreadRegion *b, Reg r)
{
	for (int i = 0; i < b->body.n; i++) {
		const MslNode *n = msl_beside(m, b->body.at[i]);
		if (n->kind == NODE_MMA && ANY_OF(k, n->nin, n->in[k] == r))
			return true;
		for (int k = 0; k < 2; k++)
			if (n->t->region[k] && (n->kind == NODE_LOOP || n->kind == NODE_WHILE || n->kind == NODE_IF) &&
			    feeds_matrix(m, n->t->region[k], r))
				return true;
		if (n->kind == NODE_LOOP &&
		    ANY_OF(k, msl_carried(n),
			msl_init(n)[k] == r && feeds_matrix(m, n->t->region[0], msl_inside(n)[k])))
			return true;
	}
	return false;
}

/* The w carried values or results from r on become one variable. */
static void
join_values(Msl *m, const Reg *r, int w)
{
	MslNode *first = msl_def(m, r[0]);
	first->width = first->nout = w;
	first->out = NEW_ARRAY(m->mem, Reg, w);
	for (int i = 0; i < w; i++) {
		if (!first->hint)
			first->hint = msl_def(m, r[i])->hint;
		m->reg[r[i] - 1] = (MslValue){first, i};
		first->out[i] = r[i];
	}
}

static bool
same_types(const Msl *m, const Reg *r, int w)
{
	RegType t = msl_type(m, r[0]);
	return ALL_FROM(i, 1, w, msl_type(m, r[i]) == t) && (t == REG_F32 || t == REG_F16 || t == REG_I32);
}

static void
join_carried(Msl *m, MslNode *loop)
{
	for (int i = 0; i < msl_carried(loop);) {
		int w = 4;
		while (w > 1 && (i + w > msl_carried(loop) || !same_types(m, &msl_init(loop)[i], w) || !is_vector(m,
		    &msl_init(loop)[i], w)))
			w /= 2;
		for (int k = 0; k < w && w > 1; k++)
			if (feeds_matrix(m, loop->t->region[0], msl_inside(loop)[i + k]))
				w = 1;
		if (w > 1) {
			join_values(m, &msl_inside(loop)[i], w);
			join_values(m, &loop->t->out[i], w);
		}
		i += w;
	}
}

static void
join_results(Msl *m, MslNode *branch)
{
	for (int i = 0; i < msl_carried(branch);) {
		const Reg *then = &branch->t->region[0]->yield[i], *otherwise = &branch->t->region[1]->yield[i];
		int w = 4;
		while (w > 1 && (i + w > msl_carried(branch) || !same_types(m, then, w) || !is_vector(m, then, w) ||
		    !is_vector(m, otherwise, w)))
			w /= 2;
		if (w > 1)
			join_values(m, &branch->t->out[i], w);
		i += w;
	}
}

/* ---- masked loads and their fill ---- */

static void
take_fill(Merge *g, MslNode *s)
{
	Msl *m = g->m;
	int w = s->width;
	MslNode *load = msl_def(m, s->in[w]);
	if (s->kind != NODE_OP || s->t->op != THREAD_SELECT || load->kind != NODE_LOAD || load->width != w || w > 4 ||
	    load->fill ||
	    load->t->home != s->t->home || !load->t->at->mask)
		return;
	for (int i = 0; i < w; i++) {
		const Users *u = &g->users[load->out[i] - 1];
		if (s->in[i] != load->t->at->mask || s->in[w + i] != load->out[i] || u->n != 1 ||
		    msl_def(m, s->in[2 * w + i])->kind != NODE_CONST)
			return;
	}
	load->fill = s->in + 2 * w;
	load->out = s->out;
	load->hint = s->hint ? s->hint : load->hint;
	for (int i = 0; i < w; i++) {
		m->reg[s->out[i] - 1] = (MslValue){load, i};
	}
	s->written = true;
}

void
msl_merge(Msl *m, ThreadRegion *b)
{
	Merge g = {.m = m, .region = b};
	list_users(&g);
	for (int i = 0; i < b->body.n; i++) {
		MslNode *n = msl_beside(m, b->body.at[i]);
		if (n->written)
			continue;
		if (n->kind == NODE_LOOP || n->kind == NODE_WHILE)
			join_carried(m, n);
		for (int k = 0; k < 2; k++)
			if (n->t->region[k])
				msl_merge(m, n->t->region[k]);
		if (n->kind == NODE_IF)
			join_results(m, n);
		for (int k = 0; k < n->nin && n->width == 1 && merges(n); k++)
			if (join_from(&g, n, k))
				break;
		if (n->kind == NODE_OP && n->t->op == THREAD_SELECT)
			take_fill(&g, n);
	}
}
