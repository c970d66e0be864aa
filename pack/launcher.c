/* ---- the launcher: the same text in every pack ----
 *
 * It finds the driver at run time, chooses for each launch the form of the kernel that fits the arguments, checks all that the
 * form takes for granted, and launches. What a kernel is comes as tables, behind this text; the rows of the tables before it
 * are those of the compiler.
 *
 * A context of a pack (TgpContext) has for each CUDA context that it has met the modules loaded there, each loaded when it is
 * first needed. Launches keep plans: which form, the grid, the values of its parameters and the tensor maps, so that a launch
 * with the sizes of an earlier one sets addresses and no more. A plan is used by one thread at a time; a thread that finds none
 * free makes one on its stack.
 *
 * Outside of the context there is only the text of each thread's last failure, no thread and no handler, so that a library with a
 * pack in it can be unloaded; and no lock that a child of fork could find taken: a context of the host has none. */

enum {
	TGP_PLANS = 8,                          /* of each kernel */
	TGP_ROOM = 600,                         /* of an error's text */
	TGP_SHARED_PLAIN = 48 * 1024,
	TGP_SPREAD_CLUSTER = 2, TGP_SPREAD_SHARED = 32 * 1024,  /* blocks of clusters, bytes of a block: launches spread them */
	TGP_SYSTEM_BYTES = 1024, TGP_SHARED_STEP = 128,         /* of each block's shared memory; it is given in such steps */
	TGP_EXTENT_MOST = 0x7fffffff - 0xffff,  /* of a dimension in a tensor map: its coordinates are 32 bits */
	TGP_STREAM_FLAGS = 32,                  /* words of zeros of a persistent kernel's block that shares programs */
	TGP_FAULT_BYTES = 64,
	TGP_GENERAL = 64                        /* what a form that knows nothing of its arguments counts as farther away */
};

#define TGP_SIZE_MOST (INT64_C(1) << 40)

typedef struct TgpCall {
	const void *address[TGP_MOST_PARAMS];
	const int64_t *stride[TGP_MOST_PARAMS];
	int64_t value[TGP_MOST_PARAMS];         /* scalars, for formulas: integers, and the bits of doubles */
	uint64_t bits[TGP_MOST_PARAMS];         /* scalars as the code takes them */
	int64_t dim[TGP_MOST_DIMS];
	unsigned char align[TGP_MOST_PARAMS];   /* of addresses, bytes, 16 at most: tgp_align */
} TgpCall;

#define TGP_NO_CALL {{0}, {0}, {0}, {0}, {0}, {0}}

typedef struct TgpLoaded {
	const TgpForm *form;
	void *module, *function;
	unsigned resident;
	unsigned most_shared;                   /* bytes that a launch may ask for: more than it needs to spread blocks */
	CudaAttribute attribute[2];
	unsigned nattribute;
	CudaPointer faults;
	int is_launched;
} TgpLoaded;

typedef struct TgpDevice {
	struct TgpDevice *next;
	void *context;
	unsigned long long id;
	int capability, target, multiprocessors, max_shared;
	CudaPointer nothing;                    /* 32 bytes: what tensors without elements are mapped to */
	TgpLoaded **loaded;                     /* by number of the form */
	unsigned char *refused;                 /* the same: it cannot be loaded here */
} TgpDevice;

typedef struct TgpPlan {
	int is_taken;                           /* by a thread */
	TgpDevice *device;                      /* NULL: there is none yet */
	TgpLoaded *loaded;
	int64_t dim[TGP_MOST_DIMS], value_of[TGP_MOST_PARAMS];
	int64_t stride[TGP_MOST_PARAMS][TGP_RANK], extent[TGP_MOST_PARAMS][TGP_RANK];
	int64_t low[TGP_MOST_PARAMS], bytes[TGP_MOST_PARAMS]; /* from the address: where it begins, and what it spans */
	unsigned char align[TGP_MOST_PARAMS], given[TGP_MOST_PARAMS];
	unsigned blocks;
	int64_t grid[3];
	int is_empty;
	size_t scratch, zeros;                  /* bytes in all; of them a counter or arrivals, 0 at the start */
	short held[TGP_MOST_PARAMS], nheld;     /* tensors with elements, and pointers: their addresses are tested */
	short live[TGP_MOST_VALUES], nlive;     /* values that each launch sets */
	int fills;
	uint64_t value[TGP_MOST_VALUES];
	void *at[TGP_MOST_VALUES];
	CudaPointer mapped[TGP_MOST_MAPS];      /* the addresses in the maps; 0: not encoded */
	char room[TGP_MOST_MAPS * 128 + 128];
} TgpPlan;

struct TgpContext {
	const TgpPack *pack;
	TgpDriver driver;
	TgpStatus opened;
	char why[TGP_ROOM];
	int starts_early, is_host;
	volatile char *alive;                   /* a page that a child of fork finds zeroed; NULL: compare pid */
	pid_t pid;
	uint64_t number;                        /* of the contexts of this pack */
	pthread_mutex_t lock;
	TgpDevice *devices;
	TgpPlan *plans;                         /* TGP_PLANS of each kernel */
};

/* ---- errors ---- */

static int
tgp_is_forked(const TgpContext *cx)
{
	return !cx->is_host && (cx->alive ? !*cx->alive : cx->pid != getpid());
}

/* This thread's last failure, and the number of the context that it is of. */
static __thread struct {
	uint64_t of;
	char text[TGP_ROOM];
} tgp_last;

static char *
tgp_text(const TgpContext *cx)
{
	if (tgp_last.of != cx->number)
		*tgp_last.text = 0;
	tgp_last.of = cx->number;
	return tgp_last.text;
}

static __attribute__((format(printf, 3, 4))) TgpStatus
tgp_fail(TgpContext *cx, TgpStatus status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(tgp_text(cx), TGP_ROOM, fmt, ap);
	va_end(ap);
	return status;
}

static TgpStatus
tgp_refused(TgpContext *cx, const char *what, const char *call, CudaResult r)
{
	const char *name, *text, *fix = "";
	size_t i;
	if (cx->driver.cuGetErrorName(r, &name) != 0)
		name = "unknown to the driver";
	if (cx->driver.cuGetErrorString(r, &text) != 0)
		text = "no text";
	for (i = 0; i < sizeof tgp_fixes / sizeof *tgp_fixes; i++)
		if (tgp_fixes[i].code == r)
			fix = tgp_fixes[i].fix;
	return tgp_fail(cx, r == 2 ? TGP_ERROR_MEMORY : r == 201 || r == 709 || r == 4 || r == 3 ? TGP_ERROR_CONTEXT : TGP_ERROR_LAUNCH,
	    "%s%s%s failed: %s, result %d (%s)%s%s", what, *what ? ": " : "", call, name, r, text, *fix ? "; " : "", fix);
}

/* A call of the driver; the function ends where it fails. */
#define TGP_DO(what, name, ...) do { \
	CudaResult r_ = cx->driver.name(__VA_ARGS__); \
	if (r_ != 0) \
		return tgp_refused(cx, what, #name, r_); \
} while (0)

static const char *
tgp_error(TgpContext *cx)
{
	if (!cx)
		return "there is no context: the pack was not opened, there was no memory, or it is closed";
	if (tgp_is_forked(cx))
		return "this process was forked after the pack was opened: CUDA does not work in such a child; "
		    "open the pack there, or start a process anew";
	return tgp_last.of == cx->number || !*tgp_last.text ? tgp_last.text : "";
}

