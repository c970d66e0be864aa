/* A thread inherits the signal mask of its creator.  Threads of the library take no signal that ends a process, so that a
 * program's own handlers, and a file that is being written (file.c), are reached on threads of the program. */
#include "base/base.h"

#include <signal.h>

bool
thread_start(pthread_t *thread, void *(*run)(void *), void *of)
{
	sigset_t most, before;
	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGFPE);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGTRAP);
	sigdelset(&most, SIGABRT);
	pthread_sigmask(SIG_BLOCK, &most, &before);
	bool started = pthread_create(thread, NULL, run, of) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}
