/* Mutates each barrier, wait, bounds check, swizzle … of the code that the compiler makes of kernels, one at a time, and
 * looks what detects it.
 *
 *     mutate [--targets=LIST] [--kinds=LIST] [--most=N | --all] [--orders=N] [--against=TABLE] FILE.tgl...
 *     mutate --expect FILE.tgl...
 *
 * Each example of each kernel is run on the simt device as it is, and then once for each mutant (mutants.def, mutant.c), in
 * several ways (way.c) until something detects it: a report of the device's checks, or other results than before.  The
 * table says for each kind how many there are, how many were tried, and what came of it; behind it stand the mutants that
 * nothing detected, by their places.  Of more than N (40) of a kind, N are taken, evenly spread, and the table says so;
 * --all takes all.  FILE.tir, if it is there, is the code of FILE.tgl's kernel, and `// target: NAME` in that says for which
 * target alone.
 *
 * Undetected, anything but a bounds check or a swizzle is a fault, of the compiler or of this program: the exit status is 1.
 * With --against, so is whatever else is undetected here but not in that table, which is this program's output: a sample
 * can so be held against the run of all (table.txt).  --expect holds certain mutants against the report that each must
 * have (expect.c). */
#include "tests/mutate/subject.h"
#include "tests/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Options {
	const char *targets, *kinds;
	int most, norders;
	const char *against;                    /* the whole text of a table; NULL: none */
	bool expects;
} Options;

typedef struct Tally {
	int there, tried, by[CATCH_KINDS], never;
} Tally;

typedef struct Run {
	Options o;
	Tally all[MUTANT_KINDS];
	Text missed;
	int nbad;
	Shared *shared;
} Run;

/* ---- those that nothing detected: lines of one place, and how many there are in it ---- */

typedef struct Missed {
	char line[160];
	int n;
} Missed;

typedef struct MissedList {
	Missed at[512];
	int n;
} MissedList;

static void
note_missed(MissedList *m, const Subject *s, int n, bool never)
{
	char line[160];
	const MutantNote *o = &s->shared->note[n];
	snprintf(line, sizeof line, "%s %s %s %s line %d%s", s->name, s->target, mutant_info[o->kind].name, o->what,
	    o->place.line, never ? " never-false" : "");
	for (int i = 0; i < m->n; i++)
		if (strcmp(m->at[i].line, line) == 0) {
			m->at[i].n++;
			return;
		}
	if (m->n == LEN(m->at))
		return;
	snprintf(m->at[m->n].line, sizeof line, "%s", line);
	m->at[m->n++].n = 1;
}

/* Prints them, and counts those that are not in the table. */
static void
end_missed(Run *r, const MissedList *m, MutantKind kind)
{
	for (int i = 0; i < m->n; i++) {
		char in_table[200];
		text_printf(&r->missed, "    %s: %d\n", m->at[i].line, m->at[i].n);
		const char *end = strstr(m->at[i].line, " never-false");
		int n = end ? (int)(end - m->at[i].line) : (int)strlen(m->at[i].line);
		snprintf(in_table, sizeof in_table, "    %.*s", n, m->at[i].line);
		bool is_side = strstr(m->at[i].line, " grid_wait ") != NULL; /* both sides of a branch have one */
		bool may_survive = kind == MUTANT_MASK || kind == MUTANT_SWIZZLE || (is_side && r->o.against);
		if (!may_survive || (r->o.against && !strstr(r->o.against, in_table)))
			r->nbad++;
	}
}

/* ---- */

static void
print_row(const char *name, const char *target, MutantKind kind, const Tally *t)
{
	printf("%-26s %-8s %-8s %6d %6d %8d %6d %6d %7d %7d\n", name, target, mutant_info[kind].name, t->there, t->tried,
	    t->by[CATCH_REPORT], t->by[CATCH_WRONG], t->by[CATCH_CRASH], t->by[CATCH_NONE] - t->never, t->never);
	fflush(stdout);
}

static Tally
try_kind(Subject *s, MutantKind kind, Run *r, MissedList *m)
{
	Tally t = {0};
	for (int n = 0; n < s->whole.count; n++)
		t.there += s->shared->note[n].kind == kind;
	int step = r->o.most > 0 ? (t.there + r->o.most - 1) / r->o.most : 1, i = 0;
	for (int n = 0; n < s->whole.count; n++) {
		bool never;
		if (s->shared->note[n].kind != kind || i++ % step)
			continue;
		Catch c = subject_mutate(s, n, &never);
		t.tried++;
		t.by[c]++;
		t.never += c == CATCH_NONE && never;
		if (c == CATCH_NONE)
			note_missed(m, s, n, never);
	}
	return t;
}

