/* PTX through the tools of a CUDA toolkit, where there is one: ptxas to machine code, cuobjdump or nvdisasm to text.
 * They are looked for in PATH, then in $CUDA_HOME/bin and /usr/local/cuda/bin. */
#include "tool/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEARCH "PATH=\"$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin\" && "

/* A folder with `in.ptx` and what the tools make of it. */
typedef struct Work {
	char folder[256];
} Work;

static void
work_close(Work *w)
{
	char path[300];
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", w->folder, i ? "out.cubin" : "in.ptx");
		unlink(path);
	}
	rmdir(w->folder);
}

static bool
work_open(Work *w, const Text *ptx)
{
	const char *tmp = getenv("TMPDIR");
	char path[300];
	snprintf(w->folder, sizeof w->folder, "%s/tegulaXXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(w->folder)) {
		cli_wrong("no folder can be made in %s", tmp && *tmp ? tmp : "/tmp");
		return false;
	}
	snprintf(path, sizeof path, "%s/in.ptx", w->folder);
	if (cli_write_file(path, ptx->at, ptx->n))
		return true;
	work_close(w);
	return false;
}

/* A command's output, run in the folder; its exit status, or -1.  An interrupt ends this process while it waits: the shell
 * removes the folder then. */
static int
run(const Work *w, const char *command, Text *out)
{
	char line[1000], buffer[4096];
	snprintf(line, sizeof line, "cd '%s' && trap 'rm -f in.ptx out.cubin; rmdir \"$PWD\"; exit 130' INT && %s%s",
	    w->folder, SEARCH, command);
	FILE *p = popen(line, "r");
	if (!p)
		return -1;
	for (size_t n; (n = fread(buffer, 1, sizeof buffer, p)) > 0;)
		text_putn(out, buffer, n);
	return pclose(p);
}

static bool
has_tool(const Work *w, const char *name)
{
	char command[100];
	Text ignored = {0};
	snprintf(command, sizeof command, "command -v %s", name);
	int status = run(w, command, &ignored);
	text_close(&ignored);
	return status == 0;
}

/* The number before a word of ptxas's report, or 0. */
static int
number_before(const char *report, const char *word)
{
	const char *at = strstr(report, word), *p = at;
	while (p && p > report && (p[-1] == ' ' || (p[-1] >= '0' && p[-1] <= '9')))
		p--;
	return p ? atoi(p) : 0;
}

static int
spilled(const char *report)
{
	return number_before(report, " bytes spill stores") + number_before(report, " bytes spill loads");
}

static bool
assemble(const Work *w, const Target *t, int *spills)
{
	char command[200];
	Text said = {0};
	if (!has_tool(w, "ptxas")) {
		cli_wrong("there is no ptxas: machine code is made by the CUDA toolkit; expected it in PATH, "
		          "$CUDA_HOME/bin or /usr/local/cuda/bin");
		return false;
	}
	snprintf(command, sizeof command, "ptxas -v -arch=%s in.ptx -o out.cubin 2>&1", t->name);
	int status = run(w, command, &said);
	if (status != 0)
		cli_wrong("ptxas refuses the PTX:\n%s", said.at ? said.at : "");
	*spills = said.n ? spilled(said.at) : 0;
	text_close(&said);
	return status == 0;
}

static bool
disassemble(const Work *w, Text *out)
{
	const char *command = has_tool(w, "cuobjdump") ? "cuobjdump -sass out.cubin" : "nvdisasm -c out.cubin";
	if (command[0] == 'n' && !has_tool(w, "nvdisasm"))
		cli_wrong("there is no cuobjdump and no nvdisasm: they come with the CUDA toolkit");
	else if (run(w, command, out) == 0 && out->n)
		return true;
	else
		cli_wrong("'%s' failed", command);
	return false;
}

/* The upper half of an instruction's 16 bytes begins with 23 bits that say when it goes, which become six digits.
 *
 *     0050   @!P0 EXIT ;    0x000000000000094d
 *                                 0x000fea0003800000           00 07f5
 */
static void
put_control(const char *upper, Text *out)
{
	enum { CONTROL = 41 };
	text_printf(out, "%06x", (unsigned)(strtoull(upper, NULL, 16) >> CONTROL));
}

