/* Loops, branches, and what leaves the kernel besides tensors.
 *
 * Conditions and bounds are scalars, which all threads hold alike, so that a thread block does not diverge and barriers may
 * be in any region.  Carried tiles are their registers, one after the other.  A writer tests a while at
 * its head, so its first region is lowered twice, before the loop and at the end of the body:
 *
 *     while (test) body     =>     test; while (go) { body; test }
 *
 * A false assert leaves a FaultRecord (artefact.h): the thread that changes its number from 0 fills in the rest, and the
 * kernel goes on; the launch reports it. */
#include "lower/lower.h"
#include "pass/async/ring.h"

#include <string.h>

/* The registers of values one after the other; NULL and 0 where there are none. */
static int
count_all(const Value *const *v, int n)
{
	return SUM_OF(int, i, n, lower_count(v[i]));
}

static Reg *
gather_all(Lower *l, Value *const *v, int n)
{
	int sum = count_all((const Value *const *)v, n), at = 0;
	Reg *all = NEW_ARRAY(l->mem, Reg, sum);
	for (int i = 0; i < n; i++) {
		memcpy(all + at, lower_regs(l, v[i]), sizeof *all * (size_t)lower_count(v[i]));
		at += lower_count(v[i]);
	}
	return all;
}

static void
scatter_all(Lower *l, Value *v, int n, const Reg *all)
{
	for (int i = 0; i < n; i++) {
		memcpy(lower_new(l, &v[i]), all, sizeof *all * (size_t)lower_count(&v[i]));
		all += lower_count(&v[i]);
	}
}

/* The source's names of a region's arguments, as hints for text. */
static void
name_args(Lower *l, const Block *b)
{
	for (int i = 0; i < b->narg; i++)
		for (int r = 0; b->arg[i].name && r < lower_count(&b->arg[i]); r++)
			thread_name(l->b, lower_regs(l, &b->arg[i])[r], b->arg[i].name);
}

static int
count_results(const Op *op)
{
	return SUM_OF(int, i, op->nout, lower_count(&op->out[i]));
}

/* ---- loops ---- */

/* A loop carries the operands of products of warpgroups as the product takes them, two in a register: alone they would be
 * rounded one by one. */
static bool
is_carried_packed(const Lower *l, const Value *v)
{
	return l->t->has & HAS_WGMMA && v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE &&
	    (v->type->elem == TY_F16 || v->type->elem == TY_BF16) && lower_count(v) >= 8;
}

static int
carried_count(const Lower *l, const Value *v)
{
	return lower_count(v) >> is_carried_packed(l, v);
}

static int
count_carried(const Lower *l, const Op *op)
{
	return SUM_OF(int, i, op->nout, carried_count(l, &op->out[i]));
}

/* Numbers of slots and phases go from trip to trip in 32 bits where one thread of few registers copies: in 64 ptxas spilled
 * 12 bytes of those that 40 are too few for (attention in clusters). */
static bool
is_narrow(const Lower *l, const Value *v)
{
	const Type *t = v->type;
	return l->is_lone && t->kind == TYPE_TILE && t->rank == 0 && t->elem == TY_I64 && ring_is_small(v);
}

/* What a loop carries as `column`; back: to 64 bits. */
static void
narrow(Lower *l, const Value *column, int n, Reg *all, bool back)
{
	for (int i = 0; i < n; all += carried_count(l, &column[i++]))
		if (is_narrow(l, &column[i]))
			*all = lower_as(l, back ? CAST_ZEXT : CAST_TRUNC, back ? REG_I64 : REG_I32, *all);
}

static Reg *
gather_carried(Lower *l, Value *const *v, int n)
{
	int at = 0;
	Reg *all = NEW_ARRAY(l->mem, Reg, count_all((const Value *const *)v, n));
	for (int i = 0; i < n; i++) {
		const Reg *r = lower_regs(l, v[i]);
		bool packed = is_carried_packed(l, v[i]);
		for (int k = 0; k < carried_count(l, v[i]); k++)
			all[at++] = packed ? thread_pack(l->b, r + 2 * k, 2) : r[k];
	}
	return all;
}

static void
scatter_carried(Lower *l, Value *v, int n, const Reg *all)
{
	for (int i = 0; i < n; i++) {
		Reg *r = lower_new(l, &v[i]);
		bool packed = is_carried_packed(l, &v[i]);
		RegType t = v[i].type->kind == TYPE_TILE && v[i].type->elem == TY_F16 ? REG_F16 : REG_BF16;
		for (int k = 0; k < carried_count(l, &v[i]); k++, all++) {
			if (packed)
				thread_unpack(l->b, *all, t, r + 2 * k, 2);
			else
				r[k] = *all;
		}
	}
}

