/* What a choice of layouts costs, in cycles of one multiprocessor, roughly: only comparisons between choices count.
 *
 * A conversion costs by its method (renaming nothing, shuffles, a trip through shared memory with its barriers);
 * memory the instructions and the sectors that they touch; arithmetic its registers, so that a layout in which many
 * threads hold the same element is expensive; reductions the shuffles and transfers of their axis. */
#include "model/model.h"
#include "pass/layout/assign.h"

#include <string.h>

enum { CACHE = 1024, BARRIERS = 60, BARRIERS_ROLES = 300, ACCESS = 4 };
enum { DRAINED_BYTES = 16, SCRATCH_RATE = 16 };         /* SCRATCH_RATE: bytes for which rings give way, a cycle */
enum { ALIGNED = 16 };                                  /* bytes, the most that access_contiguity knows of */

static const double SECTOR = 2, SHUFFLE = 4, ALU = 0.25, MOVE = 0.1, WIDER = 1e-3;

static int
registers(const Layout *l)
{
	return 1 << l->in[IN_REGISTER];
}

static int
element_bits(const Type *t)
{
	return t->ptr != PTR_NONE ? 64 : t->elem == TY_BOOL ? 8 : dtype_info[t->elem].bits;
}

/* Through shared memory: every register out and in, in vectors as wide as the layout's own. */
static double
shared_cost(const Layout *l, int bits)
{
	int vector = l->rank > 0 ? 1 << layout_contiguous(l, l->rank - 1) : 1, bytes = MAX(bits / 8, 1);
	while (vector > 1 && vector * bytes > 16)
		vector /= 2;
	double n = MAX(registers(l) / vector, 1);
	return n * ACCESS + registers(l) * bytes / 4.0;
}

/* log2 of the neighbours along the last dimension that a thread has, in whatever order. */
static int
neighbours(const Layout *l)
{
	int n = 0;
	for (int i = 0; i < l->in[IN_REGISTER] && l->rank > 0; i++)
		if (n < l->out[l->rank - 1] && l->map.col[i] == UINT64_C(1) << n) {
			n++;
			i = -1;
		}
	return n;
}

/* Of what is got from a slot: registers that are neighbours there come together, wherever they stand (lower/memory). */
static double
get_cost(const Layout *l, int bits)
{
	enum { VECTOR_BITS = 128 };
	int vector = MIN(1 << neighbours(l), MAX(VECTOR_BITS / MAX(bits, 1), 1)), bytes = MAX(bits / 8, 1);
	return MAX(registers(l) / vector, 1) * (double)ACCESS + registers(l) * bytes / 4.0;
}

/* Barriers keep warpgroups in step that compute operands in roles: one's products and another's arithmetic would else run
 * at once. */
static double
barriers(const Assign *a)
{
	bool is_apart = a->f->schedule.specialize == 1 && a->t->has & HAS_WGMMA && !a->warpgroups;
	return is_apart ? BARRIERS_ROLES : BARRIERS;
}

static double
conversion(const Assign *a, const Layout *src, const Layout *dst, int bits)
{
	Convert c;
	int warps = 1 << src->in[IN_WARP];
	if (!layout_convert(src, dst, &c))
		return 1e9;
	switch (c.kind) {
	case CONVERT_NONE:
		return 0;
	case CONVERT_REGISTERS:                         /* before a cast to wider ones, which may take pairs */
		return MOVE * registers(dst) * (1 + bits * WIDER);
	case CONVERT_SHUFFLE:
		return warps * registers(dst) * SHUFFLE * MAX(bits / 32, 1) + 1;
	default:
		return warps * (shared_cost(src, bits) + shared_cost(dst, bits)) + barriers(a);
	}
}

static double
convert_cost(Assign *a, const Layout *src, const Layout *dst, const Type *t)
{
	int bits = element_bits(t);
	if (src == dst)
		return 0;
	size_t at = ((size_t)src / 64 * 31 + (size_t)dst / 64 * 7 + (size_t)bits) % CACHE;
	CostEntry *e = &a->cache[at];
	if (e->src != src || e->dst != dst || e->bits != bits)
		*e = (CostEntry){src, dst, bits, conversion(a, src, dst, bits)};
	return e->cost;
}

/* Bytes from one row of a tile to the next: short rows that the compiler knows share sectors. */
static int64_t
row_bytes(const Op *op, int bytes)
{
	enum { FAR = 4096 };
	const Type *t = op->in[0]->type;
	bool is_row = t->kind == TYPE_TENSOR && t->rank > 1 && attr_index(op)[t->rank - 1] == 'p';
	return is_row && t->extent[t->rank - 1] > 0 ? t->extent[t->rank - 1] * bytes : FAR;
}

