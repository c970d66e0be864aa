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

#include "runtime/launch/launch.h"

/* Every kind of device of this build, in the order of `tegula devices`. */
static const Device *const rows[] = {&device_cpu, &device_cuda, &device_metal, &device_simt};

static void
fill_error(DeviceError *e, DeviceFailure what, const char *help, const char *fmt, va_list ap)
{
	e->what = what;
	number_vformat(e->text, sizeof e->text, fmt, ap);
	snprintf(e->help, sizeof e->help, "%s", help);
}

bool
device_fail(Device *d, DeviceFailure what, const char *help, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill_error(&d->error, what, help, fmt, ap);
	va_end(ap);
	return false;
}

bool
device_error(DeviceError *e, DeviceFailure what, const char *help, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill_error(e, what, help, fmt, ap);
	va_end(ap);
	return false;
}

void
device_probe_text(DeviceProbe *out, const DeviceError *error)
{
	if (out->info.available) {
		snprintf(out->text, sizeof out->text, "%s", out->info.text);
		out->info.text = out->text;
		out->info.name = out->name;
	} else {
		snprintf(out->text, sizeof out->text, "%s%s%s", error->text, *error->help ? "; " : "", error->help);
		out->info.why_not = out->text;
	}
}

bool
device_gpu_refuses(Device *d, const TglDeviceOptions *o)
{
	const char *others = o->break_nan ? "open the device 'cpu' or 'simt' for that" : "open the device 'cpu' for that";
	const char *what = o->sanitize ? "sanitize" : o->trace ? "trace" : o->break_nan ? "look for NaN" : NULL;
	if (what)
		device_fail(d, DEVICE_FAILED, others, "it cannot %s", what);
	return what;
}

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
	char line[32] = "";
	FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
	if (!f)
		return 0;
	bool found = fgets(line, sizeof line, f) && char_is_digit(*line);
	fclose(f);
	return found ? strtoull(line, NULL, 10) : 0;
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
device_host_copy(Device *d, void *to, const void *from, size_t size, bool wait)
{
	if (size)
		memmove(to, from, size);
	return true;
}

bool
device_host_time_begin(Device *d)
{
	d->began = device_clock();
	return true;
}

bool
device_host_time_end(Device *d, double *seconds)
{
	*seconds = device_clock() - d->began;
	return true;
}

bool
device_host_sync(Device *d, Fault *fault)
{
	return true;
}

bool
tgl_device_list(TglContext *cx, int i, TglDeviceInfo *out)
{
	if (!cx || !out || i < 0)
		return false;
	for (int row = 0; row < LEN(rows); row++)
		for (int n = 0; rows[row]->probe(n, &cx->probe); n++)
			if (i-- == 0) {
				*out = cx->probe.info;
				return true;
			}
	return false;
}

/* A GPU where there is one, unless the options ask for what only the cpu device does. */
static const char *
default_name(const TglDeviceOptions *o)
{
	DeviceProbe p;
	if (o->sanitize || o->trace || o->break_nan || o->threads)
		return "cpu";
	return device_cuda.probe(0, &p) && p.info.available ? "cuda" : "cpu";
}

static void
report_unknown(Compile *cx, const char *name, bool is_simt)
{
	VEC(const char *) known = {0};
	const Target *t;
	for (int i = 0; i < LEN(rows); i++)
		vec_push(cx->tmp, &known, rows[i]->name);
	for (int i = 0; is_simt && (t = target_at(i)); i++)
		if (t->kind == TARGET_PTX)
			vec_push(cx->tmp, &known, arena_printf(cx->tmp, "%s:%s", device_simt.name, t->name));
	diag_error(cx, NOWHERE, DIAG_DEVICE_UNKNOWN, name);
	diag_help(cx, "%s", name_advice(cx->mem, name, known.at, known.n));
}

