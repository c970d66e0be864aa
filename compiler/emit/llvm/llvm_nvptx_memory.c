/* Memory: loads, stores and atomics of a thread.
 *
 * A plain access is LLVM's own load or store.  A masked access, or one with a cache hint, is PTX
 * text under a predicate:
 *
 *     mov.b32 $0, 0;  mov.b32 $1, 0;  @$3 ld.global.v2.b32 {$0, $1}, [$2+16];
 *
 * A branch would do the same, but ptxas schedules straight code better and LLVM is faster with few
 * blocks.  Elements of less than 32 bits travel as words.  Addresses: the constant part stays in
 * the instruction. */
#include "emit/llvm/llvm.h"

#include <stdlib.h>
#include <string.h>

/* How an access travels: `n` units of type `unit`, each of `per` elements. */
typedef struct Units {
	RegType unit;
	int n, per;
} Units;

static Units
units(const ThreadAccess *at)
{
	int bytes = thread_type_bytes(at->type), all = bytes * at->n;
	if (at->type == REG_PRED)
		return (Units){REG_I8, at->n, 1};
	if (bytes < 4 && all % 4 == 0 && all >= 4 && llvm_align(at) >= 4)
		return (Units){REG_I32, all / 4, 4 / bytes};
	return (Units){at->type, at->n, 1};
}

/* LLVM's pointers into shared memory have 64 bits.  It is not to see that these are extended: CodeGenPrepare makes uses of
 * an address in another block ones of the extended address, one use in each of its rounds over the whole kernel, and took
 * more time for that than all else together. */
static LLVMValueRef
shared_pointer(EmitLlvm *l, LLVMValueRef address)
{
	LlvmAsm a = {.l = l};
	LLVMValueRef wide;
	if (LLVMIsConstant(address))
		return LLVMBuildIntToPtr(l->b, address, LLVMPointerTypeInContext(l->cx, 3), "");
	llvm_asm_result(&a, REG_I64);
	llvm_asm_in(&a, address, REG_SHARED);
	text_put(&a.text, "cvt.u64.u32 $0, $1;");
	llvm_asm_make(&a, 0, &wide);
	return LLVMBuildIntToPtr(l->b, wide, LLVMPointerTypeInContext(l->cx, 3), "");
}

/* The whole address as LLVM's pointer. */
static LLVMValueRef
place_of(EmitLlvm *l, const ThreadAccess *at)
{
	LLVMValueRef p = llvm_address(l, at),
		     constant = LLVMConstInt(l->type[REG_I64], (uint64_t)at->constant, true);
	if (at->space == SPACE_SHARED)
		p = shared_pointer(l, p);
	return at->constant ? LLVMBuildGEP2(l->b, l->type[REG_I8], p, &constant, 1, "") : p;
}

static bool
is_plain(const ThreadAccess *at)
{
	return at->cache == CACHE_NONE || at->cache == CACHE_READ_ONLY;
}

static LLVMTypeRef
access_type(EmitLlvm *l, Units u)
{
	return u.n == 1 ? l->type[u.unit] : LLVMVectorType(l->type[u.unit], (unsigned)u.n);
}

/* PTX's read-only loads are of memory that stays constant while the kernel runs.  A kernel that waits for the grid before
 * it runs while that one may still write, and ptxas moves such loads up past the wait. */
static bool
has_read_only_loads(const EmitLlvm *l)
{
	return !(l->target->has & HAS_GRID_WAIT);
}

static void
mark_invariant(EmitLlvm *l, LLVMValueRef load)
{
	unsigned kind = LLVMGetMDKindIDInContext(l->cx, "invariant.load", 14);
	LLVMMetadataRef none = LLVMMDNodeInContext2(l->cx, NULL, 0);
	LLVMSetMetadata(load, kind, LLVMMetadataAsValue(l->cx, none));
}

/* Two bytes in one register: of a load of two LLVM's code has a register each, which is then taken apart. */
static bool
is_pair(const ThreadAccess *at, Units u)
{
	return u.unit == REG_I8 && u.n == 2 && at->type == REG_I8 && llvm_align(at) >= 2;
}

static void
load_plain(EmitLlvm *l, const ThreadAccess *at, Units u, LLVMValueRef *out)
{
	LLVMTypeRef type = is_pair(at, u) ? l->type[REG_I16] : access_type(l, u);
	LLVMValueRef v = LLVMBuildLoad2(l->b, type, place_of(l, at), "");
	LLVMSetAlignment(v, (unsigned)llvm_align(at));
	if (at->cache == CACHE_READ_ONLY && has_read_only_loads(l))
		mark_invariant(l, v);
	if (is_pair(at, u))
		llvm_split_half(l, v, out);
	for (int i = 0; i < u.n && !is_pair(at, u); i++)
		out[i] = u.n == 1 ? v : LLVMBuildExtractElement(l->b, v, llvm_i32(l, i), "");
}