/* ---- opening ---- */

static TgpStatus
tgp_find_driver(TgpContext *cx)
{
	size_t i;
	int version = 0;
	const char *pdl = getenv("TEGULA_PDL");
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *p;
	if (!lib)
		return tgp_fail(cx, TGP_ERROR_DRIVER, "there is no NVIDIA driver: %s", dlerror());
	for (i = 0; i < sizeof tgp_rows / sizeof *tgp_rows; i++) {
		p = dlsym(lib, tgp_rows[i].name);
		memcpy((char *)&cx->driver + tgp_rows[i].at, &p, sizeof p);
		if (!p && tgp_rows[i].is_needed)
			return tgp_fail(cx, TGP_ERROR_DRIVER, "the NVIDIA driver is too old: it lacks %s; update it to 525 or later",
			    tgp_rows[i].name);
	}
	TGP_DO("", cuInit, 0);
	TGP_DO("", cuDriverGetVersion, &version);
	cx->starts_early = version >= 12030 && cx->driver.cuLaunchKernelEx && !(pdl && strcmp(pdl, "off") == 0);
	return TGP_OK;
}

static TgpContext *
tgp_make(const TgpPack *pack)
{
	static uint64_t contexts;
	TgpContext *cx = (TgpContext *)calloc(1, sizeof *cx);
	if (!cx || !(cx->plans = (TgpPlan *)calloc((size_t)pack->nkernels, sizeof *cx->plans * TGP_PLANS)))
		return free(cx), (TgpContext *)NULL;
	cx->pack = pack;
	cx->number = __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	pthread_mutex_init(&cx->lock, NULL);
	return cx;
}

/* The driver stays open: it does not support being unloaded. */
static TgpContext *
tgp_open(const TgpPack *pack)
{
	TgpContext *cx = tgp_make(pack);
	void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!cx)
		return munmap(page, 1), (TgpContext *)NULL;
	cx->pid = getpid();
#ifdef MADV_WIPEONFORK
	if (page != MAP_FAILED && madvise(page, 1, MADV_WIPEONFORK) == 0) {
		cx->alive = (volatile char *)page;
		*cx->alive = 1;
	}
#endif
	if (page != MAP_FAILED && !cx->alive)
		munmap(page, 1);
	cx->opened = tgp_find_driver(cx) == TGP_OK ? TGP_OK : tgp_no_gpu(cx);
	if (cx->opened != TGP_OK)
		memcpy(cx->why, tgp_text(cx), sizeof cx->why);
	return cx;
}

/* ---- the CUDA context of the calling thread ---- */

/* The best of the pack's targets that the GPU runs; -1: there is none. Machine code runs on chips of the same major number
 * that are not older; PTX on all that are not older. */
static int
tgp_target(const TgpPack *pack, int capability)
{
	int i, best = -1;
	for (i = 0; i < pack->ntargets; i++) {
		const TgpTarget *t = &pack->target[i];
		int runs = t->one_chip ? t->capability == capability : t->capability <= capability;
		if (runs && (best < 0 || t->capability > pack->target[best].capability))
			best = i;
	}
	return best;
}

static TgpStatus
tgp_read_device(TgpContext *cx, TgpDevice *d)
{
	int ordinal = 0, major = 0, minor = 0, least = 0;
	TGP_DO("", cuCtxGetDevice, &ordinal);
	TGP_DO("", cuDeviceGetAttribute, &major, TGP_DEVICE_ATTRIBUTE_MAJOR, ordinal);
	TGP_DO("", cuDeviceGetAttribute, &minor, TGP_DEVICE_ATTRIBUTE_MINOR, ordinal);
	TGP_DO("", cuDeviceGetAttribute, &d->multiprocessors, TGP_DEVICE_ATTRIBUTE_MULTIPROCESSORS, ordinal);
	TGP_DO("", cuDeviceGetAttribute, &d->max_shared, TGP_DEVICE_ATTRIBUTE_SHARED_OPTIN, ordinal);
	d->capability = 10 * major + minor;
	d->target = tgp_target(cx->pack, d->capability);
	least += least < cx->pack->ntargets && cx->pack->target[least].capability == 0; /* cpu */
	if (d->target < 0)
		return (void)tgp_fail(cx, TGP_ERROR_DRIVER, "the pack %s has no code for a GPU of compute capability %d.%d; "
		    "the least that it has is %s: pack again with a target that fits", cx->pack->name, major, minor,
		    least < cx->pack->ntargets ? cx->pack->target[least].name : "none"), tgp_no_gpu(cx);
	return TGP_OK;
}

static TgpDevice *
tgp_make_device(const TgpPack *pack)
{
	TgpDevice *d = (TgpDevice *)calloc(1, sizeof *d + (size_t)pack->nforms * (sizeof *d->loaded + 1));
	if (d) {
		d->loaded = (TgpLoaded **)(d + 1);
		d->refused = (unsigned char *)(d->loaded + pack->nforms);
	}
	return d;
}

static TgpStatus
tgp_add_device(TgpContext *cx, void *context, unsigned long long id, TgpDevice **out)
{
	TgpDevice *d = tgp_make_device(cx->pack);
	TgpStatus status;
	if (!d)
		return tgp_fail(cx, TGP_ERROR_MEMORY, "no memory");
	d->context = context;
	d->id = id;
	status = tgp_read_device(cx, d);
	if (status != TGP_OK)
		return free(d), status;
	pthread_mutex_lock(&cx->lock);
	for (*out = cx->devices; *out && ((*out)->context != context || (*out)->id != id); *out = (*out)->next)
		;
	if (!*out) {
		d->next = cx->devices;
		__atomic_store_n(&cx->devices, d, __ATOMIC_RELEASE);
		*out = d;
		d = NULL;
	}
	pthread_mutex_unlock(&cx->lock);
	free(d);
	return TGP_OK;
}

static TgpStatus
tgp_enter(TgpContext *cx, const TgpPack *pack, TgpDevice **out)
{
	void *context = NULL;
	unsigned long long id = 0;
	if (!cx)
		return TGP_ERROR_USAGE;
	if (tgp_is_forked(cx))
		return TGP_ERROR_CONTEXT;
	if (cx->pack != pack)
		return tgp_fail(cx, TGP_ERROR_USAGE, "this is a context of the pack %s, and the function is of the pack %s",
		    cx->pack->name, pack->name);
	if (cx->opened != TGP_OK)
		return tgp_fail(cx, cx->opened, "%s", cx->why);
	*out = cx->devices;
	if (cx->is_host)
		return TGP_OK;
	TGP_DO("", cuCtxGetCurrent, &context);
	if (!context)
		return tgp_fail(cx, TGP_ERROR_CONTEXT, "this thread has no CUDA context: call cuCtxSetCurrent, or cudaSetDevice "
		    "(of CUDA 12 or later), first");
	if (cx->driver.cuCtxGetId)
		TGP_DO("the thread's CUDA context", cuCtxGetId, context, &id);
	for (*out = __atomic_load_n(&cx->devices, __ATOMIC_ACQUIRE); *out; *out = (*out)->next)
		if ((*out)->context == context && (*out)->id == id)
			return TGP_OK;
	return tgp_add_device(cx, context, id, out);
}

