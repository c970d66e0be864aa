/* Fuzzes the tile IR from both sides.
 *
 *     fuzz_ir [--seed=N] [--count=N] [--seconds=N] [--passes=LIST] [--target=NAME] [--show] [--text] [--simt]
 *         [--shrink] [FILE...]
 *
 * Each seed makes a random kernel (gen.c).  It must verify, its text must read back to the same text, and every pass
 * must leave all tensors, pointed-to memory and printed lines as they were, to the bit (NaNs are equal).  The passes of
 * a GPU that remain must do so too when the module was changed behind the first few (mutate.c).  The interpreter's fast
 * layer and its definitions (ir/interp) must agree, NaNs included.  The text is then damaged at random and read again:
 * the reader may report, and must not crash; what it accepts must survive the passes.  Seeds count up from the one given
 * (else from the clock; it is printed), so a failing one can be run alone with --seed=N --count=1 --show; --shrink looks
 * for a smaller kernel that fails.  With --simt each kernel becomes a GPU's code instead, which is run on this machine
 * (runtime/simt) and must leave what the interpreter leaves, but for the last bits of sums and mathematical functions.
 * FILEs of tile IR with a generated kernel's parameters are checked instead, as far as the passes go. */
#include "fuzz_ir.h"
#include "pass/pass.h"
#include "target/target.h"
#include "tests/fuzz/draw_layouts.h"
#include "tests/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 60 };

/* Ends this process once it worked for so many seconds more; 0: not any more.  A busy machine is no hang. */
static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

typedef struct Options {
	const char *passes, *target;
	bool show, text_only, simt;
	SimtMachine *machine;
} Options;

/* ---- one seed ---- */

void
show_reports(Compile *cx)
{
	Text text = {0};

	diag_print(cx, &text, 0, false);
	fputs(text.at ? text.at : "", stderr);
	text_close(&text);
}

Module *
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
void
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
	return m && run(m, mem, (PlanOptions){0});
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
	good = good && run(m, &before, (PlanOptions){0});
	after = (Memory){0};
	memory_fill(&after, seed);
	good = good && run(m, &after, (PlanOptions){.plain = true});
	if (good && !same_bits(&before, &after)) {
		same_memory(&before, &after);
		fprintf(stderr, "between the definitions and the fast layer\n");
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
		good = good && run(m, &after, (PlanOptions){0}) && same_memory(&before, &after);
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
	Module *plain = reread(cx, &changed);
	good = plain && run(plain, &before, (PlanOptions){0});
	draw_layouts(seed & 16 ? seed : 0);
	if (good && !passes_run(m, t, &rest)) {
		show_reports(cx);
		good = false;
	}
	good = good && run(m, &after, (PlanOptions){0}) && same_memory(&before, &after);
	if (!good)
		fprintf(stderr, "changed behind %s:\n%sand then %s for %s\n", at[i].first, changed.at, at[i].rest, t->name);
	text_close(&changed);
	text_close(&before.lines);
	text_close(&after.lines);
	return good;
}

/* Damages text: bytes changed, spans dropped, doubled, or swapped for others of its own. */
void
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
		good = good && check_simt(cx, &text, o->target, o->machine, in->seed);
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

/* Rounds from *done on, in a child, so that the seed of one that crashes or hangs can be reported; *done is shared. */
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
