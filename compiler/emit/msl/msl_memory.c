/* Loads, stores and atomics as statements.
 *
 *     float4 v = inside ? *(device const float4 *)(x + i) : float4(0.0f);
 *     if (inside)
 *         *(device float4 *)(y + i) = v;
 *
 * Sixteen bytes of narrow elements are loaded as uint4, Metal's widest, and their lanes are bits of its words.  Atomics are
 * relaxed, all that Metal 3.1 has. */
#include "emit/msl/msl.h"

#include <string.h>

/* Words of an access wider than four elements; 0: it is a plain vector. */
static int
words_of(const MslNode *n)
{
	return n->width > 4 ? n->width * thread_type_bytes(n->t->at->type) / 4 : 0;
}

static const char *
word_type(Msl *m, const MslNode *n)
{
	return c_vector(m, C_UINT, words_of(n));
}

static bool
is_zero(const Msl *m, const Reg *fill, int w)
{
	for (int i = 0; i < w; i++) {
		const MslNode *n = msl_def(m, fill[i]);
		if (n->kind != NODE_CONST || n->t->i || n->t->f != 0 || __builtin_signbit(n->t->f))
			return false;
	}
	return true;
}

/* The value of a masked load where the mask is false. */
static const char *
otherwise(Msl *m, const MslNode *n, CType c)
{
	if (words_of(n))
		return arena_printf(m->mem, "%s(0)", word_type(m, n));
	if (n->fill && !is_zero(m, n->fill, n->width)) {
		Expr x = msl_as(m, msl_expr(m, n->fill, n->width), c, n->width);
		return x.text;
	}
	if (n->width == 1)
		return c == C_FLOAT ? "0.0f" : c == C_HALF ? "0.0h" : arena_printf(m->mem, "%s(0)", c_text[c]);
	return arena_printf(m->mem, c >= C_HALF ? "%s(0.0f)" : "%s(0)", c_vector(m, c, n->width));
}

/* The integer type of an element of a tensor: with the tensor's sign. */
static CType
signed_as_tensor(const Msl *m, const MslNode *n, CType c)
{
	const MslNode *root = msl_origin(m, msl_def(m, n->t->at->base));
	if (root->kind != NODE_PARAM || c < C_CHAR || c > C_ULONG)
		return c;
	CType elem = msl_element(&m->t->kernel.param[root->t->op]);
	return (elem + 1) / 2 == (c + 1) / 2 && elem <= C_ULONG ? elem : c;
}

void
msl_load_text(Msl *m, MslNode *n)
{
	CType c = c_plain(n->t->at->type);
	int words = words_of(n), vector = thread_type_bytes(n->t->at->type) * n->width;
	const char *at, *mask = n->t->at->mask ? msl_bool(m, n->t->at->mask, P_OROR) : NULL;
	bool whole = n->t->at->align >= vector || n->width == 1;
	if (!whole) {                                   /* element by element */
		Text t = {0};
		int bytes = thread_type_bytes(c == C_BOOL ? REG_I8 : n->t->at->type);
		text_printf(&t, "%s(", words ? word_type(m, n) : c_vector(m, c, n->width));
		if (words)
			die("a wide access that is not aligned");
		for (int i = 0; i < n->width; i++)
			text_printf(&t, "%s%s", i ? ", " : "", msl_memory(m, n, (int64_t)i * bytes, c, 1));
		text_put(&t, ")");
		at = msl_arena_text(m, &t);
	} else if (words) {
		at = msl_memory(m, n, 0, C_UINT, words);
	} else {
		at = msl_memory(m, n, 0, c, n->width);
	}
	CType declared = c;
	if (n->width == 1 && n->type != REG_I8 && n->type != REG_I16)
		declared = signed_as_tensor(m, n, c);
	if (declared != c)
		at = msl_memory(m, n, 0, declared, 1);
	Expr x = {.text = at, .strength = P_UNARY, .width = n->width, .c = declared};
	if (n->t->at->cache == CACHE_VOLATILE && n->type == REG_I32 && n->width == 1)
		x.text = at = arena_printf(m->mem, "atomic_load_explicit(%s, memory_order_relaxed)",
		    msl_address(m, n, "atomic_uint"));
	if (mask && c == C_BFLOAT && !words)            /* both arms a value, not one an lvalue */
		at = arena_printf(m->mem, "%s(%s)", c_vector(m, c, n->width), at);
	if (mask)
		x.text = arena_printf(m->mem, "%s ? %s : %s", mask, at, otherwise(m, n, declared));
	if (!words) {
		msl_declare(m, n, x);
		return;
	}
	n->name = msl_fresh(m, n->hint ? n->hint : "words");
	msl_say(m, "%s %s = %s;", word_type(m, n), n->name, x.text);
}

