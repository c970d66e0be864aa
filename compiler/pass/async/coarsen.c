/* Thread coarsening: a persistent block reads for several programs before it computes for the first of them.
 *
 *     for %block, %total, %blocks do (%p) {              %each = div %total, 2
 *         %i = program_at %p {ranks = 2}                 for %block, %each, %blocks do (%g) {
 *         %v = read %x, %i …                                 %p0 = mul %g, 2
 *         %e = exp %v                                        %i0 = program_at %p0 {ranks = 2}
 *         write %y, %i, %e …                        =>       %v0 = read %x, %i0 …
 *     }                                                      %p1 = add %p0, 1
 *                                                            %i1 = program_at %p1 {ranks = 2}
 *                                                            %v1 = read %x, %i1 …
 *                                                            %e0 = exp %v0
 *                                                            write %y, %i0, %e0 …
 *                                                            %e1 = exp %v1
 *                                                            …
 *                                                        }
 *
 * A program of a few hundred bytes waits for memory as long as one of many does, and a block takes as long to start.  The
 * programs that a block runs together are neighbours along the first axis of the grid (pass persist numbers them so).
 * Where that axis is no multiple, the last program runs more than once: it writes the same again, or, if the kernel reads
 * what it writes, nothing.  Programs run in any order, so that a read may go before the writes of another program; it stays
 * behind those of its own.  What does not depend on the program is read once. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"
#include "target/target.h"

enum { PROGRAMS_MOST = 16 };

typedef struct Coarsen {
	Module *m;
	Func *f;
	Op *loop, *made;
	int n, nvalues;
	bool *early, *varies;                           /* of each value, by its id */
	Value **map[PROGRAMS_MOST];
} Coarsen;

/* Why blocks do not run several programs, one after another, or together, or as one. */
typedef enum Together { IN_TURN, TOGETHER, AS_ONE } Together;

static const char *
reason_but_products(const Func *f, Together how)
{
	if (f->naxis == 0)
		return "it has one program";
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		switch (op_family(op)) {
		case FAMILY_ATOMIC:
			if (!privatize_takes(f, op) && !privatize_merges(f, op))
				return "it has atomic operations";
			break;
		case FAMILY_REPORT: return "it prints or asserts";
		case FAMILY_PTX: return "it has PTX of its own";
		case FAMILY_BUFFER: return "it has buffers";
		default: break;
		}
		if (how == TOGETHER ? op_is_control(op) : how == IN_TURN && op_is_loop(op))
			return "it has loops or branches";
		if (how != AS_ONE && op->kind == OP_NUM_PROGRAMS)
			return "it counts programs";
	}
	return NULL;
}

static const char *
reason_for(const Func *f, Together how)
{
	const char *reason = reason_but_products(f, how);
	for (const Op *op = f->body->first; op && !reason; op = op_after(op, f->body))
		if (op_family(op) == FAMILY_DOT || op_family(op) == FAMILY_DOT_ASYNC)
			reason = "it multiplies matrices";
	return reason;
}

const char *
coarsen_reason(const Func *f)
{
	return reason_for(f, TOGETHER);
}

const char *
batch_reason(const Func *f)
{
	return reason_for(f, AS_ONE);
}

bool
coarsen_stays(const Func *f)
{
	return coarsen_reason(f) && !reason_but_products(f, IN_TURN);
}

bool
coarsen_guards(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (!op_is_access(op))
			continue;
		if (!access_is_tensor(op))
			return true;
		Access access = f->param[op->in[0]->index].access;
		if (access == ACCESS_INOUT || (access != ACCESS_IN && op->nout > 0))
			return true;
	}
	return false;
}

/* Reads before the first effect, and what their addresses are made of. */
static void
find_early(Coarsen *c)
{
	for (const Op *op = c->loop->region[0]->first; op; op = op->next) {
		if (op_has(op, WRITES | EFFECT) || op_is_control(op))
			return;
		if (op_is_access(op) && op->nout > 0)
			op_backward_slice(op, c->loop->region[0], c->early);
	}
}

static void
find_varying(Coarsen *c)
{
	Block *body = c->loop->region[0];
	c->varies[body->arg[0].id] = true;
	for (const Op *op = body->first; op; op = op->next) {
		bool varies = !op_has(op, PURE) || op->nregion > 0;
		if (op->kind == OP_PROGRAM_AT && attr_ranks(op) == c->n && attr_axis(op) != attr_along(op))
			continue;                       /* they are neighbours along the other axis */
		if (op->kind == OP_READ && access_is_tensor(op))
			varies = c->f->param[op->in[0]->index].access != ACCESS_IN;
		op_extend_slice(op, c->varies, varies || op_uses_slice(op, c->varies));
	}
}

static void
copy_ops(Coarsen *c, Builder *b, int program, bool early)
{
	for (const Op *op = c->loop->region[0]->first; op != c->loop->region[0]->last; op = op->next) {
		if ((op->nout > 0 && c->early[op->out[0].id]) != early)
			continue;
		if (program == 0 || op->nout == 0 || c->varies[op->out[0].id]) {
			op_clone(b, op, c->map[program]);
			continue;
		}
		for (int i = 0; i < op->nout; i++)
			c->map[program][op->out[i].id] = c->map[0][op->out[i].id];
	}
}

static void
coarsen(Coarsen *c)
{
	Arena *tmp = c->m->cx->tmp;
	Builder before = build_before(c->loop);
	Value *count = build_index(&before, MAX(c->n, c->f->schedule.batch));
	Value *in[] = {c->loop->in[0], build2(&before, OP_DIV, c->loop->in[1], count), c->loop->in[2]};
	func_number(c->f);
	c->nvalues = c->f->nvalues;
	c->early = NEW_ARRAY(tmp, bool, c->nvalues);
	c->varies = NEW_ARRAY(tmp, bool, c->nvalues);
	find_early(c);
	find_varying(c);
	c->made = build_for(&before, in, NULL, 0, NULL);
	Block *body = c->made->region[0];
	body->arg[0].name = "programs";
	Builder b = {.m = c->m, .block = body, .place = c->loop->place};
	Value *first = build2(&b, OP_MUL, &body->arg[0], count);
	for (int i = 0; i < c->n; i++) {
		c->map[i] = NEW_ARRAY(tmp, Value *, c->nvalues);
		b.place = c->loop->place;
		c->map[i][c->loop->region[0]->arg[0].id] = i ? build2(&b, OP_ADD, first, build_index(&b, i)) : first;
		copy_ops(c, &b, i, true);
	}
	for (int i = 0; i < c->n; i++)
		copy_ops(c, &b, i, false);
	build_yield(&b, NULL, 0);
	op_erase(c->loop);
}

void
pass_coarsen(Func *f, const Target *t)
{
	int n = MIN(MAX(f->schedule.coarsen, 1), PROGRAMS_MOST);
	Coarsen c = {.m = f->module, .f = f, .n = n, .loop = func_programs(f)};
	bool asked = (c.n > 1 && !f->coarsen_reason) || f->schedule.batch > 1;
	if (asked && c.loop)
		coarsen(&c);
}
