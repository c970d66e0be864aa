/* Shadow memory of a sanitized launch. */
#include "ir/interp/plan.h"

struct Shadow {
	const Plan *plan;
};

Shadow *
shadow_open(const Plan *p, const PlanArg *args)
{
	return NULL;
}

void
shadow_close(Shadow *s)
{
}

bool
shadow_tensor(Worker *w, const Op *op, int param, int64_t at, ShadowUse use)
{
	return true;
}

bool
shadow_pointer(Worker *w, const Op *op, const void *at, int size, ShadowUse use)
{
	return true;
}
