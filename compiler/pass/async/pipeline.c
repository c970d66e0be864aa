/* Software pipelining of loops of dots: asynchronous copies bring the tiles of later iterations while a dot works.
 *
 *     for %lo, %hi, %step, %acc do (%k: i64, %c: f32[128, 128] #4) {
 *         %a = read %x, %m, %k {…} : f16[128, 32] #0
 *         %d = convert %a : f16[128, 32] #2
 *         %e = dot %d, …, %c
 *         yield %e
 *     }
 *  =>
 *     %ring = alloc : buffer<3 x f16[128, 32]> #7
 *     (prologue: iterations 0 and 1, if there are such: copy into slots 0 and 1, a commit each)
 *     for … do (%k: i64, %c: …, %now: i64, %free: i64) {
 *         wait {left = 1}                                     the oldest group: this iteration's
 *         if %k + 2 * %step < %hi { copy %x, %m, %k + 2 * %step into slot %free }
 *         commit
 *         %d = get (slot %now of %ring) : f16[128, 32] #2     in the layout of the dot's operand
 *         %e = dot %d, …, %c
 *         yield %e, (%now + 1, wrapped), %now
 *     }
 *
 * A ring has `stages` slots, of which `stages` - 1 are being filled when an iteration begins.  A group is committed in
 * every iteration, empty or not, so that the count of those left is right whatever the trip count.  Each iteration has
 * waited for its own group, and only iterations that exist copy: there is no epilogue, no copy is in flight behind the
 * loop.  The copy goes into the slot that the last iteration read, after the barrier between the wait and the copy: there
 * is one barrier an iteration.  Elements outside the tensor are zeros, as in the read: a read with another fill stays as
 * it is.
 *
 * Copies by cp_async that warpgroups read need a proxy fence behind the wait.  Where products take long enough, wait and
 * fence are those of the next iteration, behind the start of this one's product (waits_after).
 *
 * Where a tensor map serves a read, and warpgroups take it from shared memory, one thread issues a bulk copy, and an
 * mbarrier takes the place of the groups (bulk.c).
 *
 * candidate.c says which reads are staged, ring.c where their tiles are, loop.c carries the slot numbers.  Targets without
 * asynchronous copies, and `stages(1)`, hold the next tile in registers instead, where there are enough
 * (double_buffer.c). */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/async/ring.h"

#include <string.h>

enum {
	MAX_STAGES = 8,
	DEFAULT_STAGES = 4,                             /* where shared memory has room */
	STREAM_BYTES = 64 * 1024,                       /* under way, in loops that wait for memory (H200) */
	SYSTEM_BYTES = 1024,                            /* of each block's shared memory: CUDA C++ Programming Guide */
};

/* `left` is given for a wait. */
static void
token_op(Pipeline *p, Builder *b, OpKind kind, int left)
{
	Attr a = attr_new_left(p->m, left);

	op_make(b, kind, NULL, 0, &a, kind == OP_WAIT ? 1 : 0, NULL, 0);
}

/* Copies for the iteration of that index, if there is one, into slot `number` of each ring; then a commit. */
static void
issue(Pipeline *p, Builder *b, Value *index, Value *number)
{
	Builder in = build_where(b, build2(b, OP_LT, index, p->loop->in[1]), true);
	pipeline_copies(p, &in, index, number);
	build_yield(&in, NULL, 0);
	if (p->nasync && p->part != COPY_FIXED)
		token_op(p, b, OP_COMMIT, 0);
}

/* Copies for all iterations that are ahead when the loop begins. */
static void
issue_first(Pipeline *p, Builder *b, int stages, CopyPart part)
{
	Value *index = p->loop->in[0];

	p->part = part;
	for (int i = 0; i < stages - 1; i++) {
		issue(p, b, index, build_index(b, i));
		pipeline_count(p, b, index);
		if (i + 2 < stages)
			index = build2(b, OP_ADD, index, p->loop->in[2]);
	}
	p->part = COPY_ALL;
}

/* Tensors that are `in fixed` are copied before the wait for the grids before, the others behind it; the first group has
 * all of the former. */
static void
build_prologue(Pipeline *p, Builder *b, int stages)
{
	if (!pipeline_starts_early(p)) {
		issue_first(p, b, stages, COPY_ALL);
		return;
	}
	issue_first(p, b, stages, COPY_FIXED);
	op_make(b, OP_GRID_WAIT, NULL, 0, NULL, 0, NULL, 0);
	issue_first(p, b, stages, COPY_OTHERS);
}

