/* States of a reduction on their way between warps through scratch (model/plan_reduce.c says where each stands), and
 * offsets of elements in scratch. */
#include "lower/across/across.h"

/* Which slot each lane and warp bit moves, in bytes; those of the group only if `group`. */
static Reg
slot_of(const Combine *f, const WarpExchange *t, int bytes, bool group, bool by_lane)
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

static ThreadAccess
slot_access(const Combine *f, const WarpExchange *t, Reg base, int part, int nregs, Reg offset)
{
	ThreadAccess a = lower_shared_access(base, f->type[part]);
	a.offset = offset;
	a.constant = warp_exchange_at(f->p, t, part, nregs);
	return a;
}

/* True in one lane of those that hold the same states; 0: all differ. */
static Reg
first_lane(const Combine *f, const WarpExchange *t)
{
	Lower *l = f->l;
	uint64_t same = ~t->lanes & ((UINT64_C(1) << t->nlanes) - 1);
	if (!same)
		return 0;
	return lower_op2(l, THREAD_EQ, lower_op2(l, THREAD_AND, l->lane, lower_i32(l, (int64_t)same)), lower_i32(l, 0));
}

void
exchange_write(const Combine *f, const WarpExchange *t, Reg base, Reg *const *state, int nregs)
{
	Reg mask = first_lane(f, t);
	for (int k = 0; k < f->p->n; k++) {
		int bytes = thread_type_bytes(f->type[k]);
		ThreadAccess a = slot_access(f, t, base, k, nregs, slot_of(f, t, bytes, true, false));
		a.mask = mask;
		for (int i = 0; i < nregs; i++, a.constant += (int64_t)bytes << t->slots) {
			Reg v = lower_to_memory(f->l, f->type[k], state[i][k]);
			thread_store(f->l->b, &a, &v);
		}
	}
}

void
exchange_read(const Combine *f, const WarpExchange *t, Reg base, int i, int nregs, Reg **out)
{
	int lanes = __builtin_popcountll(t->lanes), n = 1 << t->group->n;
	for (int k = 0; k < f->p->n; k++) {
		int bytes = thread_type_bytes(f->type[k]);
		ThreadAccess a = slot_access(f, t, base, k, nregs, slot_of(f, t, bytes, false, false));
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
exchange_read_by_lane(const Combine *f, const WarpExchange *t, Reg base, Reg *out)
{
	for (int k = 0; k < f->p->n; k++) {
		int bytes = thread_type_bytes(f->type[k]);
		ThreadAccess a = slot_access(f, t, base, k, 1, slot_of(f, t, bytes, false, true));
		Reg v;
		thread_load(f->l->b, &a, &v);
		out[k] = lower_from_memory(f->l, f->type[k], v);
	}
}

/* ---- offsets ---- */

static uint64_t
offset_of(const LowerStrides *s, const Layout *l, uint64_t image)
{
	uint64_t at = 0;
	for (int d = 0; d < l->rank; d++) {
		uint64_t c = image >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1);
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
	return own & moves ? lower_op2(l, THREAD_XOR, thread, lower_i32(l, (int64_t)(own & moves))) : thread;
}
