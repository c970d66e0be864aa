/* Cases: examples materialised, outputs compared with references (right and wrong ones), timing and
 * counts of work. */
#include "runtime_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] =
    "kernel softmax<BLOCK = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(row: R) {\n"
    "    let v = x[row, 0 +: BLOCK] else -inf;\n"
    "    let e = exp(v - max(v));\n"
    "    y[row, 0 +: BLOCK] = e / sum(e);\n"
    "}\n"
    "reference softmax {\n"
    "    let e = exp(x[:, :] - max(x[:, :], axis = 1)[:, new]);\n"
    "    y[:, :] = e / sum(e, axis = 1)[:, new];\n"
    "}\n"
    "example softmax { R = 33; C = 100; x = normal(0, 1); }\n"
    "example softmax \"wide\" { R = 3; C = 1000; x = uniform(-5, 5); }\n"
    "example softmax \"big\" bench { R = 64; C = 64; x = normal(0, 1); }\n"
    "kernel bad_softmax<BLOCK = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(row: R) {\n"
    "    let v = x[row, 0 +: BLOCK] else -inf;\n"
    "    let e = exp(v - max(v));\n"
    "    y[row, 0 +: BLOCK] = e / (sum(e) + 0.001);\n"
    "}\n"
    "reference bad_softmax {\n"
    "    let e = exp(x[:, :] - max(x[:, :], axis = 1)[:, new]);\n"
    "    y[:, :] = e / sum(e, axis = 1)[:, new];\n"
    "}\n"
    "example bad_softmax { R = 33; C = 100; x = normal(0, 1); }\n"
    "kernel forgets(x: in f16[N], y: out f16[N]) grid(i: cdiv(N, 16) - 1) { y[i * 16 +: 16] = x[i "
    "* 16 +: 16]; }\n"
    "reference forgets { y[:] = x[:]; }\n"
    "example forgets { N = 40; x = normal(0, 1); }\n"
    "kernel matmul(a: in f16[M, K], b: in f16[K, N], c: out f16[M, N]) grid(m: cdiv(M, 32), n: "
    "cdiv(N, 32)) {\n"
    "    var acc = zeros([32, 32], f32);\n"
    "    for k in range(0, K, 16) { acc += a[m * 32 +: 32, k +: 16] @ b[k +: 16, n * 32 +: 32]; }\n"
    "    c[m * 32 +: 32, n * 32 +: 32] = acc as f16;\n"
    "}\n"
    "reference matmul { c[:, :] = a[:, :] @ b[:, :]; }\n"
    "example matmul { M = 70; N = 40; K = 48; a = normal(0, 1); b = normal(0, 1); }\n"
    "kernel increment(x: inout i32[N], by: i32) grid(i: cdiv(N, 8)) { x[i * 8 +: 8] = x[i * 8 +: "
    "8] + by; }\n"
    "reference increment { x[:] = x[:] + by; }\n"
    "example increment { N = 20; x = arange; by = 3; }\n"
    "kernel wrong_integer(x: in i32[N], y: out i32[N]) grid(i: N) { y[i] = x[i] + (i == 7 ? 1 : 0) "
    "as i32; }\n"
    "reference wrong_integer { y[:] = x[:]; }\n"
    "example wrong_integer { N = 20; x = integers(0, 100); }\n"
    "kernel pointers(x: *f32, y: *mut f32, n: i32) grid(b: cdiv(n, 16)) {\n"
    "    let i = b * 16 + arange(0, 16);\n"
    "    store(y + i, load(x + i, i < n) * 2.0, i < n);\n"
    "}\n"
    "reference pointers { y[:] = x[:] * 2.0; }\n"
    "example pointers { n = 50; x = normal(0, 1, shape = [50]); y = zeros([50], f32); }\n"
    "kernel half_done(x: in f32[N], y: out f32[N]) grid(i: N) { y[i] = x[i]; }\n"
    "kernel warped<B = 8, warps = 2, stages = 2>(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, B)) {\n"
    "    y[i * B +: B] = x[i * B +: B];\n"
    "}\n"
    "example warped { N = 4; stages = 3; x = arange; }\n"
    "kernel from_file(x: in f32[N], y: out f32[N]) grid(i: N) { y[i] = x[i]; }\n"
    "example from_file { N = 4; x = file(\"in.npy\"); }\n"
    "kernel stomp(y: *mut f32, n: i32) grid(i: 1) { store(y + arange(0, 32), 1.0, arange(0, 32) <= n); }\n"
    "reference stomp { y[:] = 1.0; }\n"
    "example stomp { n = 16; y = zeros([16], f32); }\n"
    "kernel triangle(a: in f32[N, N], y: out f32[N]) grid(i: N) {\n"
    "    var s = 0.0 as f32;\n"
    "    for k in range(0, i + 1) { s += a[i, k]; }\n"
    "    y[i] = s;\n"
    "}\n"
    "example triangle { N = 30; a = normal(0, 1); }\n"
    "kernel least(y: out f32[2], n: i64) grid(i: 1) {\n"
    "    for k in range(0, cdiv(n, 7)) { y[0] = 1.0; }\n"
    "    for k in range(0, -n) { y[1] = 1.0 + k as f32; }\n"
    "}\n"
    "example least { n = -9223372036854775807 - 1; }\n"
    "kernel searches(a: in i32[N], y: out f32[1]) grid(i: 1) {\n"
    "    var s = 1.0 as f32;\n"
    "    for k in range(0, a[0]) { s = s * 2.0; }\n"
    "    y[0] = s;\n"
    "}\n"
    "example searches { N = 3; a = integers(1, 4); }\n"
    "kernel loose(x: in f32[N], y: out i8[N]) grid(i: N) { y[i] = (x[i] * 10.0 + 0.01) as i8; }\n"
    "reference loose { y[:] = (x[:] * 10.0) as i8; }\n"
    "example loose { N = 200; x = uniform(0, 10); tolerance(1, 0); }\n";

