/* Changes to a kernel's schedule and text that are tried, and compiled: variants.c, variants_built.c. */
#ifndef TEGULA_VARIANTS_H
#define TEGULA_VARIANTS_H

#include "tool/report/report.h"

#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"

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
	double other;                                           /* cycles of another kernel of the launch */
} With;

typedef struct Variants {
	const Cli *cli;
	Kernel *k;
	const Target *t;
	const ChooseWhy *why;
	const Bound *now;
	const char *ir;                                         /* of the kernel as it is */
	const Inspection *own;
	json_t *all;
	VEC(With) with;                                         /* of each of all */
	PlaceList slow;                                         /* functions and divisions that have a fast:: form */
	VEC(int) order; /* which are to be compiled, the most important first */
	const ReportCode *code;
	ReportTime *time;
	double until;    /* of the page's time: no change is begun behind it */
} Variants;

bool variant_is_given(const Variants *v, const char *name);
/* Adds what the launch takes with these values; `said`: they in words, NULL: those of tiles that
 * are other than now, and of the schedule.  -1: it does not compile, is not modelled, is there, or
 * `may_spill` not and seems to. */
int variant_add(Variants *v, With with, const char *said, bool may_spill);
int variant_try(Variants *v, const char *name, int64_t value, bool may_spill);
/* What is elaborated from now on, as bills of products are once more, has its functions; NULL: the text's own. */
void variant_elaborate(const Variants *v, const With *with);
/* variants_built.c: what has gained most for its time; where there is machine code, more. */
void variants_want_first(Variants *v);
/* Compiles what is most promising, in `whole` seconds of the page; `most` µs: of tiles before there is code. */
void variants_build(Variants *v, double whole, double most);
/* It is to be compiled, unless it is far slower by the estimate before there is code; `as`: a mark of it, or NULL. */
void variant_want(Variants *v, int nth, const char *as);
/* variants_compared.c */
void variants_want_next(Variants *v);
void variants_want_flat(Variants *v);
void variants_want_refused(Variants *v);
/* variants_anew.c: is a change named by a value, which it does not only leave as it was chosen? */
bool variant_says(const Variants *v, int nth, const char *name);
/* "line 240 has a histogram, with warps = 4": what the change has, by the figures of its code, that the kernel has not,
 * beside what it is named by. */
const char *variant_gains(const Variants *v, const Inspection *x, int nth);
/* A change that the page has no time for. */
void variant_leave(const Variants *v, const With *with);
/* Seconds of the page that are left before a share of what changes may take is over. */
double variant_left(const Variants *v);

#endif
