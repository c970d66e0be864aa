/* Matrix instructions: of a warp, which give their result at once, and of a warpgroup, which run by
 * themselves until a wait.
 *
 * A warpgroup's instruction adds to its accumulator in place: each of its registers is a result
 * tied to an operand.  The first one, whose accumulator is zeros, takes nothing (scale-d is false); or
 * scale-d is a register.
 * Between it and its wait nothing may touch those registers, else ptxas waits for every instruction
 * (C7514); so the wait hands out new ones, `settle`. */
#include "emit/llvm/llvm.h"

static const char *
mma_type(DType t)
{
	switch (t) {
	case TY_F16: return "f16";
	case TY_BF16: return "bf16";
	case TY_F32: return "tf32"; /* as an operand; an accumulator is f32 */
	case TY_I8: return "s8";
	case TY_U8: return "u8";
	case TY_F8E4M3: return "e4m3";
	case TY_F8E5M2: return "e5m2";
	default: die("no matrix instruction takes this type");
	}
}

static void
put_words(Text *t, int *at, int n)
{
	text_put(t, "{");
	for (int i = 0; i < n; i++)
		text_printf(t, "%s$%d", i ? ", " : "", (*at)++);
	text_put(t, "}");
}

/* LLVM's own instruction, which it takes far more quickly than inline text of fourteen operands; its name goes by the type
 * of the operands, or for f16, whose words are pairs, of the accumulators.  False: it has none. */
static bool
mma_by_llvm(EmitLlvm *l, const MmaInfo *i, const MmaWords *w, const Reg *in[3], LLVMValueRef *out)
{
	char name[64];
	LLVMValueRef arg[32];
	const int words[] = {w->a, w->b, w->c};
	bool pairs = i->a == TY_F16;
	int n = 0;
	if (i->a != i->b || (!pairs && i->a != TY_BF16 && i->a != TY_F32 && i->a != TY_I8 && i->a != TY_U8))
		return false;
	int length = snprintf(name, sizeof name, "llvm.nvvm.mma.m%dn%dk%d.row.col.%s", i->m, i->n, i->k,
	    pairs ? "f32.f32" : mma_type(i->a));
	unsigned id = LLVMLookupIntrinsicID(name, (size_t)length);
	if (!id || w->c < 2)
		return false;
	LLVMTypeRef pair = LLVMVectorType(l->type[REG_F16], 2);
	for (int k = 0; k < 3; k++)
		for (int j = 0; j < words[k]; j++) {
			LLVMValueRef v = llvm_value(l, in[k][j]);
			arg[n++] = pairs && k < 2 ? LLVMBuildBitCast(l->b, v, pair, "") : v;
		}
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, NULL, 0);
	LLVMValueRef call = LLVMBuildCall2(l->b, LLVMGlobalGetValueType(f), f, arg, (unsigned)n, "");
	llvm_attribute(l, call, "convergent");
	for (int k = 0; k < w->c; k++)
		out[k] = LLVMBuildExtractValue(l->b, call, (unsigned)k, "");
	return true;
}

static void
mma(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	EmitLlvm *l = llvm_state(e);
	MmaWords w = mma_words(i);
	LlvmAsm as = {.l = l};
	Text t = {0};
	RegType acc = i->acc == TY_F32 ? REG_F32 : REG_I32, type[16];
	const char *d = i->acc == TY_F32 ? "f32" : "s32";
	LLVMValueRef v[16];
	int at = 0;
	if (i->warps != 1 || w.c > LEN(v))
		die("%s is no instruction of one warp", i->name);
	if (mma_by_llvm(l, i, &w, (const Reg *[]){a, b, c}, v)) {
		for (int k = 0; k < w.c; k++)
			out[k] = llvm_add(l, acc, v[k]);
		return;
	}
	for (int k = 0; k < w.c; k++) {
		type[k] = acc;
		llvm_asm_result(&as, acc);
	}
	for (int k = 0; k < w.a; k++)
		llvm_asm_in(&as, llvm_value(l, a[k]), REG_I32);
	for (int k = 0; k < w.b; k++)
		llvm_asm_in(&as, llvm_value(l, b[k]), REG_I32);
	for (int k = 0; k < w.c; k++)
		llvm_asm_in(&as, llvm_value(l, c[k]), acc);
	text_printf(&t, "mma.sync.aligned.m%dn%dk%d.row.col.%s.%s.%s.%s ", i->m, i->n, i->k, d,
	    mma_type(i->a), mma_type(i->b), d);
	put_words(&t, &at, w.c);
	text_put(&t, ", ");
	put_words(&t, &at, w.a);
	text_put(&t, ", ");
	put_words(&t, &at, w.b);
	text_put(&t, ", ");
	put_words(&t, &at, w.c);
	text_put(&t, ";");
	llvm_asm_make(&as, t.at, ASM_CONVERGENT, type, v);
	for (int k = 0; k < w.c; k++)
		out[k] = llvm_add(l, acc, v[k]);
	text_close(&t);
}

