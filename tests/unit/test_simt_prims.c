/* The emulator's primitives of a thread and of a warp: places, shuffles, votes, reductions, bytes, packs, 8 x 8 matrices. */
#include "simt_help.h"

/* ---- where ---- */

static void
body_places(SimtThread *t, void *user)
{
	uint32_t *out = (uint32_t *)user + 4 * (96 * t->block_index + t->thread);
	out[0] = (uint32_t)call(t, PRIM_THREAD, NOTHING);
	out[1] = (uint32_t)call(t, PRIM_LANE, NOTHING);
	out[2] = (uint32_t)call(t, PRIM_BLOCK, NOTHING);
	out[3] = (uint32_t)call(t, PRIM_NBLOCKS, NOTHING);
}

static void
places(void **state)
{
	uint32_t out[2 * 96 * 4];
	runs(body_places, out, (SimtLaunch){.threads = 96, .nblocks = 2});
	for (uint32_t i = 0; i < 2 * 96; i++) {
		assert_int_equal(out[4 * i], i % 96);
		assert_int_equal(out[4 * i + 1], i % 32);
		assert_int_equal(out[4 * i + 2], i / 96);
		assert_int_equal(out[4 * i + 3], 2);
	}
}

/* ---- between lanes ---- */

typedef struct Exchange {
	PrimKind prim;
	int64_t imm;
	uint32_t in[64], by[64], out[64];
} Exchange;

static void
body_exchange(SimtThread *t, void *user)
{
	Exchange *x = user;
	x->out[t->thread] = (uint32_t)call_imm(t, x->prim, IN(x->in[t->thread], x->by[t->thread]), x->imm, 0);
}

static void
exchange(Exchange *x, PrimKind k, int64_t imm, uint64_t seed)
{
	x->prim = k;
	x->imm = imm;
	runs(body_exchange, x, (SimtLaunch){.threads = 64, .seed = seed});
}

static void
shuffles(void **state)
{
	static const PrimKind kinds[] = {PRIM_SHUFFLE, PRIM_SHUFFLE_XOR};
	uint64_t s = 7;
	for (int trial = 0; trial < 32 * LEN(kinds); trial++) {
		Exchange x;
		int by = trial / LEN(kinds);
		for (int i = 0; i < 64; i++) {
			x.in[i] = (uint32_t)random_word(&s);
			x.by[i] = (uint32_t)random_word(&s);
		}
		exchange(&x, kinds[trial % LEN(kinds)], by, (uint64_t)(trial % 3));
		for (int i = 0; i < 64; i++) {
			int from = x.prim == PRIM_SHUFFLE ? (int)(x.by[i] % 32) : i % 32 ^ by;
			assert_int_equal(x.out[i], x.in[i / 32 * 32 + from]);
		}
	}
}

static void
votes(void **state)
{
	uint64_t s = 5;
	for (int trial = 0; trial < 60; trial++) {
		Exchange x;
		uint64_t bits = trial == 0 ? 0 : trial == 1 ? UINT64_MAX : random_word(&s) | (trial % 2 ? 0xffffffff : 0);
		for (int i = 0; i < 64; i++)
			x.in[i] = bits >> i & 1;
		exchange(&x, PRIM_VOTE_BALLOT, 0, 0);
		for (int i = 0; i < 64; i++)
			assert_int_equal(x.out[i], (uint32_t)(bits >> (i / 32 * 32)));
	}
	Exchange x;
	exchange(&x, PRIM_ELECT, 0, 3);
	int chosen = 0;
	for (int i = 0; i < 64; i++)
		chosen += x.out[i] == 1 ? 1 << (i / 32 * 8) : 0;
	assert_int_equal(chosen, 0x101);
}

static int64_t
fold(PrimKind k, int64_t a, int64_t b)
{
	switch (k) {
	case PRIM_REDUX_ADD: return a + b;
	case PRIM_REDUX_MIN: case PRIM_REDUX_UMIN: return a < b ? a : b;
	case PRIM_REDUX_MAX: case PRIM_REDUX_UMAX: return a > b ? a : b;
	case PRIM_REDUX_AND: return a & b;
	case PRIM_REDUX_OR: return a | b;
	default: return a ^ b;
	}
}

