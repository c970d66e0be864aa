/* What the files of pass barrier share; private to them.
 *
 *     barrier.c        walks the ops with the effects since the last barrier, and puts one before a hazard
 *     effect.c         what an op does to memory            hazard.c      which two effects need a barrier, of what scope
 *     distance.c       which elements two accesses touch, in one iteration and in different ones
 *     iteration.c      what the end of an iteration makes of the effects
 *     barrier_pairs.c  the accesses that need each barrier, for people
 *     proxy.c          fences of bulk copies */
#ifndef TEGULA_HAZARD_H
#define TEGULA_HAZARD_H

#include "pass/pass.h"

#include "model/model.h"

/* One access of an op to memory that other threads of the block may touch: bytes lo .. hi-1 of shared memory, or a tensor
 * or pointers in device memory (lo and hi are 0). */
typedef struct Effect {
	const Op *op;
	bool global, write, atomic, acquires;
	bool is_carried;                                /* of an earlier iteration of a loop that changes what op touches */
	const Block *loop;                              /* that loop's body */
	int64_t lo, hi;
	const Value *ring, *slot;                       /* a slot of a buffer by a number that is not constant */
	int distance;                                   /* iterations since, of the loop that counts the slot */
	bool is_past;                                   /* an iteration of a loop behind it is over since */
	int64_t slot_bytes;
	uint64_t slots;                                 /* those of lo .. hi-1 that it may be; 0: any */
	bool is_warp_synced;                            /* each warp has had a barrier since */
	const Op *of;                                   /* the alloc or mbarrier whose bytes they are; NULL: scratch */
	const ScratchOwners *owners;                      /* the threads that touch the bytes from lo on; NULL: any */
	int next;                                       /* effect.c's: in a chain of equal hashes, an index and 1 */
} Effect;

typedef struct Effects {
	Effect *at;
	int n, cap;
} Effects;

/* hazard.c */

/* The scope of the barrier that `after` needs behind `before`, in another thread.  The same addresses by the same threads
 * need none, nor do tensors that cannot alias, nor what another iteration touches.  Bytes of shared memory that one warp
 * touches both times need a barrier of that warp alone. */
SyncScope effect_hazard(const Effect *before, const Effect *after);
/* What an arrival at an mbarrier says is over: accesses to slots that other roles access too, and waits for a phase, which
 * two later phases would hide. */
bool effect_is_arrived(const Effect *e, const Op *arrival);
/* Was it to another slot than the one of that number is now, of a ring of as many slots? */
bool effect_has_other_number(const Effect *e, const Value *number);

/* distance.c; iterations_disjoint is in pass.h */

/* In one iteration: starts that are a constant apart, by the extents at least. */
bool starts_disjoint(const Effect *before, const Effect *after);

/* effect.c */

typedef VEC(const Op *) Buffers;

/* Buffers that copies in groups (cp_async) fill. */
Buffers find_filled(const Block *body, Arena *tmp);
/* What op does as it begins, but for its scratch. */
Effects effects_of(const Op *op, const Buffers *filled, Arena *tmp);
/* To its scratch, and from it behind the barrier of the plan. */
Effect scratch_write(const Op *op, const Target *t, const OpPlan *plan, Arena *tmp);
Effect scratch_read(const Op *op, const Target *t, const OpPlan *plan, Arena *tmp);
/* A copy that goes on by itself has written only when it is waited for; its slot must be free when it begins. */
bool effect_is_asynchronous(const Effect *e);

void effects_add(Effects *all, Effect e, Arena *tmp);   /* once */
void effects_join(Effects *all, const Effects *other, Arena *tmp);
Effects effects_copy(const Effects *of, Arena *tmp);
bool effects_equal(const Effects *a, const Effects *b); /* in any order */
void effects_drop_duplicates(Effects *all);

/* proxy.c: a fence before bulk copies into bytes that threads wrote */
void place_proxy_fences(Func *f, const Target *t);
/* The same of bytes that threads read; {sync} is set. */
void place_read_fences(Func *f);

/* iteration.c */

/* The effects of the loop's body become those of the iteration before. */
void advance_iteration(Effects *open, const Block *loop);
/* Is there a slot of two iterations ago or more?  A ring needs as many walks as it has slots. */
bool has_distant_slot(const Effects *open);
/* The slots of a ring that are open when its loop ends. */
void close_rings(Effects *open, const Op *loop);

/* ---- barrier_pairs.c: the accesses that need each barrier, where that is wanted (pairs is not NULL) ---- */

typedef struct PairNotes {
	BarrierPairs *pairs;
	Arena *mem;
	const Op *at;                                   /* the op behind the last barrier; NULL: none, or inside an op */
	Effects closed;                                 /* those before it, which it orders with what follows */
	const Op *shown_at;                             /* the op behind the first barrier after a wait for copies */
	Effects shown;                                  /* what that wait ended */
} PairNotes;

/* Each pair of accesses once. */
void pairs_note(PairNotes *k, const Op *at, const Effect *before, const Effect *after);
/* A barrier before `at` (NULL: inside an op) ends what is open. */
void pairs_close(PairNotes *k, const Op *at, const Effects *open, Arena *tmp);
/* An access behind the last barrier may need it too. */
void pairs_note_later(PairNotes *k, const Effect *after);

#endif
