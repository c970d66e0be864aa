/* A profile beside the compiler's prediction: a row for each line of the source where warps were seen. */
#include "tool/bench/profile.h"
#include "tool/cli_build.h"

#include <string.h>

/* The most that the compiler says of a line's accesses: sectors over the fewest, passes over the fewest; and the model of
 * the line. */
typedef struct Predicted {
	double sectors, passes;                             /* ratios; 0: nothing said */
	double us;                                          /* of the launch, of what the line takes the most of; 0: none */
	const char *bound;                                  /* that */
} Predicted;

static void
take_model(const Inspection *x, int line, Predicted *p)
{
	for (int i = 0; i < x->spent.n; i++) {
		const LineBill *l = &x->spent.at[i];
		int most = 0;
		if (l->line != line || l->file != x->f->place.file)
			continue;
		for (int k = 0; k < BILL_PARTS; k++)
			most = l->part[k] > l->part[most] ? k : most;
		p->us = l->part[most] * x->bill.programs / x->t->rates->clock;
		p->bound = bill_part_names[most];
	}
}

static Predicted
predicted(const Inspection *x, int line)
{
	Predicted p = {0};
	take_model(x, line, &p);
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		if (l->op->place.line != line)
			continue;
		if (l->sectors_known && l->least > 0)
			p.sectors = MAX(p.sectors, (double)l->touched / l->least);
		const BankPlan *b[] = {&l->in, &l->out};
		for (int k = 0; k < LEN(b); k++)
			if (b[k]->least > 0)
				p.passes = MAX(p.passes, (double)b[k]->passes / b[k]->least);
	}
	return p;
}

static void
put_ratio(double is, double least, double said, Text *out)
{
	char text[64] = "";
	if (least > 0 && said > 0)
		number_format(text, sizeof text, "%.2f (%.2f)", is / least, said);
	else if (least > 0)
		number_format(text, sizeof text, "%.2f", is / least);
	text_printf(out, "  %-14s", text);
}

static json_t *
line_json(const ProfileLine *l, const Profile *p, Predicted q)
{
	return json_pack("{s:i, s:f, s:s?, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "line", l->line, "share",
	    l->samples / MAX(p->samples, 1), "stall", l->stall, "stall_share", l->samples > 0 ? l->stalled / l->samples : 0,
	    "instructions", l->instructions, "sectors", l->sectors, "least_sectors", l->least_sectors, "bank_passes",
	    l->passes, "least_bank_passes", l->least_passes, "predicted_sectors", q.sectors, "predicted_passes", q.passes,
	    "model_us", q.us, "model_bound", q.bound);
}

static void
print_json(const Profile *p, const Inspection *x, const char *kernel)
{
	json_t *lines = json_array();
	for (int i = 0; i < p->lines.n; i++)
		json_array_append_new(lines, line_json(&p->lines.at[i], p, predicted(x, p->lines.at[i].line)));
	cli_print_json(json_pack("{s:s, s:f, s:f, s:f, s:o, s:o}", "kernel", kernel, "seconds", p->seconds, "read", p->read,
	    "written", p->written, "estimated_us",
	    x->bill.cycles > 0 ? json_real(x->bill.cycles / x->t->rates->clock) : json_null(), "lines", lines));
}

static void
print_text(const Profile *p, const Inspection *x, const char *kernel, const SourceFile *f)
{
	Text out = {0};
	text_printf(&out, "profile of %s: %.2f us with counters on; device memory: %.2f MB read, %.2f MB written\n",
	    kernel, p->seconds * 1e6, p->read / 1e6, p->written / 1e6);
	if (x->bill.cycles > 0) {
		text_put(&out, "estimated ");
		bill_print(&x->bill, x->t, &out);
		text_put(&out, "\n");
	}
	text_put(&out, "  line  time   waits most for              instructions  sectors (said)  passes (said)   "
	               "the model\n");
	for (int i = 0; i < p->lines.n; i++) {
		const ProfileLine *l = &p->lines.at[i];
		Predicted q = predicted(x, l->line);
		const char *text;
		size_t size;
		if (l->samples == 0 && l->sectors == 0 && l->passes == 0)
			continue;
		text_printf(&out, "  %4d  %3.0f %%  %-22s %3.0f %%  %11.4g", l->line, 100 * l->samples / MAX(p->samples, 1),
		    l->stall ? l->stall : "", l->samples > 0 ? 100 * l->stalled / l->samples : 0, l->instructions);
		put_ratio(l->sectors, l->least_sectors, q.sectors, &out);
		put_ratio(l->passes, l->least_passes, q.passes, &out);
		char model[64] = "";
		if (q.us > 0)
			number_format(model, sizeof model, "%.3g us", q.us);
		text_printf(&out, "  %-9s %-18s", model, q.us > 0 ? q.bound : "");
		if (source_line(f, l->line, &text, &size)) {
			size_t blank = strspn(text, " \t");
			text_printf(&out, "  %.*s", (int)(size > blank ? size - blank : 0), text + MIN(blank, size));
		}
		text_put(&out, "\n");
	}
	fputs(out.at, stdout);
	text_close(&out);
}

/* The one that was measured, whose sizes the model takes too; NULL: without any. */
static const ExampleItem *
example_of(const Kernel *k, const char *label)
{
	for (int i = 0; label && i < k->examples.n; i++)
		if (strcmp(k->examples.at[i].label, label) == 0)
			return &k->examples.at[i];
	return NULL;
}

int
profile_print(const Cli *cli, const char *kernel, const char *example, const char *target, const Profile *p)
{
	Compile *cx = compile_open();
	int file = cli_source(cli, cx), status = EXIT_WRONG;
	Program *program = file >= 0 ? program_open(cx, file) : NULL;
	PassOptions passes = {.own_file = true};
	bool misuse = false;
	Bound bound;
	Inspection x;
	if (program)
		program_check(program);
	Kernel *k = program && cx->nerrors == 0 ? program_kernel(program, kernel) : NULL;
	const ExampleItem *ex = k ? example_of(k, example) : NULL;
	Module *m = k ? cli_bound_module(cli, k, ex, target, &passes, &misuse, &bound, NULL) : NULL;
	if (m && cli_inspect(m, target_named(target), &bound, &x)) {
		status = EXIT_GOOD;
		if (cli->json)
			print_json(p, &x, kernel);
		else
			print_text(p, &x, kernel, &cx->files.at[file]);
	}
	status = cli_report(cli, cx, status);
	compile_close(cx);
	return status;
}
