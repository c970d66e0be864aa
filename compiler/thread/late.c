/* The wait for the grids before stands as late as it may: what touches no memory, such as the program's place and
 * addresses, is computed while those grids end.
 *
 *     prim grid_wait                              r5: i32 = …
 *     r5: i32 = …                        =>       if r6 {
 *     if r6 {                                         r7: global = pointer r1, r5
 *         r7: global = pointer r1, r5                 prim grid_wait
 *         … load r7                                   … load r7
 *     }                                           } else {
 *                                                     prim grid_wait
 *                                                 }
 *
 * Mbarriers are set up before it, too, the launch's tensor maps fetched, and a cluster's blocks wait for one another's
 * mbarriers.  A product of 1 x 8192 x 8192 by 4-bit weights takes 12.2 us on an H200 so, and 12.5 with the wait first;
 * 1181 x 1752 x 448 and 2726 x 840 x 408 by tensor maps 6.7 and 8.0, and 7.2 and 8.4 with both behind it.  Roles wait each
 * for itself.  Of 12 products in clusters this takes .99 of the time in the mean (.982 to .999), .985 where the thread that
 * copies waits behind what finds its programs, apart from its warp; of 27 by blocks alone .998 to 1.006. */
#include "thread/builder.h"

enum { DEEP = 16, NESTED = 3 };                         /* nodes of a condition; branches, one within the other */

/* Not the block's barriers: behind one stands what one thread has for others. */
static bool
sets_up(PrimKind k)
{
	return k == PRIM_TENSOR_MAP || k == PRIM_MBAR_INIT || k == PRIM_FENCE_MBAR || k == PRIM_CLUSTER_ARRIVE ||
	    k == PRIM_CLUSTER_WAIT || k == PRIM_REGISTERS_LESS || k == PRIM_REGISTERS_MORE;
}

static bool
passes(const ThreadNode *n)
{
	bool is_value = n->kind == NODE_PARAM || n->kind == NODE_SHARED || n->kind == NODE_CONST;
	if (n->kind == NODE_PRIM)
		return sets_up(n->op) || (n->nout > 0 && !(prim_info[n->op].flags & MEM));
	for (int r = 0; r < 2 && n->kind == NODE_IF; r++)
		for (int i = 0; n->region[r] && i < n->region[r]->body.n; i++)
			if (!passes(n->region[r]->body.at[i]))
				return false;
	return is_value || n->kind == NODE_IF || thread_is_pure(n);
}

/* Is it the same for all threads of the block, as far as it is computed from what is? */
static bool
is_uniform(const ThreadModule *m, Reg r, int depth)
{
	ThreadNode *n = thread_def(m, r);
	if (n->kind == NODE_PARAM || n->kind == NODE_CONST || (n->kind == NODE_PRIM && n->op == PRIM_BLOCK))
		return true;
	if ((n->kind != NODE_OP && n->kind != NODE_CAST) || depth == DEEP)
		return false;
	return ALL_OF(i, n->nin, is_uniform(m, n->in[i], depth + 1));
}

static void
insert(ThreadModule *m, ThreadRegion *r, int at, ThreadNode *n)
{
	vec_push(m->mem, &r->body, n);
	for (int i = r->body.n - 1; i > at; i--)
		r->body.at[i] = r->body.at[i - 1];
	r->body.at[at] = n;
	n->home = r;
}

/* Producers and consumers, of whole warps, which have shares of the registers. */
static bool
are_roles(const ThreadNode *branch)
{
	const ThreadNode *first = branch->region[0]->body.n ? branch->region[0]->body.at[0] : NULL;
	return first && first->kind == NODE_PRIM && first->op == PRIM_REGISTERS_LESS;
}

static void
sink(ThreadModule *m, ThreadNode *wait, ThreadRegion *r, int at, int nested)
{
	while (at < r->body.n && passes(r->body.at[at]))
		at++;
	ThreadNode *next = at < r->body.n ? r->body.at[at] : NULL;
	bool parts = next && next->kind == NODE_IF && nested < NESTED && next->region[1];
	if (!parts || (!are_roles(next) && !is_uniform(m, next->in[0], 0))) {
		insert(m, r, at, wait);
		return;
	}
	ThreadNode *other = NEW_COPY(m->mem, wait, 1);
	other->id = m->nnode++;
	sink(m, wait, next->region[0], 0, nested + 1);
	sink(m, other, next->region[1], 0, nested + 1);
}

void
thread_wait_late(ThreadModule *m)
{
	ThreadRegion *r = m->body;
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		if (n->kind == NODE_PRIM && n->op == PRIM_GRID_WAIT) {
			for (int k = i; k + 1 < r->body.n; k++)
				r->body.at[k] = r->body.at[k + 1];
			r->body.n--;
			sink(m, n, r, i, 0);
			return;
		}
		if (!passes(n))
			return;
	}
}

