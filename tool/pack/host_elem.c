/* Elements as C: what a dtype is, constants, casts, and each elementwise op as an expression.
 *
 * Floats below f32 are computed with as f32 and rounded by each op that rounds, as the cpu device
 * does; integers wrap, in an unsigned type of at least 32 bits; four bits stand in a byte. */
#include "tool/pack/host.h"

#include "num/num.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const c_types[DTYPE_COUNT] = {[TY_BOOL] = "uint8_t", [TY_I8] = "int8_t", [TY_I16] = "int16_t",
	[TY_I32] = "int32_t", [TY_I64] = "int64_t", [TY_U8] = "uint8_t", [TY_U16] = "uint16_t", [TY_U32] = "uint32_t",
	[TY_U64] = "uint64_t", [TY_F16] = "float", [TY_BF16] = "float", [TY_F32] = "float", [TY_F64] = "double",
	[TY_F8E4M3] = "float", [TY_F8E5M2] = "float", [TY_I4] = "int8_t", [TY_U4] = "uint8_t", [TY_F4E2M1] = "float"};

const char *
host_type(const Type *t)
{
	return t->ptr ? "uintptr_t" : c_types[t->elem];
}

static int
bits_of(DType t)
{
	return MAX(dtype_info[t].bits, 8);
}

static const char *
float_literal(Host *h, DType t, double v)
{
	char text[48];
	if (isnan(v))
		return "NAN";
	if (isinf(v))
		return v < 0 ? "(-INFINITY)" : "INFINITY";
	number_format(text, sizeof text, "%.*g", t == TY_F64 ? 17 : 9, v);
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
	return arena_printf(h->mem, signbit(v) ? "(%s%s)" : "%s%s", text, t == TY_F64 ? "" : "f");
}

static const char *
int_literal(Host *h, DType t, int64_t v)
{
	if (t == TY_U64)
		return arena_printf(h->mem, "UINT64_C(%" PRIu64 ")", (uint64_t)v);
	if (v == INT64_MIN)
		return "(-INT64_C(9223372036854775807) - 1)";
	if (bits_of(t) == 64)
		return arena_printf(h->mem, v < 0 ? "(-INT64_C(%" PRId64 "))" : "INT64_C(%" PRId64 ")", v < 0 ? -v : v);
	return arena_printf(h->mem, "((%s)INT64_C(%" PRId64 "))", c_types[t], v);
}

/* As the type has it: 0.1 of an f16 is not 0.1. */
const char *
host_literal(Host *h, DType t, const Attr *a)
{
	char memory[8] = {0};
	bool is_float = a->kind == KIND_FLOAT || (dtype_is_packed(t) && dtype_is_float(t));
	if (is_float)
		dtype_store_f64(t, memory, 0, a->f);
	else
		dtype_store_i64(t, memory, 0, a->i);
	return dtype_is_float(t) ? float_literal(h, t, dtype_load_f64(t, memory, 0))
				 : int_literal(h, t, dtype_load_i64(t, memory, 0));
}

/* ---- casts ---- */

static const char *
wrapped(Host *h, DType t, const char *a)
{
	switch (t) {
	case TY_I4: return arena_printf(h->mem, "tgh_wrap_i4((uint64_t)(%s))", a);
	case TY_U4: return arena_printf(h->mem, "(uint8_t)((%s) & 15)", a);
	case TY_BOOL: return arena_printf(h->mem, "(uint8_t)((%s) & 1)", a);
	default: return arena_printf(h->mem, "(%s)(%s)", c_types[t], a);
	}
}

const char *
host_rounded(Host *h, DType t, const char *a)
{
	return dtype_is_narrow(t) ? arena_printf(h->mem, "tgh_round_%s(%s)", dtype_info[t].text, a) : a;
}

static const char *
float_of_int(Host *h, DType from, DType to, const char *a)
{
	if (!dtype_is_narrow(to))
		return arena_printf(h->mem, "(%s)(%s)", c_types[to], a);
	if (bits_of(from) == 64)
		return arena_printf(h->mem, "tgh_cut_%s(tgh_odd_%s(%s))", dtype_info[to].text, dtype_info[from].text, a);
	return arena_printf(h->mem, "tgh_cut_%s((double)(%s))", dtype_info[to].text, a);
}

