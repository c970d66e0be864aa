/* Matrix instructions of a warpgroup: D[64, n] += A[64, k] B[k, n] with B in shared memory and A there or in registers.
 *
 * They run by themselves.  What one hands out is not its result but numbers that stand for it, NaNs which name a sum kept
 * here; given as the accumulator of a further instruction they go on with that sum.  The products are made when the warp
 * waits for their group, as late as a GPU may, from what shared memory holds by then; each warp makes its own 16 rows.
 * simt_settle turns the numbers into the sums.  A's registers are taken when the instruction begins: a value of the thread
 * IR never changes.  (On a GPU the register of a value that is used no more may: lowering keeps A alive up to the wait.)
 * An instruction whose scale-d is false takes nothing of the sum so far.
 *
 * A descriptor says where an operand begins and how 8 x 16-byte core matrices follow each other.  Of an operand that lies
 * along K a chunk of 16 bytes is a piece of one row; of a transposed one, 8 rows at one k.  Swizzled operands have 2, 4 or
 * 8 chunks side by side, exchanged as bulk tensor copies do it.  Source: PTX ISA 9.0, 9.7.15.5. */
#include <string.h>

#include "runtime/simt/prims.h"

enum {
	ROWS = 16,                                      /* of a warp */
	K_BYTES = 32,                                   /* of all instructions: two chunks */
	CHUNK = 16,
	MOST_N = 256,
	ELEMENT_BITS = 7, NUMBER_BITS = 15,             /* of a NaN's fraction */
};
#define NAME_MARK 0xffc00000u

/* A warp's 16 rows of an accumulator, as its lanes hold them. */
typedef struct Sums {
	struct Sums *next;
	uint32_t number;
	int n;                                          /* elements of a lane */
	int under_way;                                  /* products not made yet */
	uint32_t taken;                                 /* lanes that have settled */
	uint32_t v[SIMT_LANES][MOST_N / 2];
} Sums;

typedef struct Product {
	struct Product *next;
	Sums *sums;
	const WgmmaInfo *info;
	uint64_t a, b;
	unsigned flags;
	uint32_t group;
	uint32_t words[SIMT_LANES][WGMMA_WORDS];        /* of A in registers */
} Product;

typedef struct Warp {
	Product *first, **last;
	uint32_t commits;
	bool has_fence;                                 /* since the last wait */
	Sums *live;
	uint32_t numbers;                               /* given out so far */
} Warp;

struct Warpgroup {
	Warp warp[4];
	Sums *spare;
	Product *spare_product;
};

static Warpgroup *
group_of(SimtThread *t)
{
	Async *a = simt_async(t);
	Warpgroup **g = &a->group[t->thread / (4 * SIMT_LANES)];
	if (!*g) {
		*g = NEW(a->mem, Warpgroup);
		for (int w = 0; w < 4; w++)
			(*g)->warp[w].last = &(*g)->warp[w].first;
	}
	return *g;
}

static Warp *
warp_of(SimtThread *t)
{
	return &group_of(t)->warp[t->thread / SIMT_LANES % 4];
}

/* ---- operands in shared memory ---- */

typedef struct Operand {
	uint32_t start, lead, stride, base;
	int swizzle;                                    /* log2 of the chunks side by side */
	bool is_transposed;
	DType type;
} Operand;

static Operand
operand(uint64_t d, bool is_transposed, DType type)
{
	static const int swizzle[] = {0, 3, 2, 1};
	return (Operand){.start = (uint32_t)(d & 0x3fff) << 4, .lead = (uint32_t)(d >> 16 & 0x3fff) << 4,
		.stride = (uint32_t)(d >> 32 & 0x3fff) << 4, .base = (uint32_t)(d >> 49 & 7), .swizzle = swizzle[d >> 62],
		.is_transposed = is_transposed, .type = type};
}

/* The chunk of row `row` (of A; column, of B) and the along'th 16 bytes of K; or, transposed, the chunk of the eight rows
 * from 8 `row` on at k = `along`. */
