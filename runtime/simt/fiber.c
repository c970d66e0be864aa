/* Going from one stack to another: the registers that a callee must keep are pushed, the stack pointer is changed, and
 * the other's are popped.
 *
 * Stacks are reused as they are.  Their tops are staggered by a few cache lines: threads of a warp run the same code,
 * so that their frames would otherwise all fall into the same sets of the cache. */
#include "runtime/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __APPLE__
#define SYMBOL "_"
#define HIDDEN ".private_extern "
#else
#define SYMBOL ""
#define HIDDEN ".hidden "
#endif

void simt_fiber_go(void **from, void *to);
void simt_fiber_first(void);

#if defined(__x86_64__)
enum { SAVED = 6 };                                     /* words below the address to go on at */
__asm__(".text\n"
	".globl " SYMBOL "simt_fiber_go\n" HIDDEN SYMBOL "simt_fiber_go\n"
	SYMBOL "simt_fiber_go:\n"
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n"
	"	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n"
	"	popq %r12\n	popq %rbx\n	popq %rbp\n"
	"	popq %rcx\n	jmp *%rcx\n"
	".globl " SYMBOL "simt_fiber_first\n" HIDDEN SYMBOL "simt_fiber_first\n"
	SYMBOL "simt_fiber_first:\n"
	"	movq %rbx, %rdi\n	call *%r12\n	ud2\n");
#elif defined(__aarch64__)
enum { SAVED = 20 };
__asm__(".text\n.p2align 2\n"
	".globl " SYMBOL "simt_fiber_go\n" HIDDEN SYMBOL "simt_fiber_go\n"
	SYMBOL "simt_fiber_go:\n"
	"	sub sp, sp, #160\n"
	"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n	str x9, [x0]\n	mov sp, x1\n"
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #160\n	ret\n"
	".globl " SYMBOL "simt_fiber_first\n" HIDDEN SYMBOL "simt_fiber_first\n"
	SYMBOL "simt_fiber_first:\n"
	"	mov x0, x19\n	blr x20\n	brk #0\n");
#else
#error "no fibers for this machine: x86-64 or AArch64"
#endif
#if defined(__linux__)
__asm__(".section .note.GNU-stack,\"\",%progbits\n.text\n");
#endif

bool
stacks_open(Stacks *s, int n)
{
	size_t size = (size_t)n * FIBER_STACK;
	s->page = (size_t)sysconf(_SC_PAGESIZE);
	s->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->base == MAP_FAILED) {
		s->base = NULL;
		return false;
	}
	s->n = n;
	for (int i = 0; i < n; i++)
		if (mprotect(s->base + (size_t)i * FIBER_STACK, s->page, PROT_NONE) != 0) {
			stacks_close(s);
			return false;
		}
	return true;
}

void
stacks_close(Stacks *s)
{
#ifdef FIBER_ASAN
	if (s->base)                                    /* what is mapped there next has no frames */
		ASAN_UNPOISON_MEMORY_REGION(s->base, (size_t)s->n * FIBER_STACK);
#endif
	if (s->base)
		munmap(s->base, (size_t)s->n * FIBER_STACK);
	*s = (Stacks){0};
}

int
stacks_guard(const Stacks *s, uintptr_t address)
{
	uintptr_t at = address - (uintptr_t)s->base;
	if (!s->base || address < (uintptr_t)s->base || at >= (uintptr_t)s->n * FIBER_STACK)
		return -1;
	return at % FIBER_STACK < s->page ? (int)(at / FIBER_STACK) : -1;
}

void
fiber_switch(Stacks *s, void **from, void *to, int stack, bool ends)
{
#ifdef FIBER_ASAN
	void *fake = NULL;
	char *bottom = stack < 0 ? NULL : s->base + (size_t)stack * FIBER_STACK + s->page;
	const void *old = bottom;
	size_t size = FIBER_STACK - s->page;
	if (stack < 0) {
		old = s->own;
		size = s->own_size;
	}
	__sanitizer_start_switch_fiber(ends ? NULL : &fake, old, size);
	simt_fiber_go(from, to);
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#else
	simt_fiber_go(from, to);
#endif
}

void
fiber_arrived(Stacks *s)
{
#ifdef FIBER_ASAN
	const void *bottom;
	size_t size;
	__sanitizer_finish_switch_fiber(NULL, &bottom, &size);
	if ((const char *)bottom < s->base || (const char *)bottom >= s->base + (size_t)s->n * FIBER_STACK) {
		s->own = bottom;
		s->own_size = size;
	}
#endif
}

void *
fiber_start(Stacks *s, int i, void (*main)(void *arg), void *arg)
{
	char *top = s->base + (size_t)(i + 1) * FIBER_STACK - (size_t)(i % 16) * 256;
#ifdef FIBER_ASAN
	ASAN_UNPOISON_MEMORY_REGION(top - FIBER_STACK / 2, FIBER_STACK / 2);
#endif
#if defined(__x86_64__)
	void **sp = (void **)top - SAVED - 1;
	void *first[SAVED + 1] = {NULL, NULL, NULL, (void *)(uintptr_t)main, arg, NULL,
	    (void *)(uintptr_t)simt_fiber_first};
	for (int k = 0; k < SAVED + 1; k++)
		sp[k] = first[k];
#else
	void **sp = (void **)top - SAVED;
	for (int k = 0; k < SAVED; k++)
		sp[k] = NULL;
	sp[0] = arg;
	sp[1] = (void *)(uintptr_t)main;
	sp[11] = (void *)(uintptr_t)simt_fiber_first;
#endif
	return sp;
}
