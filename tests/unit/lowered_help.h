/* One launch of a lowered function on the emulator. */
#ifndef TEGULA_TESTS_LOWERED_HELP_H
#define TEGULA_TESTS_LOWERED_HELP_H

#include "runtime/simt/simt.h"

/* False, r filled: what no block may do.  The function must be one that can be lowered. */
static inline bool
run_func(Func *f, const Target *t, const uint64_t *param, int64_t nblocks, SimtReport *r)
{
	static SimtMachine *m;                          /* stacks stay */
	const char *why = "";
	SimtLaunch l = {.param = param, .nblocks = nblocks, .workers = 1};
	SimtCode *c = simt_code_open(f, t, &(SimtCodeOptions){.checks = true, .quick = true}, f->module->cx->mem, &why);
	m = m ? m : simt_open();
	*r = (SimtReport){.failed = true};
	if (c && m) {
		simt_code_launch(c, &l);
		simt_run(m, &l, r);
	} else {
		snprintf(r->text, sizeof r->text, "%s", *why ? why : "it can't be lowered");
	}
	simt_code_close(c);
	return !r->failed;
}

#endif