/* a warpgroup's */

static bool
all_zero(EmitLlvm *l, const Reg *c, int n)
{
	for (int i = 0; i < n; i++) {
		LLVMValueRef v = llvm_value(l, c[i]);
		if (!LLVMIsConstant(v) || !LLVMIsNull(v))
			return false;
	}
	return true;
}

/* Registers as results, and as operands in the same places unless they only begin here. */
static RegType *
accumulator(LlvmAsm *a, const Reg *c, int n, bool begins)
{
	EmitLlvm *l = a->l;
	RegType *type = NEW_ARRAY(l->e.mem, RegType, n);
	for (int i = 0; i < n; i++) {
		type[i] = llvm_reg_type(l, c[i]);
		llvm_asm_result(a, type[i]);
	}
	for (int i = 0; i < n && !begins; i++)
		llvm_asm_tie(a, llvm_value(l, c[i]), i);
	return type;
}

static void
give(EmitLlvm *l, const RegType *type, const LLVMValueRef *v, Reg *out, int n)
{
	for (int i = 0; i < n; i++)
		out[i] = llvm_add(l, type[i], v[i]);
}

/* Operands behind the accumulator's results and, unless it begins, its tied values: "$8, $9, $10"; A in registers is a
 * list. */
static void
wgmma_operands(LlvmAsm *as, Text *t, const Wgmma *w, int from)
{
	EmitLlvm *l = as->l;
	int words = wgmma_words(w->flags);
	for (int i = 0; i < words; i++)
		llvm_asm_in(as, llvm_value(l, w->a[i]), words > 1 ? REG_I32 : REG_I64);
	llvm_asm_in(as, llvm_value(l, w->b), REG_I64);
	if (w->scale)
		llvm_asm_in(as, llvm_value(l, w->scale), REG_PRED);
	if (words > 1)
		put_words(t, &from, words);
	else
		text_printf(t, "$%d", from++);
	text_printf(t, ", $%d, ", from++);
	text_printf(t, w->scale ? "$%d" : "p", from);
	text_put(t, w->info->acc == TY_F32 ? ", 1, 1" : "");
	if (dtype_info[w->info->a].bits != 16)
		return;
	if (words == 1)
		text_printf(t, ", %d", w->flags & TRANSPOSE_A ? 1 : 0);
	text_printf(t, ", %d", w->flags & TRANSPOSE_B ? 1 : 0);
}

static void
wgmma(Emitter *e, const Wgmma *w, Reg *out)
{
	EmitLlvm *l = llvm_state(e);
	const WgmmaInfo *i = w->info;
	int n = i->n / 2, at = 0;
	bool begins = !w->scale && all_zero(l, w->c, n);
	LlvmAsm as = {.l = l};
	Text t = {0};
	LLVMValueRef *v = NEW_ARRAY(e->mem, LLVMValueRef, n);
	RegType *type = accumulator(&as, w->c, n, begins);
	if (!w->scale)
		text_printf(&t, "{ .reg .pred p; setp.ne.b32 p, %d, 0; ", !begins);
	text_printf(&t, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", i->n, i->k, i->acc == TY_F32 ? "f32" : "s32",
	    mma_type(i->a), mma_type(i->b));
	put_words(&t, &at, n);
	text_put(&t, ", ");
	wgmma_operands(&as, &t, w, begins ? n : 2 * n);
	text_put(&t, w->scale ? ";" : "; }");
	llvm_asm_make(&as, t.at, ASM_EFFECT | ASM_CONVERGENT, type, v);
	give(l, type, v, out, n);
	text_close(&t);
}

static void
settle(Emitter *e, const Reg *v, Reg *out, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmAsm as = {.l = l};
	LLVMValueRef *after = NEW_ARRAY(e->mem, LLVMValueRef, n);
	RegType *type = accumulator(&as, v, n, false);
	llvm_asm_make(&as, "// settled", ASM_MEMORY, type, after);
	give(l, type, after, out, n);
}

void
llvm_matrix_open(EmitLlvm *l)
{
	l->e.mma = mma;
	if (l->e.target->has & HAS_WGMMA) {
		l->e.wgmma = wgmma;
		l->e.settle = settle;
	}
}
