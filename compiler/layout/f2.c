/* Linear algebra over F2 on maps of at most 40 bits.  A vector is a machine word, addition is
 * exclusive or, and elimination keeps, beside each reduced vector, which inputs made it, so that
 * rank, kernel, image and preimages all come from one routine. */
#include "layout/layout.h"

#include <assert.h>

/* Vectors with distinct highest bits, each at the place of that bit, with the combination of inputs that gives it; only
 * those of `has` are set. */
typedef struct Echelon {
	int n, nker;
	uint64_t has;                               /* the highest bits */
	uint64_t vec[F2_MAX], from[F2_MAX];
	uint64_t ker[F2_MAX];
} Echelon;

/* Reduces v by the basis, the highest bit first; *from collects what was added. */
static uint64_t
reduce(const Echelon *e, uint64_t v, uint64_t *from)
{
	for (uint64_t left = v & e->has; left;) {
		int top = 63 - __builtin_clzll(left);
		v ^= e->vec[top];
		*from ^= e->from[top];
		left = v & e->has & ((UINT64_C(1) << top) - 1);
	}
	return v;
}

static void
eliminate(const F2 *m, Echelon *e)
{
	e->n = e->nker = 0;
	e->has = 0;
	for (int i = 0; i < m->nin; i++) {
		uint64_t from = UINT64_C(1) << i;
		uint64_t v = reduce(e, m->col[i], &from);
		if (v) {
			int top = 63 - __builtin_clzll(v);
			e->has |= UINT64_C(1) << top;
			e->vec[top] = v;
			e->from[top] = from;
			e->n++;
		} else {
			e->ker[e->nker++] = from;
		}
	}
}

F2
f2_zero(int nin, int nout)
{
	assert(nin >= 0 && nin <= F2_MAX && nout >= 0 && nout <= F2_MAX);
	return (F2){.nin = nin, .nout = nout};
}

F2
f2_identity(int n)
{
	F2 m = f2_zero(n, n);
	for (int i = 0; i < n; i++)
		m.col[i] = UINT64_C(1) << i;
	return m;
}

uint64_t
f2_apply(const F2 *m, uint64_t x)
{
	uint64_t y = 0;
	for (x &= (UINT64_C(1) << m->nin) - 1; x; x &= x - 1)
		y ^= m->col[__builtin_ctzll(x)];
	return y;
}

F2
f2_compose(const F2 *outer, const F2 *inner)
{
	assert(inner->nout == outer->nin);
	F2 m = f2_zero(inner->nin, outer->nout);
	for (int i = 0; i < m.nin; i++)
		m.col[i] = f2_apply(outer, inner->col[i]);
	return m;
}

bool
f2_equal(const F2 *a, const F2 *b)
{
	return a->nin == b->nin && a->nout == b->nout && ALL_OF(i, a->nin, a->col[i] == b->col[i]);
}

int
f2_rank(const F2 *m)
{
	Echelon e;
	eliminate(m, &e);
	return e.n;
}

bool
f2_is_surjective(const F2 *m)
{
	return f2_rank(m) == m->nout;
}

bool
f2_solve(const F2 *m, uint64_t y, uint64_t *x)
{
	Echelon e;
	eliminate(m, &e);
	uint64_t from = 0;
	if (reduce(&e, y, &from))
		return false;
	*x = from;
	return true;
}

bool
f2_invert(const F2 *m, F2 *out)
{
	return m->nin == m->nout && f2_right_inverse(m, out);
}

bool
f2_right_inverse(const F2 *m, F2 *out)
{
	Echelon e;
	eliminate(m, &e);
	if (e.n != m->nout)
		return false;
	F2 r = f2_zero(m->nout, m->nin);
	for (int i = 0; i < r.nin; i++)
		reduce(&e, UINT64_C(1) << i, &r.col[i]);
	*out = r;
	return true;
}

int
f2_kernel(const F2 *m, uint64_t *basis)
{
	Echelon e;
	eliminate(m, &e);
	for (int i = 0; i < e.nker; i++)
		basis[i] = e.ker[i];
	return e.nker;
}

F2
f2_columns(const F2 *m, int from, int n)
{
	assert(from >= 0 && n >= 0 && from + n <= m->nin);
	F2 r = f2_zero(n, m->nout);
	for (int i = 0; i < n; i++)
		r.col[i] = m->col[from + i];
	return r;
}
