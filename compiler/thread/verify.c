/* Is a module what the writers take?  Registers are defined before they are used, in a region that is around the use;
 * operands have the types that their node takes; what regions carry agrees; accesses are of their space; primitives are
 * the target's; and what all threads of a warp or block must reach together stands under no branch that is known to part
 * them (converge.c).
 *
 * This says what is wrong with text that someone wrote, and with what a mutation made. */
#include "thread/verify.h"

static bool
fail(ThreadVerify *v, const ThreadNode *n, const char *why)
{
	if (!v->why) {
		v->why = why;
		v->at = n;
	}
	return false;
}

static const char *
name_of(const ThreadNode *n)
{
	return n->kind == NODE_OP ? thread_op_text[n->op] : n->kind == NODE_CAST ? thread_cast_text[n->op] :
	    n->kind == NODE_PRIM ? prim_info[n->op].text : thread_kind_text[n->kind];
}

static bool
has_type(ThreadVerify *v, const ThreadNode *n, Reg r, RegType want)
{
	RegType t = thread_type(v->m, r);
	return t == want || fail(v, n, arena_printf(v->mem, "%s takes %s here, not %s", name_of(n), reg_type_text[want],
	    reg_type_text[t]));
}

static bool
is_integer(RegType t)
{
	return t >= REG_I8 && t <= REG_I64;
}

static bool
is_defined(const ThreadVerify *v, Reg r)
{
	const ThreadNode *n = thread_def(v->m, r);
	return n->kind == NODE_CONST || n->kind == NODE_SHARED || v->visible[r];
}

/* ---- operands ---- */

static bool
check_access(ThreadVerify *v, const ThreadNode *n)
{
	const ThreadAccess *at = n->at;
	RegType base = at->space == SPACE_SHARED ? REG_SHARED : REG_GLOBAL;
	if (!has_type(v, n, at->base, base) || (at->mask && !has_type(v, n, at->mask, REG_PRED)))
		return false;
	if (at->fill && (n->kind != NODE_LOAD || !at->mask || !has_type(v, n, at->fill, at->type)))
		return fail(v, n, "a fill is of the load's type, and needs a mask");
	if (at->offset && thread_type(v->m, at->offset) != REG_I32 && thread_type(v->m, at->offset) != REG_I64)
		return fail(v, n, "an offset is an i32 or i64");
	if (at->type == REG_SHARED || at->align & (at->align - 1))
		return fail(v, n, "no access is of that type, or so aligned");
	bool is_never = n->kind == NODE_ATOMIC && (at->type == REG_PRED || at->type == REG_I8 || at->type == REG_GLOBAL);
	return !is_never || fail(v, n, "there is no atomic operation of that type");
}

static bool
check_op(ThreadVerify *v, const ThreadNode *n)
{
	ThreadOp op = (ThreadOp)n->op;
	RegType t = thread_type(v->m, n->in[op == THREAD_SELECT ? 1 : 0]);
	bool is_float = thread_is_float(t), wants_float = (op >= THREAD_FNEG && op <= THREAD_FTRUNC) ||
	    (op >= THREAD_FEQ && op <= THREAD_FUNO);
	bool logic = op == THREAD_AND || op == THREAD_OR || op == THREAD_XOR || op == THREAD_NOT;
	if (op == THREAD_SELECT)
		return true;
	if (wants_float)
		return is_float || fail(v, n, arena_printf(v->mem, "%s is of floats", name_of(n)));
	bool good = is_integer(t) || (t == REG_PRED && (logic || op == THREAD_EQ || op == THREAD_NE)) ||
	    ((t == REG_GLOBAL || t == REG_SHARED) && thread_is_comparison(op));
	return good || fail(v, n, arena_printf(v->mem, "%s is not of %s", name_of(n), reg_type_text[t]));
}