static void
reductions(void **state)
{
	uint64_t s = 11;
	for (PrimKind k = PRIM_REDUX_ADD; k <= PRIM_REDUX_XOR; k++)
		for (int trial = 0; trial < 8; trial++) {
			bool is_signed = k == PRIM_REDUX_MIN || k == PRIM_REDUX_MAX;
			int64_t want[2];
			Exchange x;
			for (int i = 0; i < 64; i++) {
				x.in[i] = (uint32_t)(random_word(&s) >> (trial % 4 * 8)) | (k == PRIM_REDUX_AND ? 0xf0f0 : 0);
				int64_t v = is_signed ? (int32_t)x.in[i] : (int64_t)x.in[i];
				want[i / 32] = i % 32 ? fold(k, want[i / 32], v) : v;
			}
			exchange(&x, k, 0, 0);
			for (int i = 0; i < 64; i++)
				assert_int_equal(x.out[i], (uint32_t)want[i / 32]);
		}
}

/* ---- within a word ---- */

typedef struct Words {
	PrimKind prim;
	int n;
	uint64_t (*in)[3];
	uint32_t *out;
} Words;

static void
body_words(SimtThread *t, void *user)
{
	const Words *w = user;
	for (int i = t->thread; i < w->n; i += 32)
		w->out[i] = (uint32_t)call(t, w->prim, w->in[i]);
}

static uint32_t
word(PrimKind k, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t in[][3] = {{a, b, c}};
	uint32_t out = 0;
	Words w = {k, 1, in, &out};
	runs(body_words, &w, (SimtLaunch){0});
	return out;
}

static void
bytes(void **state)
{
	assert_int_equal(word(PRIM_BYTE_PERMUTE, 0x33221100, 0x77665544, 0x3210), 0x33221100);
	assert_int_equal(word(PRIM_BYTE_PERMUTE, 0x33221100, 0x77665544, 0x7654), 0x77665544);
	assert_int_equal(word(PRIM_BYTE_PERMUTE, 0x33221100, 0x77665544, 0x0527), 0x00552277);
	assert_int_equal(word(PRIM_BYTE_PERMUTE, 0x3322f100, 0x80665544, 0x9fa8), 0xffff0000);
	assert_int_equal(word(PRIM_AND_XOR, 0xabcd1234, 0x000f000f, 0x43084308), 0x4305430c);
}

/* Two halves of a word: 1024 + 9 - 1032 and 1024 + 3 - 1032; 1.5 * 2 + 0.25 and -3 * 1 + 136. */
static void
halves(void **state)
{
	assert_int_equal(word(PRIM_ADD_F16X2, 0x64036409, 0xe408e408, 0), 0xc5003c00);
	assert_int_equal(word(PRIM_SUB_F16X2, 0x40003c00, 0x3c004200, 0), 0x3c00c000);
	assert_int_equal(word(PRIM_MUL_F16X2, 0x00014200, 0xbc00c000, 0), 0x8001c600);
	assert_int_equal(word(PRIM_FMA_F16X2, 0x64f06410, 0x2c002c00, 0xd480d480), 0x4700c700);
	assert_int_equal(word(PRIM_FMA_BF16X2, 0xc0403fc0, 0x3f804000, 0x43083e80), 0x43054050);
	assert_int_equal(word(PRIM_MAX_F16X2, 0x80003c00, 0x00007e00, 0), 0x00003c00);          /* -0 and 0, 1 and NaN */
	assert_int_equal(word(PRIM_MIN_F16X2, 0x00007e00, 0x8000bc00, 0), 0x8000bc00);
	assert_int_equal(word(PRIM_MAX_BF16X2, 0xc0403fc0, 0x3f80ff80, 0), 0x3f803fc0);         /* -3 and 1, 1.5 and -inf */
	assert_int_equal(word(PRIM_MIN_BF16X2, 0xc0403fc0, 0x3f80ff80, 0), 0xc040ff80);
}

