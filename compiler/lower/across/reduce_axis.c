/* How an axis lies in a layout, and states of a fold on their way between warps.
 *
 * A fold goes through the axis's bits, each of which is one of a thread's registers, one of a warp's lanes or one of the
 * block's warps.  Repeats (bits that move no element) take no part in it: all holders of an element compute the same.
 *
 * Between warps states go through scratch: each writes one state for every element that its lanes and registers still
 * tell apart, and after a barrier each reads the states of its group:
 *
 *     slot = lane bits that differ | warps of the group | other warps | registers
 *
 * Lanes come first, so that neither side meets bank conflicts; with no lanes left a group's states are neighbours and
 * are read by wide loads. */
#include "lower/fold.h"

#include <string.h>

bool
axis_bits(const Layout *l, int axis, AxisBits *out)
{
	int at = layout_out_at(l, axis), n = l->out[axis];
	uint64_t mask = ((UINT64_C(1) << n) - 1) << at, seen = 0;
	*out = (AxisBits){.n = n};
	for (int d = 0; d < IN_DIMS; d++)
		for (int i = 0; i < l->in[d]; i++) {
			uint64_t image = l->map.col[layout_in_at(l, (InDim)d) + i];
			if (!(image & mask))
				continue;
			if ((image & (image - 1)) || (seen & image))
				return false;
			seen |= image;
			int bit = __builtin_ctzll(image) - at;
			out->in[bit] = (InDim)d;
			out->bit[bit] = i;
		}
	return seen == mask;
}

Layout
axis_layout(const Layout *l, int axis)
{
	AxisBits bits;
	int order[LAYOUT_RANK];
	if (axis_bits(l, axis, &bits))
		return *l;
	for (int d = 0; d < l->rank; d++)
		order[d] = l->rank - 1 - d;
	return layout_coalesced(l->rank, l->out, order, 0, l->in[IN_LANE], l->in[IN_WARP]);
}

int
axis_runs(const AxisBits *bits, bool any_order, AxisRun *out)
{
	int n = 0;
	for (int pass = 0; pass < (any_order ? IN_DIMS : 1); pass++)
		for (int i = 0; i < bits->n; i++) {
			if (any_order && (int)bits->in[i] != pass)
				continue;
			if (n == 0 || out[n - 1].in != bits->in[i])
				out[n++] = (AxisRun){.in = bits->in[i]};
			AxisRun *run = &out[n - 1];
			run->bit[run->n++] = bits->bit[i];
		}
	return n;
}

void
trip_make(Trip *t, const Layout *l, uint64_t lanes, const AxisRun *group)
{
	*t = (Trip){.lanes = lanes, .group = group, .nlanes = l->in[IN_LANE], .nwarps = l->in[IN_WARP]};
	t->slots = __builtin_popcountll(lanes) + t->nwarps;
}

/* Where the states' i'th register begins, for nregs states a thread. */
static int64_t
part_at(const Fold *f, const Trip *t, int i, int nregs)
{
	int64_t at = 0;
	for (int k = 0; k < i; k++)
		at += (((int64_t)lower_type_bytes(f->type[k]) * nregs << t->slots) + 15) / 16 * 16;
	return at;
}

int64_t
trip_bytes(const Fold *f, const Trip *t, int nregs)
{
	return part_at(f, t, f->n, nregs);
}

/* Which slot each lane and warp bit moves, in bytes; those of the group only if `group`. */
static Reg
slot_of(const Fold *f, const Trip *t, int bytes, bool group, bool by_lane)
{
	uint64_t image[F2_MAX] = {0}, used = 0;
	int at = 0;
	for (int i = 0; i < t->nlanes; i++)
		if (t->lanes >> i & 1)
			image[i] = (uint64_t)bytes << at++;
	for (int i = 0; i < t->group->n; i++, at++) {
		used |= UINT64_C(1) << t->group->bit[i];
		if (group)
			image[t->nlanes + t->group->bit[i]] = (uint64_t)bytes << at;
		if (by_lane)
			image[i] = (uint64_t)bytes << at;
	}
	for (int i = 0; i < t->nwarps; i++)
		if (!(used >> i & 1))
			image[t->nlanes + i] = (uint64_t)bytes << at++;
	return lower_thread_map(f->l, image, t->nlanes + t->nwarps);
}

