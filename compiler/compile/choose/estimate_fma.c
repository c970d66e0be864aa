/* Products by multiplications, which no matrix instruction takes (pass dot), as f32 that is exact: what one uses of its
 * block, before layouts.
 *
 * A thread has 2^n elements of the result, rows times columns of them, and reads both from shared memory for four k at a
 * time.  Operands that the loop reads are in its slots, others in scratch. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate_ops.h"
#include "pass/layout/dot.h"

#include <math.h>

/* Multiplications a cycle and multiprocessor: of f32, of others.  CUDA C++ Programming Guide, Arithmetic Instructions. */
static const double RATE = 128, RATE_OTHERS = 64;
/* Beside loads, which take their share: f32 of 4096^3 takes 3084 us on an H200 in tiles of 64 x 128 by four warps, 3188 in
 * 64 x 64; 2397 by the rate alone. */
static const double ISSUED = 1.17, LOADS_SHARE = 0.18;
static const double LOAD_CYCLES = 2;                            /* of a warp's load of 16 bytes, which lanes share */
static const double STEP_WAIT = 8;                              /* of a scheduler's lone warp, for each k */
enum { ROW_LANES = 4, COLUMN_LANES = 8, STEP = 4, SCHEDULERS = 4 };

bool
estimate_is_fma(const Op *dot, const Target *t)
{
	return !dot_mma(dot, t);
}

static double
padded(int64_t n)
{
	return (double)(INT64_C(1) << log2_ceil(n));
}

/* Bytes of an operand that is in no slot. */
static double
scratch_bytes(const Op *dot, int i)
{
	bool flipped;
	const Type *t = dot->in[i]->type;
	const Value *root = t->rank == 2 ? dot_operand_root(dot->in[i], &flipped) : dot->in[i];
	double bytes = dtype_tile_size(t->elem);
	for (int d = 0; d < t->rank; d++)
		bytes *= padded(t->extent[d]);
	return root->def && root->def->kind == OP_READ && root->def->home == dot->home ? 0 : bytes;
}

void
estimate_fma(Estimate *e, const Op *dot, Use *u)
{
	const Type *c = dot->out[0].type, *a = dot->in[0]->type;
	double rows = padded(c->extent[c->rank - 2]), columns = padded(c->extent[c->rank - 1]), batches = 1;
	double depth = (double)a->extent[a->rank - 1], threads = e->warps * e->t->lanes;
	for (int d = 0; d < c->rank - 2; d++)
		batches *= padded(c->extent[d]);
	double warps = MAX(1, e->warps / batches);      /* of one batch */
	double along_m = MIN(warps, MAX(1, sqrt(warps * rows / columns))), along_n = warps / along_m;
	double thread_rows = MAX(1, rows / along_m / ROW_LANES), thread_columns = MAX(1, columns / along_n / COLUMN_LANES);
	double loads = (thread_rows + thread_columns) / 4 * depth * MAX(e->warps, batches);
	double rate = c->elem == TY_F32 ? RATE : RATE_OTHERS;
	e->fma_dots++;
	double loading = loads * LOAD_CYCLES * dtype_tile_size(c->elem) / 4;
	u->products += ISSUED * MAX(batches * rows * columns, threads) * depth / rate + LOADS_SHARE * loading;
	u->shared += loading;
	e->registers += MAX(batches * rows * columns / threads, 1) + STEP * (thread_rows + thread_columns);
	e->trip_wait += STEP_WAIT * depth * MAX(0, 2 - (double)e->warps / SCHEDULERS);
	e->scratch = MAX(e->scratch, scratch_bytes(dot, 0) + scratch_bytes(dot, 1));
}
