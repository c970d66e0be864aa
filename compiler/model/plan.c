/* The plan of each op: shared scratch, and the barrier inside it.
 *
 *     %b = convert %a          16384 bytes, SYNC_BLOCK; SYNC_WARP where each warp reads only what it wrote
 *     %s = add %x, %y          operands in another layout than the result's go through scratch one after the other
 *     %p = extract %x, %3      the whole tile, of which the rows that start at a constant are read
 *
 * Each family of ops has its own planner; here they come together. */
#include "model/model.h"
#include "model/turn.h"

bool
value_constant(const Value *v, int64_t *out)
{
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_CONVERT || v->def->kind == OP_RESHAPE))
		v = v->def->in[0];
	if (!v->def || v->def->kind != OP_CONST)
		return false;
	const Attr *a = attr_value(v->def);
	if (a->kind != KIND_INT && a->kind != KIND_BOOL)
		return false;
	*out = a->i;
	return true;
}

/* Bytes that the function's buffers leave to each of the groups that run an op. */
int64_t
scratch_limit(const Op *op, const Target *t)
{
	Block *body = op->home->func->body;
	int64_t room = t->shared_bytes;
	for (const Op *o = body->first; o; o = op_after(o, body)) {
		if (o->kind == OP_ALLOC)
			room -= (buffer_slot_bytes(o) * o->out[0].type->slots + 1023) / 1024 * 1024;
		else if (o->kind == OP_MBARRIER)
			room -= 1024;
	}
	return MAX(room, 0) / op_groups(op);
}

int64_t
scratch_of_groups(const Op *op, const Target *t, int groups)
{
	int64_t bytes = plan_op(op, t).scratch, rows = (bytes + SCRATCH_ROW - 1) / SCRATCH_ROW;
	return bytes + (groups - 1) * rows * SCRATCH_ROW;
}

/* Of several groups one is in one op while another is in the next. */
int64_t
scratch_beside(const Op *op, const Target *t, int groups, int64_t others)
{
	int64_t own = scratch_of_groups(op, t, groups);
	return groups > 1 ? others + (own + SCRATCH_ROW - 1) / SCRATCH_ROW * SCRATCH_ROW : MAX(others, own);
}

int64_t
operand_scratch(const Value *v, const Layout *want)
{
	if (!want || !v->layout || v->layout == want || layout_equal(v->layout, want))
		return 0;
	return convert_scratch(v->layout, want, element_bytes(v->type));
}

int64_t
operands_scratch(const Op *op, const Layout *want)
{
	int64_t most = 0;
	for (int i = 0; i < op->nin; i++)
		most = MAX(most, operand_scratch(op->in[i], want));
	return most;
}

static int64_t
split_scratch(const Op *op)
{
	const Layout *to = op->out[0].layout;
	Layout want = split_layout(op);
	int64_t operand = operand_scratch(op->in[0], &want);
	return to ? MAX(operand, convert_scratch(to, op->out[1].layout, element_bytes(op->out[1].type))) : operand;
}

static int64_t
move_scratch(const Op *op, const Target *t)
{
	const Layout *to = op->out[0].layout;
	Layout want;
	uint64_t exchange;
	SlicePlan slice;
	Turn turn;
	switch (op->kind) {
	case OP_JOIN:
		want = layout_slice(to, to->rank - 1);
		return operands_scratch(op, &want);
	case OP_SPLIT:
		return split_scratch(op);
	case OP_CAT:
		if (!cat_is_even(op))
			return tile_bytes(op->out[0].type);
		want = cat_layout(op);
		return operands_scratch(op, &want);
	case OP_FLIP:
		return flip_exchange(op, &exchange) ? operands_scratch(op, to) : tile_bytes(op->out[0].type);
	case OP_GATHER:
		return MAX(gather_row_layout(op, to, &want) ? operand_scratch(op->in[0], &want)
		           : plan_turn(op, &turn)       ? operand_scratch(op->in[0], to)
		                                        : gather_piece(op, t),
		    operand_scratch(op->in[1], to));
	default:
		plan_slice(op, &slice);
		return slice.scratch;
	}
}

static int64_t
view_scratch(const Op *op)
{
	if (op->nin == 0 || !op->in[0]->layout || !op->out[0].layout)
		return 0;
	Layout want = op->kind == OP_CONVERT ? *op->out[0].layout : view_layout(op, op->out[0].layout);
	return operand_scratch(op->in[0], &want);
}

