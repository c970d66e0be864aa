/* Type rules of shared memory: buffers, tokens, mbarriers, and dots that run by themselves. */
#include "ir/infer.h"

static bool
is_slot(const Type *t)
{
	return t->kind == TYPE_BUFFER && t->slots == 1;
}

static const Type *
tile_of(Infer *x, const Type *slot)
{
	return type_tile(x->m, slot->elem, slot->rank, slot->extent);
}

static bool
tokens(Infer *x, int first)
{
	for (int i = first; i < x->op->nin; i++)
		if (infer_in(x, i)->kind != TYPE_TOKEN)
			return infer_expect(x, i, "a token");
	return true;
}

static bool
need_slot(Infer *x, int i)
{
	return is_slot(infer_in(x, i)) || infer_expect(x, i, "a buffer of one slot");
}

static bool
wanted(Infer *x, TypeKind kind, const char *what)
{
	if (x->nwant == 1 && x->want[0]->kind == kind)
		return infer_out(x, x->want[0]);
	return x->nwant == 1 ? infer_fail(x, "the result type is %s; expected %s", infer_text(x, x->want[0]), what)
			     : infer_fail(x, "%d result types given; expected 1", x->nwant);
}

RULE(alloc)
{
	return wanted(x, TYPE_BUFFER, "a buffer");
}

RULE(mbarrier)
{
	if (attr_count(x->op) < 1)
		return infer_fail(x, "%lld arrivals; expected 1 or more", (long long)attr_count(x->op));
	return wanted(x, TYPE_MBARRIER, "mbarrier<N>");
}

/* Another tile, which a slot of the buffer holds in place of its own. */
static bool
fits_slot(const Op *slot, const Type *t)
{
	const Op *owner = buffer_owner(slot->in[0]);

	return owner && type_count(t) * dtype_info[t->elem].bits <= 8 * buffer_slot_bytes(owner);
}

RULE(slot)
{
	const Type *t = infer_in(x, 0);

	const Type *other = x->nwant == 1 ? x->want[0] : NULL;

	if (t->kind != TYPE_BUFFER)
		return infer_expect(x, 0, "a buffer");
	if (other && other->kind == TYPE_BUFFER && other->slots == 1 && fits_slot(x->op, other))
		return infer_i64(x, 1) && infer_out(x, other);
	return infer_i64(x, 1) && infer_out(x, type_buffer(x->m, t->elem, 1, t->rank, t->extent));
}

/* A tile whose elements stand in rows of bytes anywhere in the slot. */
static bool
get_part(Infer *x)
{
	const IntList *steps = attr_steps(x->op);
	const Type *slot = infer_in(x, 0), *t = x->nwant == 1 ? x->want[0] : NULL;
	const Op *owner = buffer_owner(x->op->in[0]);

	if (!t || t->kind != TYPE_TILE || t->elem != slot->elem || dtype_info[t->elem].bits != 8 || steps->n != 1 + t->rank)
		return infer_fail(x, "a part of a slot; expected a tile of its bytes, and a step for each dimension");
	int64_t last = steps->at[0], far;
	bool counts = last >= 0;
	for (int d = 0; d < t->rank && counts; d++)
		counts = steps->at[1 + d] >= 0 &&
		    !__builtin_mul_overflow(steps->at[1 + d], t->extent[d] - 1, &far) &&
		    !__builtin_add_overflow(last, far, &last);
	if (!counts || (owner && last >= buffer_slot_bytes(owner)))
		return infer_fail(x, "a part of a slot that is not within it");
	return infer_out(x, t);
}

RULE(get)
{
	if (attr_steps(x->op))
		return infer_count(x, 1, INT32_MAX) && need_slot(x, 0) && tokens(x, 1) && get_part(x);
	return infer_count(x, 1, INT32_MAX) && need_slot(x, 0) && tokens(x, 1) &&
	    infer_out(x, tile_of(x, infer_in(x, 0)));
}

RULE(put)
{
	return need_slot(x, 0) && infer_type(x, 1, tile_of(x, infer_in(x, 0)));
}

RULE(tally)
{
	const Type *slot = infer_in(x, 0);
	if (!infer_count(x, 2, INT32_MAX) || !need_slot(x, 0) || !infer_count(x, 2 + slot->rank, 2 + slot->rank))
		return false;
	const Type *v = infer_in(x, 1 + slot->rank);
	for (int i = 1; i <= slot->rank; i++)
		if (!infer_int_tile(x, i) || !infer_type(x, i, type_with_elem(x->m, v, infer_in(x, i)->elem)))
			return false;
	return infer_type(x, 1 + slot->rank, type_with_elem(x->m, v, slot->elem));
}

