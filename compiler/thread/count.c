/* How many instructions a warp issues for each node, estimated: what the assembler of an NVIDIA GPU makes of it, as seen in
 * SASS of sm_90a.
 *
 *     r20: i64 = mul r19, 1536            IMAD.WIDE: a factor came from 32 bits
 *     r31: i64 = add r20, r30             IADD3, IADD3.X
 *     r32: f32 = fmul r8, r9              nothing, as it is the factor of one addition:
 *     r33: f32 = fadd r32, r7             FFMA
 *     r40 … r55: i8 = load r31 + 16       LDG.128; a byte that becomes a word is a PRMT, a float an I2F
 *     r60: pred = lt.i64 r20, r3          ISETP, ISETP.EX
 *
 * Constants, parameters, signs of floats and the lower half of a word are parts of other instructions.  What the assembler
 * shares is counted once: of equal loads the first one, unless a store stands between.  What a loop's body makes of values
 * from outside of it alone is computed before the loop (thread_levels). */
#include "thread/thread.h"

enum { LOADS_MOST = 512, LOOPS_MOST = 64 };

typedef struct Count {
	const ThreadModule *m;
	const ThreadCounter *to;
	int *uses;                                      /* of each register */
	Reg *user;                                      /* the first result of a node that uses it */
	Reg *same;                                      /* the register that it is equal to; 0: none */
	int *level;                                     /* of each register: in how many loops its value varies */
	int loops, regions;                             /* around the present node */
	double times[LOOPS_MOST];                       /* by loops around: how often the innermost's body is executed */
	int region[LOOPS_MOST];                         /* the same: regions around that body, and it */
	HashTable known;                                /* nodes that equal ones come to, by their operands; tag: regions */
	const ThreadNode *load[LOADS_MOST];             /* that later ones may be equal to */
	int nload;
	bool is_half;                                   /* the present node's product was made with its other half */
	ThreadWork all;
} Count;

/* ---- equal values ---- */

static Reg
same_of(const Count *c, Reg r)
{
	return r && c->same[r] ? c->same[r] : r;
}

static void
make_same(Count *c, const ThreadNode *n, const ThreadNode *as)
{
	for (int i = 0; i < n->nout; i++)
		c->same[n->out[i]] = same_of(c, as->out[i]);
}

static bool
is_equal(const Count *c, const ThreadNode *a, const ThreadNode *b)
{
	if (a->kind != b->kind || a->op != b->op || a->type != b->type || a->nin != b->nin || a->nout != b->nout ||
	    a->i != b->i)
		return false;
	return ALL_OF(i, a->nin, same_of(c, a->in[i]) == same_of(c, b->in[i]));
}

/* One multiplication gives both halves of a product of 32 bits. */
static bool
is_half(const Count *c, const ThreadNode *k, const ThreadNode *n)
{
	int other = n->op == THREAD_MUL ? THREAD_MULHI_U : THREAD_MUL;
	return k->kind == NODE_OP && k->op == other && k->type == REG_I32 &&
	    same_of(c, k->in[0]) == same_of(c, n->in[0]) && same_of(c, k->in[1]) == same_of(c, n->in[1]);
}

static bool
has_half(const Count *c, uint64_t hash, const ThreadNode *n)
{
	if (n->kind != NODE_OP || n->type != REG_I32 || (n->op != THREAD_MUL && n->op != THREAD_MULHI_U))
		return false;
	return TABLE_FIND(e, &c->known, hash, is_half(c, e->of, n));
}

/* Is it what a node before it is?  Loads that are equal make it so, which the thread IR keeps apart. */
static bool
is_known(Count *c, const ThreadNode *n)
{
	uint64_t hash = hash_mix(0, (uint64_t)n->kind);
	if (n->kind != NODE_OP && n->kind != NODE_CAST && n->kind != NODE_POINTER)
		return false;
	for (int i = 0; i < n->nin; i++)
		hash = hash_mix(hash, (uint64_t)same_of(c, n->in[i]));
	c->is_half = has_half(c, hash, n);
	const HashEntry *is = TABLE_FIND(e, &c->known, hash, is_equal(c, e->of, n));
	int level = c->level[n->out[0]];
	if (is)
		make_same(c, n, is->of);
	else
		table_add(c->m->mem, &c->known, hash, (void *)n, level < c->loops ? c->region[level] : c->regions);
	return is;
}

