/* Matrix products by multiplications and additions, for types that no matrix instruction takes.
 *
 * Operands that were just got from slots of buffers are read where they are, in shared memory; others go to scratch, in
 * the type that is computed in, a with its rows together and b with its columns.  A thread reads what its registers of
 * the accumulator need of a few k by wide loads, which lanes share:
 *
 *     barrier                                         if scratch was written
 *     for k in K, some steps unrolled:
 *         a: the rows of this thread's registers at k        b: its columns at k
 *         acc[r] += a[row of r] * b[column of r]
 *
 * Loads are along rows, columns or k, whichever neighbours in memory.  In scratch, a mostly comes with neighbours along
 * K in a thread, whose stores down a column would meet in one bank: groups of four k move the rows about among
 * themselves. */
#include "lower/matrix/dot.h"

#include <string.h>

enum { MOST_UNROLLED = 5, MOST_STEPS = 2048, SHIFTED = 2, SHIFTS = 3 };      /* log2, but for STEPS: products unrolled */

typedef struct Side {
	DType from;
	Layout given;                                   /* of the operand */
	Layout want;                                    /* registers: those of the accumulator that move it, and k */
	Layout shared;
	const Value *slot;                              /* where it is read; NULL: in scratch */
	int nregs;                                      /* log2 of the former */
	int reg_bit[F2_MAX];                            /* which of the accumulator's */
	int k_dim;
	bool k_first;                                   /* in `want`: k's bits are the lower ones */
	int vector;                                     /* log2 of the elements of a load */
	int64_t at;                                     /* in scratch */
} Side;

typedef struct Product {
	const Op *op;
	Layout acc;
	DType compute;
	RegType type;
	Side side[2];
	int k_bits, unrolled;                           /* log2 of K, and of what is unrolled */
	int chunk;                                      /* log2 of the k that are loaded together */
} Product;

static DType
compute_type(DType out)
{
	if (dtype_is_float(out))
		return out == TY_F64 ? TY_F64 : TY_F32;
	return dtype_info[out].bits > 32 ? TY_U64 : TY_U32;
}

/* What a thread reads of an operand: the accumulator's bits, without the dimension `lost`, and all of K. */
static void
side_want(Side *s, const Product *p, int lost, bool k_first)
{
	const Layout *acc = &p->acc;
	Layout *w = &s->want;
	uint64_t k_at = UINT64_C(1) << layout_out_at(&s->given, s->k_dim);
	*w = (Layout){.rank = acc->rank};
	memcpy(w->out, s->given.out, sizeof w->out);
	w->map.nout = layout_out_bits(w);
	s->k_first = k_first;
	s->nregs = 0;
	for (int i = 0; i < p->k_bits && k_first; i++)
		w->map.col[w->map.nin++] = k_at << i;
	for (int i = 0; i < acc->in[IN_REGISTER]; i++) {
		uint64_t image = dot_share(acc, acc->map.col[i], lost, w);
		if (!image)
			continue;
		s->reg_bit[s->nregs++] = i;
		w->map.col[w->map.nin++] = image;
	}
	for (int i = 0; i < p->k_bits && !k_first; i++)
		w->map.col[w->map.nin++] = k_at << i;
	w->in[IN_REGISTER] = w->map.nin;
	for (int d = IN_LANE; d <= IN_WARP; d++) {
		w->in[d] = acc->in[d];
		for (int i = 0; i < acc->in[d]; i++)
			w->map.col[w->map.nin++] = dot_share(acc, acc->map.col[layout_in_at(acc, (InDim)d) + i], lost, w);
	}
}

/* The register of `want` for value r at step k. */
static int
want_at(const Product *p, const Side *s, int r, int k)
{
	return s->k_first ? k | r << p->k_bits : r | k << s->nregs;
}

