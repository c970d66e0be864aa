/* Tiles of 4-bit elements in shared memory, where two neighbours share a byte.
 *
 * What moves whole bytes sees the tile as bytes, half as many along one dimension: the lowest register bit (of a slot, the
 * lowest bit of the offset) numbers the neighbours of a byte, and it goes.
 *
 *     registers [0, 1] [0, 2] [0, 4], lanes [0, 8] [1, 0] of [2, 16]        =>    [0, 1] [0, 2], [0, 4] [1, 0] of [2, 8]
 *
 * A thread that wants single elements, as the fragments of matrix instructions have them, loads the aligned words around
 * them.  Several words are one access where the thread wants an element of each, at the same place in all of them. */
#include "layout/layout.h"

enum { WORD = 3, WIDEST = 5 };                          /* log2 of elements: 4 and 16 bytes */

bool
layout_bytes(const Layout *l, Layout *out)
{
	int dim = -1;
	*out = *l;
	for (int d = 0; d < l->rank && l->in[IN_REGISTER]; d++)
		if (l->out[d] && l->map.col[0] == UINT64_C(1) << layout_out_at(l, d))
			dim = d;
	if (dim < 0)
		return false;
	int at = layout_out_at(l, dim);
	for (int i = 1; i < l->map.nin; i++) {
		uint64_t c = l->map.col[i];
		if (c >> at & 1)
			return false;
		out->map.col[i - 1] = (c & ((UINT64_C(1) << at) - 1)) | c >> (at + 1) << at;
	}
	out->map.nin--;
	out->map.nout--;
	out->in[IN_REGISTER]--;
	out->out[dim]--;
	return true;
}

/* Does a register's bit, and no thread's, move by that bit of the offset? */
static bool
is_of_registers(const F2 *to, int registers, int bit)
{
	bool moves = false;
	for (int i = 0; i < to->nin; i++) {
		if (i >= registers && to->col[i] >> bit & 1)
			return false;
		moves |= i < registers && to->col[i] >> bit & 1;
	}
	return moves;
}

bool
layout_chunks(const Layout *l, const Layout *shared, LayoutChunks *c)
{
	F2 inverse;
	if (!layout_bytes(shared, &c->shared) || !f2_invert(&shared->map, &inverse) || inverse.nout < WORD)
		return false;
	c->to = f2_compose(&inverse, &l->map);
	c->log = WORD;
	while (c->log < WIDEST && c->log < inverse.nout && is_of_registers(&c->to, l->in[IN_REGISTER], c->log))
		c->log++;
	c->chunks = c->shared;
	for (int d = 0; d < IN_DIMS; d++)
		c->chunks.in[d] = l->in[d];
	c->chunks.map.nin = l->map.nin;
	for (int i = 0; i < l->map.nin; i++)
		c->chunks.map.col[i] = f2_apply(&c->shared.map, c->to.col[i] >> c->log << (c->log - 1));
	return true;
}