/* What a region computes is not there behind it, but what was moved before it. */
static void
forget_region(Count *c, int before)
{
	VEC(HashEntry) moved = {0};
	for (int i = before; i < c->known.all.n; i++)
		if (c->known.all.at[i].tag < c->regions)
			vec_push(c->m->mem, &moved, c->known.all.at[i]);
	table_leave(&c->known, before);
	for (int i = 0; i < moved.n; i++)
		table_add(c->m->mem, &c->known, moved.at[i].hash, moved.at[i].of, moved.at[i].tag);
	c->regions--;
}

/* ---- arithmetic ---- */

static bool
is_wide(RegType t)
{
	return t == REG_I64 || t == REG_GLOBAL || t == REG_F64;
}

static bool
is_constant(const Count *c, Reg r)
{
	return thread_def(c->m, r)->kind == NODE_CONST;
}

/* Does it come from 32 bits? */
static bool
is_extended(const Count *c, Reg r)
{
	const ThreadNode *n = thread_def(c->m, r);
	int64_t v;
	if (thread_const(c->m, r, &v))
		return v >= INT32_MIN && v <= UINT32_MAX;
	return n->kind == NODE_CAST && (n->op == CAST_ZEXT || n->op == CAST_SEXT);
}

static bool
is_logic(const ThreadNode *n)
{
	return n->kind == NODE_OP && n->op >= THREAD_AND && n->op <= THREAD_NOT;
}

/* The factor, or the part, of one sum; of three operands of AND, OR and XOR those that come first. */
static bool
is_fused(const Count *c, const ThreadNode *n)
{
	Reg by = c->uses[n->out[0]] == 1 ? c->user[n->out[0]] : 0;
	const ThreadNode *user = by ? thread_def(c->m, by) : NULL;
	if (!user || user->kind != NODE_OP || user->type != n->type)
		return false;
	if (is_logic(n))
		return is_logic(user) && !is_logic(thread_def(c->m, n->in[0]));
	return n->op == THREAD_FMUL ? user->op == THREAD_FADD || user->op == THREAD_FSUB
	                            : user->op == THREAD_ADD && !is_wide(n->type);
}

/* Of 64 bits: a half becomes the other one, or two halves are joined. */
static bool
moves_halves(const Count *c, const ThreadNode *n)
{
	int64_t by;
	const ThreadNode *of = n->nin > 1 ? thread_def(c->m, n->in[0]) : NULL;
	if (n->type != REG_I64 || !of)
		return false;
	if (n->op == THREAD_OR)
		return of->kind == NODE_OP && of->op == THREAD_SHL && moves_halves(c, of);
	return (n->op == THREAD_SHL || n->op == THREAD_LSHR) && thread_const(c->m, n->in[1], &by) && by >= 32;
}

static double
integer_issue(const Count *c, const ThreadNode *n, bool wide)
{
	switch ((ThreadOp)n->op) {
	case THREAD_MUL:
		if (is_fused(c, n))
			return 0;
		if (!wide || (is_extended(c, n->in[0]) && is_extended(c, n->in[1])))
			return 1;
		return is_constant(c, n->in[1]) ? 2 : 3;
	case THREAD_AND: case THREAD_OR: case THREAD_XOR: case THREAD_NOT:
		return moves_halves(c, n) || is_fused(c, n) ? 0 : wide ? 2 : 1;
	case THREAD_SHL: case THREAD_LSHR: return moves_halves(c, n) ? 0 : wide ? 3 : 1;
	case THREAD_SDIV: case THREAD_UDIV: case THREAD_SREM: case THREAD_UREM:
		if (is_constant(c, n->in[1]))
			return wide ? 8 : 3;
		return wide ? 24 : 20;                  /* of 64 bits: where the upper halves are 0 */
	case THREAD_ADD: return wide ? 2 : is_fused(c, n) ? 0.5 : 1;
	case THREAD_MULHI_U: case THREAD_MULHI_S: return wide ? 8 : 1;
	case THREAD_SMIN: case THREAD_SMAX: case THREAD_UMIN: case THREAD_UMAX: return wide ? 4 : 1;
	case THREAD_CLZ: return 2;
	case THREAD_SELECT: return is_wide(n->type) ? 2 : 1;
	default: return wide ? 2 : 1;
	}
}

