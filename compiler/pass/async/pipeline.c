/* Lets a loop's dots wait for no memory: tiles that a dot needs in later trips are on their way while it works.
 *
 *     for %lo, %hi, %step, %acc do (%k: i64, %c: f32[128, 128] #4) {
 *         %a = read %x, %m, %k {…} : f16[128, 32] #0
 *         %d = convert %a : f16[128, 32] #2
 *         %e = dot %d, …, %c
 *         yield %e
 *     }
 *  =>
 *     %ring = alloc : buffer<3 x f16[128, 32]> #7
 *     (trips 0 and 1, if there are such: copy into slots 0 and 1, a commit each)
 *     for … do (%k: i64, %c: …, %now: i64, %free: i64) {
 *         wait {left = 1}                                     the oldest group: this trip's
 *         if %k + 2 * %step < %hi { copy %x, %m, %k + 2 * %step into slot %free }
 *         commit
 *         %d = get (slot %now of %ring) : f16[128, 32] #2     in the layout of the dot's operand
 *         %e = dot %d, …, %c
 *         yield %e, (%now + 1, wrapped), %now
 *     }
 *
 * So `stages` tiles have room, of which `stages` - 1 are under way when a trip begins.  A group is committed in every
 * trip, empty or not, so that the count of those left is right whatever the number of trips.  Each trip has waited for
 * its own group, and only trips that there are copy: behind the loop nothing is under way, and nothing waits.  The copy
 * goes into the slot that the last trip read, which the barrier between the wait and the copy makes safe: there is one
 * barrier a trip.  Elements outside the tensor are zeros, as in the read: a read with another fill stays as it is.
 *
 * A read takes part if a dot of its own loop uses it, through converts, permutes and whatever else computes; if its
 * indices follow from the loop's index and what the loop leaves alone (tiles of indices must be such); if nothing in the
 * loop may write its tensor; and if its layout moves 4, 8 or 16 bytes at once, which is what cp.async copies.  Where a
 * convert changes the tile right behind the read (or behind a cast or a permute), the get gives the convert's layout and
 * the convert goes.
 *
 * Targets without asynchronous copies, and `stages(1)`, hold the next tile in registers instead, where there are enough
 * (staged.c). */
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <string.h>

enum { MAX_STAGES = 8, DEFAULT_STAGES = 4, SLICE_MAX = 4096 };

/* ---- which reads ---- */

static bool
in_body(const Value *v, const Block *body)
{
	for (const Block *b = v->block; b; b = b->parent ? b->parent->home : NULL)
		if (b == body)
			return true;
	return false;
}

static bool
may_be_written(const Pipeline *p, const Value *tensor)
{
	const FuncParam *param = &p->f->param[tensor->index];

	for (const Op *op = p->f->body->first; op; op = op_after(op, p->f->body)) {
		if (op->kind == OP_INLINE_PTX)
			return true;
		if ((op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR) && param->access == ACCESS_IN)
			return true;
		if ((op->kind == OP_WRITE || op->kind == OP_ATOMIC) && op->in[0] == tensor && op_inside(op, p->body))
			return true;
	}
	return false;
}

/* Pure, or a scalar read of what the loop does not write: page tables hold starts. */
static bool
may_run_ahead(const Pipeline *p, const Op *op)
{
	if (op->kind == OP_READ)
		return !may_be_written(p, op->in[0]);
	return (op_info[op->kind].traits & PURE) && op->nregion == 0;
}

bool
pipeline_can_shift(const Pipeline *p, const Value *v, int depth)
{
	if (!in_body(v, p->body) || v == &p->body->arg[0])
		return true;
	if (!v->def || v->def->home != p->body || v->type->rank > 0 || depth == 0 || !may_run_ahead(p, v->def))
		return false;
	for (int i = 0; i < v->def->nin; i++)
		if (v->def->in[i]->type->kind == TYPE_TILE && !pipeline_can_shift(p, v->def->in[i], depth - 1))
			return false;
	return true;
}

