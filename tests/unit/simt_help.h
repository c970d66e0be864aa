/* For tests of the emulator's primitives: a launch whose kernel is a C function, and calls by the row of prims.def. */
#ifndef TEGULA_TEST_SIMT_HELP_H
#define TEGULA_TEST_SIMT_HELP_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/simt/simt.h"

typedef void Body(SimtThread *t, void *user);

typedef struct Job {
	Body *body;
	void *user;
	SimtReport report;
} Job;

typedef void Primitive(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out);

static Primitive *const primitives[PRIM_COUNT] = {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt) simt,
#include "thread/prims.def"
#undef PRIM
};

/* Rows that some kernel has called. */
typedef struct Called {
	bool row[PRIM_COUNT];
} Called;

static Called called;

#define NOTHING ((const uint64_t[]){0})
#define IN(...) ((const uint64_t[]){__VA_ARGS__})

static inline uint64_t
call_imm(SimtThread *t, PrimKind k, const uint64_t *in, int64_t imm0, int64_t imm1)
{
	int64_t imm[] = {imm0, imm1};
	uint64_t out[4] = {0};
	called.row[k] = true;
	primitives[k](t, in, imm, out);
	return out[0];
}

static inline uint64_t
call(SimtThread *t, PrimKind k, const uint64_t *in)
{
	return call_imm(t, k, in, 0, 0);
}

static void
kernel(SimtThread *t, const uint64_t *param)
{
	const Job *j = (const Job *)(uintptr_t)param[0];
	j->body(t, j->user);
}

/* A launch on one OS thread; `like` gives threads, nblocks, cluster and seed. */
static bool
launch(Job *j, SimtLaunch like)
{
	uint64_t param[] = {(uintptr_t)j};
	SimtMachine *m = simt_open();
	like.kernel = kernel;
	like.param = param;
	like.target = target_named("sm_90a");
	like.threads = like.threads ? like.threads : 32;
	like.nblocks = like.nblocks ? like.nblocks : 1;
	like.shared_bytes = like.shared_bytes ? like.shared_bytes : 1 << 16;
	like.workers = 1;
	bool ok = simt_run(m, &like, &j->report);
	simt_close(m);
	return ok;
}

static inline void
runs(Body *body, void *user, SimtLaunch like)
{
	Job j = {body, user, {0}};
	if (!launch(&j, like))
		fail_msg("thread %d: %s", j.report.thread, j.report.text);
}

/* The launch fails with words of its report. */
static inline void
fails(Body *body, void *user, SimtLaunch like, const char *words)
{
	Job j = {body, user, {0}};
	if (launch(&j, like))
		fail_msg("no report of '%s'", words);
	if (!strstr(j.report.text, words))
		fail_msg("'%s' does not say '%s'", j.report.text, words);
}

static inline uint64_t
random_word(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545F4914F6CDD1Du;
}

static inline uint64_t
bits_of(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static inline float
float_of(uint64_t word)
{
	uint32_t bits = (uint32_t)word;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* The value of a float of e bits of exponent, m bits of fraction, by its definition; `is_finite`: no infinities. */
static inline double
small_float(uint32_t v, int e, int m, bool is_finite)
{
	uint32_t fraction = v & ((1u << m) - 1), exponent = v >> m & ((1u << e) - 1);
	int bias = (1 << (e - 1)) - 1;
	double sign = v >> (e + m) & 1 ? -1 : 1;
	if (exponent == (1u << e) - 1 && (!is_finite || fraction == (1u << m) - 1))
		return fraction ? (double)NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp(fraction, 1 - bias - m);
	return sign * ldexp(fraction + (1u << m), (int)exponent - bias - m);
}

static inline double
value_of(DType t, uint32_t v)
{
	switch (t) {
	case TY_F16: return small_float(v, 5, 10, false);
	case TY_BF16: return small_float(v, 8, 7, false);
	case TY_F8E4M3: return small_float(v, 4, 3, true);
	case TY_F8E5M2: return small_float(v, 5, 2, false);
	case TY_F32: return float_of(v & 0xffffe000);   /* as tf32 */
	case TY_I8: return (int8_t)v;
	case TY_U8: return (uint8_t)v;
	default: fail_msg("no such type"); return 0;
	}
}

/* Every row from one to another that PTX has was called by this program's tests. */
static inline void
all_called(PrimKind first, PrimKind last)
{
	for (PrimKind k = first; k <= last; k++)
		if (!called.row[k] && prim_info[k].ptx)
			fail_msg("nothing calls %s", prim_info[k].text);
}

#endif
