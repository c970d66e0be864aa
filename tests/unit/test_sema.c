/* Headers bound in many ways, compile-time arithmetic, and the types that operands come to: tables of source text
 * with what must come of it. */
#include "sema/sema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Case {
	Compile *cx;
	Program *program;
	Kernel *kernel;
	Bound bound;
	ArgInfo args[8];
} Case;

static void
case_open(Case *c, const char *text)
{
	memset(c, 0, sizeof *c);
	c->cx = compile_open();
	c->program = program_open(c->cx, source_text(c->cx, "<test>", text, strlen(text)));
	c->kernel = c->program->kernels.n ? c->program->kernels.at[0] : NULL;
	if (c->cx->first)
		print_error("%s: %s\n", text, c->cx->first->text);
	assert_non_null(c->kernel);
	assert_int_equal(c->cx->nerrors, 0);
}

static void
case_close(Case *c)
{
	compile_close(c->cx);
}

static ArgInfo
tensor(DType t, int rank, int64_t a, int64_t b)
{
	return (ArgInfo){.given = true, .dtype = t, .rank = rank, .dim = {a, b}};
}

static int64_t
ct(const Bound *b, const char *name)
{
	for (int i = 0; i < b->nct; i++)
		if (strcmp(b->ct[i].name, name) == 0)
			return b->ct[i].value.kind == CONST_DTYPE ? (int64_t)b->ct[i].value.dtype : b->ct[i].value.i;
	fail_msg("no compile-time parameter %s", name);
	return 0;
}

static void
expect_error(Case *c, DiagCode code)
{
	for (const Diag *d = c->cx->first; d; d = d->next)
		if (d->code == code)
			return;
	fail_msg("expected %s, found %s", diag_code(code), c->cx->first ? c->cx->first->text : "nothing");
}

static const char matmul[] =
    "kernel m<T: dtype = bf16, BM = 128, BK = min(64, pow2ceil(K))>(a: in T[M, K], b: in T[K, N], c: out T[M, N],"
    " s: scratch f32[cdiv(M, BM), N] = 0.5) grid(p: cdiv(M, BM), q: N) tune(BM = {64, 2 * 64}, warps = {4, 8})"
    " where BM <= 256 where warps <= 8 { c[p, q] = a[p, 0]; }\n"
    "example m { M = 300; K = 20; N = 7; T = f16; a = normal(0, 1); b = normal(0, 1); }\n"
    "example m \"big\" { M = 1000; K = 1000; N = 1; BM = 64; warps = 4; a = zeros; b = zeros; }\n";

static void
binds_from_arguments(void **state)
{
	Case c;

	case_open(&c, matmul);
	c.args[0] = tensor(TY_F32, 2, 1000, 20);
	c.args[1] = tensor(TY_F32, 2, 20, 30);
	assert_true(kernel_bind(c.kernel, c.args, NULL, 0, &c.bound));
	assert_int_equal(ct(&c.bound, "T"), TY_F32);
	assert_int_equal(ct(&c.bound, "BM"), 128);
	assert_int_equal(ct(&c.bound, "BK"), 32);
	assert_int_equal(c.bound.nsymbol, 3);
	assert_int_equal(c.bound.grid[0], 8);
	assert_int_equal(c.bound.grid[1], 30);
	assert_int_equal(c.bound.grid[2], 1);
	assert_int_equal(c.bound.param[2].dtype, TY_F32);
	assert_int_equal(c.bound.param[2].dim[0], 1000);
	assert_int_equal(c.bound.param[3].dim[0], 8);
	assert_true(c.bound.param[3].has_fill);
	assert_true(c.bound.param[3].fill.f == 0.5);
	assert_int_equal(c.bound.schedule.warps, 0);
	assert_int_equal(c.bound.schedule.persistent, -1);
	case_close(&c);
}