static void
packs(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		PrimKind pack = kind ? PRIM_PACK_E5M2 : PRIM_PACK_E4M3;
		DType t = kind ? TY_F8E5M2 : TY_F8E4M3;
		uint64_t in[256][3] = {{0}};
		uint32_t half[256], back[256];
		for (uint32_t v = 0; v < 256; v++)
			in[v][0] = v | (255 - v) << 8;
		Words w = {PRIM_UNPACK_E4M3, 256, in, half};
		if (!kind)
			runs(body_words, &w, (SimtLaunch){0});
		for (uint32_t v = 0; v < 256; v++) {
			double want = value_of(t, v), also = value_of(t, 255 - v);
			double low = kind ? want : value_of(TY_F16, half[v] & 0xffff);
			double high = kind ? also : value_of(TY_F16, half[v] >> 16);
			assert_true(isnan(want) ? isnan(low) : low == want && signbit(low) == signbit(want));
			assert_true(isnan(also) ? isnan(high) : high == also);
			in[v][0] = bits_of((float)want);
			in[v][1] = bits_of((float)also);
		}
		w = (Words){pack, 256, in, back};
		runs(body_words, &w, (SimtLaunch){0});
		for (uint32_t v = 0; v < 256; v++) {
			double want = value_of(t, v), got = value_of(t, back[v] & 0xff);
			if (isinf(want))
				assert_int_equal(back[v] & 0x7f, 0x7b);         /* the largest instead */
			else
				assert_true(isnan(want) ? isnan(got) : (back[v] & 0xff) == v);
			if (isfinite(value_of(t, 255 - v)))
				assert_int_equal(back[v] >> 8, 255 - v);
		}
	}
	/* between 1 and 1.125, 1.125 and 1.25: to even; too large and infinite: 448 */
	assert_int_equal(word(PRIM_ROUND_S8, bits_of(2.5f), bits_of(-3.5f), 0x1234abcd), 0xabcdfc02);
	assert_int_equal(word(PRIM_ROUND_S8, bits_of(1e9f), bits_of(-INFINITY), 0), 0x807f);
	assert_int_equal(word(PRIM_ROUND_U8, bits_of(255.5f), bits_of(-1.0f), 0xffff), 0xffff00ff);
	assert_int_equal(word(PRIM_ROUND_U8, bits_of(NAN), bits_of(0.5f), 0), 0);
	assert_int_equal(word(PRIM_PACK_E4M3, bits_of(1.0625f), bits_of(1.1875f), 0), 0x3a38);
	assert_int_equal(word(PRIM_PACK_E4M3, bits_of(1e9f), bits_of(-INFINITY), 0), 0xfe7e);
	assert_int_equal(word(PRIM_PACK_E5M2, bits_of(1.125f), bits_of(1.375f), 0), 0x3e3c);
	assert_int_equal(word(PRIM_PACK_E5M2, bits_of(-1e9f), bits_of(0x1p-17f), 0), 0x00fb);
	assert_int_equal(word(PRIM_PACK_E5M2, bits_of(NAN), 0, 0) & 0x7f, 0x7f);
}

static void
tf32(void **state)
{
	assert_int_equal(word(PRIM_TO_TF32, bits_of(1.0f), 0, 0), bits_of(1.0f));
	assert_int_equal(word(PRIM_TO_TF32, 0x3f801000, 0, 0), 0x3f802000);    /* half way: away from 0 */
	assert_int_equal(word(PRIM_TO_TF32, 0xbf801000, 0, 0), 0xbf802000);
	assert_int_equal(word(PRIM_TO_TF32, 0x3f800fff, 0, 0), 0x3f800000);
	assert_int_equal(word(PRIM_TO_TF32, 0x3fffffff, 0, 0), 0x40000000);
	assert_int_equal(word(PRIM_TO_TF32, 0xff800000, 0, 0), 0xff800000);
	assert_int_equal(word(PRIM_TO_TF32, 0x7fc00001, 0, 0), 0x7fffffff);
}

