/* Every kind of node, for every target: LLVM takes what is written of it, and ptxas, where there is one, takes the PTX that
 * comes out. */
#include "compile/compile.h"
#include "emit/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What LLVM held when it gave up is left alone, on purpose. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_FOUND
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LEAKS_ARE_FOUND
#endif
#ifdef LEAKS_ARE_FOUND
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable() ((void)0)
#define __lsan_enable() ((void)0)
#endif

typedef struct Bench {
	Arena *mem;
	const Target *t;
	ThreadBuilder *to;
	Reg in, out, shared, n;                         /* pointers in and out, i32 n */
	Reg offset;                                     /* of this thread in out, moved on by every keep */
	int kept;
} Bench;

static bool
have_ptxas(void)
{
	return system("PATH=$PATH:/usr/local/cuda/bin command -v ptxas >/dev/null 2>&1") == 0;
}

static void
begin(Bench *b, const Target *t)
{
	static const ThreadParam param[] = {
	    {.name = "in", .type = REG_GLOBAL, .is_read_only = true, .align = 16},
	    {.name = "out", .type = REG_GLOBAL, .align = 16}, {.name = "n", .type = REG_I32}};
	const ThreadKernel k = {"probe", param, LEN(param), 128, 1, 4096, 1024, 0};
	Reg r[3];
	*b = (Bench){.mem = arena_open(), .t = t};
	b->to = thread_open(b->mem, t, false);
	thread_kernel(b->to, &k, r, &b->shared);
	b->in = r[0];
	b->out = r[1];
	b->n = r[2];
}

/* Into the output, so that it is not dropped. */
static void
keep(Bench *b, Reg v)
{
	ThreadBuilder *to = b->to;
	RegType type = thread_type_of(to, v);
	if (type == REG_SHARED || type == REG_GLOBAL)
		v = thread_cast(to, CAST_BITS, type = type == REG_SHARED ? REG_I32 : REG_I64, v);
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = type, .n = 1, .base = b->out, .constant = 8 * b->kept++,
	    .align = 8};
	thread_store(to, &at, &v);
}

static Reg
get(Bench *b, RegType type)
{
	ThreadBuilder *to = b->to;
	Reg r;
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = type, .n = 1, .base = b->in, .constant = 8 * b->kept++,
	    .align = 8};
	if (type == REG_SHARED)
		return thread_pointer(to, b->shared, b->n);
	thread_load(to, &at, &r);
	return r;
}

/* Whether the text was taken for a target before that one: what PTX says for a chip holds for later ones. */
static bool
was_taken(const Target *t, const Text *ptx)
{
	static char *last;
	const char *body = strstr(ptx->at, ".address_size");
	bool is_same = last && body && strncmp(t->name, "sm_8", 4) == 0 && strcmp(last, body) == 0;
	free(last);
	last = body ? strdup(body) : NULL;
	return is_same;
}

/* Without optimisation: that it takes the text is all that is asked. */
static void
ptxas(Bench *b, const Text *ptx, const char *what)
{
	char path[] = "/tmp/tegula_emit_XXXXXX";
	if (!have_ptxas() || was_taken(b->t, ptx))
		return;
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, ptx->at, ptx->n) == (ssize_t)ptx->n);
	close(fd);
	char *run = arena_printf(b->mem,
	    "PATH=$PATH:/usr/local/cuda/bin; ptxas -O0 -arch=%s -o /dev/null %s >%s.log 2>&1; s=$?; head -n 20 %s.log >&2; "
	    "rm -f %s.log; exit $s", b->t->name, path, path, path, path);
	int status = system(run);
	if (status != 0)
		fail_msg("%s: ptxas refuses %s: %s", b->t->name, what, path);
	unlink(path);
}

/* What was recorded as PTX; false: *why. */
static bool
written(Bench *b, Text *ptx, const char **why)
{
	EmitLlvm *l = emit_llvm_open(b->mem, b->t, &(EmitLlvmOptions){.verify = true}, why);
	if (!l)
		return false;
	emit_llvm_module(l, thread_module(b->to));
	bool ok = emit_llvm_ptx(l, ptx, why);
	emit_llvm_close(l);
	return ok;
}

static void
end(Bench *b, const char *what)
{
	const ThreadNode *at;
	const char *why = thread_module_verify(thread_module(b->to), b->mem, &at);
	Text ptx = {0};
	if (why || !written(b, &ptx, &why))
		fail_msg("%s: %s: %s", b->t->name, what, why);
	assert_non_null(strstr(ptx.at, ".visible .entry probe("));
	if (getenv("TEGULA_SHOW"))
		fputs(ptx.at, stderr);
	ptxas(b, &ptx, what);
	text_close(&ptx);
	arena_close(b->mem);
}

#define EACH_TARGET(b)                                                                             \
	Bench b;                                                                                   \
	for (int which_ = 0; target_at(which_) && target_at(which_)->kind == TARGET_PTX &&         \
	                     (begin(&b, target_at(which_)), true); which_++)

