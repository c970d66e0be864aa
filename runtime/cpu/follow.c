/* Which way branches went, and how many trips loops had, in some programs all over the grid, at no equal distances, which
 * may be a period of the data.
 *
 * What a program does then is added only when it has ended, so that one that time cut short says nothing.  Programs run one
 * after the other: one that waits for another is cut short, too.  How many leave early is wanted of all: before, as many as
 * there is time for go to the first branch outside of loops alone. */
#include "runtime/cpu/follow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double GOLDEN = 0.6180339887;
static const double BRANCHES_SHARE = 0.5;               /* of the time */
enum { BRANCHES_MOST = 1 << 16 };
enum { CALLS = 1024 };                                  /* between two looks at the clock */

typedef struct Way {
	const Op *op;
	double came, went, most, came_now, went_now;    /* of whole programs; of the one that runs */
} Way;

struct Follow {
	VEC(Way) way;
	Arena *mem;                                     /* of what is found in a launch */
	Followed ran;
	int64_t most;
	double seconds, until;
	int calls;
	bool goes_to_branch;                            /* programs end there, */
	const Op *branch;                               /* and came to this one */
};

static double
now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Follow *
follow_open(int64_t programs, double seconds)
{
	Follow *f = memory_new(1, sizeof *f);
	f->mem = arena_open();
	f->most = programs;
	f->seconds = seconds;
	return f;
}

void
follow_close(Follow *f)
{
	if (f)
		arena_close(f->mem);
	free(f);
}

const Followed *
follow_result(const Follow *f)
{
	return &f->ran;
}

bool
follow_step(void *follow, const Op *op, int64_t went)
{
	Follow *f = follow;
	int i = FIRST_OF(k, f->way.n, f->way.at[k].op == op);
	if (i < 0) {
		i = f->way.n;
		vec_push(f->mem, &f->way, ((Way){.op = op}));
	}
	Way *w = &f->way.at[i];
	if (f->branch == op && !f->goes_to_branch)      /* is known of more programs */
		return true;
	if (f->goes_to_branch && op->kind == OP_IF && op->home == op->home->func->body) {
		f->branch = op;
		w->came++;
		w->went += (double)went;
		return false;
	}
	w->came_now += op->kind == OP_IF || went == 0;
	w->went_now += (double)llabs(went);
	return ++f->calls % CALLS != 0 || now() < f->until;
}

static void
end_program(Follow *f, bool ok)
{
	for (int i = 0; i < f->way.n; i++) {
		Way *w = &f->way.at[i];
		w->came += ok ? w->came_now : 0;
		w->went += ok ? w->went_now : 0;
		w->most = MAX(w->most, ok ? w->went_now : 0);
		w->came_now = w->went_now = 0;
	}
	f->ran.programs += ok;
}

/* Ops of one place, as of a function that is called twice, are one. */
static void
gather(Follow *f)
{
	for (int i = 0; i < f->way.n; i++) {
		const Way *w = &f->way.at[i];
		const Place *at = &w->op->place;
		bool is_loop = w->op->kind != OP_IF;
		int k = FIRST_OF(n, f->ran.at.n, f->ran.at.at[n].is_loop == is_loop &&
		    place_compare(&f->ran.at.at[n].place, at) == 0);
		if (k < 0) {
			k = f->ran.at.n;
			vec_push(f->mem, &f->ran.at, ((FollowedAt){.place = *at, .is_loop = is_loop}));
		}
		f->ran.at.at[k].came += w->came;
		f->ran.at.at[k].went += w->went;
		f->ran.at.at[k].most = MAX(f->ran.at.at[k].most, w->most);
	}
}

static int64_t
nth_program(int64_t i, int64_t n, int64_t total)
{
	return n == total ? i : (int64_t)(fmod((double)i * GOLDEN, 1) * (double)total);
}

/* No program is more than one that ends there: what it did on the way counts with the whole ones. */
static void
go_to_branch(Follow *f, const Plan *plan, Worker *w, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t total)
{
	int64_t n = MIN(BRANCHES_MOST, total);
	double until = now() + BRANCHES_SHARE * f->seconds;
	f->goes_to_branch = true;
	f->branch = NULL;
	for (int64_t i = 0; i < n && (i == 0 || f->branch) && now() < until; i++) {
		Fault fault = {.place = NOWHERE, .other = NOWHERE};
		plan_run(plan, w, NULL, args, grid, nth_program(i, n, total), 1, &fault);
		end_program(f, false);
	}
	f->goes_to_branch = false;
}

bool
follow_run(Follow *f, const Plan *plan, Worker *w, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t total,
    Fault *fault)
{
	int64_t n = MIN(f->most, total);
	f->way.n = f->ran.at.n = 0;
	f->ran.programs = 0;
	f->ran.of = total;
	f->until = now() + f->seconds;
	go_to_branch(f, plan, w, args, grid, total);
	for (int64_t i = 0; i < n; i++) {
		bool ok = plan_run(plan, w, NULL, args, grid, nth_program(i, n, total), 1, fault);
		end_program(f, ok);
		if (!ok && fault->kind != FAULT_CANCELLED)
			return false;
		if (!ok || now() >= f->until)
			break;
	}
	gather(f);
	*fault = (Fault){.place = NOWHERE, .other = NOWHERE};
	return true;
}
