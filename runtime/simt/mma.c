/* Matrix instructions of a warp, by their definition: the operands are put together from the lanes' registers by the
 * instruction's fragments, multiplied, and taken apart again.
 *
 * Products of 16-bit floats, of fp8 and of tf32 are exact in f32, and sums of products of bytes are less than 2^24, so
 * that all of them are computed in f32; integers are added to the accumulator as integers, which wrap.  A product's sum
 * over k is added to the accumulator last. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { MOST = 16 * 32 };                                /* elements of an operand */

typedef float Four __attribute__((vector_size(16)));

/* ---- elements to floats, by eights so that compilers see whole vectors ---- */

/* The bits of a float that has `bits` bits without its sign (the float's own are 31), `up` further up; too large by the
 * exponents' difference, which `scale` makes good. */
static void
small_floats(const uint32_t v[8], int bits, int up, float scale, uint32_t nan_from, uint32_t *out)
{
	float f[8];
	for (int k = 0; k < 8; k++)
		out[k] = (v[k] & ((1u << bits) - 1)) << up;
	memcpy(f, out, sizeof f);
	for (int k = 0; k < 8; k++)
		f[k] *= scale;
	memcpy(out, f, sizeof f);
	for (int k = 0; k < 8; k++) {
		uint32_t special = (v[k] & ((1u << bits) - 1)) >= nan_from ? 0x7f800000u : 0;
		out[k] |= special | (v[k] >> bits & 1) << 31;
	}
}

static void
f16_floats(const uint16_t *in, int n, float *out)
{
	for (int i = 0; i < n; i += 8) {
		uint32_t v[8], bits[8];
		for (int k = 0; k < 8; k++)
			v[k] = in[i + k];
		small_floats(v, 15, 13, 0x1p112f, 0x7c00, bits);
		memcpy(out + i, bits, sizeof bits);
	}
}

static void
bf16_floats(const uint16_t *in, int n, float *out)
{
	for (int i = 0; i < n; i += 8) {
		uint32_t v[8];
		for (int k = 0; k < 8; k++)
			v[k] = (uint32_t)in[i + k] << 16;
		memcpy(out + i, v, sizeof v);
	}
}

/* e4m3 has no infinity: the greatest pattern is a NaN, whose fraction is all ones. */
static void
fp8_floats(DType type, const uint8_t *in, int n, float *out)
{
	for (int i = 0; i < n; i += 8) {
		uint32_t v[8], bits[8];
		for (int k = 0; k < 8; k++)
			v[k] = in[i + k];
		if (type == TY_F8E4M3)
			small_floats(v, 7, 20, 0x1p120f, 0x7f, bits);
		else
			small_floats(v, 7, 21, 0x1p112f, 0x7c, bits);
		memcpy(out + i, bits, sizeof bits);
	}
}

static void
byte_floats(DType type, const uint8_t *in, int n, float *out)
{
	int flip = type == TY_I8 ? 128 : 0;
	for (int i = 0; i < n; i += 8)
		for (int k = 0; k < 8; k++)
			out[i + k] = (float)((in[i + k] ^ flip) - flip);
}

/* The instruction does not look at the low 13 bits. */
static void
tf32_floats(const uint32_t *in, int n, float *out)
{
	for (int i = 0; i < n; i += 8) {
		uint32_t v[8];
		for (int k = 0; k < 8; k++)
			v[k] = in[i + k] & 0xffffe000;
		memcpy(out + i, v, sizeof v);
	}
}

void
simt_floats(DType type, const void *packed, int n, float *out)
{
	switch (type) {
	case TY_F16: f16_floats(packed, n, out); break;
	case TY_BF16: bf16_floats(packed, n, out); break;
	case TY_F8E4M3:
	case TY_F8E5M2: fp8_floats(type, packed, n, out); break;
	case TY_I8:
	case TY_U8: byte_floats(type, packed, n, out); break;
	case TY_F32: tf32_floats(packed, n, out); break;
	default: die("no matrix instruction takes this type");
	}
}

void
simt_product(int m, int k, const float *a, int apart, const float *b, float *out)
{
	for (int row = 0; row < m; row++, a += apart, out += 8) {
		Four low = {0}, high = {0};
		for (int x = 0; x < k; x++) {
			Four l, h, by = {a[x], a[x], a[x], a[x]};
			memcpy(&l, b + 8 * x, sizeof l);
			memcpy(&h, b + 8 * x + 4, sizeof h);
			low += by * l;
			high += by * h;
		}
		memcpy(out, &low, sizeof low);
		memcpy(out + 4, &high, sizeof high);
	}
}

/* ---- fragments ---- */

/* Where each register and each lane moves to; an element is at their sum. */
typedef struct Places {
	uint16_t reg[1 << MMA_REG_BITS], lane[SIMT_LANES];
} Places;

static void
spread(const uint64_t *image, int bits, uint16_t *out)
{
	out[0] = 0;
	for (int b = 0; b < bits; b++)
		for (int k = 0; k < 1 << b; k++)
			out[k | 1 << b] = (uint16_t)(out[k] + image[b]);
}

static void
places(const Fragment *f, Places *p)
{
	spread(f->reg, f->reg_bits, p->reg);
	spread(f->lane, MMA_LANE_BITS, p->lane);
}

static const uint32_t *
words_of(const SimtLanes *l, int lane, int operand)
{
	return (const uint32_t *)(uintptr_t)l->in[lane][operand];
}

/* An operand, row-major, from `n` words a lane. */
static void
collect(const SimtLanes *l, int operand, DType type, int n, const Fragment *f, float *out)
{
	uint32_t word[SIMT_LANES * 4];
	float v[MOST];
	Places p;
	int each = 1 << f->reg_bits;
	for (int lane = 0; lane < SIMT_LANES; lane++)
		memcpy(word + lane * n, words_of(l, lane, operand), sizeof *word * (size_t)n);
	simt_floats(type, word, SIMT_LANES * each, v);
	places(f, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int r = 0; r < each; r++)
			out[p.lane[lane] + p.reg[r]] = v[lane * each + r];
}

static void
accumulate(const SimtLanes *l, const MmaInfo *i, const float *product)
{
	Places p;
	int each = 1 << i->fragment_c->reg_bits;
	bool is_float = dtype_is_float(i->acc);
	places(i->fragment_c, &p);
	for (int lane = 0; lane < SIMT_LANES; lane++) {
		const uint32_t *c = words_of(l, lane, 2);
		uint32_t *out = (uint32_t *)(uintptr_t)l->in[lane][3];
		for (int r = 0; r < each; r++) {
			float sum = product[p.lane[lane] + p.reg[r]], from;
			if (is_float) {
				memcpy(&from, c + r, sizeof from);
				from += sum;
				memcpy(out + r, &from, sizeof from);
			} else {
				out[r] = c[r] + (uint32_t)(int32_t)sum;
			}
		}
	}
}

static void
multiply(const SimtLanes *l, const void *info)
{
	const MmaInfo *i = info;
	MmaWords w = mma_words(i);
	float a[MOST], b[MOST], product[16 * 8];
	collect(l, 0, i->a, w.a, i->fragment_a, a);
	collect(l, 1, i->b, w.b, i->fragment_b, b);
	simt_product(i->m, i->k, a, i->k, b, product);
	accumulate(l, i, product);
}

void
simt_mma(SimtThread *t, const MmaInfo *i, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out)
{
	const uint64_t in[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)out};
	simt_warp_meet(t, i->name, multiply, i, in, NULL);
}
