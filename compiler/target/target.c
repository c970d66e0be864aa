/* The rows, and finding one.  Figures of NVIDIA chips: CUDA C++ Programming Guide 13, "Technical Specifications per
 * Compute Capability"; of Apple's: Metal Feature Set Tables. */
#include "target/target.h"

#include <string.h>

enum { KB = 1024 };

#define SM_75 (HAS_LDMATRIX | HAS_F64 | HAS_MMA_SYNC | HAS_ATOMIC_NARROW | HAS_ATOMIC_64 | HAS_ATOMIC_ORDER | \
	HAS_LONG_DIVIDE | HAS_PIPELINES | HAS_PRINTF | HAS_LANE_LOOKUPS)
#define SM_80 (SM_75 | HAS_CP_ASYNC | HAS_BF16 | HAS_REDUX | HAS_MBARRIER)
#define SM_89 (SM_80 | HAS_FP8)
#define SM_90A (SM_89 | HAS_STMATRIX | HAS_TMA | HAS_WGMMA | HAS_SETMAXNREG | HAS_CLUSTER | HAS_GRID_WAIT | \
	HAS_ATOMIC_PAIRS)
#define SM_100A (SM_89 | HAS_STMATRIX | HAS_TMA | HAS_TCGEN05 | HAS_SETMAXNREG | HAS_CLUSTER | \
	HAS_GRID_WAIT | HAS_ATOMIC_PAIRS)
#define SM_120A (SM_89 | HAS_FP8_SYNC | HAS_STMATRIX | HAS_TMA | HAS_SETMAXNREG | HAS_CLUSTER | HAS_GRID_WAIT | \
	HAS_ATOMIC_PAIRS)

#define NVIDIA                                                                                     \
	.kind = TARGET_PTX, .lanes = 32, .max_threads = 1024, .registers = 65536, .max_registers = 255, \
	.vector_bytes = 16, .tile_bytes = 8 * KB

/* Registers and threadgroup memory of a core (64 KB: philipturner/metal-benchmarks) and how many simdgroups it holds are
 * measured, by others; Apple names none of them.  Sums: a simdgroup of
 * the products that MLX and llama.cpp ship holds 16 to 32 matrices of 8 x 8, two elements of each in a lane. */
#define APPLE                                                                                      \
	.kind = TARGET_METAL, .lanes = 32, .max_threads = 1024, .registers = 53248, .max_registers = 128,  \
	.vector_bytes = 16, .tile_bytes = 8 * KB, .shared_bytes = 32 * KB, .shared_bytes_unit = 64 * KB,   \
	.max_warps = 96, .most_sums = 64,                                                          \
	.has = HAS_SIMDGROUP_MATRIX | HAS_BF16 | HAS_SIMD_REDUCE | HAS_REDUX,                              \
	.functions = " exp exp2 log log2 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan atan2 pow "

/* None of these is measured here.  Cores, and clocks by teraflops (256 a cycle of a core): Apple's announcements of M1, M2
 * and M3.  Rates and latencies of an M1: "iGPU Cache Setups Compared, Including M1" (Chips and Cheese, May 2022): 50.4 GB/s
 * of 68.25 and 311 ns of memory, 384 GB/s of the L2 cache, 671 GB/s and 43 ns of threadgroup memory; of M2 and M3 the same
 * share of memory's 100 GB/s, and the M1's cycles.  The barrier is a guess. */
#define APPLE_FIGURES(name, cores, mhz, bytes)                                                           \
	{.card = name, .multiprocessors = cores, .clock = mhz, .memory_rate = bytes, .l2_rate = 37,        \
	    .shared_rate = 65,                                                                             \
	    .products_warp = 128, .special_rate = 32, .integer_rate = 1, .issue_rate = 1, .issue_alone = 4,     \
	    .latency = 400, .shared_latency = 55, .barrier = 40}
static const TargetRates figures_m1 = APPLE_FIGURES("M1", 8, 1278, 39);
static const TargetRates figures_m2 = APPLE_FIGURES("M2", 10, 1398, 53);
static const TargetRates figures_m3 = APPLE_FIGURES("M3", 10, 1380, 53);

