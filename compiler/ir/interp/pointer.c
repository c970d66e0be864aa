/* Loads and stores through tiles of pointers, and atomics through them. */
#include "ir/interp/loops.h"
#include "ir/interp/plan.h"

#include <string.h>

typedef struct PointerStep {
	Step step;
	Home at, x, y, mask, out;                       /* x: other, or what is stored; y: cas's new value */
	bool masked, has_other;
	int size;
	uint64_t from;                                  /* parameters that the pointers may come from */
	Atomic *atomic;
} PointerStep;

static bool
check_pointers(Worker *w, const PointerStep *s, const char *const *at, const uint8_t *mask, int64_t n, ShadowUse use)
{
	for (int64_t i = 0; w->shadow && i < n; i++)
		if ((!mask || mask[i]) && !shadow_pointer(w, &s->step, s->from, at[i], s->size, use))
			return false;
	return true;
}

/* Masked loads of n elements; the plain case is the one without a branch. */
#define LOAD_ALL(T)                                                                                \
	do {                                                                                       \
		T *o = out;                                                                        \
		const T *const *p = (const T *const *)at;                                          \
		const T *x = other;                                                                \
		if (!mask)                                                                         \
			for (int64_t i = 0; i < n; i++)                                            \
				memcpy(&o[i], p[i], sizeof(T));                                    \
		else                                                                               \
			for (int64_t i = 0; i < n; i++) {                                          \
				T v = x ? x[i] : 0;                                                \
				if (mask[i])                                                       \
					memcpy(&v, p[i], sizeof v);                                \
				o[i] = v;                                                          \
			}                                                                          \
	} while (0)

static void
load_all(int size, void *out, const char *const *at, const uint8_t *mask, const void *other, int64_t n)
{
	switch (size) {
	case 1: LOAD_ALL(uint8_t); break;
	case 2: LOAD_ALL(uint16_t); break;
	case 4: LOAD_ALL(uint32_t); break;
	default: LOAD_ALL(uint64_t); break;
	}
}

#define STORE_ALL(T)                                                                               \
	do {                                                                                       \
		const T *x = in;                                                                   \
		for (int64_t i = 0; i < n; i++)                                                    \
			if (!mask || mask[i])                                                      \
				memcpy(at[i], &x[i], sizeof(T));                                   \
	} while (0)

static void
store_all(int size, const void *in, char *const *at, const uint8_t *mask, int64_t n)
{
	switch (size) {
	case 1: STORE_ALL(uint8_t); break;
	case 2: STORE_ALL(uint16_t); break;
	case 4: STORE_ALL(uint32_t); break;
	default: STORE_ALL(uint64_t); break;
	}
}

/* All the pointers are neighbours and the mask is true up to some element and false from there: then the first
 * `*count` elements can be copied as one block. */
static bool
is_one_block(const Worker *w, const char *const *at, const uint8_t *mask, int64_t n, int size, int64_t *count)
{
	int64_t on = n;

	if (n < 16 || (uintptr_t)at[n - 1] - (uintptr_t)at[0] != (uint64_t)(n - 1) * (uint64_t)size)
		return false;
	if (mask) {
		const uint8_t *off = memchr(mask, 0, (size_t)n);
		on = off ? off - mask : n;
		if (on < n && memchr(mask + on, 1, (size_t)(n - on)))
			return false;
	}
	*count = on;
	return loops_at[w->plan->cpu].neighbours((const uint64_t *)at, (uint64_t)size, n);
}

static bool
run_load(Worker *w, const Step *step)
{
	const PointerStep *s = (const PointerStep *)step;
	const char *const *at = (const char *const *)home_at(w, &s->at);
	const uint8_t *mask = s->masked ? (const uint8_t *)home_at(w, &s->mask) : NULL;
	const char *other = s->has_other ? home_at(w, &s->x) : NULL;
	char *out = w->reg[s->out.reg];
	int64_t n = type_count(s->out.type), on;

	if (!check_pointers(w, s, at, mask, n, SHADOW_READ))
		return false;
	if (!is_one_block(w, at, mask, n, s->size, &on)) {
		load_all(s->size, out, at, mask, other, n);
		return true;
	}
	memcpy(out, at[0], (size_t)(on * s->size));
	if (other)
		memcpy(out + on * s->size, other + on * s->size, (size_t)((n - on) * s->size));
	else
		memset(out + on * s->size, 0, (size_t)((n - on) * s->size));
	return true;
}

static bool
run_store(Worker *w, const Step *step)
{
	const PointerStep *s = (const PointerStep *)step;
	char *const *at = (char *const *)home_at(w, &s->at);
	const uint8_t *mask = s->masked ? (const uint8_t *)home_at(w, &s->mask) : NULL;
	const char *x = home_at(w, &s->x);
	int64_t n = type_count(s->at.type), on;

	if (!check_pointers(w, s, (const char *const *)at, mask, n, SHADOW_WRITE))
		return false;
	if (is_one_block(w, (const char *const *)at, mask, n, s->size, &on))
		memcpy(at[0], x, (size_t)(on * s->size));
	else
		store_all(s->size, x, at, mask, n);
	return true;
}

static bool
run_atomic(Worker *w, const Step *step)
{
	const PointerStep *s = (const PointerStep *)step;
	char *const *at = (char *const *)home_at(w, &s->at);
	const uint8_t *mask = s->masked ? (const uint8_t *)home_at(w, &s->mask) : NULL;
	const char *x = home_at(w, &s->x), *y = home_at(w, &s->y);
	char *old = w->reg[s->out.reg];
	int64_t n = type_count(s->at.type);

	memset(old, 0, (size_t)(n * s->size));
	for (int64_t i = 0; i < n; i++) {
		if (mask && !mask[i])
			continue;
		if (w->shadow && !shadow_pointer(w, step, s->from, at[i], s->size, SHADOW_ATOMIC))
			return false;
		atomic_run(s->atomic, at[i], x + i * s->size, y + i * s->size, old + i * s->size);
	}
	return true;
}

Step *
pointer_emit(Plan *p, const Op *op)
{
	StepFn *run = op->kind == OP_LOAD ? run_load : op->kind == OP_STORE ? run_store : run_atomic;
	PointerStep *s = STEP(p, op, PointerStep, run);
	int last = op->nin - 1;

	s->at = value_home(p, op->in[0]);
	s->from = value_info(p, op->in[0])->origin;
	s->size = dtype_tile_size(op->in[0]->type->elem);
	s->masked = op->kind == OP_LOAD ? op->nin > 1 : op->kind == OP_STORE ? op->nin > 2 : op_bool(op, "masked");
	if (s->masked)
		s->mask = value_home(p, op->in[op->kind == OP_LOAD ? 1 : last]);
	if (op->kind == OP_LOAD) {
		s->has_other = op->nin > 2;
		s->x = value_home(p, op->in[last]);
	} else {
		s->x = value_home(p, op->in[1]);
	}
	if (op->nout > 0)
		s->out = value_home(p, &op->out[0]);
	if (op->kind == OP_ATOMIC_PTR) {
		s->y = value_home(p, op->in[last - s->masked]);
		s->atomic = atomic_make(p, op, op->in[0]->type->elem);
	}
	return &s->step;
}
