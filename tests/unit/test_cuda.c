/* The CUDA device on a stand-in for the driver (tests/mock/cuda.c), which LD_LIBRARY_PATH must name: memory that the host
 * cannot reach, launches and what they pass, streams, graphs, faults, and a message for every failure. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tool/bench/rounds.h"

static const char source[] =
    "kernel copy<BLOCK = 64>(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, BLOCK)) {\n"
    "    y[i * BLOCK +: BLOCK] = x[i * BLOCK +: BLOCK];\n"
    "}\n"
    "reference copy { y[:] = x[:]; }\n"
    "example copy \"small\" { N = 100; x = normal(0, 1); }\n"
    "kernel values(x: in strided i16[M, N], y: out i32[2] = 7, s: scratch f64[M] = 1.5, a: f32, b: bf16, n: i64, t: bool)\n"
    "    grid(i: M, j: 3) {\n"
    "    s[i] = 1.0;\n"
    "    if (t) { y[0] = (x[i, 0] as i32) + (n as i32) + ((a + (b as f32)) as i32); }\n"
    "}\n"
    "kernel many(y: out i32[1], n: i64) grid(i: n) { y[0] = 1; }\n"
    "kernel pair(x: *f32, y: *mut f32, n: i32) grid(i: n) { store(y + i, load(x + i)); }\n";

/* ---- what the compiler would hand over ---- */

static struct {
	const char *mock;                                   /* lines of the kernel */
	int threads;
	int64_t shared;
	bool maps, grid, faults, counter, persistent, broken, waits;
	int cluster, parts_registers;
} plan;

static int
add_abi(Artefact *a, AbiKind kind, int param, int dim, int bytes)
{
	a->abi[a->nabi] = (AbiParam){kind, param, dim, bytes};
	return a->nabi++;
}

static void
list_abi(const Func *f, Artefact *a)
{
	for (int i = 0; i < f->nparam; i++) {
		const Type *t = f->body->arg[i].type;
		if (f->param[i].kind == PARAM_DIM)
			add_abi(a, ABI_DIM, i, 0, 8);
		else if (f->param[i].kind == PARAM_SCALAR)
			add_abi(a, ABI_SCALAR, i, 0, MAX(dtype_info[t->elem].bits / 8, 1));
		else
			add_abi(a, ABI_POINTER, i, 0, 8);
		for (int d = 0; f->param[i].strided && d < t->rank; d++)
			add_abi(a, ABI_STRIDE, i, d, 8);
	}
	a->map = calloc(2, sizeof *a->map);
	for (int i = 0; plan.maps && i < 2; i++) {
		add_abi(a, ABI_TENSOR_MAP, i, i, MAP_BYTES);
		a->map[a->nmaps++] = (TensorMap){.param = i, .elem_bytes = 4, .rank = 1, .box = {32}, .swizzle = 128};
	}
	for (int d = 0; plan.grid && d < f->naxis; d++)
		add_abi(a, ABI_GRID, 0, d, 4);
	if (plan.faults)
		add_abi(a, ABI_FAULTS, 0, 0, 8);
	if (plan.counter)
		add_abi(a, ABI_COUNTER, 0, 0, 8);
}

bool __wrap_compile_artefact(Module *m, const Target *t, Artefact *out);

bool
__wrap_compile_artefact(Module *m, const Target *t, Artefact *out)
{
	const Func *f = m->funcs.at[0];
	Text ptx = {0};
	*out = (Artefact){.form = FORM_PTX, .kernel = strdup(f->name), .threads = plan.threads ? plan.threads : 128,
	    .shared_bytes = plan.shared, .naxis = f->naxis, .persistent = plan.persistent, .cluster = plan.cluster,
	    .waits = plan.waits, .cluster_axis = -1, .parts_registers = plan.parts_registers,
	    .abi = calloc(64, sizeof(AbiParam)), .nasserts = 3};
	snprintf(out->target, sizeof out->target, "%s", t->name);
	out->asserts = calloc(3, sizeof *out->asserts);
	out->asserts[0] = strdup("a.tgl:1:2: first");
	out->asserts[1] = strdup("b:c.tgl:30:4: must hold: x");
	out->asserts[2] = strdup("b:c.tgl:4:3: here");
	list_abi(f, out);
	text_printf(&ptx, "%s.target %s\n.address_size 64\n.visible .entry %s(\n", plan.broken ? "" : ".version 8.4\n",
	    t->name, f->name);
	for (int i = 0; i < out->nabi; i++) {
		text_put(&ptx, i ? ",\n" : "");
		if (out->abi[i].kind == ABI_TENSOR_MAP)
			text_printf(&ptx, "\t.param .align 64 .b8 %s_param_%d[%d]", f->name, i, MAP_BYTES);
		else
			text_printf(&ptx, "\t.param .u%d %s_param_%d", 8 * out->abi[i].bytes, f->name, i);
	}
	bool fills = strcmp(f->name, "scatter") == 0;       /* what a race's copy reads: it has other parameters */
	text_printf(&ptx, "\n)\n{\n%s%s\n\tret;\n}\n", plan.waits ? "\tgriddepcontrol.wait;\n" : "",
	    plan.mock && !fills ? plan.mock : "");
	out->bytes = ptx.at;
	out->size = ptx.n + 1;
	return true;
}

/* ---- the fixture ---- */

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
	int (*calls)(const char *name);
	void (*forget)(void);
	int (*live)(void);
	const char *(*last)(void);
	int (*refs)(int device);
	void *lib;
} Fixture;

static void
clear_settings(void)
{
	const char *const names[] = {"DEVICES", "CAPABILITY", "DRIVER", "MEMORY", "PTX", "FAIL", "LOG"};
	char name[64];
	for (int i = 0; i < LEN(names); i++) {
		snprintf(name, sizeof name, "MOCK_CUDA_%s", names[i]);
		unsetenv(name);
	}
}

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	clear_settings();
	memset(&plan, 0, sizeof plan);
	setenv("TEGULA_CACHE", "off", 1);                   /* what is made here is no code */
	unsetenv("TEGULA_PDL");
	f->lib = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&f->calls = f->lib ? dlsym(f->lib, "mock_calls") : NULL;
	if (!f->calls) {
		print_error("LD_LIBRARY_PATH must name the folder of the stand-in driver\n");
		return -1;
	}
	*(void **)&f->forget = dlsym(f->lib, "mock_forget");
	*(void **)&f->live = dlsym(f->lib, "mock_live");
	*(void **)&f->last = dlsym(f->lib, "mock_last_launch");
	*(void **)&f->refs = dlsym(f->lib, "mock_context_refs");
	f->forget();
	f->cx = tgl_context_open();
	f->dev = tgl_device_open(f->cx, "cuda", NULL);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	if (!f->p || !f->dev)
		print_error("%s", tgl_error(f->cx)->text);
	*state = f;
	return f->p && f->dev ? 0 : -1;
}

/* Whatever happened, everything is given back. */
static int
teardown(void **state)
{
	Fixture *f = *state;
	clear_settings();
	f->forget();
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	int left = f->live(), refs = f->refs(0) + f->refs(1);
	if (left || refs)
		print_error("%d handles and allocations, %d contexts are left\n", left, refs);
	free(f);
	return left || refs ? -1 : 0;
}

static void
assert_ok(TglContext *cx, TglStatus s)
{
	if (s != TGL_OK)
		print_error("%s", tgl_error(cx)->text);
	assert_string_equal(tgl_status_name(s), "ok");
}

static void
assert_failed(TglContext *cx, TglStatus status, const char *words)
{
	const TglError *e = tgl_error(cx);
	if (e->status != status || !strstr(e->text, words))
		print_error("%s(%s): expected '%s'\n", e->text, tgl_status_name(e->status), words);
	assert_string_equal(tgl_status_name(e->status), tgl_status_name(status));
	assert_non_null(strstr(e->text, words));
}

static TglTensor *
floats(TglDevice *d, int64_t n, float first)
{
	float *v = malloc(sizeof *v * (size_t)n);
	TglTensor *t = tgl_tensor(d, TGL_F32, 1, (int64_t[]){n});
	for (int64_t i = 0; i < n; i++)
		v[i] = first + (float)i;
	assert_non_null(t);
	assert_int_equal(tgl_tensor_write(t, v, sizeof *v * (size_t)n), TGL_OK);
	free(v);
	return t;
}

