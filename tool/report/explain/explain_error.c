/* How far off what changes were to take was.  A change stands first only where it is clearly faster: also where it takes so
 * much longer than it was to take as eight in ten such changes did at most.  Else it may be.
 *
 *     fast::exp     0.91 of the time, 0.89 to 0.95 by such changes: then 66.4 us (64.8 to 69)
 *     warps = 1     0.92, 0.81 to 1.2: may be faster */
#include "tool/report/explain/explain.h"

#include <string.h>

/* Does it name nothing but words of the schedule; nothing but warps; no word at all? */
typedef struct Named {
	bool all, warps, none;
	int n;
} Named;

static Named
names_of(const Explain *s, const char *values)
{
	Named x = {true, true, true, 0};
	for (const char *at = values; *at; at += strcspn(at, ","), at += strspn(at, ", ")) {
		int word = schedule_named(arena_strndup(s->mem, at, strcspn(at, " ")));
		x.all &= word >= 0;
		x.warps &= word == SCHEDULE_WARPS;
		x.none &= word < 0;
		x.n++;
	}
	return x;
}

const ChangeError *
explain_change_error(const Explain *s, const json_t *change)
{
	/* bench/results/h200-estimates.md */
	static const ChangeError
	    fast = {"to fast:: functions", 18, .92, .98, 1.04},
	    warps = {"of warps", 27, .93, 1.07, 1.42},
	    tiles = {"of tiles", 31, .86, 1.06, 1.37},
	    words = {"of one word of the schedule", 8, .9, 1.1, 1.19},
	    several = {"of several values at once", 47, .92, 1.03, 1.47};
	const char *gains = json_string_value(json_object_get(change, "gains"));
	Named x = names_of(s, json_string_value(json_object_get(change, "values")));
	bool anew = gains && *gains;
	if (json_is_true(json_object_get(change, "fast")))
		return x.n == 1 && !anew ? &fast : &several;
	return anew                ? &several
	       : x.warps           ? &warps
	       : x.none            ? &tiles
	       : x.all && x.n == 1 ? &words
				   : &several;
}

/* "66.4 µs (60.4 to 73)" */
const char *
explain_change_time(const Explain *s, double us, const ChangeError *e)
{
	bool memory;
	double outside, least = explain_least(s, &memory, &outside);
	return arena_printf(s->mem, "%s (%s to %s)", explain_micro(s, us), explain_micro(s, MAX(e->least * us, least)),
	    explain_micro(s, e->most * us));
}

const char *
explain_change_error_said(const Explain *s, const ChangeError *e)
{
	return arena_printf(s->mem,
	    " Of %d changes %s that were to take less, eight in ten took %.2f to %.2f times what they were to (H200).",
	    e->n, e->of, e->least, e->most);
}
