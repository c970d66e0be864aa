/* A stand-in for macOS's Objective-C runtime and Metal: libobjc.A.dylib for machines without either, found through
 * LD_LIBRARY_PATH.
 *
 * objc_msgSend is what it is there: it finds the method by the selector and jumps to it with the arguments as they came,
 * so that a call with the wrong type goes as wrong as it would. Objects are counted, autorelease pools are kept, and what
 * breaks Metal's rules (an object that is gone, an encoder that has ended, a buffer committed twice, bytes beyond 4 KB, a
 * selector that the object has not) is a misuse: one line on standard error, and counted.
 *
 * newLibraryWithSource compiles the text with the checker (tests/msl), and a dispatch runs it there: what the checker
 * reports is the command buffer's error.
 *
 * The environment says what there is: MOCK_METAL_DEVICES (1), MOCK_METAL_FAMILY (9), MOCK_METAL_DEFAULT (1; 0: there is no
 * default device), MOCK_METAL_THREADS (1024, what pipelines take), MOCK_METAL_WIDTH (32), MOCK_METAL_BUFFER (2^30, bytes of
 * one), MOCK_METAL_OLD (1: no math modes), MOCK_METAL_FAIL (queue, buffer, pipeline or launch). */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/msl/msl.h"

#define EXPORT __attribute__((visibility("default")))

typedef enum Kind {
	ANY, CLASS, STRING, ERROR, ARRAY, DEVICE, QUEUE, BUFFER, OPTIONS, LIBRARY, FUNCTION, PIPELINE, COMMANDS,
	ENCODER, KINDS
} Kind;

static const char *const kind_name[KINDS] = {"NSObject", "Class", "NSString", "NSError", "NSArray", "MTLDevice",
	"MTLCommandQueue", "MTLBuffer", "MTLCompileOptions", "MTLLibrary", "MTLFunction", "MTLComputePipelineState",
	"MTLCommandBuffer", "MTLComputeCommandEncoder"};

enum { ALIVE = 0x616c6976, GONE = 0x676f6e65 };
enum { MOST_BYTES = 4096 };                             /* of setBytes */

typedef struct Object {
	int magic, refs;
	Kind kind;
	struct Object *next;                                /* of all that live */
	struct Object *owner;                               /* kept alive by this one */
	char *text;                                         /* of a string, an error, a kernel's name */
	Kind of;                                            /* of a class */
	int index, n;
	void *bytes;
	size_t size;
	unsigned long version;
	int math;                                           /* of options: -1 not set, else the mode */
	MslProgram *program;
	MslLaunch launch;
	struct Object *bound[MSL_BUFFERS], *pipeline, *error;
	void *value[MSL_BUFFERS];                           /* what was passed as bytes */
	bool ended, committed, waited;
	double start, end;
} Object;

typedef struct Pool { struct Pool *outer; Object *kept[256]; int n; } Pool;
typedef struct Selector { const char *name; void (*method)(void); } Selector;
typedef struct Size { unsigned long width, height, depth; } Size;

static Object *objects;
static Pool *pool;
static int nmisuse;
static char last_misuse[256];
static double now = 100;

EXPORT int mock_metal_live(void);
EXPORT int mock_metal_misuse(void);
EXPORT const char *mock_metal_last_misuse(void);

static void misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
misuse(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(last_misuse, sizeof last_misuse, fmt, ap);
	va_end(ap);
	fprintf(stderr, "mock metal: %s\n", last_misuse);
	nmisuse++;
}

/* Objects that nobody has released. */
int
mock_metal_live(void)
{
	int n = 0;
	for (Object *o = objects; o; o = o->next)
		n += o->magic == ALIVE && o->kind != CLASS;
	return n;
}

int
mock_metal_misuse(void)
{
	int n = nmisuse;
	nmisuse = 0;
	return n;
}

const char *mock_metal_last_misuse(void) { return last_misuse; }

static long
setting(const char *name, long absent)
{
	const char *s = getenv(name);
	return s && *s ? strtol(s, NULL, 10) : absent;
}

static bool
fails(const char *what)
{
	const char *s = getenv("MOCK_METAL_FAIL");
	return s && strcmp(s, what) == 0;
}

/* ---- objects ---- */

static Object *
object(Kind kind)
{
	Object *o = calloc(1, sizeof *o);
	*o = (Object){.magic = ALIVE, .refs = 1, .kind = kind, .next = objects, .math = -1};
	objects = o;
	return o;
}

static Object *
keep(Object *o)
{
	if (o)
		o->refs++;
	return o;
}

