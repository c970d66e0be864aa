/* Checks a module: structure, scopes, types, use counts, and what each op demands of its regions and
 * parameters.  The pass driver runs it around every pass; the reader uses it for what inference
 * cannot see.  It reports the first thing that is wrong.
 *
 * A value is visible in its block after its op and in every region inside.  The walk keeps an array
 * by value id: `owner` says which value has the id (a stray pointer is found out), `visible` whether it
 * is in scope at the point reached. */
#include "ir/ir.h"

#include <string.h>

typedef struct Verifier {
	Module *m;
	Func *f;
	Value **owner;                                  /* by id */
	bool *visible;
	int *uses;
	const Op *at;                                   /* op to blame */
	const char *why;
	bool in_fn;                                     /* inside a region of reduce_fn or scan_fn */
} Verifier;

#define fail(v, op, ...) ((v)->at = (op), (v)->why = arena_printf((v)->m->cx->tmp, __VA_ARGS__), false)
#define text(v, t) type_text(t, (v)->m->cx->tmp)

static bool check_block(Verifier *v, Block *b);

static bool
is_defined(const Verifier *v, const Value *x)
{
	return x && x->id >= 0 && x->id < v->f->nvalues && v->owner[x->id] == x;
}

static bool
check_operands(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		if (!is_defined(v, op->in[i]))
			return fail(v, op, "operand %d is no value of this function", i + 1);
		if (!v->visible[op->in[i]->id])
			return fail(v, op, "operand %d is not visible here", i + 1);
		v->uses[op->in[i]->id]++;
	}
	return true;
}

static bool
check_types(Verifier *v, const Op *op)
{
	Arena *tmp = v->m->cx->tmp;
	const Type **out = NEW_ARRAY(tmp, const Type *, MAX(4, MAX(op->nin, op->nout)));
	const char *why = NULL;
	int nout = 0;

	const Type **have = MAP_OF(tmp, const Type *, i, op->nout, op->out[i].type);
	if (!infer_types(v->m, op, have, op->nout, out, &nout, &why))
		return fail(v, op, "%s", why);
	if (nout != op->nout)
		return fail(v, op, "%d result%s; expected %d", op->nout, op->nout == 1 ? "" : "s", nout);
	for (int i = 0; i < nout && !v->f->is_reference; i++)
		if (out[i]->rank > KERNEL_RANK)
			return fail(v, op, "result %d is %s; a tile in a kernel has %d dimensions at most", i + 1,
			    text(v, out[i]), KERNEL_RANK);
	for (int i = 0; i < nout; i++)
		if (op->out[i].def != op || op->out[i].index != i || op->out[i].block != op->home)
			return fail(v, op, "result %d does not belong to its op", i + 1);
	return true;
}

/* A store needs a tensor that the kernel may write. */
static bool
check_access(Verifier *v, const Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		const Value *x = op->in[i];
		if (x->type->kind == TYPE_TENSOR && (x->def || x->block != v->f->body))
			return fail(v, op, "operand %d is a tensor but no parameter", i + 1);
	}
	if (op->kind != OP_WRITE && op->kind != OP_ATOMIC && op->kind != OP_SEND)
		return true;
	const FuncParam *p = &v->f->param[op->in[0]->index];
	if (p->access == ACCESS_IN)
		return fail(v, op, "tensor '%s' is an 'in' parameter; expected out, inout or scratch", p->name);
	return true;
}

static bool
check_args(Verifier *v, const Op *op, int r, const Type *const *want, int n)
{
	const Block *b = op->region[r];

	if (b->narg != n)
		return fail(v, op, "region '%s' has %d argument%s; expected %d", region_word(op->kind, r),
		    b->narg, b->narg == 1 ? "" : "s", n);
	for (int i = 0; i < n; i++)
		if (b->arg[i].type != want[i])
			return fail(v, op, "argument %d of region '%s' is %s; expected %s", i + 1,
			    region_word(op->kind, r), text(v, b->arg[i].type), text(v, want[i]));
	return true;
}

