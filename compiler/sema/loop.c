/* Loops.  What a loop carries must be fixed before its body is elaborated, so it carries every variable that its
 * text assigns.  `static for` is unrolled instead, its counter being a constant. */
#include "ir/derive.h"
#include "sema/elab.h"

/* The loop's bounds as lo, hi, step; false after an error. */
static bool
range_vals(Elab *e, const Stmt *s, Val out[3])
{
	bool ok = s->range.n >= 1 && s->range.n <= 3;
	Val v[3];

	for (int i = 0; i < s->range.n && i < 3; i++) {         /* the parser saw to 1 to 3 */
		v[i] = elab_expr(e, s->range.at[i]);
		ok &= !val_is_poison(&v[i]);
	}
	if (!ok)
		return false;
	out[0] = s->range.n == 1 ? val_int(v[0].place, 0) : v[0];
	out[1] = s->range.n == 1 ? v[0] : v[1];
	out[2] = s->range.n == 3 ? v[2] : val_int(s->place, 1);
	if (out[2].kind == VAL_INT && out[2].i == 0)
		return diag_error(e->cx, out[2].place, DIAG_RANGE_STEP);
	return true;
}

/* What a loop carries: variables, and their values at entry, flattened. */
typedef struct Carried {
	BindingList vars;
	Flat flat;
} Carried;

static Carried
carried(Elab *e, const Stmt *s)
{
	Carried c = {0};

	scan_assigned(e, &s->body, 0, &c.vars);
	if (s->returns)
		scan_hidden(e, &c.vars);
	if (!vals_flatten(e, bindings_save(e, &c.vars), c.vars.n, &c.flat, s->place)) {
		c.vars.n = 0;
		vals_flatten(e, NULL, 0, &c.flat, s->place);
	}
	return c;
}

/* A loop's body; the carried variables are the region's arguments from `first` on, and what it yields. */
static void
run_body(Elab *e, const Stmt *s, Block *body, int first, const Carried *c)
{
	Region r = {.outer = e->b, .block = body};
	Flat now;

	bindings_take(e, &c->vars, body->arg + first);
	e->b.block = body;
	e->b.before = NULL;
	scope_push(e);
	if (s->kind == ST_FOR && s->index.name) {
		const Name *n = &s->index;
		body->arg[0].name = n->name;
		scope_add(e, n->name, n->place, val_tile(n->place, &body->arg[0]), false)->what = "a loop's counter";
	}
	if (s->kind == ST_FOR && frame_of(e)->done && s->returns)
		elab_unless_done(e, &s->body, 0);
	else
		elab_list(e, &s->body, 0);
	scope_pop(e);
	e->b.place = s->place;
	if (vals_flatten(e, bindings_save(e, &c->vars), c->vars.n, &now, s->place))
		build_yield(&e->b, now.v, now.n);
	region_end(e, &r);
}

/* ---- merge ---- */

static bool
has_binding(const BindingList *list, const Binding *b)
{
	return ANY_OF(i, list->n, list->at[i] == b);
}

/* What a merge assigns is what its loop changes; neither returns. */
static bool
merge_fits(Elab *e, const Stmt *s, const BindingList *vars)
{
	int errors = e->cx->nerrors + e->cx->nmuted;
	BindingList joined = {0};

	scan_assigned(e, &s->orelse, 0, &joined);
	if (s->returns) {
		diag_error(e->cx, s->place, DIAG_MERGE_RETURN);
		diag_help(e->cx, "its parts may run at once, so that no trip is the last: carry what it finds");
	} else if (vars->n == 0) {
		diag_error(e->cx, s->part.place, DIAG_MERGE_NOTHING);
	}
	for (int i = 0; i < vars->n && !s->returns; i++)
		if (!has_binding(&joined, vars->at[i])) {
			const char *name = vars->at[i]->name;
			diag_error(e->cx, s->part.place, DIAG_MERGE_MISSING, name);
			diag_help(e->cx, "assign it what two parts come to, from '%s' and '%s.%s'", name, s->part.name,
			    name);
		}
	for (int i = 0; i < joined.n && !s->returns; i++)
		if (!has_binding(vars, joined.at[i])) {
			diag_error(e->cx, s->part.place, DIAG_MERGE_ASSIGNS, joined.at[i]->name);
			diag_help(e->cx, "use a name of its own for it, with 'let'");
		}
	return e->cx->nerrors + e->cx->nmuted == errors;
}

