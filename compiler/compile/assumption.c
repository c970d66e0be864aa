/* What code assumes of a launch's arguments, and what a kernel's header says of its grid, noted in the function before the
 * passes run.
 *
 *     kernel softmax<BLOCK = pow2ceil(C)>(x: in f32[R, C], …) grid(row: R)
 *
 *     R = 3000: a multiple of 8          %R: dim multiple(8), and %row = program_id {axis = 0, dim = 2, per = 1}
 *     C = 4096 = BLOCK: it is 4096       constants instead of %C, and in the tensors' types
 *     C = 5120, five eighths of BLOCK    the same: the elements from 5120 on are known to be none
 *     C = 5000, between two eighths      %C: dim multiple(8) least(4097): most elements need no test
 *     w: in f16[F, C * 9], C = 64        %C: dim multiple(64) least(1, 16777215): indices along it have 31 bits
 *     i / C of tiles, C = 64             %C: dim multiple(64) least(4, 1048575): 32 bits are enough to divide
 *     h: out i32[K] = 0, K = 300         %K: dim multiple(4) least(2, 4096): what all programs add to it fits a block
 *
 * A dimension that equals a compile-time parameter made from it costs hardly a form more: the parameter's value is part
 * of the key anyhow; five, six and seven eighths cost three.  Another one's value is not taken for it, since loops over so
 * few tiles would be unrolled. */
#include "compile/compile.h"

#include "ir/derive.h"

#include <string.h>

/* Of a dimension that is unfolded, C of C * 9: such products have 31 bits. */
enum { UNFOLDED_MOST = (1 << 24) - 1, MANY_TIMES = 128 };
/* Of bins that programs add to, K of h: out i32[K] = 0: so many have room in shared memory (pass privatize). */
enum { BINS = 2, BINS_MOST = 4096 };
/* Where tiles of indices are divided by sizes: the number of elements has 30 bits, and products of three other sizes 60. */
enum { ELEMENTS = 3, ELEMENTS_MOST = (1 << 30) - 1, SIDE = 4, SIDE_MOST = (1 << 20) - 1 };

int64_t
assumption_of(uint64_t v)
{
	v |= ASSUMED_MOST;
	return (int64_t)(v & (~v + 1));
}

/* cdiv(X, n): its operands. */
static bool
is_cdiv(const Expr *e, const Expr **of, const Expr **by)
{
	if (e->kind != EX_CALL || e->a->kind != EX_NAME || e->a->scope || strcmp(e->a->name, "cdiv") != 0 ||
	    e->args.n != 2 || e->args.at[0].name || e->args.at[1].name)
		return false;
	*of = e->args.at[0].e;
	*by = e->args.at[1].e;
	return true;
}

/* cdiv(X, n) or X / n, which are the same of multiples of n. */
static bool
is_quotient(const Expr *e, const Expr **of, const Expr **by)
{
	if (e->kind != EX_BINARY || e->bin != BIN_DIV)
		return is_cdiv(e, of, by);
	*of = e->a;
	*by = e->b;
	return true;
}

static const Expr *
dim_expr(const Kernel *k, int param, int d)
{
	const KernelParam *p = &k->params.at[param];
	bool has = p->kind == PARAM_TENSOR && p->ast->type && p->ast->type->has_dims && d < p->ast->type->dims.n;

	return has ? p->ast->type->dims.at[d] : NULL;
}

/* Of K, where a tensor has cdiv(K, 128) or K / 128 rows or columns, 2048: rows of those then begin at multiples of 16
 * elements, and 16 blocks of K / 32, or of a vector with a scale for each, at a time need no test. */
