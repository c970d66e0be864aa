/* The header's formulas as C: the grid, dimensions, `where`, and compile-time parameters that follow from
 * dimensions.
 *
 *     grid(b: cdiv(N, BLOCK))         o->grid[0] = tgp_cdiv(&bad, d[0], c[0]);
 *     y: out f32[R, 2 * C]            o->extent[1][1] = tgp_mul(&bad, INT64_C(2), d[1]);
 *     BLOCK = pow2ceil(C)             o->ct[0] = tgp_pow2ceil(&bad, d[1]);
 *     where BM * BN <= 32768          if (!(tgp_mul(&bad, c[0], c[1]) <= INT64_C(32768))) return 1;
 *
 *     where eps > 0.0                 if (!(tgp_double(v[2]) > 0.0)) return 2;
 *
 * d has dimensions, v scalars, c compile-time values of a form, and behind them the numbers of formulas
 * that cannot be written: code is then for the sizes that it was made for, as far as such a formula names them.  One
 * that cannot be written and names a scalar is refused. */
#include "tool/pack/pack.h"

#include <inttypes.h>
#include <string.h>

static bool
put_constant(const Const *c, Text *out)
{
	if (c->kind != CONST_INT && c->kind != CONST_BOOL)
		return false;
	text_printf(out, c->i < 0 ? "(-INT64_C(%" PRIu64 "))" : "INT64_C(%" PRIu64 ")",
	    c->i < 0 ? -(uint64_t)c->i : (uint64_t)c->i);
	return c->i != INT64_MIN;
}

/* The parameter, if it is a scalar; -1. */
static int
scalar_of(const PackKernel *pk, const char *name, DType *out)
{
	int at = param_of_kernel(pk->k, name);
	if (at < 0 || pk->k->params.at[at].kind != PARAM_SCALAR || !pk->forms.n)
		return -1;
	*out = pk->forms.at[0].bound.param[at].dtype;
	return at;
}

static bool
put_name(const PackKernel *pk, const char *name, Text *out)
{
	const Kernel *k = pk->k;
	DType t;
	Const c;
	int at = ctparam_named(k, name);
	if (at >= 0)
		text_printf(out, "c[%d]", at);
	else if ((at = symbol_named(k, name)) >= 0)
		text_printf(out, "d[%d]", at);
	else if ((at = scalar_of(pk, name, &t)) >= 0 && (dtype_is_int(t) || t == TY_BOOL))
		text_printf(out, "v[%d]", at);
	else
		return at < 0 && program_constant(k->program, name, &c) && put_constant(&c, out);
	return true;
}

/* A dtype's name, or that of the parameter which is one. */
static bool
dtype_value(const PackKernel *pk, const Expr *e, DType *out)
{
	if (e->kind != EX_NAME || e->scope)
		return false;
	const NamedConst *c =
	    pk->forms.n ? named_const(pk->forms.at[0].bound.ct, pk->forms.at[0].bound.nct, e->name) : NULL;
	if (c && c->value.kind == CONST_DTYPE)
		*out = c->value.dtype;
	return (c && c->value.kind == CONST_DTYPE) || dtype_named(e->name, out);
}

static bool
put_two(const PackKernel *k, const char *fn, const Expr *a, const Expr *b, Text *out)
{
	text_printf(out, "tgp_%s(&bad, ", fn);
	bool ok = pack_formula(k, a, out);
	text_put(out, b ? ", " : "");
	ok = ok && (!b || pack_formula(k, b, out));
	text_put(out, ")");
	return ok;
}

/* Floats: numbers and scalars of f32 and f64, and what + - * / and signs make of them. */
static bool
is_float(const PackKernel *k, const Expr *e)
{
	DType t;
	if (e->kind == EX_NAME)
		return !e->scope && ctparam_named(k->k, e->name) < 0 && symbol_named(k->k, e->name) < 0 &&
		    scalar_of(k, e->name, &t) >= 0 && (t == TY_F32 || t == TY_F64);
	return e->kind == EX_FLOAT || (e->kind == EX_UNARY && e->un == UN_NEG && is_float(k, e->a)) ||
	    (e->kind == EX_BINARY && e->bin != BIN_REM && (is_float(k, e->a) || is_float(k, e->b)));
}

