/* Properties of the layout algebra: exhaustive over small maps, random over larger ones (the seed is printed). */
#include "layout_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static uint64_t rng;

static uint64_t
next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static F2
random_map(int nin, int nout)
{
	F2 m = f2_zero(nin, nout);
	for (int i = 0; i < nin; i++)
		m.col[i] = next() & ((UINT64_C(1) << nout) - 1);
	return m;
}

/* How many distinct images a map has, by trying every input. */
static int
count_image(const F2 *m)
{
	static uint8_t seen[1 << 12];
	int n = 0;
	memset(seen, 0, sizeof seen);
	for (uint64_t x = 0; x < UINT64_C(1) << m->nin; x++) {
		uint64_t y = f2_apply(m, x);
		n += !seen[y];
		seen[y] = 1;
	}
	return n;
}

static void
check_map(const F2 *m)
{
	uint64_t basis[F2_MAX], x;
	int rank = f2_rank(m), n = f2_kernel(m, basis);
	assert_int_equal(count_image(m), 1 << rank);
	assert_int_equal(rank + n, m->nin);
	for (int i = 0; i < n; i++) {
		assert_true(basis[i] != 0);
		assert_int_equal(f2_apply(m, basis[i]), 0);
	}
	for (uint64_t y = 0; y < UINT64_C(1) << m->nout; y++)
		if (f2_solve(m, y, &x))
			assert_int_equal(f2_apply(m, x), y);
		else
			assert_true(rank < m->nout);
	F2 r;
	assert_int_equal(f2_right_inverse(m, &r), f2_is_surjective(m));
	if (f2_is_surjective(m)) {
		F2 id = f2_compose(m, &r), one = f2_identity(m->nout);
		assert_true(f2_equal(&id, &one));
	}
}

static void
every_small_map(void **state)
{
	(void)state;
	for (int nin = 0; nin <= 3; nin++)
		for (int nout = 0; nout <= 3; nout++)
			for (int bits = 0; bits < 1 << (nin * nout); bits++) {
				F2 m = f2_zero(nin, nout);
				for (int i = 0; i < nin; i++)
					m.col[i] = (uint64_t)(bits >> (i * nout)) & ((1u << nout) - 1);
				check_map(&m);
			}
}

static void
random_maps(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		F2 a = random_map((int)(next() % 9), (int)(next() % 9)), b, c;
		check_map(&a);
		b = random_map(a.nout, (int)(next() % 9));
		c = random_map(b.nout, (int)(next() % 9));
		F2 cb = f2_compose(&c, &b), ba = f2_compose(&b, &a);
		F2 left = f2_compose(&cb, &a), right = f2_compose(&c, &ba);
		assert_true(f2_equal(&left, &right));
		F2 inverse, back;
		if (f2_invert(&a, &inverse)) {
			assert_true(f2_invert(&inverse, &back));
			assert_true(f2_equal(&back, &a));
		}
	}
}

static Layout
random_blocked(int rank)
{
	Blocked b = {.rank = rank};
	int shape[LAYOUT_RANK] = {0}, lanes = 5, warps = (int)(next() % 4);
	for (int d = 0; d < rank; d++) {
		shape[d] = (int)(next() % 6);
		b.per_thread[d] = (int)(next() % 3);
		b.order[d] = d;
	}
	for (int d = rank - 1; d > 0; d--) {
		int other = (int)(next() % (uint64_t)(d + 1)), t = b.order[d];
		b.order[d] = b.order[other];
		b.order[other] = t;
	}
	for (; lanes > 0; lanes--)
		b.lanes[next() % (uint64_t)rank]++;
	for (; warps > 0; warps--)
		b.warps[next() % (uint64_t)rank]++;
	return layout_blocked(&b, shape);
}

/* A layout holds each element, and slices, expansions and compaction keep that. */
static void
blocked_covers(void **state)
{
	(void)state;
	for (int i = 0; i < 400; i++) {
		Layout l = random_blocked(1 + (int)(next() % 3));
		assert_true(layout_valid(&l));
		assert_int_equal(l.in[IN_LANE], 5);
		for (int d = 0; d < l.rank; d++) {
			Layout s = layout_slice(&l, d);
			assert_true(layout_valid(&s));
			assert_int_equal(s.rank, l.rank - 1);
			Layout e = layout_expand(&s, d);
			assert_true(layout_valid(&e));
			assert_int_equal(e.out[d], 0);
		}
		Layout less = layout_drop_broadcast(&l);
		assert_true(layout_valid(&less));
		F2 regs = f2_columns(&less.map, 0, less.in[IN_REGISTER]);
		assert_true(f2_is_injective(&regs));
	}
}

