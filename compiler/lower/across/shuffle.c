/* Conversions within a warp, as model/plan_shuffle.c plans them: the sender permutes its registers under its own lane bits,
 * one shuffle for each of the receiver's registers follows, and the receiver permutes what it got. */
#include "lower/lower.h"

#include <string.h>

/* A register from lane `from`, or, if that is 0, from the lane whose number differs by `mask`. */
static Reg
shuffle(Lower *l, RegType type, Reg v, Reg from, int64_t mask)
{
	if (from)
		return lower_lane_from(l, type, v, from);
	return mask ? lower_lane_xor(l, type, v, (int)mask) : v;
}

/* The lane to ask, D t + E w, or 0 if it is the thread's own. */
static Reg
lane_asked(Lower *l, const ShufflePlan *p, const Layout *src, const Layout *dst)
{
	uint64_t image[F2_MAX];
	int lanes = dst->in[IN_LANE], n = lanes + dst->in[IN_WARP];
	bool own = true;
	for (int i = 0; i < n; i++) {
		image[i] = shuffle_lane(p->from.col[dst->in[IN_REGISTER] + i], src);
		own = own && image[i] == (i < lanes ? UINT64_C(1) << i : 0);
	}
	return own ? 0 : lower_thread_map(l, image, n);
}

/* The sender's registers in the order that it sends them in: v[x] = from[x + G s + (F + G E) w]. */
static Reg *
sent_registers(Lower *l, const ShufflePlan *p, const Layout *src, const Layout *dst, const Reg *from)
{
	int n = 1 << src->in[IN_REGISTER], lanes = src->in[IN_LANE], warps = dst->in[IN_WARP];
	uint64_t image[F2_MAX] = {0};
	Reg *v = NEW_COPY(l->mem, from, n);
	memcpy(image, p->sender.col, sizeof *image * (size_t)lanes);
	for (int i = 0; i < warps; i++) {
		uint64_t column = p->from.col[layout_in_at(dst, IN_WARP) + i];
		image[lanes + i] = shuffle_register(column, src) ^ f2_apply(&p->sender, shuffle_lane(column, src));
	}
	lower_exchange(l, v, n, image, lanes + warps);
	return v;
}

void
lower_shuffle(Lower *l, const ShufflePlan *p, const Layout *src, const Layout *dst, const Reg *from, RegType type,
    Reg *out)
{
	Reg *v = sent_registers(l, p, src, dst, from), asked = lane_asked(l, p, src, dst);
	for (int r = 0; r < 1 << dst->in[IN_REGISTER]; r++) {
		uint64_t at = f2_apply(&p->from, (uint64_t)r), lane = shuffle_lane(at, src);
		uint64_t reg = shuffle_register(at, src) ^ f2_apply(&p->sender, lane);
		Reg from_lane = asked && lane ? lower_op2(l, THREAD_XOR, asked, lower_i32(l, (int64_t)lane)) : asked;
		out[r] = shuffle(l, type, v[reg], from_lane, (int64_t)lane);
		if (p->nkernel == 0 || v[reg] == v[reg ^ p->by[0]])
			continue;
		Reg other = shuffle(l, type, v[reg ^ p->by[0]], from_lane, (int64_t)lane);
		out[r] = lower_op3(l, THREAD_SELECT, lower_bit(l, l->thread, p->bit[0]), other, out[r]);
	}
	lower_exchange(l, out, 1 << dst->in[IN_REGISTER], p->rotate, dst->in[IN_LANE]);
}