static uint32_t
chunk_at(const Operand *o, int row, int along)
{
	uint32_t side = 1u << o->swizzle, r = (uint32_t)row, k = (uint32_t)along, at = o->start;
	if (!o->is_transposed)
		at += r % 8 * side * CHUNK + r / 8 * o->stride + k * (o->swizzle ? CHUNK : o->lead);
	else if (o->swizzle)
		at += r % side * CHUNK + r / side * o->lead + k % 8 * side * CHUNK + k / 8 * o->stride;
	else
		at += r * o->stride + k % 8 * CHUNK + k / 8 * o->lead;
	return at ^ (((at >> 7) - o->base) & (side - 1)) << 4;
}

/* Calls a chunk's address each: n rows, the first a multiple of 8. */
typedef void EachChunk(SimtThread *t, uint32_t at);

static void
each_chunk(SimtThread *t, const Operand *o, int first, int n, EachChunk *each)
{
	int per = CHUNK * 8 / dtype_info[o->type].bits;
	for (int r = o->is_transposed ? first / 8 : first; r < (o->is_transposed ? (first + n) / 8 : first + n); r++)
		for (int k = 0; k < (o->is_transposed ? 2 * per : 2); k++)
			each(t, chunk_at(o, r, k));
}

static void
touch(SimtThread *t, uint32_t at)
{
	simt_shared_at(t, at, CHUNK, SIMT_READ | SIMT_ASYNC | SIMT_TENSOR);
}

static void
leave(SimtThread *t, uint32_t at)
{
	simt_landed(t, t, at, CHUNK, SIMT_READ | SIMT_ASYNC | SIMT_TENSOR, -1);
}

/* n rows along K, each of `k` floats. */
static void
rows_along(const uint8_t *shared, const Operand *o, int first, int n, int k, float *out)
{
	for (int r = 0; r < n; r++) {
		uint8_t row[K_BYTES];
		memcpy(row, shared + chunk_at(o, first + r, 0), CHUNK);
		memcpy(row + CHUNK, shared + chunk_at(o, first + r, 1), CHUNK);
		simt_floats(o->type, row, k, out + r * k);
	}
}

/* Eight rows of a transposed operand: out[k, 8]. */
static void
eight_across(const uint8_t *shared, const Operand *o, int first, int k, float *out)
{
	for (int x = 0; x < k; x++)
		simt_floats(o->type, shared + chunk_at(o, first / 8, x), 8, out + 8 * x);
}

static void
transpose(int rows, int cols, const float *in, float *out)
{
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++)
			out[c * rows + r] = in[r * cols + c];
}

static void
read_a(const uint8_t *shared, const Operand *o, int first, int k, float *a)
{
	float eight[8 * K_BYTES];
	if (!o->is_transposed) {
		rows_along(shared, o, first, ROWS, k, a);
		return;
	}
	for (int r = 0; r < ROWS; r += 8) {
		eight_across(shared, o, first + r, k, eight);
		transpose(k, 8, eight, a + r * k);
	}
}

/* 16 rows of A from the lanes' words, of which each holds neighbours along K. */
static void
rows_in_registers(const Product *p, float *a)
{
	const Fragment *f = p->info->fragment_a;
	int per = 32 / dtype_info[p->info->a].bits, bits = f->reg_bits;
	uint32_t word[SIMT_LANES * WGMMA_WORDS];
	for (int i = 0; i < SIMT_LANES * WGMMA_WORDS; i++) {
		int lane = i / WGMMA_WORDS, reg = i % WGMMA_WORDS * per;
		uint64_t at = SUM_OF(uint64_t, b, bits, reg >> b & 1 ? f->reg[b] : 0);
		for (int b = 0; b < MMA_LANE_BITS; b++)
			at += lane >> b & 1 ? f->lane[b] : 0;
		word[at / (uint64_t)per] = p->words[lane][i % WGMMA_WORDS];
	}
	simt_floats(p->info->a, word, SIMT_LANES * WGMMA_WORDS * per, a);
}

