/* A block that needs more shared memory than there is, or whose threads would hold too large tiles: fewer stages, then
 * other warps, where the schedule leaves them open.  Passes choose stages by an estimate of what else the block has, since
 * what it has is known at their end only.
 *
 *     stages  4 (as the passes choose)  3  2  1          with the warps that they choose,
 *     stages  4                         3  2  1          then with twice as many, half as many, four times …
 *
 * The first that fits is taken; more warps come first, since each thread has less to hold.  Where reports are muted, as
 * where schedules are compared, each stays as it is. */
#include "compile/compile.h"

enum { STAGES_TRIED = 8 };

typedef struct Fit {
	Kernel *k;
	const Target *t;
	const ArgAssumptions *assumptions;
	PassOptions opt;
	int stages, warps;                              /* that were too many, or too few */
	Bound bound;                                    /* as tried last */
} Fit;

static bool
is_too_large(const Compile *cx)
{
	return !cx->muted && cx->last && (cx->last->code == DIAG_SMEM_LARGE || cx->last->code == DIAG_TILE_REGISTERS);
}

/* Slots of the largest ring. */
static int
most_slots(const Func *f)
{
	int n = 1;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_ALLOC)
			n = MAX(n, op->out[0].type->slots);
	return MIN(n, STAGES_TRIED);
}

/* 0: as the passes choose. */
static Module *
try(Fit *f, const Bound *b, int stages, int warps)
{
	Compile *cx = f->k->program->cx;
	Module *m;
	f->bound = *b;
	f->bound.schedule.stages = stages;
	f->bound.schedule.warps = warps;
	Diag *said = cx->last;
	bool ok = compile_as_is(f->k, &f->bound, f->t, f->assumptions, &f->opt, &m);
	diag_cut(cx, said);
	return ok ? m : NULL;
}

static Module *
try_stages(Fit *f, const Bound *b, int warps, bool open, bool first)
{
	Module *m = first ? NULL : try(f, b, b->schedule.stages, warps);
	for (int stages = f->stages - 1; !m && open && stages >= 1; stages--)
		m = try(f, b, stages, warps);
	return m;
}

static Module *
try_all(Fit *f, const Bound *b, bool stages_open, bool warps_open)
{
	int most = schedule_info[SCHEDULE_WARPS].most;
	Module *m = try_stages(f, b, b->schedule.warps, stages_open, true);
	for (int by = 2; !m && warps_open && f->warps > 0 && by <= most; by *= 2) {
		if (f->warps * by <= most)
			m = try_stages(f, b, f->warps * by, stages_open, false);
		if (!m && f->warps / by >= 1)
			m = try_stages(f, b, f->warps / by, stages_open, false);
	}
	return m;
}

/* What would help, of what is given. */
static void
say(Fit *f, const Bound *b)
{
	Compile *cx = f->k->program->cx;
	bool stages = b->schedule.stages > 0, warps = b->schedule.warps > 0;
	const char *registers = cx->last->code == DIAG_TILE_REGISTERS ? "take smaller tiles in a loop" : NULL;
	if (stages && try_all(f, b, true, false))
		diag_help(cx, "it fits with stages = %d; or take smaller tiles", f->bound.schedule.stages);
	else if (warps && try_all(f, b, !stages, true))
		diag_help(cx, "it fits with warps = %d; or take smaller tiles", f->bound.schedule.warps);
	else if (stages && warps && try_all(f, b, true, true))
		diag_help(cx, "it fits with warps = %d, stages = %d; or take smaller tiles", f->bound.schedule.warps,
		    f->bound.schedule.stages);
	else
		diag_help(cx, "%s", registers ? registers : "smaller tiles need less");
}

Module *
compile_fitting(Kernel *k, const Bound *b, const Target *t, const ArgAssumptions *assumptions, const PassOptions *opt,
    const Module *failed)
{
	Compile *cx = k->program->cx;
	if (!is_too_large(cx))
		return NULL;
	const Func *f = failed->funcs.at[0];
	Fit x = {.k = k, .t = t, .assumptions = assumptions, .stages = most_slots(f), .warps = f->schedule.warps};
	if (opt)
		x.opt = *opt;
	Diag *error = cx->last;
	Module *m = try_all(&x, b, b->schedule.stages <= 0, b->schedule.warps <= 0);
	if (m)
		diag_drop(cx, error);
	else
		say(&x, b);
	return m;
}
