/* The interpreter runs small functions: whole kernels, control flow, memory.  Numbers are small integers in
 * floats, so that results are exact and written down by hand; num's tests prove the arithmetic. */
#include "interp_help.h"

static void
vector_add(void **state)
{
	float x[10], y[10], out[12];

	for (int i = 0; i < 10; i++) {
		x[i] = (float)i;
		y[i] = (float)(100 * i);
	}
	for (int i = 0; i < 12; i++)
		out[i] = -1;
	RUN("kernel @add(%x: in f32[N], %y: in f32[N], %out: out f32[N], %N: dim) grid(pid) {\n"
	    "  %pid = program_id {axis = 0} : i64\n"
	    "  %b = const {value = 4} : i64\n"
	    "  %s = mul %pid, %b : i64\n"
	    "  %a = read %x, %s {index = \"p\", extents = [4]} : f32[4]\n"
	    "  %c = read %y, %s {index = \"p\", extents = [4]} : f32[4]\n"
	    "  %d = add %a, %c : f32[4]\n"
	    "  write %out, %s, %d {index = \"p\", extents = [4]}\n"
	    "}\n",
	    3, TENSOR(x, 10), TENSOR(y, 10), tensor_of(out, 40, DIMS(10)), SCALAR(10));
	for (int i = 0; i < 10; i++)
		assert_true(out[i] == (float)(101 * i));
	assert_true(out[10] == -1 && out[11] == -1);
}

static void
softmax(void **state)
{
	float x[3 * 5], y[3 * 5];

	for (int i = 0; i < 15; i++)
		x[i] = (float)(i % 5);
	RUN("kernel @softmax(%x: in f32[R, C], %y: out f32[R, C], %R: dim, %C: dim) grid(row) {\n"
	    "  %row = program_id {axis = 0} : i64\n"
	    "  %z = const {value = 0} : i64\n"
	    "  %inf = const {value = -inf} : f32\n"
	    "  %v = read %x, %row, %z, %inf {index = \"ip\", extents = [8]} : f32[8]\n"
	    "  %m = reduce %v {fn = \"max\", axis = 0} : f32\n"
	    "  %mb = broadcast %m : f32[8]\n"
	    "  %d = sub %v, %mb : f32[8]\n"
	    "  %e = exp %d : f32[8]\n"
	    "  %s = reduce %e {fn = \"sum\", axis = 0} : f32\n"
	    "  %sb = broadcast %s : f32[8]\n"
	    "  %r = div %e, %sb : f32[8]\n"
	    "  write %y, %row, %z, %r {index = \"ip\", extents = [8]}\n"
	    "}\n",
	    3, TENSOR(x, 3, 5), TENSOR(y, 3, 5), SCALAR(3), SCALAR(5));
	const double want[] = {0.011656230956039607, 0.03168492079612427, 0.0861285444362687, 0.23412165725273662,
	    0.6364086465588308};
	for (int i = 0; i < 15; i++)
		assert_true(y[i] > want[i % 5] * 0.999999 && y[i] < want[i % 5] * 1.000001);
}

static void
matmul(void **state)
{
	float a[5 * 7], b[7 * 3], c[5 * 3];

	for (int i = 0; i < 35; i++)
		a[i] = (float)(i % 11 - 5);
	for (int i = 0; i < 21; i++)
		b[i] = (float)(i % 7 - 3);
	RUN("kernel @matmul(%a: in f32[M, K], %b: in f32[K, N], %c: out f32[M, N], %M: dim, %K: dim, %N: dim) "
	    "grid(pm) {\n"
	    "  %pm = program_id {axis = 0} : i64\n"
	    "  %two = const {value = 2} : i64\n"
	    "  %zero = const {value = 0} : i64\n"
	    "  %m = mul %pm, %two : i64\n"
	    "  %acc = const {value = 0.0} : f32[2, 4]\n"
	    "  %r = for %zero, %K, %two, %acc : f32[2, 4] do (%k: i64, %s: f32[2, 4]) {\n"
	    "    %x = read %a, %m, %k {index = \"pp\", extents = [2, 2]} : f32[2, 2]\n"
	    "    %y = read %b, %k, %zero {index = \"pp\", extents = [2, 4]} : f32[2, 4]\n"
	    "    %t = dot %x, %y, %s : f32[2, 4]\n"
	    "    yield %t\n"
	    "  }\n"
	    "  write %c, %m, %zero, %r {index = \"pp\", extents = [2, 4]}\n"
	    "}\n",
	    3, TENSOR(a, 5, 7), TENSOR(b, 7, 3), TENSOR(c, 5, 3), SCALAR(5), SCALAR(7), SCALAR(3));
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 3; j++) {
			float s = 0;
			for (int k = 0; k < 7; k++)
				s += a[i * 7 + k] * b[k * 3 + j];
			assert_true(c[i * 3 + j] == s);
		}
}

