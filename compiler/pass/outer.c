/* Accesses by tiles of indices of which each counts along its own dimension are accesses of parts.
 *
 *     %r = broadcast (reshape (add %k, (div (iota), 8))) : i64[128, 64]      rows k + i / 8
 *     %c = broadcast (reshape (add %n, (iota))) : i64[128, 64]               columns n + j
 *     %w = read %words, %r, %c {index = "gg"} : i32[128, 64]
 *  =>
 *     %p = read %words, %k, %n {index = "pp", extents = [16, 64]} : i32[16, 64]
 *     %w = reshape (broadcast (reshape %p : i32[16, 1, 64]) : i32[16, 8, 64]) : i32[128, 64]
 *
 * as kernels that are ported from pointers reach words of eight weights.  What is outside of the tensor is so either way.
 * Of indices that are the same along a dimension, as a convolution's pixel, which three say, and its channels, those of one
 * dimension are left to be gathered:
 *
 *     %v = read %x, %n, %i, %j, %c {index = "gggg"} : f16[64, 32]
 *  =>
 *     %v = read %x, %m, %y, %z, %start {index = "gggp", extents = [32]} : f16[64, 32]         %m, %y, %z: i64[64]
 *
 * A tile whose dimensions come in the other order than the tensor's is transposed beside its access.
 *
 * A part comes by copies ahead, each word once.  What the word is shifted by, 4 (i % 8), is written as numbers 0 to 7 that
 * repeat, so that threads which hold eight neighbours shift by constants. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/layout/axis.h"
#include "pass/outer.h"

#include <string.h>

enum { DEPTH = 8 };

/* Along one dimension of the tensor: numbers from `start` on, each `times` one after the other. */
typedef struct Run {
	Value *start;                                   /* i64; NULL: it is no gathered dimension */
	int64_t times, n;                               /* n: different ones */
} Run;

const Value *
flatten_line(const Value *v, int d)
{
	int64_t n = v->type->extent[d];
	for (int i = 0; i < DEPTH && v->type->rank > 1; i++) {
		const Op *op = v->def;
		if (!op || (op->kind != OP_BROADCAST && op->kind != OP_RESHAPE && op->kind != OP_CAST) ||
		    op->in[0]->type->rank == 0)
			return NULL;
		v = op->in[0];
		bool is_line = v->type->rank == 1 || (v->type->rank == 2 && v->type->extent[d] == n);
		if (!is_line || (op->kind == OP_RESHAPE && type_count(v->type) != n))
			return NULL;
	}
	return v->type->rank == 1 && v->type->extent[0] == n ? v : NULL;
}

/* %s + (what counts up) / times, or (%s + what counts up) / times where that divides %s. */
static bool
find_run(Builder *b, const Value *line, Run *out)
{
	int64_t by, start = 0;
	Value *s = NULL, *first;
	const Value *v = digit_root(line);
	*out = (Run){.times = 1};
	for (int i = 0; i < 2 && v->def && v->def->kind == OP_ADD; i++) {
		const Op *part = digit_root(v->def->in[i])->def;
		if (!part || (part->kind != OP_DIV && part->kind != OP_FLOORDIV) || !value_constant(part->in[1], &by))
			continue;
		int counts = 0;
		if (!flatten_counts(part->in[0], &counts) || counts != 1 ||
		    !value_int(flatten_start(b, part->in[0]), &start) || start != 0)
			continue;
		counts = 0;
		if (!flatten_counts(v->def->in[1 - i], &counts) || counts != 0)
			continue;
		s = flatten_start(b, v->def->in[1 - i]);
		out->times = by;
	}
	const Op *whole = v->def;
	int counts = 0;
	if (!s && whole && (whole->kind == OP_DIV || whole->kind == OP_FLOORDIV) && value_constant(whole->in[1], &by) &&
	    flatten_counts(whole->in[0], &counts) && counts == 1 && is_power_of_two(by)) {
		first = flatten_start(b, whole->in[0]);
		axis_keep(b->block->func);
		if (axis_of(first)->lo < 0 || axis_of(first)->div[0] < log2_ceil(by))
			return false;
		s = build2(b, OP_DIV, first, build_index(b, by));
		out->times = by;
	}
	counts = 0;
	if (!s && flatten_counts(line, &counts) && counts == 1)
		s = flatten_start(b, line);
	int64_t n = line->type->extent[0];
	if (!s || out->times < 1 || n % out->times || !is_power_of_two(out->times))
		return false;
	out->start = s;
	out->n = n / out->times;
	return true;
}

/* Of each dimension of a tensor: its run, or the line of indices that is still gathered. */
typedef struct Outer {
	Run run[KERNEL_RANK];
	const Value *line[KERNEL_RANK];
	bool turned;                                    /* the second dimension of the tiles of indices comes first */
} Outer;

/* The first two dimensions of v's that tiles of indices have, exchanged. */
static Value *
turn(Builder *b, Value *v, const Op *access)
{
	int64_t dims[MAX_RANK];
	int at = 0;
	for (const char *c = attr_index(access); *c && *c != 'g'; c++)
		at += *c == 'p';
	for (int d = 0; d < v->type->rank; d++)
		dims[d] = d == at ? d + 1 : d == at + 1 ? d - 1 : d;
	return build_permute(b, v, dims);
}