static void
try_subject(Subject *s, Run *r)
{
	bool ok = subject_open(s, r->o.norders) && subject_prepare(s);
	for (int kind = 0; ok && kind < MUTANT_KINDS; kind++) {
		MissedList missed = {.n = 0};
		if (r->o.kinds ? !is_named(r->o.kinds, mutant_info[kind].name) : !mutant_info[kind].in_table)
			continue;
		Tally t = try_kind(s, (MutantKind)kind, r, &missed);
		end_missed(r, &missed, (MutantKind)kind);
		r->all[kind].there += t.there;
		r->all[kind].tried += t.tried;
		r->all[kind].never += t.never;
		for (int c = 0; c < CATCH_KINDS; c++)
			r->all[kind].by[c] += t.by[c];
		if (t.there)
			print_row(s->name, s->target, (MutantKind)kind, &t);
	}
	if (!ok) {
		fprintf(stderr, "mutate: %s, %s, %s: as it is: %s\n", s->path, s->name, s->target, s->shared->why);
		r->nbad++;
	}
	subject_close(s);
}

static char *
whole_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
	if (n >= 0 && (text = calloc((size_t)n + 1, 1)) && fseek(f, 0, SEEK_SET) == 0)
		text[fread(text, 1, (size_t)n, f)] = '\0';
	if (f)
		fclose(f);
	return text;
}

/* Does the text of a file name another target? */
static bool
is_for_other(const char *text, const char *target)
{
	const char *only = strstr(text, "// target: ");
	size_t n = strlen(target);
	only = only ? only + strlen("// target: ") : NULL;
	return only && (strncmp(only, target, n) != 0 || only[n] != '\n');
}

/* Every example of a kernel but those for bench. */
static void
try_file(const char *path, const char *target, Run *r)
{
	TglContext *cx = tgl_context_open();
	TglProgram *p = tgl_program_file(cx, path);
	TglExample example;
	char ir[256], *text = whole_file(path);
	if (!p || !text) {
		fputs(tgl_error(cx)->text, stderr);
		r->nbad++;
	}
	snprintf(ir, sizeof ir, "%.*s.tir", (int)(strlen(path) - strlen(".tgl")), path);
	for (int i = 0; p && text && !is_for_other(text, target) && tgl_program_kernel(p, i); i++) {
		TglKernel *k = tgl_program_kernel(p, i);
		for (int e = 0; strcmp(tgl_kernel_file(k), path) == 0 && tgl_kernel_example(k, e, &example); e++) {
			Subject s = {.path = path, .target = target, .kernel = i, .example = e, .shared = r->shared,
				.ir = access(ir, R_OK) == 0 ? ir : NULL};
			snprintf(s.name, sizeof s.name, "%s/%d", tgl_kernel_name(k), e);
			if (!example.is_bench && r->o.expects)
				r->nbad += expect(&s, text);
			else if (!example.is_bench)
				try_subject(&s, r);
		}
	}
	free(text);
	tgl_program_close(&p);
	tgl_context_close(&cx);
}

static bool
take_option(Options *o, const char *arg)
{
	const char *v;
	if ((v = option(arg, "--targets=")))
		o->targets = v;
	else if ((v = option(arg, "--kinds=")))
		o->kinds = v;
	else if ((v = option(arg, "--most=")))
		o->most = atoi(v);
	else if ((v = option(arg, "--orders=")))
		o->norders = MIN(MAX(atoi(v), 1), ORDERS_MOST);
	else if ((v = option(arg, "--against=")))
		return (o->against = whole_file(v)) != NULL;
	else if (strcmp(arg, "--expect") == 0)
		o->expects = true;
	else if (strcmp(arg, "--all") == 0)
		o->most = 0;
	else
		return false;
	return true;
}

static void
print_sums(Run *r)
{
	for (int k = 0; k < MUTANT_KINDS; k++)
		if (r->all[k].there)
			print_row("all", "", (MutantKind)k, &r->all[k]);
	for (int k = 0; k < MUTANT_KINDS; k++)
		if (r->all[k].tried < r->all[k].there)
			printf("a sample of the %ss: %d of %d, evenly spread\n", mutant_info[k].name, r->all[k].tried, r->all[k].there);
	printf("undetected:\n%s", r->missed.at ? r->missed.at : "    none\n");
}

static void
print_head(char **argv, int argc)
{
	printf("#");
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	printf("\n%-26s %-8s %-8s %6s %6s %8s %6s %6s %7s %7s\n", "kernel", "target", "what", "there", "tried", "reported",
	    "wrong", "crash", "unseen", "never");
}

int
main(int argc, char **argv)
{
	Run r = {.o = {.targets = "sm_75,sm_80,sm_90a", .most = 40, .norders = 3}};
	r.shared = mmap(NULL, sizeof *r.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.shared == MAP_FAILED)
		return fprintf(stderr, "mutate: no memory\n"), 2;
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && !take_option(&r.o, argv[i]))
			return fprintf(stderr, "mutate: unknown option or no such file: %s\n", argv[i]), 2;
	if (!r.o.expects)
		print_head(argv, argc);
	for (int i = 1; i < argc; i++)
		for (int t = 0; argv[i][0] != '-' && target_at(t); t++)
			if (target_at(t)->kind == TARGET_PTX && is_named(r.o.targets, target_at(t)->name))
				try_file(argv[i], target_at(t)->name, &r);
	if (!r.o.expects)
		print_sums(&r);
	text_close(&r.missed);
	return r.nbad > 0;
}