static void
body_quiet(SimtThread *t, void *user)
{
	call(t, PRIM_FENCE_MBAR, NOTHING);
	call(t, PRIM_FENCE_ASYNC, NOTHING);
	call_imm(t, PRIM_REGISTERS_MORE, NOTHING, 232, 0);
	call_imm(t, PRIM_REGISTERS_LESS, NOTHING, *(const int64_t *)user, 0);
}

static void
quiet(void **state)
{
	int64_t n = 40;
	runs(body_quiet, &n, (SimtLaunch){.threads = 128});
	n = 20;
	fails(body_quiet, &n, (SimtLaunch){.threads = 128}, "setmaxnreg of 20 registers");
	n = 232;
	fails(body_quiet, &n, (SimtLaunch){.threads = 384}, "ask for 89088 registers");
}

typedef struct Waits {
	bool waits;
	int late;                                       /* a thread that waits only after its access; -1: none */
	uint32_t number, peeked[32];                    /* before the wait */
	uint8_t byte[32];
} Waits;

static void
body_waits(SimtThread *t, void *user)
{
	Waits *w = user;
	call(t, PRIM_GRID_NEXT, IN(t->thread % 2));
	w->peeked[t->thread] = (uint32_t)call(t, PRIM_PEEK, IN((uint64_t)(uintptr_t)&w->number, t->thread < 16));
	call(t, PRIM_FETCH_LINE, IN((uint64_t)(uintptr_t)&w->number, 1));
	if (w->waits && t->thread != w->late)
		call(t, PRIM_GRID_WAIT, NOTHING);
	*simt_global_at(t, (uint64_t)(uintptr_t)&w->byte[t->thread], 1, 1, SIMT_WRITE) = 1;
	call(t, PRIM_GRID_WAIT, NOTHING);
}

/* Code that may start early must wait before it touches memory, but for hints, every thread of it; other code need not. */
static void
waits_for_grids(void **state)
{
	Waits w = {.waits = true, .late = -1, .number = 77};
	runs(body_waits, &w, (SimtLaunch){.starts_early = true});
	assert_int_equal(w.byte[31], 1);
	assert_int_equal(w.peeked[15], 77);
	assert_int_equal(w.peeked[16], 0);
	w.late = 7;
	fails(body_waits, &w, (SimtLaunch){.starts_early = true}, "thread 7 touches memory before it waited for the grid before");
	w.waits = false;
	runs(body_waits, &w, (SimtLaunch){0});
}

/* ---- 8 x 8 matrices ---- */

typedef struct Matrices {
	PrimKind prim;
	uint32_t row[32];                               /* addresses */
	uint64_t word[32][4];                           /* loaded, or to store */
	uint16_t memory[2048];
} Matrices;

static void
body_load(SimtThread *t, void *user)
{
	Matrices *m = user;
	if (t->thread == 0)
		memcpy(t->shared, m->memory, sizeof m->memory);
	call(t, PRIM_WARP_BARRIER, NOTHING);
	called.row[m->prim] = true;
	primitives[m->prim](t, IN(m->row[t->lane]), NULL, m->word[t->lane]);
}

static void
body_store(SimtThread *t, void *user)
{
	Matrices *m = user;
	const uint64_t *w = m->word[t->lane];
	if (t->thread == 0)
		memset(t->shared, 0, sizeof m->memory);
	call(t, PRIM_WARP_BARRIER, NOTHING);
	call(t, m->prim, IN(m->row[t->lane], w[0], w[1], w[2], w[3]));
	call(t, PRIM_WARP_BARRIER, NOTHING);
	if (t->thread == 0)
		memcpy(m->memory, t->shared, sizeof m->memory);
}

/* Rows in a random order, 32 of them apart. */
static void
scatter(Matrices *m, uint64_t *s)
{
	uint32_t first = (uint32_t)random_word(s) % 128 | 1;
	for (uint32_t i = 0; i < 32; i++)
		m->row[i] = first * i % 128 * 32;
}

