/* The simt device: what lowering makes for a GPU, run on this machine, a block at a time with its threads in lockstep
 * (emit/lockstep.c).  It is slow and meant for looking: results are those of the GPU's code, and what would be a race
 * in shared memory, a barrier that some threads miss or a misaligned access is an error with its line.
 *
 * It is not in the list of devices, so that nobody runs on it by chance; it is opened by name. */
#include <stdlib.h>
#include <string.h>

#include "emit/emit.h"
#include "lower/lower.h"
#include "runtime/device.h"

enum { RESIDENT = 3 }; /* blocks of a persistent grid: few, so that each walks over several programs */

struct Loaded {
	Arena *mem;
	Func *func;
	Lockstep *code;
	AbiParam *abi;
	int nabi;
	FaultRecord faults;
	uint64_t counter;
};

typedef struct SimtState {
	const DeviceHooks *hooks;
	double began;
} SimtState;

static bool
simt_probe(int index, DeviceProbe *out)
{
	*out = (DeviceProbe){0};
	return false;
}

static bool
simt_open(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks)
{
	SimtState *s = index == 0 ? calloc(1, sizeof *s) : NULL;
	if (!s) {
		snprintf(d->error.text, sizeof d->error.text, "%s", index ? "there is one, numbered 0" : "no memory");
		return false;
	}
	s->hooks = hooks;
	d->state = s;
	return true;
}

static void
simt_close(Device *d)
{
	free(d->state);
}

static void
simt_info(const Device *d, TglDeviceInfo *out)
{
	*out = (TglDeviceInfo){.name = "simt", .target = d->target, .available = true, .threads = 1,
	    .memory = device_host_memory(), .text = "a GPU's code on this machine, its threads in lockstep"};
}

static void *
simt_alloc(Device *d, size_t size)
{
	return device_cpu.alloc(d, size);
}

static void
simt_free(Device *d, void *p, size_t size)
{
	device_cpu.free(d, p, size);
}

static bool
simt_copy(Device *d, void *to, const void *from, size_t size, bool wait)
{
	if (size)
		memmove(to, from, size);
	return true;
}

static void
simt_unload(Device *d, Loaded *l)
{
	arena_close(l->mem);
	free(l);
}

static Loaded *
simt_load(Device *d, Func *f, const char **why)
{
	const Target *t = target_named(d->target);
	Loaded *l = calloc(1, sizeof *l);
	if (!l) {
		*why = "no memory";
		return NULL;
	}
	l->mem = arena_open();
	l->func = f;
	l->code = emit_lockstep_open(l->mem, t);
	l->abi = artefact_abi(f, l->mem, &l->nabi);
	if (!lower_func(f, t, emit_lockstep_emitter(l->code), l->mem)) {
		*why = "it can't be lowered";
		simt_unload(d, l);
		return NULL;
	}
	return l;
}

static uint64_t
value_of(const AbiParam *p, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	uint64_t bits = 0;
	switch (p->kind) {
	case ABI_POINTER:
		return (uint64_t)(uintptr_t)args[p->param].data;
	case ABI_STRIDE:
		return (uint64_t)args[p->param].stride[p->dim];
	case ABI_EXTENT:
		return (uint64_t)args[p->param].dim[p->dim];
	case ABI_SCALAR: {
		const Type *t = l->func->body->arg[p->param].type;
		if (dtype_is_float(t->elem))
			dtype_store_f64(t->elem, &bits, 0, args[p->param].f);
		else
			bits = (uint64_t)args[p->param].i;
		return bits;
	}
	case ABI_DIM:
		return (uint64_t)args[p->param].i;
	case ABI_GRID:
		return (uint64_t)grid[p->dim];
	case ABI_FAULTS:
		return (uint64_t)(uintptr_t)&l->faults;
	case ABI_COUNTER:
		return (uint64_t)(uintptr_t)&l->counter;
	}
	unreachable();
}

static void
report_assert(const Loaded *l, Fault *fault)
{
	uint32_t n = 0;
	const Op *found = NULL;
	for (Op *op = l->func->body->first; op; op = op_after(op, l->func->body))
		if (op->kind == OP_ASSERT && ++n == l->faults.number)
			found = op;
	*fault = (Fault){.kind = FAULT_ASSERT, .place = found->place, .other = NOWHERE};
	device_assert_fault(&l->faults, l->func->naxis, op_text(found, "text"), fault);
}

static bool
simt_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	SimtState *s = d->state;
	uint64_t *value = calloc((size_t)l->nabi + 1, sizeof *value);
	int64_t total = 1;
	bool ok = value != NULL, known = true;
	for (int i = 0; i < MAX_AXES; i++)
		total *= grid[i];
	int64_t blocks = l->func->schedule.persistent ? MIN(total, RESIDENT) : total;
	l->faults = (FaultRecord){0};
	l->counter = 0;
	emit_lockstep_clear_bounds(l->code);
	emit_lockstep_bounds(l->code, (const char *)&l->faults, (const char *)(&l->faults + 1));
	emit_lockstep_bounds(l->code, (const char *)&l->counter, (const char *)(&l->counter + 1));
	for (int i = 0; ok && i < l->nabi; i++) {
		value[i] = value_of(&l->abi[i], l, args, grid);
		if (l->abi[i].kind != ABI_POINTER)
			continue;
		known = known && args[l->abi[i].param].low;
		emit_lockstep_bounds(l->code, args[l->abi[i].param].low, args[l->abi[i].param].high);
	}
	if (!known)
		emit_lockstep_clear_bounds(l->code);
	d->error.what = ok ? DEVICE_KERNEL : DEVICE_NO_MEMORY;
	for (int64_t b = 0; ok && b < blocks; b++)
		ok = emit_lockstep_run(l->code, value, b, blocks, s->hooks->print, s->hooks->print_user, d->error.text,
		    sizeof d->error.text);
	free(value);
	if (ok && l->faults.number) {
		report_assert(l, fault);
		return false;
	}
	if (ok)
		d->error.what = DEVICE_WELL;
	return ok;
}

static bool
simt_time_begin(Device *d)
{
	((SimtState *)d->state)->began = device_clock();
	return true;
}

static bool
simt_time_end(Device *d, double *seconds)
{
	*seconds = device_clock() - ((SimtState *)d->state)->began;
	return true;
}

static bool
simt_sync(Device *d, Fault *fault)
{
	return true;
}

const Device device_simt = {
    .name = "simt",
    .target = "sm_90a",
    .host = true,
    .probe = simt_probe,
    .open = simt_open,
    .close = simt_close,
    .info = simt_info,
    .alloc = simt_alloc,
    .free = simt_free,
    .copy_in = simt_copy,
    .copy_out = simt_copy,
    .load = simt_load,
    .unload = simt_unload,
    .launch = simt_launch,
    .time_begin = simt_time_begin,
    .time_end = simt_time_end,
    .sync = simt_sync,
};
