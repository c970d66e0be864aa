/* What every stage stands on: memory, texts, names, sources and how reports are printed. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static void
test_arena(void **state)
{
	Arena *a = arena_open();
	for (size_t n = 0; n < 3000; n++) {
		unsigned char *p = arena_alloc(a, n);
		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xa5, n);
	}
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_printf(a, "%s %d", "x", 7), "x 7");
	arena_reset(a);
	for (size_t n = 0; n < 3000; n++) {
		unsigned char *p = arena_alloc(a, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
	}
	arena_close(a);
	arena_close(NULL);
}

static void
test_vec(void **state)
{
	Arena *a = arena_open();
	VEC(int) v = {0};
	for (int i = 0; i < 5000; i++)
		vec_push(a, &v, i * i);
	assert_int_equal(v.n, 5000);
	for (int i = 0; i < v.n; i++)
		assert_int_equal(v.at[i], i * i);
	assert_int_equal(vec_last(&v), 4999 * 4999);
	assert_int_equal(vec_pop(&v), 4999 * 4999);
	assert_int_equal(v.n, 4999);
	arena_close(a);
}

static void
test_text(void **state)
{
	Text t = {0}, json = {0};
	size_t n = 0;
	for (int i = 0; i < 1000; i++)
		n += (size_t)snprintf(NULL, 0, "%d,", i);
	for (int i = 0; i < 1000; i++)
		text_printf(&t, "%d,", i);
	assert_int_equal(t.n, n);
	assert_int_equal(strlen(t.at), n);
	text_json(&json, "a\"b\\c\n\t\x01 \xc3\xa9");
	json_t *back = json_loads(json.at, JSON_DECODE_ANY, NULL);
	assert_non_null(back);
	assert_string_equal(json_string_value(back), "a\"b\\c\n\t\x01 \xc3\xa9");
	json_decref(back);
	text_close(&t);
	text_close(&json);
	assert_null(t.at);
}

static void
test_intern(void **state)
{
	Arena *a = arena_open();
	Intern *in = intern_open(a);
	const char *first[2000];
	char name[16];
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		first[i] = intern(in, name);
		assert_ptr_not_equal(first[i], name);
	}
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof name, "n%dzz", i);
		assert_ptr_equal(intern_n(in, name, strlen(name) - 2), first[i]);
		assert_ptr_not_equal(intern(in, name), first[i]);
	}
	assert_ptr_equal(intern(in, ""), intern_n(in, "x", 0));
	assert_ptr_not_equal(intern_n(in, "a\0b", 3), intern_n(in, "a\0c", 3));
	arena_close(a);
}

static void
test_nearest(void **state)
{
	static const char *const names[] = {"softmax", "softplus", "sum", "max", "a", "row"};
	static const struct {
		const char *name, *want;
	} cases[] = {
		{"sotfmax", "softmax"}, {"softmx", "softmax"}, {"softplu", "softplus"}, {"smu", "sum"}, {"maxx", "max"},
		{"rwo", "row"},         {"zebra", NULL},       {"b", NULL},             {"", NULL},
	};
	char large[200];
	for (int i = 0; i < LEN(cases); i++) {
		const char *got = nearest_name(cases[i].name, names, 6);
		assert_string_equal(got ? got : "nothing", cases[i].want ? cases[i].want : "nothing");
	}
	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = 0;
	assert_null(nearest_name(large, names, 6));
	assert_null(nearest_name("x", names, 0));
}

/* Whether a text is taken, and the code of the report if not. */
static const char *
source_code(const char *text, size_t size)
{
	Compile *cx = compile_open();
	int file = source_text(cx, "t", text, size);
	const char *code = file >= 0 ? "" : diag_code(cx->first->code);
	assert_int_equal(cx->nerrors, file < 0);
	compile_close(cx);
	return code;
}

static void
test_source_text(void **state)
{
	static const char *const good[] = {
		"", "a\n", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
		"\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
	};
	static const char *const bad[] = {
		"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2 ", "\xe0\x9f\xbf", "\xe0\xa0", "\xed\xa0\x80",
		"\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe",
	};
	for (int i = 0; i < LEN(good); i++)
		assert_string_equal(source_code(good[i], strlen(good[i])), "");
	for (int i = 0; i < LEN(bad); i++)
		assert_string_equal(source_code(bad[i], strlen(bad[i])), diag_code(DIAG_FILE_UTF8));
	assert_string_equal(source_code("a\0b", 3), diag_code(DIAG_FILE_NUL));
	size_t large = (64u << 20) + 1;
	char *text = malloc(large);
	assert_non_null(text);
	memset(text, ' ', large);
	assert_string_equal(source_code(text, large), diag_code(DIAG_FILE_TOO_LARGE));
	assert_string_equal(source_code(text, large - 1), "");
	free(text);
}

