/* Reads and writes the channels of interleaved records together.
 *
 *     %r = read %x, %i, 0 {index = "pi", extents = [64]} : u8[64]         %x: u8[N, 3]
 *     %g = read %x, %i, 1 {index = "pi", extents = [64]} : u8[64]
 *  =>
 *     %v = read %x, %i, 0 {index = "pp", extents = [64, 3]} : u8[64, 3]
 *     %r = extract %v, 0, 0 {index = "pi", extents = [64]} : u8[64]
 *     %g = extract %v, 0, 1 {index = "pi", extents = [64]} : u8[64]
 *
 *     write %y, %i, 0, %a {index = "pi", …}            %c = select %is_0, %a, %b : f16[64, 2]       (both broadcast)
 *     write %y, %i, 1, %b {index = "pi", …}      =>    write %y, %i, 0, %c {index = "pp", extents = [64, 2]}
 *
 * One channel alone is read or written a few bytes at a stride.  Whole records are one run of memory, which a thread moves
 * in vectors; pass coalesce keeps a record in one thread's registers, where taking it apart and putting it together only
 * names them.  Reads are joined where at least half of the channels are read; writes, where all are.  Accesses of one block
 * are joined, between which nothing writes the tensor (of reads) or touches it (of writes); the joined read stands at the
 * first of them, the write at the last.
 *
 * A record is up to 16 elements of the tensor's last dimensions, [N, 3, 3] too.  Apart, the writes of its elements go to
 * the L2 cache one by one, in parts of sectors, of nine elements nine times; together, threads compute records in
 * registers and exchange them through shared memory, so that neighbours write neighbours (record_layout of pass assign).
 * Pairs of 32 bits are written together, as complex numbers (592 MB through an H200's L2 cache for an FFT of 268 apart),
 * but not read: a warp's two accesses share sectors in the L1 cache, and the rest of an FFT wants other layouts. */
#include "ir/derive.h"
#include "pass/pass.h"

#include <string.h>

enum { CHANNELS_MOST = 16, RANK_MOST = 3, BITS_NARROW = 16, BITS_PAIR = 32, BITS_MOST = 64 };

/* A record: its dimensions, the tensor's last ones, and their elements. */
typedef struct Record {
	int dims;
	int64_t n;
} Record;

typedef struct Group {
	int n;                                          /* elements that are accessed */
	Record record;
	Op *by[CHANNELS_MOST];                          /* the op that accesses it, or NULL */
	Op *last;
} Group;

/* Elements as wide as may be read or written together. */
static int
bits_most(const Op *op, const Record *r)
{
	return r->n > 2 ? BITS_MOST : op->kind == OP_WRITE ? BITS_PAIR : BITS_NARROW;
}

/* The element of a record that an access takes for each of its tile's elements; -1: it is no such access. */
static int64_t
channel_of(const Func *f, const Op *op, Record *r)
{
	const Value *tensor = op->nin ? op->in[0] : NULL;
	if ((op->kind != OP_READ && op->kind != OP_WRITE) || tensor->def || tensor->block->parent)
		return -1;
	const Type *t = tensor->type;
	const char *index = attr_index(op);
	const IntList *extents = attr_extents(op);
	int64_t at = 0;
	*r = (Record){.n = 1};
	for (int d = t->rank - 1; d > 0 && index[d] == 'i'; d--) {
		int64_t i;
		if (!value_int(op->in[1 + d], &i) || i < 0 || i >= t->extent[d] || t->extent[d] * r->n > CHANNELS_MOST)
			return -1;
		at += i * r->n;
		r->n *= t->extent[d];
		r->dims++;
	}
	if (r->n < 2 || index[t->rank - 1 - r->dims] != 'p' || !extents || f->param[tensor->index].strided ||
	    strchr(index, 'g') || extents->n + r->dims - 1 > RANK_MOST || dtype_is_packed(t->elem) ||
	    dtype_info[t->elem].bits > bits_most(op, r))
		return -1;
	return at;
}

/* Do they differ by the element of the record alone, and by what is written? */
static bool
is_alike(const Op *a, const Op *b, const Record *r)
{
	int rank = a->in[0]->type->rank;
	if (a->kind != b->kind || a->nin != b->nin || strcmp(attr_index(a), attr_index(b)) != 0)
		return false;
	if (ANY_OF(i, a->nin, a->in[i] != b->in[i] && (i <= rank - r->dims || i > rank) &&
	    (a->kind == OP_READ || i != access_data(a))))
		return false;
	const IntList *x = attr_extents(a), *y = attr_extents(b);
	return x->n == y->n && memcmp(x->at, y->at, sizeof *x->at * (size_t)x->n) == 0;
}

/* May the op write the tensor that `a` accesses; or read it, if `a` writes?  Tensors that are written overlap no other
 * argument, but a pointer may lead anywhere. */
static bool
is_in_the_way(const Op *op, const Op *a)
{
	if (ANY_OF(r, op->nregion, ANY_OP(in, op->region[r], is_in_the_way(in, a))))
		return true;
	unsigned traits = op_info[op->kind].traits;
	bool reads = traits & READS, writes = traits & (WRITES | EFFECT) || op->kind == OP_INLINE_PTX;
	if (!(writes || (reads && a->kind == OP_WRITE)))
		return false;
	bool is_other = op_is_access(op) && op->in[0]->type->kind == TYPE_TENSOR && op->in[0] != a->in[0];
	return !is_other;
}

