/* Bulk copies: one thread has a whole tile copied by a tensor map, and an mbarrier counts the bytes.
 *
 *     expect %full, %free {bytes = 32768}
 *     copy %a, %m, %k, (slot %free of %ring), %full, %free {kind = "bulk"}
 *     …
 *     await %full, %now, %phase                            the slot's copies of this turn of the ring have come
 *
 * The parity that an await asks for turns when the ring wraps.  A ring that a second mbarrier frees is rings.c's.  Vectors
 * that are read beside such tiles, as the norms and scales of a row, come in the same way. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/axis.h"

enum { SLOT_ALIGN = 128, ROW_BYTES = 128 };             /* bytes, of what a tensor map writes, and of a box at most */
enum { CARRIED_MOST = 4, SIGN_DEPTH = 12 };             /* of what is_from_zero looks through */

Op *
pipeline_programs(const Op *loop)
{
	Op *op = FIND_NEXT(up, loop->home->parent, up->home->parent,
	    up->kind != OP_FOR || op_is_over_programs(up));
	return op && op_is_over_programs(op) ? op : NULL;
}

Op *
pipeline_in_program(const Op *loop)
{
	Op *op = (Op *)loop;
	while (op->home->parent && !op_is_over_programs(op->home->parent))
		op = op->home->parent;
	return op;
}

/* An mbarrier is initialised once.  The symmetric form carries slots and phases on through the loops around it. */
static bool
runs_once(const Pipeline *p)
{
	bool carries = p->f->schedule.specialize && pipeline_programs(p->loop);
	for (const Op *op = p->loop->home->parent; op && !carries; op = op->home->parent)
		if (op_is_loop(op))
			return false;
	return true;
}

static bool
has_boxes(const Pipeline *p)
{
	return ANY_OF(i, p->reads.n,
	    (p->reads.at[i].is_boxed || p->reads.at[i].is_beside) &&
		!access_map_reason(p->reads.at[i].read, p->t));
}

bool
pipeline_has_row_slots(const Type *tile)
{
	return tile->rank == 1 && tile_bytes(tile) % SLOT_ALIGN == 0;
}

int64_t
pipeline_bulk_bytes(const Op *read)
{
	const Value *v = read->kind == OP_COPY ? read->in[access_data(read)] : &read->out[0];
	const IntList *valid = attr_undef(read) ? attr_valid(read) : NULL;
	int64_t n = element_bytes(v->type);
	int fast = pipeline_fast_dim(v->layout, v->type->rank - 1);
	for (int d = 0; d < v->type->rank; d++) {
		int64_t row = MIN(v->type->extent[d], ROW_BYTES / element_bytes(v->type));
		int64_t need = valid ? valid->at[d] : v->type->extent[d];
		n *= d == fast ? map_row_brought(read, need, row) : need;
	}
	return n;
}

static void
mark_bulk(Pipeline *p, bool allowed)
{
	p->bulk_bytes = p->nasync = 0;
	allowed = allowed && has_boxes(p);
	for (int i = 0; i < p->reads.n; i++) {
		Staged *s = &p->reads.at[i];
		bool fits = s->is_boxed || s->is_beside || pipeline_has_row_slots(s->read->out[0].type);
		bool is_ahead = s->is_turned && p->f->schedule.specialize != 1;         /* decode.c, by waits for groups */
		if (s->of)
			continue;
		s->is_bulk = allowed && fits && !is_ahead && !s->pitch && !access_map_reason(s->read, p->t);
		p->nasync += !s->is_bulk;
		p->bulk_bytes += s->is_bulk ? pipeline_bulk_bytes(s->read) : 0;
	}
}

/* In roles threads of the producer may copy what no tensor map brings. */
static bool
count_others(Pipeline *p)
{
	if (p->f->schedule.specialize != 1 || !p->is_async || !runs_once(p))
		return false;
	for (int i = 0; i < p->reads.n; i++) {
		const Staged *s = &p->reads.at[i];
		if (!s->is_bulk && (!s->is_boxed || !roles_can_copy(p->f, p->t, p->loop, s->read)))
			return false;
	}
	for (int i = 0; i < p->reads.n; i++)
		p->reads.at[i].is_counted = !p->reads.at[i].is_bulk;
	p->nasync = 0;
	return true;
}

/* Threads fill slots alone, and whole. */
void
pipeline_drop_bulk(Pipeline *p)
{
	mark_bulk(p, false);
}