static float
at(TglTensor *t, int64_t i)
{
	double v = -1;
	assert_int_equal(tgl_tensor_element(t, i, &v, NULL), TGL_OK);
	return (float)v;
}

/* ---- what there is ---- */

static void
assert_list(TglContext *cx, int i, const char *name, bool available, const char *words)
{
	TglDeviceInfo info;
	assert_true(tgl_device_list(cx, i, &info));
	assert_string_equal(info.name, name);
	assert_int_equal(info.available, available);
	const char *text = available ? info.text : info.why_not;
	if (!strstr(text, words))
		print_error("%s: expected '%s'\n", text, words);
	assert_non_null(strstr(text, words));
}

static void
test_listing(void **state)
{
	Fixture *f = *state;
	TglDeviceInfo info;
	assert_list(f->cx, 0, "cpu", true, "");
	assert_list(f->cx, 1, "cuda:0", true, "Mock GPU 0, compute capability 9.0, 4 multiprocessors, 1 GiB; kernels are compiled for sm_90a");
	assert_false(tgl_device_list(f->cx, 2, &info));
	setenv("MOCK_CUDA_DEVICES", "3", 1);
	assert_list(f->cx, 3, "cuda:2", true, "Mock GPU 2");
	assert_false(tgl_device_list(f->cx, 4, &info));
	setenv("MOCK_CUDA_DEVICES", "0", 1);
	assert_list(f->cx, 1, "cuda", false, "cuInit failed: CUDA_ERROR_NO_DEVICE, result 100 (no CUDA-capable device is detected); look whether `nvidia-smi`");
	assert_false(tgl_device_list(f->cx, 2, &info));
	clear_settings();
	setenv("MOCK_CUDA_DRIVER", "11040", 1);
	assert_list(f->cx, 1, "cuda", false, "too old: it is made for CUDA 11.4, and 12.0 is the least; update");
	clear_settings();
	setenv("MOCK_CUDA_CAPABILITY", "61", 1);
	assert_list(f->cx, 1, "cuda:0", false, "has compute capability 6.1, and 7.5 is the least");
	const char *const best[][2] = {{"75", "sm_75"}, {"80", "sm_80"}, {"87", "sm_86"}, {"89", "sm_89"}, {"90", "sm_90a"},
	    {"100", "sm_100a"}, {"103", "sm_89"}, {"120", "sm_120a"}, {"121", "sm_89"}};
	for (int i = 0; i < LEN(best); i++) {
		setenv("MOCK_CUDA_CAPABILITY", best[i][0], 1);
		assert_true(tgl_device_list(f->cx, 1, &info));
		assert_string_equal(info.target, best[i][1]);
	}
}

static void
test_opening(void **state)
{
	Fixture *f = *state;
	TglDeviceInfo info;
	setenv("MOCK_CUDA_DEVICES", "2", 1);
	TglDevice *second = tgl_device_open(f->cx, "cuda:1", NULL);
	assert_non_null(second);
	assert_ok(f->cx, tgl_device_info(second, &info));
	assert_string_equal(info.name, "cuda:1");
	assert_string_equal(info.target, "sm_90a");
	assert_int_equal(f->refs(1), 1);
	tgl_device_close(&second);
	assert_int_equal(f->refs(1), 0);
	assert_null(tgl_device_open(f->cx, "cuda:2", NULL));
	assert_failed(f->cx, TGL_ERROR_DEVICE, "device 'cuda:2' cannot be opened: there are 2 GPUs, numbered from 0");
	assert_null(tgl_device_open(f->cx, "cuda:", NULL));
	assert_failed(f->cx, TGL_ERROR_NAME, "there is no device 'cuda:'");
	assert_null(tgl_device_open(f->cx, "cuda", &(TglDeviceOptions){.sanitize = true}));
	assert_failed(f->cx, TGL_ERROR_DEVICE, "it cannot sanitize");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "open the device 'cpu'");
	TglDevice *some = tgl_device_open(f->cx, NULL, NULL);
	assert_string_equal(some->dev.name, "cuda:0");
	tgl_device_close(&some);
	some = tgl_device_open(f->cx, NULL, &(TglDeviceOptions){.threads = 1});
	assert_string_equal(some->dev.name, "cpu");
	tgl_device_close(&some);
	setenv("MOCK_CUDA_DEVICES", "0", 1);
	some = tgl_device_open(f->cx, NULL, NULL);
	assert_string_equal(some->dev.name, "cpu");
	tgl_device_close(&some);
}

/* The caller's context is as it was after each call, and a thread without one is not disturbed. */
static void
test_context(void **state)
{
	Fixture *f = *state;
	int (*get)(void **), (*set)(void *), (*retain)(void **, int);
	*(void **)&get = dlsym(f->lib, "cuCtxGetCurrent");
	*(void **)&set = dlsym(f->lib, "cuCtxSetCurrent");
	*(void **)&retain = dlsym(f->lib, "cuDevicePrimaryCtxRetain");
	int (*release)(int);
	*(void **)&release = dlsym(f->lib, "cuDevicePrimaryCtxRelease_v2");
	setenv("MOCK_CUDA_DEVICES", "2", 1);
	void *foreign, *now, *ours;
	get(&ours);
	assert_non_null(ours);                              /* the fixture's calls left it */
	assert_int_equal(retain(&foreign, 41), 0);
	assert_int_equal(set(foreign), 0);
	TglTensor *t = floats(f->dev, 10, 0);
	assert_float_equal(at(t, 3), 3, 0);
	get(&now);
	assert_ptr_equal(now, foreign);
	tgl_tensor_close(&t);
	get(&now);
	assert_ptr_equal(now, foreign);
	set(NULL);
	release(41);
	TglDevice *again = tgl_device_open(f->cx, "cuda", NULL);
	assert_int_equal(f->refs(0), 2);                    /* the same context, shared */
	tgl_device_close(&again);
	get(&now);
	assert_null(now);
}

/* ---- memory ---- */

static void
test_tensors(void **state)
{
	Fixture *f = *state;
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){3, 5});
	assert_float_equal(at(t, 14), 0, 0);
	float in[15], out[15];
	for (int i = 0; i < 15; i++)
		in[i] = (float)i;
	assert_ok(f->cx, tgl_tensor_write(t, in, sizeof in));
	assert_ok(f->cx, tgl_tensor_read(t, out, sizeof out));
	assert_memory_equal(in, out, sizeof in);
	assert_true(tensor_guard_whole(t));
	TglTensor *view = tgl_tensor_view(t, (int64_t[]){1, 1}, (int64_t[]){2, 3});
	float part[6];
	assert_ok(f->cx, tgl_tensor_read(view, part, sizeof part));
	assert_float_equal(part[3], 11, 0);
	assert_ok(f->cx, tgl_tensor_fill(view, -2));
	assert_float_equal(at(t, 5), 5, 0);
	assert_float_equal(at(t, 6), -2, 0);
	assert_float_equal(at(t, 9), 9, 0);
	f->dev->dev.copy_in(&f->dev->dev, t->high, "x", 1, true);
	assert_false(tensor_guard_whole(t));
	tgl_tensor_close(&view);
	tgl_tensor_close(&t);
}

/* A view without gaps is filled by the device, one with gaps or with elements that share a place is not. */
static void
test_dense_views(void **state)
{
	Fixture *f = *state;
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 3, (int64_t[]){3, 4, 5});
	TglTensor *turned = tgl_tensor_permute(t, (int[]){2, 0, 1});
	TglTensor *part = tgl_tensor_view(turned, (int64_t[]){0, 1, 0}, (int64_t[]){5, 1, 4});
	TglTensor *gaps = tgl_tensor_view(turned, (int64_t[]){1, 0, 0}, (int64_t[]){3, 3, 4});
	assert_true(turned && part && gaps);
	assert_ok(f->cx, tgl_tensor_fill(t, 1));
	int before = f->calls("cuMemcpyDtoHAsync_v2") + f->calls("cuMemcpyDtoH_v2");
	assert_ok(f->cx, tgl_tensor_fill(turned, 2));
	assert_ok(f->cx, tgl_tensor_fill(part, 3));         /* 20 elements in a row, its dimension of 1 elsewhere */
	assert_int_equal(f->calls("cuMemcpyDtoHAsync_v2") + f->calls("cuMemcpyDtoH_v2"), before);
	assert_ok(f->cx, tgl_tensor_fill(gaps, 4));
	assert_true(f->calls("cuMemcpyDtoHAsync_v2") + f->calls("cuMemcpyDtoH_v2") > before);
	for (int i = 0; i < 60; i++) {
		int last = i % 5;
		float want = last >= 1 && last <= 3 ? 4 : i >= 20 && i < 40 ? 3 : 2;
		assert_float_equal(at(t, i), want, 0);
	}
	assert_true(tensor_guard_whole(t));
	tgl_tensor_close(&gaps);
	tgl_tensor_close(&part);
	tgl_tensor_close(&turned);
	tgl_tensor_close(&t);
}

