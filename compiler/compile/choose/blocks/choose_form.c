/* One candidate of choose_blocks.c: it goes through all passes, the model bills it, and what it takes, with what its
 * distance from the rule's own costs, is compared with the best so far. */
#include "compile/choose/blocks/choose_form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Live registers of a thread that runs several programs: beyond, ptxas needs more (log_softmax of bench/warps spilled).  Of
 * a batch, whose rows may share what they read, those of the thread IR count too (a 3x3 filter by four rows has 63). */
enum { REGISTERS_TOGETHER = 96, REGISTERS_BATCH = 128, READS_AHEAD = 48 };
/* Live registers of a thread that reads trips ahead, beyond which such a form has to be better by FULL: what is estimated
 * at .65, .77 and .80 of the next form's time (min_plus, sampling, nbody) takes an H200 .82, .97 and .97 of it, what is at
 * .96 and more 1.21 (linear_recurrence), 1.12 (mamba), 1.05 (var_nhwc) and .93 (adler_rows).  No form has more than a
 * thread has, nor than AHEAD_MOST: with 138 rwkv7 takes .77 of the time, with 158 bn_first 1.40, 162 cummin_cols .93. */
enum { REGISTERS_AHEAD = 104, AHEAD_MOST = 144 };
/* The same where registers do not say how many blocks run at once, with so many times the reads, and registers of a
 * division of numbers.  A state of 64 x 32 by two blocks of 4 warps takes an H200 112 us by 4 trips (90 live), 93 by 8
 * (138), 77 by 16 (234); rwkv6 796 by 2 trips of 8 warps, 602 by 4 of 4 (187); min_gru 153 and 130. */
enum { FREE_TIMES = 3, FREE_MOST = 240, EACH_DIVISION = 8 };
static const double FULL = 1.08;
/* Ops of the body of a loop whose trips are read ahead: where instructions bound it, beyond LOOP_LONG it has to be better
 * by LONG, as it is fetched anew (within_box of bench/warps takes an H200 343 us by 2 trips at once, 483 by 16, estimated
 * at 0.98 of it).  Not of others, which wait less: spikes and kalman take 0.80 and 0.88 of the time by 32. */
enum { LOOP_LONG = 256, LOOP_MOST = 1024 };
static const double LONG = 1.12;
/* Elements of a thread that computes a batch, where the warps are not the tile's own: of 128 an H200 took 5.8 times as long
 * (top1 of 333, whose registers spilled). */
enum { BATCH_ELEMENTS = 32 };
enum { BLOCKS_MOST = 32, SHARE_LEAST = 4, SHARE_MOST = 8 };     /* blocks of a multiprocessor; programs of one */
/* What distance from the rule's warps adds (of more warps; in products, whose estimates are fitted; in loops of several
 * trips at a time, and of one), and more work at once, for which there are no measured rules, but for loops what bill_again
 * was fitted to.  Tiles that memory bounds, without exchanges between threads, are better small. */
static const double DISTANCE = 0.01, DISTANCE_MORE = 0.015, DISTANCE_FITTED = 0.1, DISTANCE_LOOPS = 0.02,
	DISTANCE_TRIPS = 0.03, MORE_PROGRAMS = 0.01, MORE_SHARED = 0.012, MORE_TRIPS = 0.005, MORE_TILE = 0.006;
/* What the estimate of batches lacks: an H200 took 1.11 of it in the median of 8 kernels, 1.0 of that of other blocks. */
static const double BATCHED = 1.08;
/* What code lacks that is likely to spill: an H200 took, of the share by the bills, 2.5 and 1.7 times as long (decode by
 * vectors, 16 and 1 sequences, 16 warps by 4 trips: 443 and 27.9 us, by 4 warps that fit 156 and 15.0), 1.28 (lags of a row
 * by one warp and two: 386 and 337 us).  The least of these. */
