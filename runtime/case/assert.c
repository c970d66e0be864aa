/* What an assert that did not hold left behind on a GPU, in the words of the cpu device. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

static void
format_value(const FaultRecord *r, int i, Text *out)
{
	double f;
	memcpy(&f, &r->value[i], sizeof f);
	switch ((FaultValueKind)r->kind[i]) {
	case FAULT_VALUE_INT: text_printf(out, " %" PRId64, (int64_t)r->value[i]); break;
	case FAULT_VALUE_UNSIGNED: text_printf(out, " %" PRIu64, r->value[i]); break;
	case FAULT_VALUE_FLOAT: text_printf(out, " %.9g", f); break;
	case FAULT_VALUE_BOOL: text_put(out, r->value[i] ? " true" : " false"); break;
	case FAULT_VALUE_NONE: break;
	}
}

void
device_assert_fault(const FaultRecord *r, int naxis, const char *text, Fault *fault)
{
	Text t = {0};
	memcpy(fault->program, r->program, sizeof fault->program);
	text_put(&t, "assertion failed in ");
	program_format(naxis, fault->program, &t);
	if (r->element) {
		fault->element = (int64_t)r->element - 1;
		text_printf(&t, " at element %" PRId64, fault->element);
	}
	if (text[0] || r->kind[0] != FAULT_VALUE_NONE)
		text_printf(&t, ": %s", text);
	for (int i = 0; i < FAULT_VALUES; i++)
		format_value(r, i, &t);
	snprintf(fault->text, sizeof fault->text, "%s", t.at);
	text_close(&t);
}

static bool
colon_number(const char **s, int *out)
{
	char *end;
	if ((*s)[0] != ':' || !char_is_digit((*s)[1]))
		return false;
	*out = (int)strtol(*s + 1, &end, 10);
	*s = end;
	return true;
}

/* "FILE:LINE:COL: text": the first place where two numbers stand between colons, as files may hold
 * colons.  Returns the text. */
static const char *
assert_text(const char *s, Fault *fault)
{
	for (const char *p = strchr(s, ':'); p; p = strchr(p + 1, ':')) {
		const char *rest = p;
		int line, col;
		if (!colon_number(&rest, &line) || !colon_number(&rest, &col) || rest[0] != ':' || rest[1] != ' ')
			continue;
		fault->place.line = line;
		fault->place.col = col;
		fault->path = s;
		fault->path_size = (int)(p - s);
		return rest + 2;
	}
	return s;
}

void
artefact_fault(const Artefact *a, const FaultRecord *r, Fault *fault)
{
	const char *text = r->number <= (uint32_t)a->nasserts ? a->asserts[r->number - 1] : "";
	*fault = (Fault){.kind = FAULT_ASSERT, .place = NOWHERE, .other = NOWHERE, .param = NULL};
	device_assert_fault(r, a->naxis, assert_text(text, fault), fault);
}
