/* Small tiles of which each iteration reads a few columns, as scales of its groups along K, are copied before the loop.
 *
 *     for %lo, %hi, %8, … do (%g, …) {                  %kept = alloc : buffer<8 x f16[32, 8]>
 *         %p = dot …                                    copy %scale, %r, %lo, (slot %kept, %0 : buffer<1 x f16[32, 64]>),
 *         %s = read %scale, %r, %g …                        %came {extents = [32, 64], kind = "counted"}
 *         …                              =>             for … do (%g, …, %at) {
 *     }                                                     %p = dot …
 *                                                           await %came, %0, %0
 *                                                           %s = get (slot %at of %kept) : f16[32, 8]
 *                                                           …   yield …, (%at + 1, wrapped)
 *
 * A warp's part of a row is less than 8 bytes, and each is in a line of its own.  Here a thread copies 16 bytes of a line,
 * before the first weights, and each iteration waits at an mbarrier, whose only phase is over but in the first: 16 rows of
 * 8192 x 8192 in int4 with groups of 128 took an H200 12.6 us for 13.9, and 14.2 where reads and a barrier of the block
 * came before the loop.  Only what is needed behind the product: where zero points were copied so too, 16 rows took 38 us
 * for 22.  The greatest count of iterations must be known, by what is assumed of K (compile/assumption.c). */
#include "ir/derive.h"
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <string.h>

enum { ACCESS = 16, LITTLE = 8, MOST_BYTES = 16 * 1024, MOST_TRIPS = 256, COPIES = 2 };

/* What an integer is at most, where dimensions may have a bound that ranges leave out (axis.c). */
static int64_t
most_of(const Func *f, const Value *v, int depth)
{
	const Op *op = v->def;
	int64_t most = axis_of(v)->hi, by, x;

	if (!op && v->block == f->body && f->param[v->index].most > 0)
		return MIN(most, f->param[v->index].most);
	if (!op || depth == 0 || op->nin != 2)
		return most;
	if (op->kind == OP_MIN)
		return MIN(most, MIN(most_of(f, op->in[0], depth - 1), most_of(f, op->in[1], depth - 1)));
	bool divides = (op->kind == OP_DIV || op->kind == OP_CDIV) && value_int(op->in[1], &by) && by > 0;
	x = divides ? most_of(f, op->in[0], depth - 1) : 0;
	return x > 0 ? MIN(most, (x - 1) / by + 1) : most;
}

/* Iterations of the loop, if they have a known bound; 0. */
static int64_t
most_trips(const Func *f, const Op *loop)
{
	enum { DEPTH = 8 };
	const AxisInfo *lo = axis_of(loop->in[0]);
	int64_t step, n, hi = most_of(f, loop->in[1], DEPTH);

	if (!value_int(loop->in[2], &step) || step <= 0 || __builtin_sub_overflow(hi, lo->lo, &n) || n <= 0)
		return 0;
	n = (n - 1) / step + 1;
	while (__builtin_popcountll((uint64_t)n) > COPIES)
		n += n & -n;
	return n <= MOST_TRIPS ? n : 0;
}

/* How much the index grows with an iteration; 0: it is none that does evenly. */
static int64_t
grows_by(const Op *loop, const Value *v)
{
	const Value *i = &loop->region[0]->arg[0];
	const Op *op = v->def;
	int64_t step, by = 1;

	if (op && op->kind == OP_MUL && value_int(op->in[1], &by))
		v = op->in[0];
	return v == i && value_int(loop->in[2], &step) ? step * by : 0;
}

/* The columns that an iteration reads of the tensor's rows, where the next ones' follow, and nothing else moves; 0. */
static int64_t
columns_of(const Op *loop, const Op *read)
{
	const Block *body = loop->region[0];
	int last = read->in[0]->type->rank - 1;
	const IntList *extents = attr_extents(read);
	const char *index = attr_index(read);

	if (read->nin != 2 + last || last < 1 || strchr(index, 'g') || !strchr("pi", index[last]))
		return 0;
	if (ANY_OF(d, last, value_inside(read->in[1 + d], body)))
		return 0;
	int64_t n = index[last] == 'p' ? extents->at[extents->n - 1] : 1;
	return grows_by(loop, read->in[1 + last]) == n ? n : 0;
}

/* Is what the loop does in `times` iterations less than LITTLE bytes of a row for each warp? */
static bool
is_little(const Op *loop, const Op *read, int64_t times, int64_t warps)
{
	int64_t columns = columns_of(loop, read) * times;
	return columns > 0 && dtype_bytes(read->out[0].type->elem, columns) < LITTLE * warps;
}

