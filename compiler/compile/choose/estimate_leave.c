/* Programs of uneven length: those that leave early, and loops as long as data says.
 *
 *     grid(pm: cdiv(A, 128), pn: cdiv(N, 256), e: E)         64 x 16 x 64 programs
 *     if first[e] + pm * 128 >= first[e + 1] { return; }
 *     …
 *     y[where(row < end, row, -1), pn * 256 +: 256] = …      y: out f16[A, N]
 *
 * How many of them stay follows from what they write: no element is written twice, so that there are no more than the
 * output has tiles, 64 x 16 here.  Where one axis counts tiles of groups of which the others say the number (e), groups
 * count as of evenly distributed sizes, from 0 rows to twice the mean: each has half a tile more than it has rows for, and
 * not less than one if it has a row.  What programs add by atomics says nothing; groups of rows that lie one behind the
 * other have no more tiles than that axis has.  Of a square's half, by an order of two axes, the number is known. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "pass/async/pipeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEP = 24 };
static const double GUESS = 0.5, PART = 0.5;            /* of programs, if nothing is known; of a group's last tile */

static bool
has_dot(const Block *b)
{
	return block_find(b, OP_DOT) || block_find(b, OP_DOT_START);
}

/* A branch that nothing follows but a yield, of which one side multiplies: what is behind an early return. */
static const Op *
exit_of(const Block *b)
{
	const Op *last = b->last && b->last->kind == OP_YIELD ? b->last->prev : b->last;
	return last && last->kind == OP_IF && has_dot(last->region[0]) != has_dot(last->region[1]) ? last : NULL;
}

/* What a scalar follows from: data, and by which axes' programs. */
typedef struct Sources {
	bool reads;
	unsigned axes, tiles;                           /* tiles: those that are multiplied, as by a tile's rows … */
	int64_t rows;                                   /* … the number by which */
} Sources;

static void
find_sources(const Value *v, int64_t factor, int depth, Sources *s)
{
	const Op *op = v->def;
	int64_t by;
	if (!op || depth == DEEP || op->nregion)
		return;
	s->reads |= op_has(op, READS);
	if (op->kind == OP_PROGRAM_ID) {
		s->axes |= 1u << attr_axis(op);
		s->tiles |= factor > 1 ? 1u << attr_axis(op) : 0;
		s->rows = factor > 1 ? factor : s->rows;
	}
	for (int i = 0; i < op->nin; i++) {
		bool grows = op->kind == OP_MUL && value_int(op->in[1 - i], &by) && by > 1;
		if (op->in[i]->type->kind != TYPE_TENSOR)
			find_sources(op->in[i], grows ? by : factor, depth + 1, s);
	}
}

/* Tiles that the region's writes leave room for; below 0: it is not known. */
static double
tiles_written(const Bound *b, const Block *region)
{
	double least = -1;
	for (const Op *op = region->first; op; op = op_after(op, region)) {
		const Value *tensor = op->kind == OP_WRITE ? op->in[0] : NULL;
		if (!tensor || tensor->def || tensor->block->parent || tensor->index >= b->kernel->params.n)
			continue;
		const BoundParam *p = &b->param[tensor->index];
		double n = 1;
		for (int d = 0; d < p->rank; d++)
			n *= (double)p->dim[d];
		n /= (double)MAX(type_count(op->in[access_data(op)]->type), 1);
		least = least < 0 ? n : MIN(least, n);
	}
	return least;
}

/* In the mean, of groups that have as many in rows alone. */
static double
tiles_of_group(double tiles, double rows)
{
	return MIN(tiles * rows, 1) * MAX(tiles + PART, 1);
}