static void
fibonacci_carries_swap(void **state)
{
	int32_t out[4];

	RUN("kernel @fib(%o: out i32[4]) grid(p) {\n"
	    "  %z = const {value = 0} : i64\n"
	    "  %one = const {value = 1} : i64\n"
	    "  %n = const {value = 10} : i64\n"
	    "  %a0 = const {value = 0} : i32[4]\n"
	    "  %b0 = const {value = 1} : i32[4]\n"
	    "  %a, %b = for %z, %n, %one, %a0, %b0 : i32[4], i32[4] do (%i: i64, %x: i32[4], %y: i32[4]) {\n"
	    "    %s = add %x, %y : i32[4]\n"
	    "    yield %y, %s\n"
	    "  }\n"
	    "  write %o, %z, %a {index = \"p\", extents = [4]}\n"
	    "}\n",
	    1, TENSOR(out, 4));
	for (int i = 0; i < 4; i++)
		assert_int_equal(out[i], 55);
}

static void
pointers_with_mask(void **state)
{
	float x[10], y[10], out[10];

	for (int i = 0; i < 10; i++) {
		x[i] = (float)i;
		y[i] = (float)(10 * i);
		out[i] = -1;
	}
	Buffer bx = {.arg = {.data = x, .low = (char *)x, .high = (char *)(x + 10)}, .bytes = sizeof x};
	Buffer by = {.arg = {.data = y, .low = (char *)y, .high = (char *)(y + 10)}, .bytes = sizeof y};
	Buffer bo = {.arg = {.data = out, .low = (char *)out, .high = (char *)(out + 10)}, .bytes = sizeof out};
	RUN("kernel @add(%x: *f32, %y: *f32, %o: *mut f32, %n: i32) grid(pid) {\n"
	    "  %pid = program_id {axis = 0} : i64\n"
	    "  %b = const {value = 4} : i64\n"
	    "  %s = mul %pid, %b : i64\n"
	    "  %s4 = broadcast %s : i64[4]\n"
	    "  %io = iota {axis = 0} : i64[4]\n"
	    "  %i = add %s4, %io : i64[4]\n"
	    "  %nw = cast %n : i64\n"
	    "  %n4 = broadcast %nw : i64[4]\n"
	    "  %m = lt %i, %n4 : bool[4]\n"
	    "  %xb = broadcast %x : *f32[4]\n"
	    "  %yb = broadcast %y : *f32[4]\n"
	    "  %ob = broadcast %o : *mut f32[4]\n"
	    "  %xp = ptr_add %xb, %i : *f32[4]\n"
	    "  %yp = ptr_add %yb, %i : *f32[4]\n"
	    "  %op = ptr_add %ob, %i : *mut f32[4]\n"
	    "  %xv = load %xp, %m : f32[4]\n"
	    "  %yv = load %yp, %m : f32[4]\n"
	    "  %v = add %xv, %yv : f32[4]\n"
	    "  store %op, %v, %m\n"
	    "}\n",
	    3, bx, by, bo, SCALAR(10));
	for (int i = 0; i < 10; i++)
		assert_true(out[i] == (float)(11 * i));
}

