/* How a sort runs: in registers, as loops over scratch, or by parts that take turns in scratch.
 *
 * In registers every step of the bitonic network is code of its own for every register; threads with very many elements
 * sort in scratch, in loops.  What scratch has no room for is cut into parts: what the registers hold whose numbers agree
 * in some bits, which are those of the axis's highest bits (and, where there are several lines, of lines).  The highest
 * bits of the axis may be lanes or warps: they are exchanged with bits of registers before, and back after. */
#include "model/model.h"

#include <math.h>
#include <string.h>

enum { EXCHANGES_MAX = 4000 };                         /* of a thread, in registers; of words of 32 bits */
enum { NEIGHBOURS = 4096 };                             /* bytes of small scratch beside a part (pass smem) */

/* ---- states ---- */

enum { DEPTH = 12 };                                    /* ops that are looked through */

static bool never_negative(const Value *v, int depth);

static bool
all_never_negative(const Op *op, int first, int depth)
{
	return ALL_FROM(i, first, op->nin, never_negative(op->in[i], depth - 1));
}

/* Floats whose sign is clear, or a NaN. */
static bool
never_negative(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == 0)
		return false;
	switch (op->kind) {
	case OP_CONST: return attr_value(op)->kind == KIND_FLOAT && !signbit(attr_value(op)->f);
	case OP_EXP: case OP_EXP2: case OP_SIGMOID: case OP_ABS: return true;
	case OP_CAST: {
		DType from = op->in[0]->type->elem;
		return dtype_is_float(from) ? never_negative(op->in[0], depth - 1) : !dtype_is_signed(from);
	}
	case OP_ADD: case OP_MUL: case OP_DIV: case OP_FMA: case OP_MIN: case OP_MAX: case OP_SQRT: case OP_BROADCAST:
	case OP_RESHAPE: case OP_PERMUTE: case OP_CONVERT: case OP_CAT: return all_never_negative(op, 0, depth);
	case OP_SELECT: return all_never_negative(op, 1, depth);
	case OP_REDUCE: return strcmp(attr_fn(op), "prod") != 0 && all_never_negative(op, 0, depth);
	default: return false;
	}
}

/* Elements none of which is -0, so that equal ones are the same. */
static bool
has_one_zero(const Value *v, int depth)
{
	const Op *op = v->def;
	if (op && op->kind == OP_CONST)
		return attr_value(op)->kind == KIND_FLOAT && (attr_value(op)->f != 0 || !signbit(attr_value(op)->f));
	if (op && op->kind == OP_SELECT && depth > 0)
		return has_one_zero(op->in[1], depth - 1) && has_one_zero(op->in[2], depth - 1);
	return never_negative(v, depth) || (op && op->kind == OP_CAST && !dtype_is_float(op->in[0]->type->elem));
}

/* Bits below the leading one of what f32 has of such a float. */
static int
mantissa(DType t)
{
	switch (t) {
	case TY_F16: return 10;
	case TY_BF16: return 7;
	case TY_F8E4M3: return 3;
	case TY_F8E5M2: return 2;
	default: return 23;
	}
}

/* Key, index and mark in 4 bytes if they fit, or in 8 with the key as the upper half. */
static int
word_bytes(SortPlan *p)
{
	int below = (p->has_index ? p->axis.n : 0) + p->has_zero, bits = dtype_info[p->t].bits, dropped = 0;
	if (bits == 64)
		return 8;
	if (dtype_is_float(p->t)) {
		dropped = 23 - mantissa(p->t);
		bits = 32 - dropped;
	} else if (bits < 32) {
		bits += !dtype_is_signed(p->t);
	}
	bool fits = bits + below <= 32;
	p->dropped = fits ? dropped : 0;
	p->shift = fits ? below : 32;
	return fits ? 4 : 8;
}

/* The two bits exchanged in the layout. */
static void
swap_layout(SortPlan *p, const SortSwap *w)
{
	uint64_t *a = &p->layout.map.col[layout_in_at(&p->layout, IN_REGISTER) + w->reg];
	uint64_t *b = &p->layout.map.col[layout_in_at(&p->layout, w->in) + w->bit], was = *a;
	*a = *b;
	*b = was;
	axis_bits(&p->layout, p->dim, &p->axis);
}

/* Where a thread has several lines, it has as much of each as there is room for: bits of registers that move nothing along
 * the axis are exchanged with warps' and lanes' that do. */
