/* Which loops of products the warps of a block can divide.
 *
 *     for %0, %n, %1, %acc do (%g: i64, %c: f32[16, 64]) {
 *         %k = mul %g, %128                               an integer that grows by 128 with each iteration
 *         %w = read %weights, %r, %k {extents = [64, 128]}        128 columns further: neighbours of the last ones
 *         %s = read %scales, %r, %g {index = "pi", …}             one further
 *         %p = dot %x, (permute (cast %w)), %0
 *         …  yield (add %c, (mul %p, …))                  a sum
 *     }
 *
 * Iterations must not depend on each other but for sums, their reads must go on where the iteration before ended or look
 * single elements up, as `read %code, (cast %c) {index = "g"}`, and whatever else is computed must be elementwise, a
 * product, a reduction, or move elements as an op of one more dimension can.  So nf4 with scales of 8 bits that a table
 * decodes takes 31.4 us by 16 x 8192 x 8192 on an H200, 48.0 where warps wait for each other; q5_1, which sums x for its
 * minima, 35.7 and 86.3.
 *
 * Loops of few rows are better for it: their products are over at once, so that what an iteration takes is the way from
 * one barrier of the block to the next.  Slices have rings of their own, and no barrier but their warp's. */
#include "ir/derive.h"
#include "model/turn.h"
#include "pass/layout/dot.h"
#include "pass/share/slice_k.h"
#include "pass/share/split_k.h"

#include <string.h>

enum { FEW_ROWS = 32, WARPS = 8, WARPS_LEAST = 4, SLOTS = 3, SLOTS_LEAST = 2, SUMS_MOST = 64, ROW_BYTES = 16 };

/* ---- what varies ---- */

static bool
is_number(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->rank == 0 && v->type->elem == TY_I64;
}

static bool
varies(const Slice *s, const Value *v)
{
	return s->varies[v->id];
}

/* Two integers that grow alike, or one of which stays. */
static bool
find_period(const Slice *s, const Op *op, int64_t *period)
{
	int64_t a = s->period[op->in[0]->id], b = s->period[op->in[1]->id];

	*period = MAX(a, b);
	return a == 0 || b == 0 || a == b;
}

/* The step of an integer made of others whose steps are known; false: it grows otherwise. */
static bool
find_step(const Slice *s, const Op *op, int64_t *step)
{
	const int64_t *at = s->step;
	int64_t by;

	switch (op->kind) {
	case OP_ADD:
		*step = at[op->in[0]->id] + at[op->in[1]->id];
		return true;
	case OP_SUB:
		*step = at[op->in[0]->id] - at[op->in[1]->id];
		return true;
	case OP_MUL:
		for (int i = 0; i < 2; i++)
			if (value_int(op->in[i], &by))
				return !__builtin_mul_overflow(by, at[op->in[1 - i]->id], step);
		return false;
	default:
		return false;
	}
}

/* A size of a tensor, or a part of one: none is below 0. */
static bool
is_size(const Value *v)
{
	const Op *op = v->def;
	int64_t n;

	if (value_int(v, &n))
		return n >= 0;
	if (op && (op->kind == OP_DIV || op->kind == OP_CDIV))
		return value_int(op->in[1], &n) && n > 0 && is_size(op->in[0]);
	const Func *f = v->block->func;
	return op ? op->kind == OP_DIM : v->block == f->body && f->param[v->index].kind == PARAM_DIM;
}

/* %k / 128 where %k begins at a multiple of 128 and grows by one, or by 32: then four iterations have the same.  Where it
 * grows by 128, so does (%k + %n / 2) / 128, wherever it begins: the second half of K. */
