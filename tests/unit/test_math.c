/* How far the mathematical functions that lowering makes are from the truth.
 *
 * A machine that computes many values side by side runs the very nodes that a GPU would.  Results are compared
 * with libm's in the next wider type.  The machine's approximations are taken as rounded correctly and then, in a second
 * run, moved by as much as they are known to err (PTX ISA 9.0, section 9.7.3; CUDA C++ Programming Guide, section 17.2):
 * both must stay within the column of ops.def, which docs/math.md lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "lower/math/math.h"

enum { WIDTH = 2048, MAX_REGS = 2048 };

__extension__ typedef unsigned __int128 U128;

typedef struct Machine {
	const ThreadModule *module;
	uint64_t *at[MAX_REGS];                         /* by register: WIDTH values each, as bits */
	bool is_made[MAX_REGS];                         /* a constant's values, of this module */
	double sway;                                    /* approximations move by this many halves of a unit */
} Machine;

static RegType
type_of(const Machine *m, Reg r)
{
	return thread_type(m->module, r);
}

static uint64_t *
room(Machine *m, Reg r)
{
	assert_true(r < MAX_REGS);
	if (!m->at[r])
		m->at[r] = malloc(WIDTH * sizeof(uint64_t));
	return m->at[r];
}

static double
real(RegType t, uint64_t b)
{
	if (t == REG_F64) {
		double d;
		memcpy(&d, &b, sizeof d);
		return d;
	}
	float f;
	uint32_t w = (uint32_t)b;
	memcpy(&f, &w, sizeof f);
	return (double)f;
}

static uint64_t
bits(RegType t, double d)
{
	uint64_t b;
	if (t == REG_F64) {
		memcpy(&b, &d, sizeof b);
		return b;
	}
	float f = (float)d;
	uint32_t w;
	memcpy(&w, &f, sizeof w);
	return w;
}

static int
width(RegType t)
{
	return t == REG_I64 || t == REG_F64 ? 64 : t == REG_PRED ? 1 : 32;
}

static uint64_t
cut(RegType t, uint64_t v)
{
	return width(t) == 64 ? v : v & ((UINT64_C(1) << width(t)) - 1);
}

static int64_t
extend(RegType t, uint64_t v)
{
	return width(t) == 64 ? (int64_t)v : (int64_t)(int32_t)v;
}

/* A register's values; a constant's are made here, once for a module. */
static const uint64_t *
values(Machine *m, Reg r)
{
	const ThreadNode *n = thread_def(m->module, r);
	if (n->kind != NODE_CONST || m->is_made[r])
		return m->at[r];
	m->is_made[r] = true;
	uint64_t v = thread_is_float(n->type) ? bits(n->type, n->f) : cut(n->type, (uint64_t)n->i);
	for (int i = 0; i < WIDTH; i++)
		room(m, r)[i] = v;
	return m->at[r];
}

/* What an approximation gives: denormals are 0 on both sides, the error is within `units` of 2^-24 of the result. */
static double
approximate(const Machine *m, double y, double units, uint64_t noise)
{
	double by = m->sway * units * 0x1p-24;
	if (noise * UINT64_C(0x9e3779b97f4a7c15) >> 63)
		by = -by;
	float f = (float)(y * (1 + by));
	return fabsf(f) < 0x1p-126f ? copysign(0, y) : (double)f;
}

