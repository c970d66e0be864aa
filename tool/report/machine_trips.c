/* How often a warp executes each instruction of the machine code for one program: the trips of its loops, and what few
 * values need. */
#include "tool/report/machine.h"

#include "compile/choose/estimate.h"

#include <math.h>
#include <string.h>

/* Of which the thread IR has as many: products; loads, stores and copies of global memory, and exchanges between lanes. */
static bool
is_product(const char *op)
{
	static const char *const name[] = {"HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA", "DMMA", "BMMA"};
	return code_is_one_of(op, name, LEN(name));
}

static bool
is_access(const char *op)
{
	static const char *const name[] = {"LDG", "STG", "LDGSTS", "SHFL", "REDUX"};
	return code_is_one_of(op, name, LEN(name));
}

static bool
is_mark(const char *op)
{
	return is_product(op) || is_access(op);
}

/* The smallest loop that has an instruction; NULL: none. */
static CodeLoop *
loop_of(const Code *c, int i)
{
	CodeLoop *in = NULL;
	for (int k = 0; k < c->loops.n; k++) {
		CodeLoop *l = &c->loops.at[k];
		if (i >= l->from && i < l->to && (!in || l->to - l->from < in->to - in->from))
			in = l;
	}
	return in;
}

/* Of one kind, by lines. */
typedef struct Marks {
	bool (*is)(const char *op);
	bool together; /* ptxas moves them under others' lines: lines of one loop add up */
	double *left;  /* for one program, in loops that are not timed yet */
	double all;
} Marks;

/* Marks of a line in the loop itself, not in loops inside; NULL: in no loop; -1: of all lines. */
static int
marks_in(const Code *c, const Marks *m, const CodeLoop *l, int line)
{
	int n = 0;
	for (int i = l ? l->from : 0; i < (l ? l->to : c->at.n); i++)
		n += (line < 0 || c->at.at[i].source == line) && m->is(c->at.at[i].op) && loop_of(c, i) == l;
	return n;
}

static void
time_loop(Code *c, CodeLoop *l, double times, Marks *m, int n, int lines)
{
	l->times = times;
	for (int k = 0; k < n; k++)
		for (int s = 1; s <= lines; s++)
			m[k].left[s] -= times * marks_in(c, &m[k], l, s);
}

/* The trips of a loop are the marks that its lines have by the thread IR, but for those outside of loops, divided by those
 * of a trip in SASS: of the line that has most, or of all its lines.  What ptxas unrolls has a second loop for the trips
 * that are left, which has fewer. */
static double
trips_by(const Code *c, const Marks *m, const CodeLoop *l, int line, int lines)
{
	double left = 0;
	int n = 0, others = 0;
	for (int s = 1; s <= lines; s++) {
		int own = m->together || s == line ? marks_in(c, m, l, s) : 0;
		if (!own)
			continue;
		n += own;
		left += m->left[s];
		for (int k = 0; k < c->loops.n; k++) {
			const CodeLoop *o = &c->loops.at[k];
			others += o != l && o->times < 0 && marks_in(c, m, o, s) > 0;
		}
	}
	double trips = MAX(left, 0) / n;
	return others && trips >= 1 ? floor(trips) : trips;
}

/* The loop over programs of a block that stays: the largest, with others inside; NULL: none. */
static CodeLoop *
loop_of_programs(Code *c, const Inspection *x)
{
	CodeLoop *most = NULL, *inside = NULL;
	for (int k = 0; k < c->loops.n && func_stays(x->f); k++) {
		CodeLoop *l = &c->loops.at[k];
		most = !most || l->to - l->from > most->to - most->from ? l : most;
	}
	for (int i = most ? most->from : 0; most && i < most->to && !inside; i++)
		inside = is_mark(c->at.at[i].op) && loop_of(c, i) != most ? loop_of(c, i) : NULL;
	return inside ? most : NULL;
}

static void
time_loops(Code *c, const Inspection *x, int lines, double once)
{
	Marks m[] = {{.is = is_product, .together = true}, {.is = is_access}};
	for (int k = 0; k < LEN(m); k++) {
		m[k].left = NEW_ARRAY(c->mem, double, lines + 1);
		for (int i = 0; i < x->spent.n; i++) {
			const LineBill *l = &x->spent.at[i];
			if (l->file == x->f->place.file && l->line >= 0 && l->line <= lines)
				m[k].all += m[k].left[l->line] += k ? l->marks : l->products;
		}
		for (int s = 1; s <= lines; s++)
			m[k].left[s] -= once * marks_in(c, &m[k], NULL, s);
	}
	const Schedule *own = &x->f->schedule;
	CodeLoop *programs = loop_of_programs(c, x);
	if (programs)
		time_loop(c, programs, 1.0 / MAX(MAX(own->coarsen, own->batch), 1), m, LEN(m), lines);
	for (int k = 0; k < LEN(m);) {
		CodeLoop *most = NULL;
		int n = 0, line = 0;
		for (int i = 0; i < c->loops.n && m[k].all > 0; i++) /* else the thread IR's are not known */
			for (int s = 1; s <= lines && c->loops.at[i].times < 0; s++) {
				int own_marks = marks_in(c, &m[k], &c->loops.at[i], s);
				if (own_marks > n) {
					n = own_marks;
					line = s;
					most = &c->loops.at[i];
				}
			}
		if (most)
			time_loop(c, most, trips_by(c, &m[k], most, line, lines), m, LEN(m), lines);
		else
			k++;
	}
	for (int i = 0; i < c->loops.n; i++) /* what has a loop inside is gone through, too */
		for (int k = 0; k < c->loops.n; k++) {
			CodeLoop *l = &c->loops.at[i], *in = &c->loops.at[k];
			if (l != in && l->times >= 0 && l->from <= in->from && l->to >= in->to)
				l->times = MAX(l->times, MIN(in->times, once));
		}
}