/* ---- loading ---- */

/* A stream of our own, as others may record theirs or wait for the default one. */
static TgpStatus
tgp_zeroed(TgpContext *cx, size_t bytes, CudaPointer *out)
{
	void *stream = NULL;
	CudaResult r;
	TGP_DO("", cuStreamCreate, &stream, TGP_STREAM_NON_BLOCKING);
	if ((r = cx->driver.cuMemAlloc_v2(out, bytes)) != 0)
		*out = 0;
	else if ((r = cx->driver.cuMemsetD8Async(*out, 0, bytes, stream)) == 0)
		r = cx->driver.cuStreamSynchronize(stream);
	cx->driver.cuStreamDestroy_v2(stream);
	return r == 0 ? TGP_OK : tgp_refused(cx, "memory of a kernel", "cuMemAlloc_v2", r);
}

/* Machine code if the chip takes it; what the driver refuses then is tried as PTX. */
static TgpStatus
tgp_load_module(TgpContext *cx, const TgpDevice *d, TgpLoaded *l)
{
	const TgpForm *f = l->form;
	const TgpTarget *t = &cx->pack->target[f->target];
	char log[400] = "";
	int option[2] = {TGP_JIT_ERROR_LOG, TGP_JIT_ERROR_LOG_SIZE};
	void *value[2] = {log, (void *)(uintptr_t)sizeof log};
	CudaResult r = -1;
	if (f->cubin && (t->one_chip || t->capability / 10 == d->capability / 10))
		r = cx->driver.cuModuleLoadDataEx(&l->module, f->cubin, 0, NULL, NULL);
	if (r != 0 && f->ptx)
		r = cx->driver.cuModuleLoadDataEx(&l->module, f->ptx, 2, option, value);
	if (r == -1)
		return tgp_fail(cx, TGP_ERROR_DRIVER, "%s: there is machine code for %s alone, and the GPU is of compute "
		    "capability %d.%d", f->about, t->name, d->capability / 10, d->capability % 10);
	if (r == 0)
		return TGP_OK;
	log[strcspn(log, "\n")] = 0;
	return tgp_refused(cx, *log ? log : f->about, "cuModuleLoadDataEx", r);
}

static TgpStatus
tgp_check_function(TgpContext *cx, const TgpDevice *d, TgpLoaded *l)
{
	const TgpForm *f = l->form;
	int threads = 0, fixed = 0, registers = 0, blocks = 0, spreads;
	TGP_DO(f->about, cuFuncGetAttribute, &threads, TGP_FUNC_ATTRIBUTE_MAX_THREADS, l->function);
	TGP_DO(f->about, cuFuncGetAttribute, &fixed, TGP_FUNC_ATTRIBUTE_SHARED_STATIC, l->function);
	TGP_DO(f->about, cuFuncGetAttribute, &registers, TGP_FUNC_ATTRIBUTE_REGISTERS, l->function);
	if (f->threads > threads || f->shared + fixed > d->max_shared)
		return tgp_fail(cx, TGP_ERROR_DRIVER, "%s: a block has %d threads and %d bytes of shared memory, and this GPU "
		    "has room for %d and %d", f->about, f->threads, f->shared + fixed, threads, d->max_shared);
	if (f->registers > registers)
		return tgp_fail(cx, TGP_ERROR_DRIVER, "%s: roles share %d registers a thread, and the code has %d: the driver "
		    "dropped setmaxnreg; pack with ptxas", f->about, f->registers, registers);
	spreads = f->shared >= TGP_SPREAD_SHARED && !f->persistent &&
	    (f->cluster == TGP_SPREAD_CLUSTER || (f->cluster <= 1 && f->early && cx->starts_early));
	l->most_shared = (unsigned)(spreads ? d->max_shared - fixed : f->shared);
	if ((int)l->most_shared + fixed > TGP_SHARED_PLAIN)
		TGP_DO(f->about, cuFuncSetAttribute, l->function, TGP_FUNC_ATTRIBUTE_SHARED_DYNAMIC, (int)l->most_shared);
	if (f->persistent)
		TGP_DO(f->about, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, l->function, f->threads,
		    (size_t)f->shared);
	l->resident = f->persistent ? (unsigned)((blocks > 0 ? blocks : 1) * d->multiprocessors) : 0;
	return TGP_OK;
}

static void
tgp_set_attributes(const TgpContext *cx, TgpLoaded *l)
{
	CudaAttribute *a = l->attribute;
	if (l->form->cluster > 1) {
		a->id = TGP_LAUNCH_ATTRIBUTE_CLUSTER;
		a->value.cluster.x = (unsigned)l->form->cluster;
		a->value.cluster.y = a->value.cluster.z = 1;
		a++;
	}
	if (l->form->early && cx->starts_early) {
		a->id = TGP_LAUNCH_ATTRIBUTE_PROGRAMMATIC;
		a->value.programmatic = 1;
		a++;
	}
	l->nattribute = (unsigned)(a - l->attribute);
}

static int
tgp_has(const TgpForm *f, int kind)
{
	int i;
	for (i = 0; i < f->nabi; i++)
		if (f->abi[i].kind == kind)
			return 1;
	return 0;
}

static TgpStatus
tgp_fill_loaded(TgpContext *cx, TgpDevice *d, TgpLoaded *l)
{
	const TgpForm *f = l->form;
	const TgpDriver *c = &cx->driver;
	TgpStatus status;
	if ((f->cluster > 1 && !c->cuLaunchKernelEx) ||
	    (f->nmaps && !(c->cuTensorMapEncodeTiled && c->cuTensorMapEncodeIm2col && c->cuTensorMapReplaceAddress)))
		return tgp_fail(cx, TGP_ERROR_DRIVER, "the driver does not know %s: update it to one for CUDA 12 or later",
		    f->nmaps ? "tensor maps" : "clusters of blocks");
	if ((status = tgp_load_module(cx, d, l)) != TGP_OK)
		return status;
	TGP_DO(f->about, cuModuleGetFunction, &l->function, l->module, f->entry);
	if (tgp_has(f, TGP_FAULTS) && (status = tgp_zeroed(cx, TGP_FAULT_BYTES, &l->faults)) != TGP_OK)
		return status;
	if (f->nmaps && !d->nothing && (status = tgp_zeroed(cx, 32, &d->nothing)) != TGP_OK)
		return status;
	tgp_set_attributes(cx, l);
	return tgp_check_function(cx, d, l);
}

static void
tgp_unload(TgpContext *cx, TgpLoaded *l)
{
	if (l->faults)
		cx->driver.cuMemFree_v2(l->faults);
	if (l->module)
		cx->driver.cuModuleUnload(l->module);
}

/* With the lock. Someone may record a stream: what this thread does meanwhile is none of it. */
static TgpStatus
tgp_load_now(TgpContext *cx, TgpDevice *d, const TgpForm *f, TgpLoaded **out)
{
	int mode = TGP_CAPTURE_RELAXED;
	TgpStatus status;
	TgpLoaded *l = (TgpLoaded *)calloc(1, sizeof *l);
	if (!l)
		return tgp_fail(cx, TGP_ERROR_MEMORY, "no memory");
	l->form = f;
	cx->driver.cuThreadExchangeStreamCaptureMode(&mode);
	status = tgp_fill_loaded(cx, d, l);
	if (status != TGP_OK)
		tgp_unload(cx, l), free(l), l = NULL;
	cx->driver.cuThreadExchangeStreamCaptureMode(&mode);
	*out = l;
	return status;
}

