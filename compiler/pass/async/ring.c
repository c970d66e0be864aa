/* Rings of slots in shared memory: their layouts, and what reads of the tensor become.
 *
 *     %a = read %x, %m, %k {…} : f16[128, 32] #0
 *     %d = convert %a : f16[128, 32] #2               =>    %d = get (slot %now of %ring) : f16[128, 32] #2
 *
 * Where a convert changes the tile right behind the read, or behind casts, permutes and reshapes, the get gives the
 * convert's layout and the convert goes. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

int
pipeline_fast_dim(const Layout *l, int otherwise)
{
	return VALUE_OF(d, l->rank,
	    l->in[IN_REGISTER] && l->map.col[0] == UINT64_C(1) << layout_out_at(l, d), d,
	    otherwise);
}

/* Rows of 16-byte chunks, exclusive-ored so that equal chunks of eight rows, 2^apart from each other, are in different
 * banks.  Of rows shorter than a line of eight chunks, which 2^apart rows are no shorter than, the row's place in its line
 * counts as chunks do. */
Layout
pipeline_swizzle(const Layout *l, DType t, int apart)
{
	int fast = pipeline_fast_dim(l, l->rank - 1), order[LAYOUT_RANK] = {fast}, n = 1, vector, chunks, per_phase = apart;

	for (int d = l->rank - 1; d >= 0; d--)
		if (d != fast)
			order[n++] = d;
	vector = MIN(log2_ceil(128 / dtype_info[t].bits), l->out[fast]);
	chunks = l->out[fast] - vector;
	while (chunks + per_phase < 3)
		per_phase++;
	Layout s = layout_swizzled(l->rank, l->out, order, vector, per_phase, MIN(chunks, 3));
	int rest = l->out[fast] + apart;
	for (int i = chunks; i < 3 && chunks + apart >= 3 && rest + i < s.map.nin; i++)
		s.map.col[rest + i] ^= s.map.col[vector + i];
	return s;
}

/* What each of the block's warps reads of a tile that they divide along dimension d lies by itself, row by row.  Rows of
 * more than a line are turned by their number, or by that of the line, whichever has fewer conflicts: a quarter of a warp
 * may read several rows, or lines of one. */
static Layout
sliced_lines(const Staged *s, int d, int parts)
{
	const Type *t = s->read->out[0].type;
	const Layout *l = s->read->out[0].layout, *wanted = s->required;
	int bits = dtype_info[t->elem].bits;
	int fast = pipeline_fast_dim(l, l->rank - 1), shape[LAYOUT_RANK] = {0}, order[LAYOUT_RANK] = {0}, n = 0;

	for (int i = 0; i < l->rank; i++)
		shape[i + (i >= d)] = l->out[i];
	shape[d] = parts;
	shape[d + 1] -= parts;
	order[n++] = fast + (fast >= d);
	for (int i = l->rank; i >= 0; i--)
		if (i != d && i != order[0])
			order[n++] = i;
	order[n] = d;
	int chunk = log2_ceil(128 / bits), row = shape[order[0]] - chunk;       /* of 16 bytes; a line has eight */
	Layout rows = layout_swizzled(l->rank + 1, shape, order, chunk, 0, 3);
	Layout lines = layout_swizzled_lines(l->rank + 1, shape, order, bits);
	rows = layout_reshape(&rows, l->rank, l->out);
	lines = layout_reshape(&lines, l->rank, l->out);
	if (row <= 3)
		return lines;
	if (!wanted || dtype_is_packed(t->elem))
		return rows;
	int by[F2_MAX];
	Layout got = layout_by_offset(wanted, &rows, by);
	return layout_trip(&got, &lines, bits / 8) < layout_trip(&got, &rows, bits / 8) ? lines : rows;
}

/* Does each warp read its own part along dimension d?  Not where the block reads whole rows together (coalesce.c). */
static bool
is_divided(const Layout *l, int d, int64_t parts)
{
	return 1 << layout_bits_along(l, IN_WARP, d) == parts;
}

static bool
lies_in_slices(const Staged *s, Layout *out)
{
	const IntList *slices = attr_slices(s->read);
	const Layout *l = s->read->out[0].layout;

	for (int d = 0; slices && d < slices->n && l->rank < LAYOUT_RANK; d++)
		if (slices->at[d] > 1 && is_divided(l, d, slices->at[d])) {
			*out = sliced_lines(s, d, log2_ceil(slices->at[d]));
			return true;
		}
	return false;
}