static int64_t
multiple_of_parts(const Bound *b, int symbol)
{
	int64_t v = b->symbol[symbol].value.i, most = 1;
	const Expr *of, *by;

	for (int i = 0; i < b->kernel->params.n; i++)
		for (int d = 0; d < b->param[i].rank; d++) {
			const Expr *e = dim_expr(b->kernel, i, d);
			int64_t parts = e ? b->param[i].dim[d] : 0;
			bool of_symbol = parts > 0 && is_quotient(e, &of, &by) && of->kind == EX_NAME &&
			    of->name == b->symbol[symbol].name;
			if (of_symbol && v % parts == 0 && is_power_of_two(v / parts) && v / parts < INT64_C(1) << 24)
				most = MAX(most, v / parts * assumption_of((uint64_t)parts));
		}
	return most;
}

/* A row in a tile that is made for it: five to eight eighths of the tile, so that few forms differ. */
static bool
is_eighths(int64_t v, int64_t tile)
{
	return v == tile || (is_power_of_two(tile) && tile >= 8 && v < tile && v > tile / 2 && v % (tile / 8) == 0);
}

/* Of a row that ends between two eighths of a tile that is made for it, what it has at least; 0: it is none. */
static int64_t
least_eighths(int64_t v, int64_t tile)
{
	enum { SHORTEST = 64 };
	bool is = is_power_of_two(tile) && tile >= SHORTEST && tile < INT64_C(1) << 31 && v < tile && v > tile / 2;
	return is ? v / (tile / 8) * (tile / 8) + 1 : 0;
}

/* Is a tensor's dimension so many times the symbol, C * 9?  What goes along that is divided by the number again, in 64
 * bits where the symbol may have 40. */
static bool
is_unfolded(const Bound *b, int symbol)
{
	const Expr *e;
	for (int i = 0; i < b->kernel->params.n; i++)
		for (int d = 0; d < b->param[i].rank; d++) {
			bool is_product = (e = dim_expr(b->kernel, i, d)) && e->kind == EX_BINARY && e->bin == BIN_MUL;
			if (!is_product)
				continue;
			const Expr *n = e->a->kind == EX_INT ? e->a : e->b, *of = n == e->a ? e->b : e->a;
			if (n->kind == EX_INT && n->u < MANY_TIMES && !is_power_of_two((int64_t)n->u) &&
			    of->kind == EX_NAME && !of->scope && of->name == b->symbol[symbol].name)
				return true;
		}
	return false;
}

/* Is it all of a dimension of what a launch fills, which programs then add to, and along which there are none? */
static bool
is_filled(const Bound *b, int symbol)
{
	const Item *item = b->kernel->item;
	if (ANY_OF(i, item->grid.n, expr_mentions(item->grid.at[i].count, b->symbol[symbol].name)))
		return false;
	for (int i = 0; i < b->kernel->params.n; i++) {
		const KernelParam *p = &b->kernel->params.at[i];
		for (int d = 0; p->has_fill && d < b->param[i].rank; d++) {
			const Expr *e = dim_expr(b->kernel, i, d);
			if (e && e->kind == EX_NAME && e->name == b->symbol[symbol].name)
				return true;
		}
	}
	return false;
}

int64_t
assumption_multiple(int64_t assumed)
{
	return assumed < 0 ? assumed : assumed & UINT32_MAX;
}

/* The eighth's end: the tile is the least power of two that is more than half of it.  Of 1, what is unfolded has
 * at most, of 2 what bins have. */
static int64_t
assumption_most(int64_t least)
{
	int64_t tile = 1;
	if (least == 1)
		return UNFOLDED_MOST;
	if (least == BINS)
		return BINS_MOST;
	if (least == ELEMENTS || least == SIDE)
		return least == SIDE ? SIDE_MOST : ELEMENTS_MOST;
	while (least > 0 && tile < least)
		tile *= 2;
	return least > 0 ? least - 1 + tile / 8 : 0;
}

