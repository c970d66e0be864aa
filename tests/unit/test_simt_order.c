/* Primitives and checks together: pipelines as compilers write them give the right bytes and no report, in order and at
 * random; each of them with one thing wrong is reported.
 *
 * Rings of two slots go round eight times.  What a body's `fault` leaves out or gets wrong is said where it is looked at. */
#include "simt_help.h"

enum { ROUNDS = 8, SLOTS = 2, SLOT = 1024, FULL = 8192, FREE = 8256, OUT = 12288 };

typedef struct Ring {
	int fault;                                      /* 0: none */
	_Alignas(64) SimtTensorMap map, map_out;
	_Alignas(16) uint8_t global[ROUNDS * SLOT];
	_Alignas(16) uint8_t out[ROUNDS * SLOT];
} Ring;

static const SimtLaunch two_warps = {.threads = 64, .checks = true}, group = {.threads = 128, .checks = true};

static void
begin(Ring *x, int fault)
{
	memset(x, 0, sizeof *x);
	x->fault = fault;
	for (int i = 0; i < LEN(x->global); i++)
		x->global[i] = (uint8_t)(i * 7 + i / 256 * 3 + 1);
	SimtTensor t = {.dtype = TY_U8, .rank = 2, .address = (uintptr_t)x->global, .extent = {64, ROUNDS * SLOT / 64},
		.stride = {1, 64}, .box = {64, SLOT / 64}};
	assert_null(simt_tensor_encode(&x->map, &t));
	t.address = (uintptr_t)x->out;
	assert_null(simt_tensor_encode(&x->map_out, &t));
}

static uint64_t
slot_at(int round)
{
	return (uint64_t)(round % SLOTS * SLOT);
}

static void
meet(SimtThread *t)
{
	t->site = 99;
	call(t, PRIM_BARRIER, NOTHING);
}

static void
write_word(SimtThread *t, uint64_t at, uint32_t v)
{
	memcpy(simt_shared_at(t, (uint32_t)at, 4, SIMT_WRITE), &v, sizeof v);
}

/* The readers of a slot copy it out, none of them what it fetched itself. */
static void
use(SimtThread *t, Ring *x, int round, int first, int n)
{
	t->site = 7;
	for (int i = 16 * (n - 1 - (t->thread - first)); i < SLOT; i += 16 * n)
		memcpy(x->out + round * SLOT + i, simt_shared_at(t, (uint32_t)slot_at(round) + (uint32_t)i, 16, SIMT_READ), 16);
}

/* ---- cp.async, two groups ahead ---- */

static void
fetch(SimtThread *t, Ring *x, int round)
{
	t->site = 3;
	for (int i = 16 * t->thread; i < SLOT && round < ROUNDS; i += 16 * 64)
		call(t, PRIM_CP_ASYNC_16, IN(slot_at(round) + (uint64_t)i, (uintptr_t)x->global + (uint64_t)(round * SLOT + i), 16));
	call(t, PRIM_CP_COMMIT, NOTHING);
}

static void
body_copies(SimtThread *t, void *user)
{
	Ring *x = user;
	for (int round = 0; round < SLOTS - 1; round++)
		fetch(t, x, round);
	for (int round = 0; round < ROUNDS; round++) {
		if (x->fault == 1)                      /* a stage short: too early over what is being read */
			fetch(t, x, round + SLOTS - 1);
		call_imm(t, PRIM_CP_WAIT, NOTHING, x->fault == 2 ? SLOTS - 1 : x->fault == 1 ? SLOTS - 1 : SLOTS - 2, 0);
		if (x->fault != 3)                      /* each sees its own copies alone */
			meet(t);
		use(t, x, round, 0, 64);
		if (x->fault != 1)
			fetch(t, x, round + SLOTS - 1);
	}
}

/* ---- bulk copies by one warp, used by the other: mbarriers both ways ---- */

static void
set_up(SimtThread *t, uint64_t full, uint64_t empty)
{
	t->site = 1;
	if (t->thread == 0)
		for (uint64_t i = 0; i < SLOTS; i++) {
			call(t, PRIM_MBAR_INIT, IN(FULL + 8 * i, full));
			call(t, PRIM_MBAR_INIT, IN(FREE + 8 * i, empty));
		}
	call(t, PRIM_FENCE_MBAR, NOTHING);
	meet(t);
}

static void
produce(SimtThread *t, Ring *x, int round, uint64_t full)
{
	t->site = 3;
	call(t, PRIM_MBAR_EXPECT, IN(full, x->fault == 4 ? SLOT + 16 : SLOT));  /* 4: more bytes than come */
	call(t, PRIM_TENSOR_LOAD_2, IN(slot_at(round), (uintptr_t)&x->map, full, 0, (uint64_t)(round * SLOT / 64)));
}

