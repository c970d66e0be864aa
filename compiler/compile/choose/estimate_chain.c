/* What two chained products take, as attention's: a trip in roles, where they run at once beside what is computed between
 * them, and flat blocks of one warpgroup, of which several are resident and drift apart.
 *
 * What a trip uses overlaps, but not perfectly: it takes a root of the sum of powers.  Of exponentials, whose
 * unit has a sum of its own, an eighth is instructions.  Fitted to 16 launches of attention on an H200 by 9 to 14 forms
 * each: full, causal, with windows and soft caps, heads of 32 to 128.  What comes first takes 1.01 of the fastest form's
 * time, as calculated (1.08 by the longest part alone and a preference for roles), in 8 others 1.03 (1.10).
 *
 * In roles a group does one thing after the other, from START_SHARE to CHAIN_WAIT. */
#include "compile/choose/estimate_ops.h"
#include "compile/compile.h"

#include <math.h>

static const double SHARP = 4, BESIDE_EXPONENTIAL = 0.125, L2_SHARE = 0.9;
static const double START_SHARE = 1.35, CHAIN_SLOW = 0.7, CHAIN_WAIT = 430, SPECIAL_SLOW = 1.15, GROUP_SPECIAL = 95;
/* Roles of four groups, heads of 64: full 611 us of an H200, causal 356, with ALiBi 589, by documents 1014; without this
 * 551, 331, 334 and 600 were estimated, and flat blocks take 585, 325, 446 and 940. */
static const double PARTED_ISSUE = 1.15;
static const double FLAT_SHARP = 3, FLAT_MOVED = 0.82, FLAT_PRODUCTS = 0.5, FLAT_SLOW = 0.94, FLAT_WAIT = 454;
static const double FLAT_TRIP = 39;
/* Groups of warps of a flat block wait for one another: heads of 64 and 128, 841 us for 553 with one group, 94 for 55;
 * of 128, 256 programs of 64 rows on 128 keys, 8.8 for 7.3. */
static const double FLAT_GROUPS = 1.6;
static const double RING_WAIT = 240;
enum { RING_SLOTS = 3, LANES = 128 };                   /* slots of a ring: more change nothing */
/* Where a lone group is parted, in single rounds. */
static const double LONE_START = 0.9, LONE_SLOW = 1.4, LONE_WAIT = 400, LONE_SPECIAL = 1.25, GROUP_ISSUE = 140;
/* What begins and ends a program in roles.  Of few trips, none of which masks by rows and columns, it hides behind
 * others' copies, and counts by the bytes of its results, as each group of warps writes them, and of its first slot:
 * 1500 queries on 77 keys, heads of 128, take 40 us in 128 x 64 (52 by ENDS), 577 patches of 64 15 (25). */
static const double ENDS = 3000, SHORT_WRITTEN = 0.037, SHORT_SLOT = 0.02, SHORT_TRIPS = 16;
/* More, of a flat block of few trips, whose query and first slot come alone: of 15 launches on 40 to 512 keys 64 x 64
 * take 0.83 to 1.14 of the estimate with it, without it 1.2 to 1.5.  Not where tiles are masked by rows and columns
 * (windows: 170 us, 177), nor of more trips (128 of 64 keys in 64 x 128 403 us, 520 in 64 x 64). */
static const double FLAT_FILL = 2900;
/* Instructions of an element that is masked by its row and column, in trips that need it (passes split, guard). */
static const double MASKED = 4.5;

double
estimate_chain_issue(const Use *u)
{
	return u->arithmetic - (1 - BESIDE_EXPONENTIAL) * u->slow;
}

/* Tiles of 64 rows that a group of warps multiplies one after the other. */
static double
tiles(const Estimate *e)
{
	return MAX(1, e->rows / (16.0 * MAX(e->warps, 4)));
}

static double
lone_trip(const Use *u)
{
	double most = MAX(MAX(u->products, u->shared), u->l2);
	double own = LONE_START * u->products + LONE_SLOW * u->arithmetic + LONE_WAIT;
	return MAX(MAX(most, LONE_SPECIAL * u->special + GROUP_ISSUE), own);
}

/* A group of warps starts its products, which blocks it for most of their time, and then computes between them, while other
 * groups' products and exponentials go on (pass skew).  Groups that put an operand meet at barriers before and behind it,
 * and nothing overlaps: e4m3, heads of 128: 128 x 64 take 750 us of an H200, 128 x 128 701, flat blocks of 64 x 64 486.
 *
 * So they do where each trip turns what threads read of a row, as a mask of keys by bytes, to the product's columns: a bias
 * of f32 and a mask take 225 us of an H200 in 256 x 64 by four groups, 157 in flat blocks of 64 x 128 (124 and 128
 * estimated, without the barriers).
 *
 * Elements that threads look up one by one no copy brings ahead, and groups, which take turns, wait for one another's: a
 * bias by distance takes 240 us in 256 x 64 (250 estimated, 175 without the wait), in flat blocks of 64 x 64 194 (211). */
