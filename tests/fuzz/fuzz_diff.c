/* The same kernel on every device must compute the same.
 *
 *     fuzz_diff [--seed=N] [--count=N] [--seconds=N] [--targets=LIST] [--shrink] [--show] [--ptx] [--features] [FILE.tgl...]
 *
 * Each seed makes a random kernel as source text (gen_tgl.c), runs it on the cpu device, and then
 * what the compiler makes of it for each target of a GPU on the simt device, and on a GPU where
 * there is one, each with warps, stages, order of programs and layouts drawn at random.  Outputs
 * are poisoned first.  Integers must be equal, floats too unless the text says how far they may be
 * apart ("// bound y3 0.001"), NaN is like NaN, and nothing next to a tensor may be written.
 *
 * Each kernel runs in a process of its own, so that a crash or a hang is a find like others.  A
 * find is printed with the run that shows it, as a file that can be checked again; --shrink makes
 * it small first.  FILEs are checked with the runs that they name ("// run: sm_80 warps=2
 * layouts=7"), or else with every target.
 *
 * --ptx makes PTX of each as well.  --features runs nothing, and counts what the language's kernels are made of. */
#include "diff_run.h"
#include "features.h"
#include "gen_tgl.h"
#include "tests/opened.h"
#include "tests/options.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_SECONDS = 20, SHRINK_HANG_SECONDS = 10, SLOW_SECONDS = 4, SLOW_PTX = 1, REFUSALS = 32 };

/* What a child reports. */
typedef struct Shared {
	uint64_t done, skipped;
	DiffRun run; /* the one that failed */
	DiffRefusal refusal[REFUSALS];
	uint64_t has_word[DIFF_WORDS]; /* kernels whose PTX has the instruction */
} Shared;

typedef struct Options {
	uint64_t seed, count;
	double seconds;
	const char *targets;
	bool shrinks, show, ptx, features;
	Shared *shared;
} Options;

static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static char *
print_source(const Source *s)
{
	Text t = {0};
	source_print(s, &t);
	return t.at;
}

static void
count_refusal(Shared *shared, const char *text)
{
	int i = 0;
	while (i < REFUSALS - 1 && shared->refusal[i].n && strcmp(shared->refusal[i].text, text) != 0)
		i++;
	snprintf(shared->refusal[i].text, sizeof shared->refusal[i].text, "%s", text);
	shared->refusal[i].n++;
	shared->skipped++;
}

static void
tell_slow(const Diff *d, const DiffRun *r, uint64_t seed, clock_t since)
{
	double seconds = (double)(clock() - since) / CLOCKS_PER_SEC;
	if (seconds < SLOW_SECONDS && d->ptx_seconds < SLOW_PTX)
		return;
	Text t = {0};
	diff_run_text(r, &t);
	printf("fuzz_diff: seed %llu takes %.1f seconds on %s, its PTX %.1f (%zu bytes)\n", (unsigned long long)seed, seconds,
	    t.at, d->ptx_seconds, d->ptx_bytes);
	text_close(&t);
}

/* Every run of one text; what came of the first that failed. */
static DiffKind
check_text(const Options *o, const char *text, uint64_t seed)
{
	DiffRun run[DIFF_RUNS_MOST];
	int n = diff_runs(seed, o->targets, run);
	Diff d;
	DiffKind kind = diff_open(&d, text);
	d.wants_ptx = o->ptx;
	for (int i = 0; i < n && kind == DIFF_SAME; i++) {
		o->shared->run = run[i];
		clock_t start = clock();
		kind = diff_check(&d, &run[i]);
		tell_slow(&d, &run[i], seed, start);
		for (int w = 0; w < DIFF_WORDS && o->ptx; w++)
			o->shared->has_word[w] += d.has_word[w];
		if (kind == DIFF_REFUSED) {
			count_refusal(o->shared, d.refusal);
			kind = DIFF_SAME;
		}
	}
	diff_close(&d);
	return kind;
}

/* ---- making it small ---- */

typedef struct Finding {
	const Options *o;
	DiffKind kind;
	DiffRun run;
} Finding;

static DiffKind
kind_of_status(int status)
{
	if (WIFEXITED(status))
		return (DiffKind)WEXITSTATUS(status);
	return WTERMSIG(status) == SIGPROF ? DIFF_HANG : DIFF_CRASH;
}

/* One run in a process of its own, silently. */
static bool
fails_alike(void *user, const Source *s)
{
	const Finding *f = user;
	int status = 0;
	char *text = print_source(s);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		Diff d;
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(0);
		watch(SHRINK_HANG_SECONDS);
		DiffKind kind = diff_open(&d, text);
		_exit(kind == DIFF_SAME ? diff_check(&d, &f->run) : DIFF_SAME);
	}
	free(text);
	return child > 0 && waitpid(child, &status, 0) == child &&
	       kind_of_status(status) == f->kind;
}

static void
show_find(const Options *o, uint64_t seed, DiffKind kind)
{
	Arena *mem = arena_open();
	Source *s = source_make(mem, seed);
	const Finding f = {o, kind, o->shared->run};
	Text line = {0};
	diff_run_text(&f.run, &line);
	fprintf(
	    stderr, "fuzz_diff: seed %llu: %s\n", (unsigned long long)seed, diff_kind_text(kind));
	if (o->shrinks && kind != DIFF_BAD_SOURCE)
		source_shrink(s, fails_alike, (void *)&f);
	char *text = print_source(s);
	printf("// run: %s\n%s", line.at, text);
	printf("// again: fuzz_diff --seed=%llu --count=1 --shrink\n", (unsigned long long)seed);
	fflush(stdout);
	free(text);
	text_close(&line);
	arena_close(mem);
}

