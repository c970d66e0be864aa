/* Where the elements of a tile stand in a tensor, and which of them are inside it.
 *
 * An access is a tensor and, for each dimension of it, a scalar index, a start and an extent, or a tile of indices.  All
 * of a thread's addresses are one 64-bit pointer, tensor + sum over d of (start_d + thread part of coordinate_d) *
 * stride_d, and constants that its registers add; where a stride is not known when compiling, the registers of each
 * distinct coordinate share a pointer of their own.  Arithmetic is modulo 2^64, so that addresses of elements outside,
 * which are never used, may be anything.
 *
 * Bounds are compared in 32 bits.  For a start and an extent the coordinates inside are lo <= c < hi with
 *
 *     hi = min(max(dim - start, 0), extent)     lo = min(max(-start, 0), extent)
 *
 * computed once for all threads; lo only where the start may be negative.
 *
 * Where accesses start a few elements apart, as a stencil's, addresses and bounds are those of the root that the starts
 * have in common: x[i - 1 +: n] and x[i +: n] have one pointer, and where a thread's register of the one is a register of
 * the other, its address and mask are the same, and LLVM loads it once. */
#include "lower/lower.h"

#include "pass/layout/axis.h"

#include <string.h>

CacheHint
lower_cache(const Op *op, CacheHint otherwise)
{
	const char *text = attr_cache(op);
	if (strstr(text, "cv") || strstr(text, "wt"))
		return CACHE_VOLATILE;
	if (strstr(text, "cs") || strstr(text, "evict_first"))
		return CACHE_STREAM;
	if (strstr(text, "evict_last"))
		return CACHE_KEEP;
	return otherwise;
}

enum { NEAR = 1024, FAR = 1 << 30 };                    /* between bounds of a root: further than any shift */

static void
find_roots(const Lower *l, LowerAccess *a)
{
	bool shares = l->has_halos && a->layout && !dtype_is_packed(a->tile->elem) &&
	    (a->op->kind == OP_READ || a->op->kind == OP_WRITE);
	for (int d = 0; d < a->nd; d++) {
		a->dim[d].root = a->dim[d].index;
		if (shares && a->dim[d].letter == 'p')
			a->dim[d].root = access_root(a->dim[d].index, &a->dim[d].shift);
	}
}

/* Which dimension of the tile each p and g moves along. */
static void
find_dims(LowerAccess *a)
{
	int at[KERNEL_RANK];
	access_dims(a->op, at);
	for (int d = 0; d < a->nd; d++) {
		a->dim[d].letter = attr_index(a->op)[d];
		a->dim[d].index = a->op->in[1 + d];
		a->dim[d].at = at[d];
	}
}

static bool
proven_inside(const LowerAccess *a, int d)
{
	const IntList *inside = attr_inside(a->op);
	return inside && d < inside->n && inside->at[d];
}

/* A hint for text, from the tensor's name. */
static void
name_after(Lower *l, const LowerAccess *a, Reg r, const char *format)
{
	thread_name(l->b, r, arena_printf(l->mem, format, l->f->param[a->tensor->index].name));
}

/* v between 0 and `most`, as REG_I32; an extent is never below 0. */
static Reg
clamp(Lower *l, Reg v, Reg most, bool is_extent)
{
	if (!is_extent)
		v = lower_op2(l, THREAD_SMAX, v, lower_i64(l, 0));
	return lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_SMIN, v, most));
}

/* Bounds of the root, which reach further than any shift. */
static void
limit_root(Lower *l, LowerAccess *a, int d)
{
	Reg root = lower_regs(l, a->dim[d].root)[0], least = lower_i64(l, -NEAR), most = lower_i64(l, FAR);
	Reg room = lower_op2(l, THREAD_SUB, lower_extent(l, a->op, d), root);
	room = lower_op2(l, THREAD_SMIN, lower_op2(l, THREAD_SMAX, room, least), most);
	a->dim[d].hi = lower_as(l, CAST_TRUNC, REG_I32, room);
	a->dim[d].is_rooted = true;
	a->dim[d].holds_root = access_is_inside_from(a->op, d, a->dim[d].root);
	name_after(l, a, a->dim[d].hi, "%s_left");
	if (axis_of(a->dim[d].index)->lo >= 0)
		return;
	Reg before = lower_op2(l, THREAD_SUB, lower_i64(l, 0), root);
	before = lower_op2(l, THREAD_SMIN, lower_op2(l, THREAD_SMAX, before, least), most);
	a->dim[d].lo = lower_as(l, CAST_TRUNC, REG_I32, before);
}

