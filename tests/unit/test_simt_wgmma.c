/* Matrix instructions of a warpgroup in the emulator: every row of mma.def, operands laid out in shared memory by the PTX
 * ISA's figures for each swizzle, along K and across it, or A in registers; a scale of the accumulator that is false; and
 * what happens before, at and without the wait. */
#include "layout_help.h"
#include "simt_help.h"

enum { A_AT = 0, B_AT = 65536, STEPS = 2, MOST_K = 64 };

typedef struct Side {
	int swizzle;                                    /* bytes of a row: 0, 32, 64, 128; -1: in registers */
	bool is_turned;
	int rows, size;                                 /* size: bytes of an element */
} Side;

typedef struct Case {
	const WgmmaInfo *w;
	Side a, b;
	uint8_t va[64][MOST_K], vb[256][MOST_K];        /* numbers of elements: see element() */
	uint32_t bits_a[4], bits_b[4];                  /* of their values */
	uint32_t c[64][256], out[64][256];
	bool is_fresh;                                  /* the second step begins at 0 */
	uint32_t before;                                /* a register before the wait */
	int what;
} Case;

/* Bytes from the begin of an operand to element [row, k]. */
static int
place(const Side *s, int row, int k)
{
	int width = s->swizzle ? s->swizzle : 16, groups = s->rows / 8;
	if (!s->is_turned) {
		int byte = k * s->size, atom = byte / width, chunk = byte % width / 16;
		if (s->swizzle == 0)                    /* core matrices, K fastest */
			return (row / 8 * 8 + atom) * 128 + row % 8 * 16 + byte % 16;
		chunk ^= row % 8 * s->swizzle / 128;
		return atom * groups * 8 * width + row / 8 * 8 * width + row % 8 * width + 16 * chunk + byte % 16;
	}
	int byte = row * s->size, atom = byte / width, chunk = byte % width / 16, atoms = s->rows * s->size / width;
	if (s->swizzle == 0)
		return (k / 8 * groups + atom) * 128 + k % 8 * 16 + byte % 16;
	chunk ^= k % 8 * s->swizzle / 128;
	return (k / 8 * atoms + atom) * 8 * width + k % 8 * width + 16 * chunk + byte % 16;
}

static uint64_t
field(int bytes, int shift)
{
	return (uint64_t)((unsigned)bytes >> 4) << shift;
}

/* The step'th part of K, as the ISA tells leading and stride offsets. */
static uint64_t
descriptor(const Side *s, int at, int k)
{
	static const uint64_t mode[] = {0, 3, 2, 0, 1};
	int width = s->swizzle ? s->swizzle : 16, groups = s->rows / 8, lead, stride;
	if (!s->is_turned) {
		lead = s->swizzle ? 16 : 128;           /* the next core matrix along K; fixed where swizzled */
		stride = s->swizzle ? 8 * width : 1024; /* the next eight rows */
	} else if (s->swizzle) {
		lead = 8 * width;                       /* the next rows */
		stride = s->rows * s->size / width * 8 * width;         /* the next eight k */
	} else {
		lead = groups * 128;
		stride = 128;
	}
	return field(at + place(s, 0, k), 0) | field(lead, 16) | field(stride, 32) | mode[s->swizzle / 32] << 62;
}

/* Elements are -1, 0, 1, 2, or without a sign 0, 1, 2, 3. */
static int
element(DType t, int number)
{
	return number - (t != TY_U8);
}

/* The bits of each of the four. */
static void
patterns(DType t, uint32_t *bits)
{
	for (int i = 0; i < 4; i++)
		if (t == TY_F32)
			bits[i] = (uint32_t)bits_of((float)element(t, i));
		else
			for (bits[i] = 0; value_of(t, bits[i]) != element(t, i); bits[i]++)
				;
}

static void
put(Case *x, uint8_t *shared, const Side *s, int at, const uint32_t *bits, uint8_t (*v)[MOST_K])
{
	for (int r = 0; r < s->rows; r++)
		for (int k = 0; k < STEPS * x->w->k; k++)
			memcpy(shared + at + place(s, r, k), &bits[v[r][k]], (size_t)s->size);
}

static void
element_of(const SimtThread *t, int i, int *row, int *col)
{
	*row = 16 * (t->thread / 32) + t->lane / 4 + 8 * (i / 2 % 2);
	*col = 8 * (i / 4) + 2 * (t->lane % 4) + i % 2;
}

static void
wait(SimtThread *t, int left)
{
	call_imm(t, PRIM_WGMMA_WAIT, NOTHING, left, 0);
}

