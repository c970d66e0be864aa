/* How often a loop runs, by the sizes of a launch: its bounds are scalars of dimensions, constants, the program's numbers
 * and data.  And the instructions that a warp issues with these, counted by the thread IR. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "lower/lower.h"
#include "model/digits/digits.h"

#include <math.h>
#include <string.h>

enum { TRIPS_GUESS = 16, DEPTH = 14 };
static const double MIDDLE = 0.5;                       /* of the grid */

/* A parameter's value: of a dimension, or of a number that this launch is given, such as a window's length. */
static int64_t
dimension(const Func *f, const Bound *b, const Value *v, int64_t otherwise)
{
	const FuncParam *p = &f->param[v->index];
	if (p->kind == PARAM_SCALAR && b->param[v->index].scalar.kind == CONST_INT)
		return b->param[v->index].scalar.i;
	for (int i = 0; i < b->nsymbol && p->kind == PARAM_DIM; i++)
		if (strcmp(b->symbol[i].name, p->name) == 0)
			return b->symbol[i].value.i;
	return otherwise;
}

/* What a scalar is; `otherwise` if it is not known. */
typedef struct Scalars {
	const Func *f;
	const Bound *b;
	bool is_last;                                   /* the last programs, else those at `at` of the grid */
	double at;
	bool is_inside;                                 /* of a loop that blocks share: of the middle one, else the first */
	bool starts;                                    /* it is where a loop starts: nothing lies before a least number */
	const Value *end;                               /* of a loop that data bounds, and what that counts as; or NULL */
	int64_t reach;
	Cluster cluster;                                /* whose last it is; of no blocks: of one */
	double trip;                                    /* of all, 0 to 1; 0: the middle one */
} Scalars;

static int64_t
program_of(const Scalars *s, int axis)
{
	int64_t n = s->b->grid[axis], ranks = s->cluster.ranks ? cluster_on(s->cluster, axis) : 1;
	return s->is_last ? (n + ranks - 1) / ranks * ranks - 1 : (int64_t)(s->at * (double)n);
}

static int64_t scalar(const Scalars *s, const Value *v, int64_t otherwise, int depth);

static double
trips_between(int64_t lo, int64_t hi, int64_t step)
{
	return (double)MAX((hi - lo + step - 1) / step, 0);
}

/* The index of a loop around, in its middle trip or its last: range(t + 1) in a loop over t has half of its trips. */
static int64_t
index_of(const Scalars *s, const Value *v, int64_t otherwise, int depth)
{
	const Op *loop = v->block->parent;
	if (!loop || loop->kind != OP_FOR || v->index != 0 || op_is_over_programs(loop) || depth == 0)
		return otherwise;
	Scalars m = *s;
	m.is_inside = true;
	int64_t lo = scalar(&m, loop->in[0], INT64_MIN, depth - 1), hi = scalar(&m, loop->in[1], INT64_MIN, depth - 1);
	int64_t step = scalar(&m, loop->in[2], INT64_MIN, depth - 1);
	if (lo == INT64_MIN || hi == INT64_MIN || step <= 0)
		return otherwise;
	double n = trips_between(lo, hi, step), last = MAX(n - 1, 0);
	return lo + (int64_t)(s->is_last ? last : s->trip > 0 ? MIN(n * s->trip, last) : last / 2) * step;
}

