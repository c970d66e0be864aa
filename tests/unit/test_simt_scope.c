/* The emulator's checks across the blocks of a cluster and by the scope of atomics: kernels in C of which each has a right
 * form, that is clean in every order, and faults, each found at its two lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/simt/simt.h"

enum { THREADS = 64, SHARED = 4096, LINES = 16, BAR = 2048, BACK = 2056 };

typedef struct Trial {
	SimtMachine *machine;
	SimtFindings found;
	SimtReport report;
	_Alignas(16) float x[256];
	_Alignas(64) SimtTensorMap map;                 /* 16 elements of x */
	int fault;                                      /* which one of the kernel's; 0: none */
	int workers;                                    /* OS threads; 0: one */
	atomic_int stage;                               /* that blocks on two of them have come to */
} Trial;

static Place lines[LINES];

static Trial *
trial_of(const uint64_t *param)
{
	return (Trial *)(uintptr_t)param[0];
}

static bool
run(Trial *r, SimtKernel *kernel, int fault, int64_t nblocks, int cluster, uint64_t seed)
{
	uint64_t low = (uint64_t)(uintptr_t)r->x, param[] = {(uintptr_t)r, low, (uintptr_t)&r->map};
	SimtRange range[] = {{.name = "x", .low = low, .high = low + sizeof r->x, .first = low, .dtype = TY_F32}};
	SimtLaunch l = {.kernel = kernel, .param = param, .target = target_named("sm_90a"), .threads = THREADS,
	    .shared_bytes = SHARED, .nblocks = nblocks, .cluster = cluster, .site = lines, .nsite = LINES, .checks = true,
	    .seed = seed, .workers = MAX(r->workers, 1), .range = range, .nrange = 1, .findings = &r->found};
	simt_findings_close(&r->found);
	memset(r->x, 0, sizeof r->x);
	r->fault = fault;
	r->report = (SimtReport){0};
	return simt_run(r->machine, &l, &r->report);
}

static void
clean(Trial *r, SimtKernel *kernel, int64_t nblocks, int cluster)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		if (!run(r, kernel, 0, nblocks, cluster, seed))
			fail_msg("seed %d: %s", (int)seed, r->report.text);
		if (r->found.n)
			fail_msg("seed %d: %s: %s; %s; %s", (int)seed, diag_code(r->found.at[0].code), r->found.at[0].part[0],
			    r->found.at[0].label, r->found.at[0].note);
	}
}

/* In every order: the places are a line and another one, whichever came first. */
static void
found(Trial *r, SimtKernel *kernel, int fault, int64_t nblocks, int cluster, DiagCode code, int line, int other)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		bool any = false;
		if (!run(r, kernel, fault, nblocks, cluster, seed))
			fail_msg("fault %d, seed %d: %s", fault, (int)seed, r->report.text);
		for (int i = 0; i < r->found.n; i++) {
			const SimtFinding *x = &r->found.at[i];
			int a = x->place.line, b = x->other.line;
			any |= x->code == code && ((a == line && b == other) || (a == other && b == line));
		}
		if (!any)
			fail_msg("fault %d, seed %d: %s of lines %d and %d is not among %d found", fault, (int)seed,
			    diag_code(code), line, other, r->found.n);
	}
}

/* ---- what threads do ---- */

static void
put(SimtThread *t, int line, uint32_t at)
{
	uint32_t v = 1;
	t->site = line;
	memcpy(simt_shared_at(t, at, 4, SIMT_WRITE), &v, 4);
}

static void
get(SimtThread *t, int line, uint32_t at)
{
	t->site = line;
	simt_shared_at(t, at, 4, SIMT_READ);
}

static void
barrier(SimtThread *t)
{
	t->site = 15;
	simt_barrier(t, NULL, NULL, NULL);
}

static void
all_blocks(SimtThread *t)
{
	t->site = 14;
	simt_cluster_arrive(t, NULL, NULL, NULL);
	simt_cluster_wait(t, NULL, NULL, NULL);
}

