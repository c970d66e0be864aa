/* What stands before and behind a loop of products of warpgroups.
 *
 * What the ops behind it read is read before it, if a thread holds little of it: the loop hides how long memory takes.
 *
 *     for … do (…) { … dot … }                     %b = read %bias, %n {…} : bf16[256] #1
 *     %b = read %bias, %n {…} : bf16[256] #1  =>   for … do (…) { … dot … }
 *
 * That is a tensor of which the kernel writes nothing, and a tile of two registers a thread at most: a bias or scales of
 * rows or columns.  What its indices are computed from goes with it.
 *
 * What is computed before it and used only behind it is computed behind it: accumulators leave no registers to hold it
 * meanwhile.
 *
 *     %i = div %p, %w : i64[128] #1            for … do (…) { … dot … }
 *     for … do (…) { … dot … }           =>    %i = div %p, %w : i64[128] #1
 *     write %y, %i, …                          write %y, %i, …
 *
 * Tiles move, with what only they are computed from; scalars stay.
 *
 * In roles large tiles that are read behind it, as a residual, come through its ring: the producer fills slots with their
 * columns, as it does with operands, while the last products run.
 *
 *     for … { … }                                              %n, %h = for … (%now, %phase) { … }
 *     %r = read %x, %i, %j : bf16[128, 256] #2                 await %empty, %n, 1 - %h
 *                                                              expect %full, %n {bytes = 32768}
 *                                                              %s = slot %ring, %n : buffer<1 x bf16[128, 128]>
 *                                                      =>      copy %x, %i, %j, %s, %full, %n {kind = "bulk"}
 *                                                              await %full, %n, %h
 *                                                              %0 = get %s
 *                                                              arrive %empty, %n {by = "warp"}
 *                                                              … (the next slot, with the other 128 columns)
 *                                                              %r = cat %0, %1 {axis = 1} */
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <string.h>

enum { BYTES_MOST = 8, DEPTH = 8, WIDE_ELEMENTS = 4096 };       /* the first one of a thread */
enum { WARPGROUP = 4 };
enum {                                                          /* of tiles behind the loop */
	BEHIND_BYTES = 8192, ROW_BYTES = 64, PERIOD = 8,        /* bytes of a tile and its rows, rows, at least */
	SLOT_ALIGN = 1024, PARTS_MOST = 8,
	REGISTERS_LEFT = 32,                                    /* for all but what the loop gives and a part */
};

/* ---- read before ---- */

/* A value that is there before the loop, or could be computed there. */
static bool
may_be_early(const Op *loop, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || op->home != loop->home)
		return !value_inside(v, loop->home) || !op;
	if (op == loop || depth == 0)
		return false;
	bool is_before = false;
	for (const Op *at = loop->prev; at && !is_before; at = at->prev)
		is_before = at == op;
	for (int i = 0; i < op->nin && !is_before; i++)
		if (!may_be_early(loop, op->in[i], depth - 1))
			return false;
	return is_before || (op_has(op, PURE) && op->nregion == 0);
}

static bool
is_small_read(const Func *f, const Op *op)
{
	if (op->kind != OP_READ || !access_is_tensor(op) || op->out[0].type->rank == 0 || !op->out[0].layout ||
	    f->param[op->in[0]->index].access != ACCESS_IN || strchr(attr_index(op), 'g'))
		return false;
	return dtype_tile_size(op->out[0].type->elem) << op->out[0].layout->in[IN_REGISTER] <= BYTES_MOST;
}

/* Before the loop, behind what it needs. */
static void
move_early(Op *loop, Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		Op *def = op->in[i]->def;
		bool is_late = false;
		for (const Op *at = loop->next; at && def && !is_late; at = at->next)
			is_late = at == def;
		if (is_late)
			move_early(loop, def);
	}
	op_move(op, loop->home, loop);
}

