/* The math family: elementwise operations of one, two and three operands.  Compile-time arguments fold through
 * const_call; everything else is matched (promoted and broadcast) and becomes one op. */
#include "sema/builtin/builtin.h"

static bool
folded(Call *c, Val *out)
{
	if (!call_is_const(c))
		return false;
	Val args[MAX_CALL_PARAMS];
	int n = 0;
	for (int i = 0; i < c->nparam; i++)
		if (call_has(c, i))
			args[n++] = c->arg[i].val;
	return const_call(c->e, c->def->name, (OpKind)c->def->op, args, n, c->place, out);
}

/* Builds the row's op, with {fast} in a call of fast::. */
static Val
emit(Call *c, Value *const *in, int nin)
{
	Elab *e = c->e;
	Attr fast = attr_new_fast(e->m, true);
	bool is_fast = (c->def->traits & FAST) && elab_fast(e, c->fast);
	Op *op = op_make(&e->b, (OpKind)c->def->op, in, nin, &fast, is_fast, NULL, 0);
	return val_tile(c->place, &op->out[0]);
}

/* Arguments 0 .. n-1 of these kinds, promoted and broadcast; weak integers count as floats where only floats will do. */
static bool
matched(Call *c, int n, unsigned kinds, Value **out)
{
	Val v[3];
	for (int i = 0; i < n; i++) {
		v[i] = c->arg[i].val;
		bool is_weak = val_is_int(&v[i]) && kinds == IS_FLOAT;
		if (is_weak)
			v[i] = val_float(v[i].place, val_float_of(&v[i]));
		bool is_value = v[i].kind == VAL_TILE || val_is_const(&v[i]);
		if (!is_value || !call_kind_ok(val_dtype(c->e, &v[i]), v[i].kind == VAL_TILE && v[i].v->type->ptr, kinds))
			return call_tile(c, i, kinds) && false;
	}
	return match_values(c->e, v, n, c->place, out);
}

/* An elementwise op of ops.def: its row says how many operands it has and of which kind. */
Val
math_elementwise(Call *c)
{
	const OpInfo *op = &op_info[c->def->op];
	unsigned kinds = op->traits & ANYF ? IS_FLOAT : op->traits & ANYI ? IS_INT : IS_NUMBER;
	Val v;
	Value *x[3];
	if (folded(c, &v))
		return v;
	if (op->nin > 1)
		return matched(c, op->nin, kinds, x) ? emit(c, x, op->nin) : val_poison(c->place);
	x[0] = call_tile(c, 0, kinds);
	return x[0] ? emit(c, x, 1) : val_poison(c->place);
}

Val
math_div(Call *c)
{
	Value *x[2];
	if (!c->fast || call_is_const(c))
		return elab_binary(c->e, BIN_DIV, &c->arg[0].val, &c->arg[1].val, c->place);
	return matched(c, 2, IS_FLOAT, x) ? emit(c, x, 2) : val_poison(c->place);
}

Val
math_pow2ceil(Call *c)
{
	Val v;
	if (folded(c, &v))
		return v;
	Val bad = call_wrong(c, 0, "a compile-time integer");
	diag_help(c->e->cx, "a compile-time parameter may be computed from a dimension: <BLOCK = pow2ceil(C)>");
	return bad;
}

/* Elementwise max(x, y) and min(x, y); op_reduce.c calls it. */
Val
math_extreme(Call *c)
{
	Val v;
	Value *x[2];
	bool nan;
	if (val_is_const(&c->arg[0].val) && val_is_const(&c->arg[1].val) &&
	    const_call(c->e, c->def->name, (OpKind)c->def->op, (Val[]){c->arg[0].val, c->arg[1].val}, 2, c->place, &v))
		return v;
	if (!call_bool(c, 4, &nan) || !matched(c, 2, IS_ANY, x))
		return val_poison(c->place);
	Elab *e = c->e;
	Attr attr = attr_new_propagate_nan(e->m, true);
	if (x[0]->type->elem == TY_BOOL)
		return val_tile(c->place, build2(&e->b, c->def->op == OP_MAX ? OP_OR : OP_AND, x[0], x[1]));
	return val_tile(c->place, op_make(&e->b, (OpKind)c->def->op, x, 2, &attr, nan, NULL, 0)->out);
}

Val
math_clamp(Call *c)
{
	Elab *e = c->e;
	bool nan;
	Val v;
	Value *x[3];
	if (!call_bool(c, 3, &nan))
		return val_poison(c->place);
	if (call_is_const(c) &&
	    const_call(e, c->def->name, (OpKind)c->def->op, (Val[]){c->arg[0].val, c->arg[1].val, c->arg[2].val}, 3,
		c->place, &v))
		return v;
	if (!matched(c, 3, IS_NUMBER, x))
		return val_poison(c->place);
	Attr attr = attr_new_propagate_nan(e->m, true);
	x[1] = op_make(&e->b, OP_MAX, x, 2, &attr, nan, NULL, 0)->out;
	return val_tile(c->place, op_make(&e->b, OP_MIN, x + 1, 2, &attr, nan, NULL, 0)->out);
}

