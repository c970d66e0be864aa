/* .npy files: every type there and back, orders and byte orders that NumPy writes, and every way in
 * which a file can be broken. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/tgl.h"

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
	char folder[64], path[128];
} Fixture;

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	f->cx = tgl_context_open();
	f->dev = tgl_device_open(f->cx, "cpu", NULL);
	strcpy(f->folder, "/tmp/tegula-npy-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof f->path, "%s/x.npy", f->folder);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	chmod(f->folder, 0700);
	unlink(f->path);
	int left = rmdir(f->folder); /* fails if something was left lying there */
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	free(f);
	return left;
}

static void
put(const Fixture *f, const void *data, size_t size)
{
	FILE *out = fopen(f->path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(data, 1, size, out), size);
	fclose(out);
}

/* Writes a file of format `major` with this header text and these data. */
static void
put_npy(const Fixture *f, int major, const char *header, const void *data, size_t size)
{
	size_t n = strlen(header), start = major == 1 ? 10 : 12;
	unsigned char *all = calloc(1, start + n + size + 1);
	memcpy(all, "\x93NUMPY", 6);
	all[6] = (unsigned char)major;
	all[8] = n & 255;
	all[9] = n >> 8 & 255;
	memcpy(all + start, header, n);
	if (size)
		memcpy(all + start + n, data, size);
	put(f, all, start + n + size);
	free(all);
}

static void
assert_refused(Fixture *f, int want, const char *code)
{
	TglTensor *t = tgl_tensor_npy(f->dev, f->path, want);
	assert_null(t);
	const TglError *e = tgl_error(f->cx);
	assert_int_equal(e->status, TGL_ERROR_FILE);
	if (strcmp(e->code, code) != 0)
		print_error("%s", e->text);
	assert_string_equal(e->code, code);
	assert_non_null(strstr(e->message, f->path));
}

static void
assert_elements(TglTensor *t, const double *want, int n)
{
	assert_int_equal(tgl_tensor_count(t), n);
	for (int i = 0; i < n; i++) {
		double v;
		assert_int_equal(tgl_tensor_element(t, i, &v, NULL), TGL_OK);
		assert_true(v == want[i]);
	}
}

static void
test_every_dtype_there_and_back(void **state)
{
	Fixture *f = *state;
	for (TglDType t = 0; t < TGL_DTYPES; t++) {
		TglTensor *x = tgl_tensor(f->dev, t, 2, (int64_t[]){3, 4});
		size_t size = tgl_tensor_bytes(x);
		unsigned char *bytes = malloc(size), *back = malloc(size);
		for (size_t i = 0; i < size; i++)
			bytes[i] = (unsigned char)(t == TGL_BOOL ? i & 1 : i * 37 + 11);
		tgl_tensor_write(x, bytes, size);
		assert_int_equal(tgl_tensor_save(x, f->path), TGL_OK);
		TglTensor *y = tgl_tensor_npy(f->dev, f->path, t);
		if (!y)
			print_error("%s", tgl_error(f->cx)->text);
		assert_non_null(y);
		assert_int_equal(tgl_tensor_dtype(y), t);
		assert_int_equal(tgl_tensor_dim(y, 0), 3);
		assert_int_equal(tgl_tensor_dim(y, 1), 4);
		assert_int_equal(tgl_tensor_read(y, back, size), TGL_OK);
		assert_memory_equal(bytes, back, size);
		free(bytes);
		free(back);
		tgl_tensor_close(&x);
		tgl_tensor_close(&y);
	}
}

static void
test_every_rank(void **state)
{
	Fixture *f = *state;
	const int64_t dim[5] = {2, 1, 3, 2, 2};
	for (int rank = 0; rank <= 5; rank++) {
		TglTensor *x = tgl_tensor(f->dev, TGL_U16, rank, dim);
		tgl_tensor_fill(x, 7);
		assert_int_equal(tgl_tensor_save(x, f->path), TGL_OK);
		struct stat st;
		assert_int_equal(stat(f->path, &st), 0);
		assert_int_equal(((size_t)st.st_size - tgl_tensor_bytes(x)) % 64, 0);
		TglTensor *y = tgl_tensor_npy(f->dev, f->path, TGL_DTYPE_FROM_FILE);
		assert_int_equal(tgl_tensor_rank(y), rank);
		assert_int_equal(tgl_tensor_dtype(y), TGL_U16);
		assert_int_equal(tgl_tensor_count(y), tgl_tensor_count(x));
		tgl_tensor_close(&x);
		tgl_tensor_close(&y);
	}
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){0, 3});
	assert_int_equal(tgl_tensor_save(x, f->path), TGL_OK);
	tgl_tensor_close(&x);
	x = tgl_tensor_npy(f->dev, f->path, TGL_F32);
	assert_int_equal(tgl_tensor_dim(x, 0), 0);
	assert_int_equal(tgl_tensor_dim(x, 1), 3);
	tgl_tensor_close(&x);
}

