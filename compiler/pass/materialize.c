/* Operands of products that several programs have in common are computed once, into memory, where the schedule says
 * `materialize`.
 *
 *     for %0, %K, %64, %acc do (%k, %c) {                       programs (i, j): 64 rows by 64 columns
 *         %at = read %p, %k {index = "p", extents = [64]} : i32[64]
 *         %a = read %x, (mul %i, 64), %at {index = "pg", extents = [64]} : bf16[64, 64]
 *         %b = read %w, %k, (mul %j, 64) {index = "pp", extents = [64, 64]} : bf16[64, 64]
 *         yield (dot %a, %b, %c)
 *     }
 *
 * Each of the programs along j gathers the same %a, which goes through registers while products wait.  A kernel that is
 * launched before (MATERIALIZE_FIRST) computes it, for each program along i and each trip: the programs along j share the
 * trips, and all else of the kernel goes.
 *
 *     for %j, (cdiv %K, 64), (num_programs 1) do (%t) {
 *         %k = mul %t, 64
 *         %at, %a = as before
 *         write %made, (mul %i, 64), (mul %t, 64), %a
 *     }
 *
 * In the kernel itself it is what that wrote, which tensor maps bring:
 *
 *         %a = read %made, (mul %i, 64), %k {index = "pp", extents = [64, 64]} : bf16[64, 64]
 *
 * %made is a parameter behind the others, bf16[programs along i * 64, trips * 64], which the runtime allocates
 * (Func.made).  What is written are the very tiles that products would have had, elements outside of tensors too, so that
 * results are the same to the bit.
 *
 * Rows that indices say, x[ids[i], k], come by copies ahead: they are computed before beside other operands only.  Rows
 * that begin at other than multiples of 16 bytes, as of 4097 f16, no copy brings so, by indices or without: threads read
 * them element by element, in each program and each trip.  Those of %made are padded, and tensor maps bring them.  Across
 * rows, x[i, k, b] of a batch that is the last dimension, neighbours along the batch have elements of the same sectors: one
 * block computes for as many of them as have a sector together (pass batch).
 *
 * The operand is computed from indices, from the program's number along some axes but not along all, from the index of the
 * loop that has the product, which is one of the function's body, and from tensors that nothing writes; no more of the
 * loop's state.  The loop ends where a sum of the launch's arguments says, or with the program's number. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/batch/batch.h"
#include "pass/layout/dot.h"
#include "pass/materialize.h"

#include <string.h>

#define PLAIN "it is read as it is"

enum { WARPS = 8 };                                     /* of the kernel before, where it copies or gathers rows */

typedef struct Operand {
	Value *value;
	Op *loop;
	bool *slice;                                    /* by Value.id: what it is computed from */
	unsigned axes;
	MadeTensor made;
	int group;                                      /* the first one of those with this loop and these axes */
	bool is_built;
} Operand;

typedef struct Operands {
	Func *f;
	Operand at[MADE_MOST];
	MadeResult result[MADE_MOST];                   /* behind them */
	int n, nresults, fast;                                    /* the axis of neighbours, -1: there is none */
	const char *reason;
} Operands;

/* ---- which ---- */

static bool mark(Operand *o, Func *f, const Value *v);

static bool
is_repeatable(Func *f, const Op *op)
{
	if (op->kind == OP_READ)
		return !tensor_may_be_written(f, op->in[0], f->body);
	bool multiplies = op_family(op) == FAMILY_DOT;
	return op->kind == OP_YIELD || op->kind == OP_FOR || op->kind == OP_IF || (op_has(op, PURE) && !multiplies);
}

/* The op with its regions. */
static bool
mark_op(Operand *o, Func *f, const Op *op)
{
	if (!is_repeatable(f, op))
		return false;
	op_extend_slice(op, o->slice, true);
	if (op->kind == OP_PROGRAM_ID)
		o->axes |= 1u << attr_axis(op);
	for (int i = 0; i < op->nin; i++)
		if (!mark(o, f, op->in[i]))
			return false;
	for (int r = 0; r < op->nregion; r++)
		for (const Op *in = op->region[r]->first; in; in = in->next) {
			for (int i = 0; i < in->nregion; i++)
				for (int k = 0; k < in->region[i]->narg; k++)
					o->slice[in->region[i]->arg[k].id] = true;
			if (!mark_op(o, f, in))
				return false;
		}
	return true;
}

