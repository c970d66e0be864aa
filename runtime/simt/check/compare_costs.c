/* Compares what accesses cost when they were counted with what the compiler predicted (compile/inspect.h), line by line.
 *
 * The prediction is of the first program's access at the launch's own sizes and strides, so only tensors whose rows begin
 * on a sector count; of several inspected lines at one place the greatest counts, unless one of them has scratch of its own
 * for which there is no prediction.  A cost below the prediction is not reported. */
#include "runtime/simt/check/check.h"

#include "compile/inspect.h"
#include "ir/derive.h"

#include <string.h>

/* Passes that a line takes for accesses of so many bytes; 0: it has none. */
static int
passes_of(const InspectLine *x, const SimtCost *c)
{
	const BankPlan *b = c->is_write ? &x->in : &x->out;
	if (b->bytes == c->bytes)
		return b->passes;
	return x->kind == INSPECT_SHARED && x->way && !c->is_write ? c->least : 0;
}

/* Integers among the launch's arguments. */
static void
take_scalars(const SimtLaunch *l, InspectArg *arg)
{
	for (int i = 0; i < l->nabi; i++) {
		const AbiParam *p = &l->abi[i];
		DType t = l->func->body->arg[p->param].type->elem;
		if (p->kind == ABI_SCALAR && dtype_is_int(t))
			arg[p->param] = (InspectArg){.known = true, .value = int_wrap(t, (int64_t)l->param[i])};
	}
}

/* Sizes and strides of the launch, as far as its tensors have them, and scalars. */
static InspectArg *
args_of(const SimtLaunch *l, Arena *mem)
{
	const Func *f = l->func;
	InspectArg *arg = NEW_ARRAY(mem, InspectArg, f->nparam);
	take_scalars(l, arg);
	for (int i = 0; i < f->nparam; i++)
		for (int k = 0; k < l->nrange; k++) {
			const SimtRange *r = &l->range[k];
			if (!r->name || r->rank == 0 || strcmp(r->name, f->param[i].name) != 0)
				continue;
			arg[i].known = true;
			for (int d = 0; d < r->rank; d++) {
				int of = param_dim(&f->param[i], r->rank, d);
				arg[i].dim[d] = r->dim[of];
				arg[i].stride[d] = r->stride[of];
				if (f->param[i].dim[d] >= 0)
					arg[f->param[i].dim[d]] = (InspectArg){.known = true, .value = r->dim[of]};
			}
		}
	return arg;
}

/* Does every row of the tensor begin on a sector?  Else the first program's accesses say nothing of the others'. */
static bool
rows_are_sectors(const SimtLaunch *l, const Op *op)
{
	const SimtRange *r = NULL;
	const Value *v = op->in[0];
	if (v->def || v->block->parent || v->type->kind != TYPE_TENSOR)
		return false;
	for (int i = 0; i < l->nrange && !r; i++)
		if (l->range[i].name && strcmp(l->range[i].name, l->func->param[v->index].name) == 0)
			r = &l->range[i];
	if (!r || r->rank == 0 || r->first % 32)
		return false;
	for (int d = 0; d + 1 < r->rank; d++)
		if (r->stride[d] * dtype_info[r->dtype].bits / 8 % 32)
			return false;
	return true;
}

/* UNKNOWN: its indices are data. */
enum { UNKNOWN = -1 };

static int
sectors_of(const SimtLaunch *l, const InspectLine *x, const SimtCost *c)
{
	bool is_access = x->kind == INSPECT_ACCESS || x->kind == INSPECT_COPY;
	if (!is_access || x->bytes != c->bytes || !rows_are_sectors(l, x->op))
		return 0;
	return x->sectors_known ? x->touched : UNKNOWN;
}

static int
predicted_at(const SimtLaunch *l, const Inspection *x, const SimtCost *c, Place at)
{
	int most = 0;
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *line = &x->lines.at[i];
		if (!same_place(line->op->place, at))
			continue;
		if (c->is_shared && (line->kind == INSPECT_DOT || line->kind == INSPECT_REDUCE) && line->smem_bytes)
			return 0;
		int n = c->is_shared ? passes_of(line, c) : sectors_of(l, line, c);
		if (n == UNKNOWN)
			return UNKNOWN;
		most = MAX(most, n);
	}
	return most;
}

static void
warn_cost(const SimtCost *c, int predicted, Compile *cx, Place at)
{
	const char *unit = c->is_shared ? "passes over the banks" : "sectors";
	const char *counted = arena_printf(cx->tmp, "%d %s", c->worst, unit);
	const char *with = predicted == UNKNOWN ? "could not predict it, the indices are data"
	                                       : arena_printf(cx->tmp, "predicted %d", predicted);
	diag_warning(cx, at, DIAG_SIMT_COST, c->is_write ? "write" : "read", counted, with);
	diag_label(cx, "%d bytes a thread; %d would do", c->bytes, c->least);
}

void
simt_findings_warn(const SimtLaunch *l, Compile *cx)
{
	const SimtFindings *f = l->findings;
	Inspection x;
	if (f->unwatched)
		diag_warning(cx, NOWHERE, DIAG_SIMT_PARTIAL, f->unwatched);
	inspect_func(l->func, l->target, args_of(l, cx->tmp), cx->tmp, &x);
	for (int i = 0; i < f->ncosts; i++) {
		const SimtCost *c = &f->cost[i];
		Place at = c->site > 0 && c->site < l->nsite ? l->site[c->site] : NOWHERE;
		int predicted = predicted_at(l, &x, c, at);
		if (predicted != 0 && c->worst > (predicted == UNKNOWN ? c->least : predicted))
			warn_cost(c, predicted, cx, at);
	}
}
