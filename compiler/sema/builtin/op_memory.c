/* The memory family: load and store through pointers, atomics on tensors and pointers, prefetch.
 *
 * The operand of atomics and prefetch is not evaluated first: x[...] of a tensor stays one access (tensor, indices,
 * extents), anything else is a value that must be pointers. */
#include "sema/builtin/builtin.h"

#include <string.h>

/* A bool tile broadcast to the pointers' shape. */
static Value *
mask_of(Call *c, int i, const Type *shape)
{
	Value *m = call_tile(c, i, IS_BOOL);
	return m ? ir_broadcast(c->e, m, shape->rank, shape->extent, c->arg[i].place) : NULL;
}

/* Pointers broadcast to a shape that holds the mask and the value too, as Triton does. */
static Value *
widen_pointer(Call *c, Value *p, int i)
{
	const Val *v = &c->arg[i].val;
	if (!call_has(c, i) || v->kind != VAL_TILE || v->v->type->rank <= p->type->rank)
		return p;
	return ir_broadcast(c->e, p, v->v->type->rank, v->v->type->extent, c->arg[i].place);
}

/* Of max(x, 1) or min, elementwise, whose reduction along axis 1 would fit: 1; else -1. */
static int
meant_axis(Elab *e, const Value *v, int rank, const int64_t *extent)
{
	while (v->def && v->def->kind == OP_CAST)
		v = v->def->in[0];
	const Op *op = v->def;
	if (!op || (op->kind != OP_MAX && op->kind != OP_MIN))
		return -1;
	const Value *by = op->in[1];
	while (by->def && (by->def->kind == OP_BROADCAST || by->def->kind == OP_CAST))
		by = by->def->in[0];
	const Attr *c = value_const(by);
	double at = !c ? -1 : c->kind == KIND_FLOAT ? c->f : (double)c->i;
	int64_t left[MAX_RANK];
	if (!(at >= 0 && at < v->type->rank) || at != (int)at)
		return -1;
	for (int d = 0, n = 0; d < v->type->rank; d++)
		if (d != (int)at)
			left[n++] = v->type->extent[d];
	return type_broadcasts(type_with_shape(e->m, v->type, v->type->rank - 1, left), rank, extent) ? (int)at : -1;
}

bool
stored_fits(Elab *e, const char *name, const Value *v, int rank, const int64_t *extent, Place at)
{
	if (type_broadcasts(v->type, rank, extent))
		return true;
	diag_error(e->cx, at, DIAG_STORE_SHAPE, name, type_shape_text(e, v->type), shape_text(e, rank, extent));
	int axis = meant_axis(e, v, rank, extent);
	return axis >= 0 && diag_help(e->cx, "with two values it is elementwise; an axis is named: `axis = %d`", axis);
}

/* A list in a kernel, in the type that it is stored as, if its kind allows. */
static Value *
stored_list(Elab *e, const Val *v, DType elem, Place at)
{
	List l;
	if (!list_open(e, v, at, &l))
		return NULL;
	Val weak = list_weak(&l, at);
	bool narrows = weak.kind == VAL_FLOAT && !dtype_is_float(elem);
	return list_tile(e, &l, narrows ? TY_F32 : elem);
}

/* Only floats to integers must be said. */
Value *
stored_elements(Elab *e, const char *name, const Val *v, DType elem, int rank, const int64_t *extent, Place at)
{
	if (val_is_poison(v))
		return NULL;
	Val listed;
	if (v->kind == VAL_LIST) {
		Value *x = e->whole ? whole_list(e, v, at) : stored_list(e, v, elem, at);
		listed = val_tile(at, x);
		v = &listed;
		if (val_is_poison(v))
			return NULL;
	}
	Value *x = NULL;
	bool is_value = val_is_const(v) || (v->kind == VAL_TILE && !v->v->type->ptr);
	DType from = is_value ? val_dtype(e, v) : TY_BOOL;
	bool narrows = dtype_is_float(from) && !dtype_is_float(elem);
	const char *how = elem == TY_BOOL ? " is whether it is not 0" : " truncates and saturates";
	bool packed = dtype_is_packed(from) && from != elem;
	if (!is_value || narrows || packed) {
		diag_error(e->cx, at, DIAG_STORE_KIND, name, val_describe(e, v), dtype_info[elem].text);
		if (is_value)
			diag_help(e->cx, "say it: `… as %s`%s", dtype_info[elem].text, narrows ? how : "");
		else if (v->kind == VAL_TENSOR)
			diag_help(e->cx, "read a tile of it, as in `x[start +: extent]`");
		return NULL;
	}
	if (val_is_const(v) && elem != TY_F64 && e->whole && dtype_is_float(elem))
		x = ir_convert(e, val_ir_as(e, v, TY_F64), elem);
	else if (val_is_const(v))
		x = val_ir_as(e, v, elem);
	else
		x = ir_convert(e, v->v, elem);
	if (!x)
		return NULL;
	return stored_fits(e, name, x, rank, extent, at) ? x : NULL;
}

