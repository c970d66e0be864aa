/* Stream-K: blocks of a persistent kernel share the programs that would not keep all of them busy, as the schedule word
 * `split` asks.
 *
 *     153 programs of 65 iterations on 132 blocks: one round of whole programs, and a second of 21, in which 111 blocks
 *     would be idle.  Of 153 programs and their 9945 iterations a block gets 75 or 76, neighbours:
 *
 *         block 131     program 0, 1 …              iterations 0 to 64 of program 0, 0 to 9 of program 1
 *         block 130     iterations 10 to 64 of program 1, 0 to 19 of program 2
 *
 *     for %block, %total, %blocks do (%p) {          for %block, %end, %blocks do (%i) {
 *         %m = program_at %p …                           %p, %from, %to = …
 *         %s = for %lo, %hi, %step, %0 do …              %m = program_at %p …
 *         write %y, %m, %s …                             %s = for %from, %to, %step, %0 do …
 *     }                                                  if (%from is %lo) {
 *                                           =>               %t = stream_join %next, %parts, %step, %s
 *                                                            write %y, %m, %t …
 *                                                        } else {
 *                                                            stream_give %s
 *                                                        }
 *                                                    }
 *
 * Whole rounds of programs come first, all but the last full one, so that with the rest each block has between one and two
 * programs' iterations and a program is at most two blocks'; where there are fewer programs than blocks, as many share
 * each, `split` at most.  The block with a program's first iterations adds what others have of it, in their order: the same
 * result on every run.  Ranges go down from the last block to the first: a block begins with a part that another waits for
 * and ends with a part for which it waits, so that what it needs is there or nearly so; and it waits for blocks of lesser
 * numbers alone, which have started before it (lower/across/stream.c).
 *
 * Blocks of a cluster are as one: their programs are neighbours, and they take the same iterations of them.  Whether there
 * will be clusters pass pipeline decides; where blocks are no multiple of one, there are none, and each is for itself.
 *
 * A loop of the program that only adds into what it carries, begun with zeros, with bounds that are the same for all
 * programs, can be shared.  What stands before it is done for each part, so nothing there may write or report.  Where a
 * kernel has no such loop, its blocks take whole programs, and Func.split_reason says why. */
#include "pass/share/split_k.h"

#include "ir/derive.h"

enum { SUM_BITS = 32 };

typedef struct Stream {
	Module *m;
	Func *f;
	Op *programs, *loop;
	Builder b;                                      /* where ops are made: before the loop over programs, then in it */
	int ranks;                                      /* blocks of a cluster */
	Value *size;                                    /* of a cluster: ranks; 1 where blocks make no whole clusters */
	Value *rank, *clusters, *own;                   /* in its cluster; clusters; its cluster's place, from the last */
	Value *rounds, *shared_from;                    /* of whole programs of clusters; the first that is shared */
	Value *trips, *units, *workers;                 /* iterations of a program; of those shared; clusters that share */
	Value *from, *to;                               /* units of this cluster's */
	Value *first_unit, *is_whole, *is_first;        /* of the present program */
} Stream;

/* ---- which loop ---- */

static const char *
loop_reason(const Op *loop, const Block *body)
{
	int64_t step;

	if (!value_int(loop->in[2], &step) || step <= 0)
		return "the step of its loop is not known";
	if (ANY_OF(i, 3, value_inside(loop->in[i], body)))
		return "the bounds of its loop are not the same for all programs";
	for (int i = 0; i < loop->nout; i++) {
		const Type *t = loop->out[i].type;
		if (split_fold(loop, i) != OP_ADD || t->rank == 0 || dtype_info[t->elem].bits != SUM_BITS)
			return "its loop does more than add into tiles of 32 bits";
		if (!value_is_zero(loop->in[3 + i]))
			return "its sums begin with something else than 0";
	}
	return loop->nout ? NULL : "its loop carries nothing";
}

/* Each block of a program does what stands before the end of its loop. */
static const char *
before_reason(const Op *loop, const Block *body)
{
	for (const Op *op = body->first; op != loop->next; op = op_after(op, body)) {
		if (op_has(op, WRITES | EFFECT))
			return "something is written or reported before the loop ends";
		if (op_has(op, READS) && (!access_is_tensor(op) || tensor_may_be_written(body->func, op->in[0], body)))
			return "it reads what it may write before the loop ends";
	}
	return NULL;
}

