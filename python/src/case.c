/* What is asked of a kernel beside its launch: the compiler's text, times, tuning, and comparison with the reference; on
 * arrays that are given, or on an example of the source. */
#include "ext.h"

#include <stdlib.h>

static Dev *
case_device(const Call *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->is_array[i])
			return call_device(c);
	if (c->device)
		return device_named(c->device);
	Dev *d = device_find(true, 0);
	return d ? d : device_find(false, 0);
}

/* Without an example if arrays are given and none is named. */
static TglCaseOptions
case_options(const Call *c, const TglArg *args, int n)
{
	TglCaseOptions o = {.example = c->example, .args = args, .nargs = n};
	for (int i = 0; i < c->n && !c->example; i++)
		o.no_example |= c->is_array[i];
	return o;
}

static bool
parse(PyObject *self, Call *c, PyObject *args, PyObject *kwargs, bool is_abstract)
{
	c->is_case = true;
	c->is_abstract = is_abstract;
	bool any = false;
	if (!call_begin(c, (KernelObject *)self, args, kwargs) || !call_read(c))
		return false;
	for (int i = 0; i < c->n; i++)
		any |= c->is_array[i];
	return is_abstract || !any || call_allocate(c);
}

PyObject *
method_code(PyObject *self, PyObject *args, PyObject *kwargs)
{
	TglArg list[MAX_PARAMS + MAX_VALUES];
	Call c = {.k = NULL};
	PyObject *given, *named, *made = NULL;
	const char *target, *code = NULL;
	int what, n;
	Report r;
	Ask ask;
	if (!PyArg_ParseTuple(args, "isO!O!", &what, &target, &PyTuple_Type, &given, &PyDict_Type, &named))
		return NULL;
	if (parse(self, &c, given, named, true)) {
		char *text = NULL;
		library_lock(&ask, false);
		Dev *d = device_find(false, 0);
		if (d && call_arguments(&c, d, list, &n)) {
			TglCaseOptions o = case_options(&c, list, n);
			code = tgl_kernel_code(c.k->k, (TglCode)what, target, &o);
			text = code ? strdup(code) : NULL;
		}
		report_take(&r, text ? TGL_OK : tgl_error(context)->status);
		library_unlock(&ask);
		if (report_raise(&r) && text)
			made = PyUnicode_FromString(text);
		free(text);
	}
	call_end(&c);
	return made;
}

/* An example's argument: a tensor's bytes, or a value. */
typedef struct Given {
	TglArg arg;
	void *bytes;
	size_t n;
	TglShape shape;
} Given;

/* What is done with an open case, and its answer. */
typedef struct Work Work;
struct Work {
	Given given[MAX_PARAMS];
	int ngiven;
	double seconds;
	TglBench bench;
	double replay;
	TglTune tune;
	TglCheck check[MAX_PARAMS];
	int nchecks;
	bool (*run)(Work *w, TglCase *c, Dev *d);
};

static bool
with_case(PyObject *self, PyObject *args, Work *w)
{
	TglArg list[MAX_PARAMS + MAX_VALUES];
	Call c = {.k = NULL};
	PyObject *given, *named;
	Report r;
	Ask ask;
	int n;
	bool ok = false;
	if (!PyArg_ParseTuple(args, "dO!O!", &w->seconds, &PyTuple_Type, &given, &PyDict_Type, &named))
		return false;
	if (parse(self, &c, given, named, false)) {
		library_lock(&ask, false);
		Dev *d = case_device(&c);
		if (d && call_arguments(&c, d, list, &n)) {
			TglCaseOptions o = case_options(&c, list, n);
			TglCase *k = tgl_case_open(d->dev, c.k->k, &o);
			ok = k && w->run(w, k, d);
			report_take(&r, ok ? TGL_OK : tgl_error(context)->status);
			tgl_case_close(&k);
		} else {
			report_take(&r, tgl_error(context)->status);
		}
		library_unlock(&ask);
		ok = report_raise(&r) && ok;
	}
	call_end(&c);
	return ok;
}

/* ---- times ---- */

static bool
run_bench(Work *w, TglCase *c, Dev *d)
{
	TglBenchOptions o = {.seconds = w->seconds};
	w->replay = -1;
	return tgl_case_bench(c, &o, &w->bench) == TGL_OK &&
	       (!d->cuda || tgl_case_replay(c, 100, 20, &w->replay) == TGL_OK);
}

PyObject *
method_bench(PyObject *self, PyObject *args, PyObject *kwargs)
{
	Work w = {.run = run_bench};
	if (!with_case(self, args, &w))
		return NULL;
	const TglBench *b = &w.bench;
	double seconds = w.replay >= 0 ? w.replay : b->median;
	return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:i}", "seconds", seconds, "least", b->least,
	    "most", b->most, "bytes", b->bytes, "flops", b->flops, "runs", b->runs);
}

/* ---- an example's arguments ---- */