/* A value of the function's body or of the loop's, or of an op that is taken whole. */
static bool
mark(Operand *o, Func *f, const Value *v)
{
	if (o->slice[v->id])
		return true;
	if (!v->def && (v->block == f->body || v == &o->loop->region[0]->arg[0]))
		return true;
	if (!v->def || (v->def->home != f->body && v->def->home != o->loop->region[0]))
		return false;
	for (int r = 0; r < v->def->nregion; r++)
		for (int k = 0; k < v->def->region[r]->narg; k++)
			o->slice[v->def->region[r]->arg[k].id] = true;
	return mark_op(o, f, v->def);
}

static int
neighbours(const Func *f, const Value *v, int *axis)
{
	return v->def && v->def->kind == OP_READ ? made_neighbours(f, v->def, v->type, axis) : 0;
}

/* Does it begin in each row at elements that no copy of 16 bytes serves, or has it one of each? */
static bool
is_odd(const Func *f, const Value *v)
{
	int axis;
	return v->def && v->def->kind == OP_READ && !strchr(attr_index(v->def), 'g') &&
	    (!map_rows_fit(v->def->in[0]) || neighbours(f, v, &axis) > 0);
}

/* Is it read as it is, as copies do? */
static bool
is_plain(const Func *f, const Value *v)
{
	Window w;
	bool reads = v->def && v->def->kind == OP_READ;
	return !v->def || (reads && (!strchr(attr_index(v->def), 'g') || !window_find(v->def, &w)) && !is_odd(f, v));
}

/* Rows that indices say: threads copy them to shared memory, ahead and as they are. */
static bool
is_rows(const Value *v)
{
	const char *index = v->def->kind == OP_READ ? attr_index(v->def) : "g";
	return index[strlen(index) - 1] == 'p' && map_rows_fit(v->def->in[0]);
}

/* Where the loop ends, of the least of several the one that the launch alone says, as all keys where a program of causal
 * attention has some.  Parameters move when others come: it is asked for anew. */
static Value *
end_of(const Operand *o)
{
	LaunchSum end;
	Value *v = o->loop->in[1];
	for (int i = 0; v->def && v->def->kind == OP_MIN && i < 2; i++)
		if (launch_sum_of(v->def->in[i], &end))
			return v->def->in[i];
	return v;
}

/* Where the loop ends, of an operand whose dimension `depth` goes along its trips. */
static bool
find_extent(Operand *o, Operands *all, int depth)
{
	const Func *f = all->f;
	int axis;
	const Op *loop = o->loop, *quotient = end_of(o)->def;
	MadeTensor *m = &o->made;
	*m = (MadeTensor){.elem = o->value->type->elem, .axes = o->axes, .along = 1 - depth, .divisor = 1};
	memcpy(m->tile, o->value->type->extent, sizeof m->tile);
	bool divides = quotient && (quotient->kind == OP_DIV || quotient->kind == OP_FLOORDIV) &&
	    value_int(quotient->in[1], &m->divisor) && m->divisor > 0;
	if (!divides)
		m->divisor = 1;
	m->is_copy = is_odd(f, o->value);
	m->neighbours = neighbours(f, o->value, &axis);
	all->fast = m->neighbours ? axis : all->fast;
	return value_int(loop->in[0], &m->begin) && value_int(loop->in[2], &m->step) && m->step > 0 && m->begin >= 0 &&
	    launch_sum_most(divides ? quotient->in[0] : end_of(o), &m->end) && f->naxis > 0;
}

/* NULL: it can be computed before. */
static const char *
find_operand(Operands *all, Op *dot, int which, Operand *o)
{
	Func *f = all->f;
	bool flipped;
	*o = (Operand){.value = dot_operand_root(dot->in[which], &flipped), .loop = dot->home->parent};
	const Type *t = o->value->type;
	if (!o->loop || o->loop->kind != OP_FOR || o->loop->home != f->body)
		return "the product is in no loop of the kernel's body";
	if (is_plain(f, o->value) || !value_inside(o->value, o->loop->region[0]))
		return PLAIN;
	if (t->rank != 2 || t->ptr != PTR_NONE || t->elem == TY_BOOL || dtype_is_packed(t->elem))
		return "the operand is no matrix of whole bytes";
	o->slice = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues);
	if (!mark(o, f, o->value))
		return "the operand is computed from the loop's state, from a product, or from what may be written";
	Operand ends = {.slice = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues), .loop = o->loop};
	Value *const bounds[] = {o->loop->in[0], end_of(o), o->loop->in[2]};
	if (!ALL_OF(i, 3, mark(&ends, f, bounds[i])) || ends.axes & ~o->axes ||
	    !find_extent(o, all, flipped == (which == 0) ? 0 : 1) || !ALL_OF(i, 3, mark(o, f, bounds[i])))
		return "the launch's sizes do not say where the product's loop ends";
	if (o->axes == (1u << f->naxis) - 1 && o->made.neighbours == 0)
		return "each program has operands of its own";
	return NULL;
}

