/* Sides of products' tiles that only cut a grid: 64, 128 or 256 beside the header's, by the estimate of products
 * (choose.c). */
#include "compile/choose/tile/choose_tile.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "pass/layout/dot.h"

#include <string.h>

enum { FEW = 2 };                                       /* of the sides, those for groups of few rows */

/* Rows or columns that one of the size is: of cdiv(N, 8 * BW) eight, as words of eight nibbles have. */
static int64_t
each_of(const Pair *x)
{
	return VALUE_OF(a, MAX_AXES, x->count[a], (int64_t)MIN(x->by[a], SIDE_MOST), 1);
}

/* What a product sums over in a trip of its loop. */
static int64_t
depth_of(const Op *dot)
{
	return dot->in[0]->type->extent[dot->in[0]->type->rank - 1];
}

/* Is the step what all products of some loop sum over? */
static bool
steps_along_depth(const Func *f, const Pair *x)
{
	for (const Op *op = f->body->first; op && x->is_step; op = op_after(op, f->body)) {
		const Block *body = op->kind == OP_DOT && depth_of(op) == x->size ? op->home : NULL;
		if (body && body != f->body && !ANY_OP_HERE(in, body, in->kind == OP_DOT && depth_of(in) != x->size))
			return true;
	}
	return false;
}

/* Rows or columns of some product that one of the size is, or of what a step of all products' loop sums over: each_of, or
 * as many rows as heads share; 0: it is none of these. */
static int64_t
times_in_product(const Func *f, const Pair *x)
{
	enum { HEADS_MOST = 16 };
	int64_t times = 0, each = each_of(x), size = x->size * each;
	bool is_depth = steps_along_depth(f, x);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *t = op->kind == OP_DOT ? op->out[0].type : NULL;
		if (t && (t->extent[t->rank - 1] == size || t->extent[t->rank - 2] == size || is_depth))
			return each;
		bool has_parts = t && !x->is_step && t->extent[t->rank - 2] % x->size == 0;
		int64_t rows = has_parts ? t->extent[t->rank - 2] / x->size : 0;
		times = rows > 1 && rows <= HEADS_MOST ? rows : times;
	}
	return times;
}

/* Groups may have few rows each, and few rows may weigh few keys a trip: sides of 16 and 32 then, too.  Of chains with
 * several ends steps may be short, at last: the results of all products fit. */
static TuneName
sides_of(const Pair *x, const Func *f, int64_t times, Arena *mem)
{
	static const int64_t all[] = {16, 32, 64, 128, SIDE_MOST, 32};
	bool is_merged = x->is_step && choose_merges_few(f), are_several = x->is_step && dots_part(f) > 1;
	int64_t each = each_of(x), longest = choose_is_nest(f) ? SIDE_MOST : STEP_MOST;
	int first = x->by_number || is_merged ? 0 : FEW - (each > 1), n = LEN(all) - first - !are_several;
	const int64_t *sides = all + first;
	TuneName name = {.name = x->name, .value = NEW_ARRAY(mem, Const, n + 2)};
	name.value[name.nvalue++] = (Const){.kind = CONST_INT, .i = x->size};
	if (x->most > SIDE_MOST && each == 1)
		name.value[name.nvalue++] = (Const){.kind = CONST_INT, .i = x->most};
	for (int i = 0; i < n; i++)
		if (sides[i] % times == 0 && sides[i] / times != x->size && sides[i] / times % x->period == 0 &&
		    (!x->is_step || sides[i] <= longest))
			name.value[name.nvalue++] = (Const){.kind = CONST_INT, .i = sides[i] / times};
	return name;
}

/* Is it part of what a product behind it multiplies, as nibbles that are joined? */
static bool
precedes_product(const Op *op)
{
	while (op && op->kind != OP_DOT)
		op = op->next;
	return op != NULL;
}

/* Do neighbours of the results come apart?  Those that lie in one thread do in registers, in one layout of the tile; the
 * estimate does not know what another costs (a rotation of pairs: 219 us, 243 in tiles that were chosen).  What is only put
 * side by side, as the two parts of a complex product, each thread has. */
static bool
parts_neighbours(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_SPLIT && !precedes_product(op));
}

/* Products of 8-bit floats: attention in such took 478 us with 128 keys a trip, and 594 with the 64 that the estimate takes
 * for better. */
static bool
adds_apart(const Func *f)
{
	return dots_are_chained(f, f->body) && ANY_OP(op, f->body, op->kind == OP_DOT && wgmma_adds_apart(op));
}

/* Not where the header gives a word of the schedule, which was laid out for its tile. */
static void
add_sides(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const Func *f, Arena *mem,
    TuneName **all, int *n)
{
	Sizes s;
	if (ANY_OF(i, k->item->ctparams.n, schedule_named(k->item->ctparams.at[i].name) >= 0) ||
	    parts_neighbours(f) || choose_writes_by_number(f))
		return;
	tile_find_sizes(k, b, t, how, SIZE_CUTS | (adds_apart(f) ? 0 : SIZE_STEPS), mem, &s);
	TuneName *more = NEW_ARRAY(mem, TuneName, *n + s.n + 1);
	memcpy(more, *all, sizeof *more * (size_t)*n);
	*all = more;
	for (int i = 0; i < s.n; i++) {
		int64_t times = times_in_product(f, &s.at[i]);
		if (times > 0)
			more[(*n)++] = sides_of(&s.at[i], f, times, mem);
	}
}

/* Up to 128 rows in one tile, beside the header's, by which the rest of the search knows the product: in two, weights are
 * decoded twice.  An H200, two tiles of 64 and one of as many as there are: 96 x 9216 x 2304 of int4 25.2 us and 16.9,
 * 88 x 3072 x 8192 of f4e2m1 with scales of 16 40.5 and 23.4. */
static void
keep_all_rows(const Kernel *k, const Bound *b, TuneName *name)
{
	enum { ONE = 64, MOST = 128 };
	int64_t rows = choose_divided(k, b, name->name);
	int kept = 0;
	for (int v = 0; v < name->nvalue && rows > ONE && rows <= MOST; v++)
		if (v == 0 || (name->value[v].kind == CONST_INT && name->value[v].i >= rows))
			name->value[kept++] = name->value[v];
	name->nvalue = kept ? kept : name->nvalue;
}

void
choose_add_sides(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const Func *f, Arena *mem,
    TuneName **all, int *n)
{
	for (int i = 0; i < *n; i++)
		(*all)[i].is_value = (*all)[i].nvalue == 1 || !choose_only_places(k, b, t, how, (*all)[i].name);
	add_sides(k, b, t, how, f, mem, all, n);
	for (int i = 0; i < *n && choose_decodes(f) && !choose_pads_depth(f); i++)
		keep_all_rows(k, b, &(*all)[i]);
}
