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
 * Elements of 32 bits and more stay apart: a warp's accesses at such strides share sectors in the L1 cache, and a layout of
 * records may not be what the rest of the kernel wants.  Only pairs of 32 bits, as complex numbers, are written together:
 * apart, each sector is written twice by half (592 MB through an H200's L2 cache for an FFT of 268). */
#include "ir/derive.h"
#include "pass/pass.h"

#include <string.h>

enum { CHANNELS_MOST = 8, RANK_MOST = 3, BITS_MOST = 16, BITS_PAIR = 32 };

typedef struct Group {
	int n, channels;                                /* that are accessed, and of the tensor */
	Op *by[CHANNELS_MOST];                          /* the op that accesses it, or NULL */
	Op *last;
} Group;

static int
bits_most(const Op *op)
{
	const Type *t = op->in[0]->type;
	return op->kind == OP_WRITE && t->extent[t->rank - 1] == 2 ? BITS_PAIR : BITS_MOST;
}

/* The channel of a record that an access takes of each of its tile's elements; -1: it is no such access. */
static int64_t
channel_of(const Func *f, const Op *op, int64_t *channels)
{
	const Value *tensor = op->nin ? op->in[0] : NULL;
	if ((op->kind != OP_READ && op->kind != OP_WRITE) || tensor->def || tensor->block->parent)
		return -1;
	const char *index = attr_index(op);
	const IntList *extents = attr_extents(op);
	int last = tensor->type->rank - 1;
	if (last < 1 || !extents || f->param[tensor->index].strided || strchr(index, 'g') || index[last] != 'i' ||
	    index[last - 1] != 'p' || extents->n > RANK_MOST || dtype_is_packed(tensor->type->elem) ||
	    dtype_info[tensor->type->elem].bits > bits_most(op))
		return -1;
	const Attr *at = value_const(op->in[1 + last]);
	*channels = tensor->type->extent[last];
	bool is_inside = at && at->kind == KIND_INT && at->i >= 0 && at->i < *channels;
	return is_inside && *channels > 1 && *channels <= CHANNELS_MOST ? at->i : -1;
}

/* Do they differ by the channel alone, and by what is written? */
static bool
is_alike(const Op *a, const Op *b)
{
	int last = a->in[0]->type->rank;
	if (a->kind != b->kind || a->nin != b->nin || strcmp(attr_index(a), attr_index(b)) != 0)
		return false;
	if (ANY_OF(i, a->nin, a->in[i] != b->in[i] && i != last && (a->kind == OP_READ || i != access_data(a))))
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
	int64_t channels = 0, at = channel_of(f, first, &channels);
	Group g = {.channels = (int)channels};
	for (Op *op = at < 0 ? NULL : first; op; op = op->next) {
		at = channel_of(f, op, &channels);
		bool joins = at >= 0 && is_alike(op, first) && !g.by[at];
		if (!joins && is_in_the_way(op, first))
			break;
		if (!joins)
			continue;
		g.by[at] = g.last = op;
		g.n++;
	}
	return g;
}

/* The access of whole records, with `data` (or the fill) behind the indices. */
static Op *
whole(Builder *b, const Op *op, const Type *t, Value *data)
{
	int rank = op->in[0]->type->rank;
	Value *in[2 + MAX_RANK];
	char index[MAX_RANK + 1];
	memcpy(in, op->in, sizeof *in * (size_t)rank);
	in[rank] = build_index(b, 0);
	in[rank + 1] = data;
	strcpy(index, attr_index(op));
	index[rank - 1] = 'p';
	return access_like(b, op, in, rank + 1 + (data != NULL), index, t->extent, t->rank);
}

static void
join_reads(Module *m, const Group *g, Op *first)
{
	const Type *t = first->out[0].type, *all = type_with_dim(m, t, t->rank, g->channels);
	Builder b = build_before(first);
	int fill = 1 + first->in[0]->type->rank;
	Value *other = first->nin > fill ? first->in[fill] : NULL;
	Value *v = &whole(&b, first, all, other)->out[0];
	for (int c = 0; c < g->channels; c++) {
		if (!g->by[c])
			continue;
		b.place = g->by[c]->place;
		Value *out = build_element(&b, v, c);
		out->name = g->by[c]->out[0].name;
		value_replace(&g->by[c]->out[0], out);
	}
	for (int c = 0; c < g->channels; c++)
		if (g->by[c])
			op_erase(g->by[c]);
}

/* Each channel over the whole record, of which an element takes the one whose channel it is. */
static void
join_writes(Module *m, const Group *g)
{
	Builder b = build_before(g->last);
	int data = access_data(g->last);
	const Type *t = g->last->in[data]->type, *all = type_with_dim(m, t, t->rank, g->channels);
	const Type *numbers = type_with_elem(m, all, TY_I32);
	Value *channel = build_iota(&b, numbers, t->rank), *v = NULL;
	for (int c = g->channels - 1; c >= 0; c--) {
		Value *part = build_stack(&b, g->by[c]->in[data], t->rank, g->channels);
		Value *below = v ? build2(&b, OP_LT, channel, build_int(&b, numbers, c + 1)) : NULL;
		v = v ? build3(&b, OP_SELECT, below, part, v) : part;
	}
	whole(&b, g->last, v->type, v);
	for (int c = 0; c < g->channels; c++)
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
		while (next && g.n > 1 && next->kind == op->kind && next->in[0] == op->in[0] && is_alike(next, op))
			next = next->next;
		if (op->kind == OP_READ && g.n > 1 && 2 * g.n >= g.channels && fill_is_scalar(op))
			join_reads(f->module, &g, op);
		else if (op->kind == OP_WRITE && g.n > 1 && g.n == g.channels)
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
