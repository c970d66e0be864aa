/* Graphs: what a stream was given between begin and end, to be done again as a whole.
 *
 * A graph speaks of compiled kernels and of scratch tensors, which it keeps; the arguments' tensors
 * are the caller's to keep.  Timing replays is how a kernel that is shorter than a launch is
 * measured. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct Hold {
	TglProgram *program;
	Instance *in;
	TglTensor *scratch;
} Hold;

struct TglGraph {
	TglDevice *dev;
	void *handle;
	TglStream *stream, *before;     /* while it is recorded */
	Hold *hold;
	int nholds, room;
};

static void
add_hold(TglGraph *g, Hold h)
{
	if (g->nholds == g->room) {
		g->room = g->room ? 2 * g->room : 8;
		g->hold = realloc(g->hold, sizeof *g->hold * (size_t)g->room);
		if (!g->hold)
			die("no memory");
	}
	g->hold[g->nholds++] = h;
}

static bool
has_hold(const TglGraph *g, const Instance *in, const TglTensor *scratch)
{
	for (int i = 0; i < g->nholds; i++)
		if (g->hold[i].in == in && g->hold[i].scratch == scratch)
			return true;
	return false;
}

void
graph_keep(TglGraph *g, TglKernel *k, Instance *in, TglTensor *const *tensor)
{
	if (!has_hold(g, in, NULL)) {
		in->pins++;
		k->program->refs++;
		add_hold(g, (Hold){.program = k->program, .in = in});
	}
	for (int i = 0; i < k->k->params.n; i++) {
		const KernelParam *p = &k->k->params.at[i];
		if (p->kind != PARAM_TENSOR || p->access != ACCESS_SCRATCH || !tensor[i] ||
		    has_hold(g, NULL, tensor[i]))
			continue;
		tensor[i]->refs++;
		add_hold(g, (Hold){.scratch = tensor[i]});
	}
}

static void
graph_free(TglGraph *g)
{
	TglDevice *dev = g->dev;
	if (g->handle)
		dev->dev.queue->graph_close(&dev->dev, g->handle);
	for (int i = 0; i < g->nholds; i++) {
		Hold *h = &g->hold[i];
		if (h->scratch)
			tensor_unref(h->scratch);
		if (h->in)
			h->in->pins--;
	}
	for (int i = 0; i < g->nholds; i++)
		if (g->hold[i].program)
			program_unref(g->hold[i].program);
	free(g->hold);
	free(g);
	device_unref(dev);
}

static bool
has_graphs(TglDevice *dev, const char *f)
{
	if (dev->dev.queue)
		return true;
	diag_error(dev->cx->own, NOWHERE, DIAG_DEVICE_LACKS, f, dev->dev.name, "graphs");
	context_fail(dev->cx, TGL_ERROR_DEVICE, NULL);
	return false;
}

TglStatus
tgl_graph_begin(TglStream *s)
{
	if (!s)
		return TGL_ERROR_USAGE;
	TglDevice *dev = s->dev;
	context_begin(dev->cx);
	if (!has_graphs(dev, "tgl_graph_begin"))
		return TGL_ERROR_DEVICE;
	if (dev->recording) {
		diag_error(dev->cx->own, NOWHERE, DIAG_GRAPH_ORDER, "tgl_graph_begin",
		    "another graph is being recorded on this device");
		return context_fail(dev->cx, TGL_ERROR_USAGE, NULL);
	}
	TglStatus status = queue_end(dev, dev->dev.queue->graph_begin(&dev->dev, s->handle));
	if (status != TGL_OK)
		return status;
	TglGraph *g = calloc(1, sizeof *g);
	if (!g)
		die("no memory");
	*g = (TglGraph){.dev = dev, .stream = s, .before = stream_use(dev, s)};
	dev->refs++;
	dev->recording = g;
	return TGL_OK;
}

