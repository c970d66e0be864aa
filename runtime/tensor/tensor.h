/* Tensors: memory of a device with a dtype, extents and strides; copies, fills, and .npy files. */
#ifndef TEGULA_TENSOR_H
#define TEGULA_TENSOR_H

#include "runtime/runtime.h"

struct TglTensor {
	TglDevice *dev;
	int refs;                       /* views hold their base */
	TglTensor *base;                /* whose memory it is; NULL: its own or the caller's */
	TglDType dtype;
	bool of_bytes;                  /* of a file that counts bytes: the last of a packed row may hold one element */
	int rank;
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK];
	char *data;
	char *alloc;                    /* guard zones and all; NULL: not ours */
	size_t alloc_bytes;
	char *low, *high;               /* bounds of the memory that belongs to it */
};

/* tensor.c */

enum { GUARD_BYTES = 256 };             /* on both sides of what the library allocates, so that it begins with a line */

/* Bytes of a contiguous tensor; false if they pass 2^63 - 1. */
bool tensor_size(TglDType t, int rank, const int64_t *dim, int64_t *count, int64_t *bytes);
void tensor_contiguous(TglDType t, int rank, const int64_t *dim, int64_t *stride);
bool tensor_is_contiguous(const TglTensor *t);
/* Without memory yet; strides NULL: contiguous. */
TglTensor *tensor_make(TglDevice *dev, TglDType t, int rank, const int64_t *dim, const int64_t *stride);
TglTensor *tensor_open(TglDevice *dev, Compile *report, TglDType t, int rank, const int64_t *dim,
    const int64_t *stride);
void tensor_unref(TglTensor *t);
PlanArg tensor_arg(const TglTensor *t);
bool tensor_guard_whole(const TglTensor *t); /* nothing wrote next to it */
bool tensor_copy_in(TglTensor *t, const void *from); /* contiguous host copy to tensor */
bool tensor_copy_out(const TglTensor *t, void *to);
TglStatus tensor_fetched(TglTensor *t, const char *f, bool ok); /* waits, and looks for faults of kernels */
bool tensor_copy_check(TglTensor *t, const char *f, const void *host, size_t size); /* the size fits */
/* A copy on the host of a tensor's memory, from its first element to the end of what it owns. */
typedef struct Image {
	char *memory;
	size_t size;
} Image;

bool tensor_image(const TglTensor *t, Image *out); /* false: no memory, or the device failed */
bool image_room(const TglTensor *t, Image *out); /* zeros as long, of what is yet to be made */
bool image_back(const Image *m, TglTensor *t);  /* into the tensor's memory, as it lies there */
void image_arg(const Image *m, PlanArg *a); /* the tensor's argument is the copy from now on */
bool tensor_set(TglTensor *t, bool is_int, int64_t i, double f); /* every element */
bool tensor_poison(TglTensor *t);
/* First and one past the last byte that elements of it occupy; equal if there are none. */
void tensor_span(const TglTensor *t, const char **low, const char **high);

/* overlap.c */
bool tensor_overlaps(const TglTensor *a, const TglTensor *b);
bool tensor_overlaps_itself(const TglTensor *t); /* two different indices of it reach one byte */

/* npy_header.c: what a .npy file says of its data */

enum { MAX_NPY_RANK = 32 };

typedef struct NpyHeader {
	char descr[32];
	char order, kind;               /* '<' '>' '|' '='; 'b' 'i' 'u' 'f' 'V' */
	int size;                       /* bytes of an element */
	bool fortran;
	int rank;
	int64_t dim[MAX_NPY_RANK];
	int64_t start;                  /* offset of the data */
} NpyHeader;

/* False: *why says what is wrong. */
bool npy_parse_header(const char *text, size_t size, NpyHeader *h, const char **why);

/* npy.c */

TglTensor *npy_open(TglDevice *dev, Compile *report, const char *path, int want);

#endif
