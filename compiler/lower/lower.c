/* The walk over the ops of a function: each goes to the file of its family (ops.def), and its results get registers.
 *
 * Scalars are computed by every thread alike.  Registers that are made where they are first needed (coordinates, offsets)
 * are common subexpressions until the end of the region that they stand in. */
#include "lower/lower.h"

RegType
lower_type(const Type *t)
{
	if (t->kind == TYPE_TENSOR || t->ptr != PTR_NONE)
		return REG_GLOBAL;
	switch (t->elem) {
	case TY_BOOL: return REG_PRED;
	case TY_I16: case TY_U16: return REG_I16;
	case TY_I32: case TY_U32: return REG_I32;
	case TY_I64: case TY_U64: return REG_I64;
	case TY_F16: return REG_F16;
	case TY_BF16: return REG_BF16;
	case TY_F32: return REG_F32;
	case TY_F64: return REG_F64;
	default: return REG_I8;
	}
}

int
lower_count(const Value *v)
{
	return v->layout && v->type->kind == TYPE_TILE ? 1 << v->layout->in[IN_REGISTER] : 1;
}

Reg *
lower_regs(Lower *l, const Value *v)
{
	if (!l->regs[v->id])
		die("a value that was not lowered: %s", op_info[v->def ? v->def->kind : OP_FOR].text);
	return l->regs[v->id];
}

Reg *
lower_new(Lower *l, Value *v)
{
	return l->regs[v->id] = NEW_ARRAY(l->mem, Reg, lower_count(v));
}

Reg
lower_zero(Lower *l, RegType t)
{
	return thread_is_float(t) ? thread_float_const(l->b, t, 0) : thread_int_const(l->b, t, 0);
}

void
lower_zeros(Lower *l, Value *v)
{
	Reg *r = l->regs[v->id] ? l->regs[v->id] : lower_new(l, v), zero = lower_zero(l, lower_type(v->type));
	for (int k = 0; k < lower_count(v); k++)
		r[k] = zero;
}

void
lower_refuse(Lower *l, const Op *op, const char *what)
{
	diag_error(l->cx, op->place, DIAG_LOWER_CANNOT, what, l->t->name);
}

void
lower_barrier(Lower *l)
{
	if (l->role_copy) {
		Reg number = lower_op2(l, THREAD_ADD, l->role_copy, lower_i32(l, l->role));
		thread_prim(l->b, PRIM_BARRIER_AT, &number, 1, (int64_t[]){lower_threads(l)}, 1, NULL, 0);
	} else if (l->role)
		thread_prim(l->b, PRIM_BARRIER_PART, NULL, 0, (int64_t[]){l->role, lower_threads(l)}, 2, NULL, 0);
	else if (l->warps == 1)
		lower_warp_barrier(l);
	else
		thread_prim(l->b, PRIM_BARRIER, NULL, 0, NULL, 0, NULL, 0);
}

void
lower_warp_barrier(Lower *l)
{
	thread_prim(l->b, PRIM_WARP_BARRIER, NULL, 0, NULL, 0, NULL, 0);
}

Reg
lower_scratch(Lower *l, const Op *op)
{
	int64_t at = attr_smem(op), each = scratch_of_groups(op, l->t, 2) - scratch_of_groups(op, l->t, 1);
	if (l->nscratch++ > 0)
		lower_barrier(l);
	if (l->role_copy) {
		Reg own = lower_op2(l, THREAD_MUL, l->role_copy, lower_i32(l, (int)each));
		return thread_pointer(l->b, l->shared, lower_op2(l, THREAD_ADD, own, lower_i32(l, (int)at)));
	}
	return at ? thread_pointer(l->b, l->shared, lower_i32(l, at)) : l->shared;
}

static void
dispatch(Lower *l, Op *op)
{
	switch (op_family(op)) {
	case FAMILY_INDEX: lower_index(l, op); return;
	case FAMILY_SHAPE: lower_shape(l, op); return;
	case FAMILY_CONVERT: lower_convert(l, op); return;
	case FAMILY_MOVE: case FAMILY_GATHER: lower_move(l, op); return;
	case FAMILY_ARITH: case FAMILY_COMPARE: lower_elementwise(l, op); return;
	case FAMILY_MATH: (dtype_is_float(op->in[0]->type->elem) ? lower_math : lower_elementwise)(l, op); return;
	case FAMILY_CAST: lower_cast(l, op); return;
	case FAMILY_LOOKUP: lower_lookup(l, op); return;
	case FAMILY_PHILOX: lower_philox(l, op); return;
	case FAMILY_DOT: lower_dot(l, op); return;
	case FAMILY_REDUCE: lower_reduce(l, op); return;
	case FAMILY_SCAN: lower_scan(l, op); return;
	case FAMILY_ORDER: lower_order(l, op); return;
	case FAMILY_SCATTER: lower_scatter(l, op); return;
	case FAMILY_MEMORY: lower_memory(l, op); return;
	case FAMILY_ATOMIC: lower_atomic(l, op); return;
	case FAMILY_BUFFER: case FAMILY_DOT_ASYNC: case FAMILY_ROLES: lower_buffer(l, op); return;
	case FAMILY_CONTROL: case FAMILY_REPORT: case FAMILY_PTX: lower_control(l, op); return;
	}
}

/* Before pass barrier, there is one before every op that uses scratch. */
static bool
needs_barrier(const Lower *l, const Op *op)
{
	return l->f->module->facts & SYNCED ? attr_sync(op) : plan_op(op, l->t).scratch > 0;
}

/* The source's names, as hints for text. */
static void
name_results(Lower *l, const Op *op)
{
	for (int i = 0; i < op->nout; i++) {
		const Value *v = &op->out[i];
		for (int r = 0; v->name && l->regs[v->id] && r < lower_count(v); r++)
			thread_name(l->b, l->regs[v->id][r], v->name);
	}
}

int
lower_number(const Op *op, const Func *f)
{
	int n = 0;
	for (const Op *o = f->body->first; o != op; o = op_after(o, f->body))
		n += o->kind == op->kind;
	return n + 1;
}

void
lower_op(Lower *l, Op *op)
{
	int errors = l->cx->nerrors;
	thread_place(l->b, op->place);
	l->nscratch = 0;
	if (needs_barrier(l, op))
		lower_barrier(l);
	else if (attr_sync_warp(op))
		lower_warp_barrier(l);
	dispatch(l, op);
	for (int i = 0; l->cx->nerrors > errors && op->nregion == 0 && i < op->nout; i++)
		lower_zeros(l, &op->out[i]);            /* refused; the walk goes on and finds what else is */
	name_results(l, op);
}

void
lower_block(Lower *l, const Block *b)
{
	for (Op *op = b->first; op && op->kind != OP_YIELD; op = op->next)
		lower_op(l, op);
}

void
lower_region(Lower *l, const Block *region, const Reg *in, Reg *out)
{
	for (int i = 0; i < region->narg; i++)
		lower_new(l, &region->arg[i])[0] = in[i];
	int trips = l->nscratch;                        /* of the op around it */
	lower_block(l, region);
	thread_place(l->b, region->parent->place);      /* what follows is the op's again, as its barriers */
	l->nscratch = trips;
	for (int i = 0; i < region->last->nin; i++)
		out[i] = lower_regs(l, region->last->in[i])[0];
}

Reg
lower_byte_permute(Lower *l, Reg a, Reg b, Reg which)
{
	Reg in[] = {a, b, which}, out;
	thread_prim(l->b, PRIM_BYTE_PERMUTE, in, 3, NULL, 0, &out, 1);
	return out;
}
