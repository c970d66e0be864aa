/* Which loop of a kernel several blocks can share.
 *
 *     %s = for … do (%k: i64, %acc: f32[16, 64]) { … %d = dot %a, %b, %acc … yield %d }             a sum
 *     %m = for … do (%k: i64, %top: f32[16]) { … %n = max %v, %top … yield %n }                     the greatest
 *     %t = for … do (…) { … }    %u = merge %t by (…) { … }                                         what the source says
 *
 * A loop of sums, of greatest or least elements is one of the body, not within another op, which takes something into every
 * tile that it carries, once an iteration, and uses none of them otherwise.  Of any other loop the op merge says how its
 * states join.  Of several the last is taken: what follows it is work of one block. */
#include "pass/share/split_k.h"

/* Is v the carried value `arg` and what this iteration adds, or the greater or lesser of it and another? */
static bool
folds_into(const Value *v, const Value *arg, OpKind fold)
{
	const Op *op = v->def;

	if (v == arg)
		return arg->nuses == 1;
	if (!op || op->home != arg->block || v->nuses != 1)
		return false;
	if (op->kind == fold)
		return folds_into(op->in[0], arg, fold) || folds_into(op->in[1], arg, fold);
	return fold == OP_ADD && ((op->kind == OP_DOT && folds_into(op->in[2], arg, fold)) ||
	    (op->kind == OP_SUB && folds_into(op->in[0], arg, fold)));
}

OpKind
split_fold(const Op *loop, int i)
{
	const Block *body = loop->region[0];
	const Type *t = loop->out[i].type;
	const Op *def = body->last->in[i]->def;
	OpKind fold = def && (def->kind == OP_MAX || def->kind == OP_MIN) ? def->kind : OP_ADD;

	if (t->kind != TYPE_TILE || t->ptr != PTR_NONE || t->elem == TY_BOOL || dtype_is_packed(t->elem) ||
	    (fold != OP_ADD && attr_propagate_nan(def)))
		return OP_COUNT;
	return folds_into(body->last->in[i], &body->arg[1 + i], fold) ? fold : OP_COUNT;
}

Op *
split_merged(const Op *merge)
{
	Op *loop = NULL;

	for (int i = 0; i < merge->nin; i++) {
		Op *def = merge->in[i]->def;
		if (!def || def->kind != OP_FOR || def->home != merge->home || (loop && def != loop))
			continue;
		loop = def;
	}
	for (int i = 0; loop && i < loop->nout; i++) {
		bool is_joined = ANY_OF(k, merge->nin, merge->in[k] == &loop->out[i]);
		if (!is_joined)
			return NULL;
	}
	return loop && loop->nout > 0 && loop_steps_up(loop) ? loop : NULL;
}

Op *
split_merge_of(const Op *loop)
{
	return FIND_NEXT(op, loop->next, op->next, op->kind == OP_MERGE && split_merged(op) == loop);
}

bool
split_in_branch(const Block *body)
{
	return !ANY_OP_HERE(op, body, op->kind == OP_FOR) && ANY_OP_HERE(op, body, op->kind == OP_IF &&
	    ANY_OF(i, op->nregion, block_find(op->region[i], OP_FOR)));
}

static Found
find_loop(const Func *f)
{
	Found found = {NULL};

	for (Op *op = f->body->first; op; op = op->next) {
		Op *loop = op->kind == OP_MERGE ? split_merged(op) : NULL;
		if (loop)
			found = (Found){.loop = loop, .merge = op};
		else if (op->kind == OP_FOR && op->nout > 0 && loop_steps_up(op) &&
		    ALL_OF(i, op->nout, split_fold(op, i) != OP_COUNT))
			found = (Found){.loop = op};
		else if (op->kind == OP_FOR && !split_merge_of(op) && split_derives(f, op))
			found = (Found){.loop = op, .derives = true};
	}
	return found;
}

/* Are blocks to walk over programs, for themselves or in roles? */
static bool
walks(const Func *f, const Target *t)
{
	return f->schedule.persistent || (f->schedule.specialize && t->has & HAS_TMA);
}

/* Of products in a loop within the one that is shared states are small, and blocks take long: clusters of eight, which
 * do not all run at once, took greedy decoding over a vocabulary 823 us on an H200, blocks that join through memory 424. */
bool
split_joins(const Func *f)
{
	Found found = find_loop(f);
	const Block *body = found.merge ? found.loop->region[0] : NULL;
	return found.derives || (body && ANY_OP_HERE(op, body, op_is_loop(op) && block_find(op->region[0], OP_DOT)));
}

bool
split_in_cluster(const Func *f, const Target *t)
{
	bool may = (t->has & HAS_CLUSTER) && f->schedule.split <= SPLIT_CLUSTER && f->schedule.ctas != 1 && !walks(f, t);
	return may && (!(t->has & HAS_ATOMIC_ORDER) || !split_joins(f));
}

bool
split_is_stream(const Func *f, const Target *t)
{
	Found found = find_loop(f);
	const Op *loop = found.loop;
	bool sums = !loop || ALL_OF(i, loop->nout, split_fold(loop, i) == OP_ADD);
	return walks(f, t) && !found.merge && !found.derives && sums;
}

const char *
split_find(const Func *f, const Target *t, Found *out)
{

	*out = (Found){NULL};
	if (!split_in_cluster(f, t) && !(t->has & HAS_ATOMIC_ORDER))
		return arena_printf(f->module->cx->mem,
		    "%s has neither clusters of blocks nor an order of memory between blocks", t->name);
	*out = find_loop(f);
	if (!out->loop && split_in_branch(f->body))
		return SPLIT_IN_BRANCH;
	if (!out->loop)
		return "the kernel has no loop that only adds into what it carries, or takes the greatest or least of it, "
		    "none whose updates say how its states join, and none with 'merge'";
	const Op *end = out->merge ? out->merge : out->loop;
	if (!end->next)
		return "nothing is done with what the loop comes to";
	for (const Op *op = f->body->first; op != end->next; op = op_after(op, f->body))
		if (op_has(op, WRITES | EFFECT) && op->kind != OP_YIELD)
			return "something is written or reported before the loop ends";
	return NULL;
}

const Op *
split_divided(const Func *f, const Target *t, bool *merges, const Op **end)
{
	Found found;
	const char *why = split_find(f, t, &found);

	*merges = !why && found.merge;
	*end = found.merge ? found.merge : found.loop;
	return why ? NULL : found.loop;
}
