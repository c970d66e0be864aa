/* The CUDA device: a GPU through the driver's interface.
 *
 * A device uses the GPU's primary context, which it shares with CUDA's runtime library and frameworks in the process, so
 * that memory and streams may cross.  The context is made current for the length of each call and the caller's put back.
 * Work goes to the context's default stream, which is ordered with what other libraries put there, unless a stream was
 * chosen. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_EARLY_DRIVER = 12030 };    /* CUDA 12.3, as its version call answers */

/* ---- what there is ---- */

/* The best row of the target table that a GPU runs: rows with an `a` are for one chip alone. */
static const Target *
best_target(int capability)
{
	const Target *best = NULL, *t;
	for (int i = 0; (t = target_at(i)); i++) {
		bool one_chip = t->name[strlen(t->name) - 1] == 'a';
		if (t->kind != TARGET_PTX ||
		    (one_chip ? t->capability != capability : t->capability > capability))
			continue;
		if (!best || t->capability > best->capability)
			best = t;
	}
	return best;
}

static int
attribute(const Cuda *c, int which, int device)
{
	int v = 0;
	c->cuDeviceGetAttribute(&v, which, device);
	return v;
}

static int
device_count(const Cuda *c, DeviceError *error)
{
	int n = 0;
	CudaResult r = c->cuDeviceGetCount(&n);
	if (r != 0)
		cuda_explain(c, r, "cuDeviceGetCount", error);
	else if (n == 0)
		cuda_explain(c, 100, "cuDeviceGetCount", error);
	return r == 0 ? n : 0;
}

/* Fills in what a GPU is; false: it is too old. */
static bool
describe(CudaState *s, DeviceError *error)
{
	char name[128] = "GPU";
	size_t memory = 0;
	const Cuda *c = &s->cuda;
	c->cuDeviceGetName(name, (int)sizeof name - 1, s->device);
	c->cuDeviceTotalMem_v2(&memory, s->device);
	s->memory = memory;
	s->capability = attribute(c, DEVICE_ATTRIBUTE_MAJOR, s->device) * 10 +
			attribute(c, DEVICE_ATTRIBUTE_MINOR, s->device);
	s->multiprocessors = attribute(c, DEVICE_ATTRIBUTE_MULTIPROCESSORS, s->device);
	s->resident_threads = attribute(c, DEVICE_ATTRIBUTE_RESIDENT_THREADS, s->device);
	s->cache = (uint64_t)attribute(c, DEVICE_ATTRIBUTE_CACHE, s->device);
	s->max_shared = attribute(c, DEVICE_ATTRIBUTE_SHARED_OPTIN, s->device);
	s->target = best_target(s->capability);
	snprintf(s->name, sizeof s->name, "cuda:%d", s->index);
	if (!s->target)
		return device_error(error, DEVICE_FAILED, "",
		    "%s has compute capability %d.%d, and 7.5 is the least that kernels are made for", name,
		    s->capability / 10, s->capability % 10);
	number_format(s->text, sizeof s->text,
	    "%s, compute capability %d.%d, %d multiprocessors, %.0f GiB; kernels are compiled for %s",
	    name, s->capability / 10, s->capability % 10, s->multiprocessors,
	    (double)memory / (1 << 30), s->target->name);
	return true;
}

static void
fill_info(const CudaState *s, TglDeviceInfo *out)
{
	out->name = s->name;
	out->text = s->text;
	out->target = s->target ? s->target->name : "";
	out->threads = s->multiprocessors;
	out->memory = s->memory;
	out->cache = s->cache;
}

