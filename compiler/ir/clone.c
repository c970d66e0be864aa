/* Copies of ops with their regions.
 *
 *     for %lo, %hi, %1 do (%i: i64) { … }       =>       for %lo, %hi, %1 do (%i': i64) { … }
 *
 * What is defined within is new in the copy; all else is the same values.  Names, layouts, attributes and places in the
 * source are the op's. */
#include "ir/ir.h"

static void
enter(Value *to, const Value *from, Value **map)
{
	to->layout = from->layout;
	to->name = from->name;
	map[from->id] = to;
}

static Block *
clone_block(Module *m, Op *parent, const Block *from, Value **map)
{
	const Type **type = NEW_ARRAY(m->cx->tmp, const Type *, from->narg);

	for (int i = 0; i < from->narg; i++)
		type[i] = from->arg[i].type;
	Block *to = block_make(from->func, parent, type, from->narg);
	for (int i = 0; i < from->narg; i++)
		enter(&to->arg[i], &from->arg[i], map);
	Builder b = {.m = m, .block = to};
	for (const Op *op = from->first; op; op = op->next)
		op_clone(&b, op, map);
	return to;
}

Op *
op_clone(Builder *b, const Op *op, Value **map)
{
	Arena *tmp = b->m->cx->tmp;
	Value **in = NEW_ARRAY(tmp, Value *, op->nin);
	const Type **want = NEW_ARRAY(tmp, const Type *, op->nout);

	for (int i = 0; i < op->nin; i++)
		in[i] = map[op->in[i]->id] ? map[op->in[i]->id] : op->in[i];
	for (int i = 0; i < op->nout; i++)
		want[i] = op->out[i].type;
	b->place = op->place;
	Op *made = op_make_regions(b, op->kind, in, op->nin, op->attr, op->nattr, want, op->nout, op->nregion);
	for (int i = 0; i < op->nout; i++)
		enter(&made->out[i], &op->out[i], map);
	for (int r = 0; r < op->nregion; r++)
		made->region[r] = clone_block(b->m, made, op->region[r], map);
	return made;
}
