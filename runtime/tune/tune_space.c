/* The candidates: every combination of the values of `tune(...)` that `where` lets pass, the default first.  Of a
 * space with more than MOST combinations a sample is taken, the same in every run.
 *
 * What cannot run is dropped before anything is compiled (too many threads) or before anything is run (too much
 * shared memory, too many registers), and so is what compiled to the same code as another.  Each says why. */
#include <string.h>

#include "runtime/tune/tune.h"

enum {
	MOST = 4096,      /* candidates at most */
	DRAWS = 4 * MOST, /* from a larger space: more than MOST, as `where` may refuse many */
	SEEN = 2 * DRAWS, /* a power of two */
};

bool
candidate_drop(Tuner *t, Candidate *c, TglTuneState s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	c->why = arena_vprintf(t->mem, fmt, ap);
	va_end(ap);
	c->state = s;
	c->dropped = true;
	return false;
}

/* ---- names and values ---- */

/* The default: what a launch takes if nothing but the fixed values are given, by the header or as the compiler chooses. */
static bool
bind_default(Tuner *t)
{
	Text why = {0};
	Bound bound;
	t->binding = t->c->b;
	t->fixed = bound_values(t->k->k, &t->c->b.bound, &t->c->b, t->c->example, t->mem, 0, &t->nfixed);
	bool ok = bind_quietly(t->k, &t->binding, t->fixed, t->nfixed, t->mem, &bound, &why);
	if (ok)
		t->binding.bound = bound;
	if (ok && t->target)
		tune_apply_target(t->k, &t->binding, t->c->example, t->target->name, t->mem);
	if (!ok)
		diag_error(t->k->program->compile, t->k->k->item->name_place, DIAG_TUNE_FAILED, t->k->k->name,
		    why.at ? why.at : "it cannot be bound");
	text_close(&why);
	return ok;
}

/* A device that runs tile IR takes no notice of the schedule. */
static bool
matters(const Tuner *t, const char *name)
{
	return t->target || named_const(t->binding.bound.ct, t->binding.bound.nct, name);
}

static bool
take_names(Tuner *t)
{
	Kernel *k = t->k->k;
	TuneName *all;
	int n;
	Arena *keep = compile_into(k->program->cx, t->mem);
	bool ok = kernel_tune(k, &t->binding.bound, &all, &n);
	compile_into(k->program->cx, keep);
	if (!ok)
		return false;
	t->name = NEW_ARRAY(t->mem, TuneName, n);
	for (int i = 0; i < n; i++)
		if (matters(t, all[i].name) && !tune_is_fixed(&t->c->b, t->c->example, all[i].name) && all[i].nvalue)
			t->name[t->nname++] = all[i];
	if (t->nname)
		return true;
	return diag_error(k->program->cx, k->item->name_place, DIAG_TUNE_NONE, k->name,
	    !n          ? ": its header has no tune(...)"
	    : t->target ? ": every name of its tune(...) is given"
			: ": every name of its tune(...) is given, or is the schedule's, which is for GPUs");
}

/* ---- combinations ---- */

static bool
same_names(const Tuner *t, const Const *a, const Const *b)
{
	return ALL_OF(i, t->nname, const_equal(&a[i], &b[i]));
}

/* Whether the device would run the same. */
static bool
same_code(const Tuner *t, const Bound *a, const Bound *b)
{
	return ALL_OF(i, a->nct, const_equal(&a->ct[i].value, &b->ct[i].value)) &&
	    (!t->target || memcmp(&a->schedule, &b->schedule, sizeof a->schedule) == 0);
}

const char *
candidate_values(const Tuner *t, const Candidate *c)
{
	NamedConst *v = NEW_ARRAY(t->mem, NamedConst, t->nname);
	int n = 0;
	for (int i = 0; i < t->nname; i++)
		if (c->value[i].kind != CONST_NONE)
			v[n++] = (NamedConst){t->name[i].name, c->value[i], NOWHERE};
	Text s = {0};
	values_print(v, n, &s);
	return n ? text_take(&s, t->mem) : (text_close(&s), "default");
}

static void
prune_unbuilt(Tuner *t, Candidate *c)
{
	const Target *g = t->target;
	int warps = c->bound.schedule.warps;
	if (g && warps > 0 && warps * g->lanes > g->max_threads) {
		candidate_drop(t, c, TGL_TUNE_PRUNED, "%d threads; a block of %s has at most %d", warps * g->lanes,
		    g->name, g->max_threads);
		return;
	}
	for (int i = 0; i < t->at.n; i++)
		if (!t->at.at[i].dropped && same_code(t, &t->at.at[i].bound, &c->bound)) {
			candidate_drop(t, c, TGL_TUNE_PRUNED, "the same code as %s",
			    i ? candidate_values(t, &t->at.at[i]) : "the default");
			return;
		}
}

