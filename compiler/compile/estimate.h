/* How long a launch takes, roughly: for choosing between schedules before anything is compiled. */
#ifndef TEGULA_ESTIMATE_H
#define TEGULA_ESTIMATE_H

#include "sema/sema.h"
#include "target/target.h"

/* Of the kernel as elaborated for `b` and simplified, with the warps and stages of its schedule; `multiprocessors` of the
 * device.  Cycles of one multiprocessor; less than 0: it does not fit, or nothing in it multiplies. */
double estimate_cycles(Func *f, const Bound *b, const Target *t, int multiprocessors);

#endif
