/* Kernels and launches on Metal: the text is compiled by the driver when it is loaded, pointers are bound one by one in
 * the order of the artefact's ABI, numbers together behind them, the grid is one row of threadgroups, and metal_launch
 * returns when the launch is done. */
#include "runtime/metal/metal.h"

#include <stdlib.h>
#include <string.h>

struct Loaded {
	const Artefact *artefact;
	void *library, *function, *pipeline;
	void *faults, *counter;                         /* where the host reaches them; NULL: the kernel has none */
	FaultRecord fault;                              /* of an assert that failed, until sync reports it */
};

static void
release(const Metal *m, void *object)
{
	if (object)
		METAL_SEND(m, release)(object, m->release);
}

/* ---- loading ---- */

/* Fast arithmetic is on unless it is turned off, and takes NaN and infinity for what they are not. */
static void *
compile_options(const Metal *m)
{
	void *o = METAL_SEND(m, new_object)(m->objc_getClass("MTLCompileOptions"), m->new_object);
	METAL_SEND(m, set_version)(o, m->set_version, METAL_LANGUAGE_3_1);
	if (METAL_SEND(m, responds)(o, m->responds, m->set_math_mode))
		METAL_SEND(m, set_math_mode)(o, m->set_math_mode, METAL_MATH_SAFE);     /* macOS 15 on */
	else
		METAL_SEND(m, set_fast_math)(o, m->set_fast_math, 0);
	return o;
}

/* Warnings come as an error beside a library that is good. */
static bool
compile_text(Device *d, Loaded *l)
{
	const Metal *m = &METAL_STATE(d)->metal;
	void *error = NULL, *options = compile_options(m);
	l->library = METAL_SEND(m, new_library)(METAL_STATE(d)->device, m->new_library, metal_string(m, l->artefact->bytes),
	    options, &error);
	release(m, options);
	if (!l->library)
		device_fail(d, DEVICE_FAILED, "keep the text with --emit=metal, and report it",
		    "Metal refuses kernel '%s': %s",
		    l->artefact->kernel, metal_words(m, error));
	return l->library;
}

static bool
make_pipeline(Device *d, Loaded *l)
{
	const Metal *m = &METAL_STATE(d)->metal;
	void *error = NULL;
	l->function = METAL_SEND(m, new_function)(l->library, m->new_function, metal_string(m, l->artefact->kernel));
	if (!l->function) {
		device_fail(d, DEVICE_FAILED, "", "the library has no kernel '%s'", l->artefact->kernel);
		return false;
	}
	l->pipeline = METAL_SEND(m, new_pipeline)(METAL_STATE(d)->device, m->new_pipeline, l->function, &error);
	if (!l->pipeline)
		device_fail(d, DEVICE_FAILED, "", "Metal makes no pipeline of kernel '%s': %s", l->artefact->kernel,
		    metal_words(m, error));
	return l->pipeline;
}

/* A launch with more threads than the pipeline takes would do nothing, silently. */
static bool
check_pipeline(Device *d, Loaded *l)
{
	const MetalState *s = METAL_STATE(d);
	const Metal *m = &s->metal;
	unsigned long most = METAL_SEND(m, max_threads)(l->pipeline, m->max_threads);
	unsigned long width = METAL_SEND(m, width)(l->pipeline, m->width);
	unsigned long fixed = METAL_SEND(m, static_shared)(l->pipeline, m->static_shared);
	if ((unsigned long)l->artefact->threads > most)
		device_fail(d, DEVICE_FAILED, "fewer warps (-D warps=4) or smaller tiles",
		    "a threadgroup has %d threads, and %s runs at most %lu of this kernel's in one",
		    l->artefact->threads, s->name, most);
	else if (width != 32)
		device_fail(d, DEVICE_FAILED, "",
		    "the kernel was made for simdgroups of 32 threads, and %s has %lu", s->name, width);
	else if ((unsigned long)l->artefact->shared_bytes + fixed > s->max_shared)
		device_fail(d, DEVICE_FAILED, "smaller tiles", "a threadgroup needs %lu bytes of memory, and %s has %lu",
		    (unsigned long)l->artefact->shared_bytes + fixed, s->name, s->max_shared);
	else
		return true;
	return false;
}

