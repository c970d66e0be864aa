/* Long functions of an index, or of few integers that follow from indices, become tables: twiddle factors, angles and
 * decays of positions.
 *
 *     %i = iota {axis = 1} : i32[16, 8]                %i = iota {axis = 1} : i32[16, 8]
 *     %f = cast %i : f32[16, 8]                   =>   %c = lookup %i {bits = [1065353216, 1064076126, …]} : f32[16, 8]
 *     %a = mul %f, -pi / 8 : f32[16, 8]
 *     %c = cos %a : f32[16, 8]
 *
 * Of several indices the table is of an integer between, of which the range is known:
 *
 *     %r = rem (mul %i, %j), 32 : i32[32, 32]          %c = lookup %r {bits = …} : f32[32, 32]          32 elements
 *     %a = mul (cast %r), -pi / 16 : f32[32, 32] =>
 *     %c = cos %a : f32[32, 32]
 *
 * What is looked up and converted is looked up as converted.
 *
 * A sine takes 25 instructions and more, and a branch for great angles; an element of a table one load, which the L1 cache
 * serves.  The table has the interpreter's values, which are within the error that the function may have. */
#include "ir/derive.h"
#include "num/num.h"
#include "pass/pass.h"

enum { OPS_MOST = 64, ELEMENTS_MOST = 512, BETWEEN_MOST = 1024 };      /* of an expression, written out; of a table */

/* Is it made of constants and one iota, element by element, in at most so many ops?  That iota in *of. */
static bool
follows_iota(const Value *v, int *ops, const Op **of)
{
	const Op *op = v->def;
	if (!op || --*ops < 0 || v->type->kind != TYPE_TILE)
		return false;
	if (op->kind == OP_CONST)
		return value_const(v) && value_const(v)->kind != KIND_INTS;
	if (op->kind == OP_IOTA) {
		bool same = !*of || attr_axis(*of) == attr_axis(op);
		*of = *of ? *of : op;
		return same;
	}
	if (!op_has(op, ELEM) || op->nin == 0 || op->nin > 3)
		return false;
	return ALL_OF(i, op->nin, follows_iota(op->in[i], ops, of));
}

/* The greatest element of what has none below 0, made of indices and constants; -1: not known. */
static int64_t
greatest(const Value *v, int *ops)
{
	const Op *op = v->def;
	int64_t c, a, b;
	if (!op || --*ops < 0 || !dtype_is_int(v->type->elem) || dtype_info[v->type->elem].bits < 32)
		return -1;
	if (op->kind == OP_IOTA)
		return v->type->extent[attr_axis(op)] - 1;
	if (value_int(v, &c))
		return MAX(c, -1);
	if (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE || op->kind == OP_CAST)
		return greatest(op->in[0], ops);
	if (op->nin != 2 || (a = greatest(op->in[0], ops)) < 0 || (b = greatest(op->in[1], ops)) < 0)
		return -1;
	switch (op->kind) {
	case OP_ADD: return a + b <= INT32_MAX ? a + b : -1;
	case OP_MUL: return a <= UINT16_MAX / 2 && b <= UINT16_MAX / 2 ? a * b : -1;
	case OP_REM: return value_int(op->in[1], &c) && c > 0 ? MIN(a, c - 1) : -1;
	case OP_DIV: return value_int(op->in[1], &c) && c > 0 ? a / c : -1;
	case OP_AND: return MIN(a, b);
	default: return -1;
	}
}

/* The integers with the least range from which the op follows one by one, with constants; NULL: none with few. */
static const Value *
integers_behind(const Op *op, int64_t *n)
{
	const Value *best = NULL, *next = &op->out[0];
	*n = BETWEEN_MOST + 1;
	while (next && next->def && op_has(next->def, ELEM) && next->def->nin > 0 && next->def->nin <= 3) {
		const Op *of = next->def;
		next = NULL;
		for (int i = 0; i < of->nin; i++) {
			if (of->in[i]->def && of->in[i]->def->kind == OP_CONST)
				continue;
			if (next)
				return best;
			next = of->in[i];
		}
		int ops = OPS_MOST;
		int64_t most = next && next->type->kind == TYPE_TILE ? greatest(next, &ops) : -1;
		if (most >= 0 && most + 1 < *n) {
			best = next;
			*n = most + 1;
		}
	}
	return best;
}

