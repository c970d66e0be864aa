/* The per-thread code of a GPU for this machine: kernels, primitives, matrix instructions.
 *
 * A kernel becomes a function of a thread and of the parameters' words,
 *
 *     void kernel(SimtThread *t, const uint64_t *param)
 *
 * and a row of thread/prims.def a call of its simt symbol with operands and results in memory, a word of 64 bits each
 * (runtime/simt/simt.h is the contract).  Those calls are convergent, as on a GPU, so that no pass moves them under
 * a branch.  Before whatever may be reported the number of its place is stored in the thread; calls that lanes must
 * reach together have a number each, so that two on one line differ.
 *
 * Loops count their iterations down, so that one that never ends is found and others get their turn.
 *
 * Code with checks takes longer to make than to run, and is made without passes by FastISel.  Where that has no rule for an
 * instruction other than a call, the whole rest of the basic block goes to the selector of graphs, which takes five times
 * as long: so such code has no vectors and no `half`.
 *
 *     %v = load <2 x i16>, ptr %p                  %a = load i16, ptr %p
 *     %a = extractelement <2 x i16> %v, i32 0  =>  %q = getelementptr i8, ptr %p, i64 2
 *     %b = extractelement <2 x i16> %v, i32 1      %b = load i16, ptr %q */
#include "emit/llvm/llvm.h"

#include <string.h>

static LLVMValueRef
field(EmitLlvm *l, int offset)
{
	LLVMValueRef at = llvm_i32(l, offset);
	return LLVMBuildGEP2(l->b, l->type[REG_I8], l->host.thread, &at, 1, "");
}

static void
mark(EmitLlvm *l, LLVMValueRef v, const char *kind)
{
	LLVMSetMetadata(v, LLVMGetMDKindIDInContext(l->cx, kind, (unsigned)strlen(kind)),
	    LLVMMetadataAsValue(l->cx, LLVMMDNodeInContext2(l->cx, NULL, 0)));
}

/* A field that never changes. */
static LLVMValueRef
fixed_field(EmitLlvm *l, int offset, LLVMTypeRef type)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type, field(l, offset), "");
	mark(l, v, "invariant.load");
	return v;
}

/* ---- calls ---- */

void
llvm_function_attribute(EmitLlvm *l, LLVMValueRef fn, const char *name)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
	LLVMAddAttributeAtIndex(
	    fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(l->cx, kind, 0));
}

LLVMValueRef
llvm_host_call(EmitLlvm *l, const char *name, LLVMTypeRef result, LLVMValueRef *arg, int n, unsigned flags)
{
	LLVMValueRef fn = LLVMGetNamedFunction(l->m, name);
	LLVMTypeRef *types = MAP_OF(l->mem, LLVMTypeRef, i, n, LLVMTypeOf(arg[i]));
	LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, false);
	if (!fn) {
		fn = LLVMAddFunction(l->m, name, type);
		llvm_function_attribute(l, fn, "nounwind");
		if (flags & HOST_CONVERGENT)
			llvm_function_attribute(l, fn, "convergent");
		if (flags & HOST_PURE) {
			llvm_function_attribute(l, fn, "memory"); /* value 0: none */
			llvm_function_attribute(l, fn, "willreturn");
		}
	}
	return LLVMBuildCall2(l->b, type, fn, arg, (unsigned)n, "");
}

void
llvm_host_site(EmitLlvm *l, bool own)
{
	LlvmHost *h = &l->host;
	if (h->here < 0 || own) {
		h->here = h->site.n;
		vec_push(l->mem, &h->site, h->at);
	}
	LLVMBasicBlockRef block = LLVMGetInsertBlock(l->b);
	if (h->stored == h->here && h->stored_in == block)
		return;
	LLVMBuildStore(l->b, llvm_i32(l, h->here), field(l, SIMT_FIELD_SITE));
	h->stored = h->here;
	h->stored_in = block;
}

static bool
same_site(Place a, Place b)
{
	return a.file == b.file && a.line == b.line && a.col == b.col && a.call == b.call;
}

void
llvm_simt_place(EmitLlvm *l, Place at)
{
	LlvmHost *h = &l->host;
	if (at.file < 0 || same_site(at, h->at))
		return;
	h->at = at;
	h->here = -1;
	for (int i = h->site.n - 1; i >= 0 && h->here < 0 && i > h->site.n - 64; i--)
		if (same_site(h->site.at[i], at))
			h->here = i;
}

