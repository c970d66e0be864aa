/* What is compiled the whole way, as the kernel is, so that the estimates of both are of code:
 * tiles that may be faster, fast:: functions, other warps, schedules that came next, each word of
 * the schedule with the values beside its own; and of what gains more of the same. */
#include "tool/report/variants.h"

#include "runtime/launch/launch.h"

#include <string.h>

enum { TILES = 4 };                                       /* at most */
enum { LINE = 128 };                                      /* bytes of memory */
enum {
	PTX_MOST = 300000,
	PTX_FURTHER = 100000,
	PTX_OVER = 80000
}; /* bytes, at most, which ptxas takes two seconds for; the last may go beyond so far */
static const double NO_MORE = 1.01;                       /* of the kernel's own: not slower */
static const double LESS = 0.95;                          /* of the kernel's own: worth going further the same way */

/* Before there is code, of the kernel's own: not worth compiling.  Of nine forms of fresh kernels that were to take so much
 * an H200 took 1.07 to 23 times the kernel's own time; of the next two 0.85 and 1.28. */
static const double FAR = 2;

void
variant_want(Variants *v, int nth, const char *as)
{
	double own = MAX(v->own->compared, v->own->bill.cycles) / v->t->rates->clock;
	if (nth < 0 || json_number_value(json_object_get(json_array_get(v->all, (size_t)nth), "us")) > FAR * own)
		return;
	if (!v->with.at[nth].wanted)
		vec_push(v->k->program->cx->mem, &v->order, nth);
	v->with.at[nth].wanted = true;
	if (as)
		json_object_set_new(json_array_get(v->all, (size_t)nth), as, json_true());
}

/* The fastest that is not to be compiled yet; -1: none. */
static int
next_built(const Variants *v, double most)
{
	json_t *j;
	size_t i;
	int best = -1;
	json_array_foreach(v->all, i, j) {
		double us = json_number_value(json_object_get(j, "us"));
		if (!v->with.at[i].wanted && us < most) {
			best = (int)i;
			most = us;
		}
	}
	return best;
}

/* Bytes that lie together of the shortest rows that accesses take of tensors. */
static double
least_row(const Inspection *x)
{
	double least = VARIANT_MOST * VARIANT_LEAST;
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		const Type *t = l->kind == INSPECT_ACCESS || l->kind == INSPECT_COPY ? l->tile : NULL;
		if (t && t->rank > 0)
			least = MIN(least, (double)t->extent[t->rank - 1] * dtype_info[t->elem].bits / 8);
	}
	return least;
}

/* Adds `built_us`, `spills`, `barriers`, by lines too, and `gains`, what its code has that the kernel's has not; the
 * first 0 where it does not compile, or takes shorter rows than lines of memory that the kernel takes whole.  Those come
 * slower than the model has it: an instance norm by BC = 16 (64 bytes) was to take 0.73 of the time of BC = 32, and
 * takes 1.30 on an H200; a weight norm by BO = 16 alike. */
static void
add_built(Variants *v, int nth, const CliCode *code)
{
	Compile *cx = v->k->program->cx;
	json_t *j = json_array_get(v->all, (size_t)nth), *stages = json_array();
	With *with = &v->with.at[nth];
	Inspection x;
	variant_elaborate(v, with);
	bool ok = code->ptx.n && cli_inspect_code(with->m, v->t, &with->b, code, &x) &&
		  least_row(&x) >= MIN(LINE, least_row(v->own));
	variant_elaborate(v, NULL);
	if (ok)
		cli_add_other(&x, with->other);
	if (ok && code->listing.n) {
		report_add_listing(stages, code);
		if (v->code->is_counted) {
			json_t *counted = report_count_code(stages, v->code->lines, &x, &with->b, cx->mem);
			ok = json_is_object(counted); /* else its time is on another scale */
			json_decref(counted);
		}
	}
	json_object_set_new(j, "built_us", json_real(ok ? x.bill.cycles / v->t->rates->clock : 0));
	json_object_set_new(j, "spills", json_integer(ok ? MAX(x.spills, 0) : 0));
	json_t *at = json_object();
	json_object_set_new(j, "barriers", json_integer(ok ? report_barriers(stages, &x, at) : -1));
	json_object_set_new(j, "barrier_lines", at);
	json_object_set_new(j, "gains", json_string(ok ? variant_gains(v, &x, nth) : ""));
	json_decref(stages);
}

/* Bytes of PTX that ptxas has time for until then, at the rate of the kernel's own; at most `most`. */
static size_t
bytes_until(const Variants *v, double until, size_t most)
{
	const CliCode *own = v->code->code;
	double left = until - (cli_processor_seconds() - v->time->begun);
	double bytes = own->seconds > 0 ? left / own->seconds * (double)own->ptx.n : (double)most;
	return bytes <= 0 ? 0 : bytes < (double)most ? (size_t)bytes : most;
}