/* The first product of warpgroups, which works while the copies of a later iteration are issued; or NULL, as of those that
 * are over at once. */
static Op *
first_product(const Pipeline *p)
{
	for (Op *op = p->body->first; op; op = op->next)
		if (op->kind == OP_DOT && wgmma_named(attr_mma(op)))
			return wgmma_adds_apart(op) ? NULL : op;
	return NULL;
}

/* Cycles of a multiprocessor that an iteration's products of warpgroups take. */
static double
product_cycles(const Pipeline *p)
{
	double n = 0;
	for (const Op *op = p->body->first; op && p->t->rates; op = op->next)
		if (op->kind == OP_DOT && wgmma_named(attr_mma(op))) {
			const Type *a = op->in[0]->type;
			double bits = dtype_info[a->elem].bits, depth = (double)a->extent[a->rank - 1];
			n += (double)type_count(op->out[0].type) * depth * bits / (16 * p->t->rates->products_warpgroup);
		}
	return n;
}

/* Of an op whose result warpgroups read: do threads put it where they do? */
static bool
puts_operand(const Pipeline *p, const Op *op)
{
	return op->kind != OP_READ || !op_inside(op, p->body) || warpgroup_turns(p->body, &op->out[0]);
}

/* Of a tile that the loop computes and warpgroups read, once more: it is made an iteration ahead (decode.c). */
static int64_t
decoded_bytes(const Pipeline *p)
{
	int64_t n = 0;

	for (const Op *op = p->body->first; op && p->f->schedule.specialize != 1; op = op_after(op, p->body))
		for (int i = 0; i < op->nout && puts_operand(p, op); i++)
			n += warpgroup_reads(p->body, &op->out[i]) ? tile_bytes(op->out[i].type) : 0;
	return n;
}

/* The fence of what cp_async copied orders all of a thread's accesses: it also waits for the copies of later iterations.
 * So an iteration waits for the next one's copies, and fences them, while its own product works; its own copies come behind
 * the fence.  That is one iteration less ahead: only where products take longer than copies.  What is decoded ahead waits
 * there in any case (decode.c). */
static bool
waits_after(const Pipeline *p, const Op *started, int stages)
{
	return started && p->nasync && stages > 2 && p->t->rates && decoded_bytes(p) == 0 &&
	    (stages - 2) * product_cycles(p) >= p->t->rates->latency;
}

/* From the loop's arguments on. */
static void
count_from(Pipeline *p, Value *arg)
{
	for (int i = 0, n = 0; i < p->columns && p->counts; i++)
		if (p->counts[i])
			p->ahead[i] = &arg[n++];
}

static void
build_pipeline(Pipeline *p, int stages)
{
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};
	Value *step = p->loop->in[2];
	bool has_bulk = p->bulk_bytes > 0, behind = waits_after(p, first_product(p), stages);

	pipeline_rings(p, &b, stages);
	pipeline_mbarriers(p, &b, stages);
	pipeline_ahead(p);
	build_prologue(p, &b, stages);
	if (behind)
		token_op(p, &b, OP_WAIT, stages - 2);
	Value *ahead = build2(&b, OP_MUL, step, build_index(&b, stages - 1));
	Value **more = NEW_ARRAY(p->tmp, Value *, 3 + p->columns);
	Value *init[3] = {build_index(&b, 0), build_index(&b, stages - 1), has_bulk ? build_index(&b, 0) : NULL};
	int own = has_bulk ? 3 : 2, counters = pipeline_counters(p, more + own);
	memcpy(more, init, sizeof *more * (size_t)own);
	Value *slot = pipeline_carry(p, more, own + counters);
	count_from(p, slot + own);
	slot[0].name = "now";
	slot[1].name = "free";
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	if (p->nasync && !behind)
		token_op(p, &b, OP_WAIT, stages - 2);
	if (has_bulk)
		pipeline_await(&b, p->full, &slot[0], &slot[2]);
	Op *started = first_product(p);
	if (!started)
		issue(p, &b, build2(&b, OP_ADD, &p->body->arg[0], ahead), &slot[1]);
	Value **now = MAP_OF(p->tmp, Value *, i, p->reads.n, pipeline_slot(p, &b, &p->reads.at[i], &slot[0]));
	for (int i = 0; i < p->reads.n; i++)
		pipeline_gets(p, &p->reads.at[i], now[i]);
	if (started) {
		b.before = started->next;
		if (behind)
			token_op(p, &b, OP_WAIT, stages - 3);
		issue(p, &b, build2(&b, OP_ADD, &p->body->arg[0], ahead), &slot[1]);
	}
	b = (Builder){.m = p->m, .block = p->body, .before = p->body->last, .place = p->loop->place};
	more[0] = pipeline_next(&b, &slot[0], stages);
	more[1] = &slot[0];
	if (has_bulk)
		more[2] = pipeline_next_phase(&b, &slot[2], more[0]);
	if (counters)
		pipeline_count(p, &b, build2(&b, OP_ADD, &p->body->arg[0], ahead));
	pipeline_counters(p, more + own);
	pipeline_yield(p, more, own + counters);
}