static bool
cuda_probe(int index, DeviceProbe *out)
{
	CudaState s = {.index = index};
	DeviceError error = {0};
	*out = (DeviceProbe){.name = "cuda"};
	out->info.name = out->name;
	out->info.target = "ptx";
	int n = cuda_open(&s.cuda, &error) ? device_count(&s.cuda, &error) : 0;
	if (n == 0 && index > 0)
		return false;
	if (n == 0) {
		device_probe_text(out, &error);
		return true;
	}
	if (index >= n)
		return false;
	CudaResult r = s.cuda.cuDeviceGet(&s.device, index);
	if (r != 0)
		cuda_explain(&s.cuda, r, "cuDeviceGet", &error);
	out->info.available = r == 0 && describe(&s, &error);
	snprintf(out->name, sizeof out->name, "cuda:%d", index);
	if (out->info.available)
		fill_info(&s, &out->info);
	device_probe_text(out, &error);
	cuda_close(&s.cuda);
	return true;
}

static void
cuda_info(const Device *d, TglDeviceInfo *out)
{
	fill_info(d->state, out);
}

/* ---- opening ---- */

static bool
open_gpu(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	if (!cuda_open(&s->cuda, &d->error))
		return false;
	int n = device_count(&s->cuda, &d->error);
	if (n > 0 && s->index >= n)
		device_fail(d, DEVICE_FAILED, "", "there %s %d GPU%s, numbered from 0",
		    n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
	return n > s->index && CUDA_CALL(d, cuDeviceGet, &s->device, s->index) &&
	       describe(s, &d->error) &&
	       CUDA_CALL(d, cuDevicePrimaryCtxRetain, &s->context, s->device);
}

/* The attribute came with CUDA 11.8, and streams that are recorded take it since 12.3. */
static bool
may_start_early(const CudaState *s)
{
	const char *wanted = getenv("TEGULA_PDL");
	int version = 0;
	bool off = wanted && (text_same(wanted, "off") || strcmp(wanted, "0") == 0);
	return !off && s->capability >= 90 && s->cuda.cuLaunchKernelEx && s->cuda.cuDriverGetVersion(&version) == 0 &&
	       version >= LEAST_EARLY_DRIVER;
}

static bool
open_resources(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	size_t bytes = COUNTER_BYTES * (MAX_COUNTERS + 2);
	s->starts_early = may_start_early(s);
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuEventCreate, &s->timer[0], 0) &&
		  CUDA_CALL(d, cuEventCreate, &s->timer[1], 0) &&
		  CUDA_CALL(d, cuMemAlloc_v2, &s->counters, bytes) &&
		  CUDA_CALL(d, cuMemsetD8Async, s->counters, 0, bytes, NULL);
	cuda_leave(d, before);
	return ok;
}

static void
cuda_close_device(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	if (s->context) {
		cuda_fill_close(d);
		void *before = cuda_enter(d);
		for (int i = 0; i < LEN(s->timer); i++)
			if (s->timer[i])
				s->cuda.cuEventDestroy_v2(s->timer[i]);
		if (s->counters)
			s->cuda.cuMemFree_v2(s->counters);
		cuda_parts_close(s);
		cuda_leave(d, before);
		void *now = NULL;
		s->cuda.cuCtxGetCurrent(&now);
		if (now == s->context && s->left_current && pthread_equal(s->left_in, pthread_self()))
			s->cuda.cuCtxSetCurrent(NULL);
		s->cuda.cuDevicePrimaryCtxRelease_v2(s->device);
	}
	cuda_close(&s->cuda);
	free(s);
	d->state = NULL;
}

static bool
cuda_open_device(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks)
{
	if (device_gpu_refuses(d, opt))
		return false;
	d->state = memory_new(1, sizeof(CudaState));
	CUDA_STATE(d)->index = index;
	if (!open_gpu(d) || !open_resources(d)) {
		cuda_close_device(d);
		return false;
	}
	d->name = CUDA_STATE(d)->name;
	d->target = CUDA_STATE(d)->target->name;
	return true;
}

/* ---- memory ---- */

static CudaPointer
address(const void *p)
{
	return (CudaPointer)(uintptr_t)p;
}

