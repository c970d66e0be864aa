/* inspect: what the compiler made of each line, for people or as JSON. */
#include "model/digits/digits.h"
#include "tool/report/report.h"

#include <limits.h>
#include <string.h>

static json_t *
banks_json(const BankPlan *b)
{
	return b->bytes ? json_pack("{s:i, s:i, s:i}", "bytes", b->bytes, "passes", b->passes,
			      "least", b->least)
			: json_null();
}

static json_t *
sectors_json(const InspectLine *x, int n)
{
	return x->sectors_known || x->bytes == 0 ? json_integer(n) : json_null();
}

static json_t *
counted_json(const InspectCount *c)
{
	if (!c)
		return json_null();
	double n = (double)c->n;
	return json_pack("{s:o, s:o, s:I, s:I, s:I}", "sectors", c->n ? json_real((double)c->total / n) : json_null(),
	    "least_sectors", c->n ? json_real((double)c->least / n) : json_null(), "accesses", (json_int_t)c->n,
	    "programs", (json_int_t)c->programs, "of_programs", (json_int_t)c->of);
}

static json_t *
access_json(const Op *op, bool writes)
{
	return json_pack("{s:i, s:i, s:s, s:s}", "line", op->place.line, "col", op->place.col, "op", op_info[op->kind].text,
	    "does", inspect_deed(op, writes));
}

static json_t *
pair_json(const BarrierPair *p)
{
	Text memory = {0};
	if (!p)
		return json_null();
	inspect_memory(p, &memory);
	json_t *j = json_pack("{s:o, s:o, s:s, s:b}", "first", access_json(p->before, p->before_writes), "second",
	    access_json(p->after, p->after_writes), "memory", memory.at, "earlier_iteration", p->is_earlier);
	text_close(&memory);
	return j;
}

/* All that need a barrier, in words. */
static json_t *
conflicts_json(const InspectLine *x)
{
	json_t *all = json_array();
	Text t = {0};
	for (int nth = 0; inspect_conflict(x, &nth, &t); t.n = 0)
		json_array_append_new(all, json_string(t.at));
	text_close(&t);
	return all;
}

static json_t *
outside_json(const InspectOutside *x)
{
	return x->share > 0 ? json_pack("{s:f, s:i, s:f, s:f}", "share", x->share, "dim", x->dim, "inside", x->inside, "of",
				  x->of)
			    : json_null();
}

/* By the model: microseconds of the launch that a line keeps each of a multiprocessor's means busy. */
static json_t *
spent_json(const Inspection *x)
{
	json_t *all = json_array();
	for (int i = 0; i < x->spent.n; i++) {
		const LineBill *l = &x->spent.at[i];
		int most = 0;
		for (int p = 0; p < BILL_PARTS; p++)
			most = l->part[p] > l->part[most] ? p : most;
		if (l->file != x->f->place.file || l->part[most] <= 0)
			continue;
		json_t *parts = json_array();
		for (int p = 0; p < BILL_PARTS; p++) {
			double us = l->part[p] * x->bill.programs / x->t->rates->clock;
			json_array_append_new(parts, json_pack("[s, f]", bill_part_names[p], us));
		}
		json_array_append_new(all, json_pack("{s:i, s:s, s:s, s:o}", "line", l->line, "bound",
						 bill_part_names[most], "waits_for", l->wait, "parts", parts));
	}
	return all;
}

/* What the bill has of each part and no line: of a block, of whole programs, of registers that spill. */
static json_t *
unattributed_json(const Inspection *x)
{
	json_t *all = json_array();
	for (int p = 0; p < BILL_PARTS && x->bill.cycles > 0; p++) {
		double rest = x->bill.part[p];
		for (int i = 0; i < x->spent.n; i++)
			rest -= x->spent.at[i].file == x->f->place.file ? x->spent.at[i].part[p] : 0;
		rest = rest > 1e-9 * x->bill.part[p] ? rest : 0;
		json_array_append_new(all, json_pack("[s, f]", bill_part_names[p], bill_us(&x->bill, x->t, rest)));
	}
	return all;
}