static bool
need_one(Infer *x, int i)
{
	return (is_slot(infer_in(x, i)) && type_count(infer_in(x, i)) == 1) ||
	    infer_expect(x, i, "a buffer of one slot of one element");
}

RULE(get_one)
{
	return need_one(x, 0) && infer_out(x, type_scalar(x->m, infer_in(x, 0)->elem));
}

RULE(put_one)
{
	return need_one(x, 0) && infer_type(x, 1, type_scalar(x->m, infer_in(x, 0)->elem));
}

RULE(from_first)
{
	const Type *t = infer_in(x, 0);

	if (t->kind != TYPE_TILE || t->rank || t->ptr != PTR_NONE)
		return infer_expect(x, 0, "a scalar");
	return infer_out(x, t);
}

RULE(fetch)
{
	return infer_i64(x, 0) && infer_out(x, type_scalar(x->m, TY_I64));
}

/* Tensor, indices, slot, and for copies that an mbarrier counts that one with its index. */
RULE(copy)
{
	const Type *tile;
	bool counts = op_is_counted_copy(x->op);

	if (!infer_accessed(x, &tile))
		return false;
	int windows = copy_windows(x->op), at = 1 + infer_in(x, 0)->rank;
	int n = at + (counts ? 3 : 1) + 3 * windows;
	if (windows && (!op_is_bulk_copy(x->op) || !attr_steps(x->op) || attr_steps(x->op)->n != windows))
		return infer_fail(x, "a copy of windows; expected kind = \"bulk\" and %d steps", windows);
	if (!infer_count(x, n, n) || !need_slot(x, at))
		return false;
	if (tile_of(x, infer_in(x, at)) != tile)
		return infer_expect(x, at, "a buffer of one slot of %s", infer_text(x, tile));
	if (counts && infer_in(x, at + 1)->kind != TYPE_MBARRIER)
		return infer_expect(x, at + 1, "an mbarrier");
	return ALL_OF(i, 3 * windows, infer_i64(x, at + 3 + i)) &&
	    (!counts || infer_i64(x, at + 2)) && infer_out(x, type_token(x->m));
}

/* Tensor, indices, slot. */
RULE(send)
{
	const Type *tile;

	if (!infer_accessed(x, &tile))
		return false;
	int at = 1 + infer_in(x, 0)->rank;
	if (!infer_count(x, at + 1, at + 1) || !need_slot(x, at))
		return false;
	return tile_of(x, infer_in(x, at)) == tile ||
	    infer_expect(x, at, "a buffer of one slot of %s", infer_text(x, tile));
}

RULE(token)
{
	if (attr_left(x->op) < 0)
		return infer_fail(x, "%lld groups left; expected 0 or more", (long long)attr_left(x->op));
	return tokens(x, 0) && infer_out(x, type_token(x->m));
}

static bool
mbarrier_at(Infer *x)
{
	if (infer_in(x, 0)->kind != TYPE_MBARRIER)
		return infer_expect(x, 0, "an mbarrier");
	return infer_i64(x, 1);
}

RULE(arrive)
{
	return mbarrier_at(x);
}

RULE(await)
{
	return mbarrier_at(x) && infer_i64(x, 2);
}

/* The matrix that operand i of a dot_start is: a tile, or one in a slot, which may hold its transpose. */
static const Type *
matrix_of(Infer *x, int i)
{
	const Type *t = infer_in(x, i);
	const IntList *flipped = attr_transposed(x->op);

	if (!is_slot(t))
		return t;
	bool is_flipped = flipped && i < flipped->n && flipped->at[i] && t->rank == 2;
	return type_tile(x->m, t->elem, t->rank, is_flipped ? (int64_t[]){t->extent[1], t->extent[0]} : t->extent);
}

