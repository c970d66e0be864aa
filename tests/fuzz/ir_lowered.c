/* fuzz_ir --simt: a kernel of gen.c as a GPU's code, run on this machine (runtime/simt), against the interpreter. */
#include "fuzz_ir.h"
#include "compile/compile.h"
#include "pass/pass.h"
#include "target/target.h"

#include <math.h>
#include <string.h>

static void
add_range(SimtRange *r, const void *p, size_t bytes)
{
	r->low = r->first = (uint64_t)(uintptr_t)p;
	r->high = r->low + bytes;
}

/* One launch of the GPU's code, warps in an order of the schedule's.  An assert that does not hold is a line, as in
 * run(). */
static bool
run_lowered(Compile *cx, Func *f, const Target *t, Memory *mem, SimtMachine *machine, uint64_t schedule)
{
	FaultRecord faults = {0};
	const char *why = "";
	SimtRange range[GEN_TENSORS + GEN_POINTERS + 1] = {0};
	SimtReport report;
	int n, nrange = 0;
	const AbiParam *abi = artefact_abi(f, t, cx->mem, &n);
	uint64_t *value = NEW_ARRAY(cx->mem, uint64_t, n);
	float third = 0.75f;
	SimtCode *code = simt_code_open(f, t, &(SimtCodeOptions){.checks = true, .quick = true}, cx->mem, &why);

	if (!code) {
		fprintf(stderr, "%s\n", why);
		return false;
	}
	for (int i = 0; i < n; i++) {
		int p = abi[i].param;
		if (abi[i].kind == ABI_POINTER)
			value[i] = (uint64_t)(uintptr_t)(p < GEN_TENSORS ? mem->tensor[p] : mem->pointed[p - GEN_TENSORS]);
		else if (abi[i].kind == ABI_SCALAR && dtype_is_float(f->body->arg[p].type->elem))
			memcpy(&value[i], &third, sizeof third);
		else if (abi[i].kind == ABI_SCALAR)
			value[i] = 5;
		else if (abi[i].kind == ABI_DIM)
			value[i] = p == GEN_TENSORS + GEN_POINTERS + 2 ? GEN_ROWS : GEN_COLS;
		else if (abi[i].kind == ABI_GRID)
			value[i] = abi[i].dim == 0 ? GEN_GRID : 1;
		else if (abi[i].kind == ABI_INVERSE)
			value[i] = grid_inverse(abi[i].dim == 0 ? GEN_GRID : 1);
		else
			value[i] = (uint64_t)(uintptr_t)&faults;
	}
	for (int i = 0; i < GEN_TENSORS; i++)
		add_range(&range[nrange++], mem->tensor[i], (size_t)CELLS * dtype_tile_size(gen_tensor_type(i)));
	for (int i = 0; i < GEN_POINTERS; i++)
		add_range(&range[nrange++], mem->pointed[i], (size_t)GEN_POINTED * 4);
	add_range(&range[nrange++], &faults, sizeof faults);
	/* Programs in order, for they write the same elements: one OS thread, and a block for each, of persistent kernels
	 * too, since in a loop over programs no barrier orders them. */
	SimtLaunch l = {.param = value, .nblocks = GEN_GRID, .workers = 1, .range = range, .nrange = nrange,
	    .seed = schedule, .print = on_print, .print_user = &mem->lines};
	simt_code_launch(code, &l);
	bool good = simt_run(machine, &l, &report);
	simt_code_close(code);
	if (!good) {
		fprintf(stderr, "block %lld, line %d: %s\n", (long long)report.block, report.place.line, report.text);
		return false;
	}
	if (faults.number)
		text_put(&mem->lines, "fault: an assert\n");
	return true;
}

/* Sums in another order and other polynomials: a few units of what the type holds. */
static bool
near_elements(DType t, const void *a, const void *b, int n)
{
	double unit = t == TY_F16 ? 0x1p-9 : t == TY_F64 ? 0x1p-40 : t == TY_F32 ? 0x1p-18 : 0x1p-6;

	if (!dtype_is_float(t))
		return same_elements(t, a, b, n);
	for (int i = 0; i < n; i++) {
		double x = dtype_load_f64(t, a, i), y = dtype_load_f64(t, b, i);
		if (isnan(x) != isnan(y) || (x != y && !isnan(x) && !(fabs(x - y) <= unit * (1 + fabs(x)))))
			return false;
	}
	return true;
}