/* Batches slowest, then k, then rows or columns. */
static void
side_place(Side *s, const Product *p, bool shifts)
{
	int rank = p->acc.rank, order[LAYOUT_RANK] = {s->k_dim == rank - 1 ? rank - 2 : rank - 1, s->k_dim};
	for (int d = 2; d < rank; d++)
		order[d] = rank - 1 - d;
	int phases = shifts ? MIN(SHIFTS, p->unrolled - SHIFTED) : 0;
	int vector = lower_type_bytes(p->type) == 8 ? 1 : 2;
	s->shared = layout_swizzled(rank, s->want.out, order, vector, SHIFTED, MAX(phases, 0));
}

/* log2 of the elements that loads in the order of `want` take. */
static int
side_vector(const Side *s, const Product *p)
{
	enum { WIDEST = 16 };
	int vector = layout_shared_vector(&s->want, &s->shared, lower_type_bytes(p->type), WIDEST);
	return MIN(vector, s->k_first ? p->unrolled : s->nregs);
}

/* Are the bytes of k from the unrolled ones on the operand's alone?  Then pieces of K are so many bytes apart. */
static bool
pieces_add(const Side *s, const Product *p)
{
	F2 inverse, to;
	uint64_t pieces = 0, others = 0;
	if (!f2_invert(&s->shared.map, &inverse))
		return false;
	to = f2_compose(&inverse, &s->want.map);
	int from = want_at(p, s, 0, 1 << p->unrolled), upto = want_at(p, s, 0, 1 << p->k_bits);
	for (int i = 0; i < to.nin; i++) {
		bool is_piece = i < s->want.in[IN_REGISTER] && 1 << i >= from && 1 << i < upto;
		*(is_piece ? &pieces : &others) |= to.col[i];
	}
	return (pieces & others) == 0;
}

/* Between a and b nothing but what leaves shared memory alone. */
static bool
only_reads(const Op *a, const Op *b, const Target *t)
{
	for (const Op *op = a; op != b; op = op->next)
		if (op->nregion || (op->kind != OP_GET && op->kind != OP_SLOT && !(op_info[op->kind].traits & PURE)) ||
		    (op != a && op->kind != OP_GET && lower_scratch_bytes(op, t) > 0))
			return false;
	return true;
}

/* The first of the two gets that the operands come from, with nothing but reading since; NULL: they do not. */
static const Op *
first_get(const Op *dot, const Target *t)
{
	const Op *a = dot->in[0]->def, *b = dot->in[1]->def;
	if (!a || !b || a->kind != OP_GET || b->kind != OP_GET || a->home != dot->home || b->home != dot->home)
		return NULL;
	for (const Op *op = a; op; op = op->next)
		if (op == b || op == dot)
			return only_reads(op == b ? a : b, dot, t) ? (op == b ? a : b) : NULL;
	return NULL;
}

/* Operands where they are in their slots, if all is as wished there. */
static bool
from_slots(Product *p, const Target *t)
{
	const Op *op = p->op;
	int rank = p->acc.rank;
	if (!first_get(op, t) || strcmp(op_text(op, "precision"), "tf32") == 0)
		return false;
	for (int i = 0; i < 2; i++) {
		Side *s = &p->side[i];
		const Value *slot = op->in[i]->def->in[0];
		F2 inverse;
		if (lower_type(op->in[i]->type) != p->type || !slot->layout || !f2_invert(&slot->layout->map, &inverse))
			return false;
		s->slot = slot;
		s->shared = *slot->layout;
		side_want(s, p, i == 0 ? rank - 1 : rank - 2, true);
		int along_k = side_vector(s, p);
		side_want(s, p, i == 0 ? rank - 1 : rank - 2, false);
		if (along_k > side_vector(s, p))
			side_want(s, p, i == 0 ? rank - 1 : rank - 2, true);
		if (!pieces_add(s, p) && p->k_bits != p->unrolled)
			return false;
	}
	return true;
}

