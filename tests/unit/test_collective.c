/* Ops in which a tile's elements meet, lowered in layouts of every kind and run by the emulator: reductions,
 * scans, sorts, the greatest few, counting, gathers, scatters, parts, cats, flips, products.
 *
 * Layouts are random: single bits of the tile dealt to registers, lanes and warps, with repeats, and now and then a bit
 * that moves along both dimensions.  Elements are small whole numbers, which every type holds exactly, so the answers
 * are those of a few plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/num.h"
#include "lower/lower.h"
#include "lowered_help.h"

enum { WARPS_LOG2 = 2, LANES_LOG2 = 5, MOST = 4096, TRIALS = 75 };

static uint64_t
next(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545F4914F6CDD1Du >> 11;
}

static int
below(uint64_t *s, int n)
{
	return (int)(next(s) % (uint64_t)n);
}

/* One column of the map as [row, column]. */
static void
put_column(Text *out, bool first, uint64_t image, int cols)
{
	text_printf(out, "%s[%d, %d]", first ? "" : ", ", (int)(image >> cols), (int)(image & ((UINT64_C(1) << cols) - 1)));
}

/* Layout #n of a tile [2^rows, 2^cols], or of rank 1 if rows is less than 0; `mixes`: a bit may move along both. */
static void
put_any_layout(Text *out, int n, int rows, int cols, uint64_t *seed, bool mixes)
{
	uint64_t image[16];
	int total = MAX(rows, 0) + cols, used = 0;
	for (int i = 0; i < total; i++)
		image[i] = UINT64_C(1) << i;
	for (int i = total - 1; i > 0; i--) {
		int k = below(seed, i + 1);
		uint64_t t = image[i];
		image[i] = image[k];
		image[k] = t;
	}
	if (mixes && total > 1 && below(seed, 5) == 0)
		image[0] ^= image[1];                   /* still regular */
	Text part[3] = {0};
	for (int p = 0; p < 2; p++)
		for (int i = 0; i < (p ? WARPS_LOG2 : LANES_LOG2); i++) {
			bool repeats = used == total || below(seed, 4) == 0;
			put_column(&part[p], i == 0, repeats ? 0 : image[used++], cols);
		}
	text_put(&part[2], "");
	bool first = true;
	for (; used < total; first = false)
		put_column(&part[2], first, image[used++], cols);
	if (below(seed, 3) == 0)
		put_column(&part[2], first, 0, cols);
	if (rows >= 0) {
		text_printf(out, "layout #%d = layout(shape = [%d, %d], register = [%s], lane = [%s], warp = [%s], block = [])\n",
		    n, 1 << rows, 1 << cols, part[2].at, part[0].at, part[1].at);
	} else {
		/* [0, x] becomes [x] */
		text_printf(out, "layout #%d = layout(shape = [%d], register = [", n, 1 << cols);
		for (int p = 2, k = 0; k < 3; p = k++) {
			for (const char *s = part[p].at; *s; s++)
				if (strncmp(s, "[0, ", 4) == 0) {
					text_put(out, "[");
					s += 3;
				} else {
					text_putn(out, s, 1);
				}
			text_put(out, k == 0 ? "], lane = [" : k == 1 ? "], warp = [" : "], block = [])\n");
		}
	}
	for (int p = 0; p < 3; p++)
		text_close(&part[p]);
}

static void
put_layout(Text *out, int n, int rows, int cols, uint64_t *seed)
{
	put_any_layout(out, n, rows, cols, seed, true);
}

typedef struct Case {
	uint64_t seed;
	DType t;
	const char *type;
	int rows, cols, axis;                           /* log2 */
	int64_t x[MOST], y[MOST], z[MOST], want[MOST], want2[MOST];
	uint8_t memory[5][MOST * 8];                    /* x, y, z, then two results */
	DType out[2];
	int room;                                       /* bytes of shared memory; 0: the target's */
	Text text;
} Case;

