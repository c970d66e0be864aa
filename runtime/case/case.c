/* Cases: a kernel with everything that it needs to run.  An example of the source gives sizes and
 * inputs, the caller's arguments go before it, and what the kernel writes is made here.
 *
 * Outputs are poisoned before each run, so that an element that the kernel forgets shows; tensors
 * that a kernel reads and writes get their first values back. */
#include <stdlib.h>
#include <string.h>

#include "runtime/case/case.h"

/* ---- choosing the example ---- */

static const ExampleItem *
example_labelled(const Kernel *k, const char *label)
{
	for (int i = 0; i < k->examples.n; i++) {
		const char *l = k->examples.at[i].label;
		if (strcmp(l ? l : "", label) == 0)
			return &k->examples.at[i];
	}
	return NULL;
}

static void
report_no_example(Compile *cx, const Kernel *k, const TglCaseOptions *o)
{
	Text name = {0};
	if (o->by_index)
		text_printf(&name, "%d", o->index);
	else
		text_json(&name, o->example);
	diag_error(cx, k->item->name_place, DIAG_NO_EXAMPLE, k->name, name.at);
	diag_help(cx, "%s", example_advice(k, o->by_index ? "" : o->example));
	text_close(&name);
}

bool
case_choose_example(TglCase *c, const TglCaseOptions *o)
{
	const Kernel *k = c->k->k;
	if (o->no_example)
		return true;
	if (o->by_index)
		c->example =
		    o->index >= 0 && o->index < k->examples.n ? &k->examples.at[o->index] : NULL;
	else
		c->example = o->example ? example_labelled(k, o->example) : kernel_first_example(k, false);
	if (c->example || (!o->by_index && !o->example))
		return true;
	report_no_example(c->k->program->compile, k, o);
	return false;
}

/* ---- first values ---- */

static bool
keep_first(TglCase *c)
{
	int n = c->k->k->params.n;
	c->first = memory_new((size_t)n, sizeof *c->first);
	for (int i = 0; i < n; i++) {
		if (!param_is_inout(&c->k->k->params.at[i]))
			continue;
		size_t size = tgl_tensor_bytes(c->b.tensor[i]);
		c->first[i] = malloc(size ? size : 1);
		if (!c->first[i] || !tensor_copy_out(c->b.tensor[i], c->first[i]))
			return false;
	}
	return true;
}

bool
case_restore(TglCase *c)
{
	bool ok = true;
	for (int i = 0; i < c->k->k->params.n; i++) {
		const KernelParam *p = &c->k->k->params.at[i];
		if (c->first[i])
			ok &= tensor_copy_in(c->b.tensor[i], c->first[i]);
		else if (p->kind == PARAM_TENSOR && p->access == ACCESS_OUT)
			ok &= tensor_poison(c->b.tensor[i]);
	}
	return ok;
}

/* ---- arguments and values to show ---- */

static void
add_value(TglCase *c, const char *name, const Const *v)
{
	Text t = {0};
	const_text(v, &t);
	c->value_name[c->nvalues] = name;
	c->value_text[c->nvalues++] = text_take(&t, c->b.mem);
}

static void
add_strides(TglCase *c, int i)
{
	const TglTensor *t = c->b.tensor[i];
	if (!t || tensor_is_contiguous(t))
		return;
	c->value_name[c->nvalues] = arena_printf(c->b.mem, "%s.strides", c->k->k->params.at[i].name);
	c->value_text[c->nvalues++] = extents_text(t->rank, t->stride, c->b.mem);
}

/* A compile-time value or a word of the schedule that the caller or the example gives: others the launch chooses. */
static void
add_said(TglCase *c, const char *name)
{
	Const v;
	bool said = named_const(c->b.value, c->b.nvalue, name) || (c->example && example_sets(c->example, name));
	if (said && bound_value(&c->b.bound, name, &v))
		c->args[c->nargs++] = case_arg(name, &v);
}

static void
collect_arguments(TglCase *c)
{
	const Kernel *k = c->k->k;
	const Bound *b = &c->b.bound;
	int room = b->nsymbol + b->nct + 2 * k->params.n;
	c->args = NEW_ARRAY(c->b.mem, TglArg, room + SCHEDULE_COUNT);
	c->value_name = NEW_ARRAY(c->b.mem, const char *, room + SCHEDULE_COUNT);
	c->value_text = NEW_ARRAY(c->b.mem, const char *, room + SCHEDULE_COUNT);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		if (c->b.tensor[i])
			c->args[c->nargs++] = tgl_arg_tensor(p->name, c->b.tensor[i]);
		else if (p->kind == PARAM_SCALAR)
			c->args[c->nargs++] = case_arg(p->name, &c->b.info[i].scalar);
	}
	for (int i = 0; i < b->nsymbol; i++)
		add_value(c, b->symbol[i].name, &b->symbol[i].value);
	for (int i = 0; i < b->nct; i++) {
		add_value(c, b->ct[i].name, &b->ct[i].value);
		add_said(c, b->ct[i].name);
	}
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR)
			add_value(c, k->params.at[i].name, &c->b.info[i].scalar);
	for (int i = 0; i < k->params.n; i++)
		add_strides(c, i);
	for (int i = 0; i < SCHEDULE_COUNT; i++) {
		Const v;
		if (named_const(b->ct, b->nct, schedule_info[i].text) || schedule_hidden(k, schedule_info[i].text))
			continue;
		if (bound_value(b, schedule_info[i].text, &v))
			add_value(c, schedule_info[i].text, &v);
		add_said(c, schedule_info[i].text);
	}
}

/* ---- opening ---- */