/* Of halves that were made wider two are compared at once. */
static bool
compares_halves(const Count *c, const ThreadNode *n)
{
	const ThreadNode *of = thread_def(c->m, n->in[0]);
	return of->kind == NODE_CAST && of->op == CAST_FEXT;
}

static double
op_issue(const Count *c, const ThreadNode *n)
{
	RegType t = thread_type(c->m, n->in[0]);
	bool wide = is_wide(t);
	if (t == REG_PRED && n->op != THREAD_SELECT)
		return 0.5;                             /* most are part of a comparison */
	switch ((ThreadOp)n->op) {
	case THREAD_FNEG: case THREAD_FABS: return 0;
	case THREAD_FMUL: return is_fused(c, n) ? 0 : 1;
	case THREAD_FDIV: return 9;
	case THREAD_FSQRT: return 9;
	case THREAD_FDIV_FAST: case THREAD_LOG2_FAST: return 3;
	case THREAD_FSQRT_FAST: case THREAD_SIN_FAST: case THREAD_COS_FAST: return 2;
	case THREAD_FADD: case THREAD_FSUB: case THREAD_FMA: case THREAD_FMIN: case THREAD_FMAX: return wide ? 2 : 1;
	case THREAD_FEQ: case THREAD_FNE: case THREAD_FLT: case THREAD_FLE: case THREAD_FUNO:
		return compares_halves(c, n) ? 0.5 : 1;
	case THREAD_FRSQRT_FAST: case THREAD_FRCP_FAST: case THREAD_EXP2_FAST: case THREAD_FMA_SAT: case THREAD_TANH_FAST:
	case THREAD_FFLOOR: case THREAD_FCEIL: case THREAD_FROUND: case THREAD_FTRUNC:
		return 1;
	default: return integer_issue(c, n, wide);
	}
}

/* Does it become the upper half of 64 bits, and nothing else? */
static bool
is_upper_half(const Count *c, const ThreadNode *n)
{
	Reg by = n->type == REG_I64 && c->uses[n->out[0]] == 1 ? c->user[n->out[0]] : 0;
	const ThreadNode *user = by ? thread_def(c->m, by) : NULL;
	return user && user->kind == NODE_OP && user->op == THREAD_SHL && moves_halves(c, user);
}

static bool
is_from_condition(const Count *c, Reg r)
{
	const ThreadNode *n = thread_def(c->m, r);
	return n->kind == NODE_CAST && n->op == CAST_ZEXT && thread_type(c->m, n->in[0]) == REG_PRED;
}

/* Is it the condition of an addition, made a byte first or not? */
static bool
is_counted_up(const Count *c, const ThreadNode *n)
{
	for (int i = 0; i < 2; i++) {
		Reg by = c->uses[n->out[0]] == 1 ? c->user[n->out[0]] : 0;
		const ThreadNode *user = by ? thread_def(c->m, by) : NULL;
		if (!user || user->kind != NODE_CAST || user->op != CAST_ZEXT)
			return user && user->kind == NODE_OP && user->op == THREAD_ADD && n->type == REG_I32;
		n = user;
	}
	return false;
}

static double
cast_issue(const Count *c, const ThreadNode *n)
{
	RegType from = thread_type(c->m, n->in[0]);
	int bytes = thread_type_bytes(from);
	switch ((ThreadCast)n->op) {
	case CAST_TRUNC: case CAST_BITS: return 0;
	case CAST_ZEXT:
		if (from == REG_PRED)
			return !is_counted_up(c, n);
		return bytes < 4 && !is_from_condition(c, n->in[0]);
	case CAST_SEXT: return is_upper_half(c, n) ? 0 : 1;
	case CAST_FTRUNC: return bytes == 4 ? 0.6 : 1;  /* two floats an instruction, where they stay together */
	case CAST_FEXT: return 1;
	default: return is_wide(from) || is_wide(n->type) ? 2 : 1;
	}
}

/* ---- memory ---- */

