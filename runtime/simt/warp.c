/* Exchanges between the lanes of a warp, and arithmetic within one word.
 *
 * Lanes exchange values when all of them have arrived, so that the order of their arrival does not matter. */
#include <math.h>
#include <string.h>

#include "num/num.h"
#include "runtime/simt/prims.h"

/* ---- between lanes ---- */

static void
first_words(const SimtLanes *l, uint32_t *v)
{
	for (int k = 0; k < SIMT_LANES; k++)
		v[k] = (uint32_t)l->in[k][0];
}

/* Lane k takes the word of lane `from`; BY is the immediate. */
#define BY ((int)*(const int64_t *)info & (SIMT_LANES - 1))
#define SHUFFLE(name, from)                                                                        \
	static void name(const SimtLanes *l, const void *info)                                     \
	{                                                                                          \
		uint32_t v[SIMT_LANES];                                                            \
		first_words(l, v);                                                                 \
		for (int k = 0; k < SIMT_LANES; k++)                                               \
			l->out[k][0] = v[from];                                                    \
	}
SHUFFLE(shuffle, l->in[k][1] % SIMT_LANES)
SHUFFLE(shuffle_xor, k ^ BY)
#undef SHUFFLE
#undef BY

static void
set_all(const SimtLanes *l, uint64_t v)
{
	for (int k = 0; k < SIMT_LANES; k++)
		l->out[k][0] = v;
}

static void
vote_ballot(const SimtLanes *l, const void *info)
{
	uint32_t bits = 0;
	for (int k = 0; k < SIMT_LANES; k++)
		bits |= (uint32_t)(l->in[k][0] & 1) << k;
	set_all(l, bits);
}

static void
elect(const SimtLanes *l, const void *info)
{
	for (int k = 0; k < SIMT_LANES; k++)
		l->out[k][0] = k == 0;
}

/* Reductions: `a` is what the lanes before gave, `b` the next one's. */
#define REDUX(name, result)                                                                        \
	static void redux_##name(const SimtLanes *l, const void *info)                             \
	{                                                                                          \
		uint32_t v[SIMT_LANES], a;                                                         \
		first_words(l, v);                                                                 \
		a = v[0];                                                                          \
		for (int k = 1; k < SIMT_LANES; k++) {                                             \
			uint32_t b = v[k];                                                         \
			a = (result);                                                              \
		}                                                                                  \
		set_all(l, a);                                                                    \
	}
REDUX(add, a + b)
REDUX(min, (int32_t)a < (int32_t)b ? a : b)
REDUX(max, (int32_t)a > (int32_t)b ? a : b)
REDUX(umin, a < b ? a : b)
REDUX(umax, a > b ? a : b)
REDUX(and, a & b)
REDUX(or, a | b)
REDUX(xor, a ^ b)
#undef REDUX

#define COLLECTIVES(X)                                                                             \
	X(shuffle) X(shuffle_xor) X(vote_ballot) X(elect) X(redux_add) X(redux_min)                \
	X(redux_max) X(redux_umin)                                                                 \
	X(redux_umax) X(redux_and) X(redux_or) X(redux_xor)
