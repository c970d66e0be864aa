/* Joins, cats, splits, flips, extracts and gathers.
 *
 * Where the coordinates of an element say which operand it comes from, operands are brought into the result's layout and
 * registers are renamed, or chosen by the thread's number:
 *
 *     join, cat of equal parts     each operand in the result's layout without the bits that number the operands
 *     split                        the operand with the pair in its lowest register bit
 *     flip                         a fixed exclusive or of registers and lanes
 *     gather from short rows       threads have whole rows (lookup_bytes.c)
 *     gather that turns a line     registers are renamed, or come from other lanes (model/plan_turn.c)
 *
 * Everything else goes through scratch: the operand stands there row by row, and after a barrier each register of the
 * result is read from where its element is.  A gather's operand that is larger than scratch is staged piece by
 * piece, and each piece's elements are read. */
#include "lower/lower.h"
#include "model/turn.h"

Layout
lower_row_major(const Layout *l)
{
	return layout_row_major(l->rank, l->out, layout_last_first(l->rank));
}

/* ---- offsets into scratch ---- */

LowerStrides
lower_row_strides(const Type *t)
{
	LowerStrides s = {.bytes = thread_type_bytes(lower_type(t))};
	for (int d = t->rank - 1, at = 0; d >= 0; at += log2_ceil(t->extent[d--]))
		s.shift[d] = at;
	return s;
}

static ThreadAccess
element_access(Reg base, RegType type, Reg offset, int64_t constant)
{
	ThreadAccess a = lower_shared_access(base, type);
	a.offset = offset;
	a.constant = constant;
	return a;
}

Reg
lower_read_element(Lower *l, Reg base, RegType type, Reg offset, int64_t constant)
{
	ThreadAccess a = element_access(base, type, offset, constant);
	Reg v;
	thread_load(l->b, &a, &v);
	return lower_from_memory(l, type, v);
}

/* Operand 0 in scratch, row by row; every thread may read it. */
static Reg
stage(Lower *l, const Op *op)
{
	const Value *v = op->in[0];
	Layout rows = lower_row_major(v->layout);
	Reg base = lower_scratch(l, op);
	lower_to_shared(l, base, lower_regs(l, v), v->layout, &rows, lower_type(v->type));
	if (plan_op(op, l->t).sync == SYNC_WARP)
		lower_warp_barrier(l);
	else
		lower_barrier(l);
	return base;
}

/* ---- join, split, cat, flip ---- */

/* part[k][r] where k is coordinate `axis` of register r, its lowest `low` bits left out. */
static void
choose(Lower *l, const Layout *layout, int axis, int low, const Reg *const *part, int n, Reg *out)
{
	Reg thread = lower_thread_coordinate(l, layout, axis);
	uint64_t moves = 0;
	for (int i = layout->in[IN_REGISTER]; i < layout->map.nin; i++)
		moves |= layout->map.col[i] >> layout_out_at(layout, axis);
	moves = (moves & ((UINT64_C(1) << layout->out[axis]) - 1)) >> low;
	Reg number = low ? lower_op2(l, THREAD_LSHR, thread, lower_i32(l, low)) : thread;
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r++) {
		uint64_t own = lower_register_coordinate(layout, r, axis) >> low;
		out[r] = part[own][r];
		for (uint64_t k = 1; moves && k < (uint64_t)n; k++) {
			if (k & ~moves)
				continue;
			Reg is = lower_op2(l, THREAD_EQ, moves == (uint64_t)n - 1 ? number
			    : lower_op2(l, THREAD_AND, number, lower_i32(l, (int64_t)moves)), lower_i32(l, (int64_t)k));
			out[r] = lower_op3(l, THREAD_SELECT, is, part[own ^ k][r], out[r]);
		}
	}
}

