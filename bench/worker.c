/* One side of a benchmark: opens a kernel's example and runs it whenever a line arrives.
 *
 *     bench_worker THREADS FILE KERNEL LABEL [NAME=VALUE]...
 *
 * Prints "ready ERROR/BOUND" when the outputs of a first run agree with the reference (or the error, and ends with 1),
 * then for each line of input the seconds that one whole tgl_launch took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "runtime/tgl.h"

static int
failed(TglContext *cx)
{
	fputs(tgl_error(cx)->text, stdout);
	fflush(stdout);
	return 1;
}

/* NAME=VALUE: a dtype or an integer. */
static TglArg
parse_value(char *text)
{
	char *value = strchr(text, '=');
	TglDType t;
	if (!value)
		return tgl_arg_int(text, 0);
	*value++ = '\0';
	return tgl_dtype_named(value, &t) ? tgl_arg_dtype(text, t) : tgl_arg_int(text, strtoll(value, NULL, 10));
}

/* The greatest error over its bound of all outputs; negative: a call failed. */
static double
check(TglCase *c)
{
	double worst = 0;
	bool more = true;
	if (tgl_case_run(c, NULL) != TGL_OK)
		return -1;
	for (int i = 0; more; i++) {
		TglCheck k;
		if (tgl_case_check(c, i, &k, &more) != TGL_OK)
			return -1;
		if (more && k.ratio > worst)
			worst = k.ratio;
	}
	return worst;
}

static int
serve(TglContext *cx, TglDevice *dev, TglKernel *k, TglCase *c)
{
	char line[64];
	int n;
	double ratio = check(c);
	if (ratio < 0)
		return failed(cx);
	const TglArg *args = tgl_case_args(c, &n);
	printf("ready %.3g\n", ratio);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		double start = now();
		if (tgl_launch(dev, k, args, n, NULL) != TGL_OK || tgl_device_sync(dev) != TGL_OK)
			return failed(cx);
		printf("%.9f\n", now() - start);
		fflush(stdout);
	}
	return ratio <= 1 ? 0 : 1;
}

int
main(int argc, char **argv)
{
	TglArg value[16];
	if (argc < 5 || argc > 5 + 16) {
		fputs("usage: bench_worker THREADS FILE KERNEL LABEL [NAME=VALUE]...\n", stderr);
		return 2;
	}
	for (int i = 5; i < argc; i++)
		value[i - 5] = parse_value(argv[i]);
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, "cpu", &(TglDeviceOptions){.threads = atoi(argv[1])});
	TglProgram *p = dev ? tgl_program_file(cx, argv[2]) : NULL;
	TglKernel *k = p ? tgl_kernel(p, argv[3]) : NULL;
	TglCaseOptions options = {.example = argv[4], .args = value, .nargs = argc - 5};
	TglCase *c = k ? tgl_case_open(dev, k, &options) : NULL;
	int status = c ? serve(cx, dev, k, c) : failed(cx);
	tgl_case_close(&c);
	tgl_program_close(&p);
	tgl_device_close(&dev);
	tgl_context_close(&cx);
	return status;
}
