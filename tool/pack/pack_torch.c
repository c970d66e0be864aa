/* Operators of PyTorch over a pack: NAME_torch.cc, which with NAME.c makes a library for
 * torch.ops.load_library.
 *
 *     softmax(x: in f32[R, C], y: out f32[R, C])      NAME::softmax(Tensor x) -> Tensor
 *
 * An operator takes what a kernel reads, changes and its scalars, in order, and gives its outputs,
 * allocated.  Dimensions come from the shapes of what is given, and every shape is compared with the
 * header's.  There is an implementation for CUDA, one for the CPU where the pack has the target cpu,
 * and one of shapes alone, in which sizes may be symbols.  The text includes NAME.c: the header's
 * formulas are static functions there.  pack/torch.h is what all operators share. */
#include "tool/pack/pack.h"

#include <inttypes.h>
#include <string.h>

static bool
is_given(const KernelParam *q)
{
	return q->kind != PARAM_TENSOR || q->access == ACCESS_IN || q->access == ACCESS_INOUT;
}

static bool
is_output(const KernelParam *q)
{
	return q->kind == PARAM_TENSOR && q->access == ACCESS_OUT;
}

static const char *
scalar_type(DType t)
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

/* Whether each element of a scalar is an int, a float or a bool of a schema. */
static const char *
schema_type(DType t)
{
	return t == TY_BOOL ? "bool" : dtype_is_float(t) ? "float" : "int";
}

static DType
dtype_of(const PackKernel *pk, int i)
{
	return pk->forms.at[0].bound.param[i].dtype;
}

static int
count_outputs(const Kernel *k)
{
	int n = 0;
	for (int i = 0; i < k->params.n; i++)
		n += is_output(&k->params.at[i]);
	return n;
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
	return dtype_is_packed(dtype_of(pk, i)) && !dim_expr(&pk->k->params.at[i], d + 1);
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
		if (is_given(&k->params.at[*i]) && dim_expr(&k->params.at[*i], *d))
			return dim_expr(&k->params.at[*i], (*d)++);
	return NULL;
}

/* Where a dimension is read from; false: nowhere. A packed row comes last, as its bytes do not say whether the extent is odd. */
static bool
source_at(const PackKernel *pk, const char *symbol, int *param, int *dim)
{
	const Expr *e;
	*param = -1;
	for (int i = 0, d = 0; (e = next_given(pk->k, &i, &d));) {
		if (!is_symbol(pk->k, e) || strcmp(e->name, symbol) != 0)
			continue;
		if (*param < 0 || !is_packed_row(pk, i, d - 1)) {
			*param = i;
			*dim = d - 1;
		}
		if (!is_packed_row(pk, i, d - 1))
			return true;
	}
	return *param >= 0;
}

/* "x.sym_size(1)" */
static const char *
source_of(const Pack *p, const PackKernel *pk, const char *symbol)
{
	int i, d;
	if (!source_at(pk, symbol, &i, &d))
		return NULL;
	return arena_printf(p->cx->mem, "%s.sym_size(%d)%s", pack_c_name(pk->k, pk->k->params.at[i].name, p->cx->mem), d,
	    is_packed_row(pk, i, d) ? " * 2" : "");
}

/* Whether all forms have one value of a compile-time parameter. */
static bool
is_one_value(const PackKernel *pk, int ct)
{
	for (int f = 1; f < pk->forms.n; f++)
		if (!const_equal(&pk->forms.at[f].bound.ct[ct].value, &pk->forms.at[0].bound.ct[ct].value))
			return false;
	return !pack_is_derived(pk->k, ct);
}

/* Whether a dimension has one formula in all forms, which C evaluates. */
static bool
is_one_formula(const PackKernel *pk, const Expr *e)
{
	for (int c = 0; c < pk->k->item->ctparams.n; c++)
		if (expr_mentions(e, pk->k->item->ctparams.at[c].name) && !is_one_value(pk, c))
			return false;
	for (int i = 0; i < pk->opaque.n; i++)
		if (pk->opaque.at[i] == e)
			return false;
	return true;
}

