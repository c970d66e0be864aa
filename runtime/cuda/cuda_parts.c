/* Memory in which blocks that share a program leave what they have (`split` beyond a cluster): a count of arrivals for each
 * program, which kernels find at 0 and leave at 0, and the states, of any value.
 *
 * Two launches under way at once must not share it, so there is one for each stream, whose launches come one after the
 * other; and one for each recording of a stream, as a graph may run beside what the stream is given later.  It grows where
 * a launch needs more; what it was stays until the device closes, for a graph may still name it. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>

struct CudaParts {
	CudaParts *next;
	void *stream;
	uint64_t recording;             /* of the stream; 0: none */
	bool is_old;                    /* a larger one took its place, or the stream is gone */
	CudaPointer memory;             /* arrivals, then states */
	size_t arrivals, states;        /* bytes of each */
};

enum { LEAST_ARRIVALS = 4096, PARTS_ALIGN = 256 };

uint64_t
cuda_recording(Device *d, void *stream)
{
	const Cuda *c = &CUDA_STATE(d)->cuda;
	int status = 0;
	unsigned long long id = 0;
	if (c->cuStreamGetCaptureInfo)
		return c->cuStreamGetCaptureInfo(stream, &status, &id) == 0 && status != 0 ? id : 0;
	return c->cuStreamIsCapturing(stream, &status) == 0 && status != 0 ? UINT64_MAX : 0;
}

/* Neither allocation nor zeros become part of a recording. */
static bool
allocate(Device *d, CudaParts *p)
{
	void *stream;
	if (!cuda_aside(d, &stream))
		return false;
	bool ok = CUDA_CALL(d, cuMemAlloc_v2, &p->memory, p->arrivals + p->states) &&
	    CUDA_CALL(d, cuMemsetD8Async, p->memory, 0, p->arrivals, d->stream);
	return cuda_back(d, stream) && ok;
}

static CudaParts *
grow(Device *d, CudaParts *old, uint64_t recording, size_t arrivals, size_t states)
{
	CudaState *s = CUDA_STATE(d);
	CudaParts *p = memory_new(1, sizeof *p);
	*p = (CudaParts){.stream = d->stream, .recording = recording};
	p->arrivals = MAX(arrivals, old ? 2 * old->arrivals : LEAST_ARRIVALS);
	p->states = MAX(states, old ? 2 * old->states : 0);
	p->next = s->parts;
	s->parts = p;
	if (old)
		old->is_old = true;
	p->is_old = !allocate(d, p);
	return p->is_old ? NULL : p;
}

static size_t
rounded(size_t bytes)
{
	return (bytes + PARTS_ALIGN - 1) / PARTS_ALIGN * PARTS_ALIGN;
}

bool
cuda_take_parts(Device *d, Loaded *l, unsigned blocks)
{
	const Artefact *a = l->artefact;
	size_t arrivals = rounded(4 * artefact_arrivals(a, blocks));
	size_t states = rounded((size_t)a->part_bytes * blocks);
	uint64_t recording = cuda_recording(d, d->stream);
	CudaParts *p = CUDA_STATE(d)->parts;
	while (p && (p->is_old || p->stream != d->stream || p->recording != recording))
		p = p->next;
	if (!p || p->arrivals < arrivals || p->states < states)
		p = grow(d, p, recording, arrivals, states);
	if (!p)
		return false;
	l->value[l->arrivals_at] = p->memory;
	if (l->parts_at >= 0)
		l->value[l->parts_at] = p->memory + p->arrivals;
	return true;
}

void
cuda_parts_drop(CudaState *s, const void *stream)
{
	for (CudaParts *p = s->parts; p; p = p->next)
		p->is_old = p->is_old || p->stream == stream;
}

void
cuda_parts_close(CudaState *s)
{
	while (s->parts) {
		CudaParts *p = s->parts;
		s->parts = p->next;
		if (p->memory)
			s->cuda.cuMemFree_v2(p->memory);
		free(p);
	}
}
