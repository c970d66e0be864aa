/* The values of tune(...) that the caller left open, chosen by an estimate. */
#ifndef TEGULA_CHOOSE_H
#define TEGULA_CHOOSE_H

#include "sema/sema.h"
#include "target/target.h"

/* How a kernel is bound: with `given`, beside what the caller has, and no report of a refusal. */
typedef struct ChooseBinding {
	bool (*is_fixed)(void *user, const char *name);         /* the caller said its value */
	bool (*bind)(void *user, const NamedConst *given, int n, Bound *out);
	void *user;
} ChooseBinding;

/* Of a kernel with products and tune(...): enumerates the values for compile-time parameters, warps and stages that are not
 * fixed, and parting into roles, and takes the combination with the least estimate (estimate.h) for the sizes of `b`; at
 * equal estimates the header's defaults.  Of others: warps, and whether blocks stay.  False: the defaults stay, as the
 * target is not modelled, or nothing else is better.  *values is in mem. */
bool choose_values(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);

/* choose_blocks.c: the warps, and whether blocks stay, by the model; as choose_values, which calls it for kernels without
 * products and for those without tune(...). */
bool choose_blocks(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);

#endif