static void
read_b(const uint8_t *shared, const Operand *o, int first, int k, float *b)
{
	float eight[8 * K_BYTES];
	if (o->is_transposed) {
		eight_across(shared, o, first, k, b);
		return;
	}
	rows_along(shared, o, first, 8, k, eight);
	transpose(8, k, eight, b);
}

/* ---- products ---- */

static void
add_narrow(Sums *s, int k, int block, const float *rows, const float *cols)
{
	for (int row = 0; row < ROWS; row++) {
		uint32_t *v[8];
		float sums[8];
		for (int col = 0; col < 8; col++) {
			v[col] = &s->v[4 * (row % 8) + col / 2][4 * block + 2 * (row / 8) + col % 2];
			memcpy(&sums[col], v[col], sizeof sums[col]);
		}
		simt_narrow_sums(k, rows + row * k, cols, sums);
		for (int col = 0; col < 8; col++)
			memcpy(v[col], &sums[col], sizeof sums[col]);
	}
}

static void
add(Sums *s, DType acc, int block, float product[ROWS][8])
{
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int r = 0; r < 4; r++) {
			float by = product[lane / 4 + 8 * (r >> 1)][2 * (lane % 4) + (r & 1)], sum;
			uint32_t *v = &s->v[lane][4 * block + r];
			memcpy(&sum, v, sizeof sum);
			sum += by;
			if (acc == TY_F32)
				memcpy(v, &sum, sizeof sum);
			else
				*v += (uint32_t)(int32_t)by;
		}
}

static void
make(SimtThread *t, const Product *p, bool checks)
{
	int warp = t->thread / SIMT_LANES % 4;
	const WgmmaInfo *i = p->info;
	bool has_registers = p->flags & WGMMA_REGISTERS;
	Operand a = operand(p->a, p->flags & TRANSPOSE_A, i->a), b = operand(p->b, p->flags & TRANSPOSE_B, i->b);
	float rows[ROWS * K_BYTES], cols[8 * K_BYTES], product[ROWS][8];
	if (has_registers)
		rows_in_registers(p, rows);
	else
		read_a(t->shared, &a, ROWS * warp, i->k, rows);
	if (p->flags & WGMMA_FRESH)
		memset(p->sums->v, 0, sizeof p->sums->v);
	for (int block = 0; block < i->n / 8; block++) {
		read_b(t->shared, &b, 8 * block, i->k, cols);
		if (dtype_is_f8(i->a)) {
			add_narrow(p->sums, i->k, block, rows, cols);
			continue;
		}
		simt_product(ROWS, i->k, rows, cols, product[0]);
		add(p->sums, i->acc, block, product);
	}
	p->sums->under_way--;
	if (checks && !has_registers)
		each_chunk(t, &a, ROWS * warp, ROWS, leave);
	if (checks)
		each_chunk(t, &b, 0, i->n, leave);
}

/* ---- names of sums ---- */

static uint32_t
name_of(const Sums *s, int element)
{
	return NAME_MARK | s->number << ELEMENT_BITS | (uint32_t)element;
}

/* The sum that v[0 … n - 1] name, NULL: they are numbers (an integer, or a pair of halves in a word of A, may happen to be
 * a name; two neighbours hardly).  n is -1: as many as the sum has. */
static Sums *
named(SimtThread *t, Warp *w, const uint32_t *v, int n, int given)
{
	uint32_t number = (v[0] & ~NAME_MARK) >> ELEMENT_BITS;
	if ((v[0] & NAME_MARK) != NAME_MARK || v[0] % (1 << ELEMENT_BITS) || number == 0 || number > w->numbers ||
	    given < 2 || v[1] != v[0] + 1)
		return NULL;
	Sums *s = FIND_NEXT(is, w->live, is->next, is->number == number);
	if (!s)
		simt_fail(t, "a wgmma's accumulator is used again that was settled before");
	if (n >= 0 && s->n != n)
		simt_fail(t, "a wgmma goes on with the accumulator of another shape");
	for (int k = 0; k < s->n; k++)
		if (v[k] != name_of(s, k))
			simt_fail(t, "something changed a wgmma's accumulator before it was waited for");
	return s;
}

