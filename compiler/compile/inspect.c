/* Reads the figures off layouts and attributes of a module that went through a GPU's pipeline.
 *
 * Nothing is estimated that the compiler decides: widths, ways of conversion and places in shared memory are what
 * lowering will do.  Sectors (sectors.c) and banks are those of a warp's worst access. */
#include "compile/inspect.h"
#include "model/turn.h"

#include "pass/layout/axis.h"

#include <math.h>

/* The operand that a pointer comes from, one op back; NULL: there is no one such. */
static const Value *
pointer_before(const Value *v)
{
	const Op *op = v->def, *loop = op ? NULL : v->block->parent;
	if (loop)
		return loop->kind == OP_FOR && v->index > 0 ? loop->in[2 + v->index]
		    : loop->kind == OP_WHILE                ? loop->in[v->index]
		                                            : NULL;
	if (!op || op->nin == 0)
		return NULL;
	switch (op->kind) {
	case OP_PTR_ADD: case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_CONVERT: return op->in[0];
	default: return NULL;
	}
}

/* Of the parameter that a tensor or a pointer is of, else its own. */
static const char *
tensor_name(const Value *v)
{
	const Value *p = FIND_NEXT(w, v, pointer_before(w), !w->def && !w->block->parent);
	if (p)
		return p->block->func->param[p->index].name;
	return v->name ? v->name : "";
}

static const char *
bounds_tested(const Op *op, Arena *mem)
{
	const IntList *inside = attr_inside(op);
	Text t = {0};
	for (int d = 0; d < op->in[0]->type->rank; d++)
		if (!inside || d >= inside->n || !inside->at[d])
			text_printf(&t, "%s%d", t.n ? ", " : "", d);
	return text_take(&t, mem);
}

/* How a tile of that layout moves between threads and device memory. */
static void
measure_access(InspectLine *x, const Op *op, const InspectArg *arg, const Target *t, Arena *mem)
{
	int vector = (int)attr_vector(op),
	    bits = x->tile->ptr != PTR_NONE ? 64 : dtype_info[x->tile->elem].bits;
	x->bytes = MAX(vector * bits / 8, 1);
	x->accesses = 1;
	x->touched = x->least = 1;
	x->sectors_known = true;
	if (!x->layout)
		return;
	int halo = access_halo(op, x->layout, t);       /* vectors that other reads share, one more than it fills */
	vector = MAX(vector, 1 << halo);
	x->bytes = MAX(vector * bits / 8, 1);
	x->accesses = MAX((1 << x->layout->in[IN_REGISTER]) / vector, 1) + (halo > 0);
	if (vector == 1 && inspect_records(x, op, bits, t))
		return;
	int along, words = vector == 1 ? access_window(op, &along) : 0;
	if (words && layout_contiguous(x->layout, along) >= log2_floor(WINDOW)) {
		x->bytes = 4;
		x->accesses = x->accesses / WINDOW * words;
		x->touched = words << x->layout->in[IN_LANE] >> 3;
		x->least = 1 << x->layout->in[IN_LANE] >> 3;
		return;
	}
	double fresh = cost_fresh(op, vector);
	x->again = halo > 0 && fresh < 1 ? -1 : (int)lround(x->accesses * (1 - fresh));
	inspect_sectors(arg, op, vector, x);
	x->cause = inspect_cause(arg, op, x->tile, x->layout, vector, mem);
}

static void
note_access(InspectLine *x, const Op *op, const Target *t, const InspectArg *arg, Arena *mem)
{
	const Value *v = access_tile(op);
	bool is_tensor = op->in[0]->type->kind == TYPE_TENSOR;
	x->kind = INSPECT_ACCESS;
	x->what = arena_printf(mem, "%s %s", op_info[op->kind].text, tensor_name(op->in[0]));
	x->tile = v->type;
	x->layout = v->layout;
	x->tested = is_tensor ? bounds_tested(op, mem) : "";
	measure_access(x, op, arg, t, mem);
	x->not_ahead = is_tensor ? inspect_not_ahead(op, x->bytes, mem) : NULL;
}

