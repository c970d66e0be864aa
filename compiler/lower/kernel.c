/* The kernel around the ops: its parameters become registers, and each block finds its programs.
 *
 * A kernel is launched over a line of blocks.  Block b runs program b; with `split`, it shares program b / split with the
 * other blocks of its cluster; in a persistent kernel it runs those of the loop that pass persist has put around the body.
 * The program's position on the grid is found by division, the first axis fastest.  With `group` rows walked together,
 * programs go down that many rows of axis 0 before they move on along axis 1, so that what neighbours read stays in the
 * second cache:
 *
 *     group 2 on a grid of 4 x 3        0 2 4      (row: axis 0)
 *                                       1 3 5
 *                                       6 8 10
 *                                       7 9 11 */
#include "lower/lower.h"

#include "pass/layout/axis.h"

#include <string.h>

Reg
lower_param(const Lower *l, AbiKind kind, int param, int dim)
{
	for (int i = 0; i < l->nabi; i++) {
		const AbiParam *a = &l->abi[i];
		bool by_dim = kind == ABI_STRIDE || kind == ABI_EXTENT || kind == ABI_TENSOR_MAP || kind == ABI_GRID ||
		    kind == ABI_INVERSE;
		bool same_dim = !by_dim || a->dim == dim;
		if (a->kind == kind && same_dim && (kind >= ABI_GRID || a->param == param))
			return l->param[i];
	}
	return 0;
}

static bool
writes_through_pointers(const Func *f)
{
	return ANY_OP(op, f->body,
	    op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR || op->kind == OP_INLINE_PTX);
}

/* Do threads read what others wrote, behind a barrier?  LLVM takes barriers not to change what is behind a pointer without
 * alias. */
static bool
is_exchanged(const Func *f, const Value *tensor)
{
	bool reads = false, writes = false, meets = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_of = op->nin > 0 && op->in[0] == tensor;
		reads |= is_of && op_has(op, READS);
		writes |= is_of && op_has(op, WRITES);
		meets |= attr_sync(op) || attr_sync_warp(op);
	}
	return reads && writes && meets;
}

static void
make_param(const Lower *l, const AbiParam *a, bool pointers, ThreadParam *out)
{
	static const char *const derived[] = {
		[ABI_GRID] = "grid", [ABI_FAULTS] = "faults", [ABI_COUNTER] = "counter",
		[ABI_ARRIVALS] = "arrivals", [ABI_PARTS] = "parts", [ABI_INVERSE] = "inverse"};
	const FuncParam *p = a->kind < ABI_GRID ? &l->f->param[a->param] : NULL;
	const Type *t = p ? l->f->body->arg[a->param].type : NULL;
	const int64_t extent_most = INT64_C(1) << 40;
	*out = (ThreadParam){.name = p ? p->name : derived[a->kind], .align = 1, .elem = t ? t->elem : TY_U8};
	switch (a->kind) {
	case ABI_POINTER:
		out->type = REG_GLOBAL;
		out->is_read_only = p->kind == PARAM_TENSOR && p->access == ACCESS_IN && !pointers && !l->reduces_angles;
		out->is_aliased = p->kind == PARAM_POINTER || pointers || is_exchanged(l->f, &l->f->body->arg[a->param]);
		out->align = (int)MAX(p->multiple, t->ptr != PTR_NONE ? 1 : (dtype_info[t->elem].bits + 7) / 8);
		break;
	case ABI_STRIDE:
		out->name = arena_printf(l->mem, "%s_stride%d", p->name, a->dim);
		out->type = REG_I64;
		out->elem = TY_I64;
		out->least = -extent_most;
		out->most = extent_most;
		break;
	case ABI_EXTENT:
		out->name = arena_printf(l->mem, "%s_dim%d", p->name, a->dim);
		out->elem = TY_I64;
		out->type = REG_I64;
		out->most = extent_most;
		break;
	case ABI_DIM:
		out->type = REG_I64;
		out->least = p->least;
		out->most = p->most > 0 ? p->most : extent_most;
		break;
	case ABI_TENSOR_MAP:
		out->name = arena_printf(l->mem, "%s_map%d", p->name, a->dim);
		out->type = REG_GLOBAL;
		out->elem = TY_U8;
		out->is_map = true;
		break;
	case ABI_SCALAR:
		out->type = t->elem == TY_BOOL ? REG_I8 : lower_type(t);
		break;
	case ABI_GRID:
		out->name = arena_printf(l->mem, "grid%d", a->dim);
		out->type = REG_I32;
		out->elem = TY_U32;
		out->least = 1;
		out->most = INT32_MAX;
		break;
	case ABI_INVERSE:
		out->name = arena_printf(l->mem, "inverse%d", a->dim);
		out->type = REG_I64;
		break;
	default:
		out->type = REG_GLOBAL;
		out->is_aliased = true;
	}
}