static int64_t
scalar(const Scalars *s, const Value *v, int64_t otherwise, int depth)
{
	const Op *op = v->def;
	int64_t c, x[3] = {0};
	if (value_int(v, &c))
		return c;
	if (v == s->end)
		return s->reach;
	if (!op)
		return v->block == s->f->body ? dimension(s->f, s->b, v, otherwise) : index_of(s, v, otherwise, depth);
	if (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT)
		return program_of(s, attr_axis(op));
	if (op->kind == OP_NUM_PROGRAMS)
		return MAX(s->b->grid[attr_axis(op)], 1);
	if (op->kind == OP_SPLIT_RANK)
		return s->is_inside ? s->f->schedule.split / 2 : 0;
	if (op->kind == OP_SPLIT_COUNT)
		return MAX(s->f->schedule.split, 1);
	if (depth == 0 || op->nin > 3)
		return otherwise;
	bool knows = true;
	for (int i = 0; i < op->nin; i++) {
		x[i] = scalar(s, op->in[i], INT64_MIN, depth - 1);
		knows &= x[i] != INT64_MIN;
	}
	int64_t known = MAX(x[0], x[1]);
	if (op->kind == OP_MIN || (op->kind == OP_MAX && (s->starts || known > 1)))
		if (!knows && known != INT64_MIN)
			return known;                   /* data, such as a length, up to that, or rarely beyond it */
	if (op->kind == OP_SELECT && x[0] == INT64_MIN && (MAX(x[1], x[2]) > 0 || MIN(x[1], x[2]) != INT64_MIN))
		return MAX(x[1], x[2]);                 /* trips of those that do not leave early, which have none */
	if (!knows)
		return otherwise;
	switch (op->kind) {
	case OP_ADD: return __builtin_add_overflow(x[0], x[1], &known) ? otherwise : known;
	case OP_SUB: return __builtin_sub_overflow(x[0], x[1], &known) ? otherwise : known;
	case OP_MUL: return __builtin_mul_overflow(x[0], x[1], &known) ? otherwise : known;
	case OP_MIN: return MIN(x[0], x[1]);
	case OP_MAX: return MAX(x[0], x[1]);
	case OP_CAST: return x[0];
	case OP_CDIV: return x[1] ? (x[0] + x[1] - 1) / x[1] : 0;
	case OP_DIV: case OP_FLOORDIV: return x[1] ? x[0] / x[1] : 0;
	case OP_SELECT: return x[0] ? x[1] : x[2];
	default: return otherwise;
	}
}

static bool
has_rank(const Value *v, int depth)
{
	const Op *op = v->def;
	bool has = op && op->kind == OP_SPLIT_RANK;
	for (int i = 0; op && depth > 0 && i < op->nin && !has; i++)
		has = has_rank(op->in[i], depth - 1);
	return has;
}

/* Where a loop ended before its trips were joined (pass unroll: start + (end - start, 0 or more) / joined * joined) and
 * before blocks shared it (pass split_k: the least of the end and one of the block's rank). */
static const Value *
end_of(const Op *loop)
{
	static const OpKind joined[] = {OP_ADD, OP_MUL, OP_DIV, OP_CDIV, OP_MAX, OP_SUB};
	const Value *v = loop->in[1], *end = v;
	for (int i = 0; i < (int)LEN(joined) && attr_unrolled(loop) > 0 && end; i++)
		end = end->def && end->def->kind == joined[i] ? end->def->in[joined[i] == OP_ADD] : NULL;
	const Op *least = (end = end ? end : v)->def;
	if (!least || least->kind != OP_MIN || !has_rank(end, 4))
		return end;
	return least->in[has_rank(least->in[0], 4)];
}

/* Is an index made of the number of a loop's trip, and of nothing that is read with it?  *places: of how many places in
 * data that goes on from, one for each row of a sparse matrix that a program has; left as it is if from none.  *each: what
 * it goes on by for 1 of the number, as 64 of j * 64 + arange(0, 64); *per: or by 1 for so many, as pages of t / 64. */
static bool
follows(const Value *v, const Op *loop, int depth, int64_t *places, int64_t *each, int64_t *per)
{
	const Op *op = v->def;
	static const OpKind same[] = {OP_ADD, OP_CAST, OP_BROADCAST, OP_RESHAPE, OP_PERMUTE, OP_CONVERT, OP_SELECT};
	bool does = v == &loop->region[0]->arg[0], is_same = false;
	for (int i = 0; op && i < (int)LEN(same); i++)
		is_same |= op->kind == same[i];
	bool divides = op && (op->kind == OP_DIV || op->kind == OP_FLOORDIV);
	for (int i = divides; op && (divides || op->kind == OP_MUL) && depth > 0 && i < 2; i++) {
		int64_t by, *factor = divides ? per : each;
		if (value_int(op->in[i], &by) && by > 0 && by < INT32_MAX / *factor &&
		    follows(op->in[1 - i], loop, depth - 1, places, each, per)) {
			*factor *= by;
			return true;
		}
	}
	if (does || !is_same || depth == 0)
		return does;
	const Value *other = NULL;
	for (int i = op->kind == OP_SELECT; i < op->nin; i++) {
		bool has = follows(op->in[i], loop, depth - 1, places, each, per);
		other = has ? other : op->in[i];
		does |= has;
	}
	if (does && other && op->kind == OP_ADD && estimate_is_data(other, depth - 1))
		*places = MAX(*places, type_count(other->type));
	return does;
}

