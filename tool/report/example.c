/* Of which sizes a report is. */
#include "tool/report/report.h"

#include <string.h>

/* Bytes of an example's tensors, and a scalar's each; -1: it cannot be bound. */
static double
example_bytes(Kernel *k, const ExampleItem *ex)
{
	Compile *cx = k->program->cx;
	Bound b;
	double bytes = 0;
	cx->muted++;
	bool ok = example_bind(k, ex, NULL, 0, NEW_ARRAY(cx->mem, ArgInfo, k->params.n), &b);
	cx->muted--;
	for (int i = 0; ok && i < k->params.n; i++) {
		double of = dtype_info[b.param[i].dtype].bits / 8.;
		for (int d = 0; d < b.param[i].rank; d++)
			of *= (double)b.param[i].dim[d];
		bytes += of;
	}
	return ok ? bytes : -1;
}

const ExampleItem *
report_benchmark(const Cli *cli, Kernel *k)
{
	const ExampleItem *best = NULL;
	double most = -1;
	if (cli_has(cli, OPT_EXAMPLE) || cli_has(cli, OPT_RUN) || cli->strides.n > 0 || cli->from_input)
		return NULL;
	for (int i = 0; i < cli->define.n; i++) {
		const char *name = cli->define.at[i].name;
		bool of_schedule = schedule_named(name) >= 0 ||
		    ANY_OF(c, k->item->ctparams.n, strcmp(k->item->ctparams.at[c].name, name) == 0);
		if (!of_schedule)
			return NULL;
	}
	for (int i = 0; i < k->examples.n; i++) {
		double bytes = k->examples.at[i].is_bench ? example_bytes(k, &k->examples.at[i]) : -1;
		best = bytes > most ? &k->examples.at[i] : best;
		most = MAX(most, bytes);
	}
	return best;
}

const char *
report_sizes_of(const Cli *cli, const Kernel *k, const ExampleItem *bench, Arena *mem)
{
	if (k->examples.n < 2)
		return NULL;
	const char *label = bench ? bench->label : k->examples.at->label;
	label = cli_has(cli, OPT_EXAMPLE) ? cli->value[OPT_EXAMPLE] : label;
	const char *which = *label ? arena_printf(mem, "example \"%s\"", label) : "the example without a name";
	int marked = 0;
	for (int i = 0; i < k->examples.n; i++)
		marked += k->examples.at[i].is_bench;
	const char *why = !bench ? "" : marked > 1 ? ", the largest marked bench" : ", marked bench";
	return arena_printf(mem, "%s%s%s", which, why, cli->define.n ? ", but for -D" : "");
}
