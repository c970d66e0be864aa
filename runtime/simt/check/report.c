/* What the checks found, in the words of the source: the two places, who was there and what they did, which element of
 * which tensor or tile, and the mend where one is known.
 *
 * A pair of places is told once, as the least block found it, so that the report does not hang on how many OS threads
 * ran the blocks.  Programs are counted as lowering deals them out (lower.c's find_program). */
#include "runtime/simt/check/check.h"

#include "model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 160 };

static Place
place_of(const SimtLaunch *l, int site)
{
	return site > 0 && site < l->nsite ? l->site[site] : NOWHERE;
}

/* ---- who ---- */

static void
find_program(const SimtLaunch *l, int64_t at, int64_t place[MAX_AXES])
{
	int n = l->func->naxis;
	int64_t group = l->func->schedule.group;
	const int64_t *grid = l->grid;
	if (group > 1 && n >= 2) {
		int64_t rows = MIN(group, grid[0]), plane = grid[0] * grid[1], inside = at % plane, whole = rows * grid[1];
		int64_t first = inside / whole * rows, height = MIN(grid[0] - first, rows), rest = inside % whole;
		place[0] = first + rest % height;
		place[1] = rest / height;
		place[2] = at / plane;
		return;
	}
	for (int d = 0; d < n; d++) {
		place[d] = d + 1 < n ? at % grid[d] : at;
		at /= MAX(grid[d], 1);
	}
}

/* "program (1, 0)" */
static void
program_words(const SimtLaunch *l, int64_t block, char *out, size_t size)
{
	int64_t at[MAX_AXES] = {0};
	if (!l->func || l->func->schedule.persistent || l->func->naxis == 0 || l->grid[0] <= 0) {
		snprintf(out, size, "block %" PRId64, block);
		return;
	}
	find_program(l, block, at);
	if (l->func->naxis == 1)
		snprintf(out, size, "program %" PRId64, at[0]);
	else if (l->func->naxis == 2)
		snprintf(out, size, "program (%" PRId64 ", %" PRId64 ")", at[0], at[1]);
	else
		snprintf(out, size, "program (%" PRId64 ", %" PRId64 ", %" PRId64 ")", at[0], at[1], at[2]);
}

static const char *
verb(unsigned access, bool past)
{
	if (access & SIMT_ATOMIC)
		return past ? "updated it atomically" : "updates it atomically";
	if ((access & SIMT_ASYNC) && (access & SIMT_WRITE))
		return past ? "had it copied" : "has it copied";
	if (access & SIMT_WRITE)
		return past ? "wrote it" : "writes it";
	if (access & SIMT_TENSOR)
		return past ? "had it read" : "has it read";
	return past ? "read it" : "reads it";
}

static const char *
noun(unsigned access)
{
	if (access & SIMT_ATOMIC)
		return "an atomic operation";
	if ((access & SIMT_ASYNC) && (access & SIMT_WRITE))
		return access & SIMT_TENSOR ? "a bulk copy" : "an asynchronous copy";
	if (access & SIMT_WRITE)
		return "a write";
	if (access & SIMT_ASYNC)
		return "a matrix instruction's or copy's read";
	return "a read";
}

/* "program (0, 1), warp 2, lane 5 writes it here" */
static void
party_words(const SimtLaunch *l, const CheckParty *p, bool past, char *out, size_t size)
{
	char program[64];
	program_words(l, p->block, program, sizeof program);
	if (p->thread < 0)
		snprintf(out, size, "%s: a copy %s here", program, past ? "wrote it" : "writes it");
	else
		snprintf(out, size, "%s, warp %d, lane %d %s here", program, p->thread / SIMT_LANES, p->thread % SIMT_LANES,
		    verb(p->access, past));
}

/* ---- what ---- */

static int
index_words(const int64_t *at, int rank, char *out, size_t size)
{
	int n = snprintf(out, size, "[");
	for (int d = 0; d < rank; d++)
		n += snprintf(out + n, (size_t)MAX((int)size - n, 0), "%s%" PRId64, d ? ", " : "", at[d]);
	return n + snprintf(out + n, (size_t)MAX((int)size - n, 0), "]");
}