static const char *
find(Stream *s, const Target *t)
{
	s->programs = func_programs(s->f);
	if (!(t->has & HAS_ATOMIC_ORDER))
		return arena_printf(s->m->cx->mem, "%s has no order of memory between blocks", t->name);
	if (!s->programs || s->f->schedule.coarsen > 1 || !s->f->schedule.persistent)
		return "its blocks do not walk over programs, one after the other";
	const Block *body = s->programs->region[0];
	for (Op *op = body->first; op; op = op->next)
		if (op->kind == OP_FOR)
			s->loop = op;
	if (!s->loop && split_in_branch(body))
		return SPLIT_IN_BRANCH;
	if (!s->loop || s->loop->next == body->last)
		return "the kernel has no loop that only adds into what it carries, and then uses that";
	const char *why = loop_reason(s->loop, body);
	return why ? why : before_reason(s->loop, body);
}

/* ---- numbers ---- */

static Value *
number(Stream *s, int64_t v)
{
	return build_index(&s->b, v);
}

static Value *
two(Stream *s, OpKind k, Value *x, Value *y)
{
	return build2(&s->b, k, x, y);
}

static Value *
by_cluster(Stream *s, Value *blocks)
{
	return s->size ? two(s, OP_DIV, blocks, s->size) : blocks;
}

static Value *
least(Stream *s, Value *x, Value *y)
{
	return two(s, OP_MIN, x, y);
}

static Value *
at_least(Stream *s, Value *x, int64_t n)
{
	return two(s, OP_MAX, x, number(s, n));
}

/* units * x / workers: where worker number x begins. */
static Value *
begin_of(Stream *s, Value *x)
{
	return two(s, OP_DIV, two(s, OP_MUL, least(s, x, s->workers), s->units), s->workers);
}

/* How many programs are shared, by how many clusters. */
static void
share(Stream *s, Value *programs)
{
	const Op *loop = s->loop;
	Value *rounds = two(s, OP_DIV, programs, s->clusters), *whole = two(s, OP_MUL, rounds, s->clusters);
	Value *is_even = two(s, OP_EQ, whole, programs);

	s->rounds = build3(&s->b, OP_SELECT, is_even, rounds, at_least(s, two(s, OP_SUB, rounds, number(s, 1)), 0));
	s->shared_from = two(s, OP_MUL, s->rounds, s->clusters);
	Value *shared = two(s, OP_SUB, programs, s->shared_from);
	Value *range = at_least(s, two(s, OP_SUB, loop->in[1], loop->in[0]), 0);
	s->trips = at_least(s, two(s, OP_CDIV, range, loop->in[2]), 1);
	s->units = two(s, OP_MUL, shared, s->trips);
	Value *most = number(s, s->f->stream), *each = two(s, OP_DIV, s->clusters, at_least(s, shared, 1));
	most = two(s, OP_MUL, shared, least(s, most, at_least(s, each, 1)));
	most = build3(&s->b, OP_SELECT, two(s, OP_LT, s->clusters, shared), s->clusters, most);
	s->workers = at_least(s, least(s, s->units, most), 1);
}

/* Before the loop over programs: what this block has, and where its loop then ends. */
static void
measure(Stream *s)
{
	Op *programs = s->programs;
	Value *block = programs->in[0], *blocks = programs->in[2];

	s->b = build_before(programs);
	if (s->ranks > 1) {
		Value *rest = two(s, OP_REM, blocks, number(s, s->ranks)), *none = number(s, 0);
		s->size = build3(&s->b, OP_SELECT, two(s, OP_EQ, rest, none), number(s, s->ranks), number(s, 1));
	}
	Value *cluster = by_cluster(s, block);
	s->clusters = by_cluster(s, blocks);
	s->rank = s->size ? two(s, OP_SUB, block, two(s, OP_MUL, cluster, s->size)) : number(s, 0);
	s->own = two(s, OP_SUB, two(s, OP_SUB, s->clusters, number(s, 1)), cluster);
	share(s, by_cluster(s, programs->in[1]));
	s->from = begin_of(s, s->own);
	s->to = begin_of(s, two(s, OP_ADD, s->own, number(s, 1)));
	s->first_unit = two(s, OP_DIV, s->from, s->trips);
	Value *parts = two(s, OP_SUB, two(s, OP_CDIV, s->to, s->trips), s->first_unit);
	Value *items = two(s, OP_ADD, s->rounds, parts);
	op_set_in(programs, 1, two(s, OP_ADD, block, two(s, OP_MUL, items, blocks)));
}

/* ---- in the loop over programs ---- */

static void
set_programs(Stream *s, Value *item, Value *program)
{
	const Block *body = s->programs->region[0];

	for (Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nin; i++)
			if (op->in[i] == item && (op->kind == OP_PROGRAM_AT || op->kind == OP_PROGRAM_EXISTS))
				op_set_in(op, i, program);
}