static bool
is_zero_fill(const Op *op)
{
	int base = 1 + op->in[0]->type->rank;
	const Value *v = op->nin > base ? op->in[base] : NULL;

	while (v && v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_CONVERT))
		v = v->def->in[0];
	if (!v)
		return true;
	const Attr *a = value_const(v);
	return a && (a->kind == KIND_FLOAT ? a->f == 0 && !__builtin_signbit(a->f) : a->i == 0);
}

/* Bytes that a thread moves at once. */
static int
access_bytes(const Op *op)
{
	const Value *v = &op->out[0];
	int64_t n = attr_vector(op), size = dtype_tile_size(v->type->elem);

	while (n > 1 && (n * size > 16 || n > INT64_C(1) << v->layout->in[IN_REGISTER]))
		n /= 2;
	return (int)(n * size);
}

static bool
takes_part(const Pipeline *p, const Op *op)
{
	const Value *v = &op->out[0];

	if (op->kind != OP_READ || op->home != p->body || !v->layout || dtype_is_packed(v->type->elem) ||
	    v->type->elem == TY_BOOL || !is_zero_fill(op) || may_be_written(p, op->in[0]))
		return false;
	for (int i = 0; i < op->in[0]->type->rank; i++)
		if (!pipeline_can_shift(p, op->in[1 + i], 16))
			return false;
	return !p->is_async || access_bytes(op) >= 4;
}

/* Adds what v is computed from within the body. */
static void
add_slice(Pipeline *p, Value *v)
{
	if (!v->def || v->def->home != p->body || p->slice.n > SLICE_MAX || v->type->rank == 0)
		return;
	for (int i = 0; i < p->slice.n; i++)
		if (p->slice.at[i] == v->def)
			return;
	vec_push(p->tmp, &p->slice, v->def);
	if (v->def->kind == OP_READ || op_family(v->def) == FAMILY_DOT)
		return;
	for (int i = 0; i < v->def->nin; i++)
		add_slice(p, v->def->in[i]);
}

static void
find_reads(Pipeline *p)
{
	for (Op *op = p->body->first; op; op = op->next) {
		if (op->kind == OP_DOT) {
			add_slice(p, op->in[0]);
			add_slice(p, op->in[1]);
		} else if (op->kind == OP_DOT_SCALED) {
			for (int i = 0; i < 4; i++)
				add_slice(p, op->in[i]);
		}
	}
	for (Op *op = p->body->first; op; op = op->next)
		for (int i = 0; i < p->slice.n; i++)
			if (p->slice.at[i] == op && takes_part(p, op)) {
				Staged s = {.read = op};
				vec_push(p->tmp, &p->reads, s);
			}
}

/* ---- the layout in shared memory ---- */

/* Dimension along which the read's vectors lie. */
static int
fast_dim(const Layout *l)
{
	for (int d = 0; d < l->rank; d++)
		if (l->in[IN_REGISTER] && l->map.col[0] == UINT64_C(1) << layout_out_at(l, d))
			return d;
	return l->rank - 1;
}

/* Rows of 16-byte chunks, exclusive-ored so that eight rows' equal chunks are in different banks. */
static Layout
swizzle(const Layout *l, int bytes)
{
	int fast = fast_dim(l), order[LAYOUT_RANK] = {fast}, n = 1, vector, chunks, per_phase = 0;

	for (int d = l->rank - 1; d >= 0; d--)
		if (d != fast)
			order[n++] = d;
	vector = MIN(log2_ceil(16 / bytes), l->out[fast]);
	chunks = l->out[fast] - vector;
	while (chunks + per_phase < 3)
		per_phase++;
	return layout_swizzled(l->rank, l->out, order, vector, per_phase, MIN(chunks, 3));
}

static const Layout *
choose_shared(Pipeline *p, const Value *v, const Layout *want)
{
	int bytes = dtype_tile_size(v->type->elem);
	Layout l = swizzle(v->layout, bytes);
	bool transposed;
	F2 to;
	int stride;

	if (want && p->t->has & HAS_SIMDGROUP_MATRIX && l.rank >= 2 && l.out[l.rank - 1] >= 3 && l.out[l.rank - 2] >= 3) {
		Layout squares = layout_squares(l.rank, l.out);
		if (layout_fits_squares(want, &squares, &to, &stride, &transposed))
			return layout_intern(p->m, &squares);
	}
	if (want && !layout_fits_matrix(want, &l, bytes, &to, &transposed)) {
		Layout best = layout_best_shared(v->layout, want, bytes);
		if (!p->is_async || bytes << layout_shared_vector(v->layout, &best, bytes, 16) >= 4)
			l = best;
	}
	return layout_intern(p->m, &l);
}

