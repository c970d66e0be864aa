/* Bytes at the front door: damaged source text through the parser and the checker.
 *
 *     fuzz_text [--seed=N] [--seconds=N | --count=N] [--show] [--parse-only | --lower] FILE...
 *
 * Each round takes one of the files, or two spliced, and damages it a few times: spans go, are doubled, move or change
 * places, tokens and bytes are put in.  The compiler must always return a tree, and messages whose
 * places lie in the text; what parses without a message must print to text of the same tree, and printing again must change
 * nothing; the tile IR of what sema accepts must verify before and after every pass.  The seed of a round is seed + round;
 * --count=1 --seed=N --show repeats one and prints its text.  With --lower every other kernel that is accepted is also lowered
 * for a target that the seed chooses, to the trace of a GPU's thread or to Metal text.  A child does the rounds, so that the
 * seed of one that crashes, takes more than HANG_SECONDS or trips a sanitizer is known; the next child goes on behind it. */
#include "ast/ast.h"
#include "compile/compile.h"
#include "pass/pass.h"
#include "sema/sema.h"
#include "tests/options.h"
#include "tests/reprint/reprint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 10, EXAMPLES = 2, FINDS = 20 };

/* Ends this process once it worked for so many seconds more; 0: not any more.  A busy machine is no hang. */
static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

typedef struct Options {
	bool show, parse_only, lower;
} Options;

static const char *const tokens[] = {
	"kernel ", "fn ", "reference ", "example ", "expect ", "import ", "const ", "let ", "var ", "for ", "static ", "while ",
	"if ", "else ", "return ", "as ", "in ", "out ", "inout ", "scratch ", "fixed ", "strided ", "mut ", "grid", "tune", "where ",
	"bench ", "range", "new", "(", ")", "[", "]", "{", "}", "<", ">", ",", ";", ":", "::", "+:", "=>", "=", "==", "+=", "+",
	"-", "*", "/", "%", "@", "&&", "||", "!", "~", "?", ".", "0", "1", "0x7fffffffffffffff", "1e308", "9223372036854775807",
	"inf", "nan", "f32", "i8", "u4", "bf16", "f8e4m3", "bool", "\"", "\"text\"", "//", "/*", "*/", "\n", "\\", "\xff", "\xc3\xa9",
	"sum(", "max(", "reshape(", "x[0 +: 8]", "arange(0, 8)", "zeros([4, 4], f32)", "(1, 2)", "fn(a, b) => a + b",
};

static uint64_t
next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static size_t
below(uint64_t *state, size_t n)
{
	return n ? (size_t)(next(state) % n) : 0;
}

/* A new text: t with its bytes from .. to replaced. */
static void
splice(Text *t, size_t from, size_t to, const char *with, size_t n)
{
	Text r = {0};
	text_putn(&r, t->at, from);
	text_putn(&r, with, n);
	text_putn(&r, t->at + to, t->n - to);
	text_close(t);
	*t = r;
}

static size_t
span_end(uint64_t *state, const Text *t, size_t from)
{
	size_t most = next(state) % 4 == 0 ? 200 : 12;
	return from + below(state, MIN(most, t->n - from) + 1);
}

static void
damage(Text *t, uint64_t *state)
{
	size_t a = below(state, t->n + 1), b = span_end(state, t, a);
	char *copy = malloc(b - a + 1), byte = (char)next(state);
	if (!copy)
		die("out of memory");
	memcpy(copy, t->at + a, b - a);
	switch (next(state) % 6) {
	case 0: splice(t, a, b, "", 0); break;
	case 1: splice(t, b, b, copy, b - a); break;
	case 2: {
		size_t to = below(state, t->n + 1);
		splice(t, to, to, copy, b - a);
		break;
	}
	case 3: splice(t, a, a + (a < t->n), &byte, byte != 0); break;
	default: {
		const char *s = tokens[below(state, LEN(tokens))];
		splice(t, a, next(state) % 2 ? a : b, s, strlen(s));
		break;
	}
	}
	free(copy);
}

