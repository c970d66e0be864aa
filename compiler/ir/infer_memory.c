/* Type rules of the ops that touch device memory, and of extract, which indexes a tile in the same way.
 *
 * {index} has one letter a dimension: i drops it, p takes the next of {extents}, and the tiles of
 * the g's, all of one shape, stand where the first g stands:
 *
 *     x: tensor<f32[?, ?, 64]>   read %x, %ids, %r, %c {index = "gip", extents = [8]}
 *     ids: i64[4, 2]             =>  f32[4, 2, 8]
 *
 * The w's of a copy, which stand before all others, take one of {extents} together. */
#include "ir/infer.h"

#include <string.h>

/* The shape that {index} and {extents} select with operands first, first+1 …, one a dimension.
 * Gather tiles are allowed only of tensors. */
static bool
selected(Infer *x, const Type *of, bool gathers, int *rank, int64_t *extent)
{
	const char *index = attr_index(x->op);
	const IntList *extents = attr_extents(x->op);
	int next = 0, nextents = extents ? extents->n : 0;
	const Type *ids = NULL;

	if ((int)strlen(index) != of->rank)
		return infer_fail(x, "index is \"%s\"; expected a letter for each dimension of %s", index,
		    infer_text(x, of));
	if (x->op->nin < 1 + of->rank)
		return infer_fail(x, "%d operands; expected at least %d, an index for each dimension of %s",
		    x->op->nin, 1 + of->rank, infer_text(x, of));
	*rank = 0;
	for (int d = 0; d < of->rank; d++) {
		int i = 1 + d;
		if (index[d] == 'i') {
			if (!infer_i64(x, i))
				return false;
		} else if (index[d] == 'w' && d > 0 && index[d - 1] == 'w') {
			if (!infer_i64(x, i))
				return false;
		} else if (index[d] == 'p' || (index[d] == 'w' && d == 0 && x->op->kind == OP_COPY)) {
			if (!infer_i64(x, i))
				return false;
			if (next == nextents)
				return infer_fail(x, "%d extents; expected one for each p of \"%s\"",
				    nextents, index);
			if (*rank == MAX_RANK)
				return infer_fail(x, "the result has more than %d dimensions", MAX_RANK);
			if (extents->at[next] < 0)
				return infer_fail(x, "extent %lld; expected 0 or more",
				    (long long)extents->at[next]);
			extent[(*rank)++] = extents->at[next++];
		} else if (index[d] == 'g' && gathers) {
			if (!infer_int_tile(x, i))
				return false;
			if (ids && !type_same_shape(ids, infer_in(x, i)))
				return infer_expect(x, i, "the shape of the other gather indices, %s",
				    infer_text(x, ids));
			if (ids)
				continue;
			ids = infer_in(x, i);
			if (*rank + ids->rank > MAX_RANK)
				return infer_fail(x, "the result has more than %d dimensions", MAX_RANK);
			for (int k = 0; k < ids->rank; k++)
				extent[(*rank)++] = ids->extent[k];
		} else {
			return infer_fail(x, "index is \"%s\"; expected letters %s", index,
			    gathers ? "i, p or g" : "i or p");
		}
	}
	if (next != nextents)
		return infer_fail(x, "%d extents; expected %d, one for each p of \"%s\"", nextents, next, index);
	return true;
}

RULE(extract)
{
	const Type *t;
	int64_t extent[MAX_RANK];
	int rank, e = 0;

	if (!infer_count(x, 1, 1 + MAX_RANK))
		return false;
	t = infer_in(x, 0);
	if (t->kind != TYPE_TILE)
		return infer_expect(x, 0, "a tile");
	if (!selected(x, t, false, &rank, extent) || !infer_count(x, 1 + t->rank, 1 + t->rank))
		return false;
	for (int d = 0; d < t->rank; d++) {
		int64_t n = attr_index(x->op)[d] == 'p' ? extent[e++] : 1;
		if (n > t->extent[d])
			return infer_fail(x, "%lld elements along dimension %d; %s has %lld", (long long)n, d,
			    infer_text(x, t), (long long)t->extent[d]);
	}
	return infer_out(x, type_with_shape(x->m, t, rank, extent));
}

/* {valid}: extents of the tile before padding, within the tile's. */
static bool
valid_extents(Infer *x, const Type *tile)
{
	const IntList *valid = attr_valid(x->op);

	if (!valid)
		return true;
	if (valid->n != tile->rank)
		return infer_fail(x, "%d valid extents; expected one for each dimension of %s", valid->n,
		    infer_text(x, tile));
	for (int d = 0; d < tile->rank; d++)
		if (valid->at[d] < 0 || valid->at[d] > tile->extent[d])
			return infer_fail(x, "valid extent %lld; expected 0 to %lld", (long long)valid->at[d],
			    (long long)tile->extent[d]);
	return true;
}

/* {merged}: dimensions that run on into one behind them have the index 0. */
static bool
merged_dims(Infer *x, const Type *tensor)
{
	const IntList *merged = attr_merged(x->op);
	int64_t zero;

	if (!merged)
		return true;
	if (merged->n != tensor->rank)
		return infer_fail(x, "%d counts of merged dimensions; expected one for each dimension of %s", merged->n,
		    infer_text(x, tensor));
	for (int d = 0; d < tensor->rank; d++)
		if (merged->at[d] < 0 || merged->at[d] > d)
			return infer_fail(x, "%lld dimensions merged with dimension %d; expected 0 to %d",
			    (long long)merged->at[d], d, d);
	for (int d = 0; d < tensor->rank; d++)
		if (access_merges_away(x->op, d) && (attr_index(x->op)[d] != 'i' || merged->at[d] ||
		    !value_int(x->op->in[1 + d], &zero) || zero != 0))
			return infer_fail(x, "dimension %d is merged with one behind it; expected i and 0", d);
	return true;
}

