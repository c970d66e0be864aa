/* Leaves out each barrier, wait, bounds check and swizzle of what the compiler made of kernels, one at a time, and looks
 * who notices.
 *
 *     omit [--targets=LIST] [--kinds=LIST] [--most=N] [--orders=N] [--all] FILE.tgl...
 *
 * Each example of each kernel is run on the simt device as it is, and then once for each thing left out (emit/omit.c), with
 * the warps in several orders.  A report of the device's checks, or other results than before, is a catch.  The table
 * says for each kind how many were left out, and what came of it; behind it stand those that nobody missed, with their
 * places.  Of more than N (40) of a kind, N are taken, evenly spread; the table says so.  With --all they may be as many as
 * they like.  Fails if a barrier was not missed.  (A wait may be for copies that never are under way, as the one behind a
 * pipeline is, and a bounds check may keep out what a zero elsewhere keeps out too.) */
#include "emit/emit.h"
#include "runtime/runtime.h"
#include "tests/opened.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUTS_MOST = 16, ORDERS_MOST = 8, SIZES_MOST = 8, VARIANTS = 2, HANG_SECONDS = 60, TURNS_MOST = 20000000 };

typedef enum Catch { CATCH_NONE, CATCH_REPORT, CATCH_WRONG, CATCH_CRASH, CATCH_KINDS } Catch;

static const char *const kind_text[OMIT_KINDS] = {"barrier", "wait", "mask", "swizzle"};

typedef struct Options {
	const char *targets, *kinds;
	int most, norders;
} Options;

/* What a child tells. */
typedef struct Shared {
	Omit omit;
	char why[256];
} Shared;

typedef struct Outputs {
	void *bytes[OUTPUTS_MOST];
	size_t size[OUTPUTS_MOST];
	int n;
} Outputs;

typedef struct Subject {
	const char *path, *target;
	int kernel, example;                    /* their numbers */
	char name[64];
	TglArg size[SIZES_MOST];                /* of the second variant */
	char size_name[SIZES_MOST][32];
	int nsize, nvariant;
	Outputs good[VARIANTS][ORDERS_MOST];
	Shared *shared;
} Subject;

typedef struct Tally {
	int there, tried, by[CATCH_KINDS];
} Tally;

/* ---- one run ---- */

static bool
open_case(const Subject *s, Omit *omit, int variant, int order, Opened *x)
{
	char name[32];
	TglCacheOptions no_cache = {.off = true};
	TglDeviceOptions opt = {.threads = 1, .quick = true, .schedule = (uint64_t)order, .turns = TURNS_MOST};
	TglCaseOptions one = {.seed = 1, .by_index = true, .index = s->example};
	if (variant) {
		one.args = s->size;
		one.nargs = s->nsize;
	}
	*x = (Opened){.cx = tgl_context_open()};
	tgl_context_cache(x->cx, &no_cache);
	snprintf(name, sizeof name, "simt:%s", s->target);
	x->dev = tgl_device_open(x->cx, name, &opt);
	if (x->dev)
		x->dev->hooks.omit = omit;
	x->program = x->dev ? tgl_program_file(x->cx, s->path) : NULL;
	x->k = x->program ? tgl_program_kernel(x->program, s->kernel) : NULL;
	x->c = x->k ? tgl_case_open(x->dev, x->k, &one) : NULL;
	return x->c != NULL;
}

static bool
take_outputs(Opened *x, Outputs *out)
{
	TglParam p;
	for (int i = 0; tgl_kernel_param(x->k, i, &p) && out->n < OUTPUTS_MOST; i++) {
		if (p.kind == TGL_PARAM_SCALAR || p.access == TGL_IN || p.access == TGL_SCRATCH)
			continue;
		TglTensor *t = tgl_case_tensor(x->c, p.name);
		size_t size = tgl_tensor_bytes(t);
		void *bytes = malloc(size + 1);
		if (!bytes || tgl_tensor_read(t, bytes, size) != TGL_OK || !tensor_guard_whole(t))
			return false;
		out->bytes[out->n] = bytes;
		out->size[out->n++] = size;
	}
	return true;
}

static void
drop_outputs(Outputs *o)
{
	for (int i = 0; i < o->n; i++)
		free(o->bytes[i]);
	o->n = 0;
}

static bool
same_outputs(const Outputs *a, const Outputs *b)
{
	for (int i = 0; i < a->n; i++)
		if (i >= b->n || a->size[i] != b->size[i] || memcmp(a->bytes[i], b->bytes[i], a->size[i]) != 0)
			return false;
	return a->n == b->n;
}

