/* Loads machine code (or PTX, which the driver then compiles) and finds out what launches of it
 * need.
 *
 * More than 48 KB of shared memory must be asked for, a kernel with asserts gets the record that
 * they fill, and a persistent grid is as many blocks as fit on the GPU at once. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { PLAIN_SHARED = 48 * 1024 };

static bool
load_module(Device *d, Loaded *l)
{
	const Artefact *a = l->artefact;
	return a->form == FORM_PTX ? cuda_load_text(d, a, &l->module)
				   : CUDA_CALL(d, cuModuleLoadDataEx, &l->module, a->bytes, 0, NULL, NULL);
}

/* Roles that ask for more registers than the block has wait for ever.  Code that was compiled for linking has fewer, and
 * roles that keep what they have: it is as wrong, if it runs. */
static bool
check_registers(Device *d, Loaded *l)
{
	int need = l->artefact->parts_registers, have = 0;
	if (!need)
		return true;
	if (!CUDA_CALL(d, cuFuncGetAttribute, &have, FUNC_ATTRIBUTE_REGISTERS, l->function))
		return false;
	if (have >= need)
		return true;
	return device_fail(d, DEVICE_FAILED, "put a ptxas of CUDA 12 or later on the PATH, or say -D specialize=false",
	    "the kernel's roles share %d registers a thread, and its code has %d: setmaxnreg was dropped", need, have);
}

static bool
check_shared(Device *d, Loaded *l)
{
	CudaState *s = CUDA_STATE(d);
	int64_t need = l->artefact->shared_bytes;
	int fixed = 0;
	if (!CUDA_CALL(d, cuFuncGetAttribute, &fixed, FUNC_ATTRIBUTE_SHARED_STATIC, l->function))
		return false;
	if (need + fixed > s->max_shared)
		return device_fail(d, DEVICE_FAILED, "smaller tiles, or fewer stages (-D stages=2)",
		    "a block needs %lld bytes of shared memory, and %s has %d", (long long)(need + fixed),
		    s->name, s->max_shared);
	l->shared = (unsigned)need;
	bool uneven = l->cluster == SPREAD_CLUSTER || (l->cluster == 1 && l->artefact->waits && s->starts_early);
	l->most_shared = uneven && need >= SPREAD_SHARED ? (unsigned)(s->max_shared - fixed) : l->shared;
	return l->most_shared + (unsigned)fixed <= PLAIN_SHARED ||
	       CUDA_CALL(d, cuFuncSetAttribute, l->function, FUNC_ATTRIBUTE_SHARED_DYNAMIC, (int)l->most_shared);
}

static bool
check_threads(Device *d, Loaded *l)
{
	int most = 0;
	if (!CUDA_CALL(d, cuFuncGetAttribute, &most, FUNC_ATTRIBUTE_MAX_THREADS, l->function))
		return false;
	if (l->artefact->threads > most)
		return device_fail(d, DEVICE_FAILED, "fewer warps (-D warps=4) or smaller tiles",
		    "a block has %d threads, and %s runs at most %d of this kernel's in one block",
		    l->artefact->threads, CUDA_STATE(d)->name, most);
	l->threads = (unsigned)l->artefact->threads;
	return true;
}

/* Clusters of a persistent grid that run at once. */
static bool
find_resident_clusters(Device *d, Loaded *l)
{
	int clusters = 0;
	CudaAttribute cluster = {.id = LAUNCH_ATTRIBUTE_CLUSTER, .value.cluster = {l->cluster, 1, 1}};
	CudaLaunch launch = {l->cluster, 1, 1, (unsigned)l->artefact->threads, 1, 1, l->shared, NULL, &cluster, 1};
	if (!CUDA_STATE(d)->cuda.cuOccupancyMaxActiveClusters)
		return device_fail(d, DEVICE_FAILED, "update the NVIDIA driver, or say -D ctas=1",
		    "the driver can't launch clusters of blocks");
	if (!CUDA_CALL(d, cuOccupancyMaxActiveClusters, &clusters, l->function, &launch))
		return false;
	if (clusters < 1)
		return device_fail(d, DEVICE_FAILED, "fewer blocks in a cluster (-D ctas=2), or smaller tiles",
		    "%s has no room for a cluster of %u blocks with %d threads and %u bytes of shared memory each",
		    CUDA_STATE(d)->name, l->cluster, l->artefact->threads, l->shared);
	l->resident = (unsigned)clusters * l->cluster;
	return true;
}

static bool
find_resident(Device *d, Loaded *l)
{
	int blocks = 0;
	if (!l->artefact->persistent)
		return true;
	if (l->cluster > 1)
		return find_resident_clusters(d, l);
	if (!CUDA_CALL(d, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, l->function,
		l->artefact->threads, l->shared))
		return false;
	l->resident = (unsigned)(MAX(blocks, 1) * CUDA_STATE(d)->multiprocessors);
	return true;
}