static bool
find_quotient(const Slice *s, const Op *op, int64_t *step, int64_t *period)
{
	int64_t by, first, grows;
	const Op *sum = op->in[0]->def;

	if (op->kind != OP_DIV || !value_int(op->in[1], &by) || by <= 0 || !value_int(s->loop->in[0], &first) || first < 0)
		return false;
	if (sum && sum->kind == OP_ADD && sum->in[0] == &s->body->arg[0] && is_size(sum->in[1])) {
		grows = s->step[sum->in[0]->id];
		*step = grows / by;
		*period = 1;
		return grows % by == 0;
	}
	if (op->in[0] != &s->body->arg[0])
		return false;
	grows = s->step[op->in[0]->id];
	*step = MAX(grows / by, 1);
	*period = MAX(by / grows, 1);
	return first % by == 0 && *step * by == *period * grows && is_power_of_two(*period);
}

int
slice_dim(const Slice *s, const Op *read)
{
	return FIRST_OF(i, read->in[0]->type->rank, varies(s, read->in[1 + i]));
}

int64_t
slice_period(const Slice *s, const Op *read)
{
	int d = slice_dim(s, read);
	return d < 0 ? 1 : MAX(s->period[read->in[1 + d]->id], 1);
}

int
slice_own_dim(const Slice *s, const Op *read)
{
	return FIRST_OF(i, read->in[0]->type->rank, s->own[read->in[1 + i]->id]);
}

/* At an index that each iteration has for itself, as a page's number, nothing else varies. */
static const char *
own_reason(const Slice *s, const Op *op, int d)
{
	if (attr_index(op)[d] != 'i' || op->out[0].type->rank + 2 > KERNEL_RANK)
		return "it reads rows from a place that each iteration computes";
	if (ANY_OF(i, op->in[0]->type->rank, i != d && varies(s, op->in[1 + i])))
		return "an iteration reads by several indices of its own";
	return NULL;
}

bool
slice_has_gaps(const Slice *s, const Op *read)
{
	int d = slice_dim(s, read), last = read->in[0]->type->rank - 1;
	const IntList *extents = attr_extents(read);
	return d == last && attr_index(read)[d] == 'p' && s->step[read->in[1 + d]->id] > extents->at[extents->n - 1];
}

/* It goes on where it ended, along one dimension, as far as one iteration goes, or reads some of each; or has an index for
 * itself. */
static const char *
read_reason(const Slice *s, const Op *op)
{
	const char *index = attr_index(op);
	int along = slice_dim(s, op), rank = op->in[0]->type->rank, e = 0;

	if (strspn(index, "g") < (size_t)rank && strchr(index, 'g'))
		return "it reaches elements through tiles of indices";
	if (op->nin > 1 + rank && (op->in[1 + rank]->type->rank > 0 || varies(s, op->in[1 + rank])))
		return "what it reads outside of a tensor is a tile, or changes";
	if (index[0] == 'g')                            /* single elements, as of a table of scales */
		return NULL;
	if (slice_own_dim(s, op) >= 0)
		return own_reason(s, op, slice_own_dim(s, op));
	if (slice_period(s, op) > 1 && op->out[0].type->rank + 2 > KERNEL_RANK)
		return "its tiles have no dimension to spare";
	for (int i = 0; i < rank; i++) {
		int64_t extent = index[i] == 'p' ? attr_extents(op)->at[e++] : 1;
		if (!varies(s, op->in[1 + i]))
			continue;
		if (slice_has_gaps(s, op) && slice_period(s, op) == 1 && rank + 2 <= KERNEL_RANK)
			continue;
		if (i != along || s->step[op->in[1 + i]->id] != extent)
			return "an iteration does not read on where the one before ended";
		if (!is_power_of_two(extent))
			return "an iteration reads no power of two";
	}
	return NULL;
}

/* Does it reduce no more than a product's smaller operand, as few rows are beside their weights? */
static bool
sums_few(const Slice *s, const Op *reduce)
{
	int64_t n = type_count(reduce->in[0]->type);
	return ANY_OP_HERE(op, s->body, op->kind == OP_DOT && n <= type_count(op->in[0]->type) &&
	    n <= type_count(op->in[1]->type));
}