/* ".v2.b32 " and the like, of n units. */
static void
put_width(Text *t, int n, int bytes)
{
	if (n > 1)
		text_printf(t, ".v%d", n);
	text_printf(t, ".b%d ", 8 * bytes);
}

static void
put_list(Text *t, int from, int n)
{
	text_put(t, n > 1 ? "{" : "");
	for (int i = 0; i < n; i++)
		text_printf(t, "%s$%d", i ? ", " : "", from + i);
	text_put(t, n > 1 ? "}" : "");
}

/* The cache hint of an instruction: eviction priorities on L1 came with PTX 7.4. */
static const char *
hint(EmitLlvm *l, const ThreadAccess *at, bool is_load)
{
	const char *ptx = strstr(l->target->features, "+ptx");
	int version = ptx ? atoi(ptx + 4) : 0;
	if (at->space != SPACE_GLOBAL)
		return "";
	switch (at->cache) {
	case CACHE_STREAM: return version >= 74 ? ".L1::evict_first" : ".cs";
	case CACHE_KEEP: return version >= 74 ? ".L1::evict_last" : "";
	case CACHE_READ_ONLY: return is_load && has_read_only_loads(l) ? ".nc" : "";
	default: return "";
	}
}

static RegType
address_type(const ThreadAccess *at)
{
	return at->space == SPACE_SHARED ? REG_SHARED : REG_GLOBAL;
}

static const char *
space(const ThreadAccess *at)
{
	return at->space == SPACE_SHARED ? "shared" : "global";
}

/* As many units as one instruction takes: 16 bytes, but of 4 units at most. */
static int
in_one(Units u)
{
	int most = MIN(4, 16 / thread_type_bytes(u.unit));
	return MIN(u.n, most);
}

/* A unit of what a load leaves where its mask is false; NULL: zero. */
static LLVMValueRef
fill_of(EmitLlvm *l, const ThreadAccess *at, Units u)
{
	enum { PER_MOST = 4 };
	LLVMValueRef fill = at->fill ? llvm_value(l, at->fill) : NULL;
	LLVMValueRef each[PER_MOST] = {fill, fill, fill, fill};
	return fill && u.per > 1 ? llvm_word(l, each, at->type, u.per) : fill;
}

/* What is not loaded under a mask is set before: a choice behind the load would hold a predicate until it is there, of
 * which a thread has seven, so that ptxas begins so many loads together at most. */
static void
put_access(EmitLlvm *l, const ThreadAccess *at, Units u, int first, int n, LLVMValueRef p, LLVMValueRef *v, bool loads)
{
	LlvmAsm a = {.l = l};
	int bytes = thread_type_bytes(u.unit);
	bool masked = llvm_constant_mask(l, at) < 0;
	LLVMValueRef fill = masked && loads ? fill_of(l, at, u) : NULL;
	for (int i = 0; i < n && loads; i++) {
		llvm_asm_result(&a, u.unit);
		if (masked && !fill)
			text_printf(&a.text, "mov.b%d $%d, 0; ", MAX(16, 8 * bytes), i);
		else if (masked)
			text_printf(&a.text, "mov.b%d $%d, $%d; ", MAX(16, 8 * bytes), i, n + 2);
	}
	llvm_asm_in(&a, p, address_type(at));
	for (int i = 0; i < n && !loads; i++)
		llvm_asm_in(&a, v[i], u.unit);
	if (masked) {
		llvm_asm_in(&a, llvm_value(l, at->mask), REG_PRED);
		text_printf(&a.text, "@$%d ", n + 1);
	}
	if (fill)
		llvm_asm_in(&a, fill, u.unit);
	text_printf(&a.text, "%s.%s%s%s", loads ? "ld" : "st", at->cache == CACHE_VOLATILE ? "volatile." : "", space(at),
	    hint(l, at, loads));
	put_width(&a.text, n, bytes);
	if (loads)
		put_list(&a.text, 0, n);
	text_printf(&a.text, "%s[$%d+%lld]%s", loads ? ", " : "", loads ? n : 0,
	    (long long)at->constant + (long long)first * bytes, loads ? "" : ", ");
	if (!loads)
		put_list(&a.text, 1, n);
	text_put(&a.text, ";");
	llvm_asm_make(&a, !loads ? ASM_MEMORY : at->cache == CACHE_READ_ONLY ? 0 : ASM_EFFECT, loads ? v : NULL);
}

