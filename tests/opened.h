/* One case of a kernel on one device, and all that has to be open for it: for test programs that run many. */
#ifndef TEGULA_TESTS_OPENED_H
#define TEGULA_TESTS_OPENED_H

#include "runtime/tgl.h"

typedef struct Opened {
	TglContext *cx;
	TglDevice *dev;
	TglProgram *program;
	TglKernel *k;
	TglCase *c;
} Opened;

static inline void
close_all(Opened *x)
{
	tgl_case_close(&x->c);
	tgl_program_close(&x->program);
	tgl_device_close(&x->dev);
	tgl_context_close(&x->cx);
}

#endif
