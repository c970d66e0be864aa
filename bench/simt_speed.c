/* How fast the emulator is: blocks of 256 threads that add up their numbers, five shuffles and two barriers each.
 *
 *     simt_speed [SECONDS]
 *
 * prints blocks a second with checks and without, and for each second that a processor works. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/simt/simt.h"

enum { THREADS = 256, BLOCKS = 20000 };

static double
clock_of(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double
now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static Reg
prim1(ThreadBuilder *to, PrimKind k, const Reg *in, int nin, int64_t imm)
{
	Reg out;
	thread_prim(to, k, in, nin, &imm, nin, &out, 1);
	return out;
}

/* Each warp's sum goes through shared memory to every thread, which adds the eight up and writes. */
static void
build_kernel(ThreadBuilder *to)
{
	ThreadParam p[1] = {{.name = "out", .type = REG_GLOBAL}};
	Reg out, shared;
	thread_kernel(to, &(ThreadKernel){.name = "sums", .param = p, .nparam = 1, .threads = THREADS,
	    .shared_bytes = 1024},
	    &out, &shared);
	Reg thread = prim1(to, PRIM_THREAD, NULL, 0, 0), block = prim1(to, PRIM_BLOCK, NULL, 0, 0), sum = thread;
	for (int by = 1; by < 32; by *= 2) {
		Reg other = prim1(to, PRIM_SHUFFLE_XOR, &sum, 1, by);
		sum = thread_op(to, THREAD_ADD, sum, other, 0);
	}
	Reg four = thread_int_const(to, REG_I32, 4), five = thread_int_const(to, REG_I32, 5);
	Reg warp = thread_op(to, THREAD_LSHR, thread, five, 0), at_warp = thread_op(to, THREAD_MUL, warp, four, 0);
	Reg is_first = thread_op(to, THREAD_EQ, thread_op(to, THREAD_AND, thread, thread_int_const(to, REG_I32, 31), 0),
	    thread_int_const(to, REG_I32, 0), 0);
	ThreadAccess put = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = shared, .offset = at_warp, .align = 4,
	    .mask = is_first};
	thread_prim(to, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	thread_store(to, &put, &sum);
	thread_prim(to, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	ThreadAccess take = {.space = SPACE_SHARED, .type = REG_I32, .n = 4, .base = shared, .align = 16};
	Reg part[8], all = thread_int_const(to, REG_I32, 0);
	thread_load(to, &take, part);
	take.constant = 16;
	thread_load(to, &take, part + 4);
	for (int i = 0; i < 8; i++)
		all = thread_op(to, THREAD_ADD, all, part[i], 0);
	Reg index = thread_op(to, THREAD_ADD, thread_op(to, THREAD_MUL, block, thread_int_const(to, REG_I32, THREADS),
	    0), thread, 0);
	ThreadAccess write = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = out,
	    .offset = thread_op(to, THREAD_MUL, index, four, 0), .align = 4};
	thread_store(to, &write, &all);
}

static bool
is_right(const int *out)
{
	for (int i = 0; i < BLOCKS * THREADS; i++)
		if (out[i] != THREADS * (THREADS - 1) / 2)
			return false;
	return true;
}

static bool
measure(SimtLaunch *l, double seconds, const char *what, const int *out)
{
	SimtMachine *m = simt_open();
	SimtReport report;
	double begin = now(), work = clock_of(CLOCK_PROCESS_CPUTIME_ID), end;
	int64_t done = 0;
	do {
		if (!simt_run(m, l, &report)) {
			fprintf(stderr, "simt_speed: %s\n", report.text);
			return false;
		}
		done += l->nblocks;
		end = now();
	} while (end - begin < seconds);
	simt_close(m);
	work = clock_of(CLOCK_PROCESS_CPUTIME_ID) - work;
	printf("%-10s %9.0f blocks/s, %9.0f a processor\n", what, (double)done / (end - begin), (double)done / work);
	return is_right(out) || (fprintf(stderr, "simt_speed: the sums are wrong\n"), false);
}

int
main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	static int out[BLOCKS * THREADS];
	const Target *t = target_named("sm_80");
	uint64_t param = (uint64_t)(uintptr_t)out;
	SimtRange range = {.name = "out", .low = param, .high = param + sizeof out, .first = param, .dtype = TY_I32};
	bool good = true;
	for (int checks = 0; checks < 2 && good; checks++) {
		Arena *mem = arena_open();
		const char *why = "";
		int n;
		const EmitSymbol *symbol = simt_symbols(&n);
		ThreadBuilder *to = thread_open(mem, t, false);
		build_kernel(to);
		EmitLlvm *l = emit_llvm_open(mem, t, &(EmitLlvmOptions){.host = true, .checks = checks != 0}, &why);
		emit_llvm_module(l, thread_module(to));
		EmitCode *code = emit_llvm_code(l, symbol, n, &why);
		if (!code)
			return fprintf(stderr, "simt_speed: %s\n", why), 1;
		SimtLaunch launch = {.kernel = (SimtKernel *)emit_code_entry(code), .param = &param, .target = t,
		    .threads = THREADS, .shared_bytes = 1024, .nblocks = BLOCKS, .checks = checks != 0, .range = &range,
		    .nrange = 1};
		launch.site = emit_code_sites(code, &launch.nsite);
		good = measure(&launch, seconds, checks ? "checked" : "unchecked", out);
		emit_code_close(code);
		emit_llvm_close(l);
		arena_close(mem);
	}
	return !good;
}