/* Elements of a small table, or of the row of one that scalars say, stay in the first cache, wherever a warp's lie. */
static bool
is_small_table(const Op *op)
{
	enum { SMALL_BYTES = 4096 };
	const Type *t = op->in[0]->type;
	int64_t n = op->kind == OP_READ && t->kind == TYPE_TENSOR && strchr(attr_index(op), 'g') ? element_bits(t) : 0;
	for (int d = 0; d < t->rank && n > 0 && n <= 8 * SMALL_BYTES; d++)
		n *= attr_index(op)[d] == 'i' ? 1 : MAX(t->extent[d], 0);
	return n > 0 && n <= 8 * SMALL_BYTES;
}

/* What one warp's store writes of sectors: the first n bytes of a lane's, `offset` bytes into one. */
static double
written_at(const Layout *l, int n, int64_t row, int bytes, int offset)
{
	enum { SECTOR_BYTES = 32, MOST = 64 };
	static const double PART = 3.3;
	int64_t sector[MOST];
	uint64_t taken[MOST] = {0};
	int fast = l->rank > 0 ? l->out[l->rank - 1] : 0, count = 0;
	for (int lane = 0; lane < 1 << l->in[IN_LANE]; lane++) {
		uint64_t at = f2_apply(&l->map, (uint64_t)lane << l->in[IN_REGISTER]);
		int64_t from = (int64_t)(at >> fast) * row + (int64_t)(at & ((UINT64_C(1) << fast) - 1)) * bytes + offset;
		for (int64_t end = from + n; from < end;) {
			int64_t s = from / SECTOR_BYTES, until = MIN(end, (s + 1) * SECTOR_BYTES);
			int i = FIRST_OF(k, count, sector[k] == s);
			if (i < 0)
				sector[i = count++] = s;
			taken[i] |= ((UINT64_C(1) << (until - from)) - 1) << (from - s * SECTOR_BYTES);
			from = until;
		}
	}
	int whole = COUNT_OF(i, count, taken[i] == UINT32_MAX);
	return whole + PART * (count - whole);
}

/* Sectors that a warp's store writes, of rows that begin at multiples of `align` bytes, in the mean.  The L2 cache takes
 * longer for parts of sectors: of products whose rows are odd an H200 writes 130 whole sectors a cycle, or 40 parts of some
 * (8192 x 4097 x 64 in f16, 64 bytes of a row in each store, 33.5 us; 4096 x 4098 x 512 by 16 bytes, from sums as they lie,
 * 49.4; 4096 x 4097 x 512 in f32 by every second element 108.7). */
static double
written_sectors(const Op *op, const Layout *l, int bytes, int log, int align)
{
	enum { SECTOR_BYTES = 32, STEP = 8 };
	int64_t row = l->rank > 0 ? row_bytes(op, bytes) : 0;
	double sum = 0;
	int n = 0;
	for (int at = align < STEP ? align : 0; at < SECTOR_BYTES; at += MAX(align, STEP), n++)
		sum += written_at(l, bytes << log, row, bytes, at);
	return sum / n;
}

/* A warp's access: registers in groups of `vector` neighbours, and the sectors that a group touches.  What pass drain
 * serves is put into shared memory, and a tensor map stores it. */
static double
memory_cost(const Assign *a, const Op *op, const Layout *l, bool drains)
{
	const Type *t = anchor_type(op);
	int bits = element_bits(type_with_elem(a->m, t, t->elem));
	int bytes = MAX(bits / 8, 1), vector = MAX(access_vector(op, l, a->t), 1 << access_halo(op, l, a->t));
	int touched = 0, least = 0, log = log2_floor(vector), records = access_records_held(op, l, a->t);
	double n = MAX(registers(l) / vector, 1);
	if (records > 0) {
		n = MAX((double)registers(l) / (1 << records) / t->extent[t->rank - 1], 1);
		n *= (double)op->in[0]->type->extent[op->in[0]->type->rank - 1];
		touched = MAX((1 << l->in[IN_LANE]) * (bytes << records) / 32, 1);
	} else if (is_small_table(op)) {
		touched = 1;
	} else if (l->in[IN_LANE] <= 5 && bytes * vector <= 64) {
		layout_sectors(l, bytes, l->rank > 0 ? row_bytes(op, bytes) : 0, log, &touched, &least);
	}
	if (op_family(op) == FAMILY_ATOMIC)
		n *= 4;
	if (drains && bytes * vector < DRAINED_BYTES)
		return (1 << l->in[IN_WARP]) * shared_cost(l, bits) / 2;
	int dim, align = bytes << access_contiguity(op, a->t, &dim);
	bool is_odd = op->kind == OP_WRITE && touched > 0 && records == 0 && align < ALIGNED;
	double sectors = is_odd ? written_sectors(op, l, bytes, log, align) : touched;
	return (1 << l->in[IN_WARP]) * n * (ACCESS + SECTOR * sectors);
}

