/* Convolutions' gathers: reads that a tensor map of windows (im2col) serves.
 *
 *     %n = div %pixel, %rows * %columns
 *     %i = rem (div %pixel, %columns), %rows
 *     %j = rem %pixel, %columns
 *     read %x, %n, %i * 2 + %r - %pad, %j * 2 + %s - %pad, %c {index = "gggp", extents = [64], reach = …}
 *
 * Such a map walks a tensor from a pixel on: so many along the row, at its end to the next row, at the image's end to the
 * next image.  Rows and images end where a bounding box does, which is the launch's: `lower` and the number of places
 * (rows, columns).  What loops add, r and s, is an offset of the instruction, 0 to 255 in images of two dimensions, 0 to
 * 31 in ones of three; pass flatten notes how great it may be ({reach}), and that the indices are digits of one that
 * counts up.  What loops take off, as in x[n, i + pad - r, …], is counted from its greatest on: the lower corner is
 * pad - (R - 1), the offset R - 1 - r.
 *
 * Elements outside of the tensor are 0, as those of the gather are.  Source: PTX ISA 9.0, 5.5.4. */
#include "model/digits/digits.h"

enum { STEP_MOST = 8 };

/* ---- sums of a launch's arguments ---- */

static bool
sum_term(LaunchSum *s, int64_t factor, int param, int dim)
{
	int i = VALUE_OF(k, s->n, s->term[k].param == param && s->term[k].dim == dim, k, s->n);
	if (i == LAUNCH_TERMS)
		return false;
	if (i == s->n) {
		s->n++;
		s->term[i].factor = 0;
	}
	s->term[i].param = param;
	s->term[i].dim = dim;
	s->term[i].factor += factor;
	return true;
}

static bool
sum_extent(LaunchSum *s, int64_t factor, const Value *tensor, int d)
{
	int symbol = tensor->block->func->param[tensor->index].dim[d];
	if (tensor->type->extent[d] >= 0)
		s->number += factor * tensor->type->extent[d];
	else
		return symbol >= 0 ? sum_term(s, factor, symbol, -1) : sum_term(s, factor, tensor->index, d);
	return true;
}

/* `last`: a program's number is that of the last one along its axis, where that is the greatest. */
static bool
sum_add(LaunchSum *s, int64_t factor, const Value *v, bool last)
{
	v = digit_unwrap(v);
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n)) {
		s->number += factor * n;
		return true;
	}
	if (!op)
		return !v->block->parent && v->type->kind == TYPE_TILE && v->type->rank == 0 &&
		    dtype_is_int(v->type->elem) && sum_term(s, factor, v->index, -1);
	if (op->kind == OP_DIM)
		return !op->in[0]->def && sum_extent(s, factor, op->in[0], (int)attr_axis(op));
	if (v->type->elem != TY_I64 || v->type->rank)
		return false;
	if (op->kind == OP_PROGRAM_ID && last && factor > 0) {
		s->number -= factor;
		return sum_term(s, factor, -1 - (int)attr_axis(op), -1);
	}
	if (op->kind == OP_ADD || op->kind == OP_SUB)
		return sum_add(s, factor, op->in[0], last) &&
		    sum_add(s, op->kind == OP_SUB ? -factor : factor, op->in[1], last);
	for (int i = 0; op->kind == OP_MUL && i < 2; i++)
		if (value_int(digit_unwrap(op->in[i]), &n))
			return sum_add(s, factor * n, op->in[1 - i], last);
	return false;
}

bool
launch_sum_of(const Value *v, LaunchSum *out)
{
	*out = (LaunchSum){0};
	return sum_add(out, 1, v, false);
}

bool
launch_sum_most(const Value *v, LaunchSum *out)
{
	*out = (LaunchSum){0};
	return sum_add(out, 1, v, true);
}

int64_t
made_extent(const MadeTensor *made, int d, int64_t end, const int64_t grid[MAX_AXES])
{
	int64_t n = made->tile[d];
	for (int a = 0; a < MAX_AXES && d == made->along; a++)
		if (made->axes >> a & 1 && __builtin_mul_overflow(n, MAX(grid[a], 1), &n))
			return INT64_MAX;
	if (d == made->along)
		return n;
	int64_t trips = end / made->divisor > made->begin
	    ? (end / made->divisor - made->begin + made->step - 1) / made->step : 0;
	return __builtin_mul_overflow(n, MAX(trips, 1), &n) ? INT64_MAX : n;
}

bool
launch_sum_equal(const LaunchSum *a, const LaunchSum *b)
{
	return a->number == b->number && a->n == b->n &&
	       ALL_OF(i, a->n,
		   a->term[i].factor == b->term[i].factor && a->term[i].param == b->term[i].param &&
		    a->term[i].dim == b->term[i].dim);
}

/* ---- windows ---- */

