/* Values from nowhere, and ops that only rearrange: reshape, permute, broadcast, extract, flip and split as
 * views, cat and join as copies.
 *
 * A view op changes starts and strides.  Where its value must be a register, the same view is made and
 * copied.  Elements clipped away (outside a tensor) stay so in views of the view. */
#include "ir/interp/plan.h"

#include <string.h>

typedef struct ValueStep {
	Step step;
	Home out;
	int axis, param;
	char one[8];
} ValueStep;

static bool
run_const(Worker *w, const Step *step)
{
	const ValueStep *s = (const ValueStep *)step;
	int64_t n = s->out.kind == HOME_ONE ? 1 : type_count(s->out.type);

	tile_fill(type_elem_size(s->out.type), w->reg[s->out.reg], s->one, n);
	return true;
}

static Step *
emit_const(Plan *p, const Op *op)
{
	ValueStep *s = STEP(p, op, ValueStep, run_const);
	const Attr *a = attr_value(op);
	DType t = op->out[0].type->elem;

	s->out = value_home(p, &op->out[0]);
	if (dtype_is_packed(t)) {
		char memory[8] = {0};
		if (dtype_is_float(t))
			dtype_store_f64(t, memory, 0, a->f);
		else
			dtype_store_i64(t, memory, 0, a->i);
		tile_unpack(t, memory, 0, s->one, 1);
	} else if (a->kind == KIND_FLOAT) {
		dtype_store_f64(t, s->one, 0, a->f);
	} else {
		dtype_store_i64(t, s->one, 0, a->i);
	}
	return &s->step;
}

/* As a register the index is repeated along the other dimensions; as a view they have stride 0. */
static bool
run_iota(Worker *w, const Step *step)
{
	const ValueStep *s = (const ValueStep *)step;
	const Type *t = s->out.type;
	int64_t n = t->extent[s->axis], outer = 1, inner = 1;
	int size = type_elem_size(t);
	char *out = w->reg[s->out.reg];

	if (s->out.kind == HOME_VIEW) {
		View *v = &w->view[s->out.view];
		tile_iota(t->elem, out, 0, n);
		view_dense(v, out, t);
		memset(v->stride, 0, sizeof v->stride);
		v->stride[s->axis] = 1;
		view_finish(v, t);
		return true;
	}
	for (int d = 0; d < s->axis; d++)
		outer *= t->extent[d];
	for (int d = s->axis + 1; d < t->rank; d++)
		inner *= t->extent[d];
	for (int64_t i = 0; i < n && outer > 0; i++) {
		char one[8];
		tile_iota(t->elem, one, i, 1);
		tile_fill(size, out + i * inner * size, one, inner);
	}
	for (int64_t i = 1; i < outer; i++)
		memcpy(out + i * n * inner * size, out, (size_t)(n * inner * size));
	return true;
}

static bool
run_program(Worker *w, const Step *step)
{
	const ValueStep *s = (const ValueStep *)step;

	*(int64_t *)w->reg[s->out.reg] = w->program[s->axis];
	return true;
}

static bool
run_programs(Worker *w, const Step *step)
{
	const ValueStep *s = (const ValueStep *)step;

	*(int64_t *)w->reg[s->out.reg] = w->grid[s->axis];
	return true;
}

static bool
run_dim(Worker *w, const Step *step)
{
	const ValueStep *s = (const ValueStep *)step;
	const PlanArg *t = &w->args[s->param];

	*(int64_t *)w->reg[s->out.reg] = step->op->kind == OP_DIM ? t->dim[s->axis] : t->stride[s->axis];
	return true;
}

static Step *
emit_value(Plan *p, const Op *op, StepFn *run)
{
	ValueStep *s = STEP(p, op, ValueStep, run);

	s->out = value_home(p, &op->out[0]);
	s->axis = (int)attr_axis(op);
	if (op->nin > 0)
		s->param = param_index(op->in[0]);
	return &s->step;
}

typedef struct ViewStep ViewStep;
struct ViewStep {
	Step step;
	Home in, out;
	void (*make)(const Worker *w, const ViewStep *s, const View *from, View *to);
	int dim[MAX_RANK];                              /* permute, reshape: where result dimension d comes from, or -1 */
	Home start[MAX_RANK];                           /* extract */
	const char *index;
	int axis, half;
};

static void
take_dimension(const View *from, int d, View *to, int k)
{
	to->stride[k] = from->stride[d];
	to->lo[k] = from->lo[d];
	to->hi[k] = from->hi[d];
}

/* A dimension of extent 1 that comes from nowhere. */
static void
unit_dimension(View *to, int k)
{
	to->stride[k] = to->lo[k] = 0;
	to->hi[k] = 1;
}

