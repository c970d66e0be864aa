/* Streams, events and asynchronous copies as the user sees them.  On a device that is done when a
 * call returns, a stream is a name and an event the time at which it was recorded. */
#include <stdlib.h>

#include "runtime/tensor/tensor.h"

struct TglEvent {
	TglDevice *dev;
	void *handle;
	bool recorded;
	double time;                    /* where there is no queue */
};

TglStatus
queue_end(TglDevice *dev, bool ok)
{
	if (ok)
		return TGL_OK;
	return context_fail(dev->cx, device_report(dev, dev->cx->own, NULL, NULL), NULL);
}

/* ---- streams ---- */

static TglStream *
make_stream(TglDevice *dev, void *handle, bool owned)
{
	TglStream *s = memory_new(1, sizeof *s);
	*s = (TglStream){.dev = dev, .handle = handle, .owned = owned};
	dev->refs++;
	return s;
}

TglStream *
tgl_stream_open(TglDevice *dev)
{
	void *handle = NULL;
	if (!dev)
		return NULL;
	context_begin(dev->cx);
	const DeviceQueue *q = dev->dev.queue;
	if (q && queue_end(dev, q->stream_open(&dev->dev, &handle)) != TGL_OK)
		return NULL;
	return make_stream(dev, handle, true);
}

TglStream *
tgl_stream_wrap(TglDevice *dev, void *handle)
{
	if (!dev)
		return NULL;
	context_begin(dev->cx);
	return make_stream(dev, handle, false);
}

void
tgl_stream_close(TglStream **s)
{
	if (!s || !*s)
		return;
	TglDevice *dev = (*s)->dev;
	const DeviceQueue *q = dev->dev.queue;
	if (dev->stream == *s) {
		dev->stream = NULL;
		dev->dev.stream = NULL;
	}
	if (q && (*s)->owned)
		q->stream_close(&dev->dev, (*s)->handle);
	free(*s);
	*s = NULL;
	device_unref(dev);
}

void *
tgl_stream_handle(TglStream *s)
{
	return s ? s->handle : NULL;
}

/* Makes a device's work go to a stream, and back. */
TglStream *
stream_use(TglDevice *dev, TglStream *s)
{
	TglStream *before = dev->stream;
	dev->stream = s;
	dev->dev.stream = s ? s->handle : NULL;
	return before;
}

bool
stream_check(TglDevice *dev, const TglStream *s, const char *f)
{
	if (!s || s->dev == dev)
		return true;
	diag_error(dev->cx->own, NOWHERE, DIAG_DEVICE_STREAM, f, s->dev->dev.name, dev->dev.name);
	context_fail(dev->cx, TGL_ERROR_USAGE, NULL);
	return false;
}

TglStatus
tgl_device_use(TglDevice *dev, TglStream *s)
{
	if (!dev)
		return TGL_ERROR_USAGE;
	context_begin(dev->cx);
	if (!stream_check(dev, s, "tgl_device_use"))
		return TGL_ERROR_USAGE;
	stream_use(dev, s);
	return TGL_OK;
}

TglStatus
tgl_stream_sync(TglStream *s)
{
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	if (!s)
		return TGL_ERROR_USAGE;
	TglDevice *dev = s->dev;
	context_begin(dev->cx);
	TglStream *before = stream_use(dev, s);
	bool ok = dev->dev.queue ? dev->dev.queue->stream_sync(&dev->dev, s->handle, &fault)
				 : dev->dev.sync(&dev->dev, &fault);
	stream_use(dev, before);
	if (ok)
		return TGL_OK;
	return context_fail(dev->cx, device_report(dev, dev->cx->own, &fault, NULL), NULL);
}

TglStatus
tgl_launch_on(TglStream *s, TglKernel *k, const TglArg *args, int nargs)
{
	if (!s)
		return TGL_ERROR_USAGE;
	TglStream *before = stream_use(s->dev, s);
	TglStatus status = tgl_launch(s->dev, k, args, nargs, NULL);
	stream_use(s->dev, before);
	return status;
}

/* ---- events ---- */

TglEvent *
tgl_event_open(TglDevice *dev)
{
	void *handle = NULL;
	if (!dev)
		return NULL;
	context_begin(dev->cx);
	const DeviceQueue *q = dev->dev.queue;
	if (q && queue_end(dev, q->event_open(&dev->dev, &handle)) != TGL_OK)
		return NULL;
	TglEvent *e = memory_new(1, sizeof *e);
	*e = (TglEvent){.dev = dev, .handle = handle};
	dev->refs++;
	return e;
}