/* Why a kernel makes no operator; NULL: it does. */
static const char *
lacks(const Pack *p, const PackKernel *pk)
{
	const Kernel *k = pk->k;
	bool any = false;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		any |= q->kind == PARAM_TENSOR && is_given(q);
		if (q->kind == PARAM_POINTER)
			return "it takes pointers";
		for (int d = 0; (is_output(q) || is_given(q)) && dim_expr(q, d); d++)
			if (!is_one_formula(pk, dim_expr(q, d)))
				return "shapes of its tensors follow from compile-time parameters";
	}
	for (int s = 0; s < k->symbols.n; s++)
		if (!source_of(p, pk, k->symbols.at[s]))
			return arena_printf(p->cx->mem, "no input has the dimension %s", k->symbols.at[s]);
	return any ? NULL : "it takes no tensor";
}

/* ---- the parts of an operator ---- */

static void
put_schema(const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	int n = 0, changed = 0, outputs = count_outputs(k);
	text_printf(out, "%s(", pk->function);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!is_given(q))
			continue;
		text_put(out, n++ ? ", " : "");
		if (q->kind == PARAM_SCALAR)
			text_printf(out, "%s %s", schema_type(dtype_of(pk, i)), q->name);
		else if (q->access == ACCESS_INOUT)
			text_printf(out, "Tensor(%c!) %s", 'a' + changed++, q->name);
		else
			text_printf(out, "Tensor %s", q->name);
	}
	text_put(out, ") -> ");
	text_put(out, outputs == 1 ? "Tensor" : "(");
	for (int i = 0; i < outputs && outputs != 1; i++)
		text_put(out, i ? ", Tensor" : "Tensor");
	text_put(out, outputs == 1 ? "" : ")");
}

static void
put_result(int outputs, Text *out)
{
	text_put(out, outputs == 0 ? "void" : outputs == 1 ? "at::Tensor" : "std::tuple<");
	for (int i = 0; i < outputs && outputs > 1; i++)
		text_put(out, i ? ", at::Tensor" : "at::Tensor");
	text_put(out, outputs > 1 ? ">" : "");
}

static void
put_list(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	int n = 0;
	text_put(out, "(");
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		const char *type = q->kind != PARAM_SCALAR ? "const at::Tensor &" : dtype_of(pk, i) == TY_BOOL ? "bool "
		    : dtype_is_float(dtype_of(pk, i)) ? "double " : "int64_t ";
		if (is_given(q))
			text_printf(out, "%s%s%s", n++ ? ", " : "", type, pack_c_name(k, q->name, p->cx->mem));
	}
	text_put(out, ")");
}

static void
put_checks(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const char *first = NULL;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		const char *name = pack_c_name(k, q->name, p->cx->mem);
		DType t = dtype_of(pk, i);
		if (q->kind == PARAM_SCALAR && t != TY_BOOL && !dtype_is_float(t))
			text_printf(out, "\tcheck_range<%s>(\"%s: %s is \", %s, \"%s\");\n", pack_c_type(t), pk->function,
			    q->name, name, dtype_info[t].text);
		if (q->kind != PARAM_TENSOR || !is_given(q))
			continue;
		text_printf(out, "\tcheck_tensor(\"%s: %s is \", %s, %s, %d, %s, \"%s\");\n", pk->function, q->name, name,
		    first ? first : name, q->rank, scalar_type(t), dtype_info[t].text);
		first = first ? first : name;
	}
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

/* tgp_d has the dimensions, which may be symbols; formulas of the header, in tgp_o, ask for their values. */
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
	text_printf(out, "\tint64_t tgp_n[%d], tgp_v[%d] = {0};\n\tTgpShape tgp_o;\n", MAX(k->symbols.n, 1),
	    MAX(k->params.n, 1));
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, "\ttgp_n[%d] = tgp_d[%d].guard_int(__FILE__, __LINE__);\n", s, s);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR && !dtype_is_float(dtype_of(pk, i)))
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
	const char *one = is_symbol(pk->k, e) ? arena_printf(p->cx->mem, "tgp_d[%d]", symbol_named(pk->k, e->name))
			: is_fixed(pk, e, &c) ? arena_printf(p->cx->mem, "c10::SymInt(INT64_C(%" PRId64 "))", c.i)
					      : arena_printf(p->cx->mem, "c10::SymInt(tgp_o.extent[%d][%d])", i, d);
	return is_packed_row(pk, i, d) ? arena_printf(p->cx->mem, "(%s + 1) / 2", one) : one;
}

