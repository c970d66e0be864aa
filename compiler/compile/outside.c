/* What part of a tile lies outside of its tensor, how wide its accesses could be, and how often an op runs, at the
 * sizes of one launch.
 *
 *     read %x … {extents = [4096]}      of x: [NC, 3136]: 23 % of the elements are padding
 *
 * Each index is evaluated (address.c) in program and trip 0, 1, 2 … along every axis at once, counted modulo how many there
 * are, so that each axis is gone over evenly.  Ranges that begin where data says count as inside. */
#include "compile/address.h"
#include "pass/async/pipeline.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 1024, WIDEST = 16, STARTS = 8 };

/* The loop over programs around it, or NULL; asked once a line, since it goes through the loops' bodies. */
static const Op *
program_loop(const Op *line)
{
	const Op *loop = line->home->parent;
	while (loop && !(loop->kind == OP_FOR && ANY_OP_HERE(op, loop->region[0],
	    op->kind == OP_PROGRAM_AT && op->in[0] == &loop->region[0]->arg[0])))
		loop = loop->home->parent;
	return loop;
}

/* Trips of the loops around it, within that over programs, in that program; -1: not known. */
static double
runs_in(const Op *op, const Op *programs, const InspectArg *arg, int64_t nth)
{
	double runs = 1;
	const Block *in = op->home;
	for (const Op *loop = in->parent; loop; in = loop->home, loop = in->parent) {
		Walk w = {.arg = arg, .nth = nth, .wraps = true};
		int64_t from, to, step, on;
		if (loop->kind == OP_WHILE)
			return -1;
		if (loop->kind == OP_IF && address_scalar(&w, loop->in[0], &on) && (on != 0) != (in == loop->region[0]))
			return 0;
		if (loop->kind != OP_FOR)
			continue;
		if (loop == programs)
			break;
		if (!address_scalar(&w, loop->in[0], &from) || !address_scalar(&w, loop->in[1], &to) ||
		    !address_scalar(&w, loop->in[2], &step) || step == 0)
			return -1;
		runs *= MAX(ceil((double)(to - from) / (double)step), 0);
	}
	return runs;
}

/* ---- tiles ---- */

/* Elements start .. start + n - 1 that are in a dimension. */
static double
elements_inside(int64_t start, int64_t n, int64_t dim)
{
	return (double)MAX(MIN(start + n, dim) - MAX(start, 0), 0);
}

/* Those of one program and trip: the share of the tile, and elements along each range. */
static double
share_inside(Walk *w, const InspectArg *x, const InspectLine *l, double along[KERNEL_RANK])
{
	const Op *op = l->op;
	const char *index = attr_index(op);
	const IntList *valid = attr_valid(op);
	int tile = 0;
	bool gathered = false;
	double share = 1;
	int64_t start;
	for (int d = 0; index[d]; d++) {
		const Value *v = op->in[1 + d];
		bool is_known = index[d] != 'g' && address_scalar(w, v, &start);
		if (index[d] == 'g') {
			tile += gathered ? 0 : v->type->rank;
			gathered = true;
		} else if (index[d] == 'p' && tile < l->tile->rank) {
			int64_t extent = l->tile->extent[tile], n = extent;
			if (valid && tile < valid->n)
				n = MIN(valid->at[tile], n);
			double inside = is_known ? elements_inside(start, n, address_extent(x, op, d)) : (double)n;
			along[d] += inside;
			share *= inside / (double)extent;
			tile++;
		} else if (is_known) {
			share *= elements_inside(start, 1, address_extent(x, op, d));
		}
	}
	return share;
}

static void
find_outside(InspectLine *l, const InspectArg *arg, const InspectArg *x)
{
	double share = 0, along[KERNEL_RANK] = {0}, least = 1;
	const char *index = attr_index(l->op);
	const Op *programs = program_loop(l->op);
	int n = 0;
	for (int64_t nth = 0; nth < SAMPLES; nth++) {
		Walk w = {.arg = arg, .nth = nth, .wraps = true};
		bool runs = runs_in(l->op, programs, arg, nth) != 0;
		n += runs;
		share += runs ? share_inside(&w, x, l, along) : 0;
	}
	if (n == 0)
		return;
	for (int d = 0, tile = 0; index[d]; d++) {
		if (index[d] != 'p' || tile >= l->tile->rank || strchr(index, 'g'))
			continue;
		double of = (double)l->tile->extent[tile++];
		if (along[d] / n / of >= least)
			continue;
		least = along[d] / n / of;
		l->outside = (InspectOutside){.dim = d, .inside = along[d] / n, .of = of};
	}
	l->outside.share = l->outside.of > 0 ? MAX(1 - share / n, 0) : 0;
}

