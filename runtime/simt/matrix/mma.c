/* Matrix instructions of a warp, by their definition: the operands are put together from the lanes' registers by the
 * instruction's fragments, multiplied, and taken apart again.
 *
 * Products of 16-bit floats, of fp8 and of tf32 are exact in f32, and sums of products of bytes are less than 2^24, so
 * that all of them are computed in f32; integers are added to the accumulator as integers, which wrap.  A product's sum
 * over k is added to the accumulator last. */
#include <math.h>
#include <string.h>

#include "runtime/simt/prims.h"

enum { MOST = 16 * 32, WIDE = 8 };                      /* elements of an operand; floats of a vector */

#define INLINE static inline __attribute__((always_inline))

/* ---- elements to floats, eight at a time (vectors stay local: not all compilers agree how they are passed) ---- */

typedef float Floats __attribute__((vector_size(4 * WIDE)));
typedef uint32_t Words __attribute__((vector_size(4 * WIDE)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDE)));
typedef uint16_t Halves __attribute__((vector_size(2 * WIDE)));
typedef uint8_t Bytes __attribute__((vector_size(WIDE)));

/* Floats of `bits` bits without their sign, whose fraction begins `up` bits further up in an f32; there they are too small
 * by the difference of the exponents, which `scale` makes good.  From `special` on they are infinite or no numbers. */
INLINE void
small_floats(const Words *v, int bits, int up, float scale, int special, float *out)
{
	Words size = *v & ((1u << bits) - 1);
	Words all = (Words)((Floats)(size << up) * scale);
	all |= (Words)((Ints)size >= special) & 0x7f800000u;
	all |= (*v >> bits & 1) << 31;
	memcpy(out, &all, sizeof all);
}

INLINE void
halves(const uint8_t *in, Words *out)
{
	Halves h;
	memcpy(&h, in, sizeof h);
	*out = __builtin_convertvector(h, Words);
}

INLINE void
bytes(const uint8_t *in, Words *out)
{
	Bytes b;
	memcpy(&b, in, sizeof b);
	*out = __builtin_convertvector(b, Words);
}

INLINE void
whole_numbers(const Words *v, int flip, float *out)
{
	Floats f = __builtin_convertvector((Ints)(*v ^ (uint32_t)flip) - flip, Floats);
	memcpy(out, &f, sizeof f);
}

/* e4m3 has no infinity: the greatest pattern is a NaN.  Of tf32 the instruction does not look at the low 13 bits. */
INLINE void
floats(DType type, const uint8_t *in, int n, float *out)
{
	int size = dtype_info[type].bits / 8;
	Words v;
	for (int i = 0; i < n; i += WIDE, in += WIDE * size, out += WIDE)
		switch (type) {
		case TY_F16: halves(in, &v), small_floats(&v, 15, 13, 0x1p112f, 0x7c00, out); break;
		case TY_BF16: halves(in, &v), v <<= 16, memcpy(out, &v, sizeof v); break;
		case TY_F8E4M3: bytes(in, &v), small_floats(&v, 7, 20, 0x1p120f, 0x7f, out); break;
		case TY_F8E5M2: bytes(in, &v), small_floats(&v, 7, 21, 0x1p112f, 0x7c, out); break;
		case TY_F32: memcpy(&v, in, sizeof v), v &= 0xffffe000, memcpy(out, &v, sizeof v); break;
		case TY_I8: bytes(in, &v), whole_numbers(&v, 128, out); break;
		case TY_U8: bytes(in, &v), whole_numbers(&v, 0, out); break;
		default: die("no matrix instruction takes this type");
		}
}

/* Four rows at once, so that b is read once for them. */
INLINE void
product(int m, int k, const float *a, const float *b, float *out)
{
	for (int row = 0; row < m; row += 4, a += 4 * k, out += 4 * WIDE) {
		Floats by, s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};      /* in registers at -O2 too */
		for (int x = 0; x < k; x++) {
			memcpy(&by, b + WIDE * x, sizeof by);
			s0 += a[x] * by;
			s1 += a[k + x] * by;
			s2 += a[2 * k + x] * by;
			s3 += a[3 * k + x] * by;
		}
		memcpy(out, &s0, sizeof s0);
		memcpy(out + WIDE, &s1, sizeof s1);
		memcpy(out + 2 * WIDE, &s2, sizeof s2);
		memcpy(out + 3 * WIDE, &s3, sizeof s3);
	}
}

/* [8, k] to [k, 8]. */
INLINE void
transpose_8(int k, const float *in, float *out)
{
	for (int x = 0; x < k; x++)
		for (int row = 0; row < WIDE; row++)
			out[x * WIDE + row] = in[row * k + x];
}

/* ---- fragments ---- */

/* Where each register and each lane moves to; an element is at their sum. */
typedef struct Offsets {
	uint16_t reg[1 << MMA_REG_BITS], lane[SIMT_LANES];
} Offsets;

INLINE void
spread(const uint64_t *image, int bits, int transposed_k, uint16_t *out)
{
	out[0] = 0;
	for (int b = 0; b < bits; b++) {
		uint64_t by = image[b];
		if (transposed_k)
			by = by % WIDE * (uint64_t)transposed_k + by / WIDE;
		for (int k = 0; k < 1 << b; k++)
			out[k | 1 << b] = (uint16_t)(out[k] + by);
	}
}

