/* What the parts of `tegula bench` share: what was measured, and the views of it. */
#ifndef TEGULA_BENCH_H
#define TEGULA_BENCH_H

#include "tool/bench/rounds.h"
#include "tool/cli.h"

enum { MAX_SETS = 64 };

/* One kernel that took part. */
typedef struct Runner {
	const char *name;                                   /* "tegula", or the handwritten kernel's */
	Spread time;
	TglResources resources;
	bool has_resources;
} Runner;

typedef struct Bench {
	Session *s;
	TglKernel *k;
	TglCase *set[MAX_SETS];
	int nsets;
	Foreign *foreign;
	Rounds rounds;
	Runner runner[2];
	int nrunners;
	double bytes, flops;                                /* of one launch; flops -1: not known */
	double products;                                    /* the product ceiling, FLOP/s; 0: none */
	TglDType operand;                                   /* of which */
	json_t *checks;
	const char *checking;                               /* the runner whose outputs are checked */
	bool checked, passed;
	const char *device, *device_text;
} Bench;

/* report.c */

void bench_print(const Bench *b);
json_t *bench_json(const Bench *b);
void bench_csv(const Bench *b, Text *out);
/* Bytes that a launch moves a second, and operations; -1: not known. */
double bench_bandwidth(const Bench *b, const Runner *r);
double bench_rate(const Bench *b, const Runner *r);

/* plot.c: as SVG */

void bench_plot(const Bench *b, Text *out);

#endif