static int
setup(void **state)
{
	return fixture_open(state, "case.tgl", source, 2);
}

static TglCase *
case_of(Fixture *f, const char *kernel, const TglCaseOptions *o)
{
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, kernel), o);
	if (!c)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(c);
	return c;
}

/* Runs a kernel's first example and compares its first output. */
static TglCheck
check(Fixture *f, const char *kernel, const TglCaseOptions *o)
{
	TglCase *c = case_of(f, kernel, o);
	TglCheck r;
	bool more;
	assert_ok(f->cx, tgl_case_run(c, NULL));
	assert_ok(f->cx, tgl_case_check(c, 0, &r, &more));
	assert_true(more);
	tgl_case_close(&c);
	return r;
}

static void
test_right_ones_pass(void **state)
{
	Fixture *f = *state;
	const char *const kernels[] = {"softmax", "matmul", "increment", "pointers", "loose"};
	for (int i = 0; i < 5; i++) {
		TglCheck r = check(f, kernels[i], NULL);
		if (!r.passed)
			print_error("%s: got %g, expected %g, error %g, bound %g\n", kernels[i],
			    r.got, r.want, r.error, r.bound);
		assert_true(r.passed);
		assert_true(r.count > 0);
		assert_int_equal(r.nwrong, 0);
		assert_false(r.guard_broken);
	}
	TglCheck r = check(f, "softmax", &(TglCaseOptions){.example = "wide", .seed = 9});
	assert_true(r.passed);
	assert_int_equal(r.count, 3000);
	assert_true(r.ratio > 0 && r.ratio <= 1);
}