static void
matrices(void **state)
{
	static const PrimKind loads[] = {PRIM_LDMATRIX_1, PRIM_LDMATRIX_2, PRIM_LDMATRIX, PRIM_LDMATRIX_T_1,
		PRIM_LDMATRIX_T_2, PRIM_LDMATRIX_T};
	static const PrimKind stores[] = {PRIM_STMATRIX_2, PRIM_STMATRIX, PRIM_STMATRIX_T};
	uint64_t s = 3;
	for (int i = 0; i < LEN(loads) + LEN(stores); i++) {
		Matrices m = {.prim = i < LEN(loads) ? loads[i] : stores[i - LEN(loads)]};
		bool is_load = i < LEN(loads), turned = strstr(prim_info[m.prim].ptx, ".trans") != NULL;
		int n = is_load ? prim_info[m.prim].nout : prim_info[m.prim].nin - 1;
		scatter(&m, &s);
		for (int k = 0; k < LEN(m.memory); k++)
			m.memory[k] = (uint16_t)(k * 31 + 7);
		for (int lane = 0; lane < 32; lane++)
			for (int k = 0; k < 4; k++)
				m.word[lane][k] = (uint32_t)random_word(&s);
		runs(is_load ? body_load : body_store, &m, (SimtLaunch){.seed = (uint64_t)i});
		for (uint32_t lane = 0; lane < 32; lane++)
			for (uint32_t k = 0; k < (uint32_t)n; k++)
				for (uint32_t e = 0; e < 2; e++) {
					uint32_t r = lane / 4, c = 2 * (lane % 4) + e;
					uint32_t at = m.row[8 * k + (turned ? c : r)] / 2 + (turned ? r : c);
					assert_int_equal(m.word[lane][k] >> (16 * e) & 0xffff, m.memory[at]);
				}
	}
	Matrices m = {.prim = PRIM_LDMATRIX_2};
	for (uint32_t i = 0; i < 32; i++)
		m.row[i] = 16 * i;
	m.row[20] = 3;                                  /* nobody's row */
	runs(body_load, &m, (SimtLaunch){0});
	m.row[9] = 24;
	fails(body_load, &m, (SimtLaunch){0}, "the address of lane 9, 24, is not a multiple of 16");
	m.row[9] = 1 << 20;
	fails(body_load, &m, (SimtLaunch){0}, "");
}

/* ---- what not all lanes reach ---- */

static void
body_part(SimtThread *t, void *user)
{
	if (t->lane < 16)
		call_imm(t, PRIM_SHUFFLE_XOR, IN(1), 1, 0);
}

static void
body_two(SimtThread *t, void *user)
{
	if (t->lane < 16)
		call_imm(t, PRIM_SHUFFLE_XOR, IN(1), 1, 0);
	else
		call(t, PRIM_VOTE_BALLOT, IN(1));
}

static void
divergence(void **state)
{
	fails(body_part, NULL, (SimtLaunch){0}, "shuffle_xor");
	fails(body_two, NULL, (SimtLaunch){0}, "vote_ballot");
	all_called(PRIM_THREAD, PRIM_NBLOCKS);
	all_called(PRIM_GRID_NEXT, PRIM_FETCH_LINE);
	all_called(PRIM_SHUFFLE, PRIM_TO_TF32);
	all_called(PRIM_LDMATRIX_1, PRIM_STMATRIX_T);
	all_called(PRIM_REGISTERS_MORE, PRIM_REGISTERS_LESS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places), cmocka_unit_test(shuffles), cmocka_unit_test(votes), cmocka_unit_test(reductions),
		cmocka_unit_test(bytes), cmocka_unit_test(halves), cmocka_unit_test(packs), cmocka_unit_test(tf32), cmocka_unit_test(quiet),
		cmocka_unit_test(waits_for_grids),
		cmocka_unit_test(matrices), cmocka_unit_test(divergence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
