/* How many blocks of a kernel a multiprocessor is to hold, where saying so pays.
 *
 * The assemblers below make of it what they like.  ptxas saves registers so that one block more fits, and begins some of
 * the loads that could be under way together only after the first ones' values are used.  The driver's, which compiles for
 * linking, takes all registers that make the order best, and few blocks fit.  Asked for a number of blocks both give the
 * same code.  Where tiles are read once others are held over reductions, both matter: blocks in other phases use memory
 * while this one reduces, and what it reads then should come all at once.  Half of the threads that a multiprocessor holds
 * are enough, and each has 64 registers then:
 *
 *     %v = read … : f32[8192] #0          256 threads: 32 registers each, which stay over both reductions:
 *     %m = reduce %v …                    65536 / (64 * 256) = 4 blocks
 *     %s = reduce …
 *     %w = read …
 *
 * Were it asked where more is held, registers would spill.  What is held is counted where elements cannot be worked on one
 * after another, that is across reductions.  Loops and branches, scans, products, functions that are long in registers, and
 * tiles that reach out of their tensors are left alone. */
#include "lower/lower.h"

enum { REGISTERS = 64, HELD_LEAST = 24, HELD_MOST = 36 };
enum { BLOCKS_MOST = 16, OPS_MOST = 512 };       /* the fewest that a multiprocessor may hold on any target */

typedef struct Span {
	int first, last;                                /* numbers of ops */
	int words;                                      /* registers of 32 bits that a thread holds it in */
} Span;

static int
words_of(const Value *v)
{
	const Type *t = v->type;
	if (t->kind != TYPE_TILE || t->rank == 0 || !v->layout)
		return 0;
	if (v->def && (v->def->kind == OP_CONST || v->def->kind == OP_IOTA || v->def->kind == OP_BROADCAST))
		return 0;
	int64_t bytes = t->ptr != PTR_NONE ? 8 : MAX(dtype_info[t->elem].bits / 8, 1);
	return (int)((bytes << v->layout->in[IN_REGISTER]) + 3) / 4;
}

/* Ops whose code takes many registers, or of which one must know more than what tiles they hold. */
static bool
has_unmodelled_pressure(const Op *op)
{
	switch (op_info[op->kind].cost) {
	case COST_LONG: case COST_WHOLE: case COST_OPAQUE:
		return true;
	case COST_FREE: case COST_ALU: case COST_SFU: case COST_DIVIDE: case COST_ACCESS: case COST_NONE:
		break;
	}
	return op_family(op) == FAMILY_ATOMIC || op_family(op) == FAMILY_BUFFER ||
	    (op->nout > 0 && (op->out[0].type->elem == TY_F64 || op->out[0].type->ptr != PTR_NONE));
}

/* Masks and clamped addresses take registers that nobody counted. */
static bool
is_tested(const Op *op)
{
	const Attr *inside = op_attr(op, "inside");
	if (op->kind != OP_READ && op->kind != OP_WRITE)
		return op->kind == OP_LOAD || op->kind == OP_STORE;
	for (int i = 0; inside && i < inside->nints; i++)
		if (!inside->ints[i])
			return true;
	return !inside && op->in[0]->type->rank > 0;
}

/* Where every element of what is alive is there at once. */
static bool
holds(const Op *op)
{
	return op->kind == OP_REDUCE;
}

typedef struct Holding {
	Arena *mem;
	Span *span;                                     /* by the value's id */
	int nspan;
	VEC(const Op *) ops;
} Holding;

static bool
make_spans(Holding *h, const Func *f)
{
	for (const Op *op = f->body->first; op; op = op->next) {
		if (op->nregion > 0 || has_unmodelled_pressure(op) || is_tested(op) || h->ops.n >= OPS_MOST)
			return false;
		vec_push(h->mem, &h->ops, op);
	}
	h->span = NEW_ARRAY(h->mem, Span, MAX(h->nspan, 1));
	for (int i = 0; i < h->ops.n; i++) {
		const Op *op = h->ops.at[i];
		for (int k = 0; k < op->nout; k++)
			h->span[op->out[k].id] = (Span){i, i, words_of(&op->out[k])};
		for (int k = 0; k < op->nin; k++)
			h->span[op->in[k]->id].last = i;
	}
	return true;
}

/* A tile that is made only to be reduced at once is never there as a whole. */
static bool
is_passing(const Holding *h, const Value *v, int at)
{
	const Span *s = &h->span[v->id];
	return s->last == at && v->def && (op_info[v->def->kind].traits & ELEM);
}

static int
words_at(const Holding *h, const Func *f, int at)
{
	const Op *op = h->ops.at[at];
	int n = 0;
	for (int i = 0; i < f->nvalues; i++)
		if (h->span[i].first < at && h->span[i].last > at)
			n += h->span[i].words;
	for (int k = 0; k < op->nin; k++)
		if (h->span[op->in[k]->id].last == at && !is_passing(h, op->in[k], at))
			n += h->span[op->in[k]->id].words;
	return n;
}

/* The most registers that a thread has to hold tiles in, and those of the largest tile that is read once something is
 * held; false: nobody knows. */
static bool
words_held(const Func *f, Arena *mem, int *held, int *late)
{
	Holding h = {.mem = mem, .nspan = f->nvalues};
	*held = *late = 0;
	if (!make_spans(&h, f))
		return false;
	for (int i = 0; i < h.ops.n; i++) {
		const Op *op = h.ops.at[i];
		if (holds(op))
			*held = MAX(*held, words_at(&h, f, i));
		else if (*held > 0 && (op->kind == OP_READ || op->kind == OP_LOAD))
			*late = MAX(*late, words_of(&op->out[0]));
	}
	return true;
}

int
lower_resident(Func *f, const Target *t, Arena *mem)
{
	int warps = f->schedule.warps, held, late;
	if (t->kind != TARGET_PTX || warps == 0 || f->schedule.persistent)
		return 0;
	func_number(f);
	if (!words_held(f, mem, &held, &late) || late == 0 || held < HELD_LEAST || held > HELD_MOST)
		return 0;
	int fit = MIN(4 * (t->registers / 4 / (REGISTERS * t->lanes)), t->max_warps);   /* a quarter is one scheduler's */
	return MIN(MAX(fit / warps, 1), BLOCKS_MOST);
}
