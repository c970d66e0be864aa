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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_add),
		cmocka_unit_test(softmax),
		cmocka_unit_test(matmul),
		cmocka_unit_test(fibonacci_carries_swap),
		cmocka_unit_test(pointers_with_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