static void
hold_lines(SortPlan *p)
{
	const Layout *l = &p->layout;
	uint64_t axis = ((UINT64_C(1) << l->out[p->dim]) - 1) << layout_out_at(l, p->dim);
	for (int in = IN_WARP; in >= (int)IN_LANE; in--)
		for (int b = 0, reg = 0; b < p->axis.n; b++) {
			if ((int)p->axis.in[b] != in)
				continue;
			const uint64_t *col = &l->map.col[layout_in_at(l, IN_REGISTER)];
			while (reg < l->in[IN_REGISTER] && (!col[reg] || (col[reg] & axis)))
				reg++;
			if (reg < l->in[IN_REGISTER])
				swap_layout(p, &(SortSwap){reg, p->axis.in[b], p->axis.bit[b]});
		}
}

/* If there is room to move the tiles there and back. */
static void
find_layout(SortPlan *p)
{
	const Layout *from = p->op->in[0]->layout;
	p->layout = axis_layout(from, p->dim);
	axis_bits(&p->layout, p->dim, &p->axis);
	Layout was = p->layout;
	hold_lines(p);
	bool fits = operand_scratch(p->op->in[0], &p->layout) <= p->limit;
	for (int k = 0; k < p->op->nout; k++)
		fits = fits && convert_scratch(&p->layout, from, element_bytes(p->op->out[k].type)) <= p->limit;
	if (fits)
		return;
	p->layout = was;
	axis_bits(&p->layout, p->dim, &p->axis);
}

static void
find_state(SortPlan *p, const Op *op, const Target *t)
{
	const Value *v = op->in[0];
	*p = (SortPlan){.op = op, .t = v->type->elem, .dim = (int)attr_axis(op)};
	p->limit = scratch_limit(op, t);
	find_layout(p);
	bool is_float = dtype_is_float(p->t);
	bool has_signs = is_float && (dtype_info[p->t].bits == 64 || !has_one_zero(v, DEPTH));
	p->has_index = has_signs || (op->nout > 1 && op->out[1].nuses > 0);
	p->is_wide = p->has_index && dtype_info[p->t].bits == 64;
	p->keeps_value = is_float && p->is_wide && op->out[0].nuses > 0;
	p->has_zero = has_signs && !p->is_wide && op->out[0].nuses > 0;
	p->bytes[p->n++] = p->is_wide ? 8 : word_bytes(p);
	if (p->is_wide)
		p->bytes[p->n++] = 4;
	if (p->keeps_value)
		p->bytes[p->n++] = element_bytes(v->type);
	p->repeats = layout_free_bits(&p->layout, IN_REGISTER);
	p->threads = 1 << (p->layout.in[IN_LANE] + p->layout.in[IN_WARP]);
	p->entered = p->layout;
	p->kept = op->kind == OP_SORT ? p->axis.n : log2_ceil(op->out[0].type->extent[p->dim]);
}

int
sort_halvings(const SortPlan *p, int *bit)
{
	int n = 0;
	for (int in = IN_REGISTER; in < IN_DIMS; in++)
		for (int b = p->kept; b < p->axis.n; b++)
			if ((int)p->axis.in[b] == in)
				bit[n++] = b;
	return n;
}

/* log2 of the states of a thread. */
static int
states(const SortPlan *p)
{
	return p->layout.in[IN_REGISTER] - __builtin_popcountll(p->repeats);
}

/* Exchanges that a thread's registers take part in; the greatest 2^kept: runs of that length, of which half stay. */
static int64_t
exchanges(const SortPlan *p)
{
	int64_t regs = INT64_C(1) << states(p);
	int64_t sum = regs * p->kept * (p->kept + 1) / 2;
	int bit[F2_MAX], n = sort_halvings(p, bit);
	for (int i = 0; i < n; i++) {
		regs = p->axis.in[bit[i]] == IN_REGISTER ? regs / 2 : regs;
		sum += regs * (p->kept + 1);
	}
	return sum;
}

int64_t
sort_state_at(const SortPlan *p, int k, int64_t count)
{
	return SUM_OF(int64_t, i, k, (p->bytes[i] * count + 15) / 16 * 16);
}

static int64_t
state_bytes(const SortPlan *p)
{
	return SUM_OF(int64_t, k, p->n, p->bytes[k]);
}

int
sort_exchange_states(const SortPlan *p)
{
	return (int)MAX(MIN(p->limit / (state_bytes(p) * p->threads), INT32_MAX), 1);
}

