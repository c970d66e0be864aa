/* Operands of simdgroups' products stand in buffers of their own until the product has read them, so that it loads a
 * fragment when it needs it, and no lane holds a tile's fragments at once.
 *
 *     %d = convert %a : bf16[64, 32] #2            %s = alloc : buffer<1 x bf16[64, 32]> #7       matrices of 8 x 8
 *     %e = convert %b : bf16[32, 64] #3            put %s, %a
 *     %p = dot %d, %e, %c                          %r = alloc : buffer<1 x bf16[32, 64]> #8
 *                                        =>        put %r, %b
 *                                                  %d = get %s : bf16[64, 32] #2
 *                                                  %e = get %r : bf16[32, 64] #3
 *                                                  %p = dot %d, %e, %c
 *
 * A conversion that goes through shared memory has two barriers of its own; two such operands of a product in a loop have
 * two an iteration together.  An operand that is converted before a loop, as the queries of attention, is read in each
 * iteration: llama.cpp and MLX do so too.  What does not fit into shared memory stays as it is.
 *
 * An operand that is cast or permuted behind such a conversion, as weights of 4 bits, is cast and permuted before it: by
 * one thread, where each simdgroup that has its rows would do it again.
 *
 *     %c = convert %w : i4[64, 64] #2               %v = cast %w : f16[64, 64] #1
 *     %v = cast %c : f16[64, 64] #2         =>      %b = permute %v {dims = [1, 0]} : f16[64, 64] #9
 *     %b = permute %v : f16[64, 64] #3              %d = convert %b : f16[64, 64] #3
 */
#include "ir/derive.h"
#include "model/model.h"
#include "pass/pass.h"

enum { PRODUCTS_MOST = 4, CHAIN_MOST = 4 };             /* that read one tile; ops from a conversion to its product */

/* Does a product of simdgroups have v as an operand that it multiplies? */
static bool
multiplies(const Op *op, const Value *v)
{
	MmaPlan p;
	return op->kind == OP_DOT && (op->in[0] == v || op->in[1] == v) && op->in[2] != v && plan_mma(op, &p);
}

/* Are all uses those of such products?  Then they are in `dots`. */
static int
find_products(const Func *f, const Value *v, Op **dots, int most)
{
	int n = 0;
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (!op_uses(op, v))
			continue;
		if (n == most || !multiplies(op, v))
			return 0;
		dots[n++] = op;
	}
	return value_uses_in(v, f->body) == v->nuses ? n : 0;
}

static bool
goes_through_8x8(const Op *c)
{
	int stride;
	bool transposed;
	F2 to;
	const Value *v = &c->out[0];
	int rank = v->type->rank;
	if (rank < 2 || MIN(v->layout->out[rank - 2], v->layout->out[rank - 1]) < 3)        /* 8 x 8 */
		return false;
	if (!convert_scratch(c->in[0]->layout, v->layout, element_bytes(v->type)))
		return false;
	Layout matrices = layout_8x8(rank, v->layout->out);
	return layout_fits_8x8(v->layout, &matrices, &to, &stride, &transposed);
}

static void
use(Op *dot, const Value *v, Value *instead)
{
	for (int i = 0; i < 2; i++)
		if (dot->in[i] == v)
			op_set_in(dot, i, instead);
}

/* A tile in a buffer, and what its products get from there. */
typedef struct Put {
	Op *op, *dots[PRODUCTS_MOST], *gets[PRODUCTS_MOST];
	int n;
} Put;

static void
put_once(Module *m, const Value *v, Builder b, Value *from, Put *p)
{
	const Type *tile = v->type;
	Layout matrices = layout_8x8(tile->rank, v->layout->out);
	Value *slot = build0(&b, OP_ALLOC, type_buffer(m, tile->elem, 1, tile->rank, tile->extent));
	slot->layout = layout_intern(m, &matrices);
	p->op = op_make(&b, OP_PUT, (Value *[]){slot, from}, 2, NULL, 0, NULL, 0);
	for (int i = 0; i < p->n; i++) {
		b = build_before(p->dots[i]);
		p->gets[i] = op_make(&b, OP_GET, &slot, 1, NULL, 0, &tile, 1);
		p->gets[i]->out[0].layout = v->layout;
		use(p->dots[i], v, &p->gets[i]->out[0]);
	}
}

