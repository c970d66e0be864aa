/* What the choice asks of a function that went through all passes: of blocks (choose_blocks.c), and what no bill knows. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "ir/derive.h"

#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

#include <math.h>
#include <string.h>

enum { OPS_MOST = 800 };

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
choose_count_in_loops(const Func *f)
{
	return COUNT_OPS(op, f->body, op->kind == OP_DOT && op->home != f->body);
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
	case FAMILY_DOT_ASYNC: case FAMILY_SCATTER: case FAMILY_PTX: return true;
	default: return false;
	}
}

bool
blocks_modelled(const Func *f)
{
	int n = 0;
	bool loops = false, multiplies = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (++n > OPS_MOST || is_crudely_modelled(op))
			return false;
		loops |= op_is_loop(op);
		multiplies |= op_family(op) == FAMILY_DOT;
	}
	return !loops || !multiplies;
}

bool
blocks_multiply(const Func *f)
{
	int n = 0;
	bool multiplies = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (++n > OPS_MOST || is_crudely_modelled(op))
			return false;
		multiplies |= op_family(op) == FAMILY_DOT;
	}
	return multiplies;
}

bool
blocks_privatize(const Func *f)
{
	return ANY_OP(op, f->body, op_family(op) == FAMILY_ATOMIC && privatize_takes(f, op));
}

bool
blocks_merge(const Func *f)
{
	return ANY_OP(op, f->body, op_family(op) == FAMILY_ATOMIC && privatize_merges(f, op));
}

bool
blocks_loop(const Func *f)
{
	return ANY_OP(op, f->body, op_is_loop(op));
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

/* Has it products, none of which takes the result of another, and is that true of all? */
static bool
all_products(const Func *f, bool (*what)(const Op *dot))
{
	bool any = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_DOT)
			continue;
		if (!what(op))
			return false;
		any = true;
	}
	return any && !dots_are_chained(f, f->body);
}

bool
choose_decodes(const Func *f)
{
	return all_products(f, dot_decodes);
}

bool
choose_are_streams(const Func *f)
{
	const Block *around = NULL;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *loop = op->home->parent;
		if (op->kind != OP_DOT)
			continue;
		if (!loop || loop->kind != OP_FOR || (around && loop->home != around))
			return false;
		around = loop->home;
	}
	return around && !dots_are_chained(f, f->body);
}

static bool
is_computed(const Op *dot)
{
	bool flipped;
	const Op *root = dot_operand_root(dot->in[1], &flipped)->def;
	return root && root->kind != OP_READ;
}

bool
choose_computes(const Func *f)
{
	return all_products(f, is_computed);
}

bool
choose_keeps_columns(const Op *op)
{
	switch (op->kind) {
	case OP_RESHAPE:                                /* scales of rows and columns */
		return type_same_but_ones(op->in[0]->type, op->out[0].type);
	case OP_READ: case OP_WRITE: case OP_PERMUTE: case OP_BROADCAST: case OP_CONST: case OP_IOTA:
	case OP_FOR: case OP_YIELD:
		return true;
	default:
		return op_has(op, ELEM) ||
		    (op->nout == 1 && op->out[0].type->kind == TYPE_TILE && op->out[0].type->rank == 0);
	}
}

/* ---- what a bill does not know ---- */

static const double HALF = 0.12;                        /* more for half of a line */
enum { LINE = 128, SCALES = 8 };                        /* bytes; of a group, by which its weights are more */

/* Elements of a row that one warp has, where warps divide the loop and each copies at its own time. */
static int64_t
run_of_warp(const Func *f, const Layout *l, int64_t row)
{
	for (int i = 0; f->schedule.slices > 1 && l && i < l->in[IN_WARP]; i++) {
		uint64_t mask = (UINT64_C(1) << l->out[l->rank - 1]) - 1;
		int64_t image = (int64_t)(l->map.col[layout_in_at(l, IN_WARP) + i] & mask);
		row = image > 0 ? MIN(row, image) : row;
	}
	return row;
}

/* A tile of rows that the op copies to shared memory, and its bytes; NULL. */
static const Type *
copied_rows(const Op *op, double *bytes)
{
	const Type *t = op->kind == OP_COPY ? op->in[1 + op->in[0]->type->rank]->type : NULL;
	*bytes = t ? (double)dtype_bytes(t->elem, type_count(t)) : 0;
	return t && t->rank >= 2 ? t : NULL;
}

/* Bytes of the largest tile that is copied, of such elements, or of any (-1). */
static double
most_copied(const Func *f, int elem)
{
	double most = 0, bytes;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *t = copied_rows(op, &bytes);
		most = t && (elem < 0 || t->elem == (DType)elem) ? MAX(most, bytes) : most;
	}
	return most;
}

/* The fewest bytes of a row that a warp has of a block's, of the largest tiles of each type with a good part of all bytes;
 * *row: that the block has. */
