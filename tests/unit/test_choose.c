/* The compiler's choice among the values of tune(...): what it takes, what it leaves, and that a header is bound once
 * for each combination of compile-time parameters, however many schedules there are. */
#include "compile/choose/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PRODUCT(functions, space)                                                                                 \
	functions "kernel mm<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], c: out bf16[M, N])\n" \
	"grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) " space "\n"                                                       \
	"{ var acc = zeros([BM, BN], f32);\n"                                                                      \
	"  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"           \
	"  c[pm * BM +: BM, pn * BN +: BN] = cast(acc); }\n"
#define SPACE "tune(BM = {64, 128, 256}, BN = {64, 128, 256}, BK = {32, 64, 128}, warps = {4, 8}, stages = {2, 3, 4, 5})"
#define PLAIN "fn cast(x) { return x as bf16; }\n"

typedef struct Case {
	Compile *cx;
	Kernel *k;
	ArgInfo args[6];
	NamedConst fixed[6];
	int nfixed, binds;
	bool launches_both;
	NamedConst *chosen;
	int n;
} Case;

static bool
is_fixed(void *user, const char *name)
{
	const Case *c = user;
	for (int i = 0; i < c->nfixed; i++)
		if (strcmp(c->fixed[i].name, name) == 0)
			return true;
	return false;
}

static bool
bind(void *user, const NamedConst *given, int n, Bound *out)
{
	Case *c = user;
	NamedConst all[32];
	int m = 0;
	for (int i = 0; i < c->nfixed + n; i++) {
		all[m] = i < c->nfixed ? c->fixed[i] : given[i - c->nfixed];
		all[m].name = intern(c->cx->names, all[m].name);
		m++;
	}
	c->binds++;
	return kernel_bind(c->k, c->args, all, m, out);
}

/* For the arguments that are set. */
static bool
choose_for(Case *c, const char *text)
{
	Bound b;
	const ChooseBinding how = {is_fixed, bind, c, NULL, .launches_both = c->launches_both};
	c->cx = compile_open();
	Program *p = program_open(c->cx, source_text(c->cx, "<test>", text, strlen(text)));
	assert_int_equal(c->cx->nerrors, 0);
	c->k = p->kernels.at[0];
	assert_true(bind(c, NULL, 0, &b));
	c->binds = 0;
	int called = p->called.n;
	bool chooses = choose_values(c->k, &b, target_named("sm_90a"), &how, c->cx->mem, &c->chosen, &c->n);
	assert_int_equal(p->called.n, called);
	assert_int_equal(c->cx->nerrors, 0);
	return chooses;
}

static bool
choose(Case *c, const char *text, int64_t m, int64_t n, int64_t k)
{
	c->args[0] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, k}};
	c->args[1] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {k, n}};
	c->args[2] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, n}};
	return choose_for(c, text);
}

/* Two vectors of f32. */
static bool
choose_vectors(Case *c, const char *text, int64_t n)
{
	for (int i = 0; i < 2; i++)
		c->args[i] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 1, .dim = {n}};
	return choose_for(c, text);
}

static int64_t
value(const Case *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (strcmp(c->chosen[i].name, name) == 0)
			return c->chosen[i].value.i;
	fail_msg("nothing is chosen for %s", name);
	return 0;
}

/* Rows that no listed tile fits: one that does, unless the caller said it; stages are left to the passes, or
 * are so many that a block has a multiprocessor for itself. */
static void
test_few_rows(void **state)
{
	static const struct { int64_t m, rows; } of[] = {
		{1, 1}, {3, 4}, {8, 8}, {9, 16}, {16, 16}, {17, 24}, {32, 40}, {41, 48}
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		assert_true(choose(&c, PRODUCT(PLAIN, SPACE), of[i].m, 8192, 8192));
		assert_int_equal(value(&c, "BM"), of[i].rows);
		for (int v = 0; v < c.n; v++)
			assert_true(strcmp(c.chosen[v].name, "stages") || c.chosen[v].value.i >= 4);
		compile_close(c.cx);
	}
	Case narrow = {0};                              /* 64 columns would leave half of the machine idle */
	assert_true(choose(&narrow, PRODUCT(PLAIN, SPACE), 16, 4096, 4096));
	assert_int_equal(value(&narrow, "BN"), 32);
	compile_close(narrow.cx);
	Case wide = {0};                                /* more than 16 rows: warpgroups multiply the transposed product */
	assert_true(choose(&wide, PRODUCT(PLAIN, SPACE), 18, 1016, 8328));
	assert_int_equal(value(&wide, "BM"), 24);
	compile_close(wide.cx);
	Case c = {0}, fixed = {.fixed = {{"BM", {.kind = CONST_INT, .i = 64}, {0}}}, .nfixed = 1};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 37, 4096, 11008));
	assert_int_equal(value(&c, "BM"), 40);          /* transposed */
	compile_close(c.cx);
	assert_true(choose(&fixed, PRODUCT(PLAIN, SPACE), 16, 8192, 8192));
	for (int v = 0; v < fixed.n; v++)
		assert_true(strcmp(fixed.chosen[v].name, "BM"));
	compile_close(fixed.cx);
}

/* Sizes by which it is looked whether one is a value, too (choose_sizes.c): 9 powers of two, 26 other multiples of 8, and the
 * header's, for what comes over a number. */
enum { SOURCES = 36 };

static void
test_binds_once(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 8192, 8192, 8192));
	/* columns between powers of two (of so many rows none is between), which take two looks; as it is parted into roles;
	 * last programs shared; the bill of the launch; slots that fit */
	assert_int_equal(c.binds, 3 * 7 * 3 + 2 + 3 + 1 + 1 + 2 * SOURCES);
	assert_int_equal(value(&c, "BM"), 128);
	assert_int_equal(value(&c, "BN"), 256);
	assert_int_equal(value(&c, "warps"), 8);
	compile_close(c.cx);
}

/* Roles pay from the second set of programs on, though no header lists them; one that is listed is named either way. */
static void
test_specialize(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 8192, 8192, 8192));
	assert_int_equal(value(&c, "specialize"), 1);
	assert_int_equal(value(&c, "stages"), 4);       /* what is written goes in pieces */
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "ctas");
	compile_close(c.cx);
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 512, 512, 512));
	for (int i = 0; i < c.n; i++) {
		assert_string_not_equal(c.chosen[i].name, "specialize");
		assert_string_not_equal(c.chosen[i].name, "ctas");
	}
	compile_close(c.cx);
	assert_true(choose(&c, PRODUCT(PLAIN, "tune(BN = {64, 128, 256}, warps = {4, 8}, specialize = {false})"), 8192, 8192, 8192));
	assert_int_equal(value(&c, "specialize"), 0);
	compile_close(c.cx);
}

/* No clusters along an axis of three programs, a quarter of whose blocks would be phantoms; none that the header refuses. */
/* Rows that begin within lines of the L2 cache take twice as many of its lines, which two or four blocks share. */
static void
test_astride(void **state)
{
	static const struct { int64_t m, n, k; bool shares; } of[] = {
		{4000, 3000, 5000, true}, {2048, 3000, 3000, true}, {941, 1400, 9000, true}, {4096, 1024, 4096, false}
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		assert_true(choose(&c, PRODUCT(PLAIN, SPACE), of[i].m, of[i].n, of[i].k));
		bool shares = false;
		for (int k = 0; k < c.n; k++)
			shares |= strcmp(c.chosen[k].name, "ctas") == 0 && c.chosen[k].value.i >= 2;
		assert_int_equal(shares, of[i].shares);
		compile_close(c.cx);
	}
}

static void
test_clusters(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, "tune(BM = {128}, BN = {256}, warps = {8}, stages = {4})"), 384, 65536, 8192));
	assert_int_equal(value(&c, "specialize"), 1);
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "ctas");
	compile_close(c.cx);
}