static void
lower_join(Lower *l, Op *op)
{
	const Layout *to = op->out[0].layout;
	int last = to->rank - 1;
	const Reg *part[2];
	Reg *out = lower_new(l, &op->out[0]);
	if (!op->in[0]->layout) {
		Reg one[2] = {lower_regs(l, op->in[0])[0], lower_regs(l, op->in[1])[0]};
		Reg *both[2];
		for (int i = 0; i < 2; i++) {
			both[i] = NEW_ARRAY(l->mem, Reg, lower_count(&op->out[0]));
			for (int r = 0; r < lower_count(&op->out[0]); r++)
				both[i][r] = one[i];
			part[i] = both[i];
		}
	} else {
		Layout want = layout_slice(to, last);
		for (int i = 0; i < 2; i++)
			part[i] = lower_operand(l, op, i, &want);
	}
	choose(l, to, last, 0, part, 2, out);
}

static void
lower_split(Lower *l, Op *op)
{
	Layout want = split_layout(op);
	const Reg *in = lower_operand(l, op, 0, &want);
	const Layout *made = op->out[0].layout;
	for (int i = 0; i < 2; i++) {
		Value *v = &op->out[i];
		Reg *out = lower_new(l, v), *half = NEW_ARRAY(l->mem, Reg, lower_count(&op->out[0]));
		for (int r = 0; r < lower_count(&op->out[0]); r++)
			half[r] = in[2 * r + i];
		if (made)
			lower_to_layout(l, op, half, made, v->layout, lower_type(v->type), out);
		else
			out[0] = half[0];
	}
}

static void
cat_by_scratch(Lower *l, Op *op)
{
	Value *to = &op->out[0];
	int axis = (int)attr_axis(op);
	RegType type = lower_type(to->type);
	LowerStrides s = lower_row_strides(to->type);
	Reg base = lower_scratch(l, op), *out;
	int64_t start = 0;
	for (int i = 0; i < op->nin; start += op->in[i++]->type->extent[axis]) {
		const Layout *from = op->in[i]->layout;
		const Reg *in = lower_regs(l, op->in[i]);
		uint64_t repeats = lower_repeats(from);
		ThreadAccess a = lower_shared_access(base, type);
		a.mask = lower_is_first_holder(l, from);
		for (int r = 0; r < 1 << from->in[IN_REGISTER]; r++) {
			if ((uint64_t)r & repeats)
				continue;
			a.offset = lower_element_offset(l, &s, from, r, &a.constant);
			a.constant += start * s.bytes << s.shift[axis];
			Reg v = lower_to_memory(l, type, in[r]);
			thread_store(l->b, &a, &v);
		}
	}
	lower_barrier(l);
	out = lower_new(l, to);
	for (int r = 0; r < lower_count(to); r++) {
		int64_t constant;
		Reg at = lower_element_offset(l, &s, to->layout, r, &constant);
		out[r] = lower_read_element(l, base, type, at, constant);
	}
}

static void
lower_cat(Lower *l, Op *op)
{
	if (!cat_is_even(op)) {
		cat_by_scratch(l, op);
		return;
	}
	int axis = (int)attr_axis(op);
	Layout want = cat_layout(op);
	const Reg **part = MAP_OF(l->mem, const Reg *, i, op->nin, lower_operand(l, op, i, &want));
	choose(l, op->out[0].layout, axis, want.out[axis], part, op->nin, lower_new(l, &op->out[0]));
}

/* A thread's elements stand, in the mirror, where those of another one do, and registers as well: they are exchanged, or
 * each takes from shared memory what that one would. */
