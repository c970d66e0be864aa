/* Shadow memory: for every cell of the memory of a launch, the program that wrote it last and one that read it.
 *
 * The memory that the arguments reach is cut into regions (arguments that overlap share one) and each region
 * into cells of the smallest element used there.  A cell remembers the program and the op that
 * wrote it last, whether atomically, and a program that read it, with a mark if there was another.  A use by
 * program p is a race if another program
 *
 *     wrote the cell, unless both uses are atomic        read it, and p writes
 *
 * whatever the order in which this machine ran them: a GPU would run them at once.  A thread enters its use with an
 * atomic exchange and then reads the other half of the cell, so that of two racing uses at least one sees the other.
 *
 * Tensor accesses cannot leave their tensor.  Pointers can: they are checked against the buffers of the parameters that
 * they come from (provenance.c), without shadow memory too (pointer.c).  Cells of `out` and scratch
 * tensors that nothing wrote must not be read. */
#include "ir/interp/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Program + 1 (0: none), then the op's site, then flags. */
enum { FLAG_BITS = 1, SITE_BITS = 19, FLAG = 1 };       /* writer: was atomic; reader: more than one program */

typedef struct Cell {
	uint64_t writer, reader;
} Cell;

typedef struct Region {
	char *low, *high;
	int size;                                       /* bytes of a cell */
	Cell *cell;
	size_t mapped;
} Region;

struct Shadow {
	Region *region;
	int nregions;
	bool *starts_empty;                             /* by parameter: out or scratch, unwritten at first */
	const Op **site;                                /* a hash table of the ops that touch memory */
	uint64_t nsites;                                /* its size, a power of two */
};

/* The op's index in the table, or where it can be entered. */
static uint64_t
site_of(const Shadow *s, const Op *op)
{
	uint64_t at = (uint64_t)(uintptr_t)op * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	while (s->site[at & (s->nsites - 1)] && s->site[at & (s->nsites - 1)] != op)
		at++;
	return at & (s->nsites - 1);
}

static bool
sites_find(Shadow *s, const Block *body)
{
	uint64_t n = 0;

	for (Op *op = body->first; op; op = op_after(op, body))
		n += (op_info[op->kind].traits & (READS | WRITES)) != 0;
	for (s->nsites = 16; s->nsites < 2 * n;)
		s->nsites *= 2;
	s->site = calloc(s->nsites, sizeof *s->site);
	for (Op *op = body->first; s->site && op; op = op_after(op, body))
		if (op_info[op->kind].traits & (READS | WRITES))
			s->site[site_of(s, op)] = op;
	return s->site && s->nsites <= 1 << SITE_BITS;
}

static uint64_t
entry(const Worker *w, const Op *op, bool flag)
{
	return ((uint64_t)(w->linear + 1) << (SITE_BITS + FLAG_BITS)) |
	    (uint64_t)site_of(w->shadow, op) << FLAG_BITS | (flag ? FLAG : 0);
}

static int64_t
entry_program(uint64_t e)
{
	return (int64_t)(e >> (SITE_BITS + FLAG_BITS)) - 1;
}

static const Op *
entry_op(const Worker *w, uint64_t e)
{
	return w->shadow->site[e >> FLAG_BITS & ((1 << SITE_BITS) - 1)];
}

/* What a parameter reaches: a pointer its whole buffer, a tensor its elements. */
static bool
param_span(const FuncParam *f, const Type *t, const PlanArg *arg, char **low, char **high)
{
	int64_t from = 0, to = 0;

	if (!arg->data)
		return false;
	if (f->kind == PARAM_POINTER) {
		*low = arg->low;
		*high = arg->high;
		return *low < *high;
	}
	for (int d = 0; d < t->rank; d++) {
		if (arg->dim[d] <= 0)
			return false;
		*(arg->stride[d] < 0 ? &from : &to) += (arg->dim[d] - 1) * arg->stride[d];
	}
	if (dtype_is_packed(t->elem)) {
		*low = (char *)arg->data + from / 2;
		*high = (char *)arg->data + to / 2 + 1;
	} else {
		*low = (char *)arg->data + from * dtype_tile_size(t->elem);
		*high = (char *)arg->data + (to + 1) * dtype_tile_size(t->elem);
	}
	return true;
}

/* Adds a span; regions that it joins become one. */
static void
add_region(Shadow *s, Region r)
{
	int n = 0;

	for (int i = 0; i < s->nregions; i++) {
		Region *o = &s->region[i];
		if (r.low < o->high && o->low < r.high) {
			r.low = MIN(r.low, o->low);
			r.high = MAX(r.high, o->high);
			r.size = MIN(r.size, o->size);
		} else {
			s->region[n++] = *o;
		}
	}
	s->region[n++] = r;
	s->nregions = n;
}

