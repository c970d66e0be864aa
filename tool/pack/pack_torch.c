/* Operators of PyTorch over a pack: NAME_torch.cc, which with NAME.c makes a library for
 * torch.ops.load_library.
 *
 *     softmax(x: in f32[R, C], y: out f32[R, C])      NAME::softmax(Tensor x) -> Tensor
 *
 * An operator takes what a kernel reads, changes and its scalars, in order, and gives its outputs,
 * allocated.  Dimensions come from the shapes of what is given, and every shape is compared with
 * the header's.  There is an implementation for CUDA, one for the CPU where the pack has the target
 * cpu, and one of shapes alone, in which sizes may be symbols.  The text includes NAME.c: the
 * header's formulas are static functions there.  pack/torch.h is what all operators share. */
#include "tool/pack/pack.h"

#include <string.h>

bool
pack_is_given(const KernelParam *q)
{
	return q->kind != PARAM_TENSOR || q->access == ACCESS_IN || q->access == ACCESS_INOUT;
}

bool
pack_is_output(const KernelParam *q)
{
	return q->kind == PARAM_TENSOR && q->access == ACCESS_OUT;
}

/* Whether each element of a scalar is an int, a float or a bool of a schema. */
static const char *
schema_type(DType t)
{
	return t == TY_BOOL ? "bool" : dtype_is_float(t) ? "float" : "int";
}

DType
pack_dtype(const PackKernel *pk, int i)
{
	return pk->forms.at[0].bound.param[i].dtype;
}

static int
count_outputs(const Kernel *k)
{
	return SUM_OF(int, i, k->params.n, pack_is_output(&k->params.at[i]));
}

/* ---- the parts of an operator ---- */

static const char *
operator_of(const Pack *p, const PackKernel *pk)
{
	return pack_python_name(pk->k, pk->function, p->cx->mem);
}

static void
put_schema(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	int n = 0, changed = 0, outputs = count_outputs(k);
	text_printf(out, "%s(", operator_of(p, pk));
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (!pack_is_given(q))
			continue;
		const char *name = pack_python_name(k, q->name, p->cx->mem);
		text_put(out, n++ ? ", " : "");
		if (q->kind == PARAM_SCALAR)
			text_printf(out, "%s %s", schema_type(pack_dtype(pk, i)), name);
		else if (q->access == ACCESS_INOUT)
			text_printf(out, "Tensor(%c!) %s", 'a' + changed++, name);
		else
			text_printf(out, "Tensor %s", name);
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
		const char *type = q->kind != PARAM_SCALAR             ? "const at::Tensor &"
				   : pack_dtype(pk, i) == TY_BOOL      ? "bool "
				   : dtype_is_float(pack_dtype(pk, i)) ? "double "
								       : "int64_t ";
		if (pack_is_given(q))
			text_printf(out, "%s%s%s", n++ ? ", " : "", type,
			    pack_c_name(k, q->name, p->cx->mem));
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
		DType t = pack_dtype(pk, i);
		if (q->kind == PARAM_SCALAR && t != TY_BOOL && !dtype_is_float(t))
			text_printf(out, "\tcheck_range<%s>(\"%s: %s is \", %s, \"%s\");\n",
			    pack_c_type(t), pk->function, q->name, name, dtype_info[t].text);
		if (q->kind != PARAM_TENSOR || !pack_is_given(q))
			continue;
		text_printf(out, "\tcheck_tensor(\"%s: %s is \", %s, %s, %d, %s, \"%s\");\n",
		    pk->function, q->name, name, first ? first : name, q->rank, pack_torch_dtype(t),
		    dtype_info[t].text);
		if (q->access == ACCESS_INOUT)
			text_printf(out, "\tcheck_changed(\"%s: %s is \", %s, %s);\n", pk->function,
			    q->name, name, q->strided ? "true" : "false");
		first = first ? first : name;
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
		if (pack_is_output(&pk->k->params.at[i]))
			text_printf(out, "%s%s", n++ ? ", " : "",
			    pack_c_name(pk->k, pk->k->params.at[i].name, p->cx->mem));
	text_put(out, outputs == 1 ? ";\n" : ");\n");
}

/* What the kernel reads, as it reads it: PyTorch may hold the negative of a tensor.  Strides of
 * packed elements are of bytes there. */
static void
put_inputs(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *q = &k->params.at[i];
		if (q->kind != PARAM_TENSOR || !pack_is_given(q))
			continue;
		text_printf(out, "\tconst at::Tensor tgp_in_%d = %s%s;\n", i,
		    pack_c_name(k, q->name, p->cx->mem),
		    q->access != ACCESS_IN ? ""
		    : q->strided           ? ".resolve_neg()"
					   : ".resolve_neg().contiguous()");
		if (!q->strided || !dtype_is_packed(pack_dtype(pk, i)))
			continue;
		text_printf(out, "\tconst int64_t tgp_strides_%d[] = {", i);
		for (int d = 0; d < q->rank - 1; d++)
			text_printf(out, "2 * tgp_in_%d.stride(%d), ", i, d);
		text_printf(out,
		    "1};\n\tcheck_extent(\"%s: the stride of packed %s is \", "
		    "tgp_in_%d.stride(%d), 1);\n",
		    pk->function, q->name, i, q->rank - 1);
	}
}

/* PyTorch's type of a float below f32, whose bits a function of a pack takes. */
static const char *
narrow_type(DType t)
{
	return t == TY_F16      ? "Half"
	       : t == TY_BF16   ? "BFloat16"
	       : t == TY_F8E4M3 ? "Float8_e4m3fn"
				: "Float8_e5m2";
}