/* Trips of a loop whose step may be of any sign; with step 0 none. */
static Reg
count_trips(Lower *l, Reg lo, Reg hi, Reg step)
{
	Reg zero = lower_i64(l, 0), one = lower_i64(l, 1);
	Reg up = lower_op2(l, THREAD_SLT, zero, step), down = lower_op2(l, THREAD_SLT, step, zero);
	Reg rises = lower_op2(l, THREAD_AND, up, lower_op2(l, THREAD_SLT, lo, hi));
	Reg falls = lower_op2(l, THREAD_AND, down, lower_op2(l, THREAD_SLT, hi, lo));
	Reg rise = lower_op2(l, THREAD_SUB, hi, lo), fall = lower_op2(l, THREAD_SUB, lo, hi);
	Reg span = lower_op3(l, THREAD_SELECT, up, rise, fall);
	Reg size = lower_op3(l, THREAD_SELECT, up, step, lower_op2(l, THREAD_SUB, zero, step));
	Reg reach = lower_op2(l, THREAD_SUB, span, one);
	Reg trips = lower_op2(l, THREAD_UDIV, reach, lower_op2(l, THREAD_UMAX, size, one));
	trips = lower_op2(l, THREAD_ADD, trips, one);
	return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_OR, rises, falls), trips, zero);
}

/* Of an index that is what the iteration before yields first. */
static void
lower_fetched(Lower *l, Op *op)
{
	Block *b = op->region[0];
	int n = count_carried(l, op);
	Reg hi = lower_regs(l, op->in[1])[0], *inside = NEW_ARRAY(l->mem, Reg, n);

	thread_while(l->b, gather_carried(l, op->in + 3, op->nin - 3), inside, n);
	thread_while_test(l->b, lower_op2(l, THREAD_SLT, inside[0], hi));
	lower_new(l, &b->arg[0])[0] = inside[0];
	scatter_carried(l, b->arg + 1, b->narg - 1, inside);
	name_args(l, b);
	lower_block(l, b);
	thread_while_end(l->b, gather_carried(l, b->last->in, b->last->nin), inside, n);
	scatter_carried(l, op->out, op->nout, inside);
}

static void
lower_for(Lower *l, Op *op)
{
	Block *b = op->region[0];
	Reg lo = lower_regs(l, op->in[0])[0], hi = lower_regs(l, op->in[1])[0], step = lower_regs(l, op->in[2])[0];
	int n = count_carried(l, op);
	int64_t by;
	bool plain = value_constant(op->in[2], &by) && by > 0;
	Reg *init = gather_carried(l, op->in + 3, op->nin - 3), *inside = NEW_ARRAY(l->mem, Reg, n), index;
	narrow(l, b->arg + 1, op->nout, init, false);
	if (plain) {
		index = thread_loop(l->b, lo, hi, step, init, inside, n);
	} else {
		Reg trips = count_trips(l, lo, hi, step);
		Reg i = thread_loop(l->b, lower_i64(l, 0), trips, lower_i64(l, 1), init, inside, n);
		index = lower_op2(l, THREAD_ADD, lo, lower_op2(l, THREAD_MUL, i, step));
	}
	lower_new(l, &b->arg[0])[0] = index;
	narrow(l, b->arg + 1, op->nout, inside, true);
	scatter_carried(l, b->arg + 1, b->narg - 1, inside);
	name_args(l, b);
	lower_block(l, b);
	Reg *next = gather_carried(l, b->last->in, b->last->nin);
	narrow(l, b->arg + 1, op->nout, next, false);
	thread_loop_end(l->b, next, inside, n);
	narrow(l, b->arg + 1, op->nout, inside, true);
	scatter_carried(l, op->out, op->nout, inside);
}

/* The test on carried registers: whether to go on, and what it yields. */
static Reg
test(Lower *l, const Block *b, const Reg *carried, Reg **yields)
{
	scatter_all(l, b->arg, b->narg, carried);
	lower_block(l, b);
	thread_place(l->b, b->parent->place);           /* the loop is the op's, by which its trips are found */
	*yields = gather_all(l, b->last->in + 1, b->last->nin - 1);
	return lower_regs(l, b->last->in[0])[0];
}

