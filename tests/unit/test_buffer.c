/* Shared memory in the interpreter: rings of slots filled by copies, mbarriers, roles. */
#include "interp_help.h"

/* y = x + 1, tile by tile through a ring of three slots: a prologue of two copies, then one copy ahead of each tile. */
static const char ring[] =
    "kernel @k(%x: in f32[64], %y: out f32[64], %left: i64) {\n"
    "	%0 = const {value = 0} : i64\n"
    "	%1 = const {value = 1} : i64\n"
    "	%2 = const {value = 2} : i64\n"
    "	%8 = const {value = 8} : i64\n"
    "	%16 = const {value = 16} : i64\n"
    "	%64 = const {value = 64} : i64\n"
    "	%one = const {value = 1.0} : f32[8]\n"
    "	%b = alloc : buffer<3 x f32[8]>\n"
    "	%s0 = slot %b, %0 : buffer<1 x f32[8]>\n"
    "	%t0 = copy %x, %0, %s0 {index = \"p\", extents = [8], kind = \"cp_async\"} : token\n"
    "	%g0 = commit %t0 : token\n"
    "	%s1 = slot %b, %1 : buffer<1 x f32[8]>\n"
    "	%t1 = copy %x, %8, %s1 {index = \"p\", extents = [8], kind = \"cp_async\"} : token\n"
    "	%g1 = commit %t1 : token\n"
    "	%last = for %0, %8, %1, %g1 : token do (%i: i64, %g: token) {\n"
    "		%w = wait %g {left = LEFT} : token\n"
    "		%ahead = add %i, %2 : i64\n"
    "		%from = mul %ahead, %8 : i64\n"
    "		%sa = slot %b, %ahead : buffer<1 x f32[8]>\n"
    "		%t = copy %x, %from, %sa {index = \"p\", extents = [8], kind = \"cp_async\"} : token\n"
    "		%gn = commit %t : token\n"
    "		%si = slot %b, %i : buffer<1 x f32[8]>\n"
    "		%v = get %si, %w : f32[8]\n"
    "		%u = add %v, %one : f32[8]\n"
    "		%to = mul %i, %8 : i64\n"
    "		write %y, %to, %u {index = \"p\", extents = [8]}\n"
    "		yield %gn\n"
    "	}\n"
    "}\n";

static void
run_ring(char left, float *x, float *y)
{
	char text[sizeof ring];

	memcpy(text, ring, sizeof ring);
	char *at = strstr(text, "LEFT");
	memcpy(at, (char[]){left, ' ', ' ', ' '}, 4);
	memset(y, 0, sizeof(float) * 64);
	Buffer b[] = {tensor_of(x, sizeof(float) * 64, DIMS(64)), tensor_of(y, sizeof(float) * 64, DIMS(64)), SCALAR(0)};
	Fault f = run_ways(text, b, 3, 1, 1, 1, true);
	assert_int_equal(f.kind, FAULT_NONE);
}

static void
ring_of_copies(void **state)
{
	float x[64], y[64];
	int wrong = 0;

	for (int i = 0; i < 64; i++)
		x[i] = (float)i;
	run_ring('1', x, y);
	for (int i = 0; i < 64; i++)
		assert_true(y[i] == x[i] + 1);
	/* Who waits for too little finds what was there before. */
	run_ring('2', x, y);
	for (int i = 0; i < 64; i++)
		wrong += !(y[i] == x[i] + 1);
	assert_int_equal(wrong, 64);
}

/* A producer fills a ring of two slots by bulk copies, two consumers take turns at them: y = 2 x. */
static const char roles[] =
    "kernel @k(%x: in f32[64], %y: out f32[64]) {\n"
    "	%0 = const {value = 0} : i64\n"
    "	%1 = const {value = 1} : i64\n"
    "	%2 = const {value = 2} : i64\n"
    "	%8 = const {value = 8} : i64\n"
    "	%b = alloc : buffer<2 x f32[8]>\n"
    "	%full = mbarrier {count = 1} : mbarrier<2>\n"
    "	%empty = mbarrier {count = 1} : mbarrier<2>\n"
    "	roles {warps = [1, 4], copies = [1, 2]} producer {\n"
    "		for %0, %8, %1 do (%i: i64) {\n"
    "			%p = div %i, %2 : i64\n"
    "			%q = add %p, %1 : i64\n"
    "			EMPTY %empty, %i, %q\n"
    "			expect %full, %i {bytes = 32}\n"
    "			%from = mul %i, %8 : i64\n"
    "			%s = slot %b, %i : buffer<1 x f32[8]>\n"
    "			%t = copy %x, %from, %s, %full, %i {index = \"p\", extents = [8], kind = \"bulk\"} : token\n"
    "			yield\n"
    "		}\n"
    "		yield\n"
    "	} consumer (%c: i64) {\n"
    "		for %c, %8, %2 do (%i: i64) {\n"
    "			%p = div %i, %2 : i64\n"
    "			await %full, %i, %p\n"
    "			%s = slot %b, %i : buffer<1 x f32[8]>\n"
    "			%v = get %s : f32[8]\n"
    "			arrive %empty, %i\n"
    "			%u = add %v, %v : f32[8]\n"
    "			%to = mul %i, %8 : i64\n"
    "			write %y, %to, %u {index = \"p\", extents = [8]}\n"
    "			yield\n"
    "		}\n"
    "		yield\n"
    "	}\n"
    "}\n";