int64_t
assumption_of_dim(const Bound *b, int symbol)
{
	int64_t v = b->symbol[symbol].value.i, most = v > 0 ? assumption_of((uint64_t)v) : 1, least = 0;
	const Item *item = b->kernel->item;
	bool on_grid = ANY_OF(i, item->grid.n, expr_mentions(item->grid.at[i].count, b->symbol[symbol].name));
	int64_t batch = on_grid ? MAX(b->schedule.at[SCHEDULE_BATCH], 1) : 1;   /* programs, of a row or c each, as one */
	most = v > 0 && v % batch == 0 ? MAX(most, batch) : most;
	for (int i = 0; i < b->nct && v > 0; i++) {
		int64_t c = b->ct[i].value.kind == CONST_INT ? b->ct[i].value.i : 0;
		bool is_made_for = expr_mentions(b->kernel->item->ctparams.at[i].value, b->symbol[symbol].name);
		if (is_made_for && is_eighths(v, c))
			return -v;
		if (is_made_for)
			least = MAX(least, least_eighths(v, c));
		if (!is_power_of_two(c) || c >= INT64_C(1) << 31)
			continue;
		for (int64_t times = 1; times <= MAX(batch, 2); times *= 2)
			if (c * times > most && v % (c * times) == 0)
				most = c * times;
	}
	most = v > 0 ? MAX(most, multiple_of_parts(b, symbol)) : most;
	if (least == 0 && v > 0 && v <= UNFOLDED_MOST && is_unfolded(b, symbol))
		least = 1;
	if (least == 0 && v >= BINS && v <= BINS_MOST && is_filled(b, symbol))
		least = BINS;
	if (least == 0 && v >= SIDE && v <= ELEMENTS_MOST && b->kernel->divides_indices)
		least = v <= SIDE_MOST ? SIDE : ELEMENTS;
	return most < INT64_C(1) << ASSUMED_LEAST ? most | least << ASSUMED_LEAST : most;
}

bool
assumption_few_programs(const Bound *b)
{
	enum { FEW = 1 << 30, CLUSTER = 16, BLOCKS = 256 };     /* programs; what an axis is filled up to a multiple of, */
	double n = b->schedule.parts > 1 ? BLOCKS : 1;  /* and blocks of a program (pass parts), at most */
	for (int i = 0; i < b->naxis; i++)
		n *= (double)b->grid[i] + CLUSTER;
	return n < FEW;
}

/* Has an axis of n programs fewer than that; would some of the blocks have none? */
static int
short_for(int64_t n, int64_t blocks)
{
	return (n < blocks) | (n % blocks != 0) << CLUSTER_SIZES * MAX_AXES;
}

int
assumption_short_axes(const Bound *b, int ranks)
{
	int few = 0;
	bool fits = false;
	for (int i = 0; i < b->naxis && ranks > 1; i++) {
		for (int k = 0; k < CLUSTER_SIZES; k++)
			few |= short_for(b->grid[i], 2 << k) << (CLUSTER_SIZES * i + k);
		fits |= b->grid[i] >= ranks;
	}
	for (int n = 2; n < ranks && b->naxis > 1; n *= 2)
		fits |= b->grid[0] % (ranks / n) == 0 && b->grid[1] % n == 0;
	return fits ? few : 0;
}

static ArgStrides
bound_strides(const Bound *b, int param)
{
	const BoundParam *p = &b->param[param];
	if (!b->kernel->params.at[param].strided)
		return (ArgStrides){0};
	return p->is_spread ? arg_strides_of(p->dtype, p->rank, p->dim, p->stride) : (ArgStrides){.is_dense = true};
}

