/* How long a launch takes, roughly: for choosing between schedules before anything is compiled. */
#ifndef TEGULA_ESTIMATE_H
#define TEGULA_ESTIMATE_H

#include "model/model.h"
#include "sema/sema.h"

/* Of the kernel as elaborated for `b` and simplified, with the warps and stages of its schedule; `multiprocessors` of the
 * device.  Cycles of one multiprocessor; less than 0: it does not fit, or nothing in it multiplies. */
double estimate_cycles(Func *f, const Bound *b, const Target *t, int multiprocessors);

/* Of any kernel that went through the whole pipeline of a target that has rates (target.h).  False: it does not fit. */
bool estimate_bill(Func *f, const Bound *b, const Target *t, Arena *mem, Bill *out);

#endif
