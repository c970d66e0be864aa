/* The interpreter's definitions of what only the passes of GPUs make, so that a module can be run after them. */
#ifndef TEGULA_TESTS_INTERP_GPU_H
#define TEGULA_TESTS_INTERP_GPU_H

#include "ir/interp/run.h"

extern const struct GpuOps gpu_ops;

/* buffer.c: shared memory, copies, mbarriers */
int64_t shared_bytes(const Op *op);                     /* of what an op allocates, or 0 */
void flights_drop(Worker *w);                           /* copies that no wait has finished */

/* window.c: what a copy of windows takes from its tensor, as a tile of that type */
void window_read(const Worker *w, const Op *op, const Type *tile, char *out);

/* roles.c: the warp groups of a block */
void roles_progress(Worker *w);                         /* a phase ended */
bool roles_yield(Worker *w, const Op *op);              /* let another role run; false after a fault */
enum { MAX_ROLES = 32 };

#endif
