/* Warp specialisation: parts a persistent kernel into a thread that copies and warps that compute.
 *
 *     for %b, %n, %step, %0, %0 do (%p, %s, %t) {          roles {warps = [4, 8], regs = [40, 232], lone = true} producer {
 *         for … %s, %t do (%k, %acc, %now, %phase) {           for %b, %n, %step, %0, %0 do (%p, %s, %t) {
 *             await %empty, %now, 1 - %phase                       for … %s, %t do (%k, %now, %phase) {
 *             expect %full, %now                                       await %empty, %now, 1 - %phase
 *             copy … slot %now, %full, %now                            expect %full, %now
 *             await %full, %now, %phase                                copy … slot %now, %full, %now
 *             %d = dot_start (slot %now) …                             yield (%now + 1, wrapped), …
 *             %e = dot_wait %d                       =>            }
 *             arrive %empty, %now {by = "warp"}                    yield …
 *             yield …                                          }
 *         }                                                } consumer {
 *         write …                                              for %b, %n, %step, %0, %0 do (%p, %s, %t) {
 *         yield …                                                  for … %s, %t do (%k, %acc, %now, %phase) {
 *     }                                                                await %full, %now, %phase
 *                                                                      %d = dot_start (slot %now) …
 *                                                                      %e = dot_wait %d
 *                                                                      arrive %empty, %now {by = "warp"}
 *                                                                      yield …
 *                                                                  }
 *                                                                  write …
 *                                                                  yield …
 *                                                              }
 *                                                          }
 *
 * Pass pipeline has made a loop that fills, reads and frees a slot in each iteration, and carries the slot's number and the
 * parity of its phase on from program to program.  The producer is a copy of the loops of which nothing is left but the
 * waits for free slots, the copies, and what their addresses are computed from; the consumers' is what remains.  So the
 * producer is ahead by as many slots as the ring has, across programs too: it copies for the next program while the
 * consumers write this one's results.
 *
 * What no tensor map brings, as rows gathered by number, the producer's threads copy by cp.async, all 128 of them, and each
 * arrives at the mbarrier when its copies have come; consumers fence what they waited for.  The producer computes the
 * indices again, each in the layout that the copy asks for, and has more registers:
 *
 *     %row = read %token, … : i32[128] #2
 *     for … {
 *         await %empty, %now, 1 - %phase
 *         expect %full, %now                               %full: 1 + 128 arrivals
 *         copy %x, %row, %k, slot %now, %full, %now {kind = "counted"} : token #3
 *         copy %w, %k, … slot %now, %full, %now {kind = "bulk"}
 *
 * A kernel stays whole where something else would have to be divided; Func.whole_reason says what. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/anchor.h"
#include "target/target.h"

#define NOT_PARTED "the kernel is not parted into roles (specialize)"

enum { WARPGROUP = 4 };

typedef struct Parting {
	Module *m;
	Arena *tmp;
	const Target *t;
	Func *f;
	Op *programs;                                   /* the loop over programs */
	Op *loop;                                       /* in it, the one that fills and frees slots */
	VEC(const Value *) free;                        /* rings of mbarriers by which slots are given back */
	bool gathers;                                   /* threads copy what no tensor map brings */
	bool *seen;                                     /* by Value.id: what the copies need */
	const char *why;                                /* the kernel stays whole */
} Parting;

static bool
refuse(Parting *p, const char *why)
{
	p->why = why;
	return false;
}

/* ---- what there is to part ---- */

static bool
find_programs(Parting *p)
{
	p->programs = func_programs(p->f);
	if (!p->programs)
		return refuse(p, "no product of warpgroups is in a loop over programs");
	const Op *next = p->programs->next;
	return !next || next->kind == OP_CLUSTER_BARRIER || refuse(p, "something follows the loop over programs");
}

/* Is it in the program, or in loops of it alone? */
static bool
is_of_program(const Parting *p, const Op *loop)
{
	while (loop->kind == OP_FOR && loop->home->parent != p->programs)
		loop = loop->home->parent;
	return loop->kind == OP_FOR;
}

