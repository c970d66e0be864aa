/* The Metal device on a stand-in for macOS's libraries (tests/mock/objc.c), which LD_LIBRARY_PATH must name and which runs
 * kernels on the checker of Metal text: memory, arguments, launches, times, faults, and a message for every failure.  What
 * the compiler hands over is the test's own. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/case/case.h"

static const char source[] =
    "kernel copy<BLOCK = 64>(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, BLOCK)) {\n"
    "    y[i * BLOCK +: BLOCK] = x[i * BLOCK +: BLOCK];\n"
    "}\n"
    "reference copy { y[:] = x[:]; }\n"
    "example copy \"small\" { N = 100; x = normal(0, 1); }\n"
    "kernel values(x: in strided i16[M, N], y: out f32[8], a: f32, b: bf16, n: i64, t: bool) grid(i: M, j: 3) {\n"
    "    y[0] = a;\n"
    "}\n"
    "kernel sure(y: out f32[1], n: i64) grid(i: 1) { y[0] = 1; assert(n < 3, \"here\"); }\n"
    "kernel many(y: out i32[1], n: i64) grid(i: n) { y[0] = 1; }\n";

static const char many_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n\n[[max_total_threads_per_threadgroup(32)]]\n"
    "kernel void many(device int *y [[buffer(0)]], uint i [[thread_position_in_grid]])\n{\n\ty[0] = 1;\n}\n";

static const char copy_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "struct copy_values {\n\tlong N;\n\tint programs;\n};\n\n[[max_total_threads_per_threadgroup(64)]]\n"
    "kernel void copy(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],\n"
    "    constant copy_values &v [[buffer(2)]], uint i [[thread_position_in_grid]])\n"
    "{\n\tif (i < uint(v.N) && v.programs == int(v.N + 63) / 64)\n\t\ty[i] = x[i];\n}\n";

static const char wrong_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "struct copy_values {\n\tlong N;\n\tint programs;\n};\n\n[[max_total_threads_per_threadgroup(64)]]\n"
    "kernel void copy(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],\n"
    "    constant copy_values &v [[buffer(2)]], uint i [[thread_position_in_grid]])\n"
    "{\n\ty[i] = x[i + 100000];\n}\n";

static const char values_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "struct values_values {\n\tlong s0, s1;\n\tfloat a;\n\tbfloat b;\n\tlong n;\n\tbool t;\n\tlong M, N;\n"
    "\tint gi, gj;\n\tulong inverse;\n};\n\n"
    "[[max_total_threads_per_threadgroup(32)]]\n"
    "kernel void values(device const short *x [[buffer(0)]], device float *y [[buffer(1)]],\n"
    "    constant values_values &v [[buffer(2)]], threadgroup float *shared [[threadgroup(0)]],\n"
    "    uint group [[threadgroup_position_in_grid]], uint i [[thread_position_in_threadgroup]])\n"
    "{\n"
    "\tshared[i] = v.a;\n"
    "\tsimdgroup_barrier(mem_flags::mem_threadgroup);\n"
    "\tif (group != 0 || i != 0)\n\t\treturn;\n"
    "\ty[0] = shared[31];\n\ty[1] = float(as_type<ushort>(v.b));\n\ty[2] = float(v.n);\n\ty[3] = v.t ? 1.0f : 0.0f;\n"
    "\ty[4] = float(x[v.s0 + v.s1]);\n\ty[5] = float(v.M * 100 + v.N);\n"
    "\ty[6] = float(v.gi * 100 + v.gj) + (v.inverse == (1ul << 32 | 1ul) ? 0.5f : 0.0f);\n"
    "\ty[7] = float(v.s0 * 100 + v.s1);\n}\n";

static const char sure_text[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "struct sure_values {\n\tlong n;\n\tint g;\n};\n\n[[max_total_threads_per_threadgroup(32)]]\n"
    "kernel void sure(device float *y [[buffer(0)]], device uint *faults [[buffer(1)]],\n"
    "    constant sure_values &v [[buffer(2)]],\n"
    "    uint i [[thread_position_in_grid]])\n"
    "{\n\tif (i == 0) {\n\t\ty[0] = 1.0f;\n\t\tfaults[0] = 2;\n\t\tfaults[1] = 8;\n\t}\n}\n";

static struct {
	const char *text;
	int threads;
	int64_t shared;
} plan;

bool __wrap_compile_artefact(Module *m, const Target *t, Artefact *out);

bool
__wrap_compile_artefact(Module *m, const Target *t, Artefact *out)
{
	const Func *f = m->funcs.at[0];
	int n;
	const AbiParam *abi = artefact_abi(f, t, m->cx->mem, &n);
	*out = (Artefact){.form = FORM_MSL, .kernel = strdup(f->name), .threads = plan.threads, .warps = plan.threads / 32,
	    .shared_bytes = plan.shared, .naxis = f->naxis, .cluster = 1, .abi = calloc((size_t)n, sizeof *abi), .nabi = n,
	    .asserts = calloc(2, sizeof(char *)), .nasserts = 2, .registers = -1, .spill_bytes = -1, .stack_bytes = -1};
	memcpy(out->abi, abi, (size_t)n * sizeof *abi);
	snprintf(out->target, sizeof out->target, "%s", t->name);
	out->asserts[0] = strdup("m.tgl:1:1: other");
	out->asserts[1] = strdup("m.tgl:7:50: here");
	out->bytes = strdup(plan.text);
	out->size = strlen(plan.text) + 1;
	return true;
}

/* ---- the fixture ---- */

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
	int (*live)(void);
	int (*misuse)(void);
	void *lib;
} Fixture;