static bool
is_pointer(const AbiParam *p)
{
	return p->kind == ABI_POINTER || p->kind == ABI_FAULTS || p->kind == ABI_COUNTER;
}

static bool
make_records(Device *d, Loaded *l)
{
	int nbuffers = 0, bytes = 0;
	bool ok = true;
	for (int i = 0; i < l->artefact->nabi; i++) {
		nbuffers += is_pointer(&l->artefact->abi[i]);
		bytes += is_pointer(&l->artefact->abi[i]) ? 0 : METAL_BYTES;
	}
	if (nbuffers + (bytes > 0) > METAL_BUFFERS || bytes > METAL_VALUES) {
		device_fail(d, DEVICE_FAILED, "", "the kernel has %d parameters, more than Metal takes", l->artefact->nabi);
		return false;
	}
	for (int i = 0; ok && i < l->artefact->nabi; i++) {
		AbiKind kind = l->artefact->abi[i].kind;
		void **to = kind == ABI_FAULTS ? &l->faults : kind == ABI_COUNTER ? &l->counter : NULL;
		if (to)
			ok = (*to = d->alloc(d, FAULT_BYTES));
	}
	return ok;
}

void
metal_unload(Device *d, Loaded *l)
{
	MetalState *s = METAL_STATE(d);
	if (s->faulted == l)
		s->faulted = NULL;
	d->free(d, l->faults, FAULT_BYTES);
	d->free(d, l->counter, FAULT_BYTES);
	release(&s->metal, l->pipeline);
	release(&s->metal, l->function);
	release(&s->metal, l->library);
	free(l);
}

Loaded *
metal_load(Device *d, const Artefact *a)
{
	const Metal *m = &METAL_STATE(d)->metal;
	Loaded *l = memory_new(1, sizeof *l);
	l->artefact = a;
	void *pool = m->objc_autoreleasePoolPush();
	bool ok = compile_text(d, l) && make_pipeline(d, l) && check_pipeline(d, l) && make_records(d, l);
	m->objc_autoreleasePoolPop(pool);
	if (ok)
		return l;
	metal_unload(d, l);
	return NULL;
}

bool
metal_resources(Device *d, Loaded *l, TglResources *out)
{
	const Metal *m = &METAL_STATE(d)->metal;
	*out = (TglResources){.threads = l->artefact->threads};
	unsigned long fixed = METAL_SEND(m, static_shared)(l->pipeline, m->static_shared);
	out->shared_bytes = (int)fixed + (int)l->artefact->shared_bytes;
	return true;
}

/* ---- launching ---- */

static bool
set_pointer(Device *d, void *encoder, const void *p, int index)
{
	const MetalState *s = METAL_STATE(d);
	const MetalBuffer *b = metal_buffer_of(s, p, 1);
	if (!b && p) {
		device_fail(d, DEVICE_FAILED, "copy the data with tgl_tensor_write",
		    "memory at %p is in no buffer of the GPU's", p);
		return false;
	}
	METAL_SEND(&s->metal, set_buffer)(encoder, s->metal.set_buffer, b ? b->object : NULL,
	    b ? (unsigned long)((const char *)p - b->bytes) : 0, (unsigned long)index);
	return true;
}

static bool
set_pointers(Device *d, const Loaded *l, void *encoder, const PlanArg *args, int *index)
{
	bool ok = true;
	for (int i = 0; ok && i < l->artefact->nabi; i++) {
		const AbiParam *p = &l->artefact->abi[i];
		void *at = p->kind == ABI_FAULTS ? l->faults : p->kind == ABI_COUNTER ? l->counter : NULL;
		if (is_pointer(p))
			ok = set_pointer(d, encoder, p->kind == ABI_POINTER ? args[p->param].data : at, (*index)++);
	}
	return ok;
}