static void
note_copy(InspectLine *x, const Op *op, const Target *t, const InspectArg *arg, Arena *mem)
{
	const Value *slot = NULL;
	for (int i = 0; i < op->nin && !slot; i++)
		if (op->in[i]->type->kind == TYPE_BUFFER)
			slot = op->in[i];
	x->kind = INSPECT_COPY;
	x->what = arena_printf(mem, "copy %s", tensor_name(op->in[0]));
	x->tile = slot->type;
	x->layout = op->out[0].layout;
	x->tested = bounds_tested(op, mem);
	x->way = attr_kind(op);
	x->no_map = t->has & HAS_TMA ? map_reason(op, t) : NULL;
	x->sectors_known = true;
	if (!x->layout)
		return;
	measure_access(x, op, arg, t, mem);
	if (!slot->layout)
		return;
	x->in = plan_banks(x->layout, slot->layout, x->tile->elem, BANKS_COPY, t);
	if (x->in.bytes > 0 && x->in.bytes < x->bytes) {        /* as wide as both sides are */
		x->accesses *= x->bytes / x->in.bytes;
		x->least = MAX(x->least * x->in.bytes / x->bytes, 1);
		x->bytes = x->in.bytes;
	}
}

/* One thread has the hardware move whole boxes: as wide as an access gets, and each byte once. */
static void
note_map(InspectLine *x, const Op *op, const Target *t, Arena *mem)
{
	TensorMap m;
	Text way = {0};
	x->kind = INSPECT_COPY;
	x->what = arena_printf(mem, "%s %s", op_info[op->kind].text, tensor_name(op->in[0]));
	x->tile = op->in[access_data(op)]->type;
	x->bytes = 16;
	x->touched = x->least = 1;
	x->sectors_known = true;
	x->way = "by tensor map";
	if (plan_map(op, t, &m))
		return;
	text_put(&way, m.windows ? "by tensor map, windows of" : "by tensor map, boxes of");
	for (int d = 0; d < (m.windows ? 2 : m.rank); d++)
		text_printf(&way, "%s %d", d ? " x" : "", m.box[d]);
	if (m.last)
		text_printf(&way, ", the last of %d", m.last);
	text_printf(&way, m.swizzle ? ", swizzle %d" : ", no swizzle", m.swizzle);
	text_put(&way, m.is_added ? ", added to what is there" : "");
	if (m.ranks > 1)
		text_printf(&way, m.is_stored ? ", of each of %d warps" : ", shared out among %d blocks and sent to all",
		    m.ranks);
	x->way = text_take(&way, mem);
}

static void
note_convert(InspectLine *x, const Op *op, const Target *t)
{
	static const char *const way[] = {"nothing", "registers", "shuffles", "shared memory"};
	const Layout *from = op->in[0]->layout, *to = op->out[0].layout;
	int bytes = element_bytes(op->out[0].type);
	DType elem = dtype_is_packed(op->out[0].type->elem) ? TY_I8 : op->out[0].type->elem;
	ConvertPlan c = {.kind = CONVERT_SHARED};
	x->kind = INSPECT_CONVERT;
	x->what = "convert";
	x->of = inspect_name(op->in[0]);
	x->tile = op->out[0].type;
	x->layout = to;
	if (from && to)
		plan_convert(from, to, bytes, &c);
	x->way = way[c.kind];
	if (c.kind == CONVERT_SHARED && from && to) {
		Layout shared = layout_best_shared(from, to, bytes);
		x->in = plan_banks(from, &shared, elem, BANKS_WRITE, t);
		x->out = plan_banks(to, &shared, elem, BANKS_READ, t);
	}
}

static int64_t
dot_depth(const Op *op)
{
	const Type *a = op->in[0]->type;
	const IntList *flipped = attr_transposed(op);
	return a->extent[flipped && flipped->at[0] ? a->rank - 2 : a->rank - 1];
}

