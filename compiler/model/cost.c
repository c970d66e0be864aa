/* What one program of a kernel uses, from the tile IR that lowering is given.
 *
 *     %v = read %x … : f32[4096] #0       8 warps: 4 accesses a thread of 16 bytes; 512 sectors; a latency of memory
 *     %m = reduce %v {fn = "max"}         15 + 5 + 3 steps; 5 shuffles; a barrier, since warps exchange
 *     %e = exp %s                         16 elements a thread: 16 special functions, 48 other instructions
 *
 * Instructions are counted a warp.  Beside them runs a clock of one warp that never waits for its turn: when each value is
 * ready, by the latencies of what it is made from.  Reads that do not depend on one another overlap; what a reduction waits
 * for does not.  Elements that several registers of a thread hold are computed once. */
#include "model/model.h"
#include "model/overlap/elements.h"

#include <math.h>

enum { SECTOR = 32, KEY_ISSUE = 6 };                    /* bytes; of a value and its index (lower/across/combine.c) */
/* Trips whose reads ptxas starts together, where a loop writes nothing, has no barrier and is not unrolled here. */
enum { OVERLAP = 4 };
/* Cycles that a block which stays takes between programs, and to find the next one's place along an axis. */
enum { NEXT_PROGRAM = 100, NEXT_AXIS = 40 };

typedef struct Walk {
	const Func *f;
	const Target *t;
	const TargetRates *r;
	const CostFacts *facts;
	ProgramCost *c;
	double *ready;                                  /* of each value, by its id */
	uint32_t *varies;                               /* the same: dimensions along which its elements differ */
	double *inside;                                 /* the same: those that may lie inside of a tensor */
	double *fresh;                                  /* the same: those that it has not from an earlier read near by */
	double now;                                     /* no op begins before: the last barrier */
	double stored;                                  /* no read begins before: the last write before it begins */
	int warps, overlap;                             /* trips of the present loop whose reads are under way together */
	const Op *loop;                                 /* of the function's body, that the walk is in; NULL */
	const Op **read_in, **again_in;                 /* of each parameter: the first two such loops that read it */
	Arena *mem;
} Walk;

/* ---- arithmetic ---- */

static double
words(const Value *v)
{
	return MAX(cost_elements(v) * element_bytes(v->type) / 4, 1);
}

static double
arithmetic(Walk *w, const Op *op, double times)
{
	enum { DEPTH = 3, INDEX_DEPTH = 5 };
	if (op->nin > 0 && cost_known(op->kind == OP_SELECT ? op->in[0] : &op->out[0], DEPTH))
		return 0;
	if (w->loop && op->out[0].type->rank == 1 && cost_is_index(&op->out[0], INDEX_DEPTH))
		return 0;
	int id = op->out[0].id;
	double n = cost_distinct(w->varies, &op->out[0]) * w->inside[id] * w->fresh[id] / (double)MAX(attr_equal(op), 1);
	double special, issue = cost_work(op, &special);
	w->c->issue += times * MAX(n, 1) * issue;
	w->c->special += times * MAX(n, 1) * special;
	return issue > 0 ? 4 + 18 * (special > 0) : 0;
}

/* ---- memory ---- */

/* What a loop reads that another has read before, as the second of two passes over a row, or in an earlier trip of a loop
 * around it. */
static void
note_again(Walk *w, const Op *op, double bytes)
{
	const Value *v = op->in[0];
	if (v->def || v->block != w->f->body || v->type->kind != TYPE_TENSOR || !w->loop)
		return;
	const Op **first = &w->read_in[v->index], **second = &w->again_in[v->index], *loop = cost_main_loop(w->loop);
	double apart, passes = cost_passes(op, w->facts->trips, w->facts->user, &apart);
	if (passes > 1) {
		w->c->again += bytes * (1 - 1 / passes);
		w->c->kept += tile_bytes(op->out[0].type) * apart;
		return;
	}
	if (!*first || *first == loop) {
		*first = loop;
		return;
	}
	*second = *second ? *second : loop;
	w->c->again += bytes;
	w->c->kept += *second == loop ? bytes : 0;
}

