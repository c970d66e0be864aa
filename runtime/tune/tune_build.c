/* Compiles candidates for a GPU, several at a time.
 *
 * A compilation is one thread's, so each thread reads the program anew, from the text that the caller's has,
 * and binds by the values that the caller found.  What is compiled is taken over by number; the caller's
 * thread alone touches the cache.  A compilation cannot be broken off: one that takes longer than there is
 * goes on beside the measuring, and what it makes is dropped. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/tune/tune.h"

enum { MAX_BUILDERS = 32 };

typedef struct Order {
	Candidate *c;
	NamedConst *given;              /* every value by name */
	int ngiven;
	ArgAssumptions assumptions;
	bool todo;
	_Atomic bool done;              /* the thread's last word: what follows is there to be taken */
	Artefact artefact;
	char *why;                      /* plain malloc: of a thread */
	bool too_large;                 /* for the target, which `why` says */
} Order;

struct TuneWorks {
	Tuner *t;
	Device device;                  /* as it was at first: the caller's goes on working */
	pthread_t thread[MAX_BUILDERS];
	int nthreads;
	Order *order;
	int n;
	ArgInfo *info;                  /* scratch is not given */
	const SourceFile *file;         /* the program's own first, then imports */
	int nfiles;
	_Atomic int next, finished, running;
	_Atomic bool stop, unreadable;
};

/* ---- a thread ---- */

/* The program again; NULL if its files have changed meanwhile. */
static Kernel *
read_again(const TuneWorks *w, Compile *cx)
{
	const char *name = w->t->k->k->name;
	const SourceFile *f = &w->file[w->t->k->k->program->ast->file];
	Program *p = program_open(cx, source_text(cx, f->path, f->text, f->size));
	if (cx->nerrors || cx->files.n != w->nfiles)
		return NULL;
	for (int i = 0; i < w->nfiles; i++)
		if (cx->files.at[i].size != w->file[i].size ||
		    memcmp(cx->files.at[i].text, w->file[i].text, w->file[i].size) != 0)
			return NULL;
	return program_kernel(p, name);
}

/* Copies of values whose names are this program's. */
static NamedConst *
own_names(Compile *cx, const Order *o)
{
	NamedConst *v = NEW_ARRAY(cx->mem, NamedConst, o->ngiven);
	for (int i = 0; i < o->ngiven; i++) {
		v[i] = o->given[i];
		v[i].name = intern(cx->names, o->given[i].name);
	}
	return v;
}

/* To machine code, with the thread's own view of the device, since that holds the last error. */
static void
finish_one(const TuneWorks *w, Order *o)
{
	Device mine = w->device;
	if (!mine.finish || mine.finish(&mine, &o->artefact))
		return;
	o->why = strdup(mine.error.text);
	artefact_close(&o->artefact);
}

static void
build_one(const TuneWorks *w, Order *o, Kernel *k)
{
	Compile *cx = k->program->cx;
	const TglCompileOptions *opt = &w->t->k->program->cx->compile;
	PassOptions passes = {.only = opt->only, .skip = opt->skip, .stop_after = opt->stop_after};
	const char *target = w->device.target;
	Bound b;
	bool ok = kernel_bind(k, w->info, own_names(cx, o), o->ngiven, &b);
	for (int i = 0; ok && i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_POINTER)
			b.param[i] = o->c->bound.param[i];
	Module *m = ok ? compile_kernel(k, &b, target, &o->assumptions, &passes) : NULL;
	if (!m || !compile_artefact(m, target_named(target), &o->artefact)) {
		const Diag *d = cx->first;
		o->why = strdup(d ? d->text : "it does not compile");
		o->too_large = d && (d->code == DIAG_SMEM_LARGE || d->code == DIAG_TILE_REGISTERS);
		artefact_close(&o->artefact);
	} else {
		finish_one(w, o);
	}
	cx->first = cx->last = NULL;
	cx->nerrors = 0;
	arena_reset(cx->tmp);
}

static void *
thread_main(void *arg)
{
	TuneWorks *w = arg;
	Compile *cx = compile_open();
	Kernel *k = read_again(w, cx);
	if (!k)
		atomic_store(&w->unreadable, true);
	while (k && !atomic_load(&w->stop)) {
		int i = atomic_fetch_add(&w->next, 1);
		if (i >= w->n)
			break;
		if (w->order[i].todo) {
			build_one(w, &w->order[i], k);
			atomic_store(&w->order[i].done, true);
			atomic_fetch_add(&w->finished, 1);
		}
	}
	compile_close(cx);
	atomic_fetch_sub(&w->running, 1);
	return NULL;
}

/* ---- all of it ---- */

