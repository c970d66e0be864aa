/* Ops on whole tiles: products, reductions, scans, sorting, gathers and scatters.
 *
 * A tile is seen as [outer, n, inner] around the axis of an op.  Sums and products of floats run in double and are rounded
 * once, matrix products in float, row by row of b, so that C compilers make vectors of them. */
#include "tool/pack/host.h"

#include "num/num.h"

#include <string.h>

typedef struct Lines {
	int outer, n, inner;
} Lines;

static Lines
axis_of(const Type *t, int axis)
{
	Lines a = {1, (int)t->extent[axis], 1};
	for (int d = 0; d < t->rank; d++) {
		a.outer *= d < axis ? (int)t->extent[d] : 1;
		a.inner *= d > axis ? (int)t->extent[d] : 1;
	}
	return a;
}

static const char *
scalar_type(DType t)
{
	const Type scalar = {.kind = TYPE_TILE, .elem = t};
	return host_type(&scalar);
}

static void
cat(Host *h, const Op *op)
{
	const Type *out = op->out[0].type;
	int axis = (int)attr_axis(op), from = 0;
	const Lines to = axis_of(out, axis);
	host_declare(h, &op->out[0]);
	for (int k = 0; k < op->nin; k++) {
		const Lines x = axis_of(op->in[k]->type, axis);
		host_open(h, "for (int i = 0; i < %d; i++)", x.outer * x.n * x.inner);
		const char *e = host_at(h, op->in[k], "i");
		const char *at = arena_printf(h->mem, "i / %d * %d + %d + i %% %d", x.n * x.inner,
		    to.n * to.inner, from * x.inner, x.n * x.inner);
		host_line(h, "%s = %s;", host_to(h, &op->out[0], at), e);
		host_close(h);
		from += x.n;
	}
}

static void
philox(Host *h, const Op *op)
{
	for (int k = 0; k < 4; k++)
		host_declare(h, &op->out[k]);
	const char *seed = host_scalar(h, op->in[0]);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(op->in[1]->type));
	host_line(h, "uint32_t w[4];");
	const char *offset = host_at(h, op->in[1], "i");
	host_line(h, "tgh_philox((uint64_t)(%s), (uint64_t)(int64_t)(%s), w);", seed, offset);
	for (int k = 0; k < 4; k++)
		host_line(h, "%s = w[%d];", host_to(h, &op->out[k], "i"), k);
	host_close(h);
}

/* ---- products ---- */

/* An operand in the type that is computed in. */
static const char *
operand(Host *h, const Value *v, const char *type, const char *convert)
{
	if (!*convert && strcmp(host_type(v->type), type) == 0)
		return host_dense(h, v);
	const char *to = host_array(h, type, type_count(v->type));
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(v->type));
	const char *e = host_at(h, v, "i");
	host_line(h, "%s[i] = %s((%s)(%s));", to, convert, type, e);
	host_close(h);
	return to;
}

static void
multiply(Host *h, const Op *op, const char *a, const char *b, int last, const char *type)
{
	const Value *acc = op->in[last], *out = &op->out[0];
	const Type *x = op->in[0]->type, *y = op->in[op->kind == OP_DOT_SCALED ? 2 : 1]->type;
	int m = (int)x->extent[x->rank - 2], k = (int)x->extent[x->rank - 1], n = (int)y->extent[y->rank - 1];
	int rows = (int)(type_count(x) / k);
	DType t = out->type->elem;
	host_declare(h, out);
	const char *sum = dtype_is_narrow(t) ? host_array(h, type, type_count(out->type)) : h->value[out->id].name;
	host_open(h, "for (int i = 0; i < %d; i++)", rows * n);
	const char *e = host_at(h, acc, "i");
	host_line(h, "%s[i] = %s;", sum, e);
	host_close(h);
	host_open(h, "for (int i = 0; i < %d; i++)", rows);
	host_open(h, "for (int k = 0; k < %d; k++)", k);
	host_line(h, "const %s x = %s[i * %d + k];", type, a, k);
	host_open(h, "for (int j = 0; j < %d; j++)", n);
	const char *product = arena_printf(h->mem, "x * %s[(i / %d * %d + k) * %d + j]", b, m, k, n);
	if (dtype_is_float(t))
		host_line(h, "%s[i * %d + j] += %s;", sum, n, product);
	else
		host_line(h, "%s[i * %d + j] = (%s)((%s)%s[i * %d + j] + %s);", sum, n,
		    host_type(out->type), type, sum, n, product);
	host_close(h), host_close(h), host_close(h);
	if (!dtype_is_narrow(t))
		return;
	host_open(h, "for (int i = 0; i < %d; i++)", rows * n);
	host_line(h, "%s = %s;", host_to(h, out, "i"), host_rounded(h, t, arena_printf(h->mem, "%s[i]", sum)));
	host_close(h);
}

