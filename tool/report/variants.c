/* What the launch would take with other tiles, by the model: for each compile-time value that is a tile's extent the powers
 * of two beside it and the next greater one, all else as it is given or chosen.
 *
 *     deq_odd<BM = 64, BN = 128>    BM = 128: 123 us, by wgmma; BM = 32: 391 us
 *
 * Those estimates are made before there is code.  What may be worth taking is compiled the whole way: its time as built is
 * on the scale of the kernel's own. */
#include "tool/report/report.h"

#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"

#include <string.h>
#include <time.h>

enum { LEAST = 8, MOST = 4096 };
static const double SECONDS = 0.7;                        /* for all tiles; for schedules again */
enum { BUILT = 3 };                                       /* that are compiled the whole way */
enum { LINE = 128 };                                      /* bytes of memory */
static const double LESS = 0.95;                          /* of the kernel's own, before there is code: worth compiling */

typedef struct With {
	const NamedConst *value;
	int n;
} With;

typedef struct Variants {
	const Cli *cli;
	Kernel *k;
	const Target *t;
	clock_t begun;
	const ChooseWhy *why;
	const Bound *now;
	const Inspection *own;
	json_t *all;
	VEC(With) with;                                         /* of each of all */
} Variants;

static bool
is_given(const Cli *cli, const char *name)
{
	return ANY_OF(i, cli->define.n, strcmp(cli->define.at[i].name, name) == 0);
}

/* Is it the step of a loop? */
static bool
is_step(const StmtList *body, const char *name)
{
	for (int i = 0; i < body->n; i++) {
		const Stmt *st = body->at[i];
		if ((st->kind == ST_FOR && st->range.n == 3 && expr_mentions(st->range.at[2], name)) ||
		    is_step(&st->body, name) || is_step(&st->orelse, name))
			return true;
	}
	return false;
}

bool
report_is_part(const Kernel *k, const char *name)
{
	const Item *it = k->item;
	bool parts = is_step(&it->body, name), number = false;
	for (int i = 0; i < it->params.n; i++)
		for (int d = 0; d < it->params.at[i].type->dims.n; d++)
			if (expr_mentions(it->params.at[i].type->dims.at[d], name))
				return false;
	for (int i = 0; i < it->grid.n; i++)
		parts |= expr_mentions(it->grid.at[i].count, name);
	for (int i = 0; i < it->ctparams.n; i++)
		number |= it->ctparams.at[i].name == name && it->ctparams.at[i].value &&
		    it->ctparams.at[i].value->kind == EX_INT;
	return parts && number;
}

static bool
all_wgmma(const Func *f)
{
	return !ANY_OP(op, f->body, op_family(op) == FAMILY_DOT);
}

/* Of a schedule that was compared: does it have that value, and others of tiles as they are bound? */
static bool
is_such(const Tried *c, const Bound *b, const char *name)
{
	bool has = false;
	for (int i = 0; i < c->n; i++) {
		has |= strcmp(c->value[i].name, name) == 0;
		if (schedule_named(c->value[i].name) < 0 && !choose_has(b->ct, b->nct, &c->value[i]))
			return false;
	}
	return has;
}

/* Has the choice compared the same, and had no room for it, or found it slower than what it took? */
static bool
is_refuted(const ChooseWhy *why, const Bound *b, const char *name)
{
	double least = -1, taken = -1;
	bool is_refused = false;
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		taken = c->is_chosen ? c->bill.cycles : taken;
		if (!is_such(c, b, name))
			continue;
		is_refused |= c->cycles < 0 && choose_no_room(c->refused);
		least = c->cycles >= 0 && (least < 0 || c->bill.cycles < least) ? c->bill.cycles : least;
	}
	return least < 0 ? is_refused : taken > 0 && least >= taken;
}

/* "BM = 128, BN = 64": the values of tiles that are other than now; those of a tile that was chosen anew for other warps
 * too. */
static void
put_values(const Bound *now, const Bound *b, Text *out)
{
	for (int i = 0; i < b->nct; i++) {
		if (b->ct[i].value.kind != CONST_INT || schedule_named(b->ct[i].name) >= 0 ||
		    choose_has(now->ct, now->nct, &b->ct[i]))
			continue;
		text_printf(out, "%s%s = %lld", out->n ? ", " : "", b->ct[i].name, (long long)b->ct[i].value.i);
	}
}