static void
authority(void **state)
{
	Case c;
	NamedConst given[2] = {{.value = {.kind = CONST_INT, .i = 32}, .place = NOWHERE},
		{.value = {.kind = CONST_TEXT, .text = "f64"}, .place = NOWHERE}};

	case_open(&c, matmul);
	assert_true(example_bind(c.kernel, &c.kernel->examples.at[1], NULL, 0, c.args, &c.bound));
	assert_int_equal(ct(&c.bound, "BM"), 64);
	assert_int_equal(c.bound.schedule.warps, 4);
	assert_int_equal(ct(&c.bound, "T"), TY_BF16);
	assert_int_equal(c.args[0].dim[0], 1000);
	given[0].name = intern(c.cx->names, "BM");
	given[1].name = intern(c.cx->names, "T");
	memset(c.args, 0, sizeof c.args);
	assert_true(example_bind(c.kernel, &c.kernel->examples.at[1], given, 2, c.args, &c.bound));
	assert_int_equal(ct(&c.bound, "BM"), 32);
	assert_int_equal(ct(&c.bound, "T"), TY_F64);
	memset(c.args, 0, sizeof c.args);
	given[0].value.i = 512;
	assert_false(example_bind(c.kernel, &c.kernel->examples.at[1], given, 1, c.args, &c.bound));
	expect_error(&c, DIAG_WHERE);
	case_close(&c);
}

static void
tunes(void **state)
{
	Case c;
	TuneName *names;
	int n;

	case_open(&c, matmul);
	assert_true(example_bind(c.kernel, &c.kernel->examples.at[0], NULL, 0, c.args, &c.bound));
	assert_int_equal(ct(&c.bound, "T"), TY_F16);
	assert_true(kernel_tune(c.kernel, &c.bound, &names, &n));
	assert_int_equal(n, 2);
	assert_string_equal(names[0].name, "BM");
	assert_int_equal(names[0].nvalue, 2);
	assert_int_equal(names[0].value[1].i, 128);
	case_close(&c);
}

typedef struct Refusal {
	ArgInfo a, b;
	DiagCode code;
} Refusal;

static void
refuses_arguments(void **state)
{
	const Refusal refusals[] = {
		{tensor(TY_F32, 2, 10, 20), tensor(TY_F32, 2, 21, 30), DIAG_SLOT_TWICE},
		{tensor(TY_F32, 2, 10, 20), tensor(TY_F16, 2, 20, 30), DIAG_SLOT_TWICE},
		{tensor(TY_F32, 1, 10, 0), tensor(TY_F32, 2, 20, 30), DIAG_ARG_RANK},
		{{0}, tensor(TY_F32, 2, 20, 30), DIAG_SLOT_UNSET},
	};

	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		Case c;
		case_open(&c, matmul);
		c.args[0] = refusals[i].a;
		c.args[1] = refusals[i].b;
		assert_false(kernel_bind(c.kernel, c.args, NULL, 0, &c.bound));
		expect_error(&c, refusals[i].code);
		case_close(&c);
	}
}

static void
checks_dimensions(void **state)
{
	static const char text[] = "const W = 4;\n"
	    "kernel k<D = 16>(x: in f32[N, D], w: in i8[N, cdiv(D, 8), W, 3], n: i64, y: out f32[n]) grid(p: n) {}\n";
	Case c;

	case_open(&c, text);
	c.args[0] = tensor(TY_F32, 2, 5, 40);
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_I8, .rank = 4, .dim = {5, 5, 4, 3}};
	c.args[2] = (ArgInfo){.given = true, .dtype = TY_I64, .scalar = {.kind = CONST_INT, .i = 9}};
	assert_true(kernel_bind(c.kernel, c.args, NULL, 0, &c.bound));
	assert_int_equal(ct(&c.bound, "D"), 40);
	assert_int_equal(c.bound.nsymbol, 1);
	assert_false(c.bound.param[0].dim_const[0]);
	assert_true(c.bound.param[0].dim_const[1]);
	assert_true(c.bound.param[1].dim_const[1] && c.bound.param[1].dim_const[2] && c.bound.param[1].dim_const[3]);
	assert_int_equal(c.bound.param[3].dim[0], 9);
	assert_int_equal(c.bound.grid[0], 9);
	c.args[1].dim[1] = 6;
	assert_false(kernel_bind(c.kernel, c.args, NULL, 0, &c.bound));
	expect_error(&c, DIAG_DIM_MISMATCH);
	c.args[1].dtype = TY_U8;
	assert_false(kernel_bind(c.kernel, c.args, NULL, 0, &c.bound));
	expect_error(&c, DIAG_ARG_DTYPE);
	case_close(&c);
}