/* "cuda" is number 0, "cuda:1" number 1; "simt:sm_80" runs another target's code. */
static const Device *
row_named(TglContext *cx, const char *name, int *index, const char **target)
{
	size_t n = strcspn(name, ":");
	const Target *other = name[n] ? target_named(name + n + 1) : NULL;
	*target = NULL;
	if (n == strlen(device_simt.name) && memcmp(device_simt.name, name, n) == 0 && other && other->kind == TARGET_PTX) {
		*index = 0;
		*target = other->name;
		return &device_simt;
	}
	char *end = (char *)name + n;
	long number = *end ? strtol(name + n + 1, &end, 10) : 0;
	bool is_number = !name[n] || (end != name + n + 1 && name[n + 1] >= '0' && name[n + 1] <= '9');
	*index = (int)MIN(number, INT32_MAX);
	for (int i = 0; i < LEN(rows); i++)
		if (!*end && is_number && strlen(rows[i]->name) == n &&
		    memcmp(rows[i]->name, name, n) == 0)
			return rows[i];
	report_unknown(cx->own, name, n == strlen(device_simt.name) && memcmp(device_simt.name, name, n) == 0);
	return NULL;
}

TglDevice *
tgl_device_open(TglContext *cx, const char *name, const TglDeviceOptions *options)
{
	if (!cx)
		return NULL;
	context_begin(cx);
	TglDeviceOptions plain = {0};
	int index;
	const char *target;
	if (!options)
		options = &plain;
	const Device *row = row_named(cx, name ? name : default_name(options), &index, &target);
	if (!row) {
		context_fail(cx, TGL_ERROR_NAME, NULL);
		return NULL;
	}
	TglDevice *dev = memory_new(1, sizeof *dev);
	dev->cx = cx;
	dev->refs = 1;
	dev->dev = *row;
	dev->dev.target = target ? target : row->target;
	dev->hooks.trace = options->trace;
	dev->hooks.trace_user = options->user;
	if (!dev->dev.open(&dev->dev, index, options, &dev->hooks)) {
		diag_error(cx->own, NOWHERE, DIAG_DEVICE_GONE, name ? name : row->name, dev->dev.error.text);
		if (*dev->dev.error.help)
			diag_help(cx->own, "%s", dev->dev.error.help);
		free(dev);
		context_fail(cx, TGL_ERROR_DEVICE, NULL);
		return NULL;
	}
	cx->refs++;
	return dev;
}

TglStatus
device_report(TglDevice *dev, Compile *cx, const Fault *fault, const Kernel *k)
{
	const TglStatus status[] = {
	    [DEVICE_WELL] = TGL_ERROR_MEMORY, /* the host's */
	    [DEVICE_FAILED] = TGL_ERROR_DEVICE,
	    [DEVICE_NO_MEMORY] = TGL_ERROR_MEMORY,
	    [DEVICE_KERNEL] = TGL_ERROR_FAULT,
	};
	DeviceError e = dev->dev.error;
	dev->dev.error = (DeviceError){0};
	bool reported = dev->dev.report_findings && dev->dev.report_findings(&dev->dev, cx);
	if (fault && fault->kind != FAULT_NONE) {
		fault_report(cx, fault, k);
		return fault->kind == FAULT_MEMORY ? TGL_ERROR_MEMORY : TGL_ERROR_FAULT;
	}
	if (reported)
		return TGL_ERROR_FAULT;
	diag_error(cx, k ? k->item->name_place : NOWHERE, DIAG_DEVICE_FAILED, dev->dev.name,
	    e.what == DEVICE_WELL ? "no memory" : e.text);
	if (*e.help)
		diag_help(cx, "%s", e.help);
	return status[e.what];
}

void
tgl_device_schedule(TglDevice *dev, uint64_t schedule)
{
	if (dev && dev->dev.schedule)
		dev->dev.schedule(&dev->dev, schedule);
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
	if (!dev || !context_call(dev->cx, "tgl_device_info", "out", out))
		return TGL_ERROR_USAGE;
	*out = (TglDeviceInfo){.available = true};
	dev->dev.info(&dev->dev, out);
	return TGL_OK;
}

TglStatus
tgl_device_sync(TglDevice *dev)
{
	if (!dev)
		return TGL_ERROR_USAGE;
	context_begin(dev->cx);
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	if (dev->dev.sync(&dev->dev, &fault))
		return TGL_OK;
	return context_fail(dev->cx, device_report(dev, dev->cx->own, &fault, NULL), NULL);
}