/* In a loop over programs all of them are counted by mbarriers, or none: the form with copies ahead carries nothing on. */
void
pipeline_find_bulk(Pipeline *p)
{
	mark_bulk(p, p->is_async && runs_once(p));
	if (p->nasync && pipeline_programs(p->loop) && !count_others(p))
		mark_bulk(p, false);
}

int
pipeline_arrivals(const Pipeline *p)
{
	int n = p->bulk_bytes > 0;
	for (int i = 0; i < p->reads.n; i++) {
		const Layout *l = p->reads.at[i].read->out[0].layout;
		n += p->reads.at[i].is_counted ? 1 << (l->in[IN_LANE] + l->in[IN_WARP]) : 0;
	}
	return n;
}

Value *
pipeline_mbarrier(Pipeline *p, Builder *b, int slots, int64_t count, const char *name)
{
	const Type *t = type_mbarrier(p->m, slots);
	Attr a = attr_new_count(p->m, count);
	Value *v = &op_make(b, OP_MBARRIER, NULL, 0, &a, 1, &t, 1)->out[0];

	v->name = name;
	return v;
}

void
pipeline_mbarriers(Pipeline *p, Builder *b, int slots)
{
	if (p->bulk_bytes)
		p->full = pipeline_mbarrier(p, b, slots, 1, "full");
}

void
pipeline_copies(Pipeline *p, Builder *b, Value *index, Value *number)
{
	Attr bytes = attr_new_bytes(p->m, p->bulk_bytes);

	if (p->bulk_bytes)
		op_make(b, OP_EXPECT, (Value *[]){p->full, number}, 2, &bytes, 1, NULL, 0);
	for (int i = 0; i < p->reads.n; i++) {
		const Staged *s = &p->reads.at[i];
		if (s->of || (p->part != COPY_ALL && (p->part == COPY_FIXED) != pipeline_is_fixed(p, s)))
			continue;
		b->place = s->read->place;
		pipeline_access(p, b, s, OP_COPY, pipeline_slot(p, b, s, number), index);
	}
}

void
pipeline_await(Builder *b, Value *ring, Value *number, Value *phase)
{
	op_make(b, OP_AWAIT, (Value *[]){ring, number, phase}, 3, NULL, 0, NULL, 0);
}

Value *
pipeline_next_phase(Builder *b, Value *phase, Value *next_number)
{
	Value *wraps = build2(b, OP_EQ, next_number, build_index(b, 0));

	return build3(b, OP_SELECT, wraps, build2(b, OP_SUB, build_index(b, 1), phase), phase);
}

/* Is it 0 or more?  Of what a loop carries: as long as all before was, which `held` says of n values.  Sums of such do not
 * wrap. */
static bool
is_from_zero(const Value *v, const Value **held, int n, int depth)
{
	const Op *op = v->def;
	if (v->type->rank || depth == 0)
		return false;
	if (axis_of(v)->lo >= 0)
		return true;
	if (ANY_OF(i, n, held[i] == v))
		return true;
	if (!op) {
		const Op *loop = v->block->parent;
		if (!loop || loop->kind != OP_FOR || n == CARRIED_MOST)
			return false;
		if (v->index == 0)
			return axis_of(loop->in[2])->lo > 0 && is_from_zero(loop->in[0], held, n, depth - 1);
		held[n] = v;
		return is_from_zero(loop->in[2 + v->index], held, n, depth - 1) &&
		    is_from_zero(v->block->last->in[v->index - 1], held, n + 1, depth - 1);
	}
	if (v->type->elem != TY_I64)
		return false;
	switch (op->kind) {
	case OP_ADD: case OP_MUL: case OP_MIN:
		return is_from_zero(op->in[0], held, n, depth - 1) && is_from_zero(op->in[1], held, n, depth - 1);
	case OP_SELECT:
		return is_from_zero(op->in[1], held, n, depth - 1) && is_from_zero(op->in[2], held, n, depth - 1);
	case OP_DIV:
		return axis_of(op->in[1])->lo > 0 && is_from_zero(op->in[0], held, n, depth - 1);
	default:
		return false;
	}
}

bool
bulk_begins_within(const Op *op)
{
	const Value *held[CARRIED_MOST];
	return !ANY_OF(i, op->in[0]->type->rank,
	    attr_index(op)[i] == 'p' && !is_from_zero(op->in[1 + i], held, 0, SIGN_DEPTH));
}
