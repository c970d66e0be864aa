/* The Metal device: the GPU of a Mac with Apple silicon, through the Objective-C runtime.
 *
 * Memory is one for both sides, so that a tensor is reached by the host as it is; each launch is waited for.  A kernel's
 * arguments are buffer objects with offsets, not addresses, so that the device keeps a list of its buffers.  It has been
 * run on a stand-in for Apple's libraries only (tests/mock/objc.c). */
#include "runtime/metal/metal.h"

#include <stdlib.h>
#include <string.h>

/* Whether the device is listed where it is not available: other systems cannot have one. */
#ifdef __APPLE__
enum { METAL_LISTED = true };
#else
enum { METAL_LISTED = false };
#endif

/* ---- probing ---- */

static void
release(const Metal *m, void **object)
{
	if (*object && m->objc_msgSend)
		METAL_SEND(m, release)(*object, m->release);
	*object = NULL;
}

/* Number `index` of all devices; kept for the caller.  Without a window's session there may be no default one. */
static void *
find_device(const Metal *m, int index)
{
	void *one = index == 0 ? m->MTLCreateSystemDefaultDevice() : NULL;
	if (one)
		return one;
	void *all = m->MTLCopyAllDevices();
	if (all && METAL_SEND(m, count)(all, m->count) > (unsigned long)index) {
		one = METAL_SEND(m, object_at)(all, m->object_at, (unsigned long)index);
		METAL_SEND(m, retain)(one, m->retain);
	}
	release(m, &all);
	return one;
}

static const Target *
best_target(int family)
{
	const Target *best = NULL, *t;
	for (int i = 0; (t = target_at(i)); i++)
		if (t->kind == TARGET_METAL && t->capability <= family && (!best || t->capability > best->capability))
			best = t;
	return best;
}

/* Fills in what the device is; false: kernels are not made for it. */
static bool
describe(MetalState *s, DeviceError *error)
{
	const Metal *m = &s->metal;
	void *name = METAL_SEND(m, name)(s->device, m->name);
	const char *words = name ? METAL_SEND(m, utf8)(name, m->utf8) : "a GPU";
	snprintf(s->name, sizeof s->name, "%s", words);
	for (int family = METAL_LEAST_FAMILY; family < METAL_LEAST_FAMILY + 20; family++)
		if (METAL_SEND(m, supports_family)(s->device, m->supports_family, METAL_FAMILY_APPLE + family))
			s->family = family;
	s->memory = METAL_SEND(m, working_set)(s->device, m->working_set);
	s->max_shared = METAL_SEND(m, max_shared)(s->device, m->max_shared);
	const Target *t = best_target(s->family);
	if (!t)
		return device_error(error, DEVICE_FAILED, "run on Apple silicon (M1, A14 or later)",
		    "%s is not of Apple's own family 7 or later", s->name);
	number_format(s->text, sizeof s->text, "%s, Apple family %d, %.0f GiB; kernels are compiled for %s", s->name,
	    s->family, (double)s->memory / (1 << 30), t->name);
	return true;
}

static bool
open_gpu(MetalState *s, int index, DeviceError *error)
{
	s->device = find_device(&s->metal, index);
	if (s->device)
		return describe(s, error);
	return device_error(error, DEVICE_FAILED, "", "there is no Metal device number %d", index);
}

static void
fill_info(const MetalState *s, TglDeviceInfo *out)
{
	const Target *t = best_target(s->family);
	out->name = "metal";
	out->text = s->text;
	out->target = t ? t->name : "";
	out->threads = 1;
	out->memory = s->memory;
}

static bool
metal_probe(int index, DeviceProbe *out)
{
	MetalState s = {0};
	DeviceError error = {0};
	*out = (DeviceProbe){.name = "metal"};
	out->info.name = out->name;
	out->info.target = "metal";
	if (index > 0)
		return false;
	bool open = metal_open(&s.metal, &error);
	if (!open && !METAL_LISTED)
		return false;
	void *pool = open ? s.metal.objc_autoreleasePoolPush() : NULL;
	void (*pop)(void *) = s.metal.objc_autoreleasePoolPop;
	out->info.available = open && open_gpu(&s, 0, &error);
	if (out->info.available)
		fill_info(&s, &out->info);
	device_probe_text(out, &error);
	release(&s.metal, &s.device);
	if (open)
		pop(pool);
	return true;
}

static void
metal_info(const Device *d, TglDeviceInfo *out)
{
	fill_info(d->state, out);
}

/* ---- opening ---- */

static void
metal_close_device(Device *d)
{
	MetalState *s = METAL_STATE(d);
	release(&s->metal, &s->queue);
	release(&s->metal, &s->device);
	metal_close(&s->metal);
	free(s->buffer);
	free(s);
	d->state = NULL;
}

