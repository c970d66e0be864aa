/* .npy files: one tensor with its type and shape.
 *
 *     \x93NUMPY 1 0  <length>  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padding
 * \n  data
 *
 * npy_header.c reads the dictionary.  The file's size is compared with what the header asks for before memory is allocated,
 * so that a wrong header is reported as such.  Bits of types that NumPy has no names for come as raw bytes (V) or as
 * unsigned integers, and the caller says what they are.  A reader sees the old file or the whole new one (base/file.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/tensor/tensor.h"

enum { MAX_HEADER = 1 << 20 };

/* ---- types ---- */

/* How files hold a dtype: the type that is written, and the kinds that are read as it, of `size` bytes.  NumPy has no names
 * for bf16, fp8 and packed types. */
static const struct {
	const char *descr, *kinds;
	int size;
} types[TGL_DTYPES] = {
    [TGL_BOOL] = {"|b1", "b", 1},
    [TGL_I8] = {"|i1", "i", 1},
    [TGL_I16] = {"<i2", "i", 2},
    [TGL_I32] = {"<i4", "i", 4},
    [TGL_I64] = {"<i8", "i", 8},
    [TGL_U8] = {"|u1", "u", 1},
    [TGL_U16] = {"<u2", "u", 2},
    [TGL_U32] = {"<u4", "u", 4},
    [TGL_U64] = {"<u8", "u", 8},
    [TGL_F16] = {"<f2", "f", 2},
    [TGL_BF16] = {"<V2", "Vu", 2},
    [TGL_F32] = {"<f4", "f", 4},
    [TGL_F64] = {"<f8", "f", 8},
    [TGL_F8E4M3] = {"|V1", "Vuf", 1},
    [TGL_F8E5M2] = {"|V1", "Vuf", 1},
    [TGL_I4] = {"|u1", "Vu", 1},
    [TGL_U4] = {"|u1", "Vu", 1},
    [TGL_F4E2M1] = {"|u1", "Vu", 1},
};

static bool
type_matches(const NpyHeader *h, TglDType want)
{
	return h->kind && strchr(types[want].kinds, h->kind) && h->size == types[want].size;
}

static bool
choose_type(Compile *cx, const char *path, NpyHeader *h, int want, TglDType *out)
{
	if (want != TGL_DTYPE_FROM_FILE) {
		*out = (TglDType)want;
		if (type_matches(h, *out))
			return true;
		return diag_error(cx, NOWHERE, DIAG_NPY_WANT, path, h->descr, types[*out].descr,
		    tgl_dtype_name(*out));
	}
	/* In this order a raw two-byte type is bf16, and raw bytes, which may be many things, are
	 * refused. */
	const TglDType known[] = {TGL_BOOL, TGL_I8, TGL_I16, TGL_I32, TGL_I64, TGL_U8, TGL_U16,
	    TGL_U32, TGL_U64, TGL_F16, TGL_F32, TGL_F64, TGL_BF16};
	for (int i = 0; i < LEN(known); i++)
		if (type_matches(h, known[i])) {
			*out = known[i];
			return true;
		}
	return diag_error(cx, NOWHERE, DIAG_NPY_DTYPE, path, h->descr);
}

/* ---- reading ---- */

static bool
read_error(Compile *cx, const char *path, FILE *f)
{
	if (ferror(f))
		diag_error(cx, NOWHERE, DIAG_NPY_READ, path, strerror(errno));
	else
		diag_error(cx, NOWHERE, DIAG_NPY_HEADER, path, "the file ends within it");
	return false;
}

static bool
read_header(Compile *cx, const char *path, FILE *f, NpyHeader *h)
{
	unsigned char b[12];
	size_t got = fread(b, 1, 6, f);
	if (ferror(f))
		return read_error(cx, path, f);
	if (got < 6 || memcmp(b, "\x93NUMPY", 6) != 0)
		return diag_error(cx, NOWHERE, DIAG_NPY_MAGIC, path);
	if (fread(b + 6, 1, 2, f) != 2)
		return read_error(cx, path, f);
	if (b[6] < 1 || b[6] > 3 || b[7] != 0)
		return diag_error(cx, NOWHERE, DIAG_NPY_VERSION, path, b[6], b[7]);
	size_t nlength = b[6] == 1 ? 2 : 4, length = 0;
	if (fread(b + 8, 1, nlength, f) != nlength)
		return read_error(cx, path, f);
	for (size_t i = 0; i < nlength; i++)
		length |= (size_t)b[8 + i] << 8 * i;
	if (length > MAX_HEADER)
		return diag_error(cx, NOWHERE, DIAG_NPY_HEADER, path, "it is longer than a mebibyte");
	h->start = 8 + (int64_t)nlength + (int64_t)length;
	char *text = malloc(length + 1);
	const char *why = "no memory";
	bool ok = text && fread(text, 1, length, f) == length;
	if (text && !ok)
		read_error(cx, path, f);
	else if (!ok || !npy_parse_header(text, length, h, &why)) {
		diag_error(cx, NOWHERE, DIAG_NPY_HEADER, path, why);
		ok = false;
	}
	free(text);
	return ok;
}

