/* Tuning a case: candidates, compiled, tried, measured, and the winner kept.
 *
 *     space ─► build (GPU) ─► try each once: right? ─► halve ─► keep the winner
 *
 * Half of the budget is there for compiling and four fifths for all that comes before the measuring; what is not
 * reached by then is left out and says so.  A device that dies of a candidate ends the tuning with what the device
 * says. */

#include "runtime/tune/tune.h"

static const double BUDGET = 30, HOPELESS = 4, REFERENCE_FLOPS = 2e7, BATCH_SECONDS = 200e-6;
enum { MAX_REPS = 16, REFERENCE_ELEMENTS = 1 << 22 };

/* ---- running one ---- */

static bool
list_mentions(const StmtList *list, const char *name)
{
	bool found = false;
	for (int i = 0; i < list->n && !found; i++) {
		const Stmt *s = list->at[i];
		found = expr_mentions(s->e, name) || expr_mentions(s->target, name) || list_mentions(&s->body, name) ||
		    list_mentions(&s->orelse, name);
		found = found || ANY_OF(k, s->range.n, expr_mentions(s->range.at[k], name));
	}
	return found;
}

/* A reference that mentions a value that the candidate changes is another one. */
static void
drop_reference(TglCase *c, const Bound *now)
{
	const Kernel *k = c->k->k;
	for (int i = 0; i < now->nct && c->reference; i++) {
		if (const_equal(&c->b.bound.ct[i].value, &now->ct[i].value) ||
		    !list_mentions(&k->reference->body, now->ct[i].name))
			continue;
		reference_unref(c->reference);
		c->reference = NULL;
	}
}

/* The case as the candidate's: what it runs from now on. */
static void
take_place(Tuner *t, const Candidate *c)
{
	drop_reference(t->c, &c->bound);
	t->c->b.bound = c->bound;
	binding_pointers(t->k, &t->c->b);
}

/* The first report of what failed, in the tuner's memory; it is dropped. */
static const char *
take_report(Tuner *t)
{
	Compile *cx = t->k->program->compile;
	const Diag *d = cx->first ? cx->first : t->k->program->cx->own->first;
	const TglError *e = tgl_error(t->k->program->cx);
	const char *s = arena_strdup(t->mem, d ? d->text : *e->message ? e->message : "it failed");
	cx->first = cx->last = NULL;
	cx->nerrors = 0;
	context_begin(t->k->program->cx);
	return s;
}

static bool
run_once(Tuner *t, Candidate *c, double *seconds)
{
	TglStatus s;
	take_place(t, c);
	Artefact *ready = c->artefact.bytes && !c->kept ? &c->artefact : NULL;
	bool ok = instance_adopt(t->k, &t->c->b, t->dev, ready, &s) && case_run(t->c, seconds) == TGL_OK;
	arena_reset(t->k->program->compile->tmp);
	return ok;
}

/* Several launches in a row, without the host between them, for kernels shorter than a launch. */
static bool
run_batch(Tuner *t, Candidate *c, double *seconds)
{
	take_place(t, c);
	return tgl_case_replay(t->c, t->reps, 1, seconds) == TGL_OK;
}

static bool
measure(void *user, int arm, double *seconds)
{
	Tuner *t = user;
	Candidate *c = &t->at.at[t->measured[arm]];
	if (t->reps > 1 ? run_batch(t, c, seconds) : run_once(t, c, seconds))
		return true;
	return candidate_drop(t, c, TGL_TUNE_FAILED, "%s", take_report(t));
}

/* ---- each once ---- */

static bool
report_progress(Tuner *t, const char *what, double part)
{
	if (t->options->progress && !t->options->progress(t->options->user, what, part))
		t->stopped = true;
	return !t->stopped;
}

/* Evaluating the reference on this machine takes about its operations at f64, four times. */
static bool
reference_is_quick(Tuner *t)
{
	double flops = -1;
	int64_t elements = 0;
	if (!t->k->k->reference)
		return false;
	for (int i = 0; i < t->k->k->params.n; i++)
		if (t->c->b.tensor[i])
			elements += tgl_tensor_count(t->c->b.tensor[i]);
	if (tgl_case_work(t->c, NULL, &flops) != TGL_OK)
		take_report(t);
	return elements <= REFERENCE_ELEMENTS && flops >= 0 && flops <= REFERENCE_FLOPS;
}

static int
launches(Tuner *t, double seconds)
{
	if (ANY_OF(i, t->k->k->params.n, param_is_inout(&t->k->k->params.at[i])))
		return 1;
	if (!t->dev->dev.queue || seconds >= BATCH_SECONDS / 2)
		return 1;
	return (int)MIN(BATCH_SECONDS / MAX(seconds, 1e-6), (double)MAX_REPS);
}

