/* Some rows of what follows a loop of sums.
 *
 *     %b = read %bias, %n {index = "p", extents = [256]} : f32[256]
 *     %v = add %s, (broadcast (reshape %b : f32[1, 256]))                    %s: f32[128, 256], of the loop
 *     write %y, %m, %n, (cast %v) {index = "pp", extents = [128, 256]}
 *  =>
 *     %v = add %t, (broadcast (reshape %b : f32[1, 256]))                    %t: f32[8, 256], rows %r to %r + 7 of %s
 *     write %y, (add %m, %r), %n, (cast %v) {index = "pp", extents = [8, 256]}
 *
 * Each value that follows from the sums goes along their rows in one of its dimensions, and so does what is joined with it
 * element by element: reads begin at the block's first row, indices are counted from there.  A value with one row, or
 * none, stays as it is.  Reductions along other dimensions are of each row alone.  What joins rows, or does more than read,
 * compute and write, needs all of them; so does what reads a tensor that is written, or writes one twice in other rows, as
 * the blocks of a program do not wait for one another. */
#include "pass/parts/parts.h"
#include "ir/derive.h"
#include "model/model.h"

#include <string.h>

static bool label(PartRows *r, const Value *v, int d);

/* It is needed as it is, and not of the loop. */
static bool
keep(PartRows *r, const Value *v)
{
	if (r->along[v->id] > ROWS_OPEN)
		return false;
	r->along[v->id] = ROWS_WHOLE;
	return true;
}

/* Dimension d of the result is the operand's: -1: none. */
static int
operand_dim(const Op *op, int d)
{
	int from[MAX_RANK];
	switch (op->kind) {
	case OP_RESHAPE: return reshape_from(op, from) ? from[d] : -1;
	case OP_PERMUTE: return (int)attr_dims(op)->at[d];
	case OP_REDUCE: return d + (attr_axis(op) <= d);
	default: return d;
	}
}

/* Dimension d of the operand is the result's; -1: none. */
static int
result_dim(const Op *op, int d)
{
	if (op->kind == OP_REDUCE && attr_axis(op) == d)
		return -1;
	for (int i = 0; i < op->out->type->rank; i++)
		if (operand_dim(op, i) == d)
			return i;
	return -1;
}

/* Index i of an access to a tile whose dimension d goes along the rows. */
static bool
label_index(PartRows *r, const Op *op, int i, const int *at, int d)
{
	const Value *v = op->in[1 + i];
	bool is_tile_of = attr_index(op)[i] == 'g' && at[i] <= d && d < at[i] + v->type->rank;
	return is_tile_of ? label(r, v, d - at[i]) : keep(r, v);
}

static bool
label_access(PartRows *r, const Op *op, int d)
{
	int at[KERNEL_RANK], rank = op->in[0]->type->rank;
	if (!access_is_tensor(op) || strchr(attr_index(op), 'w') || attr_valid(op) || op_attr(op, ATTR_MERGED))
		return false;
	if (op->kind == OP_READ && tensor_may_be_written(r->f, op->in[0], r->f->body))
		return false;
	access_dims(op, at);
	for (int i = 0; i < rank; i++)
		if (!label_index(r, op, i, at, d))
			return false;
	for (int i = 1 + rank; i < op->nin; i++)
		if (!label(r, op->in[i], d))
			return false;
	return true;
}

/* The operands of a value that goes along the rows in dimension d. */
static bool
follow(PartRows *r, const Op *op, int d)
{
	switch (op->kind) {
	case OP_IOTA: return true;
	case OP_CONST: return attr_value(op)->kind != KIND_INTS;
	case OP_READ: return label_access(r, op, d);
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_REDUCE:
		d = operand_dim(op, d);
		return d >= 0 && label(r, op->in[0], d);
	default: return op_has(op, ELEM) && op->nregion == 0 && ALL_OF(i, op->nin, label(r, op->in[i], d));
	}
}

static bool
label(PartRows *r, const Value *v, int d)
{
	if (!value_is_tile(v) || v->type->extent[d] == 1)
		return keep(r, v);
	if (r->along[v->id] != ROWS_OPEN)
		return r->along[v->id] == 1 + d;
	r->along[v->id] = (signed char)(1 + d);
	return v->def && v->def != r->loop && v->def->home == r->f->body && v->def->nout == 1 && follow(r, v->def, d);
}

/* An op behind the loop: does it follow from the sums, and can it be done for some rows? */
static bool
label_op(PartRows *r, const Op *op)
{
	int of = FIRST_OF(i, op->nin, r->along[op->in[i]->id] > ROWS_OPEN);
	int d = of >= 0 ? r->along[op->in[of]->id] - 1 : -1;
	if (op->kind == OP_WRITE)
		return of == access_data(op) && label_access(r, op, d);
	if (op_has(op, WRITES | EFFECT) || (op_has(op, READS) && (op->kind != OP_READ || of >= 0)))
		return false;
	if (of < 0)
		return true;
	if (op->nout != 1 || op->nregion)
		return false;
	if (op->kind == OP_BROADCAST && op->in[0]->type->rank != op->out->type->rank)
		return false;
	d = result_dim(op, d);
	return d >= 0 && label(r, op->out, d);
}

