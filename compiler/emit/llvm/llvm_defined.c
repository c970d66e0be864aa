/* That no code is made which uses a register that nothing gave a value.
 *
 * What is not defined can come into a module in three ways: as LLVM's `undef` or `poison`, which the files beside this
 * one write only to begin vectors that they then fill; as what LLVM's builder makes of an operation on constants that
 * has no result; and as such an operation itself, a shift by the width or more, a division by 0, an element past a
 * vector's end.  One walk over the module before its passes looks for all of them.  What waits for its value at run time
 * (accumulators under way) is the emulator's to find. */
#include "emit/llvm/llvm.h"

static bool
is_nothing(LLVMValueRef v)
{
	return LLVMIsUndef(v) || LLVMIsPoison(v);
}

/* A constant of which a part is nothing. */
static bool
has_holes(LLVMValueRef v)
{
	LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(v));
	if (!LLVMIsConstant(v))
		return false;
	if (is_nothing(v))
		return true;
	unsigned n = kind == LLVMVectorTypeKind ? LLVMGetVectorSize(LLVMTypeOf(v)) : 0;
	for (unsigned i = 0; i < n; i++) {
		LLVMValueRef element = LLVMGetAggregateElement(v, i);
		if (element && is_nothing(element))
			return true;
	}
	return false;
}

/* Elements of a vector that were put in, as bits; what is not begun with nothing has all. */
static uint64_t
filled(LLVMValueRef v)
{
	uint64_t all = 0;
	unsigned n = LLVMGetVectorSize(LLVMTypeOf(v));
	while (LLVMIsAInsertElementInst(v)) {
		LLVMValueRef at = LLVMGetOperand(v, 2);
		if (!LLVMIsAConstantInt(at))
			return UINT64_MAX;
		all |= UINT64_C(1) << (LLVMConstIntGetZExtValue(at) & 63);
		v = LLVMGetOperand(v, 0);
	}
	for (unsigned i = 0; i < n && i < 64; i++) {
		LLVMValueRef element = LLVMIsConstant(v) ? LLVMGetAggregateElement(v, i) : v;
		if (!element || !is_nothing(element))
			all |= UINT64_C(1) << i;
	}
	return all;
}

static bool
is_whole(LLVMValueRef vector)
{
	unsigned n = LLVMGetVectorSize(LLVMTypeOf(vector));
	uint64_t all = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
	return (filled(vector) & all) == all;
}

/* Is v used but for being filled further? */
static bool
is_taken(LLVMValueRef v)
{
	for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u)) {
		LLVMValueRef user = LLVMGetUser(u);
		if (!LLVMIsAInsertElementInst(user) || LLVMGetOperand(user, 0) != v || LLVMGetOperand(user, 1) == v)
			return true;
	}
	return false;
}

static bool
is_constant(LLVMValueRef v, uint64_t *out)
{
	if (!LLVMIsAConstantInt(v))
		return false;
	*out = LLVMConstIntGetZExtValue(v);
	return true;
}

/* An operation without a result. */
static bool
has_no_result(LLVMValueRef i)
{
	uint64_t by;
	LLVMTypeRef type = LLVMTypeOf(i);
	switch (LLVMGetInstructionOpcode(i)) {
	case LLVMShl: case LLVMLShr: case LLVMAShr:
		return LLVMGetTypeKind(type) == LLVMIntegerTypeKind && is_constant(LLVMGetOperand(i, 1), &by) &&
		    by >= LLVMGetIntTypeWidth(type);
	case LLVMUDiv: case LLVMSDiv: case LLVMURem: case LLVMSRem:
		return is_constant(LLVMGetOperand(i, 1), &by) && by == 0;
	case LLVMExtractElement:
		return is_constant(LLVMGetOperand(i, 1), &by) &&
		    by >= LLVMGetVectorSize(LLVMTypeOf(LLVMGetOperand(i, 0)));
	case LLVMInsertElement:
		return (is_constant(LLVMGetOperand(i, 2), &by) && by >= LLVMGetVectorSize(type)) ||
		    (is_taken(i) && !is_whole(i));
	default: return false;
	}
}

/* It could as well not be there. */
static bool
is_idle(LLVMValueRef i)
{
	LLVMOpcode op = LLVMGetInstructionOpcode(i);
	bool acts = op == LLVMCall || op == LLVMAtomicRMW || op == LLVMAtomicCmpXchg || op == LLVMLoad;
	return !acts && !LLVMGetFirstUse(i) && LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind;
}

/* The operand that is nothing, or the instruction itself if it has no result; NULL: it is well. */
static LLVMValueRef
fault_of(LLVMValueRef i)
{
	bool fills = LLVMIsAInsertElementInst(i) || LLVMIsAInsertValueInst(i), joins = LLVMIsAPHINode(i) != NULL;
	if (is_idle(i))
		return NULL;
	int n = joins ? (int)LLVMCountIncoming(i) : LLVMGetNumOperands(i);
	for (int k = fills ? 1 : 0; k < n; k++) {
		LLVMValueRef v = joins ? LLVMGetIncomingValue(i, (unsigned)k) : LLVMGetOperand(i, (unsigned)k);
		if (!LLVMIsABasicBlock(v) && has_holes(v))
			return v;
	}
	return has_no_result(i) ? i : NULL;
}

/* Of the node that gave the value; NOWHERE: none did. */
static Place
place_made(const EmitLlvm *l, LLVMValueRef value)
{
	for (Reg r = 1; r <= l->thread->reg.n; r++)
		if (l->value[r] == value && thread_def(l->thread, r)->kind != NODE_CONST)
			return thread_def(l->thread, r)->place;
	return NOWHERE;
}

/* The place of the value; else of the next one that is made after the instruction. */
static Place
place_of(const EmitLlvm *l, LLVMValueRef value, LLVMValueRef i)
{
	Place at = place_made(l, value);
	for (; i && at.file < 0; i = LLVMGetNextInstruction(i))
		at = place_made(l, i);
	return at.file < 0 ? l->at : at;
}

static const char *
text_of(const EmitLlvm *l, Place at)
{
	const Compile *cx = l->opt.cx;
	if (at.file < 0 || !cx || at.file >= cx->files.n)
		return "a register that nothing gives a value is used";
	return arena_printf(l->mem, "%s:%d:%d: a register that nothing gives a value is used", cx->files.at[at.file].path,
	    at.line, at.col);
}

bool
llvm_is_defined(EmitLlvm *l, const char **why)
{
	for (LLVMValueRef f = LLVMGetFirstFunction(l->m); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
			for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
				LLVMValueRef fault = fault_of(i);
				if (!fault)
					continue;
				*why = text_of(l, place_of(l, fault, i));
				return false;
			}
	return true;
}
