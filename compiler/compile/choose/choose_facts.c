/* What the choice of blocks asks of a function that went through all passes. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"

#include "pass/async/pipeline.h"

enum { OPS_MOST = 400 };

double
blocks_reads_ahead(const Func *f)
{
	double most = 0;
	for (const Op *loop = f->body->first; loop; loop = op_after(loop, f->body)) {
		double n = 0;
		bool is_ahead = loop->kind == OP_FOR && attr_unrolled(loop) > 0;
		for (const Op *op = is_ahead ? loop->region[0]->first : NULL; op; op = op->next) {
			const Layout *l = op->kind == OP_READ ? op->out[0].layout : NULL;
			int held = l ? l->in[IN_REGISTER] - __builtin_popcountll(layout_free_bits(l, IN_REGISTER)) : 0;
			n += op->kind == OP_READ ? MAX((double)(1 << held) / MAX(attr_vector(op), 1), 1) : 0;
		}
		most = MAX(most, n);
	}
	return most;
}

int
blocks_elements(const Func *f)
{
	int most = 1;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].layout)
				most = MAX(most, 1 << op->out[i].layout->in[IN_REGISTER]);
	return most;
}

int
blocks_longest_loop(const Func *f)
{
	int most = 0;
	for (const Op *loop = f->body->first; loop; loop = op_after(loop, f->body)) {
		int n = 0;
		for (const Op *op = loop->kind == OP_FOR ? loop->region[0]->first : NULL; op; op = op->next)
			n++;
		most = MAX(most, n);
	}
	return most;
}

static bool
is_crudely_modelled(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_DOT_ASYNC: case FAMILY_ORDER: case FAMILY_SCATTER: case FAMILY_PTX: return true;
	default: return false;
	}
}

bool
blocks_modelled(const Func *f)
{
	int n = 0;
	bool loops = false, multiplies = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (++n > OPS_MOST || is_crudely_modelled(op) || (op_is_loop(op) && op->kind != OP_FOR))
			return false;
		loops |= op_is_loop(op);
		multiplies |= op_family(op) == FAMILY_DOT;
	}
	return !loops || !multiplies;
}

bool
blocks_tally(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_family(op) == FAMILY_ATOMIC && tally_takes(f, op))
			return true;
	return false;
}

bool
blocks_loop(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_is_loop(op))
			return true;
	return false;
}

bool
blocks_reduce(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op->next)
		if (op_family(op) == FAMILY_REDUCE)
			return true;
	return false;
}

int
blocks_repeated_trips(const Func *f, const Bound *b)
{
	double most = 0;
	for (const Op *x = f->body->first; x; x = x->next)
		for (const Op *y = x->kind == OP_FOR ? x->next : NULL; y; y = y->next)
			if (y->kind == OP_FOR && x->in[0] == y->in[0] && x->in[1] == y->in[1] && x->in[2] == y->in[2])
				most = MAX(most, estimate_trips(f, b, x));
	return most <= schedule_info[SCHEDULE_KEEP].most ? (int)most : 0;
}
