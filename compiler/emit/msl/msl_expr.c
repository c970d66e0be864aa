/* Expressions: a register as an operand.
 *
 * An expression has a C type and a precedence; brackets are written only where they are needed, or where
 * a reader would have to think (bits and shifts). */
#include "emit/msl/msl.h"

#include <math.h>
#include <string.h>

const char *const c_text[] = {"bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float", "device uchar *", "threadgroup uchar *"};

CType
c_plain(RegType t)
{
	static const CType c[REG_TYPES] = {
		[REG_PRED] = C_BOOL, [REG_I8] = C_UCHAR, [REG_I16] = C_USHORT, [REG_I32] = C_UINT, [REG_I64] = C_ULONG,
		[REG_F16] = C_HALF, [REG_BF16] = C_BFLOAT, [REG_F32] = C_FLOAT, [REG_F64] = C_FLOAT,
		    [REG_GLOBAL] = C_DEVICE,
		[REG_SHARED] = C_THREADGROUP,
	};
	return c[t];
}

bool
c_is_signed(CType c)
{
	return c == C_CHAR || c == C_SHORT || c == C_INT || c == C_LONG;
}

static bool
c_is_int(CType c)
{
	return c >= C_CHAR && c <= C_ULONG;
}

const char *
c_vector(Msl *m, CType c, int width)
{
	return width > 1 ? arena_printf(m->mem, "%s%d", c_text[c], width) : c_text[c];
}

const char *
msl_wrap(Msl *m, Expr x, int strength)
{
	return x.strength < strength ? arena_printf(m->mem, "(%s)", x.text) : x.text;
}

/* ---- constants ---- */

static const char *
int_text(Msl *m, int64_t v, CType c)
{
	bool wide = c == C_LONG || c == C_ULONG;
	const char *end = c == C_UINT ? "u" : c == C_LONG ? "L" : c == C_ULONG ? "ul" : "";
	uint64_t bits = c == C_UINT ? (uint32_t)v : (uint64_t)v;
	if (c_is_signed(c) && (v == INT64_MIN || (c == C_INT && v == INT32_MIN)))
		return wide ? "(-9223372036854775807L - 1)" : "(-2147483647 - 1)";
	if (!c_is_signed(c))
		return arena_printf(m->mem, bits >= 65536 && (bits & (bits - 1)) ? "0x%llx%s" : "%llu%s",
		    (unsigned long long)bits, end);
	return arena_printf(m->mem, "%lld%s", (long long)v, wide && v == (int32_t)v && end[0] == 'L' ? "L" : end);
}

static Expr
int_literal(Msl *m, int64_t v, CType c)
{
	return (Expr){int_text(m, v, c), v < 0 && c_is_signed(c) ? P_UNARY : P_NAME, 1, c, true, v};
}

static const char *
float_text(Msl *m, double v)
{
	if (isnan(v))
		return "NAN";
	if (isinf(v))
		return v < 0 ? "-INFINITY" : "INFINITY";
	char *s = arena_printf(m->mem, "%.9g", v);
	for (int digits = 1; digits < 9; digits++) {    /* the shortest that reads back the same */
		char *shorter = arena_printf(m->mem, "%.*g", digits, v);
		if ((float)number_read(shorter, NULL) == (float)v) {
			s = shorter;
			break;
		}
	}
	return strpbrk(s, ".e") ? s : arena_printf(m->mem, "%s.0", s);
}

Expr
msl_literal(Msl *m, const ThreadNode *n)
{
	Expr x = {.strength = P_NAME, .width = 1, .c = c_plain(n->type)};
	switch (n->type) {
	case REG_PRED:
		x.text = n->i ? "true" : "false";
		return x;
	case REG_I8: case REG_I16:
		return int_literal(m, n->type == REG_I8 ? (uint8_t)n->i : (uint16_t)n->i, C_INT);
	case REG_I32:
		return int_literal(m, n->i, C_INT);
	case REG_I64:
		return int_literal(m, n->i, C_LONG);
	case REG_GLOBAL: case REG_SHARED:
		x.text = arena_printf(m->mem, "(%s)%lld", c_text[x.c], (long long)n->i);
		x.strength = P_UNARY;
		return x;
	default:
		break;
	}
	const char *s = float_text(m, n->f);
	bool finite = isfinite(n->f);
	if (n->type == REG_F32 || n->type == REG_F64)
		x.text = finite ? arena_printf(m->mem, "%sf", s) : s;
	else if (n->type == REG_F16 && finite)
		x.text = arena_printf(m->mem, "%sh", s);
	else
		x.text = arena_printf(m->mem, "%s(%s%s)", c_text[x.c], s, finite ? "f" : "");
	x.strength = x.text[0] == '-' ? P_UNARY : P_NAME;
	return x;
}

