/* The emulator's checks on kernels written here in C: each planted fault is found, with its two places, and what is
 * ordered is not reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/simt/check/check.h"
#include "runtime/tensor/strided.h"

enum { THREADS = 128, SHARED = 4096, SITES = 16 };

typedef struct Trial {
	SimtMachine *machine;
	SimtFindings found;
	_Alignas(16) float x[64], y[64];
	_Alignas(64) SimtTensorMap map;                 /* all of x */
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
try_on(Trial *r, SimtKernel *kernel, int64_t nblocks, int threads, uint64_t seed, int64_t side)
{
	SimtReport report = {0};
	SimtRange range[] = {
	    {.name = "x", .low = (uint64_t)(uintptr_t)r->x, .high = (uint64_t)(uintptr_t)(r->x + 64),
	        .first = (uint64_t)(uintptr_t)r->x, .dtype = TY_F32, .rank = 2, .dim = {side, side}, .stride = {8, 1}},
	    {.name = "y", .low = (uint64_t)(uintptr_t)r->y, .high = (uint64_t)(uintptr_t)(r->y + 64),
	        .first = (uint64_t)(uintptr_t)r->y, .dtype = TY_F32, .undefined = true},
	};
	uint64_t param[] = {range[0].first, range[1].first, (uint64_t)(uintptr_t)&r->map};
	SimtLaunch l = {.kernel = kernel, .param = param, .target = target_named("sm_90a"), .threads = threads,
	    .shared_bytes = SHARED, .nblocks = nblocks, .site = sites, .nsite = SITES, .checks = true, .seed = seed, .workers = 1,
	    .range = range, .nrange = 2, .findings = &r->found};
	simt_findings_close(&r->found);
	if (!simt_run(r->machine, &l, &report))
		fail_msg("%s", report.text);
}

static void
try_grid(Trial *r, SimtKernel *kernel, int64_t nblocks, int threads, uint64_t seed)
{
	try_on(r, kernel, nblocks, threads, seed, 8);
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

/* ---- what orders a warp ---- */

static void
in_warp(SimtThread *t, bool orders)
{
	uint64_t in[] = {1}, out[1];
	const int64_t by[] = {1};
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	t->site = 9;
	if (orders)
		simt_warp_barrier(t, NULL, NULL, NULL);
	else
		simt_shuffle_xor(t, in, by, out);
	get(t, 2, 4 * ((uint32_t)t->thread ^ 1));
}

static void
warp_barrier(SimtThread *t, const uint64_t *param)
{
	in_warp(t, true);
}

static void
shuffle(SimtThread *t, const uint64_t *param)
{
	in_warp(t, false);
}

static void
across_warps(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	simt_warp_barrier(t, NULL, NULL, NULL);
	get(t, 2, 4 * ((uint32_t)t->thread ^ 32));
}

static void
order_in_a_warp(void **state)
{
	Trial *r = *state;
	try(r, warp_barrier);
	assert_clean(r);
	try(r, shuffle);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
	assert_non_null(strstr(r->found.at[0].help, "a shuffle does not"));
	try(r, across_warps);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
}

/* Warps 0 and 1 hand over to warps 2 and 3. */
static void
handed_over(SimtThread *t, const uint64_t *param)
{
	const int64_t part[] = {3, THREADS};
	if (t->warp < 2)
		put(t, 1, 4 * (uint32_t)t->thread, 1);
	simt_barrier_part(t, NULL, part, NULL);
	if (t->warp >= 2)
		get(t, 2, 4 * (uint32_t)(t->thread - 64));
}

/* Those of one named barrier meet, the others do not. */
static void
halves(SimtThread *t, const uint64_t *param)
{
	const int64_t part[] = {1 + t->warp / 2, 64};
	put(t, 1, 4 * (uint32_t)t->thread, 1);
	simt_barrier_part(t, NULL, part, NULL);
	get(t, 2, 4 * ((uint32_t)t->thread ^ 33));
	get(t, 3, 4 * ((uint32_t)t->thread ^ 64));
}

static void
named_barriers(void **state)
{
	Trial *r = *state;
	try(r, handed_over);
	assert_clean(r);
	try(r, halves);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 3, 1);
	for (int i = 0; i < r->found.n; i++)
		assert_true(r->found.at[i].site != 2 && r->found.at[i].other_site != 2);
}