static void
fill(SimtThread *t, Case *x)
{
	if (t->thread == 0) {
		if (x->a.swizzle >= 0)
			put(x, t->shared, &x->a, A_AT, x->bits_a, x->va);
		put(x, t->shared, &x->b, B_AT, x->bits_b, x->vb);
	}
	call(t, PRIM_FENCE_ASYNC, NOTHING);
	call(t, PRIM_BARRIER, NOTHING);
}

/* The thread's words of A, as the ISA draws the fragments: words are of row lane / 4, of row + 8, and both again in the
 * second half of K; in each half a lane has 32 bits. */
static void
words_of_a(const SimtThread *t, const Case *x, int step, uint32_t *words)
{
	int per = 4 / x->a.size;
	for (int w = 0; w < WGMMA_WORDS; w++) {
		uint8_t byte[4];
		for (int e = 0; e < per; e++) {
			int row = 16 * (t->thread / 32) + t->lane / 4 + 8 * (w % 2);
			int k = step * x->w->k + t->lane % 4 * per + w / 2 * 4 * per + e;
			uint32_t v = x->bits_a[x->va[row][k]];
			memcpy(byte + e * x->a.size, &v, (size_t)x->a.size);
		}
		memcpy(words + w, byte, sizeof byte);
	}
}

static void
multiply(SimtThread *t, const Case *x, int step, uint32_t *acc)
{
	unsigned flags = (x->a.is_turned ? TRANSPOSE_A : 0) | (x->b.is_turned ? TRANSPOSE_B : 0);
	uint32_t words[WGMMA_WORDS];
	uint64_t a = (uintptr_t)words, b = descriptor(&x->b, B_AT, step * x->w->k);
	flags |= x->is_fresh && step == 1 ? WGMMA_FRESH : 0;
	if (x->a.swizzle < 0) {
		words_of_a(t, x, step, words);
		simt_wgmma(t, x->w, a, b, flags | WGMMA_REGISTERS, acc, acc);
		memset(words, 0xff, sizeof words);      /* they were taken when it began */
		return;
	}
	simt_wgmma(t, x->w, descriptor(&x->a, A_AT, step * x->w->k), b, flags, acc, acc);
}

static void
body(SimtThread *t, void *user)
{
	Case *x = user;
	uint32_t acc[128];
	int n = x->w->n / 2, row, col;
	fill(t, x);
	for (int i = 0; i < n; i++) {
		element_of(t, i, &row, &col);
		acc[i] = x->c[row][col];
	}
	call(t, PRIM_WGMMA_FENCE, NOTHING);
	for (int step = 0; step < STEPS; step++)
		multiply(t, x, step, acc);
	call(t, PRIM_WGMMA_COMMIT, NOTHING);
	if (t->thread == 77)
		x->before = acc[3];
	wait(t, 0);
	simt_settle(t, acc, acc, n);
	for (int i = 0; i < n; i++) {
		element_of(t, i, &row, &col);
		x->out[row][col] = acc[i];
	}
}

static Case *
open(const WgmmaInfo *w, int swizzle_a, bool turned_a, int swizzle_b, bool turned_b, uint64_t *s)
{
	Case *x = calloc(1, sizeof *x);
	assert_non_null(x);
	int size = dtype_info[w->a].bits / 8;
	*x = (Case){.w = w, .a = {swizzle_a, turned_a, 64, size}, .b = {swizzle_b, turned_b, 1 << log2_ceil(w->n), size}};
	patterns(w->a, x->bits_a);
	patterns(w->b, x->bits_b);
	for (int r = 0; r < 256; r++)
		for (int k = 0; k < MOST_K; k++) {
			x->va[r % 64][k] = (uint8_t)(random_word(s) % 4);
			x->vb[r][k] = (uint8_t)(random_word(s) % 4);
		}
	for (int i = 0; i < 64 * 256; i++) {
		uint32_t c = (uint32_t)(random_word(s) % 100);
		x->c[i / 256][i % 256] = w->acc == TY_F32 ? (uint32_t)bits_of((float)c) : c;
	}
	return x;
}

static float
value(const Case *x, uint32_t v)
{
	return x->w->acc == TY_F32 ? float_of(v) : (float)(int32_t)v;
}

static float
want(const Case *x, int row, int col, int from, int to)
{
	int sum = 0;
	for (int k = from; k < to; k++)
		sum += element(x->w->a, x->va[row][k]) * element(x->w->b, x->vb[col][k]);
	return (x->is_fresh ? 0 : value(x, x->c[row][col])) + (float)sum;
}

static const SimtLaunch group = {.threads = 128, .shared_bytes = 160 << 10};