static const double OVERFULL = 1.25;
enum { MANY_WARPS = 16 };
/* What the estimate of straight code in larger tiles lacks that share a block: an H200 took 1.19 to 1.43 of it for
 * yuv2rgb, blur5_v and weave in bench/warps; and what tiles of twice the header's size, or of half its rows, have to be
 * better: of three that are by half it took 0.42 (life_torus, shallow) to 1.00, of those better by less 0.88 to 1.10. */
static const double SHARED_TILE = 1.18, TWICE = 1.04, HALF = 1.08;
/* In straight code who lists warps measured some: others than the rule's have to be better by so much. */
static const double LISTED = 1.2;
/* What that of parts lacks which are read ahead and not kept: zscore in bench/warps took 106 us so and 97 where they stay
 * in shared memory, estimated at 97 and 98. */
static const double UNKEPT = 1.05;
/* And of blocks that stay, where instructions bound them: prewitt, gate2 and route_groups in bench/warps took an H200 76,
 * 156 and 417 us so, by blocks of one program or shared ones 66, 149 and 367, all estimated within 4 %. */
static const double STAYING = 1.05;

bool
blocks_is_open(const Blocks *s, ScheduleName name)
{
	return !choose_is_said(s->k, s->how, name);
}

bool
blocks_may_have(const Blocks *s, int warps)
{
	return s->warps_open && (!s->warps || ANY_OF(i, s->warps->nvalue, s->warps->value[i].i == warps));
}

/* A warp alone exchanges by shuffles what several pass through shared memory: where that bounds the rule's own, down to
 * one.  A chain of 1,000 masses, each of which reads its neighbours' positions, takes an H200 660 us by 4 warps, 198 by one
 * (chain_verlet in bench/warps). */
int
blocks_fewest_warps(const Blocks *s, int below)
{
	return bill_most(&s->bill) == BILL_SHARED ? 1 : MAX(s->rule / below, 1);
}

/* What a candidate says of the schedule, in the order in which it is said; 0: nothing. */
static const ScheduleName said[] = {SCHEDULE_WARPS, SCHEDULE_PERSISTENT, SCHEDULE_COARSEN, SCHEDULE_BATCH, SCHEDULE_STRIP,
    SCHEDULE_UNROLL, SCHEDULE_SPLIT, SCHEDULE_KEEP, SCHEDULE_SHARE};

static void
say(Form x, int value[LEN(said)])
{
	memcpy(value, (int[LEN(said)]){x.warps, x.programs > 0, x.programs > 1 ? x.programs : 0, x.batch, x.strip, x.unroll,
	    x.split, x.keep, x.share}, sizeof *value * LEN(said));
}

Func *
compile_form(Blocks *s, const Bound *first, Form x, Bound *b)
{
	int value[LEN(said)];
	candidates_next(&s->apart);
	*b = *first;
	say(x, value);
	for (int i = 0; i < LEN(said); i++)
		b->schedule.at[said[i]] = value[i] ? value[i] : b->schedule.at[said[i]];
	return choose_compile(s->k, b, s->t, NULL);
}

int
form_values(const Blocks *s, int tile, Form x, NamedConst *out)
{
	int n = 0, value[LEN(said)];
	say(x, value);
	for (int i = 0; tile > 0 && i < s->tile[tile - 1].n; i++)
		out[n++] = s->tile[tile - 1].value[i];
	for (int i = 0; i < LEN(said); i++)
		if (value[i])
			out[n++] = (NamedConst){intern(s->k->program->cx->names, schedule_info[said[i]].text),
			    {.kind = said[i] == SCHEDULE_PERSISTENT ? CONST_BOOL : CONST_INT, .i = value[i]}, NOWHERE};
	return n;
}

/* Divisions of numbers in a loop's trips that are read ahead: ptxas begins those of all trips early, and holds what they
 * take and give.  Means and variances by Welford's steps, 16 trips of 4 elements a thread, have 96 live, spill 1548 bytes
 * of 128 registers, and take an H200 406 us for 308 by 16 of 2. */
static int
divided_numbers(const Func *f)
{
	int n = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *loop = op->home->parent;
		bool is_ahead = loop && loop->kind == OP_FOR && attr_unrolled(loop) > 0;
		const Type *t = op->nout ? op->out[0].type : NULL;
		n += is_ahead && op->kind == OP_DIV && t->rank == 0 && dtype_is_float(t->elem);
	}
	return n;
}

