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
 * Loops count their turns down, so that one that never ends is found and others get their turn. */
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

static void
attribute(EmitLlvm *l, LLVMValueRef fn, const char *name)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
	LLVMAddAttributeAtIndex(
	    fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(l->cx, kind, 0));
}

LLVMValueRef
llvm_host_call(EmitLlvm *l, const char *name, LLVMTypeRef result, LLVMValueRef *arg, int n, unsigned flags)
{
	LLVMValueRef fn = LLVMGetNamedFunction(l->m, name);
	LLVMTypeRef *types = NEW_ARRAY(l->e.mem, LLVMTypeRef, n);
	for (int i = 0; i < n; i++)
		types[i] = LLVMTypeOf(arg[i]);
	LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, false);
	if (!fn) {
		fn = LLVMAddFunction(l->m, name, type);
		attribute(l, fn, "nounwind");
		if (flags & HOST_CONVERGENT)
			attribute(l, fn, "convergent");
		if (flags & HOST_PURE) {
			attribute(l, fn, "memory"); /* value 0: none */
			attribute(l, fn, "willreturn");
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
		vec_push(l->e.mem, &h->site, h->at);
	}
	LLVMBuildStore(l->b, llvm_i32(l, h->here), field(l, THREAD_SITE));
}

static void
place(Emitter *e, Place at)
{
	LlvmHost *h = &llvm_state(e)->host;
	llvm_state(e)->at = at;
	if (at.file < 0 || (at.file == h->at.file && at.line == h->at.line && at.col == h->at.col))
		return;
	h->at = at;
	h->here = -1;
	for (int i = h->site.n - 1; i >= 0 && h->here < 0 && i > h->site.n - 64; i--)
		if (h->site.at[i].file == at.file && h->site.at[i].line == at.line && h->site.at[i].col == at.col)
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

static void
kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	EmitLlvm *l = llvm_state(e);
	LLVMTypeRef types[2] = {l->generic, l->generic};
	e->kernel = *k;
	l->fn = LLVMAddFunction(l->m, "kernel", LLVMFunctionType(l->none, types, 2, false));
	/* a frame larger than the guard page behind the stack touches it all the same */
	LLVMAddTargetDependentFunctionAttr(l->fn, "probe-stack", "inline-asm");
	attribute(l, l->fn, "nounwind");
	attribute(l, l->fn, "convergent");
	l->host.thread = LLVMGetParam(l->fn, 0);
	l->host.param = LLVMGetParam(l->fn, 1);
	LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->cx, l->fn, "entry"));
	make_room(l);
	for (int i = 0; i < k->nparam; i++) {
		LLVMValueRef at = llvm_i32(l, i);
		LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[REG_I64],
		    LLVMBuildGEP2(l->b, l->type[REG_I64], l->host.param, &at, 1, ""), k->param[i].name);
		mark(l, v, "invariant.load");
		param[i] = llvm_add(l, k->param[i].type, from_word(l, v, k->param[i].type));
	}
	l->host.shared = fixed_field(l, THREAD_SHARED, l->generic);
	*shared = llvm_add(l, REG_SHARED, llvm_i32(l, 0));
}

static void
kernel_end(Emitter *e)
{
	EmitLlvm *l = llvm_state(e);
	if (l->region.n)
		die("the kernel ends inside a region");
	LLVMBuildRetVoid(l->b);
	for (int i = 0; i < 2; i++) {
		LLVMPositionBuilderBefore(l->b, l->host.room[i]);
		LLVMTypeRef all = LLVMArrayType2(l->type[REG_I64], (uint64_t)MAX(l->host.words[i], 1));
		LLVMValueRef better = LLVMBuildAlloca(l->b, all, "");
		LLVMReplaceAllUsesWith(l->host.room[i], better);
		LLVMInstructionEraseFromParent(l->host.room[i]);
	}
}

static void
trap(Emitter *e)
{
	EmitLlvm *l = llvm_state(e);
	llvm_host_site(l, false);
	llvm_host_call(l, "simt_trap", l->none, &l->host.thread, 1, 0);
}

/* ---- loops ---- */

void
llvm_host_spins(EmitLlvm *l)
{
	for (int i = 0; i < l->region.n; i++)
		l->region.at[i].spins = true;
}

