/* Fuzzes the tile IR from both sides.
 *
 *     fuzz_ir [--seed=N] [--count=N] [--seconds=N] [--passes=LIST] [--target=NAME] [--show] [--text] [--simt]
 *         [--shrink] [FILE...]
 *
 * Each seed makes a random kernel (gen.c).  It must verify, its text must read back to the same text, and
 * every pass, and a traced run, must leave all tensors, pointed-to memory and printed lines as they were, to the
 * bit (NaNs are equal).  So must the passes of a GPU that remain when the module was changed behind the first few
 * (mutate.c).  Its text is then damaged at random and read again: the reader may report, and may not crash; what it
 * accepts must survive the passes.  Seeds count up from the one given (else from the clock; it is printed), so
 * a failing one can be run alone with --seed=N --count=1 --show; --shrink looks for a smaller kernel that fails.
 * With --simt each kernel goes all the way to a GPU's code instead, which is run on this machine (runtime/simt) and
 * must leave what the interpreter leaves, but for the last bits of sums and mathematical functions.
 * FILEs of tile IR with a generated kernel's parameters are checked instead, as far as the passes go. */
#include "gen.h"
#include "ir/interp/interp.h"
#include "lower/lower.h"
#include "runtime/simt/simt.h"
#include "pass/pass.h"
#include "target/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 60, MAX_BYTES = 3000, CELLS = GEN_ROWS * GEN_COLS };

/* Ends this process once it worked for so many seconds more; 0: not any more.  A busy machine is no hang. */
static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

typedef struct Rng {
	uint64_t state;
} Rng;