ArgAssumptions
assumptions_of_dims(Arena *mem, const Bound *b)
{
	int64_t *param = NEW_ARRAY(mem, int64_t, b->kernel->params.n), *symbol = NEW_ARRAY(mem, int64_t, b->nsymbol);
	for (int i = 0; i < b->kernel->params.n; i++) {
		const Const *c = &b->param[i].scalar;
		bool is_scalar = b->kernel->params.at[i].kind == PARAM_SCALAR;
		param[i] = !is_scalar ? ASSUMED_MOST : c->kind == CONST_INT ? assumption_of((uint64_t)c->i) : 0;
	}
	for (int i = 0; i < b->nsymbol; i++)
		symbol[i] = b->symbol[i].value.kind == CONST_INT ? assumption_of_dim(b, i) : 0;
	ArgStrides *strides = MAP_OF(mem, ArgStrides, i, b->kernel->params.n, bound_strides(b, i));
	return (ArgAssumptions){.param = param, .symbol = symbol, .strides = strides,
	    .few_programs = assumption_few_programs(b), .short_axes = assumption_short_axes(b, b->schedule.ctas)};
}

static int64_t
name_multiple(const Bound *b, const ArgAssumptions *p, const char *name)
{
	for (int i = 0; i < b->nsymbol; i++)
		if (b->symbol[i].name == name)
			return !p || !p->symbol || p->symbol[i] == 0 ? 1
			       : p->symbol[i] > 0                    ? assumption_multiple(p->symbol[i])
			                                             : assumption_of((uint64_t)-p->symbol[i]);
	return VALUE_OF(i, b->nct, b->ct[i].name == name && b->ct[i].value.kind == CONST_INT,
	    assumption_of((uint64_t)b->ct[i].value.i), 1);
}

/* The number that an expression of compile-time values is; 0: it is another one. */
static int64_t
expr_number(const Bound *b, const Expr *e)
{
	Const c;

	if (e->kind == EX_INT)
		return e->u <= INT32_MAX ? (int64_t)e->u : 0;
	if (ANY_OF(i, b->nsymbol, e->kind == EX_NAME && b->symbol[i].name == e->name))
		return 0;
	if (ANY_OF(i, b->kernel->params.n, e->kind == EX_NAME && b->kernel->params.at[i].name == e->name))
		return 0;
	if (e->kind != EX_NAME || !bound_eval((Kernel *)b->kernel, b, e, "a dimension", &c))
		return 0;
	return c.kind == CONST_INT ? c.i : 0;
}

/* What a condition like `K % 160 == 0` says that a name is a multiple of. */
static int64_t
condition_multiple(const Bound *b, const Expr *e, const char *name)
{
	if (e->kind != EX_BINARY)
		return 1;
	if (e->bin == BIN_LAND)
		return MAX(condition_multiple(b, e->a, name), condition_multiple(b, e->b, name));
	bool is = e->bin == BIN_EQ && e->b->kind == EX_INT && e->b->u == 0 && e->a->kind == EX_BINARY &&
	    e->a->bin == BIN_REM && e->a->a->kind == EX_NAME && e->a->a->name == name;
	return is ? MAX(expr_number(b, e->a->b), 1) : 1;
}

/* Of a quotient K / 10 where K is a multiple of `assumed`, and by the header of 160: 16. */
static int64_t
quotient_multiple(const Bound *b, const Expr *of, int64_t assumed, int64_t by)
{
	const ExprList *where = &b->kernel->item->where;
	int64_t most = assumed % by == 0 ? assumed / by : 1;
	for (int i = 0; i < where->n && of->kind == EX_NAME; i++) {
		int64_t n = condition_multiple(b, where->at[i], of->name), both = n;
		for (int64_t k = n & -n; 2 * k <= assumed && assumed % (2 * k) == 0; k *= 2)
			both *= 2;
		if (both % by == 0)
			most = MAX(most, both / by & -(both / by));
	}
	return most;
}

