/* What is NVIDIA's: kernels, primitives, PTX of the source's own, matrix instructions, printf. */
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

/* LLVM makes read-only loads of all that is behind a pointer without alias that nothing is stored through; where there must
 * be none (llvm_memory.c), those that are stored through are said to have none, which tells as much. */
static void
describe_param(EmitLlvm *l, int i, const EmitParam *p)
{
	if (p->type != REG_GLOBAL)
		return;
	bool is_read_only = p->is_read_only && !(l->e.target->has & HAS_GRID_WAIT);
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
	return is_taken ? arena_printf(l->e.mem, "%s_", name) : name;
}

static void
shared_memory(EmitLlvm *l, const EmitKernel *k, Reg *shared)
{
	if (k->shared_bytes == 0) {
		*shared = llvm_add(l, REG_SHARED, llvm_i32(l, 0));
		return;
	}
	LLVMTypeRef bytes = LLVMArrayType2(l->type[REG_I8], 0);
	l->shared = LLVMAddGlobalInAddressSpace(l->m, bytes, "shared", 3);
	LLVMSetLinkage(l->shared, LLVMExternalLinkage);
	LLVMSetAlignment(l->shared, (unsigned)MAX(k->shared_align, 16));
	*shared = llvm_add(l, REG_SHARED, LLVMConstPtrToInt(l->shared, l->type[REG_I32]));
}

static void
kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	EmitLlvm *l = llvm_state(e);
	LLVMTypeRef *types = NEW_ARRAY(e->mem, LLVMTypeRef, k->nparam);
	e->kernel = *k;
	l->kernel = e->kernel.name = kernel_name(l, k->name);
	for (int i = 0; i < k->nparam; i++)
		types[i] = l->type[k->param[i].type];
	l->fn = LLVMAddFunction(
	    l->m, l->kernel, LLVMFunctionType(l->none, types, (unsigned)k->nparam, false));
	LLVMSetFunctionCallConv(l->fn, PTX_KERNEL);
	text_attribute(l, "nvvm.reqntid", arena_printf(e->mem, "%d", k->threads));
	if (k->min_blocks)
		text_attribute(l, "nvvm.minctasm", arena_printf(e->mem, "%d", k->min_blocks));
	LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->cx, l->fn, "entry"));
	for (int i = 0; i < k->nparam; i++) {
		LLVMValueRef v = LLVMGetParam(l->fn, (unsigned)i);
		describe_param(l, i, &k->param[i]);
		LLVMSetValueName2(v, k->param[i].name, strlen(k->param[i].name));
		param[i] = llvm_add(l, k->param[i].type, v);
	}
	shared_memory(l, k, shared);
}

static void
kernel_end(Emitter *e)
{
	EmitLlvm *l = llvm_state(e);
	if (l->region.n)
		die("the kernel ends inside a region");
	LLVMBuildRetVoid(l->b);
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
static LLVMValueRef
prim_intrinsic(EmitLlvm *l, const char *text, const Reg *in, int nin, const int64_t *imm, int nimm)
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
		if (end == s || (mark == '%' && v >= nin) || (mark == '$' && v >= nimm))
			die("'%s': no such operand or immediate", text);
		if (mark == '%')
			arg[n] = llvm_value(l, in[v]);
		else
			arg[n] = LLVMConstInt(
			    param_type(type, n), (uint64_t)(mark == '$' ? imm[v] : v), true);
		s = end;
	}
	return LLVMBuildCall2(l->b, type, f, arg, (unsigned)n, "");
}

