/* What part of the tiles lies outside of the tensors. */
#include "tool/report/explain/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double OUTSIDE = 0.1; /* of a tile's elements: worth a word */

/* The largest power of two of which several have at most a tenth outside; "": none. */
static const char *
explain_fits(const Explain *s, const ExplainLine *l)
{
	double n = l->x->outside.inside;
	if (n != floor(n))
		return "";
	for (double e = l->x->outside.of / 2; e >= 8; e /= 2) {
		double over = ceil(n / e) * e / n - 1;
		if (over > OUTSIDE)
			continue;
		const char *rest =
		    over > 0 ? arena_printf(s->mem, "%.0f %%", over / (1 + over) * 100) : "none";
		return arena_printf(s->mem, "Tiles of %.0f along a dimension of %.0f have %s%s", e,
		    n, rest, over > 0 ? " outside" : "");
	}
	return "";
}

/* An index of an access in the source, behind its bracket: as long as it goes. */
static size_t
index_length(const char *at)
{
	size_t n = 0;
	for (int depth = 0; at[n] && depth >= 0; n++) {
		depth += (at[n] == '(' || at[n] == '[') - (at[n] == ')' || at[n] == ']');
		if (depth < 0 || (depth == 0 && at[n] == ','))
			break;
	}
	return n;
}

/* Does the source take all of the dimension that has the most outside, by ":", or a range of a
 * number of elements that neither programs nor trips part it by? */
static bool
is_whole(const Explain *s, const ExplainLine *l)
{
	const char *text = l->line > 0 && l->line <= s->source.n ? s->source.at[l->line - 1] : "";
	const char *at = (size_t)l->col <= strlen(text) ? strchr(text + l->col - 1, '[') : NULL;
	for (int d = 0; at && d < l->x->outside.dim; d++) {
		at += 1 + index_length(at + 1);
		at = *at == ',' ? at : NULL;
	}
	if (!at)
		return false;
	char *part = text_trim(arena_strndup(s->mem, at + 1, index_length(at + 1))),
	     *range = strstr(part, "+:");
	if (!range)
		return strcmp(part, ":") == 0;
	range = text_trim(range + 2);
	const NamedConst *c = named_const(s->b->ct, s->b->nct, range);
	return c ? !report_is_part(s->b->kernel, c->name)
		 : *range && range[strspn(range, "0123456789")] == '\0';
}

/* Of all times that a line's access runs: a loop's last trip may be apart, with all that is outside. */
static double
outside_of(const Explain *s, const ExplainLine *l)
{
	double runs = 0, outside = 0;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *o = &s->lines.at[i];
		if (o->line != l->line || o->col != l->col || strcmp(o->what, l->what) != 0 ||
		    strcmp(o->tile, l->tile) != 0)
			continue;
		if (o->runs < 0)
			return l->x->outside.share;
		runs += o->runs;
		outside += o->runs * o->x->outside.share;
	}
	return runs > 0 ? outside / runs : l->x->outside.share;
}

/* Of each access the tile with the most. */
static ExplainLines
padded(const Explain *s)
{
	ExplainLines most = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		int k = 0;
		if (outside_of(s, l) < OUTSIDE || strncmp(l->what, "buffer", 6) == 0 ||
		    strncmp(l->what, "mbarr", 5) == 0)
			continue;
		while (k < most.n && strcmp(most.at[k].what, l->what) != 0)
			k++;
		if (k == most.n)
			vec_push(s->mem, &most, *l);
		else if (l->x->outside.share > most.at[k].x->outside.share)
			most.at[k] = *l;
	}
	return most;
}

/* "f16[4096]", also of a buffer of such tiles. */
static const char *
tile_of(const Explain *s, const ExplainLine *l)
{
	const char *at = strncmp(l->tile, "buffer<", 7) == 0 ? strstr(l->tile, " x ") : NULL;
	return at ? arena_strndup(s->mem, at + 3, strlen(at + 3) - 1) : l->tile;
}

const char *
explain_padding(const Explain *s, double *share, double *whole_share)
{
	enum { SHOWN = 2 };
	ExplainLines most = padded(s);
	TextList parts = {0}, smaller = {0}, whole = {0};
	Text out = {0};
	bool any = false;
	*share = *whole_share = 0;
	for (int i = 0; i < most.n; i++) {
		const ExplainLine *l = &most.at[i];
		const InspectOutside *o = &l->x->outside;
		if (parts.n < SHOWN)
			explain_add(s, &parts,
			    arena_printf(s->mem,
				"line %d %s, %.0f %% of %s (%.12g of %.12g along dimension %d)",
				l->line, l->what, o->share * 100, tile_of(s, l),
				round(o->inside * 10) / 10, o->of, o->dim));
		bool fixed = is_whole(s, l);
		any |= !fixed;
		double *of = fixed ? whole_share : share;
		*of = MAX(*of, o->share);
		explain_add(s, &smaller, explain_fits(s, l));
		explain_add(s, &whole, fixed ? arena_printf(s->mem, "%d", l->line) : "");
	}
	if (!most.n)
		return "";
	text_printf(&out,
	    "fewer elements of tiles outside of their tensors, which take time as others do: %s%s",
	    explain_join(s, &parts, "; "), most.n > parts.n ? "; and others" : "");
	if (whole.n)
		text_printf(&out,
		    ". Line%s %s take%s the whole dimension (:) or a range of a fixed length, "
		    "which "
		    "no other tile changes: only a loop or programs that part it, where the kernel "
		    "permits that",
		    whole.n > 1 ? "s" : "", explain_join(s, &whole, ", "), whole.n > 1 ? "" : "s");
	if (any || smaller.n)
		text_printf(&out, ". %s",
		    smaller.n ? explain_join(s, &smaller, "; ")
			      : "Smaller tiles have fewer of them");
	return text_take(&out, s->mem);
}

