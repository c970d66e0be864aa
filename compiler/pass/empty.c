/* Removes tiles without elements, so that later passes need not handle them.
 *
 *     %v = read %x, %i {extents = [0]} : f32[0]           %s = const {value = 0.0} : f32
 *     %s = reduce %v {fn = "sum"} : f32              =>   %w = read %y, %i {extents = [8]} : f32[8]
 *     %w = read %y, %i {extents = [8]} : f32[8]           write %z, %i, %w {extents = [8]}
 *     %c = cat %v, %w : f32[8]
 *     write %z, %i, %c {extents = [8]}
 *     write %z, %i, %v {extents = [0]}
 *
 * Every such value becomes a constant, so that loops and branches need not carry it, and what only made others of them is
 * dead.  What has elements and is made of none is said here: reductions, products along no K, counts, what is looked up.
 * What would touch memory goes. */
#include "ir/derive.h"
#include "pass/pass.h"

#include <string.h>

static bool
is_empty(const Value *v)
{
	return v->type->kind == TYPE_TILE && type_count(v->type) == 0;
}

static bool
any_empty(const Op *op)
{
	return ANY_OF(i, op->nin, is_empty(op->in[i])) || ANY_OF(i, op->nout, is_empty(&op->out[i]));
}

/* What stands for a tile without elements, at the function's beginning; of pointers, which no constant is, a parameter's
 * broadcast.  NULL: there is no parameter of that type. */
static Value *
nothing(Func *f, const Type *t)
{
	Builder b = {.m = f->module, .block = f->body, .before = f->body->first, .place = f->place};
	if (t->ptr == PTR_NONE)
		return build_int(&b, t, 0);
	for (int i = 0; i < f->body->narg; i++) {
		Value *p = &f->body->arg[i];
		if (p->type->kind == TYPE_TILE && p->type->ptr == t->ptr && p->type->elem == t->elem)
			return build1(&b, OP_BROADCAST, p, t);
	}
	return NULL;
}

/* Is it what `nothing` made? */
static bool
is_nothing(const Op *op)
{
	return op->kind == OP_CONST || (op->kind == OP_BROADCAST && !op->in[0]->def && op->in[0]->block == op->home);
}

static void
replace(Func *f, Value *v)
{
	Value *to = is_empty(v) && v->nuses ? nothing(f, v->type) : NULL;
	if (to)
		value_replace(v, to);
}

static Value *
reduced(Builder *b, const Op *op)
{
	const char *fn = attr_fn(op);
	const Type *t = op->out[0].type;
	if (strcmp(fn, "max") == 0 || strcmp(fn, "min") == 0)
		return build_extreme(b, t, fn[1] == 'i');
	return build_int(b, t, strcmp(fn, "prod") == 0 || strcmp(fn, "all") == 0);
}

/* The parts of a cat that have elements. */
static Value *
joined(Builder *b, const Op *op)
{
	Value **part = NEW_ARRAY(b->m->cx->tmp, Value *, op->nin);
	int n = 0;
	for (int i = 0; i < op->nin; i++)
		if (!is_empty(op->in[i]))
			part[n++] = op->in[i];
	return n == 1 ? part[0] : op_make(b, OP_CAT, part, n, op->attr, op->nattr, NULL, 0)->out;
}

/* What a result with elements is where an operand has none; NULL: what the op says. */
static Value *
instead(Op *op)
{
	Builder b = build_before(op);
	switch (op->kind) {
	case OP_REDUCE: return reduced(&b, op);
	case OP_HISTOGRAM: case OP_GATHER: return op->out[0].type->ptr ? NULL : build_int(&b, op->out[0].type, 0);
	case OP_SCATTER: return op->in[0];
	case OP_DOT: return op->in[2];
	case OP_DOT_SCALED: return op->in[4];
	case OP_CAT: return joined(&b, op);
	default: return NULL;
	}
}

/* An effect on no element. */
static bool
is_idle(const Op *op)
{
	const IntList *extents = attr_extents(op);
	switch (op->kind) {
	case OP_WRITE: case OP_ATOMIC: return is_empty(op->in[access_data(op)]);
	case OP_STORE: case OP_ATOMIC_PTR: case OP_ASSERT: return is_empty(op->in[0]);
	case OP_INLINE_PTX: return any_empty(op);
	case OP_PREFETCH:
		if (extents && ANY_OF(i, extents->n, extents->at[i] == 0))
			return true;
		return any_empty(op);
	default: return false;
	}
}

static void
vanish(Func *f, Op *op)
{
	Value *v = op->nout == 1 && !is_empty(&op->out[0]) && any_empty(op) ? instead(op) : NULL;
	if (v)
		value_replace(&op->out[0], v);
	for (int i = 0; i < op->nout && !is_nothing(op); i++)
		replace(f, &op->out[i]);
	for (int r = 0; r < op->nregion; r++)
		for (int i = 0; i < op->region[r]->narg; i++)
			replace(f, &op->region[r]->arg[i]);
	if (is_idle(op))
		op_erase(op);
}

static bool
has_none(const Type *t)
{
	return t->kind == TYPE_TILE && type_count(t) == 0;
}

void
pass_empty(Func *f, const Target *t)
{
	const HashTable *types = &f->module->types;
	if (!ANY_OF(i, types->all.n, has_none(types->all.at[i].of)))
		return;
	for (EACH_OP(op, f->body))
		vanish(f, op);
	func_number(f);
}
