/* A stand-in for NVIDIA's driver: libcuda.so.1 for machines without a GPU, found through LD_LIBRARY_PATH.
 *
 * It checks what the real one would refuse (no context, stale handles, addresses out of bounds, too many threads, shared
 * memory without the opt-in), keeps device memory where the host cannot reach it (a mapping without rights at the address
 * that callers see, the bytes in another), records streams into graphs, and runs kernels only as far as comments in their
 * PTX say:
 *
 *     // mock: copy TO FROM COUNT     4 bytes times the value of parameter COUNT, between the pointers in parameters
 *     // mock: set P WORD             the 32-bit word at parameter P becomes WORD
 *     // mock: fault P NUMBER         a FaultRecord as lowering leaves it: assert NUMBER, element 5, program 1 2 3, -7 and 0.5
 *     // mock: crash CODE             the context is lost with that result
 *     // mock: registers N            that a thread has; 8 fewer where the code was compiled for linking
 *
 * and the fill that the runtime brings itself, by its name.  A kernel that is to start before what comes before it is over
 * must be of a GPU that can, have griddepcontrol.wait before anything that touches memory, and, where a stream is recorded,
 * be given to a driver that knows such edges.
 *
 * The environment says what there is: MOCK_CUDA_DEVICES (1), MOCK_CUDA_CAPABILITY (90), MOCK_CUDA_DRIVER (13000),
 * MOCK_CUDA_MEMORY (bytes, 2^30), MOCK_CUDA_PTX (the newest version known, 90), MOCK_CUDA_FAIL (NAME:N:CODE, the N-th call
 * of NAME from now on fails with CODE; several with commas; N 0: every one), MOCK_CUDA_LOCAL (bytes of local memory a thread
 * of each kernel takes, 0), MOCK_CUDA_LOG (a file that gets a line a call). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define TRY(e) do { int try_result = (e); if (try_result) return try_result; } while (0)

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_READY = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200, NO_CONTEXT = 201,
	BAD_PTX = 218, OLD = 222, BAD_HANDLE = 400, NOT_FOUND = 500, BAD_CAPTURE = 900, IMPLICIT_CAPTURE = 906 };
enum { MAX_DEVICES = 8, MAX_PARAMS = 64, PLAIN_SHARED = 48 * 1024, MAX_SHARED = 232448, MAX_THREADS = 1024 };
enum { MAGIC_CONTEXT = 0x11, MAGIC_MODULE, MAGIC_FUNCTION, MAGIC_STREAM, MAGIC_EVENT, MAGIC_GRAPH, MAGIC_EXEC, MAGIC_LINKER };

typedef uint64_t Pointer;

typedef struct Context { int magic, device, refs, lost; } Context;

typedef struct Block {
	struct Block *next;
	Pointer at;                                         /* what callers see */
	char *bytes;
	size_t size, mapped;
	int device;
	bool host;                                          /* pinned: both sides see it */
} Block;

typedef struct Function {
	int magic;
	char *text;                                         /* the PTX from its entry on */
	int nparams, bytes[MAX_PARAMS];
	int shared;                                         /* dynamic, that it may have */
	bool is_linked;
	struct Function *next;
} Function;

typedef struct Module { int magic; char *text; Function *functions; } Module;

typedef struct Node {                                       /* one thing done, now or when a graph is launched */
	struct Node *next;
	enum { NODE_KERNEL, NODE_SET, NODE_COPY_IN, NODE_COPY_OUT } kind;
	Function *f;
	uint64_t value[MAX_PARAMS];
	Pointer at;
	void *host;
	uint64_t word;
	size_t size, pitch, n;
} Node;

typedef struct Graph { int magic; Node *first, **last; bool is_global; } Graph;
typedef struct Stream { int magic; Graph *capture; } Stream;
typedef struct Event { int magic; double ms; bool recorded; } Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* of what is done, one at a time */
static Context contexts[MAX_DEVICES];
static Block *blocks;
static size_t used;
static double clock_ms;
static int nlive;                                           /* modules, streams, events, graphs */
static _Thread_local Context *current;

/* ---- what tests ask ---- */

typedef struct Count { char name[64]; int n; } Count;
static Count counts[128];
static int ncounts;
static char last_launch[1024];

static Count *
count_of(const char *name)
{
	for (int i = 0; i < ncounts; i++)
		if (strcmp(counts[i].name, name) == 0)
			return &counts[i];
	if (ncounts == 128)
		abort();
	snprintf(counts[ncounts].name, sizeof counts[0].name, "%s", name);
	return &counts[ncounts++];
}

EXPORT int mock_calls(const char *name);
EXPORT void mock_forget(void);
EXPORT int mock_live(void);
EXPORT const char *mock_last_launch(void);
EXPORT int mock_context_refs(int device);

int mock_calls(const char *name) { return count_of(name)->n; }
void mock_forget(void) { ncounts = 0; memset(counts, 0, sizeof counts); for (int i = 0; i < MAX_DEVICES; i++) contexts[i].lost = 0; }
const char *mock_last_launch(void) { return last_launch; }
int mock_context_refs(int device) { return contexts[device].refs; }

/* Handles and allocations not given back. */
int
mock_live(void)
{
	int n = nlive;
	for (Block *b = blocks; b; b = b->next)
		n++;
	return n;
}

static long
setting(const char *name, long absent)
{
	const char *s = getenv(name);
	return s && *s ? strtol(s, NULL, 10) : absent;
}

/* Counts a call, writes it down, and says whether it is to fail. */
static int
call(const char *name, const char *fmt, ...)
{
	const char *log = getenv("MOCK_CUDA_LOG");
	pthread_mutex_lock(&lock);
	int n = ++count_of(name)->n;
	pthread_mutex_unlock(&lock);
	if (log && *log) {
		FILE *f = fopen(log, "a");
		va_list ap;
		if (f) {
			va_start(ap, fmt);
			fputs(name, f);
			vfprintf(f, fmt, ap);
			fputc('\n', f);
			va_end(ap);
			fclose(f);
		}
	}
	for (const char *s = getenv("MOCK_CUDA_FAIL"); s && *s;) {
		size_t len = strlen(name);
		int at = -1, code = 0;
		if (strncmp(s, name, len) == 0 && s[len] == ':' && sscanf(s + len, ":%d:%d", &at, &code) == 2 &&
		    (at == 0 || at == n))
			return code;
		s = strchr(s, ',');
		if (s)
			s++;
	}
	return OK;
}