static uint64_t
remote(SimtThread *t, uint32_t at, int rank)
{
	uint64_t in[] = {at, (uint64_t)rank}, out[1];
	simt_cluster_address(t, in, NULL, out);
	return out[0];
}

static void
get_from(SimtThread *t, int line, uint32_t at, int rank)
{
	uint64_t in[] = {remote(t, at, rank)}, out[1];
	t->site = line;
	simt_cluster_load(t, in, NULL, out);
}

static void
put_into(SimtThread *t, int line, uint32_t at, int rank)
{
	uint64_t in[] = {remote(t, at, rank), 7, 7, 7, 7};
	t->site = line;
	simt_cluster_store_4(t, in, NULL, NULL);
}

static void
signal_to(SimtThread *t, uint32_t bar, int rank)
{
	uint64_t in[] = {remote(t, bar, rank)};
	t->site = 13;
	simt_cluster_signal(t, in, NULL, NULL);
}

static void
wait_for(SimtThread *t, uint32_t bar)
{
	t->site = 12;
	simt_mbar_wait(t, (const uint64_t[]){bar, 0}, NULL, NULL);
}

/* Two mbarriers of one arrival, in every block. */
static void
set_up(SimtThread *t)
{
	t->site = 11;
	if (t->thread == 0) {
		simt_mbar_init(t, (const uint64_t[]){BAR, 1}, NULL, NULL);
		simt_mbar_init(t, (const uint64_t[]){BACK, 1}, NULL, NULL);
		simt_fence_mbar(t, NULL, NULL, NULL);
	}
	all_blocks(t);
}

/* ---- a cluster's barrier ---- */

/* Each block reads what its neighbour wrote.  Faults: a block's barrier (or none) instead of the cluster's, before the
 * read or after it. */
static void
neighbours(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault, n = simt_launch(t)->cluster, other = (t->cluster_rank + 1) % n;
	uint32_t at = 4 * (uint32_t)t->thread;
	put(t, 1, at);
	if (fault == 1)
		barrier(t);
	else
		all_blocks(t);
	get_from(t, 2, 4 * (THREADS - 1) - at, other);
	if (fault == 2)
		barrier(t);
	else
		all_blocks(t);
	put(t, 3, at);
	all_blocks(t);
}

static void
cluster_barriers(void **state)
{
	Trial *r = *state;
	clean(r, neighbours, 4, 2);
	clean(r, neighbours, 8, 4);
	found(r, neighbours, 1, 2, 2, DIAG_SIMT_RACE_SHARED, 2, 1);
	found(r, neighbours, 1, 8, 4, DIAG_SIMT_RACE_SHARED, 2, 1);
	found(r, neighbours, 2, 2, 2, DIAG_SIMT_RACE_SHARED, 3, 2);
	found(r, neighbours, 2, 8, 4, DIAG_SIMT_RACE_SHARED, 3, 2);
	assert_non_null(strstr(r->found.at[0].part[0], "of block"));
	assert_non_null(strstr(r->found.at[0].help, "a block's barrier does not"));
}

/* Arrived at before what is written then. */
static void
early_arrival(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault, other = t->cluster_rank ^ 1;
	t->site = 14;
	if (fault)
		simt_cluster_arrive(t, NULL, NULL, NULL);
	put(t, 1, 4 * (uint32_t)t->thread);
	t->site = 14;
	if (!fault)
		simt_cluster_arrive(t, NULL, NULL, NULL);
	simt_cluster_wait(t, NULL, NULL, NULL);
	get_from(t, 2, 4 * (uint32_t)t->thread, other);
	all_blocks(t);
}

static void
early(void **state)
{
	Trial *r = *state;
	clean(r, early_arrival, 4, 2);
	found(r, early_arrival, 1, 4, 2, DIAG_SIMT_RACE_SHARED, 1, 2);
}

/* Block 1 ends though its memory is asked for. */
static void
ends(SimtThread *t, const uint64_t *param)
{
	put(t, 1, 4 * (uint32_t)t->thread);
	simt_cluster_arrive(t, NULL, NULL, NULL);
	if (t->cluster_rank == 1)
		return;
	simt_cluster_wait(t, NULL, NULL, NULL);
	for (int i = 0; i < 3; i++)
		barrier(t);
	get_from(t, 2, 0, 1);
}