static bool
put_float(const PackKernel *k, const Expr *e, Text *out)
{
	static const char *const infix[BIN_NONE] = {
	    [BIN_ADD] = "+", [BIN_SUB] = "-", [BIN_MUL] = "*", [BIN_DIV] = "/"};
	char number[40];
	DType t;
	bool ok = true;
	if (!is_float(k, e)) {
		text_put(out, "(double)");
		return pack_formula(k, e, out);
	}
	if (e->kind == EX_FLOAT) {
		number_format(number, sizeof number, "%.17g", e->f);
		text_printf(out, "(double)%s", number);
	} else if (e->kind == EX_NAME) {
		text_printf(out, "tgp_double(v[%d])", scalar_of(k, e->name, &t));
	} else {
		const char *op = e->kind == EX_UNARY ? "-" : infix[e->bin];
		text_put(out, "(");
		ok = op && (e->kind == EX_UNARY || put_float(k, e->a, out));
		text_printf(out, " %s ", op ? op : "");
		ok = ok && put_float(k, e->kind == EX_UNARY ? e->a : e->b, out);
		text_put(out, ")");
	}
	return ok;
}

static bool
put_infix(const PackKernel *k, const char *text, const Expr *e, Text *out)
{
	bool compares = e->bin >= BIN_EQ && e->bin <= BIN_GE && (is_float(k, e->a) || is_float(k, e->b));
	bool (*put)(const PackKernel *, const Expr *, Text *) = compares ? put_float : pack_formula;
	DType a, b;
	if ((e->bin == BIN_EQ || e->bin == BIN_NE) && dtype_value(k, e->a, &a) && dtype_value(k, e->b, &b)) {
		text_put(out, (a == b) == (e->bin == BIN_EQ) ? "1" : "0");
		return true;
	}
	text_put(out, "(");
	bool ok = put(k, e->a, out);
	text_printf(out, " %s ", text);
	ok = ok && put(k, e->b, out);
	text_put(out, ")");
	return ok;
}

static bool
put_binary(const PackKernel *k, const Expr *e, Text *out)
{
	static const char *const checked[BIN_NONE] = {
	    [BIN_ADD] = "add", [BIN_SUB] = "sub", [BIN_MUL] = "mul", [BIN_DIV] = "div", [BIN_REM] = "rem"};
	static const char *const infix[BIN_NONE] = {[BIN_EQ] = "==", [BIN_NE] = "!=", [BIN_LT] = "<", [BIN_LE] = "<=",
		[BIN_GT] = ">", [BIN_GE] = ">=", [BIN_LAND] = "&&", [BIN_LOR] = "||", [BIN_AND] = "&", [BIN_OR] = "|",
		[BIN_XOR] = "^"};
	if (checked[e->bin])
		return put_two(k, checked[e->bin], e->a, e->b, out);
	return infix[e->bin] && put_infix(k, infix[e->bin], e, out);
}

static bool
put_call(const PackKernel *k, const Expr *e, Text *out)
{
	static const struct {
		const char *name;
		int n;
	} known[] = {{"cdiv", 2}, {"floordiv", 2}, {"min", 2}, {"max", 2}, {"pow2ceil", 1}};
	for (int i = 0; i < e->args.n; i++)
		if (e->args.at[i].name)
			return false;
	for (int i = 0; i < LEN(known) && e->a->kind == EX_NAME && !e->a->scope; i++)
		if (strcmp(e->a->name, known[i].name) == 0 && e->args.n == known[i].n)
			return put_two(k, known[i].name, e->args.at[0].e, e->args.n > 1 ? e->args.at[1].e : NULL, out);
	int p = e->a->kind == EX_MEMBER && e->a->a->kind == EX_NAME ? param_of_kernel(k->k, e->a->a->name) : -1;
	bool is_shape = p >= 0 && strcmp(e->a->name, "shape") == 0 && e->args.n == 1;
	const Expr *d = is_shape ? e->args.at[0].e : NULL;
	bool from_end = d && d->kind == EX_UNARY && d->un == UN_NEG;
	d = from_end ? d->a : d;
	int rank = is_shape ? k->k->params.at[p].rank : 0;
	if (!d || d->kind != EX_INT || d->u >= (uint64_t)rank + from_end || (from_end && d->u == 0))
		return false;
	text_printf(out, "o->extent[%d][%d]", p, from_end ? rank - (int)d->u : (int)d->u);
	return true;
}

bool
pack_formula(const PackKernel *k, const Expr *e, Text *out)
{
	for (int i = 0; i < k->opaque.n; i++)
		if (k->opaque.at[i] == e) {
			text_printf(out, "c[%d]", k->k->item->ctparams.n + i);
			return true;
		}
	bool ok;
	switch (e->kind) {
	case EX_INT:
		text_printf(out, "INT64_C(%" PRIu64 ")", e->u);
		return e->u <= INT64_MAX;
	case EX_NAME: return !e->scope && put_name(k, e->name, out);
	case EX_UNARY:
		text_put(out, e->un == UN_NEG ? "tgp_sub(&bad, 0, " : "(!");
		ok = (e->un == UN_NEG || e->un == UN_NOT) && pack_formula(k, e->a, out);
		text_put(out, ")");
		return ok;
	case EX_BINARY: return put_binary(k, e, out);
	case EX_COND:
		text_put(out, "(");
		ok = pack_formula(k, e->a, out);
		text_put(out, " ? ");
		ok = ok && pack_formula(k, e->b, out);
		text_put(out, " : ");
		ok = ok && pack_formula(k, e->c, out);
		text_put(out, ")");
		return ok;
	case EX_CALL: return put_call(k, e, out);
	default: return false;
	}
}