/* An H200 at 1.75 GHz. */
static const TargetRates rates_h200 = {
	.card = "H200",
	.multiprocessors = 132, .clock = 1750,          /* data sheet; under load */
	.clustered = 120,                               /* seven GPCs of 16 to 18, one of 8: bench/results/h200-matmul.md */
	.memory_rate = 2500,                            /* a copy's 4.4 TB/s, bench/results/h200-peers.md */
	.l2_bytes = 60e6,                               /* what the driver says */
	.l2_rate = 46,                                  /* products bound by it, bench/results/h200-matmul.md */
	.atomic_line = 4.4, .atomic_rate = 41,          /* measured: cost_atomics in work.c */
	.products_warp = 1200, .products_warpgroup = 2048,      /* the same */
	.products_double = 128,                         /* data sheet: 67 teraflops */
	.special_rate = 16,                             /* CUDA C++ Programming Guide, Arithmetic Instructions */
	.integer_rate = 0.5,                            /* the same: half of all lanes */
	.issue_rate = 0.93, .issue_alone = 2.5,          /* fitted, bench/results/h200-warps.md, as what follows */
	.latency = 700, .shared_latency = 30, .shuffle_latency = 24, .barrier = 30,
	.start_latency = 400, .start_block = 139,
};

/* None of these is measured here.  Multiprocessors and clocks: data sheets of the A100 (SXM, 80 GB), the L40S and the B200;
 * memory: the 0.92 of the data sheet's 2039, 864 and 8000 GB/s that a copy has on an H200.  Products of 16 bits: the A100's
 * 312 and the L40S's 362 dense teraflops, of f64 19.5, 1.4 and 40; the B200's of 16 bits are tcgen05's, which nothing
 * here uses, so that it has an A100's.  L2 cache: 5120 bytes a cycle (A100 whitepaper), others as an H200's.  Special
 * functions: CUDA C++ Programming Guide, Arithmetic Instructions.  Latency of memory: an H200's nanoseconds; of the
 * rest, and blocks' starts: its cycles. */
#define NVIDIA_FIGURES(name, cores, mhz, bytes, cache, l2, fma, fma_double, memory)                      \
	{.is_public = true, .card = name, .multiprocessors = cores, .clock = mhz, .memory_rate = bytes,     \
	    .l2_bytes = cache, .l2_rate = l2, .products_warp = fma, .products_warpgroup = fma,             \
	    .products_double = fma_double,                                                                 \
	    .atomic_line = 4.4, .atomic_rate = 41,                                                         \
	    .special_rate = 16, .integer_rate = 0.5, .issue_rate = 0.93, .issue_alone = 2.5,                   \
	    .latency = memory, .shared_latency = 30, .shuffle_latency = 24, .barrier = 30,                     \
	    .start_latency = 400, .start_block = 139}
static const TargetRates rates_a100 = NVIDIA_FIGURES("A100", 108, 1410, 1330, 40e6, 47, 1024, 64, 564);
static const TargetRates rates_l40s = NVIDIA_FIGURES("L40S", 142, 2520, 315, 96e6, 46, 512, 2, 1008);
static const TargetRates rates_b200 = NVIDIA_FIGURES("B200", 148, 1850, 3980, 126e6, 46, 1024, 64, 740);

/* Caches and vectors of x86-64 cores with AVX2 (AMD EPYC, two cores of a shared machine), where the rest was fitted to
 * times of the kernels in bench/results/cpu-tiles.md.  Cores: of most machines. */
static const TargetRates rates_cpu = {.multiprocessors = 8, .clock = 1000};
const CpuRow cpu_row = {
	.target = {.name = "cpu", .lanes = 1, .tile_bytes = 32 * KB, .rates = &rates_cpu},
	.cores = 8, .vector_bytes = 32, .l1_bytes = 32 * KB, .l2_bytes = 1024 * KB,
	.program = 80, .step = 30, .vector = 0.5, .special = 1.5, .l1_byte = 0.015, .l2_byte = 0.03, .memory_byte = 0.1,
	.product = 0.025,
};

