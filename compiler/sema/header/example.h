/* Inside sema: what the lines of an example read. */
#ifndef TEGULA_SEMA_EXAMPLE_H
#define TEGULA_SEMA_EXAMPLE_H

#include "sema/elab.h"

typedef struct ExampleNames {
	Kernel *k;
	bool used[64];                                  /* by parameter */
	Place place[64];                                /* of its first use */
	bool elementwise;                               /* nothing but constants, distributions and elementwise math */
} ExampleNames;

/* Adds the parameters that the expression reads. */
void example_names(const Expr *x, ExampleNames *n);

#endif