static bool
check_yield(Verifier *v, const Op *op, int r, const Type *const *want, int n)
{
	const Op *yield = op->region[r]->last;

	if (!yield || yield->kind != OP_YIELD)
		return fail(v, op, "region '%s' does not end in yield",
		    region_word(op->kind, r));
	if (yield->nin != n)
		return fail(v, yield, "%d value%s; region '%s' gives %d", yield->nin,
		    yield->nin == 1 ? "" : "s", region_word(op->kind, r), n);
	for (int i = 0; i < n; i++)
		if (yield->in[i]->type != want[i])
			return fail(v, yield, "operand %d is %s; region '%s' gives %s here", i + 1,
			    text(v, yield->in[i]->type), region_word(op->kind, r), text(v, want[i]));
	return true;
}

/* What regions take and give: of `for` the index and the carried values, and so on (see ops.def). */
static bool
check_signature(Verifier *v, const Op *op)
{
	int n = op->nout;
	const Type **t = NEW_ARRAY(v->m->cx->tmp, const Type *, 2 * n + 1);

	t[0] = type_scalar(v->m, op->kind == OP_WHILE ? TY_BOOL : TY_I64);
	for (int i = 0; i < n; i++)
		t[i + 1] = op->out[i].type;
	switch (op->kind) {
	case OP_FOR:
		return check_args(v, op, 0, t, n + 1) && check_yield(v, op, 0, t + 1, n);
	case OP_WHILE:
		return check_args(v, op, 0, t + 1, n) && check_yield(v, op, 0, t, n + 1) &&
		    check_args(v, op, 1, t + 1, n) && check_yield(v, op, 1, t + 1, n);
	case OP_IF:
		return check_args(v, op, 0, NULL, 0) && check_yield(v, op, 0, t + 1, n) &&
		    check_args(v, op, 1, NULL, 0) && check_yield(v, op, 1, t + 1, n);
	case OP_ROLES:
		t[0] = type_scalar(v->m, TY_I64);
		return check_args(v, op, 0, NULL, 0) && check_yield(v, op, 0, NULL, 0) &&
		    check_args(v, op, 1, t, 1) && check_yield(v, op, 1, NULL, 0);
	case OP_REDUCE_FN:
	case OP_SCAN_FN:
		for (int i = 0; i < n; i++)
			t[i] = t[i + n] = type_scalar(v->m, op->in[i]->type->elem);
		return check_args(v, op, 0, t, 2 * n) && check_yield(v, op, 0, t, n);
	case OP_MERGE:
		for (int i = 0; i < n; i++)
			t[i] = t[i + n] = op->out[i].type;
		return check_args(v, op, 0, t, 2 * n) && check_yield(v, op, 0, t, n);
	default:
		return true;
	}
}

static bool
check_regions(Verifier *v, const Op *op)
{
	bool was_fn = v->in_fn;

	if (op->nregion != op_regions(op->kind))
		return fail(v, op, "%d regions; expected %d", op->nregion, op_regions(op->kind));
	if (op_has_fn(op))
		v->in_fn = true;
	for (int r = 0; r < op->nregion; r++) {
		Block *b = op->region[r];
		if (!b || b->parent != op || b->func != v->f)
			return fail(v, op, "region '%s' does not belong to its op", region_word(op->kind, r));
		for (int i = 0; i < b->narg; i++)
			if (b->arg[i].type->kind != TYPE_TILE && b->arg[i].type->kind != TYPE_TOKEN)
				return fail(v, op, "argument %d of region '%s' is %s; expected a tile or a token", i + 1,
				    region_word(op->kind, r), text(v, b->arg[i].type));
		if (!check_block(v, b))
			return false;
	}
	v->in_fn = was_fn;
	return check_signature(v, op);
}

/* Inside the region of a reduction: scalars, constants, elementwise ops and control flow, so that a
 * device may run it on many elements at once or, where it loops, on each. */
static bool
check_fn_op(Verifier *v, const Op *op)
{
	unsigned traits = op_info[op->kind].traits;

	bool control = op_family(op) == FAMILY_CONTROL;
	if (op->kind != OP_CONST && !control && !((traits & PURE) && (traits & ELEM)))
		return fail(v, op, "the function of a reduction or scan may hold constants, elementwise ops and "
				   "control flow only");
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->rank)
			return fail(v, op, "operand %d is %s; the function of a reduction or scan works on scalars",
			    i + 1, text(v, op->in[i]->type));
	for (int i = 0; i < op->nout; i++)
		if (op->out[i].type->rank)
			return fail(v, op, "the result is %s; the function of a reduction or scan works on scalars",
			    text(v, op->out[i].type));
	return true;
}

