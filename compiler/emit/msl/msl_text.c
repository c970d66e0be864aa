/* Statements: a block of nodes as lines of text.
 *
 * A node has a line of its own if it has an effect, if it is used more than once, or if it would make another line too
 * long; all others are written where they are used.  A line of the source is a comment above the first statement that
 * comes from it. */
#include "emit/msl/msl.h"

#include <string.h>

enum { LONG = 76 };                                     /* columns; with indent and name a line is about 100 */

void
msl_say(Msl *m, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = arena_vprintf(m->mem, fmt, ap);
	va_end(ap);
	for (int i = 0; i < m->indent; i++)
		text_put(&m->body, "    ");
	text_put(&m->body, s);
	text_put(&m->body, "\n");
}

static const char *
hint_of(Msl *m, const MslNode *n)
{
	if (n->hint)
		return n->hint;
	if (n->kind == NODE_POINTER || n->kind == NODE_LOAD) {
		const MslNode *root = msl_origin(m, n->kind == NODE_LOAD ? msl_def(m, n->t->at->base) : n);
		if (root->kind == NODE_PARAM || root->kind == NODE_SHARED)
			return arena_printf(m->mem, n->kind == NODE_LOAD ? "%s_v" : "%s_at", root->name);
	}
	switch (n->type) {
	case REG_PRED: return "ok";
	case REG_I8: case REG_I16: case REG_I32: case REG_I64: return "n";
	case REG_GLOBAL: case REG_SHARED: return "at";
	default: return "t";
	}
}

void
msl_declare(Msl *m, MslNode *n, Expr x)
{
	const char *name = msl_fresh(m, hint_of(m, n));
	if (n->type == REG_GLOBAL || n->type == REG_SHARED) {
		const char *type = msl_pointer_type(m, n);
		msl_say(m, "%s%s = %s;", type, name, x.text);
		n->name = name;
		return;
	}
	CType c = x.c;
	if (n->type == REG_I8 || n->type == REG_I16 || x.is_literal)
		c = n->width > 1 ? x.c : x.is_literal && n->type == REG_I64 ? C_LONG : x.is_literal &&
		    n->type == REG_I32 ? C_INT : c_plain(n->type);
	if (n->type == REG_I32 && n->width == 1 && msl_never_negative(m, n->out[0]))
		c = C_INT;
	if (n->type == REG_I64 && (c < C_LONG || msl_never_negative(m, n->out[0])))
		c = c_is_signed(c) || msl_never_negative(m, n->out[0]) ? C_LONG : C_ULONG;
	if (x.width != n->width)
		x = msl_as(m, x, c, n->width);
	msl_say(m, "%s %s = %s;", c_vector(m, c, n->width), name, x.text);
	n->name = name;
	n->c = c;
}

/* ---- the source beside it ---- */

void
msl_comment(Msl *m, Place at)
{
	const char *start;
	size_t size;
	if (at.file < 0 || !m->cx || at.line == m->line || at.file >= m->cx->files.n ||
	    !source_line(&m->cx->files.at[at.file], at.line, &start, &size))
		return;
	while (size && char_is_space(*start))
		start++, size--;
	while (size && (char_is_space(start[size - 1]) || start[size - 1] == '\\'))
		size--;
	m->line = at.line;
	if (m->body.n && m->body.at[m->body.n - 1] == '\n' && !(m->body.n > 1 && m->body.at[m->body.n - 2] == '{'))
		text_put(&m->body, "\n");
	msl_say(m, "// %d: %.*s", at.line, (int)size, start);
}

/* ---- statements ---- */

static bool
is_input(const MslNode *n)
{
	return n->kind <= NODE_CARRIED ||
	    (n->kind == NODE_PRIM && (n->t->op == PRIM_THREAD || n->t->op == PRIM_LANE || n->t->op == PRIM_BLOCK ||
	    n->t->op == PRIM_NBLOCKS || n->t->op == PRIM_SIMDGROUP));
}

