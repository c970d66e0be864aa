/* What lanes do together on the lockstep machine: primitives, and matrix instructions by their definition: the operands
 * are put together from the lanes' registers by the instruction's fragments, multiplied, and taken apart again. */
#include "emit/lockstep.h"
#include "ir/interp/interp.h"

#include <string.h>

static bool
needs_warp(const Ins *i)
{
	return prim_info[i->sub].flags & CONV;
}

/* All lanes of a warp or none. */
static bool
warp_is_whole(Machine *m, int first)
{
	int n = 0;
	for (int k = 0; k < m->s->target->lanes; k++)
		n += m->active[first + k];
	return n == 0 || n == m->s->target->lanes ||
	    lockstep_fail(m, "%s that part of a warp does not reach", prim_info[m->at->sub].text);
}

static bool
run_barrier(Machine *m)
{
	for (int t = 0; t < m->s->threads; t++)
		if (!m->active[t])
			return lockstep_fail(m, "a barrier that thread %d does not reach", t);
	m->block_met = ++m->tick;
	for (int w = 0; w < m->s->threads / m->s->target->lanes; w++)
		m->warp_met[w] = m->tick;
	return true;
}

static uint64_t
reduce(const Machine *m, const Ins *i, int first)
{
	static const EmitOp ops[PRIM_COUNT] = {
		[PRIM_REDUX_ADD] = EMIT_ADD, [PRIM_REDUX_MIN] = EMIT_SMIN, [PRIM_REDUX_MAX] = EMIT_SMAX,
		[PRIM_REDUX_UMIN] = EMIT_UMIN, [PRIM_REDUX_UMAX] = EMIT_UMAX, [PRIM_REDUX_AND] = EMIT_AND,
		[PRIM_REDUX_OR] = EMIT_OR, [PRIM_REDUX_XOR] = EMIT_XOR,
	};
	const uint64_t *v = lockstep_at(m, i->in[0]);
	uint64_t sum = v[first];
	for (int k = 1; k < m->s->target->lanes; k++)
		sum = lockstep_op(ops[i->sub], REG_I32, sum, v[first + k], 0);
	return sum;
}

static uint64_t
vote(const Machine *m, const Ins *i, int first)
{
	uint64_t bits = 0;
	for (int k = 0; k < m->s->target->lanes; k++)
		bits |= (lockstep_at(m, i->in[0])[first + k] & 1) << k;
	if (i->sub == PRIM_VOTE_ANY)
		return bits != 0;
	return i->sub == PRIM_VOTE_ALL ? bits == 0xffffffff : bits;
}

static uint64_t
pack_bytes(DType t, uint64_t a, uint64_t b)
{
	uint8_t out[2];
	dtype_store_f64(t, out, 0, lockstep_real(REG_F32, a));
	dtype_store_f64(t, out, 1, lockstep_real(REG_F32, b));
	return (uint64_t)out[0] | (uint64_t)out[1] << 8;
}

static uint64_t
unpack_bytes(DType t, uint64_t word)
{
	uint8_t in[2] = {(uint8_t)word, (uint8_t)(word >> 8)};
	return lockstep_bits(REG_F16, dtype_load_f64(t, in, 0)) |
	    lockstep_bits(REG_F16, dtype_load_f64(t, in, 1)) << 16;
}

static uint64_t
permute_bytes(uint64_t low, uint64_t high, uint64_t by)
{
	uint64_t all = low | high << 32, out = 0;
	for (int k = 0; k < 4; k++) {
		int s = by >> (4 * k) & 15;
		uint64_t byte = all >> (8 * (s & 7)) & 255;
		if (s & 8)
			byte = byte & 128 ? 255 : 0;
		out |= byte << (8 * k);
	}
	return out;
}

