/* Times that may be compared: our kernel, a handwritten one, a copy and a further case are measured in turn, so that
 * clocks, heat and other users of the GPU affect all alike.
 *
 * Each runner is a graph of launches (on devices without graphs, launches one by one) that go over several cases, whose
 * tensors together exceed the cache: a kernel measured on data that it has just left there looks faster than it is.  A
 * replay lasts some milliseconds, so that the cost of starting it does not show.  Each round begins with another runner. */
#include <stdlib.h>
#include <time.h>

#include "tool/bench/rounds.h"

enum { OURS, THEIRS, COPY, BESIDE, RUNNERS };
enum { LEAST_ROUNDS = 5, MOST_LAUNCHES = 1000, MOST_ROUNDS = 100000, COPIES = 8 };
static const double REPLAY_SECONDS = 4e-3;

typedef struct Measurement {
	TglCase *const *sets;
	int nsets;
	Foreign *foreign;
	TglDevice *dev;
	TglCase *beside;                /* NULL: none */
	Copier copier;
	TglStream *stream;              /* NULL: no graphs */
	int launches[RUNNERS];          /* 0: it does not run */
	TglGraph *graph[RUNNERS];
	double *times[RUNNERS];
	double rest;
} Measurement;

static Spread
spread(double *v, int n)
{
	double median = median_of(v, n);
	return (Spread){median, v[0], v[n - 1]};
}

static Compile *
compile_of(const Measurement *r)
{
	return r->sets[0]->k->program->compile;
}

/* ---- one launch of each ---- */

/* A launch of another program's, whose reports are not those of the case's. */
static TglStatus
launched(Measurement *r, TglStatus s, const TglCase *c)
{
	return s == TGL_OK || !c ? s : context_end(r->dev->cx, s, c->k->program->compile);
}

static TglStatus
launch(Measurement *r, int runner, int i)
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
record(Measurement *r, int runner)
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
go(Measurement *r, int runner)
{
	TglStatus s = TGL_OK;
	if (r->stream)
		return tgl_graph_launch(r->graph[runner], r->stream);
	for (int i = 0; i < r->launches[runner] && s == TGL_OK; i++)
		s = launch(r, runner, i);
	return s;
}

static TglStatus
time_runner(Measurement *r, int runner, double *seconds)
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
choose_launches(const Measurement *r, double one, int nsets)
{
	double n = one > 0 ? REPLAY_SECONDS / one : MOST_LAUNCHES;
	int whole = n > MOST_LAUNCHES ? MOST_LAUNCHES : (int)n;
	if (!r->stream)
		return 1;
	return MAX(whole / nsets, 1) * nsets;
}

/* One launch of each on every set: what is compiled is compiled, memory is touched. */
static TglStatus
warm_up(Measurement *r)
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
open_others(Measurement *r)
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
get_ready(Measurement *r)
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

/* ---- the rounds ---- */

static TglStatus
run_rounds(Measurement *r, const RoundsOptions *o, int most, int *rounds)
{
	double start = device_clock();
	TglStatus s = TGL_OK;
	for (int n = 0; n < most && s == TGL_OK; n++) {
		if (n >= LEAST_ROUNDS && device_clock() - start >= o->seconds)
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
summarise(Measurement *r, int n, Rounds *out)
{
	double bytes = 2 * (double)tgl_tensor_bytes(r->copier.from);
	double *ratio = memory_new((size_t)n, sizeof *ratio);
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
measure(Measurement *r, const RoundsOptions *o, Rounds *out)
{
	int most = MIN(MAX(o->rounds, 1), MOST_ROUNDS), rounds = 0;
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
measurement_close(Measurement *r)
{
	for (int i = 0; i < RUNNERS; i++) {
		tgl_graph_close(&r->graph[i]);
		free(r->times[i]);
	}
	tgl_stream_close(&r->stream);
	copier_close(&r->copier);
}

TglStatus
rounds_run(TglCase *const *sets, int nsets, const RoundsOptions *o, Rounds *out)
{
	TglContext *cx = sets[0]->dev->cx;
	Measurement r = {.sets = sets, .nsets = nsets, .foreign = o->foreign, .dev = sets[0]->dev,
	    .beside = o->beside, .rest = o->rest};
	context_begin(cx);
	*out = (Rounds){0};
	if (r.dev->dev.queue && !(r.stream = tgl_stream_open(r.dev)))
		return tgl_error(cx)->status;
	TglStatus s = measure(&r, o, out);
	measurement_close(&r);
	if (s != TGL_OK && cx->error.status == s) { /* reported already */
		arena_reset(compile_of(&r)->tmp);
		return s;
	}
	return context_end(cx, s, sets[0]->k->program->compile);
}