static void
body_bulk(SimtThread *t, void *user)
{
	Ring *x = user;
	set_up(t, 1, 32);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t full = FULL + 8 * (uint64_t)(round % SLOTS), empty = FREE + 8 * (uint64_t)(round % SLOTS);
		uint64_t phase = (uint64_t)(round / SLOTS) & 1;
		if (t->warp == 0 && t->lane == 0) {
			if (x->fault != 1)              /* a slot is filled that may be in use */
				call(t, PRIM_MBAR_WAIT, IN(empty, phase ^ 1));
			produce(t, x, round, full);
		} else if (t->warp == 1) {
			if (x->fault != 2)              /* what has not come is used */
				call(t, PRIM_MBAR_WAIT, IN(full, phase ^ (x->fault == 3)));    /* 3: the parity before */
			use(t, x, round, 32, 32);
			if (x->fault != 5)              /* given back before it was read */
				call(t, PRIM_FENCE_ASYNC, NOTHING);
			call(t, PRIM_MBAR_ARRIVE, IN(empty));
		}
	}
}

/* ---- cp.async that counts for mbarriers ---- */

static void
body_arriving(SimtThread *t, void *user)
{
	Ring *x = user;
	set_up(t, 32, 32);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t full = FULL + 8 * (uint64_t)(round % SLOTS), empty = FREE + 8 * (uint64_t)(round % SLOTS);
		uint64_t phase = (uint64_t)(round / SLOTS) & 1;
		if (t->warp == 0) {
			call(t, PRIM_MBAR_WAIT, IN(empty, phase ^ 1));
			t->site = 3;
			for (int i = 16 * t->lane; i < SLOT; i += 16 * 32)
				call(t, PRIM_CP_ASYNC_16,
				    IN(slot_at(round) + (uint64_t)i, (uintptr_t)x->global + (uint64_t)(round * SLOT + i), 16));
			call(t, x->fault == 1 ? PRIM_MBAR_ARRIVE : PRIM_CP_ARRIVE, IN(full));   /* 1: without its copies */
		} else {
			call(t, PRIM_MBAR_WAIT, IN(full, phase));
			use(t, x, round, 32, 32);
			call(t, PRIM_MBAR_ARRIVE, IN(empty));
		}
	}
}

/* ---- bulk stores of what threads have written ---- */

static void
body_stores(SimtThread *t, void *user)
{
	Ring *x = user;
	for (int round = 0; round < ROUNDS; round++) {
		if (t->thread == 0 && x->fault != 1)    /* 1: written over before it was read */
			call_imm(t, PRIM_BULK_WAIT_READ, NOTHING, SLOTS - 1, 0);
		meet(t);
		t->site = 3;
		for (int i = 4 * t->thread; i < SLOT; i += 4 * 64) {
			uint32_t v;
			memcpy(&v, x->global + round * SLOT + i, sizeof v);
			write_word(t, slot_at(round) + (uint64_t)i, v);
		}
		if (x->fault != 2)                      /* 2: the async proxy does not see it */
			call(t, PRIM_FENCE_ASYNC, NOTHING);
		if (x->fault != 3)                      /* 3: nor the other threads' */
			meet(t);
		t->site = 5;
		if (t->thread == 0) {
			call(t, PRIM_TENSOR_STORE_2, IN(slot_at(round), (uintptr_t)&x->map_out, 0, (uint64_t)(round * SLOT / 64)));
			call(t, PRIM_BULK_COMMIT, NOTHING);
		}
	}
	if (t->thread == 0 && x->fault != 4)            /* 4: the block's memory is gone before */
		call_imm(t, PRIM_BULK_WAIT, NOTHING, 0, 0);
}

/* ---- a warpgroup's products ---- */

