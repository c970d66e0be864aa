/* What the checks found: each pair of places once, as the least block found it, so that the report does not depend on how
 * many OS threads ran the blocks; and what helps where that is known. */
#include "runtime/simt/check/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- keeping ---- */

bool
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

/* The one like x, or a new one; NULL: there is no room, or a smaller block has reported it. */
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

CheckAccess
access_by(const Check *c, int agent, int site, unsigned access)
{
	int64_t first = simt_thread_of(c->block, 0)->block_index;
	if (agent < 0)
		return (CheckAccess){first, -1, site, access};
	return (CheckAccess){first + agent / c->per_block, agent % c->per_block, site, access};
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
	x->place = simt_site_place(l, x->site);
	x->other = simt_site_place(l, x->other_site);
	if (!l->findings) {
		char text[sizeof x->part + WORDS];
		snprintf(text, sizeof text, diag_text(x->code), x->part[0], x->part[1], x->part[2]);
		if (!c->is_ended)
			simt_fail_at(thread_in(c, x->block, thread), x->other_site, "%s", text);
		return;
	}
	pthread_mutex_lock(&c->launch->lock);
	SimtFinding *kept = find(l->findings, x);
	if (kept) {
		x->times = kept->times + (kept->times == 0);
		*kept = *x;
	}
	pthread_mutex_unlock(&c->launch->lock);
}

/* ---- the findings ---- */

static void
help_against_race(const CheckAccess *now, const CheckAccess *before, bool by_proxy, char *out, size_t size)
{
	bool copy = (before->access & SIMT_ASYNC) || (now->access & SIMT_ASYNC);
	if (by_proxy && !(before->access & SIMT_WRITE))
		snprintf(out, size, "neither a barrier nor an arrival waits for loads: bulk copies follow them behind a "
		    "proxy fence (fence_async) alone");
	else if (by_proxy)
		snprintf(out, size, "what threads write reaches bulk copies and warpgroups' matrix instructions only "
		    "behind a proxy fence (fence_async) and a barrier");
	else if (copy)
		snprintf(out, size, "it may still be in flight: wait for it, then put a barrier between the two");
	else if (now->block != before->block)
		snprintf(out, size, "two blocks of a cluster: its barrier, or an arrival at an mbarrier and a wait for it, "
		    "orders them; a block's barrier does not");
	else if (now->thread >= 0 && before->thread >= 0 && now->thread / SIMT_LANES == before->thread / SIMT_LANES)
		snprintf(out, size, "lanes of one warp: a warp's barrier between the two orders them; a shuffle does not");
	else
		snprintf(out, size, "a barrier between the two orders them");
}

/* Without the memory and the help. */
static SimtFinding
race_of(const SimtLaunch *l, DiagCode code, const CheckAccess *now, const CheckAccess *before)
{
	SimtFinding x = {.code = code, .site = now->site, .other_site = before->site, .block = now->block};
	snprintf(x.part[1], WORDS, "%s", access_noun(now->access));
	snprintf(x.part[2], WORDS, "%s", access_noun(before->access));
	describe_access(l, now, false, x.label, sizeof x.label);
	describe_access(l, before, true, x.note, sizeof x.note);
	return x;
}

void
report_shared_race(Check *c, const CheckAccess *now, const CheckAccess *before, uint32_t offset, bool by_proxy)
{
	const SimtLaunch *l = c->launch->launch;
	SimtFinding x = race_of(l, DIAG_SIMT_RACE_SHARED, now, before);
	Place here = simt_site_place(l, now->site), there = simt_site_place(l, before->site);
	describe_shared(l, offset % c->step, here, there, x.part[0], WORDS);
	size_t said = strlen(x.part[0]);
	if (c->blocks > 1)
		snprintf(x.part[0] + said, WORDS - said, " of block %u in the cluster", offset / c->step);
	help_against_race(now, before, by_proxy, x.help, sizeof x.help);
	keep(c, &x, now->thread);
}