static int64_t
load(DType t, const uint8_t *m, int i)
{
	return dtype_is_float(t) ? (int64_t)dtype_load_f64(t, m, i) : dtype_load_i64(t, m, i);
}

static void
store(DType t, uint8_t *m, int i, int64_t v)
{
	if (dtype_is_float(t))
		dtype_store_f64(t, m, i, (double)v);
	else
		dtype_store_i64(t, m, i, v);
}

static void
run(Case *c, int nparam, int nout, const int *count)
{
	static const char *const targets[] = {"sm_90a", "sm_75"};
	Compile *cx = compile_open();
	Target t = *target_named(targets[c->seed & 1]);
	uint64_t param[6];
	SimtReport ran;
	Module *m = module_parse(cx, source_text(cx, "test.tir", c->text.at, c->text.n));
	Text report = {0};
	if (!m) {
		diag_print(cx, &report, 0, false);
		fail_msg("%s\n%s", c->text.at, report.at);
	}
	for (int i = 0; i < nparam; i++)
		param[i] = (uint64_t)(uintptr_t)c->memory[i < nparam - nout ? i : 3 + i - (nparam - nout)];
	param[nparam] = 1;
	t.shared_bytes = c->room ? c->room : t.shared_bytes;
	if (!run_func(m->funcs.at[0], &t, param, 1, &ran)) {
		fprintf(stderr, "%s", c->text.at);
		diag_print(cx, &report, 0, false);
		fail_msg("%s\n%s", ran.text, report.at ? report.at : "");
	}
	for (int k = 0; k < nout; k++)
		for (int i = 0; i < count[k]; i++) {
			int64_t got = load(c->out[k], c->memory[3 + k], i), want = (k ? c->want2 : c->want)[i];
			if (got == want)
				continue;
			fprintf(stderr, "%s", c->text.at);
			fail_msg("result %d, element %d is %lld, not %lld", k, i, (long long)got, (long long)want);
		}
	text_close(&c->text);
	compile_close(cx);
}

/* A case's shape and elements; text up to and with the layouts and parameter x: #0 in, #1 out (rank 2) or #2 (rank 1). */
static void
begin_shape(Case *c, uint64_t seed, int most_value, int rows, int cols)
{
	static const DType types[] = {TY_I32, TY_I8, TY_U16, TY_I64, TY_F16, TY_F32, TY_F64, TY_U32};
	memset(c, 0, sizeof *c);
	c->seed = seed * 0x9e3779b97f4a7c15u | 1;
	for (int i = 0; i < 4; i++)
		next(&c->seed);
	c->t = types[below(&c->seed, LEN(types))];
	c->type = dtype_info[c->t].text;
	c->rows = rows < 0 ? below(&c->seed, 5) : rows;
	c->cols = cols < 0 ? 1 + below(&c->seed, 6) : cols;
	c->axis = below(&c->seed, 2);
	c->out[0] = c->out[1] = c->t;
	for (int i = 0; i < 1 << (c->rows + c->cols); i++)
		store(c->t, c->memory[0], i, c->x[i] = below(&c->seed, most_value));
	text_put(&c->text, "facts(TYPED, LAYOUTS)\n");
	put_any_layout(&c->text, 0, c->rows, c->cols, &c->seed, rows < 0);
	put_layout(&c->text, 1, c->rows, c->cols, &c->seed);
	put_layout(&c->text, 2, -1, c->axis ? c->rows : c->cols, &c->seed);
}

static void
begin(Case *c, uint64_t seed, int most_value)
{
	begin_shape(c, seed, most_value, -1, -1);
}

/* Element j of line i along the axis. */
static int
at(const Case *c, int i, int j)
{
	return c->axis ? i << c->cols | j : j << c->cols | i;
}

static int
lines(const Case *c)
{
	return 1 << (c->axis ? c->rows : c->cols);
}