/* 8 neighbours a thread, 16 lanes a row of 128, two rows a warp, four warps. */
static void
blocked_by_hand(void **state)
{
	(void)state;
	Blocked b = {.rank = 2, .per_thread = {0, 3}, .lanes = {1, 4}, .warps = {2, 0}, .order = {1, 0}};
	Layout l = layout_blocked(&b, (int[LAYOUT_RANK]){5, 7});
	uint32_t at[LAYOUT_RANK];
	layout_element(&l, (uint32_t[IN_DIMS]){3, 17, 2, 0}, at);
	assert_int_equal(at[0], 1 + 2 * 2);
	assert_int_equal(at[1], 8 + 3);
	assert_int_equal(l.in[IN_REGISTER], 3 + 2); /* 32 rows, 8 at a time: four rounds */
	layout_element(&l, (uint32_t[IN_DIMS]){8, 0, 0, 0}, at);
	assert_int_equal(at[0], 8);
	assert_int_equal(layout_contiguous(&l, 1), 3);
	assert_int_equal(layout_contiguous(&l, 0), 0);
}

/* Every place of the destination is told a holder of its element; the kind's promise holds. */
static void
check_convert(const Layout *src, const Layout *dst)
{
	Convert c;
	assert_true(layout_convert(src, dst, &c));
	F2 through = f2_compose(&src->map, &c.from);
	assert_true(f2_equal(&through, &dst->map));
	int lane = layout_in_at(dst, IN_LANE), warp = layout_in_at(dst, IN_WARP);
	for (int i = 0; i < dst->map.nin; i++) {
		uint64_t at = c.from.col[i];
		if (c.kind == CONVERT_REGISTERS || c.kind == CONVERT_NONE) {
			uint64_t threads = at >> layout_in_at(src, IN_LANE);
			assert_int_equal(threads, i < lane ? 0 : UINT64_C(1) << (i - lane));
		} else if (c.kind == CONVERT_SHUFFLE) {
			uint64_t warps = at >> layout_in_at(src, IN_WARP);
			assert_int_equal(warps, i < warp ? 0 : UINT64_C(1) << (i - warp));
		}
	}
}

static void
conversions(void **state)
{
	(void)state;
	int kinds[4] = {0};
	for (int i = 0; i < 600; i++) {
		Layout a = random_blocked(2), b;
		Blocked like = {.rank = 2, .order = {(int)(next() % 2)}};
		like.order[1] = !like.order[0];
		for (int n = 0; n < 5; n++)
			like.lanes[next() % 2]++;
		for (int n = 0; n < a.in[IN_WARP]; n++)
			like.warps[next() % 2]++;
		b = layout_blocked(&like, a.out);
		check_convert(&a, &b);
		check_convert(&b, &a);
		check_convert(&a, &a);
		Convert c;
		layout_convert(&a, &b, &c);
		kinds[c.kind]++;
	}
	assert_true(kinds[CONVERT_REGISTERS] + kinds[CONVERT_NONE] > 0);
	assert_true(kinds[CONVERT_SHUFFLE] > 0 && kinds[CONVERT_SHARED] > 0);
}

static void
coalescing(void **state)
{
	(void)state;
	int touched, least;
	/* 32 lanes of 4 floats: 512 bytes, 16 sectors. */
	Layout l = layout_coalesced(2, (int[LAYOUT_RANK]){6, 7}, (int[LAYOUT_RANK]){1, 0}, 2, 5, 2);
	layout_sectors(&l, 4, 512, 2, &touched, &least);
	assert_int_equal(touched, 16);
	assert_int_equal(least, 16);
	/* Scanned down its columns: a thread has 4 rows beside each other, and a warp's access touches as many sectors. */
	l = layout_scanned(2, (int[LAYOUT_RANK]){6, 7}, (int[LAYOUT_RANK]){1, 0}, 2, 0, 5, 2);
	assert_int_equal(f2_apply(&l.map, 1 << 2), 1 << 7);
	layout_sectors(&l, 4, 512, 2, &touched, &least);
	assert_int_equal(touched, 16);
	/* The same tile walked down its columns: each lane a row of its own. */
	Layout column = layout_coalesced(2, (int[LAYOUT_RANK]){6, 7}, (int[LAYOUT_RANK]){0, 1}, 0, 5, 2);
	layout_sectors(&column, 4, 512, 0, &touched, &least);
	assert_int_equal(touched, 32);
	assert_int_equal(least, 4);
}

