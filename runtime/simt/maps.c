/* Tensor maps of a launch on the emulator: 128 bytes each, as the driver makes them for a GPU, with the driver's rules. */
#include "runtime/device.h"
#include "runtime/simt/simt.h"

#include <string.h>

static bool
encode(const TensorMap *m, const MapShape *shape, void *to, DeviceError *e)
{
	static const DType of_bytes[] = {[1] = TY_U8, [2] = TY_U16, [4] = TY_U32, [8] = TY_U64};
	SimtTensor t = {.dtype = m->is_added ? TY_F32 : of_bytes[m->elem_bytes], .rank = m->rank, .address = shape->address,
		.swizzle = m->swizzle ? (SimtSwizzle)log2_floor(m->swizzle / 16) : SIMT_SWIZZLE_NONE};
	memcpy(t.extent, shape->extent, sizeof t.extent);
	memcpy(t.stride, shape->stride, sizeof t.stride);
	memcpy(t.box, m->box, sizeof t.box);
	memcpy(t.lower, shape->lower, sizeof t.lower);
	memcpy(t.upper, shape->upper, sizeof t.upper);
	t.windows = m->windows;
	for (int i = 0; i < m->windows; i++)
		t.step[i] = m->window[i].step;
	const char *why = simt_tensor_encode(to, &t);
	return !why || device_error(e, DEVICE_FAILED, "", "no tensor map of parameter %d: %s", m->param, why);
}

bool
simt_maps(const AbiParam *abi, int nabi, const TensorMap *map, const PlanArg *args, void *room, uint64_t *value,
    DeviceError *e)
{
	MapShape shape;
	memset(room, 0, MAP_BYTES);
	for (int i = 0; i < nabi; i++) {
		char *to = (char *)room + (size_t)(abi[i].dim + 1) * MAP_BYTES;
		if (abi[i].kind != ABI_TENSOR_MAP)
			continue;
		if (!abi_map(e, &map[abi[i].dim], args, (uint64_t)(uintptr_t)room, &shape) ||
		    !encode(&map[abi[i].dim], &shape, to, e))
			return false;
		value[i] = (uint64_t)(uintptr_t)to;
	}
	return true;
}
