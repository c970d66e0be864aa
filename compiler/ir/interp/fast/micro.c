/* One elementwise op on a row of elements: what groups, scalar steps and the regions of folds are made of.
 * Numbers go to elem.c; pointers, which are only added to and subtracted, are dealt with here. */
#include "num/loops.h"
#include "ir/interp/plan.h"

static DType
plain_dtype(const Type *t)
{
	return t->ptr != PTR_NONE ? TY_I64 : t->elem;
}

/* Results that are exact in any arithmetic are left alone by perturb. */
static bool
rounds(OpKind k)
{
	switch (k) {
	case OP_NEG:
	case OP_ABS:
	case OP_MIN:
	case OP_MAX:
	case OP_SELECT:
	case OP_CAST:
	case OP_BITCAST:
	case OP_FLOOR:
	case OP_CEIL:
	case OP_ROUND:
	case OP_TRUNC:
	case OP_LOOKUP:
		return false;
	default:
		return true;
	}
}

void
micro_make(Plan *p, Micro *m, const Op *op)
{
	DType in[3] = {0};
	const Type *out = op->out[0].type;
	unsigned flags = (attr_fast(op) ? ELEM_FAST : 0) | (attr_propagate_nan(op) ? ELEM_NAN : 0);

	*m = (Micro){.nin = op->nin};
	if (op->kind == OP_PTR_ADD || op->kind == OP_PTR_DIFF) {
		m->ptr_size = dtype_tile_size(op->in[0]->type->elem);
		m->index = op->in[1]->type->elem;
		m->is_diff = op->kind == OP_PTR_DIFF;
		return;
	}
	if (op->kind == OP_LOOKUP) {
		const IntList *bits = attr_bits(op);
		elem_make_lookup(&m->elem, op->in[0]->type->elem, out->elem, bits->at, bits->n);
		return;
	}
	for (int i = 0; i < op->nin; i++)
		in[i] = plain_dtype(op->in[i]->type);
	if (!elem_make(&m->elem, p->cpu, op->kind, in, op->nin, plain_dtype(out), flags))
		p->why = arena_printf(p->func->module->cx->tmp, "%s cannot be computed on this device",
		    op_info[op->kind].text);
	m->perturbs = p->opt.perturb > 0 && out->elem == TY_F64 && out->ptr == PTR_NONE && rounds(op->kind);
}

static void
run_pointers(Worker *w, const Micro *m, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	uint64_t *o = out;
	const uint64_t *a = in[0], *b = in[1];
	int64_t da = !(scalar & 1), db = !(scalar & 2);

	if (!m->is_diff) {
		loops_at[w->plan->cpu].point(o, a, b, m->index, scalar, (uint64_t)m->ptr_size, n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		o[i] = (uint64_t)((int64_t)(a[i * da] - b[i * db]) / m->ptr_size);
}

void
micro_run(Worker *w, const Micro *m, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	if (m->ptr_size)
		run_pointers(w, m, out, in, scalar, n);
	else
		elem_run(&m->elem, out, in, scalar, n);
	if (m->perturbs)
		perturb_f64(out, n, w->plan->opt.perturb, &w->rng);
}
