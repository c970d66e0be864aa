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
	case TY_F64: return "f64";
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
	const char *d = i->acc == TY_F64 ? "f64" : i->acc == TY_F32 ? "f32" : "s32";
	LlvmAsm as = {.l = l};
	int at = 0;
	if (i->warps != 1)
		die("%s is no instruction of one warp", i->name);
	if (mma_by_llvm(l, i, &w, in, out))
		return;
	for (int k = 0; k < w.c; k++)
		llvm_asm_result(&as, w.acc);
	for (int k = 0; k < w.a + w.b + w.c; k++)
		llvm_asm_in(&as, in[k], k < w.a + w.b ? w.word : w.acc);
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
	return ALL_OF(i, n, LLVMIsConstant(c[i]) && LLVMIsNull(c[i]));
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

/* A chain's descriptors are few addresses and numbers added to them: the text adds, as LLVM would move what a loop leaves
 * alone out of it, two registers for each step of each operand (attention's gradients: 264 bytes were spilled for them). */
enum { ROOTS_MOST = 16 };
typedef struct Chain {
	LlvmAsm as;
	Reg root[ROOTS_MOST];
	int operand[ROOTS_MOST], n;
	int next;                                       /* operand of the text */
} Chain;

static Reg
root_of(const EmitLlvm *l, Reg descriptor, int64_t *more)
{
	const ThreadNode *n = thread_def(l->thread, descriptor);
	*more = 0;
	bool is_sum = n && n->kind == NODE_OP && n->op == THREAD_ADD && thread_const(l->thread, n->in[1], more);
	return is_sum ? n->in[0] : descriptor;
}

/* Which operand of the text the root is. */
static int
root_operand(Chain *x, Reg root)
{
	for (int i = 0; i < x->n; i++)
		if (x->root[i] == root)
			return x->operand[i];
	llvm_asm_in(&x->as, llvm_value(x->as.l, root), REG_I64);
	if (x->n < ROOTS_MOST) {
		x->root[x->n] = root;
		x->operand[x->n++] = x->next;
	}
	return x->next++;
}

/* The name of a descriptor's register in the text, which is made before the instruction. */
static void
put_descriptor(Chain *x, const char *name, Reg descriptor)
{
	int64_t more;
	int root = root_operand(x, root_of(x->as.l, descriptor, &more));
	text_printf(&x->as.text, "add.s64 %s, $%d, %lld; ", name, root, (long long)more);
}

/* What the product reads: "a, b, p, 1, 1"; A in registers is a list. */
static void
wgmma_operands(Chain *x, const ThreadNode *n, int left, int scale)
{
	Text *t = &x->as.text;
	const int words = wgmma_words((unsigned)n->op);
	if (words > 1)
		put_words(t, &left, words);
	else
		text_put(t, "a");
	text_put(t, ", b, ");
	text_printf(t, scale ? "$%d" : "p", scale);
	text_put(t, n->wgmma->acc == TY_F32 ? ", 1, 1" : "");
	if (dtype_info[n->wgmma->a].bits != 16)
		return;
	if (words == 1)
		text_printf(t, ", %d", n->op & TRANSPOSE_A ? 1 : 0);
	text_printf(t, ", %d", n->op & TRANSPOSE_B ? 1 : 0);
}

/* One product; `begins`: the accumulator is not read. */
static void
put_wgmma(Chain *x, const ThreadNode *n, bool begins)
{
	const WgmmaInfo *i = n->wgmma;
	const int words = wgmma_words((unsigned)n->op), at_scale = words + 1 + n->nout;
	int at = 0, left = x->next, scale = 0;
	for (int k = 0; k < words && words > 1; k++, x->next++)
		llvm_asm_in(&x->as, llvm_value(x->as.l, n->in[k]), REG_I32);
	if (at_scale < n->nin) {
		llvm_asm_in(&x->as, llvm_value(x->as.l, n->in[at_scale]), REG_PRED);
		scale = x->next++;
	}
	text_put(&x->as.text, "{ .reg .b64 a, b; .reg .pred p; ");
	if (words == 1)
		put_descriptor(x, "a", n->in[0]);
	put_descriptor(x, "b", n->in[words]);
	if (!scale)
		text_printf(&x->as.text, "setp.ne.b32 p, %d, 0; ", !begins);
	text_printf(&x->as.text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", i->n, i->k,
	    i->acc == TY_F32 ? "f32" : "s32", mma_type(i->a), mma_type(i->b));
	put_words(&x->as.text, &at, n->nout);
	text_put(&x->as.text, ", ");
	wgmma_operands(x, n, left, scale);
	text_put(&x->as.text, "; }");
}

void
llvm_nvptx_wgmma(EmitLlvm *l, const ThreadNode *const *chain, int count, LLVMValueRef *out)
{
	const ThreadNode *n = chain[0];
	const int c = wgmma_words((unsigned)n->op) + 1;
	const LLVMValueRef *in = llvm_values(l, n->in, n->nin);
	bool begins = n->nin == c + n->nout && all_zero(in + c, n->nout);
	Chain x = {.as = {.l = l}};
	accumulator(&x.as, n, in + c, begins);
	x.next = begins ? n->nout : 2 * n->nout;
	for (int k = 0; k < count; k++) {
		text_put(&x.as.text, k ? "\n\t" : "");
		put_wgmma(&x, chain[k], begins && k == 0);
	}
	llvm_asm_make(&x.as, ASM_EFFECT | ASM_CONVERGENT, out);
}

void
llvm_nvptx_settle(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	LlvmAsm as = {.l = l};
	accumulator(&as, n, in, false);
	text_put(&as.text, "// settled");
	llvm_asm_make(&as, ASM_MEMORY, out);
}
