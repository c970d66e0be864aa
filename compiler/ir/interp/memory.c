/* Reads and writes of tensors.
 *
 * An access without gathers is a view of the tensor: starts move its first element, extents clip it to the
 * tensor, and elements outside take the fill.  Starts come from the program and may be anything, so
 * nothing is added to them that could overflow; addresses of elements outside are computed modulo 2^64 and
 * never used.  Accesses with gathers, and all of them when sanitizing, go row by row (rows.c). */
#include "ir/interp/plan.h"

#include <string.h>

void
access_make(Plan *p, TensorAccess *a, const Op *op, const Type *tile)
{
	const char *index = attr_index(op);
	const IntList *extents = attr_extents(op);
	int e = 0;

	a->param = param_index(op->in[0]);
	a->nd = op->in[0]->type->rank;
	a->tile = tile;
	a->rank = tile->rank;
	a->valid = attr_valid(op) ? attr_valid(op)->at : NULL;
	for (int d = 0; d < a->nd; d++) {
		a->letter[d] = index[d];
		a->index[d] = value_home(p, op->in[1 + d]);
		if (index[d] == 'p') {
			a->extent[d] = extents->at[e++];
		} else if (index[d] == 'g' && !a->gathers) {
			a->gathers = true;
			a->gather_at = e;
			a->gather_type = op->in[1 + d]->type;
			a->gather_rank = a->gather_type->rank;
		}
	}
}

/* The part of 0 .. extent-1 that start + i keeps inside 0 .. size-1. */
void
access_clip(int64_t start, int64_t extent, int64_t size, int64_t *lo, int64_t *hi)
{
	*lo = *hi = 0;
	if (start >= size || start <= -extent)
		return;
	*lo = start < 0 ? -start : 0;
	*hi = MIN(extent, size - start);
	if (*hi < *lo)
		*hi = *lo;
}

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
		int64_t start = home_i64(w, &a->index[d]);
		first += (uint64_t)start * (uint64_t)t->stride[d];
		if (a->letter[d] == 'i') {
			inside = inside && start >= 0 && start < t->dim[d];
			continue;
		}
		v->stride[k] = t->stride[d];
		access_clip(start, a->extent[d], t->dim[d], &v->lo[k], &v->hi[k]);
		if (a->valid)
			v->hi[k] = MAX(v->lo[k], MIN(v->hi[k], a->valid[k]));
		k++;
	}
	v->outside = !inside;
	v->first = v->packed ? (int64_t)first : 0;
	v->at = v->packed ? t->data : (char *)((uintptr_t)t->data + first * (uint64_t)size);
	view_finish(v, a->tile);
}

typedef struct ReadStep {
	Step step;
	TensorAccess access;
	Home out, fill;
	bool fills;                                     /* with the scalar or tile in `fill` */
} ReadStep;

static void
find_view(const Worker *w, const ReadStep *s, View *v)
{
	access_view(w, &s->access, s->fills ? w->reg[s->fill.reg] : NULL, v);
}

static bool
read_in_place(Worker *w, const Step *step)
{
	const ReadStep *s = (const ReadStep *)step;

	find_view(w, s, &w->view[s->out.view]);
	return true;
}

static bool
read_dense(Worker *w, const Step *step)
{
	const ReadStep *s = (const ReadStep *)step;
	View *v = &w->view[s->out.view];

	find_view(w, s, v);
	if (v->dense)
		return true;
	view_copy(v, s->out.type, w->reg[s->out.reg]);
	view_dense(v, w->reg[s->out.reg], s->out.type);
	return true;
}

static bool
read_copy(Worker *w, const Step *step)
{
	const ReadStep *s = (const ReadStep *)step;
	View v;

	find_view(w, s, &v);
	view_copy(&v, s->out.type, w->reg[s->out.reg]);
	return true;
}

static bool
read_scalar(Worker *w, const Step *step)
{
	const ReadStep *s = (const ReadStep *)step;
	const TensorAccess *a = &s->access;
	const PlanArg *t = &w->args[a->param];
	int size = dtype_tile_size(s->out.type->elem);
	uint64_t at = 0;
	bool inside = true;

	for (int d = 0; d < a->nd; d++) {
		int64_t i = home_i64(w, &a->index[d]);
		inside = inside && i >= 0 && i < t->dim[d];
		at += (uint64_t)i * (uint64_t)t->stride[d];
	}
	char *out = w->reg[s->out.reg];
	if (inside && dtype_is_packed(s->out.type->elem))
		tile_unpack(s->out.type->elem, t->data, (int64_t)at, out, 1);
	else if (inside)
		memcpy(out, (char *)t->data + at * (uint64_t)size, (size_t)size);
	else if (s->fills)
		memcpy(out, w->reg[s->fill.reg], (size_t)size);
	else
		memset(out, 0, (size_t)size);
	return true;
}

