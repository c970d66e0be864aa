/* From arguments as a caller gives them to a bound header: sorts them to parameters and names, and has sema evaluate the
 * header, with the values that tuning found.
 *
 * Every message points at the parameter in the kernel's header. */
#include <string.h>

#include "runtime/tune/tune.h"

static bool
is_value_name(const Kernel *k, const char *name)
{
	return symbol_named(k, name) >= 0 || ctparam_named(k, name) >= 0 || schedule_named(name) >= 0;
}

static bool
report_unknown(Compile *cx, const Kernel *k, const char *name)
{
	diag_error(cx, k->item->name_place, DIAG_LAUNCH_UNKNOWN, k->name, name);
	return diag_help(cx, "%s", header_advice(k, name));
}

static const char *
kind_text(TglArgKind kind)
{
	const char *const text[] = {
	    "nothing", "a tensor", "an integer", "a float", "a bool", "a dtype", "an expression", "an integer"};
	return (unsigned)kind < (unsigned)LEN(text) ? text[kind] : "something else";
}

static bool
value_of(const TglArg *a, Const *out)
{
	*out = (Const){.kind = CONST_NONE};
	switch (a->kind) {
	case TGL_ARG_INT: out->kind = CONST_INT; break;
	case TGL_ARG_UINT: out->kind = a->i < 0 ? CONST_BIG : CONST_INT; break;
	case TGL_ARG_BOOL: out->kind = CONST_BOOL; break;
	case TGL_ARG_FLOAT: out->kind = CONST_FLOAT; break;
	case TGL_ARG_DTYPE: out->kind = CONST_DTYPE; break;
	default: return false;
	}
	out->i = a->i;
	out->f = a->f;
	if (out->kind == CONST_DTYPE) {
		if (a->i < 0 || a->i >= DTYPE_COUNT)
			return false;
		out->dtype = (DType)a->i;
	}
	return true;
}

/* A number for a scalar parameter, in the kind that its type asks for. */
static bool
scalar_value(Compile *cx, const KernelParam *p, const TglArg *a, Const *out)
{
	bool ok = value_of(a, out) && out->kind != CONST_DTYPE;
	if (ok && p->dtype_known) {
		bool is_float = dtype_is_float(p->dtype);
		if (is_float)
			const_to_float(out);
		ok = is_float              ? out->kind == CONST_FLOAT
		     : p->dtype == TY_BOOL ? out->kind == CONST_BOOL
					   : out->kind == CONST_INT || out->kind == CONST_BIG;
	}
	if (!ok)
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_KIND, p->name,
		    p->dtype_known ? dtype_info[p->dtype].text : "a number", kind_text(a->kind));
	bool big = out->kind == CONST_BIG;
	if (p->dtype_known && dtype_is_int(p->dtype) &&
	    (big ? p->dtype != TY_U64 : !int_fits(p->dtype, out->i)))
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_RANGE, p->name,
		    const_describe(cx, out), dtype_info[p->dtype].text);
	return true;
}

/* Elements that a pointer to a tensor stands for: its own, or, if they are spread, all to the end
 * of its memory. */
static int64_t
reach(const TglTensor *t)
{
	if (tensor_is_contiguous(t))
		return tgl_tensor_count(t);
	int bits = dtype_info[t->dtype].bits;
	int64_t bytes = t->high - t->data;
	return bits < 8 ? bytes * 2 : bytes / (bits / 8);
}

bool
binding_scalar(TglKernel *tk, int i, const TglArg *a, Binding *b)
{
	b->info[i].given = true;
	return scalar_value(tk->program->compile, &tk->k->params.at[i], a, &b->info[i].scalar);
}

static bool
set_param(TglKernel *tk, int i, const TglArg *a, bool texts, Binding *out)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	ArgInfo *info = &out->info[i];
	if (out->arg[i])
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_TWICE, p->name);
	if (param_is_scratch(p))
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_SCRATCH, p->name);
	out->arg[i] = a;
	if (a->kind == TGL_ARG_TEXT) {
		if (texts)
			return true;
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_TEXT, p->name);
	}
	if (p->kind == PARAM_SCALAR)
		return binding_scalar(tk, i, a, out);
	info->given = true;
	if (a->kind != TGL_ARG_TENSOR || !a->tensor)
		return diag_error(cx, p->ast->place, DIAG_LAUNCH_KIND, p->name, "a tensor",
		    a->kind == TGL_ARG_TENSOR ? "NULL" : kind_text(a->kind));
	out->tensor[i] = a->tensor;
	info->dtype = (DType)a->tensor->dtype;
	info->rank = a->tensor->rank;
	memcpy(info->dim, a->tensor->dim, sizeof info->dim);
	info->is_spread = p->strided && !tensor_is_contiguous(a->tensor);
	memcpy(info->stride, a->tensor->stride, sizeof info->stride);
	if (p->kind == PARAM_POINTER) {
		info->rank = 1;
		info->dim[0] = reach(a->tensor);
	}
	return true;
}