static bool
takes(ThreadOp op, RegType t)
{
	bool is_float = t == REG_F16 || t == REG_BF16 || t == REG_F32 || t == REG_F64;
	bool is_int = t == REG_I8 || t == REG_I16 || t == REG_I32 || t == REG_I64;
	if (op == THREAD_SELECT)
		return true;
	if (t == REG_PRED)
		return op == THREAD_AND || op == THREAD_OR || op == THREAD_XOR || op == THREAD_NOT;
	if (t == REG_F64 && (op == THREAD_FDIV_FAST || (op >= THREAD_FSQRT_FAST && op <= THREAD_TANH_FAST)))
		return false;
	if ((op >= THREAD_FNEG && op <= THREAD_FTRUNC) || (op >= THREAD_FEQ && op <= THREAD_FUNO))
		return is_float;
	return is_int;
}

static void
test_ops(void **unused)
{
	EACH_TARGET(b) {
		for (int op = 0; op < THREAD_OPS_COUNT; op++)
			for (RegType t = REG_PRED; t <= REG_F64; t++) {
				if (!takes((ThreadOp)op, t))
					continue;
				Reg in[3] = {0};
				for (int i = 0; i < thread_op_operands[op]; i++)
					in[i] = get(&b, op == THREAD_SELECT && i == 0 ? REG_PRED : t);
				keep(&b, thread_op(b.to, (ThreadOp)op, in[0], in[1], in[2]));
			}
		end(&b, "arithmetic");
	}
}

static void
test_casts(void **unused)
{
	static const RegType ints[] = {REG_PRED, REG_I8, REG_I16, REG_I32, REG_I64};
	static const RegType floats[] = {REG_F16, REG_BF16, REG_F32, REG_F64};
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		for (int i = 0; i < LEN(ints); i++)
			for (int k = 0; k < LEN(ints); k++) {
				ThreadCast c = i < k ? CAST_SEXT : CAST_TRUNC;
				if (i != k)
					keep(&b, thread_cast(to, c, ints[k], get(&b, ints[i])));
				if (i < k)
					keep(&b, thread_cast(to, CAST_ZEXT, ints[k], get(&b, ints[i])));
			}
		for (int i = 0; i < LEN(floats); i++)
			for (int k = 0; k < LEN(ints); k++) {
				keep(&b, thread_cast(to, CAST_S2F, floats[i], get(&b, ints[k])));
				keep(&b, thread_cast(to, CAST_U2F, floats[i], get(&b, ints[k])));
				if (ints[k] == REG_PRED)
					continue;
				keep(&b, thread_cast(to, CAST_F2S, ints[k], get(&b, floats[i])));
				keep(&b, thread_cast(to, CAST_F2U, ints[k], get(&b, floats[i])));
			}
		for (int i = 0; i < 2; i++) {
			keep(&b, thread_cast(to, CAST_FEXT, REG_F32, get(&b, floats[i])));
			keep(&b, thread_cast(to, CAST_FEXT, REG_F64, get(&b, floats[i])));
			keep(&b, thread_cast(to, CAST_FTRUNC, floats[i], get(&b, REG_F32)));
			keep(&b, thread_cast(to, CAST_FTRUNC, floats[i], get(&b, REG_F64)));
			keep(&b, thread_cast(to, CAST_BITS, REG_I16, get(&b, floats[i])));
			keep(&b, thread_cast(to, CAST_BITS, floats[i], get(&b, REG_I16)));
		}
		keep(&b, thread_cast(to, CAST_FEXT, REG_F64, get(&b, REG_F32)));
		keep(&b, thread_cast(to, CAST_FTRUNC, REG_F32, get(&b, REG_F64)));
		keep(&b, thread_cast(to, CAST_BITS, REG_F32, get(&b, REG_I32)));
		keep(&b, thread_cast(to, CAST_BITS, REG_I64, get(&b, REG_F64)));
		keep(&b, thread_cast(to, CAST_BITS, REG_I64, thread_cast(to, CAST_BITS, REG_GLOBAL, get(&b, REG_I64))));
		end(&b, "conversions");
	}
}

static void
test_words(void **unused)
{
	static const struct { RegType type; int n; } rows[] = {
	    {REG_I8, 4}, {REG_I8, 8}, {REG_I16, 2}, {REG_F16, 2}, {REG_BF16, 2}, {REG_F32, 1}, {REG_I32, 1}};
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		for (int i = 0; i < LEN(rows); i++) {
			Reg v[8];
			thread_unpack(to, get(&b, REG_I32), rows[i].type, v, rows[i].n);
			for (int k = 0; k < rows[i].n / 2; k++) {
				Reg swap = v[k];
				v[k] = v[rows[i].n - 1 - k];
				v[rows[i].n - 1 - k] = swap;
			}
			keep(&b, thread_pack(to, v, rows[i].n));
		}
		for (RegType t = REG_F16; t <= (b.t->has & HAS_ATOMIC_PAIRS ? REG_BF16 : REG_F16); t++) {
			Reg v[2] = {thread_cast(to, CAST_FTRUNC, t, get(&b, REG_F32)), thread_cast(to, CAST_FTRUNC, t, get(&b, REG_F32))};
			keep(&b, thread_pack(to, v, 2));
		}
		end(&b, "packing");
	}
}

