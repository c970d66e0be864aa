/* How far rounding takes a kernel's outputs apart when its schedule changes.
 *
 * Two candidates compute the same numbers in exact arithmetic.  In floating point they differ where the order of a sum
 * does, and by each rounding of what came of such a sum:
 *
 *     s  = dot(q, k)                    K additions in some order: K/16 roundings of f32
 *     m' = max(m, reduce(s))            m is of the tiles so far, which are other tiles in another candidate
 *     p  = cast(exp2(s - m'), bf16)     one rounding of bf16
 *     o' = dot(p, v, o * exp2(m - m'))  the error of p, and the roundings of f32 in every trip
 *
 * A walk over the tile IR gives every value its error, as a share of the root mean square of the tile: 0 is what all
 * candidates compute alike, as what is made of inputs elementwise, but for sums of products, which may become one op.
 * Independent roundings add up as a random walk does, so
 * n of them count as sqrt n; matrix units truncate, so that theirs count n times.  A difference cancels leading bits, and
 * an exponential magnifies its argument's error by the argument's size: both by factors that stand for usual data.  A value
 * that a loop carries goes through the roundings of its way around once a trip.  Floats that become integers, or positions,
 * jump where they are between two: then a few elements may be anything.
 *
 * The greatest of millions of elements is some times off the typical one, which tune_compare.c allows for. */
#include <math.h>
#include <string.h>

#include "compile/compile.h"
#include "compile/choose/estimate.h"
#include "runtime/tune/tune.h"

/* Of a carried value before its first trip: other candidates have other tiles behind it. */
static const double VARIES = 0x1p-60;
static const double CANCELS = 4, EXPONENTIAL = 8, LOGARITHM = 4, FAST = 0x1p-21, TF32 = 0x1p-10, TF32X3 = 0x1p-21;
/* An instruction of 8-bit floats adds 32 products with 14 bits; 128 of them before they are added as f32, unless {fast}. */
static const double NARROW = 0x1p-14;
enum { ADDED_AT_ONCE = 16, NARROW_AT_ONCE = 32, NARROW_APART = 128, UNKNOWN_PTX = 8 };

typedef struct Walk {
	Func *f;
	const Bound *b;
	RoundError *of;                 /* by Value.id */
	RoundError *written;            /* by parameter: what memory has of the kernel's own */
	double *around;                 /* by Value.id: roundings since a carried value; -1: not made of it */
	double trips;                   /* of the loops around, together */
} Walk;

static void walk(Walk *w, const Block *b);

static double
unit(const Value *v)
{
	return v->type->kind == TYPE_TILE && !v->type->ptr ? reference_roundoff(v->type->elem) : 0;
}

static bool
is_float(const Value *v)
{
	return unit(v) > 0;
}

static void
join(RoundError *a, RoundError b)
{
	a->share = MAX(a->share, b.share);
	a->jumps |= b.jumps;
}

static RoundError
worst_operand(const Walk *w, const Op *op)
{
	RoundError e = {0};
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind == TYPE_TILE)
			join(&e, w->of[op->in[i]->id]);
	return e;
}

static double
extent_along(const Op *op)
{
	return (double)op->in[0]->type->extent[attr_axis(op)];
}

/* ---- roundings of an op alone ---- */

static double
dot_roundings(const Walk *w, const Op *op)
{
	const Type *a = op->in[0]->type;
	const char *precision = attr_precision(op);
	bool sums = !value_const(op->in[op->nin - 1]);          /* over the loop around */
	double n = (double)a->extent[a->rank - 1] * (sums ? w->trips : 1), u = unit(&op->out[0]);
	double e = (n / ADDED_AT_ONCE + 1) * u;
	if (dtype_is_f8(a->elem))
		e += (strcmp(precision, "fast") == 0 ? n : MIN(n, NARROW_APART)) / NARROW_AT_ONCE * NARROW;
	if (strcmp(precision, "tf32") == 0)
		e += TF32;
	else if (strcmp(precision, "tf32x3") == 0)
		e += TF32X3;
	return e;
}

static int
count_roundings(const Block *b)
{
	return COUNT_OPS(op, b, op->nout && is_float(&op->out[0]) &&
	    op_info[op->kind].rounding != ROUNDING_EXACT);
}

static bool
fn_rounds(const Op *op)
{
	const char *fn = attr_fn(op);
	return strcmp(fn, "sum") == 0 || strcmp(fn, "prod") == 0 || strcmp(fn, "add") == 0;
}

static double
own_roundings(const Walk *w, const Op *op)
{
	if (op->nout == 0 || !is_float(&op->out[0]))
		return 0;
	double u = unit(&op->out[0]) + (attr_fast(op) ? FAST : 0);
	switch (op_info[op->kind].rounding) {
	case ROUNDING_NEAREST: return u;
	case ROUNDING_ULP: return u * 2 * op_info[op->kind].ulp[0];
	case ROUNDING_SUM: return dot_roundings(w, op);
	case ROUNDING_BY_FN: return fn_rounds(op) ? u * (op_family(op) == FAMILY_REDUCE || op_family(op) == FAMILY_SCAN ?
	    sqrt(extent_along(op)) : 1) : 0;
	case ROUNDING_BY_TYPE: return unit(op->in[0]) < u ? u : 0;
	case ROUNDING_ANY: return UNKNOWN_PTX * u;
	case ROUNDING_EXACT: return op_has_fn(op) ? u * count_roundings(op->region[0]) * sqrt(extent_along(op)) : 0;
	}
	unreachable();
}

