/* Without what a barrier would not be there. */
#include "tool/report/explain/explain.h"

#include <string.h>

/* The values that a choice has beside its warps, but for switches that are off. */
static const char *
rest_of(const Explain *s, const Tried *c)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < c->n; i++) {
		const NamedConst *v = &c->value[i];
		bool off = v->value.kind == CONST_BOOL ? !v->value.i : v->value.i == 1;
		if (off || schedule_named(v->name) == SCHEDULE_WARPS)
			continue;
		text_printf(&t, "%s=", v->name);
		const_text(&v->value, &t);
		text_put(&t, ",");
	}
	return text_take(&t, s->mem);
}

/* The choice that has so many warps and is otherwise what was taken; NULL: none was compared. */
static const Tried *
with_warps(const Explain *s, int warps)
{
	const Tried *taken = NULL;
	for (int i = 0; i < s->why->tried.n; i++)
		taken = s->why->tried.at[i].is_chosen ? &s->why->tried.at[i] : taken;
	for (int i = 0; taken && i < s->why->tried.n; i++) {
		const Tried *c = &s->why->tried.at[i];
		const NamedConst *w =
		    named_const(c->value, c->n, schedule_info[SCHEDULE_WARPS].text);
		if (c->cycles >= 0 && w && w->value.i == warps &&
		    strcmp(rest_of(s, c), rest_of(s, taken)) == 0)
			return c;
	}
	return NULL;
}

/* Fewer warps by which rows are of one warp, as compiled; NULL: none were. */
static const json_t *
built_alone(const Explain *s)
{
	const json_t *v;
	size_t i;
	json_array_foreach(s->variants, i, v)
		if (json_is_true(json_object_get(v, "alone")))
			return v;
	return NULL;
}

/* "takes 1.3 times as long" */
const char *
explain_times(const Explain *s, double times)
{
	static const double SAME = .005;
	return times > 1 + SAME   ? arena_printf(s->mem, "%s times as long", explain_round(s, times))
	       : times < 1 - SAME ? arena_printf(s->mem, "%s of the time", explain_round(s, times))
				  : "as long";
}

static const char *
without_barriers(const Explain *s)
{
	const json_t *v = built_alone(s);
	const char *with = v ? json_string_value(json_object_get(v, "values")) : "";
	int spills = (int)json_integer_value(json_object_get(v, "spills")),
	    left = (int)json_integer_value(json_object_get(v, "barriers"));
	double us = json_number_value(json_object_get(v, "built_us"));
	if (us <= 0 || left != 0)                               /* rows may still be of several warps */
		return "";
	return arena_printf(s->mem,
	    "With %s each warp has all that it needs, and the code has no barrier; the launch then takes %s by the model, "
	        "compiled and "
	    "estimated as this is%s; of eleven kernels so changed nine took an H200 0.84 to 1.34 times as long as "
	        "such a figure says, two 0.5 and 2.3 times.",
	    with, explain_times(s, us / s->us),
	    spills > 0 ? arena_printf(s->mem, ", since a thread spills %d bytes", spills) : "");
}

/* "; with warps = 1 there is none, and the launch takes 1.3 times as long by the model", where that
 * was compared; "": it was not, or was compiled. */
static const char *
fewer_warps(const Explain *s, int warps)
{
	const Tried *other = with_warps(s, warps);
	double times = other && s->compared > 0
			   ? explain_tried(s, other->bill.cycles) / s->compared
			   : 0;
	if (times <= 0 || *without_barriers(s))
		return "";
	return arena_printf(s->mem,
	    "; with warps = %d there is none, and the launch takes %s by the model", warps,
	    explain_times(s, times));
}

/* A warpgroup by itself has whole rows of its products; how other warps share theirs is not known. */
static const char *
fix_rows(const Explain *s, const ExplainLine *l)
{
	enum { GROUP = 4 };
	int across = l->x->across, all = s->x->f->schedule.warps;
	bool plain = s->x->bill.part[BILL_PRODUCTS] <= 0;
	bool can = all % across == 0 && (plain || (s->x->all_wgmma && all / across == GROUP));
	return arena_printf(s->mem, " (%d warps hold a row together%s)", across,
	    can ? fewer_warps(s, all / across) : "");
}

