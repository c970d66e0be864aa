/* Dynamic programs: blocks of a parted kernel fetch the next one from a counter as they get free, so that those with long
 * programs take fewer.
 *
 *     roles producer {                                       roles producer {
 *         for %b, %n, %step, %b do (%p, %q) {dynamic} {          for … do (%p, %q, %now, %phase) {dynamic} {
 *             … copies of program %p …                               %d = fetch %0
 *             yield %p + %step                                       … copies of program %p …
 *         }                                          =>              %e = while %d leaves { fetch %0 }
 *     } consumer {                                                   await %taken, %now, 1 - %phase
 *         for … do (%p, %q) {dynamic} {                              put_one (slot %now of %ring), %e
 *             … products of program %p …                             arrive %told, %now
 *             yield %p + %step                                       yield %e, (next of %now and %phase)
 *         }                                                      }
 *     }                                                          fetch_end
 *                                                            } consumer {
 *                                                                for … do (%p, %q, %now, %phase) {dynamic} {
 *                                                                    … products of program %p …
 *                                                                    await %told, %now, %phase
 *                                                                    %e = get_one (slot %now of %ring)
 *                                                                    arrive %taken, %now {by = "warp"}
 *                                                                    yield %e, (next of %now and %phase)
 *
 * The producer fetches as its program begins, so that the counter's latency passes beside its copies.  Programs that do
 * nothing, as those behind an early return, have no numbers (compact.c), or the producer leaves them out: consumers never
 * hear of them (early_return.c). */
#include "pass/share/dynamic.h"

#include "ir/derive.h"
#include "pass/async/pipeline.h"

enum { SLOTS = 2, WARPGROUP = 4 };

typedef struct Dynamic {
	Module *m;
	Arena *tmp;
	Op *roles;
	const Compact *compact;                         /* or NULL: numbers are those of the grid */
	int nring;
	Value *ring[1 + MAX_AXES], *told, *taken;       /* the program's number, and its indices if numbered anew */
} Dynamic;

/* The loop over programs of a role. */
static Op *
programs_of(const Op *roles, int region)
{
	return FIND_OP_HERE(o, roles->region[region], o->kind == OP_FOR && attr_dynamic(o));
}

/* The numbers that the producer hands on, and the mbarriers of their slots. */
static void
make_rings(Dynamic *d, int n)
{
	Pipeline p = {.m = d->m};
	Builder b = build_before(d->roles);
	const Layout one = layout_row_major(1, (int[LAYOUT_RANK]){0}, (int[LAYOUT_RANK]){0});

	d->nring = n;
	for (int i = 0; i < n; i++) {
		d->ring[i] = build0(&b, OP_ALLOC, type_buffer(d->m, TY_I64, SLOTS, 1, (int64_t[]){1}));
		d->ring[i]->layout = layout_intern(d->m, &one);
		d->ring[i]->name = "programs";
	}
	d->told = pipeline_mbarrier(&p, &b, SLOTS, 1, "told");
	d->taken = pipeline_mbarrier(&p, &b, SLOTS, attr_warps(d->roles)->at[1] * attr_copies(d->roles)->at[1], "taken");
}

Value *
fetch_number(Builder *b, Value *least)
{
	if (least)
		least = build2(b, OP_SUB, least, build0(b, OP_NUM_BLOCKS, NULL));
	return build1(b, OP_FETCH, least ? least : build_index(b, 0), type_scalar(b->m, TY_I64));
}

Value *
fetch_known(const Leave *l, Builder *b, Value *fetched)
{
	Value *n = attr_lone(l->roles) ? fetched : build1(b, OP_FROM_FIRST, fetched, NULL);
	return build2(b, OP_ADD, n, build0(b, OP_NUM_BLOCKS, NULL));
}

/* The producer's: what the slot of that number is to hold. */
static void
hand_on(const Dynamic *d, Builder *b, Value *const *next, Value *now, Value *phase)
{
	pipeline_await(b, d->taken, now, build2(b, OP_SUB, build_index(b, 1), phase));
	for (int i = 0; i < d->nring; i++)
		op_make(b, OP_PUT_ONE, (Value *[]){build_slot(b, d->ring[i], now), next[i]}, 2, NULL, 0, NULL, 0);
	op_make(b, OP_ARRIVE, (Value *[]){d->told, now}, 2, NULL, 0, NULL, 0);
}

static void
take(const Dynamic *d, Builder *b, Value **next, Value *now, Value *phase)
{
	const Attr by = attr_new_by(d->m, "warp");

	pipeline_await(b, d->told, now, phase);
	for (int i = 0; i < d->nring; i++)
		next[i] = build1(b, OP_GET_ONE, build_slot(b, d->ring[i], now), type_scalar(d->m, TY_I64));
	op_make(b, OP_ARRIVE, (Value *[]){d->taken, now}, 2, &by, 1, NULL, 0);
}