static void
bank_conflicts(void **state)
{
	(void)state;
	int passes, least, shape[LAYOUT_RANK] = {5, 5};
	int order[LAYOUT_RANK] = {1, 0};
	Layout rows = layout_coalesced(2, shape, order, 0, 5, 0);
	Layout columns = layout_coalesced(2, shape, (int[LAYOUT_RANK]){0, 1}, 0, 5, 0);
	Layout plain = layout_row_major(2, shape, order);
	layout_bank_passes(&rows, &plain, 4, 0, &passes, &least);
	assert_int_equal(passes, 1);
	layout_bank_passes(&columns, &plain, 4, 0, &passes, &least);
	assert_int_equal(passes, 32);
	assert_int_equal(least, 1);
	Layout swizzled = layout_swizzled(2, shape, order, 0, 0, 5);
	assert_true(layout_valid(&swizzled) && f2_is_injective(&swizzled.map));
	layout_bank_passes(&columns, &swizzled, 4, 0, &passes, &least);
	assert_int_equal(passes, 1);
	layout_bank_passes(&rows, &swizzled, 4, 0, &passes, &least);
	assert_int_equal(passes, 1);
	Layout best = layout_best_shared(&rows, &columns, 4);
	layout_bank_passes(&columns, &best, 4, layout_shared_vector(&columns, &best, 4, 16), &passes, &least);
	assert_int_equal(passes, least);
}

/* The ranks' figures are those of the addresses, of any lanes: those that repeat, conflict, or are not aligned. */
static void
counted_passes(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		int vector = (int)(next() % 3), bytes = 1 << next() % 3, lanes = 5 + (int)(next() % 2), n = vector + lanes + 2;
		const int shape[LAYOUT_RANK] = {n}, in[IN_DIMS] = {vector, lanes, 0, 0};
		const uint64_t low = next() % 8 ? ~(UINT64_C(0)) << vector : ~UINT64_C(0);
		uint64_t col[F2_MAX];
		int64_t at[64] = {0};
		int passes, least, want, want_least;
		for (int i = 0; i < vector + lanes; i++)
			col[i] = i < vector ? UINT64_C(1) << i : next() & ((UINT64_C(1) << n) - 1) & low;
		Layout l = layout_fragment(1, shape, in, col), plain = layout_row_major(1, shape, (int[LAYOUT_RANK]){0});
		for (int lane = 0; lane < 1 << lanes; lane++)
			at[lane] = (int64_t)f2_apply(&l.map, (uint64_t)lane << vector) * bytes;
		access_passes(at, 1 << lanes, bytes << vector, &want, &want_least);
		layout_bank_passes(&l, &plain, bytes, vector, &passes, &least);
		assert_int_equal(passes, want);
		assert_int_equal(least, want_least);
	}
}

/* Every element's offset by the formula of the hardware's swizzle, and the figures found again from the map. */
static void
boxes(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		int rank = 2 + (int)(next() % 2), elem = 1 << next() % 4, row = 16 << next() % 4, shape[LAYOUT_RANK];
		int order[LAYOUT_RANK], found[LAYOUT_RANK], found_row = 0, fast = (int)(next() % (uint64_t)rank), n = 0;
		for (int d = 0; d < rank; d++)
			shape[d] = 1 + (int)(next() % 6);
		shape[fast] = log2_ceil(row / elem) + (int)(next() % 3);
		order[n++] = fast;
		for (int d = rank - 1; d >= 0; d--)
			if (d != fast)
				order[n++] = d;
		Layout l = layout_boxed(rank, shape, order, row, elem);
		assert_true(layout_valid(&l) && f2_is_injective(&l.map));
		int64_t rows = 1, box = row / elem;
		for (int d = 0; d < rank; d++)
			rows *= d == fast ? 1 : 1 << shape[d];
		for (uint32_t at = 0; at < 1u << l.map.nin; at++) {
			uint32_t x[LAYOUT_RANK], in[IN_DIMS] = {at};
			layout_element(&l, in, x);
			int64_t r = 0, bytes;
			for (int i = rank - 1; i > 0; i--)
				r = r * (1 << shape[order[i]]) + x[order[i]];
			bytes = ((x[fast] / box * rows + r) * box + x[fast] % box) * elem;
			bytes ^= row > 16 ? (bytes >> 7 & (row / 16 - 1)) << 4 : 0;
			assert_int_equal(bytes, (int64_t)at * elem);
		}
		assert_true(layout_match_boxed(&l, elem, found, &found_row));
		Layout again = layout_boxed(rank, shape, found, found_row, elem);
		assert_true(layout_equal(&l, &again) && found[0] == fast && found_row >= row);
	}
	Layout l, by_hand = layout_boxed(2, (int[LAYOUT_RANK]){6, 8}, (int[LAYOUT_RANK]){1, 0}, 128, 2);
	int at, order[LAYOUT_RANK], row;
	assert_null(layout_parse("boxed(shape = [64, 256], row_bytes = 128, elem_bytes = 2)", &l, &at));
	assert_true(layout_equal(&l, &by_hand));
	assert_false(layout_match_boxed(&l, 4, order, &row));
	assert_non_null(layout_parse("boxed(shape = [64, 256], row_bytes = 8)", &l, &at));
	assert_null(layout_parse("swizzled(shape = [16, 64], vector = 4, phases = 8)", &l, &at));
	assert_false(layout_match_boxed(&l, 2, order, &row));
}