/* ", and the launch takes 1.2 times as long by the model": what the fastest choice takes without a word of the schedule
 * that this has; what no choice has is not known. */
static const char *
price_without(const Explain *s, int word)
{
	double least = 0;
	const Tried *best = NULL;
	for (int i = 0; i < s->why->tried.n; i++) {
		const Tried *c = &s->why->tried.at[i];
		const NamedConst *v = named_const(c->value, c->n, schedule_info[word].text);
		bool has = v && (v->value.kind == CONST_BOOL ? v->value.i != 0 : v->value.i > 1);
		if (c->cycles < 0 || has || (best && c->bill.cycles >= least))
			continue;
		best = c;
		least = c->bill.cycles;
	}
	double times =
	    best && s->compared > 0 ? explain_tried(s, least) / s->compared : 0;
	return times > 0 ? arena_printf(s->mem, ", and the launch takes %s by the model", explain_times(s, times))
			 : ", what the launch then takes was not compared";
}

/* Of blocks that share a program. */
static const char *
fix_split(const Explain *s)
{
	return arena_printf(s->mem, " (%d blocks share a program; with split = 1 there is none%s)",
	    s->x->f->schedule.split, price_without(s, SCHEDULE_SPLIT));
}

/* A barrier only since two uses of shared memory have the same bytes. */
static const ExplainLine *
own_bytes(const Explain *s, const ExplainLine *l)
{
	Text memory = {0};
	if (!l->x->pair || l->x->pair->is_earlier)
		return NULL;
	inspect_memory(l->x->pair, &memory);
	bool is_bytes = memory.at && strncmp(memory.at, "bytes", 5) == 0;
	text_close(&memory);
	for (int i = 0; is_bytes && i < s->lines.n; i++) {
		const ExplainLine *o = &s->lines.at[i];
		const char *before = arena_printf(s->mem, "before this %s", o->what);
		if (o->line == l->line && o->col == l->col && o->x != l->x &&
		    strstr(o->details, "a barrier in between") &&
		    strncmp(l->details, before, strlen(before)) == 0)
			return o;
	}
	return NULL;
}

static const char *
fix_bytes(const Explain *s, const ExplainLine *own)
{
	int now = MIN(explain_blocks_with(s, 0), explain_resident(s)),
	    then = explain_blocks_with(s, (double)own->x->smem_bytes);
	const char *fits =
	    then <= 0     ? "no block would fit"
	    : then >= now ? "as many blocks would fit"
			  : arena_printf(s->mem, "a multiprocessor would hold %d block%s and not %d", then,
			      then == 1 ? "" : "s", now);
	return arena_printf(s->mem,
	    " (both have the same bytes, as neither needs them when the other does; with %lld more there were none, and "
	    "%s: no word of the header asks for that)",
	    (long long)own->x->smem_bytes, fits);
}

static bool
is_refill(const Explain *s, const ExplainLine *l)
{
	(void)s;
	for (int i = 0; l->x->pair && i < l->conflicts.n; i++) {
		const char *c = l->conflicts.at[i], *slots = strstr(c, " reads slots of "),
			   *more = strstr(c, " read slots of ");
		slots = slots ? slots : more;
		const char *earlier =
		    slots ? strstr(slots, " in an earlier iteration, which ") : NULL;
		if (earlier && strstr(earlier, "copy of"))
			return true;
	}
	return false;
}

static const char *
fix_refill(const Explain *s)
{
	const char *why = explain_behind(s, "not parted into roles: "),
		   *end = strstr(why, "; what was compared");
	if (*why)
		why = arena_printf(s->mem, ", here it is not apart: %.*s",
		    (int)(end ? end - why : (long)strlen(why)), why);
	if (!(s->x->t->has & HAS_SETMAXNREG)) /* no roles */
		return " (one a trip is the fewest where all threads copy and read)";
	return arena_printf(s->mem,
	    " (one a trip is the fewest where all threads copy and read; a role that copies has "
	    "mbarriers "
	    "in its place%s)",
	    why);
}