static bool
map_cells(Region *r)
{
	r->mapped = ((size_t)(r->high - r->low) / (size_t)r->size + 2) * sizeof(Cell);
	void *at = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->cell = at == MAP_FAILED ? NULL : at;
	return r->cell != NULL;
}

static const Region *
region_of(const Shadow *s, const char *at)
{
	return VALUE_OF(i, s->nregions, at >= s->region[i].low && at < s->region[i].high, &s->region[i], NULL);
}

Shadow *
shadow_open(const Plan *p, const PlanArg *args)
{
	const Func *f = p->func;
	Shadow *s = p->opt.sanitize ? calloc(1, sizeof *s) : NULL;
	char *low, *high;

	if (!s)
		return NULL;
	s->region = calloc((size_t)f->nparam + 1, sizeof *s->region);
	s->starts_empty = calloc((size_t)f->nparam + 1, sizeof *s->starts_empty);
	for (int i = 0; s->region && s->starts_empty && i < f->nparam; i++) {
		const Type *t = f->body->arg[i].type;
		if (f->param[i].kind > PARAM_POINTER || !param_span(&f->param[i], t, &args[i], &low, &high))
			continue;
		add_region(s, (Region){low, high, dtype_tile_size(t->elem), NULL, 0});
	}
	bool made = s->region && s->starts_empty && sites_find(s, f->body) &&
		    ALL_OF(i, s->nregions, map_cells(&s->region[i]));
	if (!made) {
		shadow_close(s);
		return NULL;
	}
	for (int i = 0; i < f->nparam; i++) {
		Access a = f->param[i].access;
		s->starts_empty[i] = f->param[i].kind == PARAM_TENSOR && !args[i].filled &&
		    (a == ACCESS_OUT || a == ACCESS_SCRATCH);
	}
	return s;
}

void
shadow_close(Shadow *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->nregions; i++)
		if (s->region[i].cell)
			munmap(s->region[i].cell, s->region[i].mapped);
	free(s->region);
	free(s->starts_empty);
	free(s->site);
	free(s);
}

/* "element [3, 7] of 'x'", from the element's offset; plain offsets where the strides are free. */
static void
element_text(const Worker *w, int param, int64_t element, Text *out)
{
	const FuncParam *f = &w->plan->func->param[param];
	const PlanArg *arg = &w->args[param];
	int rank = f->kind == PARAM_TENSOR ? w->plan->func->body->arg[param].type->rank : 0;

	text_put(out, "element ");
	if (rank <= 1 || f->strided) {
		text_printf(out, "%" PRId64 " of '%s'", element, f->name);
		return;
	}
	for (int d = 0; d < rank; d++) {
		int64_t at = arg->stride[d] ? element / arg->stride[d] : 0;
		element -= at * arg->stride[d];
		text_printf(out, "%s%" PRId64, d ? ", " : "[", at);
	}
	text_printf(out, "] of '%s'", f->name);
}

static const char *
use_text(ShadowUse use)
{
	return use == SHADOW_READ ? "reads" : use == SHADOW_WRITE ? "stores to" : "updates";
}

/* One use of an element, and the parameter by which it is reported. */
typedef struct Use {
	const Op *op;
	ShadowUse kind;
	int param;
	int64_t element;
} Use;

/* "program (1, 2) reads " */
static Text
sentence(const Worker *w, const Use *u)
{
	Text text = {0};

	program_format(w->plan->func->naxis, w->program, &text);
	text_printf(&text, " %s ", use_text(u->kind));
	return text;
}

/* Takes the text. */
static bool
report(Worker *w, const Use *u, FaultKind kind, Text *text)
{
	fault_at(w, u->op, kind, "%s", text->at);
	text_close(text);
	if (w->fault && u->param >= 0) {
		w->fault->param = w->plan->func->param[u->param].name;
		w->fault->element = u->element;
	}
	return false;
}

static bool
race(Worker *w, const Use *u, uint64_t other, const char *did)
{
	int64_t linear = entry_program(other);
	int64_t row = linear / w->grid[0], theirs[MAX_AXES] = {linear % w->grid[0], row % w->grid[1], row / w->grid[1]};
	const Op *op = entry_op(w, other);
	Text text = sentence(w, u);

	element_text(w, u->param, u->element, &text);
	text_put(&text, ", which ");
	if (linear != w->linear)
		program_format(w->plan->func->naxis, theirs, &text);
	else                                            /* of several readers a cell has one, which may be this program */
		text_put(&text, "another program");
	text_printf(&text, " %s: they may run in any order", did);
	report(w, u, FAULT_RACE, &text);
	if (w->fault) {
		w->fault->other = op ? op->place : NOWHERE;
		memcpy(w->fault->other_program, theirs, sizeof theirs);
	}
	return false;
}

static bool
unwritten(Worker *w, const Use *u)
{
	Text text = sentence(w, u);

	element_text(w, u->param, u->element, &text);
	text_put(&text, ", which nothing has written yet");
	return report(w, u, FAULT_UNINIT, &text);
}

