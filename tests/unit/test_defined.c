/* Faults planted into what is emitted, for a GPU and for the emulator: each makes a register without a value, and is
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
	Emitter *e;
	Reg out, n;                                     /* pointer, i32 */
	int file;
} Bench;

static void
begin(Bench *b, bool host)
{
	static const EmitParam param[] = {{.name = "out", .type = REG_GLOBAL, .align = 16}, {.name = "n", .type = REG_I32}};
	const EmitKernel k = {"probe", param, LEN(param), 128, 1, 0, 16};
	const char *why = NULL;
	Reg r[2], shared;
	*b = (Bench){.mem = arena_open(), .cx = compile_open()};
	const EmitLlvmOptions opt = {.verify = true, .host = host, .cx = b->cx};
	b->file = source_text(b->cx, "probe.tgl", "", 0);
	b->l = emit_llvm_open(b->mem, target_named("sm_80"), &opt, &why);
	assert_non_null(b->l);
	b->e = emit_llvm_emitter(b->l);
	b->e->kernel_begin(b->e, &k, r, &shared);
	b->out = r[0];
	b->n = r[1];
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
	EmitAccess at = {.space = SPACE_GLOBAL, .type = b->e->type(b->e, v), .n = 1, .base = b->out, .align = 8};
	b->e->store(b->e, &at, &v);
}

/* True: there is code.  Else *why, in b's memory. */
static bool
finish(Bench *b, bool host, const char **why)
{
	int n;
	Text ptx = {0};
	b->e->kernel_end(b->e);
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

static Reg
past_the_width(Bench *b)
{
	return b->e->op(b->e, EMIT_SHL, b->n, b->e->int_const(b->e, REG_I32, 32), 0);
}

static Reg
folded(Bench *b)
{
	Reg three = b->e->int_const(b->e, REG_I32, 3), far = b->e->int_const(b->e, REG_I32, 40);
	return b->e->op(b->e, EMIT_ADD, b->n, b->e->op(b->e, EMIT_LSHR, three, far, 0), 0);
}

static Reg
stored(Bench *b)
{
	Reg three = b->e->int_const(b->e, REG_I32, 3), far = b->e->int_const(b->e, REG_I32, 40);
	return b->e->op(b->e, EMIT_ASHR, three, far, 0);
}

static Reg
by_zero(Bench *b)
{
	return b->e->op(b->e, EMIT_UDIV, b->n, b->e->int_const(b->e, REG_I32, 0), 0);
}

/* A vector of which the emitter itself forgot an element. */
static Reg
half_filled(Bench *b)
{
	EmitLlvm *l = b->l;
	LLVMValueRef v = LLVMGetPoison(LLVMVectorType(l->type[REG_I32], 2));
	v = LLVMBuildInsertElement(l->b, v, llvm_value(l, b->n), llvm_i32(l, 1), "");
	return llvm_add(l, REG_I64, LLVMBuildBitCast(l->b, v, l->type[REG_I64], ""));
}

static Reg
carried(Bench *b)
{
	Emitter *e = b->e;
	Reg none = llvm_add(b->l, REG_I32, LLVMGetUndef(b->l->type[REG_I32])), after;
	Reg one = e->int_const(e, REG_I32, 1);
	e->if_begin(e, e->op(e, EMIT_EQ, b->n, one, 0));
	e->if_else(e, &b->n, 1);
	e->if_end(e, &none, &after, 1);
	return after;
}

static void
test_found(void **state)
{
	static Plant *const plants[] = {past_the_width, folded, stored, by_zero, half_filled, carried};
	for (int i = 0; i < 2 * LEN(plants); i++) {
		Bench b;
		const char *why = "";
		begin(&b, i % 2);
		b.e->place(b.e, (Place){.file = b.file, .line = 3 + i, .col = 2});
		Reg r = plants[i / 2](&b);
		b.e->place(b.e, (Place){.file = b.file, .line = 50, .col = 1});
		keep(&b, r);
		assert_false(finish(&b, i % 2, &why));
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
		begin(&b, host);
		past_the_width(&b);
		folded(&b);
		stored(&b);
		Reg pair[2] = {b.n, b.n};
		EmitAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 2, .base = b.out, .align = 8};
		b.e->store(b.e, &at, pair);
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