static void
lower_while(Lower *l, Op *op)
{
	Block *body = op->region[1];
	int n = count_results(op);
	Reg *values, *inside = NEW_ARRAY(l->mem, Reg, n + 1), *next = NEW_ARRAY(l->mem, Reg, n + 1);
	next[n] = test(l, op->region[0], gather_all(l, op->in, op->nin), &values);
	memcpy(next, values, sizeof *next * (size_t)n);
	thread_while(l->b, next, inside, n + 1);
	thread_while_test(l->b, inside[n]);
	scatter_all(l, body->arg, body->narg, inside);
	name_args(l, body);
	lower_block(l, body);
	next[n] = test(l, op->region[0], gather_all(l, body->last->in, body->last->nin), &values);
	memcpy(next, values, sizeof *next * (size_t)n);
	thread_while_end(l->b, next, inside, n + 1);
	scatter_all(l, op->out, op->nout, inside);
}

static void
lower_if(Lower *l, Op *op)
{
	int n = count_results(op);
	Reg *after = NEW_ARRAY(l->mem, Reg, n);
	thread_if(l->b, lower_regs(l, op->in[0])[0]);
	lower_block(l, op->region[0]);
	thread_else(l->b, gather_all(l, op->region[0]->last->in, op->region[0]->last->nin), n);
	lower_block(l, op->region[1]);
	thread_if_end(l->b, gather_all(l, op->region[1]->last->in, op->region[1]->last->nin), after, n);
	scatter_all(l, op->out, op->nout, after);
}

/* ---- asserts ---- */

static void
put_fault(Lower *l, Reg faults, int64_t offset, RegType type, Reg v)
{
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = type, .n = 1, .base = faults, .constant = offset,
		.align = thread_type_bytes(type)};
	thread_store(l->b, &at, &v);
}

/* Which element of the tile a register of this thread holds. */
static Reg
element_number(Lower *l, const Value *v, int r)
{
	Reg sum = 0;
	int64_t stride = 1, constant = 0, add;
	for (int d = v->type->rank - 1; d >= 0; d--) {
		Reg c = lower_coordinate(l, v->layout, r, d, &add);
		c = stride == 1 ? c : lower_op2(l, THREAD_MUL, c, lower_i32(l, stride));
		sum = sum ? lower_op2(l, THREAD_ADD, sum, c) : c;
		constant += add * stride;
		stride *= v->type->extent[d];
	}
	return lower_op2(l, THREAD_ADD, sum, lower_i32(l, constant));
}

static Reg
find_element(Lower *l, const Value *v)
{
	const Reg *cond = lower_regs(l, v);
	Reg at = lower_i32(l, 0);
	if (!v->layout)
		return at;
	for (int r = lower_count(v) - 1; r >= 0; r--) {
		Reg here = lower_op2(l, THREAD_ADD, element_number(l, v, r), lower_i32(l, 1));
		at = lower_op3(l, THREAD_SELECT, cond[r], at, here);
	}
	return at;
}

/* The bits of an f32 as an f64 (REG_I64), where there are none. */
static Reg
f64_bits(Lower *l, Reg x)
{
	Reg bits = lower_as(l, CAST_BITS, REG_I32, x), most = lower_i32(l, INT32_MAX);
	Reg size = lower_op2(l, THREAD_AND, bits, most), sign = lower_op2(l, THREAD_AND, bits, lower_i32(l, INT32_MIN));
	Reg up = lower_op2(l, THREAD_FMUL, x, thread_float_const(l->b, REG_F32, 0x1p64)); /* a denormal is normal there */
	Reg tiny = lower_op2(l, THREAD_ULT, size, lower_i32(l, 0x00800000));
	Reg endless = lower_op2(l, THREAD_ULE, lower_i32(l, 0x7f800000), size);
	Reg zero = lower_op2(l, THREAD_EQ, size, lower_i32(l, 0));
	Reg scaled = lower_op2(l, THREAD_AND, lower_as(l, CAST_BITS, REG_I32, up), most);
	size = lower_as(l, CAST_ZEXT, REG_I64, lower_op3(l, THREAD_SELECT, tiny, scaled, size));
	Reg bias = lower_op3(l, THREAD_SELECT, tiny, lower_i64(l, INT64_C(832) << 52), lower_i64(l, INT64_C(896) << 52));
	bias = lower_op3(l, THREAD_SELECT, endless, lower_i64(l, INT64_C(1792) << 52), bias);
	Reg all = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_SHL, size, lower_i64(l, 29)), bias);
	all = lower_op3(l, THREAD_SELECT, zero, lower_i64(l, 0), all);
	return lower_op2(l, THREAD_OR, all, lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, REG_I64, sign),
	    lower_i64(l, 32)));
}

