/* Places what a block keeps in shared memory: the scratch of ops (a conversion, a reduction across warps), shared
 * buffers and mbarriers.  Each has a live range, counted in ops in text order, and two whose live ranges do not
 * overlap may share bytes.
 *
 *     %b = alloc : buffer<3 x f16[64, 32]> #1         0 .. 12287          from alloc to its last use, whole loops
 *     %s = reduce %x {axis = 1} …                     12288 .. 12543      while the op runs
 *     %t = reduce %y {axis = 1} …                     12544 .. 12799
 *     %u = convert %t …                               0 .. 8191           %b is dead by now
 *
 * This is interval colouring: the largest is placed first, each at the lowest offset where nothing stands that lives
 * at the same time.  A small scratch counts as alive until the next op with scratch is done, so that neighbours
 * stand apart and the second need not wait for the readers of the first (pass barrier sees the rest).  Roles run at once:
 * what one has is apart from all that another has, and so is each scratch of a role of which several groups run, which
 * are in different places of its code.  An mbarrier stays to the end of the kernel: ordinary stores to where
 * one is are not defined, and on an H200 its words came up in what was stored there.  What a copy fills by itself lives at
 * least until the last wait; what is sent until the last sent.  Small scratch stands apart from all buffers too, so that
 * what follows a pipelined loop need not wait for its last readers, where as many blocks as the warps leave room for still
 * have theirs. */
#include "pass/pass.h"

#include "model/model.h"

#include <stdlib.h>

enum {
	BUFFER_ALIGN = 1024,                            /* what swizzled bulk copies and matrix descriptors ask for */
	WORD_BYTES = 8,                                 /* a slot of one element, which threads read and write */
	SMALL_BYTES = 4096,                             /* scratch up to here is kept apart from its neighbours' */
	OWN_BYTES = 1024,                               /* that the system takes of each block's */
	ITEMS_NAMED = 5,                                /* in a message */
};

typedef struct Item {
	Op *op;
	int64_t bytes, align, offset;
	int from, to;                                   /* ops, in text order, during which it lives */
	int role;                                       /* that it is of, from 1; 0: of the block */
	bool has_groups;                                /* that role: several, each with bytes of its own */
	bool is_scratch, is_filled, is_sent;            /* by copies that go on by themselves */
} Item;

/* An op in text order: it and its regions are ops `at` .. `end`. */
typedef struct Span {
	Op *op;
	int end, parent;                                /* parent: of the op that owns its region, or -1 */
} Span;

typedef struct Smem {
	Module *m;
	Arena *tmp;
	const Target *t;
	VEC(Item) items;
	VEC(Span) spans;
	int waited, sent;                               /* the last op that waits for copies, for sends */
} Smem;

static void
find_spans(Smem *s, Block *b, int parent)
{
	for (Op *op = b->first; op; op = op->next) {
		int at = s->spans.n;
		Span span = {op, at, parent};
		vec_push(s->tmp, &s->spans, span);
		for (int r = 0; r < op->nregion; r++)
			find_spans(s, op->region[r], at);
		s->spans.at[at].end = s->spans.n - 1;
	}
}

static void
add_item(Smem *s, int at)
{
	Op *op = s->spans.at[at].op;
	bool owns = op->kind == OP_ALLOC || op->kind == OP_MBARRIER;
	Item i = {.op = op, .align = owns ? BUFFER_ALIGN : SCRATCH_ROW, .from = at, .to = at, .is_scratch = !owns};

	if (op->kind == OP_MBARRIER || (op->kind == OP_ALLOC && buffer_slot_bytes(op) <= WORD_BYTES))
		i.align = 8;
	int region;
	i.role = op_roles(op, &region) ? 1 + region : 0;
	i.has_groups = op_groups(op) > 1;
	i.bytes = owns ? buffer_slot_bytes(op) * op->out[0].type->slots : scratch_of_groups(op, s->t, op_groups(op));
	if (i.bytes)
		vec_push(s->tmp, &s->items, i);
}