#define X(name)                                                                                    \
	PRIMITIVE(simt_##name)                                                                     \
	{                                                                                          \
		simt_warp_collective(t, #name, name, imm, in, out);                                      \
	}
COLLECTIVES(X)
#undef X

/* ---- within a word ---- */

PRIMITIVE(simt_byte_permute)
{
	uint64_t all = (uint32_t)in[0] | in[1] << 32;
	uint32_t word = 0;
	for (int k = 0; k < 4; k++) {
		unsigned choice = in[2] >> (4 * k) & 15, byte = all >> (8 * (choice & 7)) & 255;
		if (choice & 8)
			byte = byte & 128 ? 255 : 0;    /* its sign, eight times */
		word |= byte << (8 * k);
	}
	out[0] = word;
}

PRIMITIVE(simt_and_xor)
{
	out[0] = (uint32_t)((in[0] & in[1]) ^ in[2]);
}

static float
float_of(uint64_t word)
{
	uint32_t bits = (uint32_t)word;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* A byte; of two as near the even one, of NaN 0. */
static uint64_t
rounded(uint64_t word, double least, double most)
{
	double f = (double)float_of(word);
	if (!(f >= least))
		f = f < least ? least : 0;
	return (uint64_t)(uint8_t)(int)nearbyint(f < most ? f : most);
}

/* Too large is the largest, a NaN stays one. */
static uint64_t
pack(DType type, const uint64_t *in)
{
	uint8_t byte[2];
	for (int k = 0; k < 2; k++)
		dtype_convert_f64(type, byte, k, (double)float_of(in[k]));
	return (uint64_t)byte[0] | (uint64_t)byte[1] << 8;
}

static uint64_t
unpack_e4m3(uint64_t word)
{
	uint8_t byte[2] = {(uint8_t)word, (uint8_t)(word >> 8)};
	uint16_t half[2];
	for (int k = 0; k < 2; k++)
		dtype_store_f64(TY_F16, half, k, dtype_load_f64(TY_F8E4M3, byte, k));
	return (uint64_t)half[0] | (uint64_t)half[1] << 16;
}

/* x * y + z of both halves of words; f64 holds them. */
static uint64_t
halves(DType type, uint64_t x, uint64_t y, uint64_t z)
{
	uint16_t v[3][2] = {{(uint16_t)x, (uint16_t)(x >> 16)}, {(uint16_t)y, (uint16_t)(y >> 16)},
		{(uint16_t)z, (uint16_t)(z >> 16)}};
	for (int k = 0; k < 2; k++)
		dtype_store_f64(type, v[0], k, dtype_load_f64(type, v[0], k) * dtype_load_f64(type, v[1], k) +
		    dtype_load_f64(type, v[2], k));
	return (uint64_t)v[0][0] | (uint64_t)v[0][1] << 16;
}

/* The lesser or greater of both halves: a number before NaN, -0 below 0. */
static uint64_t
lesser_halves(DType type, uint64_t x, uint64_t y, bool greater)
{
	uint64_t both = 0;
	for (int shift = 0; shift < 32; shift += 16) {
		uint16_t a = (uint16_t)(x >> shift), b = (uint16_t)(y >> shift);
		double v = dtype_load_f64(type, &a, 0), w = dtype_load_f64(type, &b, 0);
		bool less = v < w || (v == w && signbit(v) && !signbit(w));
		uint16_t one = isnan(v) ? b : isnan(w) || less != greater ? a : b;
		both |= (uint64_t)one << shift;
	}
	return both;
}

#define CONVERSION(symbol, result)                                                                 \
	PRIMITIVE(symbol)                                                                          \
	{                                                                                          \
		out[0] = result;                                                                   \
	}
CONVERSION(simt_round_s8, rounded(in[0], -128, 127) | rounded(in[1], -128, 127) << 8 | (in[2] & 0xffff) << 16)
CONVERSION(simt_round_u8, rounded(in[0], 0, 255) | rounded(in[1], 0, 255) << 8 | (in[2] & 0xffff) << 16)
CONVERSION(simt_pack_e4m3, pack(TY_F8E4M3, in))
CONVERSION(simt_pack_e5m2, pack(TY_F8E5M2, in))
CONVERSION(simt_unpack_e4m3, unpack_e4m3(in[0]))
CONVERSION(simt_halves_add_f16, halves(TY_F16, in[0], 0x3c003c00, in[1]))
CONVERSION(simt_halves_sub_f16, halves(TY_F16, in[1], 0xbc00bc00, in[0]))
CONVERSION(simt_halves_mul_f16, halves(TY_F16, in[0], in[1], 0x80008000))
CONVERSION(simt_halves_fma_f16, halves(TY_F16, in[0], in[1], in[2]))
CONVERSION(simt_halves_fma_bf16, halves(TY_BF16, in[0], in[1], in[2]))
CONVERSION(simt_halves_min_f16, lesser_halves(TY_F16, in[0], in[1], false))
CONVERSION(simt_halves_max_f16, lesser_halves(TY_F16, in[0], in[1], true))
CONVERSION(simt_halves_min_bf16, lesser_halves(TY_BF16, in[0], in[1], false))
CONVERSION(simt_halves_max_bf16, lesser_halves(TY_BF16, in[0], in[1], true))
#undef CONVERSION

/* To the nearest of 10 bits of fraction, away from zero between two. */
PRIMITIVE(simt_to_tf32)
{
	uint32_t v = (uint32_t)in[0], size = v & 0x7fffffff;
	if (size > 0x7f800000)
		out[0] = 0x7fffffff;
	else if (size == 0x7f800000)
		out[0] = v;
	else
		out[0] = (v + 0x1000) & 0xffffe000;
}

/* What Apple's GPUs alone have: no code that runs here has it. */
PRIMITIVE(simt_keep)
{
	out[0] = in[0];
}

PRIMITIVE(simt_never)
{
	die("a primitive of Apple's");
}

/* ---- fences: between this machine's threads, and for the checks ---- */

static void
fence(SimtThread *t, SimtFence kind)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	simt_mbarrier_fence(t);
	if (simt_launch(t)->checks)
		simt_fenced(t, kind);
}

PRIMITIVE(simt_fence_mbar)
{
	fence(t, SIMT_FENCE_MBAR);
}

PRIMITIVE(simt_fence_async)
{
	fence(t, SIMT_FENCE_ASYNC);
}

/* ---- other grids: launches run one after the other here, so that there is nothing to wait for ---- */

PRIMITIVE(simt_grid_next)
{
}

PRIMITIVE(simt_grid_wait)
{
	t->has_waited = true;
}

PRIMITIVE(simt_peek)
{
	uint32_t v = 0;
	if (in[1])
		memcpy(&v, (const void *)(uintptr_t)in[0], sizeof v);
	out[0] = v;
}

PRIMITIVE(simt_fetch_line)
{
}

/* ---- registers of a warpgroup: setmaxnreg must be reached by its four warps, and waits until those that others of the
 * block have given up are enough ---- */

static void
registers(const SimtLanes *l, const void *info)
{
	static const int key = 0;
	SimtThread *t = l->thread[0];
	const SimtLaunch *launch = simt_launch(t);
	Arena *mem = simt_async(t)->mem;                /* before the slot, which it may move */
	void **slot = simt_block_local(t, &key);
	int64_t n = *(const int64_t *)info, all = 0;
	int groups = launch->threads / l->n;
	if (n < 24 || n > 256 || n % 8)
		simt_fail(t, "setmaxnreg of %lld registers; it takes 24 to 256, by eights", (long long)n);
	*slot = *slot ? *slot : NEW_ARRAY(mem, int, groups);
	int *of = *slot;
	of[t->thread / l->n] = (int)n;
	for (int i = 0; i < groups; i++)
		all += of[i] * l->n;
	if (all > launch->target->registers)
		simt_fail(t, "setmaxnreg: the block's warpgroups ask for %lld registers; %s has %d", (long long)all,
		    launch->target->name, launch->target->registers);
}

PRIMITIVE(simt_registers_more)
{
	simt_group_collective(t, "registers_more", registers, imm, in, out);
}

PRIMITIVE(simt_registers_less)
{
	simt_group_collective(t, "registers_less", registers, imm, in, out);
}