/* The same for a call that needs a context: one that is lost answers always alike. */
static int
begin(const char *name)
{
	TRY(call(name, ""));
	return !current ? NO_CONTEXT : current->lost;
}

#define IS(p, m) ((p) && *(const int *)(p) == (m))

/* ---- starting and asking ---- */

static bool started;

EXPORT int cuInit(unsigned flags);
int
cuInit(unsigned flags)
{
	TRY(call("cuInit", " %u", flags));
	if (setting("MOCK_CUDA_DEVICES", 1) == 0)
		return NO_DEVICE;
	started = true;
	return OK;
}

EXPORT int cuDriverGetVersion(int *v);
int
cuDriverGetVersion(int *v)
{
	TRY(call("cuDriverGetVersion", ""));
	*v = (int)setting("MOCK_CUDA_DRIVER", 13000);
	return OK;
}

static const struct { int code; const char *name, *text; } names[] = {
	{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"}, {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"}, {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}, {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
	{400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}, {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
};

static int
row_of(int r)
{
	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
		if (names[i].code == r)
			return i;
	return -1;
}

EXPORT int cuGetErrorName(int r, const char **out);
EXPORT int cuGetErrorString(int r, const char **out);
int cuGetErrorName(int r, const char **out) { int i = row_of(r); *out = i < 0 ? NULL : names[i].name; return i < 0; }
int cuGetErrorString(int r, const char **out) { int i = row_of(r); *out = i < 0 ? NULL : names[i].text; return i < 0; }

static int
device_count(void)
{
	return (int)setting("MOCK_CUDA_DEVICES", 1);
}

/* NVIDIA's own libraries ask for it: NVRTC, when it finds a driver. */
EXPORT int cuGetExportTable(const void **out, const void *id);
int
cuGetExportTable(const void **out, const void *id)
{
	(void)id;
	*out = NULL;
	return NOT_FOUND;
}

EXPORT int cuDeviceGetCount(int *n);
int
cuDeviceGetCount(int *n)
{
	TRY(call("cuDeviceGetCount", ""));
	*n = device_count();
	return started ? OK : NOT_READY;
}

EXPORT int cuDeviceGet(int *d, int index);
int
cuDeviceGet(int *d, int index)
{
	TRY(call("cuDeviceGet", " %d", index));
	*d = index + 40;                                    /* handles are no ordinals */
	return index >= 0 && index < device_count() ? OK : BAD_DEVICE;
}

static bool
is_device(int d)
{
	return d >= 40 && d < 40 + device_count();
}

EXPORT int cuDeviceGetName(char *out, int n, int d);
int
cuDeviceGetName(char *out, int n, int d)
{
	TRY(call("cuDeviceGetName", " %d", d));
	snprintf(out, (size_t)n, "Mock GPU %d", d - 40);
	return is_device(d) ? OK : BAD_DEVICE;
}

EXPORT int cuDeviceTotalMem_v2(size_t *n, int d);
int
cuDeviceTotalMem_v2(size_t *n, int d)
{
	TRY(call("cuDeviceTotalMem_v2", " %d", d));
	*n = (size_t)setting("MOCK_CUDA_MEMORY", 1l << 30);
	return is_device(d) ? OK : BAD_DEVICE;
}

EXPORT int cuDeviceGetAttribute(int *v, int what, int d);
int
cuDeviceGetAttribute(int *v, int what, int d)
{
	long capability = setting("MOCK_CUDA_CAPABILITY", 90);
	TRY(call("cuDeviceGetAttribute", " %d %d", what, d));
	switch (what) {
	case 16: *v = 4; break;
	case 38: *v = 1 << 16; break;                       /* bytes of cache */
	case 39: *v = 2048; break;
	case 75: *v = (int)(capability / 10); break;
	case 76: *v = (int)(capability % 10); break;
	case 97: *v = MAX_SHARED; break;
	default: return INVALID;
	}
	return is_device(d) ? OK : BAD_DEVICE;
}

/* ---- contexts ---- */

EXPORT int cuDevicePrimaryCtxRetain(Context **out, int d);
int
cuDevicePrimaryCtxRetain(Context **out, int d)
{
	TRY(call("cuDevicePrimaryCtxRetain", " %d", d));
	if (!is_device(d))
		return BAD_DEVICE;
	*out = &contexts[d - 40];
	(*out)->magic = MAGIC_CONTEXT;
	(*out)->device = d - 40;
	(*out)->refs++;
	return OK;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int d);
int
cuDevicePrimaryCtxRelease_v2(int d)
{
	TRY(call("cuDevicePrimaryCtxRelease_v2", " %d", d));
	if (!is_device(d) || contexts[d - 40].refs == 0)
		return NO_CONTEXT;
	contexts[d - 40].refs--;
	return OK;
}

static _Thread_local Context *stack[16];
static _Thread_local int depth;

EXPORT int cuCtxGetCurrent(Context **out);
int
cuCtxGetCurrent(Context **out)
{
	TRY(call("cuCtxGetCurrent", ""));
	*out = current;
	return OK;
}

EXPORT int cuCtxSetCurrent(Context *c);
int
cuCtxSetCurrent(Context *c)
{
	TRY(call("cuCtxSetCurrent", ""));
	if (c && (!IS(c, MAGIC_CONTEXT) || !c->refs))
		return NO_CONTEXT;
	current = c;
	return OK;
}

EXPORT int cuCtxPushCurrent_v2(Context *c);
int
cuCtxPushCurrent_v2(Context *c)
{
	TRY(call("cuCtxPushCurrent_v2", ""));
	if (!IS(c, MAGIC_CONTEXT) || !c->refs || depth == 16)
		return NO_CONTEXT;
	stack[depth++] = current;
	current = c;
	return OK;
}

EXPORT int cuCtxPopCurrent_v2(Context **out);
int
cuCtxPopCurrent_v2(Context **out)
{
	TRY(call("cuCtxPopCurrent_v2", ""));
	if (depth == 0)
		return NO_CONTEXT;
	*out = current;
	current = stack[--depth];
	return OK;
}

EXPORT int cuCtxGetDevice(int *d);
int
cuCtxGetDevice(int *d)
{
	TRY(begin("cuCtxGetDevice"));
	*d = current->device + 40;
	return OK;
}

EXPORT int cuCtxGetId(Context *c, unsigned long long *id);
int
cuCtxGetId(Context *c, unsigned long long *id)
{
	TRY(call("cuCtxGetId", ""));
	if (!IS(c, MAGIC_CONTEXT) || !c->refs)
		return NO_CONTEXT;
	*id = (unsigned long long)c->device + 1;
	return OK;
}

/* While a stream is recorded in the global mode (0) no thread allocates or frees, unless in the relaxed one (2). */
static _Thread_local int capture_mode;
static int nglobal;

static int
memory_call(const char *name)
{
	TRY(begin(name));
	return nglobal > 0 && capture_mode != 2 ? BAD_CAPTURE : OK;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
int
cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = capture_mode;
	TRY(call("cuThreadExchangeStreamCaptureMode", " %d", *mode));
	if (*mode < 0 || *mode > 2)
		return INVALID;
	capture_mode = *mode;
	*mode = before;
	return OK;
}

EXPORT int cuCtxSynchronize(void);
int cuCtxSynchronize(void) { return begin("cuCtxSynchronize"); }

/* ---- memory ---- */

static Block *
block_of(Pointer p, size_t n)
{
	for (Block *b = blocks; b; b = b->next)
		if (p >= b->at && p - b->at <= b->size && n <= b->size - (p - b->at))
			return b;
	return NULL;
}

/* Device memory as the mock itself reaches it; NULL: out of bounds. */
static char *
reach(Pointer p, size_t n)
{
	Block *b = block_of(p, n);
	return b ? b->bytes + (p - b->at) : NULL;
}

static int
take(size_t size, bool host, Block **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	Block *b = calloc(1, sizeof *b);
	b->size = size;
	b->mapped = (size + page - 1) / page * page;
	b->host = host;
	b->device = current->device;
	int fd = memfd_create("mock", 0);
	if (fd < 0 || ftruncate(fd, (off_t)b->mapped) != 0)
		return NO_MEMORY;
	b->bytes = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *seen = host ? b->bytes : mmap(NULL, b->mapped, PROT_NONE, MAP_SHARED, fd, 0);
	close(fd);
	if (b->bytes == MAP_FAILED || seen == MAP_FAILED)
		return NO_MEMORY;
	memset(b->bytes, 0xcd, b->mapped);
	b->at = (Pointer)(uintptr_t)seen;
	b->next = blocks;
	blocks = b;
	used += size;
	*out = b;
	return OK;
}

static int
give(Pointer p, bool host)
{
	for (Block **at = &blocks; *at; at = &(*at)->next) {
		Block *b = *at;
		if (b->at != p || b->host != host)
			continue;
		*at = b->next;
		munmap(b->bytes, b->mapped);
		if (!host)
			munmap((void *)(uintptr_t)b->at, b->mapped);
		used -= b->size;
		free(b);
		return OK;
	}
	return INVALID;
}

EXPORT int cuMemAlloc_v2(Pointer *p, size_t n);
int
cuMemAlloc_v2(Pointer *p, size_t n)
{
	Block *b;
	TRY(memory_call("cuMemAlloc_v2"));
	if (n == 0)
		return INVALID;
	if (used + n > (size_t)setting("MOCK_CUDA_MEMORY", 1l << 30))
		return NO_MEMORY;
	TRY(take(n, false, &b));
	*p = b->at;
	return OK;
}

EXPORT int cuMemFree_v2(Pointer p);
int
cuMemFree_v2(Pointer p)
{
	TRY(memory_call("cuMemFree_v2"));
	return give(p, false);
}

/* In order of a stream; of a stream that is recorded, memory that a graph keeps. */
EXPORT int cuMemAllocAsync(Pointer *p, size_t n, Stream *s);
int
cuMemAllocAsync(Pointer *p, size_t n, Stream *s)
{
	Block *b;
	TRY(begin("cuMemAllocAsync"));
	if (n == 0 || (s && !IS(s, MAGIC_STREAM)))
		return INVALID;
	pthread_mutex_lock(&order);
	int r = used + n > (size_t)setting("MOCK_CUDA_MEMORY", 1l << 30) ? NO_MEMORY : take(n, false, &b);
	pthread_mutex_unlock(&order);
	if (r == OK)
		*p = b->at;
	return r;
}

EXPORT int cuMemFreeAsync(Pointer p, Stream *s);
int
cuMemFreeAsync(Pointer p, Stream *s)
{
	TRY(begin("cuMemFreeAsync"));
	if (s && !IS(s, MAGIC_STREAM))
		return INVALID;
	if (s && s->capture)
		return block_of(p, 1) ? OK : INVALID;
	pthread_mutex_lock(&order);
	int r = give(p, false);
	pthread_mutex_unlock(&order);
	return r;
}

EXPORT int cuMemHostAlloc(void **p, size_t n, unsigned flags);
int
cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	Block *b;
	(void)flags;
	TRY(begin("cuMemHostAlloc"));
	TRY(take(n ? n : 1, true, &b));
	*p = (void *)(uintptr_t)b->at;
	return OK;
}

EXPORT int cuMemFreeHost(void *p);
int
cuMemFreeHost(void *p)
{
	TRY(begin("cuMemFreeHost"));
	return give((Pointer)(uintptr_t)p, true);
}

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *all);
int
cuMemGetInfo_v2(size_t *left, size_t *all)
{
	TRY(begin("cuMemGetInfo_v2"));
	*all = (size_t)setting("MOCK_CUDA_MEMORY", 1l << 30);
	*left = *all - used;
	return OK;
}