static int64_t
smem_bytes(const Op *op, const Target *t)
{
	const Type *b = op->kind == OP_ALLOC ? op->out[0].type : NULL;
	if (!op_attr(op, ATTR_SMEM))
		return 0;
	if (!b)
		return op->kind == OP_MBARRIER ? 8 * op->out[0].type->slots : plan_op(op, t).scratch;
	return b->slots * (b->elem == TY_BOOL ? type_count(b) : dtype_bytes(b->elem, type_count(b)));
}

static bool
is_at(const Op *op, Place p)
{
	return op->place.file == p.file && op->place.line == p.line && op->place.col == p.col;
}

/* Whose shared memory it is: an op at one of the two places, before one that merely has room there. */
static const Op *
owner(const SimtLaunch *l, uint32_t offset, Place a, Place b)
{
	const Op *found = NULL;
	for (const Op *op = l->func ? l->func->body->first : NULL; op; op = op_after(op, l->func->body)) {
		int64_t from = attr_smem(op), n = smem_bytes(op, l->target);
		if (n == 0 || offset < from || offset >= from + n)
			continue;
		if (is_at(op, a) || is_at(op, b))
			return op;
		if (!found || op->kind == OP_ALLOC)
			found = op;
	}
	return found;
}

/* What the copies into a buffer are of, or the tile that is put there. */
static const char *
buffer_name(const Value *buffer)
{
	const Func *f = buffer->block->func;
	if (buffer->name)
		return buffer->name;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Value *slot = op->kind == OP_COPY ? op->in[1 + op->in[0]->type->rank]
		    : op->kind == OP_PUT ? op->in[0] : NULL;
		if (slot && slot->def && slot->def->kind == OP_SLOT)
			slot = slot->def->in[0];
		if (slot != buffer)
			continue;
		const Value *v = op->kind == OP_COPY ? op->in[0] : op->in[1];
		return !v->def && !v->block->parent ? f->param[v->index].name : v->name;
	}
	return NULL;
}

static const char *
op_name(const Op *op)
{
	if (op->nout && op->out[0].name)
		return op->out[0].name;
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->name)
			return op->in[i]->name;
	return NULL;
}

static void
buffer_words(const Op *op, int64_t byte, char *out, size_t room)
{
	const Value *v = &op->out[0];
	const Type *t = v->type;
	const char *name = buffer_name(v);
	int64_t count = MAX(type_count(t), 1), size = t->elem == TY_BOOL ? 1 : dtype_bytes(t->elem, 1);
	int64_t i = byte / MAX(size, 1), at[KERNEL_RANK];
	uint64_t place = (uint64_t)(i % count);
	char element[64];
	if (v->layout)
		place = f2_apply(&v->layout->map, place);
	for (int d = t->rank - 1; d >= 0; d--) {
		at[d] = (int64_t)place % t->extent[d];
		place /= (uint64_t)t->extent[d];
	}
	index_words(at, t->rank, element, sizeof element);
	const char *format = name ? "the tile of '%s', element %s" : "a tile%s, element %s";
	int n = snprintf(out, room, format, name ? name : "", element);
	if (t->slots > 1 && n < (int)room)
		snprintf(out + n, room - (size_t)n, " of slot %" PRId64, i / count);
}

static void
shared_words(const SimtLaunch *l, uint32_t offset, Place a, Place b, char *out, size_t size)
{
	const Op *op = owner(l, offset, a, b);
	if (!op) {
		snprintf(out, size, "byte %u", offset);
		return;
	}
	int64_t byte = offset - attr_smem(op);
	if (op->kind == OP_ALLOC) {
		buffer_words(op, byte, out, size);
		return;
	}
	if (op->kind == OP_MBARRIER) {
		snprintf(out, size, "mbarrier %" PRId64, byte / 8);
		return;
	}
	const char *name = op_name(op);
	const char *format = name ? "byte %" PRId64 " of what %s of '%s' keeps there"
				  : "byte %" PRId64 " of what %s%s keeps there";
	snprintf(out, size, format, byte, op_info[op->kind].text, name ? name : "");
}

