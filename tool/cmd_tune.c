/* tune: finds the best values of a kernel's tune(...) by measuring, and moves results to text and back. */
#include "tool/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Bar {
	const Cli *cli;
	const char *kernel, *label;
} Bar;

enum { BAR_WIDTH = 24 };

static bool
show_bar(void *user, const char *what, double part)
{
	const Bar *b = user;
	char bar[BAR_WIDTH + 1];
	int full = (int)(part * BAR_WIDTH);
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR_WIDTH] = 0;
	cli_progress(b->cli, "%s %s [%s] %s", b->kernel, b->label, bar, what);
	return true;
}

/* ---- the table ---- */

static const char *const state_word[] = {"won", "slower", "pruned", "wrong", "failed", "skipped"};

static int
by_time(const void *a, const void *b)
{
	const TglTuneCandidate *x = *(const TglTuneCandidate *const *)a, *y = *(const TglTuneCandidate *const *)b;
	if ((x->state == TGL_TUNE_WON) != (y->state == TGL_TUNE_WON))
		return x->state == TGL_TUNE_WON ? -1 : 1;
	return (x->median > y->median) - (x->median < y->median);
}

static void
print_measured(const Cli *cli, const TglTune *t)
{
	const TglTuneCandidate **row = NEW_ARRAY(cli->mem, const TglTuneCandidate *, t->n);
	double plain = t->n ? t->candidate[0].median : 0;
	int n = 0;
	for (int i = 0; i < t->n; i++)
		if (t->candidate[i].samples)
			row[n++] = &t->candidate[i];
	qsort(row, (size_t)n, sizeof *row, by_time);
	if (n)
		printf("  %10s  %7s  %8s  values\n", "time", "noise", "default/");
	for (int i = 0; i < n; i++) {
		Text s = {0};
		cli_show_seconds(row[i]->median, &s);
		printf("  %10s  %5.1f %%  ", s.at, 100 * row[i]->noise / row[i]->median);
		if (plain > 0)
			printf("%8.3f  ", plain / row[i]->median);
		else
			printf("%8s  ", "");
		printf("%s%s%s%s\n", row[i]->values, row[i]->is_default ? " (default)" : "",
		    row[i]->state == TGL_TUNE_WON ? "" : ": ", row[i]->state == TGL_TUNE_WON ? "" : row[i]->why);
		text_close(&s);
	}
}

/* Those that were not measured, by reason. */
static void
print_dropped(const TglTune *t)
{
	for (int i = 0; i < t->n; i++) {
		const TglTuneCandidate *c = &t->candidate[i];
		int n = 0, before = 0;
		if (c->samples)
			continue;
		for (int j = 0; j < t->n; j++)
			if (!t->candidate[j].samples && t->candidate[j].state == c->state &&
			    strcmp(t->candidate[j].why, c->why) == 0) {
				n++;
				before += j < i;
			}
		if (before)
			continue;
		if (n > 1)
			printf("  %10s  %d times: %s\n", state_word[c->state], n, c->why);
		else
			printf("  %10s  %s: %s\n", state_word[c->state], c->values, c->why);
	}
}

static void
print_space(const TglTune *t)
{
	if (t->combinations == INT64_MAX)
		printf("  more than 2^62 combinations");
	else
		printf("  %lld combinations", (long long)t->combinations);
	if (t->sampled)
		printf(", too many to try: the default and a random sample of %d", t->n - 1);
	puts("");
}

static void
print_result(Session *s, TglKernel *k, const char *label, const TglTune *t)
{
	TglCacheInfo info;
	printf("%s%s%s on %s\n", tgl_kernel_name(k), *label ? " " : "", label, t->device);
	printf("  %s; %s\n", t->dtypes, t->sizes);
	if (t->frozen) {
		printf("  frozen: %s\n", t->known ? t->known : "nothing is known, the defaults are used");
		return;
	}
	print_space(t);
	print_measured(s->cli, t);
	print_dropped(t);
	if (t->winner >= 0)
		printf("  won: %s: %s%s\n", t->candidate[t->winner].values, t->why,
		    t->spent ? "; the budget was spent, so there may be better ones" : "");
	else
		puts("  the budget was spent before anything was measured");
	tgl_cache_info(s->cx, &info);
	if (t->kept)
		printf("  kept in %s\n", info.path);
}

static json_t *
json_result(TglKernel *k, const char *label, const TglTune *t)
{
	json_t *all = json_array();
	for (int i = 0; i < t->n; i++) {
		const TglTuneCandidate *c = &t->candidate[i];
		json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b, s:i, s:f, s:f, s:f}", "values", c->values,
		    "state", state_word[c->state], "why", c->why, "default", c->is_default, "samples", c->samples,
		    "seconds", c->median, "noise", c->noise, "estimate", c->estimate));
	}
	return json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:I, s:b, s:o, s:s?, s:s?, s:b, s:b, s:b, s:s?}", "kernel",
	    tgl_kernel_name(k), "example", label, "device", t->device, "dtypes", t->dtypes, "sizes", t->sizes,
	    "combinations", (json_int_t)t->combinations, "sampled", t->sampled, "candidates", all, "winner",
	    t->winner >= 0 ? t->candidate[t->winner].values : NULL, "why", t->why, "kept", t->kept, "spent", t->spent,
	    "frozen", t->frozen, "known", t->known);
}

/* ---- tuning ---- */

typedef struct Job {
	Session *s;
	TglKernel *k;
	const TglArg *args;
	int nargs;
	TglTuneOptions options;
	json_t *json;                                       /* NULL: for people */
} Job;

