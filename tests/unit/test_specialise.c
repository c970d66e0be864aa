/* Forms of a kernel for a GPU: what code assumes of a launch's arguments, when two launches share a form, and
 * that no process compiles what another has.
 *
 * The GPU is the cpu device with another way to load and launch, which runs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/case/case.h"

static const char source[] =
    "kernel scale<BLOCK = 64, T: dtype = f32>(x: in T[N], y: out T[N], a: f32, n: i32)\n"
    "    grid(i: cdiv(N, BLOCK)) {\n"
    "    y[i * BLOCK +: BLOCK] = (a * x[i * BLOCK +: BLOCK] + (n as f32)) as T;\n"
    "}\n"
    "kernel fixed(x: in f32[8, N], y: out f32[8, N], s: scratch f32[N]) grid(i: N) {\n"
    "    s[i] = x[0, i];\n"
    "    y[0 +: 8, i] = x[0 +: 8, i];\n"
    "}\n"
    "kernel rows(x: in strided f32[M, 512], y: out f32[M, 512]) grid(i: M) {\n"
    "    y[i, :] = x[i, :];\n"
    "}\n";

typedef struct Fixture {
	char folder[64];
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
	TglKernel *k;
} Fixture;

/* ---- the device ---- */

static Loaded *
fake_load(Device *d, const Artefact *a)
{
	if (!a->bytes || !strstr(a->bytes, ".entry"))
		return NULL;
	return calloc(1, 64);
}

static Loaded *
fake_refuse(Device *d, const Artefact *a)
{
	d->error.what = DEVICE_FAILED;
	snprintf(d->error.text, sizeof d->error.text, "refused");
	return NULL;
}

static void
fake_unload(Device *d, Loaded *l)
{
	free(l);
}

static bool
fake_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	return true;
}

static void
open_all(Fixture *f, const char *text)
{
	f->cx = tgl_context_open();
	tgl_context_cache(f->cx, &(TglCacheOptions){.folder = f->folder});
	f->dev = tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.threads = 1});
	f->dev->dev.target = "sm_90a";
	f->dev->dev.load_artefact = fake_load;
	f->dev->dev.unload = fake_unload;
	f->dev->dev.launch = fake_launch;
	f->p = tgl_program_text(f->cx, "k.tgl", text, strlen(text));
	if (!f->p)
		fprintf(stderr, "%s", tgl_error(f->cx)->text);
	assert_non_null(f->p);
	f->k = tgl_kernel(f->p, "scale");
}

static void
close_all(Fixture *f)
{
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
}

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	unsetenv("TEGULA_CACHE");
	strcpy(f->folder, "/tmp/tegula-forms-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	open_all(f, source);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	char command[128];
	close_all(f);
	snprintf(command, sizeof command, "rm -rf %s", f->folder);
	if (system(command) != 0)
		return -1;
	free(f);
	return 0;
}

/* ---- launches ---- */

typedef struct Launch {
	int64_t n, first;               /* elements; of the tensor that x and y are a part of */
	int64_t scalar;
	TglDType dtype;
	int block, warps;
} Launch;

static TglTensor *
part(Fixture *f, const Launch *l)
{
	TglTensor *whole = tgl_tensor(f->dev, l->dtype, 1, &(int64_t){l->n + 64});
	TglTensor *t = tgl_tensor_view(whole, &l->first, &l->n);
	assert_non_null(t);
	tgl_tensor_close(&whole);
	return t;
}

static TglStatus
launch(Fixture *f, Launch l)
{
	if (!l.dtype)
		l.dtype = TGL_F32;
	TglTensor *x = part(f, &l), *y = part(f, &l);
	TglArg args[6] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 2),
	    tgl_arg_int("n", l.scalar)};
	int n = 4;
	if (l.block)
		args[n++] = tgl_arg_int("BLOCK", l.block);
	if (l.warps)
		args[n++] = tgl_arg_int("warps", l.warps);
	TglStatus s = tgl_launch(f->dev, f->k, args, n, NULL);
	if (s != TGL_OK)
		fprintf(stderr, "%s", tgl_error(f->cx)->text);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	return s;
}

/* How many forms the launches so far have taken: compiled, or found. */
static int64_t
forms(Fixture *f, int64_t *found)
{
	TglCacheInfo info;
	assert_int_equal(tgl_cache_info(f->cx, &info), TGL_OK);
	if (found)
		*found = info.found;
	return info.compiled;
}