/* A condition: bool as it is, integers by != 0 as in C. */
static Value *
condition(Call *c, int i)
{
	Val *a = &c->arg[i].val;
	if (!list_settle(c->e, a))
		return NULL;
	Value *v = call_tile(c, i, IS_BOOL | IS_INT);
	if (!v || v->type->elem == TY_BOOL)
		return v;
	return build2(&c->e->b, OP_NE, v, build_int(&c->e->b, v->type, 0));
}

/* The two choices: pointers of one type, or numbers promoted. */
static bool
choices(Call *c, Value **x)
{
	Elab *e = c->e;
	Val *a = &c->arg[1].val, *b = &c->arg[2].val;
	bool pa = a->kind == VAL_TILE && a->v->type->ptr, pb = b->kind == VAL_TILE && b->v->type->ptr;
	if (!pa && !pb)
		return match_values(e, (Val[]){*a, *b}, 2, c->place, x);
	if (pa != pb || a->v->type->elem != b->v->type->elem || a->v->type->ptr != b->v->type->ptr) {
		call_wrong(c, 2, arena_printf(e->cx->mem, "pointers as x, %s", val_describe(e, a)));
		return false;
	}
	x[0] = a->v;
	x[1] = b->v;
	return true;
}

/* The shape that n values broadcast to, if there is one; ir_broadcast reports if not. */
static void
common_shape(Value *const *x, int n, int *rank, int64_t *extent)
{
	*rank = 0;
	for (int i = 0; i < n; i++)
		*rank = MAX(*rank, x[i]->type->rank);
	for (int d = 0; d < *rank; d++) {
		extent[d] = 1;
		for (int i = 0; i < n; i++) {
			int at = d - (*rank - x[i]->type->rank);
			if (at >= 0 && x[i]->type->extent[at] != 1)
				extent[d] = x[i]->type->extent[at];
		}
	}
}

Val
math_where(Call *c)
{
	Elab *e = c->e;
	Value *x[3];
	int rank;
	int64_t extent[MAX_RANK];
	if (c->arg[0].val.kind == VAL_BOOL) {
		Val *pick = &c->arg[c->arg[0].val.i ? 1 : 2].val;
		if (val_is_const(pick) && call_is_const(c))
			return *pick;
	}
	x[0] = condition(c, 0);
	if (!x[0] || !choices(c, &x[1]))
		return val_poison(c->place);
	common_shape(x, 3, &rank, extent);
	for (int i = 0; i < 3; i++) {
		x[i] = ir_broadcast(e, x[i], rank, extent, c->arg[i].place);
		if (!x[i])
			return val_poison(c->place);
	}
	return val_tile(c->place, build3(&e->b, OP_SELECT, x[0], x[1], x[2]));
}

static bool
moves_elements(OpKind k)
{
	return k == OP_RESHAPE || k == OP_PERMUTE || k == OP_BROADCAST || k == OP_FLIP || k == OP_EXTRACT;
}

/* Over whole tensors floats are f64.  The float of so many bits that x was read or rounded as, found through ops that only
 * move elements; of 32 bits there is but one. */
static bool
narrow_float(const Value *x, int bits, DType *out)
{
	for (const Op *op = x->def; op && op->nin > 0; op = op->in[0]->def) {
		DType t = op->in[0]->type->elem;
		if (op->kind == OP_CAST && dtype_is_float(t) && dtype_info[t].bits == bits)
			return *out = t, true;
		if (op->kind != OP_CAST && !moves_elements(op->kind))
			break;
	}
	if (bits == 32)
		*out = TY_F32;
	return bits == 32;
}

Val
math_bitcast(Call *c)
{
	Elab *e = c->e;
	DType to;
	Value *x = call_tile(c, 0, IS_NUMBER);
	if (!x || !call_dtype(c, 1, &to))
		return val_poison(c->place);
	DType from = x->type->elem;
	bool lost = e->whole && from == TY_F64 && dtype_info[to].bits < 64;
	if (lost && narrow_float(x, dtype_info[to].bits, &from))
		x = ir_convert(e, x, from);
	if (to == TY_BOOL || dtype_info[from].bits != dtype_info[to].bits) {
		diag_error(e->cx, c->place, DIAG_BITCAST_WIDTH, dtype_info[from].text, dtype_info[from].bits,
		    dtype_info[to].text, dtype_info[to].bits);
		if (lost)
			diag_help(e->cx, "floats of a reference are f64; say whose bits are meant: bitcast(x as bf16, %s)",
			    dtype_info[to].text);
		else
			diag_help(e->cx, "`as` converts the value instead: `x as %s`", dtype_info[to].text);
		return val_poison(c->place);
	}
	Value *v = build1(&e->b, OP_BITCAST, x, type_with_elem(e->m, x->type, to));
	return val_tile(c->place, ir_convert(e, v, elab_dtype(e, to)));
}
