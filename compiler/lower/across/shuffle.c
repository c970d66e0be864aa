/* Conversions within a warp.
 *
 * The plan is linear: the receiving lane t wants, for its register r,
 *
 *     register  A r + B t + F w     of lane     C r + D t + E w          (w: the warp; + is exclusive or)
 *
 * A shuffle moves one register a lane, so the sender s must know from its own number which register is wanted.  Where D
 * tells lanes apart, t = D^-1 (s + C r + E w), and the sender puts forward A r + G (s + C r) + … with G = B D^-1: its
 * registers change places under its own lane bits, once for all shuffles.
 *
 * Where D does not (lanes become registers), receivers take their registers in different orders: in round q lane t asks
 * for its register q + P t, with P chosen so that D + C P tells lanes apart, and afterwards the receiver's registers
 * change places under its lane bits.  Directions for which there is no such P stay unknown to the sender; if B moves
 * along one, both registers are sent and the receiver chooses by its bit.  More than one of these is dearer than shared
 * memory. */
#include "lower/lower.h"

#include <string.h>

typedef struct Plan {
	F2 g;                                           /* of sender's lane bits to register bits */
	uint64_t turn[F2_MAX];                          /* P: of the receiver's lane bits to its register bits */
	int nkernel;
	int bit[F2_MAX];                                /* of the receiver's lane, one for each direction … */
	uint64_t by[F2_MAX];                            /* … and the registers that it moves by */
} Plan;

typedef struct Sizes {
	int dst_regs, src_regs, dst_lanes, src_lanes, warps;
} Sizes;

static Sizes
sizes(const Layout *src, const Layout *dst)
{
	return (Sizes){dst->in[IN_REGISTER], src->in[IN_REGISTER], dst->in[IN_LANE], src->in[IN_LANE],
		dst->in[IN_WARP]};
}

/* Parts of the plan's column i: the source's register bits and its lane bits. */
static uint64_t
register_part(const Convert *c, Sizes z, int i)
{
	return c->from.col[i] & ((UINT64_C(1) << z.src_regs) - 1);
}

static uint64_t
lane_part(const Convert *c, Sizes z, int i)
{
	return c->from.col[i] >> z.src_regs & ((UINT64_C(1) << z.src_lanes) - 1);
}

static F2
lanes_asked(const Convert *c, Sizes z)
{
	F2 d = f2_zero(z.dst_lanes, z.src_lanes);
	for (int i = 0; i < z.dst_lanes; i++)
		d.col[i] = lane_part(c, z, z.dst_regs + i);
	return d;
}

static F2
registers_asked(const Convert *c, Sizes z)
{
	F2 b = f2_zero(z.dst_lanes, z.src_regs);
	for (int i = 0; i < z.dst_lanes; i++)
		b.col[i] = register_part(c, z, z.dst_regs + i);
	return b;
}

static int
top_bit(uint64_t v)
{
	return 63 - __builtin_clzll(v);
}

/* One more direction that senders can tell, by P: false if there is none. */
static bool
turn_one(Convert *c, Sizes z, Plan *p)
{
	F2 d = lanes_asked(c, z), b = registers_asked(c, z);
	uint64_t kernel[F2_MAX], x;
	int n = f2_kernel(&d, kernel);
	for (int k = 0; k < n; k++) {
		int lane = top_bit(kernel[k]);
		for (int e = 0; f2_apply(&b, kernel[k]) && e < z.dst_regs; e++) {
			if (f2_solve(&d, lane_part(c, z, e), &x))
				continue;
			c->from.col[z.dst_regs + lane] ^= c->from.col[e];
			p->turn[lane] ^= UINT64_C(1) << e;
			return true;
		}
	}
	return false;
}

static void
make_plan(Convert *c, Sizes z, Plan *p)
{
	*p = (Plan){0};
	while (turn_one(c, z, p))
		;
	F2 d = lanes_asked(c, z), b = registers_asked(c, z), inverse;
	uint64_t kernel[F2_MAX], free = 0;
	int n = f2_kernel(&d, kernel);
	for (int k = 0; k < n; k++) {
		int top = top_bit(kernel[k]);           /* in no other vector of the kernel */
		free |= UINT64_C(1) << top;
		uint64_t by = f2_apply(&b, kernel[k]);
		if (!by)
			continue;
		p->bit[p->nkernel] = top;
		p->by[p->nkernel++] = by;
	}
	/* D's independent columns made a basis of all lanes; the rest is sent to nowhere. */
	F2 basis = f2_zero(0, z.src_lanes), moved = f2_zero(0, z.src_regs);
	uint64_t x;
	for (int i = 0; i < z.dst_lanes; i++) {
		if (free >> i & 1)
			continue;
		basis.col[basis.nin++] = d.col[i];
		moved.col[moved.nin++] = b.col[i];
	}
	for (int i = 0; i < z.src_lanes; i++) {
		if (f2_solve(&basis, UINT64_C(1) << i, &x))
			continue;
		basis.col[basis.nin++] = UINT64_C(1) << i;
		moved.col[moved.nin++] = 0;
	}
	if (!f2_invert(&basis, &inverse))
		die("a basis that is not one");
	p->g = f2_compose(&moved, &inverse);
}

bool
lower_can_shuffle(const Convert *c, const Layout *src, const Layout *dst)
{
	Plan p;
	Convert turned = *c;
	make_plan(&turned, sizes(src, dst), &p);
	return p.nkernel <= 1;
}