EXPORT int cuPointerGetAttribute(void *out, int what, Pointer p);
int
cuPointerGetAttribute(void *out, int what, Pointer p)
{
	TRY(call("cuPointerGetAttribute", " %d 0x%llx", what, (unsigned long long)p));
	Block *b = block_of(p, 1);
	if (!b)
		return INVALID;
	switch (what) {
	case 2: *(unsigned *)out = b->host ? 1 : 2; return OK;
	case 3: *(Pointer *)out = p; return OK;
	case 9: *(int *)out = b->device; return OK;
	default: return INVALID;
	}
}

/* ---- doing things, now or later ---- */

static uint64_t
word_at(const char **s)
{
	char *end;
	uint64_t v = strtoull(*s, &end, 0);
	*s = end;
	return v;
}

static int
directive(const Function *f, const uint64_t *value, const char *s)
{
	char *to, *from;
	if (strncmp(s, "copy", 4) == 0) {
		s += 4;
		uint64_t a = word_at(&s), b = word_at(&s), n = value[word_at(&s)];
		to = reach(value[a], 4 * n);
		from = reach(value[b], 4 * n);
		if (!to || !from)
			return 700;
		memmove(to, from, 4 * n);
	} else if (strncmp(s, "set", 3) == 0) {
		s += 3;
		uint64_t p = word_at(&s);
		uint32_t w = (uint32_t)word_at(&s);
		if (!(to = reach(value[p], 4)))
			return 700;
		memcpy(to, &w, 4);
	} else if (strncmp(s, "fault", 5) == 0) {
		s += 5;
		uint64_t p = word_at(&s);
		uint32_t number[2] = {(uint32_t)word_at(&s), 6};
		const int64_t program[3] = {1, 2, 3}, left = -7;
		const uint8_t kind[8] = {1, 3};
		const double half = 0.5;
		if (!(to = reach(value[p], 64)))
			return 700;
		memcpy(to, number, 8);
		memcpy(to + 8, program, 24);
		memcpy(to + 32, kind, 8);
		memcpy(to + 40, &left, 8);
		memcpy(to + 48, &half, 8);
	} else if (strncmp(s, "crash", 5) == 0) {
		s += 5;
		return (int)word_at(&s);
	}
	(void)f;
	return OK;
}

