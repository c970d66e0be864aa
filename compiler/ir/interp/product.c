/* Dots, block-scaled dots and Philox: operands are brought where num wants them.
 *
 * A dot takes the operands of a view as they lie, whatever their strides, unless some of them are outside
 * their tensor.  The accumulator is updated in place when its register is also the result's (slot.c). */
#include "ir/interp/plan.h"

#include <string.h>

typedef struct DotStep {
	Step step;
	Dot dot;
	Home a, b, acc, out;
	bool from_zero, perturbs;
	int64_t a_bytes, b_bytes;
} DotStep;

/* The operand's elements and their strides; what cannot be used as it lies is copied to *temp. */
static const void *
operand(Worker *w, const Home *h, bool copy, char *temp, int64_t stride[3])
{
	View tmp;
	int rank = h->type->rank;

	if (h->type->kind == TYPE_BUFFER) {
		stride[2] = 1;
		stride[1] = h->type->extent[1];
		stride[0] = 0;
		return *(char **)w->reg[h->reg];
	}
	const View *v = home_view(w, h, &tmp);

	if (!copy && v->whole && !v->packed && rank <= 3) {
		for (int k = 0; k < 3; k++)
			stride[k] = k < 3 - rank ? 0 : v->stride[k - 3 + rank];
		return v->at;
	}
	view_copy(v, h->type, temp);
	stride[2] = 1;
	stride[1] = h->type->extent[rank - 1];
	stride[0] = h->type->extent[rank - 2] * stride[1];
	return temp;
}

static void
disturb(Worker *w, const Home *h, void *at)
{
	perturb_f64(at, type_count(h->type), w->plan->opt.perturb, &w->rng);
}

static const void *
accumulator(Worker *w, const DotStep *s)
{
	char *out = w->reg[s->out.reg];

	if (s->from_zero)
		return NULL;
	if (s->acc.kind == HOME_REG || s->acc.dense)
		return home_at(w, &s->acc);
	home_copy(w, &s->acc, out);
	return out;
}

static bool
run_dot(Worker *w, const Step *step)
{
	const DotStep *s = (const DotStep *)step;
	Dot d = s->dot;
	int64_t a_stride[3], b_stride[3];
	char *a_temp = w->temp, *b_temp = a_temp + s->a_bytes, *scratch = b_temp + s->b_bytes;
	const void *a = operand(w, &s->a, s->perturbs, a_temp, a_stride);
	const void *b = operand(w, &s->b, s->perturbs, b_temp, b_stride);

	if (s->perturbs) {
		disturb(w, &s->a, a_temp);
		disturb(w, &s->b, b_temp);
	}
	d.a_batch = a_stride[0];
	d.a_row = a_stride[1];
	d.a_col = a_stride[2];
	d.b_batch = b_stride[0];
	d.b_row = b_stride[1];
	d.b_col = b_stride[2];
	dot_run(&d, a, b, accumulator(w, s), w->reg[s->out.reg], scratch);
	if (s->perturbs)
		disturb_dot(w, &d, a, b, (double *)w->reg[s->out.reg], (double *)scratch);
	return true;
}

static int64_t
temp_bytes(const Home *h, bool copies)
{
	bool may_be_clipped = h->kind == HOME_VIEW || h->type->rank > 3;

	if (!copies && !may_be_clipped)
		return 0;
	return (type_count(h->type) * type_elem_size(h->type) + 63) / 64 * 64;
}

static bool
is_zero(const Value *v)
{
	const Attr *a = value_const(v);

	return a && (a->kind == KIND_FLOAT ? a->f == 0 && !__builtin_signbit(a->f) : a->i == 0);
}

static void
dot_shape(Dot *d, const Type *a, const Type *b, const Type *out)
{
	int r = a->rank;

	d->a = a->elem;
	d->b = b->elem;
	d->out = out->elem;
	d->m = a->extent[r - 2];
	d->k = a->extent[r - 1];
	d->n = b->extent[r - 1];
	d->batch = 1;
	for (int i = 0; i < r - 2; i++)
		d->batch *= a->extent[i];
}