static bool
has_tiles(const Op *op)
{
	return ANY_OF(i, op->nout, op->out[i].type->kind == TYPE_TILE && op->out[i].type->rank);
}

/* A layout is of a role's warps: none is of the whole block's. */
static bool
check_outside(Verifier *v, const Op *roles)
{
	for (const Op *op = v->f->body->first; op; op = op->next) {
		if (op != roles && op->kind == OP_ROLES)
			return fail(v, op, "the roles of a kernel are one op");
		if (op != roles && (v->m->facts & LAYOUTS) && has_tiles(op))
			return fail(v, op, "a tile outside of the roles, whose warps hold tiles");
	}
	return true;
}

static bool
runs_alone(const Op *op)
{
	switch (op->kind) {
	case OP_AWAIT: case OP_EXPECT: case OP_SLOT: case OP_FOR: case OP_WHILE: case OP_IF: case OP_YIELD:
	case OP_FETCH: case OP_FETCH_END: case OP_PUT_ONE:
		return true;
	case OP_ARRIVE:
		return !*attr_by(op);
	case OP_COPY:
		return op_is_bulk_copy(op);
	case OP_READ:
		return op->out[0].type->rank == 0;
	default:
		return op_has(op, PURE);
	}
}

/* One thread holds scalars, waits and begins copies; whatever needs a warp stays out. */
static bool
check_lone(Verifier *v, const Op *roles)
{
	const Block *b = roles->region[0];

	for (const Op *op = b->first; op; op = op_after(op, b)) {
		if (!runs_alone(op))
			return fail(v, op, "%s in a lone producer; expected scalars, await, expect and bulk copies",
			    op_info[op->kind].text);
		if (has_tiles(op))
			return fail(v, op, "a tile in a lone producer, which is one thread");
	}
	return true;
}

/* Two roles, the producer and the consumers, each of some warps. */
static bool
check_roles(Verifier *v, const Op *op)
{
	const AttrName names[] = {ATTR_WARPS, ATTR_COPIES, ATTR_REGS};

	for (int i = 0; i < LEN(names); i++) {
		const Attr *a = op_attr(op, names[i]);
		const char *name = attr_info[names[i]].text;
		if (a && a->ints.n != 2)
			return fail(v, op, "%d %s; expected 2, of the producer and the consumers", a->ints.n, name);
		for (int k = 0; a && k < 2; k++)
			if (a->ints.at[k] < 1 || a->ints.at[k] > 256)
				return fail(v, op, "%lld %s; expected 1 to 256", (long long)a->ints.at[k], name);
	}
	if (attr_copies(op)->at[0] != 1)
		return fail(v, op, "%lld producers; expected 1", (long long)attr_copies(op)->at[0]);
	if (op->home->parent)
		return fail(v, op, "roles stand in the function's body, in no region");
	int64_t consumers = attr_warps(op)->at[1];
	if (v->f->schedule.warps && v->f->schedule.warps != consumers)
		return fail(v, op, "consumers of %lld warps each; the schedule says %d, which are those that hold tiles",
		    (long long)consumers, v->f->schedule.warps);
	return check_outside(v, op) && (!attr_lone(op) || check_lone(v, op));
}

static bool
check_op(Verifier *v, const Op *op)
{
	if ((unsigned)op->kind >= OP_COUNT)
		return fail(v, NULL, "an op of unknown kind %d", (int)op->kind);
	if (op->kind == OP_YIELD && (op->next || !op->home->parent))
		return fail(v, op, "yield may only stand at the end of a region");
	return check_operands(v, op) && check_types(v, op) && check_access(v, op) &&
	    (op->kind != OP_ROLES || check_roles(v, op)) &&
	    (!v->in_fn || check_fn_op(v, op)) && check_regions(v, op);
}

static void
show(Verifier *v, Value *x, bool visible)
{
	v->visible[x->id] = visible;
}

static bool
check_block(Verifier *v, Block *b)
{
	const Op *prev = NULL;

	for (int i = 0; i < b->narg; i++)
		show(v, &b->arg[i], true);
	for (Op *op = b->first; op; op = op->next) {
		if (op->home != b || op->prev != prev)
			return fail(v, op, "the op is not linked to its block");
		if (!check_op(v, op))
			return false;
		for (int i = 0; i < op->nout; i++)
			show(v, &op->out[i], true);
		prev = op;
	}
	if (b->last != prev)
		return fail(v, prev, "the block does not end in its last op");
	for (int i = 0; i < b->narg; i++)
		show(v, &b->arg[i], false);
	for (Op *op = b->first; op; op = op->next)
		for (int i = 0; i < op->nout; i++)
			show(v, &op->out[i], false);
	return true;
}