/* What is for the host is there from the start (tgp_open_host): no lock. */
static TgpStatus
tgp_load(TgpContext *cx, TgpDevice *d, const TgpKernel *k, const TgpForm *f, TgpLoaded **out)
{
	TgpLoaded **at = &d->loaded[k->first + (f - k->form)];
	TgpStatus status = TGP_OK;
	*out = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	if (*out)
		return TGP_OK;
	pthread_mutex_lock(&cx->lock);
	*out = *at;
	if (!*out && (status = tgp_load_now(cx, d, f, out)) == TGP_OK)
		__atomic_store_n(at, *out, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&cx->lock);
	return status;
}

/* Leaves a form out from now on; false: it is the last one for its target, whose error is the launch's. */
static int
tgp_refuse(const TgpKernel *k, TgpDevice *d, const TgpForm *f)
{
	int i, left = 0;
	for (i = 0; i < k->nforms; i++)
		left += k->form[i].target == d->target && !d->refused[k->first + i];
	if (left > 1)
		__atomic_store_n(&d->refused[k->first + (f - k->form)], 1, __ATOMIC_RELAXED);
	return left > 1;
}

static TgpStatus
tgp_load_all(TgpContext *cx, const TgpPack *pack)
{
	TgpDevice *d;
	TgpLoaded *l;
	int i, j;
	TgpStatus status = tgp_enter(cx, pack, &d);
	for (i = 0; i < pack->nkernels && status == TGP_OK; i++)
		for (j = 0; j < pack->kernel[i].nforms && status == TGP_OK; j++) {
			const TgpKernel *k = &pack->kernel[i];
			const TgpForm *f = &k->form[j];
			if (f->target == d->target && !d->refused[k->first + j])
				status = tgp_load(cx, d, k, f, &l);
			if (status == TGP_ERROR_DRIVER && tgp_refuse(k, d, f))
				status = TGP_OK;
		}
	return status;
}

/* Code goes with its CUDA context. In that of the calling thread it goes now; a handle of another one may be stale, and the
 * driver does not test such handles. */
static void
tgp_close_device(TgpContext *cx, TgpDevice *d)
{
	void *current = NULL;
	unsigned long long id = d->id;
	int i, is_ours = !cx->is_host && cx->driver.cuCtxGetCurrent(&current) == 0 && current == d->context;
	if (is_ours && cx->driver.cuCtxGetId)
		is_ours = cx->driver.cuCtxGetId(current, &id) == 0 && id == d->id;
	if (is_ours)
		cx->driver.cuCtxSynchronize();
	for (i = 0; i < cx->pack->nforms; free(d->loaded[i++]))
		if (d->loaded[i] && is_ours)
			tgp_unload(cx, d->loaded[i]);
	if (is_ours && d->nothing)
		cx->driver.cuMemFree_v2(d->nothing);
}

static void
tgp_close(TgpContext **at)
{
	TgpContext *cx = at ? *at : NULL;
	TgpDevice *d;
	int forked;
	if (!cx)
		return;
	forked = tgp_is_forked(cx);
	for (; (d = cx->devices); free(d)) {
		cx->devices = d->next;
		if (!forked)
			tgp_close_device(cx, d);
	}
	if (cx->alive)
		munmap((void *)(uintptr_t)cx->alive, 1);
	free(cx->plans);
	free(cx);
	*at = NULL;
}

/* ---- arithmetic of headers: *bad where a number is beyond 64 bits or a divisor is 0 ---- */

#define TGP_ARITHMETIC static inline __attribute__((unused))

#define TGP_OPERATION(name, builtin) \
	TGP_ARITHMETIC int64_t name(int *bad, int64_t a, int64_t b) { int64_t r; *bad |= builtin(a, b, &r); return r; }
TGP_OPERATION(tgp_add, __builtin_add_overflow)
TGP_OPERATION(tgp_sub, __builtin_sub_overflow)
TGP_OPERATION(tgp_mul, __builtin_mul_overflow)
/* What n elements of dimension d take in a contiguous tensor: a row of packed ones starts on a byte. */
#define TGP_TAKEN(q, d, n) ((n) + ((q)->bits < 8 && (d) == (q)->rank - 1 ? (n) & 1 : 0))

#define TGP_QUOTIENT(name, value) \
	TGP_ARITHMETIC int64_t name(int *bad, int64_t a, int64_t b) \
	{ int no = b == 0 || (a == INT64_MIN && b == -1); return *bad |= no, no ? 0 : (value); }
TGP_QUOTIENT(tgp_div, a / b)
TGP_QUOTIENT(tgp_rem, a % b)
TGP_QUOTIENT(tgp_cdiv, a / b + (a % b != 0 && (a < 0) == (b < 0)))
TGP_QUOTIENT(tgp_floordiv, a / b - (a % b != 0 && (a < 0) != (b < 0)))

TGP_ARITHMETIC double tgp_double(int64_t bits) { double d; return memcpy(&d, &bits, sizeof d), d; }
TGP_ARITHMETIC int64_t tgp_min(int *bad, int64_t a, int64_t b) { return (void)bad, a < b ? a : b; }
TGP_ARITHMETIC int64_t tgp_max(int *bad, int64_t a, int64_t b) { return (void)bad, a > b ? a : b; }

TGP_ARITHMETIC int64_t
tgp_pow2ceil(int *bad, int64_t a)
{
	int64_t p = 1;
	for (; p < a && p <= INT64_MAX / 2; p *= 2)
		;
	return *bad |= p < a, p;
}

/* ---- choosing a form ---- */

static int tgp_log2(int64_t v) { return v > 1 ? 64 - __builtin_clzll((unsigned long long)v - 1) : 0; }

/* How far the sizes of a launch are from those that a form was made for: powers of two, over all dimensions. */
static int
tgp_distance(const TgpKernel *k, const TgpForm *f, const int64_t *dim)
{
	int i, far = f->farther;
	for (i = 0; i < k->ndims; i++) {
		int by = tgp_log2(dim[i]) - tgp_log2(f->size[i]);
		far += 4 * (by < 0 ? -by : by);
	}
	return far;
}

/* Whether a tensor is contiguous; or, unless `apart` is TGP_DENSE, has contiguous rows at multiples of so many elements. */
static int
tgp_is_rows(const TgpParam *q, const TgpPlan *p, const TgpShape *o, int i, int apart)
{
	int64_t n = 1, s, d, same = 1, empty = 0;
	for (d = q->rank - 1; d >= 0; d--) {
		s = p->given[i] ? p->stride[i][d] : n;
		same &= o->extent[i][d] == 1 || (apart == TGP_DENSE || d == q->rank - 1 ? s == n : s >= 0 && s % apart == 0);
		empty |= o->extent[i][d] == 0;
		n *= o->extent[i][d] > 0 ? TGP_TAKEN(q, d, o->extent[i][d]) : 1;
	}
	return same || empty;
}

static int
tgp_takes(const TgpKernel *k, const TgpForm *f, const TgpPlan *p)
{
	int i;
	for (i = 0; i < k->ndims; i++)
		if (f->assumed[i] < 0 ? p->dim[i] != -f->assumed[i] : p->dim[i] % f->assumed[i] != 0)
			return 0;
	for (i = 0; i < k->nparams; i++)
		if (p->align[i] < f->align[i])
			return 0;
	return 1;
}