/* What is gone stays as a corpse, so that messages to it are noticed. */
static void
drop(Object *o)
{
	if (!o || --o->refs > 0)
		return;
	o->magic = GONE;
	if (o->kind == BUFFER)
		msl_unguard(o->bytes, o->size);
	if (o->kind == LIBRARY)
		msl_close(o->program);
	for (int i = 0; i < MSL_BUFFERS; i++) {
		drop(o->bound[i]);
		free(o->value[i]);
	}
	drop(o->pipeline);
	drop(o->owner);
	drop(o->error);
	free(o->text);
}

static Object *
later(Object *o)
{
	if (!pool || pool->n == 256)
		misuse("an object is autoreleased with no pool in place: it leaks");
	else
		pool->kept[pool->n++] = o;
	return o;
}

/* The receiver, or NULL after saying what is wrong with it. */
static Object *
self_of(Object *o, Kind kind, const char *method)
{
	if (o->magic != ALIVE)
		misuse("%s is sent to %s", method, o->magic == GONE ? "an object that is gone" : "what is no object");
	else if (kind != ANY && o->kind != kind)
		misuse("%s does not respond to %s", kind_name[o->kind], method);
	else
		return o;
	return NULL;
}

#define SELF(kind, absent)                                                                                             \
	o = self_of(o, kind, __func__ + 2);                                                                             \
	if (!o)                                                                                                         \
		return absent

static Object *
string(const char *s)
{
	Object *o = object(STRING);
	o->text = strdup(s);
	return o;
}

static Object *
error_of(const char *text)
{
	Object *o = object(ERROR);
	o->text = strdup(text);
	return o;
}

/* ---- methods: m_ and what the table below calls them ---- */

static void *m_retain(Object *o, Selector *s) { SELF(ANY, NULL); return keep(o); }
static void m_release(Object *o, Selector *s) { SELF(ANY, ); drop(o); }

static void *
m_new(Object *o, Selector *s)
{
	SELF(CLASS, NULL);
	return object(o->of);
}

static signed char
m_responds(Object *o, Selector *s, Selector *asked)
{
	SELF(ANY, 0);
	if (strcmp(asked->name, "setMathMode:") == 0)
		return o->kind == OPTIONS && !setting("MOCK_METAL_OLD", 0);
	return asked->method != NULL;
}

static void *
m_string(Object *o, Selector *s, const char *text)
{
	SELF(CLASS, NULL);
	return later(string(text));
}

static const char *m_utf8(Object *o, Selector *s) { SELF(STRING, NULL); return o->text; }
static void *m_description(Object *o, Selector *s) { SELF(ERROR, NULL); return later(string(o->text)); }
static long m_code(Object *o, Selector *s) { SELF(ERROR, 0); return 1; }
static unsigned long m_count(Object *o, Selector *s) { SELF(ARRAY, 0); return (unsigned long)o->n; }

static Object *
device(int index)
{
	Object *o = object(DEVICE);
	o->index = index;
	return o;
}

static void *
m_objectAtIndex(Object *o, Selector *s, unsigned long i)
{
	SELF(ARRAY, NULL);
	if (i >= (unsigned long)o->n) {
		misuse("element %lu of an array of %d", i, o->n);
		return NULL;
	}
	return later(device((int)i));
}

static void *
m_name(Object *o, Selector *s)
{
	SELF(DEVICE, NULL);
	char text[64];
	snprintf(text, sizeof text, "Mock M%d", o->index + 1);
	return later(string(text));
}

static signed char
m_supportsFamily(Object *o, Selector *s, long family)
{
	SELF(DEVICE, 0);
	return family > 1000 && family <= 1000 + setting("MOCK_METAL_FAMILY", 9);
}

static unsigned long long m_workingSet(Object *o, Selector *s) { SELF(DEVICE, 0); return 8ull << 30; }

static unsigned long
m_maxBuffer(Object *o, Selector *s)
{
	SELF(DEVICE, 0);
	return (unsigned long)setting("MOCK_METAL_BUFFER", 1 << 30);
}

static unsigned long m_maxShared(Object *o, Selector *s) { SELF(DEVICE, 0); return MSL_MAX_SHARED; }

static void *
m_newCommandQueue(Object *o, Selector *s)
{
	SELF(DEVICE, NULL);
	Object *q = fails("queue") ? NULL : object(QUEUE);
	if (q)
		q->owner = keep(o);
	return q;
}