static bool
is_called(const Function *f, const char *name)
{
	size_t n = strlen(name);
	return *f->text && strncmp(f->text + 7, name, n) == 0 && strchr("( \n", f->text[7 + n]);
}

/* (to, word, bytes) */
static int
fill(const uint64_t *value)
{
	char *to = reach(value[0], value[2]);
	for (uint64_t i = 0; to && i < value[2]; i++)
		to[i] = (char)(value[1] >> 8 * (i % 8));
	return to ? OK : 700;
}

/* At least one, `pitch` bytes apart. */
static void
put_words(char *to, const Node *n)
{
	size_t all = n->n * n->size;
	for (size_t i = 0; n->pitch != n->size && i < n->n; i++)
		memcpy(to + i * n->pitch, &n->word, n->size);
	if (n->pitch != n->size)
		return;
	memcpy(to, &n->word, n->size);
	for (size_t done = n->size; done < all; done *= 2)      /* as many again as there are */
		memcpy(to + done, to, done < all - done ? done : all - done);
}

static int
node_run(const Node *n)
{
	char *p;
	const char *end = n->kind == NODE_KERNEL && *n->f->text ? strstr(n->f->text + 7, ".entry ") : NULL;
	clock_ms += n->kind == NODE_KERNEL ? 0.01 : 0.001;
	switch (n->kind) {
	case NODE_KERNEL:
		for (const char *s = n->f->text; (s = strstr(s, "// mock: ")) && (!end || s < end); s += 9) {
			int r = directive(n->f, n->value, s + 9);
			if (r)
				current->lost = r;          /* seen by whoever asks next */
		}
		if (is_called(n->f, "tegula_fill") && fill(n->value) != OK)
			current->lost = fill(n->value);
		return OK;
	case NODE_SET:
		if (n->n && !(p = reach(n->at, (n->n - 1) * n->pitch + n->size)))
			return INVALID;
		if (n->n)
			put_words(p, n);
		return OK;
	case NODE_COPY_IN:
	case NODE_COPY_OUT:
		if (!(p = reach(n->at, n->size)))
			return INVALID;
		if (n->kind == NODE_COPY_IN)
			memcpy(p, n->host, n->size);
		else
			memcpy(n->host, p, n->size);
		return OK;
	}
	return INVALID;
}

static int
node_do(const Node *n, Stream *s)
{
	if (s && !IS(s, MAGIC_STREAM))
		return BAD_HANDLE;
	pthread_mutex_lock(&order);
	int r = OK;
	if (!s || !s->capture) {
		r = node_run(n);
	} else {
		Node *copy = malloc(sizeof *copy);
		*copy = *n;
		copy->next = NULL;
		*s->capture->last = copy;
		s->capture->last = &copy->next;
	}
	pthread_mutex_unlock(&order);
	return r;
}

EXPORT int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t n, Stream *s);
int
cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t n, Stream *s)
{
	TRY(begin("cuMemcpyHtoDAsync_v2"));
	return node_do(&(Node){.kind = NODE_COPY_IN, .at = to, .host = (void *)from, .size = n}, s);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t n, Stream *s);
int
cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t n, Stream *s)
{
	TRY(begin("cuMemcpyDtoHAsync_v2"));
	return node_do(&(Node){.kind = NODE_COPY_OUT, .at = from, .host = to, .size = n}, s);
}

static int
set_words(const char *name, Pointer p, uint64_t v, size_t size, size_t pitch, size_t n, Stream *s)
{
	TRY(begin(name));
	if (p % size)
		return INVALID;
	return node_do(&(Node){.kind = NODE_SET, .at = p, .word = v, .size = size, .pitch = pitch, .n = n}, s);
}

EXPORT int cuMemsetD8Async(Pointer p, unsigned char v, size_t n, Stream *s);
EXPORT int cuMemsetD16Async(Pointer p, unsigned short v, size_t n, Stream *s);
EXPORT int cuMemsetD32Async(Pointer p, unsigned v, size_t n, Stream *s);
EXPORT int cuMemsetD2D32Async(Pointer p, size_t pitch, unsigned v, size_t width, size_t height, Stream *s);
int cuMemsetD8Async(Pointer p, unsigned char v, size_t n, Stream *s) { return set_words("cuMemsetD8Async", p, v, 1, 1, n, s); }
int cuMemsetD16Async(Pointer p, unsigned short v, size_t n, Stream *s) { return set_words("cuMemsetD16Async", p, v, 2, 2, n, s); }
int cuMemsetD32Async(Pointer p, unsigned v, size_t n, Stream *s) { return set_words("cuMemsetD32Async", p, v, 4, 4, n, s); }