/* The rows of an access, for what cannot be a view: offsets in Worker.temp. */
static bool
check_row(Worker *w, const Step *s, const TensorAccess *a, int64_t row, int64_t n, int64_t stride, ShadowUse use)
{
	for (int64_t i = 0; i < n; i++)
		if (!shadow_tensor(w, s, a->param, row + i * stride, use))
			return false;
	return true;
}

static char *
element(const Worker *w, const TensorAccess *a, int64_t at)
{
	return (char *)w->args[a->param].data + at * dtype_tile_size(a->tile->elem);
}

/* Loads n elements of a row, or stores them. */
static void
move_run(const Worker *w, const TensorAccess *a, int64_t at, int64_t stride, int64_t n, char *tile, bool store)
{
	int size = dtype_tile_size(a->tile->elem);
	DType t = a->tile->elem;
	void *base = w->args[a->param].data;

	if (dtype_is_packed(t)) {
		for (int64_t i = 0; i < n; i++)
			if (store)
				tile_pack(t, tile + i, base, at + i * stride, 1);
			else
				tile_unpack(t, base, at + i * stride, tile + i, 1);
		return;
	}
	if (stride == 1) {
		char *m = element(w, a, at);
		memcpy(store ? m : tile, store ? tile : m, (size_t)(n * size));
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		char *m = element(w, a, at + i * stride), *x = tile + i * size;
		memcpy(store ? m : x, store ? x : m, (size_t)size);
	}
}

static bool
read_rows(Worker *w, const Step *step)
{
	const ReadStep *s = (const ReadStep *)step;
	const TensorAccess *a = &s->access;
	int64_t *row = (int64_t *)w->temp, lo, hi, stride, inner = access_inner(a);
	int64_t n = access_rows(w, a, row, &lo, &hi, &stride);
	int size = dtype_tile_size(a->tile->elem);
	char *out = w->reg[s->out.reg], zero[8] = {0};

	if (s->fills && s->fill.type->rank > 0)
		home_copy(w, &s->fill, out);
	else
		tile_fill(size, out, s->fills ? w->reg[s->fill.reg] : zero, n * inner);
	for (int64_t i = 0; i < n && hi > lo; i++, out += inner * size) {
		if (row[i] == INT64_MIN)
			continue;
		if (w->shadow && !check_row(w, step, a, row[i] + lo * stride, hi - lo, stride, SHADOW_READ))
			return false;
		move_run(w, a, row[i] + lo * stride, stride, hi - lo, out + lo * size, false);
	}
	return true;
}

typedef struct WriteStep {
	Step step;
	TensorAccess access;
	Home tile;
} WriteStep;

static bool
write_view(Worker *w, const Step *step)
{
	const WriteStep *s = (const WriteStep *)step;
	int64_t n = type_count(s->tile.type), done = 0;
	View to, tmp;
	Walk in, out;
	char strip[8 * 512];

	if (n == 0)
		return true;
	access_view(w, &s->access, NULL, &to);
	walk_make(&out, &to, s->tile.type);
	if (out.flat) {
		home_copy(w, &s->tile, out.at);
		return true;
	}
	walk_make(&in, home_view(w, &s->tile, &tmp), s->tile.type);
	for (; done < n; done += 512) {
		int64_t part = MIN(512, n - done);
		walk_store(&out, done, part, walk_load(&in, done, part, strip));
	}
	return true;
}

static bool
write_rows(Worker *w, const Step *step)
{
	const WriteStep *s = (const WriteStep *)step;
	const TensorAccess *a = &s->access;
	int64_t *row = (int64_t *)w->temp, lo, hi, stride, inner = access_inner(a);
	int64_t n = access_rows(w, a, row, &lo, &hi, &stride);
	View tmp;
	Walk in;
	char strip[8 * 512];

	if (n == 0 || hi <= lo)
		return true;
	walk_make(&in, home_view(w, &s->tile, &tmp), s->tile.type);
	for (int64_t i = 0; i < n; i++) {
		if (row[i] == INT64_MIN)
			continue;
		if (w->shadow && !check_row(w, step, a, row[i] + lo * stride, hi - lo, stride, SHADOW_WRITE))
			return false;
		for (int64_t k = lo; k < hi; k += 512) {
			int64_t part = MIN(512, hi - k);
			walk_copy(&in, i * inner + k, part, strip);
			move_run(w, a, row[i] + k * stride, stride, part, strip, true);
		}
	}
	return true;
}