static double
row_piece(const Func *f, double *row)
{
	double piece = *row = LINE, bytes, most = most_copied(f, -1);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *t = copied_rows(op, &bytes);
		if (!t || SCALES * bytes <= most || bytes < most_copied(f, (int)t->elem))
			continue;
		int64_t columns = t->extent[t->rank - 1], run = run_of_warp(f, op->out[0].layout, columns);
		piece = run < columns ? MIN(piece, dtype_bytes(t->elem, run)) : piece;
		*row = MIN(*row, dtype_bytes(t->elem, columns));
	}
	return piece;
}

/* What pieces of lines of the L2 cache cost: others want the rest at other times.  16 x 4096 x 4096 in bf16 takes 11.5 us
 * on an H200 by 64 bytes of a row, 10.4 by 256; 16 x 14336 x 4096 32.6 and 30.3, in 8-bit floats 19.4 and 17.5.  A block
 * that has 16 bytes of a row, of which a sector of memory has two, leaves the others to another: AWQ's words of
 * 1 x 8192 x 8192 take 26.1 us so, 15.9 by 32. */
static double
in_pieces(const Func *f)
{
	static const double SECTOR = 32, PART = 0.4;
	double row, piece = row_piece(f, &row);
	return 1 + HALF * MAX(log2(LINE / piece), 0) + PART * MAX(log2(SECTOR / row), 0);
}

/* The same of products that read both operands as they are, by the shares of their tiles: 128 columns of weights [K, N]
 * take 1.07 to 1.1 of the time in rows of 64 bytes, 16 rows of x 1.03 to 1.07 by pieces of 32 where 64 are so for
 * others (16 x 5120 x 5120 to 16 x 28672 x 8192 in bf16, eight warps). */
static double
in_parts_of_lines(const Func *f)
{
	double all = 0, parts = 0, bytes;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *t = copied_rows(op, &bytes);
		if (!t)
			continue;
		int64_t run = run_of_warp(f, op->out[0].layout, t->extent[t->rank - 1]);
		all += bytes;
		parts += bytes * MAX(log2(LINE / (double)dtype_bytes(t->elem, run)), 0);
	}
	return 1 + HALF * parts / MAX(all, 1);
}

/* What waiting for each other at each trip costs warps that do not divide the loop, beyond the bill: two products of 16 x
 * 11008 x 4096 take 58.3 us, 45.6 by it. */
static double
together(const Func *f)
{
	static const double TOGETHER = 1.15;
	return f->schedule.slices > 1 ? 1 : TOGETHER;
}

/* Blocks of a loop with merge that leave no room beside them: the next grid's start when they are over.  128 KB by 8 warps
 * took 1.00 to 1.13 of what 64 KB by 4 did (19 shapes of decode, H200), where their bills are 0.8 to 0.95; where they
 * leave room 1.03 to 1.18 (pages of 16 and 64, heads of 64), their bills 0.71 to 0.93: those add up waits that overlap. */
static double
alone(const Func *f, const Target *t)
{
	static const double ALONE = 1.3, EIGHT = 1.2;
	return (2 * f->shared_bytes > t->shared_bytes_unit ? ALONE : 1) * (f->schedule.warps >= 8 ? EIGHT : 1);
}

int
choose_deeper(const Func *f, const Bound *b, const Target *t)
{
	double programs = choose_programs(b), trips = 0;
	int slots = 0, more;
	for (const Op *op = f->body->first; op; op = op->next) {
		slots = op->kind == OP_ALLOC ? MAX(slots, op->out[0].type->slots) : slots;
		trips = op->kind == OP_FOR ? MAX(trips, estimate_trips(f, b, op)) : trips;
	}
	bool is_alone = programs <= t->rates->multiprocessors && 2 * f->shared_bytes <= t->shared_bytes_unit;
	if (!is_alone || f->schedule.slices <= 1 || slots <= 1)
		return 0;
	if (trips >= 4 * slots)
		return 2 * slots;
	for (more = slots + 1; 2 * f->shared_bytes / slots * more <= t->shared_bytes_unit; more++)
		;
	return trips >= 2 * more ? more : 0;
}

double
choose_beyond(const Func *f, const Target *t, bool is_few, bool is_merged, bool is_plain)
{
	return (is_plain ? in_parts_of_lines(f) : in_pieces(f)) *
	    (is_few ? together(f) : 1) * (is_merged ? alone(f, t) : 1);
}

bool
choose_writes_by_number(const Func *f)
{
	bool loops = false, numbers = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		loops |= op->kind == OP_DOT && op->home->parent && op_is_loop(op->home->parent);
		numbers |= (op->kind == OP_WRITE || op->kind == OP_ATOMIC) && strchr(attr_index(op), 'g');
	}
	return numbers && !loops;
}

bool
choose_is_nest(const Func *f)
{
	const Op *dot = choose_count_dots(f) == 1 ? block_find(f->body, OP_DOT) : NULL;
	const Op *loop = dot ? dot->home->parent : NULL;
	return loop && op_is_loop(loop) && loop->home->parent && op_is_loop(loop->home->parent);
}

bool
choose_pads_depth(const Func *f)
{
	return choose_count_dots(f) == 1 && estimate_pads_depth(block_find(f->body, OP_DOT));
}
