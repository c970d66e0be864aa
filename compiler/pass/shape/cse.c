/* Common subexpressions for simplify: a scoped table of the ops in sight, by what they compute.
 *
 * Pure ops without regions enter it, and reads and loads with the count of writes before them
 * (`epoch`): a read equals an earlier one only if nothing in between may have written anywhere.
 * Regions nest, so what a region added leaves in the reverse order when the walk leaves it. */
#include "pass/shape/simplify.h"

#include <string.h>

/* May the first two operands be swapped without a change of bits?  min and max of floats may not: they
 * differ on zeros of two signs. */
static bool
commutes(const Op *op)
{
	if (!(op_info[op->kind].traits & COMM))
		return false;
	return !dtype_is_float(op->in[0]->type->elem) || (op->kind != OP_MIN && op->kind != OP_MAX);
}

static uint64_t
hash_attr(const Attr *a)
{
	uint64_t h = hash_mix((uint64_t)a->kind, (uint64_t)a->name), bits;

	memcpy(&bits, &a->f, sizeof bits);
	h = hash_mix(h, a->kind == KIND_FLOAT ? bits : (uint64_t)a->i);
	for (int i = 0; a->kind == KIND_INTS && i < a->ints.n; i++)
		h = hash_mix(h, (uint64_t)a->ints.at[i]);
	return h;
}

static uint64_t
hash(const Op *op)
{
	uint64_t h = hash_mix(17, (uint64_t)op->kind), attrs = 0;

	if (op->nin >= 2 && commutes(op)) {
		uint64_t a = (uint64_t)(uintptr_t)op->in[0], b = (uint64_t)(uintptr_t)op->in[1];
		h = hash_mix(hash_mix(h, MIN(a, b)), MAX(a, b));
	} else {
		for (int i = 0; i < op->nin; i++)
			h = hash_mix(h, (uint64_t)(uintptr_t)op->in[i]);
	}
	for (int i = 0; i < op->nattr; i++)
		attrs += hash_attr(&op->attr[i]);
	for (int i = 0; i < op->nout; i++)
		h = hash_mix(h, (uint64_t)(uintptr_t)op->out[i].type);
	return hash_mix(h, attrs);
}

static bool
same_operands(const Op *a, const Op *b)
{
	if (a->nin >= 2 && commutes(a) && a->in[0] == b->in[1] && a->in[1] == b->in[0])
		return a->nin == 2;
	return ALL_OF(i, a->nin, a->in[i] == b->in[i]);
}

static bool
same(const Op *a, const Op *b)
{
	if (a->kind != b->kind || a->nin != b->nin || a->nout != b->nout ||
	    !same_operands(a, b))
		return false;
	return ALL_OF(i, a->nout, a->out[i].type == b->out[i].type && a->out[i].layout == b->out[i].layout) &&
	    attrs_same(a, b);
}

Op *
simplify_seen(Simplify *s, Op *op)
{
	unsigned traits = op_info[op->kind].traits;
	bool reads = traits & READS;

	if (op->nout == 0 || (traits & (WRITES | EFFECT | REGION)) || !(traits & (PURE | READS)))
		return NULL;
	uint64_t h = hash(op);
	const HashEntry *is = TABLE_FIND(e, &s->seen, h, (!reads || e->tag == s->epoch) && same(e->of, op));
	if (!is)
		table_add(s->tmp, &s->seen, h, op, s->epoch);
	return is ? is->of : NULL;
}
