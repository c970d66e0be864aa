/* Arrays of any library.  NumPy's by __array_interface__, which names read-only memory and every
 * dtype; those whose type carries DLPack's table of functions (PyTorch 2.10 and later, tvm-ffi) by
 * that, without a Python call; others by
 * __dlpack__.  Nothing is copied and no stream is waited for: work goes to the library's own
 * current stream.
 *
 * JAX's arrays never come here: they cannot be written to, and may be traced (tegula._foreign). */
#include "ext.h"

/* ---- types ---- */

static Access accesses[64];
static int naccesses;

static const DlExchange *
exchange_of(PyTypeObject *type)
{
	PyObject *capsule = PyObject_GetAttr((PyObject *)type, names.exchange);
	const DlExchange *api = NULL;
	if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
		api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
	PyErr_Clear();
	Py_XDECREF(capsule); /* the table is static */
	while (api && api->version.major > DL_MAJOR)
		api = api->older;
	return api;
}

static bool
comes_from(PyTypeObject *type, const char *package)
{
	PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
	Py_ssize_t n = 0;
	const char *text =
	    module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, &n) : NULL;
	size_t want = strlen(package);
	bool is =
	    text && strncmp(text, package, want) == 0 && (text[want] == '.' || text[want] == 0);
	PyErr_Clear();
	Py_XDECREF(module);
	return is;
}

static bool
has(PyTypeObject *type, PyObject *name)
{
	PyObject *a = PyObject_GetAttr((PyObject *)type, name);
	PyErr_Clear();
	Py_XDECREF(a);
	return a != NULL;
}

/* Kept by the type; NULL: it has none. */
static PyObject *
method_of(PyTypeObject *type, const char *name)
{
	PyObject *m = PyObject_GetAttrString((PyObject *)type, name);
	PyErr_Clear();
	Py_XDECREF(m);
	return m;
}

static Access
look_up(PyTypeObject *type)
{
	Access a = {.type = type};
	if (comes_from(type, "jax") || comes_from(type, "jaxlib"))
		a.kind = has(type, names.shape) ? ACCESS_FOREIGN : ACCESS_NONE;
	else if ((a.api = exchange_of(type)))
		a.kind = ACCESS_EXCHANGE;
	else if (has(type, names.array_interface))
		a.kind = ACCESS_NUMPY;
	else if (has(type, names.dlpack))
		a.kind = ACCESS_DLPACK;
	if (a.kind == ACCESS_EXCHANGE || a.kind == ACCESS_DLPACK)
		a.is_neg = method_of(type, "is_neg");
	return a;
}

/* Rows stay as they are, since arrays point to them: what comes when all are taken is looked up
 * each time. */
const Access *
access_of(PyObject *o, Access *own)
{
	PyTypeObject *type = Py_TYPE(o);
	for (int i = 0; i < naccesses; i++)
		if (accesses[i].type == type)
			return &accesses[i];
	*own = look_up(type);
	if (naccesses == LEN(accesses))
		return own;
	Py_INCREF(type);
	accesses[naccesses] = *own;
	return &accesses[naccesses++];
}

/* ---- dtypes ---- */

static const struct {
	DlType dl;
	int dtype;
	const char *numpy;
} dtypes[] = {
    {{DL_FLOAT, 32, 1}, TGL_F32, "float32"},
    {{DL_FLOAT, 16, 1}, TGL_F16, "float16"},
    {{DL_BFLOAT, 16, 1}, TGL_BF16, "bfloat16"},
    {{DL_INT, 32, 1}, TGL_I32, "int32"},
    {{DL_INT, 64, 1}, TGL_I64, "int64"},
    {{DL_UINT, 8, 1}, TGL_U8, "uint8"},
    {{DL_INT, 8, 1}, TGL_I8, "int8"},
    {{DL_BOOL, 8, 1}, TGL_BOOL, "bool"},
    {{DL_F8E4M3FN, 8, 1}, TGL_F8E4M3, "float8_e4m3fn"},
    {{DL_F8E5M2, 8, 1}, TGL_F8E5M2, "float8_e5m2"},
    {{DL_FLOAT, 64, 1}, TGL_F64, "float64"},
    {{DL_INT, 16, 1}, TGL_I16, "int16"},
    {{DL_UINT, 16, 1}, TGL_U16, "uint16"},
    {{DL_UINT, 32, 1}, TGL_U32, "uint32"},
    {{DL_UINT, 64, 1}, TGL_U64, "uint64"},
    {{DL_F4E2M1FN, 4, 2}, TGL_F4E2M1, "float4_e2m1fn_x2"},
    {{DL_INT, 4, 2}, TGL_I4, "int4"},
    {{DL_UINT, 4, 2}, TGL_U4, "uint4"},
};

