/* The emulator's copies that go on by themselves, and mbarriers: what is in memory before and after each wait. */
#include "simt_help.h"

enum { RUBBISH = 0xc9, BAR = 4096, BAR2 = 4104 };       /* what a copy's destination holds until it is waited for */

typedef struct Bytes {
	uint8_t in[4096], out[4096];
	_Alignas(16) uint8_t global[8192];
	_Alignas(64) SimtTensorMap map;                 /* 16 bytes of global */
	uint64_t seen[64];
	int64_t n, left;
} Bytes;

static void
begin(Bytes *x)
{
	memset(x, 0, sizeof *x);
	for (int i = 0; i < LEN(x->global); i++)
		x->global[i] = (uint8_t)(i * 7 + i / 256 * 3 + 1);
	const SimtTensor t = {.dtype = TY_U8, .rank = 1, .address = (uintptr_t)x->global, .extent = {LEN(x->global)},
		.stride = {1}, .box = {16}};
	assert_null(simt_tensor_encode(&x->map, &t));
}

static void
load_16(SimtThread *t, Bytes *x, uint64_t to, int64_t byte, uint64_t bar)
{
	call(t, PRIM_TENSOR_LOAD_1, IN(to, (uintptr_t)&x->map, bar, (uint64_t)byte));
}

static uint64_t
at(Bytes *x, int64_t byte)
{
	return (uintptr_t)(x->global + byte);
}

static bool
all_are(const uint8_t *p, int n, int v)
{
	for (int i = 0; i < n; i++)
		if (p[i] != v)
			return false;
	return true;
}

/* ---- cp.async ---- */

/* Thread i copies 16 bytes to 64 i, of which 4 (i % 5) are read. */
static void
body_fill(SimtThread *t, void *user)
{
	Bytes *x = user;
	uint64_t to = 64 * (uint64_t)t->thread, given = 4 * (uint64_t)(t->thread % 5);
	memset(t->shared + to, 1, 64);
	call(t, PRIM_CP_ASYNC_16, IN(to, at(x, 16 * t->thread), given));
	call(t, PRIM_CP_COMMIT, NOTHING);
	memcpy(x->in + to, t->shared + to, 64);
	call_imm(t, PRIM_CP_WAIT, NOTHING, 0, 0);
	memcpy(x->out + to, t->shared + to, 64);
}

static void
zero_fill(void **state)
{
	Bytes x;
	begin(&x);
	runs(body_fill, &x, (SimtLaunch){0});
	for (int i = 0; i < 32; i++) {
		int given = 4 * (i % 5);
		assert_true(all_are(x.in + 64 * i, 16, RUBBISH) && all_are(x.in + 64 * i + 16, 48, 1));
		assert_memory_equal(x.out + 64 * i, x.global + 16 * i, (size_t)given);
		assert_true(all_are(x.out + 64 * i + given, 16 - given, 0) && all_are(x.out + 64 * i + 16, 48, 1));
	}
}

static void
body_sizes(SimtThread *t, void *user)
{
	Bytes *x = user;
	for (int64_t n = 4, k = 0; n <= 16; n *= 2, k++) {
		uint64_t to = 64 * (uint64_t)t->thread + 16 * (uint64_t)k;
		call_imm(t, PRIM_CP_ASYNC, IN(to, at(x, 64 * t->thread + 16 * k), (uint64_t)n), n, 0);
	}
	call(t, PRIM_CP_COMMIT, NOTHING);
	call_imm(t, PRIM_CP_WAIT, NOTHING, 0, 0);
	memcpy(x->out + 64 * t->thread, t->shared + 64 * t->thread, 64);
}

static void
sizes(void **state)
{
	Bytes x;
	begin(&x);
	runs(body_sizes, &x, (SimtLaunch){0});
	for (int i = 0; i < 32; i++)
		for (int n = 4, k = 0; n <= 16; n *= 2, k++)
			assert_memory_equal(x.out + 64 * i + 16 * k, x.global + 64 * i + 16 * k, (size_t)n);
}

