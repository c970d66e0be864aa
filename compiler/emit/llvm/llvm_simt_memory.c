/* Loads, stores and atomics of a GPU's thread on this machine.
 *
 * Without checks they are plain accesses, shared memory at its block's address.  With checks each asks the emulator
 * first, which looks at it and says where the bytes are:
 *
 *     %p = call ptr @simt_shared_at(ptr %t, i32 %offset, i32 16, i32 SIMT_READ)
 *     %v = load <4 x i32>, ptr %p
 *
 * Accesses come in the pieces in which a GPU makes them: at most 16 bytes, as far as they are known to be aligned. */
#include "emit/llvm/llvm.h"

enum { READ = 1 << 0, WRITE = 1 << 1, ATOMIC = 1 << 2, ACQUIRE = 1 << 5, RELEASE = 1 << 6, VOLATILE = 1 << 7,
       SCOPE_IS_CTA = 1 << 8, SCOPE_IS_CLUSTER = 1 << 9 };

/* Elements that go together. */
static int
piece(const ThreadAccess *at)
{
	int bytes = thread_type_bytes(at->type), n = MIN(at->n, 16 / bytes), align = llvm_align(at);
	while (n > 1 && (n * bytes > align || at->n % n))
		n /= 2;
	return n;
}

/* Where element `first` is, after the emulator was asked if it wants to be; `bytes` are touched. */
static LLVMValueRef
place_of(EmitLlvm *l, const ThreadAccess *at, int first, int bytes, unsigned how)
{
	int64_t constant = at->constant + (int64_t)first * thread_type_bytes(at->type);
	LLVMValueRef p = llvm_address(l, at), offset = LLVMConstInt(l->type[REG_I64], (uint64_t)constant, true);
	bool shared = at->space == SPACE_SHARED;
	if (shared)
		p = LLVMBuildAdd(l->b, p, llvm_i32(l, constant), "");
	else
		p = LLVMBuildGEP2(l->b, l->type[REG_I8], p, &offset, 1, "");
	if (l->opt.checks) {
		llvm_host_site(l, false);
		int known = llvm_align(at), align = first && known > bytes ? bytes : known;
		LLVMValueRef how_much = llvm_i32(l, bytes);
		LLVMValueRef in_shared[4] = {l->host.thread, p, how_much, llvm_i32(l, how)};
		if (shared)
			return llvm_host_call(l, "simt_shared_at", l->generic, in_shared, 4, 0);
		LLVMValueRef in_global[5] = {l->host.thread, LLVMBuildPtrToInt(l->b, p, l->type[REG_I64], ""), how_much,
		    llvm_i32(l, align), llvm_i32(l, how)};
		return llvm_host_call(l, "simt_global_at", l->generic, in_global, 5, 0);
	}
	if (shared) {
		p = LLVMBuildZExt(l->b, p, l->type[REG_I64], "");
		p = LLVMBuildGEP2(l->b, l->type[REG_I8], l->host.shared, &p, 1, "");
	}
	return p;
}

/* The word around the one byte that an atomic changes, which alone is asked about; or what stands in for it. */
static LLVMValueRef
place_of_word(EmitLlvm *l, const ThreadAccess *at, unsigned how)
{
	ThreadAccess byte = {.space = SPACE_GLOBAL, .type = REG_I8, .n = 1, .align = 1, .base = at->changes};
	LLVMValueRef p = llvm_value(l, at->changes), asked = place_of(l, &byte, 0, 1, how);
	LLVMValueRef is_there = LLVMBuildICmp(l->b, LLVMIntEQ, asked, p, "");
	return LLVMBuildSelect(l->b, is_there, llvm_address(l, at), asked, "");
}

/* Code under the access's mask, and then the values from there, or what fills them. */
typedef struct Masked {
	LLVMBasicBlockRef before, after;
} Masked;

static Masked
mask_begin(EmitLlvm *l, const ThreadAccess *at)
{
	Masked m = {0};
	if (llvm_constant_mask(l, at) > 0)
		return m;
	LLVMBasicBlockRef in = llvm_block(l, "access");
	m.before = LLVMGetInsertBlock(l->b);
	m.after = llvm_block(l, "accessed");
	LLVMBuildCondBr(l->b, llvm_value(l, at->mask), in, m.after);
	LLVMPositionBuilderAtEnd(l->b, in);
	return m;
}

static void
mask_end(EmitLlvm *l, Masked m, LLVMValueRef *v, int n, Reg fill)
{
	if (!m.before)
		return;
	LLVMBasicBlockRef end = LLVMGetInsertBlock(l->b);
	LLVMBuildBr(l->b, m.after);
	LLVMPositionBuilderAtEnd(l->b, m.after);
	for (int i = 0; i < n; i++)
		v[i] = llvm_phi(l, v[i], end, fill ? llvm_value(l, fill) : LLVMConstNull(LLVMTypeOf(v[i])), m.before);
}

