/* Counters of one launch, by line of the source. */
#ifndef TEGULA_BENCH_PROFILE_H
#define TEGULA_BENCH_PROFILE_H

#include "tool/cli.h"

typedef struct ProfileLine {
	int line;
	double samples;                                     /* of warps, while they stood at its instructions */
	double instructions;                                /* of warps */
	double sectors, least_sectors;                      /* of 32 bytes, global memory */
	double passes, least_passes;                        /* over the banks of shared memory */
	double stalled;                                     /* samples of the most frequent reason, which is `stall` */
	const char *stall;
} ProfileLine;

typedef struct Profile {
	VEC(ProfileLine) lines;
	double samples;
	double seconds, read, written;                      /* bytes of device memory */
} Profile;

/* profile.c */

/* Runs the kernel once more, under ncu; false after printing. */
bool profile_take(const Cli *cli, const char *kernel, const char *example, Profile *out);

/* profile_print.c: beside what the compiler predicts of each line for `target`; EXIT_GOOD, or after printing another. */
int profile_print(const Cli *cli, const char *kernel, const char *example, const char *target, const Profile *p);

#endif
