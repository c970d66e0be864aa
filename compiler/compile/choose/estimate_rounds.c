/* What groups of few rows take, whose programs wait for device memory: they read it in rounds, the last of which asks for
 * less than memory gives.
 *
 *     128 rows in 8 groups times 5120 x 4864: by tiles of 32 x 256, 152 programs with two slots of 18 KB ahead, 136 us;
 *     by 16 x 64, 608 programs, 97.5 */
#include "compile/choose/estimate_ops.h"
#include "compile/compile.h"

#include <math.h>
#include <string.h>

static const double LOADED_LATENCY = 3300;              /* cycles; by five forms of that product */
/* Where threads copy, and where a ring of two slots has one ahead; bytes a cycle of tensors that all multiprocessors read
 * at once.  By 128 forms of eight such products: what comes first takes 2.5 to 4 % longer than the fastest, 9 to 14 %
 * without. */
static const double COPIED = 1.06, TWO_SLOTS = 1.15, COMMON_RATE = 9500;
/* What is left of the rate where tiles take parts of lines: of two products 0.71 and 0.78; by tensor maps 0.92 to 0.95. */
static const double PART_OF_LINES = 0.75, PART_BY_MAPS = 0.94;
/* Of n programs that a block of a cluster takes in a fixed order, each of which leaves early or not: the most that one of
 * 132 blocks has, by the normal distribution, over their mean.  4096 x 4096 of which half is left out takes 202 us parted,
 * 164 flat. */
static const double UNEVEN_EXITS = 2.6;
/* How many programs stay is estimated: within such a share.  Where it is known, no block has fewer than the most: by 136 of
 * 256 programs for 132 blocks a Gram matrix of 8192 x 2048 in tf32 takes 362 us, by 528 of 1024 328. */
static const double DYNAMIC_SHARE = 0.2;
enum { LINE = 128 };

/* Of fewer multiprocessors memory gives by the root of their share: 20 of 132 had 0.38 of the rate, 87 0.8. */
static double
drawn(const Estimate *e, double n)
{
	return sqrt(MIN(n / e->t->rates->multiprocessors, 1));
}

/* Channels of 64 heads by 64 programs take an H200 88 us, by 128, which split = 2 makes, 66 (cross_cov in bench/warps; 88
 * and 63 estimated).  What loops compute is longer than their products there: of the others, what estimate_product.c has
 * was fitted without. */
double
estimate_drawn(const Estimate *e, double programs)
{
	return e->within > e->block.products ? drawn(e, programs) : 1;
}

/* Until n programs that run at once have read what is theirs: as fast as memory gives it, or as what they ask for comes.
 * Copies take the longer the more of memory's rate is used: r (MEMORY_LATENCY + (LOADED_LATENCY - MEMORY_LATENCY) r / rate)
 * bytes are on the way. */
static double
streaming(const Estimate *e, double n, double bytes)
{
	double rate = e->t->rates->memory_rate, ahead = MAX(e->stages - 1, 1);
	double slower = (LOADED_LATENCY - MEMORY_LATENCY) / rate, under_way = n * ahead * e->slot;
	double idle = MEMORY_LATENCY, asked = (sqrt(idle * idle + 4 * slower * under_way) - idle) / (2 * slower);
	return n > 0 ? n * bytes / MIN(rate * drawn(e, n), asked) : 0;
}

/* Of the rate what is left where the greatest tile of the loop takes parts of lines: 776 rows in 40 groups times 7168 x
 * 1408 with 32 of K a trip, rows of 64 bytes, 262 us by threads' copies and 218 by tensor maps, 194 with 64. */
static double
share_of_lines(const Estimate *e, bool is_mapped)
{
	int64_t most = 0, row = LINE;
	for (const Op *op = e->f->body->first; op; op = op_after(op, e->f->body)) {
		bool is_tile = op->kind == OP_READ && op->home->parent && op->out[0].type->rank > 1;
		if (!is_tile || tile_bytes(op->out[0].type) <= most)
			continue;
		most = tile_bytes(op->out[0].type);
		row = most / (type_count(op->out[0].type) / op->out[0].type->extent[op->out[0].type->rank - 1]);
	}
	return row >= LINE ? 1 : is_mapped ? PART_BY_MAPS : PART_OF_LINES;
}