/* The extent of a map's dimension, which may be several of the tensor's. */
static int64_t
tgp_mapped(const TgpMap *m, int i, const int64_t *extent)
{
	int64_t n = extent[m->dim[i]];
	int j, bad = 0;
	for (j = 1; j <= m->merged[i]; j++)
		n = tgp_mul(&bad, n, extent[m->dim[i] - j]);
	return bad ? INT64_MAX : n;
}

static int64_t
tgp_sum(const TgpKernel *k, const TgpSum *s, const TgpPlan *p, const int64_t (*extent)[TGP_RANK])
{
	int64_t sum = s->number, v;
	int i, bad = 0;
	for (i = 0; i < s->n; i++) {
		int q = s->term[i].param;
		v = s->term[i].dim >= 0 ? extent[q][s->term[i].dim] : q < k->nparams ? p->value_of[q] : p->dim[q - k->nparams];
		sum = tgp_add(&bad, sum, tgp_mul(&bad, v, s->term[i].factor));
	}
	return bad ? INT64_MAX : sum;
}

/* Corners have 16 bits along one dimension of windows, 8 along each of two. 0: they are further away, or offsets greater. */
static int
tgp_corners(const TgpKernel *k, const TgpMap *m, const TgpPlan *p, const int64_t (*extent)[TGP_RANK], int *lower, int *upper)
{
	int64_t most = m->windows == 1 ? INT16_MAX : INT8_MAX, low, high, n;
	int i;
	for (i = 0; i < m->windows; i++) {
		low = tgp_sum(k, &m->window[i].lower, p, extent);
		n = tgp_sum(k, &m->window[i].count, p, extent);
		if (low < -most - 1 || low > most || n > TGP_SIZE_MOST || tgp_sum(k, &m->window[i].reach, p, extent) > 2 * most + 1)
			return 0;
		high = low + (n > 1 ? n - 1 : 0) * m->window[i].step + 1 - extent[m->param][m->dim[1 + i]];
		if (high < -most - 1 || high > most || extent[m->param][m->dim[1 + i]] <= 0)
			return 0;
		lower[i] = (int)low;
		upper[i] = (int)high;
	}
	return 1;
}

/* An i32 axis, blocks that one launch takes, and maps that the driver encodes. Strides are looked at once they are known. */
static int
tgp_fits(const TgpKernel *k, const TgpForm *f, const TgpPlan *p, const TgpShape *o)
{
	int64_t n = 1;
	int i, j, is_long = 0, beyond = 0, is_empty = 0, lower[TGP_WINDOWS], upper[TGP_WINDOWS];
	for (i = 0; i < f->nmaps; i++) {
		for (j = 0; j < f->map[i].rank; j++)
			if (tgp_mapped(&f->map[i], j, o->extent[f->map[i].param]) > TGP_EXTENT_MOST)
				return 0;
		if (!tgp_corners(k, &f->map[i], p, o->extent, lower, upper))
			return 0;
	}
	for (i = 0; i < k->naxis; i++) {
		is_long |= o->grid[i] > INT32_MAX;
		is_empty |= o->grid[i] <= 0;
		n = tgp_mul(&beyond, n, o->grid[i]);
	}
	return is_empty || (!is_long && (f->persistent || (!beyond && n <= INT32_MAX / f->split)));
}

#define TGP_PUT(before, name, value) do { \
	if (at < sizeof sizes) \
		at += (size_t)snprintf(sizes + at, sizeof sizes - at, "%s%s = %lld", before, name, (long long)(value)); \
} while (0)

static TgpStatus
tgp_no_form(TgpContext *cx, const TgpKernel *k, const TgpPlan *p, int header, const TgpForm *near, const TgpShape *want)
{
	char sizes[300] = "";
	size_t at = 0;
	int i, n = 0;
	for (i = 0; i < k->ndims; i++)
		TGP_PUT(i ? ", " : "", k->dim[i], p->dim[i]);
	if (header > 0)
		return tgp_fail(cx, TGP_ERROR_USAGE, "%s: it asks for `%s`, which is false for %s", k->name, k->where[header - 1],
		    sizes);
	if (header == INT_MIN)
		return tgp_fail(cx, TGP_ERROR_SIZE, "%s: %s make a grid, or a tensor, of more than 2^31 - 1, which no launch takes",
		    k->name, sizes);
	if (header < 0)
		return tgp_fail(cx, TGP_ERROR_USAGE, "%s: its header has no value for %s: a number beyond 64 bits, a division "
		    "by 0, or an extent below 0", k->name, sizes);
	for (i = 0; near && i < k->nct; i++)
		if (near->derived[i])
			TGP_PUT(n++ ? ", " : ", which makes ", k->ct[i], want->ct[i]);
	return tgp_fail(cx, TGP_ERROR_SIZE, "%s: the pack has no code for %s on %s; pack again with these sizes (--sizes)", k->name,
	    sizes, cx->pack->target[p->device->target].name);
}

/* Of the forms that are right for the arguments the one made for the nearest sizes, the first of equal ones. */
static TgpStatus
tgp_choose(TgpContext *cx, const TgpKernel *k, const TgpPlan *p, const TgpForm **out, TgpShape *shape)
{
	TgpShape o, missed;
	const TgpForm *near = NULL;
	const TgpDevice *d = p->device;
	int i, j, best = INT_MAX, header = 0;
	memset(&o, 0, sizeof o);
	memset(&missed, 0, sizeof missed);
	*out = NULL;
	for (i = 0; i < k->nforms; i++) {
		const TgpForm *f = &k->form[i];
		int far, is_other = 0, r;
		if (f->target != d->target || !tgp_takes(k, f, p) || (far = tgp_distance(k, f, p->dim)) >= best)
			continue;
		r = k->header(p->dim, p->value_of, f->ct, &o);
		header = r ? r : header;
		for (j = 0; !r && j < k->nct; j++)
			is_other |= f->derived[j] && o.ct[j] != f->ct[j];
		for (j = 0; !r && !is_other && j < k->nparams; j++)
			r = f->rows[j] && !tgp_is_rows(&k->param[j], p, &o, j, f->rows[j]);
		if (is_other)
			near = f, missed = o;
		if (r || is_other || d->refused[k->first + i])
			continue;
		if (tgp_fits(k, f, p, &o))
			best = far, *out = f, *shape = o;
		else
			header = INT_MIN;
	}
	return *out ? TGP_OK : tgp_no_form(cx, k, p, header, near, &missed);
}

/* ---- plans ---- */

/* n / d is (n + (n m >> 32)) >> s: m | s << 32. */
static uint64_t
tgp_inverse(int64_t programs)
{
	uint64_t d = programs > 1 ? (uint64_t)programs : 1, s = (uint64_t)tgp_log2((int64_t)d);
	s = s < 31 ? s : 31;
	return ((((UINT64_C(1) << s) - d) << 32) / d + 1) | s << 32;
}