/* What numpy.save writes for np.array([[1, 2, 3], [4, 5, 6]], dtype='<i2'), byte for byte. */
static void
test_header_as_numpy_writes_it(void **state)
{
	Fixture *f = *state;
	TglTensor *x = tgl_tensor(f->dev, TGL_I16, 2, (int64_t[]){2, 3});
	const int16_t v[6] = {1, 2, 3, 4, 5, 6};
	char want[140] =
	    "\x93NUMPY\x01\0v\0{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
	char got[141];
	for (int i = 10 + 59; i < 127; i++)
		want[i] = ' ';
	want[127] = '\n';
	memcpy(want + 128, v, sizeof v);
	tgl_tensor_write(x, v, sizeof v);
	assert_int_equal(tgl_tensor_save(x, f->path), TGL_OK);
	FILE *in = fopen(f->path, "rb");
	assert_int_equal(fread(got, 1, sizeof got, in), 140);
	fclose(in);
	assert_memory_equal(got, want, 140);
	tgl_tensor_close(&x);
}

static void
test_orders(void **state)
{
	Fixture *f = *state;
	const double want[6] = {1, 2, 3, 4, 5, 6};
	const int16_t turned[6] = {1, 4, 2, 5, 3, 6};
	const unsigned char big[12] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
	put_npy(f, 2, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<i2'}\n", turned,
	    sizeof turned);
	TglTensor *t = tgl_tensor_npy(f->dev, f->path, TGL_DTYPE_FROM_FILE);
	assert_non_null(t);
	assert_int_equal(tgl_tensor_stride(t, 0), 3);
	assert_elements(t, want, 6);
	tgl_tensor_close(&t);
	put_npy(f, 3, "{\"descr\": \">i2\", \"fortran_order\": False, \"shape\": (2L, 3L,), }   \n",
	    big, sizeof big);
	t = tgl_tensor_npy(f->dev, f->path, TGL_I16);
	assert_non_null(t);
	assert_elements(t, want, 6);
	tgl_tensor_close(&t);
	put_npy(
	    f, 1, "{'descr':'>f8','fortran_order':False,'shape':()}", "\x40\x04\0\0\0\0\0\0", 8);
	t = tgl_tensor_npy(f->dev, f->path, TGL_DTYPE_FROM_FILE);
	assert_non_null(t);
	assert_elements(t, (double[]){2.5}, 1);
	tgl_tensor_close(&t);
}

