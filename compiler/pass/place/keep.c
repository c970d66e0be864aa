/* Loops keep what they read in shared memory, where the schedule word `keep` asks, for later loops that read it again.
 *
 *     for %0, %C, %1024, … do (%i, %m) {                  %b = alloc : buffer<32 x bf16[1024]> #2
 *         %v = read %x, %r, %i …                          for %0, %end, %1024, …, %0 do (%i, %m, %t) {
 *         … max %m, %v …                                      %v = read %x, %r, %i …
 *     }                                                       put (slot %t of %b), %v
 *     for %0, %C, %1024 do (%i) {                             … max %m, %v …
 *         %w = read %x, %r, %i …                  =>          yield …, (%t + 1, wrapped)
 *         write %y, %r, %i, (exp %w) …                    }
 *     }                                                   for %end, %C, %1024, … as before …
 *                                                         for %0, %end, %1024, %0 do (%i, %t) {
 *                                                             %w = get (slot %t of %b)
 *                                                             write %y, %r, %i, (exp %w) …
 *                                                         }
 *                                                         for %end, %C, %1024 do … as before …
 *
 * Two or three passes over a row, as a softmax in loops has them, would read it from device memory again once all rows
 * that are under way exceed the L2 cache.  `keep` is how many trips have a slot; trips beyond have loops of their own, that
 * read again.  Both loops lie in one block and run from the same start to the same end by the same step, and the tensor is
 * only read.  A thread gets what it has put itself, where the layouts are equal, and then no barrier is needed.
 *
 * Elements outside of the tensor have the value that the first read gives them: where the second one would give another, it
 * is left alone unless these elements are only computed with and not written. */
#include "ir/derive.h"
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/mask.h"

#include <string.h>

enum { DEPTH = 8, STEP_MOST = 1 << 20 };

/* A read of a loop's body, and what becomes of it. */
typedef struct KeptRead {
	Op *loop, *read;
	int buffer;                                     /* its number */
	bool is_first;                                  /* it is put there, else a get takes its place */
} KeptRead;

typedef struct Keep {
	Module *m;
	Func *f;
	const Target *t;
	int slots;
	VEC(KeptRead) reads;
	VEC(Value *) buffers;
	Value **map;                                    /* of the loop that is copied, by the value's id */
} Keep;

/* ---- which reads ---- */

/* Is v, in loop a's body, what w is in loop b's, in trips with the same index? */
static bool
is_same_value(const Value *v, const Block *a, const Value *w, const Block *b, int depth)
{
	const Op *x = v->def, *y = w->def;
	if (v == w)
		return !value_inside(v, a);
	if (v == &a->arg[0] && w == &b->arg[0])
		return true;
	if (depth == 0 || !values_made_alike(v, w) || x->home != a || y->home != b || v->layout != w->layout)
		return false;
	return ALL_OF(i, x->nin, is_same_value(x->in[i], a, y->in[i], b, depth - 1));
}

static bool
is_inside(const Op *access)
{
	const IntList *inside = attr_inside(access);
	for (int i = 0; inside && i < inside->n; i++)
		if (!inside->at[i])
			return false;
	return inside != NULL;
}

/* Does the write leave out the same elements as the read? */
static bool
has_same_bounds(const Op *read, const Op *write)
{
	const FuncParam *param = read->home->func->param;
	const Value *x = read->in[0], *y = write->in[0];
	if (x->def || y->def || x->type->rank != y->type->rank || strcmp(attr_index(read), attr_index(write)) != 0 ||
	    !ints_same(attr_extents(read), attr_extents(write)) || !ints_same(attr_merged(read), attr_merged(write)) ||
	    !ints_same(attr_valid(read), attr_valid(write)))
		return false;
	for (int d = 0; d < x->type->rank; d++) {
		int dim = param[x->index].dim[d];
		bool is_same = dim >= 0 ? dim == param[y->index].dim[d]
		                        : x->type->extent[d] >= 0 && x->type->extent[d] == y->type->extent[d];
		if (!is_same || read->in[1 + d] != write->in[1 + d])
			return false;
	}
	return true;
}

/* Do elements of v that lie outside of what `read` reads end there, or in elements that a write leaves out? */
static bool
is_only_written(const Op *read, const Value *v, int depth)
{
	int uses = 0;
	for (const Op *op = read->next; op; op = op->next)
		for (int i = 0; i < op->nin; i++) {
			bool is_elementwise = op_has(op, ELEM) && op_has(op, PURE) && op->nout == 1 && depth > 0;
			if (op->in[i] != v)
				continue;
			uses++;
			if (op->kind == OP_WRITE ? access_tile(op) != v || !has_same_bounds(read, op)
			                         : !is_elementwise || !is_only_written(read, op->out, depth - 1))
				return false;
		}
	return uses == v->nuses;
}