/* Three groups of one copy and one of none; a wait leaves the latest ones.  seen: how many have landed. */
static void
body_groups(SimtThread *t, void *user)
{
	Bytes *x = user;
	uint64_t to = 64 * (uint64_t)t->thread;
	for (uint64_t k = 0; k < 4; k++) {
		call(t, PRIM_CP_ASYNC_16, IN(to + 16 * k, at(x, 0), 16));
		if (k < 3)
			call(t, PRIM_CP_COMMIT, NOTHING);
	}
	x->global[0] = 77;                              /* read as late as it may be */
	call_imm(t, PRIM_CP_WAIT, NOTHING, x->left, 0);
	uint64_t landed = 0;
	for (int k = 0; k < 4; k++)
		landed |= (uint64_t)(t->shared[to + 16 * (uint64_t)k] == 77) << k;
	x->seen[t->thread] = landed;
	call(t, PRIM_CP_COMMIT, NOTHING);
	call_imm(t, PRIM_CP_WAIT, NOTHING, 0, 0);
	x->out[t->thread] = t->shared[to + 48];
}

static void
groups(void **state)
{
	static const uint64_t want[] = {7, 3, 1, 0};
	for (int left = 0; left < 4; left++) {
		Bytes x;
		begin(&x);
		x.left = left;
		runs(body_groups, &x, (SimtLaunch){0});
		for (int i = 0; i < 32; i++) {
			assert_int_equal(x.seen[i], want[left]);
			assert_int_equal(x.out[i], 77);
		}
	}
}

/* With a seed some copies land before their wait, some do not, and each seed does the same again. */
static void
by_chance(void **state)
{
	int early = 0, late = 0;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		Bytes x, again;
		begin(&x);
		begin(&again);
		runs(body_fill, &x, (SimtLaunch){.seed = seed});
		runs(body_fill, &again, (SimtLaunch){.seed = seed});
		assert_memory_equal(x.in, again.in, sizeof x.in);
		for (int i = 0; i < 32; i++) {
			int given = 4 * (i % 5);
			bool is_late = all_are(x.in + 64 * i, 16, RUBBISH);
			late += is_late;
			early += !is_late;
			assert_true(is_late || memcmp(x.in + 64 * i, x.global + 16 * i, (size_t)given) == 0);
			assert_memory_equal(x.out + 64 * i, x.global + 16 * i, (size_t)given);
			assert_true(all_are(x.out + 64 * i + given, 16 - given, 0));
		}
	}
	assert_true(early > 20 && late > 20);
}

static void
body_bad(SimtThread *t, void *user)
{
	Bytes *x = user;
	switch (x->n) {
	case 0: call_imm(t, PRIM_CP_ASYNC, IN(8, at(x, 0), 4), 16, 0); break;
	case 1: call_imm(t, PRIM_CP_ASYNC, IN(0, at(x, 4), 4), 8, 0); break;
	case 2: call_imm(t, PRIM_CP_ASYNC, IN(0, at(x, 0), 4), 12, 0); break;
	case 3: call(t, PRIM_CP_ASYNC_16, IN(0, at(x, 0), 17)); break;
	case 4: call(t, PRIM_CP_ASYNC_LINE, IN(1 << 16, at(x, 0), 16)); break;
	case 5: load_16(t, x, 0, 0, BAR); break;
	case 6: call(t, PRIM_MBAR_INIT, IN(4, 1)); break;
	case 7: call(t, PRIM_MBAR_INIT, IN(BAR, 0)); break;
	default: break;
	}
}

static void
refused(void **state)
{
	static const char *const words[] = {"not a multiple of 16", "not a multiple of 8", "cp_async of 12 bytes", "17 bytes of 16",
		"", "no mbarrier was set up at 4096", "not a multiple of 8", "for 0 arrivals"};
	for (int i = 0; i < LEN(words); i++) {
		Bytes x;
		begin(&x);
		x.n = i;
		fails(body_bad, &x, (SimtLaunch){0}, words[i]);
	}
}

/* ---- mbarriers ---- */

static void
set_up(SimtThread *t, uint64_t count)
{
	if (t->thread == 0)
		call(t, PRIM_MBAR_INIT, IN(BAR, count));
	call(t, PRIM_BARRIER, NOTHING);
}

