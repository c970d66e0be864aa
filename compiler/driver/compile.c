/* One call from a bound kernel to tile IR that a device can load: elaborate, then the pipeline. */
#include "driver/compile.h"

Module *
compile_kernel(Kernel *k, const Bound *b, const char *target, const Promises *promises, const PassOptions *opt)
{
	PassOptions plain = {0};
	Module *m = kernel_module(k, b, target);
	if (!m)
		return NULL;
	if (!passes_run(m, NULL, opt ? opt : &plain))
		return NULL;
	return m;
}