static bool
may_keep(const Keep *k, const Op *op)
{
	if (op->kind != OP_READ || !access_is_tensor(op) || op->in[0]->def || op->in[0]->block != k->f->body)
		return false;
	const Type *t = op->out[0].type;
	return k->f->param[op->in[0]->index].access == ACCESS_IN && t->rank > 0 && t->ptr == PTR_NONE &&
	    t->elem != TY_BOOL && !dtype_is_packed(t->elem) && op->out[0].layout;
}

/* Does `again` read in loop b what `first` reads in loop a? */
static bool
reads_again(const Op *first, const Op *again)
{
	const Block *a = first->home, *b = again->home;
	const Value *x = first->out, *y = again->out;
	int n = 1 + first->in[0]->type->rank;
	if (x->type != y->type || strcmp(attr_index(first), attr_index(again)) != 0 ||
	    !ints_same(attr_extents(first), attr_extents(again)) || !ints_same(attr_valid(first), attr_valid(again)) ||
	    attr_undef(first) != attr_undef(again))
		return false;
	if (!ALL_OF(i, n, is_same_value(first->in[i], a, again->in[i], b, DEPTH)))
		return false;
	bool fills_alike = first->nin == again->nin;
	for (int i = n; i < first->nin && fills_alike; i++)
		fills_alike = is_same_value(first->in[i], a, again->in[i], b, DEPTH);
	return fills_alike || (is_inside(first) && is_inside(again)) || is_only_written(again, y, DEPTH);
}

static bool
run_alike(const Op *a, const Op *b)
{
	int64_t step;
	return a->home == b->home && a->in[0] == b->in[0] && a->in[1] == b->in[1] && a->in[2] == b->in[2] &&
	    value_int(a->in[2], &step) && step > 0 && step <= STEP_MOST;
}

/* The kept read of an earlier loop that `again` repeats, made one where it was none; NULL. */
static const KeptRead *
find_first(Keep *k, const Op *loop, const Op *again)
{
	for (int i = 0; i < k->reads.n; i++)
		if (k->reads.at[i].is_first && run_alike(k->reads.at[i].loop, loop) &&
		    k->reads.at[i].loop != loop && reads_again(k->reads.at[i].read, again))
			return &k->reads.at[i];
	for (Op *earlier = loop->home->first; earlier != loop; earlier = earlier->next) {
		if (earlier->kind != OP_FOR || !run_alike(earlier, loop))
			continue;
		for (Op *op = earlier->region[0]->first; op; op = op->next)
			if (may_keep(k, op) && reads_again(op, again)) {
				KeptRead r = {earlier, op, k->buffers.n, true};
				vec_push(k->m->cx->tmp, &k->buffers, NULL);
				vec_push(k->m->cx->tmp, &k->reads, r);
				return &k->reads.at[k->reads.n - 1];
			}
	}
	return NULL;
}

static void
find_reads(Keep *k, Block *b)
{
	for (Op *loop = b->first; loop; loop = loop->next) {
		for (int r = 0; r < loop->nregion; r++)
			find_reads(k, loop->region[r]);
		for (Op *op = loop->kind == OP_FOR ? loop->region[0]->first : NULL; op; op = op->next) {
			const KeptRead *first = may_keep(k, op) ? find_first(k, loop, op) : NULL;
			if (!first)
				continue;
			KeptRead r = {loop, op, first->buffer, false};
			vec_push(k->m->cx->tmp, &k->reads, r);
		}
	}
}

/* ---- buffers ---- */

static void
make_buffers(Keep *k)
{
	for (int i = 0; i < k->reads.n; i++) {
		const KeptRead *r = &k->reads.at[i];
		const Type *t = r->read->out[0].type;
		const Layout *l = r->read->out[0].layout;
		if (!r->is_first)
			continue;
		Builder b = build_before(r->loop);
		Value *v = build0(&b, OP_ALLOC, type_buffer(k->m, t->elem, k->slots, t->rank, t->extent));
		Layout shared = layout_best_shared(l, l, dtype_tile_size(t->elem));
		v->layout = layout_intern(k->m, &shared);
		k->buffers.at[r->buffer] = v;
	}
}