/* 32-bit registers that a thread needs at least: the greatest of all dots, of those behind the loop, too, or all sums that
 * the body's carry together, and some for addresses.  (a @ b) @ c in steps of 128, with two slots for a second block that
 * registers have no room for, took an H200 64 us, in steps of 64 with four 40. */
static int
thread_registers(const Pipeline *p)
{
	enum { OTHERS = 32 };
	int most = 0, carried = 0;
	for (const Op *op = p->f->body->first; op; op = op_after(op, p->f->body)) {
		int n = 0, last = 0;
		for (int i = 0; i < op->nin && op->kind == OP_DOT; n += last, i++)
			last = i < 2 && wgmma_named(attr_mma(op)) ? 0 :
			    (dtype_tile_size(op->in[i]->type->elem) << op->in[i]->layout->in[IN_REGISTER]) / 4;
		most = MAX(most, n);
		carried += op->kind == OP_DOT && op->home == p->body && !op->in[2]->def ? last : 0;
	}
	return MIN(MAX(most, carried) + OTHERS, p->t->max_registers);
}

/* Those of the tiles that double buffering holds; an element of 4 bits takes one, and one that is loaded by itself. */
static int
held_registers(const Pipeline *p)
{
	int n = 0;

	for (int i = 0; i < p->reads.n; i++) {
		const Value *v = &p->reads.at[i].read->out[0];
		bool alone = dtype_is_packed(v->type->elem) || (p->t->has & HAS_CP_ASYNC && attr_vector(v->def) == 1);
		int bytes = MAX(dtype_tile_size(v->type->elem), alone ? 4 : 1);
		n += (bytes << v->layout->in[IN_REGISTER]) / 4;
	}
	return n;
}

/* Shared scratch that the body needs beside the rings: converts of staged tiles go, as do operands of products. */
static int64_t
scratch_bytes(const Pipeline *p)
{
	int64_t most = 0;

	for (const Op *op = p->body->first; op; op = op_after(op, p->body)) {
		int64_t n = plan_op(op, p->t).scratch;
		for (int i = 0; i < p->reads.n && op->kind == OP_CONVERT; i++)
			n = pipeline_comes_from(p, &p->reads.at[i], op->in[0]) ? 0 : n;
		for (int i = 0; i < 2 * p->reads.n && op->kind == OP_DOT && !*attr_mma(op); i++)
			if (pipeline_comes_from(p, &p->reads.at[i / 2], op->in[i % 2]))
				n -= tile_bytes(op->in[i % 2]->type);
		most = MAX(most, n);
	}
	return most;
}

/* The greatest tile that is written behind the loop: it leaves through shared memory. */
static int64_t
result_bytes(const Pipeline *p)
{
	int64_t most = 0;
	for (const Op *op = p->loop->next; op; op = op->next)
		if (op->kind == OP_WRITE)
			most = MAX(most, tile_bytes(op->in[access_data(op)]->type));
	return most;
}

/* Of tiles from outside of the loop that products of warpgroups read, and of computed ones: shared memory holds them as
 * long as it runs.  In roles those from outside are put for one program while another's results leave. */
static int64_t
fixed_bytes(const Pipeline *p)
{
	int64_t n = 0;
	bool puts = false;

	for (const Op *op = p->f->body->first; op; op = op_after(op, p->f->body))
		for (int i = 0; i < op->nout && puts_operand(p, op); i++) {
			bool is_read = warpgroup_reads(p->body, &op->out[i]);
			n += is_read ? tile_bytes(op->out[i].type) : 0;
			puts |= is_read && op->kind != OP_READ && !op_inside(op, p->body);
		}
	return n + (puts && p->f->schedule.specialize == 1 ? result_bytes(p) : 0);
}

