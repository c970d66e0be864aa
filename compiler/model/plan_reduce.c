/* Reductions and scans: what a state is, and the steps along the axis's bits.
 *
 * Each bit of the axis is one of a thread's registers, one of a warp's lanes or one of the block's warps.  Bits that move
 * no element take no part: all holders of an element compute the same.  Between warps states go through scratch: each
 * warp writes one state for every element that its lanes and registers still hold apart, and after a barrier each reads
 * the states of its group:
 *
 *     slot = lane bits that differ | warps of the group | other warps | registers
 *
 * Lanes come first, so that neither side has bank conflicts; with no lanes left a group's states are neighbours and
 * are read by wide loads. */
#include "ir/derive.h"
#include "model/model.h"

#include <string.h>

/* ---- states ---- */

static DType
key_type(DType t)
{
	return dtype_is_float(t) ? (t == TY_F64 ? TY_F64 : TY_F32) : t;
}

static CombineKind
kind_of(const Op *op)
{
	static const struct {
		const char *fn;
		CombineKind kind;
	} kinds[] = {
	    {"sum", COMBINE_SUM}, {"prod", COMBINE_PROD}, {"max", COMBINE_MAX}, {"min", COMBINE_MIN},
	    {"any", COMBINE_OR}, {"all", COMBINE_AND}, {"xor_sum", COMBINE_XOR},
	};
	if (op_has_fn(op))
		return COMBINE_REGION;
	return VALUE_OF(i, LEN(kinds), strcmp(attr_fn(op), kinds[i].fn) == 0, kinds[i].kind,
	    dtype_info[key_type(op->in[0]->type->elem)].bits > 32 ? COMBINE_PAIR : COMBINE_KEY);
}

/* In which elements of type t are computed with. */
static DType
work_type(DType t)
{
	if (dtype_is_float(t))
		return t == TY_F64 ? TY_F64 : TY_F32;
	return dtype_info[t].bits == 64 ? TY_I64 : TY_I32;
}

static void
find_state(ReducePlan *p, const Op *op)
{
	bool widens = p->kind == COMBINE_SUM || p->kind == COMBINE_PROD;
	p->work = work_type(widens ? op->out[0].type->elem : op->in[0]->type->elem);
	p->commutes = p->kind != COMBINE_REGION || region_commutes(op->region[0]);
	p->n = p->kind == COMBINE_REGION ? op->nin : p->kind == COMBINE_PAIR ? 2 : 1;
	p->bytes[0] = dtype_tile_size(p->work);
	if (p->kind == COMBINE_KEY || p->kind == COMBINE_PAIR) {
		p->bytes[0] = 8;
		p->bytes[1] = 4;
	}
	for (int i = 0; i < p->n && p->kind == COMBINE_REGION; i++)
		p->bytes[i] = element_bytes(op->in[i]->type);
}

/* ---- the axis ---- */

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
	if (axis_bits(l, axis, &bits))
		return *l;
	return layout_coalesced(l->rank, l->out, layout_last_first(l->rank), 0, l->in[IN_LANE], l->in[IN_WARP]);
}

/* The steps in the axis's order, or, where order does not matter, registers, lanes, warps. */
static void
find_runs(ReducePlan *p, const AxisBits *bits, bool any_order)
{
	for (int pass = 0; pass < (any_order ? IN_DIMS : 1); pass++)
		for (int i = 0; i < bits->n; i++) {
			if (any_order && (int)bits->in[i] != pass)
				continue;
			if (p->nruns == 0 || p->run[p->nruns - 1].in != bits->in[i])
				p->run[p->nruns++] = (AxisRun){.in = bits->in[i]};
			AxisRun *run = &p->run[p->nruns - 1];
			run->bit[run->n++] = (uint8_t)bits->bit[i];
		}
}

/* Elements that are equal need no step: each thread keeps one of its own. */
static void
leave_out_runs(ReducePlan *p)
{
	for (int i = 0; i < p->nruns; i++)
		for (int b = 0; b < p->run[i].n; b++) {
			uint64_t bit = UINT64_C(1) << p->run[i].bit[b];
			p->live &= p->run[i].in == IN_REGISTER ? ~bit : ~UINT64_C(0);
			p->lanes &= p->run[i].in == IN_LANE ? ~bit : ~UINT64_C(0);
		}
	p->nruns = 0;
}

static uint64_t
moving(const Layout *l, InDim d)
{
	uint64_t m = 0;
	for (int i = 0; i < l->in[d]; i++)
		m |= l->map.col[layout_in_at(l, d) + i] ? UINT64_C(1) << i : 0;
	return m;
}

/* ---- between warps ---- */

WarpExchange
warp_exchange(const Layout *l, uint64_t lanes, const AxisRun *group)
{
	return (WarpExchange){.lanes = lanes, .group = group, .nlanes = l->in[IN_LANE], .nwarps = l->in[IN_WARP],
		.slots = __builtin_popcountll(lanes) + l->in[IN_WARP]};
}

int64_t
warp_exchange_at(const ReducePlan *p, const WarpExchange *x, int i, int nregs)
{
	return SUM_OF(int64_t, k, i, (((int64_t)p->bytes[k] * nregs << x->slots) + 15) / 16 * 16);
}

/* The most bytes that a step takes. */
static int64_t
steps_scratch(const ReducePlan *p)
{
	uint64_t live = p->live, lanes = p->lanes;
	int64_t most = 0;
	for (int i = 0; i < p->nruns; i++) {
		const AxisRun *run = &p->run[i];
		for (int b = 0; b < run->n; b++) {
			uint64_t bit = UINT64_C(1) << run->bit[b];
			live &= run->in == IN_REGISTER ? ~bit : ~UINT64_C(0);
			lanes &= run->in == IN_LANE ? ~bit : ~UINT64_C(0);
		}
		WarpExchange x = warp_exchange(&p->layout, lanes, run);
		if (run->in == IN_WARP)
			most = MAX(most, warp_exchange_at(p, &x, p->n, 1 << __builtin_popcountll(live)));
	}
	return most;
}

void
plan_reduce(const Op *op, ReducePlan *p)
{
	bool scans = op_family(op) == FAMILY_SCAN;
	int axis = (int)attr_axis(op);
	AxisBits bits;
	memset(p, 0, offsetof(ReducePlan, run));
	p->op = op;
	p->kind = kind_of(op);
	p->nruns = 0;
	p->layout = axis_layout(op->in[0]->layout, axis);
	find_state(p, op);
	axis_bits(&p->layout, axis, &bits);
	find_runs(p, &bits, !scans && p->commutes);
	p->live = scans ? (UINT64_C(1) << p->layout.in[IN_REGISTER]) - 1 : moving(&p->layout, IN_REGISTER);
	p->lanes = moving(&p->layout, IN_LANE);
	if (op->kind == OP_REDUCE && attr_alike(op))
		leave_out_runs(p);
	Layout result = scans ? p->layout : layout_slice(&p->layout, axis);
	p->scratch = MAX(steps_scratch(p), operands_scratch(op, &p->layout));
	for (int k = 0; k < op->nout; k++)
		if (op->out[k].layout)
			p->scratch = MAX(p->scratch,
			    convert_scratch(&result, op->out[k].layout, element_bytes(op->out[k].type)));
}
