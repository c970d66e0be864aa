/* PTX through the tools of a CUDA toolkit, where there is one: ptxas to machine code, cuobjdump or nvdisasm to text.
 * They are looked for in PATH, then in $CUDA_HOME/bin and /usr/local/cuda/bin. */
#include "tool/cli.h"

#include <stdlib.h>
#include <string.h>
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

/* From the first instruction on, without the bytes of each: what stands before is the section's header. */
static void
put_instructions(const char *text, Text *out, Text *control)
{
	static const char bytes[] = "/* 0x";
	const char *at = strstr(text, "\n.text."), *line = at ? strchr(at + 1, '\n') : NULL;
	for (line = line ? line + 1 : text; *line;) {
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

bool
cli_listing(const Target *t, const Text *ptx, Text *out, Text *control)
{
	Work w;
	char command[200];
	Text said = {0}, ignored = {0};
	if (!work_open(&w, ptx))
		return false;
	snprintf(command, sizeof command, "ptxas %s-lineinfo -arch=%s in.ptx -o out.cubin 2>&1", linked(ptx), t->name);
	bool ok = has_tool(&w, "ptxas") && has_tool(&w, "nvdisasm") && run(&w, command, &ignored) == 0 &&
	    run(&w, "nvdisasm -g -c -hex out.cubin 2>/dev/null", &said) == 0 && said.n;
	if (ok)
		put_instructions(said.at, out, control);
	work_close(&w);
	text_close(&said);
	text_close(&ignored);
	return ok && out->n;
}

bool
cli_has_assembler(void)
{
	Work w;
	Text none = {.at = "", .n = 0};
	if (!work_open(&w, &none))
		return false;
	bool found = has_tool(&w, "ptxas");
	work_close(&w);
	return found;
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