/* Compares the shapes that are given with the header's: the launch has dimensions alone, and trusts them. */
static void
put_shapes(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const Expr *e;
	for (int i = 0, d = 0, from, at; (e = next_given(k, &i, &d));) {
		const char *name = k->params.at[i].name;
		if (is_symbol(k, e) && source_at(pk, e->name, &from, &at) && from == i && at == d - 1)
			continue;
		text_printf(out, "\tcheck_extent(\"%s: dimension %d of %s (%s", pk->function, d - 1, name,
		    is_packed_row(pk, i, d - 1) ? "bytes of " : "");
		expr_put(e, 0, out);
		text_printf(out, ") is \", %s.sym_size(%d), %s);\n", pack_c_name(k, name, p->cx->mem), d - 1,
		    wanted(p, pk, i, d - 1));
	}
}

/* Outputs without contents. */
static void
put_outputs(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const char *like = NULL;
	for (int i = 0; i < k->params.n && !like; i++)
		if (k->params.at[i].kind == PARAM_TENSOR && is_given(&k->params.at[i]))
			like = pack_c_name(k, k->params.at[i].name, p->cx->mem);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!is_output(q))
			continue;
		text_printf(out, "\tat::Tensor %s = at::empty_symint({", pack_c_name(k, q->name, p->cx->mem));
		for (int d = 0; dim_expr(q, d); d++)
			text_printf(out, "%s%s", d ? ", " : "", wanted(p, pk, i, d));
		text_printf(out, "}, %s.options().dtype(%s));\n", like, scalar_type(dtype_of(pk, i)));
	}
}

static void
put_return(const Pack *p, const PackKernel *pk, Text *out)
{
	int outputs = count_outputs(pk->k), n = 0;
	if (outputs == 0)
		return;
	text_put(out, outputs == 1 ? "\treturn " : "\treturn std::make_tuple(");
	for (int i = 0; i < pk->k->params.n; i++)
		if (is_output(&pk->k->params.at[i]))
			text_printf(out, "%s%s", n++ ? ", " : "", pack_c_name(pk->k, pk->k->params.at[i].name, p->cx->mem));
	text_put(out, outputs == 1 ? ";\n" : ");\n");
}

/* What the pack's function is given. */
static void
put_call(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		const char *name = pack_c_name(k, q->name, p->cx->mem);
		if (q->kind != PARAM_TENSOR || !is_given(q) || q->strided)
			continue;
		if (q->access == ACCESS_IN)
			text_printf(out, "\tconst at::Tensor tgp_dense_%d = %s.contiguous();\n", i, name);
		else
			text_printf(out,
			    "\tTORCH_CHECK(%s.is_contiguous(), \"%s: %s is changed, and not "
			    "contiguous\");\n",
			    name, pk->function, q->name);
	}
	text_printf(out,
	    "\tTgpContext *const tgp_cx = opened(tgp_host);\n\tTORCH_CHECK(::%s(tgp_cx, tgp_stream",
	    pk->function);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		const char *name = pack_c_name(k, q->name, p->cx->mem);
		if (q->kind == PARAM_TENSOR && q->access == ACCESS_SCRATCH)
			continue;
		if (q->kind == PARAM_SCALAR && dtype_is_float(dtype_of(pk, i)) && dtype_info[dtype_of(pk, i)].bits < 32)
			text_printf(out, ", bits_of<at::%s>(%s)", dtype_of(pk, i) == TY_F16 ? "Half" : "BFloat16", name);
		else if (q->kind == PARAM_SCALAR)
			text_printf(out, ", (%s)%s", pack_c_type(dtype_of(pk, i)), name);
		else if (q->access == ACCESS_IN && !q->strided)
			text_printf(out, ", (const %s *)tgp_dense_%d.const_data_ptr()", pack_c_type(dtype_of(pk, i)), i);
		else
			text_printf(out, ", (%s *)%s.data_ptr()", pack_c_type(dtype_of(pk, i)), name);
		if (q->strided)
			text_printf(out, ", %s.strides().data()", name);
	}
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, ", tgp_d[%d].expect_int()", s);
	text_printf(out, ") == TGP_OK, %s_error(tgp_cx));\n", p->name);
}

