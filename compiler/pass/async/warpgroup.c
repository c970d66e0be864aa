/* Products of warpgroups read their operands from shared memory and run by themselves.
 *
 *     wait {left = 1}                                     wait {left = 1}
 *     %a = get %s : bf16[128, 64] #0                      proxy_fence
 *     %b = get %r : bf16[256, 64] #1
 *     %t = permute %b {dims = [1, 0]}                =>
 *     %e = dot %a, %t, %c {mma = "wgmma…"}                %d = dot_start %s, %r, %c {mma = "wgmma…", transposed = [0, 1]}
 *     …                                                   …
 *                                                         %e = dot_wait %d {left = 0}
 *     yield %e                                            yield %e
 *
 * A computed left operand stays in registers ({register_a}).  An operand that a slot of shared memory holds is read there.
 * Another is put into a buffer of its own behind where it is computed.  What threads, or their copies by
 * cp_async, wrote is fenced for the instruction, which reads through the asynchronous proxy. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

enum { ROW_BYTES = 128, ROW_BYTES_LEAST = 32 };

static bool
is_product(const Op *op)
{
	return op->kind == OP_DOT && wgmma_named(attr_mma(op));
}

static bool
reads_in(const Op *op, const Value *v)
{
	bool flipped;
	for (int i = is_product(op) && attr_register_a(op); i < 2 && is_product(op); i++)
		if (dot_operand_root(op->in[i], &flipped) == v)
			return true;
	return false;
}

bool
warpgroup_reads(const Block *b, const Value *v)
{
	return ANY_OP(op, b, reads_in(op, v));
}

bool
warpgroup_turns(const Block *b, const Value *v)
{
	if (v->type->rank != 2 || dtype_tile_size(v->type->elem) == 2 || !v->layout)
		return false;
	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = is_product(op) && attr_register_a(op); i < 2 && is_product(op); i++) {
			bool flipped, is = dot_operand_root(op->in[i], &flipped) == v;
			int k_dim = (i == 0) != flipped ? 1 : 0;
			if (is && pipeline_fast_dim(v->layout, k_dim) != k_dim)
				return true;
		}
	return false;
}

/* Has `read`, or v that it is transposed, uses other than by products of warpgroups in the block? */
static bool
has_others(const Value *read, const Value *v, const Block *b)
{
	int uses = 0;

	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++) {
			if (op->in[i] != v)
				continue;
			uses++;
			if (op->kind == OP_PERMUTE ? has_others(read, &op->out[0], b) : !reads_in(op, read))
				return true;
		}
	return uses != v->nuses;
}

bool
warpgroup_shares(const Block *b, const Value *read)
{
	return has_others(read, read, b);
}

/* The product that alone adds to what this one gives, in the same registers; NULL: there is none. */
static Op *
next_of_sum(const Op *dot)
{
	return FIND_NEXT(o, dot->out[0].nuses == 1 ? dot->next : NULL, o->next,
	    o->kind == OP_DOT && o->in[2] == &dot->out[0]);
}

/* Does the dot read v, or another one of a sum of products to which it belongs? */
static bool
sum_reads(const Block *body, const Op *dot, const Value *v)
{
	for (const Op *op = body->first; op; op = op->next) {
		bool reads = false, is_here = false;
		for (const Op *p = op->kind == OP_DOT ? op : NULL; p; p = next_of_sum(p)) {
			reads |= reads_in(p, v);
			is_here |= p == dot;
		}
		if (reads && is_here)
			return true;
	}
	return false;
}

bool
warpgroup_multiplies(const Block *body, const Op *op, const Value *v)
{
	return (op->kind == OP_DOT && (!v || sum_reads(body, op, v))) ||
	    ANY_OF(r, op->nregion, v ? warpgroup_reads(op->region[r], v) : block_find(op->region[r], OP_DOT) != NULL);
}

const Layout *
warpgroup_layout(Module *m, const Type *tile, int fast)
{
	int shape[LAYOUT_RANK] = {0}, order[LAYOUT_RANK] = {fast, 1 - fast}, bytes = dtype_tile_size(tile->elem);
	layout_shape(2, tile->extent, shape);
	Layout l = layout_boxed(2, shape, order, (int)MIN(tile->extent[fast] * bytes, ROW_BYTES), bytes);
	return layout_intern(m, &l);
}