/* One loop, whose body has the copies and the arrivals by warp; the program may bring tiles of its own beside it. */
static bool
find_loop(Parting *p)
{
	const Block *body = p->programs->region[0];

	for (Op *op = body->first; op; op = op_after(op, body)) {
		if (op->kind == OP_COPY && !op_is_counted_copy(op))
			return refuse(p, "threads copy by cp.async");
		if (op->kind != OP_EXPECT && op->kind != OP_ARRIVE && op->kind != OP_COPY)
			continue;
		p->gathers |= op->kind == OP_COPY && !op_is_bulk_copy(op);
		if (op->kind == OP_ARRIVE)
			vec_push(p->tmp, &p->free, op->in[0]);
		if (op->home == body)
			continue;
		Op *loop = op->home->parent;
		if (!is_of_program(p, loop))
			return refuse(p, "a ring is filled elsewhere than in a loop of the program");
		if (p->loop && p->loop != loop)
			return refuse(p, "two loops of a program fill rings");
		p->loop = loop;
	}
	return p->loop || refuse(p, "no loop of the program fills a ring by bulk copies");
}

/* ---- indices again in another layout ---- */

/* Could v be computed in layout l, so that threads exchange nothing? */
static bool
can_remake(const Value *v, const Layout *l)
{
	const Op *op = v->def;
	if (!op || op->nregion)
		return false;
	if (op->kind == OP_CONVERT)
		return can_remake(op->in[0], l);
	if (!op_has(op, ELEM) && op->kind != OP_READ && op->kind != OP_CONST && op->kind != OP_IOTA &&
	    op->kind != OP_BROADCAST)
		return false;
	const Layout *anchor = anchor_of_result(op, 0, l);
	for (int i = 0; i < op->nin; i++) {
		const Layout *in = value_is_placed(op->in[i]) && anchor ? anchor_operand(op, anchor, i) : NULL;
		if (value_is_placed(op->in[i]) && (!in || !can_remake(op->in[i], in)))
			return false;
	}
	return true;
}

static Value *
remake(Parting *p, Value *v, const Layout *l)
{
	Op *op = v->def;
	if (v->layout == l && op->kind != OP_CONVERT)
		return v;
	if (op->kind == OP_CONVERT)
		return remake(p, op->in[0], l);
	const Layout *anchor = anchor_of_result(op, 0, l);
	Builder b = {.m = p->m, .block = op->home, .before = op->next, .place = op->place};
	Value *in[MAX_RANK + 4];
	for (int i = 0; i < op->nin; i++)
		in[i] = value_is_placed(op->in[i]) ? remake(p, op->in[i], anchor_operand(op, anchor, i)) : op->in[i];
	Op *again = op_make(&b, op->kind, in, op->nin, op->attr, op->nattr, &v->type, 1);
	again->out[0].name = v->name;
	again->out[0].layout = l;
	if (op->kind == OP_READ)
		attr_set_vector(p->m, again, access_vector(again, l, p->t));
	return &again->out[0];
}

/* In place of conversions through shared memory. */
static void
remake_indices(Parting *p, Op *programs)
{
	const Block *body = programs->region[0];
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_CONVERT && plan_op(op, p->t).scratch)
			value_replace(&op->out[0], remake(p, op->in[0], op->out[0].layout));
	sweep(p->f);
}

/* Is it a division that lanes repeat, which each could make once for all of its warp? */
static bool
repeats_division(const Parting *p, const Op *op, Layout *own)
{
	Convert c;
	const Layout *l = op->nout == 1 ? op->out[0].layout : NULL;
	OpCost cost = op_info[op->kind].cost;
	bool divides = (cost == COST_DIVIDE || cost == COST_LONG) && op_has(op, ELEM) && l;
	if (!divides || !op->out[0].nuses || dtype_is_float(op->out[0].type->elem))
		return false;
	*own = layout_fill_lanes(l);
	return !layout_equal(own, l) && layout_convert(own, l, &c) && c.kind == CONVERT_SHUFFLE &&
	    can_remake(&op->out[0], layout_intern(p->m, own));
}

