/* What stands in for families of ops until they are there: each is refused. */
#include "lower/lower.h"

#define NONE(name)                                                                                 \
	__attribute__((weak)) void name(Lower *l, Op *op)                                          \
	{                                                                                          \
		lower_refuse(l, op, op_info[op->kind].text);                                       \
	}
#define NO_SCRATCH(name)                                                                           \
	__attribute__((weak)) int64_t name(const Op *op)                                           \
	{                                                                                          \
		return 0;                                                                          \
	}

NONE(lower_order)
NONE(lower_move)
NO_SCRATCH(lower_move_scratch)
NO_SCRATCH(lower_order_scratch)