/* The index of a write that counts the rows; -1: they are gathered. */
static int
rows_index(const PartRows *r, const Op *write)
{
	int at[KERNEL_RANK], d = r->along[write->in[access_data(write)]->id] - 1;
	access_dims(write, at);
	return FIRST_OF(i, write->in[0]->type->rank, attr_index(write)[i] == 'p' && at[i] == d);
}

/* Do both write the same rows of a tensor in each block? */
static bool
same_rows(const PartRows *r, const Op *a, const Op *b)
{
	int i = rows_index(r, a);
	return i >= 0 && rows_index(r, b) == i && a->in[1 + i] == b->in[1 + i];
}

/* Blocks of a program do not wait for one another: does one read, or write as well, what another writes?  What the loop
 * reads is read by the kernel before. */
static bool
meets(const PartRows *r)
{
	const Block *body = r->f->body;
	if (ANY_OP(op, body, !op_inside(op, r->loop->region[0]) && op_reads_written(r->f, op)))
		return true;
	for (const Op *a = r->loop->next; a; a = a->next)
		for (const Op *b = a->next; b && a->kind == OP_WRITE; b = b->next)
			if (b->kind == OP_WRITE && b->in[0] == a->in[0] && !same_rows(r, a, b))
				return true;
	return false;
}

const char *
part_rows_find(PartRows *r)
{
	r->along = NEW_ARRAY(r->f->module->cx->tmp, signed char, r->f->nvalues);
	r->map = NEW_ARRAY(r->f->module->cx->tmp, Value *, r->f->nvalues);
	for (int i = 0; i < r->loop->nout; i++)
		r->along[r->loop->out[i].id] = 1;
	for (int i = 0; i < r->loop->nout; i++)
		if (!value_is_zero(r->loop->in[3 + i]) && !label(r, r->loop->in[3 + i], 0))
			return "its sums begin with what is no tile of theirs";
	for (const Op *op = r->loop->next; op; op = op->next)
		if (!op_has(op, TERM) && !label_op(r, op))
			return "what follows its loop does more with rows than compute, reduce each, read and write";
	if (meets(r))
		return "some of a program's rows are read, or written again, where others are written";
	return NULL;
}

/* ---- for some rows ---- */

static const Type *
type_of(const PartRows *r, const Value *v)
{
	int d = r->along[v->id] - 1;
	return d >= 0 ? type_with_extent(r->f->module, v->type, d, r->some) : v->type;
}

static void
build_access(PartRows *r, Builder *b, const Op *op, Value **in)
{
	const char *index = attr_index(op);
	const Value *v = access_tile(op);
	int64_t extent[KERNEL_RANK];
	int at[KERNEL_RANK], n = 0;
	access_dims(op, at);
	for (int i = 0; index[i]; i++) {
		if (index[i] != 'p')
			continue;
		bool is_along = at[i] == r->along[v->id] - 1;
		extent[n++] = is_along ? r->some : v->type->extent[at[i]];
		if (is_along)
			in[1 + i] = build2(b, OP_ADD, in[1 + i], r->first);
	}
	Op *access = access_like(b, op, in, op->nin, index, extent, n);
	if (op->kind == OP_READ)
		r->map[op->out->id] = access->out;
}

static void
build_op(PartRows *r, Builder *b, const Op *op)
{
	Value **in = MAP_OF(r->f->module->cx->tmp, Value *, i, op->nin, value_mapped(r->map, op->in[i]));
	b->place = op->place;
	if (op->kind == OP_READ || op->kind == OP_WRITE) {
		build_access(r, b, op, in);
		return;
	}
	const Type *want = type_of(r, op->out);
	Value *v = op_clone_as(b, op, in, op->attr, &want, r->map)->out;
	if (op->kind == OP_IOTA && attr_axis(op) == r->along[op->out->id] - 1) {
		Value *at = want->elem == TY_I64 ? r->first
		                                 : build1(b, OP_CAST, r->first, type_scalar(b->m, want->elem));
		r->map[op->out->id] = build2(b, OP_ADD, v, build1(b, OP_BROADCAST, at, want));
	}
}

static bool
is_of_rows(const PartRows *r, const Op *op)
{
	return op->kind == OP_WRITE || (op->nout == 1 && op != r->loop && r->along[op->out->id] > ROWS_OPEN);
}

void
part_rows_build(PartRows *r, Op *const *was, int n, Value *first, Value *const *sums)
{
	r->first = first;
	for (int i = 0; i < n; i++) {
		Builder b = build_before(was[i]);
		if (was[i] != r->loop && is_of_rows(r, was[i]))
			build_op(r, &b, was[i]);
		for (int k = 0; was[i] == r->loop && k < r->loop->nout; k++)
			r->map[r->loop->out[k].id] = value_is_zero(r->loop->in[3 + k]) ? sums[k]
			    : build2(&b, OP_ADD, value_mapped(r->map, r->loop->in[3 + k]), sums[k]);
	}
	while (n-- > 0) {
		bool is_used = ANY_OF(k, was[n]->nout, was[n]->out[k].nuses > 0);
		if ((was[n] == r->loop || is_of_rows(r, was[n])) && !is_used)
			op_erase(was[n]);
	}
}
