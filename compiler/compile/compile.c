/* One call from a bound kernel to tile IR that a device can load: elaborate, note the schedule and what is assumed of
 * arguments, then the pipeline of the target.  And on from there: lowering, LLVM, and PTX with all that a launch must
 * know of it. */
#include "compile/compile.h"
#include "ir/derive.h"
#include "compile/describe.h"

#include "emit/emit.h"
#include "lower/lower.h"
#include "model/digits/digits.h"

#include <string.h>

/* The word for a target that a kernel's source compares `target` with. */
static const char *
source_target(const Target *t, const PassOptions *opt)
{
	if (opt && opt->source)
		return opt->source;
	if (!t)
		return "cpu";
	return t->kind == TARGET_PTX ? "ptx" : "metal";
}

static void
set_schedule(Func *f, const Schedule *s)
{
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		f->schedule.at[i] = MAX(s->at[i], 0);
}

static void
warn_that_idle(const Kernel *k, const char *word, int asked, const char *why)
{
	bool is_switch = schedule_info[schedule_named(word)].kind == SCHEDULE_SWITCH;
	const char *value = is_switch ? (asked ? "true" : "false") : arena_printf(k->program->cx->mem, "%d", asked);
	diag_warning(k->program->cx, k->item->name_place, DIAG_SCHEDULE_IDLE, word, value, why);
}

/* Warns of values of the schedule that this target ignores, since measuring them would show no difference. */
static void
warn_idle(const Kernel *k, const Schedule *s, const Target *t)
{
	char why[96];
	if (s->ctas > 1 && !(t->has & HAS_CLUSTER)) {
		snprintf(why, sizeof why, "%s has no clusters of blocks", t->name);
		warn_that_idle(k, "ctas", s->ctas, why);
	}
}

/* Why `stages` changes nothing: no buffer has slots, and all passes have run; or NULL. */
static const char *
stages_reason(const Schedule *s, const Func *f)
{
	bool may_have = s->stages <= 1 || !(f->module->facts & SMEM);
	bool has = may_have || ANY_OP(op, f->body, op->kind == OP_ALLOC && op->out[0].type->slots > 1);
	return !has ? "no loop reads tiles for products by asynchronous copies" : NULL;
}

/* After the passes: roles, clusters or shared loops were asked for, and there are none.  What was chosen needs no
 * warning. */
static void
warn_whole(const Kernel *k, const Bound *b, const Func *f)
{
	const Schedule *s = &b->schedule;
	const struct { const char *word; int asked; const char *why; } said[] = {
	    {"ctas", f->schedule.ctas, f->cluster_reason}, {"specialize", 1, f->whole_reason},
	    {"pingpong", 1, f->pingpong_reason}, {"dynamic", 1, s->dynamic == 1 ? f->dynamic_reason : NULL},
	    {"coarsen", s->coarsen, f->coarsen_reason},
	    {"batch", s->batch, f->batch_reason}, {"strip", s->strip, f->strip_reason},
	    {"unroll", s->unroll, f->unroll_reason}, {"keep", s->keep, f->keep_reason},
	    {"share", s->share, f->share_reason}, {"slices", s->slices, f->slices_reason},
	    {"split", s->split, f->split_reason}, {"materialize", 1, f->materialize_reason},
	    {"parts", s->parts, f->parts_reason},
	    {"stages", s->stages, f->schedule.parts > 1 ? NULL : stages_reason(s, f)},
	    {"group", s->group, s->group > 1 && f->naxis < 2 ? "the grid has one axis" : NULL},
	    {"persistent", 0, s->at[SCHEDULE_PERSISTENT] == 0 && f->schedule.persistent
	        ? "roles loop over programs; specialize = false leaves them out" : NULL},
	};
	for (int i = 0; i < LEN(said); i++)
		if (said[i].why && !(b->chosen >> schedule_named(said[i].word) & 1))
			warn_that_idle(k, said[i].word, said[i].asked, said[i].why);
}

void
compile_unknown_target(Compile *cx, const char *name)
{
	VEC(const char *) known = {0};
	const Target *t;
	vec_push(cx->mem, &known, "cpu");
	for (int i = 0; (t = target_at(i)); i++)
		vec_push(cx->mem, &known, t->name);
	diag_error(cx, NOWHERE, DIAG_TARGET_UNKNOWN, name);
	diag_help(cx, "%s", name_advice(cx->mem, name, known.at, known.n));
}

