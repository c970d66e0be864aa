/* Which of the elements that a thread holds it computes: not those that are equal, nor those that the compiler knows.
 *
 *     %w = read %x, %r, %0 … : f32[8192]         of f32[R, 5120], 8 warps: of its 4 accesses the fourth begins at 6144:
 *                                                it is the fill, and what hangs on it is constant */
#include "model/model.h"
#include "model/overlap/elements.h"

#include <math.h>
#include <string.h>

/* Those of a thread that differ: %i = iota {axis = 1} : i32[4, 8] has 8 elements, however many rows a thread holds. */
double
cost_distinct(const uint32_t *varies, const Value *v)
{
	const Layout *l = v->layout;
	uint64_t moved = 0;
	int n = 0;
	if (!l)
		return 1;
	for (int d = 0; d < l->rank; d++)
		if (varies[v->id] >> d & 1)
			moved |= ((UINT64_C(1) << l->out[d]) - 1) << layout_out_at(l, d);
	uint64_t free = layout_free_bits(l, IN_REGISTER);
	for (int i = 0; i < l->in[IN_REGISTER]; i++)
		n += (l->map.col[i] & moved) && !(free >> i & 1);
	return (double)(UINT64_C(1) << n);
}

uint32_t
cost_varying(const uint32_t *varies, const Op *op, const Value *v)
{
	const IntList *dims = op->kind == OP_PERMUTE ? attr_dims(op) : NULL;
	uint32_t of = 0, all = (UINT32_C(1) << v->type->rank) - 1;
	if (op->kind == OP_CONST)
		return attr_value(op)->kind == KIND_INTS ? all : 0;
	if (op->kind == OP_IOTA)
		return UINT32_C(1) << attr_axis(op);
	for (int i = 0; i < op->nin; i++)
		of |= op->in[i]->type->rank ? varies[op->in[i]->id] : 0;
	if (op_has(op, ELEM) || op->kind == OP_CONVERT || (op->kind == OP_BROADCAST && op->in[0]->type->rank))
		return of;
	if (op->kind == OP_BROADCAST)
		return 0;
	if (!dims)
		return op->kind == OP_RESHAPE && of == 0 ? 0 : all;
	all = 0;
	for (int d = 0; d < v->type->rank; d++)
		all |= (of >> dims->at[d] & 1) << d;
	return all;
}

/* Does each register of a thread hold a number that the compiler knows?  Indices along a dimension that no lane and no warp
 * moves along, and what is computed from them. */
bool
cost_known(const Value *v, int depth)
{
	const Layout *l = v->layout;
	int64_t n;
	if (value_constant(v, &n))
		return true;
	if (!l || !v->def || depth == 0)
		return false;
	if (v->def->kind == OP_IOTA) {
		int axis = (int)attr_axis(v->def), at = layout_out_at(l, axis);
		for (int i = l->in[IN_REGISTER]; i < l->map.nin; i++)
			if (l->map.col[i] >> at & ((UINT64_C(1) << l->out[axis]) - 1))
				return false;
		return true;
	}
	return (op_has(v->def, ELEM) || v->def->kind == OP_CONVERT ||
		   v->def->kind == OP_BROADCAST) &&
	    ALL_OF(i, v->def->nin, cost_known(v->def->in[i], depth - 1));
}

/* The assembler computes that before the loop. */
bool
cost_is_index(const Value *v, int depth)
{
	if (!v->def || depth == 0)
		return false;
	return (v->def->kind == OP_IOTA || v->def->kind == OP_CONST || op_has(v->def, ELEM) ||
		   v->def->kind == OP_RESHAPE) &&
	    ALL_OF(i, v->def->nin, cost_is_index(v->def->in[i], depth - 1));
}

/* The share of a thread's elements of the tile that begin inside of the tensor, where its extents are numbers. */
double
cost_inside_tensor(const Op *access, const Value *v)
{
	const Layout *l = v->layout;
	int at[KERNEL_RANK], registers = l ? l->in[IN_REGISTER] : 0;
	if (!access_is_tensor(access) || !l || v->type->rank == 0 || registers > 16)
		return 1;
	const Type *t = access->in[0]->type;
	int64_t n = INT64_C(1) << registers, inside = n;
	access_dims(access, at);
	for (int d = 0; d < t->rank; d++) {
		int64_t start;
		if (attr_index(access)[d] != 'p' || access_merged(access, d) || t->extent[d] < 0 ||
		    !value_int(access->in[1 + d], &start) || start < 0)
			continue;
		int64_t within = 0, mask = (INT64_C(1) << l->out[at[d]]) - 1;
		for (int64_t r = 0; r < n; r++) {
			uint64_t element = 0;
			for (int i = 0; i < registers; i++)
				element ^= r >> i & 1 ? l->map.col[i] : 0;
			within += start + (int64_t)(element >> layout_out_at(l, at[d]) & (uint64_t)mask) < t->extent[d];
		}
		inside = MIN(inside, within);
	}
	return (double)inside / (double)n;
}