static void
test_wrong_ones_fail(void **state)
{
	Fixture *f = *state;
	TglCheck r = check(f, "bad_softmax", NULL);
	assert_false(r.passed);
	assert_true(r.ratio > 1);
	assert_true(r.nwrong > 3000);
	assert_string_equal(r.param, "y");
	assert_int_equal(r.rank, 2);
	assert_true(r.index[0] * 100 + r.index[1] == r.element);
	r = check(f, "forgets", NULL);
	assert_false(r.passed);
	assert_int_equal(r.nwrong, 8);
	assert_true(r.element >= 32);
	assert_true(isnan(r.got));
	assert_true(isinf(r.ratio));
	r = check(f, "wrong_integer", NULL);
	assert_false(r.passed);
	assert_int_equal(r.nwrong, 1);
	assert_int_equal(r.element, 7);
	assert_true(r.got == r.want + 1);
}

static void
test_choosing_examples(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "softmax");
	TglExample e;
	assert_true(tgl_kernel_example(k, 1, &e));
	assert_string_equal(e.label, "wide");
	assert_false(e.is_bench);
	assert_true(tgl_kernel_example(k, 2, &e));
	assert_true(e.is_bench);
	assert_false(tgl_kernel_example(k, 3, &e));
	TglCase *c = case_of(f, "softmax", &(TglCaseOptions){.by_index = true, .index = 2});
	assert_string_equal(tgl_case_label(c), "big");
	tgl_case_close(&c);
	c = case_of(f, "softmax", NULL);
	assert_string_equal(tgl_case_label(c), "");
	const char *name, *text;
	assert_true(tgl_case_value(c, 0, &name, &text));
	assert_string_equal(name, "R");
	assert_string_equal(text, "33");
	assert_true(tgl_case_value(c, 2, &name, &text));
	assert_string_equal(name, "BLOCK");
	assert_string_equal(text, "128");
	int64_t grid[3];
	assert_true(tgl_case_grid(c, grid));
	assert_int_equal(grid[0], 33);
	tgl_case_close(&c);
	assert_null(tgl_case_open(f->dev, k, &(TglCaseOptions){.example = "wiide"}));
	assert_int_equal(tgl_error(f->cx)->status, TGL_ERROR_NAME);
	assert_string_equal(tgl_error(f->cx)->code, "E1157");
	assert_non_null(strstr(tgl_error(f->cx)->text, "did you mean 'wide'?"));
	assert_null(tgl_case_open(f->dev, k, &(TglCaseOptions){.by_index = true, .index = 3}));
	assert_int_equal(tgl_error(f->cx)->status, TGL_ERROR_NAME);
	assert_null(tgl_case_open(f->dev, NULL, NULL));
	assert_null(tgl_case_open(NULL, k, NULL));
}

static void
test_overriding_an_example(void **state)
{
	Fixture *f = *state;
	TglArg size[] = {tgl_arg_int("C", 17), tgl_arg_text("x", "uniform(2, 3)")};
	TglCase *c = case_of(f, "softmax", &(TglCaseOptions){.args = size, .nargs = 2});
	TglTensor *x = tgl_case_tensor(c, "x");
	assert_int_equal(tgl_tensor_dim(x, 0), 33);
	assert_int_equal(tgl_tensor_dim(x, 1), 17);
	for (int i = 0; i < 33 * 17; i++) {
		double v;
		tgl_tensor_element(x, i, &v, NULL);

		assert_true(v >= 2 && v <= 3);
	}
	assert_null(tgl_case_tensor(c, "z"));
	tgl_case_close(&c);

	TglTensor *mine = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){5, 9});
	tgl_tensor_fill(mine, 1);
	TglArg given[] = {tgl_arg_tensor("x", mine)};
	c = case_of(f, "softmax", &(TglCaseOptions){.args = given, .nargs = 1, .no_example = true});
	tgl_tensor_close(&mine);
	assert_ok(f->cx, tgl_case_run(c, NULL));
	double v;
	tgl_tensor_element(tgl_case_tensor(c, "y"), 44, &v, NULL);
	assert_true(fabs(v - 1.0 / 9) < 1e-6);
	int n;
	const TglArg *args = tgl_case_args(c, &n);
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "softmax"), args, n, NULL));
	tgl_case_close(&c);

	TglArg four = tgl_arg_int("warps", 4);
	c = case_of(f, "warped", &(TglCaseOptions){.args = &four, .nargs = 1});
	args = tgl_case_args(c, &n);                    /* `warps` once, `stages` of the example, no B: a launch chooses it */
	assert_int_equal(n, 4);
	assert_ok(f->cx, tgl_launch(f->dev, tgl_kernel(f->p, "warped"), args, n, NULL));
	tgl_case_close(&c);

	assert_null(tgl_case_open(f->dev, tgl_kernel(f->p, "half_done"),
	    &(TglCaseOptions){.args = (TglArg[]){tgl_arg_int("N", 3)}, .nargs = 1}));
	assert_non_null(
	    strstr(tgl_error(f->cx)->text, "nothing gives argument 'x' of kernel 'half_done'"));
	assert_string_equal(tgl_error(f->cx)->code, "E1174");
	TglArg broken[] = {tgl_arg_text("x", "normal(0,")};
	assert_null(tgl_case_open(
	    f->dev, tgl_kernel(f->p, "softmax"), &(TglCaseOptions){.args = broken, .nargs = 1}));
	assert_int_equal(tgl_error(f->cx)->status, TGL_ERROR_LAUNCH);
}

