/* The simt device: what lowering makes for a GPU, run on this machine by the emulator (runtime/simt), each thread of a
 * block a fiber.  It is for debugging: results are those of the GPU's code, and a race, a barrier that some threads miss,
 * an access out of bounds or misaligned is an error with its line.
 *
 * It is not in the list of devices, so that no kernel runs on it by accident; it is opened by name, "simt" or, for another
 * GPU's code, "simt:sm_80". */
#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"
#include "lower/lower.h"
#include "runtime/device.h"
#include "runtime/simt/simt.h"

enum { APART = 1 << 16, LOG_COUNTED = 15 };
enum { RESIDENT = 3 }; /* blocks of a persistent grid, or clusters: few, so that each walks over several programs */

struct Loaded {
	Arena *mem;
	Func *func;
	SimtCode *code;
	AbiParam *abi;
	int nabi, nmaps;
	TensorMap *map;
	void *maps;                             /* of the last launch; see simt_maps */
	bool prints;
	bool is_costed;                 /* the cost of its accesses was reported */
	FaultRecord faults[SIMT_WORKERS];
	uint64_t counter;
	uint32_t *arrivals;                     /* of the launch under way, with what blocks that share a program leave */
	char *parts;
	size_t arrivals_bytes, parts_bytes;
};

typedef struct SimtState {
	const DeviceHooks *hooks;
	SimtMachine *machine;
	TglDeviceOptions opt;
	SimtFindings findings;          /* of the last launch */
	int64_t programs_most;          /* not 0: accesses are counted, in so many programs */
	const Place *site;              /* of the last launch, where they were */
	int64_t programs, of;           /* that it ran, of the grid's */
} SimtState;

static bool
simt_probe(int index, DeviceProbe *out)
{
	*out = (DeviceProbe){0};
	return false;
}

static bool
open_device(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks)
{
	if (opt->trace)
		return device_fail(d, DEVICE_FAILED, "open the device 'cpu' for that, or give TglCompileOptions.trace",
		    "it cannot hand over the value of each op");
	SimtState *s = index == 0 ? calloc(1, sizeof *s) : NULL;
	if (!s || !(s->machine = simt_open())) {
		device_fail(d, DEVICE_FAILED, "", "%s", index ? "there is one, numbered 0" : "no memory");
		free(s);
		return false;
	}
	s->hooks = hooks;
	s->opt = *opt;
	d->watches = opt->break_nan;
	d->state = s;
	return true;
}

static void
close_device(Device *d)
{
	SimtState *s = d->state;
	simt_close(s->machine);
	simt_findings_close(&s->findings);
	free(s);
}

static void
simt_info(const Device *d, TglDeviceInfo *out)
{
	*out = (TglDeviceInfo){.name = "simt", .target = d->target, .available = true, .threads = 1,
	    .memory = device_host_memory(), .text = "a GPU's code on this machine, its threads as fibers"};
}

/* With nothing near on both sides, so that what leaves a tensor does not come to lie in another. */
static void *
simt_alloc(Device *d, size_t size)
{
	char *p = size < SIZE_MAX - 2 * APART ? device_cpu.alloc(d, size + 2 * APART) : NULL;
	return p ? p + APART : NULL;
}

static void
simt_free(Device *d, void *p, size_t size)
{
	if (p)
		device_cpu.free(d, (char *)p - APART, size + 2 * APART);
}

static void
simt_unload(Device *d, Loaded *l)
{
	simt_code_close(l->code);
	free(l->maps);
	arena_close(l->mem);
	free(l);
}

static bool
has_print(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_PRINT && !op_attr(op, ATTR_WATCH));
}

