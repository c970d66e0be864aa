/* A cluster's blocks, which see each other's shared memory.
 *
 * An address in the cluster is a word: the offset within a block in the low 24 bits, above them the block's rank and one
 * more, or 0 for one's own block, whose addresses thus are addresses in the cluster too.  An address of one's own block
 * that becomes a number has the rank above its low 24 bits (llvm_simt.c), as on a GPU: a descriptor must leave it out. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { OFFSET_BITS = 24 };

static SimtThread *
at_rank(SimtThread *t, uint32_t rank, const char *what)
{
	SimtThread *peer = rank == (uint32_t)t->cluster_rank ? t : rank < 16 ? simt_cluster_peer(t, (int)rank) : NULL;
	if (!peer)
		simt_fail(t, "%s: the cluster has no block of rank %u", what, rank);
	return peer;
}

SimtThread *
simt_rank_alive(SimtThread *t, uint32_t rank, const char *what)
{
	SimtThread *peer = at_rank(t, rank, what);
	if (peer != t && simt_block_ended(peer))
		simt_fail(t, "%s: the block of rank %u has ended, and with it its shared memory", what, rank);
	return peer;
}

static SimtThread *
cluster_at(SimtThread *t, uint64_t word, uint32_t *at, const char *what)
{
	uint32_t block = (uint32_t)word >> OFFSET_BITS;
	*at = (uint32_t)word & ((1u << OFFSET_BITS) - 1);
	return block ? simt_rank_alive(t, block - 1, what) : t;
}

PRIMITIVE(simt_cluster_address)
{
	uint32_t at = (uint32_t)in[0] & ((1u << OFFSET_BITS) - 1), rank = (uint32_t)in[1];
	at_rank(t, rank, "cluster_address");
	out[0] = at | (rank + 1) << OFFSET_BITS;
}

static void
load_words(SimtThread *t, uint64_t from, uint32_t n, const char *what, uint64_t *out)
{
	uint32_t at, word[4];
	SimtThread *of = cluster_at(t, from, &at, what);
	memcpy(word, simt_shared_of(t, of, at, 4 * n, SIMT_READ), 4 * n);
	for (uint32_t i = 0; i < n; i++)
		out[i] = word[i];
}

PRIMITIVE(simt_cluster_load)
{
	load_words(t, in[0], 1, "cluster_load", out);
}

PRIMITIVE(simt_cluster_load_4)
{
	load_words(t, in[0], 4, "cluster_load_4", out);
}

PRIMITIVE(simt_cluster_store_4)
{
	uint32_t at, word[4];
	SimtThread *of = cluster_at(t, in[0], &at, "cluster_store_4");
	for (int i = 0; i < 4; i++)
		word[i] = (uint32_t)in[1 + i];
	memcpy(simt_shared_of(t, of, at, sizeof word, SIMT_WRITE), word, sizeof word);
}

PRIMITIVE(simt_cluster_signal)
{
	uint32_t at;
	SimtThread *of = cluster_at(t, in[0], &at, "cluster_signal");
	simt_mbarrier_arrive(t, simt_mbarrier_of(t, of, at, "cluster_signal"), 0);
}
