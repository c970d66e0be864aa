/* Many f32 elements divided by one: three operations an element instead of a division, and the same result.
 *
 * With r the rounded inverse of s and q the rounded a r, the excess q s - a is exact in a fused multiply-add, and
 * q - r (q s - a) rounded is the quotient rounded (Markstein, "Computation of elementary functions on the IBM RISC
 * System/6000 processor", 1990).  That holds as long as nothing overflows on the way: s has to lie between 2^-100 and
 * 2^100, which all lanes ask together, else f64 does it: no quotient of f32 lies so near to the middle between two that a
 * product with the inverse in f64 could be on the wrong side.  Zeros keep their sign since s is above 0.  Where that comes
 * to no number (a is infinite or none, or the quotient overflows) q is the answer already.  A quotient that is denormal, or
 * of a dividend below 2^-102, may be one unit of its last place off. */
#include "lower/lower.h"
#include "target/target.h"

enum { FEW = 8 };                                       /* elements for which an inverse pays */

static Reg
quotient(Lower *l, Reg a, Reg s, Reg inverse)
{
	Emitter *e = l->e;
	Reg q = e->op(e, EMIT_FMUL, a, inverse, 0), minus = e->op(e, EMIT_FNEG, a, 0, 0);
	Reg excess = e->op(e, EMIT_FMA, q, s, minus);
	excess = e->op(e, EMIT_FNEG, excess, 0, 0);
	Reg better = e->op(e, EMIT_FMA, excess, inverse, q);
	return e->op(e, EMIT_SELECT, e->op(e, EMIT_FUNO, better, better, 0), q, better);
}

/* For any s; in few instructions, since code that hardly ever runs takes registers all the same. */
static void
divide_wide(Lower *l, const Reg *a, Reg s, int n, Reg *out)
{
	Emitter *e = l->e;
	if (!(l->t->has & HAS_F64)) {
		for (int i = 0; i < n; i++)
			out[i] = e->op(e, EMIT_FDIV, a[i], s, 0);
		return;
	}
	Reg one = e->float_const(e, REG_F64, 1), wide = e->cast(e, CAST_FEXT, REG_F64, s);
	Reg inverse = e->op(e, EMIT_FDIV, one, wide, 0);
	for (int i = 0; i < n; i++) {
		Reg q = e->op(e, EMIT_FMUL, e->cast(e, CAST_FEXT, REG_F64, a[i]), inverse, 0);
		out[i] = e->cast(e, CAST_FTRUNC, REG_F32, q);
	}
}

bool
lower_divide(Lower *l, const Reg *a, const Reg *s, int n, Reg *out)
{
	Emitter *e = l->e;
	if (n < FEW || !(l->t->has & HAS_LONG_DIVIDE) || e->type(e, a[0]) != REG_F32)
		return false;
	for (int i = 1; i < n; i++)
		if (s[i] != s[0])
			return false;
	Reg above = e->op(e, EMIT_FLE, e->float_const(e, REG_F32, 0x1p-100), s[0], 0);
	Reg below = e->op(e, EMIT_FLE, s[0], e->float_const(e, REG_F32, 0x1p100), 0);
	Reg *quick = NEW_ARRAY(l->mem, Reg, n), *slow = NEW_ARRAY(l->mem, Reg, n);
	e->if_begin(e, e->op(e, EMIT_AND, above, below, 0));
	Reg inverse = e->op(e, EMIT_FDIV, e->float_const(e, REG_F32, 1), s[0], 0);
	for (int i = 0; i < n; i++)
		quick[i] = quotient(l, a[i], s[0], inverse);
	e->if_else(e, quick, n);
	divide_wide(l, a, s[0], n, slow);
	e->if_end(e, slow, out, n);
	return true;
}