/* `where` may speak of a schedule's names, and refuse some of them. */
static void
test_where(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE " where warps * 32 <= BM && stages < 4"), 8192, 8192, 8192));
	assert_true(value(&c, "warps") * 32 <= value(&c, "BM"));
	assert_true(value(&c, "stages") < 4);
	compile_close(c.cx);
}

/* Weights that threads decode, in groups, by a kernel without tune: sizes for which warps divide the loop (a tile of 256
 * columns took 72 us on an H200, 19 with 32). */
static void
test_few_decoded(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 16, BN = 64>(a: in f16[M, K], b: in i8[N, K], s: in f16[N, cdiv(K, 128)], c: out f16[M, N])\n"
	    "grid(pm: cdiv(M, BM), pn: cdiv(N, BN))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for g in range(0, cdiv(K, 128)) { acc += (a[pm * BM +: BM, g * 128 +: 128]\n"
	    "    @ (b[pn * BN +: BN, g * 128 +: 128] as f16).T) * s[pn * BN +: BN, g]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc as f16; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {1, 8192}},
	    {.given = true, .dtype = TY_I8, .rank = 2, .dim = {8192, 8192}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {8192, 64}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {1, 8192}}}};
	assert_true(choose_for(&c, text));
	for (int i = 0; i < c.n; i++)
		if (strcmp(c.chosen[i].name, "BN") == 0)
			assert_true(c.chosen[i].value.i <= 64);
	assert_int_equal(value(&c, "BM"), 1);
	compile_close(c.cx);
}

/* Weights of 4 bits: no more slots than keep 96 KB under way on a multiprocessor, tiles without eight rows outside and, of
 * 128 columns by eight warps, without spills, and two blocks of a warpgroup on a multiprocessor. */
static void
test_trims_decoded(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 16, BN = 64, warps = 8>(a: in f16[M, K], b: in i4[N, K], s: in f16[N, cdiv(K, 128)], c: out f16[M, N])\n"
	    "grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) tune(BM = {16, 32, 64, 128}, BN = {64, 128}, warps = {4, 8}, stages = {2, 3, 4})\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for g in range(0, cdiv(K, 128)) { acc += (a[pm * BM +: BM, g * 128 +: 128]\n"
	    "    @ (b[pn * BN +: BN, g * 128 +: 128] as f16).T) * s[pn * BN +: BN, g]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc as f16; }\n";
	static const struct { int64_t m, n, k; const char *name; int64_t is; } of[] = {
		{1, 14336, 4096, "stages", 2}, {50, 8192, 8192, "BM", 56}, {100, 8192, 8192, "BM", 104},
		{16, 14336, 4096, "warps", 4}, {96, 5120, 5120, "split", 2}
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		int64_t m = of[i].m, n = of[i].n, k = of[i].k;
		Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {m, k}},
		    {.given = true, .dtype = TY_I4, .rank = 2, .dim = {n, k}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {n, k / 128}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {m, n}}}};
		assert_true(choose_for(&c, text));
		assert_int_equal(value(&c, of[i].name), of[i].is);
		compile_close(c.cx);
	}
}

/* Ten weights of each word make a K of 160, which the estimate of products does not know: bills find tiles.  Eight records of
 * 18 bytes at a time are long iterations, and two blocks share the loop. */
static void
test_whole_decoded(void **state)
{
	static const char words[] =
	    "kernel mm<BM = 16, BN = 64>(a: in f16[M, K], b: in u32[N, K / 10], c: out f16[M, N])\n"
	    "grid(pn: cdiv(N, BN), pm: cdiv(M, BM)) where K % 160 == 0\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, 160) { let w = b[pn * BN +: BN, k / 10 +: 16];\n"
	    "    let v = reshape((w[:, :, new] >> (arange(0, 10) as u32 * 3)) & 7, [BN, 160]) as f16;\n"
	    "    acc += a[pm * BM +: BM, k +: 160] @ v.T; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc as f16; }\n";
	static const char records[] =
	    "kernel mm<BM = 16, BN = 64>(a: in f16[M, K], b: in u8[N, K / 32, 18], c: out f16[M, N])\n"
	    "grid(pn: cdiv(N, BN), pm: cdiv(M, BM)) where K % 32 == 0\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for g in range(K / 32) { let d = b[pn * BN +: BN, g, 0] as f32; let w = b[pn * BN +: BN, g, 2 +: 16];\n"
	    "    let r = a[pm * BM +: BM, g * 32 +: 16] @ ((w & 15) as f16).T + a[pm * BM +: BM, g * 32 + 16 +: 16]\n"
	    "        @ ((w >> 4) as f16).T; acc += r * d[new, :]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc as f16; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {128, 7680}},
	    {.given = true, .dtype = TY_U32, .rank = 2, .dim = {8192, 768}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {128, 8192}}}};
	assert_true(choose_for(&c, words));
	assert_int_equal(value(&c, "BM"), 64);
	compile_close(c.cx);
	Case r = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {64, 4096}},
	    {.given = true, .dtype = TY_U8, .rank = 3, .dim = {6144, 128, 18}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {64, 6144}}}};
	assert_true(choose_for(&r, records));
	assert_int_equal(value(&r, "split"), 2);
	compile_close(r.cx);
}

/* Odd rows are read element by element, which have no masks in trips inside of their tensor: four warps, not eight. */
static void
test_masks_of_products(void **state)
{
	static const char source[] =
	    "kernel mm<BM = 64, BN = 128, BK = 96>(a: in f16[M, K], b: in u8[K, N], s: in f16[cdiv(K, 96), N], c: out f16[M, N])\n"
	    "grid(pn: cdiv(N, BN), pm: cdiv(M, BM))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @\n"
	    "    ((b[k +: BK, pn * BN +: BN] as f16) * s[k / 96, pn * BN +: BN][new, :]); }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc as f16; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {512, 4001}},
	    {.given = true, .dtype = TY_U8, .rank = 2, .dim = {4001, 8192}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {42, 8192}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {512, 8192}}}};
	assert_true(choose_for(&c, source));
	assert_int_equal(value(&c, "BN"), 256);
	compile_close(c.cx);
}

/* Of programs that fill the multiprocessors two times and a bit two blocks share the last ones; not of those that leave few
 * idle. */
static void
test_stream(void **state)
{
	static const struct { int64_t m, n, k; bool shares; } of[] = {
		{3072, 3072, 3072, true}, {2304, 4096, 4096, true}, {4096, 4096, 4096, false}, {8192, 8192, 8192, false}
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		assert_true(choose(&c, PRODUCT(PLAIN, "tune(BM = {128}, BN = {256}, warps = {8}, stages = {4})"), of[i].m, of[i].n, of[i].k));
		bool shares = false;
		for (int k = 0; k < c.n; k++)
			shares |= strcmp(c.chosen[k].name, "split") == 0 && c.chosen[k].value.i == 2;
		assert_int_equal(shares, of[i].shares);
		compile_close(c.cx);
	}
}

/* Few programs with long sums are shared by blocks that stay; not short ones, nor where each block would read a residual. */
static void
test_shares_few(void **state)
{
	static const char residual[] = "kernel mm<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], r: in bf16[M, N],\n"
	    "c: out bf16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) " SPACE "\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = (acc + (r[pm * BM +: BM, pn * BN +: BN] as f32)) as bf16; }\n";
	static const struct { const char *text; int64_t m, n, k; bool shares; } of[] = {
		{PRODUCT(PLAIN, SPACE), 512, 512, 65536, true}, {PRODUCT(PLAIN, SPACE), 512, 768, 32768, true},
		{PRODUCT(PLAIN, SPACE), 300, 2000, 3000, false}, {PRODUCT(PLAIN, SPACE), 384, 384, 24576, false},
		{residual, 512, 512, 65536, false}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		bool splits = false, stays = false;
		assert_true(choose(&c, of[i].text, of[i].m, of[i].n, of[i].k));
		for (int k = 0; k < c.n; k++) {
			splits |= strcmp(c.chosen[k].name, "split") == 0 && c.chosen[k].value.i > 1;
			stays |= strcmp(c.chosen[k].name, "specialize") == 0 && c.chosen[k].value.i;
		}
		assert_int_equal(splits && stays, of[i].shares);
		compile_close(c.cx);
	}
}

