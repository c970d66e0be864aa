/* Launches: arguments to the machine's values, the grid as one row of blocks, times by events, and what kernels report
 * once they are done.
 *
 * A launch must cost little above the driver's own: what can be known when a kernel is loaded is not computed again. */
#include "runtime/cuda/cuda.h"

/* ---- launching ---- */

static bool
take_counter(Device *d, uint64_t *value)
{
	CudaState *s = CUDA_STATE(d);
	const uint64_t zero = 0;
	*value = s->counters + COUNTER_BYTES * (s->next_counter++ % MAX_COUNTERS);
	return cuda_fill(d, (void *)(uintptr_t)*value, &zero, sizeof zero, 1);
}

void
cuda_note(CudaState *s, Loaded *l, void *stream)
{
	if (!l->faults)
		return;
	if (l->is_launched) {
		l->on_many |= l->stream != stream;
		return;
	}
	l->is_launched = true;
	l->stream = stream;
	l->next_launched = s->launched;
	s->launched = l;
}

/* Blocks are not placed evenly where a multiprocessor has room for more of them than an even share: clusters, and blocks
 * that start while the grid before them ends, on multiprocessors that are free first.  Of 256 blocks in pairs 132
 * multiprocessors got up to three: int4 in groups of 64 by 64 rows took 46.6 us on an H200, and 31.5 where two fill shared
 * memory; by 16 rows 128 blocks took 22.7 and 17.8 (28 forms of one and 16 rows: 0.79 to 1.00).  So as many blocks as an
 * even share is get all of it.  Small blocks gain as well: 441 blocks of 24 KB took 48 us and 26, 64 of 16 KB (a transpose
 * of 512 x 512) 3.5 and 1.9; 1200 of 16 KB 6.5 and 6.6. */
static unsigned
shared_bytes(const CudaState *s, const Loaded *l, unsigned blocks)
{
	enum { SYSTEM_BYTES = 1024, STEP = 128 };       /* of each block's; it is given in such steps */
	unsigned all = (unsigned)s->max_shared + SYSTEM_BYTES, n = (unsigned)MAX(s->multiprocessors, 1);
	if (l->most_shared == l->shared || l->resident)
		return l->shared;
	unsigned each = (blocks + n - 1) / n, least = (all / (each + 1)) / STEP * STEP + STEP;
	return MIN(MAX(l->shared + SYSTEM_BYTES, least) - SYSTEM_BYTES, l->most_shared);
}

static bool
launch_now(Device *d, Loaded *l, unsigned blocks)
{
	CudaState *s = CUDA_STATE(d);
	if (l->counter_at >= 0 && !take_counter(d, &l->value[l->counter_at]))
		return false;
	if (l->arrivals_at >= 0 && !cuda_take_parts(d, l, blocks))
		return false;
	cuda_note(s, l, d->stream);
	CudaLaunch launch = {blocks, 1, 1, l->threads, 1, 1, shared_bytes(s, l, blocks), d->stream, l->attribute,
		l->nattribute};
	if (l->nattribute)
		return CUDA_CALL(d, cuLaunchKernelEx, &launch, l->function, l->at, NULL);
	return CUDA_CALL(d, cuLaunchKernel, l->function, blocks, 1, 1, l->threads, 1, 1, l->shared, d->stream, l->at, NULL);
}

CUDA_FUNCTION(bool, cuda_launch_values, (Device *d, Loaded *l, unsigned blocks), launch_now(d, l, blocks))

bool
cuda_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	const Artefact *a = l->artefact;
	unsigned blocks;
	if (!abi_blocks(d, l->artefact, grid, l->resident, &blocks))
		return false;
	for (int i = 0; i < a->nabi; i++)
		l->value[i] = a->abi[i].kind == ABI_FAULTS ? l->faults : abi_value(&a->abi[i], args, grid);
	return (!a->nmaps || cuda_set_maps(d, l, args)) && cuda_launch_values(d, l, blocks);
}

/* ---- times ---- */

CUDA_FUNCTION(bool, cuda_time_begin, (Device *d), CUDA_CALL(d, cuEventRecord, CUDA_STATE(d)->timer[0], d->stream))
CUDA_FUNCTION(static bool, milliseconds, (Device *d, void *const timer[2], float *ms),
    CUDA_CALL(d, cuEventRecord, timer[1], d->stream) && CUDA_CALL(d, cuEventSynchronize, timer[1]) &&
    CUDA_CALL(d, cuEventElapsedTime, ms, timer[0], timer[1]))

bool
cuda_time_end(Device *d, double *seconds)
{
	float ms = 0;
	bool ok = milliseconds(d, CUDA_STATE(d)->timer, &ms);
	*seconds = (double)ms * 1e-3;
	return ok;
}

/* ---- waiting ---- */

static bool
collect(Device *d, Loaded *l, void *stream, Fault *fault)
{
	FaultRecord r = {0};
	if (!CUDA_CALL(d, cuMemcpyDtoHAsync_v2, &r, l->faults, sizeof r, stream) ||
	    !CUDA_CALL(d, cuStreamSynchronize, stream))
		return false;
	if (r.number == 0)
		return true;
	artefact_fault(l->artefact, &r, fault);
	CUDA_CALL(d, cuMemsetD8Async, l->faults, 0, FAULT_BYTES, stream);
	return false;
}

bool
cuda_collect(Device *d, void *stream, bool all, Fault *fault)
{
	bool ok = true;
	for (Loaded **at = &CUDA_STATE(d)->launched; *at && ok;) {
		Loaded *l = *at;
		if (!all && (l->on_many || l->stream != stream)) {
			at = &l->next_launched; /* it may still run */
			continue;
		}
		*at = l->next_launched;
		l->is_launched = l->on_many = false;
		ok = collect(d, l, stream, fault);
	}
	return ok;
}

CUDA_FUNCTION(bool, cuda_sync, (Device *d, Fault *fault),
    cuda_check(d, CUDA_STATE(d)->cuda.cuCtxSynchronize(), "cuCtxSynchronize") && cuda_collect(d, d->stream, true, fault))

void
cuda_drop_pending(CudaState *s, const Loaded *l)
{
	for (Loaded **at = &s->launched; *at; at = &(*at)->next_launched)
		if (*at == l) {
			*at = l->next_launched;
			return;
		}
}
