/* What a user of a pack sees and calls: a function of its own types for each kernel, with a comment made from the
 * source.
 *
 *     TgpStatus softmax(TgpContext *cx, void *stream, const float *x, float *y, int64_t R, int64_t C);
 *
 * Tensors come in the kernel's order, a strided one with its strides behind it, scratch ones not at all; then
 * dimensions. */
#include "tool/pack/pack.h"

#include <string.h>

#include "runtime/launch/launch.h"

static const char *
c_type(DType t)
{
	static const char *const type[DTYPE_COUNT] = {[TY_BOOL] = "bool",
	    [TY_I8] = "int8_t",
	    [TY_I16] = "int16_t",
	    [TY_I32] = "int32_t",
	    [TY_I64] = "int64_t",
	    [TY_U8] = "uint8_t",
	    [TY_U16] = "uint16_t",
	    [TY_U32] = "uint32_t",
	    [TY_U64] = "uint64_t",
	    [TY_F32] = "float",
	    [TY_F64] = "double"};
	return type[t];
}

/* As bits, where C has no such type. */
static const char *
c_scalar(DType t)
{
	return c_type(t) ? c_type(t) : dtype_info[t].bits == 16 ? "uint16_t" : "uint8_t";
}

static bool
is_const(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_IN : p->ptr == PTR_CONST;
}

const char *
pack_c_type(DType t)
{
	return c_type(t) ? c_type(t) : "void";
}

static void
put_signature(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	text_printf(out, "%s(TgpContext *cx, void *stream", pk->function);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		DType t = pk->forms.at[0].bound.param[i].dtype;
		const char *name = pack_c_name(k, q->name, p->cx->mem);
		if (param_is_scratch(q))
			continue;
		if (q->kind == PARAM_SCALAR)
			text_printf(out, ", %s %s", c_scalar(t), name);
		else
			text_printf(out, ", %s%s *%s", is_const(q) ? "const " : "", c_type(t) ? c_type(t) : "void", name);
		if (q->strided)
			text_printf(out, ", const int64_t *%s", pack_strides_name(k, q->name, p->cx->mem));
	}
	for (int i = 0; i < k->symbols.n; i++)
		text_printf(out, ", int64_t %s", pack_c_name(k, k->symbols.at[i], p->cx->mem));
	text_put(out, ")");
}

/* ---- comments ---- */

/* A line of a comment of C: ASCII, without trigraphs and the beginning or end of one. */
static void
put_line(const char *s, size_t n, Text *out)
{
	for (size_t i = 0; i < n; i++) {
		char next = i + 1 < n ? s[i + 1] : 0;
		bool splits = (s[i] == '*' && next == '/') || (s[i] == '/' && next == '*') || (s[i] == '?' && next == '?');
		bool plain = s[i] >= ' ' && s[i] < 127;
		text_putn(out, plain ? &s[i] : "?", 1);
		text_put(out, splits ? " " : "");
	}
}

/* The lines of a comment of the source, without what makes it one. */
static void
put_lines(const char *s, Text *out)
{
	s += strspn(s, "/");
	for (const char *end; *s; s = *end ? end + 1 : end) {
		end = s + strcspn(s, "\n");
		s += MIN(strspn(s, "* \t\r"), (size_t)(end - s));
		size_t n = (size_t)(end - s);
		if (n && *end == 0 && s[n - 1] == '/' && (n == 1 || s[n - 2] == '*'))
			n--;                            /* the end of a block */
		while (n && strchr("* \t\r", s[n - 1]))
			n--;
		if (!n && !*end)
			return;
		text_put(out, n ? " * " : " *");
		put_line(s, n, out);
		text_put(out, "\n");
	}
}