int
cuMemsetD2D32Async(Pointer p, size_t pitch, unsigned v, size_t width, size_t height, Stream *s)
{
	if (width != 1)
		return INVALID;
	return set_words("cuMemsetD2D32Async", p, v, 4, pitch, height, s);
}

/* ---- modules ---- */

/* Its entries with their parameters' sizes, from the text. */
static void
read_entries(Module *m)
{
	for (const char *s = m->text; (s = strstr(s, ".entry ")); s++) {
		Function *f = calloc(1, sizeof *f);
		const char *end = strchr(s, '{');
		f->magic = MAGIC_FUNCTION;
		f->text = (char *)s;
		f->shared = PLAIN_SHARED;
		f->next = m->functions;
		m->functions = f;
		for (const char *p = s; (p = strstr(p, ".param .")) && (!end || p < end) && f->nparams < MAX_PARAMS; p++) {
			int bits = atoi(p + 9), map = 0;
			sscanf(p, ".param .align 64 .b8 %*[^[][%d]", &map);
			f->bytes[f->nparams++] = map ? map : bits ? bits / 8 : 1; /* .pred does not occur */
		}
	}
}

static int
check_text(const char *text, unsigned n, const int *option, void **value)
{
	const char *version = strstr(text, ".version ");
	int major = 0, minor = 0;
	if (!version || sscanf(version, ".version %d.%d", &major, &minor) != 2) {
		for (unsigned i = 0; i < n; i++)
			if (option[i] == 5)
				strcpy(value[i], "ptxas fatal: Missing .version directive\n");
		return BAD_PTX;
	}
	return major * 10 + minor > setting("MOCK_CUDA_PTX", 90) ? OLD : OK;
}

/* Machine code of the stand-in is the text with a word in front. */
static const char elf[] = "\177ELFmock";

typedef struct Linker { int magic; unsigned n; int option[8]; void *value[8]; char *code; size_t size; } Linker;

EXPORT int cuLinkCreate_v2(unsigned n, int *option, void **value, Linker **out);
int
cuLinkCreate_v2(unsigned n, int *option, void **value, Linker **out)
{
	TRY(begin("cuLinkCreate_v2"));
	if (n > 8)
		return INVALID;
	*out = calloc(1, sizeof **out);
	(*out)->magic = MAGIC_LINKER;
	(*out)->n = n;
	memcpy((*out)->option, option, n * sizeof *option);
	memcpy((*out)->value, value, n * sizeof *value);
	nlive++;
	return OK;
}

EXPORT int cuLinkAddData_v2(Linker *l, int kind, void *data, size_t size, const char *name, unsigned n, int *option, void **value);
int
cuLinkAddData_v2(Linker *l, int kind, void *data, size_t size, const char *name, unsigned n, int *option, void **value)
{
	(void)n, (void)option, (void)value, (void)name;
	TRY(begin("cuLinkAddData_v2"));
	if (!IS(l, MAGIC_LINKER) || kind != 1 || ((char *)data)[size - 1])
		return INVALID;
	TRY(check_text(data, l->n, l->option, l->value));
	l->size = sizeof elf - 1 + size;
	l->code = malloc(l->size);
	memcpy(l->code, elf, sizeof elf - 1);
	memcpy(l->code + sizeof elf - 1, data, size);
	return OK;
}

EXPORT int cuLinkComplete(Linker *l, void **code, size_t *size);
int
cuLinkComplete(Linker *l, void **code, size_t *size)
{
	TRY(begin("cuLinkComplete"));
	if (!IS(l, MAGIC_LINKER) || !l->code)
		return INVALID;
	*code = l->code;
	*size = l->size;
	return OK;
}

EXPORT int cuLinkDestroy(Linker *l);
int
cuLinkDestroy(Linker *l)
{
	TRY(begin("cuLinkDestroy"));
	if (!IS(l, MAGIC_LINKER))
		return BAD_HANDLE;
	l->magic = 0;
	free(l->code);
	free(l);
	nlive--;
	return OK;
}

EXPORT int cuModuleLoadDataEx(Module **out, const void *image, unsigned n, int *option, void **value);
int
cuModuleLoadDataEx(Module **out, const void *image, unsigned n, int *option, void **value)
{
	TRY(begin("cuModuleLoadDataEx"));
	bool code = memcmp(image, elf, 4) == 0;
	if (!code)
		TRY(check_text(image, n, option, value));
	else if (memcmp(image, elf, sizeof elf - 1) == 0)
		image = (const char *)image + sizeof elf - 1;
	else
		image = "";                                 /* from CUDA's own tools */
	Module *m = calloc(1, sizeof *m);
	m->magic = MAGIC_MODULE;
	m->text = strdup(image);
	read_entries(m);
	for (Function *f = m->functions; f; f = f->next)
		f->is_linked = code;
	nlive++;
	*out = m;
	return OK;
}

EXPORT int cuModuleUnload(Module *m);
int
cuModuleUnload(Module *m)
{
	TRY(begin("cuModuleUnload"));
	if (!IS(m, MAGIC_MODULE))
		return BAD_HANDLE;
	while (m->functions) {
		Function *f = m->functions;
		m->functions = f->next;
		f->magic = 0;
		free(f);
	}
	m->magic = 0;
	free(m->text);
	free(m);
	nlive--;
	return OK;
}

EXPORT int cuModuleGetFunction(Function **out, Module *m, const char *name);
int
cuModuleGetFunction(Function **out, Module *m, const char *name)
{
	TRY(begin("cuModuleGetFunction"));
	if (!IS(m, MAGIC_MODULE))
		return BAD_HANDLE;
	size_t n = strlen(name);
	for (*out = m->functions; *out; *out = (*out)->next)
		if (strncmp((*out)->text + 7, name, n) == 0 && strchr("( \n", (*out)->text[7 + n]))
			return OK;
	if (!*m->text) {                                    /* machine code: it has what is asked for */
		*out = m->functions = calloc(1, sizeof **out);
		**out = (Function){.magic = MAGIC_FUNCTION, .text = m->text, .shared = PLAIN_SHARED};
		return OK;
	}
	return NOT_FOUND;
}