static LLVMTypeRef
memory_type(EmitLlvm *l, RegType type)
{
	return l->type[type == REG_PRED ? REG_I8 : type];
}

static LLVMTypeRef
piece_type(EmitLlvm *l, RegType type, int n)
{
	return n == 1 ? memory_type(l, type) : LLVMVectorType(memory_type(l, type), (unsigned)n);
}

static unsigned
volatile_flag(EmitLlvm *l, const ThreadAccess *at)
{
	if (at->cache != CACHE_VOLATILE)
		return 0;
	l->host.waits++;
	return VOLATILE;
}

/* Of a piece, element by element where it need not be one access: FastISel knows no vectors. */
static bool
is_by_element(const EmitLlvm *l, const ThreadAccess *at, int n)
{
	return n > 1 && l->host.quick && at->cache != CACHE_VOLATILE;
}

static LLVMValueRef
element_at(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef p, int i)
{
	LLVMValueRef offset = LLVMConstInt(l->type[REG_I64], (uint64_t)i * (uint64_t)thread_type_bytes(at->type), true);
	return i ? LLVMBuildGEP2(l->b, l->type[REG_I8], p, &offset, 1, "") : p;
}

static LLVMValueRef
load_at(EmitLlvm *l, const ThreadAccess *at, LLVMTypeRef type, LLVMValueRef p)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type, p, "");
	LLVMSetAlignment(v, 1);
	LLVMSetVolatile(v, at->cache == CACHE_VOLATILE);
	return v;
}

static void
load_piece(EmitLlvm *l, const ThreadAccess *at, int first, int n, LLVMValueRef *out)
{
	int bytes = n * thread_type_bytes(at->type);
	LLVMValueRef p = place_of(l, at, first, bytes, READ | volatile_flag(l, at)), v = NULL;
	bool apart = is_by_element(l, at, n);
	for (int i = 0; i < n; i++) {
		if (i == 0 || apart)
			v = load_at(l, at, piece_type(l, at->type, apart ? 1 : n), element_at(l, at, p, i));
		out[i] = apart || n == 1 ? v : LLVMBuildExtractElement(l->b, v, llvm_i32(l, i), "");
		if (at->type == REG_PRED)
			out[i] = LLVMBuildICmp(l->b, LLVMIntNE, out[i], LLVMConstNull(l->type[REG_I8]), "");
	}
}

void
llvm_simt_load(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef *out)
{
	if (llvm_constant_mask(l, at) == 0) {
		for (int i = 0; i < at->n; i++)
			out[i] = at->fill ? llvm_value(l, at->fill) : LLVMConstNull(l->type[at->type]);
		return;
	}
	Masked m = mask_begin(l, at);
	for (int i = 0, n = piece(at); i < at->n; i += n)
		load_piece(l, at, i, n, out + i);
	mask_end(l, m, out, at->n, at->fill);
}

static void
store_at(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef v, LLVMValueRef p)
{
	LLVMValueRef store = LLVMBuildStore(l->b, v, p);
	LLVMSetAlignment(store, 1);
	LLVMSetVolatile(store, at->cache == CACHE_VOLATILE);
}

static void
store_piece(EmitLlvm *l, const ThreadAccess *at, int first, int n, const LLVMValueRef *in)
{
	int bytes = n * thread_type_bytes(at->type);
	LLVMValueRef p = place_of(l, at, first, bytes, WRITE | volatile_flag(l, at));
	LLVMValueRef all = LLVMGetPoison(piece_type(l, at->type, n));
	bool apart = n == 1 || is_by_element(l, at, n);
	for (int i = 0; i < n; i++) {
		LLVMValueRef v = in[i];
		if (at->type == REG_PRED)
			v = LLVMBuildZExt(l->b, v, l->type[REG_I8], "");
		if (apart)
			store_at(l, at, v, element_at(l, at, p, i));
		else
			all = LLVMBuildInsertElement(l->b, all, v, llvm_i32(l, i), "");
	}
	if (!apart)
		store_at(l, at, all, p);
}

void
llvm_simt_store(EmitLlvm *l, const ThreadAccess *at, const LLVMValueRef *v)
{
	if (llvm_constant_mask(l, at) == 0)
		return;
	Masked m = mask_begin(l, at);
	for (int i = 0, n = piece(at); i < at->n; i += n)
		store_piece(l, at, i, n, v + i);
	mask_end(l, m, NULL, 0, 0);
}

/* ---- atomics ---- */