static void
product_make(Product *p, const Op *op, const Target *t)
{
	int rank = op->out[0].type->rank;
	*p = (Product){.op = op, .acc = *op->out[0].layout, .compute = compute_type(op->out[0].type->elem)};
	p->type = lower_type(&(Type){.kind = TYPE_TILE, .elem = p->compute});
	p->k_bits = op->in[0]->layout->out[rank - 1];
	p->unrolled = MIN(p->k_bits, MOST_UNROLLED);
	while (p->unrolled > 0 && 1 << (p->unrolled + p->acc.in[IN_REGISTER]) > MOST_STEPS)
		p->unrolled--;
	for (int i = 0; i < 2; i++)
		p->side[i] = (Side){.from = op->in[i]->type->elem, .given = *op->in[i]->layout,
			.k_dim = i == 0 ? rank - 1 : rank - 2};
	if (!from_slots(p, t)) {
		for (int i = 0; i < 2; i++) {
			p->side[i].slot = NULL;
			side_want(&p->side[i], p, i == 0 ? rank - 1 : rank - 2, false);
			side_place(&p->side[i], p, i == 0);
		}
		p->side[1].at = ((int64_t)lower_type_bytes(p->type) << p->side[0].want.map.nout) + 15;
		p->side[1].at -= p->side[1].at % 16;
	}
	for (int i = 0; i < 2; i++) {
		p->side[i].vector = side_vector(&p->side[i], p);
		p->chunk = MAX(p->chunk, p->side[i].k_first ? p->side[i].vector : 0);
	}
}

int64_t
dot_fma_scratch(const Op *op, const Target *t)
{
	Product p;
	product_make(&p, op, t);
	int64_t b = (int64_t)lower_type_bytes(p.type) << p.side[1].want.map.nout;
	return MAX(p.side[0].slot ? 0 : p.side[1].at + b, lower_operand_bytes(op->in[2], &p.acc));
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
			thread_prim(l->b, PRIM_TO_TF32, &v[r], 1, NULL, 0, &v[r], 1);
			v[r] = lower_as(l, CAST_BITS, REG_F32, v[r]);
		}
	}
	lower_to_shared(l, base, v, &s->given, &s->shared, p->type);
}