/* The device again, as what the environment says now makes it. */
static void
reopen(Fixture *f)
{
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	f->dev = tgl_device_open(f->cx, "cuda", NULL);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	assert_non_null(f->dev);
	assert_non_null(f->p);
}

static void
fill_all_types(Fixture *f)
{
	for (int t = 0; t < TGL_DTYPES; t++) {
		TglTensor *x = tgl_tensor(f->dev, (TglDType)t, 2, (int64_t[]){3, 7});
		double got;
		assert_ok(f->cx, tgl_tensor_fill(x, 1));
		for (int i = 0; i < 21; i++) {
			assert_ok(f->cx, tgl_tensor_element(x, i, &got, NULL));
			assert_float_equal(got, 1, 0);
		}
		assert_ok(f->cx, tgl_tensor_poison(x));
		assert_true(tensor_guard_whole(x));
		tgl_tensor_close(&x);
	}
}

/* By a kernel that starts early; what is too large or not aligned for it, and all where nothing starts early, by the
 * driver. */
static void
test_fills(void **state)
{
	Fixture *f = *state;
	fill_all_types(f);
	assert_int_equal(f->calls("cuMemsetD2D32Async"), 0);
	assert_non_null(strstr(f->last(), "tegula_fill blocks 1 threads 256 shared 0 stream 0 early: "));
	TglTensor *x = floats(f->dev, 2000, 0), *view = tgl_tensor_view(x, (int64_t[]){1}, (int64_t[]){1999});
	int launches = f->calls("cuLaunchKernelEx"), sets = f->calls("cuMemsetD32Async");
	assert_ok(f->cx, tgl_tensor_fill(x, 4));
	assert_non_null(strstr(f->last(), "tegula_fill blocks 2 threads 256"));
	assert_ok(f->cx, tgl_tensor_fill(view, 5));
	assert_int_equal(f->calls("cuLaunchKernelEx"), launches + 1);
	assert_int_equal(f->calls("cuMemsetD32Async"), sets + 1);
	assert_float_equal(at(x, 0), 4, 0);
	assert_float_equal(at(x, 1), 5, 0);
	assert_float_equal(at(x, 1999), 5, 0);
	TglTensor *large = floats(f->dev, 5 << 20, 0);
	launches = f->calls("cuLaunchKernelEx");
	assert_ok(f->cx, tgl_tensor_fill(large, 1));
	assert_int_equal(f->calls("cuLaunchKernelEx"), launches);
	assert_float_equal(at(large, (5 << 20) - 1), 1, 0);
	tgl_tensor_close(&large);
	tgl_tensor_close(&view);
	tgl_tensor_close(&x);
	setenv("TEGULA_PDL", "off", 1);
	reopen(f);
	launches = f->calls("cuLaunchKernelEx");
	fill_all_types(f);
	assert_int_equal(f->calls("cuLaunchKernelEx"), launches);
	assert_int_equal(f->calls("cuMemsetD2D32Async"), 3 * 2); /* i64, u64, f64: 1 is two unlike words */
}

/* A driver that does not take the kernel that fills: it fills itself, and nobody hears of it. */
static void
test_fills_all_the_same(void **state)
{
	Fixture *f = *state;
	const char *const fail[] = {"cuLinkAddData_v2:0:218", "cuModuleLoadDataEx:0:200", "cuStreamIsCapturing:0:906"};
	for (int i = 0; i < LEN(fail); i++) {
		setenv("MOCK_CUDA_FAIL", fail[i], 1);
		fill_all_types(f);
		assert_int_equal(f->calls("cuLaunchKernelEx"), 0);
		unsetenv("MOCK_CUDA_FAIL");
		reopen(f);
	}
}

static void
test_out_of_memory(void **state)
{
	Fixture *f = *state;
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){1ll << 40}));
	assert_failed(f->cx, TGL_ERROR_MEMORY, "device 'cuda:0' has 1073741824");
	setenv("MOCK_CUDA_FAIL", "cuMemAlloc_v2:0:2", 1);
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){1000}));
	assert_failed(f->cx, TGL_ERROR_MEMORY, "no memory for a tensor f32[1000] of 4000 bytes");
	assert_failed(f->cx, TGL_ERROR_MEMORY, "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY");
	assert_failed(f->cx, TGL_ERROR_MEMORY, "bytes are free");
	assert_failed(f->cx, TGL_ERROR_MEMORY, "nvidia-smi");
}

static void
test_wrapping(void **state)
{
	Fixture *f = *state;
	float mine[4] = {0};
	const int64_t dim[] = {4};
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, dim, NULL, mine, sizeof mine));
	assert_failed(f->cx, TGL_ERROR_USAGE, "tgl_tensor_wrap: device 'cuda:0' cannot use this memory: memory at 0x");
	assert_string_equal(tgl_error(f->cx)->code, "E1141");
	assert_failed(f->cx, TGL_ERROR_USAGE, "is the host's");
	TglTensor *t = floats(f->dev, 4, 1);
	TglTensor *same = tgl_tensor_wrap(f->dev, TGL_F32, 1, dim, NULL, tgl_tensor_data(t), 16);
	assert_non_null(same);
	assert_float_equal(at(same, 2), 3, 0);
	tgl_tensor_close(&same);
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){1000}, NULL, tgl_tensor_data(t), 4000));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1141");     /* it ends before that */
	tgl_tensor_close(&t);
	void *pinned = tgl_host_alloc(f->dev, 16);
	assert_non_null(pinned);
	same = tgl_tensor_wrap(f->dev, TGL_F32, 1, dim, NULL, pinned, 16);
	assert_non_null(same);
	tgl_tensor_close(&same);
	tgl_host_free(f->dev, pinned);
	setenv("MOCK_CUDA_DEVICES", "2", 1);
	TglDevice *other = tgl_device_open(f->cx, "cuda:1", NULL);
	t = floats(other, 4, 0);
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, dim, NULL, tgl_tensor_data(t), 16));
	assert_failed(f->cx, TGL_ERROR_USAGE, "belongs to cuda:1");
	TglArg args[] = {tgl_arg_tensor("x", t), tgl_arg_tensor("y", t)};
	assert_int_equal(tgl_launch(f->dev, tgl_kernel(f->p, "copy"), args, 2, NULL), TGL_ERROR_LAUNCH);
	tgl_tensor_close(&t);
	tgl_device_close(&other);
}

/* ---- launches ---- */

static const char copy_lines[] = "// mock: copy 1 0 2";

static void
test_launching(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 100, 5), *y = floats(f->dev, 100, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	char want[200];
	double seconds = -1;
	plan.mock = copy_lines;
	plan.grid = true;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_float_equal(at(y, 99), 104, 0);
	snprintf(want, sizeof want, "copy blocks 2 threads 128 shared 0 stream 0: %llx %llx 64 2",
	    (unsigned long long)(uintptr_t)x->data, (unsigned long long)(uintptr_t)y->data);
	assert_string_equal(f->last(), want);
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, &seconds));
	assert_float_equal(seconds, 10e-6, 1e-9);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* Launches like earlier ones: one call of the driver each, and every check is still made. */
