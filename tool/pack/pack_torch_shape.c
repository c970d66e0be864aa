/* Shapes in an operator of PyTorch: its dimensions are those of what is given, every extent is
 * compared with the header's, as the pack's function has dimensions alone and trusts them, and
 * outputs are allocated.
 *
 *     y: inout f32[N]             check_extent("acc: dimension 0 of y (N) is ", y.sym_size(0),
 * tgp_d[0]);
 *
 * Dimensions may be symbols while PyTorch traces; only formulas of the header ask for their values.
 */
#include "tool/pack/pack.h"

#include <inttypes.h>
#include <string.h>

const char *
pack_torch_dtype(DType t)
{
	static const char *const type[DTYPE_COUNT] = {[TY_BOOL] = "at::kBool",
	    [TY_I8] = "at::kChar",
	    [TY_I16] = "at::kShort",
	    [TY_I32] = "at::kInt",
	    [TY_I64] = "at::kLong",
	    [TY_U8] = "at::kByte",
	    [TY_U16] = "at::kUInt16",
	    [TY_U32] = "at::kUInt32",
	    [TY_U64] = "at::kUInt64",
	    [TY_F16] = "at::kHalf",
	    [TY_BF16] = "at::kBFloat16",
	    [TY_F32] = "at::kFloat",
	    [TY_F64] = "at::kDouble",
	    [TY_F8E4M3] = "at::kFloat8_e4m3fn",
	    [TY_F8E5M2] = "at::kFloat8_e5m2",
	    [TY_I4] = "at::kByte",
	    [TY_U4] = "at::kByte",
	    [TY_F4E2M1] = "at::kByte"};
	return type[t];
}

static const Expr *
dim_expr(const KernelParam *q, int d)
{
	const TypeExpr *t = q->kind == PARAM_TENSOR ? q->ast->type : NULL;
	return t && t->has_dims && d < t->dims.n ? t->dims.at[d] : NULL;
}

static bool
is_packed_row(const PackKernel *pk, int i, int d)
{
	return dtype_is_packed(pack_dtype(pk, i)) && !dim_expr(&pk->k->params.at[i], d + 1);
}

static bool
is_symbol(const Kernel *k, const Expr *e)
{
	return e->kind == EX_NAME && !e->scope && symbol_named(k, e->name) >= 0;
}

/* The next dimension of a tensor that is given, from (*i, *d) on. */
static const Expr *
next_given(const Kernel *k, int *i, int *d)
{
	for (; *i < k->params.n; ++*i, *d = 0)
		if (pack_is_given(&k->params.at[*i]) && dim_expr(&k->params.at[*i], *d))
			return dim_expr(&k->params.at[*i], (*d)++);
	return NULL;
}

/* Where a dimension is read from; false: nowhere.  A packed row comes last, as its bytes do not say
 * whether the extent is odd, and one with constants beside the name. */
static bool
source_at(const PackKernel *pk, const char *symbol, int *param, int *dim, DimForm *form)
{
	const Expr *e;
	*param = -1;
	for (int i = 0, d = 0; (e = next_given(pk->k, &i, &d));) {
		DimForm f = dim_form(e);
		bool is_row = is_packed_row(pk, i, d - 1);
		if (!f.name || strcmp(f.name->name, symbol) != 0 || (f.name != e && is_row))
			continue;
		bool is_last = f.name != e || is_row;
		if (*param < 0 || !is_last) {
			*param = i;
			*dim = d - 1;
			*form = f;
		}
		if (!is_last)
			return true;
	}
	return *param >= 0;
}

/* "x.sym_size(1)", "first.sym_size(0) - (1)", "(x.sym_size(1)) / 2" */
static const char *
source_of(const Pack *p, const PackKernel *pk, const char *symbol)
{
	int i, d;
	DimForm f;
	if (!source_at(pk, symbol, &i, &d, &f))
		return NULL;
	const char *size = arena_printf(p->cx->mem, "%s.sym_size(%d)%s",
	    pack_c_name(pk->k, pk->k->params.at[i].name, p->cx->mem), d,
	    is_packed_row(pk, i, d) ? " * 2" : "");
	if (f.more != 0)
		size = arena_printf(p->cx->mem, "%s - (%" PRId64 ")", size, f.more);
	return f.times == 1 ? size : arena_printf(p->cx->mem, "(%s) / %" PRId64, size, f.times);
}

/* Whether a dimension has one formula in all forms, which C evaluates. */
static bool
is_one_formula(const PackKernel *pk, const Expr *e)
{
	for (int c = 0; c < pk->k->item->ctparams.n; c++)
		if (expr_mentions(e, pk->k->item->ctparams.at[c].name) &&
		    (!pack_is_one_value(pk, c) || pack_is_derived(pk->k, c)))
			return false;
	return !ANY_OF(i, pk->opaque.n, pk->opaque.at[i] == e);
}

