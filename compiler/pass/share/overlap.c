/* Where a thread's elements of reads lie that have much in common.
 *
 *     read %x, %i, %j      read %x, %i + 1, %j      read %x, %i + 2, %j         of [32, 64]: they reach 2 along dimension 0
 *
 * A thread that holds n neighbours along a dimension needs n + reach rows of all of these reads, where threads that hold
 * rows far apart read n * (reach + 1); what two reads have in common lowering reads once (lower/memory/access.c). */
#include "model/model.h"
#include "pass/layout/axis.h"

#include <string.h>

/* By how much read x begins after read y along each dimension of their tile; false: not a few elements, or of other
 * tensors. */
static bool
are_near(const Op *x, const Op *y, int64_t by[MAX_RANK])
{
	const char *index = attr_index(x);
	int at[KERNEL_RANK];
	if (x->kind != OP_READ || x->in[0] != y->in[0] || x->out[0].type != y->out[0].type ||
	    strcmp(index, attr_index(y)) != 0 || strchr(index, 'g') || attr_valid(x) || attr_valid(y))
		return false;
	access_dims(x, at);
	for (int d = 0; index[d]; d++) {
		int64_t p = 0, q = 0;
		const Value *a = x->in[1 + d], *b = y->in[1 + d];
		if (index[d] == 'p') {
			a = access_root(a, &p);
			b = access_root(b, &q);
			by[at[d]] = p - q;
		}
		if (a != b)
			return false;
	}
	return true;
}

static bool
has_shape(const Op *op, const Type *tile)
{
	const Type *t = op->kind == OP_READ ? op->out[0].type : NULL;
	return t && op->in[0]->type->kind == TYPE_TENSOR && !dtype_is_packed(t->elem) && t->rank == tile->rank &&
	    memcmp(t->extent, tile->extent, sizeof *t->extent * (size_t)t->rank) == 0;
}

bool
overlap_reach(const Op *op, int64_t reach[MAX_RANK])
{
	enum { FAR = 8 };
	const Type *tile = anchor_type(op);
	const Block *body = op->home->func->body;
	bool any = false;
	memset(reach, 0, sizeof *reach * MAX_RANK);
	for (const Op *x = body->first; x; x = op_after(x, body)) {
		if (!has_shape(x, tile))
			continue;
		for (const Op *y = x->next; y; y = y->next) {
			int64_t by[MAX_RANK] = {0};
			bool near = has_shape(y, tile) && are_near(y, x, by);
			for (int d = 0; near && d < tile->rank; d++) {
				int64_t far = by[d] < 0 ? -by[d] : by[d];
				reach[d] = far <= FAR ? MAX(reach[d], far) : reach[d];
				any |= reach[d] > 0;
			}
		}
	}
	return any;
}

/* Spreads `bits` over the dimensions in order, as far as each has room; the last one takes what is left. */
static void
spread(const int order[LAYOUT_RANK], int rank, int bits, int room[LAYOUT_RANK], int out[LAYOUT_RANK])
{
	for (int i = 0; i < rank; i++) {
		int d = order[i], take = i + 1 == rank ? bits : MIN(room[d], bits);
		out[d] = take;
		room[d] -= MIN(take, room[d]);
		bits -= take;
	}
}

Layout
overlap_rows(const Type *tile, const int order[LAYOUT_RANK], const int shape[LAYOUT_RANK], const int64_t reach[MAX_RANK],
    int k, int lanes, int warps)
{
	enum { SECTOR_BITS = 256 };
	Blocked b = {.rank = tile->rank};
	int room[LAYOUT_RANK] = {0}, free = -k - lanes - warps;
	for (int d = 0; d < tile->rank; d++) {
		free += shape[d];
		room[d] = shape[d];
		b.order[d] = order[d];
	}
	b.per_thread[order[0]] = k;
	room[order[0]] -= k;
	for (; free > 0; free--) {
		int64_t run = dtype_info[tile->elem].bits;
		double most = 1;
		int best = -1;
		for (int i = 0; i < tile->rank; run *= tile->extent[order[i++]]) {
			int d = order[i];
			double n = 1 << b.per_thread[d], far = (double)reach[d], gain = 2 * (n + far) / (2 * n + far);
			if (i > 0 && run >= SECTOR_BITS && room[d] > 0 && gain > most) {
				most = gain;
				best = d;
			}
		}
		if (best < 0)
			break;
		b.per_thread[best]++;
		room[best]--;
	}
	spread(order, tile->rank, lanes, room, b.lanes);
	spread(order, tile->rank, warps, room, b.warps);
	return layout_blocked(&b, shape);
}

/* Is one element of each record taken, or are both halves? */
static bool
is_taken_apart(const Value *records)
{
	int last = records->type->rank - 1;
	for (const Op *x = records->def->next; x; x = x->next) {
		if (x->nin > 0 && x->in[0] == records && x->kind == OP_SPLIT)
			return true;
		if (x->nin > 0 && x->in[0] == records && x->kind == OP_EXTRACT)
			return attr_index(x)[last] == 'i';
	}
	return false;
}

int
overlap_records(const Op *op)
{
	enum { RECORD_MOST = 16 };
	const Type *t = anchor_type(op);
	for (const Op *x = op->kind == OP_READ && t->rank > 0 ? op->next : NULL; x; x = x->next) {
		const Type *to = x->kind == OP_RESHAPE && x->in[0] == &op->out[0] ? x->out[0].type : NULL;
		int64_t n = to && to->rank == t->rank + 1 ? to->extent[t->rank] : 0;
		bool splits = n > 1 && n <= RECORD_MOST && to->extent[t->rank - 1] * n == t->extent[t->rank - 1];
		if (splits && is_power_of_two(n))
			return is_taken_apart(&x->out[0]) ? log2_floor(n) : 0;
	}
	return 0;
}
