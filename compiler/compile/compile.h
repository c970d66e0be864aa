/* From source to something that runs: what the command and the runtime call.
 *
 *     compile.c                       a bound kernel to tile IR after the passes, and on to an artefact
 *     assumption.c                    what the code may assume of a launch's arguments, noted before the passes
 *     arg_strides.c                   the same of strides; tensors contiguous along another dimension than the last
 *     fit.c                           fewer stages and other warps, where those that are left open take too much
 *     choose.c, choose_*.c            what the schedule leaves open, by what a launch takes (estimate.c, estimate_launch.c)
 *     ptx.c, spill.c                  questions to PTX: does it wait first; registers that do not suffice, and what is said
 *     metal.c, describe*.c            how a host launches the code, as JSON and in lines for people
 *     inspect*.c, sectors.c           what became of each line, for inspect, report and expect blocks */
#ifndef TEGULA_COMPILE_H
#define TEGULA_COMPILE_H

#include "pass/pass.h"
#include "thread/thread.h"
#include "sema/sema.h"
#include "lower/artefact.h"

/* What code assumes of a launch's arguments, in order of Kernel.params and of Bound.symbol; see FuncParam.multiple. */
enum { ASSUMED_MOST = 16 };                             /* nothing greater is assumed: code would be compiled too often */

int64_t assumption_of(uint64_t v);                           /* the largest power of two up to that which divides it */
/* Of a dimension: the same, or a greater power of two if it is the value of a compile-time parameter or twice that, a
 * tile's extent as a rule, so that no tile stands out at the edge; 1 if the dimension is 0.  Where such a parameter was
 * computed from the dimension and equals it, less than 0: the dimension is that, negated. */
int64_t assumption_of_dim(const Bound *b, int symbol);
/* Numbers of programs, and those that blocks of a cluster or loops that read ahead would have, have 31 bits. */
bool assumption_few_programs(const Bound *b);
/* Func.short_axes, for clusters of `ranks`: a bit for each axis and 2, 4 and 8 blocks, set where it has fewer programs, and
 * others where it is no multiple of them; 0 where there are not so many along any, nor along the first two together. */
int assumption_short_axes(const Bound *b, int ranks);
/* Above so many bits: what the dimension is at least, where it ends between two eighths of such a parameter. */
enum { ASSUMED_LEAST = 32 };
int64_t assumption_multiple(int64_t assumed);           /* without that */

/* arg_strides.c: of a `strided` tensor's strides; what they are is not known: all 0. */
typedef struct ArgStrides {
	bool is_dense;                                  /* row-major: the others say nothing then */
	unsigned char unit;                             /* the dimension that is contiguous, from 1; 0: none */
	unsigned char apart;                            /* what the other strides are multiples of, in elements */
} ArgStrides;

/* Of strides in elements. */
ArgStrides arg_strides_of(DType elem, int rank, const int64_t *dim, const int64_t *stride);
/* Writes them into parameter i of the function, before anything else looks at it; s NULL: nothing is known. */
void arg_strides_note(Func *f, int i, const ArgStrides *s);

typedef struct ArgAssumptions {
	const int64_t *param;                           /* tensors and pointers: bytes; integer scalars: the value */
	const int64_t *symbol;                          /* assumption_of_dim */
	const ArgStrides *strides;                      /* of strided tensors; NULL: nothing is known of any */
	bool no_windows;                                /* maps of windows have other limits: Func.no_windows */
	bool few_programs;                              /* Func.few_programs */
	int short_axes;                                 /* Func.short_axes */
	bool alone;                                     /* no kernel is launched before it that computes operands */
} ArgAssumptions;

/* What a launch with just these sizes has, on tensors of its own.  In `mem`. */
ArgAssumptions assumptions_of_dims(Arena *mem, const Bound *b);

/* Writes both into the function: what is assumed (NULL: nothing), and how many programs the grid's axes have.  Strides are
 * there already. */
void assumptions_note(Func *f, const Kernel *k, const Bound *b, const ArgAssumptions *p);