/* Does the loop go along another dimension than the rows' own? */
static bool
walks_rows(const Walk *w, const Op *op)
{
	if (!w->loop || !access_is_tensor(op))
		return false;
	return ANY_OF(i, op->in[0]->type->rank - 1, value_inside(op->in[1 + i], w->loop->region[0]));
}

static double
access(Walk *w, const Op *op, double times)
{
	const Value *v = access_tile(op);
	const Type *t = v ? v->type : op->out[0].type;
	double vector = w->facts->vector(w->facts->user, op), fresh = cost_fresh(op, vector);
	/* a write goes as far as what it writes or its own tensor says */
	double accesses = v ? MAX(cost_elements(v) * MIN(cost_inside_tensor(op, v), w->inside[v->id]) / vector, 1) : 1;
	double n = fresh * accesses, sectors = w->facts->sectors(w->facts->user, op);
	double bits = t->ptr != PTR_NONE ? 64 : dtype_info[t->elem].bits, held = (double)type_count(t) * bits / 8;
	double missed = w->facts->missed(w->facts->user, op);
	bool is_read = op->nout > 0;
	if (op->kind == OP_READ)
		w->fresh[op->out[0].id] = fresh;
	if (op_family(op) == FAMILY_ATOMIC) {
		double all = MIN(n * w->warps, MAX(type_count(t) / vector / w->t->lanes, 1)), most = times > 0 ? times : 1;
		*(times > 0 ? &w->c->atomics : &w->c->atomics_once) +=
		    most * all *
		    cost_atomics(w->r, sectors, w->facts->atomic_lines(w->facts->user, op),
			(int)MIN(MAX(ceil((double)type_count(t) / vector), 1), w->t->lanes));
		sectors = MAX(sectors, w->t->lanes / 4.0);
	} else if (!is_read && sectors * SECTOR > 1.1 * vector * bits / 8 * w->t->lanes)
		sectors *= 2;                           /* written in parts */
	w->c->issue += times * n * (w->facts->windows(w->facts->user, op) ? 1.25 : is_read ? 3 : 2);
	/* of elements at random the L2 cache serves pairs, of which a request asks for one */
	double most = w->t->lanes * ceil(vector * bits / 8 / SECTOR), asked = is_read ? MIN(sectors, most) : sectors;
	w->c->requests += times * n * MAX(ceil(asked / 4), vector * bits / 8 * w->t->lanes / 128) * w->warps;
	w->c->sectors += times * n * sectors * w->warps * missed;
	w->c->bytes += times * held;
	if (t->rank > 0 && (w->f->schedule.batch > 1 || (is_read && walks_rows(w, op))))
		w->c->narrow += times * held * cost_halvings(op, sectors);
	if (is_read)
		note_again(w, op, times * held);
	/* all multiprocessors wait for memory at once, each for its share; sent: as built, choices count its latency */
	bool is_sent = w->facts->once > 0 && op_family(op) == FAMILY_ATOMIC && op->out[0].nuses == 0;
	double alone = is_read && !is_sent ? w->r->latency / w->overlap : 0;
	return alone + n * sectors * missed * SECTOR * w->warps * w->r->multiprocessors / w->r->memory_rate;
}

/* Bytes of a thread go through shared memory, there and back. */
static double
through_shared(Walk *w, double bytes, double times)
{
	w->c->issue += times * (2 * MAX(bytes / 8, 1) + 6);
	w->c->shared += times * 2 * MAX(bytes * w->t->lanes / 128, 1) * w->warps;
	return 2 * w->r->shared_latency + w->r->barrier;
}

static double
slot_access(Walk *w, const Op *op, double times)
{
	double issue, shared, held = words(op->kind == OP_PUT ? op->in[1] : &op->out[0]);
	cost_pieces(op, w->t, held * 4, &issue, &shared);
	w->c->issue += times * issue;
	w->c->shared += times * shared * w->warps;
	return through_shared(w, held * 2, times) - w->r->barrier + shared * w->warps;
}

/* Elements added to places at random in shared memory: of a warp's lanes some meet in a bank; floats are read, and swapped
 * until no other lane came between. */
