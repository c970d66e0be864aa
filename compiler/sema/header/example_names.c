/* The parameters that an example's line reads, and whether the line computes each element by itself. */
#include "sema/builtin/builtin.h"
#include "sema/header.h"

#include <string.h>

static bool
is_elementwise_call(const Expr *x)
{
	int n;
	const Builtin *b = builtin_table(&n);
	for (int i = 0; i < n; i++) {
		if (strcmp(b[i].name, x->a->name) != 0)
			continue;
		if (ANY_OF(k, x->args.n, x->args.at[k].name && strcmp(x->args.at[k].name, "shape") == 0))
			return false;
		bool fills = b[i].traits & EXAMPLE;
		return strcmp(b[i].family, "math") == 0 || (fills && strcmp(b[i].name, "permutation") != 0);
	}
	return false;
}

static void
names_in_call(const Expr *x, ExampleNames *n)
{
	if (x->a->kind == EX_NAME)
		n->elementwise &= is_elementwise_call(x);
	else
		example_names(x->a, n);
	for (int i = 0; i < x->args.n; i++)
		example_names(x->args.at[i].e, n);
}

void
example_names(const Expr *x, ExampleNames *n)
{
	if (!x)
		return;
	if (x->kind == EX_NAME) {
		for (int i = 0; i < n->k->params.n && i < LEN(n->used); i++) {
			if (strcmp(n->k->params.at[i].name, x->name) != 0)
				continue;
			n->place[i] = n->used[i] ? n->place[i] : x->place;
			n->used[i] = true;
			n->elementwise &= n->k->params.at[i].kind == PARAM_SCALAR;
		}
		return;
	}
	if (x->kind == EX_CALL) {
		names_in_call(x, n);
		return;
	}
	bool plain = x->kind == EX_INT || x->kind == EX_FLOAT || x->kind == EX_UNARY || x->kind == EX_AS ||
	    (x->kind == EX_BINARY && x->bin != BIN_MATMUL);
	n->elementwise &= plain;
	for (int i = 0; i < expr_children(x); i++)
		example_names(expr_child(x, i), n);
}