/* A seed gives the same numbers again, another gives others. */
static void
test_seeds(void **state)
{
	Fixture *f = *state;
	float a[3300], b[3300], d[3300];
	float *to[] = {a, b, d};
	const uint64_t seed[] = {1, 1, 2};
	for (int i = 0; i < 3; i++) {
		TglCase *c = case_of(f, "softmax", &(TglCaseOptions){.seed = seed[i]});
		assert_ok(f->cx, tgl_tensor_read(tgl_case_tensor(c, "x"), to[i], sizeof a));
		tgl_case_close(&c);
	}
	assert_memory_equal(a, b, sizeof a);
	assert_memory_not_equal(a, d, sizeof a);
}

/* What a kernel changes starts anew each time. */
static void
test_inout_is_restored(void **state)
{
	Fixture *f = *state;
	TglCase *c = case_of(f, "increment", NULL);
	for (int i = 0; i < 3; i++) {
		int64_t v;
		TglCheck r;
		bool more;
		assert_ok(f->cx, tgl_case_run(c, NULL));
		tgl_tensor_element(tgl_case_tensor(c, "x"), 5, NULL, &v);
		assert_int_equal(v, 8);
		assert_ok(f->cx, tgl_case_check(c, 0, &r, &more));
		assert_true(more && r.passed);
		assert_ok(f->cx, tgl_case_check(c, 1, &r, &more));
		assert_false(more);
	}
	tgl_case_close(&c);
}

static void
test_nothing_to_check(void **state)
{
	Fixture *f = *state;
	TglCase *c = case_of(f, "softmax", NULL);
	TglCheck r;
	bool more;
	assert_int_equal(tgl_case_check(c, 0, &r, &more), TGL_ERROR_USAGE);
	assert_string_equal(tgl_error(f->cx)->code, "E1159");
	assert_int_equal(tgl_case_check(c, 0, NULL, &more), TGL_ERROR_USAGE);
	tgl_case_close(&c);
	tgl_case_close(&c);
	TglArg args[] = {tgl_arg_text("x", "zeros"), tgl_arg_int("N", 3)};
	c = case_of(f, "half_done", &(TglCaseOptions){.args = args, .nargs = 2});
	assert_ok(f->cx, tgl_case_run(c, NULL));
	assert_int_equal(tgl_case_check(c, 0, &r, &more), TGL_ERROR_NAME);
	assert_string_equal(tgl_error(f->cx)->code, "E1158");
	tgl_case_close(&c);
	assert_int_equal(tgl_case_run(NULL, NULL), TGL_ERROR_USAGE);
}