/* ---- building ---- */

/* v as it is in the trip whose index is `index`. */
static Value *
shift(Pipeline *p, Builder *b, Value *v, Value *index)
{
	if (!in_body(v, p->body))
		return v;
	if (v == &p->body->arg[0])
		return index;
	const Op *op = v->def;
	Value **in = NEW_ARRAY(p->tmp, Value *, op->nin);
	const Type **want = NEW_ARRAY(p->tmp, const Type *, op->nout);
	for (int i = 0; i < op->nin; i++)
		in[i] = op->in[i]->type->kind == TYPE_TILE ? shift(p, b, op->in[i], index) : op->in[i];
	for (int i = 0; i < op->nout; i++)
		want[i] = op->out[i].type;
	return &op_make(b, op->kind, in, op->nin, op->attr, op->nattr, want, op->nout)->out[v->index];
}

Op *
pipeline_access(Pipeline *p, Builder *b, const Staged *s, OpKind kind, Value *slot, Value *index)
{
	const AttrName kept[] = {ATTR_INDEX, ATTR_EXTENTS, ATTR_VECTOR, ATTR_INSIDE, ATTR_VALID, ATTR_CACHE};
	const Op *read = s->read;
	int rank = read->in[0]->type->rank, n = 0, nin = 1 + rank;
	Value *in[MAX_RANK + 2] = {read->in[0]};
	Attr attr[LEN(kept) + 1];

	for (int i = 0; i < rank; i++)
		in[1 + i] = shift(p, b, read->in[1 + i], index);
	if (kind == OP_COPY)
		in[nin++] = slot;
	for (int i = 0; i < LEN(kept); i++)
		if (op_attr(read, kept[i]) && (kind == OP_READ || kept[i] != ATTR_CACHE))
			attr[n++] = *op_attr(read, kept[i]);
	if (kind == OP_COPY)
		attr[n++] = attr_new_kind(p->m, "cp_async");
	Op *op = op_make(b, kind, in, nin, attr, n, NULL, 0);
	op->out[0].layout = read->out[0].layout;
	return op;
}

Value *
pipeline_slot(Pipeline *p, Builder *b, const Staged *s, Value *number)
{
	Attr wrapped = attr_new_wrapped(p->m, true);
	Op *op = op_make(b, OP_SLOT, (Value *[]){s->ring, number}, 2, &wrapped, 1, NULL, 0);

	op->out[0].layout = s->ring->layout;
	return &op->out[0];
}

static Value *
index_const(Pipeline *p, Builder *b, int64_t v)
{
	return build_int(b, type_scalar(p->m, TY_I64), v);
}

/* `left` is given for a wait. */
static void
token_op(Pipeline *p, Builder *b, OpKind kind, int left)
{
	Attr a = attr_new_left(p->m, left);

	op_make(b, kind, NULL, 0, &a, kind == OP_WAIT ? 1 : 0, NULL, 0);
}

/* Copies for the trip of that index, if there is one, into slot `number` of each ring; then a commit. */
static void
issue(Pipeline *p, Builder *b, Value *index, Value *number)
{
	Value *more = build2(b, OP_LT, index, p->loop->in[1]);
	Op *branch = op_make_regions(b, OP_IF, &more, 1, NULL, 0, NULL, 0, 2);

	for (int r = 0; r < 2; r++) {
		branch->region[r] = block_make(p->f, branch, NULL, 0);
		Builder in = {.m = p->m, .block = branch->region[r], .place = b->place};
		for (int i = 0; i < p->reads.n && r == 0; i++) {
			const Staged *s = &p->reads.at[i];
			in.place = s->read->place;
			pipeline_access(p, &in, s, OP_COPY, pipeline_slot(p, &in, s, number), index);
		}
		build_yield(&in, NULL, 0);
	}
	token_op(p, b, OP_COMMIT, 0);
}