static int
length(const Case *c)
{
	return 1 << (c->axis ? c->cols : c->rows);
}

static const char zero_and_read[] =
    "    %%0 = const {value = 0} : i64\n"
    "    %%v = read %%x, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #0\n";

static void
put_kernel(Case *c, const char *params)
{
	int r = 1 << c->rows, k = 1 << c->cols;
	text_printf(&c->text, "kernel @k(%%x: in %s[%d, %d], %s) grid(g) warps(4) {\n", c->type, r, k, params);
	text_printf(&c->text, zero_and_read, r, k, c->type, r, k);
}

static DType
sum_type(DType t)
{
	if (dtype_is_float(t))
		return t == TY_F64 ? t : TY_F32;
	return dtype_info[t].bits < 32 ? TY_I32 : t;
}

static void
reductions(void **state)
{
	static const char *const fns[] = {"sum", "max", "min", "argmax", "argmin"};
	for (int trial = 0; trial < TRIALS * 2; trial++) {
		Case *c = malloc(sizeof *c);
		char params[64];
		begin(c, (uint64_t)trial + 1, 7);
		int f = below(&c->seed, LEN(fns)), n = lines(c);
		DType out = f == 0 ? sum_type(c->t) : f > 2 ? TY_I32 : c->t;
		c->out[0] = out;
		snprintf(params, sizeof params, "%%y: out %s[%d]", dtype_info[out].text, n);
		put_kernel(c, params);
		text_printf(&c->text, "    %%r = reduce %%v {fn = \"%s\", axis = %d} : %s[%d] #2\n"
		    "    write %%y, %%0, %%r {index = \"p\", extents = [%d]}\n}\n", fns[f], c->axis, dtype_info[out].text, n, n);
		for (int i = 0; i < n; i++) {
			int best = 0;
			int64_t sum = 0;
			for (int j = 0; j < length(c); j++) {
				int64_t v = c->x[at(c, i, j)], b = c->x[at(c, i, best)];
				sum += v;
				best = (f == 1 || f == 3) ? (v > b ? j : best) : (v < b ? j : best);
			}
			c->want[i] = f == 0 ? sum : f > 2 ? best : c->x[at(c, i, best)];
		}
		run(c, 2, 1, &n);
		free(c);
	}
}

/* Functions composed: (a, b) then (c, d) is (a c, b c + d), which does not commute. */
static const char composed[] =
    " fn (%a: i32, %b: i32, %c: i32, %d: i32) {\n"
    "        %p = mul %a, %c : i32\n        %q = mul %b, %c : i32\n        %s = add %q, %d : i32\n"
    "        yield %p, %s\n    }\n";

static void
functions(void **state)
{
	for (int trial = 0; trial < TRIALS * 2; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128];
		begin(c, (uint64_t)trial + 5000, 100);
		bool scans = below(&c->seed, 2), reverse = scans && below(&c->seed, 2);
		int r = 1 << c->rows, k = 1 << c->cols, n = lines(c), count[2];
		c->out[0] = c->out[1] = TY_I32;
		if (scans)
			snprintf(params, sizeof params, "%%y: out i32[%d, %d], %%z: out i32[%d, %d]", r, k, r, k);
		else
			snprintf(params, sizeof params, "%%y: out i32[%d], %%z: out i32[%d]", n, n);
		put_kernel(c, params);
		text_printf(&c->text, "    %%w = cast %%v : i32[%d, %d] #0\n    %%m = const {value = 3} : i32[%d, %d] #0\n"
		    "    %%u = and %%w, %%m : i32[%d, %d] #0\n", r, k, r, k, r, k);
		if (scans)
			text_printf(&c->text, "    %%r, %%t = scan_fn %%u, %%w {axis = %d, reverse = %s} : i32[%d, %d] #1, i32[%d, %d] #1",
			    c->axis, reverse ? "true" : "false", r, k, r, k);
		else
			text_printf(&c->text, "    %%r, %%t = reduce_fn %%u, %%w {axis = %d} : i32[%d] #2, i32[%d] #2", c->axis, n, n);
		text_put(&c->text, composed);
		for (int o = 0; o < 2; o++)
			if (scans)
				text_printf(&c->text, "    write %%%c, %%0, %%0, %%%c {index = \"pp\", extents = [%d, %d]}\n", "yz"[o],
				    "rt"[o], r, k);
			else
				text_printf(&c->text, "    write %%%c, %%0, %%%c {index = \"p\", extents = [%d]}\n", "yz"[o], "rt"[o], n);
		text_put(&c->text, "}\n");
		for (int i = 0; i < n; i++) {
			uint32_t a = 1, b = 0;
			for (int j = 0; j < length(c); j++) {
				int e = at(c, i, reverse ? length(c) - 1 - j : j);
				uint32_t v = (uint32_t)c->x[e], p = v & 3;
				a = j ? a * p : p;
				b = j ? b * p + v : v;
				c->want[scans ? e : i] = (int32_t)a;
				c->want2[scans ? e : i] = (int32_t)b;
			}
		}
		count[0] = count[1] = scans ? r * k : n;
		run(c, 3, 2, count);
		free(c);
	}
}

