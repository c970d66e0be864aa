/* check: every example of every kernel of every file on every device, against the references. */
#include "tool/cli_build.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/cache/hash.h"
#include "runtime/case/case.h"

typedef VEC(const char *) PathList;                     /* or names */

/* Code that ran on the emulator. */
typedef struct Ran {
	Hash code;
	bool has_grid_wait;                                 /* what the emulator itself does differently for a target */
	const char *target;
} Ran;

/* An example to check: of one that takes long, until all others are done. */
typedef struct Late {
	const char *path, *kernel, *device;
	int example, split;                                 /* split: 0, or parts of its loop */
	double seconds;
} Late;

typedef struct Totals {
	int good, wrong, failed, unchecked, unknown, nrows;
	json_t *rows;                                       /* NULL: for people */
	const char *only;                                   /* the kernel asked for; NULL: all */
	bool found;
	PathList names;                                     /* of kernels, where it was not found */
	bool runs_once;                                     /* on the emulator, the same code for several targets */
	VEC(Ran) ran;
	VEC(Late) late;                                     /* of this device: after all others, the shortest first */
	bool runs_late;
} Totals;

enum { LONG = 20 };                                         /* seconds, about */

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool
is_source(const char *name)
{
	size_t n = strlen(name);
	return n > 4 && strcmp(name + n - 4, ".tgl") == 0;
}

