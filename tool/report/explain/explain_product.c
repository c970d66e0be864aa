/* Which matrix instruction products take, why none that is better, and what that one would be
 * worth. */
#include "tool/report/explain/explain.h"

#include <stdlib.h>
#include <string.h>

bool
explain_is_weaker(const ExplainLine *l)
{
	return strncmp(l->what, "dot", 3) == 0 && l->x->way &&
	       strstr(l->x->way, "not of a warpgroup");
}

static const json_t *
wgmma_variant(const Explain *s)
{
	const json_t *v;
	size_t i;
	json_array_foreach(
	    s->variants, i, v) if (json_is_true(json_object_get(v, "wgmma"))) return v;
	return NULL;
}

static const char *
gain_of(const Explain *s)
{
	double products = explain_part(s, BILL_PRODUCTS);
	if (s->wgmma_us <= 0 || s->wgmma_us >= .99 * products)
		return "";
	bool matters =
	    explain_matters(s, s->us - explain_with(s, BILL_PRODUCTS, products - s->wgmma_us));
	return arena_printf(s->mem, "These products take %s, by wgmma they would take %s%s",
	    explain_micro(s, products), explain_micro(s, s->wgmma_us),
	    matters ? "" : "; they do not bound the kernel");
}

/* Warps that neither the header nor the choice named: passes' own, or fewer, the most with which a block fits. */
static const char *
with_four(const Explain *s, const ExplainLine *l)
{
	int products = COUNT_OF(i, s->lines.n,
	    s->lines.at[i].line == l->line && strcmp(s->lines.at[i].what, l->what) == 0);
	if (!explain_fitted(s) || !strstr(l->x->way, "fewer than 4 warps"))
		return "";
	return arena_printf(s->mem, ". With 4 warps a block does not fit on a multiprocessor, whatever its stages are%s",
	    products > 1 ? arena_printf(s->mem,
			       ": the line's %d products have shared memory each for itself; those of a loop that is no "
			       "static for have the same, else smaller tiles fit", products)
			 : ": smaller tiles fit");
}

/* What would have to be other for wgmma. */
static const char *
fix_of(const Explain *s, const ExplainLine *l)
{
	const json_t *by = wgmma_variant(s);
	if (*with_four(s, l))
		return with_four(s, l);
	if (strstr(l->x->way, "along K"))
		return ". What counts is how it lies in memory: another layout of the tensor, or a "
		       "kernel that turns it before, "
		       "gives that; a .T in the source leaves it as it lies";
	if (!by)
		return "";
	double us = explain_built_us(s, by);
	return arena_printf(s->mem, ". With %s they are by wgmma%s",
	    json_string_value(json_object_get(by, "values")),
	    us > 0 ? arena_printf(s->mem, ", and the launch takes %s by the model, compiled",
			 explain_micro(s, us))
		   : "");
}

/* Is part of K summed in registers of its own, which are then added to the accumulator's? */
static bool
sums_apart(const ExplainLine *l)
{
	return strstr(l->details, " of K summed apart");
}

/* ": the 2 of a warpgroup take 256, more than the 255 that a thread has", where that keeps a tile from it. */
static const char *
say_registers(const Explain *s, int n, int each)
{
	int most = s->x->t->max_registers;
	return n * each >= most ? arena_printf(s->mem, ": %d take %d, but a thread has %d in all, so that it cannot be", n,
				      n * each, most)
	       : n > 1 ? arena_printf(s->mem, ", %d for %d, of %d that a thread has in all", n * each, n, most)
		       : arena_printf(s->mem, ", of %d that a thread has in all", most);
}

/* Why no other instruction of warpgroups: of 16 elements along K one reads 64 rows of the left
 * operand and n columns of the right one for 64 n products of each. */
static const char *
say_wider(const Explain *s)
{
	enum { ROWS = 64, WIDEST = 256 };
	static const char word[] = "wgmma.n";
	double now = 0, shared = explain_part(s, BILL_SHARED);
	bool registers = false, more = false; /* has a tile more columns than its instruction? */
	bool apart = false, whole = true; /* are its sums apart; have all tiles as many columns as the widest? */
	TextList sums = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const char *at = strstr(s->lines.at[i].what, word),
			   *columns = at ? strchr(s->lines.at[i].what, 'x') : NULL;
		more |= columns &&
			strtol(columns + 1, NULL, 10) > strtol(at + sizeof word - 1, NULL, 10);
		whole &= !columns || strtol(columns + 1, NULL, 10) >= WIDEST;
		apart |= at && sums_apart(&s->lines.at[i]);
		explain_add(s, &sums, at ? arena_printf(s->mem, "%d:%d", s->lines.at[i].line, s->lines.at[i].col) : "");
		now = MAX(now, at ? (double)strtol(at + sizeof word - 1, NULL, 10) : 0);
		registers |= at && !strstr(s->lines.at[i].details, "operands in shared memory");
	}
	bool near = shared >= REPORT_NEAR * explain_part(s, explain_longest(s, -1));
	if (now <= 0 || (registers && near))
		return "";
	if (!near && registers)
		return now < WIDEST && more ? "None of wgmma multiplies these faster: more columns "
					      "(n256) only read shared memory less, "
					      "which does not bound the kernel"
					    : "None of wgmma multiplies these faster";
	if (!near)
		return arena_printf(s->mem,
		    "None of wgmma multiplies faster: %sa left operand in registers only %s shared "
		    "memory less, which "
		    "does not bound the kernel",
		    more ? "more columns (n256) or " : "", more ? "read" : "reads");
	double reads = (ROWS + now) / now, left = 1 / reads,
	       wide = (1 + (double)ROWS / WIDEST) / reads;
	const char *columns =
	    now < WIDEST ? arena_printf(s->mem,
			       "n256%s would read %.2f times as much for the same products, with %d registers of a thread "
			       "for each accumulator%s%s; ",
			       whole ? "" : ", of a tile with 256 columns,", wide, WIDEST / 2,
			       apart ? " and as many for the sums apart, which are added to it" : "",
			       say_registers(s, apart ? 2 * sums.n : sums.n, WIDEST / 2))
			 : "";
	return arena_printf(s->mem,
	    "All of these dtypes multiply as fast, but shared memory bounds the kernel as well, of which each "
	    "instruction reads both operands: %sa left operand in registers would read %.2f times "
	    "as "
	    "much, but copies bring it to shared memory, and the compiler holds in registers only "
	    "what "
	    "is computed or used again",
	    columns, left);
}