static bool
data_size(const NpyHeader *h, int64_t *out)
{
	int64_t n = h->size;
	for (int d = 0; d < h->rank; d++)
		if (h->dim[d] == 0) {
			*out = 0;
			return true;
		}
	if (ANY_OF(d, h->rank, __builtin_mul_overflow(n, h->dim[d], &n)))
		return false;
	*out = n;
	return n <= INT64_MAX - h->start;
}

/* Whether the file is as long as its header says; of a pipe the size is not known. */
static bool
check_size(Compile *cx, const char *path, FILE *f, const NpyHeader *h, int64_t bytes)
{
	struct stat st;
	if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == h->start + bytes)
		return true;
	return diag_error(
	    cx, NOWHERE, DIAG_NPY_SIZE, path, (long long)st.st_size, (long long)(h->start + bytes));
}

static void
swap_bytes(char *p, int64_t bytes, int size)
{
	for (int64_t i = 0; i + size <= bytes; i += size)
		for (int a = 0, b = size - 1; a < b; a++, b--) {
			char c = p[i + a];
			p[i + a] = p[i + b];
			p[i + b] = c;
		}
}

/* Fortran order, first dimension fastest, to row-major order. */
static void
reorder(const NpyHeader *h, const char *from, char *to, int64_t bytes)
{
	int64_t index[MAX_NPY_RANK] = {0}, step[MAX_NPY_RANK];
	int64_t at = 0;
	for (int d = 0; d < h->rank; d++)
		step[d] = d ? step[d - 1] * h->dim[d - 1] : 1;
	for (int64_t i = 0; i < bytes; i += h->size) {
		memcpy(to + i, from + at * h->size, (size_t)h->size);
		for (int d = h->rank - 1; d >= 0; d--) {
			at += step[d];
			if (++index[d] < h->dim[d])
				break;
			at -= index[d] * step[d];
			index[d] = 0;
		}
	}
}

static void
repair(const NpyHeader *h, TglDType t, char *data, int64_t bytes)
{
	if (h->size > 1 && h->order == '>')
		swap_bytes(data, bytes, h->size);
	for (int64_t i = 0; t == TGL_BOOL && i < bytes; i++)
		data[i] = data[i] != 0;
}

/* The data into `to`, row-major and in this machine's byte order. */
static bool
read_data(
    Compile *cx, const char *path, FILE *f, const NpyHeader *h, TglDType t, char *to, int64_t bytes)
{
	bool turned = h->fortran && h->rank > 1;
	char *raw = turned ? malloc((size_t)MAX(bytes, 1)) : to;
	if (!raw)
		return diag_error(
		    cx, NOWHERE, DIAG_NPY_READ, path, "no memory to put it in row-major order");
	size_t got = fread(raw, 1, (size_t)bytes, f);
	bool ok = got == (size_t)bytes;
	if (ferror(f))
		diag_error(cx, NOWHERE, DIAG_NPY_READ, path, strerror(errno));
	else if (!ok || fgetc(f) != EOF) {
		diag_error(cx, NOWHERE, DIAG_NPY_SIZE, path,
		    (long long)(h->start + (int64_t)got + ok), (long long)(h->start + bytes));
		ok = false;
	}
	if (ok && turned)
		reorder(h, raw, to, bytes);
	if (ok)
		repair(h, t, to, bytes);
	if (turned)
		free(raw);
	return ok;
}

static TglTensor *
make(TglDevice *dev, Compile *cx, const char *path, NpyHeader *h, TglDType t)
{
	if (h->rank > TGL_MAX_RANK) {
		diag_error(cx, NOWHERE, DIAG_NPY_RANK, path, h->rank, TGL_MAX_RANK);
		return NULL;
	}
	int64_t dim[TGL_MAX_RANK] = {0};
	for (int d = 0; d < h->rank; d++)
		dim[d] = h->dim[d];
	if (dtype_is_packed((DType)t)) {
		if (h->rank == 0 || dim[h->rank - 1] > INT64_MAX / 2) {
			diag_error(cx, NOWHERE, DIAG_NPY_WIDTH, path, tgl_dtype_name(t));
			return NULL;
		}
		dim[h->rank - 1] *= 2;
	}
	TglTensor *r = tensor_open(dev, cx, t, h->rank, dim, NULL);
	if (r)
		r->of_bytes = dtype_is_packed((DType)t);
	return r;
}

