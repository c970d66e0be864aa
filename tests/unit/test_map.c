/* Bulk copies by tensor maps, from tile IR to what the emulator does: a tile of a tensor goes through a slot of boxes into
 * another tensor.  What is outside is 0, for starts on both sides of the tensor and tensors without elements. */
#include "interp_help.h"

#include "pass/pass.h"
#include "runtime/device.h"
#include "target/target.h"

typedef struct Case {
	const char *type, *dims, *index, *tile, *order;  /* of the tensor, of the copy, of the slot */
	int64_t dim[3], start[3], extent[3];            /* extent: 1 where the letter is i */
	int row_bytes, slots;
} Case;

static const char text_of[] =
    "facts(TYPED, LAYOUTS, STAGED)\n"
    "layout #0 = %s\n"
    "layout #1 = blocked(shape = [%s], lanes = [%s], warps = [%s])\n"
    "kernel @k(%%x: in %s[%s] multiple(16), %%y: out %s[%s] multiple(16), %%i: i64, %%j: i64, %%k: i64, %%A: dim,"
    " %%B: dim multiple(16), %%C: dim multiple(16)) warps(4) {\n"
    "	%%0 = const {value = 0} : i64\n"
    "	%%1 = const {value = 1} : i64\n"
    "	%%b = alloc : buffer<%d x %s[%s]> #0\n"
    "	%%full = mbarrier {count = 1} : mbarrier<%d>\n"
    "	%%s = slot %%b, %s : buffer<1 x %s[%s]> #0\n"
    "	expect %%full, %s {bytes = %d}\n"
    "	%%t = copy %%x, %s, %%s, %%full, %s {index = \"%s\", extents = [%s], kind = \"bulk\"} : token\n"
    "	await %%full, %s, %%0\n"
    "	%%v = get %%s : %s[%s] #1\n"
    "	write %%y, %s, %%v {index = \"%s\", extents = [%s]}\n"
    "}\n";

static int
bytes_of(const Case *c)
{
	return c->type[0] == 'b' || c->type[1] == '1' ? 2 : c->type[1] == '8' ? 1 : 4;
}

static int
rank_of(const char *tile)
{
	int n = 1;
	for (; *tile; tile++)
		n += *tile == ',';
	return n;
}

static char *
text_for(const Case *c)
{
	static const char *const zeros[] = {"", "%0", "%0, %0", "%0, %0, %0"}, *const parts[] = {"", "p", "pp", "ppp"};
	static const char *const lanes[] = {"", "32", "4, 8", "1, 4, 8"}, *const warps[] = {"", "4", "4, 1", "1, 4, 1"};
	int rank = rank_of(c->tile), tensor = (int)strlen(c->index), n = bytes_of(c);
	const char *at = c->slots > 1 ? "%1" : "%0", *where = tensor == 3 ? "%i, %j, %k" : tensor == 2 ? "%i, %j" : "%i";
	char *out = malloc(4096), layout[200];
	for (int d = 0; d < tensor; d++)
		n *= (int)c->extent[d];
	if (c->row_bytes)
		snprintf(layout, sizeof layout, "boxed(shape = [%s], order = [%s], row_bytes = %d, elem_bytes = %d)", c->tile,
		    c->order, c->row_bytes, bytes_of(c));
	else
		snprintf(layout, sizeof layout, "swizzled(shape = [%s])", c->tile);
	snprintf(out, 4096, text_of, layout, c->tile, lanes[rank], warps[rank], c->type, c->dims, c->type, c->tile, c->slots,
	    c->type, c->tile, c->slots, at, c->type, c->tile, at, n, where, at, c->index, c->tile, at, c->type, c->tile,
	    zeros[rank], parts[rank], c->tile);
	return out;
}

static Func *
compiled(Compile *cx, const char *text)
{
	Module *m = parse_module(cx, text);
	PassOptions opt = {.only = "smem,barrier", .verify = true};
	Text out = {0};
	if (!passes_run(m, target_named("sm_90a"), &opt)) {
		diag_print(cx, &out, 0, false);
		fail_msg("%s", out.at);
	}
	return m->funcs.at[0];
}