/* Does a product need what the read gives? */
static bool
is_multiplied(const Func *f, const Op *read)
{
	bool *from = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues);
	from[read->out[0].id] = true;
	for (const Op *op = read->next; op; op = op->next) {
		if (op->kind == OP_DOT && (from[op->in[0]->id] || from[op->in[1]->id]))
			return true;
		op_extend_slice(op, from, op_uses_slice(op, from));
	}
	return false;
}

/* Zero points of the same groups are read in each iteration whatever is done with scales: one row of 8192 x 8192 then took
 * 18.2 us for 17.8. */
static bool
has_zero_points(const Func *f, const Op *loop, int64_t times, int64_t warps)
{
	for (const Op *op = loop->region[0]->first; op; op = op->next)
		if (op->kind == OP_READ && op->out[0].type->rank > 0 && is_little(loop, op, times, warps) &&
		    is_multiplied(f, op))
			return true;
	return false;
}

/* Columns that an access reads at once, as far as rows of the tensor, and what the loop reads of them, begin at such. */
static int64_t
access_columns(const Func *f, const Op *loop, const Op *read)
{
	const Value *tensor = read->in[0];
	const FuncParam *p = &f->param[tensor->index];
	int last = tensor->type->rank - 1;
	int64_t n = tensor->type->extent[last], most = ACCESS / dtype_tile_size(read->out[0].type->elem), step = 1;

	if (n < 0)
		n = p->dim[last] >= 0 ? f->param[p->dim[last]].multiple : p->dim_multiple[last];
	value_int(loop->in[2], &step);
	int64_t by = columns_of(loop, read) / step * (INT64_C(1) << MIN(axis_of(loop->in[0])->div[0], 30));
	while (most > 1 && (n % most || by % most))
		most /= 2;
	return p->strided ? 1 : most;
}

/* Are there as many blocks on a multiprocessor as with slots of what the loop would copy in `times` iterations, where
 * `bytes` are kept of this read in place of its slots?  The next grid's may begin beside this one's. */
static bool
leaves_room(const Func *f, const Target *t, const Op *read, int64_t times, int64_t bytes)
{
	enum { SLOTS = 3, OTHERS = 2048 };            /* bytes: scratch, and what the system keeps */
	int64_t all = OTHERS, slots = (f->schedule.stages ? f->schedule.stages : SLOTS) * times, own = 0;

	for (const Op *op = read->home->first; op; op = op->next) {
		const Type *tile = op->kind == OP_READ && op->out[0].type->rank > 0 ? op->out[0].type : NULL;
		int64_t n = tile ? slots * dtype_bytes(tile->elem, type_count(tile)) : 0;
		all += n;
		own += op == read ? n : 0;
	}
	return all > 0 && t->shared_bytes_unit / (all - own + bytes) >= t->shared_bytes_unit / all;
}

int64_t
preload_trips(const Func *f, const Target *t, const Op *loop, const Op *read, int64_t times, int64_t warps)
{
	enum { ACCESSES = 8 };
	const Value *v = &read->out[0];
	bool is_plain = read->kind == OP_READ && read->home == loop->region[0] && v->type->rank > 0 &&
	    access_is_tensor(read) && !read->in[0]->def && !read->in[0]->block->parent && !attr_merged(read) &&
	    !attr_valid(read) && access_fill_is_zero(read) && dtype_info[v->type->elem].bits >= 8 &&
	    v->type->elem != TY_BOOL;

	if (!is_plain || !(t->has & HAS_TMA) || tensor_may_be_written(f, read->in[0], loop->region[0]))
		return 0;
	int64_t n = most_trips(f, loop), bytes = n * tile_bytes(v->type);
	if (!is_little(loop, read, times, warps) || has_zero_points(f, loop, times, warps))
		return 0;
	int64_t access = access_columns(f, loop, read);
	bool fits = n * type_count(v->type) <= ACCESSES * t->lanes * warps * access &&
	    access * dtype_tile_size(v->type->elem) >= COPY_LEAST && bytes <= MOST_BYTES;
	return fits && leaves_room(f, t, read, times, bytes) ? n : 0;
}

/* ---- the table ---- */