static void
limit_part(Lower *l, LowerAccess *a, int d)
{
	int at = a->dim[d].at;
	const IntList *valid = attr_valid(a->op);
	int64_t extent = INT64_C(1) << a->layout->out[at];
	int64_t real = valid && at < valid->n ? valid->at[at] : a->tile->extent[at];
	int64_t start, size = access_merged(a->op, d) ? -1 : a->tensor->type->extent[d];
	const Value *v = a->dim[d].index;
	bool inside = proven_inside(a, d);
	if (value_constant(v, &start) && size >= 0 && start >= 0 && start <= size) {
		real = MIN(real, size - start);         /* known altogether */
		inside = true;
	}
	if (inside) {
		if (real < extent)
			a->dim[d].hi = lower_i32(l, real);
		return;
	}
	bool is_whole = real == extent || (attr_valid(a->op) && access_goes_on(a->op, d));
	if (l->has_halos && a->layout && is_whole && (a->op->kind == OP_READ || a->op->kind == OP_WRITE)) {
		a->dim[d].valid = real;
		limit_root(l, a, d);
		return;
	}
	Reg at_start = lower_regs(l, v)[0];
	bool from_zero = value_constant(v, &start) && start == 0;
	Reg room = from_zero ? lower_extent(l, a->op, d)
			     : lower_op2(l, THREAD_SUB, lower_extent(l, a->op, d), at_start);
	a->dim[d].hi = clamp(l, room, lower_i64(l, real), from_zero);
	name_after(l, a, a->dim[d].hi, "%s_left");
	if (axis_of(v)->lo < 0)
		a->dim[d].lo = clamp(l, lower_op2(l, THREAD_SUB, lower_i64(l, 0), at_start), lower_i64(l, real),
		    false);
}

static void
limit_scalar(Lower *l, LowerAccess *a, int d)
{
	if (proven_inside(a, d))
		return;
	Reg in = lower_op2(l, THREAD_ULT, lower_regs(l, a->dim[d].index)[0], lower_extent(l, a->op, d));
	a->uniform = lower_both(l, a->uniform, in);
}

/* Indices below 64 bits are compared as 32 bits, negative ones as great. */
static bool
is_short_index(const Value *v)
{
	DType t = v->type->elem;
	return dtype_info[t].bits < 32 || t == TY_I32;
}

static void
limit_gather(Lower *l, LowerAccess *a, int d)
{
	if (proven_inside(a, d))
		return;
	Reg size = lower_extent(l, a->op, d);
	if (is_short_index(a->dim[d].index))
		size = lower_as(l, CAST_TRUNC, REG_I32,
		    lower_op2(l, THREAD_SMIN, size, lower_i64(l, INT64_C(1) << 31)));
	a->dim[d].hi = size;
}

/* start * stride in units, 0 where it is none. */
static Reg
scaled(Lower *l, const LowerAccess *a, int d, Reg r)
{
	int64_t s = a->dim[d].known_stride;
	if (s == 1)
		return r;
	return lower_op2(l, THREAD_MUL, r, s >= 0 ? lower_i64(l, s) : a->dim[d].stride);
}

static Reg
sum_of(Lower *l, Reg a, Reg b)
{
	return a && b ? lower_op2(l, THREAD_ADD, a, b) : a ? a : b;
}

static void
find_strides(Lower *l, LowerAccess *a)
{
	for (int d = 0; d < a->nd; d++) {
		int64_t known = lower_constant_stride(l, a->tensor, d);
		a->dim[d].known_stride = known < 0 ? -1 : known * a->unit;
		if (known >= 0)
			continue;
		Reg s = lower_stride(l, a->tensor, d);
		a->dim[d].stride = a->unit == 1 ? s : lower_op2(l, THREAD_MUL, s, lower_i64(l, a->unit));
	}
}

/* What all threads move by: the scalar indices and starts, and what trips of a loop add to tiles of indices. */
static void
find_base(Lower *l, LowerAccess *a)
{
	Reg sum = 0;
	int64_t v;
	for (int d = 0; d < a->nd; d++) {
		const Value *index = a->dim[d].root;
		if (a->dim[d].letter == 'g' && a->dim[d].still)
			sum = sum_of(l, sum, scaled(l, a, d, a->dim[d].moved));
		if (a->dim[d].letter == 'g' || (a->window && d == a->nd - 1) || (value_constant(index, &v) && v == 0))
			continue;
		sum = sum_of(l, sum, scaled(l, a, d, lower_regs(l, index)[0]));
	}
	Reg tensor = lower_regs(l, a->tensor)[0];
	if (dtype_is_packed(a->tile->elem))
		a->base = sum ? sum : lower_i64(l, 0);
	else
		a->base = sum ? thread_pointer(l->b, tensor, sum) : tensor;
}