EXPORT int cuFuncGetAttribute(int *v, int what, Function *f);
int
cuFuncGetAttribute(int *v, int what, Function *f)
{
	TRY(begin("cuFuncGetAttribute"));
	if (!IS(f, MAGIC_FUNCTION))
		return BAD_HANDLE;
	const char *most = strstr(f->text, ".maxntid ");
	switch (what) {
	case 0: *v = most ? atoi(most + 9) : MAX_THREADS; return OK;
	case 1: *v = 0; return OK;
	case 3: *v = (int)setting("MOCK_CUDA_LOCAL", 0); return OK;
	case 4: {
		const char *registers = strstr(f->text, "// mock: registers ");
		*v = registers ? atoi(registers + 19) - (f->is_linked ? 8 : 0) : 24;
		return OK;
	}
	default: return INVALID;
	}
}

EXPORT int cuFuncSetAttribute(Function *f, int what, int v);
int
cuFuncSetAttribute(Function *f, int what, int v)
{
	TRY(begin("cuFuncSetAttribute"));
	if (!IS(f, MAGIC_FUNCTION))
		return BAD_HANDLE;
	if (what != 8 || v > MAX_SHARED)
		return INVALID;
	f->shared = v;
	return OK;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Function *f, int threads, size_t shared);
int
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Function *f, int threads, size_t shared)
{
	(void)shared;
	TRY(begin("cuOccupancyMaxActiveBlocksPerMultiprocessor"));
	*n = 2048 / threads;
	return IS(f, MAGIC_FUNCTION) ? OK : BAD_HANDLE;
}

/* ---- tensor maps ---- */

/* As it is passed to kernels, in 128 bytes. */
typedef struct Map {
	uint64_t magic;
	Pointer address;
	uint64_t extent[5], stride[4];
	uint32_t rank, type;
	uint16_t box[5], swizzle, windows;
	int16_t corner[3][2];
} Map;

enum { MAGIC_MAP = 0x6d617021 };

EXPORT int cuTensorMapEncodeTiled(Map *m, int type, unsigned rank, Pointer address, const uint64_t *extent,
    const uint64_t *stride, const unsigned *box, const unsigned *step, int interleave, int swizzle, int promotion, int fill);
