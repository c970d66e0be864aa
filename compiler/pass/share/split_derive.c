/* How the states of a loop join, where its own updates say it.
 *
 *     %m, %s, %at = for … do (%k, %m.1: f32[64], %s.1: f32[64], %at.1: i32[64]) {
 *         …                                                                      %z, %top, %i: of this iteration alone
 *         %n = max %m.1, %top                                                    a key
 *         %c = exp (sub %m.1, %n)
 *         %s.2 = add (mul %s.1, %c), (reduce (exp (sub %z, (broadcast %n))))     a sum that is scaled by the key
 *         %at.2 = select (gt %top, %m.1), %i, %at.1                              what came with the key
 *         yield %n, %s.2, %at.2
 *     }
 *  =>
 *     … = merge %m, %s, %at by (%m.x, %s.x, %at.x, %m.y, %s.y, %at.y) {
 *         %n = max %m.x, %m.y
 *         %s = add (mul %s.x, (exp (sub %m.x, %n))), (mul %s.y, (exp (sub %m.y, %n)))
 *         %at = select (gt %m.y, %m.x), %at.y, %at.x
 *         yield %n, %s, %at
 *     }
 *
 * so that blocks can share an online softmax, a cross entropy over a vocabulary, a search for the nearest or the best of
 * many, though the source has no `merge`.  Each column of the loop is of one of these kinds:
 *
 *     fold     the sum, the greatest or the least of itself and what depends on no column; a sum begins with zero
 *     pick     select(a > key, new, itself), or < of a least one, where the key becomes the greater of itself and a: of
 *              equals the first wins, as of parts that are joined in their order
 *     scaled   itself times g(key before - key after), and what is added is proportional to g(- key after): then what two
 *              parts have, each scaled to the common key, adds up to what one loop would have.  It begins with zero
 *
 * g is e or 2 to the argument times a number.  Proportional are exp(z - key), its products with what depends on no column,
 * sums of such, reductions, casts, and products of matrices; the key's dimensions are followed through all of it, as a
 * reduction along one of them mixes rows of different keys.
 *
 * A part whose elements are all -inf has the key -inf, and exp(-inf - -inf) is NaN, where one loop would go on from a
 * finite key.  So parts but the first begin such a key with the lowest finite number; only -inf lies below it.  Of the
 * warps that divide a loop (slice_k.c) the first, which has the loop's first iteration, keeps -inf. */
#include "ir/derive.h"
#include "pass/share/split_derive.h"

#include <math.h>

/* Along which dimension of a tile each dimension of the key lies; extents of 1 lie anywhere (-1). */
typedef struct Along {
	int dim[MAX_RANK];
} Along;

/* Ids are dense when this begins. */
static void
find_varying(Derive *d)
{
	for (int i = 0; i < d->loop->nout; i++)
		d->varies[before(d, i)->id] = true;
	for (Op *op = d->body->first; op; op = op->next) {
		bool any = op_uses_slice(op, d->varies);
		for (int r = 0; r < op->nregion && !any; r++)
			any = ANY_OP(in, op->region[r], op_uses_slice(in, d->varies));
		op_extend_slice(op, d->varies, any);
	}
}

static bool
is_free(const Derive *d, const Value *v)
{
	return !d->varies[v->id];
}

/* ---- a key's dimensions in tiles that follow from it ---- */

static Along
along_itself(const Type *t)
{
	Along a;
	for (int i = 0; i < MAX_RANK; i++)
		a.dim[i] = i < t->rank && t->extent[i] > 1 ? i : -1;
	return a;
}

static bool
along_same(const Along *a, const Along *b)
{
	return ALL_OF(i, MAX_RANK, a->dim[i] == b->dim[i]);
}

static bool
is_shape(const Op *op)
{
	return op && (op->kind == OP_PERMUTE || op->kind == OP_BROADCAST || op->kind == OP_RESHAPE);
}

/* From an operand of such an op to its result. */
static bool
along_shape(const Op *op, Along *a)
{
	const IntList *dims = op->kind == OP_PERMUTE ? attr_dims(op) : NULL;
	int from[MAX_RANK];
	if (op->kind == OP_RESHAPE && !reshape_from(op, from))
		return false;
	for (int i = 0; i < MAX_RANK && op->kind != OP_BROADCAST; i++)
		a->dim[i] = a->dim[i] < 0 ? -1 : FIRST_OF(d, op->out[0].type->rank,
						     (dims ? dims->at[d] : from[d]) == a->dim[i]);
	return true;
}

/* Is v the value `of` in another shape?  Takes *a, of that, to v. */
static bool
reshapes(const Value *v, const Value *of, Along *a)
{
	return v == of || (is_shape(v->def) && reshapes(v->def->in[0], of, a) && along_shape(v->def, a));
}

static bool
is_spread(const Value *v, const Value *of, Along *a)
{
	*a = along_itself(of->type);
	return reshapes(v, of, a);
}

/* ---- what is proportional to g(- key) ---- */

static const Value *
bare(const Value *v)
{
	while (v && is_shape(v->def))
		v = v->def->in[0];
	return v;
}

