/* Whether a kernel's PTX may be launched while the grid before it still runs.
 *
 * Lowering puts griddepcontrol.wait at the entry (lower.c), but LLVM comes in between, and a source may hold PTX of its
 * own; and what was hoisted over the wait would read what is about to be written, now and then.  So the text itself is
 * asked, and a kernel that does not plainly wait first is launched the plain way, which is always right:
 *
 *     .entry k(…) { .reg …; ld.param …; griddepcontrol.wait; …      no access to memory on any path before the wait
 *     ld.global.nc …                                                only of tables: ptxas moves these up past the wait
 */
#include "compile/compile.h"

#include <stdio.h>
#include <string.h>

static bool
starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Of one instruction, behind its predicate: does it access memory that other grids may see?  Loads but of parameters and
 * shared memory, stores but to that, atomics, copies; and what leads to code elsewhere.  Not hints, nor what these are of
 * (PRIM_PEEK), which no other instruction of ours is. */
static bool
moves(const char *s, bool copies_may)
{
	static const char *const move[] = {"ld", "st", "atom", "red", "tex", "tld", "suld", "sust", "sured", "surd", "cp.",
		"call", "brx", "prefetch", "multimem", "discard", "applypriority", "tensormap", "isspacep"};
	static const char *const own[] = {"ld.param", "ld.shared", "st.shared", "cp.async.wait", "cp.async.commit",
		"prefetch.tensormap", "prefetch.global.L2", "ld.relaxed.gpu.global"};
	if (ANY_OF(i, LEN(own), starts(s, own[i])))
		return false;
	if (ANY_OF(i, LEN(move), starts(s, move[i])))
		return !(copies_may && starts(s, "cp.async.c"));
	return false;
}

/* Behind what stands before an instruction: braces, a predicate. */
static const char *
instruction(const char *s)
{
	s += strspn(s, " \t{}");
	if (*s == '@')
		s += strcspn(s, " \t\n");
	return s + strspn(s, " \t");
}

/* The line behind the label that a branch names; NULL: there is none. */
static const char *
target_of(const char *text, const char *branch)
{
	char label[64];
	const char *name = branch + strcspn(branch, " \t;\n");
	name += strspn(name, " \t");
	int n = snprintf(label, sizeof label, "\n%.*s:", (int)strcspn(name, ";\n"), name);
	const char *at = n < (int)sizeof label ? strstr(text, label) : NULL;
	return at ? strchr(at + 1, '\n') : NULL;
}

enum { LABELS_MOST = 512 };                             /* on paths to the first wait */

/* Lines that paths came by: each is looked at once, however many paths lead there, as of the divisions by which roles find
 * their programs.  A loop that touches no memory may stand before the wait. */
typedef struct Seen {
	const char *at[LABELS_MOST];
	int n;
} Seen;

/* Do all paths from the end of this line wait before they access memory? */
static bool
waits_from(const char *text, const char *s, bool copies_may, Seen *seen)
{
	if (ANY_OF(i, seen->n, seen->at[i] == s))
		return true;
	if (!s || seen->n == LABELS_MOST)
		return false;
	seen->at[seen->n++] = s;
	while (s && *s) {
		const char *at = s + 1 + strspn(s + 1, " \t"), *end = at + strcspn(at, "\n");
		s = *end ? end : NULL;
		if (starts(at, "griddepcontrol.wait;"))
			return true;
		if (starts(at, "$") && at[strcspn(at, " \t\n") - 1] == ':')
			return waits_from(text, s, copies_may, seen);
		if (starts(at, "//") || starts(at, ".") || starts(at, "$"))
			continue;
		for (const char *i = at; i < end; i += strcspn(i, ";\n") + 1) {
			bool is_bare = *i != '@';
			const char *op = instruction(i);
			if (op >= end && !is_bare)      /* what the predicate is of stands elsewhere */
				return false;
			if (op >= end)
				break;
			if (moves(op, copies_may) || starts(op, "ret") || starts(op, "exit") || starts(op, "trap"))
				return false;
			if (!starts(op, "bra"))
				continue;
			if (!waits_from(text, target_of(text, op), copies_may, seen))
				return false;
			if (is_bare)
				return true;
		}
	}
	return false;
}

/* Is the address in this register one of the tables that the code brings along, and a sum?  `name` is behind the percent
 * sign; registers are set once. */
static bool
is_in_table(const char *text, const char *name, int depth)
{
	char set[32];
	int length = (int)strspn(name, "rd0123456789");
	if (depth == 0 || snprintf(set, sizeof set, "\t%%%.*s, ", length, name) >= (int)sizeof set)
		return false;
	const char *at = strstr(text, set);
	if (!at)
		return false;
	bool once = !strstr(at + 1, set), sums = at >= text + 8 && starts(at - 8, "add.s64 ");
	at += strlen(set);
	if (!sums)
		return once && starts(at, "table");
	const char *other = at + strcspn(at, ",\n");
	bool first = *at == '%' && is_in_table(text, at + 1, depth - 1);
	return once && (first || (starts(other, ", %") && is_in_table(text, other + 3, depth - 1)));
}

/* ptxas moves loads of what nothing writes up past the wait: of tensors others write. */
static bool
reads_only(const char *text)
{
	static const char *const read_only[] = {"ldu.", "tex."};
	enum { SUMS = 4 };
	if (ANY_OF(i, LEN(read_only), strstr(text, read_only[i])))
		return true;
	for (const char *s = strstr(text, ".nc."); s; s = strstr(s + 1, ".nc.")) {
		const char *at = s + strcspn(s, "[\n");
		if (!starts(at, "[%") || !is_in_table(text, at + 2, SUMS))
			return true;
	}
	return false;
}

static bool
waits(const char *text, bool copies_may)
{
	const char *entry = strstr(text, ".entry "), *s = entry ? strstr(entry, "\n{") : NULL;
	Seen seen = {.n = 0};
	return !reads_only(text) && s && waits_from(text, strchr(s + 1, '\n'), copies_may, &seen);
}

bool
ptx_waits_late(const char *text)
{
	return waits(text, true);
}

bool
ptx_waits_first(const char *text)
{
	return waits(text, false);
}
