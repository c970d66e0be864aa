/* Products by multiplications that are computed together, one step along K of all of them after the other, so that what
 * several of them read is loaded once:
 *
 *     %a = dot (get %x), (get %u), %0          for k in K:
 *     %b = dot (get %y), (get %v), %0              x, u, y, v: loaded
 *     %c = dot (get %y), (get %u), %0   =>         a += x u    b += y v    c += y u + x v
 *     %d = dot (get %x), (get %v), %c
 *
 * They are of one shape, from slots of shared memory, and nothing that a barrier is for stands between.  A thread has
 * TOGETHER_REGISTERS of sums at most. */
#include "model/model.h"

enum { TOGETHER_REGISTERS = 64 };

bool
fma_reads_alike(const FmaSide *a, const FmaSide *b)
{
	return a->slot && a->slot == b->slot && a->k_first == b->k_first && layout_equal(&a->want, &b->want) &&
	    layout_equal(&a->shared, &b->shared);
}

static bool
in_slots(const FmaPlan *p)
{
	return ALL_OF(i, 2, p->side[i].slot && p->side[i].slot->def && p->side[i].slot->def->kind == OP_ALLOC) && !p->waits;
}

/* Does v come from an op between the two? */
static bool
comes_between(const Op *from, const Op *to, const Value *v)
{
	for (const Op *op = from; op != to; op = op->next)
		if (v->def == op)
			return true;
	return false;
}

/* The number of the product to whose sum product n adds; n: what it adds to is there before the first; -1: neither. */
static int
sum_of(const FmaTogether *t, int n)
{
	const Op *op = t->at[n].p.op;
	for (int i = 0; i < n; i++)
		if (op->in[2] == &t->at[i].p.op->out[0])
			return op->in[2]->nuses == 1 ? t->at[i].sum : -1;
	bool is_before = !comes_between(t->at[0].p.op, op, op->in[2]);
	return is_before && op->in[2]->layout && layout_equal(op->in[2]->layout, &t->at[n].p.acc) ? n : -1;
}

static bool
has_shape_of(const FmaPlan *a, const FmaPlan *b)
{
	return a->compute == b->compute && layout_equal(&a->acc, &b->acc) && a->unrolled == b->unrolled &&
	    a->depth == b->depth && a->chunk == b->chunk;
}

/* Has a product before it, or its own left side, the same to read? */
static bool
is_read_before(const FmaTogether *t, int n, int i)
{
	for (int m = 0; m <= n; m++)
		for (int j = 0; j < (m < n ? 2 : i); j++)
			if (fma_reads_alike(&t->at[n].p.side[i], &t->at[m].p.side[j]))
				return true;
	return false;
}

/* May a product behind the op be computed before it? */
static bool
is_passed(const Op *op)
{
	bool reaches = op->kind == OP_GET || op->kind == OP_READ || (op->kind == OP_WRITE && access_is_tensor(op));
	return !op->nregion && !attr_sync(op) && !attr_sync_warp(op) && (reaches || op_has(op, PURE));
}

bool
fma_reads_again(const Op *last)
{
	for (const Op *op = last->next; op && is_passed(op); op = op->next)
		if (op->kind == OP_DOT)
			return true;
	return false;
}

void
plan_fma_together(const Op *first, const Target *target, FmaTogether *t)
{
	bool any = false;
	t->n = 1;
	t->at[0].sum = 0;
	plan_fma(first, target, &t->at[0].p);
	const FmaPlan *p = &t->at[0].p;
	int most = in_slots(p) ? MIN(FMA_TOGETHER_MOST, TOGETHER_REGISTERS >> p->acc.in[IN_REGISTER]) : 1;
	for (const Op *op = first->next; op && t->n < most; op = op->next) {
		MmaPlan mma;
		if (!is_passed(op))
			break;
		if (op->kind != OP_DOT)
			continue;
		if (*attr_mma(op) || plan_mma(op, &mma))
			break;
		plan_fma(op, target, &t->at[t->n].p);
		t->at[t->n].sum = sum_of(t, t->n);
		if (t->at[t->n].sum < 0 || !in_slots(&t->at[t->n].p) || !has_shape_of(&t->at[t->n].p, p))
			break;
		any = any || is_read_before(t, t->n, 0) || is_read_before(t, t->n, 1);
		t->n++;
	}
	t->n = any ? t->n : 1;
}

/* Is the dot one of them?  Then what it loads alone. */
static bool
adds_loads(const FmaTogether *t, const Op *dot, double *loads, double *words)
{
	bool found = false;
	for (int n = 0; n < t->n; n++)
		for (int i = 0; i < 2 && t->at[n].p.op == dot; i++) {
			const FmaPlan *p = &t->at[n].p;
			double elements = is_read_before(t, n, i) ? 0 : (double)((int64_t)p->depth << p->side[i].nregs);
			*words += elements * p->bytes / 4;
			*loads += elements / (1 << p->side[i].vector);
			found = true;
		}
	return found;
}

void
fma_loads(const Op *dot, const Target *target, double *loads, double *words)
{
	FmaTogether t;
	MmaPlan mma;
	*loads = *words = 0;
	for (const Op *op = dot->home->first; op; op = op->next) {
		if (op->kind != OP_DOT || *attr_mma(op) || plan_mma(op, &mma))
			continue;
		plan_fma_together(op, target, &t);
		if (adds_loads(&t, dot, loads, words))
			return;
		op = t.at[t.n - 1].p.op;
	}
}
