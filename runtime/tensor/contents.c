/* What is in a tensor: copies to and from the host, fills, poison, single elements.
 *
 * The host side is always contiguous and row-major.  A tensor that is not is walked row by row; on
 * a device whose memory the host can't reach, an image of its whole span is fetched first, and sent
 * back after changes.  Those without gaps are filled by the device. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tensor/tensor.h"

/* Walks the rows (all dimensions but the last) of a tensor in order. */
typedef struct Rows {
	const TglTensor *t;
	int64_t index[TGL_MAX_RANK];
	int64_t left;    /* rows still to come, this one included */
	int64_t at;      /* element offset of this row's first element */
	int64_t n, step; /* elements in a row and between neighbours */
} Rows;

static Rows
rows_of(const TglTensor *t)
{
	Rows r = {.t = t, .left = 1, .n = 1, .step = 1};
	for (int d = 0; d < t->rank - 1; d++)
		r.left *= t->dim[d];
	if (t->rank) {
		r.n = t->dim[t->rank - 1];
		r.step = t->stride[t->rank - 1];
	}
	if (r.n == 0)
		r.left = 0;
	return r;
}

static void
rows_next(Rows *r)
{
	r->left--;
	for (int d = r->t->rank - 2; d >= 0; d--) {
		r->at += r->t->stride[d];
		if (++r->index[d] < r->t->dim[d])
			return;
		r->at -= r->index[d] * r->t->stride[d];
		r->index[d] = 0;
	}
}

/* One row between `row`, in the tensor's memory, and `host`. */
static void
move_row(const Rows *r, char *row, char *host, bool in)
{
	size_t size = (size_t)dtype_info[r->t->dtype].bits / 8;
	if (size == 0 || r->step == 1 || r->n == 1) {
		size_t bytes = (size_t)dtype_bytes((DType)r->t->dtype, r->n);
		memcpy(in ? row : host, in ? host : row, bytes);
		return;
	}
	for (int64_t i = 0; i < r->n; i++) {
		char *at = row + (size_t)(i * r->step) * size;
		memcpy(in ? at : host, in ? host : at, size);
		host += size;
	}
}

/* `image` is where the tensor's first element lies in memory that the host can reach. */
static void
move_rows(const TglTensor *t, char *image, char *host, bool in)
{
	int bits = dtype_info[t->dtype].bits;
	for (Rows r = rows_of(t); r.left > 0; rows_next(&r)) {
		move_row(&r, image + r.at * bits / 8, host, in);
		host += dtype_bytes((DType)t->dtype, r.n);
	}
}

/* Fetches the span of a strided tensor; NULL: no memory. */
static char *
image_open(const TglTensor *t, size_t *size)
{
	const char *low, *high;
	tensor_span(t, &low, &high);
	*size = (size_t)(high - low);
	char *image = malloc(*size ? *size : 1);
	if (image && !t->dev->dev.copy_out(&t->dev->dev, image, low, *size, true)) {
		free(image);
		return NULL;
	}
	return image;
}

bool
image_room(const TglTensor *t, Image *out)
{
	out->size = (size_t)(t->high - t->data);
	out->memory = calloc(1, out->size ? out->size : 1);
	return out->memory;
}

bool
tensor_image(const TglTensor *t, Image *out)
{
	Device *d = &t->dev->dev;
	return image_room(t, out) && d->copy_out(d, out->memory, t->data, out->size, true);
}

bool
image_back(const Image *m, TglTensor *t)
{
	return t->dev->dev.copy_in(&t->dev->dev, t->data, m->memory, m->size, true);
}

void
image_arg(const Image *m, PlanArg *a)
{
	a->data = a->low = m->memory;
	a->high = a->low + m->size;
}