double
estimate_rounds(const Estimate *e, double programs, int together, bool is_plain, double *common)
{
	double bytes = estimate_bytes(e->b) / programs, slots = e->t->rates->multiprocessors * MAX(together, 1);
	double full = floor(programs / slots), each = share_of_lines(e, e->parted || is_plain);
	double all = full * streaming(e, slots, bytes) + streaming(e, programs - full * slots, bytes);
	*common = e->block.common * programs / COMMON_RATE;
	return all / each * (e->parted ? 1 : e->stages == 2 ? TWO_SLOTS : is_plain ? 1 : COPIED);
}

/* What the least whole number that is x or more sums up to, from 0 to x. */
static double
sum_of_ceilings(double x)
{
	double n = floor(x);
	return n * (n + 1) / 2 + (x - n) * (n + 1);
}

double
estimate_uneven_exits(const Estimate *e)
{
	if (e->turns > 0)
		return 1 + UNEVEN_EXITS / sqrt(MAX(e->turns, 1));
	if (e->fetched <= 0)
		return 1;
	double least = e->fetched * (1 - DYNAMIC_SHARE), most = e->fetched * (1 + DYNAMIC_SHARE);
	double share = (sum_of_ceilings(most) - sum_of_ceilings(least)) / (most - least) / ceil(e->fetched);
	return estimate_half(e->f, e->b) > 0 ? fmax(share, 1) : share;
}

bool
estimate_restarts(const Op *loop)
{
	for (const Op *op = loop->kind == OP_FOR ? loop->region[0]->first : NULL; op; op = op->next) {
		bool multiplies = op->kind == OP_FOR && block_find(op->region[0], OP_DOT);
		for (int i = 0; i < op->nout && multiplies; i++)
			if (op->out[i].type->rank && (op->in[3 + i]->def || op->in[3 + i]->block != loop->region[0]))
				return true;
	}
	return false;
}

void
estimate_repeat(Estimate *e, const Estimate *before, double n, double fill, Use *inside)
{
	double own = inside->arithmetic - (e->within - before->within);
	e->serial = before->serial + n * (e->serial - before->serial + own + (e->parted ? 0 : fill));
	e->chain = before->chain + n * (e->chain - before->chain);
	e->trips = before->trips + n * (e->trips - before->trips);
	inside->arithmetic -= e->parted ? own : 0;
	e->restarts |= n > 1;
}

double
estimate_in_turn(const Estimate *e, const Use *u)
{
	double groups = MAX(1, e->warps / 4);
	bool is_lone = e->parted && !e->chained && u->arithmetic > u->products && estimate_fills(e) <= 0;
	return is_lone ? (u->products + e->t->rates->issue_alone * u->arithmetic) / groups : 0;
}

/* A flat block of one group, with none beside it, multiplies and computes in turn, too: sums of exponentials of 16384 x
 * 16384 scores, 128 deep, in 128 x 64 take an H200 210 us by one group (114 estimated without this), 156 by two; in 64 x
 * 128, of which two blocks share a multiprocessor, 142. */
double
estimate_alone_in_turn(const Estimate *e, const Use *u, double trip)
{
	bool is_lone = !e->parted && e->warps <= 4 && u->arithmetic > u->products && u->products > 0 &&
	    !u->makes && estimate_fills(e) <= 0;
	return is_lone ? MAX(u->products + u->arithmetic - trip, 0) : 0;
}

bool
estimate_is_8bit(const Func *f)
{
	return dtype_tile_size(block_find(f->body, OP_DOT)->in[0]->type->elem) == 1;
}

/* Is it the same for all programs? */
static bool
is_same(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == 0 || op->kind == OP_PROGRAM_ID || op->nregion || !op_has(op, PURE))
		return !op && !v->block->parent;
	return ALL_OF(i, op->nin, is_same(op->in[i], depth - 1));
}