/* ---- bytes ---- */

static void
each_a_byte(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	*simt_shared_at(t, (uint32_t)t->thread, 1, SIMT_WRITE) = 1;
	barrier(t);
	t->site = 2;
	*simt_shared_at(t, (uint32_t)(THREADS - 1 - t->thread), 1, SIMT_WRITE) = 2;
}

static void
half_written(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	if (t->thread == 0)
		memset(simt_shared_at(t, 64, 2, SIMT_WRITE), 1, 2);
	barrier(t);
	get(t, 2, 64);
}

static void
same_value(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 0, 7);
	barrier(t);
	put(t, 2, 0, t->thread == 77 ? 8 : 7);
}

static void
bytes(void **state)
{
	Trial *r = *state;
	try(r, each_a_byte);
	assert_clean(r);
	try(r, half_written);
	assert_found(r, DIAG_SIMT_UNDEFINED, 2, 0);
	assert_string_equal(r->found.at[0].part[0], "shared memory at byte 66");
	try(r, same_value);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 2);
	assert_int_equal(r->found.n, 1);
}

static void
update(SimtThread *t, int site, uint32_t at)
{
	uint32_t v;
	t->site = site;
	uint8_t *p = simt_shared_at(t, at, 4, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC);
	memcpy(&v, p, 4);
	v++;
	memcpy(p, &v, 4);
}

static void
counted(SimtThread *t, const uint64_t *param)
{
	if (t->thread == 0)
		put(t, 1, 0, 0);
	barrier(t);
	update(t, 2, 0);
	barrier(t);
	get(t, 3, 0);
}

static void
counted_and_read(SimtThread *t, const uint64_t *param)
{
	if (t->thread == 0)
		put(t, 1, 0, 0);
	barrier(t);
	update(t, 2, 0);
	if (t->thread == 100)
		get(t, 3, 0);
}

static void
atomics(void **state)
{
	Trial *r = *state;
	try(r, counted);
	assert_clean(r);
	try(r, counted_and_read);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 3, 2);
}

/* ---- where ---- */

static void
strays(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	if (t->thread == 0)
		put(t, 1, SHARED, 1);
	t->site = 2;
	if (t->thread == 1)
		memset(simt_shared_at(t, 6, 4, SIMT_WRITE), 0, 4);
	t->site = 3;
	if (t->thread == 2)
		memset(simt_global_at(t, param[1] + 4 * 64, 4, 4, SIMT_WRITE), 0, 4);
	t->site = 4;
	if (t->thread == 3)
		memset(simt_global_at(t, param[0] + 4, 8, 8, SIMT_WRITE), 0, 8);
	t->site = 5;
	if (t->thread == 4)
		simt_global_at(t, param[1], 4, 4, SIMT_READ);
}

static void
stray_accesses(void **state)
{
	Trial *r = *state;
	try(r, strays);
	assert_found(r, DIAG_SIMT_BOUNDS, 1, 0);
	assert_found(r, DIAG_SIMT_ALIGN, 2, 0);
	assert_found(r, DIAG_SIMT_BOUNDS, 3, 0);
	assert_found(r, DIAG_SIMT_ALIGN, 4, 0);
	assert_found(r, DIAG_SIMT_UNDEFINED, 5, 0);
}

static void
four_rows(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	if (t->thread < 16)
		memset(simt_global_at(t, param[0] + 4 * (uint64_t)(8 * (t->thread / 4) + t->thread % 4), 4, 4, SIMT_WRITE), 0, 4);
	t->site = 2;
	if (t->thread == 20)
		memset(simt_global_at(t, param[0] + 4 * 12, 4, 4, SIMT_WRITE), 0, 4);
}

/* What lies in a tensor's allocation need not lie in the tensor. */
static void
part_of_an_allocation(void **state)
{
	Trial *r = *state;
	try_on(r, four_rows, 1, 32, 0, 4);
	assert_found(r, DIAG_SIMT_BOUNDS, 2, 0);
	assert_int_equal(r->found.n, 1);
	try(r, four_rows);
	assert_clean(r);
}

