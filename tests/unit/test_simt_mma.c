/* Matrix instructions of the emulator: every row of mma.def for a warp, from operands put into registers by the PTX ISA's
 * formulas, against sums in f64. */
#include <stdio.h>
#include <time.h>

#include "fragment_help.h"
#include "layout_help.h"
#include "simt_help.h"

typedef struct Case {
	const MmaInfo *m;
	uint32_t a[16][32], b[32][8];                   /* bits of the elements */
	uint32_t c[16][8], out[16][8];
	int turns;
} Case;

/* One lane's words. */
static void
pack(const MmaInfo *m, const Case *x, bool is_a, int lane, int words, uint32_t *out)
{
	int bits = dtype_info[is_a ? m->a : m->b].bits, per = 32 / bits;
	memset(out, 0, sizeof *out * (size_t)words);
	for (int i = 0; i < words * per; i++) {
		At at = (is_a ? a_of : b_of)(m, (uint32_t)lane / 4, (uint32_t)lane % 4, (uint32_t)i);
		uint32_t v = is_a ? x->a[at.row][at.col] : x->b[at.row][at.col];
		out[i / per] |= v << (bits * (i % per));
	}
}

static void
body(SimtThread *t, void *user)
{
	Case *x = user;
	const MmaInfo *m = x->m;
	MmaWords w = mma_words(m);
	uint32_t a[8], b[8], c[8];
	pack(m, x, true, t->lane, w.a, a);
	pack(m, x, false, t->lane, w.b, b);
	for (int i = 0; i < w.c; i++) {
		At at = c_of(m, (uint32_t)t->lane / 4, (uint32_t)t->lane % 4, (uint32_t)i);
		c[i] = x->c[at.row][at.col];
	}
	for (int i = 0; i < x->turns; i++)
		simt_mma(t, m, a, b, c, c);
	for (int i = 0; i < w.c; i++) {
		At at = c_of(m, (uint32_t)t->lane / 4, (uint32_t)t->lane % 4, (uint32_t)i);
		x->out[at.row][at.col] = c[i];
	}
}

/* Elements whose products and sums are exact: whole numbers from -2 to 2. */
static uint32_t
small(DType t, uint64_t *s)
{
	int v = (int)(random_word(s) % 5) - (t == TY_U8 ? 0 : 2);
	if (t == TY_I8 || t == TY_U8)
		return (uint32_t)v & 255;
	if (t == TY_F32)
		return (uint32_t)bits_of((float)v) | (uint32_t)(random_word(s) & 0x1fff);       /* bits that don't count */
	for (uint32_t bits = 0;; bits++)
		if (value_of(t, bits) == v)
			return bits;
}

static uint32_t
any(DType t, uint64_t *s)
{
	int bits = dtype_info[t].bits;
	for (;;) {
		uint32_t v = (uint32_t)random_word(s) & (bits == 32 ? 0xffffffff : (1u << bits) - 1);
		if (dtype_is_float(t) && bits > 8)      /* not so large that sums overflow */
			v = (v & ~(t == TY_F16 ? 0x6000u : t == TY_BF16 ? 0x7c00u : 0x7c000000u)) |
			    (t == TY_F16 ? 0 : t == TY_BF16 ? 0x3c00u : 0x3c000000u);
		if (!dtype_is_float(t) || isfinite(value_of(t, v)))
			return v;
	}
}

static void
fill(Case *x, uint32_t (*element)(DType, uint64_t *), uint64_t *s)
{
	for (int i = 0; i < x->m->m; i++)
		for (int k = 0; k < x->m->k; k++)
			x->a[i][k] = element(x->m->a, s);
	for (int k = 0; k < x->m->k; k++)
		for (int j = 0; j < x->m->n; j++)
			x->b[k][j] = element(x->m->b, s);
}

