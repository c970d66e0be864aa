/* Times a case: a warm-up that compiles and touches memory, then launches until the time is up.
 * The median is the figure; tensors that a kernel changes get their first values back between
 * launches, untimed. */
#include <stdlib.h>

#include "runtime/runtime.h"

static int
compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Every tensor once for each way that the kernel uses it. */
static double
case_bytes(const TglCase *c)
{
	double sum = 0;
	for (int i = 0; i < c->k->k->params.n; i++) {
		const KernelParam *p = &c->k->k->params.at[i];
		bool twice = p->kind == PARAM_TENSOR && p->access == ACCESS_INOUT;
		if (c->b.tensor[i])
			sum += (double)tgl_tensor_bytes(c->b.tensor[i]) * (twice ? 2 : 1);
	}
	return sum;
}

static TglStatus
work(TglCase *c, double *bytes, double *flops)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	int64_t grid[MAX_AXES];
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	if (!in)
		return s;
	Func *f = instance_func(c->k, in, &c->b);
	if (!f)
		return TGL_ERROR_SOURCE;
	Arena *tmp = c->k->program->compile->tmp;
	const PlanArg *args =
	    func_args(tmp, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
	if (bytes)
		*bytes = case_bytes(c);
	grid_count(&c->b.bound, grid);
	if (flops)
		*flops = work_flops(f, args, grid);
	return TGL_OK;
}

/* The type of what the first product of the block multiplies. */
static bool
find_product(const Block *b, DType *out)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_DOT || op->kind == OP_DOT_SCALED) {
			*out = op->in[0]->type->elem;
			return true;
		}
		for (int i = 0; i < op->nregion; i++)
			if (find_product(op->region[i], out))
				return true;
	}
	return false;
}

bool
tgl_case_product(TglCase *c, TglDType *operand)
{
	TglStatus s = TGL_OK;
	DType t = TY_F32;
	if (!c)
		return false;
	context_begin(c->dev->cx);
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	const Func *f = in ? instance_func(c->k, in, &c->b) : NULL;
	bool found = f && find_product(f->body, &t);
	if (operand)
		*operand = (TglDType)t;
	context_end(c->dev->cx, in && f ? TGL_OK : TGL_ERROR_SOURCE, c->k->program->compile);
	return found;
}

TglStatus
tgl_case_work(TglCase *c, double *bytes, double *flops)
{
	if (!c)
		return TGL_ERROR_USAGE;
	context_begin(c->dev->cx);
	return context_end(c->dev->cx, work(c, bytes, flops), c->k->program->compile);
}

static TglStatus
measure(TglCase *c, const TglBenchOptions *o, double *times, TglBench *out)
{
	double limit = o->seconds > 0 ? o->seconds : 0.5;
	int least = o->least > 0 ? o->least : 5, most = MAX(o->most > 0 ? o->most : 1000, least);
	TglStatus s = case_run(c, NULL);
	double start = device_clock();
	while (s == TGL_OK && out->runs < most &&
	       (out->runs < least || device_clock() - start < limit)) {
		double *t = &times[out->runs];
		s = case_run(c, t);
		arena_reset(c->k->program->compile->tmp);
		out->runs++;
		if (s == TGL_OK && o->progress && !o->progress(o->user, out->runs, *t))
			break;
	}
	if (s != TGL_OK)
		return s;
	qsort(times, (size_t)out->runs, sizeof *times, compare_times);
	out->least = times[0];
	out->most = times[out->runs - 1];
	out->median = (times[(out->runs - 1) / 2] + times[out->runs / 2]) / 2;
	return TGL_OK;
}

TglStatus
tgl_case_bench(TglCase *c, const TglBenchOptions *options, TglBench *out)
{
	TglBenchOptions plain = {0};
	if (!c)
		return TGL_ERROR_USAGE;
	context_begin(c->dev->cx);
	if (context_null(c->dev->cx, out, "tgl_case_bench", "out"))
		return TGL_ERROR_USAGE;
	if (!options)
		options = &plain;
	int most = MAX(options->most > 0 ? options->most : 1000, options->least);
	double *times = calloc((size_t)MAX(most, 5), sizeof *times);
	if (!times)
		return context_fail(c->dev->cx, TGL_ERROR_MEMORY, NULL);
	*out = (TglBench){0};
	TglStatus s = measure(c, options, times, out);
	if (s == TGL_OK)
		s = work(c, &out->bytes, &out->flops);
	free(times);
	return context_end(c->dev->cx, s, c->k->program->compile);
}