static bool
is_others(const Worker *w, uint64_t e)
{
	return e && entry_program(e) != w->linear;
}

static bool
use_read(Worker *w, const Use *u, Cell *c)
{
	uint64_t me = entry(w, u->op, false), reader = __atomic_load_n(&c->reader, __ATOMIC_SEQ_CST);

	while (entry_program(reader) != w->linear && !(reader & FLAG)) {
		uint64_t now = reader ? reader | FLAG : me;
		if (__atomic_compare_exchange_n(&c->reader, &reader, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	}
	uint64_t writer = __atomic_load_n(&c->writer, __ATOMIC_SEQ_CST);
	if (is_others(w, writer))
		return race(w, u, writer, writer & FLAG ? "updated atomically" : "stored to");
	if (!writer && w->shadow->starts_empty[u->param])
		return unwritten(w, u);
	return true;
}

static bool
use_write(Worker *w, const Use *u, Cell *c)
{
	bool atomic = u->kind == SHADOW_ATOMIC;
	uint64_t old = __atomic_exchange_n(&c->writer, entry(w, u->op, atomic), __ATOMIC_SEQ_CST);
	uint64_t reader = __atomic_load_n(&c->reader, __ATOMIC_SEQ_CST);

	if (is_others(w, old) && !(atomic && (old & FLAG)))
		return race(w, u, old, old & FLAG ? "updated atomically" : "stored to");
	if (reader && (is_others(w, reader) || (reader & FLAG)))
		return race(w, u, reader, "read");
	if (atomic && !old && w->shadow->starts_empty[u->param])
		return unwritten(w, u);
	return true;
}

static bool
use_bytes(Worker *w, const Use *u, const char *at, int size)
{
	const Region *r = region_of(w->shadow, at);

	if (!r)
		return true;
	for (int64_t i = (at - r->low) / r->size; i <= (at + size - 1 - r->low) / r->size; i++)
		if (!(u->kind == SHADOW_READ ? use_read : use_write)(w, u, &r->cell[i]))
			return false;
	return true;
}

bool
shadow_tensor(Worker *w, const Op *op, int param, int64_t at, ShadowUse use)
{
	DType t = w->plan->func->body->arg[param].type->elem;
	Use u = {op, use, param, at};
	int64_t byte = dtype_is_packed(t) ? at / 2 : at * dtype_tile_size(t);

	return use_bytes(w, &u, (const char *)w->args[param].data + byte, dtype_is_packed(t) ? 1 : dtype_tile_size(t));
}

bool
pointer_may_be_of(const Func *f, uint64_t from, int i)
{
	if (from == 0 || from == UINT64_MAX) /* where they come from is not known */
		return f->param[i].kind == PARAM_POINTER || f->param[i].kind == PARAM_TENSOR;
	return f->param[i].kind == PARAM_POINTER && i < 63 && (from >> i & 1);
}

/* The first parameter that the pointers may come from, for the report; the one whose buffer holds them if any. */
static int
param_of_pointer(const Worker *w, uint64_t from, const char *at, int size, bool *inside)
{
	const Func *f = w->plan->func;
	int first = -1;

	*inside = false;
	for (int i = 0; i < f->nparam; i++) {
		const PlanArg *arg = &w->args[i];
		if (!pointer_may_be_of(f, from, i))
			continue;
		if (first < 0)
			first = i;
		if ((!arg->low && arg->data) || (at >= arg->low && at <= arg->high && size <= arg->high - at)) {
			*inside = true;
			return i;
		}
	}
	return first;
}

static bool
out_of_bounds(Worker *w, const Use *u, int size)
{
	const PlanArg *arg = u->param >= 0 ? &w->args[u->param] : NULL;
	Text text = sentence(w, u);

	if (!arg) {
		text_put(&text, "memory of no parameter through a pointer");
		return report(w, u, FAULT_BOUNDS, &text);
	}
	int64_t from = (arg->low - (char *)arg->data) / size, to = (arg->high - (char *)arg->data) / size;
	text_printf(&text, "element %" PRId64 " of '%s' through a pointer; its buffer ", u->element,
	    w->plan->func->param[u->param].name);
	if (from < to)
		text_printf(&text, "holds elements %" PRId64 " to %" PRId64, from, to - 1);
	else
		text_put(&text, "is empty");
	return report(w, u, FAULT_BOUNDS, &text);
}

bool
shadow_pointer(Worker *w, const Op *op, const void *at, int size, ShadowUse use)
{
	bool inside;
	int param = param_of_pointer(w, w->plan->origin[op->in[0]->id], at, size, &inside);
	int64_t byte = param < 0 ? 0 : (int64_t)((uintptr_t)at - (uintptr_t)w->args[param].data);
	Use u = {op, use, param, byte / size - (byte % size < 0)};

	if (!inside)
		return out_of_bounds(w, &u, size);
	return !w->shadow || use_bytes(w, &u, at, size);
}
