/* Divides a program's loop over several blocks, as the schedule word `split` asks: for programs that are too few for a GPU
 * and whose loop is long.
 *
 *     %0 = const {value = 0.0} : f32[16, 64]
 *     %p = for %lo, %hi, %step, %0 do (%k: i64, %acc: f32[16, 64]) { … %d = dot %a, %b, %acc … yield %d }
 *     write %y, …, %p
 *  =>
 *     %r = split_rank                                   0 … split_count - 1
 *     %n = cdiv(cdiv(%hi - %lo, %step), split_count) * %step
 *     %from = %lo + %r * %n
 *     %p = for %from, min(%hi, %from + %n), %step, %0 do …
 *     %t = split_put %p
 *     %last = split_meet %t
 *     if %last {
 *         %x = split_get %t, 0
 *         %s = for 1, split_count, 1, %x do (%i: i64, %a: f32[16, 64]) {
 *             %b = split_get %t, %i
 *             %c = add %a, %b
 *             yield %c
 *         }
 *         write %y, …, %s
 *     }
 *
 * Each block has neighbouring iterations, and one block joins what all have in the order of their ranks: the same result
 * on every run.  How two states join is known for sums, maxima and minima; of any other loop the source says it (op merge,
 * whose region then stands in place of the addition).  A target with clusters and up to SPLIT_CLUSTER blocks: they are a
 * cluster, what they put lies in their shared memory ({cluster}), and a split_done follows.  Sums of 32 bits are added by
 * all of them there, a share each (split_sum), and the first gets what they come to; anything else the first joins.  Else
 * it lies in memory of the launch, and the last to arrive joins.
 *
 * What stands before the loop is done by each block; so nothing up to its end may write or report.  Where a loop cannot be
 * divided, the kernel stays as it is, and Func.split_reason says why.  On the cpu device the parts of a loop with a merge
 * run one after the other, so that `split` shows there what its merge makes; without `split` the op merge goes.  On GPUs it
 * stays until slice_k, of which warps may divide what a block has. */
#include "ir/derive.h"
#include "pass/share/split_k.h"

/* ---- on a GPU ---- */

/* What the sums began with is added once: parts begin with what changes no sum. */
static void
begin_sums(Split *s)
{
	Op *loop = s->loop;

	for (int i = 0; i < loop->nout && !s->merge; i++) {
		Value *init = loop->in[3 + i];
		s->fold[i] = split_fold(loop, i);
		Builder b = build_before(loop);
		Value *begin = s->fold[i] == OP_ADD ? split_begin(&b, init, init->type) : NULL;
		if (!begin)
			continue;
		op_set_in(loop, 3 + i, begin);
		s->init[i] = init;
	}
}

static void
put_states(Split *s, Builder *b)
{
	for (int i = 0; i < split_nstates(s); i++) {
		if (s->merge && s->merge->in[i]->def != s->loop)
			continue;                       /* the same in all parts */
		s->put[i] = build1(b, OP_SPLIT_PUT, split_state(s, i), NULL);
		if (s->in_cluster)
			attr_set_cluster(b->m, s->put[i]->def, true);
		s->tokens[s->ntokens++] = s->put[i];
	}
}

/* Does the loop only add tiles of 32 bits up? */
static bool
all_sum(const Split *s)
{
	for (int i = 0; i < s->loop->nout; i++) {
		const Type *t = s->loop->out[i].type;
		bool is_word = t->rank > 0 && t->elem != TY_BOOL && dtype_info[t->elem].bits == 32;
		if (s->merge || s->fold[i] != OP_ADD || !is_word)
			return false;
	}
	return true;
}

static void
put_done(const Split *s, Builder *b)
{
	Op *done = op_make(b, OP_SPLIT_DONE, s->tokens, s->ntokens, NULL, 0, NULL, 0);
	attr_set_cluster(b->m, done, true);
}

/* In a cluster the first gets the sums that all have added, or joins, and the others may end once it has read what they
 * have. */
static void
join_in_branch(Split *s, Builder *b, Value *last, Value *count, Value **out)
{
	int n = split_nstates(s);
	bool sums = all_sum(s);

	Value **own = MAP_OF(b->m->cx->tmp, Value *, i, n, split_state(s, i));
	for (int i = 0; i < s->ntokens && sums; i++)
		op_make(b, OP_SPLIT_SUM, &s->tokens[i], 1, NULL, 0, NULL, 0);
	if (sums)
		put_done(s, b);
	Op *branch = build_if(b, last, own, n);
	Builder then = build_inside(branch, 0), orelse = build_inside(branch, 1);
	if (sums)
		split_get_all(s, &then, build_index(&then, 0), out);
	else
		split_join_all(s, &then, count, out);
	build_yield(&then, out, n);
	build_yield(&orelse, own, n);
	for (int i = 0; i < n; i++)
		out[i] = &branch->out[i];
	if (!sums)
		put_done(s, b);
}

/* What comes from `rest` on is for the block that joins alone. */
static Op *
leave_to_last(Op *rest, Value *last)
{
	Builder b = build_before(rest);
	Builder in = build_where(&b, last, true);
	for (Op *next; rest; rest = next) {
		next = rest->next;
		op_move(rest, in.block, NULL);
	}
	build_yield(&in, NULL, 0);
	return in.block->parent;
}

static void
use_joined(Split *s, Builder *b, Value *const *joined)
{
	for (int i = 0; i < split_nstates(s); i++) {
		Value *all = s->init[i] ? build2(b, OP_ADD, s->init[i], joined[i]) : joined[i];
		all->name = split_state(s, i)->name;
		s->all[i] = all;
	}
}