Expr
msl_wide_lanes(Msl *m, MslNode *n, int at, int w)
{
	int bytes = thread_type_bytes(n->t->at->type), per = 4 / bytes, word = at / per;
	CType c = c_plain(n->t->at->type);
	Expr x = {.strength = P_NAME, .width = w, .c = c};
	if (w == 4 && per == 2) {
		x.text = arena_printf(m->mem, words_of(n) == 2 ? "as_type<%s4>(%s)" : "as_type<%s4>(%s.%s)",
		    c_text[c], n->name,
		    word ? "zw" : "xy");
		return x;
	}
	x.text = arena_printf(m->mem, "as_type<%s%d>(%s.%c)", c_text[c], per, n->name, "xyzw"[word]);
	if (w < per)
		x.text = arena_printf(m->mem, "%s.%.*s", x.text, w, &"xyzw"[at % per]);
	return x;
}

/* The values of a store of narrow elements, as words. */
static const char *
packed_words(Msl *m, const MslNode *n)
{
	CType c = c_plain(n->t->at->type);
	int per = 4 / thread_type_bytes(n->t->at->type), group = per == 2 ? 4 : per;
	const MslNode *from = msl_def(m, n->in[0]);
	int at = msl_at(m, n->in[0]);
	bool copied = from->kind == NODE_LOAD && from->width > 4 && from->t->at->type == n->t->at->type &&
		      at % per == 0 && msl_is_sequence(m, n->in, n->width);
	if (copied && from->width == n->width)
		return from->name;
	if (copied)
		return arena_printf(m->mem, "%s.%.*s", from->name, n->width / per, &"xyzw"[at / per]);
	Text t = {0};
	text_printf(&t, "%s(", word_type(m, n));
	for (int i = 0; i < n->width; i += group) {
		Expr x = msl_as(m, msl_expr(m, n->in + i, group), c, group);
		text_printf(&t, "%sas_type<%s>(%s)", i ? ", " : "", group == per ? "uint" : "uint2", x.text);
	}
	text_put(&t, ")");
	return msl_arena_text(m, &t);
}

/* "*(…) = …;" of lanes at .. at + w. */
static const char *
store_part(Msl *m, const MslNode *n, int at, int w)
{
	CType c = c_plain(n->t->at->type);
	int64_t more = (int64_t)at * thread_type_bytes(n->t->at->type);
	Expr x = msl_expr(m, n->in + at, w);
	if (w == 1)
		c = signed_as_tensor(m, n, c);
	if (x.c != c || x.width != w)
		x = x.is_literal && c >= C_INT && w == 1 ? x : msl_as(m, x, c, w);
	return arena_printf(m->mem, "%s = %s;", msl_memory(m, n, more, c, w), x.text);
}

static void
store_lines(Msl *m, const MslNode *n, Text *out)
{
	int words = words_of(n);
	if (words) {
		text_printf(out, "%s = %s;\n", msl_memory(m, n, 0, C_UINT, words), packed_words(m, n));
		return;
	}
	int w = n->t->at->align >= thread_type_bytes(n->t->at->type) * n->width ? n->width : 1;
	for (int i = 0; i < n->width; i += w)
		text_printf(out, "%s\n", store_part(m, n, i, w));
}