static const char *
tile_reason(const Slice *s, const Op *op)
{
	int rank = op->out[0].type->rank;

	if (rank + 1 > KERNEL_RANK || (op->nin && op->in[0]->type->rank + 1 > KERNEL_RANK))
		return "its tiles have no dimension to spare";
	switch (op->kind) {
	case OP_READ: return read_reason(s, op);
	case OP_RESHAPE: case OP_PERMUTE: case OP_DOT: case OP_JOIN: case OP_SPLIT: return NULL;
	case OP_GATHER: return gather_looks_up(op) ? NULL : "it gathers from rows that are no small tables";
	case OP_REDUCE: return s->merge || sums_few(s, op) ? NULL : "it reduces more than products do";
	case OP_EXTRACT:
		return ANY_OF(i, op->nin - 1, varies(s, op->in[1 + i])) ? "it takes parts of tiles that change" : NULL;
	case OP_BROADCAST: return s->period[op->in[0]->id] > 1 ? "several of its iterations compute with one number" : NULL;
	default: return op_has(op, ELEM) ? NULL : "it does more in an iteration than read, compute and multiply";
	}
}

/* A number of the slice's own that is no index: read, as one scale of a block of weights, or computed of such. */
static const char *
scalar_reason(const Slice *s, const Op *op)
{
	if (op->kind == OP_READ)
		return slice_period(s, op) > 1 ? "several of its iterations read one number" : read_reason(s, op);
	if (!op_has(op, ELEM) && !(op->kind == OP_REDUCE && s->merge))
		return "it does more in an iteration than read, compute and multiply";
	if (ANY_OF(i, op->nin, varies(s, op->in[i]) && is_number(op->in[i])))
		return "its iterations compute with their indices";
	return NULL;
}

/* Does it compute with what each slice has for itself? */
static bool
takes_own(const Slice *s, const Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		const Value *v = op->in[i];
		if (s->own[v->id] || (varies(s, v) && v->type->kind == TYPE_TILE && v->type->rank == 0 && !is_number(v)))
			return true;
	}
	return false;
}

/* An index that is read, or computed of such: a tile [n] of the slices'. */
static const char *
own_number_reason(Slice *s, const Op *op)
{
	if (!s->merge)                                  /* of products with weights that is not measured */
		return "its iterations compute numbers that do not grow evenly";
	if (op->kind == OP_READ ? slice_period(s, op) > 1 : !op_has(op, ELEM) || !takes_own(s, op))
		return "its iterations compute numbers that do not grow evenly";
	if (ANY_OF(i, op->nin, s->period[op->in[i]->id] > 1))
		return "several of its iterations compute with one number";
	s->own[op->out[0].id] = true;
	return op->kind == OP_READ ? read_reason(s, op) : NULL;
}

static const char *
op_reason(Slice *s, const Op *op)
{
	bool any = op_uses_slice(op, s->varies);

	if (op->nregion || op_has(op, WRITES | EFFECT) || (op->nout != 1 && op->kind != OP_SPLIT))
		return op->kind == OP_YIELD ? NULL : "an iteration has branches, loops, writes or effects";
	op_extend_slice(op, s->varies, any);
	if (!any)
		return op_has(op, PURE | READS) ? NULL : "an iteration has effects";
	if (value_is_tile(&op->out[0]))
		return tile_reason(s, op);
	if (op->out[0].type->kind == TYPE_TILE && !is_number(&op->out[0]))
		return scalar_reason(s, op);
	int64_t *step = &s->step[op->out[0].id], *period = &s->period[op->out[0].id];
	if (is_number(&op->out[0]) && find_quotient(s, op, step, period))
		return NULL;
	if (!is_number(&op->out[0]))
		return "its iterations compute numbers that do not grow evenly";
	if (op->kind != OP_READ && !takes_own(s, op) && find_step(s, op, step) && find_period(s, op, period))
		return NULL;
	return own_number_reason(s, op);
}

