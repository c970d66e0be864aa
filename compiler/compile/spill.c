/* Words for a kernel whose threads need more registers than they have.
 *
 * What does not fit an assembler keeps in local memory, which is global memory behind the caches: the kernel is right,
 * and slow.  A smaller tile leaves each thread less to hold, and so do more warps, as long as a multiprocessor's registers
 * still give each of their threads as many as one can have:
 *
 *     'att' needs more registers than a thread has on sm_90a: 2576 bytes of stores and loads spill them to local memory
 *       = help: more warps (warps = 8) or a smaller tile (BM = 64) leave each thread less to hold
 *
 * Of a few words nothing is said: ptxas moves a program's scalars out of the way of its loops, stores them once and loads
 * them once a program.
 */
#include "compile/inspect.h"
#include "lower/lower.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a thread's stores and loads together: 8 registers, stored and loaded once. */
enum { FEW_BYTES = 64 };
/* What an estimate may be over the limit by: of 206 builds, 146 of them near it, ptxas spills in 9 of the 11 beyond, and
 * in 9 others (sm_90a; dsl_examples, bench, tests).  Sums leave a loop's addresses and operands what is beside them: no
 * order of instructions lets go of them. */
enum { MARGIN_PERCENT = 140, MARGIN = 48, BESIDE_SUMS = 16 };

/* Is a compile-time value the extent of a tensor?  Then it is the data's, no choice. */
static bool
is_extent(const Bound *b, int64_t v)
{
	return ANY_OF(i, b->kernel->params.n,
	    ANY_OF(d, b->param[i].rank, b->param[i].dim_const[d] && b->param[i].dim[d] == v));
}

/* Has a tile of the function an extent of that value?  f may be NULL: not known, so that it may. */
static bool
is_tile_extent(const Func *f, int64_t v)
{
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nout; i++)
			for (int d = 0; op->out[i].type->kind == TYPE_TILE && d < op->out[i].type->rank; d++)
				if (op->out[i].type->extent[d] == v)
					return true;
	return !f;
}

bool
inspect_is_tile(const Func *f, int64_t v)
{
	return is_tile_extent(f, v) || is_tile_extent(f, INT64_C(1) << log2_ceil(v));
}

/* Does the source compute it, as B = pow2ceil(V) of a row?  Then half of it is another result. */
static bool
is_computed(const Bound *b, const char *name)
{
	const Item *it = b->kernel->item;
	return VALUE_OF(i, it->ctparams.n, it->ctparams.at[i].name == name,
	    it->ctparams.at[i].value && it->ctparams.at[i].value->kind != EX_INT, false);
}

/* The greatest compile-time parameter that could be half; NULL: none. */
static const NamedConst *
largest_tile(const Func *f, const Bound *b)
{
	const NamedConst *best = NULL;
	for (int i = 0; b && i < b->nct; i++) {
		const Const *v = &b->ct[i].value;
		if (v->kind != CONST_INT || v->i < 32 || v->i % 2 != 0 || is_extent(b, v->i) || !is_tile_extent(f, v->i) ||
		    is_computed(b, b->ct[i].name))
			continue;
		if (!best || v->i > best->value.i)
			best = &b->ct[i];
	}
	return best;
}

/* Would twice the threads have as many registers each? */
static bool
more_warps_help(const Target *t, int threads)
{
	return threads * 2 <= t->max_threads && t->registers / (threads * 2) > t->max_registers;
}

/* Trips of a loop that it reads for before it computes for the first; 1: of none. */
static int
trips_ahead(const Func *f)
{
	int most = 1;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && attr_unrolled(op) > most)
			most = attr_unrolled(op);
	return most;
}

static void
say_mend(Compile *cx, const Func *f, const Bound *b, const Target *t, int threads)
{
	int ahead = trips_ahead(f);                     /* what they read waits, of tiles of one element a thread, too */
	if (ahead > 1) {
		diag_help(cx, "fewer trips that are read ahead (unroll = %d) leave each thread less to hold", ahead / 2);
		return;
	}
	const NamedConst *tile = largest_tile(f, b);
	char warps[48] = "", smaller[160] = "smaller tiles leave";
	if (more_warps_help(t, threads))
		snprintf(warps, sizeof warps, "more warps (warps = %d) or ", threads / t->lanes * 2);
	if (tile && strlen(tile->name) < 64)
		snprintf(smaller, sizeof smaller, "a smaller tile (%s = %lld) %s", tile->name,
		    (long long)tile->value.i / 2, *warps ? "leave" : "leaves");
	diag_help(cx, "%s%s each thread less to hold", warps, smaller);
}

static void
warn(Compile *cx, Place at, const char *kernel, const Func *f, const Target *t, const Bound *b, int threads,
    const char *why)
{
	diag_warning(cx, at, DIAG_SPILLS, kernel, t->name, why);
	say_mend(cx, f, b, t, threads);
}

