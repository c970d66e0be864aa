/* Stacks that can be switched between: one fiber a thread of a threadgroup.  On x86-64 and aarch64 a switch saves what
 * the calling convention asks for and no more; elsewhere ucontext does it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/msl/msl.h"

bool
fiber_open(Fiber *f, size_t size)
{
	f->stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f->stack == MAP_FAILED) {
		f->stack = NULL;
		return false;
	}
	mprotect(f->stack, 4096, PROT_NONE);
	f->top = (char *)f->stack + size;
	return true;
}

#if defined(__x86_64__)

__asm__(".text\n"
	".globl msl_fiber_swap\n"
	".type msl_fiber_swap, @function\n"
	"msl_fiber_swap:\n"                             /* (void **from, void *to) */
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n	popq %rbp\n"
	"	ret\n"
	".size msl_fiber_swap, . - msl_fiber_swap\n");
enum { SAVED = 6, RETURN = 6 };
#define HAVE_SWAP

#elif defined(__aarch64__)

__asm__(".text\n"
	".globl msl_fiber_swap\n"
	"msl_fiber_swap:\n"
	"	sub sp, sp, #176\n"
	"	stp x19, x20, [sp, #0]\n	stp x21, x22, [sp, #16]\n	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n	stp d12, d13, [sp, #128]\n	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n	str x9, [x0]\n	mov sp, x1\n"
	"	ldp x19, x20, [sp, #0]\n	ldp x21, x22, [sp, #16]\n	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #176\n	ret\n");
enum { SAVED = 22, RETURN = 11 };
#define HAVE_SWAP

#endif

#ifdef HAVE_SWAP

void msl_fiber_swap(void **from, void *to);

void
fiber_start(Fiber *f, void (*entry)(void))
{
	void **sp = (void **)f->top - 2;                /* aligned to 16 */
#ifdef __x86_64__
	*--sp = NULL;                                   /* where `entry` would return to */
	sp -= SAVED + 1;
#else
	sp -= SAVED;
#endif
	for (int i = 0; i < SAVED; i++)
		sp[i] = NULL;
	*(void (**)(void))&sp[RETURN] = entry;
	f->context = sp;
}

void
fiber_switch(Fiber *from, Fiber *to)
{
	msl_fiber_swap(&from->context, to->context);
}

void
fiber_close(Fiber *f)
{
	if (f->stack)
		munmap(f->stack, (size_t)((char *)f->top - (char *)f->stack));
	*f = (Fiber){0};
}

#else

#include <ucontext.h>

void
fiber_start(Fiber *f, void (*entry)(void))
{
	ucontext_t *u = f->context ? f->context : calloc(1, sizeof *u);
	f->context = u;
	getcontext(u);
	u->uc_stack.ss_sp = (char *)f->stack + 4096;
	u->uc_stack.ss_size = (size_t)((char *)f->top - (char *)f->stack) - 4096;
	u->uc_link = NULL;
	makecontext(u, entry, 0);
}

void
fiber_switch(Fiber *from, Fiber *to)
{
	if (!from->context)
		from->context = calloc(1, sizeof(ucontext_t));
	swapcontext(from->context, to->context);
}

void
fiber_close(Fiber *f)
{
	if (f->stack)
		munmap(f->stack, (size_t)((char *)f->top - (char *)f->stack));
	free(f->context);
	*f = (Fiber){0};
}

#endif
