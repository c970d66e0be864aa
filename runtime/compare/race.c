/* Times that may be compared: our kernel, a handwritten one, a copy and what else is asked for take turns, so that
 * clocks, heat and neighbours meet all alike.
 *
 * Each runner is a graph of launches (on devices without graphs, launches one by one) that go over
 * several cases, whose tensors together exceed the cache: a kernel that is measured on the data that
 * it has just left there looks faster than it is. A replay lasts some milliseconds, so that what
 * starting it costs does not show. Each round begins with another runner. */
#include <stdlib.h>
#include <time.h>

#include "runtime/runtime.h"

enum { OURS, THEIRS, COPY, BESIDE, RUNNERS };
enum { ROUNDS = 21, LEAST_ROUNDS = 5, MOST_LAUNCHES = 1000, MOST_ROUNDS = 100000, COPIES = 8 };
static const double REPLAY_SECONDS = 4e-3, SECONDS = 2;

typedef struct Race {
	TglCase *const *sets;
	int nsets;
	TglForeign *foreign;
	TglDevice *dev;
	TglCase *beside;                /* NULL: none */
	Copier copier;
	TglStream *stream;              /* NULL: no graphs */
	int launches[RUNNERS];          /* 0: it does not run */
	TglGraph *graph[RUNNERS];
	double *times[RUNNERS];
	double rest;
} Race;

static int
compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static TglSpread
spread(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, compare_times);
	return (TglSpread){(v[(n - 1) / 2] + v[n / 2]) / 2, v[0], v[n - 1]};
}

static Compile *
compile_of(const Race *r)
{
	return r->sets[0]->k->program->compile;
}

/* ---- one launch of each ---- */

/* A launch of another program's, whose reports are not those of the case's. */
static TglStatus
launched(Race *r, TglStatus s, const TglCase *c)
{
	return s == TGL_OK || !c ? s : context_end(r->dev->cx, s, c->k->program->compile);
}

static TglStatus
launch(Race *r, int runner, int i)
{
	TglCase *c = r->sets[i % r->nsets];
	switch (runner) {
	case OURS: return case_launch(c);
	case THEIRS: return foreign_launch(r->foreign, c, NULL);
	case COPY: return launched(r, copier_launch(&r->copier), r->copier.c);
	default: return launched(r, case_launch(r->beside), r->beside);
	}
}

/* ---- getting ready ---- */

static TglStatus
record(Race *r, int runner)
{
	TglStatus s = tgl_graph_begin(r->stream);
	if (s != TGL_OK)
		return s;
	for (int i = 0; i < r->launches[runner] && s == TGL_OK; i++)
		s = launch(r, runner, i);
	r->graph[runner] = tgl_graph_end(r->stream);
	return s != TGL_OK ? s : r->graph[runner] ? TGL_OK : tgl_error(r->dev->cx)->status;
}

/* All of a runner's launches, without waiting. */
static TglStatus
go(Race *r, int runner)
{
	TglStatus s = TGL_OK;
	if (r->stream)
		return tgl_graph_launch(r->graph[runner], r->stream);
	for (int i = 0; i < r->launches[runner] && s == TGL_OK; i++)
		s = launch(r, runner, i);
	return s;
}

static TglStatus
time_runner(Race *r, int runner, double *seconds)
{
	Device *d = &r->dev->dev;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	if (r->rest > 0) {
		struct timespec t = {(time_t)r->rest, (long)((r->rest - (double)(time_t)r->rest) * 1e9)};
		nanosleep(&t, NULL);
		TglStatus s = go(r, runner);
		if (s != TGL_OK)
			return s;
	}
	bool ok = d->time_begin(d);
	TglStatus s = ok ? go(r, runner) : TGL_OK;
	if (s != TGL_OK)
		return s;
	ok = ok && d->time_end(d, seconds) && d->sync(d, &fault);
	*seconds /= r->launches[runner];
	arena_reset(compile_of(r)->tmp);
	return ok ? TGL_OK : device_report(r->dev, compile_of(r), &fault, r->sets[0]->k->k);
}

/* How many launches one replay has: some milliseconds of them, each set equally often. */
static int
choose_launches(const Race *r, double one, int nsets)
{
	double n = one > 0 ? REPLAY_SECONDS / one : MOST_LAUNCHES;
	int whole = n > MOST_LAUNCHES ? MOST_LAUNCHES : (int)n;
	if (!r->stream)
		return 1;
	return MAX(whole / nsets, 1) * nsets;
}

/* One launch of each on every set: what is compiled is compiled, memory is touched. */
static TglStatus
warm_up(Race *r)
{
	double one = 0;
	TglStatus s = TGL_OK;
	for (int i = 0; i < r->nsets && s == TGL_OK; i++)
		s = case_run(r->sets[i], &one);
	if (s == TGL_OK && r->stream)
		s = case_run(r->sets[0], &one); /* the first ones were cold */
	r->launches[OURS] = choose_launches(r, one, r->nsets);
	for (int i = 0; i < r->nsets && s == TGL_OK && r->foreign; i++) {
		s = case_restore(r->sets[i]) ? foreign_launch(r->foreign, r->sets[i], &one)
					     : device_report(r->dev, compile_of(r), NULL, NULL);
		r->launches[THEIRS] = r->launches[OURS];
	}
	return s;
}