static void
read_early(Func *f, Op *loop)
{
	for (Op *op = loop->next, *next; op; op = next) {
		bool moves = is_small_read(f, op);
		next = op->next;
		for (int i = 1; i < op->nin && moves; i++)
			moves = may_be_early(loop, op->in[i], DEPTH);
		if (moves)
			move_early(loop, op);
	}
}

void
pipeline_early(Func *f)
{
	if (block_find(f->body, OP_INLINE_PTX))
		return;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			read_early(f, op);
}

/* ---- computed behind ---- */

/* Uses of each value, by Value.id, in the block up to the loop's end. */
static int *
early_uses(const Func *f, const Op *loop)
{
	int *uses = NEW_ARRAY(f->module->cx->tmp, int, f->nvalues);
	const Block *home = loop->home;
	for (const Op *op = home->first; op != loop->next; op = op_after(op, home))
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]++;
	return uses;
}

static bool
is_sunk(const Op *op, const int *uses)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->out[0].nuses == 0)
		return false;
	return op->out[0].type->kind == TYPE_TILE && op->out[0].type->rank > 0 && uses[op->out[0].id] == 0;
}

/* The first op behind the loop in its block that has the value, or holds one that has. */
static Op *
first_user(const Value *v, Op *loop)
{
	const Block *home = loop->home;
	for (Op *op = loop->next; op; op = op->next)
		for (const Op *in = op; in != op->next; in = op_after(in, home))
			for (int i = 0; i < in->nin; i++)
				if (in->in[i] == v)
					return op;
	return loop->next;
}

static void
sink_behind(Func *f, Op *loop)
{
	func_number(f);
	int *uses = early_uses(f, loop);
	for (Op *op = loop->prev, *prev; op; op = prev) {
		prev = op->prev;
		if (!is_sunk(op, uses))
			continue;
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]--;
		op_move(op, loop->home, first_user(&op->out[0], loop));
	}
}

void
pipeline_sink(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			sink_behind(f, op);
}

/* ---- what threads read from slots ---- */

/* The first op of v's block that needs v, itself or in its regions. */
static Op *
first_need(const Value *v)
{
	Op *op = v->def->next;

	for (const Op *in = op; in; in = op_after(in, v->def->home)) {
		if (in->home == v->def->home)
			op = (Op *)in;
		for (int i = 0; i < in->nin; i++)
			if (in->in[i] == v)
				return op;
	}
	return NULL;
}

/* A get stands where its tile first meets another that the body makes, with the casts and the like in between. */
void
pipeline_sink_get(Op *get)
{
	Op *last = get, *at = first_need(&get->out[0]);

	while (at && at->nin == 1 && last->out[0].nuses == 1 && at->home == get->home && op_has(at, ELEM)) {
		last = at;
		at = first_need(&last->out[0]);
	}
	for (Op *op = get, *next; at && op != at; op = next) {
		next = op == last ? at : first_need(&op->out[0]);
		op_move(op, get->home, at);
	}
}

/* ---- what only a product's result is combined with ---- */

static bool
is_wide(const Value *v)
{
	return v->type->kind == TYPE_TILE && type_count(v->type) >= WIDE_ELEMENTS;
}

/* The first op behind the product's start that uses a result; NULL: something else uses it too. */
static Op *
first_use_behind(const Op *start, const Op *op)
{
	int uses = 0;
	Op *first = NULL;
	for (Op *p = start->next; p->kind != OP_YIELD; p = p->next)
		for (int i = 0; i < p->nin; i++)
			if (p->in[i] == &op->out[0]) {
				first = first ? first : p;
				uses++;
			}
	return uses == op->out[0].nuses ? first : NULL;
}

/* It has as many registers as the product and no wide operand that would live on for it. */
static bool
may_wait(const Block *body, const Op *op)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->nin == 0 || !is_wide(&op->out[0]))
		return false;
	for (int i = 0; i < op->nin; i++) {
		const Op *def = op->in[i]->def;
		if (is_wide(op->in[i]) && value_inside(op->in[i], body) && (!def || !op_has(def, PURE) || def->nregion))
			return false;
	}
	return true;
}

