/* Arguments of a call sorted to parameters, and read.  Positional ones are the parameters in order but outputs and
 * scratch. */
#include "ext.h"

#include <stdarg.h>

/* ---- parameters ---- */

bool
param_is_tensor(const TglParam *p)
{
	return p->kind != TGL_PARAM_SCALAR;
}

bool
param_is_written(const TglParam *p)
{
	return p->kind == TGL_PARAM_TENSOR && (p->access == TGL_OUT || p->access == TGL_INOUT);
}

static bool
is_positional(const TglParam *p)
{
	return p->kind != TGL_PARAM_TENSOR || p->access == TGL_IN || p->access == TGL_INOUT;
}

/* ---- values ---- */

static bool
integer_read(PyObject *o, TglArg *out)
{
	out->kind = TGL_ARG_INT;
	out->i = PyLong_AsLongLong(o);
	if (out->i != -1 || !PyErr_Occurred())
		return true;
	PyErr_Clear();
	out->kind = TGL_ARG_UINT;
	out->i = (int64_t)PyLong_AsUnsignedLongLong(o);
	return !PyErr_Occurred();
}

/* NumPy's scalars and arrays of no dimension too. */
static bool
number_read(PyObject *o, TglArg *out)
{
	PyObject *i = PyNumber_Index(o);
	if (i) {
		bool ok = integer_read(i, out);
		Py_DECREF(i);
		return ok;
	}
	PyErr_Clear();
	out->kind = TGL_ARG_FLOAT;
	out->f = PyFloat_AsDouble(o);
	return !PyErr_Occurred();
}

/* NumPy's, which is no number to Python, is called bool, or bool_ before NumPy 2. */
static bool
is_bool(PyObject *o)
{
	if (PyBool_Check(o) || PyLong_Check(o) || PyFloat_Check(o))
		return PyBool_Check(o);
	PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
	bool found = name && (PyUnicode_CompareWithASCIIString(name, "bool") == 0 ||
			     PyUnicode_CompareWithASCIIString(name, "bool_") == 0);
	Py_XDECREF(name);
	PyErr_Clear();
	return found;
}

static bool
bool_read(PyObject *o, TglArg *out)
{
	out->kind = TGL_ARG_BOOL;
	out->i = PyObject_IsTrue(o);
	return out->i >= 0;
}

/* After a failure: an integer too large says so, rather than that it is no number. */
static bool
is_too_large(const char *name, PyObject *o)
{
	if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_OverflowError))
		return false;
	PyErr_Format(PyExc_OverflowError, "'%s' is %R, which no integer of 64 bits holds", name, o);
	return true;
}

bool
value_read(PyObject *o, const char *name, TglArg *out)
{
	TglDType t;
	*out = (TglArg){.name = name};
	if (is_bool(o))
		return bool_read(o, out);
	if (PyLong_Check(o))
		return integer_read(o, out) || (is_too_large(name, o), false);
	if (PyFloat_Check(o)) {
		out->kind = TGL_ARG_FLOAT;
		out->f = PyFloat_AsDouble(o);
		return true;
	}
	if (dtype_read(o, &t)) {
		out->kind = TGL_ARG_DTYPE;
		out->i = t;
		return true;
	}
	if (number_read(o, out))
		return true;
	PyErr_Format(PyExc_TypeError, "'%s' must be a number, a bool or a dtype, not %R", name, o);
	return false;
}

/* A scalar parameter's: bools of True and False, numbers else. */
static bool
scalar_read(PyObject *o, const TglParam *p, TglArg *out)
{
	*out = (TglArg){.name = p->name};
	if (is_bool(o))
		return bool_read(o, out);
	if (PyFloat_Check(o) || PyLong_Check(o) ? value_read(o, p->name, out) : number_read(o, out))
		return true;
	if (is_too_large(p->name, o))
		return false;
	PyErr_Format(PyExc_TypeError, "argument '%s' must be a number, not %R", p->name, (PyObject *)Py_TYPE(o));
	return false;
}

/* ---- sorting ---- */

static bool
too_many(const KernelObject *k, Py_ssize_t given)
{
	char list[512] = "";
	int takes = 0;
	for (int i = 0; i < k->n; i++) {
		if (!is_positional(&k->param[i].p))
			continue;
		size_t n = strlen(list);
		snprintf(list + n, sizeof list - n, "%s%s", takes++ ? ", " : "", k->param[i].p.name);
	}
	PyErr_Format(PyExc_TypeError,
	    "kernel '%s' takes %d positional arguments (%s), found %d; outputs are given by name or out=",
	    tgl_kernel_name(k->k), takes, list, (int)given);
	return false;
}

static int
param_named(const KernelObject *k, PyObject *name)
{
	for (int i = 0; i < k->n; i++)
		if (k->param[i].name == name)
			return i;
	for (int i = 0; i < k->n; i++)
		if (PyUnicode_Compare(k->param[i].name, name) == 0)
			return i;
	return -1;
}

static bool
is_name(PyObject *key, PyObject *name)
{
	return key == name || PyUnicode_Compare(key, name) == 0;
}

static bool
take_text(PyObject *o, const char *name, const char **out)
{
	*out = o == Py_None ? NULL : PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
	if (*out || o == Py_None)
		return true;
	PyErr_Format(PyExc_TypeError, "'%s' must be a text, not %R", name, o);
	return false;
}