static void
judge(const Case *x)
{
	const MmaInfo *m = x->m;
	for (int i = 0; i < m->m; i++)
		for (int j = 0; j < m->n; j++) {
			double sum = 0, size = 0;
			int64_t whole = 0;
			for (int k = 0; k < m->k; k++) {
				double p = value_of(m->a, x->a[i][k]) * value_of(m->b, x->b[k][j]);
				sum += p;
				size += fabs(p);
				whole += (int64_t)p;
			}
			if (m->acc == TY_I32) {
				assert_int_equal(x->out[i][j], (uint32_t)((int64_t)x->c[i][j] + x->turns * whole));
				continue;
			}
			double want = float_of(x->c[i][j]) + x->turns * sum, got = float_of(x->out[i][j]);
			size = x->turns * (size + fabs(float_of(x->c[i][j])) + fabs(sum));
			if (!(fabs(got - want) <= size * 40 * 0x1p-24))
				fail_msg("%s: [%d, %d] is %g, not %g", m->name, i, j, got, want);
		}
}

static void
rows(void **state)
{
	uint64_t s = 99;
	for (int i = 0; i < mma_count; i++)
		for (int trial = 0; trial < 6 && !is_simdgroup(&mma_info[i]) && mma_info[i].a != TY_F64; trial++) {
			static const int turns[] = {1, 3};
			Case x = {.m = &mma_info[i], .turns = turns[trial % 2]};
			bool is_exact = trial < 3;
			fill(&x, is_exact ? small : any, &s);
			for (int r = 0; r < 16; r++)
				for (int c = 0; c < 8; c++)
					x.c[r][c] = x.m->acc == TY_I32 ? (uint32_t)random_word(&s) :
					    (uint32_t)bits_of((float)(int)(random_word(&s) % 64) - 32);
			runs(body, &x, (SimtLaunch){.seed = (uint64_t)trial});
			judge(&x);
			if (!is_exact || x.m->acc == TY_I32)
				continue;
			for (int r = 0; r < x.m->m; r++)
				for (int c = 0; c < x.m->n; c++) {
					double sum = 0;
					for (int k = 0; k < x.m->k; k++)
						sum += value_of(x.m->a, x.a[r][k]) * value_of(x.m->b, x.b[k][c]);
					assert_true(float_of(x.out[r][c]) == float_of(x.c[r][c]) + x.turns * sum);
				}
		}
}

typedef struct Doubles {
	const MmaInfo *m;
	double a[16][16], b[16][8], c[16][8], out[16][8];
} Doubles;

static void
body_doubles(SimtThread *t, void *user)
{
	Doubles *x = user;
	const MmaInfo *m = x->m;
	MmaWords w = mma_words(m);
	uint32_t g = (uint32_t)t->lane / 4, in_group = (uint32_t)t->lane % 4;
	double a[8], b[4], c[4];
	for (int i = 0; i < w.a; i++) {
		At at = a_of(m, g, in_group, (uint32_t)i);
		a[i] = x->a[at.row][at.col];
	}
	for (int i = 0; i < w.b; i++) {
		At at = b_of(m, g, in_group, (uint32_t)i);
		b[i] = x->b[at.row][at.col];
	}
	for (int i = 0; i < w.c; i++) {
		At at = c_of(m, g, in_group, (uint32_t)i);
		c[i] = x->c[at.row][at.col];
	}
	simt_mma(t, m, a, b, c, c);
	for (int i = 0; i < w.c; i++) {
		At at = c_of(m, g, in_group, (uint32_t)i);
		x->out[at.row][at.col] = c[i];
	}
}

/* Of f64, whose products do not fit f32: numbers of 40 bits, whose sums are exact. */
static void
doubles(void **state)
{
	uint64_t s = 7;
	int seen = 0;
	for (int i = 0; i < mma_count; i++) {
		Doubles x = {.m = &mma_info[i]};
		if (x.m->a != TY_F64)
			continue;
		seen++;
		for (int r = 0; r < 16; r++)
			for (int k = 0; k < 16; k++)
				x.a[r][k] = (double)(random_word(&s) >> 24);
		for (int k = 0; k < 16; k++)
			for (int c = 0; c < 8; c++) {
				x.b[k][c] = (double)(int)(random_word(&s) % 15) - 7;
				x.c[k][c] = (double)(random_word(&s) >> 24);
			}
		runs(body_doubles, &x, (SimtLaunch){.seed = (uint64_t)i});
		for (int r = 0; r < x.m->m; r++)
			for (int c = 0; c < x.m->n; c++) {
				double sum = x.c[r][c];
				for (int k = 0; k < x.m->k; k++)
					sum += x.a[r][k] * x.b[k][c];
				assert_true(x.out[r][c] == sum);
			}
	}
	assert_int_equal(seen, 3);
}

