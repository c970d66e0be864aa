/* What stands before and behind a loop of products of warpgroups.
 *
 * What the ops behind it read is read before it, if a thread holds little of it: the loop hides how long memory takes.
 *
 *     for … do (…) { … dot … }                     %b = read %bias, %n {…} : bf16[256] #1
 *     %b = read %bias, %n {…} : bf16[256] #1  =>   for … do (…) { … dot … }
 *
 * That is a tensor of which the kernel writes nothing, and a tile of two registers a thread at most: a bias or scales of
 * rows or columns.  What its indices are computed from goes with it.
 *
 * What is computed before it and used only behind it is computed behind it: accumulators leave no registers to hold it
 * meanwhile.
 *
 *     %i = div %p, %w : i64[128] #1            for … do (…) { … dot … }
 *     for … do (…) { … dot … }           =>    %i = div %p, %w : i64[128] #1
 *     write %y, %i, …                          write %y, %i, …
 *
 * Tiles move, with what only they are computed from; scalars stay.
 *
 * And what stands before the loop over programs of a kernel that parts into roles goes to where it is used. */
#include "pass/async/pipeline.h"

#include <string.h>

enum { BYTES_MOST = 8, DEPTH = 8, WIDE_ELEMENTS = 4096 };       /* the first one of a thread */

/* ---- read before ---- */

/* A value that is there before the loop, or could be computed there. */
static bool
may_be_early(const Op *loop, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || op->home != loop->home)
		return !value_inside(v, loop->home) || !op;
	if (op == loop || depth == 0)
		return false;
	bool is_before = false;
	for (const Op *at = loop->prev; at && !is_before; at = at->prev)
		is_before = at == op;
	if (!is_before && !ALL_OF(i, op->nin, may_be_early(loop, op->in[i], depth - 1)))
		return false;
	return is_before || (op_has(op, PURE) && op->nregion == 0);
}

static bool
is_small_read(const Func *f, const Op *op)
{
	if (op->kind != OP_READ || !access_is_tensor(op) || op->out[0].type->rank == 0 || !op->out[0].layout ||
	    f->param[op->in[0]->index].access != ACCESS_IN || strchr(attr_index(op), 'g'))
		return false;
	return dtype_tile_size(op->out[0].type->elem) << op->out[0].layout->in[IN_REGISTER] <= BYTES_MOST;
}

/* Before the loop, behind what it needs. */
static void
move_early(Op *loop, Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		Op *def = op->in[i]->def;
		bool is_late = false;
		for (const Op *at = loop->next; at && def && !is_late; at = at->next)
			is_late = at == def;
		if (is_late)
			move_early(loop, def);
	}
	op_move(op, loop->home, loop);
}

static void
read_early(Func *f, Op *loop)
{
	for (Op *op = loop->next, *next; op; op = next) {
		bool moves = is_small_read(f, op);
		next = op->next;
		for (int i = 1; i < op->nin && moves; i++)
			moves = may_be_early(loop, op->in[i], DEPTH);
		if (moves)
			move_early(loop, op);
	}
}

void
pipeline_early(Func *f)
{
	if (block_find(f->body, OP_INLINE_PTX))
		return;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			read_early(f, op);
}

/* ---- computed behind ---- */

/* Uses of each value, by Value.id, in the block up to the loop's end. */
static int *
early_uses(const Func *f, const Op *loop)
{
	int *uses = NEW_ARRAY(f->module->cx->tmp, int, f->nvalues);
	const Block *home = loop->home;
	for (const Op *op = home->first; op != loop->next; op = op_after(op, home))
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]++;
	return uses;
}

static bool
is_sunk(const Op *op, const int *uses)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->out[0].nuses == 0)
		return false;
	return value_is_tile(&op->out[0]) && uses[op->out[0].id] == 0;
}

/* The first op behind the loop in its block that has the value, or holds one that has. */
static Op *
first_user(const Value *v, Op *loop)
{
	const Block *home = loop->home;
	for (Op *op = loop->next; op; op = op->next)
		for (const Op *in = op; in != op->next; in = op_after(in, home))
			if (op_uses(in, v))
				return op;
	return loop->next;
}

static void
sink_after(Func *f, Op *loop)
{
	func_number(f);
	int *uses = early_uses(f, loop);
	for (Op *op = loop->prev, *prev; op; op = prev) {
		prev = op->prev;
		if (!is_sunk(op, uses))
			continue;
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]--;
		op_move(op, loop->home, first_user(&op->out[0], loop));
	}
}

