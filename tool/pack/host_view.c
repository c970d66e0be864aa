/* Views: values without memory of their own, computed where they are read.
 *
 *     %2 = broadcast %1 : f32[4, 8]        with %1 : f32[4, 1] in m->v1
 *
 *     const int n7 = i / 8 % 4;            element i of %2 is m->v1[n7]
 *
 * Constants, indices, and all that only rearranges elements are views.  A view of a tile in the room stays right as long as
 * that does: arrays are written once in each run of their block, and what a loop carries is copied at its end. */
#include "tool/pack/host.h"

#include <string.h>

bool
host_is_view(const Op *op)
{
	switch (op->kind) {
	case OP_CONST: case OP_IOTA: case OP_RESHAPE: case OP_CONVERT: case OP_PERMUTE: case OP_BROADCAST: case OP_FLIP:
	case OP_SPLIT: case OP_EXTRACT: case OP_JOIN:
		return true;
	default: return false;
	}
}

static int64_t
below(const Type *t, int d)
{
	int64_t n = 1;
	for (int i = d + 1; i < t->rank; i++)
		n *= t->extent[i];
	return n;
}

/* Dimension k of element `at` of a tile. */
static const char *
index_of(Host *h, const Type *t, int k, const char *at)
{
	int64_t n = below(t, k);
	if (t->extent[k] == 1)
		return "0";
	const char *e = n == 1 ? at : arena_printf(h->mem, "%s / %d", at, (int)n);
	return k == 0 ? e : arena_printf(h->mem, "%s %% %d", e, (int)t->extent[k]);
}

static void
add_term(Host *h, Text *sum, const char *index, int64_t scale)
{
	if (scale == 0 || strcmp(index, "0") == 0)
		return;
	text_printf(sum, scale == 1 ? "%s(%s)" : "%s(%s) * %d", sum->n ? " + " : "", index, (int)scale);
}

/* The operand's dimension that dimension k of the result walks along; -1: none. */
static int
source_of(const Op *op, int k)
{
	const Type *in = op->in[0]->type, *out = op->out[0].type;
	if (op->kind == OP_PERMUTE)
		return (int)attr_dims(op)->at[k];
	if (op->kind == OP_BROADCAST)
		return in->rank > 0 && in->extent[k] == out->extent[k] ? k : -1;
	if (op->kind != OP_EXTRACT)
		return k;
	const char *index = attr_index(op);
	for (int d = 0, at = 0; d < in->rank; d++)
		if (index[d] == 'p' && at++ == k)
			return d;
	return -1;
}

/* extract's starts, moved into the tile. */
static void
add_starts(Host *h, const Op *op, Text *sum)
{
	const Type *in = op->in[0]->type, *out = op->out[0].type;
	const char *index = attr_index(op);
	for (int d = 0, k = 0; d < in->rank; d++) {
		int64_t n = index[d] == 'p' ? out->extent[k++] : 1;
		add_term(h, sum, arena_printf(h->mem, "tgh_start(%s, %d)", host_scalar(h, op->in[1 + d]),
		    (int)(in->extent[d] - n)), below(in, d));
	}
}

static const char *
rearranged(Host *h, const Value *v, const char *at)
{
	const Op *op = v->def;
	const Type *in = op->in[0]->type;
	Text sum = {0};
	int flipped = op->kind == OP_FLIP ? (int)attr_axis(op) : -1;
	if (op->kind == OP_EXTRACT)
		add_starts(h, op, &sum);
	for (int k = 0; k < v->type->rank; k++) {
		int d = source_of(op, k);
		if (d < 0)
			continue;
		const char *i = index_of(h, v->type, k, at);
		if (d == flipped)
			i = arena_printf(h->mem, "%d - (%s)", (int)in->extent[d] - 1, i);
		add_term(h, &sum, i, below(in, d));
	}
	if (op->kind == OP_SPLIT)
		add_term(h, &sum, arena_printf(h->mem, "%d", v->index), v->index);
	const char *name = "0";
	if (sum.n) {
		name = host_fresh(h, "n");
		host_line(h, "const int %s = (int)(%s);", name, sum.at);
	}
	text_close(&sum);
	return host_at(h, op->in[0], name);
}

static const char *
iota(Host *h, const Op *op, const char *at)
{
	const Type *t = op->out[0].type;
	return arena_printf(h->mem, "((%s)(%s))", host_type(t), index_of(h, t, (int)attr_axis(op), at));
}

static const char *
joined(Host *h, const Op *op, const char *at)
{
	const char *half = host_fresh(h, "n");
	host_line(h, "const int %s = (%s) / 2;", half, at);
	const char *a = host_at(h, op->in[0], half), *b = host_at(h, op->in[1], half);
	return arena_printf(h->mem, "((%s) %% 2 ? %s : %s)", at, b, a);
}

const char *
host_at(Host *h, const Value *v, const char *at)
{
	const HostValue *x = &h->value[v->id];
	const Op *op = v->def;
	if (x->kind == HOST_LOCAL)
		return x->name;
	if (x->kind == HOST_ARRAY)
		return arena_printf(h->mem, "%s[%s]", x->name, at);
	if (!op || !host_is_view(op)) {
		host_lacks(h, op ? op_info[op->kind].text : "a parameter as a value");
		return "0";
	}
	switch (op->kind) {
	case OP_CONST: return host_literal(h, v->type->elem, attr_value(op));
	case OP_IOTA: return iota(h, op, at);
	case OP_RESHAPE: case OP_CONVERT: return host_at(h, op->in[0], at);
	case OP_JOIN: return joined(h, op, at);
	default: return rearranged(h, v, at);
	}
}

const char *
host_scalar(Host *h, const Value *v)
{
	return host_at(h, v, "0");
}

const char *
host_dense(Host *h, const Value *v)
{
	const Value *base = v;
	while (base->def && h->value[base->id].kind == HOST_NONE &&
	       (base->def->kind == OP_RESHAPE || base->def->kind == OP_CONVERT))
		base = base->def->in[0];
	if (h->value[base->id].kind == HOST_ARRAY)
		return h->value[base->id].name;
	const char *to = host_array(h, host_type(v->type), type_count(v->type));
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(v->type));
	const char *e = host_at(h, v, "i");
	host_line(h, "%s[i] = %s;", to, e);
	host_close(h);
	return to;
}