static bool
has_column(const Layout *l, InDim in, uint64_t image)
{
	return ANY_OF(i, l->in[in], l->map.col[layout_in_at(l, in) + i] == image);
}

/* Where each warp has a part of the tile for itself in `wanted`, it copies that part, so that no other warp waits for it:
 * what the warps of l have apart and those of `wanted` not is the registers'.  False: the parts are no copies' own. */
static bool
by_warps_of(const Layout *l, const Layout *wanted, Layout *out)
{
	int regs = l->in[IN_REGISTER], lanes = layout_in_at(l, IN_LANE), warps = layout_in_at(l, IN_WARP), n = 0;
	int from = layout_in_at(wanted, IN_WARP);
	*out = *l;
	if (l->in[IN_WARP] != wanted->in[IN_WARP] || l->in[IN_BLOCK])
		return false;
	for (int i = 0; i < l->in[IN_WARP]; i++) {
		uint64_t image = wanted->map.col[from + i];
		if (image == 0 || !(has_column(l, IN_REGISTER, image) || has_column(l, IN_WARP, image)))
			return false;
		out->map.col[warps + i] = image;
	}
	for (int i = 0; i < regs; i++)
		if (!has_column(wanted, IN_WARP, l->map.col[i]))
			out->map.col[n++] = l->map.col[i];
	for (int i = 0; i < l->in[IN_WARP]; i++)
		if (!has_column(wanted, IN_WARP, l->map.col[warps + i]))
			out->map.col[n++] = l->map.col[warps + i];
	return n == regs && lanes == regs && layout_valid(out);
}

/* The convert that is the read's only use; NULL. */
static const Op *
only_convert(const Pipeline *p, const Value *v)
{
	for (const Op *op = p->body->first; op && v->nuses == 1; op = op->next)
		if (op->kind == OP_CONVERT && op->in[0] == v)
			return op;
	return NULL;
}

void
pipeline_align(Pipeline *p, Staged *s)
{
	Value *v = &s->read->out[0];
	const Op *convert = only_convert(p, v);
	Layout l;
	if (!convert || !p->is_async || s->is_boxed || !by_warps_of(v->layout, convert->out[0].layout, &l))
		return;
	v->layout = layout_intern(p->m, &l);
	attr_set_vector(p->m, s->read, access_vector(s->read, v->layout, p->t));
}

static const Layout *
row_major(Module *m, const Layout *l)
{
	Layout rows = layout_row_major(l->rank, l->out, layout_last_first(l->rank));
	return layout_intern(m, &rows);
}

/* log2 of the rows between those that neighbouring lanes read at once: a product by multiplications whose right operand
 * has K along its rows reads as many columns for each thread as the accumulator has next to each other (lay_out_fma).  f32
 * 4096^3 x @ w.T took an H200 5,553 us for 3,083 of x @ w while lanes' rows, four apart, were in two of eight chunks. */
static int
rows_apart(const Pipeline *p, const Staged *s)
{
	const Value *v = &s->read->out[0];
	for (const Op *op = p->body->first; op; op = op->next) {
		bool flipped;
		if (op->kind != OP_DOT || !*attr_fma_reason(op) || op->out[0].type->rank != 2 ||
		    dot_operand_root(op->in[1], &flipped) != v || pipeline_fast_dim(v->layout, 1) == (flipped ? 0 : 1))
			continue;
		const Layout *acc = op->out[0].layout;
		int n = 0;
		while (n < acc->in[IN_REGISTER] && acc->map.col[n] == UINT64_C(1) << (layout_out_at(acc, 1) + n))
			n++;
		return n;
	}
	return 0;
}

static const Layout *
choose_shared(Pipeline *p, const Staged *s)
{
	const Value *v = &s->read->out[0];
	const Layout *required = s->required;
	int bytes = dtype_tile_size(v->type->elem);
	Layout l = pipeline_swizzle(v->layout, v->type->elem, rows_apart(p, s)), got;
	bool transposed;
	F2 to;
	int stride;

	if (s->is_boxed || (s->is_beside && s->is_bulk))
		return warpgroup_layout(p->m, v->type, pipeline_fast_dim(v->layout, v->type->rank - 1));
	if (s->is_bulk)
		return row_major(p->m, v->layout);
	bool across = required && required->rank == 2 && bytes == 1 &&
	    layout_across(required, pipeline_fast_dim(v->layout, 1), &got);
	if (across || lies_in_slices(s, &l) || dtype_is_packed(v->type->elem))
		return layout_intern(p->m, &l);
	if (required && p->t->has & HAS_SIMDGROUP_MATRIX && l.rank >= 2 && l.out[l.rank - 1] >= 3 &&
	    l.out[l.rank - 2] >= 3) {
		Layout matrices = layout_8x8(l.rank, l.out);
		if (layout_fits_8x8(required, &matrices, &to, &stride, &transposed))
			return layout_intern(p->m, &matrices);
	}
	if (required && !layout_fits_matrix(required, &l, bytes, &to, &transposed)) {
		int order[F2_MAX];
		Layout by_offset = layout_by_offset(required, &l, order);
		Layout best = layout_best_shared(v->layout, &by_offset, bytes);
		if (!p->is_async || bytes << layout_shared_vector(v->layout, &best, bytes, 16) >= 4)
			l = best;
	}
	return layout_intern(p->m, &l);
}