/* ---- gets ---- */

/* The operand's layout from which the op gives `want`. */
static const Layout *
layout_below(Pipeline *p, const Op *op, const Layout *want)
{
	int back[LAYOUT_RANK] = {0};

	if (op->kind != OP_PERMUTE)
		return want;
	for (int d = 0; d < want->rank; d++)
		back[attr_dims(op)->at[d]] = d;
	Layout l = layout_permute(want, back);
	return layout_intern(p->m, &l);
}

/* v computed anew in layout `want` from a get of the ring, where nothing but casts and permutes stand between. */
static Value *
regain(Pipeline *p, Builder *b, const Staged *s, Value *slot, Value *v, const Layout *want)
{
	if (v == &s->read->out[0]) {
		Op *get = op_make(b, OP_GET, &slot, 1, NULL, 0, NULL, 0);
		get->out[0].layout = want;
		get->out[0].name = v->name;
		return &get->out[0];
	}
	Op *op = v->def;
	Value *in = regain(p, b, s, slot, op->in[0], layout_below(p, op, want));
	const Type *t = v->type;
	Op *again = op_make(b, op->kind, &in, 1, op->attr, op->nattr, &t, 1);
	again->out[0].layout = want;
	return &again->out[0];
}

/* Does v come from the read through casts, unary arithmetic and permutes alone? */
static bool
is_behind(const Pipeline *p, const Staged *s, const Value *v)
{
	while (v != &s->read->out[0]) {
		if (!v->def || v->def->home != p->body || v->def->nin != 1 ||
		    (v->def->kind != OP_PERMUTE && !(op_info[v->def->kind].traits & ELEM)))
			return false;
		v = v->def->in[0];
	}
	return true;
}

/* The layout in which the dots want the tile: of the first convert behind it. */
static const Layout *
wanted_layout(Pipeline *p, const Staged *s)
{
	for (const Op *op = p->body->first; op; op = op->next) {
		if (op->kind != OP_CONVERT || !is_behind(p, s, op->in[0]))
			continue;
		const Layout *l = op->out[0].layout;
		for (const Value *v = op->in[0]; v != &s->read->out[0]; v = v->def->in[0])
			l = layout_below(p, v->def, l);
		return l;
	}
	return NULL;
}

void
pipeline_gets(Pipeline *p, const Staged *s, Value *slot)
{
	Op *after = s->read;

	for (Op *op = p->body->first, *next; op; op = next) {
		next = op->next;
		if (op->kind != OP_CONVERT || !is_behind(p, s, op->in[0]))
			continue;
		Builder b = {.m = p->m, .block = p->body, .before = op, .place = op->place};
		value_replace(&op->out[0], regain(p, &b, s, slot, op->in[0], op->out[0].layout));
		op_erase(op);
	}
	/* What was on the way to a convert may be left without a use, and then it goes. */
	for (Op *op = p->body->last, *prev; op != after; op = prev) {
		prev = op->prev;
		bool unused = op->nout == 1 && op->out[0].nuses == 0 && (op_info[op->kind].traits & PURE);
		if (unused && is_behind(p, s, &op->out[0]))
			op_erase(op);
	}
	if (after->out[0].nuses) {
		Builder b = {.m = p->m, .block = p->body, .before = after, .place = after->place};
		value_replace(&after->out[0], regain(p, &b, s, slot, &after->out[0], after->out[0].layout));
	}
	op_erase(after);
}

/* ---- the loop ---- */

