/* The emulator's threads: who they are, how they wait for each other, and what is said of those that can't.  Kernels are
 * C functions here, as compiled code is one; a few are made of thread IR. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/simt/simt.h"

#define AT(n) {.file = 0, .line = n, .col = 1}

typedef struct Result {
	SimtReport report;
	bool ok;
	Text printed;
} Result;

static void
keep_line(void *user, const char *line)
{
	text_printf(user, "%s\n", line);
}

static Result
run_with(SimtLaunch l)
{
	Result r = {0};
	SimtMachine *m = simt_open();
	l.target = l.target ? l.target : target_named("sm_90a");
	l.threads = l.threads ? l.threads : 256;
	l.nblocks = l.nblocks ? l.nblocks : 1;
	l.print = keep_line;
	l.print_user = &r.printed;
	r.ok = simt_run(m, &l, &r.report);
	simt_close(m);
	return r;
}

static void
expect_report(SimtLaunch l, const char *text, int line, int other)
{
	Place site[4] = {NOWHERE, AT(10), AT(20), AT(30)};
	l.site = site;
	l.nsite = 4;
	Result r = run_with(l);
	assert_false(r.ok);
	if (!strstr(r.report.text, text))
		fail_msg("'%s' is not in '%s'", text, r.report.text);
	assert_int_equal(r.report.place.line, line);
	assert_int_equal(r.report.other.line, other);
	text_close(&r.printed);
}

static void
barrier_at(SimtThread *t, int site)
{
	t->site = site;
	simt_barrier(t, NULL, NULL, NULL);
}

/* ---- who they are ---- */

static void
tell(SimtThread *t, const uint64_t *param)
{
	int *out = (int *)(uintptr_t)param[0];
	out[t->block_index * 96 + t->thread] = t->block_index * 1000 + t->warp * 100 + t->lane + t->nblocks;
}

static void
threads_know_themselves(void **state)
{
	enum { BLOCKS = 40 };
	int out[BLOCKS * 96];
	uint64_t param = (uint64_t)(uintptr_t)out;
	for (int workers = 1; workers <= 3; workers++) {
		memset(out, 0, sizeof out);
		Result r = run_with((SimtLaunch){.kernel = tell, .param = &param, .threads = 96, .nblocks = BLOCKS,
		    .workers = workers});
		assert_true(r.ok);
		for (int i = 0; i < BLOCKS * 96; i++)
			assert_int_equal(out[i], i / 96 * 1000 + i % 96 / 32 * 100 + i % 32 + BLOCKS);
	}
}

/* ---- barriers ---- */

static void
reverse(SimtThread *t, const uint64_t *param)
{
	int *out = (int *)(uintptr_t)param[0];
	int *shared = (int *)(void *)t->shared;
	for (int i = 0; i < 5; i++) {
		shared[t->thread] = i ? shared[t->thread] : t->thread;
		barrier_at(t, 1);
		int v = shared[255 - t->thread];
		barrier_at(t, 2);
		shared[t->thread] = v + 1;
	}
	out[256 * t->block_index + t->thread] = shared[t->thread];
}

static void
barriers_order(void **state)
{
	int out[256 * 8];
	uint64_t param = (uint64_t)(uintptr_t)out;
	for (uint64_t seed = 0; seed < 20; seed++) {
		memset(out, 0, sizeof out);
		Result r = run_with(
		    (SimtLaunch){.kernel = reverse, .param = &param, .nblocks = 8, .shared_bytes = 1024, .seed = seed});
		assert_true(r.ok);
		for (int i = 0; i < 256 * 8; i++)
			assert_int_equal(out[i], 255 - i % 256 + 5);
	}
}

/* Warps 0 and 1 fill, 2 and 3 take: a barrier each way, of 128 threads. */
static void
hand_over(SimtThread *t, const uint64_t *param)
{
	int *out = (int *)(uintptr_t)param[0], *shared = (int *)(void *)t->shared;
	const int64_t full[2] = {1, 128}, empty[2] = {2, 128};
	for (int i = 0; i < 10; i++) {
		if (t->warp < 2) {
			if (i)
				simt_barrier_part(t, NULL, empty, NULL);
			shared[t->thread] = i * t->thread;
			simt_barrier_part(t, NULL, full, NULL);
		} else {
			simt_barrier_at(t, (uint64_t[]){1}, full + 1, NULL);
			out[t->thread - 64] += shared[127 - t->thread];
			if (i < 9)
				simt_barrier_part(t, NULL, empty, NULL);
		}
	}
}