/* Rows of tiles by which programs fill the multiprocessors, once or twice. */
static void
test_rounds(void **state)
{
	static const struct { int64_t m, n, k; } of[] = {{1344, 896, 8000}, {1181, 1752, 448}, {5000, 1000, 1000}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		assert_true(choose(&c, PRODUCT(PLAIN, SPACE), of[i].m, of[i].n, of[i].k));
		int64_t bm = value(&c, "BM"), bn = value(&c, "BN"), last = (of[i].m + bm - 1) / bm * ((of[i].n + bn - 1) / bn) % 132;
		assert_true(last == 0 || last > 118);
		compile_close(c.cx);
	}
}

static void
test_fixed(void **state)
{
	Case c = {0};
	c.fixed[0] = (NamedConst){.name = "BN", .value = {.kind = CONST_INT, .i = 64}, .place = NOWHERE};
	c.nfixed = 1;
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 8192, 8192, 8192));
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "BN");
	assert_int_equal(c.binds, 3 * 3 + 2 + 3 + 1 + 1 + SOURCES);     /* as in test_binds_once */
	compile_close(c.cx);
}

/* Nothing is left to choose. */
static void
test_all_fixed(void **state)
{
	Case c = {0};
	c.fixed[0] = (NamedConst){.name = "BN", .value = {.kind = CONST_INT, .i = 64}, .place = NOWHERE};
	c.fixed[1] = (NamedConst){.name = "specialize", .value = {.kind = CONST_BOOL, .i = 1}, .place = NOWHERE};
	c.fixed[2] = (NamedConst){.name = "warps", .value = {.kind = CONST_INT, .i = 8}, .place = NOWHERE};
	c.fixed[3] = (NamedConst){.name = "BM", .value = {.kind = CONST_INT, .i = 128}, .place = NOWHERE};
	c.fixed[4] = (NamedConst){.name = "BK", .value = {.kind = CONST_INT, .i = 64}, .place = NOWHERE};
	c.fixed[5] = (NamedConst){.name = "stages", .value = {.kind = CONST_INT, .i = 4}, .place = NOWHERE};
	c.nfixed = 6;
	assert_false(choose(&c, PRODUCT(PLAIN, "tune(BN = {64, 128})"), 8192, 8192, 8192));
	compile_close(c.cx);
}

/* A header without a list: warps and roles; not what no warpgroups multiply. */
static void
test_untuned(void **state)
{
	Case large = {0}, small = {0}, few = {0};
	assert_true(choose(&large, PRODUCT(PLAIN, ""), 8192, 8192, 8192));
	assert_int_equal(value(&large, "specialize"), 1);
	assert_true(value(&large, "warps") == 4 || value(&large, "warps") == 8);
	compile_close(large.cx);
	assert_true(choose(&small, PRODUCT(PLAIN, ""), 512, 512, 512));
	assert_int_equal(value(&small, "warps"), 4);    /* a lone warpgroup, whose products run on */
	compile_close(small.cx);
	few.fixed[0] = (NamedConst){.name = "BM", .value = {.kind = CONST_INT, .i = 32}, .place = NOWHERE};
	few.nfixed = 1;
	choose(&few, PRODUCT(PLAIN, ""), 8192, 8192, 8192);
	for (int i = 0; i < few.n; i++)
		assert_string_not_equal(few.chosen[i].name, "warps");
	compile_close(few.cx);
}

/* Attention: roles, of which the model is that of a chain; wide heads leave room for 64 keys. */
static void
test_chained(void **state)
{
	static const char text[] = "kernel a<BM = 64, BN = 64, DIM = D>(q: in bf16[H, S, D], k: in bf16[H, L, D], v: in bf16[H, L, D],\n"
	    "y: out bf16[H, S, D]) grid(p: cdiv(S, BM), h: H) tune(BM = {64, 128}, BN = {32, 64, 128}, warps = {4, 8}, stages = {2, 3})\n"
	    "{ let query = q[h, p * BM +: BM, 0 +: DIM]; var top = full([BM], -inf, f32); var acc = zeros([BM, DIM], f32);\n"
	    "  for t in range(0, L, BN) { let score = query @ k[h, t +: BN, 0 +: DIM].T; let next = max(top, max(score, axis = 1));\n"
	    "    acc = acc * exp(top - next)[:, new] + (exp(score - next[:, new]) as bf16) @ v[h, t +: BN, 0 +: DIM]; top = next; }\n"
	    "  y[h, p * BM +: BM, 0 +: DIM] = acc; }";
	static const char scores[] = "@ k[h, t +: BN, 0 +: DIM].T";
	static const int64_t columns[][2] = {{128, 128}, {256, 64}, {128, 128}};
	for (int i = 0; i < 3; i++) {
		Case c = {0};
		for (int k = 0; k < 4; k++)
			c.args[k] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 3, .dim = {32, 4096, columns[i][0]}};
		char *other = malloc(sizeof text + 32);         /* the last one's scores are capped */
		const char *at = strstr(text, scores);
		sprintf(other, "%.*stanh(query %s)%s", (int)(at - text) - 6, text, scores, at + strlen(scores));
		assert_true(choose_for(&c, i == 2 ? other : text));
		free(other);
		assert_int_equal(value(&c, "specialize"), 1);
		assert_int_equal(value(&c, "BM"), 128);
		assert_int_equal(value(&c, "BN"), columns[i][1]);
		compile_close(c.cx);
	}
}

/* Blocks share the loops of few long programs; not of many, nor of programs that stay, nor where the caller says so. */
static void
test_split(void **state)
{
	static const int64_t few[][3] = {{512, 512, 65536}, {64, 64, 65536}};
	Case c = {0};
	for (int i = 0; i < 2; i++) {
		assert_true(choose(&c, PRODUCT(PLAIN, SPACE), few[i][0], few[i][1], few[i][2]));
		assert_true(value(&c, "split") >= 2);
		compile_close(c.cx);
	}
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 4096, 4096, 4096));
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "split");
	compile_close(c.cx);
	c.fixed[0] = (NamedConst){.name = "split", .value = {.kind = CONST_INT, .i = 1}, .place = NOWHERE};
	c.nfixed = 1;
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 512, 512, 65536));
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "split");
	compile_close(c.cx);
}

/* Clusters are a word that no header lists: of small tiles in them, what becomes of slices is asked all the same. */
static void
test_slices_in_clusters(void **state)
{
	static const char lists[] = "tune(BM = {64, 128, 256}, BN = {32, 64, 128, 256}, BK = {16, 32, 64, 128},\n"
	    "warps = {4, 8}, stages = {2, 3, 4, 5}) where BM * BN < 65536";
	char text[sizeof lists + sizeof PRODUCT(PLAIN, "")];
	Case c = {0};
	sprintf(text, PRODUCT(PLAIN, "%s"), lists);
	assert_true(choose(&c, text, 128, 1640, 1720));
	assert_true(value(&c, "ctas") > 1);
	assert_int_equal(value(&c, "slices"), 1);
	compile_close(c.cx);
}

/* A loop with a merge and no product is compared as others are: few long rows are read ahead, by more blocks than fill the
 * multiprocessors once. */
