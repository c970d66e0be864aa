/* Compiles a kernel the whole way and keeps every stage on it, with the figures of `inspect`. */
#include "tool/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
add_stage(json_t *stages, const char *name, StageKind kind, const char *text, const char *ptx)
{
	static const char *const word[] = {"tir", "thread", "llvm", "ptx", "metal", "sass"};
	json_t *last = json_array_get(stages, json_array_size(stages) - 1);
	const char *before = json_string_value(json_object_get(last, "text"));
	if (kind == REPORT_TIR && before && strcmp(before, text) == 0) {
		json_array_append_new(json_object_get(last, "same"), json_string(name));
		return;
	}
	json_array_append_new(stages, json_pack("{s:s, s:s, s:s, s:o, s:[]}", "name", name, "kind", word[kind],
					  "text", text, "lines", report_lines(kind, text, ptx), "same"));
}

/* "// after NAME\n" begins each dump.  The file's name, which each repeats, is left out. */
static void
add_dumps(json_t *stages, char *dumps)
{
	static const char head[] = "// after ";
	for (char *at = strstr(dumps, head), *next; at; at = next) {
		char *name = at + sizeof head - 1, *text = strchr(name, '\n');
		if (!text)
			return;
		*text++ = '\0';
		next = strstr(text, head);
		if (next)
			next[-1] = '\0';
		if (strncmp(text, "file ", 5) == 0 && strchr(text, '\n'))
			text = strchr(text, '\n') + 1;
		add_stage(stages, name, REPORT_TIR, text, NULL);
		if (next)
			next[-1] = '\n';
	}
}

void
report_add_listing(json_t *stages, const CliCode *c)
{
	if (!c->listing.n)
		return;
	add_stage(stages, "SASS", REPORT_SASS, c->listing.at, c->ptx.at);
	json_object_set_new(json_array_get(stages, json_array_size(stages) - 1), REPORT_CONTROL,
	    json_string(c->control.at ? c->control.at : ""));
}

bool
report_add_code(json_t *stages, Module *m, const Target *t, const CliCode *code)
{
	Text out = {0};
	bool ok = true;
	if (t->kind == TARGET_METAL) {
		ok = compile_metal(m, t, NULL, &out, NULL, NULL);
		if (ok)
			add_stage(stages, "Metal", REPORT_METAL, out.at, NULL);
		text_close(&out);
		return ok;
	}
	static const struct {
		CompileStage stage;
		StageKind kind;
		const char *name;
	} stage[] = {
	    {STAGE_THREAD, REPORT_THREAD, "thread IR"}, {STAGE_LLVM, REPORT_LLVM, "LLVM IR"}};
	for (int i = 0; i < LEN(stage) && ok; i++) {
		out.n = 0;
		ok = compile_text(m, t, stage[i].stage, &out, NULL);
		if (ok)
			add_stage(stages, stage[i].name, stage[i].kind, out.at, NULL);
	}
	if (ok) {
		add_stage(stages, "PTX", REPORT_PTX, code->ptx.at, NULL);
		report_add_listing(stages, code);
	}
	text_close(&out);
	return ok;
}

bool
report_make_code(Module *m, const Target *t, int seconds, CliCode *out)
{
	*out = (CliCode){.name = m->funcs.at[0]->name};
	if (t->kind != TARGET_PTX)
		return true;
	bool ok = compile_text(m, t, STAGE_PTX, &out->ptx, NULL);
	if (ok)
		cli_assemble(t, out, 1, seconds);
	return ok;
}

int
report_text_lines(const char *text)
{
	int n = 0;
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		n++;
	return n;
}

bool
report_inspect(Module *m, const Target *t, const Bound *b, const char *source, Inspection *out)
{
	CliCode code = {.registers = 0};
	json_t *stages = json_array();
	bool assembles = t->kind == TARGET_PTX && cli_has_assembler();
	bool ok = !assembles || report_make_code(m, t, REPORT_ASSEMBLE, &code);
	if (ok && assembles && !code.has_resources)     /* an assembler of another kind */
		code.has_resources = cli_resources(t, &code.ptx, 0, &code.registers, &code.spills, &code.stack);
	ok = ok && cli_inspect_code(m, t, b, &code, out);
	if (ok && code.listing.n) {
		report_add_listing(stages, &code);
		json_decref(report_count_code(stages, report_text_lines(source), out, b, m->cx->mem));
	}
	json_decref(stages);
	cli_code_close(&code);
	return ok;
}

static void
add_strides(json_t *all, const char *name, const BoundParam *p)
{
	Text text = {0};
	for (int d = 0; d < p->rank; d++)
		text_printf(&text, "%s%lld", d ? ", " : "[", (long long)p->stride[d]);
	json_array_append_new(all, json_pack("[o, o]", json_sprintf("%s.strides", name), json_sprintf("%s]", text.at)));
	text_close(&text);
}