static Sums *
new_sums(SimtThread *t, Warp *w, int n)
{
	Warpgroup *g = group_of(t);
	Sums *s = g->spare ? g->spare : NEW(simt_async(t)->mem, Sums);
	g->spare = g->spare ? g->spare->next : NULL;
	w->numbers = w->numbers % ((1 << NUMBER_BITS) - 1) + 1;
	s->next = w->live;
	s->number = w->numbers;
	s->n = n;
	s->under_way = 0;
	s->taken = 0;
	w->live = s;
	return s;
}

static void
free_sums(SimtThread *t, Warp *w, Sums *s)
{
	Warpgroup *g = group_of(t);
	Sums **link = &w->live;
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	s->next = g->spare;
	g->spare = s;
}

/* ---- primitives ---- */

enum { IN_A, IN_B, IN_FLAGS, IN_C, IN_OUT, IN_COUNT };

/* The lane gives what lane 0 gives of what all must give the same. */
static bool
is_like_first(const SimtLanes *l, int lane)
{
	bool has_registers = l->in[0][IN_FLAGS] & WGMMA_REGISTERS;
	return (has_registers || l->in[lane][IN_A] == l->in[0][IN_A]) && l->in[lane][IN_B] == l->in[0][IN_B] &&
	    l->in[lane][IN_FLAGS] == l->in[0][IN_FLAGS];
}

static const uint32_t *
accumulator(const SimtLanes *l, int lane)
{
	return (const uint32_t *)(uintptr_t)l->in[lane][IN_C];
}

static Product *
new_product(SimtThread *t, Warp *w)
{
	Warpgroup *g = group_of(t);
	Product *p = g->spare_product ? g->spare_product : NEW(simt_async(t)->mem, Product);
	g->spare_product = g->spare_product ? g->spare_product->next : NULL;
	p->next = NULL;
	p->group = w->commits;
	*w->last = p;
	w->last = &p->next;
	return p;
}

/* The sum that a warp's lanes go on with, or a new one of their numbers. */
static Sums *
sums_of(const SimtLanes *l, int first, const WgmmaInfo *i)
{
	SimtThread *t = l->thread[first];
	Warp *w = warp_of(t);
	int n = i->n / 2;
	Sums *s = named(t, w, accumulator(l, first), n, n);
	bool goes_on = s != NULL;
	if (!w->has_fence && (!s || l->in[0][IN_FLAGS] & WGMMA_REGISTERS))
		simt_fail(t, "%s: no wgmma_fence after the %s written", i->name,
		    s ? "registers of A were" : "accumulator was");
	if (!s)
		s = new_sums(t, w, n);
	for (int lane = 0; lane < SIMT_LANES; lane++) {
		const uint32_t *c = accumulator(l, first + lane);
		uint32_t *out = (uint32_t *)(uintptr_t)l->in[first + lane][IN_OUT];
		if (goes_on && named(l->thread[first + lane], w, c, n, n) != s)
			simt_fail(l->thread[first + lane], "%s: the lanes' accumulators are of several instructions",
			    i->name);
		if (!goes_on)
			memcpy(s->v[lane], c, sizeof *c * (size_t)n);
		for (int k = 0; k < n; k++)
			out[k] = name_of(s, k);
	}
	return s;
}