/* Every width from one element to 16 bytes, plain and masked, with every hint, in both memories; what alignment parts into
 * narrower instructions, which other widths try with every hint, plain without one and masked with one. */
static void
accesses(Bench *b, RegType type, int bytes, Space space)
{
	ThreadBuilder *to = b->to;
	Reg mask = get(b, REG_PRED), index = get(b, REG_I32), v[16];
	for (int n = 1; n * bytes <= 16; n *= 2)
		for (int how = 0; how < 8; how++)
			for (int align = bytes; align <= n * bytes; align *= 4) {
				if (4 * align <= n * bytes && how % 7)
					continue;
				ThreadAccess at = {.space = space, .type = type, .n = n, .offset = index,
				    .constant = 16 * how, .align = align};
				at.base = space == SPACE_SHARED ? b->shared : b->in;
				at.mask = how & 1 ? mask : 0;
				at.cache = (CacheHint)(how / 2);
				thread_load(to, &at, v);
				at.base = space == SPACE_SHARED ? b->shared : b->out;
				thread_store(to, &at, v);
			}
}

static void
test_memory(void **unused)
{
	static const int bytes[REG_TYPES] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 4};
	EACH_TARGET(b) {
		for (RegType t = REG_PRED; t <= REG_GLOBAL; t++) {
			accesses(&b, t, bytes[t], SPACE_GLOBAL);
			accesses(&b, t, bytes[t], SPACE_SHARED);
		}
		end(&b, "loads and stores");
	}
}

static void
test_known_masks(void **unused)
{
	Bench b;
	begin(&b, target_at(0));
	ThreadBuilder *to = b.to;
	Reg v;
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_F32, .n = 1, .base = b.in, .align = 4};
	at.mask = thread_int_const(to, REG_PRED, 0);
	thread_load(to, &at, &v);
	keep(&b, v);
	at.base = b.out;
	thread_store(to, &at, &v);
	keep(&b, thread_atomic(to, ATOMIC_ADD, &at, v, 0));
	at.mask = thread_int_const(to, REG_PRED, 1);
	thread_load(to, &at, &v);
	keep(&b, v);
	end(&b, "masks that are known");
}

static void
atomics(Bench *b, RegType type, Space space)
{
	ThreadBuilder *to = b->to;
	bool is_int = type == REG_I32 || type == REG_I64;
	int orders = 0;
	for (AtomicKind k = ATOMIC_ADD; k <= ATOMIC_CAS; k++) {
		if (type == REG_I16 ? k != ATOMIC_CAS : !is_int && k != ATOMIC_ADD)
			continue;
		for (int masked = 0; masked < 2; masked++, orders++) {
			ThreadAccess at = {.space = space, .type = type, .n = 1, .constant = 64, .align = 8};
			at.base = space == SPACE_SHARED ? b->shared : b->out;
			at.mask = masked ? get(b, REG_PRED) : 0;
			at.order = (AtomicOrder)(orders % 4);
			at.scope = orders / 4 % 2 ? SCOPE_SYS : orders / 8 % 2 ? SCOPE_CTA : SCOPE_GPU;
			if (b->t->has & HAS_CLUSTER && orders % 3 == 0)
				at.scope = SCOPE_CLUSTER;
			keep(b, thread_atomic(to, k, &at, get(b, type), k == ATOMIC_CAS ? get(b, type) : 0));
		}
	}
}

/* Two neighbours at once, in every order and scope; of two f32 there is no previous value (red). */
static void
pairs(Bench *b, RegType type, RegType both)
{
	for (int i = 0; i < 4 * 3 * 2; i++) {
		ThreadAccess at = {.space = SPACE_GLOBAL, .type = type, .n = 2, .base = b->out, .align = thread_type_bytes(both),
		    .mask = i % 2 ? get(b, REG_PRED) : 0, .order = (AtomicOrder)(i / 2 % 4),
		    .scope = (AtomicScope[]){SCOPE_GPU, SCOPE_CTA, SCOPE_SYS}[i / 8]};
		Reg old = thread_atomic(b->to, ATOMIC_ADD, &at, get(b, both), 0);
		if (type != REG_F32)
			keep(b, old);
	}
}

static void
test_atomics(void **unused)
{
	static const RegType types[] = {REG_I16, REG_I32, REG_I64, REG_F16, REG_BF16, REG_F32, REG_F64};
	EACH_TARGET(b) {
		for (int i = 0; i < LEN(types); i++) {
			if (types[i] == REG_BF16 && !(b.t->has & HAS_ATOMIC_PAIRS))
				continue;
			atomics(&b, types[i], SPACE_GLOBAL);
			atomics(&b, types[i], SPACE_SHARED);
		}
		pairs(&b, REG_F16, REG_I32);
		if (b.t->has & HAS_ATOMIC_PAIRS) {
			pairs(&b, REG_BF16, REG_I32);
			pairs(&b, REG_F32, REG_I64);
		}
		end(&b, "atomics");
	}
}

