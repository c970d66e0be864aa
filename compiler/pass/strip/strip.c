/* Strip-mining: a row that is too long for the block's registers is read in parts, once for each of the numbers that all of
 * it has to give before the next step, as the schedule word `strip` asks.
 *
 *     %v = read %z, %r, 0 {extents = [32768]}             %m = for 0, 32768, 4096, NaN do (%k, %a) {
 *     %m = reduce %v {fn = "max"}                             %p = read %z, %r, %k {extents = [4096]}
 *     %d = sub %v, (broadcast %m)                             %n = max %a, (reduce %p {fn = "max"})
 *     %s = reduce (exp %d) {fn = "sum"}                       yield %n
 *     write %y, %r, 0, (div %d, (broadcast %s))   =>      }
 *                                                         %s = for 0, 32768, 4096, -0.0 do (%k, %a) {
 *                                                             %p = read %z, %r, %k {extents = [4096]}
 *                                                             … add %a, (reduce (exp (sub %p, (broadcast %m))))
 *                                                         }
 *                                                         for 0, 32768, 4096 do (%k) {
 *                                                             … write %y, %r, %k, …
 *                                                         }
 *
 * What a loop needs of the row is read and computed again in it: the second time it comes from a cache.  Ops along the row
 * are in the loop that follows the last reduction they depend on; what has no element of the row stands between the loops.
 * A row that is written where it was read, as a residual, is written in the last loop.  Elements are the same to the
 * bit, sums are in another order, as everywhere where threads share them.
 *
 * The row is the longest last dimension of what is read, or the longest that is reduced: of columns, and of rows of a
 * transposed view, another than the last.  Reads of tensors that the kernel only reads, writes of tensors that it only
 * writes, once, elementwise ops, indices, random numbers, and sums, maxima, minima, where those are, and the greatest few
 * (strip_topk.c) along the row can be walked so; with anything else of the row the kernel stays as it is, and
 * Func.strip_reason says why. */
#include "pass/strip/strip.h"

#include <string.h>

typedef VEC(const Op *) OpList;

/* What joins two parts: the op of sums, maxima, minima. */
static OpKind
joined_by(const Op *reduce)
{
	return strip_is_of(reduce, "sum") ? fn_kind("sum") : strip_is_of(reduce, "max") ? fn_kind("max") : fn_kind("min");
}

static bool
nan_wins(const Op *reduce)
{
	return reduce->kind == OP_TOPK || attr_propagate_nan(reduce);
}

static Value *
reduced_row(const Strip *s, const Op *reduce)
{
	return reduce->kind == OP_TOPK ? strip_topk_source(s, reduce) : reduce->in[0];
}

/* ---- levels ---- */

static bool
is_full_reduce(const Strip *s, const Op *op)
{
	return strip_topk_source(s, op) ||
	    (op->kind == OP_REDUCE && strip_is_row(s, op->in[0]) && !strip_is_row(s, op->out));
}

static void
find_levels(Strip *s)
{
	int *level = NEW_ARRAY(s->m->cx->tmp, int, s->f->nvalues);
	for (Op *op = s->f->body->first; op; op = op->next) {
		RowOp r = {.op = op, .on_row = strip_touches(s, op)};
		for (int i = 0; i < op->nin; i++)
			r.level = MAX(r.level, level[op->in[i]->id]);
		r.is_sink = r.on_row && (op->kind == OP_WRITE || is_full_reduce(s, op));
		r.is_pick = strip_is_pick(s, op);
		for (int i = 0; i < op->nout; i++)
			level[op->out[i].id] = r.level + is_full_reduce(s, op);
		s->levels = MAX(s->levels, r.level + is_full_reduce(s, op));
		vec_push(s->m->cx->tmp, &s->ops, r);
	}
	for (int i = 0; i < s->ops.n; i++)              /* a row that is read in all loops is written in the last one */
		if (s->ops.at[i].op->kind == OP_WRITE && strip_is_renewed(s, s->ops.at[i].op))
			s->ops.at[i].level = s->levels;
}