/* As asked, else as many as leave room for two blocks, where two slots do and registers too, or as one block has room for;
 * more of a loop that waits for memory, until enough is under way. */
static int
choose_stages(const Pipeline *p)
{
	int64_t each = pipeline_stage_bytes(p, false), scratch = scratch_bytes(p) + fixed_bytes(p);
	int64_t decoded = decoded_bytes(p), room = p->t->shared_bytes_unit / 2 - SYSTEM_BYTES;
	int n = DEFAULT_STAGES, threads = MAX(p->f->schedule.warps, 1) * p->t->lanes;

	if (p->f->schedule.stages)
		return MIN(p->f->schedule.stages, MAX_STAGES);
	int64_t once = p->f->schedule.specialize == 1 ? pipeline_beside_bytes(p) : 0;
	while (n < MAX_STAGES && each > 0 && (n + 1) * each <= STREAM_BYTES && pipeline_is_stream(p))
		n++;
	each -= once;
	bool is_two = 2 * threads * thread_registers(p) <= p->t->registers && 2 * each + scratch <= room;
	if (!is_two || p->f->schedule.specialize == 1)
		room = p->t->shared_bytes;
	while (n > 2 && n * each + once + scratch + (n >= DECODED_AHEAD ? decoded : 0) > room)
		n--;
	return n * each + once + scratch <= p->t->shared_bytes ? n : 1;
}

static void
find_wanted(Pipeline *p)
{
	const Op *product = first_product(p);
	bool decodes = product && attr_register_a(product);
	bool is_parted = p->f->schedule.specialize == 1 && loop_multiplies(p->loop);

	for (int i = 0; i < p->reads.n; i++) {
		Staged *s = &p->reads.at[i];
		s->required = pipeline_required_layout(p, s);
		s->is_boxed = warpgroup_reads(p->body, &s->read->out[0]);
		s->is_turned = s->is_boxed && warpgroup_turns(p->body, &s->read->out[0]);
		s->is_beside = !s->is_boxed && (is_parted || decodes) && s->read->out[0].type->rank == 2;
		if (decodes)
			pipeline_align(p, s);
	}
}

static bool
fits_registers(const Pipeline *p)
{
	return thread_registers(p) + held_registers(p) <= p->t->max_registers;
}

/* What no asynchronous copy serves, as rows of an odd number of 16-bit elements, is held in registers, beside rings of what
 * one does.  Narrower ones stay: warpgroups read them along K alone, which threads that read by columns do not give. */
static Op *
hold_narrow(Pipeline p)
{
	int n = 0;

	p.is_async = false;
	pipeline_find_reads(&p);
	for (int i = 0; i < p.reads.n; i++)
		if (pipeline_access_bytes(p.reads.at[i].read) < COPY_LEAST &&
		    dtype_info[p.reads.at[i].read->out[0].type->elem].bits >= 16)
			p.reads.at[n++] = p.reads.at[i];
	p.reads.n = n;
	find_wanted(&p);
	if (n > 0 && fits_registers(&p))
		pipeline_double_buffer(&p, p.t->shared_bytes / 4);
	return p.loop;
}

static void
pipeline_loop(Module *m, const Target *t, Func *f, Op *loop)
{
	Pipeline p = {.m = m, .tmp = m->cx->tmp, .t = t, .f = f, .loop = loop, .body = loop->region[0]};

	p.is_async = (t->has & HAS_CP_ASYNC) && f->schedule.stages != 1;
	if (!loop_steps_up(loop))
		return;
	if (p.is_async && (t->has & HAS_WGMMA) && f->schedule.specialize != 1) {
		p.loop = hold_narrow(p);
		p.body = p.loop->region[0];
		if (p.loop != loop)
			axis_drop(m);
	}
	axis_keep(f);
	pipeline_find_reads(&p);
	pipeline_find_records(&p);
	find_wanted(&p);
	if (p.reads.n == 0)
		return;
	axis_drop(m);
	pipeline_find_bulk(&p);
	int stages = choose_stages(&p);
	bool is_symmetric = p.is_async && stages >= 2 && f->schedule.specialize == 1 && p.nasync == 0;
	if (!p.is_async || stages < 2 || (!is_symmetric && block_find(p.body, OP_WHILE)))
		pipeline_drop_records(&p);
	if (p.reads.n == 0 || (!is_symmetric && block_find(p.body, OP_WHILE)))
		return;
	if (is_symmetric)
		pipeline_symmetric(&p, stages);
	else if (p.is_async && stages >= 2) {
		build_pipeline(&p, stages);
		pipeline_read_ahead(&p);
	} else {
		pipeline_drop_bulk(&p);
		if (fits_registers(&p) &&
		    pipeline_stage_bytes(&p, false) + scratch_bytes(&p) <= t->shared_bytes)
			pipeline_double_buffer(&p, (t->shared_bytes - scratch_bytes(&p)) / 2);
	}
}

