/* Reads that start a few elements from one another, as a stencil's: x[i - 1 +: n], x[i +: n], x[i + 1 +: n].
 *
 * Addresses and bounds are those of the root i (access.c).  Where i lies between whole vectors, a thread of which four
 * neighbours are has them all from vectors, which the reads share: LLVM loads each once.
 *
 *     i:      a0 a1 a2 a3 | b0 b1 b2 b3 | c0 c1 c2 c3           a thread's registers of x[i +: n] are b0 … b3,
 *     i + 1:                   b1 b2 b3   c0                    of x[i + 1 +: n] b1, b2, b3 and c0
 *
 * A vector is inside of the tensor or outside as a whole, as the dimension is a multiple of it. */
#include "lower/lower.h"

#include "pass/layout/axis.h"

bool
lower_has_halos(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_READ || dtype_is_packed(op->in[0]->type->elem))
			continue;
		const char *index = attr_index(op);
		int64_t shift;
		for (int d = 0; index[d]; d++)
			if (index[d] == 'p' && access_root(op->in[1 + d], &shift) != op->in[1 + d])
				return true;
	}
	return false;
}

/* Register r's vector, and which element of it the register is. */
static ThreadAccess
vector_of(Lower *l, const LowerAccess *a, RegType t, int r, int *element)
{
	LowerAccess to = *a;
	int last = a->nd - 1;
	int64_t at = (int64_t)lower_register_coordinate(a->layout, r, a->dim[last].at) + a->dim[last].shift;
	ThreadAccess v = {.type = t, .n = a->halo, .align = a->unit * a->halo};
	*element = (int)(((at % a->halo) + a->halo) % a->halo);
	to.dim[last].shift -= *element;
	lower_access_at(l, &to, r, &v);
	return v;
}

void
lower_read_halo(Lower *l, const LowerAccess *a, RegType t, CacheHint cache, const Reg *fill, Reg *out)
{
	ThreadAccess held = {0};
	Reg all[16];
	uint64_t repeats = lower_repeats(a->layout);
	for (int r = 0; r < 1 << a->layout->in[IN_REGISTER]; r++) {
		int element;
		if ((uint64_t)r & repeats)
			continue;
		ThreadAccess v = vector_of(l, a, lower_memory_type(t), r, &element);
		v.cache = cache;
		if (!held.n || v.base != held.base || v.constant != held.constant || v.mask != held.mask) {
			held = v;
			thread_load(l->b, &held, all);
		}
		out[r] = lower_from_memory(l, t, all[element]);
		if (v.mask && fill)
			out[r] = lower_op3(l, THREAD_SELECT, v.mask, out[r], fill[r]);
	}
}
