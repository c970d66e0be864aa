/* What bench/first.c and bench/first_raw.c share: steps since the process was started, and their line. */
#ifndef BENCH_FIRST_H
#define BENCH_FIRST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

enum { N = 4096, STEPS = 16 };

typedef struct Steps {
	double begun, at[STEPS];
	const char *name[STEPS];
	int n;
} Steps;

static inline void
step(Steps *s, const char *name)
{
	s->at[s->n] = now();
	s->name[s->n++] = name;
}

static inline int
finish(const Steps *s, double got, double want)
{
	if (got != want) {
		fprintf(stderr, "the result is %g, and should be %g\n", got, want);
		return 1;
	}
	for (int i = 0; i < s->n; i++)
		printf("%s%s %.3f", i ? "  " : "", s->name[i], 1e3 * (s->at[i] - s->begun));
	putchar('\n');
	fflush(stdout);
	return 0;
}

/* Seconds of CLOCK_MONOTONIC when the process was started, else now. */
static inline Steps
begin(const char *started)
{
	Steps s = {.begun = started ? strtod(started, NULL) : now()};
	step(&s, "main");
	return s;
}

#endif
