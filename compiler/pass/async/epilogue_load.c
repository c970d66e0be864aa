/* Large tiles that are read behind a product's loop, as a residual, come through its ring in roles: the producer fills
 * slots with parts of them, columns or rows, as it does with operands, while the last products run.
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
#include "ir/derive.h"
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <string.h>

enum {                                                          /* of tiles behind the loop */
	EPILOGUE_BYTES = 8192, ROW_BYTES = 64, PERIOD = 8,        /* bytes of a tile and its rows, rows, at least */
	SLOT_ALIGN = 1024, PARTS_MOST = 8,
	REGISTERS_LEFT = 32,                                    /* for all but what the loop gives and a part */
	REGISTERS_BESIDE = 24,                                  /* and a whole tile, and vectors: with fewer ptxas spills */
	DEPTH = 8,                                              /* of what is computed from a tile */
	BUFFERS_MOST = 2,                                       /* whose slots hold a part each: both operands' */
};

/* Buffers of the ring whose slots hold most, each as much; none: threads copy into the ring, or fill slots in part. */
typedef struct Widest {
	Value *buffer[BUFFERS_MOST];
	int n;
} Widest;

static Widest
widest_buffers(const Pipeline *ring)
{
	Widest w = {.n = 0};
	for (int i = 0; i < ring->reads.n; i++) {
		Value *buffer = ring->reads.at[i].ring;
		if (!ring->reads.at[i].is_bulk || !buffer)
			return (Widest){.n = 0};
		if (attr_slot_bytes(buffer->def) || tile_bytes(buffer->type) % SLOT_ALIGN)
			continue;
		int64_t more = w.n ? tile_bytes(buffer->type) - tile_bytes(w.buffer[0]->type) : 1;
		w.n = more > 0 ? 0 : w.n;
		if (more >= 0 && w.n < BUFFERS_MOST)
			w.buffer[w.n++] = buffer;
	}
	return w;
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

/* How a tile comes: in n parts along a dimension, each of a type and a layout, so many of which are within what is valid;
 * side by side they have the layout `whole`. */
typedef struct Parts {
	int dim, n, used;
	const Type *type;
	const Layout *layout, *whole;
} Parts;

/* Parts that slots of so many bytes hold, of which each thread's registers are some of those that it has of the tile.
 * Where the program replaces what it has read, none goes beyond what is valid: that is another program's. */
static bool
divide(Pipeline *p, Op *read, int64_t bytes, int dim, Parts *out)
{
	Value *v = &read->out[0];
	int64_t extent[MAX_RANK] = {v->type->extent[0], v->type->extent[1]}, valid = valid_of(read, dim);
	bool is_exact = tensor_may_be_written(p->f, read->in[0], p->f->body);
	int n = 1;
	if (is_exact && valid_of(read, 1 - dim) < extent[1 - dim])
		return false;
	while (extent[0] * extent[1] * element_bytes(v->type) > bytes || (is_exact && valid % extent[dim])) {
		if (extent[dim] == 1)
			return false;
		extent[dim] /= 2;
		n *= 2;
	}
	int used = (int)((valid + extent[dim] - 1) / extent[dim]);
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
	return op_has(v->def, PURE) &&
	    ANY_OF(i, v->def->nin, v->type->rank && follows_from(v->def->in[i], op, depth - 1));
}

bool
pipeline_replaces(const Op *write, const Op *read)
{
	const Value *v = write->in[access_data(write)];
	bool same = write->kind == OP_WRITE && read->kind == OP_READ && read->home == write->home &&
	    strcmp(attr_index(write), attr_index(read)) == 0 && !attr_merged(read) && !attr_merged(write) &&
	    v->type->rank == read->out[0].type->rank;
	same = same && ALL_OF(d, v->type->rank, v->type->extent[d] == read->out[0].type->extent[d]);
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

/* Is there an op of such a kind that takes what follows from the read? */
static bool
leads_to(Func *f, const Op *read, bool (*what)(const Op *op, const Op *read))
{
	func_number(f);
	bool *follows = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues);
	follows[read->out[0].id] = true;
	for (const Op *op = read->next; op; op = op_after(op, read->home)) {
		bool takes = op_uses_slice(op, follows);
		if (takes && what(op, read))
			return true;
		op_extend_slice(op, follows, takes);
	}
	return false;
}

/* Neither element by element, nor a write of no more than is valid. */
static bool
sees_padding(const Op *op, const Op *read)
{
	return !writes_as_much(op, read) && !op_has(op, ELEM) && op->kind != OP_CONVERT;
}

/* More than a few instructions an element, as a sigmoid: then threads hold all of the tile.  4096 x 11008 x 4096 gated so
 * in 128 x 256 took 587 us where threads read it behind the loop, 671 by the ring (H200). */
static bool
takes_long(const Op *op, const Op *read)
{
	OpCost cost = op_info[op->kind].cost;
	(void)read;
	return cost == COST_SFU || cost == COST_DIVIDE || cost == COST_LONG;
}

/* A part beside what the loop gives, of which as much is valid as of the tile: of several parts, and several tiles, ptxas
 * computes with each as it comes, if that is soon done. */
static bool
fits_beside(const Pipeline *p, const Op *read, int64_t parts)
{
	const int *regs = target_role_registers(p->t, pingpong_warpgroups(p->f));
	int64_t held = 0, part = registers_of(&read->out[0]) / parts;
	if (leads_to(p->f, read, takes_long))
		part = INT64_C(1) << read->out[0].layout->in[IN_REGISTER];
	for (int i = 0; i < p->loop->nout; i++)
		held += p->loop->out[i].layout ? registers_of(&p->loop->out[i]) : 0;
	held = held * (valid_of(read, 0) * valid_of(read, 1)) / type_count(read->out[0].type);
	return regs && held + part + REGISTERS_LEFT <= regs[1];
}

/* A large tile that a tensor map may bring at any time, from where the producer's thread can say. */
static bool
is_epilogue_load(const Pipeline *p, Op *op)
{
	if (op->kind != OP_READ || !access_is_tensor(op) || op->out[0].type->rank != 2 || !op->out[0].layout ||
	    tile_bytes(op->out[0].type) < EPILOGUE_BYTES)
		return false;
	if (attr_valid(op) && !leads_to(p->f, op, sees_padding))
		attr_set_undef(p->m, op, true);
	if (access_map_reason(op, p->t))
		return false;
	return !tensor_may_be_written(p->f, op->in[0], p->f->body) || is_replaced(p->f, op);
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

/* Slots with one number, and that number. */
typedef struct Turn {
	Value *slot[BUFFERS_MOST], *now;
	int n;
} Turn;

/* n parts from part `first` on, filled and waited for. */
static Turn
fill_slots(Pipeline *ring, Builder *b, Op *read, const Parts *parts, int first, const Widest *w, Value **now)
{
	const Type *t = parts->type, *slot_type = type_buffer(ring->m, t->elem, 1, t->rank, t->extent);
	Turn turn = {.now = now[0], .n = MIN(w->n, parts->used - first)};
	const Attr attr[] = {attr_new_bytes(ring->m, turn.n * tile_bytes(t)), attr_new_wrapped(ring->m, true)};
	pipeline_await(b, ring->empty, now[0], build2(b, OP_SUB, build_index(b, 1), now[1]));
	op_make(b, OP_EXPECT, (Value *[]){ring->full, now[0]}, 2, attr, 1, NULL, 0);
	for (int i = 0; i < turn.n; i++) {
		Op *of = read_part(ring, b, read, parts, first + i);
		const Staged s = {.read = of, .is_bulk = true};
		turn.slot[i] = op_make(b, OP_SLOT, (Value *[]){w->buffer[i], now[0]}, 2, attr + 1, 1, &slot_type, 1)->out;
		turn.slot[i]->layout = warpgroup_layout(ring->m, t, 1);
		pipeline_access(ring, b, &s, OP_COPY, turn.slot[i], NULL);
		op_erase(of);
	}
	pipeline_await(b, ring->full, now[0], now[1]);
	now[0] = pipeline_next(b, now[0], w->buffer[0]->type->slots);
	now[1] = pipeline_next_phase(b, now[1], now[0]);
	return turn;
}

/* Read into registers, and given back. */
static void
read_slots(Pipeline *ring, Builder *b, const Turn *turn, const Layout *l, Value **part)
{
	for (int i = 0; i < turn->n; i++) {
		Op *get = op_make(b, OP_GET, (Value *[]){turn->slot[i]}, 1, NULL, 0, NULL, 0);
		get->out[0].layout = l;
		part[i] = &get->out[0];
	}
	pipeline_release(ring, b, turn->now);
}

static bool
computes(const Op *op, const bool *values)
{
	return ANY_OF(i, op->nout, values[op->out[i].id]);
}

/* The values from which the tile's position is computed, if those behind the loop may stand before it; else NULL. */
static const bool *
position_of(Pipeline *p, const Op *read, const Op *loop)
{
	func_number(p->f);
	bool *values = NEW_ARRAY(p->tmp, bool, p->f->nvalues);
	for (const Op *op = read; op != loop; op = op->prev) {
		if (op != read && !computes(op, values))
			continue;
		bool is_scalar = ALL_OF(i, op->nout, op->out[i].type->kind == TYPE_TILE && op->out[i].type->rank == 0);
		if (op != read && (!op_has(op, PURE) || op->nregion || !is_scalar))
			return NULL;
		for (int i = 0; i < op->nin; i++)
			values[op->in[i]->id] = true;
	}
	return computes(loop, values) ? NULL : values;
}

/* Where tiles are waited for right behind the loop: after which op, and in how many slots.  NULL: one tile is waited for
 * later, and those behind it in the ring are too. */
typedef struct Behind {
	Op *loop, *after;
	int64_t slots;
	bool at_once;                                   /* the one tile there is is read there, too */
} Behind;

/* May all parts be waited for there?  Groups that take programs in turn (pingpong.c) do: that is when the other begins,
 * whatever is computed here.  The last product still reads a slot (skew/run_on.c). */
static bool
waits_first(Pipeline *ring, Op *read, const Parts *parts, const Widest *w, Behind *at)
{
	Op *loop = at->loop;
	int64_t more = (parts->used + w->n - 1) / w->n;
	bool fits = at->after && pingpong_groups(ring->f) > 1 && at->slots + more < w->buffer[0]->type->slots;
	const bool *position = fits ? position_of(ring, read, loop) : NULL;
	for (Op *op = loop->next, *next; position && op != read; op = next) {
		next = op->next;
		if (computes(op, position))
			op_move(op, loop->home, loop);
	}
	at->slots += position ? more : 0;
	return position != NULL;
}

/* Do threads have room for all of the one tile that is read behind the loop, whatever is computed before it is used?  Then
 * groups that take programs in turn read it at once: the other's slots come behind its own in the ring, and are filled when
 * these are free.  4096 x 4096 x 1536 with a SiLU and a residual took 129 us on an H200 where the sigmoids of all elements
 * stood before, and each group multiplied when the other had done.  Two tiles are read as they are added. */
static bool
reads_at_once(Pipeline *p)
{
	const int *regs = target_role_registers(p->t, pingpong_warpgroups(p->f));
	int64_t held = 0, tiles = 0;
	for (Op *op = p->loop; op; op = op->next) {
		tiles += op != p->loop && is_epilogue_load(p, op);
		for (int i = 0; i < op->nout && (op == p->loop || op->kind == OP_READ); i++)
			held += op->out[i].layout ? registers_of(&op->out[i]) : 0;
	}
	return tiles == 1 && regs && held + REGISTERS_BESIDE <= regs[1];
}

/* In slots one after the other. */
static void
bring(Pipeline *ring, Op *read, const Parts *parts, const Widest *w, Behind *at, Value **now)
{
	Value *v = &read->out[0], **part = NEW_ARRAY(ring->tmp, Value *, parts->n);
	bool all_first = waits_first(ring, read, parts, w, at);
	bool at_once = all_first && at->at_once;
	Op *until = all_first ? at->after->next : read;
	Builder b = build_before(at_once ? until : read), first = build_before(until);
	Turn turn[PARTS_MOST];
	for (int i = 0; i < parts->used; i += w->n) {
		turn[i] = fill_slots(ring, &first, read, parts, i, w, now);
		if (!all_first)
			read_slots(ring, &b, &turn[i], parts->layout, part + i);
	}
	at->after = all_first ? until->prev : NULL;
	for (int i = 0; all_first && i < parts->used; i += w->n)
		read_slots(ring, &b, &turn[i], parts->layout, part + i);
	at->after = at_once ? until->prev : at->after;
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
pipeline_epilogue_loads(Pipeline *p, const Pipeline *ring, Value **now)
{
	Pipeline of = *ring;
	Widest w = widest_buffers(ring);
	Parts parts;
	if (FIND_NEXT(op, p->loop->next, op->next, takes_long(op, NULL)))       /* no registers for two parts at once */
		w.n = MIN(w.n, 1);
	Behind behind = {.loop = p->loop, .after = p->loop, .at_once = reads_at_once(p)};
	for (Op *op = p->loop->next, *next; op && w.n; op = next) {
		next = op->next;
		if (!is_epilogue_load(p, op) || !roles_can_copy(p->f, p->t, p->loop, op))
			continue;
		int64_t bytes = tile_bytes(w.buffer[0]->type);
		bool fits = fits_beside(p, op, (tile_bytes(op->out[0].type) + bytes - 1) / bytes);
		if (fits && (divide(p, op, bytes, 1, &parts) || divide(p, op, bytes, 0, &parts)))
			bring(&of, op, &parts, &w, &behind, now);
	}
}
