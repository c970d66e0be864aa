/* Operands of products by multiplications that a loop does not change, or that several products of a block have: they go to
 * shared memory once, before the loop or where they are computed.
 *
 *     %v = read %x, …                                     %v = read %x, …
 *                                                         put %buffer, %v
 *     for … {                                 =>          for … {
 *                                                             %g = get %buffer
 *         %d = dot %v, %b, %c                                 %d = dot %g, %b, %c     reads the buffer (plan_dot_fma.c)
 *     }                                                   }
 *     … %v …                                              %w = get %buffer    … %w …
 *
 * Else each iteration, or each product, would write them to scratch, between two barriers, and threads would hold them all
 * the time.  With a product's one operand the other one goes too: what is in slots needs no scratch. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

#include <string.h>

/* Bytes of operands that several products of a block have; of small scratch beside a large one (pass smem). */
enum { SHARED_BYTES = 48 << 10, APART = 4096 };

static bool
is_by_multiplications(const Op *op)
{
	return op->kind == OP_DOT && !*attr_mma(op) && strcmp(attr_precision(op), "tf32") != 0 &&
	    op->out[0].type->rank == 2 && op->in[0]->type->elem == op->out[0].type->elem;
}

/* Operand i as it is before it is transposed, if it can go to a buffer. */
static Value *
root_of(const Op *dot, int i, bool *flipped)
{
	Value *v = dot_operand_root(dot->in[i], flipped);
	return v->def && v->layout && v->def->kind != OP_GET && v->def->kind != OP_CONST ? v : NULL;
}

/* Operand i as it is before the loop around its product; NULL: the loop makes it, or it is in shared memory. */
static Value *
fixed_operand(const Op *dot, int i, bool *flipped)
{
	Op *loop = dot->home->parent;
	Value *v = root_of(dot, i, flipped);
	return v && loop && op_is_loop(loop) && v->def->home == loop->home ? v : NULL;
}

/* The buffer with v; NULL: none, yet. */
static Value *
buffer_of(const Value *v)
{
	for (const Op *op = v->def->next; op && op->kind == OP_PUT; op = op->next)      /* others: of the same op */
		if (op->in[1] == v && op->in[0]->def->kind == OP_ALLOC)
			return op->in[0];
	return NULL;
}

/* Do several operands of products of the dot's block come from v? */
static bool
is_shared(const Op *dot, const Value *v)
{
	int n = 0;
	bool flipped;
	for (const Op *op = dot->home->first; op; op = op->next)
		for (int i = 0; i < 2 && is_by_multiplications(op); i++)
			n += dot_operand_root(op->in[i], &flipped) == v;
	return n > 1 || buffer_of(v);
}

static Value *
get(Builder *b, Value *buffer, const Value *v)
{
	return value_with_layout(op_make(b, OP_GET, &buffer, 1, NULL, 0, &v->type, 1)->out, v->layout);
}

/* What is behind the loop takes it from the buffer, so that the loop's threads need not hold it. */
static void
get_after(Op *loop, Value *buffer, Value *v)
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

/* As rings have them; but where products read along K and lanes have rows some apart, as many as a thread holds, it is by
 * the number of such a group of rows that chunks change places. */
static Layout
lie_in_slot(const Target *t, const Block *b, const Value *v)
{
	const Layout *l = v->layout;
	int fast = pipeline_fast_dim(l, 1), vector = log2_ceil(16 / element_bytes(v->type)), apart = 0;
	for (const Op *op = b->first; op; op = op->next)
		for (int i = 0; i < 2 && is_by_multiplications(op); i++) {
			bool flipped;
			FmaPlan p;
			if (dot_operand_root(op->in[i], &flipped) != v || fast != ((i == 0) != flipped))
				continue;
			plan_fma(op, t, &p);
			apart = MAX(apart, p.side[i].nregs);
		}
	if (apart == 0 || l->out[fast] <= vector)
		return pipeline_swizzle(l, v->type->elem, 0);
	return layout_swizzled(2, l->out, (int[LAYOUT_RANK]){fast, 1 - fast}, vector, apart, MIN(l->out[fast] - vector, 3));
}

/* The product takes v, operand i of it, from a buffer with it. */
static void
take_from_buffer(Func *f, const Target *t, Op *dot, int i, Value *v, bool flipped)
{
	Module *m = f->module;
	Builder start = {.m = m, .block = f->body, .before = f->body->first, .place = v->def->place};
	Value *buffer = buffer_of(v);
	Builder b = build_before(v->def->next);
	if (!buffer) {
		buffer = build0(&start, OP_ALLOC, type_buffer(m, v->type->elem, 1, v->type->rank, v->type->extent));
		Layout l = lie_in_slot(t, dot->home, v);
		buffer->layout = layout_intern(m, &l);
		op_make(&b, OP_PUT, (Value *[]){buffer, v}, 2, NULL, 0, NULL, 0);
	}
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
	if (dot->home != v->block)
		get_after(dot->home->parent, buffer, v);
}

/* Does the op stand before the other one, of its block? */
static bool
precedes(const Op *op, const Op *other)
{
	while (op && op != other)
		op = op->next;
	return op != NULL;
}

/* Is there room for so many bytes more, beside rings, buffers and the scratch of what needs most? */
static bool
has_room(Func *f, const Target *t, const Op *dot, int64_t more)
{
	int64_t scratch = 0;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		scratch = MAX(scratch, plan_op(op, t).scratch);
	return more + scratch + APART <= scratch_limit(dot, t);
}

/* A product with an operand that others of its block have: both come from buffers, as long as these are small.  The last
 * one that is put is got first: a barrier before that is for both, and none stands between a get and the product. */
static void
share(Func *f, const Target *t, Op *dot, int64_t *bytes)
{
	bool flipped[2];
	Value *v[2] = {root_of(dot, 0, &flipped[0]), root_of(dot, 1, &flipped[1])};
	if (!v[0] || !v[1] || !(is_shared(dot, v[0]) || is_shared(dot, v[1])))
		return;
	int64_t more = SUM_OF(int64_t, i, v[0] == v[1] ? 1 : 2, buffer_of(v[i]) ? 0 : tile_bytes(v[i]->type));
	if (*bytes + more > SHARED_BYTES || (more > 0 && !has_room(f, t, dot, more)))
		return;
	*bytes += more;
	int first = v[0]->block == v[1]->block && precedes(v[0]->def, v[1]->def);
	take_from_buffer(f, t, dot, first, v[first], flipped[first]);
	take_from_buffer(f, t, dot, !first, v[!first], flipped[!first]);
}

void
pipeline_fixed(Func *f, const Target *t)
{
	bool flipped;
	int64_t bytes = 0;
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		for (int i = 0; i < 2 && is_by_multiplications(op); i++) {
			Value *v = fixed_operand(op, i, &flipped);
			if (v)
				take_from_buffer(f, t, op, i, v, flipped);
		}
		if (is_by_multiplications(op))
			share(f, t, op, &bytes);
	}
}