static void *
m_newBuffer(Object *o, Selector *s, unsigned long size, unsigned long options)
{
	SELF(DEVICE, NULL);
	if (size == 0 || size > (unsigned long)setting("MOCK_METAL_BUFFER", 1 << 30) || options != 0) {
		misuse("a buffer of %lu bytes with options %lu", size, options);
		return NULL;
	}
	if (fails("buffer"))
		return NULL;
	Object *b = object(BUFFER);
	b->bytes = msl_guarded(size);
	b->size = size;
	memset(b->bytes, 0xa5, size);
	return b;
}

static void *m_contents(Object *o, Selector *s) { SELF(BUFFER, NULL); return o->bytes; }

/* ---- compiling ---- */

static void m_setVersion(Object *o, Selector *s, unsigned long v) { SELF(OPTIONS, ); o->version = v; }
static void m_setMathMode(Object *o, Selector *s, long v) { SELF(OPTIONS, ); o->math = (int)v; }
static void m_setFastMath(Object *o, Selector *s, signed char v) { SELF(OPTIONS, ); o->math = v ? 2 : 0; }

static void *
m_newLibrary(Object *o, Selector *s, Object *text, Object *options, Object **error)
{
	char path[] = "/tmp/mock_metal.XXXXXX";
	SELF(DEVICE, NULL);
	if (!self_of(text, STRING, "newLibraryWithSource") || !self_of(options, OPTIONS, "newLibraryWithSource"))
		return NULL;
	if (options->version < 0x30001 || options->math != 0)
		misuse("kernels are compiled for Metal 3.1 without fast arithmetic, not %lx, mode %d",
		    options->version, options->math);
	int fd = mkstemp(path);
	if (fd < 0 || write(fd, text->text, strlen(text->text)) != (ssize_t)strlen(text->text))
		misuse("no temporary file");
	close(fd);
	MslProgram *p = msl_open(path);
	unlink(path);
	if (p->error) {
		*error = later(error_of(p->error));
		msl_close(p);
		return NULL;
	}
	*error = later(error_of("a warning, which is no failure"));
	Object *l = object(LIBRARY);
	l->program = p;
	return l;
}

static void *
m_newFunction(Object *o, Selector *s, Object *name)
{
	SELF(LIBRARY, NULL);
	if (!self_of(name, STRING, "newFunctionWithName:") || !msl_kernel(o->program, name->text))
		return NULL;
	Object *f = object(FUNCTION);
	f->owner = keep(o);
	f->text = strdup(name->text);
	return f;
}

static void *
m_newPipeline(Object *o, Selector *s, Object *function, Object **error)
{
	SELF(DEVICE, NULL);
	if (!self_of(function, FUNCTION, "newComputePipelineState"))
		return NULL;
	if (fails("pipeline")) {
		*error = later(error_of("too many registers"));
		return NULL;
	}
	Object *p = object(PIPELINE);
	p->owner = keep(function);
	return p;
}

static const MslKernel *
kernel_of(const Object *pipeline)
{
	return msl_kernel(pipeline->owner->owner->program, pipeline->owner->text);
}

static unsigned long
m_maxThreads(Object *o, Selector *s)
{
	SELF(PIPELINE, 0);
	unsigned long most = (unsigned long)setting("MOCK_METAL_THREADS", MSL_MAX_THREADS);
	int said = kernel_of(o)->threads;
	return said >= 0 && (unsigned long)said < most ? (unsigned long)said : most;
}

static unsigned long
m_width(Object *o, Selector *s)
{
	SELF(PIPELINE, 0);
	return (unsigned long)setting("MOCK_METAL_WIDTH", 32);
}


static unsigned long
m_staticShared(Object *o, Selector *s)
{
	SELF(PIPELINE, 0);
	unsigned long n = 0;
	for (int i = 0; i < kernel_of(o)->narray; i++)
		n = ((n + 15) & ~15ul) + kernel_of(o)->array[i].size;
	return n;
}

/* ---- running ---- */

static void *
m_commandBuffer(Object *o, Selector *s)
{
	SELF(QUEUE, NULL);
	return later(object(COMMANDS));
}

static void *
m_encoder(Object *o, Selector *s)
{
	SELF(COMMANDS, NULL);
	Object *e = object(ENCODER);
	e->owner = keep(o);
	o->n++;                                             /* encoders that are open */
	return later(e);
}

static Object *
encoder_of(Object *o, const char *method)
{
	o = self_of(o, ENCODER, method);
	if (o && o->ended)
		misuse("%s to an encoder that has ended", method);
	return o && !o->ended ? o : NULL;
}

static bool
good_index(unsigned long i)
{
	if (i >= MSL_BUFFERS)
		misuse("buffer index %lu", i);
	return i < MSL_BUFFERS;
}

