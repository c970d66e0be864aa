/* Tensor maps: what bulk copies of boxes take as a parameter, 128 bytes that the driver encodes on the host.
 *
 * A launch like the last one of its compiled form takes the maps as they are; with other pointers only the address in them
 * is replaced; other shapes are encoded again.  Elements are unsigned integers of their size, but where
 * they are added: copies move bits, and what lies outside of a tensor is 0. */
#include "runtime/cuda/cuda.h"

#include <string.h>

static bool
encode(Device *d, const TensorMap *m, const MapShape *shape, CudaMap *to)
{
	static const int bits[] = {[1] = MAP_UINT8, [2] = MAP_UINT16, [4] = MAP_UINT32, [8] = MAP_UINT64};
	int type = m->is_added ? MAP_FLOAT32 : bits[m->elem_bytes];
	uint64_t extent[KERNEL_RANK], stride[KERNEL_RANK];
	unsigned box[KERNEL_RANK], step[KERNEL_RANK];
	for (int i = 0; i < m->rank; i++) {
		extent[i] = (uint64_t)shape->extent[i];
		box[i] = (unsigned)m->box[i];
		step[i] = 1;
		if (i > 0)
			stride[i - 1] = (uint64_t)shape->stride[i];
	}
	int swizzle = m->swizzle ? log2_floor(m->swizzle / 16) : 0;
	for (int i = 0; i < m->windows; i++)
		step[1 + i] = (unsigned)m->window[i].step;
	if (m->windows)
		return CUDA_CALL(d, cuTensorMapEncodeIm2col, to->bytes, type, (unsigned)m->rank,
		    (void *)(uintptr_t)shape->address, extent, stride, shape->lower, shape->upper, box[0], box[1], step, 0,
		    swizzle, MAP_PROMOTION_128, 0);
	return CUDA_CALL(d, cuTensorMapEncodeTiled, to->bytes, type, (unsigned)m->rank,
	    (void *)(uintptr_t)shape->address, extent, stride, box, step, 0, swizzle, MAP_PROMOTION_128, 0);
}

static bool
same_shape(const MapShape *a, const MapShape *b)
{
	return memcmp(a->extent, b->extent, sizeof a->extent) == 0 && memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
	    memcmp(a->lower, b->lower, sizeof a->lower) == 0 && memcmp(a->upper, b->upper, sizeof a->upper) == 0;
}

static bool
set_map(Device *d, const TensorMap *m, const MapShape *shape, CudaMap *to)
{
	bool is_same = to->is_encoded && same_shape(&to->shape, shape);
	if (is_same && to->shape.address == shape->address)
		return true;
	void *before = cuda_enter(d);
	to->is_encoded = is_same ? CUDA_CALL(d, cuTensorMapReplaceAddress, to->bytes, (void *)(uintptr_t)shape->address)
				 : encode(d, m, shape, to);
	cuda_leave(d, before);
	to->shape = *shape;
	return to->is_encoded;
}

bool
cuda_set_maps(Device *d, Loaded *l, const PlanArg *args)
{
	CudaState *s = CUDA_STATE(d);
	const Artefact *a = l->artefact;
	uint64_t nothing = s->counters + COUNTER_BYTES * MAX_COUNTERS;
	MapShape shape;
	if (!s->cuda.cuTensorMapEncodeTiled || !s->cuda.cuTensorMapEncodeIm2col || !s->cuda.cuTensorMapReplaceAddress)
		return device_fail(d, DEVICE_FAILED, "update the NVIDIA driver to one for CUDA 12 or later",
		    "the driver does not know tensor maps");
	return ALL_OF(i, a->nmaps,
	    abi_map(&d->error, &a->map[i], args, nothing, &shape) &&
		set_map(d, &a->map[i], &shape, &l->map[i]));
}