static double
reduce_cost(const Op *op, const Layout *l, bool defers)
{
	int axis = (int)attr_axis(op), lanes = layout_bits_along(l, IN_LANE, axis);
	int warps = 1 << l->in[IN_WARP];
	Layout left = layout_slice(l, axis);
	left = layout_drop_broadcast(&left);
	double out = op_family(op) == FAMILY_REDUCE ? registers(&left) : registers(l);
	double cost = warps * registers(l) * ALU;
	if (defers)
		return cost;
	cost += warps * out * lanes * (SHUFFLE + ALU);
	if (layout_bits_along(l, IN_WARP, axis))
		cost += BARRIERS + warps * out * ACCESS * 2;
	return cost;
}

static double
arithmetic(OpCost cost)
{
	switch (cost) {
	case COST_SFU: return 6;
	case COST_DIVIDE: case COST_LONG: return 12;
	case COST_FREE: case COST_ALU: case COST_ACCESS: case COST_WHOLE: case COST_NONE: case COST_OPAQUE: return 1;
	}
	unreachable();
}

static double
op_cost(const Assign *a, const Var *x)
{
	const Op *op = x->op;
	const Layout *l = x->layout;
	if (!op)
		return registers(l) * MOVE;
	switch (op_family(op)) {
	case FAMILY_MEMORY: case FAMILY_ATOMIC:
		return memory_cost(a, op, l, x->drains);
	case FAMILY_REDUCE: case FAMILY_SCAN:
		return reduce_cost(op, l, x->defers);
	case FAMILY_ORDER:
		return reduce_cost(op, l, false) * 8;
	case FAMILY_SHAPE: case FAMILY_MOVE:
		return registers(l) * MOVE;
	case FAMILY_PHILOX:
		return (1 << a->warps) * registers(l) * 60 * ALU;
	default:
		if (x->defers)                          /* it will have the reduction's layout whatever this one is */
			return registers(l) * MOVE;
		return (1 << a->warps) * registers(l) * ALU * arithmetic(op_info[op->kind].cost);
	}
}

/* Beside rings that stay there is less room for scratch. */
static double
scratch_cost(const Assign *a, const Layout *src, const Layout *dst, const Type *t)
{
	int bytes = MAX(element_bits(t) / 8, 1);
	if (!a->has_rings || convert_scratch(src, dst, bytes) == 0)
		return 0;
	return (double)type_count(t) * bytes / SCRATCH_RATE;
}

/* Conversions of one value: each layout asked for that is not its own, once.  What is staged is got from shared memory in
 * each of them, and once anyhow. */
static double
value_cost(Assign *a, int id)
{
	const Layout *seen[16], *have = NULL;
	const ValueNote *n = &a->note[id];
	double sum = 0;
	int nseen = 0;
	bool keeps = false;
	for (int i = n->edges; i >= 0; i = a->edges.at[i].next) {
		Edge *e = &a->edges.at[i];
		const Layout *want = assign_required(a, e);
		bool again = false;
		if (!have)
			have = assign_value_layout(a, e->value);
		again |= ANY_OF(k, nseen, seen[k] == want);
		keeps |= want == have;
		if (!want || again || want == have)
			continue;
		if (nseen < LEN(seen))
			seen[nseen++] = want;
		if (n->cheap > 0)
			sum += (1 << a->warps) * registers(want) * n->cheap * ALU;
		else if (have && n->is_staged)
			sum += (1 << a->warps) * get_cost(want, element_bits(e->value->type));
		else if (have)
			sum += convert_cost(a, have, want, e->value->type) + scratch_cost(a, have, want, e->value->type);
	}
	if (n->is_staged && sum > 0 && !keeps)
		sum -= (1 << a->warps) * get_cost(have, element_bits(a->edges.at[n->edges].value->type));
	return MAX(sum, 0) * n->weight;
}

double
assign_cost(Assign *a)
{
	double sum = 0;
	for (int i = 0; i < a->vars.n; i++) {
		Var *x = &a->vars.at[i];
		int at = x->costed[0].of != x->layout;  /* floods come and go: one of two is there mostly */
		if (x->layout && at && x->costed[1].of != x->layout) {
			x->costed[1] = x->costed[0];
			x->costed[0].of = x->layout;
			x->costed[0].cost = op_cost(a, x) * x->weight;
			at = 0;
		}
		sum += x->layout ? x->costed[at].cost : 0;
	}
	for (int i = 0; i < a->f->nvalues; i++)
		if (a->note[i].edges >= 0)
			sum += value_cost(a, i);
	return sum;
}
