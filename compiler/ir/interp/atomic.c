/* Atomic operations on one element, of any dtype of 8 bits and more.
 *
 * Integers of 32 and 64 bits add, exchange and combine by the machine's own instructions; everything else,
 * floats above all, computes the new value and swaps it in if the old one is still there.  Order and scope
 * are hints for devices with weaker memories: here every atomic is acquire and release. */
#include "ir/interp/run.h"

#include <string.h>

typedef enum AtomicKind { AT_ADD, AT_MIN, AT_MAX, AT_AND, AT_OR, AT_XOR, AT_EXCHANGE, AT_CAS } AtomicKind;

static const struct {
	const char *name;
	AtomicKind kind;
	OpKind op;
} kinds[] = {
	{"add", AT_ADD, OP_ADD},
	{"min", AT_MIN, OP_MIN},
	{"max", AT_MAX, OP_MAX},
	{"and", AT_AND, OP_AND},
	{"or", AT_OR, OP_OR},
	{"xor", AT_XOR, OP_XOR},
	{"exchange", AT_EXCHANGE, OP_COUNT},
	{"cas", AT_CAS, OP_COUNT},
};

void
atomic_make(Atomic *a, const Plan *p, const Op *op, DType t)
{
	const char *fn = attr_fn(op);
	DType in[] = {t, t};
	int k = 0;

	while (strcmp(kinds[k].name, fn) != 0)
		k++;
	*a = (Atomic){.kind = kinds[k].kind, .size = dtype_tile_size(t)};
	a->native = !dtype_is_float(t) && a->kind != AT_MIN && a->kind != AT_MAX;
	if (kinds[k].op != OP_COUNT)
		elem_make(&a->elem, p->cpu, kinds[k].op, in, 2, t, 0);
}

#define RUN_NATIVE(T)                                                                              \
	do {                                                                                       \
		T v, o;                                                                            \
		memcpy(&v, x, sizeof v);                                                           \
		switch (a->kind) {                                                                 \
		case AT_ADD: o = __atomic_fetch_add((T *)at, v, __ATOMIC_ACQ_REL); break;          \
		case AT_AND: o = __atomic_fetch_and((T *)at, v, __ATOMIC_ACQ_REL); break;          \
		case AT_OR: o = __atomic_fetch_or((T *)at, v, __ATOMIC_ACQ_REL); break;            \
		default: o = __atomic_fetch_xor((T *)at, v, __ATOMIC_ACQ_REL); break;              \
		}                                                                                  \
		memcpy(old, &o, sizeof o);                                                         \
	} while (0)

/* Exchange, compare-and-swap, and what must be computed.  A compare-and-swap compares bits. */
#define RUN_SWAP(T)                                                                                \
	do {                                                                                       \
		T o = __atomic_load_n((T *)at, __ATOMIC_ACQUIRE), v, want;                         \
		memcpy(&want, x, sizeof want);                                                     \
		do {                                                                               \
			if (a->kind == AT_CAS && o != want)                                        \
				break;                                                             \
			if (a->kind == AT_CAS)                                                     \
				memcpy(&v, y, sizeof v);                                           \
			else if (a->kind == AT_EXCHANGE)                                           \
				v = want;                                                          \
			else                                                                       \
				elem_run(&a->elem, &v, (const void *[]){&o, x}, 0, 1);             \
		} while (!__atomic_compare_exchange_n((T *)at, &o, v, false, __ATOMIC_ACQ_REL,     \
		    __ATOMIC_ACQUIRE));                                                            \
		memcpy(old, &o, sizeof o);                                                         \
	} while (0)

void
atomic_run(const Atomic *a, void *at, const void *x, const void *y, void *old)
{
	if (a->native && a->kind != AT_EXCHANGE && a->kind != AT_CAS) {
		BY_SIZE(a->size, RUN_NATIVE)
		return;
	}
	BY_SIZE(a->size, RUN_SWAP)
}