/* How 2^n slots of `each`, whose rows are together, are one tile. */
static Layout
slots_layout(const Type *each, const Type *all, int n)
{
	int shape[LAYOUT_RANK] = {0}, to[LAYOUT_RANK] = {0}, order[LAYOUT_RANK] = {0}, rank = 0;
	bool is_new = all->rank > each->rank;

	for (int d = 0; d < all->rank - 1; d++)
		shape[rank++] = log2_ceil(each->extent[d]);
	shape[rank++] = n;
	if (!is_new)
		shape[rank++] = log2_ceil(each->extent[each->rank - 1]);
	for (int d = 0; d < all->rank; d++)
		to[d] = log2_ceil(all->extent[d]);
	int at = 0;
	for (int d = rank - 1; d >= 0; d--)
		if (d != all->rank - 1)
			order[at++] = d;
	order[at] = all->rank - 1;
	Layout l = layout_row_major(rank, shape, order);
	return layout_reshape(&l, all->rank, to);
}

/* A thread's 16 bytes of eight rows are neighbours in a slot, in all banks; of each row four threads read neighbours. */
static Layout
read_layout(const Pipeline *p, const Type *t)
{
	enum { ROWS, EIGHT, PIECES, PIECE, PARTS };
	int last = t->rank - 1, to[LAYOUT_RANK] = {0}, columns = log2_ceil(t->extent[last]), rows = 0;
	int piece = MIN(log2_ceil(ACCESS / dtype_tile_size(t->elem)), columns);
	const int order[LAYOUT_RANK] = {PIECE, EIGHT, PIECES, ROWS};

	for (int d = 0; d <= last; d++)
		rows += to[d] = log2_ceil(t->extent[d]);
	rows -= columns;
	const int shape[LAYOUT_RANK] = {[ROWS] = rows - MIN(rows, 3), [EIGHT] = MIN(rows, 3), [PIECES] = columns - piece,
		[PIECE] = piece};
	Layout l = layout_coalesced(PARTS, shape, order, piece, log2_ceil(p->t->lanes),
	    log2_ceil(MAX(p->f->schedule.warps, 1)));
	return layout_reshape(&l, t->rank, to);
}

/* Copies what n iterations from `first` on need; at its end each thread arrives. */
static Op *
copy_piece(Pipeline *p, Builder *b, const Preload *x, int64_t first, int64_t n)
{
	const Op *read = x->s.read;
	int last = read->in[0]->type->rank - 1;
	int64_t step = 0, inside[MAX_RANK] = {0};
	Value *in[MAX_RANK + 4], *index = p->loop->in[0];
	const IntList *known = attr_inside(read);

	value_int(p->loop->in[2], &step);
	if (first)
		index = build2(b, OP_ADD, index, build_index(b, first * step));
	Op *one = pipeline_access(p, b, &x->s, OP_READ, NULL, index);
	memcpy(in, one->in, sizeof *in * (size_t)one->nin);
	Op *all = access_along(b, one, in, last, n * x->columns);
	const Type *t = all->out[0].type, *wide = type_buffer(p->m, t->elem, 1, t->rank, t->extent);
	for (int d = 0; d < last && known; d++)
		inside[d] = known->at[d];
	attr_set_inside(p->m, all, inside, last + 1);
	Layout l = read_layout(p, t), slots = slots_layout(read->out[0].type, t, log2_ceil(n));
	all->out[0].layout = layout_intern(p->m, &l);
	attr_set_vector(p->m, all, access_vector(all, all->out[0].layout, p->t));
	Value *slot = op_make(b, OP_SLOT, (Value *[]){x->s.ring, build_index(b, first)}, 2, NULL, 0, &wide, 1)->out;
	slot->layout = layout_intern(p->m, &slots);
	int nin = all->nin;
	memcpy(in, all->in, sizeof *in * (size_t)nin);
	in[nin++] = slot;
	in[nin++] = p->came;
	in[nin++] = build_index(b, 0);
	Attr *attr = NEW_ARRAY(p->tmp, Attr, all->nattr + 1);
	memcpy(attr, all->attr, sizeof *attr * (size_t)all->nattr);
	attr[all->nattr] = attr_new_kind(p->m, "counted");
	Op *copy = op_make(b, OP_COPY, in, nin, attr, all->nattr + 1, NULL, 0);
	copy->out[0].layout = all->out[0].layout;
	op_erase(all);
	op_erase(one);
	return copy;
}

/* Before the first weights, unless those begin early and this may not. */
static bool
is_before(const Pipeline *p, const Preload *x)
{
	return !p->starts_early || pipeline_is_fixed(p, &x->s);
}