static void
clear_settings(void)
{
	const char *const names[] = {"DEVICES", "FAMILY", "DEFAULT", "THREADS", "WIDTH", "BUFFER", "OLD", "FAIL"};
	char name[64];
	for (int i = 0; i < LEN(names); i++) {
		snprintf(name, sizeof name, "MOCK_METAL_%s", names[i]);
		unsetenv(name);
	}
}

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	clear_settings();
	f->lib = dlopen("libobjc.A.dylib", RTLD_NOW);
	*(void **)&f->live = dlsym(f->lib, "mock_metal_live");
	*(void **)&f->misuse = dlsym(f->lib, "mock_metal_misuse");
	f->cx = tgl_context_open();
	f->p = tgl_program_text(f->cx, "m.tgl", source, strlen(source));
	if (!f->p)
		print_error("%s", tgl_error(f->cx)->text);
	plan.text = copy_text;
	plan.threads = 64;
	plan.shared = 0;
	*state = f;
	return f->p ? 0 : -1;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	assert_int_equal(f->live(), 0);
	assert_int_equal(f->misuse(), 0);
	clear_settings();
	free(f);
	return 0;
}

static void
open_device(Fixture *f)
{
	f->dev = tgl_device_open(f->cx, "metal", NULL);
	if (!f->dev)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(f->dev);
}

static void
assert_said(Fixture *f, TglStatus got, TglStatus want, const char *words)
{
	const char *text = tgl_error(f->cx)->text;
	assert_int_equal(got, want);
	if (!strstr(text, words))
		print_error("expected: %s\nfound: %s", words, text);
	assert_non_null(strstr(text, words));
}

static TglStatus
run_small(Fixture *f, TglCheck *check, double *seconds)
{
	bool more;
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, "copy"), NULL);
	assert_non_null(c);
	TglStatus s = tgl_case_run(c, seconds);
	if (s == TGL_OK)
		s = tgl_case_check(c, 0, check, &more);
	tgl_case_close(&c);
	return s;
}

/* ---- tests ---- */

static void
test_info(void **state)
{
	Fixture *f = *state;
	TglDeviceInfo info;
	bool found = false;
	for (int i = 0; tgl_device_list(f->cx, i, &info); i++)
		if (strcmp(info.name, "metal") == 0) {
			found = true;
			assert_true(info.available);
			assert_non_null(strstr(info.text, "Mock M1, Apple family 9, 8 GiB"));
		}
	assert_true(found);
	open_device(f);
	assert_int_equal(tgl_device_info(f->dev, &info), TGL_OK);
	assert_string_equal(info.target, "apple9");
	assert_int_equal(info.memory, UINT64_C(8) << 30);
}