static double
flushed(double x)
{
	return fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

static double
float_op(const Machine *m, ThreadOp op, RegType t, double a, double b, double c, uint64_t noise)
{
	bool wide = t == REG_F64;
	switch (op) {
	case THREAD_FNEG: return -a;
	case THREAD_FABS: return fabs(a);
	case THREAD_FADD: return a + b;
	case THREAD_FSUB: return a - b;
	case THREAD_FMUL: return a * b;
	case THREAD_FDIV: return a / b;
	case THREAD_FMA: return wide ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
	case THREAD_FMA_SAT: return fmin(fmax((double)fmaf((float)a, (float)b, (float)c), 0), 1);
	case THREAD_FMIN: return fmin(a, b);
	case THREAD_FMAX: return fmax(a, b);
	case THREAD_FSQRT: return sqrt(a);
	case THREAD_FTRUNC: return trunc(a);
	case THREAD_FRCP_FAST: return approximate(m, 1 / flushed(a), 1, noise);
	case THREAD_FRSQRT_FAST: return approximate(m, 1 / sqrt(flushed(a)), 1.5, noise);
	case THREAD_EXP2_FAST: return approximate(m, exp2(flushed(a)), 1, noise);
	default: fail_msg("op %s is not modelled", thread_op_text[op]); return 0;
	}
}

static uint64_t
int_op(ThreadOp op, RegType t, uint64_t a, uint64_t b)
{
	int64_t x = extend(t, a), y = extend(t, b);
	switch (op) {
	case THREAD_ADD: return a + b;
	case THREAD_SUB: return a - b;
	case THREAD_MUL: return a * b;
	case THREAD_AND: return a & b;
	case THREAD_OR: return a | b;
	case THREAD_XOR: return a ^ b;
	case THREAD_NOT: return ~a;
	case THREAD_SHL: assert_true(b < 64); return a << b;
	case THREAD_LSHR: return a >> b;
	case THREAD_ASHR: return (uint64_t)(x >> b);
	case THREAD_UREM: return a % b;
	case THREAD_UMAX: return MAX(a, b);
	case THREAD_SMAX: return (uint64_t)MAX(x, y);
	case THREAD_SMIN: return (uint64_t)MIN(x, y);
	case THREAD_MULHI_U: return (uint64_t)((U128)a * b >> width(t));
	case THREAD_EQ: return a == b;
	case THREAD_NE: return a != b;
	case THREAD_SLT: return x < y;
	case THREAD_ULT: return a < b;
	default: fail_msg("op %s is not modelled", thread_op_text[op]); return 0;
	}
}

static uint64_t
compare_floats(ThreadOp op, double a, double b)
{
	switch (op) {
	case THREAD_FEQ: return a == b;
	case THREAD_FNE: return a != b;
	case THREAD_FLT: return a < b;
	case THREAD_FLE: return a <= b;
	default: return a != a || b != b;
	}
}

static void
do_op(Machine *m, const ThreadNode *n)
{
	ThreadOp op = (ThreadOp)n->op;
	Reg a = n->in[0], b = n->nin > 1 ? n->in[1] : 0, c = n->nin > 2 ? n->in[2] : 0;
	RegType t = type_of(m, op == THREAD_SELECT ? b : a);
	bool is_float = t == REG_F32 || t == REG_F64;
	const uint64_t *x = values(m, a), *y = b ? values(m, b) : x, *z = c ? values(m, c) : x;
	uint64_t *to = room(m, n->out[0]);
	if (b && op != THREAD_SELECT)
		assert_int_equal(type_of(m, a), type_of(m, b));
	for (int i = 0; i < WIDTH; i++) {
		uint64_t out;
		if (op == THREAD_SELECT)
			out = x[i] ? y[i] : z[i];
		else if (op >= THREAD_FEQ && op <= THREAD_FUNO)
			out = compare_floats(op, real(t, x[i]), real(t, y[i]));
		else if (is_float)
			out = bits(t, float_op(m, op, t, real(t, x[i]), b ? real(t, y[i]) : 0, c ? real(t, z[i]) : 0,
			    x[i]));
		else
			out = cut(n->type, int_op(op, t, x[i], b ? y[i] : 0));
		to[i] = out;
	}
}

static void
do_cast(Machine *m, const ThreadNode *n)
{
	RegType t = type_of(m, n->in[0]), to = n->type;
	const uint64_t *from = values(m, n->in[0]);
	uint64_t *out = room(m, n->out[0]);
	for (int i = 0; i < WIDTH; i++) {
		uint64_t x = from[i];
		if (n->op == CAST_S2F)
			x = to == REG_F64 ? bits(to, (double)extend(t, x)) : bits(to, (double)(float)extend(t, x));
		else if (n->op == CAST_U2F)
			x = to == REG_F64 ? bits(to, (double)x) : bits(to, (double)(float)x);
		else if (n->op == CAST_F2S)
			x = (uint64_t)(fabs(real(t, x)) < 0x1p63 ? (int64_t)real(t, x) : INT64_MAX);
		else if (n->op == CAST_SEXT)
			x = (uint64_t)extend(t, x);
		out[i] = cut(to, x);
	}
}

static void do_region(Machine *m, const ThreadRegion *r);

/* Both branches, and of their results each value's own. */
static void
do_if(Machine *m, const ThreadNode *n)
{
	do_region(m, n->region[0]);
	do_region(m, n->region[1]);
	const uint64_t *p = values(m, n->in[0]);
	for (int k = 0; k < n->nout; k++) {
		const uint64_t *x = values(m, n->region[0]->yield[k]), *y = values(m, n->region[1]->yield[k]);
		uint64_t *out = room(m, n->out[k]);
		for (int i = 0; i < WIDTH; i++)
			out[i] = p[i] ? x[i] : y[i];
	}
}

static void
do_region(Machine *m, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		switch (n->kind) {
		case NODE_OP: do_op(m, n); break;
		case NODE_CAST: do_cast(m, n); break;
		case NODE_IF: do_if(m, n); break;
		default: assert_true(n->kind == NODE_PRIM && n->op == PRIM_HOLD); /* what loads do not pass */
		}
	}
}

