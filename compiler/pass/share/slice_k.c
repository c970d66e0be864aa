/* Sliced K: the warps of a block divide a loop of products between them, each with iterations of its own.
 *
 *     %p = for %0, %n, %1, %z do (%g, %acc: f32[16, 64]) {
 *         %w = read %weights, %r, (mul %g, 128) {extents = [64, 128]} : i4[64, 128]
 *         %d = dot %x, (permute (cast %w)), %acc : f32[16, 64]
 *         yield %d
 *     }
 *  =>
 *     %q = for %0, %n, %8, %z8 do (%g, %acc: f32[8, 16, 64]) {
 *         %w = read %weights, %r, (mul %g, 128) {extents = [64, 1024], slices = [1, 8]} : i4[64, 1024]
 *         %v = permute (reshape %w : i4[64, 8, 128]) : i4[8, 64, 128]           a warp has one of the 8
 *         %d = dot %x8, (permute (cast %v)), %acc : f32[8, 16, 64]
 *         yield %d
 *     }
 *     %s = reduce %q {fn = "sum", axis = 0} : f32[16, 64]
 *     %p = add %z, %s
 *
 * Eight iterations become one of tiles with one more dimension, along which the block's warps lie: passes coalesce (by
 * {slices}) and dot give each warp what is its own, so that it waits for its own copies, and for no other warp until the
 * sums are added.  Sums are added in another order.
 *
 * In the last turn some warps may be behind the loop's end.  What they read there lies outside of tensors and adds nothing
 * (slice_zero.c); else small tiles that they read are masked, or, where that does not do, the sums.
 *
 * Iterations of few bytes, as of groups of 32 elements, are several of a warp's at once, which are neighbours in memory:
 * slice w + 8 j of 32 is iteration 4 w + j.
 *
 * The schedule word `slices` says by how much; without it loops of few rows are sliced (slice_find.c).  slice_read.c makes
 * the reads. */
#include "ir/derive.h"
#include "pass/share/slice_k.h"
#include "pass/share/split_k.h"

#include <string.h>

const Type *
slice_type(const Slice *s, const Type *t)
{
	return type_with_dim(s->m, t, 0, s->n);
}

Value *
slice_plain(const Sliced *x, Value *v)
{
	return value_mapped(x->map, v);
}

Value *
slice_spread(Sliced *x, Value *v, const Type *to)
{
	int64_t extent[MAX_RANK] = {x->s->n};

	for (int d = 1; d < to->rank; d++)
		extent[d] = 1;
	Value *line = build_reshape(&x->b, v, to->rank, extent);
	return build1(&x->b, OP_BROADCAST, line, type_with_elem(x->b.m, to, v->type->elem));
}

/* v, of type t before, in all slices. */
Value *
slice_all(Sliced *x, Value *v)
{
	if (x->all[v->id])
		return x->all[v->id];
	Value *same = slice_plain(x, v);
	if (v->type->rank > 0)
		return build_stack(&x->b, same, 0, x->s->n);
	return build1(&x->b, OP_BROADCAST, same, slice_type(x->s, v->type));
}

Value *
slice_numbers(Sliced *x, Value *first, int64_t step)
{
	const Type *line = slice_type(x->s, first->type);
	Value *slice = build_iota(&x->b, line, 0);
	if (x->s->each > 1) {                           /* those of a warp are apart by the warps */
		Value *warps = build_int(&x->b, line, x->s->n / x->s->each), *each = build_int(&x->b, line, x->s->each);
		Value *begin = build2(&x->b, OP_MUL, build2(&x->b, OP_REM, slice, warps), each);
		slice = build2(&x->b, OP_ADD, begin, build2(&x->b, OP_DIV, slice, warps));
	}
	Value *by = build2(&x->b, OP_MUL, slice, build_int(&x->b, line, step));

	return build2(&x->b, OP_ADD, build1(&x->b, OP_BROADCAST, first, line), by);
}

Value *
slice_exists(Sliced *x)
{
	if (!x->exists) {
		const Slice *s = x->s;
		Value *index = slice_numbers(x, x->index, s->step[s->body->arg[0].id]);
		Value *end = build1(&x->b, OP_BROADCAST, s->loop->in[1], index->type);
		x->exists = build2(&x->b, OP_LT, index, end);
	}
	return x->exists;
}

