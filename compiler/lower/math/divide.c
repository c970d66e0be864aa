/* Many f32 elements divided by one: three operations an element instead of a division, and the same result.
 *
 * With r the rounded inverse of s and q the rounded a r, the excess q s - a is exact in a fused multiply-add, and
 * q - r (q s - a) rounded is the quotient rounded (Markstein, "Computation of elementary functions on the IBM RISC
 * System/6000 processor", 1990).  That holds as long as nothing overflows on the way: s has to lie between 2^-100 and
 * 2^100, which all lanes ask together, else f64 does it: no quotient of f32 lies so near to the middle between two that a
 * product with the inverse in f64 could be on the wrong side.  Zeros keep their sign since s is above 0.  Where that comes
 * to no number (a is infinite or none, or the quotient overflows) q is the answer already.  A quotient that is denormal, or
 * of a dividend below 2^-102, may be one unit of its last place off.
 *
 * It pays from four elements on, more where some are zeros: ptxas's own division of a zero takes a branch of a hundred
 * instructions, for all lanes of a warp.  Softmax of 524,288 rows of 100 in tiles of 128, four elements a thread, took an
 * H200 201 us so and takes 104; of rows of 128 114 and 111. */
#include "lower/lower.h"
#include "target/target.h"

#include <math.h>

enum { FEW = 4 };                                       /* elements for which an inverse pays */

static Reg
quotient(Lower *l, Reg a, Reg s, Reg inverse)
{
	Reg q = thread_op(l->b, THREAD_FMUL, a, inverse, 0), minus = thread_op(l->b, THREAD_FNEG, a, 0, 0);
	Reg excess = thread_op(l->b, THREAD_FMA, q, s, minus);
	excess = thread_op(l->b, THREAD_FNEG, excess, 0, 0);
	Reg better = thread_op(l->b, THREAD_FMA, excess, inverse, q);
	return thread_op(l->b, THREAD_SELECT, thread_op(l->b, THREAD_FUNO, better, better, 0), q, better);
}

/* Those whose divisor is that of element `of`, any; in few instructions, since code that hardly ever runs takes registers
 * all the same. */
static void
divide_wide(Lower *l, const Reg *a, const Reg *s, int of, int n, Reg *out)
{
	bool has_wide = l->t->has & HAS_F64;
	Reg inverse = 0;
	if (has_wide) {
		Reg one = thread_float_const(l->b, REG_F64, 1), wide = thread_cast(l->b, CAST_FEXT, REG_F64, s[of]);
		inverse = thread_op(l->b, THREAD_FDIV, one, wide, 0);
	}
	for (int i = 0; i < n; i++) {
		if (s[i] != s[of])
			continue;
		if (!has_wide) {
			out[i] = thread_op(l->b, THREAD_FDIV, a[i], s[i], 0);
			continue;
		}
		Reg q = thread_op(l->b, THREAD_FMUL, thread_cast(l->b, CAST_FEXT, REG_F64, a[i]), inverse, 0);
		out[i] = thread_cast(l->b, CAST_FTRUNC, REG_F32, q);
	}
}

/* Its inverse, where the compiler knows that s lies between 2^-100 and 2^100: a number, or an integer, as the extent of a
 * dimension is; of 0 the inverse is infinite, and so is the quotient.  0: it does not. */
static Reg
known_inverse(Lower *l, Reg s)
{
	int exponent;
	const ThreadNode *n = thread_node_of(l->b, s, &(int){0});
	if (n && n->kind == NODE_CONST)
		return n->f >= 0x1p-100 && n->f <= 0x1p100 && frexp(n->f, &exponent) != 0.5
		    ? thread_float_const(l->b, REG_F32, (float)(1 / n->f)) : 0;
	if (!n || n->kind != NODE_CAST || (n->op != CAST_S2F && n->op != CAST_U2F))
		return 0;
	const ThreadNode *of = thread_node_of(l->b, n->in[0], &(int){0});
	return of && of->range.lo >= 0 && of->range.lo < of->range.hi
	    ? thread_op(l->b, THREAD_FDIV, thread_float_const(l->b, REG_F32, 1), s, 0) : 0;
}

/* Of each element the first that has the same divisor; false: some divisor is of few elements. */
static bool
find_groups(const Reg *s, int n, int *first)
{
	for (int i = 0; i < n; i++) {
		int same = 0;
		for (first[i] = 0; s[first[i]] != s[i];)
			first[i]++;
		same += COUNT_OF(k, n, s[k] == s[i]);
		if (same < FEW)
			return false;
	}
	return true;
}

static Reg
in_range(Lower *l, Reg s)
{
	Reg above = thread_op(l->b, THREAD_FLE, thread_float_const(l->b, REG_F32, 0x1p-100), s, 0);
	Reg below = thread_op(l->b, THREAD_FLE, s, thread_float_const(l->b, REG_F32, 0x1p100), 0);
	return thread_op(l->b, THREAD_AND, above, below, 0);
}

/* Of 16 bits: in f32, rounded once more. */
static bool
divide_halves(Lower *l, const Reg *a, const Reg *s, int n, RegType t, Reg *out)
{
	Reg *wide = NEW_ARRAY(l->mem, Reg, n), *by = NEW_ARRAY(l->mem, Reg, n);
	const ThreadNode *c = thread_node_of(l->b, s[0], &(int){0});
	for (int i = 0; i < n; i++) {
		wide[i] = lower_as(l, CAST_FEXT, REG_F32, a[i]);
		by[i] = c && c->kind == NODE_CONST && s[i] == s[0] ? thread_float_const(l->b, REG_F32, c->f)
								   : lower_as(l, CAST_FEXT, REG_F32, s[i]);
	}
	bool done = lower_divide(l, wide, by, n, out);
	for (int i = 0; i < n && done; i++)
		out[i] = lower_as(l, CAST_FTRUNC, t, out[i]);
	return done;
}

bool
lower_divide(Lower *l, const Reg *a, const Reg *s, int n, Reg *out)
{
	int *first = NEW_ARRAY(l->mem, int, n);
	RegType t = thread_type_of(l->b, a[0]);
	if (l->t->has & HAS_LONG_DIVIDE && (t == REG_F16 || t == REG_BF16))
		return divide_halves(l, a, s, n, t, out);
	if (!(l->t->has & HAS_LONG_DIVIDE) || t != REG_F32)
		return false;
	Reg known = known_inverse(l, s[0]);
	for (int i = 1; i < n; i++)
		known = s[i] == s[0] ? known : 0;
	for (int i = 0; i < n && known; i++)
		out[i] = quotient(l, a[i], s[0], known);
	if (known || !find_groups(s, n, first))
		return known != 0;
	Reg *quick = NEW_ARRAY(l->mem, Reg, n), *slow = NEW_ARRAY(l->mem, Reg, n), *inverse = NEW_ARRAY(l->mem, Reg, n);
	Reg all = in_range(l, s[0]);
	for (int i = 1; i < n; i++)
		all = first[i] == i ? thread_op(l->b, THREAD_AND, all, in_range(l, s[i]), 0) : all;
	thread_if(l->b, all);
	for (int i = 0; i < n; i++) {
		if (first[i] == i)
			inverse[i] = thread_op(l->b, THREAD_FDIV, thread_float_const(l->b, REG_F32, 1), s[i], 0);
		quick[i] = quotient(l, a[i], s[i], inverse[first[i]]);
	}
	thread_else(l->b, quick, n);
	for (int i = 0; i < n; i++)
		if (first[i] == i)
			divide_wide(l, a, s, i, n, slow);
	thread_if_end(l->b, slow, out, n);
	return true;
}
