/* What the slices of a loop read (slice_k.c).
 *
 *     %w = read %weights, %r, (mul %g, 128) {extents = [64, 128]}      the neighbours of all slices, side by side: a warp
 *  => %w = read %weights, %r, (mul %g, 128) {extents = [64, 1024], slices = [1, 8]}     has one of the 8 parts
 *
 *     %s = read %scales, %r, %g {index = "pi", extents = [64]} : f16[64]               less than a copy moves
 *  => %s = read %scales, %r, %columns {index = "pg", …, slices = [1, 8]} : f16[64, 16]     0 1 0 1 2 3 2 3 4 5 …
 *     (split, select: each slice's own of the two)
 *
 *     %x = read %rows, %m, (mul %g, 32) {extents = [1, 16]} : f16[1, 16]               half of a block of 32
 *  => %x = read %rows, %m, %columns {index = "pg", …, slices = [1, 8, 1]} : f16[1, 8, 16]   0 … 15 32 … 47 64 …
 *
 * Numbers that stay for several iterations are in several slices: rows by a tile of indices, 0 0 0 0 1 1 1 1.  So each warp
 * copies what it multiplies by, and no warp waits for another: where one copied scales for all, 16 x 8192 x 8192 by 4 bits
 * took 15.3 us on an H200, of which the barrier at each trip was 2.7. */
#include "ir/derive.h"
#include "pass/share/slice_k.h"

#include <string.h>

/* Where each slice of a read has one element along dimension d of the tensor, of less than a copy moves, or of iterations
 * that have it in common, it reads that, or the word around it, by a tile of indices: so its warp waits for no other. */
typedef struct Alone {
	int d, e;                                       /* the dimension of the tensor, of the tile */
	bool is_new;                                    /* which the tile has not before */
	bool is_part;                                   /* of a row, less than a copy moves */
	int64_t word, times;                            /* elements that each slice reads; slices that read the same */
} Alone;

/* The read that has `parts` times as much along dimension d, e of the tile's. */
static Value *
read_wider(Sliced *x, const Op *read, Value *const *in, int64_t parts, const Alone *w)
{
	const IntList *old = attr_extents(read);
	int64_t slices[MAX_RANK];
	int n = (old ? old->n : 0) + w->is_new;

	for (int i = 0; i < n; i++)
		slices[i] = i == w->e ? parts / x->s->each : 1;
	Op *op = access_along(&x->b, read, in, w->d, w->is_new ? parts : old->at[w->e] * parts);
	attr_set_slices(x->b.m, op, slices, n);
	op->out[0].name = read->out[0].name;
	return op->out;
}

/* The parts of one tile, side by side along dimension e, become the first dimension; of a warp's own the first ones of all
 * warps come first. */
static Value *
apart(Sliced *x, Value *v, int64_t parts, int e, bool is_new)
{
	int64_t extent[MAX_RANK], dims[MAX_RANK], each = x->s->each;
	int n = 0, more = each > 1, rank = v->type->rank + !is_new + more;

	for (int d = 0; d < v->type->rank; d++) {
		if (d == e) {
			extent[n++] = parts / each;
			if (more)
				extent[n++] = each;
		}
		if (d != e || !is_new)
			extent[n++] = d == e ? v->type->extent[d] / parts : v->type->extent[d];
	}
	v = build_reshape(&x->b, v, rank, extent);
	n = 0;
	if (more)
		dims[n++] = e + 1;
	dims[n++] = e;
	for (int d = 0; d < rank; d++)
		if (d != e && !(more && d == e + 1))
			dims[n++] = d;
	v = build_permute(&x->b, v, dims);
	if (!more)
		return v;
	extent[0] = parts;
	memcpy(extent + 1, v->type->extent + 2, sizeof *extent * (size_t)(rank - 2));
	return build_reshape(&x->b, v, rank - 1, extent);
}

/* Rows of so many elements and more, whole words of them. */
static bool
has_words(const Slice *s, const Op *op, int d, int64_t word)
{
	const Value *tensor = op->in[0];
	const FuncParam *p = &s->f->param[tensor->index];
	int64_t n = tensor->type->extent[d];

	if (word == 1 || tensor->def || tensor->block->parent || (p->strided && (!p->unit || p->apart % word)))
		return word == 1;
	if (n < 0)
		n = p->dim[d] >= 0 ? s->f->param[p->dim[d]].multiple : p->dim_multiple[d];
	return n > 0 && n % word == 0;
}

/* A word is a sector of memory for each row: no more than half of what the largest read brings, else waiting for each other
 * costs less (int4 in groups of 64, 1 x 8192 x 8192: 15.7 us by words, 14.9 together; of 128, 16 rows 13.7 and 15.3). */