/* One word from another lane: `lane` if it is not 0, else the lane whose number differs by `mask`. */
static Reg
shuffle_word(Lower *l, Reg word, Reg lane, int64_t mask)
{
	Reg out, in[2] = {word, lane};
	if (lane)
		thread_prim(l->b, PRIM_SHUFFLE, in, 2, NULL, 0, &out, 1);
	else
		thread_prim(l->b, PRIM_SHUFFLE_XOR, in, 1, &mask, 1, &out, 1);
	return out;
}

static Reg
shuffle(Lower *l, Reg v, RegType type, Reg lane, int64_t mask)
{
	if (!lane && mask == 0)
		return v;
	switch (type) {
	case REG_PRED:
		v = shuffle_word(l, lower_as(l, CAST_ZEXT, REG_I32, v), lane, mask);
		return lower_op2(l, EMIT_NE, v, lower_i32(l, 0));
	case REG_F32:
		v = shuffle_word(l, lower_as(l, CAST_BITS, REG_I32, v), lane, mask);
		return lower_as(l, CAST_BITS, REG_F32, v);
	case REG_I32:
	case REG_SHARED:
		return shuffle_word(l, v, lane, mask);
	case REG_F16:
	case REG_BF16:
		v = lower_as(l, CAST_BITS, REG_I16, v);
		/* fall through */
	case REG_I8:
	case REG_I16:
		v = shuffle_word(l, lower_as(l, CAST_ZEXT, REG_I32, v), lane, mask);
		v = lower_as(l, CAST_TRUNC, type == REG_I8 ? REG_I8 : REG_I16, v);
		return type == REG_F16 || type == REG_BF16 ? lower_as(l, CAST_BITS, type, v) : v;
	default:
		break;
	}
	if (type != REG_I64)
		v = lower_as(l, CAST_BITS, REG_I64, v);
	Reg high = lower_op2(l, EMIT_LSHR, v, lower_i64(l, 32));
	high = shuffle_word(l, lower_as(l, CAST_TRUNC, REG_I32, high), lane, mask);
	Reg low = shuffle_word(l, lower_as(l, CAST_TRUNC, REG_I32, v), lane, mask);
	high = lower_op2(l, EMIT_SHL, lower_as(l, CAST_ZEXT, REG_I64, high), lower_i64(l, 32));
	v = lower_op2(l, EMIT_OR, high, lower_as(l, CAST_ZEXT, REG_I64, low));
	return type == REG_I64 ? v : lower_as(l, CAST_BITS, type, v);
}

/* The lane to ask, D t + E w, or 0 if it is the thread's own. */
static Reg
lane_asked(Lower *l, const Convert *c, Sizes z)
{
	uint64_t image[F2_MAX];
	bool own = true;
	for (int i = 0; i < z.dst_lanes + z.warps; i++) {
		image[i] = lane_part(c, z, z.dst_regs + i);
		own = own && image[i] == (i < z.dst_lanes ? UINT64_C(1) << i : 0);
	}
	return own ? 0 : lower_thread_map(l, image, z.dst_lanes + z.warps);
}

/* The sender's registers as it puts them forward: v[x] = from[x + G s + (F + G E) w]. */
static Reg *
put_forward(Lower *l, const Convert *c, const Plan *p, Sizes z, const Reg *from)
{
	int n = 1 << z.src_regs;
	uint64_t image[F2_MAX] = {0};
	Reg *v = NEW_ARRAY(l->mem, Reg, n);
	memcpy(v, from, sizeof *v * (size_t)n);
	for (int i = 0; i < z.src_lanes; i++)
		image[i] = p->g.col[i];
	for (int i = 0; i < z.warps; i++) {
		int col = z.dst_regs + z.dst_lanes + i;
		image[z.src_lanes + i] = register_part(c, z, col) ^ f2_apply(&p->g, lane_part(c, z, col));
	}
	lower_exchange(l, v, n, image, z.src_lanes + z.warps);
	return v;
}

void
lower_shuffle(Lower *l, const Convert *given, const Layout *src, const Layout *dst, const Reg *from, RegType type, Reg *out)
{
	Sizes z = sizes(src, dst);
	Convert c = *given;
	Plan p;
	make_plan(&c, z, &p);
	Reg *v = put_forward(l, &c, &p, z, from), asked = lane_asked(l, &c, z);
	for (int r = 0; r < 1 << z.dst_regs; r++) {
		uint64_t at = f2_apply(&c.from, (uint64_t)r);
		uint64_t reg = at & ((UINT64_C(1) << z.src_regs) - 1), lane = at >> z.src_regs;
		lane &= (UINT64_C(1) << z.src_lanes) - 1;
		reg ^= f2_apply(&p.g, lane);
		Reg from_lane = asked && lane ? lower_op2(l, EMIT_XOR, asked, lower_i32(l, (int64_t)lane)) : asked;
		out[r] = shuffle(l, v[reg], type, from_lane, (int64_t)lane);
		if (p.nkernel == 0 || v[reg] == v[reg ^ p.by[0]])
			continue;
		Reg other = shuffle(l, v[reg ^ p.by[0]], type, from_lane, (int64_t)lane);
		Reg bit = lower_op2(l, EMIT_AND, l->thread, lower_i32(l, INT64_C(1) << p.bit[0]));
		bit = lower_op2(l, EMIT_NE, bit, lower_i32(l, 0));
		out[r] = lower_op3(l, EMIT_SELECT, bit, other, out[r]);
	}
	lower_exchange(l, out, 1 << z.dst_regs, p.turn, z.dst_lanes);
}