static bool
goes_into_user(const MslNode *n)
{
	if (!msl_is_pure(n) || n->uses != 1 || n->parts || !n->user)
		return false;
	if (n->converges) {
		MslNode *u = n->user;
		bool fits = n->kind == NODE_PRIM && u->kind == NODE_OP && u->t->op != THREAD_SELECT &&
		    u->type != REG_PRED &&
		    u->t->home == n->t->home;
		u->converges |= fits;
		return fits;
	}
	return true;
}

static void
compute(Msl *m, MslNode *n)
{
	if (is_input(n) || goes_into_user(n))
		return;
	Expr x = msl_node_expr(m, n);
	if (n->name)                                    /* it was too long, and has a variable */
		return;
	msl_comment(m, n->t->place);
	msl_declare(m, n, x);
}

/* An expression that grows too long gets a variable before the line that uses it. */
Expr
msl_shortened(Msl *m, MslNode *n, Expr x)
{
	if (strlen(x.text) <= LONG || n->name || !msl_is_pure(n) || n->kind == NODE_CONST || n->kind == NODE_POINTER)
		return x;
	msl_comment(m, n->t->place);
	msl_declare(m, n, x);
	return msl_node_expr(m, n);
}

/* Is `name` a word of the text? */
static bool
mentions(const char *text, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = strstr(text, name); p; p = strstr(p + 1, name)) {
		bool before = p > text && ((char_is_letter(p[-1]) || char_is_digit(p[-1])) || p[-1] == '_' || p[-1] == '.');
		if (!before && !(char_is_letter(p[n]) || char_is_digit(p[n])) && p[n] != '_')
			return true;
	}
	return false;
}

/* given[i] = next[i], all at once. */
static void
assign(Msl *m, const MslNode *n, const Reg *given, const Reg *next)
{
	typedef struct { const char *to, *from; MslNode *var; } Move;
	VEC(Move) moves = {0};
	for (int i = 0; i < msl_carried(n);) {
		MslNode *var = msl_def(m, given[i]);
		int w = var->width;
		if (!var->matrix) {
			Expr x = msl_expr(m, next + i, w);
			if (var->type == REG_GLOBAL || var->type == REG_SHARED)
				x.text = msl_pointer_like(m, next[i], var);
			else
				x = x.is_literal && (CType)var->c == C_INT ? x : msl_as(m, x, (CType)var->c, w);
			Move move = {var->name, x.text, var};
			if (var->name && strcmp(var->name, x.text) != 0)
				vec_push(m->mem, &moves, move);
		}
		i += w;
	}
	for (int i = 0; i < moves.n; i++)
		for (int j = i + 1; j < moves.n; j++)
			if (mentions(moves.at[j].from, moves.at[i].to)) {
				MslNode *v = moves.at[j].var;
				const char *t = msl_fresh(m, "next");
				const char *type = v->type == REG_GLOBAL || v->type == REG_SHARED
				    ? msl_pointer_type(m, v) : arena_printf(m->mem, "%s ", c_vector(m, (CType)v->c,
				    v->width));
				msl_say(m, "%s%s = %s;", type, t, moves.at[j].from);
				moves.at[j].from = t;
			}
	for (int i = 0; i < moves.n; i++)
		msl_say(m, "%s = %s;", moves.at[i].to, moves.at[i].from);
	if (n->kind == NODE_LOOP)
		msl_matrix_next(m, n);
}

/* The C type of a carried variable. */
static CType
carried_type(const MslNode *var)
{
	CType c = c_plain(var->type);
	if (var->type == REG_I64)
		return C_LONG;
	return var->type == REG_I32 && var->width == 1 ? C_INT : c;
}

static const char *
carried_hint(Msl *m, const MslNode *inside, const MslNode *after, const Reg *init)
{
	const MslNode *from = init ? msl_def(m, init[0]) : NULL;
	if (inside && inside->hint)
		return inside->hint;
	if (after && after->hint)
		return after->hint;
	return from && from->hint ? from->hint : after ? hint_of(m, after) : "t";
}