static Loaded *
simt_load(Device *d, Func *f, const char **why)
{
	const Target *t = target_named(d->target);
	Loaded *l = compile_finds_llvm(f->module->cx) ? calloc(1, sizeof *l) : NULL;
	if (!l) {
		*why = f->module->cx->nerrors ? NULL : "no memory";
		return NULL;
	}
	l->mem = arena_open();
	l->func = f;
	l->abi = artefact_abi(f, t, l->mem, &l->nabi);
	l->map = artefact_maps(f, t, l->mem, &l->nmaps);
	artefact_by_argument(f, l->abi, l->nabi, l->map, l->nmaps);
	l->maps = aligned_alloc(64, ((size_t)l->nmaps + 1) * MAP_BYTES);
	l->prints = has_print(f);
	const SimtState *s = d->state;
	const SimtCodeOptions opt = {.checks = !s->opt.unchecked, .quick = s->opt.quick, .thread = d->thread};
	l->code = simt_code_open(f, t, &opt, l->mem, why);
	if (!l->code) {
		const char *silent = f->module->cx->nerrors ? NULL : "it can't be lowered";
		*why = **why ? arena_strdup(f->module->cx->tmp, *why) : silent;
		simt_unload(d, l);
		return NULL;
	}
	return l;
}

static uint64_t
value_of(const AbiParam *p, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	switch (p->kind) {
	case ABI_FAULTS: return (uint64_t)(uintptr_t)l->faults;
	case ABI_COUNTER: return (uint64_t)(uintptr_t)&l->counter;
	case ABI_ARRIVALS: return (uint64_t)(uintptr_t)l->arrivals;
	case ABI_PARTS: return (uint64_t)(uintptr_t)l->parts;
	default: return abi_value(p, args, grid);
	}
}

static void
report_assert(const Loaded *l, Fault *fault)
{
	uint32_t n = 0;
	const Op *found = NULL;
	for (Op *op = l->func->body->first; op; op = op_after(op, l->func->body))
		if (op->kind == OP_ASSERT && ++n == l->faults[0].number)
			found = op;
	*fault = (Fault){.kind = FAULT_ASSERT, .place = found->place, .other = NOWHERE};
	device_assert_fault(l->faults, l->func->naxis, attr_text(found), fault);
}

/* What a launch may touch: nothing is known where the allocation of an argument is not. */
static int
fill_ranges(Loaded *l, const PlanArg *args, SimtRange *range)
{
	int n = 0;
	uint64_t faults = (uint64_t)(uintptr_t)l->faults, counter = (uint64_t)(uintptr_t)&l->counter;
	uint64_t maps = (uint64_t)(uintptr_t)l->maps;
	range[n++] = (SimtRange){.low = faults, .high = faults + sizeof l->faults};
	range[n++] = (SimtRange){.low = counter, .high = counter + sizeof l->counter};
	range[n++] = (SimtRange){.low = maps, .high = maps + MAP_BYTES};
	if (l->arrivals) {
		uint64_t arrivals = (uint64_t)(uintptr_t)l->arrivals;
		const char *name = func_is_dynamic(l->func) ? "the counter of programs" : "the arrivals of split blocks";
		range[n++] = (SimtRange){.name = name, .low = arrivals, .high = arrivals + l->arrivals_bytes,
		    .first = arrivals, .dtype = TY_U32};
	}
	if (l->parts_bytes) {
		uint64_t parts = (uint64_t)(uintptr_t)l->parts;
		range[n++] = (SimtRange){.name = "the states of split blocks", .low = parts, .high = parts + l->parts_bytes,
		    .first = parts, .dtype = TY_U32, .undefined = true};
	}
	for (int i = 0; i < l->nabi; i++) {
		const FuncParam *p = &l->func->param[l->abi[i].param];
		const PlanArg *a = &args[l->abi[i].param];
		bool is_result = p->kind == PARAM_TENSOR && (p->access == ACCESS_OUT || p->access == ACCESS_SCRATCH);
		if (l->abi[i].kind != ABI_POINTER)
			continue;
		if (!a->low && a->data)
			return 0;
		/* single halves of packed bytes go through the aligned word around them */
		SimtRange *r = &range[n++];
		*r = (SimtRange){.name = p->name, .low = (uint64_t)(uintptr_t)a->low & ~UINT64_C(3),
		    .high = ((uint64_t)(uintptr_t)a->high + 3) & ~UINT64_C(3), .first = (uint64_t)(uintptr_t)a->data,
		    .dtype = l->func->body->arg[l->abi[i].param].type->elem,
		    .undefined = is_result && !a->filled,
		    .is_read_only = p->kind == PARAM_TENSOR && p->access == ACCESS_IN, .is_constant = p->is_constant};
		if (p->kind == PARAM_TENSOR && !dtype_is_packed(r->dtype)) {
			r->rank = l->func->body->arg[l->abi[i].param].type->rank;
			memcpy(r->dim, a->dim, sizeof r->dim);
			memcpy(r->stride, a->stride, sizeof r->stride);
		}
	}
	return n;
}