/* The present program, and which of its iterations the block runs.  Gives where the shared program's units end. */
static Value *
place(Stream *s)
{
	Block *body = s->programs->region[0];
	Value *item = &body->arg[0], *none = NULL;
	Op *loop = s->loop;

	s->b = build_before(body->first);
	none = number(s, 0);
	Value *at = two(s, OP_DIV, by_cluster(s, item), s->clusters);
	s->is_whole = two(s, OP_LT, at, s->rounds);
	Value *shared = two(s, OP_ADD, s->first_unit, two(s, OP_SUB, at, s->rounds));
	Value *begin = two(s, OP_MUL, shared, s->trips), *end = two(s, OP_ADD, begin, s->trips);
	Value *number_of = two(s, OP_ADD, s->shared_from, shared);
	if (s->size)
		number_of = two(s, OP_ADD, two(s, OP_MUL, number_of, s->size), s->rank);
	set_programs(s, item, build3(&s->b, OP_SELECT, s->is_whole, item, number_of));
	Value *first = at_least(s, two(s, OP_SUB, s->from, begin), 0);
	Value *last = least(s, two(s, OP_SUB, s->to, begin), s->trips);
	first = build3(&s->b, OP_SELECT, s->is_whole, none, first);
	last = build3(&s->b, OP_SELECT, s->is_whole, s->trips, last);
	s->is_first = two(s, OP_EQ, first, none);
	Value *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
	op_set_in(loop, 0, two(s, OP_ADD, lo, two(s, OP_MUL, first, step)));
	op_set_in(loop, 1, least(s, hi, two(s, OP_ADD, lo, two(s, OP_MUL, last, step))));
	return end;
}

/* The program's other parts, which those of greater numbers in the order have. */
static Op *
join(Stream *s, Value *end)
{
	int n = s->loop->nout;
	Value **in = NEW_ARRAY(s->m->cx->tmp, Value *, n + STREAM_JOIN_TILES);
	Value *one = number(s, 1), *next = two(s, OP_ADD, s->own, one);
	Value *until = two(s, OP_CDIV, two(s, OP_MUL, end, s->workers), at_least(s, s->units, 1));
	Value *cluster = two(s, OP_SUB, two(s, OP_SUB, s->clusters, one), next);

	in[0] = s->size ? two(s, OP_ADD, two(s, OP_MUL, cluster, s->size), s->rank) : cluster;
	in[1] = build3(&s->b, OP_SELECT, s->is_whole, number(s, 0), at_least(s, two(s, OP_SUB, until, next), 0));
	in[2] = s->size ? s->size : one;
	for (int i = 0; i < n; i++)
		in[STREAM_JOIN_TILES + i] = &s->loop->out[i];
	Op *sum = op_make(&s->b, OP_STREAM_JOIN, in, n + STREAM_JOIN_TILES, NULL, 0, NULL, 0);
	for (int i = 0; i < n; i++) {
		sum->out[i].layout = s->loop->out[i].layout;
		sum->out[i].name = s->loop->out[i].name;
	}
	return sum;
}

/* What follows the loop is for the block with the program's first iterations, and of the whole sums. */
static void
finish(Stream *s, Value *end)
{
	Op *loop = s->loop, *rest = loop->next;
	Block *body = loop->home;
	int n = loop->nout;

	s->b = build_before(rest);
	s->b.place = loop->place;
	Op *branch = build_if(&s->b, s->is_first, NULL, 0);
	for (Op *next; rest != body->last; rest = next) {
		next = rest->next;
		op_move(rest, branch->region[0], NULL);
	}
	Builder then = build_inside(branch, 0), give = build_inside(branch, 1);
	build_yield(&then, NULL, 0);
	s->b = build_before(branch->region[0]->first);
	s->b.place = loop->place;
	Op *sum = join(s, end);
	for (int i = 0; i < n; i++)
		value_replace_from(sum->next, &loop->out[i], &sum->out[i]);
	Value **sums = MAP_OF(s->m->cx->tmp, Value *, i, n, &loop->out[i]);
	op_make(&give, OP_STREAM_GIVE, sums, n, NULL, 0, NULL, 0);
	build_yield(&give, NULL, 0);
}

void
pass_stream(Func *f, const Target *t)
{
	Stream s = {.m = f->module, .f = f, .ranks = 1};
	if (f->schedule.split <= 1 || block_find(f->body, OP_SPLIT_MEET))
		return;
	f->split_reason = find(&s, t);
	f->stream = f->split_reason ? 0 : f->schedule.split;
	f->schedule.split = 0;
	if (f->split_reason)
		return;
	const Op *at = cluster_program(s.programs->region[0]);
	s.ranks = at ? (int)attr_ranks(at) : 1;
	measure(&s);
	finish(&s, place(&s));
}