/* Variables before a loop (with what they begin as) or a branch (without). */
static void
declare_carried(Msl *m, MslNode *n, bool begins)
{
	for (int i = 0; i < msl_carried(n);) {
		MslNode *after = msl_def(m, n->t->out[i]), *inside = begins ? msl_def(m, msl_inside(n)[i]) : after;
		int w = inside->width;
		if (!inside->matrix && (begins || after->uses)) {
			inside->c = after->c = (int)carried_type(inside);
			const char *name, *type = arena_printf(m->mem, "%s ", c_vector(m, (CType)inside->c, w));
			if (inside->type == REG_GLOBAL || inside->type == REG_SHARED)
				type = msl_pointer_type(m, inside);
			if (begins) {
				Expr x = msl_expr(m, msl_init(n) + i, w);
				bool plain = inside->type == REG_GLOBAL || inside->type == REG_SHARED;
				x = plain || (x.is_literal && inside->c == C_INT) ? x : msl_as(m, x, (CType)inside->c, w);
				name = msl_fresh(m, carried_hint(m, inside, after, msl_init(n) + i));
				msl_say(m, "%s%s = %s;", type, name, x.text);
			} else {
				name = msl_fresh(m, carried_hint(m, NULL, after, n->t->region[0]->yield + i));
				msl_say(m, "%s%s;", type, name);
			}
			inside->name = after->name = name;
		}
		i += w;
	}
}

/* After a line that opens the loop. */
static void
loop_body(Msl *m, MslNode *n)
{
	m->indent++;
	msl_region_text(m, n->t->region[0]);
	assign(m, n, msl_inside(n), n->t->region[0]->yield);
	m->indent--;
	msl_say(m, "}");
	m->line = -1;
}

static Expr
bound(Msl *m, Reg r, CType c)
{
	Expr x = msl_expr(m, &r, 1);
	if (x.is_literal && x.v == (int32_t)x.v && x.v >= 0) {
		x.text = arena_printf(m->mem, "%lld", (long long)x.v);
		return x;
	}
	return c_is_signed(x.c) && x.c <= c ? x : msl_as(m, x, c, 1);
}

static void
loop_text(Msl *m, MslNode *n)
{
	CType c = n->type == REG_I64 ? C_LONG : C_INT;
	Expr lo = bound(m, n->in[0], c), hi = bound(m, n->in[1], c), step = bound(m, n->in[2], c);
	int64_t by = 0;
	bool known = msl_const(m, n->in[2], &by);
	msl_matrix_begin(m, n);
	declare_carried(m, n, true);
	if (hi.strength != P_NAME && !hi.is_literal) {
		const char *end = msl_fresh(m, "end");
		msl_say(m, "%s %s = %s;", c_text[c], end, hi.text);
		hi.text = end;
	}
	MslNode *index = msl_def(m, n->t->region[0]->arg[0]);
	const char *i = msl_fresh(m, index->hint ? index->hint : "i");
	index->name = i;
	index->c = (int)c;
	if (known && by == 0)
		msl_say(m, "for (%s %s = %s; false;) {", c_text[c], i, lo.text);
	else if (known)
		msl_say(m, by == 1 ? "for (%s %s = %s; %s %s %s; %s++) {" : "for (%s %s = %s; %s %s %s; %s += %s) {",
		    c_text[c], i,
		    lo.text, i, by > 0 ? "<" : ">", hi.text, i, step.text);
	else
		msl_say(m, "for (%s %s = %s; %s > 0 ? %s < %s : %s < 0 && %s > %s; %s += %s) {", c_text[c], i, lo.text,
		    step.text, i,
		    hi.text, step.text, i, hi.text, i, step.text);
	loop_body(m, n);
}

static MslNode *
first_statement(const Msl *m, ThreadRegion *b)
{
	for (int i = 0; i < b->body.n; i++) {
		MslNode *n = msl_beside(m, b->body.at[i]);
		if (n->live && !is_input(n) && !(msl_is_pure(n) && n->uses == 1 && !n->parts))
			return n;
	}
	return NULL;
}

