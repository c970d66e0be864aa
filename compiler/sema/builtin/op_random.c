/* Random numbers as Triton makes them from Philox 4x32-10: the seed is the key, the offset the counter.  Over whole
 * tensors the uniform numbers are still computed in f32, so that a kernel and its reference draw the same ones. */
#include "sema/builtin/builtin.h"

static Op *
philox(Call *c)
{
	Elab *e = c->e;
	Value *seed = val_index(e, &c->arg[0].val, "seed");
	Value *offset = seed ? call_tile(c, 1, IS_INT) : NULL;
	return offset ? op_make(&e->b, OP_PHILOX, (Value *[]){seed, offset}, 2, NULL, 0, NULL, 0) : NULL;
}

static Value *
as_signed(Elab *e, Value *word)
{
	return build1(&e->b, OP_BITCAST, word, type_with_elem(e->m, word->type, TY_I32));
}

/* As Triton's uint_to_uniform_float: the magnitude of the signed word times a bit less than 2^-31. */
static Value *
uniform(Elab *e, Value *word)
{
	Value *i = as_signed(e, word);
	Value *zero = build_int(&e->b, i->type, 0);
	Value *flipped = build1(&e->b, OP_NOT, i, NULL);
	Value *magnitude = build3(&e->b, OP_SELECT, build2(&e->b, OP_LT, i, zero), flipped, i);
	Value *x = ir_convert(e, magnitude, TY_F32);
	return build2(&e->b, OP_MUL, x, build_float(&e->b, x->type, 4.6566127342e-10));
}

Val
random_rand(Call *c)
{
	Op *words = philox(c);
	return val_tile(c->place, words ? ir_convert(c->e, uniform(c->e, words->out), elab_dtype(c->e, TY_F32)) : NULL);
}

Val
random_randn(Call *c)
{
	Elab *e = c->e;
	Op *words = philox(c);
	if (!words)
		return val_poison(c->place);
	DType t = elab_dtype(e, TY_F32);
	Value *u = uniform(e, &words->out[0]), *w = ir_convert(e, uniform(e, &words->out[1]), t);
	u = ir_convert(e, build2(&e->b, OP_MAX, u, build_float(&e->b, u->type, 1.0e-7)), t);
	Value *log = build1(&e->b, OP_LOG, u, NULL);
	Value *radius = build1(&e->b, OP_SQRT, build2(&e->b, OP_MUL, log, build_float(&e->b, u->type, -2.0)), NULL);
	Value *angle = build2(&e->b, OP_MUL, w, build_float(&e->b, w->type, 6.283185307179586));
	return val_tile(c->place, build2(&e->b, OP_MUL, radius, build1(&e->b, OP_COS, angle, NULL)));
}

Val
random_randint(Call *c)
{
	Op *words = philox(c);
	return val_tile(c->place, words ? as_signed(c->e, words->out) : NULL);
}

Val
random_philox(Call *c)
{
	Op *words = philox(c);
	if (!words)
		return val_poison(c->place);
	Val out[4];
	for (int i = 0; i < 4; i++)
		out[i] = val_tile(c->place, &words->out[i]);
	return val_tuple(c->e, c->place, out, 4);
}