static void
lower_flip(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	const Layout *to = v->layout, *from = op->in[0]->layout;
	RegType type = lower_type(v->type);
	int regs = to->in[IN_REGISTER], bytes = thread_type_bytes(type);
	uint64_t exchange, own = (UINT64_C(1) << regs) - 1;
	Reg *out = lower_new(l, v);
	const Reg *in;
	bool is_near = flip_exchange(op, &exchange);
	if (is_near) {
		in = lower_operand(l, op, 0, to);
	} else {
		Reg self = l->thread, base = lower_scratch(l, op), *taken = NEW_ARRAY(l->mem, Reg, 1 << regs);
		Layout shared = convert_shared_layout(l->t, from, to, bytes);
		lower_to_shared(l, base, lower_regs(l, op->in[0]), from, &shared, type);
		lower_barrier(l);
		l->thread = lower_op2(l, THREAD_XOR, self, lower_i32(l, (int64_t)(exchange >> regs)));
		lower_from_shared(l, base, taken, to, &shared, type);
		l->thread = self;
		in = taken;
	}
	int lanes = is_near ? (int)(exchange >> regs) : 0;
	for (int r = 0; r < 1 << regs; r++) {
		Reg x = in[(uint64_t)r ^ (exchange & own)];
		out[r] = lanes ? lower_lane_xor(l, type, x, lanes) : x;
	}
}

/* ---- extract, gather ---- */

/* The starts' part of the offset (bytes, REG_I32), each held within the tile; 0: nothing. */
static Reg
start_offset(Lower *l, const Op *op, const LowerStrides *s)
{
	const IntList *extents = attr_extents(op);
	const char *index = attr_index(op);
	const Type *t = op->in[0]->type;
	Reg sum = 0;
	for (int d = 0, e = 0; d < t->rank; d++) {
		int64_t n = index[d] == 'p' ? extents->at[e++] : 1, most = t->extent[d] - n, known;
		Reg at;
		if (most == 0)
			continue;
		if (value_constant(op->in[1 + d], &known)) {
			known = MAX(MIN(known, most), 0);
			at = lower_i32(l, known * s->bytes << s->shift[d]);
		} else {
			at = lower_op2(l, THREAD_SMIN, lower_regs(l, op->in[1 + d])[0], lower_i64(l, most));
			at = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_SMAX, at, lower_i64(l, 0)));
			at = lower_op2(l, THREAD_MUL, at, lower_i32(l, (int64_t)s->bytes << s->shift[d]));
		}
		sum = sum ? lower_op2(l, THREAD_ADD, sum, at) : at;
	}
	return sum;
}

static void
lower_extract(Lower *l, Op *op)
{
	if (lower_slice(l, op))
		return;
	Value *v = &op->out[0];
	RegType type = lower_type(v->type);
	const char *index = attr_index(op);
	LowerStrides whole = lower_row_strides(op->in[0]->type), s = {.bytes = whole.bytes};
	Reg base = stage(l, op), start = start_offset(l, op, &whole), *out = lower_new(l, v);
	if (start)
		base = thread_pointer(l->b, base, start);
	for (int d = 0, at = 0; d < op->in[0]->type->rank; d++)
		if (index[d] == 'p')
			s.shift[at++] = whole.shift[d];
	for (int r = 0; r < lower_count(v); r++) {
		int64_t constant;
		Reg at = lower_element_offset(l, &s, v->layout, r, &constant);
		out[r] = lower_read_element(l, base, type, at, constant);
	}
}

Reg
lower_bounded_index(Lower *l, DType t, Reg index, int64_t n, Reg *inside)
{
	bool is_wide = dtype_info[t].bits == 64;
	if (dtype_info[t].bits < 32)
		index = lower_as(l, dtype_is_signed(t) ? CAST_SEXT : CAST_ZEXT, REG_I32, index);
	*inside = lower_op2(l, THREAD_ULT, index, is_wide ? lower_i64(l, n) : lower_i32(l, n));
	return is_wide ? lower_as(l, CAST_TRUNC, REG_I32, index) : index;
}

/* An access of an element, if it is of that piece: its offset in the whole tile becomes the one in the piece. */
static Reg
within_piece(Lower *l, ThreadAccess *a, int64_t bytes, int64_t piece)
{
	if (a->constant)
		a->offset = lower_op2(l, THREAD_ADD, a->offset, lower_i32(l, a->constant));
	Reg number = lower_op2(l, THREAD_LSHR, a->offset, lower_i32(l, log2_ceil(bytes)));
	a->offset = lower_op2(l, THREAD_AND, a->offset, lower_i32(l, bytes - 1));
	a->constant = 0;
	return lower_op2(l, THREAD_EQ, number, lower_i32(l, piece));
}

