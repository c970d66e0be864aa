/* How long one warp takes alone, by what ptxas wrote into each instruction: the cycles before the
 * next one may go, which barrier of six it opens until its result is there, and which of them have
 * to be closed before it goes.
 *
 *     stall 2             IMAD.WIDE R2, R12, 0x400, R2       the next goes two cycles later
 *     stall 1, opens 0    LDG.E.128 R4, [R2.64]
 *     stall 4, waits 0    FADD R4, R4, 1                     700 cycles after the load, but for
 * what has gone since
 *
 * A loop is gone through twice: as its first trip, which waits for what is loaded before it, and as
 * all others, which wait for what the trip before them began.  One with copies that go on meanwhile
 * takes a trip more for each that may be ahead, until what it waits for is what it began.
 *
 * Behind a barrier all warps of a block wait for the same at a time; what they wait for then, one fills while
 * another waits.  A bilateral filter of 25 taps by 16 warps, which loads in three steps, takes an H200 303 us, 392 by the
 * path with all three and 335 so; eight kernels of bench/warps took 0.69 to 0.94 of what was said, 0.81 to 1.03 so.
 *
 *     SYNCS.PHASECHK          waits for the copies of one slot, the oldest that was not awaited
 *     DEPBAR.LE SB0, 0x1      for all groups of LDGSTS but the last one
 *     WARPGROUP.DEPBAR.LE     for products, which the block's warpgroups have in turn */
#include "tool/report/machine.h"

#include <stdlib.h>
#include <string.h>

double
code_pipe(const char *op, Pipe *pipe)
{
	static const char *const integers[] = {"IADD3", "VIADD", "ISETP", "FSETP", "HSETP2", "SEL",
	    "FSEL", "FMNMX", "IMNMX", "VIMNMX", "HMNMX2", "LOP3", "PLOP3", "SHF", "PRMT", "LEA",
	    "IABS", "SGXT", "BMSK", "F2FP", "I2FP", "FCHK", "P2R", "R2P", "MOV", "VOTE"},
				 *const doubles[] = {"DADD", "DMUL", "DFMA", "DSETP"},
				 *const special[] = {
				     "MUFU", "F2I", "I2F", "F2F", "FRND", "POPC", "FLO", "BREV"};
	*pipe = code_is_one_of(op, integers, LEN(integers)) ? PIPE_INTEGERS
		: code_is(op, "IMAD")                       ? PIPE_PRODUCTS
		: code_is_one_of(op, doubles, LEN(doubles)) ? PIPE_DOUBLES
		: code_is_one_of(op, special, LEN(special)) ? PIPE_SPECIAL
							    : PIPES;
	bool wide = strncmp(op, "IMAD.WIDE", 9) == 0 || strncmp(op, "IMAD.HI", 7) == 0;
	return *pipe == PIPES ? 0 : *pipe == PIPE_SPECIAL ? 8 : wide ? 4 : 2;
}

enum { SCOREBOARDS = 6, NESTED_MOST = 4, AHEAD_MOST = 8, WARMUP = 4 };

/* What goes on meanwhile, in groups that end in order; one that is not closed yet is the last. */
typedef struct Ahead {
	double end[AHEAD_MOST], open;
	int line, n;
} Ahead;

typedef struct Run {
	const Code *c;
	const TargetRates *r;
	const double *latency;
	const double *each_byte;
	double local; /* cycles of a load of what is spilled */
	bool apart; /* in a loop without a barrier */
	bool waited; /* since a barrier: the block's warps are at other instructions */
	double now, sent; /* cycles; when what was loaded so far has come over the bus */
	double ready[SCOREBOARDS];
	int of[SCOREBOARDS]; /* the line of the source whose result closes it */
	CodeWait kind[SCOREBOARDS];
	Ahead copies, products;
	int groups; /* warpgroups of the block */
	CodePath *out;
} Run;

static const double SLOW = 20; /* results of other pipes */

static unsigned
stall_of(unsigned control)
{
	return control & 15;
}

static int
opened(unsigned control, bool reads)
{
	return (int)(control >> (reads ? 8 : 5)) & 7;
}

static unsigned
awaited(unsigned control)
{
	return control >> 11 & 63;
}

/* ---- what goes on meanwhile ---- */

static const char *const copies[] = {"LDGSTS", "UTMALDG", "UBLKCP"};
static const char *const products[] = {"HGMMA", "IGMMA", "QGMMA", "BGMMA"};

static void
close_group(Ahead *a, double now)
{
	if (a->n == AHEAD_MOST)
		for (int i = 1; i < a->n; i++)
			a->end[i - 1] = a->end[i];
	a->n = MIN(a->n, AHEAD_MOST - 1);
	a->end[a->n++] = MAX(a->open, now);
	a->open = 0;
}

