/* Arguments as a GPU's kernel takes them: each a word, by the artefact's ABI. */
#include "runtime/device.h"

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
	case ABI_COUNTER: return 0;
	}
	unreachable();
}
