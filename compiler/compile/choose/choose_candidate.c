/* What searches among a kernel's values (choose.c, choose_whole.c, choose_blocks.c, choose_parameters.c) have in common:
 * how a candidate is compiled, what it is made of, and what `inspect --explain` says of it: all that was compared, with its
 * bill, and what was refused. */
#include "compile/choose/choose.h"
#include "compile/compile.h"

#include <string.h>

Candidates
candidates_open(Kernel *k)
{
	return (Candidates){.k = k, .mem = arena_open(), .keep = k->program->cx->mem, .before = *k->program};
}

void
candidates_next(Candidates *c)
{
	Compile *cx = c->k->program->cx;
	arena_reset(c->mem);
	arena_reset(cx->tmp);
	c->k->program->called = c->before.called;
	cx->mem = c->mem;
}

void
candidates_close(Candidates *c)
{
	c->k->program->cx->mem = c->keep;
	c->k->program->called = c->before.called;
	arena_close(c->mem);
}

Func *
choose_compile(Kernel *k, const Bound *b, const Target *t, const PassOptions *opt)
{
	ArgAssumptions a = assumptions_of_dims(k->program->cx->mem, b);
	Module *m = compile_kernel(k, b, t->name, &a, opt);
	return m ? m->funcs.at[0] : NULL;
}

Func *
choose_simplified(Kernel *k, const Bound *b, const Target *t)
{
	const PassOptions opt = {.only = CHOOSE_PASSES};
	return choose_compile(k, b, t, &opt);
}

Func *
choose_with(Kernel *k, const Target *t, const ChooseBinding *how, const NamedConst *values, int n, bool simplified,
    Bound *b)
{
	if (!how->bind(how->user, values, n, b))
		return NULL;
	return simplified ? choose_simplified(k, b, t) : choose_compile(k, b, t, NULL);
}

NamedConst
choose_number(const char *name, int64_t v)
{
	return (NamedConst){name, {.kind = CONST_INT, .i = v}, NOWHERE};
}

NamedConst
choose_word(ScheduleName which, int64_t v)
{
	return choose_number(schedule_info[which].text, v);
}

bool
choose_is_said(const Kernel *k, const ChooseBinding *how, ScheduleName which)
{
	const char *word = schedule_info[which].text;
	return ctparam_named(k, word) >= 0 || header_mentions(k, word) || how->is_fixed(how->user, word);
}

double
choose_programs_along(const Bound *b, unsigned axes)
{
	double n = 1;
	for (int i = 0; i < b->naxis; i++)
		n *= axes >> i & 1 ? (double)MAX(b->grid[i], 1) : 1;
	return n;
}

double
choose_programs(const Bound *b)
{
	return choose_programs_along(b, ~0u);
}

/* ---- why ---- */

bool
choose_no_room(const char *refused)
{
	static const char *const all[] = {CHOOSE_NO_SHARED, CHOOSE_NO_REGISTERS, CHOOSE_NO_BLOCK, CHOOSE_SPILLS};
	return ANY_OF(i, (int)LEN(all), strcmp(refused, all[i]) == 0);
}

void
why_tried(ChooseWhy *why, const NamedConst *values, int n, double cycles, const Bill *bill, const char *refused)
{
	if (!why || !why->mem || (values && n == 0))    /* the header's own, once more */
		return;
	NamedConst *copy = NEW_ARRAY(why->mem, NamedConst, n + 1);
	const char *reason = refused ? refused : bill && bill->refused ? bill->refused : "it does not fit";
	Tried c = {.value = copy, .n = n, .cycles = cycles};
	if (n > 0)
		memcpy(copy, values, sizeof *copy * (size_t)n);
	for (int i = 0; i < n; i++)
		copy[i].name = arena_strdup(why->mem, values[i].name);
	if (bill)
		c.bill = *bill;
	if (cycles < 0)
		c.refused = arena_strdup(why->mem, reason);
	vec_push(why->mem, &why->tried, c);
}

void
why_anew(ChooseWhy *why)
{
	int n = 0;
	for (int i = 0; why && why->mem && i < why->tried.n; i++)
		if (why->tried.at[i].cycles < 0)
			why->tried.at[n++] = why->tried.at[i];
	if (why && why->mem)
		why->tried.n = n;
}

void
why_none(ChooseWhy *why, const char *reason)
{
	if (why && why->mem)
		why->none = reason;
}

void
why_because(ChooseWhy *why, const char *reason)
{
	if (why && why->mem)
		why->because = reason;
}

bool
choose_has(const NamedConst *all, int n, const NamedConst *v)
{
	return VALUE_OF(i, n, strcmp(all[i].name, v->name) == 0,
	    all[i].value.kind == v->value.kind && all[i].value.i == v->value.i, false);
}

void
choose_explain(const NamedConst *chosen, int n, const Bound *header, const Bill *without, const Target *t, Text *out)
{
	bool stays = true;
	for (int i = 0; i < n; i++) {
		text_printf(out, "%s%s = ", i ? ", " : "  chosen: ", chosen[i].name);
		const_text(&chosen[i].value, out);
		stays = stays && choose_has(header->ct, header->nct, &chosen[i]);
	}
	if (stays) {
		text_put(out, ", as the header has it\n");
		return;
	}
	text_put(out, "; the default ");
	if (without->cycles > 0) {
		text_put(out, "would take ");
		bill_print(without, t, out);
	} else {
		text_put(out, "does not fit");
	}
	text_put(out, "\n");
}
