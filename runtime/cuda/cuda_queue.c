/* Streams, events and graphs of the CUDA device: the driver's own, with our errors.
 *
 * Streams are made apart from the context's default one, so that they can be recorded and run
 * beside it; who mixes both orders them by events. */
#include "runtime/cuda/cuda.h"

static bool
stream_open(Device *d, void **stream)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamCreate, stream, STREAM_NON_BLOCKING);
	cuda_leave(d, before);
	return ok;
}

static void
stream_close(Device *d, void *stream)
{
	void *before = cuda_enter(d);
	CUDA_STATE(d)->cuda.cuStreamDestroy_v2(stream);
	cuda_leave(d, before);
}

static bool
stream_sync(Device *d, void *stream, Fault *fault)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamSynchronize, stream) && cuda_collect(d, stream, false, fault);
	cuda_leave(d, before);
	return ok;
}

static void
will_run(Device *d, Loaded *l, void *stream)
{
	cuda_note(CUDA_STATE(d), l, stream);
}

static bool
stream_wait(Device *d, void *stream, void *event)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamWaitEvent, stream, event, 0);
	cuda_leave(d, before);
	return ok;
}

static bool
event_open(Device *d, void **event)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuEventCreate, event, 0);
	cuda_leave(d, before);
	return ok;
}

static void
event_close(Device *d, void *event)
{
	void *before = cuda_enter(d);
	CUDA_STATE(d)->cuda.cuEventDestroy_v2(event);
	cuda_leave(d, before);
}

static bool
event_record(Device *d, void *event, void *stream)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuEventRecord, event, stream);
	cuda_leave(d, before);
	return ok;
}

static bool
event_sync(Device *d, void *event)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuEventSynchronize, event);
	cuda_leave(d, before);
	return ok;
}

static bool
event_seconds(Device *d, void *from, void *to, double *out)
{
	float ms = 0;
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuEventSynchronize, to) && CUDA_CALL(d, cuEventElapsedTime, &ms, from, to);
	cuda_leave(d, before);
	*out = (double)ms * 1e-3;
	return ok;
}

/* Relaxed: compiling and allocating meanwhile is no part of the graph, but allowed. */
static bool
graph_begin(Device *d, void *stream)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamBeginCapture_v2, stream, CAPTURE_RELAXED);
	cuda_leave(d, before);
	return ok;
}

static bool
graph_end(Device *d, void *stream, void **graph)
{
	void *drawn = NULL, *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamEndCapture, stream, &drawn) &&
		  CUDA_CALL(d, cuGraphInstantiateWithFlags, graph, drawn, 0);
	if (drawn)
		CUDA_STATE(d)->cuda.cuGraphDestroy(drawn);
	cuda_leave(d, before);
	return ok;
}

static bool
graph_launch(Device *d, void *graph, void *stream)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuGraphLaunch, graph, stream);
	cuda_leave(d, before);
	return ok;
}

static void
graph_close(Device *d, void *graph)
{
	void *before = cuda_enter(d);
	CUDA_STATE(d)->cuda.cuGraphExecDestroy(graph);
	cuda_leave(d, before);
}

static bool
host_alloc(Device *d, void **p, size_t size)
{
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuMemHostAlloc, p, size, 0);
	cuda_leave(d, before);
	return ok;
}

static void
host_free(Device *d, void *p)
{
	void *before = cuda_enter(d);
	CUDA_STATE(d)->cuda.cuMemFreeHost(p);
	cuda_leave(d, before);
}

const DeviceQueue cuda_queue = {
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_sync = stream_sync,
    .stream_wait = stream_wait,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_sync = event_sync,
    .event_seconds = event_seconds,
    .graph_begin = graph_begin,
    .graph_end = graph_end,
    .graph_launch = graph_launch,
    .graph_close = graph_close,
    .will_run = will_run,
    .host_alloc = host_alloc,
    .host_free = host_free,
};
