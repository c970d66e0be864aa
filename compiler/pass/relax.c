/* Lets f32 arithmetic be approximate where no one can see it: a division, exponential or root whose result only ever
 * becomes a float of 16 bits or fewer takes the hardware's approximation ({fast}).
 *
 *     %e = exp %x : f32[64]                        %e = exp %x {fast = true} : f32[64]
 *     %d = add %one, %e : f32[64]             =>   %d = add %one, %e : f32[64]
 *     %s = div %x, %d : f32[64]                    %s = div %x, %d {fast = true} : f32[64]
 *     %y = cast %s : bf16[64]                      %y = cast %s : bf16[64]
 *
 * The approximations are good to a few units in the last place of f32 (exp: to 2^-17 of its value), the rounding that
 * follows loses 2^-12 of it and more.  What stands between must carry a small relative error on as a small relative
 * error: products, quotients, roots, choices and moves do; a sum does if its terms have one sign, for else they may
 * cancel and leave the error alone.  A loop's carried values and stores of f32 end the search.  A tile that is divided by
 * few numbers is multiplied by their inverses. */
#include "pass/pass.h"

#include <string.h>

/* Known not to be negative (a NaN may pass). */
static bool
is_positive(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth > 8)
		return false;
	switch (op->kind) {
	case OP_EXP: case OP_EXP2: case OP_ABS: case OP_SIGMOID: case OP_SQRT: case OP_RSQRT:
		return true;
	case OP_CONST: {
		const Attr *a = op_attr(op, "value");
		return a->kind == ATTR_FLOAT && a->f >= 0;
	}
	case OP_MUL:
		if (op->in[0] == op->in[1])
			return true;
		break;
	case OP_ADD: case OP_DIV: case OP_MIN: case OP_MAX: case OP_CAST: case OP_RESHAPE: case OP_PERMUTE:
	case OP_BROADCAST: case OP_CONVERT:
		break;
	case OP_REDUCE:
		if (strcmp(op_text(op, "fn"), "sum") != 0 && strcmp(op_text(op, "fn"), "max") != 0)
			return false;
		break;
	default:
		return false;
	}
	for (int i = 0; i < op->nin; i++)
		if (!is_positive(op->in[i], depth + 1))
			return false;
	return true;
}

/* A value's flag while the pass runs: someone needs all of its bits.  In Value.id. */
static bool
is_exact(const Value *v)
{
	return v->id != 0;
}

static bool
is_f32(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE && v->type->elem == TY_F32;
}

/* Does op's use of operand i put up with a small relative error? */
static bool
tolerates(const Op *op, int i)
{
	switch (op->kind) {
	case OP_CAST:
		return dtype_is_float(op->out->type->elem) && dtype_info[op->out->type->elem].bits <= 16;
	case OP_SELECT:
		return i > 0 && !is_exact(op->out);
	case OP_REDUCE:
		return !is_exact(op->out) && is_positive(op->out, 0);
	case OP_ADD:
		return !is_exact(op->out) && is_positive(op->in[0], 0) && is_positive(op->in[1], 0);
	case OP_MUL: case OP_DIV: case OP_NEG: case OP_ABS: case OP_MIN: case OP_MAX: case OP_SQRT: case OP_RSQRT:
	case OP_RESHAPE: case OP_PERMUTE: case OP_BROADCAST: case OP_CONVERT: case OP_FLIP:
		return !is_exact(op->out);
	default:
		return false;
	}
}

static bool
has_approximation(OpKind k)
{
	return k == OP_DIV || k == OP_EXP || k == OP_EXP2 || k == OP_SQRT || k == OP_RSQRT || k == OP_SIGMOID;
}

/* Many elements divided by one: by its inverse, which is computed once. */
static void
invert_divisor(Module *m, Op *op)
{
	Op *spread = op->kind == OP_DIV && op->out->type->rank > 0 ? op->in[1]->def : NULL;
	if (!spread || spread->kind != OP_BROADCAST || type_count(spread->in[0]->type) * 4 > type_count(op->out->type))
		return;
	Builder b = {.m = m, .block = op->home, .before = op, .place = op->place};
	Value *divisor = spread->in[0], *one = build_float(&b, divisor->type, 1.0);
	Value *inverse = build2(&b, OP_DIV, one, divisor);
	Value *all = build1(&b, OP_BROADCAST, inverse, op->out->type);
	value_replace(op->out, build2(&b, OP_MUL, op->in[0], all));
}

/* Users stand behind what they use, so the walk goes backwards: a result's flag is final when its op is reached. */
static void
walk(Module *m, Block *b)
{
	for (Op *op = b->last; op; op = op->prev) {
		for (int r = op->nregion - 1; r >= 0; r--)
			walk(m, op->region[r]);
		bool relaxes = has_approximation(op->kind) && op->out->nuses > 0 && is_f32(op->out) && !is_exact(op->out);
		if (relaxes) {
			op_set_attr(m, op, attr_bool(m, "fast", true));
			invert_divisor(m, op);
		}
		for (int i = 0; i < op->nin; i++)
			if (!tolerates(op, i))
				op->in[i]->id = 1;
	}
}

static void
clear(Block *b)
{
	for (Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nout; i++)
			op->out[i].id = 0;
}

void
pass_relax(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n; i++) {
		clear(m->funcs.at[i]->body);
		walk(m, m->funcs.at[i]->body);
	}
}
