/* Matrix products by multiplications and additions, for types that no matrix instruction takes.
 *
 * Both operands go to scratch in the type that is computed in, a with its rows together and b with its columns, so that
 * a thread reads what its registers of the accumulator need of one k by wide loads, which lanes share:
 *
 *     barrier
 *     for k in K, a few steps unrolled:
 *         a: the rows of this thread's registers at k        b: its columns at k
 *         acc[r] += a[row of r] * b[column of r]
 *
 * a mostly comes with neighbours along K in a thread, whose stores down a column would meet in one bank: groups of four
 * k move the rows about among themselves. */
#include "lower/dot.h"

#include <string.h>

enum { MOST_UNROLLED = 5, MOST_STEPS = 2048, SHIFTED = 2, SHIFTS = 3 };      /* log2, but for STEPS: products unrolled */

typedef struct Side {
	DType from;
	Layout given;                                   /* of the operand */
	Layout want;                                    /* registers: those of the accumulator that move it, then k */
	Layout shared;
	int nregs;                                      /* log2 of the former */
	int reg_bit[F2_MAX];                            /* which of the accumulator's */
	int k_dim;
	int64_t at;                                     /* in scratch */
} Side;

typedef struct Product {
	const Op *op;
	Layout acc;
	DType compute;
	RegType type;
	Side side[2];
	int k_bits, unrolled;                           /* log2 of K, and of what is unrolled */
} Product;

static DType
compute_type(DType out)
{
	if (dtype_is_float(out))
		return out == TY_F64 ? TY_F64 : TY_F32;
	return dtype_info[out].bits > 32 ? TY_U64 : TY_U32;
}

/* What a thread reads of an operand: the accumulator's bits, without the dimension `lost`. */
static void
side_make(Side *s, const Product *p, const Value *v, int lost, int k_dim)
{
	const Layout *acc = &p->acc;
	int rank = acc->rank;
	*s = (Side){.from = v->type->elem, .given = *v->layout, .k_dim = k_dim};
	Layout *w = &s->want;
	*w = (Layout){.rank = rank};
	memcpy(w->out, v->layout->out, sizeof w->out);
	w->map.nout = layout_out_bits(w);
	for (int i = 0; i < acc->in[IN_REGISTER]; i++) {
		uint64_t image = dot_share(acc, acc->map.col[i], lost, w);
		if (!image)
			continue;
		s->reg_bit[s->nregs++] = i;
		w->map.col[w->map.nin++] = image;
	}
	for (int i = 0; i < p->k_bits; i++)
		w->map.col[w->map.nin++] = UINT64_C(1) << (layout_out_at(w, k_dim) + i);
	w->in[IN_REGISTER] = w->map.nin;
	for (int d = IN_LANE; d <= IN_WARP; d++) {
		w->in[d] = acc->in[d];
		for (int i = 0; i < acc->in[d]; i++)
			w->map.col[w->map.nin++] = dot_share(acc, acc->map.col[layout_in_at(acc, (InDim)d) + i], lost, w);
	}
}

static int
log2_bytes(RegType t)
{
	return lower_type_bytes(t) == 8 ? 3 : 2;
}

/* Batches slowest, then k, then rows or columns. */
static void
side_place(Side *s, const Product *p, bool shifts)
{
	int rank = p->acc.rank, order[LAYOUT_RANK] = {s->k_dim == rank - 1 ? rank - 2 : rank - 1, s->k_dim};
	for (int d = 2; d < rank; d++)
		order[d] = rank - 1 - d;
	int phases = shifts ? MIN(SHIFTS, p->unrolled - SHIFTED) : 0;
	s->shared = layout_swizzled(rank, s->want.out, order, 4 - log2_bytes(p->type), SHIFTED, MAX(phases, 0));
}

static void
product_make(Product *p, const Op *op)
{
	int rank = op->out[0].type->rank;
	*p = (Product){.op = op, .acc = *op->out[0].layout, .compute = compute_type(op->out[0].type->elem)};
	p->type = lower_type(&(Type){.kind = TYPE_TILE, .elem = p->compute});
	p->k_bits = op->in[0]->layout->out[rank - 1];
	p->unrolled = MIN(p->k_bits, MOST_UNROLLED);
	while (p->unrolled > 0 && 1 << (p->unrolled + p->acc.in[IN_REGISTER]) > MOST_STEPS)
		p->unrolled--;
	side_make(&p->side[0], p, op->in[0], rank - 1, rank - 1);
	side_make(&p->side[1], p, op->in[1], rank - 2, rank - 2);
	for (int i = 0; i < 2; i++)
		side_place(&p->side[i], p, i == 0);
	p->side[1].at = ((int64_t)lower_type_bytes(p->type) << p->side[0].want.map.nout) + 15;
	p->side[1].at -= p->side[1].at % 16;
}

int64_t
dot_fma_scratch(const Op *op)
{
	Product p;
	product_make(&p, op);
	int64_t b = (int64_t)lower_type_bytes(p.type) << p.side[1].want.map.nout;
	return MAX(p.side[1].at + b, lower_operand_bytes(op->in[2], &p.acc));
}

