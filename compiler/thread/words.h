/* Words of the thread IR's text, for its printer and its reader. */
#ifndef TEGULA_THREAD_WORDS_H
#define TEGULA_THREAD_WORDS_H

#include "thread/thread.h"

enum { THREAD_CASTS = CAST_BITS + 1, THREAD_CACHES = CACHE_VOLATILE + 1, THREAD_SPACES = SPACE_SHARED + 1,
	THREAD_ATOMICS = ATOMIC_CAS + 1, THREAD_ORDERS = ORDER_ACQ_REL + 1, THREAD_SCOPES = SCOPE_SYS + 1 };

extern const char *const thread_cast_text[THREAD_CASTS], *const thread_cache_text[THREAD_CACHES],
    *const thread_space_text[THREAD_SPACES], *const thread_atomic_text[THREAD_ATOMICS],
    *const thread_order_text[THREAD_ORDERS], *const thread_scope_text[THREAD_SCOPES],
    *const thread_kind_text[NODE_KINDS];

/* The type that an operand has by its node's kind and results; REG_TYPES: any, so that a constant says its own. */
RegType thread_operand_type(const ThreadModule *m, const ThreadNode *n, int i);

#endif