int
cuTensorMapEncodeTiled(Map *m, int type, unsigned rank, Pointer address, const uint64_t *extent, const uint64_t *stride,
    const unsigned *box, const unsigned *step, int interleave, int swizzle, int promotion, int fill)
{
	static const unsigned size[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
	TRY(begin("cuTensorMapEncodeTiled"));
	if ((uintptr_t)m % 64 || type < 0 || type > 12 || rank < 1 || rank > 5 || !address || address % 16 || interleave ||
	    swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill || box[0] * size[type] % 16 ||
	    (swizzle && box[0] * size[type] > 16u << swizzle))
		return INVALID;
	memset(m, 0, 128);
	*m = (Map){.magic = MAGIC_MAP, .address = address, .rank = rank, .type = (uint32_t)type, .swizzle = (uint16_t)swizzle};
	for (unsigned i = 0; i < rank; i++) {
		if (extent[i] < 1 || extent[i] > UINT64_C(1) << 32 || box[i] < 1 || box[i] > 256 || step[i] < 1 || step[i] > 8 ||
		    (i > 0 && (stride[i - 1] % 16 || stride[i - 1] >= UINT64_C(1) << 40))) {
			m->magic = 0;
			return INVALID;
		}
		m->extent[i] = extent[i];
		m->box[i] = (uint16_t)box[i];
		if (i > 0)
			m->stride[i - 1] = stride[i - 1];
	}
	return OK;
}

/* The box is channels and pixels; corners go before the swizzle. */
EXPORT int cuTensorMapEncodeIm2col(Map *m, int type, unsigned rank, Pointer address, const uint64_t *extent,
    const uint64_t *stride, const int *lower, const int *upper, unsigned channels, unsigned pixels, const unsigned *step,
    int interleave, int swizzle, int promotion, int fill);
int
cuTensorMapEncodeIm2col(Map *m, int type, unsigned rank, Pointer address, const uint64_t *extent, const uint64_t *stride,
    const int *lower, const int *upper, unsigned channels, unsigned pixels, const unsigned *step, int interleave, int swizzle,
    int promotion, int fill)
{
	static const int most[] = {[3] = 32767, [4] = 127, [5] = 15};
	unsigned box[5] = {channels, 1, 1, 1, 1};
	if (rank < 3 || rank > 5 || pixels < 1 || pixels > 1024)
		return INVALID;
	for (unsigned i = 0; i < rank - 2; i++)
		if (lower[i] < -most[rank] - 1 || lower[i] > most[rank] || upper[i] < -most[rank] - 1 || upper[i] > most[rank] ||
		    lower[i] >= (int64_t)extent[1 + i] + upper[i])
			return INVALID;
	TRY(cuTensorMapEncodeTiled(m, type, rank, address, extent, stride, box, step, interleave, swizzle, promotion, fill));
	m->box[1] = (uint16_t)pixels;
	m->windows = (uint16_t)(rank - 2);
	for (unsigned i = 0; i < rank - 2; i++) {
		m->corner[i][0] = (int16_t)lower[i];
		m->corner[i][1] = (int16_t)upper[i];
	}
	return OK;
}

EXPORT int cuTensorMapReplaceAddress(Map *m, Pointer address);
int
cuTensorMapReplaceAddress(Map *m, Pointer address)
{
	TRY(begin("cuTensorMapReplaceAddress"));
	if ((uintptr_t)m % 64 || m->magic != MAGIC_MAP || address % 16)
		return INVALID;
	m->address = address;
	return OK;
}

/* "map 7f00 100x64 box 16x8 swizzle 3" */
static int
map_text(const Map *m, char *out, size_t size)
{
	int at = snprintf(out, size, " map %llx", (unsigned long long)m->address);
	for (unsigned i = 0; i < m->rank; i++)
		at += snprintf(out + at, size - (size_t)at, "%s%llu", i ? "x" : " ", (unsigned long long)m->extent[i]);
	for (unsigned i = 0; i < m->rank; i++)
		at += snprintf(out + at, size - (size_t)at, "%s%u", i ? "x" : " box ", m->box[i]);
	for (unsigned i = 0; i < m->windows; i++)
		at += snprintf(out + at, size - (size_t)at, " window %d…%d", m->corner[i][0], m->corner[i][1]);
	return at + snprintf(out + at, size - (size_t)at, " swizzle %u", m->swizzle);
}

/* ---- launches ---- */

/* How a launch differs from a plain one. */
typedef struct Ways { unsigned cluster; bool early; } Ways;

typedef struct Attribute { int id; char pad[4]; union { unsigned cluster[3]; int on; char room[64]; } value; } Attribute;

typedef struct Config { unsigned gx, gy, gz, bx, by, bz, shared; Stream *stream; Attribute *attribute; unsigned nattribute; } Config;

/* The kernel's text waits for the grid before it, and nothing before that touches memory. */
static bool
waits_first(const Function *f)
{
	const char *body = strchr(f->text, '{'), *wait = body ? strstr(body, "griddepcontrol.wait;") : NULL;
	const char *access = body ? strstr(body, ".global") : NULL;
	return wait && (!access || wait < access);
}

static int
read_ways(const Config *c, const Function *f, Ways *out)
{
	*out = (Ways){.cluster = 1};
	for (unsigned i = 0; i < c->nattribute; i++) {
		const Attribute *a = &c->attribute[i];
		if (a->id == 4 && a->value.cluster[0] > 0 && a->value.cluster[1] == 1 && a->value.cluster[2] == 1)
			out->cluster = a->value.cluster[0];
		else if (a->id == 6 && a->value.on == 1)
			out->early = true;
		else
			return INVALID;
	}
	if (out->early && setting("MOCK_CUDA_CAPABILITY", 90) < 90)
		return INVALID;
	if (out->early && IS(f, MAGIC_FUNCTION) && *f->text && !waits_first(f))
		return INVALID;                             /* the real one would run it, and it would read too early */
	if (out->early && IS(c->stream, MAGIC_STREAM) && c->stream->capture && setting("MOCK_CUDA_DRIVER", 13000) < 12030)
		return BAD_CAPTURE;
	return c->gx % out->cluster ? INVALID : OK;
}

/* Clusters that run at once. */
EXPORT int cuOccupancyMaxActiveClusters(int *n, Function *f, const Config *c);
int
cuOccupancyMaxActiveClusters(int *n, Function *f, const Config *c)
{
	Ways w;
	TRY(begin("cuOccupancyMaxActiveClusters"));
	TRY(read_ways(c, f, &w));
	*n = (int)setting("MOCK_CUDA_CLUSTERS", 66);
	return IS(f, MAGIC_FUNCTION) ? OK : BAD_HANDLE;
}

static int
launch_now(Function *f, const Config *c, const Ways *w, void **params)
{
	Node n = {.kind = NODE_KERNEL, .f = f};
	int at = 0;
	if (!IS(f, MAGIC_FUNCTION))
		return BAD_HANDLE;
	if (c->gx == 0 || c->gx > INT32_MAX || c->bx == 0 || c->bx > MAX_THREADS || (int)c->shared > f->shared ||
	    c->gy != 1 || c->gz != 1 || c->by != 1 || c->bz != 1)
		return INVALID;
	at += snprintf(last_launch, sizeof last_launch, "%.*s blocks %u threads %u shared %u stream %d%s:",
	    (int)strcspn(f->text + (*f->text ? 7 : 0), "(\n "), f->text + (*f->text ? 7 : 0), c->gx, c->bx, c->shared,
	    c->stream != NULL, w->early ? " early" : "");
	for (int i = 0; i < f->nparams; i++) {
		const Map *m = f->bytes[i] == 128 ? params[i] : NULL;
		if (m && ((uintptr_t)m % 64 || m->magic != MAGIC_MAP))
			return INVALID;
		if (m) {
			at += map_text(m, last_launch + at, sizeof last_launch - (size_t)at);
			continue;
		}
		memcpy(&n.value[i], params[i], (size_t)f->bytes[i]);
		at += snprintf(last_launch + at, sizeof last_launch - (size_t)at, " %llx", (unsigned long long)n.value[i]);
	}
	return node_do(&n, c->stream);
}

static int
launch(Function *f, const Config *c, const Ways *w, void **params)
{
	pthread_mutex_lock(&order);
	int r = launch_now(f, c, w, params);
	pthread_mutex_unlock(&order);
	return r;
}

EXPORT int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, Stream *s, void **params, void **extra);
int
cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    Stream *s, void **params, void **extra)
{
	TRY(begin("cuLaunchKernel"));
	if (extra)
		return INVALID;
	return launch(f, &(Config){gx, gy, gz, bx, by, bz, shared, s, NULL, 0}, &(Ways){1, false}, params);
}

EXPORT int cuLaunchKernelEx(const Config *c, Function *f, void **params, void **extra);
int
cuLaunchKernelEx(const Config *c, Function *f, void **params, void **extra)
{
	Ways w;
	TRY(begin("cuLaunchKernelEx"));
	TRY(read_ways(c, f, &w));
	if (extra)
		return INVALID;
	return launch(f, c, &w, params);
}

/* ---- streams, events, graphs ---- */

static void
graph_free(Graph *g)
{
	while (g->first) {
		Node *n = g->first;
		g->first = n->next;
		free(n);
	}
	g->magic = 0;
	free(g);
	nlive--;
}

EXPORT int cuStreamCreate(Stream **out, unsigned flags);
int
cuStreamCreate(Stream **out, unsigned flags)
{
	(void)flags;
	TRY(begin("cuStreamCreate"));
	*out = calloc(1, sizeof **out);
	(*out)->magic = MAGIC_STREAM;
	nlive++;
	return OK;
}