/* The op at `at` needs the item: so does, to its end, the op of the item's own block that holds it.  Behind the branch that
 * the item stands in, as the wait for sends may, there is none. */
static void
extend(Smem *s, Item *i, int at)
{
	i->to = MAX(i->to, at);
	while (at >= 0 && s->spans.at[at].op->home != i->op->home)
		at = s->spans.at[at].parent;
	if (at >= 0)
		i->to = MAX(i->to, s->spans.at[at].end);
}

static void
find_uses(Smem *s)
{
	for (int at = 0; at < s->spans.n; at++) {
		const Op *op = s->spans.at[at].op;
		if (op->kind == OP_WAIT || op->kind == OP_AWAIT || op->kind == OP_DOT_WAIT)
			s->waited = at;
		if (op->kind == OP_SENT)
			s->sent = at;
		for (int k = 0; k < op->nin; k++) {
			const Op *of = buffer_owner(op->in[k]);
			Item *i = of ? VALUE_OF(n, s->items.n, s->items.at[n].op == of, &s->items.at[n], NULL) : NULL;
			if (!i)
				continue;
			extend(s, i, at);
			i->is_filled = i->is_filled || op->kind == OP_COPY || op->kind == OP_DOT_START;
			i->is_sent = i->is_sent || op->kind == OP_SEND;
		}
	}
	for (int k = 0; k < s->items.n; k++) {
		Item *i = &s->items.at[k];
		if (i->is_filled)
			extend(s, i, s->waited);
		if (i->is_sent)
			extend(s, i, s->sent);
		if (i->op->kind == OP_MBARRIER)
			i->to = s->spans.n - 1;
	}
}

static bool
is_small_scratch(const Item *i)
{
	return i->is_scratch && i->bytes <= SMALL_BYTES;
}

/* Small scratch stands until its follower in the same block has run. */
static void
keep_apart(Smem *s)
{
	for (int k = 0; k + 1 < s->items.n; k++) {
		Item *i = &s->items.at[k], *next = &s->items.at[k + 1];
		if (is_small_scratch(i) && is_small_scratch(next))
			i->to = MAX(i->to, next->from);
	}
}

static bool
comes_before(const Item *a, const Item *b)
{
	return a->bytes != b->bytes ? a->bytes > b->bytes : a->from < b->from;
}

/* `apart`: small scratch from buffers, whenever they live. */
static bool
overlap(const Item *a, int64_t offset, const Item *b, bool apart)
{
	bool alive = (a->from <= b->to && b->from <= a->to) ||
	    (a->role && b->role && (a->role != b->role || a->has_groups));

	apart = apart && ((is_small_scratch(a) && !b->is_scratch) || (is_small_scratch(b) && !a->is_scratch));
	return (alive || apart) && offset < b->offset + b->bytes && b->offset < offset + a->bytes;
}

/* The lowest offset at which nothing stands in the way: 0, or just after something. */
static int64_t
find_offset(Item *const *placed, int n, const Item *i, bool apart)
{
	int64_t best = -1;

	for (int c = -1; c < n; c++) {
		int64_t at = c < 0 ? 0 : placed[c]->offset + placed[c]->bytes;
		at = (at + i->align - 1) / i->align * i->align;
		bool is_free = (best < 0 || at < best) && ALL_OF(k, n, !overlap(i, at, placed[k], apart));
		if (is_free)
			best = at;
	}
	return best;
}

/* Bytes that a block may have without fewer of them being resident than its warps allow. */
static int64_t
spare_bytes(const Smem *s, const Func *f)
{
	int blocks = s->t->max_warps / MAX(func_warps(f), 1);

	return blocks ? s->t->shared_bytes_unit / blocks - OWN_BYTES : 0;
}