static void
note_dot(InspectLine *x, const Op *op, const Target *t, Arena *mem)
{
	const char *mma = attr_mma(op);
	const Type *c = op->out[0].type;
	int warps = op->out[0].layout ? op->out[0].layout->in[IN_WARP] : 0;
	int64_t columns = c->extent[c->rank - 1], depth = dot_depth(op);
	int held = op->out[0].layout ? 1 << op->out[0].layout->in[IN_REGISTER] : 0;
	WgmmaPlan p;
	if (op->kind == OP_DOT_START && plan_wgmma(op, &p)) {   /* padding of columns and of K is not multiplied */
		held = held * p.info->n >> log2_ceil(p.info->n);
		columns = columns * p.info->n >> log2_ceil(p.info->n);
		depth = MIN(depth, (int64_t)p.taken * p.info->k);
	}
	x->kind = INSPECT_DOT;
	x->tile = c;
	x->layout = op->out[0].layout;
	x->what = arena_printf(mem, "%s %lldx%lldx%lld %s", op->kind == OP_DOT_START ? "dot" : op_info[op->kind].text,
	    (long long)c->extent[c->rank - 2], (long long)columns, (long long)depth, *mma ? mma : "by multiplications");
	x->reason = *mma ? NULL : *attr_fma_reason(op) ? attr_fma_reason(op) : "no reason was noted";
	x->way = "matrix instruction";
	if (op->kind == OP_DOT_START)
		x->way = arena_printf(mem, "%d warpgroup%s, %s, %d registers of the accumulator%s", 1 << (warps - 2),
		    warps > 2 ? "s" : "",
		    op->in[0]->type->kind == TYPE_TILE ? "a in registers, b in shared memory" : "operands in shared memory",
		    held, wgmma_adds_apart(op) ? ", 128 of K summed apart" : "");
	else if (*mma && *attr_wgmma_reason(op))
		x->way = arena_printf(mem, "matrix instruction of a warp, not of a warpgroup: %s", attr_wgmma_reason(op));
	if (cost_converts_fp8(op, t))
		x->way = arena_printf(mem, "%s; %s has it for 16 bits alone: the assembler converts both operands to "
			 "f16, by the unit of special functions", x->way, t->name);
}

static void
note_shared(InspectLine *x, const Op *op, const Target *t)
{
	const Value *slot = op->in[0], *tile = op->kind == OP_PUT ? op->in[1] : &op->out[0];
	x->kind = INSPECT_SHARED;
	x->what = op_info[op->kind].text;
	x->tile = tile->type;
	x->layout = tile->layout;
	x->of = inspect_name(op->kind == OP_PUT ? tile : slot);
	if (!slot->layout || !tile->layout)
		return;
	*(op->kind == OP_PUT ? &x->in : &x->out) = plan_slot(op, t, &x->way);
}

static void
note_extract(InspectLine *x, const Op *op, Arena *mem)
{
	SlicePlan slice;
	plan_slice(op, &slice);
	switch (slice.way) {
	case SLICE_REGISTERS:
		x->way = "of each thread's registers";
		break;
	case SLICE_SHUFFLES:
		x->way = arena_printf(mem, "%d shuffle%s", slice.shuffles, slice.shuffles == 1 ? "" : "s");
		break;
	case SLICE_SHARED:
		x->way = "the part alone through shared memory";
		break;
	case SLICE_WHOLE:
		x->way = "the whole tile through shared memory: where the part begins is not known, or no multiple of it";
		break;
	}
}

/* What brings elements to other threads: extract and gather always, other ops if they take scratch for it. */
static bool
note_move(InspectLine *x, const Op *op, Arena *mem)
{
	x->kind = INSPECT_MOVE;
	x->what = op_info[op->kind].text;
	if (op->nout == 0 || (op->kind != OP_EXTRACT && x->smem_bytes == 0))
		return false;
	x->tile = op->kind == OP_EXTRACT ? op->in[0]->type : op->out[0].type;
	x->layout = op->out[0].layout;
	Turn turn;
	bool is_whole = op->kind == OP_GATHER && !plan_turn(op, &turn);
	x->way = is_whole ? "the whole tile through shared memory" : "through shared memory";
	if (op->kind == OP_EXTRACT)
		note_extract(x, op, mem);
	return true;
}

/* ---- barriers ---- */

const char *
inspect_tensor(const Op *access)
{
	return tensor_name(access->in[0]);
}

/* How much a pair says of why there is a barrier: what follows it later needs it too, and that a copy has landed matters to
 * who reads it. */
static int
tells(const BarrierPair *p)
{
	bool is_own = p->after == p->at || (p->at->nregion && op_inside(p->after, p->at->region[0]));
	return is_own && p->before->kind != OP_WAIT ? 3 : p->before->kind == OP_WAIT && !p->after_writes ? 2 : is_own;
}

