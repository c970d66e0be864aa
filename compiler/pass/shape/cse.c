/* Common subexpressions for simplify: a scoped table of the ops in sight, by what they compute.
 *
 * Pure ops without regions enter it, and reads and loads with the count of writes before them
 * (`epoch`): a read equals an earlier one only if nothing in between may have written anywhere.
 * Regions nest, so what a region added leaves in the reverse order when the walk leaves it. */
#include "pass/shape/simplify.h"

#include <string.h>

typedef struct Entry {
	Op *op;
	uint64_t hash;
	int epoch;
	int next;                                       /* in the bucket, or -1 */
} Entry;

struct Seen {
	Arena *tmp;
	VEC(Entry) all;
	int *bucket;                                    /* head of each chain, or -1 */
	int nbuckets;                                   /* a power of two */
};

Seen *
seen_open(Arena *tmp)
{
	Seen *n = NEW(tmp, Seen);

	n->tmp = tmp;
	return n;
}

static void
enter(Seen *n, int i)
{
	int *head = &n->bucket[n->all.at[i].hash & (uint64_t)(n->nbuckets - 1)];

	n->all.at[i].next = *head;
	*head = i;
}

static void
grow(Seen *n)
{
	n->nbuckets = n->nbuckets ? n->nbuckets * 2 : 256;
	n->bucket = NEW_ARRAY(n->tmp, int, n->nbuckets);
	for (int i = 0; i < n->nbuckets; i++)
		n->bucket[i] = -1;
	for (int i = 0; i < n->all.n; i++)
		enter(n, i);
}

int
seen_enter(Seen *n)
{
	return n->all.n;
}

void
seen_leave(Seen *n, int mark)
{
	while (n->all.n > mark) {
		Entry e = vec_pop(&n->all);
		n->bucket[e.hash & (uint64_t)(n->nbuckets - 1)] = e.next;
	}
}

static uint64_t
mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 31;
}

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
	uint64_t h = mix((uint64_t)a->kind, (uint64_t)a->name), bits;

	memcpy(&bits, &a->f, sizeof bits);
	h = mix(h, a->kind == KIND_FLOAT ? bits : (uint64_t)a->i);
	for (int i = 0; a->kind == KIND_INTS && i < a->ints.n; i++)
		h = mix(h, (uint64_t)a->ints.at[i]);
	return h;
}

static uint64_t
hash(const Op *op)
{
	uint64_t h = mix(17, (uint64_t)op->kind), attrs = 0;

	if (op->nin >= 2 && commutes(op)) {
		uint64_t a = (uint64_t)(uintptr_t)op->in[0], b = (uint64_t)(uintptr_t)op->in[1];
		h = mix(mix(h, MIN(a, b)), MAX(a, b));
	} else {
		for (int i = 0; i < op->nin; i++)
			h = mix(h, (uint64_t)(uintptr_t)op->in[i]);
	}
	for (int i = 0; i < op->nattr; i++)
		attrs += hash_attr(&op->attr[i]);
	for (int i = 0; i < op->nout; i++)
		h = mix(h, (uint64_t)(uintptr_t)op->out[i].type);
	return mix(h, attrs);
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
seen_match(Seen *n, Op *op, int epoch)
{
	unsigned traits = op_info[op->kind].traits;
	bool reads = traits & READS;

	if (op->nout == 0 || (traits & (WRITES | EFFECT | REGION)) || !(traits & (PURE | READS)))
		return NULL;
	if (n->all.n >= n->nbuckets)
		grow(n);
	uint64_t h = hash(op);
	for (int i = n->bucket[h & (uint64_t)(n->nbuckets - 1)]; i >= 0; i = n->all.at[i].next) {
		const Entry *e = &n->all.at[i];
		if (e->hash == h && (!reads || e->epoch == epoch) && same(e->op, op))
			return e->op;
	}
	Entry e = {op, h, epoch, -1};
	vec_push(n->tmp, &n->all, e);
	enter(n, n->all.n - 1);
	return NULL;
}
