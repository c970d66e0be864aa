/* Metal's own choices of nodes.
 *
 *     %9 = mul %4, 4                    %10 = pointer x, %4        offsets in elements, not in bytes
 *     %10 = pointer x, %9         =>
 *     %12 = and %thread, 31             %12 = lane                 what Metal gives as an argument
 *     %15 = cast bits f32 %14           %14 = shuffle_xor %f       a shuffle of a float, not of its bits
 *
 * and before that, what Metal has not is reported. */
#include "emit/msl/msl.h"

/* ---- what Metal has not ---- */

static void
refuse_node(Msl *m, ThreadNode *n)
{
	RegType t = n->at ? n->at->type : n->type;
	if (n->kind == NODE_OP && thread_is_comparison((ThreadOp)n->op))
		t = msl_type(m, n->in[0]);
	bool computes = n->kind == NODE_OP || n->kind == NODE_CAST || n->kind == NODE_LOOKUP || n->at;
	if (computes && t == REG_F64)
		msl_cannot(m, n->place, "f64 (Metal has no double)");
	if (n->kind == NODE_PRIM && !prim_info[n->op].msl)
		msl_cannot(m, n->place, arena_printf(m->mem, "'%s'", prim_info[n->op].text));
}

static void
refuse(Msl *m, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		refuse_node(m, n);
		for (int k = 0; k < 2; k++)
			if (n->region[k])
				refuse(m, n->region[k]);
	}
}

/* ---- operations ---- */

/* c < n + k is c - k < n where n + k does not wrap, as a reader would write it. */
static Reg
less_by(ThreadBuilder *b, ThreadOp op, Reg x, Reg y)
{
	const ThreadModule *m = thread_module_of(b);
	const ThreadNode *n = thread_def(m, y);
	ThreadOp less = op == THREAD_SLT || op == THREAD_ULT ? THREAD_SLT : THREAD_SLE;
	int64_t c, k;
	if (n->kind != NODE_OP || n->op != THREAD_ADD || !thread_const(m, x, &c) || !thread_const(m, n->in[1], &k) ||
	    k <= 0 || c < k || thread_range(m, n->in[0]).lo < 0 || thread_range(m, y).lo < 0)
		return 0;
	Reg least = thread_int_const(b, thread_type(m, y), c - k), r = less_by(b, less, least, n->in[0]);
	return r ? r : thread_op(b, less, least, n->in[0], 0);
}

/* The lane and the simdgroup, where they are computed from the thread's number. */
static Reg
lane_of_thread(ThreadBuilder *b, ThreadOp op, Reg x, Reg y)
{
	const ThreadModule *m = thread_module_of(b);
	const ThreadNode *n = thread_def(m, x);
	int lanes = m->target->lanes;
	int64_t v;
	Reg r = 0;
	if (n->kind != NODE_PRIM || n->op != PRIM_THREAD || !thread_const(m, y, &v))
		return 0;
	if (op == THREAD_AND && v == lanes - 1)
		thread_prim(b, PRIM_LANE, NULL, 0, NULL, 0, &r, 1);
	else if (op == THREAD_LSHR && 1 << v == lanes)
		thread_prim(b, PRIM_SIMDGROUP, NULL, 0, NULL, 0, &r, 1);
	return r;
}

static Reg
select_op(ThreadBuilder *b, const ThreadNode *n)
{
	switch (n->op) {
	case THREAD_SLT: case THREAD_SLE: case THREAD_ULT: case THREAD_ULE:
		return less_by(b, (ThreadOp)n->op, n->in[0], n->in[1]);
	case THREAD_AND: case THREAD_LSHR: return lane_of_thread(b, (ThreadOp)n->op, n->in[0], n->in[1]);
	default: return 0;
	}
}

/* ---- nodes ---- */

/* A shuffle moves any 32 bits: where they are bits of a float on both sides, it moves the float. */
static Reg
retype_shuffle(ThreadBuilder *b, const int *uses, const ThreadNode *to)
{
	ThreadModule *m = thread_module_of(b);
	ThreadNode *n = thread_def(m, to->in[0]);
	bool is_shuffle = n->kind == NODE_PRIM && (n->op == PRIM_SHUFFLE || n->op == PRIM_SHUFFLE_XOR);
	if (!is_shuffle || to->op != CAST_BITS || to->type != REG_F32 || uses[to->in[0]] > 1)
		return 0;
	const ThreadNode *bits = thread_def(m, n->in[0]);
	if (bits->kind != NODE_CAST || bits->op != CAST_BITS || thread_type(m, bits->in[0]) != REG_F32)
		return 0;
	n->in[0] = bits->in[0];
	n->type = m->reg.at[to->in[0] - 1].type = REG_F32;
	return to->in[0];
}

static void
select_pointer(ThreadBuilder *b, ThreadNode *n)
{
	int size = msl_element_bytes(thread_module_of(b), n->in[0]);
	Reg whole = msl_divided(b, n->in[1], size);
	n->i = whole ? size : 1;
	n->in[1] = whole ? whole : n->in[1];
}

static void
select_access(ThreadBuilder *b, ThreadNode *n)
{
	ThreadAccess *at = n->at;
	bool is_shared = at->space == SPACE_SHARED;
	int size = is_shared ? thread_type_bytes(at->type) : msl_element_bytes(thread_module_of(b), at->base);
	Reg whole = at->offset ? msl_divided(b, at->offset, size) : 0;
	n->i = whole ? size : 1;
	at->offset = whole ? whole : at->offset;
}

/* A pointer into threadgroup memory whose last step is counted in the fragment's elements. */
static void
select_fragment(ThreadBuilder *b, ThreadNode *load)
{
	const ThreadNode *n = thread_def(thread_module_of(b), load->in[0]);
	int size = load->op == PRIM_FRAGMENT_LOAD ? 2 : 4;
	Reg whole = n->kind == NODE_POINTER && n->i == 1 ? msl_divided(b, n->in[1], size) : 0;
	if (whole)
		load->in[0] = thread_pointer_by(b, n->in[0], whole, size);
}

static Reg
choose(ThreadBuilder *b, ThreadNode *n, void *uses)
{
	switch (n->kind) {
	case NODE_OP: return select_op(b, n);
	case NODE_CAST: return retype_shuffle(b, uses, n);
	case NODE_POINTER: select_pointer(b, n); return 0;
	case NODE_LOAD: case NODE_STORE: case NODE_ATOMIC: select_access(b, n); return 0;
	case NODE_PRIM:
		if (n->op == PRIM_FRAGMENT_LOAD || n->op == PRIM_FRAGMENT_LOAD_F32)
			select_fragment(b, n);
		return 0;
	default: return 0;
	}
}

void
msl_select(Msl *m)
{
	int *uses = NEW_ARRAY(m->mem, int, m->t->reg.n + 1);
	for (int i = 0; i < m->t->functions.n; i++)
		refuse(m, m->t->functions.at[i]->body);
	refuse(m, m->t->body);
	thread_count_uses(m->t->body, uses);
	thread_rewrite(m->t, choose, uses);
}