static void
put_operator(const Pack *p, const PackKernel *pk, Text *out)
{
	static const char *const ways[] = {"cuda", "cpu", "meta"};
	const Kernel *k = pk->k;
	for (int w = 0; w < LEN(ways); w++) {
		if (w == 1 && !p->has_host)
			continue;
		text_put(out, "static ");
		put_result(count_outputs(k), out);
		text_printf(out, "\n%s_%s", ways[w], pk->function);
		put_list(p, pk, out);
		text_put(out, "\n{\n");
		put_checks(p, pk, out);
		for (int i = 0; w == 0 && i < k->params.n; i++)
			if (k->params.at[i].kind == PARAM_TENSOR && is_given(&k->params.at[i])) {
				const char *x = pack_c_name(k, k->params.at[i].name, p->cx->mem);
				text_printf(out,
				    "\tc10::DeviceGuard tgp_guard(%s.device());\n\tvoid *const "
				    "tgp_stream = stream_of(%s);\n"
				    "\tconst bool tgp_host = false;\n",
				    x, x);
				break;
			}
		if (w == 1)
			text_put(out, "\tvoid *const tgp_stream = nullptr;\n\tconst bool tgp_host = true;\n");
		for (int i = 0; w == 2 && i < k->params.n; i++)
			if (k->params.at[i].kind == PARAM_SCALAR)
				text_printf(out, "\t(void)%s;\n", pack_c_name(k, k->params.at[i].name, p->cx->mem));
		put_dims(p, pk, out);
		put_shapes(p, pk, out);
		put_outputs(p, pk, out);
		if (w < 2)
			put_call(p, pk, out);
		put_return(p, pk, out);
		text_put(out, "}\n\n");
	}
}

/* ---- the file ---- */

static void
put_registrations(const Pack *p, Text *out)
{
	static const char *const keys[] = {"CUDA", "CPU", "Meta"}, *const names[] = {"cuda", "cpu", "meta"};
	text_printf(out, "} // namespace\n\nTORCH_LIBRARY_FRAGMENT(%s, m)\n{\n", p->name);
	for (int i = 0; i < p->kernels.n; i++) {
		if (lacks(p, p->kernels.at[i]))
			continue;
		text_put(out, "\tm.def(\"");
		put_schema(p->kernels.at[i], out);
		text_put(out, "\", {at::Tag::pt2_compliant_tag});\n");
	}
	text_put(out, "}\n");
	for (int w = 0; w < LEN(keys); w++) {
		if (w == 1 && !p->has_host)
			continue;
		text_printf(out, "\nTORCH_LIBRARY_IMPL(%s, %s, m)\n{\n", p->name, keys[w]);
		for (int i = 0; i < p->kernels.n; i++)
			if (!lacks(p, p->kernels.at[i]))
				text_printf(out, "\tm.impl(\"%s\", %s_%s);\n", p->kernels.at[i]->function, names[w],
				    p->kernels.at[i]->function);
		text_put(out, "}\n");
	}
}

void
pack_put_torch(const Pack *p, Text *out)
{
	text_printf(out,
	    "/* Operators of PyTorch, %s::KERNEL. Made by tegula; it holds %s.c, too: compile this "
	    "file alone. */\n",
	    p->name, p->name);
	text_printf(out,
	    "#include <ATen/ATen.h>\n#include <torch/library.h>\n#include <string>\n\n#include \"%s.c\"\n\nnamespace {\n\n",
	    p->name);
	text_put(out, pack_text_torch);
	text_put(out, "\n/* Opened once in a process, and never closed: operators are there as long. */\n"
		      "inline TgpContext *\nopened(bool is_host)\n{\n");
	if (p->has_host)
		text_printf(out,
		    "\tstatic TgpContext *const host = %s_open_cpu();\n\tif (is_host)\n\t\treturn "
		    "host;\n",
		    p->name);
	text_printf(out, "\tstatic TgpContext *const cx = %s_open();\n\t(void)is_host;\n\treturn cx;\n}\n\n", p->name);
	for (int i = 0; i < p->kernels.n; i++) {
		const char *why = lacks(p, p->kernels.at[i]);
		if (why)
			text_printf(out, "/* There is no operator %s: %s. */\n\n", p->kernels.at[i]->function, why);
		else
			put_operator(p, p->kernels.at[i], out);
	}
	put_registrations(p, out);
}