/* The first copy by a map would wait for it. */
static void
fetch_maps(Lower *l)
{
	if (l->nmaps == 0)
		return;
	lower_when(l, lower_op2(l, THREAD_EQ, l->thread, lower_i32(l, 0)));
	for (int i = 0; i < l->nmaps; i++) {
		Reg map = lower_param(l, ABI_TENSOR_MAP, l->map[i].param, i);
		thread_prim(l->b, PRIM_TENSOR_MAP, &map, 1, NULL, 0, NULL, 0);
	}
	lower_end_when(l);
}

/* Each angle takes 90 instructions of PTX, most of them for large arguments, and LLVM's time is quadratic in them (1024
 * angles a thread: 9 s).  Kernels with more than so many call a function of eight, where the target has calls. */
enum { ANGLES_INLINE = 64 };

/* Sines, cosines and tangents that a thread computes. */
static int64_t
angle_count(const Func *f)
{
	int64_t n = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if ((op->kind == OP_SIN || op->kind == OP_COS || op->kind == OP_TAN) && !attr_fast(op))
			n += lower_count(&op->out[0]);
	return n;
}

/* Functions of angles branch.  LLVM and ptxas move loads of read-only memory down past branches, to their uses, and then
 * nothing hides the latency: kernels with such functions load as from memory that may be written, and angles are reduced
 * after PRIM_HOLD, which no such load passes and which becomes no instruction. */
static void
find_angles(Lower *l)
{
	int64_t n = angle_count(l->f);
	l->reduces_angles = n > 0;
	l->calls_angles = n > ANGLES_INLINE;
}

static void
begin(Lower *l)
{
	ThreadParam *param = NEW_ARRAY(l->mem, ThreadParam, l->nabi);
	l->stores_through_pointers = writes_through_pointers(l->f);
	find_angles(l);
	l->has_halos = lower_has_halos(l->f);
	for (int i = 0; i < l->nabi; i++)
		make_param(l, &l->abi[i], l->stores_through_pointers, &param[i]);
	ThreadKernel k = {.name = l->f->name, .param = param, .nparam = l->nabi,
		.threads = MAX(l->f->schedule.share, 1) * l->warps * l->t->lanes,
		.shared_bytes = (int)lower_block_bytes(l->f, l->t), .shared_align = l->f->shared_bytes ? 1024 : 16,
		.cluster = func_cluster(l->f) > 1 ? func_cluster(l->f) : 0,
		/* registers by role are shares of one thread block's */
		.min_blocks = func_role_registers(l->f) ? 1 : min_blocks_per_sm(l->f, l->t, l->mem)};
	l->param = NEW_ARRAY(l->mem, Reg, l->nabi);
	thread_kernel(l->b, &k, l->param, &l->shared);
	lower_wait_for_grids(l);
	thread_prim(l->b, PRIM_THREAD, NULL, 0, NULL, 0, &l->thread, 1);
	l->lane = lower_op2(l, THREAD_AND, l->thread, lower_i32(l, l->t->lanes - 1));
	l->warp = lower_op2(l, THREAD_LSHR, l->thread, lower_i32(l, log2_ceil(l->t->lanes)));
	thread_prim(l->b, PRIM_BLOCK, NULL, 0, NULL, 0, &l->block, 1);
	lower_share_block(l);
	if (l->f->schedule.split > 1)
		l->block = lower_op2(l, THREAD_LSHR, l->block, lower_i32(l, log2_ceil(l->f->schedule.split)));
	fetch_maps(l);
}

