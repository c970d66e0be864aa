/* What the programs in this folder share: the clock, the order of numbers, names of a library. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* Seconds of CLOCK_MONOTONIC. */
static inline double
now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* For qsort over doubles. */
static inline int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* A function of a library that dlopen gave (NULL: none) into *out; whether it is there. */
static inline bool
find(void *lib, const char *name, void *out)
{
	void *p = lib ? dlsym(lib, name) : NULL;
	memcpy(out, &p, sizeof p);
	return p != NULL;
}

#endif
