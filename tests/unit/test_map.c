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

/* The other way: a tile into a tensor. */
static const char send_text[] =
    "facts(TYPED, LAYOUTS, STAGED)\n"
    "layout #0 = boxed(shape = [%s], order = [%s], row_bytes = %d, elem_bytes = %d)\n"
    "layout #1 = blocked(shape = [%s], lanes = [%s], warps = [%s])\n"
    "kernel @k(%%x: in %s[%s] multiple(16), %%y: inout %s[%s] multiple(16), %%i: i64, %%j: i64, %%k: i64, %%A: dim,"
    " %%B: dim multiple(16), %%C: dim multiple(16)) warps(4) {\n"
    "	%%0 = const {value = 0} : i64\n"
    "	%%b = alloc : buffer<1 x %s[%s]> #0\n"
    "	%%v = read %%x, %s {index = \"%s\", extents = [%s]} : %s[%s] #1\n"
    "	put %%b, %%v\n"
    "	proxy_fence\n"
    "	send %%y, %s, %%b {index = \"%s\", extents = [%s]}\n"
    "	sent {read = true}\n"
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

static const char *const zeros[] = {"", "%0", "%0, %0", "%0, %0, %0"}, *const parts[] = {"", "p", "pp", "ppp"};
static const char *const lanes[] = {"", "32", "4, 8", "1, 4, 8"}, *const warps[] = {"", "4", "4, 1", "1, 4, 1"};

static char *
send_text_for(const Case *c)
{
	int rank = rank_of(c->tile), tensor = (int)strlen(c->index);
	const char *where = tensor == 3 ? "%i, %j, %k" : "%i, %j";
	char *out = malloc(4096);
	snprintf(out, 4096, send_text, c->tile, c->order, c->row_bytes, bytes_of(c), c->tile, lanes[rank], warps[rank], c->type,
	    c->tile, c->type, c->dims, c->type, c->tile, zeros[rank], parts[rank], c->tile, c->type, c->tile, where, c->index,
	    c->tile);
	return out;
}

