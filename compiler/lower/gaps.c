/* Comparisons of indices of 64 bits, in 32: masks of a causal score, of a window, of a ragged end.
 *
 *     %c = le (%t + column), (%m + row)                       %g = min(max((%m + %lane) - (%t + %lane'), -2^30), 2^30)
 *     32 registers: t + lane' + 0, 1, 8, 9 …           =>     0 <= %g, 1 <= %g, 8 <= %g, …
 *     with m + lane + 0, 8
 *
 * What registers compare differs by constants; the rest, which a thread has once for all of them, is subtracted, brought to
 * 32 bits, and compared with those.  A comparison of 64 bits is two instructions, and the sums before are two each.  Sums
 * must be known not to wrap, as positions in tensors and what numbers of 32 bits add to them.  Tiles of one dimension, of
 * which few are compared, stay: with them a loop of attention took an H200 2 % longer. */
#include "lower/lower.h"

enum { TERMS = 4, LEAST = 16, SHARED = 8, DEEP = 6 };   /* LEAST: registers; SHARED: that have one difference */
#define FAR (INT64_C(1) << 59)                          /* of a term */
#define NEAR (INT64_C(1) << 30)                         /* of what is compared */

/* A sum of registers, of which each has a sign, and a constant. */
typedef struct Sum {
	int n;
	Reg of[2 * TERMS];
	bool minus[2 * TERMS];
	int64_t constant;
} Sum;

static bool
is_held(ThreadRange r)
{
	return r.lo >= -FAR && r.hi <= FAR;
}

static bool
add(const ThreadModule *m, Sum *x, Reg r, bool minus, int depth)
{
	const ThreadNode *n = thread_def(m, r);
	int64_t c;
	if (thread_const(m, r, &c)) {
		x->constant += minus ? -c : c;
		return c > -NEAR && c < NEAR && x->constant > -NEAR && x->constant < NEAR;
	}
	if (!is_held(thread_range(m, r)))
		return false;
	bool adds = n->kind == NODE_OP && (n->op == THREAD_ADD || n->op == THREAD_SUB) && depth < DEEP;
	if (adds)
		return add(m, x, n->in[0], minus, depth + 1) &&
		    add(m, x, n->in[1], n->op == THREAD_SUB ? !minus : minus, depth + 1);
	for (int i = 0; i < x->n; i++)
		if (x->of[i] == r && x->minus[i] != minus) {
			x->of[i] = x->of[--x->n];
			x->minus[i] = x->minus[x->n];
			return true;
		}
	if (x->n == 2 * TERMS)
		return false;
	x->of[x->n] = r;
	x->minus[x->n++] = minus;
	return true;
}

static bool
same_terms(const Sum *a, const Sum *b)
{
	return a->n == b->n && !ANY_OF(i, a->n, a->of[i] != b->of[i] || a->minus[i] != b->minus[i]);
}

/* The terms of the sum with the other sign, in 32 bits. */
static Reg
gap(Lower *l, const Sum *x)
{
	Reg v = lower_i64(l, 0);
	for (int i = 0; i < x->n; i++)
		v = lower_op2(l, x->minus[i] ? THREAD_ADD : THREAD_SUB, v, x->of[i]);
	v = lower_op2(l, THREAD_SMIN, lower_op2(l, THREAD_SMAX, v, lower_i64(l, -NEAR)), lower_i64(l, NEAR));
	return lower_as(l, CAST_TRUNC, REG_I32, v);
}

static Reg
compare(Lower *l, OpKind kind, Reg constant, Reg gap)
{
	switch (kind) {
	case OP_EQ: return lower_op2(l, THREAD_EQ, constant, gap);
	case OP_NE: return lower_op2(l, THREAD_NE, constant, gap);
	case OP_LT: return lower_op2(l, THREAD_SLT, constant, gap);
	case OP_LE: return lower_op2(l, THREAD_SLE, constant, gap);
	case OP_GT: return lower_op2(l, THREAD_SLT, gap, constant);
	default: return lower_op2(l, THREAD_SLE, gap, constant);
	}
}

bool
lower_compare_gaps(Lower *l, const Op *op, const Reg *a, const Reg *b, Reg *out, int n)
{
	const ThreadModule *m = thread_module_of(l->b);
	const Type *t = op->in[0]->type;
	if (op_family(op) != FAMILY_COMPARE || t->elem != TY_I64 || t->ptr != PTR_NONE || t->rank < 2 || n < LEAST ||
	    l->t->kind != TARGET_PTX)
		return false;
	Sum *sum = NEW_ARRAY(l->mem, Sum, n);
	int *first = NEW_ARRAY(l->mem, int, n), ngap = 0;
	for (int r = 0; r < n; r++) {
		if (!add(m, &sum[r], a[r], false, 0) || !add(m, &sum[r], b[r], true, 0))
			return false;
		first[r] = 0;
		while (first[r] < r && !same_terms(&sum[first[r]], &sum[r]))
			first[r]++;
		ngap += first[r] == r;
		if (ngap * SHARED > n)
			return false;
	}
	Reg *gaps = NEW_ARRAY(l->mem, Reg, n);
	for (int r = 0; r < n; r++) {
		gaps[r] = first[r] == r ? gap(l, &sum[r]) : gaps[first[r]];
		out[r] = compare(l, op->kind, lower_i32(l, sum[r].constant), gaps[r]);
	}
	return true;
}