Value *
stored_value(Elab *e, const char *name, const Val *v, DType elem, int rank, const int64_t *extent, Place at)
{
	Value *x = stored_elements(e, name, v, elem, rank, extent, at);
	return x ? ir_broadcast(e, x, rank, extent, at) : NULL;
}

static Value *
pointer_value(Call *c, int i, Value *p)
{
	const Type *t = p->type;
	return stored_value(c->e, c->def->name, &c->arg[i].val, t->elem, t->rank, t->extent, c->arg[i].place);
}

/* cache_modifier and eviction_policy in one attribute: "cg", "evict_last", "cg evict_last". */
static int
cache_attr(Call *c, int i, Attr *attr)
{
	Elab *e = c->e;
	const char *a = call_word(c, i), *b = call_word(c, i + 1);
	bool has_a = strcmp(a, "none") != 0, has_b = strcmp(b, "none") != 0;
	if (!has_a && !has_b)
		return 0;
	*attr = attr_new_cache(e->m, has_a && has_b ? arena_printf(e->cx->mem, "%s %s", a, b) : has_a ? a : b);
	return 1;
}

Val
memory_load(Call *c)
{
	Elab *e = c->e;
	Attr cache;
	Value *in[3];
	int n = 1;
	if (!val_is_pointer(&c->arg[0].val)) {
		Val bad = call_wrong(c, 0, "a pointer or a tile of pointers");
		if (c->arg[0].val.kind == VAL_TENSOR)
			diag_help(e->cx, "a tensor is read by indexing, as in `x[start +: extent]`");
		return bad;
	}
	in[0] = widen_pointer(c, c->arg[0].val.v, 1);
	if (in[0] && call_has(c, 1)) {
		in[n] = mask_of(c, 1, in[0]->type);
		if (!in[n++])
			return val_poison(c->place);
	}
	if (in[0] && call_has(c, 2)) {
		if (n == 1)
			return val_error(e, c->arg[2].place, DIAG_OTHER_MASK);
		in[n] = pointer_value(c, 2, in[0]);
		if (!in[n++])
			return val_poison(c->place);
	}
	if (!in[0])
		return val_poison(c->place);
	int nattr = cache_attr(c, 3, &cache);
	return val_tile(c->place, op_make(&e->b, OP_LOAD, in, n, &cache, nattr, NULL, 0)->out);
}

static bool
may_write(Call *c, int i, const Val *p)
{
	if (!val_is_pointer(p)) {
		call_wrong(c, i, "a pointer or a tile of pointers");
		if (p->kind == VAL_TENSOR)
			diag_help(c->e->cx, "a tensor is written by indexing, as in `x[start +: extent] = tile;`");
		return false;
	}
	if (p->v->type->ptr == PTR_MUT)
		return true;
	diag_error(c->e->cx, c->arg[i].place, DIAG_POINTER_CONST, c->def->name);
	return diag_help(c->e->cx, "declare the parameter `*mut %s`", dtype_info[p->v->type->elem].text);
}

Val
memory_store(Call *c)
{
	Elab *e = c->e;
	Attr cache;
	Value *in[3];
	int n = 2;
	if (!may_write(c, 0, &c->arg[0].val))
		return val_poison(c->place);
	in[0] = widen_pointer(c, c->arg[0].val.v, 1);
	in[0] = in[0] ? widen_pointer(c, in[0], 2) : NULL;
	in[1] = in[0] ? pointer_value(c, 1, in[0]) : NULL;
	if (!in[1])
		return val_poison(c->place);
	if (call_has(c, 2)) {
		in[n] = mask_of(c, 2, in[0]->type);
		if (!in[n++])
			return val_poison(c->place);
	}
	int nattr = cache_attr(c, 3, &cache);
	op_make(&e->b, OP_STORE, in, n, &cache, nattr, NULL, 0);
	return (Val){.kind = VAL_VOID};
}