static bool
is_needed(const Strip *s, const RowOp *r, int level)
{
	bool is = r->is_sink && r->level == level;
	for (int i = 0; i < r->op->nout && r->on_row && !r->is_sink; i++)
		is |= s->needed[r->op->out[i].id];
	return is;
}

static void
find_needed(Strip *s, int level)
{
	memset(s->needed, 0, (size_t)s->f->nvalues * sizeof *s->needed);
	for (int n = s->ops.n - 1; n >= 0; n--) {
		const Op *op = s->ops.at[n].op;
		bool needs = is_needed(s, &s->ops.at[n], level);
		for (int i = 0; i < op->nin && needs; i++)
			s->needed[op->in[i]->id] |= strip_is_row(s, op->in[i]);
		if (needs && op->kind == OP_TOPK)
			s->needed[strip_topk_source(s, op)->id] = true;
	}
}

/* ---- loops ---- */

static const Type *
of_part(const Strip *s, const Type *t)
{
	return type_with_extent(s->m, t, strip_dim(s, t), s->part);
}

/* As the op, of a part of its row. */
static Op *
copy_op(Strip *s, Builder *b, const Op *op)
{
	Arena *tmp = s->m->cx->tmp;
	Value **in = MAP_OF(tmp, Value *, i, op->nin, value_mapped(s->map, op->in[i]));
	const Type **want = MAP_OF(tmp, const Type *, i, op->nout,
	    strip_is_row(s, &op->out[i]) ? of_part(s, op->out[i].type) : op->out[i].type);
	b->place = op->place;
	int at = op_is_access(op) ? strip_row_index(s, op) : 0;
	if (at)
		in[at] = value_is_int(in[at], 0) ? s->k : build2(b, OP_ADD, in[at], s->k);
	return op_clone_as(b, op, in, op->attr, want, s->map);
}

static void
copy_access(Strip *s, Builder *b, const Op *op)
{
	const IntList *old = attr_extents(op);
	int64_t *extent = NEW_COPY(s->m->cx->tmp, old->at, old->n);
	Op part = *op;
	extent[strip_dim(s, access_tile(op)->type)] = s->part;
	part.attr = NEW_COPY(s->m->cx->tmp, op->attr, op->nattr);
	for (int i = 0; i < part.nattr; i++)
		if (part.attr[i].name == ATTR_EXTENTS)
			part.attr[i] = attr_new_extents(s->m, extent, old->n);
	copy_op(s, b, &part);
}

/* Indices go on from part to part. */
static void
copy_iota(Strip *s, Builder *b, Builder *before, const Op *op)
{
	const Type *t = of_part(s, op->out->type);
	Op *made = copy_op(s, before, op);
	b->place = op->place;
	if (attr_axis(op) != strip_dim(s, op->out->type))
		return;
	Value *k = t->elem == TY_I64 ? s->k : build1(b, OP_CAST, s->k, type_scalar(s->m, t->elem));
	s->map[op->out->id] = build2(b, OP_ADD, made->out, build1(b, OP_BROADCAST, k, t));
}

static bool
is_invariant(const Strip *s, const Op *op)
{
	return op_has(op, PURE) && ALL_OF(i, op->nin, !value_inside(value_mapped(s->map, op->in[i]), s->loop->region[0]));
}

static Value *
combine(const Strip *s, Builder *b, const Op *reduce, Value *carried, Value *part)
{
	Value *v = build2(b, joined_by(reduce), carried, part);
	if (v->def->kind != OP_ADD && nan_wins(reduce))
		attr_set_propagate_nan(s->m, v->def, true);
	return v;
}

/* Whether an element takes the place of the one found before: it is greater (or less), or that is the first NaN where one
 * wins, or the first number. */
