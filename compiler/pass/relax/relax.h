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
/* By induction: does `holds` hold of a for loop's carried value, first and after an iteration? */
typedef bool Property(const Value *v, int depth, const Assumed *all);
bool carried_has(Property *holds, const Value *v, int depth, const Assumed *all);
/* Does it hold of all that elements of an op's result are made of? */
bool operands_have(Property *holds, const Value *v, int depth, const Assumed *all);
/* Products that a part of a loop's range adds up, or several parts do that are joined, by factors. */
bool relax_is_part(const Value *v);
/* An approximated exponential of a difference becomes one of base 2. */
void relax_exponent(Op *op);
/* The factor of what such an exponential takes goes into its own. */
void relax_scale(Op *exp2);
/* A term of an exponent errs in absolute terms, so that c tanh u is 2c sigmoid(2u) - c, to 2^-21 c by the hardware's
 * functions, without the branch for small u; numbers that u is multiplied with, and c, join in.  Soft-capped scores take
 * seven instructions an element, not 18. */
void relax_tanh_term(Module *m, Op *tanh);

/* underflow.c: is operand i of the comparison compared with 0, and 0 or not whatever its exponentials' last bits are? */
bool relax_asks_for_zero(const Op *compare, int i);
/* Is it a sum of exponentials from which no greatest is taken off, and something divided by it or its logarithm taken? */
bool relax_may_vanish(const Op *sum);
/* Is operand i what is divided by such a sum, or multiplied with its inverse?  It may be denormal, too. */
bool relax_by_vanishing(const Op *op, int i);

/* polynomial.c */
/* What an approximated exponential or sigmoid takes, where it is a polynomial with constants: its factor goes into them. */
void relax_polynomial(Module *m, Op *op);
/* Half of 1 + erf(u), or {negated} of 1 - erf(u), approximately. */
Value *relax_erf(Module *m, Builder *b, Value *u, bool negated);

/* relax.c */
/* A constant of moderate size, which others may be multiplied with. */
bool relax_constant(const Value *v, double *c);
/* Known not to be negative (a NaN may pass). */
bool relax_is_positive(const Value *v, int depth, const Assumed *all);
/* What a broadcast repeats. */
const Value *relax_repeated(const Value *v);

/* divide.c: many elements divided by one.  The term of an exponent goes without the look at divisors that have no
 * inverse. */
void relax_divisor(Op *op, bool is_term);
/* Divisions of what is often 0, all of whose bits stay. */
void relax_zeros(Op *op);

#endif
