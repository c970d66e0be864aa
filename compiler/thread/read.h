/* What the files of the thread IR's reader share: parse.c regions and heads, parse_node.c nodes. */
#ifndef TEGULA_THREAD_READ_H
#define TEGULA_THREAD_READ_H

#include "ir/parse.h"
#include "thread/builder.h"
#include "thread/words.h"

/* A register that is being defined. */
typedef struct ThreadName {
	int number;
	RegType type;
	Place place;                                    /* in the text */
} ThreadName;

typedef VEC(ThreadName) ThreadNames;
typedef VEC(Reg) ThreadRegs;

typedef struct ThreadReader {
	Reader r;                                       /* tokens and files */
	Arena *mem;
	ThreadBuilder *b;
	VEC(Reg) reg;                                   /* by number in the text */
	VEC(Place) node;                                /* in the text, by node */
	Place start;                                    /* of the node at hand */
	int depth;
} ThreadReader;

bool thread_read_fail(ThreadReader *r, const char *what);      /* false */
bool thread_read_word(ThreadReader *r, const char *const *words, int n, int *out, const char *what);
bool thread_read_number(ThreadReader *r, int *number);         /* r5: looks, and takes nothing */
bool thread_read_use(ThreadReader *r, RegType expected, Reg *out);
bool thread_read_uses(ThreadReader *r, RegType expected, ThreadRegs *out);
bool thread_read_list(ThreadReader *r, RegType expected, ThreadRegs *out);
bool thread_read_bind(ThreadReader *r, const ThreadNames *names, const Reg *v, int n);
bool thread_read_plain(ThreadReader *r, const ThreadNames *names);     /* parse_node.c: a node without regions */
const RegType *thread_read_types(ThreadReader *r, const ThreadNames *names);

#endif