/* The operand of an atomic or prefetch: true with a->n > 0 for x[...] of a tensor, else *pointer is its value. */
static bool
place_open(Call *c, int i, TensorAccess *a, Val *pointer)
{
	Elab *e = c->e;
	const Expr *x = c->arg[i].e;
	a->n = 0;
	if (x->kind == EX_INDEX) {
		Val base = elab_expr(e, x->a);
		if (val_is_poison(&base))
			return false;
		if (base.kind == VAL_TENSOR)
			return access_open(e, x, &base, a);
		*pointer = elab_index_of(e, x, &base);
	} else {
		*pointer = elab_expr(e, x);
	}
	if (val_is_poison(pointer))
		return false;
	c->arg[i].val = *pointer;
	if (val_is_pointer(pointer))
		return true;
	diag_error(e->cx, x->place, DIAG_ATOMIC_PLACE, c->def->name, val_describe(e, pointer));
	if (pointer->kind == VAL_TENSOR)
		diag_help(e->cx, "say which part, as in `%s(x[i], …)`", c->def->name);
	return false;
}

/* 32 and 64 bits everywhere; add, min, max and exchange of the 16-bit floats too. */
static bool
atomic_type_ok(Call *c, const char *fn, DType t, bool bits_only)
{
	int bits = dtype_info[t].bits;
	bool wide = bits == 32 || bits == 64;
	bool half = bits == 16 && dtype_is_float(t) && strcmp(fn, "cas") != 0;
	if (bits_only ? wide && dtype_is_int(t) : wide || half)
		return true;
	return diag_error(c->e->cx, c->arg[0].place, DIAG_ATOMIC_TYPE, c->def->name, dtype_info[t].text,
	    bits_only ? "i32, u32, i64 or u64" : strcmp(fn, "cas") == 0 ? "types of 32 or 64 bits"
	    : "f16, bf16 and types of 32 or 64 bits");
}

/* fn with `nvalue` values in arguments 1 .. nvalue, then mask, order, scope. */
static Val
atomic(Call *c, int nvalue, bool bits_only)
{
	Elab *e = c->e;
	const char *fn = c->def->name + strlen("atomic_");
	int imask = 1 + nvalue;
	TensorAccess a;
	Val pointer;
	Value *in[1 + MAX_RANK + 3];
	Attr attr[6] = {attr_new_fn(e->m, fn), attr_new_order(e->m, call_word(c, imask + 1)),
	    attr_new_scope(e->m, call_word(c, imask + 2))};
	if (!place_open(c, 0, &a, &pointer))
		return val_poison(c->place);
	bool tensor = a.n > 0;
	if (!(tensor ? access_may_write(e, &a) : may_write(c, 0, &pointer)))
		return val_poison(c->place);
	if (tensor && call_has(c, imask)) {
		diag_error(e->cx, c->arg[imask].place, DIAG_ATOMIC_MASK, c->def->name);
		diag_help(e->cx, "elements outside of the tensor are left alone: give those the index -1, "
		    "as in x[where(mask, i, -1)]");
		return val_poison(c->place);
	}
	Value *p = tensor ? NULL : widen_pointer(c, pointer.v, 1);
	p = p ? widen_pointer(c, p, imask) : NULL;
	if (!tensor && !p)
		return val_poison(c->place);
	if (!atomic_type_ok(c, fn, tensor ? a.operand[0]->type->elem : p->type->elem, bits_only))
		return val_poison(c->place);
	int n = tensor ? a.n : 1;
	memcpy(in, tensor ? a.operand : &p, sizeof *in * (size_t)n);
	for (int i = 1; i <= nvalue; i++) {
		in[n] = tensor ? access_value(e, &a, &c->arg[i].val, c->def->name) : pointer_value(c, i, p);
		if (!in[n++])
			return val_poison(c->place);
	}
	if (tensor) {
		int nattr = 3 + access_attrs(e, &a, attr + 3);
		return access_result(e, &a, op_make(&e->b, OP_ATOMIC, in, n, attr, nattr, NULL, 0)->out);
	}
	int nattr = 3;
	if (call_has(c, imask)) {
		in[n] = mask_of(c, imask, p->type);
		if (!in[n++])
			return val_poison(c->place);
		attr[nattr++] = attr_new_masked(e->m, true);
	}
	return val_tile(c->place, op_make(&e->b, OP_ATOMIC_PTR, in, n, attr, nattr, NULL, 0)->out);
}