static void
machine_close(Machine *m)
{
	for (int i = 0; i < MAX_REGS; i++)
		free(m->at[i]);
	free(m);
}

/* ---- the truth ---- */

static long double
truth(OpKind op, long double a, long double b)
{
	switch (op) {
	case OP_EXP: return expl(a);
	case OP_EXP2: return exp2l(a);
	case OP_EXPM1: return expm1l(a);
	case OP_LOG: return logl(a);
	case OP_LOG2: return log2l(a);
	case OP_LOG1P: return log1pl(a);
	case OP_SQRT: return sqrtl(a);
	case OP_RSQRT: return 1 / sqrtl(a);
	case OP_SIN: return sinl(a);
	case OP_COS: return cosl(a);
	case OP_TAN: return tanl(a);
	case OP_SINH: return sinhl(a);
	case OP_COSH: return coshl(a);
	case OP_TANH: return tanhl(a);
	case OP_ASIN: return asinl(a);
	case OP_ACOS: return acosl(a);
	case OP_ATAN: return atanl(a);
	case OP_ERF: return erfl(a);
	case OP_SIGMOID: return a < 0 ? expl(a) / (1 + expl(a)) : 1 / (1 + expl(-a));
	case OP_POW: return powl(a, b);
	case OP_ATAN2: return atan2l(a, b);
	default: fail_msg("no truth of %s", op_info[op].text);
	}
	return 0;
}

/* Units in the last place of `want` between it and `got`; a great number where one is not finite and the other is, or
 * where a zero has the wrong sign. */
static double
units(bool wide, double got, long double want)
{
	const double wrong = 1e9;
	long double most = wide ? 0x1.fffffffffffff8p1023L : 0x1.ffffffp127L, least = wide ? 0x1p-1074L : 0x1p-149L;
	if (want != want || got != got)
		return want != want && got != got ? 0 : wrong;
	if (fabsl(want) >= most) {
		long double top = wide ? 0x1.fffffffffffffp1023L : 0x1.fffffep127L;
		return got == copysign(INFINITY, (double)want) ? 0 : fabsl(got) == top && (got > 0) == (want > 0) ? 1 : wrong;
	}
	if (fabs(got) == INFINITY)
		return fabsl(want) > most * (1 - (wide ? 0x1p-50L : 0x1p-21L)) && (got > 0) == (want > 0) ? 1 : wrong;
	if (want == 0)
		return got == 0 && !signbit(got) == !signbit(want) ? 0 : wrong;
	if (fabsl(want) > least && got != 0 && (got > 0) != (want > 0))
		return wrong;
	int e;
	frexpl(want, &e);
	long double unit = fmaxl(ldexpl(1, e - (wide ? 53 : 24)), least);
	return (double)(fabsl(got - want) / unit);
}

/* ---- the table: ULP of ops.def, and sqrt, which is rounded to nearest ---- */

static uint64_t
random_bits(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s * UINT64_C(0x2545f4914f6cdd1d);
}

typedef struct Batch {
	bool wide;
	uint64_t next, step, seed;                      /* f32: every step'th pattern of bits */
} Batch;