static void
test_again(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 100, 5), *y = floats(f->dev, 100, 0), *z = floats(f->dev, 100, 9);
	plan.mock = copy_lines;
	TglArg first[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	assert_ok(f->cx, tgl_launch(f->dev, k, first, 2, NULL));
	assert_non_null(k->launches);
	TglArg second[] = {tgl_arg_tensor("x", z), tgl_arg_tensor("y", x)};
	TglStatus s = TGL_ERROR_FAULT;
	assert_true(launch_cache_run(f->dev, k, second, 2, &s));
	assert_ok(f->cx, s);
	assert_float_equal(at(x, 0), 9, 0);
	TglArg overlap[] = {tgl_arg_tensor("x", z), tgl_arg_tensor("y", z)};
	assert_false(launch_cache_run(f->dev, k, overlap, 2, &s));
	assert_int_equal(tgl_launch(f->dev, k, overlap, 2, NULL), TGL_ERROR_LAUNCH);
	assert_failed(f->cx, TGL_ERROR_LAUNCH, "overlap");
	TglArg swapped[] = {tgl_arg_tensor("y", x), tgl_arg_tensor("x", z)};
	assert_false(launch_cache_run(f->dev, k, swapped, 2, &s));
	assert_ok(f->cx, tgl_launch(f->dev, k, swapped, 2, NULL));
	assert_string_equal(tgl_error(f->cx)->text, "");
	/* another size, another address modulo 16, another block: the long way, then the short one */
	TglTensor *odd = tgl_tensor_view(x, (int64_t[]){1}, (int64_t[]){99});
	TglTensor *to = floats(f->dev, 99, 0);
	TglArg third[] = {tgl_arg_tensor("x", odd), tgl_arg_tensor("y", to), tgl_arg_int("BLOCK", 32)};
	assert_false(launch_cache_run(f->dev, k, third, 3, &s));
	assert_ok(f->cx, tgl_launch(f->dev, k, third, 3, NULL));
	assert_true(launch_cache_run(f->dev, k, third, 3, &s));
	assert_float_equal(at(to, 98), 108, 0);
	third[2].i = 64;
	assert_false(launch_cache_run(f->dev, k, third, 3, &s));
	third[0].tensor = to;
	third[1].tensor = to;
	assert_int_equal(tgl_launch(f->dev, k, third, 3, NULL), TGL_ERROR_LAUNCH);
	int before = 0;
	for (int i = 1; i < 80; i++) {                      /* more sizes than are remembered, twice over */
		int n = i % 40 + 1;
		TglTensor *a = floats(f->dev, n, 1), *b = floats(f->dev, n, 0);
		before = i == 40 ? f->calls("cuModuleLoadDataEx") : before;
		TglArg args[] = {tgl_arg_tensor(NULL, a), tgl_arg_tensor(NULL, b)};
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
		assert_float_equal(at(b, n - 1), n, 0);
		tgl_tensor_close(&a);
		tgl_tensor_close(&b);
	}
	assert_int_equal(f->calls("cuModuleLoadDataEx"), before);
	tgl_tensor_close(&odd);
	tgl_tensor_close(&to);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_tensor_close(&z);
}

/* Maps are encoded once a shape; another address replaces the one in them. */
static void
test_maps(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 100, 5), *y = floats(f->dev, 100, 0), *z = floats(f->dev, 100, 9);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	char want[200];
	plan.mock = copy_lines;
	plan.maps = true;
	for (int i = 0; i < 3; i++)
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_int_equal(f->calls("cuTensorMapEncodeTiled"), 2);
	assert_int_equal(f->calls("cuTensorMapReplaceAddress"), 0);
	snprintf(want, sizeof want, " map %llx 100 box 32 swizzle 3 map %llx 100 box 32 swizzle 3",
	    (unsigned long long)(uintptr_t)x->data, (unsigned long long)(uintptr_t)y->data);
	assert_non_null(strstr(f->last(), want));
	args[0].tensor = z;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_int_equal(f->calls("cuTensorMapEncodeTiled"), 2);
	assert_int_equal(f->calls("cuTensorMapReplaceAddress"), 1);
	snprintf(want, sizeof want, " map %llx 100 box", (unsigned long long)(uintptr_t)z->data);
	assert_non_null(strstr(f->last(), want));
	TglTensor *longer = floats(f->dev, 164, 1), *to = floats(f->dev, 164, 0);
	TglArg others[] = {tgl_arg_tensor("x", longer), tgl_arg_tensor("y", to)};
	assert_ok(f->cx, tgl_launch(f->dev, k, others, 2, NULL));
	assert_int_equal(f->calls("cuTensorMapEncodeTiled"), 4);
	assert_non_null(strstr(f->last(), " 164 box 32"));
	setenv("MOCK_CUDA_FAIL", "cuTensorMapEncodeTiled:0:1", 1);
	assert_int_equal(tgl_launch(f->dev, k, args, 2, NULL), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "cuTensorMapEncodeTiled failed");
	clear_settings();
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	tgl_tensor_close(&longer);
	tgl_tensor_close(&to);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_tensor_close(&z);
}

/* Every kind of value, a fill, a scratch tensor with one, and a grid of two axes. */
static void
test_values(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "values");
	TglTensor *x = tgl_tensor_strided(f->dev, TGL_I16, 2, (int64_t[]){4, 6}, (int64_t[]){8, 1});
	TglTensor *y = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){2});
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 1.5), tgl_arg_float("b", -2),
	    tgl_arg_int("n", -3), tgl_arg_bool("t", true)};
	char want[300];
	plan.grid = true;
	plan.counter = true;
	plan.mock = "// mock: set 0 77";
	for (int i = 0; i < 3; i++) {
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 6, NULL));
		assert_float_equal(at(y, 1), 7, 0);
		snprintf(want, sizeof want, "values blocks 12 threads 128 shared 0 stream 0: %llx 8 1 %llx ",
		    (unsigned long long)(uintptr_t)x->data, (unsigned long long)(uintptr_t)y->data);
		assert_memory_equal(f->last(), want, strlen(want));
		assert_non_null(strstr(f->last(), " 3fc00000 c000 fffffffffffffffd 1 4 6 4 3 "));
		assert_ok(f->cx, tgl_tensor_fill(y, 0));
	}
	/* other scalars take the short way too, unless the form was made for what they are */
	int header = f->calls("cuLaunchKernel");
	TglStatus s;
	args[2].f = 0.5;
	args[4].i = 5;
	assert_true(launch_cache_run(f->dev, k, args, 6, &s));
	assert_non_null(strstr(f->last(), " 3f000000 c000 5 1 4 6 4 3 "));
	args[4].i = 4;
	assert_false(launch_cache_run(f->dev, k, args, 6, &s));
	args[4].i = 5;
	args[5].i = false;
	assert_false(launch_cache_run(f->dev, k, args, 6, &s));
	assert_int_equal(f->calls("cuLaunchKernel"), header + 1);
	args[5].i = true;
	TglTensor *scratch = k->instances->scratch->tensor[2];
	assert_float_equal(at(scratch, 3), 1.5, 0);
	TglTensor *more = tgl_tensor_strided(f->dev, TGL_I16, 2, (int64_t[]){5, 6}, (int64_t[]){8, 1});
	args[0].tensor = more;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 6, NULL));
	args[0].tensor = x;                                 /* the first scratch tensor is still there for it */
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 6, NULL));
	tgl_tensor_close(&more);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
test_pointers(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "pair");
	TglTensor *x = floats(f->dev, 8, 2), *y = floats(f->dev, 8, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_int("n", 8)};
	plan.mock = copy_lines;
	for (int i = 0; i < 2; i++)
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	assert_float_equal(at(y, 7), 9, 0);
	args[1].tensor = x;                                 /* pointers may meet */
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	args[2].i = 0;
	int before = f->calls("cuLaunchKernel");
	for (int i = 0; i < 2; i++)
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	assert_int_equal(f->calls("cuLaunchKernel"), before); /* no programs, no launch */
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
test_grids(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "many");
	TglTensor *y = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){1});
	TglArg args[] = {tgl_arg_tensor("y", y), tgl_arg_int("n", 3000000000)};
	assert_int_equal(tgl_launch(f->dev, k, args, 2, NULL), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "the grid has more programs than the 2147483647 blocks");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "persistent");
	args[1].i = INT32_MAX;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	k = tgl_kernel(f->p, "many");
	plan.persistent = true;
	args[1].i = 3000000000;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_non_null(strstr(f->last(), "many blocks 64 threads 128")); /* 2048 / 128 on each of 4 */
	args[1].i = 3;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_non_null(strstr(f->last(), "many blocks 3 threads"));
	tgl_tensor_close(&y);
}

