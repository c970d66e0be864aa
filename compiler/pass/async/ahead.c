/* Small tiles that a pipelined loop reads in each iteration, such as the scales of a group of weights, are read an
 * iteration ahead, into registers: else each iteration waits for memory once more, behind its products.
 *
 *     for … do (%k: i64, %c: …) {                       %first = if %lo < %hi { read %scale, %n, %lo } else { zeros }
 *         wait …; %w = get …; %d = dot …                for … do (%k: i64, %c: …, %s: f16[64] #8) {
 *         %s = read %scale, %n, %k : f16[64] #8   =>        wait …
 *         … %s …                                            %next = if %k + %step < %hi { read … } else { zeros }
 *         yield %e                                          %w = get …; %d = dot …
 *     }                                                     … %s …
 *                                                           yield %e, %next
 *                                                       }
 *
 * Only what follows from the counter and from before the loop can be read for another iteration, of tensors that the
 * kernel only reads. */
#include "pass/async/pipeline.h"

#include <string.h>

enum { BYTES_MOST = 32, DEPTH = 8 };                    /* of a thread, all of them together */

/* Does v, as it is in another iteration, follow from the counter alone?  *moves: it differs at all. */
static bool
follows(const Pipeline *p, const Value *v, int depth, bool *moves)
{
	if (!value_inside(v, p->body))
		return true;
	if (v == &p->body->arg[0])
		return *moves = true;
	const Op *op = v->def;
	if (!op || op->home != p->body || op->nregion || !op_has(op, PURE) || depth == 0)
		return false;
	for (int i = 0; i < op->nin; i++)
		if (!follows(p, op->in[i], depth - 1, moves))
			return false;
	return true;
}

static bool
may_be_ahead(const Pipeline *p, const Op *op)
{
	bool moves = false;
	if (op->kind != OP_READ || !access_is_tensor(op) || !op->out[0].layout || strchr(attr_index(op), 'g') ||
	    op->nin != 1 + op->in[0]->type->rank || p->f->param[op->in[0]->index].access != ACCESS_IN)
		return false;
	for (int i = 1; i < op->nin; i++)
		if (!follows(p, op->in[i], DEPTH, &moves))
			return false;
	return moves;
}

static int64_t
thread_bytes(const Op *read)
{
	return (int64_t)dtype_tile_size(read->out[0].type->elem) << read->out[0].layout->in[IN_REGISTER];
}

void
pipeline_read_ahead(Pipeline *of)
{
	Pipeline p = *of;
	int64_t bytes = 0;
	p.ahead = NULL;
	p.reads.at = NULL;
	p.reads.n = p.reads.cap = 0;
	for (Op *op = p.body->first; op; op = op->next) {
		if (!may_be_ahead(&p, op) || bytes + thread_bytes(op) > BYTES_MOST)
			continue;
		Staged s = {.read = op};
		vec_push(p.tmp, &p.reads, s);
		bytes += thread_bytes(op);
	}
	if (p.reads.n)
		pipeline_in_registers(&p);
	of->loop = p.loop;
	of->body = p.body;
}
