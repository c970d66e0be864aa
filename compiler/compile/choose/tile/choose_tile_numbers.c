/* Is a size a value as well?  Two modules that are alike (choose_tile.c) do not say so of `x + B % 3`: 3 and 6 times the
 * header's size have the same remainder, and so have 64 and 128 the same B >= 64.  What places parts is linear in the size,
 *
 *     numbers of size s = number + (s - header's) * step
 *
 * so all sizes that may be taken have to make the module of the header's size as it comes from the source, but for numbers
 * and extents on such lines.  A number that stays the same lies on one, and one that does not is known to place parts. */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

/* A module: its integers and extents, in the order of its text, and a hash of all else. */
typedef struct Numbers {
	VEC(int64_t) at;
	uint64_t rest;
} Numbers;

static void
mix(Numbers *x, const void *bytes, size_t n)
{
	const unsigned char *c = bytes;
	for (size_t i = 0; i < n; i++)
		x->rest = (x->rest ^ c[i]) * UINT64_C(0x100000001b3);
}

static void
add_attr(Numbers *x, const Attr *a, bool is_scalar, Arena *mem)
{
	mix(x, &a->name, sizeof a->name);
	switch (a->kind) {
	case KIND_INT: case KIND_BOOL:
		if (is_scalar)
			vec_push(mem, &x->at, a->i);
		else
			mix(x, &a->i, sizeof a->i);
		break;
	case KIND_FLOAT: mix(x, &a->f, sizeof a->f); break;
	case KIND_TEXT: mix(x, a->text, strlen(a->text)); break;
	case KIND_INTS:
		for (int i = 0; i < a->ints.n; i++)
			vec_push(mem, &x->at, a->ints.at[i]);
		break;
	case KIND_ANY: break;
	}
}

static void
add_op(Numbers *x, const Op *op, int *number, int *n, Arena *mem)
{
	mix(x, &op->kind, sizeof op->kind);
	for (int i = 0; i < op->nin; i++)
		mix(x, &number[op->in[i]->id], sizeof *number);
	for (int i = 0; i < op->nattr && op->kind != OP_PROGRAM_ID; i++)        /* notes of the grid */
		add_attr(x, &op->attr[i], op->kind != OP_CONST || op->out[0].type->rank == 0, mem);
	for (int i = 0; i < op->nout; i++) {
		const Type *t = op->out[i].type;
		number[op->out[i].id] = (*n)++;
		mix(x, &t->elem, sizeof t->elem);
		mix(x, &t->rank, sizeof t->rank);
		for (int d = 0; d < t->rank; d++)
			vec_push(mem, &x->at, t->extent[d]);
	}
	for (int r = 0; r < op->nregion; r++)
		for (int i = 0; op->region[r] && i < op->region[r]->narg; i++)
			number[op->region[r]->arg[i].id] = (*n)++;
}

static Numbers
numbers_of(Func *f, Arena *mem)
{
	Numbers x = {.rest = UINT64_C(0xcbf29ce484222325)};
	int n = 0;
	func_number(f);
	int *number = NEW_ARRAY(mem, int, MAX(f->nvalues, 1));
	for (int i = 0; i < f->body->narg; i++)
		number[f->body->arg[i].id] = n++;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE) /* needed for some sizes alone */
			number[op->out[0].id] = number[op->in[0]->id];
		else
			add_op(&x, op, number, &n, mem);
	return x;
}

/* Is the last of three numbers on the line through the others? */
static bool
is_on_line(const int64_t number[3], const int64_t size[3])
{
	int64_t step, by, a, b;
	return !__builtin_sub_overflow(number[1], number[0], &step) && !__builtin_sub_overflow(number[2], number[0], &by) &&
	    !__builtin_mul_overflow(by, size[1] - size[0], &a) && !__builtin_mul_overflow(step, size[2] - size[0], &b) &&
	    a == b;
}

/* Has the last module the first one's rest, and each number on the line through those of the first two? */
static bool
are_on_lines(const Numbers x[3], const int64_t size[3])
{
	if (x[2].at.n != x[0].at.n || x[2].rest != x[0].rest)
		return false;
	return ALL_OF(i, x[0].at.n,
	    is_on_line((int64_t[]){x[0].at.at[i], x[1].at.at[i], x[2].at.at[i]}, size));
}

bool
tile_only_places(const Pair *x, TileSource *source, void *user, const int64_t *sizes, int n, Arena *mem)
{
	Func *f = source(user, x->given);
	Numbers of[3] = {0};
	int64_t size[3] = {x->given};
	if (!f)
		return true;
	of[0] = numbers_of(f, mem);
	for (int i = 0; i < n; i++) {
		size[2] = sizes[i];
		f = size[2] != size[0] ? source(user, size[2]) : NULL;
		if (!f)
			continue;
		of[2] = numbers_of(f, mem);
		if (size[1] == 0) {
			size[1] = size[2];
			of[1] = of[2];
		}
		if (of[1].at.n != of[0].at.n || !are_on_lines(of, size))
			return false;
	}
	return true;
}