/* What a dimension like 2 * C is a multiple of, where C is assumed to be one of 16: 32. */
static int64_t
expr_multiple(const Bound *b, const ArgAssumptions *p, const Expr *e)
{
	const int64_t most = ASSUMED_MOST * ASSUMED_MOST;
	const Expr *of, *by;
	int64_t x, y;
	if (is_quotient(e, &of, &by)) {
		x = expr_multiple(b, p, of);
		y = expr_number(b, by);
		return y > 0 ? quotient_multiple(b, of, x, y) : 1;
	}
	if (e->kind == EX_INT)
		return assumption_of(e->u);
	if (e->kind == EX_NAME)
		return name_multiple(b, p, e->name);
	if (e->kind != EX_BINARY)
		return 1;
	x = expr_multiple(b, p, e->a);
	y = expr_multiple(b, p, e->b);
	switch (e->bin) {
	case BIN_MUL: return MIN(MIN(x, most) * MIN(y, most), most);
	case BIN_ADD: case BIN_SUB: return x < y ? x : y;
	default: return 1;
	}
}

/* Of cdiv(K, 128), or of K / 128 where K is a multiple of 128, that it is. */
static void
note_part(FuncParam *f, int d, const Bound *b, const ArgAssumptions *p, const Expr *e)
{
	const Expr *of, *by;

	if (!is_quotient(e, &of, &by) || of->kind != EX_NAME)
		return;
	int64_t n = expr_number(b, by);
	if (!is_cdiv(e, &of, &by) && (n <= 0 || expr_multiple(b, p, of) % n))
		return;
	for (int i = 0; i < b->nsymbol; i++)
		if (b->symbol[i].name == of->name) {
			f->part_of[d] = b->kernel->params.n + i;
			f->part[d] = MAX(n, 0);
		}
}

static void
assume_dims(FuncParam *f, const KernelParam *k, const Bound *b, const ArgAssumptions *p)
{
	const TypeExpr *t = k->ast->type;
	for (int d = 0; d < k->rank && t && t->has_dims; d++) {
		int of = param_dim(f, k->rank, d);
		if (f->dim[d] >= 0 || of >= t->dims.n)
			continue;
		f->dim_multiple[d] = expr_multiple(b, p, t->dims.at[of]);
		note_part(f, d, b, p, t->dims.at[of]);
	}
}

/* The symbol is this number, wherever it stands. */
static void
fix_symbol(Func *f, int at, int64_t value)
{
	Module *m = f->module;
	Builder b = {.m = m, .block = f->body, .before = f->body->first, .place = f->place};
	Value *arg = &f->body->arg[at];
	f->param[at].is_fixed = true;
	if (arg->nuses > 0) {
		Value *c = build_int(&b, arg->type, value);
		c->name = f->param[at].name;
		value_replace(arg, c);
	}
	for (int i = 0; i < f->nparam; i++) {
		const Type *t = f->body->arg[i].type;
		int64_t extent[KERNEL_RANK];
		for (int d = 0; t->kind == TYPE_TENSOR && d < t->rank; d++) {
			bool is_it = f->param[i].dim[d] == at;
			extent[d] = is_it ? value : t->extent[d];
			f->param[i].dim[d] = is_it ? -1 : f->param[i].dim[d];
		}
		if (t->kind == TYPE_TENSOR)
			f->body->arg[i].type = type_tensor(m, t->elem, t->rank, extent);
	}
}

/* The function's parameters are the kernel's, then its symbols. */
static void
set_assumptions(Func *f, const Kernel *k, const Bound *b, const ArgAssumptions *p)
{
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_TENSOR)
			assume_dims(&f->param[i], &k->params.at[i], b, p);
	for (int i = 0; i < k->params.n; i++)
		f->param[i].multiple = p->param ? p->param[i] : 0;
	for (int i = k->params.n; i < f->nparam && p->symbol; i++) {
		int64_t assumed = p->symbol[i - k->params.n];
		if (assumed < 0)
			fix_symbol(f, i, -assumed);
		f->param[i].multiple = assumed < 0 ? 0 : assumption_multiple(assumed);
		f->param[i].least = assumed < 0 ? 0 : assumed >> ASSUMED_LEAST;
		f->param[i].most = assumption_most(f->param[i].least);
	}
}