/* Operands as of a dot of rank 2, each a tile or a slot that holds it. */
RULE(dot_start)
{
	const Type *t[2], *acc = infer_in(x, 2);

	if (attr_transposed(x->op) && attr_transposed(x->op)->n != 2)
		return infer_fail(x, "{transposed} of %d operands; expected 2", attr_transposed(x->op)->n);
	for (int i = 0; i < 2; i++) {
		t[i] = matrix_of(x, i);
		if (t[i]->kind != TYPE_TILE || t[i]->ptr != PTR_NONE || t[i]->rank != 2 || dtype_is_packed(t[i]->elem))
			return infer_expect(x, i, "a matrix of numbers, as a tile or in a buffer of one slot");
	}
	if (acc->kind != TYPE_TILE || acc->ptr != PTR_NONE || acc->rank != 2)
		return infer_expect(x, 2, "a matrix of numbers");
	if (t[0]->extent[1] != t[1]->extent[0] || t[0]->extent[0] != acc->extent[0] || t[1]->extent[1] != acc->extent[1])
		return infer_fail(x, "shapes %s, %s and %s do not fit; expected [M, K], [K, N] and [M, N]",
		    infer_text(x, t[0]), infer_text(x, t[1]), infer_text(x, acc));
	if (dtype_is_float(t[0]->elem) != dtype_is_float(acc->elem) ||
	    dtype_is_float(t[1]->elem) != dtype_is_float(acc->elem))
		return infer_fail(x, "elements are floats in some operands and integers in others");
	return infer_out(x, acc);
}

RULE(dot_wait)
{
	if (!infer_count(x, 0, INT32_MAX))
		return false;
	if (attr_left(x->op) < 0)
		return infer_fail(x, "%lld dots left; expected 0 or more", (long long)attr_left(x->op));
	return ALL_OF(i, x->op->nin, infer_tile(x, i) && infer_out(x, infer_in(x, i)));
}

/* ---- blocks that share a loop ---- */

/* Numbers of any width and bools: what a loop carries, but for pointers. */
static bool
is_state(const Type *t)
{
	return t->kind == TYPE_TILE && t->ptr == PTR_NONE && !dtype_is_packed(t->elem);
}

RULE(merge)
{
	if (x->op->nin == 0)
		return infer_fail(x, "no operand; expected the values that a loop carries");
	for (int i = 0; i < x->op->nin; i++) {
		if (!is_state(infer_in(x, i)))
			return infer_expect(x, i, "a tile of numbers or bools");
		if (!infer_out(x, infer_in(x, i)))
			return false;
	}
	return true;
}

RULE(split_put)
{
	if (!is_state(infer_in(x, 0)))
		return infer_expect(x, 0, "a tile of numbers or bools");
	return infer_out(x, type_token(x->m));
}

static bool
infer_puts(Infer *x, int n)
{
	for (int i = 0; i < n; i++)
		if (infer_in(x, i)->kind != TYPE_TOKEN || !x->op->in[i]->def || x->op->in[i]->def->kind != OP_SPLIT_PUT)
			return infer_expect(x, i, "the token of a split_put");
	return true;
}

RULE(split_meet)
{
	return infer_puts(x, x->op->nin) && infer_out(x, type_scalar(x->m, TY_BOOL));
}

RULE(split_get)
{
	return infer_puts(x, 1) && infer_i64(x, 1) && infer_out(x, x->op->in[0]->def->in[0]->type);
}

RULE(split_done)
{
	return infer_puts(x, x->op->nin);
}

/* Tiles that are summed: a thread's words of memory are its registers. */
static bool
is_sum(const Type *t)
{
	return is_state(t) && t->rank > 0 && t->elem != TY_BOOL && dtype_info[t->elem].bits == 32;
}

RULE(split_sum)
{
	if (!infer_puts(x, 1))
		return false;
	const Op *put = x->op->in[0]->def;
	if (!is_sum(put->in[0]->type) || !attr_cluster(put))
		return infer_expect(x, 0, "a tile of numbers of 32 bits, put for a cluster");
	return true;
}

RULE(stream_give)
{
	for (int i = 0; i < x->op->nin; i++)
		if (!is_sum(infer_in(x, i)))
			return infer_expect(x, i, "a tile of numbers of 32 bits");
	return x->op->nin > 0 || infer_fail(x, "no operand; expected the tiles that are given");
}

RULE(stream_join)
{
	if (x->op->nin <= STREAM_JOIN_TILES)
		return infer_fail(x, "%d operands; expected a block's number, a count, a step and tiles", x->op->nin);
	if (!ALL_OF(i, STREAM_JOIN_TILES, infer_i64(x, i)))
		return false;
	for (int i = STREAM_JOIN_TILES; i < x->op->nin; i++) {
		if (!is_sum(infer_in(x, i)))
			return infer_expect(x, i, "a tile of numbers of 32 bits");
		if (!infer_out(x, infer_in(x, i)))
			return false;
	}
	return true;
}