Value *
pipeline_carry(Pipeline *p, Value *const *init, int n)
{
	Op *old = p->loop;
	Block *from = p->body;
	Builder b = {.m = p->m, .block = old->home, .before = old, .place = old->place};
	int narg = from->narg + n;
	Value **in = NEW_ARRAY(p->tmp, Value *, old->nin + n);
	const Type **type = NEW_ARRAY(p->tmp, const Type *, narg);

	for (int i = 0; i < old->nin + n; i++)
		in[i] = i < old->nin ? old->in[i] : init[i - old->nin];
	for (int i = 0; i < narg; i++)
		type[i] = i < from->narg ? from->arg[i].type : init[i - from->narg]->type;
	Op *loop = op_make_regions(&b, OP_FOR, in, old->nin + n, old->attr, old->nattr, NULL, 0, 1);
	Block *to = loop->region[0] = block_make(p->f, loop, type, narg);
	for (int i = 0; i < narg; i++) {
		to->arg[i].layout = i < from->narg ? from->arg[i].layout : init[i - from->narg]->layout;
		to->arg[i].name = i < from->narg ? from->arg[i].name : NULL;
		if (i < from->narg)
			value_replace(&from->arg[i], &to->arg[i]);
	}
	while (from->first)
		op_move(from->first, to, NULL);
	for (int i = 0; i < loop->nout; i++)
		loop->out[i].layout = to->arg[1 + i].layout;
	for (int i = 0; i < old->nout; i++) {
		loop->out[i].name = old->out[i].name;
		value_replace(&old->out[i], &loop->out[i]);
	}
	op_erase(old);
	p->loop = loop;
	p->body = to;
	return &to->arg[narg - n];
}

void
pipeline_yield(Pipeline *p, Value *const *more, int n)
{
	Op *old = p->body->last;
	Builder b = {.m = p->m, .block = p->body, .place = old->place};
	Value **in = NEW_ARRAY(p->tmp, Value *, old->nin + n);

	for (int i = 0; i < old->nin + n; i++)
		in[i] = i < old->nin ? old->in[i] : more[i - old->nin];
	build_yield(&b, in, old->nin + n);
	op_erase(old);
}

void
pipeline_rings(Pipeline *p, Builder *b, int slots)
{
	for (int i = 0; i < p->reads.n; i++) {
		Staged *s = &p->reads.at[i];
		const Value *v = &s->read->out[0];
		const Type *t = type_buffer(p->m, v->type->elem, slots, v->type->rank, v->type->extent);
		if (!p->is_async && !s->want)
			continue;
		b->place = s->read->place;
		s->ring = build0(b, OP_ALLOC, t);
		s->ring->layout = choose_shared(p, v, s->want);
	}
	b->place = p->loop->place;
}

/* (v + 1) modulo n, of a v below n. */
Value *
pipeline_next(Pipeline *p, Builder *b, Value *v, int n)
{
	Value *up = build2(b, OP_ADD, v, index_const(p, b, 1));
	Value *wraps = build2(b, OP_EQ, up, index_const(p, b, n));

	return build3(b, OP_SELECT, wraps, index_const(p, b, 0), up);
}

static void
run_ahead(Pipeline *p, int stages)
{
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	Value *index = p->loop->in[0], *step = p->loop->in[2];

	pipeline_rings(p, &b, stages);
	for (int i = 0; i < stages - 1; i++) {
		issue(p, &b, index, index_const(p, &b, i));
		if (i + 2 < stages)
			index = build2(&b, OP_ADD, index, step);
	}
	Value *ahead = build2(&b, OP_MUL, step, index_const(p, &b, stages - 1));
	Value *slot = pipeline_carry(p, (Value *[]){index_const(p, &b, 0), index_const(p, &b, stages - 1)}, 2);
	slot[0].name = "now";
	slot[1].name = "free";
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	token_op(p, &b, OP_WAIT, stages - 2);
	issue(p, &b, build2(&b, OP_ADD, &p->body->arg[0], ahead), &slot[1]);
	Value **now = NEW_ARRAY(p->tmp, Value *, p->reads.n);
	for (int i = 0; i < p->reads.n; i++)
		now[i] = pipeline_slot(p, &b, &p->reads.at[i], &slot[0]);
	for (int i = 0; i < p->reads.n; i++)
		pipeline_gets(p, &p->reads.at[i], now[i]);
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->last, .place = p->loop->place};
	pipeline_yield(p, (Value *[]){pipeline_next(p, &b, &slot[0], stages), &slot[0]}, 2);
}

/* ---- how many stages ---- */

static int64_t
stage_bytes(const Pipeline *p)
{
	int64_t n = 0;

	for (int i = 0; i < p->reads.n; i++) {
		const Type *t = p->reads.at[i].read->out[0].type;
		n += type_count(t) * dtype_tile_size(t->elem);
	}
	return n;
}