/* Lanes whose rows are the same divide for one row each, and take the others' results by shuffles. */
static void
share_divisions(Parting *p, Op *programs)
{
	const Block *body = programs->region[0];
	VEC(Op *) ops = {0};
	Layout own;

	for (Op *op = body->first; op; op = op_after(op, body))
		vec_push(p->tmp, &ops, op);
	while (ops.n) {
		Op *op = vec_pop(&ops);
		if (!repeats_division(p, op, &own))
			continue;
		Value *v = remake(p, &op->out[0], layout_intern(p->m, &own));
		Builder b = {.m = p->m, .block = op->home, .before = v->def->next, .place = op->place};
		Op *convert = op_make(&b, OP_CONVERT, &v, 1, NULL, 0, &v->type, 1);
		convert->out[0].layout = op->out[0].layout;
		value_replace(&op->out[0], &convert->out[0]);
		op_erase(op);
	}
	sweep(p->f);
}

/* ---- what the copies need ---- */

static bool need(Parting *p, const Value *v);

/* Of a tensor that nothing writes, as offsets and page numbers are. */
static bool
reads_again(const Parting *p, const Op *op)
{
	return op->kind == OP_READ && !tensor_may_be_written(p->f, op->in[0], p->f->body);
}

/* A search for the next iteration (pass filter), from what it begins with and what is around it. */
static bool
need_search(Parting *p, const Op *loop)
{
	if (!pipeline_is_search(p->f, loop, loop->home))
		return refuse(p, "addresses of copies follow from a condition");
	if (!ALL_OF(i, loop->nin, need(p, loop->in[i])))
		return false;
	return !ANY_OF(r, loop->nregion,
	    ANY_OP(op, loop->region[r],
		ANY_OF(i, op->nin, !value_inside(op->in[i], loop->region[r]) && !need(p, op->in[i]))));
}

/* A value that a loop carries, by its number: what it is at first, and what an iteration makes of it. */
static bool
need_column(Parting *p, const Op *loop, int i)
{
	if (loop->kind == OP_WHILE)
		return need_search(p, loop);
	if (loop->kind == OP_IF && !ALL_OF(r, 2, need(p, loop->region[r]->last->in[i])))
		return false;
	if (loop->kind == OP_IF)
		return need(p, loop->in[0]);
	return ALL_OF(k, 3, need(p, loop->in[k])) &&
	    (i < 0 || (need(p, loop->in[3 + i]) && need(p, loop->region[0]->last->in[i])));
}

/* Scalars that one thread can compute again, or tiles of which each thread holds what it needs. */
static bool
need(Parting *p, const Value *v)
{
	if (v->type->kind == TYPE_TENSOR || v->type->kind == TYPE_MBARRIER ||
	    !value_inside(v, p->programs->region[0]) || p->seen[v->id])
		return true;
	p->seen[v->id] = true;
	if (v->type->kind == TYPE_TILE && v->type->rank && !p->gathers)
		return refuse(p, "rows are gathered by a tile of indices");
	if (!v->def || op_is_control(v->def))
		return need_column(p, v->def ? v->def : v->block->parent, v->def ? v->index : v->index - 1);
	if (v->def->kind == OP_ALLOC)
		return true;
	if ((!op_has(v->def, PURE) && !reads_again(p, v->def)) || v->def->nregion)
		return refuse(p, "addresses of copies come from memory");
	if (plan_op(v->def, p->t).scratch && !can_remake(v->def->in[0], v->layout))
		return refuse(p, "threads exchange what addresses of copies follow from");
	return ALL_OF(i, v->def->nin, need(p, v->def->in[i]));
}

static bool
is_producers(const Parting *p, const Op *op)
{
	return op->kind == OP_EXPECT || op_is_counted_copy(op) ||
	    (op->kind == OP_AWAIT && ANY_OF(i, p->free.n, p->free.at[i] == op->in[0]));
}

