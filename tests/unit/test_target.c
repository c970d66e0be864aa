/* Fragment layouts against the formulas that the PTX ISA prints for each shape. */
#include "fragment_help.h"
#include "layout_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void
check(const MmaInfo *m, Layout l, At (*of)(const MmaInfo *, uint32_t, uint32_t, uint32_t))
{
	assert_true(layout_valid(&l));
	assert_int_equal(l.in[IN_LANE], 5);
	assert_int_equal(layout_in_bits(&l), layout_out_bits(&l));
	for (uint32_t lane = 0; lane < 32; lane++)
		for (uint32_t i = 0; i < 1u << l.in[IN_REGISTER]; i++) {
			uint32_t at[LAYOUT_RANK];
			At want = of(m, lane / 4, lane % 4, i);
			layout_element(&l, (uint32_t[IN_DIMS]){i, lane, 0, 0}, at);
			assert_int_equal(at[0], want.row);
			assert_int_equal(at[1], want.col);
		}
}

static void
fragments(void **state)
{
	(void)state;
	for (int i = 0; i < mma_count; i++) {
		check(&mma_info[i], mma_layout_a(&mma_info[i]), a_of);
		check(&mma_info[i], mma_layout_b(&mma_info[i]), b_of);
		check(&mma_info[i], mma_layout_c(&mma_info[i]), c_of);
	}
}

static void
choice(void **state)
{
	(void)state;
	const Target *t75 = target_named("sm_75"), *t80 = target_named("sm_80"), *t90 = target_named("sm_90a");
	const Target *apple = target_named("apple7");
	assert_true(target_has_product(t75, "m16n8k8.f16") && !target_has_product(t75, "m16n8k16.f16"));
	assert_true(target_has_product(t80, "m16n8k16.f16") && !target_has_product(t80, "m16n8k32.e4m3"));
	assert_true(!target_has_product(t75, "m16n8k16.bf16") && target_has_product(t80, "m16n8k16.bf16"));
	assert_true(target_has_product(t90, "m16n8k32.e4m3e5m2") && !target_has_product(t90, "s8x8x8.f32"));
	assert_true(target_has_product(apple, "s8x8x8.bf16") && !target_has_product(apple, "m16n8k8.f16"));
	assert_true(mma_is_exact(mma_named("s8x8x8.f32")) && !mma_is_exact(mma_named("m16n8k8.tf32")));
	assert_null(target_named("sm_12"));
	for (int i = 0; target_at(i); i++) {
		const Target *t = target_at(i);
		assert_ptr_equal(target_named(t->name), t);
		assert_true(t->shared_bytes <= t->shared_bytes_unit && t->max_threads <= t->max_warps * t->lanes);
	}
}

static int
log2_of(int n)
{
	int l = 0;
	while (1 << l < n)
		l++;
	return l;
}

/* Rows of 16-byte chunks along `fast`, exclusive-ored by the row's number, as pass pipeline lays rings out. */
static Layout
ring(const int shape[LAYOUT_RANK], int fast, int bytes)
{
	int vector = log2_of(16 / bytes), chunks = shape[fast] - vector, per_phase = MAX(0, 3 - chunks);
	return layout_swizzled(2, shape, (int[LAYOUT_RANK]){fast, 1 - fast}, vector, per_phase, MIN(chunks, 3));
}

/* Operands of matrix instructions come from rows along K by ldmatrix, 16-bit ones from rows across it too, those of f64 by
 * plain loads; the eight rows of a matrix are in different banks; and each element comes from where it stands. */
