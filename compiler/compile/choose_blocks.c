/* Chooses the blocks of a kernel without products of warpgroups: how many warps, and whether blocks stay.
 *
 *     kernel reverse<B = 128>(a: in i16[N], b: out i16[N]) grid(p: cdiv(N, B)) { … }
 *
 * A program of 256 bytes is less than what a multiprocessor moves while it starts a block: the time goes into starting.
 * Blocks that stay, and take one program after another, start once.  Each candidate goes through the passes, and the model
 * (model/bill.c) says what it takes.  What pass coalesce would choose by the tiles' sizes alone stands unless another is
 * clearly better: the model is off by more than the last percents that those rules were tuned for.  It is further off where
 * registers spill, in loops, of which the compiler behind overlaps trips, and for launches that are shorter than their
 * overhead; and who lists warps in tune(...) measured something. */
#include "compile/choose.h"
#include "compile/compile.h"
#include "compile/estimate.h"

#include <stdlib.h>
#include <string.h>

enum { WARPS_MOST = 16, OPS_MOST = 400 };
static const double CLEARLY = 0.92, LISTED = 0.8, DISTANCE = 0.07, LEAST_CYCLES = 8000;

typedef struct Blocks {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	Arena *mem;                                     /* of one candidate */
	Program before;                                 /* `called` grows in that memory */
	Bill bill;                                      /* of what the passes take */
	double best;                                    /* cycles of the best so far, with what its distance costs */
	double limit;                                   /* as little as makes it better at all; 0: nothing was tried */
	int rule;                                       /* warps by the passes */
	int warps, persistent;                          /* of that; 0: as it is */
} Blocks;

static bool
is_open(const Blocks *s, ScheduleName name)
{
	const char *text = schedule_info[name].text;
	return ctparam_named(s->k, text) < 0 && !header_mentions(s->k, text) && !s->how->is_fixed(s->how->user, text);
}

/* The module after all passes, in the memory of the candidate. */
static Module *
compile_with(Blocks *s, const Bound *first, int warps, int persistent, Bound *b)
{
	Compile *cx = s->k->program->cx;
	arena_reset(s->mem);
	arena_reset(cx->tmp);
	s->k->program->called = s->before.called;
	cx->mem = s->mem;
	*b = *first;
	if (warps)
		b->schedule.at[SCHEDULE_WARPS] = warps;
	if (persistent)
		b->schedule.at[SCHEDULE_PERSISTENT] = 1;
	ArgAssumptions a = assumptions_of_sizes(s->mem, b);
	return compile_kernel(s->k, b, s->t->name, &a, NULL);
}

static void
try(Blocks *s, const Bound *first, int warps, int persistent)
{
	Bound b;
	Bill bill;
	Module *m = compile_with(s, first, warps, persistent, &b);
	if (!m || !estimate_bill(m->funcs.at[0], &b, s->t, s->mem, &bill) || bill.spilled > 0)
		return;
	double cycles = bill.cycles * (1 + DISTANCE * abs(log2_ceil(s->rule) - log2_ceil(warps ? warps : s->rule)));
	if (cycles >= s->best)
		return;
	s->best = cycles;
	s->warps = warps;
	s->persistent = persistent;
}

static bool
is_crudely_modelled(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_DOT_ASYNC: case FAMILY_ORDER: case FAMILY_GATHER: case FAMILY_SCATTER: case FAMILY_PTX: return true;
	default: return false;
	}
}

/* Products of warpgroups are estimate.c's; a function of many ops would take long. */
static bool
is_modelled(const Func *f)
{
	int n = 0;
	bool loops = false, multiplies = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (++n > OPS_MOST || is_crudely_modelled(op))
			return false;
		loops |= op_is_loop(op);
		multiplies |= op->kind == OP_DOT;
	}
	return !loops || multiplies;
}

/* Does no program wait for another, count them, or say which it is? */
static bool
may_stay(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		switch (op_family(op)) {
		case FAMILY_ATOMIC: case FAMILY_REPORT: case FAMILY_PTX: case FAMILY_DOT: case FAMILY_BUFFER:
			return false;
		default:
			if (op->kind == OP_WHILE || op->kind == OP_NUM_PROGRAMS)
				return false;
		}
	return f->naxis > 0;
}

static bool
lists(const TuneName *all, int n, const char *name, int64_t value, bool *listed)
{
	bool is = false;
	*listed = false;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < all[i].nvalue && strcmp(all[i].name, name) == 0; j++) {
			*listed = true;
			is |= all[i].value[j].i == value;
		}
	return is;
}

static double
greatest(const Bill *b)
{
	double each = 0;
	for (int i = 0; i < BILL_PARTS; i++)
		each = MAX(each, b->part[i]);
	return each;
}

/* Nothing is faster than memory. */
static bool
can_gain(const Blocks *s)
{
	return s->bill.cycles > LEAST_CYCLES && s->bill.part[BILL_MEMORY] < CLEARLY * greatest(&s->bill);
}

static void
search(Blocks *s, const Bound *first, const TuneName *all, int n)
{
	Bound b;
	bool listed, stays, warps_open = is_open(s, SCHEDULE_WARPS) && first->schedule.warps == 0;
	Module *m = compile_with(s, first, 0, 0, &b);
	const Func *f = m ? m->funcs.at[0] : NULL;
	if (!m || !is_modelled(f) || !estimate_bill(m->funcs.at[0], &b, s->t, s->mem, &s->bill) || !can_gain(s))
		return;
	s->rule = f->schedule.warps;
	lists(all, n, schedule_info[SCHEDULE_PERSISTENT].text, 1, &listed);
	stays = !listed && is_open(s, SCHEDULE_PERSISTENT) && first->schedule.persistent < 0 && may_stay(f) &&
	    s->bill.part[BILL_START] > CLEARLY * greatest(&s->bill);
	lists(all, n, schedule_info[SCHEDULE_WARPS].text, 1, &listed);
	s->limit = s->best = s->bill.cycles * (listed ? LISTED : CLEARLY);
	for (int persistent = 0; persistent <= stays; persistent++)
		for (int warps = MAX(s->rule / 4, 1); warps <= MIN(4 * s->rule, WARPS_MOST); warps *= 2) {
			bool is_listed = lists(all, n, schedule_info[SCHEDULE_WARPS].text, warps, &listed);
			if ((warps_open && (is_listed || !listed)) || warps == s->rule)
				try(s, first, warps == s->rule ? 0 : warps, persistent);
		}
}

static void
add(NamedConst *values, int *n, Compile *cx, ScheduleName name, ConstKind kind, int v)
{
	if (v)
		values[(*n)++] = (NamedConst){intern(cx->names, schedule_info[name].text), {.kind = kind, .i = v}, NOWHERE};
}

bool
choose_blocks(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = k->program->cx;
	Arena *keep = cx->mem;
	Blocks s = {.k = k, .t = t, .how = how, .mem = arena_open(), .before = *k->program};
	TuneName *all;
	int nall;
	*n = 0;
	if (kernel_tune(k, b, &all, &nall))
		search(&s, b, all, nall);
	cx->mem = keep;
	k->program->called = s.before.called;
	arena_close(s.mem);
	if (s.best >= s.limit)
		return false;
	*values = NEW_ARRAY(mem, NamedConst, 2);
	add(*values, n, cx, SCHEDULE_WARPS, CONST_INT, s.warps);
	add(*values, n, cx, SCHEDULE_PERSISTENT, CONST_BOOL, s.persistent);
	if (*n > 0 && how->why)
		choose_explain(*values, *n, &s.bill, t, how->why);
	return *n > 0;
}
