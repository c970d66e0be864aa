/* `tegula report`: what the compiler made of a kernel, as one JSON value and as a page that shows it.
 *
 *     cmd_report.c    options, files
 *     gather.c        compiles and collects: stages, figures, layouts
 *     figures.c       what limits its blocks, the bill of its launch
 *     others.c        what else a launch runs: the kernel before or behind the one that the page is of
 *     count.c         the sectors that only a run tells, by the emulator
 *     tuning.c        the tuner's table, estimated and measured
 *     timeline/       the timeline of a pipelined loop, by clocks of its roles
 *     variants.c      estimates with other tiles and schedules (variants_built.c compiles them,
 *                     variants_compared.c: of what the choice has compared)
 *     measure.c       times of the kernel and of these changes on a GPU
 *     why.c           why the compiler chose what it did, in words
 *     lines.c         which source line each line of a stage came from
 *     pack.c          the text of stages in a fourth of its bytes
 *     machine.c       instructions of the machine code, and the pipes that they go through
 *     machine_trips.c how often a warp executes them
 *     machine_mix.c   what they are for
 *     machine_wait.c  what warps wait for, in the bill
 *     path.c          how long one warp takes alone, by what ptxas wrote into them
 *     explain/           sentences: beside lines, and the answers to what is asked of a kernel
 *     page.html       the page, with a hole for the JSON; built into the command */
#ifndef TEGULA_REPORT_H
#define TEGULA_REPORT_H

#include "tool/cli_build.h"

typedef VEC(Place) PlaceList;

/* Of the longest part of a bill: another so long bounds the launch as well. */
#define REPORT_NEAR 0.85

typedef enum StageKind { REPORT_TIR, REPORT_THREAD, REPORT_LLVM, REPORT_PTX, REPORT_METAL, REPORT_SASS } StageKind;

/* For each line of a stage's text the line of the source that it came from, 0 where it says none; `ptx`: that machine code
 * was made of, or NULL. */
json_t *report_lines(StageKind kind, const char *text, const char *ptx);

/* All that the page shows of one kernel for a target (NULL: its source only), to be released; NULL after errors in its
 * cx, or (*misuse) after printing. */
json_t *report_gather(const Cli *cli, Kernel *k, const Target *t, bool *misuse);

/* example.c */

/* Where neither an example nor sizes were asked for, nor a run, which takes long with many, and the text is not the
 * explorer's, which runs the first: the largest of those that are marked bench; NULL: there is none. */
const ExampleItem *report_benchmark(const Cli *cli, Kernel *k);
/* Of what sizes all is, where the kernel has several examples: "example \"large\", the largest that is marked bench". */
const char *report_sizes_of(const Cli *cli, const Kernel *k, const ExampleItem *bench, Arena *mem);

/* Seconds of a processor that a page takes, of this process and of tools: no change is begun behind `most`, and each
 * tool is stopped after `tool`. */
enum { REPORT_SECONDS = 3, REPORT_ASSEMBLE = 10 };      /* without --seconds */
typedef struct ReportTime {
	double begun, most;
	int tool;
	json_t *left;                                   /* changes that were not begun; NULL: none */
} ReportTime;

/* The kernel's own code, of a source of so many lines. */
typedef struct ReportCode {
	const CliCode *code;
	int lines;
	bool is_counted;                                /* what it takes, so that what changes take is, too */
} ReportCode;

/* {"most": 3, "left": ["warps=4"], "stopped": false}: `stopped`, a tool for the kernel's own code. */
json_t *report_time_json(ReportTime *time, const CliCode *code);

/* Adds the stage of SASS, where there is one. */
void report_add_listing(json_t *stages, const CliCode *c);

/* Runs the kernel's example on the emulator where there are accesses whose sectors are not known, and adds to their lines
 * what was counted.  False after printing, or errors in its cx. */
bool report_count(const Cli *cli, Kernel *k, const Bound *b, Inspection *x);

/* Where the kernel has branches or loops that do as data says: runs some programs of its example on the cpu device, and
 * puts what they did into b; without --run not where tensors are large.  Leaves b where that is not possible. */
void report_follow(const Cli *cli, Kernel *k, const Func *f, Bound *b);

/* Null where the kernel has nothing to tune, or its text is of standard input, as the explorer's, which is not to wait;
 * NULL after printing. */
json_t *report_tuning(const Cli *cli, const Kernel *k, const Target *t);

/* variants.c: estimates of the launch with other tiles, a list; empty where there are none.  What the choice had no
 * room for, or took to be slower, is left out.  Of the fastest, `built_us` is the estimate of their code, and other warps
 * where there is a listing: by its instructions, where those of the kernel are counted, else by its registers. */
