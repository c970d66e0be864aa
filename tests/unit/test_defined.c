/* Faults planted into LLVM IR, for a GPU and for the emulator: each makes a register without a value, and is
 * refused with the line of the source that it was made of. */
#include "emit/emit.h"
#include "emit/llvm/llvm.h"
#include "runtime/simt/simt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct Bench {
	Arena *mem;
	Compile *cx;
	EmitLlvm *l;
	ThreadBuilder *to;
	Reg out, n;                                     /* pointer, i32 */
	Reg harmed;
	int file;
} Bench;

static void
begin(Bench *b)
{
	static const ThreadParam param[] = {{.name = "out", .type = REG_GLOBAL, .align = 16},
	    {.name = "n", .type = REG_I32}};
	const ThreadKernel k = {"probe", param, LEN(param), 128, 1, 0, 16, 0};
	Reg r[2], shared;
	*b = (Bench){.mem = arena_open(), .cx = compile_open()};
	b->file = source_text(b->cx, "probe.tgl", "", 0);
	b->to = thread_open(b->mem, target_named("sm_80"), false);
	thread_kernel(b->to, &k, r, &shared);
	b->out = r[0];
	b->n = r[1];
}

/* What was recorded becomes LLVM IR. */
static void
write_module(Bench *b, bool host)
{
	const EmitLlvmOptions opt = {.verify = true, .host = host, .cx = b->cx};
	const char *why = NULL;
	b->l = emit_llvm_open(b->mem, target_named("sm_80"), &opt, &why);
	assert_non_null(b->l);
	emit_llvm_module(b->l, thread_module(b->to));
}

static void
close(Bench *b)
{
	emit_llvm_close(b->l);
	compile_close(b->cx);
	arena_close(b->mem);
}

static void
keep(Bench *b, Reg v)
{
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = thread_type_of(b->to, v), .n = 1, .base = b->out, .align = 8};
	thread_store(b->to, &at, &v);
}

/* True: there is code.  Else *why, in b's memory. */
static bool
finish(Bench *b, bool host, const char **why)
{
	int n;
	Text ptx = {0};
	if (!host) {
		bool ok = emit_llvm_ptx(b->l, &ptx, why);
		text_close(&ptx);
		return ok;
	}
	const EmitSymbol *symbol = simt_symbols(&n);
	EmitCode *code = emit_llvm_code(b->l, symbol, n, why);
	emit_code_close(code);
	return code;
}

/* ---- the faults ---- */

typedef Reg Plant(Bench *b);
typedef LLVMValueRef Harm(EmitLlvm *l, LLVMValueRef was);        /* what stands for it now */

static Reg
past_the_width(Bench *b)
{
	return thread_op(b->to, THREAD_SHL, b->n, thread_int_const(b->to, REG_I32, 32), 0);
}

static Reg
folded(Bench *b)
{
	Reg three = thread_int_const(b->to, REG_I32, 3), far = thread_int_const(b->to, REG_I32, 40);
	return thread_op(b->to, THREAD_ADD, b->n, thread_op(b->to, THREAD_LSHR, three, far, 0), 0);
}

static Reg
stored(Bench *b)
{
	Reg three = thread_int_const(b->to, REG_I32, 3), far = thread_int_const(b->to, REG_I32, 40);
	return thread_op(b->to, THREAD_ASHR, three, far, 0);
}

static Reg
by_zero(Bench *b)
{
	return thread_op(b->to, THREAD_UDIV, b->n, thread_int_const(b->to, REG_I32, 0), 0);
}

/* These are whole; the writer's own mistake is made afterwards in what it wrote of `harmed`. */
static Reg
product(Bench *b)
{
	return b->harmed = thread_op(b->to, THREAD_MUL, b->n, b->n, 0);
}

static Reg
carried(Bench *b)
{
	Reg one = thread_int_const(b->to, REG_I32, 1), after;
	thread_if(b->to, thread_op(b->to, THREAD_EQ, b->n, one, 0));
	product(b);
	thread_else(b->to, &b->harmed, 1);
	thread_if_end(b->to, &one, &after, 1);
	return after;
}

/* A vector of which an element was forgotten. */
static LLVMValueRef
half_filled(EmitLlvm *l, LLVMValueRef was)
{
	LLVMPositionBuilderBefore(l->b, was);
	LLVMValueRef v = LLVMGetPoison(LLVMVectorType(l->type[REG_I16], 2));
	LLVMValueRef part = LLVMBuildTrunc(l->b, LLVMGetOperand(was, 0), l->type[REG_I16], "");
	v = LLVMBuildInsertElement(l->b, v, part, llvm_i32(l, 1), "");
	return LLVMBuildBitCast(l->b, v, l->type[REG_I32], "");
}

static LLVMValueRef
nothing(EmitLlvm *l, LLVMValueRef was)
{
	return LLVMGetUndef(LLVMTypeOf(was));
}

static void
test_found(void **state)
{
	static const struct {
		Plant *plant;
		Harm *harm;
	} rows[] = {{past_the_width, NULL}, {folded, NULL}, {stored, NULL}, {by_zero, NULL}, {product, half_filled},
	    {product, nothing}, {carried, nothing}};
	for (int i = 0; i < 2 * LEN(rows); i++) {
		Bench b;
		const char *why = "";
		begin(&b);
		thread_place(b.to, (Place){.file = b.file, .line = 3 + i, .col = 2});
		Reg r = rows[i / 2].plant(&b);
		thread_place(b.to, (Place){.file = b.file, .line = 50, .col = 1});
		keep(&b, r);
		write_module(&b, i % 2);
		if (rows[i / 2].harm) {
			LLVMValueRef was = llvm_value(b.l, b.harmed);
			b.l->value[b.harmed] = rows[i / 2].harm(b.l, was);
			LLVMReplaceAllUsesWith(was, b.l->value[b.harmed]);
		}
		if (finish(&b, i % 2, &why))
			fail_msg("row %d is not found", i);
		assert_string_equal(why,
		    arena_printf(b.mem, "probe.tgl:%d:2: a register that nothing gives a value is used", 3 + i));
		close(&b);
	}
}

/* What nobody uses is well, and so is a vector in the making. */
static void
test_unused(void **state)
{
	for (int host = 0; host < 2; host++) {
		Bench b;
		const char *why = "";
		begin(&b);
		past_the_width(&b);
		folded(&b);
		stored(&b);
		Reg pair[2] = {b.n, b.n};
		ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 2, .base = b.out, .align = 8};
		thread_store(b.to, &at, pair);
		write_module(&b, host);
		if (!finish(&b, host, &why))
			fail_msg("%s", why);
		close(&b);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_unused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
