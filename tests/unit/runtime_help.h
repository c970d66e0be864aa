/* What the tests of the library share: a context with a cpu device and a program, and calls that must succeed. */
#ifndef RUNTIME_HELP_H
#define RUNTIME_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/tgl.h"

typedef struct Fixture {
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
} Fixture;

static int
fixture_open(void **state, const char *name, const char *source, int threads)
{
	Fixture *f = calloc(1, sizeof *f);
	f->cx = tgl_context_open();
	f->dev = tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.threads = threads});
	f->p = tgl_program_text(f->cx, name, source, strlen(source));
	if (!f->p)
		print_error("%s", tgl_error(f->cx)->text);
	*state = f;
	return f->p && f->dev ? 0 : -1;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
	free(f);
	return 0;
}

static void
assert_ok(TglContext *cx, TglStatus s)
{
	if (s != TGL_OK)
		print_error("%s", tgl_error(cx)->text);
	assert_string_equal(tgl_status_name(s), "ok");
}

#endif
