/* Elementwise ops: one on a row of elements, which is a whole tile here, a strip or a row of scalars in the fast layer.
 * Numbers go to num; pointers, which are only added to and subtracted, are dealt with here.  With perturb each f64
 * result that is rounded is scaled (PlanOptions). */
#include "num/loops.h"
#include "ir/interp/run.h"

static DType
elem_dtype(const Type *t)
{
	return t->ptr != PTR_NONE ? TY_I64 : t->elem;
}

/* Results that are exact in any arithmetic are not perturbed. */
static bool
rounds(OpKind k)
{
	Rounding r = op_info[k].rounding;

	return (r != ROUNDING_EXACT && r != ROUNDING_BY_TYPE) || k == OP_REM;   /* devices multiply and subtract */
}

bool
elementwise_make(const Plan *p, Elementwise *e, const Op *op)
{
	DType in[3] = {0};
	const Type *out = op->out[0].type;
	unsigned flags = attr_propagate_nan(op) ? ELEM_NAN : 0;

	*e = (Elementwise){.nin = op->nin};
	if (op->kind == OP_PTR_ADD || op->kind == OP_PTR_DIFF) {
		e->ptr_size = dtype_tile_size(op->in[0]->type->elem);
		e->index = op->in[1]->type->elem;
		e->is_diff = op->kind == OP_PTR_DIFF;
		return true;
	}
	if (op->kind == OP_LOOKUP) {
		const IntList *bits = attr_bits(op);
		elem_make_lookup(&e->elem, op->in[0]->type->elem, out->elem, bits->at, bits->n);
		return true;
	}
	for (int i = 0; i < op->nin; i++)
		in[i] = elem_dtype(op->in[i]->type);
	e->perturbs = p->opt.perturb > 0 && out->elem == TY_F64 && out->ptr == PTR_NONE && rounds(op->kind);
	return elem_make(&e->elem, p->cpu, op->kind, in, op->nin, elem_dtype(out), flags);
}

static void
run_pointers(Worker *w, const Elementwise *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	uint64_t *o = out;
	const uint64_t *a = in[0], *b = in[1];
	int64_t da = !(scalar & 1), db = !(scalar & 2);

	if (!e->is_diff) {
		loops_at[w->plan->cpu].point(o, a, b, e->index, scalar, (uint64_t)e->ptr_size, n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		o[i] = (uint64_t)((int64_t)(a[i * da] - b[i * db]) / e->ptr_size);
}

void
elementwise_run(Worker *w, const Elementwise *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	if (e->ptr_size)
		run_pointers(w, e, out, in, scalar, n);
	else
		elem_run(&e->elem, out, in, scalar, n);
	if (e->perturbs)
		perturb_f64(w->plan->cpu, out, n, w->plan->opt.perturb, &w->rng);
}

bool
define_elementwise(Worker *w, const Op *op)
{
	Elementwise e;
	const void *in[3] = {0};

	elementwise_make(w->plan, &e, op);
	for (int i = 0; i < op->nin; i++)
		in[i] = value_at(w, op->in[i]);
	elementwise_run(w, &e, value_at(w, &op->out[0]), in, 0, type_count(op->out[0].type));
	return true;
}