/* Operand or result number i of a call, as elements of a type. */
static LLVMValueRef
room(EmitLlvm *l, int which, LLVMTypeRef type, int i)
{
	LLVMValueRef at = llvm_i32(l, i);
	return LLVMBuildGEP2(l->b, type, l->host.room[which], &at, 1, "");
}

static void
need(EmitLlvm *l, int which, int words)
{
	l->host.words[which] = MAX(l->host.words[which], words);
}

/* ---- words ---- */

static LLVMValueRef
word_of(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	LLVMTypeRef word = l->type[REG_I64];
	switch (type) {
	case REG_I64: return v;
	case REG_GLOBAL: return LLVMBuildPtrToInt(l->b, v, word, "");
	case REG_F64: return LLVMBuildBitCast(l->b, v, word, "");
	case REG_F32: v = LLVMBuildBitCast(l->b, v, l->type[REG_I32], ""); break;
	default: break;
	}
	return LLVMBuildZExt(l->b, v, word, "");
}

static LLVMValueRef
from_word(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	switch (type) {
	case REG_I64: return v;
	case REG_GLOBAL: return LLVMBuildIntToPtr(l->b, v, l->type[type], "");
	case REG_F64: return LLVMBuildBitCast(l->b, v, l->type[type], "");
	case REG_F32: return LLVMBuildBitCast(l->b, LLVMBuildTrunc(l->b, v, l->type[REG_I32], ""), l->type[type], "");
	default: return LLVMBuildTrunc(l->b, v, l->type[type], "");
	}
}

/* ---- kernels ---- */

static void
make_room(EmitLlvm *l)
{
	for (int i = 0; i < 2; i++)
		l->host.room[i] = LLVMBuildAlloca(l->b, l->type[REG_I64], i ? "results" : "operands");
}

void
llvm_simt_kernel(EmitLlvm *l, const ThreadKernel *k)
{
	LLVMTypeRef types[2] = {l->generic, l->generic};
	l->kernel = "kernel";
	vec_push(l->mem, &l->host.site, NOWHERE);
	l->host.at = NOWHERE;
	l->fn = LLVMAddFunction(l->m, l->kernel, LLVMFunctionType(l->none, types, 2, false));
	/* a frame larger than the guard page behind the stack touches it all the same */
	LLVMAddTargetDependentFunctionAttr(l->fn, "probe-stack", "inline-asm");
	llvm_function_attribute(l, l->fn, "nounwind");
	llvm_function_attribute(l, l->fn, "convergent");
	l->host.thread = LLVMGetParam(l->fn, 0);
	LLVMPositionBuilderAtEnd(l->b, llvm_block(l, "entry"));
	make_room(l);
	for (int i = 0; i < k->nparam; i++) {
		LLVMValueRef at = llvm_i32(l, i);
		LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[REG_I64],
		    LLVMBuildGEP2(l->b, l->type[REG_I64], LLVMGetParam(l->fn, 1), &at, 1, ""), k->param[i].name);
		mark(l, v, "invariant.load");
		l->value[l->thread->body->arg[i]] = from_word(l, v, k->param[i].type);
	}
	l->host.shared = fixed_field(l, SIMT_FIELD_SHARED, l->generic);
	l->value[l->thread->shared] = llvm_i32(l, 0);
}

/* Room for operands and results, now that it is known how much. */
void
llvm_simt_kernel_end(EmitLlvm *l)
{
	for (int i = 0; i < 2; i++) {
		LLVMPositionBuilderBefore(l->b, l->host.room[i]);
		LLVMTypeRef all = LLVMArrayType2(l->type[REG_I64], (uint64_t)MAX(l->host.words[i], 1));
		LLVMValueRef better = LLVMBuildAlloca(l->b, all, "");
		LLVMReplaceAllUsesWith(l->host.room[i], better);
		LLVMInstructionEraseFromParent(l->host.room[i]);
	}
}

/* ---- loops ---- */

