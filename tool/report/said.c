/* Figures as they are read, and lists of sentences. */
#include "tool/report/said.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void
said_add(const Said *s, SaidList *l, const char *text)
{
	for (int i = 0; i < l->n; i++)
		if (strcmp(l->at[i], text) == 0)
			return;
	if (*text)
		vec_push(s->mem, l, text);
}

const char *
said_join(const Said *s, const SaidList *l, const char *between)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < l->n; i++)
		text_printf(&t, "%s%s", i ? between : "", l->at[i]);
	return text_take(&t, s->mem);
}

/* Decimals that leave a number `digits` digits. */
static int
decimals(double v, int digits)
{
	char text[32];
	number_format(text, sizeof text, "%.*e", digits - 1, v);
	int n = digits - 1 - atoi(strchr(text, 'e') + 1);
	return MAX(n, 0);
}

const char *
said_round(const Said *s, double v)
{
	if (v == 0)
		return "0";
	double unit = pow(10, floor(log10(fabs(v))) - 2);
	return arena_printf(s->mem, "%.12g", round(v / unit) * unit);
}

const char *
said_micro(const Said *s, double us)
{
	if (us < 0.01)
		return arena_printf(s->mem, "%.1e µs", us);
	return arena_printf(s->mem, "%.*f µs", us < 100 ? decimals(us, 3) : 0, us);
}

const char *
said_mega(const Said *s, double us)
{
	double mb = us * s->bytes_us / 1e6;
	return mb < 1 ? "less than 1 MB" : arena_printf(s->mem, "%s MB", said_round(s, mb));
}

bool
said_begins(const char *text, const char *const *with, int n)
{
	for (int i = 0; i < n; i++)
		if (strncmp(text, with[i], strlen(with[i])) == 0)
			return true;
	return false;
}

double
said_part(const Said *s, BillPart p)
{
	return s->us > 0 ? bill_us(&s->x->bill, s->x->t, s->x->bill.part[p]) : 0;
}

const LineBill *
said_spent(const Said *s, int line)
{
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (l->file == s->x->f->place.file && l->line == line)
			return l;
	}
	return NULL;
}

double
said_spent_us(const Said *s, const LineBill *l, BillPart p)
{
	return l && s->us > 0 ? bill_us(&s->x->bill, s->x->t, l->part[p]) : 0;
}

bool
said_matters(const Said *s, double us)
{
	return us >= s->us / 100;
}

bool
said_is_rare(const SaidLine *l)
{
	return l->most > 0 && l->runs >= 0 && l->runs < .3 * l->most;
}

bool
said_weighs(const Said *s, int line)
{
	const LineBill *l = said_spent(s, line);
	for (int p = 0; l && p < BILL_PARTS; p++)
		if (said_matters(s, said_spent_us(s, l, (BillPart)p)))
			return true;
	return false;
}

BillPart
said_longest(const Said *s, int but)
{
	int most = but == 0;
	for (int p = 0; p < BILL_PARTS; p++)
		if (p != but && s->x->bill.part[p] > s->x->bill.part[most])
			most = p;
	return (BillPart)most;
}

double
said_with(const Said *s, BillPart p, double less)
{
	double most = said_part(s, said_longest(s, -1)), rest = said_part(s, said_longest(s, p));
	return s->us - most + MAX(rest, said_part(s, p) - less);
}

double
said_alone(const Said *s)
{
	static const double MUCH = .15;
	double alone = s->us - said_part(s, said_longest(s, -1));
	return s->us > 0 && s->x->bill.each <= 0 && s->x->bill.part[BILL_PRODUCTS] > 0 && alone > MUCH * s->us
		   ? alone
		   : 0;
}

static bool
is_same(const Said *s, const SaidLine *a, const SaidLine *b)
{
	return a->x->pair && b->x->pair && a->most >= 0 && b->most >= 0 &&
	       strcmp(a->what, b->what) == 0 && strcmp(a->details, b->details) == 0 &&
	       strcmp(said_join(s, &a->conflicts, ","), said_join(s, &b->conflicts, ",")) == 0;
}

SaidLines
said_merged(const Said *s, int line)
{
	SaidLines all = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const SaidLine *l = &s->lines.at[i];
		int had = 0;
		if (l->line != line)
			continue;
		while (had < all.n && !is_same(s, &all.at[had], l))
			had++;
		if (had < all.n) {
			all.at[had].runs += l->runs;
			all.at[had].most += l->most;
		} else {
			vec_push(s->mem, &all, *l);
		}
	}
	return all;
}
