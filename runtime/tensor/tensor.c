/* Tensors: memory of a device with a dtype, extents and strides.
 *
 * What the library allocates has a guard zone on both sides, whose bytes tgl_case_check looks at after a launch.  Memory is
 * refused, with both figures, when the tensors of a device would pass what the machine has: an operating system that
 * overcommits would end the whole process later, when the memory is first touched.
 *
 * Packed 4-bit types: two elements a byte along the last dimension, whose stride is 1, and each row starts on a byte; the
 * other strides count elements and are even. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tensor/tensor.h"

#define DTYPE(name, text, bits, class, ctype)                                                      \
	_Static_assert((int)TGL_##name == (int)TY_##name, "TglDType follows dtypes.def");
#include "ir/dtypes.def"
#undef DTYPE
_Static_assert((int)TGL_DTYPES == (int)DTYPE_COUNT && (int)TGL_MAX_RANK == (int)KERNEL_RANK &&
		   (int)TGL_MAX_AXES == (int)MAX_AXES,
    "limits agree");

enum { GUARD_BYTE = 0xc3 };

/* What extents and strides multiply to stays below this many bytes (is_addressable): then every product of them, 8 bytes
 * for each element and the sum of a few such figures are within 63 bits, here and wherever tensors are taken. */
static const int64_t MOST_BYTES = INT64_C(1) << 60;

/* ---- sizes ---- */

void
tensor_contiguous(TglDType t, int rank, const int64_t *dim, int64_t *stride)
{
	int64_t step = 1;
	for (int d = rank - 1; d >= 0; d--) {
		stride[d] = step;
		int64_t n = MAX(dim[d], 1), pad = d == rank - 1 && dtype_is_packed((DType)t) ? n & 1 : 0;
		if (__builtin_add_overflow(n, pad, &n) || __builtin_mul_overflow(step, n, &step))
			step = INT64_MAX;
	}
}

bool
tensor_size(TglDType t, int rank, const int64_t *dim, int64_t *count, int64_t *bytes)
{
	bool packed = dtype_is_packed((DType)t);
	int64_t n = 1, rows = 1, row = packed ? 1 : dtype_info[t].bits / 8;
	for (int d = 0; d < rank; d++)
		if (dim[d] == 0) {
			*count = *bytes = 0;
			return true;
		}
	for (int d = 0; d < rank; d++) {
		if (__builtin_mul_overflow(n, dim[d], &n))
			return false;
		if (packed && d == rank - 1)
			row = dim[d] / 2 + dim[d] % 2;
		else if (__builtin_mul_overflow(rows, dim[d], &rows))
			return false;
	}
	*count = n;
	return !__builtin_mul_overflow(rows, row, bytes);
}

/* Whether its extents, of which 0 counts as 1, multiplied, each stride, and what all strides reach stay below MOST_BYTES.
 * Broadcast tensors have many elements in little memory, and one without elements may have great extents. */
static bool
is_addressable(const TglTensor *t)
{
	int64_t width = MAX(dtype_info[t->dtype].bits / 8, 1), most = MOST_BYTES / width, count = 1, last = 0, step;
	for (int d = 0; d < t->rank; d++) {
		int64_t n = MAX(t->dim[d], 1);
		if (__builtin_mul_overflow(count, n, &count) || count >= most || t->stride[d] >= most)
			return false;
		if (__builtin_mul_overflow(n - 1, t->stride[d], &step) || step >= most - last)
			return false;
		last += step;
	}
	return true;
}

/* Bytes from the first element to past the last that strides reach. */
static int64_t
span_bytes(const TglTensor *t)
{
	int64_t last = 0;
	for (int d = 0; d < t->rank; d++) {
		if (t->dim[d] == 0)
			return 0;
		last += (t->dim[d] - 1) * t->stride[d];
	}
	return dtype_is_packed((DType)t->dtype) ? last / 2 + 1 : (last + 1) * (dtype_info[t->dtype].bits / 8);
}

bool
tensor_is_contiguous(const TglTensor *t)
{
	int64_t want[TGL_MAX_RANK];
	if (ANY_OF(d, t->rank, t->dim[d] == 0))
		return true;
	tensor_contiguous(t->dtype, t->rank, t->dim, want);
	return !ANY_OF(d, t->rank, t->dim[d] > 1 && t->stride[d] != want[d]);
}

void
tensor_span(const TglTensor *t, const char **low, const char **high)
{
	*low = t->data;
	*high = t->data + span_bytes(t);
}

/* ---- making ---- */

