/* The thread IR as LLVM IR: one walk over its nodes, for PTX and for this machine.
 *
 * Both take arithmetic, words, calls and control from here and from the files that both share; kernels, memory and what
 * threads do together differ and are each target's own (llvm_nvptx.c, llvm_simt.c).
 *
 *     r9: f32 = load.global [r7 + r8] align 4          %9 = load float, ptr addrspace(1) %8, align 4
 *     r10: f32 = fmul r9, 2.0                    =>    %10 = fmul contract float %9, 2.000000e+00
 *
 * A register has the value that its node was given; a constant is made where it is used first.  Functions beside the
 * kernel are made once and called: nothing in them touches memory or other threads, and they stand at no line. */
#include "emit/llvm/llvm.h"

#include <string.h>

LLVMValueRef *
llvm_values(EmitLlvm *l, const Reg *r, int n)
{
	LLVMValueRef *v = MAP_OF(l->mem, LLVMValueRef, i, n, llvm_value(l, r[i]));
	return v;
}

void
llvm_set(EmitLlvm *l, const Reg *r, const LLVMValueRef *v, int n)
{
	for (int i = 0; i < n; i++) {
		const char *hint = l->thread->reg.at[r[i] - 1].hint;
		l->value[r[i]] = v[i];
		if (hint && LLVMIsAInstruction(v[i]))
			LLVMSetValueName2(v[i], hint, strlen(hint));
	}
}

static bool
is_same(Place a, Place b)
{
	return a.file == b.file && a.line == b.line && a.col == b.col && a.end_line == b.end_line &&
	    a.end_col == b.end_col && a.call == b.call;
}

/* Moves to a place of the source; to the module's own first. */
static void
stand(EmitLlvm *l, Place at)
{
	bool is_first = l->at.file < 0;
	if (l->in_function || is_same(l->at, at))
		return;
	l->at = at;
	if (l->opt.host) {
		llvm_simt_place(l, at);
		return;
	}
	if (is_first)
		llvm_line(l, l->thread->place);
	llvm_line(l, at);
}

static void
call(EmitLlvm *l, const ThreadNode *n, LLVMValueRef *in, LLVMValueRef *out)
{
	int i = FIRST_OF(k, l->functions.n, l->thread->functions.at[k] == n->function);
	if (i < 0)
		die("'%s' is called, but not there", n->text);
	LLVMValueRef fn = l->functions.at[i];
	LLVMValueRef v = LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, in, (unsigned)n->nin, "");
	for (int k = 0; k < n->nout; k++)
		out[k] = n->nout == 1 ? v : LLVMBuildExtractValue(l->b, v, (unsigned)k, "");
}

static void
node(EmitLlvm *l, const ThreadNode *n)
{
	bool host = l->opt.host;
	stand(l, n->place);
	LLVMValueRef *in = llvm_values(l, n->in, n->nin), *out = NEW_ARRAY(l->mem, LLVMValueRef, n->nout);
	switch (n->kind) {
	case NODE_OP: out[0] = llvm_op(l, n, in); break;
	case NODE_CAST:
		if (host && llvm_reg_type(l, n->in[0]) == REG_SHARED)
			llvm_simt_node(l, n, in, out);
		else
			out[0] = llvm_cast(l, n, in[0]);
		break;
	case NODE_PACK: out[0] = llvm_word(l, in, llvm_reg_type(l, n->in[0]), n->nin); break;
	case NODE_UNPACK: llvm_split(l, in[0], n->type, out, n->nout); break;
	case NODE_LOOKUP: out[0] = llvm_lookup(l, n, in[0]); break;
	case NODE_POINTER: out[0] = llvm_pointer(l, n); break;
	case NODE_LOAD: (host ? llvm_simt_load : llvm_nvptx_load)(l, n->at, out); break;
	case NODE_STORE: (host ? llvm_simt_store : llvm_nvptx_store)(l, n->at, in); break;
	case NODE_ATOMIC:
		out[0] = (host ? llvm_simt_atomic : llvm_nvptx_atomic)(l, (AtomicKind)n->op, n->at, in[0],
		    n->nin > 1 ? in[1] : NULL);
		break;
	case NODE_CALL: call(l, n, in, out); break;
	case NODE_LOOP: llvm_loop(l, n, in, out); break;
	case NODE_WHILE: llvm_while(l, n, in, out); break;
	case NODE_TEST: llvm_while_test(l, in[0]); break;
	case NODE_IF: llvm_if(l, n, in[0], out); break;
	default: (host ? llvm_simt_node : llvm_nvptx_node)(l, n, in, out); break;
	}
	llvm_set(l, n->out, out, n->nout);
}

/* ---- products of warpgroups ---- */

static bool
reads(const ThreadNode *n, const ThreadNode *of)
{
	return ANY_OF(i, n->nin, ANY_OF(k, of->nout, n->in[i] == of->out[k]));
}

/* Does b only add to what a leaves, by the same instruction? */
static bool
adds_to(const ThreadNode *b, const ThreadNode *a)
{
	const int c = wgmma_words((unsigned)b->op) + 1;
	return b->kind == NODE_WGMMA && b->wgmma == a->wgmma && b->op == a->op && b->nin == c + b->nout &&
	    memcmp(b->in + c, a->out, sizeof *b->in * (size_t)b->nout) == 0;
}