static LLVMAtomicRMWBinOp
operation(AtomicKind k, RegType type)
{
	bool real = type == REG_F32 || type == REG_F64;
	switch (k) {
	case ATOMIC_ADD: return real ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
	case ATOMIC_MIN: return LLVMAtomicRMWBinOpMin;
	case ATOMIC_MAX: return LLVMAtomicRMWBinOpMax;
	case ATOMIC_UMIN: return LLVMAtomicRMWBinOpUMin;
	case ATOMIC_UMAX: return LLVMAtomicRMWBinOpUMax;
	case ATOMIC_AND: return LLVMAtomicRMWBinOpAnd;
	case ATOMIC_OR: return LLVMAtomicRMWBinOpOr;
	case ATOMIC_XOR: return LLVMAtomicRMWBinOpXor;
	case ATOMIC_EXCHANGE: return LLVMAtomicRMWBinOpXchg;
	case ATOMIC_CAS: break;
	}
	unreachable();
}

/* The sums of floats of 16 bits are the emulator's. */
static LLVMValueRef
add_half(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef p, LLVMValueRef v)
{
	const char *name = arena_printf(
	    l->mem, "simt_add_%s%s", at->type == REG_F16 ? "f16" : "bf16", at->n == 2 ? "x2" : "");
	LLVMValueRef arg[2] = {p, v};
	return llvm_host_call(l, name, LLVMTypeOf(v), arg, 2, 0);
}

/* Two sums; what was there is not asked for. */
static LLVMValueRef
add_pair(EmitLlvm *l, LLVMValueRef p, LLVMValueRef v)
{
	LLVMValueRef one = llvm_i32(l, 1);
	for (int i = 0; i < 2; i++) {
		LLVMValueRef bits = LLVMBuildLShr(l->b, v, LLVMConstInt(l->type[REG_I64], (unsigned)i * 32, false), "");
		bits = LLVMBuildTrunc(l->b, bits, l->type[REG_I32], "");
		LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpFAdd, p, LLVMBuildBitCast(l->b, bits, l->type[REG_F32], ""),
		    LLVMAtomicOrderingSequentiallyConsistent, false);
		p = LLVMBuildGEP2(l->b, l->type[REG_F32], p, &one, 1, "");
	}
	return LLVMConstNull(l->type[REG_I64]);
}

static LLVMValueRef
change(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, LLVMValueRef p, LLVMValueRef v, LLVMValueRef compare)
{
	LLVMAtomicOrdering order = LLVMAtomicOrderingSequentiallyConsistent;
	if (at->type == REG_F16 || at->type == REG_BF16)
		return add_half(l, at, p, v);
	if (at->n == 2)
		return add_pair(l, p, v);
	if (k != ATOMIC_CAS)
		return LLVMBuildAtomicRMW(l->b, operation(k, at->type), p, v, order, false);
	LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->b, p, compare, v, order, order, false);
	return LLVMBuildExtractValue(l->b, pair, 0, "");
}

/* Tells the checks that an atomic operation at p in global memory has acquired. */
static void
acquired(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef p, unsigned how)
{
	if (!l->opt.checks || at->space == SPACE_SHARED || !(how & ACQUIRE))
		return;
	LLVMValueRef in[3] = {l->host.thread, LLVMBuildPtrToInt(l->b, p, l->type[REG_I64], ""), llvm_i32(l, how)};
	llvm_host_call(l, "simt_acquired", l->none, in, 3, 0);
}

LLVMValueRef
llvm_simt_atomic(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, LLVMValueRef v, LLVMValueRef compare)
{
	RegType type = thread_atomic_type(at);
	LLVMValueRef old = LLVMConstNull(l->type[type]);
	unsigned how = READ | WRITE | ATOMIC;
	if (at->order == ORDER_ACQUIRE || at->order == ORDER_ACQ_REL)
		how |= ACQUIRE;
	if (at->order == ORDER_RELEASE || at->order == ORDER_ACQ_REL)
		how |= RELEASE;
	how |= at->scope == SCOPE_CTA ? SCOPE_IS_CTA : at->scope == SCOPE_CLUSTER ? SCOPE_IS_CLUSTER : 0;
	if (llvm_constant_mask(l, at) != 0) {
		Masked m = mask_begin(l, at);
		bool word = at->changes && l->opt.checks;
		LLVMValueRef p = word ? place_of_word(l, at, how) : place_of(l, at, 0, thread_type_bytes(type), how);
		old = change(l, k, at, p, v, compare);
		acquired(l, at, word ? llvm_value(l, at->changes) : p, how);
		mask_end(l, m, &old, 1, 0);
	}
	l->host.waits++;
	return old;
}