static void
text_round_trip(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		Layout l = random_blocked(1 + (int)(next() % 3)), back;
		Text text = {0};
		int at;
		layout_print(&l, &text);
		assert_null(layout_parse(text.at, &back, &at));
		assert_true(layout_equal(&l, &back));
		for (size_t n = 0; n < text.n; n++) {   /* every truncation is refused, none crashes */
			char *cut = malloc(n + 1);
			memcpy(cut, text.at, n);
			cut[n] = 0;
			assert_non_null(layout_parse(cut, &back, &at));
			assert_in_range(at, 0, n);
			free(cut);
		}
		text_close(&text);
	}
	Layout l;
	int at;
	assert_null(layout_parse("blocked(shape = [8, 32], per_thread = [1, 4], lanes = [4, 8], order = [1, 0])", &l, &at));
	assert_int_equal(layout_contiguous(&l, 1), 2);
	assert_string_equal(layout_parse("blocked(shape = [8, 33])", &l, &at), "extents are powers of two");
	assert_string_equal(layout_parse("layout(shape = [4], lane = [[1]])", &l, &at),
	    "some element of the tile is held nowhere");
}

/* Shortened, each place holds the element that it held, modulo the new extent; paired, the lowest register bit tells
 * the two of a new last dimension apart and the rest is as it was. */
static void
shortened_and_paired(void **state)
{
	Layout l = layout_coalesced(2, (int[LAYOUT_RANK]){4, 6}, (int[LAYOUT_RANK]){1, 0}, 2, 5, 2);
	Layout s = layout_shorten(&l, 1, 3), p = layout_pair(&l);
	assert_int_equal(s.out[1], 3);
	assert_int_equal(p.rank, 3);
	assert_true(layout_valid(&s));
	assert_true(layout_valid(&p));
	for (uint32_t reg = 0; reg < 1u << l.in[IN_REGISTER]; reg++)
		for (uint32_t t = 0; t < 128; t++) {
			uint32_t in[IN_DIMS] = {reg, t % 32, t / 32, 0}, was[LAYOUT_RANK], now[LAYOUT_RANK];
			layout_element(&l, in, was);
			layout_element(&s, in, now);
			assert_int_equal(now[0], was[0]);
			assert_int_equal(now[1], was[1] % 8);
			for (uint32_t half = 0; half < 2; half++) {
				uint32_t twice[IN_DIMS] = {2 * reg + half, t % 32, t / 32, 0};
				layout_element(&p, twice, now);
				assert_int_equal(now[0], was[0]);
				assert_int_equal(now[1], was[1]);
				assert_int_equal(now[2], half);
			}
		}
}

