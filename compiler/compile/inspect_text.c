/* The figures as text for people: a line an op, in order of the source, then what a block takes.
 *
 *     6:13   read x       f32[4096]   8 accesses of 16 bytes a thread, 16 of 16 sectors; bounds tested along 1
 */
#include "compile/choose/choose.h"
#include "compile/inspect.h"
#include "model/digits/digits.h"
#include "pass/async/pipeline.h"

#include <math.h>
#include <string.h>

static const double ALONE = 0.87;                       /* of the time: what takes less does not bound it alone */
static const double IDLE = 1.15;                        /* printed where the fullest executes so many times the mean */

/* Between what is said of a line. */
static void
put_next(Text *out, size_t begun)
{
	if (out->n > begun)
		text_put(out, "; ");
}

static void
put_banks(const BankPlan *b, const char *way, Text *out, size_t begun)
{
	if (b->bytes == 0)
		return;
	put_next(out, begun);
	text_printf(out, "%s shared memory %d bytes at a time, %d of %d passes", way, b->bytes, b->passes, b->least);
	if (b->passes > b->least)
		text_put(out, " (bank conflicts)");
}

/* Counted ones are a mean: accesses of data touch now more, now fewer. */
static void
put_sectors(const InspectLine *x, Text *out)
{
	const InspectCount *c = x->counted;
	if (x->sectors_known && x->mean > 0)
		text_printf(out, "%d of %d sectors at worst, %.3g times the fewest in the mean", x->touched, x->least,
		    x->mean);
	else if (x->sectors_known)
		text_printf(out, "%d of %d sectors", x->touched, x->least);
	else if (c && c->n > 0)
		text_printf(out, "%.3g of %.3g sectors, counted in %lld of %lld programs", (double)c->total / (double)c->n,
		    (double)c->least / (double)c->n, (long long)c->programs, (long long)c->of);
	else if (c)
		text_printf(out, "sectors unknown: no access of a whole warp in %lld of %lld programs",
		    (long long)c->programs, (long long)c->of);
	else
		text_put(out, "sectors unknown: its indices are data");
}

static void
put_memory(const InspectLine *x, Text *out)
{
	if (x->accesses == 0)
		return;
	text_printf(out, "%d access%s of %d byte%s a thread, ", x->accesses, x->accesses == 1 ? "" : "es", x->bytes,
	    x->bytes == 1 ? "" : "s");
	if (x->again > 0)
		text_printf(out, "%d of which its threads have made for reads before it, ", x->again);
	else if (x->again < 0)
		text_put(out, "less the elements that reads before it have brought its threads, ");
	put_sectors(x, out);
	if (x->cause)
		text_printf(out, " (%s)", x->cause);
	if (*x->tested)
		text_printf(out, "; bounds tested along %s", x->tested);
	const Func *f = x->op->home->func;
	if (op_family(x->op) == FAMILY_ATOMIC && f->schedule.persistent > 0 && x->op->home == f->body)
		text_printf(out, "; a block adds up its programs in %s, and goes to memory once",
		    ANY_OP(op, f->body, op->kind == OP_TALLY) ? "a table in shared memory" : "registers");
}

static void
put_place(const InspectLine *x, Text *out)
{
	text_printf(out, "%lld bytes at %lld of shared memory", (long long)x->smem_bytes, (long long)x->smem);
	if (x->op->kind == OP_ALLOC || x->op->kind == OP_MBARRIER)
		text_printf(out, ", needed in lines %d to %d", x->live_from, x->live_to);
	else if (x->op->kind == OP_SPLIT_MEET)
		text_put(out, ", barriers around it");
	else if (x->op->kind == OP_HISTOGRAM)           /* behind the zeros, and behind what is counted */
		text_printf(out, ", 2 %sbarriers in between", x->sync == SYNC_WARP ? "warp " : "");
	else if (x->op->kind != OP_SPLIT_PUT)
		text_printf(out, ", a %sbarrier in between", x->sync == SYNC_WARP ? "warp's " : "");
}

/* The access that needs a barrier before an 'if', which may be the compiler's own; NULL: it is before an access. */
static const Op *
inner_access(const InspectLine *x)
{
	return x->pair && x->pair->after != x->op && x->op->kind == OP_IF ? x->pair->after : NULL;
}

