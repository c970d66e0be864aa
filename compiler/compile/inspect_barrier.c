/* Why there is a barrier, in words: the accesses that need it.
 *
 *     get of 7:16 and get of 7:43 read slots of w, x in an earlier iteration, which copy of 7:16 and copy of 7:43 write
 *     each thread waits for its own copies alone: those of all into slots of z, s must be there before get of 9:20 and
 *         get of 10:21 read them */
#include "compile/inspect.h"

#include <string.h>

const char *
inspect_deed(const Op *op, bool writes)
{
	switch (op->kind) {
	case OP_MBARRIER: return "initialises";
	case OP_AWAIT: return "waits at";
	case OP_ARRIVE: case OP_EXPECT: return "arrives at";
	case OP_WAIT: return "ends copies into";
	case OP_SENT: return "ends copies from";
	default: return writes ? "writes" : "reads";
	}
}

/* The buffer that an access is of; NULL: of no one. */
static const Op *
buffer_of(const Op *access)
{
	return VALUE_OF(i, access->nin,
	    buffer_owner(access->in[i]) && buffer_owner(access->in[i])->kind == OP_ALLOC,
	    buffer_owner(access->in[i]), NULL);
}

/* The buffer whose slots both accesses are of; NULL: of other memory, or of two. */
static const Op *
slots_of(const BarrierPair *p)
{
	const Op *a = buffer_of(p->before), *b = buffer_of(p->after);
	OpKind kind = p->before->kind;
	bool is_end = kind == OP_SENT || kind == OP_WAIT || (kind == OP_DOT_WAIT && p->after->kind == OP_COPY);
	a = a || !is_end ? a : b;
	b = b || (p->after->kind != OP_ARRIVE && p->after->kind != OP_EXPECT) ? b : a;
	return a == b ? a : NULL;
}

/* Those that are initialised or awaited; NULL: none are. */
static const Op *
mbarriers_of(const BarrierPair *p)
{
	const Op *a = p->before;
	return a->kind == OP_MBARRIER ? a : a->kind == OP_AWAIT ? buffer_owner(a->in[0]) : NULL;
}

/* False: it is not known what is there. */
static bool
put_held(const BarrierPair *p, Text *out)
{
	Text tensors = {0};
	const Op *slots = slots_of(p), *owner = slots ? slots : mbarriers_of(p);
	if (owner)
		inspect_held(p->at->home->func, owner, &tensors);
	bool found = tensors.n > 0;
	if (found)
		text_printf(out, "%s of %s", slots ? "slots" : "the mbarriers", tensors.at);
	text_close(&tensors);
	return found;
}

void
inspect_memory(const BarrierPair *p, Text *out)
{
	if (p->is_global)
		text_put(out, inspect_tensor(p->before));
	else if (p->hi <= p->lo)
		text_put(out, "shared memory");
	else if (!put_held(p, out))
		text_printf(out, "bytes %lld to %lld of shared memory", (long long)p->lo, (long long)p->hi - 1);
}

void
inspect_pair(const BarrierPair *p, Text *out)
{
	const Op *a = p->before, *b = p->after;
	text_printf(out, "%s of %d:%d %s ", op_info[a->kind].text, a->place.line, a->place.col,
	    inspect_deed(a, p->before_writes));
	inspect_memory(p, out);
	text_put(out, p->is_earlier ? " in an earlier iteration" : "");
	if (a->kind == OP_MBARRIER && (b->kind == OP_ARRIVE || b->kind == OP_EXPECT))
		text_put(out, ", at which it arrives");
	else if (b->kind == OP_ARRIVE || b->kind == OP_EXPECT)
		text_put(out, ", which all threads must have done by then");
	else if ((b == p->at && b->kind != OP_ROLES) || p->at->kind == OP_IF)
		text_printf(out, ", which it %s", inspect_deed(b, p->after_writes));
	else if (b != p->at)
		text_printf(out, ", which %s of %d:%d %s", op_info[b->kind].text, b->place.line, b->place.col,
		    inspect_deed(b, p->after_writes));
}

/* ---- those that are alike, in one ---- */

/* Is the text one of the list, which `between` parts? */
static bool
is_in(const Text *list, const char *one)
{
	const char *at = list->n ? list->at : NULL;
	size_t n = strlen(one);
	for (; at && (at = strstr(at, one)); at++)
		if ((at == list->at || at[-1] == ' ') && (at[n] == '\0' || at[n] == ',' || at[n] == ' '))
			return true;
	return false;
}

static void
add_to(Text *list, const char *between, const char *one)
{
	if (*one && !is_in(list, one))
		text_printf(list, "%s%s", list->n ? between : "", one);
}

static void
add_op(Text *list, const Op *op)
{
	Text one = {0};
	text_printf(&one, "%s of %d:%d", op_info[op->kind].text, op->place.line, op->place.col);
	add_to(list, " and ", one.at);
	text_close(&one);
}

/* "slots of a" of the first and "slots of b" of the next are "slots of a, b". */
static void
add_memory(Text *list, const BarrierPair *p)
{
	static const char *const heads[] = {"slots of ", "bytes "}, tail[] = " of shared memory";
	Text one = {0};
	size_t skip = 0;
	inspect_memory(p, &one);
	for (int i = 0; i < LEN(heads); i++) {
		size_t n = strlen(heads[i]);
		if (list->n && strncmp(one.at, heads[i], n) == 0 && strncmp(list->at, heads[i], n) == 0)
			skip = n;
	}
	char *ends = skip && !is_in(list, one.at + skip) ? strstr(list->at, tail) : NULL;
	if (ends) {
		*ends = '\0';
		list->n = (size_t)(ends - list->at);
	}
	add_to(list, skip && strncmp(one.at, "slots", 5) == 0 ? ", " : " and ", one.at + skip);
	text_close(&one);
}

