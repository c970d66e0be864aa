/* How the operands of a matrix instruction lie in registers, given the accumulator.
 *
 *     acc [M, N]   lanes and low registers: the instruction's fragment C;  warps: along M and N
 *     a   [M, K]   the fragment A;  warps: what they do along M; those along N hold the same
 *     b   [K, N]   the fragment B;  warps: what they do along N; those along M hold the same
 *
 * Whatever fragment and warps do not cover goes over registers: along K first, then along the other dimension, then over
 * leading (batch) dimensions.
 *
 * And in which order the instruction goes along K.  A dot's sum may take K in any order, as long as both operands do, so
 * that an operand that memory holds in narrower elements than the instruction takes can lie so that a thread has
 * neighbours: words of one row, which it unpacks for itself alone.
 *
 *     m16n8k16, K = 128, weights of 4 bits            positions that lane t of four holds at step s
 *         in the instruction's order                  16 s + 2 t + {0, 1, 8, 9}
 *         {k_bits = [2, 5, 6, 0, 1, 3, 4]}            32 t + 8 (s / 2) + 2 (s % 2) + {0, 4, 1, 5}
 *
 * Bit i of the instruction's position is bit k_bits[i] of the operand's; of rows and columns m_bits and n_bits, where
 * memory holds weights along them.  Elements of 4 bits fill halves of a word with what is 16 bits apart in memory.  A lane
 * has 16 bytes of neighbours, as a coalesced read gives them to it. */
#include "model/model.h"
#include "pass/layout/dot.h"

/* ---- along K ---- */

enum { VISITS_MOST = 96, RUN_BITS = 128, LANES_BITS = 2, HALF_BITS = 16, PACKED_BITS = 4 };

/* The dimension of a reshape's operand whose elements are as far apart as those of dimension d of its result; -1: none. */
static int
reshaped_dim(const Op *op, int d)
{
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	int64_t apart = 1, at = 1;
	for (int i = d + 1; i < to->rank; i++)
		apart *= to->extent[i];
	for (int e = from->rank - 1; e >= 0 && at <= apart; at *= from->extent[e--])
		if (at == apart && from->extent[e] > 1)
			return e;
	return -1;
}

/* Where a tile comes from, element by element. */
typedef struct Origin {
	int bits;                                       /* the least of an element in memory; 0: none */
	bool runs;                                      /* memory runs along the dimension */
} Origin;

/* Of dimension d of v.  Where a word's parts become elements along it, as the halves of bytes that are joined or what
 * shifts by several numbers leave of one, the bits are a part's.  `shifts`: v is shifted.
 * *left: ops that are looked at, at most. */
static Origin
origin_of(const Value *v, int d, bool shifts, int *left)
{
	const Op *op = v->def;
	Origin least = {0};
	if (!op || --*left < 0 || v->type->rank < 1 || d < 0)
		return least;
	switch (op->kind) {
	case OP_READ: case OP_LOAD:
		least.bits = v->type->rank < 2 ? 0 : dtype_info[v->type->elem].bits;
		least.runs = op->kind == OP_READ && d == v->type->rank - 1 &&
		    attr_index(op)[op->in[0]->type->rank - 1] == 'p';
		return least;
	case OP_PERMUTE:
		return origin_of(op->in[0], (int)attr_dims(op)->at[d], shifts, left);
	case OP_RESHAPE:
		return origin_of(op->in[0], reshaped_dim(op, d), shifts, left);
	case OP_GATHER:
		return origin_of(op->in[1], d, shifts, left);
	case OP_JOIN:
		least = d == v->type->rank - 1 ? origin_of(op->in[0], d - 1, shifts, left) : least;
		least.bits /= 2;
		return least;
	case OP_BROADCAST:
		if (!shifts || op->in[0]->type->rank != v->type->rank || op->in[0]->type->extent[d] != 1)
			return least;
		least = origin_of(op->in[0], d - 1, false, left);
		least.bits /= (int)MIN(v->type->extent[d], 32);
		return least;
	default:
		break;
	}
	if (!(op_info[op->kind].traits & ELEM))
		return least;
	shifts |= op->kind == OP_SHR;
	for (int i = 0; i < op->nin; i++) {
		Origin x = origin_of(op->in[i], d, shifts, left);
		least = least.bits && (!x.bits || least.bits < x.bits) ? least : x;
	}
	return least;
}

/* Of operand i, along K or along its rows or columns. */
static Origin
operand_origin(const Op *dot, int i, bool along_k)
{
	int rank = dot->in[i]->type->rank, left = VISITS_MOST;
	return origin_of(dot->in[i], (i == 0) == along_k ? rank - 1 : rank - 2, false, &left);
}

static int
operand_bits(const Op *dot, int i)
{
	return operand_origin(dot, i, true).bits;
}