/* The next product of a chain, before which only pure nodes stand, or -1. */
static int
next_product(const ThreadRegion *r, int i)
{
	const ThreadNode *a = r->body.at[i];
	for (int k = i + 1; k < r->body.n; k++) {
		const ThreadNode *b = r->body.at[k];
		if (adds_to(b, a))
			return k;
		if (!thread_is_pure(b) || reads(b, a))
			return -1;
	}
	return -1;
}

/* Products of one accumulator are one text: LLVM takes as long for the registers of each text as for all else of a loop.
 * Returns the place of the last. */
static int
products(EmitLlvm *l, const ThreadRegion *r, int i)
{
	VEC(const ThreadNode *) chain = {0};
	const ThreadNode *first = r->body.at[i];
	LLVMValueRef *out = NEW_ARRAY(l->mem, LLVMValueRef, first->nout);
	vec_push(l->mem, &chain, first);
	for (int next; (next = next_product(r, i)) >= 0; i = next) {
		for (int k = i + 1; k < next; k++)
			node(l, r->body.at[k]);
		vec_push(l->mem, &chain, r->body.at[next]);
	}
	stand(l, first->place);
	llvm_nvptx_wgmma(l, chain.at, chain.n, out);
	for (int k = 0; k < chain.n; k++)               /* the same registers */
		llvm_set(l, chain.at[k]->out, out, first->nout);
	return i;
}

void
llvm_region(EmitLlvm *l, const ThreadRegion *r)
{
	bool outer = l->keeps_order;
	bool is_branch = r->owner && r->owner->kind == NODE_IF, multiplies = l->thread->kinds & 1u << NODE_WGMMA;
	l->keeps_order = !multiplies || thread_keeps_order(r) || (outer && is_branch);
	for (int i = 0; i < r->body.n; i++) {
		if (r->body.at[i]->region[0] && !l->keeps_order && !l->in_function)
			vec_push(l->mem, &l->held, ((LlvmHeld){LLVMGetInsertBlock(l->b), r->body.n}));
		if (r->body.at[i]->kind == NODE_WGMMA && !l->opt.host)
			i = products(l, r, i);
		else
			node(l, r->body.at[i]);
	}
	l->keeps_order = outer;
	stand(l, r->end);
}

/* ---- functions ---- */

static LLVMTypeRef
function_type(EmitLlvm *l, const ThreadFunc *f)
{
	LLVMTypeRef *param = MAP_OF(l->mem, LLVMTypeRef, i, f->nparam, l->type[f->param[i]]);
	LLVMTypeRef *each = MAP_OF(l->mem, LLVMTypeRef, i, f->nresult, l->type[f->result[i]]);
	LLVMTypeRef result =
	    f->nresult == 1 ? each[0] : LLVMStructTypeInContext(l->cx, each, (unsigned)f->nresult, false);
	return LLVMFunctionType(result, param, (unsigned)f->nparam, false);
}

static void
describe(EmitLlvm *l, LLVMValueRef fn)
{
	static const char *const word[] = {"nounwind", "willreturn", "memory", "noinline", "cold"}; /* memory 0: none */
	for (int i = 0; i < LEN(word); i++)
		llvm_function_attribute(l, fn, word[i]);
}

static void
function(EmitLlvm *l, const ThreadFunc *f)
{
	LLVMValueRef fn = LLVMAddFunction(l->m, f->name, function_type(l, f)), kernel = l->fn;
	LLVMBasicBlockRef outside = LLVMGetInsertBlock(l->b);
	LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(l->b);
	LLVMSetLinkage(fn, LLVMInternalLinkage);
	describe(l, fn);
	l->fn = fn;
	l->in_function = true;
	LLVMSetCurrentDebugLocation2(l->b, NULL);
	LLVMPositionBuilderAtEnd(l->b, llvm_block(l, "entry"));
	for (int i = 0; i < f->nparam; i++)
		l->value[f->body->arg[i]] = LLVMGetParam(fn, (unsigned)i);
	llvm_region(l, f->body);
	LLVMValueRef *result = llvm_values(l, f->body->yield, f->nresult);
	if (f->nresult == 1)
		LLVMBuildRet(l->b, result[0]);
	else
		LLVMBuildAggregateRet(l->b, result, (unsigned)f->nresult);
	l->fn = kernel;
	l->in_function = false;
	LLVMPositionBuilderAtEnd(l->b, outside);
	LLVMSetCurrentDebugLocation2(l->b, line);
	vec_push(l->mem, &l->functions, fn);
}

void
emit_llvm_module(EmitLlvm *l, const ThreadModule *m)
{
	l->thread = m;
	l->at = NOWHERE;
	l->value = NEW_ARRAY(l->mem, LLVMValueRef, m->reg.n + 1);
	(l->opt.host ? llvm_simt_kernel : llvm_nvptx_kernel)(l, &m->kernel);
	for (int i = 0; i < m->functions.n; i++)
		function(l, m->functions.at[i]);
	llvm_region(l, m->body);
	LLVMBuildRetVoid(l->b);
	if (l->opt.host)
		llvm_simt_kernel_end(l);
}
