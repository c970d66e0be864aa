/* What device memory moves, of which lines, and why more than each byte once; what can be changed
 * of accesses. */
#include "tool/report/explain/explain.h"

#include "model/digits/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SAME = 1.03; /* times the bytes of the floor: as many */

/* Bytes of a line: by the time that device memory takes for all, which are those of the floor where that is nearly so. */
const char *
explain_line_mega(const Explain *s, double us)
{
	double all = explain_part(s, BILL_MEMORY) * s->bytes_us;
	bool once = s->x->bill.least > 0 && fabs(all - s->x->bill.least) <= (SAME - 1) * s->x->bill.least;
	return explain_mega(s, once ? us * s->x->bill.least / all : us);
}

/* Lines with the most of the bytes that device memory moves, and the tensors that they are of. */
static const char *
moved(const Explain *s)
{
	enum { SHOWN = 6 };
	static const char *const word[] = {
	    "read ", "write ", "copy ", "send ", "load ", "store ", "atomic "};
	TextList all = {0};
	SpentLines shown = explain_lines_by(s, BILL_MEMORY);
	double part = explain_part(s, BILL_MEMORY);
	for (int i = 0;
	     i < MIN(shown.n, SHOWN) && explain_spent_us(s, shown.at[i], BILL_MEMORY) > part / 20;
	     i++) {
		TextList names = {0};
		for (int k = 0; k < s->lines.n; k++)
			if (s->lines.at[k].line == shown.at[i]->line &&
			    explain_begins(s->lines.at[k].what, word, LEN(word)))
				explain_add(s, &names, strchr(s->lines.at[k].what, ' ') + 1);
		explain_add(s, &all,
		    arena_printf(s->mem, "line %d %s%s%s%s", shown.at[i]->line,
			explain_line_mega(s, explain_spent_us(s, shown.at[i], BILL_MEMORY)),
			names.n ? " (" : "", explain_join(s, &names, ", "), names.n ? ")" : ""));
	}
	return explain_join(s, &all, ", ");
}

const char *
explain_least_mega(const Explain *s)
{
	double bytes = s->x->bill.least;
	return bytes >= 1e6 ? arena_printf(s->mem, "%s MB", explain_round(s, bytes / 1e6))
			    : explain_mega(s, explain_least_memory(s));
}

/* Is a scalar made of what is read? */
static bool
is_data(const Value *v, int depth)
{
	const Op *op = v->def;
	bool is = op && op_has(op, READS);
	for (int i = 0; op && depth > 0 && i < op->nin && !is; i++)
		is = op->in[i]->type->kind != TYPE_TENSOR && is_data(op->in[i], depth - 1);
	return is;
}

/* Has an access indices that are data, a scalar or an element each? */
bool
explain_any_gathered(const Explain *s)
{
	enum { DEEP = 8 };
	for (int i = 0; i < s->lines.n; i++) {
		const Op *op = s->lines.at[i].x->op;
		bool has = s->lines.at[i].x->bytes > 0 && op_is_access(op);
		for (int k = 1; has && k < op->nin && k != access_data(op); k++)
			if (is_data(op->in[k], DEEP) ||
			    (!s->lines.at[i].x->sectors_known && s->lines.at[i].x->accesses > 0))
				return true;
	}
	return false;
}

/* Why device memory moves more than each byte once. */
static const char *
why_more(const Explain *s)
{
	TextList why = {0};
	if (s->x->bill.reread > SAME - 1)
		explain_add(s, &why,
		    arena_printf(s->mem,
			"%.0f %% is what a loop reads once more, when the L2 cache has kept no "
			"more of it",
			100 * s->x->bill.reread));
	if (explain_any_gathered(s))
		explain_add(s, &why,
		    "rows and elements that data names come in blocks of 64 "
		    "bytes, slower than in "
		    "order, and parts of a block are read to be written");
	double least;
	bool parts = ANY_OF(i, s->lines.n, explain_sectors(&s->lines.at[i], &least) > least);
	if (!why.n)
		explain_add(s, &why,
		    parts ? "sectors of which accesses take a part come whole, with their neighbours"
			  : "it counts all that programs access, though some of it is the same");
	return explain_join(s, &why, "; ");
}

/* Of a kernel whose operands the one before makes. */
static const char *
say_made(const Explain *s)
{
	const Func *f = s->x->f;
	TextList names = {0};
	for (int i = f->nparam - f->nmade; i < f->nparam; i++)
		explain_add(s, &names, f->made[i - f->nparam + f->nmade].is_result ? "" : f->param[i].name);
	return names.n == 0 || inspect_is_first(f) ? ""
		   : arena_printf(s->mem,
			 " Bytes of all tensors of the source are counted here, and what of them is not read here the one "
			 "before reads; %s, which that makes, are taken to be in the L2 cache.",
			 explain_names(s, &names));
}

