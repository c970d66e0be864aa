/* Where iterations behind a loop's end, which some warps of a block have in its last turn, add nothing by themselves.
 *
 *     for %0, (cdiv %K, 64), %1 do (%g) {
 *         %a = read %x, %m, (mul %g, 64) …                from the end on outside of x: [M, K], so zero
 *         %w = read %weights, %n, (mul %g, 64) …          likewise; so is what it is unpacked to
 *         %p = dot %a, (cast %w), %0                      zero
 *     }
 *
 * A product or an element is zero if one factor is and the other one is finite; what memory within tensors holds may be
 * anything. */
#include "pass/share/slice_k.h"

#include <math.h>

typedef enum Known { ANYTHING, FINITE, ZERO } Known;

/* Is it cdiv(size, of), or size / of of a multiple of that? */
static bool
is_quotient(const Slice *s, const Value *v, const Value *size, int64_t *of)
{
	const Op *op = v->def;

	if (!op || (op->kind != OP_CDIV && op->kind != OP_DIV) || op->in[0] != size || !value_int(op->in[1], of) ||
	    *of <= 0)
		return false;
	int64_t multiple = s->f->param[size->index].multiple;
	return op->kind == OP_CDIV || (multiple > 0 && multiple % *of == 0);
}

/* Is the index, in an iteration from the end on, at least the tensor's dimension?  It is the loop's own times a constant,
 * from 0 on, and the end is that dimension divided by the same, or it; or both are parts of one dimension. */
static bool
is_outside(const Slice *s, const Op *read, int d)
{
	const FuncParam *p = &s->f->param[read->in[0]->index];
	const Value *index = read->in[1 + d], *end = s->loop->in[1], *size = NULL;
	int64_t by = 1, of = 1, per = 1, part = 1, extent, last;

	if (read->in[0]->def || read->in[0]->block->parent)
		return false;
	if (index->def && index->def->kind == OP_MUL && value_int(index->def->in[1], &by))
		index = index->def->in[0];
	else if (index->def && index->def->kind == OP_DIV && value_int(index->def->in[1], &part))
		index = index->def->in[0];              /* whole parts (slice_find.c) */
	if (index != &s->body->arg[0] || by <= 0 || part <= 0 || slice_period(s, read) > 1)
		return false;
	if (p->dim[d] >= 0)
		size = &s->f->body->arg[p->dim[d]];
	else if (p->part[d] > 0) {
		size = &s->f->body->arg[p->part_of[d]];
		per = p->part[d];
	}
	extent = read->in[0]->type->extent[d];
	if (size && is_quotient(s, end, size, &of))
		return by * per >= of * part;
	if (size && end == size)
		return by * per >= part;
	return extent >= 0 && value_int(end, &last) && last >= 0 && last <= INT32_MAX && last * by >= extent * part;
}

static bool
reads_zero(const Slice *s, const Op *op)
{
	int d = slice_dim(s, op), rank = op->in[0]->type->rank;
	const Attr *fill = op->nin > 1 + rank ? value_const(op->in[1 + rank]) : NULL;
	bool zeros = op->nin == 1 + rank || (fill && (fill->kind == KIND_FLOAT ? fill->f == 0 : fill->i == 0));

	return d >= 0 && zeros && is_outside(s, op, d);
}

bool
slice_masks(const Slice *s, const Op *read)
{
	return s->masks_reads && slice_dim(s, read) >= 0 && !reads_zero(s, read) &&
	    type_count(read->out[0].type) <= type_count(s->loop->out[0].type);
}

static Known
known_read(const Slice *s, const Op *op)
{
	return reads_zero(s, op) || slice_masks(s, op) ? ZERO : ANYTHING;
}

static Known
known_const(const Op *op)
{
	const Attr *a = attr_value(op);

	if (a->kind == KIND_FLOAT)
		return a->f == 0 ? ZERO : isfinite(a->f) ? FINITE : ANYTHING;
	return a->kind == KIND_INT || a->kind == KIND_BOOL ? (a->i == 0 ? ZERO : FINITE) : ANYTHING;
}