bool
dot_unpacks(const Op *dot, const MmaInfo *mma)
{
	int bits = operand_bits(dot, 1);

	return bits > 0 && bits <= 8 && bits < dtype_info[mma->b].bits;
}

/* Is bit i of a fragment's position along K one that lanes move?  The fragment is that of operand a. */
static bool
is_of_lanes(const Layout *a, int bit)
{
	return ANY_OF(i, a->in[IN_LANE], a->map.col[layout_in_at(a, IN_LANE) + i] == UINT64_C(1) << bit);
}

/* Lanes have neighbours along K from `from` on, registers the others, halves of a word what is 2^apart from each other. */
static void
order_k(Op *dot, const MmaInfo *mma, int from, int apart)
{
	Layout a = mma_layout_a(mma);
	const Type *t = dot->in[0]->type;
	int n = log2_ceil(t->extent[t->rank - 1]), own = log2_ceil(mma->k), lanes = 0, others = 0;
	int64_t to[F2_MAX];
	for (int i = apart > 0; i < n; i++) {
		if (i < own && is_of_lanes(&a, i)) {
			to[i] = from + lanes++;
			continue;
		}
		others += apart > 0 && others == apart;
		others += others == from ? LANES_BITS : 0;
		to[i] = others++;
	}
	to[0] = apart > 0 ? apart : to[0];
	if (lanes == LANES_BITS)
		attr_set_k_bits(dot->home->func->module, dot, to, n);
}

/* Of weights that memory holds along rows or columns of the product, a thread has neighbours there, as many as a vector
 * holds and registers have room for; the lanes that the instruction has neighbours in lie behind them.  Along K they are as
 * the instruction has them, so that the other operand comes by ldmatrix. */
static bool
order_side(Op *dot, const MmaInfo *mma, int which, const int *along)
{
	enum { SIDE_LANES = 3 };
	const Type *t = dot->in[which]->type;
	Module *m = dot->home->func->module;
	int d = which == 0 ? t->rank - 2 : t->rank - 1, n = log2_ceil(t->extent[d]);
	Origin side = operand_origin(dot, which, false), other = operand_origin(dot, 1 - which, true);
	int64_t to[F2_MAX];
	if (!side.runs || side.bits <= 0 || side.bits > 8 || along[d] > 0 || dtype_info[mma->a].bits != HALF_BITS ||
	    (other.bits && other.bits < HALF_BITS))
		return false;
	int run = MIN(n - SIDE_LANES, log2_ceil(RUN_BITS / side.bits));
	if (run <= 0)
		return false;
	for (int i = 0; i < n; i++)
		to[i] = i < SIDE_LANES ? run + i : i < SIDE_LANES + run ? i - SIDE_LANES : i;
	if (which == 0)
		attr_set_m_bits(m, dot, to, n);
	else
		attr_set_n_bits(m, dot, to, n);
	return true;
}

void
dot_order(Op *dot, const MmaInfo *mma, const int *along, bool chained)
{
	const Type *t = dot->in[0]->type;
	Origin of[] = {operand_origin(dot, 0, true), operand_origin(dot, 1, true)};
	int bits[] = {of[0].bits, of[1].bits};
	int least = bits[0] && (!bits[1] || bits[0] < bits[1]) ? bits[0] : bits[1];
	int n = log2_ceil(t->extent[t->rank - 1]);
	bool is_half = dtype_info[mma->a].bits == HALF_BITS;
	bool both = bits[0] == bits[1] && least > PACKED_BITS;  /* too many conversions at once for a thread's registers */
	for (int i = 0; i < 2 && !chained; i++)
		if (!of[i].runs && order_side(dot, mma, i, along))
			return;
	if (!least || least >= dtype_info[mma->a].bits || least > 8 || both)
		return;
	int from = MIN(log2_ceil(RUN_BITS / least), n - LANES_BITS), apart = log2_ceil(HALF_BITS / least);
	order_k(dot, mma, from, is_half && least <= PACKED_BITS && apart < from ? apart : 0);
}

/* ---- layouts ---- */

static void
add_column(Layout *l, InDim in, uint64_t image)
{
	l->map.col[l->map.nin++] = image;
	l->in[in]++;
}

/* The registers that are missing: bits of the tile that nothing covers, dimension by dimension. */
static void
add_missing(Layout *l, uint64_t covered, const int *order, int n)
{
	for (int i = 0; i < n; i++)
		for (int b = 0; b < l->out[order[i]]; b++) {
			uint64_t image = UINT64_C(1) << (layout_out_at(l, order[i]) + b);
			if (!(covered & image))
				add_column(l, IN_REGISTER, image);
		}
}

