/* Compiled forms of a kernel.
 *
 * A kernel is compiled once for what specialise.c finds in its arguments, on a device; the
 * values of dimensions are arguments.  Forms are kept with the kernel, newest first.  A device that
 * takes artefacts is given what the compiler made for its target; the tile IR of such a form, which
 * counting work and checking results ask for, is made when it is first asked for. */
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/launch.h"

enum { MAX_INSTANCES = 256 }; /* of a kernel; the one not used for longest goes */

/* Tile IR that was parsed has its files without their text: those of the source are known already. */
static void
find_files(Compile *cx, Func *f, int nfiles)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < nfiles && op->place.file >= nfiles; i++)
			if (strcmp(cx->files.at[i].path, cx->files.at[op->place.file].path) == 0)
				op->place.file = i;
}

static bool
takes(Compile *cx, const Func *f, int i, const Bound *b)
{
	const Kernel *k = b->kernel;
	const char *name = f->param[i].name;
	DType given, has = f->body->arg[i].type->elem;
	for (int j = 0; j < k->params.n; j++) {
		given = b->param[j].dtype;
		if (strcmp(k->params.at[j].name, name) == 0)
			return given == has || diag_error(cx, f->place, DIAG_ARG_DTYPE, name, dtype_info[has].text,
			    dtype_info[given].text);
	}
	return ANY_OF(j, k->symbols.n,
		   f->param[i].kind == PARAM_DIM && strcmp(k->symbols.at[j], name) == 0) ||
	    diag_error(cx, f->place, DIAG_LAUNCH_UNKNOWN, k->name, name);
}

/* Does the function take the kernel's arguments, of the dtypes that the launch gives? */
static bool
takes_the_same(Compile *cx, const Func *f, const Bound *b)
{
	return ALL_OF(i, f->nparam, takes(cx, f, i, b));
}

/* The kernel as a file of tile IR has it; NULL after errors. */
static Module *
read_ir(TglKernel *k, const Bound *b, int file, const Target *t)
{
	Compile *cx = k->program->compile;
	const char *path = cx->files.at[file].path;
	int nfiles = cx->files.n - 1;
	Module *m = module_parse(cx, file);
	for (int i = 0; m && i < m->funcs.n; i++) {
		Func *f = m->funcs.at[i];
		if (strcmp(f->name, k->k->name) != 0)
			continue;
		m->funcs.at[0] = f;
		find_files(cx, f, nfiles);
		return takes_the_same(cx, f, b) && (!t || pass_is_lowerable(m, t)) ? m : NULL;
	}
	if (m)
		diag_error(cx, NOWHERE, DIAG_NO_KERNEL, path, k->k->name);
	return NULL;
}

/* The kernel as a file of thread IR has it; NULL after errors. */
static const ThreadModule *
read_thread(TglKernel *k, int file, const Device *dev)
{
	Compile *cx = k->program->compile;
	ThreadModules m = {0};
	if (!thread_modules_parse(cx, file, &m))
		return NULL;
	for (int i = 0; i < m.n; i++)
		if (strcmp(m.at[i]->kernel.name, k->k->name) == 0 && strncmp(dev->name, "simt", 4) == 0)
			return m.at[i];
	diag_error(cx, k->k->item->name_place, DIAG_THREAD_TEXT, strncmp(dev->name, "simt", 4) == 0
	    ? "the thread IR has no kernel of this name" : "thread IR runs on the simt device");
	return NULL;
}

