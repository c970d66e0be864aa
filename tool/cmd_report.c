/* report: one HTML file that shows what the compiler made of a kernel, or the same as JSON. */
#include "tool/report/report.h"

#include <stdlib.h>
#include <string.h>

/* JSON inside of a script element: `<` would let a comment of the source end it. */
void
report_put_json(const json_t *j, Text *out)
{
	char *text = json_dumps(j, JSON_COMPACT);
	if (!text)
		die("out of memory");
	for (const char *at = text, *next;; at = next + 1) {
		next = strchr(at, '<');
		text_putn(out, at, next ? (size_t)(next - at) : strlen(at));
		if (!next)
			break;
		text_put(out, "\\u003c");
	}
	free(text);
}

static int
write_report(const Cli *cli, const json_t *kernels)
{
	Text out = {0};
	if (cli->json) {
		char *text = json_dumps(kernels, JSON_INDENT(1));
		text_printf(&out, "%s\n", text ? text : "");
		free(text);
	} else {
		json_t *packed = report_pack(kernels);
		text_put(&out, (const char *)report_page_head);
		report_put_json(packed, &out);
		json_decref(packed);
		text_put(&out, (const char *)report_page_tail);
	}
	int status = cli_emit(cli, &out);
	text_close(&out);
	return status;
}

static int
report_file(const Cli *cli, Compile *cx, int file, const Target *t)
{
	Program *p = program_open(cx, file);
	const char *name = cli->args.n > 1 ? cli->args.at[1] : NULL;
	json_t *kernels = json_array();
	bool misuse = false, ok = true;
	program_check(p);
	if (name && cx->nerrors == 0 && !program_kernel(p, name)) {
		json_decref(kernels);
		return cli_no_kernel(cli, p, name);
	}
	for (int i = 0; i < p->kernels.n && cx->nerrors == 0 && ok; i++) {
		Kernel *k = p->kernels.at[i];
		if (!cli_is_chosen(p, k, name, file))
			continue;
		json_t *of = report_gather(cli, k, t, &misuse);
		ok = of != NULL;
		if (ok)
			json_array_append_new(kernels, of);
	}
	int status = misuse ? EXIT_MISUSE : EXIT_WRONG;
	if (ok && cx->nerrors == 0)
		status = json_array_size(kernels) ? write_report(cli, kernels)
						  : cli_wrong("'%s' has no kernel", cli->args.at[0]);
	json_decref(kernels);
	return status;
}

static bool
is_time(const char *text)
{
	static const double MOST = 1e12;
	char *end;
	double us = number_read(text, &end);
	return *text && !*end && us > 0 && us < MOST;
}

int
cmd_report(const Cli *cli)
{
	const Target *t = target_named("sm_90a");
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	if (cli_has(cli, OPT_MEASURED) && !is_time(cli->value[OPT_MEASURED]))
		return cli_misuse("--measured takes microseconds above 0, as in --measured=51.7");
	if (cli_has(cli, OPT_MEASURED) && cli_has(cli, OPT_MEASURE))
		return cli_misuse("--measured gives the time that --measure takes: one of them");
	if (cli_has(cli, OPT_DEVICE) && !cli_has(cli, OPT_MEASURE))
		return cli_misuse("--device says where --measure runs, which is not given; the page is of --target");
	if (!cli_has(cli, OPT_OUTPUT) && !cli->json)
		return cli_misuse("report writes a page: say where with -o, as in -o report.html");
	Compile *cx = compile_open();
	int status = EXIT_WRONG;
	if (cli_target(cli, cx, &t)) {
		int file = cli_source(cli, cx);
		if (file >= 0)
			status = report_file(cli, cx, file, t);
	}
	status = cli_report(cli, cx, status);
	compile_close(cx);
	return cli_finish(status);
}