/* "reads" of several is "read". */
static void
put_deed(const Op *op, bool writes, const Text *who, Text *out)
{
	const char *deed = inspect_deed(op, writes);
	int n = (int)strcspn(deed, " ");
	bool several = strstr(who->at, " and ") != NULL;
	text_printf(out, " %.*s%s ", several ? n - 1 : n, deed, deed + n);
}

static bool
are_alike(const BarrierPair *p, const BarrierPair *q)
{
	return p->at == q->at && p->before->kind == q->before->kind && p->before_writes == q->before_writes &&
	    p->after->kind == q->after->kind && p->after_writes == q->after_writes && p->is_earlier == q->is_earlier &&
	    p->is_global == q->is_global;
}

/* Copies that have landed are seen by who waited: all others need the barrier.  Before the copy of another slot it is none
 * that such a wait needs. */
static bool
shows_copies(const BarrierPair *p)
{
	return p->before->kind == OP_WAIT && !p->after_writes;
}

static void
put_alike(const BarrierPairs *all, const BarrierPair *p, Text *out)
{
	Text before = {0}, after = {0}, memory = {0};
	for (const BarrierPair *q = p; q < all->at + all->n; q++) {
		if (!are_alike(p, q))
			continue;
		add_op(&before, q->before);
		add_op(&after, q->after);
		add_memory(&memory, q);
	}
	if (shows_copies(p)) {
		text_put(out, "each thread waits for its own copies alone: those of all into ");
		text_printf(out, "%s must be there before %s read%s them", memory.at, after.at,
		    strstr(after.at, " and ") ? "" : "s");
	} else {
		text_put(out, before.at);
		put_deed(p->before, p->before_writes, &before, out);
		text_printf(out, "%s%s", memory.at, p->is_earlier ? " in an earlier iteration" : "");
		text_printf(out, ", which %s", after.at);
		put_deed(p->after, p->after_writes, &after, out);
		out->at[--out->n] = '\0';
	}
	text_close(&before);
	text_close(&after);
	text_close(&memory);
}

/* Has what it is between, in a block, a later barrier between as well? */
static bool
has_later(const BarrierPair *p)
{
	const Op *op = p->is_earlier ? NULL : p->at->next;
	bool has = false;
	for (; op && op != p->after; op = op->next)
		has |= attr_sync(op);
	return op && op != p->at && (has || attr_sync(op));
}

/* Do others say as much?  A product of warpgroups is begun, and what it reads is free when it is waited for; an op that
 * writes the same again does so because of who reads it. */
static bool
is_implied(const BarrierPairs *all, const BarrierPair *p)
{
	for (const BarrierPair *q = all->at; q < all->at + all->n; q++) {
		if (q->at != p->at || q == p)
			continue;
		if ((p->before->kind == OP_DOT_START && q->before->kind == OP_DOT_WAIT && q->after == p->after) ||
		    (p->after->kind == OP_DOT_WAIT && q->after->kind == OP_DOT_START && q->before == p->before) ||
		    (p->before == p->after && p->before_writes && p->after_writes) ||
		    (q->after == p->at && !q->is_earlier && has_later(p)))
			return true;
	}
	return false;
}

bool
inspect_conflict(const InspectLine *x, int *nth, Text *out)
{
	const BarrierPairs *all = x->pairs;
	bool shown = false;
	for (int i = 0; all && i < all->n; i++)
		shown |= all->at[i].at == x->op && shows_copies(&all->at[i]);
	for (; all && *nth < all->n; ++*nth) {
		const BarrierPair *p = &all->at[*nth];
		bool only_waits = p->before->kind == OP_WAIT && !shows_copies(p);
		bool again = is_implied(all, p) ||
			     (only_waits && (shown || x->pair->before->kind != OP_WAIT)) ||
			     ANY_OF(k, *nth, are_alike(&all->at[k], p));
		if (p->at != x->op || again)
			continue;
		if (p->after->kind == OP_ARRIVE || p->after->kind == OP_EXPECT || p->after->kind == OP_ROLES)
			inspect_pair(p, out);
		else
			put_alike(all, p, out);
		++*nth;
		return true;
	}
	return false;
}

/* ---- of a cluster ---- */

/* One stands before the loop over programs and one behind it. */
static bool
is_last_cluster_barrier(const Op *op)
{
	while ((op = op->next))
		if (op->kind == OP_CLUSTER_BARRIER)
			return false;
	return true;
}

/* Does each block sum a share of what the cluster's blocks have, or does the first get it all? */
static bool
is_summed(const Op *op)
{
	return ANY_OP_HERE(o, op->home, o->kind == OP_SPLIT_SUM && o->in[0] == op->in[0]);
}

bool
inspect_cluster(InspectLine *x, const Op *op)
{
	bool is_shared = op->kind == OP_SPLIT_MEET || op->kind == OP_SPLIT_DONE;
	if (is_shared && !attr_cluster(op))
		return false;
	bool sums = is_shared && is_summed(op);
	x->kind = INSPECT_ROLES;
	x->what = "cluster barrier";
	if (op->kind == OP_SPLIT_MEET)
		x->way = sums ? "split_put writes bytes of shared memory, which split_sum of each block reads"
		              : "split_put writes bytes of shared memory, which split_get of the first block reads";
	else if (op->kind == OP_SPLIT_DONE)
		x->way = sums ? "split_sum of each block writes its share of the sums to the first block, which its "
				"split_get reads, and no block may end while others read its shared memory"
		              : "split_get of the first block reads others' shared memory, and these may not end before";
	else
		x->way = is_last_cluster_barrier(op)
		             ? "so that no block ends while others reach its shared memory"
		             : "so that no block copies to another whose mbarriers are not initialised";
	return true;
}
