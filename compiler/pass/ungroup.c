/* Loops whose trips add up what several groups of decoded weights come to go by one group.
 *
 *     for %k in 0 .. %K by 256 do (%a: f32[8]) {                   for %k in 0 .. %K by 32 do (%a: f32[8]) {
 *         %w = read … %k {[8, 256]}                                    %w = read … %k {[8, 32]}
 *         %v = reshape (cast %w) : f32[8, 8, 32]                       %v = reshape (cast %w) : f32[8, 1, 32]
 *         %x = broadcast (reshape …) : f32[8, 8, 32]                   %x = broadcast (reshape …) : f32[8, 1, 32]
 *         %p = reduce (mul %v, %x) {"sum", axis = 2}           =>      %p = reduce (mul %v, %x) {"sum", axis = 2}
 *         %s = read … (%k / 32) {[8, 8]}                               %s = read … (%k / 32) {[8, 1]}
 *         %t = reduce (mul %p, %s) {"sum", axis = 1}                   %t = reduce (mul %p, %s) {"sum", axis = 1}
 *         yield (add %a, %t)                                           yield (add %a, %t)
 *     }                                                            }
 *
 * So the sums become products of matrices (pass contract), of which warps take trips apart (pass slice_k).  A tile's
 * dimension has the groups if it is read from where the trip begins and is as long as the trip goes on: one after the
 * other, each of as many neighbours.  All that is computed of them must be computed of each group for itself, up to a sum
 * over all of them that is added to what the loop carries.  What has no groups must be the same in all of the trip. */

#include "ir/derive.h"
#include "pass/decoded.h"

#include <string.h>

enum { NO_GROUPS = -1, FEWEST = 2 };

typedef struct Part {
	int dim;                                        /* a tile's dimension that has the groups; NO_GROUPS */
	int64_t step;                                   /* an integer: what a trip adds to it */
	bool is_sum;                                    /* over all groups */
} Part;

typedef struct Ungroup {
	Func *f;
	Op *loop;
	Block *body;
	int64_t step, groups;
	Part *part;                                     /* by Value.id */
	Value **map;
	Builder b;
} Ungroup;

static Part *
part_of(const Ungroup *x, const Value *v)
{
	return &x->part[v->id];
}

static bool
has_groups(const Ungroup *x, const Value *v)
{
	return part_of(x, v)->dim != NO_GROUPS;
}

/* ---- is it such a loop? ---- */

static bool
visit_index(Ungroup *x, const Op *op, Part *p)
{
	int64_t by, first;
	const Part *a = part_of(x, op->in[0]), *b = op->nin > 1 ? part_of(x, op->in[1]) : NULL;
	switch (op->kind) {
	case OP_ADD: p->step = a->step + b->step; return true;
	case OP_SUB: p->step = a->step - b->step; return true;
	case OP_CAST: p->step = a->step; return dtype_is_int(op->out->type->elem);
	case OP_MUL:
		for (int i = 0; i < 2; i++)
			if (value_int(op->in[i], &by))
				return !__builtin_mul_overflow(by, part_of(x, op->in[1 - i])->step, &p->step);
		return false;
	case OP_DIV:
		if (!value_int(op->in[1], &by) || by <= 0 || !value_int(x->loop->in[0], &first) || first != 0 ||
		    (op->in[0] != &x->body->arg[0] &&
			!(op->in[0]->def->kind == OP_MUL && op->in[0]->def->in[0] == &x->body->arg[0])))
			return false;
		p->step = a->step % by == 0 ? a->step / by : 0; /* or the same in all of the trip */
		return a->step % by == 0 || by % a->step == 0;
	default: return false;
	}
}

static bool
visit_read(Ungroup *x, const Op *op, Part *p)
{
	const char *index = attr_index(op);
	const IntList *extents = attr_extents(op);
	int rank = op->in[0]->type->rank, at = 0;
	for (int d = 0; d < rank; d++) {
		const Value *start = op->in[1 + d];
		int64_t step = part_of(x, start)->step;
		if (index[d] == 'g')
			return false;
		int64_t extent = index[d] == 'p' ? extents->at[at] : 0;
		if (step != 0) {
			if (extent != step || p->dim != NO_GROUPS || step % x->groups)
				return false;
			p->dim = at;
		}
		at += index[d] == 'p';
	}
	return op->nin == 1 + rank;
}

static int64_t
below(const Type *t, int dim)
{
	int64_t n = 1;
	for (int d = dim + 1; d < t->rank; d++)
		n *= t->extent[d];
	return n;
}

static bool
visit_reshape(Ungroup *x, const Op *op, Part *p)
{
	const Part *from = part_of(x, op->in[0]);
	const Type *was = op->in[0]->type, *t = op->out->type;
	int64_t inner = below(was, from->dim) * was->extent[from->dim];
	for (int d = 0; d < t->rank; d++)
		if (below(t, d) * t->extent[d] == inner && t->extent[d] % x->groups == 0)
			p->dim = d;
	return p->dim != NO_GROUPS;
}

