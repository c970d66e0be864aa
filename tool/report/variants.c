/* What the launch would take with other tiles, by the model: for each compile-time value that is a tile's extent the powers
 * of two beside it and the next greater one, all else as it is given or chosen.
 *
 *     deq_odd<BM = 64, BN = 128>    BM = 128: 123 us, by wgmma; BM = 32: 391 us
 *
 * Those estimates are made before there is code.  What may be worth taking is compiled the whole way: its time as built is
 * on the scale of the kernel's own. */
#include "tool/report/variants.h"

#include "runtime/launch/launch.h"

#include <string.h>

/* Of what is left of the page's time as changes begin, or LEAST seconds: for tiles' estimates, and until when all
 * others have theirs; what comes then is compiled. */
static const double TILES_SHARE = .3, TRIED_SHARE = .6, LEAST = 1.5;

bool
variant_is_given(const Variants *v, const char *name)
{
	return ANY_OF(i, v->cli->define.n, strcmp(v->cli->define.at[i].name, name) == 0);
}

/* cdiv(K, BK), or K / BK */
static bool
is_divided(const Expr *e, const char *name)
{
	const Expr *f = e->kind == EX_CALL ? e->a : NULL;
	if (f && f->kind == EX_NAME && strcmp(f->name, "cdiv") == 0 && e->args.n == 2)
		return expr_mentions(e->args.at[1].e, name);
	return e->kind == EX_BINARY && ((e->bin == BIN_DIV && expr_mentions(e->b, name)) ||
					   is_divided(e->a, name) || is_divided(e->b, name));
}

/* Is it the step of a loop, or are its trips so many parts? */
static bool
is_step(const StmtList *body, const char *name)
{
	for (int i = 0; i < body->n; i++) {
		const Stmt *st = body->at[i];
		if ((st->kind == ST_FOR && st->range.n == 3 &&
			expr_mentions(st->range.at[2], name)) ||
		    (st->kind == ST_FOR &&
			ANY_OF(k, st->range.n, is_divided(st->range.at[k], name))) ||
		    is_step(&st->body, name) || is_step(&st->orelse, name))
			return true;
	}
	return false;
}

/* Does a write of a tensor go where the trip's number alone says, as states[c, :] of chunks? */
static bool
writes_at(const Item *it, const StmtList *body, const char *counter)
{
	for (int i = 0; i < body->n; i++) {
		const Stmt *st = body->at[i];
		const Expr *to = st->kind == ST_ASSIGN && st->target->kind == EX_INDEX ? st->target : NULL;
		bool is_tensor = to && to->a->kind == EX_NAME &&
				 ANY_OF(k, it->params.n, it->params.at[k].name == to->a->name);
		if ((is_tensor && ANY_OF(k, to->subs.n, to->subs.at[k].e && to->subs.at[k].e->kind == EX_NAME &&
					   to->subs.at[k].e->name == counter)) ||
		    writes_at(it, &st->body, counter) || writes_at(it, &st->orelse, counter))
			return true;
	}
	return false;
}

/* Are there as many results as trips of a loop, whose number the value makes?  Another value computes others. */
static bool
counts_results(const Item *it, const StmtList *body, const char *name)
{
	for (int i = 0; i < body->n; i++) {
		const Stmt *st = body->at[i];
		bool divides = st->kind == ST_FOR && st->index.name &&
			       ANY_OF(k, st->range.n, is_divided(st->range.at[k], name));
		if ((divides && writes_at(it, &st->body, st->index.name)) || counts_results(it, &st->body, name) ||
		    counts_results(it, &st->orelse, name))
			return true;
	}
	return false;
}

/* A value in place of another one, where places are divided by a number that the other fits: of
 * scales for each 96 columns, s[k / 96], tiles of 96 may be of 48 and not of 64. */
static bool
fits_numbers(const Expr *e, int64_t now, int64_t value)
{
	const Expr *by = !e                                                                 ? NULL
			 : e->kind == EX_BINARY && (e->bin == BIN_DIV || e->bin == BIN_REM) ? e->b
			 : e->kind == EX_CALL && e->args.n == 2 ? e->args.at[1].e
								: NULL;
	int64_t of = by && by->kind == EX_INT && by->u <= VARIANT_MOST ? (int64_t)by->u : 0;
	if (of > 1 && ((of % now == 0 && of % value != 0) || (now % of == 0 && value % of != 0)))
		return false;
	return !e || !ANY_OF(i, expr_children(e), !fits_numbers(expr_child(e, i), now, value));
}