static const Target targets[] = {
	{NVIDIA, .name = "sm_75", .capability = 75, .cpu = "sm_75", .features = "+ptx70", .has = SM_75,
	    .shared_bytes = 64 * KB, .shared_bytes_unit = 64 * KB, .max_warps = 32},
	{NVIDIA, .name = "sm_80", .capability = 80, .cpu = "sm_80", .features = "+ptx74", .has = SM_80,
	    .shared_bytes = 163 * KB, .shared_bytes_unit = 164 * KB, .max_warps = 64, .rates = &rates_a100},
	{NVIDIA, .name = "sm_86", .capability = 86, .cpu = "sm_86", .features = "+ptx74", .has = SM_80,
	    .shared_bytes = 99 * KB, .shared_bytes_unit = 100 * KB, .max_warps = 48},
	{NVIDIA, .name = "sm_89", .capability = 89, .cpu = "sm_89", .features = "+ptx84", .has = SM_89 | HAS_FP8_SYNC,
	    .shared_bytes = 99 * KB, .shared_bytes_unit = 100 * KB, .max_warps = 48, .rates = &rates_l40s},
	{NVIDIA, .name = "sm_90a", .capability = 90, .cpu = "sm_90a", .features = "+ptx84", .has = SM_90A,
	    .shared_bytes = 227 * KB, .shared_bytes_unit = 228 * KB, .max_warps = 64, .rates = &rates_h200},
	{NVIDIA, .name = "sm_100a", .capability = 100, .cpu = "sm_100a", .features = "+ptx86", .has = SM_100A,
	    .shared_bytes = 227 * KB, .shared_bytes_unit = 228 * KB, .max_warps = 64, .unused = "tcgen05",
	    .rates = &rates_b200},
	{NVIDIA, .name = "sm_120a", .capability = 120, .cpu = "sm_120a", .features = "+ptx87", .has = SM_120A,
	    .shared_bytes = 99 * KB, .shared_bytes_unit = 100 * KB, .max_warps = 48,
	    .unused = "mma with block scales (mxf8f6f4, mxf4)"},
	{APPLE, .name = "apple7", .capability = 7, .figures = &figures_m1},
	{APPLE, .name = "apple8", .capability = 8, .figures = &figures_m2},
	{APPLE, .name = "apple9", .capability = 9, .figures = &figures_m3},
};

/* A fragment is a linear map: for each register bit and each lane bit the element it moves to, as a row and a column in a
 * matrix of 2^log columns. */
#define AT(row, col, log) ((uint64_t)(row) << (log) | (uint64_t)(col))
#define ROWS(log) AT(1, 0, log), AT(2, 0, log), AT(4, 0, log)
#define COLS AT(0, 1, 3), AT(0, 2, 3), AT(0, 4, 3)

/* Accumulators: pairs of columns, then row + 8; lanes: 4 pairs, 8 rows. */
static const Fragment C_16x8 = {2, {AT(0, 1, 3), AT(8, 0, 3)}, {AT(0, 2, 3), AT(0, 4, 3), ROWS(3)}};
static const Fragment C_8x8 = {1, {AT(0, 1, 3)}, {AT(0, 2, 3), AT(0, 4, 3), ROWS(3)}};
/* 16-bit operands. */
static const Fragment A_16x16 = {3, {AT(0, 1, 4), AT(8, 0, 4), AT(0, 8, 4)}, {AT(0, 2, 4), AT(0, 4, 4), ROWS(4)}};
static const Fragment B_16x8 = {2, {AT(1, 0, 3), AT(8, 0, 3)}, {AT(2, 0, 3), AT(4, 0, 3), COLS}};
static const Fragment A_16x8_H = {2, {AT(0, 1, 3), AT(8, 0, 3)}, {AT(0, 2, 3), AT(0, 4, 3), ROWS(3)}};
static const Fragment B_8x8_H = {1, {AT(1, 0, 3)}, {AT(2, 0, 3), AT(4, 0, 3), COLS}};
/* 32-bit operands (tf32), and of f64. */
static const Fragment A_16x8_T = {2, {AT(8, 0, 3), AT(0, 4, 3)}, {AT(0, 1, 3), AT(0, 2, 3), ROWS(3)}};
static const Fragment B_8x8_T = {1, {AT(4, 0, 3)}, {AT(1, 0, 3), AT(2, 0, 3), COLS}};
static const Fragment A_16x16_D = {3, {AT(8, 0, 4), AT(0, 4, 4), AT(0, 8, 4)}, {AT(0, 1, 4), AT(0, 2, 4), ROWS(4)}};
static const Fragment B_16x8_D = {2, {AT(4, 0, 3), AT(8, 0, 3)}, {AT(1, 0, 3), AT(2, 0, 3), COLS}};
static const Fragment A_8x4 = {0, {0}, {AT(0, 1, 2), AT(0, 2, 2), ROWS(2)}};
static const Fragment B_4x8 = {0, {0}, {AT(1, 0, 3), AT(2, 0, 3), COLS}};
/* Apple's 8 x 8 matrices, all three operands alike: Metal does not specify it, all of its GPUs so far have it. */
static const Fragment S_8x8 = {
    1, {AT(0, 1, 3)}, {AT(0, 2, 3), AT(1, 0, 3), AT(2, 0, 3), AT(0, 4, 3), AT(4, 0, 3)}};
