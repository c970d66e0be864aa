/* What the choice has compared, as changes that are compiled: what came next, other values of a word, the tile that was
 * taken without its roles, and what was refused for registers that are guessed. */
#include "tool/report/variants.h"

#include <string.h>

enum { WORDS = 3 };                                       /* of each so many */

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

/* A schedule that was compared, where it is close: only code tells which takes less. */
static void
want_compared(Variants *v, const Tried *taken, const Tried *c, const char *as)
{
	if (!c || c->bill.cycles > VARIANT_CLOSE * taken->bill.cycles)
		return;
	Text said = {0};
	With with = unlike(v, c, taken, &said);
	variant_want(v, said.n ? variant_add(v, with, said.at, false) : -1, as);
	text_close(&said);
}

static const Tried *
taken_of(const ChooseWhy *why)
{
	for (int i = 0; i < why->tried.n; i++)
		if (why->tried.at[i].is_chosen)
			return &why->tried.at[i];
	return NULL;
}

/* The tile that was taken without its roles, which the choice may refuse for registers that it counts: differences of
 * gathered rows by 128 x 256 x 64 take an H200 80 us so, and 92 in roles. */
void
variants_want_flat(Variants *v)
{
	const Tried *taken = taken_of(v->why);
	Text said = {0};
	if (!taken)
		return;
	With with = unlike(v, taken, taken, &said);
	NamedConst *value = NEW_ARRAY(v->k->program->cx->mem, NamedConst, with.n);
	for (int i = 0; i < with.n; i++) {
		value[i] = with.value[i];
		if (schedule_named(value[i].name) == SCHEDULE_SPECIALIZE)
			value[i].value.i = 0;
	}
	with.value = value;
	variant_want(v, variant_add(v, with, "the same tile, specialize = false", true), NULL);
}

/* The fastest of those that were compared beside the one that was taken, and the fastest with
 * another value of each word of the schedule: of warps, too, where products take another tile with them. */
void
variants_want_next(Variants *v)
{
	bool multiplies = v->own->bill.part[BILL_PRODUCTS] > 0;
	const Tried *taken = taken_of(v->why), *next = NULL, *of[SCHEDULE_COUNT] = {NULL};
	for (int i = 0; taken && i < v->why->tried.n; i++) {
		const Tried *c = &v->why->tried.at[i];
		const NamedConst *parts = named_const(c->value, c->n, schedule_info[SCHEDULE_SPECIALIZE].text);
		if (c->cycles < 0 || c->is_chosen || c->n == 0 || c->bill.cycles == taken->bill.cycles ||
		    (parts && parts->value.i && !func_find(v->own->f, OP_ROLES))) /* of which no code is counted */
			continue;
		next = !next || c->bill.cycles < next->bill.cycles ? c : next;
		for (int k = 0; k < c->n; k++) {
			int word = schedule_named(c->value[k].name);
			bool other = word >= 0 && (word != SCHEDULE_WARPS || multiplies) &&
				     !choose_has(taken->value, taken->n, &c->value[k]);
			if (other && (!of[word] || c->bill.cycles < of[word]->bill.cycles))
				of[word] = c;
		}
	}
	if (next)
		want_compared(v, taken, next, "next");
	for (int word = 0, n = 0; word < SCHEDULE_COUNT && n < WORDS; word++)
		if (of[word] && of[word] != next) {
			want_compared(v, taken, of[word], NULL);
			n++;
		}
}

/* Has it each number that the header has for a tile? */
static bool
is_headers_tile(const Variants *v, const Tried *c)
{
	const Item *it = v->k->item;
	int same = 0;
	for (int i = 0; i < it->ctparams.n; i++) {
		const Expr *own = it->ctparams.at[i].value;
		const NamedConst *now = named_const(c->value, c->n, it->ctparams.at[i].name);
		bool is_number = own && own->kind == EX_INT && now && now->value.kind == CONST_INT;
		if (now && (!is_number || (uint64_t)now->value.i != own->u))
			return false;
		same += now != NULL;
	}
	return same > 0;
}

/* By registers that are guessed before there is code: of a network of three layers an H200 takes 39.4 us by the header's
 * 128 rows, which were refused and whose code has 122 registers, and 49.6 by the 64 that were chosen. */
void
variants_want_refused(Variants *v)
{
	enum { TRIED = 2 };
	const Tried *taken = taken_of(v->why);
	for (int i = 0, n = 0; taken && i < v->why->tried.n && n < TRIED; i++) {
		const Tried *c = &v->why->tried.at[i];
		Text said = {0};
		bool is_refused = c->cycles < 0 && c->n > 0 && strcmp(c->refused, CHOOSE_NO_REGISTERS) == 0;
		if (!is_refused || !is_headers_tile(v, c))
			continue;
		With with = unlike(v, c, taken, &said);
		bool is_other = said.n > 0;
		said.n = 0;                             /* all of them: others would be chosen anew */
		for (int k = 0; k < with.n; k++) {
			if (with.value[k].value.kind == CONST_BOOL && !with.value[k].value.i)
				continue;
			text_printf(&said, "%s%s = ", said.n ? ", " : "", with.value[k].name);
			const_text(&with.value[k].value, &said);
		}
		variant_want(v, is_other && said.n ? variant_add(v, with, said.at, true) : -1, NULL);
		text_close(&said);
		n++;
	}
}
