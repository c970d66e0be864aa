/* Rows of an operand whose columns indices say, a row at a time.
 *
 *     %at = read %p, %k {index = "p", extents = [64]} : i32[64]                                       k in steps of 64
 *     %a = read %x, %m, %at {index = "pg", extents = [128]} : bf16[128, 64]
 *
 * Each tile touches 64 sectors of each of 128 rows, and the next tile's indices touch them again, when the first cache has
 * lost them.  Of one row after the other it has them all:
 *
 *     %at = read %p, %c {index = "p", extents = [2048]} : i32[2048]                                   c in steps of 2048
 *     %a = read %x, (add %m, %r), %at {index = "pg", extents = [1]} : bf16[1, 2048]
 *
 * 4096 rows of 2048 such columns take an H200 61 us in tiles of 128 x 64 and 20 so.
 *
 * Each dimension of what the operand is computed from goes along its rows or its columns.  The loop's index says only where
 * columns begin: it is added to indices along them, or is where a read along them begins, so that other tiles have the same
 * elements.  A row's number within the tile may be used as it likes. */
#include "pass/materialize.h"
#include "ir/derive.h"
#include "model/model.h"

#include <string.h>

enum { ROW = 1, COLUMN = 2 };                           /* 0: a dimension of one element */

static bool
varies(const MadeRows *r, const Value *v)
{
	return value_inside(v, r->loop->region[0]);
}

/* The loop's index, and what does not change in the loop added. */
static bool
is_offset(const MadeRows *r, const Value *v)
{
	while (v != &r->loop->region[0]->arg[0]) {
		const Op *op = v->def;
		bool adds = op && varies(r, v) && (op->kind == OP_ADD || op->kind == OP_SUB);
		int i = adds && !varies(r, op->in[0]);
		if (!adds || varies(r, op->in[!i]) || (op->kind == OP_SUB && i))
			return false;
		v = op->in[i];
	}
	return true;
}

/* Numbers along columns from the loop's index on. */
static bool
is_position(const MadeRows *r, const Op *op)
{
	for (int i = 0; i < 2 && op->kind == OP_ADD; i++) {
		const Op *a = op->in[i]->def, *b = op->in[1 - i]->def;
		if (a && a->kind == OP_IOTA && r->label[op->in[i]->id][attr_axis(a)] == COLUMN && b &&
		    b->kind == OP_BROADCAST && !value_is_tile(b->in[0]) && is_offset(r, b->in[0]))
			return true;
	}
	return false;
}

/* ---- what dimensions go along ---- */

static bool follow(MadeRows *r, const Op *op);

static bool
label(MadeRows *r, const Value *v, const signed char *want)
{
	signed char is[MAX_RANK] = {0};
	if (!value_is_tile(v))
		return true;
	for (int d = 0; d < v->type->rank; d++) {
		is[d] = v->type->extent[d] == 1 ? 0 : want[d];
		if (!is[d] && v->type->extent[d] != 1)
			return false;
	}
	if (r->is_known[v->id])
		return memcmp(is, r->label[v->id], sizeof is) == 0;
	memcpy(r->label[v->id], is, sizeof is);
	r->is_known[v->id] = true;
	return v->def && follow(r, v->def);
}

static bool
follow_reshape(MadeRows *r, const Op *op)
{
	signed char want[MAX_RANK] = {0};
	int from[MAX_RANK];
	if (!reshape_from(op, from))
		return false;
	for (int d = 0; d < op->out->type->rank; d++)
		if (from[d] >= 0)
			want[from[d]] = r->label[op->out->id][d];
	return label(r, op->in[0], want);
}

static bool
follow_read(MadeRows *r, const Op *op)
{
	const char *index = attr_index(op);
	const signed char *is = r->label[op->out->id];
	int at[KERNEL_RANK], rank = op->in[0]->type->rank;
	access_dims(op, at);
	if (strchr(index, 'w') || attr_valid(op) || !access_is_tensor(op))
		return false;
	for (int d = 0; d < rank; d++) {
		const Value *v = op->in[1 + d];
		bool along = index[d] == 'p' && is[at[d]] == COLUMN;        /* whose tiles begin where the loop's do */
		if (index[d] == 'g' ? !label(r, v, is + at[d]) : along ? !varies(r, v) || !is_offset(r, v) : varies(r, v))
			return false;
	}
	for (int i = 1 + rank; i < op->nin; i++)        /* what stands for elements outside */
		if (!label(r, op->in[i], is))
			return false;
	int last = rank - 1, n = index[last] == 'g' ? op->in[1 + last]->type->rank : 0;
	bool is_row = ANY_OF(d, n, r->label[op->in[1 + last]->id][d] == ROW);
	r->gathers |= n > 0 && !is_row && ANY_OF(d, rank, index[d] == 'p' && is[at[d]] == ROW);
	return true;
}

