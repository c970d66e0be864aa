/* Loops that say how their states join (op merge, or their updates: split_derive.c), as an online softmax's, divided
 * between a block's warps (slice_k.c).
 *
 *     %t:3 = for … do (%i, %top: f32[16], %total: f32[16], %acc: f32[16, 128]) { … }
 *     %u:3 = merge %t by (…) { … }
 *  =>
 *     %t:3 = for … do (%i, %top: f32[8, 16], …) { … }                 each warp has a state of its own
 *     %a, %b = split (permute (reshape %t#0)) : f32[4, 16]             the region joins half of them with the other half
 *     …                                                                until one is left
 *
 * A warp has every eighth iteration, no part of neighbours, so a merge has to be one whose states may change places: each
 * value that the region yields must be the same, computed in the same way, with the two states exchanged.  States of warps
 * that had no iteration are not joined, as those of blocks are not. */
#include "ir/derive.h"
#include "pass/share/slice_k.h"
#include "pass/share/split_k.h"

static bool
is_number(const Value *v)
{
	return v->type->rank == 0 && v->type->elem == TY_I64;
}

static const char *
region_reason(const Slice *s, const Block *region)
{
	for (int i = 0; i < region->narg; i++)
		s->varies[region->arg[i].id] = true;
	for (const Op *op = region->first; op != region->last; op = op->next) {
		bool moves = op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE;
		if (!op_has(op, PURE) || op->nregion || op->nout != 1 || (op->nin > 0 && !moves && !op_has(op, ELEM)))
			return "its merge does more than compute element by element";
		if (op->out[0].type->kind != TYPE_TILE || op->out[0].type->rank + 1 > KERNEL_RANK)
			return "tiles of its merge have no dimension to spare";
		bool any = op_uses_slice(op, s->varies);
		s->varies[op->out[0].id] = any;
		if (any && is_number(&op->out[0]))
			return "its merge computes indices";
	}
	return NULL;
}

const char *
slice_merge_reason(const Slice *s)
{
	enum { MORE = 2 };                              /* dimensions on the way: slices, and their halves */
	const Op *merge = s->merge;

	for (int i = 0; i < s->loop->nout; i++) {
		const Value *v = &s->loop->out[i];
		if (v->nuses != 1 || v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE ||
		    dtype_is_packed(v->type->elem))
			return "its states are used otherwise than by its merge";
		if (is_number(v))
			return "its states are indices";
		if (v->type->rank + MORE > KERNEL_RANK)
			return "its states have no dimension to spare";
	}
	if (ANY_OF(i, merge->nin, merge->in[i]->def != s->loop))
		return "its merge takes what the loop does not change";
	if (!region_commutes(merge->region[0]))
		return "its merge depends on the order of its states";
	return region_reason(s, merge->region[0]);
}

/* ---- what the warps have, joined ---- */

/* The first and the second half of the slices. */
static void
halves(Builder *b, Value *v, Value *half[2])
{
	int64_t dims[MAX_RANK];
	int rank = v->type->rank + 1;

	v = build_split_dim(b, v, 0, v->type->extent[0] / 2);
	for (int d = 0; d < rank; d++)
		dims[d] = (d + 1) % rank;
	v = build_permute(b, v, dims);
	Op *split = op_make(b, OP_SPLIT, &v, 1, NULL, 0, NULL, 0);
	half[0] = &split->out[0];
	half[1] = &split->out[1];
}

/* The merge's region for s->n pairs of states at once. */
static void
join_pairs(Slice *s, Builder *b, Value *const *x, Value *const *y, Value **out)
{
	const Block *region = s->merge->region[0];
	Arena *tmp = s->m->cx->tmp;
	Sliced in = {.s = s, .b = *b, .map = NEW_ARRAY(tmp, Value *, s->f->nvalues),
	    .all = NEW_ARRAY(tmp, Value *, s->f->nvalues)};
	int n = s->merge->nout;

	for (int i = 0; i < n; i++) {
		in.all[region->arg[i].id] = x[i];
		in.all[region->arg[n + i].id] = y[i];
	}
	for (const Op *op = region->first; op != region->last; op = op->next)
		slice_any(&in, op);
	for (int i = 0; i < n; i++)
		out[i] = slice_all(&in, region->last->in[i]);
}

/* What the merge comes to, of what all slices have. */
void
slice_merge(Slice *s, Builder *b, Op *made)
{
	Op *merge = s->merge;
	int n = merge->nout;
	Arena *tmp = s->m->cx->tmp;
	Value **first = NEW_ARRAY(tmp, Value *, n), **other = NEW_ARRAY(tmp, Value *, n);
	Value **both = NEW_ARRAY(tmp, Value *, n);
	Sliced all = {.s = s, .b = *b, .index = s->loop->in[0]};
	Value *exists = slice_exists(&all), *half[2];

	for (int i = 0; i < n; i++)
		first[i] = &made->out[merge->in[i]->index];
	while (s->n > 1) {
		s->n /= 2;
		for (int i = 0; i < n; i++) {
			halves(b, first[i], half);
			first[i] = half[0];
			other[i] = half[1];
		}
		halves(b, exists, half);
		exists = half[0];
		join_pairs(s, b, first, other, both);
		for (int i = 0; i < n; i++) {
			Value *both_are = slice_spread(&(Sliced){.s = s, .b = *b}, half[1], both[i]->type);
			first[i] = build3(b, OP_SELECT, both_are, both[i], first[i]);
		}
	}
	for (int i = 0; i < n; i++) {
		Value *v = build1(b, OP_RESHAPE, first[i], merge->out[i].type);
		v->name = merge->out[i].name;
		value_replace(&merge->out[i], v);
	}
	op_erase(merge);
	op_erase(s->loop);
}
