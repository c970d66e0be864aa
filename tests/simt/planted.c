/* Faults planted into what lowering makes, and looked for by the emulator.
 *
 *     planted FILE.tir...
 *
 * A file is a kernel of static sizes and begins with lines about itself:
 *
 *     // target: sm_80
 *     // grid: 2 2
 *     // plant: barrier 2: E1401 11 9          its second barrier left out is found: the code, the places' lines
 *     // plant: parity 1: waits_at_mbar_wait 8 so is this, by words of what ends the launch
 *     // plant: fragment 1: result             nothing is reported, and what comes out is not what the CPU computes
 *
 * Its ops say of what lines they are, as those of a program do: `read … @11:16`.
 *
 * Unharmed it must agree with the interpreter and be reported by no check, in order and with random schedules.  What can
 * be planted is said in plant.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"

#include "lower/lower.h"
#include "pass/pass.h"
#include "runtime/simt/simt.h"

static Plant plant;

enum { MOST_PARAMS = 8, SCHEDULES = 8 };

/* ---- a kernel and its arguments ---- */

typedef struct Kernel {
	const char *path;
	Compile *cx;
	const Target *target;
	Func *f;
	int64_t grid[MAX_AXES];
	PlanArg arg[MOST_PARAMS];
	size_t bytes[MOST_PARAMS];
	void *want[MOST_PARAMS];                        /* what the interpreter gives */
	int failed;
} Kernel;

static void
complain(Kernel *k, const char *what, const char *more)
{
	printf("FAIL %s, %s %d: %s%s\n", k->path, *plant.kind ? plant.kind : "nothing planted", plant.number, what, more);
	k->failed++;
}

static void
show(Compile *cx)
{
	Text t = {0};
	diag_print(cx, &t, 0, false);
	fputs(t.at ? t.at : "", stdout);
	text_close(&t);
}

/* The text behind a word of the file's head. */
static const char *
head(const char *text, const char *word, char *out, size_t size)
{
	const char *at = strstr(text, word);
	size_t n = at ? strcspn(at + strlen(word), "\n") : 0;
	snprintf(out, size, "%.*s", (int)n, at ? at + strlen(word) : "");
	return at ? out : NULL;
}

/* Parsed and, for a target, through its passes; NULL: the complaints are shown. */
static Func *
compile(const char *path, const Target *t, Compile **cx)
{
	*cx = compile_open();
	int file = source_open(*cx, path, NOWHERE);
	Module *m = file < 0 ? NULL : module_parse(*cx, file);
	const char *wrong = m ? module_verify(m) : NULL;
	const PassOptions all = {0}, late = {.only = "smem,barrier"};
	bool ok = m && !wrong && (!t || passes_run(m, t, m->facts & LAYOUTS ? &late : &all));
	if (ok)
		return m->funcs.at[0];
	show(*cx);
	printf("%s", wrong ? wrong : "");
	compile_close(*cx);
	return NULL;
}

/* Small whole numbers into what is read; what is written is poisoned. */
static void
fill(Kernel *k)
{
	uint64_t s = 1;
	for (int i = 0; i < k->f->nparam; i++) {
		const Type *t = k->f->body->arg[i].type;
		int64_t n = type_count(t), step = 1;
		for (int d = t->rank - 1; d >= 0; d--) {
			k->arg[i].dim[d] = t->extent[d];
			k->arg[i].stride[d] = step;
			step *= t->extent[d];
		}
		k->bytes[i] = (size_t)(n * dtype_info[t->elem].bits / 8);
		if (!k->arg[i].data)
			k->arg[i].data = aligned_alloc(256, (k->bytes[i] + 255) / 256 * 256);
		k->arg[i].low = k->arg[i].data;
		k->arg[i].high = k->arg[i].low + k->bytes[i];
		memset(k->arg[i].data, 0xff, k->bytes[i]);
		for (int64_t x = 0; x < n && k->f->param[i].access == ACCESS_IN; x++) {
			s = s * 6364136223846793005u + 1442695040888963407u;
			dtype_store_f64(t->elem, k->arg[i].data, x, (double)(s >> 60) - 7);
		}
	}
}