static bool
body_fits(const StmtList *body, int64_t now, int64_t value)
{
	for (int i = 0; i < body->n; i++) {
		const Stmt *st = body->at[i];
		if (!fits_numbers(st->target, now, value) || !fits_numbers(st->e, now, value) ||
		    ANY_OF(k, st->range.n, !fits_numbers(st->range.at[k], now, value)) ||
		    !body_fits(&st->body, now, value) || !body_fits(&st->orelse, now, value))
			return false;
	}
	return true;
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
	return parts && number && !counts_results(it, &it->body, name);
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

static int64_t
word_now(const Variants *v, int word)
{
	Const now;
	const char *name = schedule_info[word].text;
	if (!schedule_hidden(v->now->kernel, name) && bound_value(v->now, name, &now))
		return now.i;
	return word == SCHEDULE_WARPS ? func_warps(v->own->f) : v->own->f->schedule.at[word];
}

/* The same with words of the schedule, and fast:: before them. */
static void
put_changes(const Variants *v, const With *with, const Bound *b, Text *out)
{
	Text rest = {0};
	put_values(v->now, b, &rest);
	for (int i = 0; i < with->n; i++) {
		int word = schedule_named(with->value[i].name);
		if (word < 0 || (with->n > 1 && word_now(v, word) == with->value[i].value.i))
			continue;
		text_printf(&rest, "%s%s = ", rest.n ? ", " : "", with->value[i].name);
		const_text(&with->value[i].value, &rest);
	}
	text_put(out, with->fast ? VARIANT_FAST : "");
	if (rest.n)
		text_printf(out, "%s%s", out->n ? ", " : "", rest.at);
	text_close(&rest);
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
module_with(const Variants *v, With values, Bound *b, double *other)
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
	Module *m = cli_bound_module(&with, v->k, NULL, v->t->name, NULL, &misuse, b, NULL);
	b->followed = v->now->followed;
	return m ? cli_longer_module(v->k, m, b, v->t, NULL, other) : NULL;
}

void
variant_elaborate(const Variants *v, const With *with)
{
	v->k->program->fast = v->slow.at;
	v->k->program->nfast = with && with->fast ? v->slow.n : 0;
}

/* "BM=128,warps=4": all values that it is compiled with beside those that are given, as -D takes them. */
static const char *
defined(const Variants *v, const With *with)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < with->n; i++) {
		text_printf(&t, "%s%s=", i ? "," : "", with->value[i].name);
		const_text(&with->value[i].value, &t);
	}
	return text_take(&t, v->k->program->cx->mem);
}

/* Behind the passes split(1), of one block, says no more than no such word. */
static const char *
ir_of(const Variants *v, const Module *m)
{
	Text t = {0};
	Schedule *s = &m->funcs.at[0]->schedule, own = *s;
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (i != SCHEDULE_WARPS && schedule_info[i].kind != SCHEDULE_SWITCH && s->at[i] == 1)
			s->at[i] = 0;
	module_print(m, &t);
	*s = own;
	return text_take(&t, v->k->program->cx->mem);
}

/* Chosen anew, two changes may be the same program: the one that was first, or -1. */
static int
same_program(const Variants *v, const char *ir)
{
	return FIRST_OF(i, v->with.n, strcmp(v->with.at[i].ir, ir) == 0);
}

/* Of two changes that are the same program the page says the one with fewer values. */
static void
keep_shorter(Variants *v, int nth, const With *with, const char *values)
{
	json_t *had = json_array_get(v->all, (size_t)nth);
	if (with->n >= v->with.at[nth].n || with->n == 0 || with->fast || v->with.at[nth].fast)
		return;
	v->with.at[nth].value = with->value;
	v->with.at[nth].n = with->n;
	json_object_set_new(had, "values", json_string(values));
	json_object_set_new(had, "define", json_string(defined(v, with)));
}

/* As cli_inspect does. */
static bool
bill_of(const Variants *v, const Bound *b, Func *f, Bill *out)
{
	Arena *mem = v->k->program->cx->mem;
	return (choose_bill(b, f, v->t, mem, out) && out->cycles > 0) ||
	       (estimate_bill(f, b, v->t, mem, NULL, out) && out->cycles > 0);
}

double
variant_left(const Variants *v)
{
	return v->until - (cli_processor_seconds() - v->time->begun);
}

/* Is it one of those that are to be compiled, with the same values? */
static bool
is_there(const Variants *v, const With *with)
{
	return ANY_OF(i, v->with.n, v->with.at[i].wanted && v->with.at[i].fast == with->fast &&
	    strcmp(defined(v, &v->with.at[i]), defined(v, with)) == 0);
}

void
variant_leave(const Variants *v, const With *with)
{
	Text as = {0};
	json_t *one;
	size_t i;
	text_put(&as, with->fast ? VARIANT_FAST : "");
	for (int k = 0; k < with->n; k++) {
		text_printf(&as, "%s%s = ", as.n ? ", " : "", with->value[k].name);
		const_text(&with->value[k].value, &as);
	}
	bool had = false;
	json_array_foreach(v->time->left, i, one)
		had |= strcmp(as.at, json_string_value(one)) == 0;
	if (!v->time->left)
		v->time->left = json_array();
	if (!had)
		json_array_append_new(v->time->left, json_string(as.at));
	text_close(&as);
}

