/* Floating point operations of one launch, or elements that the interpreter computes, counted from the tile IR without
 * running it.
 *
 * Each op's count follows from its tiles' extents: 2 M N K for a dot, one an element for
 * elementwise arithmetic and for what a reduction takes in.  Loops multiply by their trips, which
 * are found by evaluating scalar integers: dimensions, scalar arguments, and arithmetic on them.
 * Where the count depends on the program's index (a causal loop), every program is counted, or
 * evenly spread ones of a very large grid. Where it depends on what memory holds, or where finding
 * out takes too long, it is not known.
 */
#include <math.h>
#include <stdlib.h>

#include "num/num.h"
#include "runtime/case/case.h"

enum {
	MAX_PROGRAMS = 1 << 16, /* counted one by one */
	MAX_TRIPS = 1 << 16,    /* of a loop whose body's count depends on the index */
	MAX_OPS = 1 << 20,      /* looked at in one program: inner loops are walked for each trip of outer ones */
	MAX_ALL_OPS = 1 << 26,  /* and in all that are counted one by one */
};

typedef struct Env {
	double (*of)(const Op *op); /* what is counted, of one trip of the op itself, regions apart */
	const PlanArg *args;
	const Func *f;
	bool *known;
	int64_t *value;
	bool has_program; /* program is known */
	int64_t program[MAX_AXES], grid[MAX_AXES];
	int64_t left; /* ops that may still be looked at; none: the count is not known */
} Env;

static double count_block(Env *e, const Block *b);

static void
set(Env *e, const Value *v, bool known, int64_t value)
{
	e->known[v->id] = known;
	e->value[v->id] = value;
}

/* The value of an elementwise op on scalars, by the loops that run it. */
static bool
apply(const Env *e, const Op *op, int64_t *out)
{
	Attr in[3], value;
	for (int i = 0; i < op->nin; i++) {
		if (i == LEN(in) || !e->known[op->in[i]->id])
			return false;
		in[i] = attr_int_value(e->value[op->in[i]->id]);
	}
	if (!op_has(op, ELEM) || !elem_fold(op, in, &value))
		return false;
	*out = value.i;
	return true;
}

/* The value of a scalar integer op, where it is known. */
static void
evaluate(Env *e, const Op *op)
{
	const Value *out = &op->out[0];
	int64_t axis = attr_axis(op), v = 0;
	bool known = false;
	if (op->nout != 1 || out->type->kind != TYPE_TILE || out->type->ptr ||
	    out->type->rank != 0 || dtype_is_float(out->type->elem))
		return;
	const Value *a = op->nin > 0 ? op->in[0] : NULL;
	switch (op->kind) {
	case OP_CONST:
		known = true;
		v = attr_value(op)->i;
		break;
	case OP_PROGRAM_ID:
		known = e->has_program;
		v = e->program[axis];
		break;
	case OP_NUM_PROGRAMS:
		known = true;
		v = e->grid[axis];
		break;
	case OP_DIM:
	case OP_STRIDE:
		known = !a->def;
		if (known)
			v = op->kind == OP_DIM ? e->args[a->index].dim[axis]
					       : e->args[a->index].stride[axis];
		break;
	case OP_SELECT:
		known = e->known[a->id] && e->known[op->in[e->value[a->id] ? 1 : 2]->id];
		v = known ? e->value[op->in[e->value[a->id] ? 1 : 2]->id] : 0;
		break;
	default: known = apply(e, op, &v);
	}
	set(e, out, known, v);
}

/* A buffer that a product of a warpgroup reads may hold the operand's transpose. */
static double
dot_flops(const Op *op)
{
	const Type *a = op->in[0]->type, *out = op->out[0].type;
	double depth = op->kind == OP_DOT_START ? (double)type_count(a) / (double)out->extent[0]
						: (double)a->extent[a->rank - 1];
	return 2.0 * (double)type_count(out) * depth;
}

static double
op_flops(const Op *op)
{
	if (op_family(op) == FAMILY_DOT || op->kind == OP_DOT_START)
		return dot_flops(op);
	if (op->nout == 0 || op->out[0].type->ptr || !dtype_is_float(op->out[0].type->elem))
		return 0;
	double n = (double)type_count(op->out[0].type);
	switch (op_family(op)) {
	case FAMILY_CAST: case FAMILY_LOOKUP: return 0;
	case FAMILY_ARITH: return op->kind == OP_FMA ? 2 * n : op->kind == OP_SELECT ? 0 : n;
	case FAMILY_REDUCE: case FAMILY_SCAN: return op->nregion ? 0 : (double)type_count(op->in[0]->type);
	case FAMILY_ATOMIC: return n;
	default: return op_has(op, ELEM) ? n : 0;
	}
}

/* The interpreter's products do some 40 operations in the time that another element takes. */
static double
op_elements(const Op *op)
{
	if (op_family(op) == FAMILY_DOT || op->kind == OP_DOT_START)
		return dot_flops(op) / 40;
	const Type *in = op->nin ? op->in[0]->type : NULL, *out = op->nout ? op->out[0].type : NULL;
	return MAX(in && in->kind == TYPE_TILE ? (double)type_count(in) : 0,
	    out && out->kind == TYPE_TILE ? (double)type_count(out) : 0);
}

