/* Fibers: stacks of one OS thread between which it goes to and fro. */
#ifndef TEGULA_SIMT_FIBER_H
#define TEGULA_SIMT_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK = 512 << 10 };                       /* bytes, a guard page among them */

/* Stacks side by side, each with a page at its low end that nothing may touch. */
typedef struct Stacks {
	char *base;
	int n;
	size_t page;
	const void *own;                                /* the OS thread's stack, where a sanitizer asks */
	size_t own_size;
} Stacks;

bool stacks_open(Stacks *s, int n);                     /* false: no memory */
void stacks_close(Stacks *s);
int stacks_guard(const Stacks *s, uintptr_t address);   /* the stack whose guard page is there; -1: none */

/* Leaves what runs at *from and goes on at `to`; `stack` is the number that `to` stands on, -1 the thread's own, and
 * `ends` says that *from is never come back to. */
void fiber_switch(Stacks *s, void **from, void *to, int stack, bool ends);
/* To be done first on the other side of a switch. */
void fiber_arrived(Stacks *s);
/* Where to go on for main(arg) on stack i; main never returns. */
void *fiber_start(Stacks *s, int i, void (*main)(void *arg), void *arg);

#endif