double
estimate_half(const Func *f, const Bound *b)
{
	const Op *leave = exit_of(f->body), *order = leave ? leave->in[0]->def : NULL;
	bool stays_if = leave && has_dot(leave->region[0]);
	bool is_strict = order && (order->kind == OP_LT || order->kind == OP_GT);
	int axis[2];
	if (!order || (!is_strict && order->kind != OP_LE && order->kind != OP_GE))
		return 0;
	for (int i = 0; i < 2; i++) {
		const Op *id = order->in[i]->def;
		if (!id || id->kind != OP_PROGRAM_ID)
			return 0;
		axis[i] = (int)attr_axis(id);
	}
	double n = (double)b->grid[axis[0]];
	bool is_square = axis[0] != axis[1] && b->grid[axis[1]] == b->grid[axis[0]] && n > 0;
	return is_square ? (n + (is_strict == stays_if ? -1 : 1)) / (2 * n) : 0;
}

double
estimate_acting(const Func *f, const Bound *b, double *planes)
{
	const Op *leave = exit_of(f->body);
	double programs = choose_programs(b);
	Sources s = {0};
	*planes = 0;
	if (!leave)
		return 1;
	double half = estimate_half(f, b);
	const FollowedAt *at = estimate_followed(b, leave);
	if (half > 0)
		return half;
	if (at)
		return MAX(has_dot(leave->region[1]) ? 1 - at->went / at->came : at->went / at->came, 1 / MAX(programs, 1));
	find_sources(leave->in[0], 1, 0, &s);
	double tiles = tiles_written(b, leave->region[has_dot(leave->region[1])]);
	bool is_grouped = __builtin_popcount(s.tiles) == 1 && s.axes != s.tiles;
	if (is_grouped)
		*planes = choose_programs_along(b, s.axes & ~s.tiles);
	if (tiles < 0 && is_grouped)
		tiles = programs / *planes;
	if (tiles < 0 || !is_grouped)
		return tiles < 0 ? GUESS : MIN(tiles / programs, GUESS);
	double groups = programs / (double)MAX(b->grid[__builtin_ctz(s.tiles)], 1);
	return MIN(MAX(groups * tiles_of_group(tiles / groups, (double)s.rows), 1) / programs, 1);
}

double
estimate_unwritten(const Func *f, const Bound *b, double acting)
{
	const Op *leave = acting < 1 ? exit_of(f->body) : NULL;
	const Block *stays = leave ? leave->region[has_dot(leave->region[1])] : NULL;
	double programs = acting * choose_programs(b), bytes = 0;
	for (const Op *op = stays ? stays->first : NULL; op; op = op_after(op, stays)) {
		const Value *tensor = op->kind == OP_WRITE ? op->in[0] : NULL;
		if (!tensor || tensor->def || tensor->block->parent || tensor->index >= b->kernel->params.n)
			continue;
		const BoundParam *p = &b->param[tensor->index];
		double all = dtype_info[p->dtype].bits / 8.0, written = (double)tile_bytes(op->in[access_data(op)]->type);
		for (int d = 0; d < p->rank; d++)
			all *= (double)p->dim[d];
		bytes += MAX(all - programs * written, 0);
	}
	return bytes;
}

bool
choose_leaves(const Func *f)
{
	return exit_of(f->body) != NULL;
}

bool
choose_dynamic(const Func *f)
{
	bool uneven = choose_leaves(f);
	for (const Op *op = f->body->first; op && !uneven; op = op_after(op, f->body)) {
		Sources s = {0};
		for (int i = 0; i < 3 && op->kind == OP_FOR && has_dot(op->region[0]); i++)
			find_sources(op->in[i], 1, 0, &s);
		uneven = s.reads;
	}
	return uneven;
}

/* ---- branches ---- */

static bool
holds(OpKind kind, double a, double b)
{
	switch (kind) {
	case OP_EQ: return a == b;
	case OP_NE: return a != b;
	case OP_LT: return a < b;
	case OP_LE: return a <= b;
	case OP_GT: return a > b;
	default: return a >= b;
	}
}