static uint64_t
rng_next(Rng *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = r->state;
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static int
rng_below(Rng *r, int n)
{
	return (int)(rng_next(r) % (uint64_t)n);
}

typedef struct Options {
	const char *passes, *target;
	bool show, text_only, simt;
	SimtMachine *machine;
} Options;

/* ---- running a module ---- */

typedef struct Memory {
	_Alignas(64) uint8_t tensor[GEN_TENSORS][CELLS * 8];
	_Alignas(64) uint8_t pointed[GEN_POINTERS][GEN_POINTED * 4];
	Text lines;
} Memory;

static void
memory_fill(Memory *mem, uint64_t seed)
{
	Rng r = {seed};

	memset(mem->tensor, 0, sizeof mem->tensor);
	for (int i = 0; i < GEN_TENSORS; i++)
		for (int k = 0; k < CELLS; k++) {
			int v = rng_below(&r, 41) - 20;
			if (gen_tensor_access(i) == ACCESS_OUT)
				continue;
			if (dtype_is_float(gen_tensor_type(i)))
				dtype_store_f64(gen_tensor_type(i), mem->tensor[i], k, v / 4.0);
			else
				dtype_store_i64(gen_tensor_type(i), mem->tensor[i], k, v);
		}
	for (int k = 0; k < GEN_POINTED; k++) {
		dtype_store_i64(TY_I32, mem->pointed[0], k, k * 3 - 50);
		dtype_store_f64(TY_F32, mem->pointed[1], k, k * 0.25 - 4);
	}
}

static void
on_print(void *user, const char *line)
{
	text_printf(user, "%s\n", line);
}

static void
on_trace(void *user, const Op *op, const int64_t program[MAX_AXES], int out, const void *data)
{
}

/* False if the module cannot be run; faults are part of what is compared.  A traced run computes each op on its
 * own, with no views, groups or results in place. */
static bool
run(Module *m, Memory *mem, bool traced)
{
	PlanOptions opt = {.print = on_print, .user = &mem->lines, .trace = traced ? on_trace : NULL};
	PlanArg arg[GEN_TENSORS + GEN_POINTERS + 4] = {0};
	const char *why = NULL;
	Fault fault = {0};
	Plan *plan = plan_open(m->funcs.at[0], &opt, &why);

	if (!plan) {
		fprintf(stderr, "no plan: %s\n", why);
		return false;
	}
	for (int i = 0; i < GEN_TENSORS; i++)
		arg[i] = (PlanArg){.data = mem->tensor[i], .dim = {GEN_ROWS, GEN_COLS}, .stride = {GEN_COLS, 1}};
	for (int i = 0; i < GEN_POINTERS; i++)
		arg[GEN_TENSORS + i].data = mem->pointed[i];
	arg[GEN_TENSORS + GEN_POINTERS].i = 5;
	arg[GEN_TENSORS + GEN_POINTERS + 1].f = 0.75;
	arg[GEN_TENSORS + GEN_POINTERS + 2].i = GEN_ROWS;
	arg[GEN_TENSORS + GEN_POINTERS + 3].i = GEN_COLS;
	Worker *w = worker_open(plan);
	if (!plan_run(plan, w, NULL, arg, (int64_t[MAX_AXES]){GEN_GRID, 1, 1}, 0, GEN_GRID, &fault))
		text_printf(&mem->lines, "fault: %s\n", fault.text);
	worker_close(w);
	plan_close(plan);
	return true;
}

static bool
same_elements(DType t, const void *a, const void *b, int n)
{
	for (int i = 0; i < n; i++) {
		if (!dtype_is_float(t)) {
			if (dtype_load_i64(t, a, i) != dtype_load_i64(t, b, i))
				return false;
			continue;
		}
		double x = dtype_load_f64(t, a, i), y = dtype_load_f64(t, b, i);
		if (isnan(x) != isnan(y) || (!isnan(x) && (x != y || signbit(x) != signbit(y))))
			return false;
	}
	return true;
}

static void
drop_nan_signs(char *s)
{
	for (char *at = s; at && (at = strstr(at, "-nan")); at++)
		*at = ' ';
}

static bool
same_memory(Memory *a, Memory *b)
{
	for (int i = 0; i < GEN_TENSORS; i++)
		if (!same_elements(gen_tensor_type(i), a->tensor[i], b->tensor[i], CELLS)) {
			fprintf(stderr, "tensor t%d differs\n", i);
			return false;
		}
	for (int i = 0; i < GEN_POINTERS; i++)
		if (!same_elements(i ? TY_F32 : TY_I32, a->pointed[i], b->pointed[i], GEN_POINTED)) {
			fprintf(stderr, "memory of p%d differs\n", i);
			return false;
		}
	drop_nan_signs(a->lines.at);
	drop_nan_signs(b->lines.at);
	if (strcmp(a->lines.at ? a->lines.at : "", b->lines.at ? b->lines.at : "") == 0)
		return true;
	fprintf(stderr, "printed lines differ:\n%s---\n%s", a->lines.at ? a->lines.at : "",
	    b->lines.at ? b->lines.at : "");
	return false;
}

/* ---- one seed ---- */

static void
show_reports(Compile *cx)
{
	Text text = {0};

	diag_print(cx, &text, 0, false);
	fputs(text.at ? text.at : "", stderr);
	text_close(&text);
}

static Module *
reread(Compile *cx, const Text *text)
{
	int file = source_text(cx, "generated", text->at, text->n);
	Module *m = file >= 0 ? module_parse(cx, file) : NULL;

	if (!m)
		show_reports(cx);
	return m;
}

static bool
check_round_trip(Compile *cx, const Text *text)
{
	Text again = {0};
	Module *m = reread(cx, text);

	if (!m)
		return false;
	module_print(m, &again);
	bool same = strcmp(text->at, again.at) == 0;
	if (!same)
		fprintf(stderr, "text differs when read back:\n%s", again.at);
	text_close(&again);
	return same;
}

/* Has a tile no elements?  References have such tiles, kernels on a GPU do not. */
static bool
has_empty(const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].type->kind == TYPE_TILE && type_count(op->out[i].type) == 0)
				return true;
		for (int i = 0; i < op->nregion; i++)
			if (has_empty(op->region[i]))
				return true;
	}
	return false;
}

/* A GPU prints no tile whose extents are no powers of two, and all do that are generated: for its passes prints go. */
static void
drop_prints(Module *m)
{
	for (int i = 0; i < m->funcs.n; i++)
		for (Op *op = m->funcs.at[i]->body->first, *next; op; op = next) {
			next = op_after(op, m->funcs.at[i]->body);
			if (op->kind == OP_PRINT)
				op_erase(op);
		}
}

static bool
run_without_prints(Compile *cx, const Text *text, Memory *mem, uint64_t seed)
{
	Module *m = reread(cx, text);

	text_close(&mem->lines);
	*mem = (Memory){0};
	memory_fill(mem, seed);
	if (m)
		drop_prints(m);
	return m && run(m, mem, false);
}