static bool
is_equal_load(const Count *c, const ThreadNode *a, const ThreadNode *b)
{
	const ThreadAccess *x = a->at, *y = b->at;
	return same_of(c, x->base) == same_of(c, y->base) && same_of(c, x->offset) == same_of(c, y->offset) &&
	    x->constant == y->constant && same_of(c, x->mask) == same_of(c, y->mask) &&
	    same_of(c, x->fill) == same_of(c, y->fill) && x->n == y->n && x->type == y->type && x->space == y->space;
}

/* A masked load leaves zeros where it takes nothing, two registers an instruction, or what fills them, one. */
static double
load_issue(Count *c, const ThreadNode *n)
{
	double words = (double)n->at->n * thread_type_bytes(n->at->type) / 4;
	for (int i = 0; i < c->nload; i++)
		if (is_equal_load(c, c->load[i], n)) {
			make_same(c, n, c->load[i]);
			return 0;
		}
	if (c->nload < LOADS_MOST)
		c->load[c->nload++] = n;
	return 1 + (n->at->mask ? MAX(n->at->fill ? words : words / 2, 1) : 0);
}

/* Elements of less than a word are joined. */
static double
store_issue(const ThreadNode *n)
{
	double bytes = thread_type_bytes(n->at->type), words = MAX(n->at->n * bytes / 4, 1);
	return 1 + (bytes < 4 ? n->at->n - words : 0);
}

/* What is written in between may be read again, but by loads of what nothing writes. */
static void
forget_loads(Count *c)
{
	int kept = 0;
	for (int i = 0; i < c->nload; i++)
		if (c->load[i]->at->cache == CACHE_READ_ONLY)
			c->load[kept++] = c->load[i];
	c->nload = kept;
}

/* ---- nodes ---- */

static void count_region(Count *c, const ThreadRegion *r, double times);

/* Of a call of eight angles beside what its function does: an H200 took 435 us for 16 angles of each of 2^23 elements
 * by calls, 139 without. */
enum { CALL_ISSUE = 500 };

static double
node_issue(Count *c, const ThreadNode *n)
{
	switch (n->kind) {
	case NODE_OP: return c->is_half ? 0 : op_issue(c, n);
	case NODE_CAST: return cast_issue(c, n);
	case NODE_PACK: return n->nin - 1;
	case NODE_UNPACK: return thread_type_bytes(n->type) < 2 ? 0 : n->nout;
	case NODE_POINTER: return is_constant(c, n->in[1]) ? 1 : 2;
	case NODE_LOOKUP: return 3;
	case NODE_LOAD: return load_issue(c, n);
	case NODE_STORE: return store_issue(n);
	case NODE_ATOMIC: return 2;
	case NODE_PRIM: return 1;
	case NODE_MMA: case NODE_PTX: case NODE_PRINT: case NODE_WGMMA: return 1;
	case NODE_CALL: return n->function ? CALL_ISSUE : 24;
	case NODE_IF: return 2;
	default: return 0;
	}
}

/* ---- pipes ---- */

/* The share of a node's instructions that goes through the pipe for integers, comparisons and selections.  Sums of integers
 * and moves the assembler gives to the pipe of multiplications as well. */
static double
integer_share(const Count *c, const ThreadNode *n)
{
	static const double EITHER = 0.5;
	if (n->kind == NODE_CAST && n->op == CAST_FEXT)
		return thread_type(c->m, n->in[0]) == REG_BF16 ? EITHER : 0;
	if (n->kind == NODE_CAST)
		return n->op <= CAST_ZEXT || n->op == CAST_FTRUNC;
	if (n->kind != NODE_OP)
		return n->kind == NODE_PACK || n->kind == NODE_UNPACK;
	switch ((ThreadOp)n->op) {
	case THREAD_FMIN: case THREAD_FMAX: case THREAD_FEQ: case THREAD_FNE: case THREAD_FLT: case THREAD_FLE:
	case THREAD_FUNO: case THREAD_SELECT:
		return 1;
	case THREAD_SUB: return is_constant(c, n->in[0]) ? 0 : EITHER;
	case THREAD_ADD: case THREAD_SDIV: case THREAD_UDIV: case THREAD_SREM: case THREAD_UREM: return EITHER;
	case THREAD_MUL: case THREAD_MULHI_U: case THREAD_MULHI_S: return 0;
	default: return !thread_is_float(n->type);
	}
}