static bool
read_given(Given *g)
{
	TglTensor *t = g->arg.tensor;
	g->n = tgl_tensor_bytes(t);
	g->bytes = malloc(g->n + 1);
	g->shape.dtype = tgl_tensor_dtype(t);
	g->shape.rank = tgl_tensor_rank(t);
	for (int d = 0; d < g->shape.rank; d++)
		g->shape.dim[d] = tgl_tensor_dim(t, d);
	return g->bytes && tgl_tensor_read(t, g->bytes, g->n) == TGL_OK;
}

static bool
run_example(Work *w, TglCase *c, Dev *d)
{
	int n;
	const TglArg *args = tgl_case_args(c, &n);
	for (int i = 0; i < n && w->ngiven < MAX_PARAMS; i++) {
		Given *g = &w->given[w->ngiven++];
		g->arg = args[i];
		g->arg.name = strdup(args[i].name);
		if (args[i].kind == TGL_ARG_TENSOR && !read_given(g))
			return false;
	}
	return true;
}

static PyObject *
given_object(const Given *g)
{
	int64_t dim[TGL_MAX_RANK];
	switch (g->arg.kind) {
	case TGL_ARG_TENSOR: break;
	case TGL_ARG_FLOAT: return PyFloat_FromDouble(g->arg.f);
	case TGL_ARG_BOOL: return PyBool_FromLong(g->arg.i != 0);
	case TGL_ARG_DTYPE: return PyUnicode_FromString(tgl_dtype_name((TglDType)g->arg.i));
	case TGL_ARG_UINT: return PyLong_FromUnsignedLongLong((unsigned long long)g->arg.i);
	default: return PyLong_FromLongLong(g->arg.i);
	}
	shape_stored(&g->shape, dim);
	PyObject *shape = PyTuple_New(g->shape.rank);
	for (int d = 0; shape && d < g->shape.rank; d++)
		PyTuple_SetItem(shape, d, PyLong_FromLongLong(dim[d]));
	return Py_BuildValue("(sNN)", dtype_library_name(g->shape.dtype), shape,
	    PyBytes_FromStringAndSize(g->bytes ? g->bytes : "", (Py_ssize_t)g->n));
}

/* {name: (dtype, shape, bytes), or a value} of all arguments of an example. */
PyObject *
method_example(PyObject *self, PyObject *args, PyObject *kwargs)
{
	Work w = {.run = run_example};
	PyObject *all = with_case(self, args, &w) ? PyDict_New() : NULL;
	for (int i = 0; i < w.ngiven; i++) {
		PyObject *one = all && w.given[i].arg.name ? given_object(&w.given[i]) : NULL;
		if (one)
			PyDict_SetItemString(all, w.given[i].arg.name, one);
		Py_XDECREF(one);
		free((char *)(uintptr_t)w.given[i].arg.name);
		free(w.given[i].bytes);
	}
	return all;
}

/* ---- tuning ---- */

static bool
run_tune(Work *w, TglCase *c, Dev *d)
{
	TglTuneOptions o = {.budget = w->seconds};
	return tgl_case_tune(c, &o, &w->tune) == TGL_OK;
}

PyObject *
method_tune(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const states[] = {"won", "slower", "pruned", "wrong", "failed", "skipped"};
	Work w = {.run = run_tune};
	PyObject *made = NULL;
	if (with_case(self, args, &w)) {
		const TglTune *t = &w.tune;
		PyObject *list = PyList_New(0);
		for (int i = 0; list && i < t->n; i++) {
			const TglTuneCandidate *a = &t->candidate[i];
			PyObject *one = Py_BuildValue("{s:s,s:s,s:d,s:d,s:d,s:z}", "values", a->values,
			    "state", states[a->state], "seconds", a->median, "noise", a->noise, "estimate", a->estimate,
			    "why", a->why);
			if (one)
				PyList_Append(list, one);
			Py_XDECREF(one);
		}
		const char *winner = t->winner >= 0 ? t->candidate[t->winner].values : t->known;
		made = Py_BuildValue("{s:z,s:z,s:z,s:O,s:N}", "winner", winner,
		    "why", t->why, "device", t->device, "kept", t->kept ? Py_True : Py_False, "candidates", list);
	}
	tgl_tune_close(&w.tune);
	return made;
}

/* ---- the reference ---- */

static bool
run_check(Work *w, TglCase *c, Dev *d)
{
	bool more = true;
	if (tgl_case_run(c, NULL) != TGL_OK)
		return false;
	while (w->nchecks < MAX_PARAMS) {
		if (tgl_case_check(c, w->nchecks, &w->check[w->nchecks], &more) != TGL_OK)
			return false;
		if (!more)
			return true;
		w->nchecks++;
	}
	return true;
}

PyObject *
method_check(PyObject *self, PyObject *args, PyObject *kwargs)
{
	Work w = {.run = run_check};
	if (!with_case(self, args, &w))
		return NULL;
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < w.nchecks; i++) {
		const TglCheck *k = &w.check[i];
		PyObject *one = Py_BuildValue("{s:s,s:O,s:d,s:d,s:L}", "param", k->param,
		    "passed", k->passed ? Py_True : Py_False,
		    "ratio", k->ratio, "max_error", k->max_error, "wrong", (long long)k->nwrong);
		if (one)
			PyList_Append(list, one);
		Py_XDECREF(one);
	}
	return list;
}
