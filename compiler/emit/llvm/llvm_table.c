/* Constants that code brings along: texts, immediates, and tables that are read by an index.
 *
 * On a GPU they stand in global memory, which each lane reads at a place of its own at once; constant memory would give
 * lanes with different indices one after the other.  On this machine they are data of the linked code. */
#include "emit/llvm/llvm.h"

#include <string.h>

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
	return of[llvm_type_bytes(t)];
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
	LLVMValueRef *v = NEW_ARRAY(l->e.mem, LLVMValueRef, n);
	for (int i = 0; i < n; i++)
		v[i] = LLVMConstInt(elem, (uint64_t)bits[i], true);
	LlvmTable t = {bits, n, elem, llvm_constant(l, LLVMConstArray2(elem, v, (uint64_t)n), "table")};
	vec_push(l->e.mem, &l->table, t);
	return t.global;
}

static Reg
lookup(Emitter *e, RegType t, const int64_t *bits, int n, Reg index)
{
	EmitLlvm *l = llvm_state(e);
	RegType as = bits_type(t);
	LLVMValueRef at = LLVMBuildZExt(l->b, llvm_value(l, index), l->type[REG_I64], "");
	LLVMValueRef p = LLVMBuildGEP2(l->b, l->type[as], table_of(l, l->type[as], bits, n), &at, 1, "");
	LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[as], p, "");
	return llvm_add(l, t, as == t ? v : llvm_same_bits(l, v, as, t));
}

void
llvm_table_open(EmitLlvm *l)
{
	l->e.lookup = lookup;
}