/* Between the tensor and contiguous memory of the host. */
static bool
copy(const TglTensor *t, void *host, bool in)
{
	Device *d = &t->dev->dev;
	size_t size = tgl_tensor_bytes(t);
	if (tensor_is_contiguous(t))
		return in ? d->copy_in(d, t->data, host, size, true) : d->copy_out(d, host, t->data, size, true);
	char *image = d->host ? t->data : image_open(t, &size);
	if (!image)
		return false;
	move_rows(t, image, host, in);
	bool ok = !in || d->host || d->copy_in(d, t->data, image, size, true);
	if (!d->host)
		free(image);
	return ok;
}

bool
tensor_copy_in(TglTensor *t, const void *from)
{
	return copy(t, (void *)from, true);
}

bool
tensor_copy_out(const TglTensor *t, void *to)
{
	return copy(t, to, false);
}

bool
tensor_copy_check(TglTensor *t, const char *f, const void *host, size_t size)
{
	TglContext *cx = t->dev->cx;
	size_t want = tgl_tensor_bytes(t);
	if (want && context_null(cx, host, f, "host memory"))
		return false;
	if (size == want)
		return true;
	diag_error(cx->own, NOWHERE, DIAG_TENSOR_BYTES, f, (long long)want, (long long)size);
	context_fail(cx, TGL_ERROR_USAGE, NULL);
	return false;
}

static TglStatus
copied(TglTensor *t, const char *f, bool ok)
{
	if (ok)
		return TGL_OK;
	if (t->dev->dev.error.what != DEVICE_WELL)
		return context_fail(t->dev->cx, device_report(t->dev, t->dev->cx->own, NULL, NULL), NULL);
	diag_error(t->dev->cx->own, NOWHERE, DIAG_DEVICE_COPY, f, t->dev->dev.name);
	return context_fail(t->dev->cx, TGL_ERROR_DEVICE, NULL);
}

/* Data that comes back may be of a launch that failed: its fault is reported then. */
TglStatus
tensor_fetched(TglTensor *t, const char *f, bool ok)
{
	TglDevice *dev = t->dev;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	const DeviceQueue *q = dev->dev.queue;
	if (!ok || !q || q->stream_sync(&dev->dev, dev->dev.stream, &fault))
		return copied(t, f, ok);
	return context_fail(dev->cx, device_report(dev, dev->cx->own, &fault, NULL), NULL);
}

TglStatus
tgl_tensor_write(TglTensor *t, const void *from, size_t size)
{
	if (!t)
		return TGL_ERROR_USAGE;
	context_begin(t->dev->cx);
	if (!tensor_copy_check(t, "tgl_tensor_write", from, size))
		return TGL_ERROR_USAGE;
	return copied(t, "tgl_tensor_write", tensor_copy_in(t, from));
}

TglStatus
tgl_tensor_read(TglTensor *t, void *to, size_t size)
{
	if (!t)
		return TGL_ERROR_USAGE;
	context_begin(t->dev->cx);
	if (!tensor_copy_check(t, "tgl_tensor_read", to, size))
		return TGL_ERROR_USAGE;
	return tensor_fetched(t, "tgl_tensor_read", tensor_copy_out(t, to));
}

/* ---- fills ---- */

/* `n` copies of the element at `one`, `step` elements apart; packed elements come doubled in a
 * byte. */
