/* Which matrix instruction products take, why none that is better, and what that one would be
 * worth. */
#include "tool/report/said.h"

#include <stdlib.h>
#include <string.h>

bool
said_is_weaker(const SaidLine *l)
{
	return strncmp(l->what, "dot", 3) == 0 && l->x->way &&
	       strstr(l->x->way, "not of a warpgroup");
}

const json_t *
said_wgmma_variant(const Said *s)
{
	const json_t *v;
	size_t i;
	json_array_foreach(
	    s->variants, i, v) if (json_is_true(json_object_get(v, "wgmma"))) return v;
	return NULL;
}

const char *
said_gain(const Said *s)
{
	double products = said_part(s, BILL_PRODUCTS);
	if (s->wgmma_us <= 0 || s->wgmma_us >= .99 * products)
		return "";
	double us = said_with(s, BILL_PRODUCTS, products - s->wgmma_us);
	const char *then =
	    said_matters(s, s->us - us)
		? arena_printf(s->mem, ", the launch about %s", said_micro(s, us))
		: ", of which the launch gains little by itself, as they do not bound it";
	return arena_printf(s->mem, ". By these products take %s in all, by wgmma %s%s",
	    said_micro(s, products), said_micro(s, s->wgmma_us), then);
}

/* What would have to be other for wgmma. */
static const char *
mend(const Said *s, const SaidLine *l)
{
	const json_t *by = said_wgmma_variant(s);
	if (strstr(l->x->way, "along K"))
		return ". What counts is how it lies in memory: another layout of the tensor, or a "
		       "kernel that turns it before, "
		       "gives that; a .T in the source leaves it as it lies";
	if (!by)
		return "";
	double us = said_scaled(s, json_number_value(json_object_get(by, "us")));
	return arena_printf(s->mem,
	    ". With %s they are by wgmma, and the launch would take %s by the model",
	    json_string_value(json_object_get(by, "values")), said_micro(s, us));
}

/* Why no other instruction of warpgroups: of 16 elements along K one reads 64 rows of the left
 * operand and n columns of the right one for 64 n products of each. */
static const char *
say_wider(const Said *s)
{
	enum { ROWS = 64, WIDEST = 256 };
	static const char word[] = "wgmma.n";
	double now = 0, shared = said_part(s, BILL_SHARED);
	bool registers = false, more = false;           /* has a tile more columns than its instruction? */
	for (int i = 0; i < s->lines.n; i++) {
		const char *at = strstr(s->lines.at[i].what, word), *columns = at ? strchr(s->lines.at[i].what, 'x') : NULL;
		more |= columns && strtol(columns + 1, NULL, 10) > strtol(at + sizeof word - 1, NULL, 10);
		now = MAX(now, at ? (double)strtol(at + sizeof word - 1, NULL, 10) : 0);
		registers |= at && !strstr(s->lines.at[i].details, "operands in shared memory");
	}
	bool near = shared >= REPORT_NEAR * said_part(s, said_longest(s, -1));
	if (now <= 0 || (registers && near))
		return "";
	if (!near && registers)
		return now < WIDEST && more
			   ? ". None of wgmma multiplies these faster: more columns (n256) only read shared memory less, "
			     "which does not bound the kernel"
			   : ". None of wgmma multiplies these faster";
	if (!near)
		return arena_printf(s->mem,
		    ". None of wgmma multiplies faster: %sa left operand in registers only %s shared memory less, which "
		    "does not bound the kernel",
		    more ? "more columns (n256) or " : "", more ? "read" : "reads");
	double reads = (ROWS + now) / now, left = 1 / reads, wide = (1 + (double)ROWS / WIDEST) / reads;
	const char *columns = now < WIDEST
				  ? arena_printf(s->mem,
					"n256, of a tile with 256 columns, would read %.2f times as much for the same "
					"products, with %.0f registers of a thread for each accumulator; ",
					wide, (double)WIDEST / 2)
				  : "";
	return arena_printf(s->mem,
	    ". All multiply as fast, but shared memory bounds the kernel as well, of which each "
	    "instruction reads both operands: %sa left operand in registers would read %.2f times as "
	    "much, but copies bring it to shared memory, and the compiler holds in registers only what "
	    "is computed or used again",
	    columns, left);
}

const char *
said_products(const Said *s)
{
	SaidList all = {0};
	bool weaker = false;
	for (int i = 0; i < s->lines.n; i++) {
		const SaidLine *l = &s->lines.at[i];
		SaidList parts = {0};
		if (strncmp(l->what, "dot", 3) != 0)
			continue;
		said_add(s, &parts, l->details);
		if (l->x->reason && !strstr(l->details, l->x->reason))
			said_add(s, &parts, l->x->reason);
		said_add(s, &all,
		    arena_printf(s->mem, "line %d %s: %s%s", l->line, l->what,
			said_join(s, &parts, ", "), said_is_weaker(l) ? mend(s, l) : ""));
		weaker |= said_is_weaker(l);
	}
	return all.n ? arena_printf(s->mem, "%s%s%s", said_join(s, &all, "; "),
			   weaker ? said_gain(s) : "", say_wider(s))
		     : "It multiplies no matrices.";
}