/* Do reads ahead take too many registers?  Where all blocks that a multiprocessor has may have all of a thread's, more may
 * be under way; not of fewer programs than multiprocessors, whose loops blocks may share. */
static bool
is_full_ahead(Blocks *s, Func *f, const Bound *b, double reads, int held)
{
	double each = choose_programs(b) / s->t->rates->multiprocessors;
	double threads = ceil(each) * f->schedule.warps * s->t->lanes;
	bool is_free = each >= 1 && f->schedule.split <= 1 && threads * s->t->max_registers <= s->t->registers;
	int live = live_registers(f, s->apart.mem), more = EACH_DIVISION * divided_numbers(f);
	if (is_free && reads <= FREE_TIMES * READS_AHEAD && live + more <= MIN(held, FREE_MOST))
		return false;
	return reads > READS_AHEAD || live > MIN(held, AHEAD_MOST);
}

/* More registers are likely than a thread has, and live by the thread IR alone three tenths more, as thread_fit_blocks has
 * it: of 1.36 and 8.1 times ptxas spills, of 1.09 to 1.26 (nbody, sampling, min_plus) not, nor of 4.1 where no more than
 * there are are likely.  Nor of rows in parts, whose elements it works on one after another, of 0.9 to 1.5 (four kernels of
 * bench/warps/rows.tgl). */
double
blocks_overfull(const Blocks *s, const Bill *bill, const Func *f)
{
	enum { HELD_PERCENT = 130 };
	int limit = MIN(s->t->registers / (f->schedule.warps * s->t->lanes), s->t->max_registers);
	bool is_held = bill->held == 0 || bill->held * 100 > limit * HELD_PERCENT;
	return f->schedule.strip <= 0 && bill->likely > limit && is_held ? OVERFULL : 1;
}

/* Why a candidate is none; NULL: it is one, and that is its bill. */
static const char *
refusal(Blocks *s, Func *f, const Bound *b, Form x, Bill *bill)
{
	const char *reasons[] = {f->strip_reason, f->unroll_reason, f->split_reason, f->keep_reason, f->batch_reason,
	    f->share_reason};
	for (int i = 0; i < LEN(reasons); i++)
		if (reasons[i])
			return reasons[i];
	if (coalesce_too_large(f, s->t))                /* passes went on, as their errors are muted */
		return "a thread would hold more of a tile than is possible";
	double reads = blocks_reads_ahead(f);           /* before the estimate, which lowers it */
	func_number(f);
	bool is_long = reads > 0 && blocks_longest_loop(f) > LOOP_MOST;
	int held = MIN(s->t->registers / (f->schedule.warps * s->t->lanes), s->t->max_registers);
	bool is_full = reads > 0 && is_full_ahead(s, f, b, reads, held);
	s->full |= is_long || is_full ? f->schedule.warps : 0;
	if (is_long)
		return "so many copies of the loop's body would make the code too long";
	if (is_full)
		return "the reads of so many trips at once would take too many registers";
	if (!estimate_bill(f, b, s->t, s->apart.mem, NULL, bill))
		return CHOOSE_NO_BLOCK;
	if (bill->spilled > 0)
		return CHOOSE_SPILLS;
	if (x.batch > 1 && x.warps > 0 && !s->joins && blocks_elements(f) > BATCH_ELEMENTS)
		return "a thread would hold many elements";
	int given = MIN(s->t->registers / (f->schedule.warps * s->t->lanes), REGISTERS_BATCH);
	bool together = f->schedule.batch > 1 ? bill->likely > given
	                                      : x.programs > 1 && bill->live > REGISTERS_TOGETHER;
	return together ? "so many programs at once would take too many registers" : NULL;
}

/* May programs of one warp that share blocks be faster: do blocks start often, or are there no more of them?  Of programs
 * so small that starting takes thrice as long as all else a warp is better to run several, which reads for all at once: of
 * seven such kernels an H200 took 1.01 to 1.29 times as long (softmax_len, merge_states, rope_part), of ten of larger
 * programs 0.82 to 0.95. */
