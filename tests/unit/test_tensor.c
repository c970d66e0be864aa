/* Tensors through the public interface: making, copying, views, fills, sizes that cannot be, and
 * when two of them share memory (against counting every byte). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/case/case.h"

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
} Fixture;

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	f->cx = tgl_context_open();
	f->dev = tgl_device_open(f->cx, "cpu", NULL);
	*state = f;
	return f->dev ? 0 : -1;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	free(f);
	return 0;
}

static void
assert_failed(TglContext *cx, TglStatus status, const char *code)
{
	const TglError *e = tgl_error(cx);
	assert_string_equal(tgl_status_name(e->status), tgl_status_name(status));
	assert_string_equal(e->code, code);
	assert_true(strlen(e->message) > 0);
	assert_non_null(strstr(e->text, e->message));
	assert_non_null(strstr(e->json, code));
}

static void
test_shapes_and_strides(void **state)
{
	Fixture *f = *state;
	TglTensor *t = tgl_tensor(f->dev, TGL_F16, 3, (int64_t[]){2, 3, 4});
	assert_non_null(t);
	assert_int_equal(tgl_error(f->cx)->status, TGL_OK);
	assert_int_equal(tgl_tensor_rank(t), 3);
	assert_int_equal(tgl_tensor_dtype(t), TGL_F16);
	assert_int_equal(tgl_tensor_count(t), 24);
	assert_int_equal(tgl_tensor_bytes(t), 48);
	assert_int_equal(tgl_tensor_dim(t, 2), 4);
	assert_int_equal(tgl_tensor_dim(t, 3), -1);
	assert_int_equal(tgl_tensor_stride(t, 0), 12);
	assert_int_equal(tgl_tensor_stride(t, 1), 4);
	assert_int_equal(tgl_tensor_stride(t, 2), 1);
	assert_ptr_equal(tgl_tensor_device(t), f->dev);
	assert_int_equal((uintptr_t)tgl_tensor_data(t) % 64, 0);
	assert_int_equal((t->data - t->alloc) % 256, 0);        /* as far as allocators of GPUs align */
	for (int i = 0; i < 48; i++)
		assert_int_equal(((char *)tgl_tensor_data(t))[i], 0);
	tgl_tensor_close(&t);
	assert_null(t);
	tgl_tensor_close(&t);
}

