/* Side data of the thread IR: a node for each of its nodes and each result of a loop or branch, the types behind pointers,
 * padded parameters, and whether device memory is read after it was written. */
#include "emit/msl/msl.h"

static MslNode *
beside(Msl *m, ThreadNode *t)
{
	MslNode *n = NEW(m->mem, MslNode);
	*n = (MslNode){.t = t, .kind = t->kind, .type = t->type, .width = 1, .nin = t->nin, .nout = t->nout, .in = t->in,
		.out = t->out};
	n->converges = t->kind == NODE_MMA || (t->kind == NODE_PRIM && prim_info[t->op].flags & CONV);
	m->node[t->id] = n;
	return n;
}

/* A value carried into a region, or a result of its owner. */
static MslNode *
carried(Msl *m, MslNode *n, MslNode *owner, int which, Reg r)
{
	n->kind = NODE_CARRIED;
	n->owner = owner;
	n->which = which;
	n->type = msl_type(m, r);
	n->nin = 0;
	n->nout = 1;
	n->out = NEW(m->mem, Reg);
	n->out[0] = r;
	return n;
}

static const char *
hint_of_results(const Msl *m, const ThreadNode *t)
{
	const char *hint = NULL;
	for (int i = 0; i < t->nout && !hint && t->kind != NODE_CONST && t->kind != NODE_PARAM; i++)
		hint = m->t->reg.at[t->out[i] - 1].hint;
	return hint;
}

/* The side nodes of all definitions. */
static void
link_values(Msl *m)
{
	for (int i = 0; i < m->t->reg.n; i++) {
		ThreadNode *t = m->t->reg.at[i].def;
		MslNode *n = m->node[t->id] ? m->node[t->id] : beside(m, t);
		int at = m->t->reg.at[i].at;
		n->hint = hint_of_results(m, t);
		if (msl_is_region(n)) {
			MslNode *result = NEW(m->mem, MslNode);
			*result = (MslNode){.t = t, .width = 1, .hint = m->t->reg.at[i].hint};
			m->reg[i] = (MslValue){carried(m, result, n, at, i + 1), 0};
		} else {
			m->reg[i] = (MslValue){n, at};
		}
	}
}

/* A pointer through which something of that type is read. */
static void
note_type(Msl *m, Reg pointer, RegType t)
{
	for (MslNode *n = msl_def(m, pointer);; n = msl_def(m, n->in[0])) {
		if (n->points == 0)
			n->points = 1 + (int)t;
		else if (n->points != 1 + (int)t)
			n->points = -1;
		if (n->kind != NODE_POINTER)
			break;
	}
}

/* An access to a word of a tensor of smaller elements may reach past the tensor's end.  A pointer that a loop carries may
 * point into any tensor. */
static void
note_padding(Msl *m, const ThreadNode *n)
{
	while (n->kind == NODE_POINTER)
		n = thread_def(m->t, n->in[0]);
	if (n->kind == NODE_PARAM) {
		m->made->param[n->op].is_padded = true;
	} else if (n->kind == NODE_OP && n->op == THREAD_SELECT) {
		note_padding(m, thread_def(m->t, n->in[1]));
		note_padding(m, thread_def(m->t, n->in[2]));
	} else {
		for (int i = 0; i < m->t->kernel.nparam; i++)
			m->made->param[i].is_padded |= m->t->kernel.param[i].type == REG_GLOBAL &&
			    !m->t->kernel.param[i].is_read_only && msl_element_bytes(m->t, m->t->body->arg[i]) < 4;
	}
}

/* Two threads may write the same element one behind the other, with a barrier between that is to order them. */
static void
note_store(Msl *m, const ThreadNode *store)
{
	const ThreadNode *to = thread_def(m->t, store->at->base);
	const ThreadNode **last = &m->stored[0];

	for (const ThreadRegion *r = store->home; r && r->owner; r = r->owner->home)
		m->stores_again |= r->owner->kind != NODE_IF;
	while (to->kind == NODE_POINTER)
		to = thread_def(m->t, to->in[0]);
	if (to->kind == NODE_PARAM)
		last = &m->stored[to->op];
	m->stores_again |= to->kind != NODE_PARAM ||
	    (*last && ((*last)->place.line != store->place.line || (*last)->place.col != store->place.col));
	*last = store;
}