static bool
interpret(Kernel *k)
{
	const char *why = NULL;
	const PlanOptions opt = {0};
	Compile *cx;
	Fault fault = {0};
	Func *f = compile(k->path, NULL, &cx);
	Plan *p = f ? plan_open(f, &opt, &why) : NULL;
	Worker *w = p ? worker_open(p) : NULL;
	bool ok = w && plan_run(p, w, NULL, k->arg, k->grid, 0, k->grid[0] * k->grid[1] * k->grid[2], &fault);
	if (!ok)
		complain(k, "the interpreter does not run it: ", why ? why : fault.text);
	for (int i = 0; i < k->f->nparam && ok; i++) {
		k->want[i] = malloc(k->bytes[i]);
		memcpy(k->want[i], k->arg[i].data, k->bytes[i]);
	}
	if (w)
		worker_close(w);
	if (p)
		plan_close(p);
	if (f)
		compile_close(cx);
	return ok;
}

/* ---- on the emulator ---- */

static uint64_t
value_of(const Kernel *k, const AbiParam *p, const uint64_t *room)
{
	switch (p->kind) {
	case ABI_POINTER: return (uintptr_t)k->arg[p->param].data;
	case ABI_STRIDE: return (uint64_t)k->arg[p->param].stride[p->dim];
	case ABI_EXTENT: return (uint64_t)k->arg[p->param].dim[p->dim];
	case ABI_GRID: return (uint64_t)k->grid[p->dim];
	case ABI_INVERSE: return grid_inverse(k->grid[p->dim]);
	default: return (uintptr_t)room;
	}
}

/* True: it ran to its end.  Reports are in found or report. */
static bool
emulate(Kernel *k, uint64_t seed, SimtFindings *found, SimtReport *report)
{
	const EmitLlvmOptions opt = {.cx = k->cx, .host = true, .checks = true};
	const char *why = "";
	int nsymbol, nabi, nsite;
	Arena *mem = arena_open();
	uint64_t value[64], room[64] = {0};
	SimtRange range[MOST_PARAMS + 1] = {{.low = (uintptr_t)room, .high = (uintptr_t)(room + 64)}};
	const EmitSymbol *symbol = simt_symbols(&nsymbol);
	EmitLlvm *l = emit_llvm_open(mem, k->target, &opt, &why);
	Emitter *e = emit_llvm_emitter(l);
	plant_into(&plant, e);
	const ThreadModule *thread = lower_func(k->f, k->target, mem);
	if (thread)
		emit_replay(thread, e);
	EmitCode *code = thread ? emit_llvm_code(l, symbol, nsymbol, &why) : NULL;
	if (!code) {
		complain(k, "no code: ", why);
		show(k->cx);
		exit(1);
	}
	AbiParam *abi = artefact_abi(k->f, mem, &nabi);
	for (int i = 0; i < nabi; i++)
		value[i] = value_of(k, &abi[i], room);
	fill(k);
	for (int i = 0; i < k->f->nparam; i++) {
		uint64_t low = (uintptr_t)k->arg[i].data;
		const Type *t = k->f->body->arg[i].type;
		range[i + 1] = (SimtRange){.name = k->f->param[i].name, .low = low, .high = low + k->bytes[i], .first = low,
			.dtype = t->elem, .undefined = k->f->param[i].access == ACCESS_OUT};
	}
	SimtLaunch launch = {.kernel = (SimtKernel *)emit_code_entry(code), .param = value, .target = k->target,
		.threads = e->kernel.threads, .shared_bytes = e->kernel.shared_bytes, .cluster = 1, .checks = true, .seed = seed,
		.nblocks = k->grid[0] * k->grid[1] * k->grid[2], .site = emit_code_sites(code, &nsite), .workers = 1,
		.range = range, .nrange = k->f->nparam + 1, .func = k->f, .findings = found, .turns_most = 1 << 20};
	launch.nsite = nsite;
	memcpy(launch.grid, k->grid, sizeof launch.grid);
	SimtMachine *m = simt_open();
	bool ok = simt_run(m, &launch, report);
	simt_close(m);
	emit_llvm_close(l);
	emit_code_close(code);
	arena_close(mem);
	return ok;
}

static bool
is_right(const Kernel *k)
{
	for (int i = 0; i < k->f->nparam; i++)
		if (memcmp(k->want[i], k->arg[i].data, k->bytes[i]) != 0)
			return false;
	return true;
}

/* ---- judging ---- */