/* Elements of 4 bits: each is in the chunk that its thread loads, which is aligned; a byte's two are put together. */
static void
nibbles(void **state)
{
	(void)state;
	for (int n = 0; n < 300; n++) {
		int shape[LAYOUT_RANK] = {3 + (int)(next() % 3), 4 + (int)(next() % 3)}, order[LAYOUT_RANK] = {1, 0}, turned = next() % 2;
		if (turned)
			order[0] = 0, order[1] = 1;
		Layout shared = layout_swizzled(2, shape, order, 3 + (int)(next() % 2), (int)(next() % 2), (int)(next() % 2));
		int across[LAYOUT_RANK] = {order[1], order[0]}, vector = (int)(next() % 3);
		Layout l = layout_coalesced(2, shape, n % 2 ? across : order, n % 2 ? vector : 1 + vector, 5, 2);
		Layout half;
		LayoutChunks c;
		assert_true(layout_chunks(&l, &shared, &c));
		for (uint64_t x = 0; x < UINT64_C(1) << l.map.nin; x++) {
			uint64_t at = f2_apply(&c.to, x), chunk;
			F2 inverse;
			assert_int_equal(f2_apply(&shared.map, at), f2_apply(&l.map, x));
			assert_true(f2_invert(&c.shared.map, &inverse));
			chunk = 2 * f2_apply(&inverse, f2_apply(&c.chunks.map, x));
			assert_true(chunk % (UINT64_C(1) << c.log) == 0 && at >= chunk && at < chunk + (UINT64_C(1) << c.log));
		}
		if (n % 2)
			continue;
		assert_true(layout_bytes(&l, &half));
		assert_true(layout_valid(&half));
		uint32_t one[LAYOUT_RANK], two[LAYOUT_RANK];
		for (uint32_t lane = 0; lane < 32; lane++) {
			layout_element(&l, (uint32_t[IN_DIMS]){0, lane, 1, 0}, two);
			layout_element(&half, (uint32_t[IN_DIMS]){0, lane, 1, 0}, one);
			assert_true(two[order[0]] == 2 * one[order[0]] && two[order[1]] == one[order[1]]);
		}
	}
	Layout single = layout_coalesced(2, (int[LAYOUT_RANK]){4, 4}, (int[LAYOUT_RANK]){1, 0}, 0, 5, 0), half;
	single.in[IN_REGISTER] = 0;
	assert_false(layout_bytes(&single, &half));
}

/* Each warp that stays holds what those that share its lower bits did; elements that warps repeated it holds once. */
static void
folded_warps(void **state)
{
	const int shape[LAYOUT_RANK] = {5, 6}, order[LAYOUT_RANK] = {1, 0}, row[LAYOUT_RANK] = {1, 6};
	Layout l = layout_coalesced(2, shape, order, 2, 5, 3), fewer = layout_fold_warps(&l, 1);
	(void)state;
	assert_true(layout_valid(&fewer));
	assert_int_equal(fewer.in[IN_WARP], 1);
	assert_int_equal(fewer.in[IN_REGISTER], l.in[IN_REGISTER] + (l.map.col[layout_in_at(&l, IN_WARP) + 1] != 0) +
	    (l.map.col[layout_in_at(&l, IN_WARP) + 2] != 0));
	for (int i = 0; i < l.in[IN_REGISTER]; i++)
		assert_int_equal(fewer.map.col[i], l.map.col[i]);
	for (int i = 0; i < l.in[IN_LANE] + 1; i++)
		assert_int_equal(fewer.map.col[layout_in_at(&fewer, IN_LANE) + i], l.map.col[layout_in_at(&l, IN_LANE) + i]);
	Layout same = layout_fold_warps(&l, 3);
	assert_true(layout_equal(&same, &l));
	l = layout_coalesced(2, row, order, 2, 5, 3);   /* more warps than rows: they repeat elements */
	fewer = layout_fold_warps(&l, 0);
	assert_true(layout_valid(&fewer));
	assert_int_equal(fewer.in[IN_REGISTER], l.in[IN_REGISTER]);
}

/* Rows that three of five lane bits repeat: registers' bits take their place, the upper first. */
static void
filled_lanes(void **state)
{
	const int shape[LAYOUT_RANK] = {6}, in[IN_DIMS] = {3, 5, 1, 0};
	const uint64_t col[] = {16, 8, 32, 0, 0, 1, 2, 0, 4}, full[] = {32, 8, 1, 2, 16, 4};
	Layout l = layout_fragment(1, shape, in, col), own = layout_fill_lanes(&l);
	Convert c;
	(void)state;
	assert_true(layout_valid(&own));
	assert_int_equal(own.in[IN_REGISTER], 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(own.map.col[i], full[i]);
	assert_true(layout_convert(&own, &l, &c) && c.kind == CONVERT_SHUFFLE);
	Layout again = layout_fill_lanes(&own);
	assert_true(layout_equal(&again, &own));
}

int
main(void)
{
	rng = (uint64_t)time(NULL) * 2654435761u + 1;
	printf("seed %llu\n", (unsigned long long)rng);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_small_map),
		cmocka_unit_test(random_maps),
		cmocka_unit_test(blocked_covers),
		cmocka_unit_test(blocked_by_hand),
		cmocka_unit_test(conversions),
		cmocka_unit_test(coalescing),
		cmocka_unit_test(bank_conflicts),
		cmocka_unit_test(counted_passes),
		cmocka_unit_test(boxes),
		cmocka_unit_test(shortened_and_paired),
		cmocka_unit_test(folded_warps),
		cmocka_unit_test(filled_lanes),
		cmocka_unit_test(text_round_trip),
		cmocka_unit_test(nibbles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