/* Warp 0 makes values, the others use them, round by round. */
static void
body_rounds(SimtThread *t, void *user)
{
	Bytes *x = user;
	if (t->thread == 0) {
		call(t, PRIM_MBAR_INIT, IN(BAR, 32));
		call(t, PRIM_MBAR_INIT, IN(BAR2, 32));
	}
	call(t, PRIM_BARRIER, NOTHING);
	for (uint64_t round = 0; round < 10; round++) {
		if (t->warp == 0) {
			call(t, PRIM_MBAR_WAIT, IN(BAR2, (round & 1) ^ 1));     /* the slot is free: at once in round 0 */
			t->shared[t->lane] = (uint8_t)(round + 1);
			call(t, PRIM_MBAR_ARRIVE, IN(BAR));
		} else {
			call(t, PRIM_MBAR_WAIT, IN(BAR, round & 1));
			x->seen[t->lane] = 10 * x->seen[t->lane] + t->shared[t->lane] % 10;
			call(t, PRIM_MBAR_ARRIVE, IN(BAR2));
		}
	}
}

static void
rounds(void **state)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		Bytes x;
		begin(&x);
		runs(body_rounds, &x, (SimtLaunch){.threads = 64, .seed = seed});
		for (int i = 0; i < 32; i++)
			assert_int_equal(x.seen[i], 1234567890);
	}
}

static void
body_poll(SimtThread *t, void *user)
{
	Bytes *x = user;
	set_up(t, 1);
	if (t->thread == 0) {
		x->seen[0] = call(t, PRIM_MBAR_POLL, IN(BAR, 0));
		x->seen[1] = call(t, PRIM_MBAR_POLL, IN(BAR, 1));       /* the one before the first */
		call(t, PRIM_MBAR_ARRIVE, IN(BAR));
		x->seen[2] = call(t, PRIM_MBAR_POLL, IN(BAR, 0));
		x->seen[3] = call(t, PRIM_MBAR_POLL, IN(BAR, 1));
		call(t, PRIM_MBAR_ARRIVE, IN(BAR));
		x->seen[4] = call(t, PRIM_MBAR_POLL, IN(BAR, 1));
		call(t, PRIM_MBAR_INIT, IN(BAR2, 2));
		call(t, PRIM_MBAR_ARRIVE, IN(BAR2));
		x->seen[5] = call(t, PRIM_MBAR_POLL, IN(BAR2, 0));
		call(t, PRIM_MBAR_ARRIVE, IN(BAR2));
		x->seen[6] = call(t, PRIM_MBAR_POLL, IN(BAR2, 0));
	}
}

static void
poll(void **state)
{
	static const uint64_t want[] = {0, 1, 1, 0, 1, 0, 1};
	Bytes x;
	begin(&x);
	runs(body_poll, &x, (SimtLaunch){0});
	for (int i = 0; i < LEN(want); i++)
		assert_int_equal(x.seen[i], want[i]);
}

/* Loops of polls let others run. */
static void
body_spin(SimtThread *t, void *user)
{
	set_up(t, 32);
	if (t->warp == 0)
		while (!call(t, PRIM_MBAR_POLL, IN(BAR, 0)))
			;
	else
		call(t, PRIM_MBAR_ARRIVE, IN(BAR));
}

static void
spin(void **state)
{
	runs(body_spin, NULL, (SimtLaunch){.threads = 64});
	runs(body_spin, NULL, (SimtLaunch){.threads = 64, .seed = 9});
}