/* Windows that overlap, in a larger buffer: what strides reach is inside, however it is reached. */
static void
overlapping_windows(void **state)
{
	const int64_t three[] = {3, 2};
	int64_t at[KERNEL_RANK];
	SimtRange r = {.name = "x", .dtype = TY_F32, .rank = 2, .dim = {4, 8}, .stride = {1, 1}, .high = 256};
	for (int i = 0; i < 16; i++)
		assert_int_equal(strided_find(r.rank, r.dim, r.stride, i, at), i < 11);
	memcpy(r.stride, three, sizeof three);
	r.dim[0] = r.dim[1] = 3;                        /* 0 2 3 4 5 6 7 8 10 */
	for (int i = 0; i < 16; i++) {
		assert_int_equal(strided_find(r.rank, r.dim, r.stride, i, at), i <= 10 && i != 1 && i != 9);
		if (i == 5)
			assert_int_equal(at[0] * 3 + at[1] * 2, 5);
	}
	r = (SimtRange){.rank = 3, .dim = {2, 5, 1}, .stride = {0, 7, 9}};
	for (int i = 0; i < 40; i++)
		assert_int_equal(strided_find(r.rank, r.dim, r.stride, i, at), i <= 28 && i % 7 == 0);
}

/* ---- copies ---- */

static void
copy(SimtThread *t, int site, uint32_t at, uint64_t from)
{
	const uint64_t in[] = {at, from, 16};
	t->site = site;
	simt_cp_async_16(t, in, NULL, NULL);
	simt_cp_commit(t, NULL, NULL, NULL);
}

static void
copied(SimtThread *t, const uint64_t *param, bool waits, bool meets)
{
	const int64_t none[] = {0};
	uint32_t at = 16 * (uint32_t)(t->thread % 16);
	if (t->thread < 16)
		copy(t, 1, at, param[0] + at);
	if (waits)
		simt_cp_wait(t, NULL, none, NULL);
	if (t->thread < 16)
		get(t, 2, at);
	if (meets)
		barrier(t);
	get(t, 3, at ^ 16);
}

static void
waited_and_met(SimtThread *t, const uint64_t *param)
{
	copied(t, param, true, true);
}

static void
met_only(SimtThread *t, const uint64_t *param)
{
	copied(t, param, false, true);
}

static void
waited_only(SimtThread *t, const uint64_t *param)
{
	copied(t, param, true, false);
}

static void
rows_of_copies(void **state)
{
	Trial *r = *state;
	for (uint64_t seed = 0; seed < 3; seed++) {
		try_grid(r, waited_and_met, 1, THREADS, seed);
		assert_clean(r);
		try_grid(r, met_only, 1, THREADS, seed);
		assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
		assert_found(r, DIAG_SIMT_RACE_SHARED, 3, 1);
	}
	try(r, waited_only);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 3, 1);
}

enum { BAR = 2048 };                                    /* where an mbarrier stands */

static void
set_up(SimtThread *t, uint64_t count)
{
	t->site = 8;
	if (t->thread == 0) {
		simt_mbar_init(t, (const uint64_t[]){BAR, count}, NULL, NULL);
		simt_fence_mbar(t, NULL, NULL, NULL);
	}
	barrier(t);
}

static void
await(SimtThread *t, uint64_t parity)
{
	simt_mbar_wait(t, (const uint64_t[]){BAR, parity}, NULL, NULL);
}

static void
bulk(SimtThread *t, const uint64_t *param, bool waits)
{
	set_up(t, 1);
	t->site = 1;
	if (t->thread == 0) {
		simt_mbar_expect(t, (const uint64_t[]){BAR, 256}, NULL, NULL);
		simt_tensor_load_1(t, (const uint64_t[]){0, param[2], BAR, 0}, NULL, NULL);
	}
	if (waits || t->thread == 1)
		await(t, 0);
	get(t, 2, 4 * (uint32_t)(t->thread % 64));
}

static void
bulk_waited(SimtThread *t, const uint64_t *param)
{
	bulk(t, param, true);
}

