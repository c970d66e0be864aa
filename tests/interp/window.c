/* Copies of windows, as tensor maps of images (im2col) bring them.
 *
 *     copy %x, %n, %h, %w, %c, %slot, %bar, %i, %r, %lo0, %rows, %s, %lo1, %columns {index = "wwwp", steps = [2, 2], …}
 *
 * Row k of the tile is element (n, h + r, w + s, c …) of the k-th place from (%n, %h, %w) on: places are `steps`
 * apart, from the lower corner (%lo0, %lo1) on, so many rows and columns an image.  Elements outside are 0. */
#include "tests/interp/gpu.h"

#include <string.h>

typedef struct Places {
	int n;                                          /* dimensions behind the first */
	int64_t offset[MAX_RANK], lower[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
	int64_t first;                                  /* the number of the first place */
} Places;

static Places
places_of(const Worker *w, const Op *op)
{
	Places p = {.n = copy_windows(op), .first = value_i64(w, op->in[1])};
	const Value *const *in = (const Value *const *)op->in + access_data(op) + 3;
	for (int i = 0; i < p.n; i++) {
		p.offset[i] = value_i64(w, in[3 * i]);
		p.lower[i] = value_i64(w, in[3 * i + 1]);
		p.count[i] = MAX(value_i64(w, in[3 * i + 2]), 1);
		p.step[i] = attr_steps(op)->at[i];
		p.first = p.first * p.count[i] + (value_i64(w, op->in[2 + i]) - p.lower[i]) / p.step[i];
	}
	return p;
}

/* The offset in the tensor of a place's channel 0; false: outside. */
static bool
place_at(const Places *p, const PlanArg *t, int64_t place, int64_t *at)
{
	bool inside = true;
	*at = 0;
	for (int i = p->n - 1; i >= 0; i--) {
		int64_t index = place % p->count[i] * p->step[i] + p->lower[i] + p->offset[i];
		place /= p->count[i];
		inside = inside && index >= 0 && index < t->dim[1 + i];
		*at += inside ? index * t->stride[1 + i] : 0;
	}
	inside = inside && place >= 0 && place < t->dim[0];
	*at += inside ? place * t->stride[0] : 0;
	return inside;
}

void
window_read(const Worker *w, const Op *op, const Type *tile, char *out)
{
	const PlanArg *t = &w->args[param_index(op->in[0])];
	Places p = places_of(w, op);
	int64_t first = value_i64(w, op->in[2 + p.n]), at, lo, hi, size = dtype_tile_size(tile->elem);
	access_clip(first, tile->extent[1], t->dim[1 + p.n], &lo, &hi);
	memset(out, 0, (size_t)(type_count(tile) * size));
	for (int64_t row = 0; row < tile->extent[0]; row++, out += tile->extent[1] * size)
		if (place_at(&p, t, p.first + row, &at) && hi > lo)
			memcpy(out + lo * size, (char *)t->data + (at + first + lo) * size, (size_t)((hi - lo) * size));
}