static void
find_gather(Lower *l, LowerAccess *a, int d)
{
	const Value *v = a->dim[d].index;
	const Reg *given = lower_regs(l, v);
	a->dim[d].gather = given;
	if (a->layout && v->type->rank > 0) {
		Layout want = access_gather_layout(a->layout, a->dim[d].at, v->type->rank);
		a->dim[d].gather = lower_operand(l, a->op, 1 + d, &want);
	} else if (a->layout) {
		Reg *all = MAP_OF(l->mem, Reg, r, 1 << a->layout->in[IN_REGISTER], given[0]);
		a->dim[d].gather = all;
	}
}

/* Is the innermost loop around it one that no loop is in? */
static bool
in_inner_loop(const Op *op)
{
	while (op && op->kind != OP_FOR && op->kind != OP_WHILE)
		op = op->home->parent;
	const Block *body = op ? op->region[op->kind == OP_WHILE] : NULL;
	return !FIND_NEXT(inside, body ? body->first : NULL, op_after(inside, body), op_is_loop(inside)) && body;
}

/* x[i + r - pad]: each trip adds the same to all indices.  That is part of the base, once for all registers; what is
 * computed from the rest goes out of the loop.  Nothing is gained where indices of several registers move apart or there
 * is but one, and where the trips hold a loop the registers cost more than the sums (sm_80 spilled). */
static void
part_gather(Lower *l, LowerAccess *a, int d)
{
	const Value *v = a->dim[d].index;
	const Reg *gather = a->dim[d].gather;
	int n = a->layout && dtype_info[v->type->elem].bits == 64 ? 1 << a->layout->in[IN_REGISTER] : 0, rows = 0;
	Reg *still = NEW_ARRAY(l->mem, Reg, n + 1), moved = 0;
	rows += COUNT_OF(r, n, gather[r] != gather[0]);
	if (rows == 0 || !in_inner_loop(a->op))
		return;
	for (int r = 0; r < n; r++) {
		if (!thread_trip_parts(l->b, gather[r], &still[r], &moved) || (r > 0 && moved != a->dim[d].moved))
			return;
		a->dim[d].moved = moved;
	}
	a->dim[d].still = still;
}

static void
find_pointers(Lower *l, LowerAccess *a)
{
	const Op *op = a->op;
	int mask = op->kind == OP_ATOMIC_PTR ? (attr_masked(op) ? op->nin - 1 : 0) : op->kind == OP_LOAD ? 1 : 2;
	a->pointer = lower_operand(l, op, 0, a->layout);
	a->mask = mask > 0 && mask < op->nin ? lower_operand(l, op, mask, a->layout) : NULL;
}

void
lower_access_make(Lower *l, LowerAccess *a, const Op *op, const Type *tile, const Layout *layout)
{
	bool packed = dtype_is_packed(tile->elem);
	bool counts = op_is_counted_copy(op);
	*a = (LowerAccess){.op = op, .tensor = op->in[0], .tile = tile, .layout = layout, .nd = op->in[0]->type->rank,
	    .is_kept = counts};
	a->unit = packed ? 1 : dtype_tile_size(tile->elem);
	a->vector = layout ? (int)MAX(attr_vector(op), 1) : 1;
	a->vector = MIN(a->vector, layout ? 1 << layout->in[IN_REGISTER] : 1);
	while (a->vector > 1 && (a->vector * dtype_info[tile->elem].bits + 7) / 8 > l->t->vector_bytes)
		a->vector /= 2;
	if (op->in[0]->type->ptr != PTR_NONE) {
		find_pointers(l, a);
		return;
	}
	int along;
	a->window = layout && a->vector == 1 ? access_window(op, &along) : 0;
	if (a->window && (layout_contiguous(layout, along) < 2 || lower_repeats(layout) & (WINDOW - 1)))
		a->window = 0;
	int held = layout && a->vector == 1 ? access_records_held(op, layout, l->t) : 0;
	while (held > 0 && lower_repeats(layout) & ((UINT64_C(1) << (held + layout->out[layout->rank - 1])) - 1))
		held--;
	a->records = held > 0 ? 1 << held : 0;
	find_dims(a);
	find_roots(l, a);
	find_strides(l, a);
	for (int d = 0; d < a->nd; d++) {
		if (a->dim[d].letter == 'p' && a->records && d == a->nd - 1)
			continue;                       /* whole */
		if (a->dim[d].letter == 'p')
			limit_part(l, a, d);
		else if (a->dim[d].letter == 'i')
			limit_scalar(l, a, d);
		else
			limit_gather(l, a, d);
		if (a->dim[d].letter == 'g')
			find_gather(l, a, d);
		if (a->dim[d].letter == 'g')
			part_gather(l, a, d);
	}
	int halo = l->has_halos && layout ? access_halo(op, layout, l->t) : 0;
	if (1 << halo > a->vector && a->dim[a->nd - 1].is_rooted && !(lower_repeats(layout) & ((UINT64_C(1) << halo) - 1)))
		a->halo = 1 << halo;
	find_base(l, a);
	for (int d = 0; d < a->nd && layout; d++)
		if (a->dim[d].letter == 'p')
			a->dim[d].map = lower_coordinate_map(l, layout, a->dim[d].at);
}

