/* Times a case, by launches or by replays of a graph, and says what a launch moves and computes.
 *
 * Launches: a warm-up that compiles and touches memory, then launches until the time is up; the median is the figure.
 * Tensors that a kernel changes get their first values back between launches, untimed.  Replays are for kernels that are
 * shorter than a launch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/case/case.h"

static int
compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double
median_of(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, compare_times);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
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

Func *
case_func(TglCase *c, TglStatus *s)
{
	*s = TGL_ERROR_LAUNCH;
	Instance *in = instance_find(c->k, &c->b, c->dev, s);
	Func *f = in ? instance_func(c->k, in, &c->b) : NULL;
	if (in)
		*s = f ? TGL_OK : TGL_ERROR_SOURCE;
	return f;
}

Func *
case_source(TglCase *c, TglStatus *s)
{
	const Device *d = &c->dev->dev;
	Func *f = case_func(c, s);
	Instance *in = f ? instance_find(c->k, &c->b, c->dev, s) : NULL;
	if (!in || d->load_artefact || strcmp(d->target, "cpu") == 0)
		return in ? f : NULL;
	f = instance_source(c->k, in, &c->b);
	*s = f ? TGL_OK : TGL_ERROR_SOURCE;
	return f;
}

static TglStatus
work(TglCase *c, double *bytes, double *flops)
{
	TglStatus s;
	int64_t grid[MAX_AXES];
	Func *f = case_func(c, &s);
	if (!f)
		return s;
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
	const Op *op = FIND_OP(o, b, op_family(o) == FAMILY_DOT);
	if (op)
		*out = op->in[0]->type->elem;
	return op;
}

bool
tgl_case_product(TglCase *c, TglDType *operand)
{
	TglStatus s;
	DType t = TY_F32;
	if (!c)
		return false;
	context_begin(c->dev->cx);
	const Func *f = case_func(c, &s);
	bool found = f && find_product(f->body, &t);
	if (operand)
		*operand = (TglDType)t;
	context_end(c->dev->cx, s, c->k->program->compile);
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
	out->median = median_of(times, out->runs);
	out->least = times[0];
	out->most = times[out->runs - 1];
	return TGL_OK;
}

TglStatus
tgl_case_bench(TglCase *c, const TglBenchOptions *options, TglBench *out)
{
	TglBenchOptions plain = {0};
	if (!c || !context_call(c->dev->cx, "tgl_case_bench", "out", out))
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

/* ---- replays ---- */

/* Records `launches` of them into a graph. */
static TglStatus
record(TglCase *c, TglStream *s, int launches, TglGraph **out)
{
	TglStatus status = tgl_graph_begin(s);
	if (status != TGL_OK)
		return status;
	for (int i = 0; i < launches && status == TGL_OK; i++)
		status = case_launch(c);
	*out = tgl_graph_end(s);
	return status != TGL_OK ? status : *out ? TGL_OK : tgl_error(c->dev->cx)->status;
}

static TglStatus
time_graph(TglCase *c, TglGraph *g, int replays, double *times)
{
	Device *d = &c->dev->dev;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	TglStatus s = tgl_graph_launch(g, NULL); /* a warm-up */
	bool ok = true;
	for (int i = 0; i < replays && s == TGL_OK && ok; i++) {
		ok = d->time_begin(d);
		s = ok ? tgl_graph_launch(g, NULL) : TGL_OK;
		ok = ok && s == TGL_OK && d->time_end(d, &times[i]);
	}
	if (s != TGL_OK)
		return s;
	ok = ok && d->sync(d, &fault);
	return ok ? TGL_OK : device_report(c->dev, c->k->program->compile, &fault, c->k->k);
}

static TglStatus
replay_graph(TglCase *c, int launches, int replays, double *times)
{
	TglGraph *g = NULL;
	TglStream *s = tgl_stream_open(c->dev);
	TglStatus status = s ? record(c, s, launches, &g) : tgl_error(c->dev->cx)->status;
	TglStream *before = stream_use(c->dev, s);
	if (status == TGL_OK)
		status = time_graph(c, g, replays, times);
	stream_use(c->dev, before);
	tgl_graph_close(&g);
	tgl_stream_close(&s);
	return status;
}

/* Where there are no graphs: launches timed together. */
static TglStatus
replay_launches(TglCase *c, int launches, int replays, double *times)
{
	TglStatus s = TGL_OK;
	TglTensor **tensor = instance_tensors(c->k);
	Instance *in = instance_find(c->k, &c->b, c->dev, &s);
	for (int i = 0; in && i < launches * replays && s == TGL_OK; i++) {
		double one = 0;
		s = instance_launch(c->k, in, &c->b, tensor, &one);
		times[i / launches] += one;
	}
	return s;
}

TglStatus
tgl_case_replay(TglCase *c, int launches, int replays, double *seconds)
{
	if (!c || !context_call(c->dev->cx, "tgl_case_replay", "seconds", seconds))
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	launches = MAX(launches, 1);
	replays = MAX(replays, 1);
	double *times = calloc((size_t)replays, sizeof *times);
	TglStatus s = times ? case_run(c, NULL) : TGL_ERROR_MEMORY;
	if (s == TGL_OK)
		s = (c->dev->dev.queue ? replay_graph : replay_launches)(c, launches, replays, times);
	if (s == TGL_OK)
		*seconds = median_of(times, replays) / launches;
	free(times);
	if (s != TGL_OK && cx->error.status == s) { /* reported already */
		arena_reset(c->k->program->compile->tmp);
		return s;
	}
	return context_end(cx, s, c->k->program->compile);
}