static bool
shape_check(Compile *cx, TglDType t, int rank, const int64_t *dim, const int64_t *stride)
{
	if ((unsigned)t >= TGL_DTYPES)
		return diag_error(cx, NOWHERE, DIAG_TENSOR_DTYPE, (int)t);
	if (rank < 0 || rank > TGL_MAX_RANK)
		return diag_error(cx, NOWHERE, DIAG_TENSOR_RANK, rank, TGL_MAX_RANK);
	bool packed = dtype_is_packed((DType)t);
	for (int d = 0; d < rank; d++) {
		if (dim[d] < 0)
			return diag_error(cx, NOWHERE, DIAG_TENSOR_EXTENT, d, (long long)dim[d]);
		if (!stride)
			continue;
		if (stride[d] < 0) {
			diag_error(cx, NOWHERE, DIAG_TENSOR_STRIDE, d, (long long)stride[d]);
			diag_help(cx, "give a contiguous copy; a kernel turns a tile round with flip(x)");
			return false;
		}
		bool is_last = d == rank - 1;
		if (packed && dim[d] > 1 && (is_last ? stride[d] != 1 : stride[d] & 1))
			return diag_error(cx, NOWHERE, DIAG_TENSOR_PACKED, dtype_info[t].text, d,
			    (long long)stride[d]);
	}
	return true;
}

static void
describe(TglTensor *t, TglDType type, int rank, const int64_t *dim, const int64_t *stride)
{
	t->dtype = type;
	t->rank = rank;
	if (rank > 0)
		memcpy(t->dim, dim, sizeof *dim * (size_t)rank);
	if (stride && rank > 0)
		memcpy(t->stride, stride, sizeof *stride * (size_t)rank);
	else
		tensor_contiguous(type, rank, dim, t->stride);
}

TglTensor *
tensor_make(TglDevice *dev, TglDType t, int rank, const int64_t *dim, const int64_t *stride)
{
	TglTensor *r = memory_new(1, sizeof *r);
	r->dev = dev;
	r->refs = 1;
	describe(r, t, rank, dim, stride);
	dev->refs++;
	return r;
}

static void
report_too_big(Compile *cx, const TglTensor *t)
{
	diag_error(cx, NOWHERE, DIAG_TENSOR_BIG, dtype_info[t->dtype].text, extents_text(t->rank, t->dim, cx->tmp));
}

static void
report_memory(Compile *cx, const TglTensor *t, int64_t bytes, uint64_t used, uint64_t all)
{
	const char *shape = extents_text(t->rank, t->dim, cx->tmp);
	diag_error(cx, NOWHERE, DIAG_TENSOR_MEMORY, dtype_info[t->dtype].text, shape, (long long)bytes,
	    t->dev->dev.name, (unsigned long long)all);
	if (used)
		diag_help(cx, "other tensors take %llu bytes of it", (unsigned long long)used);
	else if (t->dev->dev.error.what != DEVICE_WELL)
		diag_help(cx, "%s", t->dev->dev.error.help);
	if (t->dev->dev.error.what != DEVICE_WELL)
		diag_note(cx, NOWHERE, "%s", t->dev->dev.error.text);
	t->dev->dev.error = (DeviceError){0};
}

static bool
allocate_here(TglTensor *t, Compile *cx)
{
	if (!is_addressable(t)) {
		report_too_big(cx, t);
		return false;
	}
	int64_t bytes = span_bytes(t);
	TglDeviceInfo info = {0};
	t->dev->dev.info(&t->dev->dev, &info);
	uint64_t used = t->dev->allocated;
	bool fits = !info.memory || (used <= info.memory && (uint64_t)bytes <= info.memory - used);
	if (fits && (uint64_t)bytes < SIZE_MAX - 2 * GUARD_BYTES) {
		t->alloc_bytes = (size_t)bytes + 2 * GUARD_BYTES;
		t->alloc = t->dev->dev.alloc(&t->dev->dev, t->alloc_bytes);
	}
	if (!t->alloc) {
		report_memory(cx, t, bytes, used, info.memory);
		return false;
	}
	t->dev->allocated += t->alloc_bytes;
	t->data = t->low = t->alloc + GUARD_BYTES;
	t->high = t->low + bytes;
	char guard[GUARD_BYTES];
	memset(guard, GUARD_BYTE, sizeof guard);
	Device *d = &t->dev->dev;
	if (d->copy_in(d, t->alloc, guard, sizeof guard, true) &&
	    d->copy_in(d, t->high, guard, sizeof guard, true))
		return true;
	device_report(t->dev, cx, NULL, NULL);
	return false;
}