static void
test_source_open(void **state)
{
	Compile *cx = compile_open();
	char path[] = "/tmp/tegula_base_XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "one\r\n\nlast", 10), 10);
	close(fd);
	int file = source_open(cx, path, NOWHERE);
	assert_int_equal(file, 0);
	const char *line;
	size_t size;
	static const char *const want[] = {"one", "", "last"};
	for (int i = 0; i < 3; i++) {
		assert_true(source_line(&cx->files.at[file], i + 1, &line, &size));
		assert_int_equal(size, strlen(want[i]));
		assert_memory_equal(line, want[i], size);
	}
	assert_false(source_line(&cx->files.at[file], 4, &line, &size));
	assert_false(source_line(&cx->files.at[file], 0, &line, &size));
	assert_false(source_line(&cx->files.at[file], -7, &line, &size));
	unlink(path);
	assert_int_equal(source_open(cx, path, NOWHERE), -1);
	assert_non_null(strstr(cx->last->text, "No such file"));
	assert_int_equal(source_open(cx, "/tmp", NOWHERE), -1);
	assert_non_null(strstr(cx->last->text, "Is a directory"));
	assert_int_equal(source_open(cx, "/tmp/x/y/z", NOWHERE), -1);
	assert_int_equal(cx->nerrors, 3);
	compile_close(cx);
}

/* One report at a place of a text, printed. */
static char *
printed(const char *text, Place at, const char *label, const char *help)
{
	Compile *cx = compile_open();
	Text out = {0};
	source_text(cx, "t.tgl", text, strlen(text));
	diag_error(cx, at, DIAG_SYNTAX, "a", "b");
	if (label)
		diag_label(cx, "%s", label);
	if (help)
		diag_help(cx, "%s", help);
	diag_print(cx, &out, 0, false);
	compile_close(cx);
	return out.at;
}

static void
expect_print(const char *text, Place at, const char *label, const char *help, const char *want)
{
	char *got = printed(text, at, label, help);
	assert_string_equal(got, want);
	free(got);
}

#define HEAD(at) "t.tgl:" at ": error: expected a, found b [E0101]\n"

static void
test_caret(void **state)
{
	expect_print("let x = 1;\n", (Place){0, 1, 5, 1, 6, NULL}, NULL, NULL, HEAD("1:5") "1 | let x = 1;\n  |     ^\n");
	expect_print("\nlet abc = 1;", (Place){0, 2, 5, 2, 8, NULL}, "here", "there",
	    HEAD("2:5") "2 | let abc = 1;\n  |     ^~~ here\n  = help: there\n");
	/* Tabs stay tabs, a character of several bytes is one column, the margin grows with the number. */
	expect_print("\t\xc3\xa9\xc3\xa9 xy", (Place){0, 1, 7, 1, 9, NULL}, NULL, NULL,
	    HEAD("1:7") "1 | \t\xc3\xa9\xc3\xa9 xy\n  | \t   ^~\n");
	expect_print("\n\n\n\n\n\n\n\n\nxy", (Place){0, 10, 2, 10, 3, NULL}, NULL, NULL, HEAD("10:2") "10 | xy\n   |  ^\n");
	/* A span over lines runs to the end of its first; one past the end of the line still has a caret. */
	expect_print("ab (c\nd)", (Place){0, 1, 4, 2, 3, NULL}, NULL, NULL, HEAD("1:4") "1 | ab (c\n  |    ^~\n");
	expect_print("ab", (Place){0, 1, 3, 1, 3, NULL}, NULL, NULL, HEAD("1:3") "1 | ab\n  |   ^\n");
	/* What would move the cursor of a terminal is not printed. */
	expect_print("a\x1b[2Jb", (Place){0, 1, 6, 1, 7, NULL}, NULL, NULL, HEAD("1:6") "1 | a?[2Jb\n  |      ^\n");
	/* No such line, no such file, nowhere. */
	expect_print("ab", (Place){0, 9, 1, 9, 2, NULL}, NULL, NULL, HEAD("9:1"));
	expect_print("ab", NOWHERE, NULL, "h", "tegula: error: expected a, found b [E0101]\n  = help: h\n");
}