static TglStatus
launch_copy(Fixture *f)
{
	TglTensor *x = floats(f->dev, 100, 5), *y = floats(f->dev, 100, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglStatus s = tgl_launch(f->dev, tgl_kernel(f->p, "copy"), args, 2, NULL);
	tensor_unref(x);
	tensor_unref(y);
	return s;
}

static void
test_limits(void **state)
{
	Fixture *f = *state;
	plan.threads = 2048;
	assert_int_equal(launch_copy(f), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "a block has 2048 threads, and cuda:0 runs at most 1024");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "fewer warps");
	plan.threads = 128;
	plan.shared = 300000;
	assert_int_equal(launch_copy(f), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "a block needs 300000 bytes of shared memory, and cuda:0 has 232448");
	plan.shared = 48 * 1024;
	assert_ok(f->cx, launch_copy(f));
	assert_int_equal(f->calls("cuFuncSetAttribute"), 0);
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	plan.shared = 200000;
	assert_ok(f->cx, launch_copy(f));
	assert_int_equal(f->calls("cuFuncSetAttribute"), 1);
	assert_non_null(strstr(f->last(), "shared 200000"));
}

static void
test_clusters(void **state)
{
	Fixture *f = *state;
	plan.cluster = 2;
	plan.mock = copy_lines;
	assert_ok(f->cx, launch_copy(f));
	assert_int_equal(f->calls("cuLaunchKernelEx"), 1);
	assert_int_equal(f->calls("cuLaunchKernel"), 0);
	assert_non_null(strstr(f->last(), "shared 0 "));
}

/* Pairs of blocks that fill a part of shared memory get as much as lets an even share of them run on a multiprocessor. */
static void
test_spread_clusters(void **state)
{
	Fixture *f = *state;
	plan.cluster = 2;
	plan.shared = 40000;
	plan.mock = copy_lines;
	assert_ok(f->cx, launch_copy(f));
	assert_non_null(strstr(f->last(), "shared 115840 "));  /* two of 233,472 bytes and 1,024 each do not fit */
	reopen(f);
	plan.shared = 120000;
	assert_ok(f->cx, launch_copy(f));
	assert_non_null(strstr(f->last(), "shared 120000 "));
	reopen(f);
	plan.shared = 40000;
	plan.cluster = 1;                               /* it does not start early */
	assert_ok(f->cx, launch_copy(f));
	assert_non_null(strstr(f->last(), "shared 40000 "));
	reopen(f);
	plan.waits = true;
	assert_ok(f->cx, launch_copy(f));
	assert_non_null(strstr(f->last(), "early"));
	assert_non_null(strstr(f->last(), "shared 115840 "));
}

/* A persistent grid is as many whole clusters as there is work for, or as fit. */
static void
test_persistent_clusters(void **state)
{
	Fixture *f = *state;
	plan.cluster = 4;
	plan.persistent = true;
	plan.mock = copy_lines;
	setenv("MOCK_CUDA_CLUSTERS", "3", 1);
	assert_ok(f->cx, launch_copy(f));
	assert_int_equal(f->calls("cuOccupancyMaxActiveClusters"), 1);
	assert_non_null(strstr(f->last(), "blocks 4 "));
	reopen(f);
	setenv("MOCK_CUDA_CLUSTERS", "0", 1);
	assert_int_equal(launch_copy(f), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "cuda:0 has no room for a cluster of 4 blocks with 128 threads");
	unsetenv("MOCK_CUDA_CLUSTERS");
}

/* A launch of `copy`, and whether it was to start early. */
static bool
starts_early(Fixture *f)
{
	reopen(f);
	plan.mock = copy_lines;
	assert_ok(f->cx, launch_copy(f));
	assert_non_null(strstr(f->last(), "copy blocks"));
	return strstr(f->last(), " early:");
}

/* Kernels start early if their code waits, the GPU and the driver can, and nobody says no. */
static void
test_early(void **state)
{
	Fixture *f = *state;
	assert_false(starts_early(f));
	plan.waits = true;
	assert_true(starts_early(f));
	plan.cluster = 2;
	assert_true(starts_early(f));
	plan.cluster = 1;
	const char *const off[][2] = {{"TEGULA_PDL", "off"}, {"TEGULA_PDL", "0"}, {"MOCK_CUDA_DRIVER", "12020"},
	    {"MOCK_CUDA_CAPABILITY", "89"}};
	for (int i = 0; i < LEN(off); i++) {
		setenv(off[i][0], off[i][1], 1);
		assert_false(starts_early(f));
		unsetenv(off[i][0]);
	}
	setenv("TEGULA_PDL", "on", 1);
	setenv("MOCK_CUDA_DRIVER", "12030", 1);
	assert_true(starts_early(f));
}

/* Fill and launch as kernels of a graph; a fill that comes first while someone records is the driver's. */
static void
test_early_in_graphs(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 64, 5), *y = floats(f->dev, 64, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglStream *s = tgl_stream_open(f->dev);
	plan.mock = copy_lines;
	plan.waits = true;
	for (int round = 0; round < 2; round++) {
		int launches = f->calls("cuLaunchKernelEx"), sets = f->calls("cuMemsetD32Async");
		assert_ok(f->cx, tgl_graph_begin(s));
		assert_ok(f->cx, tgl_tensor_fill(x, 3 + round));
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
		TglGraph *g = tgl_graph_end(s);
		assert_non_null(g);
		assert_int_equal(f->calls("cuLaunchKernelEx"), launches + 1 + round);
		assert_int_equal(f->calls("cuMemsetD32Async"), sets + 1 - round);
		assert_ok(f->cx, tgl_graph_launch(g, s));
		assert_ok(f->cx, tgl_device_sync(f->dev));
		assert_float_equal(at(y, 63), 3 + round, 0);
		tgl_graph_close(&g);
		assert_ok(f->cx, tgl_tensor_fill(x, 0));
	}
	tgl_stream_close(&s);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* ---- code that the driver refuses ---- */

static void
test_bad_code(void **state)
{
	Fixture *f = *state;
	plan.broken = true;
	assert_int_equal(launch_copy(f), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "cuLinkAddData_v2 failed: CUDA_ERROR_INVALID_PTX");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "; ptxas fatal: Missing .version directive");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "--emit=ptx");
}

/* A driver older than the PTX: CUDA's tools make machine code of it, where they are installed. */
static void
test_old_driver(void **state)
{
	Fixture *f = *state;
	setenv("MOCK_CUDA_PTX", "74", 1);
	TglStatus s = launch_copy(f);
	if (s == TGL_OK) {
		assert_int_equal(f->calls("cuModuleLoadDataEx"), 1);
	} else {
		assert_failed(f->cx, TGL_ERROR_DEVICE, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
		assert_failed(f->cx, TGL_ERROR_DEVICE, "update the NVIDIA driver, or install CUDA's libnvJitLink");
	}
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	plan.mock = "this is no PTX";
	assert_int_equal(launch_copy(f), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "nvJitLink");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "ptxas");
}

/* A ptxas of one line, first on the PATH; its folder. */
static char *
put_ptxas(const char *line)
{
	char *folder = strdup("/tmp/tegulaptxasXXXXXX"), path[64], search[256];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/ptxas", folder);
	FILE *script = fopen(path, "w");
	assert_non_null(script);
	fprintf(script, "#!/bin/sh\n%s\n", line);
	fclose(script);
	assert_int_equal(chmod(path, 0700), 0);
	snprintf(search, sizeof search, "%s:/usr/bin:/bin", folder);
	setenv("PATH", search, 1);
	return folder;
}

static void
drop_ptxas(char *folder)
{
	char path[64];
	snprintf(path, sizeof path, "%s/ptxas", folder);
	unlink(path);
	rmdir(folder);
	free(folder);
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
}

static TglStatus
launch_parted(Fixture *f, const char *mock)
{
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	plan.parts_registers = 168;
	plan.mock = mock;
	assert_ok(f->cx, tgl_device_sync(f->dev));
	f->forget();
	return launch_copy(f);
}