/* Warps read slots of their own, which only asynchronous copies fill, as their matrix instructions have them. */
static const char *
dot_reason(const Op *op, const Target *t)
{
	if (op->kind != OP_DOT)
		return NULL;
	return op->out[0].type->rank == 2 && dot_mma(op, t) ? NULL : "its products are no matrix instruction's";
}

const char *
slice_reason(Slice *s, const Target *t)
{
	int64_t step;
	bool multiplies = false;

	if (!(t->has & HAS_CP_ASYNC))
		return "the target has no asynchronous copies";
	const char *why = s->merge ? slice_merge_reason(s) : NULL;
	if (why)
		return why;
	for (int i = 0; i < s->loop->nout && !s->merge; i++)
		if (split_fold(s->loop, i) != OP_ADD)
			return "it carries more than sums";
	if (s->loop->nout == 0 || !value_int(s->loop->in[2], &step) || step <= 0)
		return "it has no constant step";
	for (int i = 0; i < s->body->narg; i++)
		s->varies[s->body->arg[i].id] = true;
	s->step[s->body->arg[0].id] = step;
	s->period[s->body->arg[0].id] = 1;
	for (const Op *op = s->body->first; op; op = op->next) {
		why = op_reason(s, op);
		why = why ? why : dot_reason(op, t);
		if (why)
			return why;
		multiplies |= op->kind == OP_DOT;
	}
	return multiplies ? NULL : "it multiplies no matrices";
}

/* ---- what pays ---- */

/* Bytes of a slot that one iteration fills. */
static int64_t
slot_bytes(const Slice *s)
{
	int64_t n = 0;

	for (const Op *op = s->body->first; op; op = op->next)
		if (op->kind == OP_READ && varies(s, &op->out[0]))
			n += dtype_bytes(op->out[0].type->elem, type_count(op->out[0].type));
	return n;
}

bool
slice_takes(const Type *sum, const Target *t)
{
	int64_t rows = sum->extent[sum->rank - 2], columns = sum->extent[sum->rank - 1];

	return rows != columns && MIN(rows, columns) <= FEW_ROWS && rows * columns <= (int64_t)SUMS_MOST * t->lanes;
}

static bool
is_carried(const Block *body, const Type *t)
{
	return ANY_FROM(i, 1, body->narg, type_same_shape(body->arg[i].type, t));
}

/* Scores and what they weigh, of up to 16 rows of queries, which a warp's threads have at once; of 8 rows and fewer what is
 * carried is transposed (pass dot).  By ptxas such loops of bf16 take 167 registers with 64 keys and heads of 128, 255 with
 * 32 keys and heads of 256. */
bool
slice_takes_all(const Block *body, const Target *t)
{
	enum { ROWS = 16, HALF = 8, EACH = 80 };
	int64_t all = 0;

	for (const Op *op = body->first; op; op = op->next) {
		if (op->kind != OP_DOT)
			continue;
		const int64_t *side = op->out[0].type->extent + op->out[0].type->rank - 2;
		int64_t few = MIN(side[0], side[1]), many = MAX(side[0], side[1]);
		if (few > ROWS)
			return false;
		all += MAX(few, is_carried(body, op->out[0].type) ? HALF : ROWS) * many;
	}
	return all <= (int64_t)EACH * t->lanes;
}

static bool
is_few(const Slice *s, const Target *t)
{
	if (s->merge)
		return slice_takes_all(s->body, t);
	return !ANY_OP_HERE(op, s->body, op->kind == OP_DOT && !slice_takes(op->out[0].type, t));
}

/* An iteration's part of a row is a sector of memory at least, if rows run along what moves; not of a group's scales, which
 * are few beside what they scale. */
static bool
reads_sectors(const Slice *s)
{
	enum { FEW = 8 };
	int64_t all = slot_bytes(s);

	for (const Op *op = s->body->first; op; op = op->next) {
		const Type *c = op->kind == OP_READ && varies(s, &op->out[0]) ? op->out[0].type : NULL;
		bool counts = c && c->rank == 2 && FEW * dtype_bytes(c->elem, type_count(c)) > all;
		if (counts && slice_dim(s, op) == op->in[0]->type->rank - 1 &&
		    attr_index(op)[slice_dim(s, op)] == 'p' && dtype_bytes(c->elem, c->extent[1]) < ROW_BYTES)
			return false;
	}
	return true;
}

