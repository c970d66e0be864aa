/* Graphs: what a stream was given between begin and end, to be done again as a whole.
 *
 * A graph refers to compiled kernels and scratch tensors, which it keeps; the arguments' tensors are the caller's to
 * keep. */
#include <stdlib.h>

#include "runtime/launch/launch.h"

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
	return ANY_OF(i, g->nholds, g->hold[i].in == in && g->hold[i].scratch == scratch);
}

void
graph_keep(TglGraph *g, TglKernel *k, Instance *in, TglTensor *const *tensor)
{
	if (!has_hold(g, in, NULL)) {
		in->pins++;
		k->program->refs++;
		add_hold(g, (Hold){.program = k->program, .in = in});
	}
	int nmade, n = k->k->params.n;
	instance_made(in, &nmade);
	for (int i = 0; i < n + nmade; i++) {
		bool is_scratch = i >= n || param_is_scratch(&k->k->params.at[i]);
		if (!is_scratch || !tensor[i] || has_hold(g, NULL, tensor[i]))
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
	TglGraph *g = memory_new(1, sizeof *g);
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
