/* Arguments as a GPU's kernel takes them, each a word, by the artefact's ABI; and its blocks. */
#include "model/digits/digits.h"
#include "runtime/device.h"

#include <inttypes.h>
#include <string.h>

/* Floats come as f64 and are known by their parameter's type. */
uint64_t
scalar_bits(DType t, const PlanArg *a)
{
	uint64_t bits = 0;
	if (t == TY_BOOL)
		return a->i != 0;
	if (!dtype_is_float(t))
		return (uint64_t)a->i;
	dtype_store_f64(t, &bits, 0, a->f);
	return bits;
}

uint64_t
abi_value(const AbiParam *p, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	switch (p->kind) {
	case ABI_POINTER: return (uint64_t)(uintptr_t)args[p->param].data;
	case ABI_STRIDE: return (uint64_t)args[p->param].stride[p->dim];
	case ABI_EXTENT: return (uint64_t)args[p->param].dim[p->dim];
	case ABI_SCALAR: return scalar_bits(args[p->param].dtype, &args[p->param]);
	case ABI_DIM: return (uint64_t)args[p->param].i;
	case ABI_GRID: return (uint64_t)grid[p->dim];
	case ABI_INVERSE: return grid_inverse(grid[p->dim]);
	case ABI_FAULTS:
	case ABI_COUNTER:
	case ABI_ARRIVALS:
	case ABI_PARTS:
	case ABI_TENSOR_MAP: return 0;
	}
	unreachable();
}

/* Coordinates are 32 bits, signed, and code moves starts that are further out to this one (lower/memory/bulk.c). */
enum { MAP_EXTENT_MOST = INT32_MAX - 0xffff };

/* Of the map's dimension i, which may be several of the tensor. */
static int64_t
mapped_extent(const TensorMap *m, const PlanArg *a, int i)
{
	int64_t n = a->dim[m->dim[i]];
	for (int k = 1; k <= m->merged[i]; k++)
		if (__builtin_mul_overflow(n, a->dim[m->dim[i] - k], &n))
			return INT64_MAX;
	return n;
}

/* Saturates. */
static int64_t
launch_sum(const LaunchSum *s, const PlanArg *args, const int64_t *grid)
{
	int64_t sum = s->number, v;
	for (int i = 0; i < s->n; i++) {
		int param = s->term[i].param, d = s->term[i].dim;
		v = param < 0 ? grid[-1 - param] : d < 0 ? args[param].i : args[param].dim[d];
		if (__builtin_mul_overflow(v, s->term[i].factor, &v) || __builtin_add_overflow(sum, v, &sum))
			return INT64_MAX;
	}
	return sum;
}

void
abi_made(const MadeTensor *m, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t dim[2])
{
	int64_t end = launch_sum(&m->end, args, grid);
	for (int d = 0; d < 2; d++)
		dim[d] = made_extent(m, d, end, grid);
}

/* CUDA driver API, cuTensorMapEncodeIm2col, and PTX ISA 9.0, 5.5.4: signed corners and offsets without a sign, of 16 bits
 * along one dimension, 8 bits along each of two, 5 along each of three.  Images without rows or columns have no box. */
static bool
set_corners(const TensorMap *m, const PlanArg *args, int i, MapShape *out)
{
	int64_t most = m->windows == 1 ? INT16_MAX : m->windows == 2 ? INT8_MAX : 15;
	int64_t extent = args[m->param].dim[m->dim[1 + i]], upper;
	int64_t lower = launch_sum(&m->window[i].lower, args, NULL);
	int64_t count = MAX(launch_sum(&m->window[i].count, args, NULL), 1);
	if (__builtin_mul_overflow(count - 1, m->window[i].step, &upper) || __builtin_add_overflow(upper, lower, &upper))
		return false;
	upper += 1 - extent;
	out->lower[i] = (int)lower;
	out->upper[i] = (int)upper;
	return extent > 0 && lower >= -most - 1 && lower <= most && upper >= -most - 1 && upper <= most &&
	    launch_sum(&m->window[i].reach, args, NULL) <= 2 * most + 1;
}