static bool
check_dims(Verifier *v, const FuncParam *p, const Type *t)
{
	for (int d = 0; d < t->rank; d++) {
		if (p->dim[d] < -1 || p->dim[d] >= v->f->nparam)
			return fail(v, NULL, "parameter '%s': dimension %d names no parameter", p->name, d);
		if (p->dim[d] >= 0 && v->f->param[p->dim[d]].kind != PARAM_DIM)
			return fail(v, NULL, "parameter '%s': dimension %d is named by '%s', which is no dim",
			    p->name, d, v->f->param[p->dim[d]].name);
	}
	return true;
}

static bool
check_param(Verifier *v, int i)
{
	const FuncParam *p = &v->f->param[i];
	const Type *t = v->f->body->arg[i].type;
	bool fits = false;

	if (!name_is_valid(p->name))
		return fail(v, NULL, "parameter %d has no usable name", i + 1);
	for (int k = 0; k < i; k++)
		if (strcmp(v->f->param[k].name, p->name) == 0)
			return fail(v, NULL, "two parameters are called '%s'", p->name);
	switch (p->kind) {
	case PARAM_TENSOR:
		if (t->kind == TYPE_TENSOR && !check_dims(v, p, t))
			return false;
		fits = t->kind == TYPE_TENSOR;
		break;
	case PARAM_POINTER:
		fits = t->kind == TYPE_TILE && t->ptr != PTR_NONE && t->rank == 0;
		break;
	case PARAM_SCALAR:
		fits = t->kind == TYPE_TILE && t->ptr == PTR_NONE && t->rank == 0;
		break;
	case PARAM_DIM:
		fits = t == type_scalar(v->m, TY_I64);
		break;
	}
	if (!fits)
		return fail(v, NULL, "parameter '%s' is %s, which does not fit its kind", p->name, text(v, t));
	return true;
}

static bool
check_uses(Verifier *v)
{
	for (int i = 0; i < v->f->nvalues; i++)
		if (v->owner[i]->nuses != v->uses[i])
			return fail(v, v->owner[i]->def, "a value counts %d uses and has %d",
			    v->owner[i]->nuses, v->uses[i]);
	return true;
}

static bool
check_func(Verifier *v)
{
	Func *f = v->f;
	Arena *tmp = v->m->cx->tmp;

	if (f->module != v->m || !f->body || f->body->parent || f->body->narg != f->nparam)
		return fail(v, NULL, "the function does not hold together");
	if (!name_is_valid(f->name))
		return fail(v, NULL, "the function has no usable name");
	if (f->naxis < 0 || f->naxis > MAX_AXES)
		return fail(v, NULL, "%d grid axes; expected %d at most", f->naxis, MAX_AXES);
	if (!ALL_OF(i, f->nparam, check_param(v, i)))
		return false;
	func_number(f);
	v->owner = func_values(f, tmp).at;
	v->visible = NEW_ARRAY(tmp, bool, f->nvalues);
	v->uses = NEW_ARRAY(tmp, int, f->nvalues);
	if (!check_block(v, f->body) || !check_uses(v))
		return false;
	v->why = layouts_check(f, &v->at);
	return !v->why;
}

const char *
module_check(Module *m, const Op **at)
{
	Verifier v = {.m = m};

	*at = NULL;
	if (!(m->facts & TYPED))
		return "the module does not claim TYPED";
	for (int i = 0; i < m->funcs.n; i++) {
		v.f = m->funcs.at[i];
		v.in_fn = false;
		if (check_func(&v))
			continue;
		*at = v.at;
		return v.why;
	}
	return NULL;
}

const char *
module_verify(Module *m)
{
	const Op *at;
	const char *why = module_check(m, &at);

	return verify_message(m, why, at);
}

const char *
verify_message(Module *m, const char *why, const Op *at)
{
	Text line = {0};

	if (!why || !at)
		return why;
	op_print(at, &line);
	why = arena_printf(m->cx->tmp, "%s: %s\n\t%s", op_info[at->kind].text, why, line.at);
	text_close(&line);
	return why;
}