static bool
are_few_sectors(const Slice *s, const Op *read)
{
	enum { SECTOR = 32, SHARE = 2 };
	int64_t most = 0;

	for (const Op *op = s->body->first; op; op = op->next)
		if (op->kind == OP_READ && s->varies[op->out[0].id])
			most = MAX(most, dtype_bytes(op->out[0].type->elem, type_count(op->out[0].type)));
	return SHARE * SECTOR * type_count(read->out[0].type) <= most;
}

static bool
reads_alone(const Slice *s, const Op *op, Alone *w)
{
	enum { COPY_BITS = 32 };
	enum { MORE = 2 };                              /* dimensions on the way: slices, and halves of words */
	int64_t bits = dtype_info[op->in[0]->type->elem].bits, each;

	*w = (Alone){.d = slice_dim(s, op), .times = MIN(slice_period(s, op), s->n)};
	w->is_new = attr_index(op)[w->d] == 'i';
	w->e += COUNT_OF(i, w->d, attr_index(op)[i] == 'p');
	each = w->is_new ? 1 : attr_extents(op)->at[w->e];
	w->is_part = w->d == op->in[0]->type->rank - 1 && each * bits < COPY_BITS;
	w->word = w->is_part ? COPY_BITS / bits : 1;
	if (op->out[0].type->rank + w->is_new + MORE > KERNEL_RANK || s->each > 1)
		return false;
	return each == 1 && bits >= 8 && !strchr(attr_index(op), 'g') && w->word * w->times > 1 &&
	    s->n % (w->word * w->times) == 0 && has_words(s, op, w->d, w->word) && (w->word == 1 || are_few_sectors(s, op));
}

/* Does each part of rows that is less than a copy come alone?  If one does not, warps wait for each other all the same. */
static bool
are_parts_alone(const Slice *s)
{
	Alone w;

	for (const Op *op = s->body->first; op; op = op->next) {
		bool counts = op->kind == OP_READ && s->varies[op->out[0].id] && slice_dim(s, op) >= 0;
		if (counts && attr_index(op)[0] != 'g' && !reads_alone(s, op, &w) && w.is_part)
			return false;
	}
	return true;
}

/* i64[n * word]: for each slice the columns of the word in which its own is, from `first` on: 0 1 0 1 2 3 2 3 … */
static Value *
columns_of(Sliced *x, Value *first, const Alone *w)
{
	int64_t n = x->s->n * w->word;
	const Type *line = type_with_shape(x->b.m, slice_type(x->s, first->type), 1, &n);
	Value *i = build_iota(&x->b, line, 0);
	Value *begin = build2(&x->b, OP_DIV, i, build_int(&x->b, line, w->word * w->word * w->times));

	begin = build2(&x->b, OP_MUL, begin, build_int(&x->b, line, w->word));
	begin = build2(&x->b, OP_ADD, build1(&x->b, OP_BROADCAST, first, line), begin);
	return w->word == 1 ? begin
	                    : build2(&x->b, OP_ADD, begin, build2(&x->b, OP_REM, i, build_int(&x->b, line, w->word)));
}

/* Of the words along the last dimension each slice's own element. */
static Value *
own_elements(Sliced *x, Value *v, const Alone *w)
{
	int64_t part = w->times;

	for (int64_t word = w->word; word > 1; word /= 2, part *= 2) {
		v = build_split_dim(&x->b, v, v->type->rank - 1, 2);
		Op *halves = op_make(&x->b, OP_SPLIT, &v, 1, NULL, 0, NULL, 0);
		Value *at = slice_numbers(x, build_index(&x->b, 0), 1);
		at = build2(&x->b, OP_DIV, at, build_int(&x->b, at->type, part));
		at = build2(&x->b, OP_REM, at, build_int(&x->b, at->type, 2));
		Value *is_even = build2(&x->b, OP_EQ, at, build_int(&x->b, at->type, 0));
		is_even = slice_spread(x, is_even, halves->out[0].type);
		v = build3(&x->b, OP_SELECT, is_even, &halves->out[0], &halves->out[1]);
	}
	return v;
}

/* At a tile of indices along the dimension. */
static Value *
read_by_indices(Sliced *x, const Op *read, Value *const *in, const Alone *w)
{
	int64_t slices[MAX_RANK];
	int dims = read->out[0].type->rank + w->is_new;

	for (int i = 0; i < dims; i++)
		slices[i] = i == w->e ? x->s->n : 1;
	Op *op = access_along(&x->b, read, in, w->d, 0);
	attr_set_slices(x->b.m, op, slices, dims);
	op->out[0].name = read->out[0].name;
	return op->out;
}