/* A tensor of more than 2^31 elements, all of them the same few bytes: starts and strides must not be cut. */
static void
huge_tensor(void **state)
{
	float x[4] = {5, 6, 7, 8}, y[6];
	int64_t n = INT64_C(1) << 33;
	Buffer bx = {.arg = {.data = x, .low = (char *)x, .high = (char *)(x + 4), .dim = {n, 4}, .stride = {0, 1}},
	    .bytes = sizeof x};

	RUN("kernel @k(%x: in strided f32[N, 4], %y: out f32[2, 3], %N: dim) grid(p) {\n"
	    "  %r = const {value = 8589934591} : i64\n"
	    "  %c = const {value = 1} : i64\n"
	    "  %z = const {value = 0} : i64\n"
	    "  %v = read %x, %r, %c {index = \"pp\", extents = [2, 3]} : f32[2, 3]\n"
	    "  write %y, %z, %z, %v {index = \"pp\", extents = [2, 3]}\n"
	    "}\n",
	    1, bx, TENSOR(y, 2, 3), SCALAR(n));
	const float want[6] = {6, 7, 8, 0, 0, 0};
	assert_memory_equal(y, want, sizeof y);
}

/* Colliding elements of one write leave one of the values, whole. */
static void
colliding_scatter(void **state)
{
	int32_t ids[6] = {1, 0, 1, 2, 1, 0};
	double x[6] = {10.5, 20.5, 30.5, 40.5, 50.5, 60.5}, y[4] = {0, 0, 0, 7};

	RUN("kernel @k(%i: in i32[6], %x: in f64[6], %y: out f64[4]) grid(p) {\n"
	    "  %z = const {value = 0} : i64\n"
	    "  %g = read %i, %z {index = \"p\", extents = [6]} : i32[6]\n"
	    "  %v = read %x, %z {index = \"p\", extents = [6]} : f64[6]\n"
	    "  write %y, %g, %v {index = \"g\", extents = []}\n"
	    "}\n",
	    1, TENSOR(ids, 6), TENSOR(x, 6), TENSOR(y, 4));
	assert_true(y[0] == 20.5 || y[0] == 60.5);
	assert_true(y[1] == 10.5 || y[1] == 30.5 || y[1] == 50.5);
	assert_true(y[2] == 40.5 && y[3] == 7);
}

static void
unaligned_bases(void **state)
{
	float memory[2200], out[2200];

	for (int i = 0; i < 2200; i++)
		memory[i] = (float)i;
	for (int shift = 0; shift < 5; shift++) {
		memset(out, 0, sizeof out);
		RUN("kernel @k(%x: in f32[2100], %y: out f32[2100]) grid(p) {\n"
		    "  %z = const {value = 0} : i64\n"
		    "  %v = read %x, %z {index = \"p\", extents = [2100]} : f32[2100]\n"
		    "  %w = add %v, %v : f32[2100]\n"
		    "  write %y, %z, %w {index = \"p\", extents = [2100]}\n"
		    "}\n",
		    1, tensor_of(memory + shift, 2100 * 4, DIMS(2100)), tensor_of(out + 2 * shift, 2100 * 4, DIMS(2100)));
		for (int i = 0; i < 2100; i++)
			assert_true(out[2 * shift + i] == (float)(2 * (i + shift)));
	}
}

static void
tile_beyond_memory(void **state)
{
	Compile *cx = compile_open();
	Module *m = parse_module(cx,
	    "kernel @k(%y: out f32[4]) grid(p) {\n"
	    "  %z = const {value = 0} : i64\n"
	    "  %i = iota {axis = 0} : i64[1048576, 524288]\n"
	    "  %s = sort %i {axis = 0} : i64[1048576, 524288]\n"
	    "  %r = reduce %s {fn = \"sum\", axis = 0} : i64[524288]\n"
	    "  %t = reduce %r {fn = \"sum\", axis = 0} : i64\n"
	    "  %f = cast %t : f32\n"
	    "  write %y, %z, %f {index = \"i\"}\n"
	    "}\n");
	const char *why;
	Plan *p = plan_open(m->funcs.at[0], NULL, &why);

	assert_non_null(p);
	assert_true(plan_scratch_bytes(p) > (size_t)1 << 42);
	assert_null(worker_open(p));
	plan_close(p);
	compile_close(cx);
}