Value *
slice_masked(Sliced *x, Value *v, Value *otherwise)
{
	return build3(&x->b, OP_SELECT, slice_spread(x, slice_exists(x), v->type), v, otherwise);
}

/* ---- other ops ---- */

static Value *
slice_permute(Sliced *x, const Op *op)
{
	int64_t dims[MAX_RANK] = {0};
	const IntList *old = attr_dims(op);

	for (int d = 0; d < old->n; d++)
		dims[d + 1] = old->at[d] + 1;
	return build_permute(&x->b, slice_all(x, op->in[0]), dims);
}

/* A number that grows with the slices; a tile that has one more dimension than its operand in any case. */
static Value *
slice_broadcast(Sliced *x, const Op *op)
{
	const Type *to = slice_type(x->s, op->out[0].type);
	Value *v = op->in[0];

	if (v->type->rank == 0 && x->all[v->id])
		return slice_spread(x, x->all[v->id], to);
	if (v->type->rank == 0)
		return slice_spread(x, slice_numbers(x, slice_plain(x, v), x->s->step[v->id]), to);
	return build1(&x->b, OP_BROADCAST, slice_all(x, v), to);
}

/* The op along the same axis, which has one dimension more before it. */
static Value *
slice_axis(Sliced *x, const Op *op)
{
	Attr *attr = NEW_ARRAY(x->b.m->cx->tmp, Attr, op->nattr + 1);
	Value *in[2];
	int n = 0;

	for (int i = 0; i < op->nin; i++)
		in[i] = slice_all(x, op->in[i]);
	for (int i = 0; i < op->nattr; i++)
		if (op->attr[i].name != ATTR_AXIS)
			attr[n++] = op->attr[i];
	attr[n++] = attr_new_axis(x->b.m, attr_axis(op) + 1);
	return &op_make(&x->b, op->kind, in, op->nin, attr, n, NULL, 0)->out[0];
}

/* The part of each slice's tile. */
static Value *
slice_extract(Sliced *x, const Op *op)
{
	Arena *tmp = x->b.m->cx->tmp;
	const IntList *old = attr_extents(op);
	int64_t extent[MAX_RANK] = {x->s->n};
	Value *in[2 + MAX_RANK] = {slice_all(x, op->in[0]), build_index(&x->b, 0)};

	for (int i = 1; i < op->nin; i++)
		in[1 + i] = slice_plain(x, op->in[i]);
	if (old)
		memcpy(extent + 1, old->at, sizeof *extent * (size_t)old->n);
	char *index = arena_printf(tmp, "p%s", attr_index(op));
	return access_like(&x->b, op, in, op->nin + 1, index, extent, 1 + (old ? old->n : 0))->out;
}

/* What was there before the loop is made all slices' there, as tables are that the loop looks elements up in. */
static Value *
slice_gather(Sliced *x, const Op *op)
{
	Value *table = op->in[0];

	if (!x->all[table->id] && !value_inside(table, x->s->body)) {
		Builder inside = x->b;
		x->b = build_before(inside.block->parent);
		x->all[table->id] = slice_all(x, table);
		x->b = inside;
	}
	return slice_axis(x, op);
}

/* What grows with the iterations is the first slice's, to which the others' numbers are added where they are used. */
static bool
is_index(const Slice *s, const Value *v)
{
	return !s->own[v->id] && (v->type->kind != TYPE_TILE || (v->type->rank == 0 && v->type->elem == TY_I64));
}

static Value *
slice_op(Sliced *x, const Op *op)
{
	const Type *to = slice_type(x->s, op->out[0].type);
	const Slice *s = x->s;
	Value **in;

	switch (op->kind) {
	case OP_READ: return slice_read(x, op);
	case OP_REDUCE: return slice_axis(x, op);
	case OP_GATHER: return slice_gather(x, op);
	case OP_EXTRACT: return slice_extract(x, op);
	case OP_PERMUTE: return slice_permute(x, op);
	case OP_BROADCAST: return slice_broadcast(x, op);
	case OP_RESHAPE: return build1(&x->b, OP_RESHAPE, slice_all(x, op->in[0]), to);
	default: break;
	}
	in = NEW_ARRAY(x->b.m->cx->tmp, Value *, op->nin);
	for (int i = 0; i < op->nin; i++) {
		bool grows = s->varies[op->in[i]->id] && is_index(s, op->in[i]);
		in[i] = grows ? slice_numbers(x, slice_plain(x, op->in[i]), s->step[op->in[i]->id])
		              : slice_all(x, op->in[i]);
	}
	return build_like(&x->b, op, in, to);
}