static double
shared_cycles(const ThreadNode *n)
{
	enum { LANES = 32, BYTES = 128 };
	bool accesses = n->kind == NODE_LOAD || n->kind == NODE_STORE || n->kind == NODE_ATOMIC;
	double bytes = accesses && n->at ? (double)n->at->n * thread_type_bytes(n->at->type) * LANES : 0;
	return accesses && n->at && n->at->space == SPACE_SHARED ? MAX(bytes / BYTES, 1) : 0;
}

static bool
is_shuffle(const ThreadNode *n)
{
	return n->kind == NODE_PRIM && n->op >= PRIM_SHUFFLE && n->op <= PRIM_REDUX_XOR;
}

static void
note(Count *c, const ThreadNode *n, double times, double issue)
{
	c->to->take(c->to->user, n, times, issue);
	c->all.issue += issue;
	c->all.integer += issue * integer_share(c, n);
	c->all.shared += times * shared_cycles(n);
	c->all.shuffles += times * is_shuffle(n);
}

/* One that begins anew with each of so many times. */
static void
count_inside(Count *c, const ThreadRegion *r, double times)
{
	int loads = c->nload, known = c->known.all.n;
	c->regions++;
	count_region(c, r, times);
	forget_region(c, known);
	c->nload = MIN(c->nload, loads);
}

/* Of a loop: its index, test and branch, each trip. */
static void
count_loop(Count *c, const ThreadNode *n, double times)
{
	enum { TRIP = 3 };
	double trips = c->to->trips(c->to->user, n);
	c->loops = MIN(c->loops + 1, LOOPS_MOST - 1);
	c->times[c->loops] = times * trips;
	c->region[c->loops] = c->regions + 1;
	for (int k = 0; k < 2 && n->region[k]; k++)
		count_inside(c, n->region[k], times * trips);
	c->loops--;
	note(c, n, times * trips, times * trips * TRIP);
}

static void
count_region(Count *c, const ThreadRegion *r, double times)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		int level = n->nout > 0 ? c->level[n->out[0]] : c->loops;
		double each = level < c->loops ? c->times[level] : times;
		double own = is_known(c, n) ? 0 : each * node_issue(c, n);
		if (n->kind == NODE_STORE || n->kind == NODE_ATOMIC || n->kind == NODE_PTX ||
		    (n->kind == NODE_PRIM && thread_has_effect(n)))
			forget_loads(c);
		if (n->kind == NODE_LOOP || n->kind == NODE_WHILE) {
			count_loop(c, n, times);
			continue;
		}
		note(c, n, times, own);
		double taken = n->kind == NODE_IF ? times * c->to->trips(c->to->user, n) : times;
		for (int k = 0; k < 2 && n->region[k]; k++)
			count_inside(c, n->region[k], taken);
		if (n->kind == NODE_CALL && n->function)
			count_region(c, n->function->body, times);
	}
}

/* ---- uses ---- */

static void
note_use(Count *c, Reg r, const ThreadNode *n)
{
	c->uses[r]++;
	c->user[r] = n->nout > 0 ? n->out[0] : 0;
}

static void
find_uses(Count *c, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		Reg *in;
		for (int k = 0; (in = thread_operand(n, k)); k++)
			note_use(c, *in, n);
		for (int k = 0; k < 2 && n->region[k]; k++)
			find_uses(c, n->region[k]);
	}
	for (int i = 0; i < r->nyield; i++) {
		c->uses[r->yield[i]]++;
		c->user[r->yield[i]] = 0;
	}
}

ThreadWork
thread_count(const ThreadModule *m, const ThreadCounter *to)
{
	Count c = {.m = m, .to = to};
	c.uses = NEW_ARRAY(m->mem, int, m->reg.n + 1);
	c.user = NEW_ARRAY(m->mem, Reg, m->reg.n + 1);
	c.same = NEW_ARRAY(m->mem, Reg, m->reg.n + 1);
	c.level = thread_levels(m);
	c.times[0] = to->once;
	find_uses(&c, m->body);
	count_region(&c, m->body, to->once);
	return c.all;
}
