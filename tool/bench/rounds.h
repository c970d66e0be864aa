/* What `tegula bench` measures beside a kernel, and how: a handwritten CUDA kernel (foreign.c, compiled by nvrtc.c), a
 * kernel that copies (copier.c), and rounds in which all of them are timed in turn (rounds.c). */
#ifndef TEGULA_ROUNDS_H
#define TEGULA_ROUNDS_H

#include "runtime/case/case.h"

/* ---- foreign.c ---- */

/* A kernel of a CUDA C++ file.  It takes the tegula kernel's parameters in order, scratch ones left out: tensors and
 * pointers as pointers, scalars by value; then the dimensions as `long long`. */
typedef struct ForeignOptions {
	const char *path, *name;        /* the file, and the `extern "C" __global__` function */
	const char *grid;               /* blocks: an expression over the case's values, "cdiv(N, 2048)" */
	int block;                      /* threads */
	int shared;                     /* bytes of dynamic shared memory */
} ForeignOptions;

typedef struct Foreign {
	TglDevice *dev;
	TglKernel *k;                   /* whose arguments it takes */
	Artefact artefact;
	Loaded *loaded;
	int64_t blocks;
} Foreign;

/* For a case and others of the same shapes, which live longer.  NULL: tgl_error of the context says why (no NVRTC, source
 * that it refuses, no such kernel, a grid that is no number of blocks). */
Foreign *foreign_open(TglCase *c, const ForeignOptions *o);
void foreign_close(Foreign **f);
/* tgl_case_run with this kernel: on the case's tensors, so that tgl_case_check then checks it. */
TglStatus foreign_run(Foreign *f, TglCase *c, double *seconds);
/* On what the case's tensors hold; waits only if `seconds` is not NULL. */
TglStatus foreign_launch(Foreign *f, TglCase *c, double *seconds);
TglStatus foreign_resources(Foreign *f, TglResources *out);

/* ---- nvrtc.c ---- */

/* CUDA C++ to machine code for d->target: fills the bytes of *out.  False: d->error, and in *log the compiler's words if
 * it refused the text. */
bool nvrtc_compile(Device *d, const char *path, const char *text, Artefact *out, Text *log);

/* ---- copier.c ---- */

typedef struct Copier {
	TglDevice *dev;
	TglTensor *from, *to;
	TglProgram *program;
	TglCase *c;                     /* NULL: the host copies */
} Copier;

/* To be closed after a failure too. */
TglStatus copier_open(TglDevice *dev, Compile *cx, Copier *out);
TglStatus copier_launch(Copier *k);
void copier_close(Copier *k);

/* ---- rounds.c ---- */

typedef struct RoundsOptions {
	Foreign *foreign;               /* or NULL */
	TglCase *beside;                /* another kernel's, timed in turn with the others; or NULL */
	int rounds;                     /* at most; at least 1 */
	double seconds;                 /* start no round after; five are made in any case */
	double rest;                    /* idle, then one replay, before each time; 0: back to back */
	bool (*progress)(void *user, int round, int rounds); /* false stops; NULL: none */
	void *user;
} RoundsOptions;

typedef struct Spread {
	double median, least, most;
} Spread;

typedef struct Rounds {
	int rounds, launches;           /* launches are of one replay */
	Spread ours, theirs;            /* seconds a launch, of rounds; theirs 0 without a foreign kernel */
	Spread ratio;                   /* theirs / ours within one round */
	Spread copy;                    /* bytes a second of a kernel that copies, read and written */
	Spread beside;                  /* seconds a launch */
} Rounds;

/* Times the case's kernel, the foreign one, the case beside and a copy in turn, each as a graph of launches that go over
 * all of `sets`: cases of one kernel and shape, whose tensors together should exceed the device's cache.  Tensors that a
 * kernel changes are not set back between.  A device without graphs launches one by one.  On failure tgl_error has the
 * reports. */
TglStatus rounds_run(TglCase *const *sets, int nsets, const RoundsOptions *o, Rounds *out);

#endif
