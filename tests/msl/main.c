/* The checker's command:
 *
 *     msl_check [-v] FILE.metal...                        launches described by comments of the files (facts.c)
 *     msl_check --tgl FILE.tgl [--kernel NAME] [--example LABEL] [-D NAME=VALUE]... --json FILE.json FILE.metal
 *                                                         a launch by the description, of the case named (host.c)
 *     msl_check --kernels FILE.tgl|FOLDER [--target apple9] [--all] [--kernel NAME] [--table FILE.md [--write]]
 *         [--keep FOLDER] [--part 0/3]
 *                                                         all kernels of a file or of a folder's files (kernels.c)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/host.h"
#include "tests/msl/main.h"

bool msl_verbose;

typedef struct Options {
	const char *tgl, *kernel, *example, *json, *text;
	KernelsOptions kernels;
	TglArg arg[64];
	int nargs;
} Options;

char *
msl_read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	Text t = {0};
	char part[4096];
	size_t n;
	if (!f)
		return NULL;
	while ((n = fread(part, 1, sizeof part, f)))
		text_putn(&t, part, n);
	fclose(f);
	return t.at;
}

static void
print_result(const char *what, const MslProgram *p, const HostResult *r)
{
	if (*r->wrong)
		printf("%s: %s\n", what, r->wrong);
	for (int i = 0; i < r->reports.n; i++)
		printf("%s:%d: %s: %s\n", p->text_path, r->reports.at[i].line, r->reports.at[i].kind,
		    r->reports.at[i].text);
}

static int
run_description(const Options *o)
{
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, "cpu", NULL);
	TglProgram *program = tgl_program_file(cx, o->tgl);
	TglKernel *k = program ? o->kernel ? tgl_kernel(program, o->kernel) : tgl_program_kernel(program, 0) : NULL;
	TglCaseOptions options = {.example = o->example, .args = o->arg, .nargs = o->nargs, .untuned = true};
	TglCase *c = k ? tgl_case_open(dev, k, &options) : NULL;
	char *json = msl_read_file(o->json);
	HostResult *r = calloc(1, sizeof *r);
	int status = 1;
	if (!c)
		printf("%s", tgl_error(cx)->text);
	else if (!json)
		printf("cannot read %s\n", o->json);
	else {
		MslProgram *p = msl_open(o->text);
		if (p->error)
			printf("%s\n", p->error);
		else {
			status = !host_run(p, json, c, r);
			print_result(o->text, p, r);
			printf("msl: %s, greatest error over its bound %.3g\n", status ? "failed" : "passed", r->ratio);
		}
		msl_close(p);
	}
	free(r);
	free(json);
	tgl_case_close(&c);
	tgl_program_close(&program);
	tgl_device_close(&dev);
	tgl_context_close(&cx);
	return status;
}

/* "NAME=VALUE" as an argument; cuts the text in two. */
static TglArg
definition(char *text)
{
	char *value = strchr(text, '='), *end = NULL;
	DType t;
	if (!value)
		return tgl_arg_text(text, "");
	*value++ = 0;
	long long whole = strtoll(value, &end, 10);
	if (!*end)
		return tgl_arg_int(text, whole);
	double v = strtod(value, &end);
	if (!*end)
		return tgl_arg_float(text, v);
	if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
		return tgl_arg_bool(text, *value == 't');
	return dtype_named(value, &t) ? tgl_arg_dtype(text, (TglDType)t) : tgl_arg_text(text, value);
}

static int
run_facts(char **file, int n)
{
	int passed = 0, failed = 0;
	for (int i = 0; i < n; i++)
		if (msl_facts(file[i]))
			failed++;
		else
			passed++;
	printf("msl: %d passed, %d failed\n", passed, failed);
	return failed != 0 || passed == 0;
}

int
main(int argc, char **argv)
{
	char clang[512];
	Options o = {.kernels.target = "apple7"};
	int n = 0;
	if (!msl_compiler(clang, sizeof clang)) {
		puts("msl: skipped, there is no clang here");
		return 77;
	}
	for (int i = 1; i < argc; i++) {
		const char **to = strcmp(argv[i], "--tgl") == 0 ? &o.tgl : strcmp(argv[i], "--kernel") == 0 ? &o.kernel :
		    strcmp(argv[i], "--example") == 0 ? &o.example : strcmp(argv[i], "--json") == 0 ? &o.json :
		    strcmp(argv[i], "--kernels") == 0 ? &o.kernels.path : strcmp(argv[i], "--target") == 0
		    ? &o.kernels.target :
		    strcmp(argv[i], "--table") == 0 ? &o.kernels.document : strcmp(argv[i], "--keep") == 0
		    ? &o.kernels.keep : NULL;
		if (to && i + 1 < argc)
			*to = argv[++i];
		else if (strcmp(argv[i], "-D") == 0 && i + 1 < argc && o.nargs < LEN(o.arg))
			o.arg[o.nargs++] = definition(argv[++i]);
		else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc)
			sscanf(argv[++i], "%d/%d", &o.kernels.part, &o.kernels.parts);
		else if (strcmp(argv[i], "--write") == 0)
			o.kernels.write = true;
		else if (strcmp(argv[i], "--all") == 0)
			o.kernels.all = true;
		else if (strcmp(argv[i], "-v") == 0)
			msl_verbose = true;
		else
			argv[n++] = argv[i];
	}
	o.text = n ? argv[0] : NULL;
	o.kernels.only = o.kernel;
	if (o.kernels.path)
		return msl_kernels(&o.kernels);
	return o.tgl && o.json && o.text ? run_description(&o) : run_facts(argv, n);
}
