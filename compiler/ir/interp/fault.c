/* The first thing that goes wrong in a launch: filled in where it happens, handed up as false. */
#include "ir/interp/plan.h"

#include <string.h>

bool
fault_at(Worker *w, const Op *op, FaultKind kind, const char *fmt, ...)
{
	Fault *f = w->fault;
	va_list ap;

	if (!f)
		return false;
	*f = (Fault){.kind = kind, .place = op ? op->place : NOWHERE, .other = NOWHERE};
	memcpy(f->program, w->program, sizeof f->program);
	va_start(ap, fmt);
	number_vformat(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return false;
}
