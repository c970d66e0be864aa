/* The order of computations where threads that multiply would hold more registers than they have.
 *
 * Lowering gives each op of a tile its nodes, one for each of the thread's elements, so that between two ops all elements
 * wait; LLVM and an assembler keep much of that order in long blocks.  Of nodes in a row that change nothing, each is put
 * right before the first that needs it, so that an element goes through all ops before the next one begins:
 *
 *     r10 = exp2_fast r0                  r10 = exp2_fast r0
 *     r11 = exp2_fast r1          =>      r20 = fmul r0, r10
 *     r20 = fmul r0, r10                  r11 = exp2_fast r1
 *     r21 = fmul r1, r11                  r21 = fmul r1, r11
 *
 * Before that, what takes more registers than it gives goes up to what it needs, over barriers: a sum with what a slot
 * holds is made before the slot is given back.  Behind 256 x 128 products (128 registers of 232) mish and a residual
 * spilled 2860 bytes and spill 92 (8192 x 4096 x 512: 650 us on an H200, and 194); a residual of f32 1348, and none. */
#include "thread/thread.h"

typedef struct Order {
	ThreadModule *m;
	const int *live;                                /* by node: registers that are held there */
	int *place;                                     /* by node: position in the row that is ordered, from 1; or 0 */
	bool *inner;                                    /* by position: nodes of the row need it */
	int *uses;                                      /* by register */
	VEC(ThreadNode *) todo, made;
} Order;

static int
words(const ThreadModule *m, Reg r)
{
	RegType t = thread_type(m, r);
	bool is_free = t == REG_PRED || thread_def(m, r)->kind == NODE_CONST;
	return is_free ? 0 : (thread_type_bytes(t) + 3) / 4;
}

/* An operand in the row that is not made yet; NULL: all are. */
static ThreadNode *
missing(Order *o, ThreadNode *n)
{
	Reg *use;
	for (int i = 0; (use = thread_operand(n, i)); i++) {
		ThreadNode *def = thread_def(o->m, *use);
		if (o->place[def->id] > 0)
			return def;
	}
	return NULL;
}

static void
make(Order *o, ThreadNode *root)
{
	vec_push(o->m->mem, &o->todo, root);
	while (o->todo.n) {
		ThreadNode *n = o->todo.at[o->todo.n - 1], *first = missing(o, n);
		if (first) {
			vec_push(o->m->mem, &o->todo, first);
			continue;
		}
		(void)vec_pop(&o->todo);
		if (o->place[n->id] > 0)
			vec_push(o->m->mem, &o->made, n);
		o->place[n->id] = 0;
	}
}

static void
order_row(Order *o, ThreadNode **row, int n)
{
	o->made.n = 0;
	for (int i = 0; i < n; i++) {
		o->place[row[i]->id] = i + 1;
		o->inner[i] = false;
	}
	for (int i = 0; i < n; i++) {
		Reg *use;
		for (int k = 0; (use = thread_operand(row[i], k)); k++) {
			int at = o->place[thread_def(o->m, *use)->id];
			if (at > 0)
				o->inner[at - 1] = true;
		}
	}
	for (int i = 0; i < n; i++)
		if (!o->inner[i])
			make(o, row[i]);
	for (int i = 0; i < n; i++)
		make(o, row[i]);
	for (int i = 0; i < n; i++)
		row[i] = o->made.at[i];
}

/* Loads may change places with each other. */
static bool
is_movable(const ThreadNode *n)
{
	return thread_is_pure(n) || (n->kind == NODE_LOAD && !thread_has_effect(n)) ||
	       (n->kind == NODE_PRIM && (n->op == PRIM_LDMATRIX || n->op == PRIM_LDMATRIX_T));
}