static void
while_text(Msl *m, MslNode *n)
{
	MslNode *first = first_statement(m, n->t->region[0]);
	declare_carried(m, n, true);
	if (first && first->kind == NODE_TEST) {
		msl_say(m, "while (%s) {", msl_bool(m, first->in[0], P_SELECT));
		first->written = true;
	} else {
		msl_say(m, "while (true) {");
	}
	loop_body(m, n);
}

/* A branch's lines, apart. */
static Text
branch_lines(Msl *m, MslNode *n, int k)
{
	Text before = m->body;
	int line = m->line;
	m->body = (Text){0};
	text_put(&m->body, "");
	m->indent++;
	msl_region_text(m, n->t->region[k]);
	assign(m, n, n->t->out, n->t->region[k]->yield);
	m->indent--;
	Text lines = m->body;
	m->body = before;
	m->line = line;
	return lines;
}

static void
if_text(Msl *m, MslNode *n)
{
	Expr test = msl_expr(m, n->in, 1);
	declare_carried(m, n, false);
	Text then = branch_lines(m, n, 0), otherwise = branch_lines(m, n, 1);
	if (then.n || otherwise.n) {
		msl_say(m, then.n ? "if (%s) {" : "if (!%s) {", then.n ? test.text : msl_wrap(m, test, P_UNARY));
		text_put(&m->body, then.n ? then.at : otherwise.at);
		if (then.n && otherwise.n) {
			msl_say(m, "} else {");
			text_put(&m->body, otherwise.at);
		}
		msl_say(m, "}");
	}
	text_close(&then);
	text_close(&otherwise);
	m->line = -1;
}

static void
test_text(Msl *m, const MslNode *n)
{
	msl_say(m, "if (!%s)", msl_bool(m, n->in[0], P_UNARY));
	m->indent++;
	msl_say(m, "break;");
	m->indent--;
}

static void
statement(Msl *m, MslNode *n)
{
	if (!n->live || n->written)
		return;
	if (n->kind == NODE_PACK && n->owner) {
		msl_fragment_text(m, n);
		return;
	}
	if (msl_is_pure(n)) {
		compute(m, n);
		return;
	}
	if (n->kind != NODE_TEST)
		msl_comment(m, n->t->place);
	switch (n->kind) {
	case NODE_LOAD: msl_load_text(m, n); return;
	case NODE_STORE: msl_store_text(m, n); return;
	case NODE_ATOMIC: msl_atomic_text(m, n); return;
	case NODE_PRIM: msl_prim_text(m, n); return;
	case NODE_MMA: msl_mma_text(m, n); return;
	case NODE_LOOP: loop_text(m, n); return;
	case NODE_WHILE: while_text(m, n); return;
	case NODE_IF: if_text(m, n); return;
	case NODE_TEST: test_text(m, n); return;
	default: die("a statement of kind %d", n->kind);
	}
}

/* Stores under one mask, without a statement between them, are one branch. */
static void
group_stores(const Msl *m, ThreadRegion *b)
{
	MslNode *last = NULL;
	for (int i = 0; i < b->body.n; i++) {
		MslNode *n = msl_beside(m, b->body.at[i]);
		if (n->kind == NODE_STORE && last && n->t->at->mask && last->t->at->mask == n->t->at->mask &&
		    last->t->place.line == n->t->place.line) {
			last->group = n;
			n->written = true;
			last = n;
		} else if (n->kind == NODE_STORE) {
			last = n;
		} else if (n->live && !is_input(n) && !(msl_is_pure(n) && n->uses == 1 && !n->parts && !n->converges)) {
			last = NULL;
		}
	}
}

void
msl_region_text(Msl *m, ThreadRegion *b)
{
	group_stores(m, b);
	for (int i = 0; i < b->body.n; i++)
		statement(m, msl_beside(m, b->body.at[i]));
}
