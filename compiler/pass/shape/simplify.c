/* Simplifies a function until nothing changes: folds constants (simplify_fold.c), applies rules that keep every bit
 * (rules*.c), straightens control (simplify_control.c), merges equal ops (cse.c) and drops what nothing needs
 * (dce.c).
 *
 *     %0 = const {value = 1.0} : f32              %v = read %x, %i {index = "p", extents = [8]} : f32[8]
 *     %1 = broadcast %0 : f32[8]              =>  write %y, %i, %v {index = "p", extents = [8]}
 *     %v = read %x, %i {index = "p", …} : f32[8]
 *     %2 = mul %v, %1 : f32[8]
 *     write %y, %i, %2 {index = "p", …}
 *
 * One walk visits every op after its operands' definitions.  What an op turns out to equal is written in
 * `forward`, and later ops look there for their operands, so a replacement costs nothing but the
 * entry.  Ops that rules make are simplified as they are made.  The ops left without uses go in the
 * sweep after the walk.
 *
 * Nothing here may change a bit of a result: floats are folded with the interpreter's own arithmetic,
 * x + 0.0 stays (x may be -0.0), and so on; only the sign and payload of a NaN are free. */
#include "pass/shape/simplify.h"

enum { MAX_ROUNDS = 16 };                               /* a bound; two or three are usual */

Value *
simplify_resolve(Simplify *s, Value *v)
{
	while (v->id < s->forward.n && s->forward.at[v->id])
		v = s->forward.at[v->id];
	return v;
}

void
simplify_forward(Simplify *s, Value *from, Value *to)
{
	to = simplify_resolve(s, to);
	if (from == to)
		die("a value forwards to itself");
	s->forward.at[from->id] = to;
	s->changed = true;
	if (!to->name && to->def && to->def->kind != OP_CONST)
		to->name = from->name;
}

static void
resolve_operands(Simplify *s, Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		Value *v = simplify_resolve(s, op->in[i]);
		if (v != op->in[i])
			op_set_in(op, i, v);
	}
}

/* What the first result equals by some rule or an earlier op, or NULL. */
static Value *
find(Simplify *s, Op *op)
{
	unsigned traits = op_info[op->kind].traits;
	Value *v = NULL;

	if (op->nout == 0 || (traits & (WRITES | EFFECT | REGION)))
		return NULL;
	if (ANY_OF(i, op->nout, op->out[i].layout) || ANY_OF(i, op->nin, op->in[i]->layout))
		return NULL;                            /* a rule that makes new tiles would have to place them */
	v = simplify_fold(s, op);
	if (!v && (traits & ELEM))
		v = simplify_elementwise(s, op);
	else if (!v && (traits & READS))
		v = simplify_access(s, op);
	else if (!v)
		v = simplify_shape(s, op);
	return v;
}

/* May it, or anything in its regions, change memory? */
static bool
writes(const Op *op)
{
	if (op_has(op, WRITES) || op->kind == OP_INLINE_PTX)
		return true;
	return ANY_OF(r, op->nregion, ANY_OP(in, op->region[r], op_has(in, WRITES) || in->kind == OP_INLINE_PTX));
}

static void
simplify_op(Simplify *s, Op *op)
{
	Value *v = find(s, op);

	if (v) {
		simplify_forward(s, &op->out[0], v);
		return;
	}
	Op *same = simplify_seen(s, op);
	for (int i = 0; same && i < op->nout; i++)
		simplify_forward(s, &op->out[i], &same->out[i]);
	if (writes(op))
		s->epoch++;
}

Value *
simplify_emit(Simplify *s, Op *at, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *want)
{
	Builder b = {.m = s->m, .block = at->home, .before = at, .place = at->place};
	Op *op = op_make(&b, kind, in, nin, attr, nattr, &want, want ? 1 : 0);

	s->changed = true;
	for (int i = 0; i < op->nout; i++) {
		op->out[i].id = s->forward.n;
		vec_push(s->tmp, &s->forward, NULL);
	}
	if (op->nout == 0)
		return NULL;
	simplify_op(s, op);
	Value *v = simplify_resolve(s, &op->out[0]);
	if (v != &op->out[0] && op->nout == 1)
		op_erase(op);
	return v;
}

Value *
simplify_emit1(Simplify *s, Op *at, OpKind kind, Value *x, const Type *want)
{
	return simplify_emit(s, at, kind, &x, 1, NULL, 0, want);
}

Value *
simplify_emit2(Simplify *s, Op *at, OpKind kind, Value *x, Value *y)
{
	return simplify_emit(s, at, kind, (Value *[]){x, y}, 2, NULL, 0, NULL);
}

static void walk(Simplify *s, Block *b);

/* A loop's body may find memory as an earlier trip left it.  The function of a reduction keeps to itself: what
 * it takes from outside costs devices more than computing it again. */
static void
walk_regions(Simplify *s, Op *op)
{
	bool changes = writes(op);
	HashTable outer = s->seen;

	if (op_has_fn(op))
		s->seen = (HashTable){0};
	if (changes && op->kind != OP_IF)
		s->epoch++;
	for (int r = 0; r < op->nregion; r++)
		walk(s, op->region[r]);
	if (changes)
		s->epoch++;
	if (op_has_fn(op))
		s->seen = outer;
}

static void
walk(Simplify *s, Block *b)
{
	int mark = s->seen.all.n;

	for (Op *op = b->first, *next; op; op = next) {
		next = op->next;
		resolve_operands(s, op);
		if (op_info[op->kind].traits & REGION) {
			if (simplify_control(s, op, &next))
				s->changed = true;
			else
				walk_regions(s, op);
		} else if (simplify_effect(s, op)) {
			s->changed = true;
		} else {
			simplify_op(s, op);
		}
	}
	table_leave(&s->seen, mark);
}

/* One round; true if anything changed. */
static bool
simplify_round(Simplify *s)
{
	s->changed = false;
	s->epoch = 0;
	s->forward.n = 0;
	func_number(s->f);
	for (int i = 0; i < s->f->nvalues; i++)
		vec_push(s->tmp, &s->forward, NULL);
	s->seen = (HashTable){0};
	walk(s, s->f->body);
	return simplify_sweep(s) || s->changed;
}

void
pass_simplify(Func *f, const Target *t)
{
	Simplify s = {.m = f->module, .tmp = f->module->cx->tmp, .f = f, .is_gpu = t};
	for (int round = 0; round < MAX_ROUNDS && simplify_round(&s);)
		round++;
	func_number(f);
}
