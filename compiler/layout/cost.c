/* What a layout costs: vector width, memory sectors, bank conflicts.
 *
 * The widths come from the matrix.  The counts (sectors, bank passes) are made by walking one warp's
 * lanes through the map, at most 32 addresses an access: that is what the hardware does, and it keeps
 * the definition plain.  Because the maps are linear, every access of a layout touches a coset of the
 * same subspace, so counting the first register group of each access counts them all; bank passes of aligned words
 * are ranks. */
#include "layout/layout.h"

#include <assert.h>
#include <limits.h>

enum { SECTOR = 32, BANKS = 32, BANK_BYTES = 4, WARP_MAX = 64 };

/* Registers' bits of the map that move, one by one, along its bits from `at` on, at most so many, and nothing else along
 * those. */
static int
contiguous(const F2 *map, int registers, int at, int most)
{
	int n = 0;
	while (n < registers && n < most && map->col[n] == UINT64_C(1) << (at + n))
		n++;
	while (n > 0 && ANY_OF(i, map->nin, i >= n && map->col[i] & ((UINT64_C(1) << n) - 1) << at))
		n--;
	return n;
}

int
layout_contiguous(const Layout *l, int dim)
{
	return contiguous(&l->map, l->in[IN_REGISTER], layout_out_at(l, dim), l->out[dim]);
}

int
layout_contiguous_rows(const Layout *l, int dim)
{
	int at = layout_out_at(l, dim);
	return contiguous(&l->map, l->in[IN_REGISTER], at, l->map.nout - at);
}

int
set_add(int64_t *set, int n, int64_t x)
{
	if (ANY_OF(i, n, set[i] == x))
		return n;
	set[n] = x;
	return n + 1;
}

void
access_sectors(const int64_t *at, int lanes, int width, int *touched, int *least)
{
	int64_t sectors[WARP_MAX * 8], starts[WARP_MAX];
	int nsectors = 0, nstarts = 0;
	assert(lanes <= WARP_MAX && width <= SECTOR * 4);
	for (int lane = 0; lane < lanes; lane++) {
		nstarts = set_add(starts, nstarts, at[lane]);
		for (int64_t s = at[lane] / SECTOR; s <= (at[lane] + width - 1) / SECTOR; s++)
			nsectors = set_add(sectors, nsectors, s);
	}
	*touched = nsectors;
	*least = (nstarts * width + SECTOR - 1) / SECTOR;
}

void
layout_sectors(const Layout *l, int bytes, int64_t row_bytes, int vector, int *touched, int *least)
{
	int fast = l->rank > 0 ? l->out[l->rank - 1] : 0, lanes = 1 << l->in[IN_LANE];
	int64_t address[WARP_MAX];
	assert(lanes <= WARP_MAX);
	for (int lane = 0; lane < lanes; lane++) {
		uint64_t at = f2_apply(&l->map, (uint64_t)lane << l->in[IN_REGISTER]);
		int64_t row = (int64_t)(at >> fast), x = (int64_t)(at & ((UINT64_C(1) << fast) - 1));
		address[lane] = row * row_bytes + x * bytes;
	}
	access_sectors(address, lanes, bytes << vector, touched, least);
}

/* `to`: from registers, lanes and so on to the offset in shared memory. */
static int
vector_of(const Layout *l, const F2 *to, int bytes, int max_bytes)
{
	return contiguous(to, l->in[IN_REGISTER], 0, log2_floor(MAX(max_bytes / bytes, 1)));
}

int
layout_shared_vector(const Layout *l, const Layout *shared, int bytes, int max_bytes)
{
	F2 inverse;
	if (!f2_invert(&shared->map, &inverse))
		return 0;
	const F2 to = f2_compose(&inverse, &l->map);
	return vector_of(l, &to, bytes, max_bytes);
}

static void
order_by_offset(const F2 *to, int n, int order[F2_MAX])
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && to->col[order[k]] < to->col[order[k - 1]]; k--) {
			int low = order[k];
			order[k] = order[k - 1];
			order[k - 1] = low;
		}
}