static void
bulk_not_waited(SimtThread *t, const uint64_t *param)
{
	bulk(t, param, false);
}

/* Threads write, then one has the same bytes written by a copy. */
static void
proxies(SimtThread *t, const uint64_t *param, bool fences)
{
	set_up(t, 1);
	if (t->thread < 64)
		put(t, 1, 4 * (uint32_t)t->thread, 1);
	if (fences)
		simt_fence_async(t, NULL, NULL, NULL);
	barrier(t);
	t->site = 2;
	if (t->thread == 0) {
		simt_mbar_expect(t, (const uint64_t[]){BAR, 256}, NULL, NULL);
		simt_tensor_load_1(t, (const uint64_t[]){0, param[2], BAR, 0}, NULL, NULL);
		await(t, 0);
	}
}

static void
fenced(SimtThread *t, const uint64_t *param)
{
	proxies(t, param, true);
}

static void
not_fenced(SimtThread *t, const uint64_t *param)
{
	proxies(t, param, false);
}

static void
bulk_copies(void **state)
{
	Trial *r = *state;
	for (uint64_t seed = 0; seed < 3; seed++) {
		try_grid(r, bulk_waited, 1, THREADS, seed);
		assert_clean(r);
		try_grid(r, bulk_not_waited, 1, THREADS, seed);
		assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
		try_grid(r, fenced, 1, THREADS, seed);
		assert_clean(r);
		try_grid(r, not_fenced, 1, THREADS, seed);
		assert_found(r, DIAG_SIMT_RACE_SHARED, 2, 1);
		assert_non_null(strstr(r->found.at[0].help, "proxy fence"));
	}
}

/* Warp 0 fills, the others read; `back` says when a slot may be filled again. */
static void
ring(SimtThread *t, bool back)
{
	const uint64_t full[] = {BAR}, empty[] = {BAR + 8};
	t->site = 8;
	if (t->thread == 0) {
		simt_mbar_init(t, (const uint64_t[]){BAR, 32}, NULL, NULL);
		simt_mbar_init(t, (const uint64_t[]){BAR + 8, THREADS - 32}, NULL, NULL);
	}
	barrier(t);
	for (uint32_t i = 0; i < 6; i++) {
		if (t->warp == 0) {
			if (i > 0 && back)
				simt_mbar_wait(t, (const uint64_t[]){BAR + 8, (i - 1) & 1}, NULL, NULL);
			put(t, 1, 4 * (uint32_t)t->thread, i);
			t->site = 3;
			simt_mbar_arrive(t, full, NULL, NULL);
		} else {
			await(t, i & 1);
			get(t, 2, 4 * (uint32_t)t->lane);
			t->site = 4;
			simt_mbar_arrive(t, empty, NULL, NULL);
		}
	}
}

static void
ring_of_two(SimtThread *t, const uint64_t *param)
{
	ring(t, true);
}

/* Reads what is written for the phase after the one that was waited for. */
static void
a_phase_early(SimtThread *t, const uint64_t *param)
{
	set_up(t, 32);
	if (t->warp == 0)
		for (uint32_t i = 0; i < 2; i++) {
			put(t, 1, 128 * i + 4 * (uint32_t)t->thread, i);
			simt_mbar_arrive(t, (const uint64_t[]){BAR}, NULL, NULL);
			if (i == 0)
				await(t, 0);
		}
	else {
		await(t, 0);
		get(t, 2, 4 * (uint32_t)t->lane);
		if (t->warp == 2)
			await(t, 1);
		if (t->warp > 1)
			get(t, 3, 128 + 4 * (uint32_t)t->lane);
	}
}

static void
phases(void **state)
{
	Trial *r = *state;
	for (uint64_t seed = 0; seed < 3; seed++) {
		try_grid(r, ring_of_two, 1, THREADS, seed);
		assert_clean(r);
	}
	try(r, a_phase_early);
	assert_true(r->found.n > 0);
	assert_int_equal(r->found.at[0].site == 3 || r->found.at[0].other_site == 3, true);
}

/* ---- between programs ---- */

static void
store(SimtThread *t, int site, uint64_t at, float v)
{
	t->site = site;
	memcpy(simt_global_at(t, at, 4, 4, SIMT_WRITE), &v, 4);
}