static bool
visit_elementwise(Ungroup *x, const Op *op, Part *p)
{
	bool sums = false;
	for (int i = 0; i < op->nin; i++) {
		const Part *q = part_of(x, op->in[i]);
		sums |= q->is_sum;
		if (q->dim == NO_GROUPS)
			continue;
		if (p->dim != NO_GROUPS && p->dim != q->dim)
			return false;
		p->dim = q->dim;
	}
	for (int i = 0; i < op->nin && p->dim != NO_GROUPS; i++)
		if (!has_groups(x, op->in[i]) && !decoded_is_even(op->in[i], p->dim))
			return false;
	if (!sums)
		return true;
	p->is_sum = true;                               /* all of them, or each times what the trip has once */
	bool adds = op->kind == OP_ADD && part_of(x, op->in[0])->is_sum && part_of(x, op->in[1])->is_sum;
	bool scales = op->kind == OP_MUL && !(part_of(x, op->in[0])->is_sum && part_of(x, op->in[1])->is_sum);
	return p->dim == NO_GROUPS && (adds || scales);
}

static bool
visit_reduce(Ungroup *x, const Op *op, Part *p)
{
	const Part *from = part_of(x, op->in[0]);
	int axis = (int)attr_axis(op);
	if (from->dim == axis) {
		p->is_sum = true;
		return strcmp(attr_fn(op), "sum") == 0 && op->nin == 1 && op->nregion == 0;
	}
	p->dim = from->dim - (axis < from->dim);
	return op->nin == 1 && op->nregion == 0;
}

static bool
visit(Ungroup *x, const Op *op)
{
	Part p = {.dim = NO_GROUPS};
	bool groups = false, sums = false;
	for (int i = 0; i < op->nin; i++) {
		groups |= has_groups(x, op->in[i]);
		sums |= part_of(x, op->in[i])->is_sum;
	}
	bool is_index = op->nout == 1 && op->out->type->rank == 0 && ANY_OF(i, op->nin, part_of(x, op->in[i])->step != 0);
	bool ok = op->nregion == 0 && (op_has(op, PURE) || op->kind == OP_READ);
	if (ok && is_index)
		ok = op->kind == OP_READ ? false : visit_index(x, op, &p);
	else if (ok && op->kind == OP_READ)
		ok = visit_read(x, op, &p);
	else if (ok && ANY_OF(i, op->nin, part_of(x, op->in[i])->step != 0))
		ok = false;
	else if (ok && (groups || sums) && op_has(op, ELEM))
		ok = visit_elementwise(x, op, &p);
	else if (ok && groups)
		switch (op->kind) {
		case OP_RESHAPE: ok = visit_reshape(x, op, &p); break;
		case OP_BROADCAST: p.dim = part_of(x, op->in[0])->dim; break;
		case OP_PERMUTE:
			for (int d = 0; d < op->out->type->rank; d++)
				if (attr_dims(op)->at[d] == part_of(x, op->in[0])->dim)
					p.dim = d;
			break;
		case OP_REDUCE: ok = visit_reduce(x, op, &p); break;
		case OP_JOIN:
			p.dim = part_of(x, op->in[0])->dim;
			ok = p.dim == part_of(x, op->in[1])->dim;
			break;
		case OP_SPLIT: p.dim = part_of(x, op->in[0])->dim; ok = p.dim != op->in[0]->type->rank - 1; break;
		default: ok = false;
		}
	else if (ok && sums)
		ok = op->kind == OP_RESHAPE || op->kind == OP_PERMUTE ? (p.is_sum = true) : false;
	for (int i = 0; i < op->nout; i++)
		*part_of(x, &op->out[i]) = p;
	return ok;
}

/* Is all that the loop carries added up, of all groups? */
static bool
adds_sums(const Ungroup *x)
{
	const Op *yield = x->body->last;
	for (int i = 0; i < yield->nin; i++) {
		const Value *arg = &x->body->arg[1 + i];
		const Op *add = yield->in[i]->def;
		bool adds = add && add->kind == OP_ADD && add->home == x->body && arg->nuses == 1 && add->out->nuses == 1;
		int own = adds && add->in[0] == arg ? 0 : 1;
		if (!adds || add->in[own] != arg || !part_of(x, add->in[1 - own])->is_sum)
			return false;
	}
	return yield->nin > 0;
}

static bool
goes_by_groups(Ungroup *x)
{
	for (Op *op = x->body->first; op != x->body->last; op = op->next) {
		bool ends = ANY_OF(i, x->body->last->nin, x->body->last->in[i] == op->out) && op->kind == OP_ADD;
		if (!ends && !visit(x, op))
			return false;
	}
	return adds_sums(x);
}

/* Is a product of the two what pass contract multiplies? */
static bool
is_product(const Op *mul, int axis)
{
	for (int i = 0; i < 2; i++) {
		const Op *op = mul->in[1 - i]->def;
		while (op && (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE))
			op = op->in[0]->def;
		DType t = op && op->kind == OP_CAST ? op->in[0]->type->elem : TY_BOOL;
		if ((t == TY_F16 || t == TY_BF16) && decoded_is(mul->in[i], axis, t))
			return true;
	}
	return false;
}

