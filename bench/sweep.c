/* Times many forms of many kernels in few seconds of a GPU.
 *
 *     bench_sweep LIST [WORKERS [SECONDS]]
 *
 * A line of LIST is FILE KERNEL EXAMPLE FORM...; a form is name=value,name=value of compile-time parameters and schedule
 * names, or "-" for what the compiler chooses.  Workers, processes of their own, make inputs and compile beside each other;
 * when all are done they measure one after the other.  A kernel's forms take turns, each in bursts of about a millisecond
 * over input sets that are twice the L2 cache together; the figure is the median of nine.  Prints a line of JSON a kernel:
 *
 *     {"file": …, "kernel": …, "example": …, "bytes": …, "forms": [["-", 71.3], ["warps=4", 85.4], ["warps=64", null]]}      us */
#include "bench/bench.h"
#include "runtime/tgl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINES_MOST = 1024, FORMS_MOST = 64, SETS_MOST = 12, ARGS_MOST = 96, NAMES_MOST = 16, ROUNDS = 9, LINE_BYTES = 1 << 14 };
static const double BURST_SECONDS = 1e-3, CACHED_BYTES = 130e6, SECONDS_MOST = 1e9;
static const double PREPARE_LONG = 5, PREPARE_LAST = 2;         /* seconds: longer ones are reported; none begins so near the limit */
static const double SLOW = 6;                           /* times the fastest so far: once is enough */

typedef struct Line {
	char *file, *kernel, *example, *form[FORMS_MOST];
	int n;
} Line;

/* What a worker keeps of a line until it is measured. */
typedef struct Job {
	const Line *line;
	TglKernel *kernel;
	TglCase *set[SETS_MOST];
	int nset;
	double bytes;
	struct {
		TglArg *args[SETS_MOST];
		int nargs, launches;
		bool runs;
		double seconds[ROUNDS];
	} form[FORMS_MOST];
} Job;

/* What workers share: whether each is ready to measure, has done so or gone.  One that is not ready by `limit`, since a
 * compiler works long on one of its forms, is left out. */
enum { WORKERS_MOST = 128 };
typedef enum State { PREPARES, READY, DONE } State;
typedef struct Shared {
	int next, state[WORKERS_MOST];
	double limit;                                   /* by the clock */
} Shared;

static State
state_of(const Shared *s, int worker)
{
	int state = __atomic_load_n(&s->state[worker], __ATOMIC_SEQ_CST);
	return state == PREPARES && now() > s->limit ? DONE : (State)state;
}