/* Values of which the same is assumed share a form. */
static void
test_shared_forms(void **state)
{
	Fixture *f = *state;
	assert_int_equal(launch(f, (Launch){.n = 1024}), TGL_OK);
	assert_int_equal(forms(f, NULL), 1);
	launch(f, (Launch){.n = 4096}); /* of whole tiles, both */
	assert_int_equal(forms(f, NULL), 1);
	launch(f, (Launch){.n = 16, .scalar = 32});
	launch(f, (Launch){.n = 1040, .first = 4, .scalar = -16});
	assert_int_equal(forms(f, NULL), 2);
	launch(f, (Launch){.n = 1000}); /* 8 divides it */
	assert_int_equal(forms(f, NULL), 3);
	launch(f, (Launch){.n = 1001});
	launch(f, (Launch){.n = 0}); /* nothing is assumed of 0 */
	assert_int_equal(forms(f, NULL), 4);
	launch(f, (Launch){.n = 1024, .first = 1}); /* 4 bytes */
	launch(f, (Launch){.n = 1024, .scalar = 1});
	launch(f, (Launch){.n = 1024, .dtype = TGL_F16});
	launch(f, (Launch){.n = 1024, .block = 128});
	launch(f, (Launch){.n = 1024, .warps = 2});
	assert_int_equal(forms(f, NULL), 9);
	launch(f, (Launch){.n = 2048, .first = 3});
	launch(f, (Launch){.n = 3, .scalar = 48});
	launch(f, (Launch){.n = 2048, .scalar = 7});
	launch(f, (Launch){.n = 2048, .block = 64}); /* the default, said */
	launch(f, (Launch){.n = 24});
	int64_t found;
	assert_int_equal(forms(f, &found), 9);
	assert_int_equal(found, 0);
}

/* Scratch that does not exist yet is assumed as it will be, and constant extents are part of the name. */
static void
test_scratch_and_constants(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "fixed");
	for (int i = 1; i <= 2; i++) {
		TglTensor *x = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){8, 32 * i});
		TglTensor *y = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){8, 32 * i});
		TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
		if (tgl_launch(f->dev, k, args, 2, NULL) != TGL_OK)
			fail_msg("%s", tgl_error(f->cx)->text);
		tgl_tensor_close(&x);
		tgl_tensor_close(&y);
	}
	assert_int_equal(forms(f, NULL), 1);
}

/* Of a strided parameter code knows the contiguous dimension and what the others' strides are multiples of, up to 16 bytes:
 * so many forms there are, with accesses as wide as that permits, and a contiguous tensor has one of its own. */
static void
test_strides(void **state)
{
	static const struct {
		int64_t stride[2];
		int vector, strides, forms;
	} cases[] = {
	    {{1024, 1}, 4, 2, 1}, {{512, 1}, 4, 0, 2}, {{516, 1}, 4, 2, 2}, {{2052, 1}, 4, 2, 2}, {{514, 1}, 2, 2, 3},
	    {{513, 1}, 1, 2, 4}, {{1023, 1}, 1, 2, 4}, {{1, 16}, 1, 2, 5}, {{1, 48}, 1, 2, 5}, {{1, 18}, 1, 2, 6},
	    {{1024, 2}, 1, 2, 7}, {{3072, 6}, 1, 2, 7}, {{0, 1}, 4, 2, 7}, {{1024, 1}, 4, 2, 7}};
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "rows");
	TglTensor *y = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){16, 512});
	for (int i = 0; i < (int)LEN(cases); i++) {
		TglTensor *x = tgl_tensor_strided(f->dev, TGL_F32, 2, (int64_t[]){16, 512}, cases[i].stride);
		TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
		if (tgl_launch(f->dev, k, args, 2, NULL) != TGL_OK)
			fail_msg("%s", tgl_error(f->cx)->text);
		const Artefact *a = &k->instances->artefact;
		int strides = 0, seen = 0;
		for (int j = 0; j < a->nabi; j++) {
			strides += a->abi[j].kind == ABI_STRIDE;
			seen |= a->abi[j].kind == ABI_STRIDE ? 1 << a->abi[j].dim : 0;
		}
		assert_int_equal(strides, cases[i].strides);
		assert_int_equal(seen, strides ? 3 : 0);
		const char *wide[] = {[1] = NULL, [2] = "v2.", [4] = "v4."};
		for (int v = 2; v <= 4; v += 2) {
			Text nc = {0}, plain = {0};
			text_printf(&nc, "ld.global.nc.%s", wide[v]);
			text_printf(&plain, "ld.global.%s", wide[v]);
			assert_int_equal(strstr(a->bytes, nc.at) || strstr(a->bytes, plain.at), v == cases[i].vector);
			text_close(&nc);
			text_close(&plain);
		}
		int n = 0;
		for (const Instance *in = k->instances; in; in = in->next)
			n++;
		assert_int_equal(n, cases[i].forms);
		tgl_tensor_close(&x);
	}
	tgl_tensor_close(&y);
}

