/* The compiler's text of a kernel for a target that need not be a device here: tile IR, thread IR, PTX or Metal's text, and
 * what became of each line.  A case without tensors: sizes come from the arguments and the example. */
#include <string.h>

#include "compile/compile.h"
#include "compile/inspect.h"
#include "model/model.h"
#include "runtime/case/case.h"
#include "runtime/tune/tune.h"

static bool
bind(TglCase *c, const char *target, const TglCaseOptions *o)
{
	if (!case_choose_example(c, o) || !binding_collect(c->k, o->args, o->nargs, true, &c->b) || !case_bind(c))
		return false;
	if (!o->untuned && target_named(target))
		tune_apply_target(c->k, &c->b, c->example, target, c->b.mem);
	binding_pointers(c->k, &c->b);
	return true;
}

static bool
inspect(Module *m, const Target *t, const Bound *b, Text *out)
{
	Func *f = m->funcs.at[0];
	Inspection x;
	inspect_func(f, t, inspect_args(b, f, m->cx->mem), m->cx->mem, &x);
	x.asked = min_blocks_per_sm(f, t, m->cx->mem);
	bool ok = t->kind != TARGET_PTX || pressure_estimate(f, t, &x.pressure);
	inspect_print(&x, out);
	return ok;
}

static bool
put_code(Module *m, const Target *t, TglCode what, const Bound *b, Text *out)
{
	if (what == TGL_CODE_TIR) {
		module_print(m, out);
		return true;
	}
	if (!t)
		return diag_error(m->cx, NOWHERE, DIAG_DEVICE_LACKS, "tgl_kernel_code", "cpu", "code of a GPU");
	if (what == TGL_CODE_THREAD)
		return compile_text(m, t, STAGE_THREAD, out, NULL);
	if (what == TGL_CODE_INSPECTION)
		return inspect(m, t, b, out);
	return t->kind == TARGET_METAL ? compile_metal(m, t, NULL, out, NULL, NULL) : compile_ptx(m, t, b, out, NULL, NULL);
}

const char *
tgl_kernel_code(TglKernel *k, TglCode what, const char *target, const TglCaseOptions *options)
{
	const TglCaseOptions plain = {0};
	TglCase c = {.k = k};
	PassOptions passes = {0};
	if (!k)
		return NULL;
	TglContext *cx = k->program->cx;
	Compile *compile = k->program->compile;
	Text *out = &cx->compiled_text;
	options = options ? options : &plain;
	context_begin(cx);
	if (context_null(cx, target, "tgl_kernel_code", "target") ||
	    !launch_handles(NULL, k, options->args, options->nargs, "tgl_kernel_code"))
		return NULL;
	out->n = 0;
	const Target *t = target_named(target);
	bool ok = t || strcmp(target, "cpu") == 0;
	if (!ok)
		compile_unknown_target(compile, target);
	ok = ok && bind(&c, target, options);
	ArgAssumptions assumptions;
	if (ok)
		assumptions = assumptions_of_dims(compile->mem, &c.b.bound);
	if (ok && what != TGL_CODE_INSPECTION)          /* for launches of others, which pass strides */
		assumptions.strides = NULL;
	assumptions.alone = ok && what != TGL_CODE_INSPECTION;
	Module *m = ok ? compile_kernel(k->k, &c.b.bound, target, &assumptions, &passes) : NULL;
	ok = m && put_code(m, t, what, &c.b.bound, out);
	context_end(cx, ok ? TGL_OK : TGL_ERROR_LAUNCH, compile);
	binding_close(&c.b);
	return ok ? out->at : NULL;
}

TglStatus
case_thread_text(TglCase *c, Text *out)
{
	Compile *cx = c->k->program->compile;
	ArgAssumptions assumptions;
	Arena *mem = arena_open(), *before = compile_into(cx, mem);
	context_begin(c->dev->cx);
	specialise(c->k, &c->b, cx->tmp, &assumptions);
	Module *m = instance_compile(c->k, &c->b.bound, &c->dev->dev, &assumptions);
	bool ok = m && compile_text(m, target_named(c->dev->dev.target), STAGE_THREAD, out, NULL);
	TglStatus s = context_end(c->dev->cx, ok ? TGL_OK : TGL_ERROR_SOURCE, cx);
	compile_into(cx, before);
	arena_close(mem);
	return s;
}