/* One thread's result; false: no such primitive here. */
static bool
run_thread(const Machine *m, const Ins *i, int t, uint64_t *out)
{
	int lanes = m->s->target->lanes, lane = t % lanes, first = t - lane;
	const uint64_t *a = i->nin > 0 ? lockstep_at(m, i->in[0]) : NULL;
	const uint64_t *b = i->nin > 1 ? lockstep_at(m, i->in[1]) : NULL;
	int by = i->nimm > 0 ? (int)i->imm[0] : 0;
	switch (i->sub) {
	case PRIM_THREAD: *out = (uint64_t)t; return true;
	case PRIM_LANE: *out = (uint64_t)lane; return true;
	case PRIM_BLOCK: *out = (uint64_t)m->block; return true;
	case PRIM_NBLOCKS: *out = (uint64_t)m->nblocks; return true;
	case PRIM_SHUFFLE: *out = a[first + (int)(b[t] & (uint64_t)(lanes - 1))]; return true;
	case PRIM_SHUFFLE_XOR: *out = a[t ^ by]; return true;
	case PRIM_SHUFFLE_UP: *out = lane >= by ? a[t - by] : a[t]; return true;
	case PRIM_SHUFFLE_DOWN: *out = lane + by < lanes ? a[t + by] : a[t]; return true;
	case PRIM_VOTE_ANY: case PRIM_VOTE_ALL: case PRIM_VOTE_BALLOT: *out = vote(m, i, first); return true;
	case PRIM_REDUX_ADD: case PRIM_REDUX_MIN: case PRIM_REDUX_MAX: case PRIM_REDUX_UMIN: case PRIM_REDUX_UMAX:
	case PRIM_REDUX_AND: case PRIM_REDUX_OR: case PRIM_REDUX_XOR:
		*out = reduce(m, i, first);
		return true;
	case PRIM_BYTE_PERMUTE: *out = permute_bytes(a[t], b[t], lockstep_at(m, i->in[2])[t]); return true;
	case PRIM_PACK_E4M3: *out = pack_bytes(TY_F8E4M3, a[t], b[t]); return true;
	case PRIM_PACK_E5M2: *out = pack_bytes(TY_F8E5M2, a[t], b[t]); return true;
	case PRIM_UNPACK_E4M3: *out = unpack_bytes(TY_F8E4M3, a[t]); return true;
	case PRIM_UNPACK_E5M2: *out = unpack_bytes(TY_F8E5M2, a[t]); return true;
	case PRIM_TO_TF32: *out = (a[t] & 0x7f800000) == 0x7f800000 ? a[t] : ((a[t] + 0x1000) & 0xffffe000); return true;
	default: return false;
	}
}

/* 8 x 8 matrices from rows that lanes 8 k … 8 k + 7 give the addresses of. */
static bool
run_ldmatrix(Machine *m, const Ins *i, int first)
{
	bool transposed = i->sub == PRIM_LDMATRIX_T || i->sub == PRIM_LDMATRIX_T_1 || i->sub == PRIM_LDMATRIX_T_2;
	for (int k = 0; k < i->nout; k++) {
		uint16_t matrix[8][8];
		for (int row = 0; row < 8; row++) {
			int t = first + 8 * k + row;
			const char *p = lockstep_shared(m, t, lockstep_at(m, i->in[0])[t], 16, false);
			if (!p)
				return false;
			memcpy(matrix[row], p, 16);
		}
		for (int lane = 0; lane < 32; lane++) {
			int r = lane / 4, c = 2 * (lane % 4);
			uint64_t low = transposed ? matrix[c][r] : matrix[r][c];
			uint64_t high = transposed ? matrix[c + 1][r] : matrix[r][c + 1];
			lockstep_at(m, i->out[k])[first + lane] = low | high << 16;
		}
	}
	return true;
}