/* Values all over the range: patterns of bits in even steps, and for f64 also of moderate size. */
static double
sample(Batch *b, int i)
{
	static const double edge[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, -0.5, 2, 88.72, 88.73, -87.3, -103.9,
		-104.1, 709.78, 709.79, -745.2, 128, -126, -149, -150, 1024, -1074, 0x1p-149, 0x1p-1074, 4, 6, 0.55, 1e5, 1e6, 1e30};
	if (b->next == 0 && i < LEN(edge))
		return edge[i];
	if (!b->wide) {
		b->next += b->step;
		return real(REG_F32, b->next & UINT32_MAX);
	}
	b->next++;
	uint64_t r = random_bits(&b->seed);
	if (r & 1)
		return real(REG_F64, random_bits(&b->seed));
	return ldexp((double)(int64_t)random_bits(&b->seed), -63 + (int)(r >> 8 & 15) - 4);
}

/* The function of one or two parameters as a module; its result. */
static Reg
record(Machine *mc, Arena *mem, OpKind op, bool wide, Reg in[2])
{
	Lower l = {.t = target_named("sm_80"), .mem = mem};
	Math m = {&l, wide ? REG_F64 : REG_F32, wide ? REG_I64 : REG_I32, wide};
	const ThreadParam param[2] = {{.name = "x", .type = m.t}, {.name = "y", .type = m.t}};
	const ThreadKernel k = {.name = op_info[op].text, .param = param, .nparam = op_info[op].nin};
	Reg shared, r;
	l.b = thread_open(mem, l.t, true);
	in[1] = 0;
	thread_kernel(l.b, &k, in, &shared);
	r = math_one(m, op, false, in[0], in[1]);
	mc->module = thread_module(l.b);
	return r;
}

static double
measure(Machine *mc, OpKind op, bool wide, double sway, double *worst_at)
{
	RegType t = wide ? REG_F64 : REG_F32;
	bool two = op_info[op].nin == 2;
	Arena *mem = arena_open();
	Reg in[2], r = record(mc, mem, op, wide, in);
	Batch s = {wide, 0, 16411, 88172645463325252u};
	int batches = wide ? 40 : 128;
	double worst = 0;
	mc->sway = sway;
	memset(mc->is_made, 0, sizeof mc->is_made);
	for (int k = 0; k < batches; k++) {
		uint64_t *a = room(mc, in[0]), *b = two ? room(mc, in[1]) : NULL;
		for (int i = 0; i < WIDTH; i++) {
			a[i] = bits(t, sample(&s, i));
			if (!two)
				continue;
			/* powers that stay in range about half of the time */
			double x = real(t, a[i]), y = sample(&s, i * 7 % WIDTH);
			uint64_t pick = random_bits(&s.seed);
			if (op == OP_POW && (pick & 3) && x > 0 && x < INFINITY && x != 1)
				y = (wide ? 1000 : 120) * ((double)(pick >> 11) * 0x1p-52 - 1) / log2(x);
			if ((pick & 28) == 0)
				y = (double)(int64_t)(pick >> 58);
			b[i] = bits(t, y);
		}
		do_region(mc, mc->module->body);
		for (int i = 0; i < WIDTH; i++) {
			double x = real(t, a[i]), y = two ? real(t, b[i]) : 0;
			double u = units(wide, real(t, values(mc, r)[i]), truth(op, x, y));
			if (u > worst) {
				worst = u;
				worst_at[0] = x;
				worst_at[1] = y;
			}
		}
	}
	arena_close(mem);
	return worst;
}

static void
errors_stay_within_the_table(void **state)
{
	(void)state;
	Machine *mc = calloc(1, sizeof *mc);
	int bad = 0;
	for (OpKind op = 0; op < OP_COUNT; op++)
		for (int wide = 0; wide < (op_info[op].rounding == ROUNDING_ULP || op == OP_SQRT ? 2 : 0); wide++)
			for (int sway = 0; sway < 2 - wide; sway++) {
				double at[2] = {0}, u = measure(mc, op, wide, sway, at);
				double most = op == OP_SQRT ? 0.5 : op_info[op].ulp[wide];
				if (u > most || getenv("MATH_TABLE"))
					print_message("%-8s %s%s: %.3f units at %a %a (most %g)\n", op_info[op].text,
					    wide ? "f64" : "f32", sway ? ", swayed" : "", u, at[0], at[1], most);
				bad += u > most;
			}
	machine_close(mc);
	assert_int_equal(bad, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_stay_within_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
