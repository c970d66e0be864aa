/* Sorting and counting. */
#include "lower/lower.h"

void
lower_order(Lower *l, Op *op)
{
	lower_refuse(l, op, "sort");
	for (int i = 0; i < op->nout; i++)
		lower_new(l, &op->out[i]);
}

int64_t
lower_order_scratch(const Op *op)
{
	return 0;
}
