/* --break-nan, for the cpu device and for the emulator: what a print with {watch} (pass/shape/nan_check.c) looks for in
 * the tiles that an op was given and in the one that it made.
 *
 * A NaN is reported where no operand has one, an infinity where no operand has an infinity or a NaN; so a mask's -inf in
 * the source is not reported, and the first op that makes one of something else is.  An elementwise op is compared with
 * the operands' elements of the same index, others with all elements.  Elements outside {bounds} are not reported,
 * and a NaN there is none that was given (an infinity is: it is most often a fill). */
#include "ir/interp/interp.h"

#include <inttypes.h>
#include <math.h>

bool
nan_has_floats(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE && dtype_is_float(v->type->elem) &&
	    !dtype_is_packed(v->type->elem);
}

/* Its results are elements of its operands. */
static bool
only_moves(const Op *op)
{
	OpFamily f = op_family(op);

	return f == FAMILY_SHAPE || f == FAMILY_CONVERT || f == FAMILY_MOVE || f == FAMILY_GATHER || op->kind == OP_SORT;
}

/* A folding function runs over rows of its own. */
bool
nan_is_watched(const Op *op)
{
	if (op->nout == 0 || op->nregion > 0 || only_moves(op))
		return false;
	for (const Block *b = op->home; b->parent; b = b->parent->home)
		if (op_has_fn(b->parent))
			return false;
	return ALL_OF(i, op->nout, nan_has_floats(&op->out[i]));
}

/* ---- which elements count ---- */

typedef struct Looking {
	const Op *print;
	const void *const *data;
	const IntList *bounds;
	int given;
} Looking;

static int64_t
number_at(const Looking *l, int operand)
{
	return dtype_load_i64(l->print->in[operand]->type->elem, l->data[operand], 0);
}

/* Coordinate of element i along a dimension. */
static int64_t
coordinate(const Type *t, int64_t i, int64_t dim)
{
	for (int d = t->rank - 1; d > dim; d--)
		i /= t->extent[d];
	return i % t->extent[dim];
}

/* The bounds of a tile in one dimension are contiguous: the element must be inside one of them. */
static bool
is_inside(const Looking *l, int tile, int64_t i)
{
	const Type t = tile_shown(l->print, tile);
	bool inside = true;
	int operand = l->given + 1;
	for (int k = 0; l->bounds && k < l->bounds->n;) {
		int64_t of = l->bounds->at[k], dim = l->bounds->at[k + 1];
		bool any = false;
		for (; k < l->bounds->n && l->bounds->at[k] == of && l->bounds->at[k + 1] == dim; k += 2) {
			if (dim < 0) {
				any |= of == tile && ((const uint8_t *)l->data[operand])[i];
				operand++;
				continue;
			}
			int64_t at = of == tile ? number_at(l, operand) + coordinate(&t, i, dim) : 0;
			any |= at >= 0 && at < number_at(l, operand + 1);
			operand += 2;
		}
		inside &= any || of != tile;
	}
	return inside;
}

static double
element(const Looking *l, int tile, int64_t i)
{
	return dtype_load_f64(l->print->in[tile]->type->elem, l->data[tile], i);
}

static void
note_operand(const Looking *l, int tile, int64_t i, bool *nan, bool *inf)
{
	double x = element(l, tile, i);
	*inf |= isinf(x);
	if (isnan(x) && !*nan)
		*nan = is_inside(l, tile, i);
}

int64_t
nan_look(const Op *print, const void *const *data, double *found)
{
	const Looking l = {print, data, attr_bounds(print), (int)attr_given(print)};
	const Type t = tile_shown(print, l.given);
	OpKind kind = OP_CONST;
	bool each = op_named(attr_watch(print), &kind) && (op_info[kind].traits & ELEM);
	bool looked = false, nan = false, inf = false;
	for (int64_t i = 0, n = type_count(&t); i < n; i++) {
		double x = element(&l, l.given, i);
		if (isfinite(x))
			continue;
		if (each)
			nan = inf = false;
		for (int g = 0; g < l.given && (each || !looked); g++) {
			const Type given = tile_shown(print, g);
			for (int64_t j = each ? i : 0, m = each ? i + 1 : type_count(&given); j < m; j++)
				note_operand(&l, g, j, &nan, &inf);
		}
		looked = true;
		*found = x;
		if ((isnan(x) ? !nan : !inf && !nan) && is_inside(&l, l.given, i))
			return i;
	}
	return -1;
}

/* ---- the report ---- */

void
nan_format(const Op *print, const int64_t program[MAX_AXES], int64_t at, double x, Text *out)
{
	const Type t = tile_shown(print, (int)attr_given(print));
	const char *name = attr_text(print);
	int64_t rest = at, step = type_count(&t);
	program_format(print->home->func->naxis, program, out);
	text_printf(out, ": %s makes %s", attr_watch(print), isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
	for (int d = 0; d < t.rank; d++) {
		step /= t.extent[d];
		text_printf(out, "%s%" PRId64, d ? ", " : " at [", rest / step);
		rest %= step;
	}
	text_put(out, t.rank > 0 ? "] of " : ", ");
	if (*name)
		text_printf(out, "'%s', ", name);
	type_print(&t, out);
}
