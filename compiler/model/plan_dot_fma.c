/* Products by multiplications and additions, for types that no matrix instruction takes: where operands are read, in what
 * order, and how far the loop over K is unrolled.
 *
 * An operand that was just got from a slot of a buffer is read where it is, in shared memory; others go to scratch, in
 * the type that is computed in, a with its rows together and b with its columns.  Loads are along rows, columns or k,
 * whichever are neighbours in memory.  In scratch, a mostly comes with neighbours along K in a thread, whose stores down a
 * column would have bank conflicts: groups of four k move the rows about among themselves. */
#include "model/model.h"

#include <string.h>

enum { UNROLLED_MAX = 5, STEPS_MAX = 2048, SHIFTED = 2, SHIFTS = 3 };      /* log2, but for STEPS: products unrolled */

static DType
compute_type(DType out)
{
	if (dtype_is_float(out))
		return out == TY_F64 ? TY_F64 : TY_F32;
	return dtype_info[out].bits > 32 ? TY_U64 : TY_U32;
}

/* What a thread reads of operand i: the accumulator's bits, without the dimension that it has not, and all of K. */
static void
find_want(FmaPlan *p, int i, bool k_first)
{
	const Layout *acc = &p->acc;
	FmaSide *s = &p->side[i];
	Layout *w = &s->want;
	int lost = i == 0 ? acc->rank - 1 : acc->rank - 2;
	uint64_t k_at = UINT64_C(1) << layout_out_at(&s->given, s->k_dim);
	*w = (Layout){.rank = acc->rank};
	memcpy(w->out, s->given.out, sizeof w->out);
	w->map.nout = layout_out_bits(w);
	s->k_first = k_first;
	s->nregs = 0;
	for (int b = 0; b < p->k_bits && k_first; b++)
		w->map.col[w->map.nin++] = k_at << b;
	for (int b = 0; b < acc->in[IN_REGISTER]; b++) {
		uint64_t image = dot_share(acc, acc->map.col[b], lost, w);
		if (!image)
			continue;
		s->reg_bit[s->nregs++] = b;
		w->map.col[w->map.nin++] = image;
	}
	for (int b = 0; b < p->k_bits && !k_first; b++)
		w->map.col[w->map.nin++] = k_at << b;
	w->in[IN_REGISTER] = w->map.nin;
	for (int d = IN_LANE; d <= IN_WARP; d++) {
		w->in[d] = acc->in[d];
		for (int b = 0; b < acc->in[d]; b++)
			w->map.col[w->map.nin++] = dot_share(acc, acc->map.col[layout_in_at(acc, (InDim)d) + b], lost, w);
	}
}

int
fma_register(const FmaPlan *p, const FmaSide *s, int r, int k)
{
	return s->k_first ? k | r << p->k_bits : r | k << s->nregs;
}

/* Batches slowest, then k, then rows or columns. */
static void
find_scratch(FmaPlan *p, FmaSide *s, bool shifts)
{
	int rank = p->acc.rank, order[LAYOUT_RANK] = {s->k_dim == rank - 1 ? rank - 2 : rank - 1, s->k_dim};
	for (int d = 2; d < rank; d++)
		order[d] = rank - 1 - d;
	int phases = shifts ? MIN(SHIFTS, p->unrolled - SHIFTED) : 0;
	s->shared = layout_swizzled(rank, s->want.out, order, 4 - log2_ceil(p->bytes), SHIFTED, MAX(phases, 0));
}

/* log2 of the elements that loads in the order of `want` take. */
static int
load_vector(const FmaPlan *p, const FmaSide *s)
{
	enum { WIDEST = 16 };
	int vector = layout_shared_vector(&s->want, &s->shared, p->bytes, WIDEST);
	return MIN(vector, s->k_first ? p->unrolled : s->nregs);
}

/* Are the bytes of k from the unrolled ones on the operand's alone?  Then pieces of K are so many bytes apart. */
static bool
pieces_add(const FmaPlan *p, const FmaSide *s)
{
	F2 inverse, to;
	uint64_t pieces = 0, others = 0;
	if (!f2_invert(&s->shared.map, &inverse))
		return false;
	to = f2_compose(&inverse, &s->want.map);
	int from = fma_register(p, s, 0, 1 << p->unrolled), upto = fma_register(p, s, 0, 1 << p->k_bits);
	for (int i = 0; i < to.nin; i++) {
		bool is_piece = i < s->want.in[IN_REGISTER] && 1 << i >= from && 1 << i < upto;
		*(is_piece ? &pieces : &others) |= to.col[i];
	}
	return (pieces & others) == 0;
}

/* ---- operands in slots ---- */

static bool
leaves_shared(const Op *op)
{
	return op->kind == OP_GET || op->kind == OP_SLOT || op->kind == OP_READ || op_has(op, PURE);
}