/* What a launch of these sizes is like: dimensions, compile-time parameters, the grid. */
static json_t *
sizes_json(const Bound *b)
{
	json_t *all = json_array();
	const NamedConst *list[] = {b->symbol, b->ct};
	const int count[] = {b->nsymbol, b->nct};
	for (int l = 0; l < LEN(list); l++)
		for (int i = 0; i < count[l]; i++) {
			Text value = {0};
			const_text(&list[l][i].value, &value);
			json_array_append_new(all, json_pack("[s, s]", list[l][i].name, value.at));
			text_close(&value);
		}
	for (int i = 0; i < b->kernel->params.n; i++)
		if (b->param[i].is_spread)
			add_strides(all, b->kernel->params.at[i].name, &b->param[i]);
	return all;
}

/* The layouts of the last tile IR, by the numbers that its text gives them: "layout #3 = layout(...)". */
static json_t *
layouts_json(const json_t *stages)
{
	static const char head[] = "layout #", is[] = " = ";
	json_t *all = json_array();
	const char *at = NULL;
	for (size_t i = 0; i < json_array_size(stages); i++) {
		const json_t *s = json_array_get(stages, i);
		if (strcmp(json_string_value(json_object_get(s, "kind")), "tir") == 0)
			at = json_string_value(json_object_get(s, "text"));
	}
	for (; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const char *text = strncmp(at, head, sizeof head - 1) == 0 ? strstr(at, is) : NULL;
		if (text)
			json_array_append_new(all, json_stringn(text + sizeof is - 1, strcspn(text + sizeof is - 1, "\n")));
	}
	return all;
}

/* Each reason for which schedules were refused, how many, and the first of them. */
static json_t *
refused_json(const ChooseWhy *why)
{
	json_t *all = json_array(), *one;
	size_t k;
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		bool had = c->cycles >= 0;
		json_array_foreach(all, k, one) {
			json_t *count = json_object_get(one, "count");
			if (had || strcmp(json_string_value(json_object_get(one, "refused")), c->refused) != 0)
				continue;
			json_integer_set(count, json_integer_value(count) + 1);
			had = true;
		}
		if (had)
			continue;
		Text values = {0};
		why_values(c, &values);
		one = json_pack("{s:s, s:i, s:s}", "refused", c->refused, "count", 1, "first", values.at);
		json_array_append_new(all, one);
		text_close(&values);
	}
	return all;
}

/* What the compiler compared before it took this schedule, in sentences and as a list; null where there are no rates. */
static json_t *
compared_json(const ChooseWhy *why, const Inspection *x)
{
	enum { SHOWN = 24 };
	int refused = 0;
	Text text = {0};
	const Target *t = x->t;
	if (!t->rates)
		return json_null();
	for (int i = 0; i < why->tried.n; i++)
		refused += why->tried.at[i].cycles < 0;
	why_say(why, t, x->bill.cycles, &text);
	json_t *j = json_pack("{s:s, s:s?, s:i, s:i, s:o, s:o}", "text", text.at, "not_compared", why->none, "count",
	    why->tried.n, "refused", refused, "best", cli_compared_json(why, t, SHOWN), "refusals", refused_json(why));
	text_close(&text);
	return j;
}

/* What was warned of in the kernel's lines: spills, with what helps against them. */
static json_t *
warnings_json(Compile *cx, const Kernel *k)
{
	Text t = {0};
	diag_json(cx, &t, 0);
	json_t *all = json_loads(t.at ? t.at : "[]", 0, NULL), *own = json_array(), *d;
	size_t i;
	json_array_foreach(all, i, d) {
		json_int_t line = json_integer_value(json_object_get(d, "line"));
		const char *file = json_string_value(json_object_get(d, "file"));
		if (file && strcmp(file, cx->files.at[k->item->place.file].path) == 0 && line >= k->item->place.line &&
		    line <= k->item->place.end_line)
			json_array_append(own, d);
	}
	json_decref(all);
	text_close(&t);
	return own;
}

/* What `bench --profile --json` said of this kernel, one value or a list; null without it, NULL after printing. */
static json_t *
profile_json(const Cli *cli, const Kernel *k)
{
	Text text = {0};
	const char *path = cli->value[OPT_PROFILED];
	json_t *all, *one, *own = NULL;
	size_t i;
	if (!cli_has(cli, OPT_PROFILED))
		return json_null();
	if (!file_read(path, INT32_MAX, &text))
		return cli_wrong("cannot read '%s': %s", path, strerror(errno)), NULL;
	all = text.n ? json_loadb(text.at, text.n, 0, NULL) : NULL;
	if (json_is_object(all))
		all = json_pack("[o]", all);
	json_array_foreach(all, i, one) {
		const char *name = json_string_value(json_object_get(one, "kernel"));
		if (name && strcmp(name, k->name) == 0 && json_is_array(json_object_get(one, "lines")))
			own = json_incref(one);
	}
	if (!all)
		cli_wrong("%s: this is nothing that tegula bench --profile --json printed", path);
	json_t *out = own || !all ? own : json_null();
	json_decref(all);
	text_close(&text);
	return out;
}

