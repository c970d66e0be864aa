/* Long blocks in pieces.
 *
 * LLVM orders a block's instructions by a graph of them all, and for x86 asks of many a pair whether an edge would close
 * a circle, which walks the graph: time grows with the square of the length, and the unrolled work of one thread on a
 * large tile has tens of thousands of instructions in a row.  Code that runs on this machine has no need of the best
 * order: its blocks are cut, each piece ending in a jump to the next.
 *
 *     B: i1 i2 ... i9000         =>         P: i1 ... i1000  br Q      Q: i1001 ... br ...      B: i8001 ... i9000
 *
 * The last piece stays B itself, as the phis of those that come after it name it. */
#include "emit/llvm/llvm.h"

enum { PIECE = 1000 };

/* The instruction that is `n` places after the first; NULL: the block is no longer. */
static LLVMValueRef
instruction_at(LLVMBasicBlockRef b, int n)
{
	LLVMValueRef i = LLVMGetFirstInstruction(b);
	while (i && n-- > 0)
		i = LLVMGetNextInstruction(i);
	return i;
}

/* Puts the first instructions of `b` into a block before it, to which all go that went to `b`. */
static void
cut_off(EmitLlvm *l, LLVMBasicBlockRef b)
{
	LLVMBasicBlockRef head = LLVMInsertBasicBlockInContext(l->cx, b, "piece");
	LLVMValueRef end = LLVMGetBasicBlockTerminator(b);
	LLVMInstructionRemoveFromParent(end); /* or else phis would be told to name the head */
	LLVMReplaceAllUsesWith(LLVMBasicBlockAsValue(b), LLVMBasicBlockAsValue(head));
	LLVMPositionBuilderAtEnd(l->b, b);
	LLVMInsertIntoBuilder(l->b, end);
	LLVMPositionBuilderAtEnd(l->b, head);
	LLVMValueRef next, i = LLVMGetFirstInstruction(b);
	for (int n = 0; n < PIECE || LLVMIsAPHINode(i); n++, i = next) {
		next = LLVMGetNextInstruction(i);
		LLVMInstructionRemoveFromParent(i);
		LLVMInsertIntoBuilder(l->b, i);
	}
	LLVMBuildBr(l->b, b);
}

void
llvm_cut(EmitLlvm *l)
{
	for (LLVMValueRef f = LLVMGetFirstFunction(l->m); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
			while (instruction_at(b, 2 * PIECE))
				cut_off(l, b);
}