static void
dot(Host *h, const Op *op)
{
	DType t = op->out[0].type->elem;
	bool tf32 = strcmp(attr_precision(op), "tf32") == 0;
	const char *type = t == TY_F64                ? "double"
			   : dtype_is_float(t)        ? "float"
			   : dtype_info[t].bits == 64 ? "uint64_t"
						      : "uint32_t";
	const char *a = operand(h, op->in[0], type, tf32 && op->in[0]->type->elem == TY_F32 ? "tgh_tf32" : "");
	const char *b = operand(h, op->in[1], type, tf32 && op->in[1]->type->elem == TY_F32 ? "tgh_tf32" : "");
	multiply(h, op, a, b, 2, type);
}

/* v[rows, columns] times its scales; of b, whose columns have them, `by_column`. */
static const char *
scaled(Host *h, const Value *v, const Value *scale, int block, bool by_column)
{
	const Type *t = v->type;
	int rows = (int)t->extent[t->rank - 2], columns = (int)t->extent[t->rank - 1], k = by_column ? rows : columns;
	int blocks = (k + block - 1) / block, lines = by_column ? columns : rows;
	const char *to = host_array(h, "float", type_count(t));
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(t));
	const char *e = host_at(h, v, "i");
	host_line(h, "const int r = i / %d %% %d, c = i %% %d, z = i / %d;", columns, rows, columns, rows * columns);
	host_line(h, "const int s = (z * %d + %s) * %d + %s / %d;", lines, by_column ? "c" : "r",
	    blocks, by_column ? "r" : "c", block);
	const char *by = host_at(h, scale, "s");
	host_line(h,
	    scale->type->elem == TY_U8 ? "%s[i] = (float)(%s) * tgh_e8m0(%s);"
				       : "%s[i] = (float)(%s) * (float)(%s);",
	    to, e, by);
	host_close(h);
	return to;
}

static void
dot_scaled(Host *h, const Op *op)
{
	int block = (int)attr_block(op);
	const char *a = scaled(h, op->in[0], op->in[1], block, false), *b = scaled(h, op->in[2], op->in[3], block, true);
	multiply(h, op, a, b, 4, op->out[0].type->elem == TY_F64 ? "double" : "float");
}

/* ---- reductions and scans ---- */

static OpKind
fn_op(const char *fn)
{
	static const struct {
		const char *fn;
		OpKind op;
	} ops[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"min", OP_MIN}, {"any", OP_OR}, {"all", OP_AND},
		{"xor_sum", OP_XOR}, {"add", OP_ADD}, {"and", OP_AND}, {"or", OP_OR}, {"xor", OP_XOR}};
	return VALUE_OF(i, LEN(ops), strcmp(ops[i].fn, fn) == 0, ops[i].op, OP_COUNT);
}

/* Opens the loops over lines of a tile; q is a line, x its first element. */
static void
open_lines(Host *h, const Lines *a)
{
	host_open(h, "for (int q = 0; q < %d; q++)", a->outer * a->inner);
	host_line(h, "const int x = q / %d * %d + q %% %d;", a->inner, a->n * a->inner, a->inner);
}

/* z is element k of the line in the order of a scan. */
static void
put_step(Host *h, const Op *op, const Lines *a)
{
	if (attr_reverse(op))
		host_line(h, "const int z = x + (%d - k) * %d;", a->n - 1, a->inner);
	else
		host_line(h, "const int z = x + k * %d;", a->inner);
}

/* Element z of a tile; one that is the same everywhere does not say z. */
static const char *
element(Host *h, const Value *tile)
{
	const char *other = host_at(h, tile, "0"), *e = host_at(h, tile, "z");
	if (strcmp(e, other) == 0)
		host_line(h, "(void)z;");
	return e;
}

static DType
work_type(const Op *op, OpKind kind)
{
	DType t = op->out[0].type->elem;
	bool sums = kind == OP_ADD || kind == OP_MUL || kind == OP_XOR;
	if (!sums)
		return op->in[0]->type->elem;
	return dtype_is_float(t) ? TY_F64 : t;
}

static void
reduce_arg(Host *h, const Op *op, const Lines *a)
{
	const Value *out = &op->out[0];
	DType t = op->in[0]->type->elem;
	bool is_max = strcmp(attr_fn(op), "argmax") == 0, is_float = dtype_is_float(t);
	open_lines(h, a);
	host_line(h, "%s best = 0;", host_type(op->in[0]->type));
	host_line(h, "int where = 0;");
	host_open(h, "for (int k = 0; k < %d; k++)", a->n);
	host_line(h, "const int z = x + k * %d;", a->inner);
	const char *e = element(h, op->in[0]), *wins = is_max ? "v > best" : "v < best";
	host_line(h, "const %s v = %s;", host_type(op->in[0]->type), e);
	if (is_float && attr_propagate_nan(op))
		wins = arena_printf(h->mem, "!(best != best) && (v != v || %s)", wins);
	else if (is_float)
		wins = arena_printf(h->mem, "(best != best && !(v != v)) || %s", wins);
	host_open(h, "if (k == 0 || (%s))", wins);
	host_line(h, "best = v;");
	host_line(h, "where = k;");
	host_close(h), host_close(h);
	host_line(h, "%s = (%s)where;", host_to(h, out, "q"), host_type(out->type));
	host_close(h);
}