/* Element `at` of the tile as the tensor has it, or 0. */
static uint32_t
wanted(const Case *c, const PlanArg *x, int64_t at)
{
	int rank = (int)strlen(c->index), bytes = bytes_of(c);
	int64_t from = 0;
	uint32_t v = 0;
	for (int d = rank - 1; d >= 0; d--) {
		int64_t i = c->start[d] + at % c->extent[d];
		at /= c->extent[d];
		if (i < 0 || i >= x->dim[d])
			return 0;
		from += i * x->stride[d];
	}
	memcpy(&v, (char *)x->data + from * bytes, (size_t)bytes);
	return v;
}

static void
run_case(const Case *c)
{
	const TglDeviceOptions opt = {0};
	const DeviceHooks hooks = {0};
	const int64_t grid[MAX_AXES] = {1, 1, 1};
	Device d = device_simt;
	Compile *cx = compile_open();
	int rank = (int)strlen(c->index), bytes = bytes_of(c);
	int64_t count = 1, n = 1;
	char *text = text_for(c);
	const char *why = NULL;
	Fault fault = {0};
	Func *f = compiled(cx, text);
	assert_true(d.open(&d, 0, &opt, &hooks));
	Loaded *l = d.load(&d, f, &why);
	if (!l) {
		Text out = {0};
		diag_print(cx, &out, 0, false);
		fail_msg("%s%s", text, out.at ? out.at : why);
	}
	PlanArg arg[8] = {0};
	for (int a = 0; a < rank; a++) {
		count *= c->dim[a];
		n *= c->extent[a];
		arg[2 + a] = (PlanArg){.i = c->start[a], .dtype = TY_I64};
		arg[5 + a].i = c->dim[a];
	}
	size_t size[2] = {(size_t)(count * bytes), (size_t)(n * bytes)};
	for (int a = 0; a < 2; a++) {
		int64_t step = 1;
		arg[a].data = arg[a].low = d.alloc(&d, size[a]);
		arg[a].high = arg[a].low + size[a];
		for (int k = rank - 1, to = a ? rank_of(c->tile) - 1 : rank - 1; k >= 0; k--) {
			if (a && c->index[k] == 'i')
				continue;
			arg[a].dim[to] = a ? c->extent[k] : c->dim[k];
			arg[a].stride[to] = step;
			step *= arg[a].dim[to--];
		}
	}
	for (size_t i = 0; i < size[0]; i++)
		arg[0].low[i] = (char)(1 + i * 7 + i / 251);
	if (!d.launch(&d, l, arg, grid, &fault))
		fail_msg("%s%s%s", text, fault.text, d.error.text);
	for (int64_t i = 0; i < n; i++) {
		uint32_t got = 0, want = wanted(c, &arg[0], i);
		memcpy(&got, (char *)arg[1].data + i * bytes, (size_t)bytes);
		if (got != want)
			fail_msg("%selement %lld is %x, not %x", text, (long long)i, got, want);
	}
	for (int a = 0; a < 2; a++)
		d.free(&d, arg[a].data, size[a]);
	d.unload(&d, l);
	d.close(&d);
	compile_close(cx);
	free(text);
}

#define FAR (INT64_C(1) << 40)

