/* Makes, moves, changes and erases functions, blocks and ops.
 *
 * Every op is born through op_make, which asks infer_types for its result types, so that nothing
 * ill-typed can be built; an op that does not infer is the builder's mistake and dies with the
 * reason.  Uses are counted (Value.nuses) and not listed: a pass that replaces many values keeps
 * its own forwarding table and rewrites operands in one walk. */
#include "ir/derive.h"
#include "ir/ir.h"

#include <assert.h>
#include <string.h>

#define IS_EXACT .rounding = ROUNDING_EXACT
#define IS_NEAREST .rounding = ROUNDING_NEAREST
#define IS_ULP(f32, f64) .rounding = ROUNDING_ULP, .ulp = {f32, f64}
#define IS_BY_FN .rounding = ROUNDING_BY_FN
#define IS_BY_TYPE .rounding = ROUNDING_BY_TYPE
#define IS_SUM .rounding = ROUNDING_SUM
#define IS_ANY .rounding = ROUNDING_ANY

const OpInfo op_info[OP_COUNT] = {
#define OP(id, text_, in, out, infer, traits_, cost_, family_, rounding_, meaning_)                                \
	[OP_##id] = {.name = #id, .text = text_, .nin = in, .nout = out, .traits = traits_, .cost = COST_##cost_,   \
	    .family = FAMILY_##family_, IS_##rounding_, .meaning = meaning_},
#include "ir/ops.def"
#undef OP
};

/* What the columns of one row say of each other. */
enum {
	OF_ELEMENTS = 1 << FAMILY_ARITH | 1 << FAMILY_COMPARE | 1 << FAMILY_MATH | 1 << FAMILY_CAST | 1 << FAMILY_LOOKUP,
};
#define IMPLIES(a, b) (!(a) || (b))
#define OP(name, text, in, out, infer, traits, cost, family, rounding, meaning)                                    \
	static_assert(((OF_ELEMENTS >> FAMILY_##family & 1) != 0) == (((traits) & ELEM) != 0), text);              \
	static_assert(IMPLIES((traits) & (ANYF | ANYI), (traits) & ELEM), text);                                   \
	static_assert(((traits) & (ANYF | ANYI)) != (ANYF | ANYI), text);                                          \
	static_assert(IMPLIES((traits) & BOOLS, (traits) & ELEM), text);                                           \
	static_assert(IMPLIES((traits) & COMM, (in) >= 2), text);                                                  \
	static_assert(IMPLIES((traits) & PURE, !((traits) & (READS | WRITES | EFFECT | TERM))), text);             \
	static_assert(IMPLIES((traits) & (READS | WRITES), COST_##cost == COST_ACCESS), text);                     \
	static_assert(IMPLIES(FAMILY_##family == FAMILY_MEMORY || FAMILY_##family == FAMILY_ATOMIC,                \
	    (traits) & (READS | WRITES | EFFECT)), text);
#include "ir/ops.def"
#undef OP

/* What introduces each region in text. */
static const char *const region_words[OP_COUNT][2] = {
    [OP_FOR] = {"do"}, [OP_WHILE] = {"cond", "do"}, [OP_IF] = {"then", "else"}, [OP_ROLES] = {"producer", "consumer"},
    [OP_REDUCE_FN] = {"fn"}, [OP_SCAN_FN] = {"fn"}, [OP_MERGE] = {"by"},
};

const char *
region_word(OpKind kind, int i)
{
	return i < 2 ? region_words[kind][i] : NULL;
}

int
op_regions(OpKind kind)
{
	return region_word(kind, 1) ? 2 : region_word(kind, 0) != NULL;
}

bool
op_named(const char *text, OpKind *out)
{
	for (int k = 0; k < OP_COUNT; k++) {
		if (strcmp(op_info[k].text, text) != 0)
			continue;
		*out = (OpKind)k;
		return true;
	}
	return false;
}

Module *
module_open(Compile *cx)
{
	Module *m = NEW(cx->mem, Module);

	m->cx = cx;
	m->facts = TYPED;
	return m;
}

Func *
func_make(Module *m, const char *name, const FuncParam *param, const Type *const *type, int nparam)
{
	Func *f = NEW(m->cx->mem, Func);

	f->name = intern(m->cx->names, name);
	f->module = m;
	f->place = NOWHERE;
	f->param = NEW_ARRAY(m->cx->mem, FuncParam, nparam);
	f->nparam = nparam;
	f->body = block_make(f, NULL, type, nparam);
	for (int i = 0; i < nparam; i++) {
		f->param[i] = param[i];
		f->param[i].name = intern(m->cx->names, param[i].name);
		f->body->arg[i].name = f->param[i].name;
	}
	vec_push(m->cx->mem, &m->funcs, f);
	return f;
}

Value *
func_add_param(Func *f, const FuncParam *param, const Type *type)
{
	Arena *mem = f->module->cx->mem;
	int n = f->nparam;
	FuncParam *params = NEW_ARRAY(mem, FuncParam, n + 1);
	Value *was = f->body->arg, *arg = NEW_ARRAY(mem, Value, n + 1);

	memcpy(params, f->param, sizeof *params * (size_t)n);
	memcpy(arg, was, sizeof *arg * (size_t)n);
	params[n] = *param;
	params[n].name = intern(f->module->cx->names, param->name);
	arg[n] = (Value){.type = type, .block = f->body, .index = n, .name = params[n].name};
	f->param = params;
	f->body->arg = arg;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nin; i++)
			if (op->in[i] >= was && op->in[i] < was + n)
				op->in[i] = &arg[op->in[i]->index];
	f->nparam = f->body->narg = n + 1;
	return &arg[n];
}

Block *
block_make(Func *f, Op *parent, const Type *const *arg, int narg)
{
	Arena *mem = f->module->cx->mem;
	Block *b = NEW(mem, Block);

	b->func = f;
	b->parent = parent;
	b->arg = NEW_ARRAY(mem, Value, narg);
	b->narg = narg;
	for (int i = 0; i < narg; i++)
		b->arg[i] = (Value){.type = arg[i], .block = b, .index = i};
	return b;
}

static void
link_op(Op *op, Block *b, Op *before)
{
	op->home = b;
	op->next = before;
	op->prev = before ? before->prev : b->last;
	if (op->prev)
		op->prev->next = op;
	else
		b->first = op;
	if (before)
		before->prev = op;
	else
		b->last = op;
	for (int i = 0; i < op->nout; i++)
		op->out[i].block = b;
}

static void
unlink_op(Op *op)
{
	Block *b = op->home;

	if (op->prev)
		op->prev->next = op->next;
	else
		b->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		b->last = op->prev;
	op->prev = op->next = NULL;
}

Op *
op_make(Builder *b, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *const *want, int nwant)
{
	return op_make_regions(b, kind, in, nin, attr, nattr, want, nwant, 0);
}

Op *
op_make_regions(Builder *b, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *const *want, int nwant, int nregion)
{
	Arena *mem = b->m->cx->mem;
	int nout = 0;
	const Type **type = NEW_ARRAY(b->m->cx->tmp, const Type *, MAX(4, MAX(nin, nwant)));
	const char *why = NULL;
	Op *op = NEW(mem, Op);

	op->kind = kind;
	op->place = b->place;
	if (b->call)
		op->place.call = b->call;
	op->nin = nin;
	op->in = NEW_COPY(mem, in, nin);
	op->nattr = nattr;
	op->attr = NEW_COPY(mem, attr, nattr);
	if (!infer_types(b->m, op, want, nwant, type, &nout, &why))
		die("%s: %s", op_info[kind].text, why);
	for (int i = 0; i < nin; i++)
		in[i]->nuses++;
	op->nout = nout;
	op->out = NEW_ARRAY(mem, Value, nout);
	for (int i = 0; i < nout; i++)
		op->out[i] = (Value){.type = type[i], .def = op, .index = i};
	op->nregion = nregion;
	op->region = NEW_ARRAY(mem, Block *, nregion);
	link_op(op, b->block, b->before);
	return op;
}

static Value *
build(Builder *b, OpKind kind, Value *const *in, int nin, const Type *want)
{
	Op *op = op_make(b, kind, in, nin, NULL, 0, &want, want ? 1 : 0);

	return op->nout ? &op->out[0] : NULL;
}

Value *
build0(Builder *b, OpKind kind, const Type *want)
{
	return build(b, kind, NULL, 0, want);
}

Value *
build1(Builder *b, OpKind kind, Value *x, const Type *want)
{
	return build(b, kind, (Value *[]){x}, 1, want);
}

Value *
build2(Builder *b, OpKind kind, Value *x, Value *y)
{
	return build(b, kind, (Value *[]){x, y}, 2, NULL);
}

Value *
build3(Builder *b, OpKind kind, Value *x, Value *y, Value *z)
{
	return build(b, kind, (Value *[]){x, y, z}, 3, NULL);
}

Builder
build_before(Op *op)
{
	return (Builder){.m = op->home->func->module, .block = op->home, .before = op, .place = op->place};
}

Value *
build_int(Builder *b, const Type *t, int64_t v)
{
	Attr value = dtype_is_float(t->elem) ? attr_float_value((double)v)
	    : t->elem == TY_BOOL ? attr_bool_value(v != 0)
				 : attr_int_value(int_wrap(t->elem, v));

	return &op_make(b, OP_CONST, NULL, 0, &value, 1, &t, 1)->out[0];
}

Value *
build_index(Builder *b, int64_t v)
{
	return build_int(b, type_scalar(b->m, TY_I64), v);
}

Value *
build_float(Builder *b, const Type *t, double v)
{
	if (!dtype_is_float(t->elem))
		die("a float constant of type %s", dtype_info[t->elem].text);
	Attr value = attr_float_value(t->elem == TY_F32 ? (double)(float)v : v);

	return &op_make(b, OP_CONST, NULL, 0, &value, 1, &t, 1)->out[0];
}

const Type **
value_types(Value *const *v, int n, Arena *mem)
{
	return MAP_OF(mem, const Type *, i, n, v[i]->type);
}

Op *
build_for(Builder *b, Value *const bounds[3], Value *const *init, int n, const Op *like)
{
	Arena *tmp = b->m->cx->tmp;

	Value **in = MAP_OF(tmp, Value *, i, 3 + n, i < 3 ? bounds[i] : init[i - 3]);
	Op *loop = op_make_regions(b, OP_FOR, in, 3 + n, like ? like->attr : NULL, like ? like->nattr : 0, NULL, 0, 1);
	const Type **arg = value_types(in + 2, 1 + n, tmp);     /* the index is of the step's type */
	Block *body = loop->region[0] = block_make(b->block->func, loop, arg, 1 + n);
	for (int i = 0; i < n; i++)
		body->arg[1 + i].layout = loop->out[i].layout = init[i]->layout;
	return loop;
}

Op *
build_if(Builder *b, Value *condition, Value *const *like, int n)
{
	const Type **type = value_types(like, n, b->m->cx->tmp);
	Op *branch = op_make_regions(b, OP_IF, &condition, 1, NULL, 0, type, n, 2);

	for (int r = 0; r < 2; r++)
		branch->region[r] = block_make(b->block->func, branch, NULL, 0);
	for (int i = 0; i < n; i++)
		branch->out[i].layout = like[i]->layout;
	return branch;
}

Op *
build_yield(Builder *b, Value *const *in, int nin)
{
	return op_make(b, OP_YIELD, in, nin, NULL, 0, NULL, 0);
}

void
value_replace(Value *from, Value *to)
{
	if (from == to || from->nuses == 0)
		return;
	for (Op *op = from->block->first; op; op = op_after(op, from->block)) {
		for (int i = 0; i < op->nin; i++)
			if (op->in[i] == from)
				op_set_in(op, i, to);
		if (from->nuses == 0)
			return;
	}
}

void
op_set_in(Op *op, int i, Value *v)
{
	op->in[i]->nuses--;
	op->in[i] = v;
	v->nuses++;
}

void
op_move(Op *op, Block *to, Op *before)
{
	unlink_op(op);
	link_op(op, to, before);
}

/* Regions go with their op: their operands no longer count as uses. */
void
op_erase(Op *op)
{
	for (int r = 0; r < op->nregion; r++)
		while (op->region[r] && op->region[r]->last) {
			Op *last = op->region[r]->last;
			for (int i = 0; i < last->nout; i++)
				if (last->out[i].nuses)
					die("erasing '%s' inside a region: a result is used", op_info[last->kind].text);
			op_erase(last);
		}
	for (int i = 0; i < op->nout; i++)
		if (op->out[i].nuses)
			die("erasing '%s', whose result %d is used", op_info[op->kind].text, i);
	for (int i = 0; i < op->nin; i++)
		op->in[i]->nuses--;
	unlink_op(op);
	op->home = NULL;
}

void
op_replace(Op *op, Op *by)
{
	for (int i = 0; i < op->nout; i++) {
		by->out[i].name = op->out[i].name;
		value_replace(&op->out[i], &by->out[i]);
	}
	op_erase(op);
}

bool
op_inside(const Op *op, const Block *b)
{
	return block_inside(op->home, b);
}

Op *
op_after(const Op *op, const Block *within)
{
	for (int r = 0; r < op->nregion; r++)
		if (op->region[r] && op->region[r]->first)
			return op->region[r]->first;
	while (!op->next) {
		Op *parent = op->home->parent;
		int r = 0;
		if (op->home == within || !parent)
			return NULL;
		while (parent->region[r] != op->home)
			r++;
		for (r++; r < parent->nregion; r++)
			if (parent->region[r] && parent->region[r]->first)
				return parent->region[r]->first;
		op = parent;
	}
	return op->next;
}

static void
number_block(Func *f, Block *b)
{
	for (int i = 0; i < b->narg; i++)
		b->arg[i].id = f->nvalues++;
	for (Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nout; i++)
			op->out[i].id = f->nvalues++;
		for (int r = 0; r < op->nregion; r++)
			if (op->region[r])
				number_block(f, op->region[r]);
	}
}

void
func_number(Func *f)
{
	f->nvalues = 0;
	number_block(f, f->body);
}

static void
add_values(const Block *b, Arena *mem, ValueList *all)
{
	for (int i = 0; i < b->narg; i++)
		vec_push(mem, all, &b->arg[i]);
	for (const Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nout; i++)
			vec_push(mem, all, &op->out[i]);
		for (int r = 0; r < op->nregion; r++)
			if (op->region[r])
				add_values(op->region[r], mem, all);
	}
}

ValueList
func_values(const Func *f, Arena *mem)
{
	ValueList all = {0};

	add_values(f->body, mem, &all);
	return all;
}