/* "fewer than 64 rows", of a warp's instruction, as far as it is one clause; "". */
static const char *
reason_of(const Explain *s, const ExplainLine *l)
{
	static const char head[] = "not of a warpgroup: ";
	const char *at = explain_is_weaker(l) ? strstr(l->x->way, head) : NULL;
	at = at ? at + sizeof head - 1 : "";
	return arena_strndup(s->mem, at, strcspn(at, ";"));
}

/* The instruction's name; NULL: it is no product. */
static const char *
instruction_of(const ExplainLine *l)
{
	const char *at = strncmp(l->what, "dot", 3) == 0 ? strrchr(l->what, ' ') : NULL;
	return at ? at + 1 : NULL;
}

/* "m16n8k16.bf16 (lines 86 and 88), not wgmma: fewer than 64 rows." */
static const char *
brief_of(const Explain *s)
{
	TextList ways = {0};
	bool any_warp = false;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		const char *name = instruction_of(l), *reason = reason_of(s, l);
		TextList lines = {0};
		for (int k = 0; k < s->lines.n && name; k++) {
			const ExplainLine *o = &s->lines.at[k];
			const char *same = instruction_of(o);
			if (same && strcmp(name, same) == 0 && strcmp(reason, reason_of(s, o)) == 0)
				explain_add(s, &lines, arena_printf(s->mem, "%d", o->line));
		}
		if (name)
			explain_add(s, &ways,
			    arena_printf(s->mem, "%s (%s)%s%s%s", name,
				explain_line_list(s, &lines),
				explain_is_weaker(l) ? ", not wgmma" : "", *reason ? ": " : "",
				reason));
		any_warp |= name && strncmp(name, "m16", 3) == 0;
	}
	if (any_warp && s->is_ptx && !(s->x->t->has & HAS_WGMMA))
		explain_add(
		    s, &ways, arena_printf(s->mem, "%s has none of warpgroups", s->x->t->name));
	return ways.n           ? arena_printf(s->mem, "%s.", explain_join(s, &ways, "; "))
	       : s->is_beside ? ""
			      : "It multiplies no matrices.";
}

/* Why operands that a kernel before computes from 8 bits and fewer are multiplied in 16. */
static const char *
say_made(const Explain *s)
{
	const Func *f = s->x->f;
	TextList names = {0};
	int tensors = f->nparam - f->nmade;
	bool narrow = ANY_OF(i, tensors, f->body->arg[i].type->kind == TYPE_TENSOR &&
					     dtype_is_float(f->body->arg[i].type->elem) &&
					     dtype_info[f->body->arg[i].type->elem].bits <= 8);
	for (int i = tensors; i < f->nparam; i++)
		explain_add(s, &names, dtype_info[f->body->arg[i].type->elem].bits == 16 ? f->param[i].name : "");
	return !names.n || !narrow || inspect_is_first(f) ? ""
		   : arena_printf(s->mem,
			 "Instructions of 8-bit floats multiply twice as fast, but values of 8 bits: %s %s of 16, as "
			 "the source computes them (by scales or conversions).",
			 explain_names(s, &names), names.n > 1 ? "are" : "is");
}

void
explain_products(const Explain *s, Answer *out)
{
	bool weaker = false;
	TextList *all = &out->says;
	out->brief = brief_of(s);
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		TextList parts = {0};
		if (strncmp(l->what, "dot", 3) != 0)
			continue;
		explain_add(s, &parts, l->details);
		if (l->x->reason && !strstr(l->details, l->x->reason))
			explain_add(s, &parts, l->x->reason);
		explain_add(s, all,
		    arena_printf(s->mem, "Line %d %s: %s%s.", l->line, l->what,
			explain_join(s, &parts, ", "), explain_is_weaker(l) ? fix_of(s, l) : ""));
		weaker |= explain_is_weaker(l);
	}
	if (weaker && *gain_of(s))
		explain_add(s, all, arena_printf(s->mem, "%s.", gain_of(s)));
	if (all->n)
		explain_add(s, all, say_made(s));
	if (all->n && *say_wider(s))
		explain_add(s, all, arena_printf(s->mem, "%s.", say_wider(s)));
}