/* The state of the other part: each variable's tiles from consecutive arguments. */
static Val
part_state(Elab *e, const Stmt *s, const BindingList *vars, Value *from)
{
	Val part = {.kind = VAL_PART, .place = s->part.place, .n = vars->n, .items = NEW_ARRAY(e->cx->mem, Val, vars->n),
	    .names = NEW_ARRAY(e->cx->mem, const char *, vars->n)};
	int at = 0;

	for (int i = 0; i < vars->n; i++) {
		part.names[i] = vars->at[i]->name;
		part.items[i] = val_rebuild(e, &vars->at[i]->val, from, &at);
	}
	return part;
}

static void
merge_is_pure(Elab *e, const Block *b)
{
	for (const Op *op = b->first; op; op = op_after(op, b)) {
		const char *what = op_has(op, WRITES) ? "write" : op_has(op, READS) ? "read memory" : "report";
		if (!op_has(op, READS | WRITES | EFFECT) || attr_trace(op))
			continue;
		diag_error(e->cx, op->place, DIAG_MERGE_EFFECT, what);
		return;
	}
}

/* The op behind the loop, whose region is elaborated as one more trip that takes another part's state. */
static void
elab_merge(Elab *e, const Stmt *s, Op *loop, const Carried *c)
{
	const Type **type = NEW_ARRAY(e->cx->mem, const Type *, 2 * c->flat.n);
	Value **in = NEW_ARRAY(e->cx->mem, Value *, c->flat.n);
	Flat now;

	for (int i = 0; i < c->flat.n; i++) {
		in[i] = &loop->out[i];
		type[i] = type[i + c->flat.n] = loop->out[i].type;
	}
	Op *op = op_make_regions(&e->b, OP_MERGE, in, c->flat.n, NULL, 0, NULL, 0, 1);
	Block *b = op->region[0] = block_make(e->b.block->func, op, type, 2 * c->flat.n);
	Region r = {.outer = e->b, .block = b};
	Val part = part_state(e, s, &c->vars, b->arg + c->flat.n);
	bindings_take(e, &c->vars, b->arg);
	e->b.block = b;
	e->b.before = NULL;
	scope_push(e);
	scope_add(e, s->part.name, s->part.place, part, false)->what = "the state of another part";
	elab_list(e, &s->orelse, 0);
	scope_pop(e);
	e->b.place = s->place;
	if (vals_flatten(e, bindings_save(e, &c->vars), c->vars.n, &now, s->place))
		build_yield(&e->b, now.v, now.n);
	region_end(e, &r);
	merge_is_pure(e, b);
	bindings_take(e, &c->vars, op->out);
}

/* Trips of from .. end, INT64_MAX if there are more. */
static int64_t
trips(int64_t from, int64_t end, int64_t step)
{
	uint64_t span = step > 0 ? (uint64_t)end - (uint64_t)from : (uint64_t)from - (uint64_t)end;
	uint64_t by = step > 0 ? (uint64_t)step : -(uint64_t)step;

	if (step > 0 ? from >= end : from <= end)
		return 0;
	return (int64_t)MIN((span - 1) / by, (uint64_t)INT64_MAX - 1) + 1;
}

/* Over whole tensors all dimensions are known: a loop over one of extent 0 has no trip, and its body no index that is in
 * range. */
static bool
has_no_trip(const Elab *e, const Val range[3])
{
	return e->whole && ALL_OF(i, 3, range[i].kind == VAL_INT) &&
	    trips(range[0].i, range[1].i, range[2].i) == 0;
}

/* ---- loops over parts ---- */

/* The constant that a product with v is by; 0: it is none. */
static int64_t
times(const Op *op, const Value *v)
{
	int64_t n = 0;
	return op->kind == OP_MUL && op->in[0] != op->in[1] && value_int(op->in[op->in[0] == v], &n) ? n : 0;
}