/* ---- one register ---- */

static Reg
coordinate_of(Lower *l, const LowerAccess *a, int d, int r, int64_t *add)
{
	return lower_map_at(l, &a->dim[d].map, lower_register_coordinate(a->layout, r, a->dim[d].at), add);
}

/* An index as REG_I64. */
static Reg
index_i64(Lower *l, const Value *v, Reg r)
{
	if (dtype_info[v->type->elem].bits == 64)
		return r;
	return lower_as(l, dtype_is_signed(v->type->elem) ? CAST_SEXT : CAST_ZEXT, REG_I64, r);
}

/* The thread's part of register r's offset in units from the access's base, REG_I64; 0: none.  The parts that fit are
 * added in 32 bits. */
static Reg
offset_of(Lower *l, const LowerAccess *a, int r)
{
	Reg narrow = 0, wide = 0;
	int64_t most = 0;
	for (int d = 0; d < a->nd; d++) {
		int64_t add = 0, s = a->dim[d].known_stride;
		if (a->dim[d].letter == 'g') {
			Reg at = a->dim[d].still  ? a->dim[d].still[r]
			    : a->dim[d].held ? a->dim[d].held[r]
					     : index_i64(l, a->dim[d].index, a->dim[d].gather[r]);
			wide = sum_of(l, wide, scaled(l, a, d, at));
			continue;
		}
		if (a->dim[d].letter == 'i' || !a->layout || a->tile->extent[a->dim[d].at] == 1)
			continue;
		Reg c = coordinate_of(l, a, d, r, &add);
		int64_t reach = s >= 0 && s < INT32_MAX ? s * a->tile->extent[a->dim[d].at] : INT64_MAX / 2;
		if (s >= 0 && most + reach < INT32_MAX) {
			most += reach;
			Reg part = s == 1 ? c : lower_op2(l, THREAD_MUL, c, lower_i32(l, s));
			narrow = sum_of(l, narrow, part);
			continue;
		}
		wide = sum_of(l, wide, scaled(l, a, d, lower_as(l, CAST_ZEXT, REG_I64, c)));
	}
	if (narrow)
		narrow = lower_as(l, CAST_ZEXT, REG_I64, narrow);
	Reg sum = sum_of(l, wide, narrow);
	if (wide && a->is_kept)
		thread_prim(l->b, PRIM_KEEP, &sum, 1, NULL, 0, &sum, 1);
	return sum;
}

/* What register r adds to it where strides are not known, the same for all threads; 0: nothing. */
static Reg
row_of(Lower *l, const LowerAccess *a, int r)
{
	Reg sum = 0;
	for (int d = 0; d < a->nd; d++) {
		int64_t add = 0;
		if (a->dim[d].letter != 'p' || !a->layout || a->dim[d].known_stride >= 0)
			continue;
		coordinate_of(l, a, d, r, &add);
		add += a->dim[d].shift;
		if (!add)
			continue;
		sum = sum_of(l, sum, lower_op2(l, THREAD_MUL, a->dim[d].stride, lower_i64(l, add)));
	}
	return sum;
}

