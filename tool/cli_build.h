/* Compiling from the command line: what build, opt, inspect and check share. */
#ifndef TEGULA_CLI_BUILD_H
#define TEGULA_CLI_BUILD_H

#include "compile/choose/choose.h"
#include "tool/cli.h"
#include "compile/compile.h"
#include "compile/inspect.h"

/* The first operand as a source file; -1 after an error in cx. */
int cli_source(const Cli *cli, Compile *cx);
/* Prints what was reported; EXIT_WRONG if there were errors, else `status`. */
int cli_report(const Cli *cli, Compile *cx, int status);
/* Prints that a file has no such kernel, and which it has; EXIT_WRONG. */
int cli_no_kernel(const Cli *cli, const Program *p, const char *name);
/* Is it the kernel of that name, without one (NULL) a kernel of the file, or of a file without kernels one that it
 * imports? */
bool cli_is_chosen(const Program *p, const Kernel *k, const char *name, int file);
/* The row named by --target, NULL for the cpu device; false after an error. */
bool cli_target(const Cli *cli, Compile *cx, const Target **out);
/* A kernel after the pipeline of a target, with the sizes of `ex` (NULL: of --example, else the first one) and -D; *bound
 * is what the header said, in the kernel's cx; *why, if not NULL, gets what the compiler chose (choose.h).  NULL after
 * errors in its cx, or (*misuse) after printing. */
Module *cli_bound_module(const Cli *cli, Kernel *k, const ExampleItem *ex, const char *target, const PassOptions *passes,
    bool *misuse, Bound *bound, ChooseWhy *why);
/* A launch may be of several kernels: the one before makes what m's reads (pass parts, materialize), the one behind copies
 * what m's makes.  That of `which`, a value of `materialize`, bound as *other; NULL: there is none, or after errors. */
Module *cli_other_module(Kernel *k, const Module *m, const Bound *b, const Target *t, const PassOptions *passes, int which,
    Bound *other);
/* Of the two that which takes more by the estimate, and *b for it; *other: cycles of the other one, which the inspection of
 * the one before lacks. */
Module *cli_longer_module(Kernel *k, Module *m, Bound *b, const Target *t, const PassOptions *passes, double *other);
void cli_add_other(Inspection *x, double cycles);
/* What a module that went through a GPU's pipeline is like, with registers and spills where there is a ptxas.  False
 * after errors in m->cx. */
bool cli_inspect(Module *m, const Target *t, const Bound *b, Inspection *out);
/* The same of code that is made already. */
bool cli_inspect_code(Module *m, const Target *t, const Bound *b, const CliCode *code, Inspection *out);

/* cmd_inspect.c: the figures as JSON. */
json_t *cli_inspection_json(const Inspection *x);
/* What was compared, the least first: at most so many, beside them what was chosen and the header's own. */
json_t *cli_compared_json(const ChooseWhy *why, const Target *t, int most);

/* cli_metal.c: appends Metal text to `out`; with -o NAME.metal the description of its launch (b: of what it was made for)
 * goes to NAME.json.  False after errors. */
bool cli_metal(const Cli *cli, Module *m, const Target *t, const Bound *b, Text *out, Text *times);

/* cli_cubin.c: appends machine code to `out`; the description of its launch goes to the file of -o with `.txt` behind its
 * name.  False after errors. */
bool cli_cubin(const Cli *cli, Module *m, const Target *t, const Bound *b, Text *out, Text *times);

/* cli_expect.c */

/* Of a fact of an `expect` block. */
typedef enum FactResult {
	FACT_FALSE, FACT_TRUE,
	FACT_UNKNOWN,                                   /* it takes an assembler, and there is none */
	FACT_OPEN,                                      /* it depends on data: *why */
	FACT_MEANINGLESS,                               /* *why says what cannot be asked */
} FactResult;

typedef void (*ExpectRow)(void *user, const char *kernel, const char *target, const char *fact,
    const char *found, FactResult r);
/* Every fact that the expect blocks of a file state, of one kernel or (`only` is NULL) all, goes to `row`.  False after
 * printing what is wrong with one. */
bool cli_expect(const Cli *cli, const char *path, const char *only, ExpectRow row, void *user);

#endif