json_t *report_variants(const Cli *cli, Kernel *k, const Target *t, const Inspection *x, const Bound *b,
    const ChooseWhy *why, const ReportCode *code, ReportTime *time);
/* With --measure: adds `measured_us`, of the kernel and of each of its variants that runs, by the GPU that is here.
 * False after printing. */
bool report_measure(const Cli *cli, const Inspection *x, json_t *kernel);
/* Does a block, or a cluster, wait there?  A line of the stage of SASS. */
bool report_is_barrier(const char *line);
/* Those of the stage of SASS, -1 where there is none; `lines` gets {"12": [2, "scan"]}: how many, and what for. */
int report_barriers(const json_t *stages, const Inspection *x, json_t *lines);
/* Has the header a number for it, by which programs or trips part what there is, and which no tensor's size is made of?
 * Others (DIM = D, or 256 for a row of 160 elements) say how much is computed.  `name` as in `Bound`. */
bool report_is_part(const Kernel *k, const char *name);
/* A function or a division of floats, of tiles or in what joins their elements, that has a fast:: form and is not it. */
bool report_is_slow(const Op *op);
/* why.c */

/* What is bound in the end, beside what `header` had; none: that alone.  Marks what of `tried` it is, and puts the least
 * first, refusals last. */
void why_chosen(ChooseWhy *why, const Bound *header, const NamedConst *chosen, int n);
/* Cycles of what was chosen by the estimate that schedules are compared by; 0: not known. */
double why_compared(const ChooseWhy *why);
/* "BM = 128, warps = 8" */
void why_values(const Tried *c, Text *out);
/* Why that was taken and not the least. */
const char *why_not_least(const ChooseWhy *why, const Tried *c);
/* A line for each of the best and one for each reason of a refusal. */
void why_print(const ChooseWhy *why, const Target *t, Text *out);
/* The same in a few sentences: how many, the next best, the header's own; or why nothing was compared.  `cycles`: what the
 * kernel takes by the bill of what was made. */
void why_say(const ChooseWhy *why, const Target *t, double cycles, Text *out);

/* Of a function that went through the whole pipeline, with the bill of its launch and the blocks that a multiprocessor has
 * by the code's registers (0: not known).  Null where there is none. */
json_t *report_timeline(Func *f, const Bound *b, const Target *t, const Bill *launch, int blocks);

/* machine.c */

/* Of the stage of SASS: six digits for each instruction, which say when it goes; gone once they are counted. */
#define REPORT_CONTROL "control"

/* The name of a line's instruction in SASS, behind its predicate; NULL: it is none. */
const char *report_instruction(const char *line);
/* Counts the bill's instructions, and waits for loads one after the other, by the stage of SASS, where there is one without
 * loops, of a source of so many lines; what was counted, or null. */
json_t *report_count_code(json_t *stages, int lines, Inspection *x, const Bound *b, Arena *mem);

/* gather.c: as PTX, where the target has that, and what its tools make of it; false after errors. */
bool report_make_code(Module *m, const Target *t, int seconds, CliCode *out);
int report_text_lines(const char *text);
/* Stages behind the tile IR; false after errors. */
bool report_add_code(json_t *stages, Module *m, const Target *t, const CliCode *code);

/* figures.c: adds `limits`, `bill` and `summary`. */
void report_add_figures(json_t *kernel, const Inspection *x, const ChooseWhy *why);

/* others.c: of a launch, its kernel without those before and behind. */
typedef struct ReportLaunch {
	Kernel *k;
	Module *main;
	Bound b;
	const Target *t;
	const char *source;
} ReportLaunch;

/* Where a launch is of several kernels: adds `others`, {kernel, role, us, bill, inspect, answers, notes} of each that is
 * not `shown`, and to the answers and notes of what was gathered what they say, by role. */
void report_add_others(json_t *kernel, const ReportLaunch *l, const Module *shown);

/* gather.c: as cli_inspect, of the code that a report counts, so that both say the same. */
bool report_inspect(Module *m, const Target *t, const Bound *b, const char *source, Inspection *out);

/* explain/explain.c: adds to what was gathered of a kernel its `answers`, `notes` of its lines, and of `rounds`; of one
 * with a `role`, which has no changes, without them. */
void report_say(json_t *kernel, const char *source, const Inspection *x, const Bound *b, const ChooseWhy *why, Arena *mem);

/* A copy whose stages have `packed` for `text` and `lines` (pack.c). */
json_t *report_pack(const json_t *kernels);

/* Appends JSON as it may stand in a script element. */
void report_put_json(const json_t *j, Text *out);

/* page.html up to the hole, and behind it. */
extern const unsigned char report_page_head[], report_page_tail[];

#endif
