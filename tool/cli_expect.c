/* `expect` blocks: facts about the compiled code that `check` verifies, on this machine and with no GPU.
 *
 * A kernel is compiled for sm_90a with the sizes of its `bench` example, else of its first one, and each fact is asked of
 * the inspection.  Registers and spills take a ptxas; where there is none such facts are reported as not known. */
#include "tool/cli_build.h"

#include <string.h>

#define EXPECT_TARGET "sm_90a"

/* A fact as it stands in the source. */
static const char *
text_of(Compile *cx, Place at)
{
	const char *line;
	size_t n;
	if (at.line != at.end_line || !source_line(&cx->files.at[at.file], at.line, &line, &n))
		return "";
	return arena_strndup(cx->mem, line + at.col - 1, (size_t)(at.end_col - at.col));
}

static bool
expect_kernel(const Cli *cli, Compile *cx, Kernel *k, ExpectRow row, void *user)
{
	const Target *t = target_named(EXPECT_TARGET);
	PassOptions passes = {.own_file = true};
	Inspection x;
	bool misuse = false;
	Bound bound;
	Module *m = cli_bound_module(cli, k, kernel_first_example(k, true), EXPECT_TARGET, &passes, &misuse, &bound, NULL);
	if (!m || !cli_inspect(m, t, &bound, &x))
		return false;
	for (int i = 0; i < k->expects.n; i++)
		for (int f = 0; f < k->expects.at[i]->facts.n; f++) {
			const Expr *fact = k->expects.at[i]->facts.at[f];
			const char *found, *why;
			FactResult r = inspect_fact(&x, fact, cx->mem, &found, &why);
			if (r == FACT_MEANINGLESS)
				diag_error(cx, fact->place, DIAG_EXPECT_FACT, why);
			else
				row(user, k->name, EXPECT_TARGET, text_of(cx, fact->place),
				    r == FACT_OPEN ? why : found, r);
		}
	return cx->nerrors == 0;
}

bool
cli_expect(const Cli *cli, const char *path, const char *only, ExpectRow row, void *user)
{
	Compile *cx = compile_open();
	int file = source_open(cx, path, NOWHERE);
	Program *p = file >= 0 ? program_open(cx, file) : NULL;
	if (!p || cx->nerrors > 0) {                    /* check itself says what is wrong with the file */
		compile_close(cx);
		return true;
	}
	bool ok = true;
	for (int i = 0; ok && i < p->kernels.n; i++)
		if (p->kernels.at[i]->expects.n && p->kernels.at[i]->item->place.file == file &&
		    (!only || strcmp(only, p->kernels.at[i]->name) == 0))
			ok = expect_kernel(cli, cx, p->kernels.at[i], row, user);
	cli_report(cli, cx, EXIT_GOOD);
	compile_close(cx);
	return ok;
}
