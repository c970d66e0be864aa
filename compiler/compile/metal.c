/* What a host must know to launch Metal text: a description in JSON, as docs/metal.md has it.
 *
 * Buffers are those that the text has, by their indices; the grid's axes are the formulas of the source, over names that
 * buffers or values have; a formula that the description cannot hold is a number, and the names in it are values.  Values
 * are what the text was made for, multiples what it takes for granted of what it is given: a row of floats that is a
 * multiple of 4 is read four at a time. */

#include "ast/print.h"
#include "compile/describe.h"

#include <stddef.h>
#include <string.h>

static const char *const access_word[] = {"read", "write", "readwrite", "readwrite"};

/* ---- formulas ---- */

static const BoundParam *
find_scalar(const Bound *b, const char *name)
{
	return VALUE_OF(i, b->kernel->params.n,
	    b->kernel->params.at[i].kind == PARAM_SCALAR && b->kernel->params.at[i].name == name,
	    &b->param[i], NULL);
}

static bool
is_operation(const Expr *e)
{
	static const struct {
		const char *name;
		int nargs;
	} known[] = {{"cdiv", 2}, {"min", 2}, {"max", 2}, {"pow2ceil", 1}};
	for (int i = 0; i < LEN(known) && e->a->kind == EX_NAME && !e->a->scope; i++)
		if (strcmp(e->a->name, known[i].name) == 0)
			return e->args.n == known[i].nargs;
	return false;
}

/* Whether an expression of the header is one that docs/metal.md lets a description hold. */
static bool
is_formula(const Bound *b, const Expr *e)
{
	Const c;
	switch (e->kind) {
	case EX_INT: return true;
	case EX_NAME:
		return !e->scope && (named_const(b->ct, b->nct, e->name) || named_const(b->symbol, b->nsymbol, e->name) ||
		    find_scalar(b, e->name) || program_constant(b->kernel->program, e->name, &c));
	case EX_UNARY: return e->un == UN_NEG && is_formula(b, e->a);
	case EX_BINARY: return e->bin >= BIN_ADD && e->bin <= BIN_REM && is_formula(b, e->a) && is_formula(b, e->b);
	case EX_CALL:
		return !ANY_OF(i, e->args.n, e->args.at[i].name || !is_formula(b, e->args.at[i].e)) &&
		    is_operation(e);
	default: return false;
	}
}

/* What cannot be written is a number, and right for this launch's values alone: put_values says so. */
static void
put_formula(const Bound *b, const Expr *e, int64_t value, Text *out)
{
	Text t = {0};
	if (is_formula(b, e))
		expr_put(e, 0, &t);
	else
		text_printf(&t, "%lld", (long long)value);
	text_json(out, t.at ? t.at : "");
	text_close(&t);
}

/* Whether a formula speaks of a name; `written` false: one that stands there as a number. */
static bool
is_mentioned(const Bound *b, const char *name, bool written)
{
	const Expr *e;
	for (int i = 0; (e = described_formula(b, i)); i++)
		if (expr_mentions(e, name) && is_formula(b, e) == written)
			return true;
	return false;
}

/* ---- buffers ---- */

static void
put_shape(const Bound *b, int param, Text *out)
{
	const KernelParam *p = &b->kernel->params.at[param];
	if (p->kind != PARAM_TENSOR)
		return;
	text_put(out, ", \"shape\": [");
	for (int d = 0; d < b->param[param].rank; d++) {
		text_put(out, d ? ", " : "");
		if (described_dim(p, d))
			put_formula(b, described_dim(p, d), b->param[param].dim[d], out);
		else
			text_printf(out, "\"%lld\"", (long long)b->param[param].dim[d]);
	}
	text_put(out, "]");
}

/* What the fill has put there is read, and the rest of a word of which an element is written. */
static void
put_tensor(const Bound *b, int param, bool is_padded, Text *out)
{
	const KernelParam *k = &b->kernel->params.at[param];
	Access access = k->kind == PARAM_POINTER ? (k->ptr == PTR_CONST ? ACCESS_IN : ACCESS_INOUT) : k->access;
	bool filled = b->param[param].has_fill;
	text_printf(out, ", \"access\": \"%s\"%s", filled || is_padded ? "readwrite" : access_word[access],
	    access == ACCESS_SCRATCH ? ", \"scratch\": true" : "");
	put_shape(b, param, out);
	if (filled) {
		text_put(out, ", \"fill\": ");
		describe_const(&b->param[param].fill, out);
	}
	if (is_padded)
		text_put(out, ", \"padded\": 4");
}

/* "kind": …, "name": …, "dtype": …, and what else its kind has. */
static void
put_param(const Func *f, const Bound *b, const AbiParam *a, EmitMslParam at, Text *out)
{
	text_printf(out, "\"kind\": \"%s\", \"name\": ", described_kind(a));
	text_json(out, described_name(f, a));
	text_printf(out, ", \"dtype\": \"%s\"", dtype_info[described_dtype(f, a)].text);
	if (a->kind == ABI_POINTER)
		put_tensor(b, a->param, at.is_padded, out);
	if (a->kind == ABI_STRIDE || a->kind == ABI_EXTENT || a->kind == ABI_GRID || a->kind == ABI_INVERSE)
		text_printf(out, ", \"dim\": %d", a->dim);
	text_put(out, "}");
}