static float
load(SimtThread *t, int site, uint64_t at)
{
	float v;
	t->site = site;
	memcpy(&v, simt_global_at(t, at, 4, 4, SIMT_READ), 4);
	return v;
}

static void
own_elements(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[1] + 4 * (uint64_t)(32 * t->block_index + t->thread), 1);
}

static void
shared_element(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[1] + 4 * (uint64_t)(31 * t->block_index + t->thread), 1);
}

static void
same_store(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[1] + 4 * (uint64_t)(32 * t->block_index), (float)t->thread);
}

static int
count(SimtThread *t, int site, uint64_t at, unsigned order)
{
	int v;
	t->site = site;
	uint8_t *p = simt_global_at(t, at, 4, 4, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC | order);
	memcpy(&v, p, 4);
	v++;
	memcpy(p, &v, 4);
	if (order & SIMT_ACQUIRE)
		simt_acquired(t, at, order);
	return v;
}

/* Each block writes, the last one to come reads all. */
static void
last_reads(SimtThread *t, const uint64_t *param, unsigned order)
{
	store(t, 1, param[0] + 4 * (uint64_t)(8 + 8 * t->block_index + t->thread % 8), 1);
	barrier(t);
	put(t, 8, 0, 0);
	barrier(t);
	if (t->thread == 0)
		put(t, 8, 0, (uint32_t)count(t, 2, param[0], order));
	barrier(t);
	if (get(t, 9, 0) == 2)
		load(t, 3, param[0] + 4 * (uint64_t)(8 + t->thread % 16));
}

static void
released(SimtThread *t, const uint64_t *param)
{
	last_reads(t, param, SIMT_ACQUIRE | SIMT_RELEASE);
}

static void
relaxed(SimtThread *t, const uint64_t *param)
{
	last_reads(t, param, 0);
}

/* Without the barrier before it, the release is of thread 0's writes alone. */
static void
released_alone(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[0] + 4 * (uint64_t)(8 + 8 * t->block_index + t->thread % 8), 1);
	if (t->thread == 0 && count(t, 2, param[0], SIMT_ACQUIRE | SIMT_RELEASE) == 2)
		for (uint64_t i = 0; i < 16; i++)
			load(t, 3, param[0] + 4 * (8 + i));
}

static void
between_programs(void **state)
{
	Trial *r = *state;
	try_grid(r, own_elements, 2, 32, 0);
	assert_clean(r);
	try_grid(r, shared_element, 2, 32, 0);
	assert_found(r, DIAG_SIMT_RACE_GLOBAL, 1, 1);
	assert_string_equal(r->found.at[0].part[0], "'y', element 31");
	try_grid(r, same_store, 2, 32, 0);
	assert_clean(r);
	memset(r->x, 0, sizeof r->x);
	try_grid(r, released, 2, 32, 0);
	assert_clean(r);
	memset(r->x, 0, sizeof r->x);
	try_grid(r, relaxed, 2, 32, 0);
	assert_found(r, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	memset(r->x, 0, sizeof r->x);
	try_grid(r, released_alone, 2, 32, 0);
	assert_found(r, DIAG_SIMT_RACE_GLOBAL, 3, 1);
}

static void
within_a_program(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[1] + 4 * (uint64_t)(t->thread % 64), 1);
	if (t->thread >= 64)
		barrier(t);
	else if (t->block_index >= 0)
		barrier(t);
	load(t, 2, param[1] + 4 * (uint64_t)(t->thread % 64 ^ 32));
	store(t, 3, param[1] + 4 * (uint64_t)(t->thread % 64), 2);
}

static void
one_program(void **state)
{
	Trial *r = *state;
	try_grid(r, within_a_program, 1, 64, 0);
	assert_found(r, DIAG_SIMT_RACE_GLOBAL, 3, 2);
	assert_found(r, DIAG_SIMT_RACE_GLOBAL, 2, 3);
	assert_int_equal(r->found.n, 2);
}

/* ---- many accesses: what is known is thinned out, and nothing gets lost ---- */