/* Behind `at`, unless there is one. */
static void
fence_after(Module *m, Op *at)
{
	Builder b = {.m = m, .block = at->home, .before = at->next, .place = at->place};
	if (!at->next || at->next->kind != OP_PROXY_FENCE)
		op_make(&b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
}

/* Waits that are for the loop's next iteration. */
static void
fence_next(Module *m, Op *op)
{
	for (; op; op = op->next)
		if (op->kind == OP_WAIT)
			fence_after(m, op);
}

/* Is it waited for there what threads copied into the buffer? */
static bool
awaits_copies(const Func *f, const Op *await, const Op *buffer)
{
	for (const Op *op = f->body->first; op && await->kind == OP_AWAIT; op = op_after(op, f->body)) {
		int at = op->kind == OP_COPY ? access_data(op) : 0;
		if (op_is_counted_copy(op) && op->in[at + 1] == await->in[0] && buffer_owner(op->in[at]) == buffer)
			return true;
	}
	return false;
}

/* Fences what filled the slot before the product, in its block or those around it, or in the iteration before; bulk copies
 * need no fence. */
static void
fence_slot(Module *m, Func *f, const Value *slot, Op *product)
{
	const Op *buffer = buffer_owner(slot);
	Op *in = product;
	if (ANY_OP(op, f->body, op_is_bulk_copy(op) && buffer_owner(op->in[access_data(op)]) == buffer))
		return;
	for (Op *op = product; op; op = op->prev ? op->prev : op->home->parent) {
		if (op->home != in->home) {
			if (op->kind == OP_FOR)
				fence_next(m, in->next);
			in = op;
		}
		if (op->kind == OP_WAIT || awaits_copies(f, op, buffer) ||
		    (op->kind == OP_PUT && buffer_owner(op->in[0]) == buffer)) {
			fence_after(m, op);
			return;
		}
	}
}

/* The dimension along which a tile's registers have neighbours; K of those that must lie along it. */
static int
put_along(const Value *v, int k_dim)
{
	int fast = pipeline_fast_dim(v->layout, k_dim);
	return dtype_tile_size(v->type->elem) == 2 && v->type->extent[fast] * 2 >= ROW_BYTES_LEAST ? fast : k_dim;
}

/* The slot of a ring of two from which the body computes v; NULL: from none. */
static const Op *
source_slot(const Value *v, const Block *body, int depth)
{
	const Op *op = v->def, *found = NULL;
	if (!op || op->home != body || depth == 0)
		return NULL;
	if (op->kind == OP_GET)
		return op->in[0]->def->kind == OP_SLOT && op->in[0]->def->in[0]->type->slots == 2 ? op->in[0]->def : NULL;
	for (int i = 0; i < op->nin && !found; i++)
		found = op_has(op, PURE) ? source_slot(op->in[i], body, depth - 1) : NULL;
	return found;
}

/* In roles threads put a first product's operand into two slots in turn, where there is room: what they put for the next
 * iteration does not wait until all warps have multiplied this one's. */
static const Op *
put_in_turn(const Func *f, const Target *t, const Op *product, const Value *v)
{
	enum { DEPTH = 12, MBARRIERS = 2048 };
	int64_t bytes = MBARRIERS;
	const Op *loop = product->home->parent, *last = product;
	for (const Op *next = last; next; next = next_of_sum(last))
		last = next;
	if (f->schedule.specialize != 1 || !loop || loop->kind != OP_FOR || v->block != product->home ||
	    !dot_next(f, &last->out[0]))
		return NULL;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bytes += op->kind == OP_ALLOC ? op->out[0].type->slots * tile_bytes(op->out[0].type) : 0;
		bytes += drain_bytes((Func *)f, t, op);
		for (int i = 0; i < 2 && is_product(op); i++) {
			bool flipped;
			const Value *other = dot_operand_root(op->in[i], &flipped);
			bool is_put = (i > 0 || !attr_register_a(op)) && (!other->def || other->def->kind != OP_GET);
			is_put &= op != product || i > 0 || other == v;         /* else there is a buffer by now */
			bytes += is_put ? (1 + (other->block == product->home)) * tile_bytes(other->type) : 0;
		}
	}
	return bytes <= t->shared_bytes ? source_slot(v, product->home, DEPTH) : NULL;
}

/* Does the block run once a program? */
static bool
runs_once(const Func *f, const Block *b)
{
	return b == f->body || (b->parent->kind == OP_FOR && block_find(b, OP_PROGRAM_AT) && b->parent->home == f->body);
}

/* The op before which v is put into its buffer: the one behind its definition.  In a block that runs once a program, what
 * is ready before a product starts is put there all at once: a store makes threads wait for what is read before it, and
 * reads behind it would begin only then. */
static Op *
place_of_put(const Func *f, const Value *v, const Op *product)
{
	Op *at = v->def ? v->def->next : v->block->first;
	if (v->block != product->home || !runs_once(f, v->block))
		return at;
	while (at != product && !at->nregion && at->kind != OP_DOT && at->kind != OP_DOT_START)
		at = at->next;
	return at->prev && at->prev->kind == OP_PROXY_FENCE ? at->prev : at;
}