/* transposed_k: not 0 for [k, 8] that is wanted as [8, k]. */
INLINE void
offsets(const Fragment *f, int transposed_k, Offsets *p)
{
	spread(f->reg, f->reg_bits, transposed_k, p->reg);
	spread(f->lane, MMA_LANE_BITS, transposed_k, p->lane);
}

INLINE const uint32_t *
words_of(const SimtLanes *l, int lane, int operand)
{
	return (const uint32_t *)(uintptr_t)l->in[lane][operand];
}

/* An operand with K fastest, from n words a lane; the elements of a word are adjacent along K. */
INLINE void
collect(const SimtLanes *l, int operand, DType type, int n, const Fragment *f, int transposed_k, float *out)
{
	int per = 32 / dtype_info[type].bits, log_per = __builtin_ctz((unsigned)per);
	uint32_t word[SIMT_LANES * 4];
	Offsets p;
	offsets(f, transposed_k, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++) {
		const uint32_t *from = words_of(l, lane, operand);
		for (int k = 0; k < n; k++)
			word[(p.lane[lane] + p.reg[k << log_per]) >> log_per] = from[k];
	}
	floats(type, (const uint8_t *)word, SIMT_LANES * n * per, out);
}

/* Two adjacent elements at a time. */
INLINE void
accumulate(const SimtLanes *l, const MmaInfo *i, const float *sums)
{
	Offsets p;
	int each = 1 << i->fragment_c->reg_bits;
	bool is_float = dtype_is_float(i->acc);
	offsets(i->fragment_c, 0, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++) {
		const uint32_t *c = words_of(l, lane, 2);
		uint32_t *out = (uint32_t *)(uintptr_t)l->in[lane][3];
		for (int r = 0; r < each; r += 2) {
			const float *sum = sums + p.lane[lane] + p.reg[r];
			float from[2];
			if (is_float) {
				memcpy(from, c + r, sizeof from);
				from[0] += sum[0];
				from[1] += sum[1];
				memcpy(out + r, from, sizeof from);
			} else {
				out[r] = c[r] + (uint32_t)(int32_t)sum[0];
				out[r + 1] = c[r + 1] + (uint32_t)(int32_t)sum[1];
			}
		}
	}
}

INLINE void
multiply(const SimtLanes *l, const MmaInfo *i)
{
	MmaWords w = mma_words(i);
	float a[MOST], b[MOST], transposed[MOST], sums[16 * WIDE];
	collect(l, 0, i->a, w.a, i->fragment_a, 0, a);
	collect(l, 1, i->b, w.b, i->fragment_b, i->k, transposed);
	transpose_8(i->k, transposed, b);
	product(i->m, i->k, a, b, sums);
	accumulate(l, i, sums);
}

/* ---- the same for what this machine's vectors are like: the results don't depend on it ---- */

static void
multiply_plain(const SimtLanes *l, const void *info)
{
	multiply(l, info);
}

static void
product_plain(int m, int k, const float *a, const float *b, float *out)
{
	product(m, k, a, b, out);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
multiply_avx2(const SimtLanes *l, const void *info)
{
	multiply(l, info);
}

__attribute__((target("avx2"))) static void
product_avx2(int m, int k, const float *a, const float *b, float *out)
{
	product(m, k, a, b, out);
}
#define CHOOSE(name) (__builtin_cpu_supports("avx2") ? name##_avx2 : name##_plain)
#else
#define CHOOSE(name) name##_plain
#endif

void
simt_product(int m, int k, const float *a, const float *b, float *out)
{
	CHOOSE(product)(m, k, a, b, out);
}

void
simt_floats(DType type, const void *packed, int n, float *out)
{
	floats(type, packed, n, out);
}

/* ---- of f64 ---- */

INLINE double *
doubles_of(const SimtLanes *l, int lane, int operand)
{
	return (double *)(uintptr_t)l->in[lane][operand];
}

static void
collect_doubles(const SimtLanes *l, int operand, int n, const Fragment *f, double *out)
{
	Offsets p;
	offsets(f, 0, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int k = 0; k < n; k++)
			out[p.lane[lane] + p.reg[k]] = doubles_of(l, lane, operand)[k];
}

/* Each product is added with one rounding, along K. */
static void
multiply_doubles(const SimtLanes *l, const void *info)
{
	const MmaInfo *i = info;
	MmaWords w = mma_words(i);
	double a[MOST], b[MOST], c[MOST];
	Offsets p;
	collect_doubles(l, 0, w.a, i->fragment_a, a);
	collect_doubles(l, 1, w.b, i->fragment_b, b);
	collect_doubles(l, 2, w.c, i->fragment_c, c);
	for (int row = 0; row < i->m; row++)
		for (int col = 0; col < i->n; col++)
			for (int k = 0; k < i->k; k++)
				c[row * i->n + col] = fma(a[row * i->k + k], b[k * i->n + col], c[row * i->n + col]);
	offsets(i->fragment_c, 0, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int k = 0; k < w.c; k++)
			doubles_of(l, lane, 3)[k] = c[p.lane[lane] + p.reg[k]];
}

void
simt_mma(SimtThread *t, const MmaInfo *i, const void *a, const void *b, const void *c, void *out)
{
	t->in[0] = (uintptr_t)a;
	t->in[1] = (uintptr_t)b;
	t->in[2] = (uintptr_t)c;
	t->in[3] = (uintptr_t)out;
	simt_warp_collective(t, i->name, i->a == TY_F64 ? multiply_doubles : CHOOSE(multiply), i, t->in, NULL);
}