/* Sums in an order that the layout says. */
static bool
reorders(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_DOT: return true;
	case FAMILY_REDUCE: return op_has_fn(op) || (op->kind == OP_REDUCE && fn_rounds(op));
	case FAMILY_SCAN: return op_has_fn(op) || fn_rounds(op);
	case FAMILY_SCATTER: return fn_rounds(op);
	default: return false;
	}
}

/* ---- what an op makes of its operands' errors ---- */

static double
passed_on(const Walk *w, const Op *op)
{
	double sum = 0, most = 0;
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind == TYPE_TILE) {
			sum += w->of[op->in[i]->id].share;
			most = MAX(most, w->of[op->in[i]->id].share);
		}
	switch (op->kind) {
	case OP_SUB: return CANCELS * most;
	case OP_EXP: case OP_EXP2: case OP_EXPM1: case OP_SINH: case OP_COSH: case OP_SIN: case OP_COS: case OP_TAN:
	case OP_POW: return EXPONENTIAL * most;
	case OP_LOG: case OP_LOG2: case OP_LOG1P: return LOGARITHM * most;
	case OP_MUL: case OP_DIV: case OP_FMA: case OP_DOT: case OP_DOT_SCALED: return sum;
	case OP_SELECT: return MAX(w->of[op->in[1]->id].share, w->of[op->in[2]->id].share);
	default: return most;
	}
}

static bool
is_position(const Op *op)
{
	switch (op->kind) {
	case OP_FLOOR: case OP_CEIL: case OP_ROUND: case OP_TRUNC: case OP_REM: case OP_HISTOGRAM: return true;
	case OP_CAST: case OP_BITCAST: return is_float(op->in[0]) != is_float(&op->out[0]);
	case OP_REDUCE: return strncmp(attr_fn(op), "arg", 3) == 0;
	default: return false;
	}
}

/* ptxas makes one rounding of a product and a sum, and which of two products it takes follows its order of instructions. */
static bool
may_fuse(const Op *op)
{
	bool sums = (op->kind == OP_ADD || op->kind == OP_SUB) && is_float(&op->out[0]);
	return sums && ANY_OF(i, op->nin, op->in[i]->def && op->in[i]->def->kind == OP_MUL);
}

static void
plain(Walk *w, const Op *op)
{
	RoundError e = worst_operand(w, op);
	e.jumps |= e.share > 0 && is_position(op);
	e.share = passed_on(w, op);
	if (e.share > 0 || reorders(op) || may_fuse(op))
		e.share += own_roundings(w, op);
	for (int i = 0; i < op->nout; i++) {
		bool picks = i > 0 && op_family(op) == FAMILY_ORDER;    /* the indices of topk and sort */
		w->of[op->out[i].id] = e;
		w->of[op->out[i].id].jumps |= picks && e.share > 0;
	}
}

/* ---- loops and branches ---- */

/* Roundings on the ways from the values that have an entry in `around` already. */
static void
go_around(Walk *w, const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		double before = -1;
		for (int i = 0; i < op->nin; i++)
			before = MAX(before, w->around[op->in[i]->id]);
		double own = before < 0 || op_family(op) == FAMILY_DOT ? 0 : own_roundings(w, op);
		double after = before < 0 ? -1 : before + own;
		for (int r = 0; r < op->nregion && op_is_control(op); r++) {
			const Block *inner = op->region[r];
			for (int i = 0; i < inner->narg; i++)
				w->around[inner->arg[i].id] = before;
			go_around(w, inner);
			for (int i = 0; inner->last && i < inner->last->nin; i++) {
				double more = w->around[inner->last->in[i]->id];
				double trips = op_is_loop(op) ? sqrt(estimate_trips(w->f, w->b, op)) : 1;
				after = more < 0 ? after : MAX(after, MAX(before, 0) + (more - MAX(before, 0)) * trips);
			}
		}
		for (int i = 0; i < op->nout; i++)
			w->around[op->out[i].id] = after;
	}
}

/* What one trip adds to the rounding of a carried value by itself; what goes into it from others is in their errors. */
static double
roundings_of_trip(Walk *w, const Block *body, const Value *arg, const Value *next)
{
	for (int i = 0; i < w->f->nvalues; i++)
		w->around[i] = -1;
	w->around[arg->id] = 0;
	go_around(w, body);
	return MAX(w->around[next->id], 0);
}

enum { TURNS = 2 };                                     /* so that what one carried value is of another is known */