static RegType
memory_type(RegType t)
{
	return t == REG_PRED ? REG_I8 : t == REG_GLOBAL ? REG_I64 : t;
}

static EmitAccess
slot_access(const Fold *f, const Trip *t, Reg base, int part, int nregs, Reg offset)
{
	int bytes = lower_type_bytes(f->type[part]);
	return (EmitAccess){.space = SPACE_SHARED, .type = memory_type(f->type[part]), .n = 1, .base = base,
		.offset = offset, .constant = part_at(f, t, part, nregs), .align = bytes};
}

/* True in one lane of those that hold the same states; 0: all differ. */
static Reg
first_lane(const Fold *f, const Trip *t)
{
	Lower *l = f->l;
	uint64_t same = ~t->lanes & ((UINT64_C(1) << t->nlanes) - 1);
	if (!same)
		return 0;
	return lower_op2(l, EMIT_EQ, lower_op2(l, EMIT_AND, l->lane, lower_i32(l, (int64_t)same)), lower_i32(l, 0));
}

void
trip_write(const Fold *f, const Trip *t, Reg base, Reg *const *state, int nregs)
{
	Reg mask = first_lane(f, t);
	for (int k = 0; k < f->n; k++) {
		int bytes = lower_type_bytes(f->type[k]);
		EmitAccess a = slot_access(f, t, base, k, nregs, slot_of(f, t, bytes, true, false));
		a.mask = mask;
		for (int i = 0; i < nregs; i++, a.constant += (int64_t)bytes << t->slots) {
			Reg v = lower_to_memory(f->l, f->type[k], state[i][k]);
			thread_store(f->l->b, &a, &v);
		}
	}
}

void
trip_read(const Fold *f, const Trip *t, Reg base, int i, int nregs, Reg **out)
{
	int lanes = __builtin_popcountll(t->lanes), n = 1 << t->group->n;
	for (int k = 0; k < f->n; k++) {
		int bytes = lower_type_bytes(f->type[k]);
		EmitAccess a = slot_access(f, t, base, k, nregs, slot_of(f, t, bytes, false, false));
		Reg v[16];
		a.n = lanes ? 1 : MIN(n, f->l->t->vector_bytes / bytes);
		a.align = bytes * a.n;
		a.constant += (int64_t)i * bytes << t->slots;
		for (int c = 0; c < n; c += a.n, a.constant += (int64_t)bytes * a.n << lanes) {
			thread_load(f->l->b, &a, v);
			for (int j = 0; j < a.n; j++)
				out[c + j][k] = lower_from_memory(f->l, f->type[k], v[j]);
		}
	}
}

void
trip_read_by_lane(const Fold *f, const Trip *t, Reg base, Reg *out)
{
	for (int k = 0; k < f->n; k++) {
		int bytes = lower_type_bytes(f->type[k]);
		EmitAccess a = slot_access(f, t, base, k, 1, slot_of(f, t, bytes, false, true));
		Reg v;
		thread_load(f->l->b, &a, &v);
		out[k] = lower_from_memory(f->l, f->type[k], v);
	}
}

/* ---- offsets ---- */

static uint64_t
offset_of(const LowerStrides *s, const Layout *l, uint64_t place)
{
	uint64_t at = 0;
	for (int d = 0; d < l->rank; d++) {
		uint64_t c = place >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1);
		at |= s->shift[d] < 0 ? 0 : c << s->shift[d];
	}
	return at * (uint64_t)s->bytes;
}

Reg
lower_element_offset(Lower *l, const LowerStrides *s, const Layout *layout, int r, int64_t *constant)
{
	uint64_t image[F2_MAX], moves = 0;
	*constant = 0;
	if (!layout)
		return 0;
	int from = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	for (int i = 0; i < n; i++) {
		image[i] = offset_of(s, layout, layout->map.col[from + i]);
		moves |= image[i];
	}
	uint64_t own = offset_of(s, layout, f2_apply(&layout->map, (uint64_t)r));
	Reg thread = lower_thread_map(l, image, n);
	*constant = (int64_t)(own & ~moves);
	return own & moves ? lower_op2(l, EMIT_XOR, thread, lower_i32(l, (int64_t)(own & moves))) : thread;
}