static int
order_of(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* What each line is in order, and where its elements were; the first `kept`, in lines of kc columns. */
static void
want_order(Case *c, bool falls, int kept, int kc)
{
	int len = length(c);
	int64_t (*line)[2] = malloc(sizeof *line * (size_t)len);
	for (int i = 0; i < lines(c); i++) {
		for (int j = 0; j < len; j++) {
			line[j][0] = falls ? -c->x[at(c, i, j)] : c->x[at(c, i, j)];
			line[j][1] = j;
		}
		qsort(line, (size_t)len, sizeof line[0], order_of);
		for (int j = 0; j < kept; j++) {
			int e = c->axis ? i * kc + j : j * kc + i;
			c->want[e] = falls ? -line[j][0] : line[j][0];
			c->want2[e] = line[j][1];
		}
	}
	free(line);
}

/* Scans by sum, sorts and the greatest few. */
static void
lines_in_order(void **state)
{
	for (int trial = 0; trial < TRIALS * 3; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128];
		begin(c, (uint64_t)trial + 9000, 9);
		int which = below(&c->seed, 4), r = 1 << c->rows, k = 1 << c->cols, n = lines(c), len = length(c), count[2];
		bool flag = below(&c->seed, 2);
		int keep = which == 2 ? below(&c->seed, (c->axis ? c->cols : c->rows) + 1) : 0;
		int kr = which == 2 && !c->axis ? 1 << keep : r, kc = which == 2 && c->axis ? 1 << keep : k;
		c->out[0] = which == 0 ? sum_type(c->t) : c->t;
		c->out[1] = TY_I32;
		if (which == 3) {
			snprintf(params, sizeof params, "%%y: out %s[%d, %d], %%z: out i32[%d, %d]", c->type, r, k, r, k);
		} else if (which == 2) {
			put_layout(&c->text, 3, c->axis ? c->rows : keep, c->axis ? keep : c->cols, &c->seed);
			snprintf(params, sizeof params, "%%y: out %s[%d, %d], %%z: out i32[%d, %d]", c->type, kr, kc, kr, kc);
		} else {
			snprintf(params, sizeof params, "%%y: out %s[%d, %d]", dtype_info[c->out[0]].text, r, k);
		}
		put_kernel(c, params);
		if (which == 0)
			text_printf(&c->text, "    %%r = scan %%v {fn = \"sum\", axis = %d, reverse = %s} : %s[%d, %d] #1\n", c->axis,
			    flag ? "true" : "false", dtype_info[c->out[0]].text, r, k);
		else if (which == 1)
			text_printf(&c->text, "    %%r = sort %%v {axis = %d, descending = %s} : %s[%d, %d] #0\n", c->axis,
			    flag ? "true" : "false", c->type, r, k);
		else if (which == 3)
			text_printf(&c->text, "    %%r, %%i = sort %%v {axis = %d, descending = %s, indices = true} : %s[%d, %d] #0, "
			    "i32[%d, %d] #1\n    write %%z, %%0, %%0, %%i {index = \"pp\", extents = [%d, %d]}\n", c->axis,
			    flag ? "true" : "false", c->type, r, k, r, k, r, k);
		else
			text_printf(&c->text, "    %%r, %%i = topk %%v {k = %d, axis = %d} : %s[%d, %d] #3, i32[%d, %d] #3\n"
			    "    write %%z, %%0, %%0, %%i {index = \"pp\", extents = [%d, %d]}\n", 1 << keep, c->axis, c->type, kr, kc,
			    kr, kc, kr, kc);
		text_printf(&c->text, "    write %%y, %%0, %%0, %%r {index = \"pp\", extents = [%d, %d]}\n}\n", kr, kc);
		for (int i = 0; which == 0 && i < n; i++) {
			int64_t sum = 0;
			for (int j = 0; j < len; j++) {
				int e = at(c, i, flag ? len - 1 - j : j);
				c->want[e] = sum += c->x[e];
			}
		}
		if (which)
			want_order(c, which == 2 || flag, which == 2 ? 1 << keep : len, kc);
		count[0] = count[1] = kr * kc;
		run(c, which >= 2 ? 3 : 2, which >= 2 ? 2 : 1, count);
		free(c);
	}
}