/* A line's result, or what each of its steps has come to. */
static void
join_lines(Host *h, const Op *op)
{
	const Value *out = &op->out[0];
	const Lines a = axis_of(op->in[0]->type, (int)attr_axis(op));
	bool scans = op->kind == OP_SCAN;
	host_declare(h, out);
	if (strncmp(attr_fn(op), "arg", 3) == 0) {
		reduce_arg(h, op, &a);
		return;
	}
	OpKind kind = fn_op(attr_fn(op));
	bool is_bool = strcmp(attr_fn(op), "any") == 0 || strcmp(attr_fn(op), "all") == 0;
	DType in = op->in[0]->type->elem, work = is_bool ? TY_BOOL : work_type(op, kind);
	open_lines(h, &a);
	host_line(h, "%s r = 0;", scalar_type(work));
	host_open(h, "for (int k = 0; k < %d; k++)", a.n);
	put_step(h, op, &a);
	const char *e = element(h, op->in[0]);
	host_line(h, "const %s v = %s;", scalar_type(work), host_cast(h, in, work, e));
	host_line(h, "r = k == 0 ? v : %s;", host_binary(h, kind, work, attr_propagate_nan(op), "r", "v"));
	if (!scans)
		host_close(h);
	host_line(h, "%s = %s;", host_to(h, out, scans ? "z" : "q"), host_cast(h, work, out->type->elem, "r"));
	if (scans)
		host_close(h);
	host_close(h);
}

/* By a region of scalars, in order. */
static void
fold(Host *h, const Op *op)
{
	const Block *b = op->region[0];
	const Lines a = axis_of(op->in[0]->type, (int)attr_axis(op));
	bool scans = op->kind == OP_SCAN_FN;
	int n = op->nin;
	for (int k = 0; k < n; k++)
		host_declare(h, &op->out[k]);
	open_lines(h, &a);
	for (int k = 0; k < 2 * n; k++)
		host_declare(h, &b->arg[k]);
	host_open(h, "for (int k = 0; k < %d; k++)", a.n);
	put_step(h, op, &a);
	for (int k = 0; k < n; k++)
		host_line(h, "%s = %s;", host_to(h, &b->arg[n + k], "0"), element(h, op->in[k]));
	host_open(h, "if (k > 0)");
	host_block(h, b);
	for (int k = 0; k < n; k++)
		host_line(h, "const %s w%d = %s;", host_type(op->in[k]->type), k, host_scalar(h, b->last->in[k]));
	for (int k = 0; k < n; k++)
		host_line(h, "%s = w%d;", host_to(h, &b->arg[k], "0"), k);
	host_close(h);
	host_open(h, "else");
	for (int k = 0; k < n; k++)
		host_line(h, "%s = %s;", host_to(h, &b->arg[k], "0"), host_to(h, &b->arg[n + k], "0"));
	host_close(h);
	for (int k = 0; k < n && scans; k++)
		host_line(h, "%s = %s;", host_to(h, &op->out[k], "z"), host_to(h, &b->arg[k], "0"));
	host_close(h);
	for (int k = 0; k < n && !scans; k++)
		host_line(h, "%s = %s;", host_to(h, &op->out[k], "q"), host_to(h, &b->arg[k], "0"));
	host_close(h);
}

/* ---- order, gather, scatter ---- */

static void
sort(Host *h, const Op *op, int keep, bool falls)
{
	const Lines a = axis_of(op->in[0]->type, (int)attr_axis(op));
	DType t = op->in[0]->type->elem;
	for (int k = 0; k < op->nout; k++)
		host_declare(h, &op->out[k]);
	const char *keys = host_array(h, "TghKey", a.n);
	open_lines(h, &a);
	host_open(h, "for (int k = 0; k < %d; k++)", a.n);
	host_line(h, "const int z = x + k * %d;", a.inner);
	const char *e = host_at(h, op->in[0], "z"), *kind = dtype_is_float(t)    ? "float"
							    : dtype_is_signed(t) ? "signed"
										 : "unsigned";
	host_line(h, "%s[k].key = %stgh_key_%s(%s);", keys, falls ? "~" : "", kind, e);
	host_line(h, "%s[k].from = k;", keys);
	host_close(h);
	host_line(h, "tgh_sort(%s, %d);", keys, a.n);
	host_open(h, "for (int k = 0; k < %d; k++)", keep);
	host_line(h, "const int z = x + %s[k].from * %d;", keys, a.inner);
	host_line(h, "const int to = (q / %d * %d + k) * %d + q %% %d;", a.inner, keep, a.inner, a.inner);
	e = host_at(h, op->in[0], "z");
	host_line(h, "%s = %s;", host_to(h, &op->out[0], "to"), e);
	if (op->nout > 1)
		host_line(h, "%s = %s[k].from;", host_to(h, &op->out[1], "to"), keys);
	host_close(h), host_close(h);
}