/* Groups of consumers with programs of their own (pass/async/pingpong.c) are measured with one warpgroup each, in tiles of
 * 128 x 128, and no clusters: of 256 x 64 and 64 x 256 the L2 cache brings more (1.2 to 1.5 of the time on an H200), 64 x
 * 128 takes 1.0 to 1.2 of it, and 128 x 128 in pairs 1.02 to 1.04. */
const char *
estimate_groups_reason(const Estimate *e, bool is_plain)
{
	enum { DEEP = 12, SIDE = 128, WARPGROUP = 4 };
	const Op *dot = block_find(e->f->body, OP_DOT), *loop = dot ? dot->home->parent : NULL;
	bool is_alone = e->split <= 1 && !e->stream && e->acting >= 1 && e->cluster.ranks <= 1;
	if (!e->parted || !is_plain || !is_alone || e->adds_apart || e->dots != 1)
		return "groups of consumers (pingpong) are modelled for one product in roles, by tensor maps, of blocks "
		    "by themselves";
	const int64_t *extent = dot->out[0].type->extent;
	if (e->warps != WARPGROUP || e->transposes || extent[0] != SIDE || extent[1] != SIDE)
		return "groups of consumers (pingpong) are modelled with one warpgroup each, in tiles of 128 x 128";
	bool same = loop && loop->kind == OP_FOR && loop->home == e->f->body && is_same(loop->in[0], DEEP) &&
	    is_same(loop->in[1], DEEP) && value_const(loop->in[2]);
	return same ? NULL : "groups of consumers (pingpong) have programs of as many trips each";
}

/* What joins in a cluster, as estimate_product.c has it, and through memory. */
static const double MEET_CLUSTER = 400, STEP_CLUSTER = 2300, RATE_CLUSTER = 11;
static const double MEET_MEMORY = 5200, PART_MEMORY = 100, RATE_PARTS = 70;

/* One block adds what the blocks that share a program's loop have; what joins otherwise it reads all at once. */
double
estimate_join(const Target *t, int split, double bytes, bool joins)
{
	if (split <= 1)
		return 0;
	if (split <= SPLIT_CLUSTER && (t->has & HAS_CLUSTER) && !joins)
		return MEET_CLUSTER + STEP_CLUSTER * log2(split) + bytes / RATE_CLUSTER;
	return MEET_MEMORY + (split - 1) * ((joins ? 0 : PART_MEMORY) + bytes / RATE_PARTS);
}

double
estimate_written_out(const Estimate *e)
{
	enum { WORDS = 64 };
	return e->written_out ? MEMORY_LATENCY * MAX(1, e->behind / (4 * WORDS * e->warps * e->t->lanes)) : 0;
}

/* Matrices with the batch as the last dimension of f16, of 64 products of 1024 x 1024 x 1024 on an H200: 2968 us for 212 by
 * what is written, 14788 in all; where blocks go along the batch first, whose elements the L2 cache keeps until others have
 * filled their sectors, 1433 for 426 by what is written.  Of 32 products of 512 x 512 x 512, which it keeps, 283 in all. */
double
estimate_across(const Estimate *e, const Op *op)
{
	static const double WRITTEN[] = {95, 35}, READ[] = {2.9, 0.7};        /* of an element: lost, kept */
	const Value *to = op->in[0];
	const char *index = attr_index(op);
	const Type *t = op->kind == OP_WRITE ? op->in[access_data(op)]->type : op->out[0].type;
	if (t->rank < 2 || index[strlen(index) - 1] != 'i' || to->def || to->type->kind != TYPE_TENSOR ||
	    to->index >= e->b->kernel->params.n)
		return 0;
	const BoundParam *p = &e->b->param[to->index];
	double all = dtype_info[t->elem].bits / 8.0;
	for (int d = 0; d < p->rank; d++)
		all *= (double)p->dim[d];
	bool is_kept = all < e->t->rates->l2_bytes / 2;
	return (double)type_count(t) * (op->kind == OP_WRITE ? WRITTEN : READ)[is_kept];
}