static void
stage_piece(Lower *l, const Op *op, Reg base, int64_t bytes, int64_t piece)
{
	const Value *v = op->in[0];
	RegType type = lower_type(v->type);
	LowerStrides s = lower_row_strides(v->type);
	uint64_t repeats = lower_repeats(v->layout);
	Reg first = lower_is_first_holder(l, v->layout);
	for (int r = 0; r < lower_count(v); r++) {
		int64_t constant;
		if ((uint64_t)r & repeats)
			continue;
		Reg at = lower_element_offset(l, &s, v->layout, r, &constant);
		ThreadAccess a = element_access(base, type, at, constant);
		a.mask = lower_both(l, first, within_piece(l, &a, bytes, piece));
		Reg x = lower_to_memory(l, type, lower_regs(l, v)[r]);
		thread_store(l->b, &a, &x);
	}
}

/* The elements at byte offsets at[] and constant[] of operand 0 to out[], which hold something. */
static void
gather_by_pieces(Lower *l, Op *op, const Reg *at, const int64_t *constant, Reg *out)
{
	const Value *v = &op->out[0];
	RegType type = lower_type(v->type);
	int64_t bytes = gather_piece(op, l->t), n = tile_bytes(op->in[0]->type) / bytes;
	for (int64_t piece = 0; piece < n; piece++) {
		Reg base = lower_scratch(l, op);
		stage_piece(l, op, base, bytes, piece);
		lower_barrier(l);
		for (int r = 0; r < lower_count(v); r++) {
			Reg x;
			ThreadAccess a = element_access(base, type, at[r], constant[r]);
			Reg is = within_piece(l, &a, bytes, piece);
			thread_load(l->b, &a, &x);
			out[r] = lower_op3(l, THREAD_SELECT, is, lower_from_memory(l, type, x), out[r]);
		}
	}
}

/* ---- a line that turns ---- */

/* The run's part of the lane's number. */
static Reg
lane_part(Lower *l, const Turn *t)
{
	Reg part = lower_op2(l, THREAD_AND, l->lane, lower_i32(l, (INT64_C(1) << (t->first + t->lanes)) - 1));
	return t->first ? lower_op2(l, THREAD_LSHR, part, lower_i32(l, t->first)) : part;
}

/* The lane that is so many further on in the run. */
static Reg
lane_on(Lower *l, const Turn *t, int by)
{
	int64_t mask = ((INT64_C(1) << t->lanes) - 1) << t->first;
	Reg on = lower_op2(l, THREAD_ADD, l->lane, lower_i32(l, (int64_t)by << t->first));
	Reg rest = lower_op2(l, THREAD_AND, l->lane, lower_i32(l, ~mask & 0x7fffffff));
	return lower_op2(l, THREAD_OR, rest, lower_op2(l, THREAD_AND, on, lower_i32(l, mask)));
}

/* v, or 0 where register r's element comes from outside. */
static Reg
only_inside(Lower *l, const Op *op, const Turn *t, int r, Reg thread, Reg v)
{
	const Layout *to = op->out[0].layout;
	int64_t n = INT64_C(1) << to->out[t->axis], own = lower_register_coordinate(to, r, t->axis);
	int64_t most = ((INT64_C(1) << t->lanes) - 1) << t->low;        /* of the thread's part */
	bool ahead = t->by > 0;
	int64_t limit = ahead ? n - t->by - own : -t->by - own;         /* thread's part below it, or not below it */
	Reg zero = lower_zero(l, lower_type(op->out[0].type));
	if (ahead ? most < limit : limit <= 0)
		return v;
	if (ahead ? limit <= 0 : most < limit)
		return zero;
	Reg below = lower_op2(l, THREAD_SLT, thread, lower_i32(l, limit));
	return ahead ? lower_op3(l, THREAD_SELECT, below, v, zero) : lower_op3(l, THREAD_SELECT, below, zero, v);
}

