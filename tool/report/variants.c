/* What the launch would take with other tiles, by the model: for each compile-time value that is a tile's extent the powers
 * of two beside it and the next greater one, all else as it is given or chosen.
 *
 *     deq_odd<BM = 64, BN = 128>    BM = 128: 123 us, by wgmma; BM = 32: 391 us */
#include "tool/report/report.h"

#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"

#include <string.h>
#include <time.h>

enum { LEAST = 8, MOST = 4096 };
static const double SECONDS = 0.7;                        /* for all of them */

typedef struct Variants {
	const Cli *cli;
	Kernel *k;
	const Target *t;
	clock_t begun;
	json_t *all;
} Variants;

static bool
is_given(const Cli *cli, const char *name)
{
	for (int i = 0; i < cli->define.n; i++)
		if (strcmp(cli->define.at[i].name, name) == 0)
			return true;
	return false;
}

static bool
all_wgmma(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_family(op) == FAMILY_DOT)
			return false;
	return true;
}

/* With all else as it is given or chosen; what does not compile, or is not modelled, is left out. */
static void
try(Variants *v, const char *name, int64_t value)
{
	Compile *cx = v->k->program->cx;
	Cli with = *v->cli;
	Bound b;
	Bill bill;
	bool misuse = false;
	if (value < LEAST || value > MOST || (double)(clock() - v->begun) / CLOCKS_PER_SEC > SECONDS)
		return;
	with.define.at = NEW_ARRAY(cx->mem, Pair, with.define.n + 1);
	memcpy(with.define.at, v->cli->define.at, sizeof *with.define.at * (size_t)with.define.n);
	with.define.at[with.define.n++] = (Pair){name, arena_printf(cx->mem, "%lld", (long long)value)};
	cx->muted++;
	Module *m = cli_bound_module(&with, v->k, NULL, v->t->name, NULL, &misuse, &b, NULL);
	Func *f = m ? m->funcs.at[0] : NULL;
	bool ok = f && ((choose_bill(&b, f, v->t, cx->mem, &bill) && bill.cycles > 0) ||
	    (estimate_bill(f, &b, v->t, cx->mem, NULL, &bill) && bill.cycles > 0));     /* as cli_inspect does */
	cx->muted--;
	if (!ok)
		return;
	Text text = {0};
	bill_print(&bill, v->t, &text);
	json_t *one = json_pack("{s:o, s:f, s:s, s:b}", "values", json_sprintf("%s = %lld", name, (long long)value), "us",
	    bill.cycles / v->t->rates->clock, "bill", text.at, "wgmma", all_wgmma(f));
	json_array_append_new(v->all, one);
	text_close(&text);
}

json_t *
report_variants(const Cli *cli, Kernel *k, const Target *t, const Inspection *x, const Bound *b)
{
	Variants v = {cli, k, t, clock(), json_array()};
	if (x->bill.cycles <= 0 || t->kind != TARGET_PTX || cli->from_input)
		return v.all;
	for (int i = 0; i < b->nct; i++) {
		const Const *now = &b->ct[i].value;
		bool is_free = now->kind == CONST_INT && schedule_named(b->ct[i].name) < 0 && !is_given(cli, b->ct[i].name);
		int64_t up = is_free ? INT64_C(1) << log2_ceil(now->i) : 0, down = up / 2;
		if (!is_free || now->i < LEAST || !inspect_is_tile(x->f, b, now->i))
			continue;
		up = up == now->i ? 2 * up : up;
		try(&v, b->ct[i].name, up);
		try(&v, b->ct[i].name, down);
		try(&v, b->ct[i].name, 2 * up);
	}
	return v.all;
}
