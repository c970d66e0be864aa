/* Calls from XLA, which runs what jax.jit compiled: from any of its threads, without Python.  A call's kernel and values
 * are kept here by a key that depends on nothing but them, since the compiled program carries the key and may come from
 * JAX's own cache.  Arguments are the kernel's tensors that it reads, results those that it writes; what it reads and
 * writes is both, and they are one buffer. */
#include "ext.h"
#include "xla.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct Kept {
	struct Kept *next;
	char *key;
	Call call;                      /* its scalars and values; no arrays */
} Kept;

static Kept *kept;
static int api_major, api_minor;

/* ---- keeping ---- */

PyObject *
xla_keep(PyObject *module, PyObject *args)
{
	PyObject *kernel, *named, *none = PyTuple_New(0);
	const char *key;
	Ask ask;
	if (!PyArg_ParseTuple(args, "sOO!", &key, &kernel, &PyDict_Type, &named))
		return NULL;
	for (const Kept *k = kept; k; k = k->next)
		if (strcmp(k->key, key) == 0) {
			Py_DECREF(none);
			Py_RETURN_NONE;
		}
	Kept *k = calloc(1, sizeof *k);
	if (!k || !(k->key = strdup(key)))
		return PyErr_NoMemory();
	bool ok = call_begin(&k->call, (KernelObject *)kernel, none, named) && call_read(&k->call);
	Py_DECREF(none);
	if (!ok)
		return NULL;
	Py_INCREF(kernel); /* the process's last word on it: names of values are the kernel's or interned by Python */
	Py_INCREF(named);
	library_lock(&ask, true);
	k->next = kept;
	kept = k;
	library_unlock(&ask);
	Py_RETURN_NONE;
}

/* ---- calling ---- */

static const int8_t xla_dtype[34] = {
    [1] = 1 + TGL_BOOL, [2] = 1 + TGL_I8, [3] = 1 + TGL_I16, [4] = 1 + TGL_I32, [5] = 1 + TGL_I64, [6] = 1 + TGL_U8,
    [7] = 1 + TGL_U16, [8] = 1 + TGL_U32, [9] = 1 + TGL_U64, [10] = 1 + TGL_F16, [11] = 1 + TGL_F32, [12] = 1 + TGL_F64,
    [16] = 1 + TGL_BF16, [19] = 1 + TGL_F8E5M2, [20] = 1 + TGL_F8E4M3,
};

static XlaError *
fail(const XlaFrame *f, const char *text)
{
	XlaErrorCreate e = {sizeof e, NULL, text, 3};
	return f->api->error_create(&e);
}

static const Kept *
find(const XlaFrame *f)
{
	for (int64_t i = 0; i < f->attrs.n; i++) {
		const XlaSpan *name = f->attrs.name[i], *key = f->attrs.at[i];
		if (f->attrs.type[i] != XLA_STRING || name->n != 3 || memcmp(name->at, "key", 3) != 0)
			continue;
		for (const Kept *k = kept; k; k = k->next)
			if (strlen(k->key) == key->n && memcmp(k->key, key->at, key->n) == 0)
				return k;
	}
	return NULL;
}

/* The GPU that memory lies on; -1: the host. */
static int
gpu_of(const void *p)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *found = driver ? dlsym(driver, "cuPointerGetAttribute") : NULL;
	int (*ask)(void *, int, uint64_t) = (int (*)(void *, int, uint64_t))found;
	int index = 0;
	enum { ORDINAL = 9 };
	if (ask && ask(&index, ORDINAL, (uint64_t)(uintptr_t)p) != 0)
		index = 0;
	if (driver)
		dlclose(driver);
	return index;
}