/* As C lays out a struct of them, and as the text's has it (compiler/emit/msl/msl.c). */
static void
set_numbers(const Metal *m, const Loaded *l, void *encoder, const PlanArg *args, const int64_t grid[MAX_AXES], int index)
{
	unsigned char bytes[METAL_VALUES] = {0};
	int size = 0, align = 1;
	for (int i = 0; i < l->artefact->nabi; i++) {
		const AbiParam *p = &l->artefact->abi[i];
		if (is_pointer(p))
			continue;
		uint64_t v = abi_value(p, args, grid);
		size = (size + p->bytes - 1) / p->bytes * p->bytes;
		align = MAX(align, p->bytes);
		for (int k = 0; k < p->bytes; k++)
			bytes[size++] = (unsigned char)(v >> 8 * k);
	}
	size = (size + align - 1) / align * align;
	if (size)
		METAL_SEND(m, set_bytes)(encoder, m->set_bytes, bytes, (unsigned long)size, (unsigned long)index);
}

static bool
encode(Device *d, const Loaded *l, void *encoder, const PlanArg *args, const int64_t grid[MAX_AXES])
{
	const Metal *m = &METAL_STATE(d)->metal;
	MetalSize groups = {1, 1, 1}, threads = {(unsigned long)l->artefact->threads, 1, 1};
	METAL_SEND(m, set_pipeline)(encoder, m->set_pipeline, l->pipeline);
	unsigned n = 0;
	int index = 0;
	bool ok = abi_blocks(d, l->artefact, grid, l->artefact->persistent ? METAL_RESIDENT : 0, &n) &&
		  set_pointers(d, l, encoder, args, &index);
	groups.width = n;
	if (ok)
		set_numbers(m, l, encoder, args, grid, index);
	unsigned long shared = ((unsigned long)l->artefact->shared_bytes + 15) & ~15ul;
	if (ok && shared)
		METAL_SEND(m, set_shared)(encoder, m->set_shared, shared, 0);
	if (ok)
		METAL_SEND(m, dispatch)(encoder, m->dispatch, groups, threads);
	METAL_SEND(m, end_encoding)(encoder, m->end_encoding);
	return ok;
}

static bool
run(Device *d, void *buffer)
{
	MetalState *s = METAL_STATE(d);
	const Metal *m = &s->metal;
	METAL_SEND(m, commit)(buffer, m->commit);
	METAL_SEND(m, wait)(buffer, m->wait);
	void *error = METAL_SEND(m, error)(buffer, m->error);
	if (error) {
		device_fail(d, DEVICE_KERNEL, "", "the launch failed: %s", metal_words(m, error));
		return false;
	}
	s->seconds += METAL_SEND(m, gpu_end)(buffer, m->gpu_end) - METAL_SEND(m, gpu_start)(buffer, m->gpu_start);
	return true;
}

/* The first assert that failed is kept until sync. */
static void
keep_fault(MetalState *s, Loaded *l)
{
	const FaultRecord *r = l->faults;
	if (r && r->number && !s->faulted) {
		l->fault = *r;
		s->faulted = l;
	}
}

bool
metal_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	MetalState *s = METAL_STATE(d);
	const Metal *m = &s->metal;
	if (l->faults)
		memset(l->faults, 0, FAULT_BYTES);
	if (l->counter)
		memset(l->counter, 0, FAULT_BYTES);
	void *pool = m->objc_autoreleasePoolPush();
	void *buffer = METAL_SEND(m, command_buffer)(s->queue, m->command_buffer);
	void *encoder = buffer ? METAL_SEND(m, encoder)(buffer, m->encoder) : NULL;
	bool ok = encoder && encode(d, l, encoder, args, grid) && run(d, buffer);
	if (!encoder)
		device_fail(d, DEVICE_FAILED, "", "%s gives no command buffer", s->name);
	m->objc_autoreleasePoolPop(pool);
	if (ok)
		keep_fault(s, l);
	return ok;
}

bool
metal_sync(Device *d, Fault *fault)
{
	MetalState *s = METAL_STATE(d);
	Loaded *l = s->faulted;
	if (!l)
		return true;
	s->faulted = NULL;
	artefact_fault(l->artefact, &l->fault, fault);
	return false;
}
