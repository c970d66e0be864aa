/* Primitives: positions in the grid, functions of a simdgroup, barriers. */
#include "emit/msl/msl.h"

static const char *
position_name(int prim)
{
	switch (prim) {
	case PRIM_THREAD: return "lid";
	case PRIM_LANE: return "lane";
	case PRIM_BLOCK: return "tg";
	case PRIM_NBLOCKS: return "tgs";
	case PRIM_SIMDGROUP: return "sg";
	default: return NULL;
	}
}

Expr
msl_prim_expr(Msl *m, MslNode *n)
{
	Expr x = {.strength = P_NAME, .width = 1, .c = C_UINT};
	const char *position = position_name(n->t->op), *name = prim_info[n->t->op].msl;
	if (position) {
		x.text = position;
		return x;
	}
	Expr v = msl_expr(m, n->in, 1);
	x.c = n->type == REG_F32 ? C_FLOAT : n->type == REG_PRED ? C_BOOL : C_UINT;
	if (n->type == REG_I32 && msl_type(m, n->in[0]) == REG_I32)
		v = msl_as(m, v, C_UINT, 1);
	switch (n->t->op) {
	case PRIM_REDUX_MIN: case PRIM_REDUX_MAX:
		x.c = C_INT;
		x.text = arena_printf(m->mem, "%s(%s)", name, msl_as(m, v, C_INT, 1).text);
		return x;
	case PRIM_SHUFFLE: {
		Expr lane = msl_as(m, msl_expr(m, n->in + 1, 1), C_USHORT, 1);
		x.text = arena_printf(m->mem, "simd_shuffle(%s, %s)", v.text, lane.text);
		return x;
	}
	case PRIM_SHUFFLE_XOR:
		x.text = arena_printf(m->mem, "%s(%s, %lld)", name, v.text, (long long)n->t->imm[0]);
		return x;
	case PRIM_VOTE_BALLOT:
		x.text = arena_printf(m->mem, "%s(%s)", msl_helper(m, HELPER_BALLOT), v.text);
		return x;
	default:
		x.text = arena_printf(m->mem, "%s(%s)", name ? name : "?", v.text);
		return x;
	}
}

void
msl_prim_text(Msl *m, MslNode *n)
{
	switch (n->t->op) {
	case PRIM_BARRIER:
		msl_say(m, m->barrier_device ? "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"
		                              : "threadgroup_barrier(mem_flags::mem_threadgroup);");
		return;
	case PRIM_HOLD:                                 /* Metal's compiler keeps the order of loads */
		return;
	case PRIM_FRAGMENT_LOAD: case PRIM_FRAGMENT_LOAD_F32:
		msl_fragment_load_text(m, n);
		return;
	case PRIM_WARP_STEP:
		msl_say(m, "simdgroup_barrier(mem_flags::mem_none);");
		return;
	case PRIM_WARP_BARRIER:
		msl_say(m, m->barrier_device ? "simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"
		                              : "simdgroup_barrier(mem_flags::mem_threadgroup);");
		return;
	default:
		return;                                 /* msl_select.c refused it */
	}
}
