/* Puts the body of a persistent kernel into a loop over programs, so that later passes can carry values from one program to
 * the next and copy ahead into it.
 *
 *     %m = program_id {axis = 0, dim = 3, per = 64}       %k = dim %a {axis = 1}
 *     %k = dim %a {axis = 1}                              %1 = block_id
 *     …                                                   %2 = num_programs {axis = 0}
 *                                                         %3 = num_blocks
 *                                                   =>    for %1, %2, %3 do (%p: i64) {
 *                                                             %m = program_at %p {axis = 0, dim = 3, per = 64}
 *                                                             …
 *                                                             yield
 *                                                         }
 *
 * A block takes the programs b, b + blocks, b + 2 blocks …, of which program_at gives the positions on the grid, in the
 * order that the schedule's `group` says (lower/kernel.c).  Scalars that do not depend on the program stay before the loop,
 * where every part of the body sees them.  Programs run in any order and at once, so accesses of device memory by two of
 * them have no hazard; what they have in shared memory, pass barrier finds as it does in every loop.
 *
 * Blocks that share a program's loop (pass split_k) count what they have by program, so each runs one: the loop is from %1
 * to %1 + 1, and what follows parts it into roles as any other.
 *
 * With {ranks} the blocks of a cluster take neighbours along one axis, or {beside} of them along another, whose operands
 * they can share (cluster.c).  Where an axis is no multiple of the cluster, its last blocks run the last program once more,
 * as their peers wait for their copies and arrivals, and write nothing:
 *
 *     %m = program_at %p {axis = 0, …, ranks = 2, along = 0}
 *     %real = program_exists %p {ranks = 2, along = 0}
 *     …
 *     if %real { write … } */
#include "pass/async/pipeline.h"
#include "target/target.h"

typedef struct Persist {
	Module *m;
	Func *f;
	Builder before;                                 /* the loop */
	Op *loop;
	Block *body;
	Value *position[MAX_AXES];
	bool shares;                                    /* blocks share a program's loop (pass split_k) */
	bool fetches;                                   /* programs are to be fetched from a counter (pass dynamic) */
	Cluster cluster;                                /* or programs that a block runs together */
} Persist;

/* Scalars of the launch, and what is computed from them. */
static bool
stays_before(const Persist *p, const Op *op)
{
	if (!op_has(op, PURE) || op->nregion || op->kind == OP_PROGRAM_ID ||
	    ANY_OF(i, op->nin, value_inside(op->in[i], p->body)))
		return false;
	return !ANY_OF(i, op->nout, op->out[i].type->rank);
}

static void
make_loop(Persist *p, Op *first)
{
	p->before = build_before(first);
	Value *total = NULL, *block = build0(&p->before, OP_BLOCK_ID, NULL);
	for (int d = 0; d < p->f->naxis; d++) {
		Attr axis = attr_new_axis(p->m, d);
		Value *n = &op_make(&p->before, OP_NUM_PROGRAMS, NULL, 0, &axis, 1, NULL, 0)->out[0];
		if (cluster_on(p->cluster, d) > 1) {
			Value *ranks = build_index(&p->before, cluster_on(p->cluster, d));
			n = build2(&p->before, OP_MUL, build2(&p->before, OP_CDIV, n, ranks), ranks);
		}
		total = total ? build2(&p->before, OP_MUL, total, n) : n;
	}
	Value *one = p->shares ? build_index(&p->before, 1) : NULL;
	Value *in[] = {block, one ? build2(&p->before, OP_ADD, block, one) : total,
		one ? one : build0(&p->before, OP_NUM_BLOCKS, NULL)};
	const Op fetched = {.attr = (Attr[]){attr_new_dynamic(p->m, true)}, .nattr = 1};
	p->loop = build_for(&p->before, in, &block, p->fetches, p->fetches ? &fetched : NULL);
	p->body = p->loop->region[0];
	p->body->arg[0].name = "program";
	p->before.before = p->loop;
}

/* The program's index on the axis: made once, with what its first use says of the axis. */
static Value *
position(Persist *p, int axis, const Op *like)
{
	if (p->position[axis])
		return p->position[axis];
	Builder b = {.m = p->m, .block = p->body, .before = p->body->first, .place = like ? like->place : p->loop->place};
	Attr only = attr_new_axis(p->m, axis);
	Op *op = op_make(&b, OP_PROGRAM_AT, (Value *[]){&p->body->arg[0]}, 1, like ? like->attr : &only,
	    like ? like->nattr : 1, NULL, 0);
	if (p->cluster.ranks > 1) {
		attr_set_ranks(p->m, op, p->cluster.ranks);
		attr_set_along(p->m, op, p->cluster.along);
	}
	if (p->cluster.beside > 1)
		attr_set_beside(p->m, op, p->cluster.beside);
	op->out[0].name = p->f->axis[axis];
	return p->position[axis] = &op->out[0];
}

static void
replace_positions(Persist *p)
{
	bool reports = false;

	for (EACH_OP(op, p->body)) {
		reports = reports || op_family(op) == FAMILY_REPORT;
		if (op->kind != OP_PROGRAM_ID || attr_axis(op) >= p->f->naxis)
			continue;
		value_replace(&op->out[0], position(p, (int)attr_axis(op), op));
		op_erase(op);
	}
	for (int d = 0; d < p->f->naxis && reports; d++)        /* they name the program */
		position(p, d, NULL);
}

/* What a program does to memory, only if there is such a program.  Where there is none the last one's number stands: what
 * follows its writes must not read beside them, nor what comes before where another block is `beside`. */