/* `may_part`: into roles, though the schedule does not ask for it.  *made: the module, also where they failed. */
static bool
run_passes(Kernel *k, const Bound *b, const Target *t, const ArgAssumptions *assumptions, const PassOptions *opt,
    bool may_part, Module **made)
{
	Module *m = *made = kernel_module(k, b, source_target(t, opt));
	if (!m)
		return false;
	Func *f = m->funcs.at[0];
	f->schedule.split = MAX(b->schedule.split, 0);  /* on the cpu device, too: pass split_k */
	if (!t)
		return passes_run(m, t, opt);
	set_schedule(f, &b->schedule);
	for (int i = 0; i < k->params.n && assumptions && assumptions->strides; i++)
		arg_strides_note(f, i, &assumptions->strides[i]);
	bool is_alone = assumptions && assumptions->alone && (f->schedule.materialize || f->schedule.parts > 1);
	f->schedule.materialize = is_alone ? 0 : f->schedule.materialize;
	f->schedule.parts = is_alone ? 0 : f->schedule.parts;
	bool parts = may_part && choose_roles(f, &b->schedule, t);
	if (parts)
		f->schedule.specialize = 1;
	if (b->schedule.dynamic < 0 && f->schedule.specialize)
		f->schedule.dynamic = choose_dynamic(f);
	assumptions_note(f, k, b, assumptions);
	if (!passes_run(m, t, opt))
		return false;
	if (is_alone)
		f->materialize_reason = f->parts_reason = "code that others launch comes as one kernel";
	if (!parts || !f->whole_reason)
		return true;
	Compile *cx = k->program->cx;
	Diag *said = cx->last;
	bool ok = run_passes(k, b, t, assumptions, opt, false, made);
	if (ok)                                         /* it has been said */
		diag_cut(cx, said);
	return ok;
}

bool
compile_as_is(Kernel *k, const Bound *b, const Target *t, const ArgAssumptions *assumptions, const PassOptions *opt,
    Module **made)
{
	return run_passes(k, b, t, assumptions, opt, true, made);
}

Module *
compile_kernel(Kernel *k, const Bound *b, const char *target, const ArgAssumptions *assumptions, const PassOptions *opt)
{
	Compile *cx = k->program->cx;
	const Target *t = NULL;
	if (strcmp(target, "cpu") != 0 && !(t = target_named(target))) {
		compile_unknown_target(cx, target);
		return NULL;
	}
	bool warns = t && b->schedule.materialize < MATERIALIZE_FIRST;         /* of which no word says anything */
	if (warns)
		warn_idle(k, &b->schedule, t);
	Module *m;
	if (!compile_as_is(k, b, t, assumptions, opt, &m))
		m = m && t ? compile_fitting(k, b, t, assumptions, opt, m) : NULL;
	if (m && warns)
		warn_whole(k, b, m->funcs.at[0]);
	return m;
}

/* ---- from tile IR to PTX ---- */

static void
note_time(Text *times, const char *what, double since)
{
	if (times)
		text_printf(times, "%-12s %8.3f ms\n", what, now_ms() - since);
}

static ThreadModule *
lower(Func *f, const Target *t, Arena *mem, Text *times)
{
	double start = now_ms();
	ThreadModule *m = lower_func(f, t, mem);
	note_time(times, "lower", start);
	return m;
}

/* The emulator prints what --trace asks for, and no other device. */
static bool
is_for_gpu(const ThreadModule *m, Compile *cx)
{
	const ThreadNode *n = m->kinds & 1u << NODE_TRACE ? thread_find(m->body, NODE_TRACE) : NULL;
	if (n)
		diag_error(cx, n->place, DIAG_LOWER_CANNOT,
		    "printing what --trace asks for (--device=cpu and --device=simt do)", m->target->name);
	return !n;
}

bool
compile_finds_llvm(Compile *cx)
{
	const char *why;
	if (emit_llvm_there(&why))
		return true;
	diag_error(cx, NOWHERE, DIAG_LLVM_MISSING, why);
	return diag_help(cx, "install LLVM 22, or say where its library is: TEGULA_LLVM=/path/to/libLLVM.so.22.1");
}