/* What warp bit i of the accumulator does in a tile that shares all of its dimensions but `lost`. */
static uint64_t
warp_image(const Layout *acc, int i, const Layout *to, int lost)
{
	return dot_share(acc, acc->map.col[layout_in_at(acc, IN_WARP) + i], lost, to);
}

/* `fragment` in the last two dimensions of a tile of that type, with the warps of `acc`, which does not have dimension
 * `lost`; the rest over registers. */
static Layout
spread_fragment(const Layout *fragment, const Type *type, const Layout *acc, int lost)
{
	int rank = type->rank, order[LAYOUT_RANK], n = 0;
	int lanes = layout_in_at(fragment, IN_LANE), regs = fragment->in[IN_REGISTER];
	uint64_t covered = 0;
	Layout l = {.rank = rank};
	layout_shape(rank, type->extent, l.out);
	l.map.nout = layout_out_bits(&l);
	for (int i = 0; i < fragment->map.nin; i++)
		covered |= fragment_image(fragment, i, &l);
	for (int i = 0; i < acc->in[IN_WARP]; i++)
		covered |= warp_image(acc, i, &l, lost);
	for (int i = 0; i < regs; i++)
		add_column(&l, IN_REGISTER, fragment_image(fragment, i, &l));
	order[n++] = lost;
	for (int d = rank - 1; d >= 0; d--)
		if (d != lost)
			order[n++] = d;
	add_missing(&l, covered, order, n);
	for (int i = 0; i < fragment->in[IN_LANE]; i++)
		add_column(&l, IN_LANE, fragment_image(fragment, lanes + i, &l));
	for (int i = 0; i < acc->in[IN_WARP]; i++)
		add_column(&l, IN_WARP, warp_image(acc, i, &l, lost));
	return l;
}

/* ---- decoded for warpgroups ---- */

static void
add_bits(Layout *l, InDim in, int dim, int from, int to)
{
	for (int b = from; b < to; b++)
		add_column(l, in, UINT64_C(1) << (layout_out_at(l, dim) + b));
}

/* Of a right operand [K, N] that threads decode and put into shared memory, from rows along K: a thread has 16 bytes of a
 * row, and so many lanes a row as 64 elements are of, which is a row of the swizzle's, that eight lanes put 16 bytes each
 * into different banks.  As the read would have it they put into two boxes at once, and those twice.  Warps have the rows
 * that they copied. */
static const Layout *
decoded(const Op *op)
{
	enum { LANES = 5, ROW = 6 };
	const Type *t = op->in[1]->type;
	const Func *f = op->home->func;
	bool flipped;
	Op *root = dot_operand_root(op->in[1], &flipped)->def;
	int bits = operand_bits(op, 1), k = log2_ceil(t->extent[0]), n = log2_ceil(t->extent[1]);
	if (!root || root->kind == OP_READ || !flipped || bits == 0 || bits > 8 || t->rank != 2 ||
	    dtype_info[t->elem].bits != HALF_BITS || !dot_decodes(op))
		return NULL;
	int run = MIN(log2_ceil(RUN_BITS / bits), k), row = MIN(MAX(ROW, run), k);
	int warps = log2_ceil(f->schedule.warps), copied = MAX(LANES - (k - run), 0), all = LANES - (row - run) + warps;
	if (all > n || copied + warps > n)
		return NULL;
	Layout l = {.rank = 2, .out = {k, n}};
	l.map.nout = k + n;
	add_bits(&l, IN_REGISTER, 0, 0, run);
	add_bits(&l, IN_REGISTER, 0, row, k);
	add_bits(&l, IN_REGISTER, 1, all, n);
	add_bits(&l, IN_LANE, 0, run, row);
	add_bits(&l, IN_LANE, 1, 0, copied);
	add_bits(&l, IN_LANE, 1, copied + warps, all);
	add_bits(&l, IN_WARP, 1, copied, copied + warps);
	return layout_intern(f->module, &l);
}

const Layout *
dot_operand(const Op *op, const Layout *acc, int which)
{
	const MmaInfo *mma = mma_named(attr_mma(op));
	const WgmmaInfo *wgmma = mma ? NULL : wgmma_named(attr_mma(op));
	const Type *t = op->in[which]->type;
	if (wgmma && which == 1)
		return decoded(op);
	if (!mma && !(wgmma && which == 0 && (attr_register_a(op) || op->kind == OP_DOT_START)))
		return NULL;
	Layout fragment = wgmma ? wgmma_layout_a(wgmma) : which == 0 ? mma_layout_a(mma) : mma_layout_b(mma);
	int k = which == 0 ? t->rank - 1 : t->rank - 2;
	Layout counted = dot_in_order(op, acc, 2, true), l = spread_fragment(&fragment, t, &counted, k);
	l = dot_in_order(op, &l, which, false);
	return layout_intern(op->home->func->module, &l);
}