/* One warp's part. */
static void
begin_warp(const SimtLanes *l, int first, const WgmmaInfo *i)
{
	SimtThread *t = l->thread[first];
	for (int lane = first; lane < first + SIMT_LANES; lane++)
		if (!is_like_first(l, lane))
			simt_fail(l->thread[lane], "%s: its threads do not give the same descriptors and scale", i->name);
	Sums *s = sums_of(l, first, i);
	Product *p = new_product(t, warp_of(t));
	p->sums = s;
	p->info = i;
	p->a = l->in[0][IN_A];
	p->b = l->in[0][IN_B];
	p->flags = (unsigned)l->in[0][IN_FLAGS];
	s->under_way++;
	Operand a = operand(p->a, p->flags & TRANSPOSE_A, i->a), b = operand(p->b, p->flags & TRANSPOSE_B, i->b);
	for (int lane = 0; lane < SIMT_LANES && p->flags & WGMMA_REGISTERS; lane++)
		memcpy(p->words[lane], (const void *)(uintptr_t)l->in[first + lane][IN_A], sizeof p->words[lane]);
	if (!(p->flags & WGMMA_REGISTERS))
		each_chunk(t, &a, ROWS * (first / SIMT_LANES), ROWS, touch);
	each_chunk(t, &b, 0, i->n, touch);
}

static void
begin(const SimtLanes *l, const void *info)
{
	const WgmmaInfo *i = info;
	if (l->in[0][IN_FLAGS] & (TRANSPOSE_A | TRANSPOSE_B) && dtype_info[i->a].bits != 16)
		simt_fail(l->thread[0], "%s: only operands of 16 bits may be transposed", i->name);
	for (int first = 0; first < 4 * SIMT_LANES; first += SIMT_LANES)
		begin_warp(l, first, i);
}

void
simt_wgmma(SimtThread *t, const WgmmaInfo *i, uint64_t a, uint64_t b, unsigned flags, const uint32_t *c, uint32_t *out)
{
	const uint64_t in[IN_COUNT] = {a, b, flags, (uintptr_t)c, (uintptr_t)out};
	simt_group_collective(t, i->name, begin, i, in, NULL);
}

void
simt_settle(SimtThread *t, const uint32_t *v, uint32_t *out, int n)
{
	Warp *w = warp_of(t);
	for (int k = 0; k < n; k++) {
		Sums *s = named(t, w, v + k, -1, n - k);
		if (!s) {
			out[k] = v[k];
			continue;
		}
		if (s->under_way)
			simt_fail(t, "a wgmma's accumulator is read before it was waited for");
		memcpy(out + k, s->v[t->lane], sizeof *out * (size_t)s->n);
		k += s->n - 1;
		s->taken |= 1u << t->lane;
		if (s->taken == UINT32_MAX)
			free_sums(t, w, s);
	}
}

static void
fence(const SimtLanes *l, const void *info)
{
	warp_of(l->thread[0])->has_fence = true;
}

static void
commit(const SimtLanes *l, const void *info)
{
	warp_of(l->thread[0])->commits++;
}

/* Makes the products of all groups but the latest ones. */
static void
wait(const SimtLanes *l, const void *info)
{
	SimtThread *t = l->thread[0];
	Warpgroup *g = group_of(t);
	Warp *w = warp_of(t);
	int64_t left = *(const int64_t *)info;
	bool checks = simt_launch(t)->checks;
	while (w->first && (int64_t)w->first->group < (int64_t)w->commits - left) {
		Product *p = w->first;
		make(t, p, checks);
		w->first = p->next;
		p->next = g->spare_product;
		g->spare_product = p;
	}
	if (!w->first)
		w->last = &w->first;
	w->has_fence = false;
	if (checks)                                     /* whichever lane says so to others, the warp's reads are over */
		simt_check_barrier(l->thread, l->n);
}

PRIMITIVE(simt_wgmma_fence)
{
	simt_warp_collective(t, "wgmma_fence", fence, NULL, in, out);
}

PRIMITIVE(simt_wgmma_commit)
{
	simt_warp_collective(t, "wgmma_commit", commit, NULL, in, out);
}

PRIMITIVE(simt_wgmma_wait)
{
	simt_warp_collective(t, "wgmma_wait", wait, imm, in, out);
}
