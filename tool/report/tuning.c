/* The tuner's table: each candidate of a kernel's tune(...) with the model's time and, where it was tuned, the measured
 * one.
 *
 * Times are those of --tuned FILE (what `tegula tune --json` printed, which has every candidate, or the text of
 * `tegula tune --export`) or of the cache; both of the latter have the winner's and the default's alone. */
#include "tool/report/report.h"

#include "runtime/runtime.h"
#include "runtime/tune/tune.h"

#include <string.h>

static const double SECONDS = 2;                            /* for estimates */

static const char *
word(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));
	return s ? s : "";
}

/* One of the results that `tegula tune --json` printed. */
static void
take_result(TuneTable *t, const json_t *j)
{
	const json_t *all = json_object_get(j, "candidates");
	if (strcmp(word(j, "kernel"), t->key.kernel) != 0 || strcmp(word(j, "dtypes"), t->key.dtypes) != 0 ||
	    strcmp(word(j, "sizes"), t->key.sizes) != 0 || t->device || json_array_size(all) == 0)
		return;
	t->device = arena_strdup(t->mem, word(j, "device"));
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *c = json_array_get(all, i);
		bool is_default = json_is_true(json_object_get(c, "default"));
		TuneRow *r = is_default ? &t->rows.at[0] : tune_table_row(t, word(c, "values"));
		r->seconds = json_number_value(json_object_get(c, "seconds"));
		r->noise = json_number_value(json_object_get(c, "noise"));
		r->dropped = r->seconds > 0 ? NULL : arena_strdup(t->mem, word(c, "why"));
		if (strcmp(word(c, "state"), "won") == 0)
			t->winner = r->values;
	}
	t->why = arena_strdup(t->mem, word(j, "why"));
}

static bool
read_tuned(const char *path, TuneTable *t)
{
	Text text = {0};
	const char *why = "it is neither";
	int line = 1;
	if (!file_read(path, INT32_MAX, &text))
		return cli_wrong("cannot read '%s'", path), false;
	json_t *all = text.n ? json_loadb(text.at, text.n, 0, NULL) : NULL;
	for (size_t i = 0; i < json_array_size(all); i++)
		take_result(t, json_array_get(all, i));
	bool ok = json_is_array(all) || (!all && text.n && tune_read(text.at, tune_table_take, t, &line, &why));
	if (!ok)
		cli_wrong("%s:%d: this is no result of tuning: %s", path, line, why);
	json_decref(all);
	text_close(&text);
	return ok;
}

/* ---- what it comes to ---- */

static const TuneRow *
least(const TuneTable *t)
{
	const TuneRow *best = NULL;
	for (int i = 0; i < t->rows.n; i++) {
		const TuneRow *r = &t->rows.at[i];
		if (r->us > 0 && (!best || r->us < best->us))
			best = r;
	}
	return best;
}

static const char *
table_text(const Cli *cli, const TuneTable *t)
{
	Text s = {0};
	const TuneRow *best = least(t);
	int estimates = 0, measured = 0;
	for (int i = 0; i < t->rows.n; i++) {
		estimates += t->rows.at[i].us > 0;
		measured += t->rows.at[i].seconds > 0;
	}
	if (measured)
		text_printf(&s, "Measured on %s: %d of %d candidates.", t->device, measured, t->rows.n);
	else
		text_printf(&s, "%s has no measurements of this kernel for these sizes%s",
		    cli_has(cli, OPT_TUNED) ? "The file" : "The cache",
		    estimates ? ": times are the model's estimates." : ", and the model no estimates for this target.");
	if (t->winner)
		text_printf(&s, " %s won: %s.", strcmp(t->winner, "default") ? t->winner : "The default", t->why);
	if (best)
		text_printf(&s, " By the model the least of %d, %.4g us, is %s%s%s.", estimates, best->us,
		    best->is_default ? "the default (" : "", best->is_default ? t->default_values : best->values,
		    best->is_default ? ")" : "");
	return text_take(&s, cli->mem);
}

static json_t *
positive(double v)
{
	return v > 0 ? json_real(v) : json_null();
}

static json_t *
table_json(const Cli *cli, const TuneTable *t)
{
	json_t *all = json_array();
	for (int i = 0; i < t->rows.n; i++) {
		const TuneRow *r = &t->rows.at[i];
		json_array_append_new(all, json_pack("{s:s, s:b, s:o, s:o, s:o, s:s?}", "values", r->values, "default",
		    r->is_default, "estimated_us", positive(r->us), "measured_us", positive(1e6 * r->seconds), "noise_us",
		    positive(1e6 * r->noise), "left_out", r->dropped));
	}
	return json_pack("{s:s?, s:s, s:s?, s:s?, s:I, s:b, s:o, s:s}", "device", t->device, "default",
	    t->default_values, "winner", t->winner, "why", t->why, "combinations", (json_int_t)t->combinations, "sampled",
	    t->sampled, "candidates", all, "text", table_text(cli, t));
}

static json_t *
make(Session *s, TglKernel *k, const Target *target)
{
	const Cli *cli = s->cli;
	const char *example = cli->value[OPT_EXAMPLE];
	TglCaseOptions o = {.example = example, .by_index = !example && k->k->examples.n, .no_example = !k->k->examples.n};
	TensorList opened = {0};
	TglArg *args;
	TuneTable t;
	if (!session_args(s, k, &args, &o.nargs, &opened))
		return NULL;
	o.args = args;
	if (!tune_table(k, target->name, &o, SECONDS, cli->mem, &t))
		return json_null();
	if (cli_has(cli, OPT_TUNED) && !read_tuned(cli->value[OPT_TUNED], &t))
		return NULL;
	if (!cli_has(cli, OPT_TUNED))
		tune_each(context_cache(s->cx), tune_table_take, &t);
	return table_json(cli, &t);
}

json_t *
report_tuning(const Cli *cli, const Kernel *k, const Target *t)
{
	Session s;
	json_t *j = NULL;
	if (k->item->tune.n == 0 || cli->from_input)
		return json_null();
	if (!session_open(&s, cli))
		return NULL;
	cli_progress(cli, "estimates of %s", k->name);
	TglProgram *p = session_program(&s, cli->args.at[0]);
	TglKernel *same = p ? tgl_kernel(p, k->name) : NULL;
	if (same)
		j = make(&s, same, t);
	cli_progress_end(cli);
	tgl_program_close(&p);
	session_close(&s);
	return j;
}
