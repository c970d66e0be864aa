/* Whether a kernel's PTX may be launched while the grid before it still runs.
 *
 * Lowering puts griddepcontrol.wait at the entry (lower.c), but LLVM comes in between, and a source may hold PTX of its
 * own; and what was hoisted over the wait would read what is about to be written, now and then.  So the text itself is
 * asked, and a kernel that does not plainly wait first is launched the plain way, which is always right:
 *
 *     .entry k(…) { .reg …; ld.param …; griddepcontrol.wait; …      only such lines may stand before the wait
 *     ld.global.nc …                                                nowhere: ptxas moves these up past the wait
 */
#include "compile/compile.h"

#include <string.h>

static bool
starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* A line of one instruction at most that touches no memory but parameters, and goes nowhere else. */
static bool
is_harmless(const char *s)
{
	static const char *const start[] = {"//", ".", "ld.param.", "mov.", "cvta.", "add.", "setp."};
	size_t n = strcspn(s, "\n"), first = strcspn(s, ";\n");
	if (n == 0 || s[n - 1] == ':')
		return true;
	if (first + 1 < n && !starts(s, "//"))
		return false;
	if (starts(s, "@%p"))
		return starts(s + strcspn(s, " \n"), " griddepcontrol.launch_dependents;");
	for (int i = 0; i < LEN(start); i++)
		if (starts(s, start[i]))
			return true;
	return false;
}

/* A line that moves device memory by other than cp.async: loads but of parameters and shared memory, stores but to that,
 * atomics and bulk copies, of several instructions too. */
static bool
moves_more(const char *s)
{
	static const char *const move[] = {".global", "ld.b", "ld.v", "ld.u", "st.b", "st.v", "st.u", "atom.", " red.",
		"\tred.", "tex.", "cp.async.bulk", "call"};
	size_t n = strcspn(s, "\n");
	bool several = strcspn(s, ";\n") + 1 < n;
	if (starts(s, "red."))
		return true;
	if (starts(s, "//") || starts(s, ".") || (starts(s, "cp.async.c") && !several))
		return false;
	for (int i = 0; i < LEN(move); i++) {
		const char *at = strstr(s, move[i]);
		if (at && at < s + n)
			return true;
	}
	return false;
}

bool
ptx_waits_late(const char *text)
{
	const char *entry = strstr(text, ".entry "), *s = entry ? strstr(entry, "\n{") : NULL;
	if (strstr(text, ".nc."))
		return false;
	for (s = s ? strchr(s + 1, '\n') : NULL; s; s = strchr(s, '\n')) {
		s += 1 + strspn(s + 1, " \t");
		if (starts(s, "griddepcontrol.wait;"))
			return true;
		if (moves_more(s))
			return false;
	}
	return false;
}

bool
ptx_waits_first(const char *text)
{
	const char *entry = strstr(text, ".entry "), *s = entry ? strstr(entry, "\n{") : NULL;
	static const char *const read_only[] = {".nc.", "ldu.", "tex."};
	for (int i = 0; i < LEN(read_only); i++)
		if (strstr(text, read_only[i]))
			return false;
	for (s = s ? strchr(s + 1, '\n') : NULL; s; s = strchr(s, '\n')) {
		s += 1 + strspn(s + 1, " \t");
		if (starts(s, "griddepcontrol.wait;"))
			return true;
		if (!is_harmless(s))
			return false;
	}
	return false;
}
