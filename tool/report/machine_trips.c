/* How often a warp executes each instruction of the machine code for one program: the trips of its loops, and what few
 * values need. */
#include "tool/report/machine.h"

#include <math.h>
#include <string.h>

/* Loads, stores and copies of global memory, products, and exchanges between lanes, of which the thread IR has as many. */
static bool
is_mark(const char *op)
{
	static const char *const name[] = {"LDG", "STG", "LDGSTS", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA",
	    "DMMA", "BMMA", "SHFL", "REDUX"};
	return code_is_one_of(op, name, LEN(name));
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

/* Marks of a line in the loop itself, not in loops inside; NULL: in no loop. */
static int
marks_in(const Code *c, const CodeLoop *l, int line)
{
	int n = 0;
	for (int i = l ? l->from : 0; i < (l ? l->to : c->at.n); i++)
		n += (line < 0 || c->at.at[i].source == line) && is_mark(c->at.at[i].op) &&
		     loop_of(c, i) == l;
	return n;
}

/* The trips of a loop are the marks that its lines have by the thread IR, but for those outside of loops, divided by those
 * of a trip in SASS: of the line that has most.  What ptxas unrolls has a second loop for the trips that are left, which
 * has fewer. */
static void
time_loops(Code *c, const Inspection *x, int lines, double once)
{
	double *left = NEW_ARRAY(c->mem, double, lines + 1), all = 0;
	for (int k = 0; k < x->spent.n; k++) {
		const LineBill *l = &x->spent.at[k];
		if (l->file == x->f->place.file && l->line >= 0 && l->line <= lines)
			all += left[l->line] += l->marks;
	}
	for (int s = 1; s <= lines; s++)
		left[s] = MAX(left[s] - once * marks_in(c, NULL, s), 0);
	for (;;) {
		CodeLoop *most = NULL;
		int n = 0, line = 0, others = 0;
		for (int k = 0; k < c->loops.n; k++)
			for (int s = 1; s <= lines && c->loops.at[k].times < 0; s++) {
				int own = marks_in(c, &c->loops.at[k], s);
				if (own > n) {
					n = own;
					line = s;
					most = &c->loops.at[k];
				}
			}
		if (!most || all <= 0)                  /* none, or the thread IR's marks are not known */
			break;
		for (int k = 0; k < c->loops.n; k++)
			others += &c->loops.at[k] != most && c->loops.at[k].times < 0 &&
				  marks_in(c, &c->loops.at[k], line) > 0;
		double trips = left[line] / n;
		most->times = others && trips >= 1 ? floor(trips) : trips;
		for (int s = 1; s <= lines; s++)
			left[s] = MAX(left[s] - most->times * marks_in(c, most, s), 0);
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

/* Leaves out what few values need, behind a branch around it: routines of divisions, which are called, and what reduces
 * angles beyond 105,615; `left` has how many instructions that is, by lines of the source. Of two ways, where one goes on
 * behind the other, the shorter counts as a tenth, as a warp's threads mostly go one. */
static void
leave_seldom(Code *c, const Inspection *x, double *left, int lines)
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
		if (is_seldom(c, x, i + 1, to)) {
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
code_times(Code *c, const Inspection *x, int lines, double once, double *left)
{
	time_loops(c, x, lines, once);
	if (!time_instructions(c, once))
		return false;
	leave_seldom(c, x, left, lines);
	return true;
}
