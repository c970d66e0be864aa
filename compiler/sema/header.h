/* Inside sema: what a kernel's header says, before and after its values are known. */
#ifndef TEGULA_HEADER_H
#define TEGULA_HEADER_H

#include "sema/elab.h"

/* declare.c: a header as far as it can be checked without values */

Kernel *kernel_declare(Program *p, const Item *item);

/* unfold.c: the kernel by two indices instead of one that its body takes apart; as it is, where there is none */

const Item *grid_unfold(const Kernel *k);

/* flat.c */

bool body_divides_indices(const Kernel *k);

/* header.c */

/* Binds with placeholders for what nothing says: every symbol and integer is `extent`.  Value errors stay unsaid. */
bool kernel_bind_placeholder(Kernel *k, int64_t extent, DType dtype, Bound *out);

/* eval.c: header expressions */

/* A compile-time value, or NULL (reported) if the expression has none. */
bool header_eval(Elab *e, const Expr *x, const char *what, Const *out);

/* example_names.c */

typedef struct ExampleNames {
	Kernel *k;
	bool used[64];                                  /* by parameter */
	Place place[64];                                /* of its first use */
	bool elementwise;                               /* nothing but constants, distributions and elementwise math */
} ExampleNames;

/* Adds the parameters that the expression, of a line of an example, reads. */
void example_names(const Expr *x, ExampleNames *n);

#endif