/* Loops without a mark wait, and are passed once for each trip of the loop around them, where they are short. */
static bool
time_instructions(Code *c, double once)
{
	enum { SHORT = 16 };
	for (int i = 0; i < c->at.n; i++) {
		CodeLoop *in = loop_of(c, i);
		while (in && in->times < 0) {
			CodeLoop *around = NULL;
			if (in->to - in->from > SHORT)
				return false;
			for (int k = 0; k < c->loops.n; k++) {
				CodeLoop *l = &c->loops.at[k];
				bool has = l != in && l->from <= in->from && l->to >= in->to;
				around = has && (!around || l->to - l->from < around->to - around->from) ? l : around;
			}
			in = around;
		}
		c->at.at[i].times = in ? in->times : once;
	}
	return true;
}

/* Can a warp have all its values such as need no more than what comes before that branch? */
static bool
is_seldom(const Code *c, const Inspection *x, int from, int to)
{
	enum { LEAST = 24 }; /* of what reduces a large angle */
	bool is_long = to - from >= LEAST;
	int calls = 0;
	for (int i = from; i < to; i++) {
		const Op *op = x->f->body->first;
		if (is_mark(c->at.at[i].op))    /* it does more than compute */
			return false;
		calls += code_is(c->at.at[i].op, "CALL");
		while (is_long && op &&
		       !(op->nregion == 0 && op_info[op->kind].cost == COST_LONG &&
			   op->place.line == c->at.at[i].source))
			op = op_after(op, x->f->body);
		is_long &= op != NULL;
	}
	return to - from < LEAST * calls || is_long;
}

static void
scale(Code *c, int from, int to, double by)
{
	for (int i = from; i < to; i++)
		c->at.at[i].times *= by;
}

/* Has it more than what it yields, and only computes? */
static bool
computes(const Block *b)
{
	return b->first && b->first->kind != OP_YIELD &&
	       !ANY_OP(op, b, op_is_loop(op) || op_has(op, READS) || op_has(op, WRITES));
}

static bool
has_code(const Block *b)
{
	return b->first && b->first->kind != OP_YIELD;
}

/* Does it go around one region's code?  Where that also loads or loops, programs of an example say how often. */
static bool
goes_around(const Bound *b, const Op *op)
{
	const Block *first = op->region[0], *second = op->region[1];
	return estimate_followed(b, op) ? has_code(first) != has_code(second) : computes(first) != computes(second);
}

/* Of the branches of a line that go around what only computes, as a mask of the diagonal's trips, or were followed, the
 * share of times that its code runs; below 0: there are none, or data says. */
static double
share_of(const Inspection *x, const Bound *b, int line)
{
	double sum = 0;
	int n = 0;
	for (const Op *op = x->f->body->first; op; op = op_after(op, x->f->body)) {
		if (op->kind != OP_IF || op->place.line != line || op->place.file != x->f->place.file ||
		    !goes_around(b, op))
			continue;
		double taken = estimate_taken(x->f, b, op);
		if (taken < 0)
			return -1;
		sum += has_code(op->region[0]) && (estimate_followed(b, op) || computes(op->region[0])) ? taken : 1 - taken;
		n++;
	}
	return n ? sum / n : -1;
}

/* Leaves out what few values need, behind a branch around it: routines of divisions, which are called, and what reduces
 * angles beyond 105,615; `left` has how many instructions that is, by lines of the source. Of two ways, where one goes on
 * behind the other, the shorter counts as a tenth, as a warp's threads mostly go one.
 * What the sizes decide counts as often as it is so. */
static void
leave_seldom(Code *c, const Inspection *x, const Bound *b, double *left, int lines)
{
	static const double SELDOM = .1; /* estimate_trips.c has the same */
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		int to = code_is(in->op, "BRA") && in->is_guarded ? code_target(c, in) : -1;
		if (to <= i + 1)
			continue;
		const Instruction *last = &c->at.at[to - 1];
		int join = code_is(last->op, "BRA") && !last->is_guarded ? code_target(c, last) : -1;
		bool two = join > to && join - to < 4 * (to - i);
		double share = share_of(x, b, in->source);
		if (share >= 0) {
			scale(c, i + 1, to, share);
			i = to - 1;
		} else if (is_seldom(c, x, i + 1, to)) {
			for (int k = i + 1; k < to; k++)
				left[c->at.at[k].source <= lines ? c->at.at[k].source : 0] += c->at.at[k].times;
			scale(c, i + 1, to, 0);
			i = to - 1;
		} else if (two && to - i <= join - to) {
			scale(c, i + 1, to, SELDOM);
			i = to - 1;
		} else if (two) {
			scale(c, to, join, SELDOM);
		}
	}
}

bool
code_times(Code *c, const Inspection *x, const Bound *b, int lines, double once, double *left)
{
	time_loops(c, x, lines, once);
	if (!time_instructions(c, once))
		return false;
	leave_seldom(c, x, b, left, lines);
	return true;
}