/* Moves element 0 by some elements. */
static void
advance(View *v, int size, int64_t elements)
{
	if (v->packed)
		v->first += elements;
	else
		v->at = (char *)((uintptr_t)v->at + (uint64_t)elements * (uint64_t)size);
}

static void
make_permute(const Worker *w, const ViewStep *s, const View *from, View *to)
{
	for (int k = 0; k < s->in.type->rank; k++)
		to->outside = to->outside || from->hi[k] <= from->lo[k];
	for (int k = 0; k < s->out.type->rank; k++)
		if (s->dim[k] >= 0)
			take_dimension(from, s->dim[k], to, k);
		else
			unit_dimension(to, k);
}

static void
make_broadcast(const Worker *w, const ViewStep *s, const View *from, View *to)
{
	const Type *t = s->out.type, *f = s->in.type;

	for (int k = 0; k < t->rank; k++) {
		if (f->rank == 0) {
			unit_dimension(to, k);
			to->hi[k] = t->extent[k];
			continue;
		}
		take_dimension(from, k, to, k);
		if (f->extent[k] == t->extent[k])
			continue;
		to->stride[k] = 0;
		to->hi[k] = from->hi[k] > from->lo[k] ? t->extent[k] : 0;
		to->lo[k] = 0;
	}
}

static void
make_flip(const Worker *w, const ViewStep *s, const View *from, View *to)
{
	int64_t n = s->out.type->extent[s->axis];

	for (int k = 0; k < s->out.type->rank; k++)
		take_dimension(from, k, to, k);
	to->stride[s->axis] = -from->stride[s->axis];
	to->lo[s->axis] = n - from->hi[s->axis];
	to->hi[s->axis] = n - from->lo[s->axis];
	advance(to, type_elem_size(s->out.type), (n - 1) * from->stride[s->axis]);
}

static void
make_half(const Worker *w, const ViewStep *s, const View *from, View *to)
{
	int last = s->in.type->rank - 1;

	for (int k = 0; k < last; k++)
		take_dimension(from, k, to, k);
	advance(to, type_elem_size(s->out.type), s->half * from->stride[last]);
	if (s->half < from->lo[last] || s->half >= from->hi[last])
		to->outside = true;
}

static void
make_extract(const Worker *w, const ViewStep *s, const View *from, View *to)
{
	int size = type_elem_size(s->out.type), k = 0;

	for (int d = 0; d < s->in.type->rank; d++) {
		bool part = s->index[d] == 'p';
		int64_t n = part ? s->out.type->extent[k] : 1, most = s->in.type->extent[d] - n;
		int64_t start = MAX(0, MIN(home_i64(w, &s->start[d]), most));
		advance(to, size, start * from->stride[d]);
		if (!part) {
			to->outside = to->outside || start < from->lo[d] || start >= from->hi[d];
			continue;
		}
		to->stride[k] = from->stride[d];
		to->lo[k] = MAX(0, MIN(from->lo[d] - start, n));
		to->hi[k] = MAX(to->lo[k], MIN(from->hi[d] - start, n));
		k++;
	}
}

static void
make_view(const Worker *w, const ViewStep *s, View *to)
{
	View tmp;
	const View *from = home_view(w, &s->in, &tmp);

	*to = (View){.at = from->at, .first = from->first, .packed = from->packed,
	    .outside = from->outside, .fill = from->fill};
	s->make(w, s, from, to);
	view_finish(to, s->out.type);
}

static bool
run_view(Worker *w, const Step *step)
{
	const ViewStep *s = (const ViewStep *)step;

	make_view(w, s, &w->view[s->out.view]);
	return true;
}

static bool
run_view_copy(Worker *w, const Step *step)
{
	const ViewStep *s = (const ViewStep *)step;
	View v;

	make_view(w, s, &v);
	view_copy(&v, s->out.type, w->reg[s->out.reg]);
	return true;
}

/* All elements as they are, in another shape. */
static bool
run_reshape(Worker *w, const Step *step)
{
	const ViewStep *s = (const ViewStep *)step;

	home_copy(w, &s->in, w->reg[s->out.reg]);
	return true;
}

/* Result dimensions of a reshape that only drops and inserts extents of 1. */
static void
match_units(ViewStep *s)
{
	const Type *a = s->in.type, *b = s->out.type;
	int i = 0;

	for (int k = 0; k < b->rank; k++) {
		s->dim[k] = -1;
		if (b->extent[k] == 1)
			continue;
		while (a->extent[i] == 1)
			i++;
		s->dim[k] = i++;
	}
}