static int
dtype_of_dl(DlType t)
{
	for (int i = 0; i < LEN(dtypes); i++)
		if (dtypes[i].dl.code == t.code && dtypes[i].dl.bits == t.bits &&
		    dtypes[i].dl.lanes == t.lanes)
			return dtypes[i].dtype;
	return TGL_DTYPE_UNKNOWN;
}

static int
dtype_of_name(const char *name)
{
	TglDType t;
	for (int i = 0; i < LEN(dtypes); i++)
		if (strcmp(dtypes[i].numpy, name) == 0)
			return dtypes[i].dtype;
	return tgl_dtype_named(name, &t) ? (int)t : TGL_DTYPE_UNKNOWN;
}

/* The row of a dtype that a library has; of packed ones, that of their bytes. */
static int
row_of(int dtype)
{
	for (int i = 0; i < LEN(dtypes); i++)
		if (dtypes[i].dtype == dtype && dtypes[i].dl.lanes == 1)
			return i;
	return row_of(TGL_U8);
}

DlType
dtype_stored(int dtype)
{
	return dtypes[row_of(dtype)].dl;
}

const char *
dtype_library_name(int dtype)
{
	return dtypes[row_of(dtype)].numpy;
}

bool
dtype_read(PyObject *o, TglDType *out)
{
	PyObject *text = NULL;
	int t = TGL_DTYPE_UNKNOWN;
	if (PyUnicode_Check(o)) {
		Py_INCREF(o);
		text = o;
	} else if (!(text = PyObject_GetAttr(o, names.name))) { /* NumPy's dtypes have one; */
		PyErr_Clear();
		text =
		    PyObject_GetAttrString(o, "__name__"); /* their types, like np.float32, this; */
		PyErr_Clear();
		if (!text)
			text = PyObject_Str(o); /* and PyTorch's are torch.float32 */
	}
	const char *name =
	    text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (name)
		t = dtype_of_name(strrchr(name, '.') ? strrchr(name, '.') + 1 : name);
	Py_XDECREF(text);
	PyErr_Clear();
	*out = (TglDType)t;
	return t != TGL_DTYPE_UNKNOWN;
}

/* ---- reading ---- */

bool
array_fail(const char *param, const char *what)
{
	PyErr_Format(PyExc_TypeError, "argument '%s': %s", param, what);
	return false;
}

bool
array_no_dtype(const char *param, PyObject *dtype)
{
	PyErr_Format(PyExc_TypeError, "argument '%s': its dtype, %S, has no counterpart in Tegula; convert the array first",
	    param, dtype ? dtype : Py_None);
	return false;
}

void
array_contiguous(Array *a)
{
	int64_t step = 1;
	for (int d = a->rank - 1; d >= 0; d--) {
		a->stride[d] = step;
		step *= a->dim[d] > 1 ? a->dim[d] : 1;
	}
}

static bool
take_dl(Array *a, const DlTensor *t, const char *param)
{
	a->dtype = dtype_of_dl(t->dtype);
	a->rank = t->ndim;
	a->cuda = t->device.type == DL_CUDA || t->device.type == DL_CUDA_MANAGED;
	a->index = t->device.id;
	a->data = (char *)t->data + t->byte_offset;
	if (!a->cuda && t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST)
		return array_fail(param, "its device is neither a CPU nor an NVIDIA GPU");
	if (a->dtype == TGL_DTYPE_UNKNOWN)
		return array_fail(param, "its dtype has no counterpart in Tegula");
	if (t->ndim > TGL_MAX_RANK)
		return array_fail(param, "it has more than 5 dimensions");
	for (int d = 0; d < a->rank; d++)
		a->dim[d] = t->shape[d];
	if (t->strides)
		memcpy(a->stride, t->strides, (size_t)a->rank * sizeof *a->stride);
	else
		array_contiguous(a);
	if (t->dtype.lanes == 2)
		array_unpack(a);
	return true;
}

/* PyTorch's views of the negative, as of conj().imag, have the memory of what they are the negative
 * of. */
static bool
is_plain(PyObject *o, const char *param, const Array *a)
{
	PyObject *is =
	    a->access->is_neg ? PyObject_CallFunctionObjArgs(a->access->is_neg, o, NULL) : NULL;
	bool plain = !a->access->is_neg || is == Py_False;
	Py_XDECREF(is);
	if (!plain && !PyErr_Occurred())
		array_fail(param, "it is a view of the negative of its memory (is_neg()): give its "
				  "resolve_neg()");
	return plain;
}

/* PyTorch's errors of sparse and meta tensors are stacks of C++. */
static bool
refused(PyObject *o, const char *param)
{
	PyErr_Clear();
	PyErr_Format(PyExc_TypeError,
	    "argument '%s': it has no memory that DLPack can name, as sparse, quantised and meta "
	    "tensors: %R",
	    param, (PyObject *)Py_TYPE(o));
	return false;
}