static bool
add_scalar(WindowSum *s, const Value *v, int64_t factor)
{
	if (s->n == WINDOW_TERMS)
		return false;
	s->v[s->n] = v;
	s->factor[s->n++] = factor;
	return true;
}

static bool take_apart(WindowDim *d, const Value *v, int64_t factor);

static bool
take_leaf(WindowDim *d, const Value *v, int64_t factor)
{
	LaunchSum sum;
	if (v->type->rank == 0)
		return add_scalar(launch_sum_of(v, &sum) ? &d->lower : &d->offset, v, factor);
	d->digit = digit_of(v);
	d->v = v;
	bool is_first = d->step == 0 && d->digit.linear != v;
	d->step = factor;
	return is_first;
}

/* v's terms, `factor` times, become the dimension's. */
static bool
take_apart(WindowDim *d, const Value *v, int64_t factor)
{
	v = digit_root(v);
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n)) {
		d->lower.number += factor * n;
		return true;
	}
	if (op && op->kind == OP_BROADCAST)
		return take_apart(d, op->in[0], factor);
	if (!op || digit_of(v).linear != v)
		return take_leaf(d, v, factor);
	if (op->kind == OP_ADD || op->kind == OP_SUB)
		return take_apart(d, op->in[0], factor) &&
		    take_apart(d, op->in[1], op->kind == OP_SUB ? -factor : factor);
	for (int i = 0; op->kind == OP_MUL && i < 2; i++)
		if (value_int(digit_unwrap(op->in[i]), &n) && n > 0 && n < INT32_MAX)
			return take_apart(d, op->in[1 - i], factor * n);
	return take_leaf(d, v, factor);
}

bool
window_take(const Value *index, WindowDim *out)
{
	*out = (WindowDim){0};
	return take_apart(out, index, 1);
}

static const char *
dim_reason(const WindowDim *d)
{
	if (d->step < 1 || d->step > STEP_MOST)
		return "its indices are not digits, 1 to 8 times, and scalars (a gather)";
	if (!d->digit.is_rest || d->digit.mod.n > 1 || (d->digit.mod.n == 1 && d->digit.mod.number != 1))
		return "an image's rows or columns are not counted by one scalar (a gather)";
	return NULL;
}

/* Each digit's divisor is the product of what the digits behind count. */
static bool
are_digits(const Window *w, const Digit *first)
{
	Product behind = {.number = 1};
	for (int i = w->n - 1; i >= 0; i--) {
		const Digit *d = &w->dim[i].digit;
		if (!product_equal(&d->by, &behind) || !value_alike(d->linear, first->linear))
			return false;
		product_multiply(&behind, &d->mod);
	}
	return !first->is_rest && product_equal(&first->by, &behind);
}

static bool
has_form(const Op *read)
{
	const Value *tensor = read->in[0];
	const char *index = attr_index(read);
	int rank = tensor->type->rank;
	return !ANY_OF(d, rank,
		   index[d] != (d < rank - 1 ? 'g' : 'p') ||
		    (d < rank - 1 && read->in[1 + d]->type->rank != 1)) &&
	    rank >= 3 && rank <= 2 + WINDOW_RANK;
}

const char *
window_find(const Op *read, Window *out)
{
	const Value *tensor = read->in[0];
	WindowDim first;
	*out = (Window){.n = tensor->type->rank - 2};
	if ((read->kind != OP_READ && read->kind != OP_COPY) || !has_form(read))
		return "its indices are a tile (a gather)";
	if (tensor->block->func->param[tensor->index].access != ACCESS_IN)
		return "its indices are a tile, and the tensor is written (a gather)";
	for (int i = 0; i < out->n; i++) {
		if (!window_take(read->in[2 + i], &out->dim[i]))
			return "its indices are not digits of one and scalars (a gather)";
		const char *why = dim_reason(&out->dim[i]);
		if (why)
			return why;
	}
	if (!window_take(read->in[1], &first) || first.step != 1 || !are_digits(out, &first.digit))
		return "its indices are not the digits of one index (a gather)";
	if (first.offset.n || first.lower.n || first.lower.number)
		return "the images' number is not a digit alone (a gather)";
	return NULL;
}

static int
take_sum(const int64_t *from, LaunchSum *out)
{
	int at = 2;
	*out = (LaunchSum){.number = from[0], .n = (int)from[1]};
	for (int i = 0; i < out->n; i++, at += 3) {
		out->term[i].factor = from[at];
		out->term[i].param = (int)from[at + 1];
		out->term[i].dim = (int)from[at + 2];
	}
	return at;
}

const char *
window_reach(const Op *op, int dim, LaunchSum *most, LaunchSum *falls)
{
	const IntList *reach = attr_reach(op);
	if (!reach)
		return "how far its indices move in loops is not known (a gather)";
	for (int d = 0, at = 0; d <= dim; d++) {
		at += take_sum(reach->at + at, most);
		at += take_sum(reach->at + at, falls);
	}
	return NULL;
}