static void
test_rank_zero_and_empty(void **state)
{
	Fixture *f = *state;
	TglTensor *t = tgl_tensor(f->dev, TGL_F64, 0, NULL);
	double v = 2.5, back = 0;
	assert_non_null(t);
	assert_int_equal(tgl_tensor_count(t), 1);
	assert_int_equal(tgl_tensor_write(t, &v, sizeof v), TGL_OK);
	assert_int_equal(tgl_tensor_read(t, &back, sizeof back), TGL_OK);
	assert_true(back == 2.5);
	tgl_tensor_close(&t);
	t = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){0, INT64_C(1) << 50});
	assert_non_null(t);
	assert_int_equal(tgl_tensor_count(t), 0);
	assert_int_equal(tgl_tensor_bytes(t), 0);
	assert_int_equal(tgl_tensor_read(t, NULL, 0), TGL_OK);
	assert_int_equal(tgl_tensor_fill(t, 1), TGL_OK);
	assert_int_equal(tgl_tensor_poison(t), TGL_OK);
	assert_int_equal(tgl_tensor_element(t, 0, &v, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1192");
	tgl_tensor_close(&t);
}

static void
test_strided_copies(void **state)
{
	Fixture *f = *state;
	int32_t in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {0};
	TglTensor *t = tgl_tensor_strided(f->dev, TGL_I32, 2, (int64_t[]){2, 3}, (int64_t[]){1, 4});
	assert_non_null(t);
	assert_int_equal(tgl_tensor_bytes(t), 24);
	assert_int_equal(tgl_tensor_write(t, in, sizeof in), TGL_OK);
	int32_t *at = tgl_tensor_data(t);
	assert_int_equal(at[0], 1);
	assert_int_equal(at[1], 4);
	assert_int_equal(at[4], 2);
	assert_int_equal(at[9], 6);
	assert_int_equal(at[2], 0);
	assert_int_equal(tgl_tensor_read(t, out, sizeof out), TGL_OK);
	assert_memory_equal(in, out, sizeof in);
	assert_int_equal(tgl_tensor_fill(t, -7), TGL_OK);
	assert_int_equal(at[9], -7);
	assert_int_equal(at[2], 0);
	int64_t i = 0;
	assert_int_equal(tgl_tensor_element(t, 5, NULL, &i), TGL_OK);
	assert_int_equal(i, -7);
	tgl_tensor_close(&t);
}

static void
test_views_share(void **state)
{
	Fixture *f = *state;
	float in[12];
	for (int i = 0; i < 12; i++)
		in[i] = (float)i;
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){3, 4});
	tgl_tensor_write(t, in, sizeof in);
	TglTensor *v = tgl_tensor_view(t, (int64_t[]){1, 1}, (int64_t[]){2, 2});
	TglTensor *p = tgl_tensor_permute(v, (int[]){1, 0});
	float out[4];
	tgl_tensor_close(&t); /* the views keep the memory */
	assert_int_equal(tgl_tensor_read(v, out, sizeof out), TGL_OK);
	assert_memory_equal(out, ((float[]){5, 6, 9, 10}), sizeof out);
	assert_int_equal(tgl_tensor_read(p, out, sizeof out), TGL_OK);
	assert_memory_equal(out, ((float[]){5, 9, 6, 10}), sizeof out);
	tgl_tensor_fill(p, 1);
	assert_int_equal(tgl_tensor_read(v, out, sizeof out), TGL_OK);
	assert_memory_equal(out, ((float[]){1, 1, 1, 1}), sizeof out);
	assert_null(tgl_tensor_view(v, (int64_t[]){1, 0}, (int64_t[]){2, 1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1189");
	assert_null(tgl_tensor_view(v, (int64_t[]){0, INT64_MAX}, (int64_t[]){1, INT64_MAX}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1189");
	assert_null(tgl_tensor_view(v, NULL, (int64_t[]){1, 1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1150");
	assert_null(tgl_tensor_permute(v, (int[]){0, 0}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1191");
	assert_null(tgl_tensor_permute(v, (int[]){0, 2}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1191");
	tgl_tensor_close(&p);
	tgl_tensor_close(&v);
}

static void
test_packed(void **state)
{
	Fixture *f = *state;
	unsigned char bytes[4] = {0x21, 0x03, 0x54, 0x06}, back[4] = {0};
	TglTensor *t = tgl_tensor(f->dev, TGL_U4, 2, (int64_t[]){2, 3});
	int64_t i;
	assert_int_equal(tgl_tensor_bytes(t), 4);
	assert_int_equal(tgl_tensor_stride(t, 0), 4);
	assert_int_equal(tgl_tensor_write(t, bytes, 4), TGL_OK);
	for (int e = 0; e < 6; e++) {
		assert_int_equal(tgl_tensor_element(t, e, NULL, &i), TGL_OK);
		assert_int_equal(i, e + 1);
	}
	assert_int_equal(tgl_tensor_read(t, back, 4), TGL_OK);
	assert_memory_equal(bytes, back, 4);
	assert_int_equal(tgl_tensor_fill(t, 9), TGL_OK);
	assert_int_equal(tgl_tensor_element(t, 5, NULL, &i), TGL_OK);
	assert_int_equal(i, 9);
	TglTensor *v = tgl_tensor_view(t, (int64_t[]){0, 2}, (int64_t[]){2, 1});
	assert_non_null(v);
	assert_int_equal(tgl_tensor_bytes(v), 2);
	tgl_tensor_close(&v);
	assert_null(tgl_tensor_view(t, (int64_t[]){0, 1}, (int64_t[]){2, 2}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1190");
	assert_null(tgl_tensor_permute(t, (int[]){1, 0}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1191");
	tgl_tensor_close(&t);
	t = tgl_tensor(f->dev, TGL_I4, 1, (int64_t[]){5});
	tgl_tensor_fill(t, -3);
	assert_int_equal(tgl_tensor_element(t, 4, NULL, &i), TGL_OK);
	assert_int_equal(i, -3);
	tgl_tensor_close(&t);
	assert_null(tgl_tensor_strided(f->dev, TGL_I4, 2, (int64_t[]){2, 4}, (int64_t[]){5, 1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1184");
	assert_null(tgl_tensor_strided(f->dev, TGL_I4, 1, (int64_t[]){4}, (int64_t[]){2}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1184");
}

static void
test_fill_every_dtype(void **state)
{
	Fixture *f = *state;
	for (TglDType t = 0; t < TGL_DTYPES; t++) {
		TglTensor *x = tgl_tensor(f->dev, t, 2, (int64_t[]){3, 5});
		double v;
		assert_non_null(x);
		assert_int_equal(tgl_tensor_fill(x, 1), TGL_OK);
		for (int e = 0; e < 15; e++) {
			assert_int_equal(tgl_tensor_element(x, e, &v, NULL), TGL_OK);
			assert_true(v == 1);
		}
		assert_int_equal(tgl_tensor_poison(x), TGL_OK);
		tgl_tensor_element(x, 14, &v, NULL);
		if (dtype_is_float((DType)t) && t != TGL_F4E2M1)
			assert_true(isnan(v));
		tgl_tensor_close(&x);
	}
}

static void
test_wrap(void **state)
{
	Fixture *f = *state;
	float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	TglTensor *t =
	    tgl_tensor_wrap(f->dev, TGL_F32, 2, (int64_t[]){2, 4}, NULL, data, sizeof data);
	assert_non_null(t);
	assert_ptr_equal(tgl_tensor_data(t), data);
	tgl_tensor_fill(t, 3);
	assert_true(data[7] == 3);
	tgl_tensor_close(&t);
	assert_true(data[0] == 3);
	t = tgl_tensor_wrap(f->dev, TGL_F32, 2, (int64_t[]){3, 4}, (int64_t[]){0, 1}, data, 16);
	assert_non_null(t);
	assert_int_equal(tgl_tensor_count(t), 12);
	tgl_tensor_close(&t);
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 2, (int64_t[]){2, 4}, NULL, data, 31));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1187");
	assert_null(
	    tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){2}, (int64_t[]){8}, data, sizeof data));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1187");
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){2}, NULL, (char *)data + 1, 8));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1188");
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){2}, NULL, NULL, 8));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1150");
	assert_null(tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){2}, (int64_t[]){-1}, data, 8));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1183");
}

static void
test_set(void **state)
{
	Fixture *f = *state;
	float data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, other[3] = {9, 10, 11};
	double v;
	TglTensor *t = tgl_tensor_wrap(f->dev, TGL_F32, 1, (int64_t[]){8}, NULL, data, sizeof data);
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 2, (int64_t[]){1, 3}, NULL, other, sizeof other), TGL_OK);
	assert_int_equal(tgl_tensor_rank(t), 2);
	assert_int_equal(tgl_tensor_stride(t, 0), 3);
	assert_ptr_equal(tgl_tensor_data(t), other);
	assert_int_equal(tgl_tensor_element(t, 2, &v, NULL), TGL_OK);
	assert_true(v == 11);
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){4}, (int64_t[]){2}, data, sizeof data), TGL_OK);
	assert_int_equal(tgl_tensor_element(t, 3, &v, NULL), TGL_OK);
	assert_true(v == 7);
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){9}, NULL, data, sizeof data), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1187");
	assert_int_equal(tgl_tensor_rank(t), 0);
	assert_null(tgl_tensor_data(t));
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){1}, NULL, (char *)data + 2, 8), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1188");
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){3}, NULL, other, sizeof other), TGL_OK);
	TglTensor *view = tgl_tensor_view(t, (int64_t[]){1}, (int64_t[]){2});
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){8}, NULL, data, sizeof data), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1193");
	tgl_tensor_close(&view);
	tgl_tensor_close(&t);
	t = tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){8});
	assert_int_equal(tgl_tensor_set(t, TGL_F32, 1, (int64_t[]){8}, NULL, data, sizeof data), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1193");
	tgl_tensor_close(&t);
}