static void
test_family(void **state)
{
	Fixture *f = *state;
	setenv("MOCK_METAL_FAMILY", "7", 1);
	open_device(f);
	TglDeviceInfo info;
	tgl_device_info(f->dev, &info);
	assert_string_equal(info.target, "apple7");
	tgl_device_close(&f->dev);
	setenv("MOCK_METAL_FAMILY", "6", 1);
	assert_null(tgl_device_open(f->cx, "metal", NULL));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "Mock M1 is not of Apple's own family 7 or later");
}

/* A session without a window has no default device, but a list of them. */
static void
test_no_default(void **state)
{
	Fixture *f = *state;
	setenv("MOCK_METAL_DEFAULT", "0", 1);
	open_device(f);
	tgl_device_close(&f->dev);
	setenv("MOCK_METAL_DEVICES", "2", 1);
	f->dev = tgl_device_open(f->cx, "metal:1", NULL);
	assert_non_null(f->dev);
	tgl_device_close(&f->dev);
	assert_null(tgl_device_open(f->cx, "metal:2", NULL));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "there is no Metal device number 2");
	setenv("MOCK_METAL_DEVICES", "0", 1);
	assert_null(tgl_device_open(f->cx, "metal", NULL));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "there is no Metal device number 0");
}

static void
test_refusals(void **state)
{
	Fixture *f = *state;
	assert_null(tgl_device_open(f->cx, "metal", &(TglDeviceOptions){.sanitize = true}));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "it cannot sanitize");
	setenv("MOCK_METAL_FAIL", "queue", 1);
	assert_null(tgl_device_open(f->cx, "metal", NULL));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "Mock M1 gives no command queue");
}

static void
test_launch(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	double seconds = 0;
	open_device(f);
	assert_int_equal(run_small(f, &check, &seconds), TGL_OK);
	assert_true(check.passed);
	assert_true(seconds > 0.0009 && seconds < 0.0011);
}

/* Before macOS 15 there are no math modes. */
static void
test_old_system(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	setenv("MOCK_METAL_OLD", "1", 1);
	open_device(f);
	assert_int_equal(run_small(f, &check, NULL), TGL_OK);
	assert_true(check.passed);
}

static void
test_values(void **state)
{
	Fixture *f = *state;
	const int64_t dim[] = {2, 3}, stride[] = {6, 2}, eight = 8;
	int16_t x[6];
	float y[8];
	for (int i = 0; i < 6; i++)
		x[i] = (int16_t)(10 * i);
	plan.text = values_text;
	plan.threads = 32;
	plan.shared = 130;                                  /* rounded up to a multiple of 16 */
	open_device(f);
	TglTensor *in = tgl_tensor_strided(f->dev, TGL_I16, 2, dim, stride), *out = tgl_tensor(f->dev, TGL_F32, 1, &eight);
	assert_int_equal(tgl_tensor_write(in, x, sizeof x), TGL_OK);
	TglArg args[] = {tgl_arg_tensor("x", in), tgl_arg_tensor("y", out), tgl_arg_float("a", 0.5),
	    tgl_arg_float("b", -2.0),
	    tgl_arg_int("n", 1 << 20), tgl_arg_bool("t", true)};
	TglStatus s = tgl_launch(f->dev, tgl_kernel(f->p, "values"), args, LEN(args), NULL);
	if (s != TGL_OK)
		print_error("%s", tgl_error(f->cx)->text);
	assert_int_equal(s, TGL_OK);
	assert_int_equal(tgl_tensor_read(out, y, sizeof y), TGL_OK);
	const float want[] = {0.5f, 0xc000, 1 << 20, 1, 40, 203, 203.5f, 602};
	for (int i = 0; i < 8; i++)
		assert_true(y[i] == want[i]);
	tgl_tensor_close(&in);
	tgl_tensor_close(&out);
}

/* What the kernel does wrong arrives as the launch's error. */
static void
test_launch_error(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	plan.text = wrong_text;
	open_device(f);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_FAULT, "the launch failed: line 12: bounds: ");
}

static void
test_hang(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	setenv("MOCK_METAL_FAIL", "launch", 1);
	open_device(f);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_FAULT, "the launch failed: the GPU hung");
}

static void
test_text_refused(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	plan.text = "#include <metal_stdlib>\nkernel void copy(device float *x [[buffer(0)]]) { x[0] = erf(1.0f); }\n";
	open_device(f);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE, "Metal refuses kernel 'copy': ");
	plan.text = "#include <metal_stdlib>\nkernel void other(device float *x [[buffer(0)]]) { x[0] = 1.0f; }\n";
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE, "the library has no kernel 'copy'");
}