/* Do elements of other than 16 bits have neighbours in the get's slot along the other dimension than K? */
static bool
is_across(const Op *get, int k_dim)
{
	const Value *slot = get->in[0];
	return dtype_tile_size(slot->type->elem) != 2 && pipeline_fast_dim(slot->layout, k_dim) != k_dim;
}

/* Of such, the tile as threads put it along K; else v. */
static Value *
turned(Module *m, const Func *f, Value *v, int k_dim)
{
	Layout got, put;
	Op *get = v->def;
	int bytes = dtype_tile_size(v->type->elem), warps = log2_ceil(f->schedule.warps);
	if (!get || get->kind != OP_GET || !is_across(get, k_dim) ||
	    !layout_turns(v->layout->out, bytes, 1 - k_dim, warps, &got, &put))
		return v;
	Builder b = build_before(get->next);
	Op *own = op_make(&b, OP_GET, get->in, 1, NULL, 0, NULL, 0);
	own->out[0].layout = layout_intern(m, &got);
	if (layout_equal(&got, &put))
		return &own->out[0];
	return value_with_layout(build1(&b, OP_CONVERT, &own->out[0], v->type), layout_intern(m, &put));
}

/* A buffer with what v is; of as many slots as that of `turn`, NULL: one. */
static Value *
put_operand(Module *m, Func *f, Value *v, int k_dim, const Op *turn, const Op *product)
{
	v = turned(m, f, v, k_dim);
	Op *at = place_of_put(f, v, product);
	Builder b = {.m = m, .block = v->block, .before = at, .place = at->place};
	Builder start = {.m = m, .block = f->body, .before = f->body->first, .place = at->place};
	const Type *t = v->type;
	int slots = turn ? turn->in[0]->type->slots : 1;
	Value *buffer = build0(&start, OP_ALLOC, type_buffer(m, t->elem, slots, 2, t->extent));
	buffer->layout = warpgroup_layout(m, t, put_along(v, k_dim));
	if (turn)
		buffer = build_slot(&b, buffer, turn->in[1]);
	fence_after(m, op_make(&b, OP_PUT, (Value *[]){buffer, v}, 2, NULL, 0, NULL, 0));
	return buffer;
}

/* The arrival that gives a slot back between a get of it and the product; NULL: there is none. */
static Op *
early_arrival(const Op *get, const Op *product)
{
	const Op *slot = get->in[0]->def;
	for (Op *op = get->next; op && op != product; op = op->next) {
		for (int r = 0; r < op->nregion; r++)
			if (op_inside(product, op->region[r]))
				return NULL;
		if (op->kind == OP_ARRIVE && slot->kind == OP_SLOT && op->in[1] == slot->in[1])
			return op;
	}
	return NULL;
}

/* Does the product read the slot in place?  It is given back behind the product then, unless other slots are waited for in
 * between. */
static bool
stays_in_slot(const Op *get, Op *product)
{
	for (Op *arrival; (arrival = early_arrival(get, product)) != NULL;) {    /* of any ring with slots of that number */
		for (const Op *op = arrival; op != product; op = op->next)
			if (!op->next || op->kind == OP_AWAIT || op->nregion)
				return false;
		op_move(arrival, product->home, product->next);
	}
	return true;
}

/* Operand i of a product as a slot. */
static Value *
slot_of(Module *m, Func *f, const Target *t, Op *product, int i, bool *flipped)
{
	Value *v = dot_operand_root(product->in[i], flipped);
	int k_dim = (i == 0) != *flipped ? 1 : 0;
	if (!v->def || v->def->kind != OP_GET || is_across(v->def, k_dim) || !stays_in_slot(v->def, product))
		return put_operand(m, f, v, k_dim, put_in_turn(f, t, product, v), product);
	Value *slot = v->def->in[0];
	fence_slot(m, f, slot, product);
	return slot;
}

static void
erase_unused(Value *v)
{
	Op *op = v->def;
	if (!op || v->nuses || (op->kind != OP_PERMUTE && op->kind != OP_GET))
		return;
	Value *from = op->kind == OP_PERMUTE ? op->in[0] : NULL;
	op_erase(op);
	if (from)
		erase_unused(from);
}

/* Is it `from`, or that permuted? */
static bool
is_permuted(const Value *v, const Value *from)
{
	while (v != from && v->def && v->def->kind == OP_PERMUTE)
		v = v->def->in[0];
	return v == from;
}

/* The op before which the value must be there: its first use in its block, or what holds that; or another product, under a
 * condition, whose wait would be the last to hold the registers that this one reads. */