static void
named_barriers(void **state)
{
	for (uint64_t seed = 0; seed < 10; seed++) {
		int out[64] = {0};
		uint64_t param = (uint64_t)(uintptr_t)out;
		Result r = run_with((SimtLaunch){.kernel = hand_over, .param = &param, .threads = 128, .shared_bytes = 512,
		    .seed = seed});
		assert_true(r.ok);
		for (int i = 0; i < 64; i++)
			assert_int_equal(out[i], 45 * (63 - i));
	}
}

static void
part_of_block(SimtThread *t, const uint64_t *param)
{
	if (t->thread < (int)param[0])
		barrier_at(t, 1);
	t->site = 2;
	if (param[1])
		barrier_at(t, 2);
}

static void
different_barriers(SimtThread *t, const uint64_t *param)
{
	barrier_at(t, t->thread >= (int)param[0] ? 1 : 3);
}

static void
barriers_missed(void **state)
{
	expect_report((SimtLaunch){.kernel = part_of_block, .param = (uint64_t[]){128, 0}},
	    "a barrier is reached by 128 of 256 threads: thread 128 has ended", 10, 0);
	expect_report((SimtLaunch){.kernel = part_of_block, .param = (uint64_t[]){16, 0}},
	    "a barrier is reached by 16 of 256 threads: thread 16 has ended", 10, 0);
	expect_report((SimtLaunch){.kernel = different_barriers, .param = (uint64_t[]){128}},
	    "wait for each other at different barriers", 10, 30);
	expect_report((SimtLaunch){.kernel = different_barriers, .param = (uint64_t[]){5}},
	    "lanes of warp 0 part", 10, 30);
}

/* ---- meetings ---- */

static void
add_up(const SimtLanes *lanes, const void *info)
{
	uint64_t sum = 0;
	for (int i = 0; i < lanes->n; i++)
		sum += lanes->in[i][0];
	for (int i = 0; i < lanes->n; i++)
		lanes->out[i][0] = sum;
}

static const char sum_name[] = "sum", other_name[] = "another";

static void
sums(SimtThread *t, const uint64_t *param)
{
	uint64_t in = (uint64_t)t->thread, *out = (uint64_t *)(uintptr_t)param[0], sum = 0, all = 0;
	for (int i = 0; i < 3; i++) {
		simt_warp_collective(t, sum_name, add_up, NULL, &in, &sum);
		simt_group_collective(t, other_name, add_up, NULL, &in, &all);
	}
	out[t->thread] = sum * 100000 + all;
}

static void
meetings(void **state)
{
	uint64_t out[256], param = (uint64_t)(uintptr_t)out;
	for (uint64_t seed = 0; seed < 10; seed++) {
		assert_true(run_with((SimtLaunch){.kernel = sums, .param = &param, .seed = seed}).ok);
		for (int i = 0; i < 256; i++) {
			uint64_t warp = (uint64_t)(i / 32 * 32 * 32 + 496), group = (uint64_t)(i / 128 * 128 * 128 + 8128);
			assert_int_equal(out[i], warp * 100000 + group);
		}
	}
}

static void
part_of_warp(SimtThread *t, const uint64_t *param)
{
	uint64_t in = 0, out;
	t->site = 1;
	if (t->lane < 8)
		simt_warp_collective(t, sum_name, add_up, NULL, &in, &out);
	if (param[0])
		barrier_at(t, 2);
}

static void
another_meeting(SimtThread *t, const uint64_t *param)
{
	uint64_t in = 0, out;
	t->site = t->lane < 8 ? 1 : 2;
	simt_warp_collective(t, t->lane < 8 || param[0] ? sum_name : other_name, add_up, NULL, &in, &out);
}

static void
one_warp_less(SimtThread *t, const uint64_t *param)
{
	uint64_t in = 0, out;
	t->site = 1;
	if (t->thread < 96)
		simt_group_collective(t, sum_name, add_up, NULL, &in, &out);
}