/* Lines of which the block's shared memory holds a part. */
static void
long_lines(void **state)
{
	enum { BITS = 12, BESIDE = 4096, CONVERTED = 9 };       /* bits of what goes into another layout at once */
	for (int trial = 0; trial < 30; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128];
		uint64_t s = (uint64_t)trial * 77 + 5;
		int rows = trial % 3 == 0 ? 0 : below(&s, BITS + 1);
		begin_shape(c, (uint64_t)trial + 60000, 100, rows, BITS - rows);
		c->room = BESIDE + (2560 << below(&c->seed, 4));
		int r = 1 << c->rows, k = 1 << c->cols, bits = c->axis ? c->cols : c->rows, count[2];
		bool few = BITS - bits <= CONVERTED && below(&c->seed, 2), flag = below(&c->seed, 2);
		int keep = few ? below(&c->seed, MIN(bits, CONVERTED - (BITS - bits)) + 1) : bits;
		int kr = c->axis ? r : 1 << keep, kc = c->axis ? 1 << keep : k;
		c->out[1] = TY_I32;
		put_layout(&c->text, 3, c->axis ? c->rows : keep, c->axis ? keep : c->cols, &c->seed);
		snprintf(params, sizeof params, "%%y: out %s[%d, %d], %%z: out i32[%d, %d]", c->type, kr, kc, kr, kc);
		put_kernel(c, params);
		if (few)
			text_printf(&c->text, "    %%r, %%i = topk %%v {k = %d, axis = %d} : %s[%d, %d] #3, i32[%d, %d] #3\n",
			    1 << keep, c->axis, c->type, kr, kc, kr, kc);
		else
			text_printf(&c->text, "    %%r, %%i = sort %%v {axis = %d, descending = %s, indices = true} : %s[%d, %d] #0, "
			    "i32[%d, %d] #0\n", c->axis, flag ? "true" : "false", c->type, r, k, r, k);
		text_printf(&c->text, "    write %%y, %%0, %%0, %%r {index = \"pp\", extents = [%d, %d]}\n"
		    "    write %%z, %%0, %%0, %%i {index = \"pp\", extents = [%d, %d]}\n}\n", kr, kc, kr, kc);
		want_order(c, few || flag, 1 << keep, kc);
		count[0] = count[1] = kr * kc;
		run(c, 3, 2, count);
		free(c);
	}
}

