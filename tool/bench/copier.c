/* The copy that a device's memory is measured by: a kernel of ours, compiled as any other, as the driver's own copy
 * reaches two thirds of what a kernel does.  It is tried with a few blocks and the fastest stays, so that the ceiling is
 * that of the memory and not of a schedule.  Where kernels run on the host, memcpy copies. */
#include <string.h>

#include "tool/bench/rounds.h"

static const int64_t BYTES = 512 << 20, HOST_BYTES = 64 << 20;
enum { LAUNCHES = 4, REPLAYS = 3 };

/* What is copied is no constant, as memory could make something of that. */
static const char text[] =
    "kernel scatter<BLOCK = 1024>(y: out i32[N]) grid(b: cdiv(N, BLOCK)) {\n"
    "    y[b * BLOCK +: BLOCK] = (b as i32 * BLOCK + arange(0, BLOCK)) * 1640531527;\n"
    "}\n"
    "kernel copy<BLOCK = 2048>(x: in i32[N], y: out i32[N]) grid(b: cdiv(N, BLOCK)) {\n"
    "    y[b * BLOCK +: BLOCK] = x[b * BLOCK +: BLOCK];\n"
    "}\n";

static const struct {
	int block, warps;
} schedules[] = {{2048, 4}, {1024, 4}, {4096, 8}, {1024, 8}};

static bool
open_tensors(Copier *k, Compile *cx)
{
	TglDeviceInfo info;
	Device *d = &k->dev->dev;
	d->info(d, &info);
	int64_t size = d->host ? HOST_BYTES : BYTES;
	if (info.memory && (int64_t)(info.memory / 16) < size)
		size = (int64_t)(info.memory / 16) & ~4095ll;
	int64_t n = MAX(size, 4096) / 4;
	k->from = tensor_open(k->dev, cx, TGL_I32, 1, &n, NULL);
	k->to = k->from ? tensor_open(k->dev, cx, TGL_I32, 1, &n, NULL) : NULL;
	return k->to;
}

static TglCase *
open_case(Copier *k, const char *kernel, TglArg *args, int nargs)
{
	TglKernel *which = tgl_kernel(k->program, kernel);
	return tgl_case_open(k->dev, which, &(TglCaseOptions){.no_example = true, .args = args, .nargs = nargs});
}

static TglStatus
scatter(Copier *k)
{
	TglArg args[] = {tgl_arg_tensor("y", k->from)};
	TglCase *c = open_case(k, "scatter", args, LEN(args));
	TglStatus s = c ? tgl_case_run(c, NULL) : tgl_error(k->dev->cx)->status;
	tgl_case_close(&c);
	return s;
}

/* One schedule; its case stays if it is the fastest yet. */
static TglStatus
try_schedule(Copier *k, int i, double *least)
{
	double seconds;
	TglArg args[] = {tgl_arg_tensor("x", k->from), tgl_arg_tensor("y", k->to),
		tgl_arg_int("BLOCK", schedules[i].block), tgl_arg_int("warps", schedules[i].warps)};
	TglCase *c = open_case(k, "copy", args, LEN(args));
	TglStatus s = c ? tgl_case_replay(c, LAUNCHES, REPLAYS, &seconds) : tgl_error(k->dev->cx)->status;
	if (s == TGL_OK && (!k->c || seconds < *least)) {
		TglCase *before = k->c;
		k->c = c;
		c = before;
		*least = seconds;
	}
	tgl_case_close(&c);
	return s;
}

TglStatus
copier_open(TglDevice *dev, Compile *cx, Copier *out)
{
	double least = 0;
	*out = (Copier){.dev = dev};
	if (!open_tensors(out, cx))
		return TGL_ERROR_MEMORY;
	if (dev->dev.host)
		return TGL_OK;
	out->program = tgl_program_text(dev->cx, "<copy>", text, sizeof text - 1);
	TglStatus s = out->program ? scatter(out) : tgl_error(dev->cx)->status;
	for (int i = 0; i < LEN(schedules) && s == TGL_OK; i++)
		s = try_schedule(out, i, &least);
	return s;
}

TglStatus
copier_launch(Copier *k)
{
	if (k->c)
		return case_launch(k->c);
	memcpy(k->to->data, k->from->data, (size_t)tgl_tensor_bytes(k->from));
	return TGL_OK;
}

void
copier_close(Copier *k)
{
	tgl_case_close(&k->c);
	tgl_program_close(&k->program);
	tgl_tensor_close(&k->from);
	tgl_tensor_close(&k->to);
}
