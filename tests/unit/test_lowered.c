/* Lowering without a GPU: small modules with layouts of every kind are lowered, run by the emulator, and what
 * they leave in memory is compared with what it must be.
 *
 * Conversions: an index tile in one random layout is converted to another and written; each element must be its own
 * index.  Layouts are random single bits of the tile dealt to registers, lanes and warps, with repeats among all three,
 * so that renaming, exchanges by lane, shuffles and shared memory are all met.
 *
 * Arithmetic: every elementwise op and every cast on every dtype, bit patterns of all kinds, against the interpreter's
 * loops, which define the numbers; on a target with fp8 conversions and on one without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/num.h"
#include "lower/lower.h"
#include "lowered_help.h"

enum { WARPS_LOG2 = 2, LANES_LOG2 = 5 };

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

/* A random layout of a tile [2^rows, 2^cols]: its bits shuffled, some of them to lanes and warps, which repeat where none
 * is left or chance has it, the rest to registers, of which one may repeat. */
static void
put_layout(Text *out, int n, int rows, int cols, uint64_t *seed)
{
	int bit[16], total = rows + cols, used = 0;
	for (int i = 0; i < total; i++)
		bit[i] = i;
	for (int i = total - 1; i > 0; i--) {
		int k = below(seed, i + 1), t = bit[i];
		bit[i] = bit[k];
		bit[k] = t;
	}
	Text part[3] = {0};
	for (int p = 0; p < 2; p++)
		for (int i = 0; i < (p ? WARPS_LOG2 : LANES_LOG2); i++) {
			bool repeats = used == total || below(seed, 4) == 0;
			int b = repeats ? -1 : bit[used++];
			text_printf(&part[p], "%s[%d, %d]", i ? ", " : "", b >= cols ? 1 << (b - cols) : 0,
			    b >= 0 && b < cols ? 1 << b : 0);
		}
	text_put(&part[2], "");
	int regs = 0;
	for (; used < total; used++, regs++)
		text_printf(&part[2], "%s[%d, %d]", regs ? ", " : "", bit[used] >= cols ? 1 << (bit[used] - cols) : 0,
		    bit[used] < cols ? 1 << bit[used] : 0);
	if (below(seed, 3) == 0)
		text_printf(&part[2], "%s[0, 0]", regs ? ", " : "");
	text_printf(out, "layout #%d = layout(shape = [%d, %d], register = [%s], lane = [%s], warp = [%s], block = [])\n", n,
	    1 << rows, 1 << cols, part[2].at, part[0].at, part[1].at);
	for (int p = 0; p < 3; p++)
		text_close(&part[p]);
}

/* Lowers the one function of a text and runs one block of it over `param`; false, why filled, if the block does what
 * none may. */
static bool
try_text(const char *text, const char *target, const uint64_t *param, char *why, size_t why_size)
{
	Compile *cx = compile_open();
	const Target *t = target_named(target);
	int file = source_text(cx, "test.tir", text, strlen(text));
	Module *m = module_parse(cx, file);
	Text report = {0};
	if (!m) {
		diag_print(cx, &report, 0, false);
		fail_msg("%s\n%s", text, report.at);
	}
	SimtReport r;
	bool ok = run_func(m->funcs.at[0], t, param, 1, &r);
	snprintf(why, why_size, "%s (line %d)", r.text, r.place.line);
	text_close(&report);
	compile_close(cx);
	return ok;
}

static void
run_text(const char *text, const char *target, const uint64_t *param)
{
	char why[512];
	if (!try_text(text, target, param, why, sizeof why))
		fail_msg("%s\n%s", text, why);
}