static void
test_files(void **state)
{
	Fixture *f = *state;
	char folder[] = "/tmp/tegula-case-XXXXXX", path[64], tgl[64];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/in.npy", folder);
	snprintf(tgl, sizeof tgl, "%s/k.tgl", folder);
	TglProgram *p = tgl_program_text(f->cx, tgl, source, strlen(source));
	TglKernel *k = tgl_kernel(p, "from_file");
	assert_null(tgl_case_open(f->dev, k, NULL));
	assert_string_equal(tgl_error(f->cx)->code, "E1201");
	assert_non_null(strstr(tgl_error(f->cx)->text, path));
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){5});
	assert_ok(f->cx, tgl_tensor_save(t, path));
	assert_null(tgl_case_open(f->dev, k, NULL));
	assert_non_null(strstr(tgl_error(f->cx)->text, "argument 'x' has shape [5], expected [4]"));
	assert_string_equal(tgl_error(f->cx)->code, "E1176");
	tgl_tensor_close(&t);
	t = tgl_tensor(f->dev, TGL_F64, 1, (int64_t[]){4});
	assert_ok(f->cx, tgl_tensor_save(t, path));
	assert_null(tgl_case_open(f->dev, k, NULL));
	assert_string_equal(tgl_error(f->cx)->code, "E1206");
	tgl_tensor_close(&t);
	t = tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){4});
	tgl_tensor_fill(t, 6);
	assert_ok(f->cx, tgl_tensor_save(t, path));
	tgl_tensor_close(&t);
	TglCase *c = tgl_case_open(f->dev, k, NULL);
	assert_non_null(c);
	assert_ok(f->cx, tgl_case_run(c, NULL));
	double v;
	tgl_tensor_element(tgl_case_tensor(c, "y"), 3, &v, NULL);
	assert_true(v == 6);
	tgl_program_close(&p); /* the case keeps it */
	assert_ok(f->cx, tgl_case_run(c, NULL));
	tgl_case_close(&c);
	unlink(path);
	rmdir(folder);
}

static void
test_work(void **state)
{
	Fixture *f = *state;
	double bytes, flops;
	TglCase *c = case_of(f, "matmul", NULL);
	assert_ok(f->cx, tgl_case_work(c, &bytes, &flops));
	assert_true(bytes == 2 * (70 * 48 + 48 * 40 + 70 * 40));
	/* 3 x 2 programs, 3 trips each: a dot of 32 x 32 x 16, and perhaps the sum into acc */
	double dots = 6.0 * 3 * 2 * 32 * 32 * 16;
	assert_true(flops >= dots && flops <= dots + 6.0 * 3 * 32 * 32);
	tgl_case_close(&c);
	c = case_of(f, "increment", NULL);
	assert_ok(f->cx, tgl_case_work(c, &bytes, &flops));
	assert_true(bytes == 160);
	assert_true(flops == 0);
	tgl_case_close(&c);
}

/* Loops whose trips depend on the program's index are counted, those that depend on memory not. */
static void
test_work_of_loops(void **state)
{
	Fixture *f = *state;
	double flops;
	TglCase *c = case_of(f, "triangle", NULL);
	assert_ok(f->cx, tgl_case_work(c, NULL, &flops));
	assert_true(flops == 30 * 31 / 2);
	tgl_case_close(&c);
	c = case_of(f, "searches", NULL);
	assert_ok(f->cx, tgl_case_work(c, NULL, &flops));
	assert_true(flops == -1);
	tgl_case_close(&c);
	c = case_of(f, "least", NULL); /* -n wraps, as where it runs: no trips */
	assert_ok(f->cx, tgl_case_work(c, NULL, &flops));
	assert_true(flops == 0);
	tgl_case_close(&c);
}

