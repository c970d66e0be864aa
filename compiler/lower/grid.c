/* When a grid lets the next one start, and where it waits for those before (docs/cuda.md). */
#include "lower/lower.h"
#include "model/model.h"

/* Thread blocks at the end of a grid that signal their start (griddepcontrol.launch_dependents).  The signal takes as long
 * as starting a thread block: with a signal from each, grids on an H200 started at half the rate (1.2 ns a block, not 0.6).
 * An H200 runs about so many thread blocks at once. */
enum { LAST_BLOCKS = 1024 };

/* A loop that waits for memory, with copies under way: behind it, blocks of the next grid may start.  Earlier they would
 * take the room of this grid's own blocks, which then stand two on one multiprocessor while others are idle: signalled at
 * their start, products of few rows took 16.6 us in place of 12.3 (H200, int4, 128 blocks of 90 KB). */
const Op *
lower_stream_loop(const Func *f)
{
	enum { FEW_ROWS = 32 };
	for (const Op *loop = f->body->first; loop; loop = loop->next) {
		bool commits = false, few = false, many = false;
		for (const Op *op = loop->kind == OP_FOR ? loop->region[0]->first : NULL; op; op = op->next) {
			const Type *t = op->kind == OP_DOT ? op->out[0].type : NULL;
			bool is_few = t && MIN(t->extent[t->rank - 2], t->extent[t->rank - 1]) <= FEW_ROWS;
			commits |= op->kind == OP_COMMIT;
			few |= is_few;
			many |= t && !is_few;
		}
		if (commits && few && !many)
			return loop;
	}
	return NULL;
}

/* Does a loop have several products, as those of attention? */
static bool
has_chains(const Func *f)
{
	for (const Op *loop = f->body->first; loop; loop = op_after(loop, f->body)) {
		int n = 0;
		for (const Op *op = op_is_loop(loop) ? loop->region[0]->first : NULL; op; op = op->next)
			n += op->kind == OP_DOT || op->kind == OP_DOT_START;
		if (n > 1)
			return true;
	}
	return false;
}

/* Kernels that multiply signal at their end: signalled first, the next grid's blocks took multiprocessors that have no
 * block of this grid, and the rest where its blocks ended first, so that some GPCs, or multiprocessors, had more blocks
 * than others.  On an H200 products of 512^3 took 4.2 us in a chain of launches and take 3.1, flat 640 x 1280 x 8192 38.9
 * and 31.5, in roles 36.6 and 33.6; 22 flat forms of 11 shapes 0.91 in the mean, 0.74 to 1.05.  Those with several products
 * in a loop signal first: attention, causal attention, one with a mask and one of two loops took 1631, 896, 629 and 264 us
 * so, 1641, 909, 644 and 268 signalled at their end. */
bool
lower_signals_late(const Func *f)
{
	bool multiplies = block_find(f->body, OP_DOT) || block_find(f->body, OP_DOT_START) || block_find(f->body, OP_ROLES);
	return lower_stream_loop(f) || (multiplies && !has_chains(f));
}

void
lower_start_next_grid(Lower *l)
{
	Reg block, blocks;
	if (!(l->t->has & HAS_GRID_WAIT))
		return;
	thread_prim(l->b, PRIM_BLOCK, NULL, 0, NULL, 0, &block, 1);
	thread_prim(l->b, PRIM_NBLOCKS, NULL, 0, NULL, 0, &blocks, 1);
	Reg ahead = lower_op2(l, THREAD_ADD, block, lower_i32(l, LAST_BLOCKS));
	Reg is_last = lower_op2(l, THREAD_ULE, blocks, ahead);
	thread_prim(l->b, PRIM_GRID_NEXT, &is_last, 1, NULL, 0, NULL, 0);
}

/* Blocks that the chip has places for, where a thread takes so many registers. */
static int
places_of(const Lower *l, int registers)
{
	int each = MIN(blocks_by_shared(l->f, l->t), l->t->registers / (registers * l->warps * l->t->lanes));
	return each * (int)l->t->rates->multiprocessors;
}

int
lower_half_of_places(const Lower *l)
{
	enum { REGISTERS = 128 };
	return places_of(l, REGISTERS) / 2;
}

/* Loops that a block's warps divide signal where the next grid's blocks come to stand as evenly as this one's: before their
 * copies of `in fixed` tensors or behind the loop, where this grid takes up nearly all places for blocks that there are;
 * before the loop, where there is place for a whole grid more, which then stands beside this one; else not at all, since
 * blocks would go to the multiprocessors that are free first.  1 x 8192 x 8192 by 4-bit weights on an H200, 256 blocks,
 * takes with 2 places on a multiprocessor 11.3 us, fixed 9.9; with 4 11.5, and signalled behind the loop 12.7; with 3 12.0
 * without a signal, 12.8 behind the loop, 15.9 before it. */
void
lower_signal_by_places(Lower *l, LowerSignal at)
{
	enum { LEAST = 96, OF = 3, NEARLY = 2 };        /* registers of a thread; two thirds of the places */
	Reg blocks;
	if (!(l->t->has & HAS_GRID_WAIT) || !l->t->rates)
		return;
	thread_prim(l->b, PRIM_NBLOCKS, NULL, 0, NULL, 0, &blocks, 1);
	int nearly = NEARLY * MAX(places_of(l, LEAST), (int)l->t->rates->multiprocessors) / OF;
	Reg goes = at == BEFORE_LOOP ? lower_op2(l, THREAD_ULE, blocks, lower_i32(l, lower_half_of_places(l)))
	                             : lower_op2(l, THREAD_ULE, lower_i32(l, nearly), blocks);
	thread_prim(l->b, PRIM_GRID_NEXT, &goes, 1, NULL, 0, NULL, 0);
}

/* Programmatic dependent launch: a grid may start while the one before it still runs, if the runtime allows it and each
 * thread block of that one has ended or signalled; the cost of starting is hidden.  Each thread waits before it accesses
 * memory, until the grid before is over and its writes are visible; since every grid waits, so are those of earlier grids.
 * What touches no memory goes before the wait (thread/late.c); ptx_waits_first looks whether all paths wait.  A kernel that
 * copies tensors which are `in fixed` ahead of it says where it waits (op grid_wait). */
void
lower_wait_for_grids(Lower *l)
{
	if (!(l->t->has & HAS_GRID_WAIT))
		return;
	if (!lower_signals_late(l->f))
		lower_start_next_grid(l);
	if (!func_waits_late(l->f))
		thread_prim(l->b, PRIM_GRID_WAIT, NULL, 0, NULL, 0, NULL, 0);
}