void
pipeline_sink_weights(Block *body, const Op *start)
{
	for (Op *op = start->prev, *prev; op; op = prev) {
		prev = op->prev;
		Op *use = may_wait(body, op) ? first_use_behind(start, op) : NULL;
		if (use)
			op_move(op, body, use);
	}
}

/* ---- tiles read behind the loop, through its ring ---- */

/* The buffer of the ring whose slots hold most; NULL: threads copy into the ring, or fill slots in part. */
static Value *
widest_buffer(const Pipeline *ring)
{
	Value *found = NULL;
	for (int i = 0; i < ring->reads.n; i++) {
		Value *buffer = ring->reads.at[i].ring;
		if (!ring->reads.at[i].is_bulk || !buffer)
			return NULL;
		if (!attr_slot_bytes(buffer->def) && tile_bytes(buffer->type) % SLOT_ALIGN == 0 &&
		    (!found || tile_bytes(buffer->type) > tile_bytes(found->type)))
			found = buffer;
	}
	return found;
}

static int64_t
registers_of(const Value *v)
{
	return MAX((INT64_C(1) << v->layout->in[IN_REGISTER]) * element_bytes(v->type) / 4, 1);
}

static int64_t
valid_of(const Op *op, int d)
{
	return attr_valid(op) ? attr_valid(op)->at[d] : access_tile(op)->type->extent[d];
}

/* A part beside what the loop gives, of which as much is valid as of the tile: of several parts, and several tiles, ptxas
 * computes with each as it comes. */
static bool
fits_beside(const Pipeline *p, const Op *read, int64_t parts)
{
	const int *regs = target_role_registers(p->t, p->f->schedule.warps / WARPGROUP);
	int64_t held = 0, part = registers_of(&read->out[0]) / parts;
	for (int i = 0; i < p->loop->nout; i++)
		held += p->loop->out[i].layout ? registers_of(&p->loop->out[i]) : 0;
	held = held * (valid_of(read, 0) * valid_of(read, 1)) / type_count(read->out[0].type);
	return regs && held + part + REGISTERS_LEFT <= regs[1];
}

/* How a tile comes: in n parts along a dimension, each of a type and a layout, so many of which are within what is valid;
 * side by side they have the layout `whole`. */
typedef struct Parts {
	int dim, n, used;
	const Type *type;
	const Layout *layout, *whole;
} Parts;

/* Parts that slots of so many bytes hold, of which each thread's registers are some of those that it has of the tile. */
static bool
divide(Pipeline *p, Op *read, int64_t bytes, int dim, Parts *out)
{
	Value *v = &read->out[0];
	int64_t extent[MAX_RANK] = {v->type->extent[0], v->type->extent[1]};
	int n = 1;
	while (extent[0] * extent[1] * element_bytes(v->type) > bytes && extent[dim] > 1) {
		extent[dim] /= 2;
		n *= 2;
	}
	int used = (int)((valid_of(read, dim) + extent[dim] - 1) / extent[dim]);
	*out = (Parts){dim, n, used, type_with_shape(p->m, v->type, 2, extent), v->layout, v->layout};
	if (used > PARTS_MOST || extent[0] < PERIOD || extent[1] * element_bytes(v->type) < ROW_BYTES)
		return false;
	if (n == 1)
		return true;
	if (!drain_in_registers(v->layout, dim, log2_ceil(extent[dim])))
		return false;
	Builder b = build_before(read->next);
	Value *part = drain_piece(&b, v, out->type, dim, 0);
	out->layout = part->layout;
	op_erase(part->def);
	Layout whole = layout_stack(out->layout, dim, log2_ceil(n));
	out->whole = layout_intern(p->m, &whole);
	return convert_scratch(&whole, v->layout, element_bytes(v->type)) == 0;
}