static void
walk(Module *m, const Target *t, Func *f, Block *b)
{
	for (EACH_OP_HERE(op, b)) {
		for (int r = 0; r < op->nregion; r++)
			walk(m, t, f, op->region[r]);
		bool is_replaced = op->nregion > 0 && !op->region[0]->last;     /* by one that carries a loop's slots */
		if (op->kind == OP_FOR && !is_replaced)
			pipeline_loop(m, t, f, op);
	}
}

static bool
copies_by_indices(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_COPY && (copy_windows(op) || strchr(attr_index(op), 'g')));
}

void
pass_pipeline(Func *f, const Target *t)
{
	if (!(t->has & HAS_PIPELINES))
		return;
	pipeline_collapse(f);
	pipeline_sink(f);
	pipeline_early(f);
	walk(f->module, t, f, f->body);
	axis_drop(f->module);
	pipeline_fixed(f, t);
	warpgroup_products(f->module, f, t);
	pipeline_decode_ahead(f->module, f);
	pipeline_run_all_past(f, t);
	pipeline_run_all_on(f);
	if (copies_by_indices(f))                       /* the tiles of indices of their reads are dead */
		sweep(f);
}

/* ---- the fact STAGED: copies are committed before the next wait, and waited for before their ring is read ---- */

/* The next op of that kind behind `op`, in its block or those around it within one loop, before any of kind `end`. */
static bool
has_after(const Op *op, OpKind kind, OpKind end)
{
	for (; op; op = op->home->parent && op->home->parent->kind == OP_IF ? op->home->parent : NULL)
		for (const Op *next = op->next; next; next = next->next)
			if (next->kind == kind || next->kind == end)
				return next->kind == kind;
	return false;
}

static bool
has_before(const Op *op, OpKind kind)
{
	for (; op; op = op->home->parent)
		for (const Op *prev = op->prev; prev; prev = prev->prev)
			if (prev->kind == kind)
				return true;
	return false;
}

/* Do asynchronous copies fill the buffer? */
static bool
is_copied_to(const Func *f, const Op *alloc)
{
	return ANY_OP(op, f->body, op_is_grouped_copy(op) && buffer_owner(op->in[access_data(op)]) == alloc);
}

/* Of a role another one may have waited for the copies, and arrived. */
static bool
has_landed(const Func *f, const Op *get)
{
	return has_before(get, OP_WAIT) || (f->module->facts & PARTED && has_before(get, OP_AWAIT));
}

/* Threads move a tile whole: where boxes fill a part of a slot, tensor maps alone write it and products alone read it. */
static bool
moves_past_slot(const Op *op)
{
	bool threads = op->kind == OP_PUT || op->kind == OP_GET || (op->kind == OP_COPY && !op_is_bulk_copy(op));
	const Op *owner = threads ? buffer_owner(op->in[op->kind == OP_COPY ? access_data(op) : 0]) : NULL;
	return owner && owner->kind == OP_ALLOC && attr_slot_bytes(owner) && !ring_moves_records(op, owner);
}

const char *
check_staged(Func *f, const Target *t, const Op **at)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		*at = op;
		if (op->kind == OP_SLOT && attr_wrapped(op) && !ring_holds(op->in[1], op->in[0]->type->slots))
			return "{wrapped} of a number that may not be one of the ring's slots";
		if (moves_past_slot(op))
			return "threads move a tile whole, of which the slot holds a part";
		if (op_is_grouped_copy(op) && !has_after(op, OP_COMMIT, OP_WAIT))
			return "an asynchronous copy that is not committed before the next wait";
		if (op->kind == OP_GET && is_copied_to(f, buffer_owner(op->in[0])) && !has_landed(f, op))
			return "a get of what asynchronous copies fill, without a wait before it";
	}
	return f->module->facts & PARTED ? NULL : check_rings(f, at);
}