static double
tally(Walk *w, const Op *op, double times)
{
	enum { PASSES = 4, PASSES_SWAPPED = 14, ISSUE = 6, ISSUE_SWAPPED = 16 };
	const Value *v = op->in[op->nin - 1];
	bool swaps = dtype_is_float(v->type->elem);
	double n = cost_elements(v);
	w->c->issue += times * n * (swaps ? ISSUE_SWAPPED : ISSUE);
	w->c->shared += times * n * (swaps ? PASSES_SWAPPED : PASSES) * w->warps;
	return swaps ? n * 2 * w->r->shared_latency : w->r->shared_latency;
}

/* A tile that the loop keeps (pass keep): each thread puts or gets its own elements, 16 bytes at a time. */
static double
kept_tile(Walk *w, const Op *op, double times)
{
	enum { ADDRESS = 3, WIDEST = 16 };
	double bytes = words(op->kind == OP_GET ? op->out : op->in[1]) * 4;
	w->c->issue += times * (MAX(bytes / WIDEST, 1) + ADDRESS);
	w->c->shared += times * MAX(bytes * w->t->lanes / 128, 1) * w->warps;
	return op->kind == OP_GET ? w->r->shared_latency : 0;
}

static double
barrier(Walk *w, double times)
{
	w->c->issue += times * 2;
	w->c->barriers += times;
	w->c->in_step |= w->loop != NULL;
	return w->r->barrier;
}

/* ---- between threads ---- */

/* Both sides by what layouts have beside each other. */
static double
shared_conversion(Walk *w, const Op *op, double times)
{
	double shared, issue = cost_narrow(op, w->t, &shared);
	w->c->issue += times * issue;
	w->c->shared += times * shared * w->warps;
	return shared * w->warps + through_shared(w, MAX(words(&op->out[0]), words(op->in[0])) * 4, times);
}

static double
conversion(Walk *w, const Op *op, double times)
{
	const Layout *from = op->in[0]->layout, *to = op->out[0].layout;
	ConvertPlan p = {.kind = CONVERT_NONE};
	if (from && to)
		plan_convert(from, to, element_bytes(op->out[0].type), &p);
	if (p.kind == CONVERT_NONE || p.kind == CONVERT_REGISTERS)
		return 0;
	if (p.kind == CONVERT_SHUFFLE) {
		w->c->issue += times * 3 * words(&op->out[0]);
		w->c->shuffles += times * words(&op->out[0]) * plan_shuffles(&p.shuffle, from, to) * w->warps;
		return w->r->shuffle_latency;
	}
	return shared_conversion(w, op, times);
}

/* Cycles that what a scan joins comes later than by one latency.  ptxas begins so many reads together, and the next ones a
 * few at a time, between the scan's steps: prefix_odd in bench/warps, 128 reads a thread of one warp, waits 11,500 cycles
 * for them on an H200, 16 latencies, of 32 reads 2,350. */
static double
read_late(const Walk *w, const Value *v)
{
	enum { TOGETHER = 32, NEXT = 6 };
	while (v->def && op_has(v->def, ELEM) && v->def->nin > 0)
		v = v->def->in[0];
	if (!v->def || v->def->kind != OP_READ)
		return 0;
	double reads = cost_elements(v) * w->inside[v->id] / w->facts->vector(w->facts->user, v->def);
	return w->r->latency * MAX(reads - TOGETHER, 0) / NEXT;
}

