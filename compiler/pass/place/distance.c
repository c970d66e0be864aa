/* Which elements two accesses touch in different iterations of a loop, and in one.
 *
 *     for %lo, %hi, %64 do (%k: i64) {
 *         %a = read %x, %k {extents = [64]}              64 further with each iteration: no element again
 *         %n = add %k, %128
 *         %b = read %x, %n {extents = [64]}              in one iteration 128 away from the first: disjoint
 *         write %y, %k {extents = [64]}                  of an unrolled loop: 64 after the last iteration's second write,
 *         write %y, (add %k, 64) {extents = [64]}        where the loop's step is 128
 *     }
 *
 * An index that is a sum or a product of constants and of the loop's index moves by a known iteration distance, and so does
 * a tile of indices that adds numbers of a range to one: `l + arange(0, 64)[:, new]` does not meet `l + 64 + …`.  Where
 * that is not known two accesses may touch the same elements. */
#include "pass/layout/axis.h"
#include "pass/place/hazard.h"

#include <string.h>

/* How much v changes with each iteration of the loop whose body is b; false if that is not known. */
static bool
iteration_distance(const Value *v, const Block *b, int64_t *d)
{
	const Op *def = v->def, *loop = b->parent;
	int64_t x, y;

	*d = 0;
	if (!value_inside(v, b))
		return true;
	if (v == &b->arg[0] && loop->kind == OP_FOR)
		return value_int(loop->in[2], d) && *d != 0;
	if (!def || def->home->func != b->func)
		return false;
	switch (def->kind) {
	case OP_BROADCAST: case OP_CONVERT: case OP_RESHAPE:
		return iteration_distance(def->in[0], b, d);
	case OP_ADD: case OP_SUB: case OP_PTR_ADD:
		if (!iteration_distance(def->in[0], b, &x) || !iteration_distance(def->in[1], b, &y))
			return false;
		return !__builtin_add_overflow(x, def->kind == OP_SUB ? -y : y, d);
	case OP_MUL:
		if (ANY_OF(i, 2, value_int(def->in[i], &y) && iteration_distance(def->in[1 - i], b, &x)))
			return !__builtin_mul_overflow(x, y, d);
		return false;
	default:
		return false;
	}
}

/* How far apart elements of one tile of integers or pointers may be; false if that is not known. */
static bool
tile_span(const Value *v, int64_t *n)
{
	const Op *def = v->def;
	int64_t x, y;

	*n = 0;
	if (v->type->rank == 0)
		return true;
	switch (def ? def->kind : OP_YIELD) {
	case OP_CONST:
		return true;
	case OP_BROADCAST: case OP_CONVERT: case OP_RESHAPE:
		return tile_span(def->in[0], n);
	case OP_ADD: case OP_PTR_ADD:
		return tile_span(def->in[0], &x) && tile_span(def->in[1], &y) && !__builtin_add_overflow(x, y, n);
	case OP_MUL:
		if (ANY_OF(i, 2, value_int(def->in[i], &y) && y >= 0 && tile_span(def->in[1 - i], &x)))
			return !__builtin_mul_overflow(x, y, n);
		return false;
	default:
		return !__builtin_sub_overflow(axis_of(v)->hi, axis_of(v)->lo, n);
	}
}

static bool
exceeds(int64_t distance, int64_t extent)
{
	return distance >= extent || distance <= -extent;
}

bool
iterations_disjoint(const Op *a, const Block *b)
{
	const char *index = attr_index(a);
	const IntList *extents = attr_extents(a);
	int64_t d, span;
	int e = 0;

	if (!access_is_tensor(a))
		return iteration_distance(a->in[0], b, &d) && tile_span(a->in[0], &span) && d != 0 && exceeds(d, span + 1);
	for (int i = 0; i < a->in[0]->type->rank; i++) {
		int64_t extent = index[i] == 'p' ? extents->at[e++] : 1;
		if (index[i] == 'g' && (!tile_span(a->in[1 + i], &span) || __builtin_add_overflow(span, 1, &extent)))
			continue;
		if (iteration_distance(a->in[1 + i], b, &d) && d != 0 && exceeds(d, extent))
			return true;
	}
	return false;
}