static json_t *
times_json(double n)
{
	return n >= 0 ? json_real(n) : json_null();
}

static json_t *
line_json(const InspectLine *x)
{
	Text type = {0}, details = {0};
	if (x->tile)
		type_print(x->tile, &type);
	inspect_details(x, &details);
	json_t *j = json_pack("{s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:s, s:o, s:o, s:s?, s:I, s:I, s:o, s:s?, "
	    "s:o, s:o, s:s?, s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:s?, s:s?}", "line", x->op->place.line, "col",
	    x->op->place.col, "what", x->what, "tile", type.at ? type.at : "", "details",
	    details.at ? details.at : "", "bytes", x->bytes, "accesses", x->accesses, "sectors",
	    sectors_json(x, x->touched), "least_sectors", sectors_json(x, x->least),
	    "bounds_tested", x->tested, "into_shared", banks_json(&x->in), "from_shared", banks_json(&x->out), "way",
	    x->way, "shared_at", (json_int_t)x->smem, "shared_bytes", (json_int_t)x->smem_bytes, "needed_lines",
	    x->smem_bytes > 0 ? json_pack("[i, i]", x->live_from, x->live_to) : json_null(), "reason", x->reason,
	    "pair", pair_json(x->pair), "counted", counted_json(x->counted), "cause", x->cause,
	    "mean_sectors_ratio", x->mean > 0 ? json_real(x->mean) : json_null(), "outside",
	    outside_json(&x->outside), "wider_bytes", x->wider, "runs",
	    times_json(x->runs), "runs_most", times_json(x->runs_most), "conflicts", conflicts_json(x), "across_warps",
	    x->across, "not_ahead", x->not_ahead, "of", x->of && *x->of ? x->of : NULL);
	text_close(&type);
	text_close(&details);
	return j;
}

json_t *
cli_inspection_json(const Inspection *x)
{
	json_t *lines = json_array();
	for (int i = 0; i < x->lines.n; i++)
		json_array_append_new(lines, line_json(&x->lines.at[i]));
	return json_pack("{s:s, s:s, s:i, s:I, s:i, s:i, s:b, s:b, s:i, s:i, s:i, s:o, s:i, s:i, s:o, s:s?, "
	    "s:o, s:o, s:o, s:f, s:i, s:f, s:f}", "kernel", x->f->name, "target", x->t->name, "warps", x->f->schedule.warps,
	    "shared_bytes", (json_int_t)x->f->shared_bytes, "conversions", x->conversions, "bank_conflicts",
	    x->bank_conflicts, "mma", x->all_mma, "wgmma", x->all_wgmma, "registers", x->registers, "spills", x->spills,
	    "stack", x->stack, "registers_estimated", x->pressure.held > 0 ? json_integer(x->pressure.held) : json_null(),
	    "blocks", x->blocks, "blocks_asked", x->asked, "estimated_us",
	    x->bill.cycles > 0 ? json_real(x->bill.cycles / x->t->rates->clock) : json_null(), "chosen", x->chosen,
	    "spent", spent_json(x), "not_attributed", unattributed_json(x), "lines", lines, "programs",
	    x->bill.launched, "multiprocessors", x->t->rates ? x->t->rates->multiprocessors : 0, "grid_blocks", x->grid,
	    "instructions", x->bill.issued);
}

static json_t *
tried_json(const Tried *c, const Target *t)
{
	Text values = {0}, bill = {0};
	why_values(c, &values);
	if (c->cycles >= 0)
		bill_print(&c->bill, t, &bill);
	json_t *j = json_pack("{s:s, s:o, s:o, s:s?, s:s?, s:b}", "values", values.at, "estimated_us",
	    c->cycles >= 0 ? json_real(c->bill.cycles / target_rates(t)->clock) : json_null(), "ranked_us",
	    c->cycles >= 0 ? json_real(c->cycles / target_rates(t)->clock) : json_null(), "bill", bill.at, "refused",
	    c->refused, "chosen", c->is_chosen);
	text_close(&values);
	text_close(&bill);
	return j;
}