void
inspect_details(const InspectLine *x, Text *out)
{
	size_t begun = out->n;
	switch (x->kind) {
	case INSPECT_ACCESS:
	case INSPECT_COPY:
		put_memory(x, out);
		if (x->kind == INSPECT_COPY)
			text_printf(out, "%s%s", out->n > begun ? "; " : "",
			    strcmp(x->way, "cp_async") == 0  ? "asynchronous"
			    : strcmp(x->way, "counted") == 0 ? "asynchronous, by the threads of a role"
			                                     : x->way);
		if (x->kind == INSPECT_COPY && x->no_map)
			text_printf(out, "; no tensor map: %s", x->no_map);
		break;
	case INSPECT_CONVERT:
		text_printf(out, "%s%s%sthrough %s", x->of && *x->of ? "of " : "", x->of ? x->of : "",
		    x->of && *x->of ? ", " : "", x->way);
		break;
	case INSPECT_SHARED:
		if (x->of && *x->of)
			text_printf(out, "of %s%s", x->of, x->way ? ", " : "");
		text_put(out, x->way ? x->way : "");
		break;
	case INSPECT_DOT:
		text_put(out, x->reason ? x->reason : x->way);
		break;
	case INSPECT_REDUCE:
	case INSPECT_MOVE:
	case INSPECT_ROLES:
		text_put(out, x->way);
		break;
	case INSPECT_BARRIER:
		if (inner_access(x))
			text_printf(out, "before %s of %d:%d", op_info[inner_access(x)->kind].text,
			    inner_access(x)->place.line, inner_access(x)->place.col);
		else
			text_printf(out, strcmp(x->way, "roles") ? "before this %s" : "before %s part", x->way);
		text_put(out, x->pair ? ": " : "");
		if (x->pair)
			inspect_pair(x->pair, out);
		break;
	}
	put_banks(&x->in, "into", out, begun);
	put_banks(&x->out, "from", out, begun);
	if (x->smem_bytes > 0) {
		put_next(out, begun);
		put_place(x, out);
	}
}

static void
put_line(const InspectLine *x, Text *out)
{
	Text type = {0}, where = {0};
	if (x->tile)
		type_print(x->tile, &type);
	text_printf(&where, "%d:%d", x->op->place.line, x->op->place.col);
	text_printf(out, "  %-7s %-26s %-20s ", where.at, x->what, type.n ? type.at : "");
	inspect_details(x, out);
	while (out->n && out->at[out->n - 1] == ' ')
		out->at[--out->n] = '\0';
	text_put(out, "\n");
	text_close(&type);
	text_close(&where);
}

/* The line that takes the most of the bill's longest part: "mostly line 6, which waits for memory's latency"; nothing
 * where no line takes any.  "mostly" from half on; what spills take is no line's. */
static void
longest(const Inspection *x, Text *out)
{
	BillPart most = bill_bound(&x->bill);
	double lines = 0, all = x->bill.part[most];
	const LineBill *line = NULL;
	for (int i = 0; i < x->spent.n; i++) {
		lines += x->spent.at[i].part[most];
		if (x->spent.at[i].part[most] > (line ? line->part[most] : 0))
			line = &x->spent.at[i];
	}
	if (x->bill.spilled > 0 && lines < all / 2) {
		text_printf(out, "mostly registers that spill, which are bound by: %s", bill_part_names[most]);
		return;
	}
	if (!line)
		return;
	double share = 100 * line->part[most] / all;
	if (share > 50)
		text_printf(out, "mostly line %d, which ", line->line);
	else
		text_printf(out, "the largest share, %.0f %%, is line %d, which ", share, line->line);
	if (most == BILL_WAITING)
		text_printf(out, "waits for %s", line->wait);
	else
		text_printf(out, "is bound by: %s", bill_part_names[most]);
}

static void
put_sentence(const Text *said, Text *out)
{
	if (said->n)
		text_printf(out, "  %s\n", said->at);
}

/* The line that takes the most of the longest part; how the total comes about where it is much more than that. */
static void
put_longest(const Inspection *x, Text *out)
{
	Text line = {0}, total = {0};
	longest(x, &line);
	put_sentence(&line, out);
	Bill own = x->bill;
	own.cycles -= x->other;
	if (own.part[bill_most(&own)] * own.programs < ALONE * own.cycles) {
		bill_total(&own, x->t, &total);
		put_sentence(&total, out);
	}
	text_close(&line);
	text_close(&total);
}

/* Where the grid leaves multiprocessors idle. */
static void
put_grid(const Inspection *x, Text *out)
{
	int n = x->t->rates->multiprocessors;
	double programs = x->bill.launched, mean = programs / n, most = ceil(mean);
	if (programs < n)
		text_printf(out, "  %.0f program%s for %d multiprocessors: %.0f have none\n", programs,
		    programs == 1 ? "" : "s", n, n - programs);
	else if (most > IDLE * mean)
		text_printf(out, "  %.0f programs for %d multiprocessors: some execute %.0f, the mean is %.3g\n", programs,
		    n, most, mean);
}

static void
put_occupancy(const Inspection *x, Text *out)
{
	Text by = {0};
	int warps = inspect_warps(x, &by);
	text_printf(out, "  registers %d, spills %d bytes, stack %d bytes; %d of %d warps on a multiprocessor",
	    x->registers, x->spills, x->stack, warps, x->t->max_warps);
	text_printf(out, "%s%s\n", by.n ? ", held " : "", by.n ? by.at : "");
	text_close(&by);
}

/* Has a loop of it products of warpgroups that need one another's results? */
static bool
has_chain(Func *f)
{
	int most = 0;
	func_number(f);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR)
			warpgroup_levels(f, op->region[0], &most);
	return most > 1;
}

/* Chained products of warpgroups that run one after the other. */
static void
put_flat(const Inspection *x, Text *out)
{
	text_printf(out, "  not parted into roles: %s; what was compared says --explain\n", func_warps(x->f) <= 4 ?
	    "one warpgroup has all rows of its tile, and roles take two (128 rows) to multiply while others compute" :
	    "neither `specialize` nor the choice asks for it");
}

