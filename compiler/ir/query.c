/* What passes and lowering ask of values and ops: constants, scopes, the tile and the mask of an access, the buffer that a
 * slot is of, the warps that run an op.  Nothing here changes the module. */
#include "ir/derive.h"
#include "ir/ir.h"

#include <string.h>

bool
value_int(const Value *v, int64_t *n)
{
	const Attr *a = value_const(v);

	if (!a || a->kind == KIND_FLOAT)
		return false;
	*n = a->i;
	return true;
}

bool
param_has_rows(const FuncParam *p)
{
	return !p->strided || p->unit;
}

int
param_dim(const FuncParam *p, int rank, int d)
{
	if (p->last == 0 || d < p->last - 1)
		return d;
	return d == rank - 1 ? p->last - 1 : d + 1;
}

bool
value_is_int(const Value *v, int64_t n)
{
	int64_t is;

	return value_int(v, &is) && is == n;
}

bool
value_is_zero(const Value *v)
{
	const Attr *a = value_const(v);

	return a && (a->kind == KIND_FLOAT ? a->f == 0.0 : a->i == 0);
}

bool
block_inside(const Block *b, const Block *outer)
{
	while (b != outer && b->parent)
		b = b->parent->home;
	return b == outer;
}

bool
value_inside(const Value *v, const Block *b)
{
	return block_inside(v->block, b);
}

void
op_edge(const Op *op, int i, int e, Value **from, Value **to)
{
	const Op *first = op->region[0]->last, *last = op->region[op->nregion - 1]->last;
	bool is_for = op->kind == OP_FOR;

	*to = &op->out[i];
	if (op->kind == OP_IF) {
		*from = (e & 1 ? last : first)->in[i];
		return;
	}
	*from = e & 1 ? last->in[i] : op->in[is_for ? 3 + i : i];
	if (e < 2)
		*to = &op->region[0]->arg[is_for ? 1 + i : i];
	else if (!is_for)
		*from = first->in[1 + i];
	if (!is_for && e == 2)
		*to = &op->region[1]->arg[i];
}

const Op *
buffer_owner(const Value *v)
{
	while (v->def && v->def->kind == OP_SLOT)
		v = v->def->in[0];
	OpKind k = v->def ? v->def->kind : OP_YIELD;
	return k == OP_ALLOC || k == OP_MBARRIER || k == OP_SPLIT_PUT ? v->def : NULL;
}

bool
op_takes_buffer(const Op *op, const Op *owner)
{
	return ANY_OF(i, op->nin, buffer_owner(op->in[i]) == owner);
}

int64_t
buffer_slot_bytes(const Op *owner)
{
	const Type *t = owner->out[0].type;
	if (owner->kind == OP_MBARRIER)
		return 8;
	if (owner->kind == OP_ALLOC && attr_slot_bytes(owner))
		return attr_slot_bytes(owner);
	return t->elem == TY_BOOL ? type_count(t) : dtype_bytes(t->elem, type_count(t));
}

bool
access_is_tensor(const Op *op)
{
	return op->nin > 0 && op->in[0]->type->kind == TYPE_TENSOR;
}

int
access_merged(const Op *op, int d)
{
	const IntList *merged = attr_merged(op);
	return merged && d < merged->n ? (int)merged->at[d] : 0;
}

bool
access_merges_away(const Op *op, int d)
{
	const IntList *merged = attr_merged(op);
	for (int i = d + 1; merged && i < merged->n; i++)
		if (i - merged->at[i] <= d)
			return true;
	return false;
}

int
access_data(const Op *op)
{
	return 1 + op->in[0]->type->rank;
}

Value *
access_tile(const Op *op)
{
	switch (op->kind) {
	case OP_READ: case OP_LOAD: return &op->out[0];
	case OP_WRITE: case OP_ATOMIC: return op->in[access_data(op)];
	case OP_STORE: case OP_ATOMIC_PTR: return op->in[1];
	default: return NULL;
	}
}

Value *
access_mask(const Op *op)
{
	int at = op->kind == OP_LOAD || op->kind == OP_PREFETCH ? 1 : 2;

	if (access_is_tensor(op))
		return NULL;
	if (op->kind == OP_ATOMIC_PTR)
		return attr_masked(op) ? op->in[op->nin - 1] : NULL;
	return op->nin > at ? op->in[at] : NULL;
}

const Op *
op_roles(const Op *op, int *region)
{
	while (op->home->parent && op->home->parent->kind != OP_ROLES)
		op = op->home->parent;
	const Op *roles = op->home->parent;
	if (roles)
		*region = roles->region[1] == op->home;
	return roles;
}

int
op_warps(const Op *op)
{
	int region;
	const Op *roles = op_roles(op, &region);

	return roles ? (int)attr_warps(roles)->at[region] : op->home->func->schedule.warps;
}