/* Of a stream that is recorded, aside: neither is the memory the graph's, nor are its guards written as the graph runs. */
static bool
allocate(TglTensor *t, Compile *cx)
{
	Device *d = &t->dev->dev;
	void *stream;
	if (!d->queue || !d->queue->recording(d, d->stream))
		return allocate_here(t, cx);
	if (d->queue->aside(d, &stream)) {
		bool ok = allocate_here(t, cx);
		if (d->queue->back(d, stream) || !ok)
			return ok;
	}
	device_report(t->dev, cx, NULL, NULL);
	return false;
}

TglTensor *
tensor_open(TglDevice *dev, Compile *report, TglDType t, int rank, const int64_t *dim,
    const int64_t *stride)
{
	if (!shape_check(report, t, rank, dim, stride))
		return NULL;
	TglTensor *r = tensor_make(dev, t, rank, dim, stride);
	if (allocate(r, report))
		return r;
	tensor_unref(r);
	return NULL;
}

void
tensor_unref(TglTensor *t)
{
	if (--t->refs > 0)
		return;
	TglDevice *dev = t->dev;
	if (t->alloc) {
		dev->dev.free(&dev->dev, t->alloc, t->alloc_bytes);
		dev->allocated -= t->alloc_bytes;
	}
	if (t->base)
		tensor_unref(t->base);
	free(t);
	device_unref(dev);
}

void
tgl_tensor_close(TglTensor **t)
{
	if (!t || !*t)
		return;
	tensor_unref(*t);
	*t = NULL;
}

bool
tensor_guard_whole(const TglTensor *t)
{
	char guard[2 * GUARD_BYTES];
	Device *d = &t->dev->dev;
	if (!t->alloc)
		return true;
	if (!d->copy_out(d, guard, t->alloc, GUARD_BYTES, true) ||
	    !d->copy_out(d, guard + GUARD_BYTES, t->high, GUARD_BYTES, true))
		return false;
	return ALL_OF(i, LEN(guard), (unsigned char)guard[i] == GUARD_BYTE);
}

static TglTensor *
open_for_user(
    TglDevice *dev, const char *f, TglDType t, int rank, const int64_t *dim, const int64_t *stride)
{
	context_begin(dev->cx);
	if (rank > 0 && context_null(dev->cx, dim, f, "dim"))
		return NULL;
	TglTensor *r = tensor_open(dev, dev->cx->own, t, rank, dim, stride);
	if (!r)
		context_fail(dev->cx, report_status(dev->cx->own, TGL_ERROR_USAGE), NULL);
	return r;
}

TglTensor *
tgl_tensor(TglDevice *dev, TglDType t, int rank, const int64_t *dim)
{
	return dev ? open_for_user(dev, "tgl_tensor", t, rank, dim, NULL) : NULL;
}

TglTensor *
tgl_tensor_strided(TglDevice *dev, TglDType t, int rank, const int64_t *dim, const int64_t *stride)
{
	if (!dev)
		return NULL;
	if (rank > 0) {
		context_begin(dev->cx);
		if (context_null(dev->cx, stride, "tgl_tensor_strided", "stride"))
			return NULL;
	}
	return open_for_user(dev, "tgl_tensor_strided", t, rank, dim, stride);
}

static void
report_reach(TglTensor *t)
{
	DeviceError *e = &t->dev->dev.error;
	diag_error(
	    t->dev->cx->own, NOWHERE, DIAG_DEVICE_REACH, "tgl_tensor_wrap", t->dev->dev.name, e->text);
	diag_help(t->dev->cx->own, "%s", e->help);
	*e = (DeviceError){0};
}

/* Gives a tensor the caller's memory; false, and reported, if the memory does not do. */
static bool
take_memory(TglTensor *r, const char *f, void *data, size_t size)
{
	Compile *report = r->dev->cx->own;
	int bits = dtype_info[r->dtype].bits;
	bool fits = is_addressable(r);
	int64_t bytes = fits ? span_bytes(r) : 0;
	size_t room = UINTPTR_MAX - (uintptr_t)data, beyond = GUARD_BYTES; /* so that its end, rounded up, is an address */
	size = MIN(size, MIN((size_t)MOST_BYTES, MAX(room, beyond)) - beyond);
	r->data = r->low = data;
	r->high = data ? r->low + size : r->low;
	uintptr_t align = (uintptr_t)MAX(bits / 8, 1);
	if (!fits)
		report_too_big(report, r);
	else if ((uint64_t)bytes > size)
		diag_error(report, NOWHERE, DIAG_TENSOR_BYTES, f, (long long)bytes, (long long)size);
	else if ((uintptr_t)data % align)
		diag_error(report, NOWHERE, DIAG_TENSOR_ALIGN, data, dtype_info[r->dtype].text, (int)align);
	else if (!data && bytes)
		diag_error(report, NOWHERE, DIAG_API_NULL, f, "data");
	return report->nerrors == 0;
}