/* Where data says how far a loop goes, as the pages of a sequence, it goes as far as the dimension along which its index
 * reads, a row of page numbers; INT64_MIN: there is none.  *places: that it goes on from, which share that dimension; 0: it
 * begins there. */
static int64_t
reach(const Func *f, const Bound *b, const Op *loop, int64_t *places)
{
	const Block *body = loop->region[0];
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if ((op->kind != OP_READ && op->kind != OP_COPY) || op->in[0]->def || op->in[0]->block != f->body)
			continue;
		for (int d = 0; d < op->in[0]->type->rank; d++) {
			int dim = f->param[op->in[0]->index].dim[d];
			int64_t n = op->in[0]->type->extent[d], each = 1, per = 1;
			*places = 0;
			if (!follows(op->in[1 + d], loop, DEPTH, places, &each, &per))
				continue;
			n = n < 0 && dim >= 0 ? dimension(f, b, &f->body->arg[dim], INT64_MIN) : n;
			return n < 0 || n > INT64_MAX / per - each ? INT64_MIN : (n * per + each - 1) / each;
		}
	}
	return INT64_MIN;
}

/* The axes of the grid that say where a loop begins, in data or not. */
static unsigned
axes_of(const Value *v, int depth)
{
	const Op *op = v->def;
	unsigned axes = 0;
	if (op && (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT))
		axes = 1u << attr_axis(op);
	for (int i = 0; op && depth > 0 && i < op->nin; i++)
		axes |= axes_of(op->in[i], depth - 1);
	return axes;
}

/* What of it a program has, of a loop between two places that data says, as rows of a sparse matrix or segments do, by
 * itself or behind other places: the programs along the axes that choose among them share what there is.  Below 0: it is
 * none, or that is not known. */
static double
data_part(const Func *f, const Bound *b, const Op *loop)
{
	Scalars s = {.f = f, .b = b, .at = MIDDLE};
	int64_t places = 0, all = reach(f, b, loop, &places);
	double programs = (double)MAX(places, 1) * (has_rank(loop->in[0], 4) ? MAX(f->schedule.split, 1) : 1);
	unsigned axes = axes_of(loop->in[0], DEPTH) | axes_of(loop->in[1], DEPTH);
	if (scalar(&s, loop->in[1], INT64_MIN, DEPTH) != INT64_MIN || all == INT64_MIN)
		return -1;
	s.starts = true;
	if (scalar(&s, loop->in[0], INT64_MIN, DEPTH) != INT64_MIN && places == 0)
		return -1;
	return (double)all / (programs * choose_programs_along(b, axes));
}

/* Places of a loop whose ends the launch says, of a kernel that computes operands before: rows of 128 columns in parts of
 * 2,048 (pass materialize); below 0: it is none. */
static double
span(const Func *f, const Bound *b, const Op *loop)
{
	Scalars s = {.f = f, .b = b, .at = MIDDLE};
	bool is_first = f->schedule.materialize >= MATERIALIZE_FIRST;
	int64_t lo = is_first ? scalar(&s, loop->in[0], INT64_MIN, DEPTH) : INT64_MIN;
	int64_t hi = is_first ? scalar(&s, loop->in[1], INT64_MIN, DEPTH) : INT64_MIN;
	return lo == INT64_MIN || hi == INT64_MIN ? -1 : (double)MAX(hi - lo, 0);
}