static void
side_write(Lower *l, const Product *p, int i, Reg base)
{
	const Side *s = &p->side[i];
	const Reg *in = lower_regs(l, p->op->in[i]);
	int n = 1 << s->given.in[IN_REGISTER];
	bool rounds = strcmp(op_text(p->op, "precision"), "tf32") == 0 && s->from == TY_F32;
	Reg *v = NEW_ARRAY(l->mem, Reg, n);
	for (int r = 0; r < n; r++) {
		v[r] = lower_cast_one(l, s->from, p->compute, in[r]);
		if (rounds && l->t->has & prim_info[PRIM_TO_TF32].needs) {
			l->e->prim(l->e, PRIM_TO_TF32, &v[r], 1, NULL, 0, &v[r], 1);
			v[r] = lower_as(l, CAST_BITS, REG_F32, v[r]);
		}
	}
	lower_to_shared(l, base, v, &s->given, &s->shared, p->type);
}

/* The values at step k: out[] by the accumulator's register bits that move this operand. */
static void
side_read(Lower *l, const Product *p, const Side *s, Reg base, int k, Reg *out)
{
	int bytes = lower_type_bytes(p->type);
	int vector = layout_shared_vector(&s->want, &s->shared, bytes, l->t->vector_bytes);
	vector = MIN(vector, s->nregs);
	for (int r = 0; r < 1 << s->nregs; r += 1 << vector) {
		EmitAccess a = {.space = SPACE_SHARED, .type = p->type, .n = 1 << vector, .base = base, .align = bytes << vector};
		a.offset = lower_shared_offset(l, &s->want, &s->shared, bytes, r | k << s->nregs, &a.constant);
		l->e->load(l->e, &a, out + r);
	}
}

/* Number of the operand's value that register r of the accumulator takes. */
static int
value_of(const Side *s, int r)
{
	int at = 0;
	for (int i = 0; i < s->nregs; i++)
		at |= (r >> s->reg_bit[i] & 1) << i;
	return at;
}

static void
step(Lower *l, const Product *p, const Reg base[2], int k, Reg *acc)
{
	Reg *v[2];
	bool is_float = dtype_is_float(p->compute);
	for (int i = 0; i < 2; i++) {
		v[i] = NEW_ARRAY(l->mem, Reg, 1 << p->side[i].nregs);
		side_read(l, p, &p->side[i], base[i], k, v[i]);
	}
	for (int r = 0; r < 1 << p->acc.in[IN_REGISTER]; r++) {
		Reg a = v[0][value_of(&p->side[0], r)], b = v[1][value_of(&p->side[1], r)];
		acc[r] = is_float ? lower_op3(l, EMIT_FMA, a, b, acc[r])
		                  : lower_op2(l, EMIT_ADD, lower_op2(l, EMIT_MUL, a, b), acc[r]);
	}
}

/* Bytes from one unrolled piece of K to the next; the bits above are plain rows. */
static int64_t
piece_bytes(const Product *p, const Side *s)
{
	uint64_t place = UINT64_C(1) << (layout_out_at(&s->shared, s->k_dim) + p->unrolled), at;
	if (!f2_solve(&s->shared.map, place, &at))
		die("a placement that leaves out an element");
	return (int64_t)at * lower_type_bytes(p->type);
}

static void
steps(Lower *l, const Product *p, const Reg base[2], Reg *acc)
{
	int n = 1 << p->acc.in[IN_REGISTER], pieces = 1 << (p->k_bits - p->unrolled);
	if (pieces == 1) {
		for (int k = 0; k < 1 << p->unrolled; k++)
			step(l, p, base, k, acc);
		return;
	}
	Emitter *e = l->e;
	/* the thread's offsets are wanted by every piece: made before the loop, they are kept in it */
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 1 << p->unrolled; k++)
			for (int r = 0; r < 1 << p->side[i].nregs; r++) {
				int64_t constant;
				lower_shared_offset(l, &p->side[i].want, &p->side[i].shared, lower_type_bytes(p->type),
				    r | k << p->side[i].nregs, &constant);
			}
	Reg *inside = NEW_ARRAY(l->mem, Reg, n), at[2];
	int kept = l->kept.n;
	Reg piece = e->loop_begin(e, lower_i32(l, 0), lower_i32(l, pieces), lower_i32(l, 1), acc, inside, n);
	for (int i = 0; i < 2; i++) {
		Reg by = lower_op2(l, EMIT_MUL, piece, lower_i32(l, piece_bytes(p, &p->side[i])));
		at[i] = e->pointer(e, base[i], by);
	}
	for (int k = 0; k < 1 << p->unrolled; k++)
		step(l, p, at, k, inside);
	e->loop_end(e, inside, acc, n);
	l->kept.n = kept;
}

void
dot_fma(Lower *l, Op *op, Reg *out)
{
	Product p;
	DType to = op->out[0].type->elem;
	product_make(&p, op);
	int n = 1 << p.acc.in[IN_REGISTER];
	const Reg *given = lower_operand(l, op, 2, &p.acc);
	Reg base[2], scratch = lower_scratch(l, op);
	for (int i = 0; i < 2; i++) {
		base[i] = p.side[i].at ? l->e->pointer(l->e, scratch, lower_i32(l, p.side[i].at)) : scratch;
		side_write(l, &p, i, base[i]);
	}
	lower_barrier(l);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, to, p.compute, given[r]);
	steps(l, &p, base, out);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, p.compute, to, out[r]);
}
