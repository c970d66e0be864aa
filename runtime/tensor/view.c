/* Parts of a tensor and other orders of its dimensions, which share its memory. */
#include "runtime/tensor/tensor.h"

static TglTensor *
share(TglTensor *t)
{
	TglTensor *r = tensor_make(t->dev, t->dtype, t->rank, t->dim, t->stride);
	r->base = t->base ? t->base : t;
	r->base->refs++;
	r->data = t->data;
	r->low = t->low;
	r->high = t->high;
	return r;
}

static bool
view_check(TglTensor *t, const int64_t *first, const int64_t *extent)
{
	Compile *cx = t->dev->cx->own;
	bool packed = dtype_is_packed((DType)t->dtype);
	for (int d = 0; d < t->rank; d++) {
		if (first[d] < 0 || extent[d] < 0 || first[d] > t->dim[d] ||
		    extent[d] > t->dim[d] - first[d])
			return diag_error(cx, NOWHERE, DIAG_TENSOR_VIEW, (long long)first[d],
			    (long long)extent[d], d, (long long)t->dim[d]);
		bool to_edge = first[d] + extent[d] == t->dim[d];
		if (packed && d == t->rank - 1 && (first[d] & 1 || (extent[d] & 1 && !to_edge)))
			return diag_error(cx, NOWHERE, DIAG_TENSOR_VIEW_PACKED,
			    dtype_info[t->dtype].text, (long long)first[d], (long long)extent[d]);
	}
	return true;
}

TglTensor *
tgl_tensor_view(TglTensor *t, const int64_t *first, const int64_t *extent)
{
	if (!t)
		return NULL;
	TglContext *cx = t->dev->cx;
	context_begin(cx);
	if (t->rank && (context_null(cx, first, "tgl_tensor_view", "first") ||
			   context_null(cx, extent, "tgl_tensor_view", "extent")))
		return NULL;
	if (!view_check(t, first, extent)) {
		context_fail(cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	TglTensor *r = share(t);
	int64_t at = 0;
	bool empty = false;
	for (int d = 0; d < t->rank; d++) {
		r->dim[d] = extent[d];
		empty |= extent[d] == 0;
	}
	for (int d = 0; d < t->rank && !empty; d++)
		at += first[d] * t->stride[d];
	r->data += at * dtype_info[t->dtype].bits / 8;
	return r;
}

TglTensor *
tgl_tensor_permute(TglTensor *t, const int *order)
{
	if (!t)
		return NULL;
	TglContext *cx = t->dev->cx;
	context_begin(cx);
	if (t->rank && context_null(cx, order, "tgl_tensor_permute", "order"))
		return NULL;
	unsigned seen = 0;
	for (int d = 0; d < t->rank; d++)
		if (order[d] >= 0 && order[d] < t->rank)
			seen |= 1u << order[d];
	bool packed = dtype_is_packed((DType)t->dtype);
	if (seen != (1u << t->rank) - 1 ||
	    (packed && t->rank && order[t->rank - 1] != t->rank - 1)) {
		diag_error(cx->own, NOWHERE, DIAG_TENSOR_ORDER, t->rank,
		    packed ? ", the last one staying last for a packed type" : "");
		context_fail(cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	TglTensor *r = share(t);
	for (int d = 0; d < t->rank; d++) {
		r->dim[d] = t->dim[order[d]];
		r->stride[d] = t->stride[order[d]];
	}
	return r;
}