/* ---- many ---- */

/* Seeds from `seed + done` on, in a child; ends at the first that fails. */
static DiffKind
rounds(const Options *o, time_t until)
{
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		return DIFF_CRASH;
	if (child > 0)
		return waitpid(child, &status, 0) == child ? kind_of_status(status) : DIFF_CRASH;
	Opened gpu = {0}; /* kept open, since each opening of the first costs */
	if (diff_has_gpu() && (gpu.cx = tgl_context_open()))
		gpu.dev = tgl_device_open(gpu.cx, "cuda", NULL);
	for (; o->shared->done < o->count && time(NULL) < until; o->shared->done++) {
		Arena *mem = arena_open();
		uint64_t seed = o->seed + o->shared->done;
		char *text = print_source(source_make(mem, seed));
		if (o->show)
			printf("%s", text);
		fflush(stdout);
		watch(HANG_SECONDS);
		DiffKind kind = check_text(o, text, seed);
		free(text);
		arena_close(mem);
		if (kind != DIFF_SAME)
			_exit((int)kind);
		if ((o->shared->done + 1) % 1000 == 0)
			printf("fuzz_diff: %llu so far\n", (unsigned long long)o->shared->done + 1);
	}
	close_all(&gpu);
	_exit(0);
}

/* A kernel that takes very long is reported and skipped: the host's compiler needs minutes for some code of a large tile that one
 * warp has.  What never ends on the device, the device reports. */
static int
fuzz(const Options *o)
{
	time_t until = time(NULL) + (time_t)o->seconds;
	Shared *shared = o->shared;
	DiffKind kind;
	printf("fuzz_diff: seeds from %llu\n", (unsigned long long)o->seed);
	while ((kind = rounds(o, until)) == DIFF_HANG) {
		Text run = {0};
		diff_run_text(&shared->run, &run);
		printf("fuzz_diff: seed %llu takes too long on %s\n", (unsigned long long)(o->seed + shared->done), run.at);
		text_close(&run);
		shared->skipped++;
		shared->done++;
	}
	if (kind != DIFF_SAME)
		show_find(o, o->seed + shared->done, kind);
	for (int i = 0; i < DIFF_WORDS && o->ptx; i++)
		printf("fuzz_diff: %llu kernels have %s\n", (unsigned long long)shared->has_word[i], diff_word[i]);
	for (int i = 0; i < REFUSALS && shared->refusal[i].n; i++)
		printf("fuzz_diff: refused: %llu of %s\n", (unsigned long long)shared->refusal[i].n, shared->refusal[i].text);
	printf("fuzz_diff: %llu kernels agree, %llu runs were refused or too long\n",
	    (unsigned long long)shared->done, (unsigned long long)shared->skipped);
	return kind != DIFF_SAME;
}

/* ---- files ---- */

static bool
check_file(const Options *o, const char *path)
{
	Text text = {0};
	char buffer[4096];
	size_t n;
	FILE *f = fopen(path, "rb");
	if (!f)
		return fprintf(stderr, "fuzz_diff: %s: cannot be read\n", path), false;
	while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
		text_putn(&text, buffer, n);
	fclose(f);
	DiffRun run[DIFF_RUNS_MOST];
	int nrun = diff_runs_named(text.at ? text.at : "", run);
	Diff d;
	watch(HANG_SECONDS);
	DiffKind kind = diff_open(&d, text.at ? text.at : "");
	if (nrun == 0)
		nrun = diff_runs(0, o->targets ? o->targets : "all", run);
	for (int i = 0; i < nrun && kind == DIFF_SAME; i++)
		kind = diff_check(&d, &run[i]);
	diff_close(&d);
	if (kind != DIFF_SAME)
		fprintf(stderr, "fuzz_diff: %s: %s\n", path, diff_kind_text(kind));
	text_close(&text);
	return kind == DIFF_SAME;
}

/* ---- the command ---- */

static bool
take_option(Options *o, const char *arg)
{
	const char *v;
	if ((v = option(arg, "--seed=")))
		o->seed = strtoull(v, NULL, 10);
	else if ((v = option(arg, "--count=")))
		o->count = strtoull(v, NULL, 10), o->seconds = o->seconds == 10 ? 1e9 : o->seconds;
	else if ((v = option(arg, "--seconds=")))
		o->seconds = strtod(v, NULL);
	else if ((v = option(arg, "--targets=")))
		o->targets = v;
	else if (strcmp(arg, "--shrink") == 0)
		o->shrinks = true;
	else if (strcmp(arg, "--show") == 0)
		o->show = true;
	else if (strcmp(arg, "--ptx") == 0)
		o->ptx = true;
	else if (strcmp(arg, "--features") == 0)
		o->features = true;
	else
		return false;
	return true;
}

int
main(int argc, char **argv)
{
	Options o = {.seed = (uint64_t)time(NULL), .count = UINT64_MAX, .seconds = 10};
	int nfiles = 0, nbad = 0;
	o.shared =
	    mmap(NULL, sizeof *o.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o.shared == MAP_FAILED)
		return fprintf(stderr, "fuzz_diff: no memory\n"), 2;
	*o.shared = (Shared){0};
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && !take_option(&o, argv[i]))
			return fprintf(stderr, "fuzz_diff: unknown option %s\n", argv[i]), 2;
	for (int i = 1; i < argc; i++)
		if (argv[i][0] != '-')
			nfiles++, nbad += !check_file(&o, argv[i]);
	if (o.features)
		return features_count(o.seed, o.count == UINT64_MAX ? 4000 : o.count);
	if (nfiles == 0)
		return fuzz(&o);
	printf("fuzz_diff: %d of %d files agree\n", nfiles - nbad, nfiles);
	return nbad > 0;
}