/* Compiles with the context's options and hands dumps and times over. */
Module *
instance_compile(TglKernel *k, const Bound *b, Device *dev, const ArgAssumptions *assumptions)
{
	const TglCompileOptions *o = &k->program->cx->compile;
	Text dump = {0}, times = {0};
	PassOptions opt = {.only = o->only,
	    .skip = o->skip,
	    .stop_after = o->stop_after,
	    .dump = o->dump,
	    .verify = o->verify,
	    .watch = dev->watches,
	    .source = dev->source,
	    .dump_to = &dump,
	    .times = o->times ? &times : NULL};
	TraceRequest request;
	Compile *cx = k->program->compile;
	if (o->ir && dev->watches) {
		diag_error(cx, k->k->item->name_place, DIAG_WATCH_IR);
		return NULL;
	}
	cx->trace = o->trace && trace_parse(cx->names, o->trace, &request) ? &request : NULL;
	int file = o->ir ? source_open(cx, o->ir, NOWHERE) : -1;
	bool is_thread = file >= 0 && thread_is_text(cx->files.at[file].text, cx->files.at[file].size);
	dev->thread = is_thread ? read_thread(k, file, dev) : NULL;
	Module *m = NULL;
	if (o->ir && !is_thread)
		m = file >= 0 ? read_ir(k, b, file, target_named(dev->target)) : NULL;
	else if (dev->thread || !o->ir)
		m = compile_kernel(k->k, b, dev->target, assumptions, &opt);
	cx->trace = NULL;
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
	int nparams = k->k->params.n + MADE_MOST;
	launch_cache_drop(k, in);
	if (in->first)
		instance_close(k, in->first);
	if (in->last)
		instance_close(k, in->last);
	for (Scratch *s = in->scratch, *next; s; s = next) {
		next = s->next;
		for (int i = 0; i < nparams; i++)
			if (s->tensor[i])
				tensor_unref(s->tensor[i]);
		free(s);
	}
	if (in->loaded) {
		in->dev->dev.unload(&in->dev->dev, in->loaded);
		device_unref(in->dev);
	}
	artefact_close(&in->artefact);
	if (in->mem)
		arena_close(in->mem);
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

/* One that another process, or an earlier run of this one, left in the cache.  What is asked to be shown of
 * a compilation needs one. */
static bool
take_cached(Instance *in, TglKernel *k, TglDevice *dev, const Hash *name)
{
	TglContext *cx = k->program->cx;
	Text bytes = {0};
	if (cx->compile.dump || cx->compile.times || cx->compile.verify || cx->compile.ir || cx->compile.trace)
		return false;
	bool found = cache_get(context_cache(cx), name, &bytes) && artefact_read(bytes.at, bytes.n, &in->artefact);
	text_close(&bytes);
	if (!found)
		return false;
	in->loaded = dev->dev.load_artefact(&dev->dev, &in->artefact);
	if (!in->loaded) { /* made where the driver was another, perhaps */
		dev->dev.error = (DeviceError){0};
		artefact_close(&in->artefact);
		in->artefact = (Artefact){0};
	}
	cx->found += in->loaded != NULL;
	return in->loaded;
}

static void
cache_artefact(const Instance *in, TglKernel *k, const Bound *b, const Hash *name)
{
	Text bytes = {0}, values = {0};
	const Compile *c = k->program->compile;
	bound_text(b, &values);
	artefact_write(&in->artefact, &bytes);
	CacheAbout about = {.kernel = k->k->name,
	    .file = c->files.at[k->k->item->place.file].path,
	    .target = in->artefact.target,
	    .values = values.at};
	cache_put(context_cache(k->program->cx), name, &about, bytes.at, bytes.n);
	text_close(&bytes);
	text_close(&values);
}

/* What the compiler makes for a device's target, or made once. */
static TglStatus
make_artefact(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev,
    const ArgAssumptions *assumptions, Artefact *take)
{
	Compile *cx = k->program->compile;
	Hash name = artefact_hash(k, dev->dev.target, in->key, in->nkey);
	if (take) {
		in->artefact = *take;
		*take = (Artefact){0};
	} else if (take_cached(in, k, dev, &name)) {
		return TGL_OK;
	} else {
		Module *m = instance_compile(k, &b->bound, &dev->dev, assumptions);
		if (!m || !compile_artefact(m, target_named(dev->dev.target), &in->artefact))
			return TGL_ERROR_SOURCE;
		k->program->cx->compiled++;
	}
	if (!dev->dev.finish || dev->dev.finish(&dev->dev, &in->artefact))
		in->loaded = dev->dev.load_artefact(&dev->dev, &in->artefact);
	if (!in->loaded)
		return device_report(dev, cx, NULL, k->k);
	if (!k->program->cx->compile.ir && !k->program->cx->compile.trace)
		cache_artefact(in, k, &b->bound, &name);
	return TGL_OK;
}

static TglStatus
make_plan(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev, const ArgAssumptions *assumptions)
{
	const char *why = "";
	Module *m = instance_compile(k, &b->bound, &dev->dev, assumptions);
	if (!m)
		return TGL_ERROR_SOURCE;
	in->func = m->funcs.at[0];
	artefact_made_by_argument(in->func, in->func->made, in->func->nmade);
	in->loaded = dev->dev.load(&dev->dev, in->func, &why);
	dev->dev.thread = NULL;
	if (in->loaded)
		return TGL_OK;
	if (why)
		diag_error(k->program->compile, k->k->item->name_place, DIAG_DEVICE_LOAD, k->k->name, dev->dev.name, why);
	return TGL_ERROR_DEVICE;
}

/* What the device reserves beyond what the code asks for; a device without local memory spills nothing. */
static bool
note_spilled(Instance *in, TglDevice *dev)
{
	TglResources r;
	if (!dev->dev.load_artefact || !dev->dev.resources || in->artefact.stack_bytes < 0)
		return true;
	if (!dev->dev.resources(&dev->dev, in->loaded, &r))
		return false;
	in->spilled = MAX(r.local_bytes - in->artefact.stack_bytes, 0);
	return true;
}

/* Fills a new form; on failure the reports lie in its memory. */
static TglStatus
fill_instance(Instance *in, TglKernel *k, const Binding *b, TglDevice *dev,
    const ArgAssumptions *assumptions, Artefact *take)
{
	TglStatus s = dev->dev.load_artefact ? make_artefact(in, k, b, dev, assumptions, take)
					     : make_plan(in, k, b, dev, assumptions);
	if (s != TGL_OK)
		return s;
	in->dev = dev;
	dev->refs++;
	return note_spilled(in, dev) ? TGL_OK : device_report(dev, k->program->compile, NULL, k->k);
}

Func *
instance_source(TglKernel *k, Instance *in, const Binding *b)
{
	PassOptions opt = {.only = "simplify,licm", .source = in->dev->dev.source};
	Arena *before = compile_into(k->program->compile, in->mem);
	Module *m = compile_kernel(k->k, &b->bound, in->dev->dev.target, NULL, &opt);
	compile_into(k->program->compile, before);
	return m ? m->funcs.at[0] : NULL;
}

Func *
instance_func(TglKernel *k, Instance *in, const Binding *b)
{
	in->func = in->func ? in->func : instance_source(k, in, b);
	return in->func;
}

static Instance *make_instance(TglKernel *k, const Binding *b, TglDevice *dev, const ArgAssumptions *assumptions,
    Text *take_key, Artefact *take, TglStatus *status);

/* The kernel that is launched before or behind, where the form has operands or results that it makes. */
static bool
make_other(Instance *in, int which, Instance **out, TglKernel *k, const Binding *b, const ArgAssumptions *assumptions,
    TglStatus *status)
{
	int n;
	Text key = {0};
	const MadeTensor *made = instance_made(in, &n);
	if (b->bound.schedule.materialize >= MATERIALIZE_FIRST ||
	    !ANY_OF(i, n, made[i].is_result == (which == MATERIALIZE_LAST)))
		return true;
	Binding other = *b;
	other.bound.schedule.materialize = which;
	specialise_key(k, &other.bound, assumptions, &key);
	return (*out = make_instance(k, &other, in->dev, assumptions, &key, NULL, status)) != NULL;
}

static Instance *
make_instance(TglKernel *k, const Binding *b, TglDevice *dev, const ArgAssumptions *assumptions, Text *take_key,
    Artefact *take, TglStatus *status)
{
	Compile *cx = k->program->compile;
	Instance *in = memory_new(1, sizeof *in);
	in->key = take_key->at;
	in->nkey = take_key->n;
	in->mem = arena_open();
	Arena *before = compile_into(cx, in->mem);
	*status = fill_instance(in, k, b, dev, assumptions, take);
	compile_into(cx, before);
	context_cache_warn(k->program->cx, cx);
	if (*status == TGL_OK && make_other(in, MATERIALIZE_FIRST, &in->first, k, b, assumptions, status) &&
	    make_other(in, MATERIALIZE_LAST, &in->last, k, b, assumptions, status))
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

/* Once a kernel. */
static void
warn_spilled(TglKernel *k, const Instance *in, const Binding *b)
{
	if (in->spilled == 0 || k->spills_reported || k->spills_muted)
		return;
	k->spills_reported = true;
	spill_warn_loaded(k->program->compile, &b->bound, target_named(in->dev->dev.target), in->artefact.threads,
	    in->spilled);
}

/* May a form's maps of windows have the binding's shapes? */
static bool
windows_fit(TglKernel *k, const Binding *b, const Instance *in)
{
	int n = k->k->params.n, nmaps = in->artefact.nmaps;
	Arena *tmp = k->program->compile->tmp;
	PlanArg *args = NEW_ARRAY(tmp, PlanArg, n + b->bound.nsymbol);
	const Target *t = target_named(in->dev->dev.target);
	TensorMap *map = in->artefact.map;
	if (t && !in->dev->dev.load_artefact) {
		map = artefact_maps(in->func, t, tmp, &nmaps);
		artefact_by_argument(in->func, NULL, 0, map, nmaps);
	}
	for (int i = 0; i < n; i++) {
		const BoundParam *p = &b->bound.param[i];
		args[i].i = b->info[i].scalar.kind == CONST_INT ? b->info[i].scalar.i : 0;
		for (int d = 0; d < MIN(p->rank, KERNEL_RANK); d++)
			args[i].dim[d] = p->dim[d];
	}
	for (int i = 0; i < b->bound.nsymbol; i++)
		args[n + i].i = b->bound.symbol[i].value.i;
	return abi_windows_fit(map, nmaps, args);
}

/* The form of that key, first in the list; made if there is none. */
static Instance *
find_form(TglKernel *k, const Binding *b, TglDevice *dev, const ArgAssumptions *assumptions, Artefact *take,
    TglStatus *status)
{
	Text key = {0};
	Instance *in = NULL;
	specialise_key(k, &b->bound, assumptions, &key);
	for (Instance **at = &k->instances; *at; at = &(*at)->next)
		if ((*at)->dev == dev && (*at)->nkey == key.n &&
		    memcmp((*at)->key, key.at, key.n) == 0) {
			in = *at;
			*at = in->next;
			text_close(&key);
			break;
		}
	if (!in && !(in = make_instance(k, b, dev, assumptions, &key, take, status)))
		return NULL;
	in->next = k->instances;
	k->instances = in;
	return in;
}

Instance *
instance_adopt(TglKernel *k, const Binding *b, TglDevice *dev, Artefact *take, TglStatus *status)
{
	ArgAssumptions made, *assumptions = NULL;
	if (dev->dev.load_artefact || dev->dev.specialises) {
		assumptions = &made;
		specialise(k, b, k->program->compile->tmp, assumptions);
	}
	Instance *in = find_form(k, b, dev, assumptions, take, status);
	if (in && assumptions && !windows_fit(k, b, in)) {
		made.no_windows = true;
		in = find_form(k, b, dev, assumptions, NULL, status);
	}
	if (!in)
		return NULL;
	warn_spilled(k, in, b);
	drop_old(k);
	return in;
}

Instance *
instance_find(TglKernel *k, const Binding *b, TglDevice *dev, TglStatus *status)
{
	return instance_adopt(k, b, dev, NULL, status);
}
