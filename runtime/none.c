/* What stands in for the back end of GPU targets until it is there: every compile is refused. */
#include "driver/compile.h"

__attribute__((weak)) bool
compile_artefact(Module *m, const Target *t, Artefact *out)
{
	*out = (Artefact){0};
	diag_error(m->cx, m->funcs.at[0]->place, DIAG_DEVICE_LOAD, m->funcs.at[0]->name, t->name,
	    "compiling for it is not possible yet");
	return false;
}

__attribute__((weak)) void
artefact_close(Artefact *a)
{
	*a = (Artefact){0};
}