double
estimate_inside(const Func *f, const Bound *b, const Op *access)
{
	double share = 1;
	for (const Op *at = access->home->parent; at; at = at->home->parent) {
		int64_t step;
		bool steps = at->kind == OP_FOR && value_int(at->in[2], &step) && step > 0 && attr_unrolled(at) <= 0;
		double part = steps ? MAX(data_part(f, b, at), span(f, b, at)) : -1;
		double trips = part > 0 ? estimate_trips(f, b, at) : 0;
		if (trips > 0 && part <= trips * (double)step)
			share *= part / (trips * (double)step);
	}
	return share;
}

/* The mean of programs all over the grid, where that is other than the `middle` one's trips, as of keys from where a chunk
 * begins: of chunks of 1024 rows the middle program has one trip, and those of all are 8 in the mean. */
static double
mean_trips(Scalars s, const Op *loop, double middle)
{
	enum { PAIRS = 8 };                             /* and as many that mirror them */
	static const double GOLDEN = 0.6180339887, UNEVEN = 0.15;
	double sum = 0;
	if (!(axes_of(loop->in[0], DEPTH) | axes_of(loop->in[1], DEPTH)))
		return middle;
	for (int i = 0; i < 2 * PAIRS; i++) {
		double at = fmod((i / 2 + 0.5) * GOLDEN, 1);
		s.at = i % 2 ? 1 - at : at;
		s.starts = true;
		int64_t lo = scalar(&s, loop->in[0], INT64_MIN, DEPTH);
		s.starts = false;
		int64_t hi = scalar(&s, loop->in[1], INT64_MIN, DEPTH);
		int64_t step = MAX(scalar(&s, loop->in[2], 1, DEPTH), 1);
		if (lo == INT64_MIN || hi == INT64_MIN)
			return middle;
		sum += trips_between(lo, hi, step) / (2 * PAIRS);
	}
	return fabs(sum - middle) > UNEVEN * MAX(sum, middle) ? sum : middle;
}

static double
trips_of(const Func *f, const Bound *b, const Op *loop, bool *is_guess)
{
	double followed = estimate_followed_trips(b, loop);
	*is_guess = loop->kind != OP_FOR && followed < 0;
	if (loop->kind != OP_FOR || followed >= 0)
		return *is_guess ? TRIPS_GUESS : followed;
	Scalars s = {.f = f, .b = b, .starts = true, .at = MIDDLE};
	int64_t n = attr_unrolled(loop), lo = scalar(&s, loop->in[0], n ? INT64_MIN : 0, DEPTH);
	s.starts = false;
	int64_t hi = scalar(&s, loop->in[1], INT64_MIN, DEPTH);
	int64_t step = MAX(scalar(&s, loop->in[2], 1, DEPTH), 1);
	const Op *count = loop->in[1]->def;
	if (hi == INT64_MIN && count && count->kind == OP_FOR)          /* half of those that pass filter counts */
		return trips_of(f, b, count, is_guess) / 2;
	double part = data_part(f, b, loop);
	if (part >= 0 && n <= 0)
		return n && part >= (double)(-n * step) ? (-n - 1) / 2.0 : MAX(ceil(part / (double)step), 1);
	if (part >= 0)
		return part < (double)step ? 0 : part / (double)step;  /* where those that are left have them all */
	int64_t places;
	if (hi == INT64_MIN && n >= 0 && (s.reach = reach(f, b, loop, &places)) != INT64_MIN) {
		s.end = end_of(loop);
		hi = scalar(&s, loop->in[1], s.reach, DEPTH);
	}
	*is_guess = (hi == INT64_MIN || lo == INT64_MIN) && n >= 0;
	if (hi == INT64_MIN || lo == INT64_MIN)
		return n > 0 ? TRIPS_GUESS / (double)n : n < 0 ? (-n - 1) / 2.0 : TRIPS_GUESS;
	return mean_trips(s, loop, trips_between(lo, hi, step));
}

double
estimate_trips(const Func *f, const Bound *b, const Op *loop)
{
	bool is_guess;
	return trips_of(f, b, loop, &is_guess);
}

bool
estimate_is_guess(const Func *f, const Bound *b, const Op *loop)
{
	bool is_guess;
	return trips_of(f, b, loop, &is_guess) >= 0 && is_guess;
}