static void
judge(const Case *x)
{
	int from = x->is_fresh ? x->w->k : 0;
	for (int r = 0; r < 64; r++)
		for (int c = 0; c < x->w->n; c++)
			if (value(x, x->out[r][c]) != want(x, r, c, from, STEPS * x->w->k))
				fail_msg("%s, A %d%s, B %d%s%s: wrong at [%d, %d]", x->w->name, x->a.swizzle,
				    x->a.is_turned ? " turned" : "", x->b.swizzle, x->b.is_turned ? " turned" : "",
				    x->is_fresh ? ", fresh" : "", r, c);
	assert_true(isnan(float_of(x->before)));
}

/* A row of n elements is as wide as the swizzle at least. */
static int
narrowed(int swizzle, bool is_turned, const WgmmaInfo *w)
{
	while (is_turned && swizzle > w->n * 2)
		swizzle = swizzle > 32 ? swizzle / 2 : 0;
	return swizzle;
}

static void
try(const WgmmaInfo *w, int k, uint64_t *s)
{
	static const int swizzles[] = {0, 32, 64, 128};
	bool may_turn = dtype_info[w->a].bits == 16, turned_b = may_turn && (k / 4 & 2);
	int sa = swizzles[k % 4], sb = narrowed(swizzles[(k / 4 + k) % 4], turned_b, w);
	bool in_registers = k % 5 == 1;
	Case *x = open(w, in_registers ? -1 : sa, may_turn && !in_registers && (k / 4 & 1), sb, turned_b, s);
	x->is_fresh = k % 3 == 2;
	runs(body, x, group);
	judge(x);
	free(x);
}

/* All swizzles of every type at one n, some at the others. */
static void
rows(void **state)
{
	uint64_t s = 1;
	for (int i = 0; i < wgmma_count; i++)
		for (int k = 0; k < 16; k++)
			if (wgmma_info[i].n == 64 || (k + i) % (wgmma_info[i].n < 64 ? 6 : 13) == 0)
				try(&wgmma_info[i], k, &s);
}

/* Two instructions on the same operands by descriptors whose pattern begins 128 bytes on: the base offset. */
static void
body_base(SimtThread *t, void *user)
{
	Case *x = user;
	uint32_t acc[128] = {0};
	int row, col;
	if (t->thread == 0) {
		uint8_t *whole = calloc(1, 1 << 16);    /* where the pattern begins at 0, then moved */
		put(x, whole, &x->a, 0, x->bits_a, x->va);
		memcpy(t->shared + 256, whole, 64 * 128);
		free(whole);
		put(x, t->shared, &x->b, B_AT, x->bits_b, x->vb);
	}
	call(t, PRIM_BARRIER, NOTHING);
	call(t, PRIM_WGMMA_FENCE, NOTHING);
	simt_wgmma(t, x->w, descriptor(&x->a, 256, 0) | UINT64_C(2) << 49, descriptor(&x->b, B_AT, 0), 0, acc, acc);
	call(t, PRIM_WGMMA_COMMIT, NOTHING);
	wait(t, 0);
	simt_settle(t, acc, acc, x->w->n / 2);
	for (int i = 0; i < x->w->n / 2; i++) {
		element_of(t, i, &row, &col);
		x->out[row][col] = acc[i];
	}
}

static void
base_offset(void **state)
{
	uint64_t s = 4;
	Case *x = open(wgmma_named("wgmma.n64k16.f16"), 128, false, 128, false, &s);
	memset(x->c, 0, sizeof x->c);
	runs(body_base, x, group);
	for (int r = 0; r < 64; r++)
		for (int c = 0; c < x->w->n; c++)
			assert_true(float_of(x->out[r][c]) == want(x, r, c, 0, x->w->k));
	free(x);
}

/* A layout is the accumulator's. */
static void
layouts(void **state)
{
	for (int i = 0; i < wgmma_count; i++) {
		Layout l = wgmma_layout_c(&wgmma_info[i]);
		for (int thread = 0; thread < 128; thread++)
			for (int r = 0; r < wgmma_info[i].n / 2; r++) {
				uint32_t at[LAYOUT_RANK];
				int row, col;
				SimtThread t = {.thread = thread, .lane = thread % 32};
				element_of(&t, r, &row, &col);
				layout_element(&l, (uint32_t[IN_DIMS]){(uint32_t)r, (uint32_t)thread % 32, (uint32_t)thread / 32, 0}, at);
				assert_true((int)at[0] == row && (int)at[1] == col);
			}
	}
}

/* ---- when ---- */