static bool
check_passes(Compile *cx, const Text *text, const Options *o, uint64_t seed)
{
	static const struct { const char *passes, *target; } pipelines[] = {
	    {"simplify", NULL}, {"licm", NULL}, {"simplify,licm,simplify", NULL}, {"pad,simplify", "sm_90a"},
	    {"simplify,licm,pad,axis,coalesce,assign,simplify", "sm_80"},
	};
	Memory before = {0}, after;
	Module *m = reread(cx, text);
	bool good = m != NULL;

	memory_fill(&before, seed);
	good = good && run(m, &before, false);
	after = (Memory){0};
	memory_fill(&after, seed);
	good = good && run(m, &after, true);
	if (good && !same_memory(&before, &after)) {
		fprintf(stderr, "between a plain and a traced run\n");
		good = false;
	}
	text_close(&after.lines);
	if (o->show)
		fputs(before.lines.at ? before.lines.at : "", stdout);
	for (int i = 0; good && i < (o->passes ? 1 : LEN(pipelines)); i++) {
		PassOptions opt = {.only = o->passes ? o->passes : pipelines[i].passes, .verify = true};
		const char *target = o->passes ? o->target : pipelines[i].target;
		after = (Memory){0};
		memory_fill(&after, seed);
		m = reread(cx, text);
		if (m && target && has_empty(m->funcs.at[0]->body))
			continue;
		if (m && target) {
			good = run_without_prints(cx, text, &before, seed);
			drop_prints(m);
		}
		good = good && m && passes_run(m, target ? target_named(target) : NULL, &opt);
		if (!good)
			show_reports(cx);
		good = good && run(m, &after, false) && same_memory(&before, &after);
		if (!good) {
			Text out = {0};
			if (m)
				module_print(m, &out);
			fprintf(stderr, "after %s:\n%s", opt.only, out.at ? out.at : "");
			text_close(&out);
		}
		text_close(&after.lines);
	}
	text_close(&before.lines);
	return good;
}

/* A module changed behind some passes must come out of all others computing what it does. */
static bool
check_mutated(Compile *cx, const Text *text, uint64_t seed)
{
	static const struct { const char *first, *rest; } at[] = {
	    {"simplify", "licm,simplify,pad,simplify,axis,coalesce,dot,assign,pipeline,smem,barrier"},
	    {"simplify,licm", "simplify,pad,simplify,axis,coalesce,dot,assign,pipeline,smem,barrier"},
	    {"simplify,licm,simplify,pad", "simplify,axis,coalesce,dot,assign,pipeline,smem,barrier"},
	};
	int i = (int)(seed % LEN(at));
	const Target *t = target_named(seed & 8 ? "sm_90a" : "sm_80");
	PassOptions first = {.only = at[i].first, .verify = true}, rest = {.only = at[i].rest, .verify = true};
	Memory before = {0}, after = {0};
	Text changed = {0};
	Module *m = reread(cx, text);
	bool good = true;

	if (!m || has_empty(m->funcs.at[0]->body))
		return m;
	drop_prints(m);
	if (!passes_run(m, t, &first) || !gen_mutate(m, seed) || module_verify(m))
		return true;
	module_print(m, &changed);
	memory_fill(&before, seed);
	memory_fill(&after, seed);
	rest.layouts = seed & 16 ? seed : 0;
	Module *plain = reread(cx, &changed);
	good = plain && run(plain, &before, false);
	if (good && !passes_run(m, t, &rest)) {
		show_reports(cx);
		good = false;
	}
	good = good && run(m, &after, false) && same_memory(&before, &after);
	if (!good)
		fprintf(stderr, "changed behind %s:\n%sand then %s for %s\n", at[i].first, changed.at, at[i].rest, t->name);
	text_close(&changed);
	text_close(&before.lines);
	text_close(&after.lines);
	return good;
}

/* ---- through lowering ---- */

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
	const AbiParam *abi = artefact_abi(f, cx->mem, &n);
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
	/* programs in order, for they write to the same places: one OS thread */
	SimtLaunch l = {.param = value, .nblocks = f->schedule.persistent ? 1 : GEN_GRID, .workers = 1, .range = range,
	    .nrange = nrange, .seed = schedule, .print = on_print, .print_user = &mem->lines};
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