/* The values of a chunk of steps from k on: out[step][value], by the accumulator's register bits that move this operand. */
static void
side_read(Lower *l, const Product *p, const Side *s, Reg base, int k, Reg **out)
{
	int bytes = lower_type_bytes(p->type), n = 1 << s->vector;
	int by_k = s->k_first ? n : 1, by_r = s->k_first ? 1 : n;
	Reg v[16];
	for (int i = 0; i < 1 << p->chunk; i += by_k)
		for (int r = 0; r < 1 << s->nregs; r += by_r) {
			EmitAccess a = {.space = SPACE_SHARED, .type = p->type, .n = n, .base = base, .align = bytes * n};
			int at = want_at(p, s, r, k + i);
			a.offset = lower_shared_offset(l, &s->want, &s->shared, bytes, at, &a.constant);
			thread_load(l->b, &a, v);
			for (int j = 0; j < n; j++)
				out[i + (s->k_first ? j : 0)][r + (s->k_first ? 0 : j)] = v[j];
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

/* A chunk of steps from k on. */
static void
step(Lower *l, const Product *p, const Reg base[2], int k, Reg *acc)
{
	Reg **v[2];
	bool is_float = dtype_is_float(p->compute);
	for (int i = 0; i < 2; i++) {
		v[i] = NEW_ARRAY(l->mem, Reg *, 1 << p->chunk);
		for (int j = 0; j < 1 << p->chunk; j++)
			v[i][j] = NEW_ARRAY(l->mem, Reg, 1 << p->side[i].nregs);
		side_read(l, p, &p->side[i], base[i], k, v[i]);
	}
	for (int j = 0; j < 1 << p->chunk; j++)
		for (int r = 0; r < 1 << p->acc.in[IN_REGISTER]; r++) {
			Reg a = v[0][j][value_of(&p->side[0], r)], b = v[1][j][value_of(&p->side[1], r)];
			acc[r] = is_float ? lower_op3(l, EMIT_FMA, a, b, acc[r])
			                  : lower_op2(l, EMIT_ADD, lower_op2(l, EMIT_MUL, a, b), acc[r]);
		}
}

/* Bytes from one unrolled piece of K to the next. */
static int64_t
piece_bytes(const Product *p, const Side *s)
{
	uint64_t place = UINT64_C(1) << (layout_out_at(&s->shared, s->k_dim) + p->unrolled), at;
	if (!f2_solve(&s->shared.map, place, &at))
		die("a placement that leaves out an element");
	return (int64_t)at * lower_type_bytes(p->type);
}

/* The thread's offsets are wanted by every piece: made before the loop, they are kept in it. */
static void
make_offsets(Lower *l, const Product *p)
{
	int64_t constant;
	for (int i = 0; i < 2; i++) {
		const Side *s = &p->side[i];
		for (int k = 0; k < 1 << p->unrolled; k++)
			for (int r = 0; r < 1 << s->nregs; r++)
				lower_shared_offset(l, &s->want, &s->shared, lower_type_bytes(p->type),
				    want_at(p, s, r, k), &constant);
	}
}

static void
steps(Lower *l, const Product *p, const Reg base[2], Reg *acc)
{
	int n = 1 << p->acc.in[IN_REGISTER], pieces = 1 << (p->k_bits - p->unrolled), by = 1 << p->chunk;
	if (pieces == 1) {
		for (int k = 0; k < 1 << p->unrolled; k += by)
			step(l, p, base, k, acc);
		return;
	}
	make_offsets(l, p);
	Reg *inside = NEW_ARRAY(l->mem, Reg, n), at[2];
	int kept = l->kept.n;
	Reg piece = thread_loop(l->b, lower_i32(l, 0), lower_i32(l, pieces), lower_i32(l, 1), acc, inside, n);
	for (int i = 0; i < 2; i++)
		at[i] = thread_pointer(l->b, base[i],
		    lower_op2(l, EMIT_MUL, piece, lower_i32(l, piece_bytes(p, &p->side[i]))));
	for (int k = 0; k < 1 << p->unrolled; k += by)
		step(l, p, at, k, inside);
	thread_loop_end(l->b, inside, acc, n);
	l->kept.n = kept;
}

/* Does the block meet between the gets and the dot?  Then others may write the slots while this thread still reads. */
static bool
meets_since_get(const Op *dot, const Target *t)
{
	for (const Op *op = first_get(dot, t)->next; op != dot->next; op = op->next)
		if (op_bool(op, "sync"))
			return true;
	return false;
}

void
dot_fma(Lower *l, Op *op, Reg *out)
{
	Product p;
	DType to = op->out[0].type->elem;
	product_make(&p, op, l->t);
	int n = 1 << p.acc.in[IN_REGISTER];
	bool slots = p.side[0].slot;
	const Reg *given = lower_operand(l, op, 2, &p.acc);
	Reg base[2], scratch = slots ? 0 : lower_scratch(l, op);
	for (int i = 0; i < 2; i++) {
		if (slots) {
			base[i] = lower_regs(l, p.side[i].slot)[0];
			continue;
		}
		base[i] = p.side[i].at ? thread_pointer(l->b, scratch, lower_i32(l, p.side[i].at)) : scratch;
		side_write(l, &p, i, base[i]);
	}
	if (!slots)
		lower_barrier(l);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, to, p.compute, given[r]);
	steps(l, &p, base, out);
	if (slots && (meets_since_get(op, l->t) || lower_operand_bytes(op->in[2], &p.acc)))
		lower_barrier(l);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, p.compute, to, out[r]);
}
