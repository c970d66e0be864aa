/* What all programs add to the same places, a persistent block adds up first.
 *
 *     for … do (%p) {                                     for … %zeros do (%p, %a: i32[256]) {
 *         %v = read %x, …                                     %v = read %x, …
 *         %h = histogram %v : i32[256]                =>      %h = histogram %v
 *         atomic %bins, 0, %h {fn = "add"}                    %n = add %a, %h
 *     }                                                       yield %n
 *                                                         }
 *                                                         atomic %bins, 0, %total {fn = "add"}
 *
 * Atomics of one place come one after another: those of a loss, of a histogram, of the gradient of a norm's weights took
 * longer than what is read.  Sums of floats are in another order, as atomics leave them anyway; defer_reduce keeps them
 * apart by lane.  The least and the greatest, and bits of integers, likewise.  Only where nothing uses the old values or
 * accesses the tensor otherwise, no other device may watch it (scope sys), and the places are the same for all programs. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"

#include <string.h>

/* How the atomic joins what is there; OP_COUNT: otherwise than by one op that may come in any order. */
static OpKind
join_of(const Op *op)
{
	DType t = op->kind == OP_ATOMIC ? op->in[access_data(op)]->type->elem : TY_BOOL;
	OpKind kind = op->kind == OP_ATOMIC ? fn_kind(attr_fn(op)) : OP_COUNT;
	bool fits = dtype_is_int(t) || (dtype_is_float(t) && (kind == OP_ADD || kind == OP_MIN || kind == OP_MAX));
	return fits && dtype_info[t].bits >= 32 ? kind : OP_COUNT;
}

/* Nothing but such atomics accesses the tensor. */
static bool
has_tensor_alone(const Func *f, const Op *atomic)
{
	return !ANY_OP(op, f->body,
	    ANY_OF(i, op->nin,
		op->in[i] == atomic->in[0] && (i > 0 || op->kind != OP_DIM) &&
		    join_of(op) != join_of(atomic)));
}

/* Before pass persist and behind it: is v the same in all programs? */
static bool
is_common(const Value *v, int depth)
{
	enum { DEPTH = 12 };
	const Op *op = v->def;
	if (!op)
		return !v->block->parent;
	if (op->nregion || !op_has(op, PURE) || op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT || depth == DEPTH ||
	    v->type->rank > 0)
		return false;
	return ALL_OF(i, op->nin, is_common(op->in[i], depth + 1));
}

bool
privatize_takes(const Func *f, const Op *op)
{
	if (join_of(op) == OP_COUNT || op->out[0].nuses > 0 || strcmp(attr_scope(op), "sys") == 0 ||
	    !has_tensor_alone(f, op))
		return false;
	if (op->home != f->body && op->home->parent != func_programs(f))
		return false;
	for (int i = 1; i < access_data(op); i++)
		if (!is_common(op->in[i], 0))
			return false;
	return true;
}

/* What changes nothing. */
static Value *
neutral(Builder *b, const Value *like, OpKind kind)
{
	Value *v = build_identity(b, like->type, kind, true);
	v->layout = like->layout;
	return v;
}

void
privatize_guard(Op *op, Value *condition)
{
	int data = access_data(op);
	Value *v = op->in[data], *holds = condition;
	Builder b = build_before(op);
	if (v->type->rank > 0) {
		holds = build1(&b, OP_BROADCAST, condition, type_tile(b.m, TY_BOOL, v->type->rank, v->type->extent));
		holds->layout = v->layout;
	}
	Value *all = build3(&b, OP_SELECT, holds, v, neutral(&b, v, join_of(op)));
	all->layout = v->layout;
	op_set_in(op, data, all);
}

/* Does y add what x does to the same places, for another program of the block (pass coarsen)? */
static bool
is_same_place(const Op *x, const Op *y)
{
	int data = access_data(x);
	return y->kind == OP_ATOMIC && x->nin == y->nin && join_of(x) == join_of(y) &&
	    x->in[data]->type == y->in[data]->type && x->in[data]->layout == y->in[data]->layout &&
	    ALL_OF(i, data, x->in[i] == y->in[i]);
}

/* x adds what y does, too: of numbers behind the loop, that each is kept apart by lane; of tiles in it. */
static void
merge(Op *x, Op *y)
{
	int data = access_data(x);
	Builder b = build_before(x);
	Value *both = build2(&b, join_of(x), x->in[data], y->in[data]);
	both->layout = x->in[data]->layout;
	op_set_in(x, data, both);
	op_erase(y);
}

static void
privatize(Pipeline *p, Op *op)
{
	OpKind join = join_of(op);
	int data = access_data(op);
	Value *v = op->in[data];
	Builder before = build_before(p->loop);
	Value *init = neutral(&before, v, join), *arg = pipeline_carry(p, &init, 1);
	Builder b = build_before(op);
	Value *next = build2(&b, join, arg, v);
	next->layout = v->layout;
	pipeline_yield(p, &next, 1);
	op_move(op, p->loop->home, p->loop->next);
	op_set_in(op, data, &p->loop->out[p->loop->nout - 1]);
}

/* Merges what neighbours of one place add: of tiles before the loop carries it, of numbers once it has. */
static void
merge_all(const Func *f, Op *first, bool tiles)
{
	for (Op *x = first, *next; x; x = next) {
		next = x->next;
		bool takes = privatize_takes(f, x);
		for (Op *y = first; y != x && takes; y = y->next)
			if (is_same_place(x, y) && privatize_takes(f, y) &&
			    (x->in[access_data(x)]->type->rank > 0) == tiles) {
				merge(x, y);
				first = y == first ? x : first;
				break;
			}
	}
}

void
pass_privatize(Func *f, const Target *t)
{
	Op *loop = func_programs(f);
	if (!loop || has_warpgroup_product(loop->region[0]))
		return;
	Pipeline p = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .f = f, .loop = loop, .body = loop->region[0]};
	merge_all(f, p.body->first, true);
	for (Op *op = p.body->first, *next; op; op = next) {
		next = op->next;
		if (privatize_takes(f, op))
			privatize(&p, op);
	}
	merge_all(f, p.loop->next, false);
}