/* Whether elements of one access may meet in one place, where who comes last is not defined. */
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

static bool
check_simt(Compile *cx, const Text *text, const Options *o, uint64_t seed)
{
	const Target *t = target_named(o->target ? o->target : seed & 1 ? "sm_90a" : "sm_80");
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
	good = good && run(plain, &before, false) && passes_run(m, t, &opt);
	good = good && run_lowered(cx, m->funcs.at[0], t, &after, o->machine, seed % 3 ? seed : 0);
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

/* Damages text: bytes changed, spans dropped, doubled, or swapped for others of its own. */
static void
damage(Rng *r, Text *text)
{
	static const char *const words[] = {"%", "{", "}", "\"", "9223372036854775807", "99999999999999999999", "[", "-1", "nan",
	    "yield", "f32", "@", "*mut", "1048576", "for", ":", ", ", "\n", "kernel @f(", "while", "then {", "0x"};

	for (int n = 1 + rng_below(r, 4); n > 0 && text->n > 2; n--) {
		size_t at = rng_next(r) % (text->n - 1), length = (size_t)rng_below(r, 24) + 1, from;
		length = MIN(length, text->n - at);
		switch (rng_below(r, 5)) {
		case 0:
			text->at[at] = (char)(rng_below(r, 255) + 1);
			break;
		case 1:
			memmove(text->at + at, text->at + at + length, text->n - at - length);
			text->n -= length;
			break;
		case 2:
			from = rng_next(r) % (text->n - 1);
			length = MIN(length, text->n - from);
			memmove(text->at + at, text->at + from, MIN(length, text->n - at));
			break;
		case 3:
			text->n = rng_below(r, 8) ? text->n : at + 1;
			break;
		default: {
			const char *word = words[rng_below(r, LEN(words))];
			memcpy(text->at + at, word, MIN(strlen(word), text->n - at));
			break;
		}
		}
		text->at[text->n] = '\0';
	}
}

static bool
check_damaged(Compile *cx, const Text *text, uint64_t seed)
{
	Rng r = {seed ^ 0x5eed};

	for (int i = 0; i < 8; i++) {
		Text bad = {0};
		PassOptions opt = {.verify = true};
		text_putn(&bad, text->at, text->n);
		damage(&r, &bad);
		int file = source_text(cx, "damaged", bad.at, bad.n);
		Module *m = file >= 0 ? module_parse(cx, file) : NULL;
		bool good = !m || passes_run(m, NULL, &opt);
		if (!good) {
			fprintf(stderr, "damaged text:\n%s\n", bad.at);
			show_reports(cx);
		}
		text_close(&bad);
		if (!good)
			return false;
	}
	return true;
}

typedef struct Input {
	uint8_t bytes[MAX_BYTES];
	int n;
	uint64_t seed;
} Input;

static void
input_make(Input *in, uint64_t seed)
{
	Rng r = {seed};

	in->seed = seed;
	in->n = 40 + rng_below(&r, MAX_BYTES - 40);
	for (int i = 0; i < in->n; i++)
		in->bytes[i] = (uint8_t)rng_next(&r);
}

static bool
check_input(const Input *in, const Options *o)
{
	Compile *cx = compile_open();
	Text text = {0};
	Module *m = gen_module(cx, (Bytes){in->bytes, in->bytes + in->n});

	module_print(m, &text);
	if (o->show) {
		fputs(text.at, stdout);
		fflush(stdout);
	}
	const char *why = module_verify(m);
	if (why)
		fprintf(stderr, "does not verify: %s\n", why);
	bool good = !why && check_round_trip(cx, &text);
	if (o->simt)
		good = good && check_simt(cx, &text, o, in->seed);
	else
		good = good && (o->text_only || check_passes(cx, &text, o, in->seed)) && check_damaged(cx, &text, in->seed);
	for (uint64_t i = 0; good && !o->simt && !o->text_only && !o->passes && i < 3; i++)
		good = check_mutated(cx, &text, in->seed * 3 + i);
	if (!good && !o->show)
		fputs(text.at, stderr);
	text_close(&text);
	compile_close(cx);
	return good;
}

/* The same in a process of its own, silently, so that a crash is a failure like others. */
static bool
check_apart(const Input *in, const Options *o)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(0);
		watch(20);
		_exit(check_input(in, o) ? 0 : 1);
	}
	return child < 0 || waitpid(child, &status, 0) < 0 || status == 0;
}

