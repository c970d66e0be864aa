/* From a function after the passes of a GPU to code of this machine. */
#include <stdlib.h>
#include <string.h>

#include "lower/lower.h"
#include "runtime/simt/simt.h"

struct SimtCode {
	EmitCode *code;
	const Target *target;
	int threads, shared_bytes, cluster;
	bool checks;
};

static bool
has_no_ptx(const ThreadModule *m, Compile *cx)
{
	const ThreadNode *n = m->kinds & 1u << NODE_PTX ? thread_find(m->body, NODE_PTX) : NULL;
	if (!n)
		return true;
	diag_error(cx, n->place, DIAG_LOWER_CANNOT, "inline_ptx", "the simt device");
	diag_help(cx, "it runs the target's code on this machine, which has no PTX; --device=cuda can run it");
	return false;
}

/* Thread IR that was read may be of another kernel, target or form of it. */
static bool
takes_the_same(const ThreadModule *m, const Func *f, const Target *t, Arena *mem)
{
	int n;
	const AbiParam *abi = artefact_abi(f, t, mem, &n);
	bool same = m->target == t && m->kernel.nparam == n && strcmp(m->kernel.name, f->name) == 0;
	for (int i = 0; i < n && same; i++)
		same = (abi[i].kind == ABI_POINTER) <= (m->kernel.param[i].type == REG_GLOBAL) &&
		    (abi[i].kind == ABI_TENSOR_MAP) == m->kernel.param[i].is_map &&
		    (m->kernel.param[i].type == REG_GLOBAL || thread_type_bytes(m->kernel.param[i].type) == abi[i].bytes);
	if (!same)
		diag_error(f->module->cx, f->place, DIAG_THREAD_TEXT, arena_printf(f->module->cx->tmp,
		    "kernel '%s' for %s takes other parameters than the thread IR's '%s' for %s", f->name, t->name,
		    m->kernel.name, m->target->name));
	return same;
}

SimtCode *
simt_code_open(Func *f, const Target *t, const SimtCodeOptions *o, Arena *mem, const char **why)
{
	const EmitLlvmOptions opt = {.cx = f->module->cx, .host = true, .checks = o->checks, .quick = o->quick};
	int nsymbol;
	const EmitSymbol *symbol = simt_symbols(&nsymbol);
	EmitLlvm *l = emit_llvm_open(mem, t, &opt, why);
	if (!l)
		return NULL;
	SimtCode *c = memory_new(1, sizeof *c);
	*c = (SimtCode){.target = t, .checks = o->checks};
	*why = "";
	const ThreadModule *m = o->thread ? o->thread : lower_func(f, t, mem);
	if (m && has_no_ptx(m, f->module->cx) && takes_the_same(m, f, t, mem)) {
		emit_llvm_module(l, m);
		c->threads = m->kernel.threads;
		c->shared_bytes = m->kernel.shared_bytes;
		c->cluster = MAX(m->kernel.cluster, 1);
		c->code = emit_llvm_code(l, symbol, nsymbol, why);
	}
	emit_llvm_close(l);
	if (c->code)
		return c;
	free(c);
	return NULL;
}

void
simt_code_close(SimtCode *c)
{
	if (!c)
		return;
	emit_code_close(c->code);
	free(c);
}

void
simt_code_launch(const SimtCode *c, SimtLaunch *out)
{
	out->kernel = (SimtKernel *)emit_code_entry(c->code);
	out->target = c->target;
	out->threads = c->threads;
	out->shared_bytes = c->shared_bytes;
	out->cluster = c->cluster;
	out->site = emit_code_sites(c->code, &out->nsite);
	out->checks = c->checks;
	out->starts_early = (c->target->has & HAS_GRID_WAIT) != 0;
}