static void
find_operands(Operands *all)
{
	Func *f = all->f;
	all->reason = "no operand of its products is gathered, computed, across rows or in rows at other than multiples of "
	              "16 bytes, and no result is across rows";
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; op->kind == OP_DOT && i < 2; i++) {
			Operand o;
			const char *reason = find_operand(all, op, i, &o);
			if (reason && strcmp(reason, PLAIN) != 0)
				all->reason = reason;
			if (reason || ANY_OF(k, all->n, all->at[k].value == o.value) || all->n == MADE_MOST)
				continue;
			o.group = all->n;
			for (int k = all->n; k-- > 0;)
				if (all->at[k].loop == o.loop && all->at[k].axes == o.axes)
					o.group = k;
			all->at[all->n++] = o;
		}
	if (ALL_OF(i, all->n, is_rows(all->at[i].value)) && all->n > 0) {
		all->reason = "rows that indices say are copied as they are";
		all->n = 0;
	}
}

/* ---- the matrix ---- */

static Value *
number_along(Builder *b, const Operands *all, unsigned axes, Value **programs)
{
	return made_number(b, all->f, axes, all->fast, programs);
}

static Value *
times(Builder *b, Value *v, int64_t n)
{
	return build2(b, OP_MUL, v, build_index(b, n));
}

/* Tensor, row, column of a program's tile in a trip. */
static void
place_in(Builder *b, const Operand *o, Value *tensor, Value *program, Value *trip, Value *in[3])
{
	const MadeTensor *m = &o->made;
	in[0] = tensor;
	in[1 + m->along] = times(b, program, m->tile[m->along]);
	in[2 - m->along] = trip;
}

static void
add_param(Func *f, const char *name, const MadeTensor *m, Access access)
{
	const int64_t extent[2] = {-1, -1};
	FuncParam p = {.name = name, .kind = PARAM_TENSOR, .access = access, .multiple = 16};
	for (int d = 0; d < KERNEL_RANK; d++) {
		p.dim[d] = -1;
		p.dim_multiple[d] = d < 2 ? m->tile[d] & -m->tile[d] : 0;
	}
	func_add_param(f, &p, type_tensor(f->module, m->elem, 2, extent));
}

/* All of the launch's kernels have all of them; *tensor: the first. */
static Value *
add_params(const Operands *all, Access operands, Access results)
{
	Func *f = all->f;
	Arena *mem = f->module->cx->mem;
	for (int i = 0; i < all->n; i++)
		add_param(f, arena_printf(mem, "operand%d", i), &all->at[i].made, operands);
	for (int i = 0; i < all->nresults; i++)
		add_param(f, arena_printf(mem, "result%d", i), &all->result[i].made, results);
	return &f->body->arg[f->nparam - all->n - all->nresults];
}

/* ---- the kernel before ---- */

/* What no operand is computed from goes, of what was there. */
static void
erase_rest(const Operands *all, Op *const *was, int n)
{
	while (n-- > 0) {
		Op *op = was[n];
		bool is_kept = ANY_OF(i, all->n, ANY_OF(k, op->nout, all->at[i].slice[op->out[k].id]));
		if (!op_has(op, TERM) && !is_kept)
			op_erase(op);
	}
}

static Value *
build_count(Builder *b, const Operand *o)
{
	const MadeTensor *m = &o->made;
	Value *span = build2(b, OP_SUB, end_of(o), build_index(b, m->begin));
	return build2(b, OP_FLOORDIV, build2(b, OP_ADD, span, build_index(b, m->step - 1)), build_index(b, m->step));
}

static void
build_write(Builder *b, Value *const to[4], const int64_t *tile)
{
	const Attr attr[] = {attr_new_index(b->m, "pp"), attr_new_extents(b->m, tile, 2)};
	op_make(b, OP_WRITE, to, 4, attr, 2, NULL, 0);
}