static Group
group_of(const Func *f, Op *first)
{
	Group g = {0};
	int64_t at = channel_of(f, first, &g.record);
	for (Op *op = at < 0 ? NULL : first; op; op = op->next) {
		Record r;
		at = channel_of(f, op, &r);
		bool joins = at >= 0 && is_alike(op, first, &g.record) && !g.by[at];
		if (!joins && is_in_the_way(op, first))
			break;
		if (!joins)
			continue;
		g.by[at] = g.last = op;
		g.n++;
	}
	return g;
}

/* A tile of whole records, an element of which is of type t. */
static const Type *
type_whole(Module *m, const Group *g, const Op *op, const Type *t)
{
	const Type *tensor = op->in[0]->type;
	for (int d = tensor->rank - g->record.dims; d < tensor->rank; d++)
		t = type_with_dim(m, t, t->rank, tensor->extent[d]);
	return t;
}

/* The access of whole records, with `data` (or the fill) behind the indices. */
static Op *
whole(Builder *b, const Group *g, const Op *op, const Type *t, Value *data)
{
	int rank = op->in[0]->type->rank;
	Value *in[2 + MAX_RANK];
	char index[MAX_RANK + 1];
	memcpy(in, op->in, sizeof *in * (size_t)(1 + rank));
	strcpy(index, attr_index(op));
	for (int d = rank - g->record.dims; d < rank; d++) {
		in[1 + d] = build_index(b, 0);
		index[d] = 'p';
	}
	in[rank + 1] = data;
	return access_like(b, op, in, rank + 1 + (data != NULL), index, t->extent, t->rank);
}

/* Element c of each record. */
static Value *
element(Builder *b, const Group *g, Value *v, int64_t c)
{
	Value *in[1 + MAX_RANK] = {v};
	char index[MAX_RANK + 1] = {0};
	int rank = v->type->rank, whole = rank - g->record.dims;
	int64_t each = g->record.n;
	for (int d = 0; d < rank; d++) {
		each /= d < whole ? 1 : v->type->extent[d];
		in[1 + d] = build_index(b, d < whole ? 0 : c / each % v->type->extent[d]);
		index[d] = d < whole ? 'p' : 'i';
	}
	Attr attr[] = {attr_new_index(b->m, index), attr_new_extents(b->m, v->type->extent, whole)};
	return op_make(b, OP_EXTRACT, in, 1 + rank, attr, 2, NULL, 0)->out;
}

static void
join_reads(Module *m, const Group *g, Op *first)
{
	const Type *all = type_whole(m, g, first, first->out[0].type);
	Builder b = build_before(first);
	int fill = 1 + first->in[0]->type->rank;
	Value *other = first->nin > fill ? first->in[fill] : NULL;
	Value *v = &whole(&b, g, first, all, other)->out[0];
	for (int c = 0; c < g->record.n; c++) {
		if (!g->by[c])
			continue;
		b.place = g->by[c]->place;
		Value *out = element(&b, g, v, c);
		out->name = g->by[c]->out[0].name;
		value_replace(&g->by[c]->out[0], out);
	}
	for (int c = 0; c < g->record.n; c++)
		if (g->by[c])
			op_erase(g->by[c]);
}

/* The number of each element within its record. */
static Value *
numbers_of(Builder *b, const Group *g, const Type *numbers)
{
	Value *sum = NULL;
	int64_t each = 1;
	for (int i = 1; i <= g->record.dims; i++) {
		Value *v = build_iota(b, numbers, numbers->rank - i);
		if (each > 1)
			v = build2(b, OP_MUL, v, build_int(b, numbers, each));
		sum = sum ? build2(b, OP_ADD, sum, v) : v;
		each *= numbers->extent[numbers->rank - i];
	}
	return sum;
}

/* Each channel over the whole record, of which an element takes the one whose channel it is. */
static void
join_writes(Module *m, const Group *g)
{
	Builder b = build_before(g->last);
	int data = access_data(g->last);
	const Type *t = g->last->in[data]->type, *all = type_whole(m, g, g->last, t);
	const Type *numbers = type_with_elem(m, all, TY_I32);
	Value *channel = numbers_of(&b, g, numbers), *v = NULL;
	for (int c = (int)g->record.n - 1; c >= 0; c--) {
		Value *part = g->by[c]->in[data];
		for (int d = t->rank; d < all->rank; d++)
			part = build_stack(&b, part, d, all->extent[d]);
		Value *below = v ? build2(&b, OP_LT, channel, build_int(&b, numbers, c + 1)) : NULL;
		v = v ? build3(&b, OP_SELECT, below, part, v) : part;
	}
	whole(&b, g, g->last, v->type, v);
	for (int c = 0; c < g->record.n; c++)
		op_erase(g->by[c]);
}

static bool
fill_is_scalar(const Op *op)
{
	int fill = 1 + op->in[0]->type->rank;
	return op->nin <= fill || op->in[fill]->type->rank == 0;
}

static void
walk(Func *f, Block *block)
{
	for (Op *op = block->first, *next; op; op = next) {
		Group g = group_of(f, op);
		for (int r = 0; r < op->nregion; r++)
			walk(f, op->region[r]);
		next = op->next;
		while (next && g.n > 1 && next->kind == op->kind && next->in[0] == op->in[0] &&
		    is_alike(next, op, &g.record))
			next = next->next;
		if (op->kind == OP_READ && g.n > 1 && 2 * g.n >= g.record.n && fill_is_scalar(op))
			join_reads(f->module, &g, op);
		else if (op->kind == OP_WRITE && g.n > 1 && g.n == g.record.n)
			join_writes(f->module, &g);
		else
			next = op->next;
	}
}

void
pass_records(Func *f, const Target *t)
{
	walk(f, f->body);
}