/* Does code need more registers than there are, by an estimate?  A bill of it, before there is code, knows of none. */
static bool
would_spill(Func *f, const Target *t)
{
	Pressure p;
	return pressure_estimate(f, t, &p) && pressure_spills(p);
}

/* Is its code slower than was known where schedules were compared?  Then what was found slower there may not be: hard pairs
 * by 64 columns take an H200 65 us, by the 128 that were taken 98, estimated at 31 before there was code. */
static bool
is_dearer(const Inspection *own)
{
	static const double DEARER = 1.25;
	return own->compared > 0 && own->bill.cycles > DEARER * own->compared;
}

/* With all else as it is given or chosen. */
static Module *
module_with(const Variants *v, With values, Bound *b)
{
	Compile *cx = v->k->program->cx;
	Cli with = *v->cli;
	bool misuse = false;
	with.define.at = NEW_ARRAY(cx->mem, Pair, with.define.n + values.n);
	for (int i = 0; i < with.define.n; i++)
		with.define.at[i] = v->cli->define.at[i];
	for (int i = 0; i < values.n; i++) {
		Text text = {0};
		const_text(&values.value[i].value, &text);
		with.define.at[with.define.n++] = (Pair){values.value[i].name, text_take(&text, cx->mem)};
	}
	return cli_bound_module(&with, v->k, NULL, v->t->name, NULL, &misuse, b, NULL);
}

static bool
is_warps(const char *name)
{
	return schedule_named(name) == SCHEDULE_WARPS;
}

/* Adds what the launch takes with these values; `said`: they in words, NULL: those of tiles that are other than now, and
 * warps.  -1: it does not compile, is not modelled, is there, or `may_spill` not and seems to. */
static int
add(Variants *v, With with, const char *said, bool may_spill)
{
	Compile *cx = v->k->program->cx;
	Bound b;
	Bill bill;
	if ((double)(clock() - v->begun) / CLOCKS_PER_SEC > SECONDS)
		return -1;
	cx->muted++;
	Module *m = module_with(v, with, &b);
	Func *f = m ? m->funcs.at[0] : NULL;
	const char *name = with.value[0].name;
	bool ok = f && (said || is_warps(name) || is_dearer(v->own) || !is_refuted(v->why, &b, name)) &&
	    ((choose_bill(&b, f, v->t, cx->mem, &bill) && bill.cycles > 0) ||
	    (estimate_bill(f, &b, v->t, cx->mem, NULL, &bill) && bill.cycles > 0)) &&  /* as cli_inspect does */
	    (may_spill || !would_spill(f, v->t));
	cx->muted--;
	if (!ok)
		return -1;
	Text text = {0}, values = {0};
	if (said)
		text_put(&values, said);
	else
		put_values(v->now, &b, &values);
	if (!said && is_warps(name))
		text_printf(&values, "%swarps = %lld", values.n ? ", " : "", (long long)with.value[0].value.i);
	bill_print(&bill, v->t, &text);
	double us = bill.cycles / v->t->rates->clock;
	json_t *other;
	size_t i;
	json_array_foreach(v->all, i, other)            /* chosen anew, two of them may be the same */
		ok = ok && strcmp(json_string_value(json_object_get(other, "values")), values.at) != 0 &&
		    (!said || strcmp(json_string_value(json_object_get(other, "bill")), text.at) != 0);
	if (ok) {
		vec_push(cx->mem, &v->with, with);
		json_array_append_new(v->all, json_pack("{s:s, s:f, s:s, s:b}", "values", values.at, "us", us, "bill",
						  text.at, "wgmma", all_wgmma(f)));
	}
	text_close(&values);
	text_close(&text);
	return ok ? (int)json_array_size(v->all) - 1 : -1;
}

static int
try(Variants *v, const char *name, int64_t value, bool may_spill)
{
	NamedConst *one = NEW(v->k->program->cx->mem, NamedConst);
	if (value < (is_warps(name) ? 1 : LEAST) || value > MOST)
		return -1;
	*one = (NamedConst){name, {.kind = CONST_INT, .i = value}, NOWHERE};
	return add(v, (With){one, 1}, NULL, may_spill);
}

