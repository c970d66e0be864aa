/* The table of definitions, products that run by themselves, and loops and programs that several blocks share, of which one
 * has all here. */
#include "tests/interp/gpu.h"

#include <string.h>

#define OP(NAME, text, in, out, infer, traits, cost, family, ...)                                    \
	[OP_##NAME] = IS_OF_GPUS(FAMILY_##family) ? define_##NAME : NULL,
const struct GpuOps gpu_ops = {
	.define = {
#include "ir/ops.def"
	},
	.shared_bytes = shared_bytes,
	.end_program = flights_drop,
};
#undef OP

/* ---- products ---- */

/* A tile, or what a buffer of one slot holds. */
static Operand
operand(const Worker *w, const Value *v)
{
	char *at = value_at(w, v);

	return operand_dense(v->type, v->type->kind == TYPE_BUFFER ? *(char **)at : at);
}

static void
swap(int64_t *a, int64_t *b)
{
	int64_t was = *a;
	*a = *b;
	*b = was;
}

DEFINE(DOT_START)
{
	const IntList *flipped = attr_transposed(op);
	Operand x[2] = {operand(w, op->in[0]), operand(w, op->in[1])};
	Product d;

	product_make(w->plan, &d, op);
	for (int i = 0; i < 2 && flipped; i++)
		if (flipped->at[i])
			swap(&x[i].stride[1], &x[i].stride[2]);
	if (flipped && flipped->at[0])
		swap(&d.dot.m, &d.dot.k);
	if (flipped && flipped->at[1])
		d.dot.n = op->in[1]->type->extent[0];
	return product_run(w, &d, op, x[0], x[1], value_at(w, op->in[2]), value_at(w, &op->out[0]));
}

/* A dot that was begun is done at once. */
DEFINE(DOT_WAIT)
{
	for (int i = 0; i < op->nin; i++)
		memmove(value_at(w, &op->out[i]), value_at(w, op->in[i]), (size_t)value_bytes(op->in[i]));
	return true;
}

/* ---- blocks that share a loop or a program ---- */

DEFINE(SPLIT_PUT)
{
	return true;
}

DEFINE(SPLIT_MEET)
{
	*value_at(w, &op->out[0]) = 1;
	return true;
}

/* Of rank 0, the only one. */
DEFINE(SPLIT_GET)
{
	const Value *put = op->in[0]->def->in[0];

	memcpy(value_at(w, &op->out[0]), value_at(w, put), (size_t)value_bytes(put));
	return true;
}

DEFINE(SPLIT_SUM)
{
	return true;
}

DEFINE(SPLIT_DONE)
{
	return true;
}

/* One block has all of each program. */
DEFINE(STREAM_GIVE)
{
	return true;
}

DEFINE(STREAM_JOIN)
{
	for (int i = 0; i < op->nout; i++)
		memcpy(value_at(w, &op->out[i]), value_at(w, op->in[STREAM_JOIN_TILES + i]),
		    (size_t)value_bytes(op->in[STREAM_JOIN_TILES + i]));
	return true;
}

/* Here each program is a block of its own, and behind it comes none. */
DEFINE(FETCH)
{
	*(int64_t *)value_at(w, &op->out[0]) = INT32_MAX;
	return true;
}

DEFINE(FETCH_END)
{
	return true;
}

DEFINE(FROM_FIRST)
{
	memcpy(value_at(w, &op->out[0]), value_at(w, op->in[0]), (size_t)value_bytes(op->in[0]));
	return true;
}