static void
test_merged(void **state)
{
	static const char text[] = "kernel k<B = 128>(x: in f32[R, C], y: out f32[R]) grid(r: R) { var m = -inf; var s = 0.0;\n"
	    "for c in range(0, C, B) { let v = x[r, c +: B] else -inf; let n = max(m, max(v, axis = 0));\n"
	    "s = s * exp(m - n) + sum(exp(v - n)); m = n; } merge (part) { let n = max(m, part.m);\n"
	    "s = s * exp(m - n) + part.s * exp(part.m - n); m = n; } y[r] = m + log(s); }";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 2, .dim = {32, 1000000}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 1, .dim = {32}};
	assert_true(choose_for(&c, text));
	assert_true(value(&c, "unroll") > 1);
	assert_true(value(&c, "split") > 4);
	compile_close(c.cx);
}

/* So are few rows of queries without a merge, in pages or not; not those that a larger tile makes many. */
static void
test_decode(void **state)
{
	static const char text[] =
	    "kernel decode<BN = 64>(q: in bf16[B, 32, 128], k: in bf16[%s, 128], v: in bf16[%s, 128], page: in i32[B, M], n: in i32[B],\n"
	    "    o: out f32[B, 32, 128]) grid(g: 8, b: B) {\n"
	    "  let a = q[b, g * 4 +: 4, :]; var m = full([4], -inf); var l = zeros([4], f32); var acc = zeros([4, 128], f32);\n"
	    "  for j in range(0, n[b], BN) {\n"
	    "    let z = (j + arange(0, BN) < n[b])[new, :] ? a @ k[%s, 0 +: 128].T : -inf; let t = max(m, max(z, axis = 1));\n"
	    "    let f = exp(m - t); let p = exp(z - t[:, new]); l = l * f + sum(p, axis = 1);\n"
	    "    acc = acc * f[:, new] + (p as bf16) @ v[%s, 0 +: 128]; m = t; }\n"
	    "  o[b, g * 4 +: 4, :] = acc / l[:, new]; }";
	static const char *const cache[] = {"B, 8, L", "P, 64, 8"};
	static const char *const index[] = {"b, g, j +: BN", "page[b, j / 64], 0 +: 64, g"};
	for (int i = 0; i < 2; i++) {
		char *of = malloc(sizeof text + 200);
		sprintf(of, text, cache[i], cache[i], index[i], index[i]);
		Case c = {0};
		c.args[0] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 3, .dim = {1, 32, 128}};
		c.args[1] = c.args[2] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 4, .dim = {1, 8, 4096, 128}};
		if (i == 1)
			c.args[1] = c.args[2] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 4, .dim = {128, 64, 8, 128}};
		c.args[3] = (ArgInfo){.given = true, .dtype = TY_I32, .rank = 2, .dim = {1, 64}};
		c.args[4] = (ArgInfo){.given = true, .dtype = TY_I32, .rank = 1, .dim = {1}};
		assert_true(choose_for(&c, of));
		free(of);
		assert_true(value(&c, "split") >= 8);
		compile_close(c.cx);
	}
}

/* Rows of odd lengths are loaded by threads: no roles, and rows of a tile as long as a warp's access. */
static void
test_odd_rows(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 4096, 4096, 4095));
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "specialize");
	compile_close(c.cx);
	assert_true(choose(&c, PRODUCT(PLAIN, "tune(BK = {16, 32, 64, 128}, warps = {4, 8})"), 2053, 4099, 1031));
	assert_true(value(&c, "BK") >= 32);
	compile_close(c.cx);
}

#define VECTORS "(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) "

/* Programs of less bytes than move while a block starts: blocks stay, if there are enough programs. */
static void
test_small_tiles(void **state)
{
	static const char small[] = "kernel k<B = 64>" VECTORS "{ y[p * B +: B] = flip(x[p * B +: B]); }";
	Case c = {0};
	assert_true(choose_vectors(&c, small, 1 << 26));
	assert_true(value(&c, "batch") > 1);            /* blocks stay, and compute several as one */
	compile_close(c.cx);
	assert_false(choose_vectors(&c, small, 1 << 12));
	compile_close(c.cx);
	static const char large[] = "kernel k<B = 4096>" VECTORS "{ y[p * B +: B] = 2 * x[p * B +: B]; }";
	assert_false(choose_vectors(&c, large, 1 << 26));
	compile_close(c.cx);
	c.fixed[0] = (NamedConst){.name = "persistent", .value = {.kind = CONST_BOOL}, .place = NOWHERE};
	c.nfixed = 1;
	choose_vectors(&c, small, 1 << 26);
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "persistent");
	compile_close(c.cx);
}

/* Parts in opposite order are parts; one that begins where another ends is not. */
static void
test_reversed_tiles(void **state)
{
	static const char reversed[] = "kernel k<B = 64>" VECTORS "{ y[N - (p + 1) * B +: B] = flip(x[p * B +: B]); }";
	static const char next[] = "kernel k<B = 64>" VECTORS "{ y[p * B +: B] = x[(p + 1) * B +: B]; }";
	Case c = {0};
	assert_true(choose_vectors(&c, reversed, 1 << 26));
	assert_true(value(&c, "B") > 64);
	compile_close(c.cx);
	choose_vectors(&c, next, 1 << 26);
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "B");
	compile_close(c.cx);
}

/* Programs of a small product each follow one another in blocks that stay. */
static void
test_small_products(void **state)
{
	static const char text[] = "kernel k<M = 8>(a: in f32[B, M, M], b: in f32[B, M, M], c: out f32[B, M, M]) grid(i: B)\n"
	    "{ c[i, :, :] = a[i, :, :] @ b[i, :, :]; }";
	Case c = {0};
	for (int i = 0; i < 3; i++)
		c.args[i] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 3, .dim = {1 << 18, 8, 8}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "persistent"), 1);
	compile_close(c.cx);
}

static bool
has_chosen(const Case *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (strcmp(c->chosen[i].name, name) == 0)
			return true;
	return false;
}

/* Tiles that only cut the grid grow, unless the caller gave their size. */
static void
test_larger_tiles(void **state)
{
	static const char *const text[] = {
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = 2 * x[p * B +: B]; }",
		"kernel k<B = 90>" VECTORS "{ let i = p * B + arange(0, B); y[p * B +: B] = x[N - 1 - i] + (i as f32); }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B - 1 +: B] + x[p * B + 2 +: B]; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B + arange(0, B)] = x[p * B +: B]; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = sum(x[(p * B + arange(0, B))[:, new] + arange(0, 4)[new, :]], axis = 1); }",
	};
	Case c = {0};
	for (int i = 0; i < LEN(text); i++) {
		assert_true(choose_vectors(&c, text[i], 1 << 26));
		assert_true(value(&c, "B") >= 128);
		compile_close(c.cx);
	}
	c.fixed[0] = (NamedConst){.name = "B", .value = {.kind = CONST_INT, .i = 90}, .place = NOWHERE};
	c.nfixed = 1;
	choose_vectors(&c, text[0], 1 << 26);
	assert_false(has_chosen(&c, "B"));
	compile_close(c.cx);
}