static void *
cuda_alloc(Device *d, size_t size)
{
	CudaState *s = CUDA_STATE(d);
	CudaPointer p = 0;
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuMemAlloc_v2, &p, size);
	if (!ok && d->error.what == DEVICE_NO_MEMORY) {
		size_t left = 0, all = 0, n = strlen(d->error.text);
		s->cuda.cuMemGetInfo_v2(&left, &all);
		snprintf(d->error.text + n, sizeof d->error.text - n, "; %zu of %zu bytes are free", left,
		    all);
	}
	if (ok && !CUDA_CALL(d, cuMemsetD8Async, p, 0, size, d->stream)) {
		s->cuda.cuMemFree_v2(p);
		ok = false;
	}
	cuda_leave(d, before);
	return ok ? (void *)(uintptr_t)p : NULL;
}

static void
cuda_free(Device *d, void *p, size_t size)
{
	void *before = cuda_enter(d);
	if (p)
		CUDA_STATE(d)->cuda.cuMemFree_v2(address(p));
	cuda_leave(d, before);
}

static bool
copied(Device *d, bool ok, bool wait)
{
	return ok && (!wait || CUDA_CALL(d, cuStreamSynchronize, d->stream));
}

CUDA_FUNCTION(static bool, cuda_copy_in, (Device *d, void *to, const void *from, size_t size, bool wait),
    !size || copied(d, CUDA_CALL(d, cuMemcpyHtoDAsync_v2, address(to), from, size, d->stream), wait))
CUDA_FUNCTION(static bool, cuda_copy_out, (Device *d, void *to, const void *from, size_t size, bool wait),
    !size || copied(d, CUDA_CALL(d, cuMemcpyDtoHAsync_v2, to, address(from), size, d->stream), wait))

/* One address of the caller's: what it is, and whether this GPU reaches it. */
static bool
reaches_byte(Device *d, CudaPointer p)
{
	CudaState *s = CUDA_STATE(d);
	int type = 0, ordinal = -1;
	CudaPointer mapped = 0;
	const char help[] = "copy the data with tgl_tensor_write, or give memory of this GPU";
	if (s->cuda.cuPointerGetAttribute(&type, POINTER_ATTRIBUTE_MEMORY_TYPE, p) != 0)
		return device_fail(d, DEVICE_FAILED, help, "memory at 0x%llx is the host's, not the GPU's",
		    (unsigned long long)p);
	if (type != MEMORY_TYPE_DEVICE) {
		/* pinned host memory is fine where its address is the same on both sides */
		bool same = s->cuda.cuPointerGetAttribute(&mapped, POINTER_ATTRIBUTE_DEVICE_POINTER, p) == 0 &&
			    mapped == p;
		if (!same)
			device_fail(d, DEVICE_FAILED, help,
			    "memory at 0x%llx is the host's, and the GPU has it at another address",
			    (unsigned long long)p);
		return same;
	}
	if (s->cuda.cuPointerGetAttribute(&ordinal, POINTER_ATTRIBUTE_ORDINAL, p) == 0 && ordinal != s->index)
		return device_fail(d, DEVICE_FAILED, "open that device, or copy the data",
		    "memory at 0x%llx belongs to cuda:%d", (unsigned long long)p, ordinal);
	return true;
}

CUDA_FUNCTION(static bool, cuda_reaches, (Device *d, const void *p, size_t size),
    size == 0 || (reaches_byte(d, address(p)) && reaches_byte(d, address(p) + size - 1)))

const Device device_cuda = {
    .name = "cuda",
    .target = "ptx",
    .probe = cuda_probe,
    .open = cuda_open_device,
    .close = cuda_close_device,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .fill = cuda_fill,
    .reaches = cuda_reaches,
    .finish = cuda_finish,
    .load_artefact = cuda_load,
    .unload = cuda_unload,
    .resources = cuda_resources,
    .launch = cuda_launch,
    .time_begin = cuda_time_begin,
    .time_end = cuda_time_end,
    .sync = cuda_sync,
    .queue = &cuda_queue,
};