/* All that is wanted and fits, assembled together, each kernel by a name of its own.  Of roles that
 * copy no code is counted: they are not added.  Of four that parted one took an H200 less;
 * attention with a cap has them, and by fast::tanh is chosen without: compiled 0.66 times, an H100
 * takes 0.74. */
static void
build_wanted(Variants *v, double until, size_t most)
{
	Compile *cx = v->k->program->cx;
	int n = v->order.n, of = 0;
	CliCode *code = NEW_ARRAY(cx->mem, CliCode, n);
	int *nth = NEW_ARRAY(cx->mem, int, n);
	bool had = func_find(v->own->f, OP_ROLES);
	size_t bytes = 0, room = bytes_until(v, until, most);
	cx->muted++;
	for (int k = 0; k < n && bytes < room; k++) {
		int i = v->order.at[k];
		Func *f = v->with.at[i].m->funcs.at[0];
		if (json_object_get(json_array_get(v->all, (size_t)i), "built_us"))
			continue;
		f->name = arena_printf(cx->mem, "%s_%d", f->name, i);
		code[of] = (CliCode){.name = f->name};
		if (!(had || !func_find(f, OP_ROLES)) ||
		    !compile_text(v->with.at[i].m, v->t, STAGE_PTX, &code[of].ptx, NULL))
			text_close(&code[of].ptx);
		room = bytes_until(v, until, most);
		if (bytes > 0 && bytes + code[of].ptx.n > room + PTX_OVER) { /* others may be shorter */
			cli_code_close(&code[of]);
			continue;
		}
		bytes += code[of].ptx.n;
		nth[of++] = i;
	}
	cli_assemble(v->t, code, of, v->time->tool);
	for (int i = 0; i < of; i++) {
		if (!code[i].is_late)
			add_built(v, nth[i], &code[i]);
		cli_code_close(&code[i]);
	}
	cx->muted--;
}

/* Other warps, which the choice has compared before there is code: only code tells what they take.  Ranks of rows of 256 by
 * 32 warps take an H200 693 us, by 8 of them 462: compiled 618 and 489, before that 958 and 1,043. */
static void
want_warps(Variants *v)
{
	const char *name = schedule_info[SCHEDULE_WARPS].text;
	int now = func_warps(v->own->f), most = v->t->max_warps / 2;
	const int others[] = {now / 2, 2 * now, now / 4};
	if (v->own->bill.part[BILL_PRODUCTS] > 0 || v->own->f->schedule.share > 1 || variant_is_given(v, name) ||
	    func_find(v->own->f, OP_ROLES))
		return;
	for (int i = 0; i < LEN(others); i++)
		variant_want(v,
		    others[i] > 0 && others[i] <= most ? variant_try(v, name, others[i], false)
						       : -1,
		    NULL);
}

/* Do both accesses stay in one warp's threads where rows do?  Not of what is put where any thread takes it from. */
static bool
is_of_rows(const InspectLine *l)
{
	const BarrierPair *p = l->pair;
	return !p || strcmp(l->what, "barrier") != 0 ||
	       !(p->is_global || p->before->kind == OP_PUT || p->before->kind == OP_TALLY);
}

/* The most warps with which each row that warps share is of one, so that they exchange nothing at barriers; one, where any
 * thread may take what another has put. */
static void
want_alone(Variants *v)
{
	const char *name = schedule_info[SCHEDULE_WARPS].text;
	int now = func_warps(v->own->f), alone = now;
	for (int i = 0; i < v->own->lines.n; i++) {
		const InspectLine *l = &v->own->lines.at[i];
		bool passes = (l->kind == INSPECT_CONVERT || l->kind == INSPECT_MOVE || l->kind == INSPECT_REDUCE) &&
			      l->smem_bytes > 0;
		if (l->across > 1)
			alone = MIN(alone, now % l->across == 0 ? now / l->across : 1);
		else if (passes || !is_of_rows(l))
			alone = 1;
	}
	bool can = alone < now && !variant_is_given(v, name) && v->own->f->schedule.share <= 1 &&
	    !func_find(v->own->f, OP_ROLES) && !(v->own->bill.part[BILL_PRODUCTS] > 0 && v->own->all_wgmma);
	variant_want(v, can ? variant_try(v, name, alone, true) : -1, "alone");
}

bool
report_is_slow(const Op *op)
{
	static const OpKind kinds[] = {OP_SIN, OP_COS, OP_TAN, OP_EXP, OP_EXP2, OP_LOG, OP_LOG2, OP_POW, OP_RSQRT, OP_SQRT,
	    OP_TANH, OP_SIGMOID, OP_DIV};
	const Value *v = op->nout == 1 ? op->out : NULL;
	const Op *in = op->home->parent;
	return v && v->type->kind == TYPE_TILE && dtype_is_float(v->type->elem) && !attr_fast(op) &&
	    (v->type->rank > 0 || (in && (in->kind == OP_SCAN_FN || in->kind == OP_REDUCE_FN))) &&
	    ANY_OF(i, LEN(kinds), kinds[i] == op->kind);
}

