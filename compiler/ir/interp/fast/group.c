/* Runs a group of elementwise ops strip by strip, so that what passes between them stays in the nearest
 * cache:
 *
 *     for at in 0 .. count step strip:
 *         load the operands' strips (or use them in place where they are contiguous)
 *         run each member
 *         put the last strip into the tensor, if a write ends the group
 *
 * Operands and results are numbered cells.  A cell is a pointer and how far it moves with each element:
 * by 0 for single elements and for strip buffers.  Buffers are shared by values that are not needed at the
 * same time; a member may write over an operand of its element size that it reads last. */
#include "ir/interp/fast/fast.h"

enum {
	STRIP = 2048,                                   /* most elements of a strip */
	STRIP_BYTES = 24 << 10,                         /* of a group's strips together: a first cache has 32 KB */
	MAX_CELLS = GROUP_MAX * 4,
	STREAM_BYTES = 32 << 20,                        /* size from which a tensor's writes go past the caches */
};

typedef enum CellKind { CELL_ROW, CELL_ONE, CELL_WALK, CELL_STRIP } CellKind;

typedef struct Cell {
	CellKind kind;
	Storage storage;                                /* but for STRIP */
	int size, buffer, last;                         /* of an element; strip buffer or -1; last member that reads it */
	const Value *value;
} Cell;

typedef struct Member {
	Elementwise elementwise;
	int in[3], out;
	unsigned scalar;
} Member;

typedef struct GroupStep {
	Step step;
	int64_t count, strip, buffer_size, walks_at;
	Cell *cell;
	Member *member;
	int ncells, nmembers, nwalks;
	int sink;                                       /* cell that goes to the tensor, or -1 */
	bool only_sink;                                 /* no other result leaves the group */
	bool streams;                                   /* may go past the caches: see streams_well */
	TensorAccess access;
} GroupStep;

static int
find_cell(const GroupStep *s, const Value *v)
{
	return FIRST_OF(i, s->ncells, s->cell[i].value == v);
}

static CellKind
cell_kind(const Storage *h)
{
	if (h->kind == STORE_STRIP)
		return CELL_STRIP;
	if (h->kind == STORE_ONE)
		return CELL_ONE;
	return h->kind == STORE_VIEW && !h->dense ? CELL_WALK : CELL_ROW;
}

static int
cell_for(Plan *p, GroupStep *s, const Value *v)
{
	int i = find_cell(s, v);

	if (i >= 0)
		return i;
	Storage h = storage_of(p, v);
	s->cell[s->ncells] = (Cell){cell_kind(&h), h, type_elem_size(v->type), -1, -1, v};
	s->nwalks += s->cell[s->ncells].kind == CELL_WALK;
	return s->ncells++;
}

static void
make_members(Plan *p, GroupStep *s, const Node *n)
{
	for (int i = 0; i < n->member.n; i++) {
		const Op *op = n->member.at[i];
		Member *m = &s->member[s->nmembers++];
		elementwise_make(p, &m->elementwise, op);
		for (int k = 0; k < op->nin; k++) {
			m->in[k] = cell_for(p, s, op->in[k]);
			s->cell[m->in[k]].last = i;
			if (s->cell[m->in[k]].kind == CELL_ONE)
				m->scalar |= 1u << k;
		}
		m->out = cell_for(p, s, &op->out[0]);
		s->cell[m->out].last = MAX(s->cell[m->out].last, i);
	}
}

/* Frees the buffers of cells that member i reads last; those of another element size only `after` it wrote. */
static void
free_buffers(const GroupStep *s, int i, bool *taken, bool after)
{
	const Member *m = &s->member[i];

	for (int k = 0; k < m->elementwise.nin; k++) {
		const Cell *c = &s->cell[m->in[k]];
		if (c->buffer >= 0 && c->last == i && after == (c->size != s->cell[m->out].size))
			taken[c->buffer] = false;
	}
}

static int
take_buffer(bool *taken, int *n)
{
	int b = 0;

	while (taken[b])
		b++;
	taken[b] = true;
	*n = MAX(*n, b + 1);
	return b;
}

static int
share_buffers(GroupStep *s)
{
	bool taken[MAX_CELLS + 1] = {false};
	int n = 0;

	for (int i = 0; i < s->ncells; i++)
		if (s->cell[i].kind == CELL_WALK)
			s->cell[i].buffer = take_buffer(taken, &n);
	for (int i = 0; i < s->nmembers; i++) {
		Cell *out = &s->cell[s->member[i].out];
		free_buffers(s, i, taken, false);
		if (out->kind == CELL_STRIP)
			out->buffer = take_buffer(taken, &n);
		free_buffers(s, i, taken, true);
		if (out->buffer >= 0 && out->last == i && s->member[i].out != s->sink)
			taken[out->buffer] = false;
	}
	return n;
}

