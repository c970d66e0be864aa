/* `tegula bench --profile`: the hardware's counters for each line of the source, by NVIDIA's ncu.
 *
 * ncu runs `tegula run` of the same kernel, replays one launch with its counters, and writes a report of its own; its
 * source page as CSV has a row for each line, which stands here beside what the compiler predicted of the line. */
#define _GNU_SOURCE
#include "tool/bench/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 128, MOST_FIELDS = 256 };

static const struct {
	const char *column, *what;
} stalls[] = {
#define STALL(column, what) {column, what},
#include "tool/bench/stalls.def"
#undef STALL
};

/* ---- running ncu ---- */

typedef struct Words {
	const char *at[MOST_WORDS + 1];
	int n;
} Words;

static void
add(Words *w, const char *word)
{
	if (w->n < MOST_WORDS)
		w->at[w->n++] = word;
}

/* A command's standard output; its exit status, or -1. */
static int
output_of(Words *w, Text *out)
{
	int ends[2], status;
	char part[4096];
	ssize_t n;
	w->at[w->n] = NULL;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], 1);
		execvp(w->at[0], (char *const *)w->at);
		_exit(127);
	}
	close(ends[1]);
	while ((n = read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			text_putn(out, part, (size_t)n);
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* $NCU, else ncu of PATH, else of the toolkit. */
static const char *
find_ncu(const Cli *cli)
{
	const char *own = getenv("NCU"), *home = getenv("CUDA_HOME");
	const char *const at[] = {own && *own ? own : "ncu",
		arena_printf(cli->mem, "%s/bin/ncu", home && *home ? home : "/usr/local/cuda")};
	for (int i = 0; i < LEN(at); i++) {
		Words w = {0};
		Text said = {0};
		add(&w, at[i]);
		add(&w, "--version");
		int status = output_of(&w, &said);
		text_close(&said);
		if (status == 0)
			return at[i];
	}
	cli_wrong("--profile needs NVIDIA's ncu (Nsight Compute) in PATH or $CUDA_HOME/bin, or its path in NCU");
	return NULL;
}

static void
add_run(Words *w, const Cli *cli, const char *kernel, const char *example)
{
	const OptionId options[] = {OPT_DEVICE, OPT_SEED};
	add(w, cli_program(cli));
	add(w, "run");
	add(w, "--no-check");
	for (int i = 0; i < LEN(options); i++)
		if (cli_has(cli, options[i]))
			add(w, arena_printf(cli->mem, "--%s=%s", option_info[options[i]].name, cli->value[options[i]]));
	if (example)
		add(w, arena_printf(cli->mem, "--example=%s", example));
	for (int i = 0; i < cli->define.n; i++) {
		add(w, "-D");
		add(w, arena_printf(cli->mem, "%s=%s", cli->define.at[i].name, cli->define.at[i].value));
	}
	for (int i = 0; i < cli->strides.n; i++) {
		add(w, "-D");
		add(w, arena_printf(cli->mem, "%s=%s", cli->strides.at[i].name, cli->strides.at[i].value));
	}
	for (int i = 0; i < cli->arg.n; i++)
		add(w, arena_printf(cli->mem, "--arg=%s=%s", cli->arg.at[i].name, cli->arg.at[i].value));
	add(w, "--");
	add(w, cli->args.at[0]);
	add(w, kernel);
}

static bool
collect(const Cli *cli, const char *ncu, const char *report, const char *kernel, const char *example)
{
	Words w = {0};
	Text said = {0};
	const char *const fixed[] = {ncu, "--clock-control", "none", "--section", "SourceCounters", "--section",
		"WarpStateStats", "--metrics", "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum",
		"--import-source", "no", "-c", "1", "-f", "-o", report, "-k"};
	for (int i = 0; i < LEN(fixed); i++)
		add(&w, fixed[i]);
	add(&w, arena_printf(cli->mem, "regex:^%s$", kernel));
	add_run(&w, cli, kernel, example);
	int status = output_of(&w, &said);
	if (status != 0)
		cli_wrong("ncu failed (exit status %d):\n%s", status, said.n ? said.at : "");
	text_close(&said);
	return status == 0;
}

static bool
read_page(const char *ncu, const char *report, const char *page, Text *out)
{
	Words w = {0};
	const char *const fixed[] = {ncu, "-i", report, "--csv", "--print-units", "base", "--page", page};
	for (int i = 0; i < LEN(fixed); i++)
		add(&w, fixed[i]);
	if (strcmp(page, "source") == 0) {
		add(&w, "--print-source");
		add(&w, "cuda,sass");
	}
	return output_of(&w, out) == 0 || (cli_wrong("ncu cannot print its report's page '%s'", page), false);
}

/* ---- CSV ---- */

typedef struct Record {
	char *at[MOST_FIELDS];
	int n;
} Record;

/* Takes a line of quoted fields apart, in place; what follows it. */
static char *
record(char *s, Record *r)
{
	r->n = 0;
	while (*s && *s != '\n') {
		bool quoted = *s == '"';
		char *from = s + quoted, *to = from;
		for (s = from; *s && (quoted || (*s != ',' && *s != '\n' && *s != '\r')); s++) {
			if (quoted && *s == '"' && s[1] != '"')
				break;
			s += quoted && *s == '"';
			*to++ = *s;
		}
		s += quoted && *s == '"';
		bool ends = *s != ',';
		while (ends && *s && *s != '\n')
			s++;
		if (r->n < MOST_FIELDS)
			r->at[r->n++] = from;
		s += !ends;
		if (ends && *s == '\n') {
			*to = '\0';
			return s + 1;
		}
		*to = '\0';
	}
	return *s ? s + 1 : s;
}

static int
column(const Record *head, const char *name)
{
	return FIRST_OF(i, head->n, strcmp(head->at[i], name) == 0);
}

/* "11,008": 11008; 0 where there is none. */
static double
number(const Record *r, int at)
{
	char *end, plain[64];
	size_t n = 0;
	for (const char *s = at >= 0 && at < r->n ? r->at[at] : ""; *s && n + 1 < sizeof plain; s++)
		if (*s != ',')
			plain[n++] = *s;
	plain[n] = '\0';
	return n ? number_read(plain, &end) : 0;
}

static void
fill_line(const Record *head, const Record *r, ProfileLine *l)
{
	*l = (ProfileLine){.line = (int)number(r, 0), .samples = number(r, column(head, "# Samples")),
		.instructions = number(r, column(head, "Instructions Executed")),
		.sectors = number(r, column(head, "L2 Theoretical Sectors Global")),
		.least_sectors = number(r, column(head, "L2 Theoretical Sectors Global Ideal")),
		.passes = number(r, column(head, "L1 Wavefronts Shared")),
		.least_passes = number(r, column(head, "L1 Wavefronts Shared Ideal"))};
	for (int i = 0; i < LEN(stalls); i++) {
		double n = number(r, column(head, stalls[i].column));
		if (n > l->stalled) {
			l->stalled = n;
			l->stall = stalls[i].what;
		}
	}
}

static void
read_source(char *csv, const char *file, Arena *mem, Profile *out)
{
	Record head = {0}, r;
	bool ours = false;
	while (*csv) {
		csv = record(csv, &r);
		if (r.n >= 2 && strcmp(r.at[0], "File Path") == 0) {
			ours = strcmp(r.at[1], file) == 0;
			head.n = 0;
		} else if (r.n > 2 && strcmp(r.at[0], "Line No") == 0) {
			head = r;
		} else if (ours && head.n && r.n > 2 && char_is_digit(r.at[0][0])) {
			ProfileLine l;
			fill_line(&head, &r, &l);
			vec_push(mem, &out->lines, l);
			out->samples += l.samples;
		}
	}
}

/* Of seconds or bytes: ncu chooses one for each figure, whatever it is asked for. */
static double
unit(const Record *units, int at)
{
	static const struct {
		const char *name;
		double is;
	} known[] = {{"ns", 1e-9}, {"nsecond", 1e-9}, {"us", 1e-6}, {"usecond", 1e-6}, {"ms", 1e-3}, {"msecond", 1e-3},
		{"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9}};
	for (int i = 0; i < LEN(known) && at >= 0 && at < units->n; i++)
		if (strcmp(units->at[at], known[i].name) == 0)
			return known[i].is;
	return 1;
}

static double
figure(const Record *head, const Record *units, const Record *r, const char *name)
{
	int at = column(head, name);
	return number(r, at) * unit(units, at);
}

/* A line of names, one of units, and one of figures. */
static void
read_raw(char *csv, Profile *out)
{
	Record head = {0}, units = {0}, r;
	while (*csv) {
		csv = record(csv, &r);
		if (column(&r, "gpu__time_duration.sum") >= 0) {
			head = r;
		} else if (head.n && r.n == head.n && !*r.at[0]) {
			units = r;
		} else if (head.n && r.n == head.n && char_is_digit(r.at[0][0])) {
			out->seconds = figure(&head, &units, &r, "gpu__time_duration.sum");
			out->read = figure(&head, &units, &r, "dram__bytes_read.sum");
			out->written = figure(&head, &units, &r, "dram__bytes_write.sum");
		}
	}
}

bool
profile_take(const Cli *cli, const char *kernel, const char *example, Profile *out)
{
	const char *ncu = find_ncu(cli), *tmp = getenv("TMPDIR");
	char folder[512];
	Text source = {0}, raw = {0};
	*out = (Profile){0};
	snprintf(folder, sizeof folder, "%s/tegulaXXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!ncu)
		return false;
	if (!mkdtemp(folder))
		return cli_wrong("no folder can be made in %s", tmp && *tmp ? tmp : "/tmp"), false;
	const char *report = arena_printf(cli->mem, "%s/profile.ncu-rep", folder);
	bool ok = collect(cli, ncu, report, kernel, example) && read_page(ncu, report, "source", &source) &&
	    read_page(ncu, report, "raw", &raw);
	if (ok && raw.n)
		read_raw(raw.at, out);
	if (ok && source.n)
		read_source(source.at, cli->args.at[0], cli->mem, out);
	if (ok && !out->lines.n)
		ok = (cli_wrong("ncu's report has nothing of %s: was '%s' launched?", cli->args.at[0], kernel), false);
	unlink(report);
	rmdir(folder);
	text_close(&source);
	text_close(&raw);
	return ok;
}
