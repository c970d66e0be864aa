/* Structured control as blocks and phis.
 *
 * A counted loop is written as its guard and a body that tests at its end, the form into which LLVM
 * would turn it:
 *
 *     before:  br (lo < hi), body, after
 *     body:    i = phi [lo, before], [i + step, end];  carried values likewise
 *              ...
 *     end:     br (i + step < hi), body, after
 *     after:   carried = phi [init, before], [next, end] */
#include "emit/llvm/llvm.h"

static LLVMBasicBlockRef
block(EmitLlvm *l, const char *name)
{
	return LLVMAppendBasicBlockInContext(l->cx, l->fn, name);
}

static LLVMBasicBlockRef
here(EmitLlvm *l)
{
	return LLVMGetInsertBlock(l->b);
}

static void
go(EmitLlvm *l, LLVMBasicBlockRef to)
{
	LLVMPositionBuilderAtEnd(l->b, to);
}

static LlvmRegion *
open_region(EmitLlvm *l, int n)
{
	LlvmRegion r = {.before = here(l), .n = n};
	r.phi = NEW_ARRAY(l->e.mem, LLVMValueRef, n);
	r.value = NEW_ARRAY(l->e.mem, LLVMValueRef, n);
	vec_push(l->e.mem, &l->region, r);
	return &vec_last(&l->region);
}

static LlvmRegion
close_region(EmitLlvm *l, int n)
{
	if (l->region.n == 0 || vec_last(&l->region).n != n)
		die("a region ends with %d carried values, but began with another number", n);
	return vec_pop(&l->region);
}

/* Phis of the values that come in from where the builder stood, at the start of the block where it
 * stands now. */
static void
carry(EmitLlvm *l, LlvmRegion *r, const Reg *init, Reg *inside)
{
	for (int i = 0; i < r->n; i++) {
		RegType type = llvm_reg_type(l, init[i]);
		r->value[i] = llvm_value(l, init[i]);
		r->phi[i] = LLVMBuildPhi(l->b, l->type[type], "");
		LLVMAddIncoming(r->phi[i], &r->value[i], &r->before, 1);
		inside[i] = llvm_add(l, type, r->phi[i]);
	}
}

static void
feed(EmitLlvm *l, LlvmRegion *r, const Reg *next)
{
	LLVMBasicBlockRef from = here(l);
	for (int i = 0; i < r->n; i++) {
		LLVMValueRef v = llvm_value(l, next[i]);
		LLVMAddIncoming(r->phi[i], &v, &from, 1);
	}
}

/* Where the builder stands now: one of two values, by the block it came from. */
static void
join(EmitLlvm *l, const LlvmRegion *r, LLVMBasicBlockRef from, const Reg *v,
    LLVMBasicBlockRef other, Reg *after)
{
	for (int i = 0; i < r->n; i++) {
		RegType type = llvm_reg_type(l, v[i]);
		LLVMValueRef in[2] = {llvm_value(l, v[i]), r->value[i]},
			     phi = LLVMBuildPhi(l->b, l->type[type], "");
		LLVMBasicBlockRef blocks[2] = {from, other};
		LLVMAddIncoming(phi, in, blocks, 2);
		after[i] = llvm_add(l, type, phi);
	}
}

/* True while a loop goes on. */
static LLVMValueRef
goes_on(EmitLlvm *l, LLVMValueRef i, LLVMValueRef hi, LLVMValueRef step)
{
	if (LLVMIsAConstantInt(step)) {
		int64_t s = LLVMConstIntGetSExtValue(step);
		if (s == 0)
			return LLVMConstInt(l->type[REG_PRED], 0, false);
		return LLVMBuildICmp(l->b, s > 0 ? LLVMIntSLT : LLVMIntSGT, i, hi, "");
	}
	LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(step));
	LLVMValueRef up = LLVMBuildICmp(l->b, LLVMIntSGT, step, zero, ""),
		     down = LLVMBuildICmp(l->b, LLVMIntSLT, step, zero, "");
	up = LLVMBuildAnd(l->b, up, LLVMBuildICmp(l->b, LLVMIntSLT, i, hi, ""), "");
	down = LLVMBuildAnd(l->b, down, LLVMBuildICmp(l->b, LLVMIntSGT, i, hi, ""), "");
	return LLVMBuildOr(l->b, up, down, "");
}