/* Scratch of an exchange between warps, where each thread gives all of its states. */
static int64_t
exchange_bytes(const SortPlan *p)
{
	return state_bytes(p) * p->threads * MIN(sort_exchange_states(p), INT64_C(1) << states(p));
}

/* ---- parts ---- */

/* Whether register bit i alone moves one bit, of another dimension than the axis: then *dim and *bit. */
static bool
is_line_bit(const SortPlan *p, int i, int *dim, int *bit)
{
	const Layout *l = &p->layout;
	uint64_t image = l->map.col[layout_in_at(l, IN_REGISTER) + i];
	int others = 0;
	if (!image || (image & (image - 1)))
		return false;
	others += COUNT_OF(k, l->map.nin, (l->map.col[k] & image) != 0);
	for (*dim = 0; *dim < l->rank; ++*dim) {
		*bit = __builtin_ctzll(image) - layout_out_at(l, *dim);
		if (*bit >= 0 && *bit < l->out[*dim])
			return others == 1 && *dim != p->dim;
	}
	return false;
}

static void
take_lines(const SortPlan *p, SortParts *parts, int wanted)
{
	for (int i = 0; i < p->layout.in[IN_REGISTER] && parts->n < wanted; i++) {
		int dim, bit;
		if ((p->repeats >> i & 1) || !is_line_bit(p, i, &dim, &bit))
			continue;
		parts->line[parts->nline++] = (LineBit){dim, bit};
		parts->registers |= UINT64_C(1) << i;
		parts->n++;
	}
}

/* A register bit to exchange with bit b of the axis: the lowest bit of the axis that is one; -1: there is none. */
static int
register_to_exchange(const SortPlan *p, const SortParts *parts, int b)
{
	for (int k = 0; k < b; k++)
		if (p->axis.in[k] == IN_REGISTER && !(parts->registers >> p->axis.bit[k] & 1))
			return p->axis.bit[k];
	return FIRST_OF(i, p->layout.in[IN_REGISTER], !((p->repeats | parts->registers) >> i & 1));
}

static bool
take_axis(SortPlan *p, SortParts *parts, int wanted)
{
	for (int b = p->axis.n - 1; b > 0 && parts->n < wanted; b--) {
		if (p->axis.in[b] != IN_REGISTER) {
			SortSwap w = {register_to_exchange(p, parts, b), p->axis.in[b], p->axis.bit[b]};
			if (w.reg < 0)
				return false;
			parts->swap[parts->nswap++] = w;
			swap_layout(p, &w);
		}
		parts->registers |= UINT64_C(1) << p->axis.bit[b];
		parts->n++;
		parts->low = b;
	}
	return parts->n == wanted;
}

/* Finds parts that there is room for; the layout is then as after the swaps.  False: there are none. */
static bool
find_parts(SortPlan *p)
{
	int bits = layout_out_bits(&p->layout), wanted = 0;
	p->parts = (SortParts){.low = p->axis.n};
	while (wanted < bits &&
	    sort_state_at(p, p->n, INT64_C(1) << (bits - wanted)) > p->limit - (wanted ? NEIGHBOURS : 0))
		wanted++;
	Layout was = p->layout;
	AxisBits axis = p->axis;
	take_lines(p, &p->parts, wanted);
	if (take_axis(p, &p->parts, wanted))
		return true;
	p->layout = was;
	p->axis = axis;
	return false;
}

/* ---- all of it ---- */

static void
choose_way(SortPlan *p)
{
	if (states(p) == 0 || exchanges(p) * state_bytes(p) / 4 <= EXCHANGES_MAX)
		p->way = SORT_REGISTERS;
	else
		p->way = find_parts(p) ? SORT_PARTS : SORT_REGISTERS;
}

static int64_t
own_scratch(const SortPlan *p)
{
	int bits = layout_out_bits(&p->layout);
	bool crosses = false;
	crosses |= p->way == SORT_REGISTERS && ANY_OF(i, p->axis.n, p->axis.in[i] == IN_WARP);
	crosses |= p->way == SORT_PARTS && ANY_OF(i, p->parts.nswap, p->parts.swap[i].in == IN_WARP);
	int64_t part = p->way == SORT_PARTS ? sort_state_at(p, p->n, INT64_C(1) << (bits - p->parts.n)) : 0;
	return MAX(part, crosses ? exchange_bytes(p) : 0);
}