static void
note_access(Msl *m, MslNode *n)
{
	const ThreadAccess *at = n->t->at;
	bool in_word = at->type == REG_I32 && (n->kind == NODE_ATOMIC || at->cache == CACHE_VOLATILE);
	bool is_device = at->space == SPACE_GLOBAL;
	n->width = n->kind == NODE_ATOMIC ? 1 : at->n;
	note_type(m, at->base, at->type);
	if (is_device && in_word && msl_element_bytes(m->t, at->base) < 4)
		note_padding(m, thread_def(m->t, at->base));
	m->stores_device |= is_device && n->kind != NODE_LOAD;
	if (is_device && n->kind == NODE_STORE)
		note_store(m, n->t);
	m->reads_stored |= is_device && n->kind == NODE_LOAD && at->cache != CACHE_READ_ONLY;
}

/* Does it make a part of an address of other parts? */
static bool
adds_up(const ThreadNode *t)
{
	return t->kind == NODE_CAST || (t->kind == NODE_OP &&
	    (t->op == THREAD_ADD || t->op == THREAD_SUB || t->op == THREAD_MUL || t->op == THREAD_SHL ||
	    t->op == THREAD_ASHR));
}

static void
note_number(Msl *m, Reg r)
{
	MslNode *n = msl_def(m, r);

	if (n->is_number)
		return;
	n->is_number = true;
	for (int i = 0; i < n->nin && adds_up(n->t); i++)
		note_number(m, n->in[i]);
}

static void
note_numbers(Msl *m, const ThreadNode *t)
{
	for (int i = 0; i < t->nin && t->kind != NODE_POINTER && !adds_up(t); i++)
		if (!t->at || (t->in[i] != t->at->base && t->in[i] != t->at->offset))
			note_number(m, t->in[i]);
}

static void
note_node(Msl *m, MslNode *n, ThreadNode *t)
{
	note_numbers(m, t);
	if (t->at)
		note_access(m, n);
	if (t->kind == NODE_UNPACK)
		n->width = t->nout;
	if (t->kind == NODE_LOOKUP)
		msl_table_name(m, t);
	if (t->kind == NODE_PRIM && (t->op == PRIM_FRAGMENT_LOAD || t->op == PRIM_FRAGMENT_LOAD_F32))
		note_type(m, t->in[0], t->imm[2] == TY_F16 ? REG_F16 : t->imm[2] == TY_BF16 ? REG_BF16 : REG_F32);
	if (msl_is_region(n))                           /* the loop's own line does not read carried values */
		n->nin = t->kind == NODE_LOOP ? 3 : t->kind == NODE_IF;
}

static void
note_region(Msl *m, const ThreadRegion *r)
{
	for (int i = 0; i < r->narg && r->owner; i++) {
		MslNode *n = msl_def(m, r->arg[i]), *owner = msl_beside(m, r->owner);
		n->owner = owner;
		n->which = n->t->op;
	}
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *t = r->body.at[i];
		MslNode *n = m->node[t->id] ? m->node[t->id] : beside(m, t);
		note_node(m, n, t);
		for (int k = 0; k < 2; k++)
			if (t->region[k])
				note_region(m, t->region[k]);
	}
}

void
msl_keep_beside(Msl *m)
{
	m->node = NEW_ARRAY(m->mem, MslNode *, m->t->nnode);
	m->reg = NEW_ARRAY(m->mem, MslValue, m->t->reg.n);
	link_values(m);
}

void
msl_note_uses(Msl *m)
{
	m->stored = NEW_ARRAY(m->mem, const ThreadNode *, m->t->kernel.nparam);
	note_region(m, m->t->body);
	for (int i = 0; i < m->t->functions.n; i++)
		note_region(m, m->t->functions.at[i]->body);
}