static void
convert_once(uint64_t *seed, const char *type, int bytes)
{
	int rows = below(seed, 4), cols = 1 + below(seed, 6), n = 1 << (rows + cols);
	uint8_t *memory = calloc((size_t)n, 8);
	uint64_t param[4] = {(uint64_t)(uintptr_t)memory, 1};
	Text text = {0};
	text_put(&text, "facts(TYPED, LAYOUTS)\n");
	put_layout(&text, 0, rows, cols, seed);
	put_layout(&text, 1, rows, cols, seed);
	text_printf(&text,
	    "kernel @k(%%y: out %s[%d, %d]) grid(i) warps(4) {\n"
	    "    %%0 = const {value = 0} : i64\n"
	    "    %%r = iota {axis = 0} : i32[%d, %d] #0\n"
	    "    %%c = iota {axis = 1} : i32[%d, %d] #0\n"
	    "    %%w = const {value = %d} : i32[%d, %d] #0\n"
	    "    %%p = mul %%r, %%w : i32[%d, %d] #0\n"
	    "    %%x = add %%p, %%c : i32[%d, %d] #0\n"
	    "    %%v = cast %%x : %s[%d, %d] #0\n"
	    "    %%z = convert %%v : %s[%d, %d] #1\n"
	    "    write %%y, %%0, %%0, %%z {index = \"pp\", extents = [%d, %d]}\n"
	    "}\n",
	    type, 1 << rows, 1 << cols, 1 << rows, 1 << cols, 1 << rows, 1 << cols, 1 << cols, 1 << rows, 1 << cols,
	    1 << rows, 1 << cols, 1 << rows, 1 << cols, type, 1 << rows, 1 << cols, type, 1 << rows, 1 << cols, 1 << rows,
	    1 << cols);
	run_text(text.at, "sm_90a", param);
	for (int i = 0; i < n; i++) {
		uint64_t v = 0, want = bytes == 8 ? (uint64_t)i : (uint64_t)i & ((UINT64_C(1) << 8 * bytes) - 1);
		memcpy(&v, memory + i * bytes, (size_t)bytes);
		if (v != want)
			fail_msg("%s\nelement %d is %llu", text.at, i, (unsigned long long)v);
	}
	text_close(&text);
	free(memory);
}

static void
conversions(void **state)
{
	static const struct {
		const char *type;
		int bytes;
	} types[] = {{"i32", 4}, {"i8", 1}, {"i16", 2}, {"i64", 8}};
	uint64_t seed = 88172645463325252u;
	for (int i = 0; i < 4000; i++)
		convert_once(&seed, types[i % 4].type, types[i % 4].bytes);
}

/* ---- arithmetic ---- */

enum { N = 4096 };

/* Bits of every kind: small numbers, all ones, powers of two, anything; in the format of tiles. */
static void
fill(DType t, uint8_t *tile, uint64_t *seed)
{
	int size = dtype_tile_size(t), bits = dtype_info[t].bits;
	for (int i = 0; i < N; i++) {
		uint64_t v = next(seed) << 32 ^ next(seed);
		if (bits <= 8)
			v = (uint64_t)i >> (seed[0] & 1 ? 4 : 0);
		else if (i % 4 == 1)
			v = (uint64_t)(int64_t)(below(seed, 9) - 4);
		else if (i % 4 == 2)
			v = (UINT64_C(1) << below(seed, bits)) - (uint64_t)below(seed, 3);
		if (dtype_is_float(t) && bits >= 32 && i % 4 == 3) {
			double d = (double)(int64_t)(below(seed, 4000) - 2000) / (1 + below(seed, 64));
			dtype_store_f64(t, tile, i, d);
			continue;
		}
		if (t == TY_BOOL)
			v &= 1;
		else if (!dtype_is_float(t) && bits < 8)
			v = (uint64_t)int_wrap(t, (int64_t)v);
		else if (bits < 8)
			v &= 15;
		memcpy(tile + i * size, &v, (size_t)size);
	}
}

static bool
same(DType t, const uint8_t *a, const uint8_t *b, int i)
{
	int size = dtype_tile_size(t);
	if (memcmp(a + i * size, b + i * size, (size_t)size) == 0)
		return true;
	if (!dtype_is_float(t) || t == TY_F4E2M1)
		return false;
	double x = dtype_load_f64(t, a, i), y = dtype_load_f64(t, b, i);
	return x != x && y != y;
}

