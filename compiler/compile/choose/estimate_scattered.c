/* Device memory of accesses whose indices are data: pieces of rows of a table, in no order.
 *
 *     y = x[ids[p * B +: B]];           of f32[16 M]: N pieces of 4 bytes, each in a block of 64 that memory brings whole
 *     s += x[ids[z], c +: B];           of f32[R, C]: pieces of a row
 *
 * Of N blocks at random of a table that has T, about T (1 - e^(-N/T)) are different and come from memory at least once;
 * the others come again unless the L2 cache still has them.  It holds up to half its size of what is under way, since each
 * of its two parts keeps what its multiprocessors read: the table, or the parts of it in which single programs lie, as
 * row r of x[r, ids[p * B +: B]].  The first cache has them likewise.  Blocks in no order come at a lower rate than rows.
 *
 * Measured on an H200, 4 M elements of f32: of a table of 64 MB 68 us (the launch's estimate is 65; 24 as if the table were
 * read once), of 256 MB 100 (89; 66), two of 64 MB 130 (124; 33); rows of 32 bytes 7.9 us (6.6; 4.2); writes to a table of
 * 64 MB 197 (191; 39), 1 M to one of 32 MB 52 (42). */
#include "compile/choose/estimate.h"
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/layout/axis.h"

#include <math.h>
#include <string.h>

enum { BLOCK_BYTES = 64, SECTOR_BYTES = 32, DEPTH = 12 };

static const double HELD = 0.5;                         /* of the L2 cache */
static const double WRITTEN = 3;                        /* a part of a sector: it is read and written, and more */

/* Bytes that lie side by side: the last dimensions that are taken as parts. */
static double
piece_bytes(const Op *op, const Type *tile)
{
	const char *index = op->in[0]->type->kind == TYPE_TENSOR ? attr_index(op) : "";
	double bytes = dtype_info[tile->elem].bits / 8.0;
	int d = tile->rank;
	for (size_t n = strlen(index); n > 0 && d > 0 && index[n - 1] == 'p'; n--)
		bytes *= (double)tile->extent[--d];
	return bytes;
}

/* Of the rate of rows in order: of blocks alone, of two, of four. */
static double
rate_of(double blocks)
{
	return blocks <= 1 ? 0.73 : blocks <= 2 ? 0.85 : 1;
}

static double
times_of(const Func *f, const Bound *b, const Op *op)
{
	double times = 1, together = MAX(MAX(f->schedule.coarsen, f->schedule.batch), 1);
	for (const Op *at = op->home->parent; at; at = at->home->parent)
		if (op_is_loop(at))
			times *= op_is_over_programs(at) ? 1 / together : estimate_trips(f, b, at);
	return times;
}

static double
table_bytes(const Bound *b, int param)
{
	double bytes = dtype_info[b->param[param].dtype].bits / 8.0;
	for (int d = 0; d < b->param[param].rank; d++)
		bytes *= (double)b->param[param].dim[d];
	return bytes;
}

double
estimate_used(const Func *f, const InspectArg *arg, int from)
{
	double bytes = 0;
	for (int i = from; i < f->nparam; i++) {
		const Value *v = &f->body->arg[i];
		double n = v->type->kind == TYPE_TENSOR && v->nuses > 0 ? dtype_info[v->type->elem].bits / 8.0 : 0;
		for (int d = 0; n > 0 && d < v->type->rank; d++)
			n *= (double)arg[i].dim[d];
		bytes += n;
	}
	return bytes;
}

/* Bytes of whole sectors for each that an element has, where strides leave gaps: every second f32 is two for one. */
double
estimate_in_sectors(const BoundParam *p)
{
	double size = dtype_info[p->dtype].bits / 8.0, run = size;
	unsigned seen = 0;
	for (int n = 0; p->is_spread && n < p->rank; n++) {
		int next = -1;
		for (int d = 0; d < p->rank; d++)
			if (!(seen >> d & 1) && p->dim[d] > 1 && p->stride[d] > 0 &&
			    (next < 0 || p->stride[d] < p->stride[next]))
				next = d;
		if (next < 0)
			break;
		seen |= 1u << next;
		double step = (double)p->stride[next] * size;
		if (step > run)
			return MIN(step, ceil(run / SECTOR_BYTES) * SECTOR_BYTES) / run;
		run = step * (double)p->dim[next];
	}
	return 1;
}