/* Misuse, each found. */
static void
body_misuse(SimtThread *t, void *user)
{
	Bytes *x = user;
	set_up(t, x->n == 5 ? 32 : 1);
	if (x->n == 0 && t->thread == 0)
		call(t, PRIM_MBAR_WAIT, IN(BAR, 0));            /* nobody arrives */
	if (x->n == 1)
		call(t, PRIM_MBAR_WAIT, IN(BAR, t->thread == 0 ? 0 : 1));       /* a wrong parity */
	if (x->n == 2 && t->thread == 0) {
		call(t, PRIM_MBAR_EXPECT, IN(BAR, 32));
		call(t, PRIM_MBAR_ARRIVE, IN(BAR));             /* once too often */
	}
	if (x->n == 3) {
		t->shared[BAR + 3] = 1;
		call(t, PRIM_MBAR_ARRIVE, IN(BAR));
	}
	if (x->n == 4)
		call(t, PRIM_MBAR_INIT, IN(BAR, 1));
	if (x->n == 5) {
		call(t, PRIM_MBAR_EXPECT, IN(BAR, 1 << 19));
	}
	if (x->n == 6) {
		call(t, PRIM_MBAR_WAIT, IN(BAR, 2));
	}
	if (x->n == 7 && t->thread == 0)
		call(t, PRIM_MBAR_ARRIVE, IN(BAR2));
	if (x->n == 8 && t->thread == 0) {
		load_16(t, x, 0, 0, BAR);
		call(t, PRIM_MBAR_EXPECT, IN(BAR, 8));
		call(t, PRIM_MBAR_WAIT, IN(BAR, 0));            /* 8 bytes more than were expected */
	}
	if (x->n == 9 && t->thread == 0) {
		call(t, PRIM_CP_ARRIVE, IN(BAR));
		call(t, PRIM_CP_ARRIVE, IN(BAR));
	}
}

static void
misuse(void **state)
{
	static const char *const words[] = {"mbar_wait", "mbar_wait", "one more comes", "wrote over the mbarrier",
		"there is an mbarrier at 4096 already", "expects 1048576 bytes", "is 0 or 1, not 2", "no mbarrier was set up",
		"mbar_wait", "one more comes"};
	for (int i = 0; i < LEN(words); i++) {
		Bytes x;
		begin(&x);
		x.n = i;
		fails(body_misuse, &x, (SimtLaunch){0}, words[i]);
	}
}

/* Copies of each thread count for an mbarrier, and are there when it has been waited for. */
static void
body_cp_arrive(SimtThread *t, void *user)
{
	Bytes *x = user;
	set_up(t, 64);
	for (uint64_t k = 0; k < 2; k++) {
		call(t, PRIM_CP_ASYNC_16, IN(32 * (uint64_t)t->thread + 16 * k, at(x, 32 * t->thread + 16 * (int64_t)k), 16));
	}
	call(t, PRIM_CP_ARRIVE, IN(BAR));
	call(t, PRIM_CP_ASYNC_16, IN(2048 + 16 * (uint64_t)t->thread, at(x, 0), 16));   /* after it: not waited for */
	memcpy(x->in + 32 * t->thread, t->shared + 32 * t->thread, 32);
	call(t, PRIM_MBAR_WAIT, IN(BAR, 0));
	memcpy(x->out + 32 * t->thread, t->shared + (32 * t->thread + 32 * 33) % 2048, 32);
	x->seen[t->thread] = t->shared[2048 + 16 * t->thread];
}

static void
cp_arrive(void **state)
{
	Bytes x;
	begin(&x);
	runs(body_cp_arrive, &x, (SimtLaunch){.threads = 64});
	assert_true(all_are(x.in, 32 * 64, RUBBISH));
	for (int i = 0; i < 64; i++) {
		assert_memory_equal(x.out + 32 * i, x.global + (32 * i + 32 * 33) % 2048, 32);
		assert_int_equal(x.seen[i], RUBBISH);
	}
}

/* ---- bulk copies ---- */

static void
body_bulk(SimtThread *t, void *user)
{
	Bytes *x = user;
	set_up(t, 1);
	memset(t->shared + 32 * t->thread, 3, 32);
	call(t, PRIM_BARRIER, NOTHING);
	for (uint64_t round = 0; round < 2; round++) {
		if (t->thread == 0) {
			load_16(t, x, 128, 1024 * (int64_t)round, BAR);
			load_16(t, x, 512, 1024 * (int64_t)round + 512, BAR);
			call(t, PRIM_MBAR_EXPECT, IN(BAR, 32));
			memcpy(x->in + 1024 * round, t->shared, 1024);
		}
		call(t, PRIM_MBAR_WAIT, IN(BAR, round));
		if (t->thread == 31)
			memcpy(x->out + 1024 * round, t->shared, 1024);
		call(t, PRIM_BARRIER, NOTHING);
	}
}

