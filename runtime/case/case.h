/* Cases: a kernel with everything that it needs to run (case.c, input.c); its reference (reference.c, kept.c) and
 * the comparison with it (check.c); what a launch takes (timing.c) and computes (work.c); its code (case_code.c);
 * asserts (assert.c). */
#ifndef TEGULA_CASE_H
#define TEGULA_CASE_H

#include "runtime/cache/hash.h"
#include "runtime/launch/launch.h"

/* work.c: floating point operations of one launch, from the tile IR; -1: not known */
double work_flops(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES]);
double work_elements(Func *f, const PlanArg *args, const int64_t grid[MAX_AXES]);        /* of the interpreter's tiles */

/* case.c */

struct TglCase {
	TglDevice *dev;
	TglKernel *k;
	const ExampleItem *example;     /* or NULL */
	Binding b;
	uint64_t seed;
	TglArg *args;
	int nargs;
	const char **value_name, **value_text;
	int nvalues;
	void **first;                   /* first values, on the host, of what the kernel changes */
	bool holds;                     /* b.tensor is counted */
	bool has_run;
	struct Reference *reference;    /* begun by case_seconds or the first check, which makes it */
	Module *whole;                  /* what it runs */
};

TglStatus case_run(TglCase *c, double *seconds);
TglStatus case_launch(TglCase *c);      /* on what its tensors hold, without waiting where the device does not */
bool case_restore(TglCase *c);          /* first values, poison */

/* The thread IR of its launch on its device, a GPU's; what is wrong is reported as by tgl_case_run. */
TglStatus case_thread_text(TglCase *c, Text *out);

/* The example that the options ask for, into c->example; false, and reported: there is none such. */
bool case_choose_example(TglCase *c, const TglCaseOptions *o);

/* input.c */

bool case_bind(TglCase *c);             /* the header, from arguments and the example */
bool case_materialise(TglCase *c, int i); /* makes tensor i, after those that its line uses */
bool case_missing(TglCase *c, int i);   /* reports that nothing gives parameter i; false */
TglArg case_arg(const char *name, const Const *v);
/* Runs a whole-tensor function as one program. */
bool whole_run(const Plan *plan, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault);

/* reference.c */

enum { REFERENCE_RUNS = 4 };            /* the exact one first */

typedef struct Output {
	int param;                      /* of the kernel */
	int func_param;                 /* of the reference */
	DType elem;                     /* in the reference: f64, or the integer type */
	int64_t count, bytes;
	char *buffer[REFERENCE_RUNS];
	double *deviation;              /* NULL: integers */
	double rms;
} Output;

typedef struct Reference {
	int refs;                       /* cases, and the context, which keeps it */
	bool made, keeps;               /* its outputs; whether it may be kept */
	struct Reference *next;         /* among those that the context keeps */
	Hash key;                       /* of all that it was made from */
	Image *image;                   /* in order of Kernel.params; NULL: the host reads tensors as they are */
	int nimages;
	int nruns;                      /* 1 if the kernel calculates with integers alone */
	Output *out;
	int n;
	double roundoff, least;         /* of the kernel's arithmetic */
	int64_t narrow;                 /* products of 8-bit floats that a matrix unit adds with 14 bits; 0: none */
} Reference;

TglStatus reference_make(TglCase *c);   /* into c->reference, unless it is there; NULL on failure */
/* About what checking takes, by what the interpreter computes: the reference, on the cpu device the kernel; 0: unknown. */
double case_seconds(TglCase *c);
void reference_unref(Reference *r);
double reference_roundoff(DType t);     /* unit roundoff; 0: no float */
double reference_least(DType t);        /* the least number above 0 */

/* kept.c */

/* What it is made from; false: too large to be kept, or not to be read. */
bool reference_key(const TglCase *c, const Module *m, Reference *r);
Reference *reference_find(const TglContext *cx, const Hash *key);
void reference_keep(TglContext *cx, Reference *r);

/* timing.c */

Func *case_func(TglCase *c, TglStatus *s);      /* the tile IR of its kernel; NULL: *s, with reports */
Func *case_source(TglCase *c, TglStatus *s);    /* before the passes of a GPU, of which table folds roundings into tables */
/* The median of n times, at least one, which it sorts. */
double median_of(double *v, int n);

#endif