/* A parameter of the function is a register of the kernel; a tensor's is its pointer. */
static void
bind_params(Lower *l)
{
	for (int i = 0; i < l->f->nparam; i++) {
		Value *v = &l->f->body->arg[i];
		ParamKind k = l->f->param[i].kind;
		AbiKind abi = k == PARAM_DIM ? ABI_DIM : k == PARAM_SCALAR ? ABI_SCALAR : ABI_POINTER;
		Reg r = lower_param(l, abi, i, 0);
		if (k == PARAM_SCALAR && v->type->elem == TY_BOOL)
			r = lower_op2(l, THREAD_NE, r, thread_int_const(l->b, REG_I8, 0));
		lower_new(l, v)[0] = r;
	}
}

static void
lower_programs(Lower *l)
{
	Reg grid[MAX_AXES];
	for (int d = 0; d < l->f->naxis; d++) {
		grid[d] = lower_param(l, ABI_GRID, 0, d);
		l->programs[d] = lower_as(l, CAST_ZEXT, REG_I64, grid[d]);
	}
	bool is_guarded = l->f->schedule.share > 1 && !artefact_is_persistent(l->f);
	if (is_guarded)
		lower_when_program(l, grid);
	if (!artefact_is_persistent(l->f))
		lower_find_program(l, l->block, grid, l->f->schedule.group, 0);
	const Op *stream = lower_stream_loop(l->f);
	bool is_divided = l->f->schedule.slices > 1;
	for (Op *op = l->f->body->first; op; op = op->next) {
		if (is_divided && (op == stream || op->kind == OP_GRID_WAIT))
			lower_signal_by_places(l, op == stream ? BEFORE_LOOP : BEFORE_WAIT);
		lower_op(l, op);
		if (op == stream && is_divided)
			lower_signal_by_places(l, BEHIND_LOOP);
		else if (op == stream)
			lower_start_next_grid(l);
	}
	if (!stream && lower_signals_late(l->f) && !block_find(l->f->body, OP_ROLES))
		lower_start_next_grid(l);
	if (is_guarded)
		lower_end_when(l);
}

static bool
verifies(const ThreadModule *m, Compile *cx, Arena *mem)
{
	const ThreadNode *at = NULL;
	const char *why = thread_module_verify(m, mem, &at);
	return !why || diag_error(cx, at ? at->place : NOWHERE, DIAG_PASS_BROKEN, "after", "lower", why);
}

ThreadModule *
lower_func(Func *f, const Target *t, Arena *mem)
{
	Lower l = {.b = thread_open(mem, t, true), .t = t, .cx = f->module->cx, .f = f, .mem = mem};
	int errors = l.cx->nerrors;
	l.warps = func_warps(f) ? func_warps(f) : 4;
	axis_keep(f);
	func_number(f);
	l.regs = NEW_ARRAY(mem, Reg *, f->nvalues);
	l.pairs = NEW_ARRAY(mem, LowerPair *, f->nvalues);
	l.abi = artefact_abi(f, t, mem, &l.nabi);
	l.map = artefact_maps(f, t, mem, &l.nmaps);
	begin(&l);
	bind_params(&l);
	lower_programs(&l);
	ThreadModule *m = thread_module(l.b);
	thread_sweep(m);
	if (!func_waits_late(f))
		thread_wait_late(m);
	if (!func_waits_late(f) && f->schedule.slices > 1 && lower_stream_loop(f) && t->rates)
		thread_fetch_early(m, lower_half_of_places(&l));
	thread_fit_blocks(m);
	thread_order(m);
	if (l.cx->nerrors > errors || (l.cx->verifies && !verifies(m, l.cx, mem)))
		return NULL;
	return m;
}