static bool
check_cast(ThreadVerify *v, const ThreadNode *n)
{
	RegType from = thread_type(v->m, n->in[0]), to = n->type;
	int a = thread_type_bytes(from), b = thread_type_bytes(to);
	bool ints = (is_integer(from) || from == REG_PRED) && (is_integer(to) || to == REG_PRED), good = false;
	switch ((ThreadCast)n->op) {
	case CAST_SEXT: case CAST_ZEXT: good = ints && (a < b || from == REG_PRED) && to != REG_PRED; break;
	case CAST_TRUNC: good = ints && (a > b || to == REG_PRED) && from != REG_PRED; break;
	case CAST_S2F: case CAST_U2F: good = (is_integer(from) || from == REG_PRED) && thread_is_float(to); break;
	case CAST_F2S: case CAST_F2U: good = thread_is_float(from) && is_integer(to); break;
	case CAST_FEXT: case CAST_FTRUNC: good = thread_is_float(from) && thread_is_float(to); break;
	case CAST_BITS: good = a == b; break;
	}
	return good || fail(v, n, arena_printf(v->mem, "%s does not make %s of %s", name_of(n), reg_type_text[to],
	    reg_type_text[from]));
}

static bool
check_pack(ThreadVerify *v, const ThreadNode *n)
{
	int count = n->kind == NODE_PACK ? n->nin : n->nout;
	RegType t = n->kind == NODE_PACK ? thread_type(v->m, n->in[0]) : n->type;
	bool fits = count * 8 * thread_type_bytes(t) == 32 || (count == 8 && t == REG_I8);
	if (n->kind == NODE_PACK && !ALL_OF(i, n->nin, has_type(v, n, n->in[i], t)))
		return false;
	return fits || fail(v, n, "a word is of 32 bits");
}

static bool
check_prim(ThreadVerify *v, const ThreadNode *n)
{
	const PrimInfo *info = &prim_info[n->op];
	const Target *t = v->m->target;
	if (info->needs & ~t->has || (t->kind == TARGET_METAL ? !info->msl : !info->ptx))
		return fail(v, n, arena_printf(v->mem, "%s has no %s", t->name, info->text));
	int imm = 0;
	for (const char *s = info->ptx ? info->ptx : ""; *s; s++)
		imm = s[0] == '$' && char_is_digit(s[1]) ? MAX(imm, s[1] - '0' + 1) : imm;
	return n->nimm >= imm || fail(v, n, arena_printf(v->mem, "%s has %d numbers behind its name", info->text, imm));
}

static bool
check_wgmma(ThreadVerify *v, const ThreadNode *n)
{
	unsigned transposed = (unsigned)n->op & (TRANSPOSE_A | TRANSPOSE_B);
	if (!target_has_product(v->m->target, n->wgmma->name))
		return fail(v, n, arena_printf(v->mem, "%s has no %s", v->m->target->name, n->wgmma->name));
	if (transposed && dtype_info[n->wgmma->a].bits != 16)
		return fail(v, n, "only operands of 16 bits may be transposed");
	return !(n->op & WGMMA_REGISTERS && transposed & TRANSPOSE_A) ||
	    fail(v, n, "what is in registers is not transposed");
}

static bool
check_node(ThreadVerify *v, const ThreadNode *n)
{
	const Reg *r;
	for (int i = 0; (r = thread_operand((ThreadNode *)n, i)); i++)
		if (!is_defined(v, *r))
			return fail(v, n, arena_printf(v->mem, "%s uses a register that is not defined here", name_of(n)));
	for (int i = 0; i < n->nin; i++) {
		RegType want = thread_operand_type(v->m, n, i);
		if (want != REG_TYPES && !has_type(v, n, n->in[i], want))
			return false;
	}
	switch (n->kind) {
	case NODE_OP: return check_op(v, n);
	case NODE_CAST: return check_cast(v, n);
	case NODE_PACK: case NODE_UNPACK: return check_pack(v, n);
	case NODE_PRIM: return check_prim(v, n);
	case NODE_LOAD: case NODE_STORE: case NODE_ATOMIC: return check_access(v, n);
	case NODE_MMA:
		return target_has_mma(v->m->target, n->mma) ||
		    fail(v, n, arena_printf(v->mem, "%s has no %s", v->m->target->name, n->mma->name));
	case NODE_WGMMA: return check_wgmma(v, n);
	case NODE_SETTLE:
		return v->m->target->has & HAS_WGMMA || fail(v, n, "the target has no matrix instructions of a warpgroup");
	case NODE_PTX: return v->m->target->kind == TARGET_PTX || fail(v, n, "the target takes no PTX");
	case NODE_CALL:
		return !n->function || (n->nin == n->function->nparam && n->nout == n->function->nresult) ||
		    fail(v, n, "the function has another number of parameters or results");
	default: return true;
	}
}