/* Is v only multiplied, by numbers that `each` divides, also behind a cast where it narrows? */
static bool
counts_parts(const Block *body, const Value *v, int64_t each, bool narrows, int *products)
{
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (!ANY_OF(i, op->nin, op->in[i] == v))
			continue;
		int64_t n = times(op, v);
		if (n != 0 && n % each == 0)
			++*products;
		else if (!narrows || op->kind != OP_CAST || !dtype_is_int(op->out[0].type->elem) ||
		    !counts_parts(body, &op->out[0], each, false, products))
			return false;
	}
	return true;
}

/* The users are listed first: a product of one of them, (i * 64) * 128, has v as its operand once i * 64 is v. */
static void
count_elements(Arena *mem, Block *body, Value *v, int64_t each)
{
	VEC(Op *) users = {0};
	for (EACH_OP(op, body))
		if (ANY_OF(i, op->nin, op->in[i] == v))
			vec_push(mem, &users, op);
	for (int i = 0; i < users.n; i++) {
		Op *op = users.at[i];
		int64_t n = times(op, v);
		if (n == each) {
			value_replace(&op->out[0], v);
			op_erase(op);
		} else if (n != 0) {
			Builder b = build_before(op);
			op_set_in(op, op->in[0] == v, build_int(&b, v->type, n / each));
		} else {
			count_elements(mem, body, &op->out[0], each);
		}
	}
}

/* A loop over parts of a dimension goes over their beginnings, as passes and the choice of tiles know it:
 *
 *     for %0, (cdiv %K, 64), %1 do (%i) {            for %0, %K, %64 do (%k) {
 *         read %a, (mul %i, 64) {extents = [64]}  =>     read %a, %k {extents = [64]} */
static void
step_by_parts(Arena *mem, Op *loop)
{
	Op *hi = loop->in[1]->def;
	Block *body = loop->region[0];
	Value *i = &body->arg[0];
	int64_t from, step, each;
	int products = 0;
	bool fits = hi && hi->kind == OP_CDIV && value_int(loop->in[0], &from) && from == 0 &&
	    value_int(loop->in[2], &step) && step == 1 && value_int(hi->in[1], &each) && each >= 1;
	if (!fits || !counts_parts(body, i, each, true, &products) || products == 0)
		return;
	Builder b = build_before(loop);
	op_set_in(loop, 1, hi->in[0]);
	op_set_in(loop, 2, build_int(&b, loop->in[2]->type, each));
	count_elements(mem, body, i, each);
	if (hi->out[0].nuses == 0)
		op_erase(hi);
}

void
elab_for(Elab *e, const Stmt *s)
{
	static const char *const what[] = {"the start of a range", "the end of a range", "the step of a range"};
	Val range[3];
	Value *bound[3];
	bool ok = range_vals(e, s, range);

	if (ok && has_no_trip(e, range))
		return;
	for (int i = 0; i < 3; i++) {
		bound[i] = ok ? val_index(e, &range[i], what[i]) : NULL;
		ok &= bound[i] != NULL;
	}
	for (int i = 0; i < 3 && !ok; i++)              /* still checks the body */
		bound[i] = build_int(&e->b, type_scalar(e->m, TY_I64), 1);
	Carried c = carried(e, s);
	e->b.place = s->place;
	Op *op = build_for(&e->b, bound, c.flat.v, c.flat.n, NULL);
	run_body(e, s, op->region[0], 1, &c);
	bindings_take(e, &c.vars, op->out);
	if (!e->whole)
		step_by_parts(e->cx->mem, op);
	if (s->part.name && merge_fits(e, s, &c.vars))
		elab_merge(e, s, op, &c);
}

/* The condition region of a while loop: the condition, and not yet done. */
static Value *
while_condition(Elab *e, const Stmt *s)
{
	Frame *f = frame_of(e);

	if (!f->done || !s->returns) {
		Val c = elab_expr(e, s->e);
		return val_condition(e, &c);
	}
	Value *done = f->done->val.v;
	Region then = region_begin(e);
	Value *no = build_int(&e->b, type_scalar(e->m, TY_BOOL), 0);
	region_end(e, &then);
	Region els = region_begin(e);
	Val c = elab_expr(e, s->e);
	Value *cond = val_condition(e, &c);
	region_end(e, &els);
	return cond ? &region_if(e, done, then.block, &no, els.block, &cond, 1)->out[0] : NULL;
}