static void
test_sizes_that_cannot_be(void **state)
{
	Fixture *f = *state;
	assert_null(tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){INT64_MAX / 2, 4}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
	assert_null(tgl_tensor(f->dev, TGL_F32, 5, (int64_t[]){65536, 65536, 65536, 65536, 65536}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){INT64_MAX / 64}));
	assert_failed(f->cx, TGL_ERROR_MEMORY, "E1186");
	assert_non_null(strstr(tgl_error(f->cx)->message, "576460752303423484 bytes"));
	char total[32];
	TglDeviceInfo info;
	assert_int_equal(tgl_device_info(f->dev, &info), TGL_OK);
	snprintf(total, sizeof total, "%llu", (unsigned long long)info.memory);
	assert_null(tgl_tensor(f->dev, TGL_U8, 1, (int64_t[]){(int64_t)info.memory + 1}));
	assert_failed(f->cx, TGL_ERROR_MEMORY, "E1186");
	assert_non_null(strstr(tgl_error(f->cx)->message, total));
	assert_null(tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){-1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1182");
	assert_null(tgl_tensor(f->dev, TGL_F32, 6, (int64_t[]){1, 1, 1, 1, 1, 1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1181");
	assert_null(tgl_tensor(f->dev, TGL_F32, -1, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1181");
	assert_null(tgl_tensor(f->dev, TGL_F32, 2, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1150");
	assert_null(tgl_tensor(f->dev, (TglDType)99, 0, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1180");
	assert_null(tgl_tensor_strided(f->dev, TGL_F32, 1, (int64_t[]){2}, NULL));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1150");
	assert_null(
	    tgl_tensor_strided(f->dev, TGL_F32, 2, (int64_t[]){3, 3}, (int64_t[]){INT64_MAX, 1}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
}

typedef struct Shape {
	TglDType t;
	int rank;
	int64_t dim[3], stride[3];
} Shape;

/* Extents and strides whose products do not fit are refused by every function that makes a tensor, also where little memory
 * lies behind them or none: the build with UndefinedBehaviorSanitizer holds each sum to that. */
static void
test_products_that_overflow(void **state)
{
	static const Shape shape[] = {
	    {TGL_F32, 1, {((int64_t)1 << 62) + 4}, {0}}, {TGL_I4, 1, {INT64_MAX}, {1}}, {TGL_I4, 2, {0, INT64_MAX}, {2, 1}},
	    {TGL_F32, 2, {1, 8}, {INT64_MAX, 1}}, {TGL_F32, 2, {0, 8}, {INT64_MAX, 1}}, {TGL_F64, 1, {2}, {INT64_MAX / 8}},
	    {TGL_F32, 3, {INT64_C(1) << 40, INT64_C(1) << 40, 0}, {0, 0, 1}}, {TGL_U8, 2, {3, 3}, {INT64_MAX / 4, INT64_MAX / 4}},
	    {TGL_F32, 2, {INT64_C(1) << 32, INT64_C(1) << 32}, {0, 0}}, {TGL_F64, 1, {INT64_C(1) << 57}, {0}},
	    {TGL_U8, 1, {INT64_C(1) << 60}, {0}}, {TGL_F16, 1, {1}, {INT64_C(1) << 59}},
	};
	Fixture *f = *state;
	double memory[8] = {0};
	for (int i = 0; i < LEN(shape); i++) {
		const Shape *s = &shape[i];
		assert_null(tgl_tensor_wrap(f->dev, s->t, s->rank, s->dim, s->stride, memory, sizeof memory));
		assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
		assert_null(tgl_tensor_strided(f->dev, s->t, s->rank, s->dim, s->stride));
		assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
	}
	assert_null(tgl_tensor(f->dev, TGL_I4, 1, (int64_t[]){INT64_MAX}));
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1185");
}

/* The largest that are taken: their copies, views, elements and overlap are computed, not the memory. */
static void
test_largest(void **state)
{
	Fixture *f = *state;
	float one = 7;
	int64_t n = (INT64_C(1) << 58) - 1;
	double v = 0;
	TglTensor *t = tgl_tensor_wrap(f->dev, TGL_F32, 1, &n, (int64_t[]){0}, &one, SIZE_MAX);
	assert_non_null(t);
	assert_int_equal(tgl_tensor_count(t), n);
	assert_int_equal(tgl_tensor_bytes(t), 4 * n);
	assert_int_equal(tgl_tensor_read(t, &v, 4), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_element(t, n - 1, &v, NULL), TGL_OK);
	assert_true(v == 7);
	TglTensor *view = tgl_tensor_view(t, (int64_t[]){n}, (int64_t[]){0});
	assert_non_null(view);
	assert_true(tensor_overlaps(t, t) && tensor_overlaps_itself(t) && !tensor_overlaps(t, view));
	tgl_tensor_close(&view);
	tgl_tensor_close(&t);
	/* a dimension of extent 1 may have any stride, and a view may begin past it */
	t = tgl_tensor_wrap(f->dev, TGL_F32, 2, (int64_t[]){1, 1}, (int64_t[]){n - 1, n - 1}, &one, sizeof one);
	assert_non_null(t);
	view = tgl_tensor_view(t, (int64_t[]){1, 1}, (int64_t[]){0, 0});
	assert_non_null(view);
	assert_int_equal(tgl_tensor_read(t, &one, sizeof one), TGL_OK);
	tgl_tensor_close(&view);
	tgl_tensor_close(&t);
}

/* Memory that tensors hold counts: two that fit alone need not fit together. */
static void
test_memory_adds_up(void **state)
{
	Fixture *f = *state;
	TglDeviceInfo info;
	tgl_device_info(f->dev, &info);
	int64_t most = (int64_t)(info.memory / 3 * 2);
	TglTensor *a = tgl_tensor(f->dev, TGL_U8, 1, &most);
	if (!a) /* a machine that promises no more than it has may refuse */
		skip();
	assert_null(tgl_tensor(f->dev, TGL_U8, 1, &most));
	assert_failed(f->cx, TGL_ERROR_MEMORY, "E1186");
	tgl_tensor_close(&a);
	a = tgl_tensor(f->dev, TGL_U8, 1, &most);
	assert_non_null(a);
	tgl_tensor_close(&a);
}

static void
test_copy_sizes(void **state)
{
	Fixture *f = *state;
	char host[16] = {0};
	TglTensor *t = tgl_tensor(f->dev, TGL_I16, 1, (int64_t[]){4});
	assert_int_equal(tgl_tensor_write(t, host, 7), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1187");
	assert_int_equal(tgl_tensor_read(t, host, 16), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1187");
	assert_int_equal(tgl_tensor_read(t, NULL, 8), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1150");
	assert_int_equal(tgl_tensor_element(t, 4, NULL, NULL), TGL_ERROR_USAGE);
	assert_failed(f->cx, TGL_ERROR_USAGE, "E1192");
	assert_int_equal(tgl_tensor_element(t, -1, NULL, NULL), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_read(t, host, 8), TGL_OK);
	assert_string_equal(tgl_error(f->cx)->text, "");
	tgl_tensor_close(&t);
}

static void
test_null_handles(void **state)
{
	int64_t one = 1;
	TglTensor *t = NULL;
	TglDevice *d = NULL;
	TglContext *cx = NULL;
	assert_null(tgl_tensor(NULL, TGL_F32, 1, &one));
	assert_null(tgl_tensor_view(NULL, &one, &one));
	assert_null(tgl_device_open(NULL, "cpu", NULL));
	assert_int_equal(tgl_tensor_write(NULL, &one, 8), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_read(NULL, &one, 8), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_fill(NULL, 1), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_rank(NULL), -1);
	assert_int_equal(tgl_tensor_bytes(NULL), 0);
	assert_null(tgl_tensor_data(NULL));
	tgl_tensor_close(&t);
	tgl_device_close(&d);
	tgl_context_close(&cx);
	tgl_tensor_close(NULL);
	assert_int_equal(tgl_error(NULL)->status, TGL_ERROR_USAGE);
}

static void
test_devices(void **state)
{
	Fixture *f = *state;
	TglDeviceInfo info;
	assert_true(tgl_device_list(f->cx, 0, &info));
	assert_string_equal(info.name, "cpu");
	assert_true(info.available);
	assert_true(info.threads >= 1);
	assert_false(tgl_device_list(f->cx, 99, &info));
	assert_false(tgl_device_list(f->cx, -1, &info));
	assert_null(tgl_device_open(f->cx, "gpu9", NULL));
	assert_failed(f->cx, TGL_ERROR_NAME, "E1152");
	assert_null(tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.threads = -1}));
	assert_failed(f->cx, TGL_ERROR_DEVICE, "E1153");
	TglDevice *d = tgl_device_open(f->cx, NULL, &(TglDeviceOptions){.threads = 3});
	assert_int_equal(tgl_device_info(d, &info), TGL_OK);
	assert_int_equal(info.threads, 3);
	assert_int_equal(tgl_device_sync(d), TGL_OK);
	assert_int_equal(tgl_device_info(d, NULL), TGL_ERROR_USAGE);
	tgl_device_close(&d);
}

static bool
fail_copy(Device *d, void *to, const void *from, size_t size, bool wait)
{
	return false;
}

/* A device whose memory the host can't reach: strided tensors go through an image; copies may fail.
 */
static void
test_memory_out_of_reach(void **state)
{
	Fixture *f = *state;
	f->dev->dev.host = false;
	TglTensor *t = tgl_tensor_strided(f->dev, TGL_I16, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2});
	const int16_t in[6] = {1, 2, 3, 4, 5, 6};
	int16_t out[6];
	assert_int_equal(tgl_tensor_write(t, in, sizeof in), TGL_OK);
	assert_int_equal(tgl_tensor_read(t, out, sizeof out), TGL_OK);
	assert_memory_equal(in, out, sizeof in);
	assert_int_equal(tgl_tensor_fill(t, 5), TGL_OK);
	assert_int_equal(tgl_tensor_read(t, out, sizeof out), TGL_OK);
	assert_int_equal(out[5], 5);
	f->dev->dev.copy_in = f->dev->dev.copy_out = fail_copy;
	assert_int_equal(tgl_tensor_write(t, in, sizeof in), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "E1154");
	assert_int_equal(tgl_tensor_read(t, out, sizeof out), TGL_ERROR_DEVICE);
	assert_failed(f->cx, TGL_ERROR_DEVICE, "E1154");
	assert_int_equal(tgl_tensor_element(t, 0, NULL, NULL), TGL_ERROR_DEVICE);
	assert_int_equal(tgl_tensor_fill(t, 5), TGL_ERROR_DEVICE);
	assert_int_equal(tgl_tensor_poison(t), TGL_ERROR_DEVICE);
	tgl_tensor_close(&t);
}

/* Handles may be closed in any order. */
static void
test_close_order(void **state)
{
	TglContext *cx = tgl_context_open();
	TglDevice *d = tgl_device_open(cx, "cpu", NULL);
	TglTensor *t = tgl_tensor(d, TGL_F32, 1, (int64_t[]){3});
	TglTensor *v = tgl_tensor_view(t, (int64_t[]){1}, (int64_t[]){2});
	tgl_context_close(&cx);
	tgl_device_close(&d);
	tgl_tensor_close(&t);
	assert_int_equal(tgl_tensor_fill(v, 4), TGL_OK);
	tgl_tensor_close(&v);
}

/* ---- overlap, against a count of bytes ---- */

static unsigned
next(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

static bool
paint(const TglTensor *t, const char *base, unsigned char *bytes, unsigned char mark)
{
	int64_t index[TGL_MAX_RANK] = {0};
	int size = dtype_info[t->dtype].bits / 8;
	bool met = false;
	for (int64_t n = tgl_tensor_count(t); n > 0; n--) {
		int64_t at = t->data - base;
		for (int d = 0; d < t->rank; d++)
			at += index[d] * t->stride[d] * size;
		for (int i = 0; i < size; i++) {
			met |= bytes[at + i] != 0;
			bytes[at + i] |= mark;
		}
		for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--)
			index[d] = 0;
	}
	return met;
}

static void
test_overlap_is_exact(void **state)
{
	Fixture *f = *state;
	enum { SIZE = 4096 };
	char *memory = calloc(1, SIZE);
	unsigned char *bytes = malloc(SIZE);
	unsigned seed = 7;
	int met = 0, apart = 0;
	for (int round = 0; round < 20000; round++) {
		int64_t da[2], db[2], stride[2];
		for (int d = 0; d < 2; d++) {
			da[d] = 1 + next(&seed) % 6;
			db[d] = 1 + next(&seed) % 6;
			stride[d] = next(&seed) % 12;
		}
		int64_t at = next(&seed) % 40;
		TglTensor *a = tgl_tensor_wrap(f->dev, TGL_I16, 2, da, stride, memory, SIZE);
		TglTensor *b =
		    tgl_tensor_wrap(f->dev, TGL_I16, 2, db, stride, memory + 2 * at, SIZE - 80);
		memset(bytes, 0, SIZE);
		assert_int_equal(tensor_overlaps_itself(a), paint(a, memory, bytes, 1));
		paint(b, memory, bytes, 2);
		bool both = false;
		for (int i = 0; i < SIZE; i++)
			both |= bytes[i] == 3;
		bool said = tensor_overlaps(a, b);
		bool same_box = (da[0] > 1) == (db[0] > 1) && (da[1] > 1) == (db[1] > 1);
		if (same_box)
			assert_int_equal(said, both);
		else if (both)
			assert_true(said);
		met += both;
		apart += !both;
		tgl_tensor_close(&a);
		tgl_tensor_close(&b);
	}
	assert_true(met > 1000 && apart > 1000);
	free(memory);
	free(bytes);
}

static void
test_overlap_of_columns(void **state)
{
	Fixture *f = *state;
	TglTensor *t = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){100, 100});
	TglTensor *a = tgl_tensor_view(t, (int64_t[]){0, 0}, (int64_t[]){100, 50});
	TglTensor *b = tgl_tensor_view(t, (int64_t[]){0, 50}, (int64_t[]){100, 50});
	TglTensor *c = tgl_tensor_view(t, (int64_t[]){99, 49}, (int64_t[]){1, 2});
	assert_false(tensor_overlaps(a, b));
	assert_true(tensor_overlaps(a, t));
	assert_true(tensor_overlaps(c, a));
	assert_true(tensor_overlaps(c, b));
	assert_false(tensor_overlaps_itself(a));
	tgl_tensor_close(&a);
	tgl_tensor_close(&b);
	tgl_tensor_close(&c);
	tgl_tensor_close(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_shapes_and_strides, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_rank_zero_and_empty, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_strided_copies, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_views_share, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_packed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fill_every_dtype, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_wrap, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_set, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sizes_that_cannot_be, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_products_that_overflow, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_largest, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_memory_adds_up, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_copy_sizes, setup, teardown),
	    cmocka_unit_test(test_null_handles),
	    cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_memory_out_of_reach, setup, teardown),
	    cmocka_unit_test(test_close_order),
	    cmocka_unit_test_setup_teardown(test_overlap_is_exact, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_overlap_of_columns, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