static void
test_guards(void **state)
{
	Fixture *f = *state;
	TglArg args[] = {tgl_arg_int("n", 15)};
	TglCase *c = case_of(f, "stomp", NULL); /* one element past: the cpu device refuses it */
	assert_string_equal(tgl_status_name(tgl_case_run(c, NULL)), "fault");
	assert_string_equal(tgl_error(f->cx)->code, "E1196");
	assert_non_null(strstr(tgl_error(f->cx)->message, "element 16 of 'y'"));
	tgl_case_close(&c);
	c = case_of(f, "stomp", &(TglCaseOptions){.args = args, .nargs = 1});
	for (int strays = 0; strays < 2; strays++) { /* as on a device where nothing holds pointers */
		TglCheck r;
		bool more;
		assert_ok(f->cx, tgl_case_run(c, NULL));
		((float *)tgl_tensor_data(tgl_case_tensor(c, "y")))[16] += (float)strays;
		assert_ok(f->cx, tgl_case_check(c, 0, &r, &more));
		assert_int_equal(r.guard_broken, strays);
		assert_int_equal(r.passed, !strays);
		assert_int_equal(r.nwrong, 0);
	}
	tgl_case_close(&c);
}

static bool
stop_at_three(void *user, int run, double seconds)
{
	++*(int *)user;
	return run < 3;
}

static void
test_bench(void **state)
{
	Fixture *f = *state;
	TglCase *c = case_of(f, "softmax", &(TglCaseOptions){.example = "big"});
	TglBench b;
	assert_ok(f->cx,
	    tgl_case_bench(c, &(TglBenchOptions){.seconds = 0.01, .least = 7, .most = 9}, &b));
	assert_true(b.runs >= 7 && b.runs <= 9);
	assert_true(b.least <= b.median && b.median <= b.most && b.least > 0);
	assert_true(b.bytes == 2.0 * 64 * 64 * 4);
	assert_true(b.flops > 0);
	int calls = 0;
	assert_ok(f->cx,
	    tgl_case_bench(c, &(TglBenchOptions){.progress = stop_at_three, .user = &calls}, &b));
	assert_int_equal(b.runs, 3);
	assert_int_equal(calls, 3);
	assert_int_equal(tgl_case_bench(c, NULL, NULL), TGL_ERROR_USAGE);
	tgl_case_close(&c);
}

static void
test_code(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "softmax");
	const TglCaseOptions wide = {.example = "wide"};
	const TglArg sizes[] = {tgl_arg_int("R", 4), tgl_arg_int("C", 2000)};
	const TglCaseOptions own = {.no_example = true, .args = sizes, .nargs = 2};
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_TIR, "cpu", NULL), "f32[128]"));
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_TIR, "cpu", &wide), "f32[1024]"));
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_TIR, "cpu", &own), "f32[2048]"));
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_THREAD, "sm_80", NULL), "softmax"));
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_DEVICE, "apple7", NULL), "#include <metal_stdlib>"));
	assert_null(tgl_kernel_code(k, TGL_CODE_DEVICE, "cpu", NULL));
	assert_string_equal(tgl_error(f->cx)->code, "E1142");
	assert_null(tgl_kernel_code(k, TGL_CODE_DEVICE, "sm_1", NULL));
	assert_true(strlen(tgl_error(f->cx)->message) > 0);
	assert_null(tgl_kernel_code(k, TGL_CODE_TIR, "cpu", &(TglCaseOptions){.example = "none"}));
	assert_string_equal(tgl_error(f->cx)->code, "E1157");
	const char *ptx = tgl_kernel_code(k, TGL_CODE_DEVICE, "sm_90a", NULL);
	if (!ptx) /* no LLVM */
		return;
	assert_non_null(strstr(ptx, ".target sm_90a"));
	assert_non_null(strstr(tgl_kernel_code(k, TGL_CODE_INSPECTION, "sm_90a", NULL), "softmax"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_right_ones_pass),
	    TEST(test_wrong_ones_fail),
	    TEST(test_choosing_examples),
	    TEST(test_overriding_an_example),
	    TEST(test_seeds),
	    TEST(test_inout_is_restored),
	    TEST(test_nothing_to_check),
	    TEST(test_files),
	    TEST(test_work),
	    TEST(test_work_of_loops),
	    TEST(test_guards),
	    TEST(test_bench),
	    TEST(test_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