/* What device memory moves, and of which lines; or each byte once, at the rate that the
 * multiprocessors with a program draw. */
const char *
explain_moved(const Explain *s)
{
	const char *lines = moved(s);
	double us = explain_part(s, BILL_MEMORY);
	bool slow = us > SAME * explain_least_memory(s),
	     more = us * s->bytes_us > SAME * s->x->bill.least;
	Text t = {0};
	if (!*lines)
		return "";
	if (slow && more)
		text_printf(&t,
		    "Device memory takes as long as for %s in order, by the model; different bytes "
		    "are %s (%s)",
		    explain_mega(s, us), explain_least_mega(s), why_more(s));
	else
		text_printf(&t, "Device memory moves %s by the model, each byte of a tensor once",
		    explain_line_mega(s, us));
	if (slow && !more)
		text_printf(&t,
		    ", in %s: the multiprocessors that have a program draw less than its rate, by "
		    "which "
		    "that takes %s",
		    explain_micro(s, us), explain_micro(s, explain_least_memory(s)));
	text_printf(&t, ": %s.%s", lines, say_made(s));
	return text_take(&t, s->mem);
}

/* "; line 223's b has 57.6 KB, which programs read 2048 times over: …" of what the L2 cache brings: a tensor that is
 * little of what device memory moves; "". */
const char *
explain_read_again(const Explain *s)
{
	static const double LITTLE = .05, OFTEN = 8, MUCH = .2;
	const Func *f = s->x->f;
	const InspectArg *arg = inspect_args(s->b, f, s->mem);
	const ExplainLine *most = NULL;
	double moved = explain_part(s, BILL_MEMORY) * s->bytes_us, bytes = 0, often = 0, read = 0;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		bool reads = l->x->kind == INSPECT_ACCESS && l->x->op->kind == OP_READ && l->runs > 0 && l->x->tile;
		const Value *v = reads ? l->x->op->in[0] : NULL;
		if (!v || v->type->kind != TYPE_TENSOR || v->def || v->block != f->body || !arg[v->index].known ||
		    explain_is_held(l))
			continue;
		double own = dtype_info[v->type->elem].bits / 8.0, all = l->runs * s->x->bill.launched *
		    (double)tile_bytes(l->x->tile) * (1 - l->x->outside.share);
		for (int d = 0; d < v->type->rank; d++)
			own *= (double)arg[v->index].dim[d];
		if (all > read && own < LITTLE * moved && all >= OFTEN * own &&
		    explain_spent_us(s, explain_spent(s, l->line), BILL_SECTORS) >= MUCH * explain_part(s, BILL_SECTORS))
			most = l, bytes = own, often = all / own, read = all;
	}
	return !most ? ""
		     : arena_printf(s->mem,
			   "; line %d's %s has %s KB in all, which programs read about %.0f times over: one that computes "
			   "for several of them reads its part once for all of these", most->line,
			   most->x->op->in[0]->name, explain_round(s, bytes / 1e3), often);
}

/* Do all rows of the tensor that a tensor map is of begin on a sector? */
static const char *
rows_begin(const Explain *s, const Op *op)
{
	enum { SECTOR = 32 };
	const Func *f = s->x->f;
	const InspectArg *arg = inspect_args(s->b, f, s->mem);
	for (int i = 0; i < op->nin; i++) {
		const Value *v = op->in[i];
		if (v->type->kind != TYPE_TENSOR || v->def || v->block != f->body || !arg[v->index].known)
			continue;
		for (int d = 0; d < v->type->rank; d++) {
			int64_t apart = arg[v->index].stride[d] * dtype_info[v->type->elem].bits / 8;
			if (arg[v->index].dim[d] > 1 && arg[v->index].stride[d] != 1 && apart % SECTOR)
				return arena_printf(s->mem,
				    ", a sector more where one begins inside a sector (the tensor's rows are %lld bytes "
				    "apart)",
				    (long long)apart);
		}
		return ", the fewest sectors, as the tensor's rows begin on one";
	}
	return ", the fewest sectors where the tensor's rows begin on one";
}

/* "copy x in rows of 128 bytes": the innermost extent of the box. */
const char *
explain_map_rows(const Explain *s, const ExplainLine *l)
{
	const char *of = strstr(l->details, " of ");
	long row =
	    of && l->x->tile ? strtol(of + 4, NULL, 10) * dtype_info[l->x->tile->elem].bits / 8 : 0;
	const char *begin = rows_begin(s, l->x->op);
	return row > 0 ? arena_printf(s->mem, "%s in rows of %ld bytes%s", l->what, row, begin)
		       : arena_printf(s->mem, "%s%s", l->what, begin);
}

/* ---- what can be changed ---- */