static void
place_items(Smem *s, Func *f, bool apart)
{
	Item **order = NEW_ARRAY(s->tmp, Item *, s->items.n);

	for (int k = 0; k < s->items.n; k++) {
		int at = k;
		for (; at > 0 && comes_before(&s->items.at[k], order[at - 1]); at--)
			order[at] = order[at - 1];
		order[at] = &s->items.at[k];
	}
	f->shared_bytes = 0;
	for (int k = 0; k < s->items.n; k++) {
		Item *i = order[k];
		i->offset = find_offset(order, k, i, apart);
		f->shared_bytes = MAX(f->shared_bytes, i->offset + i->bytes);
	}
}

/* ---- what takes the bytes, where they do not fit ---- */

/* The parameter that copies bring into a buffer, or NULL. */
static const char *
filled_from(const Smem *s, const Op *alloc)
{
	for (int at = 0; at < s->spans.n; at++) {
		const Op *op = s->spans.at[at].op;
		const Value *v = op->kind == OP_COPY ? op->in[0] : NULL;
		for (int k = 1; v && !v->def && k < op->nin; k++)
			if (buffer_owner(op->in[k]) == alloc)
				return v->block->func->param[v->index].name;
	}
	return NULL;
}

/* "3 stages of bf16[256, 128] read from 'a' take 196608 bytes", "convert of f32[128, 128] takes 65536 bytes". */
static const char *
item_text(const Smem *s, const Item *i)
{
	const Op *op = i->op;
	const Value *v = i->is_scratch && op->nin > 0 && op->in[op->nin - 1]->type->kind == TYPE_TILE ? op->in[op->nin - 1]
	    : op->nout > 0                                                                            ? &op->out[0]
	                                                                                              : NULL;
	const Type *t = v ? v->type : NULL, *tile_of = NULL;
	const char *of = op->kind == OP_ALLOC ? filled_from(s, op) : NULL;
	Text type = {0};
	if (op->kind == OP_EXTRACT || op->kind == OP_GATHER)
		t = op->in[0]->type;
	if (t && t->kind != TYPE_MBARRIER)
		type_print(tile_of = t->kind == TYPE_BUFFER ? type_tile(s->m, t->elem, t->rank, t->extent) : t, &type);
	if (tile_of)
		text_put(&type, pad_text(s->m, op->place, tile_of));
	const char *tile = type.n ? type.at : "", *stages = "", *take = "takes";
	if (op->kind == OP_ALLOC && t->slots > 1) {
		stages = arena_printf(s->tmp, "%d stages of ", t->slots);
		take = "take";
	}
	const char *what = op->kind == OP_ALLOC ? stages
	    : type.n                            ? arena_printf(s->tmp, "%s of ", op_info[op->kind].text)
	                                        : op_info[op->kind].text;
	const char *from = of ? arena_printf(s->tmp, " read from '%s'", of) : "";
	const char *text = arena_printf(s->tmp, "%s%s%s %s %lld bytes", what, tile, from, take, (long long)i->bytes);
	text_close(&type);
	return text;
}

static int
by_bytes(const void *a, const void *b)
{
	const Item *x = *(const Item *const *)a, *y = *(const Item *const *)b;
	return comes_before(x, y) ? -1 : comes_before(y, x) ? 1 : 0;
}

/* Which items live while the most bytes are taken, the largest first.  Returns how many. */
static int
find_peak(Smem *s, const Func *f, const Item **peak)
{
	const Item *top = &s->items.at[0];
	int n = 0;
	for (int k = 0; k < s->items.n; k++)
		if (s->items.at[k].offset + s->items.at[k].bytes == f->shared_bytes)
			top = &s->items.at[k];
	for (int k = 0; k < s->items.n; k++) {
		const Item *i = &s->items.at[k];
		if (i->from <= top->to && top->from <= i->to && i->bytes > SMALL_BYTES)
			peak[n++] = i;
	}
	qsort(peak, (size_t)n, sizeof *peak, by_bytes);
	return n;
}