static int
read_lines(const char *path, Line *out)
{
	static char text[LINE_BYTES];
	FILE *f = fopen(path, "r");
	int n = 0;
	while (f && n < LINES_MOST && fgets(text, sizeof text, f)) {
		char *rest, *word = strtok_r(text, " \n", &rest);
		Line *l = &out[n];
		if (!word || *word == '#')
			continue;
		*l = (Line){.file = strdup(word)};
		for (word = strtok_r(NULL, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
			if (!l->kernel)
				l->kernel = strdup(word);
			else if (!l->example)
				l->example = strdup(word);
			else if (l->n < FORMS_MOST)
				l->form[l->n++] = strdup(word);
		}
		n += l->n > 0;
	}
	return n;
}

static TglArg
argument(char *text)
{
	char *value = strchr(text, '=');
	if (!value)
		return tgl_arg_int(text, 0);
	*value++ = '\0';
	bool is_true = strcmp(value, "true") == 0;
	return is_true || strcmp(value, "false") == 0 ? tgl_arg_bool(text, is_true)
						      : tgl_arg_int(text, strtoll(value, NULL, 10));
}

/* The case's arguments, but for those that the form says.  Returns how many. */
static int
form_args(TglCase *c, const char *form, TglArg *out)
{
	TglArg own[NAMES_MOST];
	int n = 0, nown = 0, all;
	const TglArg *args = tgl_case_args(c, &all);
	char *rest, *text = strdup(form), *word = strcmp(form, "-") ? strtok_r(text, ",", &rest) : NULL;
	for (; word && nown < NAMES_MOST; word = strtok_r(NULL, ",", &rest))
		own[nown++] = argument(word);
	for (int i = 0; i < all && n < ARGS_MOST - NAMES_MOST; i++) {
		bool is_said = false;
		for (int j = 0; j < nown; j++)
			is_said |= args[i].name && strcmp(args[i].name, own[j].name) == 0;
		if (!is_said)
			out[n++] = args[i];
	}
	memcpy(out + n, own, sizeof *own * (size_t)nown);
	return n + nown;
}

static bool
open_sets(TglDevice *dev, Job *j)
{
	double operations;
	TglCaseOptions o = {.example = j->line->example};
	for (; j->nset < SETS_MOST && (j->nset == 0 || j->nset * j->bytes < CACHED_BYTES); j->nset++) {
		o.seed = (uint64_t)j->nset;
		if (!(j->set[j->nset] = tgl_case_open(dev, j->kernel, &o)))
			return j->nset > 0;
		if (j->nset == 0)
			tgl_case_work(j->set[0], &j->bytes, &operations);
	}
	return true;
}

/* Inputs, and each form compiled and launched once; NULL: there is no such kernel or example. */
static Job *
prepare(TglContext *cx, TglDevice *dev, const Line *l, double limit)
{
	Job *j = calloc(1, sizeof *j);
	TglProgram *p = tgl_program_file(cx, l->file);
	j->line = l;
	j->kernel = p ? tgl_kernel(p, l->kernel) : NULL;
	if (!j->kernel || !open_sets(dev, j)) {
		fprintf(stderr, "%s: %s\n", l->kernel, tgl_error(cx)->text);
		return NULL;
	}
	for (int f = 0; f < l->n && now() < limit - PREPARE_LAST; f++) {
		double begun = now();
		for (int i = 0; i < j->nset; i++) {
			j->form[f].args[i] = calloc(ARGS_MOST, sizeof(TglArg));
			j->form[f].nargs = form_args(j->set[i], l->form[f], j->form[f].args[i]);
		}
		j->form[f].runs = tgl_launch(dev, j->kernel, j->form[f].args[0], j->form[f].nargs, NULL) == TGL_OK &&
				  tgl_device_sync(dev) == TGL_OK;
		if (!j->form[f].runs)
			fprintf(stderr, "%s %s: %s\n", l->kernel, l->form[f], tgl_error(cx)->text);
		if (now() - begun > PREPARE_LONG)
			fprintf(stderr, "%s %s: %.1f s to prepare\n", l->kernel, l->form[f], now() - begun);
	}
	return j;
}

static double
burst(TglDevice *dev, Job *j, int f, TglEvent *from, TglEvent *to)
{
	int n = j->form[f].launches;
	double seconds = 0;
	tgl_event_record(from, NULL);
	for (int i = 0; i < n; i++)
		tgl_launch(dev, j->kernel, j->form[f].args[i % j->nset], j->form[f].nargs, NULL);
	tgl_event_record(to, NULL);
	tgl_event_seconds(from, to, &seconds);
	return seconds / n;
}

static void
print_row(Job *j)
{
	printf("{\"file\": \"%s\", \"kernel\": \"%s\", \"example\": \"%s\", \"bytes\": %.0f, \"forms\": [",
	    j->line->file, j->line->kernel, j->line->example, j->bytes);
	for (int f = 0; f < j->line->n; f++) {
		qsort(j->form[f].seconds, ROUNDS, sizeof(double), compare);
		printf("%s[\"%s\", ", f ? ", " : "", j->line->form[f]);
		if (j->form[f].runs)
			printf("%.2f]", j->form[f].seconds[ROUNDS / 2] * 1e6);
		else
			printf("null]");
	}
	puts("]}");
}

static void
measure(TglDevice *dev, Job *j)
{
	TglEvent *from = tgl_event_open(dev), *to = tgl_event_open(dev);
	bool slow[FORMS_MOST] = {false};
	double least = 0;
	for (int f = 0; f < j->line->n; f++) {
		j->form[f].launches = j->nset;
		double one = j->form[f].runs ? burst(dev, j, f, from, to) : BURST_SECONDS;
		int times = one > 0 ? (int)(BURST_SECONDS / one) : 1;
		times = times < 3 ? 3 : times > 200 ? 200 : times;
		j->form[f].launches = (times + j->nset - 1) / j->nset * j->nset;
		slow[f] = j->form[f].runs && least > 0 && one > SLOW * least;
		least = j->form[f].runs && (least <= 0 || one < least) ? one : least;
		for (int round = 0; slow[f] && round < ROUNDS; round++)
			j->form[f].seconds[round] = one;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int k = 0; k < j->line->n; k++) {
			int f = (k + round) % j->line->n;
			if (j->form[f].runs && !slow[f])
				j->form[f].seconds[round] = burst(dev, j, f, from, to);
		}
	print_row(j);
	fflush(stdout);
	tgl_event_close(&from);
	tgl_event_close(&to);
}

static void
work(const Line *lines, int n, int workers, int me, Shared *s)
{
	static Job *job[LINES_MOST];
	int njob = 0;
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, "cuda", NULL);
	if (!dev)
		fprintf(stderr, "%s\n", tgl_error(cx)->text);
	for (int i; dev && now() < s->limit - PREPARE_LAST && (i = __atomic_fetch_add(&s->next, 1, __ATOMIC_SEQ_CST)) < n;)
		if ((job[njob] = prepare(cx, dev, &lines[i], s->limit)))
			njob++;
	if (now() > s->limit)
		return;
	__atomic_store_n(&s->state[me], READY, __ATOMIC_SEQ_CST);
	for (int i = 0; i < workers; i++)
		while (state_of(s, i) == PREPARES || (i < me && state_of(s, i) != DONE))
			usleep(500);
	for (int i = 0; i < njob; i++)
		measure(dev, job[i]);
	__atomic_store_n(&s->state[me], DONE, __ATOMIC_SEQ_CST);
}