/* v is `base` (NULL: none) and a constant. */
static const Value *
base_of(const Value *v, int64_t *constant)
{
	int64_t more;

	*constant = 0;
	while (v->def && v->type->rank == 0) {
		const Op *def = v->def;
		if (value_int(v, &more))
			return __builtin_add_overflow(*constant, more, constant) ? v : NULL;
		if ((def->kind != OP_ADD && def->kind != OP_SUB) || v->type->elem != TY_I64)
			return v;
		int k = def->kind == OP_ADD && !value_const(def->in[1]) ? 1 : 0;
		if (!value_int(def->in[1 - k], &more))
			return v;
		if (def->kind == OP_SUB ? __builtin_sub_overflow(*constant, more, &more)
		                        : __builtin_add_overflow(*constant, more, &more))
			return v;
		*constant = more;
		v = def->in[k];
	}
	return v;
}

static bool
is_one(const Value *v)
{
	while (v->def && v->type->rank > 0 &&
	    (v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE || v->def->kind == OP_CONVERT))
		v = v->def->in[0];
	return v->type->rank == 0;
}

/* A tile of indices as a number for all of them and *lo to *hi more; NULL: it is none. */
static const Value *
spread_of(const Value *v, int64_t *lo, int64_t *hi)
{
	*lo = *hi = 0;
	while (v->def && v->type->rank > 0) {
		const Op *def = v->def;
		if (def->kind == OP_BROADCAST || def->kind == OP_RESHAPE || def->kind == OP_CONVERT) {
			v = def->in[0];
			continue;
		}
		bool is_sum = def->kind == OP_ADD && v->type->elem == TY_I64;
		int k = is_sum && is_one(def->in[1]) ? 1 : 0;
		if (!is_sum || !is_one(def->in[k]))
			return NULL;
		const AxisInfo *rest = axis_of(def->in[1 - k]);
		if (__builtin_add_overflow(*lo, rest->lo, lo) || __builtin_add_overflow(*hi, rest->hi, hi))
			return NULL;
		v = def->in[k];
	}
	return v->type->rank == 0 ? v : NULL;
}

/* Elements along the e-th range that are in memory; behind gathers, {valid} counts dimensions otherwise. */
static int64_t
moved_extent(const Op *op, int e)
{
	const IntList *valid = strchr(attr_index(op), 'g') ? NULL : attr_valid(op);

	return (valid ? valid : attr_extents(op))->at[e];
}

/* Elements x + sa .. of an iteration, and x + sb .. of a later one, where x moves with each iteration: the nearest are
 * those of the next iteration.  Unrolled copies of one access start so. */
static bool
later_disjoint(const Value *x, const Block *loop, int64_t sa, int64_t na, int64_t sb, int64_t nb)
{
	int64_t d, gap;

	if (!iteration_distance(x, loop, &d) || d == 0 || __builtin_sub_overflow(sb, sa, &gap) ||
	    __builtin_add_overflow(gap, d, &gap))
		return false;
	return d > 0 ? gap >= na : gap <= -nb;
}

/* Where an access of *n elements begins: a value (NULL: none) and a constant.  Of a tile of indices *n becomes how many
 * places they may be from the least on; -1: not known. */
static const Value *
start_of(const Value *v, int64_t *constant, int64_t *n)
{
	int64_t lo, hi;
	const Value *one = spread_of(v, &lo, &hi), *base = one ? base_of(one, constant) : NULL;
	if (!one || __builtin_add_overflow(*constant, lo, constant) || __builtin_sub_overflow(hi, lo, &hi) ||
	    __builtin_add_overflow(*n, hi, n))
		*n = -1;
	return base;
}

bool
starts_disjoint(const Effect *before, const Effect *after)
{
	const Op *a = before->op, *b = after->op;
	int ea = 0, eb = 0;

	if (!access_is_tensor(a) || !access_is_tensor(b))
		return false;
	for (int i = 0; i < a->in[0]->type->rank; i++) {
		int64_t na = attr_index(a)[i] == 'p' ? moved_extent(a, ea++) : 1, sa, sb;
		int64_t nb = attr_index(b)[i] == 'p' ? moved_extent(b, eb++) : 1;
		const Value *x = start_of(a->in[1 + i], &sa, &na), *y = start_of(b->in[1 + i], &sb, &nb);
		if (x != y || na < 0 || nb < 0)
			continue;
		if (x && before->is_carried && value_inside(x, before->loop)) {
			if (later_disjoint(x, before->loop, sa, na, sb, nb))
				return true;
			continue;
		}
		uint64_t apart = sa >= sb ? (uint64_t)sa - (uint64_t)sb : (uint64_t)sb - (uint64_t)sa;
		if (apart >= (uint64_t)(sa >= sb ? nb : na))
			return true;
	}
	return false;
}