static void
many(SimtThread *t, const uint64_t *param)
{
	const int64_t pair[] = {1 + t->warp / 2, 64};
	uint32_t half = (uint32_t)(t->warp / 2) * 1024, at = half + 16 * (uint32_t)(t->thread % 64);
	put(t, 1, at, 0);
	if (t->warp == 0)
		put(t, 5, 3000 + 4 * (uint32_t)t->thread, 0);
	for (int i = 0; i < 1000; i++) {
		simt_barrier_part(t, NULL, pair, NULL);
		get(t, 2, half + 16 * (uint32_t)((t->thread + i) % 64));
		simt_barrier_part(t, NULL, pair, NULL);
		t->steps--;
		put(t, 3, at, (uint32_t)i);
	}
	if (t->warp == 3)
		get(t, 4, 3000 + 4 * (uint32_t)t->lane);
}

static void
many_accesses(void **state)
{
	Trial *r = *state;
	try(r, many);
	assert_found(r, DIAG_SIMT_RACE_SHARED, 4, 5);
	assert_int_equal(r->found.n, 1);
}

/* ---- a tensor that there is no room for a shadow of ---- */

static void
first_element(SimtThread *t, const uint64_t *param)
{
	store(t, 1, param[0], (float)t->thread);
}

static void
too_large(void **state)
{
	Trial *r = *state;
	SimtReport report = {0};
	SimtRange range = {.name = "x", .low = (uint64_t)(uintptr_t)r->x, .first = (uint64_t)(uintptr_t)r->x, .dtype = TY_F32};
	uint64_t param[] = {range.low};
	SimtLaunch l = {.kernel = first_element, .param = param, .target = target_named("sm_90a"), .threads = 32, .nblocks = 2,
	    .site = sites, .nsite = SITES, .checks = true, .workers = 1, .range = &range, .nrange = 1, .findings = &r->found};
	simt_findings_close(&r->found);
	range.high = range.low + (UINT64_C(1) << 46);
	assert_true(simt_run(r->machine, &l, &report));
	assert_string_equal(r->found.unwatched, "x");
	assert_int_equal(r->found.n, 0);
}

/* ---- what accesses cost ---- */

static void
columns(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 128 * (uint32_t)t->lane, 1);
	put(t, 2, 4 * (uint32_t)t->lane, 1);
	load(t, 3, param[0] + 4 * (uint64_t)t->lane);
	if (t->lane != 5)
		load(t, 4, param[0] + 8 * (uint64_t)t->lane);
}

/* Two copies of one line, which differ in the lanes that are masked out: each is an access of its own. */
static void
copies(SimtThread *t, const uint64_t *param)
{
	const int64_t bytes = 4;
	uint64_t lane = (uint64_t)t->lane, even = lane % 2 == 0;
	t->site = 6;
	simt_cp_async(t, (uint64_t[]){4 * lane, param[0] + 4 * lane, even ? 0 : 4}, &bytes, NULL);
	simt_cp_async(t, (uint64_t[]){128 + 4 * lane, param[0] + 4 * lane, even ? 4 : 0}, &bytes, NULL);
	t->site = 7;
	simt_cp_async(t, (uint64_t[]){256 + 4 * lane, param[0] + 4 * lane, lane == 3 ? 0 : 4}, &bytes, NULL);
	simt_cp_async(t, (uint64_t[]){384 + 4 * lane, param[0] + 8 * lane, 4}, &bytes, NULL);
	simt_cp_commit(t, NULL, NULL, NULL);
	simt_cp_wait(t, NULL, (int64_t[]){0}, NULL);
}

static const SimtCost *
global_cost_at(const Trial *r, int site)
{
	for (int i = 0; i < r->found.ncosts; i++)
		if (r->found.cost[i].site == site && !r->found.cost[i].is_shared)
			return &r->found.cost[i];
	return NULL;
}

static void
masked_copies(void **state)
{
	Trial *r = *state;
	r->found.counts = true;
	try_grid(r, copies, 1, 32, 0);
	r->found.counts = false;
	assert_null(global_cost_at(r, 6));
	const SimtCost *c = global_cost_at(r, 7);
	assert_non_null(c);
	assert_int_equal(c->n, 1);
	assert_in_range(c->worst, 8, 9);
	assert_int_equal(c->least, 4);
}