static bool
is_same_number(const Value *a, const Value *b)
{
	const Attr *x = a ? value_const(a) : NULL, *y = b ? value_const(b) : NULL;
	return a == b || (x && y && x->kind == KIND_FLOAT && y->kind == KIND_FLOAT && x->f == y->f);
}

/* The difference that v is g of; NULL: it is none.  The first one says what g is. */
static const Op *
exponent(Derive *d, const Value *v, bool is_first)
{
	const Op *op = v->def, *in = op && (op->kind == OP_EXP || op->kind == OP_EXP2) ? op->in[0]->def : NULL;
	const Value *by = NULL;
	if (in && in->kind == OP_MUL) {
		int side = is_free(d, in->in[1]) ? 1 : 0;
		by = bare(in->in[side]);
		in = in->in[1 - side]->def;
		if (!value_const(by) && value_inside(by, d->body))
			return NULL;
	}
	if (!in || in->kind != OP_SUB)
		return NULL;
	if (is_first) {
		d->base = op->kind;
		d->by = by;
	}
	return op->kind == d->base && is_same_number(by, d->by) ? in : NULL;
}

static bool is_scaled(Derive *d, const Value *v, Along *a);

static bool
both_scaled(Derive *d, const Value *x, const Value *y, Along *a)
{
	Along other;
	if (value_is_zero(x) || value_is_zero(y))
		return is_scaled(d, value_is_zero(x) ? y : x, a);
	return is_scaled(d, x, a) && is_scaled(d, y, &other) && along_same(a, &other);
}

static bool
reduce_scaled(Derive *d, const Op *op, Along *a)
{
	int64_t axis = attr_axis(op);
	if (fn_kind(attr_fn(op)) != OP_ADD || !is_scaled(d, op->in[0], a) || ANY_OF(i, MAX_RANK, a->dim[i] == axis))
		return false;
	for (int i = 0; i < MAX_RANK; i++)
		a->dim[i] -= a->dim[i] > axis;
	return true;
}

/* One operand is; its sum goes along the other's and its own last but one dimension. */
static bool
product_scaled(Derive *d, const Op *op, Along *a)
{
	int side = is_free(d, op->in[0]) ? 1 : 0, rank = op->out[0].type->rank;
	if (!is_free(d, op->in[1 - side]) || !is_scaled(d, op->in[side], a))
		return false;
	return !ANY_OF(i, MAX_RANK, a->dim[i] == rank - (side ? 2 : 1));
}

static bool
is_scaled(Derive *d, const Value *v, Along *a)
{
	const Op *op = v->def;
	const Value *now = after(d, d->key);
	if (!op || is_free(d, v) || op->home != d->body)
		return false;
	const Op *power = exponent(d, v, false);
	if (power)
		return is_free(d, power->in[0]) && is_spread(power->in[1], now, a);
	Along sum;
	switch (op->kind) {
	case OP_NEG: case OP_CAST:
		return dtype_is_float(v->type->elem) && is_scaled(d, op->in[0], a);
	case OP_PERMUTE: case OP_BROADCAST: case OP_RESHAPE:
		return is_scaled(d, op->in[0], a) && along_shape(op, a);
	case OP_ADD: case OP_SUB:
		return both_scaled(d, op->in[0], op->in[1], a);
	case OP_SELECT:
		return is_free(d, op->in[0]) && both_scaled(d, op->in[1], op->in[2], a);
	case OP_MUL:
		return is_scaled(d, op->in[is_free(d, op->in[0]) ? 1 : 0], a) &&
		    is_free(d, op->in[is_free(d, op->in[0]) ? 0 : 1]);
	case OP_DIV:
		return is_free(d, op->in[1]) && is_scaled(d, op->in[0], a);
	case OP_REDUCE:
		return reduce_scaled(d, op, a);
	case OP_DOT:
		return product_scaled(d, op, a) &&
		    (value_is_zero(op->in[2]) || (is_scaled(d, op->in[2], &sum) && along_same(a, &sum)));
	default:
		return false;
	}
}

/* ---- columns ---- */

/* The factor of a column: g(key before - key after), in the column's shape. */
static bool
is_factor(Derive *d, const Value *v, Along *a)
{
	Along other;
	const Op *power = exponent(d, bare(v), true);
	return power && is_spread(power->in[0], before(d, d->key), &other) &&
	    is_spread(power->in[1], after(d, d->key), a) && along_same(a, &other) && reshapes(v, bare(v), a);
}

/* Is v what the column was, times its factor, and what is proportional to that? */
static bool
updates(Derive *d, int i, const Value *v, Along *a)
{
	const Op *op = v->def;
	Along other;
	if (!op || op->home != d->body)
		return false;
	for (int side = 0; side < 2 && op->kind == OP_MUL; side++)
		if (op->in[side] == before(d, i)) {
			d->column[i].path = op->in[1 - side];
			return is_factor(d, op->in[1 - side], a);
		}
	if (op->kind == OP_DOT)
		return updates(d, i, op->in[2], a) && product_scaled(d, op, &other) && along_same(a, &other);
	for (int side = 0; side < 2 && (op->kind == OP_ADD || (op->kind == OP_SUB && side == 0)); side++)
		if (updates(d, i, op->in[side], a))
			return is_scaled(d, op->in[1 - side], &other) && along_same(a, &other);
	return false;
}