/* Both write a tensor at tiles of indices. */
static bool
is_indexed(const ExplainLine *l)
{
	const BarrierPair *p = l->x->pair;
	const Op *op = p ? p->after : NULL;
	if (!p || !p->is_global || !p->before_writes || p->before->kind != OP_WRITE ||
	    op->kind != OP_WRITE)
		return false;
	for (int i = 1; i < access_data(op); i++)
		if (op->in[i]->type->kind == TYPE_TILE && op->in[i]->type->rank > 0)
			return true;
	return false;
}

/* Why threads exchange a tile: what uses it. */
static const char *
fix_exchange(const Explain *s, const ExplainLine *l)
{
	const Value *v = &l->x->op->out[0];
	const Op *use = op_after(l->x->op, s->x->f->body);
	while (use && !ANY_OF(i, use->nin, use->in[i] == v))
		use = op_after(use, s->x->f->body);
	OpFamily family = use ? op_family(use) : op_family(l->x->op);
	bool stores = use && (use->kind == OP_WRITE || use->kind == OP_SEND ||
				 use->kind == OP_STORE || use->kind == OP_PUT);
	const Op *from = l->x->op->in[0]->def;
	while (from && (from->kind == OP_CONVERT || from->kind == OP_CAST))
		from = from->in[0]->def;
	bool reads = from && from->kind == OP_READ;
	const char *why = family == FAMILY_DOT && reads
			      ? "products take their operands so; a loop over K whose trips copy them ahead has one a "
				"trip in its place, or mbarriers"
			  : family == FAMILY_DOT ? "products take their operands so, and nothing in the header removes it"
			  : stores             ? "so that each thread writes neighbours"
					       : "what takes it holds other elements in a thread";
	return arena_printf(s->mem, " (other threads compute an element than use it: %s%s)", why,
	    func_warps(s->x->f) > 1 && s->x->bill.part[BILL_PRODUCTS] <= 0 ? fewer_warps(s, 1)
									   : "");
}

/* A part of a tile is in other threads than use it. */
static const char *
fix_extract(const Explain *s, const ExplainLine *l)
{
	const Op *op = l->x->op, *from = op->in[0]->def;
	while (from && (from->kind == OP_CONVERT || from->kind == OP_CAST))
		from = from->in[0]->def;
	bool reads = from && from->kind == OP_READ && from->in[0]->name;
	const char *text = op->place.line <= s->source.n ? s->source.at[op->place.line - 1] : "";
	size_t n = reads ? strlen(from->in[0]->name) : 0, at = (size_t)MAX(op->place.col, 1) - 1;
	bool is_own = reads && at + n < strlen(text) && strncmp(text + at, from->in[0]->name, n) == 0 &&
	    text[at + n] == '[';
	if (is_own && from->place.line != op->place.line)
		return arena_printf(s->mem, " (the code reads %s here and in line %d at once, and threads pass on "
		    "what is whose)",
		    from->in[0]->name, from->place.line);
	if (is_own)
		return arena_printf(s->mem,
		    " (the code reads %s of several trips at once, and threads pass on what each trip takes)",
		    from->in[0]->name);
	if (reads)
		return arena_printf(s->mem,
		    " (line %d reads %s as one tile, and the part of it lies in other threads than use it: read by "
		        "itself it "
		    "is in place)",
		    from->place.line, from->in[0]->name);
	return strstr(l->details, "where the part begins is not known")
		   ? " (only when it runs is it known where the part begins, so that any thread may hold it: an "
		       "index that is "
		     "a constant, as static for has, needs none)"
		   : " (the part lies in other threads than use it)";
}

/* Of bytes that a trip puts and the one before has read; the barrier in between orders two buffers
 * as well. */