static void
ended(void **state)
{
	Trial *r = *state;
	assert_false(run(r, ends, 0, 2, 2, 0));
	assert_non_null(strstr(r->report.text, "the block of rank 1 has ended"));
	assert_int_equal(r->report.place.line, 2);
}

/* ---- mbarriers of another block ---- */

/* Block 0 writes into block 1 and signals there.  Faults: the signal comes first; a thread that did not wait reads; block 1
 * writes there before it has waited. */
static void
handed_over(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault;
	set_up(t);
	if (t->cluster_rank == 0 && t->thread == 0) {
		if (fault == 1)
			signal_to(t, BAR, 1);
		put_into(t, 1, 256, 1);
		if (fault != 1)
			signal_to(t, BAR, 1);
	}
	if (t->cluster_rank == 1) {
		if (fault == 3 && t->thread == 5)
			put(t, 3, 256);
		if (fault != 2 || t->thread < 32)
			wait_for(t, BAR);
		get(t, 2, 256);
	}
	all_blocks(t);
}

static void
remote_arrivals(void **state)
{
	Trial *r = *state;
	clean(r, handed_over, 4, 2);
	found(r, handed_over, 1, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 2);
	found(r, handed_over, 2, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 2);
	found(r, handed_over, 3, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 3);
}

/* Block 1 has 64 bytes copied to both blocks, which read them; then it does so again, once block 0 has told it.  Faults:
 * block 0 reads before it has waited, or signals before it has read; block 1 does not wait; reads are not fenced. */
static void
sent_to_both(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault;
	set_up(t);
	for (uint64_t round = 0; round < 2; round++) {
		t->site = 1;
		if (t->cluster_rank == 1 && t->thread == 0)
			simt_tensor_multi_1(t, (const uint64_t[]){256, param[2], BAR, 3, 0}, NULL, NULL);
		if (t->thread == 0)
			simt_mbar_expect(t, (const uint64_t[]){BAR, 64}, NULL, NULL);
		if (fault == 1 && t->cluster_rank == 0)
			get(t, 2, 256 + 4 * (uint32_t)t->thread % 64);
		t->site = 12;
		simt_mbar_wait(t, (const uint64_t[]){BAR, round}, NULL, NULL);
		if (fault == 2 && t->cluster_rank == 0 && t->thread == 0 && round == 0)
			signal_to(t, BACK, 1);
		get(t, 2, 256 + 4 * (uint32_t)t->thread % 64);
		if (fault != 4)
			simt_fence_async(t, NULL, NULL, NULL);
		barrier(t);
		if (fault != 2 && t->cluster_rank == 0 && t->thread == 0 && round == 0)
			signal_to(t, BACK, 1);
		if (fault != 3 && t->cluster_rank == 1 && round == 0)
			wait_for(t, BACK);
	}
	all_blocks(t);
}

static void
multicast(void **state)
{
	Trial *r = *state;
	clean(r, sent_to_both, 4, 2);
	found(r, sent_to_both, 1, 2, 2, DIAG_SIMT_RACE_SHARED, 2, 1);
	found(r, sent_to_both, 2, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 2);
	found(r, sent_to_both, 3, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 1);
	found(r, sent_to_both, 4, 2, 2, DIAG_SIMT_RACE_SHARED, 1, 2);
}

/* ---- global memory ---- */

static void
store(SimtThread *t, int line, uint64_t at)
{
	t->site = line;
	simt_global_at(t, at, 4, 4, SIMT_WRITE);
}

static void
load(SimtThread *t, int line, uint64_t at)
{
	t->site = line;
	simt_global_at(t, at, 4, 4, SIMT_READ);
}