static bool
is_finding(const Kernel *k, const SimtFinding *x, const char *code, int line, int other)
{
	return strcmp(diag_code(x->code), code) == 0 && x->place.line == line && (!other || x->other.line == other);
}

static bool
is_found(const Kernel *k, bool ends, const SimtFindings *found, const SimtReport *report, const char *want)
{
	char words[64] = "";
	int line = 0, other = 0;
	sscanf(want, "%63s %d %d", words, &line, &other);
	for (int i = 0; i < found->n; i++)
		if (is_finding(k, &found->at[i], words, line, other))
			return true;
	if (strcmp(words, "result") == 0)
		return ends && found->n == 0 && !is_right(k);
	char text[sizeof report->text];
	snprintf(text, sizeof text, "%s", report->text);
	for (char *s = text; *s; s++)
		*s = *s == ' ' ? '_' : *s;
	return !ends && strstr(text, words) && report->place.line == line && (!other || report->other.line == other);
}

/* What was found instead. */
static void
tell(Kernel *k, bool ends, const SimtFindings *found, const SimtReport *report)
{
	char said[400];
	int n = snprintf(said, sizeof said, "%s", ends ? is_right(k) ? "right" : "wrong" : report->text);
	if (!ends)
		n += snprintf(said + n, sizeof said - (size_t)n, " (%d, %d)", report->place.line, report->other.line);
	for (int i = 0; i < found->n && n < 300; i++)
		n += snprintf(said + n, sizeof said - (size_t)n, "; %s %d %d", diag_code(found->at[i].code),
		    found->at[i].place.line, found->at[i].other.line);
	complain(k, "not found; ", said);
}

/* In order first, then with random schedules: some faults show in no other. */
static void
judge(Kernel *k, const char *want)
{
	for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
		SimtFindings found = {0};
		SimtReport report = {0};
		bool ends = emulate(k, seed, &found, &report), good = is_found(k, ends, &found, &report, want);
		if (plant.seen < plant.number)
			complain(k, "there are not so many", "");
		if (!good && seed == SCHEDULES - 1)
			tell(k, ends, &found, &report);
		simt_findings_close(&found);
		if (good || plant.seen < plant.number)
			return;
	}
}

static void
judge_unharmed(Kernel *k)
{
	plant = (Plant){0};
	for (uint64_t seed = 0; seed < 4; seed++) {
		SimtFindings found = {0};
		SimtReport report = {0};
		bool ok = emulate(k, seed, &found, &report);
		if (!ok)
			complain(k, "reported: ", report.text);
		else if (simt_findings_report(&found, k->cx))
			complain(k, "there are findings", ""), show(k->cx);
		else if (!is_right(k))
			complain(k, "the result is not the interpreter's", "");
		simt_findings_close(&found);
	}
}

static int
run(const char *path, int *nplants)
{
	Kernel k = {.path = path, .grid = {1, 1, 1}};
	char line[200];
	Compile *first;
	if (!compile(path, NULL, &first))
		return 1;
	const char *text = first->files.at[0].text;
	k.target = head(text, "// target: ", line, sizeof line) ? target_named(line) : NULL;
	if (head(text, "// grid: ", line, sizeof line))
		sscanf(line, "%lld %lld %lld", (long long *)&k.grid[0], (long long *)&k.grid[1], (long long *)&k.grid[2]);
	k.f = k.target ? compile(path, k.target, &k.cx) : NULL;
	if (!k.f)
		return 1;
	fill(&k);
	if (interpret(&k)) {
		judge_unharmed(&k);
		for (const char *at = text; (at = strstr(at, "// plant: ")); at++) {
			char want[160] = "";
			plant = (Plant){0};
			sscanf(at, "// plant: %15s %d: %159[^\n]", plant.kind, &plant.number, want);
			judge(&k, want);
			++*nplants;
		}
	}
	for (int i = 0; i < k.f->nparam; i++) {
		free(k.arg[i].data);
		free(k.want[i]);
	}
	compile_close(k.cx);
	compile_close(first);
	return k.failed;
}

int
main(int argc, char **argv)
{
	int failed = 0, nplants = 0;
	for (int i = 1; i < argc; i++)
		failed += run(argv[i], &nplants);
	printf("planted: %d faults in %d kernels, %d not as they should be\n", nplants, argc - 1, failed);
	return failed != 0;
}