static Reg
loop_begin(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion *r = open_region(l, n);
	LLVMValueRef first = llvm_value(l, lo);
	r->hi = llvm_value(l, hi);
	r->step = llvm_value(l, step);
	r->body = block(l, "loop");
	r->after = block(l, "after");
	LLVMBuildCondBr(l->b, goes_on(l, first, r->hi, r->step), r->body, r->after);
	go(l, r->body);
	r->index = LLVMBuildPhi(l->b, LLVMTypeOf(first), "");
	LLVMAddIncoming(r->index, &first, &r->before, 1);
	carry(l, r, init, inside);
	return llvm_add(l, llvm_reg_type(l, lo), r->index);
}

static void
loop_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion r = close_region(l, n);
	LLVMValueRef index = LLVMBuildNSWAdd(l->b, r.index, r.step, "");
	if (l->opt.host)
		llvm_host_turn(l, false);
	LLVMBasicBlockRef end = here(l);
	LLVMAddIncoming(r.index, &index, &end, 1);
	feed(l, &r, next);
	LLVMBuildCondBr(l->b, goes_on(l, index, r.hi, r.step), r.body, r.after);
	LLVMMoveBasicBlockAfter(r.after, end);
	go(l, r.after);
	join(l, &r, end, next, r.before, after);
}

static void
while_begin(Emitter *e, const Reg *init, Reg *inside, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion *r = open_region(l, n);
	r->body = block(l, "while");
	r->other = block(l, "do");
	r->after = block(l, "after");
	LLVMBuildBr(l->b, r->body);
	go(l, r->body);
	carry(l, r, init, inside);
}

static void
while_test(Emitter *e, Reg pred)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion *r = &vec_last(&l->region);
	LLVMBuildCondBr(l->b, llvm_value(l, pred), r->other, r->after);
	go(l, r->other);
}

static void
while_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion r = close_region(l, n);
	if (l->opt.host)
		llvm_host_turn(l, r.spins);
	feed(l, &r, next);
	LLVMBuildBr(l->b, r.body);
	go(l, r.after);
	for (int i = 0; i < n; i++)
		after[i] = llvm_add(l, llvm_reg_type(l, next[i]), r.phi[i]);
}

static void
if_begin(Emitter *e, Reg pred)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion *r = open_region(l, 0);
	r->body = block(l, "then");
	r->after = block(l, "endif");
	r->other = block(l, "else");
	LLVMBuildCondBr(l->b, llvm_value(l, pred), r->body, r->other);
	go(l, r->body);
}

static void
if_else(Emitter *e, const Reg *then, int n)
{
	EmitLlvm *l = llvm_state(e);
	LlvmRegion *r = &vec_last(&l->region);
	r->n = n;
	r->has_else = true;
	r->value = NEW_ARRAY(e->mem, LLVMValueRef, n);
	for (int i = 0; i < n; i++)
		r->value[i] = llvm_value(l, then[i]);
	r->then_end = here(l);
	LLVMBuildBr(l->b, r->after);
	go(l, r->other);
}

static void
if_end(Emitter *e, const Reg *otherwise, Reg *after, int n)
{
	EmitLlvm *l = llvm_state(e);
	if (!vec_last(&l->region).has_else)
		if_else(e, NULL, 0);
	LlvmRegion r = close_region(l, n);
	LLVMBasicBlockRef end = here(l);
	LLVMBuildBr(l->b, r.after);
	LLVMMoveBasicBlockAfter(r.after, end);
	go(l, r.after);
	join(l, &r, end, otherwise, r.then_end, after);
}

static void
trap(Emitter *e)
{
	LlvmAsm a = {.l = llvm_state(e)};
	llvm_asm_make(&a, "trap;", ASM_MEMORY, NULL, NULL);
}

void
llvm_control_open(EmitLlvm *l)
{
	Emitter *e = &l->e;
	e->loop_begin = loop_begin;
	e->loop_end = loop_end;
	e->while_begin = while_begin;
	e->while_test = while_test;
	e->while_end = while_end;
	e->if_begin = if_begin;
	e->if_else = if_else;
	e->if_end = if_end;
	e->trap = trap;
}