/* The longest strip with which all buffers and what streams by fit in STRIP_BYTES. */
static void
choose_strip(Plan *p, GroupStep *s, int nbuffers)
{
	int64_t bytes = 0, size = 1;

	for (int i = 0; i < s->ncells; i++) {
		size = MAX(size, s->cell[i].size);
		if (s->cell[i].kind == CELL_ROW)
			bytes += s->cell[i].size;
	}
	bytes += nbuffers * size;
	int64_t strip = MIN(STRIP, MAX(256, STRIP_BYTES / MAX(bytes, 1) / 64 * 64));
	s->strip = MIN(strip, s->count);
	s->buffer_size = (s->strip * size + 63) / 64 * 64;
	s->walks_at = s->buffer_size * nbuffers;
	strip_want(p, s->walks_at + (int64_t)sizeof(Walk) * s->nwalks);
}

/* The cells of one run of a group. */
typedef struct Cursor {
	char *at[MAX_CELLS];
	int64_t move[MAX_CELLS];                        /* bytes an element */
	const Walk *walk[MAX_CELLS];                    /* brought strip by strip, or NULL */
	Walk sink;
	bool stores;                                    /* the sink is put strip by strip */
	bool streams;                                   /* the sink's tensor is too large to stay in a cache */
	int64_t from, to;                               /* elements inside the tensor */
} Cursor;

static void
cursor_cell(Worker *w, const GroupStep *s, int i, Cursor *c, Walk **walk)
{
	const Cell *cell = &s->cell[i];

	c->walk[i] = NULL;
	c->move[i] = cell->kind == CELL_ROW ? cell->size : 0;
	if (cell->kind == CELL_STRIP) {
		c->at[i] = w->strip + cell->buffer * s->buffer_size;
		return;
	}
	if (cell->kind != CELL_WALK) {
		c->at[i] = storage_at(w, &cell->storage);
		return;
	}
	Walk *k = (*walk)++;
	walk_make(k, &w->view[cell->storage.view], cell->storage.type);
	if (k->flat) {
		c->at[i] = k->at;
		c->move[i] = cell->size;
		return;
	}
	c->at[i] = w->strip + cell->buffer * s->buffer_size;
	c->walk[i] = k;
}

static bool
is_large(const PlanArg *a, int rank, int size)
{
	int64_t bytes = size;

	for (int d = 0; d < rank; d++)
		bytes *= a->dim[d];
	return bytes >= STREAM_BYTES;
}

static void
cursor_sink(Worker *w, const GroupStep *s, Cursor *c)
{
	View v;

	access_view(w, &s->access, NULL, &v);
	walk_make(&c->sink, &v, s->access.tile);
	const Walk *k = &c->sink;
	bool one_run = k->rank == 1 && k->stride[0] == 1 && !k->packed && !k->empty;
	c->stores = !k->flat && !(one_run && s->only_sink);
	if (c->stores)
		return;
	/* What is clipped away is not even computed. */
	c->from = k->lo[0];
	c->to = k->hi[0];
	c->at[s->sink] = k->at;
	c->move[s->sink] = s->cell[s->sink].size;
	c->streams = s->streams && is_large(&w->args[s->access.param], s->access.nd, s->cell[s->sink].size);
}

static void
run_strip(Worker *w, const GroupStep *s, const Cursor *c, int64_t at, int64_t n)
{
	const char *now[MAX_CELLS];
	char *out;

	for (int i = 0; i < s->ncells; i++) {
		now[i] = c->at[i] + at * c->move[i];
		if (c->walk[i])
			walk_copy(c->walk[i], at, n, c->at[i]);
	}
	for (int i = 0; i < s->nmembers; i++) {
		const Member *m = &s->member[i];
		const void *in[3] = {now[m->in[0]], now[m->in[1]], now[m->in[2]]};
		out = c->at[m->out] + at * c->move[m->out];
		if (c->streams && m->out == s->sink)
			elem_stream(&m->elementwise.elem, out, in, m->scalar, n);
		else
			elementwise_run(w, &m->elementwise, out, in, m->scalar, n);
	}
	if (s->sink >= 0 && c->stores)
		walk_store(&c->sink, at, n, c->at[s->sink]);
}

