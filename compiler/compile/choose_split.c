/* Chooses how many blocks share a program's loop, where the caller left `split` open: for launches of few programs, each
 * with a long loop, which leave most multiprocessors idle.
 *
 * A loop with `merge` says that it is meant to be shared; others that can be (sums, greatest and least elements) need fewer
 * programs.  As many blocks as fill the multiprocessors once, as long as each has some iterations: what is left to join
 * grows with them.  Kernels with products are choose.c's, whose estimate knows what a join takes. */
#include "compile/choose.h"
#include "compile/compile.h"
#include "compile/estimate.h"
#include "pass/pass.h"

#include <string.h>

enum {
	SPLIT_LARGEST = 32,
	TRIPS_LEAST = 4,
	TRIPS_LEAST_MERGED = 8,                         /* decode of 64 trips on an H200: 8 parts 10.9 us, 16 parts 12.7 */
	FEWER = 4,
	FEWER_MERGED = 2,
	SETS_SPLIT = 2,                                 /* of blocks, where several share a loop */
	STREAM_BY_ITSELF = false,                       /* pass stream: not measured yet */
};

static bool
has_loop(const Op *from)
{
	const Block *body = from ? from->home : NULL;
	for (const Op *op = from; op; op = op_after(op, body))
		if (op_is_loop(op))
			return true;
	return false;
}

bool
choose_shares_last(const Schedule *s)
{
	return s->split > 1 && (s->specialize == 1 || s->persistent == 1);
}

/* Where programs are fewer than multiprocessors, and stay no longer than it. */
bool
choose_may_split(const Bound *b, const Target *t, bool by_itself)
{
	int64_t programs = b->schedule.split;
	for (int i = 0; i < b->naxis; i++)
		programs *= MAX(b->grid[i], 1);
	if (b->schedule.split <= 1 || choose_shares_last(&b->schedule))
		return b->schedule.split <= 1 || !by_itself || STREAM_BY_ITSELF;
	return b->schedule.ctas <= 1 && programs <= SETS_SPLIT * t->rates->multiprocessors;
}

int
choose_split_of(const Func *f, const Bound *b, const Target *t)
{
	bool merges;
	const Op *end, *loop = split_divided(f, t, &merges, &end);
	int64_t programs = 1, most = t->rates ? t->rates->multiprocessors : 0;
	for (int i = 0; i < b->naxis; i++)
		programs *= MAX(b->grid[i], 1);
	if (!loop || has_loop(end->next) || programs * (merges ? FEWER_MERGED : FEWER) > most)
		return 1;
	double trips = estimate_trips(f, b, loop);
	int n = 1, least = merges ? TRIPS_LEAST_MERGED : TRIPS_LEAST;
	while (2 * n <= SPLIT_LARGEST && 2 * n * programs <= most && trips >= least * 2 * n)
		n *= 2;
	return n;
}