int
variant_add(Variants *v, With with, const char *said, bool may_spill)
{
	Compile *cx = v->k->program->cx;
	Bill bill;
	if (variant_left(v) <= 0) {
		if (!is_there(v, &with))
			variant_leave(v, &with);
		return -1;
	}
	cx->muted++;
	variant_elaborate(v, &with);
	with.m = module_with(v, with, &with.b, &with.other);
	Func *f = with.m ? with.m->funcs.at[0] : NULL;
	with.ir = with.m ? ir_of(v, with.m) : "";
	int same = same_program(v, with.ir);
	const char *name = with.n ? with.value[0].name : NULL;
	bool is_tile = with.n == 1 && !with.fast && !said && schedule_named(name) < 0;
	bool ok = f && strcmp(with.ir, v->ir) != 0 &&
		  (!is_tile || is_dearer(v->own) || !is_refuted(v->why, &with.b, name)) &&
		  (same >= 0 || bill_of(v, &with.b, f, &bill)) && (may_spill || !would_spill(f, v->t));
	variant_elaborate(v, NULL);
	cx->muted--;
	if (!ok)
		return -1;
	Text text = {0}, values = {0};
	if (said)
		text_put(&values, said);
	else
		put_changes(v, &with, &with.b, &values);
	ok = values.n > 0;
	if (ok && same >= 0) {
		keep_shorter(v, same, &with, values.at);
	} else if (ok) {
		bill_print(&bill, v->t, &text);
		vec_push(cx->mem, &v->with, with);
		json_array_append_new(v->all, json_pack("{s:s, s:s, s:f, s:s, s:b}", "values", values.at, "define",
						  defined(v, &with), "us",
						  (bill.cycles + with.other) / v->t->rates->clock, "bill", text.at,
						  "wgmma", all_wgmma(f)));
		same = v->with.n - 1;
	}
	text_close(&values);
	text_close(&text);
	return ok ? same : -1;
}

int
variant_try(Variants *v, const char *name, int64_t value, bool may_spill)
{
	NamedConst *one = NEW(v->k->program->cx->mem, NamedConst);
	int word = schedule_named(name);
	bool turns = word >= 0 && schedule_info[word].kind == SCHEDULE_SWITCH;
	if (value < (turns          ? 0
			: word >= 0 ? 1
				    : VARIANT_LEAST) ||
	    value > (word >= 0 ? schedule_info[word].most : VARIANT_MOST))
		return -1;
	Const now;
	if (word < 0 && bound_value(v->now, name, &now) &&
	    !body_fits(&v->k->item->body, now.i, value))
		return -1;
	*one = (NamedConst){name, {.kind = turns ? CONST_BOOL : CONST_INT, .i = value}, NOWHERE};
	return variant_add(v, (With){.value = one, .n = 1}, NULL, may_spill);
}

json_t *
report_time_json(ReportTime *time, const CliCode *code)
{
	return json_pack("{s:f, s:o, s:b}", "most", time->most, "left", time->left ? time->left : json_array(), "stopped",
	    code->is_late);
}

json_t *
report_variants(const Cli *cli, Kernel *k, const Target *t, const Inspection *x, const Bound *b,
    const ChooseWhy *why, const ReportCode *code, ReportTime *time)
{
	double used = cli_processor_seconds() - time->begun, whole = MAX(time->most - used, MIN(LEAST, time->most));
	Variants v = {.cli = cli, .k = k, .t = t, .why = why, .now = b, .own = x, .all = json_array(), .code = code,
	    .time = time, .until = used + TRIED_SHARE * whole};
	if (x->bill.cycles <= 0 || t->kind != TARGET_PTX || cli->from_input)
		return v.all;
	v.ir = ir_of(&v, x->f->module);
	variants_want_first(&v);
	v.until = MIN(cli_processor_seconds() - time->begun + TILES_SHARE * whole, v.until);
	for (int i = 0; i < b->nct; i++) {
		const Const *now = &b->ct[i].value;
		const char *name = b->ct[i].name;
		bool is_free = now->kind == CONST_INT && schedule_named(name) < 0 && !variant_is_given(&v, name) &&
		    report_is_part(k, name);
		int64_t up = is_free ? INT64_C(1) << log2_ceil(now->i) : 0, down = up / 2;
		if (!is_free || now->i < VARIANT_LEAST || !inspect_is_tile(x->f, now->i))
			continue;
		up = up == now->i ? 2 * up : up;
		variant_try(&v, name, up, false);
		variant_try(&v, name, down, false);
		variant_try(&v, name, 2 * up, false);
	}
	v.until = used + TRIED_SHARE * whole;
	variants_build(&v, used + whole, VARIANT_CLOSE * MAX(x->compared, x->bill.cycles) / t->rates->clock);
	return v.all;
}