static bool
folds(const Derive *d, const Value *v, int i, OpKind fold)
{
	const Op *op = v->def;
	if (v == before(d, i))
		return true;
	if (!op || op->home != d->body)
		return false;
	if (op->kind == fold && (fold == OP_ADD || !attr_propagate_nan(op)))
		return (folds(d, op->in[0], i, fold) && is_free(d, op->in[1])) ||
		    (folds(d, op->in[1], i, fold) && is_free(d, op->in[0]));
	if (fold == OP_ADD && op->kind == OP_SUB)
		return folds(d, op->in[0], i, fold) && is_free(d, op->in[1]);
	return fold == OP_ADD && op->kind == OP_DOT && folds(d, op->in[2], i, fold) && is_free(d, op->in[0]) &&
	    is_free(d, op->in[1]);
}

static bool
take_fold(const Derive *d, int i)
{
	static const OpKind kind[] = {OP_ADD, OP_MAX, OP_MIN};
	bool has_zero = value_is_zero(d->loop->in[3 + i]);
	for (int k = 0; k < LEN(kind); k++)
		if (folds(d, after(d, i), i, kind[k]) && (kind[k] != OP_ADD || has_zero)) {
			d->column[i] = (Column){.kind = FOLD, .fold = kind[k]};
			return true;
		}
	return false;
}

static bool
is_key(const Derive *d, int i)
{
	const Op *op = after(d, i)->def;
	OpKind fold = d->column[i].fold;
	return d->column[i].kind == FOLD && (fold == OP_MAX || fold == OP_MIN) && op && op->kind == fold &&
	    op->home == d->body;
}

const Value *
split_offered(const Derive *d, int key)
{
	const Op *op = after(d, key)->def;
	return op->in[0] == before(d, key) ? op->in[1] : op->in[1] == before(d, key) ? op->in[0] : NULL;
}

static bool
may_begin_as_nan(const Derive *d, int key)
{
	const Attr *begin = value_const(d->loop->in[3 + key]);
	return dtype_is_float(before(d, key)->type->elem) && (!begin || begin->kind != KIND_FLOAT || isnan(begin->f));
}

static bool
take_pick(const Derive *d, int i, int key)
{
	const Op *select = after(d, i)->def;
	if (!select || select->kind != OP_SELECT || select->home != d->body || select->in[2] != before(d, i) ||
	    !is_free(d, select->in[1]))
		return false;
	const Op *compare = bare(select->in[0])->def;
	bool is_max = d->column[key].fold == OP_MAX;
	if (!compare || (compare->kind != OP_GT && compare->kind != OP_LT) || compare->home != d->body)
		return false;
	if (may_begin_as_nan(d, key))
		return false;                           /* a part that does so keeps what came before its first */
	int greater = compare->kind == OP_GT ? 0 : 1, now = is_max ? greater : 1 - greater;
	if (compare->in[now] != split_offered(d, key) || compare->in[1 - now] != before(d, key))
		return false;
	d->column[i] = (Column){.kind = PICK, .key = key, .path = select->in[0]};
	return true;
}

/* Infinite keys are of a type whose greatest finite number we know. */
static bool
take_scaled(Derive *d, int i, int key)
{
	Along a;
	if (!value_is_zero(d->loop->in[3 + i]) || may_begin_as_nan(d, key) || d->loop->out[key].type->elem != TY_F32)
		return false;
	d->key = key;
	d->column[i] = (Column){.kind = SCALED, .key = key};
	return updates(d, i, after(d, i), &a);
}

static bool
is_state(const Type *t)
{
	return t->kind == TYPE_TILE && t->ptr == PTR_NONE && t->elem != TY_BOOL && !dtype_is_packed(t->elem);
}

bool
split_find_columns(Func *f, const Op *loop, Derive *d)
{
	Arena *tmp = f->module->cx->tmp;
	int n = loop->nout;
	func_number(f);
	*d = (Derive){.loop = loop, .body = loop->region[0], .varies = NEW_ARRAY(tmp, bool, f->nvalues),
	    .column = NEW_ARRAY(tmp, Column, n)};
	if (n == 0 || !loop_steps_up(loop) || !ALL_OF(i, n, is_state(loop->out[i].type)))
		return false;
	find_varying(d);
	bool *known = MAP_OF(tmp, bool, i, n, take_fold(d, i));
	return ALL_OF(i, n, known[i] || ANY_OF(key, n, known[key] && is_key(d, key) &&
	    (take_pick(d, i, key) || take_scaled(d, i, key))));
}

bool
split_derives(const Func *f, const Op *loop)
{
	Derive d;
	return split_find_columns((Func *)f, loop, &d);             /* which it only numbers */
}
