/* What the warps of a block wait for, as parts of a bill: the path of one, by the latencies of its loads, in place of the
 * model's. */
#include "tool/report/machine.h"

#include <math.h>

/* Warps of a block that read the same elements in a line: the least of its reads, whose layouts repeat them; 1: none. */
static double
alike(const Inspection *x, int line)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		if (l->kind != INSPECT_ACCESS || l->op->place.line != line || l->op->nout == 0)
			continue;
		uint64_t bits = l->layout ? layout_free_bits(l->layout, IN_WARP) : 0, n = 1;
		for (; bits; bits &= bits - 1)
			n *= 2;
		least = MIN(least, n);
	}
	return least == UINT64_MAX ? 1 : (double)least;
}

static const double CACHED = 250;                       /* cycles of a load from the L2 cache */

/* Cycles of a load, by lines: of what they bring, the share that device memory has to send; the rest, as of windows that
 * overlap, is in caches.  What those take to answer is of a stencil of two fields (1865 us on an H200, 4960 by memory's
 * latency, 2212 so) and a pooling (276, 551, 274).  A multiprocessor has in its own cache what an earlier program has
 * read, as far as that holds it, and what another warp of the block reads, too: of bodies that all warps sum over, in a
 * loop without a barrier, an H200's warps wait for memory 0.3 cycles an instruction, 3 by the L2 cache's latency. */
static double *
latencies(const CodeWalk *w, Inspection *x, double *each_byte, Arena *mem)
{
	static const double FIRST = 60, FEW = .001;               /* of the first one, for what all read */
	static const double HOLDS = 64e3, ROUNDS = 2; /* bytes of the first one */
	static const double DRAWS = 2; /* of its share of the bus, while others compute */
	const TargetRates *r = x->t->rates;
	double *all = NEW_ARRAY(mem, double, w->lines + 1), block = 32 * func_warps(x->f);
	for (int s = 0; s <= w->lines; s++) {
		all[s] = CACHED;
		each_byte[s] = block / r->l2_rate;
	}
	for (int k = 0; k < x->spent.n; k++) {
		const LineBill *l = code_line_bill(w, x, k);
		if (!l || w->loaded[l->line] <= 0)
			continue;
		double bytes = l->part[BILL_MEMORY] * r->memory_rate / r->multiprocessors / func_warps(x->f);
		double sent = MIN(MAX(bytes - w->stored[l->line], 0) / w->loaded[l->line], 1);
		double whole = bytes * func_warps(x->f) * x->bill.programs * r->multiprocessors;
		bool near = sent < FEW && whole < HOLDS && x->bill.programs >= ROUNDS * MAX(x->blocks, 1);
		double far = near ? FIRST : CACHED + (r->latency - CACHED) * sent, same = alike(x, l->line);
		all[l->line] = FIRST + (far - FIRST) / same;
		each_byte[l->line] =
		    block / same * MAX(sent * r->multiprocessors / (DRAWS * r->memory_rate), 1 / r->l2_rate);
	}
	return all;
}

double
code_local_missed(const Inspection *x)
{
	double blocks = MAX(x->blocks, 1), threads = blocks * 32 * func_warps(x->f);
	double cache = (double)x->t->shared_bytes_unit - blocks * (double)x->f->shared_bytes;
	double held = threads * MAX(x->stack, 0);
	return held > cache ? 1 - MAX(cache, 0) / held : 0;
}

/* Lines wait as the code does, `each` of what a program's path has; `alone`: in what other warps of the block could fill,
 * too. */
static void
lines_wait(const CodeWalk *w, Inspection *x, CodePath *p, double each, bool alone)
{
	static const PathPart of[CODE_WAITS] = {
	    [WAIT_MEMORY] = PATH_MEMORY, [WAIT_EXCHANGE] = PATH_EXCHANGE, [WAIT_BARRIER] = PATH_BARRIER,
	    [WAIT_PRODUCT] = PATH_PRODUCT, [WAIT_ARITHMETIC] = PATH_ARITHMETIC};
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k], *own = code_line_bill(w, x, k);
		double most = 0, all = 0;
		for (int i = 0; i < CODE_WAITS && own; i++) {
			double cycles = p->of[i][l->line] + (alone ? p->filled[i][l->line] : 0);
			all += cycles;
			l->wait = cycles > most ? bill_wait_names[of[i]] : l->wait;
			l->waits[of[i]] = cycles;
			most = MAX(most, cycles);
		}
		for (int i = 0; i < CODE_WAITS && all > 0; i++)
			l->waits[i] /= all;
		l->part[BILL_WAITING] = all * each;
		p->barriers += own ? p->of[WAIT_BARRIER][l->line] * each : 0;
	}
}

/* The path of a program as the code has it, in place of the model's, of a block's start and all that its warps wait for;
 * its instructions one after another, but as fast as the multiprocessor's pipes are where the block has many warps.  Then
 * they are no waiting: of a bilateral filter by 16 warps, one block of which a multiprocessor holds, ncu has issue slots
 * 74 % busy, and warps that could go but are not selected as what most wait for.
 *
 * Of products the model has no path but the estimate of a launch.  The blocks of a multiprocessor that wait at once hide
 * no more of it than there are, so that a launch takes no less than their paths, divided by them: hard pairs, whose one
 * block has a product, labels and two barriers in each trip, were estimated at 45 us, and take 100. */
void
code_wait(const CodeWalk *w, const Code *c, Inspection *x, CodePath *p)
{
	const TargetRates *r = x->t->rates;
	Bill *b = &x->bill;
	double *each_byte = NEW_ARRAY(c->mem, double, w->lines + 1), starts = b->stays ? 0 : r->start_latency;
	int together = func_find(x->f, OP_ROLES) ? 4 : func_warps(x->f);  /* warpgroups in roles drift apart */
	double local = r->shared_latency + code_local_missed(x) * MAX(CACHED - r->shared_latency, 0);
	code_path(c, r, latencies(w, x, each_byte, c->mem), each_byte, local, w->lines, together, p);
	double block = MAX(b->part[BILL_ISSUE], b->part[BILL_SPECIAL]), apart = p->n[1] / (p->n[0] + p->n[1]);
	bool alone = p->turns[0] >= block * (1 - apart);
	double issued = alone ? 0 : block * (1 - apart);
	double path = starts + p->waits[0] + (alone ? p->turns[0] : issued) + p->waits[1] + p->turns[1];
	if (b->path > 0) {
		double each = b->part[BILL_WAITING] / b->path;
		b->part[BILL_WAITING] = path * each;
		b->fill *= path / b->path;
		b->path = path;
		p->issued = issued * each;
		lines_wait(w, x, p, each, alone);
		return;
	}
	double blocks = MAX(MIN(x->blocks, ceil(b->programs)), 1);
	b->part[BILL_WAITING] = (path - starts) / blocks;
	b->cycles = MAX(b->cycles, path * MAX(b->programs / blocks, 1));
	p->issued = issued / blocks;
	lines_wait(w, x, p, 1 / blocks, alone);
}
