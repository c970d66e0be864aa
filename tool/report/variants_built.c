/* What is compiled the whole way, as the kernel is, so that the estimates of both are of code: tiles that may be faster,
 * fast:: functions, other warps, the schedule that came next. */
#include "tool/report/variants.h"

#include "runtime/launch/launch.h"

#include <string.h>

enum { BUILT = 2, FURTHER = 2 };                          /* tiles; further the same way */
enum { LINE = 128 };                                      /* bytes of memory */
static const double LESS = 0.95;                          /* of the kernel's own: worth going further the same way */

/* The fastest that is not compiled yet, and is to be; -1: none. */
static int
next_built(const Variants *v, double most)
{
	json_t *j;
	size_t i;
	int best = -1;
	json_array_foreach(v->all, i, j) {
		double us = json_number_value(json_object_get(j, "us"));
		if (!json_object_get(j, "built_us") && us < most) {
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

/* Has one of the first n lines of inspect what this one has, as "histogram", of the same line of the source? */
static bool
has_same(const Inspection *x, int n, const InspectLine *l)
{
	for (int i = 0; i < n; i++) {
		const InspectLine *o = &x->lines.at[i];
		if (o->op && o->op->place.line == l->op->place.line && strcmp(o->what, l->what) == 0)
			return true;
	}
	return false;
}

/* "line 240 has a histogram, blocks stay for several programs": what the kernel as it is has not. */
static const char *
gained(const Variants *v, const Inspection *x)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		if (l->kind == INSPECT_REDUCE && l->op && l->op->place.file == x->f->place.file &&
		    !has_same(v->own, v->own->lines.n, l) && !has_same(x, i, l))
			text_printf(&t, "%sline %d has a %s", t.n ? ", " : "", l->op->place.line, l->what);
	}
	if (x->f->schedule.persistent > 0 && v->own->f->schedule.persistent <= 0)
		text_printf(&t, "%sblocks stay for several programs", t.n ? ", " : "");
	return text_take(&t, v->k->program->cx->mem);
}

/* Those of a block in its machine code; -1: there is none. */
static int
barriers_of(const json_t *stages)
{
	const json_t *s;
	size_t i;
	int n = -1;
	json_array_foreach(stages, i, s) {
		bool is_code = strcmp(json_string_value(json_object_get(s, "kind")), "sass") == 0;
		const char *at = is_code ? json_string_value(json_object_get(s, "text")) : NULL;
		for (n = at ? 0 : n; at && (at = strstr(at, "BAR.SYNC")); at++)
			n++;
	}
	return n;
}

/* Adds `built_us`, `spills`, `barriers` and `gains`, what its code has that the kernel's has not; the first 0 where it
 * does not compile, or takes shorter rows than lines of memory that the kernel takes whole.  Those come slower than the
 * model has it: an instance norm by BC = 16 (64 bytes) was to take 0.73 of the time of BC = 32, and takes 1.30 on an
 * H200; a weight norm by BO = 16 alike. */
static void
build(Variants *v, int nth, int lines)
{
	Compile *cx = v->k->program->cx;
	json_t *j = json_array_get(v->all, (size_t)nth);
	With *with = &v->with.at[nth];
	Module *m = with->m;
	Inspection x;
	cx->muted++;
	/* Of roles that copy no code is counted: they are not added.  Of four that parted one took an H200 less; attention
	 * with a cap has them, and by fast::tanh is chosen without: compiled 0.66 times, an H100 takes 0.74. */
	bool has = func_find(m->funcs.at[0], OP_ROLES), had = func_find(v->own->f, OP_ROLES);
	bool ok = (had || !has) && cli_inspect(m, v->t, &with->b, &x) && least_row(&x) >= MIN(LINE, least_row(v->own));
	json_t *stages = json_array();
	if (ok && report_add_listing(stages, m, v->t))
		json_decref(report_count_code(stages, lines, &x, cx->mem));
	cx->muted--;
	json_object_set_new(j, "built_us", json_real(ok ? x.bill.cycles / v->t->rates->clock : 0));
	json_object_set_new(j, "spills", json_integer(ok ? MAX(x.spills, 0) : 0));
	json_object_set_new(j, "barriers", json_integer(ok ? barriers_of(stages) : -1));
	json_object_set_new(j, "gains", json_string(ok ? gained(v, &x) : ""));
	json_decref(stages);
}

/* Other warps, which the choice has compared before there is code: only code tells what they take.  Ranks of rows of 256 by
 * 32 warps take an H200 693 us, by 8 of them 462: compiled 618 and 489, before that 958 and 1,043. */
static void
build_warps(Variants *v, int lines)
{
	const char *name = schedule_info[SCHEDULE_WARPS].text;
	int now = func_warps(v->own->f), most = v->t->max_warps / 2;
	const int others[] = {now / 2, 2 * now, now / 4};
	if (v->own->bill.part[BILL_PRODUCTS] > 0 || v->own->f->schedule.share > 1 || variant_is_given(v, name) ||
	    func_find(v->own->f, OP_ROLES))
		return;
	for (int i = 0; i < LEN(others); i++) {
		int nth = others[i] > 0 && others[i] <= most ? variant_try(v, name, others[i], false) : -1;
		if (nth >= 0)
			build(v, nth, lines);
	}
}

/* The most warps with which each row that warps share is of one, so that they exchange nothing at barriers. */
static void
build_alone(Variants *v, int lines)
{
	const char *name = schedule_info[SCHEDULE_WARPS].text;
	int now = func_warps(v->own->f), alone = now;
	for (int i = 0; i < v->own->lines.n; i++) {
		const InspectLine *l = &v->own->lines.at[i];
		if (l->across > 1)
			alone = MIN(alone, now % l->across == 0 ? now / l->across : 1);
		else if ((l->kind == INSPECT_CONVERT || l->kind == INSPECT_MOVE) && l->smem_bytes > 0)
			alone = 1;
	}
	bool can = alone < now && !variant_is_given(v, name) && v->own->f->schedule.share <= 1 &&
	    !func_find(v->own->f, OP_ROLES) && !(v->own->bill.part[BILL_PRODUCTS] > 0 && v->own->all_wgmma);
	int nth = can ? variant_try(v, name, alone, true) : -1;
	if (nth < 0)
		return;
	json_object_set_new(json_array_get(v->all, (size_t)nth), "alone", json_true());
	build(v, nth, lines);
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

/* Functions by their fast:: forms, chosen anew. */
static void
build_fast(Variants *v, int lines)
{
	if (!ANY_OP(op, v->own->f->body, report_is_slow(op)))
		return;
	int nth = variant_add(v, (With){.fast = true}, "fast:: functions and divisions", true);
	if (nth < 0)
		return;
	json_object_set_new(json_array_get(v->all, (size_t)nth), "fast", json_true());
	build(v, nth, lines);
}

/* The values of a schedule that was compared which are other than those of the one that was taken. */
static With
unlike(const Variants *v, const Tried *c, const Tried *taken, Text *said)
{
	NamedConst *value = NEW_ARRAY(v->k->program->cx->mem, NamedConst, c->n);
	With with = {.value = value};
	for (int i = 0; i < c->n; i++) {
		if (variant_is_given(v, c->value[i].name))
			continue;
		value[with.n++] = c->value[i];
		if (choose_has(taken->value, taken->n, &c->value[i]))
			continue;
		text_printf(said, "%s%s = ", said->n ? ", " : "", c->value[i].name);
		const_text(&c->value[i].value, said);
	}
	return with;
}

/* The fastest of the schedules that were compared beside the one that was taken, where it is close: only code tells which
 * takes less. */
static void
build_next(Variants *v, int lines)
{
	const Tried *taken = NULL, *next = NULL;
	for (int i = 0; i < v->why->tried.n; i++)
		taken = v->why->tried.at[i].is_chosen ? &v->why->tried.at[i] : taken;
	for (int i = 0; taken && i < v->why->tried.n; i++) {
		const Tried *c = &v->why->tried.at[i];
		bool is_other = c->cycles >= 0 && !c->is_chosen && c->n > 0 && c->bill.cycles != taken->bill.cycles;
		next = is_other && (!next || c->bill.cycles < next->bill.cycles) ? c : next;
	}
	if (!next || next->bill.cycles > VARIANT_CLOSE * taken->bill.cycles)
		return;
	Text said = {0};
	With with = unlike(v, next, taken, &said);
	int nth = said.n ? variant_add(v, with, said.at, false) : -1;
	text_close(&said);
	if (nth < 0)
		return;
	json_object_set_new(json_array_get(v->all, (size_t)nth), "next", json_true());
	build(v, nth, lines);
}

/* Where one value made it faster, more of it the same way: of records' checksums by one warp each an H200 takes 61 us for
 * 128 records a program, 49 for 64, 18 for 32. */
static void
build_further(Variants *v, int lines)
{
	double least = LESS * v->own->bill.cycles / v->t->rates->clock;
	int n = (int)json_array_size(v->all), further = 0;
	for (int i = 0; i < n && further < FURTHER; i++) {
		double us = json_number_value(json_object_get(json_array_get(v->all, (size_t)i), "built_us"));
		const NamedConst *c = v->with.at[i].n == 1 ? v->with.at[i].value : NULL;
		Const now;
		bool is_gain = us > 0 && us <= least && c && c->value.kind == CONST_INT;
		if (!is_gain || !bound_value(v->now, c->name, &now) || now.i == c->value.i)
			continue;
		int nth = variant_try(v, c->name, c->value.i > now.i ? 2 * c->value.i : c->value.i / 2, false);
		if (nth < 0 || json_object_get(json_array_get(v->all, (size_t)nth), "built_us"))
			continue;
		build(v, nth, lines);
		further++;
	}
}

void
variants_build_tiles(Variants *v, int lines, double most)
{
	int nth = next_built(v, most);
	for (int n = 0; nth >= 0 && n < BUILT; n++, nth = next_built(v, most))
		build(v, nth, lines);
}

void
variants_build(Variants *v, int lines, bool counted)
{
	build_fast(v, lines);
	if (counted) {
		build_alone(v, lines);
		build_next(v, lines);
		build_warps(v, lines);
	}
	build_further(v, lines);
}
