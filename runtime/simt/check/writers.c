/* Who wrote each byte of shared memory last: for a print of --trace that asks for one (",shared=BYTE").  The records of the
 * race detector do not serve, as those go that nothing can race with any more. */
#include "runtime/simt/check/check.h"

#include <inttypes.h>
#include <string.h>

typedef struct Writer {
	int32_t site, agent;                            /* agent: plus 1; 0: nothing was written */
	unsigned access;
} Writer;

static bool
are_asked_for(const SimtLaunch *l)
{
	return FIND_NEXT(op, l->func ? l->func->body->first : NULL, op_after(op, l->func->body),
	    op->kind == OP_PRINT && attr_writer(op) >= 0) != NULL;
}

void
writers_open(Check *c)
{
	if (are_asked_for(c->launch->launch))
		c->writer = memory_new((size_t)c->step * (size_t)c->blocks, sizeof *c->writer);
}

void
writers_begin(Check *c)
{
	if (c->writer)
		memset(c->writer, 0, (size_t)c->step * (size_t)c->blocks * sizeof *c->writer);
}

void
writers_touch(Check *c, const SimtThread *t, uint32_t cell, int bytes, unsigned access)
{
	for (int i = 0; i < bytes; i++)
		c->writer[cell + (uint32_t)i] = (Writer){t->site, agent_of(c, t) + 1, access};
}

/* "program 0, warp 1, lane 4 wrote it here: scale.tgl:7:10" */
static void
put_writer(const Check *c, const Writer *w, char *out, size_t size)
{
	const SimtLaunch *l = c->launch->launch;
	CheckAccess a = access_by(c, w->agent - 1, w->site, w->access);
	Place at = simt_site_place(l, w->site);
	const Compile *cx = l->func->module->cx;
	describe_access(l, &a, true, out, size);
	size_t said = strlen(out);
	if (at.file >= 0 && at.file < cx->files.n)
		snprintf(out + said, size - said, ": %s:%d:%d", cx->files.at[at.file].path, at.line, at.col);
}

void
simt_writer(const SimtThread *t, int64_t byte, char *out, size_t size)
{
	const Check *c = simt_launch(t)->checks ? *simt_check_slot(t->block) : NULL;
	int n = snprintf(out, size, "byte %" PRId64 " of shared memory", byte);
	if (!c || byte >= c->shared_bytes) {
		snprintf(out + n, size - (size_t)n, c ? ": a block has %" PRIu32 : " is known with checks alone",
		    c ? c->shared_bytes : 0);
		return;
	}
	const Writer *w = &c->writer[(uint32_t)t->cluster_rank * c->step + (uint32_t)byte];
	char words[WORDS] = "", who[400] = "nothing was written there yet";
	Place at = simt_site_place(c->launch->launch, w->site);
	describe_shared(c->launch->launch, (uint32_t)byte, at, at, words, sizeof words);
	if (w->agent)
		put_writer(c, w, who, sizeof who);
	snprintf(out + n, size - (size_t)n, ", %s: %s", words, who);
}