static const Expr *
dim_expr(const KernelParam *p, int d)
{
	const TypeExpr *t = p->ast->type;
	return p->kind == PARAM_TENSOR && t && t->has_dims && d < t->dims.n ? t->dims.at[d] : NULL;
}

/* Number i of the header's formulas that C has: grid, dimensions, where, then derived compile-time values; NULL: no
 * more. */
static const Expr *
header_formula(const Kernel *k, int i)
{
	if (i < k->item->grid.n)
		return k->item->grid.at[i].count;
	i -= k->item->grid.n;
	for (int p = 0; p < k->params.n; p++)
		for (int d = 0; dim_expr(&k->params.at[p], d); d++)
			if (i-- == 0)
				return dim_expr(&k->params.at[p], d);
	if (i < k->item->where.n)
		return k->item->where.at[i];
	i -= k->item->where.n;
	for (int c = 0; c < k->item->ctparams.n; c++)
		if (pack_is_derived(k, c) && i-- == 0)
			return k->item->ctparams.at[c].value;
	return NULL;
}

static bool
mentions_scalar(const Kernel *k, const Expr *e)
{
	return ANY_OF(i, k->params.n,
	    k->params.at[i].kind == PARAM_SCALAR && expr_mentions(e, k->params.at[i].name));
}

bool
pack_find_opaque(Pack *p, PackKernel *k)
{
	const Expr *e;
	k->fixes = NEW_ARRAY(p->cx->mem, bool, k->k->symbols.n);
	for (int i = 0; (e = header_formula(k->k, i)); i++) {
		Text ignored = {0};
		bool ok = pack_formula(k, e, &ignored);
		text_close(&ignored);
		if (ok)
			continue;
		if (mentions_scalar(k->k, e)) {
			Text t = {0};
			expr_put(e, 0, &t);
			cli_wrong("kernel '%s' has no pack: a launch cannot compute `%.*s`; of scalars it takes "
				  "integers, f32 and f64, with + - * / and comparisons", k->k->name, (int)t.n, t.at);
			text_close(&t);
			return false;
		}
		vec_push(p->cx->mem, &k->opaque, e);
		for (int s = 0; s < k->k->symbols.n; s++)
			k->fixes[s] |= expr_mentions(e, k->k->symbols.at[s]);
	}
	return true;
}

static void
put_assign(const PackKernel *k, const char *to, const Expr *e, Text *out)
{
	text_printf(out, "\t%s = ", to);
	pack_formula(k, e, out);
	text_put(out, ";\n");
}

void
pack_put_header(const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	char to[48];
	text_printf(out, "static int\ntgp_header_%s(const int64_t *d, const int64_t *v, const int64_t *c, TgpShape *o)\n{\n"
	    "\tint bad = 0;\n\t(void)d, (void)v, (void)c, (void)o;\n", pk->function);
	for (int p = 0; p < k->params.n; p++)
		for (int d = 0; dim_expr(&k->params.at[p], d); d++) {
			snprintf(to, sizeof to, "o->extent[%d][%d]", p, d);
			put_assign(pk, to, dim_expr(&k->params.at[p], d), out);
			text_printf(out, "\tbad |= %s < 0;\n", to);
		}
	for (int i = 0; i < k->item->grid.n; i++) {
		snprintf(to, sizeof to, "o->grid[%d]", i);
		put_assign(pk, to, k->item->grid.at[i].count, out);
	}
	for (int i = 0; i < k->item->ctparams.n; i++)
		if (pack_is_derived(k, i)) {
			snprintf(to, sizeof to, "o->ct[%d]", i);
			put_assign(pk, to, k->item->ctparams.at[i].value, out);
		}
	text_put(out, "\tif (bad)\n\t\treturn -1;\n");
	for (int i = 0; i < k->item->where.n; i++) {
		text_put(out, "\tif (!");
		pack_formula(pk, k->item->where.at[i], out);
		text_printf(out, ")\n\t\treturn bad ? -1 : %d;\n", i + 1);
	}
	text_put(out, "\treturn bad ? -1 : 0;\n}\n\n");
}