void
llvm_host_turn(EmitLlvm *l, bool spins)
{
	if (spins) {
		llvm_host_site(l, false);
		llvm_host_call(l, "simt_spin", l->none, &l->host.thread, 1, HOST_CONVERGENT);
		return;
	}
	LLVMTypeRef word = l->type[REG_I64];
	LLVMValueRef at = field(l, THREAD_STEPS), left = LLVMBuildLoad2(l->b, word, at, "");
	left = LLVMBuildSub(l->b, left, LLVMConstInt(word, 1, false), "");
	LLVMBuildStore(l->b, left, at);
	LLVMBasicBlockRef out = LLVMAppendBasicBlockInContext(l->cx, l->fn, "tired"),
			  on = LLVMAppendBasicBlockInContext(l->cx, l->fn, "turn");
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
	case PRIM_THREAD: return THREAD_THREAD;
	case PRIM_LANE: return THREAD_LANE;
	case PRIM_BLOCK: return THREAD_BLOCK;
	case PRIM_NBLOCKS: return THREAD_NBLOCKS;
	case PRIM_CLUSTER_RANK: return THREAD_CLUSTER_RANK;
	default: return -1;
	}
}

static RegType
result_type(PrimKind k)
{
	bool truth = k == PRIM_VOTE_ANY || k == PRIM_VOTE_ALL || strstr(prim_info[k].ptx, "%q0");
	return truth ? REG_PRED : REG_I32;
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
store_operands(EmitLlvm *l, const Reg *in, int n)
{
	need(l, 0, n);
	for (int i = 0; i < n; i++)
		LLVMBuildStore(l->b, word_of(l, llvm_value(l, in[i]), llvm_reg_type(l, in[i])),
		    room(l, 0, l->type[REG_I64], i));
}

static void
prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	EmitLlvm *l = llvm_state(e);
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout, nin, nout);
	if (info->needs & ~e->target->has)
		die("%s: %s has it not", info->text, e->target->name);
	if (field_of(k) >= 0) {
		out[0] = llvm_add(l, REG_I32, fixed_field(l, field_of(k), l->type[REG_I32]));
		return;
	}
	store_operands(l, in, nin);
	need(l, 1, nout);
	llvm_host_site(l, (info->flags & CONV) != 0);
	LLVMValueRef arg[4] = {l->host.thread, l->host.room[0], immediates(l, imm, nimm), l->host.room[1]};
	llvm_host_call(l, info->simt, l->none, arg, 4, HOST_CONVERGENT);
	for (int i = 0; i < nout; i++) {
		LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[REG_I64], room(l, 1, l->type[REG_I64], i), "");
		out[i] = llvm_add(l, result_type(k), from_word(l, v, result_type(k)));
	}
	if (k == PRIM_MBAR_POLL)
		llvm_host_spins(l);
}

static void
print(Emitter *e, const char *format, const Reg *v, int n)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef *type = NEW_ARRAY(e->mem, LLVMValueRef, n + 1);
	for (int i = 0; i < n; i++)
		type[i] = llvm_i32(l, llvm_reg_type(l, v[i]));
	type[n] = llvm_i32(l, 0);
	store_operands(l, v, n);
	llvm_host_site(l, false);
	LLVMValueRef arg[5] = {l->host.thread,
	    llvm_constant(l, LLVMConstStringInContext2(l->cx, format, strlen(format), false), "constant"), l->host.room[0],
	    llvm_constant(l, LLVMConstArray2(l->type[REG_I32], type, (uint64_t)n + 1), "constant"), llvm_i32(l, n)};
	llvm_host_call(l, "simt_print", l->none, arg, 5, HOST_CONVERGENT);
}

static void
trace(Emitter *e, int number, const Reg *v, int n)
{
	EmitLlvm *l = llvm_state(e);
	store_operands(l, v, n);
	llvm_host_site(l, false);
	LLVMValueRef arg[4] = {l->host.thread, llvm_i32(l, number), l->host.room[0], llvm_i32(l, n)};
	llvm_host_call(l, "simt_trace", l->none, arg, 4, HOST_CONVERGENT);
}

/* ---- matrix instructions ---- */

/* Registers of 32 bits from number `at` of a room on. */
static void
put_registers(EmitLlvm *l, const Reg *v, int n, int at)
{
	need(l, 0, (at + n + 1) / 2);
	for (int i = 0; i < n; i++) {
		LLVMValueRef bits = LLVMBuildBitCast(l->b, llvm_value(l, v[i]), l->type[REG_I32], "");
		LLVMBuildStore(l->b, bits, room(l, 0, l->type[REG_I32], at + i));
	}
}