static Fault
run_roles_text(const char *word, float *x, float *y)
{
	char text[sizeof roles];

	memcpy(text, roles, sizeof roles);
	memcpy(strstr(text, "EMPTY"), word, 5);
	memset(y, 0, sizeof(float) * 64);
	Buffer b[] = {tensor_of(x, sizeof(float) * 64, DIMS(64)), tensor_of(y, sizeof(float) * 64, DIMS(64))};
	return run_ways(text, b, 2, 1, 1, 1, true);
}

static void
producer_and_consumers(void **state)
{
	float x[64], y[64];

	for (int i = 0; i < 64; i++)
		x[i] = (float)i;
	assert_int_equal(run_roles_text("await", x, y).kind, FAULT_NONE);
	for (int i = 0; i < 64; i++)
		assert_true(y[i] == 2 * x[i]);
}

static void
stuck_roles(void **state)
{
	const char text[] =
	    "kernel @k() {\n"
	    "	%0 = const {value = 0} : i64\n"
	    "	%a = mbarrier {count = 1} : mbarrier<1>\n"
	    "	%b = mbarrier {count = 1} : mbarrier<1>\n"
	    "	roles {warps = [1, 4], copies = [1, 1]} producer {\n"
	    "		await %a, %0, %0\n"
	    "		arrive %b, %0\n"
	    "		yield\n"
	    "	} consumer (%c: i64) {\n"
	    "		await %b, %0, %0\n"
	    "		arrive %a, %0\n"
	    "		yield\n"
	    "	}\n"
	    "}\n";
	const char alone[] =
	    "kernel @k() {\n"
	    "	%0 = const {value = 0} : i64\n"
	    "	%a = mbarrier {count = 2} : mbarrier<1>\n"
	    "	arrive %a, %0\n"
	    "	await %a, %0, %0\n"
	    "}\n";
	Fault f = run_ways(text, NULL, 0, 1, 1, 1, false);

	assert_int_equal(f.kind, FAULT_ASSERT);
	assert_non_null(strstr(f.text, "wait for one another"));
	f = run_ways(alone, NULL, 0, 1, 1, 1, false);
	assert_int_equal(f.kind, FAULT_ASSERT);
	assert_non_null(strstr(f.text, "nothing else runs"));
}

/* Each of four warps arrives; a phase of more, or of fewer, is found. */
static void
arrivals_of_warps(void **state)
{
	static const char text[] =
	    "kernel @k(%x: out f32[1]) {\n"
	    "	%0 = const {value = 0} : i64\n"
	    "	%a = mbarrier {count = N} : mbarrier<1>\n"
	    "	roles {warps = [1, 4], copies = [1, 1], lone = true} producer {\n"
	    "		await %a, %0, %0\n"
	    "		yield\n"
	    "	} consumer (%c: i64) {\n"
	    "		arrive %a, %0 {by = \"warp\"}\n"
	    "		yield\n"
	    "	}\n"
	    "}\n";
	const char *const says[] = {"4 arrivals, and the phase waits for 3", NULL, "wait for one another"};
	float x[1];

	for (int i = 0; i < 3; i++) {
		char with[sizeof text];
		memcpy(with, text, sizeof text);
		*strchr(with, 'N') = (char)('3' + i);
		Buffer b[] = {tensor_of(x, sizeof x, DIMS(1))};
		Fault f = run_ways(with, b, 1, 1, 1, 1, false);
		assert_int_equal(f.kind, says[i] ? FAULT_ASSERT : FAULT_NONE);
		assert_true(!says[i] || strstr(f.text, says[i]));
	}
}

/* Begun on a slot and a tile, finished later: as a dot. */
static void
dot_on_buffers(void **state)
{
	float a[16], b[16], y[16], want[16] = {0};

	for (int i = 0; i < 16; i++) {
		a[i] = (float)(i % 5);
		b[i] = (float)(i % 7) - 3;
	}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++)
			for (int j = 0; j < 4; j++)
				want[i * 4 + j] += a[i * 4 + k] * b[k * 4 + j];
	RUN("kernel @k(%a: in f32[4, 4], %b: in f32[4, 4], %y: out f32[4, 4]) {\n"
	    "	%0 = const {value = 0} : i64\n"
	    "	%z = const {value = 0.0} : f32[4, 4]\n"
	    "	%t = read %a, %0, %0 {index = \"pp\", extents = [4, 4]} : f32[4, 4]\n"
	    "	%s = alloc : buffer<1 x f32[4, 4]>\n"
	    "	%u = copy %b, %0, %0, %s {index = \"pp\", extents = [4, 4], kind = \"plain\"} : token\n"
	    "	proxy_fence\n"
	    "	%d = dot_start %t, %s, %z : f32[4, 4]\n"
	    "	%e = dot_wait %d : f32[4, 4]\n"
	    "	write %y, %0, %0, %e {index = \"pp\", extents = [4, 4]}\n"
	    "}\n",
	    1, TENSOR(a, 4, 4), TENSOR(b, 4, 4), TENSOR(y, 4, 4));
	assert_memory_equal(y, want, sizeof y);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_of_copies),
		cmocka_unit_test(producer_and_consumers),
		cmocka_unit_test(stuck_roles),
		cmocka_unit_test(arrivals_of_warps),
		cmocka_unit_test(dot_on_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
