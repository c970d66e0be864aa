/* The elementwise ops that each switch of lowering must have, from the rows of ops.def: one without its case does not
 * compile (-Wswitch).  An op that is not in a set has the enumerator -1 there. */
#ifndef TEGULA_LOWER_OP_SETS_H
#define TEGULA_LOWER_OP_SETS_H

#include "ir/ir.h"

#define IS_ARITHMETIC(f) (FAMILY_##f == FAMILY_ARITH || FAMILY_##f == FAMILY_COMPARE)

typedef enum CompareOp {
	COMPARE_NONE = -1,
#define OP(id, text, nin, nout, rule, traits, cost, family, rounding, meaning) \
	COMPARE_##id = FAMILY_##family == FAMILY_COMPARE ? (int)OP_##id : COMPARE_NONE,
#include "ir/ops.def"
#undef OP
} CompareOp;

typedef enum BoolOp {
	BOOL_NONE = -1,
#define OP(id, text, nin, nout, rule, traits, cost, family, rounding, meaning) \
	BOOL_##id = (traits) & BOOLS ? (int)OP_##id : BOOL_NONE,
#include "ir/ops.def"
#undef OP
} BoolOp;

typedef enum IntegerOp {
	INTEGER_NONE = -1,
#define OP(id, text, nin, nout, rule, traits, cost, family, rounding, meaning) \
	INTEGER_##id = (FAMILY_##family == FAMILY_ARITH || FAMILY_##family == FAMILY_MATH) && !((traits) & ANYF) \
	    ? (int)OP_##id : INTEGER_NONE,
#include "ir/ops.def"
#undef OP
} IntegerOp;

typedef enum RealOp {
	REAL_NONE = -1,
#define OP(id, text, nin, nout, rule, traits, cost, family, rounding, meaning) \
	REAL_##id = IS_ARITHMETIC(family) && !((traits) & ANYI) ? (int)OP_##id : REAL_NONE,
#include "ir/ops.def"
#undef OP
} RealOp;

typedef enum MathOp {
	MATH_NONE = -1,
#define OP(id, text, nin, nout, rule, traits, cost, family, rounding, meaning) \
	MATH_##id = FAMILY_##family == FAMILY_MATH ? (int)OP_##id : MATH_NONE,
#include "ir/ops.def"
#undef OP
} MathOp;

#endif
