/* --break-nan: around each op that gives floats a step before it looks at what it is given, and one after it at what
 * it made.  A NaN is a fault where no operand has one, an infinity where no operand has an infinity or NaN; so a mask's
 * -inf, which the source says, goes through, and the first op that makes one of something else is the one told. */
#include "ir/interp/plan.h"

#include <inttypes.h>
#include <math.h>

typedef struct NanStep {
	Step step;
	Home *value;
	int n;
} NanStep;

static bool
has_floats(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE && dtype_is_float(v->type->elem) &&
	    !dtype_is_packed(v->type->elem);
}

/* Which element is the first that is not finite and, but for `nan` and `inf`, new; -1: none. */
static int64_t
first_new(const Worker *w, const Home *h, bool nan, bool inf)
{
	const void *data = home_at(w, h);
	int64_t n = type_count(h->type);
	for (int64_t i = 0; i < n; i++) {
		double x = dtype_load_f64(h->type->elem, data, i);
		if (isnan(x) ? !nan : isinf(x) && !inf && !nan)
			return i;
	}
	return -1;
}

static bool
run_before(Worker *w, const Step *step)
{
	const NanStep *s = (const NanStep *)step;
	w->given_nan = w->given_inf = false;
	for (int i = 0; i < s->n; i++) {
		const void *data = home_at(w, &s->value[i]);
		const Type *t = s->value[i].type;
		for (int64_t k = 0, n = type_count(t); k < n; k++) {
			double x = dtype_load_f64(t->elem, data, k);
			w->given_nan |= isnan(x);
			w->given_inf |= isinf(x);
		}
	}
	return true;
}

static bool
report_new(Worker *w, const Op *op, const Value *v, const void *data, int64_t at)
{
	const Type *t = v->type;
	double x = dtype_load_f64(t->elem, data, at);
	int64_t rest = at, step = type_count(t);
	Text line = {0};
	program_format(w->plan->func, w->program, &line);
	text_printf(&line, ": %s makes %s", op_info[op->kind].text, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
	for (int d = 0; d < t->rank; d++) {
		step /= t->extent[d];
		text_printf(&line, "%s%" PRId64, d ? ", " : " at [", rest / step);
		rest %= step;
	}
	text_put(&line, t->rank > 0 ? "] of " : ", ");
	if (v->name)
		text_printf(&line, "'%s', ", v->name);
	type_print(t, &line);
	fault_at(w, op, FAULT_NAN, "%s", line.at);
	text_close(&line);
	return false;
}

static bool
run_after(Worker *w, const Step *step)
{
	const NanStep *s = (const NanStep *)step;
	for (int i = 0; i < s->n; i++) {
		int64_t at = first_new(w, &s->value[i], w->given_nan, w->given_inf);
		if (at >= 0)
			return report_new(w, step->op, &step->op->out[i], home_at(w, &s->value[i]), at);
	}
	return true;
}

/* A folding function runs over rows of its own. */
static bool
is_watched(const Op *op)
{
	if (op->nout == 0 || op->nregion > 0 || op->kind == OP_CONST)
		return false;
	for (const Block *b = op->home; b->parent; b = b->parent->home)
		if (b->parent->kind == OP_REDUCE_FN || b->parent->kind == OP_SCAN_FN)
			return false;
	for (int i = 0; i < op->nout; i++)
		if (!has_floats(&op->out[i]))
			return false;
	return true;
}

Step *
nan_before(Plan *p, const Op *op)
{
	if (!is_watched(op))
		return NULL;
	NanStep *s = STEP(p, op, NanStep, run_before);
	s->value = NEW_ARRAY(p->mem, Home, op->nin);
	for (int i = 0; i < op->nin; i++)
		if (has_floats(op->in[i]))
			s->value[s->n++] = value_home(p, op->in[i]);
	return &s->step;
}

Step *
nan_after(Plan *p, const Op *op)
{
	if (!is_watched(op))
		return NULL;
	NanStep *s = STEP(p, op, NanStep, run_after);
	s->value = NEW_ARRAY(p->mem, Home, op->nout);
	for (int i = 0; i < op->nout; i++)
		s->value[s->n++] = value_home(p, &op->out[i]);
	return &s->step;
}