/* Where a tensor lies from its address: the lowest byte, how many.  Strides that no element uses: 0, as masked copies align. */
static TgpStatus
tgp_span(TgpContext *cx, const TgpKernel *k, int i, TgpPlan *p)
{
	const TgpParam *q = &k->param[i];
	int64_t n = 1, high = 0, low = 0, *end;
	int d, bad = 0;
	for (d = q->rank - 1; d >= 0; d--) {
		int64_t extent = p->extent[i][d], stride = p->given[i] ? p->stride[i][d] : n;
		p->stride[i][d] = p->given[i] && extent <= 1 && (d < q->rank - 1 || stride != 1) ? 0 : stride;
		n = tgp_mul(&bad, n, TGP_TAKEN(q, d, extent));
		if (stride > TGP_SIZE_MOST || stride < -TGP_SIZE_MOST)
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: the stride of dimension %d of %s is %lld", k->name, d, q->name,
			    (long long)stride);
		end = stride > 0 ? &high : &low;
		*end = tgp_add(&bad, *end, tgp_mul(&bad, extent > 0 ? extent - 1 : 0, stride));
	}
	for (d = 0; d < q->rank && n && q->what & TGP_OUT; d++)
		if (p->given[i] && p->extent[i][d] > 1 && p->stride[i][d] == 0)
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s is written, and its stride of dimension %d is 0", k->name,
			    q->name, d);
	high = tgp_mul(&bad, tgp_add(&bad, high, 1), q->bits);
	low = tgp_mul(&bad, low, q->bits);
	p->low[i] = n ? low / 8 : 0;
	p->bytes[i] = n ? (high + 7) / 8 - p->low[i] : 0;
	return bad ? tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s has more bytes than 64 bits count", k->name, q->name) : TGP_OK;
}

static void
tgp_plan_grid(const TgpKernel *k, const TgpShape *o, TgpPlan *p)
{
	int64_t n = 1;
	int i;
	p->is_empty = 0;
	for (i = 0; i < 3; i++) {
		p->grid[i] = i < k->naxis ? o->grid[i] : 1;
		p->is_empty |= p->grid[i] <= 0;
	}
	for (i = 0; i < k->naxis && !p->is_empty; i++) {
		int64_t ranks = p->loaded->form->ranks[i];
		n = __builtin_mul_overflow(n, (o->grid[i] + ranks - 1) / ranks * ranks, &n) ? INT64_MAX : n;
	}
	n = n < INT64_MAX ? (n + p->loaded->form->share - 1) / p->loaded->form->share : n;
	p->blocks = p->loaded->resident && n > p->loaded->resident / p->loaded->form->split
	    ? p->loaded->resident : (unsigned)n * (unsigned)p->loaded->form->split;
	p->zeros = tgp_has(p->loaded->form, TGP_COUNTER) || tgp_has(p->loaded->form, TGP_ARRIVALS)
	    ? ((p->loaded->resident ? (size_t)p->blocks * TGP_STREAM_FLAGS : (size_t)n) * 4 + 255) / 256 * 256 : 0;
	p->scratch += p->zeros + (size_t)p->blocks * (size_t)p->loaded->form->part;
}

#define TGP_MAP_AT(p, i) ((char *)(((uintptr_t)(p)->room + 127) / 128 * 128) + 128 * (i))

static void
tgp_plan_values(const TgpKernel *k, const TgpShape *o, TgpPlan *p)
{
	const TgpForm *f = p->loaded->form;
	int i;
	p->nlive = 0;
	for (i = 0; i < f->nabi; i++) {
		const TgpAbi *a = &f->abi[i];
		p->at[i] = &p->value[i];
		switch (a->kind) {
		case TGP_STRIDE: p->value[i] = (uint64_t)p->stride[a->param][a->dim]; break;
		case TGP_EXTENT: p->value[i] = (uint64_t)p->extent[a->param][a->dim]; break;
		case TGP_DIM: p->value[i] = (uint64_t)p->dim[a->param - k->nparams]; break;
		case TGP_GRID: p->value[i] = (uint64_t)o->grid[a->dim]; break;
		case TGP_INVERSE: p->value[i] = tgp_inverse(o->grid[a->dim]); break;
		case TGP_FAULTS: p->value[i] = p->loaded->faults; break;
		case TGP_TENSOR_MAP: p->at[i] = TGP_MAP_AT(p, a->dim); break;
		default: p->live[p->nlive++] = (short)i;
		}
	}
	for (i = 0; i < f->nmaps; i++)
		p->mapped[i] = 0;
}

static TgpStatus
tgp_plan_sizes(TgpContext *cx, const TgpKernel *k, const TgpCall *call, TgpPlan *p)
{
	int i, d;
	memcpy(p->align, call->align, sizeof p->align);
	memcpy(p->dim, call->dim, sizeof p->dim);
	memcpy(p->value_of, call->value, sizeof p->value_of);
	for (i = 0; i < k->ndims; i++)
		if (p->dim[i] < 0 || p->dim[i] > TGP_SIZE_MOST)
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s is %lld; sizes are from 0 to 2^40", k->name, k->dim[i],
			    (long long)p->dim[i]);
	for (i = 0; i < k->nparams; i++) {
		p->given[i] = call->stride[i] != NULL;
		for (d = 0; p->given[i] && d < k->param[i].rank; d++)
			p->stride[i][d] = call->stride[i][d];
	}
	return TGP_OK;
}

static TgpStatus
tgp_plan(TgpContext *cx, TgpDevice *d, const TgpKernel *k, const TgpCall *call, TgpPlan *p)
{
	const TgpForm *f = NULL;
	TgpShape o;
	TgpStatus status = tgp_plan_sizes(cx, k, call, p);
	int i;
	p->device = d;
	p->loaded = NULL;
	while (status == TGP_OK && !p->loaded) {
		status = tgp_choose(cx, k, p, &f, &o);
		if (status == TGP_OK)
			status = tgp_load(cx, d, k, f, &p->loaded);
		if (status == TGP_ERROR_DRIVER && f && tgp_refuse(k, d, f))
			status = TGP_OK;                /* code that this GPU has no room for: another form is right as well */
	}
	if (status == TGP_OK)
		memcpy(p->extent, o.extent, sizeof p->extent);
	p->scratch = 0;
	p->fills = p->nheld = 0;
	for (i = 0; i < k->nparams && status == TGP_OK; i++) {
		p->given[i] = p->given[i] && !tgp_is_rows(&k->param[i], p, &o, i, TGP_DENSE);
		p->low[i] = p->bytes[i] = 0;
		if (k->param[i].what & (TGP_ADDRESS | TGP_VALUE))
			continue;
		status = tgp_span(cx, k, i, p);
		p->fills |= k->param[i].fill_bytes;
		if (k->param[i].what & TGP_SCRATCH)
			p->scratch += ((size_t)p->bytes[i] + 255) / 256 * 256;
		else if (p->bytes[i])
			p->held[p->nheld++] = (short)i;
	}
	if (status != TGP_OK)
		return p->device = NULL, status;
	tgp_plan_grid(k, &o, p);
	tgp_plan_values(k, &o, p);
	for (i = 0; i < k->nparams && !p->is_empty; i++)
		if (k->param[i].what & TGP_ADDRESS)
			p->held[p->nheld++] = (short)i;
	return TGP_OK;
}

/* ---- a launch ---- */