static TglTensor *
read_file(TglDevice *dev, Compile *cx, const char *path, FILE *f, int want)
{
	NpyHeader h = {0};
	TglDType t = 0;
	int64_t bytes;
	if (!read_header(cx, path, f, &h) || !choose_type(cx, path, &h, want, &t))
		return NULL;
	if (!data_size(&h, &bytes)) {
		diag_error(
		    cx, NOWHERE, DIAG_NPY_HEADER, path, "the tensor has more than 2^63 - 1 bytes");
		return NULL;
	}
	if (!check_size(cx, path, f, &h, bytes))
		return NULL;
	TglTensor *r = make(dev, cx, path, &h, t);
	if (!r)
		return NULL;
	char *host = dev->dev.host ? r->data : malloc((size_t)MAX(bytes, 1));
	bool ok = host && read_data(cx, path, f, &h, t, host, bytes);
	if (ok && !dev->dev.host && !tensor_copy_in(r, host)) {
		device_report(dev, cx, NULL, NULL);
		ok = false;
	}
	if (host && !dev->dev.host)
		free(host);
	if (!ok) {
		tensor_unref(r);
		return NULL;
	}
	return r;
}

TglTensor *
npy_open(TglDevice *dev, Compile *report, const char *path, int want)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	if (f && fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
		fclose(f);
		f = NULL;
		errno = EISDIR;
	}
	if (!f) {
		diag_error(report, NOWHERE, DIAG_NPY_OPEN, path, strerror(errno));
		return NULL;
	}
	TglTensor *r = read_file(dev, report, path, f, want);
	fclose(f);
	return r;
}

TglTensor *
tgl_tensor_npy(TglDevice *dev, const char *path, int want)
{
	if (!dev || !context_call(dev->cx, "tgl_tensor_npy", "path", path))
		return NULL;
	TglContext *cx = dev->cx;
	if (want < -1 || want >= TGL_DTYPES) {
		diag_error(cx->own, NOWHERE, DIAG_TENSOR_DTYPE, want);
		context_fail(cx, TGL_ERROR_USAGE, NULL);
		return NULL;
	}
	TglTensor *r = npy_open(dev, cx->own, path, want);
	if (!r)
		context_fail(cx, report_status(cx->own, TGL_ERROR_FILE), NULL);
	return r;
}

/* ---- writing ---- */

static void
header_text(const TglTensor *t, Text *out)
{
	text_printf(
	    out, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[t->dtype].descr);
	for (int d = 0; d < t->rank; d++) {
		int64_t n = t->dim[d];
		if (d == t->rank - 1 && dtype_is_packed((DType)t->dtype))
			n = n / 2 + n % 2;
		text_printf(out, "%lld%s", (long long)n, d == 0 || d < t->rank - 1 ? "," : "");
		if (d < t->rank - 1)
			text_put(out, " ");
	}
	text_put(out, "), }");
	while ((10 + out->n + 1) % 64)
		text_put(out, " ");
	text_put(out, "\n");
}

static bool
write_tensor(int fd, void *of)
{
	const TglTensor *t = of;
	size_t bytes = tgl_tensor_bytes(t);
	bool direct = t->dev->dev.host && tensor_is_contiguous(t);
	char *data = direct ? t->data : malloc(bytes ? bytes : 1);
	if (!data)
		return false;
	if (!direct && !tensor_copy_out(t, data)) {
		free(data);
		errno = EIO;
		return false;
	}
	Text head = {0};
	header_text(t, &head);
	unsigned char start[10] = {
	    0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, head.n & 255, head.n >> 8 & 255};
	bool ok = file_put(fd, start, sizeof start) && file_put(fd, head.at, head.n) &&
		  file_put(fd, data, bytes);
	int keep = errno;
	text_close(&head);
	if (!direct)
		free(data);
	errno = keep;
	return ok;
}

static bool
save(const TglTensor *t, Compile *report, const char *path)
{
	bool ok = file_write(path, write_tensor, (void *)t);
	if (!ok)
		diag_error(report, NOWHERE, DIAG_NPY_WRITE, path, strerror(errno));
	return ok;
}

TglStatus
tgl_tensor_save(TglTensor *t, const char *path)
{
	if (!t || !context_call(t->dev->cx, "tgl_tensor_save", "path", path))
		return TGL_ERROR_USAGE;
	TglContext *cx = t->dev->cx;
	TglStatus s = tensor_fetched(t, "tgl_tensor_save", true);
	if (s != TGL_OK)
		return s;
	if (!save(t, cx->own, path))
		return context_fail(cx, TGL_ERROR_FILE, NULL);
	return TGL_OK;
}