/* A scan combines twice, elements of a thread and what came before them; lanes exchange what a thread has together. */
static double
reduction(Walk *w, const Op *op, double times)
{
	ReducePlan p;
	double latency = 0, each = cost_joining(op);
	double ways = op_family(op) == FAMILY_SCAN ? 2 : 1;
	plan_reduce(op, &p);
	double states = (double)(UINT64_C(1) << __builtin_popcountll(p.live)), held = cost_elements(op->in[0]);
	held *= w->inside[op->in[0]->id];
	if (p.kind == COMBINE_KEY || p.kind == COMBINE_PAIR)
		each = 4;
	w->c->issue += times * held * (ways * each + (p.kind == COMBINE_KEY ? KEY_ISSUE : 0));
	latency += 4 * log2_ceil((int64_t)held) * ways + (ways > 1 ? read_late(w, op->in[0]) : 0);
	for (int i = 0; i < p.nruns; i++) {
		const AxisRun *run = &p.run[i];
		double n = run->n * MAX(states, 1) * p.n;
		if (run->in == IN_LANE) {
			w->c->issue += times * n * (ways + each);
			w->c->shuffles += times * n * w->warps;
			latency += run->n * (w->r->shuffle_latency + 4);
		} else if (run->in == IN_WARP) {
			double reads = (double)(1 << run->n) * MAX(states, 1) * p.n;    /* each thread those of all warps */
			latency += through_shared(w, MAX(states, 1) * p.n * 4, times) + barrier(w, times);
			w->c->issue += times * (reads + (1 << run->n) * MAX(states, 1) * each);
			w->c->shared += times * reads * w->warps;
		} else {
			states = MAX(states / (1 << run->n), 1);
		}
	}
	return latency;
}

static double
slice(Walk *w, const Op *op, double times)
{
	SlicePlan p;
	plan_slice(op, &p);
	if (p.way == SLICE_SHUFFLES) {
		w->c->issue += times * 3 * p.shuffles;
		w->c->shuffles += times * p.shuffles * w->warps;
		return w->r->shuffle_latency;
	}
	return 0;
}

/* Operands, or results, that the threads want in another layout go through scratch. */
static double
moved(Walk *w, const Op *op, double times)
{
	return plan_op(op, w->t).scratch > 0 ? through_shared(w, words(&op->out[0]) * 4, times) + barrier(w, times) : 0;
}

static double
mirror(Walk *w, const Op *op, double times)
{
	const Layout *l = op->out[0].layout;
	uint64_t exchange;
	if (l && !flip_exchange(op, &exchange))
		return shared_conversion(w, op, times);
	if (!l || !(exchange >> l->in[IN_REGISTER]))
		return 0;
	w->c->issue += times * words(&op->out[0]);
	w->c->shuffles += times * words(&op->out[0]) * w->warps;
	return w->r->shuffle_latency;
}

/* ---- ops ---- */

static double
op_latency(Walk *w, const Op *op, double times)
{
	if (op_is_access(op))
		return access(w, op, times);
	switch (op_family(op)) {
	case FAMILY_CONVERT: return conversion(w, op, times);
	case FAMILY_REDUCE: case FAMILY_SCAN: return reduction(w, op, times);
	case FAMILY_DOT: case FAMILY_DOT_ASYNC:
		return op->kind == OP_DOT_WAIT ? 0 : cost_product(op, w->t, w->warps, times, w->c);
	case FAMILY_ORDER: case FAMILY_SCATTER: case FAMILY_GATHER:
		return cost_order(op, w->t, w->warps, cost_elements(op->in[0]), times, w->c);
	default: break;
	}
	if (w->f->schedule.keep > 1 && (op->kind == OP_GET || op->kind == OP_PUT))
		return kept_tile(w, op, times);
	switch (op->kind) {
	case OP_EXTRACT: return slice(w, op, times) + moved(w, op, times);
	case OP_FLIP: return mirror(w, op, times);
	case OP_JOIN: case OP_SPLIT: case OP_CAT: case OP_RESHAPE: case OP_PERMUTE: return moved(w, op, times);
	case OP_COPY: return w->r->latency / cost_copy(op, w->loop, w->t, w->warps, times, w->c);
	case OP_GET: case OP_PUT: return slot_access(w, op, times);
	case OP_TALLY: return tally(w, op, times);
	case OP_WAIT: case OP_AWAIT: return 0;
	default: return op->nout ? arithmetic(w, op, times) : 0;
	}
}

static double
ready_of(const Walk *w, const Op *op)
{
	double at = w->now;
	for (int i = 0; i < op->nin; i++)
		at = MAX(at, w->ready[op->in[i]->id]);
	return at;
}

/* ---- lines of the source ---- */

