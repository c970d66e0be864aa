/* Addresses: the thread IR counts in bytes, Metal's pointers in elements.
 *
 * A tensor's pointer counts in its elements, and so does a select of two such pointers, or one that a loop carries.  An
 * offset in bytes is divided (msl_select.c): it is a sum of products by the element's size, and the size goes out of
 * each.  An offset that does not divide counts in bytes, with casts.  The block's memory has one type if all that is
 * read and written there has it, and a pointer into it likewise. */
#include "emit/msl/msl.h"

#include <string.h>

CType
msl_element(const ThreadParam *p)
{
	switch (p->elem) {
	case TY_F32: return C_FLOAT;
	case TY_F16: return C_HALF;
	case TY_BF16: return C_BFLOAT;
	case TY_I8: return C_CHAR;
	case TY_I16: return C_SHORT;
	case TY_U16: return C_USHORT;
	case TY_I32: return C_INT;
	case TY_U32: return C_UINT;
	case TY_I64: return C_LONG;
	case TY_U64: return C_ULONG;
	default: return C_UCHAR;
	}
}

static int
c_bytes(CType c)
{
	static const int bytes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8};
	return bytes[c];
}

/* The pointer that a pointer is computed from, or a carried one's first value; 0: it is computed from none. */
static Reg
origin(const ThreadModule *t, Reg r)
{
	const ThreadNode *n = thread_def(t, r), *owner;
	int at = t->reg.at[r - 1].at;
	switch (n->kind) {
	case NODE_POINTER: return n->in[0];
	case NODE_CARRIED:
		owner = n->home->owner;
		return owner->in[(owner->kind == NODE_LOOP ? 3 : 0) + n->op];
	case NODE_LOOP: return n->in[3 + at];
	case NODE_WHILE: return n->in[at];
	case NODE_IF: return n->region[0]->yield[at];
	default: return 0;
	}
}

static const ThreadNode *
first_of(const ThreadModule *t, Reg r)
{
	for (Reg from; (from = origin(t, r));)
		r = from;
	return thread_def(t, r);
}

static bool
is_select(const ThreadNode *n)
{
	return n->kind == NODE_OP && n->op == THREAD_SELECT;
}

/* What a pointer to device memory counts in. */
static CType
pointee(const ThreadModule *t, Reg r)
{
	const ThreadNode *n = first_of(t, r);
	if (n->kind == NODE_PARAM && n->home == t->body)
		return msl_element(&t->kernel.param[n->op]);
	if (!is_select(n))
		return C_UCHAR;
	CType a = pointee(t, n->in[1]), b = pointee(t, n->in[2]);
	return a == b ? a : C_UCHAR;
}

int
msl_element_bytes(const ThreadModule *t, Reg pointer)
{
	return c_bytes(pointee(t, pointer));
}

Reg
msl_divided(ThreadBuilder *b, Reg r, int size)
{
	const ThreadModule *m = thread_module_of(b);
	const ThreadNode *n = thread_def(m, r);
	RegType t = thread_type(m, r);
	int64_t v;
	if (size == 1)
		return r;
	if (thread_const(m, r, &v))
		return v % size == 0 ? thread_int_const(b, t, v / size) : 0;
	if (n->kind == NODE_CAST && (n->op == CAST_ZEXT || n->op == CAST_SEXT)) {
		Reg a = thread_type(m, n->in[0]) == REG_I32 ? msl_divided(b, n->in[0], size) : 0;
		return a ? thread_cast(b, (ThreadCast)n->op, t, a) : 0;
	}
	if (n->kind != NODE_OP)
		return 0;
	Reg x = n->in[0], y = n->nin > 1 ? n->in[1] : 0, p, q;
	switch (n->op) {
	case THREAD_MUL:
		if (thread_const(m, y, &v) && v == size)
			return x;
		if ((p = msl_divided(b, x, size)))      /* a stride in bytes is one in elements, its multiple stays */
			return thread_op(b, THREAD_MUL, p, y, 0);
		return (q = msl_divided(b, y, size)) ? thread_op(b, THREAD_MUL, x, q, 0) : 0;
	case THREAD_SHL:
		if (!thread_const(m, y, &v) || v > 30 || (INT64_C(1) << v) % size)
			return 0;
		return thread_op(b, THREAD_SHL, x, thread_int_const(b, t, v - __builtin_ctz((unsigned)size)), 0);
	case THREAD_ADD: case THREAD_SUB: case THREAD_OR: case THREAD_XOR:
		p = msl_divided(b, x, size);
		q = p ? msl_divided(b, y, size) : 0;
		return q ? thread_op(b, (ThreadOp)n->op, p, q, 0) : 0;
	default:
		return 0;
	}
}