void
llvm_host_iteration(EmitLlvm *l, bool waits)
{
	if (waits) {
		llvm_host_site(l, false);
		llvm_host_call(l, "simt_spin", l->none, &l->host.thread, 1, HOST_CONVERGENT);
		return;
	}
	LLVMTypeRef word = l->type[REG_I64];
	LLVMValueRef at = field(l, SIMT_FIELD_STEPS), left = LLVMBuildLoad2(l->b, word, at, "");
	left = LLVMBuildSub(l->b, left, LLVMConstInt(word, 1, false), "");
	LLVMBuildStore(l->b, left, at);
	LLVMBasicBlockRef out = llvm_block(l, "tired"), on = llvm_block(l, "turn");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLE, left, LLVMConstNull(word), ""), out, on);
	LLVMPositionBuilderAtEnd(l->b, out);
	llvm_host_site(l, false);
	llvm_host_call(l, "simt_steps", l->none, &l->host.thread, 1, HOST_CONVERGENT);
	LLVMBuildBr(l->b, on);
	LLVMPositionBuilderAtEnd(l->b, on);
}

/* ---- primitives ---- */

static int
field_of(PrimKind k)
{
	switch (k) {
	case PRIM_THREAD: return SIMT_FIELD_THREAD;
	case PRIM_LANE: return SIMT_FIELD_LANE;
	case PRIM_BLOCK: return SIMT_FIELD_BLOCK;
	case PRIM_NBLOCKS: return SIMT_FIELD_NBLOCKS;
	case PRIM_CLUSTER_RANK: return SIMT_FIELD_CLUSTER_RANK;
	default: return -1;
	}
}

static LLVMValueRef
immediates(EmitLlvm *l, const int64_t *imm, int n)
{
	LLVMValueRef v[8];
	if (n == 0)
		return LLVMConstNull(l->generic);
	if (n > LEN(v))
		die("a primitive with more than %d immediates", LEN(v));
	for (int i = 0; i < n; i++)
		v[i] = LLVMConstInt(l->type[REG_I64], (uint64_t)imm[i], true);
	return llvm_constant(l, LLVMConstArray2(l->type[REG_I64], v, (uint64_t)n), "constant");
}

static void
store_operands(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in)
{
	need(l, 0, n->nin);
	for (int i = 0; i < n->nin; i++)
		LLVMBuildStore(l->b, word_of(l, in[i], llvm_reg_type(l, n->in[i])), room(l, 0, l->type[REG_I64], i));
}

static void
prim(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const PrimKind k = (PrimKind)n->op;
	const PrimInfo *info = &prim_info[k];
	if (field_of(k) >= 0) {
		out[0] = fixed_field(l, field_of(k), l->type[REG_I32]);
		return;
	}
	store_operands(l, n, in);
	need(l, 1, n->nout);
	llvm_host_site(l, (info->flags & CONV) != 0);
	LLVMValueRef arg[4] = {l->host.thread, l->host.room[0], immediates(l, n->imm, n->nimm), l->host.room[1]};
	llvm_host_call(l, info->simt, l->none, arg, 4, HOST_CONVERGENT);
	for (int i = 0; i < n->nout; i++) {
		LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[REG_I64], room(l, 1, l->type[REG_I64], i), "");
		out[i] = from_word(l, v, llvm_reg_type(l, n->out[i]));
	}
	l->host.waits += k == PRIM_MBAR_POLL;
}

static void
print(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in)
{
	LLVMValueRef *type = NEW_ARRAY(l->mem, LLVMValueRef, n->nin + 1);
	for (int i = 0; i < n->nin; i++)
		type[i] = llvm_i32(l, llvm_reg_type(l, n->in[i]));
	type[n->nin] = llvm_i32(l, 0);
	store_operands(l, n, in);
	llvm_host_site(l, false);
	LLVMValueRef arg[5] = {l->host.thread,
	    llvm_constant(l, LLVMConstStringInContext2(l->cx, n->text, strlen(n->text), false), "constant"),
	    l->host.room[0],
	    llvm_constant(l, LLVMConstArray2(l->type[REG_I32], type, (uint64_t)n->nin + 1), "constant"),
	    llvm_i32(l, n->nin)};
	llvm_host_call(l, "simt_print", l->none, arg, 5, HOST_CONVERGENT);
}

static void
trace(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in)
{
	store_operands(l, n, in);
	llvm_host_site(l, false);
	LLVMValueRef arg[4] = {l->host.thread, llvm_i32(l, n->op), l->host.room[0], llvm_i32(l, n->nin)};
	llvm_host_call(l, "simt_trace", l->none, arg, 4, HOST_CONVERGENT);
}

/* ---- matrix instructions ---- */