/* Values carried by a loop are not followed. */
static void
clear_args(Env *e, const Block *b, int from)
{
	for (int i = from; i < b->narg; i++)
		set(e, &b->arg[i], false, 0);
}

static double
count_for(Env *e, const Op *op)
{
	Block *body = op->region[0];
	set(e, &body->arg[0], false, 0);
	clear_args(e, body, 1);
	double once = count_block(e, body);
	if (once == 0)
		return 0;
	if (!ALL_OF(i, 3, e->known[op->in[i]->id]))
		return -1;
	int64_t lo = e->value[op->in[0]->id], hi = e->value[op->in[1]->id],
		step = e->value[op->in[2]->id];
	double trips = step == 0 ? 0 : ceil(((double)hi - (double)lo) / (double)step);
	if (trips <= 0)
		return 0;
	if (once > 0)
		return trips * once;
	if (trips > MAX_TRIPS)
		return -1;
	double sum = 0;
	for (int64_t i = 0; i < (int64_t)trips; i++) {
		set(e, &body->arg[0], true, lo + i * step);
		once = count_block(e, body);
		if (once < 0)
			return -1;
		sum += once;
	}
	return sum;
}

static double
count_if(Env *e, const Op *op)
{
	if (e->known[op->in[0]->id])
		return count_block(e, op->region[e->value[op->in[0]->id] ? 0 : 1]);
	double yes = count_block(e, op->region[0]), no = count_block(e, op->region[1]);
	return yes == no ? yes : -1;
}

/* A function applied elementwise by a reduction or scan: once an element. */
static double
count_fn(Env *e, const Op *op)
{
	clear_args(e, op->region[0], 0);
	double once = count_block(e, op->region[0]);
	return once < 0 ? -1 : once * (double)type_count(op->in[0]->type);
}

static double
count_regions(Env *e, const Op *op)
{
	switch (op->kind) {
	case OP_FOR: return count_for(e, op);
	case OP_IF: return count_if(e, op);
	default: break;
	}
	if (op_has_fn(op))
		return count_fn(e, op);
	double sum = 0;
	for (int i = 0; i < op->nregion; i++) {
		clear_args(e, op->region[i], 0);
		sum += fabs(count_block(e, op->region[i]));
	}
	return sum > 0 ? -1 : 0;
}

/* -1: not known, and not 0. */
static double
count_block(Env *e, const Block *b)
{
	double sum = 0;
	bool known = true;
	for (const Op *op = b->first; op; op = op->next) {
		if (e->left-- <= 0)
			return -1;
		for (int i = 0; i < op->nout; i++)
			set(e, &op->out[i], false, 0);
		evaluate(e, op);
		double n = op->nregion ? count_regions(e, op) : e->of(op);
		known &= n >= 0;
		sum += n;
	}
	return known ? sum : -1;
}

static double
count_programs(Env *e, int64_t total)
{
	int64_t n = MIN(total, MAX_PROGRAMS);
	int64_t all = MAX_ALL_OPS;
	double sum = 0;
	e->has_program = true;
	for (int64_t i = 0; i < n; i++) {
		int64_t at =
		    total == n ? i : (int64_t)((double)i * ((double)total / (double)n));
		for (int d = 0; d < MAX_AXES; d++) {
			e->program[d] = at % e->grid[d];
			at /= e->grid[d];
		}
		int64_t room = e->left = MIN(all, MAX_OPS);
		double one = count_block(e, e->f->body);
		if (one < 0)
			return -1;
		all -= room - e->left;
		if (i == 0)
			n = MIN(n, all / MAX(room - e->left, 1) + 1);
		sum += one;
	}
	return sum * ((double)total / (double)n);
}

static double
count(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES], double (*of)(const Op *))
{
	func_number(f);
	Env e = {.of = of, .args = args, .f = f, .left = MAX_OPS};
	int64_t total = 1;
	for (int d = 0; d < MAX_AXES; d++) {
		e.grid[d] = grid[d];
		total *= grid[d];
	}
	if (total <= 0)
		return 0;
	e.known = memory_new((size_t)f->nvalues, sizeof *e.known);
	e.value = memory_new((size_t)f->nvalues, sizeof *e.value);
	for (int i = 0; i < f->nparam; i++) {
		const Type *t = f->body->arg[i].type;
		bool whole = f->param[i].kind == PARAM_DIM ||
			     (f->param[i].kind == PARAM_SCALAR && !dtype_is_float(t->elem));
		set(&e, &f->body->arg[i], whole, args[i].i);
	}
	double r = count_block(&e, f->body);
	r = r < 0 ? count_programs(&e, total) : r * (double)total;
	free(e.known);
	free(e.value);
	return r;
}

double
work_flops(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	return count(f, args, grid, op_flops);
}

double
work_elements(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	return count(f, args, grid, op_elements);
}