/* The element at an address, which may be anything: before the first they count down from -1. */
static int64_t
element_of(const SimtRange *r, uint64_t address)
{
	int64_t byte = (int64_t)(address - r->first), width = dtype_info[r->dtype].bits / 8;
	if (width == 0) /* two in a byte; so far off that doubling overflows, any number will do */
		return byte > INT64_MAX / 2 ? INT64_MAX : byte < INT64_MIN / 2 ? INT64_MIN : 2 * byte;
	return byte / width - (byte % width < 0);
}

static void
global_words(const SimtRange *r, uint64_t address, char *out, size_t size)
{
	int64_t at[KERNEL_RANK] = {0}, element = element_of(r, address);
	char index[64];
	if (r->rank && range_index(r, element, at)) {
		index_words(at, r->rank, index, sizeof index);
		snprintf(out, size, "'%s', element %s", r->name ? r->name : "memory", index);
	} else {
		snprintf(out, size, "'%s', element %" PRId64, r->name ? r->name : "memory", element);
	}
}

/* ---- keeping ---- */

static bool
same_place(Place a, Place b)
{
	return a.file == b.file && a.line == b.line && a.col == b.col;
}

/* One thing has several sites where its code was copied. */
static bool
same_finding(const SimtFinding *a, const SimtFinding *b)
{
	bool race = a->code == DIAG_SIMT_RACE_SHARED || a->code == DIAG_SIMT_RACE_GLOBAL;
	if (a->code != b->code || (race && (strcmp(a->part[1], b->part[1]) != 0 || strcmp(a->part[2], b->part[2]) != 0)))
		return false;
	if (a->site == b->site && a->other_site == b->other_site)
		return true;
	return a->place.file >= 0 && same_place(a->place, b->place) && same_place(a->other, b->other);
}

/* The one like x, or a new one; NULL: there is no room, or a smaller block has told of it. */
static SimtFinding *
find(SimtFindings *f, const SimtFinding *x)
{
	for (int i = 0; i < f->n; i++) {
		if (!same_finding(&f->at[i], x))
			continue;
		f->at[i].times++;
		return x->block < f->at[i].block ? &f->at[i] : NULL;
	}
	if (f->n == SIMT_FINDINGS) {
		f->others++;
		return NULL;
	}
	return &f->at[f->n++];
}

CheckParty
party_of(const Check *c, int agent, int site, unsigned access)
{
	int64_t first = simt_thread_of(c->block, 0)->block_index;
	if (agent < 0)
		return (CheckParty){first, -1, site, access};
	return (CheckParty){first + agent / c->per_block, agent % c->per_block, site, access};
}

static SimtThread *
thread_in(const Check *c, int64_t block, int thread)
{
	SimtThread *first = simt_thread_of(c->block, 0);
	return simt_thread_of(simt_cluster_peer(first, (int)(block - first->block_index))->block, thread);
}

static void
keep(Check *c, SimtFinding *x, int thread)
{
	const SimtLaunch *l = c->launch->launch;
	x->place = place_of(l, x->site);
	x->other = place_of(l, x->other_site);
	if (!l->findings) {
		char text[sizeof x->part + WORDS];
		snprintf(text, sizeof text, diag_text(x->code), x->part[0], x->part[1], x->part[2]);
		if (!c->is_ended)
			simt_fail_at(thread_in(c, x->block, thread), x->other_site, "%s", text);
		return;
	}
	pthread_mutex_lock(&c->launch->lock);
	SimtFinding *place = find(l->findings, x);
	if (place) {
		x->times = place->times + (place->times == 0);
		*place = *x;
	}
	pthread_mutex_unlock(&c->launch->lock);
}

/* ---- the findings ---- */

static void
mend_race(const CheckParty *now, const CheckParty *before, bool by_proxy, char *out, size_t size)
{
	bool copy = (before->access & SIMT_ASYNC) || (now->access & SIMT_ASYNC);
	if (by_proxy)
		snprintf(out, size, "what threads write reaches bulk copies and warpgroups' matrix instructions only "
		    "behind a proxy fence (fence_async) and a barrier");
	else if (copy)
		snprintf(out, size, "it may be under way still: wait for it, then let the threads meet at a barrier");
	else if (now->block != before->block)
		snprintf(out, size, "two blocks of a cluster: its barrier, or an arrival at an mbarrier and a wait for it, "
		    "orders them; a block's barrier does not");
	else if (now->thread >= 0 && before->thread >= 0 && now->thread / SIMT_LANES == before->thread / SIMT_LANES)
		snprintf(out, size, "lanes of one warp: a warp's barrier between the two orders them; a shuffle does not");
	else
		snprintf(out, size, "a barrier between the two orders them");
}

