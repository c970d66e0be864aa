/* A call of a kernel from Python: arguments sorted to parameters, outputs allocated, the launch.
 *
 *     y = k.softmax(x)            outputs are allocated as the header says, by the library of the arrays
 *     k.softmax(x, out=y)         or given, also by name: k.softmax(x, y=y)
 *     k.matmul(a, b, T="f16", warps=8)
 *
 * Positional arguments are the parameters in order but outputs and scratch. */
#include "ext.h"

#include <stdlib.h>

/* ---- launching ---- */

static bool
is_scratch(const TglParam *p)
{
	return p->kind == TGL_PARAM_TENSOR && p->access == TGL_SCRATCH;
}

Dev *
call_device(const Call *c)
{
	int first = call_first(c);
	if (c->device)
		return device_named(c->device);
	return first < 0 ? device_find(false, 0) : device_find(c->array[first].cuda, c->array[first].index);
}

bool
call_arguments(Call *c, Dev *d, TglArg *args, int *n)
{
	bool whole = true; /* then names need not be compared */
	*n = 0;
	for (int i = 0; i < c->n; i++)
		whole &= c->is_array[i] || c->scalar[i].kind != TGL_ARG_NONE || is_scratch(&c->k->param[i].p);
	for (int i = 0; i < c->n; i++) {
		const char *name = whole ? NULL : c->k->param[i].p.name;
		if (c->is_array[i]) {
			if (!device_tensor(d, i, &c->array[i], c->k->param[i].p.name))
				return false;
			args[(*n)++] = tgl_arg_tensor(name, d->pool[i]);
		} else if (c->scalar[i].kind != TGL_ARG_NONE) {
			args[*n] = c->scalar[i];
			args[(*n)++].name = name;
		}
	}
	memcpy(args + *n, c->value, sizeof *args * (size_t)c->nvalues);
	*n += c->nvalues;
	return true;
}

bool
call_allocate(Call *c)
{
	bool needs = false;
	int first = call_first(c);
	for (int i = 0; i < c->n; i++)
		needs |= param_is_written(&c->k->param[i].p) && c->k->param[i].p.access == TGL_OUT && !c->is_array[i];
	if (!needs)
		return true;
	if (first < 0) {
		PyErr_SetString(PyExc_TypeError, "no array says which library makes the outputs: give them, as in out=y");
		return false;
	}
	const Plan *plan = plan_shapes(c);
	if (!plan)
		return false;
	for (int i = 0; i < c->n; i++) {
		if (!param_is_written(&c->k->param[i].p) || c->is_array[i])
			continue;
		TglShape shape = plan->shape[i];
		c->made[i] = array_new(&c->array[first], &shape, &c->array[i]);
		if (!c->made[i])
			return false;
	}
	for (int i = 0; i < c->n; i++)
		c->is_array[i] |= c->made[i] != NULL;
	return true;
}

static bool
launch(Call *c, bool shortly)
{
	TglArg args[MAX_PARAMS + MAX_VALUES];
	int n, first = call_first(c);
	void *handle = NULL;
	Report r;
	Ask ask;
	if (first >= 0 && !array_stream(&c->array[first], &handle))
		return false;
	library_lock(&ask, shortly && first >= 0 && c->array[first].cuda);
	Dev *d = call_device(c);
	TglStream *s = d && d->cuda ? device_stream(d, handle) : NULL;
	bool ok = d && call_arguments(c, d, args, &n);
	if (ok)
		ok = (s ? tgl_launch_on(s, c->k->k, args, n) : tgl_launch(d->dev, c->k->k, args, n, NULL)) == TGL_OK;
	report_take(&r, ok ? TGL_OK : tgl_error(context)->status);
	library_unlock(&ask);
	return report_raise(&r);
}

