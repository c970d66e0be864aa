/* Dots, block-scaled dots and Philox: num's, on whole tiles. */
#include "ir/interp/run.h"

#include <string.h>

static void
dot_shape(Dot *d, const Plan *p, const Op *op, int a, int b)
{
	const Type *x = op->in[a]->type, *y = op->in[b]->type;
	int r = x->rank;

	*d = (Dot){.a = x->elem, .b = y->elem, .out = op->out[0].type->elem, .m = x->extent[r - 2],
	    .k = x->extent[r - 1], .n = y->extent[r - 1], .batch = 1, .level = p->cpu};
	for (int i = 0; i < r - 2; i++)
		d->batch *= x->extent[i];
	dot_dense(d);
}

void
product_make(const Plan *p, Product *d, const Op *op)
{
	dot_shape(&d->dot, p, op, 0, 1);
	d->dot.tf32 = strcmp(attr_precision(op), "tf32") == 0;
	d->perturbs = p->opt.perturb > 0 && d->dot.out == TY_F64 && d->dot.a == TY_F64 && d->dot.b == TY_F64;
}

Operand
operand_dense(const Type *t, const void *at)
{
	int64_t columns = t->extent[t->rank - 1];

	return (Operand){at, {t->extent[t->rank - 2] * columns, columns, 1}};
}

/* A dense copy of an operand whose elements are perturbed as what enters a sum. */
static bool
disturb_operand(Worker *w, const Op *op, const Value *v, Operand *x)
{
	double *copy = (double *)temp_take(w, op, value_bytes(v));

	if (!copy)
		return false;
	memcpy(copy, x->at, (size_t)value_bytes(v));
	perturb_f64(w->plan->cpu, copy, type_count(v->type), w->plan->opt.perturb, &w->rng);
	x->at = copy;
	return true;
}

bool
product_run(Worker *w, const Product *p, const Op *op, Operand a, Operand b, const void *acc, void *out)
{
	Dot d = p->dot;
	int64_t scratch_bytes = (int64_t)dot_scratch(&d), norms = (d.m + d.n) * (int64_t)sizeof(double);

	if (p->perturbs && (!disturb_operand(w, op, op->in[0], &a) || !disturb_operand(w, op, op->in[1], &b)))
		return false;
	d.a_batch = a.stride[0];
	d.a_row = a.stride[1];
	d.a_col = a.stride[2];
	d.b_batch = b.stride[0];
	d.b_row = b.stride[1];
	d.b_col = b.stride[2];
	char *scratch = temp_take(w, op, MAX(scratch_bytes, norms));
	if (!scratch)
		return false;
	dot_run(&d, a.at, b.at, acc, out, scratch);
	if (p->perturbs)
		disturb_dot(w, &d, a.at, b.at, out, (double *)scratch);
	return true;
}

static Operand
operand(const Worker *w, const Value *v)
{
	return operand_dense(v->type, value_at(w, v));
}

DEFINE(DOT)
{
	Product d;

	product_make(w->plan, &d, op);
	return product_run(w, &d, op, operand(w, op->in[0]), operand(w, op->in[1]), value_at(w, op->in[2]),
	    value_at(w, &op->out[0]));
}

/* A scale of type u8 is a power of two, 2^(x - 127) (e8m0, 255: NaN). */
static float
scale_at(const Value *v, const char *at, int64_t i)
{
	if (v->type->elem != TY_U8)
		return (float)dtype_load_f64(v->type->elem, at, i);
	unsigned x = ((const uint8_t *)at)[i];
	if (x == 255)
		return __builtin_nanf("");
	return (float)__builtin_ldexp(1.0, (int)x - 127);
}

/* x[batch, row, k] *= scale[batch, row, k / block]; strides of x in elements. */
static void
apply_scales(const Worker *w, const Value *scale, int64_t block, float *x, const int64_t count[3],
    const int64_t stride[3])
{
	const char *at = value_at(w, scale);
	int64_t i = 0, blocks = (count[2] + block - 1) / block;

	for (int64_t b = 0; b < count[0]; b++)
		for (int64_t r = 0; r < count[1]; r++, i += blocks)
			for (int64_t k = 0; k < count[2]; k++)
				x[b * stride[0] + r * stride[1] + k * stride[2]] *= scale_at(scale, at, i + k / block);
}

/* An operand as f32. */
static float *
widened(Worker *w, const Op *op, const Value *v)
{
	float *x = (float *)temp_take(w, op, type_count(v->type) * (int64_t)sizeof(float));
	Elem widen;

	elem_make(&widen, w->plan->cpu, OP_CAST, &v->type->elem, 1, TY_F32, 0);
	if (x)
		elem_run(&widen, x, (const void *[]){value_at(w, v)}, 0, type_count(v->type));
	return x;
}

DEFINE(DOT_SCALED)
{
	float *a = widened(w, op, op->in[0]), *b = a ? widened(w, op, op->in[2]) : NULL;
	int64_t block = attr_block(op);
	Dot d;

	if (!b)
		return false;
	dot_shape(&d, w->plan, op, 0, 2);
	d.a = d.b = TY_F32;
	char *scratch = temp_take(w, op, (int64_t)dot_scratch(&d));
	if (!scratch)
		return false;
	apply_scales(w, op->in[1], block, a, (int64_t[]){d.batch, d.m, d.k}, (int64_t[]){d.a_batch, d.a_row, d.a_col});
	apply_scales(w, op->in[3], block, b, (int64_t[]){d.batch, d.n, d.k}, (int64_t[]){d.b_batch, d.b_col, d.b_row});
	dot_run(&d, a, b, value_at(w, op->in[4]), value_at(w, &op->out[0]), scratch);
	return true;
}

DEFINE(PHILOX)
{
	const Value *offset = op->in[1];
	uint32_t *out[4];

	for (int k = 0; k < 4; k++)
		out[k] = (uint32_t *)value_at(w, &op->out[k]);
	philox_run(w->plan->cpu, (uint64_t)value_i64(w, op->in[0]), offset->type->elem, value_at(w, offset),
	    type_count(offset->type), out);
	return true;
}