static void
test_pipeline(void **state)
{
	Fixture *f = *state;
	TglCheck check;
	open_device(f);
	setenv("MOCK_METAL_FAIL", "pipeline", 1);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE,
	    "Metal makes no pipeline of kernel 'copy': too many registers");
	unsetenv("MOCK_METAL_FAIL");
	setenv("MOCK_METAL_THREADS", "32", 1);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE,
	    "a threadgroup has 64 threads, and Mock M1 runs at most 32");
	unsetenv("MOCK_METAL_THREADS");
	setenv("MOCK_METAL_WIDTH", "64", 1);
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE, "simdgroups of 32 threads, and Mock M1 has 64");
	unsetenv("MOCK_METAL_WIDTH");
	plan.shared = 32784;
	assert_said(f, run_small(f, &check, NULL), TGL_ERROR_DEVICE, "needs 32784 bytes of memory, and Mock M1 has 32768");
}

static void
test_memory(void **state)
{
	Fixture *f = *state;
	const int64_t n = 1 << 20;
	float zero[4] = {1, 1, 1, 1};
	open_device(f);
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 1, &(int64_t){4});
	assert_int_equal(tgl_tensor_read(t, zero, sizeof zero), TGL_OK);
	for (int i = 0; i < 4; i++)
		assert_true(zero[i] == 0);
	tgl_tensor_close(&t);
	setenv("MOCK_METAL_BUFFER", "65536", 1);
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, &n));
	assert_said(f, TGL_ERROR_MEMORY, TGL_ERROR_MEMORY, "Mock M1 has at most 65536 in one");
	unsetenv("MOCK_METAL_BUFFER");
	setenv("MOCK_METAL_FAIL", "buffer", 1);
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, &n));
	assert_said(f, TGL_ERROR_MEMORY, TGL_ERROR_MEMORY, "Mock M1 has no buffer of ");
	unsetenv("MOCK_METAL_FAIL");
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, &(int64_t){4}, NULL, zero, sizeof zero));
	assert_said(f, TGL_ERROR_DEVICE, TGL_ERROR_DEVICE, "is in no buffer of the GPU's");
}

static void
test_assert(void **state)
{
	Fixture *f = *state;
	plan.text = sure_text;
	plan.threads = 32;
	open_device(f);
	TglTensor *y = tgl_tensor(f->dev, TGL_F32, 1, &(int64_t){1});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_int("n", 3)};
	double seconds;
	TglStatus s = tgl_launch(f->dev, tgl_kernel(f->p, "sure"), args, 2, &seconds);
	assert_said(f, s, TGL_ERROR_FAULT, "m.tgl:7:50: error: assertion failed in program 0 at element 7: here");
	assert_int_equal(tgl_device_sync(f->dev), TGL_OK);      /* it is told once */
	tgl_tensor_close(&y);
}

/* The grid's limit is the one of every GPU (runtime/launch/abi.c). */
static void
test_grid(void **state)
{
	Fixture *f = *state;
	plan.text = many_text;
	plan.threads = 32;
	open_device(f);
	TglTensor *y = tgl_tensor(f->dev, TGL_I32, 1, &(int64_t){1});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_int("n", 3000000000)};
	TglStatus s = tgl_launch(f->dev, tgl_kernel(f->p, "many"), args, 2, NULL);
	assert_said(f, s, TGL_ERROR_DEVICE, "the grid has 3000000000 programs along axis 0");
	tgl_tensor_close(&y);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_info), TEST(test_family), TEST(test_no_default), TEST(test_refusals), TEST(test_launch),
		TEST(test_old_system), TEST(test_values), TEST(test_launch_error), TEST(test_hang), TEST(test_text_refused),
		TEST(test_pipeline), TEST(test_memory), TEST(test_assert),
		TEST(test_grid),
	};
	void *lib = dlopen("libobjc.A.dylib", RTLD_NOW);
	if (!lib || !dlsym(lib, "mock_metal_live") || system("command -v clang-22 || command -v clang >/dev/null") != 0) {
		puts("skipped: there is no stand-in for Metal, or no clang");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