static bool
follow(MadeRows *r, const Op *op)
{
	const signed char *is = r->label[op->out->id];
	signed char want[MAX_RANK] = {0};
	switch (op->kind) {
	case OP_IOTA: return true;
	case OP_CONST: return attr_value(op)->kind != KIND_INTS;
	case OP_BROADCAST: return label(r, op->in[0], is);
	case OP_RESHAPE: return follow_reshape(r, op);
	case OP_READ: return follow_read(r, op);
	case OP_PERMUTE:
		for (int d = 0; d < op->out->type->rank; d++)
			want[attr_dims(op)->at[d]] = is[d];
		return label(r, op->in[0], want);
	default: return op_has(op, ELEM) && ALL_OF(i, op->nin, label(r, op->in[i], is));
	}
}

/* ---- the loop's index ---- */

/* What varies along columns, or in the loop, and is a part of a position alone. */
static bool
is_part(const MadeRows *r, const Value *v)
{
	const Op *op = v->def;
	if (!op || !value_is_tile(v))
		return false;
	return op->kind == OP_IOTA ? r->label[v->id][attr_axis(op)] == COLUMN
	    : op->kind == OP_BROADCAST && !value_is_tile(op->in[0]) && varies(r, op->in[0]);
}

static bool
keeps_positions(const MadeRows *r, const Block *b)
{
	for (const Op *op = b->first; op && op != r->loop; op = op->next) {
		if (!ANY_OF(i, op->nout, r->slice[op->out[i].id]))
			continue;
		if (op->nregion || op->nout != 1 ||
		    (ANY_OF(i, op->nin, is_part(r, op->in[i])) && !is_position(r, op)))
			return false;
	}
	return true;
}

bool
made_rows_find(MadeRows *r)
{
	Arena *tmp = r->f->module->cx->tmp;
	signed char want[MAX_RANK];
	for (int d = 0; d < 2; d++)
		want[d] = d == 0 ? ROW : COLUMN;
	r->label = (signed char (*)[MAX_RANK])NEW_ARRAY(tmp, signed char, MAX_RANK * (size_t)r->f->nvalues);
	r->is_known = NEW_ARRAY(tmp, bool, r->f->nvalues);
	return label(r, r->v, want) && r->gathers && keeps_positions(r, r->f->body) &&
	    keeps_positions(r, r->loop->region[0]);
}

/* ---- a part of a row ---- */

static const Type *
type_of(const MadeRows *r, const Value *v, int64_t n)
{
	const Type *t = v->type;
	for (int d = 0; value_is_tile(v) && d < v->type->rank; d++)
		if (r->label[v->id][d])
			t = type_with_extent(r->f->module, t, d, r->label[v->id][d] == ROW ? 1 : n);
	return t;
}

static Value *
added(Builder *b, Value *v, Value *row)
{
	return build2(b, OP_ADD, v, row);
}

static void
copy_read(const MadeRows *r, Builder *b, const Op *op, Value **in, Value *row, int64_t n, Value **map)
{
	const char *index = attr_index(op);
	int64_t extent[KERNEL_RANK];
	int at[KERNEL_RANK], count = 0;
	access_dims(op, at);
	for (int d = 0; d < op->in[0]->type->rank; d++) {
		if (index[d] != 'p')
			continue;
		int along = r->label[op->out->id][at[d]];
		extent[count++] = along == COLUMN ? n : along == ROW ? 1 : op->out->type->extent[at[d]];
		if (along == ROW)
			in[1 + d] = added(b, in[1 + d], row);
	}
	map[op->out->id] = access_like(b, op, in, op->nin, index, extent, count)->out;
}

static void
copy_op(const MadeRows *r, Builder *b, const Op *op, Value *row, int64_t n, Value **map)
{
	Arena *tmp = r->f->module->cx->tmp;
	Value **in = MAP_OF(tmp, Value *, i, op->nin, value_mapped(map, op->in[i]));
	const Type *want = type_of(r, op->out, n);
	b->place = op->place;
	if (op->kind == OP_READ) {
		copy_read(r, b, op, in, row, n, map);
		return;
	}
	Value *v = op_clone_as(b, op, in, op->attr, &want, map)->out;
	if (op->kind == OP_IOTA && r->label[op->out->id][attr_axis(op)] == ROW) {
		Value *at = want->elem == TY_I64 ? row : build1(b, OP_CAST, row, type_scalar(b->m, want->elem));
		map[op->out->id] = added(b, v, build1(b, OP_BROADCAST, at, want));
	}
}

Value *
made_rows_part(MadeRows *r, Builder *b, Value *row, Value *k, int64_t n)
{
	Value **map = NEW_ARRAY(r->f->module->cx->tmp, Value *, r->f->nvalues);
	const Block *body = r->loop->region[0];
	map[body->arg[0].id] = k;
	for (const Op *op = r->f->body->first; op && op != r->loop; op = op->next)
		if (op->nout == 1 && r->slice[op->out->id] && r->is_known[op->out->id])
			copy_op(r, b, op, row, n, map);
	for (const Op *op = body->first; op; op = op->next)
		if (op->nout == 1 && r->slice[op->out->id])
			copy_op(r, b, op, row, n, map);
	return map[r->v->id];
}