/* How often the loop runs, and those of the program around it. */
static bool
need_loops(Parting *p)
{
	for (const Op *loop = p->loop; loop != p->programs; loop = loop->home->parent)
		if (!need_column(p, loop, -1))
			return false;
	return true;
}

static bool
need_copies(Parting *p)
{
	const Block *body = p->programs->region[0];
	for (const Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nin && is_producers(p, op); i++)
			if (!need(p, op->in[i]))
				return false;
	return need_loops(p);
}

bool
roles_can_copy(Func *f, const Target *t, Op *loop, const Op *read)
{
	Parting p = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .f = f, .loop = loop, .gathers = true};
	int warps = f->schedule.warps;

	if (!(t->has & HAS_TMA) || !find_programs(&p) || warps % WARPGROUP ||
	    !target_role_registers(t, pingpong_warpgroups(f)))
		return false;
	func_number(f);
	p.seen = NEW_ARRAY(p.tmp, bool, f->nvalues);
	return is_of_program(&p, loop) && ALL_OF(i, read->in[0]->type->rank, need(&p, read->in[1 + i])) && need_loops(&p);
}

/* ptxas compiles consumers for what each thread has of all roles' warps, though setmaxnreg gives them more. */
static bool
fits_registers(const Parting *p)
{
	int most = target_registers(p->t, WARPGROUP * (1 + pingpong_warpgroups(p->f)));
	return !ANY_OP(op, p->f->body, wgmma_named(attr_mma(op)) &&
	    wgmma_registers(wgmma_named(attr_mma(op))->n, attr_register_a(op)) > most);
}

static bool
can_part(Parting *p)
{
	int warps = p->f->schedule.warps;
	if (!(p->t->has & HAS_TMA))
		return refuse(p, "the target has no bulk copies that an mbarrier counts");
	if (!find_programs(p) || !find_loop(p))
		return false;
	if (warps % WARPGROUP || !target_role_registers(p->t, pingpong_warpgroups(p->f)))
		return refuse(p, "registers are divided between warpgroups, of which 1 to 4 compute");
	if (!fits_registers(p))
		return refuse(p, "one instruction's sums take all registers that a thread has beside the producer's");
	if (ANY_OP(op, p->programs->region[0],
		op_is_loop(op) && ANY_OF(i, op->nout, op->out[i].type->kind == TYPE_TOKEN)))
		return refuse(p, "a loop carries tokens");
	func_number(p->f);
	p->seen = NEW_ARRAY(p->tmp, bool, p->f->nvalues);
	return need_copies(p);
}

/* ---- the roles ---- */

/* Something of the result's type, which nothing that stays will use. */
static Value *
stand_in(Builder *b, const Value *v)
{
	Value *zero = build_int(b, v->type, 0);

	zero->layout = v->layout;
	return zero;
}

/* The effects of the other role go; pure ops that only fed them are swept. */
static void
drop_effects(Parting *p, Op *programs, bool producers)
{
	const Block *body = programs->region[0];
	VEC(Op *) drops = {0};
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op_has(op, WRITES | EFFECT) && is_producers(p, op) == producers)
			vec_push(p->tmp, &drops, op);
	while (drops.n) {
		Op *op = vec_pop(&drops);
		Builder b = build_before(op);
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].nuses)
				value_replace(&op->out[i], stand_in(&b, &op->out[i]));
		op_erase(op);
	}
}

/* Consumers whose sums take a third of their registers leave a producer with addresses of rows more: 16 rows of two
 * operands spill with 104 (gathered_gram of bench/warps), and so do 116 sums of 232 x 128 with fewer than 200.  They leave
 * it more too where it finds places on three axes, or multicasts along two: of both 80 bytes spill with 40 registers, and 8
 * with 48. */