static int64_t
memory_scratch(const Op *op)
{
	int rank = op->in[0]->type->rank, fill = 1 + rank;
	const Layout *layout = op->kind == OP_READ || op->kind == OP_LOAD ? op->out[0].layout : NULL;
	switch (op->kind) {
	case OP_READ:
		return MAX(access_scratch(op, layout), op->nin > fill ? operand_scratch(op->in[fill], layout) : 0);
	case OP_WRITE:
		return access_scratch(op, op->in[op->nin - 1]->layout);
	case OP_LOAD:
		return operands_scratch(op, layout);
	case OP_STORE:
		return operands_scratch(op, op->in[1]->layout);
	default:
		return 0;
	}
}

static int64_t
atomic_scratch(const Op *op)
{
	const Layout *layout = op->out[0].layout;
	bool through = op->kind == OP_ATOMIC_PTR;
	int64_t most = through ? 0 : access_scratch(op, layout), bytes = element_bytes(op->out[0].type);
	if (atomic_is_shared(op))
		most = MAX(most, layout ? bytes << layout_out_bits(layout) : bytes);
	for (int i = through ? 0 : 1 + op->in[0]->type->rank; i < op->nin; i++)
		most = MAX(most, operand_scratch(op->in[i], layout));
	return most;
}

static int64_t
dot_scratch(const Op *op, const Target *t)
{
	MmaPlan mma;
	FmaPlan fma;
	if (op->kind == OP_DOT_SCALED || wgmma_named(attr_mma(op)) || plan_mma(op, &mma))
		return 0;
	plan_fma(op, t, &fma);
	return fma.scratch;
}

static int64_t
order_scratch(const Op *op, const Target *t)
{
	SortPlan sort;
	if (op->kind == OP_HISTOGRAM)
		return op->out[0].type->extent[0] * 4;
	plan_sort(op, t, &sort);
	return sort.scratch;
}

static int64_t
scatter_scratch(const Op *op, const Target *t)
{
	int64_t owners = scatter_owner_bytes(op), values = tile_bytes(op->in[2]->type);
	int64_t most = type_count(op->in[0]->type) * dtype_tile_size(scatter_slot(op));
	if (owners)
		most = scatter_is_apart(op, t) ? owners + values : MAX(owners, values);
	most = MAX(most, operand_scratch(op->in[0], op->out[0].layout));
	return MAX(most, operand_scratch(op->in[1], op->in[2]->layout));
}

static int64_t
print_scratch(const Op *op)
{
	int64_t sum = 0;
	for (int i = 0; i < op->nin && !attr_trace(op) && !op_attr(op, ATTR_WATCH); i++)
		sum += print_bytes(op, i);
	return sum;
}

bool
split_put_has(const Op *put, int r)
{
	const Layout *l = put->in[0]->layout;
	const IntList *valid = attr_valid(put);
	uint64_t threads = 0;

	if (l && ((uint64_t)r & layout_free_bits(l, IN_REGISTER)))
		return false;
	for (int i = l ? l->in[IN_REGISTER] : 0; l && i < l->map.nin; i++)
		threads |= l->map.col[i];
	for (int d = 0; valid && d < valid->n; d++) {
		uint64_t at = (f2_apply(&l->map, (uint64_t)r) & ~threads) >> layout_out_at(l, d);
		if ((int64_t)(at & ((UINT64_C(1) << l->out[d]) - 1)) >= valid->at[d])
			return false;                   /* as are those of all threads in that register */
	}
	return true;
}

/* What is put of a state, each register of each thread as words; elements that a thread has twice, once. */
static int64_t
put_bytes(const Op *put)
{
	const Value *v = put->in[0];
	const Layout *l = v->layout;
	int words = dtype_info[v->type->elem].bits > 32 ? 2 : 1;
	int64_t n = 0;

	if (v->type->rank == 0)
		return INT64_C(4) * words * MAX(func_warps(put->home->func), 1) * 32;
	for (int r = 0; l && r < 1 << l->in[IN_REGISTER]; r++)
		n += split_put_has(put, r);
	return l ? n * 4 * words << (l->in[IN_LANE] + l->in[IN_WARP]) : 0;
}

bool
split_gets_own(const Op *get)
{
	const Op *rank = get->in[1]->def;
	return attr_cluster(get->in[0]->def) && rank && rank->kind == OP_CONST && const_int(rank) == 0;
}

int64_t
split_put_offset(const Op *put)
{
	int64_t at = 0;
	const Block *body = put->home->func->body;

	for (const Op *op = body->first; op && op != put; op = op_after(op, body))
		if (op->kind == OP_SPLIT_PUT && !attr_cluster(op))
			at += put_bytes(op);
	return at;
}

