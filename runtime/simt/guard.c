/* What a thread may not touch at all: the page below its stack, and memory that is not there.
 *
 * Both arrive as signals.  The handler runs on a stack of its own, notes the address and goes straight back to the
 * worker's stack, so that the launch ends with a report instead of the process.  It is installed only while a launch
 * runs; a fault of other code goes to the handler that was there before.  The number of workers, what was installed before
 * and the scheduler of this OS thread are the only state here (tests/house lists them by name). */
#include "runtime/simt/scheduler.h"

#include <signal.h>
#include <stdlib.h>

static pthread_mutex_t simt_guard_lock = PTHREAD_MUTEX_INITIALIZER;
static int simt_guard_users;
static struct sigaction simt_guard_before[2];
static _Thread_local BlockScheduler *simt_guard_scheduler;

static const int signals[2] = {SIGSEGV, SIGBUS};

enum { SIGNAL_STACK = 64 << 10 };

static void
on_fault(int signal, siginfo_t *info, void *context)
{
	BlockScheduler *w = simt_guard_scheduler;
	if (!w || !w->running) {
		sigaction(signal, &simt_guard_before[signal == signals[1]], NULL); /* it happens again, to them */
		return;
	}
	w->fault = (uintptr_t)info->si_addr;
	int whose = stacks_guard(&w->stacks, w->fault);
	SimtThread *t = &w->running->t;
	if (whose >= 0)
		simt_fail(t, "thread %d needs more stack than %d KiB: take more warps, or smaller tiles",
		    t->thread, FIBER_STACK >> 10);
	simt_fail(t, "thread %d touches memory that is not there, at 0x%llx", t->thread, (unsigned long long)w->fault);
}

static void
install(void)
{
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	sigemptyset(&a.sa_mask);
	pthread_mutex_lock(&simt_guard_lock);
	if (simt_guard_users++ == 0)
		for (int i = 0; i < 2; i++)
			sigaction(signals[i], &a, &simt_guard_before[i]);
	pthread_mutex_unlock(&simt_guard_lock);
}

static void
uninstall(void)
{
	pthread_mutex_lock(&simt_guard_lock);
	if (--simt_guard_users == 0)
		for (int i = 0; i < 2; i++)
			sigaction(signals[i], &simt_guard_before[i], NULL);
	pthread_mutex_unlock(&simt_guard_lock);
}

bool
guard_enter(BlockScheduler *w)
{
	if (!w->signal_stack && !(w->signal_stack = malloc(SIGNAL_STACK)))
		return false;
	stack_t s = {.ss_sp = w->signal_stack, .ss_size = SIGNAL_STACK};
	sigaltstack(&s, &w->signal_before);
	simt_guard_scheduler = w;
	install();
	return true;
}

void
guard_leave(BlockScheduler *w)
{
	uninstall();
	simt_guard_scheduler = NULL;
	sigaltstack(&w->signal_before, NULL);
}