static Op *
access_parts(Builder *b, const Op *op, const Outer *o)
{
	const char *old = attr_index(op);
	const IntList *had = attr_extents(op);
	int rank = op->in[0]->type->rank, n = 0, e = 0;
	int64_t extent[MAX_RANK];
	char index[KERNEL_RANK + 1] = {0};
	Value *in[2 + KERNEL_RANK] = {op->in[0]};
	for (int d = 0; d < rank; d++) {
		index[d] = o->run[d].start ? 'p' : old[d];
		in[1 + d] = o->run[d].start ? o->run[d].start : o->line[d] ? (Value *)o->line[d] : op->in[1 + d];
		if (index[d] == 'p')
			extent[n++] = o->run[d].start ? o->run[d].n : had->at[e++];
	}
	if (op->kind == OP_WRITE)
		in[1 + rank] = o->turned ? turn(b, op->in[1 + rank], op) : op->in[1 + rank];
	return access_like(b, op, in, op->nin, index, extent, n);
}

/* Words of which each was read `times` one after the other. */
static Value *
repeat_words(Builder *b, Value *v, const Op *parts, const Outer *o)
{
	const char *index = attr_index(parts);
	for (int d = 0, at = 0, gathers = 0; index[d]; d++) {
		if (index[d] == 'p')
			v = build_repeat_each(b, v, at, o->run[d].start ? o->run[d].times : 1);
		at += index[d] == 'p' || (index[d] == 'g' && !gathers++);
	}
	return v;
}

/* Along which dimension of the tiles of indices is each, and is it alone there?  False: one is along several, or the
 * tensor's dimensions come in another order than the tile's. */
static bool
find_lines(const Op *op, int first, int last, int along[KERNEL_RANK], int alone[KERNEL_RANK], bool *turned)
{
	const char *index = attr_index(op);
	int rank = op->in[1 + first]->type->rank, now = -1;
	memset(alone, 0, KERNEL_RANK * sizeof *alone);
	*turned = rank == 2 && !flatten_line(op->in[1 + first], 0);
	for (int d = first; d <= last; d++) {
		int t = 0;
		if (index[d] == 'p')
			return false;
		if (index[d] != 'g')
			continue;
		while (t < rank && !flatten_line(op->in[1 + d], t))
			t++;
		if (t == rank || (*turned ? 1 - t : t) < now)
			return false;
		along[d] = t;
		now = *turned ? 1 - t : t;
		alone[t]++;
	}
	return ALL_OF(t, rank, alone[t] > 0);
}

static bool
find_parts(Builder *b, const Op *op, int first, int last, Outer *o)
{
	int along[KERNEL_RANK], alone[KERNEL_RANK], gathered = -1, tiles = op->in[1 + first]->type->rank;
	bool any = false, is_repeated = false;
	if (!find_lines(op, first, last, along, alone, &o->turned))
		return false;
	for (int d = first; d <= last; d++) {
		if (attr_index(op)[d] != 'g')
			continue;
		const Value *line = flatten_line(op->in[1 + d], along[d]);
		if (alone[along[d]] == 1 && flatten_fits(line) && find_run(b, line, &o->run[d])) {
			any = true;
			is_repeated |= o->run[d].times > 1;
			continue;
		}
		if (gathered >= 0 && gathered != along[d])
			return false;
		gathered = along[d];
		o->run[d].start = NULL;
		o->line[d] = line;
	}
	if (is_repeated)
		return op->kind == OP_READ;
	return any && tiles > 1;                        /* a part alone is flatten's own */
}

bool
flatten_outer(Op *op)
{
	const char *g = strchr(attr_index(op), 'g'), *end = strrchr(attr_index(op), 'g');
	int rank = op->in[0]->type->rank;
	const Value *tile = access_tile(op);
	Outer o = {.line = {NULL}};
	if (!g || attr_merged(op) || op->nin != 1 + rank + (op->kind == OP_WRITE) ||
	    (tile && tile->type->rank + 1 > KERNEL_RANK))
		return false;
	Builder b = build_before(op);
	if (!find_parts(&b, op, (int)(g - attr_index(op)), (int)(end - attr_index(op)), &o))
		return false;
	Op *parts = access_parts(&b, op, &o);
	if (op->kind == OP_WRITE) {
		op_erase(op);
		return true;
	}
	Value *v = repeat_words(&b, parts->out, parts, &o);
	op_become(op, o.turned ? turn(&b, v, op) : v);
	return true;
}

/* i % n of what counts up from 0, a whole number of times n. */
static Value *
remainder_of_count(Builder *b, const Op *op)
{
	const Op *count = op->in[0]->def;
	int64_t n, all = op->out[0].type->extent[0];
	if (op->kind != OP_REM || op->out[0].type->rank != 1 || !count || count->kind != OP_IOTA ||
	    !value_constant(op->in[1], &n) || n < 2 || !is_power_of_two(n) || all % n || all == n)
		return NULL;
	return build_repeat(b, build_iota(b, type_with_shape(b->m, op->out[0].type, 1, &n), 0), 0, all / n);
}

void
flatten_shift(Op *shift)
{
	const Value *v = shift->in[1];
	for (int i = 0; i < DEPTH && v->def; i++) {
		Op *op = v->def;
		if (op->kind == OP_REM && op->in[0]->type->kind == TYPE_TILE && op->in[0]->type->rank == 1) {
			Builder b = build_before(op);
			Value *by = remainder_of_count(&b, op);
			if (by)
				value_replace(&op->out[0], by);
			return;
		}
		if (op->kind != OP_MUL && op->kind != OP_SHL && op->kind != OP_CAST && op->kind != OP_BROADCAST &&
		    op->kind != OP_RESHAPE)
			return;
		v = op->in[0];
	}
}