int64_t
estimate_last(const Func *f, const Bound *b, const Value *v, Cluster c)
{
	const Scalars s = {.f = f, .b = b, .is_last = true, .cluster = c};
	return scalar(&s, v, INT64_MIN, DEPTH);
}

int64_t
estimate_at(const Func *f, const Bound *b, const Value *v, double program, double trip)
{
	const Scalars s = {.f = f, .b = b, .at = program, .trip = trip};
	return scalar(&s, v, INT64_MIN, DEPTH);
}

/* ---- instructions of a warp, by the thread IR ---- */

/* Of the thread IR: trips of its loops are those of the tile IR's that they were, in their order. */
typedef struct Issued {
	const CostFacts *facts;
	const ThreadModule *m;
	const Func *f;
	VEC(const Op *) loop;
	int warps;
	double once;                                    /* of a program: what is outside of a loop over programs */
	bool marks_apart, takes_all;                    /* marks are those of all branches, taken or not */
	bool is_fitted;                                 /* to what the ops were taken to be */
} Issued;

/* Loops of one place, as pass unroll leaves, differ in their steps. */
static bool
is_loop_of(const Issued *x, const Op *op, const ThreadNode *n)
{
	int64_t step, by;
	if (op->place.line != n->place.line || op->place.col != n->place.col)
		return false;
	return op->kind != OP_FOR || n->kind != NODE_LOOP || !value_int(op->in[2], &step) || step <= 0 ||
	    (thread_const(x->m, n->in[2], &by) && by == step);
}

/* Has SASS one instruction of its kind for it?  By these the report finds the trips of SASS's loops. */
static bool
is_marked(const ThreadNode *n)
{
	if (n->kind == NODE_MMA)                        /* fp8 may be converted, and takes several then */
		return !dtype_is_float(n->mma->a) || dtype_info[n->mma->a].bits != 8;
	bool copies = n->kind == NODE_PRIM && n->op >= PRIM_CP_ASYNC && n->op <= PRIM_CP_ASYNC_LINE;
	bool shuffles = n->kind == NODE_PRIM && n->op >= PRIM_SHUFFLE && n->op <= PRIM_REDUX_XOR;
	bool global = (n->kind == NODE_LOAD || n->kind == NODE_STORE) && n->at->space == SPACE_GLOBAL;
	return n->kind == NODE_WGMMA || copies || shuffles || global;
}

static bool
has_marked(const ThreadRegion *r)
{
	return r && ANY_OF(i, r->body.n, is_marked(r->body.at[i]) || has_marked(r->body.at[i]->region[0]) ||
				   has_marked(r->body.at[i]->region[1]));
}

/* Branches of the source are taken, and those of roles; those that lowering makes within a function, as for angles beyond
 * 2^17, hardly ever: they only compute. */
static double
issued_branch(const Issued *x, const ThreadNode *n)
{
	static const double SELDOM = 0.1;
	const Op *branch = x->takes_all ? NULL : FIND_OP(op, x->f->body, op->kind == OP_IF &&
	    op->place.line == n->place.line && op->place.col == n->place.col);
	double taken = branch ? x->facts->taken(x->facts->user, branch) : -1;
	bool first = n->region[0] && n->region[0]->body.n > 0, second = n->region[1] && n->region[1]->body.n > 0;
	if (taken >= 0 && first != second)
		return first ? taken : 1 - taken;
	if (ANY_OP(op, x->f->body, op->nregion == 0 && op_info[op->kind].cost == COST_LONG &&
	    op->place.line == n->place.line && op->place.col == n->place.col) &&
	    !has_marked(n->region[0]) && !has_marked(n->region[1]))
		return SELDOM;
	return 1;
}

static double
issued_trips(void *user, const ThreadNode *n)
{
	Issued *x = user;
	if (n->kind == NODE_IF)
		return issued_branch(x, n);
	for (int i = 0; i < x->loop.n; i++) {
		const Op *op = x->loop.at[i];
		if (!op || !is_loop_of(x, op, n))
			continue;
		x->loop.at[i] = NULL;
		return MAX(x->facts->trips(x->facts->user, op), 0) / (op_is_over_programs(op) ? x->once : 1);
	}
	return thread_trips(x->m, n);
}

