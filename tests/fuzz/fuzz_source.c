/* Fuzzes the front door: damaged sources through parser, fmt, sema and the passes.
 *
 *     fuzz_source [--seed=N] [--count=N] [--seconds=N] [--show] FILE...
 *
 * Each seed picks one of the files and damages it: bytes, words and pieces of other files, in one to four
 * places.  Nothing may crash, hang (60 s) or trip a sanitizer; what parses must print to text that parses to
 * the same text; what sema accepts must verify before and after the passes.  Seeds count up from the one given
 * (else from the clock; it is printed).  A child does the work, so that a seed that kills it is reported, with
 * its text beside, and the rest goes on. */
#include "ir/ir.h"
#include "pass/pass.h"
#include "sema/sema.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILES = 1000, HANG_SECONDS = 60, BATCH = 500 };

typedef struct Corpus {
	Text file[MAX_FILES];
	int n;
} Corpus;

typedef struct Shared {
	uint64_t seed;                                      /* being run by the child */
	uint64_t accepted, parsed;
} Shared;

static uint64_t
next(uint64_t *rng)
{
	uint64_t z = *rng += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static size_t
below(uint64_t *rng, size_t n)
{
	return n ? (size_t)(next(rng) % n) : 0;
}

static size_t
at_most(size_t n, size_t most)
{
	return n < most ? n : most;
}

static const char *const words[] = {
	"kernel ", "fn ", "let ", "var ", "for i in range(", "while ", "if ", "else ", "static ", "return ", "reference ",
	"example ", "grid(", "tune(", "where ", "import \"x\";", "const ", "{", "}", "(", ")", "[", "]", ";", ",", "+:", ":",
	"else -inf", "as f16", "as i4", "@", "?", "=>", "new", "0", "1", "-1", "2147483648", "9223372036854775807",
	"18446744073709551615", "1e400", "1e-300", "0x", "inf", "nan", "sum(", "dot(", "reduce(", "scan(", "topk(", "atomic_add(",
	"load(", "store(", "x", "N", "BLOCK", "f32", "bool", "*mut ", "in f32[N]", "out ", "scratch ", "strided ", "= 0", ".T",
	".shape(0)", "&&", "<<", "%", "/", "/*", "//", "\"", "\\", "\t", "\xc3\xa9", "\xff", "cat(", "reshape(", "permute(",
};

/* text[at, at + gone) becomes with[0, n). */
static void
replace(Text *t, size_t at, size_t gone, const char *with, size_t n)
{
	Text out = {0};
	text_putn(&out, t->at, at);
	text_putn(&out, with, n);
	text_putn(&out, t->at + at + gone, t->n - at - gone);
	text_close(t);
	*t = out;
}

static void
damage(Text *t, const Corpus *c, uint64_t *rng)
{
	size_t at = below(rng, t->n + 1), n = at_most(below(rng, 30), t->n - at);
	const Text *other = &c->file[below(rng, (size_t)c->n)];
	size_t from = below(rng, other->n + 1), m = at_most(below(rng, 80), other->n - from);
	const char *word = words[below(rng, LEN(words))];
	char byte = (char)next(rng);

	switch (below(rng, 8)) {
	case 0: replace(t, at, MIN(1, n), &byte, 1); break;
	case 1: replace(t, at, n, "", 0); break;
	case 2: replace(t, at, 0, other->at + from, m); break;
	case 3: replace(t, at, n, other->at + from, m); break;
	case 4: replace(t, at, 0, word, strlen(word)); break;
	case 5: replace(t, at, MIN(3, n), word, strlen(word)); break;
	case 6: replace(t, at, 0, t->at + at, n); break;
	default:
		if (below(rng, 8) == 0)
			replace(t, at, t->n - at, "", 0);
		else
			replace(t, at, MIN(1, n), word, strlen(word));
		break;
	}
}

static void
make_input(const Corpus *c, uint64_t seed, Text *out)
{
	uint64_t rng = seed;
	const Text *base = &c->file[below(&rng, (size_t)c->n)];
	text_putn(out, base->at, base->n);
	for (size_t i = 1 + below(&rng, 4); i > 0; i--)
		damage(out, c, &rng);
}

static void
check_print(const Text *in)
{
	Compile *a = compile_open(), *b = compile_open();
	Text once = {0}, twice = {0};
	int file = source_text(a, "<fuzz>", in->at, in->n);
	Ast *ast = file >= 0 ? ast_parse(a, file) : NULL;
	if (ast && a->nerrors == 0) {
		ast_print(a, ast, &once);
		ast = ast_parse(b, source_text(b, "<once>", once.at, once.n));
		if (b->nerrors)
			die("what fmt printed does not parse");
		ast_print(b, ast, &twice);
		if (strcmp(once.at, twice.at) != 0)
			die("fmt of what fmt printed differs");
	}
	text_close(&once);
	text_close(&twice);
	compile_close(a);
	compile_close(b);
}

static void
check_kernel(Kernel *k, Shared *s)
{
	Compile *cx = k->program->cx;
	PassOptions passes = {.verify = true};
	for (int i = 0; i < k->examples.n && i < 2; i++) {
		ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, k->params.n);
		Bound b = {0};
		if (!example_bind(k, &k->examples.at[i], NULL, 0, args, &b))
			continue;
		Module *m = kernel_module(k, &b, "cpu");
		if (!m)
			continue;
		const char *why = module_verify(m);
		if (why)
			die("sema made a module that does not verify: %s", why);
		if (!passes_run(m, NULL, &passes)) {
			Text t = {0};
			diag_print(cx, &t, 5, false);
			die("the passes failed on what sema made: %s", t.at ? t.at : "");
		}
		s->accepted++;
	}
}