const char *
host_cast(Host *h, DType from, DType to, const char *a)
{
	if (from == to)
		return a;
	if (to == TY_BOOL)
		return arena_printf(h->mem, "(uint8_t)((%s) != 0)", a);
	if (dtype_is_float(from) && !dtype_is_float(to))
		return arena_printf(h->mem, "tgh_to_%s(%s)", dtype_info[to].text, a);
	if (!dtype_is_float(to))
		return wrapped(h, to, a);
	if (!dtype_is_float(from))
		return float_of_int(h, from, to, a);
	if (!dtype_is_narrow(to))
		return arena_printf(h->mem, "(%s)(%s)", c_types[to], a);
	return arena_printf(h->mem, from == TY_F64 ? "tgh_cut_%s(%s)" : "tgh_round_%s(%s)", dtype_info[to].text, a);
}

static const char *
bitcast(Host *h, DType from, DType to, const char *a)
{
	if (from == to)
		return a;
	if (dtype_is_float(from))
		a = arena_printf(h->mem, "tgh_bits_%s(%s)", dtype_info[from].text, a);
	else
		a = arena_printf(h->mem, "(uint%d_t)(%s)", bits_of(from), a);
	return dtype_is_float(to) ? arena_printf(h->mem, "tgh_wide_%s(%s)", dtype_info[to].text, a) : wrapped(h, to, a);
}

/* ---- arithmetic ---- */

/* $1 and $2 are operands, $3 the ending of a function of libm, $4 a dtype. */
static const char *const float_ops[OP_COUNT] = {
	[OP_NEG] = "(-($1))", [OP_ABS] = "fabs$3($1)", [OP_EXP] = "exp$3($1)", [OP_EXP2] = "exp2$3($1)",
	[OP_EXPM1] = "expm1$3($1)", [OP_LOG] = "log$3($1)", [OP_LOG2] = "log2$3($1)",
	[OP_LOG1P] = "log1p$3($1)", [OP_SQRT] = "sqrt$3($1)", [OP_RSQRT] = "(1 / sqrt$3($1))",
	[OP_SIN] = "sin$3($1)", [OP_COS] = "cos$3($1)", [OP_TAN] = "tan$3($1)", [OP_SINH] = "sinh$3($1)",
	[OP_COSH] = "cosh$3($1)", [OP_TANH] = "tanh$3($1)", [OP_ASIN] = "asin$3($1)",
	[OP_ACOS] = "acos$3($1)", [OP_ATAN] = "atan$3($1)", [OP_ERF] = "erf$3($1)",
	[OP_SIGMOID] = "(1 / (1 + exp$3(-($1))))", [OP_FLOOR] = "floor$3($1)", [OP_CEIL] = "ceil$3($1)",
	[OP_ROUND] = "rint$3($1)", [OP_TRUNC] = "trunc$3($1)", [OP_ADD] = "(($1) + ($2))",
	[OP_SUB] = "(($1) - ($2))", [OP_MUL] = "(($1) * ($2))", [OP_DIV] = "(($1) / ($2))",
	[OP_REM] = "fmod$3($1, $2)", [OP_POW] = "pow$3($1, $2)", [OP_ATAN2] = "atan2$3($1, $2)",
	[OP_MIN] = "tgh_min_$4($1, $2)", [OP_MAX] = "tgh_max_$4($1, $2)"};

/* $1 and $2 are operands, $3 the unsigned type that is computed in, $4 "" or "u", $5 the unsigned type of the
 * element, $6 its bits. */
static const char *const int_ops[OP_COUNT] = {
	[OP_NEG] = "($3)0 - ($3)($1)", [OP_NOT] = "~($3)($1)", [OP_ADD] = "($3)($1) + ($3)($2)",
	[OP_SUB] = "($3)($1) - ($3)($2)", [OP_MUL] = "($3)($1) * ($3)($2)",
	[OP_AND] = "($3)($1) & ($3)($2)", [OP_OR] = "($3)($1) | ($3)($2)",
	[OP_XOR] = "($3)($1) ^ ($3)($2)", [OP_DIV] = "tgh_div$4($1, $2)", [OP_REM] = "tgh_rem$4($1, $2)",
	[OP_FLOORDIV] = "tgh_floor$4($1, $2)", [OP_CDIV] = "tgh_ceil$4($1, $2)",
	[OP_SHL] = "tgh_shl((uint64_t)($1), ($5)($2), $6)", [OP_SHR] = "tgh_shr$4($1, ($5)($2), $6)",
	[OP_POPCOUNT] = "__builtin_popcountll(($5)($1))", [OP_CLZ] = "tgh_clz(($5)($1), $6)",
	[OP_UMULHI] = "tgh_mulhi(($5)($1), ($5)($2), $6)", [OP_MIN] = "($1) < ($2) ? ($1) : ($2)",
	[OP_MAX] = "($1) > ($2) ? ($1) : ($2)"};

