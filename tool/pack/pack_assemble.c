/* Machine code of a pack's forms: equal PTX for one target is assembled once, by as many processes of ptxas as there are
 * processors, which take most of the time that a pack takes.  The results are kept in order of the forms, so that the
 * pack has the same bytes whichever process ends first. */
#include "tool/pack/pack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

struct PackWork {
	const Target *target;
	Text ptx, cubin;
	bool must, is_done;
};

typedef struct Assembly {
	PackWork **work;
	int n;
	atomic_int next;
	atomic_bool failed;                             /* at what the pack must have */
} Assembly;

PackWork *
pack_assemble_later(Pack *p, const Target *t, const Text *ptx, bool must)
{
	for (int i = 0; i < p->works.n; i++) {
		PackWork *w = p->works.at[i];
		if (w->target != t || w->ptx.n != ptx->n || memcmp(w->ptx.at, ptx->at, ptx->n) != 0)
			continue;
		w->must |= must;
		return w;
	}
	PackWork *w = NEW(p->cx->mem, PackWork);
	w->target = t;
	w->must = must;
	text_putn(&w->ptx, ptx->at, ptx->n);
	vec_push(p->cx->mem, &p->works, w);
	return w;
}

static void *
assemble(void *of)
{
	Assembly *a = of;
	int spills;
	for (int i; !atomic_load(&a->failed) && (i = atomic_fetch_add(&a->next, 1)) < a->n;) {
		PackWork *w = a->work[i];
		w->is_done = cli_machine_code(w->target, &w->ptx, false, &w->cubin, &spills);
		if (!w->is_done && w->must)
			atomic_store(&a->failed, true);
	}
	return NULL;
}

/* The calling thread is one of them. */
static void
assemble_all(Pack *p)
{
	Assembly a = {.work = p->works.at, .n = p->works.n};
	pthread_t thread[MOST_THREADS];
	int n = 0, most = MIN((int)sysconf(_SC_NPROCESSORS_ONLN), MIN(MOST_THREADS, a.n));
	while (n + 1 < most && thread_start(&thread[n], assemble, &a))
		n++;
	assemble(&a);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

/* A form that --sizes, --tuned and examples do not ask for may be left out. */
static bool
keep_assembled(Pack *p, PackKernel *k)
{
	int kept = 0;
	for (int i = 0; i < k->forms.n; i++) {
		PackForm *f = &k->forms.at[i];
		if (f->work && !f->work->is_done && f->must)
			return false;
		if (f->work && !f->work->is_done) {
			artefact_close(&f->code);
			continue;
		}
		if (f->work)
			f->cubin = pack_blob(p, f->work->cubin.at, f->work->cubin.n, false);
		k->forms.at[kept++] = *f;
	}
	k->forms.n = kept;
	return true;
}

bool
pack_assemble(Pack *p)
{
	bool ok = true;
	cli_progress(p->cli, "machine code of %d forms", p->works.n);
	assemble_all(p);
	cli_progress_end(p->cli);
	for (int i = 0; i < p->kernels.n && ok; i++)
		ok = keep_assembled(p, p->kernels.at[i]);
	for (int i = 0; i < p->works.n; i++) {
		text_close(&p->works.at[i]->ptx);
		text_close(&p->works.at[i]->cubin);
	}
	return ok;
}