static void
make(Text *t, const Text *files, int nfiles, uint64_t seed)
{
	uint64_t state = seed;
	const Text *f = &files[below(&state, (size_t)nfiles)];
	text_putn(t, f->at, f->n);
	if (next(&state) % 4 == 0) {
		const Text *g = &files[below(&state, (size_t)nfiles)];
		size_t from = below(&state, g->n + 1), to = from + below(&state, MIN((size_t)400, g->n - from) + 1);
		size_t at = below(&state, t->n + 1);
		splice(t, at, at, g->at + from, to - from);
	}
	for (size_t n = 1 + below(&state, 6); n > 0; n--)
		damage(t, &state);
}

/* checks */

static bool
complain(const char *what)
{
	fprintf(stderr, "fuzz_text: %s\n", what);
	return false;
}

static bool
places_lie_inside(const Compile *cx)
{
	for (const Diag *d = cx->first; d; d = d->next) {
		const char *line;
		size_t size;
		if (d->place.file < 0)
			continue;
		if (d->place.file >= cx->files.n || d->place.line < 1 || d->place.col < 1)
			return complain("a message stands nowhere");
		if (!source_line(&cx->files.at[d->place.file], d->place.line, &line, &size))
			return complain("a message stands behind the last line");
		if ((size_t)d->place.col > size + 1)
			return complain("a message stands behind the end of its line");
		if (d->place.end_line < d->place.line)
			return complain("a message ends before it begins");
	}
	return true;
}

static bool
check_format(Compile *cx, const Ast *ast)
{
	const char *wrong = reprint_source(cx, ast);
	return !wrong || complain(wrong);
}

static bool
check_module(Kernel *k, const ExampleItem *example)
{
	Compile *cx = k->program->cx;
	ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, k->params.n);
	Bound bound = {0};
	PassOptions passes = {.verify = true};
	Module *m = example_bind(k, example, NULL, 0, args, &bound) ? kernel_module(k, &bound, "cpu") : NULL;
	if (!m)
		return true;
	const char *why = module_verify(m);
	return why ? complain(why) : passes_run(m, NULL, &passes) || complain("the passes fail on what sema made");
}

/* As for a launch of the example on a target; what the target refuses is a message and no find. */
static void
lower_example(Kernel *k, const ExampleItem *example, const char *name)
{
	Compile *cx = k->program->cx;
	const Target *t = target_named(name);
	ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, k->params.n);
	Bound bound = {0};
	PassOptions passes = {.verify = true};
	Text out = {0}, json = {0};
	if (!example_bind(k, example, NULL, 0, args, &bound))
		return;
	ArgAssumptions assumptions = assumptions_of_dims(cx->mem, &bound);
	Module *m = compile_kernel(k, &bound, name, &assumptions, &passes);
	if (m && t->kind == TARGET_METAL)
		compile_metal(m, t, &bound, &out, &json, NULL);
	else if (m)
		compile_text(m, t, STAGE_THREAD, &out, NULL);
	text_close(&out);
	text_close(&json);
}

static void
check_lowered(const Text *t, uint64_t seed)
{
	static const char *const names[] = {"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a", "apple7", "apple9"};
	Compile *cx = compile_open();
	int file = source_text(cx, "<fuzz>", t->at, t->n);
	Program *p = file >= 0 ? program_open(cx, file) : NULL;
	if (p)
		program_check(p);
	for (int i = 0; p && i < p->kernels.n && cx->nerrors == 0; i++)
		for (int k = 0; k < MIN(p->kernels.at[i]->examples.n, EXAMPLES) && cx->nerrors == 0; k++)
			lower_example(p->kernels.at[i], &p->kernels.at[i]->examples.at[k], names[seed / 2 % LEN(names)]);
	compile_close(cx);
}

/* What no message speaks against is elaborated, as `tegula build` does. */
static bool
check_sema(const Text *t)
{
	Compile *cx = compile_open();
	int file = source_text(cx, "<fuzz>", t->at, t->n);
	bool good = true;
	if (file >= 0) {
		Program *p = program_open(cx, file);
		program_check(p);
		good = places_lie_inside(cx);
		for (int i = 0; i < p->kernels.n && cx->nerrors == 0; i++)
			for (int k = 0; k < MIN(p->kernels.at[i]->examples.n, EXAMPLES) && good; k++)
				good = check_module(p->kernels.at[i], &p->kernels.at[i]->examples.at[k]);
	}
	compile_close(cx);
	return good;
}