static bool
is_filled_in_part(const Staged *s)
{
	return s->is_boxed && s->is_bulk && !s->is_turned && attr_undef(s->read);
}

/* Of a slot of boxes, up to the end of the last that is filled: where columns or rows were added the rest is not used. */
static int64_t
filled_bytes(const Pipeline *p, const Staged *s)
{
	const Value *v = &s->read->out[0];
	const Layout *l = warpgroup_layout(p->m, v->type, pipeline_fast_dim(v->layout, v->type->rank - 1));
	int order[LAYOUT_RANK], row, size = dtype_tile_size(v->type->elem);
	int64_t all = tile_bytes(v->type);
	if (v->type->rank != 2 || !layout_match_boxed(l, size, order, &row))
		return all;
	int64_t columns = attr_valid(s->read)->at[order[0]], rows = attr_valid(s->read)->at[order[1]];
	int64_t boxes = (columns * size + row - 1) / row, box = v->type->extent[order[1]] * row;
	return (boxes - 1) * box + rows * row;
}

static int64_t
staged_bytes(const Pipeline *p, const Staged *s)
{
	const Type *t = s->read->out[0].type;
	if (s->of || s->pitch)
		return s->pitch * t->extent[0];
	return is_filled_in_part(s) ? filled_bytes(p, s) : dtype_bytes(t->elem, type_count(t));
}

void
pipeline_rings(Pipeline *p, Builder *b, int slots)
{
	for (int i = 0; i < p->reads.n; i++) {
		Staged *s = &p->reads.at[i];
		const Value *v = &s->read->out[0];
		const Type *t = type_buffer(p->m, v->type->elem, slots, v->type->rank, v->type->extent);
		if (s->of || (!p->is_async && !s->required && !s->is_boxed))
			continue;
		b->place = s->read->place;
		s->ring = build0(b, OP_ALLOC, t);
		s->ring->layout = s->pitch ? row_major(p->m, v->layout) : choose_shared(p, s);
		if (s->pitch)
			attr_set_slot_bytes(p->m, s->ring->def, staged_bytes(p, s));
		if (is_filled_in_part(s) && filled_bytes(p, s) < tile_bytes(v->type))
			attr_set_slot_bytes(p->m, s->ring->def, filled_bytes(p, s));
	}
	b->place = p->loop->place;
}

Value *
pipeline_slot(Pipeline *p, Builder *b, const Staged *s, Value *number)
{
	return build_slot(b, s->of ? p->reads.at[s->of - 1].ring : s->ring, number);
}

/* The operand's layout from which the op gives `required`. */
static const Layout *
operand_layout(Pipeline *p, const Op *op, const Layout *required)
{
	int back[LAYOUT_RANK] = {0};

	if (op->kind == OP_RESHAPE) {
		const Type *t = op->in[0]->type;
		layout_shape(t->rank, t->extent, back);
		Layout l = layout_reshape(required, t->rank, back);
		return layout_intern(p->m, &l);
	}
	if (op->kind != OP_PERMUTE)
		return required;
	for (int d = 0; d < required->rank; d++)
		back[attr_dims(op)->at[d]] = d;
	Layout l = layout_permute(required, back);
	return layout_intern(p->m, &l);
}

bool
pipeline_comes_from(const Pipeline *p, const Staged *s, const Value *v)
{
	while (v != &s->read->out[0]) {
		if (!v->def || v->def->home != p->body || v->def->nin != 1 ||
		    (v->def->kind != OP_PERMUTE && v->def->kind != OP_RESHAPE && !(op_info[v->def->kind].traits & ELEM)))
			return false;
		v = v->def->in[0];
	}
	return true;
}