EXPORT int cuStreamDestroy_v2(Stream *s);
int
cuStreamDestroy_v2(Stream *s)
{
	TRY(begin("cuStreamDestroy_v2"));
	if (!IS(s, MAGIC_STREAM))
		return BAD_HANDLE;
	if (s->capture) {
		nglobal -= s->capture->is_global;
		graph_free(s->capture);
	}
	s->magic = 0;
	free(s);
	nlive--;
	return OK;
}

EXPORT int cuStreamSynchronize(Stream *s);
int
cuStreamSynchronize(Stream *s)
{
	TRY(begin("cuStreamSynchronize"));
	if (s && !IS(s, MAGIC_STREAM))
		return BAD_HANDLE;
	return s && s->capture ? BAD_CAPTURE : OK;
}

EXPORT int cuStreamWaitEvent(Stream *s, Event *e, unsigned flags);
int
cuStreamWaitEvent(Stream *s, Event *e, unsigned flags)
{
	(void)flags;
	TRY(begin("cuStreamWaitEvent"));
	return (!s || IS(s, MAGIC_STREAM)) && IS(e, MAGIC_EVENT) ? OK : BAD_HANDLE;
}

EXPORT int cuEventCreate(Event **out, unsigned flags);
int
cuEventCreate(Event **out, unsigned flags)
{
	(void)flags;
	TRY(begin("cuEventCreate"));
	*out = calloc(1, sizeof **out);
	(*out)->magic = MAGIC_EVENT;
	nlive++;
	return OK;
}

EXPORT int cuEventDestroy_v2(Event *e);
int
cuEventDestroy_v2(Event *e)
{
	TRY(begin("cuEventDestroy_v2"));
	if (!IS(e, MAGIC_EVENT))
		return BAD_HANDLE;
	e->magic = 0;
	free(e);
	nlive--;
	return OK;
}

EXPORT int cuEventRecord(Event *e, Stream *s);
int
cuEventRecord(Event *e, Stream *s)
{
	TRY(begin("cuEventRecord"));
	if (!IS(e, MAGIC_EVENT) || (s && !IS(s, MAGIC_STREAM)))
		return BAD_HANDLE;
	e->ms = clock_ms;
	e->recorded = true;
	return OK;
}

EXPORT int cuEventSynchronize(Event *e);
int
cuEventSynchronize(Event *e)
{
	TRY(begin("cuEventSynchronize"));
	return IS(e, MAGIC_EVENT) ? OK : BAD_HANDLE;
}

EXPORT int cuEventElapsedTime(float *ms, Event *from, Event *to);
int
cuEventElapsedTime(float *ms, Event *from, Event *to)
{
	TRY(begin("cuEventElapsedTime"));
	if (!IS(from, MAGIC_EVENT) || !IS(to, MAGIC_EVENT) || !from->recorded || !to->recorded)
		return BAD_HANDLE;
	*ms = (float)(to->ms - from->ms);
	return OK;
}

EXPORT int cuStreamBeginCapture_v2(Stream *s, int mode);
int
cuStreamBeginCapture_v2(Stream *s, int mode)
{
	TRY(begin("cuStreamBeginCapture_v2"));
	if (!s)
		return BAD_CAPTURE;                         /* the default stream can't be recorded */
	if (!IS(s, MAGIC_STREAM) || mode < 0 || mode > 2 || s->capture)
		return INVALID;
	s->capture = calloc(1, sizeof *s->capture);
	s->capture->magic = MAGIC_GRAPH;
	s->capture->last = &s->capture->first;
	s->capture->is_global = mode == 0;
	nglobal += mode == 0;
	nlive++;
	return OK;
}

EXPORT int cuStreamEndCapture(Stream *s, Graph **out);
int
cuStreamEndCapture(Stream *s, Graph **out)
{
	TRY(begin("cuStreamEndCapture"));
	if (!IS(s, MAGIC_STREAM) || !s->capture)
		return INVALID;
	*out = s->capture;
	nglobal -= s->capture->is_global;
	s->capture = NULL;
	return OK;
}

EXPORT int cuStreamIsCapturing(Stream *s, int *status);
int
cuStreamIsCapturing(Stream *s, int *status)
{
	TRY(begin("cuStreamIsCapturing"));
	*status = s && s->capture ? 1 : 0;
	return OK;
}

EXPORT int cuGraphInstantiateWithFlags(Graph **exec, Graph *g, unsigned long long flags);
int
cuGraphInstantiateWithFlags(Graph **exec, Graph *g, unsigned long long flags)
{
	(void)flags;
	TRY(begin("cuGraphInstantiateWithFlags"));
	if (!IS(g, MAGIC_GRAPH))
		return BAD_HANDLE;
	*exec = calloc(1, sizeof **exec);
	(*exec)->magic = MAGIC_EXEC;
	(*exec)->last = &(*exec)->first;
	for (Node *n = g->first; n; n = n->next) {
		Node *copy = malloc(sizeof *copy);
		*copy = *n;
		copy->next = NULL;
		*(*exec)->last = copy;
		(*exec)->last = &copy->next;
	}
	nlive++;
	return OK;
}

EXPORT int cuGraphLaunch(Graph *exec, Stream *s);
int
cuGraphLaunch(Graph *exec, Stream *s)
{
	TRY(begin("cuGraphLaunch"));
	if (!IS(exec, MAGIC_EXEC) || (s && !IS(s, MAGIC_STREAM)))
		return BAD_HANDLE;
	for (Node *n = exec->first; n; n = n->next) {
		if (n->kind == NODE_KERNEL && !IS(n->f, MAGIC_FUNCTION))
			return BAD_HANDLE;
		TRY(node_run(n));
	}
	return OK;
}

EXPORT int cuGraphExecDestroy(Graph *exec);
int
cuGraphExecDestroy(Graph *exec)
{
	TRY(begin("cuGraphExecDestroy"));
	if (!IS(exec, MAGIC_EXEC))
		return BAD_HANDLE;
	graph_free(exec);
	return OK;
}

EXPORT int cuGraphDestroy(Graph *g);
int
cuGraphDestroy(Graph *g)
{
	TRY(begin("cuGraphDestroy"));
	if (!IS(g, MAGIC_GRAPH))
		return BAD_HANDLE;
	graph_free(g);
	return OK;
}