static void
test_control(void **unused)
{
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		const Reg zero = thread_int_const(to, REG_I32, 0), one = thread_int_const(to, REG_I32, 1), steps[] = {one,
		    thread_int_const(to, REG_I32, -2), b.n, zero};
		for (int i = 0; i < LEN(steps); i++) {
			Reg init[2] = {get(&b, REG_F32), get(&b, REG_I32)}, in[2], after[2], inner[1];
			Reg k = thread_loop(to, zero, b.n, steps[i], init, in, 2);
			thread_if(to, thread_op(to, THREAD_SLT, k, in[1], 0));
			Reg sum = thread_op(to, THREAD_FADD, in[0], get(&b, REG_F32), 0);
			thread_else(to, &sum, 1);
			thread_if_end(to, &in[0], inner, 1);
			Reg next[2] = {inner[0], thread_op(to, THREAD_ADD, in[1], k, 0)};
			thread_loop_end(to, next, after, 2);
			keep(&b, after[0]);
			keep(&b, after[1]);
		}
		Reg v = get(&b, REG_I64), in, after, limit = get(&b, REG_I64);
		thread_while(to, &v, &in, 1);
		Reg twice = thread_op(to, THREAD_MUL, in, in, 0);
		thread_while_test(to, thread_op(to, THREAD_ULT, twice, limit, 0));
		thread_while_end(to, &twice, &after, 1);
		keep(&b, after);
		keep(&b, twice);
		thread_if(to, thread_op(to, THREAD_EQ, after, limit, 0));
		keep(&b, limit);
		thread_if_end(to, NULL, NULL, 0);
		end(&b, "control");
	}
}

static RegType
prim_operand(PrimKind k, int i)
{
	if (k == PRIM_KEEP)
		return REG_I64;
	if (k == PRIM_PEEK || k == PRIM_FETCH_LINE)
		return i == 0 ? REG_GLOBAL : REG_PRED;
	if (k == PRIM_VOTE_BALLOT || k == PRIM_GRID_NEXT)
		return REG_PRED;
	if (k == PRIM_PACK_E4M3 || k == PRIM_PACK_E5M2)
		return REG_F32;
	bool is_box = k >= PRIM_TENSOR_LOAD_1 && k <= PRIM_TENSOR_STORE_5;
	int global = k == PRIM_TENSOR_MAP ? 0 :
	    k == PRIM_CP_ASYNC || k == PRIM_CP_ASYNC_16 || k == PRIM_CP_ASYNC_LINE || is_box ? 1 : -1;
	int barrier = k >= PRIM_TENSOR_LOAD_1 && k <= PRIM_TENSOR_MULTI_5 ? 2 : -1;
	if (i == global)
		return REG_GLOBAL;
	bool is_word = k >= PRIM_CLUSTER_LOAD && k <= PRIM_CLUSTER_SIGNAL;
	return (i == 0 && k >= PRIM_CP_ASYNC && !is_word) || i == barrier ? REG_SHARED : REG_I32;
}

/* A function with one result and one with results of several types, called twice each. */
static void
test_functions(void **unused)
{
	static const RegType param[] = {REG_F32, REG_F64}, result[] = {REG_F64, REG_I32, REG_F32};
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		for (int n = 1; n <= 3; n += 2) {
			const char *name = n == 1 ? "one" : "three";
			const Reg in[] = {get(&b, REG_F32), get(&b, REG_F64)};
			Reg inside[2], out[3];
			assert_false(thread_call(to, name, in, 2, result, out, n));
			thread_function(to, &(ThreadSignature){name, result, param, n, 2}, inside);
			Reg wide = thread_cast(to, CAST_FEXT, REG_F64, inside[0]);
			thread_if(to, thread_op(to, THREAD_FLT, wide, inside[1], 0));
			thread_else(to, &wide, 1);
			thread_if_end(to, &inside[1], &wide, 1);
			const Reg gives[] = {wide, thread_cast(to, CAST_F2S, REG_I32, wide), inside[0]};
			thread_function_end(to, gives, n);
			for (int times = 0; times < 2; times++) {
				assert_true(thread_call(to, name, in, 2, result, out, n));
				for (int i = 0; i < n; i++)
					keep(&b, out[i]);
			}
		}
		end(&b, "functions");
	}
}

static void
test_prims(void **unused)
{
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		for (PrimKind k = 0; k < PRIM_COUNT; k++) {
			const PrimInfo *info = &prim_info[k];
			int64_t imm[2] = {8, 64};
			Reg in[10], out[8];
			if (!info->ptx || info->needs & ~b.t->has)
				continue;
			if (k == PRIM_BARRIER_AT)
				imm[0] = 64;
			if (k == PRIM_REGISTERS_MORE || k == PRIM_REGISTERS_LESS)
				imm[0] = 40;
			for (int i = 0; i < info->nin; i++)
				in[i] = get(&b, prim_operand(k, i));
			thread_prim(to, k, in, info->nin, imm, 2, out, info->nout);
			for (int i = 0; i < info->nout; i++)
				keep(&b, out[i]);
		}
		end(&b, "primitives");
	}
}