/* A scalar in such a program and trip; NAN: not known.  A float that the launch is given counts as 1: the compiler
 * compares factors with 2^-100 and 2^100. */
static double
number(const Func *f, const Bound *b, const Value *v, double program, double trip)
{
	const Attr *value = v->def && v->def->kind == OP_CONST ? attr_value(v->def) : NULL;
	if (value && value->kind == KIND_FLOAT)
		return value->f;
	if (!v->def && v->block == f->body && dtype_is_float(v->type->elem))
		return 1;
	int64_t n = estimate_at(f, b, v, program, trip);
	return n == INT64_MIN ? (double)NAN : (double)n;
}

/* 1 or 0; below 0: not known. */
static int
truth(const Func *f, const Bound *b, const Value *v, double program, double trip, int depth)
{
	static const OpKind compares[] = {OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE};
	const Op *op = v->def;
	int64_t n;
	int x[2];
	if (value_int(v, &n))
		return n != 0;
	if (!op || depth == 0 || op->nin > 2)
		return -1;
	if (ANY_OF(i, LEN(compares), op->kind == compares[i])) {
		double l = number(f, b, op->in[0], program, trip), r = number(f, b, op->in[1], program, trip);
		return isnan(l) || isnan(r) ? -1 : holds(op->kind, l, r);
	}
	if (op->kind != OP_NOT && op->kind != OP_AND && op->kind != OP_OR)
		return -1;
	for (int i = 0; i < op->nin; i++)
		x[i] = truth(f, b, op->in[i], program, trip, depth - 1);
	if (op->kind == OP_NOT)
		return x[0] < 0 ? -1 : !x[0];
	int decides = op->kind == OP_OR;                /* one of them alone */
	return x[0] == decides || x[1] == decides ? decides : x[0] < 0 || x[1] < 0 ? -1 : !decides;
}

double
estimate_taken(const Func *f, const Bound *b, const Op *branch)
{
	enum { PLACES = 16, TRIPS = 64, NESTED = 8 };
	static const double GOLDEN = 0.6180339887;
	double taken = 0;
	const FollowedAt *at = estimate_followed(b, branch);
	for (int i = 0; i < PLACES * TRIPS; i++) {
		double program = fmod((i / TRIPS + 0.5) * GOLDEN, 1), trip = (i % TRIPS + 0.5) / TRIPS;
		int is = truth(f, b, branch->in[0], program, trip, NESTED);
		if (is < 0)
			return at ? at->went / at->came : -1;
		taken += (double)is / (PLACES * TRIPS);
	}
	return taken;
}

/* ---- what data decides ---- */

enum { DEPTH = 14 };

const FollowedAt *
estimate_followed(const Bound *b, const Op *op)
{
	const Followed *all = b->followed;
	int i = !all ? -1 : FIRST_OF(k, all->at.n, all->at.at[k].is_loop == op_is_loop(op) &&
	    place_compare(&all->at.at[k].place, &op->place) == 0);
	return i >= 0 && all->at.at[i].came > 0 ? &all->at.at[i] : NULL;
}

static bool
is_data(const Op *loop)
{
	return loop->kind != OP_FOR || estimate_is_data(loop->in[0], DEPTH) || estimate_is_data(loop->in[1], DEPTH);
}

/* Of a loop that data ends, as programs of an example had them; below 0: not known. */
double
estimate_followed_trips(const Bound *b, const Op *loop)
{
	int64_t step = 1, n = loop->kind == OP_FOR ? attr_unrolled(loop) : 0;
	const FollowedAt *at = is_data(loop) ? estimate_followed(b, loop) : NULL;
	if (!at || (loop->kind == OP_FOR && (!value_int(loop->in[2], &step) || step == 0)))
		return -1;
	return n < 0 ? (-n - 1) / 2.0 : at->went / at->came / (double)llabs(step);
}