/* ---- lines that are copied first ----
 *
 * The first group of copies is of lines that the block can ask for before the wait: they come into the second cache while
 * the grids before end.
 *
 *     prim grid_wait                              if r80 {                        two grids fit the chip
 *     r5: i32 = load.global [r4]        =>            r81: i32 = peek r4, true
 *     r9: global = pointer r2, (… r5 …)               r85: global = pointer r2, (… r81 …)
 *     cp_async_line r8, r9, r10                       fetch_line r85, (r10, of r81, is not 0)
 *                                                 }
 *                                                 prim grid_wait
 *                                                 r5: i32 = load.global [r4]      …
 *
 * The fetch is a hint: what a grid before still writes is read behind the wait all the same.  So is an index in memory, as
 * a sequence's length: it is read before the wait for the fetch alone (peek), and once more behind it.  Addresses of what
 * is peeked at follow from the block's place, so that they are inside of their tensor whatever memory holds.
 *
 * Attention of one token over 4096 keys takes 7.5 us on an H200 so, 7.6 with the second group, and 8.5 without; 14 lengths
 * and batches 0.85 to 1.00 of the time.  Without such an index copies begin right behind the wait, and what is jumped over
 * costs more than it gains: of products of few rows 5.1 us became 5.5, 10.4 11.0, and hardly one got faster. */

enum { FETCHES_MOST = 64 };                             /* of a thread */

typedef enum Early { UNKNOWN, IS_READY, IS_PEEKED, IS_LATE } Early;

typedef struct Fetch {
	ThreadModule *m;
	ThreadBuilder *b;
	Early *early;                                   /* by Reg - 1 */
	Reg *became;                                    /* what stands for it before the wait, or 0 */
	int n, peeks;                                   /* fetches, and what they follow from */
} Fetch;

static Early early_of(Fetch *f, Reg r);

/* The latest of a node's operands. */
static Early
early_operands(Fetch *f, ThreadNode *n)
{
	Early e = IS_READY;
	Reg *use;
	for (int i = 0; (use = thread_operand(n, i)) && e != IS_LATE; i++)
		e = MAX(e, early_of(f, *use));
	return e;
}

static bool
is_number(const ThreadNode *n)
{
	const ThreadAccess *at = n->at;
	return n->kind == NODE_LOAD && at->space == SPACE_GLOBAL && at->type == REG_I32 && at->n == 1 && at->fill == 0 &&
	    at->cache == CACHE_READ_ONLY && n->i <= 1;
}

/* Can the value be had before the wait, and by what? */
static Early
early_of(Fetch *f, Reg r)
{
	Early *e = &f->early[r - 1];
	ThreadNode *n = thread_def(f->m, r);
	if (*e != UNKNOWN)
		return *e;
	if (is_number(n))
		return *e = early_operands(f, n) == IS_READY ? IS_PEEKED : IS_LATE;
	return *e = thread_is_pure(n) && n->kind != NODE_CALL ? early_operands(f, n) : IS_LATE;
}

static Reg early_copy(Fetch *f, Reg r);

/* Where the access is, as a pointer. */
static Reg
address(Fetch *f, const ThreadAccess *at)
{
	Reg base = early_copy(f, at->base);
	if (at->offset)
		base = thread_pointer(f->b, base, early_copy(f, at->offset));
	return at->constant ? thread_pointer(f->b, base, thread_int_const(f->b, REG_I64, at->constant)) : base;
}

static Reg
predicate(Fetch *f, Reg mask)
{
	return mask ? early_copy(f, mask) : thread_int_const(f->b, REG_PRED, 1);
}

/* The same value before the wait. */
static Reg
early_copy(Fetch *f, Reg r)
{
	ThreadNode *n = thread_def(f->m, r);
	if (f->became[r - 1])
		return f->became[r - 1];
	if (is_number(n)) {
		Reg in[] = {address(f, n->at), predicate(f, n->at->mask)};
		thread_prim(f->b, PRIM_PEEK, in, 2, NULL, 0, &f->became[r - 1], 1);
		f->peeks++;
		return f->became[r - 1];
	}
	ThreadNode like = *n;
	Reg out[MAX_RANK * 4];
	like.in = MAP_OF(f->m->mem, Reg, i, n->nin, early_copy(f, n->in[i]));
	thread_record(f->b, &like, n->nout, out);
	for (int i = 0; i < n->nout; i++)
		f->became[n->out[i] - 1] = out[i];
	return f->became[r - 1];
}

/* ---- what is fetched ---- */

static void
fetch(Fetch *f, Reg pointer, Reg where, Reg mask)
{
	Reg in[] = {pointer, thread_op(f->b, THREAD_AND, where, mask, 0)};
	thread_prim(f->b, PRIM_FETCH_LINE, in, 2, NULL, 0, NULL, 0);
	f->n++;
}