static Step *
emit_dot(Plan *p, const Op *op)
{
	DotStep *s = STEP(p, op, DotStep, run_dot);
	const char *precision = attr_precision(op);

	s->a = value_home(p, op->in[0]);
	s->b = value_home(p, op->in[1]);
	s->acc = value_home(p, op->in[2]);
	s->out = value_home(p, &op->out[0]);
	dot_shape(&s->dot, s->a.type, s->b.type, s->out.type);
	s->dot.level = p->cpu;
	s->dot.tf32 = strcmp(precision, "tf32") == 0;
	s->from_zero = is_zero(op->in[2]);
	s->perturbs = p->opt.perturb > 0 && s->dot.out == TY_F64 && s->dot.a == TY_F64 && s->dot.b == TY_F64;
	s->a_bytes = temp_bytes(&s->a, s->perturbs);
	s->b_bytes = temp_bytes(&s->b, s->perturbs);
	dot_dense(&s->dot);
	int64_t scratch = (int64_t)dot_scratch(&s->dot), norms = (s->dot.m + s->dot.n) * 8;
	plan_temp(p, s->a_bytes + s->b_bytes + MAX(scratch, norms));
	return &s->step;
}

typedef struct FinishStep {
	Step step;
	Home acc, out;
} FinishStep;

/* A dot that was begun is done at once, so finishing it only hands on. */
static bool
run_finish(Worker *w, const Step *step)
{
	const FinishStep *s = (const FinishStep *)step;

	home_copy(w, &s->acc, w->reg[s->out.reg]);
	return true;
}

static Step *
finish(Plan *p, const Op *op, int i)
{
	FinishStep *s = STEP(p, op, FinishStep, run_finish);

	s->acc = value_home(p, op->in[i]);
	s->out = value_home(p, &op->out[i]);
	return &s->step;
}

typedef struct FinishAll {
	Step step;
	Code each;
} FinishAll;

static bool
run_finish_all(Worker *w, const Step *step)
{
	return code_run(w, &((const FinishAll *)step)->each);
}

static Step *
emit_finish(Plan *p, const Op *op)
{
	FinishAll *s = STEP(p, op, FinishAll, run_finish_all);

	for (int i = 0; i < op->nin; i++)
		code_push(p, &s->each, finish(p, op, i));
	return &s->step;
}

/* Block-scaled: each operand is widened to f32 and multiplied by its scales, then it is a dot. */
typedef struct ScaledStep {
	Step step;
	Dot dot;
	Home a, a_scale, b, b_scale, acc, out;
	int64_t block, a_bytes, b_bytes;
	Elem a_widen, b_widen;
} ScaledStep;

/* A scale of type u8 is a power of two, 2^(x - 127) (e8m0, 255: NaN). */
static float
scale_at(const Home *h, const char *at, int64_t i)
{
	if (h->type->elem != TY_U8)
		return (float)dtype_load_f64(h->type->elem, at, i);
	unsigned x = ((const uint8_t *)at)[i];
	if (x == 255)
		return __builtin_nanf("");
	return (float)__builtin_ldexp(1.0, (int)x - 127);
}

/* x[row, k] *= scale[row, k / block], where k moves by `step` elements and rows by `row`. */
static void
apply_scales(float *x, int64_t rows, int64_t row, int64_t k, int64_t step, int64_t block, const Home *scale,
    const char *at)
{
	int64_t blocks = (k + block - 1) / block;

	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < k; j++)
			x[r * row + j * step] *= scale_at(scale, at, r * blocks + j / block);
}

