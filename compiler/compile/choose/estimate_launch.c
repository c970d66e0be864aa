/* What the sizes of a launch say: what tensors take, and how their rows lie; what neighbours on the grid have in common.
 * And by these how long a kernel takes that went through the whole pipeline (model/cost.c says what a program does). */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/inspect.h"
#include "lower/lower.h"
#include "model/digits/digits.h"
#include "pass/async/pipeline.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"

#include <math.h>
#include <string.h>

enum { DEPTH = 14, LINE = 128, SECTOR = 32 };
enum { SPILLED = 32 };          /* bytes that the code spills, for a register that the bill lacks (bill.c) */
/* Of rows that begin within lines: measured on an H200 at 3000^3 (139 us, 105 where two blocks share half of it) and at
 * 1031 x 4104 x 4104 (113 and 92). */
static const double ASTRIDE = 1.5;

bool
estimate_is_data(const Value *v, int depth)
{
	const Op *op = v->def;
	bool is = op && op_is_access(op);
	for (int i = op && op->kind == OP_SELECT; op && depth > 0 && i < op->nin && !is; i++)
		is = estimate_is_data(op->in[i], depth - 1);     /* programs that leave early select, which is no guess */
	return is;
}

bool
estimate_multiplies(const Value *read)
{
	return ANY_OP_HERE(op, read->def->home, dot_takes(op, read));
}

int
estimate_sharers(const Op *read, Cluster c)
{
	bool is_tile = read->kind == OP_READ && read->out[0].type->rank == 2;
	return is_tile && c.ranks > 1 ? cluster_sharers(read->home->func, c, read, &(int){0}) : 1;
}

static int64_t
common_divisor(int64_t a, int64_t b)
{
	for (int64_t rest; b; a = b, b = rest)
		rest = a % b;
	return a;
}

/* Elements from one row to the next; of several strides, what all are multiples of. */
static int64_t
rows_apart(const BoundParam *p)
{
	int64_t all = p->is_spread ? 0 : p->dim[p->rank - 1];
	for (int d = 0; d < p->rank && p->is_spread; d++)
		if (p->dim[d] > 1 && p->stride[d] != 1)
			all = common_divisor(all, p->stride[d]);
	return all;
}

double
estimate_astride(const Bound *b, const Op *read)
{
	const Value *tensor = read->in[0];
	bool is_tile = read->kind == OP_READ && read->out[0].type->rank > 1 && !tensor->def && !tensor->block->parent;
	if (!is_tile || tensor->index >= b->kernel->params.n)
		return 1;
	const BoundParam *p = &b->param[tensor->index];
	const Type *t = read->out[0].type;
	int64_t size = dtype_info[p->dtype].bits, row = t->extent[t->rank - 1] * size / 8, lines = 0, starts = 0;
	int64_t stride = p->rank > 1 ? rows_apart(p) * size / 8 : LINE, step = common_divisor(LINE, stride);
	step = MAX(common_divisor(step, MAX(row, 1)), 1);
	for (int64_t start = 0; start < LINE; start += step, starts++)
		for (int64_t box = 0; box < row; box += LINE)
			lines += (start + MIN(row - box, LINE) + LINE - 1) / LINE;
	int64_t least = (row + LINE - 1) / LINE * starts;
	return stride % LINE && least ? (double)lines / (double)least : 1;
}

bool
estimate_splits_sectors(const Bound *b, const Op *read)
{
	const Value *tensor = read->in[0];
	bool is_tile = read->kind == OP_READ && read->out[0].type->rank > 1 && !tensor->def && !tensor->block->parent;
	if (!is_tile || tensor->index >= b->kernel->params.n || b->param[tensor->index].rank < 2)
		return false;
	const BoundParam *p = &b->param[tensor->index];
	return rows_apart(p) * dtype_info[p->dtype].bits / 8 % SECTOR != 0;
}

double
estimate_lines(const Bound *b, const Op *read, Cluster c)
{
	return (1 + (ASTRIDE - 1) * (estimate_astride(b, read) - 1)) / estimate_sharers(read, c);
}