static bool
is_copy(const ThreadNode *n)
{
	return n->kind == NODE_PRIM && (n->op == PRIM_CP_ASYNC || n->op == PRIM_CP_ASYNC_16 || n->op == PRIM_CP_ASYNC_LINE);
}

/* Behind which nothing is fetched: a loop, and the first group of copies. */
static bool
is_end(const ThreadNode *n)
{
	return n->kind == NODE_LOOP || n->kind == NODE_WHILE || (n->kind == NODE_PRIM && n->op == PRIM_CP_COMMIT);
}

/* Of nodes in order; true: up to an end. */
static bool
fetch_all(Fetch *f, ThreadNode *const *body, int n, Reg where)
{
	enum { TO, FROM, BYTES };
	for (int i = 0; i < n && f->n < FETCHES_MOST; i++) {
		if (is_end(body[i]))
			return true;
		ThreadNode *at = body[i];
		if (is_copy(at) && MAX(early_of(f, at->in[FROM]), early_of(f, at->in[BYTES])) != IS_LATE) {
			Reg bytes = early_copy(f, at->in[BYTES]), zero = thread_int_const(f->b, REG_I32, 0);
			fetch(f, early_copy(f, at->in[FROM]), where, thread_op(f->b, THREAD_NE, bytes, zero, 0));
		} else if (at->kind == NODE_LOAD && at->at->space == SPACE_GLOBAL && at->i <= 1 &&
		           early_of(f, at->out[0]) != IS_PEEKED && early_operands(f, at) != IS_LATE) {
			fetch(f, address(f, at->at), where, predicate(f, at->at->mask));
		} else if (at->kind == NODE_IF && early_of(f, at->in[0]) != IS_LATE) {
			Reg both = thread_op(f->b, THREAD_AND, where, early_copy(f, at->in[0]), 0);
			fetch_all(f, at->region[0]->body.at, at->region[0]->body.n, both);
		}
	}
	return f->n == FETCHES_MOST;
}

static bool
is_wait(const ThreadNode *n)
{
	return n->kind == NODE_PRIM && n->op == PRIM_GRID_WAIT;
}

static void
set_ready(Fetch *f, Reg r)
{
	f->early[r - 1] = IS_READY;
	f->became[r - 1] = r;
}

/* The first wait of a region and those in its branches, which `at` is the place of; NULL: it has none.  What stands before
 * is ready there. */
static ThreadRegion *
find_wait(Fetch *f, ThreadRegion *r, int *at)
{
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		ThreadRegion *found = NULL;
		if (is_wait(n)) {
			*at = i;
			return r;
		}
		for (int k = 0; n->kind == NODE_IF && k < 2 && n->region[k] && !found; k++)
			found = find_wait(f, n->region[k], at);
		if (found)
			return found;
		for (int k = 0; k < n->nout; k++)
			set_ready(f, n->out[k]);
	}
	return NULL;
}

/* What follows node i of a region: the rest of it, and of those around it. */
static void
fetch_behind(Fetch *f, const ThreadRegion *r, ThreadNode *const *rest, int n)
{
	Reg always = thread_int_const(f->b, REG_PRED, 1);
	bool ends = fetch_all(f, rest, n, always);
	for (const ThreadNode *owner = r->owner; owner && !ends; owner = owner->home->owner) {
		const ThreadRegion *outer = owner->home;
		int at = FIRST_OF(i, outer->body.n, outer->body.at[i] == owner) + 1;
		ends = fetch_all(f, outer->body.at + at, outer->body.n - at, always);
	}
}

void
thread_fetch_early(ThreadModule *m, int blocks)
{
	Fetch f = {.m = m, .b = thread_reopen(m), .early = NEW_ARRAY(m->mem, Early, m->reg.n),
		.became = NEW_ARRAY(m->mem, Reg, m->reg.n)};
	int at = 0;
	Reg grid;

	for (int r = 1; r <= m->reg.n; r++) {
		ThreadKind k = thread_def(m, r)->kind;
		if (k == NODE_CONST || k == NODE_PARAM || k == NODE_SHARED)
			set_ready(&f, r);
	}
	ThreadRegion *r = find_wait(&f, m->body, &at);
	if (!r)
		return;
	int n = r->body.n - at;
	ThreadNode **after = NEW_COPY(m->mem, r->body.at + at, n);
	f.b->region = r;
	f.b->place = after[0]->place;
	r->body.n = at;
	thread_prim(f.b, PRIM_NBLOCKS, NULL, 0, NULL, 0, &grid, 1);
	thread_if(f.b, thread_op(f.b, THREAD_ULE, grid, thread_int_const(f.b, REG_I32, blocks), 0));
	fetch_behind(&f, r, after + 1, n - 1);
	thread_if_end(f.b, NULL, NULL, 0);
	if (f.peeks == 0)
		r->body.n = at;
	for (int i = 0; i < n; i++)
		vec_push(m->mem, &r->body, after[i]);
}
