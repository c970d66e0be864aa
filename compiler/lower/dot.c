/* Matrix products. */
#include "lower/lower.h"

void
lower_dot(Lower *l, Op *op)
{
	lower_refuse(l, op, "dot");
	for (int i = 0; i < op->nout; i++)
		lower_new(l, &op->out[i]);
}

int64_t
lower_dot_scratch(const Op *op, const Target *t)
{
	return 0;
}