/* Of rows whose columns indices say, the programs share each tile's rows (materialize_rows.c). */
static bool
build_rows(const Operands *all, const Operand *o, Value *tensor)
{
	enum { PART = 2048 };
	const MadeTensor *m = &o->made;
	MadeRows r = {.f = all->f, .loop = o->loop, .v = o->value, .slice = o->slice};
	if (m->along != 0 || m->begin != 0 || m->step != m->tile[1] || m->tile[1] == 1 || !made_rows_find(&r))
		return false;
	Builder b = build_before(o->loop);
	Value *shares, *share = number_along(&b, all, ((1u << all->f->naxis) - 1) & ~o->axes, &shares);
	Value *base = times(&b, number_along(&b, all, o->axes, NULL), m->tile[0]);
	Value *columns = times(&b, build_count(&b, o), m->tile[1]);
	Op *rows = build_for(&b, (Value *const[]){share, build_index(&b, m->tile[0]), shares}, NULL, 0, NULL);
	Builder in = build_inside(rows, 0);
	Op *parts = build_for(&in, (Value *const[]){build_index(&in, 0), columns, build_index(&in, PART)}, NULL, 0, NULL);
	build_yield(&in, NULL, 0);
	Value *row = &rows->region[0]->arg[0], *k = &parts->region[0]->arg[0];
	in = build_inside(parts, 0);
	Value *part = made_rows_part(&r, &in, row, k, PART);
	in.place = o->value->def->place;
	build_write(&in, (Value *const[]){tensor, build2(&in, OP_ADD, base, row), k, part}, (int64_t[]){1, PART});
	build_yield(&in, NULL, 0);
	all->f->schedule.warps = WARPS;
	return true;
}

/* Is it one of a group's that trips compute? */
static bool
is_by_trips(const Operand *o, int group)
{
	return o->group == group && !o->is_built;
}

/* Of elements of rows, the tile is a part of its depth after the other. */
static void
build_across(Builder *b, const Operand *o, Value *const to[3], Value **map)
{
	const Op *read = o->value->def;
	const MadeTensor *m = &o->made;
	int depth = 1 - m->along, at = made_dim(read, depth);
	int64_t n = made_part(m, depth), tile[2] = {m->tile[0], m->tile[1]};
	Value **in = NEW_ARRAY(b->m->cx->tmp, Value *, read->nin), *dest[4] = {to[0], to[1], to[2]};
	for (int i = 0; i < read->nin; i++)
		in[i] = map[read->in[i]->id] ? map[read->in[i]->id] : read->in[i];
	Builder inside;
	Value *k = &made_parts(b, m->tile[depth], n, &inside)->region[0]->arg[0];
	tile[depth] = n;
	in[1 + at] = build2(&inside, OP_ADD, in[1 + at], k);
	dest[1 + depth] = build2(&inside, OP_ADD, to[1 + depth], k);
	dest[3] = access_along(&inside, read, in, at, n)->out;
	build_write(&inside, dest, tile);
	build_yield(&inside, NULL, 0);
}

/* What the operands of a group are computed from in the loop's body, and their writes. */
static void
build_trips(const Operands *all, int group, Value *const *tensor)
{
	const Operand *first = &all->at[group];
	Op *was = first->loop;
	const Block *body = was->region[0];
	Builder b = build_before(was);
	const Func *f = all->f;
	const MadeTensor *m = &first->made;
	Value *shares, *share = number_along(&b, all, ((1u << f->naxis) - 1) & ~first->axes, &shares);
	Value *program = number_along(&b, all, first->axes, NULL), *trips = build_count(&b, first);
	Op *loop = build_for(&b, (Value *const[]){share, trips, shares}, NULL, 0, NULL);
	Builder in = build_inside(loop, 0);
	Value **map = NEW_ARRAY(b.m->cx->tmp, Value *, f->nvalues), *trip = &loop->region[0]->arg[0];
	map[body->arg[0].id] = build2(&in, OP_ADD, times(&in, trip, m->step), build_index(&in, m->begin));
	for (const Op *op = body->first; op; op = op->next)
		if (ANY_OF(i, all->n, is_by_trips(&all->at[i], group) &&
		    !(all->at[i].made.neighbours && op == all->at[i].value->def) &&
		    ANY_OF(k, op->nout, all->at[i].slice[op->out[k].id])))
			op_clone(&in, op, map);
	for (int i = group; i < all->n; i++) {
		const Operand *o = &all->at[i];
		if (!is_by_trips(o, group))
			continue;
		Value *to[4];
		in.place = o->value->def->place;
		place_in(&in, o, tensor[i], program, times(&in, trip, o->made.tile[1 - o->made.along]), to);
		to[3] = map[o->value->id];
		if (o->made.neighbours)
			build_across(&in, o, to, map);
		else
			build_write(&in, to, o->made.tile);
	}
	build_yield(&in, NULL, 0);
}