/* As it was. */
static void
convert_again(Put *p)
{
	Builder b = build_before(p->op);
	Op *alloc = p->op->in[0]->def, *first = p->gets[0];
	Value *v = build1(&b, OP_CONVERT, p->op->in[1], first->out[0].type);
	v->layout = first->out[0].layout;
	for (int i = 0; i < p->n; i++) {
		use(p->dots[i], &p->gets[i]->out[0], v);
		op_erase(p->gets[i]);
	}
	op_erase(p->op);
	op_erase(alloc);
}

/* True: the conversion goes through a buffer now. */
static bool
visit(Func *f, const Target *t, Op *c)
{
	Put p;
	p.n = goes_through_8x8(c) ? find_products(f, &c->out[0], p.dots, PRODUCTS_MOST) : 0;
	if (p.n == 0)
		return false;
	put_once(f->module, &c->out[0], build_before(c), c->in[0], &p);
	op_erase(c);
	if (smem_bytes(f, t) <= t->shared_bytes)
		return true;
	convert_again(&p);
	return false;
}

/* Of a product's operand: the conversion behind which it is only cast and permuted, each with one use; or NULL. */
static Op *
convert_after(const Value *operand)
{
	const Value *v = operand;
	for (int n = 1; n < CHAIN_MOST && v->def && v->nuses == 1; n++) {
		if (v->def->kind != OP_CAST && v->def->kind != OP_PERMUTE)
			break;
		v = v->def->in[0];
	}
	bool is_lone = v != operand && v->def && v->nuses == 1 && v->def->kind == OP_CONVERT;
	return is_lone ? v->def : NULL;
}

static const Layout *
layout_after(Module *m, const Op *op, const Layout *l)
{
	if (op->kind == OP_CAST)
		return l;
	int dims[LAYOUT_RANK] = {0};
	const IntList *a = attr_dims(op);
	for (int d = 0; d < a->n; d++)
		dims[d] = (int)a->at[d];
	Layout p = layout_permute(l, dims);
	return layout_intern(m, &p);
}

/* Clones what stands between the conversion and v, before it; its layouts follow from that of what is converted. */
static Value *
moved_before(Builder *b, Module *m, const Op *c, const Value *v)
{
	if (v == &c->out[0])
		return c->in[0];
	Value *in = moved_before(b, m, c, v->def->in[0]);
	b->place = v->def->place;
	return value_with_layout(build_like(b, v->def, &in, v->type), layout_after(m, v->def, in->layout));
}

static void
erase_until(Op *op, const Op *first)
{
	while (op != first) {
		Op *before = op->in[0]->def;
		op_erase(op);
		op = before;
	}
}

/* What stands from the conversion to v gets the layouts of its clones, or those that it had. */
static void
lay_out(Value *v, const Value *clone, Op *c, const Layout *kept[CHAIN_MOST], bool as_clones)
{
	for (int i = 0;; i++) {
		if (as_clones)
			kept[i] = v->layout;
		v->layout = as_clones ? clone->layout : kept[i];
		if (v == &c->out[0])
			return;
		v = v->def->in[0];
		clone = clone == c->in[0] ? clone : clone->def->in[0];
	}
}

/* The conversion of a product's operand comes last, if it can then go through matrices. */
static void
convert_last(Func *f, const Target *t, Op *dot, int i)
{
	MmaPlan p;
	Op *c = plan_mma(dot, &p) ? convert_after(dot->in[i]) : NULL;
	if (!c || !convert_scratch(c->in[0]->layout, c->out[0].layout, element_bytes(c->out[0].type)))
		return;
	Value *operand = dot->in[i];
	Builder b = build_before(c);
	Value *moved = moved_before(&b, f->module, c, operand);
	Value *last = build1(&b, OP_CONVERT, moved, operand->type);
	last->layout = operand->layout;
	op_set_in(dot, i, last);
	const Layout *kept[CHAIN_MOST];
	lay_out(operand, moved, c, kept, true);         /* takes no shared memory while it is not used */
	if (goes_through_8x8(last->def) && visit(f, t, last->def)) {
		erase_until(operand->def, c->in[0]->def);
		return;
	}
	lay_out(operand, moved, c, kept, false);
	last = dot->in[i];                              /* another one, where it had been in a buffer */
	op_set_in(dot, i, operand);
	erase_until(last->def, c->in[0]->def);
}

void
pass_simdgroup(Func *f, const Target *t)
{
	if (!(t->has & HAS_SIMDGROUP_MATRIX))
		return;
	for (EACH_OP(op, f->body)) {
		for (int k = 0; k < 2 && op->kind == OP_DOT; k++)
			convert_last(f, t, op, k);
		if (op->kind == OP_CONVERT)
			visit(f, t, op);
	}
}
