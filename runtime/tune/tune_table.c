/* The candidates of a kernel's tune(...) with what the cost model expects of each, for a target that need not be a device
 * here, and what tuning measured of them: of a kept result (tune_store.c) the winner's time and the default's. */
#include "runtime/tune/tune.h"

#include <string.h>

static const double ESTIMATING = 0.1;                   /* of a budget, as in tune_order.c */

static void
take_candidates(const Tuner *t, Arena *mem, TuneTable *out)
{
	for (int i = 0; i < t->at.n; i++) {
		const Candidate *c = &t->at.at[i];
		TuneRow r = {.values = i ? candidate_values(t, c) : "default", .is_default = i == 0,
		    .us = c->cycles > 0 && t->target->rates ? c->cycles / t->target->rates->clock : 0,
		    .dropped = c->dropped ? c->why : NULL};
		if (i == 0)
			out->default_values = candidate_values(t, c);
		vec_push(mem, &out->rows, r);
	}
	out->combinations = t->combinations;
	out->sampled = t->sampled;
}

bool
tune_table(TglKernel *k, const char *target, const TglCaseOptions *o, double seconds, Arena *mem, TuneTable *out)
{
	TglCase c = {.k = k};
	Compile *cx = k->program->compile;
	Tuner t = {.c = &c, .k = k, .mem = mem, .target = target_named(target), .start = device_clock()};
	Reports hidden = reports_hide(cx, mem);
	*out = (TuneTable){.mem = mem};
	t.budget = seconds / ESTIMATING;
	bool ok = k->k->item->tune.n > 0 && case_choose_example(&c, o) &&
	          binding_collect(k, o->args, o->nargs, true, &c.b) && case_bind(&c);
	if (ok) {
		binding_pointers(k, &c.b);
		ok = tune_space(&t);
	}
	if (ok) {
		tune_key(k, &t.binding, NULL, c.example, mem, &out->key);
		take_candidates(&t, mem, out);
	}
	reports_restore(cx, &hidden);
	binding_close(&c.b);
	return ok;
}

TuneRow *
tune_table_row(TuneTable *t, const char *values)
{
	for (int i = 0; i < t->rows.n; i++) {
		TuneRow *r = &t->rows.at[i];
		if (strcmp(r->values, values) == 0 || (r->is_default && strcmp(t->default_values, values) == 0))
			return r;
	}
	vec_push(t->mem, &t->rows, ((TuneRow){.values = arena_strdup(t->mem, values)}));
	return &t->rows.at[t->rows.n - 1];
}

bool
tune_table_take(void *user, const TuneEntry *e)
{
	TuneTable *t = user;
	bool is_this = strcmp(e->key.kernel, t->key.kernel) == 0 && strcmp(e->key.dtypes, t->key.dtypes) == 0 &&
	               strcmp(e->key.sizes, t->key.sizes) == 0 &&
	               memcmp(&e->key.hash, &t->key.hash, TUNE_HASH_BYTES) == 0;
	if (!is_this || strncmp(e->key.device, "cpu,", 4) == 0 || t->device)
		return true;
	t->device = arena_strdup(t->mem, e->key.device);
	TuneRow *plain = &t->rows.at[0], *won;
	plain->seconds = e->plain;
	won = tune_table_row(t, e->values);
	won->seconds = e->seconds;
	t->winner = won->values;
	t->why = won->is_default ? "nothing was faster beyond noise"
	                         : arena_printf(t->mem, "%.3g times as fast as the default", e->plain / e->seconds);
	return true;
}