static int
lines_of(const char *s)
{
	int n = 1;
	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* The comment just above the kernel. */
static void
put_source_comment(const Kernel *k, Text *out)
{
	const Ast *ast = k->program->ast;
	int first = ast->comments.n, line = k->item->place.line;
	for (int i = ast->comments.n - 1; i >= 0; i--)
		if (ast->comments.at[i].place.line + lines_of(ast->comments.at[i].text) == line) {
			first = i;
			line = ast->comments.at[i].place.line;
		}
	for (int i = first; i < ast->comments.n && ast->comments.at[i].place.line < k->item->place.line; i++)
		put_lines(ast->comments.at[i].text, out);
}

static void
put_shape(const KernelParam *q, const BoundParam *b, Text *out)
{
	Text t = {0};
	const TypeExpr *type = q->ast->type;
	text_printf(&t, "%s[", dtype_info[b->dtype].text);
	for (int d = 0; d < type->dims.n; d++) {
		text_put(&t, d ? ", " : "");
		expr_put(type->dims.at[d], 0, &t);
	}
	text_put(&t, "]");
	put_line(t.at, t.n, out);
	text_close(&t);
}

/* How elements lie. */
static void
put_element(DType t, Text *out)
{
	if (dtype_is_packed(t))
		text_put(out, ", two in a byte, the lower half first, each row from a whole byte on");
	else if (dtype_info[t].bits > 8)
		text_printf(out, ", at a multiple of %d bytes", dtype_info[t].bits / 8);
}

static void
put_param(const Pack *p, const PackKernel *pk, int i, Text *out)
{
	const KernelParam *q = &pk->k->params.at[i];
	const BoundParam *b = &pk->forms.at[0].bound.param[i];
	if (param_is_scratch(q))
		return;
	text_printf(out, " *   %s: ", pack_c_name(pk->k, q->name, p->cx->mem));
	if (q->kind == PARAM_SCALAR) {
		text_printf(out, "%s%s\n", dtype_info[b->dtype].text, c_type(b->dtype) ? "" : ", its bits");
		return;
	}
	if (q->kind == PARAM_POINTER) {
		text_printf(out, "address of %s, %s", dtype_info[b->dtype].text, is_const(q) ? "read" : "written");
		put_element(b->dtype, out);
		text_put(out, "\n");
		return;
	}
	text_printf(out, "%s ", access_text[q->access]);
	put_shape(q, b, out);
	text_put(out, q->strided ? ", strides in elements behind it, NULL for row-major" : ", row-major");
	put_element(b->dtype, out);
	if (b->has_fill) {
		text_put(out, "; begins as ");
		const_text(&b->fill, out);
	}
	text_put(out, "\n");
}

static void
put_places(const Kernel *k, Text *out)
{
	const char *path = k->program->cx->files.at[k->item->place.file].path, *slash = strrchr(path, '/');
	text_put(out, "/* kernel ");
	text_put(out, k->name);
	text_put(out, " of ");
	put_line(slash ? slash + 1 : path, strlen(slash ? slash + 1 : path), out);
	text_printf(out, ":%d\n", k->item->place.line);
}

/* Whether shapes or `where` name it. */
static bool
is_named(const Kernel *k, const char *name)
{
	bool found = false;
	for (int i = 0; i < k->params.n; i++) {
		const TypeExpr *t = k->params.at[i].kind == PARAM_TENSOR ? k->params.at[i].ast->type : NULL;
		for (int d = 0; t && !param_is_scratch(&k->params.at[i]) && d < t->dims.n; d++)
			found |= expr_mentions(t->dims.at[d], name);
	}
	for (int i = 0; i < k->item->where.n; i++)
		found |= expr_mentions(k->item->where.at[i], name);
	return found;
}

bool
pack_is_one_value(const PackKernel *pk, int ct)
{
	for (int f = 1; f < pk->forms.n; f++)
		if (!const_equal(&pk->forms.at[f].bound.ct[ct].value, &pk->forms.at[0].bound.ct[ct].value))
			return false;
	return true;
}

/* What names in shapes stand for, but for dimensions. */
static void
put_constants(const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	Const c;
	for (int i = 0; i < k->program->items.n; i++) {
		const Item *it = k->program->items.at[i];
		if (it->kind != ITEM_CONST || !is_named(k, it->name) || !program_constant(k->program, it->name, &c))
			continue;
		text_printf(out, " *   %s: ", it->name);
		const_text(&c, out);
		text_put(out, ", a constant of the source\n");
	}
	for (int i = 0; i < k->item->ctparams.n; i++) {
		const char *name = k->item->ctparams.at[i].name;
		const Const *first = &pk->forms.at[0].bound.ct[i].value;
		if (!is_named(k, name) && (!pack_makes_function(k, i) || first->kind == CONST_DTYPE))
			continue;
		Text t = {0};
		if (pack_is_one_value(pk, i))
			const_text(first, &t);
		else if (pack_is_derived(k, i))
			expr_put(k->item->ctparams.at[i].value, 0, &t);
		text_printf(out, " *   %s: ", name);
		put_line(t.n ? t.at : "", t.n, out);
		text_printf(out, "%sa compile-time parameter\n", t.n ? ", " : "of several values, ");
		text_close(&t);
	}
}

static void
put_asserts(const Pack *p, const PackKernel *pk, Text *out)
{
	const PackForm *f = pk->forms.n ? &pk->forms.at[0] : NULL;
	int n = !f ? 0 : f->host ? f->nasserts : f->code.nasserts;
	for (int i = 0; i < n; i++) {
		const char *text = f->host ? f->asserts[i] : f->code.asserts[i];
		if (i == 0)
			text_printf(out, " * Asserts, each of which is an error where it is false, of %s_sync or on "
			    "the host of the call:\n", p->name);
		text_put(out, " *   ");
		put_line(text, strcspn(text, "\n"), out);
		text_put(out, "\n");
	}
}

static void
put_wheres(const Kernel *k, Text *out)
{
	for (int i = 0; i < k->item->where.n; i++) {
		Text t = {0};
		expr_put(k->item->where.at[i], 0, &t);
		text_put(out, " * Asks for ");
		put_line(t.at, t.n, out);
		text_put(out, ".\n");
		text_close(&t);
	}
}

static void
put_comment(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	put_places(k, out);
	put_source_comment(k, out);
	text_put(out, " *\n");
	for (int i = 0; i < k->params.n; i++)
		put_param(p, pk, i, out);
	for (int i = 0; i < k->symbols.n; i++)
		text_printf(out, "%s%s", i ? ", " : " *   ", pack_c_name(k, k->symbols.at[i], p->cx->mem));
	text_put(out, k->symbols.n ? ": dimensions, 0 to 2^40\n" : "");
	put_constants(pk, out);
	text_put(out, " *\n");
	put_wheres(k, out);
	put_asserts(p, pk, out);
	text_printf(out, " * Compiled in %d form%s, for", pk->forms.n, pk->forms.n == 1 ? "" : "s");
	for (int i = 0; i < p->targets.n; i++)
		text_printf(out, "%s %s", i ? "," : "", p->targets.at[i]->name);
	text_put(out, ". */\n");
}

void
pack_put_prototypes(const Pack *p, Text *out)
{
	for (int i = 0; i < p->kernels.n; i++) {
		put_comment(p, p->kernels.at[i], out);
		text_put(out, "TgpStatus ");
		put_signature(p, p->kernels.at[i], out);
		text_put(out, ";\n\n");
	}
}

/* ---- definitions ---- */

/* Its bits, and where formulas of the header take it, those of a double. */
static void
put_float(const Kernel *k, int i, const char *name, DType t, Text *out)
{
	text_printf(out, "\tmemcpy(&call.bits[%d], &%s, sizeof %s);\n", i, name, name);
	if ((t == TY_F32 || t == TY_F64) && header_mentions(k, k->params.at[i].name))
		text_printf(out, "\tconst double tgp_%d = (double)%s;\n"
		    "\tmemcpy(&call.value[%d], &tgp_%d, sizeof tgp_%d);\n", i, name, i, i, i);
}

static void
put_body(const Pack *p, const PackKernel *pk, int number, Text *out)
{
	const Kernel *k = pk->k;
	text_put(out, "\tTgpCall call = TGP_NO_CALL;\n");
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		const char *name = pack_c_name(k, q->name, p->cx->mem);
		if (param_is_scratch(q))
			continue;
		if (q->kind != PARAM_SCALAR)
			text_printf(out, "\tcall.address[%d] = %s;\n", i, name);
		else if (dtype_is_float(pk->forms.at[0].bound.param[i].dtype))
			put_float(k, i, name, pk->forms.at[0].bound.param[i].dtype, out);
		else
			text_printf(out, "\tcall.bits[%d] = (uint64_t)%s;\n\tcall.value[%d] = (int64_t)%s;\n", i,
			    name, i, name);
		if (q->strided)
			text_printf(out, "\tcall.stride[%d] = %s;\n", i, pack_strides_name(k, q->name, p->cx->mem));
	}
	for (int i = 0; i < k->symbols.n; i++)
		text_printf(out, "\tcall.dim[%d] = %s;\n", i, pack_c_name(k, k->symbols.at[i], p->cx->mem));
	text_printf(out, "\treturn tgp_launch(cx, &tgp_pack, &tgp_kernels[%d], stream, &call);\n", number);
}

void
pack_put_functions(const Pack *p, Text *out)
{
	const char *n = p->name;
	for (int i = 0; i < p->kernels.n; i++) {
		text_put(out, "TgpStatus\n");
		put_signature(p, p->kernels.at[i], out);
		text_put(out, "\n{\n");
		put_body(p, p->kernels.at[i], i, out);
		text_put(out, "}\n\n");
	}
	text_printf(out, "TgpContext *%s_open(void) { return tgp_open(&tgp_pack); }\n", n);
	if (p->has_host)
		text_printf(out, "TgpContext *%s_open_cpu(void) { return tgp_open_host(&tgp_pack); }\n", n);
	text_printf(out, "void %s_close(TgpContext **cx) { tgp_close(cx); }\n", n);
	text_printf(out, "const char *%s_error(TgpContext *cx) { return tgp_error(cx); }\n", n);
	text_printf(out, "TgpStatus %s_load(TgpContext *cx) { return tgp_load_all(cx, &tgp_pack); }\n", n);
	text_printf(out,
	    "TgpStatus %s_sync(TgpContext *cx, void *stream) { return tgp_sync(cx, &tgp_pack, stream); }\n", n);
}
