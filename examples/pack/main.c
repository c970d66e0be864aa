/* Softmax of 32 rows by a pack of dsl_examples/softmax.tgl: what `tegula pack` made is softmax.h and softmax.c. */
#include "softmax.h"

#include <stdio.h>
#include <stdlib.h>

/* What is needed of cuda.h, so that this is built without the CUDA toolkit too. */
typedef uint64_t CUdeviceptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int index);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream);
int cuStreamSynchronize(void *stream);

enum { ROWS = 32, COLUMNS = 1000 };

static void
must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "%s failed: %d\n", what, result);
	exit(1);
}

int
main(void)
{
	static float v[ROWS * COLUMNS];
	size_t bytes = sizeof v;
	CUdeviceptr x, y;
	void *context;
	int device, i;
	double sum = 0;
	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAlloc_v2(&x, bytes), "cuMemAlloc");
	must(cuMemAlloc_v2(&y, bytes), "cuMemAlloc");
	for (i = 0; i < ROWS * COLUMNS; i++)
		v[i] = (float)(i % 7);
	must(cuMemcpyHtoDAsync_v2(x, v, bytes, NULL), "cuMemcpyHtoDAsync");

	TgpContext *cx = softmax_open();
	TgpStatus s = softmax(cx, NULL, (const float *)(uintptr_t)x, (float *)(uintptr_t)y, ROWS, COLUMNS);
	if (s == TGP_OK)
		s = softmax_sync(cx, NULL);
	if (s != TGP_OK) {
		fprintf(stderr, "%s\n", softmax_error(cx));
		return 1;
	}
	must(cuMemcpyDtoHAsync_v2(v, y, bytes, NULL), "cuMemcpyDtoHAsync");
	must(cuStreamSynchronize(NULL), "cuStreamSynchronize");
	for (i = 0; i < COLUMNS; i++)
		sum += v[i];
	printf("launched; the first row sums to %g\n", sum);
	softmax_close(&cx);
	return 0;
}