static char *
text_for(const Case *c)
{
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

/* Where element `at` of the tile stands in the tensor, in bytes; -1: outside. */
static int64_t
position(const Case *c, const PlanArg *tensor, int64_t at)
{
	int64_t from = 0;
	for (int d = (int)strlen(c->index) - 1; d >= 0; d--) {
		int64_t i = c->start[d] + at % c->extent[d];
		at /= c->extent[d];
		if (i < 0 || i >= tensor->dim[d])
			return -1;
		from += i * tensor->stride[d];
	}
	return from * bytes_of(c);
}

/* Of a tensor of the case, or of its tile. */
static void
make_arg(Device *d, const Case *c, bool is_tile, PlanArg *out)
{
	int rank = (int)strlen(c->index), to = is_tile ? rank_of(c->tile) - 1 : rank - 1;
	int64_t step = 1;
	for (int k = rank - 1; k >= 0; k--) {
		if (is_tile && c->index[k] == 'i')
			continue;
		out->dim[to] = is_tile ? c->extent[k] : c->dim[k];
		out->stride[to] = step;
		step *= out->dim[to--];
	}
	size_t size = (size_t)(step * bytes_of(c));
	out->data = out->low = d->alloc(d, size);
	out->high = out->low + size;
	for (size_t i = 0; i < size; i++)
		out->low[i] = (char)((is_tile ? 101 : 1) + i * 7 + i / 251);
}

/* As it comes from the tensor, 0 outside; or as it went there, where the rest stays. */
static void
compare(const Case *c, const char *text, const PlanArg *tensor, const char *tile, char *left)
{
	int bytes = bytes_of(c);
	int64_t n = 1, all = tensor->high - tensor->low;
	for (int d = 0; d < (int)strlen(c->index); d++)
		n *= c->extent[d];
	for (int64_t i = 0; i < n; i++) {
		uint64_t got = 0, want = 0;
		int64_t at = position(c, tensor, i);
		memcpy(&want, at < 0 ? (char *)&got : tensor->low + at, (size_t)bytes);
		memcpy(&got, tile + i * bytes, (size_t)bytes);
		if (left && at >= 0)
			memcpy(left + at, tensor->low + at, (size_t)bytes);
		if (got != want && (!left || at >= 0))
			fail_msg("%selement %lld is %llx, not %llx", text, (long long)i, (unsigned long long)got,
			    (unsigned long long)want);
	}
	assert_true(!left || memcmp(left, tensor->low, (size_t)all) == 0);
}

static void
run_case(const Case *c, bool sends)
{
	const TglDeviceOptions opt = {0};
	const DeviceHooks hooks = {0};
	const int64_t grid[MAX_AXES] = {1, 1, 1};
	Device d = device_simt;
	Compile *cx = compile_open();
	char *text = sends ? send_text_for(c) : text_for(c), *left = NULL;
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
	for (int a = 0; a < (int)strlen(c->index); a++) {
		arg[2 + a] = (PlanArg){.i = c->start[a], .dtype = TY_I64};
		arg[5 + a].i = c->dim[a];
	}
	for (int a = 0; a < 2; a++)
		make_arg(&d, c, a != sends, &arg[a]);
	size_t size = (size_t)(arg[1].high - arg[1].low);
	if (sends) {
		left = malloc(size + 1);
		memcpy(left, arg[1].low, size);
	}
	if (!d.launch(&d, l, arg, grid, &fault))
		fail_msg("%s%s%s", text, fault.text, d.error.text);
	compare(c, text, &arg[sends], arg[!sends].low, left);
	for (int a = 0; a < 2; a++)
		d.free(&d, arg[a].data, (size_t)(arg[a].high - arg[a].low));
	d.unload(&d, l);
	d.close(&d);
	compile_close(cx);
	free(text);
	free(left);
}

#define FAR (INT64_C(1) << 40)

static void
tiles(void **state)
{
	(void)state;
	static const Case cases[] = {
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {0, 0}, {64, 256}, 128, 1},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {64, 256}, {64, 256}, 128, 2},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {-3, -16}, {64, 256}, 128, 1},
		{"f16", "A, B", "pp", "512, 32", "1, 0", {500, 40}, {1, 8}, {512, 32}, 64, 2},
		{"f16", "A, B", "pp", "4, 128", "1, 0", {5, 200}, {1, 8}, {4, 128}, 128, 1},
		{"u8", "A, B", "pp", "128, 128", "1, 0", {130, 144}, {77, 16}, {128, 128}, 128, 1},
		{"u8", "A, B", "pp", "32, 64", "1, 0", {130, 144}, {FAR, 0}, {32, 64}, 32, 1},
		{"f32", "A, B", "pp", "32, 64", "1, 0", {33, 68}, {0, -FAR}, {32, 64}, 128, 2},
		{"f32", "A, B", "pp", "64, 32", "1, 0", {33, 44}, {20, 20}, {64, 32}, 64, 1},
		{"u32", "A, B", "pp", "16, 32", "1, 0", {33, 44}, {20, 20}, {16, 32}, 32, 1},
		{"u32", "A, B", "pp", "16, 32", "1, 0", {33, 44}, {20, 20}, {16, 32}, 16, 1},
		{"u32", "A, B", "pp", "16, 256", "1, 0", {33, 300}, {20, 120}, {16, 256}, 0, 2},
		{"f32", "A", "p", "1024", "0", {999}, {4}, {1024}, 0, 2},
		{"f16", "A, B, C", "ipp", "64, 64", "1, 0", {3, 70, 72}, {1, 20, 32}, {1, 64, 64}, 128, 1},
		{"f16", "A, B, C", "ipp", "64, 64", "1, 0", {3, 70, 72}, {3, 20, 32}, {1, 64, 64}, 128, 1},
		{"f16", "A, B, C", "pip", "64, 64", "1, 0", {70, 3, 72}, {60, 2, 32}, {64, 1, 64}, 128, 1},
		{"f32", "A, B, C", "ppp", "4, 16, 64", "2, 1, 0", {5, 18, 68}, {2, 3, 8}, {4, 16, 64}, 128, 2},
		{"f32", "A, B, C", "ppp", "4, 16, 64", "2, 0, 1", {5, 18, 68}, {2, 3, 8}, {4, 16, 64}, 128, 2},
		{"bf16", "A, B", "pp", "64, 64", "1, 0", {0, 64}, {0, 0}, {64, 64}, 128, 1},
		{"bf16", "A, B", "pp", "64, 64", "1, 0", {64, 0}, {0, 0}, {64, 64}, 128, 1},
	};
	for (int i = 0; i < LEN(cases); i++)
		run_case(&cases[i], false);
}