static void
test_types_without_a_name(void **state)
{
	Fixture *f = *state;
	const unsigned char ones[4] = {0x80, 0x3f, 0x00, 0xc0};
	const char *const descr[] = {"<V2", "|V2", "<u2"};
	char header[100];
	for (int i = 0; i < 3; i++) {
		snprintf(header, sizeof header,
		    "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}", descr[i]);
		put_npy(f, 1, header, ones, 4);
		TglTensor *t = tgl_tensor_npy(f->dev, f->path, TGL_BF16);
		assert_non_null(t);
		assert_elements(t, (double[]){1, -2}, 2);
		tgl_tensor_close(&t);
	}
	put_npy(f, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1)}", "\x21\x43", 2);
	TglTensor *t = tgl_tensor_npy(f->dev, f->path, TGL_U4);
	assert_non_null(t);
	assert_int_equal(tgl_tensor_dim(t, 1), 2);
	assert_elements(t, (double[]){1, 2, 3, 4}, 4);
	tgl_tensor_close(&t);
	assert_refused(f, TGL_F32, "E1206");
	assert_refused(f, TGL_BF16, "E1206");
	assert_refused(f, TGL_I8, "E1206");
	put_npy(f, 1, "{'descr': '|V1', 'fortran_order': False, 'shape': (2,)}", "\x38\xb8", 2);
	assert_refused(f, TGL_DTYPE_FROM_FILE, "E1205");
	t = tgl_tensor_npy(f->dev, f->path, TGL_F8E4M3);
	assert_non_null(t);
	assert_elements(t, (double[]){1, -1}, 2);
	tgl_tensor_close(&t);
	put_npy(f, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': ()}", "\x21", 1);
	assert_refused(f, TGL_U4, "E1209");
	put_npy(f, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\1\7", 3);
	t = tgl_tensor_npy(f->dev, f->path, TGL_BOOL);
	assert_elements(t, (double[]){0, 1, 1}, 3);
	tgl_tensor_close(&t);
}

static void
test_types_nobody_knows(void **state)
{
	Fixture *f = *state;
	const char *const descr[] = {"<c8", "<f3", "<U4", "|O", "<M8[ns]", "f",
	    "<f99999999999999999999", "", "<f4x", "<f16"};
	char header[120];
	for (int i = 0; i < (int)(sizeof descr / sizeof *descr); i++) {
		snprintf(header, sizeof header,
		    "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}", descr[i]);
		put_npy(f, 1, header, "12345678", 8);
		assert_refused(f, TGL_DTYPE_FROM_FILE, "E1205");
		assert_refused(f, TGL_F32, "E1206");
	}
}

static void
test_broken_headers(void **state)
{
	Fixture *f = *state;
	const char *const bad[] = {
	    "",
	    "{",
	    "}",
	    "[]",
	    "{}",
	    "{'descr'",
	    "{'descr': ",
	    "{'descr': '<f4",
	    "{'descr': '<f4'}",
	    "{'descr': '<f4', 'fortran_order': False}",
	    "{'fortran_order': False, 'shape': (1,)}",
	    "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
	    "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
	    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
	    "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
	    "{'descr': '\\x41', 'fortran_order': False, 'shape': (1,)}",
	    "{'descr': '<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4', 'fortran_order': False, 'shape': "
	    "(1,)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': "
	    "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
	    "1,1,1,1,1,1,1,1)}",
	};
	for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
		put_npy(f, 1 + i % 3, bad[i], "1234", 4);
		assert_refused(f, TGL_DTYPE_FROM_FILE, "E1204");
	}
	put_npy(
	    f, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1)}", "1234", 4);
	assert_refused(f, TGL_DTYPE_FROM_FILE, "E1207");
}

static void
test_broken_files(void **state)
{
	Fixture *f = *state;
	const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}";
	put(f, "", 0);
	assert_refused(f, TGL_F32, "E1202");
	put(f, "\x93NUMP", 5);
	assert_refused(f, TGL_F32, "E1202");
	put(f, "PK\3\4 this is an archive", 20);
	assert_refused(f, TGL_F32, "E1202");
	put(f, "\x93NUMPY", 6);
	assert_refused(f, TGL_F32, "E1204");
	put(f, "\x93NUMPY\1\0\x76", 9);
	assert_refused(f, TGL_F32, "E1204");
	put(f, "\x93NUMPY\1\0\x76\0{'descr'", 18);
	assert_refused(f, TGL_F32, "E1204");
	put(f, "\x93NUMPY\4\0\x76\0{}", 12);
	assert_refused(f, TGL_F32, "E1203");
	put(f, "\x93NUMPY\1\1\x76\0{}", 12);
	assert_refused(f, TGL_F32, "E1203");
	put(f, "\x93NUMPY\2\0\xff\xff\xff\xff{}", 14);
	assert_refused(f, TGL_F32, "E1204");
	put_npy(f, 1, header, "0123456789abcde", 15);
	assert_refused(f, TGL_F32, "E1208");
	put_npy(f, 1, header, "0123456789abcdefg", 17);
	assert_refused(f, TGL_F32, "E1208");
	put_npy(f, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000)}",
	    "1234", 4);
	assert_refused(f, TGL_F32, "E1208");
	unlink(f->path);
	assert_refused(f, TGL_F32, "E1201");
	assert_null(tgl_tensor_npy(f->dev, f->folder, TGL_F32));
	assert_string_equal(tgl_error(f->cx)->code, "E1201");
	if (access("/proc/self/mem", R_OK) == 0) { /* its first page can't be read */
		assert_null(tgl_tensor_npy(f->dev, "/proc/self/mem", TGL_F32));
		assert_string_equal(tgl_error(f->cx)->code, "E1210");
	}
	assert_null(tgl_tensor_npy(f->dev, NULL, TGL_F32));
	assert_string_equal(tgl_error(f->cx)->code, "E1150");
	assert_null(tgl_tensor_npy(f->dev, f->path, 99));
	assert_string_equal(tgl_error(f->cx)->code, "E1180");
	assert_null(tgl_tensor_npy(NULL, f->path, TGL_F32));
}