static int64_t
held(int64_t start, int64_t most)
{
	return start < 0 ? 0 : MIN(start, most);
}

/* Flips, gathers, parts, counts. */
static void
lookups(void **state)
{
	for (int trial = 0; trial < TRIALS * 3; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128];
		begin(c, (uint64_t)trial + 20000, 20);
		int which = below(&c->seed, 4), r = 1 << c->rows, k = 1 << c->cols, count[2] = {r * k};
		if (which == 3 && dtype_is_float(c->t))
			which = 0;
		snprintf(params, sizeof params, "%%y: out %s[%d, %d]", c->type, r, k);
		if (which == 1 && below(&c->seed, 2))   /* a piece at a time */
			c->room = 4096 + (64 << below(&c->seed, 6));
		if (which == 1)
			snprintf(params, sizeof params, "%%i: in i8[%d, %d], %%y: out %s[%d, %d]", r, k, c->type, r, k);
		int pr = below(&c->seed, c->rows + 1), pc = below(&c->seed, c->cols + 1), bins = 1 << below(&c->seed, 5);
		if (which == 2) {
			put_layout(&c->text, 3, pr, pc, &c->seed);
			snprintf(params, sizeof params, "%%y: out %s[%d, %d]", c->type, 1 << pr, 1 << pc);
		} else if (which == 3) {
			put_layout(&c->text, 3, -1, __builtin_ctz((unsigned)bins), &c->seed);
			snprintf(params, sizeof params, "%%y: out i32[%d]", bins);
			c->out[0] = TY_I32;
		}
		put_kernel(c, params);
		int len = length(c), s0 = below(&c->seed, r + 6) - 3, s1 = below(&c->seed, k + 6) - 3;
		bool is_aligned = trial % 3 > 0;
		s0 &= is_aligned ? -(1 << pr) : -1;
		s1 &= is_aligned ? -(1 << pc) : -1;
		for (int e = 0; e < r * k; e++) {
			int i = c->axis ? e / k : e % k, j = c->axis ? e % k : e / k;
			c->y[e] = below(&c->seed, len + 4) - 2;
			store(TY_I8, c->memory[1], e, c->y[e]);
			if (which == 0)
				c->want[e] = c->x[at(c, i, len - 1 - j)];
			else if (which == 1)
				c->want[e] = c->y[e] >= 0 && c->y[e] < len ? c->x[at(c, i, (int)c->y[e])] : 0;
			else if (which == 3 && c->x[e] < bins)
				c->want[c->x[e]]++;
		}
		for (int i = 0; which == 2 && i < 1 << pr; i++)
			for (int j = 0; j < 1 << pc; j++)
				c->want[i << pc | j] =
				    c->x[(held(s0, r - (1 << pr)) + i) * k + held(s1, k - (1 << pc)) + j];
		if (which == 0)
			text_printf(&c->text, "    %%r = flip %%v {axis = %d} : %s[%d, %d] #0\n", c->axis, c->type, r, k);
		else if (which == 1)
			text_printf(&c->text, "    %%j = read %%i, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : i8[%d, %d] #1\n"
			    "    %%r = gather %%v, %%j {axis = %d} : %s[%d, %d] #1\n", r, k, r, k, c->axis, c->type, r, k);
		else if (which == 2)
			text_printf(&c->text, "    %%a = const {value = %d} : i64\n    %%b = const {value = %d} : i64\n"
			    "    %%r = extract %%v, %%a, %%b {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #3\n", s0, s1, 1 << pr,
			    1 << pc, c->type, 1 << pr, 1 << pc);
		else
			text_printf(&c->text, "    %%r = histogram %%v {bins = %d} : i32[%d] #3\n"
			    "    write %%y, %%0, %%r {index = \"p\", extents = [%d]}\n}\n", bins, bins, bins);
		if (which == 2)
			count[0] = 1 << (pr + pc);
		else if (which == 3)
			count[0] = bins;
		if (which != 3)
			text_printf(&c->text, "    write %%y, %%0, %%0, %%r {index = \"pp\", extents = [%d, %d]}\n}\n",
			    which == 2 ? 1 << pr : r, which == 2 ? 1 << pc : k);
		run(c, which == 1 ? 3 : 2, 1, count);
		free(c);
	}
}