/* Why a kernel makes no operator; NULL: it does. */
const char *
pack_torch_lacks(const Pack *p, const PackKernel *pk)
{
	const Kernel *k = pk->k;
	bool any = false;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		any |= q->kind == PARAM_TENSOR && pack_is_given(q);
		if (q->kind == PARAM_POINTER)
			return "it takes pointers";
		for (int d = 0; (pack_is_output(q) || pack_is_given(q)) && dim_expr(q, d); d++)
			if (!is_one_formula(pk, dim_expr(q, d)))
				return "shapes of its tensors follow from compile-time parameters";
	}
	for (int s = 0; s < k->symbols.n; s++)
		if (!source_of(p, pk, k->symbols.at[s]))
			return arena_printf(
			    p->cx->mem, "no input has the dimension %s", k->symbols.at[s]);
	return any ? NULL : "it takes no tensor";
}

/* Whether a formula has one value, whatever is given. */
static bool
is_fixed(const PackKernel *pk, const Expr *e, Const *c)
{
	Kernel *k = pk->k;
	bool varies = false;
	for (int s = 0; s < k->symbols.n; s++)
		varies |= expr_mentions(e, k->symbols.at[s]);
	for (int i = 0; i < k->params.n; i++)
		varies |= expr_mentions(e, k->params.at[i].name);
	return !varies && bound_eval(k, &pk->forms.at[0].bound, e, "a dimension", c);
}

/* Whether a dimension has to be computed. */
static bool
computes(const PackKernel *pk)
{
	Const c;
	const Expr *e;
	for (int i = 0; i < pk->k->params.n; i++)
		for (int d = 0; (e = dim_expr(&pk->k->params.at[i], d)); d++)
			if (!is_symbol(pk->k, e) && !is_fixed(pk, e, &c))
				return true;
	return false;
}

/* tgp_d has the dimensions, which may be symbols; formulas of the header, in tgp_o, ask for their
 * values. */
static void
put_dims(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	text_put(out, "\tconst c10::SymInt tgp_d[] = {");
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, "%s%s", s ? ", " : "", source_of(p, pk, k->symbols.at[s]));
	text_put(out, k->symbols.n ? "};\n\t(void)tgp_d;\n" : "0};\n\t(void)tgp_d;\n");
	if (!computes(pk))
		return;
	text_printf(out, "\tint64_t tgp_n[%d], tgp_v[%d] = {0};\n\tTgpShape tgp_o;\n",
	    MAX(k->symbols.n, 1), MAX(k->params.n, 1));
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, "\ttgp_n[%d] = tgp_d[%d].guard_int(__FILE__, __LINE__);\n", s, s);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR && !dtype_is_float(pack_dtype(pk, i)))
			text_printf(out, "\ttgp_v[%d] = (int64_t)%s;\n", i,
			    pack_c_name(k, k->params.at[i].name, p->cx->mem));
	text_printf(out,
	    "\tTORCH_CHECK(tgp_header_%s(tgp_n, tgp_v, tgp_forms_%s[0].ct, &tgp_o) >= 0, "
	    "\"%s: its header has no value for these sizes\");\n",
	    pk->function, pk->function, pk->function);
}

/* What an extent must be: of packed rows, bytes. */
static const char *
wanted(const Pack *p, const PackKernel *pk, int i, int d)
{
	const Expr *e = dim_expr(&pk->k->params.at[i], d);
	Const c;
	const char *one = is_symbol(pk->k, e)
			      ? arena_printf(p->cx->mem, "tgp_d[%d]", symbol_named(pk->k, e->name))
			  : is_fixed(pk, e, &c)
			      ? arena_printf(p->cx->mem, "c10::SymInt(INT64_C(%" PRId64 "))", c.i)
			      : arena_printf(p->cx->mem, "c10::SymInt(tgp_o.extent[%d][%d])", i, d);
	return is_packed_row(pk, i, d) ? arena_printf(p->cx->mem, "(%s + 1) / 2", one) : one;
}

static void
put_extents(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const Expr *e;
	DimForm f;
	for (int i = 0, d = 0, from, at; (e = next_given(k, &i, &d));) {
		const char *name = k->params.at[i].name;
		if (is_symbol(k, e) && source_at(pk, e->name, &from, &at, &f) && from == i &&
		    at == d - 1)
			continue;
		text_printf(out, "\tcheck_extent(\"%s: dimension %d of %s (%s", pk->function, d - 1,
		    name, is_packed_row(pk, i, d - 1) ? "bytes of " : "");
		expr_put(e, 0, out);
		text_printf(out, ") is \", %s.sym_size(%d), %s);\n",
		    pack_c_name(k, name, p->cx->mem), d - 1, wanted(p, pk, i, d - 1));
	}
}

static void
put_outputs(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const char *like = NULL;
	for (int i = 0; i < k->params.n && !like; i++)
		if (k->params.at[i].kind == PARAM_TENSOR && pack_is_given(&k->params.at[i]))
			like = pack_c_name(k, k->params.at[i].name, p->cx->mem);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!pack_is_output(q))
			continue;
		text_printf(out, "\tat::Tensor %s = at::empty_symint({",
		    pack_c_name(k, q->name, p->cx->mem));
		for (int d = 0; dim_expr(q, d); d++)
			text_printf(out, "%s%s", d ? ", " : "", wanted(p, pk, i, d));
		text_printf(out, "}, %s.options().dtype(%s));\n", like,
		    pack_torch_dtype(pack_dtype(pk, i)));
	}
}

void
pack_torch_put_shapes(const Pack *p, const PackKernel *pk, Text *out)
{
	put_dims(p, pk, out);
	put_extents(p, pk, out);
	put_outputs(p, pk, out);
}