/* What the loop carries beside the number of the program: the slot and its phase, the indices, and where the walk is. */
enum { SLOT_AT, PHASE_AT, INDEX_AT, SUM_AT = INDEX_AT + MAX_AXES, CARRIED_MOST };

/* The block's first program. */
static int
begin(const Dynamic *d, Op *programs, bool is_producer, Value **init)
{
	Builder b = build_before(programs);
	Value *zero = build_index(&b, 0);
	int naxis = d->nring - 1;

	init[SLOT_AT] = build_index(&b, 0);
	init[PHASE_AT] = build_index(&b, 0);
	if (!d->compact)
		return INDEX_AT;
	Numbered from = {.plane = zero, .sum = zero};
	Numbered to = compact_place(d->compact, &b, programs->in[0], programs->in[1], &from);
	op_set_in(programs, 0, to.program);
	op_set_in(programs, 3, to.program);
	for (int i = 0; i < naxis; i++)
		init[INDEX_AT + i] = to.index[i];
	init[INDEX_AT + naxis] = to.sum;
	return INDEX_AT + naxis + is_producer;
}

/* The next program, fetched: its number, indices and where its plane begins. */
static void
find_next(const Dynamic *d, const Pipeline *p, const Leave *leave, Builder *b, Value *carried, Value **next)
{
	Builder first = build_before(p->body->first);
	Value *fetched = fetch_number(&first, NULL), *number = fetch_known(leave, b, fetched);
	int naxis = d->nring - 1;

	if (!d->compact) {
		next[0] = leave_out(leave, b, number, p->loop->in[1]);
		return;
	}
	Numbered from = {.plane = &carried[INDEX_AT + d->compact->plane], .sum = &carried[INDEX_AT + naxis]};
	Numbered to = compact_place(d->compact, b, number, p->loop->in[1], &from);
	next[0] = to.program;
	for (int i = 0; i < naxis; i++)
		next[1 + i] = to.index[i];
	next[1 + naxis] = to.sum;
}

static void
carry(Dynamic *d, Op *programs, const Leave *leave)
{
	Value *init[CARRIED_MOST], *next[1 + MAX_AXES + 1], *more[CARRIED_MOST];
	int n = begin(d, programs, leave != NULL, init);
	Pipeline p = {.m = d->m, .tmp = d->m->cx->tmp, .f = programs->home->func, .loop = programs,
		.body = programs->region[0]};
	Value *carried = pipeline_carry(&p, init, n);
	Builder b = build_before(p.body->last);

	carried[SLOT_AT].name = "fetched";
	carried[PHASE_AT].name = "round";
	b.place = p.loop->place;
	if (leave) {
		find_next(d, &p, leave, &b, carried, next);
		hand_on(d, &b, next, &carried[SLOT_AT], &carried[PHASE_AT]);
	} else {
		take(d, &b, next, &carried[SLOT_AT], &carried[PHASE_AT]);
	}
	op_set_in(p.body->last, 0, next[0]);
	more[SLOT_AT] = pipeline_next(&b, &carried[SLOT_AT], SLOTS);
	more[PHASE_AT] = pipeline_next_phase(&b, &carried[PHASE_AT], more[SLOT_AT]);
	for (int i = INDEX_AT; i < n; i++)
		more[i] = next[1 + i - INDEX_AT];
	pipeline_yield(&p, more, n);
	if (d->compact) {
		Value *index[MAX_AXES];
		for (int i = 0; i < d->nring - 1; i++)
			index[i] = &carried[INDEX_AT + i];
		compact_replace(p.body, index);
	}
}

void
pass_dynamic(Func *f, const Target *t)
{
	(void)t;
	Dynamic d = {.m = f->module, .roles = (Op *)func_find(f, OP_ROLES)};
	if (!f->schedule.dynamic || f->dynamic_reason)
		return;
	Op *producer = d.roles ? programs_of(d.roles, 0) : NULL, *consumer = d.roles ? programs_of(d.roles, 1) : NULL;
	if (!producer || !consumer) {
		f->dynamic_reason = "it stays whole, and programs are fetched by a producer";
		return;
	}
	Leave leave = leave_find(f, d.roles, consumer);
	Compact compact;
	d.compact = compact_find(f, &leave, producer, &compact) ? &compact : NULL;
	make_rings(&d, d.compact ? 1 + f->naxis : 1);
	Builder end = {.m = d.m, .block = producer->home, .before = producer->next, .place = producer->place};
	op_make(&end, OP_FETCH_END, NULL, 0, NULL, 0, NULL, 0);
	carry(&d, producer, &leave);
	carry(&d, consumer, NULL);
	sweep(f);
}