bool
may_share(const Blocks *s, const Func *f, const Bill *bill, Form x)
{
	static const double OFTEN = 0.4, SMALL = 3;
	Bill others = *bill;
	others.part[BILL_START] = others.part[BILL_WAITING] = 0;
	double start = bill->part[BILL_START], most = others.part[bill_most(&others)];
	bool is_alone = !x.share && !x.programs && !x.batch && !x.strip && f->schedule.warps == 1;
	bool is_small = s->several && !s->loops && start > SMALL * most;
	return s->shares && is_alone && !is_small &&
	    (start > OFTEN * bill->part[bill_most(bill)] || bill->blocks == BLOCKS_MOST);
}

void
try_shares(Blocks *s, const Bound *first, Form x)
{
	for (x.share = SHARE_LEAST; x.share <= SHARE_MOST; x.share *= 2)
		try_form(s, first, x);
}

void
try_form(Blocks *s, const Bound *first, Form x)
{
	Bound b;
	Bill bill;
	NamedConst values[VALUES_MOST];
	Func *f = compile_form(s, first, x, &b);
	const char *reason = f ? refusal(s, f, &b, x, &bill) : "it does not compile";
	double cycles = -1;
	bool shares = !reason && may_share(s, f, &bill, x);
	if (!reason) {
		int warps = x.warps ? x.warps : s->rule;
		double far = warps > s->rule ? DISTANCE_MORE * (warps < MANY_WARPS ? 1 : 2) : DISTANCE;
		far = x.unroll > 1 || x.keep || x.strip ? DISTANCE_LOOPS : s->multiplies ? DISTANCE_FITTED
		    : s->loops                              ? DISTANCE_TRIPS : far;
		far *= abs(log2_ceil(s->rule) - log2_ceil(warps));
		bool is_memory = bill_most(&bill) == BILL_MEMORY;
		bool is_plain = s->now > 1 && is_memory && bill.part[BILL_SHARED] + bill.part[BILL_SHUFFLES] == 0;
		cycles = bill.cycles * (x.batch ? BATCHED : 1 + far);
		cycles *= 1 + MORE_PROGRAMS * log2_ceil(MAX(x.programs, 1)) + (is_plain ? MORE_TILE * (s->now - 1) : 0);
		cycles *= 1 + MORE_SHARED * log2_ceil(MAX(x.share, 1));
		cycles *= 1 + MORE_TRIPS * (log2_ceil(MAX(x.unroll, 1)) + 2 * log2_ceil(MAX(x.split, 1)));
	}
	cycles *= reason ? 1 : blocks_overfull(s, &bill, f);
	if (x.share && s->now > 0 && !s->loops)
		cycles *= SHARED_TILE;
	if (s->now > 0 && s->tile[s->now - 1].is_twice)
		cycles *= TWICE;
	if (s->now > 0 && s->tile[s->now - 1].is_half)
		cycles *= HALF;
	if (s->warps && x.warps && !x.batch && !s->loops)
		cycles *= LISTED;
	if (x.strip && x.unroll && !x.keep)
		cycles *= UNKEPT;
	if (!reason && x.programs && bill_most(&bill) == BILL_ISSUE)
		cycles *= STAYING;
	bool reads = !reason && blocks_reads_ahead(f) > 0;
	if (reads && bill_most(&bill) == BILL_ISSUE && blocks_longest_loop(f) > LOOP_LONG)
		cycles *= LONG;
	if (reads && bill.live > REGISTERS_AHEAD)
		cycles *= FULL;
	if (s->how->why)
		why_tried(s->how->why, values, form_values(s, s->now, x, values), cycles, reason ? NULL : &bill, reason);
	if (!reason && cycles < s->best) {
		s->best = cycles;
		s->least = bill;
		s->form = x;
		s->with = s->now;
		s->any = true;
	}
	if (shares)
		try_shares(s, first, x);
}