static void
matrix_loads(void **state)
{
	(void)state;
	for (int i = 0; i < mma_count; i++)
		for (int side = 0; side < 4; side++) {
			const MmaInfo *m = &mma_info[i];
			if (is_simdgroup(m))
				continue;
			int bytes = dtype_tile_size(side & 1 ? m->b : m->a), along = side & 1 ? 0 : 1, across = side >> 1;
			Layout f = side & 1 ? mma_layout_b(m) : mma_layout_a(m), l;
			int shape[LAYOUT_RANK] = {0}, warps[LAYOUT_RANK] = {0};
			shape[along] = MAX(log2_of(32 / bytes), f.out[along]) + 1;
			shape[1 - along] = 6;
			l = layout_tile(&f, shape, warps);
			Layout shared = ring(shape, across ? 1 - along : along, bytes);
			F2 to;
			bool transposed = false;
			bool fits = layout_fits_matrix(&l, &shared, bytes, &to, &transposed);
			assert_int_equal(fits, bytes == 2 || (bytes <= 4 && !across));
			if (!fits)
				continue;
			assert_int_equal(transposed, across);
			assert_int_equal(layout_matrix_passes(&to, l.in[IN_REGISTER], bytes, transposed), 1);
			const uint64_t *lane = &to.col[l.in[IN_REGISTER]];
			uint64_t row[3] = {across ? to.col[0] : lane[2], across ? lane[0] : lane[3], across ? lane[1] : lane[4]};
			unsigned banks = 0;
			for (unsigned r = 0; r < 8; r++) {
				uint64_t at = 0;
				for (int b = 0; b < 3; b++)
					at ^= r >> b & 1 ? row[b] * (uint64_t)bytes : 0;
				assert_int_equal(at % 16, 0);
				banks |= 1u << (at / 16 % 8);
			}
			assert_int_equal(banks, 255);
			for (uint64_t x = 0; x < UINT64_C(1) << to.nin; x++)
				assert_int_equal(f2_apply(&shared.map, f2_apply(&to, x)), f2_apply(&l.map, x));
		}
}

/* Matrices of 8 x 8 in the block's memory: a fragment's elements stand where simdgroup_load takes them from, along rows or
 * across them; rows that are exclusive-ored by their number do not fit. */
static void
square_loads(void **state)
{
	(void)state;
	for (int i = 0; i < mma_count; i++)
		for (int turned = 0; turned < 2 && is_simdgroup(&mma_info[i]); turned++) {
			const int shape[LAYOUT_RANK] = {5, 6}, warps[LAYOUT_RANK] = {1, 1}, turn[LAYOUT_RANK] = {1, 0};
			Layout f = mma_layout_a(&mma_info[i]), l = layout_tile(&f, shape, warps);
			Layout matrices = layout_8x8(2, shape), swizzled = ring(shape, 1, 2);
			F2 to;
			int stride = 0;
			bool transposed = false;
			if (turned) {
				const int other[LAYOUT_RANK] = {6, 5};
				matrices = layout_8x8(2, other);
				l = layout_permute(&l, turn);
			}
			assert_true(layout_valid(&matrices) && f2_is_injective(&matrices.map));
			assert_true(layout_fits_8x8(&l, &matrices, &to, &stride, &transposed));
			assert_int_equal(stride, 8);
			assert_int_equal(transposed, turned);
			for (uint64_t x = 0; x < UINT64_C(1) << to.nin; x++)
				assert_int_equal(f2_apply(&matrices.map, f2_apply(&to, x)), f2_apply(&l.map, x));
			assert_false(!turned && layout_fits_8x8(&l, &swizzled, &to, &stride, &transposed));
		}
}

/* A warpgroup's accumulator: each warp 16 rows, pairs of columns, every element once. */
static void
warpgroups(void **state)
{
	(void)state;
	for (int i = 0; i < wgmma_count; i++) {
		Layout l = wgmma_layout_c(&wgmma_info[i]);
		uint32_t at[LAYOUT_RANK];
		assert_true(f2_is_injective(&l.map) && f2_is_surjective(&l.map));
		layout_element(&l, (uint32_t[IN_DIMS]){3, 6, 2, 0}, at);
		assert_int_equal(at[0], 2 * 16 + 8 + 6 / 4);
		assert_int_equal(at[1], 2 * (6 % 4) + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(fragments), cmocka_unit_test(choice),
	    cmocka_unit_test(matrix_loads), cmocka_unit_test(square_loads), cmocka_unit_test(warpgroups)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
