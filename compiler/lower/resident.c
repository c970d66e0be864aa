/* How many blocks of a kernel a multiprocessor is to hold, where saying so pays.
 *
 * Left to itself ptxas saves registers so that one block more fits, and pays with order: of the loads that could be under
 * way together it begins some only after the first ones' values are used.  Half of the threads that a multiprocessor
 * holds are enough for memory, and each has 64 registers then.  So kernels that hold much in registers over their
 * reductions, but clearly less than those 64, ask for as many blocks as make 64 registers a thread:
 *
 *     %v = read … : f32[8192] #0          256 threads: 32 registers each, which stay over both reductions:
 *     %m = reduce %v …                    65536 / (64 * 256) = 4 blocks
 *     %s = reduce …
 *
 * Were it asked where more is held, registers would spill; where less is held, and no loop reads, ptxas finds room by
 * itself.  What is held is counted where elements cannot be worked on one after another: across reductions, scans and
 * trips of loops.  Products and functions that are long in registers are left alone. */
#include "lower/lower.h"

enum { REGISTERS = 64, HELD_LEAST = 24, HELD_LOOP = 12, HELD_MOST = 36, OPS_MOST = 512 };

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
is_unknown(const Op *op)
{
	switch (op->kind) {
	case OP_DOT: case OP_DOT_SCALED: case OP_DOT_START: case OP_ROLES: case OP_WHILE: case OP_ALLOC: case OP_SORT:
	case OP_TOPK: case OP_HISTOGRAM: case OP_GATHER: case OP_REDUCE_FN: case OP_SCAN_FN: case OP_PRINT: case OP_ASSERT:
	case OP_INLINE_PTX: case OP_PHILOX: case OP_POW: case OP_SIN: case OP_COS: case OP_TAN: case OP_SINH: case OP_COSH:
	case OP_ASIN: case OP_ACOS: case OP_ATAN: case OP_ATAN2: case OP_ERF: case OP_LOG1P: case OP_EXPM1: case OP_REM:
	case OP_FLOORDIV: case OP_CDIV: case OP_ATOMIC_PTR:
		return true;
	default:
		return op->nout > 0 && (op->out[0].type->elem == TY_F64 || op->out[0].type->ptr != PTR_NONE);
	}
}

/* Where every element of what is alive is there at once. */
static bool
holds(const Op *op)
{
	return op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOR;
}

/* The op in block `home`, or one around it, of which `op` is part. */
static const Op *
around(const Op *op, const Block *home)
{
	while (op && op->home != home)
		op = op->home->parent;
	return op;
}

typedef struct Holding {
	Arena *mem;
	Span *span;                                     /* by the value's id */
	int nspan;
	int *end;                                       /* of each op: the number of the last op inside */
	VEC(const Op *) ops;
} Holding;

static int
number_of(const Holding *h, const Op *op)
{
	for (int i = 0; i < h->ops.n; i++)
		if (h->ops.at[i] == op)
			return i;
	return h->ops.n;
}

static void
define(Holding *h, const Value *v, int at)
{
	h->span[v->id] = (Span){at, at, words_of(v)};
}

/* Used by op number `at`; where that is in a loop which v comes into from outside, to the loop's end. */
static void
use(Holding *h, const Value *v, const Op *op, int at)
{
	const Op *outer = around(op, v->def ? v->def->home : v->block);
	int last = outer && outer != op ? h->end[number_of(h, outer)] : at;
	h->span[v->id].last = MAX(h->span[v->id].last, last);
}

static bool
make_spans(Holding *h, const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (is_unknown(op) || h->ops.n >= OPS_MOST)
			return false;
		vec_push(h->mem, &h->ops, op);
	}
	h->span = NEW_ARRAY(h->mem, Span, MAX(h->nspan, 1));
	h->end = NEW_ARRAY(h->mem, int, MAX(h->ops.n, 1));
	for (int i = h->ops.n - 1; i >= 0; i--) {
		const Op *op = h->ops.at[i];
		h->end[i] = MAX(h->end[i], i);
		if (op->home->parent) {
			int parent = number_of(h, op->home->parent);
			h->end[parent] = MAX(h->end[parent], h->end[i]);
		}
	}
	for (int i = 0; i < h->ops.n; i++) {
		const Op *op = h->ops.at[i];
		for (int k = 0; k < op->nout; k++)
			define(h, &op->out[k], op->nregion > 0 ? h->end[i] : i);
		for (int r = 0; r < op->nregion; r++)
			for (int k = 0; k < op->region[r]->narg; k++)
				define(h, &op->region[r]->arg[k], i);
		for (int k = 0; k < op->nin; k++)
			use(h, op->in[k], op, i);
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

/* The most registers that a thread has to hold tiles in; -1: nobody knows. */
static int
words_held(const Func *f, Arena *mem)
{
	Holding h = {.mem = mem, .nspan = f->nvalues};
	int most = 0;
	if (!make_spans(&h, f))
		return -1;
	for (int i = 0; i < h.ops.n; i++)
		if (holds(h.ops.at[i]))
			most = MAX(most, words_at(&h, f, i));
	return most;
}

/* Loads of several trips are under way together where there are registers. */
static bool
reads_in_loops(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if ((op->kind == OP_READ || op->kind == OP_LOAD) && op->out[0].layout && op->home->parent &&
		    op->home->parent->kind == OP_FOR)
			return true;
	return false;
}

int
lower_resident(Func *f, const Target *t, Arena *mem)
{
	int threads = f->schedule.warps * t->lanes, held, least;
	if (t->kind != TARGET_PTX || f->schedule.warps == 0 || f->schedule.persistent)
		return 0;
	func_number(f);
	held = words_held(f, mem);
	least = reads_in_loops(f) ? HELD_LOOP : HELD_LEAST;
	return held >= least && held <= HELD_MOST ? MAX(t->registers / (REGISTERS * threads), 1) : 0;
}