void
report_global_race(Check *c, const CheckAccess *now, const CheckAccess *before, const SimtRange *range, uint64_t address)
{
	SimtFinding x = race_of(c->launch->launch, DIAG_SIMT_RACE_GLOBAL, now, before);
	describe_global(range, address, x.part[0], WORDS);
	if (now->access & before->access & SIMT_ATOMIC)
		snprintf(x.help, sizeof x.help, "an atomic operation of scope %s alone; scope = gpu counts for all",
		    (now->access | before->access) & SIMT_SCOPE_CTA ? "cta counts within its program"
								    : "cluster counts within its cluster");
	else if ((now->access & SIMT_TENSOR) && (before->access & SIMT_WRITE) && !(before->access & SIMT_TENSOR))
		snprintf(x.help, sizeof x.help, "no fence lets bulk copies see what threads write to tensors");
	else if (before->access & SIMT_ASYNC)
		snprintf(x.help, sizeof x.help, "it may still be in flight: its thread must wait for it first (bulk_wait)");
	else if (now->block == before->block)
		snprintf(x.help, sizeof x.help, "two threads of one program: the code made for it lacks a barrier");
	else
		snprintf(x.help, sizeof x.help, "programs run in any order: let each write elements of its own, or use "
		    "atomic operations (order = acq_rel also orders what stands around them)");
	keep(c, &x, now->thread);
}

static void
access_of(Check *c, const SimtThread *t, unsigned access, SimtFinding *x)
{
	CheckAccess p = {t->block_index, t->thread, t->site, access};
	x->site = t->site;
	x->block = t->block_index;
	describe_access(c->launch->launch, &p, false, x->label, sizeof x->label);
}

void
report_shared_undefined(Check *c, SimtThread *t, uint32_t offset)
{
	const SimtLaunch *l = c->launch->launch;
	SimtFinding x = {.code = DIAG_SIMT_UNDEFINED};
	char where[WORDS - 20];
	access_of(c, t, SIMT_READ, &x);
	describe_shared(l, offset, simt_site_place(l, t->site), NOWHERE, where, sizeof where);
	snprintf(x.part[0], WORDS, "shared memory at %s", where);
	keep(c, &x, t->thread);
}

void
report_global_undefined(Check *c, SimtThread *t, const SimtRange *range, uint64_t address)
{
	SimtFinding x = {.code = DIAG_SIMT_UNDEFINED};
	access_of(c, t, SIMT_READ, &x);
	describe_global(range, address, x.part[0], WORDS);
	keep(c, &x, t->thread);
}

void
report_shared_bounds(Check *c, SimtThread *t, uint32_t offset, int bytes, unsigned access)
{
	SimtFinding x = {.code = DIAG_SIMT_BOUNDS};
	access_of(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s", access_noun(access));
	snprintf(x.part[1], WORDS, "%d byte%s at %u", bytes, bytes == 1 ? "" : "s", offset);
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
	access_of(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s", access_noun(access));
	snprintf(x.part[1], WORDS, "%d byte%s", bytes, bytes == 1 ? "" : "s");
	if (!r || !r->name) {
		snprintf(x.part[2], WORDS, "all tensors");
	} else if (r->rank && address >= r->low && address < r->high) {
		describe_index(r->dim, r->rank, index, sizeof index);
		snprintf(x.part[2], WORDS, "'%s': its memory holds more, and this is no element of its %s%s", r->name,
		    dtype_info[r->dtype].text, index);
	} else if (r->rank) {
		for (int d = 0; d < r->rank; d++)
			count *= r->dim[d];
		describe_index(r->dim, r->rank, index, sizeof index);
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
	access_of(c, t, access, &x);
	snprintf(x.part[0], WORDS, "%s in %s memory", access_noun(access), is_shared ? "shared" : "global");
	snprintf(x.part[1], WORDS, is_shared ? "%" PRIu64 : "0x%" PRIx64, at);
	snprintf(x.part[2], WORDS, "%d", align);
	keep(c, &x, t->thread);
}

/* ---- reporting ---- */

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
simt_findings_report(const SimtFindings *f, Compile *cx)
{
	SimtFinding *all = NEW_COPY(cx->tmp, f->at, f->n);
	if (f->n)
		qsort(all, (size_t)f->n, sizeof *all, by_place);
	for (int i = 0; i < f->n; i++) {
		const SimtFinding *x = &all[i];
		diag_error(cx, x->place, x->code, x->part[0], x->part[1], x->part[2]);
		diag_label(cx, "%s", x->label);
		diag_calls(cx, x->place);
		if (*x->note) {
			diag_note(cx, x->other, "%s", x->note);
			diag_calls(cx, x->other);
		}
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