/* 8-bit operands. */
static const Fragment A_16x32 = {
    4, {AT(0, 1, 5), AT(0, 2, 5), AT(8, 0, 5), AT(0, 16, 5)}, {AT(0, 4, 5), AT(0, 8, 5), ROWS(5)}};
static const Fragment B_32x8 = {3, {AT(1, 0, 3), AT(2, 0, 3), AT(16, 0, 3)}, {AT(4, 0, 3), AT(8, 0, 3), COLS}};
static const Fragment A_8x16 = {2, {AT(0, 1, 4), AT(0, 2, 4)}, {AT(0, 4, 4), AT(0, 8, 4), ROWS(4)}};
static const Fragment B_16x8_8 = {2, {AT(1, 0, 3), AT(2, 0, 3)}, {AT(4, 0, 3), AT(8, 0, 3), COLS}};

const MmaInfo mma_info[] = {
#define MMA(text, m_, n_, k_, w, ta, tb, tc, needs_, least_, fa, fb, fc)                           \
	{.name = text, .m = m_, .n = n_, .k = k_, .warps = w, .a = TY_##ta, .b = TY_##tb,          \
	    .acc = TY_##tc, .needs = needs_, .least = least_, .fragment_a = &fa, .fragment_b = &fb, .fragment_c = &fc},
#include "target/mma.def"
};
const int mma_count = LEN(mma_info);

const WgmmaInfo wgmma_info[] = {
#define WGMMA(text, n_, k_, ta, tb, tc, needs_, least_, fa)                                        \
	{.name = text, .n = n_, .k = k_, .a = TY_##ta, .b = TY_##tb, .acc = TY_##tc, .needs = needs_, .least = least_,  \
	    .fragment_a = &fa},
#include "target/mma.def"
};
const int wgmma_count = LEN(wgmma_info);

const Target *
target_at(int i)
{
	return i >= 0 && i < LEN(targets) ? &targets[i] : NULL;
}

const Target *
target_named(const char *name)
{
	return VALUE_OF(i, LEN(targets), strcmp(targets[i].name, name) == 0, &targets[i], NULL);
}

/* Multiples of 8 from 24 to 256 (PTX ISA, setmaxnreg), of which the warpgroups of a block have at most the multiprocessor's
 * 65536 registers together, and no more than the block is launched with.  They are the shares of CUTLASS (40 and 232) and
 * FlashAttention 3 (32 and 160), for one warpgroup what a thread can use, and for four what 640 threads of 96 leave. */
const int *
target_role_registers(const Target *t, int warpgroups)
{
	static const int split[][2] = {{56, 240}, {40, 232}, {32, 160}, {32, 112}};

	return t->has & HAS_SETMAXNREG && warpgroups >= 1 && warpgroups <= LEN(split) ? split[warpgroups - 1] : NULL;
}

/* The same where the producer's threads hold addresses of rows: measured by what ptxas needs of 8 rows with bounds along
 * three dimensions (conv2d), and what is left still holds 128 x 256 sums of two warpgroups. */
const int *
target_gather_registers(const Target *t, int warpgroups)
{
	static const int split[][2] = {{104, 240}, {104, 200}, {80, 144}, {64, 104}};

	return t->has & HAS_SETMAXNREG && warpgroups >= 1 && warpgroups <= LEN(split) ? split[warpgroups - 1] : NULL;
}

int
target_registers(const Target *t, int warps)
{
	enum { UNIT = 8 };                              /* of 32 threads' registers: allocated by 256 (Programming Guide) */
	return MIN(t->registers / (t->lanes * warps) / UNIT * UNIT, t->max_registers);
}

/* The sums, a left operand's fragment, and 26 more: ptxas 13.0 refuses n = 144, 160, 176, 192 and 208 with fewer than 98,
 * 106, 114, 122 and 130, and with 4 more each where A is in registers (C7602). */
int
wgmma_registers(int n, bool register_a)
{
	enum { BESIDE = 26, FRAGMENT = 4 };
	return n / 2 + BESIDE + (register_a ? FRAGMENT : 0);
}

bool
target_has_function(const Target *t, const char *name)
{
	return words_have(t->functions, name);
}

bool
target_has_mma(const Target *t, const MmaInfo *i)
{
	return t->capability >= i->least && !(i->needs & ~t->has);
}

const MmaInfo *
mma_named(const char *name)
{
	return VALUE_OF(i, mma_count, strcmp(mma_info[i].name, name) == 0, &mma_info[i], NULL);
}

const WgmmaInfo *
wgmma_named(const char *name)
{
	static const char prefix[] = "wgmma.n";
	enum { LENGTH = sizeof prefix - 1 };
	if (strncmp(name, prefix, LENGTH) != 0)
		return NULL;
	return VALUE_OF(i, wgmma_count, strcmp(wgmma_info[i].name + LENGTH, name + LENGTH) == 0,
	    &wgmma_info[i], NULL);
}

bool
target_has_wgmma(const Target *t, const WgmmaInfo *i)
{
	return t->capability >= i->least && !(i->needs & ~t->has);
}

const WgmmaInfo *
target_wgmma(const Target *t, DType a, DType b, DType acc, int64_t n)
{
	const WgmmaInfo *best = NULL;
	for (int i = 0; i < wgmma_count; i++) {
		const WgmmaInfo *w = &wgmma_info[i];
		bool fits = w->a == a && w->b == b && w->acc == acc && w->n <= n && target_has_wgmma(t, w);
		if (fits && (!best || w->n > best->n))
			best = w;
	}
	return best;
}

bool
target_has_product(const Target *t, const char *name)
{
	const MmaInfo *m = mma_named(name);
	const WgmmaInfo *w = m ? NULL : wgmma_named(name);
	if (m)
		return !t || target_has_mma(t, m);
	return w && (!t || target_has_wgmma(t, w));
}

static Layout
fragment(int rows, int cols, const Fragment *f)
{
	uint64_t col[MMA_REG_BITS + MMA_LANE_BITS];
	int shape[LAYOUT_RANK] = {log2_ceil(rows), log2_ceil(cols)}, in[IN_DIMS] = {f->reg_bits, MMA_LANE_BITS};
	memcpy(col, f->reg, sizeof *f->reg * (size_t)f->reg_bits);
	memcpy(col + f->reg_bits, f->lane, sizeof f->lane);
	return layout_fragment(2, shape, in, col);
}

Layout
mma_layout_a(const MmaInfo *i)
{
	return fragment(i->m, i->k, i->fragment_a);
}

Layout
mma_layout_b(const MmaInfo *i)
{
	return fragment(i->k, i->n, i->fragment_b);
}

Layout
mma_layout_c(const MmaInfo *i)
{
	return fragment(i->m, i->n, i->fragment_c);
}

Layout
wgmma_layout_c(const WgmmaInfo *i)
{
	int cols = log2_ceil(i->n), n = 0, shape[LAYOUT_RANK] = {6, cols};
	uint64_t col[F2_MAX];
	col[n++] = 1;
	col[n++] = UINT64_C(8) << cols;
	for (int b = 3; b < cols; b++)
		col[n++] = UINT64_C(1) << b;
	int in[IN_DIMS] = {n, 5, 2};
	col[n++] = 2;
	col[n++] = 4;
	for (int b = 0; b < 5; b++)
		col[n++] = UINT64_C(1) << (b < 3 ? b : b + 1) << cols;
	return layout_fragment(2, shape, in, col);
}

Layout
wgmma_layout_a(const WgmmaInfo *i)
{
	return fragment(16, i->k, i->fragment_a);
}