static void
run_seed(const Corpus *c, uint64_t seed, Shared *s)
{
	Text in = {0}, report = {0};
	make_input(c, seed, &in);
	check_print(&in);
	Compile *cx = compile_open();
	int file = source_text(cx, "<fuzz>", in.at, in.n);
	if (file >= 0) {
		Program *p = program_open(cx, file);
		program_check(p);
		if (cx->nerrors == 0) {
			s->parsed++;
			for (int i = 0; i < p->kernels.n; i++)
				check_kernel(p->kernels.at[i], s);
		}
	}
	diag_print(cx, &report, 0, true);
	report.n = 0;
	diag_json(cx, &report, 0);
	text_close(&report);
	text_close(&in);
	compile_close(cx);
}

static void
child(const Corpus *c, uint64_t from, uint64_t to, double until, Shared *s)
{
	for (uint64_t seed = from; seed < to && (double)time(NULL) < until; seed++) {
		s->seed = seed;
		alarm(HANG_SECONDS);
		run_seed(c, seed, s);
	}
	_exit(0);
}

static bool
read_file(const char *path, Text *out)
{
	FILE *f = fopen(path, "rb");
	char buf[1 << 14];
	size_t n;
	if (!f)
		return false;
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		text_putn(out, buf, n);
	fclose(f);
	return out->n > 0;
}

static void
save_input(const Corpus *c, uint64_t seed)
{
	Text in = {0};
	char path[64];
	snprintf(path, sizeof path, "fuzz_source_%llu.tgl", (unsigned long long)seed);
	make_input(c, seed, &in);
	FILE *f = fopen(path, "wb");
	if (f) {
		fwrite(in.at, 1, in.n, f);
		fclose(f);
	}
	text_close(&in);
}

int
main(int argc, char **argv)
{
	static Corpus c;
	uint64_t seed = (uint64_t)time(NULL) * 1000003, count = UINT64_MAX / 2;
	double seconds = 1e18;
	bool show = false;
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--seed=", 7) == 0)
			seed = strtoull(argv[i] + 7, NULL, 10);
		else if (strncmp(argv[i], "--count=", 8) == 0)
			count = strtoull(argv[i] + 8, NULL, 10);
		else if (strncmp(argv[i], "--seconds=", 10) == 0)
			seconds = strtod(argv[i] + 10, NULL);
		else if (strcmp(argv[i], "--show") == 0)
			show = true;
		else if (c.n < MAX_FILES && read_file(argv[i], &c.file[c.n]))
			c.n++;
	}
	if (c.n == 0) {
		fputs("usage: fuzz_source [--seed=N] [--count=N] [--seconds=N] [--show] FILE...\n", stderr);
		return 2;
	}
	if (show) {
		Text in = {0};
		make_input(&c, seed, &in);
		fwrite(in.at, 1, in.n, stdout);
		text_close(&in);
		return 0;
	}
	Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return 2;
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	double until = (double)time(NULL) + seconds;
	uint64_t first = seed, end = seed + count, failures = 0;
	while (seed < end && (double)time(NULL) < until) {
		uint64_t to = MIN(seed + BATCH, end);
		s->seed = seed;
		pid_t pid = fork();
		if (pid == 0)
			child(&c, seed, to, until, s);
		int status;
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			return 2;
		if (status == 0) {
			seed = (double)time(NULL) < until ? to : s->seed + 1;
			continue;
		}
		printf("FAIL seed %llu: %s %d\n", (unsigned long long)s->seed, WIFSIGNALED(status) ? "signal" : "exit",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		fflush(stdout);
		save_input(&c, s->seed);
		failures++;
		seed = s->seed + 1;
	}
	printf("%llu inputs from seed %llu, %llu without errors, %llu modules through the passes, %llu failures\n",
	    (unsigned long long)(seed - first), (unsigned long long)first, (unsigned long long)s->parsed,
	    (unsigned long long)s->accepted, (unsigned long long)failures);
	return failures > 0;
}