static void
lanes_part(void **state)
{
	expect_report((SimtLaunch){.kernel = part_of_warp, .param = (uint64_t[]){0}},
	    "sum is reached by 8 of the 32 lanes of warp 0: thread 8 has ended", 10, 0);
	expect_report((SimtLaunch){.kernel = part_of_warp, .param = (uint64_t[]){1}},
	    "sum is reached by 8 of the 32 lanes of warp 0: thread 8 waits at a barrier", 10, 20);
	expect_report((SimtLaunch){.kernel = another_meeting, .param = (uint64_t[]){0}},
	    "lanes of warp 0 part: thread 8 is at another, thread 0 at sum", 20, 10);
	expect_report((SimtLaunch){.kernel = another_meeting, .param = (uint64_t[]){1}},
	    "lanes of warp 0 part: thread 8 is at sum, thread 0 at sum", 20, 10);
	expect_report((SimtLaunch){.kernel = one_warp_less, .param = (uint64_t[]){1}},
	    "sum is not reached by all warps of the warpgroup: thread 96 has ended", 10, 0);
	expect_report((SimtLaunch){.kernel = one_warp_less, .threads = 96},
	    "sum needs the four warps of a warpgroup; the block has 96 threads", 10, 0);
}

/* ---- waiting for something ---- */

static bool
is_set(const void *user)
{
	return *(const int *)user != 0;
}

static void
relay(SimtThread *t, const uint64_t *param)
{
	int *flag = (int *)(void *)t->shared;
	if (t->thread == 0)
		flag[0] = 1;
	else
		simt_wait(t, "a flag", is_set, &flag[t->thread - 1]);
	flag[t->thread] = 1;
	barrier_at(t, 1);
	((int *)(uintptr_t)param[0])[t->thread] = flag[255];
}

static void
waits(void **state)
{
	int out[256];
	uint64_t param = (uint64_t)(uintptr_t)out;
	for (uint64_t seed = 0; seed < 5; seed++) {
		memset(out, 0, sizeof out);
		/* flags of the block before are there still: nothing depends on them but how long it takes */
		assert_true(run_with((SimtLaunch){.kernel = relay, .param = &param, .shared_bytes = 1024, .seed = seed}).ok);
		for (int i = 0; i < 256; i++)
			assert_int_equal(out[i], 1);
	}
}

static int zero;

static bool
never(const void *user)
{
	return zero != 0;
}

static void
wait_in_vain(SimtThread *t, const uint64_t *param)
{
	t->site = 2;
	if (t->warp == 3 && param)
		t->site = 3;
	simt_wait(t, t->site == 3 ? "another flag" : "a flag", never, NULL);
}

static void
deadlock(void **state)
{
	expect_report((SimtLaunch){.kernel = wait_in_vain}, "deadlock: thread 0 waits at a flag for what never comes", 20, 0);
	expect_report((SimtLaunch){.kernel = wait_in_vain, .param = (uint64_t[]){0}},
	    "deadlock: thread 0 waits at a flag for what never comes, and thread 96 at another flag", 20, 30);
}

/* ---- loops, traps, stacks ---- */

static void
spin(SimtThread *t, const uint64_t *param)
{
	int *flag = (int *)(void *)t->shared;
	t->site = 3;
	if (t->thread == 0)
		flag[0] = 0;
	barrier_at(t, 1);
	t->site = 3;
	if (t->thread == 0)
		while (((volatile int *)flag)[0] != (int)param[0])
			simt_spin(t);
	else if (t->thread > 200)
		__atomic_fetch_add(flag, 1, __ATOMIC_SEQ_CST);
}

static void
loops_end(void **state)
{
	assert_true(run_with((SimtLaunch){.kernel = spin, .param = (uint64_t[]){55}, .shared_bytes = 16}).ok);
	expect_report((SimtLaunch){.kernel = spin, .param = (uint64_t[]){77}, .shared_bytes = 16, .iterations_most = 1000000},
	    "a loop does not end: the block has gone through", 30, 0);
}

static void
trap_in_40(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	if (t->block_index >= 5 && t->thread == 40)
		simt_fail(t, "ended on purpose");
}