static void
histogram(Host *h, const Op *op)
{
	host_declare(h, &op->out[0]);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)attr_bins(op));
	host_line(h, "%s = 0;", host_to(h, &op->out[0], "i"));
	host_close(h);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(op->in[0]->type));
	const char *e = host_at(h, op->in[0], "i");
	host_line(h, "const uint64_t to = (uint64_t)(int64_t)(%s);", e);
	host_open(h, "if (to < %d)", (int)attr_bins(op));
	host_line(h, "%s++;", host_to(h, &op->out[0], "to"));
	host_close(h), host_close(h);
}

static void
gather(Host *h, const Op *op)
{
	int axis = (int)attr_axis(op), extent = (int)op->in[0]->type->extent[axis];
	const Lines a = axis_of(op->out[0].type, axis);
	host_declare(h, &op->out[0]);
	const char *dense = host_dense(h, op->in[0]);
	host_open(h, "for (int i = 0; i < %d; i++)", a.outer * a.n * a.inner);
	const char *e = host_at(h, op->in[1], "i");
	host_line(h, "const int64_t from = (int64_t)(%s);", e);
	host_line(h, "const int z = i / %d * %d + i %% %d;", a.n * a.inner, extent * a.inner, a.inner);
	host_line(h, "%s = from >= 0 && from < %d ? %s[z + (int)from * %d] : 0;",
	    host_to(h, &op->out[0], "i"), extent, dense, a.inner);
	host_close(h);
}

/* Floats below f32 are added in f32 and rounded once, when all are in. */
static void
scatter(Host *h, const Op *op)
{
	int axis = (int)attr_axis(op), extent = (int)op->in[0]->type->extent[axis];
	const Lines a = axis_of(op->in[1]->type, axis);
	const Value *out = &op->out[0];
	DType t = out->type->elem;
	bool sets = strcmp(attr_fn(op), "set") == 0, adds = strcmp(attr_fn(op), "add") == 0;
	DType work = adds && dtype_is_narrow(t) ? TY_F32 : t;
	host_declare(h, out);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(out->type));
	const char *e = host_at(h, op->in[0], "i");
	host_line(h, "%s = %s;", host_to(h, out, "i"), e);
	host_close(h);
	host_open(h, "for (int i = 0; i < %d; i++)", a.outer * a.n * a.inner);
	const char *index = host_at(h, op->in[1], "i"), *v = host_at(h, op->in[2], "i");
	host_line(h, "const int64_t to = (int64_t)(%s);", index);
	host_line(h, "const int z = i / %d * %d + i %% %d;", a.n * a.inner, extent * a.inner, a.inner);
	host_open(h, "if (to >= 0 && to < %d)", extent);
	const char *at = host_to(h, out, arena_printf(h->mem, "z + (int)to * %d", a.inner));
	host_line(h, "%s = %s;", at, sets ? v : host_binary(h, fn_op(attr_fn(op)), work, false, at, v));
	host_close(h), host_close(h);
	if (work == t)
		return;
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(out->type));
	host_line(h, "%s = tgh_round_%s(%s);", host_to(h, out, "i"), dtype_info[t].text, host_to(h, out, "i"));
	host_close(h);
}

bool
host_tile(Host *h, const Op *op)
{
	switch (op->kind) {
	case OP_CAT: cat(h, op); return true;
	case OP_PHILOX: philox(h, op); return true;
	case OP_DOT: dot(h, op); return true;
	case OP_DOT_SCALED: dot_scaled(h, op); return true;
	case OP_REDUCE: case OP_SCAN: join_lines(h, op); return true;
	case OP_REDUCE_FN: case OP_SCAN_FN: fold(h, op); return true;
	case OP_SORT: sort(h, op, (int)op->in[0]->type->extent[attr_axis(op)], attr_descending(op)); return true;
	case OP_TOPK: sort(h, op, (int)attr_k(op), true); return true;
	case OP_HISTOGRAM: histogram(h, op); return true;
	case OP_GATHER: gather(h, op); return true;
	case OP_SCATTER: scatter(h, op); return true;
	default: return false;
	}
}
