/* Metal text from recorded nodes alone: what is folded, merged, named and written, piece by piece. */
#include "emit/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct Build {
	Compile *cx;
	ThreadBuilder *t;
	Text out;
	Reg x, y, n, scale, shared, thread;
} Build;

/* kernel k(x: floats that are read, y: floats, n: an extent, scale: an i32), 64 threads. */
static void
begin(Build *b, int shared_bytes)
{
	static const ThreadParam param[] = {
		{.name = "x", .type = REG_GLOBAL, .is_read_only = true, .align = 16, .elem = TY_F32},
		{.name = "y", .type = REG_GLOBAL, .align = 16, .elem = TY_F32},
		{.name = "n", .type = REG_I64, .elem = TY_I64, .most = INT64_C(1) << 40},
		{.name = "scale", .type = REG_I32, .elem = TY_I32},
	};
	const ThreadKernel k = {.name = "k", .param = param, .nparam = LEN(param), .threads = 64,
	    .shared_bytes = shared_bytes};
	Reg at[LEN(param)];
	*b = (Build){.cx = compile_open()};
	b->t = thread_open(b->cx->mem, target_named("apple8"), true);
	thread_kernel(b->t, &k, at, &b->shared);
	b->x = at[0];
	b->y = at[1];
	b->n = at[2];
	b->scale = at[3];
	thread_prim(b->t, PRIM_THREAD, NULL, 0, NULL, 0, &b->thread, 1);
}

static void
end(Build *b, const char *const *want, int n)
{
	EmitMsl made;
	emit_msl(thread_module(b->t), b->cx, &b->out, &made);
	for (int i = 0; i < n; i++)
		if (!strstr(b->out.at, want[i]))
			fail_msg("no \"%s\" in\n%s", want[i], b->out.at);
	text_close(&b->out);
	compile_close(b->cx);
}

static Reg
op(Build *b, ThreadOp o, Reg x, Reg y)
{
	return thread_op(b->t, o, x, y, 0);
}

static Reg
i32(Build *b, int64_t v)
{
	return thread_int_const(b->t, REG_I32, v);
}

static ThreadAccess
access(Build *b, Reg base, Reg offset, int n)
{
	(void)b;
	return (ThreadAccess){.space = SPACE_GLOBAL, .type = REG_F32, .n = n, .base = base, .offset = offset,
	    .align = 4 * n};
}

/* Four elements of x at four times the thread's number. */
static void
load4(Build *b, Reg *v)
{
	ThreadAccess at = access(b, b->x, op(b, THREAD_MUL, b->thread, i32(b, 16)), 4);
	at.cache = CACHE_READ_ONLY;
	thread_load(b->t, &at, v);
}

static void
store4(Build *b, const Reg *v)
{
	ThreadAccess at = access(b, b->y, op(b, THREAD_MUL, b->thread, i32(b, 16)), 4);
	thread_store(b->t, &at, v);
}

/* Four scalar operations are one on vectors; offsets in bytes are offsets in elements. */
static const RegType f32 = REG_F32;

static void
vectors(void **state)
{
	static const char *const want[] = {
		"device const float *x [[buffer(0)]]", "device float *y [[buffer(1)]]",
		"float4 x_v = *(device const float4 *)(x + n1);", "*(device float4 *)(y + n1) = exp(x_v * 2.0f + 1.0f);",
		"[[max_total_threads_per_threadgroup(64)]]",
	};
	Build b;
	Reg v[4];
	(void)state;
	begin(&b, 0);
	load4(&b, v);
	for (int i = 0; i < 4; i++) {
		v[i] = op(&b, THREAD_FADD, op(&b, THREAD_FMUL, v[i], thread_float_const(b.t, REG_F32, 2)),
		    thread_float_const(b.t, REG_F32, 1));
		assert_true(thread_call(b.t, "exp", &v[i], 1, &f32, &v[i], 1));
	}
	store4(&b, v);
	end(&b, want, LEN(want));
}

/* A fill that stands where the mask is false goes into the load; what ranges decide is not asked. */
static void
masks(void **state)
{
	static const char *const want[] = {
		"float4 x_v = ok ? *(device const float4 *)(x + n1) : float4(-INFINITY);",
		"bool ok = long(lid) < n;", "if (ok)\n        *(device float4 *)(y + n1) = x_v;",
	};
	Build b;
	Reg v[4];
	(void)state;
	begin(&b, 0);
	Reg ok = op(&b, THREAD_SLT, thread_cast(b.t, CAST_ZEXT, REG_I64, b.thread), b.n);
	Reg always = op(&b, THREAD_SLT, b.thread, i32(&b, 64));
	ThreadAccess at = access(&b, b.x, op(&b, THREAD_MUL, b.thread, i32(&b, 16)), 4);
	at.mask = op(&b, THREAD_AND, always, ok);
	thread_load(b.t, &at, v);
	for (int i = 0; i < 4; i++)
		v[i] = thread_op(b.t, THREAD_SELECT, ok, v[i], thread_float_const(b.t, REG_F32, -__builtin_inf()));
	at.base = b.y;
	thread_store(b.t, &at, v);
	end(&b, want, LEN(want));
}

