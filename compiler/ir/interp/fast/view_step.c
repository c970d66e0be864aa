/* Steps of ops that give or take views: reads and writes of tensors, rearrangements, iota, constants, and dots, which
 * take operands of any strides.
 *
 * An access without gathers is a view of the tensor: starts move its first element, extents clip it to the tensor, and
 * elements outside take the fill.  A rearrangement changes starts and strides; elements clipped away stay so in views of
 * the view.  Where the value must be a slot, the same view is made and copied. */
#include "ir/interp/fast/fast.h"

#include <string.h>

/* ---- tensors ---- */

void
access_view(const Worker *w, const TensorAccess *a, const char *fill, View *v)
{
	const PlanArg *t = &w->args[a->param];
	int size = dtype_tile_size(a->tile->elem), k = 0;
	uint64_t first = 0;
	bool inside = true;

	v->fill = fill;
	v->packed = dtype_is_packed(a->tile->elem);
	for (int d = 0; d < a->nd; d++) {
		int64_t start = value_i64(w, a->index[d]);
		first += (uint64_t)start * (uint64_t)t->stride[d];
		if (a->letter[d] == 'i') {
			inside = inside && start >= 0 && start < access_extent(a, t, d);
			continue;
		}
		v->stride[k] = t->stride[d];
		access_clip(start, a->extent[d], access_extent(a, t, d), &v->lo[k], &v->hi[k]);
		if (a->valid)
			v->hi[k] = MAX(v->lo[k], MIN(v->hi[k], a->valid[k]));
		k++;
	}
	v->outside = !inside;
	v->first = v->packed ? (int64_t)first : 0;
	v->at = v->packed ? t->data : (char *)((uintptr_t)t->data + first * (uint64_t)size);
	view_finish(v, a->tile);
}

typedef struct AccessStep {
	Step step;
	TensorAccess access;
	Storage tile;
	const Value *fill;                              /* of a read: a scalar or NULL */
} AccessStep;

static void
read_view(const Worker *w, const AccessStep *s, View *v)
{
	access_view(w, &s->access, s->fill ? value_at(w, s->fill) : NULL, v);
}

static bool
read_in_place(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;

	read_view(w, s, &w->view[s->tile.view]);
	return true;
}

static bool
read_dense(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;
	View v;

	read_view(w, s, &v);
	w->at[s->tile.slot] = v.dense ? v.at : w->at[s->tile.copy];
	if (!v.dense)
		view_copy(&v, s->tile.type, w->at[s->tile.copy]);
	return true;
}

static bool
read_copy(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;
	View v;

	read_view(w, s, &v);
	view_copy(&v, s->tile.type, w->at[s->tile.slot]);
	return true;
}

/* Without a view: most reads of scalars are in loops. */
static bool
read_scalar(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;
	const TensorAccess *a = &s->access;
	const PlanArg *t = &w->args[a->param];
	int size = dtype_tile_size(s->tile.type->elem);
	uint64_t at = 0;
	bool inside = true;

	for (int d = 0; d < a->nd; d++) {
		int64_t i = value_i64(w, a->index[d]);
		inside = inside && i >= 0 && i < access_extent(a, t, d);
		at += (uint64_t)i * (uint64_t)t->stride[d];
	}
	char *out = w->at[s->tile.slot];
	if (inside)
		memcpy(out, (char *)t->data + at * (uint64_t)size, (size_t)size);
	else if (s->fill)
		memcpy(out, value_at(w, s->fill), (size_t)size);
	else
		memset(out, 0, (size_t)size);
	return true;
}

Step *
read_emit(Plan *p, const Op *op)
{
	const Type *t = op->out[0].type;
	int base = 1 + op->in[0]->type->rank;
	const Value *fill = op->nin > base ? op->in[base] : NULL;

	if (strchr(attr_index(op), 'g') || (fill && fill->type->rank > 0))
		return NULL;
	AccessStep *s = STEP(p, op, AccessStep, read_copy);
	access_make(&s->access, op, t);
	s->tile = storage_of(p, &op->out[0]);
	s->fill = fill;
	if (t->rank == 0 && !dtype_is_packed(t->elem))
		s->step.run = read_scalar;
	else if (s->tile.kind == STORE_VIEW)
		s->step.run = s->tile.dense ? read_dense : read_in_place;
	return &s->step;
}

/* Element by element of two walks, a strip at a time. */
static void
walk_to_walk(const Walk *in, const Walk *out, int64_t n)
{
	char strip[8 * 512];

	for (int64_t done = 0; done < n; done += 512) {
		int64_t part = MIN(512, n - done);
		walk_store(out, done, part, walk_load(in, done, part, strip));
	}
}