int
main(int argc, char **argv)
{
	static Line lines[LINES_MOST];
	int n = argc > 1 ? read_lines(argv[1], lines) : 0, workers = argc > 2 ? atoi(argv[2]) : 1, status = 0;
	Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[WORKERS_MOST];
	if (n == 0 || workers < 1 || workers > WORKERS_MOST || s == MAP_FAILED) {
		fputs("usage: bench_sweep LIST [WORKERS [SECONDS]]; LIST has lines FILE KERNEL EXAMPLE FORM...\n", stderr);
		return 2;
	}
	s->limit = now() + (argc > 3 ? atof(argv[3]) : SECONDS_MOST);
	for (int w = 0; w < workers; w++)
		if ((pid[w] = fork()) == 0) {
			work(lines, n, workers, w, s);
			_exit(0);
		}
	for (int left = workers; left > 0; usleep(500))
		for (int w = 0; w < workers; w++) {
			int one = 0;
			bool is_late = pid[w] > 0 && state_of(s, w) == DONE && __atomic_load_n(&s->state[w], __ATOMIC_SEQ_CST) != DONE;
			if (is_late)
				kill(pid[w], SIGKILL);
			if (pid[w] <= 0 || waitpid(pid[w], &one, is_late ? 0 : WNOHANG) <= 0)
				continue;
			if (is_late)
				fputs("a worker was not ready in time\n", stderr);
			status |= one;
			pid[w] = 0;
			__atomic_store_n(&s->state[w], DONE, __ATOMIC_SEQ_CST);
			left--;
		}
	return status != 0;
}
