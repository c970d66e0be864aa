/* Extracts that begin where the compiler knows, in the ways that model/plan_slice.c chooses: registers renamed, one shuffle
 * for each register, or the part alone through scratch.  Other parts (move.c) stand in scratch with the whole tile. */
#include "lower/lower.h"

/* ---- within a warp ---- */

static uint64_t
parity(uint64_t v)
{
	return (uint64_t)__builtin_parityll(v);
}

/* Register r of what is picked out: the operand's register and the constant part of the lane that has it. */
static uint64_t
source_of(const SlicePlan *s, int r, uint64_t *lane)
{
	int regs = s->from->in[IN_REGISTER];
	uint64_t own = 0, all;
	for (int i = 0; i < s->made.in[IN_REGISTER]; i++)
		own |= (uint64_t)(r >> i & 1) << s->reg[i];
	all = own;
	for (int i = 0; i < s->n; i++)
		all ^= (s->solved[i].value ^ parity(s->solved[i].of & own)) << s->solved[i].bit;
	*lane = all >> regs;
	return all & ((UINT64_C(1) << regs) - 1);
}

/* The part of that lane that depends on this one's number. */
static void
lane_images(const SlicePlan *s, uint64_t *image)
{
	int regs = s->from->in[IN_REGISTER];
	for (int j = 0; j < s->from->in[IN_LANE]; j++) {
		image[j] = slice_is_solved(s, regs + j) ? 0 : UINT64_C(1) << j;
		for (int i = 0; i < s->n && image[j]; i++)
			if (s->solved[i].of >> (regs + j) & 1)
				image[j] |= UINT64_C(1) << (s->solved[i].bit - regs);
	}
}

static void
pick(Lower *l, const SlicePlan *s, RegType type, const Reg *in, Reg *out)
{
	uint64_t image[F2_MAX] = {0}, lane;
	int n = s->from->in[IN_LANE] + s->from->in[IN_WARP];
	lane_images(s, image);
	LowerMap map = {0};
	if (s->way == SLICE_SHUFFLES)
		map = lower_map(l, image, n);
	for (int r = 0; r < 1 << s->made.in[IN_REGISTER]; r++) {
		int64_t more;
		out[r] = in[source_of(s, r, &lane)];
		if (s->way == SLICE_REGISTERS)
			continue;
		Reg at = lower_map_at(l, &map, lane, &more);
		if (more)
			at = lower_op2(l, THREAD_ADD, at, lower_i32(l, more));
		out[r] = lower_lane_from(l, type, out[r], at);
	}
}

/* ---- through scratch ---- */

/* May this thread's register r be of the part?  *mask says when (0: always); false: never. */
static bool
is_of_part(Lower *l, const SlicePlan *s, int r, Reg *mask)
{
	int regs = s->from->in[IN_REGISTER], n = s->from->map.nin - regs;
	uint64_t image[F2_MAX], touched = 0, differs = (f2_apply(&s->from->map, (uint64_t)r) ^ s->at) & s->fixed;
	for (int i = 0; i < n; i++)
		touched |= image[i] = s->from->map.col[regs + i] & s->fixed;
	if (differs & ~touched)
		return false;
	*mask = lower_is_first_holder(l, s->from);
	if (touched)
		*mask = lower_both(l, *mask,
		    lower_op2(l, THREAD_EQ, lower_thread_map(l, image, n), lower_i32(l, (int64_t)differs)));
	return true;
}

/* log2 of the neighbours of one row that a thread holds side by side and may write at once. */
static int
width_of(const Lower *l, const Op *op, int bytes)
{
	const Type *t = op->in[0]->type, *to = op->out[0].type;
	int last = t->rank - 1, n = 0;
	if (attr_index(op)[last] != 'p')
		return 0;
	n = MIN(layout_contiguous(op->in[0]->layout, last), log2_ceil(to->extent[to->rank - 1]));
	while (n > 0 && bytes << n > l->t->vector_bytes)
		n--;
	return n;
}

static void
write_part(Lower *l, const SlicePlan *s, const Op *op, Reg base)
{
	RegType type = lower_type(op->out[0].type);
	int regs = s->from->in[IN_REGISTER], n = s->from->map.nin - regs, bytes = thread_type_bytes(type);
	int vector = width_of(l, op, bytes);
	const Reg *in = lower_regs(l, op->in[0]);
	uint64_t image[F2_MAX], repeats = layout_free_bits(s->from, IN_REGISTER);
	Reg v[16];
	for (int i = 0; i < n; i++)
		image[i] = slice_coordinates(s, s->from->map.col[regs + i]) * (uint64_t)bytes;
	LowerMap map = lower_map(l, image, n);
	for (int r = 0; r < 1 << regs; r += 1 << vector) {
		ThreadAccess a = lower_shared_access(base, type);
		a.n = 1 << vector;
		a.align <<= vector;
		if ((uint64_t)r & repeats || !is_of_part(l, s, r, &a.mask))
			continue;
		uint64_t at = slice_coordinates(s, f2_apply(&s->from->map, (uint64_t)r)) * (uint64_t)bytes;
		a.offset = lower_map_at(l, &map, at, &a.constant);
		for (int i = 0; i < a.n; i++)
			v[i] = lower_to_memory(l, type, in[r + i]);
		thread_store(l->b, &a, v);
	}
}

static void
read_part(Lower *l, const Op *op, Reg base, Reg *out)
{
	const Layout *to = op->out[0].layout;
	RegType type = lower_type(op->out[0].type);
	if (to) {
		Layout rows = lower_row_major(to);
		lower_from_shared(l, base, out, to, &rows, type);
		return;
	}
	out[0] = lower_read_element(l, base, type, 0, 0);
}

bool
lower_slice(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	RegType type = lower_type(v->type);
	SlicePlan s;
	plan_slice(op, &s);
	if (s.way == SLICE_WHOLE)
		return false;
	Reg *out = lower_new(l, v);
	if (s.way == SLICE_SHARED) {
		Reg base = lower_scratch(l, op);
		write_part(l, &s, op, base);
		lower_barrier(l);
		read_part(l, op, base, out);
		return true;
	}
	Reg *made = NEW_ARRAY(l->mem, Reg, 1 << s.made.in[IN_REGISTER]);
	pick(l, &s, type, lower_regs(l, op->in[0]), made);
	if (v->layout)
		lower_to_layout(l, op, made, &s.made, v->layout, type, out);
	else
		out[0] = made[0];
	return true;
}