/* A tile as memory holds it. */
static uint8_t *
to_memory(DType t, const uint8_t *tile)
{
	uint8_t *m = calloc(N, 8);
	if (dtype_is_packed(t))
		tile_pack(tile, m, 0, N);
	else
		memcpy(m, tile, (size_t)N * (size_t)dtype_tile_size(t));
	return m;
}

static void
from_memory(DType t, const uint8_t *m, uint8_t *tile)
{
	if (dtype_is_packed(t))
		tile_unpack(t, m, 0, tile, N);
	else
		memcpy(tile, m, (size_t)N * (size_t)dtype_tile_size(t));
}

/* {attrs} is what stands in the op's braces, or "". */
static void
check_op(OpKind kind, const char *attrs, const DType *in, int nin, DType out, const char *target, int vector,
    uint64_t *seed)
{
	static const char letters[] = "abc";
	uint8_t *tile[4], *memory[4], *got = calloc(N, 8);
	const void *operand[3];
	uint64_t param[5];
	Text text = {0};
	Elem e;
	unsigned flags = strstr(attrs, "nan") ? ELEM_NAN : 0;
	text_printf(&text, "facts(TYPED, LAYOUTS)\nlayout #0 = layout(shape = [%d], register = [[1], [2], [4], [1024], [2048]], "
	    "lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], block = [])\nkernel @k(", N);
	for (int i = 0; i < nin; i++)
		text_printf(&text, "%%%c: in %s[%d], ", letters[i], dtype_info[in[i]].text, N);
	text_printf(&text, "%%y: out %s[%d]) grid(g) warps(4) {\n    %%0 = const {value = 0} : i64\n", dtype_info[out].text, N);
	for (int i = 0; i < nin; i++)
		text_printf(&text, "    %%x%c = read %%%c, %%0 {index = \"p\", extents = [%d], vector = %d} : %s[%d] #0\n",
		    letters[i], letters[i], N, vector, dtype_info[in[i]].text, N);
	text_printf(&text, "    %%r = %s ", op_info[kind].text);
	for (int i = 0; i < nin; i++)
		text_printf(&text, "%s%%x%c", i ? ", " : "", letters[i]);
	text_printf(&text, " %s : %s[%d] #0\n    write %%y, %%0, %%r {index = \"p\", extents = [%d], vector = %d}\n}\n", attrs,
	    dtype_info[out].text, N, N, vector);
	for (int i = 0; i <= nin; i++) {
		DType t = i < nin ? in[i] : out;
		tile[i] = calloc(N, 8);
		if (i < nin)
			fill(t, tile[i], seed);
		memory[i] = to_memory(t, tile[i]);
		param[i] = (uint64_t)(uintptr_t)memory[i];
		if (i < nin)
			operand[i] = tile[i];
	}
	param[nin + 1] = 1;
	assert_true(elem_make(&e, CPU_BASE, kind, in, nin, out, flags));
	elem_run(&e, tile[nin], operand, 0, N);
	run_text(text.at, target, param);
	from_memory(out, memory[nin], got);
	for (int i = 0; i < N; i++)
		if (!same(out, got, tile[nin], i)) {
			fprintf(stderr, "%s %s -> %s on %s, element %d:", op_info[kind].text, dtype_info[in[0]].text,
			    dtype_info[out].text, target, i);
			for (int k = 0; k < nin; k++)
				fprintf(stderr, " %.17g", dtype_is_float(in[k]) || !dtype_is_unsigned(in[k])
				    ? (dtype_is_packed(in[k]) ? (double)tile[k][i] : dtype_load_f64(in[k], tile[k], i))
				    : (double)(uint64_t)dtype_load_i64(in[k], tile[k], i));
			fail_msg(" gives %#llx, not %#llx", (unsigned long long)dtype_load_i64(TY_U8, got, i * dtype_tile_size(out)),
			    (unsigned long long)dtype_load_i64(TY_U8, tile[nin], i * dtype_tile_size(out)));
		}
	for (int i = 0; i <= nin; i++) {
		free(tile[i]);
		free(memory[i]);
	}
	free(got);
	text_close(&text);
}

