/* Where a thread is: compiled code reads these from the thread itself; they are here for callers by the row's symbol. */
#include "runtime/simt/prims.h"

#define REGISTER(symbol, field)                                                                    \
	PRIMITIVE(symbol)                                                                          \
	{                                                                                          \
		out[0] = (uint64_t)t->field;                                                       \
	}
REGISTER(simt_thread, thread)
REGISTER(simt_lane, lane)
REGISTER(simt_block, block_index)
REGISTER(simt_nblocks, nblocks)
REGISTER(simt_cluster_rank, cluster_rank)
