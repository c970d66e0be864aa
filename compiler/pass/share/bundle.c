/* Iterations that read little of each row of decoded weights come several at a time.
 *
 *     for %0, %n, %1, %acc do (%g, %c) {
 *         %w = read %weights, %r, (mul %g, 32) {extents = [64, 32]} : f4e2m1[64, 32]      16 bytes of a row
 *         %d = dot %x, (permute (cast %w)), %z
 *         yield (add %c, (mul %d, %scale))
 *     }
 *  =>
 *     for %0, %n, %4, %acc do (%g, %c) {
 *         %b = read %weights, %r, (mul %g, 32) {extents = [64, 128]} : f4e2m1[64, 128]
 *         %w, … = split … (permute (reshape %b : f4e2m1[64, 4, 32])) : f4e2m1[64, 32]
 *         …                                                   four times
 *     }
 *
 * A trip of a product by warpgroups meets, decodes, multiplies and waits, whatever it multiplies, and 16 bytes of a row are
 * half a sector of memory: 33 x 8192 x 4096 in f4e2m1 by groups of 32 takes 32.0 us on an H200 by one, 23.4 by four.  Not
 * of 32 bytes: i4 in groups of 64, 64 x 8192 x 4096, took 20.0 by one, 25.1 by two.  Sums are added in the same order.
 * Loops that the block's warps divide have their own way (slice_each). */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/share/slice_k.h"

#include <string.h>

enum { LITTLE = 16, ROW_BYTES = 64, MOST = 4, WARPGROUP = 2 };  /* bytes of a row; log2 of a warpgroup's warps */

typedef struct Pieces {
	Value *at[MOST];
} Pieces;

typedef struct Bundle {
	Func *f;
	Op *loop;
	const Block *body;
	int64_t step;
	int n;                                          /* iterations at a time */
	bool *varies;                                   /* by Value.id: from one iteration to the next */
	Pieces *part;                                   /* by the id of what a read gives: what n of them give */
} Bundle;

/* How much an integer grows with the loop's index: 0: not evenly. */
static int64_t
factor_of(const Bundle *x, const Value *v)
{
	int64_t by;
	if (v == &x->body->arg[0])
		return 1;
	const Op *op = v->def;
	return op && op->kind == OP_MUL && op->in[0] == &x->body->arg[0] && value_int(op->in[1], &by) ? by : 0;
}

/* Does the read go on along the last dimension of its tensor where the iteration before ended, and vary in nothing else? */
static bool
runs_on(const Bundle *x, const Op *op)
{
	int rank = op->kind == OP_READ ? op->in[0]->type->rank : 0;
	const IntList *extent = attr_extents(op);
	if (rank == 0 || op->nin != 1 + rank || op->out[0].type->rank + 2 > KERNEL_RANK)
		return false;
	if (ANY_OF(d, rank - 1, x->varies[op->in[1 + d]->id] || attr_index(op)[d] == 'g'))
		return false;
	char last = attr_index(op)[rank - 1];
	int64_t has = last == 'i' ? 1 : last == 'p' ? extent->at[extent->n - 1] : 0;
	return has > 0 && factor_of(x, op->in[rank]) * x->step == has;
}

/* Is it a product of decoded weights by warpgroups, of more rows than warps divide a loop for? */
static bool
is_product(const Op *op, const Target *t)
{
	return dot_decodes(op) && dot_decodes_rows(op, t, WARPGROUP) && !slice_takes(op->out[0].type, t);
}

/* Iterations at a time by what one reads of a row of weights, the largest tile; 1: enough, or it is no such loop.  Those of
 * two products would take more registers than there are. */
static int
count_for(const Bundle *x, const Target *t)
{
	int64_t most = 0, bytes = 0;
	int products = 0;
	for (const Op *op = x->body->first; op; op = op->next) {
		bool reads = op->kind == OP_READ && !op->in[0]->def && x->f->param[op->in[0]->index].access == ACCESS_IN;
		if (op->nregion || (!reads && !op_has(op, PURE) && op->kind != OP_YIELD) ||
		    (op->kind == OP_DOT && !is_product(op, t)))
			return 1;
		products += op->kind == OP_DOT;
		const Type *tile = reads && runs_on(x, op) ? op->out[0].type : NULL;
		if (!tile || tile->rank != 2 || dtype_info[tile->elem].bits > 8 || type_count(tile) <= most)
			continue;
		most = type_count(tile);
		bytes = dtype_bytes(tile->elem, tile->extent[1]);
	}
	int n = 1;
	bool is_little = products == 1 && bytes > 0 && bytes <= LITTLE;
	while (is_little && n < MOST && 2 * n * bytes <= ROW_BYTES && loop_ends_evenly(x->f, x->loop, 2 * n * x->step))
		n *= 2;
	return n;
}

static void
find_varying(Bundle *x)
{
	for (int i = 0; i < x->body->narg; i++)
		x->varies[x->body->arg[i].id] = true;
	for (const Op *op = x->body->first; op; op = op->next)
		op_extend_slice(op, x->varies, op_uses_slice(op, x->varies));
}

/* ---- the new loop ---- */

