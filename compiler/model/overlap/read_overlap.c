/* Reads of one tensor that begin near to one another: what the first cache has for them, and what a thread has read for an
 * earlier one, since lowering reads it once.
 *
 *     x[i - 1 +: n]   x[i +: n]   x[i + 1 +: n]         a thread that holds 4 neighbours of each makes 6 reads, not 12 */
#include "model/model.h"

#include <string.h>

/* The value without what is added to it, which is in *by; NULL: a constant. */
static const Value *
root_of(const Value *v, int64_t *by)
{
	const Attr *c;
	*by = 0;
	for (const Op *op = v->def; op; op = v->def) {
		bool adds = (op->kind == OP_ADD || op->kind == OP_SUB) && (c = value_const(op->in[1]));
		if (!adds && op->kind != OP_BROADCAST)
			break;
		*by += !adds ? 0 : op->kind == OP_ADD ? c->i : -c->i;
		v = op->in[0];
	}
	c = value_const(v);
	*by += c ? c->i : 0;
	return c ? NULL : v;
}

/* Do both reads begin so near to each other that most sectors of one are the other's?  `placed`: by data, so that what lies
 * beside a place of one is no place of the other's. */
static bool
is_near(const Op *a, const Op *b, bool placed)
{
	enum { SECTOR = 32, FEW = 4 };
	const char *index = attr_index(a);
	int bytes = element_bytes(a->out[0].type), rank = a->in[0]->type->rank;
	if (a->in[0] != b->in[0] || strcmp(index, attr_index(b)) != 0 || a->out[0].type != b->out[0].type)
		return false;
	for (int i = 0; i < rank; i++) {
		bool apart = index[i] == 'g' ? placed : index[i] == 'i' && i + 1 < rank;
		int64_t x, y, reach = apart ? 1 : index[i] != 'i' ? FEW : SECTOR / bytes;
		if (root_of(a->in[1 + i], &x) != root_of(b->in[1 + i], &y) || x - y >= reach || y - x >= reach)
			return false;
	}
	return true;
}

double
cost_missed(const Op *op, bool placed)
{
	static const double MISSED = 0.25;              /* fitted to stencils on an H200 */
	for (const Op *x = op->kind == OP_READ ? op->prev : NULL; x; x = x->prev)
		if (x->kind == OP_READ && is_near(x, op, placed))
			return MISSED;
	return 1;
}

/* ---- in one thread ---- */

enum { REGISTERS_MOST = 128, READS_MOST = 32 };

/* Where the registers of a thread lie along a dimension of the tile, of what its number does not move: a set of bits. */
static uint64_t
register_bits(const Layout *l, int dim)
{
	uint64_t bits = 0;
	int at = layout_out_at(l, dim);
	for (int i = 0; i < l->in[IN_REGISTER]; i++)
		bits |= l->map.col[i] >> at & ((UINT64_C(1) << l->out[dim]) - 1);
	return bits;
}

/* Reads of the same place but for a few elements, by which they begin apart along each dimension of the tile. */
typedef struct Near {
	int n;
	int64_t by[READS_MOST][MAX_RANK];               /* of earlier reads; [0]: of this one */
} Near;

static bool
has_root(const Op *a, const Op *b, int64_t by[MAX_RANK])
{
	int at[KERNEL_RANK];
	const char *index = attr_index(a);
	if (a->in[0] != b->in[0] || strcmp(index, attr_index(b)) != 0 || a->out[0].type != b->out[0].type ||
	    a->out[0].layout != b->out[0].layout)
		return false;
	access_dims(a, at);
	for (int d = 0; index[d]; d++) {
		int64_t x, y;
		if (root_of(a->in[1 + d], &x) != root_of(b->in[1 + d], &y) || (index[d] == 'i' && x != y))
			return false;
		if (index[d] == 'p')
			by[at[d]] = x - y;
	}
	return true;
}

static Near
reads_near(const Op *op)
{
	Near all = {.n = 1};
	for (const Op *x = op->prev; x && all.n < READS_MOST; x = x->prev)
		all.n += x->kind == OP_READ && has_root(x, op, all.by[all.n]);
	return all;
}

/* Does a thread's access that begins at `at` serve the read that begins `by` later?  Along the dimension in which memory
 * runs, one of `vector` elements serves what lies in it. */
static bool
serves(const Layout *l, const uint64_t bits[MAX_RANK], const int64_t by[MAX_RANK], const int64_t at[MAX_RANK],
    int vector)
{
	int last = l->rank - 1;
	for (int d = 0; d < last; d++) {
		int64_t c = at[d] - by[d];
		if (c < 0 || (uint64_t)c & ~bits[d])
			return false;
	}
	for (int64_t c = at[last] - by[last]; c < at[last] - by[last] + vector; c++)
		if (c >= 0 && !((uint64_t)c & ~bits[last]))
			return true;
	return false;
}

double
cost_fresh(const Op *op, double vector)
{
	const Layout *l = op->kind == OP_READ ? op->out[0].layout : NULL;
	uint64_t bits[MAX_RANK];
	int n = l ? 1 << l->in[IN_REGISTER] : 0, fresh = 0, width = (int)vector;
	if (!l || l->rank == 0 || n > REGISTERS_MOST || strchr(attr_index(op), 'g') || width < 1)
		return 1;
	Near all = reads_near(op);
	if (all.n == 1)
		return 1;
	for (int d = 0; d < l->rank; d++)
		bits[d] = register_bits(l, d);
	for (int r = 0; r < n; r += MIN(width, n)) {
		bool served = false;
		int64_t at[MAX_RANK];
		uint64_t image = f2_apply(&l->map, (uint64_t)r);
		for (int d = 0; d < l->rank; d++)
			at[d] = (int64_t)(image >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1));
		for (int i = 1; i < all.n && !served; i++)
			served = serves(l, bits, all.by[i], at, width);
		fresh += !served;
	}
	return (double)fresh * MIN(width, n) / n;
}
