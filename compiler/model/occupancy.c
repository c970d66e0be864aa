/* How many blocks of a kernel a multiprocessor is to hold, where asking for it pays: minnctapersm of PTX.
 *
 * The two assemblers choose registers differently.  ptxas saves registers so that one block more fits, and begins some of
 * the loads that could overlap only after the first ones' values are used.  The driver's linker takes all registers
 * that make the order best, and few blocks fit.  Asked for a number of blocks both give the same code.  Where tiles are
 * read once others are held over reductions, both matter: blocks in other phases use memory while this one reduces, and
 * what it reads then should come all at once.  Half of the threads that a multiprocessor holds are enough, and each has
 * 64 registers then:
 *
 *     %v = read … : f32[8192] #0          256 threads: 32 registers each, live over both reductions:
 *     %m = reduce %v …                    65536 / (64 * 256) = 4 blocks
 *     %s = reduce …
 *     %w = read …
 *
 * Loops that read several trips ahead (pass unroll) hold what they read; ptxas alone begins a few of the reads together and
 * the others one by one (column_mean of bench/warps/aside.tgl, 16 trips: 32 registers and 4 reads; asked for 6 blocks 80
 * registers and 13 reads).  There as many blocks are asked for as the live registers leave room for.
 *
 * Loops that warps divide fill shared memory with their rings.  ptxas counts registers alone, and spills some to fit a
 * block more (int4, 16 x 8192 x 8192 in groups of 64: 128 registers and 8 bytes spilled; asked for the one block that
 * fits 141).
 *
 * With more live registers than that, they would spill.  Registers are counted where elements cannot be worked on one
 * after another, that is across reductions.  Other loops and branches, scans, products, functions that are long in
 * registers, and tiles that reach out of their tensors are left alone. */
#include "model/model.h"

#include <string.h>

enum { REGISTERS = 64, LIVE_MIN = 24, LIVE_MAX = 36 };  /* of a thread */
enum { BLOCKS_MAX = 16, OPS_MAX = 512, EACH_LOOP = 8 };                /* BLOCKS: the limit of sm_75 and sm_86 */
enum { SYSTEM_BYTES = 1024 };                           /* of each block's shared memory: CUDA C++ Programming Guide */

/* Ops whose code takes many registers, or registers that do not follow from their tiles. */
static bool
has_unmodelled_pressure(const Op *op)
{
	switch (op_info[op->kind].cost) {
	case COST_LONG: case COST_WHOLE: case COST_OPAQUE:
		return true;
	case COST_FREE: case COST_ALU: case COST_SFU: case COST_DIVIDE: case COST_ACCESS: case COST_NONE:
		break;
	}
	return op_family(op) == FAMILY_ATOMIC || op_family(op) == FAMILY_BUFFER ||
	    (op->nout > 0 && (op->out[0].type->elem == TY_F64 || op->out[0].type->ptr != PTR_NONE));
}

/* Masks and clamped addresses take registers that are not counted here. */
static bool
is_tested(const Op *op)
{
	const IntList *inside = attr_inside(op);
	if (op->kind != OP_READ && op->kind != OP_WRITE)
		return op->kind == OP_LOAD || op->kind == OP_STORE;
	if (inside && !ALL_OF(i, inside->n, inside->at[i]))
		return true;
	return !inside && op->in[0]->type->rank > 0;
}

/* Are the registers that a thread takes those of its tiles? */
static bool
is_modelled(const Func *f)
{
	int n = 0;
	return !ANY_OP_HERE(op, f->body, op->nregion > 0 || has_unmodelled_pressure(op) || is_tested(op) ||
	    n++ >= OPS_MAX);
}

/* Products that are written out, whose operands threads read before the first. */
static bool
is_written_out(const Func *f)
{
	int n = 0;
	for (const Op *op = f->body->first; op; op = op->next) {
		if (op->nregion)
			return false;
		n += op->kind == OP_DOT_START;
	}
	return n > 1;
}

/* Indices of the greatest are reduced as pairs of registers, which are not counted. */
static bool
has_keys(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_REDUCE && strncmp(attr_fn(op), "arg", 3) == 0);
}

int
blocks_by_shared(const Func *f, const Target *t)
{
	return (int)(t->shared_bytes_unit / (MAX(f->schedule.share, 1) * f->shared_bytes + SYSTEM_BYTES));
}

static int
blocks_ahead(const Func *f, const Target *t, Arena *mem)
{
	static const double MORE = 1.12;                /* than the estimate: addresses of each read */
	int live = live_registers(f, mem), registers = MIN((int)(MORE * live) + EACH_LOOP, t->max_registers);
	if (f->schedule.keep > 1 && live <= REGISTERS)
		registers = MIN(registers, REGISTERS);  /* only the first loop reads, the others wait for little */
	int warps = f->schedule.warps * MAX(f->schedule.share, 1);
	int fit = t->registers / ((registers + 7) / 8 * 8 * warps * t->lanes);
	if (f->schedule.keep)
		fit = MIN(fit, blocks_by_shared(f, t));
	return MIN(MIN(MAX(fit, 1), BLOCKS_MAX), t->max_warps / warps);
}

/* One, or two where shared memory and registers have room for them; of more, of few threads, ptxas thinks by itself. */
static int
blocks_of_slices(const Func *f, const Target *t, Arena *mem)
{
	return MIN(blocks_by_shared(f, t), blocks_ahead(f, t, mem)) > 1 ? 2 : 1;
}

int
min_blocks_per_sm(Func *f, const Target *t, Arena *mem)
{
	int warps = f->schedule.warps * MAX(f->schedule.share, 1), live, late = 0;
	if (t->kind != TARGET_PTX || warps == 0 || f->schedule.persistent)
		return 0;
	func_number(f);
	if (f->schedule.slices > 1)
		return blocks_of_slices(f, t, mem);
	if (ANY_OP(op, f->body, op->kind == OP_FOR && attr_unrolled(op) > 0))
		return has_keys(f) ? 0 : blocks_ahead(f, t, mem);
	if (is_written_out(f))
		return MIN(MAX(blocks_by_shared(f, t), 1), blocks_ahead(f, t, mem));
	live = is_modelled(f) ? live_over_reductions(f, mem, &late) : 0;
	if (live < LIVE_MIN || live > LIVE_MAX || late == 0)
		return 0;
	int fit = MIN(4 * (t->registers / 4 / (REGISTERS * t->lanes)), t->max_warps);   /* a quarter is one scheduler's */
	return MIN(MAX(fit / warps, 1), BLOCKS_MAX);
}
