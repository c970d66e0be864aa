/* Waits of gathered rows: a producer's threads wait for their copies themselves, iterations later, and fence them.
 *
 *     for … do (%k, %now, %phase) {                       for … do (%k, %now, %phase, %n, %last, %before) {
 *         await %empty, %now, 1 - %phase                      await %empty, %now, 1 - %phase
 *         expect %full, %now                                  expect %full, %now
 *         copy %x, …, slot %now, %full, %now "counted"        %c = copy %x, …, slot %now "cp_async"
 *         …                                                   …
 *         yield …                                  =>         commit %c
 *     }                                                       wait {left = 2}
 *                                                             proxy_fence
 *                                                             if %n is 2 { arrive %full, %before {by = "warp"} }
 *                                                             yield …, (%n + 1, up to 2), %now, %last
 *                                                         }
 *                                                         wait {left = 0}
 *                                                         proxy_fence
 *                                                         … arrive for those that are left
 *
 * Threads write by cp.async through the generic proxy, and products of warpgroups read through the async proxy: in
 * between each thread that wrote has to fence (PTX ISA, Memory Consistency Model, Proxies).  An mbarrier that counts such
 * copies by itself leaves that to the consumers, which then fence in each iteration, between the wait and the product.
 * Here the producer does, two iterations behind its copies, and one lane arrives for each warp. */
#include "pass/async/pipeline.h"

enum { LAG = 2 };

typedef struct GatherWait {
	Module *m;
	Arena *tmp;
	Func *f;
	Op *roles, *loop;
	Op *copy;
	Value *ring, *now;                              /* mbarriers of the slots, and the present slot's number */
} GatherWait;

/* Where several numbers say where a row is, its address takes so long that arrivals two iterations behind come too late:
 * conv2d 32x56x56x256 by 3x3 took 262 us for 177. */
static bool
gathers_by_one(const Op *copy)
{
	return COUNT_OF(d, copy->in[0]->type->rank, attr_index(copy)[d] == 'g') <= 1;
}

/* Slots that consumers still read when they wait for the next: one where a product runs on (skew/run_on.c). */
static int
held_slots(const Op *roles)
{
	return ANY_OP(op, roles->region[1], op->kind == OP_DOT_WAIT && op->nin == 0);
}

/* The only one, with slots enough: the producer fills LAG before its first arrival.  Of two, as of rows of one tensor times
 * others of it, consumers fence sooner than the producer has both: 4096 x 4096 x 2048 took 117.5 us, 104.9 by them. */
static bool
find_copy(GatherWait *l)
{
	const Block *body = l->roles->region[0];

	for (Op *op = body->first; op; op = op_after(op, body)) {
		if (op->kind != OP_COPY || !op_is_counted_copy(op) || op_is_bulk_copy(op))
			continue;
		int at = access_data(op);
		Op *loop = op->home->parent;
		if (l->copy || !gathers_by_one(op) || !loop || loop->kind != OP_FOR || loop->home == body)
			return false;
		l->loop = loop;
		l->ring = op->in[at + 1];
		l->now = op->in[at + 2];
		l->copy = op;
	}
	return l->copy && l->ring->type->slots > LAG + held_slots(l->roles) &&
	    value_inside(l->now, l->loop->region[0]);
}

static void
set_arrivals(GatherWait *l)
{
	Op *ring = l->ring->def;

	attr_set_count(l->m, ring, attr_count(ring) + attr_warps(l->roles)->at[0] - copy_threads(l->copy));
}

/* The copy again, which no mbarrier counts, as a group. */
static Value *
copy_in_group(GatherWait *l, Builder *end)
{
	Op *op = l->copy;
	Builder b = build_before(op);
	const Type *type = op->out[0].type;

	attr_set_kind(l->m, op, "cp_async");
	Op *made = op_make(&b, OP_COPY, op->in, access_data(op) + 1, op->attr, op->nattr, &type, 1);
	made->out[0].layout = op->out[0].layout;
	op_replace(op, made);
	Value *token = &made->out[0];
	return &op_make(end, OP_COMMIT, &token, 1, NULL, 0, NULL, 0)->out[0];
}

static void
wait_for(GatherWait *l, Builder *b, Value *token, int left)
{
	const Attr a = attr_new_left(l->m, left);

	op_make(b, OP_WAIT, &token, token ? 1 : 0, &a, 1, NULL, 0);
	op_make(b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
}

/* For the slot, if n is `at` or, for 0, if it is not. */
static void
signal_slot(GatherWait *l, Builder *b, Value *n, int at, Value *slot)
{
	const Attr by = attr_new_by(l->m, "warp");
	Builder in = build_where(b, build2(b, OP_EQ, n, build_index(b, at)), at != 0);
	op_make(&in, OP_ARRIVE, (Value *[]){l->ring, slot}, 2, &by, 1, NULL, 0);
	build_yield(&in, NULL, 0);
}

static void
await_gathers(GatherWait *l)
{
	Builder before = build_before(l->loop);
	Value *zero[3] = {build_index(&before, 0), build_index(&before, 0), build_index(&before, 0)};
	int at = l->now->index, carried = l->loop->nout;
	bool is_arg = !l->now->def;

	set_arrivals(l);
	Pipeline p = {.m = l->m, .tmp = l->tmp, .f = l->f, .loop = l->loop, .body = l->loop->region[0]};
	Value *arg = pipeline_carry(&p, zero, 3), *next[3];
	if (is_arg)
		l->now = &p.body->arg[at];
	Builder b = build_before(p.body->last);
	b.place = p.loop->place;
	arg[0].name = "ahead";
	Value *token = copy_in_group(l, &b);
	wait_for(l, &b, token, LAG);
	signal_slot(l, &b, &arg[0], LAG, &arg[2]);
	Value *full = build2(&b, OP_EQ, &arg[0], build_index(&b, LAG));
	next[0] = build3(&b, OP_SELECT, full, &arg[0], build2(&b, OP_ADD, &arg[0], build_index(&b, 1)));
	next[1] = l->now;
	next[2] = &arg[1];
	pipeline_yield(&p, next, 3);
	Value *left = &p.loop->out[carried];
	Builder behind = {.m = l->m, .block = p.loop->home, .before = p.loop->next, .place = p.loop->place};
	wait_for(l, &behind, NULL, 0);
	signal_slot(l, &behind, left, LAG, &p.loop->out[carried + 2]);
	signal_slot(l, &behind, left, 0, &p.loop->out[carried + 1]);
}

/* Consumers need not fence what they waited for. */
static void
drop_fences(const GatherWait *l)
{
	const Block *body = l->roles->region[1];

	for (EACH_OP(op, body)) {
		bool follows = op->kind == OP_PROXY_FENCE && op->prev && op->prev->kind == OP_AWAIT;
		if (follows && op->prev->in[0] == l->ring)
			op_erase(op);
	}
}

void
pass_gather_wait(Func *f, const Target *t)
{
	GatherWait l = {.m = f->module, .tmp = f->module->cx->tmp, .f = f, .roles = (Op *)func_find(f, OP_ROLES)};

	(void)t;
	if (!l.roles || attr_lone(l.roles) || !find_copy(&l))
		return;
	await_gathers(&l);
	drop_fences(&l);
}
