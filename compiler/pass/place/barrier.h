/* What the files of pass barrier share; private to them. */
#ifndef TEGULA_BARRIER_H
#define TEGULA_BARRIER_H

#include "pass/pass.h"

#include "model/model.h"

/* One thing that an op does to memory that other threads of the block may touch: bytes lo .. hi-1 of shared memory, or a
 * tensor or pointers in device memory (lo and hi are 0). */
typedef struct Use {
	const Op *op;
	bool global, write, atomic, acquires;
	bool is_old;                                    /* of an earlier trip of a loop that moves what op touches */
	const Block *loop;                              /* that loop's body */
	int64_t lo, hi;
	const Value *ring, *slot;                       /* a slot of a buffer by a number that is not constant */
	int age;                                        /* trips ago, of a loop that turns the ring */
	int64_t slot_bytes;
	uint64_t slots;                                 /* those of lo .. hi-1 that it may be; 0: any */
	bool met;                                       /* each warp has met since */
	const ScratchOwners *owners;                      /* who touches what from lo on; NULL: anybody */
} Use;

/* access.c */

/* May a later op touch, from another thread, what the earlier one touched?  Same places by the same threads are no
 * matter, nor are tensors that the launch keeps apart, nor what a loop has left behind.  Bytes of shared memory that the
 * same warp touches both times ask for a meeting of that warp alone. */
SyncScope uses_conflict(const Use *before, const Use *after);
bool defined_in(const Value *v, const Block *b);
/* Does the number go up by one each trip of its loop, back to 0 at n? */
bool number_turns(const Value *v, int64_t n);

#endif