/* A kernel's thread IR as LLVM IR or PTX; *kernel: by the name that the device knows.  `at`: of the kernel. */
static bool
through_llvm(const ThreadModule *m, Compile *cx, Place at, CompileStage stage, Text *out, Text *times, ThreadKernel *kernel)
{
	const char *why = "";
	const EmitLlvmOptions opt = {.lines = !cx->ships, .cx = cx};
	if (!m || !compile_finds_llvm(cx) || !is_for_gpu(m, cx))
		return false;
	double start = now_ms();
	EmitLlvm *l = emit_llvm_open(m->mem, m->target, &opt, &why);
	note_time(times, "llvm-open", start);
	start = now_ms();
	bool ok = l != NULL;
	if (ok)
		emit_llvm_module(l, m);
	if (ok && stage == STAGE_LLVM)
		emit_llvm_text(l, out);
	else if (ok)
		ok = emit_llvm_ptx(l, out, &why);
	if (ok) {
		*kernel = m->kernel;
		kernel->name = emit_llvm_kernel(l);
	}
	note_time(times, "llvm", start);
	if (!ok)
		diag_error(cx, at, DIAG_LLVM_FAILED, m->kernel.name, m->target->name, why);
	emit_llvm_close(l);
	return ok;
}

bool
compile_thread(const ThreadModule *m, Compile *cx, CompileStage stage, Text *out, Text *times)
{
	ThreadKernel kernel;
	if (stage != STAGE_THREAD)
		return through_llvm(m, cx, NOWHERE, stage, out, times, &kernel);
	thread_module_print(m, cx, out);
	return true;
}

bool
compile_text(Module *m, const Target *t, CompileStage stage, Text *out, Text *times)
{
	Arena *mem = arena_open();
	bool ok = true;
	for (int i = 0; i < m->funcs.n && ok; i++) {
		ThreadModule *thread = lower(m->funcs.at[i], t, mem, times);
		ok = thread && compile_thread(thread, m->cx, stage, out, times);
	}
	arena_close(mem);
	return ok;
}

/* Metal's writer reports what the language has not. */
static bool
write_metal(ThreadModule *m, Compile *cx, Text *out, EmitMsl *made)
{
	int errors = cx->nerrors;
	emit_msl(m, cx, out, made);
	return cx->nerrors == errors;
}

bool
compile_metal(Module *m, const Target *t, const Bound *b, Text *out, Text *json, Text *times)
{
	Arena *mem = arena_open();
	EmitMsl made;
	ThreadModule *thread = lower(m->funcs.at[0], t, mem, times);
	bool ok = thread && write_metal(thread, m->cx, out, &made);
	if (ok && b)
		metal_describe(m->funcs.at[0], b, &made, json);
	arena_close(mem);
	return ok;
}

static char *
copy(const char *s)
{
	char *c = strdup(s);
	if (!c)
		die("out of memory");
	return c;
}

/* "softmax.tgl:12:5: a row must not be empty" */
static char *
assert_text(const Compile *cx, const Op *op)
{
	Text t = {0};
	if (op->place.file >= 0)
		text_printf(&t, "%s:%d:%d: ", source_named(cx, op->place.file), op->place.line, op->place.col);
	text_put(&t, attr_text(op));
	return t.at ? t.at : copy("");
}

static void
list_asserts(const Func *f, Artefact *out)
{
	VEC(char *) list = {0};
	Arena *mem = arena_open();
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_ASSERT)
			vec_push(mem, &list, assert_text(f->module->cx, op));
	out->nasserts = list.n;
	out->asserts = memory_new((size_t)list.n, sizeof *out->asserts);
	for (int i = 0; i < list.n; i++)
		out->asserts[i] = list.at[i];
	arena_close(mem);
}