/* Arithmetic that may wrap has no sign; comparisons that read one have. */
static void
signs(void **state)
{
	static const char *const want[] = {"uint(scale) * 0x9e3779b9u", "int(", "< 0", "float(", ">> 3"};
	Build b;
	(void)state;
	begin(&b, 0);
	Reg hash = op(&b, THREAD_MUL, b.scale, i32(&b, INT64_C(0x9e3779b9)));
	Reg low = op(&b, THREAD_SLT, hash, i32(&b, 0)), shifted = op(&b, THREAD_LSHR, hash, i32(&b, 3));
	Reg v = thread_op(b.t, THREAD_SELECT, low, thread_cast(b.t, CAST_U2F, REG_F32, shifted),
	    thread_float_const(b.t, REG_F32, 0));
	ThreadAccess at = access(&b, b.y, 0, 1);
	thread_store(b.t, &at, &v);
	end(&b, want, LEN(want));
}

/* What is divided or shifted as vectors has their sign in the vector, and a constant as wide as an element. */
static void
divisions(void **state)
{
	static const char *const want[] = {
		"as_type<int4>(n2) / 3", "short4(n2)) / short(-3)", "uint4(1) << n2", "5u / n2", "mulhi(n2, uint4(7))",
	};
	Build b;
	Reg v[4], r[4];
	(void)state;
	begin(&b, 0);
	load4(&b, v);
	for (int i = 0; i < 4; i++)
		v[i] = thread_cast(b.t, CAST_BITS, REG_I32, v[i]);
	for (int k = 0; k < 5; k++) {
		for (int i = 0; i < 4; i++) {
			Reg n = k == 1 ? thread_cast(b.t, CAST_TRUNC, REG_I16, v[i]) : v[i];
			r[i] = k == 0 ? op(&b, THREAD_SDIV, n, i32(&b, 3))
			    : k == 1 ? op(&b, THREAD_SDIV, n, thread_int_const(b.t, REG_I16, -3))
			    : k == 2 ? op(&b, THREAD_SHL, i32(&b, 1), n)
			    : k == 3 ? op(&b, THREAD_UDIV, i32(&b, 5), n) : op(&b, THREAD_MULHI_U, n, i32(&b, 7));
			r[i] = thread_cast(b.t, CAST_S2F, REG_F32, r[i]);
		}
		store4(&b, r);
	}
	end(&b, want, LEN(want));
}

/* An unsigned comparison with what is below 0, and operands that C promotes: the number that is meant is written. */
static void
comparisons(void **state)
{
	static const char *const want[] = {
		"0xfffffffffffffffful < ulong(n)", "char(", ") < -3", ") == 253", "/ -3", "int(lid) / -3", "-7 / int(lid",
	};
	Build b;
	(void)state;
	begin(&b, 0);
	Reg small = thread_cast(b.t, CAST_TRUNC, REG_I8, b.scale), three = thread_int_const(b.t, REG_I8, -3);
	Reg test[] = {
		op(&b, THREAD_ULT, thread_int_const(b.t, REG_I64, -1), b.n),
		op(&b, THREAD_SLT, small, three),
		op(&b, THREAD_EQ, op(&b, THREAD_SMIN, small, thread_int_const(b.t, REG_I8, 5)), three),
		op(&b, THREAD_EQ, op(&b, THREAD_SDIV, b.thread, i32(&b, -3)), b.scale),
		op(&b, THREAD_EQ, op(&b, THREAD_SDIV, i32(&b, -7), op(&b, THREAD_ADD, b.thread, i32(&b, 1))), b.scale),
	};
	for (int i = 0; i < LEN(test); i++) {
		ThreadAccess at = access(&b, b.y, 0, 1);
		Reg v = thread_float_const(b.t, REG_F32, i);
		at.mask = test[i];
		thread_store(b.t, &at, &v);
	}
	end(&b, want, LEN(want));
}

/* Two values that change places round a loop do so at once. */
static void
loops(void **state)
{
	static const char *const want[] = {"for (long i = 0; i < n; i++) {", "float next = ", " = next;", "if (0.0f <"};
	Build b;
	Reg in[2], first[2], next[2];
	(void)state;
	begin(&b, 0);
	first[0] = thread_float_const(b.t, REG_F32, 1);
	first[1] = thread_cast(b.t, CAST_S2F, REG_F32, b.scale);
	Reg zero = thread_int_const(b.t, REG_I64, 0), one = thread_int_const(b.t, REG_I64, 1);
	thread_loop(b.t, zero, b.n, one, first, in, 2);
	next[0] = in[1];
	next[1] = in[0];
	thread_loop_end(b.t, next, in, 2);
	thread_if(b.t, op(&b, THREAD_FLT, thread_float_const(b.t, REG_F32, 0), in[0]));
	ThreadAccess at = access(&b, b.y, 0, 1);
	thread_store(b.t, &at, &in[1]);
	thread_else(b.t, NULL, 0);
	thread_if_end(b.t, NULL, NULL, 0);
	end(&b, want, LEN(want));
}

