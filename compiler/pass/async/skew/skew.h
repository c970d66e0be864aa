/* A loop of chained products that runs them at once: its parts, found by skew.c, and the loop that skew_loop.c makes of
 * them. */
#ifndef TEGULA_SKEW_H
#define TEGULA_SKEW_H

#include "pass/async/pipeline.h"

typedef struct Skew {
	Module *m;
	Arena *tmp;
	Func *f;
	Op *loop;
	Block *body;
	int registers;                                  /* that a thread of the role has */
	VEC(Op *) starts;                               /* the products */
	const Op *last[2];                              /* of each part, in the loop as it was */
	Op *put;                                        /* of a late product's operand, which threads make; or NULL */
	bool *late;                                     /* by Value.id: part 2 makes it, or it is carried for part 2 */
	VEC(const Value *) rings;                       /* of mbarriers by which part 2's slots are handed over */
	VEC(Op *) held;                                 /* products whose left operand stays in registers */
	VEC(Value *) crossing;                          /* what part 2 takes from part 1 */
	VEC(Value *) feeds;                             /* and what only tiles that are made ahead take */
	VEC(Value *) ahead;                             /* tiles of part 2 that the iteration before makes */
} Skew;

bool skew_is_made_late(const Skew *s, const Op *op);    /* it belongs to part 2 */
bool skew_is_free(const Value *v);                      /* it has no operands, and is made where it is used */
int skew_held_words(const Value *v);                    /* 32-bit registers of a thread */
void skew_find_ahead(Skew *s);                          /* skew_loop.c: tiles that an iteration makes for the next one */
void skew_hold(Skew *s, int room);                      /* skew_hold.c: left operands for so many registers at most */
void skew_take_held(Skew *s, Block *before, Value **map);       /* into registers, while the block's first product runs */
void skew_producer(const Skew *s, Block *producers);    /* skew_producer.c: copies in the order in which parts read */
void skew_loop(Skew *s);                                /* the loop as it becomes */
void skew_read_early(Func *f);                          /* early.c: what is read beside products goes before them */

#endif