/* Rows of a convolution cut a grid of its output's pixels, which are digits of one index. */
static void
test_convolution(void **state)
{
	static const char text[] =
	    "kernel k<BM = 64, BN = 64>(x: in f16[B, H, W, C], w: in f16[3, 3, C, F], y: out f16[B, H, W, F])\n"
	    "grid(pm: cdiv(W * H * B, BM), pf: cdiv(F, BN)) { let p = pm * BM + arange(0, BM); var acc = zeros([BM, BN], f32);\n"
	    "for r in range(0, 3) { for s in range(0, 3) { for c in range(0, C, 64) {\n"
	    "acc += x[p / (H * W), p / W % H + r - 1, p % W + s - 1, c +: 64] @ w[r, s, c +: 64, pf * BN +: BN]; } } }\n"
	    "y[p / (H * W), p / W % H, p % W, pf * BN +: BN] = acc as f16; }";
	static const struct { int64_t images, side, channels, filters, rows, columns; } of[] = {
		{32, 56, 256, 256, 128, 256}, {64, 7, 512, 512, 96, 128}       /* 33 x 4 programs for 132 multiprocessors */
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		int64_t n = of[i].images, s = of[i].side, ch = of[i].channels, f = of[i].filters;
		c.args[0] = (ArgInfo){.given = true, .dtype = TY_F16, .rank = 4, .dim = {n, s, s, ch}};
		c.args[1] = (ArgInfo){.given = true, .dtype = TY_F16, .rank = 4, .dim = {3, 3, ch, f}};
		c.args[2] = (ArgInfo){.given = true, .dtype = TY_F16, .rank = 4, .dim = {n, s, s, f}};
		assert_true(choose_for(&c, text));
		assert_int_equal(value(&c, "BM"), of[i].rows);
		assert_int_equal(value(&c, "BN"), of[i].columns);
		assert_int_equal(value(&c, "specialize"), 1);
		compile_close(c.cx);
	}
}

/* Of these another size would compute something else, or nobody can say that it does not. */
static void
test_tiles_that_matter(void **state)
{
	static const char *const text[] = {
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = where(arange(0, B) == 0, 1.0, x[p * B +: B]); }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B +: B] * B; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B +: B] * p as f32; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B +: B] - mean(x[p * B +: B]); }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = cumsum(x[p * B +: B]); }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = flip(x[p * B +: B]); }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B / 2 +: B]; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B - 1 +: B] = x[p * B +: B]; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B - 1] = x[p * B +: B - 1]; }",
		"kernel k<B = 90>" VECTORS "{ y[(p * B + arange(0, B)) * 2] = x[p * B +: B]; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = x[p * B +: B]; y[p] = 0.0; }",
		"kernel k<B = 90>" VECTORS "{ y[p * B +: B] = reshape(reshape(x[p * B +: B], [3, B / 3]).T, [B]); }",
		"kernel k<B = 90>(x: in f32[M], y: out f32[N]) grid(p: cdiv(M, B)) { y[p * B +: B] = x[p * B +: B]; }",
		"kernel k<B = 90>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) where B < 100 { y[p * B +: B] = x[p * B +: B]; }",
	};
	for (int i = 0; i < LEN(text); i++) {
		Case c = {0};
		choose_vectors(&c, text[i], 1 << 26);
		assert_false(has_chosen(&c, "B"));
		compile_close(c.cx);
	}
}

/* Programs that wait for others, or that count them, stay as they are. */
static void
test_left_alone(void **state)
{
	static const char counts[] = "kernel k<B = 64>" VECTORS "{ y[p * B +: B] = num_programs(0) as f32 * x[p * B +: B]; }";
	static const char adds[] = "kernel k<B = 64>" VECTORS "{ atomic_add(y[p * B +: B], x[p * B +: B]); }";
	const char *text[] = {counts, adds};
	for (int i = 0; i < 2; i++) {
		Case c = {0};
		choose_vectors(&c, text[i], 1 << 26);
		for (int k = 0; k < c.n; k++)
			assert_string_not_equal(c.chosen[k].name, "persistent");
		compile_close(c.cx);
	}
}

/* Of 32 warps, which the size of the row asks for, a multiprocessor has but two blocks at once. */
static void
test_warps(void **state)
{
	static const char sums[] = "kernel k<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R]) grid(r: R)\n"
	    "{ y[r] = sum(x[r, 0 +: B] else 0.0); }";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 2, .dim = {2048, 20000}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 1, .dim = {2048}};
	assert_true(choose_for(&c, sums));
	assert_true(value(&c, "warps") <= 16);
	compile_close(c.cx);
}

/* Behind their loop the product of an adapter adds to what it leaves, and is no chain; the header's tile does not fit. */
static void
test_adapter(void **state)
{
	static const char text[] = "kernel lora<R = 64, BM = 128, BN = 128, BK = 64>(x: in bf16[M, K], w: in bf16[K, N],\n"
	    "    a: in bf16[K, R], b: in bf16[R, N], y: out bf16[M, N]) grid(m: cdiv(M, BM), n: cdiv(N, BN)) {\n"
	    "    var acc = zeros([BM, BN], f32);\n    var low = zeros([BM, R], f32);\n"
	    "    for k in range(0, K, BK) {\n        let t = x[m * BM +: BM, k +: BK];\n"
	    "        acc += t @ w[k +: BK, n * BN +: BN];\n        low += t @ a[k +: BK, 0 +: R];\n    }\n"
	    "    acc += (low as bf16) @ b[0 +: R, n * BN +: BN];\n    y[m * BM +: BM, n * BN +: BN] = acc as bf16;\n}";
	static const int64_t dim[5][2] = {{2048, 4096}, {4096, 4096}, {4096, 64}, {64, 4096}, {2048, 4096}};
	Case c = {0};
	for (int i = 0; i < 5; i++)
		c.args[i] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {dim[i][0], dim[i][1]}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "BN"), 256);
	assert_int_equal(value(&c, "warps"), 8);
	for (int v = 0; v < c.n; v++)                   /* steps of 128 have room for two slots alone, and wait */
		assert_true(strcmp(c.chosen[v].name, "BK") || c.chosen[v].value.i == 64);
	compile_close(c.cx);
}

/* Both operands are computed and put: a role copies meanwhile, though each multiprocessor has one program. */
static void
test_computed(void **state)
{
	static const char text[] = "kernel cov<BM = 64, BN = 64, BK = 64>(x: in bf16[N, D], mean: in f32[D], c: out f32[D, D])\n"
	    "    grid(i: cdiv(D, BM), j: cdiv(D, BN)) {\n    var acc = zeros([BM, BN], f32);\n"
	    "    let mi = mean[i * BM +: BM];\n    let mj = mean[j * BN +: BN];\n    for k in range(0, N, BK) {\n"
	    "        let u = ((x[k +: BK, i * BM +: BM] as f32) - mi[new, :]) as bf16;\n"
	    "        let v = ((x[k +: BK, j * BN +: BN] as f32) - mj[new, :]) as bf16;\n        acc += u.T @ v;\n    }\n"
	    "    c[i * BM +: BM, j * BN +: BN] = acc;\n}";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {16384, 4096}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 1, .dim = {4096}};
	c.args[2] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 2, .dim = {4096, 4096}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "specialize"), 1);
	assert_int_equal(value(&c, "BM"), 128);
	assert_int_equal(value(&c, "BN"), 256);
	compile_close(c.cx);
}

static bool
has_value(const Case *c, const char *name)
{
	return ANY_OF(i, c->n, strcmp(c->chosen[i].name, name) == 0);
}

#define GELU "fn cast(x) { return (x * (1 + erf(x * 0.7071067811865476))) as bf16; }\n"

/* Arithmetic behind short products passes beside those of another group of consumers; long ones leave little to hide.  Not
 * where programs' loops differ in length, nor where scratch of two groups does not fit: roles stay.  Keys of sorted rows
 * beside the sums of one group's tile would spill. */
