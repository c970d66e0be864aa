/* Loads and stores through tiles of pointers.  The bounds check (pointer.c) is that of the least and the greatest pointer
 * of a tile, of neighbours that of the first and the last; only where no one buffer holds all is each pointer checked, to
 * find the one outside or because the tile mixes buffers. */
#include "num/loops.h"
#include "ir/interp/fast/fast.h"

#include <string.h>

typedef struct PointerStep {
	Step step;
	PointerAccess access;
	int *buffer, nbuffers;                          /* parameters that the pointers may come from */
} PointerStep;

/* The addresses, and the mask or NULL. */
typedef struct Pointers {
	char *const *at;
	const uint8_t *mask;
	int64_t n;
} Pointers;

static Pointers
pointers(const Worker *w, const PointerAccess *a)
{
	return (Pointers){(char *const *)value_at(w, a->at), a->mask ? (const uint8_t *)value_at(w, a->mask) : NULL,
	    type_count(a->at->type)};
}

static bool
check_each(Worker *w, const PointerStep *s, const Pointers *p, ShadowUse use)
{
	for (int64_t i = 0; i < p->n; i++)
		if ((!p->mask || p->mask[i]) && !shadow_pointer(w, s->step.op, p->at[i], s->access.size, use))
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
		if ((!arg->low && arg->data) || (least >= low && most <= high && high - most >= (uint64_t)s->access.size))
			return true;
	}
	return false;
}

static bool
check_pointers(Worker *w, const PointerStep *s, const Pointers *p, ShadowUse use)
{
	uint64_t least = (uintptr_t)p->at[0], most = least;

	if (p->n > 1 || p->mask)
		loops_at[w->plan->cpu].range((const uint64_t *)p->at, p->mask, p->n, &least, &most);
	return least > most || one_holds(w, s, least, most) || check_each(w, s, p, use);
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
	BY_SIZE(size, LOAD_ALL)
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
	BY_SIZE(size, STORE_ALL)
}

/* All the pointers are neighbours and the mask is true up to some element and false from there: then the first
 * `*count` elements can be copied as one block, if it is in bounds. */
static bool
is_one_block(const Worker *w, const PointerStep *s, const Pointers *p, int64_t *count)
{
	uint64_t size = (uint64_t)s->access.size, n = (uint64_t)p->n;
	int64_t on = p->n;

	if (p->n < 16 || (uintptr_t)p->at[n - 1] - (uintptr_t)p->at[0] != (n - 1) * size)
		return false;
	if (p->mask) {
		const uint8_t *off = memchr(p->mask, 0, n);
		on = off ? off - p->mask : p->n;
		if (on < p->n && memchr(p->mask + on, 1, (size_t)(p->n - on)))
			return false;
	}
	*count = on;
	return loops_at[w->plan->cpu].neighbours((const uint64_t *)p->at, size, p->n) &&
	    (on == 0 || one_holds(w, s, (uintptr_t)p->at[0], (uintptr_t)p->at[on - 1]));
}

static bool
run_load(Worker *w, const Step *step)
{
	const PointerStep *s = (const PointerStep *)step;
	const Pointers p = pointers(w, &s->access);
	const char *other = s->access.value ? value_at(w, s->access.value) : NULL;
	char *out = value_at(w, &step->op->out[0]);
	int64_t size = s->access.size, on;

	if (!is_one_block(w, s, &p, &on)) {
		if (!check_pointers(w, s, &p, SHADOW_READ))
			return false;
		load_all((int)size, out, (const char *const *)p.at, p.mask, other, p.n);
		return true;
	}
	memcpy(out, p.at[0], (size_t)(on * size));
	if (other)
		memcpy(out + on * size, other + on * size, (size_t)((p.n - on) * size));
	else
		memset(out + on * size, 0, (size_t)((p.n - on) * size));
	return true;
}

static bool
run_store(Worker *w, const Step *step)
{
	const PointerStep *s = (const PointerStep *)step;
	const Pointers p = pointers(w, &s->access);
	const char *x = value_at(w, s->access.value);
	int64_t on;

	if (is_one_block(w, s, &p, &on)) {
		memcpy(p.at[0], x, (size_t)(on * s->access.size));
		return true;
	}
	if (!check_pointers(w, s, &p, SHADOW_WRITE))
		return false;
	store_all(s->access.size, x, p.at, p.mask, p.n);
	return true;
}

static Step *
emit(Plan *p, const Op *op, StepFn *run)
{
	PointerStep *s = STEP(p, op, PointerStep, run);

	s->access = pointer_access(op);
	s->buffer = NEW_ARRAY(p->mem, int, p->func->nparam);
	for (int i = 0; i < p->func->nparam; i++)
		if (pointer_may_be_of(p->func, p->origin[op->in[0]->id], i))
			s->buffer[s->nbuffers++] = i;
	return &s->step;
}

Step *
load_emit(Plan *p, const Op *op)
{
	return emit(p, op, run_load);
}

Step *
store_emit(Plan *p, const Op *op)
{
	return emit(p, op, run_store);
}