const Op *
block_find(const Block *b, OpKind kind)
{
	return FIND_OP(op, b, op->kind == kind);
}

const Op *
func_find(const Func *f, OpKind kind)
{
	return FIND_OP_HERE(op, f->body, op->kind == kind);
}

bool
func_waits_late(const Func *f)
{
	return func_find(f, OP_GRID_WAIT) != NULL;
}

/* A group of a role's begins some programs behind the block's first. */
bool
op_is_over_programs(const Op *op)
{
	if (op->kind != OP_FOR || attr_dynamic(op))
		return op->kind == OP_FOR;
	const Op *first = op->in[0]->def, *up = op->home->parent;
	if (first && first->kind == OP_ADD && up && up->kind == OP_ROLES)
		first = first->in[0]->def;
	return first && first->kind == OP_BLOCK_ID;
}

bool
loop_steps_up(const Op *loop)
{
	int64_t step;

	return value_int(loop->in[2], &step) && step > 0;
}

Op *
func_programs(const Func *f)
{
	return FIND_OP_HERE(op, f->body, op_is_over_programs(op));
}

bool
tensor_may_be_written(const Func *f, const Value *tensor, const Block *b)
{
	if (tensor->block != f->body)
		return true;
	bool is_in = f->param[tensor->index].access == ACCESS_IN;
	return ANY_OP(op, f->body,
	    op->kind == OP_INLINE_PTX || ((op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR) && is_in) ||
	    (op_has(op, WRITES) && op->nin && op->in[0] == tensor && op_inside(op, b)));
}

bool
op_reads_written(const Func *f, const Op *op)
{
	if (op->kind == OP_READ || op->kind == OP_COPY)
		return f->param[op->in[0]->index].access != ACCESS_IN &&
		    tensor_may_be_written(f, op->in[0], f->body);
	return op->kind == OP_INLINE_PTX || (op->kind == OP_LOAD && op->in[0]->type->ptr != PTR_CONST);
}

bool
func_observes_order(const Func *f)
{
	int atomics = 0, used = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool again = f->schedule.persistent;
		if (op_reads_written(f, op))
			return true;
		if (op_family(op) != FAMILY_ATOMIC)
			continue;
		for (const Op *up = op->home->parent; up; up = up->home->parent)
			again |= up->kind != OP_IF;
		atomics += again ? 2 : 1;
		used += op->out[0].nuses > 0;
	}
	return used > 0 && atomics > 1;
}

const Op *
cluster_program(const Block *b)
{
	return FIND_OP(op, b, op->kind == OP_PROGRAM_AT && attr_ranks(op) > 1);
}

int
op_groups(const Op *op)
{
	int region;
	const Op *roles = op_roles(op, &region);

	return roles ? (int)attr_copies(roles)->at[region] : 1;
}

int
func_warps(const Func *f)
{
	const Op *roles = func_find(f, OP_ROLES);

	if (!roles)
		return f->schedule.warps;
	const IntList *warps = attr_warps(roles), *copies = attr_copies(roles);
	return (int)(warps->at[0] * copies->at[0] + warps->at[1] * copies->at[1]);
}

bool
op_is_grouped_copy(const Op *op)
{
	return op->kind == OP_COPY && strcmp(attr_kind(op), "cp_async") == 0;
}

bool
op_is_bulk_copy(const Op *op)
{
	return op->kind == OP_COPY && (strcmp(attr_kind(op), "bulk") == 0 || strcmp(attr_kind(op), "multicast") == 0);
}

bool
op_is_counted_copy(const Op *op)
{
	return op_is_bulk_copy(op) || (op->kind == OP_COPY && strcmp(attr_kind(op), "counted") == 0);
}

int
copy_windows(const Op *op)
{
	int n = 0;

	while (attr_index(op)[n] == 'w')
		n++;
	return MAX(n - 1, 0);
}

int
copy_threads(const Op *op)
{
	const Layout *l = op->out[0].layout;

	return l ? 1 << (l->in[IN_LANE] + l->in[IN_WARP]) : 1;
}

bool
func_is_dynamic(const Func *f)
{
	return block_find(f->body, OP_FETCH) != NULL;
}

int
func_cluster(const Func *f)
{
	const Op *meet = func_find(f, OP_SPLIT_MEET);

	if (func_find(f, OP_CLUSTER_BARRIER))
		return MAX(f->schedule.ctas, 1);
	return meet && attr_cluster(meet) ? MAX(f->schedule.split, 1) : 1;
}

int
func_cluster_axis(const Func *f)
{
	const Op *at = cluster_program(f->body);

	return at ? (int)attr_along(at) : -1;
}