/* Of the tensor, with what the access merges with dimension d. */
static int64_t
extent_of(const Bound *b, const Op *access, int d)
{
	int64_t n = estimate_dim(b, access->in[0], d);
	for (int i = 1; i <= access_merged(access, d); i++)
		n *= MAX(estimate_dim(b, access->in[0], d - i), 1);
	return n;
}

/* What moves with the loop is not known, and counts as inside; boxes that lie outside as a whole bring other rows
 * (plan_map.c). */
static double
rows_outside(const Func *f, const Bound *b, const Op *read, Cluster c)
{
	const Value *tensor = read->in[0];
	int at[KERNEL_RANK];
	double rows = 0;
	if (read->kind != OP_READ || tensor->def || tensor->block->parent || tensor->index >= b->kernel->params.n)
		return 0;
	access_dims(read, at);
	for (int d = 0; d < tensor->type->rank - 1; d++) {
		int64_t begin = estimate_last(f, b, read->in[1 + d], c);
		int64_t extent = attr_index(read)[d] == 'p' ? read->out[0].type->extent[at[d]] : 0;
		if (extent && begin != INT64_MIN)
			rows += (double)(MAX(begin + extent - extent_of(b, read, d), 0) % MAP_ROWS);
	}
	return rows;
}

double
estimate_outside(Func *f, const Bound *b, const Op *read, Cluster c, double *share)
{
	double rows = rows_outside(f, b, read, c);
	for (int i = 0; i < b->naxis && rows > 0; i++)
		if (cluster_varies(f, i, read))
			*share = MAX(*share, 1.0 / (double)MAX(b->grid[i], 1));
	return rows;
}

static double
saved_bytes(const void *data, Cluster c)
{
	const Func *f = data;
	double bytes = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_READ && op->home->parent)
			bytes += (double)tile_bytes(op->out[0].type) * (1 - 1.0 / estimate_sharers(op, c));
	return bytes;
}

Cluster
estimate_cluster(Func *f, const Bound *b, int ranks)
{
	const Cluster best = cluster_best(f, ranks, assumption_short_axes(b, ranks), saved_bytes, f);
	return best.ranks ? best : (Cluster){1, 0, 1};
}

double
estimate_pairs(Func *f, const Bound *b, int ranks)
{
	const Cluster c = estimate_cluster(f, b, ranks);
	double share = c.ranks > 1, n;
	for (int d = 0; d < b->naxis; d++)
		n = (double)b->grid[d], share *= n / (ceil(n / cluster_on(c, d)) * cluster_on(c, d));
	return share;
}

/* Of the tensor that parameter i is, as sectors of memory have them; 0: it is none. */
static double
tensor_bytes(const Bound *b, int i)
{
	const BoundParam *p = &b->param[i];
	double n = b->kernel->params.at[i].kind == PARAM_TENSOR ? dtype_info[p->dtype].bits / 8.0 : 0;
	for (int d = 0; d < p->rank; d++)
		n *= (double)p->dim[d];
	return n * estimate_in_sectors(p);
}

/* That a launch moves of it: read and written, it moves twice. */
static double
tensor_moved(const Bound *b, int i)
{
	return (b->kernel->params.at[i].access == ACCESS_INOUT ? 2 : 1) * tensor_bytes(b, i);
}

double
estimate_bytes(const Bound *b)
{
	return SUM_OF(double, i, b->kernel->params.n, tensor_moved(b, i));
}

/* ---- after the whole pipeline ---- */

typedef struct Launch {
	const Func *f;
	const Bound *b;
	const Target *t;
	const InspectArg *arg;
} Launch;

static int
programs_together(const Func *f)
{
	return MAX(MAX(f->schedule.coarsen, f->schedule.batch), 1);
}

static double
launch_trips(void *user, const Op *loop)
{
	const Launch *l = user;
	return op_is_over_programs(loop) ? 1.0 / programs_together(l->f) : estimate_trips(l->f, l->b, loop);
}

static bool
launch_windows(void *user, const Op *op)
{
	int along;
	const Layout *l = op->nout ? op->out[0].layout : NULL;
	return l && op->kind == OP_READ && access_window(op, &along) && layout_contiguous(l, along) >= log2_floor(WINDOW);
}

