/* Formulas of launches: numbers, names, + - * / % ( ) and cdiv, min, max, pow2ceil, floor, sin. */
#ifndef TEGULA_TESTS_MSL_FORMULA_H
#define TEGULA_TESTS_MSL_FORMULA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Formula {
	bool (*name)(void *user, const char *name, size_t n, double *value);
	void *user;
	bool whole;                                     /* / rounds towards zero */
} Formula;

/* False: it is no formula, or has a name that there is not. */
bool formula_value(const Formula *f, const char *text, double *value);

#endif