static bool
take_keyword(Call *c, PyObject *key, PyObject *o)
{
	int i = param_named(c->k, key);
	const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
	if (i >= 0) {
		if (c->object[i]) {
			PyErr_Format(PyExc_TypeError, "argument '%s' is given twice", name);
			return false;
		}
		c->object[i] = o == Py_None ? NULL : o;
		return true;
	}
	if (is_name(key, names.out)) {
		c->out = o == Py_None ? NULL : o;
		return true;
	}
	if (is_name(key, names.device))
		return take_text(o, "device", &c->device);
	if (c->is_case && strcmp(name, "example") == 0)
		return take_text(o, "example", &c->example);
	if (o == Py_None)
		return true;
	if (c->nvalues == MAX_VALUES) {
		PyErr_SetString(PyExc_TypeError, "more than 32 values are given by name");
		return false;
	}
	return value_read(o, name, &c->value[c->nvalues++]);
}

bool
call_begin(Call *c, KernelObject *k, PyObject *args, PyObject *kwargs)
{
	Py_ssize_t given = PyTuple_Size(args), at = 0;
	PyObject *key, *o;
	Access own;
	c->k = k;
	c->n = k->n;
	c->nvalues = 0;
	c->out = NULL;
	c->device = c->example = NULL;
	c->is_foreign = false;
	for (int i = 0; i < c->n; i++) {
		c->object[i] = c->made[i] = NULL;
		c->is_array[i] = false;
		c->scalar[i].kind = TGL_ARG_NONE;
		if (at < given && is_positional(&k->param[i].p) && (o = PyTuple_GetItem(args, at++)) != Py_None)
			c->object[i] = o;
	}
	if (at < given)
		return too_many(k, given);
	at = 0;
	while (kwargs && PyDict_Next(kwargs, &at, &key, &o))
		if (!take_keyword(c, key, o))
			return false;
	for (int i = 0; i < c->n && !c->is_abstract; i++)
		if (c->object[i] && param_is_tensor(&k->param[i].p))
			c->is_foreign |= access_of(c->object[i], &own)->kind == ACCESS_FOREIGN;
	return true;
}

/* out= stands for the outputs that are not given by name, in order. */
static bool
spread_out(Call *c)
{
	bool many = PyTuple_Check(c->out) || PyList_Check(c->out);
	Py_ssize_t n = many ? PySequence_Size(c->out) : 1, at = 0;
	for (int i = 0; i < c->n && at < n; i++) {
		const TglParam *p = &c->k->param[i].p;
		if (c->object[i] || !param_is_written(p) || p->access != TGL_OUT)
			continue;
		c->object[i] = c->out;
		if (many)
			c->object[i] = (PyTuple_Check(c->out) ? PyTuple_GetItem : PyList_GetItem)(c->out, at);
		at++;
	}
	if (at == n)
		return true;
	PyErr_Format(PyExc_TypeError, "kernel '%s' has %d output%s not given by name, out= has %d",
	    tgl_kernel_name(c->k->k), (int)at, at == 1 ? "" : "s", (int)n);
	return false;
}

/* Raises tegula.LaunchError; code: of an error that has one, or NULL.  False. */
static bool
refuse(const char *code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	PyObject *text = PyUnicode_FromFormatV(fmt, ap);
	va_end(ap);
	PyObject *e = text ? PyObject_CallFunction(names.error, "szOzO", "launch", code, text, NULL, text) : NULL;
	if (e)
		PyErr_SetObject((PyObject *)Py_TYPE(e), e);
	Py_XDECREF(e);
	Py_XDECREF(text);
	return false;
}

/* What nothing else could say: the shapes of what is missing would be dimensions without a value. */
bool
call_complete(const Call *c)
{
	for (int i = 0; i < c->n; i++) {
		const TglParam *p = &c->k->param[i].p;
		if (!c->object[i] && param_is_tensor(p) && is_positional(p))
			return refuse("E1163", "argument '%s' of kernel '%s' is missing: expected %s", p->name,
			    tgl_kernel_name(c->k->k), p->text);
	}
	return true;
}

/* ---- reading ---- */

static bool
same_device(const Call *c, int i, int first)
{
	const Array *a = &c->array[i], *b = &c->array[first];
	char at[2][24];
	if (a->cuda == b->cuda && (!a->cuda || a->index == b->index))
		return true;
	for (int j = 0; j < 2; j++) {
		const Array *x = j ? b : a;
		snprintf(at[j], sizeof at[j], x->cuda ? "cuda:%d" : "cpu", x->index);
	}
	return refuse(NULL, "argument '%s' is on %s, but '%s' is on %s", c->k->param[i].p.name, at[0],
	    c->k->param[first].p.name, at[1]);
}

int
call_first(const Call *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->is_array[i])
			return i;
	return -1;
}

static bool
read_param(Call *c, int i)
{
	const TglParam *p = &c->k->param[i].p;
	Array *a = &c->array[i];
	if (!param_is_tensor(p))
		return scalar_read(c->object[i], p, &c->scalar[i]);
	if (!(c->is_abstract ? array_describe : array_read)(c->object[i], p->name, a))
		return false;
	c->is_array[i] = true;
	call_stored(c, i);
	if (!a->read_only || (!param_is_written(p) && !(p->kind == TGL_PARAM_POINTER && p->access == TGL_INOUT)))
		return same_device(c, i, call_first(c));
	return refuse(NULL, "argument '%s' is written by the kernel, and the array is read-only", p->name);
}

bool
call_read(Call *c)
{
	if (c->out && !spread_out(c))
		return false;
	for (int i = 0; i < c->n; i++)
		if (c->object[i] && !read_param(c, i))
			return false;
	call_settle(c);
	return true;
}

void
call_end(Call *c)
{
	for (int i = 0; i < c->n; i++) {
		if (c->is_array[i])
			array_release(&c->array[i]);
		Py_XDECREF(c->made[i]);
	}
}