static void
issued_take(void *user, const ThreadNode *n, double times, double issue)
{
	Issued *x = user;
	LineCosts *lines = x->facts->lines;
	const Place *at = n->place.line > 0 ? &n->place : &x->f->place;
	int i = 0;
	while (lines && i < lines->n && (lines->at[i].line != at->line || lines->at[i].file != at->file))
		i++;
	if (!lines)
		return;
	if (i == lines->n)
		vec_push(x->m->mem, lines, ((LineCost){.file = at->file, .line = at->line, .used.warps = x->warps}));
	lines->at[i].used.issue += x->is_fitted || x->takes_all ? 0 : issue;
	double *of = n->kind == NODE_MMA || n->kind == NODE_WGMMA ? &lines->at[i].products : &lines->at[i].marks;
	*of += is_marked(n) && issue > 0 && x->takes_all == x->marks_apart ? times : 0;
}

/* Has the program loops of its own? */
static bool
add_loops(Issued *x, Arena *mem)
{
	bool any = false;
	x->loop.n = 0;
	for (const Op *op = x->f->body->first; op; op = op_after(op, x->f->body)) {
		any |= op_is_loop(op) && !op_is_over_programs(op);
		if (op_is_loop(op))
			vec_push(mem, &x->loop, op);
	}
	return any;
}

enum { ELEMENTS_MOST = 1024 };                          /* of a thread: no form of more compiles (pass coalesce) */

/* In place of what the ops of the tile IR were taken to be: the instructions of what lowering makes of them, and registers
 * between the live ranges of both (14 % off ptxas in the median of 137 forms; of the ops 19 %, of nodes 14 % but for few
 * warps).  In loops ptxas takes more, to begin more loads: 1.09 times that in the median of 66 forms that ask for blocks,
 * 1.41 of 75 others, whose times are nearest by 1.2.  Not of products, to which their estimates were fitted. */
void
estimate_issued(Func *f, const Target *t, const CostFacts *facts, bool is_built, Arena *mem, ProgramCost *c)
{
	static const double SELDOM = 1e-9, OPEN = 1.2;  /* not known: hardly ever; loops that ask for no blocks */
	bool scans = false;
	Issued x = {.facts = facts, .f = f, .warps = c->warps,
	    .once = c->stays ? MAX(facts->once, SELDOM) : 1};
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		scans |= op_family(op) == FAMILY_SCAN;
		x.marks_apart |= op->kind == OP_IF && facts->taken(facts->user, op) >= 0;
	}
	bool loops = add_loops(&x, mem);
	x.is_fitted = c->products > 0 || choose_count_dots(f) > 0;
	bool counts_all = x.is_fitted && facts->lines && is_built;      /* for the marks of lines alone */
	bool is_large = blocks_elements(f) > ELEMENTS_MOST && !counts_all;
	bool is_left = (x.is_fitted && !facts->lines) || facts->by_op || is_large;
	x.m = is_left ? NULL : lower_func(f, t, mem);
	if (!x.m)
		return;
	for (int i = 0; facts->lines && !x.is_fitted && i < facts->lines->n; i++)
		facts->lines->at[i].used.issue = 0;
	int sums;
	ThreadWork all = thread_count(x.m, &(ThreadCounter){issued_trips, issued_take, &x, x.once});
	if (x.marks_apart && facts->lines) {
		x.takes_all = true;
		add_loops(&x, mem);
		thread_count(x.m, &(ThreadCounter){issued_trips, issued_take, &x, x.once});
	}
	if (x.is_fitted)
		return;
	double held = 0.7 * (c->held = thread_live(x.m, &sums)) + 14;
	c->likely = (scans ? held : sqrt(c->registers * held)) *
	    (loops && x.m->kernel.min_blocks <= 1 ? OPEN : 1);
	c->is_counted = true;
	c->is_straight = !loops;
	c->issue = all.issue;
	c->integer = all.integer;
	c->shuffles = MAX(c->shuffles, all.shuffles * c->warps);
	c->shared = MAX(c->shared, all.shared * c->warps);
}