/* When all but the last `rest` groups have ended; they are no more. */
static double
end_of_groups(Ahead *a, int rest, double now)
{
	int n = MAX(a->n - rest, 0);
	double end = n ? MAX(a->end[n - 1], now) : now;
	for (int i = n; i < a->n; i++)
		a->end[i - n] = a->end[i];
	a->n -= n;
	return end;
}

/* "HGMMA.64x128x16.F32": the columns of its 64 rows. */
static double
columns_of(const char *op)
{
	const char *x = strchr(op, 'x');
	return x ? (double)strtol(x + 1, NULL, 10) : 0;
}

/* The number behind the last comma of a DEPBAR: groups that may go on. */
static int
rest_of(const char *op)
{
	const char *at = strrchr(op, ',');
	return at ? (int)strtol(at + 1, NULL, 0) : 0;
}

static CodeWait
kind_of(const char *op)
{
	static const char *const memory[] = {"LDG", "LD", "ATOMG", "ATOM", "LDL"},
				 *const exchange[] = {
				     "LDS", "LDSM", "SHFL", "ATOMS", "REDUX", "VOTE", "MATCH"};
	return code_is_one_of(op, memory, LEN(memory))       ? WAIT_MEMORY
	       : code_is_one_of(op, exchange, LEN(exchange)) ? WAIT_EXCHANGE
							     : WAIT_ARITHMETIC;
}

/* Until its result is there.  Loads come one behind the other, as all multiprocessors' share of the
 * bus permits. */
static double
end_of(Run *s, const Instruction *in, int line)
{
	static const double CONSTANT = 40, SHARED_ATOMIC = 60;
	CodeWait kind = kind_of(in->op);
	if (code_is(in->op, "LDL"))
		return s->now + s->local;
	if (kind == WAIT_MEMORY) {
		s->sent = MAX(s->sent, s->now + s->latency[line]) +
			  s->each_byte[line] * code_bytes(in->op);
		return s->sent;
	}
	return s->now + (code_is(in->op, "ATOMS")     ? SHARED_ATOMIC
			    : code_is(in->op, "SHFL") ? s->r->shuffle_latency
			    : kind == WAIT_EXCHANGE   ? s->r->shared_latency
			    : code_is(in->op, "LDC")  ? CONSTANT
						      : SLOW);
}

static void
open_barrier(Run *s, int b, double end, int line, CodeWait kind)
{
	if (b >= SCOREBOARDS || s->ready[b] >= end)
		return;
	s->ready[b] = end;
	s->of[b] = line;
	s->kind[b] = kind;
}

static void
wait_until(Run *s, double end, CodeWait kind, int line, double times)
{
	if (end <= s->now)
		return;
	s->out->of[kind][line] += (end - s->now) * times;
	s->out->waits[s->apart] += (end - s->now) * times;
	s->now = end;
}

/* Begins what goes on meanwhile, or waits for it. */
static void
step_ahead(Run *s, const Instruction *in, int line, double times)
{
	enum { ROWS = 64, K = 16 };
	static const double DRAINED = 60; /* behind a product, until its sums are there */
	const char *op = in->op;
	if (code_is_one_of(op, copies, LEN(copies))) {
		s->copies.open = MAX(s->copies.open, s->now + s->r->latency);
		s->copies.line = line;
	} else if (code_is(op, "LDGDEPBAR") || strncmp(op, "SYNCS.ARRIVE.TRANS64 ", 21) == 0) {
		close_group(&s->copies, code_is(op, "LDGDEPBAR") ? s->now : s->now + s->r->latency);
	} else if (code_is(op, "DEPBAR")) {
		wait_until(s, end_of_groups(&s->copies, rest_of(op), s->now), WAIT_MEMORY, s->copies.line, times);
	} else if (strncmp(op, "SYNCS.PHASECHK", 14) == 0) {
		wait_until(s, end_of_groups(&s->copies, MAX(s->copies.n - 1, 0), s->now), WAIT_MEMORY,
		    s->copies.line, times);
	} else if (code_is_one_of(op, products, LEN(products))) {
		double each = ROWS * columns_of(op) * K / s->r->products_warpgroup * s->groups;
		s->products.open = MAX(s->products.open, s->now + DRAINED) + each;
		s->products.line = line;
		if (strstr(op, "gsb0"))
			close_group(&s->products, s->now);
	} else if (strncmp(op, "WARPGROUP.DEPBAR", 16) == 0) {
		wait_until(s, end_of_groups(&s->products, rest_of(op), s->now), WAIT_PRODUCT, s->products.line, times);
	}
}