void
report_shared_race(Check *c, const CheckParty *now, const CheckParty *before, uint32_t offset, bool by_proxy)
{
	const SimtLaunch *l = c->launch->launch;
	SimtFinding x = {.code = DIAG_SIMT_RACE_SHARED, .site = now->site, .other_site = before->site, .block = now->block};
	shared_words(l, offset % c->step, place_of(l, now->site), place_of(l, before->site), x.part[0], WORDS);
	size_t said = strlen(x.part[0]);
	if (c->blocks > 1)
		snprintf(x.part[0] + said, WORDS - said, " of block %u in the cluster", offset / c->step);
	snprintf(x.part[1], WORDS, "%s", noun(now->access));
	snprintf(x.part[2], WORDS, "%s", noun(before->access));
	party_words(l, now, false, x.label, sizeof x.label);
	party_words(l, before, true, x.note, sizeof x.note);
	mend_race(now, before, by_proxy, x.help, sizeof x.help);
	keep(c, &x, now->thread);
}

void
report_global_race(Check *c, const CheckParty *now, const CheckParty *before, const SimtRange *range, uint64_t address)
{
	const SimtLaunch *l = c->launch->launch;
	SimtFinding x = {.code = DIAG_SIMT_RACE_GLOBAL, .site = now->site, .other_site = before->site, .block = now->block};
	global_words(range, address, x.part[0], WORDS);
	snprintf(x.part[1], WORDS, "%s", noun(now->access));
	snprintf(x.part[2], WORDS, "%s", noun(before->access));
	party_words(l, now, false, x.label, sizeof x.label);
	party_words(l, before, true, x.note, sizeof x.note);
	if (now->access & before->access & SIMT_ATOMIC)
		snprintf(x.help, sizeof x.help, "an atomic operation of scope %s alone; scope = gpu counts for all",
		    (now->access | before->access) & SIMT_SCOPE_CTA ? "cta counts within its program"
								    : "cluster counts within its cluster");
	else if (before->access & SIMT_ASYNC)
		snprintf(x.help, sizeof x.help, "it may be under way still: its thread must wait for it first (bulk_wait)");
	else if (now->block == before->block)
		snprintf(x.help, sizeof x.help, "two threads of one program: the code made for it lacks a barrier");
	else
		snprintf(x.help, sizeof x.help, "programs run in any order: let each write elements of its own, or use "
		    "atomic operations (order = acq_rel also orders what stands around them)");
	keep(c, &x, now->thread);
}

static void
told_by(Check *c, const SimtThread *t, unsigned access, SimtFinding *x)
{
	CheckParty p = {t->block_index, t->thread, t->site, access};
	x->site = t->site;
	x->block = t->block_index;
	party_words(c->launch->launch, &p, false, x->label, sizeof x->label);
}

void
report_shared_undefined(Check *c, SimtThread *t, uint32_t offset, int bytes)
{
	const SimtLaunch *l = c->launch->launch;
	SimtFinding x = {.code = DIAG_SIMT_UNDEFINED};
	char where[WORDS - 20];
	told_by(c, t, SIMT_READ, &x);
	shared_words(l, offset, place_of(l, t->site), NOWHERE, where, sizeof where);
	snprintf(x.part[0], WORDS, "shared memory at %s", where);
	keep(c, &x, t->thread);
}

void
report_global_undefined(Check *c, SimtThread *t, const SimtRange *range, uint64_t address)
{
	SimtFinding x = {.code = DIAG_SIMT_UNDEFINED};
	told_by(c, t, SIMT_READ, &x);
	global_words(range, address, x.part[0], WORDS);
	keep(c, &x, t->thread);
}