/* ---- text ---- */

static bool
is_constant(const ThreadModule *t, Reg r)
{
	const ThreadNode *n = first_of(t, r);
	if (is_select(n))
		return is_constant(t, n->in[1]) || is_constant(t, n->in[2]);
	return n->kind == NODE_PARAM && t->kernel.param[n->op].is_read_only;
}

static const char *
space_text(const Msl *m, const MslNode *n)
{
	if (n->type == REG_SHARED)
		return "threadgroup";
	return is_constant(m->t, n->out[0]) ? "device const" : "device";
}

/* What a pointer counts in, as C writes it. */
static CType
counts_in(const Msl *m, const MslNode *n)
{
	if (n->type == REG_GLOBAL)
		return pointee(m->t, n->out[0]);
	if (n->points > 0 && (n->kind == NODE_POINTER || n->kind == NODE_SHARED))
		return c_plain((RegType)(n->points - 1));
	return C_UCHAR;
}

const char *
msl_shared_type(const Msl *m)
{
	return c_text[counts_in(m, msl_def(m, m->t->shared))];
}

const char *
msl_pointer_type(Msl *m, const MslNode *n)
{
	return arena_printf(m->mem, "%s %s *", space_text(m, n), c_text[counts_in(m, n)]);
}

/* What an index is before it is made longer: it converts by itself. */
static Expr
index_expr(Msl *m, Reg r)
{
	const MslNode *n = msl_def(m, r);
	Expr x = msl_expr(m, &r, 1);
	if (n->kind != NODE_CAST || n->name || (n->t->op != CAST_ZEXT && n->t->op != CAST_SEXT) || msl_type(m,
	    n->in[0]) == REG_PRED)
		return x;
	Expr plain = msl_expr(m, n->in, 1);
	bool same_sign = c_is_signed(plain.c) == (n->t->op == CAST_SEXT);
	return same_sign || msl_never_negative(m, n->in[0]) ? plain : x;
}

static void
put_sum(Msl *m, Text *t, Reg r)
{
	Expr x = index_expr(m, r);
	if (x.is_literal && x.v < 0)
		text_printf(t, " - %lld", -(long long)x.v);
	else
		text_printf(t, " + %s", msl_wrap(m, x, P_PRODUCT));
}

/* A pointer as an operand. */
static const char *
start_text(Msl *m, MslNode *n, int strength)
{
	return n->name ? n->name : msl_wrap(m, msl_node_expr(m, n), strength);
}

/* "x + i + 4" in what n counts in; `bytes`: more of them. */
static const char *
pointer_sum(Msl *m, MslNode *n, Reg offset, int64_t constant, CType *in)
{
	Text t = {0};
	*in = counts_in(m, n);
	text_put(&t, start_text(m, n, P_SUM));
	int64_t v;
	if (offset && msl_const(m, offset, &v)) {
		constant += v;
		offset = 0;
	}
	if (offset)
		put_sum(m, &t, offset);
	if (constant)
		text_printf(&t, constant < 0 ? " - %lld" : " + %lld", (long long)(constant < 0 ? -constant : constant));
	return msl_arena_text(m, &t);
}

