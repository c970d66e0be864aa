/* The CUDA driver: opened at run time, so that the same binary runs where there is none, and its
 * results put into words, with the call that failed and what can be done about it.
 *
 * The library is never unloaded: the driver does not support that, and a framework in the process may have it open as
 * well. */
#include "runtime/cuda/cuda.h"

#include <dlfcn.h>

enum { LEAST_DRIVER = 12000 };          /* CUDA 12.0: what its version call answers */

typedef enum Effect { CALL, MEMORY, KERNEL, BROKEN } Effect;

static const struct {
	CudaResult code;
	Effect effect;
	const char *help;
} errors[] = {
#define CUDA_ERROR(code, effect, help) {code, effect, help},
#include "runtime/cuda/cuda.def"
#undef CUDA_ERROR
};

static const char no_driver[] =
    "install NVIDIA's driver; in a container, start it with the GPUs (docker run --gpus all)";

/* Every function of the table; the name of one that is missing, or NULL. */
static const char *
find_functions(Cuda *c)
{
	const char *missing = NULL;
#define CUDA(name, params)                                                                         \
	*(void **)&c->name = dlsym(c->lib, #name);                                                 \
	if (!c->name && !missing)                                                                  \
		missing = #name;
#define CUDA_OPTIONAL(name, params) *(void **)&c->name = dlsym(c->lib, #name);
#include "runtime/cuda/cuda.def"
#undef CUDA
#undef CUDA_OPTIONAL
	return missing;
}

bool
cuda_open(Cuda *c, DeviceError *error)
{
	int version = 0;
	*c = (Cuda){.lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
	if (!c->lib)
		return device_error(error, DEVICE_FAILED, no_driver, "there is no NVIDIA driver: %s", dlerror());
	const char *missing = find_functions(c);
	if (c->cuDriverGetVersion)
		c->cuDriverGetVersion(&version);
	if (missing || version < LEAST_DRIVER)
		return device_error(error, DEVICE_FAILED, "update the NVIDIA driver to 525 or later",
		    "the NVIDIA driver is too old: it is made for CUDA %d.%d, and %d.%d is the least%s%s%s",
		    version / 1000, version % 1000 / 10, LEAST_DRIVER / 1000, LEAST_DRIVER % 1000 / 10,
		    missing ? " (it lacks " : "", missing ? missing : "", missing ? ")" : "");
	CudaResult r = c->cuInit(0);
	if (r != 0)
		cuda_explain(c, r, "cuInit", error);
	return r == 0;
}

void
cuda_close(Cuda *c)
{
	*c = (Cuda){0};
}

static int
row_of(CudaResult r)
{
	return FIRST_OF(i, LEN(errors), errors[i].code == r);
}

void
cuda_explain(const Cuda *c, CudaResult r, const char *call, DeviceError *out)
{
	const DeviceFailure what[] = {
	    [CALL] = DEVICE_FAILED,
	    [MEMORY] = DEVICE_NO_MEMORY,
	    [KERNEL] = DEVICE_KERNEL,
	    [BROKEN] = DEVICE_KERNEL,
	};
	const char *name = NULL, *text = NULL;
	int row = row_of(r);
	c->cuGetErrorName(r, &name);
	c->cuGetErrorString(r, &text);
	device_error(out, row < 0 ? DEVICE_FAILED : what[errors[row].effect],
	    row < 0 ? "" : errors[row].help, "%s failed: %s, result %d (%s)", call,
	    name ? name : "unknown to the driver", r, text ? text : "no text");
}

bool
cuda_check(Device *d, CudaResult r, const char *call)
{
	CudaState *s = CUDA_STATE(d);
	if (r == 0)
		return true;
	cuda_explain(&s->cuda, r, call, &d->error);
	s->last = r;
	int row = row_of(r);
	if (row >= 0 && errors[row].effect >= KERNEL)
		s->broken = r;
	return false;
}

/* A thread that has no context yet keeps ours: that does no harm, and later calls find it. */
void *
cuda_enter(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	void *now = NULL;
	s->cuda.cuCtxGetCurrent(&now);
	if (now == s->context)
		return NULL;
	if (!now) {
		s->cuda.cuCtxSetCurrent(s->context);
		s->left_current = true;
		s->left_in = pthread_self();
		return NULL;
	}
	s->cuda.cuCtxPushCurrent_v2(s->context);
	return now;
}

void
cuda_leave(Device *d, void *before)
{
	void *ours;
	if (before)
		CUDA_STATE(d)->cuda.cuCtxPopCurrent_v2(&ours);
}
