/* Fibers and the guard pages below their stacks, by themselves: nothing of the emulator but fiber.c and guard.c, so that
 * it can be built for another machine and run there or under qemu (tests/simt/aarch64).
 *
 *     fibers            prints what was seen and "fibers: N checks, M failed"
 *
 * Each fiber fills all registers that a callee must keep with numbers of its own and finds them again after the others
 * have run; stacks are aligned, deep enough, used again, and their end is told from memory that is not there. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/simt/scheduler.h"

#ifdef __SANITIZE_ADDRESS__
enum { FRAMES = 3 }; /* frames have zones around what is in them */
#else
enum { FRAMES = 1 };
#endif
enum { FIBERS = 48, ROUNDS = 20, DEEP = (FIBER_STACK - (24 << 10)) / FRAMES };

/* Fills the registers that a callee keeps with seed, seed + 1, …, calls pause(arg), and counts those that changed. */
uint64_t fill_and_pause(uint64_t seed, void (*pause)(void *arg), void *arg);

#if defined(__x86_64__)
static const char machine[] = "x86-64: rbx rbp r12-r15";
__asm__(".text\n"
	".globl fill_and_pause\n"
	"fill_and_pause:\n"
	"	pushq %rbx\n	pushq %rbp\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	pushq %rdi\n"
	"	leaq 0(%rdi), %rbx\n	leaq 1(%rdi), %rbp\n	leaq 2(%rdi), %r12\n	leaq 3(%rdi), %r13\n"
	"	leaq 4(%rdi), %r14\n	leaq 5(%rdi), %r15\n"
	"	movq %rdx, %rdi\n	call *%rsi\n"
	"	popq %rdi\n	xorl %eax, %eax\n"
	"	cmpq %rdi, %rbx\n	je 1f\n	incl %eax\n1:	incq %rdi\n"
	"	cmpq %rdi, %rbp\n	je 1f\n	incl %eax\n1:	incq %rdi\n"
	"	cmpq %rdi, %r12\n	je 1f\n	incl %eax\n1:	incq %rdi\n"
	"	cmpq %rdi, %r13\n	je 1f\n	incl %eax\n1:	incq %rdi\n"
	"	cmpq %rdi, %r14\n	je 1f\n	incl %eax\n1:	incq %rdi\n"
	"	cmpq %rdi, %r15\n	je 1f\n	incl %eax\n1:\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbp\n	popq %rbx\n	ret\n"
	".section .note.GNU-stack,\"\",%progbits\n.text\n");
#elif defined(__aarch64__)
static const char machine[] = "AArch64: x19-x29 d8-d15";
#define SET(r, n) "	add " r ", x0, #" n "\n"
#define SETD(r, n) "	add x9, x0, #" n "\n	fmov " r ", x9\n"
#define SAME(r, n) "	add x9, x10, #" n "\n	cmp x9, " r "\n	cinc x0, x0, ne\n"
#define SAMED(r, n) "	fmov x11, " r "\n" SAME("x11", n)
__asm__(".text\n.p2align 2\n"
	".globl fill_and_pause\n"
	"fill_and_pause:\n"
	"	sub sp, sp, #176\n"
	"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n	str x0, [sp, #160]\n"
	SET("x19", "0") SET("x20", "1") SET("x21", "2") SET("x22", "3") SET("x23", "4") SET("x24", "5")
	SET("x25", "6") SET("x26", "7") SET("x27", "8") SET("x28", "9") SET("x29", "10")
	SETD("d8", "11") SETD("d9", "12") SETD("d10", "13") SETD("d11", "14") SETD("d12", "15")
	SETD("d13", "16") SETD("d14", "17") SETD("d15", "18")
	"	mov x0, x2\n	blr x1\n"
	"	ldr x10, [sp, #160]\n	mov x0, #0\n"
	SAME("x19", "0") SAME("x20", "1") SAME("x21", "2") SAME("x22", "3") SAME("x23", "4") SAME("x24", "5")
	SAME("x25", "6") SAME("x26", "7") SAME("x27", "8") SAME("x28", "9") SAME("x29", "10")
	SAMED("d8", "11") SAMED("d9", "12") SAMED("d10", "13") SAMED("d11", "14") SAMED("d12", "15")
	SAMED("d13", "16") SAMED("d14", "17") SAMED("d15", "18")
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n	add sp, sp, #176\n	ret\n"
	".section .note.GNU-stack,\"\",%progbits\n.text\n");
#endif

static int checks, failed;

static void
check(bool ok, const char *what)
{
	checks++;
	failed += !ok;
	if (!ok)
		printf("FAIL %s\n", what);
}

/* ---- fibers that take turns ---- */

typedef struct Runner {
	BlockScheduler scheduler;                                      /* its stacks, running fiber and way back; guard.c's */
	Fiber fiber[FIBERS];
	int left, changed, misaligned;
	void (*body)(struct Runner *r, Fiber *f);
	char told[200];
} Runner;

static Runner runner;

static void
enter(void)
{
	fiber_arrived(&runner.scheduler.stacks);
}