static double
parted_trip(const Use *u, const Estimate *e, double groups)
{
	double special = BESIDE_EXPONENTIAL * u->slow, between = estimate_chain_issue(u) - special;
	if (e->turned > 0 || e->meets)
		return START_SHARE * u->products + CHAIN_SLOW * between + special + u->shared +
		    2 * CHAIN_WAIT * tiles(e);
	double own = (START_SHARE * u->products + CHAIN_SLOW * between + special) / groups + CHAIN_WAIT * tiles(e);
	own += e->look_wait * groups / 2;
	double all = pow(u->products, SHARP) + pow(u->shared, SHARP) + pow(L2_SHARE * u->l2, SHARP) + pow(own, SHARP);
	all += pow(PARTED_ISSUE * estimate_chain_issue(u), SHARP);
	return pow(all + pow(SPECIAL_SLOW * u->slow + groups * GROUP_SPECIAL, SHARP), 1 / SHARP);
}

double
estimate_chain(const Estimate *e, const Use *u)
{
	double groups = MAX(1, e->warps / 4);
	double trip = groups > 1 ? parted_trip(u, e, groups) : lone_trip(u);
	return trip + RING_WAIT / MIN(MAX(e->stages, 1), RING_SLOTS) + ESTIMATE_BESIDE * u->beside;
}

double
estimate_chain_ends(const Estimate *e)
{
	double least = SHORT_WRITTEN * e->block.written * tiles(e) + SHORT_SLOT * e->slot;
	double many = e->masked > 0 ? 1 : MIN(e->trips / SHORT_TRIPS, 1);
	return least + many * (ENDS - least);
}

/* Is it what each row has, or each column? */
static bool
is_along(const Value *v, int dim)
{
	const Op *op = v->def;
	const Type *from = op && op->kind == OP_BROADCAST ? op->in[0]->type : NULL;
	return from && from->rank == 2 && from->extent[dim] == v->type->extent[dim] && from->extent[1 - dim] == 1;
}

/* As many trips need the mask as a tile's rows are those of its columns.  A window of 512 keys, heads of 64, takes an H200
 * 179 us by 256 x 64, where 8 of 12 trips are masked, and 100 by 64 x 64, where 2 of 9 are. */
double
estimate_masked(const Op *loop, double trips)
{
	double cycles = 0;
	for (const Op *op = loop->region[0]->first; op; op = op->next) {
		const Type *t = op->nout ? op->out[0].type : NULL;
		bool orders = op->kind == OP_LT || op->kind == OP_LE || op->kind == OP_GT || op->kind == OP_GE;
		if (!orders || t->rank != 2 || !ANY_OF(i, 2, is_along(op->in[i], 0) && is_along(op->in[1 - i], 1)))
			continue;
		double masked = MIN(MAX((double)t->extent[0] / (double)t->extent[1], 1), trips);
		cycles += masked * (double)type_count(t) / LANES;
	}
	return MASKED * cycles;
}

double
estimate_flat_fill(const Estimate *e)
{
	return e->masked > 0 || e->trips > SHORT_TRIPS ? 0 : FLAT_FILL;
}

double
estimate_flat_groups(const Estimate *e)
{
	return e->warps > 4 ? FLAT_GROUPS : 1;
}

double
estimate_drifting(const Estimate *e, double ends, double programs, int n, int together)
{
	const Use *u = &e->block;
	double trips = e->trips * MAX(e->rows / 64, 1), k = MIN(together, n);
	double issue = estimate_chain_issue(u) + FLAT_TRIP * trips + e->masked;
	double own = ends + FLAT_PRODUCTS * u->products + FLAT_SLOW * issue + FLAT_WAIT * trips;
	double l2 = FLAT_MOVED * u->moved / e->t->rates->l2_rate;
	double part[] = {u->products, u->shared, l2, u->slow, issue, own / k};
	double each = pow(SUM_OF(double, i, LEN(part), pow(part[i], FLAT_SHARP)), 1 / FLAT_SHARP);
	each *= estimate_flat_groups(e);
	return MAX(programs / e->t->rates->multiprocessors, k) * each + (n > k ? own : 0) +    /* the last one to begin */
	    estimate_join(e->t, e->split, e->sums, e->joins);
}

double
estimate_drain(const Estimate *e, double others)
{
	double all = e->parted ? e->drain * e->groups : 0;
	return e->chained && others + all > e->t->shared_bytes ? all / 2 : all;
}