/* Elements are aligned to themselves; pieces of `n` units are only made where the access is aligned
 * for them. */
static int
piece(const ThreadAccess *at, Units u)
{
	int n = in_one(u), bytes = thread_type_bytes(u.unit), align = llvm_align(at);
	while (n > 1 && n * bytes > align)
		n /= 2;
	return n;
}

void
llvm_nvptx_load(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef *out)
{
	Units u = units(at);
	LLVMValueRef *word;
	int mask = llvm_constant_mask(l, at);
	word = NEW_ARRAY(l->mem, LLVMValueRef, u.n);
	if (mask == 0) {
		for (int i = 0; i < u.n; i++)
			word[i] = at->fill ? fill_of(l, at, u) : LLVMConstNull(l->type[u.unit]);
	} else if (mask == 1 && is_plain(at)) {
		load_plain(l, at, u, word);
	} else {
		LLVMValueRef p = llvm_address(l, at);
		for (int i = 0, n = piece(at, u); i < u.n; i += n)
			put_access(l, at, u, i, n, p, word + i, true);
	}
	for (int i = 0; i < u.n; i++) {
		if (u.per > 1)
			llvm_split(l, word[i], at->type, &out[i * u.per], u.per);
		else if (at->type == REG_PRED)
			out[i] = LLVMBuildICmp(l->b, LLVMIntNE, word[i], LLVMConstNull(l->type[REG_I8]), "");
		else
			out[i] = word[i];
	}
}

/* A store of a part of a register, which LLVM makes of a truncation, ptxas 13.0 takes for a conversion of the number in it
 * where an instruction of floats wrote it (`add.f32 %r1, …; st.b8 [p], %r1` becomes F2I).  A mov makes it bits. */
static LLVMValueRef
as_bits(EmitLlvm *l, LLVMValueRef v, RegType unit)
{
	LlvmAsm a = {.l = l};
	LLVMValueRef bits, from = LLVMIsABitCastInst(v) ? LLVMGetOperand(v, 0) : v;
	if (LLVMIsConstant(v) || !(unit == REG_I8 || unit == REG_I16 || LLVMIsATruncInst(from)))
		return v;
	llvm_asm_result(&a, unit);
	llvm_asm_in(&a, v, unit);
	text_printf(&a.text, "mov.b%d $0, $1;", MAX(16, 8 * thread_type_bytes(unit)));
	llvm_asm_make(&a, 0, &bits);
	return bits;
}

static void
store_plain(EmitLlvm *l, const ThreadAccess *at, Units u, LLVMValueRef *v)
{
	for (int i = 0; i < u.n; i++)
		v[i] = as_bits(l, v[i], u.unit);
	LLVMValueRef all = v[0];
	if (u.n > 1) {
		all = LLVMGetPoison(access_type(l, u));
		for (int i = 0; i < u.n; i++)
			all = LLVMBuildInsertElement(l->b, all, v[i], llvm_i32(l, i), "");
	}
	LLVMSetAlignment(LLVMBuildStore(l->b, all, place_of(l, at)), (unsigned)llvm_align(at));
}

void
llvm_nvptx_store(EmitLlvm *l, const ThreadAccess *at, const LLVMValueRef *v)
{
	Units u = units(at);
	int mask = llvm_constant_mask(l, at);
	LLVMValueRef *word = NEW_ARRAY(l->mem, LLVMValueRef, u.n);
	if (mask == 0)
		return;
	for (int i = 0; i < u.n; i++) {
		word[i] = u.per > 1 ? llvm_word(l, v + i * u.per, at->type, u.per) : v[i];
		if (at->type == REG_PRED)
			word[i] = LLVMBuildZExt(l->b, word[i], l->type[REG_I8], "");
	}
	if (mask == 1 && is_plain(at)) {
		store_plain(l, at, u, word);
		return;
	}
	LLVMValueRef p = llvm_address(l, at);
	for (int i = 0, n = piece(at, u); i < u.n; i += n)
		put_access(l, at, u, i, n, p, word + i, false);
}

/* atomics */