static void
test_groups(void **state)
{
	static const char uneven[] = GELU "kernel tri<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N],\n"
	    "    c: out bf16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) { var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, min(K, pm * BM + BM), BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = cast(acc); }\n";
	static const char sorts[] = "kernel sorts<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N],\n"
	    "    c: out bf16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) { var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"
	    "  let z = tanh(acc);\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = sort(sort(z.T).T); }\n";
	static const char rows[] = "kernel rows<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N],\n"
	    "    c: out bf16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) { var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = sort(acc); }\n";
	Case c = {0}, longer = {0}, tri = {0}, large = {0}, keys = {0};
	assert_true(choose(&c, PRODUCT(GELU, ""), 8192, 4096, 512));
	assert_int_equal(value(&c, "pingpong"), 1);
	assert_int_equal(value(&c, "BM"), 128);
	assert_int_equal(value(&c, "BN"), 128);
	compile_close(c.cx);
	assert_true(choose(&longer, PRODUCT(PLAIN, ""), 4096, 4096, 16384));
	assert_false(has_value(&longer, "pingpong"));
	compile_close(longer.cx);
	assert_true(choose(&tri, uneven, 8192, 4096, 512));
	assert_false(has_value(&tri, "pingpong"));
	compile_close(tri.cx);
	assert_true(choose(&large, sorts, 8192, 4096, 512));
	assert_false(has_value(&large, "pingpong"));
	assert_int_equal(value(&large, "specialize"), 1);
	compile_close(large.cx);
	assert_true(choose(&keys, rows, 8192, 4096, 512));
	assert_false(has_value(&keys, "pingpong"));
	compile_close(keys.cx);
}

/* What each program adds to one number holds up its reads: blocks stay, and add up before. */
static void
test_one_number(void **state)
{
	static const char text[] = "kernel norm2<B = 4096>(x: in bf16[N], y: out f32[] = 0) grid(p: cdiv(N, B)) {\n"
	    "    let v = x[p * B +: B] as f32;\n    atomic_add(y[], sum(v * v));\n}";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 1, .dim = {268435456}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_F32};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "persistent"), 1);
	compile_close(c.cx);
}

/* Two of 64 experts for each of 16 rows: fewer ones than places, which blocks still count before they add. */
static void
test_experts(void **state)
{
	static const char text[] = "kernel route<B = 16>(x: in f32[T, 64], n: out i32[64] = 0) grid(p: cdiv(T, B)) {\n"
	    "    let (w, i) = topk(x[p * B +: B, :], 2);\n    atomic_add(n[i], 1, order = relaxed);\n}";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 2, .dim = {262144, 64}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_I32, .rank = 1, .dim = {64}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "persistent"), 1);
	compile_close(c.cx);
}

/* One step's row, of which data says the places, stays in the first cache: what waits decides, by 4 warps least. */
static void
test_steps_row(void **state)
{
	static const char text[] = "kernel ctc<S = 128>(lp: in f32[N, T, V], label: in i32[N, L], y: out f32[N]) grid(n: N) {\n"
	    "    let s = arange(0, S);\n    let lab = where(s % 2 == 1, label[n, s / 2], 0);\n    var a = where(s < 2, 0.0, -inf);\n"
	    "    for t in range(1, T) {\n        let b = shift(a, 1, fill = -inf);\n        let m = max(max(a, b), -1e30);\n"
	    "        a = m + log(exp(a - m) + exp(b - m)) + lp[n, t, lab];\n    }\n    y[n] = max(a);\n}";
	Case c = {0};
	c.args[0] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 3, .dim = {1024, 500, 64}};
	c.args[1] = (ArgInfo){.given = true, .dtype = TY_I32, .rank = 2, .dim = {1024, 60}};
	c.args[2] = (ArgInfo){.given = true, .dtype = TY_F32, .rank = 1, .dim = {1024}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "warps"), 4);
	compile_close(c.cx);
}

#define TYPED(type, result, right, row, space)                                                                            \
	"kernel mm<BM = 128, BN = 128, BK = 64>(a: in " type "[M, K], b: in " type right ", c: out " result "[M, N])\n"     \
	"grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) " space "\n"                                                               \
	"{ var acc = zeros([BM, BN], f32);\n"                                                                              \
	"  for k in range(0, K, BK) { acc = dot(a[pm * BM +: BM, k +: BK], b[" row ", acc, precision = tf32); }\n"        \
	"  c[pm * BM +: BM, pn * BN +: BN] = acc as " result "; }\n"
#define ROWS(type, result, space) TYPED(type, result, "[N, K]", "pn * BN +: BN, k +: BK].T", space)
#define COLUMNS(type, result, space) TYPED(type, result, "[K, N]", "k +: BK, pn * BN +: BN]", space)

static void
choose_typed(Case *c, const char *text, DType type, DType result, int64_t m, int64_t n, int64_t k, bool is_turned)
{
	c->args[0] = (ArgInfo){.given = true, .dtype = type, .rank = 2, .dim = {m, k}};
	c->args[1] = (ArgInfo){.given = true, .dtype = type, .rank = 2, .dim = {is_turned ? k : n, is_turned ? n : k}};
	c->args[2] = (ArgInfo){.given = true, .dtype = result, .rank = 2, .dim = {m, n}};
	assert_true(choose_for(c, text));
}

/* A lone warpgroup's product runs on in flat blocks, too: in a single round no producer is needed beside it. */
static void
test_flat(void **state)
{
	static const struct { int64_t m, n, k, warps; bool parts; } of[] = {
		{1024, 1024, 1024, 4, false}, {32, 4096, 4096, 4, false}, {4096, 4096, 4096, 8, true}
	};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		Case c = {0};
		assert_true(choose(&c, PRODUCT(PLAIN, SPACE), of[i].m, of[i].n, of[i].k));
		assert_int_equal(value(&c, "warps"), of[i].warps);
		assert_int_equal(has_value(&c, "specialize"), of[i].parts);
		compile_close(c.cx);
	}
}

/* Programs for half of the multiprocessors: columns that the header does not list, and steps of two lines. */
static void
test_narrower(void **state)
{
	Case c = {0}, bytes = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 64, 4096, 4096));
	assert_int_equal(value(&c, "BN"), 32);
	assert_int_equal(value(&c, "BK"), 128);
	compile_close(c.cx);
	choose_typed(&bytes,
	    "kernel mm<BM = 128, BN = 128, BK = 128>(a: in i8[M, K], b: in i8[N, K], c: out i32[M, N])\n"
	    "grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) tune(BM = {64, 128}, BN = {64, 128}, BK = {64, 128})\n"
	    "{ var acc = zeros([BM, BN], i32);\n"
	    "  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[pn * BN +: BN, k +: BK].T; }\n"
	    "  c[pm * BM +: BM, pn * BN +: BN] = acc; }\n",
	    TY_I8, TY_I32, 64, 4096, 14336, false);
	assert_int_equal(value(&bytes, "BN"), 32);
	assert_int_equal(value(&bytes, "BK"), 256);
	compile_close(bytes.cx);
}

/* Operands of 4 bytes: results leave in two pieces of 128 bytes a row, so that four slots have room beside them; of what
 * threads turn no columns between powers of two; a flat block's own slots leave room for a second block. */
static void
test_words(void **state)
{
	Case c = {0}, turned = {0}, few = {0};
	choose_typed(&c, ROWS("f32", "f32", SPACE), TY_F32, TY_F32, 4096, 4096, 4096, false);
	assert_int_equal(value(&c, "BM") * value(&c, "BN"), 32768);
	assert_int_equal(value(&c, "stages"), 4);
	compile_close(c.cx);
	choose_typed(&turned, COLUMNS("f32", "f32", SPACE), TY_F32, TY_F32, 256, 14336, 4096, true);
	assert_int_equal(value(&turned, "BN"), 128);
	assert_true((value(&turned, "BM") + 128) * value(&turned, "BK") * 4 * value(&turned, "stages") < 232448);
	compile_close(turned.cx);
	choose_typed(&few, ROWS("f32", "f32", SPACE), TY_F32, TY_F32, 128, 14336, 4096, false);
	assert_int_equal(value(&few, "BK") * value(&few, "stages"), 192);
	compile_close(few.cx);
}

/* Columns between powers of two: of 8-bit floats whose sums are taken apart, and such as fill the multiprocessors.  Few
 * rows of weights [K, N] with columns for most of these are 24 of warpgroups. */
