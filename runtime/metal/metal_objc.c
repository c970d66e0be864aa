/* macOS's libraries, opened at run time.
 *
 * CoreGraphics is opened although nothing of it is called: without it MTLCreateSystemDefaultDevice finds no device in a
 * program that has no window.  Elsewhere than on macOS there are no such libraries, and the device is not available. */
#include "runtime/metal/metal.h"

#include <dlfcn.h>

#ifdef __APPLE__
static const char *const library[] = {
	"/usr/lib/libobjc.A.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/Metal.framework/Metal",
};
#else
static const char *const library[] = {"libobjc.A.dylib"};
#endif

static bool
refuse(Metal *m, DeviceError *error, const char *help, const char *what, const char *name)
{
	error->what = DEVICE_FAILED;
	snprintf(error->text, sizeof error->text, "%s%s", what, name);
	snprintf(error->help, sizeof error->help, "%s", help);
	metal_close(m);
	return false;
}

static void *
find(const Metal *m, const char *name)
{
	void *p = NULL;
	for (int i = LEN(library) - 1; i >= 0 && !p; i--)
		p = dlsym(m->lib[i], name);
	return p;
}

bool
metal_open(Metal *m, DeviceError *error)
{
	*m = (Metal){0};
	for (int i = 0; i < LEN(library); i++) {
		m->lib[i] = dlopen(library[i], RTLD_NOW | RTLD_LOCAL);
		if (!m->lib[i])
			return refuse(m, error, "run on macOS, on Apple silicon", "there is no Metal here: ", dlerror());
	}
#define METAL_FUNCTION(name, result, params)                                                       \
	*(void **)&m->name = find(m, #name);                                                       \
	if (!m->name)                                                                              \
		return refuse(m, error, "update macOS", "this macOS lacks ", #name);
#include "runtime/metal/metal.def"
#undef METAL_FUNCTION
#define METAL_SELECTOR(name, text, result, params) m->name = m->sel_registerName(text);
#include "runtime/metal/metal.def"
#undef METAL_SELECTOR
	return true;
}

/* The libraries stay open: Objective-C's classes cannot be taken back. */
void
metal_close(Metal *m)
{
	*m = (Metal){0};
}

void *
metal_string(const Metal *m, const char *s)
{
	return METAL_SEND(m, string_with)(m->objc_getClass("NSString"), m->string_with, s);
}

const char *
metal_words(const Metal *m, void *error)
{
	void *s = error ? METAL_SEND(m, description)(error, m->description) : NULL;
	const char *text = s ? METAL_SEND(m, utf8)(s, m->utf8) : NULL;
	return text ? text : "it does not say why";
}
