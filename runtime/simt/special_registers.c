/* Where a thread is: compiled code reads these from the thread itself; they are here for whoever calls a row by its
 * symbol. */
#include "runtime/simt/simt.h"

void
simt_thread(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)
{
	out[0] = (uint64_t)t->thread;
}

void
simt_lane(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)
{
	out[0] = (uint64_t)t->lane;
}

void
simt_block(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)
{
	out[0] = (uint64_t)t->block_index;
}

void
simt_nblocks(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)
{
	out[0] = (uint64_t)t->nblocks;
}

void
simt_cluster_rank(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)
{
	out[0] = (uint64_t)t->cluster_rank;
}
