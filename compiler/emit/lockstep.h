/* The lockstep machine: what lowering says one thread does, kept as a list and run for all threads of a block at once.
 *
 * Every instruction is done by all active threads before the next one starts, so that the code that a GPU gets can be
 * run, and wrong, anywhere.  What only a real machine would show is looked for: accesses that are not aligned, shared
 * memory that one warp writes and another touches with no barrier between, barriers and shuffles that part of the
 * threads don't reach. */
#ifndef TEGULA_LOCKSTEP_H
#define TEGULA_LOCKSTEP_H

#include "emit/emit.h"

typedef enum InsKind {
	INS_CONST, INS_OP, INS_CAST, INS_PACK, INS_UNPACK, INS_LOAD, INS_STORE, INS_ATOMIC, INS_POINTER, INS_PRIM, INS_MMA,
	INS_LOOP, INS_LOOP_END, INS_WHILE, INS_TEST, INS_WHILE_END, INS_IF, INS_ELSE, INS_IF_END, INS_TRAP, INS_PRINT,
} InsKind;

typedef struct Ins {
	InsKind kind;
	int sub;                                        /* EmitOp, EmitCast, PrimKind, AtomicKind */
	int nin, nout, nimm;
	Reg *in, *out;
	int64_t *imm;
	uint64_t value;                                 /* INS_CONST */
	EmitAccess at;
	const MmaInfo *mma;
	const char *text;                               /* INS_PRINT */
	int partner;                                    /* a region's other ends: begin to (else to) end to begin */
	Place place;
} Ins;

typedef struct LockstepRange {
	uintptr_t low, high;
} LockstepRange;

struct Lockstep {
	Arena *mem;
	const Target *target;
	Emitter emitter;
	VEC(Ins) code;
	VEC(RegType) type;                              /* by Reg - 1 */
	VEC(int) open;                                  /* regions being recorded: their first instruction */
	int threads, nparam, shared_bytes;
	Reg *param, shared;
	Place place;
	VEC(LockstepRange) ranges;                      /* of global memory */
};

enum { TOUCH_BYTES = 24 };                              /* see lockstep_memory.c */

/* One block at work. */
typedef struct Machine {
	const Lockstep *s;
	uint64_t *value;                                /* by register, then thread */
	uint8_t *active;                                /* by thread */
	uint8_t **saved;                                /* stack of masks, one for each open region */
	int depth, depth_most;
	char *shared;
	struct Touch *touch;                            /* by byte of shared memory: who came last */
	uint32_t tick;                                  /* grows at each barrier */
	uint32_t block_met, *warp_met;                  /* the tick when the block met last, and each warp */
	struct Copies *copies;                          /* asynchronous ones under way */
	int64_t block, nblocks;
	const Ins *at;
	char *why;                                      /* what went wrong; empty: nothing */
	size_t why_size;
	void (*print)(void *user, const char *line);
	void *print_user;
} Machine;

/* value.c's part: one thread's arithmetic */
uint64_t lockstep_op(EmitOp op, RegType t, uint64_t a, uint64_t b, uint64_t c);
uint64_t lockstep_cast(EmitCast c, RegType from, RegType to, uint64_t a);
double lockstep_real(RegType t, uint64_t bits);
uint64_t lockstep_bits(RegType t, double v);
int lockstep_width(RegType t);                          /* bits */

/* lockstep_warp.c: primitives and matrix instructions, lockstep_memory.c: accesses; false after a failure */
bool lockstep_prim(Machine *m, const Ins *i);
bool lockstep_mma(Machine *m, const Ins *i);
bool lockstep_access(Machine *m, const Ins *i);
/* lockstep_copy.c: cp.async, commit, wait */
struct Copies *lockstep_copies_open(int threads);
void lockstep_copies_close(struct Copies *c);
bool lockstep_copy(Machine *m, const Ins *i);
bool lockstep_fail(Machine *m, const char *fmt, ...) PRINTF(2, 3);
/* Whether global memory may be touched there; else fails. */
bool lockstep_global(Machine *m, int thread, uint64_t at, int bytes);
/* Bytes of shared memory; NULL after a failure. */
char *lockstep_shared(Machine *m, int thread, uint64_t at, int bytes, bool writes);

static inline uint64_t *
lockstep_at(const Machine *m, Reg r)
{
	return m->value + (size_t)r * (size_t)m->s->threads;
}

#endif