static bool
write_view(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;
	int64_t n = type_count(s->tile.type);
	View to, tmp;
	Walk in, out;

	if (n == 0)
		return true;
	access_view(w, &s->access, NULL, &to);
	walk_make(&out, &to, s->tile.type);
	if (out.flat) {
		storage_copy(w, &s->tile, out.at);
		return true;
	}
	walk_make(&in, storage_view(w, &s->tile, &tmp), s->tile.type);
	walk_to_walk(&in, &out, n);
	return true;
}

/* Rows that are gathered, whatever the storage of the tile. */
static bool
write_rows(Worker *w, const Step *step)
{
	const AccessStep *s = (const AccessStep *)step;
	char *copy = temp_take(w, step->op, type_count(s->tile.type) * type_elem_size(s->tile.type));

	if (!copy)
		return false;
	storage_copy(w, &s->tile, copy);
	return tensor_write(w, step->op, s->tile.type, copy);
}

Step *
write_emit(Plan *p, const Op *op)
{
	const Value *tile = op->in[op->nin - 1];
	Storage storage = storage_of(p, tile);
	bool gathers = strchr(attr_index(op), 'g') != NULL;

	if (gathers && (storage.kind == STORE_SLOT || storage.dense))
		return NULL;
	AccessStep *s = STEP(p, op, AccessStep, gathers ? write_rows : write_view);
	access_make(&s->access, op, tile->type);
	s->tile = storage;
	return &s->step;
}

/* ---- values without operands ---- */

typedef struct ConstStep {
	Step step;
	int slot, size;
	int64_t n;
	char one[8];
} ConstStep;

static bool
run_const(Worker *w, const Step *step)
{
	const ConstStep *s = (const ConstStep *)step;

	tile_fill(s->size, w->at[s->slot], s->one, s->n);
	return true;
}

Step *
const_emit(Plan *p, const Op *op)
{
	ConstStep *s = STEP(p, op, ConstStep, run_const);
	Storage out = storage_of(p, &op->out[0]);

	s->slot = out.slot;
	s->size = type_elem_size(out.type);
	s->n = out.kind == STORE_ONE ? 1 : type_count(out.type);
	const_element(op, s->one);
	return &s->step;
}

typedef struct IotaStep {
	Step step;
	Storage out;
	int axis;
} IotaStep;

/* The index along one dimension, stride 0 along the others. */
static bool
run_iota(Worker *w, const Step *step)
{
	const IotaStep *s = (const IotaStep *)step;
	const Type *t = s->out.type;
	char *out = w->at[s->out.copy];
	View *v = &w->view[s->out.view];

	tile_iota(t->elem, out, 0, t->extent[s->axis]);
	view_dense(v, out, t);
	memset(v->stride, 0, sizeof v->stride);
	v->stride[s->axis] = 1;
	view_finish(v, t);
	return true;
}

Step *
iota_emit(Plan *p, const Op *op)
{
	Storage out = storage_of(p, &op->out[0]);

	if (out.kind != STORE_VIEW)
		return NULL;
	IotaStep *s = STEP(p, op, IotaStep, run_iota);
	s->out = out;
	s->axis = (int)attr_axis(op);
	return &s->step;
}

/* ---- rearrangements ---- */

typedef struct RearrangeStep {
	Step step;
	Storage in, out;
	int result;
} RearrangeStep;

/* The part of lo .. hi-1 that 0 .. n-1 has when it is moved by -start. */
static void
clip_dimension(View *to, int k, int64_t lo, int64_t hi, int64_t start, int64_t n)
{
	to->lo[k] = MAX(0, MIN(lo - start, n));
	to->hi[k] = MAX(to->lo[k], MIN(hi - start, n));
}

static void
rearrange_dimension(const Rearrangement *r, int k, int64_t n, const View *from, View *to)
{
	int d = r->from[k];
	int64_t start = d < 0 ? 0 : r->start[d];

	to->hi[k] = n;
	if (d < 0)
		return;
	to->stride[k] = r->step[k] * from->stride[d];
	if (r->step[k] > 0)
		clip_dimension(to, k, from->lo[d], from->hi[d], start, n);
	else if (r->step[k] < 0)
		clip_dimension(to, k, -from->hi[d] + 1, -from->lo[d] + 1, -start, n);
	else
		to->hi[k] = start >= from->lo[d] && start < from->hi[d] ? n : 0;
}

