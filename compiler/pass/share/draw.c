/* Dynamic programs: blocks of a parted kernel draw the next one from a counter as they get free, so that those with long
 * programs take fewer.
 *
 *     roles producer {                                       roles producer {
 *         for %b, %n, %step, %b do (%p, %q) {drawn} {            for … do (%p, %q, %now, %phase) {drawn} {
 *             … copies of program %p …                               %d = draw %0
 *             yield %p + %step                                       … copies of program %p …
 *         }                                          =>              %e = while %d leaves { draw %0 }
 *     } consumer {                                                   await %taken, %now, 1 - %phase
 *         for … do (%p, %q) {drawn} {                                put_one (slot %now of %ring), %e
 *             … products of program %p …                             arrive %told, %now
 *             yield %p + %step                                       yield %e, (next of %now and %phase)
 *         }                                                      }
 *     }                                                          draw_end
 *                                                            } consumer {
 *                                                                for … do (%p, %q, %now, %phase) {drawn} {
 *                                                                    … products of program %p …
 *                                                                    await %told, %now, %phase
 *                                                                    %e = get_one (slot %now of %ring)
 *                                                                    arrive %taken, %now {by = "warp"}
 *                                                                    yield %e, (next of %now and %phase)
 *
 * The producer draws as its program begins, so that the counter's latency passes beside its copies.  Programs that do
 * nothing, as those behind an early return, it leaves out: consumers never hear of them (leave.c). */
#include "pass/share/draw.h"

#include "pass/async/pipeline.h"

enum { SLOTS = 2, WARPGROUP = 4 };

typedef struct Draw {
	Module *m;
	Arena *tmp;
	Op *roles;
	Value *ring, *told, *taken;
} Draw;

/* The loop over programs of a role. */
static Op *
programs_of(const Op *roles, int region)
{
	Op *op = roles->region[region]->first;

	while (op && !(op->kind == OP_FOR && attr_drawn(op)))
		op = op->next;
	return op;
}

/* The numbers that the producer hands on, and the mbarriers of their slots. */
static void
make_ring(Draw *d)
{
	Pipeline p = {.m = d->m};
	Builder b = build_before(d->roles);
	const Layout one = layout_row_major(1, (int[LAYOUT_RANK]){0}, (int[LAYOUT_RANK]){0});

	d->ring = build0(&b, OP_ALLOC, type_buffer(d->m, TY_I64, SLOTS, 1, (int64_t[]){1}));
	d->ring->layout = layout_intern(d->m, &one);
	d->ring->name = "programs";
	d->told = pipeline_mbarrier(&p, &b, SLOTS, 1, "told");
	d->taken = pipeline_mbarrier(&p, &b, SLOTS, attr_warps(d->roles)->at[1] * attr_copies(d->roles)->at[1], "taken");
}

static Value *
slot_of(const Draw *d, Builder *b, Value *now)
{
	const Attr wrapped = attr_new_wrapped(d->m, true);
	Value *slot = &op_make(b, OP_SLOT, (Value *[]){d->ring, now}, 2, &wrapped, 1, NULL, 0)->out[0];

	slot->layout = d->ring->layout;
	return slot;
}

Value *
draw_number(Builder *b, Value *least)
{
	return build1(b, OP_DRAW, least, type_scalar(b->m, TY_I64));
}

Value *
draw_known(const Leave *l, Builder *b, Value *drawn)
{
	return attr_lone(l->roles) ? drawn : build1(b, OP_FROM_FIRST, drawn, NULL);
}

/* The producer's: draws, and hands on. */
static Value *
hand_on(Draw *d, Op *programs, const Leave *leave, Builder *b, Value *now, Value *phase)
{
	Builder first = build_before(programs->region[0]->first);
	Value *drawn = draw_number(&first, build_index(&first, 0));
	Value *next = leave_out(leave, b, draw_known(leave, b, drawn), programs->in[1]);

	pipeline_await(b, d->taken, now, build2(b, OP_SUB, build_index(b, 1), phase));
	op_make(b, OP_PUT_ONE, (Value *[]){slot_of(d, b, now), next}, 2, NULL, 0, NULL, 0);
	op_make(b, OP_ARRIVE, (Value *[]){d->told, now}, 2, NULL, 0, NULL, 0);
	return next;
}

static Value *
take(Draw *d, Builder *b, Value *now, Value *phase)
{
	const Attr by = attr_new_by(d->m, "warp");

	pipeline_await(b, d->told, now, phase);
	Value *next = build1(b, OP_GET_ONE, slot_of(d, b, now), type_scalar(d->m, TY_I64));
	op_make(b, OP_ARRIVE, (Value *[]){d->taken, now}, 2, &by, 1, NULL, 0);
	return next;
}

static void
carry(Draw *d, Op *programs, const Leave *leave)
{
	Builder before = build_before(programs);
	Value *zero[2] = {build_index(&before, 0), build_index(&before, 0)};
	Pipeline p = {.m = d->m, .tmp = d->tmp, .f = programs->home->func, .loop = programs, .body = programs->region[0]};
	Value *slot = pipeline_carry(&p, zero, 2), *next[2];
	Builder b = build_before(p.body->last);

	slot[0].name = "drawn";
	slot[1].name = "round";
	b.place = p.loop->place;
	Value *program = leave ? hand_on(d, p.loop, leave, &b, &slot[0], &slot[1]) : take(d, &b, &slot[0], &slot[1]);
	op_set_in(p.body->last, 0, program);
	next[0] = pipeline_next(&b, &slot[0], SLOTS);
	next[1] = pipeline_next_phase(&b, &slot[1], next[0]);
	pipeline_yield(&p, next, 2);
}

void
pass_draw(Func *f, const Target *t)
{
	(void)t;
	Draw d = {.m = f->module, .tmp = f->module->cx->tmp, .roles = (Op *)func_find(f, OP_ROLES)};
	if (!f->schedule.dynamic || f->dynamic_reason)
		return;
	Op *producer = d.roles ? programs_of(d.roles, 0) : NULL, *consumer = d.roles ? programs_of(d.roles, 1) : NULL;
	if (!producer || !consumer) {
		f->dynamic_reason = "it stays whole, and programs are drawn by a producer";
		return;
	}
	Leave leave = leave_find(f, d.roles, consumer);
	make_ring(&d);
	Builder end = {.m = d.m, .block = producer->home, .before = producer->next, .place = producer->place};
	op_make(&end, OP_DRAW_END, NULL, 0, NULL, 0, NULL, 0);
	carry(&d, producer, &leave);
	carry(&d, consumer, NULL);
	sweep(f);
}
