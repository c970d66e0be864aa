/* A pack with the target cpu: kernels on the host, what they refuse, threads, and a child of fork.
 * C99 and C++ (tests/pack/run compiles it as both). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;
static TgpContext *cx;

#define CHECK(e) ((e) ? (void)0 : (void)(failed++, printf("host.c:%d: %s: %s\n", __LINE__, #e, kernels_error(cx))))
#define FAILS(status, text, e) CHECK((e) == (status) && strstr(kernels_error(cx), text))

static void
rows(void)
{
	float x[7 * 33], y[7 * 33];
	int i;
	for (i = 0; i < 7 * 33; i++)
		x[i] = (float)i;
	CHECK(copy_rows(cx, NULL, x, y, 7, 33) == TGP_OK);
	for (i = 0; i < 7 * 33; i++)
		CHECK(y[i] == x[i] + 1);
	CHECK(copy_rows(cx, NULL, x, y, 0, 33) == TGP_OK);
	FAILS(TGP_ERROR_USAGE, "y is NULL", copy_rows(cx, NULL, x, NULL, 7, 33));
	FAILS(TGP_ERROR_USAGE, "overlaps", copy_rows(cx, NULL, x, x + 1, 7, 33));
	FAILS(TGP_ERROR_USAGE, "C <= 100000", copy_rows(cx, NULL, x, y, 1, 100001));
	FAILS(TGP_ERROR_SIZE, "BLOCK = 65536 on cpu", copy_rows(cx, NULL, x, y, 1, 40000));
	FAILS(TGP_ERROR_USAGE, "elements are of 4 bytes",
	    copy_rows(cx, NULL, (const float *)(const void *)((const char *)x + 1), y, 1, 3));
}

static void
strided(void)
{
	float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, y[12] = {0};
	const int64_t down[2] = {1, 3};
	int i;
	CHECK(turned(cx, NULL, x, down, y, NULL, 3, 4) == TGP_OK);
	for (i = 0; i < 12; i++)
		CHECK(y[i] == x[i / 4 + i % 4 * 3]);
}

static void
fills_and_asserts(void)
{
	int32_t x[300] = {0}, bins[16], i;
	double halves[3] = {0};
	for (i = 0; i < 300; i++)
		x[i] = i % 5;
	CHECK(counts(cx, NULL, x, bins, halves, 3, 300) == TGP_OK);
	CHECK(bins[0] == 7 + 60 + 84 && bins[4] == 67 && bins[15] == 7 && halves[2] == 0.5);
	x[290] = -1;
	FAILS(TGP_ERROR_KERNEL, "in program (2, 0, 0): a negative one", counts(cx, NULL, x, bins, halves, 3, 300));
	CHECK(kernels_sync(cx, NULL) == TGP_OK);
}

static void *
thread(void *unused)
{
	float x[64], y[64];
	int i, n;
	(void)unused;
	for (n = 0; n < 200; n++) {
		for (i = 0; i < 64; i++)
			x[i] = (float)(n + i);
		if (copy_rows(cx, NULL, x, y, 2, 32) != TGP_OK || y[63] != x[63] + 1)
			return &failed;
	}
	return NULL;
}

int
main(void)
{
	pthread_t t[16];
	void *wrong;
	int i, status = 0;
	cx = kernels_open_cpu();
	CHECK(cx != NULL);
	CHECK(kernels_load(cx) == TGP_OK);
	rows();
	strided();
	fills_and_asserts();
	for (i = 0; i < 16; i++)
		CHECK(pthread_create(&t[i], NULL, thread, NULL) == 0);
	for (i = 0; i < 16; i++)
		CHECK(pthread_join(t[i], &wrong) == 0 && !wrong);
	if (fork() == 0) {
		float x[2] = {1, 2}, y[2];
		_exit(copy_rows(cx, NULL, x, y, 1, 2) == TGP_OK && y[1] == 3 ? 0 : 1);
	}
	CHECK(wait(&status) > 0 && status == 0);
	kernels_close(&cx);
	CHECK(cx == NULL);
	return failed != 0;
}