/* Does it take more than it gives, of what nothing else needs? */
static bool
shrinks(Order *o, ThreadNode *n)
{
	Reg *use;
	int taken = 0, given = 0;
	for (int i = 0; (use = thread_operand(n, i)); i++)
		taken += o->uses[*use] == 1 ? words(o->m, *use) : 0;
	for (int i = 0; i < n->nout; i++)
		given += words(o->m, n->out[i]);
	bool is_element = thread_is_pure(n) && n->kind != NODE_CALL && (thread_is_float(n->type) || n->kind == NODE_PACK);
	return is_element && taken > given;
}

/* Puts what shrinks right behind the last of what it needs, over barriers and arrivals. */
static void
move_up(Order *o, ThreadRegion *r)
{
	int n = r->body.n, *count = NEW_ARRAY(o->m->mem, int, n + 1);
	ThreadNode **body = NEW_COPY(o->m->mem, r->body.at, n);
	for (int i = 0; i < n; i++)
		o->place[body[i]->id] = i + 1;
	for (int i = 0; i < n; i++) {
		Reg *use;
		int last = 0;
		for (int k = 0; shrinks(o, body[i]) && (use = thread_operand(body[i], k)); k++)
			last = MAX(last, o->place[thread_def(o->m, *use)->id]);
		o->place[body[i]->id] = last ? last : i + 1;
		count[o->place[body[i]->id]]++;
	}
	for (int i = 1; i <= n; i++)
		count[i] += count[i - 1];
	for (int i = 0; i < n; i++) {
		int *place = &o->place[body[i]->id];
		r->body.at[count[*place - 1]++] = body[i];
		*place = 0;
	}
}

static int
most_live(const Order *o, ThreadNode *const *row, int n)
{
	int most = 0;
	for (int i = 0; i < n; i++)
		most = MAX(most, o->live[row[i]->id]);
	return most;
}

bool
thread_keeps_order(const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		if (n->kind == NODE_WGMMA || (n->kind == NODE_CALL && n->function))
			return true;
		for (int k = 0; n->kind == NODE_IF && k < 2 && n->region[k]; k++)
			if (thread_keeps_order(n->region[k]))
				return true;
	}
	return false;
}

/* Rows between what moves no further. */
static void
order_body(Order *o, ThreadRegion *r, int limit)
{
	if (most_live(o, r->body.at, r->body.n) <= limit)
		return;
	move_up(o, r);
	for (int i = 0, n; i < r->body.n; i += n + 1) {
		for (n = 0; i + n < r->body.n && is_movable(r->body.at[i + n]);)
			n++;
		if (most_live(o, r->body.at + i, n) > limit)
			order_row(o, r->body.at + i, n);
	}
}

/* limit: registers of a thread; a role has its share of them. */
static void
order_region(Order *o, ThreadRegion *r, int limit, bool in_kept)
{
	in_kept = thread_keeps_order(r) || (in_kept && r->owner && r->owner->kind == NODE_IF);
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		if (n->kind == NODE_PRIM && n->op == PRIM_REGISTERS_MORE)
			limit = (int)n->imm[0];
	}
	if (!in_kept)
		order_body(o, r, limit);
	for (int i = 0; i < r->body.n; i++)
		for (int k = 0; k < 2 && r->body.at[i]->region[k]; k++)
			order_region(o, r->body.at[i]->region[k], limit, in_kept);
}

void
thread_order(ThreadModule *m)
{
	const Target *t = m->target;
	if (!(m->kinds & 1u << NODE_WGMMA))
		return;
	int each = t->registers / (m->kernel.threads * MAX(m->kernel.min_blocks, 1)) / 8 * 8;
	Order o = {.m = m, .live = thread_live_at(m), .place = NEW_ARRAY(m->mem, int, m->nnode),
		.inner = NEW_ARRAY(m->mem, bool, m->nnode), .uses = NEW_ARRAY(m->mem, int, m->reg.n + 1)};
	thread_count_uses(m->body, o.uses);
	order_region(&o, m->body, MIN(each, t->max_registers), false);
}
