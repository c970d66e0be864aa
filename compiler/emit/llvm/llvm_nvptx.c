/* What is NVIDIA's: kernels, primitives, PTX of the source's own, printf; the other nodes go to llvm_nvptx_memory.c and
 * llvm_matrix.c. */
#include "emit/llvm/llvm.h"

#include <stdlib.h>
#include <string.h>

enum { PTX_KERNEL = 71 }; /* calling convention */

static void
text_attribute(EmitLlvm *l, const char *name, const char *value)
{
	LLVMAttributeRef a = LLVMCreateStringAttribute(
	    l->cx, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
	LLVMAddAttributeAtIndex(l->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void
param_attribute(EmitLlvm *l, int param, const char *name, uint64_t value)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
	LLVMAddAttributeAtIndex(
	    l->fn, (LLVMAttributeIndex)(param + 1), LLVMCreateEnumAttribute(l->cx, kind, value));
}

/* A tensor map is passed by value and never written: without grid_constant LLVM copies it to local memory. */
static void
describe_map(EmitLlvm *l, int i)
{
	unsigned kind = LLVMGetEnumAttributeKindForName("byval", 5);
	LLVMTypeRef bytes = LLVMArrayType2(l->type[REG_I8], 128);
	LLVMAttributeRef constant = LLVMCreateStringAttribute(l->cx, "nvvm.grid_constant", 18, "", 0);
	LLVMAddAttributeAtIndex(l->fn, (LLVMAttributeIndex)(i + 1), LLVMCreateTypeAttribute(l->cx, kind, bytes));
	LLVMAddAttributeAtIndex(l->fn, (LLVMAttributeIndex)(i + 1), constant);
	param_attribute(l, i, "align", 64);
}

/* Primitives take its generic address. */
static LLVMValueRef
map_address(EmitLlvm *l, LLVMValueRef v)
{
	return LLVMBuildIntToPtr(l->b, LLVMBuildPtrToInt(l->b, v, l->type[REG_I64], ""), l->type[REG_GLOBAL], "");
}

/* LLVM makes read-only loads of all that is behind a pointer without alias that nothing is stored through; where there must
 * be none (llvm_nvptx_memory.c), those that are stored through are said to have none, which tells as much. */
static void
describe_param(EmitLlvm *l, int i, const ThreadParam *p)
{
	if (p->is_map) {
		describe_map(l, i);
		return;
	}
	if (p->type != REG_GLOBAL)
		return;
	bool is_read_only = p->is_read_only && !(l->target->has & HAS_GRID_WAIT);
	if (!p->is_aliased && p->is_read_only == is_read_only)
		param_attribute(l, i, "noalias", 0);
	if (is_read_only)
		param_attribute(l, i, "readonly", 0);
	if (p->align > 1)
		param_attribute(l, i, "align", (uint64_t)p->align);
}

/* A kernel may be called what PTX or its printf is called. */
static const char *
kernel_name(EmitLlvm *l, const char *name)
{
	bool is_taken = strcmp(name, "WARP_SZ") == 0 || strcmp(name, "vprintf") == 0;
	return is_taken ? arena_printf(l->mem, "%s_", name) : name;
}

static LLVMValueRef
shared_memory(EmitLlvm *l, const ThreadKernel *k)
{
	if (k->shared_bytes == 0)
		return llvm_i32(l, 0);
	LLVMTypeRef bytes = LLVMArrayType2(l->type[REG_I8], 0);
	LLVMValueRef shared = LLVMAddGlobalInAddressSpace(l->m, bytes, "shared", 3);
	LLVMSetLinkage(shared, LLVMExternalLinkage);
	LLVMSetAlignment(shared, (unsigned)MAX(k->shared_align, 16));
	return LLVMConstPtrToInt(shared, l->type[REG_I32]);
}

void
llvm_nvptx_kernel(EmitLlvm *l, const ThreadKernel *k)
{
	l->kernel = kernel_name(l, k->name);
	LLVMTypeRef *types = MAP_OF(l->mem, LLVMTypeRef, i, k->nparam,
	    k->param[i].is_map ? l->generic : l->type[k->param[i].type]);
	l->fn = LLVMAddFunction(
	    l->m, l->kernel, LLVMFunctionType(l->none, types, (unsigned)k->nparam, false));
	LLVMSetFunctionCallConv(l->fn, PTX_KERNEL);
	text_attribute(l, "nvvm.reqntid", arena_printf(l->mem, "%d", k->threads));
	if (k->min_blocks)
		text_attribute(l, "nvvm.minctasm", arena_printf(l->mem, "%d", k->min_blocks));
	if (k->cluster)
		text_attribute(l, "nvvm.cluster_dim", arena_printf(l->mem, "%d", k->cluster));
	LLVMPositionBuilderAtEnd(l->b, llvm_block(l, "entry"));
	for (int i = 0; i < k->nparam; i++) {
		LLVMValueRef v = LLVMGetParam(l->fn, (unsigned)i);
		describe_param(l, i, &k->param[i]);
		LLVMSetValueName2(v, k->param[i].name, strlen(k->param[i].name));
		l->value[l->thread->body->arg[i]] = k->param[i].is_map ? map_address(l, v) : v;
	}
	l->value[l->thread->shared] = shared_memory(l, k);
}

/* primitives */

static LLVMTypeRef
param_type(LLVMTypeRef fn, int i)
{
	LLVMTypeRef types[8];
	if (LLVMCountParamTypes(fn) > LEN(types))
		die("an intrinsic with more than %d operands", LEN(types));
	LLVMGetParamTypes(fn, types);
	return types[i];
}

/* "llvm.nvvm.shfl.sync.idx.i32 -1, %0, %1, 31" */
static void
prim_intrinsic(EmitLlvm *l, const char *text, const ThreadNode *of, const LLVMValueRef *in, LLVMValueRef *out)
{
	LLVMValueRef arg[8];
	size_t length = strcspn(text, " ");
	unsigned id = LLVMLookupIntrinsicID(text, length);
	if (id == 0)
		die("LLVM has no intrinsic '%.*s'", (int)length, text);
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, NULL, 0);
	LLVMTypeRef type = LLVMGlobalGetValueType(f);
	int n = 0;
	for (const char *s = text + length; *s; n++) {
		s += strspn(s, " ,");
		char *end, mark = *s;
		long v = strtol(mark == '%' || mark == '$' ? s + 1 : s, &end, 10);
		if (end == s || (mark == '%' && v >= of->nin) || (mark == '$' && v >= of->nimm))
			die("'%s': no such operand or immediate", text);
		if (mark == '%')
			arg[n] = in[v];
		else
			arg[n] = LLVMConstInt(
			    param_type(type, n), (uint64_t)(mark == '$' ? of->imm[v] : v), true);
		s = end;
	}
	LLVMValueRef v = LLVMBuildCall2(l->b, type, f, arg, (unsigned)n, "");
	for (int i = 0; i < of->nout; i++)
		out[i] = of->nout == 1 ? v : LLVMBuildExtractValue(l->b, v, (unsigned)i, "");
}

/* An operand that stands as "[%N]" in a row's text and is a sum with a constant: what it is added to, and the constant. */
static LLVMValueRef
address_apart(EmitLlvm *l, const char *text, int operand, LLVMValueRef v, int64_t *constant)
{
	char place[16];
	snprintf(place, sizeof place, "[%%%d]", operand);
	*constant = 0;
	if (LLVMTypeOf(v) != l->type[REG_SHARED] || !strstr(text, place) || !LLVMIsAInstruction(v) ||
	    LLVMGetInstructionOpcode(v) != LLVMAdd || !LLVMIsAConstantInt(LLVMGetOperand(v, 1)))
		return v;
	*constant = LLVMConstIntGetSExtValue(LLVMGetOperand(v, 1));
	return LLVMGetOperand(v, 0);
}

/* %rN, %qN, %N and $N of a row become LLVM's $N. */
static void
prim_text(EmitLlvm *l, const PrimInfo *info, const ThreadNode *of, const LLVMValueRef *in, LLVMValueRef *out)
{
	LlvmAsm a = {.l = l};
	int64_t more[16] = {0};
	for (int i = 0; i < of->nout; i++)
		llvm_asm_result(&a, llvm_reg_type(l, of->out[i]));
	for (int i = 0; i < of->nin; i++)
		llvm_asm_in(&a, address_apart(l, info->ptx, i, in[i], &more[i]), llvm_reg_type(l, of->in[i]));
	for (const char *s = info->ptx; *s; s++) {
		bool is_result =
		    s[0] == '%' && (s[1] == 'r' || s[1] == 'q') && char_is_digit(s[2]);
		int n = is_result ? s[2] - '0' : atoi(s + 1);
		if (is_result) {
			text_printf(&a.text, "$%d", n);
			s += 2;
		} else if (s[0] == '%' && char_is_digit(s[1])) {
			text_printf(&a.text, "$%d", info->nout + n);
			if (more[n])
				text_printf(&a.text, "+%lld", (long long)more[n]);
			s += n > 9 ? 2 : 1;
		} else if (s[0] == '$') {
			if (n >= of->nimm)
				die("%s: an immediate is missing", info->text);
			text_printf(&a.text, "%lld", (long long)of->imm[n]);
			s++;
		} else {
			text_putn(&a.text, s, 1);
		}
	}
	unsigned flags =
	    (info->flags & MEM ? ASM_MEMORY : 0) | (info->flags & CONV ? ASM_CONVERGENT : 0);
	llvm_asm_make(&a, flags, out);
}

static void
prim(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const PrimInfo *info = &prim_info[n->op];
	if (strncmp(info->ptx, "llvm.", 5) == 0)
		prim_intrinsic(l, info->ptx, n, in, out);
	else
		prim_text(l, info, n, in, out);
}

/* The source's own line: $N stands, every other dollar is doubled. */
static void
inline_ptx(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	LlvmAsm a = {.l = l};
	for (int i = 0; i < n->nout; i++)
		llvm_asm_result(&a, llvm_reg_type(l, n->out[i]));
	for (int i = 0; i < n->nin; i++)
		llvm_asm_in(&a, in[i], llvm_reg_type(l, n->in[i]));
	for (const char *s = n->text; *s; s++) {
		bool is_operand = s[0] == '$' && char_is_digit(s[1]) && atoi(s + 1) < n->nin + n->nout;
		text_put(&a.text, s[0] == '$' && !is_operand ? "$" : "");
		text_putn(&a.text, s, 1);
	}
	llvm_asm_make(&a, ASM_MEMORY | ASM_CONVERGENT, out);
}

/* A string of the module's own, as a generic address. */
static LLVMValueRef
text_address(EmitLlvm *l, const char *name, const char *text)
{
	LLVMValueRef string = LLVMConstStringInContext2(l->cx, text, strlen(text), false);
	return LLVMBuildAddrSpaceCast(l->b, llvm_constant(l, string, name), l->generic, "");
}

static LLVMValueRef
printed(EmitLlvm *l, LLVMValueRef v)
{
	if (LLVMTypeOf(v) != l->type[REG_PRED])
		return v;
	LLVMValueRef yes = text_address(l, "true", "true"), no = text_address(l, "false", "false");
	return LLVMBuildSelect(l->b, v, yes, no, "");
}

/* printf's values stand in a struct of their own, each aligned to itself. */
static void
print_some(EmitLlvm *l, const char *format, const LLVMValueRef *v, int n)
{
	LLVMTypeRef *field = NEW_ARRAY(l->mem, LLVMTypeRef, n), in[2] = {l->generic, l->generic};
	LLVMTypeRef type = LLVMFunctionType(l->type[REG_I32], in, 2, false);
	LLVMValueRef f = LLVMGetNamedFunction(l->m, "vprintf"),
		     arg[2] = {0, LLVMConstNull(l->generic)};
	if (!f)
		f = LLVMAddFunction(l->m, "vprintf", type);
	for (int i = 0; i < n; i++)
		field[i] = LLVMTypeOf(v[i]) == l->type[REG_PRED] ? l->generic : LLVMTypeOf(v[i]);
	if (n > 0) {
		LLVMTypeRef all = LLVMStructTypeInContext(l->cx, field, (unsigned)n, false);
		LLVMBasicBlockRef at = LLVMGetInsertBlock(l->b),
				  entry = LLVMGetEntryBasicBlock(l->fn);
		LLVMValueRef first = LLVMGetFirstInstruction(entry);
		if (first)
			LLVMPositionBuilderBefore(l->b, first);
		LLVMValueRef room = LLVMBuildAlloca(l->b, all, "");
		LLVMPositionBuilderAtEnd(l->b, at);
		for (int i = 0; i < n; i++)
			LLVMBuildStore(l->b, printed(l, v[i]),
			    LLVMBuildStructGEP2(l->b, all, room, (unsigned)i, ""));
		arg[1] = LLVMBuildAddrSpaceCast(l->b, room, l->generic, "");
	}
	arg[0] = text_address(l, "format", format);
	LLVMBuildCall2(l->b, type, f, arg, 2, "");
}

/* Where the n-th value of a format, from 0, begins. */
static const char *
value_at(const char *s, int n)
{
	for (; *s; s++) {
		if (*s != '%')
			continue;
		if (s[1] == '%')
			s++;
		else if (n-- == 0)
			break;
	}
	return s;
}

/* The device's printf takes so many values at once: a longer line is printed in parts. */
static void
print(EmitLlvm *l, const char *format, const LLVMValueRef *v, int n)
{
	enum { VALUES_MOST = 32 };
	for (; n > VALUES_MOST; n -= VALUES_MOST, v += VALUES_MOST) {
		const char *end = value_at(format, VALUES_MOST);
		print_some(l, arena_printf(l->mem, "%.*s", (int)(end - format), format), v, VALUES_MOST);
		format = end;
	}
	print_some(l, format, v, n);
}

void
llvm_nvptx_node(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	switch (n->kind) {
	case NODE_PRIM: prim(l, n, in, out); break;
	case NODE_MMA: llvm_nvptx_mma(l, n->mma, in, out); break;
	case NODE_WGMMA: llvm_nvptx_wgmma(l, &n, 1, out); break;
	case NODE_SETTLE: llvm_nvptx_settle(l, n, in, out); break;
	case NODE_PTX: inline_ptx(l, n, in, out); break;
	case NODE_PRINT: print(l, n->text, in, n->nin); break;
	default: unreachable();
	}
}

/* ptxas 13.0 unrolls loops of few trips, also those with wgmma, whose copies all write the same registers.  Of two 16-bit
 * numbers that an earlier trip made of them it takes the upper one anew, of what a later trip left there: every second
 * column had the tile of another trip (H200).  In a loop that stays one it does not. */
void
llvm_nvptx_stays_loop(EmitLlvm *l, LLVMValueRef back)
{
	static const char loop[] = "llvm.loop", stays[] = "llvm.loop.unroll.disable";
	LLVMMetadataRef word = LLVMMDStringInContext2(l->cx, stays, sizeof stays - 1);
	LLVMMetadataRef part[] = {LLVMTemporaryMDNode(l->cx, NULL, 0), LLVMMDNodeInContext2(l->cx, &word, 1)};
	LLVMMetadataRef node = LLVMMDNodeInContext2(l->cx, part, 2);
	LLVMMetadataReplaceAllUsesWith(part[0], node);  /* LLVM wants that it begins with itself */
	LLVMSetMetadata(back, LLVMGetMDKindIDInContext(l->cx, loop, sizeof loop - 1), LLVMMetadataAsValue(l->cx, node));
}
