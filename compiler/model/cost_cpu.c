/* What a program takes on the cpu device, roughly: to choose tiles by, whose sizes say how often the interpreter begins a
 * step, how often operands of products are read, and what caches hold.
 *
 *     time = programs of the fullest core * (program + sum over ops of (step + elements of the op))
 *
 * Neighbouring elementwise ops run strip by strip (ir/interp/fast/group.c): their values stay in the L1 cache.  What others
 * leave goes through the cache that the largest of them and their operands fit. */
#include "model/model.h"

#include <math.h>

typedef struct CpuCost {
	const CpuRow *row;
	const CostFacts *facts;
	double byte;                                    /* nanoseconds: of tiles that stand in memory between ops */
} CpuCost;

static double
bytes_of(const Value *v)
{
	return v->type->kind == TYPE_TILE ? (double)tile_bytes(v->type) : 0;
}

static double
op_bytes(const Op *op)
{
	double n = SUM_OF(double, i, op->nin, bytes_of(op->in[i]));
	for (int i = 0; i < op->nout; i++)
		n += bytes_of(&op->out[i]);
	return n;
}

/* Both operands are made f32 and packed, the accumulator is read and written. */
static double
product_cost(const CpuCost *c, const Op *op)
{
	const Type *a = op->in[0]->type, *out = op->out[0].type;
	double multiplied = (double)type_count(out) * (double)a->extent[a->rank - 1];
	double packed = (double)(type_count(a) + type_count(op->in[1]->type)) * 4 * 2;
	return multiplied * c->row->product + (packed + 2 * bytes_of(&op->out[0])) * c->byte;
}

static double
op_cost(const CpuCost *c, const Op *op)
{
	const CpuRow *r = c->row;
	double special, cost = r->step;
	if (op->kind == OP_DOT)
		return cost + product_cost(c, op);
	if (op_is_access(op)) {
		const Value *v = access_tile(op);
		return cost + (v ? bytes_of(v) : 0) * r->memory_byte;
	}
	if (op->kind == OP_CONST)                       /* once a worker */
		return 0;
	if (op->nout == 0 || op->out[0].type->kind != TYPE_TILE)
		return cost / 2;
	if (op_info[op->kind].traits & ELEM) {
		double elements = (double)type_count(op->out[0].type);
		cost_work(op, &special);
		return cost + elements * special * r->special +
		    ceil(bytes_of(&op->out[0]) / r->vector_bytes) * r->vector;
	}
	return cost + op_bytes(op) * c->byte;
}

static double
block_cost(const CpuCost *c, const Block *b)
{
	double sum = 0;
	for (const Op *op = b->first; op; op = op->next) {
		double n = op_is_loop(op) ? c->facts->trips(c->facts->user, op) : op->kind == OP_IF ? 0.5 : 1;
		for (int r = 0; r < op->nregion; r++)
			sum += n * block_cost(c, op->region[r]);
		if (op->nregion == 0)
			sum += op_cost(c, op);
	}
	return sum;
}

/* The most that an op which is not elementwise reads and leaves. */
static double
working_bytes(const Func *f)
{
	double most = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->nregion == 0 && !(op_info[op->kind].traits & ELEM) && !op_is_access(op))
			most = MAX(most, op_bytes(op));
	return most;
}

double
cpu_cost(const Func *f, const CpuRow *row, const CostFacts *facts, double programs)
{
	double bytes = working_bytes(f);
	CpuCost c = {row, facts, bytes <= (double)row->l1_bytes ? row->l1_byte
	    : bytes <= (double)row->l2_bytes ? row->l2_byte : row->memory_byte};
	return ceil(programs / row->cores) * (row->program + block_cost(&c, f->body));
}