static void
put_argument(const PackKernel *pk, int i, const char *name, Text *out)
{
	const KernelParam *q = &pk->k->params.at[i];
	DType t = pack_dtype(pk, i);
	if (q->kind == PARAM_SCALAR && dtype_is_float(t) && dtype_info[t].bits < 32)
		text_printf(out, ", bits_of<at::%s>(%s)", narrow_type(t), name);
	else if (q->kind == PARAM_SCALAR)
		text_printf(out, ", (%s)%s", pack_c_type(t), name);
	else if (pack_is_output(q))
		text_printf(out, ", (%s *)%s.data_ptr()", pack_c_type(t), name);
	else
		text_printf(out, ", (%s%s *)tgp_in_%d.%sdata_ptr()",
		    q->access == ACCESS_IN ? "const " : "", pack_c_type(t), i,
		    q->access == ACCESS_IN ? "const_" : "");
	if (q->strided && pack_is_output(q))
		text_put(out, ", nullptr");
	else if (q->strided)
		text_printf(out,
		    dtype_is_packed(t) ? ", tgp_strides_%d" : ", tgp_in_%d.strides().data()", i);
}

/* What the pack's function is given; the version of what it changed grows, as autograd may have
 * kept the tensor. */
static void
put_call(const Pack *p, const PackKernel *pk, Text *out)
{
	const Kernel *k = pk->k;
	put_inputs(p, pk, out);
	text_printf(out,
	    "\tTgpContext *const tgp_cx = opened(tgp_host);\n\tTORCH_CHECK(::%s(tgp_cx, tgp_stream",
	    pk->function);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind != PARAM_TENSOR ||
		    k->params.at[i].access != ACCESS_SCRATCH)
			put_argument(pk, i, pack_c_name(k, k->params.at[i].name, p->cx->mem), out);
	for (int s = 0; s < k->symbols.n; s++)
		text_printf(out, ", tgp_d[%d].expect_int()", s);
	text_printf(out, ") == TGP_OK, %s_error(tgp_cx));\n", p->name);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_TENSOR && k->params.at[i].access == ACCESS_INOUT)
			text_printf(out, "\ttgp_in_%d.unsafeGetTensorImpl()->bump_version();\n", i);
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
			if (k->params.at[i].kind == PARAM_TENSOR &&
			    pack_is_given(&k->params.at[i])) {
				const char *x = pack_c_name(k, k->params.at[i].name, p->cx->mem);
				text_printf(out,
				    "\tc10::DeviceGuard tgp_guard(%s.device());\n\tvoid *const "
				    "tgp_stream = stream_of(%s);\n"
				    "\tconst bool tgp_host = false;\n",
				    x, x);
				break;
			}
		if (w == 1)
			text_put(out,
			    "\tvoid *const tgp_stream = nullptr;\n\tconst bool tgp_host = true;\n");
		for (int i = 0; w == 2 && i < k->params.n; i++)
			if (k->params.at[i].kind == PARAM_SCALAR)
				text_printf(out, "\t(void)%s;\n",
				    pack_c_name(k, k->params.at[i].name, p->cx->mem));
		pack_torch_put_shapes(p, pk, out);
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
	static const char *const keys[] = {"CUDA", "CPU", "Meta"}, *const names[] = {
								       "cuda", "cpu", "meta"};
	text_printf(out, "} // namespace\n\nTORCH_LIBRARY_FRAGMENT(%s, m)\n{\n", p->name);
	for (int i = 0; i < p->kernels.n; i++) {
		if (pack_torch_lacks(p, p->kernels.at[i]))
			continue;
		text_put(out, "\tm.def(\"");
		put_schema(p, p->kernels.at[i], out);
		text_put(out, "\", {at::Tag::pt2_compliant_tag});\n");
	}
	text_put(out, "}\n");
	for (int w = 0; w < LEN(keys); w++) {
		if (w == 1 && !p->has_host)
			continue;
		text_printf(out, "\nTORCH_LIBRARY_IMPL(%s, %s, m)\n{\n", p->name, keys[w]);
		for (int i = 0; i < p->kernels.n; i++)
			if (!pack_torch_lacks(p, p->kernels.at[i]))
				text_printf(out, "\tm.impl(\"%s\", %s_%s);\n",
				    operator_of(p, p->kernels.at[i]), names[w],
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
	    "#include <ATen/ATen.h>\n#include <c10/core/GradMode.h>\n#include "
	    "<torch/library.h>\n#include <string>\n\n"
	    "#include \"%s.c\"\n\nnamespace {\n\n",
	    p->name);
	text_put(out, pack_text_torch);
	text_put(out,
	    "\n/* Opened once in a process, and never closed: operators are there as long. */\n"
	    "inline TgpContext *\nopened(bool is_host)\n{\n");
	if (p->has_host)
		text_printf(out,
		    "\tstatic TgpContext *const host = %s_open_cpu();\n\tif (is_host)\n\t\treturn "
		    "host;\n",
		    p->name);
	text_printf(out,
	    "\tstatic TgpContext *const cx = %s_open();\n\t(void)is_host;\n\treturn cx;\n}\n\n",
	    p->name);
	for (int i = 0; i < p->kernels.n; i++) {
		const char *why = pack_torch_lacks(p, p->kernels.at[i]);
		if (why)
			text_printf(out, "/* There is no operator %s: %s. */\n\n",
			    p->kernels.at[i]->function, why);
		else
			put_operator(p, p->kernels.at[i], out);
	}
	put_registrations(p, out);
}