static const char *const targets[] = {"sm_90a", "sm_80"};

static void
casts(void **state)
{
	uint64_t seed = 123456789;
	for (int a = 0; a < DTYPE_COUNT; a++)
		for (int b = 0; b < DTYPE_COUNT; b++)
			for (int t = 0; t < LEN(targets); t++) {
				DType in = (DType)a, out = (DType)b;
				bool packed = dtype_is_packed(in) || dtype_is_packed(out);
				check_op(OP_CAST, "", &in, 1, out, targets[t], packed ? 2 << t : 1, &seed);
			}
}

/* Ops whose operands and result are of one type, or that compare. */
static bool
is_plain(OpKind k)
{
	return (op_info[k].traits & ELEM) && (k == OP_REM || op_info[k].family != FAMILY_MATH) && k != OP_CAST &&
	    k != OP_BITCAST && k != OP_PTR_ADD && k != OP_PTR_DIFF && k != OP_SELECT && k != OP_PHILOX && k != OP_LOOKUP;
}

static void
arithmetic(void **state)
{
	uint64_t seed = 987654321;
	for (int k = 0; k < OP_COUNT; k++)
		for (int t = 0; t < DTYPE_COUNT; t++) {
			OpKind kind = (OpKind)k;
			DType in[3] = {(DType)t, (DType)t, (DType)t}, out = (DType)t;
			bool real = dtype_is_float(out);
			if (!is_plain(kind) || (real && (op_info[k].traits & ANYI)) || (!real && (op_info[k].traits & ANYF)))
				continue;
			if (op_info[k].family == FAMILY_COMPARE)
				out = TY_BOOL;
			if (t == TY_BOOL && !(op_info[k].traits & BOOLS))
				continue;               /* does not infer */
			if (dtype_is_packed((DType)t) || (kind == OP_REM && real))
				continue;               /* storage types; a mathematical function */
			check_op(kind, "", in, op_info[k].nin, out, targets[t & 1], 2, &seed);
			if (kind == OP_MIN || kind == OP_MAX)
				check_op(kind, "{propagate_nan = true}", in, 2, out, targets[t & 1], 2, &seed);
		}
}

/* ---- atomics ---- */

/* 128 elements meet in four places: sums of small whole numbers, extremes and bits come out the same in any order. */
static void
check_atomic(const char *fn, OpKind kind, DType t, const char *target, uint64_t *seed)
{
	uint8_t x[128 * 8] = {0}, want[4 * 8] = {0}, *got = calloc(4, 8), *data = calloc(128, 8);
	uint64_t param[3] = {(uint64_t)(uintptr_t)data, (uint64_t)(uintptr_t)got, 1};
	int size = dtype_tile_size(t);
	Text text = {0};
	Elem e;
	for (int i = 0; i < 128; i++)
		dtype_store_f64(t, x, i, below(seed, 3) + (kind == OP_ADD ? 0 : i % 7));
	memcpy(data, x, (size_t)(128 * size));
	for (int i = 0; i < 4; i++)
		dtype_store_f64(t, want, i, kind == OP_AND ? 7 : i);
	memcpy(got, want, (size_t)(4 * size));
	text_printf(&text,
	    "facts(TYPED, LAYOUTS)\n"
	    "layout #0 = layout(shape = [128], register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64], [0]], "
	    "block = [])\n"
	    "kernel @k(%%x: in %s[128], %%y: inout %s[4]) grid(i) warps(4) {\n"
	    "    %%0 = const {value = 0} : i64\n"
	    "    %%v = read %%x, %%0 {index = \"p\", extents = [128]} : %s[128] #0\n"
	    "    %%i = iota {axis = 0} : i32[128] #0\n"
	    "    %%3 = const {value = 3} : i32[128] #0\n"
	    "    %%at = and %%i, %%3 : i32[128] #0\n"
	    "    %%old = atomic %%y, %%at, %%v {index = \"g\", fn = \"%s\", order = \"relaxed\"} : %s[128] #0\n"
	    "}\n",
	    dtype_info[t].text, dtype_info[t].text, dtype_info[t].text, fn, dtype_info[t].text);
	assert_true(elem_make(&e, CPU_BASE, kind, (DType[]){t, t}, 2, t, 0));
	for (int i = 0; i < 128; i++) {
		uint8_t *at = want + (i & 3) * size;
		elem_run(&e, at, (const void *[]){at, x + i * size}, 0, 1);
	}
	run_text(text.at, target, param);
	if (memcmp(got, want, (size_t)(4 * size)) != 0)
		fail_msg("%s\non %s: wrong", text.at, target);
	text_close(&text);
	free(got);
	free(data);
}