static bool
check_scalars(TglCase *c)
{
	for (int i = 0; i < c->k->k->params.n; i++)
		if (c->k->k->params.at[i].kind == PARAM_SCALAR &&
		    c->b.info[i].scalar.kind == CONST_NONE)
			return case_missing(c, i);
	return true;
}

static TglStatus
open_case(TglCase *c, const TglCaseOptions *o)
{
	if (!case_choose_example(c, o))
		return TGL_ERROR_NAME;
	bool sorted = binding_collect(c->k, o->args, o->nargs, true, &c->b);
	c->b.dev = c->dev;
	c->b.untuned = o->untuned;
	if (!sorted || !case_bind(c) || !check_scalars(c))
		return TGL_ERROR_LAUNCH;
	for (int i = 0; i < c->k->k->params.n; i++)
		if (c->b.tensor[i])
			c->b.tensor[i]->refs++;
	c->holds = true;
	binding_pointers(c->k, &c->b);
	if (!ALL_OF(i, c->k->k->params.n, case_materialise(c, i)))
		return report_status(c->k->program->compile, TGL_ERROR_LAUNCH);
	for (int i = 0; i < c->k->k->params.n; i++)
		c->b.info[i].given = true;
	if (!binding_check(c->k, c->dev, &c->b))
		return TGL_ERROR_LAUNCH;
	if (!keep_first(c))
		return TGL_ERROR_MEMORY;
	collect_arguments(c);
	return TGL_OK;
}

static void
close_case(TglCase *c)
{
	int n = c->k->k->params.n;
	for (int i = 0; c->holds && i < n; i++)
		if (c->b.tensor[i])
			tensor_unref(c->b.tensor[i]);
	for (int i = 0; c->first && i < n; i++)
		free(c->first[i]);
	free(c->first);
	if (c->reference)
		reference_unref(c->reference);
	binding_close(&c->b);
	free(c);
}

TglCase *
tgl_case_open(TglDevice *dev, TglKernel *k, const TglCaseOptions *options)
{
	TglCaseOptions plain = {0};
	if (!k) {
		if (dev) {
			context_begin(dev->cx);
			context_null(dev->cx, NULL, "tgl_case_open", "the kernel");
		}
		return NULL;
	}
	TglContext *cx = k->program->cx;
	if (!options)
		options = &plain;
	context_begin(cx);
	if (context_null(cx, dev, "tgl_case_open", "the device") ||
	    !launch_handles(dev, k, options->args, options->nargs, "tgl_case_open"))
		return NULL;
	TglCase *c = memory_new(1, sizeof *c);
	c->dev = dev;
	c->k = k;
	c->seed = options->seed;
	TglStatus s = open_case(c, options);
	if (context_end(cx, s, k->program->compile) != TGL_OK) {
		close_case(c);
		return NULL;
	}
	dev->refs++;
	k->program->refs++;
	return c;
}

void
tgl_case_close(TglCase **c)
{
	if (!c || !*c)
		return;
	TglDevice *dev = (*c)->dev;
	TglProgram *p = (*c)->k->program;
	close_case(*c);
	program_unref(p);
	device_unref(dev);
	*c = NULL;
}

/* ---- asking and running ---- */

const char *
tgl_case_label(TglCase *c)
{
	return c && c->example && c->example->label ? c->example->label : "";
}

TglTensor *
tgl_case_tensor(TglCase *c, const char *param)
{
	int i = c ? tgl_kernel_param_named(c->k, param) : -1;
	return i < 0 ? NULL : c->b.tensor[i];
}

const TglArg *
tgl_case_args(TglCase *c, int *n)
{
	if (n)
		*n = c ? c->nargs : 0;
	return c ? c->args : NULL;
}

bool
tgl_case_value(TglCase *c, int i, const char **name, const char **text)
{
	if (!c || i < 0 || i >= c->nvalues)
		return false;
	if (name)
		*name = c->value_name[i];
	if (text)
		*text = c->value_text[i];
	return true;
}

bool
tgl_case_grid(TglCase *c, int64_t grid[TGL_MAX_AXES])
{
	if (c && grid)
		grid_count(&c->b.bound, grid);
	return c && grid;
}

TglStatus
case_run(TglCase *c, double *seconds)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	double ignored;
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	TglTensor **tensor = instance_tensors(c->k);
	if (!in)
		return s;
	if (!case_restore(c))
		return device_report(c->dev, c->k->program->compile, NULL, c->k->k);
	s = instance_launch(c->k, in, &c->b, tensor, seconds ? seconds : &ignored);
	c->has_run = s == TGL_OK;
	return s;
}

TglStatus
case_launch(TglCase *c)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	TglTensor **tensor = instance_tensors(c->k);
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	return in ? instance_launch(c->k, in, &c->b, tensor, NULL) : s;
}

static TglStatus
resources(TglCase *c, TglResources *out)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	Compile *cx = c->k->program->compile;
	Device *d = &c->dev->dev;
	if (!d->resources) {
		diag_error(cx, NOWHERE, DIAG_DEVICE_LACKS, "tgl_case_resources", d->name, "registers");
		return TGL_ERROR_DEVICE;
	}
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	if (!in)
		return s;
	return d->resources(d, in->loaded, out) ? TGL_OK : device_report(c->dev, cx, NULL, c->k->k);
}

TglStatus
tgl_case_resources(TglCase *c, TglResources *out)
{
	if (!c || !context_call(c->dev->cx, "tgl_case_resources", "out", out))
		return TGL_ERROR_USAGE;
	return context_end(c->dev->cx, resources(c, out), c->k->program->compile);
}

TglStatus
tgl_case_run(TglCase *c, double *seconds)
{
	if (!c)
		return TGL_ERROR_USAGE;
	context_begin(c->dev->cx);
	return context_end(c->dev->cx, case_run(c, seconds), c->k->program->compile);
}