/* Roles that share registers: the driver compiles the text as a whole, and code with fewer registers is refused. */
static void
test_parted_registers(void **state)
{
	Fixture *f = *state;
	char *folder = put_ptxas("exit 1");
	assert_ok(f->cx, launch_copy(f));                   /* the kernel that fills is there from now on */
	assert_ok(f->cx, launch_parted(f, "// mock: registers 168"));
	assert_int_equal(f->calls("cuLinkCreate_v2"), 0);
	assert_int_equal(f->calls("cuModuleLoadDataEx"), 1);
	assert_int_equal(launch_parted(f, "// mock: registers 160"), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE,
	    "the kernel's roles share 168 registers a thread, and its code has 160: setmaxnreg was dropped");
	plan.broken = true;
	assert_int_equal(launch_parted(f, ""), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX");
	assert_failed(f->cx, TGL_ERROR_DEVICE, "; ptxas fatal: Missing .version directive");
	drop_ptxas(folder);
}

/* Compiled for linking, code would wait behind every wgmma. */
static void
test_wgmma_whole(void **state)
{
	Fixture *f = *state;
	char *folder = put_ptxas("exit 1");
	assert_ok(f->cx, launch_copy(f));
	f->forget();
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	plan.mock = "// wgmma.mma_async";
	assert_ok(f->cx, launch_copy(f));
	assert_int_equal(f->calls("cuLinkCreate_v2"), 0);
	assert_int_equal(f->calls("cuModuleLoadDataEx"), 1);
	drop_ptxas(folder);
}

/* A ptxas that is there compiles them, not for linking; the stand-in takes its code for linked, 8 registers off. */
static void
test_parted_by_ptxas(void **state)
{
	Fixture *f = *state;
	char *folder = put_ptxas("[ \"$1 $3\" = '-arch=sm_90a -o' ] && { printf '\\177ELFmock'; cat \"$2\"; } > \"$4\"");
	assert_ok(f->cx, launch_copy(f));
	assert_ok(f->cx, launch_parted(f, "// mock: registers 176"));
	assert_int_equal(f->calls("cuLinkCreate_v2"), 0);
	assert_int_equal(launch_parted(f, "// mock: registers 168"), TGL_ERROR_DEVICE);
	drop_ptxas(folder);
}

/* ---- faults ---- */

static void
test_asserts(void **state)
{
	Fixture *f = *state;
	TglTensor *x = floats(f->dev, 4, 5), *y = floats(f->dev, 4, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglKernel *k = tgl_kernel(f->p, "copy");
	plan.faults = true;
	plan.mock = "// mock: fault 3 2";
	double seconds;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_int_equal(tgl_device_sync(f->dev), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "assertion failed in program 1 at element 5: must hold: x -7 0.5");
	assert_failed(f->cx, TGL_ERROR_FAULT, "the assert is at b:c.tgl:30:4");
	assert_string_equal(tgl_error(f->cx)->code, "E1195");
	assert_ok(f->cx, tgl_device_sync(f->dev));          /* told once */
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL)); /* the short way: it is seen again */
	float v[4];
	assert_int_equal(tgl_tensor_read(y, v, sizeof v), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "must hold");
	assert_ok(f->cx, tgl_tensor_read(y, v, sizeof v));
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_int_equal(tgl_tensor_save(y, "/nowhere/y.npy"), TGL_ERROR_FAULT);
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	TglStream *s = tgl_stream_open(f->dev);
	assert_ok(f->cx, tgl_stream_sync(s));               /* it was no launch of this stream */
	assert_int_equal(tgl_device_sync(f->dev), TGL_ERROR_FAULT);
	assert_ok(f->cx, tgl_launch_on(s, k, args, 2));
	assert_ok(f->cx, tgl_tensor_read(y, v, sizeof v));
	assert_int_equal(tgl_stream_sync(s), TGL_ERROR_FAULT);
	assert_int_equal(tgl_launch(f->dev, k, args, 2, &seconds), TGL_ERROR_FAULT);
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "b:c.tgl", source, strlen(source));
	k = tgl_kernel(f->p, "copy");
	plan.mock = "// mock: fault 3 3";
	assert_int_equal(tgl_launch(f->dev, k, args, 2, &seconds), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "b:c.tgl:4:3: error: assertion failed in program 1 at element 5: here -7 0.5");
	tgl_stream_close(&s);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
test_kernel_fault(void **state)
{
	Fixture *f = *state;
	TglTensor *x = floats(f->dev, 4, 5), *y = floats(f->dev, 4, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglKernel *k = tgl_kernel(f->p, "copy");
	float v[4];
	plan.mock = "// mock: crash 700";
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_int_equal(tgl_device_sync(f->dev), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_failed(f->cx, TGL_ERROR_FAULT, "--device=cpu --sanitize");
	assert_string_equal(tgl_error(f->cx)->code, "E1140");
	assert_int_equal(tgl_launch(f->dev, k, args, 2, NULL), TGL_ERROR_FAULT);
	assert_failed(f->cx, TGL_ERROR_FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_int_equal(tgl_tensor_read(y, v, sizeof v), TGL_ERROR_FAULT);
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){4}));
	f->forget();                                        /* the stand-in's context recovers: things can be freed */
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* ---- cases ---- */

static void
test_cases(void **state)
{
	Fixture *f = *state;
	plan.mock = copy_lines;
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, "copy"), &(TglCaseOptions){.example = "small"});
	TglCheck r;
	TglBench b;
	bool more;
	double seconds, bytes, flops;
	if (!c)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(c);
	assert_ok(f->cx, tgl_case_run(c, &seconds));
	assert_ok(f->cx, tgl_case_check(c, 0, &r, &more));
	assert_true(r.passed && r.count == 100 && r.ratio == 0);
	assert_ok(f->cx, tgl_case_bench(c, &(TglBenchOptions){.least = 3, .most = 3}, &b));
	assert_int_equal(b.runs, 3);
	assert_float_equal(b.median, 10e-6, 1e-9);
	assert_ok(f->cx, tgl_case_work(c, &bytes, &flops));
	assert_float_equal(bytes, 800, 0);
	TglResources r2;
	assert_ok(f->cx, tgl_case_resources(c, &r2));
	assert_true(r2.threads == 128 && r2.registers == 24 && r2.resident_blocks == 16 && r2.occupancy == 1);
	assert_ok(f->cx, tgl_case_replay(c, 10, 5, &seconds));
	assert_float_equal(seconds, 10e-6, 1e-9);
	assert_int_equal(f->calls("cuGraphLaunch"), 6);
	tgl_case_close(&c);
	tgl_program_close(&f->p);
	f->p = tgl_program_text(f->cx, "test.tgl", source, strlen(source));
	plan.mock = "";                                     /* writes nothing: the poison shows */
	c = tgl_case_open(f->dev, tgl_kernel(f->p, "copy"), &(TglCaseOptions){.example = "small"});
	assert_ok(f->cx, tgl_case_run(c, NULL));
	assert_ok(f->cx, tgl_case_check(c, 0, &r, &more));
	assert_int_equal(r.nwrong, 100);
	tgl_case_close(&c);
}

/* ---- streams and graphs ---- */