/* Records that a thread moves whole, and the registers that hold one: of f32[64, 3] 4. */
static int
launch_records(const Launch *l, const Op *op, int *registers)
{
	const Value *v = access_tile(op);
	int k = v && v->layout && attr_vector(op) == 1 ? access_records_held(op, v->layout, l->t) : 0;
	*registers = k > 0 ? 1 << v->layout->out[v->layout->rank - 1] : 1;
	return k > 0 ? 1 << k : 0;
}

static double
launch_vector(void *user, const Op *op)
{
	int registers, n = launch_records(user, op, &registers);
	const Type *t = op->in[0]->type;
	const Value *v = access_tile(op);
	int halo = v && v->layout ? access_halo(op, v->layout, ((const Launch *)user)->t) : 0;
	return n ? (double)n * registers / (double)t->extent[t->rank - 1] : MAX((double)attr_vector(op), 1 << halo);
}

/* Has each element an index of its own, that is out of bounds for some, as x[where(k < end, col[k], -1)]? */
static bool
picks(const Op *op)
{
	const char *index = op->in[0]->type->kind == TYPE_TENSOR ? attr_index(op) : "";
	for (int d = 0; op->kind == OP_READ && index[d]; d++) {
		const Op *of = index[d] == 'g' ? op->in[1 + d]->def : NULL;
		while (of && (of->kind == OP_CAST || of->kind == OP_CONVERT))
			of = of->in[0]->def;
		if (of && of->kind == OP_SELECT)
			return true;
	}
	return false;
}

static double
launch_sectors(void *user, const Op *op)
{
	const Launch *l = user;
	const Value *v = access_tile(op);
	int registers, records = launch_records(l, op, &registers);
	if (!v || !v->layout)
		return 1;
	if (records)                                    /* its other vectors hit the cache */
		return MAX(32.0 * records * dtype_info[v->type->elem].bits / 8 / SECTOR, 1);
	if (launch_windows(user, op))                   /* reads of other channels hit the cache */
		return MAX(32.0 * dtype_info[v->type->elem].bits / 8 / SECTOR, 1);
	if (estimate_in_order(op))
		return 1 + 32.0 * dtype_info[v->type->elem].bits / 8 / SECTOR;
	int vector = MAX((int)attr_vector(op), 1 << access_halo(op, v->layout, l->t));
	double all = inspect_sectors_first(l->arg, op, v->type, v->layout, vector);
	all = estimate_at_random(l->b, op, all);
	bool is_part = picks(op) || l->f->schedule.materialize >= MATERIALIZE_FIRST;
	return is_part ? MAX(all * estimate_inside(l->f, l->b, op), 1) : all;
}

static int
atomic_tensors(const Func *f)
{
	unsigned seen = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_family(op) == FAMILY_ATOMIC && !op->in[0]->def)
			seen |= 1u << op->in[0]->index % 32;
	return MAX(__builtin_popcount(seen), 1);
}

/* Programs that run together follow one another on the grid, the first axis first: of a histogram for each image some
 * images' lines are under way (64 of 2^20 bytes by 1024 bytes a program: 150 us on an H200; 40 if all lines were). */
static double
launch_lines(void *user, const Op *op)
{
	enum { BLOCKS_MOST = 32 };
	const Launch *l = user;
	const Value *tensor = op->in[0], *tile = access_tile(op);
	if (tensor->type->kind != TYPE_TENSOR || tensor->def || tensor->block->parent ||
	    tensor->index >= l->b->kernel->params.n)
		return 0;
	double all = MAX(tensor_bytes(l->b, tensor->index) / LINE, 1), places = 1, most = 1;
	double under_way = MIN(BLOCKS_MOST, l->t->max_warps / func_warps(l->f)) * (double)l->t->rates->multiprocessors;
	int tensors = atomic_tensors(l->f); /* whose lines take requests at the same time */
	if (!tile || strchr(attr_index(op), 'g'))
		return all * tensors;
	for (int i = 0; i < l->b->naxis; i++) {
		double n = cluster_varies((Func *)l->f, i, op) ? (double)l->b->grid[i] : 1;
		places *= under_way > 1 ? MIN(n, ceil(under_way)) : 1;
		most *= n;
		under_way /= (double)MAX(l->b->grid[i], 1);
	}
	double bytes = (double)tile_bytes(tile->type), own = MAX(bytes / LINE, 1);
	bool is_apart =
	    most * bytes <=
	    tensor_bytes(l->b, tensor->index); /* no two programs have a place in common */
	return (is_apart ? MAX(all * places / most, own) : MIN(all, places * own)) * tensors;
}

