/* Sums of one value and many others, written as differences.
 *
 *     %s0 = add %x, %d0                 %n0 = sub 0, %d0
 *     %s1 = add %x, %d1                 %s0 = sub %x, %n0
 *     ...                       =>      %n1 = sub 0, %d1
 *                                       %s1 = sub %x, %n1
 *
 * Indices of a gathered tile are such sums: a row's number beside what each element's number divides to.  LLVM 22 compares
 * all sums of a function with the same operand in pairs (straight-line strength reduction), for one that lies a known
 * distance from another.  Of 64 elements in five dimensions that took 0.12 s of 0.19 and found nothing, for those distances
 * are known where the elements are lowered.  It passes over differences; selection of instructions makes them sums again.
 * Multiples %d by a constant stay: the pass finds the multiple before it. */
#include "emit/llvm/llvm.h"

enum { MANY = 24 };                                     /* sums of a value: few take no time, and some are found */

static bool
is_sum_of(LLVMValueRef v, LLVMBasicBlockRef b)
{
	return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMAdd && LLVMGetInstructionParent(v) == b &&
	       !LLVMIsConstant(LLVMGetOperand(v, 1));
}

static bool
is_multiple(LLVMValueRef v)
{
	LLVMOpcode op = LLVMIsAInstruction(v) ? LLVMGetInstructionOpcode(v) : LLVMRet;
	return (op == LLVMMul || op == LLVMShl) && LLVMIsAConstantInt(LLVMGetOperand(v, 1));
}

static void
make_difference(EmitLlvm *l, LLVMValueRef sum, LLVMValueRef of)
{
	LLVMValueRef other = LLVMGetOperand(sum, LLVMGetOperand(sum, 0) == of);
	if (is_multiple(other))
		return;
	LLVMPositionBuilderBefore(l->b, sum);
	LLVMValueRef minus = LLVMBuildSub(l->b, LLVMConstNull(LLVMTypeOf(of)), other, "");
	LLVMReplaceAllUsesWith(sum, LLVMBuildSub(l->b, of, minus, ""));
	LLVMInstructionEraseFromParent(sum);
}

static void
apart(EmitLlvm *l, LLVMValueRef v, LLVMBasicBlockRef b)
{
	VEC(LLVMValueRef) sums = {0};
	for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u))
		if (is_sum_of(LLVMGetUser(u), b))
			vec_push(l->mem, &sums, LLVMGetUser(u));
	for (int i = 0; sums.n >= MANY && i < sums.n; i++)
		make_difference(l, sums.at[i], v);
}

/* Values of the block, the last first, so that no sum is replaced before its own sums are; then those from outside. */
static void
apart_in(EmitLlvm *l, LLVMBasicBlockRef b)
{
	VEC(LLVMValueRef) inside = {0}, outside = {0};
	for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
		vec_push(l->mem, &inside, i);
		for (unsigned k = 0; k < 2 && is_sum_of(i, b); k++) {
			LLVMValueRef v = LLVMGetOperand(i, k);
			bool is_inside = LLVMIsAInstruction(v) && LLVMGetInstructionParent(v) == b;
			if (!is_inside && !ANY_OF(o, outside.n, outside.at[o] == v))
				vec_push(l->mem, &outside, v);
		}
	}
	while (inside.n)
		apart(l, inside.at[--inside.n], b);
	while (outside.n)
		apart(l, outside.at[--outside.n], b);
}

void
llvm_sums(EmitLlvm *l)
{
	for (LLVMValueRef f = LLVMGetFirstFunction(l->m); f; f = LLVMGetNextFunction(f)) {
		LLVMBasicBlockRef b = LLVMIsDeclaration(f) ? NULL : LLVMGetFirstBasicBlock(f);
		for (; b; b = LLVMGetNextBasicBlock(b))
			apart_in(l, b);
	}
}
