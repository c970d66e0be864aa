/* The tuner's table: each candidate of a kernel's tune(...) with the model's time and, where it was tuned, the measured
 * one.
 *
 * Times are those of --tuned FILE (what `tegula tune --json` printed, which has every candidate, or the text of
 * `tegula tune --export`) or of the cache; both of the latter have the winner's and the default's alone. */
#include "tool/report/report.h"

#include "runtime/runtime.h"
#include "runtime/tune/tune.h"

#include <errno.h>
#include <string.h>

static const double SECONDS = 2;                            /* for estimates */
static const double ESTIMATING = 0.1;                   /* of a budget, as in tune_order.c */

typedef struct TuneRow {
	const char *values;             /* "BM = 64, warps = 4"; "default" of the first */
	bool is_default;
	double us;                      /* that the cost model expects; 0: not known */
	double seconds, noise;          /* measured; 0: it was not */
	const char *dropped;            /* why it is not measured; NULL: it may be */
} TuneRow;

typedef struct TuneTable {
	VEC(TuneRow) rows;
	TuneKey key;                    /* without a device */
	const char *default_values;
	int64_t combinations;
	bool sampled;
	const char *device, *winner, *why;      /* of what was measured; NULL: nothing */
	Arena *mem;
} TuneTable;

static void
take_candidates(const Tuner *t, Arena *mem, TuneTable *out)
{
	for (int i = 0; i < t->at.n; i++) {
		const Candidate *c = &t->at.at[i];
		TuneRow r = {.values = i ? candidate_values(t, c) : "default", .is_default = i == 0,
		    .us = c->cycles > 0 && t->target->rates ? c->cycles / t->target->rates->clock : 0,
		    .dropped = c->dropped ? c->why : NULL};
		if (i == 0)
			out->default_values = candidate_values(t, c);
		vec_push(mem, &out->rows, r);
	}
	out->combinations = t->combinations;
	out->sampled = t->sampled;
}

/* False, without a report: the kernel has nothing to tune, or cannot be bound. */
static bool
table_open(TglKernel *k, const char *target, const TglCaseOptions *o, Arena *mem, TuneTable *out)
{
	TglCase c = {.k = k};
	Compile *cx = k->program->compile;
	Tuner t = {.c = &c, .k = k, .mem = mem, .target = target_named(target), .start = device_clock()};
	Reports hidden = reports_hide(cx, mem);
	*out = (TuneTable){.mem = mem};
	t.budget = SECONDS / ESTIMATING;
	bool ok = k->k->item->tune.n > 0 && case_choose_example(&c, o) &&
	          binding_collect(k, o->args, o->nargs, true, &c.b) && case_bind(&c);
	if (ok) {
		binding_pointers(k, &c.b);
		ok = tune_space(&t);
	}
	if (ok) {
		tune_key(k, &t.binding, NULL, c.example, mem, &out->key);
		take_candidates(&t, mem, out);
	}
	reports_restore(cx, &hidden);
	binding_close(&c.b);
	return ok;
}

/* The row of these values, which is added if there is none. */
static TuneRow *
table_row(TuneTable *t, const char *values)
{
	for (int i = 0; i < t->rows.n; i++) {
		TuneRow *r = &t->rows.at[i];
		if (strcmp(r->values, values) == 0 || (r->is_default && strcmp(t->default_values, values) == 0))
			return r;
	}
	vec_push(t->mem, &t->rows, ((TuneRow){.values = arena_strdup(t->mem, values)}));
	return &t->rows.at[t->rows.n - 1];
}

/* Takes a kept result that is of this kernel and these sizes, the first of a GPU; true. */
static bool
table_take(void *user, const TuneEntry *e)
{
	TuneTable *t = user;
	bool is_this = strcmp(e->key.kernel, t->key.kernel) == 0 && strcmp(e->key.dtypes, t->key.dtypes) == 0 &&
	               strcmp(e->key.sizes, t->key.sizes) == 0 &&
	               memcmp(&e->key.hash, &t->key.hash, TUNE_HASH_BYTES) == 0;
	if (!is_this || strncmp(e->key.device, "cpu,", 4) == 0 || t->device)
		return true;
	t->device = arena_strdup(t->mem, e->key.device);
	TuneRow *plain = &t->rows.at[0], *won;
	plain->seconds = e->plain;
	won = table_row(t, e->values);
	won->seconds = e->seconds;
	t->winner = won->values;
	t->why = won->is_default ? "nothing was faster beyond noise"
	                         : arena_printf(t->mem, "%.3g times as fast as the default", e->plain / e->seconds);
	return true;
}

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
		TuneRow *r = is_default ? &t->rows.at[0] : table_row(t, word(c, "values"));
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
		return cli_wrong("cannot read '%s': %s", path, strerror(errno)), false;
	json_t *all = text.n ? json_loadb(text.at, text.n, 0, NULL) : NULL;
	for (size_t i = 0; i < json_array_size(all); i++)
		take_result(t, json_array_get(all, i));
	bool ok = json_is_array(all) || (!all && text.n && tune_read(text.at, table_take, t, &line, &why));
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
	if (!table_open(k, target->name, &o, cli->mem, &t))
		return json_null();
	if (cli_has(cli, OPT_TUNED) && !read_tuned(cli->value[OPT_TUNED], &t))
		return NULL;
	if (!cli_has(cli, OPT_TUNED))
		tune_each(context_cache(s->cx), table_take, &t);
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