static void
lower_turn(Lower *l, Op *op, const Turn *t)
{
	Value *v = &op->out[0];
	const Reg *in = lower_operand(l, op, 0, v->layout);
	Reg *out = lower_new(l, v), part = t->shuffles ? lane_part(l, t) : 0;
	Reg thread = t->wraps ? 0 : lower_thread_coordinate(l, v->layout, t->axis);
	RegType type = lower_type(v->type);
	for (int r = 0; r < lower_count(v); r++) {
		TurnFrom from = turn_from(v->layout, t, r);
		out[r] = in[from.near];
		if (from.lanes && t->flips) {
			out[r] = lower_lane_xor(l, type, out[r], from.lanes << t->first);
		} else if (from.lanes) {                /* the sender's number below that: its receiver's is not */
			Reg round = lower_op2(l, THREAD_ULT, part, lower_i32(l, from.lanes));
			if (from.far != from.near)
				out[r] = lower_op3(l, THREAD_SELECT, round, in[from.far], out[r]);
			out[r] = lower_lane_from(l, type, out[r], lane_on(l, t, from.lanes));
		}
		if (!t->wraps)
			out[r] = only_inside(l, op, t, r, thread, out[r]);
	}
}

static void
lower_gather(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	Turn turn;
	Layout rows;
	if (gather_row_layout(op, v->layout, &rows)) {
		lower_gather_rows(l, op, &rows);
		return;
	}
	if (plan_turn(op, &turn)) {
		lower_turn(l, op, &turn);
		return;
	}
	const Type *t = op->in[0]->type;
	RegType type = lower_type(v->type);
	int axis = (int)attr_axis(op), n = lower_count(v);
	const Reg *index = lower_operand(l, op, 1, v->layout);
	bool whole = gather_piece(op, l->t) == tile_bytes(op->in[0]->type);
	Reg base = whole ? stage(l, op) : 0, *out = lower_new(l, v);
	Reg *is = NEW_ARRAY(l->mem, Reg, n), *offset = NEW_ARRAY(l->mem, Reg, n);
	int64_t *constant = NEW_ARRAY(l->mem, int64_t, n);
	LowerStrides s = lower_row_strides(t);
	Reg zero = lower_zero(l, type);
	int shift = s.shift[axis];
	s.shift[axis] = -1;
	for (int r = 0; r < n; r++) {
		Reg at = lower_element_offset(l, &s, v->layout, r, &constant[r]);
		Reg i = lower_bounded_index(l, op->in[1]->type->elem, index[r], t->extent[axis], &is[r]);
		i = lower_op2(l, THREAD_UMIN, i, lower_i32(l, t->extent[axis] - 1));
		i = lower_op2(l, THREAD_MUL, i, lower_i32(l, (int64_t)s.bytes << shift));
		offset[r] = lower_op2(l, THREAD_ADD, at, i);
		out[r] = whole ? lower_read_element(l, base, type, offset[r], constant[r]) : zero;
		if (whole)
			out[r] = lower_op3(l, THREAD_SELECT, is[r], out[r], zero);
	}
	if (whole)
		return;
	gather_by_pieces(l, op, offset, constant, out);
	for (int r = 0; r < n; r++)
		out[r] = lower_op3(l, THREAD_SELECT, is[r], out[r], zero);
}

void
lower_move(Lower *l, Op *op)
{
	switch (op->kind) {
	case OP_JOIN: lower_join(l, op); return;
	case OP_SPLIT: lower_split(l, op); return;
	case OP_CAT: lower_cat(l, op); return;
	case OP_FLIP: lower_flip(l, op); return;
	case OP_EXTRACT: lower_extract(l, op); return;
	default: lower_gather(l, op);
	}
}
