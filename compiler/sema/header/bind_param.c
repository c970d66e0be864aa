/* Binds the parameters of a header: extents, fills and sizes, once every name that they mention has a value. */
#include "sema/bind.h"

/* Does a dimension's value follow from compile-time parameters and constants alone? */
static bool
is_fixed(Binder *b, const Expr *dim)
{
	return !ANY_OF(i, b->nslot,
	    b->slot[i].kind != SLOT_CT && b->slot[i].kind != SLOT_SCHEDULE &&
		expr_mentions(dim, b->slot[i].name));
}

static bool
check_dim(Binder *b, const KernelParam *p, int d, const ArgInfo *a, BoundParam *out)
{
	const Expr *dim = p->ast->type->dims.at[d];
	int64_t want;

	if (!header_eval_int(b, dim, header_dim_words(b, p, d), &want))
		return false;
	out->dim[d] = want;
	out->dim_const[d] = is_fixed(b, dim);
	if (want < 0) {
		if (b->lenient)
			return false;
		return diag_error(b->cx, dim->place, DIAG_DIM_NEGATIVE, header_dim_words(b, p, d), (long long)want);
	}
	if (!a || !a->given || a->rank != p->rank || a->dim[d] == want)
		return true;
	Text t = {0};
	expr_print(dim, &t);
	if (dim->kind != EX_INT)
		text_printf(&t, " = %lld", (long long)want);
	diag_error(b->cx, dim->place, DIAG_DIM_MISMATCH, d, p->name, t.at, (long long)a->dim[d]);
	text_close(&t);
	return false;
}

static bool
bind_fill(Binder *b, const KernelParam *p, BoundParam *out)
{
	const Expr *x = p->ast->fill;
	DType t = out->dtype;

	if (!x)
		return true;
	if (!header_eval(b->e, x, arena_printf(b->cx->mem, "the fill of '%s'", p->name), &out->fill))
		return false;
	out->has_fill = true;
	if (dtype_is_float(t))
		const_to_float(&out->fill);
	bool fits = dtype_is_float(t) ? out->fill.kind == CONST_FLOAT
	    : t == TY_BOOL ? out->fill.kind == CONST_BOOL
	    : out->fill.kind == CONST_INT || (out->fill.kind == CONST_BIG && t == TY_U64);
	if (fits)
		return true;
	diag_error(b->cx, x->place, DIAG_FILL_KIND, const_describe(b->cx, &out->fill), p->name, dtype_info[t].text);
	return t == TY_BOOL && diag_help(b->cx, "bools are true or false");
}

/* More elements than addresses: refused here, so that no later arithmetic on sizes can overflow. */
static bool
check_size(Binder *b, const KernelParam *p, const BoundParam *out)
{
	int64_t n = 16;

	for (int d = 0; d < p->rank; d++) {
		if (!__builtin_mul_overflow(n, MAX(out->dim[d], 1), &n) && n < INT64_C(1) << 60)
			continue;
		return diag_error(b->cx, p->ast->type->place, DIAG_TENSOR_SIZE, p->name);
	}
	return true;
}

bool
header_bind_params(Binder *b)
{
	bool ok = true;

	b->out->param = NEW_ARRAY(b->cx->mem, BoundParam, b->k->params.n);
	for (int i = 0; i < b->k->params.n; i++) {
		const KernelParam *p = &b->k->params.at[i];
		BoundParam *out = &b->out->param[i];
		out->dtype = p->dtype;
		out->rank = p->rank;
		if (!p->dtype_known) {
			Slot *s = slot_find(b, b->k->item->ctparams.at[p->dtype_param].name);
			if (s->value.kind != CONST_DTYPE)
				return false;
			out->dtype = s->value.dtype;
		}
		if (b->lenient && p->kind == PARAM_SCALAR)
			out->scalar = slot_find(b, p->name)->value;
		bool sized = true;
		for (int d = 0; p->kind == PARAM_TENSOR && d < p->rank; d++)
			sized &= check_dim(b, p, d, b->args ? &b->args[i] : NULL, out);
		ok &= sized && bind_fill(b, p, out) && check_size(b, p, out) &&
		    (!b->args || header_bind_strides(b, p, &b->args[i], out));
	}
	return ok;
}