static const SimtCost *
cost_at(const Trial *r, int site)
{
	for (int i = 0; i < r->found.ncosts; i++)
		if (r->found.cost[i].site == site)
			return &r->found.cost[i];
	return NULL;
}

static void
costs(void **state)
{
	Trial *r = *state;
	r->found.counts = true;
	try_grid(r, columns, 1, 32, 0);
	r->found.counts = false;
	assert_int_equal(cost_at(r, 1)->worst, 32);
	assert_int_equal(cost_at(r, 1)->least, 1);
	assert_int_equal(cost_at(r, 2)->worst, 1);
	assert_in_range(cost_at(r, 3)->worst, 4, 5);
	assert_null(cost_at(r, 4));
}

/* A line that was predicted with fewer passes than were counted. */
static void
predicted(void **state)
{
	static const char text[] = "file 0 \"k.tgl\"\n"
				   "facts(TYPED, AXES, LAYOUTS, STAGED, SMEM, SYNCED)\n"
				   "layout #0 = layout(shape = [128], register = [], lane = [[1], [2], [4], [8], [16]], "
				   "warp = [[32], [64]], block = [])\n"
				   "kernel @k(%x: in f32[N], %N: dim) warps(4) {\n"
				   "	%i = const {value = 0} : i64\n"
				   "	%v = read %x, %i {index = \"p\", extents = [128]} : f32[128] #0 @3:5\n"
				   "}\n";
	Compile *cx = compile_open();
	Module *m = module_parse(cx, source_text(cx, "k.tir", text, sizeof text - 1));
	if (!m) {
		Text t = {0};
		diag_print(cx, &t, 0, false);
		fail_msg("%s", t.at);
	}
	const Op *read = m->funcs.at[0]->body->last;
	while (read->kind != OP_READ)
		read = read->prev;
	Place at[] = {NOWHERE, read->place};
	SimtRange x = {.name = "x", .low = 4096, .high = 8192, .first = 4096, .dtype = TY_F32, .rank = 1, .dim = {128},
	    .stride = {1}};
	SimtCost c = {.site = 1, .bytes = 4, .worst = 7, .least = 4, .n = 1};
	SimtFindings f = {.cost = &c, .ncosts = 1};
	SimtLaunch l = {.func = m->funcs.at[0], .target = target_named("sm_80"), .site = at, .nsite = 2, .findings = &f,
	    .range = &x, .nrange = 1};
	f.unwatched = "y";
	simt_findings_warn(&l, cx);
	assert_non_null(cx->first);
	assert_int_equal(cx->first->code, DIAG_SIMT_PARTIAL);
	assert_int_equal(cx->last->code, DIAG_SIMT_COST);
	assert_string_equal(cx->last->text, "a warp's read takes 7 sectors here; the compiler predicted 4");
	compile_close(cx);
}

static int
open_trial(void **state)
{
	Trial *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
	*r = (Trial){.machine = simt_open()};
	const SimtTensor x = {.dtype = TY_F32, .rank = 1, .address = (uintptr_t)r->x, .extent = {LEN(r->x)}, .box = {LEN(r->x)}};
	assert_null(simt_tensor_encode(&r->map, &x));
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
	    cmocka_unit_test(barrier_orders), cmocka_unit_test(missing_barrier), cmocka_unit_test(order_in_a_warp),
	    cmocka_unit_test(named_barriers), cmocka_unit_test(bytes), cmocka_unit_test(atomics),
	    cmocka_unit_test(stray_accesses), cmocka_unit_test(part_of_an_allocation),
	    cmocka_unit_test(overlapping_windows),
	    cmocka_unit_test(rows_of_copies), cmocka_unit_test(bulk_copies),
	    cmocka_unit_test(phases), cmocka_unit_test(between_programs), cmocka_unit_test(one_program),
	    cmocka_unit_test(many_accesses), cmocka_unit_test(too_large), cmocka_unit_test(costs), cmocka_unit_test(masked_copies), cmocka_unit_test(predicted),
	};
	return cmocka_run_group_tests(tests, open_trial, close_trial);
}
