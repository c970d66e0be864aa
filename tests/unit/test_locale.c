/* Numbers and letters are read and printed the same whatever locale the embedding program has set: everything that the
 * library makes of a program full of numbers is the same text before and after setlocale.  Locales with a decimal comma are
 * made by localedef where the system has none; without either the test is skipped. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "runtime/case/case.h"

static const char source[] =
    "const STEP = 1.5e-3;\n"
    "kernel k<B = 4, S = 0.75>(x: in f32[N], y: out f32[N], f: f64) grid(p: cdiv(N, B))\n"
    "    tune(S = {0.25, 0.75}) {\n"
    "    let v = x[p * B +: B] * 0.5 + S;\n"
    "    static for i in range(0, 3) { y[p * B +: B] = v + i * STEP; }\n"
    "    print(\"INIT\", 1234567.25, f);\n"
    "    static if target == \"cpu\" { print(\"tile\", v); }\n"
    "    y[p * B +: B] = exp(v) * 1.0e-7 + 3.25 + f as f32;\n"
    "}\n"
    "reference k { y[:] = exp(x[:] * 0.5 + 0.75) * 1.0e-7 + 3.25 + f; }\n"
    "example k { N = 9; x = normal(0.5, 2.25); f = 0.1; tolerance(0.125, 1.5e-3); }\n"
    "example k \"zero\" { N = 0; f = 0.5; }\n";
static const char tuned[] =
    "\"GPU i\" k 0123456789abcdef0123456789abcdef \"f32, f32, f64\" \"N = 16, B = 4\": S = 0.25 (12.3 us, default 15.1 us)\n";

static void
assert_ok(TglContext *cx, TglStatus s)
{
	if (s != TGL_OK)
		fail_msg("%s", tgl_error(cx)->text);
}

static void
add_line(void *user, const char *line)
{
	text_printf(user, "%s\n", line);
}

/* The tile IR after each pass, what is printed, results and how they compare. */
static void
put_run(TglContext *cx, TglProgram *p, const char *device, Text *out)
{
	TglCheck r = {0};
	bool more;
	tgl_context_print(cx, add_line, out);
	tgl_context_compile(cx, &(TglCompileOptions){.dump = "all", .write = add_line, .user = out});
	TglDevice *d = tgl_device_open(cx, device, &(TglDeviceOptions){.threads = 1});
	const TglArg args[] = {tgl_arg_text("x", "normal(0.25, 1.5)"), tgl_arg_text("f", "0.375")};
	TglCase *c = tgl_case_open(d, tgl_kernel(p, "k"), &(TglCaseOptions){.args = args, .nargs = 2});
	assert_non_null(c);
	assert_ok(cx, tgl_case_run(c, NULL));
	assert_ok(cx, tgl_case_check(c, 0, &r, &more));
	assert_true(r.passed);
	text_printf(out, "%a %a %a %a\n", r.got, r.want, r.bound, r.ratio);
	const char *name, *value;
	for (int i = 0; tgl_case_value(c, i, &name, &value); i++)
		text_printf(out, "%s %s\n", name, value);
	tgl_case_close(&c);
	tgl_device_close(&d);
	tgl_context_compile(cx, NULL);
}

/* What lowering makes, LLVM's text, PTX and Metal text with its description. */
static void
put_code(TglProgram *p, Text *out)
{
	static const PassOptions plain;
	Kernel *k = tgl_kernel(p, "k")->k;
	Compile *cx = k->program->cx;
	ArgInfo args[3] = {{0}};
	Bound b;
	assert_true(example_bind(k, &k->examples.at[0], NULL, 0, args, &b));
	for (CompileStage stage = STAGE_THREAD; stage <= STAGE_PTX; stage++) {
		const Target *t = target_named("sm_80");
		Module *m = compile_kernel(k, &b, t->name, NULL, &plain);
		assert_true(m && compile_text(m, t, stage, out, NULL));
	}
	const Target *t = target_named("apple8");
	Module *m = compile_kernel(k, &b, t->name, NULL, &plain);
	if (!m || !compile_metal(m, t, &b, out, out, NULL))
		diag_print(cx, out, 0, false); /* no f64 there: the message is compared */
}