static double
launch_missed(void *user, const Op *op)
{
	const Launch *l = user;
	return estimate_missed(l->f, l->b, l->arg, l->t, op);
}

static double
launch_taken(void *user, const Op *op)
{
	const Launch *l = user;
	const FollowedAt *at = estimate_followed(l->b, op);
	return at ? at->went / at->came : -1;
}

static CostFacts
launch_facts(Launch *l, LineCosts *lines)
{
	return (CostFacts){.trips = launch_trips, .sectors = launch_sectors, .missed = launch_missed,
	    .taken = launch_taken,
	    .vector = launch_vector, .windows = launch_windows, .atomic_lines = launch_lines, .user = l,
	    .lines = lines};
}

/* Each tensor goes once through device memory, or as much of it as programs touch; behind pointers is what they touch. */
static double
launch_bytes(const Launch *l, const ProgramCost *c, double programs)
{
	bool has_pointers = ANY_OF(i, l->f->nparam, l->f->param[i].kind == PARAM_POINTER);
	double tables, scattered = estimate_scattered(l->f, l->b, l->arg, l->t, programs, &tables, NULL);
	double bytes = cost_bytes(c);
	bool is_first = l->f->schedule.materialize >= MATERIALIZE_FIRST;
	double all = is_first ? estimate_used(l->f, l->arg, 0) : estimate_bytes(l->b), rest = MAX(all - tables, 0);
	double made = !is_first && l->f->schedule.parts > 1 ? estimate_used(l->f, l->arg, l->f->nparam - l->f->nmade) : 0;
	made = made <= l->t->rates->l2_bytes / 2 ? made : 0;    /* the kernel before has just written them */
	double touched = MAX((bytes - c->again) * programs - made, 0);
	return has_pointers ? bytes * programs : MIN(rest, touched) + scattered;
}

/* Device memory by lines: each tensor's distinct bytes are shared by the lines that access it, as they access it.  All
 * programs together read the tensor once, however often they read the same of it. */
static void
share_memory(const Launch *l, double programs, Arena *mem, LineCosts *lines)
{
	int n = MIN(l->b->kernel->params.n, l->f->body->narg);
	double *scattered = NEW_ARRAY(mem, double, l->b->kernel->params.n + 1), tables;
	estimate_scattered(l->f, l->b, l->arg, l->t, programs, &tables, scattered);
	for (int k = 0; k < lines->n; k++)              /* behind pointers: what they access */
		lines->at[k].memory = lines->at[k].moved ? 0 : cost_bytes(&lines->at[k].used) * programs;
	for (int i = 0; i < n; i++) {
		double all = SUM_OF(double, k, lines->n, lines->at[k].moved ? lines->at[k].moved[i] : 0);
		double bytes = scattered[i] > 0 ? scattered[i] : MIN(tensor_moved(l->b, i), all * programs);
		for (int k = 0; k < lines->n && all > 0; k++)
			lines->at[k].memory += lines->at[k].moved ? bytes * lines->at[k].moved[i] / all : 0;
	}
}

/* Bytes that any schedule moves: of each tensor what programs access of it, once.  Of places that data names, so many of N
 * bytes at random of S are different. */
static double
least_bytes(const Launch *l, double programs, const LineCosts *lines)
{
	double sum = 0;
	for (int i = 0; i < MIN(l->b->kernel->params.n, l->f->body->narg); i++) {
		double all = 0, bytes = tensor_moved(l->b, i), most = tensor_bytes(l->b, i);
		for (int k = 0; k < lines->n; k++)
			all += lines->at[k].moved ? programs * lines->at[k].moved[i] : 0;
		bool named = most > 0 && estimate_is_table(l->f, l->b, l->arg, i);
		sum += named ? most * (1 - exp(-all / most)) : MIN(bytes, all);
	}
	return sum;
}