static const char reports[] =
    "file 0 \"k.tgl\"\n"
    "kernel @k(%x: in i32[4]) grid(p, q) {\n"
    "  %p = program_id {axis = 0} : i64 @2:1\n"
    "  %q = program_id {axis = 1} : i64 @2:1\n"
    "  %z = const {value = 0} : i64 @2:1\n"
    "  %v = read %x, %z {index = \"p\", extents = [4]} : i32[4] @3:1\n"
    "  %h = const {value = 0.1} : f64 @4:1\n"
    "  print %h, %v, %q {text = \"x is\"} @4:1\n"
    "  %three = const {value = 3} : i32[4] @5:1\n"
    "  %ok = lt %v, %three : bool[4] @5:1\n"
    "  assert %ok, %p {text = \"too large\"} @6:3\n"
    "}\n";

static void
collect(void *user, const char *line)
{
	text_printf(user, "%s|", line);
}

static void
asserts_and_prints(void **state)
{
	int32_t x[4] = {1, -2, 5, 0};
	const int64_t grid[3] = {2, 2, 1};
	Compile *cx = compile_open();
	Text lines = {0};
	PlanOptions opt = {.print = collect, .user = &lines};
	Buffer b[] = {TENSOR(x, 4)};
	Module *m = parse_module(cx, reports);
	Fault f;

	run_once(m, &opt, b, 1, grid, &f);
	assert_string_equal(lines.at, "program (0, 0): x is 0.1 [1, -2, 5, 0] 0|");
	assert_int_equal(f.kind, FAULT_ASSERT);
	assert_int_equal(f.place.line, 6);
	assert_int_equal(f.element, 2);
	assert_string_equal(f.text, "assertion failed in program (0, 0) at element 2: too large 0");
	text_close(&lines);
	lines = (Text){0};
	x[2] = 2;
	run_once(m, &opt, b, 1, grid, &f);
	assert_int_equal(f.kind, FAULT_NONE);
	assert_non_null(strstr(lines.at, "program (1, 0): x is 0.1 [1, -2, 2, 0] 0|"));
	assert_non_null(strstr(lines.at, "program (1, 1): x is 0.1 [1, -2, 2, 0] 1|"));
	text_close(&lines);
	compile_close(cx);
}

typedef struct Traced {
	int ops, values;
	double last;
} Traced;

static void
count_trace(void *user, const Op *op, const int64_t program[MAX_AXES], int out, const void *data)
{
	Traced *t = user;

	t->ops += out == 0;
	t->values++;
	if (op->kind == OP_CAST)
		t->last = *(const double *)data;
}

/* Every op with results is traced in every trip, whole, whatever a plain run would have fused. */
static void
trace_sees_every_value(void **state)
{
	float x[4] = {1, 2, 3, 4};
	const int64_t grid[3] = {1, 1, 1};
	Compile *cx = compile_open();
	Traced t = {0};
	PlanOptions opt = {.trace = count_trace, .user = &t};
	Buffer b[] = {TENSOR(x, 4)};
	Fault f;

	run_once(parse_module(cx,
		     "kernel @k(%x: inout f32[4]) grid(p) {\n"
		     "  %z = const {value = 0} : i64\n"
		     "  %n = const {value = 3} : i64\n"
		     "  %one = const {value = 1} : i64\n"
		     "  %v = read %x, %z {index = \"p\", extents = [4]} : f32[4]\n"
		     "  %r = for %z, %n, %one, %v : f32[4] do (%i: i64, %a: f32[4]) {\n"
		     "    %b = add %a, %a : f32[4]\n"
		     "    yield %b\n"
		     "  }\n"
		     "  %c = cast %r : f64[4]\n"
		     "}\n"),
	    &opt, b, 1, grid, &f);
	assert_int_equal(t.ops, 3 + 1 + 3 + 1 + 1);
	assert_int_equal(t.values, t.ops);
	assert_true(t.last == 8);
	compile_close(cx);
}