void
slice_any(Sliced *x, const Op *op)
{
	x->b.place = op->place;
	if (!x->s->varies[op->out[0].id] || is_index(x->s, &op->out[0])) {
		op_clone(&x->b, op, x->map);
		return;
	}
	Value *v = op->kind == OP_SPLIT ? slice_all(x, op->in[0]) : slice_op(x, op);
	const Op *made = op->kind == OP_SPLIT ? op_make(&x->b, OP_SPLIT, &v, 1, NULL, 0, NULL, 0) : NULL;
	for (int i = 0; i < op->nout; i++) {
		x->all[op->out[i].id] = made ? &made->out[i] : v;
		x->all[op->out[i].id]->name = op->out[i].name;
	}
}

/* ---- the loop ---- */

/* Which of the merge's states is the loop's i? */
static int
merged_at(const Slice *s, int i)
{
	return FIRST_OF(k, s->merge->nin, s->merge->in[k] == &s->loop->out[i]);
}

/* What all slices of a state begin with. */
static Value *
begin(const Slice *s, Builder *b, int i)
{
	Value *init = s->loop->in[3 + i];
	const Type *t = slice_type(s, s->loop->out[i].type);
	Value *sum = s->merge ? NULL : split_begin(b, init, t);

	if (sum)
		return sum;
	if (!s->merge)
		return build_like(b, init->def, NULL, t);
	Value *all = build_stack(b, init, 0, s->n), *lowered = split_lowered(b, s->merge, merged_at(s, i), t);
	if (!lowered)
		return all;
	Value *slice = build_iota(b, type_with_elem(b->m, t, TY_I64), 0);
	return build3(b, OP_SELECT, build2(b, OP_EQ, slice, build_int(b, slice->type, 0)), all, lowered);
}

static Op *
make_loop(const Slice *s, Builder *b)
{
	Value *const *in = s->loop->in, *step = build_index(b, s->step[s->body->arg[0].id] * s->n);

	Value **init = MAP_OF(s->m->cx->tmp, Value *, i, s->loop->nout, begin(s, b, i));
	return build_for(b, (Value *[]){in[0], in[1], step}, init, s->loop->nout, NULL);
}

static void
fill_body(Sliced *x, Block *to, bool masks_sums)
{
	const Slice *s = x->s;
	Value **out = NEW_ARRAY(s->m->cx->tmp, Value *, s->loop->nout);

	x->index = x->map[s->body->arg[0].id] = &to->arg[0];
	to->arg[0].name = s->body->arg[0].name;
	for (int i = 1; i < s->body->narg; i++) {
		x->all[s->body->arg[i].id] = &to->arg[i];
		to->arg[i].name = s->body->arg[i].name;
	}
	for (const Op *op = s->body->first; op != s->body->last; op = op->next)
		slice_any(x, op);
	for (int i = 0; i < s->loop->nout; i++) {
		out[i] = slice_all(x, s->body->last->in[i]);
		out[i] = masks_sums ? slice_masked(x, out[i], &to->arg[1 + i]) : out[i];
	}
	build_yield(&x->b, out, s->loop->nout);
}

/* What the loop's results are: what they began with, and the sums of all slices. */
static void
add_slices(const Slice *s, Builder *b, Op *made)
{
	for (int i = 0; i < s->loop->nout; i++) {
		Attr attr[] = {attr_new_fn(s->m, "sum"), attr_new_axis(s->m, 0)};
		Value *in = &made->out[i];
		Value *sum = &op_make(b, OP_REDUCE, &in, 1, attr, 2, NULL, 0)->out[0];
		if (sum->type != s->loop->out[i].type)
			sum = build1(b, OP_CAST, sum, s->loop->out[i].type);
		sum = value_is_zero(s->loop->in[3 + i]) ? sum : build2(b, OP_ADD, s->loop->in[3 + i], sum);
		sum->name = s->loop->out[i].name;
		value_replace(&s->loop->out[i], sum);
	}
	op_erase(s->loop);
}