/* To the next fiber that has not ended. */
static void
pause(void *arg)
{
	Fiber *f = arg, *next = f;
	do
		next = &runner.fiber[(next->index + 1) % FIBERS];
	while (next->state == FIBER_ENDED);
	if (next == f)
		return;
	runner.scheduler.running = next;
	fiber_switch(&runner.scheduler.stacks, &f->sp, next->sp, next->index, false);
}

/* The last that ends goes back. */
static void
finish(Fiber *f)
{
	f->state = FIBER_ENDED;
	if (--runner.left > 0) {
		pause(f);
		abort();
	}
	runner.scheduler.running = NULL;
	fiber_switch(&runner.scheduler.stacks, &f->sp, runner.scheduler.own, -1, true);
	abort();
}

static void
main_of(void *arg)
{
	Fiber *f = arg;
	enter();
	runner.body(&runner, f);
	finish(f);
}

/* What guard.c calls, from a signal handler: the words are kept, and it goes on where run() stands. */
void
simt_fail(SimtThread *t, const char *fmt, ...)
{
	void *gone;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(runner.told, sizeof runner.told, fmt, ap);
	va_end(ap);
	runner.scheduler.running = NULL;
	fiber_switch(&runner.scheduler.stacks, &gone, runner.scheduler.own, -1, true);
	abort();
}

/* Runs so many fibers, the last ones of all, until all have ended or one has failed. */
static void
run(int n, void (*body)(Runner *r, Fiber *f))
{
	runner.body = body;
	runner.left = n;
	*runner.told = 0;
	for (int i = 0; i < FIBERS; i++) {
		Fiber *f = &runner.fiber[i];
		*f = (Fiber){.index = i, .state = i < FIBERS - n ? FIBER_ENDED : FIBER_RUNS};
		f->t.thread = i;
		f->sp = fiber_start(&runner.scheduler.stacks, i, main_of, f);
	}
	Fiber *first = &runner.fiber[FIBERS - n];
	runner.scheduler.running = first;
	fiber_switch(&runner.scheduler.stacks, &runner.scheduler.own, first->sp, first->index, false);
}

/* ---- what they do ---- */

static void
keeps_registers(Runner *r, Fiber *f)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t seed = UINT64_C(0x5a00000000000000) + (uint64_t)f->index * 1000 + (uint64_t)i * 40;
		r->changed += (int)fill_and_pause(seed, pause, f);
	}
}

static void
is_aligned(Runner *r, Fiber *f)
{
	_Alignas(16) volatile char local[16];
	char text[40];
	local[0] = 1;
	r->misaligned += (uintptr_t)__builtin_frame_address(0) % 16 != 0 || (uintptr_t)local % 16 != 0;
	snprintf(text, sizeof text, "%.3f %d %.2f", 1.5 + f->index, f->index, 0.25);
	pause(f);
	r->changed += strtod(text, NULL) != 1.5 + f->index;
}

__attribute__((noinline)) static int
dig(volatile char *above, int bytes)
{
	volatile char room[1024];
	room[0] = (char)bytes;
	room[1023] = above[0];
	int more = bytes > 0 ? dig(room, bytes - 1024 - 64) : 0;
	return more + room[0];
}

static void
goes_deep(Runner *r, Fiber *f)
{
	volatile char top[4] = {1};
	dig(top, DEEP);
	pause(f);
}

static void
goes_too_deep(Runner *r, Fiber *f)
{
	volatile char top[4] = {1};
	if (f->index == FIBERS - 2)
		dig(top, 2 * FIBER_STACK);
	pause(f);
}

static void
strays(Runner *r, Fiber *f)
{
	volatile uintptr_t nowhere = 64;
	pause(f);
	*(volatile char *)nowhere = 1;
}

int
main(void)
{
	if (!stacks_open(&runner.scheduler.stacks, FIBERS) || !guard_enter(&runner.scheduler)) {
		printf("no memory\n");
		return 1;
	}
	run(FIBERS, keeps_registers);
	check(runner.changed == 0, "registers that a callee keeps change over a switch");
	run(FIBERS, is_aligned);
	check(runner.misaligned == 0, "a fiber's stack is not aligned");
	check(runner.changed == 0, "numbers change over a switch");
	run(FIBERS, goes_deep);
	check(!*runner.told, "a stack ends too soon");
	for (int i = 0; i < 3; i++) {
		run(4, goes_too_deep);
		check(strcmp(runner.told, "thread 46 needs more stack than 512 KiB: take more warps, or smaller tiles") == 0, "the end of a stack is not told");
		run(3, strays);
		check(strcmp(runner.told, "thread 45 touches memory that is not there, at 0x40") == 0, "a stray is not told");
	}
	run(FIBERS, keeps_registers);
	check(runner.changed == 0, "registers change on stacks that are used again");
	guard_leave(&runner.scheduler);
	free(runner.scheduler.signal_stack);
	stacks_close(&runner.scheduler.stacks);
	printf("%s\nfibers: %d checks, %d failed\n", machine, checks, failed);
	return failed > 0;
}