static void
first_report_wins(void **state)
{
	for (int i = 0; i < 10; i++) {
		Result r = run_with((SimtLaunch){.kernel = trap_in_40, .nblocks = 100, .workers = 3});
		assert_false(r.ok);
		assert_int_equal(r.report.block, 5);
		assert_int_equal(r.report.thread, 40);
	}
}

static int
deeper(volatile char *above, int n)
{
	volatile char room[1024];
	room[0] = above[0];
	return n == 0 ? room[0] : deeper(room, n - 1) + room[0];
}

static void
recurse(SimtThread *t, const uint64_t *param)
{
	volatile char first = 1;
	t->site = 2;
	if (t->thread == 7)
		deeper(&first, (int)param[0]);
}

static void
touch_nothing(SimtThread *t, const uint64_t *param)
{
	t->site = 1;
	*(volatile int *)(uintptr_t)param[0] = 1;
}

static void
stacks_end(void **state)
{
#if defined(__SANITIZE_ADDRESS__)
	skip();
#endif
	assert_true(run_with((SimtLaunch){.kernel = recurse, .param = (uint64_t[]){10}}).ok);
	for (int i = 0; i < 3; i++)
		expect_report((SimtLaunch){.kernel = recurse, .param = (uint64_t[]){100000}, .nblocks = 4},
		    "thread 7 needs more stack than 512 KiB: take more warps, or smaller tiles", 20, 0);
	expect_report((SimtLaunch){.kernel = touch_nothing, .param = (uint64_t[]){64}},
	    "thread 0 touches memory that is not there, at 0x40", 10, 0);
}

/* ---- what a target has not ---- */

static void
too_much(void **state)
{
	const Target *t = target_named("sm_75");
	expect_report((SimtLaunch){.kernel = tell, .threads = 2048}, "the kernel has 2048 threads a block; sm_90a has 1024 at most",
	    0, 0);
	expect_report((SimtLaunch){.kernel = tell, .threads = 40}, "whole warps", 0, 0);
	expect_report((SimtLaunch){.kernel = tell, .target = t, .shared_bytes = 70000},
	    "the kernel needs 70000 bytes of shared memory a block; sm_75 has 65536", 0, 0);
	expect_report((SimtLaunch){.kernel = tell, .cluster = 3, .nblocks = 4}, "clusters of 3", 0, 0);
}

/* ---- clusters ---- */

static void
neighbours(SimtThread *t, const uint64_t *param)
{
	int *out = (int *)(uintptr_t)param[0];
	*(int *)(void *)(t->shared + 4 * t->thread) = 1000 * t->block_index + t->thread;
	simt_cluster_arrive(t, NULL, NULL, NULL);
	simt_cluster_wait(t, NULL, NULL, NULL);
	SimtThread *peer = simt_cluster_peer(t, (t->cluster_rank + 1) % 4);
	out[t->block_index * 64 + t->thread] = *(int *)(void *)(peer->shared + 4 * t->thread);
}

static void
clusters(void **state)
{
	int out[16 * 64];
	uint64_t param = (uint64_t)(uintptr_t)out;
	for (uint64_t seed = 0; seed < 5; seed++) {
		assert_true(run_with((SimtLaunch){.kernel = neighbours, .param = &param, .threads = 64, .nblocks = 16,
		    .cluster = 4, .shared_bytes = 256, .seed = seed}).ok);
		for (int i = 0; i < 16 * 64; i++) {
			int block = i / 64, peer = block / 4 * 4 + (block + 1) % 4;
			assert_int_equal(out[i], 1000 * peer + i % 64);
		}
	}
}

/* ---- a block's own memory ---- */

static const char key;

static void
one_end(void *user)
{
	*(int *)user += 1;
}

static void
own_memory(SimtThread *t, const uint64_t *param)
{
	void **p = simt_block_local(t, &key);
	if (!*p) {
		*p = t;
		simt_at_end(t, one_end, (void *)(uintptr_t)param[0]);
	}
	barrier_at(t, 1);
	if (t->thread == 3 && t->block_index == 6)
		simt_fail(t, "ended on purpose");
}

