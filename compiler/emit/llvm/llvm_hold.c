/* Where values of many elements are computed.
 *
 * LLVM sinks an instruction into the block that needs its result.  Of a tile's elements, which blocks behind store piece by
 * piece, that cuts each element's computation at another place: what a thread holds as one register an element becomes
 * two and three that wait in all blocks between, and spills.  A use right behind it, by PTX text that is empty, leaves such
 * a computation where it stands, and ends a product there that would be multiplied and added blocks later:
 *
 *     r = fmul a, b                       r = fmul a, b
 *     ...                          =>     call asm sideeffect "", "f"(r)
 *     br p, then, endif                   ...
 *
 * A residual behind tanh, 8192 x 4096 x 512, spilled 1540 bytes: 261 us on an H200, and 98 so; 4096 x 4096 by GELU 90 and
 * 80.  What takes few steps is better beside the stores, which it overlaps: scales behind products of fp8, 8192 x 8192 x
 * 8192, took 766 us and 796 held.  Not among products and around calls (thread_keeps_order): attention with heads of 64
 * took 560 us and 590 held. */
#include "emit/llvm/llvm.h"

enum { MANY = 16, STEPS = 5 };                          /* results of a block that others need; nodes for each */

/* Is it a word of two floats that were rounded to it? */
static bool
is_rounded(const EmitLlvm *l, LLVMValueRef v)
{
	return LLVMTypeOf(v) == l->type[REG_I32] && LLVMIsABitCastInst(v) && LLVMIsAFPTruncInst(LLVMGetOperand(v, 0));
}

/* Is it an f32 that is computed, of as many registers as it takes or more? */
static bool
is_computed(const EmitLlvm *l, LLVMValueRef v)
{
	return LLVMTypeOf(v) == l->type[REG_F32] && !LLVMIsAPHINode(v) && !LLVMIsALoadInst(v) && !LLVMIsAFPExtInst(v) &&
	       !LLVMIsABitCastInst(v) && !LLVMIsAExtractElementInst(v) && !LLVMIsAExtractValueInst(v);
}

/* Is it needed in other blocks alone, and not carried there? */
static bool
leaves(LLVMValueRef v, LLVMBasicBlockRef home)
{
	bool is_needed = false;
	for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u)) {
		LLVMValueRef user = LLVMGetUser(u);
		if (LLVMIsAPHINode(user) || (LLVMIsAFPTruncInst(user) && !LLVMGetFirstUse(user)))
			continue;
		if (LLVMGetInstructionParent(user) == home)
			return false;
		is_needed = true;
	}
	return is_needed;
}

static void
hold(EmitLlvm *l, LLVMBasicBlockRef b, int steps)
{
	VEC(LLVMValueRef) held = {0};
	for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
		if ((is_computed(l, i) || is_rounded(l, i)) && leaves(i, b))
			vec_push(l->mem, &held, i);
	for (int i = 0; held.n >= MANY && steps >= held.n * STEPS && i < held.n; i++) {
		LlvmAsm a = {.l = l};
		LLVMPositionBuilderBefore(l->b, LLVMGetNextInstruction(held.at[i]));
		llvm_asm_in(&a, held.at[i], LLVMTypeOf(held.at[i]) == l->type[REG_F32] ? REG_F32 : REG_I32);
		llvm_asm_make(&a, ASM_EFFECT, NULL);
	}
}

void
llvm_hold(EmitLlvm *l)
{
	for (int i = 0; i < l->held.n; i++)
		hold(l, l->held.at[i].block, l->held.at[i].nodes);
}