/* Faults: a block's barrier instead of the cluster's; what a block of another cluster writes is read. */
static void
through_memory(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault;
	int64_t other = fault == 2 ? (t->block_index + 2) % 4 : t->block_index ^ 1;
	store(t, 1, param[1] + 256 * (uint64_t)t->block_index + 4 * (uint64_t)t->thread);
	if (fault == 1)
		barrier(t);
	else
		all_blocks(t);
	load(t, 2, param[1] + 256 * (uint64_t)other + 4 * (uint64_t)(63 - t->thread));
	all_blocks(t);
}

static void
global_memory(void **state)
{
	Trial *r = *state;
	clean(r, through_memory, 4, 2);
	found(r, through_memory, 1, 4, 2, DIAG_SIMT_RACE_GLOBAL, 2, 1);
	found(r, through_memory, 2, 4, 2, DIAG_SIMT_RACE_GLOBAL, 2, 1);
}

/* ---- scopes ---- */

static int
count(SimtThread *t, int line, uint64_t at, unsigned how)
{
	t->site = line;
	uint8_t *p = simt_global_at(t, at, 4, 4, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC | how);
	int v = __atomic_add_fetch((int *)(void *)p, 1, __ATOMIC_SEQ_CST);
	if (how & SIMT_ACQUIRE)
		simt_acquired(t, at, how);
	return v;
}

enum { BOTH = SIMT_ACQUIRE | SIMT_RELEASE };

/* Each block writes; the one that comes last reads all.  Faults: the counter is of scope cta; of scope cluster; block 0's
 * operation alone is of scope cta; it is relaxed. */
static void
last_reads(SimtThread *t, const uint64_t *param)
{
	static const unsigned how[] = {BOTH, BOTH | SIMT_SCOPE_CTA, BOTH | SIMT_SCOPE_CLUSTER, BOTH, 0};
	int fault = trial_of(param)->fault, blocks = t->nblocks;
	unsigned mine = how[fault] | (fault == 3 && t->block_index == 0 ? SIMT_SCOPE_CTA : 0);
	store(t, 1, param[1] + 64 + 32 * (uint64_t)t->block_index + 4 * (uint64_t)(t->thread % 8));
	barrier(t);
	if (t->thread == 0 && count(t, 2, param[1], mine) == blocks)
		for (uint64_t i = 0; i < 8 * (uint64_t)blocks; i++)
			load(t, 3, param[1] + 64 + 4 * i);
}

static void
come_to(Trial *r, int stage)
{
	atomic_store(&r->stage, stage);
}

static void
wait_stage(Trial *r, int stage)
{
	while (atomic_load(&r->stage) < stage)
		;
}

/* Blocks on two OS threads: the emulator looks at block 1's operation first, and block 0's changes memory first. */
static void
overtaken(SimtThread *t, const uint64_t *param)
{
	Trial *r = trial_of(param);
	uint64_t counter = param[1], data = param[1] + 64;
	t->site = 2;
	if (t->thread)
		return;
	if (t->block_index == 0) {
		store(t, 1, data);
		wait_stage(r, 1);
		count(t, 2, counter, BOTH);
		come_to(r, 2);
		return;
	}
	uint8_t *p = simt_global_at(t, counter, 4, 4, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC | BOTH);
	come_to(r, 1);
	wait_stage(r, 2);
	assert_int_equal(__atomic_add_fetch((int *)(void *)p, 1, __ATOMIC_SEQ_CST), 2);
	simt_acquired(t, counter, BOTH);
	load(t, 3, data);
}

static void
two_os_threads(void **state)
{
	Trial *r = *state;
	r->workers = 2;
	run(r, overtaken, 0, 2, 1, 0);
	r->workers = 0;
	assert_int_equal(r->found.n, 0);
}

