/* Streams, events and graphs of the CUDA device: the driver's own, with our errors.
 *
 * Streams are made apart from the context's default one, so that they can be recorded and run beside it; code that uses
 * both orders them by events. */
#include "runtime/cuda/cuda.h"

/* One that frees: its result does not matter. */
#define QUEUE_END(name, call)                                                                      \
	static void name(Device *d, void *p)                                                       \
	{                                                                                          \
		void *before = cuda_enter(d);                                                      \
		CUDA_STATE(d)->cuda.call(p);                                                       \
		cuda_leave(d, before);                                                             \
	}

CUDA_FUNCTION(static bool, stream_open, (Device *d, void **stream),
    CUDA_CALL(d, cuStreamCreate, stream, STREAM_NON_BLOCKING))
QUEUE_END(stream_destroy, cuStreamDestroy_v2)
CUDA_FUNCTION(static bool, stream_sync, (Device *d, void *stream, Fault *fault),
    CUDA_CALL(d, cuStreamSynchronize, stream) && cuda_collect(d, stream, false, fault))
CUDA_FUNCTION(static bool, stream_wait, (Device *d, void *stream, void *event),
    CUDA_CALL(d, cuStreamWaitEvent, stream, event, 0))
CUDA_FUNCTION(static bool, event_open, (Device *d, void **event), CUDA_CALL(d, cuEventCreate, event, 0))
QUEUE_END(event_close, cuEventDestroy_v2)
CUDA_FUNCTION(static bool, event_record, (Device *d, void *event, void *stream), CUDA_CALL(d, cuEventRecord, event, stream))
CUDA_FUNCTION(static bool, event_sync, (Device *d, void *event), CUDA_CALL(d, cuEventSynchronize, event))
CUDA_FUNCTION(static bool, milliseconds, (Device *d, void *from, void *to, float *ms),
    CUDA_CALL(d, cuEventSynchronize, to) && CUDA_CALL(d, cuEventElapsedTime, ms, from, to))
/* Relaxed: compiling and allocating meanwhile is no part of the graph, but allowed. */
CUDA_FUNCTION(static bool, graph_begin, (Device *d, void *stream),
    CUDA_CALL(d, cuStreamBeginCapture_v2, stream, CAPTURE_RELAXED))
CUDA_FUNCTION(static bool, graph_launch, (Device *d, void *graph, void *stream), CUDA_CALL(d, cuGraphLaunch, graph, stream))
QUEUE_END(graph_close, cuGraphExecDestroy)
CUDA_FUNCTION(static bool, host_alloc, (Device *d, void **p, size_t size), CUDA_CALL(d, cuMemHostAlloc, p, size, 0))
QUEUE_END(host_free, cuMemFreeHost)

static void
stream_close(Device *d, void *stream)
{
	stream_destroy(d, stream);
	cuda_parts_drop(CUDA_STATE(d), stream);
}

static void
will_run(Device *d, Loaded *l, void *stream)
{
	cuda_note(CUDA_STATE(d), l, stream);
}

static bool
event_seconds(Device *d, void *from, void *to, double *out)
{
	float ms = 0;
	bool ok = milliseconds(d, from, to, &ms);
	*out = (double)ms * 1e-3;
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

bool
cuda_aside(Device *d, void **stream)
{
	CudaState *s = CUDA_STATE(d);
	void *before = cuda_enter(d), *own = NULL;
	s->capture_mode = CAPTURE_RELAXED;
	s->cuda.cuThreadExchangeStreamCaptureMode(&s->capture_mode);
	*stream = d->stream;
	bool ok = CUDA_CALL(d, cuStreamCreate, &own, STREAM_NON_BLOCKING);
	if (ok)
		d->stream = own;
	else
		s->cuda.cuThreadExchangeStreamCaptureMode(&s->capture_mode);
	cuda_leave(d, before);
	return ok;
}

bool
cuda_back(Device *d, void *stream)
{
	CudaState *s = CUDA_STATE(d);
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuStreamSynchronize, d->stream);
	s->cuda.cuStreamDestroy_v2(d->stream);
	d->stream = stream;
	s->cuda.cuThreadExchangeStreamCaptureMode(&s->capture_mode);
	cuda_leave(d, before);
	return ok;
}

const DeviceQueue cuda_queue = {
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_sync = stream_sync,
    .stream_wait = stream_wait,
    .recording = cuda_recording,
    .aside = cuda_aside,
    .back = cuda_back,
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