static void
fill_row(char *row, const char *one, size_t size, int64_t n, int64_t step)
{
	if (step == 1 && size == 1) {
		memset(row, one[0], (size_t)n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(row + (size_t)(i * step) * size, one, size);
}

static bool
all_zero(const char *one, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (one[i])
			return false;
	return true;
}

static void
fill_host(const TglTensor *t, char *image, const char *one)
{
	int bits = dtype_info[t->dtype].bits;
	size_t size = (size_t)MAX(bits / 8, 1);
	if (tensor_is_contiguous(t) && all_zero(one, size)) {
		memset(image, 0, tgl_tensor_bytes(t));
		return;
	}
	for (Rows r = rows_of(t); r.left > 0; rows_next(&r)) {
		int64_t n = bits < 8 ? dtype_bytes((DType)t->dtype, r.n) : r.n;
		fill_row(image + r.at * bits / 8, one, size, n, r.n == 1 ? 1 : r.step);
	}
}

/* Whether its elements fill their span, each once, in whatever order: a transposed tensor does. */
static bool
is_dense(const TglTensor *t)
{
	int64_t step = 1;
	unsigned seen = 0;
	if (tensor_is_contiguous(t))
		return true;
	if (dtype_is_packed((DType)t->dtype))
		return false;
	for (int left = t->rank; left > 0; left--) {
		int next = -1;
		for (int d = 0; d < t->rank; d++)
			if (!(seen >> d & 1) && (t->dim[d] == 1 || t->stride[d] == step))
				next = d;
		if (next < 0)
			return false;
		seen |= 1u << next;
		step *= t->dim[next];
	}
	return true;
}

/* Fills every element with the bytes at `one`. */
static bool
fill(TglTensor *t, const char *one)
{
	Device *d = &t->dev->dev;
	if (d->host) {
		fill_host(t, t->data, one);
		return true;
	}
	size_t size;
	if (d->fill && is_dense(t)) {
		size = (size_t)MAX(dtype_info[t->dtype].bits / 8, 1);
		return d->fill(d, t->data, one, size, tgl_tensor_bytes(t) / size);
	}
	char *image = image_open(t, &size);
	if (!image)
		return false;
	fill_host(t, image, one);
	bool ok = d->copy_in(d, t->data, image, size, true);
	free(image);
	return ok;
}

bool
tensor_set(TglTensor *t, bool is_int, int64_t i, double f)
{
	char one[16] = {0};
	int last = dtype_is_packed((DType)t->dtype) ? 1 : 0;
	for (int e = 0; e <= last; e++) {
		if (is_int && !dtype_is_float((DType)t->dtype))
			dtype_store_i64((DType)t->dtype, one, e, i);
		else
			dtype_store_f64((DType)t->dtype, one, e, is_int ? (double)i : f);
	}
	return fill(t, one);
}

bool
tensor_poison(TglTensor *t)
{
	char one[16];
	memset(one, dtype_is_float((DType)t->dtype) ? 0xff : 0xa5, sizeof one);
	return fill(t, one);
}

TglStatus
tgl_tensor_fill(TglTensor *t, double v)
{
	if (!t)
		return TGL_ERROR_USAGE;
	context_begin(t->dev->cx);
	return copied(t, "tgl_tensor_fill", tensor_set(t, false, 0, v));
}

TglStatus
tgl_tensor_poison(TglTensor *t)
{
	if (!t)
		return TGL_ERROR_USAGE;
	context_begin(t->dev->cx);
	return copied(t, "tgl_tensor_poison", tensor_poison(t));
}

TglStatus
tgl_tensor_element(TglTensor *t, int64_t index, double *f, int64_t *i)
{
	if (!t)
		return TGL_ERROR_USAGE;
	context_begin(t->dev->cx);
	int64_t count = tgl_tensor_count(t), at = 0, left = index;
	if (index < 0 || index >= count) {
		diag_error(t->dev->cx->own, NOWHERE, DIAG_TENSOR_ELEMENT, (long long)index,
		    (long long)count);
		return context_fail(t->dev->cx, TGL_ERROR_USAGE, NULL);
	}
	for (int d = t->rank - 1; d >= 0; d--) {
		at += left % t->dim[d] * t->stride[d];
		left /= t->dim[d];
	}
	char one[16] = {0};
	int bits = dtype_info[t->dtype].bits;
	const char *from = t->data + (bits < 8 ? at / 2 : at * (bits / 8));
	if (!t->dev->dev.copy_out(&t->dev->dev, one, from, (size_t)MAX(bits / 8, 1), true))
		return copied(t, "tgl_tensor_element", false);
	int64_t half = bits < 8 ? at & 1 : 0;
	if (f)
		*f = dtype_load_f64((DType)t->dtype, one, half);
	if (i)
		*i = dtype_is_float((DType)t->dtype) ? 0
						     : dtype_load_i64((DType)t->dtype, one, half);
	return tensor_fetched(t, "tgl_tensor_element", true);
}
