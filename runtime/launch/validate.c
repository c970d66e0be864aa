/* What a launch asks of bound arguments beyond the header: every one is given; tensors lie on the device, fit in shape and
 * strides, and what the kernel writes overlaps nothing else.
 *
 * Every message points at the parameter in the kernel's header. */
#include "runtime/launch/launch.h"

static void
report_strides(Compile *cx, const KernelParam *p, const TglTensor *t)
{
	int64_t want[TGL_MAX_RANK];
	tensor_contiguous(t->dtype, t->rank, t->dim, want);
	const char *shape = extents_text(t->rank, t->dim, cx->tmp);
	diag_error(cx, p->ast->place, DIAG_LAUNCH_STRIDED, p->name,
	    arena_printf(cx->tmp, "%s%s", dtype_info[t->dtype].text, shape), extents_text(t->rank, t->stride, cx->tmp),
	    extents_text(t->rank, want, cx->tmp));
	diag_help(cx, "declare it `strided`, or give a contiguous copy");
}

static bool
check_strides(Compile *cx, const KernelParam *p, const TglTensor *t)
{
	if (p->kind == PARAM_TENSOR && !p->strided && !tensor_is_contiguous(t)) {
		report_strides(cx, p, t);
		return false;
	}
	if (!param_is_output(p) || p->kind != PARAM_TENSOR || tgl_tensor_count(t) == 0)
		return true;
	for (int d = 0; d < t->rank; d++)
		if (t->dim[d] > 1 && t->stride[d] == 0)
			return diag_error(cx, p->ast->place, DIAG_LAUNCH_ZERO_STRIDE, p->name, d);
	if (!tensor_overlaps_itself(t))
		return true;
	return diag_error(cx, p->ast->place, DIAG_LAUNCH_SELF_OVERLAP, p->name, extents_text(t->rank, t->dim, cx->tmp),
	    extents_text(t->rank, t->stride, cx->tmp));
}

bool
binding_fits(TglKernel *tk, const Binding *b, int i, const TglTensor *t)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	const BoundParam *want = &b->bound.param[i];
	bool same = p->kind == PARAM_POINTER || t->rank == want->rank;
	for (int d = 0; p->kind == PARAM_TENSOR && same && d < t->rank; d++)
		same = t->dim[d] == want->dim[d];
	if (same)
		return true;
	return diag_error(cx, p->ast->place, DIAG_LAUNCH_SHAPE, p->name, extents_text(t->rank, t->dim, cx->tmp),
	    extents_text(want->rank, want->dim, cx->tmp));
}

static bool
check_tensor(TglKernel *tk, TglDevice *dev, const Binding *b, int i)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	const TglTensor *t = b->tensor[i];
	if (t->dev != dev)
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_DEVICE, p->name, dev->dev.name);
	return binding_fits(tk, b, i, t) && check_strides(cx, p, t);
}

/* What the kernel writes as a tensor overlaps nothing, and what it writes through a pointer no
 * tensor; pointers among themselves may, as in any pointer program. */
static bool
check_apart(TglKernel *tk, const Binding *b, int i, int j)
{
	const KernelParam *p = &tk->k->params.at[i], *q = &tk->k->params.at[j];
	if (!b->tensor[i] || !b->tensor[j] || (!param_is_output(p) && !param_is_output(q)))
		return true;
	if (p->kind == PARAM_POINTER && q->kind == PARAM_POINTER)
		return true;
	if (!tensor_overlaps(b->tensor[i], b->tensor[j]))
		return true;
	const KernelParam *w = param_is_output(p) ? p : q;
	Compile *cx = tk->program->compile;
	diag_error(cx, q->ast->place, DIAG_LAUNCH_OVERLAP, p->name, q->name, w->name);
	return diag_note(cx, p->ast->place, "'%s' is declared here", p->name);
}

bool
binding_complete(TglKernel *tk, const Binding *b)
{
	bool ok = true;
	for (int i = 0; i < tk->k->params.n; i++) {
		const KernelParam *p = &tk->k->params.at[i];
		if (b->info[i].given || param_is_scratch(p))
			continue;
		diag_error(tk->program->compile, p->ast->place, DIAG_LAUNCH_MISSING, p->name,
		    tk->k->name, tk->param_text[i]);
		ok = false;
	}
	return ok;
}

bool
binding_check(TglKernel *tk, TglDevice *dev, const Binding *b)
{
	bool ok = true;
	for (int i = 0; i < tk->k->params.n; i++)
		if (b->tensor[i])
			ok &= check_tensor(tk, dev, b, i);
	for (int i = 0; ok && i < tk->k->params.n; i++)
		for (int j = i + 1; j < tk->k->params.n; j++)
			ok &= check_apart(tk, b, i, j);
	return ok;
}