static void
put_buffers(const Func *f, const Bound *b, const EmitMsl *made, Text *out)
{
	int n, shown = 0, values = -1;
	AbiParam *abi = artefact_abi(f, made->target, f->module->cx->tmp, &n);
	artefact_by_argument(f, abi, n, NULL, 0);
	text_put(out, "  \"buffers\": [\n");
	for (int i = 0; i < n; i++) {
		EmitMslParam at = made->param[i];
		if (at.offset >= 0) {
			values = MAX(values, at.buffer);
			continue;
		}
		text_printf(out, shown++ ? ",\n    {\"index\": %d, " : "    {\"index\": %d, ", at.buffer);
		put_param(f, b, &abi[i], at, out);
	}
	if (values >= 0)
		text_printf(out, "%s    {\"index\": %d, \"kind\": \"values\", \"bytes\": %d, \"fields\": [",
		    shown ? ",\n" : "", values, made->values_bytes);
	shown = 0;
	for (int i = 0; i < n && values >= 0; i++) {
		EmitMslParam at = made->param[i];
		if (at.offset < 0 || at.buffer < 0)
			continue;
		text_printf(out, shown++ ? ",\n      {\"offset\": %d, " : "\n      {\"offset\": %d, ", at.offset);
		put_param(f, b, &abi[i], at, out);
	}
	text_put(out, values >= 0 ? "\n    ]}\n  ]\n" : "\n  ]\n");
}

/* ---- what it was made for ---- */

/* What is taken for granted of the memory, dimensions and scalars. */
static void
put_assumed(const Func *f, const char *what, size_t field, Text *out)
{
	int n = 0;
	text_printf(out, "  \"%s\": {", what);
	for (int i = 0; i < f->nparam; i++) {
		int64_t v = *(const int64_t *)((const char *)&f->param[i] + field);
		if (v <= 1)
			continue;
		text_put(out, n++ ? ", " : "");
		text_json(out, f->param[i].name);
		text_printf(out, ": %lld", (long long)v);
	}
	text_put(out, "},\n");
}

static void
put_value(const char *name, const Const *c, int *shown, Text *out)
{
	text_put(out, (*shown)++ ? ", " : "");
	text_json(out, name);
	text_put(out, ": ");
	describe_const(c, out);
}

/* Compile-time parameters, dimensions compiled as numbers or of which a number speaks, and constants of the file. */
static void
put_values(const Func *f, const Bound *b, Text *out)
{
	int shown = 0;
	const Program *p = b->kernel->program;
	Const c;
	text_put(out, "  \"values\": {");
	for (int i = 0; i < b->nct; i++)
		put_value(b->ct[i].name, &b->ct[i].value, &shown, out);
	for (int i = 0; i < b->nsymbol; i++)
		if (described_symbol(f, b, i)->is_fixed || is_mentioned(b, b->symbol[i].name, false))
			put_value(b->symbol[i].name, &b->symbol[i].value, &shown, out);
	for (int i = 0; i < b->kernel->params.n; i++)
		if (find_scalar(b, b->kernel->params.at[i].name) && is_mentioned(b, b->kernel->params.at[i].name, false))
			put_value(b->kernel->params.at[i].name, &b->param[i].scalar, &shown, out);
	for (int i = 0; i < p->items.n; i++) {
		const char *name = p->items.at[i]->name;
		bool hidden = named_const(b->ct, b->nct, name) || named_const(b->symbol, b->nsymbol, name);
		bool wanted = p->items.at[i]->kind == ITEM_CONST && !hidden && is_mentioned(b, name, true);
		if (wanted && program_constant(p, name, &c))
			put_value(name, &c, &shown, out);
	}
	text_put(out, "},\n");
}

void
metal_describe(const Func *f, const Bound *b, const EmitMsl *made, Text *out)
{
	Compile *cx = f->module->cx;
	const Item *item = b->kernel->item;
	text_put(out, "{\n  \"kernel\": ");
	text_json(out, made->kernel.name);
	text_put(out, ",\n  \"source\": ");
	text_json(out, f->place.file >= 0 ? source_named(cx, f->place.file) : "");
	text_printf(out, ",\n  \"target\": \"%s\",\n  \"language\": \"metal3.1\",\n", made->target->name);
	text_put(out, "  \"math\": \"safe\",\n");
	text_printf(out, "  \"threads\": %d,\n  \"threadgroup_bytes\": 0,\n  \"persistent\": %s,\n  \"grid\": [",
	    made->kernel.threads, f->schedule.persistent ? "true" : "false");
	for (int i = 0; i < item->grid.n; i++) {
		text_put(out, i ? ", " : "");
		put_formula(b, item->grid.at[i].count, b->grid[i], out);
	}
	text_put(out, "],\n");
	put_values(f, b, out);
	put_assumed(f, "multiples", offsetof(FuncParam, multiple), out);
	put_assumed(f, "least", offsetof(FuncParam, least), out);
	put_assumed(f, "most", offsetof(FuncParam, most), out);
	put_buffers(f, b, made, out);
	text_put(out, "}\n");
}
