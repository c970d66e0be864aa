/* Products of warpgroups: which registers of the accumulator each instruction takes, and how it finds its operands in
 * shared memory.
 *
 *     %d = dot_start %a, %b, %c {mma = "wgmma.n128k16.bf16"} : f32[128, 256] #0
 *
 * The accumulator is the instruction's 64 rows and n columns, repeated over warpgroups, then over registers: tiles.  An
 * operand in shared memory is described by a start address, a swizzle, and two strides; the hardware exclusive-ors bits 4
 * to 6 of an address with bits 7 to 9 (fewer for narrower swizzles).  Before that the address of an element is a sum of its
 * coordinates' bits, which are compared with what the instruction walks:
 *
 *                  along K                                     transposed (along M or N)
 *     bytes        0 .. 15 in a chunk, then the next chunk     a row of 32, 64 or 128 bytes along M or N, then LEAD
 *     other bits   8 rows one after the other, then STRIDE     8 rows of k one after the other, then STRIDE
 *
 * Operand a may be a tile in registers, of fragments as a warp's instruction has them (plan_dot.c).
 *
 * Of 8-bit floats the instruction adds with fewer bits than f32 has: it keeps 13 behind the binary point of the greatest of
 * its products and the sum so far.  Their products are summed from zero for 128 elements of K, one tile after the other,
 * and added to the accumulator as f32, unless {precision = "fast"} says that the source does without.
 *
 * Everything is linear, so the start address of each step along K and each tile is the sum of the images of its bits.
 * Source: PTX ISA 9.0, 9.7.15.5. */
#include "model/model.h"

#include <string.h>

enum { APART = 128 };                                   /* elements of K */
enum { CHUNK_BITS = 4, GROUP_BITS = 3, WORD_LEAD = 16, WORD_STRIDE = 32, WORD_SWIZZLE = 62, STRIDE_MOST = 0x3fff };

/* An operand's slot: the byte, before the swizzle, of each bit of a coordinate. */
typedef struct Slot {
	F2 inverse;                                     /* from coordinates to offsets, elements */
	const Layout *layout;
	int bytes;                                      /* log2, of an element */
	int swizzle;                                    /* log2 of the chunks side by side */
} Slot;

static uint64_t
byte_of(const Slot *s, int dim, int bit)
{
	uint64_t at = f2_apply(&s->inverse, UINT64_C(1) << (layout_out_at(s->layout, dim) + bit)) << s->bytes;
	return at ^ (at >> 7 & ((UINT64_C(1) << s->swizzle) - 1)) << CHUNK_BITS;
}

/* Bits from `from` to `to` of a coordinate are one stride apart, doubled from bit to bit; *stride is the first. */
static bool
has_stride(const Slot *s, int dim, int from, int to, uint64_t *stride)
{
	*stride = from < to ? byte_of(s, dim, from) : 0;
	return ALL_FROM(b, from, to, byte_of(s, dim, b) == *stride << (b - from)) &&
	    *stride >> CHUNK_BITS <= STRIDE_MOST && *stride % (1 << CHUNK_BITS) == 0;
}

static bool
is_run(const Slot *s, int dim, int to, uint64_t first)
{
	return ALL_OF(b, to, byte_of(s, dim, b) == first << b);
}

/* The operand's rows (or columns) are 2^rows in an instruction, its k 2^k. */
static bool
along_k(const Slot *s, int k_dim, int k, int rows, uint64_t *word)
{
	int chunk = CHUNK_BITS - s->bytes;
	uint64_t lead, stride;
	if (!is_run(s, k_dim, chunk, UINT64_C(1) << s->bytes) || !has_stride(s, k_dim, chunk, k, &lead) ||
	    !is_run(s, 1 - k_dim, MIN(rows, GROUP_BITS), UINT64_C(16) << s->swizzle) ||
	    !has_stride(s, 1 - k_dim, GROUP_BITS, rows, &stride) || (s->swizzle && lead != 16))
		return false;
	*word = lead >> CHUNK_BITS << WORD_LEAD | stride >> CHUNK_BITS << WORD_STRIDE;
	return true;
}

static bool
transposed(const Slot *s, int k_dim, int k, int rows, uint64_t *word)
{
	int row = CHUNK_BITS + s->swizzle - s->bytes;
	uint64_t lead, stride;
	if (s->bytes != 1 || s->swizzle == 0 || !is_run(s, 1 - k_dim, MIN(rows, row), UINT64_C(1) << s->bytes) ||
	    !has_stride(s, 1 - k_dim, row, rows, &lead) ||
	    !is_run(s, k_dim, GROUP_BITS, UINT64_C(16) << s->swizzle) || !has_stride(s, k_dim, GROUP_BITS, k, &stride))
		return false;
	*word = lead >> CHUNK_BITS << WORD_LEAD | stride >> CHUNK_BITS << WORD_STRIDE;
	return true;
}

/* Start addresses: bytes of each bit of the step along K, of the tile, and of the warpgroup. */
static void
find_starts(const WgmmaPlan *p, WgmmaSide *side, const Slot *s, const Layout *acc, int k_dim, int lost)
{
	int at = layout_out_at(acc, 1 - lost), bits = acc->out[1 - lost], k = log2_ceil(p->info->k);
	for (int i = 0; i < p->steps; i++)
		side->step[i] = byte_of(s, k_dim, k + i);
	for (int i = 0; i < p->tiles + p->groups; i++) {
		int col = i < p->tiles ? p->fragment + i : layout_in_at(acc, IN_WARP) + 2 + i - p->tiles;
		uint64_t moved = acc->map.col[col] >> at & ((UINT64_C(1) << bits) - 1), start = 0;
		for (int b = 0; moved >> b; b++)
			start += moved >> b & 1 ? byte_of(s, 1 - k_dim, b) : 0;
		*(i < p->tiles ? &side->tile[i] : &side->group[i - p->tiles]) = start;
	}
}