void
elab_while(Elab *e, const Stmt *s)
{
	Carried c = carried(e, s);
	Op *op = op_make_regions(&e->b, OP_WHILE, c.flat.v, c.flat.n, NULL, 0, NULL, 0, 2);
	Value **yield = NEW_ARRAY(e->cx->mem, Value *, c.flat.n + 1);
	const Type **type = value_types(c.flat.v, c.flat.n, e->cx->tmp);
	Region r = {.outer = e->b};

	for (int i = 0; i < 2; i++)
		op->region[i] = block_make(e->b.block->func, op, type, c.flat.n);
	e->b.block = op->region[0];
	e->b.before = NULL;
	bindings_take(e, &c.vars, op->region[0]->arg);
	yield[0] = while_condition(e, s);
	if (!yield[0])
		yield[0] = build_int(&e->b, type_scalar(e->m, TY_BOOL), 0);
	for (int i = 0; i < c.flat.n; i++)
		yield[i + 1] = &op->region[0]->arg[i];
	build_yield(&e->b, yield, c.flat.n + 1);
	region_end(e, &r);
	run_body(e, s, op->region[1], 0, &c);
	bindings_take(e, &c.vars, op->out);
}

static int64_t least_steps(const StmtList *body);

/* Of a statement: one where it is sure to be elaborated, and those of an unrolled loop between numbers that are written
 * out. */
static int64_t
least_of(const Stmt *s)
{
	enum { MOST = 1 << 30 };
	int64_t at[3] = {0, 0, 1}, all;

	if (s->kind != ST_FOR)
		return s->e && s->kind != ST_RETURN;
	if (!s->is_static || s->returns || ANY_OF(i, s->range.n, s->range.at[i]->kind != EX_INT))
		return 0;
	for (int i = 0; i < s->range.n && i < 3; i++)
		at[s->range.n == 1 ? 1 : i] = (int64_t)MIN(s->range.at[i]->u, (uint64_t)MOST);
	bool fits = at[2] > 0 && !__builtin_mul_overflow(trips(at[0], at[1], at[2]), least_steps(&s->body), &all);
	return fits ? MIN(all, MOST) : 0;
}

/* What every trip takes at least: a step, and those of its statements. */
static int64_t
least_steps(const StmtList *body)
{
	int64_t n = 1;

	for (int i = 0; i < body->n; i++)
		n += least_of(body->at[i]);
	return n;
}

/* A loop of too many trips is refused after the first, which may have errors of its own.  Where a trip may return, the
 * others may never come. */
static bool
has_room(Elab *e, const Stmt *s, int64_t n)
{
	int64_t all;

	if (s->returns)
		return true;
	return elab_steps(e, __builtin_mul_overflow(n, least_steps(&s->body), &all) ? INT64_MAX : all, s->place);
}

/* The trips of an unrolled loop from `i` on.  After a trip that may have returned the rest stands under a guard.  A trip
 * with errors is the last: the others would only repeat them. */
static bool
unroll(Elab *e, const Stmt *s, int64_t i, int64_t end, int64_t step)
{
	for (bool first = true; step > 0 ? i < end : i > end; i += step, first = false) {
		int reported = e->cx->nerrors + e->cx->nmuted;
		if (e->stmt->spent || !elab_step(e, s->place))
			return false;
		scope_push(e);
		if (s->index.name)
			scope_add(
			    e, s->index.name, s->index.place, val_int(s->index.place, i), false)
			    ->what = "a loop's counter";
		bool ended = frame_of(e)->done && s->may_return ? elab_unless_done(e, &s->body, 0)
								  : elab_list(e, &s->body, 0);
		scope_pop(e);
		if (ended)
			return true;
		if (e->cx->nerrors + e->cx->nmuted > reported)
			return false;
		if (__builtin_add_overflow(i, step, &(int64_t){0}))
			break;
		if (first && !has_room(e, s, trips(i + step, end, step)))
			break;
	}
	return false;
}

bool
elab_static_for(Elab *e, const Stmt *s)
{
	Val range[3];
	int64_t at[3];
	static const char *const what[] = {"the start of a 'static for'", "the end of a 'static for'",
		"the step of a 'static for'"};

	if (!range_vals(e, s, range))
		return false;
	return ALL_OF(i, 3, val_const_int(e, &range[i], what[i], &at[i])) && unroll(e, s, at[0], at[1], at[2]);
}