static Op *
make_roles(Parting *p)
{
	enum { SHARE = 3, OVER = 8 };
	int warps = p->f->schedule.warps;
	const Value *out = p->loop->out;
	const int *regs = (p->gathers ? target_gather_registers : target_role_registers)(p->t, pingpong_warpgroups(p->f));
	bool few = ALL_OF(i, p->loop->nout, !out[i].layout || SHARE << out[i].layout->in[IN_REGISTER] <= regs[1]);
	const Op *at = cluster_program(p->programs->region[0]);
	int over = at ? OVER * ((program_cluster(at).beside > 1) + (p->f->naxis > 2)) : p->gathers && few ? OVER : 0;
	Builder b = {.m = p->m, .block = p->f->body, .before = p->programs->next, .place = p->programs->place};
	const Attr attr[] = {attr_new_warps(p->m, (int64_t[]){WARPGROUP, warps}, 2),
		attr_new_copies(p->m, (int64_t[]){1, pingpong_groups(p->f)}, 2),
		attr_new_regs(p->m, (int64_t[]){regs[0] + over, regs[1] - over}, 2), attr_new_lone(p->m, true)};
	Op *roles = op_make_regions(&b, OP_ROLES, NULL, 0, attr, LEN(attr) - p->gathers, NULL, 0, 2);
	const Type *which = type_scalar(p->m, TY_I64);
	for (int r = 0; r < 2; r++)
		roles->region[r] = block_make(p->f, roles, &which, r);
	return roles;
}

/* Each of the producer's warps holds what several of the consumers' did: they have fewer. */
static const Layout *
layout_of_producer(Module *m, const Layout *l)
{
	Layout fewer = layout_fold_warps(l, log2_ceil(WARPGROUP));
	return layout_intern(m, &fewer);
}

/* A slot is filled by so many arrivals of threads less. */
static void
count_threads(Parting *p, const Op *copy, int were)
{
	Op *ring = copy->in[access_data(copy) + 1]->def;
	attr_set_count(p->m, ring, attr_count(ring) - were + copy_threads(copy));
}

/* Copies by one thread have no layout of threads. */
static void
change_layouts(Parting *p, Op *programs)
{
	const Block *body = programs->region[0];
	for (Op *op = body->first; op; op = op_after(op, body)) {
		int were = op->kind == OP_COPY ? copy_threads(op) : 0;
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].layout && op->out[i].type->kind != TYPE_BUFFER)
				op->out[i].layout = layout_of_producer(p->m, op->out[i].layout);
		if (op_is_bulk_copy(op))
			op->out[0].layout = NULL;
		else if (op_is_counted_copy(op))
			count_threads(p, op, were);
	}
}

static void
part(Parting *p)
{
	roles_sink_tiles(p->programs);
	func_number(p->f);
	Op *roles = make_roles(p);
	Builder b = {.m = p->m, .block = roles->region[0]};
	Op *producer = op_clone(&b, p->programs, NEW_ARRAY(p->tmp, Value *, p->f->nvalues));
	build_yield(&b, NULL, 0);
	op_move(p->programs, roles->region[1], NULL);
	b.block = roles->region[1];
	build_yield(&b, NULL, 0);
	drop_effects(p, producer, false);
	drop_effects(p, p->programs, true);
	sweep(p->f);
	remake_indices(p, producer);
	change_layouts(p, producer);
	if (p->gathers)
		share_divisions(p, producer);
	if (p->f->stream <= 1)
		roles_sink_scalars(p->f, roles);
	if (p->f->schedule.pingpong)
		pingpong_take_turns(roles, p->programs, p->loop);
	sweep(p->f);
}

void
pass_roles(Func *f, const Target *t)
{
	Parting p = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .f = f};
	bool can = f->schedule.specialize && can_part(&p);
	if (f->schedule.pingpong && (f->pingpong_reason = can ? pingpong_reason(f, t, p.programs, p.loop) : NOT_PARTED))
		f->schedule.pingpong = 0;
	if (!f->schedule.specialize)
		return;
	if (can) {
		part(&p);
		if (f->schedule.warps == WARPGROUP)
			pipeline_run_on(f, p.loop);
		pipeline_run_past(f, t, p.loop);
	}
	f->whole_reason = p.why;
	if (f->schedule.ctas > 1 && t->has & HAS_CLUSTER && func_cluster(f) == 1 && !f->cluster_reason)
		f->cluster_reason = "it stays whole, and blocks of a cluster share copies of parted kernels";
}