static Value *
takes_place(Builder *b, const Op *reduce, Value *found, Value *next)
{
	Value *better = build1(b, OP_NOT, build2(b, strip_is_of(reduce, "max") ? OP_LE : OP_GE, next, found), NULL);
	Value *number = nan_wins(reduce) ? found : next;
	return build2(b, OP_AND, better, build2(b, OP_EQ, number, number));
}

/* Each position of a part has the greatest (or least) element met there, and where that part begins. */
static void
carry_place(const Strip *s, Builder *b, const Op *reduce, Value *carried, Value **out)
{
	const Type *t = carried[1].type;
	Value *at = build1(b, OP_BROADCAST, build1(b, OP_CAST, s->k, type_scalar(s->m, t->elem)), t);
	Value *next = value_mapped(s->map, reduced_row(s, reduce)), *takes = takes_place(b, reduce, carried, next);
	out[0] = build3(b, OP_SELECT, takes, next, carried);
	out[1] = build3(b, OP_SELECT, takes, at, carried + 1);
}

static Value *
reduced(const Strip *s, Builder *b, const Op *reduce, Value *v, const char *fn)
{
	const Type *to = reduce->out->type, *want = type_with_shape(s->m, v->type, to->rank, to->extent);
	Attr attr[] = {attr_new_fn(s->m, fn), attr_new_axis(s->m, attr_axis(reduce)), attr_new_propagate_nan(s->m, true)};
	bool keeps = dtype_is_float(v->type->elem) && attr_propagate_nan(reduce);
	return op_make(b, OP_REDUCE, &v, 1, attr, 2 + keeps, &want, 1)->out;
}

/* The first place of the greatest (or least) of what the positions have; of NaN alone the first of all. */
static Value *
first_place(const Strip *s, Builder *b, const Op *reduce, Value *found)
{
	const Type *t = found->type;
	int axis = (int)attr_axis(reduce);
	Value *most = reduced(s, b, reduce, found, strip_is_of(reduce, "max") ? "max" : "min");
	if (t->rank > 1)
		most = build1(b, OP_RESHAPE, most, type_with_extent(s->m, t, axis, 1));
	Value *all = build1(b, OP_BROADCAST, most, t), *is = build2(b, OP_EQ, found, all);
	Value *place = build2(b, OP_ADD, found + 1, build_iota(b, found[1].type, axis));
	if (dtype_is_float(t->elem))
		is = build2(b, OP_OR, is, build2(b, OP_AND, build2(b, OP_NE, all, all), build2(b, OP_NE, found, found)));
	return reduced(s, b, reduce, build3(b, OP_SELECT, is, place, build_int(b, place->type, INT32_MAX)), "min");
}

static Op *
make_loop(Strip *s, Builder *b, const OpList *reduce)
{
	Value *bounds[3], **init = NEW_ARRAY(s->m->cx->tmp, Value *, 2 * reduce->n);
	int n = 0;
	bounds[0] = build_index(b, 0);
	bounds[1] = build_index(b, s->row);
	bounds[2] = build_index(b, s->part);
	for (int i = 0; i < reduce->n; i++) {
		const Op *op = reduce->at[i];
		const Type *t = strip_finds_place(op) ? of_part(s, reduced_row(s, op)->type) : op->out->type;
		init[n++] = build_identity(b, t, joined_by(op), nan_wins(op));
		if (strip_finds_place(op))
			init[n++] = build_int(b, type_with_elem(s->m, t, TY_I32), 0);
	}
	Op *loop = build_for(b, bounds, init, n, NULL);
	loop->region[0]->arg[0].name = "at";
	return loop;
}

static void
fill_loop(Strip *s, int level)
{
	Builder b = {.m = s->m, .block = s->loop->region[0]}, before = build_before(s->loop);
	for (int i = 0; i < s->ops.n; i++) {
		const Op *op = s->ops.at[i].op;
		if (!is_needed(s, &s->ops.at[i], level))
			continue;
		if (op->kind == OP_IOTA)
			copy_iota(s, &b, &before, op);
		else if (is_full_reduce(s, op) && strip_finds_place(op))
			continue;
		else if (op_is_access(op))
			copy_access(s, &b, op);
		else
			copy_op(s, is_invariant(s, op) ? &before : &b, op);
	}
}