typedef struct AtomicStep {
	Step step;
	TensorAccess access;
	Atomic *atomic;
	Home x, y, out;
	bool returns;
} AtomicStep;

static bool
atomic_rows(Worker *w, const Step *step)
{
	const AtomicStep *s = (const AtomicStep *)step;
	const TensorAccess *a = &s->access;
	int64_t *row = (int64_t *)w->temp, lo, hi, stride, inner = access_inner(a);
	int64_t n = access_rows(w, a, row, &lo, &hi, &stride);
	int64_t size = dtype_tile_size(a->tile->elem);
	const char *x = home_at(w, &s->x), *y = home_at(w, &s->y);
	char *old = w->reg[s->out.reg];

	memset(old, 0, (size_t)(n * inner * size));
	for (int64_t i = 0; i < n; i++) {
		if (row[i] == INT64_MIN)
			continue;
		for (int64_t k = lo; k < hi; k++) {
			int64_t at = (i * inner + k) * size, e = row[i] + k * stride;
			if (w->shadow && !shadow_tensor(w, step, a->param, e, SHADOW_ATOMIC))
				return false;
			atomic_run(s->atomic, element(w, a, e), x + at, y + at, old + at);
		}
	}
	return true;
}

static void
want_rows(Plan *p, const TensorAccess *a)
{
	int64_t inner = access_inner(a);

	plan_temp(p, 8 * (inner ? type_count(a->tile) / inner : 0) + 8);
}

Step *
memory_read_into(Plan *p, const Op *op, const Type *tile, Home out)
{
	ReadStep *s = STEP(p, op, ReadStep, read_copy);

	access_make(p, &s->access, op, tile);
	s->out = out;
	if (p->opt.sanitize || s->access.gathers) {
		s->step.run = read_rows;
		want_rows(p, &s->access);
	}
	return &s->step;
}

static Step *
emit_read(Plan *p, const Op *op)
{
	ReadStep *s = STEP(p, op, ReadStep, read_copy);
	int base = 1 + op->in[0]->type->rank;

	access_make(p, &s->access, op, op->out[0].type);
	s->out = value_home(p, &op->out[0]);
	s->fills = op->nin > base;
	if (s->fills)
		s->fill = value_home(p, op->in[base]);
	bool tile_fill_given = s->fills && op->in[base]->type->rank > 0;
	if (p->opt.sanitize || s->access.gathers || tile_fill_given) {
		s->step.run = read_rows;
		want_rows(p, &s->access);
	} else if (op->out[0].type->rank == 0) {
		s->step.run = read_scalar;
	} else if (s->out.kind == HOME_VIEW) {
		s->step.run = s->out.dense ? read_dense : read_in_place;
	}
	return &s->step;
}

static Step *
emit_write(Plan *p, const Op *op)
{
	WriteStep *s = STEP(p, op, WriteStep, write_view);

	s->tile = value_home(p, op->in[op->nin - 1]);
	access_make(p, &s->access, op, op->in[op->nin - 1]->type);
	if (p->opt.sanitize || s->access.gathers) {
		s->step.run = write_rows;
		want_rows(p, &s->access);
	}
	return &s->step;
}

static Step *
emit_atomic(Plan *p, const Op *op)
{
	AtomicStep *s = STEP(p, op, AtomicStep, atomic_rows);
	int base = 1 + op->in[0]->type->rank;

	access_make(p, &s->access, op, op->out[0].type);
	s->atomic = atomic_make(p, op, op->out[0].type->elem);
	s->x = value_home(p, op->in[base]);
	s->y = value_home(p, op->in[op->nin - 1]);
	s->out = value_home(p, &op->out[0]);
	want_rows(p, &s->access);
	return &s->step;
}

Step *
memory_emit(Plan *p, const Node *n)
{
	switch (n->op->kind) {
	case OP_READ:
		return emit_read(p, n->op);
	case OP_WRITE:
		return emit_write(p, n->op);
	default:
		return emit_atomic(p, n->op);
	}
}
