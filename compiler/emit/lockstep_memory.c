/* Accesses of the lockstep machine.
 *
 * Each byte of shared memory remembers which thread wrote it last, which read it and which did something atomic, and when
 * (a count of barriers).  A thread that touches what another has written since they last met, or writes what another has
 * read since, depends on who is faster: that is an error even where, as here, the order happens to come out right.
 * Atomic operations may meet each other.  Threads of a block meet at a barrier, those of a warp at its own too; a
 * shuffle orders no memory. */
#include "emit/lockstep.h"

#include <string.h>

typedef enum TouchKind { TOUCH_READ, TOUCH_WRITE, TOUCH_ATOMIC, TOUCHES } TouchKind;

typedef struct Touched {
	uint32_t tick;                                  /* 0: never */
	int16_t thread, warp;                           /* -1: several */
} Touched;

typedef struct Touch {
	Touched by[TOUCHES];
} Touch;
_Static_assert(sizeof(Touch) == TOUCH_BYTES, "as the machine makes room for them");

/* Whether what another thread did may be going on still. */
static bool
is_open(const Machine *m, int thread, const Touched *b)
{
	int warp = thread / m->s->target->lanes;
	if (b->tick == 0)
		return false;
	if (b->warp != warp)
		return b->tick >= m->block_met;
	return b->thread != thread && b->tick >= m->warp_met[warp];
}

static void
note(const Machine *m, int thread, Touched *b)
{
	int warp = thread / m->s->target->lanes;
	bool open = b->tick && b->tick >= m->block_met;
	b->warp = open && b->warp != warp ? -1 : (int16_t)warp;
	b->thread = open && b->thread != thread ? -1 : (int16_t)thread;
	b->tick = m->tick;
}

static bool
touch(Machine *m, Touch *b, int thread, TouchKind how)
{
	static const char *const text[] = {"a read", "a write", "an atomic operation"};
	for (int other = 0; other < TOUCHES; other++) {
		bool may_meet = other == (int)how && how != TOUCH_WRITE;
		if (!may_meet && is_open(m, thread, &b->by[other]))
			return lockstep_fail(m, "%s of thread %d in shared memory with no barrier after %s of another",
			    text[how], thread, text[other]);
	}
	note(m, thread, &b->by[how]);
	return true;
}

static char *
shared_at(Machine *m, int thread, uint64_t at, int bytes, TouchKind how)
{
	if (at + (uint64_t)bytes > (uint64_t)m->s->shared_bytes) {
		lockstep_fail(m, "shared memory at %llu, of %d bytes", (unsigned long long)at, m->s->shared_bytes);
		return NULL;
	}
	for (int i = 0; i < bytes; i++)
		if (!touch(m, &m->touch[at + (uint64_t)i], thread, how))
			return NULL;
	return m->shared + at;
}

char *
lockstep_shared(Machine *m, int thread, uint64_t at, int bytes, bool writes)
{
	return shared_at(m, thread, at, bytes, writes ? TOUCH_WRITE : TOUCH_READ);
}

bool
lockstep_global(Machine *m, int thread, uint64_t at, int bytes)
{
	const Lockstep *s = m->s;
	for (int i = 0; i < s->ranges.n; i++)
		if (at >= s->ranges.at[i].low && at + (uint64_t)bytes <= s->ranges.at[i].high)
			return true;
	return s->ranges.n == 0 || lockstep_fail(m, "thread %d touches memory that is no argument's", thread);
}

static uint64_t
address_of(const Machine *m, const EmitAccess *at, int t)
{
	uint64_t a = lockstep_at(m, at->base)[t] + (uint64_t)at->constant;
	if (at->offset) {
		uint64_t o = lockstep_at(m, at->offset)[t];
		a += m->s->type.at[at->offset - 1] == REG_I32 ? (uint64_t)(int64_t)(int32_t)o : o;
	}
	return at->space == SPACE_SHARED ? (uint32_t)a : a;
}

static uint64_t
combine(AtomicKind k, RegType t, uint64_t old, uint64_t v, uint64_t compare)
{
	static const EmitOp ops[] = {
		[ATOMIC_MIN] = EMIT_SMIN, [ATOMIC_MAX] = EMIT_SMAX, [ATOMIC_UMIN] = EMIT_UMIN, [ATOMIC_UMAX] = EMIT_UMAX,
		[ATOMIC_AND] = EMIT_AND, [ATOMIC_OR] = EMIT_OR, [ATOMIC_XOR] = EMIT_XOR,
	};
	if (k == ATOMIC_EXCHANGE)
		return v;
	if (k == ATOMIC_CAS)
		return old == compare ? v : old;
	bool real = t == REG_F16 || t == REG_BF16 || t == REG_F32 || t == REG_F64;
	return lockstep_op(k == ATOMIC_ADD ? real ? EMIT_FADD : EMIT_ADD : ops[k], t, old, v, 0);
}

static bool
access_one(Machine *m, const Ins *i, int t)
{
	const EmitAccess *at = &i->at;
	int size = (lockstep_width(at->type) + 7) / 8;
	TouchKind how = i->kind == INS_LOAD ? TOUCH_READ : i->kind == INS_STORE ? TOUCH_WRITE : TOUCH_ATOMIC;
	uint64_t address = address_of(m, at, t);
	if (at->align > 1 && address % (uint64_t)at->align)
		return lockstep_fail(m, "thread %d: an address is not a multiple of %d", t, at->align);
	if (at->space != SPACE_SHARED && !lockstep_global(m, t, address, size * at->n))
		return false;
	char *p = at->space == SPACE_SHARED ? shared_at(m, t, address, size * at->n, how)
					    : (char *)(uintptr_t)address;
	if (!p)
		return at->space == SPACE_SHARED ? false : lockstep_fail(m, "thread %d: address 0", t);
	for (int k = 0; k < at->n; k++) {
		if (i->kind == INS_LOAD) {
			uint64_t v = 0;
			memcpy(&v, p + k * size, (size_t)size);
			lockstep_at(m, i->out[k])[t] = v;
		} else if (i->kind == INS_STORE) {
			memcpy(p + k * size, &lockstep_at(m, i->in[k])[t], (size_t)size);
		}
	}
	if (i->kind == INS_ATOMIC) {
		uint64_t old = 0, compare = i->nin > 1 ? lockstep_at(m, i->in[1])[t] : 0;
		memcpy(&old, p, (size_t)size);
		uint64_t v = combine((AtomicKind)i->sub, at->type, old, lockstep_at(m, i->in[0])[t], compare);
		memcpy(p, &v, (size_t)size);
		lockstep_at(m, i->out[0])[t] = old;
	}
	return true;
}

bool
lockstep_access(Machine *m, const Ins *i)
{
	for (int t = 0; t < m->s->threads; t++) {
		if (!m->active[t])
			continue;
		if (i->at.mask && !lockstep_at(m, i->at.mask)[t]) {
			for (int k = 0; k < i->nout; k++)
				lockstep_at(m, i->out[k])[t] = 0;
			continue;
		}
		if (!access_one(m, i, t))
			return false;
	}
	return true;
}
