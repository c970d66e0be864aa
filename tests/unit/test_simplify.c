/* What a builder that simplifies leaves of a recorded thread: folds, common subexpressions in scope, masks, dead code, ranges;
 * and the order of what remains. */
#include "thread/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct Build {
	Arena *mem;
	ThreadBuilder *t;
	Reg x, n, shared, thread;
} Build;

/* kernel k(x: floats, n: 0 .. 1000), 64 threads */
static void
begin(Build *b)
{
	static const ThreadParam param[] = {
		{.name = "x", .type = REG_GLOBAL, .align = 16, .elem = TY_F32},
		{.name = "n", .type = REG_I32, .elem = TY_I32, .most = 1000},
	};
	const ThreadKernel k = {.name = "k", .param = param, .nparam = LEN(param), .threads = 64};
	Reg at[LEN(param)];
	b->mem = arena_open();
	b->t = thread_open(b->mem, target_named("sm_90a"), true);
	thread_kernel(b->t, &k, at, &b->shared);
	b->x = at[0];
	b->n = at[1];
	thread_prim(b->t, PRIM_THREAD, NULL, 0, NULL, 0, &b->thread, 1);
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

/* What is stored is alive; the element's offset is v. */
static void
use(Build *b, Reg v, Reg mask)
{
	Reg one = thread_float_const(b->t, REG_F32, 1);
	const ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_F32, .n = 1, .base = b->x, .offset = v, .align = 4,
	    .mask = mask};
	thread_store(b->t, &at, &one);
}

static int
count(const ThreadRegion *r, ThreadKind kind)
{
	int n = 0;
	for (int i = 0; i < r->body.n; i++) {
		n += r->body.at[i]->kind == kind;
		for (int k = 0; k < 2; k++)
			n += r->body.at[i]->region[k] ? count(r->body.at[i]->region[k], kind) : 0;
	}
	return n;
}

static const ThreadAccess *
last_store(const ThreadModule *m)
{
	return vec_last(&m->body->body)->at;
}

static ThreadModule *
end(Build *b)
{
	ThreadModule *m = thread_module(b->t);
	thread_sweep(m);
	return m;
}

static void
folds(void **state)
{
	Build b;
	int64_t v;
	(void)state;
	begin(&b);
	Reg sum = op(&b, THREAD_ADD, op(&b, THREAD_MUL, i32(&b, 6), i32(&b, 7)), i32(&b, 0));
	use(&b, op(&b, THREAD_MUL, i32(&b, 1), sum), 0);
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->body, NODE_OP), 0);
	assert_true(thread_const(m, last_store(m)->offset, &v));
	assert_int_equal(v, 42);
	arena_close(b.mem);
}

/* The second of two equal operations goes, but not one that stands in a branch that has ended. */
static void
scopes(void **state)
{
	Build b;
	(void)state;
	begin(&b);
	use(&b, op(&b, THREAD_MUL, b.n, i32(&b, 4)), 0);
	use(&b, op(&b, THREAD_MUL, i32(&b, 4), b.n), 0);
	thread_if(b.t, op(&b, THREAD_EQ, b.n, b.thread));
	use(&b, op(&b, THREAD_MUL, b.n, i32(&b, 4)), 0);
	use(&b, op(&b, THREAD_MUL, b.n, i32(&b, 12)), 0);
	thread_else(b.t, NULL, 0);
	thread_if_end(b.t, NULL, NULL, 0);
	use(&b, op(&b, THREAD_MUL, b.n, i32(&b, 12)), 0);
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->body, NODE_OP), 4);   /* n * 4, the test, and n * 12 twice */
	arena_close(b.mem);
}

/* Ranges decide comparisons and clamps: of the thread's number, a parameter, an index and a remainder. */
static void
ranges(void **state)
{
	Build b;
	(void)state;
	begin(&b);
	use(&b, b.thread, op(&b, THREAD_SLT, b.thread, i32(&b, 64)));
	use(&b, op(&b, THREAD_SMIN, b.n, i32(&b, 1000)), 0);
	use(&b, op(&b, THREAD_AND, b.thread, i32(&b, 63)), op(&b, THREAD_SLT, b.n, i32(&b, 0)));
	Reg i = thread_loop(b.t, i32(&b, 0), b.n, i32(&b, 1), NULL, NULL, 0);
	use(&b, op(&b, THREAD_SMAX, i, i32(&b, 0)), op(&b, THREAD_SLT, i, i32(&b, 1000)));
	thread_loop_end(b.t, NULL, NULL, 0);
	use(&b, op(&b, THREAD_SREM, b.n, i32(&b, 8)), 0);
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->body, NODE_OP), 1);   /* n & 7 */
	assert_int_equal(thread_def(m, last_store(m)->offset)->op, THREAD_AND);
	assert_int_equal(thread_range(m, last_store(m)->offset).hi, 7);
	assert_int_equal(count(m->body, NODE_STORE), 4); /* one had a mask that is never true */
	arena_close(b.mem);
}