static int64_t
given_bytes(const Op *give)
{
	int64_t n = 0;

	for (int i = 0; i < give->nin; i++) {
		const Layout *l = give->in[i]->layout;
		int registers = l ? l->in[IN_REGISTER] - __builtin_popcountll(layout_free_bits(l, IN_REGISTER)) : 0;
		n += l ? INT64_C(4) << (registers + l->in[IN_LANE] + l->in[IN_WARP]) : 0;
	}
	return n;
}

bool
func_stays(const Func *f)
{
	return f->schedule.persistent > 0 && f->schedule.split <= 1;
}

int64_t
split_part_bytes(const Func *f)
{
	int64_t n = 0;

	const Op *give = block_find(f->body, OP_STREAM_GIVE);

	if (give)
		return given_bytes(give);

	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_SPLIT_PUT && !attr_cluster(op))
			n += put_bytes(op);
	return n;
}

static int64_t
buffer_scratch(const Op *op)
{
	switch (op->kind) {
	case OP_SPLIT_PUT: return attr_cluster(op) ? put_bytes(op) : 0;
	case OP_SPLIT_MEET: return attr_cluster(op) ? 0 : 4;
	case OP_FROM_FIRST: return 8;
	case OP_COPY: return access_scratch(op, op->out[0].layout);
	default: return 0;
	}
}

static int64_t
scratch_of(const Op *op, const Target *t)
{
	ReducePlan reduce;
	switch (op_family(op)) {
	case FAMILY_SHAPE: case FAMILY_CONVERT:
		return view_scratch(op);
	case FAMILY_MOVE: case FAMILY_GATHER:
		return move_scratch(op, t);
	case FAMILY_ARITH: case FAMILY_COMPARE: case FAMILY_MATH: case FAMILY_CAST: case FAMILY_LOOKUP: case FAMILY_PHILOX:
	case FAMILY_PTX:
		/* elementwise ops take their operands in the result's layout */
		return operands_scratch(op, op->nout ? op->out[0].layout : op->nin ? op->in[0]->layout : NULL);
	case FAMILY_DOT:
		return dot_scratch(op, t);
	case FAMILY_REDUCE: case FAMILY_SCAN:
		plan_reduce(op, &reduce);
		return reduce.scratch;
	case FAMILY_ORDER:
		return order_scratch(op, t);
	case FAMILY_SCATTER:
		return scatter_scratch(op, t);
	case FAMILY_MEMORY:
		return memory_scratch(op);
	case FAMILY_ATOMIC:
		return atomic_scratch(op);
	case FAMILY_BUFFER:
		return buffer_scratch(op);
	case FAMILY_REPORT:
		return op->kind == OP_PRINT ? print_scratch(op) : 0;
	case FAMILY_INDEX: case FAMILY_DOT_ASYNC: case FAMILY_ROLES: case FAMILY_CONTROL:
		return 0;
	}
	unreachable();
}

/* An extract whose operand stands in scratch row by row reads some rows of it: which, where they are known. */
static void
find_rows_read(const Op *op, OpPlan *p)
{
	SlicePlan slice;
	const Type *t = op->in[0]->type;
	const Op *start = op->in[1]->def;
	if (!start || start->kind != OP_CONST)
		return;
	plan_slice(op, &slice);
	if (slice.way != SLICE_WHOLE)
		return;
	int64_t row = p->scratch / t->extent[0], at = const_int(start);
	int64_t n = attr_index(op)[0] == 'p' ? attr_extents(op)->at[0] : 1;
	p->read_from = row * MAX(MIN(at, t->extent[0] - n), 0);
	p->read_to = p->read_from + row * n;
}

OpPlan
plan_op(const Op *op, const Target *t)
{
	OpPlan p = {.scratch = scratch_of(op, t)};
	p.read_to = p.scratch;
	if (p.scratch == 0)
		return p;
	p.sync = op->kind == OP_SPLIT_PUT ? SYNC_NONE : SYNC_BLOCK;     /* it is read behind a split_meet */
	if (op->kind == OP_CONVERT && convert_stays_in_warps(op->in[0]->layout, op->out[0].layout))
		p.sync = SYNC_WARP;
	if (op->kind == OP_GATHER && gather_stays_in_warps(op, t))
		p.sync = SYNC_WARP;
	if (op->kind == OP_EXTRACT)
		find_rows_read(op, &p);
	return p;
}