static void
slice(Slice *s)
{
	Arena *tmp = s->m->cx->tmp;
	Builder b = build_before(s->loop);
	bool zero = !s->merge && slice_adds_zero(s);

	s->masks_reads = !s->merge && !zero;
	bool masks_sums = s->merge || (!zero && !slice_adds_zero(s));
	s->masks_reads = !zero && !masks_sums;
	Op *made = make_loop(s, &b);
	Sliced x = {.s = s, .map = NEW_ARRAY(tmp, Value *, s->f->nvalues), .all = NEW_ARRAY(tmp, Value *, s->f->nvalues),
	    .b = {.m = s->m, .block = made->region[0], .place = s->loop->place}};
	fill_body(&x, made->region[0], masks_sums);
	if (s->merge)
		slice_merge(s, &b, made);
	else
		add_slices(s, &b, made);
}

/* ---- the pass ---- */

static Slice
of_loop(Module *m, Func *f, Op *loop)
{
	Arena *tmp = m->cx->tmp;
	int n = f->nvalues;

	return (Slice){.m = m, .f = f, .loop = loop, .body = loop->region[0], .merge = split_merge_of(loop),
	    .own = NEW_ARRAY(tmp, bool, n), .varies = NEW_ARRAY(tmp, bool, n), .step = NEW_ARRAY(tmp, int64_t, n),
	    .period = NEW_ARRAY(tmp, int64_t, n)};
}

/* A kernel's warps are the same everywhere: its only loop of products is sliced, or none.  Products beside it, as of what
 * it summed, are all warps'. */
static Op *
find_loop(const Func *f, const char **why)
{
	Op *found = NULL;

	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op_family(op) != FAMILY_DOT)
			continue;
		Op *loop = op->home->parent;
		if (!loop && op->home == f->body)
			continue;
		bool is_other = !loop || loop->kind != OP_FOR || loop->home != f->body || (found && loop != found);
		if (is_other) {
			*why = !found && split_in_branch(f->body) ? SPLIT_IN_BRANCH :
			    "its products are not in one loop of the kernel's body";
			return NULL;
		}
		found = loop;
	}
	*why = found ? NULL : "it has no loop of products";
	return found;
}

/* A loop whose updates say how its states join has a merge that says so while it is sliced. */
static void
derive_merge(Func *f, const Target *t, Op *loop)
{
	bool folds = ALL_OF(i, loop->nout, split_fold(loop, i) != OP_COUNT);
	bool may = f->schedule.slices > 1 || slice_takes_all(loop->region[0], t);
	if (may && !folds && !split_merge_of(loop) && split_derives(f, loop))
		split_derive(f, loop, NULL);
}

static bool
visit(Module *m, Func *f, const Target *t)
{
	const char *why;
	int asked = f->schedule.slices;
	Op *loop = find_loop(f, &why);

	if (loop && !why)
		derive_merge(f, t, loop);
	func_number(f);
	Slice s = loop ? of_loop(m, f, loop) : (Slice){0};
	if (loop && !why)
		why = slice_reason(&s, t);
	if (!why && asked > 1 && !slice_fits(&s, asked))
		why = "so many iterations are no whole number of groups that read the same";
	s.n = why ? 1 : asked ? asked : slice_count(&s, t);
	f->slices_reason = asked > 1 ? why : NULL;
	f->schedule.slices = s.n > 1 ? s.n : 0;
	if (s.n <= 1)
		return false;
	if (f->schedule.warps == 0)
		f->schedule.warps = s.n;
	s.each = s.merge ? 1 : slice_each(&s, t, s.n);
	s.n *= s.each;
	slice(&s);
	func_number(f);
	return true;
}

void
pass_slice_k(Func *f, const Target *t)
{
	bool any = f->schedule.slices != 1 && visit(f->module, f, t);

	split_drop_merges(f);
	if (any)
		pass_simplify(f, t);                    /* steps of constants, sums that begin with zero */
}
