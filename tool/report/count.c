/* The sectors of accesses whose indices are data, which the compiler cannot know: the emulator runs the kernel's example,
 * and they are counted (runtime/simt/check/costs.c).
 *
 * Programs are spread evenly over the grid.  What one of them reads does not depend on how blocks take programs, so that
 * each gets a block of its own, unless the kernel is parted into roles.  What was counted finds its line by its place in
 * the source and the bytes of a thread's access: the run binds the values that the inspected kernel has. */
#include "tool/report/report.h"

#include "compile/choose/estimate.h"
#include "runtime/case/case.h"

#include <string.h>

enum { COUNTED = 64, FOLLOWED = 64, FEWEST = 8 };       /* a mean of fewer than all and so few says little */
static const double SECONDS = 0.5, BYTES_MOST = 1 << 30;

/* Is it an access whose sectors are not known? */
static bool
is_unknown(const InspectLine *x)
{
	return x->accesses > 0 && !x->sectors_known && (x->kind == INSPECT_ACCESS || x->kind == INSPECT_COPY);
}

static bool
lacks_sectors(const Inspection *x)
{
	return ANY_OF(i, x->lines.n, is_unknown(&x->lines.at[i]));
}

/* The text once more, whose warnings are said already. */
static TglProgram *
open_again(Session *s)
{
	const Cli *cli = s->cli;
	const Text *in = &cli->input;
	return cli->from_input ? tgl_program_text(s->cx, cli->args.at[0], in->at ? in->at : "", in->n)
			       : tgl_program_file(s->cx, cli->args.at[0]);
}

/* All that is bound, as arguments of a case. */
static TglArg *
bound_args(const Cli *cli, const Bound *b, int *n)
{
	TglArg *args = NEW_ARRAY(cli->mem, TglArg, b->nsymbol + b->nct + SCHEDULE_COUNT + cli->strides.n);
	Bound apart = *b;
	if (b->schedule.specialize <= 0) {
		apart.schedule.persistent = 0;
		apart.schedule.coarsen = apart.schedule.batch = apart.schedule.split = apart.schedule.ctas = 0;
	}
	*n = 0;
	for (int i = 0; i < b->nsymbol; i++)
		args[(*n)++] = case_arg(b->symbol[i].name, &b->symbol[i].value);
	for (int i = 0; i < b->nct; i++)
		args[(*n)++] = case_arg(b->ct[i].name, &b->ct[i].value);
	for (int i = 0; i < SCHEDULE_COUNT; i++) {
		Const v;
		const char *name = schedule_info[i].text;
		if (!named_const(b->ct, b->nct, name) && !schedule_hidden(b->kernel, name) &&
		    bound_value(&apart, name, &v))
			args[(*n)++] = case_arg(name, &v);
	}
	for (int i = 0; i < cli->strides.n; i++)
		args[(*n)++] = tgl_arg_text(cli->strides.at[i].name, cli->strides.at[i].value);
	return args;
}

static bool
is_of(const InspectLine *l, Compile *cx, const AccessCount *c, const char *path)
{
	const Place *at = &l->op->place;
	bool is_atomic = op_info[l->op->kind].family == FAMILY_ATOMIC;
	bool writes = is_atomic || l->op->kind == OP_WRITE || l->op->kind == OP_STORE;
	return at->line == c->place.line && at->col == c->place.col && l->bytes == c->bytes && writes == c->is_write &&
	       strcmp(cx->files.at[at->file].path, path) == 0;
}

static void
take_counts(Session *s, Compile *ran, Compile *cx, Inspection *x)
{
	const Device *d = &s->dev->dev;
	AccessCount c = {.programs = 0};
	for (int i = 0; i < x->lines.n; i++) {
		InspectLine *l = &x->lines.at[i];
		if (!is_unknown(l))
			continue;
		InspectCount *sum = NEW(cx->mem, InspectCount);
		for (int k = 0; d->counted(d, k, &c); k++) {
			if (c.place.line <= 0 || !is_of(l, cx, &c, ran->files.at[c.place.file].path))
				continue;
			sum->n += c.n;
			sum->total += c.total;
			sum->least += c.least;
		}
		sum->programs = c.programs;
		sum->of = c.of;
		l->counted = sum;
	}
}

