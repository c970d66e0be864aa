/* A case of a kernel on the checker, launched by the description beside its text. */
#ifndef TEGULA_TESTS_MSL_HOST_H
#define TEGULA_TESTS_MSL_HOST_H

#include "runtime/case/case.h"
#include "tests/msl/msl.h"

typedef struct HostResult {
	MslReports reports;
	double ratio;                                   /* greatest error over its bound, of all outputs */
	char wrong[400];                                /* what is wrong beside the reports, or "" */
} HostResult;

/* Runs `p` on the case's tensors, twice, and compares what it leaves with the kernel's reference.  `json` is the
 * description's text.  True: right, and nothing reported. */
bool host_run(const MslProgram *p, const char *json, TglCase *c, HostResult *out);

#endif
