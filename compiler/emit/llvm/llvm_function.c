/* Functions beside the kernel, for what is rarely wanted and long: each is made once and called.  Nothing in them touches
 * memory or other threads, and they stand at no line of the source. */
#include "emit/llvm/llvm.h"

#include <string.h>

static LLVMTypeRef
result_type(EmitLlvm *l, const RegType *type, int n)
{
	LLVMTypeRef *each = NEW_ARRAY(l->e.mem, LLVMTypeRef, n);
	for (int i = 0; i < n; i++)
		each[i] = l->type[type[i]];
	return n == 1 ? each[0] : LLVMStructTypeInContext(l->cx, each, (unsigned)n, false);
}

static bool
call(Emitter *e, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef *arg = NEW_ARRAY(e->mem, LLVMValueRef, nin), fn = NULL;
	for (int i = 0; i < l->functions.n && !fn; i++)
		fn = strcmp(l->functions.at[i].name, name) == 0 ? l->functions.at[i].fn : NULL;
	if (!fn)
		return false;
	for (int i = 0; i < nin; i++)
		arg[i] = llvm_value(l, in[i]);
	LLVMValueRef v = LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, arg, (unsigned)nin, "");
	for (int i = 0; i < nout; i++)
		out[i] = llvm_add(l, type[i], nout == 1 ? v : LLVMBuildExtractValue(l->b, v, (unsigned)i, ""));
	return true;
}

static void
describe(EmitLlvm *l, LLVMValueRef fn)
{
	static const char *const word[] = {"nounwind", "willreturn", "memory", "noinline", "cold"}; /* memory 0: none */
	for (int i = 0; i < LEN(word); i++) {
		unsigned kind = LLVMGetEnumAttributeKindForName(word[i], strlen(word[i]));
		LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
		    LLVMCreateEnumAttribute(l->cx, kind, 0));
	}
}

static void
function_begin(Emitter *e, const EmitFunction *f, Reg *inside)
{
	EmitLlvm *l = llvm_state(e);
	LLVMTypeRef *param = NEW_ARRAY(e->mem, LLVMTypeRef, f->nparam);
	for (int i = 0; i < f->nparam; i++)
		param[i] = l->type[f->param[i]];
	LLVMTypeRef type = LLVMFunctionType(result_type(l, f->result, f->nresult), param, (unsigned)f->nparam, false);
	LLVMValueRef fn = LLVMAddFunction(l->m, f->name, type);
	LLVMSetLinkage(fn, LLVMInternalLinkage);
	describe(l, fn);
	l->outside = (LlvmOutside){l->fn, LLVMGetInsertBlock(l->b), LLVMGetCurrentDebugLocation2(l->b)};
	l->fn = fn;
	LLVMSetCurrentDebugLocation2(l->b, NULL);
	LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->cx, fn, "entry"));
	for (int i = 0; i < f->nparam; i++)
		inside[i] = llvm_add(l, f->param[i], LLVMGetParam(fn, (unsigned)i));
	vec_push(e->mem, &l->functions, ((LlvmFunction){f->name, fn}));
}

static void
function_end(Emitter *e, const Reg *result, int n)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef *v = NEW_ARRAY(e->mem, LLVMValueRef, n);
	for (int i = 0; i < n; i++)
		v[i] = llvm_value(l, result[i]);
	if (n == 1)
		LLVMBuildRet(l->b, v[0]);
	else
		LLVMBuildAggregateRet(l->b, v, (unsigned)n);
	l->fn = l->outside.fn;
	LLVMPositionBuilderAtEnd(l->b, l->outside.block);
	LLVMSetCurrentDebugLocation2(l->b, l->outside.line);
}

void
llvm_function_open(EmitLlvm *l)
{
	l->e.call = call;
	l->e.function_begin = function_begin;
	l->e.function_end = function_end;
}