static bool
open_queue(Device *d)
{
	MetalState *s = METAL_STATE(d);
	s->queue = METAL_SEND(&s->metal, new_queue)(s->device, s->metal.new_queue);
	if (!s->queue)
		device_fail(d, DEVICE_FAILED, "", "%s gives no command queue", s->name);
	return s->queue;
}

static bool
metal_open_device(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks)
{
	if (device_gpu_refuses(d, opt))
		return false;
	MetalState *s = memory_new(1, sizeof *s);
	d->state = s;
	bool open = metal_open(&s->metal, &d->error);
	void *pool = open ? s->metal.objc_autoreleasePoolPush() : NULL;
	void (*pop)(void *) = s->metal.objc_autoreleasePoolPop;
	bool ok = open && open_gpu(s, index, &d->error) && open_queue(d);
	if (ok)
		d->target = best_target(s->family)->name;
	else
		metal_close_device(d);
	if (open)
		pop(pool);
	return ok;
}

/* ---- memory ---- */

/* The first whose end lies behind p. */
static int
buffer_index(const MetalState *s, const void *p)
{
	int lo = 0, hi = s->nbuffer;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (s->buffer[mid].bytes + s->buffer[mid].size <= (const char *)p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const MetalBuffer *
metal_buffer_of(const MetalState *s, const void *p, size_t size)
{
	int i = buffer_index(s, p);
	if (i == s->nbuffer || (const char *)p < s->buffer[i].bytes)
		return NULL;
	const MetalBuffer *b = &s->buffer[i];
	return size <= b->size - (size_t)((const char *)p - b->bytes) ? b : NULL;
}

static bool
keep_buffer(MetalState *s, MetalBuffer b)
{
	if (s->nbuffer == s->room) {
		int room = MAX(16, 2 * s->room);
		MetalBuffer *more = realloc(s->buffer, (size_t)room * sizeof *more);
		if (!more)
			return false;
		s->buffer = more;
		s->room = room;
	}
	int i = buffer_index(s, b.bytes);
	memmove(&s->buffer[i + 1], &s->buffer[i], (size_t)(s->nbuffer - i) * sizeof *s->buffer);
	s->buffer[i] = b;
	s->nbuffer++;
	return true;
}

static void *
metal_alloc(Device *d, size_t size)
{
	MetalState *s = METAL_STATE(d);
	const Metal *m = &s->metal;
	unsigned long most = METAL_SEND(m, max_buffer)(s->device, m->max_buffer);
	if (size > most) {
		device_fail(d, DEVICE_NO_MEMORY, "", "a buffer of %zu bytes; %s has at most %lu in one", size,
		    s->name, most);
		return NULL;
	}
	size_t whole = (MAX(size, 1) + METAL_WORD - 1) / METAL_WORD * METAL_WORD;
	MetalBuffer b = {.object = METAL_SEND(m, new_buffer)(s->device, m->new_buffer, whole, 0), .size = whole};
	if (b.object)
		b.bytes = METAL_SEND(m, contents)(b.object, m->contents);
	if (!b.bytes || !keep_buffer(s, b)) {
		release(m, &b.object);
		device_fail(d, DEVICE_NO_MEMORY, "", "%s has no buffer of %zu bytes left", s->name, size);
		return NULL;
	}
	memset(b.bytes, 0, b.size);
	return b.bytes;
}

static void
metal_free(Device *d, void *p, size_t size)
{
	MetalState *s = METAL_STATE(d);
	int i = p ? buffer_index(s, p) : s->nbuffer;
	if (i == s->nbuffer || s->buffer[i].bytes != p)
		return;
	release(&s->metal, &s->buffer[i].object);
	s->nbuffer--;
	memmove(&s->buffer[i], &s->buffer[i + 1], (size_t)(s->nbuffer - i) * sizeof *s->buffer);
}

static bool
metal_reaches(Device *d, const void *p, size_t size)
{
	if (size == 0 || metal_buffer_of(METAL_STATE(d), p, size))
		return true;
	device_fail(d, DEVICE_FAILED, "copy the data with tgl_tensor_write",
	    "memory at %p is in no buffer of the GPU's", p);
	return false;
}

/* ---- time ---- */

static bool
metal_time_begin(Device *d)
{
	METAL_STATE(d)->seconds = 0;
	return true;
}

static bool
metal_time_end(Device *d, double *seconds)
{
	*seconds = METAL_STATE(d)->seconds;
	return true;
}

const Device device_metal = {
    .name = "metal",
    .target = "metal",
    .host = true,
    .probe = metal_probe,
    .open = metal_open_device,
    .close = metal_close_device,
    .info = metal_info,
    .alloc = metal_alloc,
    .free = metal_free,
    .copy_in = device_host_copy,
    .copy_out = device_host_copy,
    .reaches = metal_reaches,
    .load_artefact = metal_load,
    .unload = metal_unload,
    .resources = metal_resources,
    .launch = metal_launch,
    .time_begin = metal_time_begin,
    .time_end = metal_time_end,
    .sync = metal_sync,
};