/* A loop that each program comes to once, and one has many more trips of than the mean: of entropies of ragged rows, 2.3
 * trips in the mean and 9 in the longest of 64, an H200 takes 45.7 us for 27.6. */
static bool
is_uneven(const FollowedAt *at, const Followed *all)
{
	static const double MUCH = 2;
	return at->went > 0 && at->came == (double)all->programs && at->most > MUCH * at->went / at->came;
}

static void
put_loops(const Func *f, const Bound *b, Text *out)
{
	const Op *roles = func_find(f, OP_ROLES);
	int said = 0, grid = roles ? roles->place.line : 0;     /* whose loops are over programs */
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_loop = op_is_loop(op) && !op_is_over_programs(op) && op->place.line != grid &&
		    (op->kind != OP_FOR || attr_unrolled(op) >= 0);
		bool is_guess = is_loop && estimate_is_guess(f, b, op);
		bool open = is_guess || (is_loop && is_data(op));
		if (!open || op->place.line <= said)
			continue;
		said = op->place.line;
		double n = estimate_trips(f, b, op) * (op->kind == OP_FOR ? (double)MAX(attr_unrolled(op), 1) : 1);
		for (const Op *rest = n == 0 ? op_after(op, f->body) : NULL; rest; rest = op_after(rest, f->body))
			if (rest->kind == OP_FOR && rest->place.line == said && attr_unrolled(rest) < 0)
				n += estimate_trips(f, b, rest);        /* the trips that unrolling leaves */
		text_printf(out, "  line %d's loop runs as often as data says: ", said);
		const FollowedAt *at = estimate_followed(b, op);
		if (at)
			text_printf(out, "%.4g trip%s in the mean of %" PRId64 " of %" PRId64 " programs of the example",
			    n, n == 1 ? "" : "s", b->followed->programs, b->followed->of);
		if (at && is_uneven(at, b->followed))
			text_printf(out, ", %.4g in the longest: the estimate takes all for as long as the mean",
			    n * at->most * at->came / at->went);
		if (at)
			text_put(out, "\n");
		else
			text_printf(out, "the model %s %.4g trip%s of a program\n", is_guess ? "guesses" : "counts", n,
			    n == 1 ? "" : "s");
	}
}

bool
estimate_asks_data(const Func *f, const Bound *b, const Op *op)
{
	Bound plain = *b;
	plain.followed = NULL;
	if (op->kind == OP_IF)
		return estimate_taken(f, &plain, op) < 0;
	return op_is_loop(op) && !op_is_over_programs(op) && is_data(op);
}

/* Not one that a pass has put around what only computes, as where masks are true in all trips but the last. */
static bool
is_said(const Func *f, const Bound *b, const Op *op)
{
	const Block *first = op->region[0], *second = op->region[1];
	bool accesses = ANY_OP(in, first, op_is_access(in) || op_is_loop(in)) ||
	    ANY_OP(in, second, op_is_access(in) || op_is_loop(in));
	return (b->followed ? estimate_followed(b, op) != NULL : accesses && estimate_is_data(op->in[0], DEPTH)) &&
	    estimate_asks_data(f, b, op);
}

static void
put_branches(const Func *f, const Bound *b, Text *out)
{
	int said = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const FollowedAt *at = op->kind == OP_IF ? estimate_followed(b, op) : NULL;
		if (op->kind != OP_IF || op->place.line <= said || !is_said(f, b, op))
			continue;
		said = op->place.line;
		text_printf(out, "  line %d branches as data says: ", said);
		if (at)
			text_printf(out, "of the times that %" PRId64 " of %" PRId64 " programs of the example came there "
			    "its condition held in %.3g %%\n", b->followed->programs, b->followed->of,
			    100 * at->went / at->came);
		else
			text_put(out, "the model counts what stands behind it as if it ran each time\n");
	}
}

void
estimate_data_text(const Func *f, const Bound *b, Text *out)
{
	put_loops(f, b, out);
	put_branches(f, b, out);
}