bool
abi_windows_fit(const TensorMap *map, int n, const PlanArg *args)
{
	MapShape shape;
	return ALL_OF(k, n, ALL_OF(i, map[k].windows, set_corners(&map[k], args, i, &shape)));
}

bool
abi_map(DeviceError *e, const TensorMap *m, const PlanArg *args, uint64_t nothing, MapShape *out)
{
	const PlanArg *a = &args[m->param];
	bool is_empty = false;
	*out = (MapShape){.address = (uint64_t)(uintptr_t)a->data};
	for (int i = 0; i < m->rank; i++) {
		int64_t extent = mapped_extent(m, a, i), stride = a->stride[m->dim[i]] * m->elem_bytes;
		is_empty |= extent == 0;
		out->extent[i] = extent;
		out->stride[i] = extent > 1 ? stride : 16;
		if (extent > MAP_EXTENT_MOST || (extent > 1 && stride >= INT64_C(1) << 40))
			return device_error(e, DEVICE_FAILED, "smaller tensors, or another target (--target=sm_80)",
			    "dimension %d of parameter %d has %" PRId64 " elements, %" PRId64 " bytes apart, and a tensor "
			    "map takes at most %d, less than 2^40 bytes apart", m->dim[i], m->param, extent, stride,
			    MAP_EXTENT_MOST);
	}
	for (int i = 0; i < m->windows; i++)
		if (!set_corners(m, args, i, out))
			return device_error(e, DEVICE_FAILED, "", "windows of parameter %d are further apart or outside "
			    "of it than a tensor map holds", m->param);
	for (int i = 0; i < m->rank && is_empty; i++) {
		out->address = nothing + (m->is_stored ? 16 : 0);
		out->extent[i] = 1;
		out->stride[i] = 16;
		memset(out->lower, 0, sizeof out->lower);
		memset(out->upper, 0, sizeof out->upper);
	}
	return true;
}

/* The first axis that is too long for the i32 in which the kernel is given it; -1: there is none. */
static int
long_axis(const Artefact *a, const int64_t grid[MAX_AXES])
{
	return VALUE_OF(i, a->nabi, a->abi[i].kind == ABI_GRID && grid[a->abi[i].dim] > INT32_MAX,
	    a->abi[i].dim, -1);
}

bool
abi_blocks(Device *d, const Artefact *a, const int64_t grid[MAX_AXES], int64_t resident, unsigned *out)
{
	int64_t n = 1;
	bool fits = true, is_long = false;
	for (int i = 0; i < MAX_AXES; i++) {
		int64_t ranks = artefact_ranks(a, i);   /* the last ones may do nothing */
		is_long |= grid[i] > INT32_MAX;
		fits &= !__builtin_mul_overflow(n, (grid[i] + ranks - 1) / ranks * ranks, &n);
	}
	int axis = is_long ? long_axis(a, grid) : -1;
	if (axis >= 0) {
		device_fail(d, DEVICE_FAILED, "larger tiles", "the grid has %" PRId64
		    " programs along axis %d, and an axis of a GPU's goes up to %d", grid[axis], axis, INT32_MAX);
		return false;
	}
	fits &= !__builtin_mul_overflow(n, MAX(a->split, 1), &n);
	fits &= a->share <= 1 || n <= INT32_MAX;        /* its programs have numbers of 31 bits */
	n = (n + MAX(a->share, 1) - 1) / MAX(a->share, 1);
	int cluster = MAX(a->cluster, 1);       /* of which `resident` is a multiple */
	if (resident)
		n = fits && n < resident ? (n + cluster - 1) / cluster * cluster : resident;
	else if (!fits || n > INT32_MAX) {
		device_fail(d, DEVICE_FAILED, "larger tiles, or a persistent schedule (-D persistent=true)",
		    "the grid has more programs than the %d blocks that a GPU takes in one launch", INT32_MAX);
		return false;
	}
	*out = (unsigned)n;
	return true;
}
