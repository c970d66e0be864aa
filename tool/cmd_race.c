/* race: the code that is made for GPUs, run on this machine with every check, under several schedules. */
#include "tool/cli.h"

#include <string.h>

enum { SCHEDULES = 4, MOST_SCHEDULES = 1000000 };

typedef struct Tally {
	int64_t schedules;
	int runs, bad;
	const char *last;                                   /* the report printed last: targets often give the same */
	json_t *rows;                                       /* NULL: for people */
} Tally;

/* ---- a run ---- */

/* What differs from the reference, where there is one; NULL: nothing does. */
static const char *
wrong_output(Session *s, TglKernel *k, TglCase *c)
{
	TglCheck r;
	bool more = tgl_kernel_has_reference(k);
	for (int i = 0; more; i++) {
		if (tgl_case_check(c, i, &r, &more) != TGL_OK)
			return session_error(s), "the check of the result failed";
		if (more && !r.passed)
			return arena_printf(s->cli->mem, "%s differs from the reference: %lld of %lld elements", r.param,
			    (long long)r.nwrong, (long long)r.count);
	}
	return NULL;
}

static void
print_error(Session *s, Tally *t)
{
	const TglError *e = tgl_error(s->cx);
	if (t->last && strcmp(t->last, e->text) == 0)
		return;
	t->last = arena_strdup(s->cli->mem, e->text);
	session_error(s);
}

/* All schedules until one has a report; the words of what it is, NULL: nothing. */
static const char *
run_schedules(Session *s, TglKernel *k, TglCase *c, Tally *t, int64_t *ran)
{
	const char *what = NULL;
	for (*ran = 0; *ran < t->schedules && !what; ++*ran) {
		tgl_device_schedule(s->dev, (uint64_t)*ran);
		if (tgl_case_run(c, NULL) != TGL_OK) {
			print_error(s, t);
			what = "REPORT";
		} else {
			session_warnings(s);
			what = wrong_output(s, k, c);
		}
	}
	return what;
}

static void
row(Tally *t, TglKernel *k, const char *label, const char *target, int64_t ran, const char *what)
{
	t->runs++;
	t->bad += what != NULL;
	if (t->rows) {
		json_array_append_new(t->rows, json_pack("{s:o, s:s, s:s, s:s, s:I, s:s}", "file",
		    cli_json_path(tgl_kernel_file(k)), "kernel", tgl_kernel_name(k), "example", label, "target", target,
		    "schedules", (json_int_t)ran, "verdict", what ? what : "clean"));
		return;
	}
	printf("%-22s %-24s %-8s %lld schedule%s: %s\n", tgl_kernel_name(k), label, target, (long long)ran,
	    ran == 1 ? "" : "s", what ? what : "clean");
	fflush(stdout);
}

static bool
race_example(Session *s, TglKernel *k, const char *label, TglCaseOptions options, const char *target, Tally *t)
{
	TglArg *args;
	int nargs;
	int64_t ran = 0;
	TensorList opened = {0};
	cli_progress(s->cli, "%s %s for %s", tgl_kernel_name(k), label, target);
	if (!session_args(s, k, &args, &nargs, &opened))
		return false;
	options.args = args;
	options.nargs = nargs;
	TglCase *c = tgl_case_open(s->dev, k, &options);
	session_warnings(s);
	const char *what = c ? run_schedules(s, k, c, t, &ran) : "FAILED";
	cli_progress_end(s->cli);
	if (!c)
		print_error(s, t);
	row(t, k, label, target, ran, what);
	tgl_case_close(&c);
	return true;
}

/* ---- what is to be run ---- */

static bool
race_kernel(Session *s, TglKernel *k, const char *target, uint64_t seed, Tally *t)
{
	TglExample ex;
	const char *want = s->cli->value[OPT_EXAMPLE];
	int n = 0;
	for (int i = 0; tgl_kernel_example(k, i, &ex); i++) {
		if (want ? strcmp(want, ex.label) != 0 : ex.is_bench)
			continue;
		n++;
		if (!race_example(s, k, ex.label, (TglCaseOptions){.by_index = true, .index = i, .seed = seed}, target, t))
			return false;
	}
	if (n == 0 && !want && (s->cli->define.n || s->cli->arg.n))
		return race_example(s, k, "", (TglCaseOptions){.no_example = true, .seed = seed}, target, t);
	return true;
}

static bool
race_target(Session *s, TglProgram *p, const char *target, uint64_t seed, Tally *t)
{
	const char *path = s->cli->args.at[0], *name = s->cli->args.n > 1 ? s->cli->args.at[1] : NULL;
	if (!session_device(s, arena_printf(s->cli->mem, "simt:%s", target)))
		return false;
	if (name) {
		TglKernel *k = session_kernel(s, p, path, name);
		return k && race_kernel(s, k, target, seed, t);
	}
	for (int i = 0; i < tgl_program_kernels(p); i++) {
		TglKernel *k = tgl_program_kernel(p, i);
		if (session_is_chosen(p, k, path) && !race_kernel(s, k, target, seed, t))
			return false;
	}
	return true;
}

static bool
race_targets(Session *s, TglProgram *p, uint64_t seed, Tally *t)
{
	const Target *target;
	if (cli_has(s->cli, OPT_TARGET))
		return race_target(s, p, s->cli->value[OPT_TARGET], seed, t);
	for (int i = 0; (target = target_at(i)); i++)
		if (target->kind == TARGET_PTX && !race_target(s, p, target->name, seed, t))
			return false;
	return true;
}

static int
race_all(Session *s, uint64_t seed, int64_t schedules)
{
	Tally t = {.schedules = schedules, .rows = s->cli->json ? json_array() : NULL};
	TglProgram *p = session_program(s, s->cli->args.at[0]);
	if (!p)
		return s->status;
	bool ok = race_targets(s, p, seed, &t);
	tgl_program_close(&p);
	if (!ok) {
		json_decref(t.rows);
		return s->status;
	}
	if (t.rows)
		cli_print_json(t.rows);
	if (t.runs == 0)
		return cli_wrong("there was no example to run");
	if (!s->cli->json)
		printf("%d run, %d with a report\n", t.runs, t.bad);
	return t.bad ? EXIT_WRONG : EXIT_GOOD;
}

int
cmd_race(const Cli *cli)
{
	Session s;
	int64_t seed, schedules;
	if (!cli_operands(cli, 1, 2) || !cli_number(cli, OPT_SEED, 0, &seed) ||
	    !cli_number(cli, OPT_SCHEDULES, SCHEDULES, &schedules))
		return EXIT_MISUSE;
	if (schedules < 1 || schedules > MOST_SCHEDULES)
		return cli_misuse("--schedules takes a number from 1 to %d", MOST_SCHEDULES);
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	int status = race_all(&s, (uint64_t)seed, schedules);
	session_close(&s);
	return cli_finish(status);
}