/* Drops and clears bytes as long as the input still fails. */
static void
shrink(Input *in, const Options *o)
{
	for (int size = in->n / 2; size > 0; size = size > 1 ? size / 2 : 0)
		for (int at = in->n - size; at >= 0; at -= size) {
			Input less = *in;
			memmove(less.bytes + at, less.bytes + at + size, (size_t)(less.n - at - size));
			less.n -= size;
			if (!check_apart(&less, o))
				*in = less;
		}
	for (int at = 0; at < in->n; at++) {
		Input less = *in;
		less.bytes[at] = 0;
		if (in->bytes[at] && !check_apart(&less, o))
			*in = less;
	}
}

/* A file of tile IR with the parameters that generated kernels have. */
static bool
check_file(const char *path, const Options *o)
{
	Compile *cx = compile_open();
	Text text = {0};
	int file = source_open(cx, path, NOWHERE);

	if (file < 0) {
		show_reports(cx);
		compile_close(cx);
		return false;
	}
	text_putn(&text, cx->files.at[file].text, cx->files.at[file].size);
	bool good = check_passes(cx, &text, o, 0);
	text_close(&text);
	compile_close(cx);
	return good;
}

static const char *
option(const char *arg, const char *name)
{
	size_t n = strlen(name);

	return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

/* Rounds from *done on, in a child, so that the seed of one that crashes or hangs can be told; *done is shared. */
static int
rounds(uint64_t seed, uint64_t count, double seconds, bool shrinks, const Options *o, uint64_t *done)
{
	time_t start = time(NULL);
	pid_t child = fork();
	int status = 0;
	Input in;

	if (child > 0 && waitpid(child, &status, 0) == child && status != 0)
		fprintf(stderr, "fuzz_ir: seed %llu fails\n", (unsigned long long)(seed + *done));
	if (child != 0)
		return child < 0 ? 2 : status != 0;
	for (; *done < count && difftime(time(NULL), start) < seconds; ++*done) {
		input_make(&in, seed + *done);
		if (shrinks && !check_apart(&in, o))
			shrink(&in, o);
		fflush(stdout);
		watch(shrinks ? 0 : HANG_SECONDS);
		if (!check_input(&in, o))
			_exit(1);
	}
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv)
{
	uint64_t seed = (uint64_t)time(NULL), count = UINT64_MAX;
	double seconds = 10;
	bool shrinks = false;
	int nfiles = 0, nbad = 0;
	Options o = {0};

	for (int i = 1; i < argc; i++) {
		const char *v;
		if ((v = option(argv[i], "--seed=")))
			seed = strtoull(v, NULL, 10);
		else if ((v = option(argv[i], "--count=")))
			count = strtoull(v, NULL, 10), seconds = 1e9;
		else if ((v = option(argv[i], "--seconds=")))
			seconds = strtod(v, NULL);
		else if ((v = option(argv[i], "--passes=")))
			o.passes = v;
		else if ((v = option(argv[i], "--target=")))
			o.target = v;
		else if (strcmp(argv[i], "--show") == 0)
			o.show = true;
		else if (strcmp(argv[i], "--shrink") == 0)
			shrinks = true;
		else if (strcmp(argv[i], "--text") == 0)
			o.text_only = true;
		else if (strcmp(argv[i], "--simt") == 0)
			o.simt = (o.machine = simt_open()) != NULL;
		else if (argv[i][0] != '-')
			nfiles++, nbad += !check_file(argv[i], &o);
		else
			return fprintf(stderr, "fuzz_ir: unknown option %s\n", argv[i]), 2;
	}
	if (nfiles) {
		printf("fuzz_ir: %d of %d files are good\n", nfiles - nbad, nfiles);
		return nbad > 0;
	}
	printf("fuzz_ir: seeds from %llu\n", (unsigned long long)seed);
	fflush(stdout);
	uint64_t *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (done == MAP_FAILED)
		return fprintf(stderr, "fuzz_ir: no memory\n"), 2;
	int status = rounds(seed, count, seconds, shrinks, &o, done);
	printf("fuzz_ir: %llu seeds are good\n", (unsigned long long)*done);
	return status;
}