Layout
layout_by_offset(const Layout *l, const Layout *shared, int order[F2_MAX])
{
	Layout r = *l;
	F2 inverse;
	int n = l->in[IN_REGISTER];
	for (int i = 0; i < n; i++)
		order[i] = i;
	if (!f2_invert(&shared->map, &inverse))
		return r;
	const F2 to = f2_compose(&inverse, &l->map);
	order_by_offset(&to, n, order);
	for (int i = 0; i < n; i++)
		r.map.col[i] = l->map.col[order[i]];
	return r;
}

/* Distinct words that so many lanes ask of the busiest bank.  Each bank has a list of its own: all of them are short where
 * there are few conflicts, which is what is looked for. */
static int
worst_bank(const int64_t *at, int lanes, int width, int *words)
{
	int64_t seen[BANKS][WARP_MAX * 4];
	int count[BANKS] = {0}, worst = 0;
	for (int lane = 0; lane < lanes; lane++) {
		uint64_t from = (uint64_t)at[lane], last = (from + (unsigned)width - 1) / BANK_BYTES;
		for (uint64_t w = from / BANK_BYTES; w <= last; w++) {
			int bank = (int)(w % BANKS), before = count[bank];
			count[bank] = set_add(seen[bank], before, (int64_t)w);
			*words += count[bank] - before;
			worst = MAX(worst, count[bank]);
		}
	}
	return worst;
}

/* Lanes whose accesses go at once: those of 8 and 16 bytes go by half and quarter warps. */
static int
lanes_at_once(int lanes, int width)
{
	return width <= BANK_BYTES ? lanes : MAX(1, lanes * BANK_BYTES / width);
}

void
access_passes(const int64_t *at, int lanes, int width, int *passes, int *least)
{
	int group = lanes_at_once(lanes, width);
	assert(lanes <= WARP_MAX && width <= 16);
	*passes = *least = 0;
	for (int from = 0; from < lanes; from += group) {
		int words = 0;
		*passes += worst_bank(at + from, group, width, &words);
		*least += (words + BANKS - 1) / BANKS;
	}
}

/* The words of lanes that go at once are a linear space: each bank that it meets has as many of them.  Lanes behind them
 * move all by the same bits, which swaps banks and changes no number.  Words that are not aligned are no such space. */
static bool
linear_passes(const uint64_t *lane, int nlane, int bytes, int width, int *passes, int *least)
{
	uint64_t basis[64] = {0};
	int lanes = log2_floor(lanes_at_once(1 << nlane, width)), rank = 0, banks = 0;
	for (int i = 0; i < nlane; i++)
		if (lane[i] * (unsigned)bytes & ((unsigned)width - 1))
			return false;
	for (int i = 0; i < lanes || BANK_BYTES << (i - lanes) < width; i++) {
		uint64_t x = i < lanes ? lane[i] * (unsigned)bytes / BANK_BYTES : UINT64_C(1) << (i - lanes);
		while (x && basis[__builtin_ctzll(x)])
			x ^= basis[__builtin_ctzll(x)];
		if (!x)
			continue;
		basis[__builtin_ctzll(x)] = x;
		rank++;
		banks += x % BANKS != 0;
	}
	*passes = 1 << (nlane - lanes + rank - banks);
	*least = ((1 << rank) + BANKS - 1) / BANKS << (nlane - lanes);
	return true;
}

static void
passes_of(const Layout *l, const F2 *to, int bytes, int vector, int *passes, int *least)
{
	int nlane = l->in[IN_LANE], lanes = 1 << nlane;
	const uint64_t *col = to->col + l->in[IN_REGISTER];
	int64_t at[WARP_MAX] = {0};
	assert(lanes <= WARP_MAX);
	if (is_power_of_two(bytes) && linear_passes(col, nlane, bytes, bytes << vector, passes, least))
		return;
	for (int lane = 1; lane < lanes; lane++)
		at[lane] = at[lane & (lane - 1)] ^ (int64_t)col[__builtin_ctz((unsigned)lane)];
	for (int lane = 0; lane < lanes; lane++)
		at[lane] *= bytes;
	access_passes(at, lanes, bytes << vector, passes, least);
}

void
layout_bank_passes(const Layout *l, const Layout *shared, int bytes, int vector, int *passes, int *least)
{
	F2 inverse;
	bool ok = f2_invert(&shared->map, &inverse);
	assert(ok);
	(void)ok;
	const F2 to = f2_compose(&inverse, &l->map);
	passes_of(l, &to, bytes, vector, passes, least);
}