Expr
msl_pointer_expr(Msl *m, const MslNode *n)
{
	Expr x = {.text = n->name, .strength = P_NAME, .width = 1, .c = n->type == REG_SHARED ? C_THREADGROUP : C_DEVICE};
	CType in;
	if (n->name)
		return x;
	MslNode *base = msl_def(m, n->in[0]);
	CType want = counts_in(m, n), has = counts_in(m, base);
	int64_t v;
	int bytes = c_bytes(has), unit = (int)n->t->i;
	bool known = msl_const(m, n->in[1], &v);
	x.strength = P_SUM;
	if (unit == bytes) {
		x.text = pointer_sum(m, base, n->in[1], 0, &in);
	} else if (unit == 1 && known && v % bytes == 0) {
		x.text = pointer_sum(m, base, 0, v / bytes, &in);
	} else if (unit > 1 && unit == c_bytes(want)) {
		Text t = {0};
		text_printf(&t, "(%s)%s", msl_pointer_type(m, n), start_text(m, base, P_UNARY));
		put_sum(m, &t, n->in[1]);
		x.text = msl_arena_text(m, &t);
		return x;
	} else if (unit == 1) {
		Reg whole = msl_def(m, n->in[1])->kind == NODE_CONST ? 0 : n->in[1];
		Expr o = msl_expr(m, &whole, 1);
		x.text = arena_printf(m->mem, "(%s uchar *)%s + %s", space_text(m, base), start_text(m, base, P_UNARY),
		    msl_wrap(m, o, P_PRODUCT));
		has = C_UCHAR;
	}
	if (want != has) {
		x.text = arena_printf(m->mem, "(%s)(%s)", msl_pointer_type(m, n), x.text);
		x.strength = P_UNARY;
	}
	return x;
}

/* The address `more` bytes behind an access's as "x + i", counted in `in`; its offset counts in units of t->i bytes. */
static const char *
address_sum(Msl *m, const MslNode *n, int64_t more, CType *in)
{
	const ThreadAccess *at = n->t->at;
	MslNode *base = msl_def(m, at->base);
	int size = c_bytes(counts_in(m, base)), unit = (int)n->t->i;
	int64_t constant = at->constant + more;
	CType own = c_plain(at->type);
	if ((!at->offset || unit == size) && constant % size == 0)
		return pointer_sum(m, base, at->offset, constant / size, in);
	const char *start = start_text(m, base, P_UNARY);
	bool typed = (!at->offset || unit == c_bytes(own)) && constant % c_bytes(own) == 0;
	Text t = {0};
	*in = typed ? own : C_UCHAR;
	text_printf(&t, "(%s %s *)%s", space_text(m, base), c_text[*in], start);
	if (at->offset && (typed || unit == 1))
		put_sum(m, &t, at->offset);
	else if (at->offset)
		text_printf(&t, " + %s * %d", msl_wrap(m, msl_expr(m, &at->offset, 1), P_PRODUCT), unit);
	if (constant)
		text_printf(&t, " + %lld", (long long)(constant / (typed ? c_bytes(own) : 1)));
	return msl_arena_text(m, &t);
}

const char *
msl_address(Msl *m, const MslNode *n, const char *type)
{
	CType in;
	const char *sum = address_sum(m, n, 0, &in);
	return arena_printf(m->mem, "(%s %s *)(%s)", space_text(m, msl_def(m, n->t->at->base)), type, sum);
}

const char *
msl_pointer_to(Msl *m, Reg pointer, CType c)
{
	MslNode *n = msl_def(m, pointer);
	if (counts_in(m, n) == c)
		return start_text(m, n, P_SELECT);
	return arena_printf(m->mem, "(%s %s *)%s", space_text(m, n), c_text[c], start_text(m, n, P_UNARY));
}

/* As a pointer of the kind that `like` is. */
const char *
msl_pointer_like(Msl *m, Reg pointer, const MslNode *like)
{
	return msl_pointer_to(m, pointer, counts_in(m, like));
}

/* "x + (a + b)" is x[a + b]; other sums are dereferenced. */
static const char *
indexed(Msl *m, const char *sum)
{
	const char *plus = strstr(sum, " + ");
	size_t start = plus ? (size_t)(plus - sum) : strlen(sum);
	bool is_name = strcspn(sum, " ()-[") >= start;
	if (!is_name || (plus && strstr(sum, " - ") && strstr(sum, " - ") < plus))
		return arena_printf(m->mem, "*(%s)", sum);
	return arena_printf(m->mem, "%.*s[%s]", (int)start, sum, plus ? plus + 3 : "0");
}

const char *
msl_memory(Msl *m, const MslNode *n, int64_t more, CType c, int width)
{
	CType in;
	const char *sum = address_sum(m, n, more, &in);
	if (width == 1 && in == c)
		return indexed(m, sum);
	const char *format = strchr(sum, ' ') ? "*(%s %s *)(%s)" : "*(%s %s *)%s";
	return arena_printf(m->mem, format, space_text(m, msl_def(m, n->t->at->base)), c_vector(m, c, width), sum);
}