/* The next power of two, of a tile's extent that is none and that others may stand for; 0: it is no such. */
static int64_t
padded_to(const Explain *s, const NamedConst *c)
{
	int64_t n = c->value.kind == CONST_INT ? c->value.i : 0;
	bool is_tile = n > 2 && (n & (n - 1)) && report_is_part(s->b->kernel, c->name) && inspect_is_tile(s->x->f, n);
	return is_tile ? INT64_C(1) << log2_ceil(n) : 0;
}

/* "BW = 10 is padded to 16, of which 38 % idle" */
static const char *
say_padded(const Explain *s, const NamedConst *c)
{
	int64_t to = padded_to(s, c);
	return !to ? "" : arena_printf(s->mem, "%s = %lld is padded to %lld, of which %.0f %% idle", c->name,
			      (long long)c->value.i, (long long)to, 100 * (1 - (double)c->value.i / (double)to));
}

const char *
explain_powers(const Explain *s)
{
	TextList all = {0};
	for (int i = 0; i < s->b->nct; i++)
		explain_add(s, &all, say_padded(s, &s->b->ct[i]));
	return !all.n ? "" : arena_printf(s->mem, "Tiles have a power of two of elements along each dimension, and what is "
			"padding takes registers and instructions as the rest does: %s.", explain_join(s, &all, "; "));
}

const char *
explain_unpadded(const Explain *s, const char *change)
{
	TextList all = {0};
	for (int i = 0; i < s->b->nct; i++) {
		const NamedConst *c = &s->b->ct[i];
		const char *name = arena_printf(s->mem, "%s = ", c->name),
			   *at = strstr(change, name);
		at = at && at > change && at[-1] != ' ' && at[-1] != '(' ? NULL : at; /* of another name the end */
		long n = at ? strtol(at + strlen(name), NULL, 10) : 0;
		explain_add(s, &all, n > 0 && !(n & (n - 1)) ? say_padded(s, c) : "");
	}
	return all.n ? arena_printf(s->mem, " (%s)", explain_join(s, &all, "; ")) : "";
}

static bool
is_as_large(const Type *t, const Type *tile)
{
	return t->kind == TYPE_TILE && t->rank > 0 && tile && type_count(t) == type_count(tile);
}

/* Of the elements that a line computes the share that ops with tiles as large as that do. */
static double
share_of(const Explain *s, const LineBill *l, const Type *tile)
{
	double as_large = 0, all = 0;
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		double n = 0;
		if (op->place.line != l->line || op->place.file != l->file)
			continue;
		for (int i = 0; i < op->nout; i++)
			n += op->out[i].type->kind == TYPE_TILE ? (double)type_count(op->out[i].type) : 0;
		all += n;
		if (ANY_OF(i, op->nin, is_as_large(op->in[i]->type, tile)) ||
		    ANY_OF(i, op->nout, is_as_large(op->out[i].type, tile)))
			as_large += n;
	}
	return all > 0 ? as_large / all : 0;
}

/* µs of a part in lines that compute with padded tiles, by the share of these that is outside. */
static double
padded_us(const Explain *s, const ExplainLines *most, BillPart p, bool fixed)
{
	double us = 0;
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		double share = 0;
		for (int k = 0; k < most->n; k++)
			if (is_whole(s, &most->at[k]) == fixed)
				share = MAX(share, most->at[k].x->outside.share * share_of(s, l, most->at[k].x->tile));
		us += share > 0 ? share * explain_spent_us(s, l, p) : 0;
	}
	return us;
}

double
explain_without_padding(const Explain *s, bool fixed)
{
	ExplainLines most = padded(s);
	double longest = 0;
	for (int p = 0; p < BILL_PARTS; p++) {
		bool moves = p == BILL_MEMORY || p == BILL_SECTORS || p == BILL_ATOMICS || p == BILL_START;
		double padded = moves ? 0 : padded_us(s, &most, (BillPart)p, fixed);
		longest = MAX(longest, explain_part(s, (BillPart)p) - padded);
	}
	return s->us - explain_part(s, explain_longest(s, -1)) + longest;
}