/* A tile that is by rows has a loop of its own. */
static void
build_group(Operands *all, int group, Value *const *tensor)
{
	Operand *o = all->at;
	for (int i = group; i < all->n; i++)
		o[i].is_built = o[i].group == group && build_rows(all, &o[i], tensor[i]);
	if (ANY_OF(i, all->n, is_by_trips(&o[i], group)))
		build_trips(all, group, tensor);
}

static void
make_first(Operands *all)
{
	Func *f = all->f;
	Value *tensor[MADE_MOST];
	VEC(Op *) was = {0};
	for (Op *op = f->body->first; op; op = op->next)
		vec_push(f->module->cx->tmp, &was, op);
	Value *first = add_params(all, ACCESS_OUT, ACCESS_IN);
	for (int i = 0; i < all->n; i++)
		tensor[i] = &first[i];
	f->schedule = (Schedule){.materialize = MATERIALIZE_FIRST};
	for (int i = 0; i < all->n; i++)
		f->schedule.batch = MAX(f->schedule.batch, all->at[i].made.neighbours);
	f->schedule.warps = f->schedule.batch ? WARPS : 0;
	for (int i = 0; i < all->n; i++)
		if (all->at[i].group == i)
			build_group(all, i, tensor);
	erase_rest(all, was.at, was.n);
	f->name = intern(f->module->cx->names, arena_printf(f->module->cx->tmp, "%s_operands", f->name));
}

/* ---- the kernel itself ---- */

static void
read_made(const Operands *all, const Operand *o, Value *tensor)
{
	Op *loop = o->loop, *was = o->value->def;
	const MadeTensor *m = &o->made;
	int64_t depth = m->tile[1 - m->along];
	Builder outside = build_before(loop), b = build_before(was);
	Value *program = number_along(&outside, all, o->axes, NULL), *in[3];
	Value *trip = &loop->region[0]->arg[0];
	if (m->begin)
		trip = build2(&b, OP_SUB, trip, build_index(&b, m->begin));
	if (m->step != depth)
		trip = times(&b, build2(&b, OP_FLOORDIV, trip, build_index(&b, m->step)), depth);
	place_in(&outside, o, tensor, program, trip, in);
	const Attr attr[] = {attr_new_index(b.m, "pp"), attr_new_extents(b.m, m->tile, 2)};
	Op *read = op_make(&b, OP_READ, in, 3, attr, 2, &o->value->type, 1);
	read->out[0].name = o->value->name;
	value_replace(o->value, read->out);
}

static void
make_main(const Operands *all)
{
	Func *f = all->f;
	Value *first = add_params(all, ACCESS_IN, ACCESS_OUT);
	for (int i = 0; i < all->n; i++)
		read_made(all, &all->at[i], &first[i]);
	for (int i = 0; i < all->nresults; i++)
		made_result_keep(&all->result[i], f, &first[all->n + i]);
}

void
pass_materialize(Func *f, const Target *t)
{
	if (!f->schedule.materialize || f->schedule.parts > 1)
		return;
	Operands all = {.f = f, .fast = -1};
	func_number(f);
	find_operands(&all);
	if (block_find(f->body, OP_DOT))
		all.nresults = made_results_find(f, all.result, MADE_MOST - all.n);
	if (t->kind != TARGET_PTX)
		all.reason = "only NVIDIA's GPUs compute operands before";
	f->materialize_reason = all.n + all.nresults == 0 || t->kind != TARGET_PTX ? all.reason : NULL;
	if (f->materialize_reason)
		return;
	if (f->schedule.materialize == MATERIALIZE_FIRST)
		make_first(&all);
	else if (f->schedule.materialize == MATERIALIZE_LAST)
		made_results_last(f, all.result, all.nresults, add_params(&all, ACCESS_IN, ACCESS_IN) + all.n);
	else
		make_main(&all);
	f->nmade = all.n + all.nresults;
	f->made = MAP_OF(f->module->cx->mem, MadeTensor, i, f->nmade,
	    i < all.n ? all.at[i].made : all.result[i - all.n].made);
	sweep(f);
}