static void
test_columns(void **state)
{
	Case apart = {0}, filled = {0}, few = {0}, fewer = {0};
	choose_typed(&few, COLUMNS("bf16", "f32", SPACE), TY_BF16, TY_F32, 16, 12800, 3072, true);
	assert_int_equal(value(&few, "BM"), 24);
	compile_close(few.cx);
	choose_typed(&fewer, COLUMNS("bf16", "f32", SPACE), TY_BF16, TY_F32, 16, 4096, 4096, true);
	assert_int_equal(value(&fewer, "BM"), 16);
	compile_close(fewer.cx);
	choose_typed(&apart, ROWS("f8e4m3", "f32", SPACE), TY_F8E4M3, TY_F32, 512, 5120, 5120, false);
	assert_int_equal(value(&apart, "BN"), 160);
	compile_close(apart.cx);
	choose_typed(&filled, ROWS("bf16", "f32", SPACE), TY_BF16, TY_F32, 256, 11008, 4096, false);
	assert_int_equal(value(&filled, "BN"), 176);
	compile_close(filled.cx);
}

/* Columns that indices say are computed before, where they are fewer than such a row's part of 2,048, too. */
static void
test_gathered_columns(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 128, BN = 128, BK = 64>(a: in bf16[M, L], b: in bf16[K, N], p: in i32[K], c: out bf16[M, N])\n"
	    "grid(i: cdiv(M, BM), j: cdiv(N, BN))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[i * BM +: BM, p[k +: BK]] @ b[k +: BK, j * BN +: BN]; }\n"
	    "  c[i * BM +: BM, j * BN +: BN] = acc as bf16; }\n";
	Case c = {.launches_both = true, .args = {{.given = true, .dtype = TY_BF16, .rank = 2, .dim = {4096, 4096}},
	    {.given = true, .dtype = TY_BF16, .rank = 2, .dim = {128, 4096}},
	    {.given = true, .dtype = TY_I32, .rank = 1, .dim = {128}},
	    {.given = true, .dtype = TY_BF16, .rank = 2, .dim = {4096, 4096}}}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "materialize"), 1);
	compile_close(c.cx);
}

/* Rows at other than multiples of 16 bytes are copied before, where products take longer than that: of a left operand, of a
 * right one; 16 programs of one trip read them themselves. */
static void
test_odd_strides(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 128, BN = 128, BK = 64>(a: in f16[M, K], b: in f16[K, N], c: out f16[M, N])\n"
	    "grid(i: cdiv(M, BM), j: cdiv(N, BN))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[i * BM +: BM, k +: BK] @ b[k +: BK, j * BN +: BN]; }\n"
	    "  c[i * BM +: BM, j * BN +: BN] = acc as f16; }\n";
	static const int64_t size[][3] = {{4096, 4097, 512}, {4096, 4096, 511}, {512, 509, 64}};
	for (int i = 0; i < 3; i++) {
		int64_t m = size[i][0], n = size[i][1], k = size[i][2];
		Case c = {.launches_both = true, .args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {m, k}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {k, n}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {m, n}}}};
		choose_for(&c, text);
		assert_int_equal(ANY_OF(v, c.n, strcmp(c.chosen[v].name, "materialize") == 0), i < 2);
		compile_close(c.cx);
	}
}

/* As many parts as fill the multiprocessors with tiles of the results, in pairs five of 1886 x 208 in 160 x 128, which take
 * 24.6 us, and eight in 128 x 224 by blocks alone 26.5; four in clusters of four of 521 x 872, which take 23.3 us in f16, and 28.0 in six
 * parts by blocks alone; none where one launch is estimated to take little longer. */
static void
test_parts(void **state)
{
	static const struct { int64_t m, n, k, parts; } of[] = {{1886, 208, 10904, 5}, {521, 872, 9848, 4}, {192, 4096, 11008, 1}};
	for (size_t i = 0; i < LEN(of); i++) {
		int64_t m = of[i].m, n = of[i].n, k = of[i].k;
		Case c = {.launches_both = true, .args = {{.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, k}},
		    {.given = true, .dtype = TY_BF16, .rank = 2, .dim = {k, n}},
		    {.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, n}}}};
		assert_true(choose_for(&c, PRODUCT(PLAIN, SPACE)));
		assert_int_equal(has_value(&c, "parts"), of[i].parts > 1);
		assert_true(of[i].parts == 1 || value(&c, "parts") == of[i].parts);
		compile_close(c.cx);
	}
}

/* Of few rows blocks that share a loop join through memory. */
static void
test_few_join(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 16, 1024, 8192));
	assert_int_equal(value(&c, "split"), 2);
	assert_int_equal(value(&c, "ctas"), 1);
	compile_close(c.cx);
}

/* A residual in rows of odd length is read by threads, all of it at once: beside sums of four warps there is no room. */
static void
test_odd_residual(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 128, BN = 128, BK = 64>(a: in f16[M, K], b: in f16[N, K], r: in f16[M, N], c: out f16[M, N])\n"
	    "grid(i: cdiv(M, BM), j: cdiv(N, BN))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[i * BM +: BM, k +: BK] @ b[j * BN +: BN, k +: BK].T; }\n"
	    "  c[i * BM +: BM, j * BN +: BN] = (acc + (r[i * BM +: BM, j * BN +: BN] as f32)) as f16; }\n";
	for (int64_t n = 4097; n <= 4104; n += 7) {
		Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, 512}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {n, 512}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, n}},
		    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, n}}}};
		assert_true(choose_for(&c, text));
		assert_int_equal(value(&c, "warps"), n == 4097 ? 8 : 4);
		compile_close(c.cx);
	}
}

/* A sort behind products holds what other lanes have beside the sums, and takes longer than the products: by eight warps at
 * once, not by four in turn. */
static void
test_sorted(void **state)
{
	static const char text[] =
	    "kernel mm<BM = 128, BN = 128, BK = 64>(a: in f16[M, K], b: in f16[N, K], c: out f16[M, N])\n"
	    "grid(i: cdiv(M, BM), j: cdiv(N, BN))\n"
	    "{ var acc = zeros([BM, BN], f32);\n"
	    "  for k in range(0, K, BK) { acc += a[i * BM +: BM, k +: BK] @ b[j * BN +: BN, k +: BK].T; }\n"
	    "  c[i * BM +: BM, j * BN +: BN] = sort(acc, axis = 1) as f16; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, 1024}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, 1024}},
	    {.given = true, .dtype = TY_F16, .rank = 2, .dim = {4096, 4096}}}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "warps"), 8);
	compile_close(c.cx);
}

/* Without products: of what is listed and has no default all combinations are compared; a default stands; warps are of
 * the list, in loops and without. */
static void
test_listed_without_products(void **state)
{
	static const char norm[] =
	    "kernel norm<%s>(x: in f16[N, P, C], y: out f16[N, P, C]) grid(c: cdiv(C, BC), n: N)\n"
	    "tune(BP = {16, 64, 128}, BC = {8, 32}, warps = {2, 8})\n"
	    "{ var s = zeros([BC], f32);\n"
	    "  for i in range(0, P, BP) { s += sum(x[n, i +: BP, c * BC +: BC] as f32, axis = 0); }\n"
	    "  for i in range(0, P, BP) { y[n, i +: BP, c * BC +: BC] = (x[n, i +: BP, c * BC +: BC] - s / P) as f16; } }\n";
	static const char add[] = "kernel add<B>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) tune(B = {32, 1024})\n"
	    "{ y[p * B +: B] = x[p * B +: B] + 1; }\n";
	for (int has = 0; has < 2; has++) {
		char text[1024];
		snprintf(text, sizeof text, norm, has ? "BP = 64, BC = 32" : "BP, BC");
		Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 3, .dim = {16, 3136, 256}},
		    {.given = true, .dtype = TY_F16, .rank = 3, .dim = {16, 3136, 256}}}};
		assert_true(choose_for(&c, text));
		if (has)
			assert_int_equal(value(&c, "warps"), 8);
		else
			assert_true(value(&c, "BP") == 64 || value(&c, "BP") == 128);
		for (int i = 0; i < c.n && has; i++)
			assert_true(c.chosen[i].name[0] != 'B');
		compile_close(c.cx);
	}
	Case c = {.args = {{.given = true, .dtype = TY_F32, .rank = 1, .dim = {1 << 26}},
	    {.given = true, .dtype = TY_F32, .rank = 1, .dim = {1 << 26}}}};
	assert_true(choose_for(&c, add));
	assert_int_equal(value(&c, "B"), 1024);
	compile_close(c.cx);
}