static void
put_value(Lower *l, Reg faults, int i, const Value *v)
{
	DType t = v->type->elem;
	Reg r = lower_regs(l, v)[0];
	FaultValueKind kind;
	if (t == TY_BOOL)
		kind = FAULT_VALUE_BOOL;
	else if (dtype_is_float(t))
		kind = FAULT_VALUE_FLOAT;
	else
		kind = dtype_is_signed(t) ? FAULT_VALUE_INT : FAULT_VALUE_UNSIGNED;
	DType as = kind == FAULT_VALUE_FLOAT ? TY_F64 : kind == FAULT_VALUE_INT ? TY_I64 : TY_U64;
	if (as == TY_F64 && !(l->t->has & HAS_F64)) {
		r = f64_bits(l, lower_cast_one(l, t, TY_F32, r));
		as = TY_I64;
	} else {
		r = lower_cast_one(l, t, as, r);
	}
	put_fault(l, faults, (int64_t)offsetof(FaultRecord, kind) + i, REG_I8, thread_int_const(l->b, REG_I8, kind));
	put_fault(l, faults, (int64_t)offsetof(FaultRecord, value) + 8 * i, as == TY_F64 ? REG_F64 : REG_I64, r);
}

static void
record_fault(Lower *l, const Op *op, Reg faults)
{
	put_fault(l, faults, offsetof(FaultRecord, element), REG_I32, find_element(l, op->in[0]));
	lower_program_of(l, op);
	for (int d = 0; d < l->f->naxis; d++)
		put_fault(l, faults, (int64_t)offsetof(FaultRecord, program) + 8 * d, REG_I64, l->program[d]);
	for (int i = 1, n = 0; i < op->nin && n < FAULT_VALUES; i++)
		if (op->in[i]->type->rank == 0 && op->in[i]->type->ptr == PTR_NONE)
			put_value(l, faults, n++, op->in[i]);
}

static void
lower_assert(Lower *l, Op *op)
{
	const Value *v = op->in[0];
	const Reg *cond = lower_regs(l, v);
	Reg holds = cond[0], faults = lower_param(l, ABI_FAULTS, 0, 0);
	for (int r = 1; r < lower_count(v); r++)
		holds = cond[r] == holds ? holds : lower_op2(l, THREAD_AND, holds, cond[r]);
	thread_if(l->b, lower_op1(l, THREAD_NOT, holds));
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = faults, .align = 4};
	Reg zero = lower_i32(l, 0);
	Reg old = thread_atomic(l->b, ATOMIC_CAS, &at, lower_i32(l, lower_number(op, l->f)), zero);
	thread_if(l->b, lower_op2(l, THREAD_EQ, old, zero));
	record_fault(l, op, faults);
	lower_end_when(l);
	lower_end_when(l);
}

/* ---- PTX of the user's own, elementwise ---- */

static void
lower_inline_ptx(Lower *l, Op *op)
{
	const Layout *layout = op->nout ? op->out[0].layout : op->nin ? op->in[0]->layout : NULL;
	int count = op->nout ? lower_count(&op->out[0]) : op->nin ? lower_count(op->in[0]) : 1;
	Reg in[32], out[32], **results = NEW_ARRAY(l->mem, Reg *, op->nout);
	const Reg **operands = NEW_ARRAY(l->mem, const Reg *, op->nin);
	RegType type[32];
	if (l->t->kind != TARGET_PTX || op->nin > 32 || op->nout > 32) {
		lower_refuse(l, op, l->t->kind == TARGET_PTX ? "inline_ptx of more than 32 operands" : "inline_ptx");
		return;
	}
	for (int i = 0; i < op->nin; i++)
		operands[i] = lower_operand(l, op, i, layout);
	for (int i = 0; i < op->nout; i++) {
		results[i] = lower_new(l, &op->out[i]);
		type[i] = lower_type(op->out[i].type);
	}
	for (int r = 0; r < count; r++) {
		for (int i = 0; i < op->nin; i++)
			in[i] = operands[i][r];
		thread_ptx(l->b, attr_text(op), in, op->nin, type, out, op->nout);
		for (int i = 0; i < op->nout; i++)
			results[i][r] = out[i];
	}
}

void
lower_control(Lower *l, Op *op)
{
	switch (op->kind) {
	case OP_FOR:
		if (attr_dynamic(op))
			lower_fetched(l, op);
		else
			lower_for(l, op);
		return;
	case OP_WHILE: lower_while(l, op); return;
	case OP_IF: lower_if(l, op); return;
	case OP_ASSERT: lower_assert(l, op); return;
	case OP_PRINT:
		if (attr_trace(op) || op_attr(op, ATTR_WATCH))
			lower_show(l, op);
		else
			lower_print(l, op);
		return;
	default: lower_inline_ptx(l, op); return;
	}
}