/* Operands of zeros and of 2 ^ round: A [64, 16], B [64, 16], both rows of 32 bytes. */
static void
body_products(SimtThread *t, void *user)
{
	enum { A_AT = 0, B_AT = 4096 };
	Ring *x = user;
	const WgmmaInfo *w = wgmma_named("wgmma.n64k16.f16");
	uint32_t acc[32] = {0};
	const uint64_t tail = UINT64_C(16) << 32 | UINT64_C(3) << 62;   /* 256 bytes from one eight rows to the next */
	for (int round = 0; round < 3; round++) {
		t->site = 3;
		if (round && x->fault == 1)             /* 1: written over while it is read */
			meet(t);
		if (round && x->fault != 1) {
			call_imm(t, PRIM_WGMMA_WAIT, NOTHING, 0, 0);
			simt_settle(t, acc, acc, 32);
			if (x->fault != 2)              /* 2: the other warps still read it */
				meet(t);
		}
		t->site = 4;
		for (uint64_t i = (uint64_t)t->thread * 4; i < 2048; i += 512) {
			write_word(t, A_AT + i, 0x3c003c00);
			write_word(t, B_AT + i, 0x3c003c00);
		}
		if (x->fault != 3)                      /* 3: not seen by the async proxy */
			call(t, PRIM_FENCE_ASYNC, NOTHING);
		meet(t);
		t->site = 6;
		call(t, PRIM_WGMMA_FENCE, NOTHING);
		simt_wgmma(t, w, A_AT / 16 | tail, B_AT / 16 | tail, 0, acc, acc);
		call(t, PRIM_WGMMA_COMMIT, NOTHING);
	}
	call_imm(t, PRIM_WGMMA_WAIT, NOTHING, 0, 0);
	simt_settle(t, acc, acc, 32);
	for (int i = 0; i < 32; i++)
		if (float_of(acc[i]) != 48)
			x->out[t->thread] = 1;
}

/* ---- 8 x 8 matrices ---- */

static void
body_matrices(SimtThread *t, void *user)
{
	Ring *x = user;
	uint64_t w[4], at = 512 * (uint64_t)t->warp, to = 512 * (uint64_t)(t->warp ^ 1);
	t->site = 3;
	call(t, PRIM_STMATRIX, IN(at + 16 * (uint64_t)t->lane, 1, 2, 3, 4));
	if (x->fault != 1)
		meet(t);
	t->site = 4;
	primitives[PRIM_LDMATRIX](t, IN(to + 16 * (uint64_t)t->lane), NULL, w);
	x->out[t->thread] = (uint8_t)(w[0] != 1 || w[3] != 4);
}

/* ---- all of them ---- */

/* words[i]: what fault i + 1 is told as; "": it shows in the result. */
static void
judge(Body *body, SimtLaunch like, const char *const *words, int faults, bool copies)
{
	Ring *x = aligned_alloc(64, (sizeof *x + 63) / 64 * 64);
	assert_non_null(x);
	for (uint64_t seed = 0; seed < 6; seed++) {
		begin(x, 0);
		like.seed = seed;
		runs(body, x, like);
		for (int i = 0; copies && i < LEN(x->out); i++)
			assert_int_equal(x->out[i], x->global[i]);
		for (int i = 0; !copies && i < 128; i++)
			assert_int_equal(x->out[i], 0);
	}
	like.seed = 0;
	for (int fault = 1; fault <= faults; fault++) {
		Job j = {body, x, {0}};
		begin(x, fault);
		bool ends = launch(&j, like), shows = ends && memcmp(x->out, x->global, sizeof x->out) != 0;
		if (*words[fault - 1] ? ends : !shows)
			fail_msg("fault %d goes unnoticed", fault);
		if (!strstr(j.report.text, words[fault - 1]))
			fail_msg("fault %d: '%s' does not say '%s'", fault, j.report.text, words[fault - 1]);
	}
	free(x);
}

static void
copies(void **state)
{
	static const char *const words[] = {"a read conflicts with an asynchronous copy",
		"a read conflicts with an asynchronous copy", "read before anything"};
	judge(body_copies, two_warps, words, LEN(words), true);
}

static void
bulk(void **state)
{
	static const char *const words[] = {"one more comes", "read before anything",
		"read before anything", "waits at mbar_wait for what never comes", "a bulk copy conflicts with a read"};
	judge(body_bulk, two_warps, words, LEN(words), true);
}

static void
arriving(void **state)
{
	static const char *const words[] = {"a read conflicts with an asynchronous copy"};
	judge(body_arriving, two_warps, words, LEN(words), true);
}

static void
stores(void **state)
{
	static const char *const words[] = {"a write conflicts with a matrix instruction's or copy's read",
		"a matrix instruction's or copy's read conflicts with a write", "read before anything",
		"the block may end before a matrix instruction's or copy's read"};
	judge(body_stores, two_warps, words, LEN(words), true);
}

static void
products(void **state)
{
	static const char *const words[] = {"a write conflicts with a matrix instruction's or copy's read",
		"a write conflicts with a matrix instruction's or copy's read",
		"a matrix instruction's or copy's read conflicts with a write"};
	judge(body_products, group, words, LEN(words), false);
}

static void
matrices(void **state)
{
	static const char *const words[] = {"read before anything"};
	judge(body_matrices, two_warps, words, LEN(words), false);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies), cmocka_unit_test(bulk), cmocka_unit_test(arriving), cmocka_unit_test(stores),
		cmocka_unit_test(products), cmocka_unit_test(matrices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