/* Passes of all accesses that a tile in layout `l` takes on its way to or from shared memory. */
static int
trip_cost(const Layout *l, const F2 *inverse, int bytes)
{
	const F2 by_register = f2_compose(inverse, &l->map);
	int passes, least, vector, order[F2_MAX];
	F2 to = by_register;
	order_by_offset(&by_register, l->in[IN_REGISTER], order);
	for (int i = 0; i < l->in[IN_REGISTER]; i++)
		to.col[i] = by_register.col[order[i]];
	vector = vector_of(l, &to, bytes, 16);
	passes_of(l, &to, bytes, vector, &passes, &least);
	return passes << (l->in[IN_REGISTER] - vector);
}

int
layout_trip(const Layout *l, const Layout *shared, int bytes)
{
	F2 inverse;
	bool ok = f2_invert(&shared->map, &inverse);
	assert(ok);
	(void)ok;
	return trip_cost(l, &inverse, bytes);
}

/* What no layout of the shared memory is below: accesses of the best width without a conflict. */
static int
least_trip_cost(const Layout *l, int bytes)
{
	int lanes = 1 << l->in[IN_LANE], registers = l->in[IN_REGISTER], least = INT_MAX;
	for (int v = 0; v <= registers && (v == 0 || bytes << v <= 16); v++)
		least = MIN(least, lanes / lanes_at_once(lanes, bytes << v) << (registers - v));
	return least;
}

Layout
layout_swizzled_lines(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int bits)
{
	enum { CHUNK = 128, LINE_CHUNKS = 3 };
	Layout s = layout_row_major(rank, shape, order);
	int at = log2_ceil(CHUNK / bits), n = s.in[IN_REGISTER];
	for (int i = 0; i < LINE_CHUNKS && at + LINE_CHUNKS + i < n; i++)
		s.map.col[at + LINE_CHUNKS + i] ^= s.map.col[at + i];
	return s;
}

/* The cheapest layout so far, the first of equals. */
typedef struct Cheapest {
	const Layout *src, *dst;
	int bytes, least, least_dst;                    /* of both trips, and of the second */
	Layout best;
	int cost;                                       /* -1: there is none yet */
} Cheapest;

/* Returns whether no other can be cheaper. */
static bool
take_cheaper(Cheapest *c, const Layout *s)
{
	F2 inverse;
	bool ok = f2_invert(&s->map, &inverse);
	assert(ok);
	(void)ok;
	int cost = trip_cost(c->src, &inverse, c->bytes);
	if (c->cost < 0 || cost + c->least_dst < c->cost)
		cost += trip_cost(c->dst, &inverse, c->bytes);
	else
		return false;
	if (c->cost < 0 || cost < c->cost) {
		c->best = *s;
		c->cost = cost;
	}
	return c->cost <= c->least;
}

static bool
take_swizzled(Cheapest *c, const int *order)
{
	const Layout *l = c->src;
	for (int vector = 0; vector <= 4 && c->bytes << vector <= MAX(16, 4 * c->bytes); vector++)
		for (int per_phase = 0; per_phase <= 3; per_phase++)
			for (int phases = vector + per_phase > 0; phases <= 5; phases++) {
				Layout s = layout_swizzled(l->rank, l->out, order, vector, per_phase, phases);
				if (take_cheaper(c, &s))
					return true;
			}
	Layout lines = layout_swizzled_lines(l->rank, l->out, order, 8 * c->bytes);
	return take_cheaper(c, &lines);
}

Layout
layout_best_shared(const Layout *src, const Layout *dst, int bytes)
{
	Cheapest c = {.src = src, .dst = dst, .bytes = bytes, .least_dst = least_trip_cost(dst, bytes), .cost = -1};
	c.least = least_trip_cost(src, bytes) + c.least_dst;
	for (int fast = src->rank - 1; fast >= 0; fast--) {
		int order[LAYOUT_RANK] = {fast}, n = 1;
		for (int d = src->rank - 1; d >= 0; d--)
			if (d != fast)
				order[n++] = d;
		if (take_swizzled(&c, order))
			break;
	}
	return c.cost < 0 ? layout_row_major(src->rank, src->out, (int[LAYOUT_RANK]){0}) : c.best;
}
