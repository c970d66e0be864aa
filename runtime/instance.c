/* Compiled forms of a kernel.
 *
 * A kernel is compiled once for what specialise.c finds in its arguments, on a device; the
 * values of dimensions are arguments.  Forms are kept with the kernel, newest first.  A device that
 * takes artefacts is given what the compiler made for its target; the tile IR of such a form, which
 * counting work and checking results ask for, is made when it is first asked for. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_INSTANCES = 64 }; /* of a kernel; the one not used for longest goes */

/* Compiles with the context's options and hands dumps and times over. */
static Module *
compile(TglKernel *k, const Bound *b, const char *target, const Promises *promises)
{
	const TglCompileOptions *o = &k->program->cx->compile;
	Text dump = {0}, times = {0};
	PassOptions opt = {.only = o->only,
	    .skip = o->skip,
	    .stop_after = o->stop_after,
	    .dump = o->dump,
	    .verify = o->verify,
	    .dump_to = &dump,
	    .times = o->times ? &times : NULL};
	Module *m = compile_kernel(k->k, b, target, promises, &opt);
	text_put(&dump, times.at ? times.at : "");
	if (o->write && dump.n)
		o->write(o->user, dump.at);
	text_close(&dump);
	text_close(&times);
	return m;
}

static void
instance_close(TglKernel *k, Instance *in)
{
	int nparams = k->k->params.n;
	again_forget(k, in);
	for (int i = 0; in->scratch && i < nparams; i++)
		if (in->scratch[i])
			tensor_unref(in->scratch[i]);
	if (in->loaded) {
		in->dev->dev.unload(&in->dev->dev, in->loaded);
		device_unref(in->dev);
	}
	artefact_close(&in->artefact);
	if (in->mem)
		arena_close(in->mem);
	free(in->scratch);
	free(in->key);
	free(in);
}

void
instance_close_all(TglKernel *k)
{
	while (k->instances) {
		Instance *in = k->instances;
		k->instances = in->next;
		instance_close(k, in);
	}
}

/* What the compiler makes for a device's target. */
static TglStatus
make_artefact(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev, const Promises *promises)
{
	Compile *cx = k->program->compile;
	Module *m = compile(k, &b->bound, dev->dev.target, promises);
	if (!m || !compile_artefact(m, target_named(dev->dev.target), &in->artefact))
		return TGL_ERROR_SOURCE;
	in->loaded = dev->dev.load_artefact(&dev->dev, &in->artefact);
	return in->loaded ? TGL_OK : device_report(dev, cx, NULL, k->k);
}

static TglStatus
make_plan(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev)
{
	const char *why = "";
	Module *m = compile(k, &b->bound, dev->dev.target, NULL);
	if (!m)
		return TGL_ERROR_SOURCE;
	in->func = m->funcs.at[0];
	in->loaded = dev->dev.load(&dev->dev, in->func, &why);
	if (in->loaded)
		return TGL_OK;
	diag_error(k->program->compile, k->k->item->name_place, DIAG_DEVICE_LOAD, k->k->name,
	    dev->dev.name, why);
	return TGL_ERROR_DEVICE;
}

/* Fills a new form; on failure the reports lie in its memory. */
static TglStatus
fill_instance(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev, const Promises *promises)
{
	TglStatus s = promises ? make_artefact(in, k, b, dev, promises) : make_plan(in, k, b, dev);
	if (s == TGL_OK) {
		in->dev = dev;
		dev->refs++;
	}
	return s;
}

Func *
instance_func(TglKernel *k, Instance *in, const Binding *b)
{
	PassOptions opt = {.only = "simplify,licm"};
	if (in->func)
		return in->func;
	Arena *keep = compile_into(k->program->compile, in->mem);
	Module *m = compile_kernel(k->k, &b->bound, in->dev->dev.target, NULL, &opt);
	compile_into(k->program->compile, keep);
	if (m)
		in->func = m->funcs.at[0];
	return in->func;
}

static Instance *
make_instance(TglKernel *k, const Binding *b, TglDevice *dev, const Promises *promises, TglStatus *status)
{
	Compile *cx = k->program->compile;
	Instance *in = calloc(1, sizeof *in);
	TglTensor **scratch = calloc((size_t)MAX(k->k->params.n, 1), sizeof *scratch);
	if (!in || !scratch)
		die("no memory");
	in->scratch = scratch;
	in->mem = arena_open();
	Arena *keep = compile_into(cx, in->mem);
	*status = fill_instance(in, k, b, dev, promises);
	compile_into(cx, keep);
	if (*status == TGL_OK)
		return in;
	context_fail(k->program->cx, *status, cx);
	instance_close(k, in);
	return NULL;
}

/* The forms beyond the limit, at the list's end, are closed. */
static void
drop_old(TglKernel *k)
{
	Instance **at = &k->instances;
	for (int i = 0; *at && i < MAX_INSTANCES; i++)
		at = &(*at)->next;
	while (*at) {
		Instance *in = *at;
		if (in->pins) {
			at = &in->next;
			continue;
		}
		*at = in->next;
		instance_close(k, in);
	}
}

Instance *
instance_find(TglKernel *k, const Binding *b, TglDevice *dev, TglStatus *status)
{
	Text key = {0};
	Instance *in = NULL;
	Promises made, *promises = NULL;
	if (dev->dev.load_artefact) {
		promises = &made;
		specialise(k, b, k->program->compile->tmp, promises);
	}
	specialise_key(k, &b->bound, promises, &key);
	for (Instance **at = &k->instances; *at; at = &(*at)->next)
		if ((*at)->dev == dev && (*at)->nkey == key.n &&
		    memcmp((*at)->key, key.at, key.n) == 0) {
			in = *at;
			*at = in->next;
			text_close(&key);
			break;
		}
	if (!in) {
		in = make_instance(k, b, dev, promises, status);
		if (!in) {
			text_close(&key);
			return NULL;
		}
		in->key = key.at;
		in->nkey = key.n;
	}
	in->next = k->instances;
	k->instances = in;
	drop_old(k);
	return in;
}