/* Of a launch, µs: as given, else the default's of the tuner, else the profile's, with counters on; 0: not known. */
static double
measured_us(const Cli *cli, const json_t *tuning, const json_t *profile)
{
	const json_t *c;
	size_t i;
	char *end;
	if (cli_has(cli, OPT_MEASURED))
		return number_read(cli->value[OPT_MEASURED], &end);
	json_array_foreach(json_object_get(tuning, "candidates"), i, c)
		if (json_is_true(json_object_get(c, "default")) && !cli_has(cli, OPT_DEFINE) &&
		    json_number_value(json_object_get(c, "measured_us")) > 0)
			return json_number_value(json_object_get(c, "measured_us"));
	return 1e6 * json_number_value(json_object_get(profile, "seconds"));
}

/* The stages of the one that takes more, which the page is of. */
static Module *
longer_module(Kernel *k, Module *m, Bound *b, const Target *t, const PassOptions *passes, double *other)
{
	Text *dumps = passes->dump_to, first = {0};
	PassOptions with = *passes;
	with.dump_to = &first;
	Module *longer = cli_longer_module(k, m, b, t, &with, other);
	if (longer != m) {
		text_close(dumps);
		*dumps = first;
	} else {
		text_close(&first);
	}
	return longer;
}

json_t *
report_gather(const Cli *asked, Kernel *k, const Target *t, bool *misuse)
{
	Compile *cx = k->program->cx;
	ReportTime time = {.begun = cli_processor_seconds()};
	if (!cli_positive(asked, OPT_SECONDS, REPORT_SECONDS, &time.most)) {
		*misuse = true;
		return NULL;
	}
	time.tool = cli_has(asked, OPT_SECONDS) ? (int)MAX(time.most, 1) : REPORT_ASSEMBLE;
	const ExampleItem *bench = report_benchmark(asked, k);
	Cli with = *asked, *cli = &with;
	if (bench)
		with.value[OPT_EXAMPLE] = bench->label;
	const SourceFile *f = &cx->files.at[k->item->place.file];
	Text dumps = {0};
	PassOptions passes = {.dump = "all", .dump_to = &dumps, .own_file = true};
	json_t *stages = json_array(), *out = NULL;
	Bound bound;
	Inspection x;
	ChooseWhy why = {.mem = cx->mem};
	Module *m = cli_bound_module(cli, k, NULL, t->name, &passes, misuse, &bound, &why);
	double other = 0;
	if (m && t->rates)
		report_follow(cli, k, m->funcs.at[0], &bound);
	const ReportLaunch launch = {k, m, bound, t, f->text};
	m = m ? longer_module(k, m, &bound, t, &passes, &other) : NULL;
	if (m && dumps.n)
		add_dumps(stages, dumps.at);
	CliCode code = {.registers = 0};
	bool ok = m && report_make_code(m, t, time.tool, &code) && cli_inspect_code(m, t, &bound, &code, &x);
	Bill own = {.cycles = 0};                       /* of the kernel shown alone, as its timeline is */
	if (ok) {
		own = x.bill;
		cli_add_other(&x, other);
	}
	ok = ok && (!cli_has(cli, OPT_RUN) || report_count(cli, k, &bound, &x));
	x.chosen = why.chosen.at;
	json_t *tuning = ok ? report_tuning(cli, k, t) : NULL, *profile = tuning ? profile_json(cli, k) : NULL;
	bool coded = profile && report_add_code(stages, m, t, &code);
	json_t *counted = coded ? report_count_code(stages, report_text_lines(f->text), &x, &bound, cx->mem) : NULL;
	if (coded)
		out = json_pack("{s:s, s:o, s:s, s:s, s:s, s:i, s:i, s:o, s:O, s:o, s:o, s:o, "
		    "s:O, s:O, s:o, s:o, s:o}",
		    "version", tgl_version(), "file", cli_json_path(f->path), "kernel", k->name, "target", t->name,
		    "source", f->text, "line", k->item->place.line, "end_line", k->item->place.end_line,
		    "sizes", sizes_json(&bound), "stages", stages, "inspect", cli_inspection_json(&x), "layouts",
		    layouts_json(stages), "timeline",
		    report_timeline(m->funcs.at[0], &bound, t, &own, x.blocks), "tuning", tuning,
		    "profile", profile, "warnings",
		    warnings_json(cx, k), "compared", compared_json(&why, &x), "variants",
		    report_variants(cli, k, t, &x, &bound, &why, &(ReportCode){&code, report_text_lines(f->text),
			json_is_object(counted)}, &time));
	if (out) {
		report_add_figures(out, &x, &why);
		json_object_set_new(out, "time", report_time_json(&time, &code));
		json_object_set_new(out, "code", counted);
		json_object_set_new(out, "measured_us", json_real(measured_us(cli, tuning, profile)));
		if (cli_has(cli, OPT_MEASURE) && !report_measure(cli, &x, out)) {
			json_decref(out);
			out = NULL;
		}
	}
	if (out) {
		json_object_set_new(out, "sizes_of", json_string(report_sizes_of(asked, k, bench, cx->mem)));
	}
	if (out)
		report_say(out, f->text, &x, &bound, &why, cx->mem);
	if (out)
		report_add_others(out, &launch, m);
	cli_code_close(&code);
	text_close(&why.chosen);
	json_decref(tuning);
	json_decref(profile);
	json_decref(stages);
	text_close(&dumps);
	return out;
}