/* The warps whose rings of so many slots shared memory has room for, as asked or up to 8; 1: too few.  Two do for states
 * that are no sums: what is done with scores is more than unpacking. */
static int
count_for(const Slice *s, const Target *t, int64_t slots)
{
	int asked = s->f->schedule.warps, n = asked ? asked : WARPS, least = s->merge ? 2 : WARPS_LEAST;
	int64_t each = slots * slot_bytes(s);

	while (!asked && n > least && n * each > t->shared_bytes)
		n /= 2;
	return n < least || n > WARPS || n * each > t->shared_bytes ? 1 : n;
}

bool
slice_fits(const Slice *s, int n)
{
	return !ANY_OP_HERE(op, s->body,
	    op->kind == OP_READ && n % slice_period(s, op) != 0 && slice_period(s, op) % n != 0);
}

/* By the larger operand, the weights.  A trip costs a warp about as much as 1 KB of them: of groups of 32 elements of 4
 * bits, 512 bytes for 32 columns, four make as much as one of 128.  Copies take the L1 cache a cycle for each line that a
 * warp touches, so that two groups of 64 bytes, whose scales are neighbours too, take half of it: 1 x 8192 x 8192 in int4
 * 11.3 us on an H200, 12.3 by one, nf4 21.0 and 25.2; not where x is more than the weights (16 rows 15.6 and 14.6). */
int
slice_each(const Slice *s, const Target *t, int n)
{
	enum { ENOUGH = 2048, MOST = 8, LINE = 128, ELEMENTS = 8192 };
	int64_t most = 0, elements = 0, row = LINE, all = slot_bytes(s), products = 0;
	int each = 1, stages = s->f->schedule.stages ? s->f->schedule.stages : SLOTS;

	for (const Op *op = s->body->first; op; op = op->next) {
		bool counts = op->kind == OP_READ && varies(s, &op->out[0]);
		if (counts && (slice_period(s, op) > 1 || slice_dim(s, op) < 0 || op->out[0].type->rank + 3 > KERNEL_RANK))
			return 1;
		int64_t count = counts ? type_count(op->out[0].type) : 0;
		if (count <= elements)
			continue;
		elements = count;
		most = dtype_bytes(op->out[0].type->elem, count);
		const Type *tile = op->out[0].type;
		row = slice_dim(s, op) == tile->rank - 1 ? dtype_bytes(tile->elem, tile->extent[tile->rank - 1]) : LINE;
	}
	for (const Op *op = s->body->first; op; op = op->next)
		if (op->kind == OP_DOT)
			products += MAX(type_count(op->in[0]->type), type_count(op->in[1]->type));
	int64_t lines = all <= 2 * most + most / 4 ? MIN(LINE / row, ELEMENTS / MAX(products, 1)) : 0;
	while (each < MOST && (2 * each * most <= ENOUGH || 2 * each <= lines) &&
	    2 * each * SUM_OF(int64_t, i, s->loop->nout, type_count(s->loop->out[i].type)) <=
		(int64_t)SUMS_MOST * t->lanes &&
	    2 * each * n * stages * slot_bytes(s) <= t->shared_bytes)
		each *= 2;
	return each;
}

int
slice_count(const Slice *s, const Target *t)
{
	int stages = s->f->schedule.stages;

	if (stages == 1 || s->f->schedule.specialize == 1 || !is_few(s, t) || !reads_sectors(s))
		return 1;
	int n = count_for(s, t, stages ? stages : SLOTS);
	n = n > 1 || stages ? n : count_for(s, t, SLOTS_LEAST);
	return slice_fits(s, n) ? n : 1;
}
