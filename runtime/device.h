/* What the runtime asks of a device: one small struct of functions.  A device knows memory, loads
 * a kernel's tile IR in whatever form it runs, and runs it over a grid; it knows nothing of
 * tensors, arguments or files. */
#ifndef TEGULA_DEVICE_H
#define TEGULA_DEVICE_H

#include "ir/interp/interp.h"
#include "runtime/tgl.h"

typedef struct Device Device;
typedef struct Loaded Loaded;           /* a kernel, ready to run; each device has its own */

/* How launches speak to the host: shared by everything on a context, changed between launches
 * only. */
typedef struct DeviceHooks {
	/* NULL: dropped; the device calls it one at a time */
	void (*print)(void *user, const char *line);
	void *print_user;
	void (*trace)(void *user, const TglTrace *t);
	void *trace_user;
} DeviceHooks;

struct Device {
	const char *name, *target;      /* "cpu"; what `target` is in the source */
	/* its memory can be read and written by the host as it is */
	bool host;
	bool (*probe)(TglDeviceInfo *out); /* fills text, threads, memory, why_not */
	/* False: not available, *why says why. */
	bool (*open)(Device *d, const TglDeviceOptions *opt, const DeviceHooks *hooks,
	    const char **why);
	void (*close)(Device *d);       /* nothing is loaded any more */
	void (*info)(const Device *d, TglDeviceInfo *out);
	void *(*alloc)(Device *d, size_t size); /* zeroed, aligned to 64; NULL: no memory */
	void (*free)(Device *d, void *p, size_t size);
	bool (*copy_in)(Device *d, void *to, const void *from, size_t size); /* host to device */
	bool (*copy_out)(Device *d, void *to, const void *from, size_t size); /* device to host */
	/* NULL: this device can't run it, *why (in the module's cx->tmp) says what. */
	Loaded *(*load)(Device *d, Func *f, const char **why);
	void (*unload)(Device *d, Loaded *l);
	/* Runs the whole grid.  False with *fault filled; a device that runs behind the host's
	 * back reports at sync. *seconds, if not NULL, is the time it took (and is waited
	 * for). */
	bool (*launch)(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES],
	    double *seconds, Fault *fault);
	bool (*sync)(Device *d, Fault *fault);
	void *state;
};

/* Every device of this build, in the order of `tegula devices`. */
extern const Device *const device_rows[];
extern const int device_nrows;

extern const Device device_cpu;         /* cpu.c */

double device_clock(void);              /* seconds, monotonic */
uint64_t device_host_memory(void);      /* bytes of memory and swap that this process may use */

#endif