static bool
set_value(TglKernel *tk, const TglArg *a, bool texts, Binding *out)
{
	Compile *cx = tk->program->compile;
	NamedConst *v = &out->value[out->nvalue];
	if (texts && a->kind == TGL_ARG_TEXT && strides_named(a->name))
		return strides_given(tk->k, a->name, a->text ? a->text : "", out->info);
	if (!is_value_name(tk->k, a->name))
		return report_unknown(cx, tk->k, a->name);
	*v = (NamedConst){.name = intern(cx->names, a->name), .place = NOWHERE};
	if (ANY_OF(i, out->nvalue, out->value[i].name == v->name))
		return diag_error(cx, tk->k->item->name_place, DIAG_LAUNCH_TWICE, a->name);
	if (!value_of(a, &v->value))
		return diag_error(cx, tk->k->item->name_place, DIAG_LAUNCH_KIND, a->name, "a value",
		    kind_text(a->kind));
	out->nvalue++;
	return true;
}

static int
next_positional(const Kernel *k, int from)
{
	while (from < k->params.n && param_is_scratch(&k->params.at[from]))
		from++;
	return from;
}

static bool
report_many(TglKernel *tk, const TglArg *args, int nargs)
{
	int takes = 0, given = 0;
	for (int i = next_positional(tk->k, 0); i < tk->k->params.n;
	     i = next_positional(tk->k, i + 1))
		takes++;
	given += COUNT_OF(i, nargs, !args[i].name);
	return diag_error(tk->program->compile, tk->k->item->name_place, DIAG_LAUNCH_MANY,
	    tk->k->name, takes, given);
}

bool
binding_collect(TglKernel *tk, const TglArg *args, int nargs, bool texts, Binding *out)
{
	int n = tk->k->params.n, at = 0;
	bool ok = true;
	Arena *mem = arena_open();
	*out = (Binding){
	    .mem = mem,
	    .tensor = NEW_ARRAY(mem, TglTensor *, n),
	    .arg = NEW_ARRAY(mem, const TglArg *, n),
	    .info = NEW_ARRAY(mem, ArgInfo, n),
	    .value = NEW_ARRAY(mem, NamedConst, nargs),
	};
	for (int i = 0; i < nargs; i++) {
		const TglArg *a = &args[i];
		if (a->name) {
			int p = tgl_kernel_param_named(tk, a->name);
			ok &= p >= 0 ? set_param(tk, p, a, texts, out) : set_value(tk, a, texts, out);
			continue;
		}
		at = next_positional(tk->k, at);
		if (at == n)
			return report_many(tk, args, nargs);
		ok &= set_param(tk, at++, a, texts, out);
	}
	return ok;
}

void
binding_close(Binding *b)
{
	if (b->mem)
		arena_close(b->mem);
	b->mem = NULL;
}

/* ---- the header ---- */

void
binding_pointers(TglKernel *k, Binding *b)
{
	BoundParam *param = NEW_COPY(b->mem, b->bound.param, k->k->params.n);
	b->bound.param = param;
	for (int i = 0; i < k->k->params.n; i++) {
		if (k->k->params.at[i].kind == PARAM_SCALAR)
			param[i].scalar = b->info[i].scalar;
		if (k->k->params.at[i].kind != PARAM_POINTER || !b->tensor[i])
			continue;
		param[i].rank = 1;
		param[i].dim[0] = reach(b->tensor[i]);
	}
}

bool
binding_bind(TglKernel *k, Binding *b)
{
	Arena *keep = compile_into(k->program->compile, b->mem);
	bool ok = kernel_bind(k->k, b->info, b->value, b->nvalue, &b->bound);
	compile_into(k->program->compile, keep);
	if (!ok)
		return false;
	tune_apply(k, b, NULL, b->mem);
	binding_pointers(k, b);
	return true;
}