static void
describe(const Func *f, const Target *t, const ThreadKernel *k, Arena *mem, Artefact *out)
{
	const AbiParam *abi = artefact_abi(f, t, mem, &out->nabi);
	const TensorMap *map = artefact_maps(f, t, mem, &out->nmaps);
	size_t size = sizeof *abi * (size_t)out->nabi, map_size = sizeof *map * (size_t)out->nmaps;
	out->kernel = copy(k->name);
	snprintf(out->target, sizeof out->target, "%s", t->name);
	out->abi = memory_new(size, 1);
	out->map = memory_new(map_size, 1);
	out->nmade = f->nmade;
	out->made = memory_new((size_t)f->nmade, sizeof *out->made);
	if (f->nmade)
		memcpy(out->made, f->made, sizeof *out->made * (size_t)f->nmade);
	if (size)
		memcpy(out->abi, abi, size);
	if (map_size)
		memcpy(out->map, map, map_size);
	artefact_by_argument(f, out->abi, out->nabi, out->map, out->nmaps);
	artefact_made_by_argument(f, out->made, out->nmade);
	out->threads = k->threads;
	out->warps = k->threads / t->lanes;
	out->shared_bytes = k->shared_bytes;
	out->naxis = f->naxis;
	out->added = f->added;
	out->persistent = artefact_is_persistent(f);
	out->cluster = MAX(k->cluster, 1);
	out->cluster_axis = func_cluster_axis(f);
	out->cluster_beside = func_cluster_beside(f);
	out->split = MAX(MAX(f->schedule.split, f->stream), 1);
	out->share = MAX(f->schedule.share, 1);
	out->part_bytes = split_part_bytes(f);
	out->parts_registers = func_role_registers(f);
	out->registers = out->spill_bytes = out->stack_bytes = -1;
	list_asserts(f, out);
}

/* The kernel's parameters are those that the text reads.  It declares its threadgroup memory itself, beside which a launch
 * gives none: the two would add up, and what needs more than half of it did not run. */
static bool
metal_artefact(Module *m, const Target *t, Artefact *out)
{
	Arena *mem = arena_open();
	Text text = {0};
	EmitMsl made;
	ThreadModule *thread = lower(m->funcs.at[0], t, mem, NULL);
	bool ok = thread && write_metal(thread, m->cx, &text, &made);
	*out = (Artefact){.form = FORM_MSL};
	if (ok) {
		int kept = 0;
		describe(m->funcs.at[0], t, &made.kernel, mem, out);
		out->shared_bytes = 0;
		for (int i = 0; i < out->nabi; i++)
			if (made.param[i].buffer >= 0)
				out->abi[kept++] = out->abi[i];
		out->nabi = kept;
		out->bytes = text.at;
		out->size = text.n + 1;
	} else {
		text_close(&text);
	}
	arena_close(mem);
	return ok;
}

static bool
ptx_artefact(Func *f, const Target *t, Text *times, Artefact *out)
{
	Arena *mem = arena_open();
	Text ptx = {0};
	ThreadKernel kernel;
	*out = (Artefact){.form = FORM_PTX};
	bool ok = through_llvm(lower(f, t, mem, times), f->module->cx, f->place, STAGE_PTX, &ptx, times, &kernel);
	if (ok) {
		describe(f, t, &kernel, mem, out);
		out->bytes = ptx.at;
		out->size = ptx.n + 1;
		out->waits = (func_waits_late(f) ? ptx_waits_late : ptx_waits_first)(ptx.at);
		out->stack_bytes = ptx_local_bytes(ptx.at);
	} else {
		text_close(&ptx);
	}
	arena_close(mem);
	return ok;
}

bool
compile_artefact(Module *m, const Target *t, Artefact *out)
{
	return t->kind == TARGET_METAL ? metal_artefact(m, t, out) : ptx_artefact(m->funcs.at[0], t, NULL, out);
}

/* PTX is ASCII, of which a comment ends with its line. */
static void
put_comment(const Text *text, Text *out)
{
	text_put(out, "// ");
	for (size_t i = 0; i + 1 < text->n; i++) {
		char c = text->at[i];
		if (c == '\n')
			text_put(out, text->at[i + 1] == '\n' ? "\n//" : "\n// ");
		else
			text_putn(out, c >= ' ' && c < 127 ? &c : "?", 1);
	}
	text_put(out, "\n");
}

bool
compile_ptx(Module *m, const Target *t, const Bound *b, Text *out, Text *description, Text *times)
{
	bool ok = true;
	for (int i = 0; i < m->funcs.n && ok; i++) {
		Artefact a;
		Text about = {0};
		ok = ptx_artefact(m->funcs.at[i], t, times, &a);
		if (ok) {
			describe_launch(m->funcs.at[i], b, &a, &about);
			if (description)
				text_put(description, about.at);
			else
				put_comment(&about, out);
			text_put(out, a.bytes);
		}
		text_close(&about);
		artefact_close(&a);
	}
	return ok;
}