static void
test_mma(void **unused)
{
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		for (int i = 0; i < mma_count; i++) {
			const MmaInfo *m = &mma_info[i];
			MmaWords w = mma_words(m);
			Reg in[3][16], out[16];
			if (m->warps != 1 || m->least > b.t->capability || m->needs & ~b.t->has)
				continue;
			for (int k = 0; k < w.a; k++)
				in[0][k] = get(&b, w.word);
			for (int k = 0; k < w.b; k++)
				in[1][k] = get(&b, w.word);
			for (int k = 0; k < w.c; k++)
				in[2][k] = get(&b, w.acc);
			thread_mma(to, m, in[0], in[1], in[2], out);
			for (int k = 0; k < w.c; k++)
				keep(&b, out[k]);
		}
		end(&b, "matrix instructions");
	}
}

/* A warpgroup's product in a loop, as lowering builds it, of every type and every n: with A in shared memory and in
 * registers, and with a scale of the accumulator. */
static void
test_wgmma(void **unused)
{
	for (int i = 0; i < wgmma_count; i++) {
		const WgmmaInfo *w = &wgmma_info[i];
		Bench b;
		Reg acc[128], first[128], in[128], next[128], after[128], descriptor[2], word[WGMMA_WORDS];
		bool may_turn = dtype_info[w->a].bits == 16;
		const int64_t left = 0;
		if (w->n != 8 && w->a != TY_BF16)
			continue;
		begin(&b, target_named("sm_90a"));
		ThreadBuilder *to = b.to;
		int n = w->n / 2;
		Reg zero = w->acc == TY_F32 ? thread_float_const(to, REG_F32, 0) : thread_int_const(to, REG_I32, 0);
		for (int k = 0; k < n; k++)
			acc[k] = zero;
		for (int k = 0; k < 2; k++)
			descriptor[k] = get(&b, REG_I64);
		thread_prim(to, PRIM_WGMMA_FENCE, NULL, 0, NULL, 0, NULL, 0);
		Wgmma x = {w, may_turn ? TRANSPOSE_A | TRANSPOSE_B : 0, &descriptor[0], descriptor[1], acc, 0};
		thread_wgmma(to, &x, first);
		thread_prim(to, PRIM_WGMMA_COMMIT, NULL, 0, NULL, 0, NULL, 0);
		thread_loop(to, thread_int_const(to, REG_I32, 0), b.n, thread_int_const(to, REG_I32, 1), first, in, n);
		thread_prim(to, PRIM_WGMMA_FENCE, NULL, 0, NULL, 0, NULL, 0);
		x = (Wgmma){w, 0, &descriptor[0], descriptor[1], in, 0};
		thread_wgmma(to, &x, in);
		for (int k = 0; k < WGMMA_WORDS; k++)
			word[k] = get(&b, REG_I32);
		Reg scale = thread_op(to, THREAD_SLT, b.n, word[0], 0);
		thread_prim(to, PRIM_WGMMA_FENCE, NULL, 0, NULL, 0, NULL, 0);
		x = (Wgmma){w, WGMMA_REGISTERS | (may_turn ? TRANSPOSE_B : 0), word, descriptor[1], in, 0};
		thread_wgmma(to, &x, in);
		x.scale = scale;
		thread_wgmma(to, &x, next);
		thread_prim(to, PRIM_WGMMA_COMMIT, NULL, 0, NULL, 0, NULL, 0);
		thread_loop_end(to, next, after, n);
		thread_prim(to, PRIM_WGMMA_WAIT, NULL, 0, &left, 1, NULL, 0);
		thread_settle(to, after, after, n);
		for (int k = 0; k < n; k++)
			keep(&b, after[k]);
		end(&b, w->name);
	}
}

static void
test_text(void **unused)
{
	EACH_TARGET(b) {
		ThreadBuilder *to = b.to;
		const RegType type = REG_I32;
		Reg out, in[2] = {get(&b, REG_I32), b.n};
		thread_ptx(to, "{ .reg .b32 t; mov.u32 t, %tid.x; add.u32 $0, $1, t; mad.lo.u32 $0, $0, $2, 5; }", in, 2, &type, &out, 1);
		keep(&b, out);
		Reg v[3] = {get(&b, REG_F64), get(&b, REG_I64), out};
		thread_print(to, "%f %lld %d\n", v, 3);
		thread_print(to, "nothing\n", NULL, 0);
		end(&b, "text");
	}
}

/* Constants of addresses stand in the instruction; a word that is taken apart and put together again is the word. */
static void
test_plain_words(void **unused)
{
	Bench b;
	const char *why = NULL;
	Text ptx = {0};
	begin(&b, target_named("sm_80"));
	Reg word, half[2], imm = thread_int_const(b.to, REG_I32, 4096);
	Reg at = thread_op(b.to, THREAD_ADD, get(&b, REG_SHARED), imm, 0);
	thread_prim(b.to, PRIM_LDMATRIX_1, &at, 1, NULL, 0, &word, 1);
	thread_unpack(b.to, word, REG_F16, half, 2);
	keep(&b, thread_pack(b.to, half, 2));
	assert_true(written(&b, &ptx, &why));
	assert_non_null(strstr(ptx.at, "+4096];"));
	assert_null(strstr(ptx.at, "mov.b32 \t{"));        /* neither taken apart nor put together */
	ptxas(&b, &ptx, "plain words");
	text_close(&ptx);
	arena_close(b.mem);
}

