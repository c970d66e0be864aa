/* One kernel's text on the cpu device, and compared with what another device makes of it. */
#ifndef DIFF_RUN_H
#define DIFF_RUN_H

#include "ir/ir.h"

enum { DIFF_WORDS = 9 };
extern const char *const diff_word[DIFF_WORDS]; /* instructions of PTX that are counted */

enum { DIFF_RUNS_MOST = 32, DIFF_OUTPUTS = 32 };

typedef enum DiffKind {
	DIFF_SAME,
	DIFF_BAD_SOURCE,                        /* it does not compile, or fails on the cpu device */
	DIFF_OTHER,                             /* results differ */
	DIFF_GUARD,                             /* something was written next to a tensor */
	DIFF_COMPILER,                          /* the target's compiler reports an error */
	DIFF_FAULT,                             /* an assert that does not hold, or a race … */
	DIFF_REPORT,                            /* the device reports something */
	DIFF_CRASH, DIFF_HANG,
	DIFF_REFUSED,                           /* the target is too small for it, and says so */
} DiffKind;

/* How often a target refused kernels with a message, numbers left out of it. */
typedef struct DiffRefusal {
	char text[120];                         /* "E1009 a tile of # elements is not possible …" */
	uint64_t n;
} DiffRefusal;

const char *diff_kind_text(DiffKind k);
bool diff_has_gpu(void);

/* A device with a schedule; figures below 0 are the compiler's choice. */
typedef struct DiffRun {
	char target[16];                        /* "sm_80", "cuda" */
	int figure[SCHEDULE_COUNT];             /* by ScheduleName */
	uint64_t layouts;                       /* seed of drawn layouts; 0: the compiler's choice */
	uint64_t order;                         /* in which warps run; 0: the usual one */
} DiffRun;

void diff_run_text(const DiffRun *r, Text *out); /* "sm_80 warps=2 layouts=7" */
/* Runs on targets ("all", a comma list, or NULL: one of them), with schedules drawn from the seed; returns how many. */
int diff_runs(uint64_t seed, const char *targets, DiffRun run[DIFF_RUNS_MOST]);
int diff_runs_named(const char *text, DiffRun run[DIFF_RUNS_MOST]); /* by its lines "// run: …" */

typedef struct DiffOutput {
	char name[32];
	void *bytes;                            /* as the cpu device left them */
	size_t size;
	double bound;
} DiffOutput;

typedef struct Diff {
	const char *text;
	DiffOutput output[DIFF_OUTPUTS];
	int noutput;
	Text printed;                           /* lines that the kernel printed there, in alphabetical order */
	bool wants_ptx;                         /* set it after diff_open: PTX is made too */
	double ptx_seconds;                     /* processor time of that */
	size_t ptx_bytes;
	bool has_word[DIFF_WORDS];              /* of diff_word, in that PTX */
	char refusal[120];                      /* after DIFF_REFUSED: as in DiffRefusal */
} Diff;

DiffKind diff_open(Diff *d, const char *text); /* runs it on the cpu; closed also after a failure */
DiffKind diff_check(Diff *d, const DiffRun *r);
void diff_close(Diff *d);

#endif