/* Waits for what has to be closed, goes, and opens; `times` it does so for one program. */
static void
step(Run *s, const Instruction *in, double times)
{
	static const double
	    READ = 12,
	    LONG = 100; /* until operands of an access are read; of a wait for memory */
	int line = in->source <= s->out->lines ? in->source : 0, last = -1;
	unsigned mask = awaited(in->control);
	for (int b = 0; b < SCOREBOARDS; b++)
		if (mask >> b & 1 && s->ready[b] > s->now &&
		    (last < 0 || s->ready[b] > s->ready[last]))
			last = b;
	if (last >= 0) {
		double wait = s->ready[last] - s->now;
		bool filled = s->kind[last] == WAIT_ARITHMETIC || s->waited;
		(filled && !s->apart ? s->out->filled : s->out->of)[s->kind[last]][s->of[last]] += wait * times;
		(filled ? s->out->turns : s->out->waits)[s->apart] += wait * times;
		s->waited |= s->kind[last] != WAIT_ARITHMETIC && wait > SLOW;
		s->out->steps += s->kind[last] == WAIT_MEMORY && wait > LONG && times > 0;
		s->now = s->ready[last];
	}
	step_ahead(s, in, line, times);
	open_barrier(s, opened(in->control, false), end_of(s, in, line), line, kind_of(in->op));
	open_barrier(s, opened(in->control, true), s->now + READ, line, WAIT_ARITHMETIC);
	double turn = MAX(stall_of(in->control), 1);
	(s->apart ? s->out->of : s->out->filled)[WAIT_ARITHMETIC][line] += turn * times;
	s->out->turns[s->apart] += turn * times;
	s->out->n[s->apart] += times;
	if (code_is(in->op, "BAR")) {
		s->waited = false;
		s->out->of[WAIT_BARRIER][line] += s->r->barrier * times;
		s->out->waits[s->apart] += s->r->barrier * times;
		turn += s->r->barrier;
	}
	s->out->loads += kind_of(in->op) == WAIT_MEMORY;
	s->now += turn;
}

/* The largest loop that begins there, inside of another. */
static const CodeLoop *
begins(const Code *c, int at, const CodeLoop *inside)
{
	const CodeLoop *most = NULL;
	for (int k = 0; k < c->loops.n; k++) {
		const CodeLoop *l = &c->loops.at[k];
		bool fits = l->from == at && l->times > 0 && l != inside &&
			    (!inside || l->to <= inside->to) &&
			    (!inside || l->to - l->from < inside->to - inside->from);
		if (fits && (!most || l->to > most->to))
			most = l;
	}
	return most;
}

static bool
begins_ahead(const char *op)
{
	return code_is_one_of(op, copies, LEN(copies)) || code_is_one_of(op, products, LEN(products));
}

/* `share`: of the times that its instructions are executed for one program. */
static void
pass(Run *s, int from, int to, const CodeLoop *inside, double share, int depth)
{
	for (int i = from; i < to; i++) {
		const CodeLoop *l = depth < NESTED_MOST ? begins(s->c, i, inside) : NULL;
		if (!l) {
			step(s, &s->c->at.at[i], share * s->c->at.at[i].times);
			continue;
		}
		bool outside = s->apart;
		s->apart |= !ANY_OF(k, l->to - l->from, code_is(s->c->at.at[l->from + k].op, "BAR"));
		double entries = i > 0 ? s->c->at.at[i - 1].times : 1, left = 1,
		       each = MIN(MAX(entries, 0) / l->times, 1);
		int passes = ANY_OF(k, l->to - l->from, begins_ahead(s->c->at.at[l->from + k].op)) ? WARMUP : 2;
		for (int k = 0; k < passes && left > 0; k++) {
			double part = k + 1 < passes ? MIN(each, left) : left;
			pass(s, l->from, l->to, l, share * part, depth + 1);
			left -= part;
		}
		s->apart = outside;
		i = l->to - 1;
	}
}

void
code_path(const Code *c, const TargetRates *r, const double *latency, const double *each_byte, double local,
    int lines, int warps, CodePath *out)
{
	Run s = {.c = c, .r = r, .latency = latency, .each_byte = each_byte, .local = local, .out = out,
	    .groups = MAX(warps / 4, 1)};
	*out = (CodePath){.lines = lines};
	for (int k = 0; k < CODE_WAITS; k++)
		out->of[k] = NEW_ARRAY(c->mem, double, lines + 1), out->filled[k] = NEW_ARRAY(c->mem, double, lines + 1);
	pass(&s, 0, c->at.n, NULL, 1, 0);
}