static TgpStatus
tgp_check_addresses(TgpContext *cx, const TgpKernel *k, const TgpCall *call, const TgpPlan *p)
{
	int m, n;
	for (m = 0; m < p->nheld; m++) {
		int i = p->held[m];
		const TgpParam *q = &k->param[i];
		uintptr_t a = (uintptr_t)call->address[i] + (uintptr_t)p->low[i];
		if (!call->address[i])
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s is NULL, and it is read or written", k->name, q->name);
		for (n = 0; n < p->nheld && q->what & TGP_OUT; n++) {
			int j = p->held[n];
			uintptr_t b = (uintptr_t)call->address[j] + (uintptr_t)p->low[j];
			if (j == i || !p->bytes[j] || a + (uintptr_t)p->bytes[i] <= b || b + (uintptr_t)p->bytes[j] <= a)
				continue;
			if (p->given[i] && p->given[j] && a != b)
				continue;               /* rows of each other's gaps: the caller's to know */
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s is written, and overlaps %s", k->name, q->name,
			    k->param[j].name);
		}
	}
	return TGP_OK;
}

static CudaResult
tgp_fill(const TgpDriver *c, CudaPointer to, const TgpParam *q, int64_t bytes, void *stream)
{
	size_t n = (size_t)(bytes / q->fill_bytes);
	unsigned low = (unsigned)q->fill, high = (unsigned)(q->fill >> 32);
	CudaResult r;
	if (q->fill_bytes == 1)
		return c->cuMemsetD8Async(to, (unsigned char)low, n, stream);
	if (q->fill_bytes == 2)
		return c->cuMemsetD16Async(to, (unsigned short)low, n, stream);
	if (q->fill_bytes == 4 || low == high)
		return c->cuMemsetD32Async(to, low, (size_t)bytes / 4, stream);
	r = c->cuMemsetD2D32Async(to, 8, low, 1, n, stream);
	return r == 0 ? c->cuMemsetD2D32Async(to + 4, 8, high, 1, n, stream) : r;
}

static TgpStatus
tgp_fill_all(TgpContext *cx, const TgpKernel *k, const TgpCall *call, const TgpPlan *p, void *stream)
{
	int i;
	CudaResult r;
	for (i = 0; i < k->nparams; i++) {
		const TgpParam *q = &k->param[i];
		if (!q->fill_bytes || p->bytes[i] == 0)
			continue;
		if (p->given[i])
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: %s begins as one value throughout, which takes a contiguous tensor",
			    k->name, q->name);
		if ((r = tgp_fill(&cx->driver, (uintptr_t)call->address[i], q, p->bytes[i], stream)) != 0)
			return tgp_refused(cx, q->name, "cuMemsetD32Async", r);
	}
	return TGP_OK;
}

/* Of a block.  Where a multiprocessor has room for more blocks than an even share, clusters and blocks that start early are
 * placed unevenly: so as many as an even share is get all of it. */
static unsigned
tgp_shared(const TgpPlan *p)
{
	unsigned need = (unsigned)p->loaded->form->shared, most = p->loaded->most_shared, n = (unsigned)p->device->multiprocessors;
	unsigned each = n ? (p->blocks + n - 1) / n : 1;
	unsigned least = (most + TGP_SYSTEM_BYTES) / (each + 1) / TGP_SHARED_STEP * TGP_SHARED_STEP + TGP_SHARED_STEP;
	if (most <= need || least <= need + TGP_SYSTEM_BYTES)
		return need;
	return least - TGP_SYSTEM_BYTES < most ? least - TGP_SYSTEM_BYTES : most;
}

static TgpStatus
tgp_encode(TgpContext *cx, const TgpKernel *k, const TgpMap *m, uintptr_t address, const TgpPlan *p, char *to)
{
	static const int bits[9] = {0, TGP_MAP_UINT8, TGP_MAP_UINT16, 0, TGP_MAP_UINT32, 0, 0, 0, TGP_MAP_UINT64};
	uint64_t extent[TGP_RANK], stride[TGP_RANK];
	unsigned box[TGP_RANK], step[TGP_RANK];
	int i, is_empty = p->bytes[m->param] == 0, lower[TGP_WINDOWS] = {0}, upper[TGP_WINDOWS] = {0};
	int swizzle = m->swizzle ? tgp_log2(m->swizzle / 16) : 0;
	int type = m->is_added ? TGP_MAP_FLOAT32 : bits[m->elem_bytes];
	for (i = 0; i < m->rank; i++) {
		int64_t n = tgp_mapped(m, i, p->extent[m->param]), s = p->stride[m->param][m->dim[i]] * m->elem_bytes;
		extent[i] = is_empty ? 1 : (uint64_t)n;
		box[i] = (unsigned)m->box[i];
		step[i] = 1;
		if (i > 0)
			stride[i - 1] = is_empty || n <= 1 ? 16 : (uint64_t)s;
	}
	if (is_empty)
		address = (uintptr_t)p->device->nothing + (m->is_stored ? 16 : 0);
	else
		tgp_corners(k, m, p, p->extent, lower, upper);
	for (i = 0; i < m->windows; i++)
		step[1 + i] = (unsigned)m->window[i].step;
	if (m->windows)
		TGP_DO(k->param[m->param].name, cuTensorMapEncodeIm2col, to, type, (unsigned)m->rank, (void *)address,
		    extent, stride, lower, upper, box[0], box[1], step, 0, swizzle, TGP_MAP_PROMOTION_128, 0);
	else
		TGP_DO(k->param[m->param].name, cuTensorMapEncodeTiled, to, type, (unsigned)m->rank, (void *)address,
		    extent, stride, box, step, 0, swizzle, TGP_MAP_PROMOTION_128, 0);
	return TGP_OK;
}

static TgpStatus
tgp_set_maps(TgpContext *cx, const TgpKernel *k, const TgpCall *call, TgpPlan *p)
{
	const TgpForm *f = p->loaded->form;
	TgpStatus status = TGP_OK;
	int i;
	for (i = 0; i < f->nmaps && status == TGP_OK; i++) {
		int param = f->map[i].param, is_empty = p->bytes[param] == 0;
		uintptr_t address = (uintptr_t)call->address[param];
		if (p->mapped[i] && (is_empty || p->mapped[i] == address))
			continue;
		if (p->mapped[i])
			TGP_DO(k->param[param].name, cuTensorMapReplaceAddress, TGP_MAP_AT(p, i), (void *)address);
		else
			status = tgp_encode(cx, k, &f->map[i], address, p, TGP_MAP_AT(p, i));
		p->mapped[i] = status == TGP_OK ? is_empty ? 1 : address : 0;
	}
	return status;
}

static TgpStatus
tgp_run(TgpContext *cx, const TgpKernel *k, const TgpCall *call, CudaPointer counter, TgpPlan *p, void *stream)
{
	TgpLoaded *l = p->loaded;
	const TgpForm *f = l->form;
	TgpStatus status = p->fills ? tgp_fill_all(cx, k, call, p, stream) : TGP_OK;
	int i;
	if (status != TGP_OK || p->is_empty)
		return status;
	for (i = 0; i < p->nlive; i++) {
		const TgpAbi *a = &f->abi[p->live[i]];
		p->value[p->live[i]] = a->kind == TGP_POINTER ? (uintptr_t)call->address[a->param] :
		    a->kind == TGP_SCALAR ? call->bits[a->param] : a->kind == TGP_PARTS ? counter + p->zeros : counter;
	}
	if (f->nmaps && (status = tgp_set_maps(cx, k, call, p)) != TGP_OK)
		return status;
	if (l->faults)
		__atomic_store_n(&l->is_launched, 1, __ATOMIC_RELEASE);
	if (l->nattribute) {
		CudaLaunch launch = {p->blocks, 1, 1, (unsigned)f->threads, 1, 1, tgp_shared(p), stream, l->attribute,
			l->nattribute};
		TGP_DO(f->about, cuLaunchKernelEx, &launch, l->function, p->at, NULL);
	} else {
		TGP_DO(f->about, cuLaunchKernel, l->function, p->blocks, 1, 1, (unsigned)f->threads, 1, 1, (unsigned)f->shared,
		    stream, p->at, NULL);
	}
	return TGP_OK;
}

