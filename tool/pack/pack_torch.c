/* Operators of PyTorch over a pack: NAME_torch.cc, which with NAME.c makes a library for
 * torch.ops.load_library.
 *
 *     softmax(x: in f32[R, C], y: out f32[R, C])      NAME::softmax(Tensor x) -> Tensor
 *
 * An operator takes what a kernel reads, changes and its scalars, in order, and gives its outputs,
 * allocated.  Dimensions come from the shapes of what is given.  There is an implementation for
 * CUDA, one for the CPU where the pack has the target cpu, and one of shapes alone, in which sizes
 * may be symbols.  The text includes NAME.c: the header's formulas are static functions there. */
#include "tool/pack/pack.h"

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

/* Where a dimension is read from: "x.sym_size(1)"; NULL: nowhere. */
static const char *
source_of(const Pack *p, const PackKernel *pk, const char *symbol)
{
	const Kernel *k = pk->k;
	const Expr *e;
	for (int i = 0; i < k->params.n; i++)
		for (int d = 0; is_given(&k->params.at[i]) && (e = dim_expr(&k->params.at[i], d)); d++) {
			bool two = dtype_is_packed(dtype_of(pk, i)) && !dim_expr(&k->params.at[i], d + 1);
			if (e->kind == EX_NAME && !e->scope && strcmp(e->name, symbol) == 0)
				return arena_printf(p->cx->mem, "%s.sym_size(%d)%s",
				    pack_c_name(k, k->params.at[i].name, p->cx->mem), d,
				    two ? " * 2" : "");
		}
	return NULL;
}

/* Why a kernel makes no operator; NULL: it does. */
static const char *
lacks(const Pack *p, const PackKernel *pk)
{
	const Kernel *k = pk->k;
	bool any = false;
	for (int i = 0; i < k->params.n; i++) {
		any |= k->params.at[i].kind == PARAM_TENSOR && is_given(&k->params.at[i]);
		if (k->params.at[i].kind == PARAM_POINTER)
			return "it takes pointers";
		for (int c = 0; is_output(&k->params.at[i]) && c < k->item->ctparams.n; c++)
			for (int d = 0; dim_expr(&k->params.at[i], d); d++)
				if (expr_mentions(dim_expr(&k->params.at[i], d), k->item->ctparams.at[c].name))
					return "shapes of its outputs follow from compile-time parameters";
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
		if (q->kind != PARAM_TENSOR || !is_given(q))
			continue;
		text_printf(out, "\ttgp_check(\"%s: %s is \", %s, %s, %d, %s, \"%s\");\n", pk->function, q->name, name,
		    first ? first : name, q->rank, scalar_type(dtype_of(pk, i)), dtype_info[dtype_of(pk, i)].text);
		first = first ? first : name;
	}
}

/* Outputs without contents, for sizes that may be symbols: the header's formulas ask for their values, plain dimensions do
 * not. */