bool
inspect_is_first(const Func *f)
{
	return f->schedule.materialize >= MATERIALIZE_FIRST;
}

void
inspect_print(const Inspection *x, Text *out)
{
	static const double SAME = 0.02;
	int warps = MAX(func_warps(x->f), 1);
	text_printf(out, "%s for %s%s: %d warp%s, %lld bytes of shared memory\n", x->f->name, x->t->name,
	    x->f->schedule.materialize == MATERIALIZE_LAST ? ", the kernel behind" :
		inspect_is_first(x->f) ? ", the kernel before" : "", warps, warps == 1 ? "" : "s",
	    (long long)x->f->shared_bytes);
	Text last = {0};                                /* a pipeline's copies are alike: one stands for all */
	for (int i = 0; i < x->lines.n; i++) {
		Text line = {0};
		put_line(&x->lines.at[i], &line);
		bool again = false;
		for (int k = 0; k < i && !again; k++) {
			last.n = 0;
			put_line(&x->lines.at[k], &last);
			again = strcmp(last.at, line.at) == 0;
		}
		text_put(out, again ? "" : line.at);
		text_close(&line);
	}
	text_close(&last);
	bool multiplies = ANY_OF(i, x->lines.n, x->lines.at[i].kind == INSPECT_DOT);
	if (multiplies && x->t->unused)
		text_printf(out, "  %s's own matrix instructions are not used yet: %s\n", x->t->name, x->t->unused);
	text_printf(out, "  conversions through shared memory %d, bank conflicts %d\n", x->conversions, x->bank_conflicts);
	if (func_cluster(x->f) > 1)
		text_printf(out, "  clusters of %d blocks\n", func_cluster(x->f));
	if (x->f->stream > 1)
		text_printf(out, "  blocks share the last programs, up to %d each, by %lld bytes of memory a block\n",
		    x->f->stream, (long long)split_part_bytes(x->f));
	if (x->f->split_reason)
		text_printf(out, "  blocks share no program: %s\n", x->f->split_reason);
	if (x->f->cluster_reason)
		text_printf(out, "  no clusters: %s\n", x->f->cluster_reason);
	if (func_is_dynamic(x->f))
		text_put(out, "  blocks fetch programs from a counter, as they get free\n");
	if (x->f->dynamic_reason)
		text_printf(out, "  blocks fetch no programs: %s\n", x->f->dynamic_reason);
	if (x->f->whole_reason)
		text_printf(out, "  not parted into roles: %s\n", x->f->whole_reason);
	if (x->f->chain_reason)
		text_printf(out, "  products of a trip wait for each other: %s\n", x->f->chain_reason);
	if (!x->f->whole_reason && !func_find(x->f, OP_ROLES) && (x->t->has & HAS_SETMAXNREG) && has_chain((Func *)x->f))
		put_flat(x, out);
	if (x->asked > 0)
		text_printf(out, "  %d block%s of a multiprocessor asked for\n", x->asked, x->asked == 1 ? "" : "s");
	if (x->bill.cycles > 0) {
		text_put(out, "  estimated ");
		bill_print(&x->bill, x->t, out);
		text_put(out, x->t->rates && !x->t->rates->is_public ? "\n" : ", by published figures, not measured\n");
		if (x->other > 0) {
			text_put(out, "  of these ");
			bill_put_time(x->other / x->t->rates->clock, out);
			bool copies = ANY_OF(i, x->f->nmade, x->f->made[i].is_result);
			text_printf(out, " us are of %s\n", copies
				? "kernels before and behind, which copy what lies across rows" : inspect_is_first(x->f)
				? "a kernel behind, which reads what this one makes"
				                         : "a kernel before, which makes what this one reads");
		}
		put_longest(x, out);
		text_put(out, x->guessed ? x->guessed : "");
		if (x->bill.launched > 0)
			put_grid(x, out);
	}
	if (x->chosen && fabs(x->bill.cycles - x->compared) > SAME * x->compared) {
		text_put(out, "  before there is code, as schedules are compared, it is estimated at ");
		bill_put_time(x->compared / target_rates(x->t)->clock, out);
		bool loops = blocks_loop(x->f) && !x->f->schedule.persistent;
		text_printf(out, " us: the registers are guessed there%s\n",
		    choose_count_dots(x->f) > 0 ? ", and products have no layouts yet"
		    : loops                     ? ", and a loop's instructions"
		                                : "");
	}
	if (x->chosen)
		text_put(out, x->chosen);
	if (x->registers >= 0)
		put_occupancy(x, out);
	else if (x->t->kind == TARGET_METAL && x->pressure.held > 0)
		text_printf(out, "  about %d registers of a lane at once, by what is live in the thread IR\n",
		    x->pressure.held);
	else if (pressure_spills(x->pressure))
		text_printf(out, "  about %d registers at once, by an estimate of what is live, of %d: spills are likely\n",
		    x->pressure.held, x->pressure.limit);
}
