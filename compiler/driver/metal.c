/* What a host must know to launch Metal text: a description in JSON, as docs/metal.md has it.
 *
 * Buffers are those that the text has, by their indices; the grid's axes are the formulas of the source, over names that
 * buffers or values have.  Values are what the text was made for, multiples what it takes for granted of what it is given:
 * a row of floats that is a multiple of 4 is read four at a time. */
#include "driver/metal.h"

#include "ast/print.h"
#include "lower/artefact.h"

static const char *const access_word[] = {"read", "write", "readwrite", "readwrite"};

static void
put_const(const Const *c, Text *out)
{
	switch (c->kind) {
	case CONST_INT: text_printf(out, "%lld", (long long)c->i); return;
	case CONST_FLOAT: text_printf(out, "%.9g", c->f); return;
	case CONST_BOOL: text_put(out, c->i ? "true" : "false"); return;
	case CONST_DTYPE: text_json(out, dtype_info[c->dtype].text); return;
	case CONST_TEXT: text_json(out, c->text); return;
	default: text_put(out, "null");
	}
}

static void
put_formula(const Expr *e, Text *out)
{
	Text t = {0};
	expr_put(e, 0, &t);
	text_json(out, t.at ? t.at : "");
	text_close(&t);
}

static void
put_shape(const KernelParam *p, const BoundParam *b, Text *out)
{
	const TypeExpr *type = p->ast->type;
	if (p->kind != PARAM_TENSOR)
		return;
	text_put(out, ", \"shape\": [");
	for (int d = 0; d < b->rank; d++) {
		text_put(out, d ? ", " : "");
		if (type && type->has_dims && d < type->dims.n)
			put_formula(type->dims.at[d], out);
		else
			text_printf(out, "\"%lld\"", (long long)b->dim[d]);
	}
	text_put(out, "]");
}

static void
put_buffer(const Func *f, const Bound *b, const AbiParam *a, int index, Text *out)
{
	static const char *const kind[] = {
		[ABI_POINTER] = "tensor", [ABI_STRIDE] = "stride", [ABI_SCALAR] = "scalar", [ABI_EXTENT] = "extent",
		    [ABI_DIM] = "dim",
		[ABI_GRID] = "grid", [ABI_FAULTS] = "faults", [ABI_COUNTER] = "counter", [ABI_INVERSE] = "inverse",
	};
	const FuncParam *p = a->kind < ABI_GRID ? &f->param[a->param] : NULL;
	const char *name = p ? p->name : a->kind == ABI_GRID || a->kind == ABI_INVERSE ? f->axis[a->dim] : kind[a->kind];
	DType t = a->kind == ABI_GRID ? TY_I32 : a->kind == ABI_FAULTS || a->kind == ABI_COUNTER ? TY_U8 : TY_I64;
	if (a->kind == ABI_POINTER || a->kind == ABI_SCALAR)
		t = f->body->arg[a->param].type->elem;
	text_printf(out, "    {\"index\": %d, \"kind\": \"%s\", \"name\": ", index, kind[a->kind]);
	text_json(out, name);
	text_printf(out, ", \"dtype\": \"%s\"", dtype_info[t].text);
	if (a->kind == ABI_POINTER) {
		const KernelParam *k = &b->kernel->params.at[a->param];
		Access access = k->kind == PARAM_POINTER ? (k->ptr == PTR_CONST ? ACCESS_IN : ACCESS_INOUT) : k->access;
		text_printf(out, ", \"access\": \"%s\"%s", access_word[access],
		    access == ACCESS_SCRATCH ? ", \"scratch\": true" : "");
		put_shape(k, &b->param[a->param], out);
	}
	if (a->kind == ABI_STRIDE || a->kind == ABI_EXTENT || a->kind == ABI_GRID || a->kind == ABI_INVERSE)
		text_printf(out, ", \"dim\": %d", a->dim);
	text_put(out, "}");
}

/* What is taken for granted of the memory, dimensions and scalars. */
static void
put_multiples(const Func *f, Text *out)
{
	int n = 0;
	text_put(out, "  \"multiples\": {");
	for (int i = 0; i < f->nparam; i++) {
		const FuncParam *p = &f->param[i];
		if (p->multiple <= 1)
			continue;
		text_put(out, n++ ? ", " : "");
		text_json(out, p->name);
		text_printf(out, ": %lld", (long long)p->multiple);
	}
	text_put(out, "},\n");
}

/* Was a dimension compiled as a number? */
static bool
is_fixed(const Func *f, const Bound *b, const char *symbol)
{
	for (int i = 0; i < b->kernel->params.n; i++) {
		const KernelParam *p = &b->kernel->params.at[i];
		const TypeExpr *type = p->ast->type;
		for (int d = 0; p->kind == PARAM_TENSOR && type && type->has_dims && d < MIN(type->dims.n, p->rank); d++)
			if (type->dims.at[d]->kind == EX_NAME && type->dims.at[d]->name == symbol &&
			    f->body->arg[i].type->extent[d] >= 0)
				return true;
	}
	return false;
}

static void
put_values(const Func *f, const Bound *b, Text *out)
{
	int shown = b->nct;
	text_put(out, "  \"values\": {");
	for (int i = 0; i < b->nct; i++) {
		text_put(out, i ? ", " : "");
		text_json(out, b->ct[i].name);
		text_put(out, ": ");
		put_const(&b->ct[i].value, out);
	}
	for (int i = 0; i < b->nsymbol; i++) {
		if (!is_fixed(f, b, b->symbol[i].name))
			continue;
		text_put(out, shown++ ? ", " : "");
		text_json(out, b->symbol[i].name);
		text_put(out, ": ");
		put_const(&b->symbol[i].value, out);
	}
	text_put(out, "},\n");
}

void
metal_describe(const Func *f, const Bound *b, const Emitter *e, Text *out)
{
	Compile *cx = f->module->cx;
	int n, shown = 0;
	const AbiParam *abi = artefact_abi(f, cx->tmp, &n);
	const Item *item = b->kernel->item;
	text_put(out, "{\n  \"kernel\": ");
	text_json(out, e->kernel.name);
	text_put(out, ",\n  \"source\": ");
	text_json(out, f->place.file >= 0 ? cx->files.at[f->place.file].path : "");
	text_printf(out, ",\n  \"target\": \"%s\",\n  \"language\": \"metal3.1\",\n  \"threads\": %d,\n", e->target->name,
	    e->kernel.threads);
	text_printf(out, "  \"threadgroup_bytes\": 0,\n  \"persistent\": %s,\n  \"grid\": [",
	    f->schedule.persistent ? "true" : "false");
	for (int i = 0; i < item->grid.n; i++) {
		text_put(out, i ? ", " : "");
		put_formula(item->grid.at[i].count, out);
	}
	text_put(out, "],\n");
	put_values(f, b, out);
	put_multiples(f, out);
	text_put(out, "  \"buffers\": [\n");
	for (int i = 0; i < n; i++) {
		int index = emit_msl_buffer(e, i);
		if (index < 0)
			continue;
		text_put(out, shown++ ? ",\n" : "");
		put_buffer(f, b, &abi[i], index, out);
	}
	text_put(out, "\n  ]\n}\n");
}