static void
take_registers(EmitLlvm *l, RegType type, Reg *out, int n)
{
	for (int i = 0; i < n; i++) {
		LLVMValueRef v = LLVMBuildLoad2(l->b, l->type[REG_I32], room(l, 1, l->type[REG_I32], i), "");
		out[i] = llvm_add(l, type, LLVMBuildBitCast(l->b, v, l->type[type], ""));
	}
}

/* A row of a table of this program's. */
static LLVMValueRef
row(EmitLlvm *l, const void *p)
{
	return LLVMConstIntToPtr(LLVMConstInt(l->type[REG_I64], (uint64_t)(uintptr_t)p, false), l->generic);
}

static void
mma(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	EmitLlvm *l = llvm_state(e);
	LLVMTypeRef word = l->type[REG_I32];
	MmaWords w = mma_words(i);
	put_registers(l, a, w.a, 0);
	put_registers(l, b, w.b, w.a);
	put_registers(l, c, w.c, w.a + w.b);
	need(l, 1, (w.c + 1) / 2);
	llvm_host_site(l, true);
	LLVMValueRef arg[6] = {l->host.thread, row(l, i), l->host.room[0], room(l, 0, word, w.a),
	    room(l, 0, word, w.a + w.b), l->host.room[1]};
	llvm_host_call(l, "simt_mma", l->none, arg, 6, HOST_CONVERGENT);
	take_registers(l, i->acc == TY_F32 ? REG_F32 : REG_I32, out, w.c);
}

/* A is a descriptor or the address of its words; the accumulator counts as zeros by a flag. */
static void
wgmma(Emitter *e, const Wgmma *w, Reg *out)
{
	EmitLlvm *l = llvm_state(e);
	const WgmmaInfo *i = w->info;
	int n = i->n / 2, words = wgmma_words(w->flags);
	LLVMValueRef flags = llvm_i32(l, (int)w->flags);
	put_registers(l, w->c, n, 0);
	if (words > 1)
		put_registers(l, w->a, words, n);
	need(l, 1, (n + 1) / 2);
	if (w->scale)
		flags = LLVMBuildSelect(l->b, llvm_value(l, w->scale), flags, llvm_i32(l, (int)w->flags | WGMMA_FRESH), "");
	llvm_host_site(l, true);
	LLVMValueRef a = words > 1
	    ? LLVMBuildPtrToInt(l->b, room(l, 0, l->type[REG_I32], n), l->type[REG_I64], "") : llvm_value(l, w->a[0]);
	LLVMValueRef arg[7] = {l->host.thread, row(l, i), a, llvm_value(l, w->b), flags, l->host.room[0], l->host.room[1]};
	llvm_host_call(l, "simt_wgmma", l->none, arg, 7, HOST_CONVERGENT);
	take_registers(l, i->acc == TY_F32 ? REG_F32 : REG_I32, out, n);
}

static void
settle(Emitter *e, const Reg *v, Reg *out, int n)
{
	EmitLlvm *l = llvm_state(e);
	put_registers(l, v, n, 0);
	need(l, 1, (n + 1) / 2);
	llvm_host_site(l, false);
	LLVMValueRef arg[4] = {l->host.thread, l->host.room[0], l->host.room[1], llvm_i32(l, n)};
	llvm_host_call(l, "simt_settle", l->none, arg, 4, HOST_CONVERGENT);
	take_registers(l, llvm_reg_type(l, v[0]), out, n);
}

void
llvm_simt_open(EmitLlvm *l)
{
	Emitter *e = &l->e;
	l->type[REG_F16] = l->type[REG_BF16] = l->type[REG_I16];
	vec_push(e->mem, &l->host.site, NOWHERE);
	l->host.at = NOWHERE;
	e->place = place;
	e->kernel_begin = kernel_begin;
	e->kernel_end = kernel_end;
	e->trap = trap;
	e->prim = prim;
	e->print = print;
	e->trace = trace;
	e->mma = mma;
	if (e->target->has & HAS_WGMMA) {
		e->wgmma = wgmma;
		e->settle = settle;
	}
	llvm_simt_value_open(l);
	llvm_simt_memory_open(l);
}