/* The .tgl files of a folder and those below it, in order of name; or the file itself. */
static bool
collect(Arena *mem, const char *path, PathList *out)
{
	struct stat st;
	if (stat(path, &st) != 0) {
		cli_wrong("cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		vec_push(mem, out, path);
		return true;
	}
	DIR *d = opendir(path);
	if (!d) {
		cli_wrong("cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	PathList here = {0};
	bool ok = true;
	for (struct dirent *e; (e = readdir(d));) {
		const char *full = arena_printf(mem, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", e->d_name);
		if (e->d_name[0] != '.' && stat(full, &st) == 0 && (S_ISDIR(st.st_mode) || is_source(e->d_name)))
			vec_push(mem, &here, full);
	}
	closedir(d);
	if (here.n)
		qsort(here.at, (size_t)here.n, sizeof *here.at, by_name);
	for (int i = 0; i < here.n && ok; i++)
		ok = collect(mem, here.at[i], out);
	return ok;
}

static void
row(Totals *t, TglKernel *k, const TglExample *ex, const char *device, const char *output, double ratio,
    const char *verdict)
{
	if (t->rows) {
		json_array_append_new(t->rows, json_pack("{s:o, s:s, s:s, s:s, s:s, s:o, s:s}", "file",
		    cli_json_path(ex->file), "kernel", tgl_kernel_name(k), "example", ex->label, "device", device,
		    "output", output, "error_over_bound", ratio < 0 ? json_null() : cli_json_number(ratio),
		    "verdict", verdict));
		return;
	}
	if (t->nrows++ == 0)
		printf("%-22s %-24s %-12s %-12s %12s\n", "kernel", "example", "on", "output", "error/bound");
	if (ratio < 0)
		printf("%-22s %-24s %-12s %-12s %12s  %s\n", tgl_kernel_name(k), ex->label, device, output, "-", verdict);
	else
		printf("%-22s %-24s %-12s %-12s %12.3g  %s\n", tgl_kernel_name(k), ex->label, device, output, ratio,
		    verdict);
}

typedef struct Checked {
	Totals *t;
	TglKernel *k;
	const TglExample *ex;
	const char *device;
} Checked;

static void
check_output(void *user, const TglCheck *r)
{
	const Checked *c = user;
	Totals *t = c->t;
	row(t, c->k, c->ex, c->device, r->param, r->ratio, r->passed ? "good" : "WRONG");
	t->good += r->passed;
	t->wrong += !r->passed;
	if (r->passed || t->rows)
		return;
	printf("    %lld of %lld elements; worst at ", (long long)r->nwrong, (long long)r->count);
	cli_print_index(r);
	printf(": got %.9g, expected %.9g, bound %.3g%s\n", cli_unsigned_nan(r->got), cli_unsigned_nan(r->want),
	    r->bound, r->guard_broken ? "; something was written outside" : "");
}

/* Of an example's code, whose text names the target once. */
static Hash
hash_code(TglKernel *k, int example, const char *target, const Text *code)
{
	Text text = {0};
	const char *name = strstr(code->at, target);
	text_printf(&text, "%s %s %d %.*s%s", tgl_kernel_file(k), tgl_kernel_name(k), example, (int)(name - code->at),
	    code->at, name + strlen(target));
	Hash h = hash_bytes(text.at, text.n);
	text_close(&text);
	return h;
}

/* The target on whose emulator the case's code ran already; NULL: it is new, and will. */
static const char *
ran_as(Session *s, Totals *t, TglCase *c, TglKernel *k, int example, const char *device)
{
	const Target *target = target_named(s->dev->dev.target);
	Text code = {0};
	if (!t->runs_once || strncmp(device, "simt", 4) != 0 || case_thread_text(c, &code) != TGL_OK) {
		text_close(&code);
		return NULL;
	}
	Ran new = {hash_code(k, example, target->name, &code), (target->has & HAS_GRID_WAIT) != 0, target->name};
	text_close(&code);
	for (int i = 0; i < t->ran.n; i++) {
		const Ran *r = &t->ran.at[i];
		if (r->has_grid_wait == new.has_grid_wait && memcmp(&r->code, &new.code, sizeof new.code) == 0)
			return r->target;
	}
	vec_push(s->cli->mem, &t->ran, new);
	return NULL;
}

static void
say_long(const Session *s, const Late *l, const char *label)
{
	if (s->cli->json)
		return;
	fflush(stdout);
	bool minutes = l->seconds >= 120;
	fprintf(stderr, "tegula: %s%s%s on %s takes about %.0f %s here; --example=NAME checks one of the others, "
	    "-D NAME=VALUE makes it smaller, and what is marked 'bench' is left out\n", l->kernel, *label ? " " : "",
	    label, l->device, minutes ? l->seconds / 60 : l->seconds, minutes ? "minutes" : "seconds");
}

/* Whether it is left for later, as it takes long. */
static bool
comes_late(Session *s, TglCase *c, const TglExample *ex, Late l, Totals *t)
{
	l.seconds = case_seconds(c);
	session_warnings(s);
	if (l.seconds < LONG)
		return false;
	if (t->runs_late)
		return say_long(s, &l, ex->label), false;
	l.path = arena_strdup(s->cli->mem, ex->file);
	l.kernel = arena_strdup(s->cli->mem, l.kernel);
	vec_push(s->cli->mem, &t->late, l);
	return true;
}

static void
check_case(Session *s, TglKernel *k, const TglExample *ex, Late l, uint64_t seed, TglArg *args, int nargs, Totals *t)
{
	const char *device = l.split ? arena_printf(s->cli->mem, "%s, split %d", l.device, l.split) : l.device;
	cli_progress(s->cli, "%s %s on %s", tgl_kernel_name(k), ex->label, device);
	TglCaseOptions options = {.by_index = true, .index = l.example, .args = args, .nargs = nargs, .seed = seed};
	TglCase *c = tgl_case_open(s->dev, k, &options);
	session_warnings(s);
	const char *same = c ? ran_as(s, t, c, k, l.example, device) : NULL;
	bool late = c && !same && comes_late(s, c, ex, l, t);
	bool ran = c && !late && (same || tgl_case_run(c, NULL) == TGL_OK);
	if (ran)
		session_warnings(s);
	cli_progress_end(s->cli);
	if (!ran && !late) {
		row(t, k, ex, device, "", -1, "FAILED");
		session_error(s);
		t->failed++;
	} else if (same) {
		row(t, k, ex, device, "", -1, arena_printf(s->cli->mem, "the code of %s", same));
	} else if (!late && !tgl_kernel_has_reference(k)) {
		row(t, k, ex, device, "", -1, "ran; no reference");
		t->unchecked++;
	} else if (!late) {
		t->failed += !session_checks(s, c, check_output, &(Checked){t, k, ex, device});
	}
	tgl_case_close(&c);
	fflush(stdout);
}

static void
check_example(Session *s, TglKernel *k, const TglExample *ex, Late l, uint64_t seed, Totals *t)
{
	TglArg *args;
	int nargs;
	TensorList opened = {0};
	if (!session_args(s, k, &args, &nargs, &opened)) {
		t->failed++;
		return;
	}
	if (l.split && ANY_OF(i, nargs, args[i].name && strcmp(args[i].name, "split") == 0))
		return;
	if (l.split)
		args[nargs++] = tgl_arg_int("split", l.split);
	check_case(s, k, ex, l, seed, args, nargs, t);
}

/* The examples that stand in the file, of whatever file's kernel.  The cpu device runs the parts of a loop one after the
 * other, and its merge in between. */
static void
check_kernel(Session *s, const char *path, TglKernel *k, const char *device, uint64_t seed, Totals *t)
{
	static const int parts[] = {0, 2, 4, 16};
	TglExample ex;
	const char *want = s->cli->value[OPT_EXAMPLE];
	int n = tgl_kernel_merges(k) && tgl_kernel_has_reference(k) && strcmp(device, "cpu") == 0 ? LEN(parts) : 1;
	for (int i = 0; tgl_kernel_example(k, i, &ex); i++) {
		bool asked = !ex.is_bench && strcmp(ex.file, path) == 0 && (!want || strcmp(want, ex.label) == 0);
		for (int j = 0; j < n && asked; j++)
			check_example(s, k, &ex, (Late){path, tgl_kernel_name(k), device, i, parts[j], 0}, seed, t);
	}
}

static int
by_seconds(const void *a, const void *b)
{
	double x = ((const Late *)a)->seconds, y = ((const Late *)b)->seconds;
	return (x > y) - (x < y);
}

static void
check_late(Session *s, uint64_t seed, Totals *t)
{
	TglExample ex;
	if (t->late.n)
		qsort(t->late.at, (size_t)t->late.n, sizeof *t->late.at, by_seconds);
	t->runs_late = true;
	for (int i = 0; i < t->late.n; i++) {
		const Late *l = &t->late.at[i];
		TglProgram *p = session_program(s, l->path);
		TglKernel *k = p ? tgl_kernel(p, l->kernel) : NULL;
		if (k && tgl_kernel_example(k, l->example, &ex))
			check_example(s, k, &ex, *l, seed, t);
		else
			t->failed++;            /* the file changed meanwhile */
		tgl_program_close(&p);
	}
	t->runs_late = false;
	t->late.n = 0;
}

static void
add_name(Arena *mem, PathList *names, const char *name)
{
	for (int i = 0; i < names->n; i++)
		if (strcmp(names->at[i], name) == 0)
			return;
	vec_push(mem, names, arena_strdup(mem, name));
}

static void
check_file(Session *s, const char *path, const char *device, uint64_t seed, Totals *t)
{
	TglProgram *p = session_program(s, path);
	if (!p) {
		t->failed++;
		return;
	}
	for (int i = 0; i < tgl_program_kernels(p); i++) {
		TglKernel *k = tgl_program_kernel(p, i);
		bool is_it = !t->only || strcmp(t->only, tgl_kernel_name(k)) == 0;
		t->found |= is_it;
		if (is_it)
			check_kernel(s, path, k, device, seed, t);
		else if (!t->found && strcmp(tgl_kernel_file(k), path) == 0)
			add_name(s->cli->mem, &t->names, tgl_kernel_name(k));
	}
	tgl_program_close(&p);
}

static bool
check_device(Session *s, const char *device, const PathList *paths, uint64_t seed, Totals *t)
{
	if (!session_device(s, device))
		return false;
	for (int i = 0; i < paths->n; i++)
		check_file(s, paths->at[i], device, seed, t);
	check_late(s, seed, t);
	return true;
}

/* The code of every target that the simt device runs. */
static bool
check_simt(Session *s, const PathList *paths, uint64_t seed, Totals *t)
{
	const Target *target;
	for (int i = 0; (target = target_at(i)); i++)
		if (target->kind == TARGET_PTX &&
		    !check_device(s, arena_printf(s->cli->mem, "simt:%s", target->name), paths, seed, t))
			return false;
	return true;
}

/* On those of "cpu,simt:sm_80". */
static bool
check_listed(Session *s, const char *list, const PathList *paths, uint64_t seed, Totals *t)
{
	VEC(const char *) names = {0};
	t->runs_once = strcmp(list, "simt") == 0 || strchr(list, ',');
	do {
		size_t n = strcspn(list, ",");
		vec_push(s->cli->mem, &names, arena_strndup(s->cli->mem, list, n));
		list += n;
	} while (*list++ == ',');
	if (!ALL_OF(i, names.n, session_device(s, names.at[i])))        /* before the first of them takes its time */
		return false;
	return ALL_OF(i, names.n, strcmp(names.at[i], "simt") == 0 ? check_simt(s, paths, seed, t)
								   : check_device(s, names.at[i], paths, seed, t));
}

/* On the devices asked for, or on all that are there. */
static bool
check_devices(Session *s, const PathList *paths, uint64_t seed, Totals *t)
{
	TglDeviceInfo info;
	if (cli_has(s->cli, OPT_DEVICE))
		return check_listed(s, s->cli->value[OPT_DEVICE], paths, seed, t);
	bool cpu_only = cli_has(s->cli, OPT_SANITIZE) || cli_has(s->cli, OPT_BREAK_NAN) || cli_has(s->cli, OPT_TRACE);
	for (int d = 0; tgl_device_list(s->cx, d, &info); d++)
		if (info.available && (!cpu_only || strcmp(info.name, "cpu") == 0) &&
		    !check_device(s, arena_strdup(s->cli->mem, info.name), paths, seed, t))
			return false;
	return true;
}

/* A fact of an expect block. */
static void
expect_row(void *user, const char *kernel, const char *target, const char *fact, const char *found, FactResult r)
{
	Totals *t = user;
	const char *verdict = r == FACT_TRUE ? "good" : r == FACT_UNKNOWN ? "not known: there is no ptxas" : "WRONG";
	t->good += r == FACT_TRUE;
	t->wrong += r == FACT_FALSE || r == FACT_OPEN;
	t->unknown += r == FACT_UNKNOWN;
	if (t->rows) {
		json_array_append_new(
		    t->rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "kernel", kernel, "device",
				 target, "fact", fact, "found", found, "verdict", verdict));
		return;
	}
	if (t->nrows++ == 0)
		printf("%-22s %-24s %-12s %-12s %12s\n", "kernel", "example", "on", "output", "error/bound");
	printf("%-22s %-24s %-12s %-25s  %s", kernel, "expect", target, fact, verdict);
	printf(r == FACT_OPEN ? ": it is not known, %s\n" : r == FACT_FALSE && *found ? ": it is %s\n" : "\n", found);
}

/* Not where GPUs' code is no subject, where one looks at values, or runs what the file was not compiled into. */
static bool
has_facts(const Cli *cli)
{
	static const int without[] = {OPT_BREAK_NAN, OPT_SANITIZE, OPT_TRACE, OPT_IR};
	const char *device = cli->value[OPT_DEVICE];
	return (!device || strcmp(device, "cpu") != 0) && !ANY_OF(i, LEN(without), cli_has(cli, without[i]));
}

static int
check_all(Session *s, const PathList *paths, const char *only, uint64_t seed)
{
	Totals t = {.rows = s->cli->json ? json_array() : NULL, .only = only};
	if (!check_devices(s, paths, seed, &t)) {
		json_decref(t.rows);
		return s->status;
	}
	const char *example = s->cli->value[OPT_EXAMPLE];
	if (example && t.good + t.wrong + t.failed + t.unchecked == 0 && (!only || t.found)) {
		json_decref(t.rows);
		return cli_wrong("there is no example '%s' to check; tegula run --example checks one that is marked bench",
		    example);
	}
	for (int i = 0; i < paths->n && has_facts(s->cli); i++)
		t.failed += !cli_expect(s->cli, paths->at[i], only, expect_row, &t);
	if (only && !t.found && !t.failed) {
		json_decref(t.rows);
		return cli_wrong("there is no kernel '%s'; %s", only,
		    name_advice(s->cli->mem, only, t.names.at, t.names.n));
	}
	if (t.rows)
		cli_print_json(t.rows);
	else
		printf("%d good, %d wrong, %d failed, %d without a reference\n", t.good, t.wrong, t.failed, t.unchecked);
	if (t.good + t.wrong + t.failed + t.unchecked == 0)
		return cli_wrong("there was no example to check");
	return t.wrong + t.failed ? EXIT_WRONG : EXIT_GOOD;
}

/* The last operand, if it names no file but may name a kernel; else NULL. */
static const char *
kernel_named(const Cli *cli)
{
	struct stat st;
	const char *last = cli->args.at[cli->args.n - 1];
	return cli->args.n > 1 && name_is_valid(last) && stat(last, &st) != 0 ? last : NULL;
}

int
cmd_check(const Cli *cli)
{
	Session s;
	PathList paths = {0};
	int64_t seed;
	if (!cli_operands(cli, 1, INT32_MAX) || !cli_number(cli, OPT_SEED, 0, &seed))
		return EXIT_MISUSE;
	const char *only = kernel_named(cli);
	for (int i = 0; i < cli->args.n - (only != NULL); i++)
		if (!collect(cli->mem, cli->args.at[i], &paths))
			return EXIT_WRONG;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	int status = check_all(&s, &paths, only, (uint64_t)seed);
	session_close(&s);
	return status;
}