static int64_t
programs_of(const int64_t grid[MAX_AXES])
{
	int64_t n = 1;
	for (int i = 0; i < MAX_AXES; i++)
		n *= grid[i];
	return n;
}

/* Does each block run one program, and wait for none of the others? */
static bool
are_apart(const Func *f)
{
	bool is_one = !f->schedule.persistent && MAX(f->schedule.split, 1) == 1 && func_cluster(f) == 1;
	bool loops = false, orders = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		loops |= op->kind == OP_WHILE;
		orders |= op_info[op->kind].family == FAMILY_ATOMIC;
	}
	return is_one && split_part_bytes(f) == 0 && !(loops && orders);
}

static bool
run_blocks(Device *d, Loaded *l, const uint64_t *value, const SimtRange *range, int nrange, const int64_t grid[MAX_AXES],
    int64_t blocks, Fault *fault)
{
	SimtState *s = d->state;
	SimtReport report;
	SimtLaunch launch = {.param = value, .abi = l->abi, .nabi = l->nabi, .nblocks = blocks, .seed = s->opt.schedule,
	    .faults = l->faults, .iterations_most = s->opt.iterations, .range = range, .nrange = nrange,
	    .workers = l->prints ? 1 : s->opt.threads, .print = s->hooks->print, .print_user = s->hooks->print_user};
	simt_findings_close(&s->findings);
	s->findings.counts = s->programs_most || (s->opt.costs && !l->is_costed);
	s->findings.log_gathered = s->programs_most ? LOG_COUNTED : 0;
	s->of = s->programs = programs_of(grid);
	int share = MAX(l->func->schedule.share, 1);
	if (s->programs_most && are_apart(l->func) && s->programs_most < s->of) {
		launch.sample = (s->programs_most + share - 1) / share;
		s->programs = launch.sample * share;
	}
	launch.func = l->func;
	launch.findings = &s->findings;
	memcpy(launch.grid, grid, sizeof launch.grid);
	simt_code_launch(l->code, &launch);
	s->site = launch.site;
	if (simt_run(s->machine, &launch, &report)) {
		if (s->findings.counts && s->opt.costs)
			simt_findings_warn(&launch, l->func->module->cx);
		l->is_costed |= s->findings.counts;
		return s->findings.n == 0;
	}
	*fault = (Fault){.kind = report.kind, .place = report.place, .other = report.other, .element = -1};
	snprintf(fault->text, sizeof fault->text, "%s", report.text);
	return false;
}

/* Memory for the states of blocks that share a program. */
static bool
open_parts(Loaded *l, int64_t blocks)
{
	int64_t bytes = split_part_bytes(l->func), split = MAX(l->func->schedule.split, 1);
	bool fetches = func_is_dynamic(l->func);
	if (bytes == 0 && !fetches)
		return true;
	int64_t words = fetches ? COUNTER_WORDS : l->func->stream ? blocks * STREAM_FLAGS : blocks / split;
	l->arrivals_bytes = sizeof *l->arrivals * (size_t)MAX(words, 1);
	l->parts_bytes = (size_t)(bytes * MAX(blocks, 1));
	l->arrivals = calloc(1, l->arrivals_bytes);
	l->parts = malloc((size_t)MAX(l->parts_bytes, 1));
	return l->arrivals && l->parts;
}

