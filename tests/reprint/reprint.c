/* What is printed reads back as the same, of each file:
 *
 *     reprint FILE... [--must FILE...]
 *
 *     .tgl          reprint_source
 *     IR            tile IR or thread IR: print(read(x)) is a fixed point.  A file may hold several modules of tile IR, each of
 *                   which begins with its `file` lines
 *
 * Answers of tests (.out) and files behind --must are printed ones: they must be read, and print as they are.  Others are
 * written by hand, some wrong on purpose: they are passed over if they can't be read, and their first printing is compared. */
#include "compile/compile.h"
#include "tests/reprint/reprint.h"
#include "thread/thread.h"

#include <stdio.h>
#include <string.h>

/* Reads text of tile IR or thread IR and prints it; false: it can't be read. */
static bool
print_again(const char *text, size_t size, Text *out)
{
	Compile *cx = compile_open();
	int file = source_text(cx, "text", text, size);
	ThreadModules threads = {0};
	text_put(out, "");
	if (file >= 0 && thread_is_text(text, size)) {
		bool read = thread_modules_parse(cx, file, &threads);
		for (int i = 0; i < threads.n && read; i++)
			compile_thread(threads.at[i], cx, STAGE_THREAD, out, NULL);
	} else if (file >= 0) {
		Module *m = module_parse(cx, file);
		if (m)
			module_print(m, out);
	}
	bool good = file >= 0 && cx->nerrors == 0;
	compile_close(cx);
	return good;
}

static const char *
check_ir(const char *text, size_t size, bool is_printed)
{
	Text first = {0}, second = {0};
	const char *wrong = NULL;
	if (is_printed)
		text_putn(&first, text, size);
	if (is_printed || print_again(text, size, &first))
		wrong = !print_again(first.at, first.n, &second)                         ? "what was printed cannot be read"
		    : first.n != second.n || memcmp(first.at, second.at, first.n) != 0 ? "printing what was read differs"
		                                                                       : NULL;
	text_close(&first);
	text_close(&second);
	return wrong;
}

/* Module by module. */
static const char *
check_modules(const char *text, size_t size, bool is_printed)
{
	static const char head[] = "\nfile 0 ";
	const char *wrong = NULL, *end = text + size;
	for (const char *next; text && text < end && !wrong; text = next) {
		next = thread_is_text(text, (size_t)(end - text)) ? NULL : strstr(text, head);
		next = next ? next + 1 : end;
		wrong = check_ir(text, (size_t)(next - text), is_printed);
	}
	return wrong;
}

static const char *
check_file(const char *path, bool must)
{
	Compile *cx = compile_open();
	int file = source_open(cx, path, NOWHERE);
	const char *wrong = file < 0 && must ? "it cannot be read" : NULL, *ends = strrchr(path, '.');
	if (file >= 0 && ends && strcmp(ends, ".tgl") == 0) {
		const Ast *ast = ast_parse(cx, file);
		wrong = cx->nerrors ? NULL : reprint_source(cx, ast);
	} else if (file >= 0) {
		const SourceFile *f = &cx->files.at[file];
		wrong = check_modules(f->text, f->size, must || (ends && strcmp(ends, ".out") == 0));
	}
	compile_close(cx);
	return wrong;
}

int
main(int argc, char **argv)
{
	int ran = 0, failed = 0;
	bool must = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--must") == 0) {
			must = true;
			continue;
		}
		const char *wrong = check_file(argv[i], must);
		ran++;
		failed += wrong != NULL;
		if (wrong)
			printf("FAIL %s: %s\n", argv[i], wrong);
	}
	printf("round trips: %d passed, %d failed\n", ran - failed, failed);
	return failed || ran == 0;
}
