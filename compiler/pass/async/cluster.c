/* Clusters: thread blocks that run neighbouring programs share the copies of what those have in common.
 *
 *     grid(pm, pn), clusters of 2 along pm           block of rank 0          block of rank 1
 *     a[pm * 128 +: 128, k +: 64]                     copies its own           copies its own
 *     b[k +: 64, pn * 256 +: 256]                     copies half to both      copies half to both
 *
 * Blocks lie along one axis or along the first two, where four are 2 x 2 and each copies half of both operands to the one
 * beside it: in the way by which fewest bytes are copied, of those with programs for all blocks.  A read is common if its
 * indices do not depend on an axis, nor on memory that the kernel writes, and its loop runs as often in all blocks.
 * Copies and arrivals then cross blocks, which therefore must step through slots alike: a block past the end of an axis
 * runs as its peers do (persist.c), and what it would do to memory must stand where it can be left out. */
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <math.h>
#include <string.h>

enum { MOST_BLOCKS = 8 };                               /* of a portable cluster: CUDA C++ Programming Guide */

typedef struct Varying {
	int axis;
	const Block *over;                              /* of the loop over programs, or NULL */
	bool *seen;                                     /* by Value.id */
} Varying;

static bool varies(Varying *x, const Value *v);

/* What a branch gives. */
static bool
result_varies(Varying *x, const Op *branch, int i)
{
	return varies(x, branch->in[0]) ||
	    ANY_OF(r, branch->nregion, varies(x, branch->region[r]->last->in[i]));
}

/* A loop's index or what it carries.  Blocks of a cluster run as many programs. */
static bool
column_varies(Varying *x, const Op *loop, int i)
{
	if (loop->kind != OP_FOR)
		return true;
	bool as_many = i >= 0 && op_is_over_programs(loop);
	return (!as_many && ANY_OF(k, 3, varies(x, loop->in[k]))) ||
	    (i >= 0 && (varies(x, loop->in[3 + i]) || varies(x, loop->region[0]->last->in[i])));
}

/* Blocks of a cluster have it in common: the number of a block or of its program, by the cluster's size (pass stream). */
static bool
is_of_cluster(const Op *op)
{
	const Op *size = op->kind == OP_DIV ? op->in[1]->def : NULL;
	int64_t ranks;
	if (!size || size->kind != OP_SELECT || !value_int(size->in[1], &ranks) ||
	    ranks != op->home->func->schedule.ctas)
		return false;
	const Value *of = op->in[0];
	const Op *loop = of->def ? NULL : of->block->parent;
	return of->def ? of->def->kind == OP_BLOCK_ID : loop && of->index == 0 && op_is_over_programs(loop);
}

/* Has the block another program?  The blocks of a cluster have as many. */
static bool
is_next(const Op *op)
{
	const Op *next = op->kind == OP_LT ? op->in[0]->def : NULL;
	const Value *number = next && next->kind == OP_ADD && !next->in[0]->def ? next->in[0] : NULL;
	const Op *programs = number && number->index == 0 ? number->block->parent : NULL;
	return programs && op_is_over_programs(programs) && next->in[1] == programs->in[2] && op->in[1] == programs->in[1];
}

/* A scalar of a tensor that the kernel only reads, as the first row of a group: the same wherever its index is. */
static bool
reads_constant(const Op *op)
{
	return op->kind == OP_READ && access_is_tensor(op) && op->out[0].type->rank == 0 && !op->in[0]->def &&
	    op->home->func->param[op->in[0]->index].access == ACCESS_IN;
}

/* Can it differ between programs that are neighbours along the axis? */
static bool
varies(Varying *x, const Value *v)
{
	const Op *op = v->def;
	if (x->seen[v->id])
		return false;                           /* being looked at, or it does not */
	x->seen[v->id] = true;
	if (!op && !v->block->parent)
		return false;
	if (!op || op->kind == OP_FOR)
		return column_varies(x, op ? op : v->block->parent, op ? v->index : v->index - 1);
	if (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT)
		return attr_axis(op) == x->axis;
	if (is_of_cluster(op) || is_next(op))
		return false;
	if (op->kind == OP_IF)
		return result_varies(x, op, v->index);
	if ((!op_has(op, PURE) && !reads_constant(op)) || op->nregion || op->kind == OP_BLOCK_ID ||
	    op->kind == OP_PROGRAM_EXISTS)
		return true;
	return ANY_OF(i, op->nin, varies(x, op->in[i]));
}

static Varying
varying_open(Func *f, Arena *mem, int axis)
{
	func_number(f);
	return (Varying){.axis = axis, .seen = NEW_ARRAY(mem, bool, f->nvalues)};
}