/* The next launch finds zeros: its program's last block has left them. */
static void
close_parts(Loaded *l, bool ran)
{
	for (size_t i = 0; ran && i < l->arrivals_bytes / sizeof *l->arrivals; i++)
		if (l->arrivals[i])
			die("a count of arrivals is left at %u", l->arrivals[i]);
	free(l->arrivals);
	free(l->parts);
	l->arrivals = NULL;
	l->parts = NULL;
	l->arrivals_bytes = l->parts_bytes = 0;
}

static bool
launch_loaded(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	uint64_t *value = memory_new((size_t)l->nabi, sizeof *value);
	SimtRange *range = memory_new((size_t)l->nabi + 5, sizeof *range);
	int64_t total = programs_of(grid), cluster = func_cluster(l->func);
	int64_t share = MAX(l->func->schedule.share, 1);
	int64_t blocks = !func_stays(l->func) ? total * MAX(l->func->schedule.split, 1)
	                                      : MIN((total + cluster - 1) / cluster, RESIDENT) * cluster;
	blocks = (blocks + share - 1) / share;
	bool ok = l->maps && open_parts(l, blocks);
	memset(l->faults, 0, sizeof l->faults);
	l->counter = 0;
	if (!ok)
		d->error.what = DEVICE_NO_MEMORY;
	for (int i = 0; ok && i < l->nabi; i++)
		value[i] = value_of(&l->abi[i], l, args, grid);
	ok = ok && simt_maps(l->abi, l->nabi, l->map, args, l->maps, value, &d->error) &&
	    run_blocks(d, l, value, range, fill_ranges(l, args, range), grid, blocks, fault);
	free(value);
	free(range);
	close_parts(l, ok);
	if (ok && l->faults[0].number) {
		report_assert(l, fault);
		return false;
	}
	return ok;
}

static void
simt_schedule(Device *d, uint64_t number)
{
	((SimtState *)d->state)->opt.schedule = number;
}

static bool
report_findings(Device *d, Compile *cx)
{
	SimtFindings *f = &((SimtState *)d->state)->findings;
	bool any = simt_findings_report(f, cx);
	f->n = 0;
	return any;
}

static void
simt_count(Device *d, int64_t programs)
{
	((SimtState *)d->state)->programs_most = programs;
}

static bool
simt_counted(const Device *d, int i, AccessCount *out)
{
	const SimtState *s = d->state;
	for (int k = 0; k < s->findings.ncosts; k++) {
		const SimtCost *c = &s->findings.cost[k];
		if (c->is_shared || i-- > 0)
			continue;
		*out = (AccessCount){.place = c->site > 0 ? s->site[c->site] : NOWHERE, .is_write = c->is_write,
		    .bytes = c->bytes, .n = c->n, .total = c->total, .least = c->least_total, .programs = s->programs,
		    .of = s->of};
		return true;
	}
	return false;
}

const Device device_simt = {
    .name = "simt",
    .target = "sm_90a",
    .source = "simt",
    .host = true,
    .specialises = true,
    .probe = simt_probe,
    .open = open_device,
    .close = close_device,
    .info = simt_info,
    .alloc = simt_alloc,
    .free = simt_free,
    .copy_in = device_host_copy,
    .copy_out = device_host_copy,
    .load = simt_load,
    .unload = simt_unload,
    .launch = launch_loaded,
    .time_begin = device_host_time_begin,
    .time_end = device_host_time_end,
    .sync = device_host_sync,
    .schedule = simt_schedule,
    .report_findings = report_findings,
    .count = simt_count,
    .counted = simt_counted,
};
