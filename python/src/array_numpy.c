/* Arrays of NumPy, and of what else has an __array_interface__: an address, which the interface's
 * dict keeps alive. */
#include "ext.h"

static bool
is_native(const char *typestr)
{
	const uint16_t one = 1;
	return typestr && typestr[0] != (*(const char *)&one ? '>' : '<');
}

/* Bytes of two elements, or an element each: ml_dtypes has the latter. */
bool
array_is_whole(const char *param, TglDType t)
{
	return tgl_dtype_bits(t) >= 8 ||
	       array_fail(param,
		   "its dtype takes a byte for an element, and the kernel's are packed: "
		   "give uint8, with two elements in each "
		   "byte along the last axis, the lower half first");
}

static PyObject *
tuple_of(PyObject *dict, const char *name, Py_ssize_t n)
{
	PyObject *t = PyDict_GetItemString(dict, name);
	return t && PyTuple_Check(t) && (n < 0 || PyTuple_Size(t) == n) ? t : NULL;
}

static bool
take_strides(PyObject *strides, const char *param, Array *out)
{
	int size = tgl_dtype_bits((TglDType)out->dtype) / 8;
	if (!array_extents(strides, out->stride, out->rank))
		return false;
	for (int d = 0; d < out->rank; d++) {
		if (out->stride[d] % size)
			return array_fail(param, "its strides are not multiples of an element");
		out->stride[d] /= size;
	}
	return true;
}

static bool
take_dtype(PyObject *o, PyObject *type, const char *param, Array *out)
{
	PyObject *dtype = PyObject_GetAttr(o, names.dtype);
	TglDType t = TGL_DTYPE_UNKNOWN;
	bool known =
	    dtype && dtype_read(dtype, &t) && is_native(PyUnicode_AsUTF8AndSize(type, NULL));
	PyErr_Clear();
	out->dtype = t;
	bool ok = known ? array_is_whole(param, t) : array_no_dtype(param, dtype);
	Py_XDECREF(dtype);
	return ok;
}

/* A scalar of NumPy is a value, and its memory a copy. */
static bool
is_value(PyObject *o)
{
	PyObject *flags = PyObject_GetAttrString(o, "flags");
	PyObject *writes = flags ? PyObject_GetAttrString(flags, "writeable") : NULL;
	bool is = writes == Py_False;
	PyErr_Clear();
	Py_XDECREF(flags);
	Py_XDECREF(writes);
	return is;
}

/* NumPy takes an object with a buffer for "data" as well; here it is an address. */
static bool
take_interface(PyObject *o, PyObject *dict, const char *param, Array *out)
{
	PyObject *shape = tuple_of(dict, "shape", -1), *data = tuple_of(dict, "data", 2);
	PyObject *type = PyDict_GetItemString(dict, "typestr"),
		 *strides = PyDict_GetItemString(dict, "strides");
	if (!shape || !data || !PyLong_Check(PyTuple_GetItem(data, 0)) || !type ||
	    !PyUnicode_Check(type))
		return array_fail(param,
		    "its __array_interface__ has no shape, typestr and address: "
		    "give numpy.asarray of it");
	if (!take_dtype(o, type, param, out))
		return false;
	out->rank = (int)PyTuple_Size(shape);
	if (out->rank > TGL_MAX_RANK)
		return array_fail(param, "it has more than 5 dimensions");
	out->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
	out->read_only =
	    PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1 || (out->rank == 0 && is_value(o));
	if (!array_extents(shape, out->dim, out->rank))
		return false;
	array_contiguous(out);
	if (!strides || strides == Py_None)
		return true;
	strides = tuple_of(dict, "strides", out->rank);
	return strides
		   ? take_strides(strides, param, out)
		   : array_fail(param, "its __array_interface__ has other strides than dimensions");
}

/* The dict may be all that keeps the memory, as that of a NumPy scalar, which is made for the
 * question. */
bool
array_read_numpy(PyObject *o, const char *param, Array *out)
{
	out->owner = PyObject_GetAttr(o, names.array_interface);
	return out->owner &&
	       (PyDict_Check(out->owner) ? take_interface(o, out->owner, param, out)
					 : array_fail(param, "its __array_interface__ is no dict"));
}