static const char *
fix_put(const Explain *s, const ExplainLine *l)
{
	const BarrierPair *p = l->x->pair;
	if (p && (p->after->kind == OP_TALLY || p->before->kind == OP_TALLY))
		return arena_printf(s->mem,
		    " (the block's threads add to one table in shared memory, which is set to 0 once and "
		    "goes to memory once: with persistent = false there is none, and each program adds to "
		    "device memory%s)",
		    price_without(s, SCHEDULE_PERSISTENT));
	if (p && p->before->kind == OP_PUT && p->after->kind == OP_SEND)
		return " (what a tensor map sends lies in shared memory first: nothing in the schedule removes it)";
	if (p && p->before->kind == OP_SENT && p->after->kind == OP_PUT)
		return " (a block that stays puts there what its next program sends)";
	if (p && p->before->kind == OP_PUT && p->after->kind == OP_DOT_START)
		return " (products read shared memory, to which what is computed has to go)";
	if (!p || !p->is_earlier || p->before_writes || p->is_global || p->after->kind != OP_PUT)
		return "";
	int64_t bytes = tile_bytes(p->after->in[1]->type);
	int now = MIN(explain_blocks_with(s, 0), explain_resident(s)),
	    then = explain_blocks_with(s, (double)bytes);
	return arena_printf(s->mem,
	    " (a trip puts where other warps may still read what the one before has put; two buffers in turn, "
	    "%lld bytes more, would need none, and %s: no word of the header asks for that)",
	    (long long)bytes,
	    then <= 0     ? "no block would fit"
	    : then >= now ? "as many blocks would fit"
			  : arena_printf(s->mem, "a multiprocessor would hold %d and not %d", then, now));
}

/* Nothing else is known: which threads the two accesses are of, and whether a trip or a program
 * later they are the same bytes. */
static const char *
fix_pair(const Explain *s, const ExplainLine *l)
{
	const BarrierPair *p = l->x->pair;
	bool alone = strcmp(l->what, "warp barrier") == 0;
	if (!p || strcmp(l->what, "cluster barrier") == 0)
		return "";
	if (p->after->kind == OP_ARRIVE)
		return " (one thread arrives for all, once the others have read; what has no roles "
		       "and copies nothing ahead "
		       "has none)";
	if (alone)
		return "";
	if (p->is_global)
		return " (threads read in device memory what others of the block wrote: none where "
		       "each takes what it has in a "
		       "let)";
	if (p->before->kind == OP_WAIT || p->before->kind == OP_AWAIT || p->before->kind == OP_COPY)
		return " (threads read what others have copied: none where each reads device "
		       "memory itself)";
	if (p->is_earlier)
		return arena_printf(s->mem,
		    " (a trip writes bytes that other warps may still read for the one before: %s)",
		    func_warps(s->x->f) > 1 ? "only one warp needs none"
					    : "nothing in the header removes it");
	return " (the bytes serve two purposes, and other warps may still be at the first: nothing "
	       "in the header parts them)";
}

static const char *
fix_of(const Explain *s, const ExplainLine *l)
{
	if (l->x->across > 1)
		return fix_rows(s, l);
	if (strcmp(l->what, "cluster barrier") == 0 && s->x->f->schedule.split > 1)
		return strstr(l->details, "may not end before") ? "" : fix_split(s);
	if (strcmp(l->what, "cluster barrier") == 0 && s->x->f->schedule.ctas > 1)
		return strstr(l->details, "reach its shared memory")
			   ? ""
			   : arena_printf(s->mem,
				 " (blocks of a cluster share what they copy: with ctas = 1 there is none, but one of each "
				 "block by itself%s)",
				 price_without(s, SCHEDULE_CTAS));
	if (strcmp(l->what, "extract") == 0)
		return fix_extract(s, l);
	if (strcmp(l->what, "split_meet") == 0)
		return arena_printf(s->mem,
		    " (one thread finds out for all which part of the loop the block has done last; with split = 1 "
		    "there is none%s)",
		    price_without(s, SCHEDULE_SPLIT));
	if (strcmp(l->what, "histogram") == 0)
		return " (the block's warps count in one table, which all have to find cleared, "
		       "and have to be done with before "
		       "it is read)";
	if (l->x->pair && l->x->pair->before->kind == OP_MBARRIER)
		return " (one thread sets them up for all: what copies by tensor maps or has roles "
		       "has it, once)";
	if (is_indexed(l))
		return " (tiles of indices of two trips may name the same elements, as far as the "
		       "compiler sees; there "
		       "is none where a range, as in i +: n, takes the loop's dimension)";
	for (int i = 0; strcmp(l->what, "convert") == 0 && i < s->lines.n; i++) {
		const ExplainLine *o = &s->lines.at[i];
		if (o->line == l->line && o->col == l->col && strncmp(o->what, "read ", 5) == 0 &&
		    o->x->not_ahead && strcmp(o->tile, l->tile) == 0)
			return arena_printf(s->mem,
			    " (there is none for what is copied: %s is read, since %s)",
			    o->what + 5, o->x->not_ahead);
	}
	const ExplainLine *own = own_bytes(s, l);
	if (!own && strcmp(l->what, "convert") == 0)
		return fix_exchange(s, l);
	if (!own && is_refill(s, l) && strcmp(l->what, "warp barrier") != 0)
		return fix_refill(s);
	return own ? fix_bytes(s, own) : fix_put(s, l);
}