/* Of a line of 10 MB only the part around the caret is shown, cut between characters. */
static void
test_long_line(void **state)
{
	size_t n = 10u << 20;
	char *text = malloc(n + 1);
	assert_non_null(text);
	for (size_t i = 0; i < n; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[n] = 0;
	int col = 5000001;
	memcpy(text + col - 1, "XY", 2);
	char *got = printed(text, (Place){0, 1, col, 1, col + 2, NULL}, "this", NULL);
	assert_true(strlen(got) < 1000);
	assert_string_equal(source_code(got, strlen(got)), "");
	const char *x = strstr(got, "XY"), *caret = strstr(got, "^~ this");
	assert_non_null(x);
	assert_non_null(caret);
	int before_x = 0, before_caret = 0;         /* characters since the newline */
	for (const char *p = x; *p != '\n'; p--)
		before_x += (*p & 0xc0) != 0x80;
	for (const char *p = caret; *p != '\n'; p--)
		before_caret += (*p & 0xc0) != 0x80;
	assert_int_equal(before_x, before_caret);
	free(got);
	/* The whole line as the span. */
	got = printed(text, (Place){0, 1, 1, 1, (int)n, NULL}, NULL, NULL);
	assert_true(strlen(got) < 1000);
	free(got);
	free(text);
}

/* Where each of some texts stands in `in`; they must come in this order. */
static void
expect_order(const char *in, const char *const *parts, int n)
{
	for (int i = 0; i < n; i++) {
		const char *at = strstr(in, parts[i]);
		if (!at)
			fail_msg("'%s' is missing in\n%s", parts[i], in);
		in = at + 1;
	}
}

static void
test_order(void **state)
{
	static const char *const order[] = {"tegula: error", "t:1:2", "note: far", "t:2:1", "t:2:3", "u:1:1"};
	Compile *cx = compile_open();
	Text out = {0};
	source_text(cx, "t", "abc\ndef\n", 8);
	source_text(cx, "u", "xyz\n", 4);
	diag_error(cx, (Place){1, 1, 1, 1, 2, NULL}, DIAG_SYNTAX, "a", "b");
	diag_error(cx, (Place){0, 2, 3, 2, 4, NULL}, DIAG_SYNTAX, "a", "b");
	diag_error(cx, (Place){0, 2, 1, 2, 4, NULL}, DIAG_SYNTAX, "a", "b");
	diag_error(cx, (Place){0, 1, 2, 1, 3, NULL}, DIAG_SYNTAX, "a", "b");
	diag_note(cx, (Place){1, 1, 3, 1, 4, NULL}, "far");
	diag_error(cx, NOWHERE, DIAG_SYNTAX, "a", "b");
	cx->muted++;
	diag_error(cx, NOWHERE, DIAG_UNCLOSED_COMMENT);
	diag_label(cx, "lost");
	diag_help(cx, "lost");
	diag_note(cx, NOWHERE, "lost");
	cx->muted--;
	assert_int_equal(cx->nerrors, 5);
	diag_print(cx, &out, 0, false);
	assert_null(strstr(out.at, "lost"));
	expect_order(out.at, order, LEN(order));
	text_close(&out);
	diag_print(cx, &out, 2, false);
	assert_non_null(strstr(out.at, "t:1:2"));
	assert_null(strstr(out.at, "t:2:1"));
	assert_non_null(strstr(out.at, "5 errors, of which 2 are shown"));
	text_close(&out);
	diag_print(cx, &out, 0, true);
	assert_non_null(strstr(out.at, "\033[1;31merror"));
	text_close(&out);
	compile_close(cx);
}

static void
test_json(void **state)
{
	Compile *cx = compile_open();
	Text out = {0};
	source_text(cx, "a\"b", "abc\n", 4);
	diag_error(cx, (Place){0, 1, 2, 1, 3, NULL}, DIAG_SYNTAX, "x\ny", "\"");
	diag_label(cx, "l");
	diag_help(cx, "h");
	diag_note(cx, (Place){0, 1, 1, 1, 2, NULL}, "n");
	diag_error(cx, NOWHERE, DIAG_UNCLOSED_COMMENT);
	diag_json(cx, &out, 0);
	json_t *all = json_loads(out.at, 0, NULL);
	assert_non_null(all);
	assert_int_equal(json_array_size(all), 2);
	json_t *second = json_array_get(all, 1);
	assert_string_equal(json_string_value(json_object_get(second, "message")), "expected x\ny, found \"");
	assert_string_equal(json_string_value(json_object_get(second, "file")), "a\"b");
	assert_int_equal(json_integer_value(json_object_get(second, "end_column")), 3);
	assert_int_equal(json_array_size(json_object_get(second, "notes")), 1);
	json_decref(all);
	text_close(&out);
	compile_close(cx);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena),       cmocka_unit_test(test_vec),       cmocka_unit_test(test_text),
		cmocka_unit_test(test_intern),      cmocka_unit_test(test_nearest),   cmocka_unit_test(test_source_text),
		cmocka_unit_test(test_source_open), cmocka_unit_test(test_caret),     cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_order),       cmocka_unit_test(test_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