/* What one process compiled, no other does: the files and all else being the same. */
static void
test_warm(void **state)
{
	Fixture *f = *state;
	int64_t found;
	launch(f, (Launch){.n = 1024});
	launch(f, (Launch){.n = 1000, .warps = 2});
	assert_int_equal(forms(f, NULL), 2);
	for (int i = 0; i < 2; i++) {
		close_all(f);
		open_all(f, source);
		assert_int_equal(launch(f, (Launch){.n = 1024}), TGL_OK);
		assert_int_equal(launch(f, (Launch){.n = 1000, .warps = 2}), TGL_OK);
		assert_int_equal(forms(f, &found), 0);
		assert_int_equal(found, 2);
	}
	Text changed = {0};
	text_printf(&changed, "// another text\n%s", source);
	close_all(f);
	open_all(f, changed.at);
	launch(f, (Launch){.n = 1024});
	assert_int_equal(forms(f, &found), 1);
	assert_int_equal(found, 0);
	text_close(&changed);
}

/* Fewer passes make other code; another target too. */
static void
test_other_compilations(void **state)
{
	Fixture *f = *state;
	int64_t found;
	launch(f, (Launch){.n = 1024});
	close_all(f);
	open_all(f, source);
	tgl_context_compile(f->cx, &(TglCompileOptions){.skip = "licm"});
	launch(f, (Launch){.n = 1024});
	assert_int_equal(forms(f, &found), 1);
	assert_int_equal(found, 0);
	close_all(f);
	open_all(f, source);
	f->dev->dev.target = "sm_80";
	launch(f, (Launch){.n = 1024});
	assert_int_equal(forms(f, &found), 1);
	close_all(f);
	open_all(f, source);
	launch(f, (Launch){.n = 1024});
	assert_int_equal(forms(f, &found), 0);
}

/* What another version of the compiler made stays unused. */
static void
test_other_version(void **state)
{
	Fixture *f = *state;
	ArgAssumptions assumptions;
	Text key = {0};
	Binding b;
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 1, &(int64_t){64}), *y = tgl_tensor(f->dev, TGL_F32, 1, &(int64_t){64});
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 2), tgl_arg_int("n", 0)};
	assert_true(binding_collect(f->k, args, 4, false, &b) && binding_bind(f->k, &b));
	specialise(f->k, &b, b.mem, &assumptions);
	assert_int_equal(assumptions.param[0], 16);
	assert_int_equal(assumptions.param[2], 0); /* a float */
	assert_int_equal(assumptions.param[3], 16);
	assert_int_equal(assumptions.symbol[0], 64); /* a tile's extent */
	specialise_key(f->k, &b.bound, &assumptions, &key);
	Hash h = artefact_hash(f->k, "sm_90a", key.at, key.n), same = artefact_hash(f->k, "sm_90a", key.at, key.n);
	assert_memory_equal(&h, &same, sizeof h);
	Hash shorter = artefact_hash(f->k, "sm_90a", key.at, key.n - 1);
	assert_memory_not_equal(&h, &shorter, sizeof h);
	CacheAbout about = {.kernel = "scale", .file = "k.tgl", .target = "sm_90a", .values = ""};
	cache_put(context_cache(f->cx), &h, &about, "not an artefact", 15);
	assert_int_equal(launch(f, (Launch){.n = 64}), TGL_OK); /* whole bytes, but not of this version */
	assert_int_equal(forms(f, NULL), 1);
	text_close(&key);
	binding_close(&b);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* What was kept and can't be loaded is made anew; what can't be loaded even then is an error. */