/* From here on the states are those of all parts, in what the block that joins has left to do. */
static void
replace_states(const Split *s, const Op *branch)
{
	const Block *rest = branch->region[0];

	for (const Op *at = rest->first; at; at = op_after(at, rest))
		for (int k = 0; k < at->nin; k++)
			for (int i = 0; i < split_nstates(s); i++)
				if (at->in[k] == split_state(s, i) && at != s->all[i]->def)
					op_set_in((Op *)at, k, s->all[i]);
}

static void
divide(Func *f, const Target *t, const Found *found)
{
	Arena *tmp = f->module->cx->tmp;
	Op *loop = found->loop, *merge = found->merge;
	bool in_cluster = split_in_cluster(f, t);       /* of the loop as it is */
	Builder before = build_before(loop);
	Value *rank = build0(&before, OP_SPLIT_RANK, NULL);
	rank->name = "rank";
	if (found->derives)
		merge = split_derive(f, loop, rank);
	int n = merge ? merge->nout : loop->nout;
	Op *end = merge ? merge : loop;
	Split s = {.loop = loop, .merge = merge, .in_cluster = in_cluster,
	    .fold = NEW_ARRAY(tmp, OpKind, n), .init = NEW_ARRAY(tmp, Value *, n), .put = NEW_ARRAY(tmp, Value *, n),
	    .tokens = NEW_ARRAY(tmp, Value *, n), .all = NEW_ARRAY(tmp, Value *, n)};
	Value **joined = NEW_ARRAY(tmp, Value *, n), *from, *to;

	func_number(f);
	s.nvalues = f->nvalues;
	before = build_before(loop);
	Parts parts = split_parts(&before, loop, build0(&before, OP_SPLIT_COUNT, NULL));
	split_part(&before, &parts, rank, &from, &to);
	op_set_in(loop, 0, from);
	op_set_in(loop, 1, to);
	begin_sums(&s);
	Op *rest = end->next;
	Builder b = {.m = f->module, .block = f->body, .before = rest, .place = loop->place};
	put_states(&s, &b);
	Op *meet = op_make(&b, OP_SPLIT_MEET, s.tokens, s.ntokens, NULL, 0, NULL, 0);
	if (s.in_cluster) {
		attr_set_cluster(f->module, meet, true);
		join_in_branch(&s, &b, &meet->out[0], parts.count, joined);
	}
	Op *branch = leave_to_last(rest, &meet->out[0]);
	b = build_before(branch->region[0]->first);
	b.place = loop->place;
	if (!s.in_cluster)
		split_join_all(&s, &b, parts.count, joined);
	use_joined(&s, &b, joined);
	replace_states(&s, branch);
	func_number(f);
}

/* ---- one after the other ---- */

/* The loop's first part, then in another loop each of the others and its join with those before it. */
static void
cut(Func *f, Op *loop, Op *merge)
{
	Arena *tmp = f->module->cx->tmp;
	int n = merge->nout;
	Split s = {.loop = loop, .merge = merge};
	Value **part = NEW_ARRAY(tmp, Value *, n), **out = NEW_ARRAY(tmp, Value *, n), *bounds[3], *from, *to;

	func_number(f);
	s.nvalues = f->nvalues;
	Builder before = build_before(loop);
	Parts parts = split_parts(&before, loop, build_index(&before, f->schedule.split));
	split_part(&before, &parts, build_index(&before, 0), &from, &to);
	Builder b = build_before(merge);
	bounds[0] = build_index(&b, 1);
	bounds[1] = parts.count;
	bounds[2] = build_index(&b, 1);
	Op *over = build_for(&b, bounds, merge->in, n, NULL);
	Block *body = over->region[0];
	Builder at = {.m = f->module, .block = body, .place = loop->place};
	Value **map = NEW_ARRAY(tmp, Value *, s.nvalues), *begin, *end;
	split_part(&at, &parts, &body->arg[0], &begin, &end);
	Op *again = op_clone(&at, loop, map);
	op_set_in(again, 0, begin);
	op_set_in(again, 1, end);
	for (int i = 0; i < n; i++) {
		part[i] = merge->in[i]->def == loop ? &again->out[merge->in[i]->index] : merge->in[i];
		out[i] = &body->arg[1 + i];
	}
	split_join(&s, &at, out, part, out);
	build_yield(&at, out, n);
	op_set_in(loop, 0, from);
	op_set_in(loop, 1, to);
	for (int i = 0; i < n; i++) {
		over->out[i].name = merge->out[i].name;
		op_set_in(merge, i, &over->out[i]);
	}
}

void
split_drop_merges(Func *f)
{
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (op->kind != OP_MERGE)
			continue;
		next = op->next ? op->next : op->home->parent ? op_after(op->home->last, f->body) : NULL;
		for (int i = 0; i < op->nout; i++)
			value_replace(&op->out[i], op->in[i]);
		op_erase(op);
	}
}

static void
cut_all(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		Op *loop = op->kind == OP_MERGE ? split_merged(op) : NULL;
		if (loop)
			cut(f, loop, op);
	}
	f->schedule.split = 0;
}

void
pass_split_k(Func *f, const Target *t)
{
	bool is_asked = !f->is_reference && f->schedule.split > 1;
	Found found;
	if (is_asked && t && !split_is_stream(f, t)) {
		f->split_reason = split_find(f, t, &found);
		if (f->split_reason)
			f->schedule.split = 0;
		else
			divide(f, t, &found);
	} else if (is_asked && !t) {
		cut_all(f);
	}
	if (!t)
		split_drop_merges(f);
	func_number(f);
}
