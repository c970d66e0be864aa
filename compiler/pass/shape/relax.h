/* What the files of pass relax share; private to them. */
#ifndef TEGULA_RELAX_H
#define TEGULA_RELAX_H

#include "pass/pass.h"

/* Carried values of which something is assumed while it is shown of what they are first and what they become. */
typedef struct Assumed {
	const Value *v;
	const struct Assumed *next;
} Assumed;

/* exponent.c */
bool is_assumed(const Assumed *all, const Value *v);
/* What a for loop's carried value is first, and what an iteration makes of it; false: it is no such value. */
bool carried_from(const Value *v, Value *from[2]);
/* An approximated exponential of a difference becomes one of base 2. */
void relax_exponent(Op *op);
/* The factor of what such an exponential takes goes into its own. */
void relax_scale(Op *exp2);

/* relax_erf.c: 1 + erf(u), or {negated} 1 - erf(u), approximately. */
Value *relax_erf(Module *m, Builder *b, Value *u, bool negated);

#endif