/* Functions by their fast:: forms, chosen anew; those alone that the kernel's code still has, which the page
 * names. */
static void
want_fast(Variants *v)
{
	for (const Op *op = v->own->f->body->first; op; op = op_after(op, v->own->f->body))
		if (report_is_slow(op))
			vec_push(v->k->program->cx->mem, &v->slow, op->place);
	if (v->slow.n)
		variant_want(v,
		    variant_add(v, (With){.fast = true}, VARIANT_FAST, true),
		    "fast");
}

/* Words of the schedule that was taken, each with the values beside its own: trips that are read at
 * once, slots of what is copied ahead, parts of a loop, programs that are read for at once, and no
 * roles. */
static void
want_words(Variants *v)
{
	const Schedule *own = &v->own->f->schedule;
	static const ScheduleName doubles[] = {SCHEDULE_UNROLL, SCHEDULE_SPLIT, SCHEDULE_COARSEN, SCHEDULE_SHARE};
	for (int i = 0; i < LEN(doubles); i++) {
		const char *name = schedule_info[doubles[i]].text;
		Const now;
		bool is_bound = bound_value(v->now, name, &now) && now.kind == CONST_INT;
		int64_t at = is_bound ? now.i : own->at[doubles[i]];
		if (at <= 1 || variant_is_given(v, name))
			continue;
		variant_want(v, variant_try(v, name, 2 * at, false), NULL);
		variant_want(v, variant_try(v, name, at / 2, false), NULL);
	}
	double idle = v->t->rates->multiprocessors / MAX(v->own->bill.launched, 1);
	for (int n = 1; n <= 2 && idle > 1.25 && own->split <= 1 &&
			!variant_is_given(v, schedule_info[SCHEDULE_SPLIT].text);
	     n++)
		variant_want(v,
		    variant_try(v, schedule_info[SCHEDULE_SPLIT].text,
			(INT64_C(1) << log2_ceil((int64_t)idle)) * n, false),
		    NULL);
	if (func_find(v->own->f, OP_ROLES) &&
	    !variant_is_given(v, schedule_info[SCHEDULE_SPECIALIZE].text)) {
		variant_want(v, variant_try(v, schedule_info[SCHEDULE_SPECIALIZE].text, 0, false), NULL);
		variants_want_flat(v);
	}
	if (own->persistent > 0 && ANY_OP(op, v->own->f->body, op->kind == OP_TALLY) && /* which joins what all add */
	    !variant_is_given(v, schedule_info[SCHEDULE_PERSISTENT].text))
		variant_want(v, variant_try(v, schedule_info[SCHEDULE_PERSISTENT].text, 0, false), NULL);
	if (own->stages > 2 && !variant_is_given(v, schedule_info[SCHEDULE_STAGES].text))
		variant_want(v, variant_try(v, schedule_info[SCHEDULE_STAGES].text, own->stages - 1, false),
		    NULL);
}

/* Words that the schedule does not have, of which times tell more than estimates: of 12 fresh kernels an H200 took 0.78 and
 * 0.87 of the time by persistent blocks of two, which were to take 1.07 and 1.11, and 0.79 by two trips at once of one. */
static void
want_timed(Variants *v)
{
	static const ScheduleName loops[] = {SCHEDULE_UNROLL, SCHEDULE_SPLIT};
	const Schedule *own = &v->own->f->schedule;
	for (int i = 0; i < LEN(loops) && v->own->bill.loops; i++)
		if (own->at[loops[i]] <= 1 && !variant_is_given(v, schedule_info[loops[i]].text))
			variant_want(v, variant_try(v, schedule_info[loops[i]].text, 2, false), NULL);
	bool rounds = v->own->bill.launched > v->own->blocks * v->t->rates->multiprocessors;
	if (own->persistent <= 0 && rounds && !variant_is_given(v, schedule_info[SCHEDULE_PERSISTENT].text))
		variant_want(v, variant_try(v, schedule_info[SCHEDULE_PERSISTENT].text, 1, false), NULL);
}

static double
us_now(const Variants *v)
{
	return v->own->bill.cycles / v->t->rates->clock;
}

