/* Several programs as one tile (pass batch): short rows, of which lanes then reduce several at once, and rows along another
 * dimension than the one along which memory is contiguous, as of a transposed view.
 *
 *     x: in strided bf16[R, C], strides [1, R]      a program's row has 2 bytes of each sector: those of 8 have 16, which
 *                                                   one thread reads at once
 *
 * Such a tile is larger than a row, and registers hold as many elements of it as of a row, or parts of it (pass strip). */
#include "compile/choose/blocks/choose_form.h"
#include "ir/derive.h"

/* Short rows are as fast by 16 as by more: an H200 took 1.02 and 1.03 of the time by 32 and 64 (next_part, dequant4). */
enum { SHORT_MOST = 16 };
/* What is compared: from so many programs and warps on; of rows in parts, elements of a thread, warps, and trips that are
 * read ahead, or none (bench/results/h200-types.md has times of such forms). */
enum { JOINED_LEAST = 4, WARPS_LEAST = 4, PART_ELEMENTS = 16, PART_WARPS_LEAST = 8, PART_WARPS_MOST = 16, TRIPS_AHEAD = 4 };

/* Does the index follow from the program's? */
static bool
is_of_program(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == 0)
		return false;
	if (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT)
		return true;
	bool passes = op->kind == OP_ADD || op->kind == OP_SUB || op->kind == OP_MUL || op->kind == OP_CAST;
	return passes && ANY_OF(i, op->nin, is_of_program(op->in[i], depth - 1));
}

/* A tile of which each run along contiguous memory is less than a sector, and the rest of that is of other programs. */
static bool
joins(const Func *f, const Op *op)
{
	enum { SECTOR = 32, DEEP = 6 };
	const Value *tile = op->kind == OP_READ || op->kind == OP_WRITE ? access_tile(op) : NULL;
	if (!tile || tile->type->rank == 0 || !access_is_tensor(op) || op->in[0]->def)
		return false;
	const Type *t = op->in[0]->type;
	const IntList *parts = attr_extents(op);
	int last = t->rank - 1;
	int64_t run = attr_index(op)[last] == 'p' ? parts->at[parts->n - 1] : 1;
	return attr_index(op)[last] != 'g' && param_has_rows(&f->param[op->in[0]->index]) &&
	    type_count(tile->type) > run && dtype_bytes(t->elem, run) < SECTOR && is_of_program(op->in[1 + last], DEEP);
}

bool
batches_join(const Func *f, const Bill *b)
{
	return b->part[BILL_SECTORS] > b->part[BILL_MEMORY] && ANY_OP(op, f->body, joins(f, op));
}

static bool
may_batch(const Blocks *s, const Bound *first)
{
	return blocks_is_open(s, SCHEDULE_BATCH) && first->schedule.batch <= 0 && first->schedule.persistent != 0;
}

/* By the warps that the larger tile has, and by those of a program. */
static void
try_short(Blocks *s, const Bound *first)
{
	bool warps_open = s->warps_open && !s->warps;
	for (int batch = 2; batch <= SHORT_MOST; batch *= 2)
		for (int warps = 0; warps <= (warps_open ? s->rule : 0); warps += s->rule)
			try_form(s, first, (Form){.batch = batch, .warps = warps});
}

/* Rows in parts of which a thread has some elements. */
static void
try_parts(Blocks *s, const Bound *first, int batch)
{
	for (int warps = PART_WARPS_LEAST; warps <= PART_WARPS_MOST; warps *= 2) {
		Form parts = {.warps = warps, .batch = batch, .strip = warps * s->t->lanes * PART_ELEMENTS / batch};
		if (!blocks_may_have(s, warps))
			continue;
		for (parts.unroll = 0; parts.unroll <= TRIPS_AHEAD; parts.unroll += TRIPS_AHEAD)
			try_form(s, first, parts);
		parts.unroll = 0;
		try_kept(s, first, parts, warps, warps);
	}
}

static void
try_joined(Blocks *s, const Bound *first)
{
	bool strips = !s->loops && blocks_is_open(s, SCHEDULE_STRIP) && !first->schedule.strip;
	for (int batch = JOINED_LEAST; batch <= schedule_info[SCHEDULE_BATCH].most; batch *= 2) {
		if (s->loops)
			try_form(s, first, (Form){.batch = batch});
		for (int warps = WARPS_LEAST; warps <= schedule_info[SCHEDULE_WARPS].most; warps *= 2)
			if (blocks_may_have(s, warps))
				try_form(s, first, (Form){.batch = batch, .warps = warps});
		if (strips)
			try_parts(s, first, batch);
	}
}

void
try_batches(Blocks *s, const Bound *first)
{
	if (!may_batch(s, first))
		return;
	if (!s->loops)
		try_short(s, first);
	if (s->joins)
		try_joined(s, first);
}

/* ---- smaller tiles ---- */

/* Sizes that tune(...) lists and that are a half to a 64th of the header's. */
static int
listed_smaller(const Blocks *s, const Bound *first, const TuneName *all, int n, ChooseTile *out, int room)
{
	int found = 0;
	for (int i = 0; i < n; i++) {
		int p = ctparam_named(s->k, all[i].name);
		bool is_open = p >= 0 && !s->how->is_fixed(s->how->user, all[i].name);
		int64_t own = is_open && first->ct[p].value.kind == CONST_INT ? first->ct[p].value.i : 0;
		for (int v = 0; v < all[i].nvalue && found < room; v++) {
			int64_t size = all[i].value[v].kind == CONST_INT ? all[i].value[v].i : own;
			if (size < own && size * schedule_info[SCHEDULE_BATCH].most >= own)
				out[found++] = (ChooseTile){.value = {choose_number(all[i].name, size)}, .n = 1};
		}
	}
	return found;
}

void
try_batches_smaller(Blocks *s, const Bound *first, Arena *apart, const TuneName *all, int n)
{
	int from = s->now, found;
	ChooseTile *tile = &s->tile[from - 1];
	if (!may_batch(s, first) || !s->joins)
		return;
	found = choose_smaller(s->k, first, s->t, s->how, apart, tile);
	found += listed_smaller(s, first, all, n, tile + found, SHRUNK_MOST - found);
	for (; s->now < from + found; s->now++) {
		Bound with;
		s->k->program->cx->mem = apart;         /* what is bound outlives candidates */
		const ChooseTile *now = &s->tile[s->now - 1];
		if (!s->how->bind(s->how->user, now->value, now->n, &with))
			continue;
		for (int batch = JOINED_LEAST; batch <= schedule_info[SCHEDULE_BATCH].most; batch *= 2) {
			try_form(s, &with, (Form){.batch = batch});
			for (int warps = WARPS_LEAST; warps <= schedule_info[SCHEDULE_WARPS].most; warps *= 2)
				if (blocks_may_have(s, warps))
					try_form(s, &with, (Form){.batch = batch, .warps = warps});
		}
	}
}