Val
memory_atomic(Call *c)
{
	return atomic(c, 1, c->def->op);
}

Val
memory_cas(Call *c)
{
	return atomic(c, 2, false);
}

Val
memory_prefetch(Call *c)
{
	Elab *e = c->e;
	TensorAccess a;
	Val pointer;
	Attr attr[2];
	if (!place_open(c, 0, &a, &pointer))
		return val_poison(c->place);
	if (a.n > 0)
		op_make(&e->b, OP_PREFETCH, a.operand, a.n, attr, access_attrs(e, &a, attr), NULL, 0);
	else
		op_make(&e->b, OP_PREFETCH, &pointer.v, 1, NULL, 0, NULL, 0);
	return (Val){.kind = VAL_VOID};
}

/* Pointer arithmetic and comparison for expr.c: a byte address never appears, offsets count elements. */

static Val
offset(Elab *e, const Val *p, const Val *by, bool back, Place at)
{
	if (!val_is_integer(by))
		return val_poison(NOWHERE);
	Value *v = by->kind == VAL_INT ? val_ir_as(e, by, TY_I64) : back ? ir_convert(e, by->v, TY_I64) : by->v;
	if (back)
		v = build1(&e->b, OP_NEG, v, NULL);
	Value *q = p->v;
	if (v->type->rank > q->type->rank)
		q = ir_broadcast(e, q, v->type->rank, v->type->extent, at);
	if (q && !type_same_shape(q->type, v->type)) {
		/* Each may repeat along different dimensions, as [64, 1] and [1, 32] do. */
		int64_t extent[MAX_RANK];
		int rank = q->type->rank, more = rank - v->type->rank;
		for (int d = 0; d < rank; d++)
			extent[d] = d >= more && q->type->extent[d] == 1 ? v->type->extent[d - more] : q->type->extent[d];
		q = ir_broadcast(e, q, rank, extent, at);
		v = q ? ir_broadcast(e, v, rank, extent, at) : NULL;
	}
	if (!q || !v)
		return (Val){.kind = VAL_VOID};
	return val_tile(at, build2(&e->b, OP_PTR_ADD, q, v));
}

static Val
difference(Elab *e, const Val *a, const Val *b, Place at)
{
	Value *p = a->v, *q = b->v;
	if (p->type->elem != q->type->elem)
		return val_poison(NOWHERE);
	if (p->type->rank < q->type->rank)
		p = ir_broadcast(e, p, q->type->rank, q->type->extent, at);
	else
		q = ir_broadcast(e, q, p->type->rank, p->type->extent, at);
	return p && q ? val_tile(at, build2(&e->b, OP_PTR_DIFF, p, q)) : (Val){.kind = VAL_VOID};
}

Val
elab_pointer(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at)
{
	Val v = val_poison(NOWHERE), zero = val_int(at, 0);
	if (val_is_poison(a) || val_is_poison(b))
		return val_poison(at);
	if (val_is_pointer(a) && val_is_pointer(b) && (op == BIN_SUB || binary_op_compares(op))) {
		v = difference(e, a, b, at);
		if (v.kind == VAL_TILE && op != BIN_SUB)
			v = elab_binary(e, op, &v, &zero, at);
	} else if (val_is_pointer(a) && !val_is_pointer(b) && (op == BIN_ADD || op == BIN_SUB)) {
		v = offset(e, a, b, op == BIN_SUB, at);
	} else if (val_is_pointer(b) && !val_is_pointer(a) && op == BIN_ADD) {
		v = offset(e, b, a, false, at);
	}
	if (v.kind == VAL_TILE)
		return v;
	if (v.kind == VAL_POISON && v.place.file < 0)
		diag_error(e->cx, at, DIAG_POINTER_ARITH, binary_op_text(op), val_describe(e, a), val_describe(e, b));
	return val_poison(at);
}