static const BillPart by_width[] = {BILL_MEMORY, BILL_SECTORS, BILL_REQUESTS, BILL_WAITING};

/* Has a line a twentieth of the launch in a part that bounds it, and accesses' width changes? */
static bool
takes(const Explain *s, const ExplainLine *l)
{
	double most = 0, longest = explain_term(s, explain_bounding(s));
	for (int i = 0; i < LEN(by_width); i++)
		if (explain_term(s, by_width[i]) >= REPORT_NEAR * longest)
			most =
			    MAX(most, explain_spent_us(s, explain_spent(s, l->line), by_width[i]));
	return most >= s->us / 20 && !explain_is_rare(l);
}

/* Do its threads hold the elements of a whole access, as a read of u4 those of a write of bf16?  Of
 * more, the lanes of that would lie apart. */
bool
explain_is_beside_whole(const Explain *s, const ExplainLine *l)
{
	enum { WHOLE = 16 };
	return ANY_OF(i, s->lines.n,
	    op_is_access(s->lines.at[i].x->op) && s->lines.at[i].x->bytes >= WHOLE &&
		s->lines.at[i].x->layout && l->x->layout &&
		layout_equal(s->lines.at[i].x->layout, l->x->layout));
}

/* "line 3 read x, 4 bytes of 16, line 4 read x, 4 bytes of 16: a larger tile permits that" of the
 * accesses that the same would make wider. */
static const char *
wider_by(const Explain *s, const char *how)
{
	enum { WIDEST = 16 };
	TextList lines = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		if (explain_is_narrow(s, l) && takes(s, l) && strcmp(explain_widen(s, l), how) == 0 &&
		    (explain_is_spread(l) || !explain_is_beside_whole(s, l)))
			explain_add(s, &lines,
			    arena_printf(s->mem, "line %d %s, %d byte%s of %d", l->line, l->what,
				l->x->bytes, l->x->bytes == 1 ? "" : "s",
				l->x->wider > 0 ? l->x->wider : WIDEST));
	}
	return lines.n ? arena_printf(
			     s->mem, "%s%s%s", explain_join(s, &lines, ", "), *how ? ": " : "", how)
		       : "";
}

/* An access whose elements lie apart, so that those of the tile's other accesses are held apart,
 * too; NULL. */
static const ExplainLine *
spread_cause(const Explain *s)
{
	for (int i = 0; i < s->lines.n; i++)
		if (explain_is_narrow(s, &s->lines.at[i]) && explain_is_spread(&s->lines.at[i]) &&
		    takes(s, &s->lines.at[i]))
			return &s->lines.at[i];
	return NULL;
}

static bool
is_spread_cause(const Explain *s, const ExplainLine *l)
{
	const ExplainLine *cause = spread_cause(s);
	return cause && cause->line == l->line && cause->col == l->col;
}

/* Whose elements a line moves; "": not known.  A line may get those of several tensors. */
static const char *
of_name(const ExplainLine *l)
{
	return l->x->of ? l->x->of : "";
}

static void
add_accesses(const Explain *s, Suggestions *all)
{
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		const LineBill *own = explain_spent(s, l->line);
		double least, n = explain_sectors(l, &least);
		bool twice = false;
		for (int k = 0; k < i && !twice; k++)
			twice = s->lines.at[k].line == l->line &&
				strcmp(s->lines.at[k].what, l->what) == 0 &&
				strcmp(of_name(&s->lines.at[k]), of_name(l)) == 0;
		BillPart part;
		explain_cost(s, l, &part);
		if (twice)
			continue;
		if (least > 0 && n > least && !explain_banks(l) && !is_spread_cause(s, l))
			explain_suggest(s, all, explain_fewest(s, l), part,
			    arena_printf(s->mem, "if line %d's %s took the fewest sectors", l->line,
				l->what));
		if (explain_banks(l))
			explain_suggest(s, all, explain_fewest(s, l), BILL_SHARED,
			    arena_printf(
				s->mem, "if line %d's %s had no bank conflicts", l->line, l->what));
		if (l->x->not_ahead && explain_can_be_ahead(s, l))
			explain_suggest(s, all,
			    explain_with(s, BILL_WAITING, explain_spent_us(s, own, BILL_WAITING)), BILL_WAITING,
			    arena_printf(s->mem,
				"if line %d's %s were copied ahead, without the %s for "
				"which that line waits "
				"(it is %s)",
				l->line, l->what,
				explain_micro(s, explain_spent_us(s, own, BILL_WAITING)),
				explain_not_ahead(s, l)));
		if (strcmp(l->what, "get") == 0 && l->x->out.bytes == 1 &&
		    explain_spent_us(s, own, BILL_SHARED) >
			.1 * explain_part(s, explain_longest(s, -1)))
			explain_suggest(s, all, 0, BILL_SHARED,
			    arena_printf(s->mem,
				"line %d gets single bytes%s%s from shared memory, %s of it and %s of "
				"instructions in that line: a tensor that lies along K in memory "
				"has none of them",
				l->line, *of_name(l) ? " of " : "", of_name(l),
				explain_micro(s, explain_spent_us(s, own, BILL_SHARED)),
				explain_micro(s, explain_spent_us(s, own, BILL_ISSUE))));
	}
}