static void
loop(Walk *w, const Op *op)
{
	const Block *body = op->region[op->nregion - 1];
	int outer = op->kind == OP_FOR ? 3 : 0, inner = op->kind == OP_FOR ? 1 : 0;
	double trips = MAX(estimate_trips(w->f, w->b, op), 1);
	for (int r = 0; r < op->nregion; r++)
		for (int i = 0; i < op->region[r]->narg; i++)
			w->of[op->region[r]->arg[i].id] = (RoundError){0};
	for (int i = 0; i < op->nout; i++)
		w->of[op->out[i].id] = w->of[op->in[outer + i]->id];
	for (int turn = 0; turn < TURNS; turn++) {
		for (int r = 0; r < op->nregion; r++) {
			int first = r == op->nregion - 1 ? inner : 0;
			for (int i = 0; i < op->nout; i++) {
				RoundError e = w->of[op->out[i].id];
				if (is_float(&op->out[i]))
					e.share = MAX(e.share, VARIES);
				w->of[op->region[r]->arg[first + i].id] = e;
			}
			w->trips *= trips;
			walk(w, op->region[r]);
			w->trips /= trips;
		}
		for (int i = 0; i < op->nout; i++)
			join(&w->of[op->out[i].id], w->of[body->last->in[i]->id]);
	}
	for (int i = 0; i < op->nout; i++)
		if (is_float(&op->out[i]))
			w->of[op->out[i].id].share +=
			    sqrt(trips) * roundings_of_trip(w, body, &body->arg[inner + i], body->last->in[i]);
}

static void
branch(Walk *w, const Op *op)
{
	for (int i = 0; i < op->nout; i++)
		w->of[op->out[i].id] = (RoundError){0};
	for (int r = 0; r < op->nregion; r++) {
		walk(w, op->region[r]);
		for (int i = 0; i < op->nout; i++)
			join(&w->of[op->out[i].id], w->of[op->region[r]->last->in[i]->id]);
	}
}

/* ---- memory ---- */

/* The parameter behind an access; NULL: any. */
static RoundError *
memory_of(const Walk *w, const Op *op)
{
	const Value *v = FIND_NEXT(of, op->in[0], of->def->in[0], !of->def || of->def->nin == 0);
	return !v->def && v->block == w->f->body && v->index < w->f->nparam ? &w->written[v->index] : NULL;
}

static void
access(Walk *w, const Op *op)
{
	RoundError *memory = memory_of(w, op), e = {0};
	const Value *tile = op_has(op, WRITES) ? access_tile(op) : NULL;
	for (int i = 0; i < w->f->nparam; i++)
		if (!memory || memory == &w->written[i])
			join(&e, w->written[i]);
	for (int i = 0; i < op->nout; i++)
		w->of[op->out[i].id] = e;
	if (!tile)
		return;
	e = worst_operand(w, op);                       /* an index that jumps, too */
	e.share = w->of[tile->id].share;
	e.jumps |= !is_float(tile) && e.share > 0;
	if (op_family(op) == FAMILY_ATOMIC && fn_rounds(op)) {
		double programs = w->trips;
		for (int i = 0; i < w->b->naxis; i++)
			programs *= (double)MAX(w->b->grid[i], 1);
		e.share += sqrt(programs) * unit(tile);
	}
	for (int i = 0; i < w->f->nparam; i++)
		if (!memory || memory == &w->written[i])
			join(&w->written[i], e);
}

static void
walk(Walk *w, const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op_is_loop(op))
			loop(w, op);
		else if (op->kind == OP_IF)
			branch(w, op);
		else if (op_is_access(op))
			access(w, op);
		else
			plain(w, op);
	}
}

/* ---- all of it ---- */

static Func *
elaborate(TglKernel *k, const Bound *b, const char *target)
{
	const PassOptions opt = {.only = "simplify,licm,simplify"};
	ArgAssumptions a = assumptions_of_dims(k->k->program->cx->mem, b);
	Module *m = compile_kernel(k->k, b, target, &a, &opt);
	return m ? m->funcs.at[0] : NULL;
}

static bool
find_errors(TglKernel *k, const Bound *b, const char *target, RoundError *out)
{
	Arena *mem = k->k->program->cx->mem;
	Func *f = elaborate(k, b, target);
	if (!f)
		return false;
	func_number(f);
	Walk w = {.f = f, .b = b, .trips = 1};
	w.of = NEW_ARRAY(mem, RoundError, f->nvalues);
	w.around = NEW_ARRAY(mem, double, f->nvalues);
	w.written = NEW_ARRAY(mem, RoundError, f->nparam);
	for (int turn = 0; turn < TURNS; turn++)        /* what is written is read by other programs, and earlier */
		walk(&w, f->body);
	for (int i = 0; i < k->k->params.n; i++)
		for (int p = 0; p < f->nparam; p++)
			if (strcmp(f->param[p].name, k->k->params.at[i].name) == 0)
				out[i] = w.written[p];
	return true;
}

bool
tune_errors(TglKernel *k, const Bound *b, const char *target, RoundError *out)
{
	Compile *cx = k->program->compile;
	Arena *apart = arena_open();
	Program before = *k->k->program;                /* `called` grows in the memory of the module */
	Reports r = reports_hide(cx, apart);
	bool ok = find_errors(k, b, target, out);
	reports_restore(cx, &r);
	k->k->program->called = before.called;
	arena_reset(cx->tmp);
	arena_close(apart);
	return ok;
}
