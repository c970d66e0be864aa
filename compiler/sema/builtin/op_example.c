/* What fills the parameters of an example: random distributions from Philox over the elements' indices.  The key
 * mixes the printed seed, the parameter's index and how many distributions came before in its line, so that no two
 * draw the same numbers; f32 is precise enough for inputs and makes them fast. */
#include "sema/builtin/builtin.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The shape of a distribution: shape = [...], or the parameter's. */
bool
example_shape(Call *c, int *rank, int64_t *extent)
{
	const Type *t = c->e->example->implied;
	if (!t) {
		const char *name = c->e->kernel->params.at[c->e->example->param].name;
		return diag_error(c->e->cx, c->place, DIAG_EXAMPLE_POINTER, name,
		    arena_printf(c->e->cx->mem, "%s(…, shape = [n])", c->def->name));
	}
	*rank = t->rank;
	memcpy(extent, t->extent, sizeof t->extent);
	return shape_check(c->e, c->place, *rank, extent);
}

static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The four words for elements `offset`. */
static Op *
draw(Call *c, Value *offset)
{
	Elab *e = c->e;
	Example *x = e->example;
	uint64_t key = mix(mix(e->seed) ^ mix((uint64_t)x->param << 32 | (uint64_t)(unsigned)x->nrandom++));
	Value *seed = ir_const_int(e, TY_I64, (int64_t)key);
	return op_make(&e->b, OP_PHILOX, (Value *[]){seed, offset}, 2, NULL, 0, NULL, 0);
}

/* The words for the shape that argument ishape, or the parameter, requires. */
static Op *
words(Call *c, int ishape)
{
	int rank;
	int64_t extent[MAX_RANK];
	if (call_has(c, ishape) ? !call_shape(c, ishape, &rank, extent) : !example_shape(c, &rank, extent))
		return NULL;
	Value *offset = call_has(c, ishape) ? NULL : c->e->example->offset;
	if (!offset)
		offset = ir_reshape(c->e, ir_counted(c->e, TY_I64, extents_count(rank, extent)), rank, extent);
	return draw(c, offset);
}

/* A word as (w + 1/2) / 2^32: above 0 and below 1. */
static Value *
unit(Elab *e, Value *word)
{
	Value *x = ir_convert(e, build2(&e->b, OP_SHR, word, build_int(&e->b, word->type, 9)), TY_F32);
	x = build2(&e->b, OP_ADD, x, build_float(&e->b, x->type, 0.5));
	return build2(&e->b, OP_MUL, x, build_float(&e->b, x->type, 1.0 / (1 << 23)));
}

/* a + b * x in f64, for x of f32. */
static Val
scaled(Call *c, Value *x, const Val *a, const Val *b)
{
	Elab *e = c->e;
	Val v = val_tile(c->place, ir_convert(e, x, TY_F64));
	v = elab_binary(e, BIN_MUL, b, &v, c->place);
	return elab_binary(e, BIN_ADD, a, &v, c->place);
}

/* Whether a number is known when compiling that a distribution cannot have. */
static bool
is_beyond(const Val *v, double least)
{
	Const number;
	if (!const_of_val(v, &number))
		return false;
	const_to_float(&number);
	return number.kind == CONST_FLOAT && !(number.f >= least && number.f < INFINITY);
}

Val
example_normal(Call *c)
{
	Elab *e = c->e;
	if (is_beyond(&c->arg[1].val, 0))
		return call_wrong(c, 1, "0 or above");
	Op *w = words(c, 2);
	if (!w || !call_tile(c, 0, IS_NUMBER) || !call_tile(c, 1, IS_NUMBER))
		return val_poison(c->place);
	Value *u = unit(e, &w->out[0]), *v = unit(e, &w->out[1]);
	Value *log = build1(&e->b, OP_LOG, u, NULL);
	Value *r = build1(&e->b, OP_SQRT, build2(&e->b, OP_MUL, log, build_float(&e->b, u->type, -2.0)), NULL);
	Value *angle = build2(&e->b, OP_MUL, v, build_float(&e->b, v->type, 6.283185307179586));
	Value *z = build2(&e->b, OP_MUL, r, build1(&e->b, OP_COS, angle, NULL));
	return scaled(c, z, &c->arg[0].val, &c->arg[1].val);
}

Val
example_uniform(Call *c)
{
	Op *w = words(c, 2);
	if (!w || !call_tile(c, 0, IS_NUMBER) || !call_tile(c, 1, IS_NUMBER))
		return val_poison(c->place);
	Val *lo = &c->arg[0].val, *hi = &c->arg[1].val;
	Val width = elab_binary(c->e, BIN_SUB, hi, lo, c->place);
	if (is_beyond(lo, -DBL_MAX))
		return call_wrong(c, 0, "finite");
	if (is_beyond(&width, 0))
		return call_wrong(c, 1, "finite and at least lo");
	return scaled(c, unit(c->e, &w->out[0]), lo, &width);
}

Val
example_integers(Call *c)
{
	Elab *e = c->e;
	int64_t lo, hi;
	if (!call_int(c, 0, &lo) || !call_int(c, 1, &hi))
		return val_poison(c->place);
	if (lo >= hi)
		return val_error(e, c->place, DIAG_EXAMPLE_RANGE, (long long)lo, (long long)hi);
	Op *w = words(c, 2);
	if (!w)
		return val_poison(c->place);
	/* The upper half of word * range is uniform over 0 .. range-1; wide ranges take 64 bits and a remainder. */
	uint64_t range = (uint64_t)hi - (uint64_t)lo;
	Value *x = ir_convert(e, &w->out[0], TY_U64);
	if (range <= UINT64_C(1) << 32) {
		x = build2(&e->b, OP_MUL, x, build_int(&e->b, x->type, (int64_t)range));
		x = build2(&e->b, OP_SHR, x, build_int(&e->b, x->type, 32));
	} else {
		Value *low = ir_convert(e, &w->out[1], TY_U64);
		x = build2(&e->b, OP_OR, build2(&e->b, OP_SHL, x, build_int(&e->b, x->type, 32)), low);
		x = build2(&e->b, OP_REM, x, build_int(&e->b, x->type, (int64_t)range));
	}
	x = ir_convert(e, x, TY_I64);
	return val_tile(c->place, build2(&e->b, OP_ADD, x, build_int(&e->b, x->type, lo)));
}

/* Sorts random keys that carry their index in the lower half. */
Val
example_permutation(Call *c)
{
	Elab *e = c->e;
	int64_t n;
	if (!call_int(c, 0, &n) || !shape_check(e, c->arg[0].place, 1, &n))
		return val_poison(c->place);
	if (n > INT32_MAX)
		return call_wrong(c, 0, "below 2^31");
	Value *i = ir_counted(e, TY_I64, n);
	Op *w = draw(c, i);
	Value *key = ir_convert(e, build2(&e->b, OP_SHR, &w->out[0], build_int(&e->b, w->out[0].type, 1)), TY_I64);
	key = build2(&e->b, OP_SHL, key, build_int(&e->b, key->type, 32));
	key = build2(&e->b, OP_OR, key, i);
	Attr axis = attr_new_axis(e->m, 0);
	key = op_make(&e->b, OP_SORT, &key, 1, &axis, 1, NULL, 0)->out;
	return val_tile(c->place, ir_convert(e, key, TY_I32));
}

Val
example_file(Call *c)
{
	return val_error(c->e, c->place, DIAG_EXAMPLE_FILE);
}