static Catch
run_once(const Subject *s, Omit *omit, int variant, int order, Outputs *out)
{
	Opened x;
	Catch caught = CATCH_REPORT;
	bool ran = open_case(s, omit, variant, order, &x) && tgl_case_run(x.c, NULL) == TGL_OK;
	if (ran)
		caught = take_outputs(&x, out) ? CATCH_NONE : CATCH_WRONG;
	else
		snprintf(s->shared->why, sizeof s->shared->why, "%s", tgl_error(x.cx)->message);
	close_all(&x);
	return caught;
}

/* ---- with one thing left out ---- */

static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static Catch
leave_out(const Subject *s, OmitKind kind, int n, const Options *o)
{
	int status = 0;
	s->shared->omit.kind = kind;
	s->shared->omit.n = n;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		watch(HANG_SECONDS);
		for (int i = 0; i < s->nvariant * o->norders; i++) {
			int variant = i % s->nvariant, order = i / s->nvariant;
			Outputs out = {0};
			Catch caught = run_once(s, &s->shared->omit, variant, order, &out);
			if (caught == CATCH_NONE && !same_outputs(&out, &s->good[variant][order]))
				caught = CATCH_WRONG;
			drop_outputs(&out);
			if (caught != CATCH_NONE)
				_exit((int)caught);
		}
		_exit(CATCH_NONE);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return CATCH_CRASH;
	return (Catch)WEXITSTATUS(status);
}

static int
count_of(const Subject *s, OmitKind kind)
{
	Omit *o = &s->shared->omit;
	int n = 0;
	if (kind != OMIT_SWIZZLE)
		return o->count;
	for (int i = 0; i < OMIT_SWIZZLES; i++)
		n += (int)(o->swizzle[i / 64] >> i % 64 & 1);
	return n;
}

/* Sizes somewhat smaller that are multiples of the same powers of two, so that the code is the same. */
static void
note_sizes(Subject *s, Opened *x)
{
	const char *name, *text;
	for (int i = 0; tgl_kernel_symbol(x->k, i) && s->nsize < SIZES_MOST; i++)
		for (int v = 0; tgl_case_value(x->c, v, &name, &text); v++) {
			int64_t n = strtoll(text, NULL, 10), low = MIN(n & -n, 8);
			if (strcmp(name, tgl_kernel_symbol(x->k, i)) != 0 || n <= 2 * low)
				continue;
			snprintf(s->size_name[s->nsize], sizeof s->size_name[0], "%s", name);
			s->size[s->nsize] = tgl_arg_int(s->size_name[s->nsize], n - 2 * low);
			s->nsize++;
			break;
		}
}

static bool
run_good(Subject *s, int variant, const Options *o)
{
	bool good = true;
	for (int order = 0; order < o->norders && good; order++) {
		drop_outputs(&s->good[variant][order]);
		good = run_once(s, order ? NULL : &s->shared->omit, variant, order, &s->good[variant][order]) == CATCH_NONE;
	}
	return good;
}

/* Notes what there is to leave out, and what results are right, in each order, for both variants of sizes, if other sizes
 * can be had and have the same code. */
static bool
prepare(Subject *s, OmitKind kind, const Options *o)
{
	s->shared->omit = (Omit){.kind = kind, .n = -1};
	s->nvariant = 1;
	if (!run_good(s, 0, o))
		return false;
	Omit first = s->shared->omit;
	if (s->nsize && run_good(s, 1, o) && first.count == s->shared->omit.count &&
	    memcmp(first.swizzle, s->shared->omit.swizzle, sizeof first.swizzle) == 0)
		s->nvariant = 2;
	s->shared->omit = first;
	return true;
}

static Tally
try_kind(Subject *s, OmitKind kind, const Options *o, Text *missed)
{
	Tally t = {0};
	t.there = count_of(s, kind);
	int step = o->most > 0 && t.there > o->most ? (t.there + o->most - 1) / o->most : 1;
	for (int n = 0; n < t.there; n += step) {
		Catch c = leave_out(s, kind, n, o);
		t.tried++;
		t.by[c]++;
		if (c == CATCH_NONE)
			text_printf(missed, "    %s %s: %s %d, %s of line %d\n", s->name, s->target, kind_text[kind], n,
			    s->shared->omit.what, s->shared->omit.place.line);
	}
	return t;
}

/* ---- all ---- */

static bool
is_named(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = list; (p = strstr(p, name)); p += n)
		if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