static bool
read_exchange(PyObject *o, const char *param, Array *out)
{
	const DlExchange *api = out->access->api;
	DlTensor t;
	if ((api->view_object ? api->view_object(o, &t) : api->from_object(o, &out->versioned)) !=
	    0)
		return refused(o, param);
	return take_dl(out, api->view_object ? &t : &out->versioned->tensor, param);
}

/* stream -1: no synchronising.  Only a GPU's arrays take one. */
static PyObject *
capsule_of(PyObject *o)
{
	long type = DL_CPU;
	PyObject *where = PyObject_CallMethodObjArgs(o, names.dlpack_device, NULL);
	if (!where)
		return NULL;
	PyObject *first = PyTuple_Check(where) ? PyTuple_GetItem(where, 0) : NULL;
	if (first)
		type = PyLong_AsLong(first);
	Py_DECREF(where);
	PyErr_Clear();
	PyObject *function = PyObject_GetAttr(o, names.dlpack), *none = PyTuple_New(0);
	PyObject *kwargs = type == DL_CUDA ? Py_BuildValue("{s:i}", "stream", -1) : NULL;
	PyObject *capsule = function && none ? PyObject_Call(function, none, kwargs) : NULL;
	Py_XDECREF(function);
	Py_XDECREF(none);
	Py_XDECREF(kwargs);
	return capsule;
}

static bool
read_dlpack(PyObject *o, const char *param, Array *out)
{
	PyObject *capsule = capsule_of(o);
	const DlTensor *t = NULL;
	if (!capsule)
		return false;
	if (PyCapsule_IsValid(capsule, "dltensor")) {
		out->managed = PyCapsule_GetPointer(capsule, "dltensor");
		PyCapsule_SetName(capsule, "used_dltensor");
		t = &out->managed->tensor;
	} else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		out->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		PyCapsule_SetName(capsule, "used_dltensor_versioned");
		out->read_only = out->versioned->flags & DL_READ_ONLY;
		t = &out->versioned->tensor;
	}
	Py_DECREF(capsule);
	return t ? take_dl(out, t, param) : array_fail(param, "__dlpack__ gave no tensor");
}

bool
array_extents(PyObject *tuple, int64_t *out, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
	return !PyErr_Occurred();
}

/* Any address that is aligned and not NULL does: nothing is read there. */
bool
array_describe(PyObject *o, const char *param, Array *out)
{
	TglDType t = TGL_DTYPE_UNKNOWN;
	memset(out, 0, sizeof *out);
	out->access = access_of(o, &out->own);
	PyObject *shape = PyObject_GetAttr(o, names.shape),
		 *dtype = shape ? PyObject_GetAttr(o, names.dtype) : NULL;
	PyObject *tuple = dtype ? PySequence_Tuple(shape) : NULL;
	bool ok = tuple && dtype_read(dtype, &t) && (t == TGL_F4E2M1 || array_is_whole(param, t));
	if (ok && (out->rank = (int)PyTuple_Size(tuple)) > TGL_MAX_RANK)
		ok = array_fail(param, "it has more than 5 dimensions");
	ok = ok && array_extents(tuple, out->dim, out->rank);
	if (!ok && !PyErr_Occurred())
		array_no_dtype(param, dtype);
	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	Py_XDECREF(tuple);
	out->dtype = t;
	out->data = (void *)(uintptr_t)4096;
	array_contiguous(out);
	if (ok && t == TGL_F4E2M1) /* PyTorch's float4_e2m1fn_x2 */
		array_unpack(out);
	return ok;
}

void
array_release(Array *a)
{
	if (a->managed && a->managed->deleter)
		a->managed->deleter(a->managed);
	if (a->versioned && a->versioned->deleter)
		a->versioned->deleter(a->versioned);
	Py_XDECREF(a->owner);
	a->managed = NULL;
	a->versioned = NULL;
	a->owner = NULL;
}

static bool
read_kind(PyObject *o, const char *param, Array *out)
{
	switch (out->access->kind) {
	case ACCESS_EXCHANGE: return read_exchange(o, param, out);
	case ACCESS_NUMPY: return array_read_numpy(o, param, out);
	case ACCESS_DLPACK: return read_dlpack(o, param, out);
	default:
		PyErr_Format(PyExc_TypeError, "argument '%s' must be an array, not %R", param,
		    (PyObject *)Py_TYPE(o));
		return false;
	}
}

bool
array_read(PyObject *o, const char *param, Array *out)
{
	memset(out, 0, sizeof *out);
	out->access = access_of(o, &out->own);
	bool ok = is_plain(o, param, out) && read_kind(o, param, out);
	if (!ok)
		array_release(out);
	return ok;
}