/* Where in the values stand those that are no argument. */
static bool
read_abi(Device *d, Loaded *l)
{
	const Artefact *a = l->artefact;
	int faults_at = -1;
	l->counter_at = l->arrivals_at = l->parts_at = -1;
	for (int i = 0; i < a->nabi; i++) {
		if (a->abi[i].kind == ABI_COUNTER)
			l->counter_at = i;
		if (a->abi[i].kind == ABI_ARRIVALS)
			l->arrivals_at = i;
		if (a->abi[i].kind == ABI_PARTS)
			l->parts_at = i;
		if (a->abi[i].kind == ABI_FAULTS)
			faults_at = i;
	}
	l->value = memory_new((size_t)a->nabi, sizeof *l->value);
	l->at = memory_new((size_t)a->nabi, sizeof *l->at);
	l->map = aligned_alloc(128, sizeof *l->map * (size_t)MAX(a->nmaps, 1));
	if (!l->map)
		return device_fail(d, DEVICE_NO_MEMORY, "", "no memory");
	memset(l->map, 0, sizeof *l->map * (size_t)MAX(a->nmaps, 1));
	for (int i = 0; i < a->nabi; i++)
		l->at[i] = a->abi[i].kind == ABI_TENSOR_MAP ? l->map[a->abi[i].dim].bytes : (void *)&l->value[i];
	return faults_at < 0 || (CUDA_CALL(d, cuMemAlloc_v2, &l->faults, FAULT_BYTES) &&
				    CUDA_CALL(d, cuMemsetD8Async, l->faults, 0, FAULT_BYTES, d->stream));
}

/* How it is launched.  A kernel that waits in its code for what comes before it may start earlier; others may not, and a
 * kernel behind a copy, a fill of the driver's or an event starts as ever. */
static bool
choose_attributes(Device *d, Loaded *l)
{
	CudaState *s = CUDA_STATE(d);
	if (l->cluster > 1 && !s->cuda.cuLaunchKernelEx)
		return device_fail(d, DEVICE_FAILED, "update the NVIDIA driver",
		    "the driver can't launch clusters of blocks");
	if (l->cluster > 1)
		l->attribute[l->nattribute++] =
		    (CudaAttribute){.id = LAUNCH_ATTRIBUTE_CLUSTER, .value.cluster = {l->cluster, 1, 1}};
	if (l->artefact->waits && s->starts_early)
		l->attribute[l->nattribute++] =
		    (CudaAttribute){.id = LAUNCH_ATTRIBUTE_PROGRAMMATIC, .value.programmatic = 1};
	return true;
}

static bool
fill_loaded(Device *d, Loaded *l)
{
	return load_module(d, l) &&
	       CUDA_CALL(d, cuModuleGetFunction, &l->function, l->module, l->artefact->kernel) &&
	       check_threads(d, l) && check_registers(d, l) && check_shared(d, l) && find_resident(d, l) &&
	       read_abi(d, l) && choose_attributes(d, l);
}

static void
free_loaded(Device *d, Loaded *l)
{
	CudaState *s = CUDA_STATE(d);
	if (l->faults)
		s->cuda.cuMemFree_v2(l->faults);
	if (l->module)
		s->cuda.cuModuleUnload(l->module);
	free(l->value);
	free(l->map);
	free(l->at);
	free(l);
}

Loaded *
cuda_load(Device *d, const Artefact *a)
{
	Loaded *l = memory_new(1, sizeof *l);
	l->artefact = a;
	l->cluster = (unsigned)MAX(a->cluster, 1);
	void *before = cuda_enter(d);
	bool ok = fill_loaded(d, l);
	if (!ok)
		free_loaded(d, l);
	cuda_leave(d, before);
	return ok ? l : NULL;
}

bool
cuda_resources(Device *d, Loaded *l, TglResources *out)
{
	CudaState *s = CUDA_STATE(d);
	int fixed = 0;
	*out = (TglResources){.threads = (int)l->threads};
	void *before = cuda_enter(d);
	bool ok = CUDA_CALL(d, cuFuncGetAttribute, &out->registers, FUNC_ATTRIBUTE_REGISTERS, l->function) &&
		  CUDA_CALL(d, cuFuncGetAttribute, &out->local_bytes, FUNC_ATTRIBUTE_LOCAL, l->function) &&
		  CUDA_CALL(d, cuFuncGetAttribute, &fixed, FUNC_ATTRIBUTE_SHARED_STATIC, l->function) &&
		  CUDA_CALL(d, cuOccupancyMaxActiveBlocksPerMultiprocessor, &out->resident_blocks,
		      l->function, out->threads, l->shared);
	cuda_leave(d, before);
	out->shared_bytes = (int)l->shared + fixed;
	if (s->resident_threads > 0)
		out->occupancy = (double)out->resident_blocks * out->threads / s->resident_threads;
	return ok;
}

/* Code must not go while it runs. */
void
cuda_unload(Device *d, Loaded *l)
{
	void *before = cuda_enter(d);
	CUDA_STATE(d)->cuda.cuCtxSynchronize();
	cuda_drop_pending(CUDA_STATE(d), l);
	free_loaded(d, l);
	cuda_leave(d, before);
}
