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
 * Loops that the block's warps divide have their own way (slice_each).
 *
 * Records of other than 16 bytes, `read %weights, %r, %g, 2 {index = "pip", extents = [64, 16]}` of u8[N, K / 32, 18], come
 * by as many as make whole rows a multiple of 16 bytes, however long their parts are: pass pipeline copies the rows.  By
 * 64 x 8192 x 8192 GGUF's q4_0 takes 43.5 us so, 86.5 one by one, q8_0 60 and 122; of tiles of more than 32 sums a thread
 * registers spill, 128 x 64 by 300 rows took 208 one by one and 283 so, and 64 x 128 by two warpgroups 253. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/share/slice_k.h"

#include <string.h>

enum { LITTLE = 16, ROW_BYTES = 64, MOST = 4, WARPGROUP = 2, /* bytes of a row; log2 of a warpgroup's warps */
	RECORD_BYTES = 16, MOST_RECORDS = 8, SUMS = 32 };

typedef struct Pieces {
	Value *at[MOST_RECORDS];
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

/* The dimension along which the read goes on where the iteration before ended, if it varies in nothing else: the last of
 * its tensor, or that of records, of which it reads a part; else -1. */
static int
run_dim(const Bundle *x, const Op *op)
{
	int rank = op->kind == OP_READ ? op->in[0]->type->rank : 0, at = -1;
	const IntList *extent = attr_extents(op);
	const char *index = attr_index(op);
	if (rank == 0 || op->nin != 1 + rank || op->out[0].type->rank + 2 > KERNEL_RANK || strchr(index, 'g'))
		return -1;
	for (int d = 0; d < rank; d++) {
		if (at >= 0 && x->varies[op->in[1 + d]->id])
			return -1;
		at = x->varies[op->in[1 + d]->id] ? d : at;
	}
	bool is_record = at == rank - 2 && index[at] == 'i';
	if (at < 0 || (at != rank - 1 && !is_record))
		return -1;
	int64_t has = index[at] == 'i' ? 1 : index[at] == 'p' ? extent->at[extent->n - 1] : 0;
	return has > 0 && factor_of(x, op->in[1 + at]) * x->step == has ? at : -1;
}

static bool
runs_on(const Bundle *x, const Op *op)
{
	return run_dim(x, op) >= 0;
}

/* Iterations that come together so that whole rows of the records are pieces of 16 bytes; 0: it reads no part of such. */
static int
records_together(const Op *read)
{
	int rank = read->in[0]->type->kind == TYPE_TENSOR ? read->in[0]->type->rank : 0;
	if (rank < 3 || attr_index(read)[rank - 2] != 'i' || dtype_info[read->out[0].type->elem].bits != 8)
		return 0;
	int64_t record = read->in[0]->type->extent[rank - 1];
	return record > 0 && record % RECORD_BYTES && record % 2 == 0 ? (int)(RECORD_BYTES / (record & -record)) : 0;
}

/* Has a thread of the one warpgroup registers for its sums, too? */
static bool
holds_sums(const Type *sums, const Target *t, int warps)
{
	return warps == 1 << WARPGROUP && type_count(sums) <= (int64_t)SUMS * t->lanes * warps;
}

bool
bundle_copies(const Op *read, const Target *t, int warps)
{
	const Op *dot = NULL;
	for (const Op *op = read->home->first; op; op = op->next)
		dot = op->kind == OP_DOT ? op : dot;
	return dot && records_together(read) > 0 && holds_sums(dot->out[0].type, t, warps);
}

/* Of records that are read whole rows of several are copied by 16 bytes: so many come at a time; 0: of no records. */
static int
records_at_once(const Bundle *x, const Op *op)
{
	return run_dim(x, op) == op->in[0]->type->rank - 2 ? records_together(op) : 0;
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
	int products = 0, records = 0;
	bool fits = true;
	for (const Op *op = x->body->first; op; op = op->next) {
		bool reads = op->kind == OP_READ && !op->in[0]->def && x->f->param[op->in[0]->index].access == ACCESS_IN;
		if (op->nregion || (!reads && !op_has(op, PURE) && op->kind != OP_YIELD) ||
		    (op->kind == OP_DOT && !is_product(op, t)))
			return 1;
		products += op->kind == OP_DOT;
		if (op->kind == OP_DOT)
			fits = holds_sums(op->out[0].type, t, MAX(x->f->schedule.warps, 1 << WARPGROUP));
		const Type *tile = reads && runs_on(x, op) ? op->out[0].type : NULL;
		if (!tile || tile->rank != 2 || dtype_info[tile->elem].bits > 8 || type_count(tile) <= most)
			continue;
		most = type_count(tile);
		records = records_at_once(x, op);
		bytes = dtype_bytes(tile->elem, tile->extent[1]);
	}
	if (records > 0)
		return products == 1 && fits && loop_ends_evenly(x->f, x->loop, records * x->step) ? records : 1;
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
	Value **in = MAP_OF(b->m->cx->tmp, Value *, i, op->nin, value_mapped(map, op->in[i]));
	const char *index = attr_index(op);
	int at = run_dim(x, op), e = COUNT_OF(d, at, index[d] == 'p');
	Value *v = access_along(b, op, in, at, x->n * (index[at] == 'p' ? attr_extents(op)->at[e] : 1))->out;
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

/* The part of each iteration, in registers of the threads that multiply it: along dimension d, which is new unless they
 * are neighbours there. */
static void
split(const Bundle *x, Builder *b, Value *wide, const Type *each, int d, Value **out)
{
	int64_t dims[MAX_RANK];
	int n = 0;
	if (wide->type->rank == each->rank)
		wide = build_split_dim(b, wide, d, each->extent[d]);
	for (int i = 0; i < wide->type->rank; i++)
		if (i != d)
			dims[n++] = i;
	dims[n] = d;
	split_all(b, d == n ? wide : build_permute(b, wide, dims), x->n, 0, 1, out);
}

/* Of the tile that is read, the dimension along which it goes on. */
static int
tile_dim(const Op *read, int at)
{
	return COUNT_OF(i, at, attr_index(read)[i] == 'p');
}

/* What a product takes as it was read comes by tensor maps. */
static bool
is_operand(const Bundle *x, const Value *v)
{
	return ANY_OP_HERE(op, x->body, dot_takes(op, v));
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
			int d = tile_dim(op, run_dim(x, op));
			if (k == 0)
				split(x, b, read_all(x, b, op, map), op->out[0].type, d, part->at);
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
