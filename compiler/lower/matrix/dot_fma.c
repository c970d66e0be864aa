/* Matrix products by multiplications and additions, for types that no matrix instruction takes, as model/plan_dot_fma.c
 * plans them.  A thread reads what its registers of the accumulator need of a few k by wide loads, which lanes share:
 *
 *     barrier                                         if scratch was written
 *     for k in K, some steps unrolled:
 *         a: the rows of this thread's registers at k        b: its columns at k
 *         acc[r] += a[row of r] * b[column of r] */
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

/* A chunk of steps from k on. */
static void
step(Lower *l, const FmaPlan *p, const Source from[2], int k, Reg *acc)
{
	Reg **v[2];
	bool is_float = dtype_is_float(p->compute);
	for (int i = 0; i < 2; i++) {
		v[i] = NEW_ARRAY(l->mem, Reg *, 1 << p->chunk);
		for (int j = 0; j < 1 << p->chunk; j++)
			v[i][j] = NEW_ARRAY(l->mem, Reg, 1 << p->side[i].nregs);
		side_read(l, p, &p->side[i], &from[i], k, v[i]);
	}
	for (int j = 0; j < 1 << p->chunk; j++)
		for (int r = 0; r < 1 << p->acc.in[IN_REGISTER]; r++) {
			Reg a = v[0][j][value_of(&p->side[0], r)], b = v[1][j][value_of(&p->side[1], r)];
			acc[r] = is_float ? lower_op3(l, THREAD_FMA, a, b, acc[r])
			                  : lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, a, b), acc[r]);
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

static void
steps(Lower *l, const FmaPlan *p, const Source from[2], Reg *acc)
{
	int n = 1 << p->acc.in[IN_REGISTER], by = 1 << p->chunk, each = 1 << p->unrolled;
	int pieces = (p->depth + each - 1) / each;
	if (pieces == 1) {
		for (int k = 0; k < p->depth; k += by)
			step(l, p, from, k, acc);
		return;
	}
	make_offsets(l, p, from);
	Reg *inside = NEW_ARRAY(l->mem, Reg, n);
	Source at[2] = {from[0], from[1]};
	Reg piece = thread_loop(l->b, lower_i32(l, 0), lower_i32(l, pieces), lower_i32(l, 1), acc, inside, n);
	for (int i = 0; i < 2; i++)
		at[i].base = thread_pointer(l->b, from[i].base,
		    lower_op2(l, THREAD_MUL, piece, lower_i32(l, piece_bytes(p, &p->side[i]))));
	for (int k = 0; k < each; k += by)
		step(l, p, at, k, inside);
	thread_loop_end(l->b, inside, acc, n);
}

void
lower_dot_fma(Lower *l, Op *op, Reg *out)
{
	FmaPlan p;
	DType to = op->out[0].type->elem;
	plan_fma(op, l->t, &p);
	int n = 1 << p.acc.in[IN_REGISTER];
	bool slots = p.side[0].slot && p.side[1].slot, any = p.side[0].slot || p.side[1].slot;
	const Reg *given = lower_operand(l, op, 2, &p.acc);
	Source from[2];
	Reg scratch = slots ? 0 : lower_scratch(l, op);
	for (int i = 0; i < 2; i++) {
		if (p.side[i].slot) {
			from[i].base = lower_regs(l, p.side[i].slot)[0];
			continue;
		}
		from[i].base = p.side[i].at ? thread_pointer(l->b, scratch, lower_i32(l, p.side[i].at)) : scratch;
		side_write(l, &p, i, from[i].base);
	}
	if (!slots)
		lower_barrier(l);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, to, p.compute, given[r]);
	for (int i = 0; i < 2; i++)
		from[i].at = lower_shared(l, &p.side[i].want, &p.side[i].shared, p.bytes);
	steps(l, &p, from, out);
	if (any && (!slots || p.waits || operand_scratch(op->in[2], &p.acc)))
		lower_barrier(l);
	for (int r = 0; r < n; r++)
		out[r] = lower_cast_one(l, p.compute, to, out[r]);
}