static LineCost *
line_of(const Walk *w, const Op *op)
{
	LineCosts *all = w->facts->lines;
	for (int i = all->n - 1; i >= 0; i--)
		if (w->facts->by_op ? all->at[i].op == op
		                    : all->at[i].line == op->place.line && all->at[i].file == op->place.file)
			return &all->at[i];
	vec_push(w->mem, all, ((LineCost){op->place.file, op->place.line, .op = op, .used.warps = w->warps}));
	return &all->at[all->n - 1];
}

static void
note_tensor(const Walk *w, const Op *op, double bytes, LineCost *l)
{
	const Value *v = op->nin ? op->in[0] : NULL;
	if (bytes <= 0 || !v || v->def || v->block != w->f->body || v->type->kind != TYPE_TENSOR)
		return;
	if (!l->moved)
		l->moved = NEW_ARRAY(w->mem, double, w->f->body->narg);
	l->moved[v->index] += bytes;
}

/* What the op, done `each` times, has added to the program's cost since `before`, and cycles to its path, of which
 * `barrier` are a barrier's. */
static void
note_line(const Walk *w, const Op *op, double each, const ProgramCost *before, double latency, double path, double barrier)
{
	const ProgramCost *now = w->c;
	if (!w->facts->lines || (op->place.line <= 0 && !w->facts->by_op))
		return;
	LineCost *l = line_of(w, op);
	l->op = op;
	l->times += each;
	l->latency = latency;
	l->used.issue += now->issue - before->issue;
	l->used.special += now->special - before->special;
	l->used.shuffles += now->shuffles - before->shuffles;
	l->used.requests += now->requests - before->requests;
	l->used.shared += now->shared - before->shared + each * cost_product_shared(op);
	l->used.products += now->products - before->products;
	l->used.atomics += now->atomics - before->atomics +
	    w->facts->once * (now->atomics_once - before->atomics_once);
	double box = each * cost_box_bytes(op), alone = w->t->rates ? w->t->rates->issue_alone : 0;
	l->used.sectors += box > 0 ? box / SECTOR : now->sectors - before->sectors;
	double bytes = box > 0 ? box : now->bytes - before->bytes;
	l->used.bytes += bytes;
	note_tensor(w, op, bytes, l);
	l->used.barriers += now->barriers - before->barriers;
	l->used.path += path;
	l->path[PATH_BARRIER] += MIN(barrier, path);
	l->path[cost_path_part(op)] += MAX(path - barrier, 0) + alone * (now->issue - before->issue);
}

static void walk(Walk *w, const Block *b, double each);

/* When all is there that the op's regions take from outside. */
static double
regions_ready(const Walk *w, const Op *op)
{
	double at = ready_of(w, op);
	for (int r = 0; r < op->nregion; r++)
		for (const Op *in = op->region[r]->first; in; in = op_after(in, op->region[r]))
			at = MAX(at, ready_of(w, in));
	return at;
}

/* A loop's trips follow one another: each takes as long as its body's path; of a branch the mean of both. */
static double
region(Walk *w, const Op *op, double times)
{
	double taken = op->kind == OP_IF && w->facts->taken ? w->facts->taken(w->facts->user, op) : -1;
	double start = regions_ready(w, op), length = 0, n = op_is_loop(op) ? w->facts->trips(w->facts->user, op) : 1;
	const Walk before = *w;
	double issued = w->c->issue;
	/* no more than there are: sums of 4 trips of 1024 elements 89 us in twos, 59 in fours on an H200 */
	w->overlap = cost_overlaps(op) ? (int)MIN(MAX(ceil(n), 1), OVERLAP) : op_is_loop(op) ? 1 : before.overlap;
	w->c->loops |= op_is_loop(op) && !op_is_over_programs(op) && !cost_copies_ahead(op);
	w->loop = before.loop || !op_is_loop(op) || op_is_over_programs(op) ? before.loop : op;
	for (int r = 0; r < op->nregion; r++) {
		double stored = w->stored;
		w->now = start;
		w->stored = op_is_loop(op) ? start : stored;
		for (int i = 0; i < op->region[r]->narg; i++) {
			w->ready[op->region[r]->arg[i].id] = start;
			w->varies[op->region[r]->arg[i].id] = UINT32_MAX;
			w->inside[op->region[r]->arg[i].id] = w->fresh[op->region[r]->arg[i].id] = 1;
		}
		double share = taken < 0 ? 1 : r == 0 ? taken : 1 - taken;
		walk(w, op->region[r], times * n * share);
		length = taken < 0 ? MAX(length, w->now - start) : length + share * (w->now - start);
		w->now = before.now;
		w->stored = op_is_loop(op) ? stored : w->stored;
	}
	if (op_is_loop(op) && !op_is_over_programs(op) && times * n > 0)
		w->c->longest = MAX(w->c->longest, (w->c->issue - issued) / (times * n));
	w->overlap = before.overlap;
	w->loop = before.loop;
	return n * length;
}

