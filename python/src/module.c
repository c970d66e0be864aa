/* The extension module: programs, kernels, and what they share. */
#include "ext.h"

#include <stdlib.h>

Names names;
extern PyType_Spec kernel_spec;

static void
program_close(PyObject *capsule)
{
	TglProgram *p = PyCapsule_GetPointer(capsule, "tegula.program");
	Ask ask;
	library_lock(&ask, true);
	tgl_program_close(&p);
	library_unlock(&ask);
}

static PyObject *
program_made(TglProgram *p, Report *r)
{
	if (!report_raise(r))
		return NULL;
	return PyCapsule_New(p, "tegula.program", program_close);
}

static PyObject *
program_file(PyObject *module, PyObject *args)
{
	const char *path;
	Report r;
	Ask ask;
	if (!PyArg_ParseTuple(args, "s", &path))
		return NULL;
	library_lock(&ask, false);
	TglProgram *p = tgl_program_file(context, path);
	report_take(&r, p ? TGL_OK : tgl_error(context)->status);
	library_unlock(&ask);
	return program_made(p, &r);
}

static PyObject *
program_text(PyObject *module, PyObject *args)
{
	const char *name, *text;
	PyObject *given;
	Py_ssize_t size;
	Report r;
	Ask ask;
	if (!PyArg_ParseTuple(args, "sU", &name, &given) || !(text = PyUnicode_AsUTF8AndSize(given, &size)))
		return NULL;
	library_lock(&ask, false);
	TglProgram *p = tgl_program_text(context, name, text, (size_t)size);
	report_take(&r, p ? TGL_OK : tgl_error(context)->status);
	library_unlock(&ask);
	return program_made(p, &r);
}

static PyObject *
program_kernels(PyObject *module, PyObject *capsule)
{
	TglProgram *p = PyCapsule_GetPointer(capsule, "tegula.program");
	PyObject *list = p ? PyList_New(0) : NULL;
	for (int i = 0; list && i < tgl_program_kernels(p); i++) {
		PyObject *name = PyUnicode_FromString(tgl_kernel_name(tgl_program_kernel(p, i)));
		if (name)
			PyList_Append(list, name);
		Py_XDECREF(name);
	}
	return list;
}

static PyObject *
program_hash(PyObject *module, PyObject *capsule)
{
	TglProgram *p = PyCapsule_GetPointer(capsule, "tegula.program");
	Ask ask;
	if (!p)
		return NULL;
	library_lock(&ask, false);
	const char *hash = tgl_program_hash(p);
	library_unlock(&ask);
	return PyUnicode_FromString(hash);
}

static PyObject *
devices(PyObject *module, PyObject *unused)
{
	TglDeviceInfo info;
	PyObject *list = PyList_New(0);
	Ask ask;
	library_lock(&ask, true); /* the list is short, and asked for rarely */
	for (int i = 0; list && tgl_device_list(context, i, &info); i++) {
		PyObject *one = Py_BuildValue("{s:s,s:s,s:z,s:O,s:z}", "name", info.name, "text", info.text,
		    "target", info.target,
		    "available", info.available ? Py_True : Py_False, "why_not", info.available ? NULL : info.why_not);
		if (one)
			PyList_Append(list, one);
		Py_XDECREF(one);
	}
	library_unlock(&ask);
	return list;
}

static PyObject *
synchronize(PyObject *module, PyObject *args)
{
	const char *name = "cpu";
	Report r;
	Ask ask;
	if (!PyArg_ParseTuple(args, "|s", &name))
		return NULL;
	library_lock(&ask, false);
	Dev *d = device_named(name);
	bool ok = d && tgl_device_sync(d->dev) == TGL_OK;
	report_take(&r, ok ? TGL_OK : tgl_error(context)->status);
	library_unlock(&ask);
	if (!report_raise(&r))
		return NULL;
	Py_RETURN_NONE;
}

/* What the package defines: errors, the way to JAX, libraries that are asked in Python. */
static PyObject *
adopt(PyObject *module, PyObject *args)
{
	PyObject *error, *foreign, *libraries;
	if (!PyArg_ParseTuple(args, "OOO", &error, &foreign, &libraries))
		return NULL;
	Py_INCREF(error);
	Py_INCREF(foreign);
	Py_INCREF(libraries);
	names.error = error;
	names.foreign = foreign;
	names.libraries = libraries;
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"program_file", program_file, METH_VARARGS, "parses and checks a file"},
    {"program_text", program_text, METH_VARARGS, "parses and checks a text"},
    {"program_kernels", program_kernels, METH_O, "names of a program's kernels"},
    {"program_hash", program_hash, METH_O, "of the texts of a program's files"},
    {"devices", devices, METH_NOARGS, "devices of this build"},
    {"synchronize", synchronize, METH_VARARGS, "waits for a device"},
    {"adopt", adopt, METH_VARARGS, "takes what the package defines"},
    {"xla_handler", xla_handler, METH_VARARGS, "the function that XLA calls, for an API version"},
    {"xla_keep", xla_keep, METH_VARARGS, "a call that XLA knows by its key"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tegula._tegula", "Tegula's library", -1, methods, NULL, NULL, NULL, NULL};

static bool
make_names(void)
{
	const struct {
		PyObject **to;
		const char *text;
	} rows[] = {
	    {&names.out, "out"}, {&names.device, "device"}, {&names.dlpack, "__dlpack__"},
	    {&names.dlpack_device, "__dlpack_device__"},
	    {&names.array_interface, "__array_interface__"}, {&names.exchange, "__dlpack_c_exchange_api__"},
	    {&names.dtype, "dtype"}, {&names.name, "name"}, {&names.shape, "shape"},
	};
	bool ok = true;
	for (int i = 0; i < LEN(rows); i++)
		ok &= (*rows[i].to = PyUnicode_InternFromString(rows[i].text)) != NULL;
	return ok;
}

PyMODINIT_FUNC
PyInit__tegula(void)
{
	PyObject *m = PyModule_Create(&definition), *type = m ? PyType_FromSpec(&kernel_spec) : NULL;
	if (!type || !make_names() || PyModule_AddObject(m, "Kernel", type) != 0)
		return NULL;
	if (!context && !context_open())
		return PyErr_NoMemory();
	return PyModule_AddStringConstant(m, "version", tgl_version()) == 0 ? m : NULL;
}