/* Its element where `of`, an iota or integers behind it, is n. */
static bool
element_at(const Value *v, const Value *of, int64_t n, Attr *out)
{
	const Op *op = v->def;
	Attr in[3];
	if (v == of || op->kind == OP_IOTA) {
		*out = attr_int_value(n);
		return true;
	}
	if (op->kind == OP_CONST)
		return elem_fold_const(op, out);
	return ALL_OF(i, op->nin, element_at(op->in[i], of, n, &in[i])) && elem_fold(op, in, out);
}

/* An element's bits, as OP_LOOKUP has them. */
static int64_t
bits_of(DType t, const Attr *value)
{
	uint8_t element[16] = {0};
	uint64_t bits = 0;
	dtype_store_f64(t, element, 0, value->f);
	for (int i = dtype_info[t].bits / 8 - 1; i >= 0; i--)
		bits = bits << 8 | element[i];
	int unused = 64 - dtype_info[t].bits;
	return (int64_t)(bits << unused) >> unused;
}

/* The element that has these bits. */
static Attr
element_of(DType t, int64_t bits)
{
	uint64_t own = UINT64_MAX >> (64 - dtype_info[t].bits);
	uint8_t element[8];
	if (!dtype_is_float(t))
		return attr_int_value(dtype_is_signed(t) ? bits : (int64_t)((uint64_t)bits & own));
	for (int i = 0; i < (int)sizeof element; i++)
		element[i] = (uint8_t)((uint64_t)bits >> 8 * i);
	return attr_float_value(dtype_load_f64(t, element, 0));
}

/* A conversion of what a table alone gives: of levels of quantisation that are integers, or that are to be halves. */
static void
convert_table(Func *f, Op *op)
{
	Op *of = op->in[0]->def;
	DType t = op->in[0]->type->elem;
	if (!of || of->kind != OP_LOOKUP || of->out->nuses != 1 || t == TY_BOOL || !dtype_is_float(op->out->type->elem))
		return;
	const IntList *from = attr_bits(of);
	int64_t *bits = NEW_ARRAY(f->module->cx->mem, int64_t, from->n);
	for (int i = 0; i < from->n; i++) {
		Attr in = element_of(t, from->at[i]), value;
		if (!elem_fold(op, &in, &value) || value.kind != KIND_FLOAT)
			return;
		bits[i] = bits_of(op->out->type->elem, &value);
	}
	Builder b = build_before(op);
	Attr a = attr_new_bits(f->module, NULL, 0);
	a.ints = (IntList){bits, from->n};
	op_become(op, op_make(&b, OP_LOOKUP, of->in, 1, &a, 1, &op->out->type, 1)->out);
}

static bool
is_long(const Op *op)
{
	return op_has(op, ELEM) && op->nout == 1 && op->out->type->rank > 0 && op_info[op->kind].cost == COST_LONG &&
	    dtype_is_float(op->out->type->elem) && op->kind != OP_LOOKUP && !attr_fast(op);
}

static void
tabulate(Func *f, Op *op)
{
	const Op *iota = NULL;
	const Type *t = op->out->type;
	int ops = OPS_MOST;
	if (!is_long(op))
		return;
	bool one = follows_iota(op->out, &ops, &iota) && iota;
	int64_t n = one ? t->extent[attr_axis(iota)] : 0;
	Value *index = (Value *)(one ? &iota->out[0] : integers_behind(op, &n));
	if (!index || n == 0 || n > (one ? ELEMENTS_MOST : BETWEEN_MOST))
		return;
	int64_t *bits = NEW_ARRAY(f->module->cx->mem, int64_t, n);
	for (int64_t i = 0; i < n; i++) {
		Attr value;
		if (!element_at(op->out, index, i, &value) || value.kind != KIND_FLOAT)
			return;
		bits[i] = bits_of(t->elem, &value);
	}
	Builder b = build_before(op);
	Attr a = attr_new_bits(f->module, NULL, 0);
	a.ints = (IntList){bits, (int)n};
	value_replace(op->out, op_make(&b, OP_LOOKUP, &index, 1, &a, 1, &t, 1)->out);
	op_erase(op);
}

void
pass_table(Func *f, const Target *t)
{
	for (EACH_OP(op, f->body))
		(op->kind == OP_CAST ? convert_table : tabulate)(f, op);
}