static void
walk(Walk *w, const Block *b, double each)
{
	double end = w->now;
	const Op *loop = NULL;                          /* the first of one place, as pass unroll leaves several */
	bool is_once = b == w->f->body && w->c->stays;  /* for all programs of a block */
	for (const Op *op = b->first; op; op = op->next) {
		if (cost_is_next_loop(op, &loop))
			w->now = MAX(w->now, end);
		bool is_region = op->nregion && (op_is_control(op) || op->kind == OP_ROLES);
		double start = ready_of(w, op), latency, times = is_once && !is_region ? 0 : each, waited = 0;
		const ProgramCost before = *w->c;
		for (int i = 0; i < op->nout; i++) {
			w->varies[op->out[i].id] = cost_varying(w->varies, op, &op->out[i]);
			w->inside[op->out[i].id] = cost_inside(w->varies, w->inside, op, &op->out[i]);
			w->fresh[op->out[i].id] = op_has(op, ELEM) && op->nin == 1 ? w->fresh[op->in[0]->id] : 1;
		}
		if (attr_sync(op)) {
			waited = barrier(w, times);
			w->now = start = MAX(start, w->now) + waited;
		}
		if (op_is_access(op))                   /* the assembler moves no load across a store */
			*(op->nout > 0 ? &start : &w->stored) = MAX(start, w->stored);
		latency = is_region ? region(w, op, times) : op_latency(w, op, times);
		if (is_once && !is_region && w->facts->once > 0)
			latency *= w->facts->once;
		if (!is_region)
			note_line(w, op, each, &before, latency, each * MAX(start + latency - end, 0), each * waited);
		for (int i = 0; i < op->nout; i++)
			w->ready[op->out[i].id] = start + latency;
		end = MAX(end, start + latency);
	}
	w->now = MAX(w->now, end);
}

void
cost_program(Func *f, const Target *t, const CostFacts *facts, Arena *mem, ProgramCost *out)
{
	Walk w = {.f = f, .t = t, .r = t->rates, .facts = facts, .c = out, .warps = MAX(func_warps(f), 1), .overlap = 1,
	    .mem = mem};
	*out = (ProgramCost){.warps = w.warps, .share = MAX(f->schedule.share, 1),
	    .joined = MAX(f->schedule.batch, 1), .stays = func_stays(f),
	    .loops = f->schedule.batch > 1};
	func_number(f);
	w.ready = NEW_ARRAY(mem, double, MAX(f->nvalues, 1));
	w.read_in = NEW_ARRAY(mem, const Op *, MAX(f->body->narg, 1));
	w.again_in = NEW_ARRAY(mem, const Op *, MAX(f->body->narg, 1));
	w.varies = NEW_ARRAY(mem, uint32_t, MAX(f->nvalues, 1));
	w.inside = NEW_ARRAY(mem, double, MAX(f->nvalues, 1));
	w.fresh = NEW_ARRAY(mem, double, MAX(f->nvalues, 1));
	walk(&w, f->body, 1);
	out->path = w.now;
	int together = MAX(MAX(f->schedule.coarsen, f->schedule.batch), 1);
	if (f->schedule.persistent)
		out->path += (double)(NEXT_PROGRAM + NEXT_AXIS * (f->naxis - 1)) / together;
	out->shared_bytes = f->shared_bytes;
	out->registers = live_registers(f, mem);
}