static void
tune_case(Job *j, TglCase *c)
{
	Session *s = j->s;
	TglTune t;
	Bar bar = {s->cli, tgl_kernel_name(j->k), tgl_case_label(c)};
	j->options.progress = show_bar;
	j->options.user = &bar;
	tgl_context_print(s->cx, NULL, NULL);
	TglStatus status = tgl_case_tune(c, &j->options, &t);
	cli_progress_end(s->cli);
	if (status != TGL_OK) {
		session_error(s);
	} else {
		session_warnings(s);
		if (j->json)
			json_array_append_new(j->json, json_result(j->k, bar.label, &t));
		else
			print_result(s, j->k, bar.label, &t);
	}
	tgl_tune_close(&t);
}

static void
tune_example(Job *j, const TglCaseOptions *which)
{
	TglCaseOptions o = *which;
	o.args = j->args;
	o.nargs = j->nargs;
	cli_progress(j->s->cli, "preparing %s", tgl_kernel_name(j->k));
	TglCase *c = tgl_case_open(j->s->dev, j->k, &o);
	cli_progress_end(j->s->cli);
	session_warnings(j->s);
	if (c)
		tune_case(j, c);
	else
		session_error(j->s);
	tgl_case_close(&c);
}

/* The example asked for; else all that are for timing; else the first. */
static void
tune_examples(Job *j)
{
	TglExample e;
	int benches = 0;
	if (cli_has(j->s->cli, OPT_EXAMPLE)) {
		tune_example(j, &(TglCaseOptions){.example = j->s->cli->value[OPT_EXAMPLE]});
		return;
	}
	for (int i = 0; tgl_kernel_example(j->k, i, &e); i++)
		if (e.is_bench) {
			benches++;
			tune_example(j, &(TglCaseOptions){.by_index = true, .index = i});
		}
	if (!benches)
		tune_example(j, &(TglCaseOptions){0});
}

static bool
read_budget(const Cli *cli, double *out)
{
	char *end;
	*out = 0;
	if (!cli_has(cli, OPT_BUDGET))
		return true;
	*out = number_read(cli->value[OPT_BUDGET], &end);
	if (end != cli->value[OPT_BUDGET] && !*end && *out > 0 && *out < 1e6)
		return true;
	cli_misuse("--budget takes seconds above 0, found '%s'", cli->value[OPT_BUDGET]);
	return false;
}

static int
tune_kernel(Session *s, TglProgram *p)
{
	const Cli *cli = s->cli;
	TensorList opened = {0};
	TglArg *args;
	Job j = {.s = s, .json = cli->json ? json_array() : NULL};
	j.k = session_kernel(s, p, cli->args.at[0], cli->args.n > 1 ? cli->args.at[1] : NULL);
	if (j.k && session_args(s, j.k, &args, &j.nargs, &opened)) {
		j.args = args;
		s->status = EXIT_GOOD;
		if (read_budget(cli, &j.options.budget))
			tune_examples(&j);
		else
			s->status = EXIT_MISUSE;
	}
	if (j.json && s->status == EXIT_GOOD)
		cli_print_json(j.json);
	else
		json_decref(j.json);
	for (int i = 0; i < opened.n; i++)
		tgl_tensor_close(&opened.at[i]);
	return s->status;
}

/* ---- text ---- */

static const char text_head[] =
    "# What `tegula tune` found, a result a line: device, kernel, hash of its text, dtypes, sizes (up to these): values.\n"
    "# `tegula tune --import FILE` takes it back.\n";

static void
put_line(void *user, const char *line)
{
	text_put(user, line);
}

static int
export_results(Session *s)
{
	Text t = {0};
	text_put(&t, text_head);
	int status = EXIT_GOOD;
	if (tgl_tuning_export(s->cx, put_line, &t) != TGL_OK)
		status = session_error(s);
	else if (strcmp(s->cli->value[OPT_EXPORT], "-") == 0)
		fwrite(t.at, 1, t.n, stdout);
	else if (!cli_write_file(s->cli->value[OPT_EXPORT], t.at, t.n))
		status = EXIT_WRONG;
	session_warnings(s);
	text_close(&t);
	return status;
}

static int
import_results(Session *s)
{
	Text t = {0};
	int64_t n;
	const char *path = s->cli->value[OPT_IMPORT];
	int status = EXIT_GOOD;
	if (!file_read(path, INT32_MAX, &t)) {
		status = cli_wrong("cannot read '%s': %s", path, strerror(errno));
	} else if (tgl_tuning_import(s->cx, t.at, t.n, &n) == TGL_OK) {
		session_warnings(s);
		printf("%lld results taken\n", (long long)n);
	} else {
		status = session_error(s);
	}
	text_close(&t);
	return status;
}

int
cmd_tune(const Cli *cli)
{
	Session s;
	bool texts = cli_has(cli, OPT_EXPORT) || cli_has(cli, OPT_IMPORT);
	if (!cli_operands(cli, texts ? 0 : 1, 2))
		return EXIT_MISUSE;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	int status = cli_has(cli, OPT_IMPORT) ? import_results(&s) : EXIT_GOOD;
	if (status == EXIT_GOOD && cli->args.n) {
		TglProgram *p = session_operand(&s);
		if (p)
			tune_kernel(&s, p);
		tgl_program_close(&p);
		status = s.status;
	}
	if (status == EXIT_GOOD && cli_has(cli, OPT_EXPORT))
		status = export_results(&s);
	session_close(&s);
	return status;
}