bool
infer_accessed(Infer *x, const Type **tile)
{
	int64_t extent[MAX_RANK];
	int rank;

	if (x->op->nin == 0 || infer_in(x, 0)->kind != TYPE_TENSOR)
		return x->op->nin ? infer_expect(x, 0, "a tensor parameter")
			      : infer_fail(x, "no operands; expected a tensor and its indices");
	if (!selected(x, infer_in(x, 0), true, &rank, extent) || !merged_dims(x, infer_in(x, 0)))
		return false;
	*tile = type_tile(x->m, infer_in(x, 0)->elem, rank, extent);
	return valid_extents(x, *tile);
}

RULE(read)
{
	const Type *tile = NULL;

	if (!infer_accessed(x, &tile))
		return false;
	int base = 1 + infer_in(x, 0)->rank;
	if (!infer_count(x, base, base + 1))
		return false;
	if (x->op->nin > base && infer_in(x, base) != tile && infer_in(x, base) != type_scalar(x->m, tile->elem))
		return infer_expect(x, base, "a fill of %s or %s", dtype_info[tile->elem].text,
		    infer_text(x, tile));
	return infer_out(x, tile);
}

RULE(write)
{
	const Type *tile = NULL;

	if (!infer_accessed(x, &tile))
		return false;
	int base = 1 + infer_in(x, 0)->rank;
	return infer_count(x, base + 1, base + 1) && infer_type(x, base, tile);
}

/* Which elements an atomic works on. */
static bool
atomic_elements(Infer *x, const Type *t)
{
	const char *fn = attr_fn(x->op);
	bool bits = strcmp(fn, "and") == 0 || strcmp(fn, "or") == 0 || strcmp(fn, "xor") == 0;

	if (dtype_is_packed(t->elem) || t->ptr != PTR_NONE || t->elem == TY_BOOL ||
	    (bits && dtype_is_float(t->elem)))
		return infer_fail(x, "atomic %s on %s; expected %s of 8 bits or more", fn, infer_text(x, t),
		    bits ? "integers" : "numbers");
	return true;
}

static int
atomic_values(const Infer *x)
{
	return strcmp(attr_fn(x->op), "cas") == 0 ? 2 : 1;
}

RULE(atomic)
{
	const Type *tile = NULL;
	int n = atomic_values(x);

	if (!infer_accessed(x, &tile) || !atomic_elements(x, tile))
		return false;
	int base = 1 + infer_in(x, 0)->rank;
	if (!infer_count(x, base + n, base + n))
		return false;
	return ALL_OF(i, n, infer_type(x, base + i, tile)) && infer_out(x, tile);
}

/* Operand 0: a tile of pointers; *elem is the tile that they point to. */
static bool
pointers(Infer *x, bool mut, const Type **elem)
{
	const Type *t = infer_in(x, 0);

	if (t->kind != TYPE_TILE || t->ptr == PTR_NONE)
		return infer_expect(x, 0, "pointers");
	if (mut && t->ptr != PTR_MUT)
		return infer_expect(x, 0, "pointers to store through (*mut %s)", dtype_info[t->elem].text);
	if (dtype_is_packed(t->elem))
		return infer_expect(x, 0, "pointers to elements of 8 bits or more");
	*elem = type_with_elem(x->m, t, t->elem);
	return true;
}

RULE(load)
{
	const Type *t = NULL;

	if (!infer_count(x, 1, 3) || !pointers(x, false, &t))
		return false;
	if (x->op->nin > 1 && !infer_mask(x, 1, t))
		return false;
	if (x->op->nin > 2 && !infer_type(x, 2, t))
		return false;
	return infer_out(x, t);
}

RULE(store)
{
	const Type *t = NULL;

	if (!infer_count(x, 2, 3) || !pointers(x, true, &t))
		return false;
	return infer_type(x, 1, t) && (x->op->nin < 3 || infer_mask(x, 2, t));
}

RULE(atomic_ptr)
{
	const Type *t = NULL;
	bool masked = attr_masked(x->op) != 0;
	int n = 1 + atomic_values(x) + masked;

	if (!infer_count(x, n, n) || !pointers(x, true, &t) || !atomic_elements(x, t))
		return false;
	return ALL_FROM(i, 1, n - masked, infer_type(x, i, t)) && (!masked || infer_mask(x, n - 1, t)) &&
	    infer_out(x, t);
}

RULE(prefetch)
{
	const Type *t = NULL;

	if (!infer_count(x, 1, INT32_MAX))
		return false;
	if (infer_in(x, 0)->kind == TYPE_TENSOR) {
		int base = 1 + infer_in(x, 0)->rank;
		return infer_accessed(x, &t) && infer_count(x, base, base);
	}
	if (op_attr(x->op, ATTR_INDEX) || attr_extents(x->op))
		return infer_fail(x, "index and extents are for tensors; operand 1 is %s",
		    infer_text(x, infer_in(x, 0)));
	return infer_count(x, 1, 2) && pointers(x, false, &t) && (x->op->nin < 2 || infer_mask(x, 1, t));
}