void
tgl_event_close(TglEvent **e)
{
	if (!e || !*e)
		return;
	TglDevice *dev = (*e)->dev;
	if (dev->dev.queue)
		dev->dev.queue->event_close(&dev->dev, (*e)->handle);
	free(*e);
	*e = NULL;
	device_unref(dev);
}

TglStatus
tgl_event_record(TglEvent *e, TglStream *s)
{
	if (!e)
		return TGL_ERROR_USAGE;
	TglDevice *dev = e->dev;
	context_begin(dev->cx);
	if (!stream_check(dev, s, "tgl_event_record"))
		return TGL_ERROR_USAGE;
	const DeviceQueue *q = dev->dev.queue;
	e->time = device_clock();
	bool ok = !q || q->event_record(&dev->dev, e->handle, s ? s->handle : dev->dev.stream);
	e->recorded |= ok;
	return queue_end(dev, ok);
}

/* An event that was never recorded has no time, and there is nothing to wait for. */
static bool
was_recorded(TglEvent *e, const char *f)
{
	if (e->recorded)
		return true;
	diag_error(e->dev->cx->own, NOWHERE, DIAG_EVENT_EMPTY, f);
	context_fail(e->dev->cx, TGL_ERROR_USAGE, NULL);
	return false;
}

TglStatus
tgl_stream_wait(TglStream *s, TglEvent *e)
{
	if (!s || !e)
		return TGL_ERROR_USAGE;
	TglDevice *dev = s->dev;
	context_begin(dev->cx);
	if (!was_recorded(e, "tgl_stream_wait"))
		return TGL_ERROR_USAGE;
	const DeviceQueue *q = dev->dev.queue;
	return queue_end(dev, !q || !e->handle || q->stream_wait(&dev->dev, s->handle, e->handle));
}

TglStatus
tgl_event_sync(TglEvent *e)
{
	if (!e)
		return TGL_ERROR_USAGE;
	context_begin(e->dev->cx);
	if (!was_recorded(e, "tgl_event_sync"))
		return TGL_ERROR_USAGE;
	const DeviceQueue *q = e->dev->dev.queue;
	return queue_end(e->dev, !q || q->event_sync(&e->dev->dev, e->handle));
}

TglStatus
tgl_event_seconds(TglEvent *from, TglEvent *to, double *out)
{
	if (!from || !to)
		return TGL_ERROR_USAGE;
	TglDevice *dev = from->dev;
	context_begin(dev->cx);
	if (context_null(dev->cx, out, "tgl_event_seconds", "out") ||
	    !was_recorded(from, "tgl_event_seconds") || !was_recorded(to, "tgl_event_seconds"))
		return TGL_ERROR_USAGE;
	if (to->dev != dev) {
		diag_error(dev->cx->own, NOWHERE, DIAG_API_FOREIGN, "tgl_event_seconds", "the second event");
		return context_fail(dev->cx, TGL_ERROR_USAGE, NULL);
	}
	*out = to->time - from->time;
	const DeviceQueue *q = dev->dev.queue;
	return queue_end(dev, !q || q->event_seconds(&dev->dev, from->handle, to->handle, out));
}

/* ---- copies ---- */

void *
tgl_host_alloc(TglDevice *dev, size_t size)
{
	void *p = NULL;
	if (!dev)
		return NULL;
	context_begin(dev->cx);
	if (!dev->dev.queue)
		return calloc(1, size ? size : 1);
	return queue_end(dev, dev->dev.queue->host_alloc(&dev->dev, &p, size ? size : 1)) == TGL_OK ? p : NULL;
}

void
tgl_host_free(TglDevice *dev, void *p)
{
	if (!dev || !p)
		return;
	if (dev->dev.queue)
		dev->dev.queue->host_free(&dev->dev, p);
	else
		free(p);
}

TglStatus
tgl_tensor_write_async(TglTensor *t, const void *from, size_t size)
{
	if (!t)
		return TGL_ERROR_USAGE;
	Device *d = &t->dev->dev;
	if (!tensor_is_contiguous(t))
		return tgl_tensor_write(t, from, size);
	context_begin(t->dev->cx);
	if (!tensor_copy_check(t, "tgl_tensor_write_async", from, size))
		return TGL_ERROR_USAGE;
	return queue_end(t->dev, d->copy_in(d, t->data, from, size, false));
}

TglStatus
tgl_tensor_read_async(TglTensor *t, void *to, size_t size)
{
	if (!t)
		return TGL_ERROR_USAGE;
	Device *d = &t->dev->dev;
	if (!tensor_is_contiguous(t))
		return tgl_tensor_read(t, to, size);
	context_begin(t->dev->cx);
	if (!tensor_copy_check(t, "tgl_tensor_read_async", to, size))
		return TGL_ERROR_USAGE;
	return queue_end(t->dev, d->copy_out(d, to, t->data, size, false));
}