const Layout *
pipeline_required_layout(Pipeline *p, const Staged *s)
{
	for (const Op *op = p->body->first; op; op = op->next) {
		if (op->kind != OP_CONVERT || !pipeline_comes_from(p, s, op->in[0]))
			continue;
		const Layout *l = op->out[0].layout;
		for (const Value *v = op->in[0]; v != &s->read->out[0]; v = v->def->in[0])
			l = operand_layout(p, v->def, l);
		return l;
	}
	return NULL;
}

/* A part of each row, byte by byte. */
static Value *
get_part(Pipeline *p, Builder *b, const Staged *s, Value *slot, const Layout *required)
{
	const Type *t = s->read->out[0].type;
	Attr steps = attr_new_steps(p->m, s->step, 1 + t->rank);
	Op *get = op_make(b, OP_GET, &slot, 1, &steps, 1, &t, 1);
	get->out[0].layout = required;
	return &get->out[0];
}

/* A get of the slot in that layout.  Bytes that lie across it, pairs of rows of a fragment, by ldmatrix. */
static Value *
get_slot(Pipeline *p, Builder *b, Value *slot, const Layout *required)
{
	Layout got;
	int fast = pipeline_fast_dim(slot->layout, required->rank - 1);
	bool across = required->rank == 2 && dtype_info[slot->type->elem].bits == 8 && layout_across(required, fast, &got);
	Op *get = op_make(b, OP_GET, &slot, 1, NULL, 0, NULL, 0);
	get->out[0].layout = across ? layout_intern(p->m, &got) : required;
	return value_with_layout(across ? build1(b, OP_CONVERT, &get->out[0], get->out[0].type) : &get->out[0], required);
}

/* v rebuilt in layout `required` from a get of the ring, through the casts, permutes and reshapes between. */
static Value *
rebuild(Pipeline *p, Builder *b, const Staged *s, Value *slot, Value *v, const Layout *required)
{
	if (v == &s->read->out[0]) {
		Value *got = s->of ? get_part(p, b, s, slot, required) : get_slot(p, b, slot, required);
		got->name = v->name;
		return got;
	}
	Op *op = v->def;
	Value *in = rebuild(p, b, s, slot, op->in[0], operand_layout(p, op, required));
	const Type *t = v->type;
	Op *clone = op_make(b, op->kind, &in, 1, op->attr, op->nattr, &t, 1);
	clone->out[0].layout = required;
	return &clone->out[0];
}

void
pipeline_gets(Pipeline *p, const Staged *s, Value *slot)
{
	Op *after = s->read;

	for (EACH_OP_HERE(op, p->body)) {
		if (op->kind != OP_CONVERT || !pipeline_comes_from(p, s, op->in[0]))
			continue;
		Builder b = {.m = p->m, .block = p->body, .before = op, .place = op->place};
		value_replace(&op->out[0], rebuild(p, &b, s, slot, op->in[0], op->out[0].layout));
		op_erase(op);
	}
	/* What was on the way to a convert may be left without a use, and then it goes. */
	for (Op *op = p->body->last, *prev; op != after; op = prev) {
		prev = op->prev;
		bool unused = op->nout == 1 && op->out[0].nuses == 0 && (op_info[op->kind].traits & PURE);
		if (unused && pipeline_comes_from(p, s, &op->out[0]))
			op_erase(op);
	}
	if (after->out[0].nuses) {
		Builder b = {.m = p->m, .block = p->body, .before = after, .place = after->place};
		value_replace(&after->out[0], rebuild(p, &b, s, slot, &after->out[0], after->out[0].layout));
	}
	op_erase(after);
}

int64_t
pipeline_beside_bytes(const Pipeline *p)
{
	int64_t n = 0;

	for (int i = 0; i < p->reads.n; i++)
		n += p->reads.at[i].is_beside ? tile_bytes(p->reads.at[i].read->out[0].type) : 0;
	return n;
}

int64_t
pipeline_stage_bytes(const Pipeline *p, bool converted)
{
	int64_t n = 0;

	for (int i = 0; i < p->reads.n; i++) {
		const Staged *s = &p->reads.at[i];
		n += s->required || s->is_boxed || !converted ? staged_bytes(p, s) : 0;
	}
	return n;
}

bool
ring_moves_records(const Op *op, const Op *owner)
{
	const Type *t = owner->out[0].type;
	const IntList *valid = op->kind == OP_COPY ? attr_valid(op) : NULL;
	if (op->kind == OP_GET)
		return attr_steps(op);
	return valid && t->rank == 2 && valid->at[0] == t->extent[0] &&
	    valid->at[1] <= attr_slot_bytes(owner) / t->extent[0] && dtype_info[t->elem].bits == 8 &&
	    op_is_grouped_copy(op);
}