static bool
read_varies(Func *f, Arena *mem, int axis, const Op *read)
{
	Varying x = varying_open(f, mem, axis);
	return ANY_OF(i, read->in[0]->type->rank, varies(&x, read->in[1 + i]));
}

static bool
loop_varies(Func *f, Arena *mem, int axis, const Op *loop)
{
	Varying x = varying_open(f, mem, axis);
	return loop->kind == OP_IF ? varies(&x, loop->in[0]) : column_varies(&x, loop, -1);
}

bool
cluster_varies(Func *f, int axis, const Op *read)
{
	return read_varies(f, f->module->cx->tmp, axis, read);
}

bool
cluster_steps_alike(Func *f, Cluster c, const Op *loop)
{
	for (int d = 0; d < MAX_AXES; d++)
		if (cluster_on(c, d) > 1 && loop_varies(f, f->module->cx->tmp, d, loop))
			return false;
	return true;
}

/* A part has whole periods of the swizzle, of 8 rows; the last ones may have fewer. */
bool
cluster_divides(const Op *read, int ranks)
{
	const Type *t = read->out[0].type;
	const IntList *valid = attr_undef(read) ? attr_valid(read) : NULL;
	int64_t rows = 1;
	if (strchr(attr_index(read), 'g'))              /* windows go on from where the first one is */
		return false;
	for (int d = 0; d < t->rank - 1; d++)
		rows *= valid ? valid->at[d] : t->extent[d];
	bool is_matrix = t->rank == 2;
	return is_matrix ? rows % 8 == 0 && rows >= 8 * ranks : rows % (8 * ranks) == 0;
}

int
cluster_sharers(Func *f, Cluster c, const Op *read, int *apart)
{
	int n = 1;
	*apart = 1;
	for (int i = 0; i < 2; i++) {
		int axis = i ? 1 - c.along : c.along, on = i && c.beside == 1 ? 1 : cluster_on(c, axis);
		if (on == 1 || cluster_varies(f, axis, read))
			continue;
		*apart = n == 1 ? cluster_apart(c, axis) : *apart;
		n *= on;
	}
	return n > 1 && cluster_divides(read, n) ? n : 1;
}

bool
has_warpgroup_product(const Block *b)
{
	return ANY_OP(op, b, op->kind == OP_DOT && wgmma_named(attr_mma(op)));
}

/* ---- before there is a loop over programs ---- */

/* In a loop of products, or a nest of such, that runs as often in all of a cluster's programs? */
static bool
is_in_common_loops(Func *f, Cluster c, const Op *read)
{
	const Op *loop = read->home->parent;
	if (!loop || loop->kind != OP_FOR || !has_warpgroup_product(read->home))
		return false;
	for (; loop; loop = loop->home->parent)
		if (loop->kind != OP_FOR || !cluster_steps_alike(f, c, loop))
			return false;
	return true;
}

/* Of a tile, without what padding added. */
static int64_t
read_bytes(const Op *read)
{
	const Type *t = read->out[0].type;
	const IntList *valid = attr_undef(read) ? attr_valid(read) : NULL;
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= valid ? valid->at[d] : t->extent[d];
	return dtype_bytes(t->elem, n);
}

typedef struct Kernel {
	Func *f;
	const Target *t;
} Kernel;

/* Bytes of an iteration of the kernel's loops that a block need not copy, as others of the cluster do. */
static double
saved_bytes(const void *data, Cluster c)
{
	const Kernel *k = data;
	double n = 0;
	int apart;
	for (const Op *op = k->f->body->first; op; op = op_after(op, k->f->body))
		if (op->kind == OP_READ && op->out[0].type->rank == 2 && !access_map_reason(op, k->t) &&
		    is_in_common_loops(k->f, c, op))
			n += (double)read_bytes(op) * (1 - 1.0 / cluster_sharers(k->f, c, op, &apart));
	return n;
}

static bool
has_one_program(const Func *f, int axis)
{
	return ANY_OP(op, f->body, op->kind == OP_PROGRAM_ID && attr_axis(op) == axis && attr_count(op) == 1);
}

/* By what is done for programs that there are not, too. */
static bool
is_read(const Func *f, const Value *tensor)
{
	return ANY_OP(op, f->body, op_has(op, READS) && !op_has(op, WRITES) && op->in[0] == tensor);
}

static bool
stands_in_loop(const Op *op)
{
	return FIND_NEXT(in, op->home->parent, in->home->parent, in->kind != OP_IF) != NULL;
}

/* NULL: what the kernel does to memory can be left out of one block. */
static const char *
effects_reason(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (!op_has(op, WRITES | EFFECT) && !(op_is_access(op) && !access_is_tensor(op)))
			continue;
		if (op_is_access(op) && !access_is_tensor(op))
			return "it accesses memory through pointers";
		if (stands_in_loop(op))
			return "it writes inside of a loop";
		if (ANY_OF(i, op->nout, op->out[i].nuses))
			return "it uses what an atomic operation gives";
		if (op_has(op, WRITES) && is_read(f, op->in[0]))
			return "it reads what it writes";
	}
	return NULL;
}

