/* What split_derive.c finds of a loop, and split_derived.c makes of it. */
#ifndef TEGULA_SPLIT_DERIVE_H
#define TEGULA_SPLIT_DERIVE_H

#include "pass/share/split_k.h"

typedef enum Kind { FOLD, PICK, SCALED } Kind;

typedef struct Column {
	Kind kind;
	OpKind fold;
	int key;                                        /* the column that it is picked or scaled by */
	const Value *path;                              /* of a pick its condition, of what is scaled its factor */
} Column;

typedef struct Derive {
	const Op *loop;
	const Block *body;
	bool *varies;                                   /* by Value.id: does it depend on a column? */
	Column *column;
	int key;                                        /* the one in question */
	OpKind base;                                    /* of g: exp or exp2 */
	const Value *by;                                /* what g multiplies by; NULL: 1 */
} Derive;

/* A column before an iteration, and behind it. */
static inline const Value *before(const Derive *d, int i) { return &d->body->arg[1 + i]; }
static inline const Value *after(const Derive *d, int i) { return d->body->last->in[i]; }

/* Does the loop's body say how its states join?  Numbers the function's values. */
bool split_find_columns(Func *f, const Op *loop, Derive *d);
/* What the key becomes the greater or the lesser of, beside itself; NULL: it is more than that. */
const Value *split_offered(const Derive *d, int key);

#endif