/* A store and the stores behind it under the same mask (`group`, msl_text.c). */
void
msl_store_text(Msl *m, MslNode *n)
{
	Text t = {0};
	int lines = 0;
	const char *mask = n->t->at->mask ? msl_bool(m, n->t->at->mask, P_SELECT) : NULL;
	for (MslNode *s = n; s; s = s->group)
		store_lines(m, s, &t);
	for (const char *p = t.at; *p; p++)
		lines += *p == '\n';
	if (mask) {
		msl_say(m, lines > 1 ? "if (%s) {" : "if (%s)", mask);
		m->indent++;
	}
	for (char *p = t.at, *end; *p; p = end + 1) {
		end = strchr(p, '\n');
		msl_say(m, "%.*s", (int)(end - p), p);
	}
	if (mask) {
		m->indent--;
		if (lines > 1)
			msl_say(m, "}");
	}
	text_close(&t);
}

/* ---- atomics ---- */

static const char *const atomic_name[] = {
	[ATOMIC_ADD] = "fetch_add", [ATOMIC_MIN] = "fetch_min", [ATOMIC_MAX] = "fetch_max", [ATOMIC_UMIN] = "fetch_min",
	[ATOMIC_UMAX] = "fetch_max", [ATOMIC_AND] = "fetch_and", [ATOMIC_OR] = "fetch_or", [ATOMIC_XOR] = "fetch_xor",
	[ATOMIC_EXCHANGE] = "exchange",
};

static CType
atomic_type(const MslNode *n)
{
	if (n->t->at->type == REG_F32)
		return C_FLOAT;
	return n->t->op == ATOMIC_MIN || n->t->op == ATOMIC_MAX ? C_INT : C_UINT;
}

/* f32 in the block's memory: Metal has such atomics on device memory alone. */
static bool
needs_swap(const MslNode *n)
{
	return n->t->at->type == REG_F32 && n->t->at->space == SPACE_SHARED && n->t->op == ATOMIC_ADD;
}

static const char *
atomic_call(Msl *m, const MslNode *n, CType c)
{
	if (n->t->op == ATOMIC_CAS) {
		const char *at = msl_address(m, n, "atomic_uint");
		Expr v = msl_as(m, msl_expr(m, n->in, 1), C_UINT, 1), compare = msl_as(m, msl_expr(m, n->in + 1, 1),
		    C_UINT, 1);
		const char *name = msl_helper(m, n->t->at->space == SPACE_SHARED ? HELPER_SWAP_SHARED : HELPER_SWAP);
		return arena_printf(m->mem, "%s(%s, %s, %s)", name, at, compare.text, v.text);
	}
	if (needs_swap(n)) {
		const char *at = msl_address(m, n, "atomic_uint");
		return arena_printf(m->mem, "%s(%s, %s)", msl_helper(m, HELPER_ADD_SHARED), at, msl_expr(m, n->in,
		    1).text);
	}
	const char *type = c == C_FLOAT ? "atomic_float" : c == C_INT ? "atomic_int" : "atomic_uint";
	const char *at = msl_address(m, n, type);
	Expr v = msl_as(m, msl_expr(m, n->in, 1), c, 1);
	return arena_printf(m->mem, "atomic_%s_explicit(%s, %s, memory_order_relaxed)", atomic_name[n->t->op], at, v.text);
}

void
msl_atomic_text(Msl *m, MslNode *n)
{
	CType c = atomic_type(n);
	RegType t = n->t->at->type;
	bool possible = n->t->at->n == 1 && (t == REG_I32 || (t == REG_F32 && n->t->op == ATOMIC_ADD));
	if (!possible) {
		msl_cannot(m, n->t->place, arena_printf(m->mem, "an atomic operation on %s", reg_type_text[t]));
		n->name = "0";
		return;
	}
	const char *mask = n->t->at->mask ? msl_bool(m, n->t->at->mask, P_SELECT) : NULL, *s = atomic_call(m, n, c);
	if (n->uses == 0) {
		if (mask)
			msl_say(m, "if (%s)", mask);
		m->indent += mask != NULL;
		msl_say(m, "%s;", s);
		m->indent -= mask != NULL;
		return;
	}
	Expr x = {.text = s, .strength = P_NAME, .width = 1, .c = c};
	if (!mask) {
		msl_declare(m, n, x);
		return;
	}
	x.text = c == C_FLOAT ? "0.0f" : "0";
	msl_declare(m, n, x);
	msl_say(m, "if (%s)", mask);
	m->indent++;
	msl_say(m, "%s = %s;", n->name, s);
	m->indent--;
}