/* A load that nothing reads goes with its address; a volatile one, a barrier and what a loop yields stay. */
static void
dead(void **state)
{
	Build b;
	Reg v, inside, after;
	(void)state;
	begin(&b);
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_F32, .n = 1, .base = b.x, .align = 4};
	at.offset = op(&b, THREAD_MUL, b.n, i32(&b, 4));
	thread_load(b.t, &at, &v);
	op(&b, THREAD_FADD, v, v);
	at.offset = 0;
	at.cache = CACHE_VOLATILE;
	thread_load(b.t, &at, &v);
	thread_prim(b.t, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	Reg init = i32(&b, 3);
	thread_loop(b.t, i32(&b, 0), b.n, i32(&b, 1), &init, &inside, 1);
	Reg next = op(&b, THREAD_XOR, inside, b.n);
	thread_loop_end(b.t, &next, &after, 1);
	use(&b, after, 0);
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->body, NODE_OP), 1);
	assert_int_equal(count(m->body, NODE_LOAD), 1);
	assert_int_equal(count(m->body, NODE_PRIM), 1);  /* nothing reads the thread's number */
	arena_close(b.mem);
}

/* The test that ends a function's loop stays. */
static void
functions(void **state)
{
	static const RegType f32 = REG_F32;
	Build b;
	Reg inside, carried, after, r;
	(void)state;
	begin(&b);
	thread_function(b.t, &(ThreadSignature){"twice", &f32, &f32, 1, 1}, &inside);
	thread_while(b.t, &inside, &carried, 1);
	thread_while_test(b.t, op(&b, THREAD_FLT, carried, thread_float_const(b.t, REG_F32, 9)));
	Reg next = op(&b, THREAD_FADD, carried, carried);
	thread_while_end(b.t, &next, &after, 1);
	thread_function_end(b.t, &after, 1);
	Reg one = thread_float_const(b.t, REG_F32, 1);
	assert_true(thread_call(b.t, "twice", &one, 1, &f32, &r, 1));
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->functions.at[0]->body, NODE_TEST), 1);
	assert_int_equal(count(m->body, NODE_CALL), 0); /* of which nothing reads the result */
	arena_close(b.mem);
}

/* Elements of a word that was packed are the elements; a masked load that never loads is zeros. */
static void
words(void **state)
{
	Build b;
	Reg half[2], out[2], v;
	int64_t zero;
	(void)state;
	begin(&b);
	half[0] = thread_cast(b.t, CAST_TRUNC, REG_I16, b.n);
	half[1] = thread_cast(b.t, CAST_TRUNC, REG_I16, b.thread);
	thread_unpack(b.t, thread_pack(b.t, half, 2), REG_I16, out, 2);
	use(&b, thread_cast(b.t, CAST_SEXT, REG_I32, out[1]), 0);
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = b.x, .align = 4};
	at.mask = op(&b, THREAD_SLT, b.thread, i32(&b, 0));
	thread_load(b.t, &at, &v);
	use(&b, v, 0);
	ThreadModule *m = end(&b);
	assert_int_equal(count(m->body, NODE_PACK) + count(m->body, NODE_UNPACK) + count(m->body, NODE_LOAD), 0);
	assert_true(thread_const(m, last_store(m)->offset, &zero) && zero == 0);
	arena_close(b.mem);
}

/* Consumers that would hold more than their share of registers take one element after the other. */
static void
orders(void **state)
{
	enum { SHARE = 40, ELEMENTS = 64 };
	Build b;
	Reg x[ELEMENTS];
	(void)state;
	begin(&b);
	thread_if(b.t, op(&b, THREAD_EQ, b.n, b.thread));
	thread_prim(b.t, PRIM_REGISTERS_MORE, NULL, 0, (int64_t[]){SHARE}, 1, NULL, 0);
	const ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_F32, .n = 1, .base = b.x, .align = 4};
	for (int i = 0; i < ELEMENTS; i++) {
		ThreadAccess one = at;
		one.constant = 4 * i;
		thread_load(b.t, &one, &x[i]);
	}
	for (int i = 0; i < ELEMENTS; i++)
		x[i] = thread_op(b.t, THREAD_FMUL, x[i], x[i], 0);
	for (int i = 0; i < ELEMENTS; i++)
		x[i] = thread_op(b.t, THREAD_EXP2_FAST, x[i], 0, 0);
	thread_prim(b.t, PRIM_WARP_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	for (int i = 0; i < ELEMENTS; i++) {
		ThreadAccess one = at;
		one.constant = 4 * i;
		thread_store(b.t, &one, &x[i]);
	}
	thread_else(b.t, NULL, 0);
	thread_if_end(b.t, NULL, NULL, 0);
	ThreadModule *m = end(&b);
	m->kinds |= 1u << NODE_WGMMA;
	thread_order(m);
	ThreadNode *const *n = thread_find(m->body, NODE_IF)->region[0]->body.at + 1;
	for (int i = 0; i < 3 * ELEMENTS; i += 3) {
		assert_int_equal(n[i]->kind, NODE_LOAD);
		assert_int_equal(n[i + 1]->op, THREAD_FMUL);
		assert_int_equal(n[i + 2]->op, THREAD_EXP2_FAST);
	}
	arena_close(b.mem);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(folds), cmocka_unit_test(scopes), cmocka_unit_test(ranges),
	    cmocka_unit_test(dead), cmocka_unit_test(functions), cmocka_unit_test(words), cmocka_unit_test(orders)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
