/* Changes tile IR between two passes, so that a pass is run on IR that the passes before it do not make: constants get other
 * values, operands become other values of their type in scope, or are exchanged.
 *
 *     %3 = add %1, %2 : i32[8]          =>          %3 = add %1, %1 : i32[8]
 *
 * What comes of it is another program, which is as good as the first; but where an operand keeps a pointer in its
 * buffer or ends a loop, nothing is changed. */
#include "gen.h"

static int
draw(uint64_t *seed, int n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int)((*seed >> 33) % (uint64_t)n);
}

static bool
is_delicate(const Op *op)
{
	switch (op->kind) {
	case OP_LOAD: case OP_STORE: case OP_ATOMIC_PTR: case OP_PTR_ADD: case OP_WHILE: case OP_INLINE_PTX: return true;
	default: return false;
	}
}

static bool
change_constant(Module *m, Op *op, uint64_t *seed)
{
	const Attr *value = attr_value(op);
	if (op->kind != OP_CONST || !value)
		return false;
	if (value->kind == KIND_INT)
		op_set_attr(m, op, attr_int_value(dtype_is_unsigned(op->out[0].type->elem) ? draw(seed, 8) : draw(seed, 13) - 4));
	else if (value->kind == KIND_FLOAT)
		op_set_attr(m, op, attr_float_value((draw(seed, 33) - 16) / 4.0));
	else if (value->kind == KIND_BOOL)
		op_set_attr(m, op, attr_bool_value(!value->i));
	else
		return false;
	return true;
}

/* Some value of v's type that is there before `op`. */
static Value *
other_value(Op *op, const Value *v, uint64_t *seed)
{
	Value *found = NULL;
	int n = 0;
	for (Block *b = op->home; b; b = b->parent ? b->parent->home : NULL) {
		for (int i = 0; i < b->narg; i++)
			if (b->arg[i].type == v->type && draw(seed, ++n) == 0)
				found = &b->arg[i];
		const Op *end = op;
		while (end->home != b)
			end = end->home->parent;
		for (Op *o = b->first; o != end; o = o->next)
			for (int i = 0; i < o->nout; i++)
				if (o->out[i].type == v->type && draw(seed, ++n) == 0)
					found = &o->out[i];
	}
	return found;
}

static bool
change_op(Module *m, Op *op, uint64_t *seed)
{
	if (change_constant(m, op, seed))
		return true;
	if (op->nin == 0)
		return false;
	int i = draw(seed, op->nin);
	if (i > 0 && op->in[i]->type == op->in[i - 1]->type && draw(seed, 3) == 0) {
		Value *keep = op->in[i];
		op_set_in(op, i, op->in[i - 1]);
		op_set_in(op, i - 1, keep);
		return true;
	}
	Value *v = other_value(op, op->in[i], seed);
	if (!v || v == op->in[i])
		return false;
	op_set_in(op, i, v);
	return true;
}

/* Constants as they were made, and dimensions, end a loop soon. */
static bool
ends_soon(const Value *v)
{
	const Attr *value = value_const(v);
	return value && value->kind == KIND_INT && value->i >= -64 && value->i <= 64;
}

/* Loops whose bounds are others now go around a few times at most. */
static void
end_loops(Module *m, Block *body)
{
	for (Op *op = body->first; op; op = op_after(op, body)) {
		for (int i = 0; op->kind == OP_FOR && i < 2; i++) {
			Builder b = {.m = m, .block = op->home, .before = op, .place = op->place};
			Value *v = op->in[i];
			if (ends_soon(v))
				continue;
			v = build2(&b, OP_MIN, v, build_int(&b, v->type, 12));
			op_set_in(op, i, build2(&b, OP_MAX, v, build_int(&b, v->type, -12)));
		}
	}
}

int
gen_mutate(Module *m, uint64_t seed)
{
	Block *body = m->funcs.at[0]->body;
	int nops = 0, done = 0;
	for (Op *op = body->first; op; op = op_after(op, body)) {
		if (is_delicate(op))
			return 0;
		nops++;
	}
	for (int n = 1 + draw(&seed, 5); n > 0 && nops > 0; n--) {
		Op *op = body->first;
		for (int at = draw(&seed, nops); at > 0; at--)
			op = op_after(op, body);
		done += change_op(m, op, &seed);
	}
	end_loops(m, body);
	func_number(m->funcs.at[0]);
	return done;
}
