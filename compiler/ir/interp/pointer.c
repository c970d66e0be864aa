/* Loads and stores through tiles of pointers, and atomics through them.
 *
 * A pointer may be anything, so each access is held to the buffers of the parameters that its pointers come from before
 * memory is touched.  The least and the greatest pointer of a tile decide that, of neighbours the first and the last;
 * only where no one buffer holds all is each pointer looked at, to find the one that strays or because the tile mixes
 * buffers. */
#include "num/loops.h"
#include "ir/interp/plan.h"

#include <string.h>

typedef struct PointerStep {
	Step step;
	Home at, x, y, mask, out;                       /* x: other, or what is stored; y: cas's new value */
	bool masked, has_other;
	int size;
	uint64_t from;                                  /* parameters that the pointers may come from */
	int *buffer, nbuffers;                          /* the same as indices */
	Atomic *atomic;
} PointerStep;

static bool
check_each(Worker *w, const PointerStep *s, const char *const *at, const uint8_t *mask, int64_t n, ShadowUse use)
{
	for (int64_t i = 0; i < n; i++)
		if ((!mask || mask[i]) && !shadow_pointer(w, &s->step, s->from, at[i], s->size, use))
			return false;
	return true;
}

/* Does one buffer hold the elements at these addresses and between them? */
static bool
one_holds(const Worker *w, const PointerStep *s, uint64_t least, uint64_t most)
{
	for (int i = 0; i < s->nbuffers; i++) {
		const PlanArg *arg = &w->args[s->buffer[i]];
		uint64_t low = (uintptr_t)arg->low, high = (uintptr_t)arg->high;
		if ((!arg->low && arg->data) || (least >= low && most <= high && high - most >= (uint64_t)s->size))
			return true;
	}
	return false;
}

static bool
check_pointers(Worker *w, const PointerStep *s, const char *const *at, const uint8_t *mask, int64_t n, ShadowUse use)
{
	uint64_t least = (uintptr_t)at[0], most = least;

	if (w->shadow)
		return check_each(w, s, at, mask, n, use);
	if (n > 1 || mask)
		loops_at[w->plan->cpu].range((const uint64_t *)at, mask, n, &least, &most);
	return least > most || one_holds(w, s, least, most) || check_each(w, s, at, mask, n, use);
}

/* The same of the first n, which are neighbours and all touched. */
static bool
check_block(Worker *w, const PointerStep *s, const char *const *at, int64_t n, ShadowUse use)
{
	bool holds = !w->shadow && (n == 0 || one_holds(w, s, (uintptr_t)at[0], (uintptr_t)at[n - 1]));

	return holds || check_each(w, s, at, NULL, n, use);
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

	if (!is_one_block(w, at, mask, n, s->size, &on)) {
		if (!check_pointers(w, s, at, mask, n, SHADOW_READ))
			return false;
		load_all(s->size, out, at, mask, other, n);
		return true;
	}
	if (!check_block(w, s, at, on, SHADOW_READ))
		return false;
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

	bool block = is_one_block(w, (const char *const *)at, mask, n, s->size, &on);
	if (!(block ? check_block(w, s, (const char *const *)at, on, SHADOW_WRITE)
	            : check_pointers(w, s, (const char *const *)at, mask, n, SHADOW_WRITE)))
		return false;
	if (block)
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

	if (!check_pointers(w, s, (const char *const *)at, mask, n, SHADOW_ATOMIC))
		return false;
	memset(old, 0, (size_t)(n * s->size));
	for (int64_t i = 0; i < n; i++) {
		if (mask && !mask[i])
			continue;
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
	s->buffer = NEW_ARRAY(p->mem, int, p->func->nparam);
	for (int i = 0; i < p->func->nparam; i++)
		if (pointer_may_be_of(p->func, s->from, i))
			s->buffer[s->nbuffers++] = i;
	s->size = dtype_tile_size(op->in[0]->type->elem);
	s->masked = op->kind == OP_LOAD ? op->nin > 1 : op->kind == OP_STORE ? op->nin > 2 : attr_masked(op);
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
