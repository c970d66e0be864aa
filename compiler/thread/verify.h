/* What the files of the verifier share. */
#ifndef TEGULA_THREAD_VERIFY_H
#define TEGULA_THREAD_VERIFY_H

#include "thread/words.h"

enum { THREAD_MOST = 1024 };                            /* threads of a block that are distinguished */

/* Threads of the block that may come here: those that no branch around is known to send elsewhere. */
typedef struct ThreadActive {
	uint64_t set[THREAD_MOST / 64];
} ThreadActive;

typedef struct ThreadVerify {
	const ThreadModule *m;
	Arena *mem;
	bool *visible;                                  /* by register */
	ThreadActive active;
	const char *why;                                /* what is wrong first, and where */
	const ThreadNode *at;
} ThreadVerify;

bool thread_verify_fail(ThreadVerify *v, const ThreadNode *n, const char *why);

/* converge.c */
void thread_verify_all(ThreadVerify *v);                /* all threads come */
void thread_verify_branch(ThreadVerify *v, Reg pred, bool is_then);    /* those come that go there */
bool thread_verify_converges(ThreadVerify *v, const ThreadNode *n);

#endif
