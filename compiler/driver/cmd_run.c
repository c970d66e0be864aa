/* run: one kernel on one device, with everything worth knowing about how it went. */
#include "driver/cli.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Report {
	Session *s;
	TglCase *c;
	TglKernel *k;
	double first, bytes, flops;
	TglBench bench;
	json_t *json;                                       /* NULL: for people */
	bool passed;
} Report;

static void
report_values(Report *r)
{
	const char *name, *text;
	json_t *values = json_object();
	for (int i = 0; tgl_case_value(r->c, i, &name, &text); i++) {
		if (r->json)
			json_object_set_new(values, name, json_string(text));
		else
			printf("%s%s = %s", i ? ", " : "  ", name, text);
	}
	if (r->json)
		json_object_set(r->json, "values", values);
	else
		putchar('\n');
	json_decref(values);
}

static bool
is_output(const TglParam *p)
{
	return p->kind != TGL_PARAM_SCALAR && (p->access == TGL_OUT || p->access == TGL_INOUT);
}

static void
report_outputs(Report *r)
{
	TglParam p;
	json_t *outputs = json_array();
	for (int i = 0; tgl_kernel_param(r->k, i, &p); i++) {
		TglTensor *t = is_output(&p) ? tgl_case_tensor(r->c, p.name) : NULL;
		if (!t)
			continue;
		Text text = {0};
		const char *shape = cli_shape(r->s->cli->mem, t);
		if (r->json) {
			json_array_append_new(outputs, json_pack("{s:s, s:s}", "name", p.name, "type", shape));
		} else {
			text_printf(&text, "  %s: %s\n    ", p.name, shape);
			cli_show_tensor(t, &text);
			puts(text.at);
		}
		text_close(&text);
	}
	if (r->json)
		json_object_set(r->json, "outputs", outputs);
	json_decref(outputs);
}

static void
report_check(Report *r, const TglCheck *c, json_t *checks)
{
	r->passed &= c->passed;
	if (r->json) {
		json_array_append_new(checks, json_pack("{s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "output", c->param,
		    "passed", c->passed, "error_over_bound", isfinite(c->ratio) ? c->ratio : 1e308, "error",
		    isfinite(c->error) ? c->error : 1e308, "bound", isfinite(c->bound) ? c->bound : 1e308, "got",
		    isfinite(c->got) ? c->got : 1e308, "want", isfinite(c->want) ? c->want : 1e308, "element",
		    (json_int_t)c->element, "wrong", (json_int_t)c->nwrong));
		return;
	}
	printf("  check %s: %s, greatest error / bound %.3g\n", c->param, c->passed ? "good" : "WRONG", c->ratio);
	if (c->passed)
		return;
	printf("    %lld of %lld elements are wrong; the worst is %s[", (long long)c->nwrong, (long long)c->count, c->param);
	for (int d = 0; d < c->rank; d++)
		printf("%s%lld", d ? ", " : "", (long long)c->index[d]);
	printf("]: got %.9g, expected %.9g, error %.3g, bound %.3g\n", c->got, c->want, c->error, c->bound);
	if (c->guard_broken)
		printf("    something was written just outside of %s\n", c->param);
}

static int
report_checks(Report *r)
{
	json_t *checks = json_array();
	bool more = true;
	int status = EXIT_GOOD;
	for (int i = 0; more && status == EXIT_GOOD; i++) {
		TglCheck c;
		TglStatus got = tgl_case_check(r->c, i, &c, &more);
		if (got != TGL_OK)
			status = session_error(r->s);
		else if (more)
			report_check(r, &c, checks);
	}
	if (r->json)
		json_object_set(r->json, "checks", checks);
	json_decref(checks);
	return status;
}

static void
report_time(Report *r)
{
	double s = r->bench.runs ? r->bench.median : r->first;
	if (r->json) {
		json_object_set_new(r->json, "seconds", json_real(s));
		json_object_set_new(r->json, "runs", json_integer(r->bench.runs ? r->bench.runs : 1));
		json_object_set_new(r->json, "bytes", json_real(r->bytes));
		json_object_set_new(r->json, "flops", r->flops >= 0 ? json_real(r->flops) : json_null());
		return;
	}
	Text t = {0};
	cli_show_seconds(s, &t);
	printf("  time %s%s", t.at, r->bench.runs > 1 ? " (median)" : "");
	if (s > 0 && r->bytes > 0)
		printf(", %.3g GB/s", r->bytes / s / 1e9);
	if (s > 0 && r->flops > 0)
		printf(", %.3g GFLOP/s", r->flops / s / 1e9);
	putchar('\n');
	text_close(&t);
}