static void
prepare_view(Plan *p, ViewStep *s, const Op *op)
{
	const IntList *dims = attr_dims(op);

	switch (op->kind) {
	case OP_PERMUTE:
		s->make = make_permute;
		for (int k = 0; k < s->out.type->rank; k++)
			s->dim[k] = (int)dims->at[k];
		break;
	case OP_RESHAPE:
	case OP_CONVERT:
		s->make = make_permute;
		match_units(s);
		break;
	case OP_BROADCAST:
		s->make = make_broadcast;
		break;
	case OP_FLIP:
		s->make = make_flip;
		break;
	case OP_SPLIT:
		s->make = make_half;
		break;
	default:
		s->make = make_extract;
		s->index = attr_index(op);
		for (int d = 0; d < s->in.type->rank; d++)
			s->start[d] = value_home(p, op->in[1 + d]);
		break;
	}
}

/* The step for one result of a view op; NULL if it shares its operand's register or view. */
static Step *
emit_view(Plan *p, const Op *op, int k)
{
	Home in = value_home(p, op->in[0]), out = value_home(p, &op->out[k]);
	StepFn *run = out.kind == HOME_VIEW ? run_view : run_view_copy;

	if (out.kind == HOME_NONE || (out.kind == HOME_ONE && in.reg == out.reg))
		return NULL;
	if (out.kind == in.kind && out.kind == HOME_REG && out.reg == in.reg && op_is_reshape(op->kind))
		return NULL;
	if (out.kind == HOME_VIEW && in.kind == HOME_VIEW && out.view == in.view)
		return NULL;
	if (op_is_reshape(op->kind) && out.kind == HOME_REG)
		run = run_reshape;
	ViewStep *s = STEP(p, op, ViewStep, run);
	s->in = in;
	s->out = out;
	s->axis = (int)attr_axis(op);
	s->half = k;
	prepare_view(p, s, op);
	return &s->step;
}

typedef struct BothStep {
	Step step;
	Step *half[2];
} BothStep;

static bool
run_both(Worker *w, const Step *step)
{
	const BothStep *s = (const BothStep *)step;

	return (!s->half[0] || s->half[0]->run(w, s->half[0])) && (!s->half[1] || s->half[1]->run(w, s->half[1]));
}

static Step *
emit_split(Plan *p, const Op *op)
{
	BothStep *s = STEP(p, op, BothStep, run_both);

	s->half[0] = emit_view(p, op, 0);
	s->half[1] = emit_view(p, op, 1);
	return &s->step;
}

/* cat and join put their operands side by side in views of the result. */
typedef struct CatStep {
	Step step;
	Home *in, out;
	int n, axis;
} CatStep;

static bool
run_cat(Worker *w, const Step *step)
{
	const CatStep *s = (const CatStep *)step;
	const Type *t = s->out.type;
	char *out = w->reg[s->out.reg], strip[8 * 512];
	bool join = step->op->kind == OP_JOIN;
	int64_t from = 0;

	for (int i = 0; i < s->n; i++) {
		const Type *part = s->in[i].type;
		View to, tmp;
		Walk k, in;
		view_dense(&to, out, t);
		advance(&to, type_elem_size(t), from * to.stride[s->axis]);
		for (int d = 0; d < part->rank; d++)
			to.hi[d] = part->extent[d];
		view_finish(&to, part);
		walk_make(&k, &to, part);
		walk_make(&in, home_view(w, &s->in[i], &tmp), part);
		int64_t n = type_count(part);
		for (int64_t done = 0; done < n; done += 512) {
			int64_t now = MIN(512, n - done);
			walk_store(&k, done, now, walk_load(&in, done, now, strip));
		}
		from += join ? 1 : part->extent[s->axis];
	}
	return true;
}

static Step *
emit_cat(Plan *p, const Op *op)
{
	CatStep *s = STEP(p, op, CatStep, run_cat);

	s->in = NEW_ARRAY(p->mem, Home, op->nin);
	s->n = op->nin;
	for (int i = 0; i < op->nin; i++)
		s->in[i] = value_home(p, op->in[i]);
	s->out = value_home(p, &op->out[0]);
	s->axis = op->kind == OP_JOIN ? op->out[0].type->rank - 1 : (int)attr_axis(op);
	return &s->step;
}

Step *
shape_emit(Plan *p, const Node *n)
{
	const Op *op = n->op;

	switch (op->kind) {
	case OP_CONST:
		return emit_const(p, op);
	case OP_IOTA:
		return emit_value(p, op, run_iota);
	case OP_PROGRAM_ID:
		return emit_value(p, op, run_program);
	case OP_NUM_PROGRAMS:
		return emit_value(p, op, run_programs);
	case OP_DIM:
	case OP_STRIDE:
		return emit_value(p, op, run_dim);
	case OP_SPLIT:
		return emit_split(p, op);
	case OP_CAT:
	case OP_JOIN:
		return emit_cat(p, op);
	default:
		return emit_view(p, op, 0);
	}
}