/* ---- as built ---- */

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
	double least = MOST * LEAST;
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
	Bound b;
	Inspection x;
	cx->muted++;
	Module *m = module_with(v, v->with.at[nth], &b);
	bool ok = m && cli_inspect(m, v->t, &b, &x) && least_row(&x) >= MIN(LINE, least_row(v->own));
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
	if (v->own->bill.part[BILL_PRODUCTS] > 0 || v->own->f->schedule.share > 1 || is_given(v->cli, name) ||
	    func_find(v->own->f, OP_ROLES))
		return;
	for (int i = 0; i < LEN(others); i++) {
		int nth = others[i] > 0 && others[i] <= most ? try(v, name, others[i], false) : -1;
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
		else if (l->kind == INSPECT_CONVERT && l->smem_bytes > 0)
			alone = 1;
	}
	bool can = alone < now && !is_given(v->cli, name) && v->own->f->schedule.share <= 1 &&
	    !func_find(v->own->f, OP_ROLES) && !(v->own->bill.part[BILL_PRODUCTS] > 0 && v->own->all_wgmma);
	int nth = can ? try(v, name, alone, true) : -1;
	if (nth < 0)
		return;
	json_object_set_new(json_array_get(v->all, (size_t)nth), "alone", json_true());
	build(v, nth, lines);
}

/* The values of a schedule that was compared which are other than those of the one that was taken. */
static With
unlike(const Variants *v, const Tried *c, const Tried *taken, Text *said)
{
	NamedConst *value = NEW_ARRAY(v->k->program->cx->mem, NamedConst, c->n);
	With with = {value, 0};
	for (int i = 0; i < c->n; i++) {
		if (is_given(v->cli, c->value[i].name))
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
	static const double CLOSE = 1.1;
	const Tried *taken = NULL, *next = NULL;
	for (int i = 0; i < v->why->tried.n; i++)
		taken = v->why->tried.at[i].is_chosen ? &v->why->tried.at[i] : taken;
	for (int i = 0; taken && i < v->why->tried.n; i++) {
		const Tried *c = &v->why->tried.at[i];
		bool is_other = c->cycles >= 0 && !c->is_chosen && c->n > 0 && c->bill.cycles != taken->bill.cycles;
		next = is_other && (!next || c->bill.cycles < next->bill.cycles) ? c : next;
	}
	if (!next || next->bill.cycles > CLOSE * taken->bill.cycles)
		return;
	Text said = {0};
	With with = unlike(v, next, taken, &said);
	int nth = said.n ? add(v, with, said.at, false) : -1;
	text_close(&said);
	if (nth < 0)
		return;
	json_object_set_new(json_array_get(v->all, (size_t)nth), "next", json_true());
	build(v, nth, lines);
}

json_t *
report_variants(const Cli *cli, Kernel *k, const Target *t, const Inspection *x, const Bound *b,
    const ChooseWhy *why, int lines, bool counted)
{
	Variants v = {cli, k, t, clock(), why, b, x, json_array(), {0}};
	if (x->bill.cycles <= 0 || t->kind != TARGET_PTX || cli->from_input)
		return v.all;
	for (int i = 0; i < b->nct; i++) {
		const Const *now = &b->ct[i].value;
		const char *name = b->ct[i].name;
		bool is_free = now->kind == CONST_INT && schedule_named(name) < 0 && !is_given(cli, name) &&
		    report_is_part(k, name);
		int64_t up = is_free ? INT64_C(1) << log2_ceil(now->i) : 0, down = up / 2;
		if (!is_free || now->i < LEAST || !inspect_is_tile(x->f, now->i))
			continue;
		up = up == now->i ? 2 * up : up;
		try(&v, name, up, false);
		try(&v, name, down, false);
		try(&v, name, 2 * up, false);
	}
	double most = LESS * MAX(x->compared, x->bill.cycles) / t->rates->clock;
	int nth = next_built(&v, most);
	for (int n = 0; nth >= 0 && n < BUILT; n++, nth = next_built(&v, most))
		build(&v, nth, lines);
	if (counted) {
		v.begun = clock();
		build_alone(&v, lines);
		build_next(&v, lines);
		build_warps(&v, lines);
	}
	return v.all;
}
