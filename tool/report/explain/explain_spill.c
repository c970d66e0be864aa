/* Does what spills weigh?  Registers that spill around a loop are stored and loaded once; in the loop that does the work
 * each trip does so.  By SASS, where there is any:
 *
 *     .L_x_3:                                  a loop, and in it others that wait for an mbarrier
 *             0a10    LDL R4, [R1+0x8] ;       in it: it weighs
 *             0b20    @P0 BRA `(.L_x_3) ; */
#include "tool/report/explain/explain.h"

#include <string.h>

enum { WAITS = 24 }; /* lines at most of a loop that only waits */

typedef struct SassLoop {
	int from, to;
} SassLoop;

typedef VEC(SassLoop) SassLoops;

/* The line of a label before that of a branch to it; -1: it is behind. */
static int
label_of(const ExplainStage *c, int branch)
{
	const char *at = strstr(c->line[branch], "`("), *end = at ? strchr(at, ')') : NULL;
	size_t n = end ? (size_t)(end - at - 2) : 0;
	for (int i = branch - 1; n && i >= 0; i--)
		if (strncmp(c->line[i], at + 2, n) == 0 && c->line[i][n] == ':')
			return i;
	return -1;
}

/* Behind the last EXIT lie routines, and further trips of waits, which go back to where they came from. */
static SassLoops
loops_of(const Explain *s)
{
	SassLoops all = {0};
	int end = s->sass.n;
	while (end > 0 && !strstr(s->sass.line[end - 1], " EXIT"))
		end--;
	for (int i = 0; i < end; i++) {
		int from = strstr(s->sass.line[i], " BRA ") ? label_of(&s->sass, i) : -1;
		if (from >= 0 && i - from > WAITS)
			vec_push(s->mem, &all, ((SassLoop){from, i}));
	}
	return all;
}

static bool
is_inner(const SassLoops *all, const SassLoop *l)
{
	return !ANY_OF(k, all->n, all->at[k].from >= l->from && all->at[k].to <= l->to &&
					     (all->at[k].from > l->from || all->at[k].to < l->to));
}

bool
explain_spills(const Explain *s)
{
	enum { FEW_BYTES = 128 }; /* of a thread, stored and loaded once: worth no word */
	if (s->x->spills < FEW_BYTES)
		return false;
	SassLoops all = loops_of(s);
	for (int k = 0; k < all.n; k++)
		for (int i = all.at[k].from; is_inner(&all, &all.at[k]) && i < all.at[k].to; i++)
			if (strstr(s->sass.line[i], " LDL") || strstr(s->sass.line[i], " STL"))
				return true;
	return all.n == 0;
}