static void
tiles(void **state)
{
	(void)state;
	static const Case cases[] = {
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {0, 0}, {64, 256}, 128, 1},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {64, 256}, {64, 256}, 128, 2},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {-3, -9}, {64, 256}, 128, 1},
		{"f16", "A, B", "pp", "512, 32", "1, 0", {500, 40}, {1, 5}, {512, 32}, 64, 2},
		{"f16", "A, B", "pp", "4, 128", "1, 0", {5, 200}, {1, 3}, {4, 128}, 128, 1},
		{"u8", "A, B", "pp", "128, 128", "1, 0", {130, 144}, {77, 13}, {128, 128}, 128, 1},
		{"u8", "A, B", "pp", "32, 64", "1, 0", {130, 144}, {FAR, 0}, {32, 64}, 32, 1},
		{"f32", "A, B", "pp", "32, 64", "1, 0", {33, 68}, {0, -FAR}, {32, 64}, 128, 2},
		{"f32", "A, B", "pp", "64, 32", "1, 0", {33, 44}, {20, 20}, {64, 32}, 64, 1},
		{"u32", "A, B", "pp", "16, 32", "1, 0", {33, 44}, {20, 20}, {16, 32}, 32, 1},
		{"u32", "A, B", "pp", "16, 32", "1, 0", {33, 44}, {20, 20}, {16, 32}, 16, 1},
		{"u32", "A, B", "pp", "16, 256", "1, 0", {33, 300}, {20, 120}, {16, 256}, 0, 2},
		{"f32", "A", "p", "1024", "0", {999}, {3}, {1024}, 0, 2},
		{"f16", "A, B, C", "ipp", "64, 64", "1, 0", {3, 70, 72}, {1, 20, 30}, {1, 64, 64}, 128, 1},
		{"f16", "A, B, C", "ipp", "64, 64", "1, 0", {3, 70, 72}, {3, 20, 30}, {1, 64, 64}, 128, 1},
		{"f16", "A, B, C", "pip", "64, 64", "1, 0", {70, 3, 72}, {60, 2, 30}, {64, 1, 64}, 128, 1},
		{"f32", "A, B, C", "ppp", "4, 16, 64", "2, 1, 0", {5, 18, 68}, {2, 3, 7}, {4, 16, 64}, 128, 2},
		{"f32", "A, B, C", "ppp", "4, 16, 64", "2, 0, 1", {5, 18, 68}, {2, 3, 7}, {4, 16, 64}, 128, 2},
		{"bf16", "A, B", "pp", "64, 64", "1, 0", {0, 64}, {0, 0}, {64, 64}, 128, 1},
		{"bf16", "A, B", "pp", "64, 64", "1, 0", {64, 0}, {0, 0}, {64, 64}, 128, 1},
	};
	for (int i = 0; i < LEN(cases); i++)
		run_case(&cases[i]);
}

/* What no map serves is refused with the reason. */
static void
refused(void **state)
{
	(void)state;
	static const struct {
		const char *what, *with, *why;
	} cases[] = {
		{"in bf16[A, B] multiple(16)", "in bf16[A, B]", "address"},
		{"%B: dim multiple(16)", "%B: dim multiple(4)", "rows are not known"},
		{"row_bytes = 128", "row_bytes = 128, order = [0, 1]", "contiguous dimension"},
		{"boxed(shape = [64, 256], row_bytes = 128, elem_bytes = 2)", "swizzled(shape = [64, 256], vector = 8, phases = 8)",
		 "not of boxes"},
		{"extents = [64, 256], kind", "extents = [64, 256], valid = [64, 200], kind", "powers of two"},
		{"in bf16[A, B]", "in strided bf16[A, B]", "strides are not known"},
	};
	Case c = {"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {0, 0}, {64, 256}, 128, 1};
	for (int i = 0; i < LEN(cases); i++) {
		char *text = text_for(&c), *plain = strstr(text, "order = [1, 0], "), changed[4096];
		memmove(plain, plain + 16, strlen(plain + 16) + 1);
		char *at = strstr(text, cases[i].what);
		assert_non_null(at);
		snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].with, at + strlen(cases[i].what));
		Compile *cx = compile_open();
		Device d = device_simt;
		Text out = {0};
		const char *why = "";
		Func *f = compiled(cx, changed);
		assert_true(d.open(&d, 0, &(TglDeviceOptions){0}, &(DeviceHooks){0}));
		assert_null(d.load(&d, f, &why));
		diag_print(cx, &out, 0, false);
		if (!out.at || !strstr(out.at, cases[i].why))
			fail_msg("%s%s", changed, out.at ? out.at : why);
		text_close(&out);
		d.close(&d);
		compile_close(cx);
		free(text);
	}
}

/* A launch whose tensor no map has fails. */
static void
too_long(void **state)
{
	(void)state;
	TensorMap m = {.param = 0, .elem_bytes = 1, .rank = 2, .dim = {1, 0}, .box = {16, 1}};
	PlanArg arg = {.dim = {2, INT64_C(1) << 31}, .stride = {INT64_C(1) << 31, 1}};
	DeviceError e = {0};
	MapShape shape;
	assert_false(abi_map(&e, &m, &arg, 0, &shape));
	assert_non_null(strstr(e.text, "dimension 1 of parameter 0"));
	arg.dim[1] = 64;
	arg.stride[0] = INT64_C(1) << 40;
	assert_false(abi_map(&e, &m, &arg, 0, &shape));
	arg.dim[0] = 1;
	assert_true(abi_map(&e, &m, &arg, 0, &shape));
	assert_int_equal(shape.stride[1], 16);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiles),
		cmocka_unit_test(refused),
		cmocka_unit_test(too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