TglGraph *
tgl_graph_end(TglStream *s)
{
	if (!s)
		return NULL;
	TglDevice *dev = s->dev;
	TglGraph *g = dev->recording;
	context_begin(dev->cx);
	if (!g || g->stream != s) {
		diag_error(dev->cx->own, NOWHERE, DIAG_GRAPH_ORDER, "tgl_graph_end",
		    "nothing is being recorded on this stream");
		context_fail(dev->cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	dev->recording = NULL;
	stream_use(dev, g->before);
	if (queue_end(dev, dev->dev.queue->graph_end(&dev->dev, s->handle, &g->handle)) == TGL_OK)
		return g;
	graph_free(g);
	return NULL;
}

TglStatus
tgl_graph_launch(TglGraph *g, TglStream *s)
{
	if (!g)
		return TGL_ERROR_USAGE;
	TglDevice *dev = g->dev;
	context_begin(dev->cx);
	if (!stream_check(dev, s, "tgl_graph_launch"))
		return TGL_ERROR_USAGE;
	void *stream = s ? s->handle : dev->dev.stream;
	for (int i = 0; i < g->nholds; i++)
		if (g->hold[i].in)
			dev->dev.queue->will_run(&dev->dev, g->hold[i].in->loaded, stream);
	return queue_end(dev, dev->dev.queue->graph_launch(&dev->dev, g->handle, stream));
}

void
tgl_graph_close(TglGraph **g)
{
	if (!g || !*g)
		return;
	graph_free(*g);
	*g = NULL;
}

/* ---- timing by replay ---- */

static int
compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static TglStatus
launch_once(TglCase *c, Instance *in, double *seconds)
{
	Compile *cx = c->k->program->compile;
	TglTensor **tensor = NEW_ARRAY(cx->tmp, TglTensor *, c->k->k->params.n);
	return instance_launch(c->k, in, &c->b, tensor, seconds);
}

/* Where there are no graphs: launches timed together. */
static TglStatus
time_launches(TglCase *c, Instance *in, int launches, double *seconds)
{
	double sum = 0, one;
	TglStatus s = TGL_OK;
	for (int i = 0; i < launches && s == TGL_OK; i++) {
		s = launch_once(c, in, &one);
		sum += one;
	}
	*seconds = sum;
	return s;
}

/* Records `launches` of them into a graph. */
static TglStatus
record(TglCase *c, Instance *in, TglStream *s, int launches, TglGraph **out)
{
	TglStatus status = tgl_graph_begin(s);
	if (status != TGL_OK)
		return status;
	for (int i = 0; i < launches && status == TGL_OK; i++)
		status = launch_once(c, in, NULL);
	*out = tgl_graph_end(s);
	return status != TGL_OK ? status : *out ? TGL_OK : tgl_error(c->dev->cx)->status;
}

static TglStatus
time_graph(TglCase *c, TglGraph *g, int replays, double *times)
{
	TglDevice *dev = c->dev;
	Device *d = &dev->dev;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	bool ok = d->queue->graph_launch(d, g->handle, d->stream); /* a warm-up */
	for (int i = 0; i < replays && ok; i++)
		ok = d->time_begin(d) && d->queue->graph_launch(d, g->handle, d->stream) &&
		     d->time_end(d, &times[i]);
	ok = ok && d->sync(d, &fault);
	return ok ? TGL_OK : device_report(dev, c->k->program->compile, &fault, c->k->k);
}

static TglStatus
replay(TglCase *c, Instance *in, int launches, int replays, double *times)
{
	TglGraph *g = NULL;
	TglStream *s = tgl_stream_open(c->dev);
	TglStatus status = s ? record(c, in, s, launches, &g) : tgl_error(c->dev->cx)->status;
	TglStream *before = stream_use(c->dev, s);
	if (status == TGL_OK)
		status = time_graph(c, g, replays, times);
	stream_use(c->dev, before);
	tgl_graph_close(&g);
	tgl_stream_close(&s);
	return status;
}

TglStatus
tgl_case_replay(TglCase *c, int launches, int replays, double *seconds)
{
	if (!c)
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	context_begin(cx);
	if (context_null(cx, seconds, "tgl_case_replay", "seconds"))
		return TGL_ERROR_USAGE;
	launches = MAX(launches, 1);
	replays = MAX(replays, 1);
	double *times = calloc((size_t)replays, sizeof *times);
	TglStatus s = times ? case_run(c, NULL) : TGL_ERROR_MEMORY;
	Instance *in = s == TGL_OK ? instance_find(c->k, &c->b, c->dev, &s) : NULL;
	if (in && c->dev->dev.queue)
		s = replay(c, in, launches, replays, times);
	for (int i = 0; in && !c->dev->dev.queue && i < replays && s == TGL_OK; i++)
		s = time_launches(c, in, launches, &times[i]);
	if (s == TGL_OK) {
		qsort(times, (size_t)replays, sizeof *times, compare_times);
		*seconds = (times[(replays - 1) / 2] + times[replays / 2]) / 2 / launches;
	}
	free(times);
	if (s != TGL_OK && cx->error.status == s) { /* already told */
		arena_reset(c->k->program->compile->tmp);
		return s;
	}
	return context_end(cx, s, c->k->program->compile);
}