/* What LLVM cannot do comes back as a reason. */
static void
test_refusal(void **unused)
{
	Bench b;
	const char *why = NULL;
	Text ptx = {0};
	begin(&b, target_named("sm_75"));
	thread_if(b.to, get(&b, REG_PRED));
	Reg v = get(&b, REG_I32);
	thread_if_end(b.to, NULL, NULL, 0);
	keep(&b, v);                                    /* defined on one path: the module is not sound */
	assert_false(written(&b, &ptx, &why));
	assert_non_null(why);
	text_close(&ptx);
	arena_close(b.mem);
}

/* Kernels may have names that PTX keeps for itself. */
static void
test_names(void **unused)
{
	static const char *const names[] = {"WARP_SZ", "vprintf", "shared", "add", "entry"};
	for (int i = 0; i < LEN(names); i++) {
		Bench b;
		const char *why = NULL;
		Text ptx = {0};
		const ThreadKernel k = {.name = names[i], .threads = 32, .shared_bytes = 16};
		begin(&b, target_named("sm_80"));
		b.to = thread_open(b.mem, b.t, false);
		thread_kernel(b.to, &k, NULL, &b.shared);
		thread_print(b.to, "%d", (Reg[]){thread_int_const(b.to, REG_I32, 5)}, 1);
		EmitLlvm *l = emit_llvm_open(b.mem, b.t, &(EmitLlvmOptions){.verify = true}, &why);
		emit_llvm_module(l, thread_module(b.to));
		assert_true(emit_llvm_ptx(l, &ptx, &why));
		assert_non_null(strstr(ptx.at, arena_printf(b.mem, ".visible .entry %s(", emit_llvm_kernel(l))));
		ptxas(&b, &ptx, names[i]);
		text_close(&ptx);
		emit_llvm_close(l);
		arena_close(b.mem);
	}
}

