/* Reports.  A line that is wrong is wrong for every thread and in every group: it is reported once. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/msl/msl.h"

bool
msl_reported(const MslReports *r, const char *kind, int line)
{
	for (int i = 0; i < r->n; i++)
		if (r->at[i].line == line && strcmp(r->at[i].kind, kind) == 0)
			return true;
	return false;
}

void
msl_report(MslReports *r, const char *kind, int line, const char *fmt, ...)
{
	va_list ap;
	if (msl_reported(r, kind, line))
		return;
	if (r->n == MSL_MAX_REPORTS) {
		r->dropped++;
		return;
	}
	MslReport *to = &r->at[r->n++];
	to->kind = kind;
	to->line = line;
	va_start(ap, fmt);
	vsnprintf(to->text, sizeof to->text, fmt, ap);
	va_end(ap);
}