static double
perturbed_sum(double u, uint64_t seed)
{
	static double x[1000];
	double y;
	const int64_t grid[3] = {1, 1, 1};
	Compile *cx = compile_open();
	PlanOptions opt = {.perturb = u, .seed = seed};
	Buffer b[] = {TENSOR(x, 1000), tensor_of(&y, 8, DIMS(1))};
	Fault f;

	for (int i = 0; i < 1000; i++)
		x[i] = 1;
	run_once(parse_module(cx,
		     "reference @k(%x: in f64[1000], %y: out f64[1]) {\n"
		     "  %z = const {value = 0} : i64\n"
		     "  %v = read %x, %z {index = \"p\", extents = [1000]} : f64[1000]\n"
		     "  %r = reduce %v {fn = \"sum\", axis = 0} : f64\n"
		     "  write %y, %z, %r {index = \"i\"}\n"
		     "}\n"),
	    &opt, b, 2, grid, &f);
	compile_close(cx);
	return y;
}

/* With u = 2^-24 the sum of 1000 ones strays by u * 1000 * sqrt(1000 / 3) at most from partial sums, besides a
 * little from the terms: neither nothing nor far more, and the same again for the same seed. */
static void
perturb_strays_as_rounding_does(void **state)
{
	double worst = 0;

	assert_true(perturbed_sum(0, 1) == 1000);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		double off = perturbed_sum(0x1p-24, seed) - 1000;
		assert_true(off != 0);
		worst = MAX(worst, off < 0 ? -off : off);
	}
	assert_true(worst > 0x1p-24 * 1000 * 3 && worst < 0x1p-24 * 1000 * 20);
	assert_true(perturbed_sum(0x1p-24, 7) == perturbed_sum(0x1p-24, 7));
	assert_true(perturbed_sum(0x1p-24, 7) != perturbed_sum(0x1p-24, 8));
}

/* Elements beyond the extents before padding are not in memory: the fill on reading, dropped on writing. */
static void
valid_extents(void **state)
{
	float x[4 * 4], y[4 * 4] = {0};
	int32_t ids[4] = {3, 2, 1, 0}, z[4 * 4] = {0};

	for (int i = 0; i < 16; i++)
		x[i] = (float)i + 1;
	RUN("layout #0 = blocked(shape = [4, 4], lanes = [4, 4])\n"
	    "kernel @k(%x: in f32[R, 4], %y: inout f32[R, 4], %ids: in i32[4], %z: inout i32[4, 4], %R: dim) {\n"
	    "	%0 = const {value = 0} : i64\n"
	    "	%f = const {value = 9.0} : f32\n"
	    "	%a = read %x, %0, %0, %f {index = \"pp\", extents = [4, 4], valid = [3, 2]} : f32[4, 4]\n"
	    "	%b = convert %a : f32[4, 4] #0\n"
	    "	write %y, %0, %0, %b {index = \"pp\", extents = [4, 4], valid = [4, 3]}\n"
	    "	%g = read %ids, %0 {index = \"p\", extents = [4]} : i32[4]\n"
	    "	%one = const {value = 1} : i32[4, 4]\n"
	    "	%o = atomic %z, %g, %0, %one {index = \"gp\", extents = [4], valid = [3, 2], fn = \"add\"} : i32[4, 4]\n"
	    "	write %z, %0, %0, %o {index = \"pp\", extents = [4, 4], valid = [0, 4]}\n"
	    "}\n",
	    1, TENSOR(x, 4, 4), TENSOR(y, 4, 4), TENSOR(ids, 4), TENSOR(z, 4, 4), SCALAR(4));
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++) {
			float want = k == 3 ? 0 : i < 3 && k < 2 ? x[i * 4 + k] : 9;
			assert_true(y[i * 4 + k] == want);
			assert_int_equal(z[i * 4 + k], i > 0 && k < 2);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_add),
		cmocka_unit_test(softmax),
		cmocka_unit_test(matmul),
		cmocka_unit_test(fibonacci_carries_swap),
		cmocka_unit_test(pointers_with_mask),
		cmocka_unit_test(huge_tensor),
		cmocka_unit_test(colliding_scatter),
		cmocka_unit_test(unaligned_bases),
		cmocka_unit_test(tile_beyond_memory),
		cmocka_unit_test(asserts_and_prints),
		cmocka_unit_test(trace_sees_every_value),
		cmocka_unit_test(valid_extents),
		cmocka_unit_test(perturb_strays_as_rounding_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
