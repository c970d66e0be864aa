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
mma_by_llvm(EmitLlvm *l, const MmaInfo *i, const MmaWords *w, const LLVMValueRef *in, LLVMValueRef *out)
{
	char name[64];
	LLVMValueRef arg[32];
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
	for (; n < w->a + w->b + w->c; n++)
		arg[n] = pairs && n < w->a + w->b ? LLVMBuildBitCast(l->b, in[n], pair, "") : in[n];
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, NULL, 0);
	LLVMValueRef call = LLVMBuildCall2(l->b, LLVMGlobalGetValueType(f), f, arg, (unsigned)n, "");
	llvm_attribute(l, call, "convergent");
	for (int k = 0; k < w->c; k++)
		out[k] = LLVMBuildExtractValue(l->b, call, (unsigned)k, "");
	return true;
}

void
llvm_nvptx_mma(EmitLlvm *l, const MmaInfo *i, const LLVMValueRef *in, LLVMValueRef *out)
{
	const MmaWords w = mma_words(i);
	const int words[] = {w.c, w.a, w.b, w.c};
	const char *d = i->acc == TY_F32 ? "f32" : "s32";
	RegType acc = i->acc == TY_F32 ? REG_F32 : REG_I32;
	LlvmAsm as = {.l = l};
	int at = 0;
	if (i->warps != 1)
		die("%s is no instruction of one warp", i->name);
	if (mma_by_llvm(l, i, &w, in, out))
		return;
	for (int k = 0; k < w.c; k++)
		llvm_asm_result(&as, acc);
	for (int k = 0; k < w.a + w.b + w.c; k++)
		llvm_asm_in(&as, in[k], k < w.a + w.b ? REG_I32 : acc);
	text_printf(&as.text, "mma.sync.aligned.m%dn%dk%d.row.col.%s.%s.%s.%s ", i->m, i->n, i->k, d, mma_type(i->a),
	    mma_type(i->b), d);
	for (int k = 0; k < LEN(words); k++) {
		put_words(&as.text, &at, words[k]);
		text_put(&as.text, k < LEN(words) - 1 ? ", " : ";");
	}
	llvm_asm_make(&as, ASM_CONVERGENT, out);
}

/* a warpgroup's */

static bool
all_zero(const LLVMValueRef *c, int n)
{
	for (int i = 0; i < n; i++)
		if (!LLVMIsConstant(c[i]) || !LLVMIsNull(c[i]))
			return false;
	return true;
}

/* A node's results, and operands in the same places unless they only begin here. */
static void
accumulator(LlvmAsm *a, const ThreadNode *n, const LLVMValueRef *c, bool begins)
{
	for (int i = 0; i < n->nout; i++)
		llvm_asm_result(a, llvm_reg_type(a->l, n->out[i]));
	for (int i = 0; i < n->nout && !begins; i++)
		llvm_asm_tie(a, c[i], i);
}

/* Adds what the product reads, as operands from `from` on: "$8, $9, $10"; A in registers is a list.  Returns how many. */
static int
wgmma_operands(LlvmAsm *as, const ThreadNode *n, const LLVMValueRef *in, int from)
{
	Text *t = &as->text;
	const WgmmaInfo *i = n->wgmma;
	const int words = wgmma_words((unsigned)n->op), scale = words + 1 + n->nout, first = from;
	for (int k = 0; k < words; k++)
		llvm_asm_in(as, in[k], words > 1 ? REG_I32 : REG_I64);
	llvm_asm_in(as, in[words], REG_I64);
	if (scale < n->nin)
		llvm_asm_in(as, in[scale], REG_PRED);
	if (words > 1)
		put_words(t, &from, words);
	else
		text_printf(t, "$%d", from++);
	text_printf(t, ", $%d, ", from++);
	text_printf(t, scale < n->nin ? "$%d" : "p", from);
	from += scale < n->nin;
	text_put(t, i->acc == TY_F32 ? ", 1, 1" : "");
	if (dtype_info[i->a].bits != 16)
		return from - first;
	if (words == 1)
		text_printf(t, ", %d", n->op & TRANSPOSE_A ? 1 : 0);
	text_printf(t, ", %d", n->op & TRANSPOSE_B ? 1 : 0);
	return from - first;
}

/* One product; `begins`: the accumulator is not read.  Returns how many operands it added. */
static int
put_wgmma(LlvmAsm *as, const ThreadNode *n, const LLVMValueRef *in, bool begins, int from)
{
	const WgmmaInfo *i = n->wgmma;
	bool has_scale = n->nin > wgmma_words((unsigned)n->op) + 1 + n->nout;
	int at = 0;
	if (!has_scale)
		text_printf(&as->text, "{ .reg .pred p; setp.ne.b32 p, %d, 0; ", !begins);
	text_printf(&as->text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", i->n, i->k,
	    i->acc == TY_F32 ? "f32" : "s32", mma_type(i->a), mma_type(i->b));
	put_words(&as->text, &at, n->nout);
	text_put(&as->text, ", ");
	int added = wgmma_operands(as, n, in, from);
	text_put(&as->text, has_scale ? ";" : "; }");
	return added;
}

void
llvm_nvptx_wgmma(EmitLlvm *l, const ThreadNode *const *chain, int count, LLVMValueRef *out)
{
	const ThreadNode *n = chain[0];
	const int c = wgmma_words((unsigned)n->op) + 1;
	const LLVMValueRef *in = llvm_values(l, n->in, n->nin);
	bool begins = n->nin == c + n->nout && all_zero(in + c, n->nout);
	LlvmAsm as = {.l = l};
	accumulator(&as, n, in + c, begins);
	int at = begins ? n->nout : 2 * n->nout;
	for (int k = 0; k < count; k++) {
		const LLVMValueRef *reads = k ? llvm_values(l, chain[k]->in, c) : in;
		text_put(&as.text, k ? "\n\t" : "");
		at += put_wgmma(&as, chain[k], reads, begins && k == 0, at);
	}
	llvm_asm_make(&as, ASM_EFFECT | ASM_CONVERGENT, out);
}

void
llvm_nvptx_settle(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	LlvmAsm as = {.l = l};
	accumulator(&as, n, in, false);
	text_put(&as.text, "// settled");
	llvm_asm_make(&as, ASM_MEMORY, out);
}