int64_t
estimate_dim(const Bound *b, const Value *tensor, int d)
{
	return b->param[tensor->index].dim[param_dim(&tensor->block->func->param[tensor->index], tensor->type->rank, d)];
}

/* Sectors of the part of the table that one access lies in: all its elements are in the row that scalar indices name.  Of
 * t[N, 256] in bytes at [n, x] 8: warps that look 32 bytes up ask for no more. */
static double
row_sectors(const Bound *b, const Op *op, int param)
{
	const char *index = attr_index(op);
	double run = dtype_info[b->param[param].dtype].bits / 8.0, runs = 1;
	bool apart = false;                             /* a scalar's dimension lies within */
	for (int d = b->param[param].rank, e = attr_extents(op) ? attr_extents(op)->n : 0; d-- > 0;) {
		double all = (double)estimate_dim(b, op->in[0], d);
		if (index[d] == 'i') {
			apart = true;
			continue;
		}
		*(apart ? &runs : &run) *= index[d] == 'p' ? MIN((double)attr_extents(op)->at[--e], all) : all;
	}
	return runs * MAX(run / SECTOR_BYTES, 1);
}

double
estimate_at_random(const Bound *b, const Op *op, double sectors)
{
	const Value *tensor = op->in[0];
	bool is_tensor = tensor->type->kind == TYPE_TENSOR && !tensor->def && !tensor->block->parent;
	bool is_gather = op->kind == OP_READ && is_tensor && tensor->index < b->kernel->params.n &&
	    strchr(attr_index(op), 'g');
	double there = is_gather ? row_sectors(b, op, (int)tensor->index) : 0;
	return there > 0 ? MIN(sectors, there * (1 - exp(-sectors / there))) : sectors;
}

/* What a scalar index comes from. */
typedef struct Source {
	bool data, neighbours;                          /* neighbours on the grid have others */
} Source;

/* Where the loop begins whose index v is; NULL: it is none.  At one time all of a program's elements lie in the row that an
 * index names, as in lp[n, t, label[…]], where one time step's row stays in the first cache. */
static const Value *
index_start(const Value *v)
{
	const Op *loop = v->def ? NULL : v->block->parent;
	return loop && loop->kind == OP_FOR && v == &v->block->arg[0] ? loop->in[0] : NULL;
}

static void
find_source(const Value *v, int depth, Source *out)
{
	const Op *op = v->def;
	const Value *start = index_start(v);
	out->data |= depth == 0 || (op ? op_is_access(op) : v->block->parent && !start);
	if (start && depth > 0)
		find_source(start, depth - 1, out);
	out->neighbours |= op && (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT) && attr_axis(op) == 0;
	for (int i = 0; op && i < op->nin && depth > 0; i++)
		find_source(op->in[i], depth - 1, out);
}

/* Bytes of the part of the table that one program's access lies in: at a scalar index that no data says one row.
 * *shared: neighbours on the grid have the same. */
static double
part_bytes(const Bound *b, const Op *op, int param, bool *shared)
{
	const char *index = attr_index(op);
	double bytes = dtype_info[b->param[param].dtype].bits / 8.0;
	*shared = true;
	for (int d = 0, e = 0; d < b->param[param].rank && index[d]; d++) {
		double all = (double)estimate_dim(b, op->in[0], d);
		double extent = index[d] == 'p' ? (double)attr_extents(op)->at[e++] : all;
		Source of = {0};
		if (index[d] != 'g')
			find_source(op->in[1 + d], DEPTH, &of);
		*shared &= !of.neighbours;
		bytes *= index[d] == 'i' && !of.data ? 1 : MIN(extent, all);
	}
	return bytes;
}

/* Of programs that run at once all parts that they have together. */
static double
parts_bytes(const Bound *b, const Op *op, int param, double programs, double at_once)
{
	bool shared;
	double table = table_bytes(b, param), part = part_bytes(b, op, param, &shared);
	double sharers = shared ? MAX(programs * part / table, 1) : 1;
	return MIN(part * MAX(MIN(at_once, programs) / sharers, 1), table);
}

