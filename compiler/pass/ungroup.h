/* ungroup.c */
#ifndef TEGULA_UNGROUP_H
#define TEGULA_UNGROUP_H

#include "ir/ir.h"

/* A loop whose trips add up sums of several groups of decoded weights goes by one group; true: it did. */
bool ungroup(Func *f, Op *loop);

#endif
