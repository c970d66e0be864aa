/* Words of 32 bits made of narrower values, and constants that code brings along: texts, immediates, and tables that are
 * read by an index.
 *
 * On a GPU constants stand in global memory, which each lane reads at an address of its own at once; constant memory would
 * give lanes with different indices one after the other.  On this machine they are data of the linked code. */
#include "emit/llvm/llvm.h"

#include <string.h>

/* ---- words ---- */

/* What a narrow float was made of, if that was an f32. */
static LLVMValueRef
narrowed_from(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	if (!llvm_is_narrow(type) || !LLVMIsAFPTruncInst(v))
		return NULL;
	LLVMValueRef wide = LLVMGetOperand(v, 0);
	return LLVMTypeOf(wide) == l->type[REG_F32] ? wide : NULL;
}

static LLVMValueRef
vector(EmitLlvm *l, LLVMTypeRef type, const LLVMValueRef *v, int n)
{
	LLVMValueRef r = LLVMGetPoison(LLVMVectorType(type, (unsigned)n));
	for (int i = 0; i < n; i++)
		r = LLVMBuildInsertElement(l->b, r, v[i], llvm_i32(l, i), "");
	return r;
}

/* What n parts were taken out of, in order and from the first on; or NULL. */
static LLVMValueRef
taken_from(const LLVMValueRef *part, int n)
{
	LLVMValueRef whole = NULL;
	for (int i = 0; i < n; i++) {
		LLVMValueRef from = LLVMIsAExtractElementInst(part[i]) ? LLVMGetOperand(part[i], 0) : NULL;
		if (!from || (whole && from != whole))
			return NULL;
		whole = from;
		LLVMValueRef at = LLVMGetOperand(part[i], 1);
		if (!LLVMIsAConstantInt(at) || LLVMConstIntGetZExtValue(at) != (unsigned)i)
			return NULL;
	}
	return LLVMIsABitCastInst(whole) ? whole : NULL;
}

/* The half word whose bytes the two parts are (llvm_split_half), as a word; or NULL. */
static LLVMValueRef
whole_half(EmitLlvm *l, const LLVMValueRef *part)
{
	LLVMValueRef whole = taken_from(part, 2), word = whole ? LLVMGetOperand(whole, 0) : NULL;
	return word && LLVMIsAZExtInst(word) && LLVMTypeOf(LLVMGetOperand(word, 0)) == l->type[REG_I16] ? word : NULL;
}

/* The word that parts were taken out of, all of it and in order, or of two halves; or NULL. */
static LLVMValueRef
whole_word(EmitLlvm *l, const LLVMValueRef *part, int n)
{
	LLVMValueRef whole = taken_from(part, n), low = n == 4 ? whole_half(l, part) : NULL;
	LLVMValueRef high = low ? whole_half(l, part + 2) : NULL;
	if (high)
		return LLVMBuildOr(l->b, low, LLVMBuildShl(l->b, high, llvm_i32(l, 16), ""), "");
	if (!whole || LLVMGetVectorSize(LLVMTypeOf(whole)) != (unsigned)n)
		return NULL;
	LLVMValueRef word = LLVMGetOperand(whole, 0);
	return LLVMTypeOf(word) == l->type[REG_I32] ? word : NULL;
}

/* Shifts, of which FastISel makes code; of vectors it makes none. */
static LLVMValueRef
shifted_word(EmitLlvm *l, const LLVMValueRef *v, int n)
{
	LLVMTypeRef word = l->type[REG_I32];
	LLVMValueRef sum = LLVMBuildZExt(l->b, v[0], word, "");
	for (int i = 1; i < n; i++) {
		LLVMValueRef part = LLVMBuildZExt(l->b, v[i], word, "");
		sum = LLVMBuildOr(l->b, sum, LLVMBuildShl(l->b, part, llvm_i32(l, 32 / n * i), ""), "");
	}
	return sum;
}

static void
split_by_shifts(EmitLlvm *l, LLVMValueRef word, LLVMTypeRef type, LLVMValueRef *out, int n)
{
	for (int i = 0; i < n; i++) {
		LLVMValueRef part = i ? LLVMBuildLShr(l->b, word, llvm_i32(l, 32 / n * i), "") : word;
		out[i] = LLVMBuildTrunc(l->b, part, type, "");
	}
}

