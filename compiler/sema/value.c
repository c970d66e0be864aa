/* Values of the elaborator: making them, describing them in messages, and taking compile-time facts out
 * of them.  Promotion, literals and broadcasting of operands are in promote.c. */
#include "sema/elab.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

Val
val_poison(Place at)
{
	return (Val){.kind = VAL_POISON, .place = at};
}

Val
val_int(Place at, int64_t i)
{
	return (Val){.kind = VAL_INT, .place = at, .i = i};
}

Val
val_uint(Place at, uint64_t u)
{
	return (Val){.kind = u > INT64_MAX ? VAL_BIG : VAL_INT, .place = at, .i = (int64_t)u};
}

double
val_float_of(const Val *v)
{
	return v->kind == VAL_FLOAT ? v->f : v->kind == VAL_BIG ? (double)(uint64_t)v->i : (double)v->i;
}

const char *
val_int_text(Compile *cx, const Val *v)
{
	return v->kind == VAL_BIG ? arena_printf(cx->mem, "%" PRIu64, (uint64_t)v->i)
	                          : arena_printf(cx->mem, "%" PRId64, v->i);
}

Val
val_float(Place at, double f)
{
	return (Val){.kind = VAL_FLOAT, .place = at, .f = f};
}

Val
val_bool(Place at, bool b)
{
	return (Val){.kind = VAL_BOOL, .place = at, .i = b};
}

Val
val_tile(Place at, Value *v)
{
	return v ? (Val){.kind = VAL_TILE, .place = at, .v = v} : val_poison(at);
}

bool
val_constant(const Val *v, Val *out)
{
	const Attr *a = v->kind == VAL_TILE && v->v->type->rank == 0 ? value_const(v->v) : NULL;

	if (!a)
		return false;
	if (a->kind == KIND_FLOAT)
		*out = val_float(v->place, a->f);
	else if (a->kind == KIND_BOOL)
		*out = val_bool(v->place, a->i != 0);
	else
		*out = v->v->type->elem == TY_U64 ? val_uint(v->place, (uint64_t)a->i) : val_int(v->place, a->i);
	return true;
}

Val
val_tuple(Elab *e, Place at, const Val *items, int n)
{
	Val v = {.kind = VAL_TUPLE, .place = at, .n = n};

	v.items = NEW_COPY(e->cx->mem, items, n);
	return v;
}

Val
val_of_const(Place at, const Const *c)
{
	switch (c->kind) {
	case CONST_NONE: return val_poison(at);
	case CONST_INT: return val_int(at, c->i);
	case CONST_BIG: return val_uint(at, (uint64_t)c->i);
	case CONST_FLOAT: return val_float(at, c->f);
	case CONST_BOOL: return val_bool(at, c->i != 0);
	case CONST_DTYPE: return (Val){.kind = VAL_DTYPE, .place = at, .dtype = c->dtype};
	case CONST_TEXT: return (Val){.kind = VAL_TEXT, .place = at, .text = c->text};
	}
	unreachable();
}

bool
const_of_val(const Val *v, Const *out)
{
	switch (v->kind) {
	case VAL_INT: *out = (Const){.kind = CONST_INT, .i = v->i}; return true;
	case VAL_BIG: *out = (Const){.kind = CONST_BIG, .i = v->i}; return true;
	case VAL_FLOAT: *out = (Const){.kind = CONST_FLOAT, .f = v->f}; return true;
	case VAL_BOOL: *out = (Const){.kind = CONST_BOOL, .i = v->i}; return true;
	case VAL_DTYPE: *out = (Const){.kind = CONST_DTYPE, .dtype = v->dtype}; return true;
	case VAL_TEXT: *out = (Const){.kind = CONST_TEXT, .text = v->text}; return true;
	default: return false;
	}
}

void
const_to_float(Const *c)
{
	if (c->kind == CONST_INT)
		*c = (Const){.kind = CONST_FLOAT, .f = (double)c->i};
	else if (c->kind == CONST_BIG)
		*c = (Const){.kind = CONST_FLOAT, .f = (double)(uint64_t)c->i};
}

bool
const_equal(const Const *a, const Const *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case CONST_NONE: return true;
	case CONST_INT:
	case CONST_BIG:
	case CONST_BOOL: return a->i == b->i;
	case CONST_FLOAT: return a->f == b->f || (isnan(a->f) && isnan(b->f));
	case CONST_DTYPE: return a->dtype == b->dtype;
	case CONST_TEXT: return strcmp(a->text, b->text) == 0;
	}
	unreachable();
}

const NamedConst *
named_const(const NamedConst *c, int n, const char *name)
{
	return VALUE_OF(i, n, strcmp(c[i].name, name) == 0, &c[i], NULL);
}

const char *
float_text(Compile *cx, double f)
{
	const char *s = arena_printf(cx->mem, "%.9g", f);

	return strpbrk(s, ".en") ? s : arena_printf(cx->mem, "%s.0", s);
}

void
const_text(const Const *c, Text *out)
{
	switch (c->kind) {
	case CONST_FLOAT: text_printf(out, "%.9g", c->f); break;
	case CONST_BOOL: text_put(out, c->i ? "true" : "false"); break;
	case CONST_DTYPE: text_put(out, dtype_info[c->dtype].text); break;
	case CONST_TEXT: text_json(out, c->text); break;
	case CONST_BIG: text_printf(out, "%llu", (unsigned long long)c->i); break;
	default: text_printf(out, "%lld", (long long)c->i);
	}
}