static int64_t
kept_bytes(const Keep *k)
{
	return SUM_OF(int64_t, i, k->reads.n,
	    k->reads.at[i].is_first ? k->slots * tile_bytes(k->reads.at[i].read->out[0].type) : 0);
}

/* ---- loops ---- */

static Value *
slot_of(const Keep *k, Builder *b, int buffer, Value *trip)
{
	return build_slot(b, k->buffers.at[buffer], trip);
}

/* The op in the copy of its loop. */
static void
copy_op(Keep *k, Builder *b, const Op *op, Value *trip)
{
	const KeptRead *r = NULL;
	for (int i = 0; i < k->reads.n && !r; i++)
		r = k->reads.at[i].read == op ? &k->reads.at[i] : NULL;
	b->place = op->place;
	if (r && !r->is_first) {
		Value *slot = slot_of(k, b, r->buffer, trip);
		Op *get = op_make(b, OP_GET, &slot, 1, NULL, 0, NULL, 0);
		get->out[0].layout = op->out[0].layout;
		get->out[0].name = op->out[0].name;
		k->map[op->out[0].id] = get->out;
		return;
	}
	op_clone(b, op, k->map);
	if (r)
		op_make(b, OP_PUT, (Value *[]){slot_of(k, b, r->buffer, trip), k->map[op->out[0].id]}, 2, NULL, 0, NULL, 0);
}

/* Where trips with a slot end; NULL: all have one. */
static Value *
end_of(const Keep *k, Builder *b, const Op *loop)
{
	int64_t first, last, by;
	if (value_int(loop->in[0], &first) && value_int(loop->in[1], &last) && value_int(loop->in[2], &by) && first >= 0 &&
	    last <= INT32_MAX && last - first <= k->slots * by)
		return NULL;
	return mask_end(b, loop, OP_MIN, k->slots, loop->in[2]);
}

/* The trips with slots, before what is left of the loop. */
static void
copy_loop(Keep *k, Op *loop)
{
	Arena *tmp = k->m->cx->tmp;
	Builder b = build_before(loop);
	Block *old = loop->region[0];
	int n = loop->nout;
	Value *end = end_of(k, &b, loop), **init = NEW_ARRAY(tmp, Value *, n + 1), **out = NEW_ARRAY(tmp, Value *, n + 1);
	func_number(k->f);
	k->map = NEW_ARRAY(tmp, Value *, k->f->nvalues);
	for (int i = 0; i < n; i++)
		init[i] = loop->in[3 + i];
	init[n] = build_index(&b, 0);
	Op *made = build_for(&b, (Value *[]){loop->in[0], end ? end : loop->in[1], loop->in[2]}, init, n + 1, loop);
	Block *body = made->region[0];
	Builder in = build_inside(made, 0);
	block_map_args(old, body, k->map);
	for (const Op *op = old->first; op != old->last; op = op->next)
		copy_op(k, &in, op, &body->arg[n + 1]);
	for (int i = 0; i < n; i++)
		out[i] = value_mapped(k->map, old->last->in[i]);
	in.place = loop->place;
	out[n] = pipeline_next(&in, &body->arg[n + 1], k->slots);
	build_yield(&in, out, n + 1);
	for (int i = 0; i < n && !end; i++)
		value_replace(&loop->out[i], &made->out[i]);
	for (int i = 0; i < n && end; i++)
		op_set_in(loop, 3 + i, &made->out[i]);
	if (!end) {
		op_erase(loop);
		return;
	}
	op_set_in(loop, 0, end);
	attr_set_unrolled(k->m, loop, -1);
}

static void
copy_loops(Keep *k)
{
	for (int i = 0; i < k->reads.n; i++) {
		bool is_copied = ANY_OF(j, i, k->reads.at[j].loop == k->reads.at[i].loop);
		if (!is_copied)
			copy_loop(k, k->reads.at[i].loop);
	}
}

void
pass_keep(Func *f, const Target *t)
{
	Keep k = {.m = f->module, .f = f, .t = t, .slots = f->schedule.keep};
	if (k.slots <= 1)
		return;
	find_reads(&k, f->body);
	if (k.reads.n == 0)
		f->keep_reason = "no loop reads again what a loop before it has read";
	else if (smem_bytes(f, t) + kept_bytes(&k) > t->shared_bytes)
		f->keep_reason = "what its loops read takes more shared memory than a block has";
	if (f->keep_reason) {
		f->schedule.keep = 0;
		return;
	}
	axis_keep(f);
	make_buffers(&k);
	copy_loops(&k);
	f->has_axes = false;
}