TglTensor *
tgl_tensor_wrap(TglDevice *dev, TglDType t, int rank, const int64_t *dim, const int64_t *stride,
    void *data, size_t size)
{
	if (!dev)
		return NULL;
	TglContext *cx = dev->cx;
	context_begin(cx);
	if (rank > 0 && context_null(cx, dim, "tgl_tensor_wrap", "dim"))
		return NULL;
	if (!shape_check(cx->own, t, rank, dim, stride)) {
		context_fail(cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	TglTensor *r = tensor_make(dev, t, rank, dim, stride);
	if (take_memory(r, "tgl_tensor_wrap", data, size) && dev->dev.reaches &&
	    !dev->dev.reaches(&dev->dev, data, (size_t)span_bytes(r)))
		report_reach(r);
	if (cx->own->nerrors) {
		tensor_unref(r);
		context_fail(cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	return r;
}

TglStatus
tgl_tensor_set(TglTensor *t, TglDType type, int rank, const int64_t *dim, const int64_t *stride, void *data,
    size_t size)
{
	if (!t)
		return TGL_ERROR_USAGE;
	TglContext *cx = t->dev->cx;
	if (cx->error.status != TGL_OK || cx->text.n)
		context_begin(cx);
	if (t->alloc || t->base || t->refs > 1) {
		diag_error(cx->own, NOWHERE, DIAG_TENSOR_KEPT, "tgl_tensor_set");
		return context_fail(cx, TGL_ERROR_USAGE, NULL);
	}
	if (rank > 0 && context_null(cx, dim, "tgl_tensor_set", "dim"))
		return TGL_ERROR_USAGE;
	if (!shape_check(cx->own, type, rank, dim, stride))
		return context_fail(cx, TGL_ERROR_USAGE, NULL);
	describe(t, type, rank, dim, stride);
	if (take_memory(t, "tgl_tensor_set", data, size))
		return TGL_OK;
	describe(t, type, 0, NULL, NULL); /* it describes nothing, rather than what it may not */
	t->data = t->low = t->high = NULL;
	return context_fail(cx, TGL_ERROR_USAGE, NULL);
}

/* ---- asking ---- */

TglDType
tgl_tensor_dtype(const TglTensor *t)
{
	return t ? t->dtype : TGL_DTYPE_UNKNOWN;
}

int
tgl_tensor_rank(const TglTensor *t)
{
	return t ? t->rank : -1;
}

int64_t
tgl_tensor_dim(const TglTensor *t, int d)
{
	return t && d >= 0 && d < t->rank ? t->dim[d] : -1;
}

int64_t
tgl_tensor_stride(const TglTensor *t, int d)
{
	return t && d >= 0 && d < t->rank ? t->stride[d] : -1;
}

int64_t
tgl_tensor_count(const TglTensor *t)
{
	int64_t count = 0, bytes;
	if (t)
		tensor_size(t->dtype, t->rank, t->dim, &count, &bytes);
	return count;
}

size_t
tgl_tensor_bytes(const TglTensor *t)
{
	int64_t count, bytes = 0;
	if (t)
		tensor_size(t->dtype, t->rank, t->dim, &count, &bytes);
	return (size_t)bytes;
}

void *
tgl_tensor_data(TglTensor *t)
{
	return t ? t->data : NULL;
}

TglDevice *
tgl_tensor_device(TglTensor *t)
{
	return t ? t->dev : NULL;
}

const char *
tgl_dtype_name(TglDType t)
{
	return (unsigned)t < TGL_DTYPES ? dtype_info[t].text : "?";
}

bool
tgl_dtype_named(const char *name, TglDType *out)
{
	DType t;
	if (!name || !out || !dtype_named(name, &t))
		return false;
	*out = (TglDType)t;
	return true;
}

int
tgl_dtype_bits(TglDType t)
{
	return (unsigned)t < TGL_DTYPES ? dtype_info[t].bits : 0;
}

/* A stride that no element uses is 0: code for rows at multiples of 16 bytes (compile/arg_strides.c) makes addresses of
 * masked copies with it, too, and those must be aligned. */
PlanArg
tensor_arg(const TglTensor *t)
{
	PlanArg a = {.data = t->data, .low = t->low, .high = t->high};
	memcpy(a.dim, t->dim, sizeof a.dim);
	memcpy(a.stride, t->stride, sizeof a.stride);
	for (int d = 0; d < t->rank && !tensor_is_contiguous(t); d++)
		if (t->dim[d] <= 1 && (d < t->rank - 1 || t->stride[d] != 1))
			a.stride[d] = 0;
	return a;
}