static const char *const compares[OP_COUNT] = {[OP_EQ] = "==", [OP_NE] = "!=", [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">",
	[OP_GE] = ">="};

/* $1, $2 … of a row above become the texts in `word`. */
static const char *
filled(Host *h, const char *row, const char *const *word)
{
	Text t = {0};
	for (; *row; row++) {
		if (*row == '$')
			text_put(&t, word[*++row - '1']);
		else
			text_putn(&t, row, 1);
	}
	return text_take(&t, h->mem);
}

static const char *
float_op(Host *h, OpKind kind, DType t, bool nan, const char *a, const char *b)
{
	bool wide = t == TY_F64;
	const char *const word[] = {a, b, wide ? "" : "f", nan ? wide ? "nan_f64" : "nan_f32" : wide ? "f64" : "f32"};
	if (!float_ops[kind])
		return NULL;
	const char *e = filled(h, float_ops[kind], word);
	return op_info[kind].rounding == ROUNDING_EXACT ? e : host_rounded(h, t, e);
}

static const char *
int_op(Host *h, OpKind kind, DType t, const char *a, const char *b)
{
	bool is_signed = dtype_is_signed(t);
	if (kind == OP_ABS)
		return is_signed ? wrapped(h, t, arena_printf(h->mem, "tgh_abs(%s)", a)) : a;
	if (kind == OP_NOT && t == TY_BOOL)
		return arena_printf(h->mem, "(uint8_t)!(%s)", a);
	if (!int_ops[kind])
		return NULL;
	const char *const word[] = {a, b, bits_of(t) == 64 ? "uint64_t" : "uint32_t", is_signed ? "" : "u",
		arena_printf(h->mem, "uint%d_t", bits_of(t)), arena_printf(h->mem, "%d", bits_of(t))};
	return wrapped(h, t, filled(h, int_ops[kind], word));
}

const char *
host_binary(Host *h, OpKind kind, DType t, bool nan, const char *a, const char *b)
{
	if (compares[kind])
		return arena_printf(h->mem, "(uint8_t)((%s) %s (%s))", a, compares[kind], b);
	return dtype_is_float(t) ? float_op(h, kind, t, nan, a, b) : int_op(h, kind, t, a, b);
}

/* ---- ops ---- */

static const char *
lookup(Host *h, const Op *op, const char *a)
{
	const IntList *bits = attr_bits(op);
	DType t = op->out[0].type->elem;
	const char *name = arena_printf(h->mem, "tgp_table_%s_%d", h->name, h->names++);
	text_printf(&h->tables, "static const %s %s[] = {", c_types[t], name);
	for (int i = 0; i < bits->n; i++) {
		uint64_t word = (uint64_t)bits->at[i];
		bool is_float = dtype_is_float(t);
		text_printf(&h->tables, "%s%s", i ? ", " : "", is_float ? float_literal(h, t, dtype_load_f64(t, &word, 0))
								      : int_literal(h, t, dtype_load_i64(t, &word, 0)));
	}
	text_put(&h->tables, "};\n");
	const char *at = arena_printf(h->mem, "(int64_t)(%s)", a);
	return arena_printf(h->mem, "(%s >= 0 && %s < %d ? %s[%s] : 0)", at, at, bits->n, name, at);
}

static const char *
of_pointers(Host *h, const Op *op, const char *const *in)
{
	int size = dtype_tile_size(op->in[0]->type->elem);
	if (op->kind == OP_PTR_ADD)
		return arena_printf(h->mem, "(%s) + (uintptr_t)((int64_t)(%s) * %d)", in[0], in[1], size);
	return arena_printf(h->mem, "((int64_t)((%s) - (%s)) / %d)", in[0], in[1], size);
}

const char *
host_elem(Host *h, const Op *op, const char *const *in)
{
	DType t = op->in[0]->type->elem, to = op->out[0].type->elem;
	switch (op->kind) {
	case OP_CAST: return host_cast(h, t, to, in[0]);
	case OP_BITCAST: return bitcast(h, t, to, in[0]);
	case OP_LOOKUP: return lookup(h, op, in[0]);
	case OP_PTR_ADD: case OP_PTR_DIFF: return of_pointers(h, op, in);
	case OP_SELECT: return arena_printf(h->mem, "(%s) ? (%s) : (%s)", in[0], in[1], in[2]);
	case OP_FMA:
		return host_rounded(h, to,
		    arena_printf(
			h->mem, "fma%s(%s, %s, %s)", to == TY_F64 ? "" : "f", in[0], in[1], in[2]));
	default: return host_binary(h, op->kind, t, attr_propagate_nan(op), in[0], op->nin > 1 ? in[1] : "");
	}
}