/* What all programs take of a table, as bytes at the rate of rows; those under way lie in `near` bytes of it. */
static double
taken(double blocks, double table, double near, double rate, const TargetRates *r)
{
	double there = table / BLOCK_BYTES, different = there * (1 - exp(-blocks / there));
	double again = (blocks - different) * (1 - MIN(HELD * r->l2_bytes / near, 1));
	return (different + again) * BLOCK_BYTES / rate;
}

/* Blocks of a multiprocessor, about. */
static double
together(const Func *f, const Target *t)
{
	enum { BLOCKS_MOST = 32 };
	return MIN(t->max_warps / MAX(func_warps(f), 1), BLOCKS_MOST);
}

/* Does a number that is read name the row, as in x[ids[i], c +: 64]?  Not a start to which that is added. */
static bool
names_row(const Op *access)
{
	const char *index = attr_index(access);
	for (int d = 0; index[d]; d++) {
		const Op *op = index[d] == 'i' ? access->in[1 + d]->def : NULL;
		while (op && (op->kind == OP_CAST || op->kind == OP_SELECT))
			op = op->in[op->nin > 1]->def;
		if (op && op_is_access(op))
			return true;
	}
	return false;
}

/* Does a running sum count the places, as where those that are kept go?  They lie one behind the
 * other. */
static bool
counts_places(const Value *v, int depth)
{
	const Op *op = v->def;
	bool is_same = op && (op->kind == OP_ADD || op->kind == OP_SUB || op->kind == OP_SELECT ||
				 op->kind == OP_CAST || op->kind == OP_CONVERT ||
				 op->kind == OP_BROADCAST || op->kind == OP_RESHAPE);
	if (op && op_family(op) == FAMILY_SCAN)
		return true;
	return is_same && depth > 0 && ANY_OF(i, op->nin, counts_places(op->in[i], depth - 1));
}

/* What an index is made of. */
typedef struct Made {
	bool place, data, far;                          /* the program's own place; data; so that it is none near that */
} Made;

/* Through what keeps neighbours close: sums, limits, roundings, and products with what all elements have in common.
 * Integers that data scales are starts of rows or pages, and not how far an element is away from its place. */
static void
find_made(const Value *v, int depth, bool scaled, Made *out)
{
	const Op *op = v->def;
	bool is_product = op && (op->kind == OP_MUL || op->kind == OP_DIV || op->kind == OP_SHL);
	bool whole = !dtype_is_float(v->type->elem);
	out->place |= op && (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT);
	out->place |= !op && v->block->parent && v->block->parent->kind == OP_FOR && v == &v->block->arg[0];
	if (!op || op->nin == 0 || op_is_access(op)) {
		out->data |= op && op_is_access(op);
		out->far |= (op && op_is_access(op) && scaled) || (!op && v->block->parent && !out->place);
		return;
	}
	switch (op->kind) {
	case OP_ADD: case OP_SUB: case OP_MIN: case OP_MAX: case OP_FLOOR: case OP_CEIL: case OP_ROUND: case OP_CAST:
	case OP_CONVERT: case OP_BROADCAST: case OP_RESHAPE: case OP_EXTRACT: case OP_SELECT: case OP_PERMUTE: case OP_MUL:
	case OP_DIV: case OP_SHL: case OP_NEG:
		break;
	default:
		out->far = true;
	}
	for (int i = 0; i < op->nin && depth > 0 && !out->far; i++)
		find_made(op->in[i], depth - 1, scaled || (is_product && whole), out);
	out->far |= depth == 0;
}

/* An element's own place and how far data says that it lies from there, as in q[y + dy[y, x], x + dx[y, x]] of a flow:
 * neighbours read neighbours.  An H200 takes 77 us where 830 were estimated at random, and 64 where it were 231. */
static bool
is_displaced(const Value *v)
{
	enum { DEEP = 24 };
	Made made = {0};
	find_made(v, DEEP, false, &made);
	return made.place && made.data && !made.far;
}

bool
estimate_in_order(const Op *access)
{
	const char *index = attr_index(access);
	for (int d = 0; index[d]; d++)
		if (index[d] == 'g')
			return counts_places(access->in[1 + d], DEPTH);
	return false;
}