static void
guard_effects(Persist *p, Value *exists, bool beside)
{
	bool written = beside;

	for (EACH_OP(op, p->body)) {
		bool effect = op_has(op, WRITES | EFFECT);
		if (op->kind == OP_ATOMIC && (privatize_takes(p->f, op) || p->f->schedule.coarsen > 1))
			privatize_guard(op, exists);
		else if (effect || (written && exit_needs_guard(p->f, op)))
			exit_guard(op, exists, 0);
		written |= effect;
	}
}

/* The last programs of a cluster are not all on the grid. */
static Value *
make_exists(Persist *p)
{
	Builder b = {.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	Attr attr[] = {attr_new_ranks(p->m, p->cluster.ranks), attr_new_along(p->m, p->cluster.along),
		attr_new_beside(p->m, p->cluster.beside)};
	int n = p->cluster.beside > 1 ? 3 : 2;
	return &op_make(&b, OP_PROGRAM_EXISTS, (Value *[]){&p->body->arg[0]}, 1, attr, n, NULL, 0)->out[0];
}

/* The blocks of a cluster, if the kernel can have them; why not is noted. */
static Cluster
choose_cluster(Func *f, const Target *t)
{
	Cluster c = {1, 0, 1};
	if (f->schedule.ctas > 1 && t->has & HAS_CLUSTER)
		f->cluster_reason = cluster_choose(f, t, &c);
	return c;
}

/* The axis of which a block computes several programs as for one (pass batch): its index says so. */
static int
batched_axis(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op->next)
		if (op->kind == OP_PROGRAM_ID && attr_ranks(op) > 1)
			return (int)attr_axis(op);
	return 0;
}

/* Roles part a loop over programs. */
static bool
is_to_part(const Func *f, const Target *t)
{
	return f->schedule.specialize && t->has & HAS_TMA && has_warpgroup_product(f->body);
}

/* Why blocks fetch no programs. */
static const char *
dynamic_reason(const Func *f, const Target *t, int ranks)
{
	if (!is_to_part(f, t))
		return "programs are fetched by the producer of a kernel that is parted into roles (specialize)";
	if (f->schedule.coarsen > 1 || f->schedule.split > 1)
		return "blocks that run several programs together, or share them, take them in turn";
	return ranks > 1 ? "blocks of a cluster take neighbours together, in turn" : NULL;
}

/* Where programs are to be fetched, the number of the next one is the first that the loop carries. */
static void
end_programs(Persist *p)
{
	Builder end = {.m = p->m, .block = p->body, .place = p->loop->place};
	Value *next = p->fetches ? build2(&end, OP_ADD, &p->body->arg[0], p->loop->in[2]) : NULL;
	build_yield(&end, &next, p->fetches);
}

/* Blocks that are asked for walk the grid as it is. */
static Op *
make_persistent(Module *m, Func *f, const Target *t, bool is_asked)
{
	Persist p = {.m = m, .f = f, .shares = block_find(f->body, OP_SPLIT_MEET)};
	int together = MAX(f->schedule.coarsen, f->schedule.batch);
	p.cluster = together > 1 ? (Cluster){together, 0, 1} : choose_cluster(f, t);
	p.cluster.along = f->schedule.batch > 1 ? batched_axis(f) : p.cluster.along;
	f->dynamic_reason = f->schedule.dynamic ? dynamic_reason(f, t, p.cluster.ranks) : NULL;
	p.fetches = f->schedule.dynamic && !f->dynamic_reason;
	Op *op = f->body->first;

	if (!op)
		return NULL;
	make_loop(&p, op);
	for (Op *next; op; op = next) {
		next = op->next;
		if (stays_before(&p, op))
			op_move(op, f->body, p.loop);
		else
			op_move(op, p.body, NULL);
	}
	end_programs(&p);
	if (f->schedule.coarsen > 1 ? coarsen_guards(f) : p.cluster.ranks > 1 && f->schedule.batch <= 1)
		guard_effects(&p, make_exists(&p), false);
	replace_positions(&p);
	Value *exists = is_asked || p.cluster.ranks > 1 || p.shares ? NULL : order_programs(m, p.loop);
	if (exists)
		guard_effects(&p, exists, true);
	return p.loop;
}

static bool
is_persistent(const Func *f)
{
	return f->schedule.persistent && f->naxis > 0;
}

/* Programs that run together are of a persistent block. */
static void
find_coarsening(Func *f)
{
	if (f->schedule.coarsen <= 1)
		return;
	f->coarsen_reason = coarsen_reason(f);
	if (f->coarsen_reason)
		f->schedule.coarsen = 0;
	else
		f->schedule.persistent = true;
}

const char *
check_programs(Func *f, const Target *t, const Op **at)
{
	bool loops = false;

	for (const Op *op = f->body->first; op && is_persistent(f); op = op_after(op, f->body)) {
		*at = op;
		loops = loops || op->kind == OP_BLOCK_ID;
		if (op->kind == OP_PROGRAM_ID && attr_axis(op) < f->naxis)
			return "a persistent kernel's program by the launch, though the module claims PROGRAMS";
	}
	*at = NULL;
	return loops || !is_persistent(f) || !f->body->first
	    ? NULL : "a persistent kernel without a loop over programs, though the module claims PROGRAMS";
}

void
pass_persist(Func *f, const Target *t)
{
	find_coarsening(f);
	bool asked = f->schedule.persistent, parts = is_to_part(f, t);
	if (parts)
		exit_flatten(f->body);
	f->schedule.persistent |= parts;
	Op *loop = is_persistent(f) ? make_persistent(f->module, f, t, asked) : NULL;
	if (!loop && f->schedule.dynamic)
		f->dynamic_reason = dynamic_reason(f, t, 1);
	if (!loop && f->schedule.ctas > 1)
		choose_cluster(f, t);
}
