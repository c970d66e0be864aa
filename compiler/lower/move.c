/* Moving elements about. */
#include "lower/lower.h"

void
lower_move(Lower *l, Op *op)
{
	lower_refuse(l, op, "this op");
	for (int i = 0; i < op->nout; i++)
		lower_new(l, &op->out[i]);
}

int64_t
lower_move_scratch(const Op *op)
{
	return 0;
}