/* Runs a candidate for the first time and looks at what it computed.  False: it is dropped. */
static bool
try_one(Tuner *t, int i, bool *first)
{
	Candidate *c = &t->at.at[i];
	const char *why;
	double seconds;
	bool failed;
	if (!run_once(t, c, &seconds))
		return candidate_drop(t, c, TGL_TUNE_FAILED, "%s", take_report(t));
	if (!*first && seconds > HOPELESS * t->quickest && run_once(t, c, &seconds) && seconds > HOPELESS * t->quickest)
		return candidate_drop(t, c, TGL_TUNE_SLOWER, "more than four times the time of the best when it was tried");
	t->quickest = *first ? seconds : MIN(seconds, t->quickest);
	if (*first) {
		t->by_reference = reference_is_quick(t);
		t->reps = launches(t, seconds);
	}
	if (!tune_compare(t, &why, &failed))
		return candidate_drop(t, c, failed ? TGL_TUNE_FAILED : TGL_TUNE_WRONG, "%s", why ? why : take_report(t));
	if (*first && !t->by_reference && !tune_keep_first(t))
		return candidate_drop(t, c, TGL_TUNE_FAILED, "no memory to compare others with it");
	if (*first)
		t->first_one = i;
	*first = false;
	return true;
}

static int
try_all(Tuner *t)
{
	bool first = true;
	char what[64];
	int n = 0;
	t->measured = NEW_ARRAY(t->mem, int, t->at.n);
	for (int k = 0; k < t->at.n && !t->stopped; k++) {
		int i = t->order[k];
		if (t->at.at[i].dropped)
			continue;
		if (!first && device_clock() > t->start + 0.8 * t->budget) {
			candidate_drop(t, &t->at.at[i], TGL_TUNE_SKIPPED, "the budget was spent");
			continue;
		}
		if (try_one(t, i, &first))
			t->measured[n++] = i;
		snprintf(what, sizeof what, "trying %d of %d", k + 1, t->at.n);
		report_progress(t, what, 0.3 + 0.3 * k / t->at.n);
	}
	return n;
}

/* ---- measuring ---- */

static double
tuner_clock(void *user)
{
	return device_clock();
}

static bool
halving_progress(void *user, int alive, int rounds, int of)
{
	char what[64];
	snprintf(what, sizeof what, "measuring %d, round %d", alive, rounds);
	return report_progress(user, what, 0.6 + 0.4 * rounds / of);
}

static void
measure_all(Tuner *t, int n)
{
	t->halving = (Halving){.mem = t->mem,
	    .arm = NEW_ARRAY(t->mem, Arm, n),
	    .n = n,
	    .favourite = n && t->measured[0] == 0 ? 0 : -1,
	    .measure = measure,
	    .now = tuner_clock,
	    .progress = halving_progress,
	    .user = t,
	    .deadline = t->start + t->budget};
	halving_run(&t->halving);
	for (int i = 0; i < n; i++) {
		Candidate *c = &t->at.at[t->measured[i]];
		const Arm *r = &t->halving.arm[i];
		if (c->dropped) /* it failed on the way */
			continue;
		c->state = i == t->halving.winner ? TGL_TUNE_WON : r->n ? TGL_TUNE_SLOWER : TGL_TUNE_SKIPPED;
		c->why = r->n ? r->why : "the budget was spent";
	}
}

/* ---- the result ---- */

static const Arm *
arm_of(const Tuner *t, int candidate)
{
	return VALUE_OF(i, t->halving.n, t->measured[i] == candidate && t->halving.arm[i].n,
	    &t->halving.arm[i], NULL);
}

/* "1.31 times as fast as the default; 2.1 % ahead of the next, BM = 64 …" */
static const char *
why_it_won(const Tuner *t, int winner)
{
	const Arm *w = arm_of(t, winner), *plain = arm_of(t, 0), *next = NULL;
	int second = -1;
	Text s = {0};
	for (int i = 0; i < t->at.n; i++) {
		const Arm *r = i == winner ? NULL : arm_of(t, i);
		if (r && (!next || r->median < next->median)) {
			next = r;
			second = i;
		}
	}
	if (winner == 0)
		text_put(&s, "the default: nothing is faster beyond noise");
	else if (plain)
		text_printf(&s, "%.3g times as fast as the default", plain->median / w->median);
	else
		text_printf(&s, "the default did not run (%s)", t->at.at[0].why ? t->at.at[0].why : "");
	if (next && second != 0)
		text_printf(&s, "; the next, %s, takes %+.1f %%", candidate_values(t, &t->at.at[second]),
		    100 * (next->median / w->median - 1));
	text_printf(&s, "; noise %.1f %%", 100 * w->noise / w->median);
	return text_take(&s, t->mem);
}