static Known
known_product(Known a, Known b)
{
	return (a == ZERO && b != ANYTHING) || (b == ZERO && a != ANYTHING) ? ZERO : ANYTHING;
}

/* Of no more bits than that, as what a mask of few bits leaves. */
static bool
is_below(const Value *v, int bits)
{
	int64_t mask;

	if (v->def && v->def->kind == OP_AND &&
	    ANY_OF(i, 2, value_int(v->def->in[i], &mask) && mask >= 0 && mask >> bits == 0))
		return true;
	return dtype_info[v->type->elem].bits <= bits;
}

/* Integers become finite floats, but for large ones in f16. */
static Known
known_cast(const Op *op, Known a)
{
	enum { F16_BITS = 15 };
	DType from = op->in[0]->type->elem, to = op->out[0].type->elem;
	bool fits = !dtype_is_float(from) && (to != TY_F16 || is_below(op->in[0], F16_BITS));

	return a == ZERO || (a == FINITE && fits) ? a : ANYTHING;
}

/* Integers are finite, whatever made them. */
static Known
known_other(const Op *op)
{
	DType elem = op->out[0].type->elem;

	return op->out[0].type->kind == TYPE_TILE && elem != TY_BOOL && !dtype_is_float(elem) ? FINITE : ANYTHING;
}

static Known
known_op(const Slice *s, const Op *op, const Known *at)
{
	Known a = op->nin > 0 ? at[op->in[0]->id] : ANYTHING, b = op->nin > 1 ? at[op->in[1]->id] : ANYTHING;
	Known other = known_other(op);

	switch (op->kind) {
	case OP_READ: return MAX(known_read(s, op), other);
	case OP_CONST: return known_const(op);
	case OP_RESHAPE: case OP_PERMUTE: case OP_BROADCAST: case OP_NEG: return a;
	case OP_CAST: return MAX(known_cast(op, a), other);
	case OP_AND: return a == ZERO || b == ZERO ? ZERO : other;
	case OP_SHR: case OP_SHL: return a == ZERO ? ZERO : other;
	case OP_MUL: return MAX(known_product(a, b), other);
	case OP_DOT: return at[op->in[2]->id] == ZERO ? known_product(a, b) : ANYTHING;
	case OP_ADD: case OP_SUB:
		if (a == ZERO && b == ZERO)
			return ZERO;
		return (a == ZERO && b == FINITE) || (a == FINITE && b == ZERO) ? FINITE : other;
	default: return other;
	}
}

/* Is what v adds to the carried sum zero? */
static bool
adds_zero(const Value *v, const Value *sum, const Known *at)
{
	const Op *op = v->def;

	if (v == sum || at[v->id] == ZERO)
		return true;
	if (!op || op->home != sum->block)
		return false;
	if (op->kind == OP_DOT)
		return known_product(at[op->in[0]->id], at[op->in[1]->id]) == ZERO && adds_zero(op->in[2], sum, at);
	return (op->kind == OP_ADD || op->kind == OP_SUB) && adds_zero(op->in[0], sum, at) && adds_zero(op->in[1], sum, at);
}

bool
slice_adds_zero(const Slice *s)
{
	Known *at = NEW_ARRAY(s->m->cx->tmp, Known, s->f->nvalues);
	bool all = true;

	for (const Op *op = s->f->body->first; op; op = op_after(op, s->f->body))
		for (int i = 0; i < op->nout; i++)
			at[op->out[i].id] = op->kind == OP_CONST ? known_const(op) : ANYTHING;
	for (int i = 0; i < s->body->narg; i++)
		at[s->body->arg[i].id] = ANYTHING;
	for (const Op *op = s->body->first; op != s->body->last; op = op->next)
		at[op->out[0].id] = known_op(s, op, at);
	for (int i = 0; i < s->loop->nout; i++)
		all &= adds_zero(s->body->last->in[i], &s->body->arg[1 + i], at);
	return all;
}