static void
warn_module(const Module *m, const Target *t, const Bound *b, const char *why)
{
	const Func *f = m->funcs.at[0];
	warn(m->cx, b ? b->kernel->item->name_place : f->place, f->name, f, t, b,
	    MAX(func_warps(f), 1) * t->lanes, why);
}

bool
pressure_estimate(Func *f, const Target *t, Pressure *out)
{
	Arena *mem = arena_open();
	const ThreadModule *m = lower_func(f, t, mem);
	*out = (Pressure){.blocks = m ? m->kernel.min_blocks : 0};
	if (m && !func_role_registers(f)) {
		int each = t->registers / (m->kernel.threads * MAX(m->kernel.min_blocks, 1)) / 8 * 8;
		out->limit = MIN(each, t->max_registers);
		out->held = thread_live(m, &out->sums);
	}
	arena_close(mem);
	return m != NULL;
}

bool
pressure_spills(Pressure p)
{
	if (p.sums > 0 && p.sums + BESIDE_SUMS > p.limit)
		return true;
	return (int64_t)p.held * 100 > (int64_t)p.limit * MARGIN_PERCENT && p.held > p.limit + MARGIN;
}

void
spill_warn(const Module *m, const Target *t, const Bound *b, int bytes)
{
	char why[96];
	snprintf(why, sizeof why, "%d bytes of stores and loads spill them to local memory", bytes);
	if (bytes > FEW_BYTES)
		warn_module(m, t, b, why);
}

void
spill_warn_likely(const Module *m, const Target *t, const Bound *b, Pressure p)
{
	char why[96];
	snprintf(why, sizeof why, "about %d at once, by an estimate of what is live, of %d", p.held, p.limit);
	if (pressure_spills(p))
		warn_module(m, t, b, why);
}

void
spill_warn_loaded(Compile *cx, const Bound *b, const Target *t, int threads, int bytes)
{
	char why[96];
	if (2 * bytes <= FEW_BYTES)
		return;
	snprintf(why, sizeof why, "%d bytes a thread are spilled to local memory", bytes);
	warn(cx, b->kernel->item->name_place, b->kernel->name, NULL, t, b, threads, why);
}

/* `.local .align 8 .b8 __local_depot0[16];` */
int
ptx_local_bytes(const char *text)
{
	int sum = 0;
	for (const char *s = text; (s = strstr(s, ".local .align ")); s++) {
		const char *open = strpbrk(s, "[;\n");
		if (open && *open == '[')
			sum += (int)strtol(open + 1, NULL, 10);
	}
	return sum;
}

/* ---- what an assembler said ---- */

/* Of so many blocks, if that is fewer. */
static void
hold(Inspection *x, int64_t blocks, const char *by)
{
	if (blocks >= x->blocks)
		return;
	x->blocks = (int)blocks;
	x->held_by = by;
}

int
inspect_grid(const Inspection *x)
{
	double units = x->t->rates ? x->t->rates->multiprocessors : 0;
	return units > 0 ? (int)MIN(ceil(x->grid / units), INT_MAX) : 0;
}

int
inspect_warps(const Inspection *x, Text *by)
{
	int warps = MAX(func_warps(x->f), 1), there = inspect_grid(x);
	if (there > 0 && there < x->blocks) {
		text_printf(by, "by the grid: %.0f block%s for %d multiprocessors", x->grid, x->grid == 1 ? "" : "s",
		    x->t->rates->multiprocessors);
		return there * warps;
	}
	if (x->blocks * warps < x->t->max_warps)
		text_put(by, x->held_by);
	return x->blocks * warps;
}

void
inspect_resources(Inspection *x, int registers, int spills, int stack)
{
	enum { SYSTEM_BYTES = 1024 };                   /* of a block's shared memory, which the driver keeps */
	static const char by_registers[] = "by registers";
	int share = MAX(x->f->schedule.share, 1), warps = MAX(func_warps(x->f), 1) * share;
	x->registers = registers;
	x->spills = spills;
	x->stack = stack;
	x->blocks = INSPECT_BLOCKS;
	x->held_by = "by the most blocks, 32";
	hold(x, x->t->max_warps / warps, "by the block's size");
	if (registers > 0)                              /* given out to a warp in eights for each thread */
		hold(x, x->t->registers / ((registers + 7) / 8 * 8 * x->t->lanes * warps), by_registers);
	if (x->f->shared_bytes > 0) {
		int64_t blocks = x->t->shared_bytes_unit / (share * x->f->shared_bytes + SYSTEM_BYTES);
		bool both = blocks == x->blocks && strcmp(x->held_by, by_registers) == 0;
		hold(x, blocks, "by shared memory");
		x->held_by = both ? "by registers and shared memory" : x->held_by;
	}
	x->blocks *= share;
}
