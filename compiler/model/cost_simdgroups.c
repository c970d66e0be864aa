/* What a launch of products takes on Apple's GPUs, roughly: to choose tiles by.  Only what tiles change is counted:
 *
 *     products   8 x 8 matrices at the rate of fused multiplications
 *     shared     bytes that simdgroups load from threadgroup memory: less for large tiles of a simdgroup
 *     l2         bytes of both operands, once a step
 *     waiting    nothing of a threadgroup overlaps, as it has no pipeline: memory, two barriers, then products, and others
 *                fill in, as many as registers and threadgroup memory hold; a lane has its sums and the words that are
 *                under way from device memory to threadgroup memory
 *
 * Arithmetic beside the products is the same for all tiles, and is left out. */
#include "model/model.h"

#include <math.h>

enum { OTHER_REGISTERS = 24, SCHEDULERS = 4, REFUSED = -1 };   /* addresses, indices and fragments */

typedef struct SimdCost {
	const Func *f;
	const TargetRates *r;
	const CostFacts *facts;
	int64_t most_bytes;                             /* of threadgroup memory */
	ProgramCost *c;
	int lanes;
	double sums, words;                             /* of all products; of a lane, under way from memory */
	int dots;
	bool fits;
} SimdCost;

/* Simdgroups lie in as square a grid as their number allows, with more of them along the longer side. */
static double
loaded_bytes(double rows, double cols, double depth, int warps, int bytes)
{
	int along = 1, across = 1;
	while (along * across < warps)
		*(rows / along >= cols / across ? &along : &across) *= 2;
	return depth * bytes * (rows * across + cols * along);
}

static void
add_dot(SimdCost *s, const Op *op, double n)
{
	const Type *a = op->in[0]->type, *out = op->out[0].type;
	ProgramCost *c = s->c;
	double rows = (double)out->extent[out->rank - 2], cols = (double)out->extent[out->rank - 1];
	double depth = (double)a->extent[a->rank - 1], batch = (double)type_count(out) / (rows * cols);
	int bytes = MAX(dtype_info[a->elem].bits / 8, 2);
	double operand[2] = {batch * rows * depth * bytes, batch * cols * depth * bytes};
	double both = operand[0] + operand[1], products = batch * rows * cols * depth / s->r->products_warp;
	double shared = (both + batch * loaded_bytes(rows, cols, depth, c->warps, bytes)) / s->r->shared_rate;
	s->fits &= MAX(operand[0], operand[1]) <= (double)s->most_bytes;
	double held = MAX(both <= (double)s->most_bytes ? both : MAX(operand[0], operand[1]), batch * rows * cols * bytes);
	c->shared_bytes = MAX(c->shared_bytes, MIN((int64_t)held, s->most_bytes));
	c->products += n * products;
	c->shared += n * shared;
	c->sectors += n * both / 32;
	c->path += n * (s->r->latency + 2 * s->r->barrier + both / s->r->l2_rate + shared +
	    products * MAX(SCHEDULERS / (double)c->warps, 1));
	s->sums += (double)type_count(out);
	s->words = MAX(s->words, MIN(both, (double)s->most_bytes) / 4 / (c->warps * s->lanes));
	s->dots++;
}

static void
walk(SimdCost *s, const Block *b, double n)
{
	for (const Op *op = b->first; op; op = op->next) {
		double times = op_is_loop(op) ? s->facts->trips(s->facts->user, op) : op->kind == OP_IF ? 0.5 : 1;
		for (int r = 0; r < op->nregion; r++)
			walk(s, op->region[r], n * times);
		if (op->kind == OP_DOT)
			add_dot(s, op, n);
	}
}

/* What is not the longest part hides behind it but for a share, a guess: nothing is pipelined. */
static double
exposed(const Bill *b)
{
	static const double SHARE = 0.25;
	double sum = 0, most = 0;
	for (int i = 0; i < BILL_PARTS; i++) {
		sum += b->part[i];
		most = MAX(most, b->part[i]);
	}
	return SHARE * b->programs * (sum - most);
}

double
simdgroups_cost(const Func *f, const Target *t, const CostFacts *facts, double programs, double bytes, Bill *out)
{
	ProgramCost c = {.warps = MAX(func_warps(f), 1), .share = 1};
	SimdCost s = {.f = f, .r = t->figures, .facts = facts, .most_bytes = t->shared_bytes, .c = &c,
	    .lanes = t->lanes, .fits = true};
	walk(&s, f->body, 1);
	c.registers = (int)fmin(ceil(s.sums / (c.warps * t->lanes) + s.words) + OTHER_REGISTERS, 1 << 20);
	*out = (Bill){.cycles = REFUSED};
	if (s.dots == 0 || programs < 1)
		return REFUSED;
	if (!s.fits || c.registers > t->max_registers || !bill_make(&c, t, programs, bytes, out)) {
		*out = (Bill){.cycles = REFUSED, .refused = !s.fits ? "threadgroup memory cannot hold its operands"
		    : "a lane has fewer registers"};
		return REFUSED;
	}
	out->cycles += exposed(out);
	return out->cycles;
}