/* Any one byte changed or cut off gives a tensor or an error, and nothing worse. */
static void
test_every_byte_changed(void **state)
{
	Fixture *f = *state;
	TglTensor *x = tgl_tensor(f->dev, TGL_I16, 2, (int64_t[]){2, 3});
	tgl_tensor_save(x, f->path);
	tgl_tensor_close(&x);
	unsigned char all[140], copy[140];
	FILE *in = fopen(f->path, "rb");
	assert_int_equal(fread(all, 1, sizeof all, in), sizeof all);
	fclose(in);
	int opened = 0, refused = 0;
	for (int i = 0; i < 140; i++)
		for (int k = 0; k < 5; k++) {
			memcpy(copy, all, sizeof all);
			copy[i] = (unsigned char[]){0, 255, '(', '9', ' '}[k];
			put(f, copy, sizeof copy);
			x = tgl_tensor_npy(f->dev, f->path, TGL_DTYPE_FROM_FILE);
			opened += x != NULL;
			refused += x == NULL;
			tgl_tensor_close(&x);
		}
	for (size_t n = 0; n < sizeof all; n++) {
		put(f, all, n);
		assert_null(tgl_tensor_npy(f->dev, f->path, TGL_DTYPE_FROM_FILE));
	}
	assert_true(opened > 50 && refused > 200);
}

static void
test_writing(void **state)
{
	Fixture *f = *state;
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 1, (int64_t[]){4});
	char bad[160];
	snprintf(bad, sizeof bad, "%s/none/x.npy", f->folder);
	assert_int_equal(tgl_tensor_save(x, bad), TGL_ERROR_FILE);
	assert_string_equal(tgl_error(f->cx)->code, "E1211");
	assert_int_equal(tgl_tensor_save(x, f->folder), TGL_ERROR_FILE);
	assert_string_equal(tgl_error(f->cx)->code, "E1211");
	assert_int_equal(tgl_tensor_save(x, ""), TGL_ERROR_FILE);
	assert_int_equal(tgl_tensor_save(x, NULL), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_save(NULL, f->path), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tensor_save(x, "/dev/null"), TGL_OK);
	struct stat st;
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	if (access("/dev/full", W_OK) == 0) {
		assert_int_equal(tgl_tensor_save(x, "/dev/full"), TGL_ERROR_FILE);
		assert_string_equal(tgl_error(f->cx)->code, "E1211");
	}
	/* A file that is there keeps its rights and, through a link, its place. */
	char link[160];
	put(f, "old", 3);
	chmod(f->path, 0640);
	snprintf(link, sizeof link, "%s/link.npy", f->folder);
	assert_int_equal(symlink(f->path, link), 0);
	assert_int_equal(tgl_tensor_save(x, link), TGL_OK);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(st.st_size, 144);
	unlink(link);
	tgl_tensor_close(&x);
}

static void
test_strided_is_saved_in_order(void **state)
{
	Fixture *f = *state;
	const float v[6] = {1, 2, 3, 4, 5, 6};
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 2, (int64_t[]){2, 3});
	tgl_tensor_write(x, v, sizeof v);
	TglTensor *t = tgl_tensor_permute(x, (int[]){1, 0});
	assert_int_equal(tgl_tensor_save(t, f->path), TGL_OK);
	TglTensor *y = tgl_tensor_npy(f->dev, f->path, TGL_F32);
	assert_int_equal(tgl_tensor_dim(y, 0), 3);
	assert_elements(y, (double[]){1, 4, 2, 5, 3, 6}, 6);
	tgl_tensor_close(&x);
	tgl_tensor_close(&t);
	tgl_tensor_close(&y);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_every_dtype_there_and_back),
	    TEST(test_every_rank),
	    TEST(test_header_as_numpy_writes_it),
	    TEST(test_orders),
	    TEST(test_types_without_a_name),
	    TEST(test_types_nobody_knows),
	    TEST(test_broken_headers),
	    TEST(test_broken_files),
	    TEST(test_every_byte_changed),
	    TEST(test_writing),
	    TEST(test_strided_is_saved_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