/* y.shape(1) as what the header says of that dimension; anything else as it is. */
static const Expr *
dimension_of(const Bound *b, const Expr *e)
{
	bool asks = e->kind == EX_CALL && e->a->kind == EX_MEMBER && strcmp(e->a->name, "shape") == 0 &&
	    e->a->a->kind == EX_NAME && e->args.n == 1 && e->args.at[0].e->kind == EX_INT;
	for (int i = 0; asks && i < b->kernel->params.n; i++) {
		const KernelParam *p = &b->kernel->params.at[i];
		uint64_t d = e->args.at[0].e->u;
		if (p->name == e->a->a->name && p->ast->type->has_dims && d < (uint64_t)p->ast->type->dims.n)
			return p->ast->type->dims.at[d];
	}
	return e;
}

/* Is it cdiv(SYMBOL, number), or a symbol alone, which is cdiv(SYMBOL, 1)? */
static bool
grid_count(const Bound *b, const Expr *e, int *symbol, int64_t *per)
{
	const Expr *of = e, *by;
	*per = 1;
	if (is_cdiv(e, &of, &by))
		*per = expr_number(b, by);
	of = dimension_of(b, of);
	for (*symbol = 0; *symbol < b->nsymbol; ++*symbol)
		if (of->kind == EX_NAME && !of->scope && b->symbol[*symbol].name == of->name)
			return *per > 0;
	return false;
}

/* Where indices are divided, cdiv(SCALAR, number) of a scalar of 32 bits: its number among the parameters, or -1. */
static int
grid_scalar(const Kernel *k, const Bound *b, const Expr *e, int64_t *per)
{
	const Expr *of, *by;
	if (!k->divides_indices || !is_cdiv(e, &of, &by) || of->kind != EX_NAME || of->scope)
		return -1;
	*per = expr_number(b, by);
	return *per <= 0 ? -1 : FIRST_OF(i, k->params.n, k->params.at[i].name == of->name &&
	    k->params.at[i].kind == PARAM_SCALAR && b->param[i].dtype == TY_I32);
}

/* What the header says of the number of programs, for pass axis. */
static void
note_grid(Func *f, const Kernel *k, const Bound *b, const ArgAssumptions *p)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		int axis = op->kind == OP_PROGRAM_ID ? (int)attr_axis(op) : -1, symbol;
		int64_t per;
		if (axis < 0 || axis >= k->item->grid.n)
			continue;
		int scalar = grid_scalar(k, b, k->item->grid.at[axis].count, &per);
		if (scalar >= 0) {
			attr_set_dim(f->module, op, scalar);
			attr_set_per(f->module, op, per);
		}
		if (scalar >= 0 || !grid_count(b, k->item->grid.at[axis].count, &symbol, &per))
			continue;
		int64_t assumed = p && p->symbol ? p->symbol[symbol] : 0;
		if (assumed < 0) {
			attr_set_count(f->module, op, (-assumed - 1) / per + 1);
			continue;
		}
		attr_set_dim(f->module, op, k->params.n + symbol);
		attr_set_per(f->module, op, per);
	}
}

void
assumptions_note(Func *f, const Kernel *k, const Bound *b, const ArgAssumptions *p)
{
	note_grid(f, k, b, p);
	if (p)
		set_assumptions(f, k, b, p);
	f->no_windows = !p || p->no_windows;
	/* Along one axis nothing is divided, and numbers of 64 bits, of which none are cut off, need no masks: top1 of
	 * bench/warps took an H200 72.6 us, cut to 32 bits 74.7.  Programs of products take long, and lack registers:
	 * one spilled 92 bytes for the inverses. */
	bool divides = f->naxis > 1 && !ANY_OP(op, f->body, op_family(op) == FAMILY_DOT);
	f->few_joined = p && p->few_programs;
	f->few_programs = f->few_joined && divides;
	f->short_axes = p ? p->short_axes : 0;
}