/* Every pattern of an element times 1: the value itself, denormals, infinities and NaNs too. */
static void
patterns(void **state)
{
	for (int i = 0; i < mma_count; i++) {
		const MmaInfo *m = &mma_info[i];
		if (is_simdgroup(m) || m->a == TY_F64)
			continue;
		int bits = MIN(dtype_info[m->a].bits, 16), up = dtype_info[m->a].bits - bits;
		uint32_t one = 0;
		while (value_of(m->b, one << (dtype_info[m->b].bits == 32 ? 16 : 0)) != 1)
			one++;
		one <<= dtype_info[m->b].bits == 32 ? 16 : 0;
		for (uint32_t v = 0; v < 1u << bits; v += 16) {
			Case x = {.m = m, .turns = 1};
			for (uint32_t r = 0; r < (uint32_t)MIN(m->m, 16); r++)
				x.a[r][r % 8] = (v + r) << up;
			for (int c = 0; c < 8; c++)
				x.b[c][c] = one;
			runs(body, &x, (SimtLaunch){0});
			for (uint32_t r = 0; r < (uint32_t)m->m; r++) {
				double want = value_of(m->a, x.a[r][r % 8]);
				double got = m->acc == TY_I32 ? (int32_t)x.out[r][r % 8] : float_of(x.out[r][r % 8]);
				if (!(isnan(want) ? isnan(got) : got == want))
					fail_msg("%s: pattern %x gives %g, not %g", m->name, x.a[r][r % 8], got, want);
			}
			v += bits == 16 && v > 64 ? 16 * 37 : 0;
		}
	}
}

/* The layouts that passes use are those of the instructions as they run: an element of A alone, found by its layout. */
static void
layouts(void **state)
{
	for (int i = 0; i < mma_count; i++) {
		const MmaInfo *m = &mma_info[i];
		Layout l[] = {mma_layout_a(m), mma_layout_b(m), mma_layout_c(m)};
		At (*of[])(const MmaInfo *, uint32_t, uint32_t, uint32_t) = {a_of, b_of, c_of};
		for (int which = 0; which < 3; which++)
			for (uint32_t lane = 0; lane < 32; lane++)
				for (uint32_t r = 0; r < 1u << l[which].in[IN_REGISTER]; r++) {
					uint32_t at[LAYOUT_RANK];
					layout_element(&l[which], (uint32_t[IN_DIMS]){r, lane, 0, 0}, at);
					At want = of[which](m, lane / 4, lane % 4, r);
					assert_true(at[0] == want.row && at[1] == want.col);
				}
	}
}

static void
body_part(SimtThread *t, void *user)
{
	Case *x = user;
	if (t->lane != 5)
		body(t, x);
}

static void
divergence(void **state)
{
	Case x = {.m = &mma_info[0], .turns = 1};
	fails(body_part, &x, (SimtLaunch){0}, x.m->name);
}

/* `test_simt_mma time`: instructions a second of one OS thread. */
static void
body_time(SimtThread *t, void *user)
{
	const MmaInfo *m = user;
	uint64_t a[8] = {0}, b[8] = {0}, c[8] = {0};    /* the widest: of f64 */
	for (int i = 0; i < 16; i++)
		simt_mma(t, m, a, b, c, c);
}

static int
timing(void)
{
	for (int i = 0; i < mma_count && !is_simdgroup(&mma_info[i]); i++) {
		struct timespec from, to;
		enum { BLOCKS = 2000 };
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
		runs(body_time, (void *)(uintptr_t)&mma_info[i], (SimtLaunch){.threads = 256, .nblocks = BLOCKS});
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
		double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
		printf("%-20s %8.0f blocks/s of 256 threads with 16 a warp\n", mma_info[i].name, BLOCKS / s);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows), cmocka_unit_test(doubles), cmocka_unit_test(patterns), cmocka_unit_test(layouts), cmocka_unit_test(divergence),
	};
	if (argc > 1 && strcmp(argv[1], "time") == 0)
		return timing();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