/* Its own place and what data adds to that, as of a flow: neighbours read neighbours. */
static bool
follows_flow(const Op *access)
{
	const char *index = attr_index(access);
	bool all = true;
	for (int d = 0; index[d]; d++)
		all &= index[d] != 'g' || is_displaced(access->in[1 + d]);
	return all && strchr(index, 'g');
}

/* Bytes that the L2 cache gives beside a read's own, before layouts: a pair of sectors for each piece that data places,
 * but for what the first cache holds beside slots of the part of the table that the program's lie in.  Columns of a left
 * operand by K's indices, 4096 x 4096 x 2048 in 2 bytes, take an H200 862 to 954 us in tiles of 64 x 256, 893 so; in
 * 64 x 512 577, 511. */
double
estimate_beside_pieces(const Bound *b, const Target *t, const Op *op)
{
	static const double FIRST = 0.25;               /* of the first cache and shared memory */
	const char *index = op->kind == OP_READ ? attr_index(op) : "";
	const Value *tensor = op->in[0];
	Source of = {0};
	bool shared;
	for (int d = 0; index[d]; d++)
		if (index[d] == 'g')
			find_source(op->in[1 + d], DEPTH, &of);
	if (!of.data || tensor->def || tensor->block->parent || tensor->index >= b->kernel->params.n ||
	    estimate_in_order(op) || follows_flow(op))
		return 0;
	const Type *tile = op->out[0].type;
	double piece = piece_bytes(op, tile), all = (double)type_count(tile) * dtype_info[tile->elem].bits / 8;
	double part = part_bytes(b, op, (int)tensor->index, &shared);
	double missed = 1 - MIN(FIRST * (double)t->shared_bytes_unit / MAX(part, 1), 1);
	return piece < SECTOR_BYTES ? all / piece * (BLOCK_BYTES - piece) * missed : 0;
}

/* The parameter that an access of scattered elements goes to, or -1. */
static int
table_of(const Bound *b, const InspectArg *arg, const Op *op)
{
	const Value *v = op_is_access(op) ? access_tile(op) : NULL, *of = op->nin ? op->in[0] : NULL;
	bool is_tensor = v && v->layout && !of->def && !of->block->parent && of->type->kind == TYPE_TENSOR;
	bool has = is_tensor && of->index < b->kernel->params.n && table_bytes(b, of->index) > 0;
	has = has && !estimate_in_order(op) && !follows_flow(op);
	return has && (names_row(op) || inspect_is_scattered(arg, op, v->type, v->layout)) ? of->index : -1;
}

static bool
is_written(const Op *op)
{
	return op->nout == 0 || op_family(op) == FAMILY_ATOMIC;
}

/* Blocks that all programs access by the op and by those behind it which access the same table likewise: copies of it in
 * a loop that reads trips ahead go to the same blocks. */
static double
blocks_of(const Func *f, const Bound *b, const InspectArg *arg, const Op *first, double programs)
{
	double n = 0;
	for (const Op *op = first; op; op = op_after(op, f->body)) {
		bool same = op == first || (op->nin && op->in[0] == first->in[0] && op_is_access(op) &&
		    is_written(op) == is_written(first) && table_of(b, arg, op) >= 0);
		if (!same)
			continue;
		const Type *tile = access_tile(op)->type;
		double all = (double)type_count(tile) * dtype_info[tile->elem].bits / 8, piece = piece_bytes(op, tile);
		n += all / piece * ceil(piece / BLOCK_BYTES) * programs * times_of(f, b, op) *
		    (f->schedule.materialize >= MATERIALIZE_FIRST ? estimate_inside(f, b, op) : 1);
	}
	return n;
}

/* As often as estimate_bytes counts a tensor. */
static double
moves_of(const Bound *b, int param)
{
	return b->kernel->params.at[param].access == ACCESS_INOUT ? 2 : 1;
}

