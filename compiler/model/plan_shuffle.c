/* The plan of a conversion within a warp.
 *
 * Conversions are linear: the receiving lane t takes, for its register r,
 *
 *     register  A r + B t + F w     of lane     C r + D t + E w          (w: the warp; + is exclusive or)
 *
 * A shuffle moves one register a lane, so the sender s must know from its own number which register to send.  Where D
 * is injective, t = D^-1 (s + C r + E w), and the sender sends A r + G (s + C r) + … with G = B D^-1: its
 * registers are permuted under its own lane bits, once for all shuffles.
 *
 * Where D does not (lanes become registers), receivers take their registers in different orders: in round q lane t asks
 * for its register q + P t, with P chosen so that D + C P is injective, and afterwards the receiver's registers
 * are permuted under its lane bits.  Directions for which there is no such P are not known to the sender; if B moves
 * along one, both registers are sent and the receiver chooses by its bit.  More than one of these costs more than shared
 * memory. */
#include "model/model.h"

/* D and B: what the receiver's lane bits ask for. */
static void
asked(const ShufflePlan *p, const Layout *src, const Layout *dst, F2 *lanes, F2 *registers)
{
	int n = dst->in[IN_LANE];
	*lanes = f2_zero(n, src->in[IN_LANE]);
	*registers = f2_zero(n, src->in[IN_REGISTER]);
	for (int i = 0; i < n; i++) {
		uint64_t column = p->from.col[dst->in[IN_REGISTER] + i];
		lanes->col[i] = shuffle_lane(column, src);
		registers->col[i] = shuffle_register(column, src);
	}
}

static int
top_bit(uint64_t v)
{
	return 63 - __builtin_clzll(v);
}

/* One more direction that D + C P distinguishes: false if there is none. */
static bool
rotate_one(ShufflePlan *p, const Layout *src, const Layout *dst)
{
	F2 d, b;
	uint64_t kernel[F2_MAX], x;
	asked(p, src, dst, &d, &b);
	int n = f2_kernel(&d, kernel), regs = dst->in[IN_REGISTER];
	for (int k = 0; k < n; k++) {
		int lane = top_bit(kernel[k]);
		for (int e = 0; f2_apply(&b, kernel[k]) && e < regs; e++) {
			if (f2_solve(&d, shuffle_lane(p->from.col[e], src), &x))
				continue;
			p->from.col[regs + lane] ^= p->from.col[e];
			p->rotate[lane] ^= UINT64_C(1) << e;
			return true;
		}
	}
	return false;
}

/* G: D's independent columns made a basis of all lanes; the rest is sent to nowhere. */
static F2
sender_map(const F2 *d, const F2 *b, uint64_t free)
{
	F2 basis = f2_zero(0, d->nout), moved = f2_zero(0, b->nout), inverse;
	uint64_t x;
	for (int i = 0; i < d->nin; i++) {
		if (free >> i & 1)
			continue;
		basis.col[basis.nin++] = d->col[i];
		moved.col[moved.nin++] = b->col[i];
	}
	for (int i = 0; i < d->nout; i++) {
		if (f2_solve(&basis, UINT64_C(1) << i, &x))
			continue;
		basis.col[basis.nin++] = UINT64_C(1) << i;
		moved.col[moved.nin++] = 0;
	}
	if (!f2_invert(&basis, &inverse))
		die("a basis that is not one");
	return f2_compose(&moved, &inverse);
}

bool
plan_shuffle(const Convert *c, const Layout *src, const Layout *dst, ShufflePlan *p)
{
	F2 d, b;
	uint64_t kernel[F2_MAX], free = 0;
	*p = (ShufflePlan){.from = c->from};
	while (rotate_one(p, src, dst))
		;
	asked(p, src, dst, &d, &b);
	int n = f2_kernel(&d, kernel);
	for (int k = 0; k < n; k++) {
		int top = top_bit(kernel[k]);           /* in no other vector of the kernel */
		uint64_t by = f2_apply(&b, kernel[k]);
		free |= UINT64_C(1) << top;
		if (!by)
			continue;
		p->bit[p->nkernel] = top;
		p->by[p->nkernel++] = by;
	}
	p->sender = sender_map(&d, &b, free);
	return p->nkernel <= 1;
}

double
plan_shuffles(const ShufflePlan *p, const Layout *src, const Layout *dst)
{
	int n = 0, lanes = dst->in[IN_LANE], registers = 1 << dst->in[IN_REGISTER];
	bool own = true;                                /* each lane asks itself, but for the register's part */
	for (int i = 0; i < lanes + dst->in[IN_WARP]; i++) {
		uint64_t lane = shuffle_lane(p->from.col[dst->in[IN_REGISTER] + i], src);
		own = own && lane == (i < lanes ? UINT64_C(1) << i : 0);
	}
	for (int r = 0; r < registers; r++)
		n += !own || shuffle_lane(f2_apply(&p->from, (uint64_t)r), src);
	return (double)(n << p->nkernel) / registers;
}