/* Between a and b nothing but what leaves shared memory alone. */
static bool
only_reads(const Op *a, const Op *b, const Target *t)
{
	for (const Op *op = a; op != b; op = op->next)
		if (op->nregion || (!leaves_shared(op)) ||
		    (op != a && op->kind != OP_GET && plan_op(op, t).scratch > 0))
			return false;
	return true;
}

/* The get of the dot's block that an operand is, or is permuted; NULL: there is none. */
static const Op *
get_of(const Op *dot, int i)
{
	const Op *op = FIND_NEXT(o, dot->in[i]->def, o->in[0]->def, o->kind != OP_PERMUTE);
	return op && op->kind == OP_GET && op->home == dot->home ? op : NULL;
}

/* The layout of the slot of v's get, permuted as v is. */
static Layout
given_layout(const Value *v)
{
	if (v->def->kind == OP_GET)
		return *v->def->in[0]->layout;
	Layout l = given_layout(v->def->in[0]);
	int dims[LAYOUT_RANK];
	for (int i = 0; i < v->type->rank; i++)
		dims[i] = (int)attr_dims(v->def)->at[i];
	return layout_permute(&l, dims);
}

/* Is there a barrier between the get and the dot?  Then other threads may write the slot while this one still reads. */
static bool
waits_since(const Op *get, const Op *dot)
{
	for (const Op *op = get->next; op != dot->next; op = op->next)
		if (attr_sync(op))
			return true;
	return false;
}

/* An operand where it is in its slot, if its type and layout there serve. */
static bool
find_slot(FmaPlan *p, int i, const Target *t)
{
	FmaSide *s = &p->side[i];
	const Op *get = get_of(p->op, i);
	const Type *given = p->op->in[i]->type;
	F2 inverse;
	if (!get || !get->in[0]->layout || strcmp(attr_precision(p->op), "tf32") == 0 || !only_reads(get, p->op, t) ||
	    dtype_is_float(given->elem) != dtype_is_float(p->compute) || element_bytes(given) != p->bytes)
		return false;
	s->shared = given_layout(p->op->in[i]);
	if (!f2_invert(&s->shared.map, &inverse))
		return false;
	find_want(p, i, true);
	int along_k = load_vector(p, s);
	find_want(p, i, false);
	if (along_k > load_vector(p, s))
		find_want(p, i, true);
	if (!pieces_add(p, s) && p->k_bits != p->unrolled)
		return false;
	s->slot = get->in[0];
	p->waits |= waits_since(get, p->op);
	return true;
}

/* Scratch for one operand may lie where the other's slot was, unless a loop around both has that for all of its trips. */
static bool
outlasts(const FmaPlan *p, int i)
{
	const Op *loop = p->op->home->parent;
	const Op *buffer = buffer_owner(p->side[i].slot);
	return loop && op_is_loop(loop) && buffer && buffer->home != p->op->home;
}

static void
find_slots(FmaPlan *p, const Target *t)
{
	for (int i = 0; i < 2; i++)
		if (!find_slot(p, i, t))
			p->side[i].slot = NULL;
	for (int i = 0; i < 2; i++)
		if (p->side[i].slot && !p->side[1 - i].slot && !outlasts(p, i))
			p->side[i].slot = NULL;
}

void
plan_fma(const Op *op, const Target *t, FmaPlan *p)
{
	int rank = op->out[0].type->rank;
	*p = (FmaPlan){.op = op, .acc = *op->out[0].layout, .compute = compute_type(op->out[0].type->elem)};
	p->bytes = dtype_tile_size(p->compute);
	p->k_bits = op->in[0]->layout->out[rank - 1];
	p->depth = attr_depth(op) ? (int)attr_depth(op) : 1 << p->k_bits;
	p->unrolled = MIN(p->k_bits, UNROLLED_MAX);
	while (p->unrolled > 0 && 1 << (p->unrolled + p->acc.in[IN_REGISTER]) > STEPS_MAX)
		p->unrolled--;
	for (int i = 0; i < 2; i++)
		p->side[i] = (FmaSide){.from = op->in[i]->type->elem, .given = *op->in[i]->layout,
			.k_dim = i == 0 ? rank - 1 : rank - 2};
	find_slots(p, t);
	for (int i = 0; i < 2; i++) {
		if (p->side[i].slot)
			continue;
		find_want(p, i, false);
		find_scratch(p, &p->side[i], i == 0);
		p->side[i].at = (p->scratch + 15) / 16 * 16;
		p->scratch = p->side[i].at + ((int64_t)p->bytes << p->side[i].want.map.nout);
	}
	for (int i = 0; i < 2; i++) {
		p->side[i].vector = load_vector(p, &p->side[i]);
		p->chunk = MAX(p->chunk, p->side[i].k_first ? p->side[i].vector : 0);
	}
	p->scratch = MAX(p->scratch, operand_scratch(op->in[2], &p->acc));
}