/* Those that run twice at the end of that axis count too, those that leave before their products do not. */
static double
launch_programs(const Func *f, const Bound *b)
{
	double programs = 1, planes, acting = estimate_acting(f, b, &planes);
	int64_t together = programs_together(f);
	int along = MAX(func_cluster_axis(f), 0);
	for (int i = 0; i < b->naxis; i++)
		programs *= (double)MAX(i != along ? b->grid[i] : (b->grid[i] + together - 1) / together * together, 1);
	return ceil(programs * acting) * (f->naxis > b->naxis ? f->added : 1) * MAX(f->stream ? 1 : f->schedule.split, 1);
}

/* What a block leaves of a loop that several share. */
static double
split_bytes(const Func *f)
{
	double bytes = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		bytes += op->kind == OP_SPLIT_PUT ? (double)tile_bytes(op->in[0]->type) : 0;
	return bytes;
}

static bool
launch_bill(Func *f, const Bound *b, const Target *t, const Inspection *built, Arena *mem, LineCosts *lines, Bill *out)
{
	Launch l = {f, b, t, inspect_args(b, f, mem)};
	CostFacts facts = launch_facts(&l, lines);
	ProgramCost c;
	double programs = launch_programs(f, b);
	if (built && built->bill.launched > 0)          /* passes have rewritten the branch of those that leave early */
		programs = MIN(programs, built->bill.launched);
	int blocks = !built ? 0 : built->blocks > 0 ? built->blocks : built->bill.blocks;
	facts.once = MIN(blocks * t->rates->multiprocessors / programs, 1);
	axis_keep(f);
	cost_program(f, t, &facts, mem, &c);
	estimate_issued(f, t, &facts, built != NULL, mem, &c);
	if (built && built->blocks > 0 && built->registers > 0) {
		c.blocks = built->blocks;
		c.given = built->registers;
		c.registers = built->spills > 0 ? c.given + built->spills / SPILLED : 0;
	}
	if (lines)
		share_memory(&l, programs, mem, lines);
	if (!f->stream)
		c.path += estimate_join(t, f->schedule.split, split_bytes(f), false);
	bool fits = bill_make(&c, t, programs, launch_bytes(&l, &c, programs), out);
	out->once = c.stays ? facts.once : 1;
	out->least = lines ? least_bytes(&l, programs, lines) : 0;
	return fits;
}

bool
estimate_bill(Func *f, const Bound *b, const Target *t, Arena *mem, LineCosts *lines, Bill *out)
{
	return launch_bill(f, b, t, NULL, mem, lines, out);
}

bool
estimate_built(Func *f, const Bound *b, const Inspection *x, Arena *mem, LineCosts *lines, Bill *out)
{
	return launch_bill(f, b, x->t, x, mem, lines, out);
}

/* Copies take the longer of what they need of the L2 cache and of device memory, which gives each tensor once.  A program
 * takes the launch's time divided by those that follow one another. */
LaunchPace
estimate_pace(const Func *f, const Bound *b, const Target *t, Arena *mem, const LineCosts *lines, int resident,
    const Bill *launch)
{
	Launch *l = NEW(mem, Launch);
	const TargetRates *r = t->rates;
	double programs = launch_programs(f, b), bytes = 0;
	*l = (Launch){f, b, t, inspect_args(b, f, mem)};
	for (int i = 0; i < lines->n; i++)
		bytes += lines->at[i].used.bytes * programs;
	double share = bytes > 0 ? MIN(estimate_bytes(b) / bytes, 1) : 1;
	double blocks = MAX(MIN(resident, programs / r->multiprocessors), 1);
	return (LaunchPace){.facts = launch_facts(l, NULL), .blocks = blocks,
	    .memory = MAX(1 / r->l2_rate, share * r->multiprocessors / r->memory_rate),
	    .cycles = launch->cycles / MAX(launch->programs / blocks, 1)};
}

void
estimate_guessed(const Func *f, const Bound *b, const Target *t, Arena *mem, Text *out)
{
	estimate_data_text(f, b, out);
	estimate_scattered_text(f, b, inspect_args(b, f, mem), t, launch_programs(f, b), mem, out);
}