static void
test_streams(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 4, 5), *y = floats(f->dev, 4, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	TglStream *s = tgl_stream_open(f->dev), *theirs = tgl_stream_wrap(f->dev, tgl_stream_handle(s));
	TglEvent *from = tgl_event_open(f->dev), *to = tgl_event_open(f->dev);
	double seconds;
	plan.mock = copy_lines;
	assert_int_equal(tgl_event_seconds(from, to, &seconds), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1144");
	assert_int_equal(tgl_event_sync(from), TGL_ERROR_USAGE);
	assert_ok(f->cx, tgl_event_record(from, s));
	assert_ok(f->cx, tgl_launch_on(s, k, args, 2));
	assert_non_null(strstr(f->last(), "stream 1"));
	assert_ok(f->cx, tgl_launch_on(s, k, args, 2));
	assert_non_null(strstr(f->last(), "stream 1"));
	assert_ok(f->cx, tgl_event_record(to, theirs));
	assert_ok(f->cx, tgl_stream_wait(theirs, to));
	assert_ok(f->cx, tgl_event_seconds(from, to, &seconds));
	assert_float_equal(seconds, 20e-6, 1e-9);
	assert_ok(f->cx, tgl_event_sync(to));
	assert_ok(f->cx, tgl_stream_sync(s));
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_non_null(strstr(f->last(), "stream 0"));
	assert_ok(f->cx, tgl_device_use(f->dev, s));
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_non_null(strstr(f->last(), "stream 1"));
	float *pinned = tgl_host_alloc(f->dev, 16);
	assert_ok(f->cx, tgl_tensor_read_async(y, pinned, 16));
	assert_ok(f->cx, tgl_stream_sync(s));
	assert_float_equal(pinned[3], 8, 0);
	pinned[3] = 1;
	assert_ok(f->cx, tgl_tensor_write_async(x, pinned, 16));
	assert_int_equal(tgl_tensor_write_async(x, pinned, 12), TGL_ERROR_USAGE);
	assert_float_equal(at(x, 3), 1, 0);
	tgl_host_free(f->dev, pinned);
	TglDevice *cpu = tgl_device_open(f->cx, "cpu", NULL);
	assert_int_equal(tgl_device_use(cpu, s), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1143");
	tgl_device_close(&cpu);
	tgl_event_close(&from);
	tgl_event_close(&to);
	tgl_stream_close(&theirs);
	tgl_stream_close(&s);
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_non_null(strstr(f->last(), "stream 0"));     /* the stream is gone: back to the device's own */
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* A graph of another library launches a form after more others than a kernel keeps were launched. */
static void
test_graph_of_another_library(void **state)
{
	Fixture *f = *state;
	int (*begin)(void *, int), (*end)(void *, void **), (*make)(void **, void *, unsigned long long), (*run)(void *, void *);
	*(void **)&begin = dlsym(f->lib, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(f->lib, "cuStreamEndCapture");
	*(void **)&make = dlsym(f->lib, "cuGraphInstantiateWithFlags");
	*(void **)&run = dlsym(f->lib, "cuGraphLaunch");
	int (*drop)(void *), (*drop_exec)(void *);
	*(void **)&drop = dlsym(f->lib, "cuGraphDestroy");
	*(void **)&drop_exec = dlsym(f->lib, "cuGraphExecDestroy");
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 4, 5), *y = floats(f->dev, 4, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_int("BLOCK", 64)};
	plan.mock = copy_lines;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	TglStream *s = tgl_stream_open(f->dev);
	void *stream = tgl_stream_handle(s), *graph, *exec;
	assert_int_equal(begin(stream, 2), 0);
	assert_ok(f->cx, tgl_launch_on(s, k, args, 3));
	assert_int_equal(end(stream, &graph), 0);
	assert_int_equal(make(&exec, graph, 0), 0);
	for (int block = 65; block < 65 + 300; block++) {
		args[2] = tgl_arg_int("BLOCK", block);
		assert_ok(f->cx, tgl_launch(f->dev, k, args, 3, NULL));
	}
	assert_true(f->calls("cuModuleUnload") > 0);
	assert_ok(f->cx, tgl_tensor_fill(y, 0));
	assert_int_equal(run(exec, stream), 0);
	assert_ok(f->cx, tgl_stream_sync(s));
	assert_float_equal(at(y, 2), 7, 0);
	assert_int_equal(drop_exec(exec), 0);
	assert_int_equal(drop(graph), 0);
	tgl_stream_close(&s);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* A recording that forbids every thread to allocate (PyTorch's) takes a kernel with scratch, in two sizes; what the graph
 * names stays. */
static void
test_scratch_in_a_graph(void **state)
{
	Fixture *f = *state;
	int (*begin)(void *, int), (*end)(void *, void **), (*drop)(void *);
	*(void **)&begin = dlsym(f->lib, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(f->lib, "cuStreamEndCapture");
	*(void **)&drop = dlsym(f->lib, "cuGraphDestroy");
	TglKernel *k = tgl_kernel(f->p, "values");
	TglTensor *x = tgl_tensor_strided(f->dev, TGL_I16, 2, (int64_t[]){4, 6}, (int64_t[]){8, 1});
	TglTensor *more = tgl_tensor_strided(f->dev, TGL_I16, 2, (int64_t[]){5, 6}, (int64_t[]){8, 1});
	TglTensor *y = tgl_tensor(f->dev, TGL_I32, 1, (int64_t[]){2});
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y), tgl_arg_float("a", 1.5), tgl_arg_float("b", -2),
	    tgl_arg_int("n", -3), tgl_arg_bool("t", true)};
	plan.grid = true;
	TglStream *s = tgl_stream_open(f->dev);
	void *stream = tgl_stream_handle(s), *graph;
	for (int i = 0; i < 2; i++) {
		args[0].tensor = i ? more : x;
		assert_ok(f->cx, tgl_launch_on(s, k, args, 6));
	}
	int freed = f->calls("cuMemFree_v2");
	assert_int_equal(begin(stream, 0), 0);
	for (int i = 0; i < 3; i++) {
		args[0].tensor = i == 1 ? more : x;
		assert_ok(f->cx, tgl_launch_on(s, k, args, 6));
	}
	assert_int_equal(end(stream, &graph), 0);
	assert_int_equal(f->calls("cuMemFree_v2"), freed);
	assert_int_equal(drop(graph), 0);
	tgl_stream_close(&s);
	tgl_tensor_close(&more);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

static void
test_graphs(void **state)
{
	Fixture *f = *state;
	TglKernel *k = tgl_kernel(f->p, "copy");
	TglTensor *x = floats(f->dev, 4, 5), *y = floats(f->dev, 4, 0);
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	plan.mock = copy_lines;
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	TglStream *s = tgl_stream_open(f->dev), *own = tgl_stream_wrap(f->dev, NULL);
	assert_null(tgl_graph_end(s));
	assert_failed(f->cx, TGL_ERROR_USAGE, "nothing is being recorded");
	assert_int_equal(tgl_graph_begin(own), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "cuStreamBeginCapture_v2 failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
	assert_ok(f->cx, tgl_graph_begin(s));
	assert_int_equal(tgl_graph_begin(s), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1146");
	assert_ok(f->cx, tgl_tensor_fill(y, 0));
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	assert_ok(f->cx, tgl_launch(f->dev, k, args, 2, NULL));
	float v[4];
	assert_int_equal(tgl_tensor_read(y, v, sizeof v), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "while a graph is recorded");
	TglGraph *g = tgl_graph_end(s);
	assert_non_null(g);
	assert_ok(f->cx, tgl_tensor_fill(x, 3));
	int launches = f->calls("cuLaunchKernel");
	tgl_program_close(&f->p);                           /* the graph keeps what it needs */
	assert_ok(f->cx, tgl_graph_launch(g, NULL));
	assert_ok(f->cx, tgl_graph_launch(g, s));
	assert_ok(f->cx, tgl_device_sync(f->dev));
	assert_float_equal(at(y, 2), 3, 0);
	assert_int_equal(f->calls("cuLaunchKernel"), launches);
	tgl_graph_close(&g);
	tgl_stream_close(&own);
	tgl_stream_close(&s);
	TglDevice *cpu = tgl_device_open(f->cx, "cpu", NULL);
	s = tgl_stream_open(cpu);
	assert_int_equal(tgl_graph_begin(s), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "tgl_graph_begin: device 'cpu' has no graphs");
	assert_string_equal(tgl_error(f->cx)->code, "E1142");
	TglEvent *from = tgl_event_open(cpu), *to = tgl_event_open(cpu);
	double seconds = -1;
	tgl_event_record(from, s);
	tgl_event_record(to, s);
	assert_ok(f->cx, tgl_event_seconds(from, to, &seconds));
	assert_true(seconds >= 0);
	tgl_event_close(&from);
	tgl_event_close(&to);
	tgl_stream_close(&s);
	tgl_device_close(&cpu);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
}

/* ---- handwritten kernels, and rounds ---- */

static const char hand[] =
    "//ptx .version 8.0\n"
    "//ptx .visible .entry hand(.param .u64 x, .param .u64 y, .param .u64 N)\n"
    "//ptx { // mock: copy 1 0 2\n"
    "//ptx }\n"
    "//ptx .visible .entry all(.param .u64 x, .param .u64 y, .param .f32 a, .param .b16 b, .param .u64 n, .param .b8 t,\n"
    "//ptx .param .u64 M, .param .u64 N)\n"
    "//ptx { }\n";

/* A file with these kernels, in the folder of the tests' temporary files. */
static const char *
hand_file(void)
{
	static const char path[] = "/tmp/tegula_test_cuda_hand.cu";
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(hand, f);
	fclose(f);
	return path;
}

static void
test_foreign(void **state)
{
	Fixture *f = *state;
	plan.mock = "";                                     /* ours writes nothing */
	ForeignOptions o = {.path = hand_file(), .name = "hand", .grid = "cdiv(N, 32)", .block = 32, .shared = 60000};
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, "copy"), &(TglCaseOptions){.example = "small"});
	TglCase *d = tgl_case_open(f->dev, tgl_kernel(f->p, "copy"), &(TglCaseOptions){.example = "small", .seed = 1});
	Foreign *h = foreign_open(c, &o);
	TglResources r;
	TglCheck check;
	Rounds race;
	double seconds;
	bool more;
	if (!h)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(h);
	assert_ok(f->cx, foreign_run(h, c, &seconds));
	assert_float_equal(seconds, 10e-6, 1e-9);
	assert_non_null(strstr(f->last(), "hand blocks 4 threads 32 shared 60000"));
	assert_non_null(strstr(f->last(), " 64"));          /* N = 100 */
	assert_ok(f->cx, tgl_case_check(c, 0, &check, &more));
	assert_true(check.passed);
	assert_ok(f->cx, tgl_case_run(c, NULL));
	assert_ok(f->cx, tgl_case_check(c, 0, &check, &more));
	assert_int_equal(check.nwrong, 100);
	assert_ok(f->cx, foreign_resources(h, &r));
	assert_true(r.threads == 32 && r.shared_bytes == 60000);
	f->forget();
	assert_ok(f->cx, rounds_run((TglCase *[]){c, d}, 2, &(RoundsOptions){.foreign = h, .rounds = 6, .seconds = 60}, &race));
	assert_int_equal(race.rounds, 6);
	assert_int_equal(race.launches, 400);               /* of 10 us, 4 ms */
	assert_float_equal(race.ours.median, 10e-6, 1e-9);
	assert_float_equal(race.theirs.most, 10e-6, 1e-9);
	assert_float_equal(race.ratio.median, 1, 1e-6);
	assert_true(race.copy.median > 0);
	assert_int_equal(f->calls("cuGraphLaunch"), 3 * (6 + 1) + 4 * 4);   /* and four ways to copy */
	assert_ok(f->cx, rounds_run(&c, 1, &(RoundsOptions){.rounds = 1}, &race));
	assert_true(race.theirs.median == 0 && race.ratio.median == 0);

	o.name = "all";
	TglCase *values = tgl_case_open(f->dev, tgl_kernel(f->p, "values"), &(TglCaseOptions){
	    .args = (TglArg[]){tgl_arg_int("M", 2), tgl_arg_int("N", 3), tgl_arg_text("x", "zeros([M, N], i16)"), tgl_arg_float("a", 1.5),
	        tgl_arg_float("b", -2), tgl_arg_int("n", -5), tgl_arg_bool("t", true)}, .nargs = 7});
	if (!values)
		print_error("%s", tgl_error(f->cx)->text);
	assert_non_null(values);
	o.grid = "M";
	o.shared = 0;
	Foreign *all = foreign_open(values, &o);
	assert_non_null(all);
	assert_ok(f->cx, foreign_run(all, values, NULL));
	/* no scratch; 1.5 as f32, -2 as bf16, -5, true, then M and N */
	assert_non_null(strstr(f->last(), " 3fc00000 c000 fffffffffffffffb 1 2 3"));
	assert_false(tgl_case_product(c, NULL));
	foreign_close(&all);
	tgl_case_close(&values);
	foreign_close(&h);
	foreign_close(&h);
	tgl_case_close(&d);
	tgl_case_close(&c);
}

/* ---- every call may fail ---- */

/* All that a program does; the status of the first call that failed. */
static TglStatus
everything(TglContext *cx)
{
	TglStatus s = TGL_ERROR_DEVICE;
	TglDevice *d = tgl_device_open(cx, "cuda", NULL);
	if (!d)
		return s;
	TglProgram *p = tgl_program_text(cx, "test.tgl", source, strlen(source));
	TglKernel *k = tgl_kernel(p, "copy");
	TglTensor *x = tgl_tensor(d, TGL_F32, 1, (int64_t[]){8}), *y = tgl_tensor(d, TGL_F64, 1, (int64_t[]){8});
	TglTensor *z = tgl_tensor(d, TGL_F32, 1, (int64_t[]){8});
	TglStream *stream = tgl_stream_open(d);
	void *host = tgl_host_alloc(d, 32);
	TglGraph *g = NULL;
	TglCase *c = NULL;
	double seconds;
	float v[8] = {0};
	if (x && y && z && stream && host) {
		TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", z)};
		s = tgl_tensor_write(x, v, sizeof v);
		s = s ? s : tgl_tensor_fill(y, 1);
		s = s ? s : tgl_launch(d, k, args, 2, &seconds);
		s = s ? s : tgl_launch(d, k, args, 2, NULL);
		s = s ? s : tgl_launch(d, k, args, 2, NULL);
		s = s ? s : tgl_tensor_read(z, v, sizeof v);
		s = s ? s : tgl_device_sync(d);
		s = s ? s : tgl_graph_begin(stream);
		if (s == TGL_OK) {
			s = tgl_launch(d, k, args, 2, NULL);
			g = tgl_graph_end(stream);
			s = g ? s : TGL_ERROR_DEVICE;
		}
		s = s ? s : tgl_graph_launch(g, NULL);
		s = s ? s : tgl_stream_sync(stream);
		c = s ? NULL : tgl_case_open(d, k, NULL);
		s = s ? s : c ? tgl_case_run(c, NULL) : TGL_ERROR_DEVICE;
		s = s ? s : tgl_case_replay(c, 2, 2, &seconds);
		Foreign *h = s ? NULL : foreign_open(c, &(ForeignOptions){hand_file(), "hand", "2", 32, 0});
		s = s ? s : h ? foreign_run(h, c, NULL) : tgl_error(cx)->status;
		s = s ? s : rounds_run(&c, 1, &(RoundsOptions){.foreign = h, .rounds = 1}, &(Rounds){0});
		foreign_close(&h);
	} else {
		s = tgl_error(cx)->status ? tgl_error(cx)->status : TGL_ERROR_DEVICE;
	}
	tgl_case_close(&c);
	tgl_graph_close(&g);
	tgl_host_free(d, host);
	tgl_stream_close(&stream);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_tensor_close(&z);
	tgl_program_close(&p);
	tgl_device_close(&d);
	return s;
}

static void
test_every_failure(void **state)
{
	static const char *const names[] = {
#define CUDA(name, params) #name,
#define CUDA_OPTIONAL(name, params) #name,
#include "runtime/cuda/cuda.def"
	};
	Fixture *f = *state;
	char fail[128];
	int failed = 0;
	plan.mock = copy_lines;
	plan.counter = plan.faults = plan.persistent = true;
	plan.shared = 100000;
	assert_ok(f->cx, everything(f->cx));
	for (int i = 0; i < LEN(names); i++)
		for (int n = 1; n <= 6; n++) {
			/* not of what only gives things back, asks for words or is looked at elsewhere */
			if (strstr(names[i], "Destroy") || strstr(names[i], "Free") || strstr(names[i], "Unload") ||
			    strstr(names[i], "Release") || strstr(names[i], "cuCtx") || strstr(names[i], "GetError"))
				continue;
			f->forget();
			snprintf(fail, sizeof fail, "%s:%d:999", names[i], n);
			setenv("MOCK_CUDA_FAIL", fail, 1);
			setenv("MOCK_CUDA_MEMORY", "4194304", 1);   /* what a race copies is a part of it */
			TglStatus s = everything(f->cx);
			if (s != TGL_OK && tgl_error(f->cx)->status != TGL_OK && strstr(tgl_error(f->cx)->text, names[i]))
				failed++;
			clear_settings();
		}
	f->forget();
	assert_true(failed > 60);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	setenv("TEGULA_CACHE", "off", 1);                   /* each test makes its own artefacts */
	const struct CMUnitTest tests[] = {
	    CASE(test_listing),
	    CASE(test_opening),
	    CASE(test_context),
	    CASE(test_tensors),
	    CASE(test_dense_views),
	    CASE(test_fills),
	    CASE(test_fills_all_the_same),
	    CASE(test_out_of_memory),
	    CASE(test_wrapping),
	    CASE(test_launching),
	    CASE(test_again),
	    CASE(test_values),
	    CASE(test_pointers),
	    CASE(test_grids),
	    CASE(test_limits),
	    CASE(test_maps),
	    CASE(test_clusters),
	    CASE(test_spread_clusters),
	    CASE(test_persistent_clusters),
	    CASE(test_early),
	    CASE(test_early_in_graphs),
	    CASE(test_bad_code),
	    CASE(test_old_driver),
	    CASE(test_parted_registers),
	    CASE(test_parted_by_ptxas),
	    CASE(test_wgmma_whole),
	    CASE(test_asserts),
	    CASE(test_kernel_fault),
	    CASE(test_cases),
	    CASE(test_streams),
	    CASE(test_graphs),
	    CASE(test_graph_of_another_library),
	    CASE(test_scratch_in_a_graph),
	    CASE(test_foreign),
	    CASE(test_every_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