static int
save_outputs(Report *r)
{
	const Cli *cli = r->s->cli;
	for (int i = 0; i < cli->out.n; i++) {
		const Pair *p = &cli->out.at[i];
		TglTensor *t = tgl_case_tensor(r->c, p->name);
		if (!t)
			return cli_misuse("--out: kernel '%s' has no tensor '%s'", tgl_kernel_name(r->k), p->name);
		if (tgl_tensor_save(t, p->value) != TGL_OK)
			return session_error(r->s);
	}
	return EXIT_GOOD;
}

enum { QUICK_RUNS = 20 };
static const double QUICK_SECONDS = 0.1;

static int
run_case(Report *r)
{
	TglBenchOptions quick = {.seconds = QUICK_SECONDS, .least = 1, .most = QUICK_RUNS};
	if (tgl_case_run(r->c, &r->first) != TGL_OK)
		return session_error(r->s);
	int status = save_outputs(r);
	if (status != EXIT_GOOD)
		return status;
	if (!r->json)
		printf("%s%s%s on %s\n", tgl_kernel_name(r->k), *tgl_case_label(r->c) ? " " : "", tgl_case_label(r->c), "cpu");
	report_values(r);
	report_outputs(r);
	if (tgl_kernel_has_reference(r->k)) {
		status = report_checks(r);
		if (status != EXIT_GOOD)
			return status;
	} else if (!r->json) {
		puts("  check: the kernel has no reference");
	}
	if (!cli_has(r->s->cli, OPT_SANITIZE) && r->first < QUICK_SECONDS && tgl_case_bench(r->c, &quick, &r->bench) != TGL_OK)
		return session_error(r->s);
	if (tgl_case_work(r->c, &r->bytes, &r->flops) != TGL_OK)
		return session_error(r->s);
	report_time(r);
	return r->passed ? EXIT_GOOD : EXIT_WRONG;
}

static int
run_kernel(Session *s, TglProgram *p)
{
	const Cli *cli = s->cli;
	int64_t seed;
	int status = EXIT_WRONG, nargs;
	TensorList opened = {0};
	TglArg *args;
	Report r = {.s = s, .passed = true};
	r.k = session_kernel(s, p, cli->args.at[0], cli->args.n > 1 ? cli->args.at[1] : NULL);
	if (!cli_number(cli, OPT_SEED, 0, &seed))
		return EXIT_MISUSE;
	if (!r.k)
		return EXIT_WRONG;
	if (session_args(s, r.k, &args, &nargs, &opened)) {
		TglCaseOptions options = {
			.example = cli->value[OPT_EXAMPLE], .args = args, .nargs = nargs, .seed = (uint64_t)seed,
		};
		r.c = tgl_case_open(s->dev, r.k, &options);
		if (!r.c) {
			session_error(s);
		} else {
			r.json = cli->json ? json_pack("{s:s, s:s, s:I}", "kernel", tgl_kernel_name(r.k), "example",
			    tgl_case_label(r.c), "seed", (json_int_t)seed) : NULL;
			status = run_case(&r);
			if (r.json) {
				json_dumpf(r.json, stdout, JSON_INDENT(1));
				putchar('\n');
			}
			json_decref(r.json);
		}
	}
	tgl_case_close(&r.c);
	for (int i = 0; i < opened.n; i++)
		tgl_tensor_close(&opened.at[i]);
	return status;
}

int
cmd_run(const Cli *cli)
{
	Session s;
	int status = EXIT_WRONG;
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	if (session_device(&s, cli_has(cli, OPT_DEVICE) ? cli->value[OPT_DEVICE] : "cpu")) {
		TglProgram *p = tgl_program_file(s.cx, cli->args.at[0]);
		if (p) {
			session_warnings(&s);
			status = run_kernel(&s, p);
		} else {
			session_error(&s);
		}
		tgl_program_close(&p);
	}
	session_close(&s);
	return status;
}