static void
sends(void **state)
{
	(void)state;
	static const Case cases[] = {
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {0, 0}, {64, 256}, 128, 1},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {64, 256}, {64, 256}, 128, 1},
		{"bf16", "A, B", "pp", "64, 256", "1, 0", {100, 328}, {61, 96}, {64, 256}, 128, 1},
		{"f32", "A, B", "pp", "32, 64", "1, 0", {33, 68}, {5, FAR}, {32, 64}, 128, 1},
		{"f32", "A, B", "pp", "64, 32", "1, 0", {33, 44}, {20, 20}, {64, 32}, 64, 1},
		{"u8", "A, B", "pp", "32, 64", "1, 0", {30, 144}, {1, 16}, {32, 64}, 32, 1},
		{"f16", "A, B, C", "pip", "64, 64", "1, 0", {70, 3, 72}, {60, 2, 32}, {64, 1, 64}, 128, 1},
		{"f32", "A, B, C", "ppp", "4, 16, 64", "2, 0, 1", {5, 18, 68}, {2, 3, 8}, {4, 16, 64}, 128, 1},
		{"bf16", "A, B", "pp", "64, 64", "1, 0", {0, 64}, {0, 0}, {64, 64}, 128, 1},
	};
	for (int i = 0; i < LEN(cases); i++)
		run_case(&cases[i], true);
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

/* Corners follow from the launch: x[B, 20, 30, 64], 3 x 5 filters, padding 1 and 2, steps of 2 along columns. */
static void
corners(void **state)
{
	(void)state;
	TensorMap m = {.param = 0, .elem_bytes = 2, .rank = 4, .dim = {3, 2, 1, 0}, .box = {64, 128, 1, 1}, .windows = 2,
		.window = {{.step = 2, .lower = {-2, 0}, .count = {0, 1, {{1, 1, -1}}}, .reach = {4, 0}},
			{.step = 1, .lower = {0, 1, {{-1, 2, -1}}}, .count = {-1, 2, {{1, 0, 1}, {1, 2, -1}}}, .reach = {2, 0}}}};
	PlanArg args[3] = {{.dim = {3, 20, 30, 64}, .stride = {38400, 1920, 64, 1}}, {.i = 15}, {.i = 1}};
	DeviceError e = {0};
	MapShape shape;
	assert_true(abi_map(&e, &m, args, 0, &shape));
	assert_int_equal(shape.lower[0], -2);
	assert_int_equal(shape.upper[0], -2 + 28 + 1 - 30);
	assert_int_equal(shape.lower[1], -1);
	assert_int_equal(shape.upper[1], -1 + 19 + 1 - 20);
	assert_true(abi_windows_fit(&m, 1, args));
	args[1].i = 80;                                     /* the box ends 127 columns behind the image, 129 */
	assert_true(abi_windows_fit(&m, 1, args));
	args[1].i = 81;
	assert_false(abi_windows_fit(&m, 1, args));
	assert_false(abi_map(&e, &m, args, 0, &shape));
	assert_non_null(strstr(e.text, "windows of parameter 0"));
	args[1].i = 15;
	m.window[0].reach.number = 256;
	assert_false(abi_windows_fit(&m, 1, args));
	args[1].i = INT64_MAX;
	assert_false(abi_windows_fit(&m, 1, args));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiles),
		cmocka_unit_test(sends),
		cmocka_unit_test(refused),
		cmocka_unit_test(too_long),
		cmocka_unit_test(corners),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