/* Operand `which` in a slot, [rows, k] or {transposed} [k, rows]; dimension `lost` of the accumulator is not its own. */
static bool
find_side(WgmmaPlan *p, const Op *op, const Layout *acc, int which)
{
	const Value *v = op->in[which];
	WgmmaSide *side = &p->side[which];
	Slot s = {.layout = v->layout, .bytes = log2_ceil(dtype_tile_size(v->type->elem))};
	const IntList *flipped = attr_transposed(op);
	int k_dim = which == 0 ? 1 : 0, lost = which == 0 ? 1 : 0, k = log2_ceil(p->info->k);
	int rows = which == 0 ? 6 : log2_ceil(p->info->n);
	if (flipped && flipped->at[which])
		k_dim = 1 - k_dim;
	if (v->type->kind != TYPE_BUFFER || !v->layout || v->layout->map.nin != v->layout->map.nout ||
	    v->layout->out[k_dim] < k || !f2_invert(&v->layout->map, &s.inverse))
		return false;
	for (s.swizzle = 3; s.swizzle >= 0; s.swizzle--) {
		static const uint64_t mode[] = {0, 3, 2, 1};
		uint64_t word;
		side->is_transposed = transposed(&s, k_dim, k, rows, &word);
		if (!side->is_transposed && !along_k(&s, k_dim, k, rows, &word))
			continue;
		side->descriptor = word | mode[s.swizzle] << WORD_SWIZZLE;
		find_starts(p, side, &s, acc, k_dim, lost);
		return true;
	}
	return false;
}

/* Is the accumulator made of the instruction's tiles, in the order that registers have in one? */
static bool
is_tiled(WgmmaPlan *p, const Layout *acc)
{
	Layout c = wgmma_layout_c(p->info);
	p->fragment = c.in[IN_REGISTER];
	p->tiles = acc->in[IN_REGISTER] - p->fragment;
	p->groups = acc->in[IN_WARP] - 2;
	if (acc->rank != 2 || p->tiles < 0 || p->groups < 0 || acc->in[IN_LANE] != c.in[IN_LANE])
		return false;
	for (int i = 0; i < c.map.nin; i++) {
		int above = layout_in_at(&c, IN_LANE), at = i < above ? i : acc->in[IN_REGISTER] - above + i;
		if (acc->map.col[at] != fragment_image(&c, i, acc))
			return false;
	}
	return true;
}

/* Operand a in registers. */
static bool
find_left(WgmmaPlan *p, const Op *op, const Layout *acc)
{
	Layout a = wgmma_layout_a(p->info);
	FragmentWalk walk = {p->fragment, p->tiles, p->steps, p->info->k};
	if (!op->in[0]->layout)
		return false;
	Layout left = dot_in_order(op, op->in[0]->layout, 0, true);
	return plan_fragments(&walk, acc, &left, &a, 0, &p->left);
}

/* Does pass dot fold the addition that alone uses the product into it? */
static bool
is_summand(const Op *dot)
{
	const Value *v = &dot->out[0];
	return FIND_NEXT(op, v->nuses == 1 ? dot->next : NULL, op->next,
	    op->kind == OP_ADD && (op->in[0] == v || op->in[1] == v)) != NULL;
}

/* What begins with zero and is no longer than what is summed apart stands apart already. */
bool
wgmma_adds_apart(const Op *op)
{
	const IntList *flipped = attr_transposed(op);
	int64_t k = op->in[0]->type->extent[flipped && flipped->at[0] ? 0 : op->in[0]->type->rank - 1];
	bool is_apart = k <= APART && value_is_zero(op->in[2]) && !is_summand(op);
	return dtype_is_f8(op->in[0]->type->elem) && strcmp(attr_precision(op), "fast") != 0 && !is_apart;
}

bool
plan_wgmma(const Op *op, WgmmaPlan *p)
{
	const Layout *made = op->out[0].layout, *given = op->in[2]->layout;
	const Type *a = op->in[0]->type, *b = op->in[1]->type;
	*p = (WgmmaPlan){.info = wgmma_named(attr_mma(op))};
	if (!p->info || !made || !given || !layout_equal(made, given) || p->info->a != a->elem || p->info->b != b->elem ||
	    p->info->acc != op->out[0].type->elem)
		return false;
	const Layout in_order = dot_in_order(op, made, 2, true), *acc = &in_order;
	if (!is_tiled(p, acc))
		return false;
	const IntList *flipped = attr_transposed(op);
	int64_t k = a->extent[flipped && flipped->at[0] ? 0 : 1];
	p->steps = log2_ceil(k) - log2_ceil(p->info->k);
	p->taken = attr_depth(op) ? (int)((attr_depth(op) + p->info->k - 1) / p->info->k) : 1 << p->steps;
	p->in_registers = a->kind == TYPE_TILE;
	p->apart = wgmma_adds_apart(op) ? MIN(log2_ceil(APART / p->info->k), p->steps) : -1;
	return p->steps >= 0 && (p->in_registers ? find_left(p, op, acc) : find_side(p, op, acc, 0)) &&
	    find_side(p, op, acc, 1);
}

uint64_t
wgmma_start(const WgmmaSide *s, int step, int tile)
{
	uint64_t at = 0;
	for (int i = 0; tile >> i; i++)
		at += tile >> i & 1 ? s->tile[i] : 0;
	for (int i = 0; step >> i; i++)
		at += step >> i & 1 ? s->step[i] : 0;
	return at;
}