void
report_shared_bounds(Check *c, SimtThread *t, uint32_t offset, int bytes, unsigned access)
{
	SimtFinding x = {.code = DIAG_SIMT_BOUNDS};
	told_by(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s", noun(access));
	snprintf(x.part[1], WORDS, "%d bytes at %u", bytes, offset);
	snprintf(x.part[2], WORDS, "the block's shared memory, which has %u", c->shared_bytes);
	keep(c, &x, t->thread);
}

/* Of the ranges before and behind an address, the nearer. */
static const SimtRange *
nearer(const CheckLaunch *l, const SimtRange *before, uint64_t address)
{
	const SimtRange *best = NULL;
	uint64_t gap = UINT64_MAX;
	for (int i = 0; i < l->launch->nrange; i++) {
		const SimtRange *r = &l->launch->range[i];
		uint64_t d = address < r->low ? r->low - address : address >= r->high ? address - r->high : 0;
		if (r->name && d < gap) {
			gap = d;
			best = r;
		}
	}
	return best ? best : before;
}

void
report_global_bounds(Check *c, SimtThread *t, const SimtRange *before, uint64_t address, int bytes, unsigned access)
{
	const SimtRange *r = nearer(c->launch, before, address);
	SimtFinding x = {.code = DIAG_SIMT_BOUNDS};
	char index[96];
	int64_t count = 1;
	told_by(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s", noun(access));
	snprintf(x.part[1], WORDS, "%d bytes", bytes);
	if (!r || !r->name) {
		snprintf(x.part[2], WORDS, "all tensors");
	} else if (r->rank && address >= r->low && address < r->high) {
		index_words(r->dim, r->rank, index, sizeof index);
		snprintf(x.part[2], WORDS, "'%s': its memory holds more, and this is no element of its %s%s", r->name,
		    dtype_info[r->dtype].text, index);
	} else if (r->rank) {
		for (int d = 0; d < r->rank; d++)
			count *= r->dim[d];
		index_words(r->dim, r->rank, index, sizeof index);
		snprintf(x.part[2], WORDS, "'%s': it would be element %" PRId64 " of %" PRId64 ", of %s%s", r->name,
		    element_of(r, address), count, dtype_info[r->dtype].text, index);
	} else {
		snprintf(x.part[2], WORDS, "'%s': it would be element %" PRId64 " of %" PRId64, r->name,
		    element_of(r, address), (int64_t)(r->high - r->first) * 8 / dtype_info[r->dtype].bits);
	}
	keep(c, &x, t->thread);
}

void
report_align(Check *c, SimtThread *t, uint64_t at, int align, unsigned access, bool is_shared)
{
	SimtFinding x = {.code = DIAG_SIMT_ALIGN};
	told_by(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s in %s memory", noun(access), is_shared ? "shared" : "global");
	snprintf(x.part[1], WORDS, is_shared ? "%" PRIu64 : "0x%" PRIx64, at);
	snprintf(x.part[2], WORDS, "%d", align);
	keep(c, &x, t->thread);
}

/* ---- telling ---- */

static int
by_place(const void *a, const void *b)
{
	const SimtFinding *x = a, *y = b;
	if (x->place.line != y->place.line)
		return x->place.line < y->place.line ? -1 : 1;
	if (x->place.col != y->place.col)
		return x->place.col < y->place.col ? -1 : 1;
	return (x->other_site > y->other_site) - (x->other_site < y->other_site);
}

bool
simt_findings_tell(const SimtFindings *f, Compile *cx)
{
	SimtFinding *all = NEW_ARRAY(cx->tmp, SimtFinding, f->n);
	memcpy(all, f->at, sizeof *all * (size_t)f->n);
	if (f->n)
		qsort(all, (size_t)f->n, sizeof *all, by_place);
	for (int i = 0; i < f->n; i++) {
		const SimtFinding *x = &all[i];
		diag_error(cx, x->place, x->code, x->part[0], x->part[1], x->part[2]);
		diag_label(cx, "%s", x->label);
		if (*x->note)
			diag_note(cx, x->other, "%s", x->note);
		if (*x->help)
			diag_help(cx, "%s", x->help);
	}
	return f->n > 0;
}

void
simt_findings_close(SimtFindings *f)
{
	free(f->cost);
	*f = (SimtFindings){.counts = f->counts};
}
