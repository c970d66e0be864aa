/* Parts of tiles that begin where the compiler knows, at a multiple of their own extents: rows, elements, halves.
 *
 * The elements of such a part share some bits of their coordinates.  In `c[1023, :]` of i32[1024, 16] the ten bits of the
 * row are 1.  A layout is a linear map, so each shared bit is an equation over the bits of register, lane and warp.  Gauss
 * solves each for one of its bits, a warp's if it has one, else a lane's, else a register's:
 *
 *     solved for registers only      each thread has its elements: registers are renamed
 *     and for lanes                  the lane that has it sends each element: one shuffle for each register
 *     and for warps                  the threads that have the part write it to scratch, and no other element
 *
 * In the first two cases what was picked out stands in a layout of its own, in which the lane bits that were solved for
 * repeat; from there it is converted like any tile.  Other parts (move.c) stand in scratch with the whole tile. */
#include "lower/fold.h"
#include "pass/layout/place.h"

enum { SHUFFLES_MOST = 16 };

/* One equation, solved for input bit `bit`: it is `value` and the sum of the input bits in `of`. */
typedef struct Solved {
	int bit;
	uint64_t of, value;
} Solved;

typedef struct Slice {
	const Layout *from;
	uint64_t fixed, at;                             /* the bits of coordinates that are shared, and what they are */
	Solved solved[F2_MAX];
	int n;
	SliceWay way;
	Layout made;                                    /* SLICE_REGISTERS, SLICE_SHUFFLES: of what is picked out */
	int reg[F2_MAX];                                /* the operand's register bit of each of its register bits */
} Slice;

/* Where the part begins, and which bits of coordinates that leaves; false: it is not known, or no multiple. */
static bool
find_fixed(const Op *op, Slice *s)
{
	const Attr *extents = op_attr(op, "extents");
	const char *index = op_text(op, "index");
	const Type *t = op->in[0]->type;
	for (int d = 0, e = 0; d < t->rank; d++) {
		int64_t n = index[d] == 'p' ? extents->ints[e++] : 1, start = 0;
		int at = layout_out_at(s->from, d);
		if ((n & (n - 1)) || (n < t->extent[d] && !lower_constant(op->in[1 + d], &start)))
			return false;
		start = n < t->extent[d] ? MAX(MIN(start, t->extent[d] - n), 0) : 0;
		if (start % n)
			return false;
		s->at |= (uint64_t)start << at;
		s->fixed |= (uint64_t)(t->extent[d] - n) << at;
	}
	return true;
}

/* Coordinates of the operand as those of the result. */
static uint64_t
kept(const Slice *s, uint64_t at)
{
	uint64_t r = 0;
	for (int b = 0, to = 0; b < s->from->map.nout; b++)
		if (!(s->fixed >> b & 1))
			r |= (at >> b & 1) << to++;
	return r;
}

/* Solves the equations that are left, rows [s->n, n), for inputs [lo, hi). */
static void
solve(Slice *s, Solved *row, int n, int lo, int hi)
{
	for (int bit = lo; bit < hi; bit++) {
		int r = s->n;
		while (r < n && !(row[r].of >> bit & 1))
			r++;
		if (r == n)
			continue;
		Solved pivot = row[r];
		row[r] = row[s->n];
		pivot.bit = bit;
		row[s->n++] = pivot;
		for (int i = 0; i < n; i++)
			if (i != s->n - 1 && row[i].of >> bit & 1) {
				row[i].of ^= pivot.of;
				row[i].value ^= pivot.value;
			}
	}
}

static void
solve_all(Slice *s)
{
	const F2 *map = &s->from->map;
	int n = 0, lanes = layout_in_at(s->from, IN_LANE), warps = layout_in_at(s->from, IN_WARP);
	for (int b = 0; b < map->nout; b++) {
		if (!(s->fixed >> b & 1))
			continue;
		s->solved[n] = (Solved){.value = s->at >> b & 1};
		for (int i = 0; i < map->nin; i++)
			s->solved[n].of |= (map->col[i] >> b & 1) << i;
		n++;
	}
	solve(s, s->solved, n, warps, map->nin);
	s->way = s->n > 0 ? SLICE_SHARED : SLICE_REGISTERS;
	int by_warps = s->n;
	solve(s, s->solved, n, lanes, warps);
	if (s->way == SLICE_REGISTERS && s->n > by_warps)
		s->way = SLICE_SHUFFLES;
	solve(s, s->solved, n, 0, lanes);
	for (int i = 0; i < s->n; i++)
		s->solved[i].of &= ~(UINT64_C(1) << s->solved[i].bit);
}

static bool
is_solved(const Slice *s, int bit)
{
	for (int i = 0; i < s->n; i++)
		if (s->solved[i].bit == bit)
			return true;
	return false;
}

