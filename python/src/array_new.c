/* New arrays by the library of an argument, and that library's current stream. */
#include "ext.h"

/* ---- making ---- */

static void
refuse(void *user, const char *kind, const char *text)
{
	PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, text);
}

/* The dtype and extents that the library knows: of packed ones, bytes. */
DlType
shape_stored(const TglShape *s, int64_t *dim)
{
	DlType t = dtype_stored(s->dtype);
	memcpy(dim, s->dim, sizeof s->dim);
	if (tgl_dtype_bits((TglDType)s->dtype) == 4 && s->rank)
		dim[s->rank - 1] = (dim[s->rank - 1] + 1) / 2;
	return t;
}

static PyObject *
new_by_exchange(const Array *like, const TglShape *s, Array *out)
{
	int64_t dim[TGL_MAX_RANK];
	DlTensor want = {.device = {like->cuda ? DL_CUDA : DL_CPU, like->index}, .ndim = s->rank, .shape = dim};
	DlVersioned *made = NULL;
	void *object = NULL;
	want.dtype = shape_stored(s, dim);
	if (like->access->api->allocate(&want, &made, NULL, refuse) != 0)
		return NULL;
	void *data = (char *)made->tensor.data + made->tensor.byte_offset;
	if (like->access->api->to_object(made, &object) != 0)
		return NULL;
	out->data = data;
	return object;
}

static PyObject *
numpy_dtype(int dtype)
{
	const char *name = dtype_library_name(dtype);
	if (dtype != TGL_BF16 && dtype != TGL_F8E4M3 && dtype != TGL_F8E5M2)
		return PyUnicode_FromString(name);
	PyObject *module = PyImport_ImportModule("ml_dtypes");
	PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
	Py_XDECREF(module);
	if (type)
		return type;
	PyErr_Clear(); /* the bits, without the package */
	return PyUnicode_FromString(dtype == TGL_BF16 ? "uint16" : "uint8");
}

static PyObject *
numpy_empty(PyObject *shape, const TglShape *s)
{
	PyObject *dtype = numpy_dtype(s->dtype);
	if (dtype && !names.numpy_empty) {
		PyObject *module = PyImport_ImportModule("numpy");
		names.numpy_empty = module ? PyObject_GetAttrString(module, "empty") : NULL;
		Py_XDECREF(module);
	}
	PyObject *o = NULL;
	if (dtype && names.numpy_empty)
		o = PyObject_CallFunctionObjArgs(names.numpy_empty, shape, dtype, NULL);
	Py_XDECREF(dtype);
	return o;
}

/* By the library's own function, called from Python (tegula._libraries). */
static PyObject *
new_by_name(const Array *like, const TglShape *s, Array *out)
{
	int64_t dim[TGL_MAX_RANK];
	Array read;
	shape_stored(s, dim);
	PyObject *shape = PyTuple_New(s->rank), *o;
	for (int d = 0; shape && d < s->rank; d++)
		PyTuple_SetItem(shape, d, PyLong_FromLongLong(dim[d]));
	if (!shape)
		return NULL;
	if (like->access->kind == ACCESS_NUMPY)
		o = numpy_empty(shape, s);
	else
		o = PyObject_CallMethod(names.libraries, "empty", "OOsi", (PyObject *)like->access->type, shape,
		    dtype_library_name(s->dtype), like->cuda ? like->index : -1);
	Py_DECREF(shape);
	if (!o)
		return NULL;
	bool ok = array_read(o, "out", &read);
	out->data = read.data;
	array_release(&read);
	if (ok)
		return o;
	Py_DECREF(o);
	return NULL;
}

PyObject *
array_new(const Array *like, const TglShape *s, Array *out)
{
	*out = (Array){.access = like->access, .dtype = s->dtype, .rank = s->rank};
	out->cuda = like->cuda;
	out->index = like->index;
	memcpy(out->dim, s->dim, sizeof s->dim);
	array_contiguous(out);
	bool packed = tgl_dtype_bits((TglDType)s->dtype) == 4;
	for (int64_t d = s->rank - 2, step = 1; packed && d >= 0; d--) { /* rows start on a byte */
		int64_t n = s->dim[d + 1] > 1 ? s->dim[d + 1] : 1;
		step *= d == s->rank - 2 ? (n + 1) / 2 * 2 : n;
		out->stride[d] = step;
	}
	return like->access->kind == ACCESS_EXCHANGE ? new_by_exchange(like, s, out) : new_by_name(like, s, out);
}

/* ---- streams ---- */

bool
array_stream(const Array *like, void **stream)
{
	*stream = NULL;
	if (!like->cuda)
		return true;
	if (like->access->kind == ACCESS_EXCHANGE)
		return like->access->api->current_stream(DL_CUDA, like->index, stream) == 0;
	PyObject *n = PyObject_CallMethod(names.libraries, "stream", "Oi", (PyObject *)like->access->type, like->index);
	if (n)
		*stream = PyLong_AsVoidPtr(n);
	Py_XDECREF(n);
	return !PyErr_Occurred();
}