static void
m_setPipeline(Object *o, Selector *s, Object *p)
{
	o = encoder_of(o, __func__ + 2);
	if (o && self_of(p, PIPELINE, "setComputePipelineState:")) {
		drop(o->pipeline);
		o->pipeline = keep(p);
	}
}

static void
m_setBuffer(Object *o, Selector *s, Object *b, unsigned long offset, unsigned long i)
{
	o = encoder_of(o, __func__ + 2);
	if (!o || !good_index(i) || (b && !self_of(b, BUFFER, "setBuffer")))
		return;
	if (b && offset >= b->size)
		misuse("offset %lu into a buffer of %zu bytes", offset, b->size);
	drop(o->bound[i]);
	o->bound[i] = keep(b);
	o->launch.buffer[i] = (MslBuffer){0};
	if (b)
		o->launch.buffer[i] = (MslBuffer){(char *)b->bytes + offset, b->size - offset, 1, false, false};
}

static void
m_setBytes(Object *o, Selector *s, const void *bytes, unsigned long n, unsigned long i)
{
	o = encoder_of(o, __func__ + 2);
	if (!o || !good_index(i))
		return;
	if (n == 0 || n > MOST_BYTES) {
		misuse("%lu bytes by value", n);
		return;
	}
	free(o->value[i]);
	o->value[i] = malloc(n);
	memcpy(o->value[i], bytes, n);
	o->launch.buffer[i] = (MslBuffer){o->value[i], n, 1, false, true};
}

static void
m_setShared(Object *o, Selector *s, unsigned long n, unsigned long i)
{
	o = encoder_of(o, __func__ + 2);
	if (n % 16 || i != 0)
		misuse("%lu bytes of threadgroup memory at %lu", n, i);
	if (o)
		o->launch.threadgroup_bytes = (int)n;
}

static void
m_dispatch(Object *o, Selector *s, Size groups, Size threads)
{
	o = encoder_of(o, __func__ + 2);
	if (!o)
		return;
	if (!o->pipeline) {
		misuse("a dispatch without a pipeline");
		return;
	}
	unsigned long n = threads.width * threads.height * threads.depth;
	if (n > m_maxThreads(o->pipeline, s)) {             /* on a Mac such a launch does nothing, without an error */
		misuse("a dispatch of %lu threads, and the pipeline takes %lu", n, m_maxThreads(o->pipeline, s));
		return;
	}
	MslReports *r = calloc(1, sizeof *r);
	MslLaunch *l = &o->launch;
	l->kernel = kernel_of(o->pipeline);
	const unsigned long g[3] = {groups.width, groups.height, groups.depth};
	const unsigned long t[3] = {threads.width, threads.height, threads.depth};
	for (int i = 0; i < 3; i++) {
		l->groups[i] = (int)g[i];
		l->threads[i] = (int)t[i];
	}
	msl_launch(o->pipeline->owner->owner->program, l, r);
	if (r->n) {
		char text[512];
		snprintf(text, sizeof text, "line %d: %s: %s", r->at[0].line, r->at[0].kind, r->at[0].text);
		o->owner->error = error_of(text);
	}
	free(r);
}

static void
m_endEncoding(Object *o, Selector *s)
{
	o = encoder_of(o, __func__ + 2);
	if (o) {
		o->ended = true;
		o->owner->n--;
	}
}

static void
m_commit(Object *o, Selector *s)
{
	SELF(COMMANDS, );
	if (o->committed || o->n)
		misuse(o->n ? "a commit while an encoder is open" : "a second commit");
	o->committed = true;
	o->start = now;
	o->end = now += 0.001;
	if (fails("launch"))
		o->error = error_of("the GPU hung");
}

static void
m_wait(Object *o, Selector *s)
{
	SELF(COMMANDS, );
	if (!o->committed)
		misuse("waiting for a command buffer that was not committed");
	o->waited = true;
}

static void *
m_error(Object *o, Selector *s)
{
	SELF(COMMANDS, NULL);
	if (!o->waited)
		misuse("the error of a command buffer that was not waited for");
	return o->error;
}

static double m_gpuStart(Object *o, Selector *s) { SELF(COMMANDS, 0); return o->start; }
static double m_gpuEnd(Object *o, Selector *s) { SELF(COMMANDS, 0); return o->end; }

/* ---- the runtime ---- */