static void
check_size(Smem *s, const Func *f)
{
	if (f->shared_bytes <= s->t->shared_bytes)
		return;
	const Item **peak = NEW_ARRAY(s->tmp, const Item *, s->items.n);
	int n = find_peak(s, f, peak), named = MIN(n, ITEMS_NAMED);
	diag_error(s->m->cx, peak[0]->op->place, DIAG_SMEM_LARGE, (long long)f->shared_bytes, s->t->name,
	    (long long)s->t->shared_bytes);
	diag_label(s->m->cx, "%s", item_text(s, peak[0]));
	diag_help(s->m->cx, "smaller tiles need less");
	for (int k = 1; k < named; k++)
		diag_note(s->m->cx, peak[k]->op->place, "%s", item_text(s, peak[k]));
}

/* The items of a function and their live ranges. */
static Smem
collect(Func *f, const Target *t)
{
	Smem s = {.m = f->module, .tmp = f->module->cx->tmp, .t = t, .waited = -1};

	find_spans(&s, f->body, -1);
	for (int k = 0; k < s.spans.n; k++)
		add_item(&s, k);
	find_uses(&s);
	return s;
}

const char *
check_smem(Func *f, const Target *t, const Op **at)
{
	Smem s = collect(f, t);

	for (int k = 0; k < s.items.n; k++) {
		Item *i = &s.items.at[k];
		*at = i->op;
		i->offset = attr_smem(i->op);
		if (!op_attr(i->op, ATTR_SMEM) || i->offset % i->align || i->offset + i->bytes > f->shared_bytes)
			return "no place in shared memory, or one that does not fit, though the module claims SMEM";
		if (ANY_OF(n, k, overlap(&s.items.at[n], s.items.at[n].offset, i, false)))
			return "bytes of shared memory that another buffer or scratch has at the same time";
	}
	return NULL;
}

/* Scratch apart from buffers, where that costs no block its bytes. */
static Smem
place(Func *f, const Target *t)
{
	Smem s = collect(f, t);

	keep_apart(&s);
	place_items(&s, f, true);
	if (f->shared_bytes > spare_bytes(&s, f))
		place_items(&s, f, false);
	return s;
}

int64_t
smem_bytes(Func *f, const Target *t)
{
	place(f, t);
	return f->shared_bytes;
}

void
pass_smem(Func *f, const Target *t)
{
	Smem s = place(f, t);
	for (int k = 0; k < s.items.n; k++)
		attr_set_smem(f->module, s.items.at[k].op, s.items.at[k].offset);
	check_size(&s, f);
}

/* ---- before this pass ---- */

enum { SLOT_ALIGN = 1024, MBARRIER_BYTES = 8 };

/* A send from it, of a write before, is waited for at the kernel's end alone. */
static bool
is_used_from(const Func *f, const Op *alloc, const Op *from)
{
	for (const Op *op = from; op; op = op_after(op, f->body))
		if (op_takes_buffer(op, alloc))
			return true;
	return ANY_OP(op, f->body, op->kind == OP_SEND && op_takes_buffer(op, alloc));
}

/* With what aligns it; slots of one element take no more than they hold. */
static int64_t
aligned_bytes(const Op *alloc)
{
	int64_t slot = buffer_slot_bytes(alloc), bytes = slot * alloc->out[0].type->slots;
	return slot <= MBARRIER_BYTES ? bytes : (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

int64_t
smem_room(const Func *f, const Target *t, const Op *write, const Op *first, const Op *end)
{
	int64_t room = t->shared_bytes, scratch = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind == OP_ALLOC && is_used_from(f, op, first))
			room -= aligned_bytes(op);
		else if (op->kind == OP_MBARRIER)
			room -= MBARRIER_BYTES * op->out[0].type->slots;
	}
	if (op_groups(write) > 1) {
		first = f->body->first;
		end = NULL;
	}
	for (const Op *op = first; op && op != end; op = op_after(op, f->body))
		if (op->kind != OP_ALLOC && op != write->in[access_data(write)]->def)
			scratch = scratch_beside(op, t, op_groups(op), scratch);
	return room - scratch;
}