json_t *
cli_compared_json(const ChooseWhy *why, const Target *t, int most)
{
	json_t *all = json_array();
	for (int i = 0; i < why->tried.n; i++)
		if (i < most || why->tried.at[i].is_chosen || (why->tried.at[i].n == 0 && why->tried.at[i].cycles >= 0))
			json_array_append_new(all, tried_json(&why->tried.at[i], t));
	return all;
}

/* With --explain all that was compared, and why no more was; `before` and `behind`, the launch's other kernels. */
static json_t *
inspection_json(const Inspection *x, json_t *before, json_t *behind, const ChooseWhy *why, bool explains)
{
	json_t *j = cli_inspection_json(x);
	if (before)
		json_object_set(j, "before", before);
	if (behind)
		json_object_set(j, "behind", behind);
	if (explains) {
		json_object_set_new(j, "compared", cli_compared_json(why, x->t, INT_MAX));
		json_object_set_new(j, "not_compared", why->none ? json_string(why->none) : json_null());
	}
	return j;
}

/* ---- the cpu device ---- */

static void
print_cpu_tried(const ChooseWhy *why)
{
	if (why->none)
		printf("  nothing else was compared: %s\n", why->none);
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		Text values = {0};
		why_values(c, &values);
		if (c->cycles >= 0)
			printf("    %.6g us; %s%s\n", c->cycles / 1000, values.at, c->is_chosen ? "  (chosen)" : "");
		else
			printf("    refused: %s; %s\n", c->refused, values.at);
		text_close(&values);
	}
}

static json_t *
cpu_json(const Func *f, double programs, double us, const ChooseWhy *why)
{
	json_t *all = json_array();
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		Text values = {0};
		why_values(c, &values);
		json_array_append_new(all, json_pack("{s:s, s:o, s:s?, s:b}", "values", values.at, "estimated_us",
					       c->cycles >= 0 ? json_real(c->cycles / 1000) : json_null(), "refused",
					       c->refused, "chosen", c->is_chosen));
		text_close(&values);
	}
	return json_pack("{s:s, s:s, s:f, s:i, s:f, s:o}", "kernel", f->name, "target", "cpu", "programs", programs,
	    "threads", cpu_row.cores, "estimated_us", us, "compared", all);
}

/* What is modelled there: programs, and the interpreter's steps and elements (model/cost_cpu.c). */
static json_t *
inspect_cpu(const Cli *cli, const Func *f, const Bound *b, ChooseWhy *why)
{
	double us = choose_cpu_cost(f, b, 0) / 1000, programs = 1;
	for (int i = 0; i < b->naxis; i++)
		programs *= (double)MAX(b->grid[i], 1);
	if (cli->json)
		return cpu_json(f, programs, us, why);
	printf("%s for cpu: %.0f program%s\n", f->name, programs, programs == 1 ? "" : "s");
	printf("  estimated %.6g us with %d threads\n", us, cpu_row.cores);
	for (int i = 0; i < why->tried.n; i++)
		if (why->tried.at[i].is_chosen && why->tried.at[i].n > 0) {
			Text values = {0};
			why_values(&why->tried.at[i], &values);
			printf("  chosen: %s\n", values.at);
			text_close(&values);
		}
	if (cli_has(cli, OPT_EXPLAIN))
		print_cpu_tried(why);
	puts("  not modelled: accesses, layouts, warps and registers, which only a GPU's target has");
	return NULL;
}

/* Of a launch of several kernels the one before or behind; false after errors. */
static bool
inspect_other(Kernel *k, const Module *m, const Bound *b, const Target *t, const char *source, int which, json_t **j,
    Text *out)
{
	Bound bound;
	Inspection x;
	PassOptions passes = {.own_file = true};
	Module *other = cli_other_module(k, m, b, t, &passes, which, &bound);
	if (!other)
		return k->program->cx->nerrors == 0;
	if (!report_inspect(other, t, &bound, source, &x))
		return false;
	*j = cli_inspection_json(&x);
	inspect_print(&x, out);
	return true;
}