static PyObject *
result(Call *c)
{
	int n = 0, at = 0;
	PyObject *one = NULL;
	for (int i = 0; i < c->n; i++)
		if (param_is_written(&c->k->param[i].p)) {
			n++;
			one = c->made[i] ? c->made[i] : c->object[i];
		}
	if (n == 0)
		one = Py_None;
	if (n <= 1) {
		Py_INCREF(one);
		return one;
	}
	PyObject *all = PyTuple_New(n);
	for (int i = 0; all && i < c->n; i++) {
		if (!param_is_written(&c->k->param[i].p))
			continue;
		PyObject *o = c->made[i] ? c->made[i] : c->object[i];
		Py_INCREF(o);
		PyTuple_SetItem(all, at++, o);
	}
	return all;
}

static PyObject *
kernel_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
	Call c;
	PyObject *made = NULL;
	c.is_case = c.is_abstract = false;
	bool ok = call_begin(&c, (KernelObject *)self, args, kwargs);
	if (ok && c.is_foreign) {
		PyObject *none = kwargs ? NULL : PyDict_New();
		made = PyObject_CallFunctionObjArgs(names.foreign, self, args, kwargs ? kwargs : none, NULL);
		Py_XDECREF(none);
	} else if (ok && call_complete(&c) && call_read(&c)) {
		Plan *plan = plan_find(&c);
		bool shortly = plan && plan->launched;
		if (plan)
			plan->launched = true;
		if (plan && call_allocate(&c) && launch(&c, shortly))
			made = result(&c);
	}
	call_end(&c);
	return made;
}

/* ---- shapes ---- */

static PyObject *
shape_tuple(const TglShape *s)
{
	PyObject *t = PyTuple_New(s->rank);
	for (int d = 0; t && d < s->rank; d++)
		PyTuple_SetItem(t, d, PyLong_FromLongLong(s->dim[d]));
	return t;
}

/* {name: (dtype, shape)} of all tensors, for arguments that have a shape and a dtype. */
PyObject *
method_shapes(PyObject *self, PyObject *args, PyObject *kwargs)
{
	Call c;
	PyObject *all = NULL;
	c.is_case = false;
	c.is_abstract = true;
	bool ok = call_begin(&c, (KernelObject *)self, args, kwargs) && call_complete(&c) && call_read(&c);
	const Plan *plan = ok ? plan_shapes(&c) : NULL;
	if (plan)
		all = PyDict_New();
	for (int i = 0; all && i < c.n; i++) {
		if (c.k->param[i].p.kind != TGL_PARAM_TENSOR)
			continue;
		const TglShape *s = &plan->shape[i];
		PyObject *one = Py_BuildValue("(sN)", tgl_dtype_name((TglDType)s->dtype), shape_tuple(s));
		if (one)
			PyDict_SetItem(all, c.k->param[i].name, one);
		Py_XDECREF(one);
	}
	call_end(&c);
	return all;
}

/* ---- the type ---- */

static PyObject *
kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	PyObject *program, *capsule;
	int index;
	TglParam p;
	if (!PyArg_ParseTuple(args, "OOi", &program, &capsule, &index))
		return NULL;
	TglProgram *tp = PyCapsule_GetPointer(capsule, "tegula.program");
	TglKernel *k = tp ? tgl_program_kernel(tp, index) : NULL;
	if (!k || tgl_kernel_params(k) > MAX_PARAMS) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError,
			    k ? "the kernel has more than 48 parameters" : "there is no such kernel");
		return NULL;
	}
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	KernelObject *o = (KernelObject *)alloc(type, 0);
	if (!o)
		return NULL;
	Py_INCREF(capsule);
	o->program = capsule;
	o->k = k;
	o->n = tgl_kernel_params(k);
	o->param = calloc((size_t)o->n + 1, sizeof *o->param);
	for (int i = 0; o->param && i < o->n && tgl_kernel_param(k, i, &p); i++)
		o->param[i] = (Param){PyUnicode_InternFromString(p.name), p};
	return (PyObject *)o;
}

static void
kernel_dealloc(PyObject *self)
{
	KernelObject *o = (KernelObject *)self;
	PyTypeObject *type = Py_TYPE(self);
	for (int i = 0; i < o->n; i++)
		Py_XDECREF(o->param[i].name);
	plans_close(o);
	free(o->param);
	Py_XDECREF(o->program);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
}