/* Memory to work in is taken and given back in order of the stream: no launch waits, none shares, and graphs hold both. */
static TgpStatus
tgp_run_scratch(TgpContext *cx, const TgpKernel *k, const TgpCall *call, TgpPlan *p, void *stream)
{
	const TgpDriver *c = &cx->driver;
	TgpCall own = *call;
	CudaPointer all = 0, next;
	TgpStatus status;
	CudaResult r;
	int i;
	TGP_DO(k->name, cuMemAllocAsync, &all, p->scratch, stream);
	for (i = 0, next = all; i < k->nparams; i++) {
		own.address[i] = k->param[i].what & TGP_SCRATCH ? (const void *)(uintptr_t)next : own.address[i];
		next += k->param[i].what & TGP_SCRATCH ? ((size_t)p->bytes[i] + 255) / 256 * 256 : 0;
	}
	r = p->zeros ? c->cuMemsetD8Async(next, 0, p->zeros, stream) : 0;
	status = r == 0 ? tgp_run(cx, k, &own, next, p, stream) : tgp_refused(cx, k->name, "cuMemsetD8Async", r);
	TGP_DO(k->name, cuMemFreeAsync, all, stream);
	return status;
}

/* Whether a plan is of a launch like this one. */
static int
tgp_same(const TgpKernel *k, const TgpDevice *d, const TgpCall *call, const TgpPlan *p)
{
	int i, j, other = p->device != d;
	for (i = 0; i < k->ndims && !other; i++)
		other = p->dim[i] != call->dim[i];
	for (i = 0; i < k->nparams && !other; i++) {
		other = p->align[i] != call->align[i] || (k->reads_values && p->value_of[i] != call->value[i]);
		if (!(k->param[i].what & TGP_STRIDED) || p->bytes[i] == 0)
			continue;
		other |= !call->stride[i] && p->given[i];
		for (j = 0; call->stride[i] && j < k->param[i].rank; j++)
			other |= p->extent[i][j] != 1 && call->stride[i][j] != p->stride[i][j];
	}
	return !other;
}

static TgpStatus
tgp_align(TgpContext *cx, const TgpKernel *k, TgpCall *call)
{
	int i;
	for (i = 0; i < k->nparams; i++) {
		uintptr_t a = (uintptr_t)call->address[i] | 16;
		call->align[i] = (unsigned char)(a & (~a + 1));
		if (!(k->param[i].what & TGP_VALUE) && call->align[i] * 8 < k->param[i].bits)
			return tgp_fail(cx, TGP_ERROR_USAGE, "%s: the address of %s is %p, and its elements are of %d bytes", k->name,
			    k->param[i].name, call->address[i], k->param[i].bits / 8);
	}
	return TGP_OK;
}

static TgpStatus
tgp_launch_plan(TgpContext *cx, TgpDevice *d, const TgpKernel *k, const TgpCall *call, int same, TgpPlan *p, void *stream)
{
	TgpStatus status = same ? TGP_OK : tgp_plan(cx, d, k, call, p);
	if (status == TGP_OK)
		status = tgp_check_addresses(cx, k, call, p);
	if (status != TGP_OK)
		return status;
	if (cx->is_host)
		return tgp_run_host(cx, k, call, p);
	return p->scratch ? tgp_run_scratch(cx, k, call, p, stream) : tgp_run(cx, k, call, 0, p, stream);
}

/* All plans are in use: one for this launch alone. */
static __attribute__((noinline)) TgpStatus
tgp_launch_apart(TgpContext *cx, TgpDevice *d, const TgpKernel *k, const TgpCall *call, void *stream)
{
	TgpPlan p;
	return tgp_launch_plan(cx, d, k, call, 0, &p, stream);
}

static TgpStatus
tgp_launch(TgpContext *cx, const TgpPack *pack, const TgpKernel *k, void *stream, TgpCall *call)
{
	uintptr_t self = (uintptr_t)pthread_self();
	unsigned i, from = (unsigned)((self >> 12) ^ (self >> 20));
	TgpDevice *d;
	TgpStatus status = tgp_enter(cx, pack, &d);
	if (status == TGP_OK)
		status = tgp_align(cx, k, call);
	if (status != TGP_OK)
		return status;
	for (i = 0; i < TGP_PLANS; i++) {
		TgpPlan *p = &cx->plans[(k - pack->kernel) * TGP_PLANS + (from + i) % TGP_PLANS];
		int same, is_ours;
		if (__atomic_exchange_n(&p->is_taken, 1, __ATOMIC_ACQUIRE))
			continue;
		same = tgp_same(k, d, call, p);
		is_ours = same || !p->device || i + 1 == TGP_PLANS;     /* of other sizes: perhaps the next is free, or ours */
		if (is_ours)
			status = tgp_launch_plan(cx, d, k, call, same, p, stream);
		__atomic_store_n(&p->is_taken, 0, __ATOMIC_RELEASE);
		if (is_ours)
			return status;
	}
	return tgp_launch_apart(cx, d, k, call, stream);
}

/* ---- waiting, and what asserts left ---- */

static TgpStatus
tgp_collect(TgpContext *cx, TgpLoaded *l, void *stream)
{
	uint32_t record[TGP_FAULT_BYTES / 4];
	int64_t at[3];
	if (!__atomic_exchange_n(&l->is_launched, 0, __ATOMIC_ACQ_REL))
		return TGP_OK;
	TGP_DO("", cuMemcpyDtoHAsync_v2, record, l->faults, sizeof record, stream);
	TGP_DO("", cuStreamSynchronize, stream);
	if (record[0] == 0)
		return TGP_OK;
	memcpy(at, record + 2, sizeof at);
	TGP_DO("", cuMemsetD8Async, l->faults, 0, TGP_FAULT_BYTES, stream);
	TGP_DO("", cuStreamSynchronize, stream);
	return tgp_fail(cx, TGP_ERROR_KERNEL, "%s: an assert was false in program (%lld, %lld, %lld): %s", l->form->entry,
	    (long long)at[0], (long long)at[1], (long long)at[2], l->form->asserts[record[0] - 1]);
}

static TgpStatus
tgp_sync(TgpContext *cx, const TgpPack *pack, void *stream)
{
	TgpDevice *d;
	TgpStatus status = tgp_enter(cx, pack, &d);
	int i;
	if (status != TGP_OK)
		return status;
	if (cx->is_host)
		return TGP_OK;                          /* launches are done when they return */
	TGP_DO("", cuStreamSynchronize, stream);
	for (i = 0; i < pack->nforms && status == TGP_OK; i++) {
		TgpLoaded *l = __atomic_load_n(&d->loaded[i], __ATOMIC_ACQUIRE);
		if (l && l->faults)
			status = tgp_collect(cx, l, stream);
	}
	return status;
}