static bool
run_group(Worker *w, const Step *step)
{
	const GroupStep *s = (const GroupStep *)step;
	Walk *walk = (Walk *)(w->strip + s->walks_at);
	Cursor c;

	c.streams = false;
	c.from = 0;
	c.to = s->count;
	for (int i = 0; i < s->ncells; i++)
		cursor_cell(w, s, i, &c, &walk);
	if (s->sink >= 0)
		cursor_sink(w, s, &c);
	for (int64_t at = c.from; at < c.to; at += s->strip)
		run_strip(w, s, &c, at, MIN(s->strip, c.to - at));
	return true;
}

/* Writing past the caches pays where memory is what a group waits for.  Mathematical functions give the caches
 * time to write back by themselves, and a burst of such writes would then be waited for.  The last member must
 * make the sink, of numbers. */
static bool
streams_well(const GroupStep *s, const Node *n)
{
	const Member *last = &s->member[s->nmembers - 1];

	for (int i = 0; i < n->member.n; i++) {
		if (op_family(n->member.at[i]) == FAMILY_MATH)
			return false;
	}
	return last->out == s->sink && !last->elementwise.ptr_size && !last->elementwise.perturbs;
}

static bool
defined_here(const Node *n, const Value *v)
{
	return ANY_OF(i, n->member.n, v->def == n->member.at[i]);
}

Step *
group_emit(Plan *p, const Node *n)
{
	GroupStep *s = STEP(p, n->member.at[0], GroupStep, run_group);

	s->count = type_count(n->member.at[0]->out[0].type);
	s->cell = NEW_ARRAY(p->mem, Cell, n->member.n * 4);
	s->member = NEW_ARRAY(p->mem, Member, n->member.n);
	s->sink = -1;
	s->only_sink = true;
	make_members(p, s, n);
	for (int i = 0; i < s->ncells; i++)
		if (defined_here(n, s->cell[i].value) && s->cell[i].kind != CELL_STRIP)
			s->only_sink = false;
	if (n->op) {
		s->sink = find_cell(s, n->op->in[n->op->nin - 1]);
		access_make(&s->access, n->op, n->op->in[n->op->nin - 1]->type);
		s->streams = streams_well(s, n);
	}
	choose_strip(p, s, share_buffers(s));
	return &s->step;
}

typedef struct ScalarStep {
	Step step;
	Elementwise elementwise;
	int in[3], out;
} ScalarStep;

static bool
run_scalar(Worker *w, const Step *step)
{
	const ScalarStep *s = (const ScalarStep *)step;
	const void *in[3] = {w->at[s->in[0]], w->at[s->in[1]], w->at[s->in[2]]};

	elementwise_run(w, &s->elementwise, w->at[s->out], in, 0, 1);
	return true;
}

/* int64 arithmetic is most of what scalars do: indices and bounds. */
#define RUN_I64(name, T, expr)                                                                     \
	static bool run_##name(Worker *w, const Step *step)                                        \
	{                                                                                          \
		const ScalarStep *s = (const ScalarStep *)step;                                    \
		uint64_t a = *(uint64_t *)w->at[s->in[0]], b = *(uint64_t *)w->at[s->in[1]];     \
		*(T *)w->at[s->out] = (T)(expr);                                                  \
		return true;                                                                       \
	}
RUN_I64(add, uint64_t, a + b)
RUN_I64(sub, uint64_t, a - b)
RUN_I64(mul, uint64_t, a * b)
RUN_I64(lt, uint8_t, (int64_t)a < (int64_t)b)
RUN_I64(ge, uint8_t, (int64_t)a >= (int64_t)b)

static StepFn *
scalar_function(const Op *op)
{
	if (op->in[0]->type->ptr != PTR_NONE || op->in[0]->type->elem != TY_I64)
		return run_scalar;
	switch (op->kind) {
	case OP_ADD: return run_add;
	case OP_SUB: return run_sub;
	case OP_MUL: return run_mul;
	case OP_LT: return run_lt;
	case OP_GE: return run_ge;
	default: return run_scalar;
	}
}

Step *
scalar_emit(Plan *p, const Op *op)
{
	ScalarStep *s = STEP(p, op, ScalarStep, scalar_function(op));

	elementwise_make(p, &s->elementwise, op);
	for (int i = 0; i < op->nin; i++)
		s->in[i] = storage_of(p, op->in[i]).slot;
	s->out = storage_of(p, &op->out[0]).slot;
	return &s->step;
}
