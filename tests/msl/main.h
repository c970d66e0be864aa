/* What the files of the command share. */
#ifndef TEGULA_TESTS_MSL_MAIN_H
#define TEGULA_TESTS_MSL_MAIN_H

#include <stdbool.h>
#include <stddef.h>

extern bool msl_verbose;

/* facts.c: how much is wrong with a file; all is printed. */
int msl_facts(const char *path);
int msl_dtype_bytes(const char *t);                         /* 0: there is none of that name */
void msl_put(const char *t, void *to, double v);

#endif
