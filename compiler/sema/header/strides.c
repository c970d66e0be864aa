/* The strides of a `strided` tensor, in elements: a line of an example, or the same text on the command line.
 *
 *     x: in strided f32[M, N]      x.strides = [1, M];       columns are contiguous, as of x.T in NumPy or PyTorch
 *                                  x.strides = [N + 8, 1];   rows with padding behind them
 *                                  x.strides = [0, 1];       one row, broadcast
 *
 * They are evaluated once every name of the header has its value, so that they follow sizes which are given elsewhere. */
#include "sema/bind.h"

#include <string.h>

static const char suffix[] = ".strides";

static bool
refuse_parameter(Compile *cx, const Kernel *k, Place at, const char *name)
{
	int i = param_of_kernel(k, name);
	const KernelParam *p = i >= 0 ? &k->params.at[i] : NULL;

	if (p && p->kind == PARAM_TENSOR && p->strided && p->access != ACCESS_SCRATCH)
		return false;
	if (!p) {
		diag_error(cx, at, DIAG_GIVEN_UNKNOWN, k->name, name);
		diag_help(cx, "%s", header_advice(k, name));
	} else {
		diag_error(cx, at, DIAG_STRIDES_FIXED, name,
		    p->kind != PARAM_TENSOR ? "is no tensor" : p->strided ? "is scratch" : "is not declared strided");
		if (p->kind == PARAM_TENSOR && !p->strided)
			diag_help(cx, "declare it %s: %s strided ...; without that word a tensor is contiguous, row-major",
			    name, access_text[p->access]);
	}
	return true;
}

bool
strides_line(Kernel *k, const Stmt *s, ArgInfo *args, const char **name)
{
	const Expr *of = s->target;

	if (s->kind != ST_ASSIGN || s->op != BIN_NONE || of->kind != EX_MEMBER || of->a->kind != EX_NAME ||
	    strcmp(of->name, suffix + 1) != 0)
		return false;
	*name = intern(k->program->cx->names, arena_printf(k->program->cx->mem, "%s%s", of->a->name, suffix));
	if (refuse_parameter(k->program->cx, k, of->a->place, of->a->name))
		return true;
	ArgInfo *a = &args[param_of_kernel(k, of->a->name)];
	if (!a->given && !a->strides)
		a->strides = s->e;
	return true;
}

int
strides_named(const char *name)
{
	size_t n = strlen(name), end = sizeof suffix - 1;

	return n > end && strcmp(name + n - end, suffix) == 0 ? (int)(n - end) : 0;
}

bool
strides_given(Kernel *k, const char *name, const char *text, ArgInfo *args)
{
	Compile *cx = k->program->cx;
	const char *of = intern(cx->names, arena_strndup(cx->mem, name, (size_t)strides_named(name)));
	int file = source_text(cx, arena_printf(cx->mem, "<%s>", name), text, strlen(text));

	if (file < 0 || refuse_parameter(cx, k, k->item->name_place, of))
		return false;
	args[param_of_kernel(k, of)].strides = ast_parse_expr(cx, file);
	return args[param_of_kernel(k, of)].strides != NULL;
}

/* Neighbours along a dimension lie apart as where nothing lies between them; one element has no neighbour. */
static bool
is_row_major(const BoundParam *p)
{
	int64_t step = 1;

	for (int d = p->rank - 1; d >= 0; d--) {
		if (p->dim[d] == 0)
			return true;
		if (p->dim[d] > 1 && p->stride[d] != step)
			return false;
		step *= p->dim[d] + (d == p->rank - 1 && dtype_is_packed(p->dtype) ? p->dim[d] & 1 : 0);
	}
	return true;
}

/* As tensors take them (runtime/tensor/tensor.c), with the place of each. */
static bool
check_stride(Binder *b, const KernelParam *p, int d, const BoundParam *out, Place at)
{
	bool is_last = d == out->rank - 1;

	if (out->stride[d] < 0) {
		diag_error(b->cx, at, DIAG_STRIDES_NEGATIVE, d, p->name, (long long)out->stride[d]);
		return diag_help(b->cx, "let the kernel count down, or flip() what it reads");
	}
	if (dtype_is_packed(out->dtype) && out->dim[d] > 1 && (is_last ? out->stride[d] != 1 : out->stride[d] & 1))
		return diag_error(b->cx, at, DIAG_TENSOR_PACKED, dtype_info[out->dtype].text, d, (long long)out->stride[d]);
	return true;
}

bool
header_bind_strides(Binder *b, const KernelParam *p, const ArgInfo *a, BoundParam *out)
{
	const Expr *x = a->strides;

	if (a->is_spread && !x) {
		out->is_spread = true;
		memcpy(out->stride, a->stride, sizeof out->stride);
	}
	if (!x)
		return true;
	if (x->kind != EX_LIST || x->items.n != p->rank)
		return diag_error(b->cx, x->place, DIAG_STRIDES_COUNT, p->name, p->rank, p->rank == 1 ? "" : "s");
	for (int d = 0; d < p->rank; d++) {
		const Expr *e = x->items.at[d];
		const char *what = arena_printf(b->cx->mem, "the stride of dimension %d of '%s'", d, p->name);
		if (!header_eval_int(b, e, what, &out->stride[d]) || !check_stride(b, p, d, out, e->place))
			return false;
	}
	out->is_spread = !is_row_major(out);
	return true;
}
