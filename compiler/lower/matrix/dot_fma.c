/* Matrix products by multiplications and additions, for types that no matrix instruction takes, as model/plan_dot_fma.c
 * plans them.  A thread reads what its registers of the accumulator need of a few k by wide loads, which lanes share:
 *
 *     barrier                                         if scratch was written
 *     for k in K, some steps unrolled:
 *         a: the rows of this thread's registers at k        b: its columns at k
 *         acc[r] += a[row of r] * b[column of r]
 *
 * Shared memory gives a multiprocessor 32 words a cycle, which multiplies 128: of 2 x 2 elements a thread loads a word for
 * each product.  Products of a block that share operands in slots, as the four of a complex one, are computed together, so
 * that a word is loaded once for all of them. */
#include "lower/lower.h"

#include <string.h>

static RegType
compute_type(const FmaPlan *p)
{
	return lower_type(&(Type){.kind = TYPE_TILE, .elem = p->compute});
}

static void
side_write(Lower *l, const FmaPlan *p, int i, Reg base)
{
	const FmaSide *s = &p->side[i];
	const Reg *in = lower_regs(l, p->op->in[i]);
	int n = 1 << s->given.in[IN_REGISTER];
	bool rounds = strcmp(attr_precision(p->op), "tf32") == 0 && s->from == TY_F32;
	Reg *v = NEW_ARRAY(l->mem, Reg, n);
	for (int r = 0; r < n; r++) {
		v[r] = lower_cast_one(l, s->from, p->compute, in[r]);
		if (rounds && l->t->has & prim_info[PRIM_TO_TF32].needs) {
			thread_prim(l->b, PRIM_TO_TF32, &v[r], 1, NULL, 0, &v[r], 1);
			v[r] = lower_as(l, CAST_BITS, REG_F32, v[r]);
		}
	}
	lower_to_shared(l, base, v, &s->given, &s->shared, compute_type(p));
}

/* Where an operand is read. */
typedef struct Source {
	Reg base;
	LowerShared at;
} Source;

/* The values of a chunk of steps from k on: out[step][value], by the accumulator's register bits that move this operand. */
static void
side_read(Lower *l, const FmaPlan *p, const FmaSide *s, const Source *from, int k, Reg **out)
{
	int n = 1 << s->vector;
	int by_k = s->k_first ? n : 1, by_r = s->k_first ? 1 : n;
	Reg v[16];
	for (int i = 0; i < 1 << p->chunk; i += by_k)
		for (int r = 0; r < 1 << s->nregs; r += by_r) {
			ThreadAccess a = lower_shared_access(from->base, compute_type(p));
			a.n = n;
			a.align *= n;
			a.offset = lower_shared_offset(l, &from->at, fma_register(p, s, r, k + i), &a.constant);
			thread_load(l->b, &a, v);
			for (int j = 0; j < n; j++)
				out[i + (s->k_first ? j : 0)][r + (s->k_first ? 0 : j)] = v[j];
		}
}

/* Number of the operand's value that register r of the accumulator takes. */
static int
value_of(const FmaSide *s, int r)
{
	int at = 0;
	for (int i = 0; i < s->nregs; i++)
		at |= (r >> s->reg_bit[i] & 1) << i;
	return at;
}

/* What side `i` of product `n` reads, which a product before may have read. */
static Reg **
read_once(Lower *l, const FmaTogether *t, Reg **(*read)[2], int n, int i, const Source *from, int k)
{
	const FmaPlan *p = &t->at[n].p;
	for (int m = 0; m <= n; m++)
		for (int j = 0; j < (m < n ? 2 : i); j++)
			if (fma_reads_alike(&p->side[i], &t->at[m].p.side[j]))
				return read[m][j];
	Reg **v = MAP_OF(l->mem, Reg *, j, 1 << p->chunk, NEW_ARRAY(l->mem, Reg, 1 << p->side[i].nregs));
	side_read(l, p, &p->side[i], from, k, v);
	return v;
}

/* A chunk of steps from k on; `at`: where each product's operands are read. */
static void
step(Lower *l, const FmaTogether *t, Source (*at)[2], int k, Reg **acc)
{
	Reg **read[FMA_TOGETHER_MOST][2];
	for (int n = 0; n < t->n; n++) {
		const FmaPlan *p = &t->at[n].p;
		bool is_float = dtype_is_float(p->compute);
		Reg *sum = acc[t->at[n].sum];
		for (int i = 0; i < 2; i++)
			read[n][i] = read_once(l, t, read, n, i, &at[n][i], k);
		for (int j = 0; j < 1 << p->chunk; j++)
			for (int r = 0; r < 1 << p->acc.in[IN_REGISTER]; r++) {
				Reg a = read[n][0][j][value_of(&p->side[0], r)];
				Reg b = read[n][1][j][value_of(&p->side[1], r)];
				sum[r] = is_float ? lower_op3(l, THREAD_FMA, a, b, sum[r])
				                  : lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, a, b), sum[r]);
			}
	}
}

/* Bytes from one unrolled piece of K to the next. */
static int64_t
piece_bytes(const FmaPlan *p, const FmaSide *s)
{
	uint64_t at_piece = UINT64_C(1) << (layout_out_at(&s->shared, s->k_dim) + p->unrolled), at;
	if (!f2_solve(&s->shared.map, at_piece, &at))
		die("a layout that leaves out an element");
	return (int64_t)at * p->bytes;
}