double
estimate_scattered(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, double programs,
    double *tables, double *each)
{
	double bytes = 0, at_once = together(f, t) * target_rates(t)->multiprocessors;
	uint64_t seen[2] = {0};                         /* that are read, and written */
	*tables = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		int param = op_is_access(op) ? table_of(b, arg, op) : -1;
		uint64_t bit = UINT64_C(1) << (param & 63);
		if (param < 0 || seen[is_written(op)] & bit)
			continue;
		double piece = piece_bytes(op, access_tile(op)->type), table = table_bytes(b, param);
		bool is_part = op_family(op) == FAMILY_ATOMIC || piece < SECTOR_BYTES;
		double own = taken(blocks_of(f, b, arg, op, programs), table, parts_bytes(b, op, param, programs, at_once),
		    rate_of(ceil(piece / BLOCK_BYTES)), target_rates(t));
		own *= is_written(op) && is_part ? WRITTEN : 1;
		bytes += own;
		if (each)
			each[param] += own;
		*tables += (seen[0] | seen[1]) & bit ? 0 : table * moves_of(b, param);
		seen[is_written(op)] |= bit;
	}
	return bytes;
}

bool
estimate_is_table(const Func *f, const Bound *b, const InspectArg *arg, int param)
{
	return ANY_OP(op, f->body, op_is_access(op) && table_of(b, arg, op) == param);
}

void
estimate_scattered_text(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, double programs, Arena *mem,
    Text *out)
{
	static const double MEGA = 1e6, MORE = 1.2;
	double *each = NEW_ARRAY(mem, double, b->kernel->params.n + 1), tables;
	estimate_scattered(f, b, arg, t, programs, &tables, each);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		int param = op_is_access(op) ? table_of(b, arg, op) : -1;
		double table = param < 0 ? 0 : table_bytes(b, param);
		if (param < 0 || each[param] < MORE * table || table < MEGA)
			continue;
		text_printf(out, "  line %d's places in %s are data: ", op->place.line, f->param[param].name);
		text_printf(out, "counted as at random, they take device memory as long as %.2g times its %.3g MB\n",
		    each[param] / table, table / MEGA);
		each[param] = 0;
	}
}

/* Programs of a multiprocessor, one after the other, that lie in the same part of a table, which its first cache holds. */
static double
followers(const Bound *b, const Target *t, double part, double table)
{
	double programs = 1;
	for (int i = 0; i < b->naxis; i++)
		programs *= (double)b->grid[i];
	return MAX(programs * part / table / target_rates(t)->multiprocessors, 1);
}

/* Elements displaced by data are of as many sectors as if they were not, which the first cache has for those that come
 * later; each is a sector of its own to a warp, since its neighbours may lie in other rows. */
static double
near_share(const Op *op)
{
	double bytes = MIN(piece_bytes(op, access_tile(op)->type), SECTOR_BYTES);
	return MIN(bytes / SECTOR_BYTES + 1.0 / 32, 1);
}

/* Of a program's N accesses of sectors S (1 - e^(-N/S)) go to different ones; the others hit the first cache, which has
 * what shared memory leaves of the same bytes.  A table that it holds whole stays there for programs that follow: ten
 * gathers from 4 KB take an H200 354 to 359 us by 256, 512 and 1,024 a program.  Places beside those that data names are
 * others where it does not hold all: of the eight around each of 2 M points in 8 MB, two in each sector, an H200 fetches
 * 16.4 M sectors of 16.8 M; of four in a plane of 64 KB, which take 152 us, not half (197 so, 413 by all). */
double
estimate_missed(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, const Op *op)
{
	int param = op->kind == OP_READ ? table_of(b, arg, op) : -1;
	if (op->kind == OP_READ && follows_flow(op))
		return near_share(op) * cost_missed(op, false);
	if (param < 0)
		return cost_missed(op, false);
	const Type *tile = access_tile(op)->type;
	double piece = piece_bytes(op, tile), all = (double)type_count(tile) * dtype_info[tile->elem].bits / 8;
	double n = all / piece * ceil(piece / SECTOR_BYTES);
	bool shared;
	double part = part_bytes(b, op, param, &shared), there = MAX(part / SECTOR_BYTES, 1);
	double blocks = together(f, t), cache = (double)t->shared_bytes_unit - blocks * (double)f->shared_bytes;
	double table = table_bytes(b, param);
	if (shared && table <= cache)
		n *= followers(b, t, part, table);
	double again = 1 - there * (1 - exp(-n / there)) / n;
	return cost_missed(op, part > cache) * (1 - again * MIN(MAX(cache, 0) / MIN(part * blocks, table), 1));
}