/* A warp alone moves neighbours' values by shuffles, several through shared memory, which bounds the chain by the tile's own. */
static void
test_exchanges_alone(void **state)
{
	static const char text[] =
	    "kernel chain<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(r: R)\n"
	    "{ var a = x[r, 0 +: B];\n"
	    "  for t in range(50) { a += 0.1 * (shift(a, -1) - 2 * a + shift(a, 1)); }\n"
	    "  y[r, 0 +: B] = a; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F32, .rank = 2, .dim = {8192, 1000}},
	    {.given = true, .dtype = TY_F32, .rank = 2, .dim = {8192, 1000}}}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "warps"), 1);
	compile_close(c.cx);
}

/* Loops that end when data says are compared, too: rows that are bisected until their root is near, by one warp. */
static void
test_ends_by_data(void **state)
{
	static const char text[] =
	    "kernel root<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R]) grid(r: R)\n"
	    "{ let v = x[r, 0 +: B];\n"
	    "  var lo = 0.0;\n"
	    "  var hi = max(v);\n"
	    "  while hi - lo > 1e-6 {\n"
	    "    let mid = (lo + hi) / 2;\n"
	    "    let big = sum(max(v - mid, 0)) >= 1;\n"
	    "    lo = where(big, mid, lo);\n"
	    "    hi = where(big, hi, mid); }\n"
	    "  y[r] = lo; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F32, .rank = 2, .dim = {16384, 1500}},
	    {.given = true, .dtype = TY_F32, .rank = 1, .dim = {16384}}}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "warps"), 1);
	compile_close(c.cx);
}

/* Rows that a loop around reads 32 times stay in the L2 cache as long as few of them are under way: by blocks of 16 warps,
 * as long as a row is not so short that all fit. */
static void
test_reads_rows_again(void **state)
{
	static const char text[] =
	    "kernel count<B = 1024>(x: in i32[R, C], y: out i32[R]) grid(r: R)\n"
	    "{ var found = 0;\n"
	    "  for bit in range(31) {\n"
	    "    var n = 0;\n"
	    "    for c in range(0, C, B) { n += sum(((x[r, c +: B] >> bit) == found) as i32); }\n"
	    "    found = where(n > 1000, 2 * found + 1, 2 * found); }\n"
	    "  y[r] = found; }\n";
	for (int is_long = 0; is_long < 2; is_long++) {
		Case c = {.args = {{.given = true, .dtype = TY_I32, .rank = 2, .dim = {1024, is_long ? 32000 : 8192}},
		    {.given = true, .dtype = TY_I32, .rank = 1, .dim = {1024}}}};
		assert_true(choose_for(&c, text));
		assert_int_equal(value(&c, "warps") == 16, is_long);
		compile_close(c.cx);
	}
}

/* A loop behind one that writes begins when that has ended: trips read ahead in the first, though the second cannot. */
static void
test_loops_in_turn(void **state)
{
	static const char text[] =
	    "kernel sweep<B = 32>(a: in f32[L, N], x: out f32[L, N]) grid(p: cdiv(N, B))\n"
	    "{ var s = zeros([B]);\n"
	    "  for i in range(L) {\n"
	    "    s = a[i, p * B +: B] - 0.5 * s;\n"
	    "    x[i, p * B +: B] = s; }\n"
	    "  var v = zeros([B]);\n"
	    "  for i in range(L - 1, -1, -1) {\n"
	    "    v = x[i, p * B +: B] - 0.5 * v;\n"
	    "    x[i, p * B +: B] = v; } }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F32, .rank = 2, .dim = {512, 16384}},
	    {.given = true, .dtype = TY_F32, .rank = 2, .dim = {512, 16384}}}};
	assert_true(choose_for(&c, text));
	assert_true(value(&c, "unroll") >= 4);
	compile_close(c.cx);
}

/* 64 programs that compute longer than they multiply draw .7 of what memory gives, twice as many all of it. */
static void
test_draws_memory(void **state)
{
	static const char text[] =
	    "kernel cov<D = 64, BN = 128>(q: in f16[L, H, D], k: in f16[L, H, D], w: out f32[H, D, D]) grid(h: H)\n"
	    "{ var acc = zeros([D, D]);\n"
	    "  var s = zeros([D]);\n"
	    "  for n in range(0, L, BN) {\n"
	    "    let a = q[n +: BN, h, :];\n"
	    "    let b = k[n +: BN, h, :];\n"
	    "    acc += a.T @ b;\n"
	    "    s += sum((a as f32) * (a as f32) + (b as f32) * (b as f32), axis = 0); }\n"
	    "  w[h, :, :] = acc * s[:, new]; }\n";
	Case c = {.args = {{.given = true, .dtype = TY_F16, .rank = 3, .dim = {16384, 64, 64}},
	    {.given = true, .dtype = TY_F16, .rank = 3, .dim = {16384, 64, 64}},
	    {.given = true, .dtype = TY_F32, .rank = 3, .dim = {64, 64, 64}}}};
	assert_true(choose_for(&c, text));
	assert_int_equal(value(&c, "split"), 2);
	compile_close(c.cx);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_rows), cmocka_unit_test(test_few_decoded), cmocka_unit_test(test_trims_decoded), cmocka_unit_test(test_whole_decoded), cmocka_unit_test(test_masks_of_products), cmocka_unit_test(test_binds_once), cmocka_unit_test(test_where), cmocka_unit_test(test_specialize),
		cmocka_unit_test(test_clusters), cmocka_unit_test(test_astride), cmocka_unit_test(test_stream), cmocka_unit_test(test_shares_few), cmocka_unit_test(test_rounds), cmocka_unit_test(test_fixed), cmocka_unit_test(test_all_fixed), cmocka_unit_test(test_untuned), cmocka_unit_test(test_chained),
		cmocka_unit_test(test_split), cmocka_unit_test(test_slices_in_clusters), cmocka_unit_test(test_merged), cmocka_unit_test(test_decode), cmocka_unit_test(test_odd_rows), cmocka_unit_test(test_small_tiles),
		cmocka_unit_test(test_reversed_tiles), cmocka_unit_test(test_larger_tiles), cmocka_unit_test(test_convolution),
		cmocka_unit_test(test_small_products),
		cmocka_unit_test(test_tiles_that_matter), cmocka_unit_test(test_left_alone), cmocka_unit_test(test_warps),
		cmocka_unit_test(test_adapter), cmocka_unit_test(test_computed), cmocka_unit_test(test_groups), cmocka_unit_test(test_one_number), cmocka_unit_test(test_experts),
		cmocka_unit_test(test_steps_row), cmocka_unit_test(test_flat), cmocka_unit_test(test_parts), cmocka_unit_test(test_few_join), cmocka_unit_test(test_narrower), cmocka_unit_test(test_words), cmocka_unit_test(test_columns),
		cmocka_unit_test(test_gathered_columns),
		cmocka_unit_test(test_odd_strides), cmocka_unit_test(test_odd_residual),
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_listed_without_products), cmocka_unit_test(test_exchanges_alone), cmocka_unit_test(test_ends_by_data),
		cmocka_unit_test(test_reads_rows_again), cmocka_unit_test(test_loops_in_turn), cmocka_unit_test(test_draws_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
