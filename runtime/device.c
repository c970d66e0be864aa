/* Devices as the user sees them: the table of what this build knows, open and close, and what the
 * host machine has of memory and time. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysinfo.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "runtime/runtime.h"

const Device *const device_rows[] = {&device_cpu};
const int device_nrows = LEN(device_rows);

double
device_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#ifdef __linux__
/* A container's limit stands here in bytes, or as "max". */
static uint64_t
control_group_limit(void)
{
	unsigned long long limit = 0;
	FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &limit) != 1)
		limit = 0;
	fclose(f);
	return limit;
}
#endif

uint64_t
device_host_memory(void)
{
#if defined(__linux__)
	struct sysinfo s;
	if (sysinfo(&s) != 0)
		return 0;
	uint64_t all = ((uint64_t)s.totalram + s.totalswap) * s.mem_unit;
	uint64_t limit = control_group_limit();
	return limit && limit < all ? limit : all;
#elif defined(__APPLE__)
	uint64_t size = 0;
	size_t n = sizeof size;
	return sysctlbyname("hw.memsize", &size, &n, NULL, 0) == 0 ? size : 0;
#else
	return 0;
#endif
}

bool
tgl_device_list(TglContext *cx, int i, TglDeviceInfo *out)
{
	if (!cx || !out || i < 0 || i >= device_nrows)
		return false;
	const Device *d = device_rows[i];
	*out = (TglDeviceInfo){.name = d->name, .target = d->target};
	out->available = d->probe(out);
	return true;
}

static const Device *
row_named(TglContext *cx, const char *name)
{
	const char *names[16];
	int n = 0;
	for (int i = 0; i < device_nrows; i++) {
		if (strcmp(device_rows[i]->name, name) == 0)
			return device_rows[i];
		if (n < LEN(names))
			names[n++] = device_rows[i]->name;
	}
	diag_error(cx->own, NOWHERE, DIAG_DEVICE_UNKNOWN, name);
	Text all = {0};
	for (int i = 0; i < n; i++)
		text_printf(&all, "%s'%s'", i ? ", " : "", names[i]);
	diag_help(cx->own, "devices of this build: %s", all.at);
	text_close(&all);
	return NULL;
}

TglDevice *
tgl_device_open(TglContext *cx, const char *name, const TglDeviceOptions *options)
{
	if (!cx)
		return NULL;
	context_begin(cx);
	TglDeviceOptions plain = {0};
	const char *why = "";
	const Device *row = row_named(cx, name ? name : "cpu");
	if (!row) {
		context_fail(cx, TGL_ERROR_NAME, NULL);
		return NULL;
	}
	if (!options)
		options = &plain;
	TglDevice *dev = calloc(1, sizeof *dev);
	if (dev) {
		dev->cx = cx;
		dev->refs = 1;
		dev->dev = *row;
		dev->hooks.trace = options->trace;
		dev->hooks.trace_user = options->user;
	}
	if (!dev || !dev->dev.open(&dev->dev, options, &dev->hooks, &why)) {
		diag_error(cx->own, NOWHERE, DIAG_DEVICE_GONE, row->name, dev ? why : "no memory");
		free(dev);
		context_fail(cx, TGL_ERROR_DEVICE, NULL);
		return NULL;
	}
	cx->refs++;
	return dev;
}

void
device_unref(TglDevice *dev)
{
	if (--dev->refs > 0)
		return;
	TglContext *cx = dev->cx;
	dev->dev.close(&dev->dev);
	free(dev);
	context_unref(cx);
}

void
tgl_device_close(TglDevice **dev)
{
	if (!dev || !*dev)
		return;
	device_unref(*dev);
	*dev = NULL;
}

TglStatus
tgl_device_info(TglDevice *dev, TglDeviceInfo *out)
{
	if (!dev)
		return TGL_ERROR_USAGE;
	context_begin(dev->cx);
	if (context_null(dev->cx, out, "tgl_device_info", "out"))
		return TGL_ERROR_USAGE;
	*out = (TglDeviceInfo){.name = dev->dev.name, .target = dev->dev.target, .available = true};
	dev->dev.info(&dev->dev, out);
	return TGL_OK;
}

TglStatus
tgl_device_sync(TglDevice *dev)
{
	if (!dev)
		return TGL_ERROR_USAGE;
	context_begin(dev->cx);
	Fault fault = {0};
	if (dev->dev.sync(&dev->dev, &fault))
		return TGL_OK;
	fault.place = fault.other = NOWHERE;
	fault_report(dev->cx->own, &fault, NULL);
	return context_fail(dev->cx, TGL_ERROR_FAULT, NULL);
}