/* What input bits set, with those that are solved for, in the operand's coordinates. */
static uint64_t
moves(const Slice *s, int bit)
{
	uint64_t at = s->from->map.col[bit];
	for (int i = 0; i < s->n; i++)
		if (s->solved[i].of >> bit & 1)
			at ^= s->from->map.col[s->solved[i].bit];
	return at;
}

/* The layout of what is picked out; false: it would begin elsewhere than at its first element. */
static bool
find_made(Slice *s, const Type *to)
{
	Layout *m = &s->made;
	uint64_t begin = 0;
	int regs = s->from->in[IN_REGISTER];
	*m = *s->from;
	m->rank = to->rank;
	m->in[IN_REGISTER] = m->map.nin = 0;
	m->map.nout = 0;
	for (int d = 0; d < to->rank; d++)
		m->map.nout += m->out[d] = log2_ceil(to->extent[d]);
	for (int bit = 0; bit < s->from->map.nin; bit++) {
		if (bit < regs && is_solved(s, bit))
			continue;
		if (bit < regs)
			s->reg[m->in[IN_REGISTER]++] = bit;
		m->map.col[m->map.nin++] = is_solved(s, bit) ? 0 : kept(s, moves(s, bit));
	}
	for (int i = 0; i < s->n; i++)
		begin ^= s->solved[i].value ? s->from->map.col[s->solved[i].bit] : 0;
	return kept(s, begin) == 0;
}

static bool
plan(const Op *op, Slice *s)
{
	*s = (Slice){.from = op->in[0]->layout};
	if (!s->from || s->from->in[IN_BLOCK] || layout_out_bits(s->from) > 30 || !find_fixed(op, s))
		return false;
	solve_all(s);
	if (s->way != SLICE_SHARED && !find_made(s, op->out[0].type))
		s->way = SLICE_SHARED;
	if (s->way == SLICE_SHUFFLES && 1 << s->made.in[IN_REGISTER] > SHUFFLES_MOST)
		s->way = SLICE_SHARED;
	return true;
}

static int64_t
part_bytes(const Op *op)
{
	return type_count(op->out[0].type) * lower_type_bytes(lower_type(op->out[0].type));
}

SliceWay
lower_slice_way(const Op *op, int64_t *scratch, int *shuffles)
{
	Slice s;
	*scratch = *shuffles = 0;
	if (!plan(op, &s)) {
		*scratch = type_count(op->in[0]->type) * lower_type_bytes(lower_type(op->in[0]->type));
		return SLICE_WHOLE;
	}
	if (s.way == SLICE_SHARED)
		*scratch = part_bytes(op);
	else if (op->out[0].layout)
		*scratch = lower_to_layout_bytes(&s.made, op->out[0].layout, lower_type(op->out[0].type));
	*shuffles = s.way == SLICE_SHUFFLES ? 1 << s.made.in[IN_REGISTER] : 0;
	return s.way;
}

bool
lower_extracts_whole(const Op *op)
{
	int64_t scratch;
	int shuffles;
	return lower_slice_way(op, &scratch, &shuffles) == SLICE_WHOLE;
}

/* ---- within a warp ---- */

static uint64_t
parity(uint64_t v)
{
	return (uint64_t)__builtin_parityll(v);
}

/* Register r of what is picked out: the operand's register and the constant part of the lane that has it. */
static uint64_t
source_of(const Slice *s, int r, uint64_t *lane)
{
	int regs = s->from->in[IN_REGISTER];
	uint64_t own = 0, all;
	for (int i = 0; i < s->made.in[IN_REGISTER]; i++)
		own |= (uint64_t)(r >> i & 1) << s->reg[i];
	all = own;
	for (int i = 0; i < s->n; i++)
		all ^= (s->solved[i].value ^ parity(s->solved[i].of & own)) << s->solved[i].bit;
	*lane = all >> regs;
	return all & ((UINT64_C(1) << regs) - 1);
}

/* The part of that lane that depends on this one's number. */
static void
lane_images(const Slice *s, uint64_t *image)
{
	int regs = s->from->in[IN_REGISTER];
	for (int j = 0; j < s->from->in[IN_LANE]; j++) {
		image[j] = is_solved(s, regs + j) ? 0 : UINT64_C(1) << j;
		for (int i = 0; i < s->n && image[j]; i++)
			if (s->solved[i].of >> (regs + j) & 1)
				image[j] |= UINT64_C(1) << (s->solved[i].bit - regs);
	}
}