static int64_t
scattered_one(int which, int64_t old, int64_t v)
{
	switch (which) {
	case 0: return v;
	case 1: return old + v;
	case 2: return MAX(old, v);
	default: return MIN(old, v);
	}
}

/* Values of one shape into a tile of the same shape, at places inside and outside, some of them more than once. */
static void
scatters(void **state)
{
	static const char *const fn[] = {"set", "add", "max", "min"};
	for (int trial = 0; trial < TRIALS * 2; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128];
		begin(c, (uint64_t)trial + 30000, 20);
		int which = below(&c->seed, 4), r = 1 << c->rows, k = 1 << c->cols, count[2] = {r * k}, len = length(c);
		put_layout(&c->text, 3, c->rows, c->cols, &c->seed);
		if (which == 0 && below(&c->seed, 2))   /* owners and values one after the other; so much a conversion takes */
			c->room = MAX(r * k * 8, 16);
		snprintf(params, sizeof params, "%%i: in i8[%d, %d], %%u: in %s[%d, %d], %%y: out %s[%d, %d]", r, k, c->type, r,
		    k, c->type, r, k);
		put_kernel(c, params);
		memcpy(c->want, c->x, sizeof c->want);
		for (int i = 0; i < lines(c); i++)
			for (int j = 0; j < len; j++) {
				int e = at(c, i, j), to = below(&c->seed, len + 4) - 2;
				store(TY_I8, c->memory[1], e, to);
				store(c->t, c->memory[2], e, c->z[e] = below(&c->seed, 4));
				if (to >= 0 && to < len)
					c->want[at(c, i, to)] = scattered_one(which, c->want[at(c, i, to)], c->z[e]);
			}
		text_printf(&c->text, "    %%j = read %%i, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : i8[%d, %d] #1\n"
		    "    %%w = read %%u, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #3\n", r, k, r, k, r, k, c->type,
		    r, k);
		text_printf(&c->text, "    %%r = scatter %%v, %%j, %%w {axis = %d, fn = \"%s\"} : %s[%d, %d] #1\n"
		    "    write %%y, %%0, %%0, %%r {index = \"pp\", extents = [%d, %d]}\n}\n", c->axis, fn[which], c->type, r, k, r, k);
		run(c, 4, 1, count);
		free(c);
	}
}

/* A row, a column, an element. */
static void
parts(void **state)
{
	for (int trial = 0; trial < TRIALS; trial++) {
		Case *c = malloc(sizeof *c);
		char params[128], type[64], extents[32];
		begin(c, (uint64_t)trial + 60000, 20);
		int r = 1 << c->rows, k = 1 << c->cols, which = trial % 3, count[2] = {which == 0 ? k : which == 1 ? r : 1};
		int s0 = below(&c->seed, r + 2) - 1, s1 = below(&c->seed, k + 2) - 1;
		snprintf(type, sizeof type, which == 2 ? "%s" : "%s[%d]", c->type, count[0]);
		snprintf(extents, sizeof extents, which == 2 ? "[]" : "[%d]", count[0]);
		snprintf(params, sizeof params, "%%y: out %s[%d]", c->type, count[0]);
		if (which != 2)
			put_layout(&c->text, 3, -1, which == 0 ? c->cols : c->rows, &c->seed);
		put_kernel(c, params);
		text_printf(&c->text, "    %%a = const {value = %d} : i64\n    %%b = const {value = %d} : i64\n"
		    "    %%r = extract %%v, %s, %s {index = \"%s\", extents = %s} : %s%s\n", s0, s1, which == 1 ? "%0" : "%a",
		    which == 0 ? "%0" : "%b", which == 0 ? "ip" : which == 1 ? "pi" : "ii", extents, type,
		    which == 2 ? "" : " #3");
		text_printf(&c->text, "    write %%y, %%0, %%r {index = \"%s\", extents = %s}\n}\n", which == 2 ? "i" : "p",
		    extents);
		for (int i = 0; i < count[0]; i++)
			c->want[i] = c->x[which == 0   ? held(s0, r - 1) * k + i
			                  : which == 1 ? i * k + held(s1, k - 1)
			                               : held(s0, r - 1) * k + held(s1, k - 1)];
		run(c, 2, 1, count);
		free(c);
	}
}

