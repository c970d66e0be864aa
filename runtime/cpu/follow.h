/* What the cpu device counts of branches and loops. */
#ifndef TEGULA_FOLLOW_H
#define TEGULA_FOLLOW_H

#include "ir/interp/interp.h"
#include "sema/sema.h"

typedef struct Follow Follow;

Follow *follow_open(int64_t programs, double seconds);
void follow_close(Follow *f);
bool follow_step(void *follow, const Op *op, int64_t went);     /* PlanOptions.ran; false: time is over */
/* Instead of all `total` programs of the grid; false: a fault. */
bool follow_run(Follow *f, const Plan *plan, Worker *w, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t total,
    Fault *fault);
const Followed *follow_result(const Follow *f);                         /* in the last launch */

#endif