const char *
explain_barrier_fix(const Explain *s, const ExplainLine *l)
{
	const char *fix = fix_of(s, l);
	return *fix ? fix : fix_pair(s, l);
}

/* ---- all of them ---- */

/* What waiting at them takes, by the latency of each. */
static const char *
say_cost(const Explain *s)
{
	static const double LITTLE = .03;
	double us = json_number_value(json_object_get(s->counted, "barrier_us"));
	if (us <= 0 || s->us <= 0)
		return "";
	return arena_printf(s->mem,
	    "Waiting at barriers takes %s by the model, %s %% of the launch%s.",
	    explain_micro(s, us), explain_round(s, 100 * us / s->us),
	    us < LITTLE * s->us ? ": without them it would take about as long"
				: ", where nothing else hides it");
}

/* Of the code and of a change, those at which a block waits. */
static int
barriers_now(const Explain *s)
{
	int n = 0;
	for (int i = 0; i < s->sass.n; i++)
		n += report_is_barrier(s->sass.line[i]);
	return n;
}

/* Changes that were compiled and have fewer, those with the least time first. */
static const char *
say_fewer(const Explain *s)
{
	enum { SHOWN = 3 };
	const json_t *v, *best[SHOWN] = {NULL};
	size_t i;
	int now = barriers_now(s), n = 0, all = 0;
	json_array_foreach(s->variants, i, v)
	{
		double us = json_number_value(json_object_get(v, "built_us"));
		int left = (int)json_integer_value(json_object_get(v, "barriers"));
		all += us > 0 && left >= 0;
		if (us <= 0 || left < 0 || left >= now || json_is_true(json_object_get(v, "alone")))
			continue;
		int k = MIN(n, SHOWN - 1);
		if (n >= SHOWN && us >= json_number_value(json_object_get(best[k], "built_us")))
			continue;
		for (; k > 0 && us < json_number_value(json_object_get(best[k - 1], "built_us"));
		     k--)
			best[k] = best[k - 1];
		best[k] = v;
		n += n < SHOWN;
	}
	if (!all || !now)
		return "";
	if (!n)
		return built_alone(s) ? ""
		       : all == 1
			   ? "The one change that was compiled has no fewer barriers."
			   : arena_printf(s->mem,
				 "None of the %d changes that were compiled has fewer barriers.",
				 all);
	TextList parts = {0};
	for (int k = 0; k < n; k++) {
		int left = (int)json_integer_value(json_object_get(best[k], "barriers"));
		explain_add(s, &parts,
		    arena_printf(s->mem, "%s has %s, %s",
			json_string_value(json_object_get(best[k], "values")),
			left ? arena_printf(s->mem, "%d", left) : "none",
			explain_times(
			    s, json_number_value(json_object_get(best[k], "built_us")) / s->us)));
	}
	return arena_printf(s->mem,
	    "Of %d changes that were compiled these have fewer barriers than the %d in this code: "
	    "%s.",
	    all, now, explain_join(s, &parts, "; "));
}

void
explain_all_barriers(const Explain *s, TextList *out)
{
	explain_add(s, out, without_barriers(s));
	explain_add(s, out, say_fewer(s));
	explain_add(s, out, say_cost(s));
}
