/* What files that read machine code share (machine.c, machine_trips.c, machine_mix.c, machine_wait.c, path.c). */
#ifndef TEGULA_REPORT_MACHINE_H
#define TEGULA_REPORT_MACHINE_H

#include "tool/report/report.h"

typedef struct Instruction {
	const char *op;
	int source, n; /* line of the source; of SASS */
	bool is_guarded;
	double times;     /* that a warp executes it for one program */
	unsigned control; /* when it goes (path.c) */
} Instruction;

/* Of instructions: [from, to). */
typedef struct CodeLoop {
	int from, to;
	double times; /* trips for one program; -1: not known yet */
} CodeLoop;

typedef struct Code {
	VEC(Instruction) at;
	VEC(CodeLoop) loops;
	Arena *mem;
	const char **label; /* by lines of SASS: the text of one that is a label; NULL */
	int nline;
	bool has_control;
} Code;

/* Is its name one of those, or begins with one and a dot? */
bool code_is_one_of(const char *op, const char *const *name, int n);
bool code_is(const char *op, const char *name);
int code_bytes(const char *op); /* of a thread's access */
int code_target(const Code *c, const Instruction *branch); /* behind its label; -1: not known */

/* machine_trips.c: `times` of each; `left`: by lines, what few values need, which is left out.  False: not known. */
bool code_times(Code *c, const Inspection *x, const Bound *b, int lines, double once, double *left);

/* Of the pipes that take more than a cycle for a warp's instruction.  Products of integers go
 * through one half of what multiplies floats; those with a result of 64 bits, or its upper half,
 * take it twice as long. */
typedef enum Pipe { PIPE_INTEGERS, PIPE_PRODUCTS, PIPE_DOUBLES, PIPE_SPECIAL, PIPES } Pipe;

/* Cycles that an instruction takes one of them, by CUDA's guide (throughput of arithmetic
 * instructions); 0: none. */
double code_pipe(const char *op, Pipe *pipe);

/* machine_mix.c: instructions of a warp for one program, by lines of the source and kinds; by names, of the special
 * function unit. */
json_t *code_mix(const Code *c, int lines);
json_t *code_specials(const Code *c, int lines);

/* path.c: the path of one warp, alone, for one program. */

typedef enum CodeWait {
	WAIT_MEMORY,
	WAIT_EXCHANGE,
	WAIT_BARRIER,
	WAIT_PRODUCT,
	WAIT_ARITHMETIC,
	CODE_WAITS
} CodeWait;

typedef struct CodePath {
	int lines;              /* of the source; line 0: of none */
	double *of[CODE_WAITS]; /* cycles of each */
	double *filled[CODE_WAITS]; /* the same of turns[0] */
	/* cycles of all: of arithmetic, and of what other warps of a block fill, and the rest; and instructions; [1]: of
	 * those in loops without a barrier, where one warp computes while another waits */
	double turns[2], waits[2], n[2];
	double barriers;  /* of a launch's bill, at barriers (machine_wait.c) */
	double issued;    /* the same, of the path: instructions of the whole block, which the bill has as well */
	int loads, steps; /* of global memory; waits for some of them, one after the other */
} CodePath;

/* Cycles from a load's begin to its end, by the line of the source that it is of, and for 1 byte of
 * each of a block's threads while all multiprocessors load. */
void code_path(const Code *c, const TargetRates *r, const double *latency, const double *each_byte, double local,
    int lines, int warps, CodePath *out);

/* machine.c */

/* What its instructions take. */
typedef struct CodeWalk {
	int lines;  /* of the source; line 0: of none */
	double *of; /* instructions of each */
	double *pipe[PIPES], pipes[PIPES]; /* cycles of pipes, of each and of all */
	double n, *loaded, *stored; /* bytes of a warp, of each */
	double *shared, *shuffled; /* cycles of shared memory, without conflicts, and exchanges */
	double *picked;            /* of the former those of reads of elements and of atomics, where data may say which */
	double local;  /* bytes of a warp that it has in local memory, as often as it loads and stores them */
	int ahead; /* copies to shared memory that go on meanwhile, and products that do */
} CodeWalk;

/* Of the source's kth line with a share of the bill; NULL: it is another file's. */
LineBill *code_line_bill(const CodeWalk *w, Inspection *x, int k);

/* machine_wait.c */

/* Of accesses of local memory the share that goes to the L2 cache. */
double code_local_missed(const Inspection *x);

/* Puts the path of the code in place of the model's, whole and by lines. */
void code_wait(const CodeWalk *w, const Code *c, Inspection *x, CodePath *p);

#endif
