/* The emulator's checks on kernels written here in C: each planted fault is found, with its two places, and what is
 * ordered is not reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/simt/simt.h"

enum { THREADS = 128, SHARED = 4096, SITES = 16 };

typedef struct Trial {
	SimtMachine *machine;
	SimtFindings found;
	float x[64], y[64];
} Trial;

static Place sites[SITES];

static uint32_t
get(SimtThread *t, int site, uint32_t at)
{
	uint32_t v;
	t->site = site;
	memcpy(&v, simt_shared_at(t, at, 4, SIMT_READ), sizeof v);
	return v;
}

static void
put(SimtThread *t, int site, uint32_t at, uint32_t v)
{
	t->site = site;
	memcpy(simt_shared_at(t, at, 4, SIMT_WRITE), &v, sizeof v);
}

static void
barrier(SimtThread *t)
{
	t->site = 9;
	simt_barrier(t, NULL, NULL, NULL);
}

/* ---- running ---- */

static void
try_grid(Trial *r, SimtKernel *kernel, int64_t nblocks, int threads, uint64_t seed)
{
	SimtReport report = {0};
	SimtRange range[] = {
	    {.name = "x", .low = (uint64_t)(uintptr_t)r->x, .high = (uint64_t)(uintptr_t)(r->x + 64),
	        .first = (uint64_t)(uintptr_t)r->x, .dtype = TY_F32, .rank = 2, .dim = {8, 8}, .stride = {8, 1}},
	    {.name = "y", .low = (uint64_t)(uintptr_t)r->y, .high = (uint64_t)(uintptr_t)(r->y + 64),
	        .first = (uint64_t)(uintptr_t)r->y, .dtype = TY_F32, .undefined = true},
	};
	uint64_t param[] = {range[0].first, range[1].first};
	SimtLaunch l = {.kernel = kernel, .param = param, .target = target_named("sm_90a"), .threads = threads,
	    .shared_bytes = SHARED, .nblocks = nblocks, .site = sites, .nsite = SITES, .checks = true, .seed = seed, .workers = 1,
	    .range = range, .nrange = 2, .findings = &r->found};
	simt_findings_close(&r->found);
	if (!simt_run(r->machine, &l, &report))
		fail_msg("%s", report.text);
}

static void
try(Trial *r, SimtKernel *kernel)
{
	try_grid(r, kernel, 1, THREADS, 0);
}

static void
assert_clean(const Trial *r)
{
	if (r->found.n)
		fail_msg("%s: %s / %s / %s; %s; %s", diag_code(r->found.at[0].code), r->found.at[0].part[0],
		    r->found.at[0].part[1], r->found.at[0].part[2], r->found.at[0].label, r->found.at[0].note);
}

static void
assert_found(const Trial *r, DiagCode code, int site, int other)
{
	for (int i = 0; i < r->found.n; i++) {
		const SimtFinding *x = &r->found.at[i];
		if (x->code == code && x->site == site && x->other_site == other)
			return;
	}
	fail_msg("not found among %d: %s of %d and %d", r->found.n, diag_code(code), site, other);
}

/* ---- barriers ---- */

static void
reversed(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	barrier(t);
	get(t, 2, 4 * (uint32_t)(THREADS - 1 - t->thread));
	barrier(t);
	put(t, 3, 4 * (uint32_t)t->thread, 2);
}

static void
barrier_orders(void **state)
{
	Trial *r = *state;
	try(r, reversed);
	assert_clean(r);
}

static void
no_first(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	get(t, 2, 4 * (uint32_t)(THREADS - 1 - t->thread));
}

static void
no_second(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	barrier(t);
	get(t, 2, 4 * (uint32_t)(THREADS - 1 - t->thread));
	put(t, 3, 4 * (uint32_t)t->thread, 2);
}

static void
missing_barrier(void **state)
{
	Trial *r = *state;
	try(r, no_first);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
	try(r, no_second);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 3, 2);
}

static int
open_trial(void **state)
{
	Trial *r = calloc(1, sizeof *r);
	r->machine = simt_open();
	for (int i = 0; i < SITES; i++)
		sites[i] = (Place){.file = 0, .line = i, .col = 1};
	*state = r;
	return 0;
}

static int
close_trial(void **state)
{
	Trial *r = *state;
	simt_findings_close(&r->found);
	simt_close(r->machine);
	free(r);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(barrier_orders),
	    cmocka_unit_test(missing_barrier),
	};
	return cmocka_run_group_tests(tests, open_trial, close_trial);
}