static void
add(Tuner *t, const Const *value)
{
	Candidate c = {.value = NEW_ARRAY(t->mem, Const, t->nname), .state = TGL_TUNE_SKIPPED};
	NamedConst *given = NEW_ARRAY(t->mem, NamedConst, t->nfixed + t->nname);
	Text why = {0};
	memcpy(c.value, value, sizeof *value * (size_t)t->nname);
	memcpy(given, t->fixed, sizeof *given * (size_t)t->nfixed);
	for (int i = 0; i < t->nname; i++)
		given[t->nfixed + i] =
		    (NamedConst){intern(t->k->program->compile->names, t->name[i].name), value[i], NOWHERE};
	if (!bind_quietly(t->k, &t->binding, given, t->nfixed + t->nname, t->mem, &c.bound, &why))
		candidate_drop(t, &c, TGL_TUNE_PRUNED, "%s", why.at ? why.at : "refused");
	else
		prune_unbuilt(t, &c);
	text_close(&why);
	vec_push(t->mem, &t->at, c);
}

static void
add_default(Tuner *t)
{
	Candidate c = {.value = NEW_ARRAY(t->mem, Const, t->nname), .state = TGL_TUNE_SKIPPED};
	c.bound = t->binding.bound;
	for (int i = 0; i < t->nname; i++)
		if (!bound_value(&c.bound, t->name[i].name, &c.value[i]))
			c.value[i] = (Const){.kind = CONST_NONE};
	vec_push(t->mem, &t->at, c);
}

static void
every_combination(Tuner *t)
{
	Const *value = NEW_ARRAY(t->mem, Const, t->nname);
	for (int64_t i = 0; i < t->combinations; i++) {
		int64_t number = i;
		for (int k = 0; k < t->nname; k++) {
			value[k] = t->name[k].value[number % t->name[k].nvalue];
			number /= t->name[k].nvalue;
		}
		if (!same_names(t, value, t->at.at[0].value))
			add(t, value);
	}
}

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
static uint64_t
draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* True the first time that `key` comes; 0 marks a free slot. */
static bool
is_new(uint64_t *seen, uint64_t key)
{
	uint64_t at = key % SEEN;
	while (seen[at] && seen[at] != key)
		at = (at + 1) % SEEN;
	bool fresh = !seen[at];
	seen[at] = key;
	return fresh;
}

/* Each name's value is drawn by itself, so that the number of combinations may pass what an integer holds. */
static void
sample(Tuner *t)
{
	Const *value = NEW_ARRAY(t->mem, Const, t->nname);
	uint64_t *seen = NEW_ARRAY(t->mem, uint64_t, SEEN), state = 0;
	int kept = 0;
	for (int i = 0; i < DRAWS && kept < MOST; i++) {
		uint64_t key = 0;
		for (int k = 0; k < t->nname; k++) {
			uint64_t n = draw(&state) % (uint64_t)t->name[k].nvalue, mixed = key ^ n;
			value[k] = t->name[k].value[n];
			key = draw(&mixed);
		}
		if (!is_new(seen, key | 1) || same_names(t, value, t->at.at[0].value))
			continue;
		add(t, value);
		kept += !t->at.at[t->at.n - 1].dropped;
	}
}

bool
tune_space(Tuner *t)
{
	if (!bind_default(t) || !take_names(t))
		return false;
	t->combinations = 1;
	for (int i = 0; i < t->nname; i++)
		if (__builtin_mul_overflow(t->combinations, t->name[i].nvalue, &t->combinations))
			t->combinations = INT64_MAX;
	add_default(t);
	t->sampled = t->combinations > MOST;
	if (t->sampled)
		sample(t);
	else
		every_combination(t);
	tune_order(t);
	return true;
}

/* ---- what is known once it is compiled ---- */

static bool
same_bytes(const Artefact *a, const Artefact *b)
{
	return a->bytes && b->bytes && a->size == b->size && a->threads == b->threads &&
	    a->shared_bytes == b->shared_bytes && a->persistent == b->persistent &&
	    memcmp(a->bytes, b->bytes, a->size) == 0;
}

void
tune_prune_built(Tuner *t)
{
	const Target *g = t->target;
	for (int i = 0; i < t->at.n; i++) {
		Candidate *c = &t->at.at[i];
		const Artefact *a = &c->artefact;
		if (c->dropped || !a->bytes)
			continue;
		if (a->threads > g->max_threads)
			candidate_drop(t, c, TGL_TUNE_PRUNED, "%d threads; a block of %s has at most %d", a->threads,
			    g->name, g->max_threads);
		else if (a->shared_bytes > g->shared_bytes)
			candidate_drop(t, c, TGL_TUNE_PRUNED, "%lld bytes of shared memory; a block of %s has at most %d",
			    (long long)a->shared_bytes, g->name, g->shared_bytes);
		else if (a->registers > 0 && (int64_t)a->registers * a->threads > g->registers)
			candidate_drop(t, c, TGL_TUNE_PRUNED, "%d registers a thread for %d threads; %s has %d in all",
			    a->registers, a->threads, g->name, g->registers);
		for (int j = 0; j < i && !c->dropped; j++)
			if (!t->at.at[j].dropped && same_bytes(a, &t->at.at[j].artefact))
				candidate_drop(t, c, TGL_TUNE_PRUNED, "the same code as %s",
				    j ? candidate_values(t, &t->at.at[j]) : "the default");
	}
}