/* What pass barrier put before an op; false: nothing. */
static bool
note_barrier(InspectLine *x, const Op *op, const BarrierPairs *pairs)
{
	bool is_block = attr_sync(op);
	*x = (InspectLine){.op = op, .tested = "", .kind = INSPECT_BARRIER, .what = is_block ? "barrier" : "warp barrier"};
	x->way = op_info[op->kind].text;
	x->pairs = pairs;
	for (int i = 0; i < pairs->n; i++)              /* what threads access rather than copies that have landed */
		if (pairs->at[i].at == op && (!x->pair || tells(&pairs->at[i]) > tells(x->pair)))
			x->pair = &pairs->at[i];
	for (int i = 0; i < pairs->n; i++)              /* what a product reads is free when it is waited for */
		if (x->pair && x->pair->before->kind == OP_DOT_START && pairs->at[i].at == op &&
		    pairs->at[i].before->kind == OP_DOT_WAIT && pairs->at[i].after == x->pair->after)
			x->pair = &pairs->at[i];
	return is_block || attr_sync_warp(op);
}

/* "1 thread copies (40 registers), 8 warps compute (232)"; "…, 2 x 4 warps compute (232), by turns" */
static void
note_roles(InspectLine *x, const Op *op, Arena *mem)
{
	const IntList *warps = attr_warps(op), *copies = attr_copies(op), *regs = attr_regs(op);
	int producers = (int)warps->at[0], groups = (int)copies->at[1];
	const char *each = arena_printf(mem, "%d", (int)warps->at[1]);
	const char *consumers = groups > 1 ? arena_printf(mem, "%d x %s", groups, each) : each;
	const char *turns = groups > 1 ? ", by turns" : "";
	const char *copier = attr_lone(op) ? "1 thread copies" : arena_printf(mem, "%d warps copy", producers);
	x->kind = INSPECT_ROLES;
	x->what = "roles";
	x->way = regs ? arena_printf(mem, "%s (%d registers), %s warps compute (%d)%s", copier, (int)regs->at[0], consumers,
			    (int)regs->at[1], turns)
		      : arena_printf(mem, "%s, %s warps compute%s", copier, consumers, turns);
}

/* Between whom a ring of mbarriers stands; NULL: not between copies and those who use them, nor between groups. */
static const char *
mbarriers_way(const Op *op, Arena *mem)
{
	Text tensors = {0};
	bool fills = inspect_held(op->home->func, op, &tensors);
	const char *way = inspect_orders_groups(op) ? "turns: until the other group has waited for its program's slots"
	    : tensors.n == 0                        ? NULL
	    : fills ? arena_printf(mem, "full: until copies of %s have arrived in a slot", tensors.at)
	            : arena_printf(mem, "empty: until a slot of %s is read, and may be filled again", tensors.at);
	text_close(&tensors);
	return way;
}

/* Warps that hold a row of what is reduced or sorted together, and exchange its states. */
static int
warps_across(const Op *op)
{
	ReducePlan p;
	int bits = 0;
	if (op->kind == OP_HISTOGRAM || !op->in[0]->layout)
		return 1;
	if (op->kind == OP_SORT || op->kind == OP_TOPK)
		return 1 << layout_bits_along(op->in[0]->layout, IN_WARP, attr_axis(op));
	plan_reduce(op, &p);
	for (int i = 0; i < p.nruns; i++)
		bits += p.run[i].in == IN_WARP ? p.run[i].n : 0;
	return 1 << bits;
}

/* Does it stand behind the loop that its line of the source is in? */
static bool
is_deferred(const Op *op)
{
	for (const Op *loop = op->home->first; loop != op; loop = loop->next)
		if (op_is_loop(loop) && loop->place.line < op->place.line && op->place.line <= loop->place.end_line)
			return true;
	return false;
}