/* Registers of 32 bits from number `at` of the operands' room on, or of f64 by a matrix instruction. */
static void
put_registers(EmitLlvm *l, const LLVMValueRef *v, int n, int at)
{
	LLVMTypeRef type = n > 0 && LLVMTypeOf(v[0]) == l->type[REG_F64] ? l->type[REG_I64] : l->type[REG_I32];
	need(l, 0, type == l->type[REG_I64] ? at + n : (at + n + 1) / 2);
	for (int i = 0; i < n; i++)
		LLVMBuildStore(l->b, LLVMBuildBitCast(l->b, v[i], type, ""), room(l, 0, type, at + i));
}

/* A node's results, after the call that makes them. */
static void
take_registers(EmitLlvm *l, const ThreadNode *n, LLVMValueRef *out)
{
	LLVMTypeRef type = l->type[n->type == REG_F64 ? REG_I64 : REG_I32];
	need(l, 1, n->type == REG_F64 ? n->nout : (n->nout + 1) / 2);
	for (int i = 0; i < n->nout; i++) {
		LLVMValueRef v = LLVMBuildLoad2(l->b, type, room(l, 1, type, i), "");
		out[i] = LLVMBuildBitCast(l->b, v, l->type[llvm_reg_type(l, n->out[i])], "");
	}
}

/* A row of a table of this program's. */
static LLVMValueRef
row(EmitLlvm *l, const void *p)
{
	return LLVMConstIntToPtr(LLVMConstInt(l->type[REG_I64], (uint64_t)(uintptr_t)p, false), l->generic);
}

static void
mma(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const MmaWords w = mma_words(n->mma);
	LLVMTypeRef word = l->type[w.word];
	put_registers(l, in, n->nin, 0);
	llvm_host_site(l, true);
	LLVMValueRef arg[6] = {l->host.thread, row(l, n->mma), l->host.room[0], room(l, 0, word, w.a),
	    room(l, 0, word, w.a + w.b), l->host.room[1]};
	llvm_host_call(l, "simt_mma", l->none, arg, 6, HOST_CONVERGENT);
	take_registers(l, n, out);
}

/* A is a descriptor or the address of its words; the accumulator counts as zeros by a flag. */
static void
wgmma(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const int words = wgmma_words((unsigned)n->op), scale = words + 1 + n->nout;
	LLVMValueRef a = in[0], flags = llvm_i32(l, n->op);
	put_registers(l, in + words + 1, n->nout, 0);
	if (words > 1) {
		put_registers(l, in, words, n->nout);
		a = LLVMBuildPtrToInt(l->b, room(l, 0, l->type[REG_I32], n->nout), l->type[REG_I64], "");
	}
	if (scale < n->nin)
		flags = LLVMBuildSelect(l->b, in[scale], flags, llvm_i32(l, n->op | WGMMA_FRESH), "");
	llvm_host_site(l, true);
	LLVMValueRef arg[7] = {l->host.thread, row(l, n->wgmma), a, in[words], flags, l->host.room[0], l->host.room[1]};
	llvm_host_call(l, "simt_wgmma", l->none, arg, 7, HOST_CONVERGENT);
	take_registers(l, n, out);
}

static void
settle(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	put_registers(l, in, n->nin, 0);
	llvm_host_site(l, false);
	LLVMValueRef arg[4] = {l->host.thread, l->host.room[0], l->host.room[1], llvm_i32(l, n->nin)};
	llvm_host_call(l, "simt_settle", l->none, arg, 4, HOST_CONVERGENT);
	take_registers(l, n, out);
}

/* As a number, in a cluster: the block's rank above 24 bits, as a GPU has it. */
static LLVMValueRef
shared_address(EmitLlvm *l, LLVMValueRef v)
{
	LLVMValueRef rank = fixed_field(l, SIMT_FIELD_CLUSTER_RANK, l->type[REG_I32]);
	return LLVMBuildOr(l->b, v, LLVMBuildShl(l->b, rank, llvm_i32(l, 24), ""), "");
}

void
llvm_simt_node(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	switch (n->kind) {
	case NODE_CAST: out[0] = shared_address(l, in[0]); break;
	case NODE_PRIM: prim(l, n, in, out); break;
	case NODE_MMA: mma(l, n, in, out); break;
	case NODE_WGMMA: wgmma(l, n, in, out); break;
	case NODE_SETTLE: settle(l, n, in, out); break;
	case NODE_PRINT: print(l, n, in); break;
	case NODE_TRACE: trace(l, n, in); break;
	default: unreachable();
	}
}
