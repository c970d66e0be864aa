/* The checker of Metal text: compiles a .metal file with clang (C++ for OpenCL, the library in include/), runs its kernels
 * on this machine with each thread of a threadgroup as a fiber, and reports what is wrong with them.
 *
 *     source.c   the text: the compiler, and the library that it makes
 *     signature.c  its kernels' names and parameters
 *     block.c    threadgroups: fibers that wait for each other at barriers, simd functions and matrix operations
 *     shadow.c   memory: what each byte was last written and read by
 *     report.c   what was found, each once
 *     host.c     launches described by a .json description and a .tgl file (main.c: the command)
 *     facts.c    launches described by comments in the .metal file
 */
#ifndef TEGULA_TESTS_MSL_H
#define TEGULA_TESTS_MSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/simt/fiber.h"

enum { MSL_BUFFERS = 31, MSL_LANES = 32, MSL_MAX_THREADS = 1024, MSL_MAX_SHARED = 32768, MSL_MAX_BYTES = 32 };
enum { MSL_MAX_REPORTS = 16, MSL_MAX_KERNELS = 16, MSL_MAX_ARRAYS = 64 };

/* ---- report.c ---- */

typedef struct MslReport {
	const char *kind;                               /* race divergence bounds alignment limit fragment … */
	int line;                                       /* of the .metal file; 0: of none */
	char text[400];
} MslReport;

typedef struct MslReports {
	MslReport at[MSL_MAX_REPORTS];
	int n;
	int dropped;                                    /* found when there was no more room */
} MslReports;

void msl_report(MslReports *r, const char *kind, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
bool msl_reported(const MslReports *r, const char *kind, int line);

/* ---- source.c ---- */

typedef enum MslParamKind { MSL_POINTER, MSL_REFERENCE, MSL_SHARED_POINTER, MSL_BUILTIN } MslParamKind;

typedef struct MslParam {
	MslParamKind kind;
	char type[96], name[64];
	int index;                                      /* of the buffer; which built-in value */
	int components;                                 /* of a built-in value */
	bool is_const, is_constant;                     /* const memory; the constant address space */
} MslParam;

typedef struct MslArray { uint64_t offset, size; char name[64]; } MslArray;    /* in threadgroup memory */

typedef struct MslKernel {
	char name[128];
	int line, threads;                              /* max_total_threads_per_threadgroup, -1: it has none */
	MslParam param[48];
	int nparam;
	MslArray array[MSL_MAX_ARRAYS];
	int narray;
} MslKernel;

typedef struct MslProgram {
	char folder[192], text_path[512], library[256];
	MslKernel kernel[MSL_MAX_KERNELS];
	int nkernel;
	bool names_elements;                            /* thread_elements() occurs: the text depends on a fragment's layout */
	bool has_atomics;
	bool has_headers;                               /* it includes <metal_stdlib> */
	bool has_tables;                                /* it may have arrays in constant memory */
	void *handle;
	uint8_t *base;                                  /* where the library lies */
	uint64_t constants, constants_end;              /* its memory that cannot be written, from base on */
	MslArray table[MSL_MAX_ARRAYS];                 /* arrays in constant memory */
	int ntable;
	struct MslLine *line;                           /* that addr2line has said, by a hash of the address */
	char *error;                                    /* the compiler's messages, or NULL */
} MslProgram;

/* NULL: no memory.  An `error` in what comes back: it is good for nothing but msl_close. */
MslProgram *msl_open(const char *path);
void msl_close(MslProgram *p);
const MslKernel *msl_kernel(const MslProgram *p, const char *name);
/* Whether this machine has what msl_open needs. */
bool msl_compiler(char *path, size_t room);
/* The line of an address in the library; 0: not known. */
int msl_line(const MslProgram *p, uint64_t offset);

/* The message of the compiler, or of the checker in its place; the first is kept. */
void msl_refuse(MslProgram *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- signature.c ---- */

enum { MSL_POSITIONS = 6, MSL_BUILTINS = 11 };              /* of built-in values; the first have up to three components */

void msl_signatures(MslProgram *p, const char *text);
void msl_copy_trimmed(char *to, size_t room, const char *from, const char *end);

/* ---- block.c ---- */

typedef struct MslBuffer {
	void *at;                                       /* NULL: nothing is bound */
	size_t size;
	int grain;                                      /* bytes of an element, 1, 2, 4 or 8: the granularity of races */
	bool unset;                                     /* its contents are undefined at first */
	bool constant;                                  /* set by value: reads alone */
} MslBuffer;

typedef struct MslLaunch {
	const MslKernel *kernel;
	MslBuffer buffer[MSL_BUFFERS];
	int groups[3], threads[3];
	int threadgroup_bytes;
	/* another order of groups and threads, and another layout of fragments than Apple's, by number; 0: none */
	int order, layout;
} MslLaunch;

void msl_launch(const MslProgram *p, const MslLaunch *l, MslReports *out);

/* ---- guard.c ---- */

void *msl_guarded(size_t size);                             /* NULL: no memory */
void msl_unguard(void *at, size_t size);

/* ---- library.c: half ---- */

float __gnu_h2f_ieee(uint16_t h);
uint16_t __gnu_f2h_ieee(float f);

/* ---- inside ---- */

typedef enum MslState { READY, AT_BARRIER, AT_SIMD, DONE } MslState;

typedef struct MslThread {
	void *context;                                  /* where it goes on */
	MslState state;
	int index, line;                                /* within the group; where it waits */
	const char *what;                               /* for what */
	uint32_t flags;                                 /* of the barrier that it waits at */
	uint32_t ids[24];
} MslThread;

typedef struct MslSimd {
	int lanes, arrived, turn;
	uint32_t active;                                /* which lanes there are */
	uint32_t shared_epoch, device_epoch;
	uint8_t held[2][MSL_LANES][MSL_MAX_BYTES];
	float made[2][MSL_LANES][2];                    /* by a multiplication of matrices */
} MslSimd;

/* What one launch is while it runs; the functions that kernels call find it by themselves. */
typedef struct MslRun {
	const MslProgram *program;
	const MslLaunch *launch;
	MslReports *reports;
	MslThread thread[MSL_MAX_THREADS], *current;
	MslSimd simd[MSL_MAX_THREADS / MSL_LANES];
	Stacks stacks;
	void *scheduler;
	int nthreads, arrived, group;                   /* of the group; at the barrier; which group it is */
	bool aborted;
	struct Shadow *shadow;
	uint32_t shared_serial, device_serial;          /* go up with every barrier for such memory, and every group */
	uint32_t group_shared_serial, group_device_serial;      /* what they were when the group began */
	uint8_t fragment[MSL_LANES][2];                 /* element of a lane to row * 8 + column */
	uint64_t buffers[MSL_BUFFERS + 1];              /* threadgroup(0) last */
	void (*entry)(const uint64_t *buffers, const uint32_t *ids);
} MslRun;

extern _Thread_local MslRun *msl_run;

/* Ends the group: goes back to the scheduler for good. */
_Noreturn void msl_abort(void);

/* ---- shadow.c ---- */

enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ATOMIC = 4 };

struct Shadow *msl_shadow_open(MslRun *r);
/* threadgroup memory that the host sizes */
void msl_shadow_add(struct Shadow *s, void *at, size_t size);
void msl_shadow_close(struct Shadow *s);
/* A line of the text: of an address in the library, or itself. */
uint32_t site_address(const MslRun *r, const void *pc);
uint32_t site_line(int line);
void msl_access(const void *at, int bytes, int align, unsigned how, uint32_t site);

#endif