/* The instructions of one kernel, without the bytes of each: what stands before is the section's
 * header, and other sections are those of routines and of other kernels. */
static void
put_instructions(const char *text, const char *name, Text *out, Text *control)
{
	static const char bytes[] = "/* 0x";
	char section[200];
	snprintf(section, sizeof section, "\n.text.%s:", name);
	const char *at = strstr(text, section), *line = at ? strchr(at + 1, '\n') : NULL;
	for (line = line ? line + 1 : ""; *line && strncmp(line, "//-----", 7) != 0;) {
		size_t n = strcspn(line, "\n"), blanks = strspn(line, " \t");
		const char *hex = strstr(line, bytes);
		size_t shown = hex && hex < line + n ? (size_t)(hex - line) : n;
		while (shown < n && shown > blanks && (line[shown - 1] == ' ' || line[shown - 1] == '\t'))
			shown--;
		if (shown < n && shown <= blanks)
			put_control(hex + sizeof bytes - 3, control);
		else if (blanks < n && line[blanks] != '.')
			text_printf(out, "%.*s\n", (int)shown, line);
		else if (n > 1 && line[0] == '.' && line[1] == 'L')
			text_printf(out, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
}

/* The runtime links what is no Hopper's own (runtime/cuda/cuda_assemble.c), for which ptxas takes other registers. */
static const char *
linked(const Text *ptx)
{
	return strstr(ptx->at, "wgmma.") || strstr(ptx->at, "setmaxnreg.") ? "" : "-c ";
}

/* ---- several kernels ---- */

static bool
is_one_of(const char *line, const char *const *words, int n)
{
	return ANY_OF(i, n, strncmp(line, words[i], strlen(words[i])) == 0);
}

/* Has it functions or data beside the kernel, which another's text may have by the same name? */
static bool
stands_alone(const Text *ptx)
{
	static const char *const own[] = {".visible .func", ".func", ".extern .func", ".weak",
	    ".global", ".visible .global", ".const", ".visible .const", ".shared",
	    ".visible .shared"};
	bool alone = false;
	for (const char *line = ptx->at; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n')
		alone |= is_one_of(line, own, LEN(own));
	return alone;
}

/* Appends a kernel to others' PTX, of which the first has said what a module says once. */
static void
put_kernel(Text *out, const Text *ptx)
{
	static const char *const head[] = {".version", ".target", ".address_size"},
				 *const once[] = {".extern .shared", ".file", ".section"};
	bool first = !out->n;
	for (const char *line = ptx->at; *line;) {
		size_t n = strcspn(line, "\n"), blanks = strspn(line, "\t");
		char own[200];
		snprintf(own, sizeof own, "%.*s\n", (int)n, line);
		bool had = is_one_of(line, head, LEN(head)) ||
			   (is_one_of(line + blanks, once, LEN(once)) &&
			       strstr(out->n ? out->at : "", own));
		if (first || !had)
			text_printf(out, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
}

/* Of one kernel, what ptxas -v says. */
static void
read_resources(CliCode *c, const char *said)
{
	char head[200];
	snprintf(head, sizeof head, "entry function '%s'", c->name);
	const char *at = strstr(said, head), *used = at ? strstr(at, "Used ") : NULL;
	c->has_resources = used;
	c->registers = used ? atoi(used + strlen("Used ")) : 0;
	c->spills = used ? spilled(at) : 0;
	c->stack = used ? number_before(at, " bytes stack frame") : 0;
}

double
cli_processor_seconds(void)
{
	static const double MICRO = 1e-6;
	static const int of[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
	double all = 0;
	for (int i = 0; i < LEN(of); i++) {
		struct rusage r;
		if (getrusage(of[i], &r) == 0)
			all += (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
			    MICRO * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
	}
	return all;
}

/* The shell that `run` starts becomes the tool, so that its end by the limit is a signal's, of which no shell reports. */
static bool
was_stopped(int status)
{
	return status >= 0 && WIFSIGNALED(status);
}

/* False: ptxas refuses them together, or was stopped. */
static bool
assemble_all(const Target *t, CliCode *const *all, int n, int seconds)
{
	Work w;
	char command[200];
	Text ptx = {0}, said = {0}, text = {0};
	for (int i = 0; i < n; i++)
		put_kernel(&ptx, &all[i]->ptx);
	bool opened = n && work_open(&w, &ptx);
	snprintf(command, sizeof command, "ulimit -t %d && exec ptxas %s-v -lineinfo -arch=%s in.ptx -o out.cubin 2>&1",
	    seconds, n ? linked(&ptx) : "", t->name);
	double begun = cli_processor_seconds();
	int status = opened ? run(&w, command, &said) : -1;
	double took = cli_processor_seconds() - begun;
	bool ok = status == 0, late = was_stopped(status), listed = false;
	if (ok && has_tool(&w, "nvdisasm")) {
		snprintf(command, sizeof command, "ulimit -t %d && exec nvdisasm -g -c -hex out.cubin 2>/dev/null",
		    seconds);
		status = run(&w, command, &text);
		late = was_stopped(status);
		listed = status == 0 && text.n;
	}
	for (int i = 0; i < n; i++) {
		all[i]->is_late = late;
		all[i]->seconds = took * (double)all[i]->ptx.n / (double)MAX(ptx.n, 1);
		if (!ok)
			continue;
		read_resources(all[i], said.n ? said.at : "");
		if (listed)
			put_instructions(text.at, all[i]->name, &all[i]->listing, &all[i]->control);
	}
	if (opened)
		work_close(&w);
	text_close(&ptx);
	text_close(&said);
	text_close(&text);
	return ok;
}

/* nvdisasm takes a second to begin, so that one has all kernels that ptxas takes together. */
void
cli_assemble(const Target *t, CliCode *all, int n, int seconds)
{
	enum { TOGETHER = 64 };
	CliCode *some[TOGETHER];
	for (int is_linked = 0; is_linked < 2 && cli_has_assembler(); is_linked++) {
		int k = 0;
		for (int i = 0; i < n; i++) {
			CliCode *one = &all[i];
			if (!one->ptx.n || (*linked(&one->ptx) != 0) != is_linked)
				continue;
			if (stands_alone(&one->ptx) || k == TOGETHER)
				assemble_all(t, &one, 1, seconds);
			else
				some[k++] = one;
		}
		bool ok = assemble_all(t, some, k, seconds) || (k && some[0]->is_late);
		for (int i = 0; !ok && k > 1 && i < k; i++)
			assemble_all(t, &some[i], 1, seconds);
	}
}

void
cli_code_close(CliCode *c)
{
	text_close(&c->ptx);
	text_close(&c->listing);
	text_close(&c->control);
}

bool
cli_has_assembler(void)
{
	Work w;
	Text none = {.at = "", .n = 0};
	if (!work_open(&w, &none))
		return false;
	bool works = run(&w, "ptxas --version >/dev/null 2>&1", &none) == 0;
	work_close(&w);
	return works;
}

bool
cli_machine_code(const Target *t, const Text *ptx, bool as_text, Text *out, int *spills)
{
	Work w;
	if (!work_open(&w, ptx))
		return false;
	bool ok = assemble(&w, t, spills) && (as_text ? disassemble(&w, out) : run(&w, "cat out.cubin", out) == 0);
	work_close(&w);
	return ok;
}

bool
cli_resources(const Target *t, const Text *ptx, int seconds, int *registers, int *spills, int *stack)
{
	Work w;
	Text said = {0};
	char command[200], limit[40] = "";
	if (!work_open(&w, ptx))
		return false;
	if (seconds)
		snprintf(limit, sizeof limit, "ulimit -t %d && exec ", seconds);        /* no shell reports a kill */
	snprintf(command, sizeof command, "%sptxas %s-v -arch=%s in.ptx -o out.cubin 2>&1", limit, linked(ptx), t->name);
	bool ok = has_tool(&w, "ptxas") && run(&w, command, &said) == 0 && said.n;
	if (ok) {
		const char *used = strstr(said.at, "Used ");
		*registers = used ? atoi(used + strlen("Used ")) : 0;
		*spills = spilled(said.at);
		*stack = number_before(said.at, " bytes stack frame");
	}
	work_close(&w);
	text_close(&said);
	return ok;
}
