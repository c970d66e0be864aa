/* Loads and stores through tiles of pointers, and atomics through them.  A pointer may be anything, so each is held to
 * the buffers of the parameters that it may come from before memory is touched (sanitize.c). */
#include "ir/interp/run.h"

#include <string.h>

PointerAccess
pointer_access(const Op *op)
{
	bool loads = op->kind == OP_LOAD;
	int mask = loads ? 1 : 2;
	PointerAccess a = {.at = op->in[0], .size = dtype_tile_size(op->in[0]->type->elem)};

	a.value = !loads ? op->in[1] : op->nin > 2 ? op->in[2] : NULL;
	a.mask = op->nin > mask ? op->in[mask] : NULL;
	return a;
}

static bool
is_on(const Worker *w, const Value *mask, int64_t i)
{
	return !mask || value_at(w, mask)[i];
}

DEFINE(LOAD)
{
	const PointerAccess a = pointer_access(op);
	char *const *at = (char *const *)value_at(w, a.at), *out = value_at(w, &op->out[0]);

	if (a.value)
		memcpy(out, value_at(w, a.value), (size_t)value_bytes(a.value));
	else
		memset(out, 0, (size_t)value_bytes(&op->out[0]));
	for (int64_t i = 0, n = type_count(a.at->type); i < n; i++) {
		if (!is_on(w, a.mask, i))
			continue;
		if (!shadow_pointer(w, op, at[i], a.size, SHADOW_READ))
			return false;
		memcpy(out + i * a.size, at[i], (size_t)a.size);
	}
	return true;
}

DEFINE(STORE)
{
	const PointerAccess a = pointer_access(op);
	char *const *at = (char *const *)value_at(w, a.at), *x = value_at(w, a.value);
	int64_t n = type_count(a.at->type);

	for (int64_t i = 0; i < n; i++)
		if (is_on(w, a.mask, i) && !shadow_pointer(w, op, at[i], a.size, SHADOW_WRITE))
			return false;
	for (int64_t i = 0; i < n; i++)
		if (is_on(w, a.mask, i))
			memcpy(at[i], x + i * a.size, (size_t)a.size);
	return true;
}

DEFINE(ATOMIC_PTR)
{
	int last = op->nin - 1, masked = attr_masked(op);
	char *const *at = (char *const *)value_at(w, op->in[0]);
	const Value *mask = masked ? op->in[last] : NULL;
	char *x = value_at(w, op->in[1]), *y = value_at(w, op->in[last - masked]), *old = value_at(w, &op->out[0]);
	int64_t n = type_count(op->in[0]->type);
	Atomic atomic;

	atomic_make(&atomic, w->plan, op, op->in[0]->type->elem);
	for (int64_t i = 0; i < n; i++)
		if (is_on(w, mask, i) && !shadow_pointer(w, op, at[i], atomic.size, SHADOW_ATOMIC))
			return false;
	memset(old, 0, (size_t)(n * atomic.size));
	for (int64_t i = 0; i < n; i++)
		if (is_on(w, mask, i))
			atomic_run(&atomic, at[i], x + i * atomic.size, y + i * atomic.size, old + i * atomic.size);
	return true;
}