static void
replace(const Op *op, Value *const *all)
{
	for (int k = 0; k < op->nout; k++) {
		all[k]->name = op->out[k].name;
		value_replace((Value *)&op->out[k], all[k]);
	}
}

/* Carries on with what each part gives; results of the loop take the place of the row's. */
static void
end_loop(Strip *s, const OpList *reduce)
{
	Block *body = s->loop->region[0];
	Builder b = {.m = s->m, .block = body, .place = s->loop->place}, behind = b;
	Value **out = NEW_ARRAY(s->m->cx->tmp, Value *, 2 * reduce->n);
	int n = 0;
	behind.block = s->f->body;
	for (int i = 0; i < reduce->n; i++) {
		const Op *op = reduce->at[i];
		Value *carried = &body->arg[1 + n], *all[2] = {&s->loop->out[n]};
		if (strip_finds_place(op))
			carry_place(s, &b, op, carried, out + n++);
		else
			out[n] = combine(s, &b, op, carried, s->map[op->out->id]);
		n++;
		if (op->kind == OP_TOPK)
			strip_topk_end(s, &behind, op, all[0], all);
		else if (strip_finds_place(op))
			all[0] = first_place(s, &behind, op, all[0]);
		replace(op, all);
	}
	build_yield(&b, out, n);
}

/* The loop of a level, at the end of the body. */
static void
walk_row(Strip *s, int level)
{
	OpList reduce = {0};
	const Op *first = NULL;
	for (int i = 0; i < s->ops.n; i++) {
		const RowOp *r = &s->ops.at[i];
		if (!r->is_sink || r->level != level)
			continue;
		first = first ? first : r->op;
		if (r->op->kind != OP_WRITE)
			vec_push(s->m->cx->tmp, &reduce, r->op);
	}
	if (!first)
		return;
	Builder end = {.m = s->m, .block = s->f->body, .place = first->place};
	s->loop = make_loop(s, &end, &reduce);
	s->k = &s->loop->region[0]->arg[0];
	memset(s->map, 0, (size_t)s->f->nvalues * sizeof *s->map);
	find_needed(s, level);
	fill_loop(s, level);
	end_loop(s, &reduce);
}

/* Between the loops, at the end of the body. */
static void
place_op(Strip *s, const RowOp *r)
{
	Builder end = {.m = s->m, .block = s->f->body, .place = r->op->place};
	if (!r->on_row)
		op_move(r->op, s->f->body, NULL);
	else if (r->is_pick)
		replace(r->op, (Value *[]){strip_pick(s, &end, r->op)});
}

static void
strip(Strip *s)
{
	find_levels(s);
	for (int level = 0; level <= s->levels; level++) {
		for (int i = 0; i < s->ops.n; i++)
			if (s->ops.at[i].level == level)
				place_op(s, &s->ops.at[i]);
		walk_row(s, level);
	}
	for (int i = s->ops.n - 1; i >= 0; i--)
		if (s->ops.at[i].on_row)
			op_erase(s->ops.at[i].op);
}

void
pass_strip(Func *f, const Target *t)
{
	Module *m = f->module;
	Strip s = {.m = m, .f = f, .row = strip_longest_row(f), .part = f->schedule.strip};
	if (!s.part)
		return;
	f->strip_reason = strip_reason(&s);
	if (f->strip_reason) {
		f->schedule.strip = 0;
		return;
	}
	func_number(f);
	s.needed = NEW_ARRAY(m->cx->tmp, bool, f->nvalues);
	s.map = NEW_ARRAY(m->cx->tmp, Value *, f->nvalues);
	strip(&s);
	pass_simplify(f, t);                            /* constants of several loops, comparisons of indices that go on */
}