LLVMValueRef
llvm_word(EmitLlvm *l, const LLVMValueRef *v, RegType type, int n)
{
	LLVMTypeRef word = l->type[REG_I32];
	LLVMValueRef wide[2];
	if (n == 1)
		return LLVMBuildBitCast(l->b, v[0], word, "");
	if (n == 2 && (wide[0] = narrowed_from(l, v[0], type)) && (wide[1] = narrowed_from(l, v[1], type))) {
		LLVMValueRef pair = vector(l, l->type[REG_F32], wide, 2);
		pair = LLVMBuildFPTrunc(l->b, pair, LLVMVectorType(l->type[type], 2), "");
		return LLVMBuildBitCast(l->b, pair, word, "");
	}
	if (n <= 4 && l->host.quick)
		return shifted_word(l, v, n);
	LLVMValueRef whole = n <= 4 ? whole_word(l, v, n) : NULL;
	if (whole)
		return whole;
	if (n <= 4)
		return LLVMBuildBitCast(l->b, vector(l, l->type[type], v, n), word, "");
	LLVMValueRef sum = LLVMConstNull(word);
	for (int i = 0; i < n; i++) { /* 4-bit values in registers of 8 */
		LLVMValueRef nibble =
		    LLVMBuildAnd(l->b, LLVMBuildZExt(l->b, v[i], word, ""), llvm_i32(l, 15), "");
		sum =
		    LLVMBuildOr(l->b, sum, LLVMBuildShl(l->b, nibble, llvm_i32(l, 4 * i), ""), "");
	}
	return sum;
}

void
llvm_split(EmitLlvm *l, LLVMValueRef word, RegType type, LLVMValueRef *out, int n)
{
	if (n == 1) {
		out[0] = LLVMBuildBitCast(l->b, word, l->type[type], "");
		return;
	}
	if (n <= 4 && l->host.quick) {
		split_by_shifts(l, word, l->type[type], out, n);
		return;
	}
	if (n <= 4)
		word = LLVMBuildBitCast(l->b, word, LLVMVectorType(l->type[type], (unsigned)n), "");
	for (int i = 0; i < n; i++) {
		if (n <= 4) {
			out[i] = LLVMBuildExtractElement(l->b, word, llvm_i32(l, i), "");
			continue;
		}
		LLVMValueRef nibble = LLVMBuildAnd(
		    l->b, LLVMBuildLShr(l->b, word, llvm_i32(l, 4 * i), ""), llvm_i32(l, 15), "");
		out[i] = LLVMBuildTrunc(l->b, nibble, l->type[REG_I8], "");
	}
}

void
llvm_split_half(EmitLlvm *l, LLVMValueRef half, LLVMValueRef *out)
{
	LLVMValueRef word = LLVMBuildZExt(l->b, half, l->type[REG_I32], "");
	word = LLVMBuildBitCast(l->b, word, LLVMVectorType(l->type[REG_I8], 4), "");
	for (int i = 0; i < 2; i++)
		out[i] = LLVMBuildExtractElement(l->b, word, llvm_i32(l, i), "");
}

/* ---- constants ---- */

LLVMValueRef
llvm_constant(EmitLlvm *l, LLVMValueRef value, const char *name)
{
	LLVMValueRef g = LLVMAddGlobalInAddressSpace(l->m, LLVMTypeOf(value), name, l->opt.host ? 0 : 1);
	LLVMSetInitializer(g, value);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	LLVMSetGlobalConstant(g, true);
	return g;
}

static RegType
bits_type(RegType t)
{
	static const RegType of[] = {[1] = REG_I8, [2] = REG_I16, [4] = REG_I32, [8] = REG_I64};
	return of[thread_type_bytes(t)];
}

/* Equal tables are one. */
static LLVMValueRef
table_of(EmitLlvm *l, LLVMTypeRef elem, const int64_t *bits, int n)
{
	for (int i = 0; i < l->table.n; i++) {
		const LlvmTable *t = &l->table.at[i];
		if (t->n == n && t->elem == elem && memcmp(t->bits, bits, sizeof *bits * (size_t)n) == 0)
			return t->global;
	}
	LLVMValueRef *v = MAP_OF(l->mem, LLVMValueRef, i, n, LLVMConstInt(elem, (uint64_t)bits[i], true));
	LlvmTable t = {bits, n, elem, llvm_constant(l, LLVMConstArray2(elem, v, (uint64_t)n), "table")};
	vec_push(l->mem, &l->table, t);
	return t.global;
}

LLVMValueRef
llvm_lookup(EmitLlvm *l, const ThreadNode *n, LLVMValueRef index)
{
	RegType as = bits_type(n->type);
	LLVMValueRef at = LLVMBuildZExt(l->b, index, l->type[REG_I64], "");
	LLVMValueRef p = LLVMBuildGEP2(l->b, l->type[as], table_of(l, l->type[as], n->imm, n->nimm), &at, 1, "");
	LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[as], p, "");
	return as == n->type ? v : llvm_same_bits(l, v, as, n->type);
}