static void
bulk(void **state)
{
	Bytes x;
	begin(&x);
	runs(body_bulk, &x, (SimtLaunch){0});
	for (int round = 0; round < 2; round++) {
		const uint8_t *in = x.in + 1024 * round, *out = x.out + 1024 * round;
		assert_true(all_are(in + 128, 16, RUBBISH) && all_are(in + 512, 16, RUBBISH));
		assert_true(all_are(out, 128, 3) && all_are(out + 144, 512 - 144, 3) && all_are(out + 528, 1024 - 528, 3));
		assert_memory_equal(out + 128, x.global + 1024 * round, 16);
		assert_memory_equal(out + 512, x.global + 1024 * round + 512, 16);
	}
	for (uint64_t seed = 1; seed < 5; seed++) {
		begin(&x);
		runs(body_bulk, &x, (SimtLaunch){.seed = seed});
		assert_memory_equal(x.out + 128, x.global, 16);
	}
}

/* n 0: stores are waited for, and what is written over afterwards does not show; 1: it is written over before the wait;
 * 2: the block ends without a wait; 3: of two groups, one is waited for. */
static void
body_store(SimtThread *t, void *user)
{
	Bytes *x = user;
	uint64_t to = 32 * (uint64_t)t->thread, from[] = {256 * (uint64_t)t->thread, 256 * (uint64_t)t->thread + 128};
	for (int i = 0; i < 32; i++)
		t->shared[from[i / 16] + (uint64_t)i % 16] = (uint8_t)(t->thread + i + 1);
	call(t, PRIM_FENCE_ASYNC, NOTHING);
	call(t, PRIM_TENSOR_STORE_1, IN(from[0], (uintptr_t)&x->map, to));
	if (x->n == 3)
		call(t, PRIM_BULK_COMMIT, NOTHING);
	call(t, PRIM_TENSOR_STORE_1, IN(from[1], (uintptr_t)&x->map, to + 16));
	call(t, PRIM_BULK_COMMIT, NOTHING);
	if (x->n == 2)
		return;
	if (x->n != 1)
		call_imm(t, PRIM_BULK_WAIT_READ, NOTHING, x->n == 3 ? 1 : 0, 0);
	memset(t->shared + from[0], 9, 256);
	x->seen[t->thread] = x->global[to];
	call_imm(t, PRIM_BULK_WAIT, NOTHING, 0, 0);
	x->out[t->thread] = x->global[to];
}

static void
bulk_stores(void **state)
{
	for (int n = 0; n < 4; n++) {
		Bytes x;
		begin(&x);
		uint8_t before[32 * 32];
		memcpy(before, x.global, sizeof before);
		x.n = n;
		runs(body_store, &x, (SimtLaunch){0});
		for (int i = 0; i < 32; i++)
			for (int k = 0; k < 32; k++) {
				int good = i + k + 1, want = n == 0 || (n == 3 && k < 16) ? good : n == 2 ? RUBBISH : 9;
				assert_int_equal(x.global[32 * i + k], want);
				if (n != 2 && k == 0) {
					assert_int_equal(x.seen[i], before[32 * i]);    /* not before the wait */
					assert_int_equal(x.out[i], want);
				}
			}
	}
	all_called(PRIM_CP_ASYNC, PRIM_CP_WAIT);
	all_called(PRIM_MBAR_INIT, PRIM_CP_ARRIVE);
	all_called(PRIM_FENCE_ASYNC, PRIM_FENCE_ASYNC);
	all_called(PRIM_BULK_COMMIT, PRIM_BULK_WAIT_READ);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_fill), cmocka_unit_test(sizes), cmocka_unit_test(groups), cmocka_unit_test(by_chance),
		cmocka_unit_test(refused), cmocka_unit_test(rounds), cmocka_unit_test(poll), cmocka_unit_test(spin),
		cmocka_unit_test(misuse), cmocka_unit_test(cp_arrive), cmocka_unit_test(bulk), cmocka_unit_test(bulk_stores),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
