/* run: one kernel on one device, with everything worth knowing about how it went. */
#include "tool/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Report {
	Session *s;
	TglCase *c;
	TglKernel *k;
	double first, bytes, flops;
	TglBench bench;
	json_t *json, *checks;                              /* json NULL: for people */
	bool passed;
} Report;

static void
report_values(Report *r)
{
	const char *name, *text;
	json_t *values = json_object();
	int i = 0;
	for (; tgl_case_value(r->c, i, &name, &text); i++) {
		if (r->json)
			json_object_set_new(values, name, json_string(text));
		else
			printf("%s%s = %s", i ? ", " : "  ", name, text);
	}
	if (r->json)
		json_object_set(r->json, "values", values);
	else if (i > 0)
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
		if (!r->json)
			text_printf(&text, "  %s: %s\n    ", p.name, shape);
		cli_show_tensor(t, &text);
		if (r->json)
			json_array_append_new(outputs, json_pack("{s:s, s:s, s:s}", "name", p.name, "type", shape,
			    "text", text.at));
		else
			puts(text.at);
		text_close(&text);
	}
	if (r->json)
		json_object_set(r->json, "outputs", outputs);
	json_decref(outputs);
}

static void
report_check(void *user, const TglCheck *c)
{
	Report *r = user;
	r->passed &= c->passed;
	if (r->json) {
		json_array_append_new(r->checks, json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "output",
		    c->param, "passed", c->passed, "error_over_bound", cli_json_number(c->ratio), "error",
		    cli_json_number(c->error), "bound", cli_json_number(c->bound), "got", cli_json_number(c->got), "want",
		    cli_json_number(c->want), "element", (json_int_t)c->element, "wrong", (json_int_t)c->nwrong));
		return;
	}
	printf("  check %s: %s, greatest error / bound %.3g\n", c->param, c->passed ? "good" : "WRONG", c->ratio);
	if (c->passed)
		return;
	printf("    %lld of %lld elements are wrong; the worst is %s", (long long)c->nwrong, (long long)c->count, c->param);
	cli_print_index(c);
	printf(": got %.9g, expected %.9g, error %.3g, bound %.3g\n", cli_unsigned_nan(c->got), cli_unsigned_nan(c->want),
	    c->error, c->bound);
	if (c->guard_broken)
		printf("    something was written just outside of %s\n", c->param);
}