static void
pick(Lower *l, const Slice *s, RegType type, const Reg *in, Reg *out)
{
	uint64_t image[F2_MAX] = {0}, lane;
	int n = s->from->in[IN_LANE] + s->from->in[IN_WARP];
	lane_images(s, image);
	for (int r = 0; r < 1 << s->made.in[IN_REGISTER]; r++) {
		int64_t more;
		out[r] = in[source_of(s, r, &lane)];
		if (s->way == SLICE_REGISTERS)
			continue;
		Reg at = lower_thread_offset(l, image, n, lane, &more);
		if (more)
			at = lower_op2(l, EMIT_ADD, at, lower_i32(l, more));
		out[r] = lower_lane_from(l, type, out[r], at);
	}
}

/* ---- through scratch ---- */

/* May this thread's register r be of the part?  *mask says when (0: always); false: never. */
static bool
is_of_part(Lower *l, const Slice *s, int r, Reg *mask)
{
	int regs = s->from->in[IN_REGISTER], n = s->from->map.nin - regs;
	uint64_t image[F2_MAX], touched = 0, differs = (f2_apply(&s->from->map, (uint64_t)r) ^ s->at) & s->fixed;
	for (int i = 0; i < n; i++)
		touched |= image[i] = s->from->map.col[regs + i] & s->fixed;
	if (differs & ~touched)
		return false;
	*mask = lower_is_first_holder(l, s->from);
	if (touched)
		*mask = lower_both(l, *mask,
		    lower_op2(l, EMIT_EQ, lower_thread_map(l, image, n), lower_i32(l, (int64_t)differs)));
	return true;
}

/* log2 of the neighbours of one row that a thread holds side by side and may write at once. */
static int
width_of(const Lower *l, const Op *op, int bytes)
{
	const Type *t = op->in[0]->type, *to = op->out[0].type;
	int last = t->rank - 1, n = 0;
	if (op_text(op, "index")[last] != 'p')
		return 0;
	n = MIN(layout_contiguous(op->in[0]->layout, last), log2_ceil(to->extent[to->rank - 1]));
	while (n > 0 && bytes << n > l->t->vector_bytes)
		n--;
	return n;
}

static void
write_part(Lower *l, const Slice *s, const Op *op, Reg base)
{
	RegType type = lower_type(op->out[0].type);
	int regs = s->from->in[IN_REGISTER], n = s->from->map.nin - regs, bytes = lower_type_bytes(type);
	int vector = width_of(l, op, bytes);
	const Reg *in = lower_regs(l, op->in[0]);
	uint64_t image[F2_MAX], repeats = layout_free_bits(s->from, IN_REGISTER);
	Reg v[16];
	for (int i = 0; i < n; i++)
		image[i] = kept(s, s->from->map.col[regs + i]) * (uint64_t)bytes;
	for (int r = 0; r < 1 << regs; r += 1 << vector) {
		EmitAccess a = {.space = SPACE_SHARED, .n = 1 << vector, .base = base, .align = bytes << vector,
			.type = type == REG_PRED ? REG_I8 : type == REG_GLOBAL ? REG_I64 : type};
		if ((uint64_t)r & repeats || !is_of_part(l, s, r, &a.mask))
			continue;
		uint64_t at = kept(s, f2_apply(&s->from->map, (uint64_t)r)) * (uint64_t)bytes;
		a.offset = lower_thread_offset(l, image, n, at, &a.constant);
		for (int i = 0; i < a.n; i++)
			v[i] = lower_to_memory(l, type, in[r + i]);
		thread_store(l->b, &a, v);
	}
}

static void
read_part(Lower *l, const Op *op, Reg base, Reg *out)
{
	const Layout *to = op->out[0].layout;
	RegType type = lower_type(op->out[0].type);
	int order[LAYOUT_RANK] = {0};
	if (to) {
		for (int d = 0; d < to->rank; d++)
			order[d] = to->rank - 1 - d;
		Layout rows = layout_row_major(to->rank, to->out, order);
		lower_from_shared(l, base, out, to, &rows, type);
		return;
	}
	EmitAccess a = {.space = SPACE_SHARED, .n = 1, .base = base, .align = lower_type_bytes(type),
		.type = type == REG_PRED ? REG_I8 : type == REG_GLOBAL ? REG_I64 : type};
	thread_load(l->b, &a, out);
	out[0] = lower_from_memory(l, type, out[0]);
}

bool
lower_slice(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	RegType type = lower_type(v->type);
	Slice s;
	if (!plan(op, &s))
		return false;
	Reg *out = lower_new(l, v);
	if (s.way == SLICE_SHARED) {
		Reg base = lower_scratch(l, op);
		write_part(l, &s, op, base);
		lower_barrier(l);
		read_part(l, op, base, out);
		return true;
	}
	Reg *made = NEW_ARRAY(l->mem, Reg, 1 << s.made.in[IN_REGISTER]);
	pick(l, &s, type, lower_regs(l, op->in[0]), made);
	if (v->layout)
		lower_to_layout(l, op, made, &s.made, v->layout, type, out);
	else
		out[0] = made[0];
	return true;
}