static void
ends_are_told(void **state)
{
	int n = 0;
	uint64_t param = (uint64_t)(uintptr_t)&n;
	run_with((SimtLaunch){.kernel = own_memory, .param = &param, .nblocks = 6, .workers = 1});
	assert_int_equal(n, 6);
	run_with((SimtLaunch){.kernel = own_memory, .param = &param, .nblocks = 9, .workers = 1});
	assert_int_equal(n, 13);
}

/* ---- compiled code ---- */

/* for (i = 0; i != limit; i += step) sum += i, for ever if limit is never met */
static void
build_loop(ThreadBuilder *to, const Reg *param)
{
	Reg zero_reg = thread_int_const(to, REG_I32, 0), one = thread_int_const(to, REG_I32, 1), in[2], next[2], after[2];
	thread_place(to, (Place)AT(7));
	thread_while(to, (Reg[]){zero_reg, zero_reg}, in, 2);
	thread_while_test(to, thread_op(to, THREAD_NE, in[0], param[1], 0));
	next[0] = thread_op(to, THREAD_ADD, in[0], one, 0);
	next[1] = thread_op(to, THREAD_ADD, in[1], in[0], 0);
	thread_while_end(to, next, after, 2);
	Reg thread, offset;
	thread_prim(to, PRIM_THREAD, NULL, 0, NULL, 0, &thread, 1);
	offset = thread_op(to, THREAD_SHL, thread, thread_int_const(to, REG_I32, 2), 0);
	thread_place(to, (Place)AT(9));
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = param[0], .offset = offset, .align = 4};
	thread_store(to, &at, &after[1]);
}

/* print("%d of %u: %g\n", lane, …) by one thread, then a shared store past the end by another */
static void
build_print(ThreadBuilder *to, const Reg *param)
{
	Reg thread, shared = param[2], value[3];
	thread_place(to, (Place)AT(4));
	thread_prim(to, PRIM_THREAD, NULL, 0, NULL, 0, &thread, 1);
	thread_if(to, thread_op(to, THREAD_EQ, thread, thread_int_const(to, REG_I32, 5), 0));
	value[0] = thread_int_const(to, REG_I32, -3);
	value[1] = thread_cast(to, CAST_ZEXT, REG_I64, thread);
	value[2] = thread_float_const(to, REG_F64, 1.5);
	thread_print(to, "%lld of 100%%: %llu, %g\n", value, 3);
	thread_if_end(to, NULL, NULL, 0);
	thread_place(to, (Place)AT(5));
	Reg offset = thread_op(to, THREAD_MUL, thread, param[1], 0);
	ThreadAccess at = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = shared, .offset = offset, .align = 4};
	thread_store(to, &at, &thread);
}

/* thread 0 waits for a flag that thread 63 puts up, then all write what it says */
static void
build_spin(ThreadBuilder *to, const Reg *param)
{
	Reg thread, none = thread_int_const(to, REG_I32, 0), flag, in[1], seen[1];
	ThreadAccess at = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = param[2], .align = 4,
	    .cache = CACHE_VOLATILE};
	thread_place(to, (Place)AT(6));
	thread_prim(to, PRIM_THREAD, NULL, 0, NULL, 0, &thread, 1);
	thread_if(to, thread_op(to, THREAD_EQ, thread, none, 0));
	thread_store(to, &at, &none);
	thread_if_end(to, NULL, NULL, 0);
	thread_prim(to, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	thread_if(to, thread_op(to, THREAD_EQ, thread, none, 0));
	thread_while(to, &none, in, 1);
	thread_while_test(to, thread_op(to, THREAD_EQ, in[0], none, 0));
	thread_load(to, &at, &flag);
	thread_while_end(to, &flag, seen, 1);
	ThreadAccess out = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = param[0], .align = 4};
	thread_store(to, &out, seen);
	thread_if_end(to, NULL, NULL, 0);
	thread_if(to, thread_op(to, THREAD_EQ, thread, thread_int_const(to, REG_I32, 63), 0));
	thread_store(to, &at, &param[1]);
	thread_if_end(to, NULL, NULL, 0);
}