/* Two changes together, where they do not change the same. */
static void
want_both(Variants *v, int first, int second)
{
	const With *a = &v->with.at[first], *b = &v->with.at[second];
	Arena *mem = v->k->program->cx->mem;
	NamedConst *value = NEW_ARRAY(mem, NamedConst, a->n + b->n);
	With both = {.value = value, .fast = a->fast || b->fast};
	for (int i = 0; i < a->n + b->n; i++) {
		const NamedConst *c = i < a->n ? &a->value[i] : &b->value[i - a->n];
		bool is_both = i < a->n ? named_const(b->value, b->n, c->name) : named_const(a->value, a->n, c->name);
		bool by_second = is_both && variant_says(v, second, c->name);
		if (by_second && variant_says(v, first, c->name))
			return;
		if (!is_both || by_second == (i >= a->n))
			value[both.n++] = *c;
	}
	variant_want(v, variant_add(v, both, NULL, false), both.fast ? "fast" : NULL);
}

/* The two fastest of those that take at most so many us and spill no more than the kernel; -1: there are none. */
static void
two_best(const Variants *v, double most, int best[2])
{
	double us[2] = {most, most};
	best[0] = best[1] = -1;
	for (int i = 0; i < v->with.n; i++) {
		const json_t *j = json_array_get(v->all, (size_t)i);
		double built = json_number_value(json_object_get(j, "built_us"));
		if (built <= 0 || built > us[1] ||
		    json_integer_value(json_object_get(j, "spills")) > MAX(v->own->spills, 0))
			continue;
		bool first = built < us[0];
		best[1] = first ? best[0] : i;
		us[1] = first ? us[0] : built;
		best[0] = first ? i : best[0];
		us[0] = first ? built : us[0];
	}
}

/* Where values made it faster, more of them the same way, two steps, and the best together with what
 * is not slower: of records' checksums by one warp each an H200 takes 61 us for 128 records a program,
 * 49 for 64, 18 for 32; of 33 taps 0.80 of the time by one warp, and 0.53 for four times as many
 * results, which by two warps take as long as before.  Where none did, the closest with the next: a
 * product of gathered rows' differences takes 1.01 by the model with longer steps and 1.07 without
 * roles, and 0.82 with both (0.79, 0.76 and 0.69 on an H200). */
static void
want_further(Variants *v)
{
	enum { BEST = 2 };
	int best[BEST], had = v->order.n;
	two_best(v, LESS * us_now(v), best);
	bool better = best[0] >= 0;
	if (!better)
		two_best(v, VARIANT_CLOSE * us_now(v), best);
	for (int k = 0; k < BEST && better && best[k] >= 0; k++) {
		const NamedConst *c = v->with.at[best[k]].n == 1 ? v->with.at[best[k]].value : NULL;
		Const now;
		bool known = c && c->value.kind == CONST_INT &&
			     bound_value(v->now, c->name, &now) && now.i != c->value.i;
		for (int step = 1; known && step <= 2; step++)
			variant_want(v,
			    variant_try(v, c->name,
				now.i < c->value.i ? c->value.i << step : c->value.i >> step,
				false),
			    NULL);
	}
	double most = (better ? NO_MORE : VARIANT_CLOSE) * us_now(v);
	for (int i = 0, n = v->with.n; i < n && best[0] >= 0 && (better || v->order.n < had + BEST); i++) {
		const json_t *j = json_array_get(v->all, (size_t)i);
		double built = json_number_value(json_object_get(j, "built_us"));
		if (i != best[0] && built > 0 && (i == best[1] || built <= most))
			v->with.at[i].fast ? want_both(v, i, best[0]) : want_both(v, best[0], i); /* said first */
	}
}

/* Those for which there was no time get no code. */
static void
leave_unbuilt(Variants *v)
{
	for (int k = 0; k < v->order.n; k++) {
		const json_t *j = json_array_get(v->all, (size_t)v->order.at[k]);
		if (!json_object_get(j, "built_us"))
			variant_leave(v, &v->with.at[v->order.at[k]]);
	}
}

void
variants_want_first(Variants *v)
{
	want_fast(v);
	if (v->code->code->listing.n)
		want_alone(v);
}

void
variants_build(Variants *v, double whole, double most)
{
	/* of what is left as each begins: what comes first is assembled, and what is then worth trying is estimated */
	static const double FIRST_SHARE = .7, FURTHER_SHARE = .4;
	int nth = next_built(v, most);
	if (v->code->code->listing.n)
		variants_want_refused(v);
	for (int n = 0; nth >= 0 && n < TILES; n++, nth = next_built(v, most))
		variant_want(v, nth, NULL);
	if (v->code->code->listing.n) {
		variants_want_next(v);
		want_warps(v);
		want_words(v);
		if (cli_has(v->cli, OPT_MEASURE))
			want_timed(v);
	}
	double now = cli_processor_seconds() - v->time->begun;
	build_wanted(v, now + FIRST_SHARE * (whole - now), PTX_MOST);
	now = cli_processor_seconds() - v->time->begun;
	v->until = now + FURTHER_SHARE * (whole - now);
	want_further(v);
	build_wanted(v, whole, PTX_FURTHER);
	leave_unbuilt(v);
}