static bool
take_buffer(Call *c, int i, const XlaBuffer *b)
{
	Array *a = &c->array[i];
	*a = (Array){.data = b->data, .rank = (int)b->rank, .dtype = TGL_DTYPE_UNKNOWN};
	if ((unsigned)b->dtype < LEN(xla_dtype))
		a->dtype = xla_dtype[b->dtype] - 1;
	if (b->rank > TGL_MAX_RANK || a->dtype == TGL_DTYPE_UNKNOWN)
		return false;
	int64_t step = 1;
	for (int d = a->rank - 1; d >= 0; d--) {
		a->dim[d] = b->dim[d];
		a->stride[d] = step;
		step *= a->dim[d] > 1 ? a->dim[d] : 1;
	}
	call_stored(c, i);
	return c->is_array[i] = true;
}

/* Parameters in order: what is read comes from the arguments, what is written, read or not, from the results. */
static bool
take_buffers(Call *c, const XlaFrame *f)
{
	int64_t in = 0, out = 0;
	for (int i = 0; i < c->n; i++) {
		const TglParam *p = &c->k->param[i].p;
		bool written = param_is_written(p);
		bool read = param_is_tensor(p) && p->access != TGL_OUT && p->access != TGL_SCRATCH;
		const XlaBuffer *b = NULL;
		if (read && in < f->args.n)
			b = f->args.at[in++];
		if (written && out < f->rets.n)
			b = f->rets.at[out++];
		if ((read || written) && (!b || !take_buffer(c, i, b)))
			return false;
	}
	call_settle(c);
	return true;
}

static XlaError *
run(const XlaFrame *f, bool cuda)
{
	TglArg args[MAX_PARAMS + MAX_VALUES];
	XlaStreamGet stream = {sizeof stream, NULL, f->context, NULL};
	const Kept *k = find(f);
	int n;
	if (!k)
		return fail(f, "tegula: no kernel is known by this call's key in this process");
	if (cuda) {
		XlaError *e = f->api->stream_get(&stream);
		if (e)
			return e;
	}
	Call *c = malloc(sizeof *c);
	if (!c)
		return fail(f, "tegula: no memory");
	*c = k->call;
	if (!take_buffers(c, f)) {
		free(c);
		return fail(f, "tegula: a buffer's dtype or rank has no counterpart in Tegula");
	}
	const void *first = f->rets.n ? ((XlaBuffer *)f->rets.at[0])->data : NULL;
	Dev *d = device_find(cuda, cuda ? gpu_of(first) : 0);
	TglStream *s = d && cuda ? device_stream(d, stream.stream) : NULL;
	bool ok = d && call_arguments(c, d, args, &n) &&
		  (s ? tgl_launch_on(s, c->k->k, args, n) : tgl_launch(d->dev, c->k->k, args, n, NULL)) == TGL_OK;
	free(c);
	return ok ? NULL : fail(f, tgl_error(context)->text);
}

/* XLA asks what the handler was built for; false: it did not. */
static bool
describe(const XlaFrame *f)
{
	XlaExtension *e = f->extension;
	while (e && e->type != XLA_METADATA)
		e = e->next;
	if (!e)
		return false;
	XlaMetadata *m = ((XlaMetadataExtension *)e)->metadata;
	m->version.major = f->api ? f->api->version.major : api_major;
	m->version.minor = f->api ? f->api->version.minor : api_minor;
	m->traits = 0;
	return true;
}

static XlaError *
handle(XlaFrame *f, bool cuda)
{
	if (describe(f) || f->stage != XLA_EXECUTE)
		return NULL;
	library_lock_alone();
	XlaError *e = run(f, cuda);
	library_unlock_alone();
	return e;
}

static XlaError *
handle_cpu(XlaFrame *f)
{
	return handle(f, false);
}

static XlaError *
handle_cuda(XlaFrame *f)
{
	return handle(f, true);
}

PyObject *
xla_handler(PyObject *module, PyObject *args)
{
	const char *platform;
	if (!PyArg_ParseTuple(args, "sii", &platform, &api_major, &api_minor))
		return NULL;
	return PyCapsule_New(strcmp(platform, "cpu") == 0 ? (void *)handle_cpu : (void *)handle_cuda, NULL, NULL);
}