/* Its elements adjacent: fewer sectors, and whole accesses for those that are narrow on its
 * account. */
static void
add_spread(const Explain *s, Suggestions *all)
{
	const ExplainLine *cause = spread_cause(s);
	const char *others = cause ? wider_by(s, "") : "";
	if (!cause)
		return;
	double us = explain_fewest(s, cause);
	explain_suggest(s, all, us < SAID_WORTH * s->us ? us : 0, -1,
	    arena_printf(s->mem, "with line %d's %s of elements that are adjacent (%s): %s%s%s",
		cause->line, cause->what, cause->x->cause, explain_widen(s, cause),
		*others ? "; threads then hold so as well what is narrow now: " : "", others));
}

/* "BC = 128", of BC = 64 now, with nothing else? */
static bool
is_larger_tile(const Explain *s, const char *values)
{
	for (int i = 0; i < s->b->nct; i++) {
		const NamedConst *c = &s->b->ct[i];
		size_t n = strlen(c->name);
		char *end;
		if (c->value.kind != CONST_INT || strncmp(values, c->name, n) != 0 || strncmp(values + n, " = ", 3) != 0)
			continue;
		long value = strtol(values + n + 3, &end, 10);
		return *end == '\0' && schedule_named(c->name) < 0 && value > c->value.i;
	}
	return false;
}

/* A larger tile was compiled: what it takes stands among the changes.  min_lstm<BC = 64> reads 4 bytes a thread, and takes
 * an H200 174 us; 128 with 8 bytes 174, 256 with 16 bytes 178. */
static bool
tried_larger(const Explain *s)
{
	return ANY_OF(i, (int)json_array_size(s->variants),
	    explain_built_us(s, json_array_get(s->variants, (size_t)i)) > 0 &&
		is_larger_tile(s,
		    json_string_value(json_object_get(json_array_get(s->variants, (size_t)i), "values"))));
}

/* Accesses that could be wider: the model has too small a figure of what that is worth. */
static void
wider_suggestions(const Explain *s, Suggestions *all)
{
	TextList sorts = {0};
	bool spread = spread_cause(s);
	for (int i = 0; i < s->lines.n; i++) {
		const char *how = explain_widen(s, &s->lines.at[i]);
		if ((strcmp(how, WITH_LARGER) == 0 && tried_larger(s)) || strstr(how, WITH_PADDING))
			continue;
		if (!spread || (*how && !explain_is_spread(&s->lines.at[i])))
			explain_add(s, &sorts, wider_by(s, how));
	}
	BillPart most = by_width[0];
	for (int i = 1; i < LEN(by_width); i++)
		most = explain_part(s, by_width[i]) > explain_part(s, most) ? by_width[i] : most;
	if (sorts.n)
		explain_suggest(s, all, 0, (int)most,
		    arena_printf(s->mem,
			"wider accesses, whose gain the model counts too small or not at all (%s)",
			explain_join(s, &sorts, "; ")));
}

void
explain_access_suggestions(const Explain *s, Suggestions *all)
{
	add_spread(s, all);
	wider_suggestions(s, all);
	add_accesses(s, all);
}

/* Is it the only access of its line? */
static bool
is_alone(const Explain *s, const ExplainLine *l)
{
	return !ANY_OF(i, s->lines.n, s->lines.at[i].line == l->line && s->lines.at[i].x->bytes > 0 &&
	    s->lines.at[i].x->kind == INSPECT_ACCESS && strcmp(s->lines.at[i].what, l->what) != 0);
}

const char *
explain_placed(const Explain *s, const ExplainLine *l, bool *bounds)
{
	enum { SECTOR = 32 };
	int lanes = s->x->t->lanes, bytes = l->x->bytes;
	BillPart p = explain_longest(s, -1);
	bool moves = p == BILL_SECTORS || p == BILL_REQUESTS || (p == BILL_MEMORY && is_alone(s, l));
	*bounds = s->us > 0 && moves &&
		  2 * explain_spent_us(s, explain_spent(s, l->line), p) >= explain_part(s, p);
	return arena_printf(s->mem, "line %d %s, at random %d sectors of %d%s", l->line, l->what,
	    lanes * MAX(bytes / SECTOR, 1), MAX(lanes * bytes / SECTOR, 1), *bounds ? ", which bounds the kernel" : "");
}
