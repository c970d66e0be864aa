/* Structured control as basic blocks and phis.
 *
 * A counted loop is written as its guard and a body that tests at its end, the form into which LLVM
 * would turn it:
 *
 *     before:  br (lo < hi), body, after
 *     body:    i = phi [lo, before], [i + step, end];  carried values likewise
 *              ...
 *     end:     br (i + step < hi), body, after
 *     after:   carried = phi [next, end], [init, before]
 *
 * Loops carry 16-bit floats by pairs, as words, and ifs give them so: one alone takes a register, too, and where two lie in
 * one that is spilled, ptxas 13.0 writes the lower one for both (H200: every second column of a tile). */
#include "emit/llvm/llvm.h"

LLVMBasicBlockRef
llvm_block(EmitLlvm *l, const char *name)
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

LLVMValueRef
llvm_phi(EmitLlvm *l, LLVMValueRef v, LLVMBasicBlockRef from, LLVMValueRef other, LLVMBasicBlockRef other_from)
{
	LLVMValueRef phi = LLVMBuildPhi(l->b, LLVMTypeOf(v), "");
	LLVMAddIncoming(phi, &v, &from, 1);
	if (other_from)
		LLVMAddIncoming(phi, &other, &other_from, 1);
	return phi;
}

/* Are the i-th of n registers and the next one a word? */
static bool
is_pair(EmitLlvm *l, const Reg *r, int i, int n)
{
	if (l->opt.host || i + 1 >= n)
		return false;
	RegType t = llvm_reg_type(l, r[i]);
	return llvm_is_narrow(t) && llvm_reg_type(l, r[i + 1]) == t;
}

/* The values of n registers with words for pairs; *made: how many that makes. */
static LLVMValueRef *
join(EmitLlvm *l, const Reg *r, const LLVMValueRef *v, int n, int *made)
{
	LLVMValueRef *joined = NEW_ARRAY(l->mem, LLVMValueRef, n);
	*made = 0;
	for (int i = 0, step; i < n; i += step) {
		step = is_pair(l, r, i, n) ? 2 : 1;
		joined[(*made)++] = step == 2 ? llvm_word(l, v + i, llvm_reg_type(l, r[i]), 2) : v[i];
	}
	return joined;
}

static void
part(EmitLlvm *l, const Reg *r, const LLVMValueRef *joined, LLVMValueRef *v, int n)
{
	for (int i = 0, step; i < n; i += step, joined++) {
		step = is_pair(l, r, i, n) ? 2 : 1;
		if (step == 2)
			llvm_split(l, *joined, llvm_reg_type(l, r[i]), v + i, 2);
		else
			v[i] = *joined;
	}
}

/* Phis at a loop's head, of what comes in from before; feed gives what comes round. */
static LLVMValueRef *
carry(EmitLlvm *l, const LLVMValueRef *init, LLVMBasicBlockRef before, int n)
{
	LLVMValueRef *phi = MAP_OF(l->mem, LLVMValueRef, i, n, llvm_phi(l, init[i], before, NULL, NULL));
	return phi;
}

static void
feed(EmitLlvm *l, LLVMValueRef *phi, LLVMValueRef *next, int n)
{
	LLVMBasicBlockRef from = here(l);
	for (int i = 0; i < n; i++)
		LLVMAddIncoming(phi[i], &next[i], &from, 1);
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

void
llvm_loop(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const ThreadRegion *r = n->region[0];
	const LLVMValueRef lo = in[0], hi = in[1], step = in[2];
	int m;
	LLVMValueRef *init = join(l, n->out, in + 3, n->nout, &m), *inside = NEW_ARRAY(l->mem, LLVMValueRef, n->nout);
	LLVMBasicBlockRef before = here(l), body = llvm_block(l, "loop"), after = llvm_block(l, "after");
	LLVMBuildCondBr(l->b, goes_on(l, lo, hi, step), body, after);
	go(l, body);
	LLVMValueRef index = llvm_phi(l, lo, before, NULL, NULL), *phi = carry(l, init, before, m);
	part(l, n->out, phi, inside, n->nout);
	llvm_set(l, r->arg, &index, 1);
	llvm_set(l, r->arg + 1, inside, n->nout);
	llvm_region(l, r);
	LLVMValueRef *next = join(l, n->out, llvm_values(l, r->yield, n->nout), n->nout, &m);
	LLVMValueRef turned = LLVMBuildNSWAdd(l->b, index, step, "");
	if (l->opt.host)
		llvm_host_iteration(l, false);
	LLVMBasicBlockRef end = here(l);
	feed(l, &index, &turned, 1);
	feed(l, phi, next, m);
	LLVMValueRef back = LLVMBuildCondBr(l->b, goes_on(l, turned, hi, step), body, after);
	if (!l->opt.host && LLVMIsConstant(lo) && LLVMIsConstant(hi) && LLVMIsConstant(step) && thread_find(r, NODE_WGMMA))
		llvm_nvptx_stays_loop(l, back);
	LLVMMoveBasicBlockAfter(after, end);
	go(l, after);
	for (int i = 0; i < m; i++)
		next[i] = llvm_phi(l, next[i], end, init[i], before);
	part(l, n->out, next, out, n->nout);
}

void
llvm_while(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out)
{
	const ThreadRegion *r = n->region[0];
	const LlvmTest outer = l->test;
	int waits = l->host.waits;
	LLVMBasicBlockRef before = here(l), head = llvm_block(l, "while"), body = llvm_block(l, "do"),
			  after = llvm_block(l, "after");
	int m;
	LLVMValueRef *init = join(l, r->arg, in, n->nin, &m), *inside = NEW_ARRAY(l->mem, LLVMValueRef, n->nin);
	LLVMBuildBr(l->b, head);
	go(l, head);
	LLVMValueRef *phi = carry(l, init, before, m);
	part(l, r->arg, phi, inside, n->nin);
	llvm_set(l, r->arg, inside, n->nin);
	l->test = (LlvmTest){body, after};
	llvm_region(l, r);
	l->test = outer;
	if (l->opt.host)
		llvm_host_iteration(l, l->host.waits != waits);
	feed(l, phi, join(l, r->arg, llvm_values(l, r->yield, n->nin), n->nin, &m), m);
	LLVMBuildBr(l->b, head);
	go(l, after);
	for (int i = 0; i < n->nout; i++)
		out[i] = inside[i];
}

void
llvm_while_test(EmitLlvm *l, LLVMValueRef pred)
{
	LLVMBuildCondBr(l->b, pred, l->test.body, l->test.after);
	go(l, l->test.body);
}

void
llvm_if(EmitLlvm *l, const ThreadNode *n, LLVMValueRef pred, LLVMValueRef *out)
{
	LLVMBasicBlockRef then = llvm_block(l, "then"), after = llvm_block(l, "endif"), other = llvm_block(l, "else");
	LLVMValueRef *value[2];
	LLVMBasicBlockRef end[2];
	int m;
	LLVMBuildCondBr(l->b, pred, then, other);
	for (int i = 0; i < 2; i++) {
		go(l, i == 0 ? then : other);
		llvm_region(l, n->region[i]);
		value[i] = join(l, n->out, llvm_values(l, n->region[i]->yield, n->nout), n->nout, &m);
		end[i] = here(l);
		LLVMBuildBr(l->b, after);
	}
	LLVMMoveBasicBlockAfter(after, end[1]);
	go(l, after);
	for (int i = 0; i < m; i++)
		value[0][i] = llvm_phi(l, value[1][i], end[1], value[0][i], end[0]);
	part(l, n->out, value[0], out, n->nout);
}