const char *
const_describe(Compile *cx, const Const *c)
{
	Text text = {0};

	switch (c->kind) {
	case CONST_NONE: return "nothing";
	case CONST_FLOAT: return float_text(cx, c->f);
	case CONST_TEXT: return arena_printf(cx->mem, "\"%s\"", c->text);
	default: const_text(c, &text); return text_take(&text, cx->mem);
	}
}

const char *
val_describe(Elab *e, const Val *v)
{
	Arena *mem = e->cx->mem;

	switch (v->kind) {
	case VAL_POISON: return "a broken value";
	case VAL_VOID: return "nothing";
	case VAL_INT:
	case VAL_BIG: return arena_printf(mem, "the integer %s", val_int_text(e->cx, v));
	case VAL_FLOAT: return arena_printf(mem, "the number %s", float_text(e->cx, v->f));
	case VAL_BOOL: return v->i ? "true" : "false";
	case VAL_DTYPE: return arena_printf(mem, "the type %s", dtype_info[v->dtype].text);
	case VAL_TEXT: return arena_printf(mem, "the text \"%s\"", v->text);
	case VAL_TUPLE: return arena_printf(mem, "a tuple of %d", v->n);
	case VAL_LIST: return arena_printf(mem, "a list of %d", v->n);
	case VAL_PART: return "the state of another part";
	case VAL_TILE:                                  /* scalars say that they are */
		return arena_printf(mem, "%s%s", v->v->type->rank == 0 && v->v->type->ptr == PTR_NONE ? "a scalar " : "",
		    type_text(v->v->type, mem));
	case VAL_TENSOR:
		return arena_printf(mem, "the tensor %s", e->kernel->params.at[v->param].name);
	case VAL_FN:
		if (v->fn)
			return arena_printf(mem, "the function %s", v->fn->name);
		return "a function";
	}
	unreachable();
}

DType
val_dtype(Elab *e, const Val *v)
{
	switch (v->kind) {
	case VAL_INT: return v->i >= INT32_MIN && v->i <= INT32_MAX ? TY_I32 : TY_I64;
	case VAL_BIG: return TY_U64;
	case VAL_FLOAT: return e->whole ? TY_F64 : TY_F32;
	case VAL_BOOL: return TY_BOOL;
	case VAL_TILE: return v->v->type->elem;
	case VAL_TENSOR: return e->func->body->arg[v->param].type->elem;
	default: return TY_I32;
	}
}

bool
val_is_number(const Val *v)
{
	return val_is_const(v) || (v->kind == VAL_TILE && v->v->type->ptr == PTR_NONE);
}

const Type *
val_type(Elab *e, const Val *v)
{
	return v->kind == VAL_TILE ? v->v->type : type_scalar(e->m, val_dtype(e, v));
}

void
hint_run_time(Elab *e)
{
	if (e->whole)
		diag_help(e->cx, "this value is computed only when the reference runs; the dimensions' names, and what "
			"is computed from them, are known before");
	else
		diag_help(e->cx, "this value is known only at run time; make it a compile-time "
			"parameter of the kernel, as in <BLOCK = 128> or <BLOCK = pow2ceil(N)>");
}

bool
val_wanted(Elab *e, const Val *v, const char *what, const char *expected)
{
	if (v->kind != VAL_POISON) {
		diag_error(e->cx, v->place, DIAG_WANTED, what, expected, val_describe(e, v));
		if (strncmp(expected, "a compile-time", 14) != 0)
			return false;
		if (v->kind == VAL_TILE && v->v->type->elem == TY_BOOL)
			diag_help(e->cx, "what is known only at run time is decided by a plain 'if'");
		else if (v->kind == VAL_TILE && v->v->type->rank == 0)
			hint_run_time(e);
	}
	return false;
}

bool
val_const_int(Elab *e, const Val *given, const char *what, int64_t *out)
{
	Val known = val_folded(e, given), *v = &known;

	if (v->kind != VAL_INT)
		return val_wanted(e, v, what, "a compile-time integer");
	*out = v->i;
	return true;
}

bool
val_const_bool(Elab *e, const Val *v, const char *what, bool *out)
{
	if (v->kind != VAL_BOOL)
		return val_wanted(e, v, what, "a compile-time true or false");
	*out = v->i != 0;
	return true;
}

bool
val_const_dtype(Elab *e, const Val *v, const char *what, DType *out)
{
	if (v->kind != VAL_DTYPE)
		return val_wanted(e, v, what, "a type such as f32");
	*out = v->dtype;
	return true;
}

Value *
val_index(Elab *e, const Val *v, const char *what)
{
	if (v->kind == VAL_INT)
		return val_ir_as(e, v, TY_I64);
	if (v->kind == VAL_TILE && v->v->type->rank == 0 && v->v->type->ptr == PTR_NONE &&
	    dtype_is_int(v->v->type->elem))
		return ir_cast(e, v->v, TY_I64);
	val_wanted(e, v, what, "an integer scalar");
	return NULL;
}