static PyObject *
kernel_params(PyObject *self, void *unused)
{
	static const char *const kinds[] = {"tensor", "pointer", "scalar"};
	static const char *const accesses[] = {"in", "out", "inout", "scratch"};
	KernelObject *o = (KernelObject *)self;
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < o->n; i++) {
		const TglParam *p = &o->param[i].p;
		PyObject *one = Py_BuildValue("{s:O,s:s,s:s,s:z,s:i,s:O,s:s}", "name", o->param[i].name,
		    "kind", kinds[p->kind],
		    "access", p->kind == TGL_PARAM_SCALAR ? "in" : accesses[p->access], "dtype",
		    p->dtype == TGL_DTYPE_UNKNOWN ? NULL : tgl_dtype_name((TglDType)p->dtype), "rank", p->rank, "strided",
		    p->strided ? Py_True : Py_False, "text", p->text);
		if (one)
			PyList_Append(list, one);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *
text_list(const char *(*get)(TglKernel *, int), TglKernel *k)
{
	PyObject *list = PyList_New(0);
	for (int i = 0; list && get(k, i); i++) {
		PyObject *t = PyUnicode_FromString(get(k, i));
		if (t)
			PyList_Append(list, t);
		Py_XDECREF(t);
	}
	return list;
}

static const char *
example_label(TglKernel *k, int i)
{
	TglExample e;
	return tgl_kernel_example(k, i, &e) ? e.label : NULL;
}

static PyObject *kernel_dims(PyObject *o, void *u) { return text_list(tgl_kernel_symbol, ((KernelObject *)o)->k); }
static PyObject *kernel_values(PyObject *o, void *u) { return text_list(tgl_kernel_constant, ((KernelObject *)o)->k); }
static PyObject *kernel_examples(PyObject *o, void *u) { return text_list(example_label, ((KernelObject *)o)->k); }
static PyObject *kernel_name(PyObject *o, void *u) { return PyUnicode_FromString(tgl_kernel_name(((KernelObject *)o)->k)); }
static PyObject *kernel_file(PyObject *o, void *u) { return PyUnicode_FromString(tgl_kernel_file(((KernelObject *)o)->k)); }
static PyObject *kernel_line(PyObject *o, void *u) { return PyLong_FromLong(tgl_kernel_line(((KernelObject *)o)->k)); }

static PyGetSetDef kernel_get[] = {
    {"params", kernel_params, NULL, "parameters in order, each a dict", NULL},
    {"dims", kernel_dims, NULL, "names of dimensions", NULL},
    {"values", kernel_values, NULL, "names of compile-time parameters", NULL},
    {"examples", kernel_examples, NULL, "labels of the source's examples", NULL},
    {"__name__", kernel_name, NULL, "the kernel's name", NULL},
    {"file", kernel_file, NULL, "the file that it stands in", NULL},
    {"line", kernel_line, NULL, "and its line", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define METHOD(name, function, text) {name, (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS, text}

static PyMethodDef kernel_methods[] = {
    METHOD("shapes", method_shapes, "dtype and shape of every tensor, for arguments that have a shape and a dtype"),
    METHOD("_code", method_code, "the compiler's text"),
    METHOD("_bench", method_bench, "seconds of a launch"),
    METHOD("_example", method_example, "arguments of an example"),
    METHOD("_tune", method_tune, "finds the best values of tune(...)"),
    METHOD("_check", method_check, "compares with the reference"),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_new, (void *)kernel_new},
    {Py_tp_dealloc, (void *)kernel_dealloc},
    {Py_tp_call, (void *)kernel_call},
    {Py_tp_getset, kernel_get},
    {Py_tp_methods, kernel_methods},
    {0, NULL},
};

PyType_Spec kernel_spec = {
    .name = "tegula._tegula.Kernel",
    .basicsize = sizeof(KernelObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = kernel_slots,
};