int
func_role_registers(const Func *f)
{
	const Op *roles = func_find(f, OP_ROLES);
	int64_t n = 0;

	for (int r = 0; roles && attr_regs(roles) && r < 2; r++)
		n += attr_warps(roles)->at[r] * attr_copies(roles)->at[r] * attr_regs(roles)->at[r];
	return n ? (int)((n + func_warps(f) - 1) / func_warps(f)) : 0;
}

/* ---- the range of integers ---- */

/* Through so many ops at most: one that two ops use is visited by each of them. */
enum { RANGE_VISITS_MOST = 64 };

static bool
integer_range(const Value *v, int64_t *lo, int64_t *hi, int *left)
{
	const Op *op = v->def;
	DType t = v->type->elem;
	if (--*left < 0)
		return false;
	if (value_int(v, lo)) {
		*hi = *lo;
		return t != TY_U64 || *lo >= 0;         /* -1 of u64 is its greatest */
	}
	int64_t a, b, c, by;
	bool known = false, has = op && op->nin > 0 && op->in[0]->type->kind == TYPE_TILE &&
	    dtype_is_int(op->in[0]->type->elem);
	switch (has ? op->kind : OP_COUNT) {
	case OP_CAST: case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE:
		known = integer_range(op->in[0], &a, &b, left);
		break;
	case OP_AND:
		known = value_int(op->in[1], &c) && c >= 0;
		a = 0, b = known ? c : 0;
		break;
	case OP_SHR:
		known = value_int(op->in[1], &by) && by >= 0 && by < 64 && integer_range(op->in[0], &a, &b, left);
		a = known ? a >> by : 0, b = known ? b >> by : 0;
		break;
	case OP_JOIN:
		known = integer_range(op->in[0], &a, &b, left) && integer_range(op->in[1], &c, &by, left);
		a = known ? MIN(a, c) : 0, b = known ? MAX(b, by) : 0;
		break;
	case OP_OR: case OP_XOR:
		known = integer_range(op->in[0], &a, &b, left) && integer_range(op->in[1], &c, &by, left) && a >= 0 &&
		    c >= 0;
		b = known ? (INT64_C(1) << log2_ceil(MAX(b, by) + 1)) - 1 : 0;
		a = 0;
		break;
	case OP_ADD: case OP_SUB:
		known = integer_range(op->in[0], &a, &b, left) && integer_range(op->in[1], &c, &by, left);
		a += known ? op->kind == OP_ADD ? c : -by : 0;
		b += known ? op->kind == OP_ADD ? by : -c : 0;
		break;
	case OP_LOOKUP: {
		const IntList *bits = attr_bits(op);
		a = b = 0;
		for (int i = 0; i < bits->n; i++)
			a = MIN(a, bits->at[i]), b = MAX(b, bits->at[i]);
		known = true;
		break;
	}
	default: break;
	}
	int bits = dtype_info[t].bits - dtype_is_signed(t);
	*lo = dtype_is_signed(t) ? -(INT64_C(1) << MIN(bits, 62)) : 0;
	*hi = (INT64_C(1) << MIN(bits, 62)) - 1;
	if (known && a >= *lo && b <= *hi)
		*lo = a, *hi = b;
	return bits <= 32 || known;
}

bool
value_range(const Value *v, int64_t *lo, int64_t *hi)
{
	int left = RANGE_VISITS_MOST;
	return v->type->kind == TYPE_TILE && dtype_is_int(v->type->elem) && integer_range(v, lo, hi, &left);
}

Cluster
program_cluster(const Op *program)
{
	return (Cluster){(int)attr_ranks(program), (int)attr_along(program), (int)attr_beside(program)};
}

int
cluster_on(Cluster c, int axis)
{
	return axis == c.along ? c.ranks / c.beside : axis == 1 - c.along ? c.beside : 1;
}

int
cluster_apart(Cluster c, int axis)
{
	return axis == c.along ? 1 : c.ranks / c.beside;
}

int
mask_apart(int64_t mask)
{
	int64_t rest = mask & (mask - 1);
	int apart = rest ? __builtin_ctzll((uint64_t)rest) : 1, n = __builtin_popcountll((uint64_t)mask);
	int64_t all = 0;
	for (int i = 0; i < n && i * apart < 63; i++)
		all |= INT64_C(1) << i * apart;
	return all == mask && is_power_of_two(apart) ? apart : 0;
}

int64_t
mask_of_rank(int64_t mask, int rank)
{
	int apart = MAX(mask_apart(mask), 1), n = __builtin_popcountll((uint64_t)mask);
	return mask << (rank - rank / apart % MAX(n, 1) * apart);
}

int
func_cluster_beside(const Func *f)
{
	const Op *at = cluster_program(f->body);

	return at ? program_cluster(at).beside : 1;
}