static Value **
operands(const Sliced *x, const Op *op)
{
	return MAP_OF(x->b.m->cx->tmp, Value *, i, op->nin, slice_plain(x, op->in[i]));
}

static Value *
read_alone(Sliced *x, const Op *op, const Alone *w)
{
	Value **in = operands(x, op);

	in[1 + w->d] = columns_of(x, in[1 + w->d], w);
	Value *wide = read_by_indices(x, op, in, w), *v = own_elements(x, apart(x, wide, x->s->n, w->e, false), w);
	return build1(&x->b, OP_RESHAPE, v, slice_type(x->s, op->out[0].type));
}

static Value *
read_together(Sliced *x, const Op *op, const Alone *w)
{
	int64_t parts = x->s->n / w->times;
	Value *wide = read_wider(x, op, operands(x, op), parts, w);

	/* each part in as many slices one after the other */
	return build_repeat_each(&x->b, apart(x, wide, parts, w->e, w->is_new), 0, w->times);
}

/* At an index that each slice has for itself: rows of a tile of them, [n]. */
static Value *
read_own(Sliced *x, const Op *op, int d)
{
	int64_t dims[MAX_RANK];
	Alone w = {.d = d, .is_new = true, .word = 1, .times = 1};
	Value **in = operands(x, op);
	int rank = op->out[0].type->rank;

	for (int i = 0; i < d; i++)
		w.e += attr_index(op)[i] == 'p';
	in[1 + d] = slice_all(x, op->in[1 + d]);
	Value *v = read_by_indices(x, op, in, &w);
	for (int i = 0; i <= rank; i++)
		dims[i] = i == 0 ? w.e : i <= w.e ? i - 1 : i;
	return w.e == 0 ? v : build_permute(&x->b, v, dims);
}

/* Single elements at indices that each slice has for itself. */
static Value *
read_elements(Sliced *x, const Op *op)
{
	int64_t slices[MAX_RANK] = {x->s->n};
	Value **in = operands(x, op);
	int dims = op->out[0].type->rank + 1;

	for (int i = 1; i < dims; i++)
		slices[i] = 1;
	for (int i = 0; i < op->in[0]->type->rank; i++)
		in[1 + i] = slice_all(x, op->in[1 + i]);
	Op *read = access_like(&x->b, op, in, op->nin, attr_index(op), NULL, 0);
	attr_set_slices(x->b.m, read, slices, dims);
	read->out[0].name = op->out[0].name;
	return read->out;
}

/* Some of each row's part of an iteration: at a tile of indices, of which a warp's are neighbours. */
static Value *
read_with_gaps(Sliced *x, const Op *op)
{
	const Slice *s = x->s;
	const IntList *old = attr_extents(op);
	int d = slice_dim(s, op), n = 0;
	int64_t columns = old->at[old->n - 1], shape[2] = {s->n, columns}, slices[MAX_RANK];
	Value **in = operands(x, op), *first = in[1 + d];
	const Type *tile = type_with_shape(s->m, first->type, 2, shape);

	for (; n < old->n - 1; n++)
		slices[n] = 1;
	slices[n] = s->n / s->each;
	slices[n + 1] = 1;
	Value *at = build2(&x->b, OP_MUL, build_iota(&x->b, tile, 0), build_int(&x->b, tile, s->step[op->in[1 + d]->id]));
	at = build2(&x->b, OP_ADD, at, build_iota(&x->b, tile, 1));
	in[1 + d] = build2(&x->b, OP_ADD, build1(&x->b, OP_BROADCAST, first, tile), at);
	Op *read = access_along(&x->b, op, in, d, 0);
	attr_set_slices(s->m, read, slices, n + 2);
	read->out[0].name = op->out[0].name;
	return apart(x, read->out, s->n, n, true);
}

Value *
slice_read(Sliced *x, const Op *op)
{
	Alone w;
	int d = slice_own_dim(x->s, op);
	if (d >= 0)
		return read_own(x, op, d);
	bool gathers = attr_index(op)[0] == 'g', gaps = slice_has_gaps(x->s, op);
	bool alone = !gathers && !gaps && reads_alone(x->s, op, &w) && (w.word == 1 || are_parts_alone(x->s));
	Value *v = gathers ? read_elements(x, op)
	    : gaps         ? read_with_gaps(x, op)
	    : alone        ? read_alone(x, op, &w)
	                   : read_together(x, op, &w);

	return slice_masks(x->s, op) ? slice_masked(x, v, build_int(&x->b, v->type, 0)) : v;
}