/* One that the cache has needs no thread. */
static bool
in_cache(Tuner *t, const Binding *b, const ArgAssumptions *p, Artefact *out)
{
	Text key = {0}, bytes = {0};
	specialise_key(t->k, &b->bound, p, &key);
	Hash name = artefact_hash(t->k, t->dev->dev.target, key.at ? key.at : "", key.n);
	bool found = cache_get(context_cache(t->k->program->cx), &name, &bytes) &&
		     artefact_read(bytes.at, bytes.n, out);
	text_close(&key);
	text_close(&bytes);
	return found;
}

static void
place_orders(TuneWorks *w)
{
	Tuner *t = w->t;
	int nparams = t->k->k->params.n;
	w->order = NEW_ARRAY(t->mem, Order, t->at.n);
	w->info = NEW_COPY(t->mem, t->binding.info, nparams);
	for (int i = 0; i < nparams; i++)
		if (t->k->k->params.at[i].kind == PARAM_TENSOR)
			w->info[i].given &= t->k->k->params.at[i].access != ACCESS_SCRATCH;
	for (w->n = 0; w->n < t->at.n; w->n++) {
		Order *o = &w->order[w->n];
		o->c = &t->at.at[t->order[w->n]];
		if (o->c->dropped)
			continue;
		Binding b = t->binding;
		b.bound = o->c->bound;
		o->given = bound_values(t->k->k, &b.bound, NULL, NULL, t->mem, 0, &o->ngiven);
		specialise(t->k, &b, t->mem, &o->assumptions);
		o->c->kept = in_cache(t, &b, &o->assumptions, &o->c->artefact);
		o->todo = !o->c->kept;
	}
}

/* The calling thread watches the clock.  The default is waited for in any case. */
static void
watch(TuneWorks *w, int todo)
{
	Tuner *t = w->t;
	const struct timespec tick = {.tv_nsec = 20 * 1000 * 1000};
	double until = t->start + t->budget / 2;
	char what[64];
	while (atomic_load(&w->running) > 0) {
		bool late = device_clock() >= until;
		if (late)
			atomic_store(&w->stop, true);
		if (late && (!w->order[0].todo || atomic_load(&w->order[0].done)))
			break;
		int done = atomic_load(&w->finished);
		snprintf(what, sizeof what, "compiling %d of %d", done, todo);
		if (t->options->progress && !t->options->progress(t->options->user, what, 0.3 * done / todo)) {
			t->stopped = true;
			break;
		}
		nanosleep(&tick, NULL);
	}
}

/* What no thread could compile, since the files have changed, is left to the caller's. */
static void
take_over(TuneWorks *w)
{
	bool unreadable = atomic_load(&w->unreadable);
	for (int i = 0; i < w->n; i++) {
		Order *o = &w->order[i];
		if (o->todo && atomic_load(&o->done)) {
			o->c->artefact = o->artefact;
			o->artefact = (Artefact){0};
			o->todo = false;
			w->t->k->program->cx->compiled += !o->why;
			if (o->why)
				candidate_drop(w->t, o->c, o->too_large ? TGL_TUNE_PRUNED : TGL_TUNE_FAILED, "%s", o->why);
		} else if (o->todo && i > 0 && !unreadable) {
			candidate_drop(w->t, o->c, TGL_TUNE_SKIPPED, "the budget was spent on compiling");
		}
	}
}

void
tune_build(Tuner *t)
{
	const Compile *cx = t->k->program->compile;
	TuneWorks *w = t->works = NEW(t->mem, TuneWorks);
	int todo = 0, want = t->options->threads > 0 ? t->options->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
	*w = (TuneWorks){.t = t, .device = t->dev->dev, .file = cx->files.at, .nfiles = cx->files.n};
	place_orders(w);
	for (int i = 0; i < w->n; i++)
		todo += w->order[i].todo;
	want = MIN(MIN(want, todo), MAX_BUILDERS);
	for (; w->nthreads < want; w->nthreads++) {
		atomic_fetch_add(&w->running, 1);
		if (!thread_start(&w->thread[w->nthreads], thread_main, w)) {
			atomic_fetch_sub(&w->running, 1);
			break;
		}
	}
	watch(w, MAX(todo, 1));
	if (w->nthreads)
		take_over(w);
}

void
tune_build_end(Tuner *t)
{
	TuneWorks *w = t->works;
	if (!w)
		return;
	atomic_store(&w->stop, true);
	for (int i = 0; i < w->nthreads; i++)
		pthread_join(w->thread[i], NULL);
	for (int i = 0; i < w->n; i++) {
		artefact_close(&w->order[i].artefact);
		free(w->order[i].why);
	}
	t->works = NULL;
}