static int
try_subject(Subject *s, const Options *o, Tally all[OMIT_KINDS], Text *missed)
{
	int nbad = 0;
	for (int kind = 0; kind < OMIT_KINDS; kind++) {
		if (o->kinds && !is_named(o->kinds, kind_text[kind]))
			continue;
		if (!prepare(s, (OmitKind)kind, o)) {
			fprintf(stderr, "omit: %s, %s, %s: as it is: %s\n", s->path, s->name, s->target, s->shared->why);
			return 1;
		}
		Tally t = try_kind(s, (OmitKind)kind, o, missed);
		all[kind].there += t.there;
		all[kind].tried += t.tried;
		for (int c = 0; c < CATCH_KINDS; c++)
			all[kind].by[c] += t.by[c];
		if (kind == OMIT_BARRIER)
			nbad += t.by[CATCH_NONE];
		if (t.there)
			printf("%-26s %-8s %-8s %6d %6d %8d %6d %6d %7d\n", s->name, s->target, kind_text[kind], t.there, t.tried,
			    t.by[CATCH_REPORT], t.by[CATCH_WRONG], t.by[CATCH_CRASH], t.by[CATCH_NONE]);
		fflush(stdout);
	}
	for (int i = 0; i < VARIANTS * o->norders; i++)
		drop_outputs(&s->good[i % VARIANTS][i / VARIANTS]);
	return nbad;
}

/* Every example of a kernel but those for bench. */
static int
try_file(const char *path, const char *target, const Options *o, Tally all[OMIT_KINDS], Text *missed, Shared *shared)
{
	int nbad = 0;
	TglContext *cx = tgl_context_open();
	TglProgram *p = tgl_program_file(cx, path);
	TglExample example;
	if (!p) {
		fputs(tgl_error(cx)->text, stderr);
		nbad = 1;
	}
	for (int i = 0; p && tgl_program_kernel(p, i); i++) {
		TglKernel *k = tgl_program_kernel(p, i);
		for (int e = 0; strcmp(tgl_kernel_file(k), path) == 0 && tgl_kernel_example(k, e, &example); e++) {
			Opened x;
			Subject s = {.path = path, .target = target, .kernel = i, .example = e, .shared = shared};
			if (example.is_bench)
				continue;
			snprintf(s.name, sizeof s.name, "%s/%d", tgl_kernel_name(k), e);
			if (open_case(&s, NULL, 0, 0, &x))
				note_sizes(&s, &x);
			close_all(&x);
			nbad += try_subject(&s, o, all, missed);
		}
	}
	tgl_program_close(&p);
	tgl_context_close(&cx);
	return nbad;
}

static const char *
option(const char *arg, const char *name)
{
	size_t n = strlen(name);
	return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

static bool
take_option(Options *o, const char *arg)
{
	const char *v;
	if ((v = option(arg, "--targets=")))
		o->targets = v;
	else if ((v = option(arg, "--kinds=")))
		o->kinds = v;
	else if ((v = option(arg, "--most=")))
		o->most = atoi(v);
	else if ((v = option(arg, "--orders=")))
		o->norders = MIN(MAX(atoi(v), 1), ORDERS_MOST);
	else if (strcmp(arg, "--all") == 0)
		o->most = 0;
	else
		return false;
	return true;
}

int
main(int argc, char **argv)
{
	Options o = {.targets = "sm_80,sm_90a", .most = 40, .norders = 3};
	Tally all[OMIT_KINDS] = {0};
	Text missed = {0};
	int nbad = 0;
	Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return fprintf(stderr, "omit: no memory\n"), 2;
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && !take_option(&o, argv[i]))
			return fprintf(stderr, "omit: unknown option %s\n", argv[i]), 2;
	printf("%-26s %-8s %-8s %6s %6s %8s %6s %6s %7s\n", "kernel", "target", "what", "there", "tried", "reported", "wrong",
	    "crash", "missed");
	for (int i = 1; i < argc; i++)
		for (int t = 0; argv[i][0] != '-' && target_at(t); t++)
			if (target_at(t)->kind == TARGET_PTX && is_named(o.targets, target_at(t)->name))
				nbad += try_file(argv[i], target_at(t)->name, &o, all, &missed, shared);
	for (int k = 0; k < OMIT_KINDS; k++)
		printf("%-26s %-8s %-8s %6d %6d %8d %6d %6d %7d\n", "all", "", kind_text[k], all[k].there, all[k].tried,
		    all[k].by[CATCH_REPORT], all[k].by[CATCH_WRONG], all[k].by[CATCH_CRASH], all[k].by[CATCH_NONE]);
	printf("not missed:\n%s", missed.at ? missed.at : "    none\n");
	text_close(&missed);
	return nbad > 0;
}