static bool
follows_from(const Value *v, const Op *op, int depth)
{
	if (!v->def || v->def == op || depth == 0)
		return v->def == op;
	for (int i = 0; i < v->def->nin && op_has(v->def, PURE); i++)
		if (v->type->rank && follows_from(v->def->in[i], op, depth - 1))
			return true;
	return false;
}

bool
pipeline_replaces(const Op *write, const Op *read)
{
	const Value *v = write->in[access_data(write)];
	bool same = write->kind == OP_WRITE && read->kind == OP_READ && read->home == write->home &&
	    strcmp(attr_index(write), attr_index(read)) == 0 && !attr_merged(read) && !attr_merged(write) &&
	    v->type->rank == read->out[0].type->rank;
	for (int d = 0; same && d < v->type->rank; d++)
		same = v->type->extent[d] == read->out[0].type->extent[d];
	for (int i = 0; same && i <= read->in[0]->type->rank; i++)
		same = write->in[i] == read->in[i];
	return same && follows_from(v, read, DEPTH);
}

/* Is one write all that there is of the read's tensor, which puts what follows from the tile in its place? */
static bool
is_replaced(const Func *f, const Op *read)
{
	bool does = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_access = op->nin > 0 && op->in[0] == read->in[0] && op->kind != OP_DIM && op->kind != OP_STRIDE;
		if (op->kind == OP_INLINE_PTX || (op_is_access(op) && !access_is_tensor(op)))
			return false;
		if (op == read || !is_access)
			continue;
		if (does || !pipeline_replaces(op, read))
			return false;
		does = true;
	}
	return does;
}

/* Of a tile that has the read's valid part, or less. */
static bool
writes_as_much(const Op *write, const Op *read)
{
	bool is_plain = write->kind == OP_WRITE && access_tile(write)->type->rank == 2 && !strchr(attr_index(write), 'g');
	return is_plain && valid_of(write, 0) <= valid_of(read, 0) && valid_of(write, 1) <= valid_of(read, 1);
}

/* Is what follows from the read only written, element by element, but for what is not valid? */
static bool
is_written_alone(Func *f, const Op *read)
{
	func_number(f);
	bool *follows = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues);
	follows[read->out[0].id] = true;
	for (const Op *op = read->next; op; op = op_after(op, read->home)) {
		bool takes = false;
		for (int i = 0; i < op->nin; i++)
			takes |= follows[op->in[i]->id];
		if (!takes || writes_as_much(op, read))
			continue;
		if (!op_has(op, ELEM) && op->kind != OP_CONVERT)
			return false;
		for (int i = 0; i < op->nout; i++)
			follows[op->out[i].id] = true;
	}
	return true;
}

/* A large tile that a tensor map may bring at any time, from where the producer's thread can say. */
static bool
comes_behind(const Pipeline *p, Op *op)
{
	const Pipeline whole = {.f = p->f, .body = p->f->body};
	if (op->kind != OP_READ || !access_is_tensor(op) || op->out[0].type->rank != 2 || !op->out[0].layout ||
	    tile_bytes(op->out[0].type) < BEHIND_BYTES)
		return false;
	if (attr_valid(op) && is_written_alone(p->f, op))
		attr_set_undef(p->m, op, true);
	if (access_map_reason(op, p->t) || !roles_can_copy(p->f, p->t, p->loop, op))
		return false;
	return !pipeline_may_be_written(&whole, op->in[0]) || (!attr_valid(op) && is_replaced(p->f, op));
}