/* Tile IR read and printed; its messages; layouts. */
static void
put_text(Text *out)
{
	Compile *cx = compile_open();
	static const char good[] = "kernel @k(%y: *mut f32) {\n\t%0 = const {value = 0.1} : f64\n"
				     "\t%1 = const {value = 1.5e-30} : f64\n\t%2 = add %0, %1 : f64\n}\n";
	static const char bad[] = "kernel @k() { %0 = const {value = 0.1} : f32 }";
	module_print(module_parse(cx, source_text(cx, "good.tir", good, strlen(good))), out);
	assert_null(module_parse(cx, source_text(cx, "bad.tir", bad, strlen(bad))));
	diag_print(cx, out, 0, false);
	compile_close(cx);
}

static void
put_tuning(TglContext *cx, Text *out)
{
	int64_t n = 0;
	assert_ok(cx, tgl_cache_clear(cx, true, NULL));
	assert_ok(cx, tgl_tuning_import(cx, tuned, strlen(tuned), &n));
	assert_int_equal(n, 1);
	assert_ok(cx, tgl_tuning_export(cx, add_line, out));
}

static void
put_all(const char *folder, Text *out)
{
	TglContext *cx = tgl_context_open();
	assert_ok(cx, tgl_context_cache(cx, &(TglCacheOptions){.folder = folder}));
	TglProgram *p = tgl_program_text(cx, "a.tgl", source, strlen(source));
	if (!p)
		fail_msg("%s", tgl_error(cx)->text);
	put_run(cx, p, "cpu", out);
	put_run(cx, p, "simt:sm_80", out);
	put_code(p, out);
	put_text(out);
	put_tuning(cx, out);
	assert_true(text_same("IGNORE i", "ignore I") && !text_same("on", "one"));
	tgl_program_close(&p);
	tgl_context_close(&cx);
}

/* A locale of the system's, or one made in `folder`; NULL: neither. */
static bool
enter_locale(const char *folder, const char *name, const char *from, const char *charmap)
{
	char command[300];
	if (setlocale(LC_ALL, name))
		return true;
	snprintf(command, sizeof command, "localedef -i %s -f %s %s/%s >/dev/null 2>&1", from, charmap, folder, name);
	if (system(command) < 0)
		return false;
	setenv("LOCPATH", folder, 1);
	return setlocale(LC_ALL, name);
}

static void
test_same_text(void **state)
{
	char folder[] = "/tmp/tegula-locale-XXXXXX", command[64];
	static const char *const locale[][3] = {{"de_DE.UTF-8", "de_DE", "UTF-8"}, {"tr_TR.ISO-8859-9", "tr_TR", "ISO-8859-9"}};
	Text plain = {0};
	int entered = 0;
	unsetenv("TEGULA_CACHE"); /* its folder is this test's own */
	assert_non_null(mkdtemp(folder));
	put_all(folder, &plain);
	assert_non_null(strstr(plain.at, "S = 0.25 (12.3 us, default 15.1 us)"));
	assert_non_null(strstr(plain.at, "INIT"));
	for (int i = 0; i < LEN(locale); i++) {
		Text other = {0};
		if (!enter_locale(folder, locale[i][0], locale[i][1], locale[i][2]))
			continue;
		entered++;
		assert_int_equal(*localeconv()->decimal_point, ',');
		put_all(folder, &other);
		assert_string_equal(other.at, plain.at);
		assert_string_equal(setlocale(LC_ALL, NULL), locale[i][0]); /* and it is left as it was */
		char word[8];
		snprintf(word, sizeof word, "%.1f", 0.5);
		assert_string_equal(word, "0,5");
		setlocale(LC_ALL, "C");
		text_close(&other);
	}
	text_close(&plain);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
	if (!entered) {
		print_message("no locale with a decimal comma, and no localedef to make one\n");
		skip();
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_text)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