static void
put_outputs(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	const char *like = NULL;
	bool computes = false;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!like && q->kind == PARAM_TENSOR && is_given(q))
			like = pack_c_name(k, q->name, p->cx->mem);
		for (int d = 0; is_output(q) && dim_expr(q, d); d++)
			computes |= dim_expr(q, d)->kind != EX_NAME || symbol_named(k, dim_expr(q, d)->name) < 0;
	}
	text_put(out, "\tconst c10::SymInt tgp_d[] = {");
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, "%s%s", s ? ", " : "", source_of(p, pk, k->symbols.at[s]));
	text_put(out, k->symbols.n ? "};\n\t(void)tgp_d;\n" : "0};\n\t(void)tgp_d;\n");
	if (computes) {
		text_printf(out, "\tint64_t tgp_n[%d], tgp_v[%d] = {0};\n\tTgpShape tgp_o;\n",
		    MAX(k->symbols.n, 1), MAX(k->params.n, 1));
		for (int s = 0; s < k->symbols.n; s++)
			text_printf(out, "\ttgp_n[%d] = tgp_d[%d].guard_int(__FILE__, __LINE__);\n", s, s);
		for (int i = 0; i < k->params.n; i++)
			if (k->params.at[i].kind == PARAM_SCALAR && !dtype_is_float(dtype_of(pk, i)))
				text_printf(out, "\ttgp_v[%d] = (int64_t)%s;\n", i,
				    pack_c_name(k, k->params.at[i].name, p->cx->mem));
		text_printf(out,
		    "\tTORCH_CHECK(tgp_header_%s(tgp_n, tgp_v, tgp_forms_%s[0].ct, &tgp_o) >= 0, "
		    "\"%s: its header has no value for "
		    "these sizes\");\n",
		    pk->function, pk->function, pk->function);
	}
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!is_output(q))
			continue;
		text_printf(out, "\tat::Tensor %s = at::empty_symint({", pack_c_name(k, q->name, p->cx->mem));
		for (int at = 0; dim_expr(q, at); at++) {
			const Expr *e = dim_expr(q, at);
			int s = e->kind == EX_NAME ? symbol_named(k, e->name) : -1;
			const char *one = s >= 0 ? arena_printf(p->cx->mem, "tgp_d[%d]", s)
						 : arena_printf(p->cx->mem, "c10::SymInt(tgp_o.extent[%d][%d])", i, at);
			bool two = dtype_is_packed(dtype_of(pk, i)) && !dim_expr(q, at + 1);
			text_printf(out, two ? "%s(%s + 1) / 2" : "%s%s", at ? ", " : "", one);
		}
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
		put_outputs(p, pk, out);
		if (w < 2)
			put_call(p, pk, out);
		put_return(p, pk, out);
		text_put(out, "}\n\n");
	}
}

/* ---- the file ---- */

/* Messages are made without streams, which fail in a library with a libstdc++ of its own beside PyTorch's.  libtorch_cuda
 * is asked by dlopen, as Python's import does not make its symbols global. */
static const char prelude[] =
    "#include <ATen/ATen.h>\n#include <torch/library.h>\n#include <string>\n\n#include \"%s.c\"\n\n"
    "namespace {\n\n"
    "inline void *\nstream_of(const at::Tensor &x)\n{\n"
    "\ttypedef int32_t Current(int32_t, void **);\n"
    "\tstatic void *const lib = dlopen(\"libtorch_cuda.so\", RTLD_LAZY | RTLD_NOLOAD);\n"
    "\tstatic Current *const current =\n"
    "\t    (Current *)dlsym(lib ? lib : RTLD_DEFAULT, \"aoti_torch_get_current_cuda_stream\");\n"
    "\tvoid *stream = nullptr;\n"
    "\tTORCH_CHECK(current && current(x.device().index(), &stream) == 0, \"this PyTorch has no CUDA\");\n"
    "\treturn stream;\n}\n\n"
    "inline void\n"
    "tgp_check(const char *what, const at::Tensor &x, const at::Tensor &first, int rank, at::ScalarType type,\n"
    "    const char *dtype)\n{\n"
    "\tTORCH_CHECK(x.device() == first.device(),\n"
    "\t    std::string(what) + \"on \" + x.device().str() + \", and the first tensor on \" + first.device().str());\n"
    "\tTORCH_CHECK(x.dim() == rank && x.scalar_type() == type,\n"
    "\t    std::string(what) + std::to_string(x.dim()) + \"-dimensional \" + c10::toString(x.scalar_type()) +\n"
    "\t    \"; it takes \" + std::to_string(rank) + \" dimensions of \" + dtype);\n}\n\n"
    "template <class T> inline auto\nbits_of(double v)\n{\n\treturn T(v).x;\n}\n\n"
    "/* Opened once in a process, and never closed: operators are there as long. */\n"
    "inline TgpContext *\nopened(bool is_host)\n{\n";

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
	text_printf(out, prelude, p->name);
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