/* Offsets that the loop over pieces uses, made before it. */
static void
make_offsets(Lower *l, const FmaPlan *p, const Source from[2])
{
	int64_t constant;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 1 << p->unrolled; k++)
			for (int r = 0; r < 1 << p->side[i].nregs; r++)
				lower_shared_offset(l, &from[i].at, fma_register(p, &p->side[i], r, k), &constant);
}

/* Pieces of K in a loop, which carries all sums. */
static void
step_loop(Lower *l, const FmaTogether *t, int pieces, Source (*at)[2], Reg **acc)
{
	const FmaPlan *p = &t->at[0].p;
	int each = 1 << p->acc.in[IN_REGISTER], n = each * t->n;
	Reg *sums = NEW_ARRAY(l->mem, Reg, n), *inside = NEW_ARRAY(l->mem, Reg, n), *in[FMA_TOGETHER_MOST];
	for (int m = 0; m < t->n; m++) {
		make_offsets(l, &t->at[m].p, at[m]);
		memcpy(sums + m * each, acc[m], each * sizeof *sums);
	}
	Reg piece = thread_loop(l->b, lower_i32(l, 0), lower_i32(l, pieces), lower_i32(l, 1), sums, inside, n);
	for (int m = 0; m < t->n; m++) {
		in[m] = inside + m * each;
		for (int i = 0; i < 2; i++)
			at[m][i].base = thread_pointer(l->b, at[m][i].base,
			    lower_op2(l, THREAD_MUL, piece, lower_i32(l, piece_bytes(&t->at[m].p, &t->at[m].p.side[i]))));
	}
	for (int k = 0; k < 1 << p->unrolled; k += 1 << p->chunk)
		step(l, t, at, k, in);
	thread_loop_end(l->b, inside, sums, n);
	for (int m = 0; m < t->n; m++)
		memcpy(acc[m], sums + m * each, each * sizeof *sums);
}

static void
steps(Lower *l, const FmaTogether *t, Source (*at)[2], Reg **acc)
{
	const FmaPlan *p = &t->at[0].p;
	int each = 1 << p->unrolled, pieces = (p->depth + each - 1) / each;
	if (pieces > 1)
		step_loop(l, t, pieces, at, acc);
	for (int k = 0; k < p->depth && pieces == 1; k += 1 << p->chunk)
		step(l, t, at, k, acc);
}

/* Where operands are, in scratch once they are written there; true: they were. */
static bool
find_sources(Lower *l, const FmaPlan *p, Source from[2])
{
	bool slots = p->side[0].slot && p->side[1].slot;
	Reg scratch = slots ? 0 : lower_scratch(l, p->op);
	for (int i = 0; i < 2; i++) {
		const FmaSide *s = &p->side[i];
		from[i].base = s->slot ? lower_regs(l, s->slot)[0]
		    : s->at ? thread_pointer(l->b, scratch, lower_i32(l, s->at)) : scratch;
		if (!s->slot)
			side_write(l, p, i, from[i].base);
	}
	if (!slots)
		lower_barrier(l);
	for (int i = 0; i < 2; i++)
		from[i].at = lower_shared(l, &p->side[i].want, &p->side[i].shared, p->bytes);
	return !slots;
}

/* Was the product computed together with one before it? */
static bool
is_done(Lower *l, const Op *op)
{
	for (int i = 0; i < l->together.n; i++)
		if (l->together.at[i] == op) {
			l->together.at[i] = l->together.at[--l->together.n];
			return true;
		}
	return false;
}

void
lower_dot_fma(Lower *l, const Op *op)
{
	FmaTogether *t = NEW(l->mem, FmaTogether);
	Source from[FMA_TOGETHER_MOST][2];
	Reg *acc[FMA_TOGETHER_MOST];
	bool wrote = false;
	if (is_done(l, op))
		return;
	plan_fma_together(op, l->t, t);
	const FmaPlan *p = &t->at[0].p;
	DType to = op->out[0].type->elem;
	int n = 1 << p->acc.in[IN_REGISTER];
	for (int i = 0; i < t->n; i++) {
		Op *product = (Op *)t->at[i].p.op;
		const Reg *given = t->at[i].sum == i ? lower_operand(l, product, 2, &p->acc) : NULL;
		wrote |= find_sources(l, &t->at[i].p, from[i]);
		acc[i] = lower_new(l, &product->out[0]);
		for (int r = 0; r < n && given; r++)
			acc[i][r] = lower_cast_one(l, to, p->compute, given[r]);
		if (i > 0)
			vec_push(l->mem, &l->together, product);
	}
	steps(l, t, from, acc);
	bool slots = p->side[0].slot || p->side[1].slot;
	if (slots && (wrote || p->waits || operand_scratch(op->in[2], &p->acc)))
		lower_barrier(l);
	else if (slots && fma_reads_again(t->at[t->n - 1].p.op))        /* or LLVM would keep all that is loaded for that */
		lower_warp_barrier(l);
	for (int i = t->n - 1; i >= 0; i--)
		for (int r = 0; r < n; r++)
			acc[i][r] = lower_cast_one(l, p->compute, to, acc[t->at[i].sum][r]);
}