static void
atomics(void **state)
{
	static const struct {
		const char *fn;
		OpKind kind;
	} fns[] = {{"add", OP_ADD}, {"min", OP_MIN}, {"max", OP_MAX}, {"and", OP_AND}, {"or", OP_OR}, {"xor", OP_XOR}};
	uint64_t seed = 5;
	for (int f = 0; f < LEN(fns); f++)
		for (int t = 0; t < DTYPE_COUNT; t++) {
			bool eight = t == TY_F8E4M3 || t == TY_F8E5M2;  /* their sums are rounded on the way */
			if (t == TY_BOOL || dtype_is_packed((DType)t) || (f > 2 && dtype_is_float((DType)t)) || (f == 0 && eight))
				continue;
			check_atomic(fns[f].fn, fns[f].kind, (DType)t, targets[t & 1], &seed);
		}
}

/* ---- what the machine must find ---- */

static void
check_found(const char *text, const uint64_t *param, const char *want)
{
	char why[512] = "";
	assert_false(try_text(text, "sm_90a", param, why, sizeof why));
	if (!strstr(why, want))
		fail_msg("found \"%s\", not \"%s\"", why, want);
}

static void
findings(void **state)
{
	_Alignas(16) uint8_t memory[64 * 64 * 4] = {0};
	uint64_t aligned[3] = {(uint64_t)(uintptr_t)memory, 1}, shifted[3] = {(uint64_t)(uintptr_t)memory + 4, 1};
	static const char layouts[] =
	    "facts(TYPED, LAYOUTS, SMEM, SYNCED)\n"
	    "layout #0 = layout(shape = [32, 32], register = [[0, 1], [0, 2], [16, 0]], lane = [[0, 4], [0, 8], [0, 16], "
	    "[1, 0], [2, 0]], warp = [[4, 0], [8, 0]], block = [])\n"
	    "layout #1 = layout(shape = [32, 32], register = [[1, 0], [2, 0], [0, 16]], lane = [[4, 0], [8, 0], [16, 0], "
	    "[0, 1], [0, 2]], warp = [[0, 4], [0, 8]], block = [])\n"
	    "kernel @k(%y: inout f32[32, 32]) grid(i) warps(4) {\n"
	    "    %0 = const {value = 0} : i64\n"
	    "    %v = read %y, %0, %0 {index = \"pp\", extents = [32, 32], vector = 4} : f32[32, 32] #0\n";
	static const char *const second[] = {"", ", sync = true"};
	for (int i = 0; i < 2; i++) {
		Text text = {0};
		text_printf(&text, "%s    %%w = convert %%v {smem = 0} : f32[32, 32] #1\n"
		    "    %%x = convert %%v {smem = 0%s} : f32[32, 32] #1\n"
		    "    %%z = add %%w, %%x : f32[32, 32] #1\n"
		    "    write %%y, %%0, %%0, %%z {index = \"pp\", extents = [32, 32]}\n}\n", layouts, second[i]);
		if (i == 0)
			check_found(text.at, aligned, "race in shared memory");
		else
			run_text(text.at, "sm_90a", aligned);
		if (i == 1)
			check_found(text.at, shifted, "not a multiple of 16");
		text_close(&text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(conversions), cmocka_unit_test(casts), cmocka_unit_test(arithmetic),
	    cmocka_unit_test(atomics), cmocka_unit_test(findings)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
