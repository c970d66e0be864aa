/* Changes to a kernel's schedule and text that are tried, and compiled: variants.c, variants_built.c. */
#ifndef TEGULA_VARIANTS_H
#define TEGULA_VARIANTS_H

#include "tool/report/report.h"

#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"

#include <time.h>

enum { VARIANT_LEAST = 8, VARIANT_MOST = 4096 };          /* of a tile's extent */
#define VARIANT_FAST "fast:: functions and divisions"
#define VARIANT_CLOSE 1.1                                 /* of the kernel's own, before there is code: worth compiling */

typedef struct With {
	const NamedConst *value;
	int n;
	bool fast;                                              /* what is slow is fast:: */
	bool wanted;                                            /* is to be compiled */
	const char *ir;                                         /* of the program, as it is printed */
	Module *m;                                              /* so compiled; bound as b */
	Bound b;
} With;

typedef struct Variants {
	const Cli *cli;
	Kernel *k;
	const Target *t;
	clock_t begun;
	const ChooseWhy *why;
	const Bound *now;
	const char *ir;                                         /* of the kernel as it is */
	const Inspection *own;
	json_t *all;
	VEC(With) with;                                         /* of each of all */
	VEC(Place) slow;                                        /* functions and divisions that have a fast:: form */
	VEC(int) order; /* which are to be compiled, the most important first */
	size_t bytes;   /* of PTX, so far */
	bool is_counted; /* the kernel's machine code says what it takes, so that that of others is counted, too */
} Variants;

bool variant_is_given(const Variants *v, const char *name);
/* Adds what the launch takes with these values; `said`: they in words, NULL: those of tiles that
 * are other than now, and of the schedule.  -1: it does not compile, is not modelled, is there, or
 * `may_spill` not and seems to. */
int variant_add(Variants *v, With with, const char *said, bool may_spill);
int variant_try(Variants *v, const char *name, int64_t value, bool may_spill);
/* What is elaborated from now on, as bills of products are once more, has its functions; NULL: the text's own. */
void variant_elaborate(const Variants *v, const With *with);
/* variants_built.c: compiles what is most promising, of a source of so many lines; `most` µs: of
 * tiles before there is code; `listed`: there is machine code, by whose registers and spills, at least, all
 * are estimated. */
void variants_build(Variants *v, int lines, double most, bool listed);

#endif
