/* What is printed reads back as the same. */
#ifndef TEGULA_TESTS_REPRINT_H
#define TEGULA_TESTS_REPRINT_H

#include "ast/ast.h"

/* Source that was read into cx without an error: fmt(fmt(x)) = fmt(x), and fmt(x) has the same tree as x but for places, and
 * its comments.  NULL, or what is not so. */
const char *reprint_source(Compile *cx, const Ast *ast);

#endif
