/* --emit=cubin: machine code, and beside it how to launch it, since a cubin has no room for that. */
#include "tool/cli_build.h"

bool
cli_cubin(const Cli *cli, Module *m, const Target *t, const Bound *b, Text *out, Text *times)
{
	Text ptx = {0}, description = {0};
	int spills;
	bool ok = compile_ptx(m, t, b, &ptx, &description, times) && cli_machine_code(t, &ptx, false, out, &spills);
	if (ok)
		spill_warn(m, t, b, spills);
	if (ok) {
		char *path = arena_printf(m->cx->mem, "%s.txt", cli->value[OPT_OUTPUT]);
		ok = cli_write_file(path, description.at, description.n);
	}
	text_close(&ptx);
	text_close(&description);
	return ok;
}