/* Elaborates a kernel for `b` and runs the pipeline of a target ("cpu", "sm_90a" …).  `assumptions` may be NULL: then
 * nothing is known of the arguments.  NULL after errors, which are in the program's cx. */
Module *compile_kernel(Kernel *k, const Bound *b, const char *target, const ArgAssumptions *assumptions,
    const PassOptions *opt);
/* The same with the schedule as it is.  *made: the module, also where passes failed; NULL: there is none. */
bool compile_as_is(Kernel *k, const Bound *b, const Target *t, const ArgAssumptions *assumptions, const PassOptions *opt,
    Module **made);
/* fit.c: the same again, if what `failed` needs more than a block has: with as many stages and warps as do, where `b`
 * leaves them open.  NULL: the error stands, and says which of those that are given would do. */
Module *compile_fitting(Kernel *k, const Bound *b, const Target *t, const ArgAssumptions *assumptions,
    const PassOptions *opt, const Module *failed);
/* The error for a target's name that no target has. */
void compile_unknown_target(Compile *cx, const char *name);
/* Is LLVM there?  Else it is an error in cx that says what to install. */
bool compile_finds_llvm(Compile *cx);
/* choose_roles.c: is the kernel to be parted into roles, where its schedule leaves that open?  The columns of its first
 * product, or 0: no. */
int choose_roles(const Func *f, const Schedule *s, const Target *t);
/* estimate_leave.c: may programs be of different lengths: some leave early, or their loops are as long as data says? */
bool choose_dynamic(const Func *f);
/* From a module that went through a GPU's pipeline to what its device loads.  False after errors in m->cx. */
bool compile_artefact(Module *m, const Target *t, Artefact *out);

/* ptx.c: its kernel waits for the grid before it, before it touches memory. */
bool ptx_waits_first(const char *text);
/* The same of a kernel that copies tensors which are `in fixed` before it waits: nothing else is moved before. */
bool ptx_waits_late(const char *text);

/* spill.c: registers of 32 bits that a thread holds at once, estimated, and those that it may have. */
typedef struct Pressure {
	int held, limit;
	int sums;                                       /* of those held, what matrix instructions add to */
	int blocks;                                     /* resident ones that the code asks for, or 0 */
} Pressure;

/* Of a function that went through the pipeline of `t`, with PTX: by its thread IR.  held 0: its roles give each other
 * registers, and it is not estimated.  False after errors. */
bool pressure_estimate(Func *f, const Target *t, Pressure *out);
/* So much more than there is that an assembler's better order of instructions will not do. */
bool pressure_spills(Pressure p);

/* Warnings that a kernel's registers do not suffice, with what leaves a thread less to hold; b may be NULL. */

/* By an assembler: bytes of stores and loads, which may be 0. */
void spill_warn(const Module *m, const Target *t, const Bound *b, int bytes);
/* By an estimate. */
void spill_warn_likely(const Module *m, const Target *t, const Bound *b, Pressure p);
/* By a device that reserves so many bytes a thread; the module is gone. */
void spill_warn_loaded(Compile *cx, const Bound *b, const Target *t, int threads, int bytes);
/* Bytes of local memory a thread that the text itself asks for (arguments of a print). */
int ptx_local_bytes(const char *text);

/* What a module becomes on that way, as text. */
typedef enum CompileStage { STAGE_THREAD, STAGE_LLVM, STAGE_PTX } CompileStage;

/* `times`, if not NULL, gets a line for lowering and one for LLVM. */
bool compile_text(Module *m, const Target *t, CompileStage stage, Text *out, Text *times);
/* The same from there on. */
bool compile_thread(const ThreadModule *m, Compile *cx, CompileStage stage, Text *out, Text *times);

/* PTX, appended to `out`.  The description of its launch (describe_launch; `b` may be NULL) goes to `description`, or where
 * that is NULL, as comments to the head of the PTX. */
bool compile_ptx(Module *m, const Target *t, const Bound *b, Text *out, Text *description, Text *times);

/* Metal text, appended to `out`, and, if `b` is not NULL, the description of its launch (metal.c, docs/metal.md). */
bool compile_metal(Module *m, const Target *t, const Bound *b, Text *out, Text *json, Text *times);

#endif