static void
hand_over(Tuner *t, TglTune *out)
{
	out->candidate = NEW_ARRAY(t->mem, TglTuneCandidate, t->at.n);
	out->n = t->at.n;
	out->combinations = t->combinations;
	out->sampled = t->sampled;
	out->spent = t->halving.spent;
	double clock = t->target && t->target->rates ? t->target->rates->clock * 1e6 : 0;
	for (int i = 0; i < t->at.n; i++) {
		const Candidate *c = &t->at.at[i];
		const Arm *r = arm_of(t, i);
		out->candidate[i] = (TglTuneCandidate){.values = candidate_values(t, c),
		    .is_default = i == 0,
		    .state = c->state,
		    .why = c->why ? c->why : "",
		    .samples = r ? r->n : 0,
		    .median = r ? r->median : 0,
		    .noise = r ? r->noise : 0,
		    .estimate = c->cycles > 0 && clock > 0 ? c->cycles / clock : 0};
		if (c->state == TGL_TUNE_WON)
			out->winner = i;
		out->spent |= c->state == TGL_TUNE_SKIPPED;
	}
	if (out->winner >= 0)
		out->candidate[out->winner].why = out->why = why_it_won(t, out->winner);
}

static void
keep(Tuner *t, TglTune *out)
{
	TuneEntry e = {.key = t->key, .values = out->candidate[out->winner].values};
	e.seconds = out->candidate[out->winner].median;
	e.plain = out->candidate[0].samples ? out->candidate[0].median : e.seconds;
	if (t->options->no_keep)
		return;
	out->kept = tune_put(context_cache(t->k->program->cx), &e);
	context_cache_warn(t->k->program->cx, t->k->program->compile);
	launch_cache_drop(t->k, NULL);
}

/* ---- all of it ---- */

static void
name_key(const TuneKey *key, TglTune *out)
{
	out->device = key->device;
	out->dtypes = key->dtypes;
	out->sizes = key->sizes;
}

static TglStatus
tune_with(Tuner *t, TglTune *out)
{
	Compile *cx = t->k->program->compile;
	if (!tune_space(t))
		return TGL_ERROR_NAME;
	tune_key(t->k, &t->binding, t->dev, t->c->example, t->mem, &t->key);
	name_key(&t->key, out);
	if (t->target)
		tune_build(t);
	tune_prune_built(t);
	int n = t->stopped ? 0 : try_all(t);
	if (!t->stopped)
		measure_all(t, n);
	out->winner = -1;
	hand_over(t, out);
	if (out->winner < 0 && !t->stopped && !out->spent) {
		diag_error(cx, t->k->k->item->name_place, DIAG_TUNE_FAILED, t->k->k->name, t->at.at[0].why);
		return TGL_ERROR_DEVICE;
	}
	if (out->winner >= 0)
		keep(t, out);
	return TGL_OK;
}

/* What is known already, and nothing more. */
static TglStatus
tune_frozen(TglCase *c, Arena *mem, TglTune *out)
{
	TglContext *cx = c->k->program->cx;
	TuneKey key;
	tune_key(c->k, &c->b, c->dev, c->example, mem, &key);
	out->frozen = true;
	out->winner = -1;
	name_key(&key, out);
	out->known = tune_get(context_cache(cx), &key, mem);
	context_cache_warn(cx, c->k->program->compile);
	return TGL_OK;
}

/* Finding the form that won says what loading it did not, as all were tried: that it spills. */
static void
warn_of(Tuner *t, const Candidate *winner)
{
	TglStatus s;
	take_place(t, winner);
	instance_find(t->k, &t->c->b, t->dev, &s);
}

static TglStatus
tune_measured(TglCase *c, const TglTuneOptions *options, Arena *mem, TglTune *out)
{
	Tuner t = {.c = c, .k = c->k, .dev = c->dev, .mem = mem, .options = options, .reps = 1};
	Bound before = c->b.bound;
	t.start = device_clock();
	t.budget = options->budget > 0 ? options->budget : BUDGET;
	t.target = c->dev->dev.load_artefact ? target_named(c->dev->dev.target) : NULL;
	c->k->spills_muted = true;
	TglStatus s = tune_with(&t, out);
	c->k->spills_muted = false;
	if (s == TGL_OK && out->winner >= 0)
		warn_of(&t, &t.at.at[out->winner]);
	tune_build_end(&t);
	for (int i = 0; i < t.at.n; i++)
		artefact_close(&t.at.at[i].artefact);
	tune_free_first(&t);
	c->b.bound = before;
	return s;
}

TglStatus
tgl_case_tune(TglCase *c, const TglTuneOptions *options, TglTune *out)
{
	TglTuneOptions plain = {0};
	if (!c || !context_call(c->dev->cx, "tgl_case_tune", "out", out))
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	Arena *mem = arena_open();
	*out = (TglTune){.winner = -1, .memory = mem};
	bool frozen = context_tuning(cx) == TGL_TUNING_FROZEN && c->k->k->item->tune.n > 0;
	TglStatus s = frozen ? tune_frozen(c, mem, out) : tune_measured(c, options ? options : &plain, mem, out);
	return context_end(cx, s, c->k->program->compile);
}

void
tgl_tune_close(TglTune *t)
{
	if (t && t->memory)
		arena_close(t->memory);
	if (t)
		*t = (TglTune){.winner = -1};
}