static void
prim_results(EmitLlvm *l, LLVMValueRef call, Reg *out, int nout)
{
	for (int i = 0; i < nout; i++) {
		LLVMValueRef v =
		    nout == 1 ? call : LLVMBuildExtractValue(l->b, call, (unsigned)i, "");
		out[i] = llvm_add(l, LLVMTypeOf(v) == l->type[REG_PRED] ? REG_PRED : REG_I32, v);
	}
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
prim_text(EmitLlvm *l, const PrimInfo *info, const Reg *in, const int64_t *imm, int nimm, Reg *out)
{
	LlvmAsm a = {.l = l};
	Text t = {0};
	RegType type[8];
	LLVMValueRef v[8];
	for (int i = 0; i < info->nout; i++) {
		type[i] =
		    strstr(info->ptx, (char[]){'%', 'q', (char)('0' + i), 0}) ? REG_PRED : REG_I32;
		llvm_asm_result(&a, type[i]);
	}
	int64_t more[10] = {0};
	for (int i = 0; i < info->nin; i++) {
		LLVMValueRef from = address_apart(l, info->ptx, i, llvm_value(l, in[i]), &more[i]);
		llvm_asm_in(&a, from, llvm_reg_type(l, in[i]));
	}
	for (const char *s = info->ptx; *s; s++) {
		bool is_result =
		    s[0] == '%' && (s[1] == 'r' || s[1] == 'q') && char_is_digit(s[2]);
		int n = is_result ? s[2] - '0' : s[1] - '0';
		if (is_result) {
			text_printf(&t, "$%d", n);
			s += 2;
		} else if (s[0] == '%' && char_is_digit(s[1])) {
			text_printf(&t, "$%d", info->nout + n);
			if (more[n])
				text_printf(&t, "+%lld", (long long)more[n]);
			s++;
		} else if (s[0] == '$') {
			if (n >= nimm)
				die("%s: an immediate is missing", info->text);
			text_printf(&t, "%lld", (long long)imm[n]);
			s++;
		} else {
			text_putn(&t, s, 1);
		}
	}
	unsigned flags =
	    (info->flags & MEM ? ASM_MEMORY : 0) | (info->flags & CONV ? ASM_CONVERGENT : 0);
	llvm_asm_make(&a, t.at, flags, type, v);
	for (int i = 0; i < info->nout; i++)
		out[i] = llvm_add(l, type[i], v[i]);
	text_close(&t);
}

static void
prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out,
    int nout)
{
	EmitLlvm *l = llvm_state(e);
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout,
		    nin, nout);
	if (info->needs & ~e->target->has)
		die("%s: %s has it not", info->text, e->target->name);
	if (strncmp(info->ptx, "llvm.", 5) == 0)
		prim_results(l, prim_intrinsic(l, info->ptx, in, nin, imm, nimm), out, nout);
	else
		prim_text(l, info, in, imm, nimm, out);
}

/* The source's own line: $N stands, every other dollar is doubled. */
static void
inline_ptx(
    Emitter *e, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	EmitLlvm *l = llvm_state(e);
	LlvmAsm a = {.l = l};
	Text t = {0};
	LLVMValueRef *v = NEW_ARRAY(e->mem, LLVMValueRef, nout);
	for (int i = 0; i < nout; i++)
		llvm_asm_result(&a, type[i]);
	for (int i = 0; i < nin; i++)
		llvm_asm_in(&a, llvm_value(l, in[i]), llvm_reg_type(l, in[i]));
	for (const char *s = text; *s; s++) {
		bool is_operand =
		    s[0] == '$' && char_is_digit(s[1]) && atoi(s + 1) < nin + nout;
		text_put(&t, s[0] == '$' && !is_operand ? "$" : "");
		text_putn(&t, s, 1);
	}
	llvm_asm_make(&a, t.at ? t.at : "", ASM_MEMORY | ASM_CONVERGENT, type, v);
	for (int i = 0; i < nout; i++)
		out[i] = llvm_add(l, type[i], v[i]);
	text_close(&t);
}

/* A string of the module's own, as a generic address. */
static LLVMValueRef
text_address(EmitLlvm *l, const char *name, const char *text)
{
	LLVMValueRef string = LLVMConstStringInContext2(l->cx, text, strlen(text), false);
	return LLVMBuildAddrSpaceCast(l->b, llvm_constant(l, string, name), l->generic, "");
}

static LLVMValueRef
printed(EmitLlvm *l, Reg v)
{
	if (llvm_reg_type(l, v) != REG_PRED)
		return llvm_value(l, v);
	LLVMValueRef yes = text_address(l, "true", "true"), no = text_address(l, "false", "false");
	return LLVMBuildSelect(l->b, llvm_value(l, v), yes, no, "");
}

/* printf's values stand in a struct of their own, each aligned to itself. */
static void
print_some(Emitter *e, const char *format, const Reg *v, int n)
{
	EmitLlvm *l = llvm_state(e);
	LLVMTypeRef *field = NEW_ARRAY(e->mem, LLVMTypeRef, n), in[2] = {l->generic, l->generic};
	LLVMTypeRef type = LLVMFunctionType(l->type[REG_I32], in, 2, false);
	LLVMValueRef f = LLVMGetNamedFunction(l->m, "vprintf"),
		     arg[2] = {0, LLVMConstNull(l->generic)};
	if (!f)
		f = LLVMAddFunction(l->m, "vprintf", type);
	for (int i = 0; i < n; i++)
		field[i] = llvm_reg_type(l, v[i]) == REG_PRED ? l->generic : l->type[llvm_reg_type(l, v[i])];
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
print(Emitter *e, const char *format, const Reg *v, int n)
{
	enum { VALUES_MOST = 32 };
	for (; n > VALUES_MOST; n -= VALUES_MOST, v += VALUES_MOST) {
		const char *end = value_at(format, VALUES_MOST);
		print_some(e, arena_printf(e->mem, "%.*s", (int)(end - format), format), v, VALUES_MOST);
		format = end;
	}
	print_some(e, format, v, n);
}

void
llvm_nvptx_open(EmitLlvm *l)
{
	Emitter *e = &l->e;
	e->kernel_begin = kernel_begin;
	e->kernel_end = kernel_end;
	e->prim = prim;
	e->inline_ptx = inline_ptx;
	e->print = print;
}