static const char *const atomic_name[] = {[ATOMIC_ADD] = "add",
    [ATOMIC_MIN] = "min",
    [ATOMIC_MAX] = "max",
    [ATOMIC_UMIN] = "min",
    [ATOMIC_UMAX] = "max",
    [ATOMIC_AND] = "and",
    [ATOMIC_OR] = "or",
    [ATOMIC_XOR] = "xor",
    [ATOMIC_EXCHANGE] = "exch",
    [ATOMIC_CAS] = "cas"};
static const char *const order_name[] = {[ORDER_RELAXED] = "relaxed",
    [ORDER_ACQUIRE] = "acquire",
    [ORDER_RELEASE] = "release",
    [ORDER_ACQ_REL] = "acq_rel"};
static const char *const scope_name[] = {
    [SCOPE_GPU] = "gpu", [SCOPE_CTA] = "cta", [SCOPE_CLUSTER] = "cluster", [SCOPE_SYS] = "sys"};

/* The type as PTX writes it in an atomic operation. */
static const char *
atomic_type(AtomicKind k, const ThreadAccess *at)
{
	int bits = 8 * thread_type_bytes(at->type);
	switch (at->type) {
	case REG_F16: return at->n == 2 ? "noftz.f16x2" : "noftz.f16";
	case REG_BF16: return at->n == 2 ? "noftz.bf16x2" : "noftz.bf16";
	case REG_F32: return "f32";
	case REG_F64: return "f64";
	default: break;
	}
	if (k == ATOMIC_AND || k == ATOMIC_OR || k == ATOMIC_XOR || k == ATOMIC_EXCHANGE ||
	    k == ATOMIC_CAS)
		return bits == 16 ? "b16" : bits == 32 ? "b32" : "b64";
	if (k == ATOMIC_MIN || k == ATOMIC_MAX)
		return bits == 32 ? "s32" : "s64";
	return bits == 32 ? "u32" : "u64";
}

static LLVMValueRef
atomic_text(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, RegType type, LLVMValueRef v,
    LLVMValueRef compare)
{
	LlvmAsm a = {.l = l};
	LLVMValueRef old;
	int n = 2, bits = 8 * thread_type_bytes(type);
	bool masked = llvm_constant_mask(l, at) < 0;
	llvm_asm_result(&a, type);
	llvm_asm_in(&a, llvm_address(l, at), address_type(at));
	if (compare)
		llvm_asm_in(&a, compare, type), n++;
	llvm_asm_in(&a, v, type);
	if (masked) {
		llvm_asm_in(&a, llvm_value(l, at->mask), REG_PRED);
		text_printf(&a.text, "mov.b%d $0, 0; @$%d ", bits, n + 1);
	}
	text_printf(&a.text, "atom.%s.%s.%s.%s.%s $0, [$1+%lld], $2%s;", order_name[at->order],
	    scope_name[at->scope], space(at), atomic_name[k], atomic_type(k, at),
	    (long long)at->constant, compare ? ", $3" : "");
	llvm_asm_make(&a, ASM_MEMORY, &old);
	return old;
}

/* Two of f32, of which is not asked what was there.  A reduction orders nothing behind it: PTX has `red` relaxed and as a
 * release alone (PTX ISA, `red`). */
static LLVMValueRef
add_pair(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef v)
{
	LlvmAsm a = {.l = l};
	bool masked = llvm_constant_mask(l, at) < 0, reduces = at->order == ORDER_RELAXED || at->order == ORDER_RELEASE;
	llvm_asm_in(&a, llvm_address(l, at), address_type(at));
	llvm_asm_in(&a, v, REG_I64);
	if (masked)
		llvm_asm_in(&a, llvm_value(l, at->mask), REG_PRED);
	text_printf(&a.text, "{ .reg .b32 lo, hi; mov.b64 {lo, hi}, $1; %s%s.%s.%s.%s.add.v2.f32 %s[$0+%lld], {lo, hi}; }",
	    masked ? "@$2 " : "", reduces ? "red" : "atom", order_name[at->order], scope_name[at->scope], space(at),
	    reduces ? "" : "{lo, hi}, ", (long long)at->constant);
	llvm_asm_make(&a, ASM_MEMORY, NULL);
	return LLVMConstNull(l->type[REG_I64]);
}

LLVMValueRef
llvm_nvptx_atomic(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, LLVMValueRef v, LLVMValueRef compare)
{
	RegType type = thread_atomic_type(at);
	if (llvm_constant_mask(l, at) == 0)
		return LLVMConstNull(l->type[type]);
	if (at->n == 2 && at->type == REG_F32)
		return add_pair(l, at, v);
	return atomic_text(l, k, at, type, v, compare);
}