/* Whether one access may write an element twice; which write comes last is not defined. */
static bool
may_collide(const Op *op)
{
	bool scatters = op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR;
	return scatters || ((op->kind == OP_WRITE || op->kind == OP_ATOMIC) && strchr(attr_index(op), 'g'));
}

/* Prints go, and accesses that may collide; false if something depends on one of those. */
static bool
drop_undefined(Module *m)
{
	drop_prints(m);
	for (Op *op = m->funcs.at[0]->body->first, *next; op; op = next) {
		next = op_after(op, m->funcs.at[0]->body);
		if (!may_collide(op))
			continue;
		if (op->nout && op->out[0].nuses)
			return false;
		op_erase(op);
	}
	return true;
}

/* Thread IR is read again; where its text is damaged, what reads still simplifies and prints. */
static bool
check_damaged_thread(Compile *cx, Module *m, const Target *t, uint64_t seed)
{
	Rng r = {seed ^ 0x7a5};
	Text text = {0};
	bool good = compile_text(m, t, STAGE_THREAD, &text, NULL) || cx->nerrors;
	for (int i = 0; i < 4 && text.n; i++) {
		Compile *one = compile_open();
		ThreadModules got = {0};
		Text bad = {0}, out = {0};
		text_putn(&bad, text.at, text.n);
		if (i > 0)
			damage(&r, &bad);
		int file = source_text(one, "damaged", bad.at, bad.n);
		bool reads = file >= 0 && thread_modules_parse(one, file, &got);
		for (int k = 0; k < got.n && reads; k++) {
			thread_rewrite(got.at[k], NULL, NULL);
			compile_thread(got.at[k], one, STAGE_THREAD, &out, NULL);
		}
		if (i == 0 && !reads) {
			fprintf(stderr, "thread IR that is not read again:\n%s\n", bad.at);
			good = false;
		}
		text_close(&out);
		text_close(&bad);
		compile_close(one);
	}
	text_close(&text);
	return good;
}

bool
check_simt(Compile *cx, const Text *text, const char *target, SimtMachine *machine, uint64_t seed)
{
	const Target *t = target_named(target ? target : seed & 1 ? "sm_90a" : "sm_80");
	PassOptions opt = {.verify = true};
	Memory before = {0}, after = {0};
	Module *m = reread(cx, text), *plain = reread(cx, text);
	bool good = m && plain;

	if (good && (!drop_undefined(m) || !drop_undefined(plain)))
		return true;
	memory_fill(&before, seed);
	memory_fill(&after, seed);
	if (good) {
		Rng r = {seed};
		m->funcs.at[0]->schedule.warps = 1 << rng_below(&r, 4);
		m->funcs.at[0]->schedule.persistent = rng_below(&r, 4) == 0;
		m->funcs.at[0]->schedule.stages = rng_below(&r, 4);
	}
	good = good && run(plain, &before, (PlanOptions){0}) && passes_run(m, t, &opt);
	good = good && check_damaged_thread(cx, m, t, seed);
	good = good && run_lowered(cx, m->funcs.at[0], t, &after, machine, seed % 3 ? seed : 0);
	if (!good)
		show_reports(cx);
	bool stopped = before.lines.n > 0;
	if (good && stopped != (after.lines.n > 0)) {
		fprintf(stderr, "only one of them fails: %s", stopped ? before.lines.at : after.lines.at);
		good = false;
	}
	/* a GPU goes on after an assert */
	for (int i = 0; good && !stopped && i < GEN_TENSORS; i++)
		if (!near_elements(gen_tensor_type(i), before.tensor[i], after.tensor[i], CELLS)) {
			fprintf(stderr, "tensor t%d differs\n", i);
			good = false;
		}
	for (int i = 0; good && !stopped && i < GEN_POINTERS; i++)
		if (!near_elements(i ? TY_F32 : TY_I32, before.pointed[i], after.pointed[i], GEN_POINTED)) {
			fprintf(stderr, "memory of p%d differs\n", i);
			good = false;
		}
	if (!good && m) {
		Text out = {0};
		module_print(m, &out);
		fprintf(stderr, "after the passes of %s:\n%s", t->name, out.at ? out.at : "");
		text_close(&out);
	}
	text_close(&before.lines);
	text_close(&after.lines);
	return good;
}

