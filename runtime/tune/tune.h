/* Inside the tuner: what its files share.
 *
 * tune_values.c has values by name, tune_lookup.c finds what is known for a launch, tune_space.c makes the candidates,
 * tune_order.c puts the likely ones first, tune_build.c compiles them, tune_compare.c looks at what they compute, by the
 * bounds of tune_error.c, tune_halving.c measures, tune.c puts it together and tune_store.c (cache.h) keeps it. */
#ifndef TEGULA_TUNE_H
#define TEGULA_TUNE_H

#include "runtime/case/case.h"

/* tune_values.c */

/* All that is not free to be tuned, as values by name: dimensions, and what `given` or the example fixes; of no `given`
 * everything.  In `mem`. */
NamedConst *bound_values(
    const Kernel *k, const Bound *b, const Binding *given, const ExampleItem *ex, Arena *mem, int extra, int *n);
/* "BM = 128, T = f16" as values; false: it is something else.  Names are interned in the program. */
bool values_parse(Compile *cx, const char *text, Arena *mem, NamedConst **out, int *n);
void value_print(const char *name, const Const *v, Text *out);  /* behind a comma if it is not the first */
void values_print(const NamedConst *v, int n, Text *out);
/* Reports, and what the compiler makes, go elsewhere between the two. */
typedef struct Reports {
	Diag *first, *last;
	int nerrors;
	Arena *mem;
} Reports;

Reports reports_hide(Compile *cx, Arena *mem);
void reports_restore(Compile *cx, const Reports *r);
/* Binds without a report: false if the header refuses, with the reason in `why` (unless NULL). */
bool bind_quietly(TglKernel *k, const Binding *b, const NamedConst *given, int n, Arena *mem, Bound *out, Text *why);

/* tune_choose.c: the values of tune(...) that the compiler chooses for these sizes, as text; "default": the header's */
const char *tune_chosen(TglKernel *k, const Binding *b, const ExampleItem *ex, const TuneKey *key);

/* The same for a target by its name, not remembered; in `mem`. */
const char *tune_choice(TglKernel *k, const Binding *b, const ExampleItem *ex, const char *target, Arena *mem);

/* tune_lookup.c */

/* Binds again with what the compiler chooses for a target that is not of a device here. */
void tune_apply_target(TglKernel *k, Binding *b, const ExampleItem *ex, const char *target, Arena *into);
/* Binds again with what tuning found for these sizes, else with what the compiler chooses, into `into`. */
void tune_apply(TglKernel *k, Binding *b, const ExampleItem *ex, Arena *into);
void tune_key(TglKernel *k, const Binding *b, TglDevice *dev, const ExampleItem *ex, Arena *mem, TuneKey *out);
/* Whether the caller or the example has set a name, so that tuning leaves it alone. */
bool tune_is_fixed(const Binding *b, const ExampleItem *ex, const char *name);

/* tune_halving.c: which of several is the fastest, by measuring them in turn */

typedef struct Arm {
	double *sample;                 /* seconds */
	int n;
	bool out;                       /* not measured any more */
	double median, noise;           /* noise: half of the interval that holds the true median, 99 of 100 times */
	const char *why;                /* it is out: in Halving.mem */
	bool slower;                    /* it is out for being slower, not for failing */
} Arm;

typedef struct Halving {
	Arena *mem;
	Arm *arm;
	int n, favourite;               /* favourite: wins where it is not slower beyond noise; -1: none */
	bool (*measure)(void *user, int arm, double *seconds); /* false: it failed, and is out */
	double (*now)(void *user);
	/* false: stop.  `rounds` of about `of`. */
	bool (*progress)(void *user, int alive, int rounds, int of);
	void *user;
	double deadline;                /* by now(); the first round is run to its end by then, or not at all */
	int winner;                     /* -1: none was measured */
	bool spent, stopped;
} Halving;

enum { MAX_SAMPLES = 64 };

void halving_run(Halving *r);
/* Median and noise of samples. */
void arm_statistics(Arm *r);

/* tune_space.c */

typedef struct Candidate {
	Const *value;                   /* in order of Tuner.name; kind CONST_NONE: left to the compiler */
	Bound bound;
	TglTuneState state;
	const char *why;
	bool dropped;                   /* never measured, state and why say why */
	Artefact artefact;              /* made ahead, if bytes is set */
	bool kept;                      /* it was in the cache */
	double cycles;                  /* that the cost model expects; not above 0: not known */
} Candidate;

typedef struct RoundError {
	double share;                   /* of the root mean square; 0: all candidates compute the same */
	bool jumps;                     /* a few elements may be anything: rounding chose them */
} RoundError;

typedef struct TuneWorks TuneWorks;

typedef struct Tuner {
	TglCase *c;
	TglKernel *k;
	TglDevice *dev;
	Arena *mem;
	const Target *target;           /* NULL: the device runs tile IR */
	Binding binding;                /* the case's, with the default's values */
	TuneKey key;
	TuneName *name;                 /* that are not fixed */
	int nname;
	NamedConst *fixed;
	int nfixed;
	VEC(Candidate) at;              /* the default first */
	int *order;                     /* in which they are compiled and tried */
	int64_t combinations;           /* of the whole space; INT64_MAX: that many or more */
	bool sampled;
	int *measured;                    /* candidates by number of their arm */
	Halving halving;
	const TglTuneOptions *options;
	double start, budget;
	char **first;                   /* what the first good one computed, by parameter */
	bool by_reference;
	char *got;                      /* what one has computed, while it is looked at */
	size_t got_bytes;
	int first_one;                  /* the candidate that did */
	RoundError *error, *own;        /* of first[], and of what is looked at, by parameter; NULL: not known yet */
	double *mean;                   /* root mean square of first[], by parameter; -1: not known yet */
	TuneWorks *works;
	double quickest;                /* seconds of the best so far, when they are tried */
	int reps;                       /* launches in one measurement */
	bool stopped;
} Tuner;

/* False after a report. */
bool tune_space(Tuner *t);
const char *candidate_values(const Tuner *t, const Candidate *c); /* "BM = 64, warps = 4" */
bool candidate_drop(Tuner *t, Candidate *c, TglTuneState s, const char *fmt, ...) PRINTF(4, 5);       /* false */
/* Drops those that need what the target has not, and those that are the same code as another. */
void tune_prune_built(Tuner *t);

/* tune_order.c: Tuner.order, by what the cost model expects, where it knows the target */
void tune_order(Tuner *t);

/* tune_build.c */

/* Compiles candidates for a GPU, several at a time; in half of the budget. */
void tune_build(Tuner *t);
/* Waits for those that went on. */
void tune_build_end(Tuner *t);

/* tune_error.c */

/* How far a launch as `b` may be off the exact result, by parameter, in out[]; false: that is not known.  `target` is a
 * name, or "cpu". */
bool tune_errors(TglKernel *k, const Bound *b, const char *target, RoundError *out);

/* tune_compare.c */

/* Keeps what the case's tensors hold now as that which others must compute. */
bool tune_keep_first(Tuner *t);
/* Whether the outputs are right; if not, *why (in t->mem) says what is wrong.  *failed: it could not be found out. */
bool tune_compare(Tuner *t, const char **why, bool *failed);
void tune_free_first(Tuner *t);

#endif