/* The number of groups that sums of decoded weights have in a trip; 0: there are none. */
static int64_t
count_groups(const Ungroup *x)
{
	for (const Op *op = x->body->first; op; op = op->next) {
		const Op *mul = op->kind == OP_REDUCE && op->nin == 1 ? op->in[0]->def : NULL;
		const Type *t = mul && mul->kind == OP_MUL ? mul->out->type : NULL;
		int axis = t ? (int)attr_axis(op) : 0;
		if (t && t->rank == 3 && axis > 0 && x->step % t->extent[axis - 1] == 0 && is_product(mul, axis))
			return t->extent[axis - 1];
	}
	return 0;
}

/* ---- the loop by one group ---- */

static const Type *
of_one(const Ungroup *x, const Type *t, int dim)
{
	return type_with_extent(x->b.m, t, dim, t->extent[dim] / x->groups);
}

static Value *
even(Ungroup *x, Value *v, int dim)
{
	const Op *op = v->def;
	const Attr *constant = value_const(v);
	const Type *t = of_one(x, v->type, dim);
	if (constant)
		return constant->kind == KIND_FLOAT ? build_float(&x->b, t, constant->f) : build_int(&x->b, t, constant->i);
	if (op->kind == OP_BROADCAST) {
		Value *from = value_mapped(x->map, op->in[0]);
		bool is_one = from->type->rank == 0 || from->type->extent[dim] == 1;
		return build1(&x->b, OP_BROADCAST, is_one ? from : even(x, op->in[0], dim), t);
	}
	Value **in = MAP_OF(x->b.m->cx->tmp, Value *, i, op->nin, even(x, op->in[i], dim));
	return build_like(&x->b, op, in, t);
}

static void
rebuild_read(Ungroup *x, const Op *op, Value *const *in)
{
	const IntList *old = attr_extents(op);
	int64_t extent[MAX_RANK];
	int dim = part_of(x, op->out)->dim;
	for (int i = 0; i < old->n; i++)
		extent[i] = old->at[i] / (i == dim ? x->groups : 1);
	Op *made = access_like(&x->b, op, in, op->nin, attr_index(op), extent, old->n);
	made->out->name = op->out->name;
	x->map[op->out->id] = made->out;
}

static void
rebuild(Ungroup *x, const Op *op)
{
	Arena *tmp = x->b.m->cx->tmp;
	int dim = op->nout ? part_of(x, op->out)->dim : NO_GROUPS;
	bool evens = dim != NO_GROUPS && op_has(op, ELEM);
	Value **in = MAP_OF(tmp, Value *, i, op->nin,
	    evens && !has_groups(x, op->in[i]) ? even(x, op->in[i], dim) : value_mapped(x->map, op->in[i]));
	const Type **want = MAP_OF(tmp, const Type *, i, op->nout,
	    dim != NO_GROUPS ? of_one(x, op->out[i].type, dim) : op->out[i].type);
	x->b.place = op->place;
	bool is_group = op->kind == OP_REDUCE && in[0]->type->extent[attr_axis(op)] == 1 && has_groups(x, op->in[0]);
	if (op->kind == OP_READ && dim != NO_GROUPS)
		rebuild_read(x, op, in);
	else if (is_group)
		x->map[op->out->id] = build_reshape(&x->b, in[0], want[0]->rank, want[0]->extent);
	else
		op_clone_as(&x->b, op, in, op->attr, want, x->map);
}

static void
rebuild_loop(Ungroup *x)
{
	Op *loop = x->loop;
	x->b = build_before(loop);
	Value *bounds[3] = {loop->in[0], loop->in[1], build_index(&x->b, x->step / x->groups)};
	Op *made = build_for(&x->b, bounds, loop->in + 3, loop->nout, loop);
	block_map_args(x->body, made->region[0], x->map);
	x->b = build_inside(made, 0);
	for (const Op *op = x->body->first; op != x->body->last; op = op->next)
		rebuild(x, op);
	Value **in = MAP_OF(x->b.m->cx->tmp, Value *, i, loop->nout, value_mapped(x->map, x->body->last->in[i]));
	build_yield(&x->b, in, loop->nout);
	op_replace(loop, made);
}

bool
ungroup(Func *f, Op *loop)
{
	Ungroup x = {.f = f, .loop = loop, .body = loop->region[0]};
	if (!value_int(loop->in[2], &x.step) || x.step <= 0 || ANY_OP_HERE(op, x.body, op->nregion > 0))
		return false;
	x.groups = count_groups(&x);
	if (x.groups < FEWEST || x.step % x.groups || !loop_ends_evenly(x.f, x.loop, x.step))
		return false;
	func_number(f);
	int n = func_values(f, f->module->cx->tmp).n;
	x.part = NEW_ARRAY(f->module->cx->tmp, Part, n);
	x.map = NEW_ARRAY(f->module->cx->tmp, Value *, n);
	for (int i = 0; i < n; i++)
		x.part[i] = (Part){.dim = NO_GROUPS};
	*part_of(&x, &x.body->arg[0]) = (Part){.dim = NO_GROUPS, .step = x.step};
	if (!goes_by_groups(&x))
		return false;
	rebuild_loop(&x);
	return true;
}