static TglStatus
open_others(Race *r)
{
	double one = 0;
	TglStatus s = copier_open(r->dev, compile_of(r), &r->copier);
	r->launches[COPY] = r->stream ? COPIES : 1;
	if (s != TGL_OK || !r->beside)
		return s;
	for (int i = 0; i < 2 && s == TGL_OK; i++)      /* the first is cold */
		s = launched(r, case_run(r->beside, &one), r->beside);
	r->launches[BESIDE] = choose_launches(r, one, 1);
	return s;
}

static TglStatus
get_ready(Race *r)
{
	TglStatus s = open_others(r);
	s = s == TGL_OK ? warm_up(r) : s;
	for (int i = 0; i < RUNNERS && s == TGL_OK && r->stream; i++)
		if (r->launches[i])
			s = record(r, i);
	double ignored;
	TglStream *before = stream_use(r->dev, r->stream);
	for (int i = 0; i < RUNNERS && s == TGL_OK; i++)
		if (r->launches[i])
			s = time_runner(r, i, &ignored);
	stream_use(r->dev, before);
	return s;
}

/* ---- the race ---- */

static TglStatus
run_rounds(Race *r, const TglRaceOptions *o, int most, int *rounds)
{
	double limit = o->seconds > 0 ? o->seconds : SECONDS, start = device_clock();
	TglStatus s = TGL_OK;
	for (int n = 0; n < most && s == TGL_OK; n++) {
		if (n >= LEAST_ROUNDS && device_clock() - start >= limit)
			break;
		for (int i = 0; i < RUNNERS && s == TGL_OK; i++) {
			int runner = (n + i) % RUNNERS;
			if (r->launches[runner])
				s = time_runner(r, runner, &r->times[runner][n]);
		}
		*rounds = n + 1;
		if (s == TGL_OK && o->progress && !o->progress(o->user, n + 1, most))
			break;
	}
	return s;
}

static void
summarise(Race *r, int n, TglRace *out)
{
	double bytes = 2 * (double)tgl_tensor_bytes(r->copier.from);
	double *ratio = calloc((size_t)n, sizeof *ratio);
	if (!ratio)
		die("no memory");
	for (int i = 0; i < n; i++) {
		ratio[i] = r->launches[THEIRS] ? r->times[THEIRS][i] / r->times[OURS][i] : 0;
		r->times[COPY][i] = bytes / r->times[COPY][i];
	}
	out->rounds = n;
	out->launches = r->launches[OURS];
	out->ratio = spread(ratio, n);
	out->ours = spread(r->times[OURS], n);
	out->theirs = spread(r->times[THEIRS], n);
	out->copy = spread(r->times[COPY], n);
	out->beside = spread(r->times[BESIDE], n);
	free(ratio);
}

static TglStatus
race(Race *r, const TglRaceOptions *o, TglRace *out)
{
	int most = MIN(o->rounds > 0 ? o->rounds : ROUNDS, MOST_ROUNDS), rounds = 0;
	most = MAX(most, 1);
	for (int i = 0; i < RUNNERS; i++)
		if (!(r->times[i] = calloc((size_t)most, sizeof **r->times)))
			return TGL_ERROR_MEMORY;
	TglStatus s = get_ready(r);
	TglStream *before = stream_use(r->dev, r->stream);
	if (s == TGL_OK)
		s = run_rounds(r, o, most, &rounds);
	stream_use(r->dev, before);
	if (s == TGL_OK)
		summarise(r, rounds, out);
	return s;
}

static void
race_close(Race *r)
{
	for (int i = 0; i < RUNNERS; i++) {
		tgl_graph_close(&r->graph[i]);
		free(r->times[i]);
	}
	tgl_stream_close(&r->stream);
	copier_close(&r->copier);
}

static bool
are_alike(TglCase *const *sets, int n, const TglRaceOptions *o)
{
	const TglForeign *f = o->foreign;
	for (int i = 0; i < n; i++)
		if (!sets[i] || sets[i]->k != sets[0]->k || sets[i]->dev != sets[0]->dev)
			return false;
	return (!f || (f->k == sets[0]->k && f->dev == sets[0]->dev)) && (!o->beside || o->beside->dev == sets[0]->dev);
}

TglStatus
tgl_case_race(TglCase *const *sets, int nsets, const TglRaceOptions *o, TglRace *out)
{
	TglRaceOptions plain = {0};
	if (!sets || nsets < 1 || !sets[0])
		return TGL_ERROR_USAGE;
	TglContext *cx = sets[0]->dev->cx;
	o = o ? o : &plain;
	context_begin(cx);
	if (context_null(cx, out, "tgl_case_race", "out"))
		return TGL_ERROR_USAGE;
	*out = (TglRace){0};
	if (!are_alike(sets, nsets, o)) {
		diag_error(cx->own, NOWHERE, DIAG_API_FOREIGN, "tgl_case_race", "a case");
		return context_fail(cx, TGL_ERROR_USAGE, NULL);
	}
	Race r = {.sets = sets, .nsets = nsets, .foreign = o->foreign, .dev = sets[0]->dev,
	    .beside = o->beside, .rest = o->rest};
	if (r.dev->dev.queue && !(r.stream = tgl_stream_open(r.dev)))
		return tgl_error(cx)->status;
	TglStatus s = race(&r, o, out);
	race_close(&r);
	if (s != TGL_OK && cx->error.status == s) { /* already told */
		arena_reset(compile_of(&r)->tmp);
		return s;
	}
	return context_end(cx, s, sets[0]->k->program->compile);
}