/* Thread 0 reverses 16 bytes in words of two and of four parts; the sums of their f16 halves, narrowed again, follow. */
static void
build_words(ThreadBuilder *to, const Reg *param)
{
	Reg thread, byte[16], back[16], half[2], sum[8];
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I8, .n = 16, .base = param[0], .align = 16};
	ThreadAccess f16 = {.space = SPACE_GLOBAL, .type = REG_F16, .n = 8, .base = param[0], .constant = 16, .align = 16};
	thread_place(to, (Place)AT(8));
	thread_prim(to, PRIM_THREAD, NULL, 0, NULL, 0, &thread, 1);
	thread_if(to, thread_op(to, THREAD_EQ, thread, thread_int_const(to, REG_I32, 0), 0));
	thread_load(to, &at, byte);
	for (int i = 0; i < 4; i++) {
		thread_unpack(to, thread_pack(to, &byte[4 * i], 4), REG_F16, half, 2);
		sum[2 * i] = sum[2 * i + 1] = thread_op(to, THREAD_FADD, half[0], half[1], 0);
		thread_unpack(to, thread_pack(to, (Reg[]){half[1], half[0]}, 2), REG_I8, &back[12 - 4 * i], 4);
	}
	thread_store(to, &at, back);
	thread_store(to, &f16, sum);
	thread_if_end(to, NULL, NULL, 0);
}

/* One thread stores into what became an mbarrier. */
static void
build_over(ThreadBuilder *to, const Reg *param)
{
	Reg in[] = {param[2], thread_int_const(to, REG_I32, 1)}, thread;
	ThreadAccess at = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = param[2], .constant = 4, .align = 4};
	thread_prim(to, PRIM_THREAD, NULL, 0, NULL, 0, &thread, 1);
	thread_if(to, thread_op(to, THREAD_EQ, thread, thread_int_const(to, REG_I32, 0), 0));
	thread_prim(to, PRIM_MBAR_INIT, in, 2, NULL, 0, NULL, 0);
	thread_if_end(to, NULL, NULL, 0);
	thread_prim(to, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	thread_if(to, thread_op(to, THREAD_EQ, thread, param[1], 0));
	thread_store(to, &at, &thread);
	thread_if_end(to, NULL, NULL, 0);
}

static EmitLlvm *
emit_built(void (*body)(ThreadBuilder *to, const Reg *param), bool checks, Arena *mem)
{
	const char *why = "";
	const EmitLlvmOptions opt = {.host = true, .checks = checks, .verify = true};
	const Target *t = target_named("sm_80");
	ThreadBuilder *to = thread_open(mem, t, false);
	ThreadParam params[2] = {{.name = "p", .type = REG_GLOBAL}, {.name = "n", .type = REG_I32}};
	Reg param[3];
	thread_kernel(to, &(ThreadKernel){.name = "k", .param = params, .nparam = 2, .threads = 64,
	    .shared_bytes = 256}, param,
	    &param[2]);
	body(to, param);
	EmitLlvm *l = emit_llvm_open(mem, t, &opt, &why);
	emit_llvm_module(l, thread_module(to));
	return l;
}

static Result
run_built(void (*body)(ThreadBuilder *to, const Reg *param), bool checks, uint64_t *value, int64_t iterations)
{
	Arena *mem = arena_open();
	const char *why = "";
	int n;
	EmitLlvm *l = emit_built(body, checks, mem);
	const EmitSymbol *symbol = simt_symbols(&n);
	EmitCode *c = emit_llvm_code(l, symbol, n, &why);
	if (!c)
		fail_msg("%s", why);
	SimtLaunch launch = {.kernel = (SimtKernel *)emit_code_entry(c), .param = value, .target = target_named("sm_80"),
	    .threads = 64, .shared_bytes = 256, .checks = checks, .iterations_most = iterations};
	launch.site = emit_code_sites(c, &launch.nsite);
	Result r = run_with(launch);
	emit_code_close(c);
	emit_llvm_close(l);
	arena_close(mem);
	return r;
}