static bool
has_programs(int short_axes, int axis, int n)
{
	return n == 1 || !(short_axes >> (CLUSTER_SIZES * axis + log2_floor(n) - 1) & 1);
}

Cluster
cluster_best(const Func *f, int ranks, int short_axes, ClusterSaved saved, const void *data)
{
	/* Of bytes, where an axis is filled up: 521 x 872 by 136 x 128, 4 x 7 tiles, goes by four along the rows. */
	static const double FILLED_UP = 0.7;
	Cluster best = {0};
	double most = 0;
	for (int beside = 1; beside < ranks; beside *= 2)
		for (int d = 0; d < f->naxis && (beside == 1 || (d == 0 && f->naxis > 1)); d++) {
			const Cluster c = {ranks, d, beside};
			int uneven = short_axes >> CLUSTER_SIZES * MAX_AXES, few = short_axes | (beside > 1 ? uneven : 0);
			bool fits = has_programs(few, d, ranks / beside) && has_programs(few, 1 - d, beside);
			double share = has_programs(uneven, d, ranks / beside) ? 1 : FILLED_UP;
			double bytes = fits ? saved(data, c) * share : 0;
			best = bytes > most ? c : best;
			most = fmax(bytes, most);
		}
	return best;
}

const char *
cluster_choose(const Func *func, const Target *t, Cluster *out)
{
	const Kernel k = {func->body->func, t};
	const Func *f = k.f;
	int short_axes = f->short_axes;
	if (f->schedule.ctas > MOST_BLOCKS)
		return "chips place at most 8 blocks in a cluster";
	if (f->schedule.split > 1 && (!f->schedule.persistent || block_find(f->body, OP_SPLIT_MEET)))
		return "blocks of its clusters share a program's loop (split)";
	if (!f->schedule.specialize)
		return "blocks of a cluster share copies of kernels that are parted into roles (specialize)";
	if (!has_warpgroup_product(f->body))
		return "it has no product of warpgroups, whose operands blocks could share";
	for (int d = 0; d < f->naxis; d++)
		short_axes |= has_one_program(f, d) ? ((1 << CLUSTER_SIZES) - 1) << CLUSTER_SIZES * d : 0;
	const Cluster best = cluster_best(f, f->schedule.ctas, short_axes, saved_bytes, &k);
	if (!best.ranks)
		return "programs that are neighbours on the grid have no operand in common, or none of 8 rows for each "
		       "block";
	const char *why = effects_reason(f);
	*out = why ? *out : best;
	return why;
}

double
cluster_share(const Func *f, const int64_t *grid)
{
	const Op *at = cluster_program(f->body);
	double share = at ? 1 : 0;
	for (int d = 0; at && d < f->naxis; d++) {
		int64_t n = grid[d], on = cluster_on(program_cluster(at), d);
		share *= (double)n / (double)((n + on - 1) / on * on);
	}
	return share;
}

/* ---- the loop's copies ---- */

void
cluster_find_shared(Pipeline *p)
{
	Op *programs = pipeline_programs(p->loop);
	const Op *at = programs ? cluster_program(programs->region[0]) : NULL;
	int64_t common = 0, all = 0;
	int n = 0;
	if (!at)
		return;
	if (programs != p->loop->home->parent) {
		p->f->cluster_reason = "the loop that copies is within another of the program";
		return;
	}
	const Cluster c = program_cluster(at);
	for (int i = 0; i < p->reads.n && cluster_steps_alike(p->f, c, p->loop); i++) {
		Staged *s = &p->reads.at[i];
		int apart, sharers = s->is_bulk ? cluster_sharers(p->f, c, s->read, &apart) : 1;
		for (int rank = 0; rank < sharers && sharers > 1; rank++)
			s->shared |= INT64_C(1) << rank * apart;
		n += sharers > 1;
		all += read_bytes(s->read);
		common += sharers > 1 ? read_bytes(s->read) : 0;
	}
	p->ranks = n ? c.ranks : 0;
	p->f->cluster_common = n ? (double)common / (double)all : 0;
	if (!n)
		p->f->cluster_reason = "no operand of the loop is in common";
}

void
cluster_barriers(Module *m, Op *programs)
{
	Builder b = {.m = m, .block = programs->home, .before = programs, .place = programs->place};
	op_make(&b, OP_CLUSTER_BARRIER, NULL, 0, NULL, 0, NULL, 0);
	b.before = programs->next;
	op_make(&b, OP_CLUSTER_BARRIER, NULL, 0, NULL, 0, NULL, 0);
}