static void
copy_all(Pipeline *p, bool before, bool *is_first)
{
	Builder b = !before ? build_before(p->loop) : build_before(p->entry ? p->entry->next : p->f->body->first);

	for (int i = 0; i < p->preloads.n; i++) {
		Preload *x = &p->preloads.at[i];
		const Type *t = x->s.read->out[0].type;
		if (is_before(p, x) != before)
			continue;
		b.place = x->s.read->place;
		x->s.ring = build0(&b, OP_ALLOC, type_buffer(p->m, t->elem, (int)x->trips, t->rank, t->extent));
		Layout l = slots_layout(t, t, 0);
		x->s.ring->layout = layout_intern(p->m, &l);
		for (int64_t at = 0, n; at < x->trips; at += n) {       /* powers of two, the most first */
			n = INT64_C(1) << log2_floor(x->trips - at);
			Op *copy = copy_piece(p, &b, x, at, n);
			if (*is_first)                  /* behind the mbarrier's initialisation */
				attr_set_sync(p->m, copy, true);
			*is_first = false;
		}
	}
}

/* ---- the loop ---- */

void
preload_find(Pipeline *p)
{
	int warps = MAX(p->f->schedule.warps, 1), kept = 0;

	func_number(p->f);
	p->entry = p->loop->prev;
	if (!p->is_async || p->f->schedule.specialize == 1 || !pipeline_is_stream(p) || p->loop->home != p->f->body)
		return;
	for (Op *op = p->body->first; op; op = op->next) {
		Preload x = {.s = {.read = op}, .trips = preload_trips(p->f, p->t, p->loop, op, 1, warps)};
		if (x.trips == 0 || !op->out[0].layout)
			continue;
		x.columns = columns_of(p->loop, op);
		x.s.required = pipeline_required_layout(p, &x.s);
		vec_push(p->tmp, &p->preloads, x);
	}
	for (int i = 0; i < p->reads.n; i++) {
		int k = FIRST_OF(j, p->preloads.n, p->preloads.at[j].s.read == p->reads.at[i].read);
		if (k < 0)
			p->reads.at[kept++] = p->reads.at[i];
		else
			p->preloads.at[k].is_staged = true;
	}
	p->reads.n = kept;
	if (kept == 0)                                  /* nothing goes ahead in the loop, which stays as it is */
		preload_drop(p);
}

int64_t
preload_bytes(const Pipeline *p)
{
	return SUM_OF(int64_t, i, p->preloads.n,
	    p->preloads.at[i].trips * tile_bytes(p->preloads.at[i].s.read->out[0].type));
}

void
preload_drop(Pipeline *p)
{
	for (int i = 0; i < p->preloads.n; i++)
		if (p->preloads.at[i].is_staged)
			vec_push(p->tmp, &p->reads, p->preloads.at[i].s);
	p->preloads.n = 0;
}

static void
get_each(Pipeline *p, Preload *x)
{
	Builder b = build_before(p->loop);
	Value *at = pipeline_carry(p, (Value *[]){build_index(&b, 0)}, 1);
	at->name = "at";
	b = build_before(p->body->first);
	pipeline_gets(p, &x->s, build_slot(&b, x->s.ring, at));
	b = build_before(p->body->last);
	pipeline_yield(p, (Value *[]){pipeline_next(&b, at, (int)x->trips)}, 1);
}

static Op *
first_get(const Pipeline *p)
{
	for (Op *op = p->body->first; op; op = op->next)
		if (op->kind == OP_GET &&
		    ANY_OF(i, p->preloads.n, buffer_owner(op->in[0]) == p->preloads.at[i].s.ring->def))
			return op;
	return NULL;
}

void
preload_put(Pipeline *p)
{
	int64_t arrive = 0;
	bool is_first = true;

	if (p->preloads.n == 0)
		return;
	for (int i = 0; i < p->preloads.n; i++)
		arrive += __builtin_popcountll((uint64_t)p->preloads.at[i].trips) * p->t->lanes *
		    MAX(p->f->schedule.warps, 1);
	Builder b = build_before(p->f->body->first);
	p->came = pipeline_mbarrier(p, &b, 1, arrive, "came");
	axis_keep(p->f);
	copy_all(p, true, &is_first);
	copy_all(p, false, &is_first);
	axis_drop(p->m);
	for (int i = 0; i < p->preloads.n; i++)
		get_each(p, &p->preloads.at[i]);
	Op *get = first_get(p);
	if (!get)
		return;
	b = build_before(get);
	pipeline_await(&b, p->came, build_index(&b, 0), build_index(&b, 0));
}
