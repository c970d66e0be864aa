/* The library's context, devices and streams, which all of the process shares, and the lock around them. */
#include "ext.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static Dev cpu, gpu[MAX_CUDA], other[4];
static char *lines;                     /* that kernels printed since the last report */
static size_t nlines;
static const char *refused;             /* the argument that the library did not take since the last report */
TglContext *context;

/* ---- the lock ---- */

void
library_lock(Ask *ask, bool shortly)
{
	ask->save = NULL;
	if (shortly && pthread_mutex_trylock(&device_lock) == 0)
		return;
	ask->save = PyEval_SaveThread();
	pthread_mutex_lock(&device_lock);
}

void
library_unlock(Ask *ask)
{
	pthread_mutex_unlock(&device_lock);
	if (ask->save)
		PyEval_RestoreThread(ask->save);
}

void
library_lock_alone(void)
{
	pthread_mutex_lock(&device_lock);
}

void
library_unlock_alone(void)
{
	pthread_mutex_unlock(&device_lock);
}

/* A child of a fork has an open lock and devices of its own, since threads and GPUs stay with the parent. */
static void
start_child(void)
{
	pthread_mutex_init(&device_lock, NULL);
	memset(&cpu, 0, sizeof cpu);
	memset(gpu, 0, sizeof gpu);
	memset(other, 0, sizeof other);
}

/* ---- reports ---- */

static void
collect_line(void *user, const char *line)
{
	size_t n = strlen(line);
	char *more = realloc(lines, nlines + n + 2);
	if (!more)
		return;
	lines = more;
	memcpy(lines + nlines, line, n);
	nlines += n;
	if (n == 0 || line[n - 1] != '\n')
		lines[nlines++] = '\n';
	lines[nlines] = 0;
}

static char *
copy(const char *s)
{
	return s && *s ? strdup(s) : NULL;
}

/* The library describes an array alone, and cannot say which argument it is. */
static char *
copy_for_argument(const char *s)
{
	static const char format[] = "argument '%s': %s", prefix[] = "tegula: error: ";
	if (refused && s && strncmp(s, prefix, sizeof prefix - 1) == 0)
		s += sizeof prefix - 1;
	size_t n = refused && s && *s ? sizeof format + strlen(refused) + strlen(s) : 0;
	char *text = n ? malloc(n) : copy(s);
	if (n && text)
		snprintf(text, n, format, refused, s);
	return text;
}

void
report_take(Report *r, TglStatus s)
{
	const TglError *e = tgl_error(context);
	memset(r, 0, sizeof *r);
	r->status = s;
	r->printed = lines;
	lines = NULL;
	nlines = 0;
	if (s == TGL_OK && e->nwarnings == 0)
		return;
	r->code = copy(e->code);
	r->message = copy_for_argument(e->message);
	r->file = copy(e->file);
	r->text = copy_for_argument(e->text);
	r->line = e->line;
	r->col = e->col;
	refused = NULL;
}

void
report_free(Report *r)
{
	free(r->code);
	free(r->message);
	free(r->file);
	free(r->text);
	free(r->printed);
}

static bool
write_printed(const char *text)
{
	PyObject *out = PySys_GetObject("stdout");
	if (!out || out == Py_None)
		return true;
	PyObject *done = PyObject_CallMethod(out, "write", "s", text);
	Py_XDECREF(done);
	return done != NULL;
}

static bool
raise_error(const Report *r)
{
	PyObject *e = PyObject_CallFunction(names.error, "szzzzii", tgl_status_name(r->status), r->code, r->message,
	    r->file, r->text, r->line, r->col);
	if (e) {
		PyErr_SetObject((PyObject *)Py_TYPE(e), e);
		Py_DECREF(e);
	}
	return false;
}

bool
report_raise(Report *r)
{
	bool ok = !r->printed || write_printed(r->printed);
	if (ok && r->status != TGL_OK)
		ok = raise_error(r);
	else if (ok && r->text)
		ok = PyErr_WarnEx(PyExc_UserWarning, r->text, 1) == 0;
	report_free(r);
	return ok;
}

/* ---- devices ---- */

bool
context_open(void)
{
	context = tgl_context_open();
	if (!context)
		return false;
	tgl_context_print(context, collect_line, NULL);
	pthread_atfork(NULL, NULL, start_child);
	return true;
}

static Dev *
open_device(Dev *d, const char *name)
{
	if (d->dev)
		return d;
	d->dev = tgl_device_open(context, name, NULL);
	strncpy(d->name, name, sizeof d->name - 1);
	return d->dev ? d : NULL;
}

Dev *
device_find(bool cuda, int index)
{
	char name[24];
	if (!cuda)
		return open_device(&cpu, "cpu");
	if (index < 0 || index >= MAX_CUDA)
		return NULL;
	gpu[index].cuda = true;
	gpu[index].index = index;
	snprintf(name, sizeof name, "cuda:%d", index);
	return open_device(&gpu[index], name);
}

Dev *
device_named(const char *name)
{
	if (strcmp(name, "cpu") == 0)
		return device_find(false, 0);
	if (strncmp(name, "cuda", 4) == 0)
		return device_find(true, name[4] == ':' ? atoi(name + 5) : 0);
	for (int i = 0; i < LEN(other); i++)
		if (!other[i].dev || strcmp(other[i].name, name) == 0)
			return open_device(&other[i], name);
	return open_device(&other[LEN(other) - 1], name);
}

/* The last used come first. */
TglStream *
device_stream(Dev *d, void *handle)
{
	int i = 0;
	while (i < d->nstreams && tgl_stream_handle(d->stream[i]) != handle)
		i++;
	TglStream *s = i < d->nstreams ? d->stream[i] : tgl_stream_wrap(d->dev, handle);
	if (!s)
		return NULL;
	if (i == LEN(d->stream))
		tgl_stream_close(&d->stream[--i]);
	else if (i == d->nstreams)
		d->nstreams++;
	memmove(d->stream + 1, d->stream, (size_t)i * sizeof(TglStream *));
	d->stream[0] = s;
	return s;
}

/* Bytes from the first element to the end of the last. */
static size_t
span(const Array *a)
{
	int64_t last = 0, bits = tgl_dtype_bits((TglDType)a->dtype);
	for (int i = 0; i < a->rank; i++) {
		if (a->dim[i] == 0)
			return 0;
		last += (a->dim[i] - 1) * a->stride[i];
	}
	return last < 0 ? 0 : ((size_t)last * (size_t)bits + (size_t)bits + 7) / 8;
}

bool
device_tensor(Dev *d, int i, const Array *a, const char *argument)
{
	const int64_t none = 0;
	if (!d->pool[i])
		d->pool[i] = tgl_tensor_wrap(d->dev, TGL_U8, 1, &none, NULL, NULL, 0);
	bool ok = d->pool[i] && tgl_tensor_set(d->pool[i], (TglDType)a->dtype, a->rank, a->dim, a->stride, a->data,
	    span(a)) == TGL_OK;
	refused = ok ? NULL : argument;
	return ok;
}