/* ---- regions ---- */

static bool
check_yield(ThreadVerify *v, const ThreadNode *owner, const ThreadRegion *r, const Reg *like, int n)
{
	if (r->nyield != n)
		return fail(v, owner, "a region gives another number of values than its node");
	for (int i = 0; i < n; i++) {
		if (!is_defined(v, r->yield[i]))
			return fail(v, owner, "a region gives a register that is not defined in it");
		if (thread_type(v->m, r->yield[i]) != thread_type(v->m, like[i]))
			return fail(v, owner, "a region gives a value of another type than its node's result");
	}
	return true;
}

static void
show(ThreadVerify *v, const Reg *r, int n, bool visible)
{
	for (int i = 0; i < n; i++)
		v->visible[r[i]] = visible;
}

static bool check_region(ThreadVerify *v, const ThreadNode *owner, const ThreadRegion *r, const Reg *like, int n);

/* A region's own registers are not visible after it, but those of a while's test. */
static bool
check_inner(ThreadVerify *v, const ThreadNode *n)
{
	ThreadActive outer = v->active;
	for (int k = 0; k < 2 && n->region[k]; k++) {
		if (n->kind == NODE_IF)
			thread_verify_branch(v, n->in[0], k == 0);
		if (!check_region(v, n, n->region[k], n->out, n->nout))
			return false;
		v->active = outer;
	}
	return true;
}

static bool
check_region(ThreadVerify *v, const ThreadNode *owner, const ThreadRegion *r, const Reg *like, int n)
{
	int tests = 0, hidden = 0;
	show(v, r->arg, r->narg, true);
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *node = r->body.at[i];
		if (node->kind == NODE_TEST && (++tests > 1 || !owner || owner->kind != NODE_WHILE))
			return fail(v, node, "a while has one test, and nothing else has");
		if (node->kind == NODE_TEST)
			hidden = i;
		if (!check_node(v, node) || !check_inner(v, node) || !thread_verify_converges(v, node))
			return false;
		show(v, node->out, node->nout, true);
	}
	if (owner && owner->kind == NODE_WHILE && tests == 0)
		return fail(v, owner, "a while has no test");
	if (!check_yield(v, owner, r, like, n))
		return false;
	show(v, r->arg, r->narg, false);
	for (int i = hidden; i < r->body.n; i++)
		show(v, r->body.at[i]->out, r->body.at[i]->nout, false);
	return true;
}

bool
thread_verify_fail(ThreadVerify *v, const ThreadNode *n, const char *why)
{
	return fail(v, n, why);
}

const char *
thread_module_verify(const ThreadModule *m, Arena *mem, const ThreadNode **at)
{
	ThreadVerify v = {.m = m, .mem = mem, .visible = NEW_ARRAY(mem, bool, m->reg.n + 1)};
	thread_verify_all(&v);
	for (int i = 0; i < m->functions.n && !v.why; i++) {
		const ThreadFunc *f = m->functions.at[i];
		check_region(&v, NULL, f->body, f->body->yield, f->nresult);
		for (int k = 0; k < f->nresult && !v.why; k++)
			if (thread_type(m, f->body->yield[k]) != f->result[k])
				fail(&v, NULL, "a function gives a value of another type than it says");
	}
	if (!v.why)
		check_region(&v, NULL, m->body, NULL, 0);
	*at = v.at;
	return v.why;
}