static void
compiled_loops(void **state)
{
	int out[64];
	for (int checks = 0; checks < 2; checks++) {
		memset(out, 0, sizeof out);
		Result r = run_built(build_loop, checks, (uint64_t[]){(uint64_t)(uintptr_t)out, 20000}, 0);
		assert_true(r.ok);
		for (int i = 0; i < 64; i++)
			assert_int_equal(out[i], 199990000);
		r = run_built(build_loop, checks, (uint64_t[]){(uint64_t)(uintptr_t)out, UINT32_MAX}, 100000);
		assert_false(r.ok);
		assert_non_null(strstr(r.report.text, "a loop does not end"));
		assert_int_equal(r.report.place.line, 7);
	}
}

static void
compiled_spins(void **state)
{
	int out = 0;
	Result r = run_built(build_spin, false, (uint64_t[]){(uint64_t)(uintptr_t)&out, 77}, 0);
	assert_true(r.ok);
	assert_int_equal(out, 77);
	r = run_built(build_spin, false, (uint64_t[]){(uint64_t)(uintptr_t)&out, 0}, 100000);
	assert_false(r.ok);
	assert_non_null(strstr(r.report.text, "a loop does not end"));
	assert_int_equal(r.report.place.line, 6);
}

static void
compiled_prints(void **state)
{
	Result r = run_built(build_print, true, (uint64_t[]){0, 4}, 0);
	assert_true(r.ok);
	assert_string_equal(r.printed.at, "-3 of 100%: 5, 1.5\n");
	text_close(&r.printed);
	r = run_built(build_print, true, (uint64_t[]){0, 8}, 0);
	assert_false(r.ok);
	assert_int_equal(r.report.place.line, 5);
	assert_int_equal(r.report.thread, 32);
	text_close(&r.printed);
}

/* On a GPU the mbarrier's own words may come up where the store was. */
static void
mbarriers_stay(void **state)
{
	assert_true(run_built(build_over, true, (uint64_t[]){0, 64}, 0).ok);
	Result r = run_built(build_over, true, (uint64_t[]){0, 5}, 0);
	assert_false(r.ok);
	assert_non_null(strstr(r.report.text, "thread 5 writes over the mbarrier at 0"));
}

/* The checked form holds nothing that FastISel leaves to the slow selector for the rest of a block. */
static void
compiled_words(void **state)
{
	for (int checks = 0; checks < 2; checks++) {
		Text text = {0};
		Arena *mem = arena_open();
		_Alignas(16) uint8_t v[32] = {0x00, 0x3c, 0x00, 0x40, 2, 0, 3, 0, 0x00, 0x7c, 1, 2, 7, 0x80, 5, 6};
		const uint8_t want[16] = {5, 6, 7, 0x80, 1, 2, 0x00, 0x7c, 3, 0, 2, 0, 0x00, 0x40, 0x00, 0x3c};
		EmitLlvm *l = emit_built(build_words, checks, mem);
		emit_llvm_text(l, &text);
		assert_true(checks == !strstr(text.at, " x i8>"));
		assert_true(checks == !strstr(text.at, " x i16>"));
		assert_null(strstr(text.at, "half"));
		emit_llvm_close(l);
		arena_close(mem);
		text_close(&text);
		assert_true(run_built(build_words, checks, (uint64_t[]){(uint64_t)(uintptr_t)v, 0}, 0).ok);
		assert_memory_equal(v, want, 16);
		for (int i = 0; i < 8; i++)     /* 1 + 2; 2 and 3 of the least; infinity; -7 of the least */
			assert_int_equal(v[16 + 2 * i] | v[17 + 2 * i] << 8,
			    ((const int[]){0x4200, 5, 0x7c00, 0x5fe})[i / 2]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(threads_know_themselves), cmocka_unit_test(barriers_order), cmocka_unit_test(named_barriers),
	    cmocka_unit_test(barriers_missed), cmocka_unit_test(meetings), cmocka_unit_test(lanes_part),
	    cmocka_unit_test(waits), cmocka_unit_test(deadlock), cmocka_unit_test(loops_end),
	    cmocka_unit_test(first_report_wins), cmocka_unit_test(stacks_end), cmocka_unit_test(too_much),
	    cmocka_unit_test(clusters), cmocka_unit_test(ends_are_told), cmocka_unit_test(compiled_loops),
	    cmocka_unit_test(compiled_spins), cmocka_unit_test(compiled_prints), cmocka_unit_test(compiled_words),
	    cmocka_unit_test(mbarriers_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