static bool
note_op(InspectLine *x, const Op *op, const Target *t, const InspectArg *arg, Arena *mem)
{
	OpPlan plan = plan_op(op, t);
	*x = (InspectLine){.op = op, .tested = "", .smem = attr_smem(op), .smem_bytes = plan.scratch,
		.sync = plan.sync};
	if (op_is_access(op)) {
		note_access(x, op, t, arg, mem);
		return true;
	}
	switch (op->kind) {
	case OP_COPY:
		if (op_is_bulk_copy(op))
			note_map(x, op, t, mem);
		else
			note_copy(x, op, t, arg, mem);
		break;
	case OP_CONVERT:
		note_convert(x, op, t);
		break;
	case OP_DOT: case OP_DOT_SCALED: case OP_DOT_START:
		note_dot(x, op, t, mem);
		break;
	case OP_SEND:
		note_map(x, op, t, mem);
		break;
	case OP_GET: case OP_PUT:
		note_shared(x, op, t);
		break;
	case OP_ROLES:
		note_roles(x, op, mem);
		break;
	case OP_CLUSTER_BARRIER: case OP_SPLIT_DONE:
		return inspect_cluster(x, op);
	case OP_ALLOC: case OP_MBARRIER:
		x->kind = INSPECT_SHARED;
		x->what = op->kind == OP_ALLOC ? "buffer" : "mbarriers";
		x->of = op->kind == OP_ALLOC ? inspect_held_by(op, mem) : NULL;
		x->way = op->kind == OP_ALLOC ? NULL : mbarriers_way(op, mem);
		x->tile = op->out[0].type;
		x->smem_bytes = buffer_slot_bytes(op) * x->tile->slots;
		break;
	case OP_REDUCE: case OP_REDUCE_FN: case OP_SCAN: case OP_SCAN_FN: case OP_SORT: case OP_TOPK: case OP_HISTOGRAM:
		x->kind = INSPECT_REDUCE;
		x->what = op_info[op->kind].text;
		x->tile = op->in[0]->type;
		x->layout = op->in[0]->layout;
		x->way = x->smem_bytes == 0                       ? "within a warp"
		    : op->home->func->schedule.warps > 1 ? "across warps"
		                                         : "through shared memory";
		x->across = x->smem_bytes ? warps_across(op) : 1;
		if (is_deferred(op))
			x->way = arena_printf(mem, "%s, behind the loop", x->way);
		break;
	case OP_SPLIT_MEET:
		return inspect_cluster(x, op) || note_move(x, op, mem);
	default:
		if (!note_move(x, op, mem))
			return false;
	}
	return true;
}

/* ---- how long a buffer is needed ---- */

static bool
waits(const Op *op)
{
	return op->kind == OP_WAIT || op->kind == OP_AWAIT || op->kind == OP_DOT_WAIT || op->kind == OP_SENT;
}

/* The op of the block `home` that holds `op`, to its end; NULL: none does. */
static const Op *
holder(const Op *op, const Block *home)
{
	while (op && op->home != home)
		op = op->home->parent;
	return op;
}

/* The lines of an op and all in it. */
static void
note_lines(InspectLine *x, const Op *op)
{
	const Block *home = op->home;
	for (const Op *at = op, *end = op->next; at && at != end; at = op_after(at, home)) {
		if (at->place.line <= 0)
			continue;
		x->live_from = MIN(x->live_from, at->place.line);
		x->live_to = MAX(x->live_to, at->place.line);
	}
}

/* As in pass smem: to its last use, where copies fill it to the last wait, each with the loop that holds it. */
static void
note_life(InspectLine *x, const Func *f)
{
	const Op *wait = NULL;
	bool filled = false;
	x->live_from = x->live_to = x->op->place.line;
	if (x->op->kind != OP_ALLOC && x->op->kind != OP_MBARRIER)
		return;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (waits(op))
			wait = op;
		const Op *held = op_takes_buffer(op, x->op) ? holder(op, x->op->home) : NULL;
		if (held)
			note_lines(x, held);
		filled |= held && (op->kind == OP_COPY || op->kind == OP_DOT_START || op->kind == OP_SEND);
	}
	wait = filled ? holder(wait, x->op->home) : NULL;
	if (wait)
		note_lines(x, wait);
}

void
inspect_func(const Func *f, const Target *t, const InspectArg *arg, Arena *mem, Inspection *out)
{
	BarrierPairs *pairs = NEW(mem, BarrierPairs);
	*pairs = barrier_pairs(f, t, mem);
	*out = (Inspection){.f = f, .t = t, .all_mma = true, .all_wgmma = true, .registers = -1, .spills = -1, .stack = -1};
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		InspectLine x;
		int n = out->lines.n;
		if (note_barrier(&x, op, pairs)) {
			inspect_runs(&x, n ? &out->lines.at[n - 1] : NULL, arg);
			vec_push(mem, &out->lines, x);
		}
		if (!note_op(&x, op, t, arg, mem))
			continue;
		note_life(&x, f);
		inspect_outside(&x, t, arg);
		inspect_runs(&x, n ? &out->lines.at[n - 1] : NULL, arg);
		vec_push(mem, &out->lines, x);
		out->conversions += x.kind == INSPECT_CONVERT && x.in.bytes > 0;
		out->bank_conflicts += x.in.passes - x.in.least + x.out.passes - x.out.least;
		out->all_mma &= x.kind != INSPECT_DOT || !x.reason;
		out->all_wgmma &= x.kind != INSPECT_DOT || wgmma_named(attr_mma(op));
	}
}