#define ROW(name, method) {name, (void (*)(void))method}
static Selector selectors[] = {
	ROW("retain", m_retain), ROW("release", m_release), ROW("new", m_new), ROW("respondsToSelector:", m_responds),
	ROW("stringWithUTF8String:", m_string), ROW("UTF8String", m_utf8), ROW("localizedDescription", m_description),
	ROW("code", m_code), ROW("count", m_count), ROW("objectAtIndex:", m_objectAtIndex), ROW("name", m_name),
	ROW("supportsFamily:", m_supportsFamily), ROW("recommendedMaxWorkingSetSize", m_workingSet),
	ROW("maxBufferLength", m_maxBuffer), ROW("maxThreadgroupMemoryLength", m_maxShared),
	ROW("newCommandQueue", m_newCommandQueue), ROW("newBufferWithLength:options:", m_newBuffer),
	ROW("contents", m_contents),
	ROW("setLanguageVersion:", m_setVersion), ROW("setMathMode:", m_setMathMode),
	ROW("setFastMathEnabled:", m_setFastMath),
	ROW("newLibraryWithSource:options:error:", m_newLibrary), ROW("newFunctionWithName:", m_newFunction),
	ROW("newComputePipelineStateWithFunction:error:", m_newPipeline),
	ROW("maxTotalThreadsPerThreadgroup", m_maxThreads),
	ROW("threadExecutionWidth", m_width), ROW("staticThreadgroupMemoryLength", m_staticShared),
	ROW("commandBuffer", m_commandBuffer), ROW("computeCommandEncoder", m_encoder),
	ROW("setComputePipelineState:", m_setPipeline), ROW("setBuffer:offset:atIndex:", m_setBuffer),
	ROW("setBytes:length:atIndex:", m_setBytes), ROW("setThreadgroupMemoryLength:atIndex:", m_setShared),
	ROW("dispatchThreadgroups:threadsPerThreadgroup:", m_dispatch), ROW("endEncoding", m_endEncoding),
	ROW("commit", m_commit), ROW("waitUntilCompleted", m_wait), ROW("error", m_error), ROW("GPUStartTime", m_gpuStart),
	ROW("GPUEndTime", m_gpuEnd),
};

static void
m_unknown(Object *o, Selector *s)
{
	misuse("nothing responds to %s", s->name);
}

EXPORT void *sel_registerName(const char *name);
EXPORT void *objc_getClass(const char *name);
EXPORT void *objc_autoreleasePoolPush(void);
EXPORT void objc_autoreleasePoolPop(void *p);
EXPORT void *MTLCreateSystemDefaultDevice(void);
EXPORT void *MTLCopyAllDevices(void);

void *
sel_registerName(const char *name)
{
	for (size_t i = 0; i < sizeof selectors / sizeof *selectors; i++)
		if (strcmp(selectors[i].name, name) == 0)
			return &selectors[i];
	Selector *s = calloc(1, sizeof *s);                 /* one for ever, as there */
	*s = (Selector){strdup(name), (void (*)(void))m_unknown};
	return s;
}

void *
objc_getClass(const char *name)
{
	for (Object *o = objects; o; o = o->next)
		if (o->kind == CLASS && strcmp(kind_name[o->of], name) == 0)
			return o;
	for (int i = 0; i < KINDS; i++)
		if (strcmp(kind_name[i], name) == 0) {
			Object *o = object(CLASS);
			o->of = (Kind)i;
			return o;
		}
	return NULL;
}

void *
objc_autoreleasePoolPush(void)
{
	Pool *p = calloc(1, sizeof *p);
	p->outer = pool;
	pool = p;
	return p;
}

void
objc_autoreleasePoolPop(void *p)
{
	if (p != pool)
		misuse("an autorelease pool is popped out of turn");
	for (Pool *inner; (inner = pool);) {
		for (int i = 0; i < inner->n; i++)
			drop(inner->kept[i]);
		pool = inner->outer;
		free(inner);
		if (inner == p)
			return;
	}
}

void *
MTLCreateSystemDefaultDevice(void)
{
	return setting("MOCK_METAL_DEFAULT", 1) && setting("MOCK_METAL_DEVICES", 1) ? device(0) : NULL;
}

void *
MTLCopyAllDevices(void)
{
	Object *o = object(ARRAY);
	o->n = (int)setting("MOCK_METAL_DEVICES", 1);
	return o;
}

/* A message to nil gives 0. */
EXPORT void objc_msgSend(void);
#if defined(__x86_64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
	"	testq %rdi, %rdi\n	je 1f\n	jmp *8(%rsi)\n"
	"1:	xorl %eax, %eax\n	xorps %xmm0, %xmm0\n	ret\n.size objc_msgSend, . - objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, %function\nobjc_msgSend:\n"
	"	cbz x0, 1f\n	ldr x9, [x1, #8]\n	br x9\n"
	"1:	movi d0, #0\n	ret\n.size objc_msgSend, . - objc_msgSend\n");
#endif
