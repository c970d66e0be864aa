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
	FAILS(TGP_ERROR_SIZE, "copy_rows: R = 1099511627776, C = 64 make a grid, or a tensor, of more than 2^31 - 1",
	    copy_rows(cx, NULL, x, y, INT64_C(1) << 40, 64));
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

static void
pointers(void)
{
	float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
	CHECK(through(cx, NULL, x, y, 5) == TGP_OK && y[4] == 10);
	FAILS(TGP_ERROR_USAGE, "through: x is NULL, and it is read or written", through(cx, NULL, NULL, y, 5));
	FAILS(TGP_ERROR_USAGE, "through: y is NULL", through(cx, NULL, x, NULL, 5));
	CHECK(through(cx, NULL, NULL, NULL, 0) == TGP_OK);
	CHECK(through(cx, NULL, x, x + 1, 0) == TGP_OK && through(cx, NULL, x, x, 5) == TGP_OK && x[4] == 10);
}

static void *
failing(void *unused)
{
	float x[4] = {0};
	(void)unused;
	return copy_rows(cx, NULL, x, x, 1, 4) == TGP_ERROR_USAGE && strstr(kernels_error(cx), "overlaps") ? NULL : &failed;
}

static void *
fresh(void *unused)
{
	(void)unused;
	return *kernels_error(cx) ? &failed : NULL;
}

/* A new thread may have the number of one that has ended, and has not its errors; a second context has its own. */
static void
errors(void)
{
	pthread_t t;
	void *wrong;
	TgpContext *other = kernels_open_cpu();
	CHECK(pthread_create(&t, NULL, failing, NULL) == 0 && pthread_join(t, &wrong) == 0 && !wrong);
	CHECK(pthread_create(&t, NULL, fresh, NULL) == 0 && pthread_join(t, &wrong) == 0 && !wrong);
	CHECK(copy_rows(cx, NULL, NULL, NULL, 1, 4) != TGP_OK && *kernels_error(cx) && !*kernels_error(other));
	kernels_close(&other);
}

#ifndef __SANITIZE_ADDRESS__                    /* whose own locks a child finds taken */
static volatile int stop;

static void *
always_failing(void *unused)
{
	while (!stop && !failing(unused))
		;
	return NULL;
}

/* Whatever other threads do at the moment of a fork, the child goes on: there is no lock. */
static void
forks(void)
{
	pthread_t t[4];
	int i, status = 0, good = 1;
	for (i = 0; i < 4; i++)
		CHECK(pthread_create(&t[i], NULL, always_failing, NULL) == 0);
	for (i = 0; i < 300 && good; i++) {
		if (fork() == 0) {
			alarm(20);
			_exit(failing(NULL) != NULL);
		}
		good = wait(&status) > 0 && status == 0;
	}
	CHECK(good);
	stop = 1;
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}
#else
static void forks(void) {}
#endif

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
	pointers();
	errors();
	forks();
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
