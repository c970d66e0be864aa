/* Reads go before writes of other tensors.
 *
 *     write %a, %i, %s …                                 %m = mul %i, 2
 *     %m = mul %i, 2                                     %v = read %x, %m …
 *     %v = read %x, %m …                     =>          write %a, %i, %s …
 *     write %b, %i, %v …                                 write %b, %i, %v …
 *
 * The assembler moves no load across a store, so that a read behind a write waits for memory twice.  No other argument
 * overlaps one that is written (the language says so, launches check it): a read may pass writes of other tensors and,
 * of a tensor that is only read, atomics too.  What its address is made of goes along if it is plain arithmetic.  Pointers
 * may go anywhere: nothing passes a store through them, nor messages, PTX, loops and branches.
 *
 * Nor do loads move across the barriers of a product: outside of loops reads go before products too, so that the taps of a
 * convolution that is written out, each a product, come together.  Loops have pipelines for what products take, and stay
 * as they are in kernels that multiply.
 *
 * A tile that is read early stands in registers meanwhile: WORDS_MOST of a thread, over each write, are so many as reads
 * under way hold at once (model/live.c), PRODUCT_WORDS_MOST in kernels that multiply, and
 * of many warps a third of their registers. */
#include "model/model.h"
#include "pass/pass.h"

enum { WORDS_MOST = 32, PRODUCT_WORDS_MOST = 64, PRODUCT_SHARE = 3, ALONG_MOST = 32 };

typedef struct Early {
	const Func *f;
	int most;                                       /* words that may pass */
	bool multiplies;                                /* the kernel */
	int *words;                                     /* that pass the n'th post of a block, of a thread */
	Op *along[ALONG_MOST];                          /* the read, then what it needs, from back to front */
	int n;
} Early;

static bool
goes_along(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_INDEX: case FAMILY_SHAPE: case FAMILY_ARITH: case FAMILY_COMPARE: case FAMILY_CAST:
		return op_has(op, PURE) && !op->nregion;
	default:
		return false;
	}
}

static bool
may_pass(const Early *e, const Op *read, const Op *op)
{
	const FuncParam *p = &e->f->param[read->in[0]->index];
	if (op->nregion)
		return op_has_fn(op);
	if (op->kind == OP_ATOMIC)
		return p->access == ACCESS_IN;
	if (op->kind == OP_WRITE)
		return access_is_tensor(op) && op->in[0] != read->in[0];
	return op->kind == OP_READ || op->kind == OP_LOAD || op_has(op, PURE);
}

/* What reads go before. */
static bool
is_post(const Op *op)
{
	return op_has(op, WRITES) || op->kind == OP_DOT;
}

/* Before which post the read may go, and, in e->along[0 .. *n), with what; NULL: it stays. */
static Op *
find_place(Early *e, Op *read, int posts, int *n)
{
	int words = live_words(&read->out[0]);
	Op *place = NULL;
	e->along[0] = read;
	e->n = 1;
	for (Op *op = read->prev; op; op = op->prev) {
		if (ANY_OF(i, e->n, ANY_OF(k, e->along[i]->nin, e->along[i]->in[k]->def == op))) {
			if (!goes_along(op) || e->n == ALONG_MOST)
				break;
			e->along[e->n++] = op;
		} else if (!may_pass(e, read, op)) {
			break;
		} else if (is_post(op)) {
			if (e->words[--posts] + words > e->most)
				break;
			e->words[posts] += words;
			place = op;
			*n = e->n;
		}
	}
	return place;
}

static void
walk(Early *e, Block *b)
{
	int posts = 0, all = COUNT_OPS_HERE(op, b, is_post(op));
	int *words = NEW_ARRAY(e->f->module->cx->tmp, int, MAX(all, 1));
	for (EACH_OP_HERE(op, b)) {
		for (int r = 0; r < op->nregion && !e->multiplies; r++)
			walk(e, op->region[r]);
		posts += is_post(op);
		if (op->kind != OP_READ || !access_is_tensor(op))
			continue;
		int n = 0;
		e->words = words;
		Op *place = find_place(e, op, posts, &n);
		while (place && n > 0)
			op_move(e->along[--n], b, place);
	}
}

static bool
multiplies(const Func *f)
{
	return ANY_OP(op, f->body, op_family(op) == FAMILY_DOT);
}

void
pass_hoist(Func *f, const Target *t)
{
	int share = t->registers / (MAX(f->schedule.warps, 1) * t->lanes) / PRODUCT_SHARE;
	Early e = {.f = f, .multiplies = multiplies(f)};
	e.most = e.multiplies ? MIN(PRODUCT_WORDS_MOST, share) : WORDS_MOST;
	if (!e.multiplies || (t->has & HAS_PIPELINES))  /* else other blocks fill in */
		walk(&e, f->body);
}
