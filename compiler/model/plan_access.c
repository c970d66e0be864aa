/* How the indices of an access belong to the dimensions of the tile that it moves, and the scratch that brings tiles of
 * indices there.
 *
 *     read %x, %i, %j, %k {index = "ipg"}     of f32[64, 32]: p moves along dimension 0, g along dimension 1 */
#include "model/model.h"

void
access_dims(const Op *op, int at[KERNEL_RANK])
{
	const char *index = attr_index(op);
	int next = 0, gathered = -1;
	for (int d = 0; d < op->in[0]->type->rank; d++) {
		at[d] = index[d] == 'g' && gathered >= 0 ? gathered : next;
		if (index[d] == 'p' || (index[d] == 'w' && index[d + 1] != 'w')) {
			next++;
		} else if (index[d] == 'g' && gathered < 0) {
			gathered = next;
			next += op->in[1 + d]->type->rank;
		}
	}
}

bool
access_fill_is_zero(const Op *op)
{
	int base = access_data(op);
	const Value *v = op->nin > base ? op->in[base] : NULL;

	while (v && v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_CONVERT))
		v = v->def->in[0];
	if (!v)
		return true;
	const Attr *a = value_const(v);
	return a && (a->kind == KIND_FLOAT ? a->f == 0 && !__builtin_signbit(a->f) : a->i == 0);
}

Layout
slot_layout(const Value *slot)
{
	const Type *t = slot->type;
	int shape[LAYOUT_RANK] = {0};

	if (slot->layout)
		return *slot->layout;
	layout_shape(t->rank, t->extent, shape);
	return layout_row_major(t->rank, shape, layout_last_first(t->rank));
}

Layout
access_gather_layout(const Layout *layout, int at, int rank)
{
	Layout s = *layout;
	for (int d = layout->rank - 1; d >= 0; d--)
		if (d < at || d >= at + rank)
			s = layout_slice(&s, d);
	return s;
}

int64_t
access_scratch(const Op *op, const Layout *layout)
{
	int at[KERNEL_RANK];
	const char *index = attr_index(op);
	int64_t most = 0;
	if (!layout)
		return 0;
	access_dims(op, at);
	for (int d = 0; d < op->in[0]->type->rank; d++) {
		const Value *v = op->in[1 + d];
		if (index[d] != 'g' || v->type->rank == 0)
			continue;
		Layout want = access_gather_layout(layout, at[d], v->type->rank);
		most = MAX(most, operand_scratch(v, &want));
	}
	return most;
}
