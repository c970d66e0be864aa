/* What the descriptions of a launch share, be they JSON (metal.c) or lines that people read (describe_text.c): the words
 * for the parameters of compiled code, and what the kernel's header says of them. */
#include "compile/describe.h"

void
describe_const(const Const *c, Text *out)
{
	if (c->kind == CONST_NONE)
		text_put(out, "null");
	else if (c->kind == CONST_DTYPE)
		text_json(out, dtype_info[c->dtype].text);
	else
		const_text(c, out);
}

const Expr *
described_dim(const KernelParam *p, int d)
{
	const TypeExpr *type = p->ast->type;
	return p->kind == PARAM_TENSOR && type && type->has_dims && d < type->dims.n ? type->dims.at[d] : NULL;
}

const Expr *
described_formula(const Bound *b, int i)
{
	const Item *item = b->kernel->item;
	if (i < item->grid.n)
		return item->grid.at[i].count;
	i -= item->grid.n;
	for (int p = 0; p < b->kernel->params.n; p++)
		for (int d = 0; described_dim(&b->kernel->params.at[p], d); d++)
			if (i-- == 0)
				return described_dim(&b->kernel->params.at[p], d);
	return NULL;
}

const FuncParam *
described_symbol(const Func *f, const Bound *b, int symbol)
{
	return &f->param[b->kernel->params.n + symbol];
}

const char *
described_kind(const AbiParam *a)
{
	static const char *const kind[] = {
#define ABI(id, word, meaning) [ABI_##id] = word,
#include "lower/abi.def"
#undef ABI
	};
	return kind[a->kind];
}

const char *
described_name(const Func *f, const AbiParam *a)
{
	if (a->kind < ABI_GRID)
		return f->param[a->param].name;
	return a->kind == ABI_GRID || a->kind == ABI_INVERSE ? f->axis[a->dim] : described_kind(a);
}

DType
described_dtype(const Func *f, const AbiParam *a)
{
	switch (a->kind) {
	case ABI_POINTER: case ABI_SCALAR: return f->body->arg[a->param].type->elem;
	case ABI_GRID: return TY_I32;
	case ABI_FAULTS: case ABI_COUNTER: case ABI_TENSOR_MAP: return TY_U8;
	case ABI_INVERSE: return TY_U64;
	default: return TY_I64;
	}
}