void
plan_sort(const Op *op, const Target *t, SortPlan *p)
{
	find_state(p, op, t);
	p->scratch = operand_scratch(op->in[0], &p->layout);
	choose_way(p);
	/* parts leave the greatest in the layout as after the swaps, and whole lines where they were */
	p->result = p->kept < p->axis.n ? layout_shorten(&p->layout, p->dim, p->kept) : p->entered;
	for (int k = 0; k < op->nout; k++)
		p->scratch = MAX(p->scratch,
		    convert_scratch(&p->result, op->out[k].layout, element_bytes(op->out[k].type)));
	p->scratch = MAX(p->scratch, own_scratch(p));
}

/* ---- what it takes ---- */

typedef struct SortCost {
	const SortPlan *p;
	const Target *t;
	int warps, words;                               /* words: of a state, of 32 bits */
	double less, issue, shuffles, shared, barriers, path;   /* less: instructions that compare two states */
} SortCost;

/* Every state of a thread is compared with that across a bit of the axis; `keeps`: and the lesser of two stays. */
static void
exchange_states(SortCost *c, InDim in, double states, bool keeps)
{
	const TargetRates *r = target_rates(c->t);
	double own = c->less + (in == IN_REGISTER ? 0 : 1) + c->words;
	if (in == IN_REGISTER) {
		c->issue += states / 2 * (c->words == 1 ? 1 + !keeps : c->less + (keeps ? 1 : 2) * c->words);
		c->path += 10;
	} else if (in == IN_LANE) {
		c->issue += states * (c->words + own);
		c->shuffles += states * c->words;
		c->path += r->shuffle_latency + 10;
	} else {
		double trips = ceil(states / sort_exchange_states(c->p));
		c->issue += states * (2 * c->p->n + own) + 4 * trips;
		c->shared += states * 2 * c->words * c->t->lanes / 32;
		c->barriers += 2 * trips;
		c->path += trips * 2 * (r->shared_latency + r->barrier);
	}
}

static void
sort_in_registers(SortCost *c)
{
	const SortPlan *p = c->p;
	double held = (double)(UINT64_C(1) << states(p));
	int bit[F2_MAX], n = sort_halvings(p, bit);
	for (int j = 0; j < p->kept; j++)
		for (int i = j; i < p->kept; i++)
			exchange_states(c, p->axis.in[j], held, false);
	for (int i = 0; i < n; i++) {
		exchange_states(c, p->axis.in[bit[i]], held, true);
		held = p->axis.in[bit[i]] == IN_REGISTER ? held / 2 : held;
		for (int j = 0; j < p->kept; j++)
			exchange_states(c, p->axis.in[j], held, false);
	}
}

/* By loops over groups of 8 in shared memory, in parts or not. */
static void
sort_in_scratch(SortCost *c)
{
	enum { GROUP = 8, BITS = 3, EACH = 24, TURN = 30 };     /* instructions for a group's places; of a turn */
	const TargetRates *r = target_rates(c->t);
	const SortPlan *p = c->p;
	double elements = (double)(UINT64_C(1) << layout_out_bits(&p->layout)), turns = 1;
	double groups = MAX(elements / GROUP / (c->warps * c->t->lanes), 1), exchange = c->less + 1 + 2 * c->words;
	for (int run = BITS + 1; run <= p->axis.n; run++)
		turns += (run + BITS - 1) / BITS;
	c->issue += turns * (groups * (EACH + GROUP * 3 * p->n + GROUP / 2 * BITS * exchange) + TURN);
	c->shared += turns * groups * GROUP * 2 * c->words * c->t->lanes / 32;
	c->barriers += turns;
	c->path += turns * (groups * (2 * r->shared_latency + BITS * EACH) + r->barrier);
}

double
cost_sort(const Op *op, const Target *t, int warps, double times, ProgramCost *out)
{
	SortPlan p;
	plan_sort(op, t, &p);
	SortCost c = {.p = &p, .t = t, .warps = warps, .words = (int)state_bytes(&p) / 4};
	c.less = c.words == 1 ? 1 : p.is_wide ? 7 : 2;
	if (p.way == SORT_REGISTERS)
		sort_in_registers(&c);
	else
		sort_in_scratch(&c);
	out->issue += times * c.issue;
	out->shuffles += times * c.shuffles * warps;
	out->shared += times * c.shared * warps;
	out->barriers += times * c.barriers;
	return c.path;
}