/* a [m, k] @ b [k, n] + c, in any layouts: no instruction takes them, so they are multiplied and added. */
static void
products(void **state)
{
	for (int trial = 0; trial < TRIALS; trial++) {
		Case *c = malloc(sizeof *c);
		begin(c, (uint64_t)trial + 40000, 5);
		int m = below(&c->seed, 6), n = below(&c->seed, 6), k = below(&c->seed, 7), count[2] = {1 << (m + n)};
		DType out = sum_type(c->t);
		const char *t = c->type, *o = dtype_info[out].text;
		c->out[0] = out;
		c->text.n = 0;
		text_put(&c->text, "facts(TYPED, LAYOUTS)\n");
		put_layout(&c->text, 0, m, k, &c->seed);
		put_layout(&c->text, 1, k, n, &c->seed);
		put_layout(&c->text, 2, m, n, &c->seed);
		put_layout(&c->text, 3, m, n, &c->seed);
		for (int i = 0; i < MOST; i++) {
			store(c->t, c->memory[0], i, c->x[i] = below(&c->seed, 5));
			store(c->t, c->memory[1], i, c->y[i] = below(&c->seed, 5));
			store(out, c->memory[2], i, c->z[i] = below(&c->seed, 5));
		}
		for (int i = 0; i < 1 << m; i++)
			for (int j = 0; j < 1 << n; j++) {
				int64_t sum = c->z[i << n | j];
				for (int p = 0; p < 1 << k; p++)
					sum += c->x[i << k | p] * c->y[p << n | j];
				c->want[i << n | j] = sum;
			}
		text_printf(&c->text, "kernel @k(%%a: in %s[%d, %d], %%b: in %s[%d, %d], %%c: in %s[%d, %d], %%y: out %s[%d, %d]) "
		    "grid(g) warps(4) {\n    %%0 = const {value = 0} : i64\n", t, 1 << m, 1 << k, t, 1 << k, 1 << n, o, 1 << m, 1 << n,
		    o, 1 << m, 1 << n);
		text_printf(&c->text, "    %%u = read %%a, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #0\n", 1 << m,
		    1 << k, t, 1 << m, 1 << k);
		text_printf(&c->text, "    %%v = read %%b, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #1\n", 1 << k,
		    1 << n, t, 1 << k, 1 << n);
		text_printf(&c->text, "    %%w = read %%c, %%0, %%0 {index = \"pp\", extents = [%d, %d]} : %s[%d, %d] #3\n", 1 << m,
		    1 << n, o, 1 << m, 1 << n);
		text_printf(&c->text, "    %%r = dot %%u, %%v, %%w : %s[%d, %d] #2\n"
		    "    write %%y, %%0, %%0, %%r {index = \"pp\", extents = [%d, %d]}\n}\n", o, 1 << m, 1 << n, 1 << m, 1 << n);
		run(c, 4, 1, count);
		free(c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts), cmocka_unit_test(reductions), cmocka_unit_test(functions), cmocka_unit_test(lines_in_order),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(lookups), cmocka_unit_test(scatters), cmocka_unit_test(products),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
