/* Operands of products by multiplications that a loop does not change: they go to shared memory before it, once.
 *
 *     %v = read %x, …                                     %v = read %x, …
 *                                                         put %buffer, %v
 *     for … {                                 =>          for … {
 *                                                             %g = get %buffer
 *         %d = dot %v, %b, %c                                 %d = dot %g, %b, %c     reads the buffer (plan_dot_fma.c)
 *     }                                                   }
 *     … %v …                                              %w = get %buffer    … %w …
 *
 * Else each iteration would write them to scratch, between two barriers, and threads would hold them all the time. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

#include <string.h>

static bool
is_by_multiplications(const Op *op)
{
	return op->kind == OP_DOT && !*attr_mma(op) && strcmp(attr_precision(op), "tf32") != 0 &&
	    op->out[0].type->rank == 2 && op->in[0]->type->elem == op->out[0].type->elem;
}

/* Operand i as it is before the loop around its product; NULL: the loop makes it, or it is in shared memory. */
static Value *
fixed_operand(const Op *dot, int i, bool *flipped)
{
	Op *loop = dot->home->parent;
	Value *v = dot_operand_root(dot->in[i], flipped);
	bool stays = loop && op_is_loop(loop) && v->def && v->def->home == loop->home;
	return stays && v->layout && v->def->kind != OP_GET && v->def->kind != OP_CONST ? v : NULL;
}

static Value *
get(Builder *b, Value *buffer, const Value *v)
{
	Value *out = &op_make(b, OP_GET, &buffer, 1, NULL, 0, &v->type, 1)->out[0];
	out->layout = v->layout;
	return out;
}

/* What is behind the loop takes it from the buffer, so that the loop's threads need not hold it. */
static void
get_behind(Op *loop, Value *buffer, Value *v)
{
	Value *again = NULL;
	for (Op *op = loop->next; op; op = op_after(op, loop->home))
		for (int i = 0; i < op->nin; i++) {
			if (op->in[i] != v)
				continue;
			Builder b = build_before(loop->next);
			again = again ? again : get(&b, buffer, v);
			op_set_in(op, i, again);
		}
}

static void
put_operand(Module *m, Func *f, Op *dot, int i, Value *v, bool flipped)
{
	Op *loop = dot->home->parent;
	Builder start = {.m = m, .block = f->body, .before = f->body->first, .place = v->def->place};
	Value *buffer = build0(&start, OP_ALLOC, type_buffer(m, v->type->elem, 1, v->type->rank, v->type->extent));
	Layout l = pipeline_swizzle(v->layout, v->type->elem);
	buffer->layout = layout_intern(m, &l);
	Builder b = build_before(v->def->next);
	op_make(&b, OP_PUT, (Value *[]){buffer, v}, 2, NULL, 0, NULL, 0);
	b = build_before(dot);
	Value *tile = get(&b, buffer, v);
	if (flipped) {
		const Layout *given = dot->in[i]->layout;
		int64_t dims[] = {1, 0};
		Attr a = attr_new_dims(m, dims, 2);
		tile = &op_make(&b, OP_PERMUTE, &tile, 1, &a, 1, &dot->in[i]->type, 1)->out[0];
		tile->layout = given;
	}
	op_set_in(dot, i, tile);
	get_behind(loop, buffer, v);
}

void
pipeline_fixed(Module *m, Func *f)
{
	bool flipped;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < 2 && is_by_multiplications(op); i++) {
			Value *v = fixed_operand(op, i, &flipped);
			if (v)
				put_operand(m, f, op, i, v, flipped);
		}
}