/* The constant parts of register r's coordinates, in units. */
static int64_t
constant_of(Lower *l, const LowerAccess *a, int r)
{
	int64_t sum = 0;
	for (int d = 0; d < a->nd; d++) {
		int64_t add = 0;
		if (a->dim[d].letter != 'p' || !a->layout || a->dim[d].known_stride < 0)
			continue;
		coordinate_of(l, a, d, r, &add);
		sum += (add + a->dim[d].shift) * a->dim[d].known_stride;
	}
	return sum;
}

static Reg
mask_part(Lower *l, const LowerAccess *a, int d, int r)
{
	int64_t add;
	Reg hi = a->dim[d].hi, lo = a->dim[d].lo;
	if (!hi)
		return 0;
	Reg c = coordinate_of(l, a, d, r, &add), own = 0;
	if (a->dim[d].is_rooted) {
		bool holds = a->dim[d].holds_root;
		if (add >= a->dim[d].valid)
			return thread_int_const(l->b, REG_PRED, 0);
		if (add + (int64_t)a->dim[d].map.moves >= a->dim[d].valid)      /* other lanes' may be padding */
			own = lower_op2(l, THREAD_SLT, c, lower_i32(l, a->dim[d].valid - add));
		add += a->dim[d].shift;
		lo = MAX(axis_of(a->dim[d].root)->lo, -FAR) + add < 0 && (!holds || add < 0) ? lo : 0;
		if (!lo && !own && holds && add + (int64_t)a->dim[d].map.moves < a->dim[d].valid)
			return 0;                       /* where the root's own tile is */
	}
	bool apart = add && lower_has_own_masks(l, a, d);
	Reg end = add && !apart ? lower_op2(l, THREAD_SUB, hi, lower_i32(l, add)) : hi;
	Reg mask = lower_op2(l, THREAD_SLT, apart ? lower_op2(l, THREAD_ADD, c, lower_i32(l, add)) : c, end);
	if (lo) {
		Reg from = add ? lower_op2(l, THREAD_SUB, lo, lower_i32(l, add)) : lo;
		mask = lower_op2(l, THREAD_AND, mask, lower_op2(l, THREAD_SLE, from, c));
	}
	mask = own ? lower_op2(l, THREAD_AND, mask, own) : mask;
	name_after(l, a, mask, "in_%s");
	return mask;
}

Reg
lower_index_mask(Lower *l, const LowerAccess *a, int d, int r)
{
	const Value *v = a->dim[d].index;
	Reg hi = a->dim[d].hi, at = a->dim[d].gather[r];
	if (!hi)
		return 0;
	Reg index = at;
	if (is_short_index(v) && dtype_info[v->type->elem].bits < 32)
		index = lower_as(l, dtype_is_signed(v->type->elem) ? CAST_SEXT : CAST_ZEXT, REG_I32, at);
	else if (!is_short_index(v))
		index = index_i64(l, v, at);
	return lower_op2(l, THREAD_ULT, index, hi);
}

Reg
lower_access_mask(Lower *l, const LowerAccess *a, int r)
{
	Reg mask = a->uniform;
	for (int d = 0; d < a->nd; d++) {
		if (a->dim[d].letter == 'p' && a->layout)
			mask = lower_both(l, mask, mask_part(l, a, d, r));
		else if (a->dim[d].letter == 'g' && !a->is_kept)
			mask = lower_both(l, mask, lower_index_mask(l, a, d, r));
	}
	return a->is_kept ? lower_both(l, mask, lower_gathered_mask(l, a, r)) : mask;
}

void
lower_access_at(Lower *l, const LowerAccess *a, int r, ThreadAccess *out)
{
	out->space = SPACE_GLOBAL;
	if (a->pointer) {
		out->base = a->pointer[r];
		out->mask = a->mask ? a->mask[r] : 0;
		return;
	}
	Reg offset = offset_of(l, a, r), row;
	Reg at = offset ? thread_pointer(l->b, a->base, offset) : a->base;
	row = row_of(l, a, r);
	out->base = row ? thread_pointer(l->b, at, row) : at;
	out->constant = constant_of(l, a, r);
	out->mask = lower_access_mask(l, a, r);
}

Reg
lower_access_element(Lower *l, const LowerAccess *a, int r)
{
	int64_t constant = constant_of(l, a, r);
	Reg found = sum_of(l, a->base, offset_of(l, a, r));
	found = sum_of(l, found, row_of(l, a, r));
	return constant ? lower_op2(l, THREAD_ADD, found, lower_i64(l, constant)) : found;
}