static void
scopes(void **state)
{
	Trial *r = *state;
	clean(r, last_reads, 3, 1);
	clean(r, last_reads, 4, 2);
	found(r, last_reads, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 2, 2);
	assert_non_null(strstr(r->found.at[0].help, "scope = gpu"));
	found(r, last_reads, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	found(r, last_reads, 2, 3, 1, DIAG_SIMT_RACE_GLOBAL, 2, 2);
	found(r, last_reads, 2, 4, 2, DIAG_SIMT_RACE_GLOBAL, 2, 2);
	found(r, last_reads, 2, 4, 2, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	found(r, last_reads, 3, 3, 1, DIAG_SIMT_RACE_GLOBAL, 2, 2);
	found(r, last_reads, 3, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	found(r, last_reads, 4, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
}

/* Of one cluster scope cluster is enough. */
static void
within_cluster(SimtThread *t, const uint64_t *param)
{
	unsigned scope = trial_of(param)->fault ? SIMT_SCOPE_CTA : SIMT_SCOPE_CLUSTER;
	store(t, 1, param[1] + 64 + 32 * (uint64_t)t->cluster_rank + 4 * (uint64_t)(t->thread % 8));
	barrier(t);
	if (t->thread == 0 && count(t, 2, param[1], BOTH | scope) == t->nblocks)
		for (uint64_t i = 0; i < 8 * (uint64_t)t->nblocks; i++)
			load(t, 3, param[1] + 64 + 4 * i);
}

static void
cluster_scope(void **state)
{
	Trial *r = *state;
	clean(r, within_cluster, 2, 2);
	clean(r, within_cluster, 4, 4);
	found(r, within_cluster, 1, 2, 2, DIAG_SIMT_RACE_GLOBAL, 2, 2);
	found(r, within_cluster, 1, 2, 2, DIAG_SIMT_RACE_GLOBAL, 3, 1);
}

/* Two warps of one block, which scope cta orders.  Fault: they are relaxed. */
static void
within_block(SimtThread *t, const uint64_t *param)
{
	unsigned how = trial_of(param)->fault ? SIMT_SCOPE_CTA : BOTH | SIMT_SCOPE_CTA;
	uint64_t at = param[1] + 1024 - 256 * (uint64_t)(t->block_index + 1);
	if (t->lane)
		return;
	store(t, 1, at + 64 + 4 * (uint64_t)t->warp);
	if (count(t, 2, at, how) == 2)
		load(t, 3, at + 64 + 4 * (uint64_t)(t->warp ^ 1));
}

static void
block_scope(void **state)
{
	Trial *r = *state;
	clean(r, within_block, 1, 1);
	clean(r, within_block, 3, 1);
	clean(r, within_block, 4, 2);
	found(r, within_block, 1, 2, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
}

/* A counter that both scopes update: the narrow operation is not forgotten over a wide one of the same block. */
static void
narrow_then_wide(SimtThread *t, const uint64_t *param)
{
	if (t->thread)
		return;
	if (t->block_index == 0 && trial_of(param)->fault)
		count(t, 1, param[1], SIMT_SCOPE_CTA);
	count(t, 2, param[1], 0);
}

static void
mixed_scopes(void **state)
{
	Trial *r = *state;
	clean(r, narrow_then_wide, 3, 1);
	found(r, narrow_then_wide, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 2, 1);
}

/* ---- bulk copies to global memory ---- */

/* The block's first 64 bytes of shared memory, for a bulk copy. */
static void
fill_for_bulk(SimtThread *t)
{
	if (t->thread < 16)
		put(t, 4, 4 * (uint32_t)t->thread);
	t->site = 4;
	simt_fence_async(t, NULL, NULL, NULL);
	barrier(t);
}

/* Each block stores 64 bytes of its own; the one that comes last reads all.  Faults: it is waited for until the bytes
 * are read, not until they are written; its own thread reads without waiting. */
static void
bulk_stores(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault;
	uint64_t mine = param[1] + 64 + 64 * (uint64_t)t->block_index;
	const int64_t all[] = {0};
	fill_for_bulk(t);
	if (t->thread)
		return;
	t->site = 1;
	simt_tensor_store_1(t, (const uint64_t[]){0, param[2], 16 + 16 * (uint64_t)t->block_index}, NULL, NULL);
	simt_bulk_commit(t, NULL, NULL, NULL);
	if (fault == 2)
		load(t, 5, mine);
	if (fault == 1)
		simt_bulk_wait_read(t, NULL, all, NULL);
	else
		simt_bulk_wait(t, NULL, all, NULL);
	if (count(t, 2, param[1], BOTH) == t->nblocks)
		for (uint64_t i = 0; i < 16 * (uint64_t)t->nblocks; i++)
			load(t, 3, param[1] + 64 + 4 * i);
}

/* All blocks have the same floats added to; the last one to come reads them.  Fault: sums are waited for only until they
 * are read. */
static void
bulk_sums(SimtThread *t, const uint64_t *param)
{
	const int64_t all[] = {0};
	fill_for_bulk(t);
	if (t->thread)
		return;
	t->site = 1;
	simt_tensor_add_1(t, (const uint64_t[]){0, param[2], 16}, NULL, NULL);
	simt_bulk_commit(t, NULL, NULL, NULL);
	if (trial_of(param)->fault)
		simt_bulk_wait_read(t, NULL, all, NULL);
	else
		simt_bulk_wait(t, NULL, all, NULL);
	if (count(t, 2, param[1], BOTH) == t->nblocks)
		for (uint64_t i = 0; i < 16; i++)
			load(t, 3, param[1] + 64 + 4 * i);
}

/* Each block has the same 64 bytes copied by one thread, for which another waits; the block that comes last writes there.
 * Faults: it comes without an order; it writes before it has waited; a thread wrote there before, which no fence orders. */
static void
bulk_loads(SimtThread *t, const uint64_t *param)
{
	int fault = trial_of(param)->fault;
	if (fault == 3 && t->thread == 0)
		store(t, 4, param[1] + 64);
	set_up(t);
	if (t->thread == 0) {
		t->site = 1;
		simt_mbar_expect(t, (const uint64_t[]){BAR, 64}, NULL, NULL);
		simt_tensor_load_1(t, (const uint64_t[]){0, param[2], BAR, 16}, NULL, NULL);
	}
	if (t->thread != 1)
		return;
	if (fault == 2)
		store(t, 3, param[1] + 64);
	wait_for(t, BAR);
	if (count(t, 2, param[1], fault == 1 ? 0 : BOTH) == t->nblocks)
		for (uint64_t i = 0; i < 16; i++)
			store(t, 3, param[1] + 64 + 4 * i);
}

static void
stores(void **state)
{
	Trial *r = *state;
	clean(r, bulk_stores, 3, 1);
	found(r, bulk_stores, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	assert_string_equal(r->found.at[0].part[2], "a bulk copy");
	assert_non_null(strstr(r->found.at[0].help, "still be in flight"));
	found(r, bulk_stores, 2, 3, 1, DIAG_SIMT_RACE_GLOBAL, 5, 1);
	clean(r, bulk_sums, 3, 1);
	found(r, bulk_sums, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	clean(r, bulk_loads, 1, 1);
	clean(r, bulk_loads, 3, 1);
	found(r, bulk_loads, 3, 1, 1, DIAG_SIMT_RACE_GLOBAL, 1, 4);
	found(r, bulk_loads, 1, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
	found(r, bulk_loads, 2, 3, 1, DIAG_SIMT_RACE_GLOBAL, 3, 1);
}

/* ---- all of it ---- */

static int
open_trial(void **state)
{
	Trial *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
	for (int i = 1; i < LINES; i++)
		lines[i] = (Place){.line = i, .col = 1};
	lines[0] = NOWHERE;
	*r = (Trial){.machine = simt_open()};
	const SimtTensor x = {.dtype = TY_F32, .rank = 1, .address = (uintptr_t)r->x, .extent = {LEN(r->x)}, .box = {16}};
	assert_null(simt_tensor_encode(&r->map, &x));
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
	    cmocka_unit_test(cluster_barriers), cmocka_unit_test(early), cmocka_unit_test(ended),
	    cmocka_unit_test(remote_arrivals), cmocka_unit_test(multicast),
	    cmocka_unit_test(global_memory), cmocka_unit_test(scopes), cmocka_unit_test(two_os_threads),
	    cmocka_unit_test(cluster_scope), cmocka_unit_test(block_scope), cmocka_unit_test(mixed_scopes), cmocka_unit_test(stores),
	};
	return cmocka_run_group_tests(tests, open_trial, close_trial);
}
