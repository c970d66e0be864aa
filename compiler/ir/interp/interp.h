/* Runs a function of the tile IR on this CPU, tile by tile: the cpu device, the oracle for every other device, and the
 * evaluator of references and examples.
 *
 * A Plan is made once from a verified Func: every value gets a slot in a scratch block.  With `plain`, `trace` or
 * `sanitize` each op is run by its definition (run.h); else the fast layer runs (fast/fast.h).  A Worker is one thread's
 * scratch.  Many workers may run a plan at once; the caller distributes the programs (runtime/cpu/cpu.c has the thread
 * pool). */
#ifndef TEGULA_INTERP_H
#define TEGULA_INTERP_H

#include "num/num.h"
#include "ir/ir.h"

typedef struct Plan Plan;
typedef struct Worker Worker;
typedef struct Shadow Shadow;

/* One argument for each FuncParam, in order. */
typedef struct PlanArg {
	void *data;                                     /* tensor: its first element; pointer: where it points */
	int64_t dim[KERNEL_RANK], stride[KERNEL_RANK];  /* tensor: extents and strides, in elements */
	char *low;                                      /* bounds of the allocation that data lies in: pointers */
	char *high;                                     /* must stay within them; NULL, NULL and data not NULL: unknown */
	bool filled;                                    /* an out tensor whose elements have a value before the launch */
	int64_t i;                                      /* integer, bool or dim; floats as f64 in f */
	double f;
	DType dtype;                                    /* of a scalar, for devices that need it */
} PlanArg;

/* Options; all zero is the fast run. */
typedef struct PlanOptions {
	bool plain;                                     /* every op by its definition, without the fast layer */
	bool base;                                      /* num's loops for any CPU: dots of floats round alike everywhere */
	bool sanitize;                                  /* keep shadow memory; see Fault */
	/* > 0: Monte Carlo arithmetic: every f64 result of arithmetic, and every element entering a sum or dot, is
	 * scaled by 1 + perturb * (-1..1); sums lose a little besides (disturb.c) */
	double perturb;
	int64_t narrow;                                 /* products of a dot that are added with 14 bits, then in f32 */
	uint64_t seed;                                  /* of perturb */
	/* print(...) lines arrive here, whole, from any thread; NULL: dropped */
	void (*print)(void *user, const char *line);
	/* called after each op that gives values, if not NULL (--trace) */
	void (*trace)(void *user, const Op *op, const int64_t program[MAX_AXES], int out, const void *data);
	/* called when an if is reached, with 1 if its first region runs, and of a loop first with 0, then before each trip
	 * with its step (a while: 1); false ends the program, as cancelled.  NULL: not called */
	bool (*ran)(void *user, const Op *op, int64_t went);
	void *user;
	const struct GpuOps *gpu;                       /* runs what only the passes of GPUs make; NULL: that is refused */
} PlanOptions;

typedef enum FaultKind {
	FAULT_NONE,
	FAULT_ASSERT,                                   /* assert(...) was false */
	FAULT_BOUNDS,                                   /* a pointer left its buffer */
	FAULT_RACE,                                     /* sanitize: two programs used one element, one of them storing */
	FAULT_UNINIT,                                   /* sanitize: an out or scratch tensor was read before written */
	FAULT_MEMORY,                                   /* no memory for the scratch block; text says how much */
	FAULT_CANCELLED,
	FAULT_NAN,                                      /* of a print with {watch} */
	FAULT_KERNEL,                                   /* simt: an error of a block: a barrier that part of it misses … */
} FaultKind;

/* The first fault of a launch; kind FAULT_NONE if it went well. */
typedef struct Fault {
	FaultKind kind;
	Place place, other;                             /* the op; for races the other op */
	int64_t program[MAX_AXES], other_program[MAX_AXES];
	const char *param;                              /* tensor or pointer parameter, or NULL */
	int64_t element;                                /* linear index in it */
	const char *path;                               /* the file of `place`, where its number is not known; or NULL */
	int path_size;
	char text[512];                                 /* one whole sentence */
} Fault;

/* Prepares a function; NULL with *why (in cx->tmp) if it holds an op that only other targets run. */
Plan *plan_open(Func *f, const PlanOptions *opt, const char **why);
void plan_close(Plan *p);
size_t plan_scratch_bytes(const Plan *p);               /* of one worker */

/* Shadow memory of one launch, shared by its workers; NULL when the plan does not sanitize. */
Shadow *shadow_open(const Plan *p, const PlanArg *args);
void shadow_close(Shadow *s);

Worker *worker_open(const Plan *p);                     /* NULL: no memory */
void worker_close(Worker *w);

/* Runs programs first .. first+count-1 of the grid (linear, first axis fastest) in order.  False, with *fault
 * filled, at the first fault. */
bool plan_run(const Plan *p, Worker *w, Shadow *s, const PlanArg *args, const int64_t grid[MAX_AXES],
    int64_t first, int64_t count, Fault *fault);

/* nan.c: what --break-nan looks at, on any device */

bool nan_is_watched(const Op *op);
bool nan_has_floats(const Value *v);
/* The element that a print with {watch} reports, in `data` of each operand (of its extents before padding); -1: none. */
int64_t nan_look(const Op *print, const void *const *data, double *found);
/* "program 0: sqrt makes nan at [0] of 'x', f32[64]" */
void nan_format(const Op *print, const int64_t program[MAX_AXES], int64_t at, double x, Text *out);

/* show.c: elements of tiles as `print` has them, and tiles in lines */

void tile_element(const Type *t, const void *data, int64_t at, Text *out);
void program_format(int naxis, const int64_t program[MAX_AXES], Text *out);         /* "program (1, 2)" */
/* What a print with {trace} writes of a program, the tile's `data` being of its {valid} extents if it has some; false:
 * nothing, the print is for another program. */
bool tile_trace(const Op *print, const int64_t program[MAX_AXES], const void *data, Text *out);
Type tile_shown(const Op *print, int i);                /* of operand i of a print with {trace} or {watch} */

#endif