/* Compile-time expressions and their values; N is 100. */
static void
computes_constants(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} sums[] = {
		{"1 + 2 * 3 - 4", 3}, {"-7 / 2", -3}, {"-7 % 2", -1}, {"7 / -2", -3}, {"1 << 62", INT64_C(1) << 62},
		{"-8 >> 1", -4}, {"-1 >> 100", -1}, {"5 & 3 | 8 ^ 1", 9}, {"~0", -1}, {"cdiv(N, 32)", 4}, {"cdiv(-7, 2)", -3},
		{"floordiv(-7, 2)", -4}, {"pow2ceil(N)", 128}, {"pow2ceil(0)", 1}, {"pow2ceil(1)", 1}, {"pow2ceil(129)", 256},
		{"min(3, N)", 3}, {"max(3, N)", 100}, {"abs(-5)", 5}, {"clamp(N, 0, 64)", 64}, {"log2(1024)", 10},
		{"((N > 64) ? 64 : N)", 64}, {"where((N > 200), 1, 2)", 2}, {"-9223372036854775808", INT64_MIN},
		{"9223372036854775807", INT64_MAX}, {"(N == 100) && (f32 != f16)", 1}, {"(f32 == bf16) || (N < 3)", 0},
		{"!(1.5 < 2)", 0}, {"(target == \"cpu\")", 1}, {"(1.0 == 1)", 1}, {"(nan == nan)", 0}, {"(inf > 1)", 1},
		{"(sqrt(2.25) == 1.5)", 1}, {"(exp(0.0) == 1.0)", 1}, {"(7 / 2.0 == 3.5)", 1}, {"twice(N) + W", 205},
		{"(max(nan, 2.0) == 2.0)", 1}, {"(min(1, 0.5) == 0.5)", 1},
	};

	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
		Case c;
		char text[256];
		snprintf(text, sizeof text, "const W = N0 + 1;\nconst N0 = 4;\nfn twice(n) { return n * 2; }\n"
			"kernel k<V = (%s)>(x: in f32[N]) grid(p: N) {}\n", sums[i].text);
		case_open(&c, text);
		c.args[0] = tensor(TY_F32, 1, 100, 0);
		if (!kernel_bind(c.kernel, c.args, NULL, 0, &c.bound))
			fail_msg("%s: %s", sums[i].text, c.cx->first->text);
		if (ct(&c.bound, "V") != sums[i].value)
			fail_msg("%s is %lld", sums[i].text, (long long)ct(&c.bound, "V"));
		case_close(&c);
	}
}

static const Type *
type_of_last_op(Case *c)
{
	Module *m = kernel_module(c->kernel, &c->bound, "cpu");

	if (!m)
		fail_msg("%s", c->cx->first->text);
	if (module_verify(m))
		fail_msg("%s", module_verify(m));
	const Op *op = m->funcs.at[0]->body->last;
	while (op && op->kind != OP_PRINT)
		op = op->prev;
	return op->in[0]->type;
}