/* Operands are read at the wait: what is written over before it shows. */
static void
body_late(SimtThread *t, void *user)
{
	Case *x = user;
	uint32_t acc[128] = {0}, more[128] = {0};
	int n = x->w->n / 2, row, col;
	fill(t, x);
	call(t, PRIM_WGMMA_FENCE, NOTHING);
	multiply(t, x, 0, acc);
	call(t, PRIM_WGMMA_COMMIT, NOTHING);
	multiply(t, x, 1, more);
	call(t, PRIM_WGMMA_COMMIT, NOTHING);
	wait(t, x->what ? 0 : 1);
	call(t, PRIM_BARRIER, NOTHING);
	if (t->thread == 0)                             /* after the first, before the second unless both are done */
		memset(t->shared + A_AT, 0, 64 * 128);
	call(t, PRIM_BARRIER, NOTHING);
	simt_settle(t, acc, acc, n);
	wait(t, 0);
	simt_settle(t, more, more, n);
	for (int i = 0; i < n; i++) {
		element_of(t, i, &row, &col);
		x->out[row][col] = acc[i];
		x->c[row][col] = more[i];
	}
}

static void
late(void **state)
{
	for (int what = 0; what < 2; what++) {
		uint64_t s = 8;
		Case *x = open(wgmma_named("wgmma.n128k16.f16"), 128, false, 64, true, &s);
		x->what = what;
		runs(body_late, x, group);
		uint32_t second[64][256];
		memcpy(second, x->c, sizeof second);
		memset(x->c, 0, sizeof x->c);
		for (int r = 0; r < 64; r++)
			for (int c = 0; c < x->w->n; c++) {
				assert_true(float_of(x->out[r][c]) == want(x, r, c, 0, x->w->k));
				assert_true(float_of(second[r][c]) == (what ? want(x, r, c, x->w->k, 2 * x->w->k) : 0));
			}
		free(x);
	}
}

/* The second instruction takes what no fence orders. */
static void
again_from_registers(SimtThread *t, const Case *x, uint32_t *acc)
{
	uint32_t words[WGMMA_WORDS] = {0};
	multiply(t, x, 0, acc);
	wait(t, 1);
	simt_wgmma(t, x->w, (uintptr_t)words, descriptor(&x->b, B_AT, 0), WGMMA_REGISTERS, acc, acc);
}

static void
body_misuse(SimtThread *t, void *user)
{
	Case *x = user;
	uint32_t acc[128] = {0}, old[128];
	int n = x->w->n / 2;
	fill(t, x);
	if (x->what != 0)
		call(t, PRIM_WGMMA_FENCE, NOTHING);
	if (x->what == 1 && t->warp == 2)
		return;
	if (x->what == 2 && t->thread == 9)
		simt_wgmma(t, x->w, descriptor(&x->a, A_AT, 16), descriptor(&x->b, B_AT, 0), 0, acc, acc);
	else if (x->what == 8 && t->thread == 9)
		simt_wgmma(t, x->w, descriptor(&x->a, A_AT, 0), descriptor(&x->b, B_AT, 0), WGMMA_FRESH, acc, acc);
	else if (x->what == 9)
		again_from_registers(t, x, acc);
	else
		multiply(t, x, 0, acc);
	if (x->what == 3)
		simt_settle(t, acc, acc, n);
	if (x->what == 4)
		wait(t, 0);                             /* of no group */
	if (x->what == 4)
		simt_settle(t, acc, acc, n);
	acc[3] ^= x->what == 5;
	call(t, PRIM_WGMMA_COMMIT, NOTHING);
	memcpy(old, acc, sizeof old);
	wait(t, 0);
	simt_settle(t, acc, acc, n);
	call(t, PRIM_BARRIER, NOTHING);
	if (x->what == 6)
		multiply(t, x, 0, acc);                 /* no fence since */
	call(t, PRIM_WGMMA_FENCE, NOTHING);
	multiply(t, x, 0, old);
}

static void
misuse(void **state)
{
	static const char *const words[] = {"no wgmma_fence", "wgmma", "do not give the same descriptors",
		"read before it was waited for", "read before it was waited for", "something changed", "no wgmma_fence",
		"used again that was settled", "do not give the same descriptors and scale", "after the registers of A"};
	for (int i = 0; i < LEN(words); i++) {
		uint64_t s = 6;
		Case *x = open(wgmma_named("wgmma.n64k16.f16"), 128, false, 128, false, &s);
		x->what = i;
		fails(body_misuse, x, group, words[i]);
		free(x);
	}
	all_called(PRIM_WGMMA_FENCE, PRIM_WGMMA_WAIT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows), cmocka_unit_test(base_offset), cmocka_unit_test(layouts), cmocka_unit_test(late),
		cmocka_unit_test(misuse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