/* 32-bit registers that a thread needs at least: the greatest of the body's dots, and some for addresses. */
static int
thread_registers(const Pipeline *p)
{
	enum { OTHERS = 32 };
	int most = 0;

	for (const Op *op = p->body->first; op; op = op->next) {
		int n = OTHERS;
		for (int i = 0; i < op->nin && op->kind == OP_DOT; i++)
			n += (dtype_tile_size(op->in[i]->type->elem) << op->in[i]->layout->in[IN_REGISTER]) / 4;
		most = MAX(most, n);
	}
	return MIN(most, p->t->max_registers);
}

/* That tiles which wait in registers take besides. */
static int
held_registers(const Pipeline *p)
{
	int n = 0;

	for (int i = 0; i < p->reads.n; i++) {
		const Value *v = &p->reads.at[i].read->out[0];
		n += (dtype_tile_size(v->type->elem) << v->layout->in[IN_REGISTER]) / 4;
	}
	return n;
}

/* Shared scratch that the body needs beside the rings: converts of what rings hold go. */
static int64_t
scratch_bytes(const Pipeline *p)
{
	int64_t most = 0;

	for (const Op *op = p->body->first; op; op = op_after(op, p->body)) {
		bool goes = false;
		for (int i = 0; i < p->reads.n && op->kind == OP_CONVERT; i++)
			goes = goes || is_behind(p, &p->reads.at[i], op->in[0]);
		most = goes ? most : MAX(most, plan_op(op, p->t).scratch);
	}
	return most;
}

/* As asked, else as many as leave room for two blocks where registers do too, but two at least if one block has room
 * for them. */
static int
choose_stages(const Pipeline *p)
{
	int64_t each = stage_bytes(p), scratch = scratch_bytes(p), room = (p->t->shared_bytes_unit - 2048) / 2;
	int n = DEFAULT_STAGES, threads = MAX(p->f->schedule.warps, 1) * p->t->lanes;

	if (p->f->schedule.stages)
		return MIN(p->f->schedule.stages, MAX_STAGES);
	if (2 * threads * thread_registers(p) > p->t->registers)
		room = p->t->shared_bytes;
	while (n > 2 && n * each + scratch > room)
		n--;
	return n * each + scratch <= p->t->shared_bytes ? n : 1;
}

static bool
has_constant_step(const Op *loop)
{
	const Op *step = loop->in[2]->def;

	return step && step->kind == OP_CONST && const_int(step) > 0;
}

static void
pipeline_loop(Module *m, const Target *t, Func *f, Op *loop)
{
	Pipeline p = {.m = m, .tmp = m->cx->tmp, .t = t, .f = f, .loop = loop, .body = loop->region[0]};

	p.is_async = (t->has & HAS_CP_ASYNC) && f->schedule.stages != 1;
	if (!has_constant_step(loop))
		return;
	find_reads(&p);
	if (p.reads.n == 0)
		return;
	for (int i = 0; i < p.reads.n; i++) {
		Staged *s = &p.reads.at[i];
		s->want = wanted_layout(&p, s);
	}
	int stages = choose_stages(&p);
	if (p.is_async && stages >= 2)
		run_ahead(&p, stages);
	else if (thread_registers(&p) + held_registers(&p) <= t->max_registers &&
	    stage_bytes(&p) + scratch_bytes(&p) <= t->shared_bytes)
		pipeline_hold(&p, (t->shared_bytes - scratch_bytes(&p)) / 2);
}

static void
walk(Module *m, const Target *t, Func *f, Block *b)
{
	for (Op *op = b->first, *next; op; op = next) {
		next = op->next;
		for (int r = 0; r < op->nregion; r++)
			walk(m, t, f, op->region[r]);
		if (op->kind == OP_FOR)
			pipeline_loop(m, t, f, op);
	}
}

void
pass_pipeline(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n && t; i++)
		if (!m->funcs.at[i]->is_reference && t->has & HAS_PIPELINES)
			walk(m, t, m->funcs.at[i], m->funcs.at[i]->body);
}