static int
report_checks(Report *r)
{
	r->checks = json_array();
	bool ok = session_checks(r->s, r->c, report_check, r);
	if (r->json)
		json_object_set(r->json, "checks", r->checks);
	json_decref(r->checks);
	return ok ? EXIT_GOOD : EXIT_WRONG;
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

/* What the kernel takes of a GPU; other devices have nothing to say. */
static void
report_resources(Report *r)
{
	TglResources u;
	if (tgl_case_resources(r->c, &u) != TGL_OK)
		return;
	if (r->json) {
		json_object_set_new(r->json, "resources", cli_json_resources(&u));
		return;
	}
	printf("  a block has %d threads of %d registers and %d bytes of shared memory; %d at once on a "
	       "multiprocessor (%.0f %%)\n", u.threads, u.registers, u.shared_bytes, u.resident_blocks, 100 * u.occupancy);
	if (u.local_bytes > 0)
		printf("  %d bytes a thread are in local memory: registers spilled, or its stack\n", u.local_bytes);
}

/* Before anything runs: every --out names a tensor. */
static bool
outs_are_tensors(Report *r)
{
	const Cli *cli = r->s->cli;
	TglParam p;
	for (int i = 0; i < cli->out.n; i++) {
		const char *name = cli->out.at[i].name;
		int k = tgl_kernel_param_named(r->k, name);
		if (k >= 0 && tgl_kernel_param(r->k, k, &p) && p.kind != TGL_PARAM_SCALAR && p.access != TGL_SCRATCH)
			continue;
		r->s->status = cli_misuse("--out: kernel '%s' has no tensor '%s'", tgl_kernel_name(r->k), name);
		return false;
	}
	return true;
}

static int
save_outputs(Report *r)
{
	const Cli *cli = r->s->cli;
	for (int i = 0; i < cli->out.n; i++) {
		const Pair *p = &cli->out.at[i];
		if (tgl_tensor_save(tgl_case_tensor(r->c, p->name), p->value) != TGL_OK)
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
	TglDeviceInfo device;
	cli_progress(r->s->cli, "running %s", tgl_kernel_name(r->k));
	TglStatus ran = tgl_case_run(r->c, &r->first);
	cli_progress_end(r->s->cli);
	if (ran != TGL_OK)
		return session_error(r->s);
	session_warnings(r->s);
	int status = save_outputs(r);
	if (status != EXIT_GOOD)
		return status;
	if (!r->json && tgl_device_info(r->s->dev, &device) == TGL_OK)
		printf("%s%s%s on %s\n", tgl_kernel_name(r->k), *tgl_case_label(r->c) ? " " : "", tgl_case_label(r->c),
		    device.name);
	report_values(r);
	report_outputs(r);
	if (cli_has(r->s->cli, OPT_NO_CHECK)) {
		if (!r->json)
			puts("  not checked");
	} else if (tgl_kernel_has_reference(r->k)) {
		status = report_checks(r);
		if (status != EXIT_GOOD)
			return status;
	} else if (!r->json) {
		puts("  check: the kernel has no reference");
	}
	bool again = !cli_has(r->s->cli, OPT_SANITIZE) && r->first < QUICK_SECONDS;
	tgl_context_print(r->s->cx, NULL, NULL);    /* once is enough */
	if (again && tgl_case_bench(r->c, &quick, &r->bench) != TGL_OK)
		return session_error(r->s);
	if (tgl_case_work(r->c, &r->bytes, &r->flops) != TGL_OK)
		return session_error(r->s);
	report_time(r);
	report_resources(r);
	return r->passed ? EXIT_GOOD : EXIT_WRONG;
}

/* The case that the command line describes; NULL after printing. */
static TglCase *
open_case(Report *r, uint64_t seed, TensorList *opened)
{
	const Cli *cli = r->s->cli;
	TglArg *args;
	int nargs;
	if (!outs_are_tensors(r) || !session_args(r->s, r->k, &args, &nargs, opened))
		return NULL;
	TglCaseOptions options = {.example = cli->value[OPT_EXAMPLE], .args = args, .nargs = nargs, .seed = seed};
	cli_progress(cli, "preparing %s", tgl_kernel_name(r->k));
	TglCase *c = tgl_case_open(r->s->dev, r->k, &options);
	cli_progress_end(cli);
	session_warnings(r->s);
	if (!c)
		session_error(r->s);
	return c;
}

static int
run_kernel(Session *s, TglProgram *p)
{
	const Cli *cli = s->cli;
	int64_t seed;
	TensorList opened = {0};
	Report r = {.s = s, .passed = true};
	if (!cli_number(cli, OPT_SEED, 0, &seed))
		return EXIT_MISUSE;
	r.k = session_kernel(s, p, cli->args.at[0], cli->args.n > 1 ? cli->args.at[1] : NULL);
	r.c = r.k ? open_case(&r, (uint64_t)seed, &opened) : NULL;
	int status = s->status;
	if (r.c) {
		r.json = cli->json ? json_pack("{s:s, s:s, s:I}", "kernel", tgl_kernel_name(r.k), "example",
		    tgl_case_label(r.c), "seed", (json_int_t)seed) : NULL;
		status = run_case(&r);
		if (r.json && status == EXIT_WRONG && r.passed)
			json_decref(r.json);        /* the error was the result */
		else if (r.json)
			cli_print_json(r.json);
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
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	TglProgram *p = session_operand(&s);
	if (p)
		s.status = run_kernel(&s, p);
	tgl_program_close(&p);
	session_close(&s);
	return s.status;
}