/* That of what an op makes: of its operands' that differ most, as far as it makes elements of elements. */
double
cost_inside(const uint32_t *varies, const double *inside, const Op *op, const Value *v)
{
	double most = 0;
	bool moves = op->kind == OP_CONVERT || op->kind == OP_RESHAPE || op->kind == OP_PERMUTE;
	bool any = false, same = moves || op_has(op, ELEM);
	if (op->kind == OP_READ)
		return cost_inside_tensor(op, v);
	for (int i = 0; i < op->nin && same; i++)
		if (op->in[i]->type->rank > 0 && varies[op->in[i]->id] && !cost_known(op->in[i], 3)) {
			most = MAX(most, inside[op->in[i]->id]);
			any = true;
		}
	return any ? most : 1;
}

/* ---- of accesses ---- */

/* The loop that has most trips of the one from which this one was left (passes keep, unroll). */
const Op *
cost_main_loop(const Op *loop)
{
	const Op *of = FIND_NEXT(o, loop, o->prev, o->kind == OP_FOR && attr_unrolled(o) >= 0);
	return of ? of : loop;
}

bool
cost_is_next_loop(const Op *op, const Op **loop)
{
	if (!op_is_loop(op) || op_is_over_programs(op))
		return false;
	bool is_next = *loop && ((*loop)->place.line != op->place.line || (*loop)->place.col != op->place.col);
	bool writes = *loop && ANY_OP(in, (*loop)->region[0], op_has(in, WRITES));
	*loop = op;
	return is_next && writes;
}

/* Does v follow from what differs between the loop's trips: its index, what it carries, or what its body reads? */
static bool
follows_from(const Value *v, const Op *loop, int depth)
{
	const Block *body = loop->region[loop->nregion - 1];
	if (!value_inside(v, body))
		return false;
	const Op *from = v->def ? v->def : v->block->parent;
	if (depth == 0 || from == loop || (v->def && op_is_access(from)))
		return true;
	return ANY_OF(i, from->nin, follows_from(from->in[i], loop, depth - 1));
}

double
cost_passes(const Op *read, CostTrips trips, void *user, double *apart)
{
	enum { DEPTH = 12 };
	double passes = 1, between = 1;
	bool goes_on = false;                           /* along a loop inside */
	*apart = 1;
	for (const Op *loop = read->home->parent; loop && !op_is_over_programs(loop); loop = loop->home->parent) {
		if (!op_is_loop(loop))
			continue;
		double n = trips(user, loop);
		if (ANY_OF(i, read->nin - 1, follows_from(read->in[1 + i], loop, DEPTH))) {
			between *= n;
			goes_on = true;
		} else if (goes_on && n > 1) {
			passes *= n;
			*apart = between;
		}
	}
	return passes;
}

/* Does the index follow from that of the first of programs that a block computes as one tile? */
static bool
is_joined(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == 0)
		return false;
	if (op->kind == OP_PROGRAM_AT || op->kind == OP_PROGRAM_ID)
		return attr_ranks(op) > 1 && (op->kind == OP_PROGRAM_ID || attr_axis(op) == attr_along(op));
	bool passes = op->kind == OP_ADD || op->kind == OP_MUL || op->kind == OP_CAST;
	return passes && ANY_OF(i, op->nin, is_joined(op->in[i], depth - 1));
}

/* Halvings by which pieces that a warp asks for are shorter than WIDE; of several programs' tile by the bytes that follow
 * one another in memory: an H200 took 1.03 to 1.2 of a copy by 128 of them, 1.2 to 1.4 by 64, 1.5 to 2.3 by 32, 2.5 to 6 by
 * 16 (swiglu, rope and sums of two bf16 tensors of transposed views). */
double
cost_halvings(const Op *op, double sectors)
{
	enum { SECTOR = 32, WIDE = 256, DEEP = 6 };     /* bytes */
	static const double LINE = 128, AT_LINE = 0.32, THRICE = 1.585;
	const Type *t = op->in[0]->type;
	const char *index = access_is_tensor(op) ? attr_index(op) : "";
	const IntList *parts = *index && index[t->rank - 1] == 'p' ? attr_extents(op) : NULL;
	double run = (double)dtype_bytes(t->elem, parts ? parts->at[parts->n - 1] : 1);
	if (op->home->func->schedule.batch <= 1 || !*index) {
		double asked = sectors * SECTOR;        /* of several rows at once, where a tile's are short */
		return MAX(log2(WIDE / MAX(parts && !strchr(index, 'g') ? MIN(run, asked) : asked, 1)), 0);
	}
	bool is_whole = op->nout > 0 || value_is_zero(op->in[t->rank]);
	if (is_whole && !is_joined(op->in[t->rank], DEEP))
		return 0;
	return AT_LINE * pow(LINE / MAX(run, 1), THRICE);
}

/* A box that copies bring, or that leaves, lies in shared memory. */
double
cost_box_bytes(const Op *op)
{
	return op->kind == OP_COPY || op->kind == OP_SEND ? (double)tile_bytes(op->in[access_data(op)]->type) : 0;
}
