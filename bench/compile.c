/* What the compiler takes from source to PTX: each kernel is read, checked, lowered and put through LLVM anew, in a process
 * that has compiled another kernel before (the first one starts LLVM).
 *
 *     bench_compile [TARGET] FILE:KERNEL[:EXAMPLE]...       sm_90a; the example "large" without one, else the first
 *
 * A line a kernel: milliseconds of the first time and the median and least of REPEATS, and how much of the median is LLVM's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "compile/compile.h"
#include "emit/emit.h"

enum { REPEATS = 15 };

static const char warm_up[] =
    "kernel warm<B = 128>(x: in f16[N], y: out f16[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = exp(x[p * B +: B]); }\n";

static bool
report(const Compile *cx, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, cx->first ? cx->first->text : "it does not compile");
	return false;
}

static bool
bind(Kernel *k, const char *example, Bound *b)
{
	ArgInfo *info = NEW_ARRAY(k->program->cx->mem, ArgInfo, k->params.n);
	const ExampleItem *ex = k->examples.n ? &k->examples.at[0] : NULL;
	for (int i = 0; i < k->examples.n; i++)
		if (strcmp(k->examples.at[i].label, example) == 0)
			ex = &k->examples.at[i];
	NamedConst n = {.name = intern(k->program->cx->names, "N"), .place = NOWHERE};
	n.value = (Const){.kind = CONST_INT, .i = 1 << 20};
	return ex ? example_bind(k, ex, NULL, 0, info, b) : kernel_bind(k, info, &n, 1, b);
}

/* Seconds in all, and of LLVM. */
static bool
compile_once(const char *path, const char *text, const char *kernel, const char *example, const Target *t, double *all,
    double *llvm)
{
	Text ptx = {0}, times = {0};
	Bound b = {0};
	double begun = now();
	Compile *cx = compile_open();
	int file = text ? source_text(cx, path, text, strlen(text)) : source_open(cx, path, NOWHERE);
	Program *p = file >= 0 ? program_open(cx, file) : NULL;
	Kernel *k = p && !cx->nerrors ? program_kernel(p, kernel) : NULL;
	bool ok = k && bind(k, example, &b);
	Module *m = NULL;
	if (ok) {
		ArgAssumptions assumptions = assumptions_of_dims(cx->mem, &b);
		m = compile_kernel(k, &b, t->name, &assumptions, &(PassOptions){0});
		ok = m && compile_text(m, t, STAGE_PTX, &ptx, &times);
	}
	*all = now() - begun;
	const char *line = times.at ? strstr(times.at, "llvm ") : NULL; /* beside llvm-open */
	*llvm = line ? strtod(line + strlen("llvm"), NULL) / 1e3 : 0;
	ok = ok && ptx.n > 0 ? true : report(cx, path);
	text_close(&ptx);
	text_close(&times);
	compile_close(cx);
	return ok;
}

static bool
measure(char *what, const Target *t)
{
	double all[REPEATS], llvm[REPEATS];
	char *kernel = strchr(what, ':'), *example = kernel ? strchr(kernel + 1, ':') : NULL;
	if (!kernel) {
		fprintf(stderr, "%s: FILE:KERNEL is wanted\n", what);
		return false;
	}
	*kernel++ = '\0';
	if (example)
		*example++ = '\0';
	for (int i = 0; i < REPEATS; i++)
		if (!compile_once(what, NULL, kernel, example ? example : "large", t, &all[i], &llvm[i]))
			return false;
	double first = all[0];
	qsort(all, REPEATS, sizeof *all, compare);
	qsort(llvm, REPEATS, sizeof *llvm, compare);
	printf("%-22s %8.2f %8.2f %8.2f %8.2f\n", kernel, 1e3 * first, 1e3 * all[REPEATS / 2], 1e3 * all[0],
	    1e3 * llvm[REPEATS / 2]);
	fflush(stdout);
	return true;
}

int
main(int argc, char **argv)
{
	const Target *t = argc > 1 && !strchr(argv[1], ':') ? target_named(argv[1]) : target_named("sm_90a");
	double all, llvm;
	if (!t || argc < 2) {
		fputs("usage: bench_compile [TARGET] FILE:KERNEL[:EXAMPLE]...\n", stderr);
		return 2;
	}
	if (!compile_once("warm.tgl", warm_up, "warm", "", t, &all, &llvm))
		return 1;
	printf("%-22s %8s %8s %8s %8s\n", "ms from source to PTX", "first", "median", "least", "of LLVM");
	printf("%-22s %8.2f\n", "(the process's first)", 1e3 * all);
	for (int i = strchr(argv[1], ':') ? 1 : 2; i < argc; i++)
		if (!measure(argv[i], t))
			return 1;
	return 0;
}