static bool
run_scaled(Worker *w, const Step *step)
{
	const ScaledStep *s = (const ScaledStep *)step;
	const Dot *d = &s->dot;
	float *a = (float *)w->temp, *b = (float *)(w->temp + s->a_bytes);
	int64_t a_count = d->batch * d->m * d->k, b_count = d->batch * d->k * d->n;
	int64_t blocks = (d->k + s->block - 1) / s->block;
	char *as = home_at(w, &s->a_scale), *bs = home_at(w, &s->b_scale);
	int a_scale_size = type_elem_size(s->a_scale.type), b_scale_size = type_elem_size(s->b_scale.type);

	elem_run(&s->a_widen, a, (const void *[]){home_at(w, &s->a)}, 0, a_count);
	elem_run(&s->b_widen, b, (const void *[]){home_at(w, &s->b)}, 0, b_count);
	for (int64_t i = 0; i < d->batch; i++) {
		apply_scales(a + i * d->m * d->k, d->m, d->k, d->k, 1, s->block, &s->a_scale,
		    as + i * d->m * blocks * a_scale_size);
		apply_scales(b + i * d->k * d->n, d->n, 1, d->k, d->n, s->block, &s->b_scale,
		    bs + i * d->n * blocks * b_scale_size);
	}
	dot_run(d, a, b, home_at(w, &s->acc), w->reg[s->out.reg], w->temp + s->a_bytes + s->b_bytes);
	return true;
}

static Step *
emit_scaled(Plan *p, const Op *op)
{
	ScaledStep *s = STEP(p, op, ScaledStep, run_scaled);
	Home *const home[] = {&s->a, &s->a_scale, &s->b, &s->b_scale, &s->acc};

	for (int i = 0; i < LEN(home); i++)
		*home[i] = value_home(p, op->in[i]);
	s->out = value_home(p, &op->out[0]);
	dot_shape(&s->dot, s->a.type, s->b.type, s->out.type);
	elem_make(&s->a_widen, p->cpu, OP_CAST, &s->dot.a, 1, TY_F32, 0);
	elem_make(&s->b_widen, p->cpu, OP_CAST, &s->dot.b, 1, TY_F32, 0);
	s->dot.a = s->dot.b = TY_F32;
	s->dot.level = p->cpu;
	dot_dense(&s->dot);
	s->block = attr_block(op);
	s->a_bytes = (type_count(s->a.type) * 4 + 63) / 64 * 64;
	s->b_bytes = (type_count(s->b.type) * 4 + 63) / 64 * 64;
	plan_temp(p, s->a_bytes + s->b_bytes + (int64_t)dot_scratch(&s->dot));
	return &s->step;
}

typedef struct PhiloxStep {
	Step step;
	Home seed, offset, out[4];
} PhiloxStep;

static bool
run_philox(Worker *w, const Step *step)
{
	const PhiloxStep *s = (const PhiloxStep *)step;
	uint32_t *out[4];

	for (int k = 0; k < 4; k++)
		out[k] = (uint32_t *)w->reg[s->out[k].reg];
	philox_run(w->plan->cpu, (uint64_t)home_i64(w, &s->seed), s->offset.type->elem, home_at(w, &s->offset),
	    false, type_count(s->offset.type), out);
	return true;
}

static Step *
emit_philox(Plan *p, const Op *op)
{
	PhiloxStep *s = STEP(p, op, PhiloxStep, run_philox);

	s->seed = value_home(p, op->in[0]);
	s->offset = value_home(p, op->in[1]);
	for (int k = 0; k < 4; k++)
		s->out[k] = value_home(p, &op->out[k]);
	return &s->step;
}

Step *
product_emit(Plan *p, const Op *op)
{
	switch (op->kind) {
	case OP_DOT:
	case OP_DOT_START:
		return emit_dot(p, op);
	case OP_DOT_WAIT:
		return emit_finish(p, op);
	case OP_DOT_SCALED:
		return emit_scaled(p, op);
	default:
		return emit_philox(p, op);
	}
}