static Op *
first_use(const Value *v, Block *b)
{
	for (Op *op = v->def->next; op; op = op->next) {
		if (op->kind == OP_ARRIVE)              /* frees what the product reads */
			return op;
		for (int r = 0; r < op->nregion && attr_register_a(v->def); r++)
			if (block_find(op->region[r], OP_DOT))
				return op;
		if (op_uses(op, v) || ANY_OF(r, op->nregion, value_uses_in(v, op->region[r]) > 0))
			return op;
	}
	return b->last;
}

/* The sum that a product adds to.  Of another product's result, which nothing else uses, it goes on in the same registers:
 * one wait is for both. */
static Value *
sum_of(Op *dot)
{
	Value *sum = dot->in[2];
	Op *wait = sum->def;

	if (!wait || wait->kind != OP_DOT_WAIT || wait->home != dot->home || sum->nuses > 1 || wgmma_adds_apart(dot))
		return sum;
	for (const Op *op = wait; op != dot; op = op->next)
		if (op->kind == OP_ARRIVE || op->nregion)
			return sum;
	sum = wait->in[0];
	op_set_in(dot, 2, sum);
	op_erase(wait);
	return sum;
}

/* A slot that does not lie as the instruction reads it is put into a buffer that does. */
static void
take_apart(Module *m, Func *f, const Op *dot, Op *start)
{
	WgmmaPlan plan;
	for (int i = 0; i < 2 && !plan_wgmma(start, &plan); i++) {
		bool flipped;
		Value *v = dot_operand_root(dot->in[i], &flipped);
		if (start->in[i]->type->kind == TYPE_BUFFER && v->def && v->def->kind == OP_GET)
			op_set_in(start, i, put_operand(m, f, v, (i == 0) != flipped ? 1 : 0, NULL, start));
	}
}

static void
start_product(Module *m, Func *f, const Target *t, Op *dot)
{
	bool flipped[2];
	Value *in[3] = {dot->in[0], NULL, sum_of(dot)};
	flipped[0] = false;
	if (!attr_register_a(dot))
		in[0] = slot_of(m, f, t, dot, 0, &flipped[0]);
	in[1] = slot_of(m, f, t, dot, 1, &flipped[1]);
	Builder b = build_before(dot);
	int nattr = 1;
	Attr attr[5] = {attr_new_mma(m, attr_mma(dot))};
	if (flipped[0] || flipped[1])
		attr[nattr++] = attr_new_transposed(m, (int64_t[]){flipped[0], flipped[1]}, 2);
	if (op_attr(dot, ATTR_PRECISION))
		attr[nattr++] = *op_attr(dot, ATTR_PRECISION);
	if (op_attr(dot, ATTR_M_BITS))
		attr[nattr++] = *op_attr(dot, ATTR_M_BITS);
	if (attr_depth(dot))
		attr[nattr++] = attr_new_depth(m, attr_depth(dot));
	Op *start = op_make(&b, OP_DOT_START, in, 3, attr, nattr, NULL, 0);
	start->out[0].layout = dot->out[0].layout;
	take_apart(m, f, dot, start);
	b.before = first_use(&dot->out[0], dot->home);
	Attr left = attr_new_left(m, 0);
	Op *wait = op_make(&b, OP_DOT_WAIT, (Value *[]){&start->out[0]}, 1, &left, 1, NULL, 0);
	wait->out[0].layout = dot->out[0].layout;
	wait->out[0].name = dot->out[0].name;
	value_replace(&dot->out[0], &wait->out[0]);
	Value *were[2] = {dot->in[0], dot->in[1]};
	bool goes_with = is_permuted(were[0], were[1]);         /* the first, which then goes with it */
	op_erase(dot);
	erase_unused(were[0]);
	if (!goes_with)
		erase_unused(were[1]);
}

/* Products are over in the order in which they start: those that start between this one and the wait may run on. */
static void
leave_later(Module *m, Op *wait)
{
	int64_t left = 0;
	for (const Op *op = wait->prev; op && op != wait->in[0]->def; op = op->prev) {
		if (op->nregion)
			return;
		left += op->kind == OP_DOT_START;
	}
	attr_set_left(m, wait, left);
}

void
warpgroup_leave(Module *m, Block *b)
{
	for (Op *op = b->first; op; op = op->next)
		if (op->kind == OP_DOT_WAIT && op->in[0]->def && op->in[0]->def->home == b)
			leave_later(m, op);
}

void
warpgroup_products(Module *m, Func *f, const Target *t)
{
	for (EACH_OP(op, f->body))
		if (is_product(op))
			start_product(m, f, t, op);
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_DOT_WAIT && op->in[0]->def && op->in[0]->def->home == op->home)
			leave_later(m, op);
}