void
pipeline_sink(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			sink_after(f, op);
}

/* ---- what threads read from slots ---- */

/* The first op of v's block that needs v, itself or in its regions. */
static Op *
first_need(const Value *v)
{
	Op *op = v->def->next;

	for (const Op *in = op; in; in = op_after(in, v->def->home)) {
		if (in->home == v->def->home)
			op = (Op *)in;
		if (op_uses(in, v))
			return op;
	}
	return NULL;
}

/* A get stands where its tile first meets another that the body makes, with the casts and the like in between. */
void
pipeline_sink_get(Op *get)
{
	Op *last = get, *at = first_need(&get->out[0]);

	while (at && at->nin == 1 && last->out[0].nuses == 1 && at->home == get->home && op_has(at, ELEM)) {
		last = at;
		at = first_need(&last->out[0]);
	}
	for (Op *op = get, *next; at && op != at; op = next) {
		next = op == last ? at : first_need(&op->out[0]);
		op_move(op, get->home, at);
	}
}

/* ---- what only a product's result is combined with ---- */

static bool
is_wide(const Value *v)
{
	return v->type->kind == TYPE_TILE && type_count(v->type) >= WIDE_ELEMENTS;
}

/* The first op behind the product's start that uses a result; NULL: something else uses it too. */
static Op *
first_use_after(const Op *start, const Op *op)
{
	int uses = 0;
	Op *first = NULL;
	for (Op *p = start->next; p->kind != OP_YIELD; p = p->next)
		for (int i = 0; i < p->nin; i++)
			if (p->in[i] == &op->out[0]) {
				first = first ? first : p;
				uses++;
			}
	return uses == op->out[0].nuses ? first : NULL;
}

/* It has as many registers as the product and no wide operand that would live on for it. */
static bool
may_wait(const Block *body, const Op *op)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->nin == 0 || !is_wide(&op->out[0]))
		return false;
	for (int i = 0; i < op->nin; i++) {
		const Op *def = op->in[i]->def;
		if (is_wide(op->in[i]) && value_inside(op->in[i], body) && (!def || !op_has(def, PURE) || def->nregion))
			return false;
	}
	return true;
}

void
pipeline_sink_weights(Block *body, const Op *start)
{
	for (Op *op = start->prev, *prev; op; op = prev) {
		prev = op->prev;
		Op *use = may_wait(body, op) ? first_use_after(start, op) : NULL;
		if (use)
			op_move(op, body, use);
	}
}

/* ---- into roles ---- */

/* Whether a pure op makes a value that only ops in the regions of `around` take. */
static bool
is_for(const Op *op, const Op *around)
{
	int uses = 0;
	if (op->nout != 1 || !op_has(op, PURE) || op->nregion || op->out[0].type->kind != TYPE_TILE)
		return false;
	for (const Op *in = op_after(around, around->home); in != around->next; in = op_after(in, around->home))
		uses += COUNT_OF(i, in->nin, in->in[i] == &op->out[0]);
	return uses == op->out[0].nuses;
}

/* A layout's warps are those of a role, and code before roles runs in all warps of the block.  So tiles that licm has moved
 * before the loop over programs, as it does where that runs once, go back into it. */
void
roles_sink_tiles(Op *programs)
{
	Block *body = programs->region[0];
	for (Op *op = programs->prev, *prev; op; op = prev) {
		prev = op->prev;
		if (op->kind != OP_CONST && is_for(op, programs) && op->out[0].type->rank > 0)
			op_move(op, body, body->first);
	}
}

/* Scalars that roles need are computed in each: the code before them has the registers that all threads begin with, and
 * they would be held in both.  Not where blocks share programs (pass stream): ptxas spills what that needs (304 bytes of a
 * cluster's product). */
void
roles_sink_scalars(Func *f, Op *roles)
{
	for (Op *op = roles->prev, *prev; op; op = prev) {
		prev = op->prev;
		if (!is_for(op, roles) || op->out[0].type->rank > 0)
			continue;
		for (int r = 0; r < 2; r++) {
			Block *body = roles->region[r];
			Builder b = {.m = f->module, .block = body, .before = body->first, .place = op->place};
			func_number(f);
			Op *copy = op_clone(&b, op, NEW_ARRAY(f->module->cx->tmp, Value *, f->nvalues));
			value_replace_from(copy->next, &op->out[0], &copy->out[0]);
		}
		op_erase(op);
	}
}