/* ---- conversions of expressions ---- */

Expr
msl_as(Msl *m, Expr x, CType c, int width)
{
	if (x.c == c && x.width == width && !(x.is_literal && c == C_LONG && !strchr(x.text, 'L')))
		return x;
	if (x.is_literal && c >= C_INT && c <= C_ULONG && width == 1)
		return int_literal(m, c == C_UINT ? (int64_t)(uint32_t)x.v : x.v, c);
	bool bits = x.width == width && width > 1 && c_is_int(c) && c_is_int(x.c) && (x.c + 1) / 2 == (c + 1) / 2;
	return (Expr){arena_printf(m->mem, bits ? "as_type<%s>(%s)" : "%s(%s)", c_vector(m, c, width), x.text), P_NAME,
		width, c, false, 0};
}

Expr
msl_signed(Msl *m, Reg r, bool want_signed)
{
	Expr x = msl_expr(m, &r, 1);
	if (x.is_literal && (want_signed || x.v >= 0))
		return x;
	if (c_is_signed(x.c) == want_signed || msl_never_negative(m, r))
		return x;
	CType c = want_signed ? (CType)(x.c - 1) : (CType)(x.c + 1);
	return msl_as(m, x, c, x.width);
}

const char *
msl_bool(Msl *m, Reg r, int strength)
{
	return msl_wrap(m, msl_expr(m, &r, 1), strength);
}

/* ---- lanes ---- */

static const char lane_name[] = "xyzw";

static Expr
component(Msl *m, MslNode *n, int at, int w)
{
	if (n->tile && n->kind == NODE_PRIM && n->type == REG_I32) {     /* the pair as a word */
		const char *pair = n->t->imm[2] == TY_F16 ? "half2" : "bfloat2";
		return (Expr){arena_printf(m->mem,
		    "as_type<uint>(%s(%s.thread_elements()[0], %s.thread_elements()[1]))", pair,
			n->tile, n->tile), P_NAME, 1, C_UINT, false, 0};
	}
	if (n->tile && n->kind != NODE_PACK && w == 1)
		return (Expr){arena_printf(m->mem, "%s.thread_elements()[%d]", n->tile,
		    n->kind == NODE_CARRIED ? n->which & 1 : at), P_NAME,
			1, C_FLOAT, false, 0};
	Expr x = msl_node_expr(m, n);
	if (n->width == w)
		return x;
	if (n->width > 4)
		return n->kind == NODE_LOAD ? msl_wide_lanes(m, n, at, w) : (Expr){arena_printf(m->mem,
		    "uchar(%s >> %d & 15u)", msl_bool(m, n->in[0], P_SHIFT), 4 * at), P_NAME, 1, C_UCHAR, false, 0};
	if (n->type == REG_BF16 && w == 2)
		x.text = arena_printf(m->mem, "bfloat2(%s.%c, %s.%c)", x.text, lane_name[at], x.text, lane_name[at + 1]);
	else
		x.text = arena_printf(m->mem, "%s.%.*s", msl_wrap(m, x, P_NAME), w, lane_name + at);
	x.strength = P_NAME;
	x.width = w;
	return x;
}

/* A vector of different things. */
static Expr
constructed(Msl *m, const Reg *r, int n)
{
	Text t = {0};
	Expr x = {.strength = P_NAME, .width = n};
	for (int i = 0; i < n; i++) {
		Expr lane = msl_expr(m, r + i, 1);
		CType c = c_plain(msl_type(m, r[i]));
		x.c = c;
		text_printf(&t, "%s%s", i ? ", " : "", lane.is_literal ? lane.text : msl_as(m, lane, c, 1).text);
	}
	x.text = arena_printf(m->mem, "%s(%s)", c_vector(m, x.c, n), t.at);
	text_close(&t);
	return x;
}