/* What may stand before a kernel's wait for the grid before it, and what may stand nowhere. */
static void
test_wait_first(void **unused)
{
	static const char start[] = ".visible .entry k(\n\t.param .u64 .ptr .global .align 16 k_param_0\n)\n.reqntid 128\n{\n\t.reg .b64 %rd<3>;\n";
	static const char end[] = "\tld.global.b32 %r1, [%rd1];\n\tret;\n}\n";
	static const char wait[] = "\tgriddepcontrol.wait;\n";
	static const struct {
		const char *before, *after;
		bool good;
	} cases[] = {
	    {"", "", true},
	    {"$L__func_begin0:\n\t.loc\t1 3 0\n\n\tld.param.b64 \t%rd1, [k_param_0];\n\t// a; comment\n\tmov.u32 \t%r1, %tid.x;\n"
	     "\tadd.s32 \t%r3, %r1, 1024;\n\tsetp.le.u32 \t%p1, %r2, %r3;\n\t@%p1 griddepcontrol.launch_dependents;\n", "\tst.global.b32 [%rd1], %r1;\n", true},
	    {"\tld.global.b32 %r1, [%rd1];\n", "", false},
	    {"\tst.shared.b32 [%r1], %r2;\n", "", true},
	    {"\tmov.b32 %r1, 0; @%p1 ld.global.b32 %r1, [%rd1];\n", "", false},
	    {"\t@%p1 bra $L__BB0_2;\n", "", false},
	    {"\t@%p1\n\tgriddepcontrol.launch_dependents;\n", "", false},
	    {"\t@%p1 st.global.b32 [%rd1], %r1;\n", "", false},
	    {"\t@%p1 bra $L__BB0_2;\n\tmov.b32 %r1, 0;\n$L__BB0_2:\n", "", true},
	    {"\t@%p1 bra $L__BB0_2;\n\tgriddepcontrol.wait;\n\tld.global.b32 %r1, [%rd1];\n$L__BB0_2:\n", "", true},
	    {"\t@%p1 bra $L__BB0_2;\n\tld.global.b32 %r1, [%rd1];\n$L__BB0_2:\n", "", false},
	    {"\t@%p1 bra $L__BB0_3;\n", "$L__BB0_3:\n", false},
	    {"\t@%p1 bra $L__BB0_2;\n\tret;\n$L__BB0_2:\n", "", false},
	    {"$L__BB0_2:\n\t@%p1 bra $L__BB0_2;\n", "", true},
	    {"$L__BB0_2:\n\tld.global.b32 %r1, [%rd1];\n\t@%p1 bra $L__BB0_2;\n", "", false},
	    {"\tbra.uni \t$L__BB0_2;\n\tld.global.b32 %r1, [%rd1];\n$L__BB0_2:\n", "", true},
	    {"\t@%p1 griddepcontrol.wait;\n\tatom.global.add.u32 %r1, [%rd1], 1;\n", "", false},
	    {"\tcall.uni f, ();\n", "", false},
	    {"\tret;\n", "", false},
	    {"\tmov.b32 %r1, 0; @%p1 ld.relaxed.gpu.global.b32 %r1, [%rd1];\n\t@%p1 prefetch.global.L2 [%rd1];\n", "", true},
	    {"\tld.relaxed.gpu.b32 %r1, [%rd1];\n", "", false},
	    {"", "\tld.global.nc.b32 %r1, [%rd1];\n", false},
	    {"", "\tldu.global.b32 %r1, [%rd1];\n", false},
	    {"", "\tmov.b64 \t%rd2, table;\n\tadd.s64 \t%rd1, %rd2, %rd3;\n\tld.global.nc.b32 %r1, [%rd1+4];\n", true},
	    {"", "\tmov.b64 \t%rd2, table;\n\tld.global.nc.b32 %r1, [%rd2];\n\tld.global.nc.b32 %r1, [%rd1];\n", false},
	};
	for (int i = 0; i < LEN(cases); i++) {
		Text t = {0};
		text_printf(&t, "%s%s%s%s%s", start, cases[i].before, wait, cases[i].after, end);
		if (ptx_waits_first(t.at) != cases[i].good)
			fail_msg("case %d", i);
		text_close(&t);
	}
	Text many = {0};                                /* each of which paths go around */
	text_printf(&many, "%s", start);
	for (int i = 0; i < 40; i++)
		text_printf(&many, "\t@%%p1 bra $L__BB0_%d;\n\tmov.b32 %%r1, %d;\n$L__BB0_%d:\n", i, i, i);
	text_printf(&many, "%s%s", wait, end);
	assert_true(ptx_waits_first(many.at));
	text_close(&many);
	const char *copies = "\t@%p1 bra $L__BB0_2;\n\tcp.async.cg.shared.global [%r1], [%rd1], 16, %r2;\n\tcp.async.commit_group;\n$L__BB0_2:\n";
	const char *moves[] = {"", "\tld.shared.b32 %r1, [%r2];\n", "\tmov.b32 %r1, 0; @%p1 ld.global.b32 %r1, [%rd1];\n",
		"\t@%p1 st.global.b32 [%rd1], %r1;\n", "\tcp.async.bulk.tensor.1d [%r1];\n", "\tld.global.b32 %r1, [%rd1];\n"};
	for (int i = 0; i < LEN(moves); i++) {
		Text t = {0};
		text_printf(&t, "%s%s%s%s%s", start, copies, moves[i], wait, end);
		assert_false(ptx_waits_first(t.at));
		assert_int_equal(ptx_waits_late(t.at), i < 2);
		text_close(&t);
	}
	assert_false(ptx_waits_late(start));
	assert_false(ptx_waits_first(start));
	assert_false(ptx_waits_first(".version 8.4\n\tgriddepcontrol.wait;\n"));
}

/* Kernels for GPUs that can start grids early wait first, but for those whose source brings read-only loads. */
static void
test_waits(void **unused)
{
	static const struct {
		const char *target, *line;
		bool has_wait, waits;
	} cases[] = {
	    {"sm_90a", "", true, true}, {"sm_100a", "", true, true}, {"sm_120a", "", true, true},
	    {"sm_89", "", false, false}, {"sm_75", "", false, false},
	    {"sm_90a", "\t%0 = const {value = 0} : i64\n\t%1 = inline_ptx %0 {text = \"ld.global.nc.b64 $0, [$1];\"} : i64\n",
	        true, false},
	};
	for (int i = 0; i < LEN(cases); i++) {
		Compile *cx = compile_open();
		Text t = {0};
		Artefact a;
		text_printf(&t, "facts(TYPED, AXES, LAYOUTS, SMEM, SYNCED)\nkernel @k(%%x: out f32[1]) grid(b) warps(1) {\n%s}\n",
		    cases[i].line);
		Module *m = module_parse(cx, source_text(cx, "k.tir", t.at, t.n));
		assert_non_null(m);
		assert_true(compile_artefact(m, target_named(cases[i].target), &a));
		assert_int_equal(a.waits, cases[i].waits);
		assert_int_equal(strstr(a.bytes, "griddepcontrol.wait;") != NULL, cases[i].has_wait);
		artefact_close(&a);
		compile_close(cx);
		text_close(&t);
	}
}

/* A target that LLVM has not heard of: an error that names kernel and target, by way of LLVM's fatal-error handler. */
static void
test_failure(void **unused)
{
	static const char text[] = "facts(TYPED, AXES, LAYOUTS, SMEM, SYNCED)\nkernel @k(%x: out f32[1]) grid(b) warps(1) {\n}\n";
	Target t = *target_named("sm_90a");
	Compile *cx = compile_open();
	Module *m = module_parse(cx, source_text(cx, "k.tir", text, strlen(text)));
	Artefact a;
	t.features = "+ptx32";
	assert_non_null(m);
	__lsan_disable();
	assert_false(compile_artefact(m, &t, &a));
	__lsan_enable();
	assert_int_equal(cx->nerrors, 1);
	assert_int_equal(cx->first->code, DIAG_LLVM_FAILED);
	assert_non_null(strstr(cx->first->text, "'k' for sm_90a"));
	assert_true(compile_artefact(m, target_named("sm_90a"), &a));   /* and the next one is well again */
	artefact_close(&a);
	compile_close(cx);
}