/* What involves all lanes is a statement of its own, in no branch of ?:. */
static void
lanes(void **state)
{
	static const char *const want[] = {
		"float t = x_v.x + simd_shuffle_xor(x_v.x, 1);", "lane == 0u ? t : 0.0f",
		"uint lane [[thread_index_in_simdgroup]]", "threadgroup_barrier(mem_flags::mem_threadgroup);",
		"alignas(16) threadgroup float scratch[64];", "scratch[lid] = ",
	};
	Build b;
	Reg v[4], moved, at_lane;
	const int64_t one = 1;
	(void)state;
	begin(&b, 256);
	load4(&b, v);
	Reg bits = thread_cast(b.t, CAST_BITS, REG_I32, v[0]);
	thread_prim(b.t, PRIM_SHUFFLE_XOR, &bits, 1, &one, 1, &moved, 1);
	Reg sum = op(&b, THREAD_FADD, v[0], thread_cast(b.t, CAST_BITS, REG_F32, moved));
	at_lane = op(&b, THREAD_AND, b.thread, i32(&b, 31));
	Reg kept = thread_op(b.t, THREAD_SELECT, op(&b, THREAD_EQ, at_lane, i32(&b, 0)), sum,
	    thread_float_const(b.t, REG_F32, 0));
	ThreadAccess at = {.space = SPACE_SHARED, .type = REG_F32, .n = 1, .base = b.shared, .align = 4};
	at.offset = op(&b, THREAD_MUL, b.thread, i32(&b, 4));
	thread_store(b.t, &at, &kept);
	thread_prim(b.t, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	end(&b, want, LEN(want));
}

/* An accumulator that a loop carries from product to product is one matrix. */
static void
matrices(void **state)
{
	static const char *const want[] = {
		"simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);", "simdgroup_half8x8 a = matrix_of(t.xy);",
		"simdgroup_multiply_accumulate(acc, a, b, acc);", "= acc.thread_elements()[0];",
	};
	Build b;
	Reg v[4], h[4], acc[2], next[2];
	const MmaInfo *mma = mma_named("s8x8x8.f16");
	(void)state;
	begin(&b, 0);
	load4(&b, v);
	for (int i = 0; i < 4; i++)
		h[i] = thread_cast(b.t, CAST_FTRUNC, REG_F16, v[i]);
	Reg zero = thread_int_const(b.t, REG_I64, 0), one = thread_int_const(b.t, REG_I64, 1);
	Reg init[2] = {thread_float_const(b.t, REG_F32, 0), thread_float_const(b.t, REG_F32, 0)};
	thread_loop(b.t, zero, b.n, one, init, acc, 2);
	Reg left = thread_pack(b.t, h, 2), right = thread_pack(b.t, h + 2, 2);
	thread_mma(b.t, mma, &left, &right, acc, next);
	thread_loop_end(b.t, next, acc, 2);
	ThreadAccess at = access(&b, b.y, 0, 1);
	thread_store(b.t, &at, &acc[0]);
	end(&b, want, LEN(want));
}

/* A function that Metal lacks is given once and stands above the kernel, with a form for vectors. */
static void
functions(void **state)
{
	static const char *const want[] = {
		"static inline float twice(float x) {\n    return x + x;\n}", "static inline float4 twice(float4 x) {", "= twice(x_v);",
	};
	Build b;
	Reg v[4], inside;
	(void)state;
	begin(&b, 0);
	load4(&b, v);
	assert_false(thread_call(b.t, "twice", &v[0], 1, &f32, &v[0], 1));
	thread_function(b.t, &(ThreadSignature){"twice", &f32, &f32, 1, 1}, &inside);
	Reg sum = op(&b, THREAD_FADD, inside, inside);
	thread_function_end(b.t, &sum, 1);
	for (int i = 0; i < 4; i++)
		assert_true(thread_call(b.t, "twice", &v[i], 1, &f32, &v[i], 1));
	store4(&b, v);
	end(&b, want, LEN(want));
}

/* What Metal has not is reported, not written. */
static void
refusals(void **state)
{
	Build b;
	EmitMsl made;
	(void)state;
	begin(&b, 65536);
	Reg wide = thread_cast(b.t, CAST_FEXT, REG_F64, thread_cast(b.t, CAST_S2F, REG_F32, b.scale));
	op(&b, THREAD_FADD, wide, wide);
	emit_msl(thread_module(b.t), b.cx, &b.out, &made);
	assert_int_equal(b.cx->nerrors, 2);             /* the shared memory; f64 once for each place */
	text_close(&b.out);
	compile_close(b.cx);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(vectors), cmocka_unit_test(masks), cmocka_unit_test(signs),
	    cmocka_unit_test(divisions), cmocka_unit_test(comparisons),
	    cmocka_unit_test(loops), cmocka_unit_test(lanes), cmocka_unit_test(matrices), cmocka_unit_test(functions),
	    cmocka_unit_test(refusals)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
