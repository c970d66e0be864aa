/* Long functions of an index alone become tables: twiddle factors, angles and decays of positions.
 *
 *     %i = iota {axis = 1} : i32[16, 8]                %i = iota {axis = 1} : i32[16, 8]
 *     %f = cast %i : f32[16, 8]                   =>   %c = lookup %i {bits = [1065353216, 1064076126, …]} : f32[16, 8]
 *     %a = mul %f, -pi / 8 : f32[16, 8]
 *     %c = cos %a : f32[16, 8]
 *
 * A sine takes 25 instructions and more, and a branch for great angles; an element of a table one load, which the L1 cache
 * serves.  The table has the interpreter's values, which are within the error that the function may have. */
#include "num/num.h"
#include "pass/pass.h"

#include <string.h>

enum { OPS_MOST = 64, ELEMENTS_MOST = 512 };           /* of an expression, written out; of a table */

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

/* Its element where the iota is n. */
static bool
element_at(const Value *v, int64_t n, Attr *out)
{
	const Op *op = v->def;
	Attr in[3];
	if (op->kind == OP_CONST)
		return elem_fold_const(op, out);
	if (op->kind == OP_IOTA) {
		*out = attr_int_value(n);
		return true;
	}
	return ALL_OF(i, op->nin, element_at(op->in[i], n, &in[i])) && elem_fold(op, in, out);
}

/* An element's bits, as OP_LOOKUP has them. */
static int64_t
bits_of(DType t, const Attr *value)
{
	uint8_t element[16] = {0};
	int64_t bits = 0;
	dtype_store_f64(t, element, 0, value->f);
	for (int i = dtype_info[t].bits / 8 - 1; i >= 0; i--)
		bits = bits << 8 | element[i];
	int unused = 64 - dtype_info[t].bits;
	return (int64_t)((uint64_t)bits << unused) >> unused;
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
	if (!is_long(op) || !follows_iota(op->out, &ops, &iota) || !iota)
		return;
	int64_t n = t->extent[attr_axis(iota)], *bits = NEW_ARRAY(f->module->cx->mem, int64_t, MAX(n, 1));
	for (int64_t i = 0; i < n && n <= ELEMENTS_MOST; i++) {
		Attr value;
		if (!element_at(op->out, i, &value) || value.kind != KIND_FLOAT)
			return;
		bits[i] = bits_of(t->elem, &value);
	}
	if (n == 0 || n > ELEMENTS_MOST)
		return;
	Builder b = build_before(op);
	Attr a = attr_new_bits(f->module, NULL, 0);
	a.ints = (IntList){bits, (int)n};
	Value *index = (Value *)&iota->out[0];
	value_replace(op->out, op_make(&b, OP_LOOKUP, &index, 1, &a, 1, &t, 1)->out);
	op_erase(op);
}

void
pass_table(Func *f, const Target *t)
{
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		tabulate(f, op);
	}
}