/* Expressions over a: A[4], b: B[4] and i: i64, and the type that they come to. */
static void
promotes(void **state)
{
	static const struct {
		const char *a, *b, *text, *type;
	} rows[] = {
		{"i8", "i32", "a + b", "i32[4]"}, {"i32", "u32", "a + b", "u32[4]"}, {"u8", "i32", "a + b", "i32[4]"},
		{"i64", "f16", "a * b", "f16[4]"}, {"f16", "bf16", "a + b", "f16[4]"}, {"bf16", "f32", "a + b", "f32[4]"},
		{"f8e4m3", "f8e5m2", "a + b", "f16[4]"}, {"f32", "f64", "a / b", "f64[4]"}, {"bool", "i8", "a + b", "i8[4]"},
		{"bool", "bool", "a + b", "i32[4]"}, {"bool", "bool", "a & b", "bool[4]"}, {"bool", "f16", "a * b", "f16[4]"},
		{"u8", "u8", "a + 1", "u8[4]"}, {"u8", "u8", "a * 2.0", "f32[4]"}, {"f16", "f16", "a * 2", "f16[4]"},
		{"f16", "f16", "a * 0.1", "f16[4]"}, {"bool", "bool", "a + 1", "i32[4]"}, {"i8", "i8", "a < 3", "bool[4]"},
		{"i32", "i32", "a + i", "i64[4]"}, {"i32", "i32", "-a", "i32[4]"}, {"bool", "bool", "-a", "i32[4]"},
		{"bool", "bool", "!a", "bool[4]"}, {"u16", "u16", "~a", "u16[4]"}, {"i8", "i16", "a < b ? a : b", "i16[4]"},
		{"f32", "f32", "a[:, new] + b", "f32[4, 4]"}, {"f32", "f32", "3", "i32"}, {"f32", "f32", "3000000000", "i64"},
		{"f32", "f32", "1.5", "f32"}, {"f32", "f32", "a as i8", "i8[4]"}, {"i32", "i32", "1 << a", "i32[4]"},
		{"i16", "i16", "true ? a : 1", "i16[4]"}, {"u8", "u8", "i > 2 ? a : 1", "u8[4]"}, {"f32", "f32", "+a", "f32[4]"},
		{"f32", "f32", "0xFFFFFFFFFFFFFFFF as u64", "u64"}, {"f16", "f32", "a == b", "bool[4]"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Case c;
		Text t = {0};
		char text[512];
		snprintf(text, sizeof text, "kernel k(x: in %s[N], y: in %s[N]) grid(i: N) {\n"
			"let a = x[i +: 4];\nlet b = y[i +: 4];\nprint(\"\", %s);\n}\n", rows[i].a, rows[i].b, rows[i].text);
		case_open(&c, text);
		NamedConst n = {.name = intern(c.cx->names, "N"), .value = {.kind = CONST_INT, .i = 8}, .place = NOWHERE};
		assert_true(kernel_bind(c.kernel, NULL, &n, 1, &c.bound));
		type_print(type_of_last_op(&c), &t);
		if (strcmp(t.at, rows[i].type) != 0)
			fail_msg("%s with %s and %s is %s", rows[i].text, rows[i].a, rows[i].b, t.at);
		text_close(&t);
		case_close(&c);
	}
}

/* One Program gives the same module again and again, and others for other values. */
static void
instantiates_anew(void **state)
{
	Case c;
	Text one = {0}, two = {0};

	case_open(&c, matmul);
	assert_true(example_bind(c.kernel, &c.kernel->examples.at[0], NULL, 0, c.args, &c.bound));
	module_print(kernel_module(c.kernel, &c.bound, "cpu"), &one);
	Bound other;
	ArgInfo args[8] = {0};
	assert_true(example_bind(c.kernel, &c.kernel->examples.at[1], NULL, 0, args, &other));
	Text three = {0};
	module_print(kernel_module(c.kernel, &other, "cpu"), &three);
	module_print(kernel_module(c.kernel, &c.bound, "cpu"), &two);
	assert_string_equal(one.at, two.at);
	assert_string_not_equal(one.at, three.at);
	text_close(&one);
	text_close(&two);
	text_close(&three);
	case_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(binds_from_arguments),
		cmocka_unit_test(authority),
		cmocka_unit_test(tunes),
		cmocka_unit_test(refuses_arguments),
		cmocka_unit_test(checks_dimensions),
		cmocka_unit_test(computes_constants),
		cmocka_unit_test(promotes),
		cmocka_unit_test(instantiates_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