static int
inspect_kernels(const Cli *cli, Compile *cx, int file, const Target *t)
{
	Program *p = program_open(cx, file);
	const char *name = cli->args.n > 1 ? cli->args.at[1] : NULL;
	PassOptions passes = {.own_file = true};
	json_t *all = cli->json ? json_array() : NULL;
	bool misuse = false;
	int n = 0, status = EXIT_GOOD;
	bool explains = cli_has(cli, OPT_EXPLAIN);
	program_check(p);
	for (int i = 0; i < p->kernels.n && cx->nerrors == 0 && status == EXIT_GOOD; i++) {
		Kernel *k = p->kernels.at[i];
		Inspection x;
		Text out = {0};
		ChooseWhy why = {.mem = cx->mem};
		if (!cli_is_chosen(p, k, name, file))
			continue;
		n++;
		Bound bound;
		Module *m = cli_bound_module(cli, k, NULL, t ? t->name : "cpu", &passes, &misuse, &bound, &why);
		if (m && !t) {
			if (n > 1 && !all)
				puts("");
			json_t *j = inspect_cpu(cli, m->funcs.at[0], &bound, &why);
			if (all)
				json_array_append_new(all, j);
			text_close(&why.chosen);
			continue;
		}
		const char *source = cx->files.at[k->item->place.file].text;
		json_t *first = NULL, *last = NULL;
		Text behind = {0};
		if (m && t->rates && cli_has(cli, OPT_RUN))
			report_follow(cli, k, m->funcs.at[0], &bound);
		if (!m || !inspect_other(k, m, &bound, t, source, MATERIALIZE_FIRST, &first, &out) ||
		    !inspect_other(k, m, &bound, t, source, MATERIALIZE_LAST, &last, &behind) ||
		    !report_inspect(m, t, &bound, source, &x) ||
		    (cli_has(cli, OPT_RUN) && !report_count(cli, k, &bound, &x))) {
			json_decref(first);
			json_decref(last);
			text_close(&behind);
			status = misuse ? EXIT_MISUSE : EXIT_WRONG;
			break;
		}
		double compared = why_compared(&why);
		x.compared = compared > 0 && x.other <= 0 ? compared : x.compared;
		if (explains && !all)
			why_print(&why, t, &why.chosen);
		x.chosen = why.chosen.at;
		if (all)
			json_array_append_new(all, inspection_json(&x, first, last, &why, explains));
		else
			inspect_print(&x, &out);
		json_decref(first);
		json_decref(last);
		if (!all)
			printf("%s%s%s", n > 1 ? "\n" : "", out.at, behind.n ? behind.at : "");
		text_close(&out);
		text_close(&behind);
		text_close(&why.chosen);
	}
	if (n == 0 && cx->nerrors == 0)
		status = name ? cli_no_kernel(cli, p, name)
			      : cli_wrong("'%s' has no kernel", cli->args.at[0]);
	if (all && status == EXIT_GOOD)
		cli_print_json(all);
	else
		json_decref(all);
	return status;
}

int
cmd_inspect(const Cli *cli)
{
	const Target *t = target_named("sm_90a");
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	Compile *cx = compile_open();
	int status = EXIT_WRONG;
	const char *name = cli->value[OPT_TARGET];
	bool is_cpu = cli_has(cli, OPT_TARGET) && strcmp(name, "cpu") == 0;
	if (is_cpu && cli_has(cli, OPT_RUN)) {
		status = cli_misuse("--run counts sectors, which the cpu device does not have");
	} else if (cli_target(cli, cx, &t)) {
		t = is_cpu ? NULL : t;
		int file = cli_source(cli, cx);
		if (file >= 0)
			status = inspect_kernels(cli, cx, file, t);
	}
	status = cli_report(cli, cx, status);
	compile_close(cx);
	return cli_finish(status);
}