bool
msl_is_splat(const Reg *r, int n)
{
	return ALL_FROM(i, 1, n, r[i] == r[0]);
}

bool
msl_is_sequence(const Msl *m, const Reg *r, int n)
{
	return ALL_FROM(i, 1, n, msl_def(m, r[i]) == msl_def(m, r[0]) &&
	    msl_at(m, r[i]) == msl_at(m, r[0]) + i);
}

Expr
msl_expr(Msl *m, const Reg *r, int n)
{
	MslNode *first = msl_def(m, r[0]);
	if (n > 1 && msl_is_splat(r, n))
		return msl_expr(m, r, 1);
	if (n == 1 || (msl_is_sequence(m, r, n) && !first->tile))
		return component(m, first, msl_at(m, r[0]), n);
	return constructed(m, r, n);
}

/* ---- nodes ---- */

static Expr
pack_expr(Msl *m, const MslNode *n)
{
	Expr x = {.strength = P_NAME, .width = 1, .c = C_UINT};
	if (n->nin <= 4) {
		Expr v = msl_expr(m, n->in, n->nin);
		CType c = c_plain(msl_type(m, n->in[0]));
		v = msl_as(m, v, c, n->nin);
		x.text = arena_printf(m->mem, "as_type<uint>(%s)", v.text);
		return x;
	}
	Text t = {0};
	for (int i = 0; i < n->nin; i++) {
		Expr v = msl_expr(m, n->in + i, 1);
		text_printf(&t, i ? " | (uint(%s) & 15u) << %d" : "(uint(%s) & 15u)", v.text, 4 * i);
	}
	x.text = msl_arena_text(m, &t);
	x.strength = P_OR;
	return x;
}

static Expr
unpack_expr(Msl *m, const MslNode *n)
{
	CType c = c_plain(n->type);
	Expr word = msl_expr(m, n->in, 1);
	Expr x = {.strength = P_NAME, .width = n->width, .c = c};
	x.text = arena_printf(m->mem, "as_type<%s>(%s)", c_vector(m, c, n->width), word.text);
	if (n->width > 4)                               /* its lanes say the rest */
		x.text = word.text;
	return x;
}

static Expr
call_expr(Msl *m, const MslNode *n)
{
	Text t = {0};
	int w = n->width;
	CType c = c_plain(n->type);
	for (int i = 0; i < m->t->functions.n; i++)
		m->widths[i] |= m->t->functions.at[i] == n->t->function ? w : 0;
	text_printf(&t, "%s(", n->t->text);
	for (int k = 0; k < n->nin / w; k++)
		text_printf(&t, "%s%s", k ? ", " : "", msl_as(m, msl_expr(m, n->in + k * w, w), c, w).text);
	text_put(&t, ")");
	return msl_made(msl_arena_text(m, &t), P_NAME, w, c);
}

/* Variables of integers keep the sign that their expression had; see msl_declare. */
static Expr
named(const MslNode *n)
{
	return (Expr){n->name, P_NAME, n->width, (CType)n->c, false, 0};
}

Expr
msl_node_expr(Msl *m, MslNode *n)
{
	if (n->type == REG_GLOBAL || n->type == REG_SHARED) {
		if (n->kind == NODE_POINTER || n->name)
			return msl_pointer_expr(m, n);
	} else if (n->name) {
		return named(n);
	}
	switch (n->kind) {
	case NODE_CONST: return msl_literal(m, n->t);
	case NODE_OP: return msl_shortened(m, n, msl_op_expr(m, n));
	case NODE_CAST: return msl_shortened(m, n, msl_cast_expr(m, n));
	case NODE_PACK: return pack_expr(m, n);
	case NODE_UNPACK: return unpack_expr(m, n);
	case NODE_LOOKUP: return msl_shortened(m, n, msl_lookup_expr(m, n));
	case NODE_CALL: return msl_shortened(m, n, call_expr(m, n));
	case NODE_PRIM: return msl_prim_expr(m, n);
	default: die("a value of kind %d that has no name", n->kind);
	}
}