static bool
check_text(const Text *t, const Options *o, uint64_t seed)
{
	Compile *cx = compile_open();
	Text messages = {0};
	int file = source_text(cx, "<fuzz>", t->at, t->n);
	bool good = true;
	if (file >= 0) {
		const Ast *ast = ast_parse(cx, file);
		good = places_lie_inside(cx) && (cx->nerrors > 0 || check_format(cx, ast));
	}
	diag_print(cx, &messages, 20, false);
	if (o->show)
		fputs(messages.at ? messages.at : "", stdout);
	text_close(&messages);
	compile_close(cx);
	if (!good || o->parse_only)
		return good;
	good = check_sema(t);
	if (good && o->lower && seed % 2)
		check_lowered(t, seed);
	return good;
}

static bool
read_file(const char *path, Text *t)
{
	char buffer[4096];
	FILE *f = fopen(path, "rb");
	if (!f)
		return false;
	for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
		text_putn(t, buffer, n);
	fclose(f);
	return t->n > 0;
}

typedef struct Run {
	const Text *files;
	int nfiles;
	uint64_t seed, count;
	double seconds;
	time_t start;
	Options o;
	uint64_t *done;                             /* shared with the child: the round that it is at */
} Run;

static void
rounds(const Run *r)
{
	for (; *r->done < r->count && difftime(time(NULL), r->start) < r->seconds; ++*r->done) {
		Text t = {0};
		text_put(&t, "");
		make(&t, r->files, r->nfiles, r->seed + *r->done);
		if (r->o.show)
			printf("%s\n----\n", t.at);
		fflush(stdout);
		watch(HANG_SECONDS);
		bool good = check_text(&t, &r->o, r->seed + *r->done);
		text_close(&t);
		if (!good)
			_exit(1);
	}
	fflush(stdout);
	_exit(0);
}

/* Children, each from where the one before it failed; the number of finds, or -1 if the system gives no more. */
static int
run(const Run *r)
{
	int finds = 0;
	for (;;) {
		int status;
		pid_t child = fork();
		if (child == 0)
			rounds(r);
		if (child < 0 || waitpid(child, &status, 0) < 0)
			return -1;
		if (status == 0)
			return finds;
		fprintf(stderr, "fuzz_text: seed %llu fails\n", (unsigned long long)(r->seed + *r->done));
		if (++finds == FINDS || ++*r->done == r->count)
			return finds;
	}
}

static void
files_close(Text *files, int nfiles)
{
	for (int i = 0; i < nfiles; i++)
		text_close(&files[i]);
	free(files);
}

int
main(int argc, char **argv)
{
	Text *files = calloc((size_t)argc, sizeof *files);
	int nfiles = 0;
	Run r = {.seed = (uint64_t)time(NULL), .count = UINT64_MAX, .seconds = 10, .start = time(NULL), .files = files};
	for (int i = 1; i < argc; i++) {
		const char *v;
		if ((v = option(argv[i], "--seed=")))
			r.seed = strtoull(v, NULL, 10);
		else if ((v = option(argv[i], "--count=")))
			r.count = strtoull(v, NULL, 10), r.seconds = 1e9;
		else if ((v = option(argv[i], "--seconds=")))
			r.seconds = strtod(v, NULL);
		else if (strcmp(argv[i], "--show") == 0)
			r.o.show = true;
		else if (strcmp(argv[i], "--parse-only") == 0)
			r.o.parse_only = true;
		else if (strcmp(argv[i], "--lower") == 0)
			r.o.lower = true;
		else if (argv[i][0] == '-' || !read_file(argv[i], &files[nfiles++])) {
			fprintf(stderr, "fuzz_text: cannot use %s\n", argv[i]);
			files_close(files, nfiles);
			return 2;
		}
	}
	if (nfiles == 0) {
		fprintf(stderr, "fuzz_text: no files\n");
		files_close(files, nfiles);
		return 2;
	}
	printf("fuzz_text: seeds from %llu\n", (unsigned long long)r.seed);
	fflush(stdout);
	r.nfiles = nfiles;
	r.done = mmap(NULL, sizeof *r.done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.done == MAP_FAILED)
		return fprintf(stderr, "fuzz_text: no memory\n"), 2;
	int finds = run(&r);
	printf("fuzz_text: %llu seeds, %d finds\n", (unsigned long long)*r.done, finds);
	files_close(files, nfiles);
	return finds < 0 ? 2 : finds > 0;
}
