/* Reads by tiles of indices of which each counts along its own dimension are reads of parts.
 *
 *     %r = broadcast (reshape (add %k, (div (iota), 8))) : i64[128, 64]      rows k + i / 8
 *     %c = broadcast (reshape (add %n, (iota))) : i64[128, 64]               columns n + j
 *     %w = read %words, %r, %c {index = "gg"} : i32[128, 64]
 *  =>
 *     %p = read %words, %k, %n {index = "pp", extents = [16, 64]} : i32[16, 64]
 *     %w = reshape (broadcast (reshape %p : i32[16, 1, 64]) : i32[16, 8, 64]) : i32[128, 64]
 *
 * as kernels that are ported from pointers reach words of eight weights.  What is outside of the tensor is so either way.
 * A part comes by copies ahead, each word once.  What the word is shifted by, 4 (i % 8), is written as numbers 0 to 7 that
 * repeat, so that threads which hold eight neighbours shift by constants. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/layout/axis.h"
#include "pass/outer.h"

enum { DEPTH = 8 };

/* Along one dimension of the tensor: numbers from `start` on, each `times` one after the other. */
typedef struct Run {
	Value *start;                                   /* i64; NULL: it is no gathered dimension */
	int64_t times, n;                               /* n: different ones */
} Run;

/* The line of numbers that an index is along dimension d of its tile, and the same along others; NULL. */
static const Value *
line_of(const Value *v, int d)
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

static Value *
read_parts(Builder *b, const Op *read, const Run *run)
{
	const char *old = attr_index(read);
	const IntList *had = attr_extents(read);
	int rank = read->in[0]->type->rank, n = 0, e = 0, at = 0;
	int64_t extent[MAX_RANK];
	char index[KERNEL_RANK + 1] = {0};
	Value *in[1 + KERNEL_RANK] = {read->in[0]};
	for (int d = 0; d < rank; d++) {
		index[d] = run[d].start ? 'p' : old[d];
		in[1 + d] = run[d].start ? run[d].start : read->in[1 + d];
		if (index[d] == 'p')
			extent[n++] = run[d].start ? run[d].n : had->at[e++];
	}
	Value *v = access_like(b, read, in, 1 + rank, index, extent, n)->out;
	for (int d = 0; d < rank; d++)
		if (index[d] == 'p')
			v = build_repeat_each(b, v, at++, run[d].start ? run[d].times : 1);
	return v;
}

bool
flatten_outer(Op *read)
{
	const char *index = attr_index(read);
	int rank = read->in[0]->type->rank, first = -1, last = -1;
	Run run[KERNEL_RANK] = {{0}};
	bool any = false, is_repeated = false;
	for (int d = 0; d < rank; d++)
		if (index[d] == 'g') {
			first = first < 0 ? d : first;
			last = d;
		}
	if (read->kind != OP_READ || first < 0 || read->nin != 1 + rank || read->out[0].type->rank + 1 > KERNEL_RANK)
		return false;
	int tiles = read->in[1 + first]->type->rank;
	if (tiles > 2 || last - first + 1 != tiles)
		return false;
	Builder b = build_before(read);
	for (int d = first; d <= last; d++) {
		const Value *line = index[d] == 'g' ? line_of(read->in[1 + d], d - first) : NULL;
		if (!line || !flatten_fits(line) || !find_run(&b, line, &run[d]))
			return false;
		any = true;
		is_repeated |= run[d].times > 1;
	}
	if (!any || (tiles == 1 && !is_repeated))       /* a part alone is flatten's own */
		return false;
	op_become(read, read_parts(&b, read, run));
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