static void
test_refused(void **state)
{
	Fixture *f = *state;
	launch(f, (Launch){.n = 1024});
	close_all(f);
	open_all(f, source);
	f->dev->dev.load_artefact = fake_refuse;
	assert_int_equal(launch(f, (Launch){.n = 1024}), TGL_ERROR_DEVICE);
	int64_t found;
	assert_int_equal(forms(f, &found), 1);
	assert_int_equal(found, 0);
}

/* A cache that does not work is a warning, once, and emptying it an error. */
static void
test_no_cache(void **state)
{
	Fixture *f = *state;
	tgl_context_cache(f->cx, &(TglCacheOptions){.folder = "/dev/null/none"});
	assert_int_equal(launch(f, (Launch){.n = 1024}), TGL_OK);
	assert_int_equal(tgl_error(f->cx)->nwarnings, 1);
	assert_string_equal(tgl_error(f->cx)->code, "W0401");
	assert_int_equal(launch(f, (Launch){.n = 1000}), TGL_OK);
	assert_int_equal(tgl_error(f->cx)->nwarnings, 0);
	int64_t n;
	assert_int_equal(tgl_cache_clear(f->cx, true, &n), TGL_OK);
	assert_int_equal(n, 0);
	tgl_context_cache(f->cx, &(TglCacheOptions){.off = true});
	assert_int_equal(launch(f, (Launch){.n = 1001}), TGL_OK);
	assert_int_equal(tgl_error(f->cx)->nwarnings, 0);
	TglCacheInfo info;
	assert_int_equal(tgl_cache_info(f->cx, &info), TGL_OK);
	assert_null(info.path);
	assert_int_equal(tgl_cache_info(f->cx, NULL), TGL_ERROR_USAGE);
	assert_int_equal(tgl_cache_info(NULL, &info), TGL_ERROR_USAGE);
	assert_int_equal(tgl_cache_list(f->cx, NULL, NULL), TGL_ERROR_USAGE);
}

/* Someone holds the database while it is to be emptied. */
static void
test_busy(void **state)
{
	Fixture *f = *state;
	int64_t n;
	launch(f, (Launch){.n = 1024});
	Cache *other = cache_open(&(CacheOptions){.folder = f->folder});
	assert_true(cache_run(other, "BEGIN IMMEDIATE"));
	assert_int_equal(tgl_cache_clear(f->cx, false, &n), TGL_ERROR_FILE);
	assert_string_equal(tgl_error(f->cx)->code, "E1145");
	assert_int_equal(launch(f, (Launch){.n = 1000}), TGL_OK); /* not kept, and nothing said */
	assert_int_equal(tgl_error(f->cx)->nwarnings, 0);
	assert_true(cache_run(other, "COMMIT"));
	cache_close(other);
	assert_int_equal(tgl_cache_clear(f->cx, false, &n), TGL_OK);
	assert_int_equal(n, 1);
}

static bool
keep_entry(void *user, const TglCacheEntry *e)
{
	Text *t = user;
	text_printf(t, "%s %s %s (%s) %d\n", e->kernel, e->file, e->target, e->values, e->current);
	return true;
}

static void
test_listing(void **state)
{
	Fixture *f = *state;
	Text t = {0};
	launch(f, (Launch){.n = 1024, .warps = 2});
	assert_int_equal(tgl_cache_list(f->cx, keep_entry, &t), TGL_OK);
	assert_string_equal(t.at, "scale k.tgl sm_90a (BLOCK = 64, T = f32, warps = 2) 1\n");
	text_close(&t);
	int64_t n;
	assert_int_equal(tgl_cache_prune(f->cx, 0, &n), TGL_OK);
	assert_int_equal(n, 0);
	assert_int_equal(tgl_cache_prune(f->cx, 1, &n), TGL_OK);
	assert_int_equal(n, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_shared_forms),
	    TEST(test_scratch_and_constants),
	    TEST(test_strides),
	    TEST(test_warm),
	    TEST(test_other_compilations),
	    TEST(test_other_version),
	    TEST(test_refused),
	    TEST(test_no_cache),
	    TEST(test_busy),
	    TEST(test_listing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
