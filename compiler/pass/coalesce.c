/* Chooses the warps of a block where the schedule does not, and how each access to memory would best lie over its threads:
 * neighbours in memory in neighbouring lanes, as many in one thread as one instruction moves.
 *
 *     %v = read %x … : f32[32, 64]         %v = read %x … : f32[32, 64] #0      four elements a thread along a row,
 *     write %y … %v                   =>   %c = convert %v : f32[32, 64] #0     sixteen lanes a row
 *                                          write %y … %c
 *
 * These are wishes: pass assign decides. */
#include "pass/axis.h"

enum { ELEMENTS_FEW = 8, ELEMENTS_MORE = 16, WARPS_FEW = 4, WARPS_MOST = 32, DOT_ELEMENTS = 1024, DOT_WARPS = 8 };

static bool
is_access(const Op *op)
{
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_LOAD: case OP_STORE: case OP_ATOMIC: case OP_ATOMIC_PTR: return true;
	default: return false;
	}
}

/* Few warps for small tiles; many elements a thread only where there are many warps already. */
static int
choose_warps(const Func *f, const Target *t)
{
	int64_t most = 1, dot = 0;
	int warps = 1, limit = MIN(WARPS_MOST, t->max_threads / t->lanes);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind == OP_DOT)
			dot = MAX(dot, type_count(op->out[0].type));
		for (int i = 0; i < op->nout && !dot; i++)
			if (value_is_placed(&op->out[i]))
				most = MAX(most, type_count(op->out[i].type));
	}
	if (dot > 0) {
		while (warps < DOT_WARPS && (int64_t)warps * DOT_ELEMENTS < dot)
			warps *= 2;
		return warps;
	}
	while (warps < limit && most > (int64_t)warps * t->lanes * (warps < WARPS_FEW ? ELEMENTS_FEW : ELEMENTS_MORE))
		warps *= 2;
	return warps;
}

/* The dimension along which memory runs first, then the others from the last one on. */
static void
order_from(int first, int rank, int order[LAYOUT_RANK])
{
	int n = 0;
	order[n++] = first;
	for (int d = rank - 1; d >= 0; d--)
		if (d != first)
			order[n++] = d;
}

static const Layout *
wished(const Axes *a, const Op *op, const Target *t)
{
	const Type *tile = place_type(op);
	int shape[LAYOUT_RANK] = {0}, order[LAYOUT_RANK] = {0}, dim, total = 0;
	int lanes = log2_exact(t->lanes), warps = log2_exact(a->f->schedule.warps);
	int k = access_contiguity(a, op, t, &dim);
	for (int d = 0; d < tile->rank; d++) {
		shape[d] = log2_exact(tile->extent[d]);
		total += shape[d];
	}
	order_from(dim, tile->rank, order);
	if (op->kind == OP_ATOMIC || op->kind == OP_ATOMIC_PTR)
		k = 0;
	k = MIN(k, MAX(total - lanes - warps, 0));
	Layout l = layout_coalesced(tile->rank, shape, order, k, lanes, warps);
	return layout_intern(a->f->module, &l);
}

static void
wish_operand(const Axes *a, Op *op, int i, const Layout *l)
{
	Builder b = {.m = a->f->module, .block = op->home, .before = op, .place = op->place};
	Value *c = build1(&b, OP_CONVERT, op->in[i], NULL);
	c->layout = l;
	c->name = op->in[i]->name;
	op_set_in(op, i, c);
}

static void
coalesce_op(const Axes *a, Op *op, const Target *t)
{
	const Type *tile = place_type(op);
	if (tile->rank == 0)
		return;
	const Layout *l = wished(a, op, t);
	if (op->nout)
		op->out[0].layout = l;
	if (op->kind == OP_WRITE)
		wish_operand(a, op, access_data(op), l);
	else if (op->kind == OP_STORE)
		wish_operand(a, op, 1, l);
}

static void
coalesce(Func *f, const Target *t)
{
	if (f->schedule.warps == 0)
		f->schedule.warps = choose_warps(f, t);
	const Axes *a = axis_analyse(f, f->module->cx->tmp);
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (is_access(op))
			coalesce_op(a, op, t);
	}
	func_number(f);
}

void
pass_coalesce(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n; i++)
		if (!m->funcs.at[i]->is_reference)
			coalesce(m->funcs.at[i], t);
}
