/* Tiles from shared memory by simdgroup_load: matrices of 8 x 8, each of two registers of every lane.  Which layouts fit is
 * said in layout/matrix.c.  The address is that of a matrix's first element: what warps and the other registers add. */
#include "lower/lower.h"

LowerSimdgroup
lower_simdgroup(Lower *l, Reg base, const SimdgroupSide *plan, const Layout *layout, RegType type)
{
	uint64_t image[F2_MAX] = {0};
	int n = 5 + layout->in[IN_WARP];
	for (int i = 5; i < n; i++)
		image[i] = plan->to.col[layout->in[IN_REGISTER] + i] * (uint64_t)thread_type_bytes(type);
	return (LowerSimdgroup){.plan = plan, .base = base, .map = lower_map(l, image, n), .type = type};
}

void
lower_simdgroup_matrix(Lower *l, const LowerSimdgroup *s, uint64_t r, Reg *out)
{
	bool is_f32 = s->type == REG_F32;
	DType elem = s->type == REG_F16 ? TY_F16 : s->type == REG_BF16 ? TY_BF16 : TY_F32;
	int64_t constant;
	uint64_t bytes = f2_apply(&s->plan->to, r) * (uint64_t)thread_type_bytes(s->type);
	Reg offset = lower_map_at(l, &s->map, bytes, &constant);
	if (s->moved)
		offset = lower_op2(l, THREAD_ADD, offset, s->moved);
	Reg at = thread_pointer(l->b, s->base, lower_op2(l, THREAD_ADD, offset, lower_i32(l, constant)));
	const int64_t imm[] = {s->plan->stride, s->plan->transposed, elem};
	thread_prim(l->b, is_f32 ? PRIM_FRAGMENT_LOAD_F32 : PRIM_FRAGMENT_LOAD, &at, 1, imm, 3, out, is_f32 ? 2 : 1);
}

bool
lower_simdgroup_load(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type)
{
	SimdgroupSide plan = {0};
	if ((type != REG_F16 && type != REG_BF16 && type != REG_F32) ||
	    !layout_fits_8x8(layout, shared, &plan.to, &plan.stride, &plan.transposed))
		return false;
	LowerSimdgroup s = lower_simdgroup(l, base, &plan, layout, type);
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r += 2) {
		Reg word[2];
		lower_simdgroup_matrix(l, &s, (uint64_t)r, type == REG_F32 ? &out[r] : word);
		if (type != REG_F32)
			thread_unpack(l->b, word[0], type, &out[r], 2);
	}
	return true;
}