/* What n iterations read, before the first of them. */
static Value *
read_all(const Bundle *x, Builder *b, const Op *op, Value **map)
{
	Value **in = NEW_ARRAY(b->m->cx->tmp, Value *, op->nin);
	const IntList *old = attr_extents(op);
	int rank = op->in[0]->type->rank, kept = 0;
	int64_t extent[MAX_RANK];
	char *index = arena_printf(b->m->cx->tmp, "%s", attr_index(op));
	bool is_new = index[rank - 1] == 'i';
	for (int i = 0; i < (old ? old->n : 0); i++)
		extent[kept++] = old->at[i];
	if (is_new)
		extent[kept++] = 1;
	extent[kept - 1] *= x->n;
	index[rank - 1] = 'p';
	for (int i = 0; i < op->nin; i++)
		in[i] = value_mapped(map, op->in[i]);
	Value *v = access_like(b, op, in, op->nin, index, extent, kept)->out;
	v->name = op->out[0].name;
	return v;
}

/* Halves of v along its last dimension, of n elements, until each is one: that of element `first + step i` is out[…]. */
static void
split_all(Builder *b, Value *v, int64_t n, int first, int step, Value **out)
{
	if (n == 1) {
		out[first] = v;
		return;
	}
	if (n > 2)
		v = build_split_dim(b, v, v->type->rank - 1, 2);
	const Op *halves = op_make(b, OP_SPLIT, &v, 1, NULL, 0, NULL, 0);
	for (int i = 0; i < 2; i++)
		split_all(b, &halves->out[i], n / 2, first + i * step, 2 * step, out);
}

/* The part of each iteration: of 16 bytes of a row each, in registers of the threads that multiply them. */
static void
split(const Bundle *x, Builder *b, Value *wide, const Type *each, Value **out)
{
	int64_t dims[MAX_RANK];
	int rank = wide->type->rank;
	if (rank == each->rank) {
		for (int d = 0; d <= rank; d++)
			dims[d] = d < rank - 1 ? d : rank - 1 + (d == rank - 1);
		dims[rank] = rank - 1;
		wide = build_permute(b, build_split_dim(b, wide, rank - 1, each->extent[rank - 1]), dims);
	}
	split_all(b, wide, x->n, 0, 1, out);
}

/* What a product takes as it was read comes by tensor maps. */
static bool
is_operand(const Bundle *x, const Value *v)
{
	bool flipped;
	return ANY_OP_HERE(op, x->body,
	    op->kind == OP_DOT && (dot_operand_root(op->in[0], &flipped) == v ||
				      dot_operand_root(op->in[1], &flipped) == v));
}

static void
fill(const Bundle *x, Builder *b, Block *to)
{
	Arena *tmp = b->m->cx->tmp;
	Value **map = NEW_ARRAY(tmp, Value *, x->f->nvalues), **state = NEW_ARRAY(tmp, Value *, x->body->narg);
	for (int i = 0; i < x->body->narg; i++) {
		state[i] = &to->arg[i];
		to->arg[i].name = x->body->arg[i].name;
	}
	for (int k = 0; k < x->n; k++) {
		memset(map, 0, sizeof *map * (size_t)x->f->nvalues);
		map[x->body->arg[0].id] = k ? build2(b, OP_ADD, state[0], build_index(b, k * x->step)) : state[0];
		for (int i = 1; i < x->body->narg; i++)
			map[x->body->arg[i].id] = state[i];
		for (const Op *op = x->body->first; op != x->body->last; op = op->next) {
			Pieces *part = op->nout ? &x->part[op->out[0].id] : NULL;
			b->place = op->place;
			if (!runs_on(x, op) || is_operand(x, &op->out[0])) {
				op_clone(b, op, map);
				continue;
			}
			if (k == 0)
				split(x, b, read_all(x, b, op, map), op->out[0].type, part->at);
			map[op->out[0].id] = part->at[k];
		}
		for (int i = 1; i < x->body->narg; i++)
			state[i] = value_mapped(map, x->body->last->in[i - 1]);
	}
	build_yield(b, state + 1, x->body->narg - 1);
}

static bool
bundle(Func *f, Op *loop, const Target *t)
{
	Arena *tmp = f->module->cx->tmp;
	axis_keep(f);
	func_number(f);
	Bundle x = {.f = f, .loop = loop, .body = loop->region[0], .varies = NEW_ARRAY(tmp, bool, f->nvalues),
	    .part = NEW_ARRAY(tmp, Pieces, f->nvalues)};
	if (!value_int(loop->in[2], &x.step) || x.step <= 0)
		return false;
	find_varying(&x);
	x.n = count_for(&x, t);
	if (x.n == 1)
		return false;
	f->has_axes = false;
	Builder b = build_before(loop);
	Op *made = build_for(&b, (Value *[]){loop->in[0], loop->in[1], build_index(&b, x.n * x.step)}, loop->in + 3,
	    loop->nout, loop);
	Builder in = build_inside(made, 0);
	fill(&x, &in, made->region[0]);
	op_replace(loop, made);
	return true;
}

void
pass_bundle(Func *f, const Target *t)
{
	bool any = false;
	for (Op *op = f->body->first, *next; op && (t->has & HAS_WGMMA) && f->schedule.slices <= 1; op = next) {
		next = op->next;
		any |= op->kind == OP_FOR && bundle(f, op, t);
	}
	if (any)
		pass_simplify(f, t);
}