static Artefact
sample(void)
{
	static const char text[] = "facts(TYPED, AXES, LAYOUTS, SMEM, SYNCED)\n"
	                           "kernel @k(%x: out strided f32[2, 3], %n: i16) grid(a, b) warps(2) {\n"
	                           "\t%0 = const {value = true} : bool\n\tassert %0 {text = \"why\"}\n}\n";
	Compile *cx = compile_open();
	Module *m = module_parse(cx, source_text(cx, "k.tir", text, strlen(text)));
	Artefact a = {0};
	assert_non_null(m);
	assert_true(compile_artefact(m, target_named("sm_80"), &a));
	compile_close(cx);
	return a;
}

/* Division of a program's number by a multiplication. */
static void
test_grid_inverse(void **unused)
{
	static const uint32_t numbers[] = {0, 1, 2, 3, 63, 64, 65, 1000, 65535, 65536, 0x3fffffff, 0x40000000, 0x7ffffffe, 0x7fffffff};
	for (int shift = 0; shift < 31; shift++)
		for (int64_t near = -3; near <= 3; near++) {
			int64_t d = (INT64_C(1) << shift) + near * (shift > 12 ? 1237 : 1);
			if (d < 1 || d > INT32_MAX)
				continue;
			uint64_t inverse = grid_inverse(d), m = inverse & UINT32_MAX;
			for (int i = 0; i < 3 * LEN(numbers); i++) {
				uint64_t n = i < LEN(numbers) ? numbers[i] : (uint64_t)d * (numbers[i % LEN(numbers)] % 5 + 1) - (uint64_t)(i & 1);
				if (n <= INT32_MAX)
					assert_int_equal((n + (n * m >> 32)) >> (inverse >> 32), n / (uint64_t)d);
			}
		}
}

/* What a launch must know comes out, and comes back from a file. */
static void
test_artefact(void **unused)
{
	Artefact a = sample(), b;
	Text file = {0};
	int figure = 1;
	static const AbiKind kinds[] = {ABI_POINTER, ABI_STRIDE, ABI_STRIDE, ABI_SCALAR, ABI_GRID, ABI_GRID, ABI_INVERSE,
	                                ABI_FAULTS};
	assert_int_equal(a.threads, 64);
	assert_int_equal(a.naxis, 2);
	assert_int_equal(a.cluster_axis, -1);
#define X(type, name) a.name = figure++;
	ARTEFACT_FIGURES(X)
#undef X
	artefact_write(&a, &file);
	assert_true(artefact_read(file.at, file.n, &b));
#define X(type, name) assert_int_equal(b.name, a.name);
	ARTEFACT_FIGURES(X)
#undef X
	assert_int_equal(b.nabi, LEN(kinds));
	for (int i = 0; i < LEN(kinds); i++) {
		assert_int_equal(b.abi[i].kind, kinds[i]);
		assert_memory_equal(&a.abi[i], &b.abi[i], sizeof a.abi[i]);
	}
	assert_int_equal(b.nasserts, 1);
	assert_string_equal(b.asserts[0], a.asserts[0]);
	assert_string_equal(b.kernel, "k");
	assert_string_equal(b.target, "sm_80");
	assert_string_equal(b.bytes, a.bytes);
	artefact_close(&b);
	for (size_t n = 0; n < file.n; n++)             /* a file cut short, and one with a byte changed */
		assert_false(artefact_read(file.at, n, &b));
	for (size_t i = 0; i < file.n; i++) {
		file.at[i] ^= 4;
		assert_false(artefact_read(file.at, file.n, &b));
		file.at[i] ^= 4;
	}
	text_close(&file);
	artefact_close(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ops), cmocka_unit_test(test_casts), cmocka_unit_test(test_words),
	    cmocka_unit_test(test_memory), cmocka_unit_test(test_known_masks), cmocka_unit_test(test_atomics),
	    cmocka_unit_test(test_control),
	    cmocka_unit_test(test_functions), cmocka_unit_test(test_prims), cmocka_unit_test(test_mma), cmocka_unit_test(test_wgmma),
	    cmocka_unit_test(test_text), cmocka_unit_test(test_refusal), cmocka_unit_test(test_plain_words),
	    cmocka_unit_test(test_names), cmocka_unit_test(test_wait_first), cmocka_unit_test(test_waits),
	    cmocka_unit_test(test_failure), cmocka_unit_test(test_grid_inverse),
	    cmocka_unit_test(test_artefact),
	};
	if (!have_ptxas())
		fprintf(stderr, "test_emit: no ptxas here; only LLVM judges\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