/* As the read has it, of part i. */
static Op *
read_part(Pipeline *p, Builder *b, const Op *read, const Parts *parts, int64_t i)
{
	int rank = read->in[0]->type->rank, at[KERNEL_RANK];
	Value *in[1 + KERNEL_RANK];
	memcpy(in, read->in, sizeof(Value *) * (size_t)(1 + rank));
	access_dims(read, at);
	for (int d = 0; d < rank && i; d++)
		if (attr_index(read)[d] == 'p' && at[d] == parts->dim)
			in[1 + d] = build2(b, OP_ADD, in[1 + d], build_index(b, i * parts->type->extent[parts->dim]));
	int n = 2;
	Attr attr[3] = {attr_new_index(p->m, attr_index(read)), attr_new_extents(p->m, parts->type->extent, 2)};
	if (attr_merged(read))
		attr[n++] = *op_attr(read, ATTR_MERGED);
	Op *op = op_make(b, OP_READ, in, 1 + rank, attr, n, NULL, 0);
	op->out[0].layout = parts->layout;
	return op;
}

/* One turn of the ring: filled, read into registers, given back. */
static Value *
take_turn(Pipeline *ring, Builder *b, Op *read, Value *buffer, Value **now)
{
	const Type *t = read->out[0].type, *slot_type = type_buffer(ring->m, t->elem, 1, t->rank, t->extent);
	const Attr attr[] = {attr_new_bytes(ring->m, tile_bytes(t)), attr_new_wrapped(ring->m, true)};
	const Staged s = {.read = read, .is_bulk = true};
	pipeline_await(b, ring->empty, now[0], build2(b, OP_SUB, build_index(b, 1), now[1]));
	op_make(b, OP_EXPECT, (Value *[]){ring->full, now[0]}, 2, attr, 1, NULL, 0);
	Op *slot = op_make(b, OP_SLOT, (Value *[]){buffer, now[0]}, 2, attr + 1, 1, &slot_type, 1);
	slot->out[0].layout = warpgroup_layout(ring->m, t, 1);
	pipeline_access(ring, b, &s, OP_COPY, &slot->out[0], NULL);
	pipeline_await(b, ring->full, now[0], now[1]);
	Op *get = op_make(b, OP_GET, (Value *[]){&slot->out[0]}, 1, NULL, 0, NULL, 0);
	get->out[0].layout = read->out[0].layout;
	pipeline_release(ring, b, now[0]);
	now[0] = pipeline_next(b, now[0], buffer->type->slots);
	now[1] = pipeline_next_phase(b, now[1], now[0]);
	return &get->out[0];
}

static void
bring(Pipeline *ring, Op *read, const Parts *parts, Value *buffer, Value **now)
{
	Value *v = &read->out[0], **part = NEW_ARRAY(ring->tmp, Value *, parts->n);
	Builder b = build_before(read);
	for (int i = 0; i < parts->used; i++) {
		Op *of = read_part(ring, &b, read, parts, i);
		part[i] = take_turn(ring, &b, of, buffer, now);
		op_erase(of);
	}
	for (int i = parts->used; i < parts->n; i++) {
		part[i] = build_int(&b, parts->type, 0);
		part[i]->layout = parts->layout;
	}
	Attr axis = attr_new_axis(ring->m, parts->dim);
	Value *all = parts->n > 1 ? op_make(&b, OP_CAT, part, parts->n, &axis, 1, NULL, 0)->out : part[0];
	all->layout = parts->whole;
	if (parts->whole != v->layout)
		all = op_make(&b, OP_CONVERT, &all, 1, NULL, 0, &v->type, 1)->out;
	all->layout = v->layout;
	all->name = v->name;
	value_replace(v, all);
	op_erase(read);
}

void
pipeline_behind(Pipeline *p, const Pipeline *ring, Value **now)
{
	Pipeline of = *ring;
	Value *buffer = widest_buffer(ring);
	Parts parts;
	for (Op *op = p->loop->next, *next; op && buffer; op = next) {
		next = op->next;
		if (!comes_behind(p, op))
			continue;
		int64_t bytes = tile_bytes(buffer->type);
		bool fits = fits_beside(p, op, (tile_bytes(op->out[0].type) + bytes - 1) / bytes);
		if (fits && (divide(p, op, bytes, 1, &parts) || divide(p, op, bytes, 0, &parts)))
			bring(&of, op, &parts, buffer, now);
	}
}
