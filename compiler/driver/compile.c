/* One call from a bound kernel to tile IR that a device can load: elaborate, note the schedule and what is promised of
 * arguments, then the pipeline of the target. */
#include "driver/compile.h"

#include <string.h>

/* The word for a target that a kernel's source compares `target` with. */
static const char *
source_target(const Target *t)
{
	if (!t)
		return "cpu";
	return t->kind == TARGET_PTX ? "ptx" : "metal";
}

static int
chosen(int figure)
{
	return figure > 0 ? figure : 0;
}

static void
set_schedule(Func *f, const Schedule *s)
{
	f->schedule = (FuncSchedule){
	    .warps = chosen(s->warps),
	    .stages = chosen(s->stages),
	    .group = chosen(s->group),
	    .persistent = chosen(s->persistent),
	    .specialize = chosen(s->specialize),
	    .ctas = chosen(s->ctas),
	};
}

/* The function's parameters are the kernel's, then its symbols. */
static void
set_promises(Func *f, const Kernel *k, const Promises *p)
{
	for (int i = 0; i < f->nparam; i++)
		f->param[i].multiple =
		    i < k->params.n ? p->param ? p->param[i] : 0 : p->symbol ? p->symbol[i - k->params.n] : 0;
}

Module *
compile_kernel(Kernel *k, const Bound *b, const char *target, const Promises *promises, const PassOptions *opt)
{
	Compile *cx = k->program->cx;
	const Target *t = NULL;
	if (strcmp(target, "cpu") != 0 && !(t = target_named(target))) {
		diag_error(cx, NOWHERE, DIAG_TARGET_UNKNOWN, target);
		return NULL;
	}
	Module *m = kernel_module(k, b, source_target(t));
	if (!m)
		return NULL;
	if (t) {
		set_schedule(m->funcs.at[0], &b->schedule);
		if (promises)
			set_promises(m->funcs.at[0], k, promises);
	}
	return passes_run(m, t, opt) ? m : NULL;
}