/* Neighbours along the last dimension, as many as rows and starts are aligned to. */
static void
find_wider(InspectLine *l, const Target *t, const InspectArg *arg, const InspectArg *x)
{
	const char *index = attr_index(l->op);
	int rank = (int)strlen(index), bits = dtype_info[l->tile->elem].bits;
	int64_t start, bytes = WIDEST;
	if (rank == 0 || index[rank - 1] != 'p' || l->tile->rank == 0 || x->stride[rank - 1] != 1 || l->bytes == 0)
		return;
	bytes = MIN(bytes, l->tile->extent[l->tile->rank - 1] * bits / 8);
	while (bytes > l->bytes && bytes > x->dim[rank - 1] * bits / 8)
		bytes /= 2;
	if (op_family(l->op) == FAMILY_ATOMIC)          /* of which there are pairs at most */
		bytes = MIN(bytes, (access_adds_pairs(l->op, t) ? 2 : 1) * bits / 8);
	for (int d = 0; d < rank - 1; d++)
		while (x->dim[d] > 1 && bytes > 1 && x->stride[d] * bits / 8 % bytes)
			bytes /= 2;
	for (int64_t nth = 0; nth < STARTS; nth++) {
		Walk w = {.arg = arg, .nth = nth};
		if (!address_scalar(&w, l->op->in[rank], &start))
			return;
		while (bytes > 1 && start * bits / 8 % bytes)
			bytes /= 2;
	}
	l->wider = bytes > l->bytes ? (int)bytes : 0;
}

void
inspect_outside(InspectLine *l, const Target *t, const InspectArg *arg)
{
	Walk w = {.arg = arg};
	bool moves = l->kind == INSPECT_ACCESS || l->kind == INSPECT_COPY;
	if (!moves || !arg || !l->tile || l->op->in[0]->type->kind != TYPE_TENSOR)
		return;
	bool is_mapped = l->way && strstr(l->way, "windows");
	const InspectArg *x = walk_arg(&w, l->op->in[0]);
	if (!x || is_mapped)
		return;
	find_outside(l, arg, x);
	if (l->layout)
		find_wider(l, t, arg, x);
}

/* ---- what is not copied ahead ---- */

const char *
inspect_not_ahead(const Op *op, int bytes, Arena *mem)
{
	bool copies = ANY_OP(in, op->home, in->kind == OP_WAIT || in->kind == OP_AWAIT);
	if (op->kind != OP_READ || !copies || op->out[0].type->rank == 0 || !op->home->parent ||
	    op->home->parent->kind != OP_FOR)
		return NULL;
	if (!access_fill_is_zero(op))
		return "copies put 0 where the tensor ends, and this read another value";
	if (strchr(attr_index(op), 'g'))
		return "its indices are data";
	if (bytes < COPY_LEAST)
		return arena_printf(mem, "asynchronous copies take 4, 8 or 16 bytes, and this takes %d at once",
		    bytes);
	return NULL;
}

/* ---- how often ---- */

/* Lines of one block run as often as the one before. */
void
inspect_runs(InspectLine *l, const InspectLine *before, const InspectArg *arg)
{
	if (before && before->op->home == l->op->home) {
		l->runs = before->runs;
		l->runs_most = before->runs_most;
		return;
	}
	const Op *programs = arg ? program_loop(l->op) : NULL;
	double sum = 0;
	l->runs = l->runs_most = -1;
	for (int64_t nth = 0; arg && nth < SAMPLES; nth++) {
		double runs = runs_in(l->op, programs, arg, nth);
		if (runs < 0)
			return;
		sum += runs;
		l->runs_most = MAX(l->runs_most, runs);
	}
	l->runs = arg ? sum / SAMPLES : -1;
}