static void
make_view(const Worker *w, const RearrangeStep *s, View *to)
{
	const Type *in = s->in.type, *out = s->out.type;
	bool moves[MAX_RANK] = {false};
	View tmp;
	const View *from = storage_view(w, &s->in, &tmp);
	uint64_t offset = 0;
	Rearrangement r;

	*to = (View){.at = from->at, .first = from->first, .packed = from->packed, .outside = from->outside,
	    .fill = from->fill};
	rearrangement_make(w, s->step.op, s->result, &r);
	for (int k = 0; k < out->rank; k++) {
		rearrange_dimension(&r, k, out->extent[k], from, to);
		if (r.from[k] >= 0)
			moves[r.from[k]] = true;
	}
	for (int d = 0; d < in->rank; d++) {
		offset += (uint64_t)r.start[d] * (uint64_t)from->stride[d];
		to->outside |= !moves[d] && (r.start[d] < from->lo[d] || r.start[d] >= from->hi[d]);
	}
	if (to->packed)
		to->first += (int64_t)offset;
	else
		to->at = (char *)((uintptr_t)to->at + offset * (uint64_t)type_elem_size(out));
	view_finish(to, out);
}

static bool
run_view(Worker *w, const Step *step)
{
	const RearrangeStep *s = (const RearrangeStep *)step;

	make_view(w, s, &w->view[s->out.view]);
	return true;
}

static bool
run_view_copy(Worker *w, const Step *step)
{
	const RearrangeStep *s = (const RearrangeStep *)step;
	View v;

	make_view(w, s, &v);
	view_copy(&v, s->out.type, w->at[s->out.slot]);
	return true;
}

/* All elements as they are, in another shape. */
static bool
run_reshape(Worker *w, const Step *step)
{
	const RearrangeStep *s = (const RearrangeStep *)step;

	storage_copy(w, &s->in, w->at[s->out.slot]);
	return true;
}

/* NULL: the result has its operand's slot. */
Step *
rearrange_emit(Plan *p, const Op *op, int result)
{
	Storage in = storage_of(p, op->in[0]), out = storage_of(p, &op->out[result]);
	StepFn *run = out.kind == STORE_VIEW ? run_view : run_view_copy;

	if (out.kind == STORE_NONE || (out.slot >= 0 && in.slot == out.slot))
		return NULL;
	if (op_is_reshape(op->kind) && out.kind == STORE_SLOT)
		run = run_reshape;
	RearrangeStep *s = STEP(p, op, RearrangeStep, run);
	s->in = in;
	s->out = out;
	s->result = result;
	return &s->step;
}

/* ---- dots ---- */

typedef struct DotStep {
	Step step;
	Product product;
	Storage a, b, acc;
	bool from_zero;
} DotStep;

/* The elements and their strides; a dense copy of what cannot be used as it lies.  at is NULL after a fault. */
static Operand
operand(Worker *w, const Op *op, const Storage *s, bool dense)
{
	int rank = s->type->rank;
	View tmp;
	const View *v = storage_view(w, s, &tmp);
	Operand x = {.at = v->at};

	if (v->whole && !v->packed && rank <= 3 && (!dense || v->dense)) {
		for (int k = MAX(0, 3 - rank); k < 3; k++)
			x.stride[k] = v->stride[k - 3 + rank];
		return x;
	}
	char *copy = temp_take(w, op, type_count(s->type) * type_elem_size(s->type));
	if (copy)
		view_copy(v, s->type, copy);
	return operand_dense(s->type, copy);
}

static const void *
accumulator(Worker *w, const DotStep *s, char *out)
{
	if (s->from_zero)
		return NULL;
	if (s->acc.kind == STORE_SLOT || s->acc.dense)
		return storage_at(w, &s->acc);
	storage_copy(w, &s->acc, out);
	return out;
}

static bool
run_dot(Worker *w, const Step *step)
{
	const DotStep *s = (const DotStep *)step;
	char *out = value_at(w, &step->op->out[0]);
	Operand a = operand(w, step->op, &s->a, s->product.perturbs), b = operand(w, step->op, &s->b, s->product.perturbs);

	return a.at && b.at && product_run(w, &s->product, step->op, a, b, accumulator(w, s, out), out);
}

static bool
is_zero(const Value *v)
{
	const Attr *a = value_const(v);

	return a && (a->kind == KIND_FLOAT ? a->f == 0 && !__builtin_signbit(a->f) : a->i == 0);
}

Step *
dot_emit(Plan *p, const Op *op)
{
	DotStep *s = STEP(p, op, DotStep, run_dot);

	product_make(p, &s->product, op);
	s->a = storage_of(p, op->in[0]);
	s->b = storage_of(p, op->in[1]);
	s->acc = storage_of(p, op->in[2]);
	s->from_zero = is_zero(op->in[2]);
	return &s->step;
}