static bool
run(Session *s, TglKernel *k, Compile *cx, const Bound *b, Inspection *x)
{
	const char *example = s->cli->value[OPT_EXAMPLE];
	TglCaseOptions o = {.example = example, .by_index = !example, .untuned = true};
	o.args = bound_args(s->cli, b, &o.nargs);
	TglCase *c = tgl_case_open(s->dev, k, &o);
	bool ok = c;
	if (ok) {
		s->dev->dev.count(&s->dev->dev, COUNTED);
		ok = tgl_case_run(c, NULL) == TGL_OK;
	}
	if (ok)
		take_counts(s, k->program->compile, cx, x);
	else
		session_error(s);
	tgl_case_close(&c);
	return ok;
}

/* What programs of the example did, by places of cx; NULL: they could not be run. */
static const Followed *
followed_in(Session *s, TglKernel *k, Compile *cx, const Bound *b)
{
	const char *example = s->cli->value[OPT_EXAMPLE];
	TglCaseOptions o = {.example = example, .by_index = !example, .untuned = true};
	Device *d = &s->dev->dev;
	const Compile *ran = k->program->compile;
	d->follow(d, FOLLOWED, SECONDS);
	o.args = bound_args(s->cli, b, &o.nargs);
	TglCase *c = tgl_case_open(s->dev, k, &o);
	Followed *out = NULL;
	const Followed *all = c && tgl_case_run(c, NULL) == TGL_OK ? d->followed(d) : NULL;
	if (all && all->programs >= MIN(all->of, FEWEST)) {
		out = NEW(cx->mem, Followed);
		*out = *all;
		out->at.at = MAP_OF(cx->mem, FollowedAt, i, out->at.n, out->at.at[i]);
	}
	for (int i = 0; out && i < out->at.n; i++) {
		Place *at = &out->at.at[i].place;
		at->file = at->file < 0 ? -1 : FIRST_OF(n, cx->files.n,
		    strcmp(cx->files.at[n].path, ran->files.at[at->file].path) == 0);
	}
	tgl_case_close(&c);
	return out;
}

/* Bytes of the tensors that a run makes. */
static double
run_bytes(const Bound *b)
{
	double sum = 0;
	for (int i = 0; i < b->kernel->params.n; i++) {
		double n = (double)dtype_bytes(b->param[i].dtype, 8) / 8;
		for (int d = 0; d < b->param[i].rank; d++)
			n *= (double)b->param[i].dim[d];
		sum += n;
	}
	return sum;
}

void
report_follow(const Cli *cli, Kernel *k, const Func *f, Bound *b)
{
	Session s;
	bool asks = ANY_OP(op, f->body, (op->kind == OP_IF || op_is_loop(op)) && estimate_asks_data(f, b, op));
	if (!asks || k->examples.n == 0 || (run_bytes(b) > BYTES_MOST && !cli_has(cli, OPT_RUN)) || !session_open(&s, cli))
		return;
	cli_progress(cli, "%s on the cpu device", k->name);
	TglProgram *p = session_device(&s, "cpu") ? open_again(&s) : NULL;
	TglKernel *same = p ? tgl_kernel(p, k->name) : NULL;
	b->followed = same ? followed_in(&s, same, k->program->cx, b) : NULL;
	cli_progress_end(cli);
	tgl_program_close(&p);
	session_close(&s);
}

bool
report_count(const Cli *cli, Kernel *k, const Bound *b, Inspection *x)
{
	Session s;
	if (!lacks_sectors(x))
		return true;
	if (x->t->kind != TARGET_PTX)
		cli_wrong("--run takes a kernel for NVIDIA's GPUs: the emulator does not run what is for %s", x->t->name);
	else if (k->examples.n == 0)
		cli_wrong("--run takes an example to run; kernel '%s' has none", k->name);
	if (x->t->kind != TARGET_PTX || k->examples.n == 0)
		return false;
	if (!session_open(&s, cli))
		return false;
	cli_progress(cli, "%s on the emulator", k->name);
	bool ok = session_device(&s, arena_printf(cli->mem, "simt:%s", x->t->name));
	TglProgram *p = ok ? open_again(&s) : NULL;
	TglKernel *same = p ? tgl_kernel(p, k->name) : NULL;
	ok = same && run(&s, same, k->program->cx, b, x);
	cli_progress_end(cli);
	tgl_program_close(&p);
	session_close(&s);
	return ok;
}