bool
lockstep_prim(Machine *m, const Ins *i)
{
	int lanes = m->s->target->lanes;
	if (i->sub == PRIM_BARRIER)
		return run_barrier(m);
	if (i->sub == PRIM_CP_ASYNC || i->sub == PRIM_CP_ASYNC_16 || i->sub == PRIM_CP_COMMIT || i->sub == PRIM_CP_WAIT)
		return lockstep_copy(m, i);
	for (int t = 0; t < m->s->threads; t++) {
		uint64_t out;
		if (t % lanes == 0 && needs_warp(i) && !warp_is_whole(m, t))
			return false;
		if (!m->active[t])
			continue;
		switch (i->sub) {
		case PRIM_WARP_BARRIER:
			if (t % lanes == 0)
				m->warp_met[t / lanes] = ++m->tick;
			continue;
		case PRIM_FENCE_GPU: case PRIM_PREFETCH_L2:
			continue;
		case PRIM_LDMATRIX: case PRIM_LDMATRIX_1: case PRIM_LDMATRIX_2:
		case PRIM_LDMATRIX_T: case PRIM_LDMATRIX_T_1: case PRIM_LDMATRIX_T_2:
			if (t % lanes == 0 && !run_ldmatrix(m, i, t))
				return false;
			continue;
		default:
			break;
		}
		if (!run_thread(m, i, t, &out))
			return lockstep_fail(m, "%s does not run here", prim_info[i->sub].text);
		if (i->nout)
			lockstep_at(m, i->out[0])[t] = out;
	}
	return true;
}

/* ---- matrix instructions ---- */

/* Row and column of a lane's element. */
static uint64_t
element_at(const Fragment *f, int reg, int lane)
{
	uint64_t at = 0;
	for (int k = 0; k < f->reg_bits; k++)
		at ^= reg >> k & 1 ? f->reg[k] : 0;
	for (int k = 0; k < MMA_LANE_BITS; k++)
		at ^= lane >> k & 1 ? f->lane[k] : 0;
	return at;
}

/* A matrix from words of packed elements; row-major as the fragment packs rows and columns. */
static void
collect(const Machine *m, const Reg *word, const Fragment *f, DType t, int first, double *out)
{
	int bits = dtype_info[t].bits, per = 32 / bits;
	for (int lane = 0; lane < 32; lane++)
		for (int r = 0; r < 1 << f->reg_bits; r++) {
			uint64_t v = lockstep_at(m, word[r / per])[first + lane] >> (bits * (r % per));
			v &= bits == 32 ? 0xffffffff : (UINT64_C(1) << bits) - 1;
			out[element_at(f, r, lane)] = dtype_is_float(t) ? dtype_load_f64(t, &v, 0)
									: (double)dtype_load_i64(t, &v, 0);
		}
}

bool
lockstep_mma(Machine *m, const Ins *i)
{
	const MmaInfo *x = i->mma;
	int per = 32 / dtype_info[x->a].bits;
	int na = (1 << x->fragment_a->reg_bits) / per, nb = (1 << x->fragment_b->reg_bits) / per;
	int nc = 1 << x->fragment_c->reg_bits;
	double a[32 * 64], b[32 * 64];
	if (x->warps != 1)
		return lockstep_fail(m, "%s does not run here", x->name);
	for (int first = 0; first < m->s->threads; first += 32) {
		if (!warp_is_whole(m, first))
			return false;
		if (!m->active[first])
			continue;
		collect(m, i->in, x->fragment_a, x->a, first, a);
		collect(m, i->in + na, x->fragment_b, x->b, first, b);
		for (int lane = 0; lane < 32; lane++)
			for (int r = 0; r < nc; r++) {
				uint64_t at = element_at(x->fragment_c, r, lane);
				int row = (int)(at / (uint64_t)x->n), col = (int)(at % (uint64_t)x->n);
				RegType t = m->s->type.at[i->in[na + nb + r] - 1];
				uint64_t c = lockstep_at(m, i->in[na + nb + r])[first + lane];
				double sum = t == REG_I32 ? (double)(int32_t)c : lockstep_real(t, c);
				for (int k = 0; k < x->k; k++)
					sum += a[row * x->k + k] * b[k * x->n + col];
				lockstep_at(m, i->out[r])[first + lane] =
				    t == REG_I32 ? (uint64_t)(uint32_t)(int64_t)sum : lockstep_bits(t, sum);
			}
	}
	return true;
}
